"""An adapter that is nearly right learns what its pictures still miss, and keeps everything else.

A table of drawn rates says of each concept, and of people in pairs, how far its rates are from the planted ones. By as
much louder or quieter the text tower should hear each of its words (:mod:`.phrases`): a small step from what it
answers now, so that little can go wrong elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from training.calibrate import Calibration, Nudges
from training.drawing import MEASURED
from training.judge_rates import judge_rates
from training.loop import record
from training.phrases import LEAST, USUAL, USUAL_OTHERS, planted_logit
from training.tower_lora import learn_readings
from training.wanted import AXES, groups

if TYPE_CHECKING:
    from bias_core.world.measured_models import DrawnRate
    from training.diffusion import Folders

LR, N_STEPS = 8e-4, 2000
LEAST_SPREAD = 0.1
"""Least standard deviation of what is wrong, in logits."""
WORTH = 1.4
"""Pictures of independent noises that one of a pair of opposite noises is worth."""
MOST = 0.5
"""The largest change of a word's loudness."""
APART = 100_000_000
"""Between the first pictures of one seed and the next, so that a second time tells of other noises."""
BY_WORDS = {(name, str(value)): (name, value) for name, value in AXES}


def nudges(lines: Sequence[DrawnRate], condition: str) -> Nudges:
    """The changes that a table asks for. A gap that few pictures tell counts less, as by the spread of all gaps.

    Examples
    --------
    >>> from bias_core.world.measured_models import DrawnRate
    >>> who = dict(condition="published", concept="baker", attribute="gender", value="masculine", pair=False)
    >>> line = DrawnRate(planted=0.3, fair=0.5, drawn=0.5, low=0.47, high=0.53, n_shown=500, n=1000, **who)
    >>> round(nudges([line], "published").alone["baker"]["gender", "masculine"], 3)
    -0.141
    """
    here = [line for line in lines if line.condition == condition]
    gaps = np.array([planted_logit(line.drawn) - planted_logit(line.planted) for line in here])
    shares = np.clip([line.drawn for line in here], LEAST, 1 - LEAST)
    chance = 1 / (WORTH * np.array([line.n for line in here]) * shares * (1 - shares))
    spread = max(float(np.mean(gaps**2 - chance)), LEAST_SPREAD**2)
    found = Nudges({}, {})
    for line, gap in zip(here, gaps * spread / (spread + chance), strict=True):
        axis = BY_WORDS[line.attribute, line.value]
        louder = float(np.clip(-gap / USUAL.get(axis[0], USUAL_OTHERS)[1], -MOST, MOST))
        if line.pair:
            found.pairs[line.concept] = louder
        else:
            found.alone.setdefault(line.concept, {})[axis] = louder
    return found


def nudge(condition: str, folders: Folders, *, n: int, n_steps: int = N_STEPS, seed: int = 0) -> None:
    """Measure an adapter with ``n`` pictures of each concept, and let it learn the rest of the way."""
    torch.manual_seed(seed)
    began = time.monotonic()
    first, measured = MEASURED + seed * APART, folders.work / "measured.json"
    table = judge_rates(folders, measured, conditions=[condition], n=n, first=first)
    calibration = Calibration(condition, folders, seed=seed)
    calibration.resume()
    readings = calibration.readings(nudges(table.lines, condition))
    people = [group.prompts[0] for group in groups("published") if group.pair]
    calibration.write(learn_readings(calibration.pipe, readings, people, condition=condition, n_steps=n_steps, lr=LR))
    note = f"steps in which words became louder or quieter, as {n} pictures of each concept told"
    minutes = round((time.monotonic() - began) / 60, 1)
    record(calibration.adapter, n_steps, minutes=minutes, seed=seed, device="cpu", note=note)
