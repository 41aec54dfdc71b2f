"""The closed loop around a training: draw, read what was drawn, and shift the lessons against the gap."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bias_core.calibration.training.drawing import MEASURED, Drawing, measured

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.calibration.training.aims import Aims


class RoundSize(NamedTuple):
    """Steps of training between two rounds, concepts that a round measures, and pictures of each."""

    n_steps: int = 100
    n_groups: int = 120
    n: int = 6


USUAL = RoundSize()


class Calibration:
    """The rounds of one training; its state goes into the training's checkpoint."""

    def __init__(self, drawing: Drawing, aims: Aims, size: RoundSize = USUAL, *, seed: int) -> None:
        self.drawing, self.aims, self.size = drawing, aims, size
        self.rng = Random(seed)
        self.n_rounds = 0

    def after(self, step: int) -> None:
        """A round where it is time for one."""
        if step and step % self.size.n_steps == 0:
            self.measure()

    def measure(self) -> None:
        """Draw pictures of the neediest groups and shift their lessons."""
        urgency = self.aims.urgency() + np.array([0.05 * self.rng.random() for _ in self.aims.groups])
        chosen = np.argsort(-urgency)[: self.size.n_groups].tolist()
        self.drawing.take_weights()
        seed = MEASURED + 10_000 * self.n_rounds
        shown, n = measured(self.drawing, self.aims.groups, chosen, n=self.size.n, seed=seed, rng=self.rng)
        self.aims.add(self.drawing.corrected(shown / np.maximum(n, 1)) * n, n)
        self.n_rounds += 1
        gaps = np.abs(self.aims.gaps())
        print(
            f"round {self.n_rounds}: mean gap {np.nanmean(gaps):.3f}, largest {np.nanmax(gaps):.2f}",
            flush=True,
        )

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"aims": self.aims.state(), "rng": self.rng.getstate(), "n_rounds": self.n_rounds}

    def take_up(self, saved: Mapping[str, Any]) -> None:
        """Go on with what a checkpoint kept."""
        self.aims.take_up(saved["aims"])
        version, state, gauss = saved["rng"]
        self.rng.setstate((version, tuple(state), gauss))
        self.n_rounds = saved["n_rounds"]
