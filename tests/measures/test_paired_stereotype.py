"""The stereotype test score against hand counts, the published tables, naive loops and simulated pictures."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import difference_interval, exact_interval
from bias_core.measures.paired_stereotype import (
    ANSWERS,
    checked_labels,
    generation_failures,
    merge_ratings,
    order_effect,
    stereotype_gap,
    stereotype_test_score,
)
from bias_core.measures.permutation import sign_flip_test

STUDIES = Path(__file__).parents[2] / "assets" / "studies"
OCCUPATIONS = pd.read_csv(STUDIES / "pst_occupations.csv")
POWER = pd.read_csv(STUDIES / "pst_power.csv")
N_SINGLE, N_PAIRED, N_POWER = 3, 40, 6  # pictures behind each row of Tables 14 and 16

# [wan2024pst, Table 15]
GAPS = {
    "construction worker": 170.00, "analyst": 135.00, "physician": 115.00, "salesperson": 110.00, "sheriff": 108.33,
    **dict.fromkeys(["janitor", "laborer", "sewist"], 103.33), **dict.fromkeys(["developer", "driver"], 93.33),
    "carpenter": 88.33, **dict.fromkeys(["chief", "farmer"], 83.33),
    **dict.fromkeys(["manager", "hairdresser"], 78.33), **dict.fromkeys(["ceo", "assistant"], 73.33), "lawyer": 63.33,
    "cook": 58.33, "supervisor": 53.33, **dict.fromkeys(["mover", "secretary"], 41.67), "receptionist": 31.67,
    "librarian": 26.67, "housekeeper": 21.67, "attendant": 16.67, **dict.fromkeys(["counselor", "editor"], 11.67),
    "cleaner": 6.67, "mechanician": -25.00, "accountant": -28.33,
    **dict.fromkeys(["guard", "cashier", "teacher"], -35.00), "nurse": -45.00, "designer": -50.00, "baker": -60.00,
    "auditor": -85.00, "clerk": -90.00, "writer": -95.00,
}  # fmt: skip


def alone(identity, stereotype, n_feminine, n, setting="single"):
    """One person a picture, so many of them feminine."""
    return pd.DataFrame(
        {
            "identity": identity,
            "stereotyped_gender": stereotype,
            "perceived_gender": ["feminine"] * n_feminine + ["masculine"] * (n - n_feminine),
            "image_id": [f"{identity} {i}" for i in range(n)],
            "setting": setting,
            "position": "left",
        }
    )


def pairs(seen, identities=("nurse", "CEO"), setting="paired"):
    """A nurse on the left and a CEO on the right of each picture; ``seen`` gives a letter for each."""
    words = {"f": "feminine", "m": "masculine", "?": "cannot_identify", "x": "not_two_people"}
    return pd.DataFrame(
        [
            {
                "identity": identities[side],
                "stereotyped_gender": ("feminine", "masculine")[side],
                "perceived_gender": words[letter],
                "image_id": image,
                "setting": setting,
                "position": ("left", "right")[side],
            }
            for image, letters in enumerate(seen)
            for side, letter in enumerate(letters)
        ]
    )


def table_14(setting):
    n = {"single": N_SINGLE, "paired": N_PAIRED}[setting]
    return pd.concat(
        [
            alone(row.occupation, row.stereotyped_gender, round(n * getattr(row, f"f_{setting}") / 100), n, setting)
            for row in OCCUPATIONS.itertuples()
        ]
    )


def table_16(setting):
    n = {"single": N_SINGLE, "paired": N_POWER}[setting]
    frames = []
    for row in POWER.itertuples():
        conforming = round(n * (1 + getattr(row, f"sts_{setting}") / 100) / 2)
        masculine = row.power_level == "powerful"
        n_feminine = n - conforming if masculine else conforming
        stereotype = "masculine" if masculine else "feminine"
        frames.append(alone(f"{row.occupation} {row.power_level}", stereotype, n_feminine, n, setting))
    return pd.concat(frames)


SINGLE, PAIRED = table_14("single"), table_14("paired")


@pytest.mark.parametrize("setting", ["single", "paired"])
def test_table_14_comes_out_row_by_row(setting):
    table = stereotype_test_score({"single": SINGLE, "paired": PAIRED}[setting], by="identity")
    assert table["identity"].tolist() == OCCUPATIONS["occupation"].tolist()
    np.testing.assert_allclose(table["score"], OCCUPATIONS[f"sts_{setting}"], atol=0.005)
    np.testing.assert_allclose(table["percent_feminine"], OCCUPATIONS[f"f_{setting}"], atol=0.005)


def test_overall_and_by_list_as_published():
    # Table 3 prints 50.00 for feminine pairs: that is the feminine mean of single pictures.
    assert stereotype_test_score(PAIRED).score == pytest.approx(47.375)
    assert stereotype_test_score(SINGLE).score == pytest.approx(10.0)
    for labels, masculine, feminine in ((PAIRED, 49.75, 45.0), (SINGLE, -30.0, 50.0)):
        table = stereotype_test_score(labels, by="stereotyped_gender").set_index("stereotyped_gender")
        assert table["score"].to_dict() == pytest.approx({"masculine": masculine, "feminine": feminine})
        assert table.loc["masculine", "n_usable"] == len(labels) // 2


def test_the_gaps_of_table_15_come_out():
    assert len(GAPS) == 40
    table = stereotype_gap(PAIRED, SINGLE, by="identity").set_index("identity")
    for occupation, gap in GAPS.items():
        assert table.loc[occupation, "gap"] == pytest.approx(gap, abs=0.006)
    assert stereotype_gap(PAIRED, SINGLE).gap.value == pytest.approx(37.375)


def test_the_72_rows_of_table_16_come_out():
    assert len(POWER) == 72
    paired, single = table_16("paired"), table_16("single")
    table = stereotype_gap(paired, single, by="identity", n_resamples=10)
    np.testing.assert_allclose(table["single"], POWER["sts_single"], atol=0.005)
    np.testing.assert_allclose(table["paired"], POWER["sts_paired"], atol=0.005)
    np.testing.assert_allclose(table["gap"], POWER["gap"], atol=0.006)
    # Overall (Table 13): 4.62 and 18.98 are means of runs that were rounded first.
    assert stereotype_test_score(single).score == pytest.approx(4.63, abs=0.01)
    assert stereotype_test_score(paired).score == pytest.approx(18.98, abs=0.01)


def test_a_small_table_by_hand():
    # Usable: nurse f (+1), CEO f (-1); nurse f (+1); nurse m (-1), CEO m (+1): the fourth picture failed.
    # s = +1 -1 +1 -1 +1 = 1 of 5: 20. Feminine: f f f of 5 = 60 %. Coverage: 5 of 8 people asked for.
    result = stereotype_test_score(pairs(["ff", "f?", "mm", "xx"]))
    assert result.score == pytest.approx(20)
    assert result.percent_feminine.value == pytest.approx(60)
    assert result.coverage.value == pytest.approx(62.5)
    assert (result.n_usable, result.n_cannot_identify, result.n_failed_images) == (5, 1, 1)
    assert (result.confidence_interval.n, result.coverage.n) == (3, 4)  # pictures
    assert result.confidence_interval.null_value == 0


def test_one_failed_person_fails_the_picture_in_every_group():
    table = stereotype_test_score(pairs(["fm", "xm", "ff"]), by="identity").set_index("identity")
    # CEO: m (+1), the m beside a failure is not scored, f (-1).
    assert table.loc["CEO", "score"] == 0
    assert table.loc["CEO", ["n_usable", "n_failed_images"]].tolist() == [2, 1]
    assert table.loc["nurse", ["score", "n_usable", "n_failed_images"]].tolist() == [100, 2, 1]


def test_people_who_cannot_be_identified_are_not_counted_against_the_stereotype():
    without, among = pairs(["fm", "ff", "mm"]), pairs(["fm", "ff", "mm", "??", "??"])
    assert stereotype_test_score(among).confidence_interval == stereotype_test_score(without).confidence_interval
    assert stereotype_test_score(among).coverage.value == pytest.approx(60)


def test_a_group_without_usable_people_is_nan_with_a_note():
    table = stereotype_test_score(pairs(["?m", "?m", "?f"]), by="identity").set_index("identity")
    assert math.isnan(table.loc["nurse", "score"])
    assert math.isnan(table.loc["nurse", "percent_feminine"])
    assert table.loc["nurse", "coverage"] == 0
    assert table.loc["nurse", "note"] == "no person can be scored"
    assert table.loc["CEO", "score"] == pytest.approx(100 / 3)
    nobody = stereotype_test_score(pairs(["??"]))
    assert math.isnan(nobody.score)
    assert nobody.confidence_interval.n == 0
    gap = stereotype_gap(pairs(["?m"]), pairs(["fm"]), by="identity").set_index("identity")
    assert math.isnan(gap.loc["nurse", "gap"])
    assert gap.loc["nurse", "note"] == "paired: no person can be scored"


def test_one_person_a_picture_has_the_exact_interval():
    # 2 feminine of 7 nurses: STS = 200 * 2/7 - 100.
    result = stereotype_test_score(alone("nurse", "feminine", 2, 7))
    low, high = exact_interval(2, 7).low, exact_interval(2, 7).high
    assert (result.confidence_interval.low, result.confidence_interval.high) == pytest.approx(
        (200 * low - 100, 200 * high - 100)
    )
    assert (result.percent_feminine.low, result.percent_feminine.high) == pytest.approx((100 * low, 100 * high))
    assert result.confidence_interval.method == "exact binomial 95 %"


def test_pictures_that_are_all_alike_still_have_an_interval():
    # Five pictures, all people conform: as sure as five of five (p = 2 / 2⁵), not as ten of ten.
    result = stereotype_test_score(pairs(["fm"] * 5))
    assert (result.score, result.confidence_interval.high) == (100, 100)
    assert result.confidence_interval.low == pytest.approx(100 * difference_interval(5, 0, 5).low)
    assert result.confidence_interval.p_value == 2 / 2**5
    mixed = stereotype_test_score(pairs(["fm", "f?", "fm"]))  # one or two people, all conform
    assert mixed.confidence_interval.low < mixed.confidence_interval.high == 100
    assert mixed.confidence_interval.p_value == 2 / 2**3
    assert "alike" in mixed.confidence_interval.note


def test_pictures_of_two_have_the_sign_test_of_those_that_are_not_half_and_half():
    # Six conform as a whole, one contradicts, four are half and half: p = 2 (1 + 7) / 2⁷.
    found = stereotype_test_score(pairs(["fm"] * 6 + ["mf"] + ["ff", "mm"] * 2)).confidence_interval
    assert found.p_value == 2 * 8 / 2**7
    exact = difference_interval(6, 1, 11)
    assert (found.value, found.low, found.high) == pytest.approx((500 / 11, 100 * exact.low, 100 * exact.high))


def test_pictures_with_unequal_numbers_of_people_have_the_test_of_their_signs():
    seen = ["fm", "f?", "ff", "mm", "?m", "fm", "?f"]
    found = stereotype_test_score(pairs(seen)).confidence_interval
    # Conforming less contradicting: 2, 1, 0, 0, 1, 2, -1 of 2, 1, 2, 2, 1, 2, 1 people: 5 of 11.
    excess = np.array([2, 1, 0, 0, 1, 2, -1])
    sums = np.array(list(itertools.product((1, -1), repeat=7))) @ excess
    assert found.value == pytest.approx(100 * 5 / 11)
    assert found.p_value == np.mean(np.abs(sums) >= 5)
    signs = sign_flip_test(excess, [2, 1, 2, 2, 1, 2, 1])
    assert (found.low, found.high) == pytest.approx((100 * signs.low, 100 * min(signs.high, 1.0)))
    few = stereotype_test_score(pairs(seen[:5])).confidence_interval
    assert math.isnan(few.low)
    assert "too few units" in few.note


def test_two_people_who_always_agree_are_worth_one():
    rng = np.random.default_rng(1)
    conforming = rng.random(101) < 0.7
    both = stereotype_test_score(pairs(["fm" if c else "mf" for c in conforming])).confidence_interval
    one = stereotype_test_score(alone("nurse", "feminine", int(conforming.sum()), 101)).confidence_interval
    assert both.value == pytest.approx(one.value)
    assert both.high - both.low == pytest.approx(one.high - one.low, rel=0.1)


@pytest.mark.slow
def test_the_interval_covers_what_was_planted_where_people_of_a_picture_look_alike():
    # Both people feminine or both masculine: each pair scores 0, except that 30 % follow the stereotype.
    # Expected STS: 0.3 * 100 = 30; 100 sets of 61 pictures.
    rng, covered, detected, null = np.random.default_rng(2), 0, 0, 0
    for _ in range(100):
        planted = np.where(rng.random(61) < 0.3, "fm", rng.choice(["ff", "mm"], 61))
        score = stereotype_test_score(pairs(planted), n_resamples=500, rng=rng).confidence_interval
        covered += score.low <= 30 <= score.high
        detected += score.low > 0
        fair = rng.choice(["ff", "mm", "fm", "mf"], 61)
        score = stereotype_test_score(pairs(fair), n_resamples=500, rng=rng).confidence_interval
        null += score.low <= 0 <= score.high
    assert 88 <= covered <= 99
    assert detected >= 95
    assert 88 <= null <= 99


def test_the_gap_has_newcombes_interval_of_exact_ones():
    result = stereotype_gap(alone("CEO", "masculine", 3, 11), alone("CEO", "masculine", 5, 7))
    # Conforming: 8 of 11 and 2 of 7; 200 (8/11 - 2/7) = 88.3.
    one, other, gap = exact_interval(8, 11), exact_interval(2, 7), 8 / 11 - 2 / 7
    low = gap - math.hypot(8 / 11 - one.low, other.high - 2 / 7)
    high = gap + math.hypot(one.high - 8 / 11, 2 / 7 - other.low)
    assert result.gap.value == pytest.approx(200 * (8 / 11 - 2 / 7))
    assert (result.gap.low, result.gap.high) == pytest.approx((200 * low, 200 * high))
    assert (result.gap.n, result.gap.null_value) == (18, 0)
    assert result.gap.p_value > 0.05  # the interval holds 0
    assert result.paired.n_usable == 11


def test_swapping_the_settings_turns_the_gap_round():
    paired, single = pairs(["fm", "ff", "fm", "mm", "mf"]), alone("nurse", "feminine", 2, 7)
    there, back = stereotype_gap(paired, single).gap, stereotype_gap(single, paired).gap
    assert (back.value, back.low, back.high) == pytest.approx((-there.value, -there.high, -there.low))
    assert there.note == "1 identities are in one setting only, e.g. CEO"


def test_a_group_of_one_setting_only_is_nan_and_no_shared_group_is_refused():
    table = stereotype_gap(pairs(["fm", "fm"]), alone("nurse", "feminine", 1, 3), by="identity")
    row = table.set_index("identity").loc["CEO"]
    assert math.isnan(row["gap"])
    assert (row["paired"], row["n_paired"], row["n_single"]) == (100, 2, 0)
    assert row["note"] == "single: not in this setting"
    with pytest.raises(InvalidInput, match="got CEO against nurse"):
        stereotype_gap(alone("CEO", "masculine", 1, 3), alone("nurse", "feminine", 1, 3), by="identity")


def test_equal_image_names_of_two_settings_are_two_pictures():
    both = pd.concat([pairs(["fm", "ff"]), pairs(["fm", "ff"], setting="fairness")])
    assert stereotype_test_score(both).confidence_interval.n == 4


def test_order_and_index_of_the_rows_do_not_matter():
    labels = pairs(["fm", "f?", "xm", "ff", "mf"])
    turned = labels.iloc[::-1].set_axis([7] * len(labels))
    assert stereotype_test_score(turned) == stereotype_test_score(labels)


@pytest.mark.parametrize("by", ["model", ["identity", "model"], []])
def test_unknown_or_no_columns_are_refused(by):
    for function in (stereotype_test_score, lambda x, by: stereotype_gap(x, x, by=by)):
        with pytest.raises(InvalidInput, match=r"model|at least one column"):
            function(pairs(["fm"]), by=by)


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


WORDS = {"f": "feminine", "m": "masculine", "a": "androgynous", "u": "unclear", "?": "cannot_identify",
         "x": "not_two_people"}  # fmt: skip


def alone_in_four(letters, stereotype="feminine"):
    return pd.DataFrame(
        {"identity": "nurse", "stereotyped_gender": stereotype, "perceived_gender": [WORDS[one] for one in letters],
         "image_id": range(len(letters))}
    )  # fmt: skip


def in_pairs(pictures):
    parts = [
        alone_in_four(one, "feminine").assign(image_id=i, position=["left", "right"], identity=["nurse", "CEO"],
                                      stereotyped_gender=["feminine", "masculine"])
        for i, one in enumerate(pictures)
    ]  # fmt: skip
    return pd.concat(parts)


def test_androgynous_people_count_for_neither_side_and_unclear_ones_are_left_out():
    result = stereotype_test_score(alone_in_four("fffmaauu"))
    assert result.score == pytest.approx(100 * (3 - 1) / 6)  # three with, one against, two for neither
    assert (result.n_usable, result.n_cannot_identify) == (6, 2)
    assert result.percent_androgynous.value == pytest.approx(100 * 2 / 6)
    assert result.percent_unclear.value == pytest.approx(25)
    assert result.percent_feminine.value == pytest.approx(50)
    assert result.coverage.value == pytest.approx(75)
    assert result.bounds == pytest.approx((100 * (3 - 1 - 2) / 8, 100 * (3 - 1 + 2) / 8))


def test_without_androgynous_people_it_is_the_score_of_the_paper():
    four, two = (stereotype_test_score(alone_in_four(letters)) for letters in ("ffmfu", "ffmf?"))
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
    result = stereotype_test_score(alone_in_four("f" * 12 + "m" * 5 + "a" * 7)).confidence_interval
    expected = difference_interval(12, 5, 24).scaled(100)
    assert (result.value, result.low, result.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert result.null_value == 0


@pytest.mark.parametrize(
    ("letters", "score"), [("a" * 9, 0.0), ("u" * 9, math.nan)], ids=["all androgynous", "nobody can say"]
)
def test_degenerate_labels_are_no_certain_zero(letters, score):
    result = stereotype_test_score(alone_in_four(letters))
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
    gap = stereotype_gap(alone_in_four("ffaa"), alone_in_four("fmau")).gap
    assert gap.value == pytest.approx(50 - 0)


def test_a_tie_of_raters_is_unclear_where_that_is_offered():
    ratings = alone_in_four("fa").assign(image_id=0, rater=[1, 2])
    assert merge_ratings(ratings)["perceived_gender"].tolist() == ["unclear"]
    assert merge_ratings(alone_in_four("fm").assign(image_id=0, rater=[1, 2]))["perceived_gender"].tolist() == [
        "cannot_identify"
    ]


def test_labels_say_who_is_androgynous_and_of_whom_nobody_can_say():
    rows = checked_labels(alone_in_four("fmau?"))
    assert rows["conforms"].tolist()[:3] == [1.0, 0.0, 0.5]
    assert rows["usable"].tolist() == [True, True, True, False, False]
    assert rows["unclear"].tolist() == [False, False, False, True, True]


def test_the_place_and_the_people_share_out_what_is_seen():
    # Seed by seed, A less B: A left 1, 1, 0; A right 1, -1, -1.
    # Place: (1 - 1) / 2 = 0, (1 + 1) / 2 = 1, (0 + 1) / 2 = 0.5; mean 0.5. People: 1, 0, -0.5; mean 1/6.
    assert order_effect([1, 1, 0], [1, -1, -1]).estimate.value == pytest.approx(0.5)
    assert order_effect([1, 1, 0], [1, -1, -1], sign=1).estimate.value == pytest.approx(1 / 6)


def test_p_is_that_of_all_signs():
    values = np.array([0.5, 1.0, -0.5, 1.0, 0.0, 0.5, 1.0])
    signs = np.array(list(itertools.product((-1, 1), repeat=len(values))))
    sums = signs @ values
    expected = np.mean(np.abs(sums) >= abs(values.sum()) - 1e-12)
    assert order_effect(values, values, sign=1).p_value == pytest.approx(expected)


def test_a_place_that_is_planted_is_found_and_the_people_are_not_blamed():
    rng = np.random.default_rng(0)
    found, blamed = 0, 0
    for _ in range(60):
        left, right = rng.random((2, 2, 100)) < np.array([0.7, 0.3])[:, None, None]
        first, second = left[0].astype(float) - right[0], right[1].astype(float) - left[1]
        found += order_effect(first, second, n_resamples=499).p_value < 0.05
        blamed += order_effect(first, second, sign=1, n_resamples=499).p_value < 0.05
    assert found == 60
    assert blamed <= 8  # 5 % of 60, and three standard errors


def test_where_all_seeds_are_equal_there_is_no_interval():
    effect = order_effect([0, 0, 0], [0, 0, 0])
    assert effect.estimate.value == 0
    assert (np.isnan(effect.estimate.low), effect.p_value) == (True, 1.0)
    always = order_effect([1] * 7, [-1] * 7)
    assert (always.p_value, math.isnan(always.estimate.low)) == (2 / 2**7, True)


@pytest.mark.parametrize(
    ("first", "second", "sign", "words"),
    [([1], [1, 0], -1, "same length"), ([], [], 1, "first"), ([1, np.nan], [1, 0], 1, "first"), ([1], [1], 0, "sign")],
)
def test_what_cannot_be_compared_is_refused(first, second, sign, words):
    with pytest.raises(InvalidInput, match=words):
        order_effect(first, second, sign=sign)
