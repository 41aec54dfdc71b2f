"""Statistics against hand arithmetic, closed forms, scipy, statsmodels and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, xlog1py, xlogy
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from bias_core.errors import InvalidInput
from bias_core.measures.effects import benjamini_hochberg, corrected_prevalence, effect_size, holm, images_needed
from bias_core.measures.intervals import (
    exact_interval,
    exact_p_value,
    jackknife_interval,
    mean_interval,
    pair_noise,
    percentile_estimate,
    product_noise,
    wilson_interval,
)
from bias_core.measures.permutation import permutation_test
from bias_core.measures.sequential import against, confidence_sequence, difference_sequence, share_interval
from bias_core.measures.two_phase import (
    N_DRAWS,
    draw_rater_weights,
    more_labels_needed,
    stratified_mean,
    two_phase_estimate,
    two_phase_shares,
)
from tests.every import every


def two_phase_share(reader, people, *, confidence=0.95, **options):
    """The share of the second of two classes, with its interval."""
    shares = two_phase_shares(reader, people, **options)
    return two_phase_estimate(lambda of: of[..., 1], shares, confidence=confidence)


def test_wilson_by_hand():
    # p = 8/10, z = 1.959964, z² = 3.841459. Centre (0.8 + 0.192073) / 1.384146 = 0.716740;
    # reach 1.959964 √(0.016 + 0.009604) / 1.384146 = 0.226578. So 0.490162 and 0.943318.
    estimate = wilson_interval(8, 10, null_value=0.5)
    assert estimate.value == 0.8
    assert estimate.low == pytest.approx(0.490162, abs=1e-6)
    assert estimate.high == pytest.approx(0.943318, abs=1e-6)
    assert (estimate.n, estimate.null_value, estimate.method) == (10, 0.5, "Wilson 95 %")


@every([(0, 1), (1, 1), (0, 7), (7, 7), (3, 11)])
def test_wilson_agrees_with_scipy_and_has_a_width_at_the_ends(n_positive, n):
    estimate = wilson_interval(n_positive, n, confidence=0.9)
    other = stats.binomtest(n_positive, n).proportion_ci(0.9, method="wilson")
    np.testing.assert_allclose([estimate.low, estimate.high], [other.low, other.high], atol=1e-12)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.high - estimate.low > 0.1


def acceptability(k, n, null):
    """Blaker's, as a sum of the probabilities of all counts whose smaller tail is no more probable than that of k."""
    each = stats.binom.pmf(np.arange(n + 1), n, null)
    tails = np.minimum(np.cumsum(each), np.cumsum(each[::-1])[::-1])
    return float(each[tails <= tails[k] * (1 + 1e-9)].sum())


@pytest.mark.parametrize("n", [1, 3, 8, 13])
def test_the_exact_interval_is_what_its_test_does_not_reject(n):
    grid = np.linspace(0.001, 0.999, 400)
    for k, confidence in itertools.product(range(n + 1), (0.9, 0.95)):
        found, p_values = exact_interval(k, n, confidence=confidence), [acceptability(k, n, null) for null in grid]
        kept = grid[np.array(p_values) > 1 - confidence]
        assert found.low == (0 if k == 0 else pytest.approx(kept[0], abs=0.003))
        assert found.high == (1 if k == n else pytest.approx(kept[-1], abs=0.003))
        for null in grid[::9]:
            assert (exact_p_value(k, n, null) <= 1 - confidence) == (not found.low <= null <= found.high)
        outer = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
        assert outer.low - 1e-9 <= found.low <= k / n <= found.high <= outer.high + 1e-9


def test_a_share_at_its_null_value_is_called_different_in_at_most_one_run_in_twenty():
    worst = dict.fromkeys(("exact", "Wilson"), 0.0)
    for n, null in itertools.product((8, 16, 32, 64), np.arange(0.05, 0.96, 0.01)):
        each = stats.binom.pmf(np.arange(n + 1), n, null)
        for name, interval in (("exact", exact_interval), ("Wilson", wilson_interval)):
            found = [interval(k, n) for k in range(n + 1)]
            wrong = sum(p for p, one in zip(each, found, strict=True) if not one.low <= null <= one.high)
            worst[name] = max(worst[name], wrong)
    assert worst["exact"] <= 0.05
    assert worst["Wilson"] > 0.1  # of 8


