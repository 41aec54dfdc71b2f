"""Counts of objects over images, their tables and intervals, against hand counts and simulations."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from bias_core.errors import InvalidInput
from bias_core.measures.object_distribution import (
    FORMULAS,
    chao_shen_entropy,
    distribution_bias,
    distribution_bias_estimate,
    effective_number,
    gini,
    normalised_entropy,
    object_counts,
    object_distribution,
    positive_counts,
    subset_distribution_bias,
    top_objects,
    word_sets,
)

IMAGES = [["man", "cup", "cup"], {"man"}, ("man", "dog"), ["dog"], []]


def images_of(p, n, rng):
    """Pictures that show object i with probability p[i], independently."""
    return [[f"w{i}" for i in np.flatnonzero(row)] for row in rng.random((n, len(p))) < p]


def test_an_object_counts_once_per_image_and_ties_are_alphabetical():
    assert list(object_counts(IMAGES).items()) == [("man", 3), ("dog", 2), ("cup", 1)]
    assert list(object_counts([["b", "a"]])) == ["a", "b"]


def test_words_of_the_prompt_can_be_left_out():
    prompts = [["man"], ["man"], ["cup"], ["cat"], ["man"]]
    assert object_counts(IMAGES, exclude_prompt=prompts) == {"dog": 2, "cup": 1, "man": 1}


def test_top_objects_show_the_change_against_the_base():
    table = top_objects({"red": 5, "man": 9, "cup": 5, "dog": 1}, {"man": 10, "cup": 1}, n=3)
    assert table["object"].tolist() == ["man", "cup", "red"]
    assert table["delta_n"].tolist() == [-1, 4, 5]
    assert table["share"].tolist() == [9 / 20, 5 / 20, 5 / 20]
    assert list(top_objects({"man": 2}).columns) == ["object", "n", "share"]


def test_the_distribution_states_its_sizes_and_values():
    found = object_distribution(IMAGES * 11)
    # Counts 33, 22, 11 -> 0, 1/2, 1: area 1/4 + 3/4 = 1.
    assert found.distribution_bias.value == 1
    assert (found.n_images, found.n_objects) == (55, 3)
    for estimate in (found.distribution_bias, found.normalised_entropy, found.gini, found.effective_number):
        assert estimate.null_value is None  # few images are uneven by chance: nothing is tested
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.n == 55


@pytest.mark.slow
def test_the_interval_covers_what_runs_of_this_size_show():
    # The truth at n images is the mean over many runs; 95 % intervals of 80 other runs must cover it.
    rng, n = np.random.default_rng(1), 97
    p = np.minimum(0.9, 2 / np.arange(1, 41))
    runs = (rng.random((2000, n, p.size)) < p).sum(axis=1)
    truth = np.mean([distribution_bias(run) for run in runs])
    estimates = [distribution_bias_estimate(images_of(p, n, rng), rng=rng) for _ in range(80)]
    covered = sum(e.low <= truth <= e.high for e in estimates)
    assert covered >= 70  # of 80: below 0.02 for a coverage of 0.95


def test_a_subset_reads_like_a_run_of_that_size():
    rng, n, m = np.random.default_rng(2), 211, 83
    p = np.minimum(0.9, 2 / np.arange(1, 41))
    runs = [distribution_bias((rng.random((m, p.size)) < p).sum(axis=0)) for _ in range(1000)]
    at = [subset_distribution_bias(images_of(p, n, rng), m, n_draws=200, rng=rng) for _ in range(40)]
    standard_error = np.std(runs) * math.sqrt(m / n / 40)
    assert np.mean([e.value for e in at]) == pytest.approx(np.mean(runs), abs=4 * standard_error)
    half_widths = np.mean([(e.high - e.low) / 2 for e in at])
    assert half_widths == pytest.approx(1.96 * np.std(runs), rel=0.2)
    assert all(e.n == m for e in at)


def test_more_images_of_the_same_model_raise_distribution_bias_but_not_at_equal_n():
    rng = np.random.default_rng(3)
    p = np.array([0.9, *[0.005] * 500])  # with many images more of the rare objects are seen, more than once
    few, many = images_of(p, 100, rng), images_of(p, 1600, rng)
    whole = distribution_bias(list(object_counts(many).values()))
    assert whole > distribution_bias_estimate(few).high
    assert subset_distribution_bias(many, 100).low < distribution_bias_estimate(few).value < whole


def test_a_model_that_favours_few_objects_is_told_from_an_even_one():
    rng = np.random.default_rng(5)
    even = object_distribution(images_of(np.full(20, 0.3), 200, rng))
    biased = object_distribution(images_of(np.array([0.95, *[0.05] * 19]), 200, rng))
    assert biased.distribution_bias.high < even.distribution_bias.low
    assert biased.normalised_entropy.high < even.normalised_entropy.low
    assert biased.gini.low > even.gini.high


def test_pictures_without_objects_are_resampled_too():
    # In (10/12)^12 = 11 % of the resamples there is no object at all, and so no measure.
    estimate = object_distribution([["man", "cup"], ["man"], *[[]] * 10]).effective_number
    assert estimate.n == 12
    assert math.isnan(estimate.low)
    assert "too few" in estimate.note


def test_too_few_images_have_no_interval():
    estimate = distribution_bias_estimate([["man", "dog"], ["man"]])
    assert estimate.value == 0.5
    assert math.isnan(estimate.low)
    assert "too few" in estimate.note


@pytest.mark.parametrize(
    "bad", [[], "dog", ["dog", "cat"], [["dog", 3]], [[]], [["dog"], ["dog"]], [["dog"], 3], {"dog": 2}], ids=str
)
def test_degenerate_images_are_refused(bad):
    with pytest.raises(InvalidInput):
        object_distribution(bad)


def test_lengths_and_sizes_that_cannot_be_are_quoted():
    with pytest.raises(InvalidInput, match="got 1 for 5"):
        object_counts(IMAGES, exclude_prompt=[["man"]])
    with pytest.raises(InvalidInput, match="from 2 to 5"):
        subset_distribution_bias(IMAGES, 6)
    with pytest.raises(InvalidInput, match="n must be"):
        top_objects({"man": 1}, n=0)
    with pytest.raises(InvalidInput):
        top_objects({})
    assert word_sets([[]], "images") == [frozenset()]


def loop(counts):
    n = sum(counts)
    coverage = 1 - sum(c == 1 for c in counts) / n
    total = 0.0
    for count in counts:
        p = coverage * count / n
        total -= p * math.log(p) / (1 - (1 - p) ** n)
    return total


def test_two_objects_by_hand():
    # Shares 2/4 twice, nothing seen once: 2 · (1/2 ln 2) / (1 − 1/2⁴) = ln 2 · 16 / 15.
    assert chao_shen_entropy([2, 2]) == pytest.approx(math.log(2) * 16 / 15)


@pytest.mark.parametrize("counts", [[13, 7, 5, 3, 2, 1, 1], [40, 1], [2, 3, 5], [9, 9, 0, 1]])
def test_it_is_what_a_loop_over_the_formula_finds(counts):
    assert chao_shen_entropy(counts) == pytest.approx(loop([c for c in counts if c]))


def test_objects_that_were_missed_are_allowed_for():
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 102)
    shares /= shares.sum()
    truth = stats.entropy(shares)
    draws = rng.multinomial(150, shares, size=200)
    plain = [stats.entropy(counts[counts > 0]) for counts in draws]
    ours = [chao_shen_entropy(counts) for counts in draws]
    assert abs(np.mean(ours) - truth) < 0.2 * abs(np.mean(plain) - truth)


def test_objects_seen_once_each_tell_nothing():
    assert math.isnan(chao_shen_entropy([1, 1, 1]))
    assert chao_shen_entropy([7]) == 0


MEASURES = (distribution_bias, normalised_entropy, gini, effective_number)
different_counts = st.lists(st.integers(1, 500), min_size=2, max_size=60).filter(lambda c: len(set(c)) > 1)


def loop_distribution_bias(counts):
    """Eq. 2 and Eq. 3 word by word."""
    counts = sorted(counts)
    normalised = [(n - min(counts)) / (max(counts) - min(counts)) for n in counts]
    return sum((a + b) / 2 for a, b in itertools.pairwise(normalised))


def test_distribution_bias_by_hand():
    # Sorted 1, 5, 10 -> (0, 4/9, 1); trapezia (0 + 4/9)/2 + (4/9 + 1)/2 = 2/9 + 13/18 = 17/18.
    assert distribution_bias([10, 5, 1]) == pytest.approx(17 / 18, abs=1e-12)
    # Two objects: one trapezium from 0 to 1.
    assert distribution_bias([3, 8]) == pytest.approx(0.5)


@settings(max_examples=50, deadline=None)
@given(different_counts)
def test_distribution_bias_is_the_area_that_loops_and_scipy_find(counts):
    value = distribution_bias(counts)
    assert value == pytest.approx(loop_distribution_bias(counts), rel=1e-9)
    low, high = min(counts), max(counts)
    curve = (np.sort(counts) - low) / (high - low)
    assert value == pytest.approx(integrate.trapezoid(curve), rel=1e-9)


def test_a_towering_object_lowers_distribution_bias():
    flat, skewed = [9, 8, 7, 6, 5], [90, 8, 7, 6, 5]
    assert distribution_bias(skewed) < distribution_bias(flat)
    assert normalised_entropy(skewed) < normalised_entropy(flat)
    assert gini(skewed) > gini(flat)
    assert effective_number(skewed) < effective_number(flat)


def test_normalised_entropy_by_hand_and_by_scipy():
    # Shares 1/2, 1/4, 1/4: entropy 1/2 ln 2 + 1/2 ln 4 = 1.5 ln 2; the largest of three is ln 3.
    assert normalised_entropy([2, 1, 1]) == pytest.approx(1.5 * math.log(2) / math.log(3))
    counts = [13, 7, 5, 3, 2]
    assert normalised_entropy(counts) == pytest.approx(stats.entropy(counts) / math.log(5))
    assert effective_number(counts) == pytest.approx(math.exp(stats.entropy(counts)))


@settings(max_examples=50, deadline=None)
@given(different_counts)
def test_gini_is_half_the_mean_absolute_difference_over_the_mean(counts):
    k = len(counts)
    expected = sum(abs(a - b) for a in counts for b in counts) / (2 * k * k * (sum(counts) / k))
    assert gini(counts) == pytest.approx(expected, abs=1e-12)
    assert 0 <= gini(counts) <= 1 - 1 / k


def test_an_even_distribution_has_the_null_values():
    assert normalised_entropy([4, 4, 4]) == pytest.approx(1, abs=1e-12)
    assert gini([4, 4, 4]) == 0
    assert effective_number([4, 4, 4]) == pytest.approx(3)


def test_equal_counts_have_no_distribution_bias_and_are_quoted():
    with pytest.raises(InvalidInput, match="all 3 objects have 4"):
        distribution_bias([4, 4, 4])
    with pytest.raises(InvalidInput, match="all 1 objects have 7"):
        distribution_bias([7])


@pytest.mark.parametrize("measure", [normalised_entropy, gini])
def test_one_object_has_no_evenness(measure):
    with pytest.raises(InvalidInput, match="at least 2"):
        measure([7, 0])


@pytest.mark.parametrize("measure", MEASURES)
def test_objects_that_never_appear_change_nothing(measure):
    assert measure([0, 3, 0, 1, 2]) == measure([3, 1, 2])
    assert list(positive_counts([0, 2])) == [2]


def test_the_formulas_of_many_counts_are_those_of_each():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(13, 7)).astype(float)
    for measure in MEASURES:
        np.testing.assert_allclose(FORMULAS[measure.__name__](counts), [measure(row) for row in counts], atol=1e-12)


def test_undefined_rows_are_nan_and_never_0():
    rows = np.array([[2.0, 2.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isnan(FORMULAS["distribution_bias"](rows)).all()
    assert np.isnan(FORMULAS["normalised_entropy"](rows)).tolist() == [False, True, True]
    assert np.isnan(FORMULAS["gini"](rows)).tolist() == [False, False, True]
    assert np.isnan(FORMULAS["effective_number"](rows)).tolist() == [False, False, True]
