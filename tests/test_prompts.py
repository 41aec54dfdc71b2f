"""Prompts are edited as English asks for, and have one meaning in several languages."""

import pytest

from bias_core.errors import InvalidInput
from bias_core.prompts import append_word, article, fill_template, fix_articles, guided_prompt, replace_word
from bias_core.world.grammar import parse
from bias_core.world.wordings import (
    FORMS,
    concepts,
    language_choices,
    language_names,
    list_wordings,
    planted_languages,
    rival_concepts,
    wordings_by_prompt,
)
from tests.every import every


@every([
    ("engineer", "an"), ("nurse", "a"), ("hour", "an"), ("honest person", "an"), ("hotel", "a"), ("university", "a"),
    ("unicorn", "a"), ("uniform", "a"), ("unimportant clerk", "an"), ("uninsured driver", "an"), ("umbrella", "an"),
    ("user", "a"), ("usher", "an"), ("European", "a"), ("Ukrainian", "a"), ("Ugandan", "a"), ("Uzbek", "an"),
    ("one-armed bandit", "a"), ("Iranian", "an"), ("医生", "a"),
])  # fmt: skip
def test_articles_go_by_sound(word, expected):
    assert article(word) == expected


@every([
    ("a photo of a {}", "engineer", "a photo of an engineer"),
    ("A {} at work", "engineer", "An engineer at work"),
    ("an {}", "nurse", "a nurse"),
    ("Generate a picture of one {}.", "engineer", "Generate a picture of one engineer."),
    ("{}", "  two   doctors ", "two doctors"),
    ("a photo of the {}, a idea", "actor", "a photo of the actor, a idea"),
    ("a {}", "{}{0}%s", "a {}{0}%s"),
    ("a photo of an {}", "a very tired doctor", "a photo of a very tired doctor"),
    ("A {} at work", "an engineer", "An engineer at work"),
    ("a photo of {}", "the doctor", "a photo of the doctor"),
    ("a {}", "A", "an A"),
])  # fmt: skip
def test_only_the_article_before_the_slot_is_mended(template, concept, expected):
    assert fill_template(template, concept) == expected


@every([
    ("a {}", "\n ", "the concept is empty"), ("a photo", "x", "exactly one"), ("{} and {}", "x", "exactly one"),
    ("a {}", "x" * 2000, "2,002 characters"),
])  # fmt: skip
def test_impossible_prompts_are_said(template, concept, message):
    with pytest.raises(InvalidInput, match=message):
        fill_template(template, concept)


@every([
    ("engineer", "male", "a photo of a male engineer"),
    ("doctor", "woman", "a photo of a female doctor"),
    ("person", "woman", "a photo of a woman"),
    ("Person", "old", "a photo of an old Person"),
    ("nurse", "wearing a turban", "a photo of a nurse wearing a turban"),
    ("doctor", "with glasses", "a photo of a doctor with glasses"),
    ("an engineer", "male", "a photo of a male engineer"),
])  # fmt: skip
def test_the_attribute_is_added_to_the_concept(concept, attribute, expected):
    assert guided_prompt("a photo of a {}", concept, attribute) == expected


def test_a_word_is_replaced_whole_and_once_or_appended_after_the_sentence():
    assert replace_word("a person and a personal item", "person", "artist") == "an artist and a personal item"
    assert append_word("A photo of a rose.", "pleasant") == "A photo of a rose, pleasant"
    with pytest.raises(InvalidInput, match="not in the prompt"):
        replace_word("a doctor", "person", "man")
    with pytest.raises(InvalidInput, match="attribute word is empty"):
        guided_prompt("a {}", "doctor", " ")


def test_all_articles_of_a_text_can_be_mended():
    assert fix_articles("A old man and an nurse, as a example") == "An old man and a nurse, as an example"


PHOTO = "a photo of a {}"
ALL = tuple(language_names())


