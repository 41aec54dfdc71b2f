"""Intersections: attributes that appear together more often than their single shares predict."""

import math
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, log_softmax

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, same_length
from bias_core.measures.cards import Card, takes
from bias_core.measures.intervals import check_confidence, exact_interval, normal_p_value, with_p_through_ends
from bias_core.measures.two_phase import (
    Errors,
    error_noise,
    inverse_matrix,
    kronecker_product,
    reading_matrix,
    usable_errors,
)
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import format_percent

_FAR = 1e3  # log odds ratios beyond this count as infinite


def parity_signs(k: int) -> Array:
    """Sign of each of the 2^k cells in the highest interaction: + for the cell with all attributes.

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
    ratio of two odds ratios [zelen1971]; the strata share it, and their u are added.
    """

    tables: Array  # (n_strata, 2^k) counts

    @cached_property
    def signs(self) -> Array:
        """Signs of the cells, ``(2^k,)``."""
        return parity_signs(int(math.log2(self.tables.shape[1])))

    @cached_property
    def _strata(self) -> list[tuple[Array, Array]]:
        """Possible u of each stratum that has more than one, and the logs of their weights."""
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
        """True if any other table has the same margins."""
        return bool(self._strata)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Smallest and largest sum of u; the observed tables have 0."""
        return sum(float(u[0]) for u, _ in self._strata), sum(float(u[-1]) for u, _ in self._strata)

    def expected(self, theta: float) -> Array:
        """The tables of all strata together, as expected under θ, ``(2^k,)``."""
        moved = {math.inf: self._ends[1], -math.inf: self._ends[0]}.get(theta)
        return np.asarray(self.tables.sum(axis=0) + self.signs * (self._mean(theta) if moved is None else moved))

    def _mean(self, theta: float) -> float:
        return sum(float(np.exp(_normalised(w + theta * u)) @ u) for u, w in self._strata)

    @cached_property
    def estimate(self) -> float:
        """Conditional maximum-likelihood θ; if that is infinite, the θ that gives even odds."""
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
        """θ under which a u as large (``at_least``) or as small as observed has this chance.

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

    def p_value(self, theta: float = 0.0) -> float:
        """Two-sided mid-p of θ: twice the smaller chance of a u as far out as observed, which itself counts half.

        So it is at most 1 - confidence just where the interval between the quantiles excludes θ. Counted whole, what
        was seen would make a test that claims more rarely than its level allows, and misses more [lydersen2009].
        """
        sums, chances = self.chances(theta)
        half = float(chances[sums == 0].sum()) / 2
        smaller = min(float(chances[sums > 0].sum()), float(chances[sums < 0].sum())) + half
        return min(1.0, max(2 * smaller, sys.float_info.min))  # never 0, though it may be smaller than any number


def _normalised(logs: Array) -> Array:
    return np.asarray(log_softmax(logs))


def _root(rising: Callable[[float], float]) -> float:
    """Root of a rising function of θ; infinite if it is too large to compute."""
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
    return float(scipy.optimize.brentq(rising, -lower, reach, xtol=1e-9))


def parity_family(codes: NDArray[np.intp], n_cells: int, strata: NDArray[np.intp]) -> ParityFamily:
    """The tables of cells ``codes (n,)`` in each of the ``strata (n,)``.

    Raises InvalidInput: for no units.

    >>> family = parity_family(np.repeat([0, 1, 2, 3], [8, 2, 1, 5]), 4, np.zeros(16, dtype=int))
    >>> family.tables.astype(int).tolist(), round(family.p_value(), 3)
    ([[8, 2, 1, 5]], 0.025)
    """
    if not len(codes):
        raise InvalidInput("codes are empty: give at least one picture.")
    tables = np.zeros((int(strata.max()) + 1, n_cells))
    np.add.at(tables, (strata, codes), 1)
    return ParityFamily(tables=tables)


MOST_CROSSED = 3  # attributes at once
LEAST_EXPECTED = 5.0  # pictures in a cell; fewer tell little [cochran1954]
_MOST_STRETCH = 2.0


