"""OASIS: how much of the variety of a set of images lies along an attribute (WALS and spread)."""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.direction import (
    image_direction as image_direction,
    kernel_direction as kernel_direction,
    text_direction as text_direction,
)
from bias_core.metrics.moments import LARGE, group_moments, jackknife_errors, n_for_energy
from bias_core.stats.arrays import Array, all_equal, finite_vector, same_dimension, unit_rows, unit_sets, unit_vector
from bias_core.stats.effects import Seed, bootstrap_interval, normal_estimate, percentile_estimate
from bias_core.types import Estimate

ENERGY = 0.9  # Share of the squared singular values that the default number of components must reach
_ROUNDING = 1e-6  # unit rows closer than this differ by float32 rounding only
_KEPT_ENERGY = 0.99  # what the bootstrap of WALS keeps of the image set
_BLOCK, _LARGEST_BLOCK = 64, 4_000_000  # resamples that are decomposed together, and numbers held at once


@dataclass(frozen=True, kw_only=True)
class Decomposition:
    """Singular value decomposition of the unit embeddings of one image set."""

    # unit embeddings, centred if `centred`, `(n, d)`; None for sets of more than 10,000 images, which are decomposed
    # from their second moments
    rows: Array | None
    singular_values: Array  # sigma, descending, `(r,)` with r = min(n, d)
    # u, right singular vectors in feature space, `(r, d)`; the entry of largest size of each is positive, so that signs
    # do not depend on the library or the order of the images
    components: Array
    centred: bool  # whether the mean embedding was taken off first

    def n_components(self, energy: float = ENERGY) -> int:
        """Fewest components whose squared singular values reach this share of their sum."""
        return n_for_energy(self.singular_values**2, energy)


def weighted_alignment_score(
    image_embeddings: ArrayLike,
    direction: ArrayLike,
    *,
    n_components: int | None = None,
    centred: bool = True,
    signed: bool = False,
) -> float:
    """WALS: how well the main directions of variety of the images align with an attribute.

    WALS(A) = Σ_i σ_i |δ·u_i| / Σ_j σ_j   [dehdashtian2025oasis, Eq. 7]

    Parameters
    ----------
    image_embeddings : array (n, d), n >= 2
    direction : array (d,). δA, see :func:`text_direction` and :func:`image_direction`; its length does not matter.
    n_components : int or None. k; None: the fewest with 90 % of the energy Σσ².
    centred : bool. Take the mean embedding off first; without it the first component is the mean image.
    signed : bool. Sum δ·u_i instead of |δ·u_i|. With ``centred=False`` this is the paper's literal form.

    Returns
    -------
    float : in [0, 1], in [-1, 1] if signed. Higher: the images vary more along the attribute; 0: not at all. There is
        no null value: compare models and attributes.

    Raises
    ------
    InvalidInput : for fewer than two images, images with equal embeddings, a zero direction, different dimensions, or
        an impossible number of components.

    Notes
    -----
    Differs from the paper: unit, centred features and the absolute value. The sign of a singular vector is arbitrary,
    so the signed sum is undefined; here the entry of largest size of each is made positive. u_i lives in feature space:
    it is a right singular vector of the (n, d) array.

    Examples
    --------
    >>> images = [[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]
    >>> round(weighted_alignment_score(images, [0.0, 1.0, 0.0]), 6)
    1.0
    >>> round(weighted_alignment_score(images, [0.0, 3.0, 4.0]), 6)
    0.6
    """
    return alignment_score(
        decompose(image_embeddings, centred=centred), direction, n_components=n_components, signed=signed
    )


