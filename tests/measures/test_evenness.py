"""B_D and its bounded companions against hand arithmetic, loops and the trapezoid rule of scipy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from bias_core.errors import InvalidInput
from bias_core.measures.object_distribution import (
    FORMULAS,
    distribution_bias,
    effective_number,
    gini,
    normalised_entropy,
    positive_counts,
)

MEASURES = (distribution_bias, normalised_entropy, gini, effective_number)
different_counts = st.lists(st.integers(1, 500), min_size=2, max_size=60).filter(lambda c: len(set(c)) > 1)


def loop_distribution_bias(counts):
    """Eq. 2 and Eq. 3 word by word."""
    counts = sorted(counts)
    normalised = [(n - min(counts)) / (max(counts) - min(counts)) for n in counts]
    return sum((a + b) / 2 for a, b in itertools.pairwise(normalised))


def test_distribution_bias_by_hand():
    # Sorted 1, 5, 10 -> (0, 4/9, 1); trapezia (0 + 4/9)/2 + (4/9 + 1)/2 = 2/9 + 13/18 = 17/18.
    assert distribution_bias([10, 5, 1]) == pytest.approx(17 / 18, abs=1e-12)
    # Two objects: one trapezium from 0 to 1.
    assert distribution_bias([3, 8]) == pytest.approx(0.5)


@settings(max_examples=50, deadline=None)
@given(different_counts)
def test_distribution_bias_is_the_area_that_loops_and_scipy_find(counts):
    value = distribution_bias(counts)
    assert value == pytest.approx(loop_distribution_bias(counts), rel=1e-9)
    low, high = min(counts), max(counts)
    curve = (np.sort(counts) - low) / (high - low)
    assert value == pytest.approx(integrate.trapezoid(curve), rel=1e-9)


def test_a_towering_object_lowers_distribution_bias():
    flat, skewed = [9, 8, 7, 6, 5], [90, 8, 7, 6, 5]
    assert distribution_bias(skewed) < distribution_bias(flat)
    assert normalised_entropy(skewed) < normalised_entropy(flat)
    assert gini(skewed) > gini(flat)
    assert effective_number(skewed) < effective_number(flat)


def test_normalised_entropy_by_hand_and_by_scipy():
    # Shares 1/2, 1/4, 1/4: entropy 1/2 ln 2 + 1/2 ln 4 = 1.5 ln 2; the largest of three is ln 3.
    assert normalised_entropy([2, 1, 1]) == pytest.approx(1.5 * math.log(2) / math.log(3))
    counts = [13, 7, 5, 3, 2]
    assert normalised_entropy(counts) == pytest.approx(stats.entropy(counts) / math.log(5))
    assert effective_number(counts) == pytest.approx(math.exp(stats.entropy(counts)))


@settings(max_examples=50, deadline=None)
@given(different_counts)
def test_gini_is_half_the_mean_absolute_difference_over_the_mean(counts):
    k = len(counts)
    expected = sum(abs(a - b) for a in counts for b in counts) / (2 * k * k * (sum(counts) / k))
    assert gini(counts) == pytest.approx(expected, abs=1e-12)
    assert 0 <= gini(counts) <= 1 - 1 / k


def test_an_even_distribution_has_the_null_values():
    assert normalised_entropy([4, 4, 4]) == pytest.approx(1, abs=1e-12)
    assert gini([4, 4, 4]) == 0
    assert effective_number([4, 4, 4]) == pytest.approx(3)


def test_equal_counts_have_no_distribution_bias_and_are_quoted():
    with pytest.raises(InvalidInput, match="all 3 objects have 4"):
        distribution_bias([4, 4, 4])
    with pytest.raises(InvalidInput, match="all 1 objects have 7"):
        distribution_bias([7])


@pytest.mark.parametrize("measure", [normalised_entropy, gini])
def test_one_object_has_no_evenness(measure):
    with pytest.raises(InvalidInput, match="at least 2"):
        measure([7, 0])


@pytest.mark.parametrize("measure", MEASURES)
def test_objects_that_never_appear_change_nothing(measure):
    assert measure([0, 3, 0, 1, 2]) == measure([3, 1, 2])
    assert list(positive_counts([0, 2])) == [2]


def test_the_formulas_of_many_counts_are_those_of_each():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(13, 7)).astype(float)
    for measure in MEASURES:
        np.testing.assert_allclose(FORMULAS[measure.__name__](counts), [measure(row) for row in counts], atol=1e-12)


def test_undefined_rows_are_nan_and_never_0():
    rows = np.array([[2.0, 2.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isnan(FORMULAS["distribution_bias"](rows)).all()
    assert np.isnan(FORMULAS["normalised_entropy"](rows)).tolist() == [False, True, True]
    assert np.isnan(FORMULAS["gini"](rows)).tolist() == [False, False, True]
    assert np.isnan(FORMULAS["effective_number"](rows)).tolist() == [False, False, True]
