"""The gallery: finished runs in a folder that is only read, listed and opened in the Runs tab."""

import json
import math
import shutil
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from bias_core.app.build import launch_options
from bias_core.errors import InvalidInput, StorageError
from bias_core.library.compare import compare_reports, difference_of
from bias_core.library.tab import RunsTab, runs_html
from bias_core.studies.running.history import (
    delete_run,
    go_on,
    keep_run,
    list_gallery,
    list_runs,
    open_gallery_run,
    open_run,
)
from bias_core.studies.running.run import complete
from bias_core.types import Estimate
from bias_core.ui.visitor import Visitor
from tests.explored import explored
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

exploration = partial(explored, session="a-visitor", concept="nurse", attributes=["man"], n_images=6)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The data folder of another server with two finished runs, and their reports."""
    folder = tmp_path_factory.mktemp("elsewhere")
    services = FakeServices(folder)
    reports = exploration(services), exploration(services, concept="plumber")
    services.close()
    return folder, reports


@pytest.fixture
def gallery(elsewhere, tmp_path):
    return Path(shutil.copytree(elsewhere[0], tmp_path / "gallery"))


@pytest.fixture
def services(gallery, tmp_path):
    made = FakeServices(tmp_path / "data")
    made.settings = made.settings.model_copy(update={"gallery": str(gallery)})
    yield made
    made.close()


def files_of(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_another_data_folder_is_listed_and_its_runs_open_with_equal_numbers_and_pictures(services, elsewhere, gallery):
    lines, note = list_gallery(services)
    assert note == ""
    assert [line.title for line in lines] == ["a photo of a plumber", "a photo of a nurse"]
    assert all(line.in_gallery and line.saved and line.n_stored == 6 for line in lines)
    report, saved = elsewhere[1][0], open_gallery_run(services, lines[1].run_id).report
    assert [one.estimate for one in saved.results.findings] == [one.estimate for one in report.results.findings]
    assert (saved.design, saved.settings, saved.versions) == (report.design, report.settings, report.versions)
    assert set(saved.stored) == set(report.stored)
    assert all(image.path.is_relative_to(gallery / "images") for image in saved.stored.values())
    assert str(gallery / "images") in launch_options(services)["allowed_paths"]
    assert list_runs(services, "a-visitor") == []  # they are nobody's here


def test_copied_runs_are_a_gallery_and_one_without_pictures_opens_with_its_numbers(services, elsewhere, tmp_path):
    copy, (nurse, plumber) = tmp_path / "copy", elsewhere[1]
    for name in (f"runs/{nurse.run_id}.json", f"reports/{nurse.run_id}.json"):
        (copy / name).parent.mkdir(parents=True)
        shutil.copy(elsewhere[0] / name, copy / name)
    services.settings = services.settings.model_copy(update={"gallery": str(copy)})
    ((line,), _) = list_gallery(services)
    bare = open_gallery_run(services, line.run_id).report
    assert [one.estimate for one in bare.results.findings] == [one.estimate for one in nurse.results.findings]
    assert not bare.stored
    assert any("6 of its 6 pictures are no longer stored" in note for note in bare.results.notes)
    shutil.copytree(elsewhere[0] / "images", copy / "images")
    assert len(open_gallery_run(services, line.run_id).report.stored) == 6
    with pytest.raises(InvalidInput, match="has no run"):
        open_gallery_run(services, f"gallery-{plumber.run_id}")


def test_the_runs_tab_marks_opens_and_compares_them_and_offers_nothing_that_changes_them(services):
    tab, visitor = built(RunsTab, services), Visitor()
    tab.others = []
    (one, other), _ = list_gallery(services)
    html = tab.on_list(visitor)
    assert html.count("from the gallery") == 2
    assert html.count('data-act="open"') == 2 + html.count("Example: ")
    assert not any(f'data-act="{act}"' in html for act in ("keep", "free", "delete", "again"))
    shown = tab.on_open(visitor, type("Event", (), {"run": one.run_id})())
    assert "Opened: a run of" in shown[tab.parts["status"]]
    assert "From the gallery: it can be looked at and compared, not changed." in shown[tab.parts["header"]]
    assert shown[tab.parts["report"]].run_id == one.run_id
    assert not shown[tab.people.box]["visible"]  # nobody labels its pictures here
    menus = tab.compare.on_list(visitor)
    assert {menus[tab.compare.first]["value"], menus[tab.compare.second]["value"]} == {one.run_id, other.run_id}
    compared = tab.on_compare(visitor, one.run_id, other.run_id)
    names = [arm.name for arm in compared[tab.parts["report"]].arms]
    assert names == ["a photo of a plumber (the gallery)", "a photo of a nurse (the gallery)"]
    visitor.leave()


def test_nothing_of_the_gallery_can_be_changed(services, gallery):
    before, (line, _) = files_of(gallery), list_gallery(services)[0]
    tab, visitor = built(RunsTab, services), Visitor()
    for name in (line.run_id, line.run_id.removeprefix("gallery-")):
        for session in (visitor.key, "a-visitor"):
            for act in (lambda *run: keep_run(*run, True), delete_run, open_run, lambda *run: complete(go_on(*run))):
                with pytest.raises(InvalidInput):
                    act(services, session, name)
        for act in ("keep", "free", "delete"):
            told = tab.on_act(visitor, None, type("Event", (), {"run": name, "act": act})())
            assert "That did not work" in told[tab.parts["status"]]
    open_gallery_run(services, line.run_id)
    exploration(services)  # the same run, made here: it is drawn and kept here
    assert files_of(gallery) == before
    visitor.leave()


def test_a_name_that_is_none_of_the_gallery_is_refused(services):
    for name in ("../../etc/passwd", "/etc/passwd", "", "x" * 200, "0" * 16, "A_B"):
        with pytest.raises((InvalidInput, StorageError), match="the gallery"):
            open_gallery_run(services, f"gallery-{name}")


def test_foreign_and_damaged_files_are_one_note_and_the_others_are_listed(services, gallery):
    line = list_gallery(services)[0][0]
    manifest = json.loads((gallery / "runs" / f"{line.run_id.removeprefix('gallery-')}.json").read_text())
    for i, text in enumerate([
        "", "{", "[1]", "\x00" * 9, json.dumps({"id": "foreign1"}), json.dumps(manifest),  # of another name
        json.dumps(manifest | {"id": "foreign6", "rows": [{"x": 1}]}),
        json.dumps(manifest | {"id": "foreign7", "settings": [1]}),
        json.dumps(manifest | {"id": "foreign8", "status": ["finished"]}),
        json.dumps(manifest | {"id": "foreign9", "updated": 1e300}),
    ]):  # fmt: skip
        for folder in ("runs", "reports"):
            (gallery / folder / f"foreign{i}.json").write_text(text)
    (gallery / "runs" / "no report.json").write_text("{}")
    (gallery / "notes.txt").write_text("hello")
    for audit in ("one", "two"):  # as an earlier version published them
        (gallery / audit).mkdir()
        (gallery / audit / "about.json").write_text("{}")
    lines, note = list_gallery(services)
    assert len(lines) == 2
    assert note == (
        "10 files in the gallery are no runs that this version can read. 2 audits in the gallery were published by an "
        "earlier version and are left out: copy their runs there, as docs/settings.md says."
    )
    assert note in runs_html(lines, note=note)


def test_a_report_that_is_none_is_said_in_one_sentence(services, gallery):
    line = list_gallery(services)[0][0]
    path = gallery / "reports" / f"{line.run_id.removeprefix('gallery-')}.json"
    for text in ("", "null", "[]", '{"form": 1}', '{"form": 1, "report": {"%": "os.system"}}', "\x00"):
        path.write_text(text)
        with pytest.raises(StorageError, match=r"report|saved"):
            open_gallery_run(services, line.run_id)


def test_a_run_that_names_a_file_outside_is_not_opened(services, gallery, tmp_path):
    line, secret = list_gallery(services)[0][0], tmp_path / "secret.png"
    Image.new("RGB", (4, 4)).save(secret)
    path = gallery / "reports" / f"{line.run_id.removeprefix('gallery-')}.json"
    whole = path.read_text()
    inside = next(iter(open_gallery_run(services, line.run_id).report.stored.values())).path
    for outside in (str(secret), "../secret.png"):
        path.write_text(whole.replace(inside.relative_to(gallery).as_posix(), outside))
        with pytest.raises(StorageError, match="outside of the gallery"):
            open_gallery_run(services, line.run_id)
    path.write_text(whole)
    inside.unlink()
    inside.symlink_to(secret)
    with pytest.raises(StorageError, match="outside of the gallery"):
        open_gallery_run(services, line.run_id)


def test_a_gallery_that_is_no_folder_or_the_own_data_folder_is_one_note(services):
    own = services.settings.data_dir
    own.mkdir(parents=True, exist_ok=True)
    no_folder = "is no folder that can be read; see BIAS_GALLERY"
    is_own = "BIAS_GALLERY is this program's own data folder: name another folder of runs"
    for where in ("no/such-folder", "org/name", "~nobody-here/x", "a\0b", str(own)):
        services.settings = services.settings.model_copy(update={"gallery": where})
        lines, note = list_gallery(services)
        assert lines == []
        assert (note == is_own) if where == str(own) else (no_folder in note)
        assert launch_options(services)["allowed_paths"]


def test_two_are_compared_number_by_number_with_the_uncertainties_of_both(elsewhere):
    both = compare_reports(*elsewhere[1])
    assert "man: P" in {row["number"] for row in both.rows}
    assert "concept: nurse and plumber" in both.differ
    # 0.8 - 0.5, from 0.3 - hypot(0.1, 0.1) to 0.3 + hypot(0.1, 0.1)
    a, b = Estimate(value=0.5, low=0.4, high=0.6, n=90), Estimate(value=0.8, low=0.7, high=0.9, n=50)
    one = difference_of(a, b)
    assert (one.value, one.low, one.high) == pytest.approx((0.3, 0.3 - 0.02**0.5, 0.3 + 0.02**0.5))
    assert difference_of(b, a).value == pytest.approx(-0.3)
    nothing = difference_of(a, Estimate.undefined(3, "none was drawn"))
    assert math.isnan(nothing.value)
    assert nothing.note == "none was drawn"
