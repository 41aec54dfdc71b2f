"""Finished audits in a folder or a hub's dataset: published, listed, opened, compared; and what is not opened."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from bias_core.cli import app
from bias_core.errors import InvalidInput, ModelUnavailable, StorageError
from bias_core.library import gallery
from bias_core.library.compare import compare_reports, difference_of
from bias_core.library.gallery import (
    ABOUT,
    SHIPPED,
    list_audits,
    may_publish,
    open_audit,
    own_audits,
    publish_run,
    put_back,
    take_back,
)
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Estimate

RENDERER = "calibration-renderer"


def exploration(services, **given):
    usual = {"concept": "nurse", "model": RENDERER, "attributes": ["man"], "n_images": 6, **given}
    settings = explore_settings(attribute_a="", attribute_b="", **usual)
    return complete(run_study(find_design("explore"), settings, services, session="a-visitor"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder with two finished runs, and their reports."""
    folder = tmp_path_factory.mktemp("data")
    services = Services(Settings(data_dir=folder, offline=True, device="cpu"))
    reports = exploration(services), exploration(services, concept="plumber")
    services.close()
    return folder, reports


@pytest.fixture
def services(data, tmp_path):
    built = Services(Settings(data_dir=data[0], offline=True, device="cpu", gallery=str(tmp_path / "gallery")))
    yield built
    built.close()


@pytest.fixture
def published(services, data):
    return publish_run(services, data[1][0].run_id, data[1][0], publisher=" Ada  L. ")


def folder_of(services):
    return Path(services.settings.gallery)


def mine(services):
    audits, problems = list_audits(services)
    return [one for one in audits if one.publisher != SHIPPED], problems


def test_a_published_run_is_listed_and_opens_with_equal_numbers(services, data, published):
    report = data[1][0]
    ((one,), problems) = mine(services)
    assert problems == []
    assert (one.publisher, one.n_images, one.model, one.study) == ("Ada L.", 6, RENDERER, "explore")
    saved = open_audit(services, one.name).report
    assert [f.estimate for f in saved.results.findings] == [f.estimate for f in report.results.findings]
    assert saved.design == report.design
    assert saved.settings == report.settings
    assert saved.versions == report.versions
    assert "Published by Ada L." in saved.results.notes[0]
    assert all(image.path.is_relative_to(folder_of(services)) for image in saved.stored.values())
    assert set(saved.stored) == set(report.stored)


def test_nothing_of_who_ran_it_is_published(services, data, published):
    texts = [path.read_text() for path in folder_of(services).rglob("*.json")]
    assert len(texts) == 3  # the report, its manifest, its line of the list
    assert not any("a-visitor" in text or str(data[0]) in text for text in texts)
    (manifest,) = [json.loads(text) for text in texts if '"rows"' in text and '"session"' in text]
    assert len(manifest["rows"]) == 6
    assert manifest["design"]
    assert manifest["versions"]["bias_core"]


def test_publishing_again_takes_the_place_of_the_earlier_one(services, data, published):
    publish_run(services, data[1][0].run_id, data[1][0], publisher="Bo")
    ((one,), _) = mine(services)
    assert one.publisher == "Bo"


def test_the_examples_that_come_with_the_program_are_in_the_gallery(services):
    audits, _ = list_audits(services)
    shipped = [one for one in audits if one.publisher == SHIPPED]
    assert len(shipped) >= 5
    assert open_audit(services, shipped[0].name).report.n_images == shipped[0].n_images


def test_two_are_compared_number_by_number(services, data, published):
    other = publish_run(services, data[1][1].run_id, data[1][1], publisher="Bo")
    both = compare_reports(open_audit(services, published.name).report, open_audit(services, other.name).report)
    numbers = {row["number"] for row in both.rows}
    assert "man: P" in numbers
    assert "concept: nurse and plumber" in both.differ
    audits, _ = list_audits(services)
    example = next(one for one in audits if one.publisher == SHIPPED and one.study != "explore")
    of_another_study = open_audit(services, example.name).report
    with pytest.raises(InvalidInput, match="no number in common"):
        compare_reports(data[1][0], of_another_study)


