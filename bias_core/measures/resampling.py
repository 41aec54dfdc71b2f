"""Standard errors from the jackknife, and the noise in products of means."""

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Floats
from bias_core.measures.intervals import check_confidence, percent
from bias_core.types import Estimate

MOST_GROUPS = 40
FEWEST_GROUPS = 5


def jackknife_interval(
    statistic: Callable[[NDArray[np.bool_]], float],
    n: int,
    *,
    groups: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """A statistic of n pictures with value ± t·SE, SE² = (g − 1) / g Σ_j (θ₍ⱼ₎ − mean θ₍ⱼ₎)² of g groups left out.

    Parameters
    ----------
    statistic : of the pictures that a mask ``(n,)`` keeps.
    groups : one per picture, or None. Pictures of one group (a seed, drawn once for every prompt) are left out
        together; at least 5 of them are needed. None: every picture is a group, or every 40th together.

    Returns
    -------
    Estimate : ends are nan, with a note, where the statistic is undefined for all pictures or without a group, or does
        not move.

    Raises InvalidInput: for fewer than two pictures, or groups that are not one per picture.

    >>> values = np.array([1.0, 2.0, 3.0, 6.0, 8.0])
    >>> estimate = jackknife_interval(lambda kept: float(values[kept].mean()), 5)
    >>> round(estimate.value, 6), round(estimate.high - 4, 3)  # t(4) · s / √5 = 2.776 · 2.915 / 2.236
    (4.0, 3.62)
    """
    check_confidence(confidence)
    if n < 2 or (groups is not None and len(groups) != n):
        given = "" if groups is None else f" and {len(groups)} groups"
        raise InvalidInput(f"A jackknife needs two pictures or more, and a group for each; got {n} pictures{given}.")
    value = statistic(np.ones(n, dtype=bool))
    codes = np.arange(n) % MOST_GROUPS
    if groups is not None:
        codes = np.unique(np.asarray(groups, dtype=str), return_inverse=True)[1] % MOST_GROUPS
        if codes.max() + 1 < FEWEST_GROUPS:
            note = f"an interval needs {FEWEST_GROUPS} seeds of each prompt; there are {codes.max() + 1}"
            return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    g = int(codes.max()) + 1
    left_out = np.array([statistic(codes != j) for j in range(g)])
    if not (math.isfinite(value) and np.isfinite(left_out).all()):
        note = "undefined, or undefined without some of the pictures"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    error = math.sqrt((g - 1) / g * float(((left_out - left_out.mean()) ** 2).sum()))
    if not error:
        note = "it stays the same whichever pictures are left out, so there is no interval"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    reach = float(stats.t.ppf((1 + confidence) / 2, g - 1)) * error
    method = f"jackknife of {g} groups, t, {percent(confidence)}"
    return Estimate(value=value, low=value - reach, high=value + reach, n=n, null_value=null_value, method=method)


FEWEST_FOR_PAIRS = 4  # rows that the estimate without bias needs


def product_noise(x: Floats, y: Floats) -> float:
    """Variance of (x̄ − E x̄)·(ȳ − E ȳ), of independent samples: tr(Σ_x Σ_y) / (n_x n_y), without bias.

    Parameters
    ----------
    x, y : arrays (n_x, d), (n_y, d), two rows or more of each.

    >>> product_noise(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 1.0]]))  # 2 · 2 / (2 · 2)
    1.0
    """
    n_x, n_y = len(x), len(y)
    return _sum_of_squares(_centred(x), _centred(y)) / ((n_x - 1) * n_x * (n_y - 1) * n_y)


def pair_noise(x: Floats) -> float:
    """Variance that the mean of (x_i − E x)·(x_j − E x) over all pairs has: 2 tr(Σ²) / (n (n − 1)).

    tr(Σ²) is estimated without bias, whatever the distribution [himeno2014]; from less than four rows it cannot be
    told, and the answer is 0.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 5, 3))  # Σ = I: 2 · 3 / (5 · 4)
    >>> round(float(np.mean([pair_noise(one) for one in rows])), 1)
    0.3
    """
    n = len(x)
    if n < FEWEST_FOR_PAIRS:
        return 0.0
    rows = _centred(x)
    lengths = (rows**2).sum(axis=1)
    of_squares, total = _sum_of_squares(rows, rows) / (n - 1) ** 2, float(lengths.sum()) / (n - 1)
    fourth = float((lengths**2).sum()) / (n - 1)
    scale = (n - 1) / (n * (n - 2) * (n - 3))
    trace = scale * ((n - 1) * (n - 2) * of_squares + total**2 - n * fourth)
    return 2 * max(0.0, trace) / (n * (n - 1))


def _sum_of_squares(x: Array, y: Array) -> float:
    """Of all products of a row of x with one of y: tr(x'x y'y), by the smaller arrays."""
    if len(x) * len(y) <= x.shape[1] ** 2:
        return float(((x @ y.T) ** 2).sum())
    return float(((x.T @ x) * (y.T @ y)).sum())


def _centred(rows: Floats) -> Array:
    return np.asarray(rows - rows.mean(axis=0, dtype=np.float64), dtype=np.float64)
