"""People's answers: read as they are, four about looks, and a judge's beside them."""

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.labels.judge import judge_labels, judge_task
from bias_core.labels.make_task import Candidate, recorded_answers
from bias_core.labels.report import label_report, rater_labels
from bias_core.labels.results import (
    GivenAnswer,
    LabelledItem,
    TaskProgress,
    export_labels,
    judgements_frame,
    labelled_items,
    task_progress,
)
from bias_core.labels.tab import LabelTab, agreement_headline
from bias_core.labels.task_owner import delete_task
from bias_core.measures.agreement import agreement_estimate
from bias_core.measures.paired_stereotype import ANDROGYNOUS, CANNOT_IDENTIFY, merge_ratings
from bias_core.papers.pst.labelling import labels_after, labels_frame, with_answers
from bias_core.papers.pst.report import headline
from bias_core.papers.pst.study import relabelled
from bias_core.papers.pst.tab import Labelling, labels_html
from bias_core.report.corrected import Corrector, _describe_cannot_tell, _test_score, kappa_finding
from bias_core.run.run import complete, run_study
from bias_core.study.answer_fit import fit_answers
from bias_core.study.answers import majority, read_answers
from bias_core.study.classifier_answers import CODES, Reading
from bias_core.study.design import find_design
from bias_core.study.label_tasks import Item, pst_task
from bias_core.study.types import StudySettings
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.labels.raters import open_task
from tests.labels.test_task_owner import answered
from tests.ui.fakes import FakeServices
from tests.ui.tabs import built

WORDS = ("masculine", "feminine", "cannot_identify")


def saved(tmp_path, text):
    path = tmp_path / "answers.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_words_are_read_whatever_their_case_and_blanks(tmp_path):
    path = saved(
        tmp_path, "rater,Image_ID,position,answer,comment\n1, x ,Left,Cannot identify,hm\n2,x,left,FEMININE,\n"
    )
    answers = read_answers(path)
    assert answers["task"].tolist() == ["answers.csv"] * 2
    assert answers[["image_id", "position", "answer", "rater"]].to_numpy().tolist() == [
        ["x", "left", "cannot_identify", "1"],
        ["x", "left", "feminine", "2"],
    ]


def test_rows_without_an_answer_are_passed_over_and_a_byte_order_mark_is_too(tmp_path):
    answers = read_answers(saved(tmp_path, "\ufeffimage_id,answer\na,feminine\nb,\n"))
    assert answers["image_id"].tolist() == ["a"]
    assert answers[["position", "rater"]].to_numpy().tolist() == [["", ""]]


def test_ids_that_look_like_numbers_stay_text(tmp_path):
    answers = read_answers(saved(tmp_path, "image_id,answer\n007,feminine\n1e5,feminine\n"))
    assert answers["image_id"].tolist() == ["007", "1e5"]


def test_what_cannot_be_used_is_quoted(tmp_path):
    path = tmp_path / "answers.csv"
    with pytest.raises(StorageError, match=r"answers\.csv"):
        read_answers(str(path))
    for content, error, message in (
        (b"id,answer\na,feminine\n", InvalidInput, "no column image_id"),
        (b"image_id,answer\na,female\n", InvalidInput, "got female .1., the first in line 2. Nothing was scored"),
        (b"image_id,answer\n", InvalidInput, "has no answers"),
        (b"image_id,answer,positions\na,feminine,left\n", InvalidInput, "do you mean position"),
        (
            b"image_id,rater\na,1\n",
            InvalidInput,
            "no column answer or choice or label; its columns are 'image_id, rater'",
        ),
        (b"", InvalidInput, r"answers\.csv has no column image_id or .*; it is empty"),
        (b'image_id,answer\n"a,b\n', InvalidInput, r"answers\.csv: line 2: check its quotation marks"),
        (b"\x89PNG\r\n\x1a\n\0", InvalidInput, r"answers\.csv cannot be read: it is not a text"),
    ):
        path.write_bytes(content)
        with pytest.raises(error, match=message):
            fit_answers(read_answers(str(path)), {"a": {"": WORDS}})