@dataclass(frozen=True, kw_only=True)
class CrossedShares:
    """The cells of crossed attributes, in binary order: the first attribute varies slowest, the last cell has all."""

    cells: Array  # (2^k, k) of 0 and 1: which attributes a cell has
    counts: Array  # (2^k,) pictures that are read so
    shares: tuple[Estimate, ...]  # P of each cell, in [0, 1], corrected where the errors are known; not shrunk
    shrunk: Array  # (2^k,) P drawn towards `expected`, within the interval of `shares`; sums to 1 but for that
    expected: Array  # (2^k,) P of each cell if the attributes had nothing to do with each other
    excess: tuple[Estimate, ...]  # P of each cell less `expected`, in [-1, 1], null value 0
    weight: float  # of `expected` in `shrunk`, in [0, 1]

    @property
    def together(self) -> Estimate:
        """P of the cell with all attributes."""
        return self.shares[-1]

    @property
    def excess_together(self) -> Estimate:
        """Excess of the cell with all attributes."""
        return self.excess[-1]

    @property
    def n_needed(self) -> int:
        """Number of pictures that gives every possible cell an expected count of 5 or more.

        >>> crossed_shares([[1, 1], [1, 0], [0, 1], [0, 0], [0, 0]]).n_needed  # the rarest: 0.4 · 0.4
        32
        """
        possible = self.expected[self.expected > 0]
        return math.ceil(LEAST_EXPECTED / float(possible.min()) - 1e-9) if len(possible) else 0


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """Association of attributes beyond that of fewer of them."""

    # θ, a log odds ratio (of three: log of a ratio of two); unbounded, null value 0, with its exact mid-p
    estimate: Estimate
    least_expected: float  # pictures to be expected in the rarest cell if nothing had to do with anything


def crossed_shares(
    readings: ArrayLike, *, strata: Sequence[Hashable] | None = None, errors: Errors = None, confidence: float = 0.95
) -> CrossedShares:
    """Share of the pictures in every combination of attributes, and that expected from the single shares.

    P(c) = Σ_o W_co q_o, with W = E_1⁻¹ ⊗ E_2⁻¹ ⊗ E_3⁻¹

    excess(c) = P(c) - λ(c), λ(c) = Π_j P_j(c_j)

    q_o is the share of the pictures that are read as o, E_j holds the chances of what is read of attribute j; after
    [rogan1978, Eq. 1], attribute by attribute. λ is what the single shares P_j give, and P is shrunk
    towards it: (n P + K λ) / (n + K), K = (1 − Σ P²) / Σ (λ − P)²  [fienberg1973].

    Parameters
    ----------
    readings : array (n, k), of 0 and 1, 2 or 3 attributes. Whether each is seen in each picture.
    strata : the prompt of each picture, or None for one prompt. λ is made within prompts: two attributes that two
        prompts have in unlike shares are no excess.
    errors : of the classifier on each attribute, None (uncorrected) if unknown or no better than chance. Errors on
        several attributes of a picture are taken to be independent.

    Returns
    -------
    CrossedShares : shares in [0, 1], with score intervals; excess in [-1, 1], null value 0, with score intervals.
        The excess of a cell has no interval (nan, with a note) where an attribute is seen in all or in no picture.

    Raises
    ------
    InvalidInput : for readings that are not 0 and 1 of 2 or 3 attributes, no pictures, or strata or errors that are not
        one each.

    Notes
    -----
    Intervals are of P as counted, not of the shrunk P, so that they hold whether or not the attributes have to do with
    each other; the shrunk P goes no farther than their ends [efron1972]. They widen with the uncertainty of the
    classifier's errors. A corrected share below 0 is set to 0.

    Examples
    --------
    >>> crossed = crossed_shares([[1, 1], [1, 1], [0, 0], [0, 0], [1, 0]])
    >>> crossed.together.value, round(float(crossed.expected[-1]), 2), round(float(crossed.shrunk[-1]), 2)
    (0.4, 0.24, 0.31)
    """
    check_confidence(confidence)
    presence = _check_readings(readings)
    codes, n_cells = _codes(presence), 2 ** presence.shape[1]
    groups = _number_strata(strata, len(presence))
    used = usable_errors(errors, presence.shape[1])
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    weights = kronecker_product([inverse_matrix(reader_error) for reader_error in used])  # (2^k, 2^k)
    counts = np.bincount(codes, minlength=n_cells).astype(float)
    n, read = len(codes), counts / len(codes)
    raw = weights @ read
    noise = _noise(weights, read, raw) + n * error_noise(used, weights, raw)
    shares = tuple(
        _score_interval(*of, n=n, z=z, method=f"score {format_percent(confidence)}")
        for of in zip(raw, noise, strict=True)
    )
    values = np.array([share.value for share in shares])
    alone = _independence(codes, groups, weights, used)
    shrunk, weight = _shrunk(values, alone.expected, n)
    return CrossedShares(
        cells=_list_cells(presence.shape[1]),
        counts=counts,
        shares=shares,
        shrunk=np.array([min(max(p, share.low), share.high) for p, share in zip(shrunk, shares, strict=True)]),
        expected=alone.expected,
        excess=tuple(_excesses(raw, shares, alone, confidence)),
        weight=weight,
    )


