"""The mean over pictures of given prompts: new seeds are drawn, the prompts stay."""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import finite_vector
from bias_core.stats.intervals import check_confidence, effective_freedom, mean_interval, percent
from bias_core.types import Estimate


def stratified_mean(
    values: ArrayLike,
    strata: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """A mean with value ± t·SE, SE² = Σ_p V_p, V_p = (n_p / n)² s_p² / n_p; t of :func:`effective_freedom`.

    Parameters
    ----------
    values : array (n,). An entry is one picture, or pair of pictures.
    strata : the prompt of each, or None for one prompt. What sets prompts apart is not chance and widens nothing.

    Returns
    -------
    Estimate : where a prompt has one picture alone, prompts are the units (Student's t over their means), as if they
        too had been drawn. Ends are nan, with a note, where nothing varies.

    Raises InvalidInput: for empty or not finite values, or strata that are not one per value.

    >>> estimate = stratified_mean([0.0, 2.0, 10.0, 12.0], ["a", "a", "b", "b"])
    >>> estimate.value, round(estimate.high - 6, 3)  # SE² = 2 · (1/2)² · 2 / 2 = 1/2, t(2) = 4.303
    (6.0, 3.042)
    """
    check_confidence(confidence)
    numbers = finite_vector(values, "values")
    if strata is None:
        return mean_interval(numbers, confidence=confidence, null_value=null_value)
    if len(strata) != len(numbers):
        raise InvalidInput(f"A prompt is needed for each value; got {len(strata)} for {len(numbers)}.")
    codes = np.unique(np.asarray(strata, dtype=str), return_inverse=True)[1]
    sizes = np.bincount(codes)
    means = np.bincount(codes, weights=numbers) / sizes
    if sizes.min() < 2:
        return mean_interval(means, confidence=confidence, null_value=null_value)
    within = np.bincount(codes, weights=(numbers - means[codes]) ** 2) / (sizes - 1)
    parts = (sizes / len(numbers)) ** 2 * within / sizes
    value, n = float(numbers.mean()), len(numbers)
    if not parts.sum():
        note = "the pictures of each prompt are all alike in this, so there is no interval"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
    freedom = effective_freedom(parts, sizes - 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(parts.sum())
    method = f"Student's t, seeds within prompts, {percent(confidence)}"
    return Estimate(value=value, low=value - reach, high=value + reach, n=n, null_value=null_value, method=method)
