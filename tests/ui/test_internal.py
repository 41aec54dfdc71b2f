"""The Internal tab: the way from text to picture, in words that a stranger understands."""

from types import SimpleNamespace

import pytest

from bias_core.studies.internal.study import own_targets
from bias_core.studies.internal.tab import InternalTab
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built, changed, form_values, opened_folds

services = shared.fake_services

NAN = float("nan")
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(services):
    design = own_targets(f"woman | a photo of a woman\n{EVIL}\nman | a photo of a man", n=6, n_attribute=2)
    return complete(run_study(design, StudySettings(condition="fair"), services))


@pytest.fixture(scope="module")
def tab(services):
    return built(InternalTab, services)


def test_the_flow_goes_from_the_words_to_the_pictures(report, tab):
    html = tab.closer_html(report, "man")
    places = [html.index(f"<b>{score} = ") for score in ("TT", "ITP", "IT", "II")]
    assert places == sorted(places)
    assert html.count('class="gauge"') == 4
    assert "no interval: words are not drawn by chance" in html
    assert "“a photo of a man”" in html
    assert tab.closer_html(report, "nobody") == ""


def test_a_side_is_named_where_the_interval_lies_on_it(report, tab):
    for value, side in ((0.2, "Nearer to men:"), (-0.2, "Nearer to women:"), (0.0, "To neither clearly:")):
        leaning = changed(report, "scores", value=value, low=value - 0.1, high=value + 0.1)
        assert tab.closer_html(leaning, "man").count(f"<strong>{side}</strong>") == 4
    sides = changed(report, "table3", **{"δ′": 0.0, "δ′ low": [-0.3, -0.1, 0.1], "δ′ high": [-0.1, 0.1, 0.3]})
    moved = "Between their own poles (δ′), drawing moves man to men, woman to women; 1 of 3 to neither clearly."
    assert headline(sides) == moved
    sides = changed(
        report, "table3", **{"δ′": float("nan"), "MCAS low": [-0.3, -0.1, 0.1], "MCAS high": [-0.1, 0.1, 0.3]}
    )
    assert headline(sides).endswith("lean to men for man, to women for woman; 1 of 3 to neither clearly.")


def test_an_interval_across_0_is_no_side_and_no_proof(report, tab):
    unclear = changed(report, "table3", **{"δ′": 0.0, "δ′ low": -0.1, "δ′ high": 0.1})
    moves = "Between their own poles (δ′), drawing moves"
    none = f"{moves} none of 3 targets clearly to men or women; none is shown to be even."
    assert headline(unclear) == none
    assert "The difference is not told apart from nothing" in tab.closer_html(unclear, "man")
    moved = changed(
        report, "table3", **{"δ′": 0.2, "δ′ low": 0.1, "δ′ high": 0.3, "α′": NAN, "why no α′": "weak words"}
    )
    assert "Drawing moves it towards men." in tab.closer_html(moved, "man")
    assert "There is no α′: weak words." in tab.closer_html(moved, "man")


def test_where_there_is_no_alpha_its_reason_stands_there(report, tab):
    without = changed(report, "table3", **{"α": float("nan"), "why no α": "TT is 0.0010: the texts hardly lean"})
    assert "There is no α: TT is 0.0010: the texts hardly lean." in tab.closer_html(without, "man")
    assert "times as strongly as the words alone (TT = " in tab.closer_html(report, "man")


def test_gauges_of_all_targets_have_one_scale(report, tab):
    scores = table_of(report, "scores").frame
    reach = 1.08 * scores[["value", "low", "high"]].abs().max(axis=None)
    for target in ("man", "woman"):
        value = scores[(scores["target"] == target) & (scores["score"] == "II")]["value"].iloc[0]
        assert f'cx="{120 + 112 * value / reach:.1f}"' in tab.closer_html(report, target)


def test_targets_of_the_visitor_are_never_markup(report, tab):
    for html in (tab.closer_html(report, EVIL), tab.behind_html(report, EVIL)):
        assert "<img src=x" not in html
        assert "&lt;img src=x" in html


def test_own_targets_are_drawn_whole_and_shown_one_after_the_other(tab):
    asked = form_values(tab, targets="judge\nman | a photo of a man", n=3, n_attribute=2)
    design, settings = tab.design_and_settings(asked)
    assert (design.name, settings.scale) == ("own-targets", 1.0)
    *_, last = tab.on_run(Visitor(), *asked)
    shown, last = last[tab.parts["report"]], opened_folds(tab, last)
    assert shown.n_images == 2 * (3 + 2 * 2) + 8 * 2
    assert last[tab.extra["closer"]]["choices"] == [("judge", "judge"), ("man", "man")]
    assert "judge, from text to picture" in last[tab.extra["words"]]["value"]
    other = tab.on_closer(shown, "man")
    assert "man, from text to picture" in other[tab.extra["words"]]["value"]
    assert tab.on_closer(None, "man") == {}
    image_id = shown.pictures["image_id"].iloc[0]
    assert "<article" in tab.on_open(shown, SimpleNamespace(image=image_id))


def test_targets_that_cannot_be_read_are_an_error_in_place(tab):
    *_, last = tab.on_run(Visitor(), *form_values(tab, targets="judge | a judge | neither"))
    assert "write a target as" in last[tab.parts["status"]]
