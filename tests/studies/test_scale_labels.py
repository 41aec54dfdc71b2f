"""People say on a scale how those in the pictures of a run look."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bias_core.annotation.collected import LabelledItem
from bias_core.annotation.tasks import SINGLE, Item, scale_task
from bias_core.errors import InvalidInput
from bias_core.labels.run_task import label_run
from bias_core.stats.two_phase import two_phase_estimate, two_phase_shares
from bias_core.studies.explore.options import explore_settings
from bias_core.studies.kit.designs import find_design
from bias_core.studies.running.corrected import PeopleAnswers, corrected_numbers
from bias_core.studies.running.run import complete, run_study
from tests import shared

services = shared.real_services

AGE = "age group"


@pytest.fixture(scope="module")
def report(services):
    settings = explore_settings(
        concept="CEO", model="calibration-renderer", condition="fair", n_images=40, attributes=(), attribute_a="",
        attribute_b="",
    )  # fmt: skip
    return complete(run_study(find_design("explore"), settings, services))


def labels_of(report, n, *, raters=2, scale=AGE, says=lambda truth: truth["age"]):
    """What raters say of the first pictures."""
    task = replace(scale_task(scale), attributes={SINGLE: (scale, scale_task(scale).questions[SINGLE])})
    items = []
    for i, (image_id, one) in enumerate(list(report.stored.items())[:n]):
        given = [SimpleNamespace(rater=f"r{j}", choices={SINGLE: says(one.truth)}) for j in range(raters)]
        items.append(LabelledItem(item=Item(id=i, picture="", image_id=image_id, identities={}), answers=given))
    return PeopleAnswers([(task, items)])


def test_a_task_on_a_scale_serves_its_run(services, report):
    made = label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone"])
    assert made.task.scale == "skin tone"
    assert made.task.run_id == report.run_id
    assert len(made.task.answers) == 11
    assert "10 of 40 pictures at random" in made.task.sample
    more = label_run(report, services.manifests, services.labels, n=40, attributes=["skin tone"])
    assert "30 of 30" in more.task.sample  # what an earlier task asks about is left out
    with pytest.raises(InvalidInput, match="nothing else"):
        label_run(report, services.manifests, services.labels, n=10, attributes=["skin tone", AGE])


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


def test_intervals_of_people_on_ten_levels_hold_what_is_planted_from_few_labels():
    rng, levels = np.random.default_rng(0), np.arange(1.0, 11)
    planted = np.array([0.5, 0.25, 0.12, 0.06, 0.03, 0.01, 0.01, 0.01, 0.005, 0.005])
    held, n, n_labels = 0, 200, 64
    for seed in range(60):
        truth = rng.choice(10, n, p=planted)
        read = np.clip(truth + rng.choice([-1, 0, 1], n, p=[0.1, 0.8, 0.1]), 0, 9)
        people = np.where(np.arange(n) < n_labels, truth, np.nan)
        shares = two_phase_shares(read, people, n_classes=11, rng=seed)
        mean = two_phase_estimate(lambda of: (of[..., :10] @ levels) / of[..., :10].sum(axis=-1), shares)
        held += mean.low <= planted @ levels <= mean.high
    assert held >= 53  # with half a picture of each class beforehand, 40
