"""The stereotype test score by what else is seen of people: by hand, on planted ages, and what cannot be asked."""

from dataclasses import replace

import pandas as pd
import pytest

from bias_core.adapters.calibration_renderer import scene_of
from bias_core.errors import InvalidInput
from bias_core.metrics.crossed_stereotype import crossed_stereotype
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.paired.crossed import crossed_scores
from bias_core.studies.paired.labelling import check_labelling, labelled_people, relabelled
from bias_core.studies.paired.swapped import SwappedOptions
from bias_core.studies.running.run import complete, run_study
from tests import shared
from tests.every import every

services = shared.real_services

DESIGN = replace(find_design("pst-swapped"), images_per_prompt=25)
FLIPPED = {"masculine": "feminine", "feminine": "masculine"}


def asked(*also_seen, **changes):
    return StudySettings(condition="crossed", options=SwappedOptions(also_seen=also_seen, **changes))


def table(*people, setting="paired"):
    """People as ``(picture, identity, stereotype, look, old)``."""
    names = ["image_id", "identity", "stereotyped_gender", "perceived_gender", "seen: old"]
    frame = pd.DataFrame(people, columns=names)
    return frame.assign(setting=setting, position=frame.groupby("image_id").cumcount().map({0: "left", 1: "right"}))


def no_sample(_people):
    return None


def test_each_is_scored_by_what_else_is_seen_and_who_cannot_be_is_left_out():
    looks = ["masculine"] * 6 + ["feminine"] * 4 + ["cannot_identify"]
    people = table(
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
        names = crossed_scores(table(*rows), asked("old"), no_sample).frame("crossed_scores")
        return {one.split(",")[0] for one in names["combination"]}

    ceo, guard, clerk = ("ceo", "masculine"), ("guard", "masculine"), ("clerk", "feminine")
    assert names_of((ceo, guard)) == {"ceo", "guard"}
    assert names_of((ceo, clerk), (guard, clerk)) == {"masculine-stereotyped", "feminine-stereotyped"}


def test_planted_ages_are_read_and_named_and_labels_by_hand_are_crossed_anew(services):
    settings = StudySettings(condition="crossed", options={"pairs": ("ceo and secretary",), "also_seen": ("old",)})
    report = complete(run_study(DESIGN, settings, services))
    people = labelled_people(report)
    drawn = {one: scene_of(stored.row).people for one, stored in report.stored.items()}
    ages = [drawn[one.image_id][int(one.position == "right")].age for one in people.itertuples()]
    assert people["seen: old"].tolist() == [float(age == "old") for age in ages]
    cells = report.results.frame("crossed_scores").set_index("combination")
    # Planted: 25 of 30 old CEOs are men, 25 of 70 young ones; secretaries of either age alike.
    assert cells.loc["ceo, old", "STS"] > 0 > cells.loc["ceo, not old", "STS"]
    assert "ceo with “old” look as the stereotype has it in" in program_of(DESIGN).headline(report)
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
