"""The permutation test against hand counts, a naive loop, scipy, and its own null."""

import itertools

import numpy as np
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.stats.permutation import permutation_test
from tests.every import every


def test_four_against_four_separated_gives_two_of_seventy():
    # C(8, 4) = 70 splits; only the observed one and its mirror are as extreme: 2 / 70.
    test = permutation_test([5, 6, 7, 8], [1, 2, 3, 4])
    assert test.exact
    assert test.n_permutations == 70
    assert test.p_value == 2 / 70
    for alternative, p_value in (("greater", 1 / 70), ("less", 1.0)):  # one tail
        assert permutation_test([5, 6, 7, 8], [1, 2, 3, 4], alternative=alternative).p_value == p_value


@every([
    (3, 3, {}, 2 / 20), (3, 4, {}, 1 / 35), (4, 4, {}, 2 / 70), (3, 3, {"alternative": "greater"}, 1 / 20),
    (9, 8, {}, 1 / 1001), (2, 2, {}, 2 / 6),
])  # fmt: skip
def test_clearly_separated_values_reach_the_smallest_p_and_none_goes_below(n_x, n_y, options, smallest):
    test = permutation_test(100.0 + np.arange(n_x), np.arange(n_y), **options)
    assert test.smallest_p_value == pytest.approx(smallest)
    assert test.p_value == test.smallest_p_value


def test_unequal_sizes_are_kept():
    # C(5, 2) = 10 splits of {1, 2, 3, 4, 10}; S = (4 + 10)/2 - (1 + 2 + 3)/3 = 5.
    # |S*| >= 5 only for {4, 10}: for {1, 2} S* = 1.5 - 17/3 = -4.17, for {3, 10} S* = 6.5 - 7/3 = 4.17.
    test = permutation_test([4, 10], [1, 2, 3])
    assert test.n_permutations == 10
    assert test.p_value == 1 / 10


def test_exact_agrees_with_a_naive_loop_and_with_scipy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=3), rng.normal(0.8, 1, size=5)
    pooled, observed = np.concatenate([x, y]), abs(x.mean() - y.mean())
    splits = list(itertools.combinations(range(8), 3))
    n_extreme = 0
    for chosen in splits:
        rest = [i for i in range(8) if i not in chosen]
        n_extreme += abs(pooled[list(chosen)].mean() - pooled[rest].mean()) >= observed - 1e-12
    test = permutation_test(x, y)
    assert test.p_value == n_extreme / len(splits)
    one_sided = stats.permutation_test((x, y), lambda a, b: a.mean() - b.mean(), alternative="less")
    assert permutation_test(x, y, alternative="less").p_value == pytest.approx(one_sided.pvalue)


def test_a_sampled_p_value_is_never_zero_and_close_to_the_exact_one():
    rng = np.random.default_rng(1)
    x, y = rng.normal(1, 1, 7), rng.normal(0, 1, 5)
    exact = permutation_test(x, y, n_permutations=792)  # C(12, 5) = 792
    sampled = permutation_test(x, y, n_permutations=791)
    assert exact.exact
    assert not sampled.exact
    assert sampled.p_value == pytest.approx(exact.p_value, abs=0.03)
    far = permutation_test(np.arange(50) + 1000.0, np.arange(50), n_permutations=99)
    assert far.p_value == 1 / 100


def test_blocks_of_permutations_change_nothing_but_speed():
    # 3,000 values and 2,000 permutations are more numbers than one block holds.
    values = np.random.default_rng(2).normal(size=3000)
    test = permutation_test(values[:1000], values[1000:], n_permutations=2000)
    z = stats.ttest_ind(values[:1000], values[1000:])
    assert test.p_value == pytest.approx(z.pvalue, abs=0.04)


@pytest.mark.parametrize(("n_x", "n_y", "n_permutations"), [(3, 5, 1000), (11, 13, 199)])
def test_null_p_values_are_uniform(n_x, n_y, n_permutations):
    rng = np.random.default_rng(4)
    samples = ((rng.normal(size=n_x), rng.normal(size=n_y)) for _ in range(400))
    p_values = np.array([permutation_test(*both, n_permutations=n_permutations, rng=rng).p_value for both in samples])
    # At most alpha, within sampling error, and not far below it: the steps of 56 splits are 1/56.
    for alpha in (0.05, 0.1, 0.25, 0.5):
        error = 3 * np.sqrt(alpha * (1 - alpha) / 400)
        assert alpha - 1 / 56 - error <= (p_values <= alpha).mean() <= alpha + error


@every([
    ([0.25] * 3, [0.25] * 5, {}, r"All 8 values equal 0\.25"),
    ([1, 2, 3], [4, 5], {"n_permutations": 0}, "0"),
    ([1, 2, 3], [4, 5], {"alternative": "both"}, "both"),
])  # fmt: skip
def test_what_cannot_be_tested_is_quoted(x, y, options, quoted):
    with pytest.raises(InvalidInput, match=quoted):
        permutation_test(x, y, **options)
