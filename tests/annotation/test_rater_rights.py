"""Whose answers are whose: codes, deletion, what is refused, and many raters at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from bias_core.annotation.collected import given_answers, task_progress
from bias_core.annotation.rating import (
    code_in_groups,
    delete_my_answers,
    join,
    next_item,
    picture_of,
    plain_code,
    skip,
    task_of,
    task_to_join,
    undo,
)
from bias_core.annotation.task_owner import OwnerKey, change_task, owned_task, set_status
from bias_core.errors import InvalidInput, NotAllowed
from tests.annotation.raters import (
    counts_are_right,
    every_row,
    n_rows,
    new_id,
    on_both,
    one_rater,
    open_task,
    say,
    say_all,
)

# What somebody might try in place of an id, a token or a text.
TRICKS = (
    "", "1", "' OR 1=1 --", "x'; DROP TABLE answers; --", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "/etc/passwd",
    "C:\\Windows\\win.ini", "<script>alert(1)</script>", "{0.__class__}", "%s%s%n", "\x00", "𝟙" * 30, "a" * 5000,
    "\ud800",
)  # fmt: skip


def test_a_rater_goes_on_on_another_device_with_the_code_alone(store, tmp_path):
    task, code = one_rater(store, tmp_path)
    turn = say(store, code, next_item(store, code))
    typed = f"  {code.lower().replace('-', ' ')} "
    assert next_item(store, typed) == turn
    assert task_of(store, typed)[0].title == task.task.title
    assert undo(store, typed, answer_id=new_id()).n_answered == 0


def test_codes_and_secrets_are_long_and_kept_as_a_hash_only(store, tmp_path):
    task = open_task(store, tmp_path, 5)
    assert len(task.key.secret) == 43  # 32 bytes: 256 bits
    assert len(task.join_code) == 24  # 18 bytes: 144 bits
    assert OwnerKey.parse(f" {task.key.text}\n") == task.key
    codes = [join(store, task.join_code).code for _ in range(5)]
    assert {len(plain_code(code)) for code in codes} == {20}  # 20 letters of 32: 100 bits
    assert {code_in_groups(plain_code(code)) for code in codes} == set(codes)
    rows = str(every_row(store))
    for secret in (*codes, *map(plain_code, codes), task.key.secret):
        assert secret not in rows


@on_both
def test_deleting_removes_every_row_and_leaves_a_number(store, tmp_path):
    task = open_task(store, tmp_path, 5, raters_per_item=1)
    gone, stays = (join(store, task.join_code).code for _ in range(2))
    turn = say(store, gone, next_item(store, gone))
    turn = say(store, gone, turn)
    undo(store, gone, answer_id=new_id())
    say(store, stays, next_item(store, stays))
    assert delete_my_answers(store, gone) == 1
    for act in (
        lambda: next_item(store, gone),
        lambda: say(store, gone, turn),
        lambda: delete_my_answers(store, gone),
        lambda: picture_of(store, turn.item),
    ):
        with pytest.raises(NotAllowed):
            act()
    progress = task_progress(store, task.key)
    assert (progress.n_deleted_raters, progress.n_deleted_answers, len(progress.raters)) == (1, 1, 1)
    assert [n_rows(store, table) for table in ("raters", "answers", "deletions")] == [1, 1, 1]
    assert counts_are_right(store)
    assert say_all(store, stays).n_answered == 5  # what the other had is there for others


def test_what_was_deleted_is_nowhere_in_the_files(make_store, tmp_path):
    store = make_store("sqlite")
    _, code = one_rater(store, tmp_path / "originals")
    say(store, code, next_item(store, code), answer_id="find-me-if-you-can")
    files = list(tmp_path.glob("labels-0.sqlite*"))
    assert any(b"find-me-if-you-can" in file.read_bytes() for file in files)
    delete_my_answers(store, code)
    store.close()
    assert not any(b"find-me-if-you-can" in file.read_bytes() for file in tmp_path.glob("labels-0.sqlite*"))


def test_a_task_can_be_paused_and_closed(store, tmp_path):
    for status, is_open, may_answer in (("open", True, True), ("paused", False, True), ("closed", False, False)):
        task = open_task(store, tmp_path, 5)
        code, fresh = (join(store, task.join_code).code for _ in range(2))
        turn = next_item(store, code)
        set_status(store, task.key, status)
        assert works(lambda key=task.join_code: join(store, key)) == is_open
        assert (next_item(store, fresh).item != "") == is_open
        assert next_item(store, fresh).why_done == ("" if is_open else status)
        assert works(lambda shown=(code, turn): say(store, *shown)) == may_answer
        assert task_to_join(store, task.join_code)[1] == status
        delete_my_answers(store, code)  # always


def works(act):
    try:
        act()
    except NotAllowed:
        return False
    return True


@on_both
def test_answers_keep_the_version_that_was_shown(store, tmp_path):
    task, code = one_rater(store, tmp_path)
    shown = next_item(store, code)
    change_task(store, task.key, replace(task.task, title="Another title"))
    assert next_item(store, code).task.title == task.task.title  # what is on the screen stays
    after = say(store, code, shown)
    assert after.task.title == "Another title"
    say(store, code, after)
    assert [one.task_version for one in given_answers(store, task.key)] == [1, 2]
    assert owned_task(store, task.key)[0].version == 2


@on_both
def test_no_trick_in_place_of_an_id_opens_anything(store, tmp_path):
    _, code = one_rater(store, tmp_path)
    turn = next_item(store, code)
    before = every_row(store)
    changed = [text[:-1] + ("1" if text[-1] != "1" else "2") for text in (plain_code(code), turn.item)]
    for trick in (*TRICKS, *changed, code[:-1], turn.item[1:]):
        acts = (
            lambda text: join(store, text), lambda text: task_to_join(store, text),
            lambda text: next_item(store, text), lambda text: delete_my_answers(store, text),
            lambda text: picture_of(store, text), lambda text: say(store, text, turn),
            lambda text: say(store, code, turn, item=text),
            lambda text: skip(store, code, answer_id=new_id(), item=text),
        )  # fmt: skip
        for act in acts:
            with pytest.raises(NotAllowed) as refused:
                act(trick)
            assert len(str(refused.value)) < 300
    for trick in TRICKS:
        with pytest.raises(InvalidInput, match="answer's id"):
            say(store, code, turn, answer_id=trick)
    assert every_row(store) == before


def test_nobody_reaches_another_raters_items(store, tmp_path):
    task = open_task(store, tmp_path, 5)
    ours, theirs = (join(store, task.join_code).code for _ in range(2))
    turn, other = next_item(store, ours), next_item(store, theirs)
    for act in (lambda: say(store, ours, other), lambda: skip(store, ours, answer_id=new_id(), item=other.item)):
        with pytest.raises(NotAllowed, match="not shown to you"):
            act()
    say(store, ours, turn)
    with pytest.raises(InvalidInput, match="nothing to take back"):
        undo(store, theirs, answer_id=new_id())
    delete_my_answers(store, theirs)
    assert len(given_answers(store, task.key)) == 1


@on_both
def test_raters_at_once_lose_nothing_and_double_nothing(store, tmp_path):
    n_raters, n_items, per_item = 8, 12, 3
    task = open_task(store, tmp_path, n_items, raters_per_item=per_item)
    acknowledged = []

    def work(_):
        code = join(store, task.join_code).code
        turn = next_item(store, code)
        while turn.item:
            answer_id, shown = new_id(), turn
            for _ in range(2):  # every request is sent twice
                turn = say(store, code, shown, answer_id=answer_id)
                acknowledged.append(answer_id)

    with ThreadPoolExecutor(n_raters) as pool:
        list(pool.map(work, range(n_raters)))
    kept = given_answers(store, task.key)
    assert len(kept) == len(set(acknowledged)) == n_items * per_item
    assert set(Counter(one.item.id for one in kept).values()) == {per_item}
    assert max(Counter((one.rater, one.item.id) for one in kept).values()) == 1
    assert counts_are_right(store)


@on_both
def test_one_rater_on_two_devices_answers_each_item_once(store, tmp_path):
    task, code = one_rater(store, tmp_path, 12)

    def work(_):
        turn = next_item(store, code)
        while turn.item:
            with suppress(InvalidInput):  # the other device was quicker
                say(store, code, turn)
            turn = next_item(store, code)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    kept = given_answers(store, task.key)
    assert len(kept) == len({one.item.id for one in kept}) == 12
    assert counts_are_right(store)
