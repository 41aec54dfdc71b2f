"""Difference in prevalence on the same seeds: arithmetic, a second opinion, calibration."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import variance_share
from bias_core.measures.effects import corrected_prevalence
from bias_core.measures.intervals import difference_interval
from bias_core.measures.paired_prevalence import (
    corrected_difference,
    picture_change_estimate,
    prevalence_difference_test,
    stereotype_difference_test,
    variance_share_difference,
    variety_difference_tests,
)
from bias_core.types import Estimate, ReaderErrors

# Ten seeds. Seen in the first: 1, 2, 3 (P1 = 0.3); in the second: 3 to 10 but 9 (P2 = 0.7).
FIRST = np.array([1, 1, 1, -1, -1, -1, -1, -1, -1, -1]) * 0.1
SECOND = np.array([-1, -1, 1, 1, 1, 1, 1, 1, -1, 1]) * 0.2


def pairs(n_gained, n_lost, n_same):
    first = np.array([-1.0] * n_gained + [1.0] * n_lost + [1.0] * n_same)
    second = np.array([1.0] * n_gained + [-1.0] * n_lost + [1.0] * n_same)
    return first, second


def test_the_difference_counts_the_seeds_that_changed():
    found = prevalence_difference_test(FIRST, SECOND)
    # gained on seeds 4, 5, 6, 7, 8, 10: 6; lost on 1 and 2: 2; (6 - 2) / 10 = 0.4
    assert (found.n_gained, found.n_lost) == (6, 2)
    assert found.estimate.value == pytest.approx(0.4)
    assert prevalence_difference_test(FIRST, SECOND).estimate.value == pytest.approx(0.7 - 0.3)


def test_p_is_the_exact_sign_test_of_the_changed_seeds():
    # 6 of 8 changed one way: 2 (1 + 8 + 28) / 2^8 = 74 / 256
    assert prevalence_difference_test(FIRST, SECOND).p_value == pytest.approx(74 / 256)
    assert stats.binomtest(6, 8).pvalue == pytest.approx(74 / 256)


def test_the_interval_is_that_of_the_test():
    found = prevalence_difference_test(FIRST, SECOND).estimate
    assert found == difference_interval(6, 2, 10)
    # p = 74 / 256 is above 0.05, so the interval holds 0; the exact interval of 6 of 8 that changed, [0.35, 0.97],
    # says so too.
    assert found.low < 0 < found.high
    assert found.method == "exact for pairs 95 %"


def test_no_changed_seed_is_no_certainty():
    found = prevalence_difference_test(*pairs(0, 0, 20))
    assert found.estimate.value == 0
    assert found.p_value == 1
    assert found.estimate.low < -0.05
    assert found.estimate.high > 0.05


def test_swapping_the_sets_turns_the_sign():
    there, back = prevalence_difference_test(FIRST, SECOND), prevalence_difference_test(SECOND, FIRST)
    assert there.estimate.value == -back.estimate.value
    assert there.estimate.low == pytest.approx(-back.estimate.high)
    assert there.p_value == back.p_value


def test_the_interval_covers_the_difference_of_correlated_pairs():
    rng = np.random.default_rng(0)
    cells = rng.choice(4, p=[0.3, 0.25, 0.1, 0.35], size=(600, 31))  # neither, gained, lost, both: 0.15
    covered = [
        found.low <= 0.15 <= found.high
        for row in cells
        for found in [
            prevalence_difference_test(
                np.where(np.isin(row, [2, 3]), 1, -1), np.where(np.isin(row, [1, 3]), 1, -1)
            ).estimate
        ]
    ]
    assert np.mean(covered) >= 0.95  # exact: at least as often as it says


def test_fair_pairs_are_called_different_in_at_most_five_percent():
    rng = np.random.default_rng(1)
    p_values = [
        prevalence_difference_test(*rng.choice([-1, 1], p=[0.3, 0.7], size=(2, 37))).p_value for _ in range(800)
    ]
    assert 0.005 < np.mean(np.array(p_values) <= 0.05) <= 0.055


def test_pairing_sees_what_two_separate_samples_would_not():
    found = prevalence_difference_test(*pairs(9, 0, 91))  # 91 % against 100 %
    assert found.p_value == pytest.approx(2 / 2**9)
    both_seen = prevalence_difference_test(*pairs(50, 41, 9))  # the same shares, on changed seeds
    assert both_seen.p_value > 0.3


def test_the_correction_divides_by_the_readers_youden_index():
    errors = ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=10**9, n_negative=10**9)
    raw = prevalence_difference_test(FIRST, SECOND).estimate
    found = corrected_difference(raw, errors)
    # J = 0.9 + 0.8 - 1 = 0.7: 0.4 / 0.7; perfectly known errors scale the interval too
    assert found.value == pytest.approx(0.4 / 0.7)
    assert found.low == pytest.approx(raw.low / 0.7, abs=1e-6)
    apart = [
        corrected_prevalence(k, 10, sensitivity=0.9, specificity=0.8).value for k in (4, 6)
    ]  # neither is cut at 0 or 1
    two = corrected_difference(Estimate(value=0.2, low=0.0, high=0.4, n=10), errors)
    assert two.value == pytest.approx(apart[1] - apart[0])


def test_a_corrected_difference_keeps_p_and_excludes_0_just_where_the_difference_does():
    for up in range(13):
        raw = difference_interval(up, 2, 15)
        for n in (12, 10**6):  # of so few the classifier's errors are hardly known
            errors = ReaderErrors(sensitivity=0.8, specificity=0.75, n_positive=n, n_negative=n)
            found = corrected_difference(raw, errors)
            assert found.p_value == raw.p_value
            assert (found.low > 0, found.high < 0) == (raw.low > 0, raw.high < 0), (up, n)


def test_uncertain_errors_widen_the_corrected_interval():
    raw = prevalence_difference_test(FIRST, SECOND).estimate
    wide, narrow = (
        corrected_difference(raw, ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=n, n_negative=n))
        for n in (20, 20_000)
    )
    assert wide.high - wide.low > narrow.high - narrow.low + 1e-3


def test_a_reader_that_tells_nothing_is_refused():
    errors = ReaderErrors(sensitivity=0.5, specificity=0.5, n_positive=9, n_negative=9)
    with pytest.raises(InvalidInput, match=r"0\.5 \+ 0\.5"):
        corrected_difference(prevalence_difference_test(FIRST, SECOND).estimate, errors)


def test_the_stereotype_difference_counts_only_what_lies_above_the_real_rate():
    # P1 = 0.3, P2 = 0.7: against 0.5 only the second exceeds it, by 0.2; against 0.1 both do
    assert stereotype_difference_test(FIRST, SECOND, 0.5).estimate.value == pytest.approx(0.2)
    assert stereotype_difference_test(FIRST, SECOND, 0.1).estimate.value == pytest.approx(0.4)
    assert stereotype_difference_test(FIRST, SECOND, 0.9).estimate.value == 0


def test_the_stereotype_difference_has_an_interval_and_a_p_value():
    found = stereotype_difference_test(*pairs(30, 2, 30), 0.4)
    # P1 = 32 / 62, P2 = 60 / 62: both above 0.4, so it is that of P
    assert found.estimate.value == pytest.approx(28 / 62)
    assert found.estimate.low < 28 / 62 < found.estimate.high
    assert found.p_value < 0.01
    # Ψ of a rate of 0 is P: of 62 seeds Student's t is near.
    first, second = pairs(17, 8, 37)
    same = stereotype_difference_test(first, second, 0.0, n_resamples=20_000)
    expected = stats.ttest_1samp((second > 0).astype(float) - (first > 0), 0)
    assert same.p_value == pytest.approx(expected.pvalue, abs=0.02)


def test_a_stereotype_that_neither_set_reaches_has_no_interval():
    found = stereotype_difference_test(*pairs(3, 2, 0), 1.0)
    assert found.estimate.value == 0
    assert math.isnan(found.estimate.low)
    assert math.isnan(found.p_value)
    assert "P*" in found.estimate.note


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
    tests = [variety_difference_tests(images(rng, 23), images(rng, 23, scale=2), [AXIS])[0] for _ in range(400)]
    # 95 % of 400, give or take two standard errors of 1.1 points
    assert 0.92 <= np.mean([one.estimate.low <= truth <= one.estimate.high for one in tests]) <= 0.98


def test_equal_sets_are_called_different_in_five_percent():
    rng = np.random.default_rng(2)
    tests = [variety_difference_tests(images(rng, 23), images(rng, 23), [AXIS])[0] for _ in range(200)]
    p_values = np.array([one.p_value for one in tests])
    assert np.mean(p_values <= 0.05) < 0.085  # 5 % and twice its standard error
    assert 0.4 < p_values.mean() < 0.6


def test_the_jackknife_is_a_naive_loop():
    rng = np.random.default_rng(7)
    first, second = images(rng, 13), images(rng, 13, scale=2)
    (found,) = variety_difference_tests(first, second, [AXIS])
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
