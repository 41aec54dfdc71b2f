"""Tasks, who owns them, and what an owner changes, excludes and deletes."""

import json
import re
import unicodedata
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.labels import label_store as schema, task_owner
from bias_core.labels.rating import delete_my_answers, find_picture_hash, give_answer, join, next_item, skip, undo
from bias_core.labels.report import label_report, rater_labels
from bias_core.labels.results import (
    answers_frame,
    export_labels,
    given_answers,
    labelled_items,
    task_items,
    task_progress,
)
from bias_core.labels.task_owner import (
    OwnerKey,
    TaskPicture,
    change_task,
    create_task,
    delete_task,
    exclude_rater,
    list_user_tasks,
    owned_task,
    picture_path,
    set_status,
)
from bias_core.measures.paired_stereotype import ANSWERS, NOT_TWO_PEOPLE
from bias_core.study.label_tasks import (
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
from tests.labels.raters import (
    CHOICES,
    FAILED,
    GOLD,
    counts_are_right,
    every_row,
    n_rows,
    new_id,
    on_both,
    one_rater,
    open_task,
    pictures,
    say,
    say_all,
)

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
        for task in (four, two):  # every answer but the looks of the question, and no other
            assert set(re.findall("[“'](.*?)[”']", task.instructions.replace("n't", ""))) == {
                answer.label for answer in task.answers[2:]
            }
        assert len({answer.shortcut for answer in four.answers}) == 5
        assert task_from(task_texts(four)) == checked_task(four)
    with pytest.raises(InvalidInput, match="looks are two or four"):
        pst_task(paired=True, looks="three")


HOSTILE = "<img src=x onerror=alert(1)>'; DROP TABLE tasks; -- =cmd|'/c calc'!A0 {0.__class__} ␀ 😀"


def test_a_task_begins_as_a_draft_that_nobody_can_join(store, tmp_path):
    made = create_task(store, pst_task(paired=True), pictures(tmp_path, 3, n_gold=1))
    assert (made.task.status, made.task.version, len(made.task.id)) == ("draft", 1, 16)
    assert made.task.created == "2025-06-15T15:06:40.000Z"
    assert owned_task(store, made.key) == (made.task, made.join_code)
    with pytest.raises(NotAllowed, match="not open yet"):
        join(store, made.join_code)
    found = task_items(store, made.key)
    assert [item.image_id for item in found] == [f"picture-{i}" for i in range(4)]
    assert [item.gold for item in found] == [None, None, None, GOLD]
    assert found[0].identities == {"left": "nurse 0", "right": "CEO"}


@on_both
def test_nobody_else_reaches_a_task(store, tmp_path):
    ours, theirs = open_task(store, tmp_path, 2), open_task(store, tmp_path, 2)
    rater = join(store, ours.join_code).code
    secrets = ("", theirs.key.secret, ours.join_code, rater, ours.key.secret[:-1], "\ud800")
    wrong = [
        *(OwnerKey(task_id=ours.task.id, secret=secret) for secret in secrets),
        *(OwnerKey(task_id=other, secret=ours.key.secret) for other in ("' OR 1=1 --", "\x00")),
        OwnerKey(task_id=ours.task.id, hub_user="somebody"),
        *(OwnerKey.parse(text) for text in ("", "../../" + ours.key.text)),
    ]
    for key in wrong:
        for act in (owned_task, task_progress, given_answers, task_items):
            with pytest.raises(NotAllowed, match="opens no task of yours"):
                act(store, key)
        with pytest.raises(NotAllowed):
            set_status(store, key, "closed")
        with pytest.raises(NotAllowed):
            change_task(store, key, ours.task)
    assert owned_task(store, ours.key)[0].status == "open"


@on_both
def test_a_hub_user_opens_the_tasks_they_made_and_no_other(store, tmp_path, clock):
    first = create_task(store, pst_task(paired=True), pictures(tmp_path, 1), hub_user="ada")
    clock.now += 1
    second = create_task(store, pst_task(paired=True), pictures(tmp_path, 1), hub_user="ada")
    open_task(store, tmp_path, 1)
    assert [task.id for task in list_user_tasks(store, "ada")] == [second.task.id, first.task.id]
    assert list_user_tasks(store, "") == list_user_tasks(store, "Ada") == list_user_tasks(store, "' OR ''='") == []
    assert owned_task(store, OwnerKey(task_id=first.task.id, hub_user="ada"))[0] == first.task
    for name in ("", "Ada", "ad", "ada\x00"):
        with pytest.raises(NotAllowed):
            owned_task(store, OwnerKey(task_id=first.task.id, hub_user=name))


@on_both
def test_hostile_texts_are_only_texts(store, tmp_path):
    texts = dict.fromkeys(("title", "instructions", "consent", "content_note"), HOSTILE)
    task = pst_task(paired=True, **texts, questions={"left": f"{HOSTILE} {{}}", "right": HOSTILE})
    (picture,) = pictures(tmp_path, 1)
    picture = replace(picture, image_id=HOSTILE, identities={"left": HOSTILE, "right": HOSTILE})
    made = create_task(store, task, [picture])
    set_status(store, made.key, "open")
    code = join(store, made.join_code).code
    turn = next_item(store, code)
    assert turn.questions[0].text == f"{HOSTILE} {HOSTILE}"  # put in, never interpreted
    give_answer(store, code, answer_id=new_id(), item=turn.item, choices=CHOICES)
    (kept,) = given_answers(store, made.key)
    assert kept.item.image_id == HOSTILE
    assert kept.item.identities["left"] == HOSTILE
    assert {getattr(owned_task(store, made.key)[0], name) for name in texts} == {HOSTILE}


@on_both
def test_progress_counts_what_holds(store, tmp_path, clock):
    made = open_task(store, tmp_path, 3, raters_per_item=2)
    codes = [join(store, made.join_code).code for _ in range(3)]
    turn = next_item(store, codes[0])
    for milliseconds in (1000, 2000, 9000):
        clock.now += 10
        answer = {"answer_id": new_id(), "item": turn.item, "choices": CHOICES, "duration_ms": milliseconds}
        turn = give_answer(store, codes[0], **answer)
    undo(store, codes[0], answer_id=new_id())
    turn = next_item(store, codes[1])
    skip(store, codes[1], answer_id=new_id(), item=turn.item)
    found = task_progress(store, made.key)
    assert (found.n_items, found.n_wanted, found.n_answers, found.n_complete) == (3, 6, 2, 0)
    assert [(one.n_answered, one.n_skipped) for one in found.raters] == [(2, 0), (0, 1), (0, 0)]
    assert found.raters[0].median_seconds == 1.5
    assert len({one.rater for one in found.raters}) == 3


def test_a_new_version_asks_the_same_and_only_known_states_are_set(store, tmp_path):
    made = open_task(store, tmp_path, 1)
    for changes, message in (
        ({"title": ""}, "title is empty"),
        ({"questions": {"left": "Who?", "middle": "Who?"}}, "positions of a task cannot change"),
        ({"answers": pst_task(paired=True).answers[:2]}, "answer_keys of a task cannot change"),
        ({"kind": "own"}, "kind of a task cannot change"),
    ):
        with pytest.raises(InvalidInput, match=message):
            change_task(store, made.key, replace(made.task, **changes))
    for status in ("draft", "deleted", "", "open; DROP TABLE tasks"):
        with pytest.raises(InvalidInput, match="open, paused or closed"):
            set_status(store, made.key, status)
    kept = owned_task(store, made.key)[0]
    assert (kept.version, kept.status, kept.title) == (1, "open", made.task.title)


def test_pictures_that_do_not_fit_the_question_are_refused(store, tmp_path):
    task, (good,) = pst_task(paired=True), pictures(tmp_path, 1)
    for bad, message in (
        (replace(good, identities={"left": "nurse"}), "question of right names the person"),
        (replace(good, identities={**good.identities, "middle": "x"}), "'middle' is not a position"),
        (replace(good, identities={"left": "x" * 301, "right": "y"}), "301 characters"),
        (replace(good, image_id=""), "image_id is empty"),
        (replace(good, gold={"left": "feminine"}), "no answer for right"),
        (replace(good, gold=GOLD), "is an attention check"),
    ):
        with pytest.raises(InvalidInput, match=message):
            create_task(store, task, [bad])
    with pytest.raises(InvalidInput, match="got 0"):
        create_task(store, task, [])
    with pytest.raises(StorageError, match=r"gone\.png"):
        create_task(store, task, [replace(good, path=tmp_path / "gone.png")])


def test_an_attention_item_asks_a_question_of_its_own(store, tmp_path):
    first, second = pictures(tmp_path, 2)
    question = "This is a check: please choose “pleasant”."
    gold = {"picture": "pleasant"}
    check = TaskPicture(path=second.path, image_id="check", identities={}, gold=gold, question=question)
    plain = TaskPicture(path=first.path, image_id="one", identities={})
    made = create_task(store, association_task("pleasant", "unpleasant", gold_share=0.99), [plain, check])
    set_status(store, made.key, "open")
    assert next_item(store, join(store, made.join_code).code).questions[0].text == question


OTHER = {"left": "masculine", "right": "feminine"}


def answered(store, task, *said):
    """A rater for each of these, who says the same of every picture that is left."""
    codes = []
    for choices in said:
        codes.append(join(store, task.join_code).code)
        say_all(store, codes[-1], choices)
    return codes


def names(store, task):
    return [one.rater for one in task_progress(store, task.key).raters]


def n_left(store):
    return {name: n_rows(store, name) for name in schema.metadata.tables}


@on_both
def test_an_excluded_rater_s_answers_stay_are_marked_and_count_in_nothing(store, tmp_path):
    task = open_task(store, tmp_path, 5, n_gold=1, raters_per_item=3)
    answered(store, task, CHOICES, CHOICES, OTHER)
    before = label_report(task_progress(store, task.key), labelled_items(store, task.key))
    bad = names(store, task)[2]
    exclude_rater(store, task.key, bad)
    exclude_rater(store, task.key, bad)  # once more changes nothing
    progress = task_progress(store, task.key)
    assert (progress.n_answers, progress.n_complete, progress.n_excluded_answers) == (10, 0, 5)
    assert [one.excluded for one in progress.raters] == [False, False, True]
    assert [one.rater for one in progress.counted_raters] == names(store, task)[:2]
    assert bad not in set(rater_labels(store, task.key)["rater"])
    assert bad not in {one.rater for one in given_answers(store, task.key)}
    assert {one.rater for one in given_answers(store, task.key, excluded=True)} == {bad}
    report = label_report(progress, labelled_items(store, task.key))
    alphas = [r.results.findings[0].estimate.value for r in (before, report)]
    assert alphas[0] < 0.5
    assert alphas[1] == 1.0
    assert [(one.n_images, one.n_planned) for one in (before, report)] == [(5, 5)] * 2
    assert "5 of 5 pictures have an answer, 0 have all 3." in report.results.notes
    assert not any("have an answer" in note for note in before.results.notes)
    table = report.results.tables[0].frame.set_index("rater")
    assert table.loc[bad, "excluded"]
    assert table.loc[bad, "compared"] == 0
    with zipfile.ZipFile(export_labels(store, task.key, tmp_path / "labels.zip")) as archive:
        assert bad in archive.read("excluded.csv").decode()
        assert bad not in archive.read("labels.csv").decode()
        assert bad not in archive.read("label_studio/tasks.json").decode()
        assert "The owner excluded" in archive.read("README.md").decode()
    exclude_rater(store, task.key, bad, excluded=False)
    after = task_progress(store, task.key)
    assert (after.n_answers, after.n_complete, after.n_excluded_answers) == (15, 5, 0)
    assert len(answers_frame(store, task.key, excluded=True)) == 0
    assert counts_are_right(store)


def test_others_are_asked_in_place_of_an_excluded_rater_who_is_told(store, tmp_path):
    task, code = one_rater(store, tmp_path, 3, raters_per_item=1)
    turn = say(store, code, next_item(store, code), FAILED)
    exclude_rater(store, task.key, names(store, task)[0])
    assert counts_are_right(store)
    told = next_item(store, code)
    assert (told.item, told.why_done, told.n_answered, told.can_undo) == ("", "excluded", 1, False)
    for act in (
        lambda: say(store, code, turn),
        lambda: skip(store, code, answer_id=new_id(), item=turn.item),
        lambda: undo(store, code, answer_id=new_id()),
    ):
        with pytest.raises(NotAllowed, match="ended your part"):
            act()
    answered(store, task, CHOICES)
    progress = task_progress(store, task.key)
    assert (progress.n_complete, progress.n_answers, progress.n_excluded_answers) == (3, 3, 1)
    exclude_rater(store, task.key, names(store, task)[0], excluded=False)
    assert counts_are_right(store)
    exclude_rater(store, task.key, names(store, task)[0])
    assert delete_my_answers(store, code) == 1  # always
    assert counts_are_right(store)


@on_both
def test_only_raters_of_the_task_are_excluded_by_its_owner(store, tmp_path):
    task, other = open_task(store, tmp_path, 1), open_task(store, tmp_path, 1)
    join(store, other.join_code)
    wrong = ("", "rater-000000000000", "' OR 1=1 --", "\ud800", "x" * 300, None, 7, ["a"])
    for name in (*wrong, names(store, other)[0]):
        with pytest.raises(InvalidInput, match="no rater"):
            exclude_rater(store, task.key, name)
    with pytest.raises(NotAllowed):
        exclude_rater(store, OwnerKey(task_id=other.task.id, secret="x"), names(store, other)[0])


@on_both
def test_a_deleted_task_leaves_nothing_but_how_much_it_was(store, tmp_path, monkeypatch):
    monkeypatch.setattr(task_owner, "_AT_ONCE", 2)  # in portions
    task = open_task(store, tmp_path / "a", 5, raters_per_item=3)
    kept = open_task(store, tmp_path / "a", 2, raters_per_item=3)  # shows two of the same pictures
    codes = answered(store, task, CHOICES, OTHER, CHOICES)
    undo(store, codes[0], answer_id=new_id())
    answered(store, kept, CHOICES)
    shown = {one.item.picture for one in given_answers(store, task.key)}
    also = {one.item.picture for one in given_answers(store, kept.key)}
    with pytest.raises(NotAllowed):
        delete_task(store, OwnerKey(task_id=task.task.id, secret=kept.key.secret))
    assert delete_task(store, task.key) == 14
    assert {name for name in shown if picture_path(store.pictures, name).is_file()} == also
    left = n_left(store)
    assert (left["items"], left["raters"], left["answers"], left["task_versions"]) == (2, 1, 2, 1)
    assert left["deletions"] == 3  # so that copies on a hub drop them
    for act in (owned_task, task_progress, delete_task):
        with pytest.raises(NotAllowed):
            act(store, task.key)
    for refused in (lambda: join(store, task.join_code), lambda: next_item(store, codes[0])):
        with pytest.raises(NotAllowed):
            refused()
    assert len(given_answers(store, kept.key)) == 2
    assert picture_path(store.pictures, find_picture_hash(store, next_shown(store, kept))).is_file()
    (texts,) = every_row(store)["task_versions"]
    assert kept.task.id in texts


def next_shown(store, task):
    return next_item(store, join(store, task.join_code).code).item


def test_a_deletion_that_was_interrupted_is_finished_by_asking_again(store, tmp_path, monkeypatch):
    task, code = one_rater(store, tmp_path, 3)
    give_answer(store, code, answer_id=new_id(), item=next_item(store, code).item, choices=CHOICES)
    with monkeypatch.context() as killed:
        killed.setattr(task_owner, "remove_raters", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            delete_task(store, task.key)
    assert owned_task(store, task.key)[0].status == "closed"
    assert delete_task(store, task.key) == 1


def test_a_task_made_while_another_with_its_pictures_goes_has_them(store, tmp_path, monkeypatch):
    gone, real = open_task(store, tmp_path, 2), task_owner._keep_version

    def deleted_meanwhile(*arguments):
        for path in store.pictures.rglob("*.png"):
            path.unlink()
        real(*arguments)

    monkeypatch.setattr(task_owner, "_keep_version", deleted_meanwhile)
    made = open_task(store, tmp_path, 2)
    monkeypatch.undo()
    set_status(store, gone.key, "closed")
    assert picture_path(store.pictures, find_picture_hash(store, next_shown(store, made))).is_file()
