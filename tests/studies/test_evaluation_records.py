"""Numbers that travel: records that pass another program's own check, with interval, n and what is known of readers."""

import io
import json
import math
import zipfile
from dataclasses import replace

import pytest
from every_eval_ever.cli import main as every_eval_ever

from bias_core.cli.reports import FORMS_HELP
from bias_core.errors import InvalidInput
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.reports.evaluation_records import model_record, to_every_eval_ever
from bias_core.studies.running.export import facts_of
from bias_core.studies.running.hand_on import FORMS, to_form, write_report
from bias_core.types import Estimate
from tests import shared
from tests.studies.test_handed_on import NOON, explored, shipped_reports, with_one_figure

services = shared.fake_services


@pytest.fixture(scope="module")
def report(services):
    return explored(services, "doctor", arms=(Arm(condition="fair"), Arm(condition="extreme")))


def records(report):
    with zipfile.ZipFile(io.BytesIO(to_form(report, "every_eval_ever"))) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def check(folder, capsys):
    """What the program itself says of all records in a folder; errors and warnings both count."""
    code = every_eval_ever(["validate", str(folder / "data/*/*/*/*.json"), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_shipped_report_passes_the_check_of_every_eval_ever(tmp_path, capsys):
    n = 0
    for _, report in shipped_reports():
        with zipfile.ZipFile(io.BytesIO(to_every_eval_ever(report, facts_of(report)))) as archive:
            archive.extractall(tmp_path)
            n += len(archive.namelist())
    code, said = check(tmp_path, capsys)
    assert [(one["file"], one["errors"], one["warnings"]) for one in said if one["errors"] or one["warnings"]] == []
    assert (code, len(said)) == (0, n)
    assert n > 15


def test_a_broken_record_does_not_pass(report, tmp_path, capsys):
    name, record = next(iter(records(report).items()))
    record["evaluation_results"][0]["score_details"]["score"] = 7.0  # of a share
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(json.dumps(record))
    assert check(tmp_path, capsys)[0] == 1


def test_each_arm_has_its_own_record_with_intervals_n_and_what_is_known_of_the_reader(report):
    of_arms = list(records(report).values())
    ids = [one["model_info"]["id"] for one in of_arms]
    assert ids == [f"t2i-bias-explorer/calibration-renderer-{arm}" for arm in ("fair", "extreme")]
    for arm, record in zip(report.arms, of_arms, strict=True):
        known = [one for one in arm.results.findings if math.isfinite(one.estimate.value)]
        assert [one["evaluation_name"] for one in record["evaluation_results"]] == [one.title for one in known]
        first, estimate = record["evaluation_results"][0], known[0].estimate
        assert first["score_details"]["score"] == estimate.value
        assert first["score_details"]["uncertainty"] == {
            "num_samples": estimate.n,
            "confidence_interval": {
                "lower": estimate.low, "upper": estimate.high, "confidence_level": 0.95, "method": estimate.method,
            },
        }  # fmt: skip
        assert record["evaluation_timestamp"] == str(int(NOON))
        assert first["metric_config"]["metric_parameters"] == {"null_value": estimate.null_value}
        said = [one["score_details"]["details"]["reader_errors"] for one in record["evaluation_results"]]
        assert any("reader errs here is not known" in text for text in said)  # of the association
        assert record["source_metadata"]["additional_details"]["limits"].startswith("Attributes are perceived")
    assert len({name.rpartition("/")[2] for name in records(report)}) == 2
    assert records(report) == records(report)


def test_known_errors_of_a_reader_and_people_s_answers_are_said_and_not_confused():
    (doctors,) = [report for name, report in shipped_reports() if name == "doctors"]
    ((_, record),) = records(doctors).items()
    said = {one["evaluation_result_id"]: one["score_details"]["details"] for one in record["evaluation_results"]}
    assert "stands beside" in said["all pictures-man-p"]["reader_errors"]
    assert "taken into account" in said["all pictures-man-corrected"]["reader_errors"]
    labelled = replace(doctors, settings=replace(doctors.settings, labels="labels.csv"))
    ((_, record),) = records(labelled).items()
    assert record["evaluation_results"][0]["score_details"]["details"]["reader_errors"].startswith("People's answers")


def test_an_endless_interval_and_a_number_without_one_are_said_as_they_are(report):
    arm = report.arms[0]
    first, second, *_ = arm.results.findings
    endless = Estimate(value=2.0, low=1.5, high=math.inf, n=30)
    bare = Estimate(value=0.25, low=math.nan, high=math.nan, n=0, note="why")
    undefined = Estimate.undefined(0, "nothing")
    findings = tuple(
        replace(one, key=f"k{i}", metric=metric, estimate=estimate)
        for i, (one, metric, estimate) in enumerate(
            [(first, "object_odds", endless), (second, "attribute_prevalence", bare), (first, "gini", undefined)]
        )
    )
    alone = replace(report, arms=(replace(arm, results=replace(arm.results, findings=findings)),))
    ((_, record),) = records(alone).items()
    odds, share = record["evaluation_results"]  # the third is undefined
    assert odds["score_details"]["uncertainty"] == {"num_samples": 30}
    assert odds["score_details"]["details"]["interval"] == "[1.50, ∞]"
    assert "uncertainty" not in share["score_details"]
    assert share["score_details"]["details"]["interval"] == "no interval"
    nothing = replace(alone, arms=(replace(arm, results=replace(arm.results, findings=findings[2:])),))
    with pytest.raises(InvalidInput, match="no number that is known"):
        to_form(nothing, "every_eval_ever")


def test_models_have_the_names_by_which_others_know_them_and_no_path_of_this_machine(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model_index.json").write_text("{}")
    expected = {
        "calibration-renderer": "t2i-bias-explorer/calibration-renderer-fair self_deployed open_weights",
        "stable-diffusion-v1-4": "CompVis/stable-diffusion-v1-4 self_deployed open_weights",
        "org/model@v1.0": "org/model self_deployed open_weights",
        "org/model+other/lora:0.8": "org/model+other_lora_0.8 self_deployed open_weights",
        "inference:fal-ai:org/model": "org/model externally_managed unknown",
        "openai:gpt-image-1": "openai-compatible/gpt-image-1 externally_managed unknown",
        str(tmp_path / "mine"): "local/mine self_deployed unknown",
        "imported:my pictures": "imported/my_pictures unknown unknown",
    }
    found = {}
    for name in expected:
        record = model_record(StudySettings(model=name, condition="fair" if name.startswith("calib") else ""))
        details = record["additional_details"]
        found[name] = f"{record['id']} {details['deployment_type']} {details['model_availability']}"
        assert str(tmp_path) not in json.dumps(record)
    assert found == expected


def test_the_name_of_a_file_says_which_form_and_the_command_line_s_help_names_all(report, tmp_path):
    report = with_one_figure(report)
    for form in FORMS.values():
        if form.ending != ".html":
            place = tmp_path / f"run{form.ending}"
            assert write_report(report, place).read_bytes() == form.write(report), form.title
    assert [name for name in FORMS if name not in FORMS_HELP] == []
    with zipfile.ZipFile(write_report(report, tmp_path / "all.zip")) as archive:
        assert archive.read("records.zip") == to_form(report, "every_eval_ever")