def test_p_of_a_share_is_that_of_the_interval_beside_it():
    for k, n, null in ((13, 16, 0.5), (3, 40, 0.2), (40, 40, 0.8)):
        watched = share_interval(k, n, fixed_n=False, null_value=null)
        assert watched.p_value == pytest.approx(min(1.0, math.exp(-log_mixture(null, k, n))), rel=1e-6)
        assert against(watched, watched.low, 0.95).p_value == pytest.approx(0.05, rel=1e-6)
        fixed = share_interval(k, n, null_value=null)
        assert against(share_interval(k, n), null, 0.95).p_value == fixed.p_value == exact_p_value(k, n, null)
    corrected = corrected_prevalence(59, 100, sensitivity=0.95, specificity=0.95)
    assert against(corrected, corrected.low, 0.95).p_value == pytest.approx(0.05)
    assert math.isnan(share_interval(3, 9).p_value)
    assert math.isnan(against(share_interval(3, 9), None, 0.95).p_value)


def test_percentiles_reach_as_far_as_students_t_and_their_p_is_that_of_the_ends():
    draws = np.random.default_rng(0).normal(3, 0.2, size=9_999)  # resampled means of 101 units with a spread of 2
    estimate = percentile_estimate(3.0, draws, n=101, null_value=2.6)
    t = stats.t.ppf(0.975, 100) * 0.2 * math.sqrt(101 / 100)  # a resampled mean varies by √((n − 1) / n) less
    np.testing.assert_allclose([estimate.low, estimate.high], [3 - t, 3 + t], atol=0.02)
    at_the_end = percentile_estimate(3.0, draws, n=101, null_value=estimate.low)
    assert at_the_end.p_value == pytest.approx(0.05, rel=0.01)
    assert percentile_estimate(3.0, draws, n=101, null_value=2.5).p_value < 0.05  # which the interval leaves out
    assert percentile_estimate(3.0, draws, n=101, null_value=9.0).p_value > 0  # never 0


def test_fewer_than_ten_units_have_no_percentiles_and_say_so():
    few, enough = (percentile_estimate(0.5, np.linspace(0, 1, 99), n=n, null_value=0.0) for n in (9, 10))
    assert np.isnan([few.low, few.high, few.p_value]).all()
    assert "fewer than 10 units" in few.note
    assert enough.low < 0.5 < enough.high
    for undefined in (percentile_estimate(0.5, [0.5] * 10, n=12), percentile_estimate(0.5, [], n=12)):
        assert np.isnan([undefined.low, undefined.high]).all()
        assert "too few different units" in undefined.note


def test_intervals_of_means_are_those_of_scipys_t_tests():
    rng = np.random.default_rng(5)
    x, y = rng.normal(1, 3, size=5), rng.normal(size=11)
    one, two = mean_interval(x, confidence=0.9), mean_interval(x, y, confidence=0.9)
    assert (one.low, one.high) == pytest.approx(stats.ttest_1samp(x, 0).confidence_interval(0.9))
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.9)
    assert (two.low, two.high) == pytest.approx(expected)
    assert (one.n, two.n) == (5, 16)
    assert two.value == pytest.approx(x.mean() - y.mean())


def test_samples_without_any_spread_have_no_interval_of_their_mean():
    for samples in ([[1.0]], [[1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0, 0.0]], [[1.0, 2.0], [3.0]]):
        found = mean_interval(*samples)
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        assert found.note
    assert mean_interval([1.0, 1.0], [0.0, 2.0]).low < 0  # one side varies


