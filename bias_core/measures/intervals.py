"""Intervals of shares and means, exact tests of shares, permutation tests, and the jackknife."""

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Floats, finite_vector, probability
from bias_core.types import Estimate

Seed = int | np.random.Generator
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


def permutation_test(
    x: ArrayLike, y: ArrayLike, *, n_permutations: int = 1000, alternative: Alternative = "two-sided", rng: Seed = 0
) -> PermutationTest:
    """Test of mean(x) - mean(y) against random splits of the pooled values.

    p = #{|S*| >= |S|} / n_splits over all splits that keep the sizes, if there are at most
    ``n_permutations``; else p = (1 + #{|S*| >= |S|}) / (1 + B) over B random ones.

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
        blocks = iter([_differences(pooled[chosen], pooled)])
    else:
        blocks = _random_splits(pooled, first.size, n_permutations, np.random.default_rng(rng))
    side = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
    n_extreme = sum(int(np.count_nonzero(side(block) >= side(observed) - TIE)) for block in blocks)
    p_value = n_extreme / n_splits if exact else (1 + n_extreme) / (1 + n_permutations)
    return PermutationTest(
        statistic=observed,
        p_value=p_value,
        n_permutations=n_splits if exact else n_permutations,
        exact=exact,
        smallest_p_value=smallest_p_value(first.size, second.size, n_permutations, alternative),
        alternative=alternative,
    )


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


def _random_splits(pooled: Array, n_x: int, n_permutations: int, rng: np.random.Generator) -> Iterator[Array]:
    """Differences of means of random splits that keep the sizes, in blocks."""
    block = max(1, _LARGEST_BLOCK // pooled.size)
    for start in range(0, n_permutations, block):
        copies = np.tile(pooled, (min(block, n_permutations - start), 1))
        yield _differences(rng.permuted(copies, axis=1, out=copies)[:, :n_x], pooled)


def _differences(x: Array, pooled: Array) -> Array:
    """mean(x) - mean(rest) for each row of x, from the fixed sum of all."""
    n_x, n_y = x.shape[1], pooled.size - x.shape[1]
    sums = x.sum(axis=1)
    return np.asarray(sums / n_x - (pooled.sum() - sums) / n_y)


Statistic = Callable[..., Any]

_ROUNDING = 1e-12  # numbers that differ by less are equal up to rounding
_TELLING_DIGITS = 12  # of a statistic of 64-bit floats
_LARGEST_BCA = 2_000  # beyond it the skewness that BCa corrects is gone and its jackknife is n x n


def wilson_interval(
    n_positive: float, n: float, *, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """A share of n with its Wilson interval, (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Parameters
    ----------
    n_positive : float in [0, n]
    n : float >= 1. A number that is not whole is an effective one.
    null_value : the share that would mean "no bias", if there is one.

    Returns
    -------
    Estimate : in [0, 1]; the interval has a width even at 0 and 1.

    Raises InvalidInput: if n < 1 or n_positive lies outside [0, n].

    >>> estimate = wilson_interval(8, 10)
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.49, 0.943)
    """
    from statsmodels.stats.proportion import proportion_confint

    check_confidence(confidence)
    if not (n >= 1 and 0 <= n_positive <= n):
        raise InvalidInput(f"A share needs 0 <= n_positive <= n and n >= 1; got {n_positive} of {n}.")
    low, high = proportion_confint(n_positive, n, alpha=1 - confidence, method="wilson")
    share = n_positive / n
    low, high = min(float(low), share), max(float(high), share)  # the formula is 1e-17 off at 0 and at 1
    method = f"Wilson {percent(confidence)}"
    return Estimate(value=share, low=low, high=high, n=int(n), null_value=null_value, method=method)


def bootstrap_interval(
    *samples: ArrayLike,
    statistic: Statistic,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    rng: Seed = 0,
    null_value: float | None = None,
) -> Estimate:
    """A statistic of one or more independent samples with its bootstrap interval.

    Parameters
    ----------
    *samples : arrays (n_i,). Each is resampled on its own, entry by entry; an entry is one sampling unit.
    statistic : callable ``statistic(*samples, axis)``. Vectorised along ``axis``.
    null_value : value without bias.

    Returns
    -------
    Estimate : BCa up to 2,000 units, percentile beyond and wherever BCa is undefined; ``method`` says which. With a
        single unit in a sample ``low`` and ``high`` are nan and ``note`` says so; ``n`` counts all units.

    Raises InvalidInput: for empty or not finite samples.

    >>> bootstrap_interval([1.0, 2.0, 3.0, 6.0], statistic=np.mean).value
    3.0
    """
    check_confidence(confidence)
    vectors = [finite_vector(sample, "sample") for sample in samples]
    n = sum(map(len, vectors))
    value = float(statistic(*vectors, axis=-1))
    if min(map(len, vectors)) < 2:
        return Estimate.without_interval(value, n, "one sampling unit has no interval", null_value=null_value)
    constant = all(np.ptp(vector) <= _ROUNDING for vector in vectors)
    methods = ("percentile",) if constant or n > _LARGEST_BCA else ("BCa", "percentile")
    for method in methods:
        low, high = _scipy_bootstrap(vectors, statistic, confidence, n_resamples, rng, method)
        if math.isfinite(low) and math.isfinite(high):
            break
    method, note = f"bootstrap ({method}) {percent(confidence)}", "all units are equal, so the interval has no width"
    note = note if constant else ""
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, note=note)


def difference_interval(n_up: int, n_down: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """Share of the same ``n`` that goes up minus the share that goes down, with its adjusted Wald interval.

    With p̃ = (count + 1) / (n + 2) for both counts: p̃_up - p̃_down ± z √((p̃_up + p̃_down - (p̃_up - p̃_down)²) / (n + 2))
    [bonett2012]. In [-1, 1], null value 0; it has a width even where nothing goes either way.

    >>> difference_interval(6, 2, 10).value
    0.4
    """
    check_confidence(confidence)
    up, down = (n_up + 1) / (n + 2), (n_down + 1) / (n + 2)
    middle, value = up - down, (n_up - n_down) / n
    return adjusted_wald(value, middle, (up + down - middle**2) / (n + 2), n=n, confidence=confidence)


def mcnemar_p_value(n_up: int, n_down: int) -> float:
    """Two-sided p of McNemar's exact test: of as many pairs that change one way as the other [mcnemar1947].

    In (0, 1]: a p that is smaller than any number is the smallest one.

    >>> mcnemar_p_value(6, 0)  # 2 / 2⁶
    0.03125
    """
    # binomtest takes nine times as long.
    p_value = 2 * float(scipy.stats.binom.cdf(min(n_up, n_down), n_up + n_down, 0.5))
    return min(1.0, max(p_value, sys.float_info.min))


def adjusted_wald(value: float, middle: float, variance: float, *, n: int, confidence: float) -> Estimate:
    """A mean of ``n`` paired differences; the interval lies around the ``middle``, the mean with two pairs more.

    >>> round(adjusted_wald(0.0, 0.0, 0.25, n=2, confidence=0.95).high, 3)
    0.98
    """
    reach = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
    return Estimate(
        value=value,
        low=min(value, max(-1.0, middle - reach)),
        high=max(value, min(1.0, middle + reach)),
        n=n,
        null_value=0.0,
        method=f"adjusted Wald for pairs {percent(confidence)}",
    )


def percentile_estimate(
    value: float, resampled: ArrayLike, *, n: int, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """Estimate with the percentile interval of given resamples.

    Parameters
    ----------
    value : float
    resampled : array (n_resamples,). The statistic of each bootstrap resample in which it is defined.
    n : int. Number of sampling units.

    Returns
    -------
    Estimate : ``low`` and ``high`` are nan, with a note, where all resamples agree, or there is none: too few units
        differ.

    Raises InvalidInput: for resamples that are not finite.

    >>> percentile_estimate(2.0, [1.0, 2.0, 3.0], n=5, confidence=0.5).low
    1.5
    """
    check_confidence(confidence)
    values = finite_vector(resampled, "resampled") if np.size(resampled) else np.zeros(1)
    low, high, note = math.nan, math.nan, "too few different units for an interval"
    if np.ptp(values) > _ROUNDING:
        low, high = (float(end) for end in np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2]))
        note = ""
    method = f"bootstrap (percentile) {percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, note=note)


def expanded_confidence(n: int, confidence: float = 0.95) -> float:
    """The level at which a percentile interval of ``n`` units is as long as that of Student's t.

    2 Φ(t √(n/(n−1))) − 1, t the quantile of n − 1 degrees of freedom   [hesterberg2015, expanded percentiles]

    Parameters
    ----------
    n : int >= 2

    Raises InvalidInput: for fewer units.

    >>> round(expanded_confidence(16), 3), round(expanded_confidence(1000), 3)
    (0.972, 0.95)
    """
    check_confidence(confidence)
    if n < 2:
        raise InvalidInput(f"n must be at least 2; got {n}.")
    t = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(n / (n - 1))
    return min(float(2 * scipy.stats.norm.cdf(t) - 1), 1 - 1e-12)


def normal_estimate(
    value: float, standard_error: float, *, n: int, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """An estimate with the interval value ± z·SE; nan ends with a note where SE is nan.

    >>> round(normal_estimate(1.0, 0.5, n=9).high, 2)
    1.98
    """
    check_confidence(confidence)
    reach = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * standard_error
    note = "a set with one image has no standard error" if math.isnan(reach) else ""
    method, low, high = f"normal {percent(confidence)}", value - reach, value + reach
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, note=note)


def mean_interval(
    x: ArrayLike, y: ArrayLike | None = None, *, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """A mean, or a difference of two, with the interval of Student's t.

    mean(x) ± t SE, SE² = s_x²/n_x, with n_x − 1 degrees of freedom; or mean(x) − mean(y) ± t SE,
    SE² = s_x²/n_x + s_y²/n_y, with SE⁴ / ((s_x²/n_x)²/(n_x−1) + (s_y²/n_y)²/(n_y−1)) of them  [welch1947]

    Parameters
    ----------
    x, y : arrays (n_x,), (n_y,). An entry is one sampling unit; the samples may vary unequally.
    null_value : value without bias.

    Returns
    -------
    Estimate : ``low`` and ``high`` are nan, with a note, for a sample of one unit and where all units of each sample
        are equal; ``n`` counts all units.

    Raises InvalidInput: for empty or not finite samples.

    >>> round(mean_interval([1.0, 2.0, 3.0]).high, 3)  # 2 + 4.303 / √3
    4.484
    """
    check_confidence(confidence)
    samples = [finite_vector(sample, "sample") for sample in ((x,) if y is None else (x, y))]
    means = [float(sample.mean()) for sample in samples]
    value, n = means[0] - sum(means[1:]), sum(map(len, samples))
    method = f"Student's t{'' if y is None else ' (Welch)'}"
    if min(map(len, samples)) < 2 or all(np.ptp(sample) <= _ROUNDING for sample in samples):
        few = min(map(len, samples)) < 2
        note = "one sampling unit has no interval" if few else "all sampling units are equal, so there is no interval"
        no_interval = Estimate.without_interval(value, n, note, null_value=null_value)
        return replace(no_interval, method=f"{method} {percent(confidence)}")
    squares = [float(sample.var(ddof=1)) / len(sample) for sample in samples]
    parts = sum(square**2 / (len(sample) - 1) for square, sample in zip(squares, samples, strict=True))
    error, freedom = math.sqrt(sum(squares)), sum(squares) ** 2 / parts
    return t_interval(value, error, freedom, n=n, confidence=confidence, method=method, null_value=null_value)


def t_interval(
    value: float,
    error: float,
    freedom: float,
    *,
    n: int,
    confidence: float = 0.95,
    method: str = "Student's t",
    null_value: float | None = None,
) -> Estimate:
    """A value ± t times its standard error, t of Student with these degrees of freedom.

    >>> round(t_interval(2.0, 1 / math.sqrt(3), 2, n=3).high, 3)  # 2 + 4.303 / √3
    4.484
    """
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, freedom)) * error
    method = f"{method} {percent(confidence)}"
    return Estimate(value=value, low=value - reach, high=value + reach, n=n, null_value=null_value, method=method)


def effective_freedom(squares: ArrayLike, freedoms: ArrayLike) -> float:
    """Degrees of freedom of a sum of estimated variances: (Σ V)² / Σ (V² / (ν + 2)) − 2, at most Σ ν  [welch1947].

    With ν in place of ν + 2 and nothing taken off, as of two samples of some size, E V² is read as (E V)², and few
    degrees of freedom each come out as still fewer together: eight with one each as about three.

    Parameters
    ----------
    squares, freedoms : arrays (k,). The variances V, of which one at least is not 0, and their degrees of freedom ν.

    >>> effective_freedom([1.0, 1.0], [5, 5]), round(effective_freedom([1.0, 0.0], [5, 5]), 6)
    (10.0, 5.0)
    """
    parts, own = np.asarray(squares, dtype=np.float64), np.asarray(freedoms, dtype=np.float64)
    return float(min(parts.sum() ** 2 / (parts**2 / (own + 2)).sum() - 2, own.sum()))


def fieller_interval(numerator: float, denominator: float, covariance: ArrayLike, reach: float) -> tuple[float, float]:
    """Ends of the interval of a ratio of two means N / D: all ρ with (N − ρD)² <= t² Var(N − ρD)  [fieller1954].

    Parameters
    ----------
    covariance : array (2, 2). Of N and D.
    reach : float. t, how many standard errors count as near.

    Returns
    -------
    floats : nan where D is not told from 0 (D² <= t² Var D): no ratio is then ruled out.

    >>> [round(end, 6) for end in fieller_interval(2.0, 1.0, [[0.01, 0.0], [0.0, 0.0]], 2.0)]
    [1.8, 2.2]
    >>> fieller_interval(2.0, 0.1, [[0.01, 0.0], [0.0, 0.01]], 2.0)
    (nan, nan)
    """
    (nn, nd), (_, dd) = (np.asarray(covariance, dtype=np.float64) * reach**2).tolist()
    a, b, c = denominator**2 - dd, numerator * denominator - nd, numerator**2 - nn
    if not a > 0:
        return math.nan, math.nan
    root = math.sqrt(max(b * b - a * c, 0.0))
    return (b - root) / a, (b + root) / a


def folded_interval(low: float, high: float) -> tuple[float, float]:
    """Ends of the interval of |x| from that of x: from 0 on where it holds 0; nan stays nan.

    >>> folded_interval(-0.2, 0.1), folded_interval(-0.3, -0.1)
    ((0.0, 0.2), (0.1, 0.3))
    """
    if low <= 0 <= high:
        return 0.0, max(-low, high)
    near, far = sorted((abs(low), abs(high)))
    return near, far


def check_confidence(confidence: float) -> None:
    """Raise InvalidInput unless confidence lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must be between 0 and 1, e.g. 0.95; got {confidence}.")


