"""The Label tab's handlers: a task is made from a run, opened, watched, changed, taken along and used."""

import re
import zipfile
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest

from bias_core.explore.options import explore_settings
from bias_core.explore.tab import ExploreTab
from bias_core.labels.rating import give_answer, join, next_item
from bias_core.labels.results import task_items
from bias_core.labels.tab import LabelTab
from bias_core.labels.tab_make import FIELDS, READY
from bias_core.labels.task_owner import OwnerKey, owned_task
from bias_core.papers.pst.tab import Paired
from bias_core.papers.t2iat.tab import Association
from bias_core.run.history import delete_run, open_run
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design
from bias_core.study.types import StudySettings
from bias_core.types import Attribute
from bias_core.ui.study.parts import button_text
from bias_core.ui.study.shown_report import take
from bias_core.ui.visitor import Visitor
from tests import shared
from tests.explored import explore
from tests.labels.raters import new_id
from tests.ui.tabs import built

services = shared.fake_services

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def tab(services):
    return built(LabelTab, services)


@pytest.fixture(scope="module")
def visitor():
    visitor = Visitor()
    yield visitor
    visitor.leave()


@pytest.fixture(scope="module")
def run(services, visitor):
    design = find_design("pst-occupations")
    return complete(run_study(design, StudySettings(scale=0.01), services, session=visitor.key)).run_id


def values(tab, **changes):
    asked = {name: tab.making.form[name].value for name in FIELDS}
    asked |= {"consent": "You may stop.", "title": "A task", "instructions": "", "content_note": ""}
    return [(asked | changes)[name] for name in FIELDS]


def made(tab, visitor, run, **changes):
    """The owner's key of a new task."""
    told = tab.on_make(visitor, None, None, *values(tab, source=run, **changes))
    assert tab.parts["key"] in told, told[tab.parts["status"]]
    return str(told[tab.parts["key"]])


def opened(tab, services, visitor, run, *said, **changes):
    """The owner's key of a task that is open, once these raters have always said the same."""
    key = made(tab, visitor, run, **changes)
    tab.on_status["open"](visitor, None, key)
    answer_all(services, key, *said)
    return key


def taking(what):
    return SimpleNamespace(take=what)


def picked(index):
    return SimpleNamespace(index=index)


def details(tab, told):
    """Content of the fold of details."""
    return str(tab.answers.show_later("details", told[tab.parts["report"]])[tab.answers.parts["tables"]])


def answer_all(services, key, *answers):
    """Raters who always say the same."""
    _, join_code = owned_task(services.labels, OwnerKey.parse(key))
    for said in answers:
        code = join(services.labels, join_code).code
        turn = next_item(services.labels, code)
        while turn.item:
            choices = {question.position: said for question in turn.questions}
            turn = give_answer(services.labels, code, answer_id=new_id(), item=turn.item, choices=choices)


def test_a_task_is_made_from_a_run_opened_paused_and_closed(tab, services, visitor, run):
    parts, form = tab.parts, tab.making.form
    assert [value for _, value in tab.making.on_sources(visitor)["choices"]] == [run]
    told = tab.making.on_source(visitor, run)
    assert told[form["kind"]] == "pst_paired"
    assert told[form["consent"]].startswith("You are asked what you see")
    n = len(told[form["preview"]]["value"])
    assert f"{n} pictures of this run" in told[form["found"]]
    shown = tab.on_make(visitor, None, None, *values(tab, source=run, n=3, n_gold=1))
    key = shown[parts["key"]]
    assert ("3 raters each" in shown[parts["header"]], shown[parts["asking"]]["open"]) == (True, False)
    assert shown[parts["memory"]][key].startswith("A task")
    _, join_code = owned_task(services.labels, OwnerKey.parse(key))
    assert f'href="label?task={join_code}"' in shown[parts["header"]]
    assert f"#owner={key}" in shown[parts["header"]]
    gold = [item.gold is not None for item in task_items(services.labels, OwnerKey.parse(key))]
    assert (gold.count(False), gold.count(True)) == (3, 1)  # checks come on top
    for status, then in (("open", "closed"), ("paused", "open")):
        tab.on_status[status](visitor, None, key)
        assert owned_task(services.labels, OwnerKey.parse(key))[0].status == status
        assert tab.on_status[then](visitor, None, key)[parts[then]]["visible"] is False


