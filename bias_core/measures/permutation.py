"""Tests that rearrange what was seen: permutations between two groups, and random signs of differences."""

import itertools
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed, finite_vector
from bias_core.measures.intervals import ROUNDING, check_confidence
from bias_core.types import Estimate
from bias_core.wording import format_percent

Alternative = Literal["two-sided", "greater", "less"]

TIE = 1e-12  # permuted scores this close below the observed one count as equal to it
_LARGEST_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, kw_only=True)
class PermutationTest:
    """Difference of two means against all, or a sample of, the ways to split the pooled values."""

    statistic: float  # mean(x) - mean(y), in the unit of the values
    p_value: float  # in (0, 1], never 0; large where the labels x and y do not matter
    n_permutations: int  # splits looked at; all of them if `exact`
    exact: bool  # True if every split was counted
    # no values of these sizes can give a smaller p. It is that of the observed split alone, or of it and its mirror in
    # a two-sided test of equal sizes.
    smallest_p_value: float
    alternative: Alternative  # differences that count as at least as extreme
    # the difference with p and the interval that inverts this test: the shifts of x against y that it does not reject
    estimate: Estimate


def permutation_test(
    x: ArrayLike,
    y: ArrayLike,
    *,
    n_permutations: int = 1000,
    alternative: Alternative = "two-sided",
    confidence: float = 0.95,
    rng: Seed = 0,
) -> PermutationTest:
    """Test of mean(x) - mean(y) against random splits of the pooled values.

    p = #{|S*| >= |S|} / n_splits over all splits that keep the sizes, if there are at most
    ``n_permutations``; else p = (1 + #{|S*| >= |S|}) / (1 + B) over B random ones. The interval has all shifts δ for
    which the same splits of x - δ and y give p > 1 - confidence [garthwaite1996].

    Parameters
    ----------
    x, y : arrays (n_x,), (n_y,)
    n_permutations : int >= 1
    alternative : {"two-sided", "greater", "less"}. "greater" asks for mean(x) > mean(y).
    rng : seed or Generator. Unused when the test is exact.

    Raises InvalidInput: for empty or not finite samples, when all values are equal, or for an unknown alternative.

    >>> permutation_test([5, 6, 7, 8], [1, 2, 3, 4]).p_value * 70
    2.0
    >>> permutation_test([4, 5, 6], [1, 2, 3]).smallest_p_value  # 2 of C(6, 3) = 20 splits
    0.1
    """
    first, second = finite_vector(x, "x"), finite_vector(y, "y")
    check_confidence(confidence)
    if n_permutations < 1:
        raise InvalidInput(f"n_permutations must be at least 1; got {n_permutations}.")
    if alternative not in ("two-sided", "greater", "less"):
        raise InvalidInput(f'alternative must be "two-sided", "greater" or "less"; got {alternative!r}.')
    pooled = np.concatenate([first, second])
    if np.ptp(pooled) <= TIE:
        raise InvalidInput(f"All {pooled.size} values equal {pooled[0]}: there is nothing to test.")
    observed = float(first.mean() - second.mean())
    n_splits = math.comb(pooled.size, first.size)
    exact = n_splits <= n_permutations
    if exact:  # the observed split is among them
        chosen = np.array(list(itertools.combinations(range(pooled.size), first.size)))  # (n_splits, n_x)
        blocks = iter([chosen])
    else:
        blocks = _random_splits(pooled.size, first.size, n_permutations, np.random.default_rng(rng))
    parts = [
        (_subtract_rest(pooled[block], pooled), _shift_effects(block, first.size, pooled.size)) for block in blocks
    ]
    differences, kept = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not exact:
        differences, kept = np.append(differences, observed), np.append(kept, 1.0)
    estimate = inverted_test(
        observed,
        differences,
        kept,
        n=pooled.size,
        confidence=confidence,
        alternative=alternative,
        method="permutation of both samples",
    )
    return PermutationTest(
        statistic=observed,
        p_value=estimate.p_value,
        n_permutations=n_splits if exact else n_permutations,
        exact=exact,
        smallest_p_value=smallest_p_value(first.size, second.size, n_permutations, alternative),
        alternative=alternative,
        estimate=estimate,
    )


