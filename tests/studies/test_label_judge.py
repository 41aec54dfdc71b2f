"""A judge answers a labelling task beside the people, and changes nothing of what they said."""

import zipfile

import numpy as np
import pytest

from bias_core.annotation.collected import export_labels, labelled_items, task_progress
from bias_core.annotation.judgements import judgements_frame
from bias_core.annotation.task_owner import delete_task
from bias_core.errors import InvalidInput, NotAllowed
from bias_core.labels.judge import judge_labels, judge_task
from bias_core.labels.report import label_report, people_labels
from bias_core.labels.tab import LabelTab
from bias_core.studies.running.run import complete
from bias_core.ui.visitor import Visitor
from tests.annotation.raters import open_task
from tests.annotation.test_task_owner import answered
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

FEMININE = {"left": "feminine", "right": "feminine"}
MIXED = {"left": "feminine", "right": "masculine"}


class Machine:
    """Says that everybody on the left looks feminine, and cannot tell of the right; pictures are known by red."""

    name = "org/machine"

    def __init__(self):
        self.questions = []

    def judge(self, images, questions):
        self.questions += questions
        places = []
        for image, question in zip(images, questions, strict=True):
            left, feminine = "on the left" in question, "looks feminine" in question
            failed = "not exactly two people" in question and image.getpixel((0, 0))[0] == 3
            places.append(0 if failed or (left and feminine) else 1 if left else 2)
        return np.eye(3)[places] * [0.9, 0.9, 0.9] + 0.1 / 3


@pytest.fixture
def services(tmp_path):
    made = FakeServices(tmp_path)
    made.machine = Machine()
    made.judge = lambda _name: made.machine
    yield made
    made.close()


def report_of(services, key):
    store = services.labels
    return label_report(task_progress(store, key), labelled_items(store, key), judge_labels(store, key))


def judged(services, key):
    return complete(judge_task(services, services.labels, key, "org/machine", check=lambda: None))


def test_a_judge_joins_as_a_machine_and_people_agree_as_before(services, tmp_path):
    store, task = services.labels, open_task(services.labels, tmp_path / "pictures", 5, n_gold=2)
    answered(store, task, FEMININE, MIXED, MIXED)
    before, labels = report_of(services, task.key), people_labels(store, task.key)
    progress = task_progress(store, task.key)
    assert judged(services, task.key) == 5
    after = report_of(services, task.key)
    assert after.results.findings[: len(before.results.findings)] == before.results.findings
    assert after.results.frame("raters").equals(before.results.frame("raters"))
    assert after.results.frame("labels").equals(before.results.frame("labels"))
    assert people_labels(store, task.key).equals(labels)
    assert task_progress(store, task.key) == progress
    (machine,) = after.results.frame("machines").to_dict("records")
    assert (machine["rater"], machine["kind"]) == ("judge: org/machine", "machine")
    assert (machine["answered"], machine["compared"]) == (10, 10)
    assert machine["agrees with people"] == pytest.approx(4 / 10)  # the left of all pictures but the failed one
    assert "kappa_judge: org/machine" in {finding.key for finding in after.results.findings}
    assert "confusion_judge_org_machine" in {table.key for table in after.results.tables}
    said = judgements_frame(store, task.key).set_index(["image_id", "position"])["answer"]
    assert said["picture-0", "left"] == "feminine"
    assert said["picture-0", "right"] == "cannot_identify"
    assert said["picture-3"].tolist() == ["not_two_people"] * 2  # of the picture as a whole
    assert not any("picture-5" in place for place in said.index)  # attention checks are for people


def test_it_is_asked_once_exported_apart_and_deleted_with_the_task(services, tmp_path):
    store, task = services.labels, open_task(services.labels, tmp_path / "pictures", 2)
    judged(services, task.key)
    n_questions = len(services.machine.questions)
    assert n_questions == 2 * 2 * 4
    judged(services, task.key)
    assert len(services.machine.questions) == n_questions
    assert len(judgements_frame(store, task.key)) == 4
    with zipfile.ZipFile(export_labels(store, task.key, tmp_path / "labels.zip")) as archive:
        assert b"judge: org/machine" in archive.read("judges.csv")
        assert b"judge" not in archive.read("labels.csv")
    delete_task(store, task.key)
    with pytest.raises(NotAllowed):
        judgements_frame(store, task.key)
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM judgements").scalar() == 0


def test_only_the_owner_may_ask_a_judge_and_only_by_its_name(services, tmp_path):
    mine = open_task(services.labels, tmp_path / "mine", 1)
    other = open_task(services.labels, tmp_path / "other", 1)
    stolen = type(mine.key)(task_id=mine.key.task_id, secret=other.key.secret)
    with pytest.raises(NotAllowed):
        judged(services, stolen)
    with pytest.raises(InvalidInput, match="choose a judge"):
        complete(judge_task(services, services.labels, mine.key, "", check=lambda: None))
    assert services.machine.questions == []


def test_the_button_of_the_tab_asks_it(services, tmp_path):
    tab, visitor = built(LabelTab, services), Visitor()
    task = open_task(services.labels, tmp_path / "pictures", 3)
    answered(services.labels, task, FEMININE, MIXED, MIXED)
    *_, last = tab.scores.on_judge(visitor, task.key.text, "org/machine", None)
    shown = last[tab.scores.parts["used"]]
    assert "judge: org/machine gave 6 answers" in shown
    assert "counts in no agreement" in shown
    *_, last = tab.scores.on_judge(visitor, task.key.text, "", None)
    assert "choose a judge" in last[tab.scores.parts["status"]]
    visitor.leave()
