"""The delete-one-group jackknife, with groups that are independent draws of the same pictures' prompts."""

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.intervals import check_confidence, percent
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
