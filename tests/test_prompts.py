"""Prompts are edited as English asks for, and nothing is edited in silence."""

import pytest

from bias_core.errors import InvalidInput
from bias_core.prompts import append_word, article, fill_template, fix_articles, guided_prompt, replace_word
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
