"""Singular values of large image sets from their second moments, in a memory that does not grow with them.

Behind WALS [dehdashtian2025oasis, Eq. 7] for sets of more than :data:`LARGE` images.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array
from bias_core.stats.effects import Seed

LARGE = 10_000  # Images beyond which a set is not decomposed row by row
_CHUNK = 4096  # rows held in double precision at once


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over the images of each of g groups: how many, of the rows, of their outer products.

    Shapes ``(g,)``, ``(g, d)``, ``(g, d, d)``.
    """

    counts: NDArray[np.int_]
    sums: Array
    grams: Array

    def spectrum(self, *, without: int | None = None, centred: bool = True) -> "Spectrum":
        """Singular values and vectors of all groups together, or of all but one."""
        counts, sums, grams = (values.sum(axis=0) for values in (self.counts, self.sums, self.grams))
        if without is not None:
            counts, sums = counts - self.counts[without], sums - self.sums[without]
            grams = grams - self.grams[without]
        if centred:
            grams = grams - np.outer(sums, sums) / counts
        squares, vectors = np.linalg.eigh(grams)  # ascending
        return Spectrum(singular_values=np.sqrt(np.maximum(squares[::-1], 0.0)), components=vectors.T[::-1].copy())


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Singular values ``(d,)``, descending, and their right singular vectors ``(d, d)``, one a row."""

    singular_values: Array
    components: Array


def group_moments(rows: NDArray[np.floating], n_groups: int, *, rng: np.random.Generator | None = None) -> Moments:
    """Moments of ``n_groups`` groups of nearly equal size, drawn at random where ``rng`` is given.

    Parameters
    ----------
    rows : array (n, d), any precision; read in parts and left as it is.
    n_groups : from 1 to n.

    Raises
    ------
    InvalidInput : for an impossible number of groups.

    Examples
    --------
    >>> moments = group_moments(np.array([[3.0, 0.0], [0.0, 1.0]]), 1)
    >>> moments.spectrum(centred=False).singular_values
    array([3., 1.])
    """
    n, d = rows.shape
    if not 1 <= n_groups <= n:
        raise InvalidInput(f"n_groups must be from 1 to the {n} images; got {n_groups}.")
    groups = np.arange(n) % n_groups
    if rng is not None:
        rng.shuffle(groups)
    sums, grams = np.zeros((n_groups, d)), np.zeros((n_groups, d, d))
    for start in range(0, n, _CHUNK):
        part = np.asarray(rows[start : start + _CHUNK], dtype=np.float64)
        labels = groups[start : start + _CHUNK]
        for group in np.unique(labels):
            mine = part[labels == group]
            sums[group] += mine.sum(axis=0)
            grams[group] += mine.T @ mine
    return Moments(counts=np.bincount(groups, minlength=n_groups), sums=sums, grams=grams)


def n_for_energy(squares: Array, energy: float) -> int:
    """Fewest leading entries of ``squares (r,)`` that reach a share of their sum.

    Raises
    ------
    InvalidInput : where there is no energy at all.

    Examples
    --------
    >>> n_for_energy(np.array([6.0, 3.0, 1.0]), 0.9)
    2
    """
    if not squares.sum() > 0:
        raise InvalidInput(f"Images that do not vary have no components; got the squares {squares[:5]}.")
    shares = np.cumsum(squares) / squares.sum()
    return 1 + int(np.count_nonzero(shares < energy - 1e-12))


def jackknife_errors(
    rows: NDArray[np.floating],
    directions: Array,
    n_components: Callable[[Array], int],
    *,
    n_groups: int = 25,
    rng: Seed = 0,
) -> Array:
    """Standard error of WALS of each direction, leaving out one random group of images at a time.

    Parameters
    ----------
    rows : unit embeddings (n, d).
    directions : unit rows (n_attributes, d).
    n_components : how many components to take, from the squared singular values (d,).
    n_groups : groups of images.
    rng : seed or Generator, of the groups.

    Returns
    -------
    array (n_attributes,) : sqrt((g - 1) / g * sum over groups of the squared deviations).

    Raises
    ------
    InvalidInput : for fewer images than groups, and images that do not vary.

    Examples
    --------
    >>> rows = np.eye(3)[np.arange(60) % 3]
    >>> jackknife_errors(rows, np.eye(3)[:1], lambda squares: 2, n_groups=20).shape
    (1,)
    """
    moments = group_moments(rows, n_groups, rng=np.random.default_rng(rng))
    scores = np.empty((n_groups, len(directions)))
    for group in range(n_groups):
        spectrum = moments.spectrum(without=group)
        k = n_components(spectrum.singular_values**2)
        sigma = spectrum.singular_values[:k]
        scores[group] = np.abs(directions @ spectrum.components[:k].T) @ sigma / sigma.sum()
    return np.asarray(np.sqrt((n_groups - 1) * scores.var(axis=0)))