def test_what_label_studio_exports_is_read_without_checks_of_attention(tmp_path):
    def annotation(rater, *answers, **more):
        result = [{"from_name": "left", "type": "choices", "value": {"choices": [answer]}} for answer in answers]
        return {"completed_by": rater, "result": result, "was_cancelled": False, "ground_truth": False} | more

    tasks = [
        {"data": {"image": "/data/local-files/?d=a%20b/abc.png"}, "annotations": [annotation(3, "Feminine")]},
        {"data": {"image_id": "x", "image": "y.png"}, "annotations": [
            annotation({"id": 4, "email": "ada@lab"}, "masculine"), annotation(5),
            annotation(6, "feminine", was_cancelled=True),
        ]},
        {"data": {"image_id": "known"}, "annotations": [
            annotation(3, "feminine"), annotation(1, "masculine", ground_truth=True),
        ]},
    ]  # fmt: skip
    answers = read_answers(saved(tmp_path, json.dumps(tasks)))
    assert answers[["image_id", "position", "answer", "rater"]].to_numpy().tolist() == [
        ["/data/local-files/?d=a%20b/abc.png", "left", "feminine", "3"], ["x", "left", "masculine", "ada@lab"],
    ]  # fmt: skip
    look = answers.attrs["look"]
    assert {reason: len(places) for reason, places in look.passed_over.items()} == {
        "cancelled by their raters": 1, "attention checks, whose answers are known": 2,
    }  # fmt: skip
    answers = fit_answers(answers, {name: {"left": WORDS} for name in ("abc", "y")})
    assert answers["image_id"].tolist() == ["abc"]
    look = answers.attrs["look"]
    assert look.counts_by_way == {"the file name in an address": 1}
    assert look.passed_over["pictures that the run does not have"] == ["task 2: x"]
    forms: list[tuple[object, object]] = [({}, [annotation(3, "feminine")]), ([], [annotation(3, "feminine")])]
    forms += [({"image_id": "x"}, given) for given in ({}, [3], [{"result": 3}], [{"result": [{"value": [1]}]}])]
    for data, given in forms:
        with pytest.raises(InvalidInput, match=r"answers\.csv has (no answers|another form)"):
            read_answers(saved(tmp_path, json.dumps([{"data": data, "annotations": given}])))


def test_most_votes_win_and_a_tie_decides_nothing():
    # a: x twice, y once. b: one each. c: a single answer.
    answers = pd.DataFrame(
        {"image_id": list("aaabbc"), "rater": list("123121"), "answer": ["x", "y", "x", "x", "y", "y"]}
    )
    assert majority(answers).to_dict() == {"a": "x", "b": "", "c": "y"}


services = shared.fake_services

LETTERS = {"f": "feminine", "m": "masculine", "a": "androgynous", "u": "unclear"}
FOUR = pst_task(paired=False, looks="four")


def labelled(pictures):
    """Pictures with a letter of each rater."""
    items = []
    for number, letters in enumerate(pictures):
        item = Item(id=number, picture="0", image_id=str(number), identities={"single": "nurse"})
        given = [
            GivenAnswer(item=item, rater=f"r{k}", choices={"single": LETTERS[one]}, task_version=1, seconds=1.0, at="")
            for k, one in enumerate(letters)
        ]
        items.append(LabelledItem(item=item, answers=given))
    return items


def progress(task, n):
    return TaskProgress(
        task=task, join_code="", n_items=n, n_gold_items=0, n_complete=n, n_answers=2 * n, n_wanted=2 * n, raters=(),
        n_deleted_raters=0, n_deleted_answers=0,
    )  # fmt: skip


