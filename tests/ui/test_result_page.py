"""The order of a result page, and what leads from a number to its pictures and from a picture to how it was read."""

from types import SimpleNamespace

import pytest

from bias_core.studies.explore.options import explore_settings
from bias_core.studies.explore.tab import ExploreTab
from bias_core.studies.kit.designs import find_design, list_designs, page_of
from bias_core.studies.running.run import complete, run_study
from bias_core.types import Attribute
from bias_core.ui.study.pictures import FEW, Look, which_of
from bias_core.ui.study.result_page import FOLDS, LATER, numbers_of
from bias_core.ui.study.why import why_html
from tests import shared
from tests.ui.tabs import built, opened_folds

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
    assert not later & set(shown) - set(tab.extra.values())
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