def test_what_cannot_be_made_is_said_in_place(tab, visitor, run):
    for changes, words in (  # of what belongs to the task itself see tests/labels/test_task_owner.py
        ({"source": None}, "choose one of your runs"),
        ({"source": "../../etc"}, "run id may have letters"),
        ({"n": -1}, "or more"),
        ({"raters": "many"}, "number of raters"),
        ({"consent": " "}, "consent is empty"),
        ({"gold": "first: feminine"}, "not a picture"),
        ({"gold": f"1: {EVIL}"}, "is not an answer"),
        ({"kind": "own", "question": "", "answers": "yes\nno"}, "question"),
        ({"kind": "anything"}, "choose a question"),
        ({"n_gold": 1, "share": 0}, "never shown"),
        ({"share": "some"}, "share of attention checks"),
        ({"gold": "999: feminine"}, "picture 999, which is not in this task"),
    ):
        told = tab.on_make(visitor, None, None, *values(tab, **({"source": run} | changes)))
        assert list(told) == [tab.parts["status"]]
        assert words in told[tab.parts["status"]]
        assert "<img" not in told[tab.parts["status"]]


def test_a_picture_is_marked_as_an_attention_check_by_clicking(tab, services, visitor, run):
    checks, gold = tab.making, tab.making.form["gold"]
    parts, asked = checks.parts, ("pst_paired", "", "", "", "")
    told = checks.on_pick(visitor, run, picked(3), *asked, "")
    assert told[parts["picked"]] == 4
    assert "Picture 4" in told[parts["says"]]
    assert "ground truth is known" in told[parts["says"]]
    *shown, third = parts["said"]
    assert told[third]["visible"] is False  # of three people
    known = [told[radio]["value"] for radio in shown]  # what was drawn is filled in
    assert set(known) <= {"feminine", "masculine"}
    assert [told[radio]["label"] for radio in shown] == ["Right answer, left", "Right answer, right"]
    marked = checks.on_mark(4, *asked, "2: cannot identify", *known)
    assert marked[gold] == f"2: cannot_identify, cannot_identify\n4: {', '.join(known)}"
    assert "2 marked" in marked[parts["says"]]
    again = checks.on_pick(visitor, run, picked(1), *asked, marked[gold])
    assert [again[radio]["value"] for radio in shown] == ["cannot_identify"] * 2
    assert checks.on_mark(4, *asked, marked[gold], "not_two_people", None)[gold].endswith(
        "4: not_two_people, not_two_people"  # a picture fails as a whole
    )
    key = made(tab, visitor, run, n=3, n_gold=2, share=30, gold=marked[gold])
    items = task_items(services.labels, OwnerKey.parse(key))
    assert [item.gold is not None for item in items].count(True) == 4  # two marked, two of the record
    assert len(items) == 7
    assert owned_task(services.labels, OwnerKey.parse(key))[0].gold_share == 0.3
    assert checks.on_mark(4, *asked, marked[gold])[gold] == "2: cannot_identify, cannot_identify"