def test_the_report_tells_agreement_over_four_and_over_two_and_what_raters_disagree_about():
    pictures = ["ff", "fa", "fa", "mm", "mm", "aa", "uu", "fm"] * 3
    results = label_report(progress(FOUR, len(pictures)), labelled(pictures)).results
    found = {one.key: one.estimate.value for one in results.findings}
    # f f 3, m m 6, f m 3 of two answers each: o = 3 · 2 / 24, e = 2 · 9 · 15 / (24 · 23), alpha = 1 - o / e
    assert found["alpha_two"] == pytest.approx(1 - (6 / 24) / (2 * 9 * 15 / (24 * 23)))
    assert found["alpha"] != pytest.approx(found["alpha_two"])
    between = results.frame("between").iloc[0]
    assert {between["one answer"], between["other answer"]} == {"feminine", "androgynous"}
    assert between["share of disagreement"] == pytest.approx(2 / 3)
    assert results.frame("coverage")["usable"][0] == 12  # ff, mm, mm, aa; not uu, and no majority of two who differ
    of_two = label_report(progress(pst_task(paired=False), 4), labelled(["ff", "fm", "mm", "fm"])).results
    assert "alpha_two" not in {one.key for one in of_two.findings}
    assert "between" not in {one.key for one in of_two.tables}


def test_agreement_is_one_claim_and_too_few_pictures_say_so():
    def said(pictures):
        report = label_report(progress(FOUR, len(pictures)), labelled(pictures))
        return report.results.findings, agreement_headline(report)

    found, agree = said(["ff", "mm", "fm", "mm", "ff", "aa"] * 5)
    (alpha,) = [one for one in found if one.claim is not None]
    assert (alpha.key, alpha.claim.verdict, alpha.claim.n_tests) == ("alpha", "above", 1)
    assert re.fullmatch(
        r"All raters gave the same answer for 25 of 30 pictures, clearly more than by chance "
        r"\(Krippendorff’s α = 0\.\d+ \[.*\], p = 0\.00\d\)\.",
        agree,
    )
    assert said(["ff", "fm", "mf", "mm"] * 6)[1].startswith(
        "All raters gave the same answer for 12 of 24 pictures, not clearly more than by chance "
    )
    assert said(["ff"] * 8)[1].startswith("All raters gave the same answer for 8 of 8 pictures; no other answer")
    few, says = said(["ff", "mm", "fm", "mm"])
    alpha = next(one for one in few if one.key == "alpha")
    assert alpha.claim.verdict == "too few"
    assert "fewer than 10 units" in alpha.estimate.note  # which the table of numbers says
    assert says.startswith(
        "All raters gave the same answer for 3 of 4 pictures, too few to say whether that is more than by chance ("
    )
    # Eight of eight: the lower end is above chance just where p is as small.
    for n in (2, 3, 4, 5, 8):
        codes = [["f", "f"], ["m", "m"]] * 4
        full = agreement_estimate(codes[:n], null_value=0.0)
        assert (full.p_value <= 0.05) == (full.low > 0)


def test_people_and_a_machine_agree_by_the_rule_of_the_studies_where_raters_tie():
    task, said = pst_task(paired=False), ["feminine", "cannot_identify", "masculine", "feminine"]
    machine = {(str(number), "single"): answer for number, answer in enumerate(said)}
    given = labelled(["ff", "fm", "mm", "mf"])
    results = label_report(progress(task, 4), given, {"machine": machine}).results
    (kappa,) = [one for one in results.findings if one.key == "kappa_machine"]
    # f f, c c, m m, and a tie, c, that is called f: o = 3/4, e = 1/4 · 2/4 + 2/4 · 1/4 + 1/4 · 1/4 = 5/16
    assert kappa.estimate.value == pytest.approx((3 / 4 - 5 / 16) / (1 - 5 / 16))
    votes = [
        (i, k, LETTERS[one]) for i, letters in enumerate(["ff", "fm", "mm", "mf"]) for k, one in enumerate(letters)
    ]
    ratings = pd.DataFrame(votes, columns=["image_id", "rater", "perceived_gender"])
    people = merge_ratings(ratings.assign(identity="nurse", stereotyped_gender="feminine"))["perceived_gender"]
    both = pd.DataFrame({"human": people, "automatic": said})
    assert kappa_finding("", "", both, people.index).estimate.value == kappa.estimate.value
    assert kappa.says == "75.0 % of 4 labels are equal."


