"""The examples that come with the program are small, whole, and open where they belong."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from bias_core.errors import StorageError
from bias_core.studies.designs import find_design
from bias_core.studies.examples import FOLDER, Example, list_examples, open_example, write_example
from bias_core.studies.figures import to_bytes
from bias_core.studies.run_study import complete, run_study
from bias_core.studies.study_report import finding_rows
from bias_core.studies.study_types import StudySettings
from bias_core.ui.build import TABS
from tests.ui.fakes import FakeServices

SHIPPED = list_examples()


def test_the_examples_are_small():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3_000_000
    for path in files:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert max(image.size) <= 64, path


@pytest.mark.parametrize("example", SHIPPED, ids=lambda example: example.name)
def test_a_shipped_example_opens_with_its_pictures_and_figures(example):
    report = open_example(example).report
    assert finding_rows(report)
    assert report.stored
    assert all(image.path.is_file() for image in report.stored.values())
    assert set(report.pictures["image_id"]) == set(report.stored)
    for figure in report.results.figures:
        assert to_bytes(figure)
    assert report.results.notes[0].startswith("This is an example")
    assert str(FOLDER.parent.parent) not in (FOLDER / f"{example.name}.json").read_text()


def test_every_example_has_its_tab():
    tabs = {tab.key for tab in TABS}
    assert {example.tab for example in SHIPPED} <= tabs
    assert len({example.name for example in SHIPPED}) == len(SHIPPED) >= 6


def test_an_example_is_written_listed_and_replaced(tmp_path):
    services = FakeServices(tmp_path / "data")
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    report = complete(run_study(find_design("t2iat-tests"), settings, services))
    folder = tmp_path / "examples"
    for title in ("first", "second"):
        write_example(Example(name="one", tab="association", title=title), report, folder)
    write_example(Example(name="other", tab="paired", title="x"), report, folder)
    assert [e.title for e in list_examples("association", folder)] == ["second"]
    assert len(list_examples(folder=folder)) == 2
    saved = open_example(list_examples("association", folder)[0], folder)
    assert finding_rows(saved.report) == finding_rows(report)
    assert {image.path.parent for image in saved.report.stored.values()} == {folder / "one"}
    services.close()


def test_a_missing_example_or_list_is_said(tmp_path):
    assert list_examples(folder=tmp_path) == ()
    with pytest.raises(StorageError, match="not there"):
        open_example(Example(name="x", tab="y", title="z"), tmp_path)
    (tmp_path / "index.json").write_text(json.dumps([{"name": "x"}]))
    with pytest.raises(StorageError, match="list of examples"):
        list_examples(folder=tmp_path)
