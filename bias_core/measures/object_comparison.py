"""Objects of pictures against a baseline: odds of each, a test of all, and numbers of different objects."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import betaincinv, entr, gammaln, logit

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed
from bias_core.measures.cards import Card, takes
from bias_core.measures.intersections import ParityFamily
from bias_core.measures.intervals import (
    check_confidence,
    fisher_p_value,
    jackknife_interval,
    mcnemar_p_value,
    with_value_inside,
)
from bias_core.measures.object_distribution import ImageObjects, build_presence_matrix, word_sets
from bias_core.measures.permutation import TIE
from bias_core.types import Estimate
from bias_core.wording import format_percent

NO_CHANGE = "both pictures of every pair show it, or neither does"


@dataclass(frozen=True, kw_only=True)
class ObjectOdds:
    """One object in some pictures and in those of the base."""

    word: str  # the object
    # n_images, n_base: pictures with it, and pictures of the base with it
    n_images: int
    n_base: int
    log_odds: Estimate  # above 0: more often than in the base, in natural logarithms; nan where nothing changes

    @property
    def p_value(self) -> float:
        """Exact and two-sided p, in (0, 1]; 1 where nothing changes."""
        return 1.0 if math.isnan(self.log_odds.p_value) else self.log_odds.p_value


@dataclass(frozen=True, kw_only=True)
class ObjectComparison:
    """Every object of some pictures or of their base; the most significant change first."""

    objects: tuple[ObjectOdds, ...]

    @property
    def largest(self) -> float:
        """The largest log-odds of an object; nan where nothing changes."""
        return max((odds.log_odds.value for odds in self.objects if odds.log_odds.value > -math.inf), default=math.nan)


def object_odds(
    image_objects: ImageObjects, base_objects: ImageObjects, *, paired: bool = True, confidence: float = 0.95
) -> ObjectComparison:
    """Log-odds of each object against a base, each with its own test: what differs is decided over all of them.

    Of pairs ln((b + 1/2) / (c + 1/2)), b pairs where only the picture has the object, c where only the base has it;
    of independent pictures ln((a + 1/2) (d + 1/2) / ((b + 1/2) (c + 1/2))) of the four counts [haldane1956]

    Parameters
    ----------
    image_objects, base_objects : one collection of words per image. Of pairs, entry i of both is of one prompt and
        seed.
    paired : bool. False: the pictures share no seeds, and may be of different numbers.

    Returns
    -------
    ObjectComparison : log-odds of 0 (the null value) mean as often as in the base.

    Raises
    ------
    InvalidInput : for no images, a text in place of words, numbers of pairs that differ, or if no image shows an
        object.

    Notes
    -----
    p is the exact test of b out of b + c of McNemar [mcnemar1947], or Fisher's of the four counts, twice the smaller
    tail. The intervals invert them: that of Clopper and Pearson for b / (b + c) as log-odds [brown2001], and the
    conditional one of the odds ratio [fisher1935logic]. An end is infinite where the data set it no limit: an object
    that no picture of the base shows. Objects that are in both pictures of every pair or in neither cannot differ and
    have no test.

    Examples
    --------
    >>> base = [["cup"], ["cup", "man"], [], ["man"], [], [], []]
    >>> comparison = object_odds([[*words, "sign"] for words in base], base)
    >>> [(one.word, one.n_images, one.n_base, round(one.p_value, 4)) for one in comparison.objects][0]
    ('sign', 7, 0, 0.0156)
    """
    check_confidence(confidence)
    words, ours, theirs = presence_with_base(image_objects, base_objects, paired=paired)
    n_images, n_base = (np.asarray(side.sum(axis=0), dtype=int).ravel() for side in (ours, theirs))
    if paired:
        change = (ours - theirs).tocsc()
        n_gained, n_lost = (np.asarray((change * sign > 0).sum(axis=0)).ravel() for sign in (1, -1))
        tests = [
            _odds_of_pairs(int(b), int(c), len(image_objects), confidence)
            for b, c in zip(n_gained, n_lost, strict=True)
        ]
    else:
        sizes = len(image_objects), len(base_objects)
        tests = [_odds_of_counts((int(a), int(c)), sizes, confidence) for a, c in zip(n_images, n_base, strict=True)]
    lines = (
        ObjectOdds(word=word, n_images=int(n_images[i]), n_base=int(n_base[i]), log_odds=tests[i])
        for i, word in enumerate(words)
    )
    return ObjectComparison(objects=tuple(_surest_first(lines)))


def presence_with_base(
    image_objects: ImageObjects, base_objects: ImageObjects, *, paired: bool
) -> tuple[list[str], csr_array, csr_array]:
    """Objects of both, and the presence of each in each picture, 0 or 1, ``(n, n_objects)`` for both.

    Raises InvalidInput: as :func:`object_odds`.

    >>> words, ours, theirs = presence_with_base([["cup"]], [["dog"], []], paired=False)
    >>> words, ours.toarray().tolist(), theirs.toarray().tolist()
    (['cup', 'dog'], [[1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]])
    """
    ours, theirs = word_sets(image_objects, "image_objects"), word_sets(base_objects, "base_objects")
    if paired and len(ours) != len(theirs):
        raise InvalidInput(
            f"Pairs need one picture of the base for each; got {len(ours)} pictures and {len(theirs)} of the base. "
            "Pictures that share no seeds are compared with paired=False."
        )
    words, presence = build_presence_matrix([*ours, *theirs], None)
    return words, presence[: len(ours)], presence[len(ours) :]


def _odds_of_pairs(n_gained: int, n_lost: int, n: int, confidence: float) -> Estimate:
    if not n_gained + n_lost:
        return Estimate.undefined(n, NO_CHANGE, null_value=0.0)
    tail = (1 - confidence) / 2
    return Estimate(
        value=math.log((n_gained + 0.5) / (n_lost + 0.5)),
        low=float(logit(betaincinv(n_gained, n_lost + 1, tail))) if n_gained else -math.inf,
        high=-float(logit(betaincinv(n_lost, n_gained + 1, tail))) if n_lost else math.inf,
        n=n,
        null_value=0.0,
        method=f"exact for pairs {format_percent(confidence)}",
        p_value=mcnemar_p_value(n_gained, n_lost),
    )


@lru_cache(4096)
def _odds_of_counts(n_with: tuple[int, int], sizes: tuple[int, int], confidence: float) -> Estimate:
    n = sum(sizes)
    if sum(n_with) in (0, n):
        return Estimate.undefined(n, "every picture shows it, or none does", null_value=0.0)
    (a, c), (b, d) = n_with, (size - k for k, size in zip(n_with, sizes, strict=True))
    family, tail = ParityFamily(tables=np.array([[d, c, b, a]], dtype=float)), (1 - confidence) / 2
    estimate = Estimate(
        value=math.log((a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5))),
        low=family.quantile(tail, at_least=True, mid=False),
        high=family.quantile(tail, at_least=False, mid=False),
        n=n,
        null_value=0.0,
        method=f"exact log-odds of counts {format_percent(confidence)}",
        p_value=fisher_p_value(c, sizes[1], a, sizes[0]),
    )
    return with_value_inside(estimate, confidence)


def _surest_first(lines: Iterable[ObjectOdds]) -> list[ObjectOdds]:
    return sorted(lines, key=lambda line: (line.p_value, -abs(line.n_images - line.n_base), line.word))


_LARGEST_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, kw_only=True)
class ObjectShift:
    """Distance of two distributions of objects, and its p-value."""

    divergence: float  # Jensen–Shannon, in [0, 1]; above 0 by chance alone, the more the fewer the pictures
    chance: float  # its mean where pictures and base are exchanged at random
    p_value: float  # in (0, 1], of a divergence at least as large by chance
    n: int  # pairs, or pictures of both
    n_objects: int  # different ones, of both
    note: str  # why there is nothing to test, or ""

    @property
    def excess(self) -> float:
        """The divergence beyond chance; about 0 where pictures and base show the same."""
        return self.divergence - self.chance


def object_shift(
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    paired: bool = True,
    n_permutations: int = 1999,
    rng: Seed = 0,
) -> ObjectShift:
    """Jensen–Shannon divergence of the objects of some pictures from those of a base, with its permutation p-value.

    JS = H((P + Q) / 2) − (H(P) + H(Q)) / 2, H in bits, P and Q the objects' shares [lin1991]

    Parameters
    ----------
    image_objects, base_objects : one collection of words per image. Of pairs, entry i of both is of one prompt and
        seed.
    paired : bool. Exchange the two pictures of a pair; False: shuffle the pictures of both.
    n_permutations : int >= 1

    Returns
    -------
    ObjectShift : 0: the same shares of all objects, 1: no object in common. It is biased upwards in few pictures, so
        the p-value, or the excess over chance, is to be read.

    Raises
    ------
    InvalidInput : for no images, numbers of pairs that differ, a side without an object, or no permutation.

    Examples
    --------
    >>> round(object_shift([["cup"], ["cup", "dog"]], [["dog"], ["dog"]]).divergence, 4)
    0.4591
    """
    if n_permutations < 1:
        raise InvalidInput(f"n_permutations must be at least 1; got {n_permutations}.")
    words, ours, theirs = presence_with_base(image_objects, base_objects, paired=paired)
    counts = [np.asarray(side.sum(axis=0), dtype=float).ravel() for side in (ours, theirs)]
    for name, side in zip(("image_objects", "base_objects"), counts, strict=True):
        if not side.sum():
            raise InvalidInput(f"No image of {name} shows an object: there are no shares to compare.")
    observed = float(_divergence(counts[0][None], counts[1][None])[0])
    n = ours.shape[0] if paired else ours.shape[0] + theirs.shape[0]
    sizes = {"n": n, "n_objects": len(words)}
    if not (ours - theirs).count_nonzero() if paired else n < 2:
        note = "every picture shows the objects of the base's picture"
        return ObjectShift(divergence=observed, chance=observed, p_value=1.0, note=note, **sizes)
    drawn = _draw_null_divergences(ours, theirs, paired, n_permutations, np.random.default_rng(rng))
    return ObjectShift(
        divergence=observed,
        chance=float(drawn.mean()),
        p_value=(1 + int((drawn >= observed - TIE).sum())) / (1 + n_permutations),
        note="",
        **sizes,
    )


def _draw_null_divergences(
    ours: csr_array, theirs: csr_array, paired: bool, n_draws: int, rng: np.random.Generator
) -> Array:
    """The divergence where pictures and base are exchanged at random, ``(n_draws,)``."""
    total = np.asarray(ours.sum(axis=0) + theirs.sum(axis=0), dtype=float).ravel()
    first = ours.shape[0]
    pooled = (theirs - ours).tocsr() if paired else _stack_counts(ours, theirs)
    fixed = np.asarray(ours.sum(axis=0), dtype=float).ravel() if paired else np.zeros(len(total))
    transposed, values = pooled.T.tocsr(), []
    block = max(1, _LARGEST_BLOCK // max(pooled.shape))
    for start in range(0, n_draws, block):
        size = min(block, n_draws - start), pooled.shape[0]
        if paired:
            chosen = rng.integers(0, 2, size=size)
        else:
            chosen = rng.permuted(np.tile(np.arange(size[1]) < first, (size[0], 1)), axis=1).astype(int)
        counts = fixed + (transposed @ chosen.T).T
        values.append(_divergence(counts, total - counts))
    return np.concatenate(values)


def _stack_counts(ours: csr_array, theirs: csr_array) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack([ours, theirs]))


def _divergence(ours: Array, theirs: Array) -> Array:
    """Divergence of each row of counts, ``(b, k)`` -> ``(b,)``; a side without any object is as far as can be."""
    totals = [side.sum(axis=1, keepdims=True) for side in (ours, theirs)]
    p, q = (
        np.divide(side, total, out=np.zeros(side.shape), where=total > 0)
        for side, total in zip((ours, theirs), totals, strict=True)
    )
    nats = entr((p + q) / 2).sum(axis=1) - (entr(p).sum(axis=1) + entr(q).sum(axis=1)) / 2
    empty = (totals[0] * totals[1])[:, 0] == 0
    return np.asarray(np.where(empty, 1.0, np.clip(nats / math.log(2), 0.0, 1.0)))


ORDERS = (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class VarietyChange:
    """Variety of the objects of some pictures against that of a base, both at the same coverage."""

    log_ratio: Estimate  # ln(number / base_number); 0 as varied, below 0 less varied than the base
    # number, base_number: equally frequent objects that would be as varied, above 0
    number: float
    base_number: float
    coverage: float  # share in (0, 1] of all object sightings that belong to objects seen; the smaller of the two
    order: int  # 0: all objects count alike, 1: by their shares, 2: the frequent ones most


def sample_coverage(counts: Array, n_images: int, n_drawn: int) -> float:
    """Share of all sightings that belong to objects which ``n_drawn`` of the pictures show.

    1 − Σ_i (Y_i / U) C(n − Y_i, m) / C(n − 1, m) for m < n; 1 − (Q₁ / U) (n − 1) Q₁ / ((n − 1) Q₁ + 2 Q₂) for all of
    them, with Y_i pictures that show object i, U their sum, Q₁ and Q₂ objects in one and in two pictures
    [chao2012], [chao2014]

    Raises InvalidInput: for ``n_drawn`` below 1 or above ``n_images``, or no object.

    >>> round(sample_coverage(np.array([3.0, 2.0, 1.0]), 4, 4), 4), sample_coverage(np.array([2.0, 2.0]), 2, 1)
    (0.9, 1.0)
    """
    if not 1 <= n_drawn <= n_images or not counts.sum():
        raise InvalidInput(f"n_drawn must be from 1 to {n_images}, of pictures with an object; got {n_drawn}.")
    total = counts.sum()
    if n_drawn < n_images:
        still = counts[counts <= n_images - n_drawn]
        missed = np.exp(_log_choose(n_images - still, n_drawn) - _log_choose(n_images - 1, n_drawn))
        return float(1 - (still / total * missed).sum())
    n_singletons, n_doubletons = int((counts == 1).sum()), int((counts == 2).sum())
    # Where no object is in two pictures, in place of Q₁² / 2 Q₂ unseen ones there are Q₁ (Q₁ − 1) / 2.
    n_seen, n_again = (
        ((n_images - 1) * n_singletons, 2 * n_doubletons) if n_doubletons else ((n_images - 1) * (n_singletons - 1), 2)
    )
    return float(1 - n_singletons / total * n_seen / (n_seen + n_again)) if n_singletons else 1.0


def hill_number(counts: Array, n_images: int, *, coverage: float | None = None, order: int = 1) -> float:
    """Number of equally frequent objects that would be as varied, at a given coverage.

    D₀ = Σ_k Q_k, D₁ = exp(−Σ_k (k / U) ln(k / U) Q_k), D₂ = 1 / Σ_k (k / U)² Q_k, with Q_k the objects that k of m
    pictures are expected to show, U = Σ_k k Q_k [chao2014]

    Parameters
    ----------
    counts : array (k,), above 0. In how many of ``n_images`` pictures each object is.
    coverage : float in (0, 1], or None. Of all sightings; where all pictures have less, all are taken, as for None.
        Between two numbers of pictures it is interpolated.
    order : {0, 1, 2}

    Returns
    -------
    float : above 0; larger is more varied.

    Raises InvalidInput: for another order, a coverage outside (0, 1], or no object.

    >>> round(hill_number(np.array([4.0, 4.0, 4.0]), 8), 6)
    3.0
    """
    if order not in ORDERS or not (coverage is None or 0 < coverage <= 1):
        raise InvalidInput(f"order is 0, 1 or 2 and coverage in (0, 1]; got {order} and {coverage}.")
    if coverage is None or coverage >= sample_coverage(counts, n_images, n_images):
        return _expected_diversity(counts, n_images, n_images, order)
    low, high = 1, n_images  # the fewest pictures that reach the coverage
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sample_coverage(counts, n_images, middle) >= coverage else (middle + 1, high)
    at = _expected_diversity(counts, n_images, high, order)
    reached = sample_coverage(counts, n_images, high)
    if high == 1 or reached <= coverage:
        return at
    before, short = _expected_diversity(counts, n_images, high - 1, order), sample_coverage(counts, n_images, high - 1)
    return before + (at - before) * (coverage - short) / (reached - short)


def variety_change(
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    paired: bool = True,
    groups: Sequence[Hashable] | None = None,
    order: int = 1,
    confidence: float = 0.95,
) -> VarietyChange:
    """Hill numbers of some pictures and of a base at equal coverage, and their log ratio with its interval.

    ln(D(C) / D_base(C)), C the smaller of the two coverages [chao2012], [hill1973]

    Parameters
    ----------
    image_objects, base_objects : one collection of words per image. Of pairs, entry i of both is of one prompt and
        seed.
    paired : bool. Leave a pair out together; False: the interval is nan, since there is no p-value either.
    groups : the seed of each pair, or None. See :func:`bias_core.measures.intervals.jackknife_interval`.
    order : {0, 1, 2}

    Returns
    -------
    VarietyChange : log ratio 0 (its null value) as varied as the base, below 0 less varied.

    Raises
    ------
    InvalidInput : for no images, numbers of pairs that differ, a side without an object, or another order.

    Examples
    --------
    >>> base = [["cup"], ["dog"], ["man"], ["cup", "dog"], ["dog", "man"], ["cup", "man"]]
    >>> change = variety_change([["cup"], ["cup"], ["cup", "dog"], ["cup"], ["cup"], ["cup", "dog"]], base)
    >>> round(change.number, 2), round(change.base_number, 2), change.log_ratio.value < 0
    (1.75, 3.0, True)
    """
    _, ours, theirs = presence_with_base(image_objects, base_objects, paired=paired)

    def numbers(chosen: NDArray[np.bool_] | None) -> tuple[float, float, float]:
        sides = [side if chosen is None else side[chosen] for side in (ours, theirs)]
        counts = [np.asarray(side.sum(axis=0), dtype=float).ravel() for side in sides]
        counts = [side[side > 0] for side in counts]
        if not all(len(side) for side in counts):
            return math.nan, math.nan, math.nan
        sizes = [int(side.shape[0]) for side in sides]
        coverage = min(sample_coverage(side, n, n) for side, n in zip(counts, sizes, strict=True))
        picture_variety, base = (
            hill_number(side, n, coverage=coverage, order=order) for side, n in zip(counts, sizes, strict=True)
        )
        return picture_variety, base, coverage

    picture_variety, base, coverage = numbers(None)
    if math.isnan(picture_variety):
        raise InvalidInput("Either the pictures or those of the base show no object: there is no variety to compare.")

    def log_ratio(chosen: NDArray[np.bool_]) -> float:
        number, base_number, _ = numbers(chosen)
        return math.log(number / base_number)

    n = ours.shape[0]
    if paired and n > 1:
        change = jackknife_interval(log_ratio, n, groups=groups, confidence=confidence, null_value=0.0)
    else:
        note = "an interval needs two pairs of pictures or more"
        change = Estimate.without_interval(math.log(picture_variety / base), n, note, null_value=0.0)
    return VarietyChange(log_ratio=change, number=picture_variety, base_number=base, coverage=coverage, order=order)


def _expected_diversity(counts: Array, n_images: int, n_drawn: int, order: int) -> float:
    values, times = np.unique(counts, return_counts=True)
    k = np.arange(1, min(n_drawn, int(values.max())) + 1)
    possible = (k <= values[:, None]) & (n_drawn - k <= n_images - values[:, None])
    logs = (
        _log_choose(values[:, None], np.where(possible, k, 0))
        + _log_choose(n_images - values[:, None], np.where(possible, n_drawn - k, 0))
        - _log_choose(n_images, n_drawn)
    )
    expected = times @ np.where(possible, np.exp(logs), 0.0)  # Q_k, (n_k,)
    shares = k / (n_drawn * counts.sum() / n_images)
    if order == 0:
        return float(expected.sum())
    if order == 1:
        return float(np.exp(-(shares * np.log(shares) * expected).sum()))
    return float(1 / (shares**2 * expected).sum())


def _log_choose(n: Array | float, k: Array | float) -> Array:
    return np.asarray(gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n, k) + 1))


_INPUTS = takes(
    image_objects="words: objects that each image's caption names",
    base_objects="words: the same of the picture of the base with this prompt and seed",
)
CARDS = (
    Card(
        function=object_odds,
        field="largest",
        name="Log-odds of an object against the base",
        summary="Log-odds that an object appears, relative to the same scenes under the base, object by object.",
        tex=r"\ln \frac{b + \frac{1}{2}}{c + \frac{1}{2}}",
        symbols="$b$ counts the pairs in which only the picture has the object, $c$ those in which only the base "
        r"has it. Of pictures that share no seeds: $\ln \frac{(a + 1/2) (d + 1/2)}{(b + 1/2) (c + 1/2)}$, of "
        "the four counts.",
        source="mcnemar1947, b / c",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more often than in the base",
        inputs=_INPUTS,
        limits="It cannot find objects that the captioner does not name, or that the base shows as often.",
    ),
    Card(
        function=object_shift,
        field="divergence",
        name="Shift of the objects from the base",
        summary="Distance between the shares of all objects and those of the same scenes under the base.",
        tex=r"\text{JS} = H\left( \frac{P + Q}{2} \right) - \frac{H(P) + H(Q)}{2}",
        symbols="$H$ is the entropy in bits; $P$ and $Q$ are the shares of the objects in the pictures and in the "
        "base.",
        source="lin1991, JS",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="other objects than in the base",
        inputs=_INPUTS,
        limits="Chance alone puts it above 0, most of all with few images: read its permutation p-value. It does not "
        "say which object differs.",
    ),
    Card(
        function=variety_change,
        field="log_ratio.value",
        name="Variety of the objects against the base",
        summary="Log ratio of the variety of objects to that in the same scenes under the base, at equal coverage.",
        tex=r"\ln \frac{D(C)}{D_{\text{base}}(C)}",
        symbols="$D(C)$ is the number of equally frequent objects that would be as varied (Hill number) at the "
        "coverage $C$, the smaller of the two coverages.",
        source="chao2012, D(C)",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more varied than in the base; negative: less varied",
        inputs=_INPUTS,
        limits="A planted object first adds to the variety, then reduces it: the log-odds say which object it is.",
    ),
)
