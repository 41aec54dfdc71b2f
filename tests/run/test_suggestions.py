"""Captions cut into phrases; suggestions from captions against a base, and from a language model's words."""

import numpy as np
import pytest

from bias_core.errors import InvalidInput
from bias_core.run.suggestions import (
    common_form,
    find_opposite,
    is_about_person,
    is_about_thing,
    merge_suggestions,
    parse_phrases,
    suggest_from_captions,
    suggest_from_words,
    suggest_scenes,
)
from bias_core.study.design import read_study_table


def phrase_names(caption):
    return [str(phrase) for phrase in parse_phrases(caption)]


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
    assert phrase_names(caption) == expected


def test_a_plural_and_another_article_are_the_same_phrase():
    first, second = parse_phrases("a man holding the cups")[1], parse_phrases("a man holding a cup")[1]
    assert first.words == second.words
    assert str(common_form([first, second, second])) == "holding a cup"


def test_sentences_say_presence_and_absence():
    wording = {str(p): p.attribute() for p in parse_phrases("an old woman with a hat wearing glasses in a park")}
    sides = {name: (one.positive, one.negative) for name, one in wording.items()}
    assert sides["woman"] == ("a photo of a woman", "a photo of a man")
    assert sides["old"] == ("a photo of an old person", "a photo of a person who is not old")
    assert sides["with a hat"] == ("a photo of a person with a hat", "a photo of a person without a hat")
    assert sides["wearing glasses"][1] == "a photo of a person not wearing glasses"
    assert sides["in a park"][1] == "a photo of a person not in a park"


def test_every_wording_has_two_different_sentences():
    for phrase in parse_phrases("an old doctor with an umbrella wearing a coat in a park"):
        for one in phrase.wordings("person", opposite="young" if phrase.link == "is" else ""):
            assert one.positive != one.negative
            assert one.name == str(phrase)


def test_a_caption_is_about_a_person_where_it_begins_with_one():
    assert is_about_person("a nurse in a hospital")
    assert not is_about_person("a table with a man")
    assert not is_about_person("")


def test_things_are_told_from_people_by_the_papers_own_lists():
    """Objects of [vice2023tbyb] and occupations of [wan2024pst] and [vice2023tbyb]."""
    things = [row["object"] for row in read_study_table("tbyb_objects.csv")]
    people = [row["object"] for row in read_study_table("tbyb_occupations.csv")]
    people += [row["occupation"] for row in read_study_table("pst_occupations.csv")]
    assert [one for one in things if not is_about_thing(one)] == []
    assert [one for one in people if is_about_thing(one)] == []


class Speaker:
    """Answers with a fixed text, and goes on with fixed words."""

    def __init__(self, answer="", following=()):
        self.answer, self.following, self.asked = answer, following, []

    def complete(self, prompt, max_new_tokens):
        self.asked.append(prompt)
        return self.answer

    def propose(self, prefixes, n):
        return [[f"{prefix} {word}" for word in self.following][:n] for prefix in prefixes]


def names(suggested):
    return [one.attribute.name for one in suggested]


def captions(n, *shares):
    """n captions of "a person", each phrase in as many of them as its share says, the first ones."""
    texts = ["a person"] * n
    for phrase, share in shares:
        texts = [f"{text} {phrase}" if k < share * n else text for k, text in enumerate(texts)]
    return texts


def test_what_is_in_more_pictures_than_at_the_base_comes_first_and_says_how_many():
    ours = captions(16, ("with a beard", 14 / 16), ("in a park", 0.5))
    base = captions(16, ("with a beard", 2 / 16), ("in a park", 0.5))
    first = suggest_from_captions(ours, base)[0]
    # 12 pairs gain it, none loses it: p = 2 / 2^12; the person and the park are the same in every pair.
    assert first.where_from == "captions: in 14 of 16 pictures, 2 of 16 in the baseline; p < 0.001 for 1 phrase"
    assert first.attribute.name == "with a beard"
    assert first.is_clear
    assert "in a park" not in names(suggest_from_captions(ours, base))


