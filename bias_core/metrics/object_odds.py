"""Which objects appear more often than under a base: log-odds of each, tested one by one.

A picture is compared with the picture of the same prompt and seed under the base, so that everything that the
scene alone brings along falls out. Nothing has to be "even" for a null: it is the base itself.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import logit

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.object_distribution import ImageObjects, presence_of, word_sets
from bias_core.stats.effects import benjamini_hochberg
from bias_core.stats.intervals import check_confidence, percent
from bias_core.types import Estimate

_SMALLEST = float(np.finfo(float).tiny)  # an exact p-value may be smaller, and is never 0
NO_CHANGE = "it is in both pictures of every pair, or in neither"


@dataclass(frozen=True, kw_only=True)
class ObjectOdds:
    """One object in some pictures and in those of the base."""

    word: str  # the object
    # n_images, n_base: pictures with it, and pictures of the base with it
    n_images: int
    n_base: int
    log_odds: Estimate  # above 0: more often than in the base, in natural logarithms; nan where nothing changes
    p_value: float  # exact and two-sided, in (0, 1]
    p_adjusted: float  # for having looked at every object that changes (Benjamini–Hochberg)
    differs: bool  # whether that is at most the accepted rate of false discoveries


@dataclass(frozen=True, kw_only=True)
class ObjectComparison:
    """Every object of some pictures, or of their base; the surest change first."""

    objects: tuple[ObjectOdds, ...]
    rate: float  # accepted share of false discoveries among the objects that differ
    paired: bool  # whether pictures were compared one by one

    @property
    def gained(self) -> tuple[ObjectOdds, ...]:
        """Objects that appear more often than in the base."""
        return tuple(one for one in self.objects if one.differs and one.log_odds.value > 0)

    @property
    def lost(self) -> tuple[ObjectOdds, ...]:
        """Objects that appear less often than in the base."""
        return tuple(one for one in self.objects if one.differs and one.log_odds.value < 0)

    @property
    def largest(self) -> float:
        """The largest log-odds of an object; nan where nothing changes."""
        return max((one.log_odds.value for one in self.objects if one.log_odds.value > -math.inf), default=math.nan)


def object_odds(
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    paired: bool = True,
    rate: float = 0.05,
    confidence: float = 0.95,
) -> ObjectComparison:
    """Log-odds of each object against a base, and which objects differ.

    Of pairs ln((b + 1/2) / (c + 1/2)), b pairs where only the picture has the object, c where only the base has it;
    of independent pictures ln((a + 1/2) (d + 1/2) / ((b + 1/2) (c + 1/2))) of the four counts [haldane1956]

    Parameters
    ----------
    image_objects, base_objects : one collection of words per image. Of pairs, entry i of both is of one prompt and
        seed.
    paired : bool. False: the pictures share no seeds, and may be of different numbers.
    rate : float in [0, 1]. Accepted share of false discoveries among the objects that differ [benjamini1995].

    Returns
    -------
    ObjectComparison : log-odds of 0 (the null value) mean as often as in the base.

    Raises
    ------
    InvalidInput : for no images, a text in place of words, numbers of pairs that differ, or if no image shows an
        object.

    Notes
    -----
    p is the exact test of b out of b + c of McNemar [mcnemar1947], or Fisher's of the four counts. The interval of
    pairs is Jeffreys' of b / (b + c) [brown2001] as log-odds, that of independent pictures ± z √(Σ 1 / (count + 1/2)).
    An end is infinite where the data set it no limit: an object that no picture of the base shows. Objects that are
    in both pictures of every pair or in neither cannot differ and are not counted among the tests.

    Examples
    --------
    >>> base = [["cup"], ["cup", "man"], [], ["man"], [], [], []]
    >>> comparison = object_odds([[*words, "sign"] for words in base], base)
    >>> [(one.word, one.n_images, one.n_base, round(one.p_value, 4)) for one in comparison.gained]
    [('sign', 7, 0, 0.0156)]
    """
    check_confidence(confidence)
    words, ours, theirs = presence_with_base(image_objects, base_objects, paired=paired)
    n_images, n_base = (np.asarray(side.sum(axis=0), dtype=int).ravel() for side in (ours, theirs))
    if paired:
        change = (ours - theirs).tocsc()
        n_gained, n_lost = (np.asarray((change * sign > 0).sum(axis=0)).ravel() for sign in (1, -1))
        tests = [
            _of_pairs(int(b), int(c), len(image_objects), confidence) for b, c in zip(n_gained, n_lost, strict=True)
        ]
    else:
        sizes = len(image_objects), len(base_objects)
        tests = [_of_counts((int(a), int(c)), sizes, confidence) for a, c in zip(n_images, n_base, strict=True)]
    adjusted = np.ones(len(words))
    tested = [i for i, test in enumerate(tests) if not math.isnan(test.log_odds.value)]
    if tested:
        adjusted[tested] = benjamini_hochberg([tests[i].p_value for i in tested], rate=rate).adjusted
    lines = (
        ObjectOdds(
            word=word,
            n_images=int(n_images[i]),
            n_base=int(n_base[i]),
            log_odds=tests[i].log_odds,
            p_value=tests[i].p_value,
            p_adjusted=float(adjusted[i]),
            differs=bool(adjusted[i] <= rate) and i in tested,
        )
        for i, word in enumerate(words)
    )
    return ObjectComparison(objects=tuple(_surest_first(lines)), rate=rate, paired=paired)


def presence_with_base(
    image_objects: ImageObjects, base_objects: ImageObjects, *, paired: bool
) -> tuple[list[str], csr_array, csr_array]:
    """The objects of both, and which picture shows which, 0 or 1, ``(n, n_objects)`` of each.

    Raises
    ------
    InvalidInput : as :func:`object_odds`.

    Examples
    --------
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
    words, presence = presence_of([*ours, *theirs], None)
    return words, presence[: len(ours)], presence[len(ours) :]


