"""Raters on a scale: ten tones with their swatches, agreement that knows the order, and the levels that people see."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.annotation.collected import LabelledItem
from bias_core.annotation.tasks import CANNOT_TELL, SINGLE, Item, checked_task, scale_task, task_from, task_texts
from bias_core.errors import InvalidInput
from bias_core.labels.report import label_report
from bias_core.labels.scale_answers import ordinal_votes, scale_findings
from bias_core.labels.sources import recorded_answers
from bias_core.labels.tab_make import KINDS, usual_texts
from bias_core.scales import load_scales
from bias_core.world.scene import AGES as DRAWN_AGES, SKIN_TONES

TONES, AGES = scale_task("skin tone"), scale_task("age group")


PUBLISHED = (
    "#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420",
)  # fmt: skip
"""The ten swatches of skintone.google."""


def test_the_scales_are_those_of_the_world_and_their_colours_those_of_their_source():
    tones, ages = load_scales()["skin tone"], load_scales()["age group"]
    assert tones.levels == tuple(map(str, SKIN_TONES))
    assert tones.colours == PUBLISHED
    assert ages.levels == DRAWN_AGES


def test_ten_tones_have_a_number_a_key_and_a_swatch_each_and_one_may_not_tell():
    assert [one.shortcut for one in TONES.answers] == [*"1234567890", "c"]
    assert tuple(one.colour for one in TONES.answers[:-1]) == load_scales()["skin tone"].colours
    assert TONES.answers[0].label == "tone 1, lightest"
    assert TONES.answers[9].label == "tone 10, darkest"
    assert TONES.answer_keys[-1] == CANNOT_TELL
    assert TONES.questions == {SINGLE: "Which of the ten tones is nearest to the skin of the {}?"}
    assert [one.colour for one in AGES.answers] == [""] * 4


@pytest.mark.parametrize("task", [TONES, AGES])
def test_a_task_on_a_scale_is_kept_and_read_back_as_it_is(task):
    assert task_from(task_texts(checked_task(task))) == task
    with pytest.raises(InvalidInput, match="answers"):
        checked_task(replace(task, answers=task.answers[1:]))
    with pytest.raises(InvalidInput, match="no scale is called"):
        checked_task(replace(task, scale="height"))
    with pytest.raises(InvalidInput, match="colour"):
        checked_task(replace(task, answers=(replace(task.answers[0], colour="url(x)"), *task.answers[1:])))


def test_the_form_offers_both_scales_with_their_own_texts():
    assert {"skin tone", "age group"} <= set(KINDS)
    assert "what they are" in usual_texts("skin tone")["instructions"]
    assert usual_texts("age group")["title"] == "Age group"


def test_what_was_drawn_is_a_right_answer_where_one_person_was():
    def answers(**truth):
        return recorded_answers(SimpleNamespace(truth=truth), TONES)

    assert answers(n_people=1, skin=10) == {SINGLE: "tone_10"}
    assert answers(n_people=2, left_skin=3) == {SINGLE: CANNOT_TELL}
    assert answers(n_people=1, skin=3) == {}  # drawn in a colour that is nearer to the second swatch
    assert recorded_answers(SimpleNamespace(truth=None), TONES) == {}


def answered(task, *votes):
    """A row per answer; ``votes``: of each picture what every rater says."""
    rows = [
        (f"p{i}", SINGLE, f"r{j}", task.answer_keys[place]) for i, of in enumerate(votes) for j, place in enumerate(of)
    ]
    return pd.DataFrame(rows, columns=["image_id", "position", "rater", "answer"])


def test_the_mean_in_peoples_eyes_is_of_those_that_they_can_tell():
    votes = [(0, 0, 0)] * 6 + [(2, 2, 2)] * 10 + [(3, 3, 3)] * 4  # six children, ten old, four nobody can tell
    found = {one.key: one.estimate for one in scale_findings(answered(AGES, *votes), AGES)}
    assert found["scale-mean"].value == pytest.approx((6 * 1 + 10 * 3) / 16)
    assert found["scale-lowest"].value == pytest.approx(6 / 16)
    assert found["scale-highest"].value == pytest.approx(10 / 16)
    assert found["scale-unclear"].value == pytest.approx(4 / 20)
    assert found["scale-mean"].low < found["scale-mean"].value < found["scale-mean"].high


def test_raters_who_differ_widen_what_is_said():
    agree = [(0, 0, 0), (2, 2, 2)] * 10
    differ = [(0, 0, 2), (2, 2, 2)] * 10  # one rater sees nobody as a child
    wide, narrow = (next(iter(scale_findings(answered(AGES, *votes), AGES))).estimate for votes in (differ, agree))
    assert wide.high - wide.low > narrow.high - narrow.low
    assert not list(scale_findings(answered(AGES, (0, 1)), AGES))  # of one picture nothing can be told


def test_neighbouring_tones_count_as_almost_agreed():
    rng = np.random.default_rng(0)
    near = [(place, min(place + int(rng.integers(2)), 9)) for place in rng.integers(0, 10, size=40)]
    report = label_report(progress(TONES, 40), items(TONES, near))
    found = {one.key: one.estimate for one in report.results.findings}
    assert found["alpha_ordinal"].value > 0.9 > found["alpha"].value
    assert found["scale-mean"].n == 40
    levels = ordinal_votes(pd.Series([["tone_3", CANNOT_TELL, "tone_10"]]), TONES)
    assert levels.tolist() == [[2, 9]]


def items(task, votes):
    return [
        LabelledItem(
            item=Item(id=i, picture="", image_id=f"p{i}", identities={}),
            answers=[
                SimpleNamespace(rater=f"r{j}", choices={SINGLE: task.answer_keys[place]}) for j, place in enumerate(of)
            ],
        )
        for i, of in enumerate(votes)
    ]


def progress(task, n):
    return SimpleNamespace(task=task, n_items=n, n_complete=n, raters=[], n_answers=n)


def test_the_page_of_raters_shows_the_swatch_beside_the_name():
    script = Path("assets/label/label.js").read_text(encoding="utf-8")
    assert "swatch.style.background = answer.colour" in script
