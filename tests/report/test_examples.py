"""The examples that come with the program are small, whole, and open where they belong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from bias_core.errors import StorageError
from bias_core.papers.oasis.tab import films
from bias_core.report.figures import draw, to_bytes
from bias_core.report.report_text import finding_rows
from bias_core.report.saved import FOLDER, Example, is_example, is_saved, list_examples, open_example
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import StudyFigure, StudySettings
from scripts.make_examples import write_example
from tests import shared

fakes = shared.fake_services

SHIPPED = list_examples()


@pytest.mark.parametrize("example", SHIPPED, ids=lambda example: example.name)
def test_a_shipped_example_opens_with_its_pictures(example):
    report = open_example(example).report
    assert finding_rows(report)
    assert all(image.path.is_file() for image in report.stored.values())
    assert set(report.pictures["image_id"]) == set(report.stored) != set()
    assert len(report.pictures) == report.n_images  # so that what is counted there is of the run
    assert report.results.notes[0].startswith("This is an example")
    assert str(FOLDER.parent.parent) not in (FOLDER / f"{example.name}.json").read_text()


@pytest.mark.slow
def test_every_figure_of_a_shipped_example_is_drawn():
    """And of each kind the smallest is written, which takes long."""
    figures = [figure for example in SHIPPED for figure in open_example(example).report.results.figures]
    assert all(draw(figure).axes for figure in figures)
    for kind in {figure.kind for figure in figures}:
        assert to_bytes(min((one for one in figures if one.kind == kind), key=lambda one: len(one.data)))


def test_the_steps_of_an_example_differ_and_end_at_the_finished_picture():
    (example,) = (one for one in SHIPPED if one.name == "steps-of-a-beard")
    (film,) = films(open_example(example).report)
    for strip in film.strips.values():
        shown = [pixels(path) for _, path in strip]
        assert [step for step, _ in strip] == list(range(1, film.n_steps + 2))
        assert len({picture.tobytes() for picture in shown[:-1]}) == film.n_steps
        assert np.abs(shown[-2] - shown[-1]).max() <= 1


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def report(fakes):
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    return complete(run_study(find_design("t2iat-tests"), settings, fakes))


def test_an_example_is_written_listed_and_replaced(report, tmp_path):
    folder = tmp_path / "examples"
    for title in ("first", "second"):
        write_example(Example(name="one", tab="association", title=title), report, folder)
    write_example(Example(name="other", tab="paired", title="x"), report, folder)
    assert [e.title for e in list_examples("association", folder)] == ["second"]
    assert len(list_examples(folder=folder)) == 2
    saved = open_example(list_examples("association", folder)[0], folder)
    assert finding_rows(saved.report) == finding_rows(report)
    assert {image.path.parent for image in saved.report.stored.values()} == {folder / "one"}


def test_predicted_pictures_whose_names_differ_at_the_end_only_stay_apart(report, tmp_path):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 254, (64, 64, 3), dtype=np.uint8)
    steps = [base + np.uint8(i == 1) for i in range(2)]  # one level apart, in thousands of colours
    paths = [tmp_path / f"0123456789abcdef0123-{step}.png" for step in range(len(steps))]
    for path, step in zip(paths, steps, strict=True):
        Image.fromarray(step).save(path)
    data = pd.DataFrame({"row": 1, "column": ["0", "1"], "path": [str(path) for path in paths], "text": ""})
    film = StudyFigure(key="film", title="Film", kind="pictures", data=data)
    report = replace(report, results=replace(report.results, figures=(film,)))
    for _ in range(2):  # written again it is the same, and nothing of an earlier version stays
        write_example(Example(name="one", tab="origins", title="x"), report, tmp_path / "all", note="Chosen.")
        saved = open_example(list_examples(folder=tmp_path / "all")[0], tmp_path / "all").report
        (kept,) = saved.results.figures
        for path, step in zip(kept.data["path"], steps, strict=True):
            assert (pixels(path) == step).all()
        assert saved.results.notes[1] == "Chosen."
        files = set((tmp_path / "all" / "one").iterdir())
        assert files == {*map(Path, kept.data["path"]), *(image.path for image in saved.stored.values())}
        (tmp_path / "all" / "one" / "0123456789ab.png").write_bytes(b"old")


def test_a_missing_example_or_list_is_said(tmp_path):
    assert list_examples(folder=tmp_path) == ()
    with pytest.raises(StorageError, match="not there"):
        open_example(Example(name="x", tab="y", title="z"), tmp_path)
    (tmp_path / "index.json").write_text('[{"name": "x"}]')
    with pytest.raises(StorageError, match="list of examples"):
        list_examples(folder=tmp_path)


def _finding(report, key):
    return next(one.estimate for one in report.results.findings if one.key == key)


def _doctors(report):
    man = _finding(report, "all pictures-man-p")
    return man.low > man.null_value == 0.562


def _nurses(report):
    man, doctors = _finding(report, "all pictures-man-p"), next(one for one in SHIPPED if one.name == "doctors")
    of_doctors = _finding(open_example(doctors).report, "all pictures-man-p")
    return man.low > man.null_value == 0.121 and man.high < of_doctors.low


def _fair_and_published(report):
    shares = [one.estimate for one in report.results.findings if "-p: " in one.key]
    most = max(shares, key=lambda share: abs(share.value))
    return most == _finding(report, "all pictures-man-p: published - fair") and most.low > 0


def _four_occupations(report):
    to_men = [_finding(report, f"difference {name}").low > 0 for name in ("CEO", "Engineer")]
    to_women = [_finding(report, f"difference {name}").high < 0 for name in ("Librarian", "Nurse")]
    return all(to_men + to_women)


def _clusters(report):
    texts = report.results.frame("table3")
    return len(texts.groupby(["nationality", "cluster"])) == 4 and (texts["specificity low"] > 0).any()


def _planted_object(report):
    gained = report.results.frame("log_odds").query("object == 'sign'").set_index("condition")
    shares = gained["pictures with it"] / gained["n"]
    return (gained["low"] > 0).all() and (gained["with it in the base"] == 0).all() and shares["backdoor"] > 0.9


CLAIMS = {
    "doctors": _doctors,
    "nurses": _nurses,
    "fair-and-published": _fair_and_published,
    "science-and-arts": lambda report: _finding(report, "science_arts").low > 0,
    "occupations-in-pairs": lambda report: _finding(report, "paired_overall").low > 0,
    "planted-object": _planted_object,
    "four-occupations": _four_occupations,
    "clusters-and-texts": _clusters,
    "steps-of-a-beard": lambda report: _finding(report, "Iranian beard").low > 0,
}


@pytest.mark.parametrize("example", SHIPPED, ids=lambda example: example.name)
def test_an_example_shows_what_its_story_says(example):
    assert CLAIMS[example.name](open_example(example).report)


def test_an_example_is_read_once_and_belongs_to_no_run(fakes):
    example = SHIPPED[0]
    report = open_example(example).report
    assert open_example(example).report is report
    assert is_example(report)
    assert not is_example(replace(report, run_id="0123456789abcdef"))
    assert not is_saved(report, fakes)
