"""Uncertainty: intervals, effect sizes and corrections, over one-dimensional samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from bias_core.arrays import finite_vector, probability
from bias_core.errors import InvalidInput
from bias_core.types import Estimate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from bias_core.permutation import Seed

EffectSizeSD = Literal["pooled", "union"]
Statistic = Callable[..., Any]

_ROUNDING = 1e-12  # numbers that differ by less are equal up to rounding
_LARGEST_BLOCK = 4_000_000  # numbers held at once by a resampling loop
_LARGEST_BCA = 2_000  # beyond it the skewness that BCa corrects is gone and its jackknife is n x n


@dataclass(frozen=True, kw_only=True)
class FalseDiscoveries:
    """Benjamini–Hochberg over a family of tests.

    Attributes
    ----------
    adjusted : p-values ``(k,)`` to compare with the false-discovery rate.
    rejected : bools ``(k,)``, where ``adjusted`` is at most ``rate``.
    rate : accepted share of false discoveries among the rejected.
    """

    adjusted: NDArray[np.float64]
    rejected: NDArray[np.bool_]
    rate: float


def wilson_interval(
    n_positive: float, n: int, *, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """A share of n with its Wilson interval, (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).

    Parameters
    ----------
    n_positive : float in [0, n]
    n : int >= 1
    confidence : float in (0, 1)
    null_value : the share that would mean "no bias", if there is one.

    Returns
    -------
    Estimate
        In [0, 1]; the interval has a width even at 0 and 1.

    Raises
    ------
    InvalidInput
        If n < 1 or n_positive lies outside [0, n].

    Examples
    --------
    >>> estimate = wilson_interval(8, 10)
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.49, 0.943)
    """
    from statsmodels.stats.proportion import proportion_confint

    _check_confidence(confidence)
    if not (n >= 1 and 0 <= n_positive <= n):
        raise InvalidInput(f"A share needs 0 <= n_positive <= n and n >= 1; got {n_positive} of {n}.")
    low, high = proportion_confint(n_positive, n, alpha=1 - confidence, method="wilson")
    share = n_positive / n
    return Estimate(
        value=share,
        low=min(float(low), share),  # the formula is 1e-17 off at 0 and at 1
        high=max(float(high), share),
        n=int(n),
        null_value=null_value,
        method=f"Wilson {_percent(confidence)}",
    )


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
    *samples : arrays (n_i,)
        Each is resampled on its own, entry by entry; an entry is one sampling unit.
    statistic : callable ``statistic(*samples, axis)``
        Vectorised along ``axis``.
    confidence : float in (0, 1)
    n_resamples : int
    rng : seed or Generator
    null_value : what "no bias" would read.

    Returns
    -------
    Estimate
        BCa up to 2,000 units, percentile beyond and wherever BCa is undefined; ``method`` says which.
        With a single unit in a sample ``low`` and ``high`` are nan and ``note`` says so; ``n`` counts
        all units.

    Raises
    ------
    InvalidInput
        For empty or not finite samples.

    Examples
    --------
    >>> bootstrap_interval([1.0, 2.0, 3.0, 6.0], statistic=np.mean).value
    3.0
    """
    _check_confidence(confidence)
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
    return Estimate(
        value=value,
        low=low,
        high=high,
        n=n,
        null_value=null_value,
        method=f"bootstrap ({method}) {_percent(confidence)}",
        note="all units are equal, so the interval has no width" if constant else "",
    )


def percentile_estimate(
    value: float, resampled: ArrayLike, *, n: int, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """An estimate whose statistic was resampled elsewhere, with the percentile interval.

    Parameters
    ----------
    value : float
    resampled : array (n_resamples,)
        The statistic of each bootstrap resample.
    n : int
        Number of sampling units.

    Returns
    -------
    Estimate
        ``low`` and ``high`` are nan, with a note, where all resamples agree: too few units differ.

    Raises
    ------
    InvalidInput
        For empty or not finite resamples.

    Examples
    --------
    >>> percentile_estimate(2.0, [1.0, 2.0, 3.0], n=5, confidence=0.5).low
    1.5
    """
    _check_confidence(confidence)
    values = finite_vector(resampled, "resampled")
    low, high, note = math.nan, math.nan, "too few different units for an interval"
    if np.ptp(values) > _ROUNDING:
        low, high = (float(end) for end in np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2]))
        note = ""
    method = f"bootstrap (percentile) {_percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, note=note)


