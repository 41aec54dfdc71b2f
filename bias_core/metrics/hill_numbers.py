"""How many different objects pictures show, compared at equal coverage rather than at equal numbers of pictures."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.object_distribution import ImageObjects
from bias_core.metrics.object_odds import presence_with_base
from bias_core.stats.arrays import Array
from bias_core.stats.jackknife import jackknife_interval
from bias_core.types import Estimate

ORDERS = (0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class VarietyChange:
    """The variety of the objects of some pictures against that of a base, both at the same coverage."""

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

    Raises
    ------
    InvalidInput : for ``n_drawn`` below 1 or above ``n_images``, or no object.

    Examples
    --------
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
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    # Where no object is in two pictures, in place of Q₁² / 2 Q₂ unseen ones there are Q₁ (Q₁ − 1) / 2.
    n_seen, n_again = ((n_images - 1) * once, 2 * twice) if twice else ((n_images - 1) * (once - 1), 2)
    return float(1 - once / total * n_seen / (n_seen + n_again)) if once else 1.0


def hill_number(counts: Array, n_images: int, *, coverage: float | None = None, order: int = 1) -> float:
    """How many equally frequent objects would be as varied, in as many pictures as reach a coverage.

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

    Raises
    ------
    InvalidInput : for another order, a coverage outside (0, 1], or no object.

    Examples
    --------
    >>> round(hill_number(np.array([4.0, 4.0, 4.0]), 8), 6)
    3.0
    """
    if order not in ORDERS or not (coverage is None or 0 < coverage <= 1):
        raise InvalidInput(f"order is 0, 1 or 2 and coverage in (0, 1]; got {order} and {coverage}.")
    if coverage is None or coverage >= sample_coverage(counts, n_images, n_images):
        return _number(counts, n_images, n_images, order)
    low, high = 1, n_images  # the fewest pictures that reach the coverage
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sample_coverage(counts, n_images, middle) >= coverage else (middle + 1, high)
    at = _number(counts, n_images, high, order)
    reached = sample_coverage(counts, n_images, high)
    if high == 1 or reached <= coverage:
        return at
    before, short = _number(counts, n_images, high - 1, order), sample_coverage(counts, n_images, high - 1)
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
    groups : the seed of each pair, or None. See :func:`bias_core.stats.jackknife.jackknife_interval`.
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
        own, base = (
            hill_number(side, n, coverage=coverage, order=order) for side, n in zip(counts, sizes, strict=True)
        )
        return own, base, coverage

    own, base, coverage = numbers(None)
    if math.isnan(own):
        raise InvalidInput("Either the pictures or those of the base show no object: there is no variety to compare.")

    def log_ratio(chosen: NDArray[np.bool_]) -> float:
        number, base_number, _ = numbers(chosen)
        return math.log(number / base_number)

    n = ours.shape[0]
    if paired and n > 1:
        change = jackknife_interval(log_ratio, n, groups=groups, confidence=confidence, null_value=0.0)
    else:
        note = "an interval needs two pairs of pictures or more"
        change = Estimate(value=math.log(own / base), low=math.nan, high=math.nan, n=n, null_value=0.0, note=note)
    return VarietyChange(log_ratio=change, number=own, base_number=base, coverage=coverage, order=order)


def _number(counts: Array, n_images: int, n_drawn: int, order: int) -> float:
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


CARDS = (
    Card(
        function=variety_change,
        field="log_ratio.value",
        name="Variety of the objects against the base",
        summary="How much more or less varied objects are than in the same scenes under the base, at equal coverage.",
        source="chao2012, D(C)",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more varied than in the base; below 0 less varied",
        inputs=takes(
            image_objects="words: objects that each image's caption names",
            base_objects="words: the same of the picture of the base with this prompt and seed",
        ),
        limits="A planted object adds one to the variety before it takes from it: read the log-odds for which object.",
    ),
)