@pytest.mark.slow
def test_a_world_without_a_difference_is_seldom_given_one():
    rng, clear = np.random.default_rng(7), 0
    words = [f"with a {word}" for word in ("beard", "hat", "cup", "book", "coat", "ring", "bag", "dog")]
    for _ in range(100):
        draw = rng.random((2, 16, len(words))) < 0.5
        ours, base = ([" ".join(["a person", *np.array(words)[row]]) for row in side] for side in draw)
        clear += any(one.is_clear for one in suggest_from_captions(ours, base))
    assert clear <= 9  # of 100 at 5 %, the most of this cautious test: more than 9 happen 3 times in 100


def test_the_concept_itself_is_no_finding():
    found = suggest_from_captions(["a rose on a table"] * 8, ["an object"] * 8, concept="roses", subject="object")
    assert names(found) == ["on a table"]


def test_of_a_phrase_and_its_last_word_the_one_that_says_it_best_is_kept():
    base = ["a person in plain clothing"] * 9
    assert names(suggest_from_captions(["a person in red clothing"] * 9, base)) == ["in red clothing"]
    coats = ["a person in a red coat", "a person in a blue coat", "a person in a green coat"] * 3
    assert names(suggest_from_captions(coats, ["a person"] * 9)) == ["in a coat"]


def test_what_only_a_group_of_look_alikes_shows_is_a_hint_without_p():
    ours = ["a person wearing a turban"] * 4 + ["a person"] * 12
    hint = suggest_from_captions(ours, ["a person"] * 16, groups=[1] * 4 + [0] * 12)[-1]
    assert hint.sources == ("group",)
    assert hint.odds is None
    assert "in 4 of its 4 pictures, 0 of the other 12, 0 of 16 in the baseline" in hint.where_from


def test_captions_without_their_base_are_refused_and_those_that_name_nothing_suggest_nothing():
    for ours, base in (([], []), (["a man"], []), (["a man"] * 2, ["a man"])):
        with pytest.raises(InvalidInput, match="of the base"):
            suggest_from_captions(ours, base)
    assert suggest_from_captions(["", ""], ["", "?"]) == []


def test_a_language_model_that_follows_instructions_is_asked_as_in_eq_2():
    speaker = Speaker("turban | The person wears a turban. | The person wears no turban.")
    (one,) = suggest_from_words("Iranian", speaker)
    assert 'stereotypes of "an Iranian"' in speaker.asked[0]
    assert (one.attribute.positive, one.sources) == ("The person wears a turban.", ("words",))


def test_one_that_follows_none_goes_on_with_sentences_about_the_concept():
    found = suggest_from_words("doctor", Speaker(following=("glasses", "old", "woman", "doctor", "the")), follows=False)
    assert {"old", "woman", "with glasses"} <= set(names(found))
    assert "doctor" not in names(found)


def test_scenes_with_a_word_are_written_by_either_kind_of_language_model():
    answer = '1. "A pizza on a table."\n- two people share a Pizza\n3. a cat\n1. A pizza on a table.\nPizza'
    assert suggest_scenes(" pizza ", Speaker(answer)) == ["A pizza on a table", "two people share a Pizza"]
    assert all("an apple" in scene for scene in suggest_scenes("apple", Speaker("at home"), follows=False))
    for word, says in (("", "such as pizza"), ("bus", "wrote no scene with “bus”")):
        with pytest.raises(InvalidInput, match=says):
            suggest_scenes(word, Speaker(answer))


def test_both_sources_are_merged_and_the_clear_ones_stand_first():
    ours, base = ["a person with a beard in a park"] * 10, ["a person"] * 10
    words = suggest_from_words("x", Speaker("hat | It has a hat. | It has no hat.\nbeard | Has it. | Has it not."))
    merged = merge_suggestions(suggest_from_captions(ours, base), words)
    assert names(merged) == ["with a beard", "in a park", "hat"]
    assert merged[0].sources == ("pictures", "words")
    assert merged[0].where_from.endswith("words: named by the language model")
    assert names(merge_suggestions([], words, limit=1)) == ["hat"]


def test_the_opposite_of_a_property_is_what_is_said_in_its_place():
    old, dark = parse_phrases("an old dark-skinned man")[1:]
    texts = ["an old light-skinned man", "a young dark-skinned man", "a young light-skinned woman", "a young man"]
    assert find_opposite(old, texts) == "young"
    assert find_opposite(dark, texts) == "light-skinned"
    assert find_opposite(old, ["an old man", "a man"]) == ""