def effect_size(x: ArrayLike, y: ArrayLike, *, sd: EffectSizeSD = "pooled") -> float:
    """Cohen's d, (mean(x) - mean(y)) / s.

    Parameters
    ----------
    x, y : arrays (n_x,), (n_y,), at least two numbers each
    sd : {"pooled", "union"}
        "pooled": s² = ((n_x−1) s_x² + (n_y−1) s_y²) / (n_x+n_y−2). "union": the standard deviation over
        both samples together (ddof=1), as WEAT has it; then |d| < 2.

    Returns
    -------
    float
        0 where the means agree, positive where x lies higher. nan where s = 0: the samples do not vary.

    Raises
    ------
    InvalidInput
        For samples of fewer than two numbers, or not finite ones.

    Examples
    --------
    >>> effect_size([4.0, 6.0], [1.0, 3.0]) == 3 / np.sqrt(2)
    np.True_
    """
    first, second = finite_vector(x, "x", min_size=2), finite_vector(y, "y", min_size=2)
    if sd not in ("pooled", "union"):
        raise InvalidInput(f'sd must be "pooled" or "union"; got {sd!r}.')
    if sd == "union":
        variance = np.concatenate([first, second]).var(ddof=1)
    else:
        squares = (first.size - 1) * first.var(ddof=1) + (second.size - 1) * second.var(ddof=1)
        variance = squares / (first.size + second.size - 2)
    if variance <= _ROUNDING**2:
        return math.nan
    return float((first.mean() - second.mean()) / math.sqrt(variance))