def test_a_mark_that_cannot_be_set_is_said_in_place_and_another_question_forgets_them(tab, visitor, run):
    checks = tab.making
    says, own = checks.parts["says"], ("own", "", "", "Is it day?", "yes\nno")
    for told, words in (
        (checks.on_mark(4, "pst_paired", "", "", "", "", "", "feminine", None), "no answer for right"),
        (checks.on_mark(4, "pst_paired", "", "", "", "", EVIL, "feminine", "feminine"), "is not a picture"),
        (checks.on_pick(visitor, run, picked(10_000), *own, ""), "choose the run again"),
        (checks.on_pick(visitor, None, picked(0), *own, ""), "choose one of your runs"),
        (checks.on_pick(visitor, run, picked(0), "pst_single", "", "", "", "", "1: x"), "is not an answer"),
    ):
        assert words in told[says]
        assert "<img" not in told[says]
    told = checks.on_pick(visitor, run, picked(0), *own, "")
    assert [told[radio]["visible"] for radio in checks.parts["said"]] == [True, False, False]
    assert told[checks.parts["said"][0]]["choices"] == [("yes", "yes"), ("no", "no")]
    for told in (
        tab.making.on_source(visitor, run), tab.making.on_kind(visitor, run, "association", "", "a", "b")
    ):  # fmt: skip
        assert told[tab.making.form["gold"]] == ""
        assert set(told) <= set(tab.making.source_outputs())
    assert "Ground truth is known for" in tab.making.on_source(visitor, run)[tab.making.form["found"]]


def test_the_report_says_how_raters_did_on_the_checks(tab, services, visitor, run):
    gold = {"share": 99, "gold": "1: feminine\n2: feminine\n3: feminine"}
    key = opened(tab, services, visitor, run, "feminine", "masculine", n=3, raters=2, **gold)
    told = tab.on_open(visitor, None, key)
    report = told[tab.parts["report"]]
    tables = {table.key: table.frame for table in report.results.tables}
    checks = tables["checks"]
    assert checks["known"].tolist() == ["feminine"] * 6  # three pictures, two positions
    assert set(checks["right"] / checks["answers"]) <= {0, 0.5, 1}
    assert "1 masculine" in set(checks["said instead"])
    raters = tables["raters"].set_index("known right")
    assert raters["fails checks"].to_dict() == {"3 of 3": False, "0 of 3": True}
    assert "3 of 6 attention checks failed" in told[tab.parts["progress"]]
    assert "Attention checks <small>(6 rows)</small>" in details(tab, told)


def test_another_visitor_sees_neither_the_run_nor_the_task(tab, visitor, run):
    stranger = Visitor()
    assert tab.making.on_sources(stranger)["choices"] == []
    told = tab.on_make(stranger, None, None, *values(tab, source=run))
    assert "no run" in told[tab.parts["status"]]
    key = made(tab, visitor, run)
    for guess in ("", "x", key[:-1] + "x", key.split(".")[0], f"{key.split('.')[0]}.", "' OR 1=1 --"):
        told = tab.on_open(stranger, None, guess)
        assert list(told) == [tab.parts["status"]]
        told = tab.on_status["open"](stranger, None, guess)
        assert list(told) == [tab.parts["status"]]
        assert list(tab.on_take(stranger, guess, None, taking("labels:zip"))) == [tab.parts["status"]]
    assert tab.parts["header"] in tab.on_open(stranger, None, f" {key} ")  # who has the key owns the task
    stranger.leave()


def test_answers_are_shown_compared_taken_along_and_used(tab, services, visitor, run):
    parts, scores = tab.parts, tab.scores
    key = opened(tab, services, visitor, run, n=4, raters=3)
    assert "Not enough answers" in tab.on_open(visitor, None, key)[tab.answers.parts["header"]]
    answer_all(services, key, "feminine", "masculine", "feminine")
    told = tab.on_open(visitor, None, key)
    assert "3 raters" in told[parts["progress"]]
    assert "α" in told[tab.answers.parts["header"]]
    assert "the ground truth" in details(tab, told)
    report = told[parts["report"]]
    for what, name in (
        ("labels:csv", "labels.csv"), ("labels:zip", "labels.zip"), ("table:raters:csv", "-raters.csv"),
        ("figure:raters:svg", "-raters.svg"),
    ):  # fmt: skip
        path = Path(tab.on_take(visitor, key, report, taking(what))[parts["file"]])
        assert path.name.endswith(name)
        assert path.stat().st_size > 100
    with zipfile.ZipFile(visitor.folder / "labels.zip") as archive:
        assert {"README.md", "labels.csv", "labels.jsonl"} <= set(archive.namelist())
    assert "no download named" in tab.on_take(visitor, key, report, taking("labels:../../x"))[parts["status"]]
    key = opened(tab, services, visitor, run, "feminine", raters=1)
    assert run in [value for _, value in tab.on_open(visitor, None, key)[scores.parts["source"]]["choices"]]
    *_, told = scores.on_use(visitor, key, run, None, None)
    assert "In pairs, all occupations" in told[scores.parts["used"]]
    assert "keep the classifier" in told[scores.parts["used"]]  # single people
    *_, told = scores.on_use(visitor, key, None, None, None)
    assert "choose a run" in told[scores.parts["status"]]


