"""δ′: arithmetic, its own null (pictures lean as the words do), and what is undefined."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.relative_association import (
    mean_relative_lean_difference,
    relative_lean_difference,
    relative_lean_difference_estimate,
)
from bias_core.types import Estimate
from tests.measures.test_relative_lean import lean_of, world


def test_the_difference_is_that_of_the_places():
    assert relative_lean_difference(0.5, 0.2) == pytest.approx(0.3)
    assert relative_lean_difference(-0.2, 0.2) == pytest.approx(-0.4)  # which the paper's δ reads as 0
    assert relative_lean_difference(0.2, -0.2) == -relative_lean_difference(-0.2, 0.2)


def test_pictures_that_lean_as_the_words_do_are_told_from_them_in_five_percent():
    rng = np.random.default_rng(0)
    words = lean_of(*world(rng, 0.7, sizes=(30_000, 9_000, 9_001, 9_000, 9_001))).value
    alarms = []
    for _ in range(300):
        found = relative_lean_difference_estimate(lean_of(*world(rng, 0.7)), words)
        alarms.append(not found.low <= 0 <= found.high)
    assert np.mean(alarms) <= 0.07


def test_a_planted_difference_is_found():
    found = relative_lean_difference_estimate(lean_of(*world(np.random.default_rng(1), 0.95)), 0.1)
    assert found.low > 0
    assert found.null_value == 0


def test_the_mean_is_that_of_a_paired_t_test():
    rng = np.random.default_rng(2)
    pictures, texts = rng.normal(size=(2, 7))
    found = mean_relative_lean_difference(pictures, texts)
    interval = stats.ttest_rel(pictures, texts).confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert math.isnan(mean_relative_lean_difference([0.5], [0.1]).low)


def test_without_a_place_there_is_no_difference_and_no_zero():
    unknown = Estimate.undefined(9, "not told apart", null_value=0.0)
    assert relative_lean_difference_estimate(unknown, 0.1).note == "not told apart"
    without = relative_lean_difference_estimate(Estimate(value=0.1, low=0.0, high=0.2, n=9), math.nan)
    assert math.isnan(without.value)
    assert "does not tell" in without.note


@pytest.mark.parametrize(("pictures", "texts"), [([], []), ([0.1], [0.1, 0.2]), ([math.nan], [0.1])])
def test_bad_places_are_refused(pictures, texts):
    with pytest.raises(InvalidInput):
        mean_relative_lean_difference(pictures, texts)