def corrected_prevalence(
    n_positive: int,
    n: int,
    *,
    sensitivity: float,
    specificity: float,
    n_sensitivity: int | None = None,
    n_specificity: int | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Share that is truly positive when the reader errs, (p + Sp − 1) / (Se + Sp − 1), with its interval.

    Source: [rogan1978, Eq. 1]; interval with estimated Se and Sp: [lang2014, Eq. 6].

    Parameters
    ----------
    n_positive, n : int
        Pictures that the reader called positive, and all pictures.
    sensitivity, specificity : float in [0, 1]
        P(called positive | positive), P(called negative | negative); their sum must exceed 1.
    n_sensitivity, n_specificity : int or None
        Pictures that these were estimated from. Both None: they are taken as known, and the interval is
        Wilson's with both ends corrected.
    confidence : float in (0, 1)

    Returns
    -------
    Estimate
        In [0, 1]. Where the formula leaves [0, 1] the value is the nearest end, and ``note`` says so.

    Raises
    ------
    InvalidInput
        If sensitivity + specificity <= 1 (the reader tells nothing) or the counts are impossible.

    Examples
    --------
    >>> round(corrected_prevalence(59, 100, sensitivity=0.95, specificity=0.95).value, 6)
    0.6
    """
    observed = wilson_interval(n_positive, n, confidence=confidence)
    se, sp = probability(sensitivity, "sensitivity"), probability(specificity, "specificity")
    if se + sp <= 1:
        raise InvalidInput(f"sensitivity + specificity must exceed 1 for a correction; got {se} + {sp}.")
    raw = _rogan_gladen(observed.value, se, sp)
    if n_sensitivity is None and n_specificity is None:
        low, high = _rogan_gladen(observed.low, se, sp), _rogan_gladen(observed.high, se, sp)
        method = f"Rogan–Gladen, {observed.method}"
    elif n_sensitivity is None or n_specificity is None or min(n_sensitivity, n_specificity) < 1:
        raise InvalidInput(
            "n_sensitivity and n_specificity must both be given, at least 1, or both be None; "
            f"got {n_sensitivity} and {n_specificity}."
        )
    else:
        low, high = _lang_reiczigel(observed.value, n, se, n_sensitivity, sp, n_specificity, confidence)
        method = f"Rogan–Gladen, Lang–Reiczigel {_percent(confidence)}"
    value, low, high = (min(max(bound, 0.0), 1.0) for bound in (raw, low, high))
    note = "" if 0 <= raw <= 1 else f"the formula gives {raw:.3f}, outside [0, 1]: fewer errors than expected"
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), n=int(n), method=method, note=note
    )


def benjamini_hochberg(p_values: ArrayLike, *, rate: float = 0.05) -> FalseDiscoveries:
    """p-values adjusted for looking at many tests, with the false-discovery rate held at ``rate``.

    Raises
    ------
    InvalidInput
        For an empty list, nan, or a p-value outside [0, 1].

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03]).adjusted
    array([0.03, 0.04, 0.04])
    """
    from statsmodels.stats.multitest import multipletests

    values = finite_vector(p_values, "p_values")
    probability(float(values.min()), "p_values")
    probability(float(values.max()), "p_values")
    rejected, adjusted, _, _ = multipletests(values, alpha=probability(rate, "rate"), method="fdr_bh")
    return FalseDiscoveries(adjusted=adjusted, rejected=rejected, rate=rate)


def images_needed(half_width: float, *, prevalence: float = 0.5, confidence: float = 0.95) -> int:
    """Fewest images whose Wilson interval for a share reaches at most ``half_width`` to each side.

    The smallest n with h²(n + z²)² >= z²p(1−p)n + z⁴/4.

    Parameters
    ----------
    half_width : float in (0, 0.5)
    prevalence : float in [0, 1]
        The expected share; 0.5 needs the most images.
    confidence : float in (0, 1)

    Examples
    --------
    >>> images_needed(0.1), images_needed(0.05)
    (93, 381)
    """
    _check_confidence(confidence)
    p = probability(prevalence, "prevalence")
    if not 0 < half_width < 0.5:
        raise InvalidInput(f"half_width must be between 0 and 0.5; got {half_width}.")
    z2 = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
    h2 = half_width**2
    b = z2 * (2 * h2 - p * (1 - p))
    c = z2**2 * (h2 - 0.25)  # negative, so there is exactly one positive root
    root = (-b + math.sqrt(b * b - 4 * h2 * c)) / (2 * h2)
    return max(1, math.ceil(root - 1e-9))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must be between 0 and 1, e.g. 0.95; got {confidence}.")


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _scipy_bootstrap(
    vectors: list[NDArray[np.float64]],
    statistic: Statistic,
    confidence: float,
    n_resamples: int,
    rng: Seed,
    method: str,
) -> tuple[float, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # shows as nan, which is checked
        warnings.simplefilter("ignore", RuntimeWarning)
        result = stats.bootstrap(
            vectors,
            statistic,
            vectorized=True,
            axis=-1,
            confidence_level=confidence,
            n_resamples=n_resamples,
            batch=max(1, _LARGEST_BLOCK // max(map(len, vectors))),
            method=method,
            rng=np.random.default_rng(rng),
        )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _rogan_gladen(p: float, se: float, sp: float) -> float:
    return (p + sp - 1) / (se + sp - 1)


def _lang_reiczigel(
    p: float, n: int, se: float, n_se: int, sp: float, n_sp: int, confidence: float
) -> tuple[float, float]:
    """Interval of the corrected share when Se and Sp are themselves estimates."""
    z = float(stats.norm.ppf((1 + confidence) / 2))
    p = (n * p + z * z / 2) / (n + z * z)
    se = (n_se * se + 1) / (n_se + 2)
    sp = (n_sp * sp + 1) / (n_sp + 2)
    v_p, v_se, v_sp = p * (1 - p) / (n + z * z), se * (1 - se) / (n_se + 2), sp * (1 - sp) / (n_sp + 2)
    share = _rogan_gladen(p, se, sp)
    shift = 2 * z * z * (share * v_se - (1 - share) * v_sp)
    reach = z * math.sqrt(v_p + share**2 * v_se + (1 - share) ** 2 * v_sp) / (se + sp - 1)
    return share + shift - reach, share + shift + reach
