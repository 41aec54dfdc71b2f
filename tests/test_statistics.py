"""Intervals, effect sizes and corrections against hand arithmetic, closed forms and simulation."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from bias_core.errors import InvalidInput
from bias_core.stats.effects import (
    benjamini_hochberg,
    bootstrap_interval,
    corrected_prevalence,
    effect_size,
    holm,
    images_needed,
    mean_interval,
    percentile_estimate,
    wilson_interval,
)
from tests.every import every


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


def test_bootstrap_of_a_mean_is_close_to_its_t_interval():
    sample = np.random.default_rng(0).normal(3, 2, size=101)
    estimate = bootstrap_interval(sample, statistic=np.mean, null_value=0.0)
    t = stats.ttest_1samp(sample, 0).confidence_interval()
    assert estimate.value == pytest.approx(sample.mean())
    np.testing.assert_allclose([estimate.low, estimate.high], [t.low, t.high], atol=0.08)
    assert estimate.method == "bootstrap (BCa) 95 %"


def test_bootstrap_hangs_on_no_last_digit():
    """Resamples of the same units are the value itself, in whichever order they are summed."""
    change = np.random.default_rng(0).uniform(-1e-9, 1e-9, (20, 3))
    intervals = [bootstrap_interval(np.array([0.1, 0.7, 0.2]) + one, statistic=np.mean) for one in change]
    assert np.ptp([[one.low, one.high] for one in intervals], axis=0).max() < 1e-8


def test_bootstrap_covers_the_truth():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        estimate = bootstrap_interval(rng.exponential(size=23), statistic=np.mean, n_resamples=400, rng=rng)
        hits += estimate.low <= 1 <= estimate.high
    assert 0.87 <= hits / 200 <= 0.99


def test_bootstrap_says_when_it_falls_back_and_when_there_is_no_interval():
    constant = bootstrap_interval([0.3] * 5, statistic=np.mean)
    assert constant.method == "bootstrap (percentile) 95 %"
    assert "no width" in constant.note
    large = bootstrap_interval(np.arange(2003.0), statistic=np.mean, n_resamples=100)
    assert large.method == "bootstrap (percentile) 95 %"
    assert large.note == ""
    one_unit, equal = bootstrap_interval([0.3], statistic=np.mean), percentile_estimate(0.5, [0.5] * 10, n=2)
    assert one_unit.value == 0.3
    assert np.isnan([one_unit.low, one_unit.high, equal.low]).all()
    assert one_unit.note
    assert "too few" in equal.note


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
    # (0.59 + 0.95 - 1) / (0.95 + 0.95 - 1) = 0.54 / 0.9 = 0.6; Wilson's ends are corrected the same way.
    estimate = corrected_prevalence(59, 100, sensitivity=0.95, specificity=0.95)
    low, high = proportion_confint(59, 100, method="wilson")
    assert estimate.value == pytest.approx(0.6)
    assert estimate.low == pytest.approx((low - 0.05) / 0.9)
    assert estimate.high == pytest.approx((high - 0.05) / 0.9)


def test_a_perfect_reader_needs_no_correction():
    estimate = corrected_prevalence(3, 7, sensitivity=1, specificity=1)
    wilson = wilson_interval(3, 7)
    assert (estimate.value, estimate.low, estimate.high) == (wilson.value, wilson.low, wilson.high)


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
    result = benjamini_hochberg([0.03, 0.9, 0.01, 0.02])
    np.testing.assert_allclose(result.adjusted, [0.04, 0.9, 0.04, 0.04])
    assert result.rejected.tolist() == [True, False, True, True]


@pytest.mark.parametrize("prevalence", [0.0, 0.13, 0.5, 1.0])
@pytest.mark.parametrize("half_width", [0.31, 0.1, 0.03])
def test_images_needed_is_the_smallest_number_that_will_do(prevalence, half_width):
    def reach(n):
        low, high = proportion_confint(prevalence * n, n, method="wilson")
        return (high - low) / 2

    n = images_needed(half_width, prevalence=prevalence)
    assert reach(n) <= half_width + 1e-9
    assert n == 1 or reach(n - 1) > half_width


def test_holm_is_statsmodels_own_also_with_ties():
    rng = np.random.default_rng(2)
    for p_values in (rng.uniform(size=7), rng.choice([0.01, 0.02, 0.5], size=11), np.array([0.2]), np.zeros(3)):
        np.testing.assert_allclose(holm(p_values), multipletests(p_values, method="holm")[1], atol=1e-12)


@every([
    *((wilson_interval, k, {}, f"got {k[0]} of {k[1]}") for k in ((0, 0), (5, 3), (-1, 3), (math.nan, 3))),
    *((wilson_interval, (1, 2), {"confidence": c}, f"got {c}") for c in (0, 1, 95)),
    *((bootstrap_interval, (x,), {"statistic": np.mean}, None) for x in ([], [math.nan, 1.0])),
    (effect_size, ([1.0], [1.0, 2.0]), {}, "at least 2"),
    (effect_size, ([1.0, 2.0], [1.0, 2.0]), {"sd": "cohen"}, "'cohen'"),
    *((corrected_prevalence, (3, 10), reader, r"sensitivity|specificity") for reader in (
        {"sensitivity": 0.4, "specificity": 0.6}, {"sensitivity": 1.2, "specificity": 0.9},
        {"sensitivity": 0.9, "specificity": 0.9, "n_sensitivity": 10},
        {"sensitivity": 0.9, "specificity": 0.9, "n_sensitivity": 10, "n_specificity": 0},
    )),
    *((benjamini_hochberg, (p,), {}, "p_values") for p in ([], [0.1, math.nan], [0.1, 1.2], [-0.1])),
    *((images_needed, (width,), {}, f"got {width}") for width in (0, 0.5, -1, 5)),
])  # fmt: skip
def test_what_cannot_be_is_quoted(function, values, options, quoted):
    with pytest.raises(InvalidInput, match=quoted):
        function(*values, **options)
