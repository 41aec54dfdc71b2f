"""Two image sets on the same seeds: differences of variety (OASIS), and how far the images changed.

Every difference is second minus first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from bias_core.metrics.alignment import (
    Decomposition,
    alignment_score,
    decompose,
    resampled_alignments,
    resampled_spreads,
    spread_along,
)
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.paired_prevalence import PairedTest, swap_p_value
from bias_core.stats.arrays import Array, all_equal, cosines, same_length, unit_sets
from bias_core.stats.effects import Seed
from bias_core.stats.intervals import bootstrap_interval, normal_estimate
from bias_core.types import Estimate

N_RESAMPLES = 999
_SWAPPED = "images of each seed swapped at random"


@dataclass(frozen=True, kw_only=True)
class VarietyTests:
    """Differences of WALS and of spread, one per direction."""

    alignment: tuple[PairedTest, ...]
    spread: tuple[PairedTest, ...]


def alignment_difference(first: ArrayLike, second: ArrayLike, direction: ArrayLike) -> float:
    """How much more of the variety of the second set lies along an attribute.

    WALS₂ - WALS₁, both with the same k   (WALS: [dehdashtian2025oasis, Eq. 7])

    Parameters
    ----------
    first, second : arrays (n, d), n >= 2. Embeddings of the two sets; of equal size, for WALS moves with it.
    direction : array (d,)

    Returns
    -------
    float : in [-1, 1]; 0: equally much, positive: more in the second.

    Raises
    ------
    InvalidInput : as :func:`bias_core.metrics.alignment.weighted_alignment_score`.

    Notes
    -----
    k is the larger of the two numbers of components that hold 90 % of each set's energy. With a k of its own for each
    set, a difference of k alone would read as one of variety.

    Examples
    --------
    >>> flat, tall = [[1.0, 0.0, 0.1], [1.0, 0.0, -0.1]], [[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]
    >>> round(alignment_difference(flat, tall, [0.0, 1.0, 0.0]), 6)
    1.0
    """
    before, after = aligned_alike(first, second, direction)
    return after - before


def aligned_alike(first: ArrayLike, second: ArrayLike, direction: ArrayLike) -> tuple[float, float]:
    """WALS of both sets with the same number of components, see :func:`alignment_difference`.

    Raises
    ------
    InvalidInput : as :func:`alignment_difference`.

    Examples
    --------
    >>> images = [[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]
    >>> aligned_alike(images, images, [0.0, 3.0, 4.0])[1].__round__(6)
    0.6
    """
    sides = decompose(first), decompose(second)
    k = _common_components(*sides)
    before, after = (alignment_score(side, direction, n_components=k) for side in sides)
    return before, after


def spread_difference(first: ArrayLike, second: ArrayLike, direction: ArrayLike) -> float:
    """How much wider the second set is spread along an attribute, in units of cosine.

    s₂ - s₁, each the standard deviation along δ   [dehdashtian2025oasis, 3.2]

    Parameters
    ----------
    first, second : arrays (n, d), n >= 2
    direction : array (d,)

    Returns
    -------
    float : in [-1.42, 1.42]; 0: equally wide, positive: the second is wider.

    Raises
    ------
    InvalidInput : as :func:`bias_core.metrics.alignment.spread_along`.

    Examples
    --------
    >>> near, far = [[0.6, 0.8], [0.8, 0.6]], [[0.0, 1.0], [1.0, 0.0]]
    >>> round(spread_difference(near, far, [1.0, 0.0]), 6)  # (1 - 0.2) / sqrt(2)
    0.565685
    """
    return spread_along(second, direction) - spread_along(first, direction)


def variety_difference_tests(
    first: ArrayLike,
    second: ArrayLike,
    directions: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    rng: Seed = 0,
) -> VarietyTests:
    """:func:`alignment_difference` and :func:`spread_difference` with intervals and p-values over seeds.

    For p the two images of each seed are swapped at random: p = (1 + #{|D*| >= |D|}) / (1 + B). The interval
    is D ± z·s with s the larger of the standard deviations of the swapped differences and of a bootstrap that
    draws seeds with the images of both sets.

    Parameters
    ----------
    first, second : arrays (n, d). Row i of both is of the same seed.
    directions : array (n_attributes, d)
    n_resamples : int. Of the bootstrap, and as many swaps.

    Returns
    -------
    VarietyTests : nan with a note where a set has fewer than two different images.

    Raises
    ------
    InvalidInput : for malformed embeddings, different sizes or dimensions.

    Notes
    -----
    Swapping tests whether it matters which set an image came from. Where it does for another reason (another
    prevalence), p is that of swapped mixtures and holds approximately. Percentiles of the bootstrap would not do:
    singular vectors of near equal singular values turn freely from resample to resample, so that the resampled WALS
    gathers around another value than that of the set. Both loops work inside the components that hold 99 % of the
    energy of the two sets together.

    Examples
    --------
    >>> one = [[1.0, 0.0]]
    >>> variety_difference_tests(one, one, [[0.0, 1.0]]).spread[0].estimate.note
    'one seed has no variety'
    """
    *rows, deltas = (a.astype(np.float64) for a in unit_sets(first=first, second=second, directions=directions))
    n = same_length(first=rows[0], second=rows[1])
    undefined = "all images of a set have the same embedding" if any(map(all_equal, rows)) else ""
    if undefined := "one seed has no variety" if n < 2 else undefined:
        nothing = _nothing(n, undefined)
        return VarietyTests(alignment=(nothing,) * len(deltas), spread=(nothing,) * len(deltas))
    generator = np.random.default_rng(rng)
    drawn = generator.multinomial(n, np.full(n, 1 / n), size=n_resamples)  # (n_resamples, n)
    none = np.zeros_like(drawn)
    swaps = generator.integers(0, 2, size=(n_resamples, n))
    pairs = [  # weights of the 2n images in the first and in the second set
        (np.hstack([drawn, none]), np.hstack([none, drawn])),
        (np.hstack([1 - swaps, swaps]), np.hstack([swaps, 1 - swaps])),
    ]
    pooled = np.vstack(rows)
    with threadpool_limits(limits=1, user_api="blas"):  # many small matrices: threads only get in the way
        k = _common_components(*map(decompose, rows))
        scores = partial(resampled_alignments, pooled, deltas, n_components=k)
        alignment = [scores(b) - scores(a) for a, b in pairs]
    spreads = partial(resampled_spreads, pooled @ deltas.T)
    spread = [spreads(b) - spreads(a) for a, b in pairs]
    return VarietyTests(
        alignment=_tests([alignment_difference(rows[0], rows[1], d) for d in deltas], alignment, n, confidence),
        spread=_tests([spread_difference(rows[0], rows[1], d) for d in deltas], spread, n, confidence),
    )


def picture_change(similarities: ArrayLike) -> float:
    """How far the two images of a seed lie apart on average.

    1/n Σ_i (1 - cos(I₁ᵢ, I₂ᵢ)), embeddings as in [dehdashtian2025oasis]

    Parameters
    ----------
    similarities : array (n,), in [-1, 1]. Cosine of the two images of each seed.

    Returns
    -------
    float : in [0, 2]; 0: the encoder sees no change. No null value: compare with images of different seeds.

    Raises
    ------
    InvalidInput : for empty or not finite similarities, or such as are no cosines.

    Examples
    --------
    >>> picture_change([1.0, 0.5])
    0.25
    """
    return float((1 - cosines(similarities)).mean())


def picture_change_estimate(similarities: ArrayLike, *, confidence: float = 0.95, rng: Seed = 0) -> Estimate:
    """:func:`picture_change` with its bootstrap interval over seeds.

    Raises
    ------
    InvalidInput : as :func:`picture_change`.

    Examples
    --------
    >>> picture_change_estimate([1.0, 0.5]).n
    2
    """
    return bootstrap_interval(1 - cosines(similarities), statistic=np.mean, confidence=confidence, rng=rng)


def _common_components(first: Decomposition, second: Decomposition) -> int:
    most = min(len(side.singular_values) for side in (first, second))
    return min(most, max(first.n_components(), second.n_components()))


def _nothing(n: int, note: str) -> PairedTest:
    return PairedTest(estimate=Estimate.undefined(n, note, null_value=0.0), p_value=math.nan, test="")


def _tests(values: Sequence[float], samples: Sequence[Array], n: int, confidence: float) -> tuple[PairedTest, ...]:
    """One per direction, from the bootstrap and the swapped differences ``(n_resamples, n_attributes)``."""
    resampled, swapped = (sample[np.isfinite(sample).all(axis=1)] for sample in samples)
    if not (len(resampled) and len(swapped)):
        return tuple(_nothing(n, "too few different images for an interval") for _ in values)
    errors = np.maximum(resampled.std(axis=0), swapped.std(axis=0))
    return tuple(
        PairedTest(
            estimate=normal_estimate(value, float(error), n=n, confidence=confidence, null_value=0.0),
            p_value=swap_p_value(value, swaps),
            test=_SWAPPED,
        )
        for value, error, swaps in zip(values, errors, swapped.T, strict=True)
    )


_INPUTS = takes(
    first="embeddings: images of the first set",
    second="embeddings: images of the second set",
    direction="direction: direction of the attribute",
)
CARDS = (
    Card(
        function=alignment_difference,
        name="Difference of WALS",
        summary="How much more of the variety of the second set lies along the attribute.",
        source="dehdashtian2025oasis, difference of Eq. 7",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the second set's variety lies along the attribute",
        inputs=_INPUTS,
        limits="A share of the variety: it also moves when the sets vary more or less in other ways.",
    ),
    Card(
        function=spread_difference,
        name="Difference of spread",
        summary="How much wider the second set is spread along the attribute, in units of cosine.",
        source="dehdashtian2025oasis, difference of 3.2",
        bounds=(-math.sqrt(2.0), math.sqrt(2.0)),
        null_value=0.0,
        higher_means="the second set is wider",
        inputs=_INPUTS,
        limits="Noise of the encoder counts as variety, and may differ between two models.",
    ),
    Card(
        function=picture_change,
        name="Change of the picture of a seed",
        summary="How far the two images of a seed lie apart for the reader, one minus their cosine.",
        source="dehdashtian2025oasis, 1 - cosine",
        bounds=(0.0, 2.0),
        null_value=None,
        higher_means="the pictures changed more",
        inputs=takes(similarities="similarities: cosine of the two images of a seed"),
        limits="Its scale is the encoder's own: compare with how far images of different seeds lie apart.",
    ),
)
