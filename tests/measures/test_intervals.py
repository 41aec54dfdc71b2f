"""Tests and the intervals that invert them: by hand, by enumeration, by scipy and by simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from bias_core.errors import InvalidInput
from bias_core.measures import intervals
from bias_core.measures.intervals import (
    difference_interval,
    exact_p_value,
    expanded_confidence,
    fisher_p_value,
    independent_difference,
    mcnemar_p_value,
    mean_interval,
    normal_estimate,
    percentile_estimate,
    t_interval,
    tail_share,
    with_p_through_ends,
    with_value_inside,
)
from bias_core.measures.permutation import inverted_test, permutation_test, sign_flip_test
from bias_core.types import Estimate
from tests.every import every

LEVELS = (0.8, 0.95, 0.99)


def excludes_null(estimate):
    return not estimate.low <= estimate.null_value <= estimate.high


def rejects(estimate, confidence=0.95):
    return estimate.p_value <= 1 - confidence + 1e-12


def test_signs_by_hand():
    # 1, 2, 3: of 8 signs only those of all three alike sum to ±6: p = 2/8. At 70 % floor(0.3 · 8) = 2 of them may be
    # as far out as what was seen, which these two always are: a shift δ is kept where any other is too. With the sign
    # of 1 turned |4 - δ| >= |6 - 3 δ| from 1 to 2.5, with that of 2 at 2 alone, with that of 3 from 1.5 to 3.
    mean = sign_flip_test([1, 2, 3], confidence=0.7)
    assert (mean.value, mean.p_value, mean.n) == (2.0, 0.25, 3)
    assert (mean.low, mean.high) == pytest.approx((1.0, 3.0))
    # At 95 % no sign could reject: no interval, and p still stands.
    few = sign_flip_test([1, 2, 3])
    assert (math.isnan(few.low), few.p_value) == (True, 0.25)
    assert few.note == "too few units for an interval: p is 0.25 at best"


def test_the_interval_of_signs_has_the_shifts_that_are_not_rejected():
    values = np.array([0.3, 1.2, -0.4, 2.0, 0.9, 1.1, 0.2])
    signs = np.array(list(itertools.product((1, -1), repeat=7)))

    def p_of_shift(shift):
        sums = np.abs(signs @ (values - shift))
        return np.mean(sums >= abs((values - shift).sum()) - 1e-12)

    found = sign_flip_test(values, confidence=0.9)
    assert found.p_value == p_of_shift(0.0)
    for end, outwards in ((found.low, -1), (found.high, 1)):
        assert p_of_shift(end + outwards * 1e-6) <= 0.1 < p_of_shift(end - outwards * 1e-6)


def test_weighted_signs_are_those_of_the_ratio():
    # Pictures with 2, 1, 1 people, of whom 2, 0, 1 more conform than not: (2 + 0 + 1) / 4. Sums of the 8 signs: ±3, ±1.
    ratio = sign_flip_test([2, 0, 1], [2, 1, 1])
    assert (ratio.value, ratio.p_value) == (0.75, 0.5)  # the unit with 0 has either sign: 4 of 8 reach 3
    plain, weighted = (sign_flip_test(np.arange(1.0, 8), weights) for weights in (None, np.full(7, 2.0)))
    assert (2 * weighted.low, 2 * weighted.high, weighted.p_value) == pytest.approx(
        (plain.low, plain.high, plain.p_value)
    )


def test_units_that_are_equal_have_a_p_but_no_interval_and_of_zeros_it_is_one():
    equal = sign_flip_test([1.0] * 6)
    assert (equal.p_value, math.isnan(equal.low)) == (2 / 64, True)
    assert "all units are equal" in equal.note
    zeros = sign_flip_test([0.0] * 9)
    assert (zeros.p_value, math.isnan(zeros.low)) == (1.0, True)  # they count as a test, whatever the others show
    assert "every unit gives 0" in zeros.note


@pytest.mark.parametrize("weights", [[1, 1], [1, 0, 1], [1, -1, 1]])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(InvalidInput, match="weights"):
        sign_flip_test([1, 2, 3], weights)


@pytest.mark.parametrize("n", [7, 17])
def test_random_signs_cover_the_mean_and_seldom_reject_the_truth(n):
    rng, runs = np.random.default_rng(n), 400
    found = [sign_flip_test(rng.normal(0.4, 1, n), n_resamples=999) for _ in range(runs)]
    covered = np.mean([one.low <= 0.4 <= one.high for one in found])
    assert covered >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)
    false_alarms = np.mean([rejects(sign_flip_test(rng.normal(0, 1, n), n_resamples=999)) for _ in range(runs)])
    assert false_alarms <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_permutation_test_brings_the_shifts_that_it_does_not_reject():
    x, y = np.array([3.1, 4.2, 5.9, 2.2, 6.6]), np.array([1.2, 2.9, 0.4])  # unequal: an exchange would show
    found = permutation_test(x, y).estimate
    assert found.value == pytest.approx(x.mean() - y.mean())
    assert found.p_value == permutation_test(x, y).p_value
    for end, outwards in ((found.low, -1), (found.high, 1)):
        inner, outer = (permutation_test(x - end - step * outwards, y).p_value for step in (-1e-6, 1e-6))
        assert outer <= 0.05 < inner


def test_one_sided_permutations_have_one_end():
    greater = permutation_test([5, 6, 7, 8], [1, 2, 3, 4], alternative="greater").estimate
    assert (greater.high, excludes_null(greater)) == (math.inf, True)
    less = permutation_test([5, 6, 7, 8], [1, 2, 3, 4], alternative="less").estimate
    assert (less.low, less.p_value, excludes_null(less)) == (-math.inf, 1.0, False)


@pytest.mark.parametrize(("n_x", "n_y"), [(5, 7), (13, 11)])
def test_inverted_permutations_cover_the_difference(n_x, n_y):
    rng, runs = np.random.default_rng(n_x), 300
    held = 0
    for _ in range(runs):
        found = permutation_test(rng.normal(0.7, 1, n_x), rng.normal(0, 1, n_y), n_permutations=400).estimate
        held += found.low <= 0.7 <= found.high
    assert held / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


def test_an_inverted_test_by_hand():
    # D = 2 in three orders: itself (2, 1), its mirror (-2, -1) and (1, 0). |1| >= |2 - δ| from 1 to 3. At 34 %
    # floor(0.66 · 3) = 1 order may be as far out; the mirror and the order itself always are: no end.
    order = {"permuted": np.array([2.0, -2.0, 1.0]), "kept": np.array([1.0, -1.0, 0.0]), "n": 3, "method": "by hand"}
    assert math.isnan(inverted_test(2.0, **order, confidence=0.34).low)
    found = inverted_test(2.0, **order, confidence=0.3)  # floor(0.7 · 3) = 2: the third end, 1 to 3
    assert (found.low, found.high, found.p_value) == (1.0, 3.0, pytest.approx(2 / 3))


@every(range(1, 17))
def test_the_interval_of_pairs_excludes_0_just_where_mcnemar_rejects(n):
    for up, down in itertools.product(range(n + 1), repeat=2):
        if up + down > n:
            continue
        p_value = mcnemar([[0, up], [down, n - up - down]], exact=True).pvalue
        for confidence in LEVELS:
            found = difference_interval(up, down, n, confidence=confidence)
            assert found.p_value == pytest.approx(p_value)
            assert excludes_null(found) == rejects(found, confidence), (up, down, confidence)
            assert found.low <= found.value <= found.high


def test_five_of_five_are_not_yet_clear_and_six_are():
    # 2 / 2⁵ = 0.0625 and 2 / 2⁶ = 0.03125.
    five, six = difference_interval(5, 0, 5), difference_interval(6, 0, 6)
    assert (five.p_value, six.p_value) == (0.0625, 0.03125)
    assert five.low < 0 < six.low


@pytest.mark.parametrize("n", [3, 8, 13])
def test_the_interval_of_pairs_covers_every_difference(n):
    counts = [(up, down) for up in range(n + 1) for down in range(n + 1 - up)]
    ends = np.array([[(found := difference_interval(*count, n)).low, found.high] for count in counts])
    for p_up, p_down in itertools.product(np.linspace(0, 1, 11), repeat=2):
        if p_up + p_down <= 1 + 1e-9:
            cells = [p_up, p_down, max(0.0, 1 - p_up - p_down)]
            chances = stats.multinomial.pmf([[*count, n - sum(count)] for count in counts], n, cells)
            held = (ends[:, 0] - 1e-9 <= p_up - p_down) & (p_up - p_down <= ends[:, 1] + 1e-9)
            assert chances[held].sum() >= 0.95, (p_up, p_down)


def test_exchanging_the_sides_turns_both_exact_differences():
    there, back = difference_interval(7, 2, 13), difference_interval(2, 7, 13)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    there, back = independent_difference(2, 7, 9, 11), independent_difference(9, 11, 2, 7)
    assert (back.low, back.high, back.p_value) == pytest.approx((-there.high, -there.low, there.p_value))


@every([(3, 5), (8, 8), (11, 7)])
def test_two_samples_have_the_central_p_of_fisher_and_an_interval_that_agrees(n_first, n_second):
    for first, second in itertools.product(range(n_first + 1), range(n_second + 1)):
        table = [[second, n_second - second], [first, n_first - first]]
        one_sided = [stats.fisher_exact(table, alternative=side).pvalue for side in ("less", "greater")]
        p_value = min(1.0, 2 * min(one_sided))
        assert fisher_p_value(first, n_first, second, n_second) == pytest.approx(p_value)
        for confidence in LEVELS:
            found = independent_difference(first, n_first, second, n_second, confidence=confidence)
            assert found.p_value == pytest.approx(p_value)
            assert excludes_null(found) == rejects(found, confidence), (first, second, confidence)
            assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("n_first", "n_second"), [(3, 5), (8, 11)])
def test_the_interval_of_two_samples_covers_every_difference(n_first, n_second):
    counts = list(itertools.product(range(n_first + 1), range(n_second + 1)))
    ends = [independent_difference(first, n_first, second, n_second) for first, second in counts]
    for p_first, p_second in itertools.product(np.linspace(0, 1, 11), repeat=2):
        held = sum(
            stats.binom.pmf(first, n_first, p_first) * stats.binom.pmf(second, n_second, p_second)
            for (first, second), found in zip(counts, ends, strict=True)
            if found.low - 1e-9 <= p_second - p_first <= found.high + 1e-9
        )
        assert held >= 0.95, (p_first, p_second)


def test_mcnemar_p_is_never_0():
    assert mcnemar_p_value(2000, 0) > 0
    assert fisher_p_value(0, 3000, 3000, 3000) > 0


def test_percentiles_are_as_far_out_as_student_s_t_and_need_ten_units():
    values = np.linspace(0, 1, 1001)  # the quantile q is q
    tail = (1 - expanded_confidence(10)) / 2
    found = percentile_estimate(0.5, values, n=10, null_value=0.25)
    assert (found.low, found.high) == pytest.approx((tail, 1 - tail))
    assert tail == pytest.approx(stats.norm.sf(stats.t.ppf(0.975, 9) * math.sqrt(10 / 9)))
    # A quarter of the draws lies below the null: z = 0.6745, t = z √(9/10) of nine degrees of freedom.
    assert found.p_value == pytest.approx(2 * stats.t.sf(stats.norm.isf(0.25) * math.sqrt(0.9), 9))
    few = percentile_estimate(0.5, values, n=9, null_value=0.25)
    assert np.isnan([few.low, few.high, few.p_value]).all()
    assert few.note == "fewer than 10 units: too few for a bootstrap interval"


def test_draws_at_the_null_value_itself_do_not_speak_against_it():
    draws = np.array([0.0] * 30 + [1.0] * 970)
    assert tail_share(draws, 0.0, 0.025) == pytest.approx(0.03, abs=1e-3)
    assert tail_share(-draws[::-1], 0.0, 0.025) == pytest.approx(0.03, abs=1e-3)
    assert tail_share(draws, -1.0, 0.025) == 1 / 1001  # none is there: never 0


def test_p_through_the_ends_is_small_just_where_they_leave_out_the_null():
    inside, at_the_end, outside = (
        with_p_through_ends(Estimate(value=0.5, low=low, high=0.9, n=9, null_value=0.0), 0.95)
        for low in (-0.01, 0.0, 0.01)
    )
    # From 0.5 down to -0.01 are 1.96 standard errors: 0.5 / 0.51 of them.
    assert inside.p_value == pytest.approx(2 * stats.norm.sf(1.959964 * 0.5 / 0.51), rel=1e-5)
    assert [rejects(one) for one in (inside, at_the_end, outside)] == [False, False, True]
    endless = with_p_through_ends(Estimate(value=0.5, low=-math.inf, high=0.9, n=9, null_value=0.0), 0.95)
    assert endless.p_value == 1
    assert math.isnan(with_p_through_ends(Estimate.without_interval(0.5, 9, "few", null_value=0.0), 0.95).p_value)


def test_an_interval_that_is_widened_to_its_value_rejects_nothing_inside():
    # The null value lies between the value and the interval's own end.
    found = with_value_inside(Estimate(value=0.0, low=0.1, high=1.0, n=9, null_value=0.05, p_value=0.01), 0.95)
    assert (found.low, found.high, rejects(found)) == (0.0, 1.0, False)
    same = Estimate(value=0.5, low=0.1, high=1.0, n=9, null_value=0.05, p_value=0.01)
    assert with_value_inside(same, 0.95) == same


def test_means_bring_the_p_of_scipys_t_tests():
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 2, 7), rng.normal(0, 1, 11)
    assert mean_interval(x, null_value=0.5).p_value == pytest.approx(stats.ttest_1samp(x, 0.5).pvalue)
    assert mean_interval(x, y, null_value=0.0).p_value == pytest.approx(stats.ttest_ind(x, y, equal_var=False).pvalue)


def test_without_any_variation_there_is_no_interval():
    for found in (t_interval(1.0, 0.0, 5, n=6, null_value=0.0), normal_estimate(1.0, 0.0, n=6, null_value=0.0)):
        assert np.isnan([found.low, found.high, found.p_value]).all()
        assert found.note == "nothing varies, so there is no interval"


def test_p_of_a_share_against_one_half_counts_both_tails_of_an_exact_tie():
    for n in range(1, 60):  # of 6, 12, 21 … alike the tails differ by rounding
        for k in (0, 1, n):
            assert exact_p_value(k, n, 0.5) == pytest.approx(stats.binomtest(k, n, 0.5).pvalue)


@pytest.mark.parametrize("share", [0.0, 1e-300, 1e-12, 0.02, 0.5, 0.93, 1 - 1e-12])
@pytest.mark.parametrize("n", [1, 4, 37, 5000])
def test_quantiles_are_those_of_scipy_also_next_to_0_and_1(n, share):
    for probability in (0.0, 1e-300, 1e-9, 0.025, 0.3, 0.5, 0.975, 1 - 1e-9):
        assert intervals._quantile(probability, n, share) == int(stats.binom.ppf(probability, n, share))
