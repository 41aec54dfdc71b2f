"""Intervals: Wilson, Student's t, bootstrap, and those made from resamples or a standard error."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array, finite_vector
from bias_core.stats.permutation import Seed
from bias_core.types import Estimate

Statistic = Callable[..., Any]

_ROUNDING = 1e-12  # numbers that differ by less are equal up to rounding
_LARGEST_BLOCK = 4_000_000  # numbers held at once by a resampling loop
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
    null_value : what "no bias" would read.

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
        note = "one sampling unit has no interval"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)
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


def adjusted_wald(value: float, middle: float, variance: float, *, n: int, confidence: float) -> Estimate:
    """A mean of ``n`` paired differences; the interval lies around the ``middle``, the mean with two pairs more.

    >>> round(adjusted_wald(0.0, 0.0, 0.25, n=2, confidence=0.95).high, 3)
    0.98
    """
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt(variance)
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
    """An estimate whose statistic was resampled elsewhere, with the percentile interval.

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
    t = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(n / (n - 1))
    return min(float(2 * stats.norm.cdf(t) - 1), 1 - 1e-12)


def normal_estimate(
    value: float, standard_error: float, *, n: int, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """An estimate with the interval value ± z·SE; nan ends with a note where SE is nan.

    >>> round(normal_estimate(1.0, 0.5, n=9).high, 2)
    1.98
    """
    check_confidence(confidence)
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * standard_error
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
    null_value : what "no bias" would read.

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
    reach, note = math.nan, ""
    if min(map(len, samples)) < 2:
        note = "one sampling unit has no interval"
    elif all(np.ptp(sample) <= _ROUNDING for sample in samples):
        note = "all sampling units are equal, so there is no interval"
    else:
        squares = [float(sample.var(ddof=1)) / len(sample) for sample in samples]
        parts = sum(square**2 / (len(sample) - 1) for square, sample in zip(squares, samples, strict=True))
        reach = float(stats.t.ppf((1 + confidence) / 2, sum(squares) ** 2 / parts)) * math.sqrt(sum(squares))
    method = f"Student's t{'' if y is None else ' (Welch)'} {percent(confidence)}"
    low, high = value - reach, value + reach
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, note=note)


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
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # shows as nan, which is checked
        warnings.simplefilter("ignore", RuntimeWarning)
        result = stats.bootstrap(
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