def interaction(
    readings: ArrayLike, *, strata: Sequence[Hashable] | None = None, errors: Errors = None, confidence: float = 0.95
) -> Interaction:
    """Association of attributes beyond that expected from their shares and from fewer of them.

    θ = Σ_c s_c log P(c), with s_c = +1 where the attributes that c lacks are even in number, else -1

    Of two attributes θ is the log odds ratio, of three the log of the ratio of the odds ratios of two with and without
    the third. Given the margins its chances are known exactly [fisher1935logic; zelen1971], see
    :class:`bias_core.measures.intersections.ParityFamily`.

    Parameters
    ----------
    readings : array (n, k), of 0 and 1, 2 or 3 attributes.
    strata : the prompt of each picture, or None for one prompt. Pictures are compared within prompts alone.
    errors : of the classifier on each attribute, as :func:`crossed_shares` takes them.

    Returns
    -------
    Interaction : θ is the conditional maximum-likelihood estimate; where a cell is empty, that one is infinite, and the
        median-unbiased estimate is given [hirji2006]. p and the interval are exact with mid-p, for which of two
        attributes there are good reasons [lydersen2009]; an end may be infinite. θ is nan, with a note, where an
        attribute is seen in all or in no picture.

    Raises
    ------
    InvalidInput : as :func:`crossed_shares`.

    Notes
    -----
    Errors of the classifier draw θ of two attributes to 0; θ and its ends move by their effect on the table that is
    expected under each. p is that of the θ, as read, which is corrected to 0: of two attributes in one prompt 0 itself,
    for what is unrelated is read as unrelated. Where the correction would empty a cell, θ stands as read, with a note.

    Examples
    --------
    >>> pairs = [[1, 1]] * 9 + [[1, 0]] * 2 + [[0, 1]] * 3 + [[0, 0]] * 8
    >>> found = interaction(pairs)
    >>> round(math.exp(found.estimate.value), 2), round(found.estimate.p_value, 3)  # as scipy's conditional odds ratio
    (10.4, 0.016)
    """
    check_confidence(confidence)
    presence = _check_readings(readings)
    groups, k = _number_strata(strata, len(presence)), presence.shape[1]
    family = parity_family(_codes(presence), 2**k, groups)
    expected = _expected_as_read(_codes(presence), groups, k)
    least_expected = float(len(presence) * expected[expected > 0].min()) if (expected > 0).any() else 0.0
    if not family.can_tell:
        note = "one of the attributes is seen in all pictures or in none, or always with another"
        undefined = Estimate.undefined(len(presence), note, null_value=0.0)
        return Interaction(estimate=undefined, least_expected=least_expected)
    alpha = (1 - confidence) / 2
    ends = (family.quantile(alpha, at_least=True), family.quantile(alpha, at_least=False))
    value, low, high, null, note = _correct_thetas(family, (family.estimate, *ends), usable_errors(errors, k))
    estimate = Estimate(
        value=value,
        low=low,
        high=high,
        n=len(presence),
        null_value=0.0,
        method=f"exact mid-p {format_percent(confidence)}",
        note=note,
        p_value=family.p_value(null),
    )
    return Interaction(estimate=estimate, least_expected=least_expected)