def inverted_test(
    observed: float,
    permuted: Array,
    kept: Array,
    *,
    n: int,
    confidence: float,
    method: str,
    alternative: Alternative = "two-sided",
) -> Estimate:
    """A statistic with p against its permuted values, and the interval that inverts this test.

    After a shift of the units by δ the statistic is D - δ, and a permuted one a - b δ. Where |a - b δ| >= |D - δ| has
    two ends in δ, (D - a) / (1 - b) and (D + a) / (1 + b), so each permutation rejects beyond them, and the interval
    ends where a share of 1 - confidence of them is left.

    Parameters
    ----------
    observed : D
    permuted, kept : arrays (n_permutations,). a, and b, by how much a shift moves it; the observed order (D, 1) is one
        of them.
    n : int. Number of units.

    Returns
    -------
    Estimate : null value 0, p in (0, 1]. Without ends, with a note, where no value could be rejected: too few units.

    >>> inverted_test(1.0, np.array([1.0, 0.5, -1.0]), np.array([1.0, 0.5, -1.0]), n=2, confidence=0.3, method="").high
    1.0
    """
    side = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
    p_value = float(np.mean(side(permuted) >= side(observed) - TIE))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(observed - permuted) / (1 - kept), (observed + permuted) / (1 + kept)])
    always = np.abs(kept) > 1 - ROUNDING  # the observed order, and its mirror
    lows = np.where(always, -math.inf, ends.min(axis=0) if alternative == "two-sided" else ends[0])
    highs = np.where(always, math.inf, ends.max(axis=0) if alternative == "two-sided" else ends[0])
    place = math.floor((1 - confidence) * len(permuted) + ROUNDING)  # so many at most are as extreme if it is rejected
    low, high = (float(np.partition(array, place)[place]) for array in (lows, -highs))
    high = math.inf if alternative == "greater" else -high
    low = -math.inf if alternative == "less" else low
    method = f"{method} {format_percent(confidence)}"
    if not (math.isfinite(low) or math.isfinite(high)):
        note = (
            f"too few units for an interval: p is {1 / len(permuted) * (1 + np.any(kept < ROUNDING - 1)):.2g} at best"
        )
        no_interval = Estimate.without_interval(observed, n, note, null_value=0.0)
        return replace(no_interval, method=method, p_value=p_value)
    if p_value > 1 - confidence + ROUNDING:  # the same by definition, but by rounding an end may lie 1e-17 beyond
        low, high = min(low, 0.0), max(high, 0.0)
    return Estimate(value=observed, low=low, high=high, n=n, null_value=0.0, method=method, p_value=p_value)


_MOST_FLIPPED = 12  # units up to which all 2^n signs are counted


def sign_flip_test(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    n_resamples: int = 4999,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> Estimate:
    """A mean with p of random signs, and the interval that inverts this test.

    Where nothing has an effect, the value of each unit has either sign as often [fisher1935, § 21]. p is the share of
    all 2ⁿ signs (for more than 12 units of random ones and the observed) with a mean as far from 0. The interval has
    all δ for which the values less δ give p > 1 - confidence.

    Parameters
    ----------
    values : array (n,). One per sampling unit, such as the difference of two pictures of a seed.
    weights : array (n,) or None. Then the number is Σ values / Σ weights, such as a score of all people by picture.

    Returns
    -------
    Estimate : null value 0. No interval, with a note, for fewer than six units at 95 %: p is 2 / 2ⁿ at best; and where
        all units are equal, for it would have no width. p is 1 where all values are 0.

    Raises InvalidInput: for empty or not finite values, and weights that are not above 0, one for each.

    >>> mean = sign_flip_test([1, 2, 3, 4, 5, 6])
    >>> mean.p_value, round(mean.low, 2), round(mean.high, 2)
    (0.03125, 1.0, 6.0)
    """
    check_confidence(confidence)
    unit_values = finite_vector(values, "values")
    shares = np.ones_like(unit_values) if weights is None else finite_vector(weights, "weights")
    if len(shares) != len(unit_values) or not shares.min() > 0:
        raise InvalidInput(f"weights are above 0, one for each of {len(unit_values)} values; got {weights!r:.200}.")
    total, n, observed = float(shares.sum()), len(unit_values), float(unit_values.sum() / shares.sum())
    if not np.abs(unit_values).max() > TIE:
        no_effect = Estimate.without_interval(
            observed, n, "every unit gives 0, so there is no interval", null_value=0.0
        )
        return replace(no_effect, p_value=1.0)
    signs = _signs(n, n_resamples, rng) if isinstance(rng, int) else _draw_signs(n, n_resamples, rng)
    method = "signs of the units"
    estimate = inverted_test(
        observed, signs @ unit_values / total, signs @ shares / total, n=n, confidence=confidence, method=method
    )
    if math.isnan(estimate.low) or np.ptp(unit_values / shares) > TIE:
        return estimate
    return replace(estimate, low=math.nan, high=math.nan, note="all units are equal, so there is no interval")


@lru_cache(16)
def _signs(n: int, n_resamples: int, seed: int) -> Array:
    """Remember the signs of a seed: a report has many numbers of as many units."""
    signs = _draw_signs(n, n_resamples, seed)
    signs.flags.writeable = False
    return signs


def _draw_signs(n: int, n_resamples: int, rng: Seed) -> Array:
    """All signs of n units, or as many random ones after the observed signs, ``(n_rows, n)``."""
    if n <= _MOST_FLIPPED:
        return np.asarray(1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1))
    signs = np.random.default_rng(rng).choice((-1.0, 1.0), size=(n_resamples, n))
    return np.vstack([np.ones(n), signs])


