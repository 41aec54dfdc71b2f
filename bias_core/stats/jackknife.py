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
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """A statistic of n pictures with value ± t·SE, SE² = (g − 1) / g Σ_j (θ₍ⱼ₎ − mean θ₍ⱼ₎)² of g groups left out.

    Parameters
    ----------
    statistic : of the pictures that a mask ``(n,)`` keeps.
    groups : one per picture, or None. Pictures of one group (a seed, drawn once for every prompt) are left out
        together. None, or fewer than 5 of them: every picture is a group, or every 40th together.
    strata : the prompt of each picture, or None. Where every picture is a group, and each prompt has two or more, what
        sets prompts apart is not chance: SE² = Σ_p (n_p − 1) / n_p Σ_j (θ₍ⱼ₎ − mean of p)².

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
    sizes_given = [len(names) for names in (groups, strata) if names is not None]
    if n < 2 or any(size != n for size in sizes_given):
        given = "".join(f" and {size} groups" for size in sizes_given)
        raise InvalidInput(f"A jackknife needs two pictures or more, and a group for each; got {n} pictures{given}.")
    value = statistic(np.ones(n, dtype=bool))
    codes = _codes(groups, n)
    own = _codes(strata, n)
    g = int(codes.max()) + 1
    within = g < FEWEST_GROUPS and strata is not None and np.bincount(own).min() > 1
    if g < FEWEST_GROUPS or groups is None:
        codes, g = (np.arange(n), n) if within else (np.arange(n) % MOST_GROUPS, min(n, MOST_GROUPS))
    left_out = np.array([statistic(codes != j) for j in range(g)])
    parts = own if within else np.zeros(g, dtype=int)
    if not (math.isfinite(value) and np.isfinite(left_out).all()):
        note = "undefined, or undefined without some of the pictures"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    sizes = np.bincount(parts)
    middle = np.bincount(parts, weights=left_out) / sizes
    error = math.sqrt(float((((left_out - middle[parts]) ** 2) * ((sizes - 1) / sizes)[parts]).sum()))
    if not error:
        note = "it stays the same whichever pictures are left out, so there is no interval"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    reach = float(stats.t.ppf((1 + confidence) / 2, g - len(sizes))) * error
    method = f"jackknife of {g} groups, t, {percent(confidence)}"
    return Estimate(value=value, low=value - reach, high=value + reach, n=n, null_value=null_value, method=method)


def _codes(names: Sequence[Hashable] | None, n: int) -> NDArray[np.int_]:
    if names is None:
        return np.arange(n)
    return np.asarray(np.unique(np.asarray(names, dtype=str), return_inverse=True)[1])
