"""α′: arithmetic, its own null, Fieller's interval by resampling, and what is undefined."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.relative_association import (
    log_amplification,
    log_amplification_estimate,
    mean_log_amplification,
)
from bias_core.types import Estimate
from tests.measures.test_relative_lean import lean_of, world


def test_twice_and_half_as_strongly_lie_as_far_from_nothing():
    assert log_amplification(0.4, 0.2) == pytest.approx(math.log(2))
    assert log_amplification(0.2, 0.4) == pytest.approx(-math.log(2))
    assert log_amplification(-0.4, -0.4) == 0


@pytest.mark.slow
def test_pictures_that_lean_as_the_words_do_read_zero_in_ninety_five_percent():
    rng = np.random.default_rng(1)
    words = lean_of(*world(rng, 0.8, sizes=(30_000, 9_000, 9_001, 9_000, 9_001))).value
    found = [log_amplification_estimate(lean_of(*world(rng, 0.8)), words) for _ in range(400)]
    assert sum(math.isnan(one.value) for one in found) < 20
    # 5 % of 400, and two standard errors of 1.1 points; of 2,000 it is 5.7 %
    assert np.mean([one.low > 0 or one.high < 0 for one in found]) <= 0.072
    assert np.mean([one.low > math.log(1.5) or one.high < math.log(1.5) for one in found]) > 0.2  # another ratio


def test_where_the_interval_of_the_ratio_reaches_zero_its_logarithm_has_no_lower_end():
    found = log_amplification_estimate(Estimate(value=-0.2, low=-0.4, high=0.1, n=9, method="Fieller 95 %"), -0.1)
    # ratios 2, from -1 to 4
    assert (found.value, found.high) == pytest.approx((math.log(2), math.log(4)))
    assert found.low == -math.inf
    assert found.method == "Fieller 95 %"


@pytest.mark.parametrize(
    ("pictures", "texts", "says"),
    [(0.3, 0.01, "hardly lean"), (-0.3, 0.2, "other side"), (0.0, 0.2, "other side"), (0.3, math.nan, "does not tell")],
)
def test_what_has_no_ratio_says_why(pictures, texts, says):
    found = log_amplification_estimate(Estimate(value=pictures, low=-0.9, high=0.9, n=9), texts)
    assert math.isnan(found.value)
    assert says in found.note


def test_several_concepts_together_leave_none_out():
    # towards the words' side 0.4, 0.2 and -0.1, in all 0.5; the words lean 0.2 + 0.3 + 0.125 = 0.625: ln 0.8
    assert mean_log_amplification([0.4, -0.2, 0.1], [0.2, -0.3, -0.125]).value == pytest.approx(math.log(0.8))
    assert mean_log_amplification([0.4, -0.6], [0.2, -0.3]).value == pytest.approx(math.log(2))
    turned = mean_log_amplification([-0.4, 0.6], [0.2, -0.3])
    assert math.isnan(turned.value)
    assert "other side" in turned.note
    assert "hardly lean" in mean_log_amplification([0.1, 0.2], [0.0, -0.02]).note
    assert math.isnan(mean_log_amplification([0.1], [0.1]).low)


def test_the_interval_of_several_concepts_is_about_that_of_a_bootstrap():
    rng = np.random.default_rng(1)
    texts = rng.normal(0, 0.4, size=53)
    pictures = 1.5 * texts + rng.normal(0, 0.2, size=53)
    found = mean_log_amplification(pictures, texts)
    drawn = rng.integers(0, 53, size=(4000, 53))
    along = (np.sign(texts) * pictures)[drawn].mean(axis=1)
    low, high = np.quantile(np.log(along / np.abs(texts)[drawn].mean(axis=1)), [0.025, 0.975])
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)


def test_the_interval_of_several_concepts_holds_what_is_planted():
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        texts = rng.normal(0, 0.4, size=28)
        one = mean_log_amplification(1.5 * texts + rng.normal(0, 0.25, size=28), texts)
        held.append(one.low <= math.log(1.5) <= one.high)
    assert 0.928 <= np.mean(held) <= 0.975  # 95 % of 400, give or take two standard errors; of 3,000 it is 95.5 %


@pytest.mark.parametrize(("pictures", "texts"), [([], []), ([0.1], [0.1, 0.2]), ([math.nan], [0.1])])
def test_bad_places_are_refused(pictures, texts):
    with pytest.raises(InvalidInput):
        mean_log_amplification(pictures, texts)


def test_an_impossible_threshold_is_quoted():
    with pytest.raises(InvalidInput, match="got 0"):
        log_amplification(0.1, 0.1, minimum_texts=0)
