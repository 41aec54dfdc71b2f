"""Effect sizes, corrections and sample sizes; also exports intervals and the permutation test."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy import special

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, finite_vector, probabilities, probability
from bias_core.measures.intervals import check_confidence, exact_interval
from bias_core.measures.sequential import share_interval
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import format_percent, typeset

EffectSizeSD = Literal["pooled", "union"]

_ROUNDING = 1e-12  # numbers that differ by less are equal up to rounding


def effect_size(x: ArrayLike, y: ArrayLike, *, sd: EffectSizeSD = "pooled") -> float:
    """Cohen's d, (mean(x) - mean(y)) / s.

    Parameters
    ----------
    x, y : arrays (n_x,), (n_y,), at least two numbers each
    sd : {"pooled", "union"}. "pooled": s² = ((n_x−1) s_x² + (n_y−1) s_y²) / (n_x+n_y−2). "union": the standard
        deviation over both samples together (ddof=1), as WEAT has it; then |d| < 2.

    Returns
    -------
    float : 0 where the means agree, positive where x lies higher. nan where s = 0: the samples do not vary.

    Raises InvalidInput: for samples of fewer than two numbers, or not finite ones.

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
    fixed_n: bool = True,
    confidence: float = 0.95,
) -> Estimate:
    """True share of positives when the classifier errs, (p + Sp − 1) / (Se + Sp − 1), with its interval.

    Source: [rogan1978, Eq. 1]; interval with estimated Se and Sp: [lang2014, Eq. 6].

    Parameters
    ----------
    n_positive, n : int. Pictures that the classifier called positive, and all pictures.
    sensitivity, specificity : float in [0, 1]. P(called positive | positive), P(called negative | negative); their sum
        must exceed 1.
    n_sensitivity, n_specificity : int or None. Pictures that these were estimated from. Both None: they are taken as
        known, and the interval is the exact one with both ends corrected.
    fixed_n : bool. Whether n was fixed beforehand; else the interval is that of
        :func:`bias_core.measures.sequential.confidence_sequence` with both ends corrected, each moved away by what the
        errors' own uncertainty adds (distances as roots of summed squares [zou2008]).

    Returns
    -------
    Estimate : in [0, 1]. Where the formula leaves [0, 1] the value is the nearest end, and ``note`` says so.

    Raises InvalidInput: if sensitivity + specificity <= 1 (no better than chance) or the counts are impossible.

    >>> round(corrected_prevalence(59, 100, sensitivity=0.95, specificity=0.95).value, 6)
    0.6
    """
    observed = share_interval(n_positive, n, fixed_n=fixed_n, confidence=confidence)
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
    elif fixed_n:
        low, high = _lang_reiczigel(observed.value, n, se, n_sensitivity, sp, n_specificity, confidence)
        method = f"Rogan–Gladen, Lang–Reiczigel {format_percent(confidence)}"
    else:
        reach = _reach_of_errors(raw, se, n_sensitivity, sp, n_specificity, confidence)
        low, high = (_rogan_gladen(end, se, sp) for end in (observed.low, observed.high))
        low, high = raw - math.hypot(raw - low, reach), raw + math.hypot(high - raw, reach)
        method = f"Rogan–Gladen, {observed.method}"
    value, low, high = (min(max(bound, 0.0), 1.0) for bound in (raw, low, high))
    note = (
        "" if 0 <= raw <= 1 else f"the formula gives {typeset(raw, '.3f')}, outside [0, 1]: fewer errors than expected"
    )
    return Estimate(value=value, low=min(low, value), high=max(high, value), n=int(n), method=method, note=note)


def corrected_by_errors(
    n_positive: int, n: int, errors: ReaderErrors, *, fixed_n: bool = True, confidence: float = 0.95
) -> Estimate:
    """:func:`corrected_prevalence` with a classifier's measured errors and their uncertainty.

    >>> from bias_core.types import ReaderErrors
    >>> errors = ReaderErrors(sensitivity=0.95, specificity=0.95, n_positive=400, n_negative=400)
    >>> round(corrected_by_errors(59, 100, errors).value, 6)
    0.6
    """
    return corrected_prevalence(
        n_positive,
        n,
        sensitivity=errors.sensitivity,
        specificity=errors.specificity,
        n_sensitivity=errors.n_positive,
        n_specificity=errors.n_negative,
        fixed_n=fixed_n,
        confidence=confidence,
    )


