"""Runs that are kept: saved, a visitor's own, of an older version, and of a gallery."""

import json
import math
import shutil
from dataclasses import fields, replace
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bias_core.app.responses import Opening
from bias_core.app.serve import launch_options
from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.explore.exploration import Exploration
from bias_core.explore.options import explore_settings
from bias_core.report.commands import is_shipped
from bias_core.report.documents import to_dict, to_markdown
from bias_core.report.export import to_export
from bias_core.report.headlines import headline
from bias_core.report.saved import (
    SavedReport,
    decode,
    encode,
    from_text,
    keep_report,
    open_report,
    report_store,
    to_text,
)
from bias_core.run.history import (
    delete_run,
    go_on,
    keep_run,
    list_gallery,
    list_runs,
    open_gallery_run,
    open_run,
    restore_run,
)
from bias_core.run.run import complete, run_study
from bias_core.store.manifests import Manifest
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import StudyFigure, StudySettings
from bias_core.types import Estimate
from bias_core.ui.links import read_link
from bias_core.ui.runs.compare import compare_reports, estimate_difference
from bias_core.ui.runs.tab import RunsTab, runs_html
from bias_core.ui.visitor import Visitor
from bias_core.values import option_values
from tests import shared
from tests.every import every
from tests.explored import explore, explored
from tests.shared import shared_folder
from tests.study.oasis_runs import without_seconds
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

services = shared.fake_services

SETTINGS = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(find_design("t2iat-tests"), SETTINGS, services))


def same(one, other):
    """Equal, and of the same types, all the way down."""
    assert type(one) is type(other)
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, float) and math.isnan(one):
        assert math.isnan(other)
    else:
        assert one == other


def test_a_study_reads_back_equal_and_its_files_are_named_from_the_data_folder_which_can_move(services, report):
    saved = open_report(report.run_id, services)
    same(saved.report, report)
    assert open_report("abc123", services) is None
    assert to_dict(saved.report) == to_dict(report)
    assert from_text(to_text(report, Path(), created=5.0), Path()).created == 5.0
    text = report_store(services).find(report.run_id)
    assert str(services.settings.data_dir) not in text
    moved = from_text(text, Path("/elsewhere")).report
    assert {str(image.path)[:18] for image in moved.stored.values()} == {"/elsewhere/images/"}


def test_an_exploration_reads_back_equal(services):
    nurse = next(item for item in load_attribute_sets() if item.key == "nurse")
    settings = explore_settings(concept="nurse", attributes=nurse.attributes, n_images=9, n_attribute_images=3)
    *_, found = explore(settings, services)
    saved = open_report(found.run_id, services)
    same(replace(saved.report, seconds=0.0), replace(found.report, seconds=0.0))
    assert to_dict(saved.report) == to_dict(found.report)


def test_a_saved_report_keeps_the_sentences_that_it_was_saved_with_and_counts_as_the_shipped_design(report):
    old = replace(report, design=replace(report.design, title="Old title", summary="Old summary.", notes=["Old."]))
    read = from_text(to_text(old, Path()), Path()).report
    same(read.design, old.design)
    assert "Old title" in to_markdown(read)
    assert is_shipped(read.design)


def through_json(value):
    return decode(json.loads(json.dumps(encode(value, Path()), allow_nan=False)), Path())


@every(list_designs())
def test_every_design_has_a_plain_form(design):
    same(through_json(design), design)


def test_frames_keep_their_types_order_and_holes_and_dictionaries_their_strange_keys():
    columns = {
        "whole": [1, 2, 3],
        "share": [0.1, math.nan, math.inf],
        "truth": [True, False, True],
        "text": ["a", "=b", None],
        "mixed": pd.Series([1, None, ("x", 2.5)], dtype=object),
        "narrow": np.array([1, 2, 3], dtype=np.float32),
    }
    frame = pd.DataFrame(columns, index=[5, 3, 4])
    for value in (frame, frame.iloc[:0], {"%": 1, "b": {True: 0.5, 2: ("x",)}}):
        same(through_json(value), value)
    with pytest.raises(TypeError, match="set"):  # an error of the program
        encode({1, 2}, Path())


