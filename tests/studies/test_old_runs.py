"""What the version before this one kept opens: an exploration, a comparison, pictures of one's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bias_core.studies.explore.report import OLD_SETTINGS, Exploration
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.kit.types import Arm
from bias_core.studies.reports.documents import to_dict, to_markdown
from bias_core.studies.running.history import go_on, keep_run, list_runs, open_run
from bias_core.studies.running.run import complete
from tests.ui.fakes import FakeServices

KEPT = Path(__file__).parent / "old_runs"
EXPLORED, COMPARED, OWN = "9dd459fdc456cdbe", "470de83f5f5a1d6c", "406ca16dc76ebc8f"
ME = "anna"


@pytest.fixture
def services(tmp_path):
    shutil.copytree(KEPT, tmp_path / "data")
    built = FakeServices(tmp_path / "data")
    yield built
    built.close()


def test_all_three_are_on_the_list_and_open(services):
    assert {line.run_id: line.title for line in list_runs(services, ME)} == {
        EXPLORED: "a photo of a doctor",
        COMPARED: "doctor: fair against published",
        OWN: "Attributes in pictures of your own",
    }
    for run_id in (EXPLORED, COMPARED, OWN):
        report = open_run(services, ME, run_id).report
        assert report.run_id == run_id
        assert to_dict(report)["run_id"] == run_id
        assert "no longer stored" in to_markdown(report)


def test_a_kept_exploration_has_the_numbers_that_it_had(services):
    report = open_run(services, ME, EXPLORED).report
    man = next(one for one in to_dict(report)["attributes"] if one["name"] == "man")
    assert (man["prevalence"]["value"], man["prevalence"]["n"]) == (5 / 6, 6)
    assert man["stereotype"]["value"] == pytest.approx(5 / 6 - 0.5)
    assert man["reference_source"] == "assumed 50 %, a choice"
    seen = Exploration(report)
    assert seen.association is not None
    assert (seen.association.attribute_a, seen.association.mean.n) == ("male", 6)
    assert report.settings.seed == 3
    assert option_values(report.settings.options)["n_images"] == 6


def test_a_kept_exploration_goes_on_and_is_listed_once(services):
    keep_run(services, ME, EXPLORED, is_kept=True)
    report = complete(go_on(services, ME, EXPLORED))
    assert report.n_images == 10
    lines = {line.run_id: line for line in list_runs(services, ME)}
    assert EXPLORED not in lines
    assert lines[report.run_id].is_kept
    assert lines[report.run_id].title == "a photo of a doctor"


def test_a_kept_comparison_is_an_exploration_with_arms(services):
    manifest = services.manifests.get(COMPARED)
    design, settings = find_design("explore"), OLD_SETTINGS[manifest.study](manifest.settings)
    assert design.name == "explore"
    assert [arm.condition for arm in settings.arms] == ["fair", "published"]
    assert settings.arms[0] == Arm(model="calibration-renderer", condition="fair", negative_prompt="")
    options = option_values(settings.options)
    assert (options["concept"], options["n_images"]) == ("doctor", 5)
    assert [one.name for one in settings.options.scored] == ["man"]
