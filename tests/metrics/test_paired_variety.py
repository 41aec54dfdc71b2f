"""Differences of variety on the same seeds: arithmetic, a naive loop, calibration."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.metrics.alignment import (
    alignment_score,
    decompose,
    resampled_alignments,
    resampled_spreads,
    spread_along,
)
from bias_core.metrics.paired_variety import (
    aligned_alike,
    alignment_difference,
    picture_change,
    picture_change_estimate,
    spread_difference,
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


def test_the_differences_are_second_minus_first():
    near, far = [[0.6, 0.8], [0.8, 0.6]], [[0.0, 1.0], [1.0, 0.0]]
    # along x: sd of (0.6, 0.8) = 0.2 / sqrt(2), of (0, 1) = 1 / sqrt(2)
    assert spread_difference(near, far, [1.0, 0.0]) == pytest.approx(0.8 / math.sqrt(2))
    # both vary along (1, -1) / sqrt(2) only: WALS along x is 1 / sqrt(2) in both
    assert alignment_difference(near, far, [1.0, 0.0]) == pytest.approx(0, abs=1e-9)


def test_both_sets_are_looked_at_with_as_many_components():
    rng = np.random.default_rng(8)
    first, second = images(rng, 19), images(rng, 19, scale=9)
    sides = decompose(first), decompose(second)
    k = max(side.n_components() for side in sides)
    assert sides[0].n_components() != sides[1].n_components()
    before, after = aligned_alike(first, second, AXIS)
    assert before == pytest.approx(alignment_score(sides[0], AXIS, n_components=k))
    assert after == pytest.approx(alignment_score(sides[1], AXIS, n_components=k))


def test_weighted_sets_are_those_with_repeated_rows():
    rng = np.random.default_rng(0)
    pooled, weights = images(rng, 11), rng.multinomial(11, np.full(11, 1 / 11), size=5)
    for row, score, spread in zip(
        weights,
        resampled_alignments(pooled, AXIS[None], weights, n_components=4),
        resampled_spreads(pooled @ AXIS[:, None], weights),
        strict=True,
    ):
        repeated = np.repeat(pooled, row, axis=0)
        assert score[0] == pytest.approx(alignment_score(decompose(repeated), AXIS, n_components=4), abs=0.02)
        assert spread[0] == pytest.approx(spread_along(repeated, AXIS))


def test_more_variety_along_an_attribute_is_found():
    rng = np.random.default_rng(1)
    found = variety_difference_tests(images(rng, 61), images(rng, 61, scale=10), [AXIS, np.eye(D)[2]])
    for tests in (found.alignment, found.spread):
        assert tests[0].p_value < 0.01
        assert tests[0].estimate.low > 0
        assert tests[0].estimate.n == 61
    assert found.spread[1].p_value > 0.05


def test_the_interval_covers_the_usual_difference():
    rng = np.random.default_rng(9)
    found = [
        variety_difference_tests(images(rng, 23), images(rng, 23, scale=2), [AXIS], n_resamples=99, rng=i)
        for i in range(100)
    ]
    for name in ("alignment", "spread"):
        estimates = [getattr(tests, name)[0].estimate for tests in found]
        usual = np.mean([e.value for e in estimates])
        assert usual > 0.01
        assert np.mean([e.low <= usual <= e.high for e in estimates]) > 0.88
        assert all(e.low <= e.value <= e.high for e in estimates)


def test_equal_sets_are_called_different_in_five_percent():
    rng = np.random.default_rng(2)
    found = [
        variety_difference_tests(images(rng, 23), images(rng, 23), [AXIS], n_resamples=99, rng=i) for i in range(120)
    ]
    for name in ("alignment", "spread"):
        p_values = np.array([getattr(tests, name)[0].p_value for tests in found])
        assert np.mean(p_values <= 0.05) < 0.11  # 5 % and twice its standard error, twice
        assert 0.4 < p_values.mean() < 0.6


def test_swapping_the_sets_turns_the_signs():
    rng = np.random.default_rng(3)
    first, second = images(rng, 17), images(rng, 17, scale=2)
    there, back = (variety_difference_tests(*sets, [AXIS]) for sets in ((first, second), (second, first)))
    assert there.alignment[0].estimate.value == pytest.approx(-back.alignment[0].estimate.value)
    assert there.spread[0].estimate.low == pytest.approx(-back.spread[0].estimate.high)


@pytest.mark.parametrize("rows", [[[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])
def test_without_variety_there_is_no_difference_and_no_zero(rows):
    found = variety_difference_tests(rows, rows, [[0.0, 1.0]])
    for test in (*found.alignment, *found.spread):
        assert math.isnan(test.estimate.value)
        assert math.isnan(test.p_value)
        assert test.estimate.note


def test_sets_of_unequal_size_are_no_pairs():
    rng = np.random.default_rng(4)
    with pytest.raises(InvalidInput, match=r"first 3.*second 5"):
        variety_difference_tests(images(rng, 3), images(rng, 5), [AXIS])


def test_change_is_one_minus_the_cosine():
    assert picture_change([1.0, 0.5, -1.0]) == pytest.approx((0 + 0.5 + 2) / 3)
    found = picture_change_estimate([0.9, 0.5, 0.7, 0.2, 0.4])
    assert found.low < found.value < found.high
    with pytest.raises(InvalidInput, match=r"2\.000"):
        picture_change([0.5, 2.0])
