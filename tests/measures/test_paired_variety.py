"""Differences of variety on the same seeds: arithmetic, a naive loop, calibration."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import variance_share
from bias_core.measures.paired_prevalence import (
    picture_change_estimate,
    variance_share_difference,
    variety_difference_tests,
)

D = 7


def images(rng, n, scale=1.0, shift=0.0):
    """n unit rows around one direction, that vary ``scale`` along axis 1 and 0.3 elsewhere."""
    rows = rng.normal(size=(n, D)) * 0.3
    rows[:, 1] = shift + rng.normal(size=n) * 0.3 * scale
    rows[:, 0] += 3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


AXIS = np.eye(D)[1]


def test_the_difference_is_second_minus_first():
    # all the variety lies along axis 2, then along axis 3
    flat, tall = [[1, 0.1, 0], [1, -0.1, 0]], [[1, 0, 0.1], [1, 0, -0.1]]
    assert variance_share_difference(flat, tall, [0, 0, 2]) == pytest.approx(1)
    # half of it: deviations ±0.1 along each
    both = [[1, 0.1, 0], [1, -0.1, 0], [1, 0, 0.1], [1, 0, -0.1]]
    assert variance_share_difference(flat * 2, both, [0, 1, 0]) == pytest.approx(-0.5)


def test_more_variety_along_an_attribute_is_found():
    rng = np.random.default_rng(1)
    along, across = variety_difference_tests(images(rng, 61), images(rng, 61, scale=10), [AXIS, np.eye(D)[2]])
    assert along.p_value < 0.01
    assert along.estimate.low > 0
    assert along.estimate.n == 61
    assert across.estimate.value < 0  # less of the whole then lies elsewhere


@pytest.mark.slow
def test_the_interval_covers_the_difference_of_many_pictures():
    rng = np.random.default_rng(9)
    truth = variance_share_difference(images(rng, 100_000), images(rng, 100_000, scale=2), AXIS)
    assert truth > 0.2
    tests = [
        variety_difference_tests(images(rng, 23), images(rng, 23, scale=2), [AXIS], n_resamples=2, rng=i)[0]
        for i in range(400)
    ]
    # 95 % of 400, give or take two standard errors of 1.1 points
    assert 0.92 <= np.mean([one.estimate.low <= truth <= one.estimate.high for one in tests]) <= 0.98


def test_equal_sets_are_called_different_in_five_percent():
    rng = np.random.default_rng(2)
    tests = [
        variety_difference_tests(images(rng, 23), images(rng, 23), [AXIS], n_resamples=99, rng=i)[0] for i in range(200)
    ]
    p_values = np.array([one.p_value for one in tests])
    assert np.mean(p_values <= 0.05) < 0.085  # 5 % and twice its standard error
    assert 0.4 < p_values.mean() < 0.6


def test_the_jackknife_is_a_naive_loop():
    rng = np.random.default_rng(7)
    first, second = images(rng, 13), images(rng, 13, scale=2)
    (found,) = variety_difference_tests(first, second, [AXIS], n_resamples=2)
    without_each = np.array(
        [
            variance_share(np.delete(second, i, axis=0), AXIS).value
            - variance_share(np.delete(first, i, axis=0), AXIS).value
            for i in range(13)
        ]
    )
    reach = stats.t.ppf(0.975, 12) * math.sqrt(12 / 13 * ((without_each - without_each.mean()) ** 2).sum())
    value = variance_share_difference(first, second, AXIS)
    assert (found.estimate.value, found.estimate.high) == pytest.approx((value, value + reach))


def test_swapping_the_sets_turns_the_signs():
    rng = np.random.default_rng(3)
    first, second = images(rng, 17), images(rng, 17, scale=2)
    there, back = (variety_difference_tests(*sets, [AXIS]) for sets in ((first, second), (second, first)))
    assert there[0].estimate.value == pytest.approx(-back[0].estimate.value)
    assert there[0].estimate.low == pytest.approx(-back[0].estimate.high)


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
def test_without_variety_there_is_no_difference_and_no_zero(rows):
    found = variety_difference_tests(rows, rows, [[0.0, 1.0]])
    for test in found:
        assert math.isnan(test.estimate.value)
        assert math.isnan(test.p_value)
        assert test.estimate.note


def test_sets_of_unequal_size_are_no_pairs():
    rng = np.random.default_rng(4)
    with pytest.raises(InvalidInput, match=r"first 3.*second 5"):
        variety_difference_tests(images(rng, 3), images(rng, 5), [AXIS])


def test_change_is_one_minus_the_cosine():
    assert picture_change_estimate([1.0, 0.5, -1.0]).value == pytest.approx((0 + 0.5 + 2) / 3)
    found = picture_change_estimate([0.9, 0.5, 0.7, 0.2, 0.4])
    assert found.low < found.value < found.high
    with pytest.raises(InvalidInput, match=r"2\.000"):
        picture_change_estimate([0.5, 2.0])
