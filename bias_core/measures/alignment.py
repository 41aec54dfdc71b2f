"""OASIS: directions of attributes, share of variance, WALS, and similarity to texts."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit
from threadpoolctl import threadpool_limits

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import (
    Array,
    Floats,
    all_equal,
    cosines,
    same_dimension,
    same_length,
    unit_rows,
    unit_sets,
    unit_vector,
)
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import check_confidence, mean_interval
from bias_core.types import Estimate
from bias_core.wording import format_percent

_ROUNDING = 1e-6  # unit rows closer than this differ by float32 rounding only


@dataclass(frozen=True, kw_only=True)
class KernelDirection:
    """Direction of an attribute in the space of kernel values to ``support`` [dehdashtian2025oasis, A.2.2]."""

    coefficients: Array  # unit eigenvector, one entry per supporting image, `(m,)`
    support: Floats  # unit embeddings that the kernel is taken to, `(m, d)`
    gamma: float  # of k(x, z) = exp(-gamma |x - z|²), > 0

    def mean_gradient(self) -> Array:
        """Unit direction ``(d,)`` in which Σ_j c_j k(x, z_j) rises, c the coefficients, averaged over the support."""
        kernel = _rbf(self.support, self.support, self.gamma)
        weights = self.coefficients * kernel.sum(axis=1) - kernel @ self.coefficients  # (m,)
        return np.asarray(unit_vector(weights @ self.support, "mean gradient"), dtype=np.float64)


def text_direction(positive: ArrayLike, negative: ArrayLike) -> Array:
    """Unit direction of an attribute from its two sentences.

    δA = E_T(d+) - E_T(d-), divided by its length   [dehdashtian2025oasis, Eq. 6]

    Parameters
    ----------
    positive, negative : arrays (d,). Text embeddings; unit vectors are made of them first.

    Returns
    -------
    array (d,) : points towards the positive sentence.

    Raises
    ------
    InvalidInput : for malformed vectors, or when both sentences have the same embedding.

    Examples
    --------
    >>> text_direction([3.0, 0.0], [0.0, 5.0]).round(4)
    array([ 0.7071, -0.7071])
    """
    towards, away = unit_vector(positive, "positive"), unit_vector(negative, "negative")
    same_dimension(positive=towards, negative=away)
    return _find_direction(towards, away, "The positive and the negative sentence have the same embedding")


def image_direction(
    embeddings: ArrayLike, labels: ArrayLike, *, kernel: Literal["linear", "rbf"] = "linear", gamma: float | None = None
) -> Array:
    """Unit direction of an attribute from labelled images, by supervised principal components.

    Linear: first eigenvector of Z H K_Y H Zᵀ [dehdashtian2025oasis, Eq. 14]; with two labels that is the
    difference of the class means.

    Parameters
    ----------
    embeddings : array (m, d). Images made to show the attribute or its absence.
    labels : array (m,). 1 or True for a+, 0 or False for a-; both must occur.
    kernel : {"linear", "rbf"}
    gamma : float > 0 or None. Of the RBF kernel; None: 1 / median squared distance.

    Returns
    -------
    array (d,) : points towards a+.

    Raises
    ------
    InvalidInput : for malformed input, labels of one class only, or classes with the same mean.

    Notes
    -----
    The RBF direction of the paper [dehdashtian2025oasis, Eq. 16] lives in sample space: :func:`kernel_direction` gives
    it, and maps new images through the kernel. Here it is brought back to feature space as the mean gradient of that
    map.

    Examples
    --------
    >>> image_direction([[1.0, 0.0], [0.0, 1.0]], [1, 0]).round(4)
    array([ 0.7071, -0.7071])
    """
    if kernel == "rbf":
        return kernel_direction(embeddings, labels, gamma=gamma).mean_gradient()
    if kernel != "linear":
        raise InvalidInput(f'kernel must be "linear" or "rbf"; got {kernel!r}.')
    rows, present = _labelled(embeddings, labels)
    means = rows[present].mean(axis=0, dtype=np.float64), rows[~present].mean(axis=0, dtype=np.float64)
    return _find_direction(*means, "The images with and without the attribute have the same mean embedding")


def kernel_direction(embeddings: ArrayLike, labels: ArrayLike, *, gamma: float | None = None) -> KernelDirection:
    """Direction of an attribute in sample space, by kernel supervised principal components.

    First eigenvector of K_Z H K_Y H K_Zᵀ [dehdashtian2025oasis, Eq. 16]; with two labels K_Z H y.

    Parameters
    ----------
    embeddings : array (m, d)
    labels : array (m,). 1 or True for a+, 0 or False for a-; both must occur.
    gamma : float > 0 or None. None: 1 / median squared distance.

    Raises InvalidInput: as :func:`image_direction`.

    >>> kernel_direction([[1.0, 0.0], [0.0, 1.0]], [1, 0]).coefficients.round(4)
    array([ 0.7071, -0.7071])
    """
    rows, present = _labelled(embeddings, labels)
    width = _median_gamma(rows) if gamma is None else float(gamma)
    if not 0 < width < math.inf:
        raise InvalidInput(f"gamma must be positive; got {gamma}.")
    centred = present - present.mean()  # H y, (m,)
    coefficients = unit_vector(_rbf(rows, rows, width) @ centred, "kernel direction")
    return KernelDirection(coefficients=np.asarray(coefficients, dtype=np.float64), support=rows, gamma=width)


def _find_direction(towards: Floats, away: Floats, equal: str) -> Array:
    difference = np.asarray(towards, dtype=np.float64) - away
    if np.linalg.norm(difference) <= _ROUNDING:
        raise InvalidInput(f"{equal}: their difference has no direction.")
    return np.asarray(unit_vector(difference))


def _labelled(embeddings: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    rows = unit_rows(embeddings)
    present = np.asarray(labels)
    if present.ndim != 1 or not np.isin(present, [0, 1]).all():
        raise InvalidInput(f"labels must be 1 (a+) or 0 (a-), shape (m,); got {labels!r:.200}.")
    same_length(embeddings=rows, labels=present)
    if len(np.unique(present)) != 2:
        raise InvalidInput(f"labels must have both classes; got only {present[0]!r}.")
    return rows, present.astype(bool)


def _rbf(x: Floats, z: Floats, gamma: float) -> Array:
    return np.asarray(np.exp(-gamma * scipy.spatial.distance.cdist(x, z, "sqeuclidean")))


def _median_gamma(rows: Floats) -> float:

    if (median := float(np.median(scipy.spatial.distance.pdist(rows, "sqeuclidean")))) <= _ROUNDING**2:
        raise InvalidInput("gamma cannot be chosen: more than half of the images have the same embedding.")
    return 1 / median


def similarity_estimate(similarities: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean cosine of images to a text, or to the images of a set, with the interval of Student's t over the images.

    1/n Σ_i cos(T(s), I_i)   [dehdashtian2025oasis, Eq. 8]

    Parameters
    ----------
    similarities : array (n,), in [-1, 1]. Cosine of each image to the text, or its mean cosine to the images of the
        set; the text or set is taken as given.

    Returns
    -------
    Estimate : in [-1, 1]; higher: closer. No null value: compare with another text or set, by the same encoder. One
        image has no interval, and ``note`` says so.

    Raises
    ------
    InvalidInput : for empty or not finite similarities, or such as are no cosines.

    Examples
    --------
    >>> similarity_estimate([0.25, 0.5]).value
    0.375
    """
    return mean_interval(cosines(similarities), confidence=confidence)