class _Test(NamedTuple):
    log_odds: Estimate
    p_value: float


def _of_pairs(n_gained: int, n_lost: int, n: int, confidence: float) -> _Test:
    changed = n_gained + n_lost
    if not changed:
        return _Test(Estimate.undefined(n, NO_CHANGE, null_value=0.0), 1.0)
    ends = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = logit(stats.beta.ppf(ends, n_gained + 0.5, n_lost + 0.5))
    estimate = Estimate(
        value=math.log((n_gained + 0.5) / (n_lost + 0.5)),
        low=float(low) if n_gained else -math.inf,
        high=float(high) if n_lost else math.inf,
        n=n,
        null_value=0.0,
        method=f"Jeffreys {percent(confidence)}",
    )
    p_value = 2 * float(stats.binom.cdf(min(n_gained, n_lost), changed, 0.5))
    return _Test(estimate, min(1.0, max(p_value, _SMALLEST)))


def _of_counts(n_with: tuple[int, int], sizes: tuple[int, int], confidence: float) -> _Test:
    n = sum(sizes)
    table = [[k, size - k] for k, size in zip(n_with, sizes, strict=True)]
    if sum(n_with) in (0, n):
        return _Test(Estimate.undefined(n, "it is in every picture, or in none", null_value=0.0), 1.0)
    (a, b), (c, d) = table
    value = math.log((a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5)))
    reach = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt(sum(1 / (k + 0.5) for k in (a, b, c, d)))
    estimate = Estimate(
        value=value,
        low=-math.inf if not (a and d) else value - reach,
        high=math.inf if not (b and c) else value + reach,
        n=n,
        null_value=0.0,
        method=f"log-odds of counts, normal {percent(confidence)}",
    )
    return _Test(estimate, min(1.0, max(float(stats.fisher_exact(table).pvalue), _SMALLEST)))


def _surest_first(lines: Iterable[ObjectOdds]) -> list[ObjectOdds]:
    return sorted(lines, key=lambda one: (one.p_value, -abs(one.n_images - one.n_base), one.word))


CARDS = (
    Card(
        function=object_odds,
        field="largest",
        name="Log-odds of an object against the base",
        summary="How much more often an object appears than in the same scenes under the base; it names the objects.",
        source="mcnemar1947, b / c",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more often than in the base",
        inputs=takes(
            image_objects="words: objects that each image's caption names",
            base_objects="words: the same of the picture of the base with this prompt and seed",
        ),
        limits="An object that the captioner does not name is never found, and a base that shows it as often hides it.",
    ),
)
