"""Runs that people publish, and those of others next to the papers' numbers; a hostile file costs only its own line."""

import json
import math
import os
import re
import zipfile
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from bias_core.app.cli import app
from bias_core.errors import InvalidInput
from bias_core.report.export import OF_CALIBRATION, build_published_run, publish, to_form
from bias_core.report.published import claims_frame, claims_table, describe_differences, published_measures, runs_frame
from bias_core.report.report_text import finding_rows
from bias_core.report.saved import list_examples, open_example
from bias_core.store.published_runs import MOST_BYTES, read_published_runs, to_json
from bias_core.study.types import Arm
from bias_core.ui.runs import published as page
from bias_core.ui.runs.published import PublishedFold, published_html
from bias_core.ui.visitor import Visitor
from tests import shared

services = shared.fake_services
EVIL = "<img src=x onerror=alert(1)> [x](javascript:1) [red]"


def example(name):
    return open_example(next(one for one in list_examples() if one.name == name)).report


@pytest.fixture(scope="module")
def doctors():
    return example("doctors")


@pytest.fixture(scope="module")
def values(doctors):
    """The values in the file of a published run."""
    return json.loads(to_json(build_published_run(doctors)))


def test_a_run_is_published_as_claims_and_a_card_and_never_over_another(doctors, tmp_path):
    folder = publish(doctors, tmp_path)
    assert re.fullmatch(rf"explore_calibration-renderer-\w+_2026-\d\d-\d\d_{doctors.run_id}", folder.name)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "claims.json"]
    (run,) = read_published_runs([str(folder)]).runs
    assert run.source == folder.name
    assert to_json(run) == to_json(build_published_run(doctors))
    rows = finding_rows(doctors)
    assert [(claim.value, claim.n, claim.clear) for claim in run.parts[0].claims] == [
        (row["value"], row["n"], row["clear"]) for row in rows
    ]
    _, head, card = (folder / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(head)["viewer"] is False
    assert OF_CALIBRATION in card
    assert run.caution == OF_CALIBRATION
    assert "## Bias, Risks, and Limitations" in card
    before = (folder / "claims.json").read_bytes()
    with pytest.raises(InvalidInput, match="exists already"):
        publish(replace(doctors, created=doctors.created), tmp_path)
    assert (folder / "claims.json").read_bytes() == before


def test_what_the_app_does_not_show_is_not_published(doctors, tmp_path):
    with pytest.raises(InvalidInput, match="the classifier is not made for these pictures"):
        publish(replace(doctors, warning="Do not trust it."), tmp_path)
    results = replace(doctors.results, findings=(), tables=())
    with pytest.raises(InvalidInput, match=r"none of its numbers is known \(3 .*blocked"):
        publish(replace(doctors, results=results, n_blocked=3), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/home/Anna Ö/models/mine", "~/mine", "../anna/mine", "C:\\Users\\anna\\mine"])
def test_nothing_of_this_machine_is_published(doctors, tmp_path, place):
    settings = replace(
        doctors.settings,
        model=f"{place}+{place}-lora:0.8",
        labels=f"{place}.csv",
        images="anna/mine.zip",
        arms=(Arm(images=f"{place}.zip"),),
    )
    stored = {
        key: replace(image, row=replace(image.row, model=settings.model)) for key, image in doctors.stored.items()
    }
    folder = publish(replace(doctors, settings=settings, stored=stored), tmp_path)
    written = "".join([folder.name, *(path.read_text() for path in folder.iterdir())])
    assert "mine" in written
    assert not [word for word in ("Anna", "anna", "/models", "Users", "~") if word in written]


def test_a_folder_with_a_short_name_changes_no_other_text(doctors, tmp_path):
    results = replace(doctors.results, notes=("n/a, male/female, hf.co/a",))
    settings = replace(doctors.settings, images="/a", labels="male/")
    folder = publish(replace(doctors, settings=settings, results=results), tmp_path)
    assert "n/a, male/female, `hf.co/a`" in (folder / "README.md").read_text()


def test_claims_that_are_too_long_to_be_read_are_not_written(doctors, tmp_path):
    with pytest.raises(InvalidInput, match=r"cannot be published: in claims.json, versions, 'x', has 4,001"):
        publish(replace(doctors, versions={"x": "1" * 4_001}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_between_arms_name_the_models_of_the_arms_and_each_arm_its_own_revision(tmp_path):
    report = example("fair-and-published")
    of_arm = dict(zip(report.pictures["image_id"], report.pictures["arm"], strict=True))
    stored = {
        key: replace(image, row=replace(image.row, revision=of_arm[key])) if key in of_arm else image
        for key, image in report.stored.items()
    }
    between, fair, _ = build_published_run(replace(report, stored=stored)).parts
    assert fair.model in between.model.split(", ")
    assert fair.revision == "fair"
    assert {claim.attribute for claim in between.claims} == {""}
    name = publish(replace(report, arms=report.arms[:1]), tmp_path).name
    assert name.startswith("explore_calibration-renderer-fair_")


def test_the_sentences_of_attributes_and_missing_pictures_are_shown(doctors):
    run = build_published_run(doctors)
    assert run.measurement["“man”"] == "“a photo of a man”, not “a photo of a woman”"
    part = replace(run.parts[0], n_planned=12, n_images=9, n_blocked=2)
    assert runs_frame([replace(run, parts=(part,))])["pictures"].item() == "9 of 12, 2 blocked"


def test_ends_without_limit_and_unknown_numbers_come_back(doctors, tmp_path):
    run = build_published_run(doctors)
    part = run.parts[0]
    claim = replace(part.claims[0], measure="Ratio", clear="", value=math.nan, low=1.5, high=math.inf)
    (tmp_path / "claims.json").write_bytes(to_json(replace(run, parts=(replace(part, claims=(claim,)),))))
    (read,) = read_published_runs([str(tmp_path)]).runs
    (back,) = read.parts[0].claims
    assert math.isnan(back.value)
    assert (back.low, back.high) == (1.5, math.inf)


def changed(values, **claim):
    return {**values, "parts": [{**values["parts"][0], "claims": [{**values["parts"][0]["claims"][0], **claim}]}]}


def test_a_hostile_file_is_named_as_left_out_and_the_others_count(values, tmp_path):
    deep = b'{"format": ' + b"[" * 100_000
    bad = {
        "large": (b" " * (MOST_BYTES + 1), "larger than 4 MB"),
        "deep": (deep, "is no readable JSON: it has lists nested too deep|more than"),
        "text": (b"\xff\xfe", "is no readable JSON"),
        "list": ([values], "is no file of claims"),
        "other": ({"format": "x"}, "is no file of claims"),
        "newer": ({**values, "version": 2}, r"a newer format \(2; this program reads 1\)"),
        "version": ({**values, "version": True}, "no known version"),
        "nan": (changed(values, value=math.nan), "claims 1 value must be a number; got nan"),
        "vast": (changed(values, value=10**400), "must be a number"),
        "n": (changed(values, n=-1), "claims 1 n must be a number; got -1"),
        "half": (changed(values, n=1.5), "must be a number"),
        "ends": (changed(values, low=2, high=1), "an interval, p or verdict that there cannot be"),
        "verdict": (changed(values, clear="sure"), "or verdict that there cannot be"),
        "p": (changed(values, p_value=5), "or verdict that there cannot be"),
        "unknown": (changed(values, value=None, clear="yes"), "or verdict that there cannot be"),
        "percent": (changed(values, value=73, high=None), "cannot be 73: Attribute prevalence P is from 0 to 1"),
        "order": ({**values, "title": "no\u202ebias"}, r"U\+202E, which reorders"),
        "title": ({**values, "title": [EVIL]}, "title must be a text"),
        "escape": ({**values, "title": "\x1b[2J"}, r"U\+001B"),
        "long": ({**values, "title": "x" * 9_999}, "at most 4,000"),
        "settings": ({**values, "versions": {"a": {"b": "c"}}}, "must be a text"),
        "missing": ({name: text for name, text in values.items() if name != "study"}, "has no study"),
        "empty": ({**values, "parts": []}, "has no claim"),
    }
    for name, (content, _) in bad.items():
        (tmp_path / name).mkdir()
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / name / "claims.json").write_bytes(data)
    for name in ("good", f"{EVIL.replace('/', '')}\x1b[2J"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "claims.json").write_text(json.dumps({**values, "run": name[:4]}))
    read = read_published_runs([str(tmp_path)])
    names = {name.rpartition("/")[2]: reason for name, reason in read.left_out}
    assert set(names) == set(bad)
    for name, (_, message) in bad.items():
        assert re.search(message, names[name]), name
    assert len(read.runs) == 2
    again = read_published_runs([str(tmp_path / "good"), str(tmp_path / "good" / "claims.json")])
    assert (len(again.runs), again.left_out) == (1, (("claims.json", "is the same as good"),))
    assert not [run for run in read.runs if "\x1b" in run.source]


def test_links_pipes_and_zip_bombs_are_left_out(values, tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "given"
    for place in (outside, folder / "linked", folder / "pipe"):
        place.mkdir(parents=True)
    (outside / "claims.json").write_text(json.dumps(values))
    (folder / "link").symlink_to(outside)
    (folder / "linked" / "claims.json").symlink_to(outside / "claims.json")
    os.mkfifo(folder / "pipe" / "claims.json")
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/claims.json", b" " * 50_000_000)
        archive.writestr("../../b/claims.json", json.dumps(values))
    (tmp_path / "broken.zip").write_bytes((tmp_path / "bomb.zip").read_bytes()[:-40])
    read = read_published_runs([str(folder), str(tmp_path / "bomb.zip"), str(tmp_path / "broken.zip"), "/no/such"])
    assert dict(read.left_out) == {
        "given/link": "a link to a folder, which is not followed",
        "given/linked": "its claims.json is no file of this folder",
        "given/pipe": "its claims.json is no file of this folder",
        "bomb.zip/a": "is larger than 4 MB, the limit for claims.json",
        "broken.zip": dict(read.left_out)["broken.zip"],
        "such": "there is no such folder or file",
    }
    assert len(read.runs) == 1  # of the zip; nothing is unpacked


def test_a_data_set_of_the_hub_is_read_and_too_large_ones_are_not_downloaded(values, tmp_path, monkeypatch):
    import huggingface_hub

    blobs, snapshot = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "main"
    for folder in (blobs, snapshot / "anna"):
        folder.mkdir(parents=True)
    (blobs / "1").write_text(json.dumps(values))
    (snapshot / "anna" / "claims.json").symlink_to(blobs / "1")
    entries = [huggingface_hub.hf_api.RepoFile(path="anna/claims.json", size=9_000, oid="")]
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_tree", lambda *_, **__: entries)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
    name = "hf://datasets/org/numbers"
    read = read_published_runs([name])
    assert [(run.source, run.owner) for run in read.runs] == [(f"{name}/anna", "org/numbers")]
    entries.append(huggingface_hub.hf_api.RepoFile(path="ben/claims.json", size=MOST_BYTES + 1, oid=""))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: pytest.fail("it was downloaded"))
    assert "holds more than 200 runs of 4 MB each" in dict(read_published_runs([name]).left_out)[name]

    def fail(*_, **__):
        raise huggingface_hub.errors.LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_tree", fail)
    assert dict(read_published_runs([name]).left_out)[name].endswith("it is not on this machine, and the Hub is off")


def test_runs_stand_side_by_side_with_the_paper_and_say_where_they_differ(doctors):
    first = replace(build_published_run(doctors), source="anna")
    second = replace(first, source="ben", measurement={**first.measurement, "Steps, guidance": "4, 1"})
    frame = claims_frame([first, second])
    table = claims_table(frame)
    assert list(table) == ["claim", "1", "2", "in the paper"]
    line = table[table["claim"].str.endswith(": doctor")].iloc[0]
    assert "SDv2 0.93, Dehdashtian et al. 2025" in line["in the paper"]
    assert line["1"] == line["2"] != ""
    assert ", n = " in line["1"]
    assert describe_differences([first, second])[1] == "Steps, guidance: 4, 1"
    assert describe_differences([first, first]) == ["", ""]


def test_the_page_marks_others_runs_and_says_first_what_was_read(doctors, values, tmp_path, services):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "claims.json").write_text(json.dumps({**values, "title": EVIL}))
    (tmp_path / "ben.json").write_text("{}")
    read = read_published_runs([str(tmp_path / "anna"), str(tmp_path / "ben.json")])
    html = published_html(published_measures()["oasis-doctors"], [("mine", doctors)], read)
    assert "<img" not in html
    assert html.index("Left out: <b>ben.json</b>") < html.index("<table")
    row = next(line for line in html.split("<tr")[1:] if "others 1 (anna)" in line)
    assert "drawings of the calibration world" in row
    assert '<tr class="own"' in html
    assert html.count("yours: mine") > 1

    fold, visitor = PublishedFold(services), Visitor()
    folder = services.settings.data_dir / "published"
    folder.mkdir()
    (tmp_path / "anna").rename(folder / "anna")
    for measure in ("oasis-doctors", "t2iat-tests"):
        assert "published/anna" in fold.on_choice(visitor, measure)
    assert "ben.json" in fold.on_choice(visitor, "oasis-doctors", [str(tmp_path / "ben.json")])
    assert "write a data set as" in fold.on_choice(visitor, "oasis-doctors", None, str(tmp_path))
    first, files = next(iter(published_measures())), [str(tmp_path / "ben.json")]
    led, html = fold.on_change(visitor, first, files, None)
    assert led == "oasis-doctors"
    assert "ben.json" in html
    assert fold.on_change(visitor, first, files, None)[0] == first  # chosen in the menu
    visitor.leave()


def test_a_stranger_makes_a_public_server_download_nothing(services, monkeypatch):
    monkeypatch.setenv("BIAS_PUBLIC", "true")
    read, visitor = [], Visitor()
    monkeypatch.setattr(page, "read_published_runs", lambda places: read.append(places) or page.NO_OTHERS)
    assert "<table" in PublishedFold(services).on_choice(visitor, "oasis-doctors", None, "hf://datasets/org/x")
    assert "hf:" not in str(read)
    visitor.leave()


def test_the_command_shows_a_table_writes_it_and_names_what_it_left_out(values, doctors, tmp_path):
    (tmp_path / "all" / "bad").mkdir(parents=True)
    (tmp_path / "all" / "bad" / "claims.json").write_text("[]")
    publish(doctors, tmp_path / "all")
    arguments = ["table", str(tmp_path / "all"), "--csv", str(tmp_path / "t.csv")]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "Left out: all/bad: is no file of claims" in done.output
    assert "SDv2 0.93" in done.output
    frame = pd.read_csv(tmp_path / "t.csv")
    assert {"claim", "run", "from", "n", "low", "high", "clear", "classifier"} <= set(frame)
    assert "in the paper" in set(frame["run"])
    failed = CliRunner().invoke(app, ["table", str(tmp_path / "all"), "--study", "none"])
    assert failed.exit_code == 2
    assert f"no published run to show of the study none; studies here: {doctors.design.name}" in failed.output


def test_the_download_of_the_page_is_the_same_folder(doctors, tmp_path):
    (tmp_path / "run.zip").write_bytes(to_form(doctors, "publish"))
    folder = publish(doctors, tmp_path)
    with zipfile.ZipFile(tmp_path / "run.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert files == {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}
    assert read_published_runs([str(tmp_path / "run.zip")]).runs[0].owner == "run.zip"
