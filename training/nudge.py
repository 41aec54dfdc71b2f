"""An adapter that is nearly right learns what its pictures still miss, and keeps everything else.

A table of drawn rates says of each person, alone and in pairs, how far its share of men is from the planted one. By as
much louder or quieter the text tower should hear its gender (:mod:`.phrases`): a small step from what it answers now,
so that little can go wrong elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import logit

from training.calibrate import Calibration, Nudges
from training.drawing import MEASURED
from training.judge_rates import judge_rates
from training.loop import record
from training.phrases import USUAL, planted_logit
from training.tower_lora import learn_readings
from training.wanted import groups

if TYPE_CHECKING:
    from bias_core.world.drawn_rates import DrawnRate
    from training.diffusion import Folders

LR, N_STEPS = 8e-4, 2000
SPREAD = 0.3
"""Standard deviation of what is wrong in logits; a gap that few pictures tell counts less."""
WORTH = 1.4
"""Pictures of independent noises that one of a pair of opposite noises is worth."""
MOST = 0.2
"""The largest change of a word's loudness."""


def nudges(lines: Sequence[DrawnRate], condition: str) -> Nudges:
    """What a table asks for.

    Examples
    --------
    >>> from bias_core.world.drawn_rates import DrawnRate
    >>> who = dict(condition="published", concept="baker", attribute="gender", value="masculine", pair=False)
    >>> line = DrawnRate(planted=0.3, fair=0.5, drawn=0.5, low=0.47, high=0.53, n_shown=500, n=1000, **who)
    >>> round(nudges([line], "published").alone["baker"], 3)
    -0.137
    """
    found = Nudges({}, {})
    for line in lines:
        if line.condition == condition and line.attribute == "gender":
            drawn = float(np.clip(line.drawn, 0.02, 0.98))
            chance = 1 / (WORTH * line.n * drawn * (1 - drawn))
            believed = SPREAD**2 / (SPREAD**2 + chance)
            gap = believed * (float(logit(drawn)) - planted_logit(line.planted)) / USUAL["gender"][1]
            (found.pairs if line.pair else found.alone)[line.concept] = float(np.clip(-gap, -MOST, MOST))
    return found


def nudge(condition: str, folders: Folders, *, n: int, n_steps: int = N_STEPS, seed: int = 0) -> None:
    """Measure an adapter with ``n`` pictures of each concept, and let it learn the rest of the way."""
    torch.manual_seed(seed)
    began = time.monotonic()
    table = judge_rates(folders, folders.work / "measured.json", conditions=[condition], n=n, first=MEASURED)
    calibration = Calibration(condition, folders, seed=seed)
    calibration.resume()
    readings = calibration.readings(nudges(table.lines, condition))
    people = [group.prompts[0] for group in groups("published") if group.pair]
    calibration.write(learn_readings(calibration.pipe, readings, people, condition=condition, n_steps=n_steps, lr=LR))
    note = f"steps in which genders became louder or quieter, as {n} pictures of each concept told"
    minutes = round((time.monotonic() - began) / 60, 1)
    record(calibration.adapter, n_steps, minutes=minutes, seed=seed, device="cpu", note=note)
