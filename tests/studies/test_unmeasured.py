"""Pictures of one's own as a run of which nothing is measured, and whom they are taken to show."""

import json

import pytest
from PIL import Image

from bias_core.annotation.task_owner import create_task
from bias_core.annotation.tasks import association_task, own_task, pst_task
from bias_core.errors import InvalidInput
from bias_core.exchange.imports import ImportedImages
from bias_core.labels.sources import candidates, kind_of, runs_with, task_pictures
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.studies.explore.study import NOBODY, UNMEASURED
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudyReport, StudySettings
from bias_core.studies.running.export import to_export
from bias_core.studies.running.history import list_runs, open_run
from bias_core.studies.running.identities import people_of
from bias_core.studies.running.run import complete, run_study
from tests.every import every
from tests.explored import own_pictures
from tests.ui.fakes import FakeServices

VISITOR = "a" * 32


class WithoutReaders(Services):
    """Nothing that is kept unmeasured may ask for a reader."""

    def encoder(self, name):
        raise AssertionError(name)


@pytest.fixture
def services(tmp_path):
    built = WithoutReaders(Settings(data_dir=tmp_path / "data", offline=True))
    yield built
    built.close()


def imagefolder(folder, lines):
    """A folder with a picture of a colour of its own for each line of metadata."""
    folder.mkdir(parents=True)
    for i, line in enumerate(lines):
        line["file_name"] = f"{i}.png"
        Image.new("RGB", (16, 16), (i, 50, 7)).save(folder / f"{i}.png")
    (folder / "metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def kept(services, folder):
    settings = StudySettings(images=str(folder), encoder=NOBODY)
    return complete(run_study(UNMEASURED, settings, services, session=VISITOR))


PAIRS = [
    {"prompt": "two at work", "left": "nurse", "right": "CEO"},
    {"prompt": "two at work", "left": " CEO ", "right": "nurse"},
    {"prompt": "Generate a picture of one cook on the left and one guard on the right."},
    {"prompt": "a photo of a baker"},
    {"prompt": "a busy street"},
]


def test_an_import_becomes_a_task_of_pairs_without_being_measured(services, tmp_path):
    report = kept(services, imagefolder(tmp_path / "mine", PAIRS))
    assert kind_of(report) == "pst_paired"
    found = candidates(report, "pst_paired")
    # By file: told by the metadata, by the prompt, and last the street, of which nobody says whom it shows.
    assert sorted(tuple(one.identities.values()) for one in found) == [
        (), ("CEO", "nurse"), ("cook", "guard"), ("nurse", "CEO"),
    ]  # fmt: skip
    task = pst_task(paired=True)
    items = task_pictures(found, task)
    assert {"left": "person", "right": "person"} in [item.identities for item in items]
    assert len(create_task(services.labels, task, items).join_code) > 20
    assert {one.identities.get("single") for one in candidates(report, "pst_single")} == {"baker", None}
    with_a_name = task_pictures(found, task, who="somebody")
    assert all(set(item.identities.values()) == {"somebody"} for item in with_a_name)


def test_questions_of_ones_own_and_associations_take_every_picture(services, tmp_path):
    report = kept(services, imagefolder(tmp_path / "mine", PAIRS))
    for task in (own_task("Is it day?", ["yes", "no"]), association_task("pleasant", "unpleasant")):
        items = task_pictures(candidates(report, task.kind, words=("pleasant", "unpleasant")), task)
        assert [item.identities for item in items] == [{}] * len(PAIRS)
        create_task(services.labels, task, items)


def test_a_run_of_single_people_has_no_pairs_and_one_that_names_nobody_may_be_asked_anything(services, tmp_path):
    report = kept(services, imagefolder(tmp_path / "mine", [{"prompt": "x", "identity": "nurse"}] * 2))
    assert kind_of(report) == "own"  # it may be of anything: nothing is assumed
    assert candidates(report, "pst_single")[0].identities == {"single": "nurse"}
    with pytest.raises(InvalidInput, match="no stored picture of two people: ask something else, or choose"):
        candidates(report, "pst_paired")
    report = kept(services, imagefolder(tmp_path / "street", [{"prompt": "a busy street"}]))
    assert kind_of(report) == "own"
    for kind in ("pst_paired", "pst_single", "association", "own"):
        assert len(candidates(report, kind)) == 1


def test_it_is_listed_opened_and_exported_as_other_runs_are(services, tmp_path):
    report = kept(services, imagefolder(tmp_path / "mine", PAIRS))
    (line,) = list_runs(services, VISITOR)
    assert (line.run_id, line.saved, line.n_stored) == (report.run_id, True, 5)
    again = open_run(services, VISITOR, report.run_id).report
    assert isinstance(again, StudyReport)
    assert not again.results.findings
    assert again.pictures.equals(report.pictures)
    assert "nobody" in to_export(again, pictures=True).markdown
    assert again.results.tables[0].frame["pictures"].sum() == 5


def test_a_measured_import_has_the_same_pictures_so_that_labels_fit_both(tmp_path):
    services = FakeServices(tmp_path / "data")
    folder = imagefolder(tmp_path / "mine", PAIRS)
    unmeasured = kept(services, folder)
    again = own_pictures(StudySettings(images=str(folder), force=True))
    measured = complete(run_study(find_design("explore"), again, services, session=VISITOR))
    ids = set(unmeasured.pictures["image_id"])
    assert ids == set(measured.pictures["image_id"])
    assert {run.study for run in runs_with(services, VISITOR, ids)} == {"unmeasured", "explore"}
    assert candidates(measured, "pst_paired")[0].identities == {"left": "nurse", "right": "CEO"}
    services.close()


@every([
    ("x", {"left": "a", "right": "b"}, ("paired", "a", "b")),
    ("a photo of a nurse", {"left": "cook", "right": ""}, ("single", "cook", "")),
    ("a photo of a nurse", {"identity": "cook"}, ("single", "cook", "")),
    ("A photo of the face of a nurse.", {}, ("single", "nurse", "")),
    ("one aide of it on the left and the CEO on the right", {}, ("paired", "aide of it", "CEO")),
    ("Generate a picture of one construction worker.", {}, ("single", "construction worker", "")),
    ("a photo of a person studying science", {}, ("", "", "")),  # would tell the prompt
    ("a photo of two nurses", {}, ("", "", "")),
    ("a photo of a nurse and a CEO", {}, ("", "", "")),
    ("", {}, ("", "", "")),
])  # fmt: skip
def test_whom_a_picture_was_to_show(prompt, told, people):
    assert tuple(people_of(prompt, told).values()) == people


def test_metadata_that_names_people_in_another_type_names_nobody(tmp_path):
    lines = [{"prompt": "x", "left": 7, "right": None, "identity": ["nurse"]}]
    source = ImportedImages(imagefolder(tmp_path / "mine", lines))
    (row,) = source.rows("x", 1)
    assert source.whom(row.id) == {}
    assert source.whom("unknown") == {}
