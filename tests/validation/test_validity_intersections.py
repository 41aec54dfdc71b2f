"""Intersections against what is planted: what is there is found, and the check can fail."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import complete, run_study
from tests import shared
from validation import find_study, intersections

services = shared.real_services

_WHOLE = find_study("validity-intersections")
DESIGN = replace(_WHOLE, images_per_prompt=130, data={**_WHOLE.data, "sets_of_pairs": 1})


def run(services, repetitions=3):
    settings = StudySettings(model="calibration-renderer", options={"repetitions": repetitions, "pool": 130})
    return complete(run_study(DESIGN, settings, services))


def test_the_targets_are_what_the_world_plants_and_all_of_it_is_found(services, monkeypatch):
    report = run(services)
    claims = report.results.frame("claims").set_index(["condition", "attributes"])
    assert len(claims) == 12
    planted = claims["log odds ratio that is planted"]
    assert planted["crossed", "woman × young"] == pytest.approx(2.1972, abs=1e-4)  # log 9
    three = ("crossed, all three", "woman × young × glasses")
    assert planted[three] == pytest.approx(-3.688, abs=1e-3)  # of engineers, by the rates in planted.yaml
    assert (planted.drop([("crossed", "woman × young"), three]) == 0).all()
    every = report.results.frame("repetitions").query("condition == 'crossed'")
    rows = every[every["variant"] == ""]
    targets = rows.groupby(["what is planted", "measure"])["target"].unique()
    pair, three = "two attributes together", "two of three attributes together"
    assert targets[pair, "joint_excess"] == pytest.approx([0.1])
    assert sorted(targets[pair, "crossed_share"]) == pytest.approx([0.25, 0.45, 0.75, 0.95])
    glasses = report.results.frame("repetitions").query(
        "`what is planted` == @three and measure == 'signed_difference'"
    )
    assert glasses.query("condition == 'fair'")["target"].unique() == pytest.approx([0], abs=1e-9)
    # Two are 0.1 more often together, of whom as many wear glasses as of all.
    share = targets[three, "joint_excess"] / targets[pair, "joint_excess"]
    assert targets[three, "signed_difference"] == pytest.approx(targets[pair, "signed_difference"] * share)
    assert len(targets[three, "crossed_share"]) == 8
    # Of old CEOs one in six is a woman, of young ones 45 of 70; that of the young is told against the stereotype.
    scores = {of: set(targets[of, "crossed_stereotype"].round(6)) for of in (pair, three)}
    assert scores[pair] == {round(100 * (1 - 2 / 6), 6), round(-100 * (1 - 90 / 70), 6)}
    assert scores[three] == scores[pair]  # who wears glasses does not matter
    # In pairs, with as many engineers, of whom nothing is planted: 25 + 15 of 60 who are old are men, 60 of 140 young.
    in_pairs = every[(every["variant"] == "in pairs") & (every["measure"] == "crossed_stereotype")]
    assert set(in_pairs["target"].round(6)) == {round(100 * (2 * 40 / 60 - 1), 6), round(-100 * (2 * 60 / 140 - 1), 6)}
    of_all = report.results.frame("repetitions").query("`what is planted` == 'three attributes together'")
    assert sorted(of_all["target"].unique().round(3)) == [0, 3.688]
    found, found_three, claimed, of_three = report.results.findings[:4]
    assert of_three.estimate.n == 9
    assert (found.estimate.n, found_three.estimate.n, claimed.estimate.n) == (3, 3, 30)
    assert min(found.estimate.value, found_three.estimate.value) > 0.6
    # The check can fail: a reader whose answers go together by themselves claims what nobody planted.
    monkeypatch.setattr(intersections, "interaction", lambda calls, **how: _alike(calls, how))
    assert run(services, 2).results.findings[2].estimate.value == 1


_interaction = intersections.interaction


def _alike(calls, how):
    return _interaction(calls[:, :1].repeat(calls.shape[1], axis=1)[:, :2], **{**how, "errors": None})


def test_other_conditions_are_refused(services):
    settings = StudySettings(model="calibration-renderer", options={"conditions": ("fair", "extreme")})
    with pytest.raises(InvalidInput, match="conditions are fair, crossed"):
        complete(run_study(DESIGN, settings, services))
