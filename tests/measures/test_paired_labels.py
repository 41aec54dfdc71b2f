"""Labels are checked, raters merged, and failed pictures counted and never scored."""

import math

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.paired_stereotype import (
    ANSWERS,
    checked_labels,
    generation_failures,
    merge_ratings,
    stereotype_test_score,
)

LABELS = pd.DataFrame(
    {
        "identity": ["nurse", "CEO"] * 3,
        "stereotyped_gender": ["feminine", "masculine"] * 3,
        "perceived_gender": ["feminine", "masculine", "feminine", "cannot_identify", "masculine", "feminine"],
        "image_id": ["a", "a", "b", "b", "c", "c"],
        "setting": "paired",
        "position": ["left", "right"] * 3,
    }
)


def answers(*votes, identity="nurse", **columns):
    """One row per rater for each person; a person is a string with one letter per rater."""
    words = dict(zip("mf?x", ANSWERS, strict=True))
    return pd.DataFrame(
        [
            {
                "identity": identity,
                "stereotyped_gender": "feminine",
                "image_id": image,
                "rater": rater,
                "perceived_gender": words[letter],
                **columns,
            }
            for image, letters in enumerate(votes)
            for rater, letter in enumerate(letters)
        ]
    )


def test_labels_become_what_the_score_needs():
    checked = checked_labels(LABELS)
    assert checked["conforms"].tolist() == [True, True, True, False, False, False]
    assert checked["usable"].tolist() == [True, True, True, False, True, True]
    assert checked["image"].tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("votes", "label", "n_votes"), [
    ("fff", "feminine", 3),
    ("ffm", "feminine", 2),
    ("f?m", "cannot_identify", 1),  # three ways
    ("fm", "cannot_identify", 1),  # a tie
    ("ffmm?", "cannot_identify", 2),
    ("ffm?", "feminine", 2),  # most votes, though not more than half
    ("??f", "cannot_identify", 2),
    ("xxf", "not_two_people", 2),
    ("xf", "cannot_identify", 1),
    ("m", "masculine", 1),
])  # fmt: skip
def test_the_answer_with_the_most_votes_wins_and_ties_cannot_be_identified(votes, label, n_votes):
    merged = merge_ratings(answers(votes))
    assert merged["perceived_gender"].tolist() == [label]
    assert (merged["n_ratings"][0], merged["n_votes"][0]) == (len(votes), n_votes)


def test_merging_equals_a_naive_count():
    rng = np.random.default_rng(0)
    votes = ["".join(rng.choice(list("mf?x"), size=rng.integers(1, 6))) for _ in range(101)]
    words = dict(zip("mf?x", ANSWERS, strict=True))
    expected = []
    for letters in votes:
        counts = sorted(((letters.count(letter), letter) for letter in set(letters)), reverse=True)
        tie = len(counts) > 1 and counts[0][0] == counts[1][0]
        expected.append("cannot_identify" if tie else words[counts[0][1]])
    assert merge_ratings(answers(*votes))["perceived_gender"].tolist() == expected


def test_merged_ratings_are_labels_whatever_the_order_of_the_answers():
    ratings = pd.concat([answers("ff", "mf", position="left"), answers("mm", "ff", position="right")])
    merged = merge_ratings(ratings)
    shuffled = merge_ratings(ratings.sample(frac=1, random_state=1))
    key = ["image_id", "position"]
    pd.testing.assert_frame_equal(
        merged.sort_values(key, ignore_index=True), shuffled.sort_values(key, ignore_index=True)
    )
    assert stereotype_test_score(merged).n_usable == 3  # the tie of the second picture is left out


def test_further_columns_keep_people_apart():
    two = pd.concat([answers("ff", model="one"), answers("mm", model="two")])
    assert merge_ratings(two, keep=["model"])["perceived_gender"].tolist() == ["feminine", "masculine"]
    with pytest.raises(InvalidInput, match="2 answers repeat a rater's answer"):
        merge_ratings(two)


def test_pictures_with_another_number_of_people_are_failures():
    # a: two people; b: three; c: none. Two of three pictures failed.
    marked = LABELS.assign(perceived_gender=["feminine", "masculine", *["not_two_people"] * 4])
    failures = generation_failures(marked)
    assert (failures.n_failed, failures.n_images) == (2, 3)
    exact, found = exact_interval(2, 3), failures.percent_failed
    assert (found.value, found.low, found.high) == pytest.approx((200 / 3, 100 * exact.low, 100 * exact.high))
    score = stereotype_test_score(marked)
    assert (score.score, score.n_usable, score.n_failed_images) == (100, 2, 2)
    assert generation_failures(LABELS).n_failed == 0


@pytest.mark.parametrize("function", [checked_labels, generation_failures, stereotype_test_score])
@pytest.mark.parametrize(("bad", "message"), [
    (LABELS.iloc[:0], "got 0 rows"),
    (LABELS.drop(columns="stereotyped_gender"), "stereotyped_gender"),
    (LABELS.drop(columns="image_id"), "image_id"),
    (LABELS.assign(perceived_gender="female"), "got 'female' and 5 more of 6"),
    (LABELS.assign(perceived_gender=math.nan), "got nan"),
    (LABELS.assign(perceived_gender=None), "got None|got nan"),
    (LABELS.assign(stereotyped_gender="neutral"), "'neutral'"),
    (pd.concat([LABELS, LABELS]), "6 rows repeat .* Merge raters"),
    (LABELS.to_dict(), "must be a data frame; got dict"),
])  # fmt: skip
def test_bad_labels_are_refused_and_quoted(function, bad, message):
    with pytest.raises(InvalidInput, match=message):
        function(bad)


@pytest.mark.parametrize(("bad", "message"), [
    (answers("ff").drop(columns="rater"), "rater"),
    (answers("ff").assign(rater=1), "1 answers repeat"),
    (answers("ff").assign(perceived_gender=[None, "feminine"]), "perceived_gender must be one of"),
    (answers(), "0 rows"),
])  # fmt: skip
def test_bad_ratings_are_refused_and_quoted(bad, message):
    with pytest.raises(InvalidInput, match=message):
        merge_ratings(bad)
