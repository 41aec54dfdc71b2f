"""Shares that are watched while n grows: intervals that hold at every look, and rules for stopping."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, overload

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import betaln, expit, logit, xlog1py, xlogy

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, finite_vector
from bias_core.measures.intervals import (
    EXACT,
    check_confidence,
    exact_interval,
    exact_p_value,
    wilson_interval,
    with_p_through_ends,
)
from bias_core.types import Estimate
from bias_core.wording import format_percent

SEQUENCE = "confidence sequence"  # how the method of such an interval begins
_PRIOR = 0.5  # of both sides of the Beta mixture
_ROUNDING = 1e-9  # sums of values that differ by less are equal
_MOST_REMEMBERED = 65_536  # pairs of counts with remembered ends


@overload
def confidence_sequence(
    n_successes: float, n: int, *, confidence: float = ..., null_value: float | None = ...
) -> Estimate: ...
@overload
def confidence_sequence(
    n_successes: Sequence[float] | Array, n: ArrayLike, *, confidence: float = ..., null_value: float | None = ...
) -> list[Estimate]: ...
def confidence_sequence(
    n_successes: float | Sequence[float] | Array,
    n: ArrayLike,
    *,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate | list[Estimate]:
    """Share with an interval that holds at every look while n grows.

    {p : B(½+k, ½+n−k) / (B(½, ½) pᵏ (1−p)ⁿ⁻ᵏ) < 1/α}, the Beta(½, ½) mixture   [howard2021, Sec. 3; ville1939]

    Parameters
    ----------
    n_successes : float in [0, n], or an array (n_looks,). A count; or the sum of n values in [0, 1], for which the
        interval of their mean is at least as safe.
    n : int >= 1, or an array (n_looks,). How many were looked at; of several looks each has those of the one before.
    null_value : the share that would mean "no bias", if there is one.

    Returns
    -------
    Estimate : in [0, 1]. With probability ``confidence`` or more the true share lies in the intervals of *all* looks.
        For arrays a list, one for each look, each interval within those of the looks before it. Where nothing is left
        of them, ``low`` and ``high`` are nan and ``note`` says so: the share moved, or this is the run in twenty.

    Raises
    ------
    InvalidInput : for counts that cannot be, no look, or looks of which one has less than the one before.

    Notes
    -----
    Each value is taken as a draw of one share, whatever came before. Pictures of several prompts are that only in an
    order that mixes the prompts. The price of looking at any time: at 64 pictures and a share of one half ±0.195
    (±0.185 on average within the looks at 16, 32 and 48), where Wilson's ±0.119 holds for one look fixed beforehand.

    Examples
    --------
    >>> look = confidence_sequence(32, 64)
    >>> round(look.low, 3), look.value, round(look.high, 3)
    (0.305, 0.5, 0.695)
    >>> [round(look.high - look.low, 2) for look in confidence_sequence([8, 30, 66], [16, 64, 128])]
    [0.66, 0.39, 0.29]
    """
    check_confidence(confidence)
    if np.ndim(n_successes) == 0 and np.ndim(n) == 0:
        return _estimate_look(*_check_counts(n_successes, n), confidence, null_value)
    successes, sizes = finite_vector(n_successes, "n_successes"), finite_vector(n, "n")
    if successes.shape != sizes.shape:
        raise InvalidInput(f"Every look has a count and an n; got {len(successes)} counts and {len(sizes)} of n.")
    counts = [_check_counts(k, m) for k, m in zip(successes, sizes, strict=True)]
    for (k, m), (later_k, later_m) in pairwise(counts):
        if not (later_m >= m and -_ROUNDING <= later_k - k <= later_m - m + _ROUNDING):
            raise InvalidInput(f"Looks are of one growing sample; {later_k:g} of {later_m} cannot follow {k:g} of {m}.")
    return _intersected([_estimate_look(k, m, confidence, null_value) for k, m in counts])


def share_interval(
    n_positive: float, n: float, *, fixed_n: bool = True, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """Share with the exact interval if n was fixed beforehand, else with one that holds at any time.

    Numbers that are not whole are effective ones, and have Wilson's interval.

    >>> [share_interval(5, n, fixed_n=is_fixed).method for n, is_fixed in ((10, True), (10, False), (9.5, True))]
    ['exact binomial 95 %', 'confidence sequence 95 %', 'Wilson 95 %']
    """
    options: dict[str, Any] = {"confidence": confidence, "null_value": null_value}
    if not fixed_n:
        return confidence_sequence(n_positive, int(n), **options)
    if max(abs(n_positive - round(n_positive)), abs(n - round(n))) < _ROUNDING:
        return exact_interval(round(n_positive), round(n), **options)
    return wilson_interval(n_positive, n, **options)


def against(share: Estimate, null_value: float | None, confidence: float) -> Estimate:
    """Return a share with another null value and its two-sided p, by the test that matches its interval.

    The exact binomial test; of an interval that holds at any time 1 over the largest ratio of the mixture so far; of
    any other, such as one corrected for a classifier's errors, that of the normal distribution through its ends.

    Parameters
    ----------
    share : Estimate. With its interval at this ``confidence``.

    >>> round(against(share_interval(8, 10), 0.5, 0.95).p_value, 4)
    0.1094
    """
    share = replace(share, null_value=null_value, p_value=math.nan)
    if null_value is None or math.isnan(share.low):
        return share
    n_positive = share.value * share.n
    if share.method.startswith(EXACT):
        return replace(share, p_value=exact_p_value(round(n_positive), share.n, null_value))
    if share.method.startswith(SEQUENCE):
        return replace(share, p_value=_sequence_p_value(n_positive, share.n, null_value))
    return with_p_through_ends(share, confidence)


def difference_sequence(first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean of ``second − first`` of pairs of values in [0, 1], with an interval that holds at any time.

    The sequence of the mean of (1 + second − first) / 2, which lies in [0, 1] too, in units of the difference.

    Returns
    -------
    Estimate : in [-1, 1], null value 0; its p, too, may be looked at at any n.

    Raises InvalidInput: for values outside of [0, 1], none, or different numbers of them.

    >>> gap = difference_sequence([0, 0, 1, 0], [1, 1, 1, 0])
    >>> gap.value, gap.n
    (0.5, 4)
    """
    x, y = finite_vector(first, "first"), finite_vector(second, "second")
    if x.shape != y.shape or min(x.min(), y.min()) < 0 or max(x.max(), y.max()) > 1:
        raise InvalidInput(f"Pairs of values from 0 to 1 are needed; got {len(x)} and {len(y)}, or others among them.")
    half = confidence_sequence(float(((1 + y - x) / 2).sum()), len(x), confidence=confidence, null_value=0.5)
    return replace(half.scaled(2.0, -1.0), method=f"{half.method} of pairs")


