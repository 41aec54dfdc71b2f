"""An association test of one's own words, the prompts it hangs on, and each picture's association."""

from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput
from bias_core.studies.association.tests import own_association, parse_words
from bias_core.studies.kit.designs import find_design, program_of
from bias_core.studies.kit.types import StudySettings
from bias_core.studies.reports.text import table_of
from bias_core.studies.running.export import to_command, to_export
from bias_core.studies.running.run import complete, run_study, with_options
from tests import shared

services = shared.real_services

OWN = own_association(
    "Flowers: rose, tulip, daisy, lily", "Insects: wasp, flea, moth", "peace, love", "murder, poison", n=3
)
SETTINGS = StudySettings(condition="extreme", options={"n_permutations": 200})


@pytest.fixture(scope="module")
def report(services):
    return complete(run_study(OWN, SETTINGS, services))


def prompts_of(design):
    shots = program_of(design).shots(design, with_options(design, StudySettings()))
    return {(s.facts["stimulus"], s.facts["set"]): s.prompt for s in shots}


def test_every_word_is_drawn_alone_and_with_a_word_of_each_attribute():
    prompts = prompts_of(OWN)
    assert len(prompts) == 7 * 3
    assert prompts["tulip", "neutral"] == "a photo of a tulip"
    # Words are taken in turn: the second stimulus meets the second word.
    assert prompts["tulip", "a"] == "a photo of a tulip, love"
    assert prompts["moth", "b"] == "a photo of a moth, murder"


def test_a_gender_word_takes_the_place_of_person():
    design = own_association(
        "math, physics", "poetry, music", "man", "woman", kind="gender", template="a person who likes {}"
    )
    assert prompts_of(design)["poetry", "b"] == "a woman who likes poetry"


def test_a_list_may_have_a_name_and_any_usual_separator():
    assert parse_words("Tools: saw;\n axe , saw") == ("Tools", ["saw", "axe"])
    assert parse_words("he") == ("he", ["he"])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"x": "rose"}, "concept X needs 2 to 100 words"),
        ({"b": " , "}, "attribute B needs 1 to 100 words"),
        ({"y": "moth, rose"}, "rose: a word on both sides"),
        ({"b": "peace"}, "peace: a word on both sides"),
        ({"y": "Flowers: moth, flea"}, "X and Y have the same name"),
        ({"template": "a photo"}, "exactly one"),
        ({"kind": "gender"}, "'person' is not in the prompt"),
        ({"kind": "colour"}, "'colour'"),
        ({"n": 0}, "got 0"),
    ],
)
def test_words_that_make_no_test_are_refused_with_what_came(changes, text):
    words = {"x": "Flowers: rose, tulip", "y": "wasp, moth", "a": "peace", "b": "murder"}
    with pytest.raises(InvalidInput, match=text):
        own_association(**words | changes)


def test_the_planted_difference_of_own_words_is_found_and_nothing_published_is_claimed(report):
    # Extreme: flowers are always drawn bright, insects always gloomy.
    (found,) = report.results.findings
    assert found.title == "Flowers / Insects, peace, love / murder, poison"
    assert found.estimate.low > 0
    assert found.published is None
    table = table_of(report, "table1").frame
    assert table["prompts X"].tolist() == [4]
    assert table.loc[0, "X above Y"] == 1.0
    assert found.says == "Pictures of Flowers lean more to peace, love."
    assert "published S" not in table
    assert not any("published" in note for note in report.results.notes)


def test_every_prompt_is_left_out_once_the_most_influential_first(report):
    frame = table_of(report, "influence").frame
    assert sorted(frame["left out"]) == ["daisy", "flea", "lily", "moth", "rose", "tulip", "wasp"]
    assert frame["adds to S"].abs().is_monotonic_decreasing
    score = table_of(report, "table1").frame.loc[0, "S"]
    assert (frame["S without it"] + frame["adds to S"]).to_numpy() == pytest.approx([score] * 7)
    (figure,) = [f for f in report.results.figures if f.key == "influence_own"]
    assert figure.data["start"].tolist() == pytest.approx([score] * 7)
    assert not frame["S changes its sign"].any()


def test_each_neutral_picture_keeps_its_association_and_edited_ones_have_none(report):
    frame = report.pictures
    neutral = frame[frame["set"] == "neutral"]
    assert frame.loc[frame["set"] != "neutral", "association"].isna().all()
    means = neutral.groupby("side")["association"].mean()
    # Four and three prompts with three pictures each: the mean over prompts is that over pictures.
    assert means["x"] - means["y"] == pytest.approx(table_of(report, "table1").frame.loc[0, "S"])


def test_own_words_travel_in_the_zip_and_the_command_names_the_file(report):
    assert "own-association.yaml" in to_export(report).files
    assert "study run own-association.yaml" in to_command(report.design, report.settings)


def test_occupations_keep_the_association_of_each_neutral_picture(services):
    design = find_design("t2iat-occupations")
    data = design.data | {"occupations": design.data["occupations"] | {"list": ["librarian", "police"]}}
    report = complete(run_study(replace(design, data=data), StudySettings(scale=0.02), services))
    frame = report.pictures
    assert frame["association"].notna().tolist() == (frame["set"] == "neutral").tolist()
