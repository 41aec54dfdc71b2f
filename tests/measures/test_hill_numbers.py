"""Hill numbers at equal coverage: by hand, by averages over all subsets, and against more and more of one object."""

import itertools
import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.object_comparison import hill_number, sample_coverage, variety_change
from tests.measures.test_object_odds import RARE, pictures


def presence(n, shares, rng):
    return rng.random((n, len(shares))) < shares


def test_coverage_by_hand():
    # Q₁ = 1, Q₂ = 1, U = 6, n = 4: 1 − 1/6 · 3 / (3 + 2).
    assert sample_coverage(np.array([3.0, 2.0, 1.0]), 4, 4) == pytest.approx(1 - 1 / 6 * 3 / 5)
    # Nothing was seen once: all was seen.
    assert sample_coverage(np.array([2.0, 3.0]), 3, 3) == 1
    # No object in two pictures, Q₁ = 3, n = 4, U = 6: 1 − 3/6 · 3 · 2 / (3 · 2 + 2).
    assert sample_coverage(np.array([3.0, 1.0, 1.0, 1.0]), 4, 4) == pytest.approx(1 - 0.5 * 6 / 8)


def test_coverage_of_fewer_pictures_is_the_mean_over_their_subsets():
    shown = presence(7, [0.7, 0.5, 0.3, 0.2, 0.1], np.random.default_rng(0))
    counts = shown.sum(axis=0).astype(float)
    for m in (2, 5):
        # A sighting in another picture is of an object that m of the other pictures show.
        hits = [
            shown[list(chosen)][:, shown[other]].any(axis=0)
            for other in range(7)
            for chosen in itertools.combinations([i for i in range(7) if i != other], m)
        ]
        assert sample_coverage(counts[counts > 0], 7, m) == pytest.approx(np.concatenate(hits).mean())


def test_richness_of_fewer_pictures_is_the_mean_over_their_subsets():
    shown = presence(8, [0.7, 0.5, 0.3, 0.2, 0.1], np.random.default_rng(1))
    counts = shown.sum(axis=0)
    counts = counts[counts > 0].astype(float)
    for m in (3, 6):
        expected = np.mean([shown[list(c)].any(axis=0).sum() for c in itertools.combinations(range(8), m)])
        coverage = sample_coverage(counts, 8, m)
        assert hill_number(counts, 8, coverage=coverage, order=0) == pytest.approx(expected)


def test_with_all_pictures_it_is_the_plug_in_number():
    counts = np.array([13.0, 7.0, 5.0, 3.0, 2.0])
    p = counts / counts.sum()
    for order, expected in ((0, 5), (1, math.exp(-(p * np.log(p)).sum())), (2, 1 / (p**2).sum())):
        assert hill_number(counts, 17, order=order) == pytest.approx(expected)


def test_a_larger_sample_of_the_same_scenes_is_no_more_varied_at_equal_coverage():
    rng = np.random.default_rng(2)
    plain, equal = [], []
    for _ in range(30):
        few, many = pictures(RARE, 40, rng), pictures(RARE, 160, rng)
        change = variety_change(few, many, paired=False, order=0)
        equal.append(change.log_ratio.value)
        plain.append(math.log(len({w for i in few for w in i}) / len({w for i in many for w in i})))
    assert abs(np.mean(equal)) < 0.03
    assert np.mean(plain) < -0.03


@pytest.mark.slow
def test_the_interval_holds_no_change_and_falls_with_one_object_that_takes_over():
    rng, n_held = np.random.default_rng(3), 0
    for _ in range(40):
        change = variety_change(pictures(RARE, 37, rng), pictures(RARE, 37, rng)).log_ratio
        n_held += change.low <= 0 <= change.high
    assert n_held >= 35  # of 40: fewer would be rarer than 2 in 100 at 95 %
    base = pictures(RARE, 61, rng)
    values = [
        variety_change([["w0"] if i < n else words for i, words in enumerate(base)], base).log_ratio.value
        for n in (10, 30, 50)
    ]
    assert 0 > values[0] > values[1] > values[2]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InvalidInput, match="show no object"):
        variety_change([[], []], [["cup"], ["dog"]])
    with pytest.raises(InvalidInput, match="order is 0, 1 or 2"):
        hill_number(np.array([2.0, 2.0]), 2, order=3)
    with pytest.raises(InvalidInput, match="n_drawn"):
        sample_coverage(np.array([2.0]), 2, 3)
    assert math.isnan(variety_change([["cup"]], [["cup"]]).log_ratio.low)
