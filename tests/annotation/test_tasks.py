from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from typing import Any

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
BUILT_IN = (
    PAIRED,
    pst_task(paired=False),
    association_task("pleasant", "unpleasant"),
    own_task("Is it {}?", ["yes", "no", "can't tell"]),
)


@pytest.mark.parametrize("task", BUILT_IN, ids=lambda task: task.kind)
def test_a_built_in_task_can_be_asked_and_survives_storing(task: Any) -> None:
    assert checked_task(task) == task
    assert task_from(json.loads(json.dumps(task_texts(task)))) == task
    assert all(answer.shortcut for answer in task.answers)
    assert "delete" in task.consent
    assert "stereotypes" in task.content_note


def test_the_paired_task_gives_what_the_paired_measure_reads() -> None:
    for paired, positions in ((True, ("left", "right")), (False, ("single",))):
        task = pst_task(paired=paired)
        assert task.positions == positions
        assert set(task.answer_keys) == set(ANSWERS)
        assert [answer.key for answer in task.answers if answer.whole] == [NOT_TWO_PEOPLE]


def test_fields_of_a_built_in_task_can_be_changed() -> None:
    assert pst_task(paired=True, title="Ours", raters_per_item=5).raters_per_item == 5


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
        ({"answers": (Answer(key="a", label="A"),)}, "2 to 12"),
        ({"answers": (Answer(key="a", label="A"), Answer(key="a", label="B"))}, "key 'a'"),
        ({"answers": (Answer(key="a", label="A"), Answer(key="b", label="a"))}, "label 'a'"),
        (
            {"answers": (Answer(key="a", label="A", shortcut="x"), Answer(key="b", label="B", shortcut="X"))},
            "shortcut 'x'",
        ),
        ({"answers": (Answer(key="a", label="A", shortcut="xy"), Answer(key="b", label="B"))}, "shortcut"),
        ({"answers": (Answer(key="a", label="A", shortcut=" "), Answer(key="b", label="B"))}, "visible"),
        ({"answers": (Answer(key="a b", label="A"), Answer(key="b", label="B"))}, "'a b'"),
        ({"raters_per_item": 0}, "got 0"),
        ({"raters_per_item": True}, "got True"),
        ({"joins_per_hour": 0}, "joins per hour are 1 to"),
        ({"joins_per_address": 10**30}, "joins per address are 1 to"),
        ({"joins_per_address": 2.5}, "got 2.5"),
        ({"gold_share": 1.0}, "got 1.0"),
        ({"gold_share": float("nan")}, "got nan"),
    ],
)
def test_a_task_that_cannot_be_asked_says_why(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        checked_task(replace(PAIRED, **changes))


def test_answers_that_share_a_key_are_refused_where_the_task_is_made() -> None:
    with pytest.raises(InvalidInput, match="Latin"):
        own_task("What?", ["да", "нет"])
    with pytest.raises(InvalidInput, match="key 'a_b'"):
        checked_task(own_task("What?", ["a b", "a-b"]))


@given(text=st.text(max_size=200))
def test_any_text_without_control_characters_is_taken_as_it_is(text: str) -> None:
    kinds = {unicodedata.category(letter) for letter in text if letter not in "\n\r\t"}
    if kinds & {"Cc", "Cs"}:
        with pytest.raises(InvalidInput, match="control character"):
            checked_text("title", text, 200)
    else:
        assert checked_text("title", text, 200) == text


@given(choices=st.dictionaries(st.sampled_from([*PAIRED.positions, "middle", ""]), st.sampled_from([*ANSWERS, "x"])))
def test_choices_are_one_known_answer_for_every_position_or_refused(choices: dict[str, str]) -> None:
    try:
        found = checked_choices(PAIRED, choices)
    except InvalidInput:
        unknown = set(choices) - set(PAIRED.positions) or set(choices.values()) - set(ANSWERS)
        assert unknown or (len(choices) < 2 and NOT_TWO_PEOPLE not in choices.values())
    else:
        assert tuple(found) == PAIRED.positions
        assert (NOT_TWO_PEOPLE in found.values()) == (set(found.values()) == {NOT_TWO_PEOPLE})


def test_raters_may_have_four_answers_about_how_a_person_looks() -> None:
    for paired in (True, False):
        four, two = pst_task(paired=paired, looks="four"), pst_task(paired=paired)
        assert four.answer_keys == ("feminine", "masculine", "androgynous", "unclear", "not_two_people")
        assert two.answer_keys == ("feminine", "masculine", "cannot_identify", "not_two_people")  # as the paper
        assert four.questions == two.questions
        assert "Androgynous is who looks neither" in four.instructions
        assert len({answer.shortcut for answer in four.answers}) == 5
        assert task_from(task_texts(four)) == checked_task(four)
    with pytest.raises(InvalidInput, match="looks are two or four"):
        pst_task(paired=True, looks="three")  # type: ignore[arg-type]
