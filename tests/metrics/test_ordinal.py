"""Ordered classes: means and distances by hand, against scipy, planted differences found and none claimed."""

import math

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from bias_core.errors import InvalidInput
from bias_core.metrics.ordinal import distance_to_goal, end_share, level_distance, mean_level, ordered_test
from bias_core.types import ClassErrors

EVEN = np.full(10, 0.1)
LIGHT = np.array([0.3, 0.3, 0.2, 0.1, 0.1, 0, 0, 0, 0, 0])


def test_the_mean_and_the_ends_are_as_by_hand():
    counts = [2, 0, 5, 3]  # (2·1 + 5·3 + 3·4) / 10 = 2.9
    assert mean_level(counts).value == pytest.approx(2.9)
    assert end_share(counts, last=2).value == pytest.approx(0.8)
    assert end_share(counts, last=-2).value == pytest.approx(0.2)


def test_the_distance_is_as_by_hand_and_as_scipy_has_it():
    # Shares up to each class: .5, .5, 1 and .2, .6, 1: |.3| + |−.1| = .4
    assert level_distance([5, 0, 5], [2, 4, 4]).value == pytest.approx(0.4)
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 30, size=7), rng.integers(0, 30, size=7)
    assert level_distance(a, b).value == pytest.approx(wasserstein_distance(range(7), range(7), a, b))
    assert distance_to_goal(a, EVEN[:7] / 0.7).value == pytest.approx(wasserstein_distance(range(7), range(7), a))


def test_a_shift_by_two_tones_is_a_distance_of_two_whatever_the_direction():
    light, dark = [10, 20, 5, 0, 0], [0, 0, 10, 20, 5]
    assert level_distance(light, dark).value == level_distance(dark, light).value == pytest.approx(2.0)


def test_a_reader_that_errs_is_taken_out_of_the_distance():
    matrix = np.array([[0.8, 0.2, 0.0], [0.1, 0.8, 0.1], [0.0, 0.2, 0.8]])
    errors = ClassErrors(classes=tuple("abc"), counts=tuple(map(tuple, (10**6 * matrix).astype(int).tolist())))
    a, b = np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.2, 0.7])
    counts = [np.round(10_000 * shares @ matrix) for shares in (a, b)]
    assert level_distance(*counts).value < 1.0
    assert level_distance(*counts, errors=errors).value == pytest.approx(1.2, abs=1e-3)


@pytest.mark.parametrize(("first", "second"), [(EVEN, EVEN), (LIGHT, LIGHT), (EVEN, LIGHT)])
def test_intervals_of_the_distance_hold_what_is_planted(first, second):
    rng, planted = np.random.default_rng(3), float(np.abs(np.cumsum(first - second)[:-1]).sum())
    held = 0
    for seed in range(100):
        found = level_distance(rng.multinomial(60, first), rng.multinomial(60, second), rng=seed)
        held += found.low <= planted <= found.high
    assert held >= 92


def test_pairs_on_one_seed_narrow_the_distance():
    rng = np.random.default_rng(5)
    first = rng.choice(10, size=80)
    second = np.minimum(first + 1, 9)
    joint = np.zeros((10, 10))
    np.add.at(joint, (first, second), 1)
    apart = level_distance(joint.sum(axis=1), joint.sum(axis=0))
    paired = level_distance(joint.sum(axis=1), joint.sum(axis=0), joint=joint)
    assert paired.value == apart.value
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)


def test_the_permutation_test_finds_a_shift_and_claims_none_by_more_than_chance():
    rng = np.random.default_rng(6)
    tests = {
        name: [
            ordered_test(rng.choice(10, 40, p=EVEN), rng.choice(10, 40, p=p), 10, n_permutations=199, rng=seed).p_value
            for seed in range(150)
        ]
        for name, p in {"same": EVEN, "light": LIGHT}.items()
    }
    assert np.mean(np.array(tests["light"]) <= 0.05) > 0.95
    assert np.mean(np.array(tests["same"]) <= 0.05) <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / 150)


def test_a_paired_test_of_few_pairs_is_the_share_of_swaps():
    # Three pairs, each one step up: of 8 ways to swap two are as far apart, so p nears 1/4.
    p_value = ordered_test([0, 0, 0], [1, 1, 1], 2, paired=True, n_permutations=20_000).p_value
    assert p_value == pytest.approx(0.25, abs=0.01)


def test_pictures_that_do_not_differ_are_no_proof_of_anything():
    for paired in (True, False):
        nothing = ordered_test([2] * 9, [2] * 9, 5, paired=paired)
        assert math.isnan(nothing.p_value)
        assert math.isnan(nothing.by_chance)
    same = level_distance([0, 9, 0], [0, 9, 0])
    assert (same.value, same.low) == (0.0, 0.0)
    assert same.high > 0.1  # nine pictures each leave a difference open


def test_pictures_that_are_not_told_are_left_out_in_pairs():
    first, second = [0, 1, math.nan, 2, 0], [1, math.nan, 1, 2, 2]
    assert ordered_test(first, second, 3, paired=True).n == 3
    assert ordered_test(first, second, 3).n == 4


@pytest.mark.parametrize("call", [
    lambda: end_share([1, 2, 3], last=3),
    lambda: end_share([1, 2, 3], last=0),
    lambda: level_distance([1, 2], [1, 2, 3]),
    lambda: level_distance([1, 2], [1, 2], joint=np.ones((3, 3))),
    lambda: distance_to_goal([1, 2], [0.5, 0.6]),
    lambda: ordered_test([0, 3], [0, 1], 3),
    lambda: ordered_test([0, 1], [0], 3, paired=True),
])  # fmt: skip
def test_scales_that_do_not_fit_are_refused(call):
    with pytest.raises(InvalidInput):
        call()
