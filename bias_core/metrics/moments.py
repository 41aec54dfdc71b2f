"""Singular values of large image sets from their second moments, in a memory that does not grow with them.

Behind WALS [dehdashtian2025oasis, Eq. 7] for sets of more than :data:`LARGE` images.
"""

import numpy as np
from numpy.typing import NDArray

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array

LARGE = 10_000  # Images beyond which a set is not decomposed row by row
_CHUNK = 4096  # rows held in double precision at once


def large_spectrum(rows: NDArray[np.floating], *, centred: bool = True) -> tuple[Array, Array]:
    """Singular values ``(d,)``, descending, and their right singular vectors ``(d, d)``, one a row.

    Parameters
    ----------
    rows : array (n, d), any precision; read in parts and left as it is.
    centred : bool. Take the mean row off first.

    Raises
    ------
    ValueError : for anything but a matrix; the door of :mod:`bias_core.metrics.alignment` refuses it before.

    Examples
    --------
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
