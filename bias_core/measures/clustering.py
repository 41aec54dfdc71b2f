"""Spectral clusters of image embeddings, and a flat map of them: stereotypes show as groups."""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import decompose
from bias_core.measures.arrays import Array, all_equal, unit_rows

MAX_CLUSTERS = 8  # Most clusters that the eigengap may choose
_NEIGHBOURS, _FEWEST = 10, 3  # neighbours of an image, and of one among very few
_DENSE = 100  # below it all eigenvalues at once are as quick
_BLOCK = 500  # images compared with all others in one go
_DIGITS = 6  # of squared distances and gaps: single precision errs in the seventh
_STARTS, _STEPS = 20, 20  # of k-means


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
    """Group images by the graph of their nearest neighbours.

    L = I - D^(-1/2) W D^(-1/2),  W = (A + Aᵀ) / 2   [vonluxburg2007, 2.2 and 3.2]
    A_ij = exp(-|x_i - x_j|² / (s_i s_j)) for the 10 images x_j nearest to x_i, else 0   [zelnikmanor2004]

    OASIS clusters CLIP features before it looks for attributes, and names no graph [dehdashtian2025oasis, 3.3].

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
    s_i is the distance to the last of the nearest images. Of fewer than 21 images half of the others are neighbours,
    but at least 3. With weights for all pairs, as Zelnik-Manor and Perona have them, groups vanish in many dimensions,
    where all distances are alike: of five separate groups in 512 dimensions one is found. The graph of neighbours can
    split images that vary along few dimensions, so look at the gap between the eigenvalues.

    Of equal gaps the last counts, so that more than eight separate groups are eight clusters. One image, or images with
    equal embeddings, are one cluster whatever was asked for, and ``note`` says so; with two images and no number given
    there is one gap only, so they are one cluster.

    Examples
    --------
    >>> east, north = [[1.0, 0.01], [1.0, 0.02], [1.0, 0.03]], [[0.01, 1.0], [0.02, 1.0]]
    >>> result = spectral_clusters(east + north)
    >>> result.labels, result.n_clusters
    (array([0, 0, 0, 1, 1]), 2)
    """
    rows = unit_rows(image_embeddings, "image_embeddings").astype(np.float64)
    rows = np.asarray(unit_rows(rows), dtype=np.float64)  # unit to the last digit
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
    n_distinct = len(np.unique(rows.round(6), axis=0))
    with threadpool_limits(limits=1):  # small problems: threads only get in the way
        eigenvalues, vectors = _spectrum(_affinity(rows), max(MAX_CLUSTERS, n_clusters or 0) + 2, seed)
        k = min(n_clusters or _largest_gap(eigenvalues[: MAX_CLUSTERS + 1]), n_distinct)
        labels = _number_by_size(_k_means(vectors[:, :k], seed))
        coordinates = _principal_plane(rows)
    count = int(labels.max()) + 1
    return ClusterResult(
        labels=labels,
        coordinates=coordinates,
        eigenvalues=eigenvalues[: MAX_CLUSTERS + 2],
        n_clusters=count,
        note="" if count == (n_clusters or k) else f"{n_clusters or k} clusters asked for, {count} found",
    )


def _largest_gap(eigenvalues: Array) -> int:
    """Number of eigenvalues below the largest gap; of gaps that are equal up to rounding, the last."""
    gaps = np.diff(eigenvalues).round(_DIGITS)
    return len(gaps) - int(gaps[::-1].argmax())


def _affinity(rows: Array) -> "scipy.sparse.csr_array":
    """W of unit rows, without self-loops; distances are taken in blocks, and memory grows with n."""
    n, single = len(rows), rows.astype(np.float32)
    k = min(_NEIGHBOURS, n - 1, max(_FEWEST, (n - 1) // 2))
    nearest, squares = np.empty((n, k), dtype=np.int32), np.empty((n, k))
    for start in range(0, n, _BLOCK):
        block = np.maximum(2 - 2 * single[start : start + _BLOCK] @ single.T, 0).round(_DIGITS)
        np.fill_diagonal(block[:, start:], np.inf)
        farthest = np.partition(block, k - 1, axis=1)[:, k - 1]
        for i, row in enumerate(block):
            near = np.flatnonzero(row <= farthest[i])
            near = near[np.argsort(row[near], kind="stable")[:k]]  # the first of copies, which so stay together
            nearest[start + i], squares[start + i] = near, row[near]
    scales = np.sqrt(squares[:, -1])
    scales = np.maximum(scales, 1e-2 * scales.max() or 1.0)  # zero for an image with many copies
    weights = np.exp(-squares / (scales[:, np.newaxis] * scales[nearest]))
    graph = scipy.sparse.csr_array((weights.ravel(), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return (graph + graph.T) / 2


def _spectrum(affinity: "scipy.sparse.csr_array", k: int, seed: int) -> tuple[Array, Array]:
    """Smallest eigenvalues of W's normalised Laplacian and their vectors, ``(k,)`` and ``(n, k)``."""
    n = affinity.shape[0]
    roots = scipy.sparse.diags_array(1 / np.sqrt(affinity.sum(axis=1)))
    walk = (roots @ affinity @ roots).tocsr()
    if n <= max(_DENSE, 5 * k):
        values, vectors = np.linalg.eigh(walk.toarray())
    else:  # by blocks: one vector at a time misses repeated eigenvalues, one for each part of a graph in parts
        start = np.random.default_rng(seed).normal(size=(n, k))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # past the gap four digits are not reached at once
            values, vectors = scipy.sparse.linalg.lobpcg(walk, start, largest=True, tol=1e-4, maxiter=60)
    order = np.argsort(-values)[:k]
    return np.maximum(1 - values[order], 0), vectors[:, order]


def _k_means(vectors: Array, seed: int) -> NDArray[np.int_]:
    """k-means on the rows of the eigenvectors, each scaled to length 1 [ng2001]; the best of several starts."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    rng, best, smallest_spread = np.random.default_rng(seed), np.zeros(len(rows), dtype=np.int_), np.inf
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):  # fewer groups than asked: the note says it
        warnings.simplefilter("ignore", UserWarning)
        for _ in range(_STARTS):
            centres, labels = scipy.cluster.vq.kmeans2(rows, rows.shape[1], iter=_STEPS, minit="++", rng=rng)
            if (spread := float(((rows - centres[labels]) ** 2).sum())) < smallest_spread:
                best, smallest_spread = labels.astype(np.int_), spread
    return best


def _number_by_size(labels: NDArray[np.int_]) -> NDArray[np.int_]:
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