def explored(services, visitor, **asked):
    man = Attribute(name="man", positive="a photo of a man", negative="a photo of a woman", reference=0.5)
    asked |= {"attributes": (man,), "model": "calibration-renderer", "attribute_a": "", "attribute_b": ""}
    *_, found = explore(explore_settings(**asked), services, session=visitor.key)
    return found.report


def test_an_exploration_is_corrected_by_people(tab, services, visitor):
    report = explored(services, visitor, concept="doctor", n_images=12)
    assert tab.making.on_source(visitor, report.run_id)[tab.making.form["kind"]] == "own"
    words = {"kind": "own", "question": f"A man? {EVIL}", "answers": "yes\nno", "raters": 1}
    key = opened(tab, services, visitor, report.run_id, **words)
    told = tab.making.on_source(visitor, report.run_id, "", "", "", "Is it?", "certainly\nnever")
    assert "certainly" in told[tab.making.form["seen"]]  # as typed
    offered = tab.on_open(visitor, None, key)
    assert offered[tab.scores.parts["source"]]["value"] == report.run_id  # which the task came from
    assert offered[tab.scores.parts["source"]]["choices"] == tab.making.on_sources(visitor)["choices"][:1]
    assert offered[tab.scores.parts["attribute"]]["value"] == "man"
    chosen = tab.scores.on_run_chosen(visitor, key, report.run_id)
    assert chosen[tab.scores.parts["attribute"]]["value"] == "man"
    present = chosen[tab.scores.parts["present"]]
    assert (present["value"], present["label"]) == (None, "Which answer means “man”?")  # “yes” may mean anything
    *_, told = tab.scores.on_use(visitor, key, report.run_id, "man", None)
    assert "means “man”? Choose it first: yes, no" in told[tab.scores.parts["status"]]
    *_, told = tab.scores.on_use(visitor, key, report.run_id, "man", "yes")
    assert "No one has answered yet" in told[tab.scores.parts["status"]]
    answer_all(services, key, "yes")  # of one kind only: no error rate could be had
    *_, told = tab.scores.on_use(visitor, key, report.run_id, "man", "yes")
    assert "corrected by people" in told[tab.scores.parts["used"]]
    assert 'data-view="label-used"' in told[tab.scores.parts["status"]]


def test_the_answer_with_the_name_of_the_attribute_is_chosen_wherever_it_stands(tab, services, visitor):
    report = explored(services, visitor, concept="doctor", n_images=4)
    words = {"kind": "own", "question": "Who is it?", "answers": "woman\nman\nsomebody", "raters": 1}
    key, present = opened(tab, services, visitor, report.run_id, **words), tab.scores.parts["present"]
    assert tab.on_open(visitor, None, key)[present]["value"] == "man"
    assert tab.scores.on_attribute_chosen(key, "old")[present]["value"] is None


