"""Intersections against what is planted: what is there is found, and the check can fail."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import run_study
from bias_core.studies.validity import intersections
from tests.studies.test_run_study import finish

DESIGN = replace(find_design("validity-intersections"), images_per_prompt=80)


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    built = Services(Settings(data_dir=tmp_path_factory.mktemp("data"), offline=True))
    yield built
    built.close()


def run(services):
    settings = StudySettings(model="calibration-renderer", options={"repetitions": 3, "pool": 150})
    return finish(run_study(DESIGN, settings, services))[0]


def test_the_targets_are_what_the_world_plants_and_all_of_it_is_found(services, monkeypatch):
    report = run(services)
    claims = report.results.frame("claims").set_index(["condition", "attributes"])
    assert len(claims) == 8
    planted = claims["log odds ratio that is planted"]
    assert planted["crossed", "woman × young"] == pytest.approx(2.1972, abs=1e-4)  # log 9
    assert (planted.drop(("crossed", "woman × young")) == 0).all()
    rows = report.results.frame("repetitions").query("condition == 'crossed'")
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
    found, claimed, of_three = report.results.findings[:3]
    assert of_three.estimate.n == 6
    assert (found.estimate.n, claimed.estimate.n) == (3, 21)
    assert found.estimate.value > 0.6
    # The check can fail: a reader whose answers go together by themselves claims what nobody planted.
    monkeypatch.setattr(intersections, "interaction", lambda calls, **how: _alike(calls, how))
    assert run(services).results.findings[1].estimate.value == 1


_interaction = intersections.interaction


def _alike(calls, how):
    return _interaction(calls[:, :1].repeat(calls.shape[1], axis=1)[:, :2], **{**how, "errors": None})


def test_other_conditions_and_imported_pictures_are_refused(services):
    for change, words in (({"options": {"conditions": ("fair", "extreme")}}, "conditions are fair, crossed"),):
        with pytest.raises(InvalidInput, match=words):
            finish(run_study(DESIGN, StudySettings(model="calibration-renderer", **change), services))
