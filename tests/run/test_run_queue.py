"""Runs wait in a fair line and keep no place that they do not use; they go on while nobody follows, for a while."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import pytest

from bias_core.errors import Cancelled, RunQueueFull
from bias_core.run.run import complete as finish
from bias_core.run.run_queue import QueuePlace, Requester, RunAtWork, RunQueue, get_client_network
from bias_core.waiting import work_clock


def work(name: str, done: list[str], n: int = 1):
    for i in range(n):
        yield f"{name} {i}"
    done.append(name)
    return name


def begin(line: RunQueue, requester: Requester, done: list[str], **more):
    """A run that was asked for: its first step is its first picture or its place."""
    run = line.run(lambda: work(f"{requester.name}", done), requester, **more)
    return run, next(run)


def test_who_waits_sees_how_many_are_before_and_comes_next():
    line, done = RunQueue(at_once=1, waiting=9), []
    first, step = begin(line, Requester(name="a"), done)
    assert step == "a 0"
    second, place = begin(line, Requester(name="b"), done)
    third, far = begin(line, Requester(name="c"), done)
    assert (place, far) == (QueuePlace(n_before=1), QueuePlace(n_before=2))
    assert finish(first) == "a"
    assert next(second) == "b 0"
    assert next(third) == QueuePlace(n_before=1)
    second.close()  # the page was left
    assert finish(third) == "c"
    assert done == ["a", "c"]


def test_one_run_of_a_visitor_is_at_work_and_a_newer_one_takes_the_place_of_one_that_waits():
    line, done = RunQueue(at_once=3, waiting=9), []
    mine, _ = begin(line, Requester(name="me"), done)
    older, place = begin(line, Requester(name="me"), done)
    assert isinstance(place, QueuePlace)
    newer, _ = begin(line, Requester(name="me"), done)
    other, step = begin(line, Requester(name="other"), done)
    assert step == "other 0"  # there is room for two more
    with pytest.raises(Cancelled, match="a newer run of yours"):
        next(older)
    mine.close()
    assert finish(newer) == "me"
    other.close()


def test_a_full_line_refuses_in_words_and_has_room_again():
    line, done = RunQueue(at_once=1, waiting=2), []
    runs = [begin(line, Requester(name=name), done)[0] for name in "abc"]
    with pytest.raises(RunQueueFull, match=r"2 runs are waiting already.*try again.*still there"):
        begin(line, Requester(name="d"), done)
    runs[1].close()
    late, _ = begin(line, Requester(name="d"), done)
    for run in (runs[0], runs[2], late):
        run.close()
    assert next(line.run(lambda: work("e", done), Requester(name="e"))) == "e 0"


def test_programs_of_one_address_have_their_own_few_places():
    line, done = RunQueue(at_once=2, waiting=50), []
    program = Requester(name="programs of 1.2.3.4", address="1.2.3.4", places=3)
    kept = [begin(line, program, done)[0] for _ in range(4)]
    with pytest.raises(RunQueueFull, match="3 runs from your address are waiting already"):
        begin(line, program, done)
    _, step = begin(line, Requester(name="visitor", address="1.2.3.4"), done)
    assert step == "visitor 0"
    for run in kept:
        run.close()


def test_one_address_never_takes_all_places_and_addresses_take_turns():
    line, done = RunQueue(at_once=1, waiting=4, of_one_address=2), []
    runs = {}
    for name in ("a1", "a2", "a3"):
        runs[name], _ = begin(line, Requester(name=name, address="a"), done)
    with pytest.raises(RunQueueFull):
        begin(line, Requester(name="a4", address="a"), done)
    runs["b1"], place = begin(line, Requester(name="b1", address="b"), done)
    assert place == QueuePlace(n_before=1)  # before a2 and a3, which came first
    assert next(runs["a1"]) == QueuePlace(n_before=1, begun=True)
    assert finish(runs["b1"]) == "b1"
    assert finish(runs["a1"]) == "a1"  # before a2, which has not begun
    assert finish(runs["a2"]) == "a2"


def many_batches(name: str, done: list[str], stop: threading.Event | None = None):
    for i in range(6):
        if stop is not None and stop.is_set():
            raise Cancelled("stopped; what was finished is kept")
        yield f"{name} {i}"
    done.append(name)
    return name


def starving(line: RunQueue, requesters: list[Requester], done: list[str], n_at_work: int):
    runs = [line.run(lambda name=requester.name: many_batches(name, done), requester) for requester in requesters]
    first = [next(run) for run in runs]
    assert sum(isinstance(step, str) for step in first) == n_at_work
    return runs


TABS = [Requester(name=f"tab {i}", address="a") for i in range(5)]
PROGRAMS = [Requester(name="programs of a", address="a", places=8) for _ in range(4)]


@pytest.mark.parametrize("requesters", [TABS, [*TABS, *PROGRAMS], [*PROGRAMS, *TABS]], ids=len)
@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_who_comes_from_elsewhere_begins_after_one_batch_and_no_work_is_lost(at_once, requesters):
    line, done = RunQueue(at_once, waiting=30), []
    runs = starving(line, requesters, done, at_once)
    stranger = line.run(lambda: many_batches("stranger", done), Requester(name="stranger", address="b"))
    assert next(stranger) == QueuePlace(n_before=at_once)
    assert next(runs[0]) == QueuePlace(n_before=at_once, begun=True)
    assert next(stranger) == "stranger 0"
    assert finish(stranger) == "stranger"
    with ThreadPoolExecutor(len(runs)) as pool:
        assert list(pool.map(finish, runs)) == [requester.name for requester in requesters]
    assert done[0] == "stranger"
    assert sorted(done[1:]) == sorted(requester.name for requester in requesters)


def test_the_addresses_of_one_household_count_as_one():
    assert len({get_client_network({}, f"2001:db8:1:2:{i}::{i}") for i in range(1, 4)}) == 1
    assert get_client_network({}, "::ffff:203.0.113.7") == get_client_network({}, "203.0.113.7")


def test_runs_are_paused_until_the_places_at_work_are_shared_and_no_further():
    line, done = RunQueue(4, waiting=30), []
    greedy = starving(line, TABS[:4], done, 4)
    others = [line.run(lambda i=i: many_batches(f"b{i}", done), Requester(name=f"b{i}", address="b")) for i in range(3)]
    assert all(isinstance(next(run), QueuePlace) for run in others)
    steps = [next(run) for run in greedy]
    assert [isinstance(step, QueuePlace) for step in steps] == [True, True, False, False]  # two and two
    assert [next(run) for run in others[:2]] == ["b0 0", "b1 0"]
    assert isinstance(next(others[2]), QueuePlace)
    late = line.run(lambda: many_batches("c", done), Requester(name="c", address="c"))
    assert isinstance(next(late), QueuePlace)
    assert isinstance(next(greedy[2]), QueuePlace)
    assert next(late) == "c 0"
    assert next(greedy[3]) == "tab 3 2"  # one each: nobody has too much
    for run in (*greedy, *others, late):
        run.close()
    assert finish(line.run(lambda: many_batches("d", done), Requester(name="d"))) == "d"


def elsewhere(line: RunQueue, done: list[str], *names: str):
    """Runs of one address each, in line."""
    return [line.run(lambda name=name: many_batches(name, done), Requester(name=name, address=name)) for name in names]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_a_new_address_begins_after_one_batch_where_as_many_addresses_as_places_are_at_work(at_once):
    line, done = RunQueue(at_once, waiting=30), []
    runs = elsewhere(line, done, *map(str, range(at_once)))
    assert [next(run) for run in runs] == [f"{i} 0" for i in range(at_once)]
    (new,) = elsewhere(line, done, "new")
    assert next(new) == QueuePlace(n_before=at_once)
    assert next(runs[0]) == QueuePlace(n_before=at_once, begun=True)
    assert next(new) == "new 0"
    with ThreadPoolExecutor(at_once + 1) as pool:
        assert list(pool.map(finish, [new, *runs])) == ["new", *map(str, range(at_once))]


@pytest.mark.parametrize("at_once", [1, 2])
def test_addresses_share_the_places_but_not_batch_by_batch(monkeypatch, at_once):
    line, done = RunQueue(at_once, waiting=30), []
    mine, *others = elsewhere(line, done, *map(str, range(at_once + 1)))
    assert all(isinstance(next(run), str) for run in (mine, *others[:-1]))
    assert isinstance(next(others[-1]), QueuePlace)
    assert isinstance(next(mine), QueuePlace)
    assert [next(others[-1]) for _ in range(3)] == [f"{at_once} {i}" for i in range(3)]  # it has half a minute
    monkeypatch.setattr("bias_core.run.run_queue._TURN_SECONDS", 0.0)
    assert isinstance(next(others[-1]), QueuePlace)
    assert next(mine) == "0 1"  # where it was
    mine.close()
    assert next(others[-1]) == f"{at_once} 3"
    for run in others:
        run.close()


def test_an_address_that_comes_again_and_again_shortens_no_turn():
    line, done = RunQueue(1, waiting=30), []
    (mine,) = elsewhere(line, done, "mine")
    next(mine)
    (again,) = elsewhere(line, done, "again")
    next(again)
    next(mine)
    next(again)
    again.close()
    assert next(mine) == "mine 1"
    (again,) = elsewhere(line, done, "again")
    assert isinstance(next(again), QueuePlace)
    assert finish(mine) == "mine"
    assert finish(again) == "again"


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_new_addresses_without_end_hold_up_no_run_that_has_begun(monkeypatch, at_once):
    for name in ("_SIGN_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(f"bias_core.run.run_queue.{name}", 0.001)
    line, done = RunQueue(at_once, waiting=300), []
    begun = elsewhere(line, done, *(f"old {i}" for i in range(at_once)))
    for run in begun:
        next(run)
    names = (f"new {i}" for i in count())
    strangers = elsewhere(line, [], *islice(names, 2 * at_once))
    for _ in range(20 * at_once):
        for run in begun:
            next(run, None)
        for run in list(strangers):
            if isinstance(next(run), str):  # after its first batch another address comes
                strangers += elsewhere(line, [], next(names))
                next(strangers[-1])
                strangers.remove(run)
                run.close()
    assert sorted(done) == sorted(f"old {i}" for i in range(at_once))
    for run in strangers:
        run.close()


def test_at_home_where_addresses_say_nothing_no_run_is_paused():
    line, done = RunQueue(2, waiting=9), []
    runs = starving(line, [Requester(name=name) for name in "ab"], done, 2)
    waits, _ = begin(line, Requester(name="c"), done)
    assert [next(run) for run in runs] == ["a 1", "b 1"]
    for run in (*runs, waits):
        run.close()


def paused(line: RunQueue, done: list[str], stop: threading.Event):
    """A run that was paused for another one; both."""
    run = line.run(lambda: many_batches("tab 0", done, stop), TABS[0], stop.is_set)
    assert next(run) == "tab 0 0"
    other = line.run(lambda: many_batches("other", done), Requester(name="other", address="b"))
    assert isinstance(next(other), QueuePlace)
    assert isinstance(next(run), QueuePlace)
    assert next(other) == "other 0"
    return run, other


def test_a_paused_run_that_is_stopped_ends_at_once_and_says_what_it_has():
    line, done, stop = RunQueue(1, waiting=9), [], threading.Event()
    run, other = paused(line, done, stop)
    stop.set()
    with pytest.raises(Cancelled, match="what was finished is kept"):
        list(run)
    assert finish(other) == "other"


def test_a_paused_run_whose_page_was_left_closes_and_keeps_no_place():
    line, done, stop = RunQueue(1, waiting=1), [], threading.Event()
    run, other = paused(line, done, stop)
    run.close()
    other.close()
    assert not line._waiting
    assert not line._at_work


def test_a_newer_run_of_the_visitor_waits_for_the_paused_one_and_does_not_replace_it():
    line, done, stop = RunQueue(1, waiting=9), [], threading.Event()
    run, other = paused(line, done, stop)
    newer = line.run(lambda: many_batches("newer", done), TABS[0])
    assert isinstance(next(newer), QueuePlace)
    assert finish(other) == "other"
    assert finish(run) == "tab 0"
    assert finish(newer) == "newer"


def test_a_pause_costs_a_run_none_of_its_time_and_nothing_is_drawn_in_it():
    line, readings = RunQueue(1, waiting=9), []

    def steps():
        for _ in range(3):
            readings.append(work_clock().seconds())
            yield "batch"

    run = line.run(steps, TABS[0])
    assert next(run) == "batch"
    other = line.run(lambda: many_batches("other", []), Requester(name="other", address="b"))
    next(other)
    assert isinstance(next(run), QueuePlace)
    began = time.monotonic()
    next(other)
    time.sleep(1)
    other.close()
    assert next(run) == "batch"
    assert readings[1] - readings[0] < time.monotonic() - began - 0.5


def test_stop_ends_the_wait_and_gives_the_place_back():
    line, done, stop = RunQueue(at_once=1, waiting=1), [], threading.Event()
    busy, _ = begin(line, Requester(name="a"), done)
    waits, _ = begin(line, Requester(name="b"), done, cancelled=stop.is_set)
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Cancelled, match="before it began"):  # the run before it goes on
        list(waits)
    fresh, _ = begin(line, Requester(name="c"), done)
    busy.close()
    assert finish(fresh) == "c"


def test_an_error_of_a_run_frees_its_place():
    line = RunQueue(at_once=1, waiting=1)

    def broken():
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(line.run(broken, Requester(name="a")))
    assert finish(line.run(lambda: work("b", []), Requester(name="b"))) == "b"


def test_a_hundred_runs_at_once_all_end_and_never_more_than_three_are_at_work():
    line, inside, most, done = RunQueue(at_once=3, waiting=200), [], [], []

    def steps(name: str):
        inside.append(name)
        most.append(len(inside))
        yield name
        time.sleep(0.002)
        inside.remove(name)
        done.append(name)
        return name

    with ThreadPoolExecutor(50) as pool:
        runs = [
            pool.submit(lambda i=i: finish(line.run(lambda: steps(str(i)), Requester(name=str(i))))) for i in range(100)
        ]
        assert sorted(run.result(timeout=30) for run in runs) == sorted(map(str, range(100)))
    assert max(most) <= 3
    assert len(done) == 100


def counting(go_on: threading.Event, stop: threading.Event):
    yield "first"
    while not go_on.wait(0.01):
        if stop.is_set():
            raise Cancelled("stopped")
    yield "last"
    return "result"


def started(*, patience: float = float("inf")) -> tuple[RunAtWork[str, str], threading.Event]:
    go_on, stop = threading.Event(), threading.Event()
    return RunAtWork(lambda: counting(go_on, stop), stop, place="here", patience=patience), go_on


def returned(steps) -> tuple[list[str], str]:
    result = []

    def follow():
        result.append((yield from steps))

    seen = list(follow())
    return seen, result[0]


def test_a_run_that_was_left_goes_on_and_is_followed_to_its_end_by_who_comes_back():
    run, go_on = started()
    page = run.follow()
    assert next(page) == "first"
    page.close()  # loaded anew
    again = run.follow()
    assert next(again) == "first"  # where it is now
    assert not run.ended
    go_on.set()
    assert returned(again) == (["last"], "result")
    assert returned(run.follow()) == (["last"], "result")  # and by who comes later still
    assert run.ended


def test_a_run_to_which_nobody_comes_back_is_stopped():
    run, _ = started(patience=0.05)
    page = run.follow()
    next(page)
    page.close()
    assert run.stop.wait(10)
    with pytest.raises(Cancelled, match="stopped"):
        returned(run.follow())


def test_a_run_to_which_somebody_came_back_in_time_is_not_stopped():
    run, go_on = started(patience=0.2)
    page = run.follow()
    next(page)
    page.close()
    again = run.follow()
    next(again)
    time.sleep(0.4)
    assert not run.stop.is_set()
    go_on.set()
    assert returned(again)[1] == "result"


def test_the_line_knows_the_newest_run_of_a_visitor_until_it_ends():
    line, go_on, stop = RunQueue(at_once=1, waiting=1), threading.Event(), threading.Event()
    run = line.begin(lambda: counting(go_on, stop), Requester(name="me"), stop, "paired")
    found = line.find("me")
    assert found is run
    assert found.place == "paired"
    assert line.find("stranger") is None
    go_on.set()
    assert returned(run.follow())[1] == "result"
    assert line.find("me") is None
