"""Runs wait in a fair line and keep no place that they do not use; they go on while nobody follows, for a while."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bias_core.engine.run_line import Asker, Place, RunAtWork, RunLine
from bias_core.errors import Cancelled, RunLineFull
from bias_core.studies.running.run import complete as finish


def work(name: str, done: list[str], n: int = 1):
    for i in range(n):
        yield f"{name} {i}"
    done.append(name)
    return name


def begin(line: RunLine, asker: Asker, done: list[str], **more):
    """A run that was asked for: its first step is its first picture or its place."""
    run = line.run(lambda: work(f"{asker.name}", done), asker, **more)
    return run, next(run)


def test_who_waits_sees_how_many_are_before_and_comes_next():
    line, done = RunLine(at_once=1, waiting=9), []
    first, step = begin(line, Asker(name="a"), done)
    assert step == "a 0"
    second, place = begin(line, Asker(name="b"), done)
    third, far = begin(line, Asker(name="c"), done)
    assert (place, far) == (Place(n_before=1), Place(n_before=2))
    assert finish(first) == "a"
    assert next(second) == "b 0"
    assert next(third) == Place(n_before=1)
    second.close()  # the page was left
    assert finish(third) == "c"
    assert done == ["a", "c"]


def test_one_run_of_a_visitor_is_at_work_and_a_newer_one_takes_the_place_of_one_that_waits():
    line, done = RunLine(at_once=3, waiting=9), []
    mine, _ = begin(line, Asker(name="me"), done)
    older, place = begin(line, Asker(name="me"), done)
    assert isinstance(place, Place)
    newer, _ = begin(line, Asker(name="me"), done)
    other, step = begin(line, Asker(name="other"), done)
    assert step == "other 0"  # there is room for two more
    with pytest.raises(Cancelled, match="a newer run of yours"):
        next(older)
    mine.close()
    assert finish(newer) == "me"
    other.close()


def test_a_full_line_refuses_in_words_and_has_room_again():
    line, done = RunLine(at_once=1, waiting=2), []
    runs = [begin(line, Asker(name=name), done)[0] for name in "abc"]
    with pytest.raises(RunLineFull, match=r"2 runs are waiting already.*try again.*still there"):
        begin(line, Asker(name="d"), done)
    runs[1].close()
    late, _ = begin(line, Asker(name="d"), done)
    for run in (runs[0], runs[2], late):
        run.close()
    assert next(line.run(lambda: work("e", done), Asker(name="e"))) == "e 0"


def test_programs_of_one_address_have_their_own_few_places():
    line, done = RunLine(at_once=2, waiting=50), []
    program = Asker(name="programs of 1.2.3.4", address="1.2.3.4", places=3)
    kept = [begin(line, program, done)[0] for _ in range(4)]
    with pytest.raises(RunLineFull, match="3 runs from your address are waiting already"):
        begin(line, program, done)
    _, step = begin(line, Asker(name="visitor", address="1.2.3.4"), done)
    assert step == "visitor 0"
    for run in kept:
        run.close()


def test_one_address_never_takes_all_places_and_addresses_take_turns():
    line, done = RunLine(at_once=1, waiting=4, of_one_address=2), []
    runs = {}
    for name in ("a1", "a2", "a3"):
        runs[name], _ = begin(line, Asker(name=name, address="a"), done)
    with pytest.raises(RunLineFull):
        begin(line, Asker(name="a4", address="a"), done)
    runs["b1"], place = begin(line, Asker(name="b1", address="b"), done)
    assert place == Place(n_before=1)  # before a2 and a3, which came first
    finish(runs["a1"])
    assert finish(runs["b1"]) == "b1"
    assert finish(runs["a2"]) == "a2"


def test_stop_ends_the_wait_and_gives_the_place_back():
    line, done, stop = RunLine(at_once=1, waiting=1), [], threading.Event()
    busy, _ = begin(line, Asker(name="a"), done)
    waits, _ = begin(line, Asker(name="b"), done, cancelled=stop.is_set)
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Cancelled, match="before it began"):  # the run before it goes on
        list(waits)
    fresh, _ = begin(line, Asker(name="c"), done)
    busy.close()
    assert finish(fresh) == "c"


def test_an_error_of_a_run_frees_its_place():
    line = RunLine(at_once=1, waiting=1)

    def broken():
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(line.run(broken, Asker(name="a")))
    assert finish(line.run(lambda: work("b", []), Asker(name="b"))) == "b"


def test_a_hundred_runs_at_once_all_end_and_never_more_than_three_are_at_work():
    line, inside, most, done = RunLine(at_once=3, waiting=200), [], [], []

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
            pool.submit(lambda i=i: finish(line.run(lambda: steps(str(i)), Asker(name=str(i))))) for i in range(100)
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
    line, go_on, stop = RunLine(at_once=1, waiting=1), threading.Event(), threading.Event()
    run = line.begin(lambda: counting(go_on, stop), Asker(name="me"), stop, "paired")
    found = line.find("me")
    assert found is run
    assert found.place == "paired"
    assert line.find("stranger") is None
    go_on.set()
    assert returned(run.follow())[1] == "result"
    assert line.find("me") is None
