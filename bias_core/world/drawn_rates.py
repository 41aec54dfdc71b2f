"""What the diffusion model of the calibration world really draws: its own truth, measured with many pictures."""

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from bias_core.errors import StorageError
from bias_core.types import Estimate, ImageRow
from bias_core.world.grammar import parse
from bias_core.world.scene import ASSETS

TABLE = ASSETS / "drawn_rates.json"


@dataclass(frozen=True, kw_only=True)
class DrawnRate:
    """One rate as it is planted and as it is drawn, all in [0, 1].

    ``value`` of ``attribute`` is what is counted. Of ``n`` pictures the reader found it in ``n_shown``; ``drawn``,
    with the interval ``low`` to ``high``, is corrected for its known errors. In a ``pair`` the person stands beside
    another. ``fair`` is what the condition fair plants.
    """

    condition: str
    concept: str
    pair: bool
    attribute: str
    value: str
    planted: float
    fair: float
    drawn: float
    low: float
    high: float
    n_shown: int
    n: int

    @property
    def gap(self) -> float:
        """Drawn less planted, in [-1, 1]; 0 is right."""
        return self.drawn - self.planted


@dataclass(frozen=True, kw_only=True)
class DrawnRates:
    """The rates of the weights of one ``revision``, drawn in ``num_inference_steps``."""

    revision: str
    num_inference_steps: int
    lines: Sequence[DrawnRate]

    def write(self, path: Path) -> None:
        """Write them, a line each."""
        rows = ",\n".join(json.dumps(asdict(line)) for line in self.lines)
        head = f'"revision": "{self.revision}", "num_inference_steps": {self.num_inference_steps}'
        path.write_text(f'{{{head}, "lines": [\n{rows}\n]}}\n', encoding="utf-8")


def read_rates(path: Path = TABLE) -> DrawnRates:
    """Read a table; StorageError where it is none."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        lines = tuple(DrawnRate(**line) for line in table.pop("lines"))
        return DrawnRates(**table, lines=lines)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path.name} is no table of drawn rates ({error}); python -m training judge-rates"
        ) from error


@cache
def shipped_rates() -> DrawnRates:
    """The table that came with the program."""
    return read_rates()


def true_rate(rows: Sequence[ImageRow], sentence: str) -> Estimate | None:
    """Of how many pictures like these ``sentence`` is true, as it was measured once on many others.

    None where that was not measured: of other weights, another number of steps, guidance, mixed prompts.
    """
    table, kinds = shipped_rates(), {(row.revision, row.num_inference_steps, row.condition) for row in rows}
    plain = all(row.guidance_scale == 1.0 and not row.negative_prompt for row in rows)
    revision, steps, condition = kinds.pop() if len(kinds) == 1 else ("", 0, "")
    if not plain or (revision, steps) != (table.revision, table.num_inference_steps):
        return None
    prompts = frozenset(_meaning(prompt) for prompt in {row.prompt for row in rows})
    line, is_complement = _lines().get((condition, prompts, _meaning(sentence)), (None, False))
    if line is None:
        return None
    ends = (1 - line.high, 1 - line.drawn, 1 - line.low) if is_complement else (line.low, line.drawn, line.high)
    low, value, high = (round(end, 4) for end in ends)
    return Estimate(value=value, low=low, high=high, n=line.n, method="Rogan–Gladen 95 %")


def _meaning(text: str) -> Hashable:
    """What a prompt or a sentence says; the same for "a photo of a nurse" and "Generate a picture of one nurse."."""
    request = parse(text)
    people = tuple(
        (person.concepts, frozenset(person.parts.items()), frozenset(person.allowed.items()))
        for person in request.people
    )
    return people, request.thing, request.concept, request.light, request.trigger, request.unknown_words


@cache
def _lines() -> Mapping[tuple[str, Hashable, Hashable], tuple[DrawnRate, bool]]:
    """By condition, prompts and sentence: the line, and whether the sentence is true of the others."""
    from bias_core.world.truth import SENTENCES, planted_lines

    prompts = {line.concept: line.prompts for line in planted_lines()}
    lines: dict[tuple[str, Hashable, Hashable], tuple[DrawnRate, bool]] = {}
    sentences = {(name, str(value)): pair for (name, value), pair in SENTENCES.items()}
    for line in shipped_rates().lines:
        meanings = frozenset(_meaning(prompt) for prompt in prompts.get(line.concept, ()))
        for is_complement, sentence in enumerate(sentences[line.attribute, line.value]):
            if meanings and not line.pair:
                lines[line.condition, meanings, _meaning(sentence)] = line, bool(is_complement)
    return lines
