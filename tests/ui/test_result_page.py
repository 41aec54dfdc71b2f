"""A result page: its order, what leads from a number to its pictures and readings, and a run at work."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design, list_designs, page_of
from bias_core.studies.kit.types import Progress, WatchedShare
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Attribute, Estimate, ImageRow, StoredImage
from bias_core.ui.study import drawing
from bias_core.ui.study.drawing import MOST_SHOWN, DrawingUpdates, drawing_html
from bias_core.ui.study.pictures import FEW, Look, which_of
from bias_core.ui.study.result_page import FOLDS, LATER, numbers_of
from bias_core.ui.study.why import why_html
from tests import shared
from tests.ui.tabs import built, opened_folds

pytestmark = pytest.mark.draws

services = shared.fake_services

ATTRIBUTES = (
    Attribute(name="man", positive="a man", negative="a woman", reference=0.5, reference_source="assumed"),
    Attribute(name="glasses", positive="glasses", negative="without glasses"),
)


@pytest.fixture(scope="module")
def tab(services):
    return built(ExploreTab, services)


@pytest.fixture(scope="module")
def report(services):
    settings = explore_settings(
        concept="doctor", n_images=29, n_clusters=2, attributes=ATTRIBUTES, model="calibration-renderer"
    )
    return complete(run_study(find_design("explore"), settings, services))


def event(**said):
    return SimpleNamespace(**said)


def test_every_kind_of_study_names_the_plot_of_its_page():
    assert [design.name for design in list_designs() if not page_of(design).plots] == []


def test_a_new_report_shows_pictures_and_one_plot_and_makes_what_is_folded_later(tab, report):
    shown = tab.finished(report)
    assert list(FOLDS.values()) == ["The numbers", "By attribute", "Details"]
    assert shown[tab.pictures.grid].count("data-image=") == FEW  # of 28, for one is blocked
    assert "24 of 28: show more" in shown[tab.pictures.grid]
    assert shown[tab.parts["plot"]].count("<figure") == 1
    assert 'data-key="shares"' in shown[tab.parts["plot"]]
    later = {part for name in LATER for part in tab.later_outputs(name)} - {tab.parts["extra"]}
    assert not any(shown.get(part) for part in later - set(tab.extra.values()))  # what the last report had is gone
    opened = opened_folds(tab, shown)
    assert "How the shares settled" in opened[tab.parts["attributes"]]
    assert "<details" in opened[tab.parts["tables"]]
    assert 'data-key="shares"' not in opened[tab.parts["attributes"]] + opened[tab.parts["figures"]]
    assert tab.on_unfold("details", report, ("details",)) == {tab.parts["filled"]: ("details",)}  # once
    pressed = SimpleNamespace(target=tab.parts["details"])
    assert tab.on_fold(report, ("details",), pressed) == {tab.parts["filled"]: ("details",)}


def test_a_share_is_pressed_and_the_pictures_that_make_it_up_are_shown(tab, report):
    plot = tab.finished(report)[tab.parts["plot"]]
    assert 'data-pictures="man: perceived=yes"' in plot
    assert 'role="group"' in plot  # what is in an image cannot be pressed
    frame = report.pictures
    seen = set(frame.loc[(frame["man: perceived"] == "yes"), "image_id"])
    shown = tab.on_mark(report, event(pictures="man: perceived=yes"))
    ids = {part.split('"')[0] for part in shown[tab.pictures.grid].split('data-image="')[1:]}
    assert ids == seen
    assert "man: perceived: yes" in shown[tab.pictures.grid]
    assert any(which == "man: perceived=yes" for which in numbers_of(report).values())
    assert which_of(report, "no such thing") == ""
    assert which_of(report, "man, group 1").count("=") == 2
    both = Look(report=report, which=which_of(report, "man, group 1")).all_rows()
    assert set(both["looks_like"]) == {"group 1"}


def test_a_picture_says_why_each_attribute_was_read_so(tab, report, services):
    frame = report.pictures
    row = frame.iloc[2]
    html = why_html(report, row["image_id"], services)
    assert html.count("<tr>") == 1 + len(ATTRIBUTES)
    assert "“a man” against “a woman”" in html
    assert ("there" if row["man: perceived"] == "yes" else "not there") in html
    assert "read as" in html
    assert "people say" not in html  # nobody was asked
    assert why_html(report, "../elsewhere", services) == ""
    assert html in tab.pictures.large(report, row["image_id"])


def test_a_frame_on_the_map_chooses_pictures_and_the_shares_follow(tab, report):
    frame = report.pictures
    some = frame[frame["number"].isin([2, 5, 9])]
    shown = tab.on_choose(report, event(number=0, group=-1, numbers="2,5,9"))
    assert shown[tab.pictures.grid].count("data-image=") == 3
    assert "in these 3 pictures" in shown[tab.parts["plot"]]
    n_men = int((some["man: perceived"] == "yes").sum())
    assert tab.pictures.look in shown
    cells = shown[tab.parts["plot"]].partition("<tbody>")[2]
    assert f"{n_men / 3:.1f}"[:3] in cells
    assert shown[tab.at_once["map"]].count(" dim") == 28 - 3
    everything = tab.on_choose(report, event(number=0, group=-1, numbers=""))
    assert "How often is it seen?" in everything[tab.parts["plot"]]


GREY = Image.new("RGB", (16, 16), "grey")
SHARE = Estimate(value=0.75, low=0.4, high=0.95, n=8, null_value=0.5)


def rows_of(n, prompt="a photo of a doctor"):
    return tuple(ImageRow(prompt=prompt, seed=seed, model="m") for seed in range(n))


def stored(row, *, blocked=False):
    return StoredImage(row=row, truth=None, blocked=blocked, path=Path(f"/data/{row.id}.png"))


def at(rows, n_finished, n_forming, **more):
    forming = {row.id: GREY for row in rows[n_finished : n_finished + n_forming]}
    images = tuple(map(stored, rows[:n_finished]))
    return Progress(message="", done=n_finished, total=len(rows), images=images, drawing=rows, forming=forming, **more)


def test_every_picture_has_its_number_and_says_where_it_is():
    html = drawing_html(at(rows_of(7), 2, 3))
    words = re.findall(r'(?:alt|aria-label)="(Picture[^"]*)"', html)
    assert words == [
        *("Picture 1 is finished", "Picture 2 is finished"),
        *("Picture 3 is forming", "Picture 4 is forming", "Picture 5 is forming"),
        *("Picture 6 is not begun", "Picture 7 is not begun"),
    ]
    assert "2 of 7 pictures finished, 3 forming" in html
    assert html.count('src="data:image/webp') == 3
    assert html.count('src="gradio_api/file=/data/') == 2
    rows = rows_of(2)
    assert "Picture 1 was blanked" in drawing_html(replace(at(rows, 1, 0), images=(stored(rows[0], blocked=True),)))


def test_of_a_large_run_those_around_what_is_drawn_are_shown():
    rows = rows_of(2 * MOST_SHOWN + 5)
    html = drawing_html(at(rows, MOST_SHOWN + 3, 4))
    numbers = [int(n) for n in re.findall(r"Picture (\d+) ", html)]
    assert numbers == list(range(MOST_SHOWN + 1, 2 * MOST_SHOWN + 1))
    assert f"shown are {MOST_SHOWN + 1} to {2 * MOST_SHOWN}" in html


def test_pictures_stand_under_their_prompts_and_what_a_person_wrote_is_no_markup():
    rows = rows_of(2, "a <b>doctor</b>") + rows_of(3, "a nurse")
    html = drawing_html(at(rows, 0, 0))
    assert re.findall(r"<h4>(.*?)</h4>", html) == ["a &lt;b&gt;doctor&lt;/b&gt;", "a nurse"]
    assert "<b>doctor" not in html


def test_shares_so_far_stand_beside_the_pictures_with_what_they_are_compared_with():
    unknown = Estimate.undefined(0, "no picture yet", null_value=0.3)
    shares = (WatchedShare(name="man", estimate=SHARE), WatchedShare(name="old", estimate=unknown))
    html = drawing_html(at(rows_of(9), 8, 1, shares=shares))
    assert "75 %" in html
    assert "40 % to 95 %" in html
    assert html.count('class="strip"') == 1
    assert "nothing yet" in html
    assert "what it is compared with" in html


def test_the_place_of_shares_is_kept_free_until_the_first_pictures_are_read():
    before = drawing_html(at(rows_of(9), 0, 8, watches_shares=True))
    assert 'class="drawing watched"' in before
    assert "Shares follow with the first finished pictures." in before
    assert "<table" not in before
    assert 'class="drawing"' in drawing_html(at(rows_of(9), 0, 8))  # of a study without shares


def test_only_what_changed_is_sent_and_nothing_of_pictures_that_were_all_there(monkeypatch):
    monkeypatch.setattr(drawing, "_PAUSE", 0.0)
    monkeypatch.setattr(drawing, "_PAUSE_PER_PICTURE", 0.0)
    seen, rows = DrawingUpdates("part"), rows_of(5)
    begun, forming = at(rows, 0, 0), at(rows, 0, 2)
    assert seen.at(begun)
    assert not seen.at(begun)
    assert seen.at(forming)
    assert not seen.at(replace(forming, message="step 2 of 9"))
    assert seen.at(replace(forming, forming={rows[0].id: GREY.copy(), rows[1].id: GREY.copy()}))  # they look alike
    assert not seen.at(Progress(message="reading the pictures"))
    assert not DrawingUpdates("part").at(replace(at(rows, 5, 0), drawing=()))


def test_a_run_that_ends_without_a_result_leaves_what_was_finished():
    rows, shares = rows_of(6), (WatchedShare(name="man", estimate=SHARE),)
    stopped, at_once = DrawingUpdates("part"), DrawingUpdates("part")
    at_once.note(at(rows, 0, 3))
    assert at_once.left() == {"part": ""}
    for progress in (at(rows, 0, 3), at(rows, 3, 2, shares=shares), Progress(message="reading the pictures")):
        stopped.note(progress)
    left = stopped.left()["part"]
    assert "3 of 6 pictures finished" in left
    assert "75 %" in left
    assert "forming" not in left


def test_pictures_are_not_sent_more_often_than_the_page_can_bear():
    seen, rows = DrawingUpdates("part"), rows_of(6)
    sent = [bool(seen.at(at(rows, n, 0))) for n in range(7)]
    assert sent == [True, *[False] * 5, True]  # the last one at once
