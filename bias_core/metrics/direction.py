"""Directions of an attribute in embedding space: from two sentences, or from labelled images."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array, Floats, same_dimension, same_length, unit_rows, unit_vector

_ROUNDING = 1e-6  # unit rows closer than this differ by float32 rounding only


@dataclass(frozen=True, kw_only=True)
class KernelDirection:
    """Direction of an attribute in the space of kernel values to ``support`` [dehdashtian2025oasis, A.2.2]."""

    coefficients: Array  # unit eigenvector, one entry per supporting image, `(m,)`
    support: Floats  # unit embeddings that the kernel is taken to, `(m, d)`
    gamma: float  # of k(x, z) = exp(-gamma |x - z|²), > 0

    def project(self, embeddings: ArrayLike) -> Array:
        """Position of new images along the attribute, ``(n,)``; higher is towards a+."""
        rows = unit_rows(embeddings)
        same_dimension(embeddings=rows, support=self.support)
        return np.asarray(_rbf(rows, self.support, self.gamma) @ self.coefficients)

    def mean_gradient(self) -> Array:
        """Unit direction ``(d,)`` in which :meth:`project` rises, averaged over the support."""
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
    return _difference(towards, away, "The positive and the negative sentence have the same embedding")


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
    return _difference(*means, "The images with and without the attribute have the same mean embedding")


def kernel_direction(embeddings: ArrayLike, labels: ArrayLike, *, gamma: float | None = None) -> KernelDirection:
    """Direction of an attribute in sample space, by kernel supervised principal components.

    First eigenvector of K_Z H K_Y H K_Zᵀ [dehdashtian2025oasis, Eq. 16]; with two labels K_Z H y.

    Parameters
    ----------
    embeddings : array (m, d)
    labels : array (m,). 1 or True for a+, 0 or False for a-; both must occur.
    gamma : float > 0 or None. None: 1 / median squared distance.

    Raises
    ------
    InvalidInput : as :func:`image_direction`.

    Examples
    --------
    >>> direction = kernel_direction([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    >>> bool(direction.project([[0.9, 0.1]])[0] > direction.project([[0.1, 0.9]])[0])
    True
    """
    rows, present = _labelled(embeddings, labels)
    width = _median_gamma(rows) if gamma is None else float(gamma)
    if not 0 < width < math.inf:
        raise InvalidInput(f"gamma must be positive; got {gamma}.")
    centred = present - present.mean()  # H y, (m,)
    coefficients = unit_vector(_rbf(rows, rows, width) @ centred, "kernel direction")
    return KernelDirection(coefficients=np.asarray(coefficients, dtype=np.float64), support=rows, gamma=width)


def _difference(towards: Floats, away: Floats, equal: str) -> Array:
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
    from sklearn.metrics.pairwise import rbf_kernel

    return np.asarray(rbf_kernel(x, z, gamma=gamma), dtype=np.float64)


def _median_gamma(rows: Floats) -> float:
    from scipy.spatial.distance import pdist

    if (median := float(np.median(pdist(rows, "sqeuclidean")))) <= _ROUNDING**2:
        raise InvalidInput("gamma cannot be chosen: more than half of the images have the same embedding.")
    return 1 / median
