"""The chance in a dot product of two means, against many draws of both."""

import numpy as np
import pytest

from bias_core.stats.mean_noise import pair_noise, product_noise

N_X, N_Y, D = 5, 7, 3
MIX = np.array([[1.0, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 0.2]])


def samples(rng, n):
    """Rows that are skewed and lie far from 0, (draws, n, D)."""
    return 3 + rng.exponential(size=(4000, n, D)) @ MIX


def test_the_noise_of_a_product_is_what_many_draws_show():
    rng = np.random.default_rng(0)
    x, y = samples(rng, N_X), samples(rng, N_Y)
    seen = ((x.mean(axis=1) - x.mean(axis=(0, 1))) * (y.mean(axis=1) - y.mean(axis=(0, 1)))).sum(axis=1).var()
    told = np.mean([product_noise(a, b) for a, b in zip(x[:800], y[:800], strict=True)])
    covariance = MIX.T @ MIX
    assert np.trace(covariance @ covariance) / (N_X * N_Y) == pytest.approx(told, rel=0.1)
    assert seen == pytest.approx(told, rel=0.15)


def test_the_noise_of_pairs_is_what_many_draws_show_whatever_the_distribution():
    rows = samples(np.random.default_rng(1), N_X)
    apart = rows - rows.mean(axis=(0, 1))
    sums = apart.sum(axis=1)
    of_pairs = ((sums**2).sum(axis=1) - (apart**2).sum(axis=(1, 2))) / (N_X * (N_X - 1))
    told = np.mean([pair_noise(one) for one in rows])
    assert of_pairs.var() == pytest.approx(told, rel=0.15)


def test_three_rows_do_not_tell_the_noise_of_pairs():
    assert pair_noise(np.eye(3)) == 0


def test_many_rows_give_the_same_as_few_by_either_way_of_adding_up():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(N_X, D)), rng.normal(size=(N_Y, D))
    wide = np.eye(D, 41)  # the same rows in 41 dimensions, where products of rows are the smaller arrays
    assert product_noise(x, y) == pytest.approx(product_noise(x @ wide, y @ wide))
    assert pair_noise(x) == pytest.approx(pair_noise(x @ wide))