ENERGY = 0.9  # Share of the squared singular values that the default number of components must reach
_ROUNDING_OF_SHARES = 1e-12  # shares this small are nothing but rounding
_SAME = 1e-6  # unit rows closer than this differ by float32 rounding only
ONE_LOOK = "no image, or every image, shows the attribute, so no interval can be given"
WITHOUT_INTERVAL = "no interval: WALS changes with the number of pictures"


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
    centred: bool  # True if the mean embedding was subtracted first

    def n_components(self, energy: float = ENERGY) -> int:
        """Fewest components with squared singular values that reach this share of their sum."""
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
    signed : bool. Sum δ·u_i instead of |δ·u_i|. With ``centred=False`` and all min(n, d) components this is the
        paper's literal form.

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

    Raises InvalidInput: for fewer than two images, or images with equal embeddings.

    >>> decompose([[1.0, 0.0], [0.0, 1.0]]).singular_values.round(6)
    array([1., 0.])
    """
    unit, rows = _varied(image_embeddings), None
    if len(unit) > LARGE:
        sigma, u = large_spectrum(unit, centred=centred)
    else:
        rows = unit.astype(np.float64)
        rows = rows - rows.mean(axis=0) if centred else rows
        # The triangular factor has the same singular values and right vectors, and is small when n > d.
        with threadpool_limits(limits=1):  # on a busy machine threads wait for each other twenty times as long
            _, sigma, u = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=False)
    signs = np.sign(np.take_along_axis(u, np.abs(u).argmax(axis=1, keepdims=True), axis=1))
    return Decomposition(rows=rows, singular_values=sigma, components=u * signs, centred=centred)


def alignment_score(
    decomposition: Decomposition, direction: ArrayLike, *, n_components: int | None = None, signed: bool = False
) -> float:
    """:func:`weighted_alignment_score` of an image set that is already decomposed: a mat-vec.

    Raises InvalidInput: for a zero direction, another dimension, or an impossible number of components.

    >>> images = decompose([[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]])
    >>> round(alignment_score(images, [0.0, 3.0, 4.0]), 6)
    0.6
    """
    delta = unit_vector(direction)
    same_dimension(image_embeddings=decomposition.components, direction=delta)
    k = _check_n_components(n_components, decomposition)
    sigma, u = decomposition.singular_values[:k], decomposition.components[:k]
    cosines = u @ delta if signed else np.abs(u @ delta)  # (k,)
    return float(sigma @ cosines / sigma.sum())


def alignment_estimates(
    image_embeddings: ArrayLike, directions: ArrayLike, *, literal: bool = False
) -> tuple[Estimate, ...]:
    """WALS of several attributes, without intervals; ``note`` says why.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)
    literal : bool. Eq. 7 as printed: signed, not centred, all components.

    Returns
    -------
    tuple of Estimate : one per direction, in [0, 1] ([-1, 1] if literal), no null value, nan ends. nan where there is
        one image, or all embeddings are equal.

    Raises
    ------
    InvalidInput : for malformed embeddings or directions, or different dimensions.

    Notes
    -----
    Where singular values lie close their vectors turn freely from one image set to the next, and |δ·u_i| with them: in
    one world WALS read 0.166 of 32 pictures and 0.115 of 3,000. Neither bootstrap nor jackknife mends that. What is
    meant is estimated by :func:`variance_share`.

    Examples
    --------
    >>> alignment_estimates([[1.0, 0.0]], [[0.0, 1.0]])[0].note
    'one image has no variety'
    """
    images, deltas = unit_sets(image_embeddings=image_embeddings, directions=directions)
    if undefined := _no_variety(images):
        return (Estimate.undefined(len(images), undefined),) * len(deltas)
    whole = decompose(images, centred=not literal)
    k = len(whole.singular_values) if literal else None  # by energy
    values = [alignment_score(whole, delta, n_components=k, signed=literal) for delta in deltas]
    return tuple(Estimate.without_interval(value, len(images), WITHOUT_INTERVAL) for value in values)


def variance_share(
    image_embeddings: ArrayLike, direction: ArrayLike, *, shows: ArrayLike | None = None, confidence: float = 0.95
) -> Estimate:
    """Share of the variance of the images that lies along an attribute.

    V(A) = δᵀΣδ / tr Σ, with Σ the covariance of the unit embeddings and δ of length 1, after
    [dehdashtian2025oasis, Eq. 7]

    Parameters
    ----------
    image_embeddings : array (n, d), n >= 2
    direction : array (d,). δA, see :func:`text_direction` and :func:`image_direction`; its length does not matter.
    shows : array (n,) of 1, 0 and nan, or None. Which images show the attribute; nan where that cannot be told.
    confidence : float in (0, 1)

    Returns
    -------
    Estimate : in [0, 1]; 0: the images do not vary along the attribute, 1: in no other way. No null value: a direction
        without meaning has about 1 / d. The interval is Student's t on the logit scale with the standard error of a
        jackknife over images; its ends are nan, with a note, for two images, where a single one makes or hides all
        the variety along the attribute, and where ``shows`` says that all show it or none does.

    Raises
    ------
    InvalidInput : for fewer than two images, images with equal embeddings, a zero direction, different dimensions, or
        ``shows`` of another shape or with other values.

    Notes
    -----
    What WALS is about, but a ratio of two sums over images: it does not move with their number and needs no
    components. An interval knows of no look that none of the images has: with 3 % women most sets of 16 show none, and
    their share, without ``shows``, seems to be known well. Where both looks are in a set, once is enough: of sets of
    16 to 128 images with 0.5 to 50 % of the rarer look, 91 to 98 % of such intervals hold, fewest where a quarter has
    it; those that miss have too high a lower end.

    Examples
    --------
    >>> images = [[0.6, 0.8, 0.0], [0.6, -0.8, 0.0], [0.6, 0.0, 0.8], [0.6, 0.0, -0.8]]
    >>> round(variance_share(images, [0, 2, 0]).value, 6)
    0.5
    """
    images, delta = _varied(image_embeddings), unit_vector(direction)
    shown = None if shows is None else _answers(shows)[..., None]
    return variance_share_estimates(images, delta[None], shows=shown, confidence=confidence)[0]


def variance_share_estimates(
    image_embeddings: ArrayLike, directions: ArrayLike, *, shows: ArrayLike | None = None, confidence: float = 0.95
) -> tuple[Estimate, ...]:
    """:func:`variance_share` of several attributes.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)
    shows : array (n, n_attributes) of 1, 0 and nan, or None

    Returns
    -------
    tuple of Estimate : one per direction; nan with a note where there is one image, or all embeddings are equal.

    Raises InvalidInput: for malformed embeddings, directions or ``shows``, or different dimensions.

    >>> variance_share_estimates([[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0]])[0].note
    'all images have the same embedding'
    """
    check_confidence(confidence)
    images, deltas = unit_sets(image_embeddings=image_embeddings, directions=directions)
    one_look = _find_constant_attributes(shows, (len(images), len(deltas)))
    if undefined := _no_variety(images):
        return (Estimate.undefined(len(images), undefined),) * len(deltas)
    along, distances = squared_deviations(images, deltas)
    estimates = (_share_estimate(squares, distances, confidence) for squares in along.T)
    return tuple(
        replace(estimate, low=math.nan, high=math.nan, method="", note=estimate.note or ONE_LOOK) if same else estimate
        for estimate, same in zip(estimates, one_look, strict=True)
    )


def squared_deviations(image_embeddings: ArrayLike, directions: ArrayLike) -> tuple[Array, Array]:
    """Squared distance of each image from the mean image: along each direction, and in all.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)

    Returns
    -------
    arrays (n, n_attributes) and (n,) : at least 0; their sums have the ratio :func:`variance_share`.

    Raises InvalidInput: for malformed embeddings or directions, or different dimensions.

    >>> squared_deviations([[0.6, 0.8], [0.6, -0.8]], [[0.0, 1.0]])[0].round(6).tolist()
    [[0.64], [0.64]]
    """
    images, deltas = unit_sets(image_embeddings=image_embeddings, directions=directions)
    mean = images.mean(axis=0, dtype=np.float64)
    along = np.asarray(images @ deltas.T, dtype=np.float64) - mean @ deltas.T
    # |x - mean|² of unit rows; no centred copy of a large set
    distances = np.maximum(1 - 2 * np.asarray(images @ mean, dtype=np.float64) + mean @ mean, 0.0)
    return np.minimum(along**2, distances[:, None]), distances


def jackknifed_shares(along: ArrayLike, distances: ArrayLike) -> Array:
    """:func:`variance_share` without each image in turn, from :func:`squared_deviations`.

    Parameters
    ----------
    along, distances : arrays (n,)

    Returns
    -------
    array (n,) : in [0, 1]; nan where the other images do not vary.

    Raises InvalidInput: for arrays of different length.

    >>> jackknifed_shares([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]).round(6).tolist()  # of 1 x 3/2 nothing is left
    [0.0, 0.666667, 0.666667]
    """
    a, b = np.asarray(along, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    n = same_length(along=a, distances=b)
    # the sum of squared deviations without image i is that of all less n / (n - 1) times its own
    part, whole = (total.sum() - n / (n - 1) * total for total in (a, b))
    whole = np.where(whole > _ROUNDING_OF_SHARES * b.sum(), whole, np.nan)
    return np.asarray(np.clip(np.where(part > _ROUNDING_OF_SHARES * b.sum(), part, 0.0) / whole, 0.0, 1.0))


def resampled_variance_shares(image_embeddings: ArrayLike, directions: ArrayLike, weights: NDArray[np.int_]) -> Array:
    """:func:`variance_share` of weighted image sets: resamples, swaps or parts of one set.

    Parameters
    ----------
    image_embeddings : array (n, d)
    directions : array (n_attributes, d)
    weights : array (n_sets, n). How often each image is in each set.

    Returns
    -------
    array (n_sets, n_attributes) : in [0, 1]; nan where a set does not vary.

    Raises InvalidInput: for malformed embeddings or directions, or different dimensions.

    >>> images = np.array([[0.6, 0.8, 0.0], [0.6, -0.8, 0.0], [0.6, 0.0, 0.8], [0.6, 0.0, -0.8]])
    >>> weights = np.array([[1, 1, 1, 1], [0, 0, 2, 2], [0, 0, 0, 4]])
    >>> resampled_variance_shares(images, [[0.0, 1.0, 0.0]], weights).round(6)
    array([[0.5],
           [0. ],
           [nan]])
    """
    images, deltas = unit_sets(image_embeddings=image_embeddings, directions=directions)
    images = images.astype(np.float64)
    images = images - images.mean(axis=0)  # differences of small numbers are exact then
    n = weights.sum(axis=1, keepdims=True)  # (n_sets, 1)
    along = images @ deltas.T  # (n, n_attributes)
    part = weights @ along**2 - (weights @ along) ** 2 / n
    whole = weights @ (images**2).sum(axis=1) - ((weights @ images) ** 2).sum(axis=1) / n[:, 0]
    whole = np.where(whole > n[:, 0] * _SAME**2, whole, np.nan)
    return np.asarray(np.clip(part, 0.0, None) / whole[:, None])


def _share_estimate(along: Array, distances: Array, confidence: float) -> Estimate:
    """V with its interval; none if the logit of V is infinite with or without a single image."""
    n, value = len(along), float(along.sum() / distances.sum())
    method, note = f"jackknife t on the logit scale {format_percent(confidence)}", ""
    low = high = math.nan
    if n < 3:
        note = "two images have no interval"
    else:
        shares = jackknifed_shares(along, distances)
        if not ((shares > 0) & (shares < 1)).all() or not _ROUNDING_OF_SHARES < value < 1 - _ROUNDING_OF_SHARES:
            note = "one image makes all the variety along the attribute, or all but it: there is no interval"
        else:
            logits = logit(shares)
            error = math.sqrt((n - 1) / n * float(((logits - logits.mean()) ** 2).sum()))
            reach = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * error
            low, high = (float(expit(logit(value) + side * reach)) for side in (-1, 1))
    return Estimate(value=value, low=low, high=high, n=n, method="" if note else method, note=note)


def _find_constant_attributes(shows: ArrayLike | None, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Mark attributes that all images show, or none, by ``shows``; mark none if it is missing."""
    if shows is None:
        return np.zeros(shape[1], dtype=bool)
    shown = _answers(shows)
    if shown.shape != shape or not (np.isnan(shown) | (shown == 0) | (shown == 1)).all():
        n, k = shape
        raise InvalidInput(
            f"shows must hold 1, 0 or nan for each of {n} images and {k} attributes; got shape {shown.shape} with the "
            f"values {np.unique(shown)[:5].tolist()}."
        )
    return np.asarray(~((shown == 1).any(axis=0) & (shown == 0).any(axis=0)))