def decompose(image_embeddings: ArrayLike, *, centred: bool = True) -> Decomposition:
    """Decompose an image set once, for any number of attributes.

    Parameters
    ----------
    image_embeddings : array (n, d), n >= 2
    centred : bool

    Raises
    ------
    InvalidInput : for fewer than two images, or images with equal embeddings.

    Examples
    --------
    >>> decompose([[1.0, 0.0], [0.0, 1.0]]).singular_values.round(6)
    array([1., 0.])
    """
    unit, rows = _varied(image_embeddings), None
    if len(unit) > LARGE:
        spectrum = group_moments(unit, 1).spectrum(centred=centred)
        sigma, u = spectrum.singular_values, spectrum.components
    else:
        rows = unit.astype(np.float64)
        rows = rows - rows.mean(axis=0) if centred else rows
        # The triangular factor has the same singular values and right vectors, and is small when n > d.
        _, sigma, u = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    signs = np.sign(np.take_along_axis(u, np.abs(u).argmax(axis=1, keepdims=True), axis=1))
    return Decomposition(rows=rows, singular_values=sigma, components=u * signs, centred=centred)


def alignment_score(
    decomposition: Decomposition, direction: ArrayLike, *, n_components: int | None = None, signed: bool = False
) -> float:
    """:func:`weighted_alignment_score` of an image set that is already decomposed: a mat-vec.

    Raises
    ------
    InvalidInput : for a zero direction, another dimension, or an impossible number of components.

    Examples
    --------
    >>> images = decompose([[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]])
    >>> round(alignment_score(images, [0.0, 3.0, 4.0]), 6)
    0.6
    """
    delta = unit_vector(direction)
    same_dimension(image_embeddings=decomposition.components, direction=delta)
    k = _checked(n_components, decomposition)
    sigma, u = decomposition.singular_values[:k], decomposition.components[:k]
    cosines = u @ delta if signed else np.abs(u @ delta)  # (k,)
    return float(sigma @ cosines / sigma.sum())


def alignment_estimates(
    image_embeddings: ArrayLike,
    directions: ArrayLike,
    *,
    n_components: int | None = None,
    confidence: float = 0.95,
    n_resamples: int = 200,
    rng: Seed = 0,
) -> tuple[Estimate, ...]:
    """WALS of several attributes with bootstrap intervals over the images.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)
    n_components : int or None. None: chosen anew in every resample, by energy.

    Returns
    -------
    tuple of Estimate : one per direction, in [0, 1], no null value. nan with a note where there is one image, or all
        embeddings are equal.

    Raises
    ------
    InvalidInput : for malformed embeddings or directions, or different dimensions.

    Notes
    -----
    WALS of few images lies above that of many. The interval is for image sets of this size: it tells models with equal
    n apart, and covers the value of an infinite set less often than it says. The resamples are decomposed inside the
    components that hold 99 % of the energy of the whole set. Beyond 10,000 images the standard error is that of a
    jackknife that leaves out one of 25 random groups at a time.

    Examples
    --------
    >>> alignment_estimates([[1.0, 0.0]], [[0.0, 1.0]])[0].note
    'one image has no variety'
    """
    images, deltas = _checked_sets(image_embeddings, directions)
    if undefined := _no_variety(images):
        return (Estimate.undefined(len(images), undefined),) * len(deltas)
    whole = decompose(images)
    k = None if n_components is None else _checked(n_components, whole)
    if whole.rows is None:
        values = [alignment_score(whole, delta, n_components=k) for delta in deltas]
        errors = jackknife_errors(images, deltas, lambda squares: k or n_for_energy(squares, ENERGY), rng=rng)
        return tuple(
            normal_estimate(value, float(error), n=len(images), confidence=confidence)
            for value, error in zip(values, errors, strict=True)
        )
    with threadpool_limits(limits=1, user_api="blas"):  # many small matrices: threads only get in the way
        n = len(images)
        weights = np.random.default_rng(rng).multinomial(n, np.full(n, 1 / n), size=n_resamples)
        scores = resampled_alignments(images, deltas, weights, n_components=k)
    scores = scores[np.isfinite(scores).all(axis=1)]  # of the resamples that vary
    return tuple(
        percentile_estimate(
            alignment_score(whole, delta, n_components=k), resampled, n=len(images), confidence=confidence
        )
        for delta, resampled in zip(deltas, scores.T, strict=True)
    )


