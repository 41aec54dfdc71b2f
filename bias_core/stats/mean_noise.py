"""How much the chance in two estimated means adds to their dot product: to leans, which are such products.

The mean x̄ of embeddings misses its expectation by a random vector. Where the other factor is estimated too, the
variance that one sees along it holds the chance of both; added up over the factors, the part that they share is counted
twice.
"""

import numpy as np

from bias_core.stats.arrays import Array, Floats

FEWEST_FOR_PAIRS = 4  # rows that the estimate without bias needs


def product_noise(x: Floats, y: Floats) -> float:
    """Variance of (x̄ − E x̄)·(ȳ − E ȳ), of independent samples: tr(Σ_x Σ_y) / (n_x n_y), without bias.

    Parameters
    ----------
    x, y : arrays (n_x, d), (n_y, d), two rows or more of each.

    >>> product_noise(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 1.0]]))  # 2 · 2 / (2 · 2)
    1.0
    """
    n_x, n_y = len(x), len(y)
    return _sum_of_squares(_centred(x), _centred(y)) / ((n_x - 1) * n_x * (n_y - 1) * n_y)


def pair_noise(x: Floats) -> float:
    """Variance that the mean of (x_i − E x)·(x_j − E x) over all pairs has: 2 tr(Σ²) / (n (n − 1)).

    tr(Σ²) is estimated without bias, whatever the distribution [himeno2014]; from less than four rows it cannot be
    told, and the answer is 0.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 5, 3))  # Σ = I: 2 · 3 / (5 · 4)
    >>> round(float(np.mean([pair_noise(one) for one in rows])), 1)
    0.3
    """
    n = len(x)
    if n < FEWEST_FOR_PAIRS:
        return 0.0
    rows = _centred(x)
    lengths = (rows**2).sum(axis=1)
    of_squares, total = _sum_of_squares(rows, rows) / (n - 1) ** 2, float(lengths.sum()) / (n - 1)
    fourth = float((lengths**2).sum()) / (n - 1)
    scale = (n - 1) / (n * (n - 2) * (n - 3))
    trace = scale * ((n - 1) * (n - 2) * of_squares + total**2 - n * fourth)
    return 2 * max(0.0, trace) / (n * (n - 1))


def _sum_of_squares(x: Array, y: Array) -> float:
    """Of all products of a row of x with one of y: tr(x'x y'y), by the smaller arrays."""
    if len(x) * len(y) <= x.shape[1] ** 2:
        return float(((x @ y.T) ** 2).sum())
    return float(((x.T @ x) * (y.T @ y)).sum())


def _centred(rows: Floats) -> Array:
    return np.asarray(rows - rows.mean(axis=0, dtype=np.float64), dtype=np.float64)