def test_the_difference_of_two_estimates_has_both_their_uncertainties():
    # 0.8 - 0.5, from 0.3 - hypot(0.1, 0.1) to 0.3 + hypot(0.1, 0.1)
    a, b = Estimate(value=0.5, low=0.4, high=0.6, n=90), Estimate(value=0.8, low=0.7, high=0.9, n=50)
    one = difference_of(a, b)
    assert (one.value, one.low, one.high) == pytest.approx((0.3, 0.3 - 0.02**0.5, 0.3 + 0.02**0.5))
    assert difference_of(b, a).value == pytest.approx(-0.3)
    nothing = difference_of(a, Estimate.undefined(3, "none was drawn"))
    assert nothing.value != nothing.value
    assert nothing.note == "none was drawn"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "x" * 200, "no-such-audit", "A_B"])
def test_a_name_that_is_none_of_the_gallery_is_refused(services, published, name):
    with pytest.raises(InvalidInput, match="has no audit"):
        open_audit(services, name)


def test_a_newer_form_and_foreign_files_are_said_and_the_others_are_listed(services, published):
    folder = folder_of(services)
    for name, text in {
        "newer": json.dumps({"form": 2, "version": "99.0"}), "broken": "{", "list": "[1]", "bytes": "\x00" * 9,
        "other": json.dumps({"form": 1, "name": "other"}),
        "renamed": (folder / published.name / ABOUT).read_text(),
    }.items():  # fmt: skip
        (folder / name).mkdir()
        (folder / name / ABOUT).write_text(text)
    (folder / "notes.txt").write_text("hello")
    listed, problems = mine(services)
    assert [one.name for one in listed] == [published.name]
    assert len(problems) == 6
    assert any("newer version of the program (99.0): update this one" in one for one in problems)
    with pytest.raises(StorageError, match="newer version"):
        open_audit(services, "newer")


def test_an_audit_that_names_a_file_outside_is_not_opened(services, published, tmp_path):
    folder, secret = folder_of(services), tmp_path / "secret.png"
    Image.new("RGB", (4, 4)).save(secret)
    path = folder / f"{published.name}.json"
    inside = next(folder.rglob("*.webp"))
    for outside in (str(secret), "../secret.png"):
        text = path.read_text().replace(inside.relative_to(folder).as_posix(), outside)
        path.with_name("other.json").write_text(text)
        shutil.copytree(folder / published.name, folder / "other", dirs_exist_ok=True)
        about = json.loads((folder / "other" / ABOUT).read_text()) | {"name": "other"}
        (folder / "other" / ABOUT).write_text(json.dumps(about))
        with pytest.raises(StorageError, match="outside of the gallery"):
            open_audit(services, "other")
    target = folder / published.name / inside.name
    target.unlink()
    target.symlink_to(secret)
    with pytest.raises(StorageError, match="outside of the gallery"):
        open_audit(services, published.name)


@pytest.mark.parametrize("text", ["", "null", "[]", '{"form": 1}', '{"form": 1, "report": {"%": "os.system"}}'])
def test_a_report_that_is_none_is_said_in_one_sentence(services, published, text):
    (folder_of(services) / f"{published.name}.json").write_text(text)
    with pytest.raises(StorageError):
        open_audit(services, published.name)


def test_a_picture_that_is_none_is_said(services, published):
    picture = next(folder_of(services).rglob("*.webp"))
    picture.write_bytes(b"no picture")
    with pytest.raises(StorageError, match="lacks a picture, or holds one that is none"):
        open_audit(services, published.name)


def test_publishing_needs_a_gallery_a_name_and_a_finished_run(services, data):
    run_id, report = data[1][0].run_id, data[1][0]
    for by in ("", "  ", "x" * 81, "a\x00b"):
        with pytest.raises(InvalidInput, match="who publishes"):
            publish_run(services, run_id, report, publisher=by)
    with pytest.raises(StorageError, match="no run"):
        publish_run(services, "nosuchrun", report, publisher="Ada")
    services.settings = services.settings.model_copy(update={"gallery": ""})
    with pytest.raises(InvalidInput, match="BIAS_GALLERY"):
        publish_run(services, run_id, report, publisher="Ada")
    assert "BIAS_GALLERY" in may_publish(services, has_token=True)