def spread_along(image_embeddings: ArrayLike, direction: ArrayLike) -> float:
    """Standard deviation (ddof=1) of the unit embeddings along the unit direction: variety in cosine units.

    Parameters
    ----------
    image_embeddings : array (n, d), n >= 2
    direction : array (d,)

    Returns
    -------
    float : in [0, 1.42]; 0: the images do not differ along the attribute. No null value.

    Raises
    ------
    InvalidInput : as :func:`weighted_alignment_score`.

    Examples
    --------
    >>> round(spread_along([[0.6, 0.8], [0.8, 0.6]], [2.0, 0.0]), 6)
    0.141421
    """
    unit, delta = _varied(image_embeddings), unit_vector(direction)
    same_dimension(image_embeddings=unit, direction=delta)
    return float(np.std(unit @ delta, ddof=1))


def spread_estimates(
    image_embeddings: ArrayLike, directions: ArrayLike, *, confidence: float = 0.95, rng: Seed = 0
) -> tuple[Estimate, ...]:
    """:func:`spread_along` of several attributes with bootstrap intervals over the images.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)

    Returns
    -------
    tuple of Estimate : one per direction; nan with a note where there is one image, or all embeddings are equal.

    Raises
    ------
    InvalidInput : for malformed embeddings or directions, or different dimensions.

    Examples
    --------
    >>> spread_estimates([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]])[0].note
    'all images have the same embedding'
    """
    images, deltas = _checked_sets(image_embeddings, directions)
    if undefined := _no_variety(images):
        return (Estimate.undefined(len(images), undefined),) * len(deltas)
    deviation = functools.partial(np.std, ddof=1)
    return tuple(
        bootstrap_interval(images @ delta, statistic=deviation, confidence=confidence, rng=rng) for delta in deltas
    )


def _varied(image_embeddings: ArrayLike) -> NDArray[np.floating]:
    unit = unit_rows(image_embeddings, "image_embeddings", min_rows=2)
    if all_equal(unit):
        raise InvalidInput(f"image_embeddings must differ; got {len(unit)} equal rows, which have no variety.")
    return unit


def _checked(n_components: int | None, decomposition: Decomposition) -> int:
    largest = len(decomposition.singular_values)
    if n_components is None:
        return decomposition.n_components()
    if not 1 <= n_components <= largest:
        raise InvalidInput(f"n_components must be from 1 to min(n, d) = {largest}; got {n_components}.")
    return n_components


def _checked_sets(image_embeddings: ArrayLike, directions: ArrayLike) -> tuple[NDArray[np.floating], Array]:
    images, deltas = unit_sets(image_embeddings=image_embeddings, directions=directions)
    if len(images) <= LARGE:  # a larger set is worked on in parts
        images = images.astype(np.float64)
    return images, np.asarray(deltas, dtype=np.float64)


def _no_variety(images: NDArray[np.floating]) -> str:
    if len(images) == 1:
        return "one image has no variety"
    return "all images have the same embedding" if all_equal(images) else ""