def test_a_report_s_button_makes_its_task_and_shows_what_people_say(tab, services, visitor):
    report = explored(services, visitor, concept="nurse", n_images=12)
    shown = built(ExploreTab, services)
    tab.places = SimpleNamespace(open=lambda key: {"tabs": {"selected": key}})
    people, status = shown.people, shown.parts["status"]
    updates = shown.finished(report)
    assert updates[people.box]["visible"]
    assert updates[people.button] == gr.update(value="Label 12 random pictures, 1 question each", interactive=True)
    assert [value for _, value in updates[people.by]["choices"]] == ["", "man"]
    assert not updates[people.corrected]["visible"]
    press = tab.label_handler(shown)
    assert "run a study first" in press(visitor, None, None, 8, 3, "")[status]
    assert "at least 2 pictures" in press(visitor, None, report, 1, 3, "")[status]
    assert "number of raters" in press(visitor, None, report, 8, "many", "")[status]
    told = press(visitor, None, report, 8, 3, "man")
    key = str(told[tab.parts["key"]])
    assert told["tabs"]["selected"] == "label"
    assert told[people.refresh]["visible"]
    assert "<strong>open</strong>" in told[tab.parts["header"]]
    assert f"({report.run_id}): man" in told[tab.answers.at_once["corrected"]]
    assert "No one has answered yet" in told[tab.answers.at_once["corrected"]]
    answer_all(services, key, "yes", "no", "yes")
    updates = shown.finished(report)
    assert updates[people.corrected]["visible"]
    assert "8 of the 8 pictures" in updates[people.corrected]["value"]
    lead = re.search(
        r"man: P, corrected by people’s labels \(8 of 12, by 3 people\): \d+\s% \[\d+, \d+\]",
        updates[shown.parts["header"]],
    )[0]
    corrected = f"Corrected by people’s labels of 8 of them: {lead.rpartition(': ')[2]} (by 3 people)"
    assert corrected in updates[shown.parts["claim"]]
    written = take(people.extended(report), "report::md", visitor.folder).read_text()
    assert lead.replace("\N{NO-BREAK SPACE}", " ") in written.partition("##")[0]
    assert corrected.replace("\N{NO-BREAK SPACE}", " ") in written
    assert "in equal parts by the classifier on man" in updates[people.corrected]["value"]
    told = tab.on_open(visitor, None, key)
    assert "man: Ψ" in told[tab.answers.at_once["corrected"]]
    assert f"{lead};" in told[tab.answers.parts["header"]].partition("All raters gave")[0]
    assert (
        "man: P, corrected by people’s labels"
        in take(people.extended(report), "report::csv", visitor.folder).read_text()
    )
    assert "man: P" in take(people.extended(report), "table:corrected:csv", visitor.folder).read_text()
    delete_run(services, visitor.key, report.run_id)
    assert "was deleted" in tab.on_open(visitor, None, key)[tab.answers.at_once["corrected"]]
    assert "not on record" in press(visitor, None, report, 4, 3, "")[status]


def test_of_a_paired_test_people_alone_are_asked_about_too(tab, services, visitor, run):
    shown, report = built(Paired, services), open_run(services, visitor.key, run).report
    tab.places = SimpleNamespace(open=lambda key: {"tabs": {"selected": key}})
    choices = [value for _, value in shown.finished(report)[shown.people.by]["choices"]]
    assert choices == ["", "people", "setting=single"]
    press = tab.label_handler(shown)
    for which, position in (("", "left"), ("setting=single", "single")):
        told = press(visitor, None, report, 3, 2, which)
        task, _ = owned_task(services.labels, OwnerKey.parse(told[tab.parts["key"]]))
        assert task.raters_per_item == 2
        assert task.positions[0] == position
        assert task.run_id == run
    assert button_text(3, "setting=single") == "Label 3 pictures of one person"


def test_the_button_names_the_number_of_pictures_of_its_task(tab, services, visitor):
    settings = StudySettings(scale=1e-6, options={"finder": "halves"})
    report = complete(run_study(find_design("pst-occupations"), settings, services, session=visitor.key))
    shown = built(Paired, services)
    tab.places = SimpleNamespace(open=lambda key: {"tabs": {"selected": key}})
    rows = services.manifests.get(report.run_id).rows
    press, pairs = tab.label_handler(shown), [row for row in rows if row.group != "single"]
    updates = shown.finished(report)
    assert updates[shown.people.button]["value"] == f"Label {len(pairs)} random pictures, 2 questions each"
    assert f"Label {len(pairs)} pictures</button> <small>2 questions each</small>" in updates[shown.parts["next"]]
    told = press(visitor, None, report, services.n_to_label(report), 2, "")
    task, _ = owned_task(services.labels, OwnerKey.parse(told[tab.parts["key"]]))
    assert task.sample.startswith(f"{len(pairs)} of {len(pairs)} pictures")
    left = shown.finished(report)[shown.people.button]
    assert left == gr.update(value="No picture is left to label", interactive=False)
    assert services.n_to_label(report, 1_000, "single") == report.n_images - len(pairs)


