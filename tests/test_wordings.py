"""Prompts in several languages: their grammar, what is left out, and that each has one meaning."""

import pytest

from bias_core.errors import InvalidInput
from bias_core.wordings import (
    FORMS,
    concepts,
    language_choices,
    language_names,
    planted_languages,
    rival_concepts,
    wordings_by_prompt,
    wordings_of,
)
from bias_core.world.grammar import parse
from tests.every import every

PHOTO = "a photo of a {}"
ALL = tuple(language_names())


def prompts(concept, *languages, template=PHOTO):
    return [one.prompt for one in wordings_of(languages, template, concept)]


def test_seven_languages_say_doctor():
    assert prompts("doctor", *ALL) == [
        "a photo of a doctor", "ein Foto von einem Arzt", "une photo d'un médecin", "una foto de un médico",
        "صورة طبيب", "एक डॉक्टर की फ़ोटो", "一张医生的照片",
    ]  # fmt: skip


def test_forms_are_marked_and_agree():
    given = ("de", "de:feminine", "de:neutral", "de:paired", "ar:feminine", "zh:feminine", "en:feminine")
    by_name = {one.name: one.prompt for one in wordings_of(given, "a portrait of a {}", "nurse")}
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
    assert [one.form for one in wordings_of(("de", "fr", "es"), PHOTO, "person")] == ["word"] * 4
    assert prompts("Person", "de")[1] == "ein Foto von einer Person"


def test_no_prompt_means_two_things_and_all_english_ones_are_known_to_the_world():
    seen: dict[str, set[str]] = {}
    worded = set()
    for template in (PHOTO, "a portrait of a {}"):
        for concept in concepts():
            for _, choice in language_choices():
                try:
                    english, other = wordings_of((choice,), template, concept)
                except InvalidInput:
                    continue
                worded.add(choice)
                assert not parse(english.prompt).unknown_words
                assert not parse(other.english).unknown_words
                seen.setdefault(other.prompt, set()).add(other.english)
    assert len(seen) == len(wordings_by_prompt()) > 700
    assert {prompt: meanings for prompt, meanings in seen.items() if len(meanings) > 1} == {}
    assert set(planted_languages()) < set(ALL)
    assert worded == {choice for _, choice in language_choices()}  # each has a wording of some concept
    assert {choice.partition(":")[2] for choice in worded} <= {"", *FORMS}


@every([
    (("xx",), PHOTO, "doctor", r"languages are de \(German\).*got 'xx'"),
    (("en",), PHOTO, "doctor", "give a language beside English: de"),
    (("ar",), PHOTO, "scientist", "no certain word for 'scientist' in Arabic; choose one of doctor"),
    (("de",), PHOTO, "wizard", "no certain word for 'wizard' in English"),
    (("de",), "an oil painting of a {}", "doctor", "the template is one of a photo of a {}; a portrait of a {}"),
    (("es:neutral",), PHOTO, "doctor", "Spanish has no form 'neutral' of 'doctor' here; write es; es:masculine"),
    (("ar:feminine",), PHOTO, "pilot", "Arabic has no form 'feminine' of 'pilot' here; write ar$"),
])  # fmt: skip
def test_what_has_no_certain_wording_is_said(languages, template, concept, says):
    with pytest.raises(InvalidInput, match=says):
        wordings_of(languages, template, concept)


def test_people_are_told_from_things_and_occupations_from_each_other():
    assert set(rival_concepts("woman")) == {"man", "rose", "car", "dog", "guitar"}
    assert "man" not in rival_concepts("person")
    assert "doctor" not in rival_concepts("Doctor")
    assert not {"person", "man", "woman"} & set(rival_concepts("doctor"))
