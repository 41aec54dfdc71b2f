"""`study run --draw-only` fills the store for several models, says what that costs; measuring finds the pictures."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bias_core.engine.local import LocalEngine, Rate, RateStore
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.kit.designs import design_files, find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.running.run import plan_study
from tests.shared import command_line, undrawn

__all__ = ["undrawn"]

# Two concepts of 2 pictures each and their attributes, a few seconds at most.
DRAW = ("study", "run", "--draw-only")
OF_SCIENCE = ("t2iat-tests", "--option", "tests=science_arts")
SMALL = (*OF_SCIENCE, "--option", "n_permutations=100", "--scale", "0.02", "--steps", "1")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def command(data, assets):
    return command_line(data, assets)


def ids(data: Path) -> dict[str, int]:
    return {path.stem: path.stat().st_ino for path in (data / "images").glob("??/*.png")}


def test_several_models_and_conditions_are_drawn_once_and_found_when_measured(command, data):
    models = ("--model", "calibration-renderer", "--model", "calibration-diffusion")
    conditions = ("--condition", "published", "--condition", "fair")
    result = command(*DRAW, *SMALL, *models, *conditions)
    assert result.exit_code == 0, result.output
    drawn = ids(data)
    manifests = [json.loads(path.read_text()) for path in (data / "runs").glob("*.json")]
    asked = {(run["settings"]["model"], run["settings"]["condition"]) for run in manifests}
    assert len(manifests) == len(asked) == 4
    assert {run["status"] for run in manifests} == {"finished"}
    assert sum(len({(r["prompt"], r["seed"]) for r in run["rows"]}) for run in manifests) == len(drawn)
    again = command(*DRAW, *SMALL, *models, *conditions)
    assert again.exit_code == 0, again.output
    assert ids(data) == drawn
    measured = command("study", "run", *SMALL, "--model", "calibration-diffusion", "--condition", "fair")
    assert measured.exit_code == 0, measured.output
    assert ids(data) == drawn
    assert len(list((data / "runs").glob("*.json"))) == 4


@pytest.mark.usefixtures("undrawn")
def test_a_plan_before_it_changes_nothing_in_the_report(command, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    result = command("study", "run", "--plan", *SMALL, "--out", str(ours))
    assert result.exit_code == 0, result.output
    assert command("study", "run", *SMALL, "--out", str(theirs)).exit_code == 0
    assert not (theirs / "train").exists()  # no pictures, no metadata of pictures
    ours = json.loads((ours / "report.json").read_text())
    theirs = json.loads((theirs / "report.json").read_text())
    ours.pop("seconds")
    theirs.pop("seconds")
    assert ours == theirs


def test_a_dry_run_draws_nothing_and_a_first_batch_makes_the_cost_known(command, data):
    dry = command(*DRAW, *SMALL, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "not known" in dry.output
    assert not ids(data)
    assert command(*DRAW, *SMALL).exit_code == 0
    more = command(*DRAW, *SMALL, "-n", "90", "--scale", "1", "--dry-run")
    assert more.exit_code == 0, more.output
    assert "not known" not in more.output
    assert f" {len(ids(data))} " in more.output  # that exist already
    assert "MB in all, on 1 x" in more.output


HUB = ("--model", "some-org/some-model")


@pytest.mark.parametrize(("study", "measure"), [("t2iat-tests", ["--draw-only"]), ("oasis-spi", ["--force"])])
def test_a_dry_run_needs_no_hub_and_says_what_it_cannot_know(command, data, study, measure):
    result = command("study", "run", study, *HUB, "--model", "calibration-diffusion", "--dry-run", *measure)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.output.splitlines() if "some-org/some-model" in line)
    n = row.split("│")[3].strip()
    assert f"│ not known │ up to {n} " in " ".join(row.split())
    said = " ".join(result.output.split())
    assert "not known which commit would be drawn" in said
    assert "number of steps and size" in said
    assert "BIAS_OFFLINE forbids" in said
    assert not ids(data)


def test_without_a_hub_only_a_dry_run_goes_on_and_even_that_refuses_what_no_hub_could_mend(command, tmp_path):
    result = command(*DRAW, "t2iat-tests", *HUB, "--yes")
    assert result.exit_code == 2
    assert "the hub was not reached" in " ".join(result.output.split())
    (tmp_path / "broken").mkdir()
    result = command(*DRAW, "t2iat-tests", "--model", str(tmp_path / "broken"), "--dry-run")
    assert result.exit_code == 2
    assert "no model" in result.output


def slow(data, assets):
    """As if a picture of the renderer had taken a minute here, and a megabyte."""
    services = Services(Settings(data_dir=data, assets_dir=assets, offline=True, device="cpu"))
    settings = StudySettings(options={"tests": ["science_arts"]})
    plan = plan_study(find_design("t2iat-tests"), settings, services)
    rate = Rate(seconds=60.0, n_bytes=1e6, n=100)
    RateStore(data / "rates.json").keep(plan.manifest.rows[0], LocalEngine("cpu").place(), rate)
    services.close()
    return len({row.id for row in plan.manifest.rows})


def test_a_long_run_asks_first_and_yes_answers(command, data, assets):
    n = slow(data, assets)
    arguments = (*DRAW, *OF_SCIENCE)
    dry = command(*arguments, "--dry-run")
    # a minute and a megabyte each
    assert f"{n / 60:.1f} h, {n:.1f} MB in all, on 1 x" in dry.output
    asked = command(*arguments)
    assert asked.exit_code == 2
    assert "--yes" in asked.output
    assert not ids(data)
    command(*arguments, "--scale", "0.02", "--yes")
    assert ids(data)


def test_a_disk_or_a_store_that_is_too_small_is_said(command, data, assets, monkeypatch):
    slow(data, assets)
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: type("Usage", (), {"free": 5_000_000})())
    monkeypatch.setenv("BIAS_CACHE_GB", "0.001")
    said = command(*DRAW, *OF_SCIENCE, "--dry-run").output
    assert "room for 5.0 MB only" in said
    assert "--keep" in said


def test_a_design_of_ones_own_and_kept_pictures(command, data, tmp_path):
    design = yaml.safe_load((design_files()["t2iat-tests"]).read_text())
    design["options"]["tests"] = ["science_arts"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(design))
    result = command(*DRAW, str(tmp_path / "mine.yaml"), "--scale", "0.02", "--keep")
    assert result.exit_code == 0, result.output
    (manifest,) = (json.loads(path.read_text()) for path in (data / "runs").glob("*.json"))
    assert manifest["kept"]
    assert manifest["study"] == "mine"


def test_impossible_settings_are_refused_before_anything_is_drawn(command, data):
    for message, *arguments in (
        ("at least 1, got 0", "-n", "0"), ("choose --engine ray", "--workers", "2"), ("slurm", "--engine", "slurm"),
        ("got -1", "--engine", "ray", "--workers", "-1"), ("leave --draw-only out", "--out", "x"),
        ("no-such-model", "--model", "no-such-model"), ("unfair", "--condition", "unfair"),
    ):  # fmt: skip
        result = command(*DRAW, *SMALL, *arguments)
        assert (result.exit_code, message in result.output) == (2, True), result.output
        assert not ids(data)


def test_models_without_conditions_come_once_beside_others(services):
    from bias_core.cli.study import _settings

    chosen = _settings(StudySettings(), ["some/model", "calibration-renderer"], ["fair", "extreme"], services)
    assert [(s.model, s.condition) for s in chosen] == [
        ("some/model", ""),
        ("calibration-renderer", "fair"),
        ("calibration-renderer", "extreme"),
    ]
    alone = _settings(replace(StudySettings(), scale=0.5), ["some/model"], ["published"], services)
    assert [(s.model, s.condition, s.scale) for s in alone] == [("some/model", "published", 0.5)]
