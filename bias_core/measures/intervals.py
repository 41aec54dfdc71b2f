"""Intervals of shares and means, exact tests of shares, and the jackknife."""

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Floats, finite_vector, probability
from bias_core.types import Estimate
from bias_core.wording import format_percent

_MOST_REMEMBERED = 65_536  # counts with remembered ends
ROUNDING = 1e-12  # numbers that differ by less are equal up to rounding


def exact_interval(n_positive: int, n: int, *, confidence: float = 0.95, null_value: float | None = None) -> Estimate:
    """A share of n with Blaker's interval: the shares that :func:`exact_p_value` does not reject.

    {p : min(1, P(X >= k) + P(X <= j)) > α} and what lies between, for p below k / n; j is the largest count below
    k whose lower tail is no more probable than the tail from k up   [blaker2000, Sec. 3]

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
    k, n = _check_counts(n_positive, n)
    low, high = _lower_end(k, n, 1 - confidence), 1 - _lower_end(n - k, n, 1 - confidence)
    method = f"{EXACT} {format_percent(confidence)}"
    p_value = math.nan if null_value is None else exact_p_value(k, n, null_value)
    return Estimate(value=k / n, low=low, high=high, n=n, null_value=null_value, method=method, p_value=p_value)


def exact_p_value(n_positive: int, n: int, null_value: float) -> float:
    """Two-sided p of the exact binomial test of a share: at most α just where Blaker's interval leaves out the null.

    P(X >= k) + P(X <= j) as for :func:`exact_interval`, and no less than at any share that lies farther away
    [blaker2000, Sec. 3].

    Raises InvalidInput: as :func:`exact_interval`, and for a null value outside [0, 1].

    >>> round(exact_p_value(8, 10, 0.5), 4)  # 2 (1 + 10 + 45) / 2¹⁰
    0.1094
    """
    k, n = _check_counts(n_positive, n)
    null = probability(null_value, "null_value")
    if n * null >= k:  # as if the null lay below the share
        k, null = n - k, 1 - null
    tail = _upper_tail(k, n, null)
    j = min(k, _quantile(tail, n, null)) - 1
    j += _lower_tail(j + 1, n, null) <= tail * (1 + _TIE) and j + 1 < k
    if j < 0:
        return tail
    return min(1.0, max(tail + _lower_tail(j, n, null), 2 * _upper_tail(k, n, _equal_tails(j, k, n))))


_TIE = 1e-9  # relative: probabilities of both tails that differ by rounding are equal


def _check_counts(n_positive: float, n: float) -> tuple[int, int]:
    if not (float(n_positive).is_integer() and float(n).is_integer() and n >= 1 and 0 <= n_positive <= n):
        raise InvalidInput(f"A share needs whole 0 <= n_positive <= n and n >= 1; got {n_positive} of {n}.")
    return int(n_positive), int(n)


def _upper_tail(k: int, n: int, share: float) -> float:
    return float(special.bdtrc(k - 1, n, share))


def _lower_tail(j: int, n: int, share: float) -> float:
    return float(special.bdtr(j, n, share)) if j >= 0 else 0.0


def _quantile(probability: float, n: int, share: float) -> int:
    """Smallest j with P(X <= j) of at least ``probability``; -1 for 0. Without scipy.stats, which loads too long."""
    if probability <= 0:
        return -1
    start = float(special.bdtrik(probability, n, share))
    j = 0 if math.isnan(start) else math.ceil(start)  # nan for a share of nearly 0
    least = probability * (1 - ROUNDING)
    while j > 0 and _lower_tail(j - 1, n, share) >= least:
        j -= 1
    while j < n and _lower_tail(j, n, share) < least:
        j += 1
    return j


@lru_cache(_MOST_REMEMBERED)
def _equal_tails(j: int, k: int, n: int) -> float:
    """Share at which X <= j is as probable as X >= k, for j < k."""
    return float(scipy.optimize.brentq(lambda p: _lower_tail(j, n, p) - _upper_tail(k, n, p), 0.0, 1.0, xtol=_NEAR))


@lru_cache(_MOST_REMEMBERED)
def _lower_end(k: int, n: int, level: float) -> float:
    """Smallest share that is not rejected at this level.

    Towards larger shares the probability jumps up where j grows, falls and may rise again. At the lower end of Clopper
    and Pearson's interval P(X >= k) is half the level; the first j beyond it jumps above the level.
    """
    if k == 0:
        return 0.0
    start = float(special.betaincinv(k, n - k + 1, level / 2))
    j = _quantile(level / 2, n, start)  # the first whose P(X <= j) is more than half the level there
    end = _equal_tails(j, k, n) if j < k else 1.0

    def excess(share: float) -> float:
        return _upper_tail(k, n, share) + _lower_tail(j - 1, n, share) - level

    return float(scipy.optimize.brentq(excess, start, end, xtol=_NEAR)) if excess(end) > 0 else end


MOST_GROUPS = 40  # blocks left out in turn; further pictures or seeds share them
FEWEST_GROUPS = 5  # the spread of fewer means is hardly known


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
    method, p_value = f"Wilson {format_percent(confidence)}", math.nan
    if null_value is not None:  # the score test, which this interval inverts
        p_value = normal_p_value(share - null_value, math.sqrt(null_value * (1 - null_value) / n))
    return Estimate(value=share, low=low, high=high, n=int(n), null_value=null_value, method=method, p_value=p_value)


def difference_interval(n_up: int, n_down: int, n: int, *, confidence: float = 0.95) -> Estimate:
    """Share of the same ``n`` that goes up minus the share that goes down, with McNemar's exact p and its interval.

    (n_up - n_down) / n = m/n · (2 n_up/m - 1) of m = n_up + n_down that change. The ends are quantiles of this product
    with Beta variables in place of both shares [fay2021]; the interval excludes 0 just where p <= 1 - confidence. In
    [-1, 1], null value 0; it has a width even where nothing goes either way.

    >>> five_of_five = difference_interval(5, 0, 5)
    >>> five_of_five.p_value, round(five_of_five.low, 2), five_of_five.high
    (0.0625, -0.04, 1.0)
    """
    check_confidence(confidence)
    counts = int(n_up), int(n_down), int(n)
    if not (min(counts[:2]) >= 0 and sum(counts[:2]) <= n and n >= 1):
        raise InvalidInput(f"Of n >= 1, at most n go up or down; got {n_up} up and {n_down} down of {n}.")
    return _melded(
        (n_up - n_down) / n,
        _paired_end(*counts, 1 - confidence),
        -_paired_end(n_down, n_up, int(n), 1 - confidence),
        n=int(n),
        p_value=mcnemar_p_value(n_up, n_down),
        method=f"exact for pairs {format_percent(confidence)}",
    )


def independent_difference(
    n_first: int, n_of_first: int, n_second: int, n_of_second: int, *, confidence: float = 0.95
) -> Estimate:
    """Share of the second sample minus that of the first, with the central exact p of Fisher and its interval.

    p is twice the smaller one-sided p of Fisher's test. The ends are quantiles of the difference of two Beta variables
    [fay2015]; the interval excludes 0 just where p <= 1 - confidence. In [-1, 1], null value 0.

    Parameters
    ----------
    n_first, n_of_first, n_second, n_of_second : int. Counts k₁ of n₁ and k₂ of n₂.

    Raises InvalidInput: for counts that are no shares.

    >>> gap = independent_difference(1, 10, 8, 10)
    >>> round(gap.p_value, 4), round(gap.low, 2), round(gap.high, 2)
    (0.0055, 0.18, 0.94)
    """
    check_confidence(confidence)
    (k1, n1), (k2, n2) = _check_counts(n_first, n_of_first), _check_counts(n_second, n_of_second)
    return _melded(
        k2 / n2 - k1 / n1,
        _independent_end(k1, n1, k2, n2, 1 - confidence),
        -_independent_end(k2, n2, k1, n1, 1 - confidence),
        n=min(n1, n2),
        p_value=fisher_p_value(k1, n1, k2, n2),
        method=f"exact for two samples {format_percent(confidence)}",
    )


def _melded(value: float, low: float, high: float, *, n: int, p_value: float, method: str) -> Estimate:
    low, high = min(low, value), max(high, value)
    return Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method, p_value=p_value)


_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(128)  # exact for polynomials up to degree 255
_PROBABILITIES, _WEIGHTS = (_PLACES + 1) / 2, _WEIGHTS / 2  # of quadrature over a Beta variable's quantiles


@lru_cache(_MOST_REMEMBERED)
def _paired_end(n_up: int, n_down: int, n: int, level: float) -> float:
    """Lower end of the share that goes up minus the share that goes down: the quantile level / 2 of their product."""
    m = n_up + n_down
    if not n_up:
        return -float(_beta_quantile(1 - level / 2, m + 1, n - m))
    smaller, larger = (_beta_quantile(_PROBABILITIES, *sides) for sides in ((m, n - m + 1), (m + 1, n - m)))

    def excess(difference: float) -> float:
        changed = smaller if difference > 0 else larger
        half = np.clip((1 + difference / changed) / 2, 0.0, 1.0)
        return float(_WEIGHTS @ special.betainc(n_up, n_down + 1, half)) - level / 2

    return _root(excess)


@lru_cache(_MOST_REMEMBERED)
def _independent_end(k1: int, n1: int, k2: int, n2: int, level: float) -> float:
    """Lower end of the second share minus the first: the quantile level / 2 of the difference of their Betas."""
    if not k2:
        return -float(_beta_quantile(1 - level / 2, k1 + 1, n1 - k1))
    first = _beta_quantile(_PROBABILITIES, k1 + 1, n1 - k1)

    def excess(difference: float) -> float:
        at = np.clip(first + difference, 0.0, 1.0)
        return float(_WEIGHTS @ special.betainc(k2, n2 - k2 + 1, at)) - level / 2

    return _root(excess)


def _beta_quantile(probability: Any, a: float, b: float) -> Any:
    """Return quantiles of a Beta variable, which is 1 with b = 0."""
    return special.betaincinv(a, b, probability) if b else np.ones_like(probability)


def _root(excess: Callable[[float], float]) -> float:
    """Return where an increasing function of a difference in [-1, 1] rises above 0."""
    if excess(-1.0) >= 0:
        return -1.0
    return float(scipy.optimize.brentq(excess, -1.0, 1.0, xtol=1e-10)) if excess(1.0) > 0 else 1.0


@lru_cache(_MOST_REMEMBERED)
def fisher_p_value(n_first: int, n_of_first: int, n_second: int, n_of_second: int) -> float:
    """Two-sided p of Fisher's exact test of two shares, twice the smaller tail, in (0, 1] [fay2015].

    >>> round(fisher_p_value(1, 10, 8, 10), 4)
    0.0055
    """
    k, n, n_hits = n_second, n_of_first + n_of_second, n_first + n_second
    tails = (
        scipy.stats.hypergeom.sf(k - 1, n, n_hits, n_of_second),
        scipy.stats.hypergeom.cdf(k, n, n_hits, n_of_second),
    )
    return max(min(1.0, 2 * float(min(tails))), sys.float_info.min)


def mcnemar_p_value(n_up: int, n_down: int) -> float:
    """Two-sided p of McNemar's exact test that pairs change as often one way as the other, in (0, 1] [mcnemar1947].

    >>> mcnemar_p_value(6, 0)  # 2 / 2⁶
    0.03125
    """
    # binomtest takes nine times as long.
    p_value = 2 * float(scipy.stats.binom.cdf(min(n_up, n_down), n_up + n_down, 0.5))
    return min(1.0, max(p_value, sys.float_info.min))


def with_p_through_ends(estimate: Estimate, confidence: float) -> Estimate:
    """Return an estimate with the p-value of its null value, by the normal distribution through its ends.

    2 (1 - Φ(z · distance of the null / reach of the interval to that side)), for an interval that no closer test
    belongs to, such as one that joins two others; at most 1 - confidence just where the interval excludes the null.
    A null value at an end itself is not excluded.

    >>> with_p_through_ends(Estimate(value=0.5, low=0.0, high=1.0, n=9, null_value=0.0), 0.95).p_value.__round__(3)
    0.05
    """
    null = estimate.null_value
    if null is None or math.isnan(estimate.low) or math.isnan(estimate.value):
        return replace(estimate, p_value=math.nan)
    reach = estimate.high - estimate.value if null > estimate.value else estimate.value - estimate.low
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    return with_value_inside(replace(estimate, p_value=normal_p_value(estimate.value - null, reach / z)), confidence)


def with_value_inside(estimate: Estimate, confidence: float) -> Estimate:
    """Return an estimate whose interval is wide enough for its value; p rejects nothing that lies in the interval.

    For intervals that are made without the value, such as of random draws, or of other weights.

    >>> with_value_inside(Estimate(value=0.0, low=0.1, high=1.0, n=9, null_value=0.05, p_value=0.03), 0.95).low
    0.0
    """
    low, high, p_value = min(estimate.value, estimate.low), max(estimate.value, estimate.high), estimate.p_value
    if math.isnan(estimate.low) or math.isnan(estimate.value):
        return estimate
    if estimate.null_value is not None and low <= estimate.null_value <= high:
        p_value = max(p_value, (1 - confidence) * (1 + _JUST_ABOVE))  # nan stays nan
    return replace(estimate, low=low, high=high, p_value=p_value)


_JUST_ABOVE = 1e-9  # an interval that holds the null value must not have a p that rejects it


def normal_p_value(distance: float, error: float) -> float:
    """Return the two-sided p of a distance that has this standard error.

    >>> round(normal_p_value(1.96, 1.0), 4)
    0.05
    """
    return float(2 * scipy.stats.norm.sf(abs(distance) / error)) if error > 0 else float(distance == 0)


FEWEST_RESAMPLED = 10
"""Sampling units below which no bootstrap interval is given: of 2, 3 and 4 units one of 95 % covers 50, 72 and 80 %."""


def percentile_estimate(
    value: float, resampled: ArrayLike, *, n: int, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """Estimate with the percentile interval of given resamples, as far out as Student's t would be.

    Parameters
    ----------
    value : float
    resampled : array (n_resamples,). The statistic of each bootstrap resample in which it is defined.
    n : int. Number of sampling units.

    Returns
    -------
    Estimate : with percentiles at the level of :func:`expanded_confidence`, and p from the share of resamples beyond
        the null value at that level. ``low`` and ``high`` are nan, with a note, for fewer than ten units, and where all
        resamples agree, or there is none: too few units differ.

    Raises InvalidInput: for resamples that are not finite.

    >>> percentile_estimate(2.0, [1.0, 2.0, 3.0], n=1_000_000, confidence=0.5).low.__round__(6)
    1.5
    """
    check_confidence(confidence)
    values = np.sort(finite_vector(resampled, "resampled")) if np.size(resampled) else np.zeros(1)
    method = f"bootstrap (expanded percentile) {format_percent(confidence)}"
    few, equal = n < FEWEST_RESAMPLED, not np.ptp(values) > ROUNDING
    if few or equal:
        note = f"fewer than {FEWEST_RESAMPLED} units: too few for a bootstrap interval" if few else ""
        note = note or "too few different units for an interval"
        return replace(Estimate.without_interval(value, n, note, null_value=null_value), method=method)
    tail = (1 - expanded_confidence(n, confidence)) / 2
    low, high = (float(end) for end in np.quantile(values, [tail, 1 - tail]))
    p_value = math.nan
    if null_value is not None:  # the tail beyond the null, as np.quantile interpolates, at the level of Student's t
        z = -float(scipy.stats.norm.ppf(tail_share(values, null_value, tail)))
        p_value = min(1.0, float(2 * scipy.stats.t.sf(z * math.sqrt((n - 1) / n), n - 1)))
    estimate = Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, p_value=p_value)
    return with_value_inside(estimate, confidence)


def tail_share(values: Array, null_value: float, tail: float) -> float:
    """Share of sorted values at the null value or beyond, on the side with fewer, as :func:`numpy.quantile` counts.

    At most ``tail`` just where the quantiles ``tail`` and 1 - ``tail`` leave out the null value. Never 0: one of the
    values might have been there, unless that is more than ``tail``.

    >>> tail_share(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), 1.0, 0.025)
    0.25
    """
    ranks = np.linspace(0.0, 1.0, len(values))
    below = float(np.interp(null_value, values, ranks, left=0.0, right=1.0))
    above = float(np.interp(-null_value, -values[::-1], ranks, left=0.0, right=1.0))
    return max(min(below, above), min(1 / (1 + len(values)), tail))


FEWEST_DRAWN = 8
"""Units of each set below which an interval of chance in several sets is not given: of 5 each it is wrong in 10 %."""


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
    """An estimate with the interval value ± z·SE; nan ends with a note where SE is nan or 0.

    >>> round(normal_estimate(1.0, 0.5, n=9).high, 2)
    1.98
    """
    check_confidence(confidence)
    reach = float(scipy.stats.norm.ppf((1 + confidence) / 2)) * standard_error
    if not reach > 0:
        note = "a set with one image has no standard error" if math.isnan(reach) else _NOTHING_VARIES
        return Estimate.without_interval(value, n, note, null_value=null_value)
    method, low, high = f"normal {format_percent(confidence)}", value - reach, value + reach
    estimate = Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method)
    return with_p_through_ends(estimate, confidence)


_NOTHING_VARIES = "nothing varies, so there is no interval"


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
    if min(map(len, samples)) < 2 or all(np.ptp(sample) <= ROUNDING for sample in samples):
        few = min(map(len, samples)) < 2
        note = "one sampling unit has no interval" if few else "all sampling units are equal, so there is no interval"
        no_interval = Estimate.without_interval(value, n, note, null_value=null_value)
        return replace(no_interval, method=f"{method} {format_percent(confidence)}")
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
    """A value ± t times its standard error, t of Student with these degrees of freedom; no ends where that is 0.

    >>> round(t_interval(2.0, 1 / math.sqrt(3), 2, n=3).high, 3)  # 2 + 4.303 / √3
    4.484
    """
    if not error > 0:
        return Estimate.without_interval(value, n, _NOTHING_VARIES, null_value=null_value)
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, freedom)) * error
    method = f"{method} {format_percent(confidence)}"
    p_value = math.nan
    if null_value is not None:
        p_value = float(2 * scipy.stats.t.sf(abs(value - null_value) / error, freedom))
    return Estimate(
        value=value, low=value - reach, high=value + reach, n=n, null_value=null_value, method=method, p_value=p_value
    )


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
    parts, degrees = np.asarray(squares, dtype=np.float64), np.asarray(freedoms, dtype=np.float64)
    return float(min(parts.sum() ** 2 / (parts**2 / (degrees + 2)).sum() - 2, degrees.sum()))


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


EXACT = "exact binomial"  # how the method of such an interval begins
_NEAR = 1e-14  # how near a root is found


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