def benjamini_hochberg(p_values: ArrayLike) -> Array:
    """Adjust p-values ``(m,)`` for many tests so that the level bounds the share of false discoveries.

    Raises InvalidInput: for an empty list, nan, or a p-value outside [0, 1].

    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    array([0.03, 0.04, 0.04])
    """
    return np.asarray(scipy.stats.false_discovery_control(probabilities(p_values, "p_values")))


def holm(p_values: ArrayLike) -> Array:
    """Adjust p-values ``(m,)`` so that the level bounds the chance of any false claim [holm1979].

    max_{j <= i} min(1, (m − j + 1) p_(j)), of the i-th smallest. statsmodels' empties the memory at every call, which
    takes a second in a large program.

    Raises InvalidInput: for an empty list, nan, or a p-value outside [0, 1].

    >>> holm([0.01, 0.04, 0.03]).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    values = probabilities(p_values, "p_values")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(values), 0, -1) * values[order]))
    return adjusted


@lru_cache(64)
def images_needed(half_width: float, *, confidence: float = 0.95) -> int:
    """Smallest n for which any share's exact interval reaches at most ``half_width`` to each side.

    The search begins at n = z²(1/(4h²) − 1), with which Wilson's interval reaches as far at a share of one half.

    Parameters
    ----------
    half_width : float in (0, 0.5). Half the length of the interval; InvalidInput for others.

    >>> images_needed(0.1), images_needed(0.05)
    (101, 391)
    """
    check_confidence(confidence)
    if not 0 < half_width < 0.5:
        raise InvalidInput(f"half_width must be between 0 and 0.5; got {half_width}.")
    z = float(special.ndtri((1 + confidence) / 2))
    n = max(1, math.ceil(z**2 * (0.25 / half_width**2 - 1)))
    while any(half > half_width for half in _half_widths(n, confidence)):  # mostly the first is
        n += 1
    return n


def share_half_width(n: int, confidence: float = 0.95) -> float:
    """Half the length of the longest exact interval of a share of n (the share nearest to one half).

    >>> round(share_half_width(16), 2)
    0.25
    """
    return max(_half_widths(n, confidence))


def _half_widths(n: int, confidence: float) -> Iterator[float]:
    """Yield half the length of the exact intervals of shares of n, from the share nearest to one half down."""
    for k in range(n // 2, max(-1, n // 2 - 2 * math.isqrt(n) - 1), -1):
        interval = exact_interval(k, n, confidence=confidence)
        yield (interval.high - interval.low) / 2


def _rogan_gladen(p: float, se: float, sp: float) -> float:
    return (p - (1 - sp)) / (se - (1 - sp))


def _reach_of_errors(share: float, se: float, n_se: int, sp: float, n_sp: int, confidence: float) -> float:
    """Reach of the uncertainty of Se and Sp alone around a corrected share."""
    se, sp = (n_se * se + 1) / (n_se + 2), (n_sp * sp + 1) / (n_sp + 2)
    v_se, v_sp = se * (1 - se) / (n_se + 2), sp * (1 - sp) / (n_sp + 2)
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    return z * math.sqrt(share**2 * v_se + (1 - share) ** 2 * v_sp) / (se + sp - 1)


def _lang_reiczigel(
    p: float, n: int, se: float, n_se: int, sp: float, n_sp: int, confidence: float
) -> tuple[float, float]:
    """Return the interval of the corrected share when Se and Sp are themselves estimates."""
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    p = (n * p + z * z / 2) / (n + z * z)
    se = (n_se * se + 1) / (n_se + 2)
    sp = (n_sp * sp + 1) / (n_sp + 2)
    v_p, v_se, v_sp = p * (1 - p) / (n + z * z), se * (1 - se) / (n_se + 2), sp * (1 - sp) / (n_sp + 2)
    share = _rogan_gladen(p, se, sp)
    shift = 2 * z * z * (share * v_se - (1 - share) * v_sp)
    reach = z * math.sqrt(v_p + share**2 * v_se + (1 - share) ** 2 * v_sp) / (se + sp - 1)
    return share + shift - reach, share + shift + reach