def test_pictures_that_are_gone_are_left_out_and_said(tmp_path):
    services = FakeServices(tmp_path)
    report = complete(run_study(find_design("t2iat-tests"), SETTINGS, services))
    gone, kept, *_ = (image.path for image in report.stored.values())
    frame = pd.DataFrame({"path": [str(gone), str(kept)], "row": ["a", "a"], "column": ["b", "c"]})
    figure = StudyFigure(key="strip", title="Strip", kind="pictures", data=frame)
    keep_report(replace(report, results=replace(report.results, figures=(figure,))), services)
    gone.unlink()
    saved = open_report(report.run_id, services)
    assert isinstance(saved, SavedReport)
    n = len(report.stored)
    assert saved.report.results.notes[-1].startswith(f"1 of its {n} pictures are no longer stored")
    assert gone.stem not in saved.report.stored
    assert set(saved.report.pictures["image_id"]) == set(saved.report.stored)
    assert saved.report.results.figures[0].data["path"].tolist() == [str(kept)]
    assert saved.report.results.findings == report.results.findings


def test_an_exploration_whose_pictures_are_gone_keeps_its_numbers_and_says_so(tmp_path):
    services = FakeServices(tmp_path)
    *_, found = explore(explore_settings(concept="nurse", n_images=4, attribute_a="", attribute_b=""), services)
    found.images[0].path.unlink()
    report = open_report(found.run_id, services).report
    assert "1 of its 4 pictures are no longer stored" in report.results.notes[-1]
    assert report.results.findings == found.results.findings
    assert [image.number for image in Exploration(report).images] == [2, 3, 4]


HEAD = '{"form": 1, "created": 0, "report": '


