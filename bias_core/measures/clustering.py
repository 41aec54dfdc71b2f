"""Spectral clusters of image embeddings, and a flat map of them: stereotypes show as groups."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import decompose
from bias_core.measures.arrays import Array, all_equal, unit_rows

MAX_CLUSTERS = 8  # Most clusters that the eigengap may choose
_NEIGHBOUR = 7  # the distance to this neighbour is the local scale of an image [zelnikmanor2004]
_DENSE = 100  # below it all eigenvalues at once are as quick
_BLOCK = 2000  # images by images looked at in one go; a graph of more images is in single precision


@dataclass(frozen=True, kw_only=True)
class ClusterResult:
    """Result of :func:`spectral_clusters`."""

    labels: NDArray[np.int_]  # cluster of each image, `(n,)`, counted from 0 by size, largest first
    coordinates: Array  # first two principal components, `(n, 2)`, in units of cosine; zeros where undefined
    # smallest of the normalised Laplacian, ascending, in [0, 2], `(min(n, 10),)`; as many are near 0 as there are clear
    # clusters
    eigenvalues: Array
    n_clusters: int  # number of labels
    note: str = ""  # omissions, such as the reason for a single cluster; "" otherwise


def spectral_clusters(image_embeddings: ArrayLike, *, n_clusters: int | None = None, seed: int = 0) -> ClusterResult:
    """Group images by the graph of their similarities.

    L = I - D^(-1/2) W D^(-1/2),  W_ij = exp(-|x_i - x_j|² / (s_i s_j))   [vonluxburg2007, zelnikmanor2004]

    OASIS clusters CLIP features this way before it looks for attributes [dehdashtian2025oasis, 3.3].

    Parameters
    ----------
    image_embeddings : array (n, d)
    n_clusters : int in [1, n] or None. None: the k <= 8 with the largest gap between the k-th and the next eigenvalue.
    seed : int. Of k-means on the eigenvectors.

    Returns
    -------
    ClusterResult : a map to look at, not a test: other seeds and scales can give other groups.

    Raises
    ------
    InvalidInput : for malformed embeddings, or an impossible number of clusters.

    Notes
    -----
    s_i is the distance to the 7th neighbour (the middle one where there are fewer images). One image, or images with
    equal embeddings, are one cluster whatever was asked for, and ``note`` says so; with two images and no number given
    there is one gap only, so they are one cluster.

    Examples
    --------
    >>> east, north = [[1.0, 0.01], [1.0, 0.02], [1.0, 0.03]], [[0.01, 1.0], [0.02, 1.0]]
    >>> result = spectral_clusters(east + north)
    >>> result.labels, result.n_clusters
    (array([0, 0, 0, 1, 1]), 2)
    """
    single = unit_rows(image_embeddings, "image_embeddings")
    rows = np.asarray(unit_rows(single.astype(np.float64)), dtype=np.float64)  # unit to the last digit
    n = len(rows)
    if n_clusters is not None and not 1 <= n_clusters <= n:
        raise InvalidInput(f"n_clusters must be from 1 to the number of images, {n}; got {n_clusters}.")
    if n == 1 or all_equal(rows):
        return ClusterResult(  # W is all ones, so L has the eigenvalues 0, 1, 1, ...
            labels=np.zeros(n, dtype=np.int_),
            coordinates=np.zeros((n, 2)),
            eigenvalues=np.minimum(np.arange(min(n, MAX_CLUSTERS + 2), dtype=np.float64), 1.0),
            n_clusters=1,
            note="one image has no clusters" if n == 1 else "all images have the same embedding",
        )
    affinity = _affinity(rows)
    n_distinct = len(np.unique(rows.round(6), axis=0))
    with threadpool_limits(limits=1):  # small problems: threads only get in the way
        eigenvalues, vectors = _spectrum(affinity, max(MAX_CLUSTERS, n_clusters or 0) + 2, seed)
        k = min(n_clusters or int(np.diff(eigenvalues[: MAX_CLUSTERS + 1]).argmax()) + 1, n_distinct)
        labels = _by_size(_k_means(vectors[:, :k], seed))
        coordinates = _principal_plane(rows)
    count = int(labels.max()) + 1
    return ClusterResult(
        labels=labels,
        coordinates=coordinates,
        eigenvalues=eigenvalues[: MAX_CLUSTERS + 2],
        n_clusters=count,
        note="" if count == (n_clusters or k) else f"{n_clusters or k} clusters asked for, {count} found",
    )


def _affinity(rows: Array) -> Array:
    """W of unit rows, with local scales and no self-loops, in place: for 10,000 images one array has 400 MB."""
    n, largest = len(rows), 0.0
    affinity = np.empty((n, n), dtype=np.float64 if n <= _BLOCK else np.float32)  # first the squared distances
    parts = [slice(start, start + _BLOCK) for start in range(0, n, _BLOCK)]
    for i, part in enumerate(parts):
        for other in parts[: i + 1]:
            squares = np.maximum(2 - 2 * rows[part] @ rows[other].T, 0)
            affinity[other, part], affinity[part, other] = squares.T, squares
            largest = max(largest, float(squares.max()))
    neighbour = max(1, min(_NEIGHBOUR, (n - 1) // 2))
    scales = np.empty(n)
    for part in parts:
        scales[part] = np.sqrt(np.partition(affinity[part], neighbour, axis=1)[:, neighbour])
    scales = np.maximum(scales, 1e-2 * np.sqrt(largest))  # more than seven copies of one image
    for row, scale in zip(affinity, scales, strict=True):
        np.exp(np.divide(row, -scale * scales, out=row), out=row)
    np.fill_diagonal(affinity, 0)
    return affinity


def _spectrum(walk: Array, k: int, seed: int) -> tuple[Array, Array]:
    """Smallest eigenvalues of W's normalised Laplacian and their vectors, ``(k,)`` and ``(n, k)``; overwrites W."""
    n = len(walk)
    degrees = np.maximum(walk.sum(axis=1, dtype=np.float64), np.finfo(walk.dtype).tiny)  # an image far from all others
    roots = np.sqrt(degrees).astype(walk.dtype)
    walk /= roots[:, np.newaxis]
    walk /= roots
    if n <= max(_DENSE, 5 * k):
        values, vectors = np.linalg.eigh(walk)
    else:  # by blocks: one vector at a time misses repeated eigenvalues
        start = np.random.default_rng(seed).normal(size=(n, k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # past the gap four digits are not reached at once
            step = partial(_step, walk)
            values, vectors = scipy.sparse.linalg.lobpcg(step, start, largest=True, tol=1e-4, maxiter=60)
    order = np.argsort(-values)[:k]
    return np.maximum(1 - values[order], 0), vectors[:, order]


def _step(walk: Array, vectors: Array) -> Array:
    return walk @ vectors.astype(walk.dtype, copy=False)  # mixed types would copy W for each product


def _k_means(vectors: Array, seed: int) -> NDArray[np.int_]:
    """k-means on the rows of the eigenvectors, each scaled to length 1 [ng2001]."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer groups than asked: the note says it
        labels = KMeans(n_clusters=vectors.shape[1], n_init=10, random_state=seed).fit_predict(rows)
    return np.asarray(labels, dtype=np.int_)


def _by_size(labels: NDArray[np.int_]) -> NDArray[np.int_]:
    """Labels counted from 0 by size; of equal ones the cluster of the earliest image comes first."""
    values, first, index, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    ranks = np.empty(len(values), dtype=np.int_)
    ranks[np.lexsort((first, -counts))] = np.arange(len(values))
    return ranks[index]


def _principal_plane(rows: Array) -> Array:
    """Coordinates on the first two principal components, with zeros for a missing second one."""
    plane = decompose(rows).components[:2]
    coordinates = np.zeros((len(rows), 2))
    coordinates[:, : len(plane)] = (rows - rows.mean(axis=0)) @ plane.T
    return coordinates