def test_ones_own_audit_is_taken_back_kept_and_put_back_and_no_others(services, data, published):
    run_id = data[1][0].run_id
    assert own_audits(services, [run_id, "other"]) == {published.name}
    with pytest.raises(InvalidInput, match="of a run of yours"):
        take_back(services, published.name, ["other"])
    before = sorted(path.relative_to(folder_of(services)) for path in folder_of(services).rglob("*"))
    taken = take_back(services, published.name, [run_id])
    assert mine(services) == ([], [])
    assert not list(folder_of(services).rglob("*.webp"))  # nothing of it is left
    put_back(services, taken)
    assert [one.name for one in mine(services)[0]] == [published.name]
    assert sorted(path.relative_to(folder_of(services)) for path in folder_of(services).rglob("*")) == before
    taken = take_back(services, published.name, [run_id])
    publish_run(services, run_id, data[1][0], publisher="Bo")
    with pytest.raises(InvalidInput, match="published again meanwhile"):
        put_back(services, taken)
    assert (taken.place / published.name / ABOUT).is_file()  # kept all the same


def test_a_gallery_that_is_no_folder_is_one_line_and_the_examples_stay(services):
    listed, problems = mine(services)  # nothing was published: the folder is not there yet
    assert listed == []
    assert "no folder that can be read" in problems[0]
    assert [one for one in list_audits(services)[0] if one.publisher == SHIPPED]


def test_strangers_do_not_write_into_the_folders_of_a_public_server(services):
    assert may_publish(services, has_token=True) == ""
    services.settings = services.settings.model_copy(update={"public": True})
    assert "public server" in may_publish(services, has_token=True)


def test_a_hubs_dataset_is_read_and_written_with_ones_own_token(services, data, tmp_path, monkeypatch):
    hub, tokens = tmp_path / "hub", []

    def upload(self, *, repo_id, folder_path, **_how):
        tokens.append((repo_id, self.token))
        shutil.copytree(folder_path, hub, dirs_exist_ok=True)

    def download(_repo, *, local_dir, allow_patterns, **_how):
        for path in (path for pattern in allow_patterns for path in hub.glob(pattern)):
            target = Path(local_dir) / path.relative_to(hub)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    services.settings = services.settings.model_copy(update={"gallery": "lab/audits", "data_dir": tmp_path / "d"})
    report = data[1][0]
    with pytest.raises(InvalidInput, match="your own token"):
        publish_run(services, report.run_id, report, publisher="Ada")
    with pytest.raises(ModelUnavailable, match="BIAS_OFFLINE"):
        gallery._fetched(services)
    services.settings = services.settings.model_copy(update={"offline": False})
    audit = publish_run(services, report.run_id, report, publisher="Ada", token="hf_own")
    assert tokens == [("lab/audits", "hf_own")]
    assert [one.name for one in mine(services)[0]] == [audit.name]
    assert open_audit(services, audit.name).report.n_images == 6

    def refuse(*_of, **_how):
        raise OSError("403 Forbidden: the token may only read")

    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", refuse)
    with pytest.raises(StorageError, match="cannot be written to: 403 Forbidden"):
        publish_run(services, report.run_id, report, publisher="Ada", token="hf_read")


def test_the_command_line_publishes_lists_shows_and_compares(data, tmp_path, monkeypatch):
    services = Services(Settings(data_dir=data[0], offline=True, device="cpu"))
    settings = replace(data[1][0].settings, seed=500)
    own = complete(run_study(find_design("explore"), settings, services))
    services.close()
    for name, value in {"DATA_DIR": data[0], "GALLERY": tmp_path / "g", "OFFLINE": "1"}.items():
        monkeypatch.setenv(f"BIAS_{name}", str(value))

    def call(*words):
        answer = CliRunner().invoke(app, ["gallery", *words])
        assert answer.exit_code == 0, answer.output
        return answer.output

    name = call("publish", own.run_id, "--by", "Ada").removeprefix("Published: ").strip()
    assert name in call("list").replace("\n", "")
    assert "man" in call("show", name)
    assert "second less first" in call("compare", name, own.run_id)
    refused = CliRunner().invoke(app, ["gallery", "show", "nothing"])
    assert refused.exit_code == 2
    assert "has no audit" in refused.output
