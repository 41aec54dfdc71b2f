"""A study labelled by simulated raters through the real store: agreement, scores and corrections."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.labels.label_store import LabelStore
from bias_core.labels.make_task import (
    Candidate,
    candidates,
    choose_task_kind,
    draw_sample,
    gold_from_lines,
    gold_from_record,
    task_pictures,
)
from bias_core.labels.report import automatic_answers, label_report, rater_labels, yes_no_answers
from bias_core.labels.results import labelled_items, task_answers, task_items, task_progress
from bias_core.labels.task_owner import CreatedTask, create_task, set_status
from bias_core.report.corrected import corrected
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.label_tasks import association_task, own_task, pst_task
from bias_core.study.types import StudyReport, StudySettings
from bias_core.types import Attribute
from tests import shared
from tests.explored import explore, measured
from tests.study.oasis_runs import findings, table
from tests.study.simulated_raters import expected_kappa, simulate

services = shared.real_services

ERROR = 0.1


@dataclass(frozen=True)
class Labelled:
    store: LabelStore
    made: CreatedTask
    truth: dict[tuple[str, str], str]

    def answers(self) -> Any:
        return task_answers(self.made.task, labelled_items(self.store, self.made.key))

    def report(self, **automatic: Any) -> StudyReport:
        progress = task_progress(self.store, self.made.key)
        return label_report(progress, labelled_items(self.store, self.made.key), automatic)


@pytest.fixture(scope="module")
def study(services):
    settings = StudySettings(scale=0.06, options={"finder": "halves"})
    return complete(run_study(find_design("pst-occupations"), settings, services))


def labelled_by(services, report, n_raters, error=ERROR):
    """A task about every pair of a run, answered by so many raters."""
    task = pst_task(paired=True, raters_per_item=n_raters)
    made = create_task(services.labels, task, task_pictures(candidates(report, "pst_paired"), task))
    set_status(services.labels, made.key, "open")
    truth = automatic_answers(report, task)["the ground truth"]
    for rater in range(n_raters):
        simulate(services.labels, made, truth, error=error, rater=rater)
    return Labelled(store=services.labels, made=made, truth=truth)


@pytest.fixture(scope="module")
def three(services, study):
    return labelled_by(services, study, 3)


def finding(report, key):
    return findings(report)[key]


def test_the_planted_score_lies_in_the_interval_of_people_s_labels(services, study, three):
    by_people = corrected(study, three.answers(), services)
    found = finding(by_people, "paired_overall")
    assert found.expected == finding(study, "paired_overall").expected  # the same pictures
    assert found.estimate.low <= found.expected <= found.estimate.high
    assert found.estimate.low > 0
    assert table(by_people, "table1")["raters"].tolist() == [3]
    assert "single setting keep the classifier's labels" in by_people.results.notes[0]
    single = "single_overall"
    assert finding(by_people, single).estimate.value == finding(study, single).estimate.value
    gap = finding(by_people, "gap_overall").estimate  # of people's answers and a program's there is none
    assert (math.isnan(gap.value), gap.null_value) == (True, 0.0)


def test_three_raters_are_nearer_to_the_truth_than_one(services, study, three, tmp_path):
    one = labelled_by(services, study, 1)

    def errors(labelled):
        """Share of wrong majority labels."""
        labels = table(labelled.report(), "labels")
        truth = [labelled.truth[key] for key in zip(labels["image_id"], labels["position"], strict=True)]
        return float((labels["label"] != truth).mean())

    # 3 e^2 (1 - e) + e^3 = 0.027 + 0.001 = 0.028 of the majority of three
    n = len(table(three.report(), "labels"))
    assert n > 90
    assert errors(three) == pytest.approx(0.028, abs=3 * np.sqrt(0.028 * 0.972 / n))
    assert errors(one) == pytest.approx(ERROR, abs=3 * np.sqrt(0.09 / n))
    assert errors(three) < errors(one)


def test_agreement_is_that_of_the_closed_form(three):
    report = three.report()
    pairs = [answer for (_, position), answer in three.truth.items() if position != "single"]
    share = np.mean([answer == "feminine" for answer in pairs])
    wanted = expected_kappa(ERROR, share)
    for key in ("alpha", "fleiss"):
        estimate = finding(report, key).estimate
        assert estimate.low <= wanted <= estimate.high
        assert estimate.n == len(pairs) / 2  # pictures, not people
    each = table(report, "pairs")
    assert len(each) == 3
    assert ((each["low"] <= wanted) & (wanted <= each["high"])).all()


def test_labels_are_compared_with_readers_and_the_record(study, three):
    automatic = automatic_answers(study, three.made.task)
    report = three.report(**{name.split()[0]: said for name, said in automatic.items()})
    assert finding(report, "kappa_the").estimate.value > finding(report, "alpha").estimate.value
    errors = table(report, "errors_the").set_index("answer")
    assert errors.loc["feminine", "sensitivity"] > 0.9
    counts = table(report, "confusion_automatic")
    assert counts["people say"].tolist() == list(three.made.task.answer_keys)


def test_coverage_counts_those_with_a_usable_majority(services, study):
    task = pst_task(paired=True, raters_per_item=2)
    made = create_task(services.labels, task, task_pictures(candidates(study, "pst_paired")[:4], task))
    set_status(services.labels, made.key, "open")
    ids = [item.image_id for item in task_items(services.labels, made.key)]
    # Equal on two pictures, of which one failed; apart on the third; the fourth is skipped.
    said = [["feminine", "feminine"], ["not_two_people"] * 2, ["feminine", "masculine"]]
    for rater in range(2):
        truth = {(one, side): pair[rater] for one, pair in zip(ids, said, strict=False) for side in task.positions}
        simulate(services.labels, made, truth, error=0.0, rater=rater)
    progress = task_progress(services.labels, made.key)
    found = table(label_report(progress, labelled_items(services.labels, made.key)), "coverage")
    columns = ["asked", "answered", "with a majority", "usable"]
    assert found[columns].to_numpy().tolist() == [[4, 3, 2, 1]] * 2
    assert found["coverage"].tolist() == [0.25, 0.25]


def test_a_rater_who_does_not_look_is_seen_to_differ(services, study, three):
    task = pst_task(paired=True, raters_per_item=4)
    found = candidates(study, "pst_paired")
    gold = gold_from_record(found, task, 8)
    made = create_task(services.labels, task, task_pictures(found, task, gold=gold))
    set_status(services.labels, made.key, "open")
    for rater in range(3):
        simulate(services.labels, made, three.truth, error=0.02, rater=rater)
    simulate(services.labels, made, three.truth, error=0.5, rater=3)
    raters = table(replace(three, made=made).report(), "raters")
    assert raters["differs"].tolist() == [False, False, False, True]
    right = [int(said.split()[0]) / max(1, int(said.split()[2])) for said in raters["known right"]]
    assert min(right[:3]) > right[3]


def test_without_two_raters_nothing_is_said_of_agreement(services, study):
    report = labelled_by(services, study, 1).report()
    assert not report.results.findings
    assert "two raters" in report.results.notes[0]
    task = pst_task(paired=True)
    empty = create_task(services.labels, task, task_pictures(candidates(study, "pst_paired")[:2], task))
    report = label_report(task_progress(services.labels, empty.key), labelled_items(services.labels, empty.key))
    assert not report.results.findings
    with pytest.raises(InvalidInput, match="no one has answered"):
        rater_labels(services.labels, empty.key)


def test_people_s_labels_correct_what_a_reader_gets_wrong(services, tmp_path):
    man = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
    settings = explore_settings(
        concept="doctor", attributes=(man,), model="calibration-renderer", attribute_a="", attribute_b="",
        n_images=60,
    )  # fmt: skip
    *_, report = explore(settings, services)
    seen, report = report, report.report
    task = own_task("Does this person look masculine?", ["yes", "no"], raters_per_item=1)
    pictures = task_pictures(candidates(report, choose_task_kind(report)), task)
    made = create_task(services.labels, task, pictures)
    set_status(services.labels, made.key, "open")
    score = seen.attributes[0]
    called = dict(zip([i.id for i in seen.images], score.similarity_positive > score.similarity_negative, strict=True))
    # People see what the reader sees, but for every fifth picture that it calls a man: specificity suffers.
    men = [image_id for image_id, is_man in called.items() if is_man]
    people = called | dict.fromkeys(men[::5], False)
    truth = {(image_id, "picture"): "yes" if is_man else "no" for image_id, is_man in people.items()}
    simulate(services.labels, made, truth, error=0.0, rater=0)
    answers = task_answers(made.task, labelled_items(services.labels, made.key))
    asked = yes_no_answers(report, made.task, answers, attribute="man", present="yes")
    found = corrected(report, asked, services).results.frame("corrected").set_index("number")
    # All pictures were labelled, so the correction gives back the share that people see.
    share = sum(people.values()) / len(people)
    assert found.loc["man: P", "corrected"] == pytest.approx(share)
    assert found.loc["man: Ψ", "corrected"] == pytest.approx(max(0.0, share - 0.5))
    assert found.loc["man: Ψ", "as read"] > found.loc["man: Ψ", "corrected"]
    other = replace(made.task, run_id="0123")
    with pytest.raises(InvalidInput, match="a sample of another run, 0123"):
        yes_no_answers(report, other, answers, attribute="man", present="yes")
    other = replace(made.task, attributes={"picture": ("old", "a photo of an old person")})
    with pytest.raises(InvalidInput, match="does not ask about 'man'; it asks about old"):
        yes_no_answers(report, other, answers, attribute="man", present="yes")
    for attribute, present, words in (("beard", "yes", "no attribute"), ("man", "maybe", "not an answer")):
        with pytest.raises(InvalidInput, match=words):
            yes_no_answers(report, made.task, answers, attribute=attribute, present=present)
    with pytest.raises(InvalidInput, match="No one has answered"):
        corrected(report, asked.assign(answer="", rater=""), services)


def test_neutral_pictures_of_an_association_are_judged_and_their_orders_compared(services, tmp_path):
    settings = StudySettings(scale=0.04, options={"tests": ["flowers_insects", "instruments_weapons"]})
    report = complete(run_study(find_design("t2iat-human"), settings, services))
    assert choose_task_kind(report) == "association"
    assert candidates(report, "association", words=("pleasant", "unpleasant"))
    of_no_test = candidates(report, "association", words=("old", "young"))
    assert len(of_no_test) == len(candidates(report, "association"))  # all that it judges
    task = association_task("pleasant", "unpleasant", raters_per_item=1)
    truth = automatic_answers(report, task)["the classifier"]
    asked = [one for one in candidates(report, "association") if (one.image_id, "picture") in truth]
    made = create_task(services.labels, task, task_pictures(asked, task))
    set_status(services.labels, made.key, "open")
    simulate(services.labels, made, truth, error=0.0, rater=0)  # people who see what the reader sees
    by_people = corrected(report, task_answers(task, labelled_items(services.labels, made.key)), services)
    assert finding(by_people, "order").estimate == finding(report, "order").estimate
    assert "judged by people" in by_people.results.notes[1]


def test_right_answers_are_typed_or_taken_from_the_record(study):
    task = pst_task(paired=True)
    found = candidates(study, "pst_paired")
    assert gold_from_lines("2: f, looks masculine\n\n7 = n", task) == {
        2: {"left": "feminine", "right": "masculine"},
        7: {"left": "not_two_people", "right": "not_two_people"},
    }
    for text in ("2: man", "two: f, m", "2: f, m, f", "f, m"):
        with pytest.raises(InvalidInput):
            gold_from_lines(text, task)
    gold = gold_from_record(found, task, 5)
    assert len(gold) == 5
    assert gold == gold_from_record(found, task, 5)
    unknown = [Candidate(**{**vars(one), "truth": None}) for one in found]
    with pytest.raises(InvalidInput, match="have one"):
        gold_from_record(unknown, task, 1)
    with pytest.raises(InvalidInput, match="not in this task"):
        task_pictures(found[:1], task, gold={99: {"left": "feminine", "right": "feminine"}})


def test_pictures_suit_the_kind_of_task(study):
    pairs, single = candidates(study, "pst_paired"), candidates(study, "pst_single")
    assert set(pairs[0].identities) == {"left", "right"}
    assert set(single[0].identities) == {"single"}
    assert not {one.image_id for one in pairs} & {one.image_id for one in single}
    assert len(candidates(study, "own")) == len(pairs) + len(single)
    assert [one.number for one in draw_sample(pairs, 5)] == sorted(one.number for one in draw_sample(pairs, 5))
    assert draw_sample(pairs, 5) == draw_sample(pairs, 5) != draw_sample(pairs, 5, seed=1)
    assert draw_sample(pairs, 0) == pairs
    with pytest.raises(InvalidInput):
        draw_sample(pairs, -1)


def test_pictures_of_an_import_are_asked_about_with_the_words_of_its_owner(services, study, tmp_path):
    folder = tmp_path / "pictures" / "a photo of a baker"
    folder.mkdir(parents=True)
    for one in candidates(study, "pst_single")[:4]:
        with Image.open(one.path) as image:
            image.convert("RGB").save(folder / f"{one.number}.png")  # without its record, which names its prompt
    settings = StudySettings(images=str(tmp_path / "pictures"), encoder="calibration-clip", force=True)
    report = measured(settings, services)
    assert choose_task_kind(report) == "own"
    task = pst_task(paired=False)
    items = task_pictures(candidates(report, "pst_single"), task, identity="cook")
    assert [item.identities for item in items] == [{"single": "cook"}] * 4
    create_task(services.labels, task, items)
    # Without: as its prompt names them, "a photo of a baker".
    assert task_pictures(candidates(report, "pst_single"), task)[0].identities == {"single": "baker"}
