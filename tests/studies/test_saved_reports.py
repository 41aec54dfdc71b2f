"""A report that was saved reads back as it was, and nothing in the file is run."""

import json
import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import StorageError
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.report import Exploration
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.studies.kit.designs import find_design, list_designs
from bias_core.studies.kit.types import StudyFigure, StudySettings
from bias_core.studies.reports.documents import to_dict
from bias_core.studies.reports.saved import (
    SavedReport,
    decode,
    encode,
    from_text,
    keep_report,
    open_report,
    report_store,
    to_text,
)
from bias_core.studies.running.run import complete, run_study
from tests import shared
from tests.every import every
from tests.explored import explore
from tests.ui.fakes import FakeServices

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


def test_a_study_reads_back_equal(services, report):
    saved = open_report(report.run_id, services)
    same(saved.report, report)
    assert open_report("abc123", services) is None
    assert to_dict(saved.report) == to_dict(report)
    assert from_text(to_text(report, Path(), created=5.0), Path()).created == 5.0


def test_an_exploration_reads_back_equal(services):
    nurse = next(item for item in load_attribute_sets() if item.key == "nurse")
    settings = explore_settings(concept="nurse", attributes=nurse.attributes, n_images=9, n_attribute_images=3)
    *_, found = explore(settings, services)
    saved = open_report(found.run_id, services)
    same(replace(saved.report, seconds=0.0), replace(found.report, seconds=0.0))
    assert to_dict(saved.report) == to_dict(found.report)


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


def test_files_are_named_from_the_data_folder_so_that_it_can_move(services, report):
    text = report_store(services).find(report.run_id)
    assert str(services.settings.data_dir) not in text
    moved = from_text(text, Path("/elsewhere")).report
    assert {str(image.path)[:18] for image in moved.stored.values()} == {"/elsewhere/images/"}


def test_numbers_about_sets_of_pictures_are_left_out_of_an_older_report_with_one_note():
    path = Path(__file__).parent / "judgements_of_sets.json"
    report = from_text(path.read_text(encoding="utf-8"), path.parent).report
    assert len(report.results.findings) == 5
    notes = [note for note in report.results.notes if note.startswith("Left out")]
    assert len(notes) == 1
    assert "Slope of judgements" in notes[0]
    assert "Side that raters prefer" in notes[0]
    assert to_dict(report)["run_id"] == report.run_id


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
    (HEAD + '{"a": 1}}', "holds a dict"),
])  # fmt: skip
def test_a_file_of_something_else_is_refused(text, words):
    with pytest.raises(StorageError, match=words):
        from_text(text, Path())