@every([
    ("{", "not whole"),
    ("[]", "another version"),
    ('{"form": 99}', "another version"),
    (HEAD + '{"%": "system"}}', "cannot be read"),
    (HEAD + '{"%": "Design", "evil": 1}}', "cannot be read"),
    (HEAD + '{"%": "ExploreReport", "run_id": "a"}}', "cannot be read by this version"),
    (HEAD + '{"%": "Finding", "metric": "unheard_of"}}', "no measure unheard_of"),
    (HEAD + '{"a": 1}}', "holds a dict"),
    ("[" * 100_000, "deeper than it is read"),
    ('{"form": 1, "created": 1, "report": ' + "[" * 100_000, "deeper than it is read"),
    (HEAD + '{"%": ["Design"]}}', "cannot be read"),
    (HEAD + '{"%": "StudyReport", "design": 5}}', "saved"),
    ('{"form": 1, "report": null}', "not whole"),
    ('{"form": 1, "created": 1e999, "report": null}', "saved"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(text, words):
    with pytest.raises(StorageError, match=words):
        from_text(text, Path())


ME, OTHER = "a" * 32, "b" * 32
DESIGN = find_design("t2iat-tests")


@pytest.fixture
def owned(shelf, tmp_path):
    """Runs of their own over pictures that other tests drew, too."""
    built = FakeServices(shared_folder(shelf, tmp_path / "data"))
    yield built
    built.close()


def run(owned, session=ME, design=DESIGN, settings=SETTINGS):
    return complete(run_study(design, settings, owned, session=session))


def test_the_list_tells_what_was_asked_and_how_it_ended_the_report_opens_as_it_was_and_can_be_kept(owned):
    report = run(owned)
    (line,) = list_runs(owned, ME)
    assert (line.run_id, line.study, line.status, line.saved) == (report.run_id, "t2iat-tests", "finished", True)
    assert line.choices == "2 % of the full size · Tests: science_arts · Permutations: 200"
    assert line.n_pictures == line.n_stored == report.n_images
    assert line.n_bytes == sum(image.path.stat().st_size for image in report.stored.values())
    assert to_dict(open_run(owned, ME, report.run_id).report) == to_dict(report)
    for kept in (True, False):
        keep_run(owned, ME, report.run_id, kept)
        assert list_runs(owned, ME)[0].is_kept == kept
        assert owned.manifests.protected_ids() == (set(report.stored) if kept else set())


def test_the_list_counts_pictures_anew_once_some_made_room(owned):
    report = run(owned)
    (line,) = list_runs(owned, ME)
    owned.images.evict(line.n_bytes // 2, protected=())
    (there,) = list_runs(owned, ME)
    sizes = [image.path.stat().st_size for image in report.stored.values() if image.path.is_file()]
    assert 0 < len(sizes) < line.n_pictures
    assert (there.n_stored, there.n_bytes) == (len(sizes), sum(sizes))
    complete(go_on(owned, ME, report.run_id))
    assert list_runs(owned, ME)[0].n_stored == line.n_pictures


def test_nobody_sees_or_touches_anothers_runs(owned):
    mine = run(owned)
    assert list_runs(owned, OTHER) == []
    for act in (
        lambda: open_run(owned, OTHER, mine.run_id),
        lambda: delete_run(owned, OTHER, mine.run_id),
        lambda: keep_run(owned, OTHER, mine.run_id, True),
        lambda: complete(go_on(owned, OTHER, mine.run_id)),
        lambda: list_runs(owned, ""),
        lambda: open_run(owned, "", mine.run_id),
        lambda: open_run(owned, ME, "../reports"),
    ):
        with pytest.raises(InvalidInput):
            act()
    assert len(list_runs(owned, ME)) == 1


def test_deleting_takes_the_report_along_and_can_be_undone(owned):
    report = run(owned)
    before = list_runs(owned, ME)
    deleted = delete_run(owned, ME, report.run_id)
    assert list_runs(owned, ME) == []
    assert report.run_id not in report_store(owned)
    with pytest.raises(InvalidInput, match="another visitor"):
        restore_run(owned, OTHER, deleted)
    restore_run(owned, ME, deleted)
    assert list_runs(owned, ME) == before
    assert to_dict(open_run(owned, ME, report.run_id).report) == to_dict(report)


def test_a_stopped_run_goes_on_to_the_report_that_it_would_have_had(owned, tmp_path):
    asked, empty = iter([False] * 8 + [True] * 1000), FakeServices(tmp_path / "empty")
    with pytest.raises(Cancelled):
        complete(run_study(DESIGN, SETTINGS, empty, cancelled=lambda: next(asked), session=ME))
    (line,) = list_runs(empty, ME)
    assert (line.status, line.saved) == ("cancelled", False)
    assert 0 < line.n_stored < line.n_pictures
    with pytest.raises(StorageError, match="Run again"):
        open_run(empty, ME, line.run_id)
    report = complete(go_on(empty, ME, line.run_id))
    assert report.run_id == line.run_id
    assert without_seconds(report) == without_seconds(run(owned))
    assert [line.status for line in list_runs(empty, ME)] == ["finished"]
    empty.close()


def test_a_design_of_ones_own_and_an_exploration_go_on_too(owned):
    own = replace(DESIGN, name="mine", title="Mine", options={**DESIGN.options, "tests": ["career_family"]})
    settings = replace(SETTINGS, options={"n_permutations": 200})
    report = run(owned, design=own, settings=settings)
    again = complete(go_on(owned, ME, report.run_id))
    assert again.design == own
    assert without_seconds(again) == without_seconds(report)
    settings = explore_settings(concept="nurse", n_images=5, attribute_a="", attribute_b="", encoder="calibration-clip")
    *_, report = explore(settings, owned, session=ME)
    assert open_run(owned, ME, report.run_id).report.settings == settings
    assert complete(go_on(owned, ME, report.run_id)).settings == settings


def test_imported_pictures_that_are_gone_are_asked_for_again_and_a_run_without_its_design_says_so(owned):
    report = run(owned)
    manifest = owned.manifests.get(report.run_id)
    owned.manifests.restore(replace(manifest, settings={**manifest.settings, "images": "nowhere/mine.zip"}))
    with pytest.raises(InvalidInput, match=r"'mine\.zip' of this run are no longer here"):
        complete(go_on(owned, ME, report.run_id))
    assert "pictures of mine.zip" in list_runs(owned, ME)[0].choices

    old = Manifest(id="abc", study="t2iat-tests", session=ME, title="Old", settings={}, rows=(), status="cancelled")
    owned.manifests.save(old)
    with pytest.raises(InvalidInput, match="no design that this version can read"):
        complete(go_on(owned, ME, "abc"))
    assert next(line for line in list_runs(owned, ME) if line.run_id == "abc").n_pictures == 0


def changed(owned, report, *, design, options):
    """The run as a version saved it that had another study, or further options."""
    saved = replace(report, design=design, settings=replace(report.settings, options=options))
    report_store(owned).save(report.run_id, to_text(saved, owned.settings.data_dir))
    manifest = owned.manifests.get(report.run_id)
    settings = {**manifest.settings, "options": options}
    owned.manifests.restore(replace(manifest, design=encode(design, Path()), settings=settings))


def test_options_that_are_gone_are_noted_and_the_run_goes_on_beside_the_one_that_was_kept(owned):
    report = run(owned)
    options = {**option_values(report.settings.options), "act": "helping", "looks": ""}
    changed(owned, report, design=replace(report.design, options={**report.design.options, "n": 3}), options=options)
    note = "This version of the program no longer has the option n, the option act."
    read = open_run(owned, ME, report.run_id).report
    assert read.results.findings == report.results.findings
    assert read.results.notes == (*report.results.notes, note)
    assert (read.settings, read.design) == (report.settings, report.design)
    assert note in to_markdown(read)
    owned.manifests.restore(replace(owned.manifests.get(report.run_id), id="0ld"))
    again = complete(go_on(owned, ME, "0ld"))
    assert note in again.results.notes
    assert note in open_run(owned, ME, again.run_id).report.results.notes
    assert {line.run_id for line in list_runs(owned, ME)} == {"0ld", again.run_id}


def test_a_run_of_a_study_that_is_gone_shows_its_numbers_and_is_not_run_again(owned):
    report = run(owned)
    design = replace(report.design, name="t2iat-three", kind="three")
    changed(owned, report, design=design, options=option_values(report.settings.options))
    note = "This version of the program no longer has the study t2iat-three."
    for saved in (open_run(owned, ME, report.run_id), open_run(owned, ME, report.run_id)):
        assert saved.report.results.notes == (*report.results.notes, note)
        to_export(saved.report)
    tab = built(RunsTab, owned)
    tab.others = []
    shown = tab.show_saved(saved)
    assert headline(saved.report) in unescape(shown[tab.parts["header"]])
    assert [shown[tab.parts[name]].get("value") for name in ("shell", "python")] == ["", ""]
    with pytest.raises(
        InvalidInput, match=r"cannot be run again\. This version .* no longer has the study t2iat-three"
    ):
        complete(go_on(owned, ME, report.run_id))


def test_a_study_that_is_gone_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(InvalidInput, match=r"no study 'pst-three'; there are .*pst-swapped"):
        find_design("pst-three")


def test_a_link_says_what_it_asks_for_in_vain(services):
    tabs = {"explore": (), "paired": ("pst-occupations", "pst-swapped")}
    given = {"tab": "paired", "study": "pst-swapped", "model": "calibration-renderer", "condition": "tones"}
    link = read_link(given | {"option.act": "helping", "option.looks": "four"}, tabs, services)
    assert link.values["study"] == "pst-swapped"
    assert set(link.ignored) >= {"condition “tones”"}
    assert len(link.ignored) == 3
    assert read_link({"tab": "paired", "study": "pst-three"}, tabs, services).ignored == ("study “pst-three”",)


exploration = partial(explored, session="a-visitor", concept="nurse", attributes=["man"], n_images=6)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The data folder of another server with two finished runs, and their reports."""
    folder = tmp_path_factory.mktemp("elsewhere")
    visited = FakeServices(folder)
    reports = exploration(visited), exploration(visited, concept="plumber")
    visited.close()
    return folder, reports


@pytest.fixture
def gallery(elsewhere, tmp_path):
    return Path(shutil.copytree(elsewhere[0], tmp_path / "gallery"))


@pytest.fixture
def visited(gallery, tmp_path):
    made = FakeServices(tmp_path / "data")
    made.settings = made.settings.model_copy(update={"gallery": str(gallery)})
    yield made
    made.close()


def files_of(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_another_data_folder_is_listed_and_its_runs_open_with_equal_numbers_and_pictures(visited, elsewhere, gallery):
    lines, note = list_gallery(visited)
    assert note == ""
    assert [line.title for line in lines] == ["a photo of a plumber", "a photo of a nurse"]
    assert all(line.in_gallery and line.saved and line.n_stored == 6 for line in lines)
    report, saved = elsewhere[1][0], open_gallery_run(visited, lines[1].run_id).report
    assert [one.estimate for one in saved.results.findings] == [one.estimate for one in report.results.findings]
    assert (saved.design, saved.settings, saved.versions) == (report.design, report.settings, report.versions)
    assert set(saved.stored) == set(report.stored)
    assert all(image.path.is_relative_to(gallery / "images") for image in saved.stored.values())
    assert str(gallery / "images") in launch_options(visited, Opening())["allowed_paths"]
    assert list_runs(visited, "a-visitor") == []  # they are nobody's here


def test_copied_runs_are_a_gallery_and_one_without_pictures_opens_with_its_numbers(visited, elsewhere, tmp_path):
    copy, (nurse, plumber) = tmp_path / "copy", elsewhere[1]
    for name in (f"runs/{nurse.run_id}.json", f"reports/{nurse.run_id}.json"):
        (copy / name).parent.mkdir(parents=True)
        shutil.copy(elsewhere[0] / name, copy / name)
    visited.settings = visited.settings.model_copy(update={"gallery": str(copy)})
    ((line,), _) = list_gallery(visited)
    bare = open_gallery_run(visited, line.run_id).report
    assert [one.estimate for one in bare.results.findings] == [one.estimate for one in nurse.results.findings]
    assert not bare.stored
    assert any("6 of its 6 pictures are no longer stored" in note for note in bare.results.notes)
    shutil.copytree(elsewhere[0] / "images", copy / "images")
    assert len(open_gallery_run(visited, line.run_id).report.stored) == 6
    with pytest.raises(InvalidInput, match="has no run"):
        open_gallery_run(visited, f"gallery-{plumber.run_id}")


def test_the_runs_tab_marks_opens_and_compares_them_and_offers_nothing_that_changes_them(visited):
    tab, visitor = built(RunsTab, visited), Visitor()
    tab.others = []
    (one, other), _ = list_gallery(visited)
    html = tab.on_list(visitor)
    assert html.count("from the gallery") == 2
    assert html.count('data-act="open"') == 2 + html.count("Example: ")
    assert not any(f'data-act="{act}"' in html for act in ("keep", "free", "delete", "again"))
    shown = tab.on_open(visitor, type("Event", (), {"run": one.run_id})())
    assert "Opened: a run of" in shown[tab.parts["status"]]
    assert "From the gallery, the runs that this server shows to everyone: you can view" in shown[tab.parts["header"]]
    assert shown[tab.parts["report"]].run_id == one.run_id
    assert not shown[tab.people.box]["visible"]  # nobody labels its pictures here
    menus = tab.compare.on_list(visitor)
    assert {menus[tab.compare.first]["value"], *menus[tab.compare.second]["value"]} == {one.run_id, other.run_id}
    compared = tab.on_compare(visitor, one.run_id, [other.run_id])
    names = [arm.name for arm in compared[tab.parts["report"]].arms]
    assert names == ["plumber", "nurse"]
    visitor.leave()


def test_nothing_of_the_gallery_can_be_changed(visited, gallery):
    before, (line, _) = files_of(gallery), list_gallery(visited)[0]
    tab, visitor = built(RunsTab, visited), Visitor()
    for name in (line.run_id, line.run_id.removeprefix("gallery-")):
        for session in (visitor.key, "a-visitor"):
            for act in (lambda *run: keep_run(*run, True), delete_run, open_run, lambda *run: complete(go_on(*run))):
                with pytest.raises(InvalidInput):
                    act(visited, session, name)
        for act in ("keep", "free", "delete"):
            told = tab.on_act(visitor, None, type("Event", (), {"run": name, "act": act})())
            assert "That did not work" in told[tab.parts["status"]]
    open_gallery_run(visited, line.run_id)
    exploration(visited)  # the same run, made here: it is drawn and kept here
    assert files_of(gallery) == before
    visitor.leave()


def test_a_name_that_is_none_of_the_gallery_is_refused(visited):
    for name in ("../../etc/passwd", "/etc/passwd", "", "x" * 200, "0" * 16, "A_B"):
        with pytest.raises((InvalidInput, StorageError), match="the gallery"):
            open_gallery_run(visited, f"gallery-{name}")


def test_foreign_and_damaged_files_are_one_note_and_the_others_are_listed(visited, gallery):
    line = list_gallery(visited)[0][0]
    manifest = json.loads((gallery / "runs" / f"{line.run_id.removeprefix('gallery-')}.json").read_text())
    for i, text in enumerate([
        "", "{", "[1]", "\x00" * 9, json.dumps({"id": "foreign1"}), json.dumps(manifest),  # of another name
        json.dumps({name: value for name, value in manifest.items() if name != "rows"} | {"id": "foreign6"}),
        json.dumps(manifest | {"id": "foreign7", "settings": [1]}),
        json.dumps(manifest | {"id": "foreign8", "status": ["finished"]}),
        json.dumps(manifest | {"id": "foreign9", "updated": 1e300}),
    ]):  # fmt: skip
        for folder in ("runs", "reports"):
            (gallery / folder / f"foreign{i}.json").write_text(text)
    (gallery / "runs" / "no report.json").write_text("{}")
    (gallery / "notes.txt").write_text("hello")
    lines, note = list_gallery(visited)
    assert len(lines) == 2
    assert note == "This version cannot read 10 files of the gallery."
    assert note in runs_html(lines, note=note)


def test_a_report_that_is_none_is_said_in_one_sentence(visited, gallery):
    line = list_gallery(visited)[0][0]
    path = gallery / "reports" / f"{line.run_id.removeprefix('gallery-')}.json"
    for text in ("", "null", "[]", '{"form": 1}', '{"form": 1, "report": {"%": "os.system"}}', "\x00"):
        path.write_text(text)
        with pytest.raises(StorageError, match=r"report|saved"):
            open_gallery_run(visited, line.run_id)


def test_a_run_that_names_a_file_outside_is_not_opened(visited, gallery, tmp_path):
    line, secret = list_gallery(visited)[0][0], tmp_path / "secret.png"
    Image.new("RGB", (4, 4)).save(secret)
    path = gallery / "reports" / f"{line.run_id.removeprefix('gallery-')}.json"
    whole = path.read_text()
    inside = next(iter(open_gallery_run(visited, line.run_id).report.stored.values())).path
    for outside in (str(secret), "../secret.png"):
        path.write_text(whole.replace(inside.relative_to(gallery).as_posix(), outside))
        with pytest.raises(StorageError, match="outside the gallery"):
            open_gallery_run(visited, line.run_id)
    path.write_text(whole)
    inside.unlink()
    inside.symlink_to(secret)
    with pytest.raises(StorageError, match="outside the gallery"):
        open_gallery_run(visited, line.run_id)


def test_a_gallery_that_is_no_folder_or_the_own_data_folder_is_one_note(visited):
    own = visited.settings.data_dir
    own.mkdir(parents=True, exist_ok=True)
    no_folder = "is not a readable folder (see BIAS_GALLERY)"
    is_own = "the gallery (BIAS_GALLERY) is this program's own data folder: name another folder of runs"
    for where in ("no/such-folder", "org/name", "~nobody-here/x", "a\0b", str(own)):
        visited.settings = visited.settings.model_copy(update={"gallery": where})
        lines, note = list_gallery(visited)
        assert lines == []
        assert (note == is_own) if where == str(own) else (no_folder in note)
        assert launch_options(visited, Opening())["allowed_paths"]


def test_two_are_compared_number_by_number_with_the_uncertainties_of_both(elsewhere):
    both = compare_reports(*elsewhere[1])
    assert "man: P" in {first.title for first, _ in both.pairs}
    assert "concept: nurse and plumber" in both.differ
    first, second = elsewhere[1]
    own = replace(second.settings.options, attributes=("man|a photo of a man in a hat|a photo of a bareheaded man",))
    unlike = first, replace(second, settings=replace(second.settings, options=own))
    with pytest.raises(InvalidInput, match=r"no number in common: .*in the same sentences"):
        compare_reports(*unlike)
    old = replace(first.results.findings[0], key="all pictures-old-p", title="old: P")
    both_old = [replace(one, results=replace(one.results, findings=(*one.results.findings, old))) for one in unlike]
    without_man = compare_reports(*both_old)
    assert [first.title for first, _ in without_man.pairs] == ["old: P"]
    assert without_man.notes[0] == "Not compared, because the runs use different sentences for it: “man”."
    # 0.8 - 0.5, from 0.3 - hypot(0.1, 0.1) to 0.3 + hypot(0.1, 0.1)
    a, b = Estimate(value=0.5, low=0.4, high=0.6, n=90), Estimate(value=0.8, low=0.7, high=0.9, n=50)
    one = estimate_difference(a, b)
    assert (one.value, one.low, one.high) == pytest.approx((0.3, 0.3 - 0.02**0.5, 0.3 + 0.02**0.5))
    assert estimate_difference(b, a).value == pytest.approx(-0.3)
    nothing = estimate_difference(a, Estimate.undefined(3, "none was drawn"))
    assert math.isnan(nothing.value)
    assert nothing.note == "none was drawn"