def test_what_is_on_record_is_an_answer_of_the_task():
    for look in ("androgynous", "unclear"):
        truth: Mapping[str, object] = {"n_people": 1, "gender": look}
        one = Candidate(image_id="1", identities={}, path=Path("1.png"), number=1, prompt="", truth=truth)
        assert recorded_answers(one, FOUR) == {"single": look}
        assert recorded_answers(one, pst_task(paired=False)) == {"single": CANNOT_IDENTIFY}


def test_people_who_look_androgynous_count_for_neither_side_in_a_corrected_score():
    n, codes = 400, np.tile([1, 1, 0, 1], 100)
    reading = Reading(
        arm="", group="single", attribute=None, image_ids=tuple(map(str, range(n))), positions=("single",) * n,
        codes=codes, stereotypes=("feminine",) * n,
    )  # fmt: skip
    people = np.full(n, np.nan)
    people[:200] = np.where(codes[:200] == 1, np.tile([1, 1, CODES[ANDROGYNOUS]], 67)[:200], 0)
    shares = Corrector(settings=StudySettings(), rater_weights=np.ones((4000, 1)), strata={}).shares(
        reading, people[:, None]
    )
    assert shares is not None
    p_neither = np.mean(people[:200] == CODES[ANDROGYNOUS])
    assert _test_score(shares.value) == pytest.approx(100 * (0.75 - p_neither - 0.25), abs=0.2)
    assert _describe_cannot_tell(reading, shares) == []  # who looks androgynous is not untold
    assert set(reading.only(codes == 1).labels["perceived_gender"]) == {"feminine"}


def test_labels_by_hand_may_be_any_of_the_four():
    import pandas as pd

    people = pd.DataFrame(
        {"image_id": "p", "position": ["left", "right"], "perceived_gender": "not_two_people", "human": None,
         "automatic": "not_two_people", "rater": "automatic"}
    )  # fmt: skip
    step = labels_after(people, ("p", "left"), "androgynous")
    assert step == {("p", "left"): "androgynous", ("p", "right"): CANNOT_IDENTIFY}
    people = people.assign(setting="paired", identity="nurse", stereotyped_gender="feminine")
    assert labels_after(with_answers(people, labels_frame(people, step))[0], ("p", "right"), "unclear") == {
        ("p", "right"): "unclear"
    }


def test_people_who_are_labelled_androgynous_count_for_neither_side_in_the_paired_test(services):
    own = {"aspects": ("occupation",), "masculine": ("carpenter", "mover"), "feminine": ("nurse", "secretary")}
    settings = StudySettings(model="calibration-renderer", options=own)
    drawn = complete(run_study(find_design("pst-fairness"), settings, services))
    on_the_left = drawn.results.frame("labels").query("position == 'left'")["image_id"]
    by_hand = {(image_id, "left"): ("androgynous", "unclear")[i % 2] for i, image_id in enumerate(on_the_left)}
    report = relabelled(drawn, by_hand)
    labels = report.results.frame("labels")
    plain = labels[labels["setting"] == "paired"]
    usable = plain[plain["answer"].isin(("feminine", "masculine", "androgynous"))]
    sides = (usable["answer"] == usable["stereotyped_gender"]).mean()
    against = ((usable["answer"] != usable["stereotyped_gender"]) & (usable["answer"] != "androgynous")).mean()
    score = report.results.findings[0]
    assert score.estimate.value == pytest.approx(100 * (sides - against))
    assert "count for neither side" in score.says
    assert {"androgynous %", "unclear %", "lowest STS", "highest STS"} <= set(report.results.frame("coverage"))
    assert "often than they contradict it: score" in headline(report)
    assert 'value="androgynous"' not in labels_html(Labelling(drawn=drawn))
    page = labels_html(Labelling(drawn=report))
    assert page.count('value="androgynous"') == page.count('value="unclear"') > 0
    assert 'value="cannot_identify"' not in page


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
def machined(tmp_path):
    made = FakeServices(tmp_path)
    made.machine = Machine()
    made.judge = lambda _name: made.machine
    yield made
    made.close()