def _check_readings(readings: ArrayLike) -> Array:
    try:
        presence = np.asarray(readings, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"readings must be one rectangular array of 0 and 1; {error}.") from None
    if presence.ndim != 2 or not 2 <= presence.shape[1] <= MOST_CROSSED or not len(presence):
        raise InvalidInput(
            f"readings must have a row per picture and 2 to {MOST_CROSSED} attributes; got shape {presence.shape}."
        )
    if not np.isin(presence, (0, 1)).all():
        wrong = presence[~np.isin(presence, (0, 1))]
        raise InvalidInput(f"readings must be 0 or 1; got {wrong.size} others, the first is {wrong[0]}.")
    return presence


def _codes(presence: Array) -> np.ndarray:
    """The number of each picture's cell, in binary order."""
    return np.asarray(presence @ 2.0 ** np.arange(presence.shape[1] - 1, -1, -1)).astype(int)


def _list_cells(k: int) -> Array:
    return (np.arange(2**k)[:, None] >> np.arange(k - 1, -1, -1) & 1).astype(np.float64)


def _number_strata(strata: Sequence[Hashable] | None, n: int) -> np.ndarray:
    if strata is None:
        return np.zeros(n, dtype=int)
    same_length(readings=np.empty(n), strata=np.empty(len(strata)))
    return np.unique(np.asarray(strata, dtype=str), return_inverse=True)[1]


def _noise(weights: Array, read: Array, raw: Array) -> Array:
    """Variance of a picture's weight beyond p (1 − p), that of a share that is counted."""
    return np.asarray(np.maximum(weights**2 @ read - raw**2 - raw * (1 - raw), 0.0))


def _score_interval(p: float, noise: float, *, n: int, z: float, method: str) -> Estimate:
    """All shares π with (p − π)² <= z² (π (1 − π) + noise) / n: Wilson's interval where there is no further noise."""
    a, b, c = 1 + z * z / n, 2 * p + z * z / n, p * p - z * z * noise / n
    root = math.sqrt(max(b * b - 4 * a * c, 0.0))
    value = min(1.0, max(0.0, float(p)))
    low, high = (min(1.0, max(0.0, float(b + sign * root) / (2 * a))) for sign in (-1, 1))
    return Estimate(value=value, low=min(low, value), high=max(high, value), n=n, method=method)


def _expected_as_read(codes: np.ndarray, groups: np.ndarray, k: int) -> Array:
    return _independence(codes, groups, np.eye(2**k), [None] * k).expected


@dataclass(frozen=True, kw_only=True)
class _Independence:
    """Shares of the cells if attributes were independent, with the variances of these and of P less them."""

    expected: Array  # (2^k,) λ
    expected_variances: Array  # (2^k,)
    variances: Array  # (3, 2^k) of P − λ where that is x more than it is read: v_0, v_1, v_2 of v_0 + v_1 x + v_2 x²
    can_tell: bool  # True if two attributes vary in a stratum