def smallest_sign_p(n: int, n_resamples: int = 4999) -> float:
    """Smallest p that random signs of ``n`` units can give: 2 / 2ⁿ, or that of the resamples.

    >>> smallest_sign_p(5), smallest_sign_p(100)
    (0.0625, 0.0002)
    """
    return 2.0 ** (1 - n) if n <= _MOST_FLIPPED else 1 / (1 + n_resamples)


def mean_change_test(changes: ArrayLike, *, confidence: float = 0.95, rng: Seed = 0) -> Estimate:
    """The mean of paired differences in [-1, 1], with p of random signs and an interval that also holds far from 0.

    0 is tested by :func:`sign_flip_test`. Any other value is tested by Student's t with two more differences, +1 and
    -1: |M - δ| > t_{n-1} √(V / (n + 2)), M and V the mean and variance of all n + 2 [bonett2012, for means]. The
    interval spans what is not rejected. So it excludes 0 just where p <= 1 - confidence, has a width where all
    differences are equal, and does not suppose that a shift leaves the shape of differences near 1 alone.

    Parameters
    ----------
    changes : array (n,), in [-1, 1]. One per sampling unit, such as a seed.

    Returns
    -------
    Estimate : in [-1, 1], null value 0; without interval and p, with a note, of one unit.

    Raises InvalidInput: for empty or not finite values, and values outside [-1, 1].

    >>> seeds = mean_change_test([1, 1, 1, 0.5, 1, 1])
    >>> seeds.p_value, round(seeds.low, 2), seeds.high  # 2 / 2⁶
    (0.03125, 0.09, 1.0)
    """
    check_confidence(confidence)
    values = finite_vector(changes, "changes")
    if np.abs(values).max() > 1 + ROUNDING:
        raise InvalidInput(f"changes must lie in [-1, 1]; got {values.min():.3f} to {values.max():.3f}.")
    n, value, padded_values = len(values), float(values.mean()), np.append(values, [1.0, -1.0])
    if n < 2:
        return Estimate.without_interval(value, n, "one sampling unit has no interval", null_value=0.0)
    p_value = sign_flip_test(values, confidence=confidence, rng=rng).p_value if np.abs(values).max() > TIE else 1.0
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(
        float(padded_values.var()) / len(padded_values)
    )
    low, high = (
        max(min(float(padded_values.mean()) - reach, value), -1.0),
        min(max(float(padded_values.mean()) + reach, value), 1.0),
    )
    if p_value > 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)
    elif value > 0:
        low = max(low, sys.float_info.min)
    else:
        high = min(high, -sys.float_info.min)
    method = f"signs of the units, Student's t, adjusted, {format_percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method, p_value=p_value)


def smallest_p_value(n_x: int, n_y: int, n_permutations: int = 1000, alternative: Alternative = "two-sided") -> float:
    """Smallest p that :func:`permutation_test` can give for samples of these sizes.

    That of the observed split alone, or of it and its mirror in a two-sided test of equal sizes.

    Raises InvalidInput: for an empty sample.

    >>> smallest_p_value(3, 3), round(smallest_p_value(4, 4), 3), round(smallest_p_value(25, 25), 3)
    (0.1, 0.029, 0.001)
    """
    if min(n_x, n_y) < 1:
        raise InvalidInput(f"A test needs at least one value a side; got {n_x} and {n_y}.")
    n_splits = math.comb(n_x + n_y, n_x)
    if n_splits > n_permutations:
        return 1 / (1 + n_permutations)
    return (2 if alternative == "two-sided" and n_x == n_y else 1) / n_splits


def _random_splits(n: int, n_x: int, n_permutations: int, rng: np.random.Generator) -> Iterator[NDArray[np.int_]]:
    """Places of x in random splits that keep the sizes, in blocks."""
    block = max(1, _LARGEST_BLOCK // n)
    for start in range(0, n_permutations, block):
        places = np.tile(np.arange(n), (min(block, n_permutations - start), 1))
        yield rng.permuted(places, axis=1, out=places)[:, :n_x]


def _shift_effects(places: NDArray[np.int_], n_x: int, n: int) -> Array:
    """Return by how much a shift of x moves the difference of each split: 1 if all of x stays, -1 if it is y."""
    n_kept = (places < n_x).sum(axis=1)
    return np.asarray(n_kept / n_x - (n_x - n_kept) / (n - n_x))


def _subtract_rest(x: Array, pooled: Array) -> Array:
    """mean(x) - mean(rest) for each row of x, from the fixed sum of all."""
    n_x, n_y = x.shape[1], pooled.size - x.shape[1]
    sums = x.sum(axis=1)
    return np.asarray(sums / n_x - (pooled.sum() - sums) / n_y)