def test_effect_size_by_hand():
    # Means 3 and 1. Variances: {2, 4}: 2; {0, 1, 2}: 1. Pooled (1·2 + 2·1) / 3 = 4/3.
    # Union {2, 4, 0, 1, 2}: mean 1.8, squares 0.04 + 4.84 + 3.24 + 0.64 + 0.04 = 8.8, over 4: 2.2.
    x, y = [2.0, 4.0], [0.0, 1.0, 2.0]
    assert effect_size(x, y) == pytest.approx(2 / math.sqrt(4 / 3))
    assert effect_size(x, y, sd="union") == pytest.approx(2 / math.sqrt(2.2))
    assert effect_size(y, x) == -effect_size(x, y)

    assert 1.9 < effect_size([1.0] * 50 + [1.001], [0.0] * 51, sd="union") < 2  # it stays below 2


def test_samples_that_do_not_vary_have_no_effect_size():
    assert math.isnan(effect_size([1.0, 1.0], [0.0, 0.0]))  # apart, but s = 0
    assert math.isnan(effect_size([1.0, 1.0], [1.0, 1.0], sd="union"))


def test_rogan_gladen_by_hand():
    # (0.59 + 0.95 - 1) / (0.95 + 0.95 - 1) = 0.54 / 0.9 = 0.6; the exact ends are corrected the same way.
    estimate = corrected_prevalence(59, 100, sensitivity=0.95, specificity=0.95)
    low, high = proportion_confint(59, 100, method="binom_test")  # whose test is another one, of the same ends here
    assert estimate.value == pytest.approx(0.6)
    assert estimate.low == pytest.approx((low - 0.05) / 0.9, abs=0.0005)
    assert estimate.high == pytest.approx((high - 0.05) / 0.9, abs=0.002)


def test_a_perfect_reader_needs_no_correction():
    estimate = corrected_prevalence(3, 7, sensitivity=1, specificity=1)
    exact = exact_interval(3, 7)
    assert (estimate.value, estimate.low, estimate.high) == (exact.value, exact.low, exact.high)


def test_a_share_below_the_false_alarm_rate_is_zero_with_a_note():
    # (0.01 + 0.95 - 1) / 0.9 < 0.
    estimate = corrected_prevalence(1, 100, sensitivity=0.95, specificity=0.95)
    assert estimate.value == 0
    assert estimate.low == 0 < estimate.high
    assert "outside [0, 1]" in estimate.note


@pytest.mark.parametrize("n_reader", [None, 150])
def test_corrected_prevalence_covers_the_truth(n_reader):
    rng = np.random.default_rng(2)
    truth, se, sp, n, hits = 0.3, 0.92, 0.88, 97, 0
    for _ in range(600):
        n_positive = rng.binomial(n, truth * se + (1 - truth) * (1 - sp))
        se_seen = se if n_reader is None else rng.binomial(n_reader, se) / n_reader
        sp_seen = sp if n_reader is None else rng.binomial(n_reader, sp) / n_reader
        estimate = corrected_prevalence(
            n_positive, n, sensitivity=se_seen, specificity=sp_seen,
            n_sensitivity=n_reader, n_specificity=n_reader,
        )  # fmt: skip
        hits += estimate.low <= truth <= estimate.high
    assert 0.92 <= hits / 600 <= 0.98


def test_an_uncertain_reader_widens_the_interval():
    known = corrected_prevalence(40, 100, sensitivity=0.9, specificity=0.9)
    estimated = corrected_prevalence(40, 100, sensitivity=0.9, specificity=0.9, n_sensitivity=31, n_specificity=37)
    assert estimated.high - estimated.low > known.high - known.low
    assert estimated.value == known.value


def test_benjamini_hochberg_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.9 times 4/rank: 0.04, 0.04, 0.04, 0.9; minima from above keep them.
    np.testing.assert_allclose(benjamini_hochberg([0.03, 0.9, 0.01, 0.02]), [0.04, 0.9, 0.04, 0.04])


@pytest.mark.parametrize("half_width", [0.31, 0.1, 0.05])
def test_images_needed_is_the_smallest_number_with_which_every_share_is_known(half_width):
    def reach(n):
        ends = [share_interval(k, n) for k in range(n + 1)]
        return max(one.high - one.low for one in ends) / 2

    n = images_needed(half_width)
    assert reach(n) <= half_width + 1e-9
    assert reach(n - 1) > half_width


