"""The Association tab: what a person who knows none of the numbers is told, and what stands behind them."""

from types import SimpleNamespace

import pytest

from bias_core.number_text import format_interval, format_number
from bias_core.settings import ASSETS
from bias_core.studies.association.tab import AssociationTab
from bias_core.studies.association.tests import own_association
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.saved import list_examples, open_example
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.study.closer_look import extremes_html, opened_html
from bias_core.ui.study.pictures import which_choices
from bias_core.ui.study.view import header_html
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.ui.tabs import built, changed, form_values, opened_folds

services = shared.fake_services

EVIL = "<img src=x onerror=alert(1)>"
# The fake model draws a man where a prompt says "man", so edits with "man" and "woman" differ.
OWN = own_association(
    f"{EVIL}: math, physics, logic", "Arts: poetry, music, dance", "man", "woman", kind="gender",
    template="a person who likes {}", n=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(OWN, StudySettings(options={"n_permutations": 100}), services))


@pytest.fixture(scope="module")
def tab(services):
    return built(AssociationTab, services)


def test_every_number_is_said_in_words(report, tab):
    html = tab.closer_html(report, "own")
    row = table_of(report, "table1").frame.loc[0]
    ends = row["low"], row["high"]
    assert f"S = {format_number(row['S'], *ends)}<small>{format_interval(*ends)}" in html
    assert f"d = {format_number(row['d'])}" in html
    assert "of 1,000 such runs" in html
    assert "The smallest p that 3 against 3 prompts can give here is 0.10" in html
    assert f"p = {row['p']:.3f}" in html
    assert "q =" not in html  # one test needs no correction
    assert 'data-take="figure:influence_own:csv"' in html


def test_a_score_that_rests_on_one_prompt_is_said_to(report, tab):
    turned = changed(report, "influence", **{"S changes its sign": [True] + [False] * 5})
    first = table_of(report, "influence").frame.loc[0, "left out"]
    assert f"without {first} it would change its sign" in tab.closer_html(turned, "own")
    firm = changed(report, "influence", **{"S changes its sign": [False] * 6})
    assert "stays on the same side of 0" in tab.closer_html(firm, "own")


def test_a_negative_number_has_a_minus_sign_and_words_stay_as_they_were_typed(report, tab):
    cold = changed(report, "table1", X=["-5 degrees"], S=[-0.25], low=[-0.31], high=[-0.19])
    html = tab.closer_html(cold, "own")
    assert "S = −0.250<small>[−0.310, −0.190]" in html
    assert "−5 degrees" not in html
    assert "-5 degrees" in html


def test_a_headline_says_the_side_and_never_that_nothing_is_there(report, tab):
    clear = headline(changed(report, "table1", q=[0.01], S=[-0.2]))
    assert clear.startswith(f"Pictures of Arts lean more to “man” than pictures of {EVIL} do: S = −0.20 [")
    unclear = headline(changed(report, "table1", q=[0.3]))
    assert "not told apart" in unclear
    assert "3 against 3 prompts give p = 0.10 at best: take more" in unclear
    enough = headline(changed(report, "table1", q=[0.3], **{"smallest p": [0.03]}))
    assert "no proof that they are drawn alike" in enough


def test_words_of_the_visitor_are_never_markup(report, tab):
    parts = (tab.closer_html(report, "own"), tab.behind_html(report, "own"), header_html(report, headline(report)))
    assert not any("<img src=x" in part for part in parts)
    assert any("&lt;img" in part for part in parts)


def test_the_extremes_are_the_lowest_and_highest_pictures_and_none_is_shown_twice(report):
    frame = report.pictures
    neutral = frame[frame["association"].notna() & (frame["side"] == "y")].sort_values("association")
    html = extremes_html(report, "association", {"Arts": neutral}, low="l", high="h")
    shown = [part.split('"')[0] for part in html.split('data-image="')[1:]]
    ids = neutral["image_id"].tolist()
    # Of 15 pictures the 4 lowest, the lowest first, and the 4 highest, the highest first.
    assert shown == ids[:4] + ids[::-1][:4]
    three = extremes_html(report, "association", {"Arts": neutral.head(3)}, low="l", high="h")
    assert three.count("data-image") == 2
    assert extremes_html(report, "association", {"A": neutral.head(1)}, low="", high="") == ""


def test_only_a_picture_of_this_report_opens(report):
    image_id = report.pictures["image_id"].iloc[0]
    assert "<article" in opened_html(report, image_id)
    assert opened_html(report, "../../etc/passwd") == opened_html(None, image_id) == ""


@pytest.mark.parametrize(
    ("study", "settings", "says"),
    [
        ("t2iat-tests", {"scale": 0.01, "options": {"n_permutations": 50}}, "of 8 tests"),
        ("t2iat-occupations", {"scale": 0.02}, "occupations"),
        ("t2iat-amplification", {"scale": 0.02}, "of 8 occupations"),
        ("t2iat-human", {"scale": 0.001}, "τ ="),
    ],
)
def test_every_study_has_a_headline_a_menu_and_pictures_behind_it(services, tab, study, settings, says):
    found = complete(run_study(find_design(study), StudySettings(**settings), services))
    assert says in headline(found).replace("none of 8", "of 8")
    looks = tab.closer_looks(found)
    assert len(looks) == (4 if study == "t2iat-human" else 8)
    assert tab.behind_html(found, looks[0][1]).count("data-image") >= 2
    assert bool(tab.closer_html(found, looks[0][1])) == (study == "t2iat-tests")


def test_own_words_are_run_whole_whatever_study_size_and_options_stand_above(tab):
    form = {"study": "t2iat-human", "condition": "fair", "percent": 1, "option.tests": "science_arts",
            "option.n_images": 5, "option.crossing": "full"}  # fmt: skip
    design, settings = tab.design_and_settings(form_values(tab, form, x="A: rose, tulip, lily", n=2))
    assert design.name == "own-association"
    assert settings.scale == 1.0
    assert settings.options == {"crossing": "full"}
    assert tab.design_and_settings(form_values(tab))[0] == tab.designs["t2iat-tests"]


def test_a_run_shows_its_words_and_another_test_is_a_choice_away(tab, tmp_path):
    *_, last = tab.on_run(Visitor(), *form_values(tab, x="a: math, logic", y="b: art, music", n=2))
    shown = last[tab.parts["report"]]
    assert not last[tab.parts["by_attribute"]]["open"]
    last = opened_folds(tab, last)
    assert "In words" in last[tab.extra["words"]]["value"]
    assert not last[tab.extra["closer"]]["visible"]
    assert "influence_own" not in last[tab.parts["figures"]]
    assert tab.on_closer(None, "own") == {}
    assert tab.extra["words"] in tab.on_closer(shown, "own")
    image_id = shown.pictures["image_id"].iloc[0]
    assert "<article" in tab.on_open(shown, SimpleNamespace(image=image_id))


def test_words_that_make_no_test_are_an_error_in_place(tab):
    *_, last = tab.on_run(Visitor(), *form_values(tab, x="rose"))
    assert "concept X needs 2 to 100 words" in last[tab.parts["status"]]
    assert tab.parts["report"] not in last


def test_the_menu_of_pictures_says_nothing_twice_and_no_names_of_the_programs_own():
    (first, *_) = list_examples("association", ASSETS / "examples")
    choices = which_choices(open_example(first, ASSETS / "examples").report)
    kinds = dict.fromkeys(words.partition(":")[0] for words, value in choices if value)
    assert "about" in kinds
    assert "edited with" in kinds
    assert not {"group", "side", "set", "unit"} & set(kinds)
    assert ("about: Science (67)", "about=Science") in choices