def report_of(machined, key):
    store = machined.labels
    return label_report(task_progress(store, key), labelled_items(store, key), judge_labels(store, key))


def judged(machined, key):
    return complete(judge_task(machined, machined.labels, key, "org/machine", check=lambda: None))


def test_a_judge_joins_as_a_machine_and_people_agree_as_before(machined, tmp_path):
    store, task = machined.labels, open_task(machined.labels, tmp_path / "pictures", 5, n_gold=2)
    answered(store, task, FEMININE, MIXED, MIXED)
    before, labels = report_of(machined, task.key), rater_labels(store, task.key)
    progress = task_progress(store, task.key)
    assert judged(machined, task.key) == 5
    after = report_of(machined, task.key)
    n = len(before.results.findings)  # as texts: NaN, which an interval may have, equals nothing
    assert repr(after.results.findings[:n]) == repr(before.results.findings)
    assert after.results.frame("raters").equals(before.results.frame("raters"))
    assert after.results.frame("labels").equals(before.results.frame("labels"))
    assert rater_labels(store, task.key).equals(labels)
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


def test_it_is_asked_once_exported_apart_and_deleted_with_the_task(machined, tmp_path):
    store, task = machined.labels, open_task(machined.labels, tmp_path / "pictures", 2)
    judged(machined, task.key)
    n_questions = len(machined.machine.questions)
    assert n_questions == 2 * 2 * 4
    judged(machined, task.key)
    assert len(machined.machine.questions) == n_questions
    assert len(judgements_frame(store, task.key)) == 4
    with zipfile.ZipFile(export_labels(store, task.key, tmp_path / "labels.zip")) as archive:
        assert b"judge: org/machine" in archive.read("judges.csv")
        assert b"judge" not in archive.read("labels.csv")
    delete_task(store, task.key)
    with pytest.raises(NotAllowed):
        judgements_frame(store, task.key)
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM judgements").scalar() == 0


def test_only_the_owner_may_ask_a_judge_and_only_by_its_name(machined, tmp_path):
    mine = open_task(machined.labels, tmp_path / "mine", 1)
    other = open_task(machined.labels, tmp_path / "other", 1)
    stolen = type(mine.key)(task_id=mine.key.task_id, secret=other.key.secret)
    with pytest.raises(NotAllowed):
        judged(machined, stolen)
    with pytest.raises(InvalidInput, match="choose a judge"):
        complete(judge_task(machined, machined.labels, mine.key, "", check=lambda: None))
    assert machined.machine.questions == []


def test_the_button_of_the_tab_asks_it(machined, tmp_path):
    tab, visitor = built(LabelTab, machined), Visitor()
    task = open_task(machined.labels, tmp_path / "pictures", 3)
    answered(machined.labels, task, FEMININE, MIXED, MIXED)
    *_, last = tab.scores.on_judge(visitor, task.key.text, "org/machine", None)
    shown = last[tab.scores.parts["used"]]
    assert "judge: org/machine gave 6 answers" in shown
    assert "counts in no agreement" in shown
    *_, last = tab.scores.on_judge(visitor, task.key.text, "", None)
    assert "choose a judge" in last[tab.scores.parts["status"]]
    visitor.leave()
