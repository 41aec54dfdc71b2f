"""What each condition draws beside what is planted, on pictures that no training ever saw."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import numpy as np

from bias_core.errors import InvalidInput
from training.diffusion import Folders, assemble
from training.drawing import JUDGED, Drawing, measured
from training.wanted import AXES, Group, groups

LEANING = 0.15
"""A rate is planted where it is this far from the fair one."""
NEAR, EVEN = 0.15, 0.10
"""How far from its planted rate a drawn one may be, and a share of men from one half under ``fair``."""


@dataclass(frozen=True, kw_only=True)
class DrawnRate:
    """One rate as it is planted and as it is drawn, all in [0, 1].

    ``value`` of ``attribute`` is what is counted; ``drawn`` is corrected for the reader's known errors, and
    ``n`` pictures are behind it. In a ``pair`` the person stands beside another.
    """

    condition: str
    concept: str
    pair: bool
    attribute: str
    value: str
    planted: float
    fair: float
    drawn: float
    n: int

    @property
    def gap(self) -> float:
        """Drawn less planted, in [-1, 1]; 0 is right."""
        return self.drawn - self.planted


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How well a condition draws what is planted.

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


def judge_rates(folders: Folders, *, conditions: Sequence[str], n: int, pairs: bool = True) -> list[DrawnRate]:
    """Draw ``n`` pictures per concept and condition, and keep what they show in ``judged.json``.

    The lines of other conditions that are there already stay.
    """
    path = folders.loras / "judged.json"
    lines = []
    for condition in conditions:
        pipe = assemble(folders, "cpu")
        if condition != "fair":
            pipe.text_encoder_2 = deepcopy(pipe.text_encoder)  # the adapter is put on both
            pipe.load_lora_weights(folders.loras / condition, adapter_name=condition)
        wanted = [group for group in groups(condition) if pairs or not group.pair]
        lines += drawn_rates(Drawing(pipe, folders.clip), condition, wanted, n)
        print(summary(condition, lines), flush=True)
    kept = [line for line in read_lines(path) if line.condition not in conditions]
    rows = [json.dumps(asdict(line)) for line in [*kept, *lines]]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    return lines


def read_lines(path: Path) -> list[DrawnRate]:
    """What was judged before; an empty list where nothing was."""
    return [DrawnRate(**line) for line in json.loads(path.read_text())] if path.exists() else []


def drawn_rates(drawing: Drawing, condition: str, wanted: Sequence[Group], n: int) -> list[DrawnRate]:
    """One line per concept and axis."""
    if n < 1:
        raise InvalidInput(f"A rate needs at least one picture per concept; got n = {n}.")
    shown, drawn = measured(drawing, wanted, range(len(wanted)), n=n, seed=JUDGED, rng=Random(JUDGED))
    shares = drawing.corrected(shown / np.maximum(drawn, 1))
    return [
        DrawnRate(
            condition=condition, concept=group.concept, pair=group.pair,
            attribute=axis[0], value=str(axis[1]), planted=round(rate, 4), fair=round(group.fair[axis], 4),
            drawn=round(float(shares[i, AXES.index(axis)]), 4), n=int(drawn[i, 0]),
        )
        for i, group in enumerate(wanted) if drawn[i, 0]
        for axis, rate in group.rates.items()
    ]  # fmt: skip