def resampled_alignments(
    image_embeddings: ArrayLike,
    directions: ArrayLike,
    weights: NDArray[np.int_],
    *,
    n_components: int | None = None,
    energy: float = _KEPT_ENERGY,
) -> Array:
    """WALS of weighted image sets, decomposed together: resamples, swaps or parts of one set.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)
    weights : array (n_sets, n). How often each image is in each set.
    n_components : int or None. None: chosen in every set, by energy.
    energy : float in (0, 1]. Share of the energy of all images whose components are kept. 1 leaves nothing out.

    Returns
    -------
    array (n_sets, n_attributes) : in [0, 1], no null value; nan where a set does not vary.

    Raises
    ------
    InvalidInput : for malformed embeddings or directions, or different dimensions.

    Examples
    --------
    >>> images = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8]])
    >>> resampled_alignments(images, [[0.0, 1.0]], np.array([[1, 0, 1], [0, 3, 0]]), energy=1.0).round(6)
    array([[0.894427],
           [     nan]])
    """
    images, deltas = _checked_sets(image_embeddings, directions)
    if _no_variety(images):
        return np.full((len(weights), len(deltas)), math.nan)
    whole = decompose(images)
    u = whole.components[: max(n_components or 0, whole.n_components(energy))]
    points, targets = (images - images.mean(axis=0)) @ u.T, deltas @ u.T  # (n, kept), (n_attributes, kept)
    block = max(1, min(_BLOCK, _LARGEST_BLOCK // len(u) ** 2))
    parts = [
        _alignments(points, targets, weights[start : start + block], n_components)
        for start in range(0, len(weights), block)
    ]
    return np.concatenate(parts)


def _alignments(points: Array, targets: Array, weights: NDArray[np.int_], n_components: int | None) -> Array:
    n = weights.sum(axis=1, keepdims=True)  # (n_sets, 1)
    sums = weights @ points  # (n_sets, kept)
    grams = np.stack([(points.T * row) @ points for row in weights])
    grams -= sums[:, :, None] * sums[:, None, :] / n[:, :, None]
    squares, axes = np.linalg.eigh(grams)  # ascending
    squares, axes = np.maximum(squares[:, ::-1], 0.0), axes[:, :, ::-1]
    squares[squares[:, 0] <= n[:, 0] * _ROUNDING**2] = np.nan  # it does not vary
    sigma = np.sqrt(squares)  # (n_sets, kept)
    if n_components is None:
        shares = np.cumsum(squares, axis=1) / squares.sum(axis=1, keepdims=True)
        sigma[:, 1:][shares[:, :-1] >= ENERGY - 1e-12] = 0.0  # enough without these
    else:
        sigma[:, n_components:] = 0.0
    cosines = np.abs(targets @ axes)  # (n_sets, n_attributes, kept)
    return np.asarray((cosines * sigma[:, None, :]).sum(axis=2) / sigma.sum(axis=1, keepdims=True))


def resampled_spreads(projections: ArrayLike, weights: NDArray[np.int_]) -> Array:
    """:func:`spread_along` of weighted image sets, from the projections of the images.

    Parameters
    ----------
    projections : array (n, n_attributes). Unit embeddings times unit directions.
    weights : array (n_sets, n). How often each image is in each set; at least two in all.

    Returns
    -------
    array (n_sets, n_attributes) : in [0, 1.42]; 0: the images of a set do not differ along the attribute.

    Raises
    ------
    InvalidInput : for projections that are not finite.

    Examples
    --------
    >>> resampled_spreads([[0.6], [0.8]], np.array([[1, 1]])).round(6)
    array([[0.141421]])
    """
    values = np.asarray(projections, dtype=np.float64)
    finite_vector(values.ravel(), "projections")
    n = weights.sum(axis=1, keepdims=True)  # (n_sets, 1)
    centred = values - values.mean(axis=0)
    squares = weights @ centred**2 - (weights @ centred) ** 2 / n
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / (n - 1)))


_INPUTS = takes(image_embeddings="embeddings: images of the concept", direction="direction: direction of the attribute")
CARDS = (
    Card(
        function=weighted_alignment_score,
        name="Weighted alignment score WALS",
        summary="How well the main directions of variety of the images align with the attribute.",
        source="dehdashtian2025oasis, Eq. 7",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more of the variety lies along the attribute",
        inputs=_INPUTS,
        limits="It moves with the number of images and components: compare at equal n; with 32 images of "
        "the calibration world its 95 % intervals held the value of many images in only 69 % of the runs.",
    ),
    Card(
        function=spread_along,
        name="Spread along the attribute",
        summary="Standard deviation of the images along the attribute, in units of cosine.",
        source="dehdashtian2025oasis, 3.2",
        bounds=(0.0, math.sqrt(2.0)),
        null_value=None,
        higher_means="more variety along the attribute",
        inputs=_INPUTS,
        limits="Noise of the encoder counts as variety: compare within one encoder.",
    ),
)