def _answers(shows: ArrayLike) -> Array:
    try:
        return np.asarray(shows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"shows must hold 1, 0 or nan for each image; {error}.") from None


def _varied(image_embeddings: ArrayLike) -> Floats:
    unit = unit_rows(image_embeddings, "image_embeddings", min_rows=2)
    if all_equal(unit):
        raise InvalidInput(f"image_embeddings must differ; got {len(unit)} equal rows, which have no variety.")
    return unit


def _check_n_components(n_components: int | None, decomposition: Decomposition) -> int:
    largest = len(decomposition.singular_values)
    if n_components is None:
        return decomposition.n_components()
    if not 1 <= n_components <= largest:
        raise InvalidInput(f"n_components must be from 1 to min(n, d) = {largest}; got {n_components}.")
    return n_components


def _no_variety(images: Floats) -> str:
    if len(images) == 1:
        return "one image has no variety"
    return "all images have the same embedding" if all_equal(images) else ""


_INPUTS = takes(image_embeddings="embeddings: images of the concept", direction="direction: direction of the attribute")


LARGE = 10_000  # Images beyond which a set is not decomposed row by row
_CHUNK = 4096  # rows held in double precision at once


def large_spectrum(rows: NDArray[np.floating], *, centred: bool = True) -> tuple[Array, Array]:
    """Singular values ``(d,)``, descending, and their right singular vectors ``(d, d)``, one a row.

    Parameters
    ----------
    rows : array (n, d), any precision; read in parts and left as it is.
    centred : bool. Take the mean row off first.

    Raises ValueError: for anything but a matrix; the door of :mod:`bias_core.measures.alignment` refuses it before.

    >>> large_spectrum(np.array([[3.0, 0.0], [0.0, 1.0]]), centred=False)[0]
    array([3., 1.])
    """
    n, d = rows.shape
    total, gram = np.zeros(d), np.zeros((d, d))
    for start in range(0, n, _CHUNK):
        part = np.asarray(rows[start : start + _CHUNK], dtype=np.float64)
        total += part.sum(axis=0)
        gram += part.T @ part
    if centred:
        gram -= np.outer(total, total) / n
    squares, vectors = np.linalg.eigh(gram)  # ascending
    return np.sqrt(np.maximum(squares[::-1], 0.0)), vectors.T[::-1].copy()


