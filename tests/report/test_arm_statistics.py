"""Differences and ranks of arms: by hand, by other programs, uniform under the null, never falsely sure."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.report.arm_comparison import (
    Values,
    apart_values,
    compute_number,
    difference,
    mean_sample,
    numbers_together,
    paired_values,
    rank_arms,
)
from bias_core.report.claims import decide_claims
from bias_core.study.types import Sample
from bias_core.types import ReaderErrors

ERRORS = ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=400, n_negative=300)


def names(n, start=0):
    return [f"{place}:0" for place in range(start, start + n)]


def spread(values, units=None):
    """The sample of a standard deviation, which is no mean."""
    each = np.asarray(values, dtype=float)
    return Sample(
        units=tuple(units or names(len(each))),
        statistic=lambda places: each[places].std(axis=-1, ddof=1),
        vectorised=True,
    )


def test_a_share_on_shared_seeds_is_compared_by_mcnemar():
    # 6 seeds gained, none lost, of 7: p = 2 / 2^6
    test, first, second, paired = difference(mean_sample(names(7), [0] * 6 + [1]), mean_sample(names(7), [1] * 7))
    assert (first, second, paired) == (pytest.approx(1 / 7), 1.0, True)
    assert test.p_value == pytest.approx(2 / 64)
    assert test.estimate.value == pytest.approx(6 / 7)
    assert test.estimate.low > 0


def test_another_mean_is_compared_by_swapping_the_pictures_of_each_seed():
    # Gains 1, 2, 4: only all three as they are, or all three turned, lie as far from 0: p = 2 / 2^3.
    test, *_ = difference(mean_sample(names(3), [1, 1, 1]), mean_sample(names(3), [2, 3, 5]))
    assert test.p_value == pytest.approx(0.25)
    assert test.estimate.value == pytest.approx(7 / 3)
    assert "p is 0.25 at best" in test.estimate.note
    assert math.isnan(test.estimate.low)  # no interval, as no value could be rejected


def test_units_are_paired_by_their_names_whatever_their_order():
    first = mean_sample(["0:0", "0:1", "1:0"], [1.0, 2.0, 3.0])
    second = mean_sample(["1:0", "0:0", "2:0", "0:1"], [3.5, 1.5, 99.0, 2.5])  # 2:0 has no partner
    test, one, other, paired = difference(first, second)
    assert paired
    assert (one, other, test.estimate.n) == (2.0, 2.5, 3)
    assert test.p_value == 0.25  # 2 / 2^3


def test_arms_without_a_shared_seed_are_compared_by_fishers_test_and_its_interval():
    first, second = mean_sample(names(10), [1, 0] * 5), mean_sample(names(20, 50), [1] * 19 + [0])
    test, *_, paired = difference(first, second)
    assert not paired
    one_sided = stats.fisher_exact([[19, 1], [5, 5]], alternative="greater").pvalue
    assert test.p_value == pytest.approx(2 * one_sided)
    assert test.estimate.low > 0  # p = 0.018
    at_p, *_ = difference(first, second, confidence=1 - test.p_value)
    assert at_p.estimate.low == pytest.approx(0, abs=1e-4)  # the interval at the level of p ends at 0


def test_a_difference_of_corrected_shares_is_that_as_read_divided_by_youdens_index():
    units, first, second = names(40), [1] * 10 + [0] * 30, [1] * 24 + [0] * 16
    corrected = mean_sample(units, first, errors=ERRORS)
    raw, *_ = difference(mean_sample(units, first), mean_sample(units, second))
    found, one, other, _ = difference(corrected, mean_sample(units, second, errors=ERRORS))
    assert found.estimate.value == pytest.approx(raw.estimate.value / 0.7)
    assert (one, other) == pytest.approx(((0.25 - 0.2) / 0.7, (0.6 - 0.2) / 0.7))
    assert found.p_value == raw.p_value
    found, one, other, _ = difference(corrected, mean_sample(units, second))  # of one arm the errors are not known
    assert (one, other) == (0.25, 0.6)
    assert "without correction" in found.estimate.note


def test_a_stereotype_score_has_no_test_beside_that_of_its_share():
    rng = np.random.default_rng(3)
    first, second = rng.random(50) < 0.5, rng.random(50) < 0.8
    found, *_ = difference(mean_sample(names(50), first, reference=0.4), mean_sample(names(50), second, reference=0.4))
    assert math.isnan(found.p_value)
    assert "difference of P" in found.estimate.note
    assert found.estimate.value == pytest.approx(max(0, second.mean() - 0.4) - max(0, first.mean() - 0.4))


def test_other_real_world_rates_move_the_interval_of_a_difference_of_shares():
    values = [0] * 6 + [1], [1] * 7
    share, *_ = difference(*(mean_sample(names(7), of) for of in values))
    sides = [mean_sample(names(7), of, rate=rate) for of, rate in zip(values, (0.1, 0.6), strict=True)]
    found, first, second, _ = difference(*sides)
    assert (first, second) == pytest.approx((1 / 7 - 0.1, 1 - 0.6))
    ends = [(one.estimate.low, one.estimate.value, one.estimate.high) for one in (share, found)]
    assert ends[1] == pytest.approx([end - 0.5 for end in ends[0]])
    assert share.p_value < 0.05 < found.p_value  # 6/7 - 0.5 is not clear, 6/7 is


def test_the_bootstrap_agrees_with_the_paired_t_test_where_the_number_is_a_mean():
    rng = np.random.default_rng(0)
    x = rng.normal(size=31)
    y = x + rng.normal(0.3, 1.0, size=31)

    def plain(values):
        return Sample(units=tuple(names(31)), statistic=lambda at: values[at].mean(axis=-1), vectorised=True)

    found, *_ = difference(plain(x), plain(y))
    known = stats.ttest_rel(y, x)
    assert found.p_value == pytest.approx(known.pvalue, abs=0.02)
    assert found.estimate.low == pytest.approx(known.confidence_interval().low, abs=0.05)


def p_values(compare, n_runs=150, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([compare(rng).p_value for _ in range(n_runs)])


@pytest.mark.parametrize("shared", [True, False])
def test_without_a_difference_p_is_uniform_for_a_spread_of_few_pictures(shared):
    def compare(rng):
        common = rng.normal(size=19) if shared else 0
        x, y = (common + rng.normal(size=19) for _ in range(2))
        return difference(spread(x), spread(y, names(19, 0 if shared else 100)))[0]

    p = p_values(compare)
    assert 0.01 <= (p <= 0.1).mean() <= 0.19  # 15 +- 2.9 of 150 are expected
    assert abs(p.mean() - 0.5) < 0.08


@pytest.mark.parametrize("compare", [paired_values, apart_values])
def test_without_a_difference_p_is_uniform_for_a_mean_of_few_pictures(compare):
    def run(rng):
        common = rng.normal(size=11) if compare is paired_values else 0
        x, y = (Values(per_unit=common + rng.normal(size=11)) for _ in range(2))
        return compare(x, y, 0.95, rng)

    p = p_values(run)
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_a_planted_difference_of_a_spread_is_found():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=60), rng.normal(0, 3, size=60)
    found, *_ = difference(spread(x), spread(y))
    assert found.p_value < 1e-4
    assert found.estimate.low < y.std(ddof=1) - x.std(ddof=1) < found.estimate.high


def test_arms_without_any_difference_are_a_test_with_p_1():
    found, *_ = difference(*[mean_sample(names(4), [0.5] * 4)] * 2)
    assert "every unit gives 0" in found.estimate.note
    assert found.p_value == 1.0
    (claim,) = decide_claims([found.estimate])
    assert claim.verdict == "not clear"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (spread([1.0] * 10), spread([1.0] * 10), "same difference"),
        (spread([1.0, 2.0, 4.0]), spread([2.0, 1.0, 9.0]), "fewer than 10"),
        (mean_sample(names(3), [1, 0, 1]), mean_sample(names(3, 2), [1, 0, 1]), "share one picture"),
        (mean_sample([], []), mean_sample(names(3), [1, 0, 1]), "fewer than two"),
        (spread([1.0, 2.0]), spread([np.nan, 2.0]), "undefined"),
    ],
)
def test_what_cannot_be_told_is_no_test_and_says_why(first, second, words):
    found, *_ = difference(first, second)
    assert words in found.estimate.note
    assert math.isnan(found.p_value)
    assert math.isnan(found.estimate.low)


def test_equal_shares_on_few_seeds_are_no_proof_of_equality():
    found, *_ = difference(mean_sample(names(5), [1] * 5), mean_sample(names(5), [1] * 5))
    assert found.p_value == 1
    assert found.estimate.high - found.estimate.low > 0.5


def kinds(values, units=None):
    """Number of different things seen, which grows with pictures."""
    each = np.asarray(values)

    def statistic(places):
        rows = np.atleast_2d(places)
        found = np.array([len(set(each[row])) for row in rows], dtype=float)
        return found if np.ndim(places) == 2 else float(found[0])

    return Sample(units=tuple(units or names(len(each))), statistic=statistic, vectorised=True)


def test_what_depends_on_n_is_compared_at_equal_n():
    rng = np.random.default_rng(0)
    large, small = rng.integers(0, 40, 300), rng.integers(0, 40, 30)
    first, second = kinds(large), kinds(small, names(30, 1000))
    found, one, other, _ = difference(first, second, depends_on_n=True)
    assert other == len(set(small))
    # 30 of 300 without replacement: each kind is missed with C(300 - k, 30) / C(300, 30)
    counts = np.bincount(large, minlength=40)
    expected = sum(1 - stats.hypergeom(300, int(k), 30).pmf(0) for k in counts if k)
    assert one == pytest.approx(expected, abs=0.6)
    assert found.p_value > 0.05
    unequal, *_ = difference(first, second)
    assert unequal.estimate.value < -5  # at their own n they seem to differ


def test_a_subsample_of_all_is_the_number_itself():
    sample = spread([1.0, 2.0, 4.0])
    assert compute_number(sample, np.arange(3), 3, np.random.default_rng(0)) == sample.statistic(np.arange(3))


def test_ranks_are_sure_where_arms_lie_apart_and_not_where_they_overlap():
    rng = np.random.default_rng(0)
    common = rng.normal(size=50)
    low, alike, high = (mean_sample(names(50), common + shift) for shift in (0.0, 0.001, 5.0))
    noisy = mean_sample(names(50, 500), rng.normal(size=50))
    found = rank_arms(numbers_together([low, alike, high, noisy]))
    assert found[2].rank == found[2].low == found[2].high == 1
    # The two that differ by a constant on shared seeds never change places, however close they are.
    assert found[0].rank == found[1].rank + 1 or found[0].rank == found[1].rank + 2
    assert found[3].high - found[3].low == 2  # independent, and as large as the two: 2 to 4
    assert sum(rank.rank for rank in found) == 10


def test_equal_arms_share_a_rank_and_undefined_ones_have_none():
    ones = mean_sample(names(10), [1] * 10)
    assert [(r.rank, r.low, r.high) for r in rank_arms(numbers_together([ones, ones]))] == [(1.5, 1.5, 1.5)] * 2
    undefined = numbers_together([spread([1.0, np.nan]), spread([1.0, 2.0])])
    assert all(math.isnan(rank.rank) for rank in rank_arms(undefined))
    nobody_knows = mean_sample(names(2), [math.nan, math.nan])  # of none of its pictures
    for arms in ([nobody_knows, ones], [nobody_knows, nobody_knows]):
        numbers = numbers_together(arms, depends_on_n=True)
        assert math.isnan(numbers.values[0])
        assert all(math.isnan(rank.rank) for rank in rank_arms(numbers))
    assert math.isnan(compute_number(ones, np.arange(10), 0, np.random.default_rng(0)))
