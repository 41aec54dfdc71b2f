"""Intervals that may be looked at at any time."""

import math

import numpy as np
import pytest
from scipy.special import betaln, xlog1py, xlogy

from bias_core.errors import InvalidInput
from bias_core.stats.intervals import wilson_interval
from bias_core.stats.sequential import confidence_sequence, difference_sequence, share_interval
from tests.every import every

LOOKS = np.array([16, 32, 48, 64, 96, 128, 192, 256, 384, 512])


def log_mixture(p, k, n):
    """The log of the mixture's likelihood ratio, straight from its formula."""
    return betaln(0.5 + k, 0.5 + n - k) - math.log(math.pi) - xlogy(k, p) - xlog1py(n - k, -p)


@pytest.mark.parametrize("p", [0.5, 0.85, 0.97])
def test_ten_looks_at_a_growing_share_mislead_in_at_most_one_run_in_twenty(p):
    rng, misled, misled_by_wilson, n_runs = np.random.default_rng(0), 0, 0, 400
    for _ in range(n_runs):
        counts = np.cumsum(rng.random(LOOKS[-1]) < p)[LOOKS - 1]
        looks = confidence_sequence(counts, LOOKS)
        misled += not all(look.low <= p <= look.high for look in looks)
        fixed = (wilson_interval(int(k), int(n)) for k, n in zip(counts[::3], LOOKS[::3], strict=True))
        misled_by_wilson += not all(one.low <= p <= one.high for one in fixed)
    assert misled <= 0.05 * n_runs
    assert misled_by_wilson > 0.08 * n_runs  # what the sequence is for


def test_the_ends_are_where_the_mixture_reaches_one_over_alpha():
    for k, n, confidence in ((3, 7, 0.95), (31, 64, 0.9), (499, 512, 0.99), (1, 5000, 0.95), (2.5, 11, 0.95)):
        look = confidence_sequence(k, n, confidence=confidence)
        for end in (look.low, look.high):
            assert log_mixture(end, k, n) == pytest.approx(-math.log(1 - confidence), abs=1e-8)
        assert 0 < look.low < look.value < look.high < 1


def test_widths_are_those_of_the_published_mixture():
    grid = np.linspace(1e-5, 1 - 1e-5, 400_001)
    for k, n in ((8, 16), (32, 64), (54, 64), (256, 512), (435, 512)):
        inside = grid[log_mixture(grid, k, n) < math.log(20)]
        look = confidence_sequence(k, n)
        assert (look.low, look.high) == pytest.approx((inside[0], inside[-1]), abs=1e-5)
    # Half widths at 64 within the looks before it, p = .5, on average; of a single look it is 0.195.
    rng, looks, halves = np.random.default_rng(2), LOOKS[:4], []
    for _ in range(300):
        last = confidence_sequence(np.cumsum(rng.random(64) < 0.5)[looks - 1], looks)[-1]
        halves.append((last.high - last.low) / 2)
    assert np.nanmean(halves) == pytest.approx(0.185, abs=0.003)


def test_none_all_and_a_single_picture_have_an_interval_too():
    # k = n = 1: B(3/2, 1/2) / (B(1/2, 1/2) p) = (π/2) / (π p) = 1 / (2 p) < 20 where p > 1/40
    assert confidence_sequence(1, 1).low == pytest.approx(1 / 40)
    assert confidence_sequence(1, 1).high == 1
    none = confidence_sequence(0, 40)
    assert none.low == none.value == 0
    assert 0 < none.high < 0.25
    assert confidence_sequence(40, 40).low == pytest.approx(1 - none.high)


def test_several_looks_narrow_each_other_and_say_when_nothing_is_left():
    alone = [confidence_sequence(k, n) for k, n in ((2, 16), (20, 64), (60, 128))]
    together = confidence_sequence([2, 20, 60], [16, 64, 128])
    for i, look in enumerate(together):
        assert look.low == max(one.low for one in alone[: i + 1])
        assert look.high == min(one.high for one in alone[: i + 1])
    moved = confidence_sequence([0, 300], [100, 400])[-1]
    assert math.isnan(moved.low)
    assert math.isnan(moved.high)
    assert "moved" in moved.note
    assert moved.value == 0.75


@every([
    (3, 2), (-1, 5), (0, 0), (1, 2.5), (math.nan, 5), (1, math.nan), ("a", 5), (None, 5),
    ([], []), ([1, 2], [5]), ([5, 4], [10, 20]), ([1, 9], [5, 6]), ([1, 1], [6, 5]), ([[1, 2]], [[3, 4]]),
    ([1, 2], 5), ([1, math.inf], [5, 9]),
])  # fmt: skip
def test_counts_that_cannot_be_are_refused_in_a_sentence(k, n):
    with pytest.raises(InvalidInput):
        confidence_sequence(k, n)


@every([0, 1, 1.5, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(InvalidInput, match="confidence"):
        confidence_sequence(1, 2, confidence=confidence)


def test_the_fixed_interval_stands_only_where_n_was_fixed():
    assert share_interval(7, 11, null_value=0.3) == wilson_interval(7, 11, null_value=0.3)
    assert share_interval(7, 11, fixed_n=False, null_value=0.3) == confidence_sequence(7, 11, null_value=0.3)


def test_a_difference_of_pairs_holds_at_every_look():
    rng, misled, n_runs = np.random.default_rng(1), 0, 400
    for _ in range(n_runs):
        first, second = (rng.random(256) < 0.5) * 1.0, (rng.random(256) < 0.7) * 1.0
        looks = [difference_sequence(first[:n], second[:n]) for n in (8, 16, 32, 64, 128, 256)]
        misled += not all(look.low <= 0.2 <= look.high for look in looks)
    assert misled <= 0.05 * n_runs
    assert looks[-1].null_value == 0
    with pytest.raises(InvalidInput, match="0 to 1"):
        difference_sequence([0, 2], [1, 1])
    with pytest.raises(InvalidInput, match="0 to 1"):
        difference_sequence([0], [1, 1])