def test_holm_is_statsmodels_own_also_with_ties():
    rng = np.random.default_rng(2)
    for p_values in (rng.uniform(size=7), rng.choice([0.01, 0.02, 0.5], size=11), np.array([0.2]), np.zeros(3)):
        np.testing.assert_allclose(holm(p_values), multipletests(p_values, method="holm")[1], atol=1e-12)


@every([
    *((wilson_interval, k, {}, f"got {k[0]} of {k[1]}") for k in ((0, 0), (5, 3), (-1, 3), (math.nan, 3))),
    *((wilson_interval, (1, 2), {"confidence": c}, f"got {c}") for c in (0, 1, 95)),
    *((mean_interval, (x,), {}, None) for x in ([], [math.nan, 1.0])),
    (effect_size, ([1.0], [1.0, 2.0]), {}, "at least 2"),
    (effect_size, ([1.0, 2.0], [1.0, 2.0]), {"sd": "cohen"}, "'cohen'"),
    *((corrected_prevalence, (3, 10), reader, r"sensitivity|specificity") for reader in (
        {"sensitivity": 0.4, "specificity": 0.6}, {"sensitivity": 1.2, "specificity": 0.9},
        {"sensitivity": 0.9, "specificity": 0.9, "n_sensitivity": 10},
        {"sensitivity": 0.9, "specificity": 0.9, "n_sensitivity": 10, "n_specificity": 0},
    )),
    *((benjamini_hochberg, (p,), {}, "p_values") for p in ([], [0.1, math.nan], [0.1, 1.2], [-0.1])),
    *((images_needed, (width,), {}, f"got {width}") for width in (0, 0.5, -1, 5)),
    (permutation_test, ([0.25] * 3, [0.25] * 5), {}, r"All 8 values equal 0\.25"),
    (permutation_test, ([1, 2, 3], [4, 5]), {"n_permutations": 0}, "0"),
    (permutation_test, ([1, 2, 3], [4, 5]), {"alternative": "both"}, "both"),
    *((confidence_sequence, counts, {}, None) for counts in (
        (3, 2), (-1, 5), (0, 0), (1, 2.5), (math.nan, 5), (1, math.nan), ("a", 5), (None, 5), ([], []),
        ([1, 2], [5]), ([5, 4], [10, 20]), ([1, 9], [5, 6]), ([1, 1], [6, 5]), ([[1, 2]], [[3, 4]]), ([1, 2], 5),
        ([1, math.inf], [5, 9]),
    )),
    *((confidence_sequence, (1, 2), {"confidence": c}, "confidence") for c in (0, 1, 1.5, math.nan)),
    *((two_phase_share, *row) for row in (
        (([1, 0, 1], [math.nan] * 3), {}, "at least 2 pictures need a label by people; got 0"),
        (([1, 0, 1], [1, math.nan, math.nan]), {}, "at least 2 pictures need a label by people; got 1"),
        (([1, 0, 1], [1, 0]), {}, r"n = 3; got \(2, 1\)"),
        (([1, 0, math.nan], [1, 0, 1]), {}, "reader_labels"),
        (([], []), {}, "reader_labels"),
        (([1, 0, 1], [1, 0.5, 1]), {}, "0 to 1, or nan for no label; got 0.5"),
        (([1, 0, 1], [1, 0, 2]), {}, "got 2"),
        *((([1, 0, 1], [1, 0, math.nan]), how, "3")
          for how in ({"weights": [1, 2]}, {"weights": [0, 1, 1]}, {"groups": [1, 2]})),
    )),
])  # fmt: skip
def test_what_cannot_be_is_quoted(function, values, options, quoted):
    with pytest.raises(InvalidInput, match=quoted):
        function(*values, **options)


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