def test_button_texts_say_which_pictures():
    assert button_text(None, "people") == "Label 0 pictures, by people"


def test_reports_that_people_cannot_correct_have_no_button(services, visitor):
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 50})
    report = complete(run_study(find_design("t2iat-tests"), settings, services, session=visitor.key))
    shown = built(Association, services)
    updates = shown.finished(report)
    assert not updates[shown.people.box]["visible"]
    assert not updates[shown.people.corrected]["visible"]


def test_texts_and_limits_of_joining_are_changed_as_a_new_version_and_shown_as_text(tab, services, visitor, run):
    key = made(tab, visitor, run)
    told = tab.on_change(visitor, None, key, None, EVIL, "Look twice.", "You may stop.", "", 20)
    assert "version 2" in told[tab.parts["status"]]
    assert "&lt;img" in told[tab.parts["header"]]
    assert EVIL not in told[tab.parts["header"]]
    told = tab.on_change(visitor, None, key, None, "", "", "", "", 10)
    assert "title is empty" in told[tab.parts["status"]]
    assert tab.on_return(visitor, None, "", None) == {tab.parts["key"]: "", tab.parts["status"]: READY}
    key = made(tab, visitor, run)
    told = tab.on_change(visitor, None, key, None, "T", "", "You may stop.", "", 10, 30, 60)
    assert "version 2" in told[tab.parts["status"]]
    task, _ = owned_task(services.labels, OwnerKey.parse(key))
    assert (task.joins_per_address, task.joins_per_hour) == (30, 60)
    for bad in (0, -1, 10**30, float("inf"), float("nan"), "many", None, 2.5, [3]):
        told = tab.on_change(visitor, None, key, None, "T", "", "You may stop.", "", 10, bad, 60)
        assert "joins per address" in told[tab.parts["status"]]


def test_an_owner_excludes_a_rater_and_takes_them_back_in(tab, services, visitor, run):
    parts = tab.parts
    key = opened(tab, services, visitor, run, "feminine", "feminine", "masculine", n=3, raters=3)
    told = tab.on_open(visitor, None, key)
    choices = told[parts["rater"]]["choices"]
    bad = choices[2][1]
    shown = tab.on_exclude(visitor, None, key, None, bad)
    assert set(shown) <= set(tab.owned_outputs())
    assert f"{bad} no longer counts" in shown[parts["status"]]
    assert "raters excluded: 1" in shown[parts["progress"]]
    assert "excluded" in shown[parts["rater"]]["choices"][2][0]
    assert bad not in Path(tab.on_take(visitor, key, None, taking("labels:csv"))[parts["file"]]).read_text()
    shown = tab.on_include(visitor, None, key, None, bad)
    assert "raters excluded" not in shown[parts["progress"]]
    for rater, words in ((None, "choose a rater"), ("rater-of-nobody", "no rater"), ("\ud800", "no rater")):
        assert words in tab.on_exclude(visitor, None, key, None, rater)[parts["status"]]
    assert "no task of yours" in tab.on_exclude(visitor, None, key[:-1], None, bad)[parts["status"]]


def test_a_task_is_deleted_when_its_title_is_typed(tab, services, visitor, run):
    parts = tab.parts
    key, other = made(tab, visitor, run), made(tab, visitor, run)
    memory = {key: "A task", other: "Another"}
    for asked, title, words in ((key, "a task", "type its title"), (key[:-1], "A task", "no task of yours")):
        told = tab.on_delete(memory, asked, title)
        assert words in told[parts["status"]]
        assert list(told) == [parts["status"]]
    told = tab.on_delete(memory, key, " A task ")
    assert set(told) <= set(tab.owned_outputs())
    assert "0 answers are deleted" in told[parts["status"]]
    assert (told[parts["key"]], told[parts["memory"]]) == ("", {other: "Another"})
    assert "no task of yours" in tab.on_open(visitor, None, key)[parts["status"]]
    assert tab.on_return(visitor, memory, "", key) == {parts["key"]: "", parts["status"]: READY}
    assert parts["header"] in tab.on_return(visitor, memory, "", other)  # a reload
    assert parts["header"] in tab.on_return(visitor, memory, other, key)  # an owner's link


