"""Counts of objects over images, their tables and intervals, against hand counts and simulations."""

import math

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.object_distribution import (
    distribution_bias,
    distribution_bias_at,
    distribution_bias_estimate,
    object_counts,
    object_distribution,
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
    assert found.normalised_entropy.null_value == 1
    assert found.gini.null_value == 0
    assert found.distribution_bias.null_value is None
    for estimate in (found.distribution_bias, found.normalised_entropy, found.gini, found.effective_number):
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
    at = [distribution_bias_at(images_of(p, n, rng), m, n_draws=200, rng=rng) for _ in range(40)]
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
    assert distribution_bias_at(many, 100).low < distribution_bias_estimate(few).value < whole


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
        distribution_bias_at(IMAGES, 6)
    with pytest.raises(InvalidInput, match="n must be"):
        top_objects({"man": 1}, n=0)
    with pytest.raises(InvalidInput):
        top_objects({})
    assert word_sets([[]], "images") == [frozenset()]
