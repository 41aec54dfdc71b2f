"""The bias that is left, and the attributes that prompts ask for and pictures keep."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.stereotype import asked_kept_estimate, remaining_gap, remaining_gap_estimate
from bias_core.types import Estimate


def test_what_is_left_is_told_on_the_side_of_the_baseline():
    # above P*: 0.7 - 0.5; below P*: -(0.3 - 0.5); past P* on either side: below 0
    assert remaining_gap(0.7, 0.9, 0.5) == pytest.approx(0.2)
    assert remaining_gap(0.3, 0.1, 0.5) == pytest.approx(0.2)
    assert remaining_gap(0.3, 0.9, 0.5) == pytest.approx(-0.2)
    assert remaining_gap(0.7, 0.1, 0.5) == pytest.approx(-0.2)


@pytest.mark.parametrize("bad", [(0.5, 0.5, 0.5), (1.5, 0.9, 0.5), (0.5, math.nan, 0.5), (0.5, 0.9, -0.1)])
def test_shares_that_tell_no_side_are_refused(bad):
    with pytest.raises(InvalidInput):
        remaining_gap(*bad)


def test_the_interval_is_that_of_the_share_turned_to_the_side_of_the_baseline():
    below = exact_interval(3, 40)  # well below a half
    after = exact_interval(13, 31)
    gap = remaining_gap_estimate(after, below, 0.5)
    assert (gap.low, gap.value, gap.high) == pytest.approx((0.5 - after.high, 0.5 - 13 / 31, 0.5 - after.low))
    assert (gap.n, gap.null_value) == (31, 0.0)


def test_without_a_clear_bias_there_is_nothing_to_remove():
    gap = remaining_gap_estimate(exact_interval(5, 10), exact_interval(11, 20), 0.5)
    assert math.isnan(gap.value)
    assert "nothing to remove" in gap.note
    unknown = Estimate.undefined(7, "no picture")
    assert math.isnan(remaining_gap_estimate(exact_interval(5, 10), unknown, 0.5).value)


def test_what_is_asked_for_counts_both_words_alike():
    # (3/5 + 7/7) / 2, however many pictures each word has
    assert asked_kept_estimate([1, 1, 0, 1, 0], np.ones(7)).value == pytest.approx(0.8)
    estimate = asked_kept_estimate([1, 1, 0, 1, 0], np.ones(7))
    one, other = exact_interval(3, 5), exact_interval(7, 7)
    reach = math.sqrt((0.6 - one.low) ** 2 + (1 - other.low) ** 2) / 2
    assert estimate.low == pytest.approx(0.8 - reach)
    assert estimate.high == pytest.approx(0.8 + (one.high - 0.6) / 2)
    assert (estimate.n, estimate.null_value) == (12, None)


def test_the_interval_holds_the_share_that_was_planted():
    rng, held = np.random.default_rng(3), 0
    for _ in range(400):
        estimate = asked_kept_estimate(rng.binomial(1, 0.9, 17), rng.binomial(1, 0.6, 23))
        held += estimate.low <= 0.75 <= estimate.high
    assert 0.92 <= held / 400 <= 0.985