def test_one_prompt_is_the_mean_of_student():
    values = [1.0, 2.0, 4.0, 9.0]
    ours, plain = stratified_mean(values, ["a"] * 4), mean_interval(values)
    assert (ours.value, ours.low, ours.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_what_sets_prompts_apart_is_no_chance():
    apart = stratified_mean([0.0, 0.1, 9.0, 9.1], ["a", "a", "b", "b"])
    assert apart.high - apart.low < 1
    one_each = stratified_mean([0.0, 9.0, 4.0], ["a", "b", "c"])
    assert one_each.high - one_each.low > 9


@pytest.mark.parametrize("spreads", [(1,) * 8, (1, 1, 1, 2, 2, 2, 0.5, 0.5)])
def test_two_pictures_of_each_prompt_make_an_interval_that_holds_as_often_as_it_says(spreads):
    rng, prompts = np.random.default_rng(0), np.repeat(range(8), 2)
    drawn = rng.normal(size=(1500, 8, 2)) * np.array(spreads)[:, None]
    held = [one.low <= 0 <= one.high for one in (stratified_mean(values.ravel(), prompts) for values in drawn)]
    # 95 % give or take two standard errors, and a point; with freedom after Satterthwaite it is 97.5 and 98.3 %
    assert 0.93 <= np.mean(held) <= 0.968


def test_values_that_do_not_vary_have_no_interval():
    same = stratified_mean([1.0, 1.0, 2.0, 2.0], ["a", "a", "b", "b"])
    assert same.value == 1.5
    assert math.isnan(same.low)
    with pytest.raises(InvalidInput, match="3 for 2"):
        stratified_mean([1.0, 2.0], ["a", "b", "c"])


def test_the_jackknife_of_a_mean_is_that_of_student_and_keeps_seeds_together():
    values = np.array([1.0, 2.0, 4.0, 9.0, 3.0, 8.0])
    plain = jackknife_interval(lambda kept: float(values[kept].mean()), 6)
    reach = stats.t.ppf(0.975, 5) * values.std(ddof=1) / math.sqrt(6)
    assert plain.high - plain.value == pytest.approx(reach)
    twice = np.repeat(values, 2)  # two prompts that share the seed's draw are one draw
    of_seeds = jackknife_interval(lambda kept: float(twice[kept].mean()), 12, groups=list("aabbccddeeff"))
    assert of_seeds.high == pytest.approx(plain.high)


def test_the_jackknife_says_where_it_has_no_interval():
    assert math.isnan(jackknife_interval(lambda _: 1.0, 6).low)
    assert "undefined" in jackknife_interval(lambda kept: math.nan if kept.sum() < 6 else 1.0, 6).note
    with pytest.raises(InvalidInput, match="2 groups"):
        jackknife_interval(lambda _: 1.0, 3, groups=["a", "b"])
    few = jackknife_interval(lambda kept: float(kept.sum()), 4, groups=[0, 1, 0, 1])
    assert math.isnan(few.low)
    assert few.note == "an interval needs 5 seeds of each prompt; there are 2"


N_X, N_Y, D = 5, 7, 3
MIX = np.array([[1.0, 0.4, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 0.2]])


def skewed_rows(rng, n):
    """Rows that are skewed and lie far from 0, (draws, n, D)."""
    return 3 + rng.exponential(size=(4000, n, D)) @ MIX


def test_the_noise_of_a_product_is_what_many_draws_show():
    rng = np.random.default_rng(0)
    x, y = skewed_rows(rng, N_X), skewed_rows(rng, N_Y)
    seen = ((x.mean(axis=1) - x.mean(axis=(0, 1))) * (y.mean(axis=1) - y.mean(axis=(0, 1)))).sum(axis=1).var()
    told = np.mean([product_noise(a, b) for a, b in zip(x[:800], y[:800], strict=True)])
    covariance = MIX.T @ MIX
    assert np.trace(covariance @ covariance) / (N_X * N_Y) == pytest.approx(told, rel=0.1)
    assert seen == pytest.approx(told, rel=0.15)


def test_the_noise_of_pairs_is_what_many_draws_show_whatever_the_distribution():
    rows = skewed_rows(np.random.default_rng(1), N_X)
    apart = rows - rows.mean(axis=(0, 1))
    sums = apart.sum(axis=1)
    of_pairs = ((sums**2).sum(axis=1) - (apart**2).sum(axis=(1, 2))) / (N_X * (N_X - 1))
    told = np.mean([pair_noise(one) for one in rows])
    assert of_pairs.var() == pytest.approx(told, rel=0.15)


def test_three_rows_do_not_tell_the_noise_of_pairs():
    assert pair_noise(np.eye(3)) == 0


def test_many_rows_give_the_same_as_few_by_either_way_of_adding_up():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(N_X, D)), rng.normal(size=(N_Y, D))
    wide = np.eye(D, 41)  # the same rows in 41 dimensions, where products of rows are the smaller arrays
    assert product_noise(x, y) == pytest.approx(product_noise(x @ wide, y @ wide))
    assert pair_noise(x) == pytest.approx(pair_noise(x @ wide))


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


