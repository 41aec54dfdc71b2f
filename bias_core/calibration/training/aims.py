"""Which offset every planted rate has: how far its lessons lean beyond it until the pictures show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from bias_core.calibration.planted import Rates, with_told
from bias_core.calibration.training.wanted import AXES

if TYPE_CHECKING:
    import torch

    from bias_core.calibration.training.wanted import Group

FORGETTING = 0.6
"""Weight of a rate's pictures in one round beside those of the next."""
FEW = 8
"""Pictures that draw a gap halfway towards 0 when no more than these show it."""
UNSURE = 0.5
"""What a rate without any picture counts, beside a gap of 1, for what comes next."""
STEP, LARGEST = 0.5, 3.0
"""Share of the gap, in logits, that an offset moves by, and the largest offset."""
LEAST = 0.015
"""Rates are shifted as if none were nearer to 0 and 1: the logit must stay finite."""


class Aims:
    """The offsets in logits, a row per concept and a column per axis, and what was drawn at last."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.row = {(group.pair, group.concept): i for i, group in enumerate(groups)}
        shape = (len(groups), len(AXES))
        self.planted = np.full(shape, np.nan)
        for i, group in enumerate(groups):
            for axis, rate in group.rates.items():
                self.planted[i, AXES.index(axis)] = rate
        self.offsets, self.n_shown, self.n = np.zeros((3, *shape))

    @property
    def is_planted(self) -> np.ndarray:
        """Which cells of the table have a rate."""
        return ~np.isnan(self.planted)

    def gaps(self) -> np.ndarray:
        """Drawn less planted ``(g, a)`` in the last rounds, nearer 0 where pictures are few; else nan."""
        return (self.n_shown - self.n * self.planted) / (self.n + FEW)

    def urgency(self) -> np.ndarray:
        """Per group, how much it needs lessons and pictures: a large gap, or few pictures so far."""
        need = np.where(self.is_planted, np.abs(self.gaps()) + UNSURE / np.sqrt(1 + self.n), 0.0)
        return np.asarray(need.max(axis=1))

    def add(self, n_shown: np.ndarray, n: np.ndarray) -> None:
        """Take up a round: pictures that show each axis, after correction, and pictures ``(g, a)``.

        An offset moves by a part of logit(planted) - logit(drawn), the drawn rate as :meth:`gaps` has it.
        """
        seen = n > 0
        kept = np.where(seen, FORGETTING, 1.0)
        self.n_shown, self.n = kept * self.n_shown + n_shown * seen, kept * self.n + n
        planted = np.clip(np.where(self.is_planted, self.planted, 0.5), LEAST, 1 - LEAST)
        drawn = np.clip(planted + np.nan_to_num(self.gaps()), LEAST, 1 - LEAST)
        moved = self.offsets + STEP * (logit(planted) - logit(drawn)) * seen
        self.offsets = np.where(self.is_planted, np.clip(moved, -LARGEST, LARGEST), 0.0)

    def shifted(self, names: Sequence[str], table: Rates, *, pair: bool = False) -> Rates:
        """The rates of what has these names, from the most to the least special, moved by its offsets."""
        row = next((self.row[pair, name] for name in names if (pair, name) in self.row), -1)
        if row < 0:
            return table
        told: dict[str, dict[object, float]] = {}
        for a in np.flatnonzero(self.offsets[row]):
            attribute, value = AXES[a]
            rate = np.clip(table[attribute][value], LEAST, 1 - LEAST)
            told.setdefault(attribute, {})[value] = float(expit(logit(rate) + self.offsets[row, a]))
        return {**table, **{name: with_told(table[name], rates) for name, rates in told.items()}}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        import torch

        table = np.stack([self.offsets, self.n_shown, self.n])
        return {"groups": list(self.row), "table": torch.from_numpy(table)}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on with what a checkpoint kept; groups that it does not know begin anew."""
        known = {tuple(key): i for i, key in enumerate(saved["groups"])}
        table: torch.Tensor = saved["table"]
        for key, i in self.row.items():
            if key in known:
                self.offsets[i], self.n_shown[i], self.n[i] = table[:, known[key]].numpy()
