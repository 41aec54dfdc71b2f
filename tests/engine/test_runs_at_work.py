"""A run goes on while nobody follows it, is followed again, and ends when nobody comes back."""

import threading
import time

import pytest

from bias_core.engine.run_line import Asker, RunAtWork, RunLine
from bias_core.errors import Cancelled, RunLineFull


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


def test_a_full_line_is_said_to_who_follows():
    line, go_on = RunLine(at_once=1, waiting=1), threading.Event()
    stop = threading.Event()
    others = [line.begin(lambda: counting(go_on, stop), Asker(name=name), threading.Event()) for name in "ab"]
    following = [other.follow() for other in others]
    for one in following:
        next(one)
    late = line.begin(lambda: counting(go_on, stop), Asker(name="c"), threading.Event())
    with pytest.raises(RunLineFull, match="try again"):
        returned(late.follow())
    go_on.set()
    for one in following:
        assert returned(one)[1] == "result"
