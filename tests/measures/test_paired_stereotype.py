"""The stereotype test score against hand counts, the published tables, naive loops and simulated pictures."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import exact_interval
from bias_core.measures.paired_stereotype import stereotype_gap, stereotype_test_score

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
    assert table.loc["nurse", "note"] == "nobody is usable"
    assert table.loc["CEO", "score"] == pytest.approx(100 / 3)
    nobody = stereotype_test_score(pairs(["??"]))
    assert math.isnan(nobody.score)
    assert nobody.confidence_interval.n == 0
    gap = stereotype_gap(pairs(["?m"]), pairs(["fm"]), by="identity").set_index("identity")
    assert math.isnan(gap.loc["nurse", "gap"])
    assert gap.loc["nurse", "note"] == "paired: nobody is usable"


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
    # Five pictures, all people conform: as sure as five of five, not as ten of ten.
    result = stereotype_test_score(pairs(["fm"] * 5))
    low = exact_interval(5, 5).low
    assert (result.score, result.confidence_interval.high) == (100, 100)
    assert result.confidence_interval.low == pytest.approx(200 * low - 100)
    assert "alike" in result.confidence_interval.note
    mixed = stereotype_test_score(pairs(["fm", "f?", "fm"]))  # one or two people, all conform
    assert mixed.confidence_interval.low < mixed.confidence_interval.high == 100


def test_the_bootstrap_is_that_of_a_naive_loop_over_pictures():
    seen = ["fm", "fm", "ff", "f?", "mm", "mf", "fm", "?m", "fm", "ff", "fm"] * 4
    result = stereotype_test_score(pairs(seen), n_resamples=10_000)
    scores = [[1 if a == b else -1 for a, b in zip(two, "fm", strict=True) if a != "?"] for two in seen]
    rng, resampled = np.random.default_rng(5), []
    for _ in range(5_000):
        drawn = [s for i in rng.integers(0, len(seen), len(seen)) for s in scores[i]]
        resampled.append(100 * sum(drawn) / len(drawn))
    tail = stats.norm.sf(stats.t.ppf(0.975, len(seen) - 1) * np.sqrt(len(seen) / (len(seen) - 1)))
    low, high = np.quantile(resampled, [tail, 1 - tail])
    assert result.confidence_interval.low == pytest.approx(low, abs=3)
    assert result.confidence_interval.high == pytest.approx(high, abs=3)
    assert result.confidence_interval.method == "bootstrap (expanded percentile) 95 %"


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
    with pytest.raises(InvalidInput, match="'CEO' and 0 more and 'nurse'"):
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