def holds_at_any_time(estimate: Estimate) -> bool:
    """True if an interval is a confidence sequence, corrected for a classifier's errors or not.

    >>> holds_at_any_time(confidence_sequence(1, 2)), holds_at_any_time(share_interval(1, 2))
    (True, False)
    """
    return estimate.method.removeprefix("Rogan–Gladen, ").startswith(SEQUENCE)


def _check_counts(n_successes: object, n: object) -> tuple[float, int]:
    """Return a count and its n as numbers; InvalidInput if they cannot be those of a share."""
    try:
        k, m = float(n_successes), float(n)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"A share needs two numbers; got {n_successes!r} of {n!r}.") from error
    if not (m >= 1 and m.is_integer() and -_ROUNDING <= k <= m + _ROUNDING):
        raise InvalidInput(f"A share needs 0 <= n_successes <= n and a whole n >= 1; got {n_successes} of {n}.")
    return min(max(k, 0.0), m), int(m)


def _estimate_look(k: float, n: int, confidence: float, null_value: float | None) -> Estimate:
    low, high = _end(k, n, confidence), 1 - _end(n - k, n, confidence)
    share = k / n
    method = f"{SEQUENCE} {format_percent(confidence)}"
    low, high = min(low, share), max(high, share)
    p_value = math.nan if null_value is None else _sequence_p_value(k, n, null_value)
    return Estimate(value=share, low=low, high=high, n=n, null_value=null_value, method=method, p_value=p_value)


def _sequence_p_value(k: float, n: int, null: float) -> float:
    """B(½, ½) pᵏ (1−p)ⁿ⁻ᵏ / B(½+k, ½+n−k), at most 1."""
    with np.errstate(divide="ignore"):
        likelihood = float(xlogy(k, null) + xlog1py(n - k, -null))
    return math.exp(min(0.0, likelihood + float(betaln(_PRIOR, _PRIOR) - betaln(_PRIOR + k, _PRIOR + n - k))))


@lru_cache(_MOST_REMEMBERED)
def _end(k: float, n: int, confidence: float) -> float:
    """Smallest share that is not ruled out, in log-odds t the left root of c + k log(1+e⁻ᵗ) + (n−k) log(1+eᵗ)."""
    if k == 0:
        return 0.0
    c = float(betaln(_PRIOR + k, _PRIOR + n - k) - betaln(_PRIOR, _PRIOR)) + math.log1p(-confidence)
    if k == n:
        return math.exp(c / n)

    def excess(t: float) -> float:
        return c + k * float(np.logaddexp(0, -t)) + (n - k) * float(np.logaddexp(0, t))

    # At t = c/k the first two terms alone are 0 or more; at the share itself the mixture is below its maximum.
    return float(expit(scipy.optimize.brentq(excess, c / k, float(logit(k / n)), xtol=1e-12, rtol=1e-12)))


def _intersected(looks: Sequence[Estimate]) -> list[Estimate]:
    low, high, p_value, within = 0.0, 1.0, 1.0, []
    for look in looks:
        low, high, p_value = max(low, look.low), min(high, look.high), min(p_value, look.p_value)
        note, ends = "", (low, high)
        if low > high:
            ends = (math.nan, math.nan)
            note = "the looks leave no share: it moved while pictures came, or this is one of the few runs that mislead"
        p = math.nan if low > high or look.null_value is None else p_value
        within.append(replace(look, low=ends[0], high=ends[1], note=note, p_value=p))
    return within
