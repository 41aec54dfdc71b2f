"""Kendall's τ against hand arithmetic, scipy, a planted order and a null."""

import math

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.agreement import kendall_tau


def test_one_exchanged_pair_of_four_items():
    # 6 pairs, all but (2, 3) in the same order: (5 - 1) / 6.
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]).tau.value == pytest.approx(4 / 6)


def test_ties_are_left_out_of_the_pairs_that_differ():
    # Pairs (1,2) (1,3) (2,3): a differs in the last two, b in all; both of those agree: 2 / sqrt(2 * 3).
    assert kendall_tau([1, 1, 2], [1, 2, 3]).tau.value == pytest.approx(2 / math.sqrt(6))


def test_scores_that_differ_by_rounding_are_tied():
    assert kendall_tau([0.1 + 0.2, 0.3, 1.0], [1, 2, 3]).tau.value == pytest.approx(2 / math.sqrt(6))


@pytest.mark.parametrize("seed", range(5))
def test_scipy_gives_the_same_tau(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 6, 13), rng.normal(size=13)
    assert kendall_tau(a, b).tau.value == pytest.approx(stats.kendalltau(a, b).statistic)


def test_the_p_value_is_that_of_the_exact_test():
    a, b = [3, 1, 4, 5, 9, 2, 6], [2, 7, 1, 8, 12, 3, 9]
    exact = stats.kendalltau(a, b, method="exact").pvalue
    assert kendall_tau(a, b, n_resamples=20_000).p_value == pytest.approx(exact, abs=0.015)


def test_swapping_changes_nothing_and_turning_one_round_changes_the_sign():
    a, b = [3.0, 1.0, 4.0, 5.0, 9.0], [2.0, 7.0, 1.0, 8.0, 12.0]
    tau = kendall_tau(a, b).tau.value
    assert kendall_tau(b, a).tau.value == tau
    assert kendall_tau(a, -np.array(b)).tau.value == -tau


def test_p_values_of_unrelated_orders_are_uniform():
    rng = np.random.default_rng(1)
    p_values = [
        kendall_tau(rng.normal(size=11), rng.normal(size=11), n_resamples=199, rng=rng).p_value for _ in range(200)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_a_planted_order_is_found():
    rng = np.random.default_rng(2)
    x = np.arange(17.0)
    answer = kendall_tau(x, x + rng.normal(scale=2, size=17))
    assert answer.p_value < 0.01
    assert answer.tau.low > 0


def test_many_items_are_looked_at_in_blocks():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=301), rng.normal(size=301)
    assert kendall_tau(a, b, n_resamples=120).tau.value == pytest.approx(stats.kendalltau(a, b).statistic)


def test_a_score_that_does_not_vary_has_no_tau():
    answer = kendall_tau([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])
    assert math.isnan(answer.tau.value)
    assert math.isnan(answer.p_value)
    assert "same for all" in answer.tau.note


def test_resamples_without_a_tau_are_counted():
    assert "were left out" in kendall_tau([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]).tau.note


@pytest.mark.parametrize(("a", "b"), [([], []), ([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, math.nan], [1.0, 2.0])])
def test_what_has_no_order_is_refused(a, b):
    with pytest.raises(InvalidInput):
        kendall_tau(a, b)
