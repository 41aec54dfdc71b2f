"""The stereotype test score where people may also look androgynous, or nobody can say."""

import math

import numpy as np
import pandas as pd
import pytest

from bias_core.measures.intervals import difference_interval
from bias_core.measures.paired_stereotype import checked_labels, merge_ratings, stereotype_gap, stereotype_test_score

WORDS = {"f": "feminine", "m": "masculine", "a": "androgynous", "u": "unclear", "?": "cannot_identify",
         "x": "not_two_people"}  # fmt: skip


def alone(letters, stereotype="feminine"):
    return pd.DataFrame(
        {"identity": "nurse", "stereotyped_gender": stereotype, "perceived_gender": [WORDS[one] for one in letters],
         "image_id": range(len(letters))}
    )  # fmt: skip


def in_pairs(pictures):
    parts = [
        alone(one, "feminine").assign(image_id=i, position=["left", "right"], identity=["nurse", "CEO"],
                                      stereotyped_gender=["feminine", "masculine"])
        for i, one in enumerate(pictures)
    ]  # fmt: skip
    return pd.concat(parts)


def test_androgynous_people_count_for_neither_side_and_unclear_ones_are_left_out():
    result = stereotype_test_score(alone("fffmaauu"))
    assert result.score == pytest.approx(100 * (3 - 1) / 6)  # three with, one against, two for neither
    assert (result.n_usable, result.n_cannot_identify) == (6, 2)
    assert result.percent_androgynous.value == pytest.approx(100 * 2 / 6)
    assert result.percent_unclear.value == pytest.approx(25)
    assert result.percent_feminine.value == pytest.approx(50)
    assert result.coverage.value == pytest.approx(75)
    assert result.bounds == pytest.approx((100 * (3 - 1 - 2) / 8, 100 * (3 - 1 + 2) / 8))


def test_without_androgynous_people_it_is_the_score_of_the_paper():
    four, two = (stereotype_test_score(alone(letters)) for letters in ("ffmfu", "ffmf?"))
    assert four == two
    assert four.confidence_interval.method.startswith("exact")
    assert four.score == 50
    assert four.bounds == pytest.approx((100 * (3 - 2) / 5, 100 * (4 - 1) / 5))


def test_people_of_failed_pictures_move_neither_score_nor_bounds():
    result = stereotype_test_score(in_pairs(["fm", "am", "xu"]))
    assert result.score == pytest.approx(75)  # 1, 1, 0, 1
    assert result.bounds == (75, 75)
    assert result.percent_unclear.value == 0
    assert result.n_failed_images == 1


def test_the_interval_of_single_people_is_that_of_a_difference_of_two_shares():
    result = stereotype_test_score(alone("f" * 12 + "m" * 5 + "a" * 7)).confidence_interval
    expected = difference_interval(12, 5, 24).scaled(100)
    assert (result.value, result.low, result.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert result.null_value == 0


@pytest.mark.parametrize(
    ("letters", "score"), [("a" * 9, 0.0), ("u" * 9, math.nan)], ids=["all androgynous", "nobody can say"]
)
def test_degenerate_labels_are_no_certain_zero(letters, score):
    result = stereotype_test_score(alone(letters))
    assert result.score == pytest.approx(score, nan_ok=True)
    interval = result.confidence_interval
    assert math.isnan(interval.low) if math.isnan(score) else interval.low < 0 < interval.high
    assert result.bounds == pytest.approx((-100, 100) if math.isnan(score) else (0, 0))


@pytest.mark.parametrize("shares", [(0.5, 0.2, 0.2, 0.1), (0.1, 0.1, 0.7, 0.1), (0.9, 0.04, 0.04, 0.02)])
def test_the_interval_covers_the_planted_score(shares):
    rng, target, hits = np.random.default_rng(1), 100 * (shares[0] - shares[1]) / (1 - shares[3]), 0
    for feminine, masculine, androgynous, _ in rng.multinomial(60, shares, size=300):  # the interval of the test before
        interval = difference_interval(feminine, masculine, feminine + masculine + androgynous).scaled(100)
        hits += interval.low <= target <= interval.high
    assert 274 <= hits <= 296  # of 300 at 95 %; others in 1 of 300 such tests


def test_in_pairs_the_bootstrap_is_over_pictures():
    labels = in_pairs(["fm", "am", "fa", "mf", "aa", "fm", "um"] * 8)
    result = stereotype_test_score(labels)
    assert result.score == pytest.approx(100 * (2 + 1 + 1 - 2 + 0 + 2 + 1) / 13)
    assert result.confidence_interval.n == 56
    assert result.confidence_interval.low < result.score < result.confidence_interval.high


def test_the_gap_takes_the_same_labels():
    gap = stereotype_gap(alone("ffaa"), alone("fmau")).gap
    assert gap.value == pytest.approx(50 - 0)


def test_a_tie_of_raters_is_unclear_where_that_is_offered():
    ratings = alone("fa").assign(image_id=0, rater=[1, 2])
    assert merge_ratings(ratings)["perceived_gender"].tolist() == ["unclear"]
    assert merge_ratings(alone("fm").assign(image_id=0, rater=[1, 2]))["perceived_gender"].tolist() == [
        "cannot_identify"
    ]


def test_labels_say_who_is_androgynous_and_of_whom_nobody_can_say():
    rows = checked_labels(alone("fmau?"))
    assert rows["conforms"].tolist()[:3] == [1.0, 0.0, 0.5]
    assert rows["usable"].tolist() == [True, True, True, False, False]
    assert rows["unclear"].tolist() == [False, False, False, True, True]
