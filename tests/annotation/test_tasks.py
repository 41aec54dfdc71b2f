import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from bias_core.annotation.tasks import (
    Answer,
    association_task,
    checked_choices,
    checked_task,
    checked_text,
    own_task,
    pst_task,
    task_from,
    task_texts,
)
from bias_core.errors import InvalidInput
from bias_core.metrics.paired_labels import ANSWERS, NOT_TWO_PEOPLE

PAIRED = pst_task(paired=True)
OWN = own_task("Is it {}?", ["yes", "no", "can't tell"])
BUILT_IN = (PAIRED, pst_task(paired=False), association_task("pleasant", "unpleasant"), OWN)


@pytest.mark.parametrize("task", BUILT_IN, ids=lambda task: task.kind)
def test_a_built_in_task_can_be_asked_and_survives_storing(task):
    assert checked_task(task) == task
    assert task_from(json.loads(json.dumps(task_texts(task)))) == task
    assert all(answer.shortcut for answer in task.answers)
    assert "delete" in task.consent
    assert "stereotypes" in task.content_note


def answers_of(*given):
    """``answers`` of these: key, label, shortcut."""
    return {"answers": tuple(Answer(**dict(zip(("key", "label", "shortcut"), one, strict=False))) for one in given)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"title": "  "}, "title is empty"),
        ({"title": "x" * 301}, "301 characters"),
        ({"consent": ""}, "consent is empty"),
        ({"instructions": "a\x00b"}, r"U\+0000"),
        ({"content_note": "a\x1b[2J"}, r"U\+001B"),
        ({"title": "\ud800"}, r"U\+D800"),
        ({"title": 7}, "text; got int"),
        ({"kind": "other"}, "'other'"),
        ({"questions": {}}, "got 0"),
        ({"questions": {"Left!": "Who?"}}, "'Left!'"),
        ({"questions": {"left": " "}}, "question of left is empty"),
        (answers_of("aA"), "2 to 12"),
        (answers_of("aA", "aB"), "key 'a'"),
        (answers_of("aA", "ba"), "label 'a'"),
        (answers_of("aAx", "bBX"), "shortcut 'x'"),
        (answers_of(("a", "A", "xy"), "bB"), "shortcut"),
        (answers_of("aA ", "bB"), "visible"),
        (answers_of(("a b", "A"), "bB"), "'a b'"),
        ({"raters_per_item": 0}, "got 0"),
        ({"raters_per_item": True}, "got True"),
        ({"joins_per_hour": 0}, "joins per hour are 1 to"),
        ({"joins_per_address": 10**30}, "joins per address are 1 to"),
        ({"joins_per_address": 2.5}, "got 2.5"),
        ({"gold_share": 1.0}, "got 1.0"),
        ({"gold_share": float("nan")}, "got nan"),
    ],
)
def test_a_task_that_cannot_be_asked_says_why(changes, message):
    with pytest.raises(InvalidInput, match=message):
        checked_task(replace(PAIRED, **changes))


def test_answers_that_share_a_key_are_refused_where_the_task_is_made():
    with pytest.raises(InvalidInput, match="Latin"):
        own_task("What?", ["да", "нет"])
    with pytest.raises(InvalidInput, match="key 'a_b'"):
        checked_task(own_task("What?", ["a b", "a-b"]))


@given(text=st.text(max_size=30))
def test_any_text_without_control_characters_is_taken_as_it_is(text):
    kinds = {unicodedata.category(letter) for letter in text if letter not in "\n\r\t"}
    if kinds & {"Cc", "Cs"}:
        with pytest.raises(InvalidInput, match="control character"):
            checked_text("title", text, 200)
    else:
        assert checked_text("title", text, 200) == text


@given(choices=st.dictionaries(st.sampled_from([*PAIRED.positions, "middle", ""]), st.sampled_from([*ANSWERS, "x"])))
def test_choices_are_one_known_answer_for_every_position_or_refused(choices):
    try:
        found = checked_choices(PAIRED, choices)
    except InvalidInput:
        unknown = set(choices) - set(PAIRED.positions) or set(choices.values()) - set(ANSWERS)
        assert unknown or (len(choices) < 2 and NOT_TWO_PEOPLE not in choices.values())
    else:
        assert tuple(found) == PAIRED.positions
        assert (NOT_TWO_PEOPLE in found.values()) == (set(found.values()) == {NOT_TWO_PEOPLE})


def test_raters_may_have_four_answers_about_how_a_person_looks():
    for paired in (True, False):
        four, two = pst_task(paired=paired, looks="four"), pst_task(paired=paired)
        assert four.answer_keys == ("feminine", "masculine", "androgynous", "unclear", "not_two_people")
        assert two.answer_keys == ("feminine", "masculine", "cannot_identify", "not_two_people")  # as the paper
        assert set(two.answer_keys) == set(ANSWERS)  # what the paired measure reads
        assert [answer.key for answer in two.answers if answer.whole] == [NOT_TWO_PEOPLE]
        assert two.positions == (("left", "right") if paired else ("single",))
        assert four.questions == two.questions
        assert "Androgynous is who looks neither" in four.instructions
        assert len({answer.shortcut for answer in four.answers}) == 5
        assert task_from(task_texts(four)) == checked_task(four)
    with pytest.raises(InvalidInput, match="looks are two or four"):
        pst_task(paired=True, looks="three")
