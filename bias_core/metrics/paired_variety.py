"""Two image sets on the same seeds: differences of variety (OASIS), and how far the images changed.

Every difference is second minus first.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.metrics.alignment import jackknifed_shares, resampled_variance_shares, squared_deviations, variance_share
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.paired_prevalence import PairedTest, swap_p_value
from bias_core.stats.arrays import Array, all_equal, cosines, same_length, unit_sets
from bias_core.stats.effects import Seed
from bias_core.stats.intervals import bootstrap_interval, check_confidence, percent
from bias_core.types import Estimate

N_RESAMPLES = 999
_SWAPPED = "images of each seed swapped at random"
_ROUNDING = 1e-12


def variance_share_difference(first: ArrayLike, second: ArrayLike, direction: ArrayLike) -> float:
    """How much more of the variance of the second set lies along an attribute.

    V₂ - V₁, with V as in :func:`bias_core.metrics.alignment.variance_share`, after [dehdashtian2025oasis, Eq. 7]

    Parameters
    ----------
    first, second : arrays (n, d), n >= 2. Embeddings of the two sets.
    direction : array (d,)

    Returns
    -------
    float : in [-1, 1]; 0: equally much, positive: more in the second.

    Raises
    ------
    InvalidInput : as :func:`bias_core.metrics.alignment.variance_share`.

    Examples
    --------
    >>> flat, tall = [[1.0, 0.0, 0.1], [1.0, 0.0, -0.1]], [[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]
    >>> round(variance_share_difference(flat, tall, [0.0, 1.0, 0.0]), 6)
    1.0
    """
    return variance_share(second, direction).value - variance_share(first, direction).value


def variety_difference_tests(
    first: ArrayLike,
    second: ArrayLike,
    directions: ArrayLike,
    *,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    rng: Seed = 0,
) -> tuple[PairedTest, ...]:
    """:func:`variance_share_difference` with intervals and p-values over seeds.

    For p the two images of each seed are swapped at random: p = (1 + #{|D*| >= |D|}) / (1 + B). The interval
    is D ± t·SE, with n - 1 degrees of freedom and the standard error of a jackknife that leaves out the images of a
    seed from both sets.

    Parameters
    ----------
    first, second : arrays (n, d). Row i of both is of the same seed.
    directions : array (n_attributes, d)
    n_resamples : int. Random swaps.

    Returns
    -------
    tuple of PairedTest : one per direction; nan with a note where a set has fewer than two different images.

    Raises
    ------
    InvalidInput : for malformed embeddings, different sizes or dimensions.

    Notes
    -----
    Swapping tests whether it matters which set an image came from. Where it does for another reason (another
    prevalence), p is that of swapped mixtures and holds approximately.

    Examples
    --------
    >>> one = [[1.0, 0.0]]
    >>> variety_difference_tests(one, one, [[0.0, 1.0]])[0].estimate.note
    'one seed has no variety'
    """
    check_confidence(confidence)
    *rows, deltas = (a.astype(np.float64) for a in unit_sets(first=first, second=second, directions=directions))
    n = same_length(first=rows[0], second=rows[1])
    undefined = "all images of a set have the same embedding" if any(map(all_equal, rows)) else ""
    if undefined := "one seed has no variety" if n < 2 else undefined:
        nothing = PairedTest(estimate=Estimate.undefined(n, undefined, null_value=0.0), p_value=math.nan, test="")
        return (nothing,) * len(deltas)
    swaps = np.random.default_rng(rng).integers(0, 2, size=(n_resamples, n))
    shares = partial(resampled_variance_shares, np.vstack(rows), deltas)  # of the 2n images in a set
    swapped = shares(np.hstack([swaps, 1 - swaps])) - shares(np.hstack([1 - swaps, swaps]))
    deviations = [squared_deviations(side, deltas) for side in rows]
    tests = []
    for i, differences in enumerate(swapped.T):
        (one, whole_one), (two, whole_two) = ((along[:, i], whole) for along, whole in deviations)
        value = float(two.sum() / whole_two.sum() - one.sum() / whole_one.sum())
        without_each = jackknifed_shares(two, whole_two) - jackknifed_shares(one, whole_one)
        p_value = swap_p_value(value, differences[np.isfinite(differences)])
        tests.append(PairedTest(estimate=_estimate(value, without_each, confidence), p_value=p_value, test=_SWAPPED))
    return tuple(tests)


def _estimate(value: float, without_each: Array, confidence: float) -> Estimate:
    """A difference with its jackknife interval; without one where no seed moves it or two images are left."""
    n, reach, note = len(without_each), math.nan, ""
    error = math.sqrt((n - 1) / n * float(((without_each - without_each.mean()) ** 2).sum()))
    if not error > _ROUNDING:  # nan too: without one seed a set does not vary
        note = "too few different images for an interval"
    else:
        reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    return Estimate(
        value=value,
        low=max(value - reach, -1.0) if not note else math.nan,
        high=min(value + reach, 1.0) if not note else math.nan,
        n=n,
        null_value=0.0,
        method="" if note else f"jackknife t {percent(confidence)}",
        note=note,
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


_INPUTS = takes(
    first="embeddings: images of the first set",
    second="embeddings: images of the second set",
    direction="direction: direction of the attribute",
)
CARDS = (
    Card(
        function=variance_share_difference,
        name="Difference of the share of variance",
        summary="How much more of the variety of the second set lies along the attribute.",
        source="dehdashtian2025oasis, after Eq. 7",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the second set's variety lies along the attribute",
        inputs=_INPUTS,
        limits="A share of the variety: it also moves when the sets vary more or less in other ways.",
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
