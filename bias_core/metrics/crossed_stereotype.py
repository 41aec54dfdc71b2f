"""STS over crossed attributes: do people who also look young, or wear glasses, look more as the stereotype has it?"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq

from bias_core.metrics.cards import Card, takes
from bias_core.metrics.intersections import crossed_shares
from bias_core.stats.arrays import Array
from bias_core.stats.crossed_readings import Errors, all_of, error_noise, inverse_matrix, reading_matrix, usable_errors
from bias_core.stats.intervals import percent
from bias_core.types import Estimate, ReaderErrors

_INSIDE = 1e-9  # from the share itself, which an interval always holds; at 0 and 1 nothing is left of its variance


@dataclass(frozen=True, kw_only=True)
class CrossedStereotype:
    """STS in each combination of the further attributes, in binary order: the first varies slowest."""

    overall: Estimate  # STS of everybody, in [-100, 100], null value 0, positive: as the stereotype has it
    cells: Array  # (2^(k-1), k-1) of 0 and 1: which of the further attributes a cell has
    counts: Array  # (2^(k-1),) people who are read so
    scores: tuple[Estimate, ...]  # STS of each cell, corrected where the errors are known; not shrunk; n: people in it
    shrunk: Array  # (2^(k-1),) STS drawn towards `overall`, within the interval of `scores`; nan where nobody is
    expected: Array  # (2^(k-1),) people to be expected on the rarer side of the stereotype; below 5 a cell tells little

    @property
    def in_all(self) -> Estimate:
        """STS of the people who have all further attributes."""
        return self.scores[-1]


def crossed_stereotype(
    readings: ArrayLike, *, strata: Sequence[Hashable] | None = None, errors: Errors = None, confidence: float = 0.95
) -> CrossedStereotype:
    """The stereotype test score of the people in every combination of further attributes.

    STS_c = 100 (2 P(+, c) / P(c) - 1)

    [wan2024pst, Eq. 1] over the people of cell c alone: P(c) is the share of the people whose further attributes are c,
    P(+, c) of those who also look as the stereotype has it. Shrunk scores are of shares that are shrunk
    [fienberg1973], as :func:`bias_core.metrics.intersections.crossed_shares` has them.

    Parameters
    ----------
    readings : array (n, k), of 0 and 1, 2 or 3 columns, a row per person. First whether a person looks as the
        stereotype of who they are has it, then whether one or two further attributes are seen.
    strata : who each person is, or None for one identity. Scores are drawn towards what identities alone would give.
    errors : of the reader on each column, None where not known or no better than chance; then as read. Errors on
        several attributes of a person are taken to be independent.

    Returns
    -------
    CrossedStereotype : scores in [-100, 100], null value 0, positive conforms to the stereotype. nan, with a note,
        where nobody is read as a cell has it.

    Raises
    ------
    InvalidInput : as :func:`bias_core.metrics.intersections.crossed_shares`.

    Notes
    -----
    The paper scores everybody together; cells are ours. Intervals are score intervals of the ratio P(+, c) / P(c): all
    values that a test of them does not reject. Where the reader does not err they are Wilson's over the people of
    the cell. They are of the score as counted, and widen by what is not known of the errors. A person is the unit: give
    one person of a picture, or people of one identity. Whether the cells differ is what
    :func:`bias_core.metrics.intersections.interaction` tests, of the same readings.

    Examples
    --------
    >>> old, young = [[1, 0]] * 5 + [[0, 0]], [[1, 1]] * 6 + [[0, 1]] * 6
    >>> crossed = crossed_stereotype(old + young)
    >>> [round(one.value, 1) for one in crossed.scores], crossed.shrunk.round(1).tolist()
    ([66.7, 0.0], [38.3, 14.2])
    """
    crossed = crossed_shares(readings, strata=strata, errors=errors, confidence=confidence)
    n, half = round(crossed.counts.sum()), len(crossed.counts) // 2
    reader = _Reader(
        read=crossed.counts / n,
        errors=usable_errors(errors, crossed.cells.shape[1]),
        n=n,
        z=float(stats.norm.ppf((1 + confidence) / 2)),
        method=f"score {percent(confidence)}",
    )
    counts = crossed.counts.reshape(2, half).sum(axis=0)
    scores = tuple(_score(reader, np.arange(half) == place, int(counts[place])) for place in range(half))
    overall = _score(reader, np.ones(half, dtype=bool), n)
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
class _Reader:
    """What was read of how many people, by whom."""

    read: Array  # (2^k,) shares of the people
    errors: Sequence[ReaderErrors | None]
    n: int  # people
    z: float  # of the interval
    method: str


def _score(reader: _Reader, cell: np.ndarray, count: int) -> Estimate:
    """STS of some cells of the further attributes, a mask ``(2^(k-1),)``: all π with (P(+, c) − π P(c))² <= z² V(π).

    V is the variance of that difference in a world where π is the truth and P(c), and all other cells, are as found.
    """
    weights, made = (all_of([of(one) for one in reader.errors]) for of in (inverse_matrix, reading_matrix))
    there = np.clip(weights @ reader.read, 0, None).reshape(2, -1)  # against, and as, the stereotype has it
    total = float(there[:, cell].sum())
    if not count or not total:
        return Estimate.undefined(count, "nobody is read so", null_value=0.0)
    share = float(there[1, cell].sum()) / total
    against, conforming = (np.concatenate(one) for one in ((cell, 0 * cell), (0 * cell, cell)))
    of_cell = there[:, cell].sum(axis=0) / total

    def beyond(pi: float) -> float:
        """How much larger the squared difference is than the test allows."""
        world = there.copy()
        world[:, cell] = np.outer((1 - pi, pi), of_cell) * total
        world = world.ravel() / world.sum()
        adds = ((1 - pi) * conforming - pi * against) @ weights  # what a person who is read so adds to the difference
        variance = float(adds**2 @ (made @ world)) / reader.n
        variance += float(error_noise(reader.errors, adds[None, :], world)[0])
        return ((share - pi) * total) ** 2 - reader.z**2 * variance

    low = 0.0 if beyond(0.0) <= 0 else float(brentq(beyond, 0.0, share - _INSIDE))
    high = 1.0 if beyond(1.0) <= 0 else float(brentq(beyond, share + _INSIDE, 1.0))
    estimate = Estimate(value=share, low=low, high=high, n=count, method=reader.method)
    return replace(estimate.scaled(200, -100), null_value=0.0)


def _within(against: float, conforming: float, score: Estimate) -> float:
    """STS of shrunk shares, no farther than the ends of the score as counted [efron1972]."""
    if math.isnan(score.value):
        return math.nan
    return min(max(200 * conforming / (conforming + against) - 100, score.low), score.high)


CARDS = (
    Card(
        function=crossed_stereotype,
        key="crossed_stereotype",
        name="Stereotype test score STS in a combination",
        summary="How far people who also have further attributes, such as young ones, look as the stereotype has it.",
        source="wan2024pst, Eq. 1",
        bounds=(-100.0, 100.0),
        null_value=0.0,
        higher_means="conforms to the stereotype; negative: goes against it",
        inputs=takes(readings="readings: whether each person conforms, and has one or two further attributes"),
        limits="A combination of few people tells little, and the reader's errors on several attributes of a person "
        "are taken to be independent.",
        field="in_all.value",
    ),
)
