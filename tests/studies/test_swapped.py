"""Two people in both places, and their score by what else is seen: what is planted is told apart."""

import io
import json
import zipfile
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.errors import InvalidInput
from bias_core.metrics.cards import METRICS
from bias_core.metrics.crossed_stereotype import crossed_stereotype
from bias_core.metrics.swapped import order_effect
from bias_core.stats.effects import holm
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.crossed import crossed_scores
from bias_core.studies.paired.labelling import check_labelling, labelled_people, relabelled
from bias_core.studies.paired.swapped import SwappedOptions
from bias_core.studies.running.hand_on import to_form
from bias_core.studies.running.run import complete, run_study
from bias_core.types import ImageRow
from tests import shared
from tests.every import every
from tests.studies.oasis_runs import findings

services = shared.real_services

DESIGN = replace(find_design("pst-swapped"), images_per_prompt=40)


def run(services, condition="people", **options):
    settings = StudySettings(model="calibration-renderer", condition=condition, options=options)
    return complete(run_study(DESIGN, settings, services))


@pytest.fixture(scope="module")
def report(services):
    return run(services, pairs=("lawyer and clerk",))


def test_the_place_is_found_and_the_role_is_not_blamed(report):
    found = findings(report)
    assert found["place"].estimate.low > 0
    assert found["place"].estimate.value == pytest.approx(0.4, abs=0.32)  # four standard errors
    assert found["role"].estimate.low < 0 < found["role"].estimate.high
    for key in ("place", "role", "both"):  # the reader mistakes one or two in a hundred
        assert found[key].estimate.value == pytest.approx(found[key].expected, abs=0.05)
    headline = program_of(DESIGN).headline(report)
    points = f"by {100 * found['place'].estimate.value:.0f} points, up on the left"
    assert headline.startswith(f"The place alone moves the share of masculine-looking people {points}")
    assert "The role alone moves the share of masculine-looking people by no clear amount" in headline
    assert set(found) == {"place", "role", "both", *(key for key in found if key.startswith("kappa"))}


def test_what_is_not_below_the_corrected_level_is_not_claimed(report):
    place = findings(report)["place"]
    less_sure = [replace(one, p_value=0.06) for one in report.results.findings if one.key in ("place", "role")]
    headline = program_of(DESIGN).headline(replace(report, results=replace(report.results, findings=tuple(less_sure))))
    assert place.estimate.low > 0  # by itself it is clear
    assert headline.startswith("The place alone moves the share of masculine-looking people by no clear amount")


def test_its_numbers_are_within_the_ranges_of_their_measures_for_other_programs_too(report):
    with zipfile.ZipFile(io.BytesIO(to_form(report, "every_eval_ever"))) as archive:
        (record,) = (json.loads(archive.read(name)) for name in archive.namelist())
    for one in record["evaluation_results"]:
        low, high = (float(one["metric_config"][end]) for end in ("min_score", "max_score"))
        assert low <= one["score_details"]["score"] <= high
        assert (low, high) == METRICS[one["metric_config"]["metric_kind"]].bounds


def test_a_label_corrected_by_hand_moves_the_numbers(report):
    people = labelled_people(report)
    left = people[people["position"] == "left"]
    everybody = {(one.image_id, "left"): "feminine" for one in left.itertuples()}
    corrected = findings(relabelled(report, everybody))
    assert corrected["place"].estimate.value < 0


@pytest.mark.slow
def test_at_200_pictures_what_is_planted_is_found_and_nothing_else_is_claimed():
    # On the record of what is drawn.
    planted = {("doctor", "nurse"): "role", ("lawyer", "clerk"): "place"}
    n_found, claims = 0, []
    for condition, (pair, truth), repetition in product(("people", "fair"), planted.items(), range(4)):
        less = []
        for (left, right), sign in ((pair, 1), (pair[::-1], -1)):
            prompt = f"Generate a picture of one {left} on the left and one {right} on the right."
            rows = [
                ImageRow(prompt=prompt, model="calibration-renderer", condition=condition, seed=1000 * repetition + k)
                for k in range(100)
            ]
            looks = [[one.gender == "masculine" for one in scene_of(row).people] for row in rows]
            less.append(sign * -np.diff(np.array(looks, dtype=float), axis=1)[:, 0])
        effects = {"role": order_effect(*less, sign=1), "place": order_effect(*less)}
        for (key, effect), p_value in zip(effects.items(), holm([e.p_value for e in effects.values()]), strict=True):
            if condition == "people" and key == truth:
                n_found += p_value < 0.05
                assert effect.estimate.value == pytest.approx(0.4, abs=0.25)  # five standard errors
            else:
                claims.append(p_value < 0.05)
    assert n_found == 8
    assert np.mean(claims) <= 0.14  # 5 % of 24, and two standard errors


def test_pairs_that_are_none_are_refused(services):
    twice = ("doctor and nurse", "nurse and cook")
    for pairs, words in (((), "two roles"), (("doctor",), "two roles"), (twice, "one pair only")):
        with pytest.raises(InvalidInput, match=words):
            run(services, pairs=pairs)


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
    begins = "Not told from chance: ceo with “old” look as the stereotype has it in 75 %, without in 50 % (odds ratio "
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
    report = complete(run_study(CROSSED, settings, services))
    people = labelled_people(report)
    drawn = {one: scene_of(stored.row).people for one, stored in report.stored.items()}
    ages = [drawn[one.image_id][int(one.position == "right")].age for one in people.itertuples()]
    assert people["seen: old"].tolist() == [float(age == "old") for age in ages]
    cells = report.results.frame("crossed_scores").set_index("combination")
    # Planted: 25 of 30 old CEOs are men, 25 of 70 young ones; secretaries of either age alike.
    assert cells.loc["ceo, old", "STS"] > 0 > cells.loc["ceo, not old", "STS"]
    assert "ceo with “old” look as the stereotype has it in" in program_of(CROSSED).headline(report)
    flipped = {(one.image_id, one.position): FLIPPED[one.perceived_gender] for one in people.itertuples()}
    again = relabelled(report, flipped).results.frame("crossed_scores").set_index("combination")
    assert again["STS as counted"].tolist() == pytest.approx((-cells["STS as counted"]).tolist())


@every([
    ({"also_seen": ("old", "glasses", "beard")}, "at most 2 different"),
    ({"also_seen": ("old", "Old")}, "at most 2 different"),
    ({"also_seen": ("tall",)}, "no built-in attribute 'tall'"),
    ({"also_seen": ("old",), "labeller": "vqa"}, "labeller=finder without a judge"),
])  # fmt: skip
def test_what_cannot_be_seen_is_refused_before_drawing(changes, words):
    with pytest.raises(InvalidInput, match=words):
        check_labelling(StudySettings(options=SwappedOptions(**changes)))
