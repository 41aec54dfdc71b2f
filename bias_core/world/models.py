"""The calibration world's own models: the renderer, which draws at its planted rates, and a finder of people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from bias_core.people import Box, person_halves, whole_picture
from bias_core.protocols import ImageTextEncoder, StepCallback
from bias_core.types import GeneratedImage, ImageRow, ModelInfo
from bias_core.world.grammar import Request, book, parse, plain_words, words_of_the_renderer
from bias_core.world.planted import rates, sample_scene
from bias_core.world.scene import Scene, draw_scene
from bias_core.world.wordings import Wording, planted_languages, wordings_by_prompt

MODEL = "calibration-renderer"
LANGUAGES = "languages"  # condition that plants a bias only in prompts of two languages
_parse_once = lru_cache(maxsize=1024)(parse)


class CalibrationRenderer:
    """Samples a scene per row from the planted rates of ``row.condition`` and draws it.

    The prompt takes part in the seed, so that the pictures of two prompts are independent draws even
    with equal seeds, as the tests that compare two concepts assume. The condition does not, so that the
    conditions differ by their planted bias and not by chance.
    """

    batch_size = 64

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; ``on_step`` is called once after each."""
        for done, row in enumerate(rows, start=1):
            scene = get_scene(row)
            image = draw_scene(scene, row.width)
            if image.height != row.height:
                image = image.resize((row.width, row.height))
            yield GeneratedImage(row=row, image=image, truth=scene.truth())
            if on_step is not None:
                on_step(done, len(rows))


def get_scene(row: ImageRow) -> Scene:
    """Return the scene that the renderer draws for a row; the same every time.

    A prompt of :mod:`bias_core.world.wordings` is read as its English translation. Under the condition ``languages``
    two languages draw every person with the concept's gender under ``extreme``, or as a man if it has none; English
    and the other languages draw as under ``fair``.
    """
    wording, condition = _find_wording(row.prompt), row.condition
    request = _parse_once(row.prompt if wording is None else wording.english)
    if condition == LANGUAGES:
        is_planted = wording is not None and wording.language in planted_languages()
        request, condition = _leaning(request) if is_planted else request, "fair"
    return sample_scene(request, condition, Random(f"{row.seed} {row.prompt}"))


def _find_wording(prompt: str) -> Wording | None:
    """Return the wording in another language; None for English, with all its words known."""
    return wordings_by_prompt().get(prompt) if _parse_once(prompt).unknown_words else None


def _leaning(request: Request) -> Request:
    """Add the gender that ``extreme`` plants for each person's concept, unless the prompt names one."""
    people = []
    for person in request.people:
        by_gender = rates(person.concepts, "extreme", role=person.parts.get("role", "none"))["gender"]
        gender = max(("masculine", "feminine"), key=lambda one: by_gender[one])
        people.append(replace(person, allowed={"gender": frozenset({gender}), **person.allowed}))
    return replace(request, people=tuple(people))


def unknown_words(prompt: str, model: ModelInfo) -> tuple[str, ...]:
    """Words that ``model`` does not know; only the renderer reads other languages and some further words."""
    if _find_wording(prompt) is not None:
        return () if model.family == "renderer" else (prompt,)
    renderer_words = (
        () if model.family == "renderer" else [word for word in plain_words(prompt) if word in words_of_the_renderer()]
    )
    return (*parse(prompt).unknown_words, *renderer_words)


def shown_share(sentence: str, truths: Sequence[Mapping[str, Any]]) -> float | None:
    """Share of pictures for which ``sentence`` is true by the ground truth.

    None if the sentence or a picture is not about exactly one person, or names more than visible
    attributes (an occupation, a thing): the ground truth does not decide those.
    """
    request = parse(sentence)
    alone = len(request.people) == 1 and all(truth.get("n_people") == 1 for truth in truths)
    if not truths or not alone or request.people[0].parts or request.unknown_words:
        return None
    allowed = dict(request.people[0].allowed) | ({"light": request.light} if request.light is not None else {})
    if not allowed:
        return None
    return sum(all(truth[name] in values for name, values in allowed.items()) for truth in truths) / len(truths)


class CalibrationPersonFinder:
    """Finds people in pictures of the calibration world by sentences: one person, two people, or any thing.

    A portrait's box is the whole picture; those of a pair are the halves that ``encoder`` was trained on.
    """

    def __init__(self, encoder: ImageTextEncoder) -> None:
        self.encoder = encoder
        self.name = f"people by {encoder.name}"

    @cached_property
    def _sentences(self) -> np.ndarray:
        things = [f"a photo of a {thing}" for thing in book()["things"]]
        return self.encoder.encode_texts(["a photo of a person", "a photo of two people", *things])

    def find(self, image: Image.Image) -> list[Box]:
        """Return no box, one, or two from left to right."""
        closest = int((self._sentences @ self.encoder.encode_images([image])[0]).argmax())
        if closest == 0:
            return whole_picture(image)
        return person_halves(image) if closest == 1 else []
