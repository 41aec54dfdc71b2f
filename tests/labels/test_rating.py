"""Screens and answers of raters, their owners, refusals, and many raters at once."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from bias_core.errors import InvalidInput, NotAllowed
from bias_core.labels.rating import (
    RELEASE_AFTER_SECONDS,
    UNTOUCHED_SECONDS,
    code_in_groups,
    delete_my_answers,
    find_picture_hash,
    get_task,
    join,
    next_item,
    plain_code,
    skip,
    task_to_join,
    undo,
)
from bias_core.labels.results import given_answers, task_progress
from bias_core.labels.task_owner import OwnerKey, change_task, owned_task, set_status
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
    say,
    say_all,
)


def test_a_rater_answers_everything_once_and_is_done(store, tmp_path):
    task, code = one_rater(store, tmp_path)
    turn, seen = next_item(store, code), []
    for i in range(5):
        assert (turn.n_answered, turn.n_left, turn.can_undo, turn.why_done) == (i, 5 - i, i > 0, "")
        assert next_item(store, code).item == turn.item  # asked again, the same
        seen.append(turn.questions[0].identity)
        turn = say(store, code, turn)
    assert (turn.item, turn.questions, turn.why_done) == ("", (), "all")
    assert (turn.n_answered, turn.n_left) == (5, 0)
    assert sorted(seen) == [f"nurse {i}" for i in range(5)]
    kept = given_answers(store, task.key)
    assert [(one.choices, one.seconds, one.task_version) for one in kept] == [(CHOICES, 0.5, 1)] * 5
    assert {one.item.image_id for one in kept} == {f"picture-{i}" for i in range(5)}


def test_a_rater_sees_nothing_but_the_picture_the_identity_and_how_far_they_are(store, tmp_path):
    task = open_task(store, tmp_path, 1)
    codes = [join(store, task.join_code).code for _ in range(2)]
    first, second = (next_item(store, code) for code in codes)
    assert set(vars(first)) == {
        "item", "questions", "task", "earlier_choices", "n_answered", "n_left", "can_undo", "why_done",
        "asks_about_rater", "crowd_code",
    }  # fmt: skip
    assert first.questions[0].text == "Does the nurse 0 on the left demonstrate feminine or masculine traits?"
    assert first.questions[1].text == "Does the CEO on the right demonstrate feminine or masculine traits?"
    say(store, codes[0], first)
    assert vars(next_item(store, codes[1])) == vars(second)  # the other's answer leaves no trace
    assert first.item != second.item  # nor does the address of the picture tell that it is the same
    assert find_picture_hash(store, first.item) == find_picture_hash(store, second.item)
    assert "picture-0" not in repr(first)


def test_raters_see_items_in_an_order_of_their_own(store, tmp_path):
    task = open_task(store, tmp_path, 12, raters_per_item=50)
    orders = []
    for _ in range(2):
        code = join(store, task.join_code).code
        turn, order = next_item(store, code), []
        while turn.item:
            order.append(turn.questions[0].identity)
            turn = say(store, code, turn)
        orders.append(tuple(order))
    assert len(set(orders)) == 2  # equal by chance once in 12! = 479 million
    assert all(len(set(order)) == 12 for order in orders)


@on_both
def test_the_least_answered_items_come_first_and_none_goes_to_too_many(store, tmp_path):
    task = open_task(store, tmp_path, 4, raters_per_item=2)
    codes = [join(store, task.join_code).code for _ in range(3)]
    turn = next_item(store, codes[0])
    first_two = []
    for _ in range(2):
        first_two.append(turn.questions[0].identity)
        turn = say(store, codes[0], turn)
    on_screen = turn.questions[0].identity
    turn = next_item(store, codes[1])
    assert turn.questions[0].identity not in [*first_two, on_screen]  # the only one that nobody has
    say_all(store, codes[1])
    say_all(store, codes[0])
    assert next_item(store, codes[2]).why_done == "all"  # every item has its two
    progress = task_progress(store, task.key)
    assert (progress.n_complete, progress.n_answers, progress.n_wanted) == (4, 8, 8)
    assert counts_are_right(store)


@on_both
def test_any_item_with_the_fewest_raters_may_be_the_next_and_none_comes_again(store, tmp_path, monkeypatch):
    task = open_task(store, tmp_path, 5)
    first = join(store, task.join_code).code
    seen = [next_item(store, first)]
    seen.append(say(store, first, seen[0]))
    fewest = {f"nurse {i}" for i in range(5)} - {turn.questions[0].identity for turn in seen}
    places = []
    for pick in range(6):
        monkeypatch.setattr("bias_core.labels.rating.secrets.randbelow", lambda _, pick=pick: pick)
        code = join(store, task.join_code).code
        turn = next_item(store, code)
        shown = [turn.questions[0].identity]
        for _ in range(2):  # skipped, they have the fewest raters again
            turn = skip(store, code, answer_id=new_id(), item=turn.item)
            shown.append(turn.questions[0].identity)
        assert set(shown) == fewest, pick
        places.append(shown[0])
        delete_my_answers(store, code)
    assert set(places[:3]) == fewest
    assert places[:3] == places[3:]


@on_both
def test_an_answer_sent_again_changes_nothing(store, tmp_path):
    task, code = one_rater(store, tmp_path)
    turn = next_item(store, code)
    once = say(store, code, turn, answer_id="the-same-id")
    again = say(store, code, turn, answer_id="the-same-id")
    late = say(store, code, turn, FAILED, answer_id="the-same-id")  # what was said first holds
    assert once == again == late
    assert [one.choices for one in given_answers(store, task.key)] == [CHOICES]
    with pytest.raises(InvalidInput, match="another act"):
        undo(store, code, answer_id="the-same-id")
    with pytest.raises(InvalidInput, match="answered or skipped this picture already"):
        say(store, code, turn)
    other = join(store, task.join_code).code  # two raters may make the same id
    say(store, other, next_item(store, other), answer_id="the-same-id")
    assert len(given_answers(store, task.key)) == 2


@on_both
def test_undo_is_a_new_row_and_shows_the_item_again(store, tmp_path):
    task, code = one_rater(store, tmp_path)
    first = next_item(store, code)
    second = say(store, code, first)
    third = skip(store, code, answer_id=new_id(), item=second.item)
    back = undo(store, code, answer_id="undo-skip")
    assert back == undo(store, code, answer_id="undo-skip")  # sent again
    assert (back.item, dict(back.earlier_choices), back.n_answered) == (second.item, {}, 1)
    back = undo(store, code, answer_id=new_id())
    assert (back.item, back.earlier_choices, back.n_answered) == (first.item, CHOICES, 0)
    assert not back.can_undo
    with pytest.raises(InvalidInput, match="nothing to take back"):
        undo(store, code, answer_id=new_id())
    assert given_answers(store, task.key) == []
    again = say(store, code, back, FAILED)
    assert again.item == second.item  # and on from where they were
    assert say(store, code, again).item == third.item
    assert [one.choices for one in given_answers(store, task.key)] == [FAILED, CHOICES]
    assert n_rows(store, "answers") == 6  # answer, skip, undo, undo, answer, answer: nothing was overwritten
    assert counts_are_right(store)


def test_a_skipped_item_goes_to_others_and_does_not_come_back(store, tmp_path):
    task = open_task(store, tmp_path, 2, raters_per_item=1)
    ours, theirs = (join(store, task.join_code).code for _ in range(2))
    turn = next_item(store, ours)
    skipped = turn.questions[0].identity
    turn = skip(store, ours, answer_id=new_id(), item=turn.item)
    assert say(store, ours, turn).why_done == "all"
    assert next_item(store, theirs).questions[0].identity == skipped
    assert counts_are_right(store)


def test_what_lies_on_a_screen_for_long_is_given_to_others_and_may_still_be_answered(store, tmp_path, clock):
    task = open_task(store, tmp_path, 1, raters_per_item=1)
    slow, quick = (join(store, task.join_code).code for _ in range(2))
    left = next_item(store, slow)
    assert next_item(store, quick).why_done == "all"
    clock.now += RELEASE_AFTER_SECONDS + 1
    say(store, quick, next_item(store, quick))
    say(store, slow, left)
    assert len(given_answers(store, task.key)) == 2
    assert counts_are_right(store)


@on_both
def test_who_joins_and_does_nothing_keeps_no_picture_for_long(store, tmp_path, clock):
    task = open_task(store, tmp_path, 5, raters_per_item=1)
    honest = join(store, task.join_code).code
    say(store, honest, next_item(store, honest))
    mine = next_item(store, honest).item
    script = [join(store, task.join_code).code for _ in range(3)]
    for code in script:
        assert next_item(store, code).item
    late = join(store, task.join_code).code
    assert next_item(store, late).why_done == "all"
    clock.now += UNTOUCHED_SECONDS + 1
    assert next_item(store, late).item
    assert next_item(store, honest).item == mine  # who has answered has half an hour
    assert say(store, script[0], next_item(store, script[0]))  # and a slow newcomer may still answer
    assert counts_are_right(store)


@on_both
def test_a_picture_released_by_the_clock_is_offered_again_to_who_left_it(store, tmp_path, clock):
    task = open_task(store, tmp_path, 2, raters_per_item=1)
    slow, other = (join(store, task.join_code).code for _ in range(2))
    left = next_item(store, slow)
    turn = say(store, other, next_item(store, other))
    assert turn.why_done == "all"
    clock.now += RELEASE_AFTER_SECONDS + 1
    turn = next_item(store, other)  # it was released, and is on the other's screen
    assert skip(store, other, answer_id=new_id(), item=turn.item).why_done == "all"
    again = next_item(store, slow)  # a reload
    assert (again.item, again.questions, again.n_left) == (left.item, left.questions, 1)
    assert next_item(store, slow) == again
    assert counts_are_right(store)
    assert say(store, slow, again).why_done == "all"
    progress = task_progress(store, task.key)
    assert progress.n_complete == progress.n_items == 2
    assert counts_are_right(store)


def test_every_task_can_be_finished_by_raters_who_leave_and_come_back(store, tmp_path, clock):
    task = open_task(store, tmp_path, 7, n_gold=2, raters_per_item=2)
    codes = [join(store, task.join_code).code for _ in range(2)]
    for _ in range(40):
        for code in codes:
            turn = next_item(store, code)
            clock.now += RELEASE_AFTER_SECONDS + 1  # everybody goes for lunch with a picture on the screen
            if turn.item and store.rng.random() < 0.5:
                say(store, code, turn)
    progress = task_progress(store, task.key)
    assert progress.n_complete == 7
    assert counts_are_right(store)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.9])
def test_what_is_left_tells_no_check_from_another_picture(store, tmp_path, share):
    task, code = one_rater(store, tmp_path, 11, n_gold=3, gold_share=share, raters_per_item=1)
    turn = next_item(store, code)
    total = turn.n_left
    while turn.item:
        assert turn.n_answered + turn.n_left == total  # with each answer one less, whatever it was to
        assert next_item(store, code).n_left == turn.n_left
        if turn.n_answered == 4:
            assert undo(store, code, answer_id=new_id()).n_left == total - 3
            turn = say(store, code, next_item(store, code))
        turn = say(store, code, turn)
    (rater,) = task_progress(store, task.key).raters
    assert total == 11 + rater.n_gold
    assert rater.n_gold == min(3, round(11 * share / (1 - share))) or share == 0.1
    assert turn.n_left == 0


def test_where_the_checks_come_differs_between_raters(store, tmp_path):
    task = open_task(store, tmp_path, 20, n_gold=3, gold_share=0.15, raters_per_item=50)
    places = set()
    for _ in range(3):
        code = join(store, task.join_code).code
        turn, met = next_item(store, code), []
        for place in range(13):
            met += [place] * (turn.questions[0].identity in {"nurse 20", "nurse 21", "nurse 22"})
            turn = say(store, code, turn)
        places.add(tuple(met))
    assert len(places) > 1


@on_both
def test_known_items_are_mixed_in_and_counted_apart(store, tmp_path):
    task, code = one_rater(store, tmp_path, 12, n_gold=6, gold_share=0.4, raters_per_item=1)
    turn = next_item(store, code)
    while turn.item:
        assert next_item(store, code) == turn
        turn = say(store, code, turn, GOLD if turn.n_answered % 2 else CHOICES)
    progress = task_progress(store, task.key)
    (rater,) = progress.raters
    assert (progress.n_items, progress.n_gold_items) == (12, 6)
    assert (progress.n_complete, progress.n_answers) == (12, 12)
    assert rater.n_answered == 12 + rater.n_gold
    assert 3 <= rater.n_gold <= 6  # 0.4 of the pictures would be 8: as far as there are any
    assert rater.n_gold_right < rater.n_gold
    assert rater.median_seconds == 0.5


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
    assert get_task(store, typed)[0].title == task.task.title
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
        lambda: find_picture_hash(store, turn.item),
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
            lambda text: find_picture_hash(store, text), lambda text: say(store, text, turn),
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
    task, code = one_rater(store, tmp_path, 6)

    def work(_):
        turn = next_item(store, code)
        while turn.item:
            with suppress(InvalidInput):  # the other device was quicker
                say(store, code, turn)
            turn = next_item(store, code)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    kept = given_answers(store, task.key)
    assert len(kept) == len({one.item.id for one in kept}) == 6
    assert counts_are_right(store)