def n_for_energy(squares: Array, energy: float) -> int:
    """Fewest leading entries of ``squares (r,)`` that reach a share of their sum.

    Raises InvalidInput: where there is no energy at all.

    >>> n_for_energy(np.array([6.0, 3.0, 1.0]), 0.9)
    2
    """
    if not squares.sum() > 0:
        raise InvalidInput(f"Images that do not vary have no components; got the squares {squares[:5]}.")
    shares = np.cumsum(squares) / squares.sum()
    return 1 + int(np.count_nonzero(shares < energy - 1e-12))


CARDS = (
    Card(
        function=similarity_estimate,
        key="mean_similarity",
        field="value",
        name="Mean cosine",
        summary="Mean cosine of the images to a text, or to a set of images.",
        tex=r"\frac{1}{n} \sum_i \cos(T, I_i)",
        symbols="$T$ is the text, and $I_i$ is image $i$; of a set, the mean cosine to its images takes the place "
        "of the cosine.",
        source="dehdashtian2025oasis, Eq. 8",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="closer",
        inputs=takes(similarities="similarities: cosine of each image to the text, or its mean cosine to the set"),
        limits="Its scale is the encoder's own: compare texts and sets within one encoder only.",
    ),
    Card(
        function=weighted_alignment_score,
        name="Weighted alignment score WALS",
        terms=(Term(symbol="WALS", words="weighted alignment score"),),
        summary="Alignment of the images' main directions of variety with the attribute.",
        tex=r"\text{WALS} = \frac{\sum_i \sigma_i \lvert \delta \cdot u_i \rvert}{\sum_j \sigma_j}",
        symbols=r"$u_i$ and $\sigma_i$ are the main directions of the images and their singular values; $\delta$ is "
        "the direction of the attribute, of length 1.",
        source="dehdashtian2025oasis, Eq. 7",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more of the variety lies along the attribute",
        inputs=_INPUTS,
        limits="It has no interval: it depends on the number of images and components, and is unstable if directions "
        "vary equally. Prefer the share of variance. Eq. 7 as printed is not centred, and its sign is arbitrary.",
    ),
    Card(
        function=variance_share,
        field="value",
        name="Share of variance along the attribute",
        summary="Share of the differences between the images that lies along the attribute.",
        tex=r"V = \frac{\delta^\top \Sigma \delta}{\operatorname{tr} \Sigma}",
        symbols=r"$\Sigma$ is the covariance of the unit embeddings, $\delta$ the direction of the attribute, of "
        "length 1.",
        source="dehdashtian2025oasis, after Eq. 7",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more of the variety lies along the attribute",
        inputs=_INPUTS,
        limits="The encoder's noise counts as variety: compare within one encoder. If no image, or every image, shows "
        "the attribute, there is no interval: nothing is known about the other case.",
    ),
)
