"""H_J, M_G and the comparison of models against hand arithmetic and the published tables."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.object_bias import (
    DIMENSIONS,
    added_objects,
    compare_models,
    compared_objects,
    generative_miss_rate,
    jaccard_distances,
    jaccard_hallucination,
    jaccard_hallucination_estimate,
    miss_probability,
    miss_rate_estimate,
    missing_objects,
    missing_things,
)
from bias_core.measures.objects import extract_objects
from bias_core.types import ReaderErrors

STUDIES = Path(__file__).parents[2] / "assets" / "studies"
COLUMNS = {"Dist. Bias": "distribution_bias", "Hallucination": "hallucination", "Gen. Miss Rate": "miss_rate"}
WORDS = st.sets(st.sampled_from(["person", "book", "tree", "car", "dog"]))


def published(name):
    return pd.read_csv(STUDIES / f"tbyb_{name}_evaluations.csv").rename(columns=COLUMNS)


def test_hallucination_by_hand():
    # {person, cup} and {person, dog, table}: 1 of 4 shared, 3/4. {cat} and {cat}: 0. Mean 3/8.
    prompts, images = [["person", "cup"], ["cat"]], [["person", "dog", "table"], ["cat", "cat"]]
    assert jaccard_distances(prompts, images).tolist() == [0.75, 0]
    assert jaccard_hallucination(prompts, images) == 0.375


def test_a_single_image_can_be_given_alone():
    assert jaccard_hallucination({"person", "cup"}, {"person"}) == 0.5
    assert jaccard_hallucination(["person", "cup"], ["person"]) == 0.5
    assert jaccard_hallucination({"cup"}, set()) == 1


def test_a_man_is_the_person_that_was_asked_for():
    assert jaccard_hallucination([["person"]], [["man", "woman"]]) == 0
    assert jaccard_hallucination([["person"]], [["man"]], fold_person=False) == 1
    # An astronaut was asked for too: {person, astronaut} and {person} share 1 of 2; with a suit 1 of 3.
    asked = extract_objects("a picture of a person who is a good astronaut")
    shown = [extract_objects(caption) for caption in ("a man", "a man in a suit")]
    assert jaccard_distances([asked] * 2, shown) == pytest.approx([1 / 2, 2 / 3])


def test_two_empty_sets_are_nan_and_counted():
    prompts, images = [[], ["dog"], []], [[], ["cat"], ["cat"]]
    assert np.isnan(jaccard_distances(prompts, images)).tolist() == [True, False, False]
    estimate = jaccard_hallucination_estimate(prompts, images)
    assert (estimate.value, estimate.n) == (1, 2)
    assert "1 of 3 images" in estimate.note
    nothing = jaccard_hallucination_estimate([[]], [[]])
    assert math.isnan(nothing.value)
    assert (nothing.n, "1 of 1" in nothing.note) == (0, True)
    assert math.isnan(jaccard_hallucination(set(), set()))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=7))
def test_hallucination_is_symmetric_bounded_and_0_only_for_equal_sets(pairs):
    prompts, images = [x for x, _ in pairs], [y for _, y in pairs]
    distances = jaccard_distances(prompts, images)
    np.testing.assert_array_equal(distances, jaccard_distances(images, prompts))
    for distance, x, y in zip(distances, prompts, images, strict=True):
        shared = sum(word in y for word in x)
        either = len(x) + len(y) - shared
        assert math.isnan(distance) if not either else distance == pytest.approx(1 - shared / either)


def test_hallucination_has_an_interval_over_images():
    rng = np.random.default_rng(0)
    prompts = [["person", "cup"]] * 53
    images = [["person", "cup"] if hit else ["person", "dog"] for hit in rng.random(53) < 0.5]
    estimate = jaccard_hallucination_estimate(prompts, images)
    distances = jaccard_distances(prompts, images)
    assert estimate.value == pytest.approx(distances.mean())
    reach = 1.96 * distances.std() / math.sqrt(53)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(reach, rel=0.15)


@pytest.mark.parametrize("bad", [[], "book", [["a"]] * 3, [1, 2], [["a"], "b"], [["a"], None]], ids=str)
def test_words_that_are_none_are_refused(bad):
    with pytest.raises(InvalidInput):
        jaccard_hallucination(bad, [["a"], ["b"]])
    with pytest.raises(InvalidInput):
        jaccard_hallucination([["a"], ["b"]], bad)


def test_miss_probability_is_the_softmax_of_scaled_cosines():
    rng = np.random.default_rng(0)
    cosines = rng.uniform(0.1, 0.3, size=(11, 2))
    softmax = special.softmax(100 * cosines, axis=1)[:, 1]
    np.testing.assert_allclose(miss_probability(cosines[:, 0], cosines[:, 1]), softmax)


@pytest.mark.parametrize(
    ("prompt", "negative", "scale"),
    [([], [], 100), ([0.2], [0.2, 0.3], 100), ([math.nan], [0.2], 100), ([20.0], [0.2], 100), ([0.2], [0.1], 0)],
)
def test_similarities_that_are_none_are_refused(prompt, negative, scale):
    with pytest.raises(InvalidInput):
        miss_probability(prompt, negative, logit_scale=scale)


def test_miss_rate_by_hand():
    # 0.9 and 0.6 exceed 0.5; 0.5 does not: 2 of 5. The mean of the probabilities is 2.3 / 5.
    p_miss = [0.9, 0.6, 0.5, 0.2, 0.1]
    assert generative_miss_rate(p_miss) == 0.4
    assert generative_miss_rate(p_miss, threshold=0.8) == 0.2
    assert generative_miss_rate(p_miss, threshold=None) == pytest.approx(0.46)


def test_the_miss_rate_has_an_exact_interval():
    interval = exact_interval(2, 11)
    estimate = miss_rate_estimate([0.9] * 2 + [0.1] * 9)
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    assert estimate.n == 11
    mean = miss_rate_estimate(np.linspace(0.1, 0.3, 11), threshold=None)
    assert mean.low < 0.2 < mean.high
    assert mean.method == "Student's t 95 %"


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_threshold_is_a_probability(threshold):
    with pytest.raises(InvalidInput, match="threshold"):
        generative_miss_rate([0.5], threshold=threshold)


def test_the_published_miss_rates_are_whole_numbers_of_pictures():
    # So they are counts of predicted classes, not means of probabilities: e.g. 0.0238 x 840 = 20 pictures.
    rows = published("general")
    rows = rows[rows["No. Samples"] == 840]
    assert len(rows) == 4
    for rate in rows["miss_rate"]:
        assert round(round(rate * 840) / 840, 4) == rate


def test_the_published_models_are_normalised_by_hand():
    # The first four rows are the paper's base models. B_D 7.123, 5.688, 4.513, 6.668: the span is 2.61.
    table = published("general").iloc[:4].set_index("Model")[list(DIMENSIONS)]
    found = compare_models(table)
    assert found["normalised_distribution_bias"].tolist() == pytest.approx(
        [0, 1.435 / 2.61, 1, 0.455 / 2.61], abs=1e-12
    )
    # H_J 0.656, 0.65, 0.639, 0.652: the span is 0.017. M_G 0.016, 0.009, 0, 0.001: the span is 0.016.
    assert found["normalised_hallucination"].tolist() == pytest.approx([1, 11 / 17, 0, 13 / 17], abs=1e-12)
    assert found["normalised_miss_rate"].tolist() == pytest.approx([1, 9 / 16, 0, 1 / 16], abs=1e-12)
    # sqrt(0 + 1 + 1), sqrt(0.3023 + 0.4187 + 0.3164), 1, sqrt(0.0304 + 0.5848 + 0.0039)
    assert found["distance"].tolist() == pytest.approx([math.sqrt(2), 1.01852, 1, 0.78682], abs=1e-5)
    assert found["rank"].tolist() == [1, 2, 3, 4]


def test_the_task_oriented_table_is_ranked_like_a_loop_over_its_models():
    table = published("task")
    assert len(table) == 12
    found = compare_models(table)
    span = {name: (table[name].min(), table[name].max()) for name in DIMENSIONS}
    for _, row in found.iterrows():
        parts = [(row[name] - span[name][0]) / (span[name][1] - span[name][0]) for name in DIMENSIONS]
        parts[0] = 1 - parts[0]
        assert row["distance"] == pytest.approx(math.hypot(*parts))
    assert sorted(found["rank"]) == list(range(1, 13))
    assert found.sort_values("rank")["distance"].is_monotonic_decreasing


def test_equal_models_share_a_rank():
    table = pd.DataFrame([[9, 0.1, 0.0], [9, 0.1, 0.0], [1, 0.9, 0.5]], columns=list(DIMENSIONS))
    assert compare_models(table)["rank"].tolist() == [2, 2, 1]


def test_a_dimension_in_which_all_agree_is_quoted_and_can_be_left_out():
    table = pd.DataFrame([[9, 0.1, 0.0], [1, 0.9, 0.0]], columns=list(DIMENSIONS))
    with pytest.raises(InvalidInput, match=r"All 2 models have miss_rate 0: .* Leave it out"):
        compare_models(table)
    found = compare_models(table, dimensions=("distribution_bias", "hallucination"))
    assert found["distance"].tolist() == pytest.approx([0, math.sqrt(2)])


@pytest.mark.parametrize("dimensions", [(), ("gini",), ("hallucination", "hallucination")])
def test_dimensions_are_those_of_the_paper(dimensions):
    table = pd.DataFrame([[9, 0.1, 0.0], [1, 0.9, 0.5]], columns=list(DIMENSIONS))
    with pytest.raises(InvalidInput, match="dimensions"):
        compare_models(table, dimensions=dimensions)


ASKED = [["person", "cup"], ["person", "cup"], ["dog", "science"]]
BASE = [["man", "cup", "hat"], ["woman"], ["dog"]]
SHOWN = [["man", "cup", "hat", "sign"], ["lady", "sign"], ["cat", "idea"]]


def test_what_is_added_and_what_is_missing_by_hand():
    # A man and a lady are both a person, an idea and science are nothing to be seen.
    # Beyond the prompt: hat, sign; sign; cat. Under the base: hat; nothing; nothing. (2 + 1 + 1 − 1) / 3.
    added = added_objects(ASKED, SHOWN, BASE)
    assert (added.value, added.n, added.null_value) == (1.0, 3, 0.0)
    # Left out: nothing; the cup; the dog. Under the base: nothing; the cup; nothing.
    assert missing_objects(ASKED, SHOWN, BASE).value == pytest.approx(1 / 3)


def test_a_base_with_another_prompt_is_held_against_that():
    # The base was asked for a tea, and shows one: nothing is added there, and nothing missing.
    added = added_objects([["coffee"]] * 2, [["coffee"]] * 2, [["tea"]] * 2, base_prompt_objects=[["tea"]] * 2)
    assert added.value == 0
    assert missing_objects([["coffee"]] * 2, [[]] * 2, [["tea"]] * 2, base_prompt_objects=[["tea"]] * 2).value == 1


def test_people_without_a_profession_are_one_object_and_what_cannot_be_seen_is_none():
    assert compared_objects(["doctor", "people", "lady", "music", "starbucks"]) == {"person", "doctor", "starbucks"}


@pytest.mark.slow
def test_the_interval_holds_the_planted_share_and_prompts_widen_nothing():
    rng, n_held = np.random.default_rng(0), 0
    prompts = [f"p{i}" for i in range(15)] * 8
    asked = [["cup"]] * len(prompts)
    base = [["cup"]] * len(prompts)
    often = np.array([0.9 if int(p[1:]) < 5 else 0.2 for p in prompts])  # prompts differ, which is no chance
    for _ in range(300):
        shown = [["cup", "sign"] if one else ["cup"] for one in rng.random(len(prompts)) < often]
        added = added_objects(asked, shown, base, strata=prompts)
        n_held += added.low <= often.mean() <= added.high
    assert 0.925 <= n_held / 300 <= 0.975


def test_the_base_against_itself_is_no_change_without_an_interval():
    for measure in (added_objects, missing_objects):
        same = measure(ASKED, BASE, BASE)
        assert same.value == 0
        assert math.isnan(same.low)
        assert same.note


def test_more_of_a_planted_object_is_more_that_is_added():
    base = [["cup"]] * 20
    values = [added_objects(base, [["cup", "sign"]] * n + base[n:], base).value for n in (0, 5, 20)]
    assert values == [0, 0.25, 1]


def test_lengths_that_differ_are_refused():
    with pytest.raises(InvalidInput, match="one entry per image"):
        added_objects(ASKED, SHOWN[:2], BASE)
    with pytest.raises(InvalidInput, match=r"one entry per image|one of the base"):
        missing_objects(ASKED, SHOWN, BASE[:2])


ERRORS = ReaderErrors(sensitivity=0.9, specificity=0.8, n_positive=500, n_negative=500)


def test_the_share_by_hand_and_half_a_yes_is_none():
    # Seen: .9, .6; not seen: .5, .1.
    missing = missing_things([0.9, 0.6, 0.5, 0.1])
    assert (missing.value, missing.n, missing.null_value) == (0.5, 4, 0.0)
    assert missing.low < 0.5 < missing.high


def test_the_errors_of_the_judge_are_corrected_for():
    # 69 of 100 yes: (.69 + .8 − 1) / (.9 + .8 − 1) = .7 are there.
    assert missing_things([1.0] * 69 + [0.0] * 31, errors=ERRORS).value == pytest.approx(0.3)


def test_the_corrected_interval_holds_what_was_left_out():
    rng, n_held = np.random.default_rng(0), 0
    for _ in range(200):
        there = rng.random(150) < 0.75
        says = rng.random(150) < np.where(there, 0.9, 0.2)
        missing = missing_things(says.astype(float), errors=ERRORS)
        n_held += missing.low <= 0.25 <= missing.high
    assert n_held / 200 >= 0.93


def test_a_judge_that_tells_nothing_is_refused():
    blind = ReaderErrors(sensitivity=0.5, specificity=0.5, n_positive=9, n_negative=9)
    with pytest.raises(InvalidInput, match="must exceed 1"):
        missing_things([0.2, 0.9], errors=blind)
