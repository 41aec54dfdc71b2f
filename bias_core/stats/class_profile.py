"""Profile likelihood of shares of classes that a reader with counted errors reads: intervals that know of the bounds.

L(p, M) = Σ_r n_r log(Σ_t p_t M_tr) + Σ_tr c_tr log M_tr: pictures read as each class, and counts c of how pictures of
known classes are read. An interval holds every value of a share (or mean) at which the largest L lies at most χ²/2
below the largest of all [venzon1988]: so a class that errors alone explain may have a share of 0.
"""

from collections.abc import Callable

import numpy as np
from scipy import stats

from bias_core.stats.arrays import Array

_BISECTIONS, _ROUNDS, _FIRST_ROUNDS = 16, 12, 120  # of each end; of EM for each, and for the largest of all
_LEAST = 1e-9  # of a share: nothing is ruled out, and nothing is 0/0
_NEWTON, _SETTLED = 30, 1e-7  # steps at most, until λ moves by less than this part of it
Step = Callable[[Array, Array], Array]


def profile_interval(
    counts: Array, errors: Array, shares: Array, scores: Array, confidence: float
) -> tuple[float, float, float]:
    """The likeliest mean of ``scores`` over the pictures of their classes, and both ends of its interval.

    Parameters
    ----------
    counts : array (m,), pictures read as each class.
    errors : array (m, m), how often pictures of each class were read as each.
    shares : array (m,), the likeliest if ``errors`` are exact; where all are above 0 they are the likeliest anyhow.
    scores : array (k,), not all alike, of the first k classes; pictures of the others are left out of the mean. For a
        share 1 and 0, for a lean -1, 1 and 0.
    """
    matrix = (errors + _LEAST) / (errors + _LEAST).sum(axis=1, keepdims=True)
    free, matrix, best = _fit(counts, errors, None, np.zeros(1), _FIRST_ROUNDS, (shares[None], matrix[None]))
    value = float(free[0, : scores.size] @ scores / free[0, : scores.size].sum())
    most, ends = best[0] - float(stats.chi2.ppf(confidence, 1)) / 2, (float(scores.min()), float(scores.max()))
    step = _step(scores)
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


def _step(scores: Array) -> Step:
    """The likeliest shares ``(b, m)`` of so many pictures of each class whose means of scores are given, ``(b,)``."""
    k, ends = scores.size, (scores.min(), scores.max())
    high = scores == ends[1]

    def of_two(pictures: Array, values: Array) -> Array:
        clear = pictures[:, :k]
        at_high, visible = clear @ high, clear.sum(axis=1)
        share = (values - ends[0]) / (ends[1] - ends[0])
        factors = np.where(
            high, (share * visible / at_high)[:, None], ((1 - share) * visible / (visible - at_high))[:, None]
        )
        return _joined(clear * factors, pictures[:, k:])

    def of_several(pictures: Array, values: Array) -> Array:
        clear = pictures[:, :k]
        gaps = scores - values[:, None]
        p = clear / (1 + _tilt(clear, gaps)[:, None] * gaps)
        return _joined(p * (clear.sum(axis=1) / p.sum(axis=1))[:, None], pictures[:, k:])

    return of_two if np.isin(scores, ends).all() else of_several


def _joined(clear: Array, others: Array) -> Array:
    pictures = np.maximum(np.hstack([clear, others]), _LEAST**2)
    return np.asarray(pictures / pictures.sum(axis=1, keepdims=True))


def _tilt(clear: Array, gaps: Array) -> Array:
    """λ of p_j, proportional to n_j / (1 + λ (s_j − v)), at which the mean of s is v [owen1988].

    By Newton's steps, none of which goes nearer than a tenth of the way to where a share is endless.
    """
    lowest, highest, tilt = -1 / gaps.max(axis=1), -1 / gaps.min(axis=1), np.zeros(len(gaps))
    for _ in range(_NEWTON):
        ratios = gaps / (1 + tilt[:, None] * gaps)
        parts = clear * ratios
        moved = tilt + parts.sum(axis=1) / (parts * ratios).sum(axis=1)
        before, tilt = tilt, np.clip(moved, 0.1 * tilt + 0.9 * lowest, 0.1 * tilt + 0.9 * highest)
        if (np.abs(tilt - before) <= _SETTLED * np.abs(tilt)).all():
            break
    return tilt


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