def test_the_fixed_interval_stands_only_where_n_was_fixed():
    assert share_interval(7, 11, null_value=0.3) == exact_interval(7, 11, null_value=0.3)
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


READERS = [(0.95, 0.9), (0.85, 0.8)]


def drawn(rng, share, errors, *, n=512, n_labelled=64, stratified=False):
    """A reader's labels of all pictures, and right labels by people of some."""
    truth = (rng.random(n) < share).astype(float)
    reader = np.where(truth == 1, rng.random(n) < errors[0], rng.random(n) >= errors[1]).astype(float)
    places = rng.permutation(n)
    if stratified:  # half of the labels from each of the reader's classes, as far as there are so many
        absent = [i for i in places if reader[i] == 0][: n_labelled // 2]
        places = np.array([*absent, *[i for i in places if reader[i] == 1]])
    people = np.full(n, np.nan)
    people[places[:n_labelled]] = truth[places[:n_labelled]]
    return reader, people


def test_the_share_is_the_sum_over_the_reader_s_classes_by_hand():
    # The reader calls 60 of 90 present. Of the 12 labelled among these people call 9 present, PPV = 3/4; of the 6
    # among the others 2, FOR = 1/3. P = 2/3 · 3/4 + 1/3 · 1/3 = 11/18.
    reader = np.repeat([1, 0], [60, 30])
    people = np.full(90, np.nan)
    people[:12], people[60:66] = np.repeat([1, 0], [9, 3]), np.repeat([1, 0], [2, 4])
    estimate = two_phase_share(reader, people)
    assert estimate.value == pytest.approx(11 / 18)
    assert (estimate.n, estimate.note) == (90, "18 of 90 are labelled by people")
    assert 0 < estimate.low < 11 / 18 < estimate.high < 1


def test_the_interval_is_that_of_jeffreys_beta_draws():
    # One class of the reader, so P is people's share alone: Beta(9 + 1/2, 3 + 1/2).
    people = np.r_[np.repeat([1.0, 0.0], [9, 3]), np.full(40, np.nan)]
    estimate = two_phase_share(np.ones(52), people)
    np.testing.assert_allclose([estimate.low, estimate.high], stats.beta(9.5, 3.5).interval(0.95), atol=0.02)
    # A reader that is always right, and of whom everybody knows: Beta(30 + 1/2, 22 + 1/2) of its own share.
    reader = np.repeat([1.0, 0.0], [3000, 2200])
    estimate = two_phase_share(reader, reader)
    np.testing.assert_allclose([estimate.low, estimate.high], stats.beta(3000.5, 2200.5).interval(0.95), atol=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.8, 0.97])
def test_the_interval_covers_and_nothing_is_refused(share):
    rng, n = np.random.default_rng(16), 30
    for errors in READERS:
        inside = 0
        for k in range(n):
            estimate = two_phase_share(*drawn(rng, share, errors, stratified=k % 2 == 1), rng=k)
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
            inside += estimate.low <= share <= estimate.high
        assert inside / n >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / n)


def test_labels_chosen_by_the_reader_s_class_are_not_biased():
    rng = np.random.default_rng(5)
    values = [two_phase_share(*drawn(rng, 0.8, READERS[1], stratified=True)).value for _ in range(80)]
    assert np.mean(values) == pytest.approx(0.8, abs=3 * np.std(values) / math.sqrt(80))
    naive = [np.nanmean(drawn(rng, 0.8, READERS[1], stratified=True)[1]) for _ in range(80)]
    assert np.mean(naive) < 0.72  # people's share of what they were shown