def prompts(concept, *languages, template=PHOTO):
    return [one.prompt for one in list_wordings(languages, template, concept)]


def test_seven_languages_say_doctor():
    assert prompts("doctor", *ALL) == [
        "a photo of a doctor", "ein Foto von einem Arzt", "une photo d'un médecin", "una foto de un médico",
        "صورة طبيب", "एक डॉक्टर की फ़ोटो", "一张医生的照片",
    ]  # fmt: skip


def test_forms_are_marked_and_agree():
    given = ("de", "de:feminine", "de:neutral", "de:paired", "ar:feminine", "zh:feminine", "en:feminine")
    by_name = {one.name: one.prompt for one in list_wordings(given, "a portrait of a {}", "nurse")}
    assert by_name == {
        "English": "a portrait of a nurse",
        "German (generic masculine)": "ein Porträt von einem Krankenpfleger",
        "German (feminine)": "ein Porträt von einer Krankenpflegerin",
        "German (neutral)": "ein Porträt von einer Pflegekraft",
        "German (both forms)": "ein Porträt von einem Krankenpfleger oder einer Krankenpflegerin",
        "Arabic (feminine)": "صورة شخصية لممرضة",
        "Chinese (feminine)": "一幅女护士的肖像",
        "English (feminine)": "a portrait of a female nurse",
    }


def test_a_person_has_one_form_and_is_no_generic_masculine():
    assert [one.form for one in list_wordings(("de", "fr", "es"), PHOTO, "person")] == ["word"] * 4
    assert prompts("Person", "de")[1] == "ein Foto von einer Person"


def test_no_prompt_means_two_things_and_all_english_ones_are_known_to_the_world():
    seen: dict[str, set[str]] = {}
    worded = set()
    for template in (PHOTO, "a portrait of a {}"):
        for concept in concepts():
            for _, choice in language_choices():
                try:
                    english, other = list_wordings((choice,), template, concept)
                except InvalidInput:
                    continue
                worded.add(choice)
                assert not parse(english.prompt).unknown_words
                assert not parse(other.english).unknown_words
                assert parse(other.prompt).unknown_words  # which is how the renderer tells it from English
                seen.setdefault(other.prompt, set()).add(other.english)
    assert len(seen) == len(wordings_by_prompt()) > 700
    assert {prompt: meanings for prompt, meanings in seen.items() if len(meanings) > 1} == {}
    assert set(planted_languages()) < set(ALL)
    assert worded == {choice for _, choice in language_choices()}  # each has a wording of some concept
    assert {choice.partition(":")[2] for choice in worded} <= {"", *FORMS}


@every([
    (("xx",), PHOTO, "doctor", r"languages are de \(German\).*got 'xx'"),
    (("en",), PHOTO, "doctor", "give a language other than English: de"),
    (("ar",), PHOTO, "scientist", "Arabic has no certain word for 'scientist' here; choose one of doctor"),
    (("de",), PHOTO, "wizard", "English has no certain word for 'wizard'"),
    (("de",), "an oil painting of a {}", "doctor", "the template must be one of a photo of a {}; a portrait of a {}"),
    (("es:neutral",), PHOTO, "doctor", "Spanish has no form 'neutral' of 'doctor' here; write es; es:masculine"),
    (("ar:feminine",), PHOTO, "pilot", "Arabic has no form 'feminine' of 'pilot' here; write ar$"),
])  # fmt: skip
def test_what_has_no_certain_wording_is_said(languages, template, concept, says):
    with pytest.raises(InvalidInput, match=says):
        list_wordings(languages, template, concept)


def test_people_are_told_from_things_and_occupations_from_each_other():
    assert set(rival_concepts("woman")) == {"man", "rose", "car", "dog", "guitar"}
    assert "man" not in rival_concepts("person")
    assert "doctor" not in rival_concepts("Doctor")
    assert not {"person", "man", "woman"} & set(rival_concepts("doctor"))
