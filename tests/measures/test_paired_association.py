"""Differences of association on the same seeds: T2IAT's score, calibration, too few images."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.association import Neutral, association_difference_test, association_test

D = 7


def images(rng, n, shift=0.0):
    """n unit rows around one direction, shifted along axis 1."""
    rows = rng.normal(size=(n, D)) * 0.3
    rows[:, 1] = shift + rng.normal(size=n) * 0.3
    rows[:, 0] += 3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def neutral(rng, n, m, shift=0.0):
    return Neutral(
        targets=images(rng, n, shift=shift),
        attributes_a=images(rng, m, shift=1.0),
        attributes_b=images(rng, m, shift=-1.0),
    )


def test_the_association_difference_is_t2iats_score():
    rng = np.random.default_rng(5)
    first, second = neutral(rng, 13, 5), neutral(rng, 13, 5, shift=0.4)
    found = association_difference_test(first, second)
    oracle = association_test(
        second.targets, first.targets, second.attributes_a, second.attributes_b, first.attributes_a, first.attributes_b
    )
    assert found.estimate.value == pytest.approx(oracle.score)
    assert found.p_value < 0.05
    assert found.estimate.low > 0
    assert "4 df" in found.test


def test_equal_associations_are_called_different_in_about_five_percent():
    rng = np.random.default_rng(6)
    p_values = [association_difference_test(neutral(rng, 13, 5), neutral(rng, 13, 5)).p_value for _ in range(500)]
    assert np.mean(np.array(p_values) <= 0.05) <= 0.07


def test_one_guided_image_has_no_standard_error():
    rng = np.random.default_rng(7)
    found = association_difference_test(neutral(rng, 5, 1), neutral(rng, 5, 1))
    assert math.isnan(found.p_value)
    assert math.isnan(found.estimate.low)
    assert "one image" in found.estimate.note


def test_sets_of_unequal_size_are_no_pairs():
    rng = np.random.default_rng(8)
    with pytest.raises(InvalidInput, match=r"first 5.*second 7"):
        association_difference_test(neutral(rng, 5, 3), neutral(rng, 7, 3))
