"""The command that writes the report, and a study that is stopped."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

import validation.__main__ as command
from bias_core.errors import Cancelled
from bias_core.report.headlines import headline
from bias_core.report.shipped import load_shipped
from bias_core.run.run import followed, run_study
from bias_core.study.design import find_design
from bias_core.study.types import StudyReport, StudySettings
from tests.ui.fakes import FakeServices

MODEL = "calibration-renderer"


@pytest.fixture
def services(tmp_path, monkeypatch):
    made = FakeServices(tmp_path / "data")
    monkeypatch.setattr("bias_core.services.Services", lambda *_, **__: made)
    yield made
    made.close()


def asked(*words):
    result = CliRunner().invoke(command.app, ["report", *words], env={"COLUMNS": "300"})
    return result.exit_code, result.output


def test_a_study_that_does_not_exist_is_answered_with_those_that_do(services):
    code, output = asked("--study", "validity")
    assert code == 2, output
    assert "no validity study is called 'validity'; there are validity-rates, validity-measures" in output


def test_the_limit_is_said_in_one_sentence(services, tmp_path):
    services.settings = services.settings.model_copy(update={"max_images": 7})
    code, output = asked("--scale", "0.01", "--out", str(tmp_path))
    assert code == 2, output
    assert "at most 7 here (BIAS_MAX_IMAGES)" in output


def test_one_study_anew_is_written_beside_the_shipped_ones_and_shipped_without_its_repetitions(
    services, tmp_path, monkeypatch
):
    monkeypatch.setattr(command, "SHIPPED", tmp_path / "validity")
    name = "validity-mitigation"
    out, words = tmp_path / "docs", ("--study", name, "--scale", "0.01", "--ship", "--repetitions")
    code, output = asked(*words, "--out", str(out))
    assert code == 0, output
    assert "python -m validation report" in (out / "README.md").read_text()
    assert (out / name / "report.md").read_text().startswith("# Mitigation")
    assert set(pd.read_csv(out / name / "tables" / "repetitions.csv")["repetition"]) == {0, 1, 2}
    (saved,) = load_shipped(tmp_path / "validity")
    assert [table.key for table in saved.report.results.tables] == ["verdicts", "summary", "settings"]
    assert "pictures" not in json.loads((tmp_path / "validity" / f"{name}.json").read_text())["report"]["results"]


def test_a_study_stopped_while_it_measures_reports_the_repetitions_that_were_finished(services):
    design = replace(find_design("validity-raters"), images_per_prompt=20)
    settings = StudySettings(model=MODEL, seed=100, options={"pool": 40, "repetitions": 4})
    seen: list[str] = []

    def stopped_after(n):
        seen.clear()
        is_over = lambda: any(message.startswith(f"{n} of 4 repetitions") for message in seen)  # noqa: E731
        reports: list[StudyReport] = []
        steps = followed(run_study(design, settings, services, cancelled=is_over), reports)
        seen.extend(step.message for step in steps)
        return reports[0]

    few = stopped_after(2)
    assert few.stopped_after == "3 of 4 repetitions"  # the one at work is finished
    assert few.stopped
    assert set(few.results.frame("repetitions")["repetition"]) == {0, 1, 2}
    assert headline(few).endswith("Stopped after 3 of 4 repetitions.")
    assert "Stopped after 3 of 4 repetitions; the numbers rest on these." in few.results.notes
    with pytest.raises(Cancelled, match="stopped after 1 of 4 repetitions, too few for a number"):
        stopped_after(0)
    whole = stopped_after(4)
    assert not whole.stopped
    assert whole.run_id == few.run_id
    measured = whole.results.frame("repetitions")
    pd.testing.assert_frame_equal(
        measured[measured["repetition"] < 3].reset_index(drop=True), few.results.frame("repetitions")
    )
