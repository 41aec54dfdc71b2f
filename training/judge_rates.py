"""Drawn and planted rates of each condition, on pictures that no training ever saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.measures.effects import corrected_by_errors
from bias_core.measures.intervals import wilson_interval
from bias_core.store.files import FileHashes
from bias_core.world.measured_models import DrawnRate, DrawnRates, read_drawn_rates
from training.diffusion import Folders, assemble
from training.drawing import JUDGED, STEPS, Drawing, measured
from training.wanted import AXES, Axis, Group, groups

LEANING = 0.15
"""A rate is planted where it is this far from the fair one."""
NEAR, EVEN = 0.15, 0.10
"""Largest distance of a drawn rate from the planted one, and of a share of men from one half under ``fair``."""
AT_ONCE = 20
"""Pictures of each concept before the table is written again."""
SEEDS_APART = 100_000
"""Between the first pictures of one more of each concept; more than there are concepts."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Distance of the drawn rates of a condition from the planted ones.

    ``n_leaning`` rates are planted 0.15 or more from the fair one; of these: the share in [0, 1] drawn to the
    planted side of the fair rate, the mean absolute gap in [0, 1], and the share ``near``, with a gap of at
    most 0.15. Of ``n_fair`` planted shares of men that are one half, ``even`` are drawn within 0.10 of it.
    Shares are best at 1, gaps at 0; nan where there is nothing to tell from.
    """

    condition: str
    n_leaning: int
    right_direction: float
    mean_gap: float
    near: float
    n_fair: int
    even: float


def summary(condition: str, lines: Iterable[DrawnRate]) -> Summary:
    """The four figures of one condition, pairs included."""
    here = [line for line in lines if line.condition == condition]
    leaning = [line for line in here if abs(line.planted - line.fair) >= LEANING - 1e-9]
    halves = [line for line in here if line.attribute == "gender" and line.planted == 0.5]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if values else float("nan")

    return Summary(
        condition=condition,
        n_leaning=len(leaning),
        right_direction=mean([(x.drawn - x.fair) * (x.planted - x.fair) > 0 for x in leaning]),
        mean_gap=mean([abs(x.gap) for x in leaning]),
        near=mean([abs(x.gap) <= NEAR for x in leaning]),
        n_fair=len(halves),
        even=mean([abs(x.drawn - 0.5) <= EVEN for x in halves]),
    )


def revision(folders: Folders) -> str:
    """The version of these weights, in the words of the program's own record of a picture."""
    with TemporaryDirectory() as work:
        hashes = FileHashes(Path(work) / "hashes.sqlite")
        found = f"{hashes.fingerprint(folders.pipeline)}-{hashes.fingerprint(folders.loras)[:6]}"
        hashes.close()
    return found


def judge_rates(
    folders: Folders, table: Path, *, conditions: Sequence[str], n: int, pairs: bool = True, steps: int = STEPS,
    first: int = JUDGED,
) -> DrawnRates:  # fmt: skip
    """Draw until there are ``n`` pictures of each concept and condition, and keep what they show in ``table``.

    What the table has of these weights and as many steps counts, so that a run that was cut off goes on.
    """
    if n < 1:
        raise InvalidInput(f"A rate needs at least one picture per concept; got n = {n}.")
    made_by = revision(folders)
    rates = DrawnRates(revision=made_by, num_inference_steps=steps, lines=())
    if table.exists() and (old := read_drawn_rates(table)).revision == made_by and old.num_inference_steps == steps:
        rates = old
    for condition in conditions:
        pipe = assemble(folders, "cpu")
        if condition != "fair":
            pipe.text_encoder_2 = deepcopy(pipe.text_encoder)  # the adapter is put on both
            pipe.load_lora_weights(folders.loras / condition, adapter_name=condition)
        wanted = [group for group in groups(condition) if pairs or not group.pair]
        drawing = Drawing(pipe, folders.clip)
        for lines in drawn_rates(drawing, condition, wanted, n, steps=steps, before=rates.lines, first=first):
            others = [x for x in rates.lines if x.condition != condition or (x.pair and not pairs)]
            rates = DrawnRates(revision=made_by, num_inference_steps=steps, lines=(*others, *lines))
            rates.write(table)
        print(summary(condition, rates.lines), flush=True)
    return rates


def drawn_rates(
    drawing: Drawing, condition: str, wanted: Sequence[Group], n: int, *, steps: int = STEPS,
    before: Sequence[DrawnRate] = (), first: int = JUDGED,
) -> Iterator[list[DrawnRate]]:  # fmt: skip
    """One line per concept and axis, again and again with more pictures, until there are ``n`` or more of each.

    ``before`` are lines of earlier pictures, which count; ``first`` is the first seed.
    """
    lines = {
        (line.concept, line.pair, (line.attribute, line.value)): line for line in before if line.condition == condition
    }
    shown, drawn = np.zeros((2, len(wanted), len(AXES)))
    for i, group in enumerate(wanted):
        for a, axis in enumerate(AXES):
            if line := lines.get((group.concept, group.pair, _words(axis))):
                shown[i, a], drawn[i] = line.n_shown, line.n
    while len(some := np.flatnonzero(drawn[:, 0] < n).tolist()):
        done = int(drawn[some, 0].min())
        seed, m = first + SEEDS_APART * done, min(AT_ONCE, n - done)
        m += m % 2  # for the sake of noise and its opposite, and of seats in pairs
        counts = measured(drawing, wanted, some, n=m, seed=seed, rng=Random(seed), steps=steps)
        shown, drawn = shown + counts[0], drawn + counts[1]
        yield [_line(drawing, condition, group, axis, shown[i], drawn[i]) for i, group in enumerate(wanted)
               for axis in group.rates if drawn[i, 0]]  # fmt: skip


def _words(axis: Axis) -> tuple[str, str]:
    return axis[0], str(axis[1])


def _line(
    drawing: Drawing, condition: str, group: Group, axis: Axis, shown: np.ndarray, drawn: np.ndarray
) -> DrawnRate:
    a = AXES.index(axis)
    errors, n_shown, n = drawing.errors[a], int(shown[a]), int(drawn[a])
    share = corrected_by_errors(n_shown, n, errors) if errors else wilson_interval(n_shown, n)
    attribute, value = _words(axis)
    return DrawnRate(
        condition=condition, concept=group.concept, pair=group.pair, attribute=attribute, value=value,
        planted=round(group.rates[axis], 4), fair=round(group.fair[axis], 4),
        drawn=round(share.value, 4), low=round(share.low, 4), high=round(share.high, 4), n_shown=n_shown, n=n,
    )  # fmt: skip
