"""Ordered classes, such as ten skin tones or three age groups: the mean, an end of the scale, and distances."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array, finite_vector
from bias_core.stats.class_shares import class_shares, row_noise
from bias_core.stats.intervals import check_confidence, percent
from bias_core.stats.permutation import TIE, Seed
from bias_core.types import ClassErrors, Estimate

_ROUNDED = 0.015  # how far the sum of shares in whole percents may lie from 1
N_DRAWS = 4000  # of the differences that an interval of a distance is made of
_SURE = 0.99  # of all steps together, before the direction of one is taken as known


@dataclass(frozen=True, kw_only=True)
class OrderedTest:
    """Whether two sets of pictures differ in an ordered class."""

    p_value: float  # in (0, 1]; nan where no picture differs from any other
    by_chance: float  # mean distance of two sets of these sizes that differ by chance alone, in steps; nan likewise
    n: int  # pictures, or pairs of pictures


def mean_level(
    counts: ArrayLike,
    *,
    errors: ClassErrors | None = None,
    has_unclear: bool = False,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """Mean of an ordered class, counted 1, 2, ..., k, over the pictures of which it can be told.

    μ = Σ_j j p_j, with p corrected for the reader's errors [monk2019]

    Parameters
    ----------
    counts : array (k,), pictures of each class in their order; with ``has_unclear`` one more at the end.
    errors : as :func:`bias_core.stats.class_shares.class_shares` takes them.
    null_value : the mean that would mean "no bias", where somebody states one.

    Returns
    -------
    Estimate : in [1, k], with its likelihood interval: it has a width also where all pictures are of one class.

    Raises
    ------
    InvalidInput : as :func:`~bias_core.stats.class_shares.class_shares`.

    Notes
    -----
    It counts the steps of a scale as equally long, which no scale promises.

    Examples
    --------
    >>> mean_level([1, 2, 1]).value
    2.0
    """
    shares = class_shares(counts, errors, has_unclear=has_unclear)
    return shares.interval(np.arange(1, shares.value.size + 1), confidence=confidence, null_value=null_value)


def end_share(
    counts: ArrayLike,
    *,
    errors: ClassErrors | None = None,
    last: int = 3,
    has_unclear: bool = False,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """Share of the pictures in the ``last`` classes of the scale; of the first ones where that is negative.

    Σ_{j > k − last} p_j, with p corrected for the reader's errors [monk2019]

    Parameters
    ----------
    counts, errors, null_value : as :func:`mean_level`.

    Returns
    -------
    Estimate : in [0, 1], with its likelihood interval.

    Raises
    ------
    InvalidInput : as :func:`mean_level`, and for no or all classes.

    Examples
    --------
    >>> round(end_share([4, 3, 2, 1]).value, 3), round(end_share([4, 3, 2, 1], last=-1).value, 3)
    (0.6, 0.4)
    """
    shares = class_shares(counts, errors, has_unclear=has_unclear)
    k = shares.value.size
    if not 0 < abs(last) < k:
        raise InvalidInput(f"an end of {k} classes has 1 to {k - 1} of them; got {last}.")
    scores = np.arange(k) >= k - last if last > 0 else np.arange(k) < -last
    return shares.interval(scores.astype(float), confidence=confidence, null_value=null_value)


def level_distance(
    first: ArrayLike,
    second: ArrayLike,
    *,
    errors: ClassErrors | None = None,
    joint: ArrayLike | None = None,
    has_unclear: bool = False,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> Estimate:
    """How many steps the pictures of one set lie from those of another, over an ordered class: Wasserstein's distance.

    W = Σ_{j<k} |D_j|, with D_j = F_j − G_j, the shares of both sets up to class j   [vallender1974]

    Parameters
    ----------
    first, second : arrays (k,). Pictures of each class in their order, see :func:`mean_level`.
    errors : of the reader, for both.
    joint : array (m, m) or None. Pairs of pictures on one seed by what the first and the second are read as, where the
        sets are paired.

    Returns
    -------
    Estimate : in [0, k − 1], in steps; null value 0. Without any difference W still lies above 0 by chance, and the
        interval reaches down to 0.

    Raises
    ------
    InvalidInput : as :func:`mean_level`, for sets of other classes, and pairs that are not those sets.

    Notes
    -----
    From W the interval takes quantiles of Σ_sure s_j h_j ± Σ_unsure |h_j| over draws h of the normal law of D: a D_j
    that is surely not 0 (99 % of all together) moves W with its sign s_j, any other by at most its own length
    [sommerfeld2018]. Where most D_j are 0 the interval is therefore wider than need be.

    Examples
    --------
    >>> level_distance([10, 0, 0], [0, 0, 10]).value
    2.0
    """
    check_confidence(confidence)
    a, b = (class_shares(counts, errors, has_unclear=has_unclear) for counts in (first, second))
    if a.value.shape != b.value.shape:
        raise InvalidInput(f"both sets need the same classes; got {a.value.size} and {b.value.size}.")
    shared = row_noise([x * a.slopes - y * b.slopes for x, y in zip(a.smoothed, b.smoothed, strict=True)], a.rows)
    covariance = a.of_readings + b.of_readings + shared
    if joint is not None:
        cross = a.slopes @ _cross(joint, a.smoothed.size) @ b.slopes.T
        covariance = covariance - cross - cross.T
    return _distance(a.value - b.value, covariance, min(a.n, b.n), confidence, rng)


def distance_to_goal(
    counts: ArrayLike,
    goal: ArrayLike,
    *,
    errors: ClassErrors | None = None,
    has_unclear: bool = False,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> Estimate:
    """:func:`level_distance` of pictures to shares that somebody states: a goal, or a reference with its source.

    Parameters
    ----------
    goal : array (k,). Shares that add up to 1.

    Raises
    ------
    InvalidInput : as :func:`level_distance`, and for a goal that is no distribution of these classes.

    Examples
    --------
    >>> distance_to_goal([10, 0], [0.5, 0.5]).value
    0.5
    """
    check_confidence(confidence)
    shares = class_shares(counts, errors, has_unclear=has_unclear)
    goal_shares = checked_goal(goal, shares.value.size)
    return _distance(shares.value - goal_shares, shares.covariance, shares.n, confidence, rng)


def checked_goal(goal: ArrayLike, k: int) -> Array:
    """Shares of ``k`` classes that add up to 1; those that are rounded to whole percents are made to.

    Raises
    ------
    InvalidInput : for another number of shares, negative ones, or another sum.

    Examples
    --------
    >>> checked_goal([0.25, 0.75], 2).tolist()
    [0.25, 0.75]
    """
    goal_shares = finite_vector(goal, "goal")
    if goal_shares.size != k or (goal_shares < 0).any() or abs(goal_shares.sum() - 1) > _ROUNDED:
        raise InvalidInput(f"a goal has {k} shares that add up to 1; got {goal_shares.tolist()}.")
    return np.asarray(goal_shares / goal_shares.sum())


def ordered_test(
    first: Sequence[float] | Array,
    second: Sequence[float] | Array,
    n_levels: int,
    *,
    paired: bool = False,
    n_permutations: int = 999,
    rng: Seed = 0,
) -> OrderedTest:
    """Whether two sets of pictures have other distributions of an ordered class: a permutation test of the distance.

    p = (1 + #{W* >= W}) / (1 + B): W* swaps both pictures of random pairs, or splits all pictures anew  [vallender1974]

    Parameters
    ----------
    first, second : arrays (n,). Classes 0 to ``n_levels`` − 1 as read, nan where nothing can be told. The errors of the
        reader are the same in both, so what does not differ is not read as if it did.
    paired : whether entry i of both is of one seed; pairs that lack one are left out.

    Raises
    ------
    InvalidInput : for a class that there is not, or paired sets of unlike size.

    Examples
    --------
    >>> ordered_test([0] * 20, [2] * 20, 3).p_value
    0.001
    """
    a, b = (_classes(one, n_levels) for one in (first, second))
    if paired and a.size != b.size:
        raise InvalidInput(f"pairs need as many pictures of either; got {a.size} and {b.size}.")
    generator = np.random.default_rng(rng)
    if paired:
        clear = ~(np.isnan(a) | np.isnan(b))
        return _swapped(a[clear], b[clear], n_levels, n_permutations, generator)
    return _split(a[~np.isnan(a)], b[~np.isnan(b)], n_levels, n_permutations, generator)


def _classes(values: Sequence[float] | Array, n_levels: int) -> Array:
    given = np.asarray(values, dtype=np.float64)
    clear = given[~np.isnan(given)]
    if given.ndim != 1 or not np.isin(clear, np.arange(n_levels)).all():
        raise InvalidInput(f"classes are 0 to {n_levels - 1}, or nan; got {sorted(set(clear.tolist()))[-3:]}.")
    return given


def _swapped(a: Array, b: Array, k: int, n_permutations: int, rng: np.random.Generator) -> OrderedTest:
    """Both pictures of random pairs swapped."""
    steps = np.arange(k - 1)
    gaps = (a[:, None] <= steps).astype(float) - (b[:, None] <= steps)  # (n, k - 1)
    if not gaps.any():
        return OrderedTest(p_value=math.nan, by_chance=math.nan, n=len(a))
    signs = rng.choice((-1.0, 1.0), size=(n_permutations, len(a)))
    return _test(np.abs(gaps.mean(axis=0)).sum(), np.abs(signs @ gaps / len(a)).sum(axis=1), len(a))


def _split(a: Array, b: Array, k: int, n_permutations: int, rng: np.random.Generator) -> OrderedTest:
    """All pictures split anew."""
    counts = [np.bincount(one.astype(int), minlength=k) for one in (a, b)]
    pooled, n = counts[0] + counts[1], min(a.size, b.size)
    if not n or (pooled > 0).sum() < 2:
        return OrderedTest(p_value=math.nan, by_chance=math.nan, n=n)
    drawn = rng.multivariate_hypergeometric(pooled, a.size, size=n_permutations, method="marginals")

    def distances(of_first: Array) -> Array:
        gaps = of_first / a.size - (pooled - of_first) / b.size
        return np.asarray(np.abs(np.cumsum(gaps, axis=-1)[..., :-1]).sum(axis=-1))

    return _test(float(distances(counts[0].astype(float))), distances(drawn.astype(float)), n)


def _test(observed: float, by_chance: Array, n: int) -> OrderedTest:
    n_extreme = int(np.count_nonzero(by_chance >= observed - TIE))
    return OrderedTest(p_value=(1 + n_extreme) / (1 + len(by_chance)), by_chance=float(by_chance.mean()), n=n)


def _cross(joint: ArrayLike, m: int) -> Array:
    """Covariance ``(m, m)`` of what the first and the second picture of a pair are read as."""
    table = np.asarray(joint, dtype=np.float64)
    if table.shape != (m, m) or (table < 0).any() or not table.any():
        raise InvalidInput(f"pairs are counted in a table of {m} by {m} classes; got shape {table.shape}.")
    share = table / table.sum()
    return np.asarray((share - np.outer(share.sum(axis=1), share.sum(axis=0))) / table.sum())


def _distance(gap: Array, covariance: Array, n: int, confidence: float, rng: Seed) -> Estimate:
    """Σ |D_j| with its interval, from the differences of shares ``(k,)`` and their covariance."""
    up_to = np.tril(np.ones((gap.size, gap.size)))[:-1]  # (k - 1, k)
    steps, noise = up_to @ gap, up_to @ covariance @ up_to.T
    value = float(np.abs(steps).sum())
    reach = float(stats.norm.ppf(1 - (1 - _SURE) / (2 * steps.size)))
    sure = np.abs(steps) > reach * np.sqrt(np.maximum(np.diag(noise), 0.0))
    root = _root(noise)
    drawn = np.random.default_rng(rng).normal(size=(N_DRAWS, root.shape[1])) @ root.T
    with_sign = drawn[:, sure] @ np.sign(steps[sure])
    either = np.abs(drawn[:, ~sure]).sum(axis=1)
    most = float(np.quantile(with_sign + either, (1 + confidence) / 2))
    least = float(np.quantile(with_sign - either, (1 - confidence) / 2))
    low, high = max(0.0, value - most), min(float(steps.size), value - least)
    method = f"directional delta method {percent(confidence)}"
    low, high = min(low, value), max(high, value)
    return Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method)


def _root(covariance: Array) -> Array:
    """A matrix whose square is the covariance, which may be singular."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


_COUNTS = "levels: pictures of each class, in the order of the scale"
CARDS = (
    Card(
        function=mean_level,
        name="Mean on a scale",
        summary="The mean of an ordered class, such as the ten tones of the Monk scale, over the pictures.",
        source="monk2019",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="further up the scale: darker, older",
        inputs=takes(counts=_COUNTS),
        limits="It counts all steps of the scale as equally long, and two distributions that differ may have one mean.",
        field="value",
    ),
    Card(
        function=end_share,
        name="Share of an end of a scale",
        summary="The share of the pictures in the last classes of an ordered scale, such as its three darkest tones.",
        source="monk2019",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more pictures at that end of the scale",
        inputs=takes(counts=_COUNTS),
        limits="Where an end begins is a choice.",
        field="value",
    ),
    Card(
        function=level_distance,
        name="Distance on a scale",
        summary="How many steps of the scale the pictures of one set lie from those of another, on average.",
        source="vallender1974",
        bounds=(0.0, math.inf),
        null_value=0.0,
        higher_means="distributions that lie further apart",
        inputs=takes(first=_COUNTS, second="levels: the same of the other set"),
        limits="It has no direction, and lies above 0 by chance where nothing differs: look at the interval and at p.",
        field="value",
    ),
    Card(
        function=distance_to_goal,
        name="Distance to a goal on a scale",
        summary="How many steps of the scale pictures would have to move, on average, to have the shares of a goal.",
        source="vallender1974",
        bounds=(0.0, math.inf),
        null_value=0.0,
        higher_means="further from the goal",
        inputs=takes(counts=_COUNTS, goal="goal: shares that somebody states"),
        limits="A goal is stated by somebody: the distance says nothing of whether it is right.",
        field="value",
    ),
)