def percent(confidence: float) -> str:
    """0.95 as "95 %"."""
    return f"{100 * confidence:g} %"


def _scipy_bootstrap(
    vectors: list[Array], statistic: Statistic, confidence: float, n_resamples: int, rng: Seed, method: str
) -> tuple[float, float]:
    largest = max(float(np.abs(vector).max()) for vector in vectors)
    digits = _TELLING_DIGITS - math.ceil(math.log10(largest)) if largest > 0 else 0

    def rounded(*samples: Array, axis: int) -> Array:
        """BCa counts resamples below the value: those of the same units, summed in another order, are no lower."""
        return np.round(np.asarray(statistic(*samples, axis=axis)), digits)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)  # shows as nan, which is checked
        warnings.simplefilter("ignore", RuntimeWarning)
        result = scipy.stats.bootstrap(
            vectors,
            rounded,
            vectorized=True,
            axis=-1,
            confidence_level=confidence,
            n_resamples=n_resamples,
            batch=max(1, _LARGEST_BLOCK // max(map(len, vectors))),
            method=method,
            rng=np.random.default_rng(rng),
        )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


EXACT = "exact binomial"  # how the method of such an interval begins
_MOST_REMEMBERED = 65_536  # counts with remembered ends
_NEAR = 1e-14  # how near a root is found


def exact_interval(n_positive: int, n: int, *, confidence: float = 0.95, null_value: float | None = None) -> Estimate:
    """A share of n with Blaker's interval: the shares that :func:`exact_p_value` does not reject.

    {p : min(1, P(X >= k) + P(X <= j)) > α} and what lies between, for p below k / n; j is the largest count with a tail
    is no more probable than the observed one   [blaker2000, Sec. 3]

    Parameters
    ----------
    n_positive : int in [0, n]
    n : int >= 1
    null_value : the share that would mean "no bias", if there is one.

    Returns
    -------
    Estimate : in [0, 1]. At every n and every true share the interval misses it at most as often as ``confidence``
        says; it lies within that of Clopper and Pearson.

    Raises InvalidInput: for counts that are not whole, n < 1, or n_positive outside [0, n].

    >>> estimate = exact_interval(8, 10)
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.444, 0.963)
    """
    check_confidence(confidence)
    k, n = _counts(n_positive, n)
    low, high = _lower_end(k, n, 1 - confidence), 1 - _lower_end(n - k, n, 1 - confidence)
    method = f"{EXACT} {percent(confidence)}"
    return Estimate(value=k / n, low=low, high=high, n=n, null_value=null_value, method=method)


def exact_p_value(n_positive: int, n: int, null_value: float) -> float:
    """Two-sided p of the exact binomial test of a share: at most α just where Blaker's interval leaves out the null.

    P(X >= k) + P(X <= j) as for :func:`exact_interval`, and no less than at any share that lies farther away
    [blaker2000, Sec. 3].

    Raises InvalidInput: as :func:`exact_interval`, and for a null value outside [0, 1].

    >>> round(exact_p_value(8, 10, 0.5), 4)  # 2 (1 + 10 + 45) / 2¹⁰
    0.1094
    """
    k, n = _counts(n_positive, n)
    null = probability(null_value, "null_value")
    if n * null >= k:  # as if the null lay below the share
        k, null = n - k, 1 - null
    tail = _at_least(k, n, null)
    j = min(k, int(scipy.stats.binom.ppf(tail, n, null))) - 1
    j += _at_most(j + 1, n, null) <= tail and j + 1 < k
    if j < 0:
        return tail
    return min(1.0, max(tail + _at_most(j, n, null), 2 * _at_least(k, n, _equal_tails(j, k, n))))


def _counts(n_positive: float, n: float) -> tuple[int, int]:
    if not (float(n_positive).is_integer() and float(n).is_integer() and n >= 1 and 0 <= n_positive <= n):
        raise InvalidInput(f"A share needs whole 0 <= n_positive <= n and n >= 1; got {n_positive} of {n}.")
    return int(n_positive), int(n)


def _at_least(k: int, n: int, share: float) -> float:
    return float(special.bdtrc(k - 1, n, share))


def _at_most(j: int, n: int, share: float) -> float:
    return float(special.bdtr(j, n, share)) if j >= 0 else 0.0


@lru_cache(_MOST_REMEMBERED)
def _equal_tails(j: int, k: int, n: int) -> float:
    """Share at which X <= j is as probable as X >= k, for j < k."""
    return float(scipy.optimize.brentq(lambda p: _at_most(j, n, p) - _at_least(k, n, p), 0.0, 1.0, xtol=_NEAR))


@lru_cache(_MOST_REMEMBERED)
def _lower_end(k: int, n: int, level: float) -> float:
    """Smallest share that is not rejected at this level.

    Towards larger shares the probability jumps up where j grows, falls and may rise again. At the lower end of Clopper
    and Pearson's interval P(X >= k) is half the level; the first j beyond it jumps above the level.
    """
    if k == 0:
        return 0.0
    least = float(special.betaincinv(k, n - k + 1, level / 2))
    j = int(scipy.stats.binom.ppf(level / 2, n, least))  # the first whose P(X <= j) is more than half the level there
    end = _equal_tails(j, k, n) if j < k else 1.0

    def excess(share: float) -> float:
        return _at_least(k, n, share) + _at_most(j - 1, n, share) - level

    return float(scipy.optimize.brentq(excess, least, end, xtol=_NEAR)) if excess(end) > 0 else end


MOST_GROUPS = 40  # blocks left out in turn; further pictures or seeds share them
FEWEST_GROUPS = 5  # the spread of fewer means is hardly known


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
            return Estimate.without_interval(value, n, note, null_value=null_value)
    g = int(codes.max()) + 1
    left_out = np.array([statistic(codes != j) for j in range(g)])
    if not (math.isfinite(value) and np.isfinite(left_out).all()):
        note = "undefined, or undefined without some of the pictures"
        return Estimate.without_interval(value, n, note, null_value=null_value)
    error = math.sqrt((g - 1) / g * float(((left_out - left_out.mean()) ** 2).sum()))
    if not error:
        note = "it stays the same whichever pictures are left out, so there is no interval"
        return Estimate.without_interval(value, n, note, null_value=null_value)
    method = f"jackknife of {g} groups, t,"
    return t_interval(value, error, g - 1, n=n, confidence=confidence, method=method, null_value=null_value)


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
    """Sum of squares of all products of a row of x with one of y: tr(x'x y'y), by the smaller arrays."""
    if len(x) * len(y) <= x.shape[1] ** 2:
        return float(((x @ y.T) ** 2).sum())
    return float(((x.T @ x) * (y.T @ y)).sum())


def _centred(rows: Floats) -> Array:
    return np.asarray(rows - rows.mean(axis=0, dtype=np.float64), dtype=np.float64)
