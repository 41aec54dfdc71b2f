"""Exact inference on the highest interaction of binary attributes, given everything simpler."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, log_softmax

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array

_TIE = 1e-7  # chances that differ by less, relatively, are equal up to rounding
_FAR = 1e3  # log odds ratios beyond this count as infinite


def parity_signs(k: int) -> Array:
    """Sign of each of the 2^k cells in the highest interaction: + for the cell that has all, and in turn.

    Cells are in binary order: the first attribute is the highest digit, the last cell has all attributes.

    >>> parity_signs(2)
    array([ 1., -1., -1.,  1.])
    """
    n_lacking = k - np.array([number.bit_count() for number in range(2**k)])
    return np.asarray((-1.0) ** n_lacking)


@dataclass(frozen=True, kw_only=True)
class ParityFamily:
    """Tables of k binary attributes, one a stratum, given all margins of k - 1 of them.

    Given these, a table n moves along one line, n + s·u with the signs s of :func:`parity_signs`, and

    P(u) ∝ e^(θu) / Π_c (n_c + s_c u)!

    θ is the log odds ratio of two attributes (noncentral hypergeometric) [fisher1935logic], of three the log of the
    ratio of two odds ratios [zelen1971]; it is shared by the strata, whose u are added.
    """

    tables: Array  # (n_strata, 2^k) counts

    @cached_property
    def signs(self) -> Array:
        """Of the cells, ``(2^k,)``."""
        return parity_signs(int(math.log2(self.tables.shape[1])))

    @cached_property
    def _strata(self) -> list[tuple[Array, Array]]:
        """Per stratum in which something can move: the u that are possible, and the logs of their weights."""
        lines = []
        for table in self.tables:
            plus, minus = table[self.signs > 0], table[self.signs < 0]
            u = np.arange(-plus.min(), minus.min() + 1)
            if len(u) > 1:
                weights = -gammaln(table + np.outer(u, self.signs) + 1).sum(axis=1)
                lines.append((u, weights))
        return lines

    @property
    def can_tell(self) -> bool:
        """Whether any other table has the same margins."""
        return bool(self._strata)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Smallest and largest sum of u; the tables as they are have 0."""
        return sum(float(u[0]) for u, _ in self._strata), sum(float(u[-1]) for u, _ in self._strata)

    def expected(self, theta: float) -> Array:
        """The tables of all strata together, as expected under θ, ``(2^k,)``."""
        moved = {math.inf: self._ends[1], -math.inf: self._ends[0]}.get(theta)
        return np.asarray(self.tables.sum(axis=0) + self.signs * (self._mean(theta) if moved is None else moved))

    def _mean(self, theta: float) -> float:
        return sum(float(np.exp(_normalised(w + theta * u)) @ u) for u, w in self._strata)

    @cached_property
    def estimate(self) -> float:
        """The conditional maximum-likelihood θ; at an end, where that is infinite, the one that makes it even odds."""
        low, high = self._ends
        if low < 0 < high:
            return _root(self._mean)
        return self.quantile(0.5, at_least=high == 0, mid=False)

    def chances(self, theta: float) -> tuple[Array, Array]:
        """The possible sums of u, and their chances under θ."""
        sums, chances = np.zeros(1), np.ones(1)
        for u, weights in self._strata:
            sums = np.arange(sums[0] + u[0], sums[-1] + u[-1] + 1)
            chances = np.convolve(chances, np.exp(_normalised(weights + theta * u)))
        return sums, chances / chances.sum()

    def quantile(self, share: float, *, at_least: bool, mid: bool = True) -> float:
        """The θ under which a u as large (``at_least``) or as small as was seen has this chance.

        ``mid``: what was seen itself counts half [hirji2006]. Infinite where every θ gives it a larger chance.
        """
        low, high = self._ends
        if (low if at_least else high) == 0:  # every table has as much, or half of what was seen is too much already
            return -math.inf if at_least else math.inf

        def beyond(theta: float) -> float:
            sums, chances = self.chances(theta)
            side = sums > 0 if at_least else sums < 0
            return float(chances[side].sum() + chances[sums == 0].sum() * (0.5 if mid else 1.0)) - share

        return _root(beyond if at_least else lambda theta: -beyond(theta))

    @cached_property
    def p_value(self) -> float:
        """Two-sided mid-p of θ = 0: the chance of all less likely tables, and half of that of those as likely.

        Counted whole, they would make a test that claims more rarely than its level allows, and misses more; so it does
        about as well as tests that take no margins as given [lydersen2009].
        """
        sums, chances = self.chances(0.0)
        own = float(chances[sums == 0][0])
        less_likely = float(chances[chances < own * (1 - _TIE)].sum())
        as_likely = float(chances[chances <= own * (1 + _TIE)].sum()) - less_likely
        return max(less_likely + as_likely / 2, sys.float_info.min)  # never 0, though it may be smaller than any number


def _normalised(logs: Array) -> Array:
    return np.asarray(log_softmax(logs))


def _root(rising: Callable[[float], float]) -> float:
    """Where a rising function of θ is 0; infinite where it is beyond any θ that can be told."""
    reach = 1.0
    while rising(reach) < 0:
        reach *= 2
        if reach > _FAR:
            return math.inf
    lower = 1.0
    while rising(-lower) > 0:
        lower *= 2
        if lower > _FAR:
            return -math.inf
    return float(brentq(rising, -lower, reach, xtol=1e-9))


def parity_family(codes: NDArray[np.intp], n_cells: int, strata: NDArray[np.intp]) -> ParityFamily:
    """The tables of cells ``codes (n,)`` in each of the ``strata (n,)``.

    Raises InvalidInput: for no units.

    >>> family = parity_family(np.repeat([0, 1, 2, 3], [8, 2, 1, 5]), 4, np.zeros(16, dtype=int))
    >>> family.tables.astype(int).tolist(), round(family.p_value, 3)
    ([[8, 2, 1, 5]], 0.023)
    """
    if not len(codes):
        raise InvalidInput("codes are empty: give at least one picture.")
    tables = np.zeros((int(strata.max()) + 1, n_cells))
    np.add.at(tables, (strata, codes), 1)
    return ParityFamily(tables=tables)