def _independence(
    codes: np.ndarray, groups: np.ndarray, weights: Array, used: Sequence[ReaderErrors | None]
) -> _Independence:
    """λ within strata; x moves the cells as little as possible while the single shares stay."""
    cells, n = _list_cells(len(used)), len(codes)
    expected, of_expected, variances = np.zeros(len(cells)), np.zeros(len(cells)), np.zeros((3, len(cells)))
    can_tell = False
    moves = (
        kronecker_product([reading_matrix(reader_error) for reader_error in used]) @ _with_the_same_margins(cells)
    ).T
    for group in range(int(groups.max()) + 1):
        of_group = codes[groups == group]
        read, part = np.bincount(of_group, minlength=len(cells)) / len(of_group), len(of_group) / n
        margins = np.clip(weights @ read @ cells, 0.0, 1.0)  # of the single shares, corrected
        factors = np.where(cells > 0, margins, 1 - margins)  # (2^k, k)
        expected += part * factors.prod(axis=1)
        slopes = np.stack([np.delete(factors, j, axis=1).prod(axis=1) for j in range(len(used))], axis=1)
        # What each reading adds to λ, and to P − λ: (2^k cells, 2^k readings).
        to_expected = (slopes * np.where(cells > 0, 1.0, -1.0)) @ (cells.T @ weights)
        adds = weights - to_expected
        shares = read @ cells
        can_tell |= int(((shares > 0) & (shares < 1)).sum()) > 1
        if len(of_group) > 1:
            mean, slope = adds @ read, (adds * moves).sum(axis=1)
            of_x = adds**2 @ read - mean**2, (adds**2 * moves).sum(axis=1) - 2 * mean * slope, -(slope**2)
            variances += part**2 * np.stack(of_x) / (len(of_group) - 1)
            of_expected += part**2 * (to_expected**2 @ read - (to_expected @ read) ** 2) / (len(of_group) - 1)
    return _Independence(expected=expected, expected_variances=of_expected, variances=variances, can_tell=can_tell)


def _with_the_same_margins(cells: Array) -> Array:
    """Change of P, by column, if one cell grows by 1 and the single shares stay, by least squares."""
    margins = np.column_stack([np.ones(len(cells)), cells])
    free = np.eye(len(cells)) - margins @ np.linalg.pinv(margins)
    return np.asarray(free / np.diag(free), dtype=np.float64)


def _shrunk(values: Array, expected: Array, n: int) -> tuple[Array, float]:
    """(n P + K λ) / (n + K) and K / (n + K); all of λ where it is P."""
    apart = float(((expected - values) ** 2).sum())
    if not apart:
        return expected, 1.0
    strength = max(0.0, 1 - float((values**2).sum())) / apart
    return (n * values + strength * expected) / (n + strength), strength / (n + strength)


def _excesses(raw: Array, shares: Sequence[Estimate], alone: _Independence, confidence: float) -> Iterator[Estimate]:
    """All excesses value + x with x² <= z² (v_0 + v_1 x + v_2 x²): the variance is that of the excess asked about.

    There the single shares are as read, so that no cell can be rarer than never. Below 0, and in
    small cells, the lower end is therefore as low as the ends of P and of λ allow [zou2008].
    """
    z, method = float(scipy.stats.norm.ppf((1 + confidence) / 2)), f"score {format_percent(confidence)}"
    for i, share in enumerate(shares):
        constant, slope, bend = z * z * alone.variances[:, i]
        value, expected = float(raw[i] - alone.expected[i]), float(alone.expected[i])
        if not alone.can_tell:
            yield Estimate.undefined(share.n, "an attribute is seen in all pictures or in none", null_value=0.0)
            continue
        root = math.sqrt(max(slope**2 + 4 * (1 - bend) * constant, 0.0))
        low, high = (value + float(slope + sign * root) / (2 * (1 - bend)) for sign in (-1, 1))
        if expected > 0 and (value < 0 or share.n * expected < LEAST_EXPECTED):
            low = min(low, value - _reach_below(share, expected, constant, z * z * alone.expected_variances[i]))
        low, high = float(max(-1.0, min(low, value))), float(min(1.0, max(high, value)))
        excess = Estimate(value=value, low=low, high=high, n=share.n, null_value=0.0, method=method)
        yield with_p_through_ends(excess, confidence)


