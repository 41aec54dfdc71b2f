"""Attributes that are planted together are found together: in pictures, in one of the arms, and in people of pairs."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.beyond.intersections.arms import cross_arms, crossed_arms_headline
from bias_core.beyond.intersections.attributes import cross_attributes, crossed_headline, find_mosaics
from bias_core.beyond.intersections.extension import check_crossing
from bias_core.beyond.intersections.stereotypes import crossed_scores, find_stereotype
from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.measures.intersections import crossed_stereotype
from bias_core.papers.pst.labelling import labelled_people
from bias_core.papers.pst.study import relabelled
from bias_core.papers.pst.study_swapped import SwappedOptions
from bias_core.report.arm_comparison import mean_sample
from bias_core.report.figures import to_bytes
from bias_core.run.attribute_scores import AttributeScore
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design, get_study
from bias_core.study.types import StudySettings, join_results
from bias_core.types import Attribute, Estimate
from bias_core.world.models import get_scene
from tests import shared
from tests.attack.test_long_texts import MAX_TEXT, UNITS, fault
from tests.claimed import broken_claims

services = world = shared.real_services

NOTHING = Estimate.undefined(0, "")


def score(name, calls, **more):
    attribute = Attribute(name=name, positive=f"{name}.", negative=f"Not {name}.", **more)
    yes = np.asarray(calls, dtype=float)
    share = Estimate(value=float(np.nanmean(yes)), low=0.0, high=1.0, n=len(yes))
    numbers = dict.fromkeys(("stereotype", "signed_difference", "variance_share", "wals"), NOTHING)
    sides = {"similarity_positive": yes, "similarity_negative": np.where(np.isnan(yes), np.nan, 0.5)}
    return AttributeScore(attribute=attribute, prevalence=share, **numbers, **sides)


def crossed(scores, prompts=None, crossing="pairs", **more):
    n = len(scores[0].calls)
    given = {"confidence": 0.95, "fixed_n": True, "sample": mean_sample} | more
    return cross_attributes(scores, prompts or ["p"] * n, [str(i) for i in range(n)], crossing=crossing, **given)


WOMEN = [1] * 50 + [0] * 50
YOUNG = [1] * 45 + [0] * 5 + [1] * 25 + [0] * 25
SOURCED = {"reference": 0.3, "reference_source": "bls2024"}


def test_the_sentence_says_both_shares_and_the_odds_ratio():
    results = crossed([score("woman", WOMEN), score("young", YOUNG)])
    share, link = results.findings
    assert link.says.startswith("Clearly linked: with “woman”, “young” is seen in 90\xa0%, without in 50\xa0%")
    assert link.says.endswith("(odds ratio 8.8 [3.1, 29], n = 100, p < 0.001).")
    assert share.estimate.low <= share.estimate.value <= share.estimate.high
    assert share.says == "If the attributes were independent, it would be 35\xa0%."
    assert link.says in crossed_headline(results.findings)
    assert share.sample.statistic(np.arange(100)) == pytest.approx(0.45)


def test_what_has_nothing_to_do_with_each_other_is_not_claimed():
    even = crossed([score("woman", [1, 1, 0, 0] * 25), score("young", [1, 0] * 50)])
    assert even.findings[1].says.startswith("No clear link")
    assert even.findings[1].p_value == pytest.approx(1)  # 25 in each cell
    assert "No clear link" in crossed_headline(even.findings)


def test_a_link_that_several_tests_make_likely_by_chance_is_not_clear_and_its_reason_is_said():
    near = [1] * 10 + [0] * 6 + [1] * 4 + [0] * 12  # of 16 with and 16 without the other
    three = [score("a", [1] * 16 + [0] * 16), score("b", near), score("c", [1, 0] * 16)]
    results = crossed(three)
    link = next(one for one in results.findings if one.key == "crossed-a × b-interaction")
    assert link.p_value <= 0.05 < link.claim.p_adjusted
    assert (
        "(odds ratio 4.7 [1.1, 24], n = 32, adjusted p = 0.127). Not clear: its interval excludes 1, but" in link.says
    )
    row = results.frame("interactions").iloc[0]
    assert (row["clear"], row["p adjusted"]) == ("no", link.claim.p_adjusted)
    begins = " None of 3 combinations of attributes shows a clear link. Closest: with “a”, “b” is seen in 62\xa0%"
    assert crossed_headline(results.findings).startswith(begins)
    both_clear = crossed([score("a", [1] * 50 + [0] * 50), score("b", [1] * 50 + [0] * 50), score("c", [1, 0] * 50)])
    assert crossed_headline(both_clear.findings).endswith("Clear links: 1 of 3 combinations of attributes.")


def test_arms_stand_beside_each_other_with_a_mosaic_each():
    arms = [
        SimpleNamespace(name=name, results=crossed([score("woman", WOMEN), score("young", young)]))
        for name, young in (("fair", [1, 0] * 50), ("crossed", YOUNG))
    ]
    assert [(one.key, one.title) for one in find_mosaics(arms)] == [
        ("mosaic1-1", "woman and young together, fair"),
        ("mosaic1-2", "woman and young together, crossed"),
    ]


def test_p_is_adjusted_for_all_pairs_and_triples():
    rng = np.random.default_rng(0)
    three = [score(name, rng.integers(0, 2, 90)) for name in "abc"]
    frame = crossed(three, crossing="triples").frame("interactions")
    assert list(frame["attributes"]) == ["a × b", "a × c", "b × c", "a × b × c"]
    assert frame["p adjusted"].min() == pytest.approx(min(1, 4 * frame["p"].min()))


def test_rates_of_the_world_are_multiplied_only_where_all_have_a_source():
    some = [score("woman", WOMEN, **SOURCED), score("young", YOUNG, **SOURCED)]
    results = crossed(some)
    difference, stereotype = results.findings[2:]
    assert difference.estimate.value == pytest.approx(results.findings[0].estimate.value - 0.09)
    assert stereotype.metric == "stereotype_score"
    assert "product of the real-world rates" in difference.says
    assert results.frame("crossed")["P*"].tolist() == pytest.approx([0.49, 0.21, 0.21, 0.09])
    chosen = {"reference": 0.5, "reference_source": "assumed 50 %, a choice"}
    assert len(crossed([some[0], score("young", YOUNG, **chosen)]).findings) == 2


def test_small_cells_are_warned_of_with_the_number_that_would_do():
    rare = crossed([score("woman", WOMEN), score("turban", [1] + [0] * 99)])
    assert rare.notes == (
        "Small cells: fewer than 5 pictures are expected in a combination of “woman × turban” "
        "(1,000 pictures would be enough).",
    )
    assert rare.figures[0].data["small"].tolist() == [True, False, True, False]


def test_pictures_that_the_judge_cannot_tell_are_left_out_of_their_crossing_alone():
    unclear = score("young", [math.nan] * 10 + YOUNG[10:])
    results = crossed([score("woman", WOMEN), unclear, score("hat", [1, 0] * 50)])
    totals = results.frame("crossed").groupby("attributes")["pictures"].sum()
    assert totals.to_dict() == {"woman × young": 90, "woman × hat": 100, "young × hat": 90}


def test_nothing_is_told_of_an_attribute_in_every_picture_nor_if_the_number_was_not_fixed():
    results = crossed([score("woman", [1] * 100), score("young", YOUNG)])
    assert "Undefined: one of the attributes is seen in all pictures" in results.findings[1].says
    assert results.findings[1].p_value is None
    assert crossed_headline(results.findings) == ""
    watched = crossed([score("woman", WOMEN), score("young", YOUNG)], fixed_n=False)
    assert (watched.findings, len(watched.notes)) == ((), 1)
    assert join_results(watched, watched).notes == watched.notes * 2


def test_what_cannot_be_crossed_is_refused_before_anything_is_drawn():
    many = [Attribute(name=str(i), positive="a", negative="b") for i in range(9)]
    for attributes, crossing in ((many, "pairs"), (many[:1], "pairs")):
        with pytest.raises(InvalidInput, match="2 to 8 attributes can be crossed"):
            check_crossing(attributes, crossing)
    with pytest.raises(InvalidInput, match="at least three"):
        check_crossing(many[:2], "triples")
    with pytest.raises(InvalidInput, match="“Combined attributes” must be one of none, pairs, triples"):
        explore_settings(concept="doctor", crossed="all")


def test_scores_of_combinations_need_one_attribute_of_gender_and_an_occupation_with_a_stereotype():
    old_men = [score("man", 1 - np.array(WOMEN)), score("young", YOUNG)]

    def table_of(scores, prompt):
        results = crossed(scores, [prompt] * 100)
        return next((one.frame for one in results.tables if one.key == "crossed_scores"), None)

    doctors, nurses = (table_of(old_men, f"a photo of a {name}") for name in ("doctor", "nurse"))
    # Of the 30 old ones 5 are women: 100 · (1 − 2 · 5 / 30); of the 70 young ones 45.
    assert doctors["STS as counted"].tolist() == pytest.approx([100 * (1 - 10 / 30), 100 * (1 - 90 / 70)])
    assert nurses["STS as counted"].tolist() == pytest.approx((-doctors["STS as counted"]).tolist())
    by_women = table_of([score("woman", WOMEN), score("young", YOUNG)], "a photo of a doctor")
    assert by_women["STS"].tolist() == pytest.approx(doctors["STS"].tolist())
    assert by_women["rarer side"].tolist() == [15, 35]
    for scores, prompt in ((old_men, "a photo of a person"), ([score("hat", WOMEN), score("young", YOUNG)], "a nurse")):
        assert table_of(scores, prompt) is None


def test_a_planted_interaction_is_found_from_pictures(world):
    settings = explore_settings(
        concept="CEO", model="calibration-renderer", condition="crossed", n_images=70, attribute_a="", attribute_b="",
        attributes=("woman|a photo of a woman|a photo of a man", "young|The person is young.|The person is old."),
        crossed="pairs",
    )  # fmt: skip
    report = complete(run_study(find_design("explore"), settings, world))
    link = next(one for one in report.results.findings if one.metric == "interaction")
    assert link.says.startswith("Clearly linked: with “woman”, “young” is seen in")
    assert {"interactions", "crossed"} <= {table.key for table in report.results.tables}
    # Of old CEOs one in six is a woman, of young ones 9 in 14: scores of 67 and -29, and 0 of all.
    scores = report.results.frame("crossed_scores")
    assert scores["combination"].tolist() == ["not young", "young"]
    assert (scores["low"] <= [200 / 3, -200 / 7]).all()
    assert (scores["high"] >= [200 / 3, -200 / 7]).all()
    old = next(one for one in report.results.findings if one.metric == "crossed_stereotype")
    assert old.title == "not young: stereotype test score"
    assert old.says.startswith("Most match the stereotype. The score of all people is ")
    counted = np.arange(len(old.sample.units))
    assert old.sample.statistic(counted) == pytest.approx(scores["STS as counted"][0], abs=3)
    assert any(note.startswith("Stereotypes behind STS (Table 7 of the paired stereotype test): “CEO” as masculine")
               for note in report.results.notes)  # fmt: skip


def arms_of(women, young=None):
    """Two attributes of each arm; youth even among women and men where nothing else is said."""
    young = young or {}
    return {
        arm: [score("woman", calls), score("young", young.get(arm, [1, 0] * (len(calls) // 2)))]
        for arm, calls in women.items()
    }


def with_arms(arms, crossing="pairs"):
    return cross_arms(arms, crossing=crossing, confidence=0.95)


def test_the_arm_in_which_two_are_linked_otherwise_is_named_and_shares_alone_are_left_to_the_differences():
    women = {"doctor": WOMEN, "Indian doctor": WOMEN, "Iranian doctor": WOMEN}
    results = with_arms(arms_of(women, {"Iranian doctor": YOUNG}))
    (both,) = results.findings
    assert both.title == "woman × young and the arm “Iranian doctor”: log of the ratio of odds ratios"
    begins = "Clear difference: the odds ratio of “woman” and “young” is 8.7 [2.6, 32] times as large in "
    assert both.says == f"{begins}“Iranian doctor” as in the others (n = 300, adjusted p < 0.001)."
    frame = results.frame("arm_interactions").set_index("arm")
    assert len(frame) == 3
    assert frame.loc["Iranian doctor", "p adjusted"] == pytest.approx(3 * both.p_value)
    cells = results.frame("crossed_arms").query("arm == 'Iranian doctor'")
    assert cells["combination"].tolist() == ["not woman, not young", "not woman, young", "woman, not young",
                                             "woman, young"]  # fmt: skip
    assert cells["pictures"].tolist() == [25, 25, 5, 45]
    assert cells["P"].sum() == pytest.approx(1)
    assert results.notes == ()
    assert [one.key for one in results.figures] == ["arms1"]
    assert to_bytes(results.figures[0]).startswith(b"<?xml")  # of four combinations
    assert results.figures[0].data.groupby("column", sort=False)["n"].sum().tolist() == [100, 100, 100]


def test_two_that_go_together_in_one_of_two_arms_alone_are_told_once():
    results = with_arms(arms_of({"fair": WOMEN, "crossed": WOMEN}, {"crossed": YOUNG, "fair": [1, 0] * 50}))
    assert results.frame("arm_interactions")["arm"].tolist() == ["crossed"]
    (both,) = results.findings
    assert both.title == "woman × young and the arm “crossed”: log of the ratio of odds ratios"
    assert both.estimate.value == pytest.approx(math.log(9), abs=0.1)  # 45 of 50 women and 25 of 50 men are young
    assert "the odds ratio of “woman” and “young” is" in both.says
    assert "as in “fair”" in both.says
    assert crossed_arms_headline(results.findings) == f" {both.says}"
    assert set(results.figures[0].data["column"]) == {"fair", "crossed"}


@pytest.mark.slow
def test_arms_that_are_alike_are_claimed_no_more_often_than_the_level_says():
    rng, claimed = np.random.default_rng(7), 0
    for _ in range(30):
        women = {name: rng.integers(0, 2, 61) for name in "abc"}
        results = with_arms(arms_of(women, {name: rng.integers(0, 2, 61) for name in "abc"}))
        claimed += any(one.is_clear for one in results.findings)
    assert claimed <= 5  # at 5 % each, more of 30 come once in 300 times
    assert crossed_arms_headline(results.findings).startswith((" No arm", " Clear"))


def test_nothing_is_said_where_nothing_is_crossed_or_can_be_told():
    arms = arms_of({"a": [1] * 10 + [0] * 10, "b": [1] * 10 + [0] * 10})
    assert with_arms(arms, "none").findings == ()
    assert with_arms(dict(list(arms.items())[:1])).findings == ()
    few = with_arms(arms_of({"a": [1] + [0] * 19, "b": [1] * 10 + [0] * 10}))
    assert few.notes == ("Small cells: fewer than 5 pictures of an arm are expected in a combination of "
                         "“woman × young”.",)  # fmt: skip
    everywhere = with_arms(arms_of({"a": [1] * 20, "b": [1] * 20}))
    assert everywhere.findings[0].says.startswith("Undefined: one of the attributes")
    assert everywhere.findings[0].p_value is None


CROSSED = replace(find_design("pst-swapped"), images_per_prompt=25)
FLIPPED = {"masculine": "feminine", "feminine": "masculine"}


def asked(*also_seen, **changes):
    return StudySettings(condition="crossed", options=SwappedOptions(also_seen=also_seen, **changes))


def seen(*people, setting="paired"):
    """People as ``(picture, identity, stereotype, look, old)``."""
    names = ["image_id", "identity", "stereotyped_gender", "perceived_gender", "seen: old"]
    frame = pd.DataFrame(people, columns=names)
    return frame.assign(setting=setting, position=frame.groupby("image_id").cumcount().map({0: "left", 1: "right"}))


def no_sample(_people):
    return None


def test_each_is_scored_by_what_else_is_seen_and_who_cannot_be_is_left_out():
    looks = ["masculine"] * 6 + ["feminine"] * 4 + ["cannot_identify"]
    people = seen(
        *((str(k), "ceo", "masculine", look, float(k in (0, 1, 2, 9))) for k, look in enumerate(looks)),
        *((str(k), "clerk", "feminine", look, float(k % 2)) for k, look in enumerate(looks)),
    )
    results = crossed_scores(people, asked("old"), no_sample)
    cells = results.frame("crossed_scores").set_index("combination")
    # Old CEOs: 3 of 4 masculine; others: 3 of 6. Old clerks (1, 3, 5, 7, 9): 2 of 5 feminine; others: 2 of 5.
    assert cells["people"].to_dict() == {"ceo, not old": 6, "ceo, old": 4, "clerk, not old": 5, "clerk, old": 5}
    assert cells["STS as counted"].tolist() == pytest.approx([0, 50, -20, -20])
    readings = [[1, 1]] * 3 + [[1, 0]] * 3 + [[0, 0]] * 3 + [[0, 1]]
    assert cells.loc["ceo, old", "STS"] == pytest.approx(crossed_stereotype(readings).shrunk[1])
    says = {one.key: one.says for one in results.findings}
    begins = "No clear link: 75\xa0% of ceo with “old” match the stereotype, 50\xa0% without (odds ratio "
    assert says["further-ceo-old"].startswith(begins)
    assert any(note.startswith("Few people") for note in results.notes)


def test_people_who_stand_together_are_scored_apart():
    """Two of one stereotype in a picture are no independent people; with one of each, all of a stereotype are."""

    def names_of(*pairs):
        rows = [
            (str(k), name, gender, "masculine", float((k + place) % 2))
            for k in range(8)
            for place, (name, gender) in enumerate(pairs[k % len(pairs)])
        ]
        names = crossed_scores(seen(*rows), asked("old"), no_sample).frame("crossed_scores")
        return {one.split(",")[0] for one in names["combination"]}

    ceo, guard, clerk = ("ceo", "masculine"), ("guard", "masculine"), ("clerk", "feminine")
    assert names_of((ceo, guard)) == {"ceo", "guard"}
    assert names_of((ceo, clerk), (guard, clerk)) == {"masculine-stereotyped", "feminine-stereotyped"}


def test_planted_ages_are_read_and_named_and_labels_by_hand_are_crossed_anew(services):
    settings = StudySettings(condition="crossed", options={"pairs": ("ceo and secretary",), "also_seen": ("old",)})
    swapped = complete(run_study(CROSSED, settings, services))
    people = labelled_people(swapped)
    drawn = {one: get_scene(stored.row).people for one, stored in swapped.stored.items()}
    ages = [drawn[one.image_id][int(one.position == "right")].age for one in people.itertuples()]
    assert people["seen: old"].tolist() == [float(age == "old") for age in ages]
    cells = swapped.results.frame("crossed_scores").set_index("combination")
    # Planted: 25 of 30 old CEOs are men, 25 of 70 young ones; secretaries of either age alike.
    assert cells.loc["ceo, old", "STS"] > 0 > cells.loc["ceo, not old", "STS"]
    assert "% of ceo with “old” match the stereotype" in get_study(CROSSED).headline(swapped)
    flipped = {(one.image_id, one.position): FLIPPED[one.perceived_gender] for one in people.itertuples()}
    by_hand = relabelled(swapped, flipped)
    assert not broken_claims(swapped) + broken_claims(by_hand)
    families = {}
    for found in by_hand.results.findings:
        if found.claim is not None and found.p_value is not None and not found.claim_of:
            crossed_by = found.key.partition("-")[0] if found.key.startswith(("crossed-", "further-")) else ""
            families.setdefault(crossed_by or get_study(CROSSED).family(found), []).append(found.claim.n_tests)
    assert {name: len(sizes) for name, sizes in families.items()} == {
        name: sizes[0] for name, sizes in families.items()
    }
    assert {"crossed", "further"} < set(families)  # the others are decided anew, of all new numbers
    again = by_hand.results.frame("crossed_scores").set_index("combination")
    assert again["STS as counted"].tolist() == pytest.approx((-cells["STS as counted"]).tolist())


def test_a_long_prompt_takes_time_in_proportion_to_its_length():
    assert [unit for unit in UNITS if fault(find_stereotype, unit, MAX_TEXT)] == []
