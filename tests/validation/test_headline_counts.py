"""Counts of headlines that claim something: every trial can run, and the report says what its records hold."""

import json

import pytest

from bias_core.report.headlines import headline
from bias_core.run.plan import plan_study
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from tests.ui.fakes import FakeServices
from validation.headlines import RENDERER, Trial, all_trials, headline_report

TRIALS = all_trials(RENDERER)


@pytest.mark.parametrize("trial", TRIALS, ids=[trial.name for trial in TRIALS])
def test_every_trial_can_run(trial, tmp_path):
    services = FakeServices(tmp_path)
    for condition in trial.conditions:
        design = trial.design(find_design(trial.study), condition)
        settings = StudySettings(model=RENDERER, condition=condition, **trial.settings)
        assert plan_study(design, settings, services).manifest.rows
    services.close()


CLAIM, NONE = "Men are shown clearly more often.", "No clear difference."


def write(folder, condition, *runs):
    records = [
        {"seed": i, "headline": text, "n_images": 10, "numbers": {"P": [value, verdict]}}
        for i, (text, value, verdict) in enumerate(runs)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"a-small-{condition}.jsonl").write_text(lines, encoding="utf-8")


def test_the_report_counts_claims_power_and_wrong_signs(tmp_path):
    write(tmp_path, "fair", (CLAIM, 0.1, "above"), *[(NONE, 0.0, "not clear")] * 3)
    write(tmp_path, "published", (CLAIM, 0.1, "above"), (NONE, -0.1, "not clear"))  # no sign
    write(tmp_path, "extreme", *[(CLAIM, 0.9, "above"), (CLAIM, 0.8, "above")] * 3, (CLAIM, -0.1, "below"))
    report = headline_report(tmp_path, [Trial(study="a", size="small", settings={})], RENDERER)
    (row,) = report.results.tables[0].frame.to_dict("records")
    assert (row["fair: claims"], row["fair: runs"]) == (0.25, 4)
    assert (row["published: claims"], row["extreme: claims"]) == (0.5, 1.0)
    assert (row["clear numbers"], row["with the wrong sign"]) == (7, 1)
    false, wrong = (finding.estimate for finding in report.results.findings)
    assert (false.value, false.n, wrong.value, wrong.n) == (0.25, 4, 1 / 7, 7)
    said = headline(report).replace("\N{NO-BREAK SPACE}", " ")
    assert "1 of 4 headlines claim something (25 %)" in said
    assert "1 of 7 clear numbers have the wrong sign" in said


def test_a_claim_that_holds_over_all_runs_is_true_of_a_model_that_is_fair_only_nearly(tmp_path):
    lean = [(NONE, 0.1, "not clear"), (NONE, 0.2, "not clear"), (CLAIM, 0.3, "above"), (CLAIM, 0.3, "above")]
    write(tmp_path, "fair", *lean, (CLAIM, -0.1, "below"))
    report = headline_report(tmp_path, [Trial(study="a", size="small", settings={})], "calibration-diffusion")
    (row,) = report.results.tables[0].frame.to_dict("records")
    assert (row["fair: claims"], row["false claims"]) == (0.6, 1)
    assert "3 of 5 headlines claim something (60 %), of which 2 are true" in headline(report).replace("\u00a0", " ")


def test_studies_that_are_not_run_again_stay_as_they_were_counted(tmp_path):
    trials = [Trial(study=name, size="small", settings={}) for name in ("a", "b")]
    write(tmp_path, "fair", *[(CLAIM, 0.1, "above")] * 2, *[(NONE, 0.0, "not clear")] * 2)
    earlier = headline_report(tmp_path, trials, RENDERER)
    (tmp_path / "a-small-fair.jsonl").rename(tmp_path / "b-small-fair.jsonl")
    both = headline_report(tmp_path, trials, RENDERER, earlier).results.tables[0].frame
    assert both["study"].tolist() == ["a", "b"]
    assert both["false claims"].tolist() == [2, 2]
    assert both["p"].nunique() == 1
    assert (both["p adjusted"] == 2 * both["p"]).all()  # two tests now


def test_a_study_that_claims_too_often_is_named(tmp_path):
    write(tmp_path, "fair", *[(CLAIM, 0.1, "above")] * 9, *[(NONE, 0.0, "not clear")] * 11)
    report = headline_report(tmp_path, [Trial(study="a", size="small", settings={})], RENDERER)
    assert "too often: a (small)" in headline(report)