def _reach_below(share: Estimate, expected: float, of_difference: float, of_expected: float) -> float:
    """Reach of P − λ below its value, from the lower end of P and the upper end of λ; variances times z².

    Their correlation, which grows as √P, is taken at that lower end: of one picture in a cell little is left of it.
    """
    below, root = share.value - share.low, math.sqrt(max(0.0, of_expected))  # by rounding it may be -1e-18
    stretch = min(root / expected, _MOST_STRETCH)  # on the scale of logarithms, where λ is not all but 0
    above = root * math.expm1(stretch) / stretch if root else 0.0
    of_share = max(0.0, (share.high - share.low) / 2) ** 2
    spread = math.sqrt(of_share) * root
    alike = min(1.0, max(-1.0, (of_share + of_expected - of_difference) / (2 * spread))) if spread > 0 else 0.0
    alike *= math.sqrt(share.low / share.value) if share.value > 0 else 0.0
    return math.sqrt(max(0.0, below**2 - 2 * alike * below * above + above**2))


def _correct_thetas(
    family: ParityFamily, thetas: tuple[float, float, float], used: Sequence[ReaderErrors | None]
) -> tuple[float, float, float, float, str]:
    """θ and its ends, corrected for the classifier's errors in the expected tables, and the θ as read that gives 0."""
    if not any(used):
        return *thetas, 0.0, ""
    weights, signs = kronecker_product([inverse_matrix(reader_error) for reader_error in used]), parity_signs(len(used))

    def moved(theta: float) -> float:
        if math.isinf(theta):
            return theta
        read = family.expected(theta)
        truth = weights @ read
        if (read > 0).all() and (truth > 0).all():
            return theta + float(signs @ np.log(truth) - signs @ np.log(read))
        empty = set(signs[truth <= 0])
        return math.nan if len(empty) != 1 else -math.inf * empty.pop()

    value, low, high = map(moved, thetas)
    null = _root(lambda theta: float(np.nan_to_num(moved(theta), posinf=_FAR, neginf=-_FAR)))
    if math.isfinite(value) and not (math.isnan(low) or math.isnan(high)):
        return value, low, high, null, ""
    return *thetas, 0.0, "not corrected: the classifier's errors are as large as the rarest cell"


_INPUTS = takes(readings="readings: whether each of two or three attributes is seen in each picture")


_INSIDE = 1e-9  # from the share itself, which an interval always holds; at 0 and 1 nothing is left of its variance


@dataclass(frozen=True, kw_only=True)
class CrossedStereotype:
    """STS in each combination of the further attributes, in binary order: the first varies slowest."""

    overall: Estimate  # STS of all people, in [-100, 100], null value 0, positive: as the stereotype says
    cells: Array  # (2^(k-1), k-1) of 0 and 1: which of the further attributes a cell has
    counts: Array  # (2^(k-1),) people who are read so
    scores: tuple[Estimate, ...]  # STS of each cell, corrected where the errors are known; not shrunk; n: people in it
    shrunk: Array  # (2^(k-1),) STS drawn towards `overall`, within the interval of `scores`; nan where a cell is empty
    expected: Array  # (2^(k-1),) people to be expected on the rarer side of the stereotype; below 5 a cell tells little

    @property
    def joint_score(self) -> Estimate:
        """STS of the people who have all further attributes."""
        return self.scores[-1]