def test_weights_mend_labels_that_were_chosen_unequally_within_a_class():
    # People labelled all 10 of one kind, who are all present, and 10 of the 90 others, who are all absent.
    reader, people = np.ones(100), np.full(100, np.nan)
    people[:10], people[10:20] = 1, 0
    assert two_phase_share(reader, people).value == 0.5
    weights = np.repeat([1.0, 9.0], [10, 90])
    mended = two_phase_share(reader, people, weights=weights)
    assert mended.value == pytest.approx(0.1)
    assert mended.high < 0.5
    same = two_phase_share(reader, people, weights=np.full(100, 7.0))
    assert (same.value, same.low, same.high) == pytest.approx((0.5, 0.29, 0.71), abs=0.02)


def test_raters_who_disagree_widen_the_interval_and_those_who_agree_do_not():
    rng = np.random.default_rng(2)
    reader, people = drawn(rng, 0.8, READERS[0])
    alone, alike = two_phase_share(reader, people), two_phase_share(reader, np.column_stack([people] * 3))
    assert alike.value == alone.value
    assert alike.high - alike.low == pytest.approx(alone.high - alone.low, abs=0.01)
    votes = np.column_stack([people] * 3)
    one_says_no = np.flatnonzero(people == 1)[:20]
    votes[one_says_no, 2] = 0  # the majority is as before
    apart = two_phase_share(reader, votes)
    assert apart.high - apart.low > 1.3 * (alone.high - alone.low)
    assert apart.low < alone.low - 0.05


@pytest.mark.slow
def test_raters_with_thresholds_of_their_own_are_covered_where_a_majority_alone_is_not():
    rng, inside, n = np.random.default_rng(8), np.zeros(2), 24
    for k in range(n):
        clear = rng.normal(size=512)  # most raters of the pool say yes above 0: of half the pictures
        reader = np.where(clear > 0, rng.random(512) < 0.85, rng.random(512) >= 0.8).astype(float)
        votes = np.full((512, 12), np.nan)
        thresholds = rng.normal(size=12) * 0.5
        for i in range(64):
            who = rng.permutation(12)[:3]
            votes[i, who] = clear[i] + rng.normal(size=3) * 0.5 > thresholds[who]
        merged = np.full(512, np.nan)
        merged[:64] = np.nanmean(votes[:64], axis=1) > 0.5
        for column, people in enumerate((merged, votes)):
            estimate = two_phase_share(reader, people, rng=k)
            inside[column] += estimate.low <= 0.5 <= estimate.high
    assert inside[1] / n >= 0.9 > inside[0] / n


def test_more_than_two_classes_have_dirichlet_rows():
    # One class of the reader; people say 0, 1, 2 of 6, 3 and 1 pictures.
    reader, people = np.ones(50), np.r_[np.repeat([0.0, 1.0, 2.0], [6, 3, 1]), np.full(40, np.nan)]
    shares = two_phase_shares(reader, people, n_classes=3)
    np.testing.assert_allclose(shares.value, [0.6, 0.3, 0.1])
    wanted = stats.dirichlet(np.array([6, 3, 1]) + 1 / 3)  # one picture beforehand, spread evenly
    np.testing.assert_allclose(shares.draws.mean(axis=0), wanted.mean(), atol=0.01)
    np.testing.assert_allclose(shares.draws.var(axis=0), wanted.var(), atol=0.002)
    assert shares.draws.shape == (N_DRAWS, 3)


