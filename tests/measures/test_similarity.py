"""Mean cosine to a text or a set: by hand, against all pairs, and refused where it cannot be."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import similarity_estimate


def test_a_mean_by_hand():
    # (0.6 + 0.8 + 0.1) / 3 = 0.5
    assert similarity_estimate([0.6, 0.8, 0.1]).value == pytest.approx(0.5)


def test_the_mean_over_a_set_is_the_mean_over_all_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 7)), rng.normal(size=(5, 7))
    x, y = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))
    pairs = [float(a @ b) for a in x for b in y]
    assert similarity_estimate(x @ y.mean(axis=0)).value == pytest.approx(np.mean(pairs))


def test_the_interval_covers_the_mean_of_the_population():
    rng = np.random.default_rng(1)
    hits = 0
    for seed in range(200):
        found = similarity_estimate(rng.uniform(-0.2, 0.6, size=29), rng=seed)
        hits += found.low <= 0.2 <= found.high
    assert 176 <= hits <= 199  # 0.95 of 200, four standard errors below


def test_rounding_is_forgiven_and_one_image_has_no_interval():
    assert similarity_estimate([1 + 1e-8]).value == 1.0
    one = similarity_estimate([0.25])
    assert math.isnan(one.low)
    assert "one" in one.note


@pytest.mark.parametrize("bad", [[], [0.1, math.nan], [1.1], [-1.2, 0.0], [[0.1, 0.2]]])
def test_what_is_no_cosine_is_refused(bad):
    with pytest.raises(InvalidInput):
        similarity_estimate(bad)