def crossed_stereotype(
    readings: ArrayLike, *, strata: Sequence[Hashable] | None = None, errors: Errors = None, confidence: float = 0.95
) -> CrossedStereotype:
    """The stereotype test score of the people in every combination of further attributes.

    STS_c = 100 (2 P(+, c) / P(c) - 1)

    [wan2024pst, Eq. 1] over the people of cell c alone: P(c) is the share of the people with the further attributes c,
    P(+, c) of those who also look as the stereotype says. Shrunk scores are of shares that are shrunk
    [fienberg1973], as :func:`bias_core.measures.intersections.crossed_shares` has them.

    Parameters
    ----------
    readings : array (n, k), of 0 and 1, 2 or 3 columns, a row per person. The first says if a person looks as
        the stereotype of their role says, the others if one or two further attributes are seen.
    strata : identity of each person, or None for one identity. Scores shrink towards the identities' own.
    errors : of the classifier on each column, None where unknown or no better than chance; then uncorrected. Errors on
        several attributes of a person are taken to be independent.

    Returns
    -------
    CrossedStereotype : scores in [-100, 100], null value 0, positive conforms to the stereotype. nan, with a note,
        where a cell is empty.

    Raises
    ------
    InvalidInput : as :func:`bias_core.measures.intersections.crossed_shares`.

    Notes
    -----
    The paper scores all people together; cells are ours. Intervals are score intervals of the ratio P(+, c) / P(c): all
    values that a test of them does not reject. Without errors of the classifier they are exact over the people of the
    cell. They are of the score as counted, and widen by what is not known of the errors. A person is the unit: give
    one person of a picture, or people of one identity. Whether the cells differ is what
    :func:`bias_core.measures.intersections.interaction` tests, of the same readings.

    Examples
    --------
    >>> old, young = [[1, 0]] * 5 + [[0, 0]], [[1, 1]] * 6 + [[0, 1]] * 6
    >>> crossed = crossed_stereotype(old + young)
    >>> [round(one.value, 1) for one in crossed.scores], crossed.shrunk.round(1).tolist()
    ([66.7, 0.0], [38.3, 14.2])
    """
    crossed = crossed_shares(readings, strata=strata, errors=errors, confidence=confidence)
    n, half = round(crossed.counts.sum()), len(crossed.counts) // 2
    reader = _PeopleReadings(
        read=crossed.counts / n, errors=usable_errors(errors, crossed.cells.shape[1]), n=n, confidence=confidence
    )
    counts = crossed.counts.reshape(2, half).sum(axis=0)
    scores = tuple(_score_cells(reader, np.arange(half) == place, int(counts[place])) for place in range(half))
    overall = _score_cells(reader, np.ones(half, dtype=bool), n)
    values = np.array([share.value for share in crossed.shares])
    drawn = (1 - crossed.weight) * values + crossed.weight * crossed.expected
    conforms = (overall.value + 100) / 200
    return CrossedStereotype(
        overall=overall,
        cells=crossed.cells[:half, 1:],
        counts=counts,
        scores=scores,
        shrunk=np.array([_within(*of) for of in zip(drawn[:half], drawn[half:], scores, strict=True)]),
        expected=counts * min(conforms, 1 - conforms),
    )


@dataclass(frozen=True, kw_only=True)
class _PeopleReadings:
    """Readings of people, with the classifier's errors."""

    read: Array  # (2^k,) shares of the people
    errors: Sequence[ReaderErrors | None]
    n: int  # people
    confidence: float  # of the interval


def _score_cells(reader: _PeopleReadings, cell: np.ndarray, count: int) -> Estimate:
    """STS of some cells of the further attributes, a mask ``(2^(k-1),)``: all π with (P(+, c) − π P(c))² <= z² V(π).

    V is the variance of that difference in a world where π is the truth and P(c), and all other cells, are as found.
    """
    weights, to_readings = (
        kronecker_product([of(reader_error) for reader_error in reader.errors])
        for of in (inverse_matrix, reading_matrix)
    )
    truth = np.clip(weights @ reader.read, 0, None).reshape(2, -1)  # against, and as, the stereotype has it
    total = float(truth[:, cell].sum())
    if not count or not total:
        return Estimate.undefined(count, "no person has this combination", null_value=0.0)
    share = float(truth[1, cell].sum()) / total
    if not any(reader.errors):
        counted = exact_interval(round(share * count), count, confidence=reader.confidence, null_value=_EVEN)
        return counted.scaled(200, -100)
    z = float(scipy.stats.norm.ppf((1 + reader.confidence) / 2))
    against, conforming = (np.concatenate(parts) for parts in ((cell, 0 * cell), (0 * cell, cell)))
    of_cell = truth[:, cell].sum(axis=0) / total

    def variance(pi: float) -> float:
        """Variance of the difference if π is the truth."""
        world = truth.copy()
        world[:, cell] = np.outer((1 - pi, pi), of_cell) * total
        world = world.ravel() / world.sum()
        adds = ((1 - pi) * conforming - pi * against) @ weights  # what a person who is read so adds to the difference
        by_chance = float(adds**2 @ (to_readings @ world)) / reader.n
        return by_chance + float(error_noise(reader.errors, adds[None, :], world)[0])

    def beyond(pi: float) -> float:
        """Excess of the squared difference over what the test allows."""
        return ((share - pi) * total) ** 2 - z**2 * variance(pi)

    low = 0.0 if beyond(0.0) <= 0 else float(scipy.optimize.brentq(beyond, 0.0, share - _INSIDE))
    high = 1.0 if beyond(1.0) <= 0 else float(scipy.optimize.brentq(beyond, share + _INSIDE, 1.0))
    estimate = Estimate(
        value=share,
        low=low,
        high=high,
        n=count,
        null_value=_EVEN,
        method=f"score {format_percent(reader.confidence)}",
        p_value=normal_p_value((share - _EVEN) * total, math.sqrt(variance(_EVEN))),
    )
    return estimate.scaled(200, -100)


