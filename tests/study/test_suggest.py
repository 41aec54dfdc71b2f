"""Suggest attributes, from the concept to what is measured; and how often it names what is planted most strongly."""

import json

import pytest
from typer.testing import CliRunner

from bias_core.app.api import Tools
from bias_core.app.cli import app
from bias_core.errors import InvalidInput
from bias_core.explore.options import attribute_text, explore_settings, usual_suggest_settings
from bias_core.explore.suggest import (
    DESIGN,
    SUGGESTIONS,
    read_suggestions,
    suggest_attributes,
    suggest_settings,
    suggested_by_words,
)
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from tests import shared
from tests.study.planted_concepts import WORDS_OF, ten_concepts

services = shared.real_services

RENDERER = "calibration-renderer"


@pytest.fixture(scope="module")
def iranian(services):
    settings = usual_suggest_settings(concept="Iranian", model=RENDERER)
    return complete(run_study(DESIGN, settings, services))


def test_what_is_suggested_can_be_measured_against_the_base(services, iranian):
    suggested = read_suggestions(iranian)
    with_rate = [one.attribute for one in suggested if one.attribute.reference is not None][:3]
    settings = explore_settings(
        concept="Iranian", model=RENDERER, attributes=[attribute_text(one) for one in with_rate], attribute_a="",
        attribute_b="", seed=1000,
    )  # fmt: skip
    report = complete(run_study(find_design("explore"), settings, services))
    table = report.results.frame("attributes")
    assert list(table["attribute"]) == [one.name for one in with_rate]
    assert (table["P − P*"] > 0).all()  # on other pictures, too
    assert table["source of P*"].str.contains("a photo of a person").all()


def test_each_suggestion_says_where_it_comes_from(iranian):
    table = iranian.results.frame(SUGGESTIONS)
    counts = table.dropna(subset="pictures").iloc[0]
    assert (
        f"in {counts['pictures']:.0f} of 16 pictures, {counts['base']:.0f} of 16 in the baseline"
        in counts["where from"]
    )
    assert table["where from"].str.contains("words: ").any()
    assert {finding.metric for finding in iranian.results.findings} == {"object_odds"}
    (old,) = [one.attribute for one in read_suggestions(iranian) if one.attribute.name == "old"]
    assert old.negative == "a photo of a young person"  # of "who is not old" this reader sees nothing


def test_words_alone_need_no_picture(services):
    settings = usual_suggest_settings(concept="doctor", model=RENDERER, seed=77)
    before = services.images.n_bytes
    suggested = suggested_by_words(settings, services)
    assert services.images.n_bytes == before
    assert {"with glasses", "young"} <= {one.attribute.name for one in suggested}
    assert all(one.attribute.reference is None for one in suggested)


def test_the_pictures_of_an_exploration_are_not_drawn_again(services):
    explored = explore_settings(concept="nurse", model=RENDERER, n_images=6, attribute_a="", attribute_b="")
    complete(run_study(find_design("explore"), explored, services))
    drawn = {path.stem for path in services.images.folder.glob("??/*.png")}
    report = complete(run_study(DESIGN, suggest_settings(explored), services))
    concept = report.pictures[report.pictures["group"] == "concept"]
    assert set(concept["image_id"]) <= drawn


def test_a_thing_is_held_against_an_object_and_a_base_can_be_named(services):
    settings = usual_suggest_settings(concept="rose", model=RENDERER, n_images=4, language_model="none")
    report = complete(run_study(DESIGN, settings, services))
    assert "The base is “a photo of an object”, drawn from the same seeds." in report.results.notes
    same = usual_suggest_settings(concept="rose", model=RENDERER, n_images=4, base="rose")
    with pytest.raises(InvalidInput, match="no base of the same seeds"):
        suggest_settings(explore_settings(images="somewhere.zip"))
    with pytest.raises(InvalidInput, match="the base is the concept itself"):
        complete(run_study(DESIGN, same, services))


def test_the_command_line_and_the_api_offer_it(services):
    said = CliRunner().invoke(app, ["suggest", "doctor", "--words-only", "--model", RENDERER])
    assert said.exit_code == 0, said.output
    assert "with glasses" in said.output
    (first, *_) = Tools(services).suggest_attributes("Iranian", model=RENDERER, n_images=8, detail="full")["suggested"]
    assert {"name", "positive", "negative", "reference", "where_from", "attribute"} <= first.keys()
    assert first["attribute"].count("|") >= 2
    words = Tools(services).suggest_attributes("doctor", words_only=True, model=RENDERER)
    assert all(one["where_from"].startswith("words: ") for one in words["suggested"])
    printed = CliRunner().invoke(app, ["suggest", "doctor", "--words-only", "--model", RENDERER, "--json"]).stdout
    assert json.loads(printed) == words


def hits(services, model):
    found = {}
    for concept, attribute, value in ten_concepts():
        settings = usual_suggest_settings(concept=concept, model=model)
        first = complete(suggest_attributes(settings, services))[:5]
        word = WORDS_OF[attribute, value]
        found[concept] = any(word in one.attribute.name.split() for one in first)
    return found


def test_on_ten_concepts_what_is_planted_most_strongly_is_among_the_first_five(services):
    found = hits(services, RENDERER)
    assert len(found) == 10
    assert sum(found.values()) >= 8, found
