"""Raters on a scale: ten tones with their swatches, agreement that knows the order, and the levels that people see."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.labels.make_task import label_run, recorded_answers
from bias_core.labels.report import label_report, ordinal_votes, scale_findings
from bias_core.labels.results import LabelledItem, task_answers
from bias_core.labels.tab_make import KINDS, usual_texts
from bias_core.measures.two_phase import two_phase_estimate, two_phase_shares
from bias_core.people import load_scales
from bias_core.report.corrected import PeopleAnswers, corrected_numbers
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.label_tasks import CANNOT_TELL, SINGLE, Item, checked_task, scale_task, task_from, task_texts
from bias_core.world.scene import AGES as DRAWN_AGES, SKIN_TONES
from tests import shared

TONES, AGES = scale_task("skin tone"), scale_task("age group")


PUBLISHED = (
    "#f6ede4", "#f3e7db", "#f7ead0", "#eadaba", "#d7bd96", "#a07e56", "#825c43", "#604134", "#3a312a", "#292420",
)  # fmt: skip
"""The ten swatches of skintone.google."""


def test_ten_tones_have_a_number_a_key_and_a_swatch_each_and_one_may_not_tell():
    tones, ages = load_scales()["skin tone"], load_scales()["age group"]
    assert tones.levels == tuple(map(str, SKIN_TONES))
    assert tones.colours == PUBLISHED
    assert ages.levels == DRAWN_AGES
    assert [one.shortcut for one in TONES.answers] == [*"1234567890", "c"]
    assert tuple(one.colour for one in TONES.answers[:-1]) == load_scales()["skin tone"].colours
    assert TONES.answers[0].label == "tone 1, lightest"
    assert TONES.answers[9].label == "tone 10, darkest"
    assert TONES.answer_keys[-1] == CANNOT_TELL
    assert TONES.questions == {SINGLE: "Which of the ten tones is nearest to the skin of the {}?"}
    assert [one.colour for one in AGES.answers] == [""] * 4
    assert {TONES.scale, AGES.scale} <= set(KINDS)
    assert usual_texts(AGES.scale)["title"] == "Age group"


@pytest.mark.parametrize("task", [TONES, AGES])
def test_a_task_on_a_scale_is_kept_and_read_back_as_it_is(task):
    assert task_from(task_texts(checked_task(task))) == task
    with pytest.raises(InvalidInput, match="answers"):
        checked_task(replace(task, answers=task.answers[1:]))
    with pytest.raises(InvalidInput, match="no scale is called"):
        checked_task(replace(task, scale="height"))
    with pytest.raises(InvalidInput, match="colour"):
        checked_task(replace(task, answers=(replace(task.answers[0], colour="url(x)"), *task.answers[1:])))


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


def labelled(image_id, said):
    answers = [SimpleNamespace(rater=f"r{j}", choices={SINGLE: one}) for j, one in enumerate(said)]
    return LabelledItem(item=Item(id=0, picture="", image_id=image_id, identities={}), answers=answers)


def test_neighbouring_tones_count_as_almost_agreed():
    rng = np.random.default_rng(0)
    near = [(place, min(place + int(rng.integers(2)), 9)) for place in rng.integers(0, 10, size=40)]
    progress = SimpleNamespace(task=TONES, n_items=40, n_complete=40, raters=[], n_answers=40)
    items = [labelled(f"p{i}", [TONES.answer_keys[place] for place in of]) for i, of in enumerate(near)]
    report = label_report(progress, items)
    found = {one.key: one.estimate for one in report.results.findings}
    assert found["alpha_ordinal"].value > 0.9 > found["alpha"].value
    assert found["scale-mean"].n == 40
    levels = ordinal_votes(pd.Series([["tone_3", CANNOT_TELL, "tone_10"]]), TONES)
    assert levels.tolist() == [[2, 9]]


def test_the_page_of_raters_shows_the_swatch_beside_the_name():
    script = Path("assets/label/label.js").read_text(encoding="utf-8")
    assert "swatch.style.background = answer.colour" in script


services = shared.real_services


@pytest.fixture(scope="module")
def report(services):
    settings = explore_settings(
        concept="CEO", model="calibration-renderer", condition="fair", n_images=40, attributes=(), attribute_a="",
        attribute_b="",
    )  # fmt: skip
    return complete(run_study(find_design("explore"), settings, services))


def labels_of(report, n):
    """Two raters' answers about the first pictures."""
    task = replace(AGES, attributes={SINGLE: (AGES.scale, AGES.questions[SINGLE])})
    stored = list(report.stored.items())[:n]
    return PeopleAnswers(task_answers(task, [labelled(image_id, [one.truth["age"]] * 2) for image_id, one in stored]))


def test_a_task_on_a_scale_serves_its_run(services, report):
    made = label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone"])
    assert made.task.scale == "skin tone"
    assert made.task.run_id == report.run_id
    assert len(made.task.answers) == 11
    assert "10 of 40 pictures at random" in made.task.sample
    more = label_run(report, services.manifests, services.labels, n=40, attributes=["skin tone"])
    assert "30 of 30" in more.task.sample  # what an earlier task asks about is left out
    with pytest.raises(InvalidInput, match="that scale alone"):
        label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone", AGES.scale])


def test_people_alone_give_the_mean_and_the_ends(report):
    numbers, notes = corrected_numbers(report, labels_of(report, 30))
    mean = next(one for one in numbers if one.metric == "mean_level")
    assert np.isnan(mean.as_read.value)
    ages = [["child", "young", "old"].index(one.truth["age"]) + 1 for one in list(report.stored.values())[:30]]
    assert mean.corrected.value == pytest.approx(np.mean(ages))
    assert mean.corrected.low < mean.corrected.value < mean.corrected.high
    assert mean.title == "age group: mean"
    assert {one.title for one in numbers} == {"age group: mean", "age group: youngest: P", "age group: oldest: P"}
    assert "two-phase" in notes[0]


def test_what_people_cannot_tell_of_is_no_number(report):
    numbers, notes = corrected_numbers(report, labels_of(report, 1))
    assert numbers == []
    assert notes


@pytest.mark.slow
def test_intervals_of_people_on_ten_levels_hold_what_is_planted_from_few_labels():
    rng, levels = np.random.default_rng(0), np.arange(1.0, 11)
    planted = np.array([0.5, 0.25, 0.12, 0.06, 0.03, 0.01, 0.01, 0.01, 0.005, 0.005])
    held, n, n_labels = 0, 200, 64
    for seed in range(40):
        truth = rng.choice(10, n, p=planted)
        read = np.clip(truth + rng.choice([-1, 0, 1], n, p=[0.1, 0.8, 0.1]), 0, 9)
        people = np.where(np.arange(n) < n_labels, truth, np.nan)
        shares = two_phase_shares(read, people, n_classes=11, rng=seed)
        mean = two_phase_estimate(lambda of: (of[..., :10] @ levels) / of[..., :10].sum(axis=-1), shares)
        held += mean.low <= planted @ levels <= mean.high
    assert held >= 34  # fewer in 3 of 1,000 at 95 %; with half a picture of each class beforehand, two in three
