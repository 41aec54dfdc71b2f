"""From what was drawn to the next offsets: one logistic curve per planted rate.

P(drawn) = sigmoid(b + s x offset). ``b`` is each rate's own, and all rates of an axis share the slope ``s``.
Rounds that lie back count less, for the words move on meanwhile.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

FORGETTING = 0.85
"""A round's weight beside that of the next one."""
SPREAD, SLOPE, SLOPE_SPREAD = 1.2, 2.0, 0.7
"""Before any picture: how far ``b`` is from its expected value, and what ``s`` is, give or take."""
LARGEST, LARGEST_STEP = 3.0, 0.8
SURE = 0.985
"""Rates are aimed no nearer to 0 and 1 than 1 - SURE: the logit must stay finite."""


def recency(n: np.ndarray) -> np.ndarray:
    """Weight of every round ``(rounds, g, a)``: 1 for a rate's last round with pictures, before it less."""
    later: np.ndarray = np.cumsum((n > 0)[::-1], axis=0)[::-1] - (n > 0)
    return np.asarray(FORGETTING**later)


def curves(
    offsets: np.ndarray, n_drawn: np.ndarray, n: np.ndarray, expected: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intercepts ``(g, a)`` and slopes ``(a,)`` that explain the rounds best (maximum a posteriori).

    Parameters
    ----------
    offsets, n_drawn, n : ``(rounds, g, a)``: where it stood, pictures with the attribute, pictures.
    expected : ``(g, a)``, in (0, 1): the rate that is expected at offset 0.
    """
    weight = recency(n)
    prior = logit(expected)
    b, s = prior.copy(), np.full(offsets.shape[-1], SLOPE)
    for _ in range(30):
        p = expit(b + s * offsets)
        slack, sure = weight * (n_drawn - n * p), weight * n * p * (1 - p)
        b = b + (slack.sum(0) - (b - prior) / SPREAD**2) / (sure.sum(0) + 1 / SPREAD**2)
        p = expit(b + s * offsets)
        slack, sure = weight * (n_drawn - n * p), weight * n * p * (1 - p)
        pull = (slack * offsets).sum((0, 1)) - (s - SLOPE) / SLOPE_SPREAD**2
        s = s + pull / ((sure * offsets**2).sum((0, 1)) + 1 / SLOPE_SPREAD**2)
        s = np.clip(s, 0.3, 8.0)
    return b, s


def next_offsets(now: np.ndarray, b: np.ndarray, s: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each curve meets the rate that is wanted, at most a step away."""
    aim = np.clip(wanted, 1 - SURE, SURE)
    step = np.clip((logit(aim) - b) / s - now, -LARGEST_STEP, LARGEST_STEP)
    return np.clip(now + step, -LARGEST, LARGEST)
