"""Captions cut into phrases, and phrases as attributes with two sentences."""

import pytest

from bias_core.study.design import read_table
from bias_core.study.suggestions import common_form, is_about_person, is_about_thing, phrases_of


def names(caption):
    return [str(phrase) for phrase in phrases_of(caption)]


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        (
            "a young dark skinned man with a mustache and glasses in embroidered clothing holding a syringe",
            ["man", "young", "dark-skinned", "with a mustache", "with glasses", "in embroidered clothing",
             "in clothing", "holding a syringe"],
        ),
        ("a smiling woman in a living room", ["woman", "smiling", "in a living room", "in a room"]),
        ("two men sitting on a couch", ["man", "sitting on a couch"]),
        ("a man standing in front of a building", ["man", "standing in front of a building"]),
        ("a rose on a table in bright light", ["rose", "on a table", "in bright light", "in light"]),
        ("", []),
        ("?! ...", []),
    ],
)  # fmt: skip
def test_a_caption_is_cut_into_what_it_names(caption, expected):
    assert names(caption) == expected


def test_a_plural_and_another_article_are_the_same_phrase():
    first, second = phrases_of("a man holding the cups")[1], phrases_of("a man holding a cup")[1]
    assert first.words == second.words
    assert str(common_form([first, second, second])) == "holding a cup"


def test_sentences_say_presence_and_absence():
    wording = {str(p): p.attribute() for p in phrases_of("an old woman with a hat wearing glasses in a park")}
    sides = {name: (one.positive, one.negative) for name, one in wording.items()}
    assert sides["woman"] == ("a photo of a woman", "a photo of a man")
    assert sides["old"] == ("a photo of an old person", "a photo of a person who is not old")
    assert sides["with a hat"] == ("a photo of a person with a hat", "a photo of a person without a hat")
    assert sides["wearing glasses"][1] == "a photo of a person not wearing glasses"
    assert sides["in a park"][1] == "a photo of a person not in a park"


def test_every_wording_has_two_different_sentences():
    for phrase in phrases_of("an old doctor with an umbrella wearing a coat in a park"):
        for one in phrase.wordings("person", opposite="young" if phrase.link == "is" else ""):
            assert one.positive != one.negative
            assert one.name == str(phrase)


def test_a_caption_is_about_a_person_where_it_begins_with_one():
    assert is_about_person("a nurse in a hospital")
    assert not is_about_person("a table with a man")
    assert not is_about_person("")


def test_things_are_told_from_people_by_the_papers_own_lists():
    """Objects of [vice2023tbyb] and occupations of [wan2024pst] and [vice2023tbyb]."""
    things = [row["object"] for row in read_table("tbyb_objects.csv")]
    people = [row["object"] for row in read_table("tbyb_occupations.csv")]
    people += [row["occupation"] for row in read_table("pst_occupations.csv")]
    assert [one for one in things if not is_about_thing(one)] == []
    assert [one for one in people if is_about_thing(one)] == []
