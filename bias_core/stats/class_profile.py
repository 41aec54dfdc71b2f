"""Profile likelihood of shares of classes that a reader with counted errors reads: intervals that know of the bounds.

L(p, M) = Σ_r n_r log(Σ_t p_t M_tr) + Σ_tr c_tr log M_tr: pictures read as each class, and counts c of how pictures of
known classes are read. An interval holds every value of a share (or lean) at which the largest L lies at most χ²/2
below the largest of all [venzon1988]: so a class that errors alone explain may have a share of 0.
"""

from collections.abc import Callable

import numpy as np
from scipy import stats

from bias_core.stats.arrays import Array

_BISECTIONS, _ROUNDS, _FIRST_ROUNDS = 16, 12, 120  # of each end; of EM for each, and for the largest of all
_LEAST = 1e-9  # of a share: nothing is ruled out, and nothing is 0/0
Step = Callable[[Array, Array], Array]
"""The likeliest shares ``(b, k)`` of so many pictures of each class ``(b, k)`` under values ``(b,)``."""


def profile_interval(
    counts: Array, errors: Array, shares: Array, step: Step, value_of: Callable[[Array], float],
    ends: tuple[float, float], confidence: float,
) -> tuple[float, float, float]:  # fmt: skip
    """The likeliest value and both ends of its interval.

    Parameters
    ----------
    counts : array (k,), pictures read as each class.
    errors : array (k, k), how often pictures of each class were read as each.
    shares : array (k,), the likeliest if ``errors`` are exact; where all are above 0 they are the likeliest anyhow.
    step : shares under a value.
    value_of : the value of shares ``(k,)``.
    ends : smallest and largest value.
    """
    matrix = (errors + _LEAST) / (errors + _LEAST).sum(axis=1, keepdims=True)
    free, matrix, best = _fit(counts, errors, None, np.zeros(1), _FIRST_ROUNDS, (shares[None], matrix[None]))
    value, most = value_of(free[0]), best[0] - float(stats.chi2.ppf(confidence, 1)) / 2
    near, far = np.full(2, value), np.array(ends)  # inside of the interval; beyond it, or the end of all
    start = (np.repeat(free, 2, axis=0), np.repeat(matrix, 2, axis=0))
    at_ends = _fit(counts, errors, step, _inside(far, ends), _FIRST_ROUNDS, start)[2]
    open_end = at_ends >= most
    for _ in range(_BISECTIONS):
        middle = (near + far) / 2
        p, matrices, level = _fit(counts, errors, step, _inside(middle, ends), _ROUNDS, start)
        start = p, matrices
        near, far = np.where(level >= most, middle, near), np.where(level >= most, far, middle)
    low, high = np.where(open_end, ends, near)
    return value, min(float(low), value), max(float(high), value)


def share_step(place: int) -> Step:
    """Shares where that of the class at ``place`` is given."""

    def step(pictures: Array, values: Array) -> Array:
        others = np.delete(np.arange(pictures.shape[1]), place)
        rest = pictures[:, others]
        p = np.empty_like(pictures)
        p[:, place] = values
        p[:, others] = (1 - values)[:, None] * rest / rest.sum(axis=1, keepdims=True)
        return p

    return step


def lean_step(pictures: Array, values: Array) -> Array:
    """Shares where (p_2 - p_1) / (1 - p_k) is given; r = p_1 / (1 - p_k) solves a quadratic equation."""
    first, second, neither = pictures[:, 0], pictures[:, 1], pictures[:, 2:-1].sum(axis=1)
    a = -2 * (first + second + neither)
    b = first * (1 - 3 * values) + second * (1 - values) - 2 * neither * values
    c = first * values * (1 - values)
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
    r = (-b - root) / (2 * a)  # the larger one: a is negative
    r = np.clip(r, np.maximum(_LEAST, _LEAST - values), (1 - values) / 2)
    visible = 1 - pictures[:, -1] / pictures.sum(axis=1)
    p = np.empty_like(pictures)
    p[:, 0], p[:, 1], p[:, -1] = visible * r, visible * (r + values), 1 - visible
    of_neither = pictures[:, 2:-1] / np.maximum(neither, _LEAST)[:, None]
    p[:, 2:-1] = (visible * np.maximum(1 - 2 * r - values, 0.0))[:, None] * of_neither
    return np.asarray(np.maximum(p, _LEAST**2))


def _inside(values: Array, ends: tuple[float, float]) -> Array:
    return np.clip(values, ends[0] + _LEAST, ends[1] - _LEAST)


def _fit(
    counts: Array, errors: Array, step: Step | None, values: Array, rounds: int, start: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Shares ``(b, k)``, matrices ``(b, k, k)`` and the log-likelihood ``(b,)`` after so many rounds of EM."""
    p, matrix = np.maximum(start[0], _LEAST), start[1]
    if step is not None:
        p = step(p, values)
    for _ in range(rounds):
        joint = p[:, :, None] * matrix  # (b, k classes, k readings)
        parts = joint * (counts / joint.sum(axis=1))[:, None, :]
        matrix = errors + parts + _LEAST
        matrix /= matrix.sum(axis=2, keepdims=True)
        pictures = parts.sum(axis=2) + _LEAST
        p = pictures / pictures.sum(axis=1, keepdims=True) if step is None else step(pictures, values)
    read = np.einsum("bt,btr->br", p, matrix)
    level = np.log(read) @ counts + np.einsum("tr,btr->b", errors, np.log(matrix))
    return p, matrix, level
