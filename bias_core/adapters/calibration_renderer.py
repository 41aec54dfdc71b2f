"""The calibration world drawn exactly at its planted rates, with the truth of every picture."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from bias_core.types import GeneratedImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bias_core.protocols import StepCallback
    from bias_core.types import ImageRow, PlantedLine


class CalibrationRenderer:
    """Samples a scene per row from the planted rates of ``row.condition`` and draws it.

    The prompt takes part in the seed, so that the pictures of two prompts are independent draws even
    with equal seeds, as the tests that compare two concepts assume. The condition does not, so that the
    conditions differ by what is planted and not by chance.
    """

    batch_size = 64

    def generate(
        self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None
    ) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; ``on_step`` is called once after each."""
        from bias_core.calibration.grammar import parse
        from bias_core.calibration.planted import sample_scene
        from bias_core.calibration.render import render

        requests = {prompt: parse(prompt) for prompt in {row.prompt for row in rows}}
        for done, row in enumerate(rows, start=1):
            rng = Random(f"{row.seed} {row.prompt}")
            scene = sample_scene(requests[row.prompt], row.condition, rng)
            image = render(scene, row.width)
            if image.height != row.height:
                image = image.resize((row.width, row.height))
            yield GeneratedImage(row=row, image=image, truth=scene.truth())
            if on_step is not None:
                on_step(done, len(rows))


def planted_lines() -> tuple[PlantedLine, ...]:
    """Every planted rate of the world, in every condition."""
    from bias_core.calibration import truth

    return tuple(truth.planted_lines())


def shown_share(sentence: str, truths: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of pictures whose recorded truth is as ``sentence`` says.

    None where the sentence or a picture is not about exactly one person, or names more than visible
    attributes (an occupation, a thing): the record does not decide those.
    """
    from bias_core.calibration.grammar import parse

    request = parse(sentence)
    alone = len(request.people) == 1 and all(truth.get("n_people") == 1 for truth in truths)
    if not truths or not alone or request.people[0].parts or request.unknown_words:
        return None
    wanted = dict(request.people[0].allowed)
    if request.light is not None:
        wanted["light"] = request.light
    if not wanted:
        return None
    n_shown = sum(all(truth[name] in values for name, values in wanted.items()) for truth in truths)
    return n_shown / len(truths)
