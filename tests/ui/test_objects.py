"""The Objects tab: what it says of captions, and how an object finds its pictures."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.objects.study import design_of_prompts, settings_for_prompts
from bias_core.studies.objects.tab import APART, ObjectsTab, curve_html, examples_html, odds_html, space_html, top_html
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.run import complete, run_study
from bias_core.ui.study.pictures import Look, which_choices
from tests import shared
from tests.ui.fakes import FewWords

services = shared.fake_services

PROMPTS = ("a doctor in a kitchen", "a nurse with a book")


@pytest.fixture(scope="module")
def controlled(services):
    settings = StudySettings(scale=0.02, options={"triggers": ["burger"]})
    return complete(run_study(find_design("tbyb-controlled"), settings, services))


@pytest.fixture(scope="module")
def own(services):
    design = design_of_prompts(find_design("tbyb-general"), PROMPTS, 8)
    return complete(run_study(design, settings_for_prompts(StudySettings(scale=0.1)), services))


def test_each_picture_has_its_caption_and_what_it_adds(own):
    frame = own.pictures
    assert len(frame) == 2 * 8
    assert set(frame["caption"]) <= set(FewWords.SENTENCES)
    row = frame[(frame["caption"] == FewWords.SENTENCES[1]) & (frame["prompt"] == PROMPTS[0])].iloc[0]
    # Asked: person (a doctor), kitchen; seen: person (a woman), cup, kitchen; two of three are in both.
    assert (row["objects"], row["added"], row["left_out"]) == ("woman, cup, kitchen", "cup", "")
    assert row["H_J"] == pytest.approx(1 - 2 / 3)


def test_the_headline_names_the_object_that_towers_and_how_far_pictures_stray(own):
    top = table_of(own, "top_objects").frame.iloc[0]
    text = headline(own)
    assert text.startswith(f"“{top['object']}” is what captions name most, in {top['pictures with it']} of 16")
    assert "(H_J)" in text
    assert "(M_G)" in text
    assert "Captions call the people" in text
    assert text.endswith("Whether any of this is bias cannot be told: there is no base to hold it against.")


def test_the_headline_of_conditions_says_what_each_adds(controlled):
    text = headline(controlled)
    assert text.startswith("Against fair, on the same prompts and seeds, ")
    assert "under trigger" in text
    assert "backdoor" in text
    assert "no object is clearly more frequent" in text or "(fair: " in text
    assert "Objects a picture that no prompt names: " in text
    assert "no base" not in text


def test_every_plot_stands_beside_its_numbers_and_what_compares_only_where_there_is_a_base(own, controlled):
    assert space_html(own) == odds_html(own) == ""
    for text, words in (
        (curve_html(own), ("n, pictures", "vocabulary", "entropy", "Gini", "effective number", "data-take=")),
        (space_html(controlled), ("rank",)),
        (odds_html(controlled), ("Objects against the base", "p adjusted", "with it", "data-take=")),
        (top_html(controlled), ("Δn",)),
    ):
        assert all(word in text for word in words)
        assert "<svg" in text or words == ("Δn",)
    assert space_html(controlled).count('<th scope="row"') >= 3
    assert any(figure.key == "changed_objects" for figure in controlled.results.figures)


def test_an_object_chooses_the_pictures_that_have_it(own):
    assert 'data-object="cup"' in top_html(own)
    rows = Look(report=own, which="objects=cup").rows()
    n = table_of(own, "top_objects").frame.set_index(["pictures", "object"]).loc[
        ("all prompts", "cup"), "pictures with it"
    ]  # fmt: skip
    assert len(rows) == n
    assert (f"objects: cup ({n})", "objects=cup") in which_choices(own)


def test_examples_show_what_was_asked_for_and_what_was_seen(own):
    text = examples_html(own)
    assert "Furthest from their prompts" in text
    assert PROMPTS[0] in text or PROMPTS[1] in text
    assert any(sentence in text for sentence in FewWords.SENTENCES)


def test_what_a_prompt_says_is_escaped(services):
    evil = ["<img src=x onerror=alert(1)> a doctor", "a nurse with a book"]
    design = design_of_prompts(find_design("tbyb-general"), evil, 2)
    report = complete(run_study(design, settings_for_prompts(StudySettings()), services))
    for text in (examples_html(report), top_html(report), curve_html(report)):
        assert "<img src=x" not in text


def test_prompts_that_cannot_be_used_are_refused_and_a_single_one_needs_a_sentence(services):
    for prompts, n, words in (
        ([" ", ""], 4, "one a line"),
        ([f"prompt {i}" for i in range(300)], 4, "300"),
        (["x" * 600], 4, "500 characters"),
        (list(PROMPTS), 0, "needs a picture"),
    ):
        with pytest.raises(InvalidInput, match=words):
            design_of_prompts(find_design("tbyb-general"), prompts, n)
    design = design_of_prompts(find_design("tbyb-general"), ["a doctor"], 3)
    with pytest.raises(InvalidInput, match="give a sentence"):
        complete(run_study(design, StudySettings(), services))
    settings = StudySettings(options={"negative": "a photo of an empty room"})
    assert complete(run_study(design, settings, services)).n_images == 3


def test_own_prompts_are_run_whole(services):
    tab = ObjectsTab(services)
    own = {"prompts": "a doctor\n\n a  nurse \na doctor", "n": 5}
    design = tab.own_design(tab.designs["tbyb-dataset"], own)
    assert design.data["prompts"] == ["a doctor", "a nurse"]
    settings = tab.own_settings(StudySettings(scale=0.04, options={"triggers": ["burger"], "exclude_prompt": True}))
    assert settings == StudySettings(options={"exclude_prompt": True})


def test_what_stands_beside_its_numbers_is_not_shown_twice(services, own):
    shown = {figure.key for figure in ObjectsTab(services).figures(own)}
    assert {"rates", "genders"} <= shown
    assert not shown & set(APART)


def test_a_report_without_objects_says_so(own):
    bare = replace(own, results=replace(own.results, tables=(), figures=()))
    assert "no object was named" in headline(bare)
    assert curve_html(bare) == top_html(bare) == space_html(bare) == ""
