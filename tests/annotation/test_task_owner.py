from dataclasses import replace

import pytest

from bias_core.annotation.collected import given_answers, task_items, task_progress
from bias_core.annotation.rating import give_answer, join, next_item, skip, undo
from bias_core.annotation.task_owner import (
    OwnerKey,
    TaskPicture,
    change_task,
    create_task,
    owned_task,
    set_status,
    tasks_of,
)
from bias_core.annotation.tasks import association_task, pst_task
from bias_core.errors import InvalidInput, NotAllowed, StorageError
from tests.annotation.raters import CHOICES, GOLD, new_id, on_both, open_task, pictures

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
    assert [task.id for task in tasks_of(store, "ada")] == [second.task.id, first.task.id]
    assert tasks_of(store, "") == tasks_of(store, "Ada") == tasks_of(store, "' OR ''='") == []
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
        ({"questions": {"left": "Who?", "middle": "Who?"}}, "positions of a task stay"),
        ({"answers": pst_task(paired=True).answers[:2]}, "answer_keys of a task stay"),
        ({"kind": "own"}, "kind of a task stay"),
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
        (replace(good, identities={"left": "nurse"}), "question of right names whom"),
        (replace(good, identities={**good.identities, "middle": "x"}), "'middle' is no position"),
        (replace(good, identities={"left": "x" * 301, "right": "y"}), "301 characters"),
        (replace(good, image_id=""), "image_id is empty"),
        (replace(good, gold={"left": "feminine"}), "no answer for right"),
        (replace(good, gold=GOLD), "nothing to ask"),
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