def test_the_owner_s_key_is_kept_by_the_browser_and_the_report_is_made_anew(tab, services, visitor, run):
    key = made(tab, visitor, run, raters=1)
    assert isinstance(tab.parts["key"], gr.BrowserState)  # a gr.State is gone after 200 other sessions
    tab.on_status["open"](visitor, None, key)
    answer_all(services, key, "feminine")
    event, fresh = taking("table:raters:csv"), Visitor()  # as after the server forgot this session
    assert tab.on_take(fresh, key, None, event)[tab.parts["file"]].endswith("-raters.csv")
    assert "nothing was measured yet" in tab.scores.on_take(fresh, None, event)[tab.scores.parts["status"]]
    fresh.leave()


BAD = (None, -1, 10**400, float("nan"), "\ud800", "x" * 300, "../../etc", [1], b"x")


def test_whatever_an_owner_sends_is_answered_in_words(tab, services, visitor, run):
    key, status = made(tab, visitor, run, n=1), tab.parts["status"]
    for bad in BAD:
        asked = {
            "open": tab.on_open(visitor, None, bad),
            "status": tab.on_status["open"](visitor, None, bad),
            "exclude": tab.on_exclude(visitor, None, key, None, bad),
            "excluding key": tab.on_exclude(visitor, None, bad, None, "x"),
            "delete": tab.on_delete(None, key, bad),
            "deleting key": tab.on_delete(bad, bad, "x"),
            "change": tab.on_change(visitor, None, bad, None, "T", "", "You may stop.", "", 10),
            "take": tab.on_take(visitor, key, None, taking(bad)),
            "source": {status: tab.making.on_source(visitor, bad)[tab.making.status]},
        }
        for name, told in asked.items():
            assert "That did not work" in told[status], (name, bad)
        for name in ("seed", "raters", "kind"):
            told = tab.on_make(visitor, None, None, *values(tab, **{"source": run, "n": 1, name: bad}))
            assert status in told, (name, bad)
        for told in (tab.on_memory(bad), tab.on_open(visitor, bad, key)):
            assert tab.parts["mine"] in told
        tab.making.on_pick(visitor, run, picked(bad), "pst_paired", "a", "b", "", "", "")
        tab.making.on_mark(bad, "pst_paired", "a", "b", "", "", "", "feminine", "masculine")
    assert owned_task(services.labels, OwnerKey.parse(key))[0].status == "draft"


def test_a_task_s_report_is_laid_out_as_a_study_s_with_pictures_by_what_people_say(tab, services, visitor, run):
    key, page = opened(tab, services, visitor, run, n=4, raters=2), tab.answers
    asked = tab.on_open(visitor, None, key)
    assert not asked[page.parts["beside"]]["visible"]  # no answer yet, so no plot
    assert "no answer yet" in asked[page.pictures.grid] or "data:image" in asked[page.pictures.grid]
    answer_all(services, key, "feminine", "masculine")
    told = tab.on_open(visitor, None, key)
    report = told[tab.parts["report"]]
    assert "Majority answers" in told[page.parts["plot"]] or "Raters against" in told[page.parts["plot"]]
    assert told[page.pictures.grid].count("data:image") >= 2
    image_id = next(iter(report.stored))
    assert "people say" in page.pictures.large(report, image_id)
    assert "Coverage" in details(tab, told)
    assert not told[page.parts["shell"]]["visible"]
    path = Path(tab.on_take(visitor, key, report, taking("report::html"))[tab.parts["file"]])
    assert path.stat().st_size > 1000