@pytest.mark.slow
def test_intervals_of_five_classes_hold_common_and_rare_ones_from_forty_labels():
    rng, planted, n, repetitions = np.random.default_rng(5), np.array([0.5, 0.35, 0.08, 0.05, 0.02]), 200, 60
    held = np.zeros(5)
    for seed in range(repetitions):
        truth = rng.choice(5, n, p=planted)
        read = np.where(rng.random(n) < 0.85, truth, rng.integers(5, size=n))
        shares = two_phase_shares(read, np.where(np.arange(n) < 40, truth, np.nan), n_classes=5, rng=seed)
        low, high = np.quantile(shares.draws, [0.025, 0.975], axis=0)
        held += (low <= planted) & (planted <= high)
    assert (held / repetitions >= 0.9).all()  # with half a picture of each beforehand the rarest in 85 %


def test_two_people_of_one_picture_are_not_counted_as_two_pictures():
    rng = np.random.default_rng(3)
    reader, people = drawn(rng, 0.6, READERS[1], n=300, n_labelled=60)
    once = two_phase_share(reader, people)
    twice = two_phase_share(np.repeat(reader, 2), np.repeat(people, 2))
    paired = two_phase_share(np.repeat(reader, 2), np.repeat(people, 2), groups=np.repeat(np.arange(300), 2))
    width = once.high - once.low
    assert twice.high - twice.low < 0.8 * width
    assert paired.high - paired.low == pytest.approx(width, rel=0.1)
    assert paired.value == pytest.approx(once.value)


def test_a_class_of_the_reader_without_labels_is_said_and_not_taken_as_known():
    reader = np.repeat([1.0, 0.0], [90, 10])
    people = np.r_[np.ones(30), np.full(70, np.nan)]
    estimate = two_phase_share(reader, people)
    assert estimate.value == pytest.approx(0.95)  # nothing is known of the tenth: a half of it
    assert estimate.low < 0.91
    assert estimate.high > 0.98
    assert "10 are in classes of the classifier without any label" in estimate.note


def test_differences_share_what_raters_differ_in():
    rng = np.random.default_rng(4)
    raters = draw_rater_weights(3, 0)
    arms = []
    for k in range(2):
        reader, people = drawn(rng, 0.6, READERS[0], n_labelled=200)
        votes = np.column_stack([people] * 3)
        votes[np.flatnonzero(people == 1)[:60], 2] = 0  # the third rater says no more often, in both arms
        arms.append((reader, votes, k + 1))

    def difference(**how):
        samples = [two_phase_shares(reader, votes, rng=seed, **how) for reader, votes, seed in arms]
        return two_phase_estimate(lambda one, other: other[..., 1] - one[..., 1], *samples, null_value=0.0)

    shared, apart = difference(rater_weights=raters), difference()
    assert shared.high - shared.low < apart.high - apart.low
    assert shared.null_value == 0.0


def test_as_many_more_labels_as_said_reach_the_width():
    rng = np.random.default_rng(6)
    wanted, widths = [], []
    for _ in range(12):
        reader, people = drawn(rng, 0.8, READERS[0])
        wanted.append(more_labels_needed(lambda p: p[..., 1], two_phase_shares(reader, people), half_width=0.05))
    more = int(np.median(wanted))
    assert 16 < more < 200
    for _ in range(12):
        estimate = two_phase_share(*drawn(rng, 0.8, READERS[0], n_labelled=64 + more))
        widths.append((estimate.high - estimate.low) / 2)
    assert np.mean(widths) == pytest.approx(0.05, abs=0.006)
    shares = two_phase_shares(*drawn(rng, 0.8, READERS[0], n_labelled=500))
    assert more_labels_needed(lambda p: p[..., 1], shares) == 0
    shares = two_phase_shares(*drawn(rng, 0.5, READERS[0], n=100, n_labelled=40))
    assert more_labels_needed(lambda p: p[..., 1], shares, half_width=0.01) == math.inf  # of 100 pictures
    with pytest.raises(InvalidInput, match="half_width"):
        more_labels_needed(lambda p: p[..., 1], shares, half_width=0)


def test_the_same_seed_gives_the_same_interval():
    reader, people = drawn(np.random.default_rng(1), 0.5, READERS[0])
    first, again, other = (two_phase_share(reader, people, rng=seed) for seed in (3, 3, 4))
    assert first == again != other
    assert two_phase_share(reader, people, confidence=0.5).method == "two-phase sampling, Jeffreys 50 %"