_EVEN = 0.5  # share of people who conform under no stereotype


def _within(against: float, conforming: float, score: Estimate) -> float:
    """STS of shrunk shares, cut at the ends of the counted score [efron1972]."""
    if math.isnan(score.value):
        return math.nan
    return min(max(200 * conforming / (conforming + against) - 100, score.low), score.high)


CARDS = (
    Card(
        function=crossed_shares,
        key="crossed_share",
        name="Crossed share",
        summary="Share of the pictures that show all of two or three attributes.",
        tex=r"P(c) = \sum_o W_{co} q_o, \quad W = E_1^{-1} \otimes E_2^{-1} \otimes E_3^{-1}",
        symbols="$q_o$ is the share of the pictures that are classified as the combination $o$; $E_j$ has the "
        "classifier's error rates on attribute $j$.",
        source="rogan1978, Eq. 1",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="seen together in more pictures",
        inputs=_INPUTS,
        limits="A cell with few pictures says little. It assumes that the classifier's errors on several attributes of "
        "a picture are independent.",
        field="together.value",
    ),
    Card(
        function=crossed_shares,
        key="joint_excess",
        name="Joint excess",
        summary="Share of the pictures that show the attributes together, minus that expected of independent "
        "attributes.",
        tex=r"P(c) - \lambda(c), \quad \lambda(c) = \prod_j P_j(c_j)",
        symbols="$P(c)$ is the crossed share of the combination $c$, $P_j(c_j)$ the share of the pictures that have "
        "its value of attribute $j$.",
        source="fienberg1973",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="together more often than the single shares predict; negative: less often",
        inputs=_INPUTS,
        limits="It depends on the attributes' frequencies: if these differ, compare the log odds ratio.",
        field="excess_together.value",
    ),
    Card(
        function=interaction,
        key="interaction",
        name="Interaction, log odds ratio",
        summary="Dependence of the attributes beyond their single shares and, of three, beyond every two of them.",
        tex=r"\theta = \sum_c s_c \ln P(c)",
        symbols="$P(c)$ is the share of the combination $c$; $s_c$ is 1 if the number of attributes that $c$ lacks "
        "is even, otherwise −1.",
        source="fisher1935logic",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="together more often; negative: they exclude each other",
        inputs=_INPUTS,
        limits="It says that attributes go together in these pictures, not which causes which.",
        field="estimate.value",
    ),
    Card(
        function=crossed_stereotype,
        key="crossed_stereotype",
        name="Stereotype test score STS in a combination",
        summary="Stereotype test score of people who also have further attributes, such as young people.",
        tex=r"\text{STS}_c = 100 \left( \frac{2 P(+, c)}{P(c)} - 1 \right)",
        symbols="$P(c)$ is the share of the people with the further attributes $c$, $P(+, c)$ that of the people "
        "who also conform to the stereotype.",
        source="wan2024pst, Eq. 1",
        bounds=(-100.0, 100.0),
        null_value=0.0,
        higher_means="conforms to the stereotype; negative: goes against it",
        inputs=takes(readings="readings: whether each person conforms, and has one or two further attributes"),
        limits="A combination of few people says little. It assumes that the classifier's errors on several attributes "
        "of a person are independent.",
        field="joint_score.value",
    ),
)
