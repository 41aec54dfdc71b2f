"""Shares by the exact binomial test: its p-value, and the interval of all shares that it does not reject."""

from functools import lru_cache

from scipy import special, stats
from scipy.optimize import brentq

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import probability
from bias_core.stats.intervals import check_confidence, percent
from bias_core.types import Estimate

EXACT = "exact binomial"  # how the method of such an interval begins
_MOST_REMEMBERED = 65_536  # counts whose ends are remembered
_NEAR = 1e-14  # how near a root is found


def exact_interval(n_positive: int, n: int, *, confidence: float = 0.95, null_value: float | None = None) -> Estimate:
    """A share of n with Blaker's interval: the shares that :func:`exact_p_value` does not reject.

    {p : min(1, P(X >= k) + P(X <= j)) > α} and what lies between, for p below k / n; j is the largest count whose tail
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
    j = min(k, int(stats.binom.ppf(tail, n, null))) - 1
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
    """The share at which X <= j is as probable as X >= k, for j < k."""
    return float(brentq(lambda p: _at_most(j, n, p) - _at_least(k, n, p), 0.0, 1.0, xtol=_NEAR))


@lru_cache(_MOST_REMEMBERED)
def _lower_end(k: int, n: int, level: float) -> float:
    """The smallest share that is not rejected at this level.

    Towards larger shares the probability jumps up where j grows, falls and may rise again. At the lower end of Clopper
    and Pearson's interval P(X >= k) is half the level; the first j beyond it jumps above the level.
    """
    if k == 0:
        return 0.0
    least = float(special.betaincinv(k, n - k + 1, level / 2))
    j = int(stats.binom.ppf(level / 2, n, least))  # the first whose P(X <= j) is more than half the level there
    end = _equal_tails(j, k, n) if j < k else 1.0

    def excess(share: float) -> float:
        return _at_least(k, n, share) + _at_most(j - 1, n, share) - level

    return float(brentq(excess, least, end, xtol=_NEAR)) if excess(end) > 0 else end
