"""Turns are fair; what is prepared once holds up nobody else; every wait ends on Stop or with its limit."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from bias_core import waiting
from bias_core.errors import Cancelled, ModelUnavailable
from bias_core.waiting import BuiltOnce, FairLock, stop_signal, stoppable


@pytest.fixture
def hangs():
    """A build that ends when the test does."""
    done, calls = threading.Event(), []

    def build() -> str:
        calls.append(threading.get_ident())
        done.wait(20)
        return "late"

    yield build, calls, done
    done.set()


def test_a_key_that_hangs_holds_up_no_other_key_and_is_given_up_in_words(hangs):
    build, calls, done = hangs
    built = BuiltOnce()
    with pytest.raises(ModelUnavailable, match=r"what org/slow needs took longer than 0 s .* try again"):
        built.get("model", "org/slow", build, limit=0.2)
    begun = time.monotonic()
    assert built.get("model", "quick", lambda: "here") == "here"
    assert time.monotonic() - begun < 0.5
    with pytest.raises(ModelUnavailable):
        built.get("model", "org/slow", build, limit=0.1)
    assert len(calls) == 1  # who asks again joins what still hangs
    done.set()
    assert built.get("model", "org/slow", build) == "late"
    assert len(calls) == 1


def test_an_error_reaches_all_who_wait_and_is_not_kept():
    built, tries, meet = BuiltOnce(), [], threading.Barrier(2)

    def build() -> str:
        tries.append(1)
        if len(tries) == 1:
            meet.wait(5)
            raise ModelUnavailable("no network")
        return "here"

    def ask() -> str:
        return built.get("model", "m", build)

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask) for _ in range(2)]
        time.sleep(0.1)
        meet.wait(5)
        errors = [future.exception(timeout=5) for future in asked]
    assert any(isinstance(error, ModelUnavailable) for error in errors)
    assert ask() == "here"
    assert built.get("model", "m", lambda: "newer", version="2") == "newer"


def test_what_hangs_in_many_keys_is_bounded(hangs, monkeypatch):
    build, calls, _ = hangs
    monkeypatch.setattr(waiting, "_MOST_AT_WORK", 3)
    built = BuiltOnce()
    for i in range(3):
        with pytest.raises(ModelUnavailable, match="longer"):
            built.get("model", str(i), build, limit=0.05)
    with pytest.raises(ModelUnavailable, match="too many models are being prepared"):
        built.get("model", "3", build, limit=0.05)
    assert len(calls) == 3


def test_stop_ends_a_wait_for_what_another_prepares_and_for_a_lock(hangs, monkeypatch):
    build, _, _ = hangs
    monkeypatch.setattr(waiting, "_GRACE_SECONDS", 0.2)
    built, lock, stop = BuiltOnce(), FairLock(), threading.Event()
    lock.acquire()

    def for_a_build():
        yield "waits"
        built.get("model", "slow", build)

    def for_a_lock():
        yield "waits"
        with lock:
            pass

    for steps in (for_a_build, for_a_lock):
        stop.clear()
        run = stoppable(steps(), stop.is_set)
        assert next(run) == "waits"
        threading.Timer(0.3, stop.set).start()
        with ThreadPoolExecutor(1) as pool, pytest.raises(Cancelled, match="stopped while waiting for"):
            pool.submit(next, run).result(timeout=5)


def test_a_build_that_ends_with_the_stop_of_its_first_thread_is_begun_again_for_the_others(monkeypatch):
    monkeypatch.setattr(waiting, "_GRACE_SECONDS", 0)
    built, begun, stop, tries = BuiltOnce(), threading.Event(), threading.Event(), []

    def build() -> str:
        tries.append(1)
        begun.set()
        while len(tries) == 1:
            if stop_signal()():
                raise Cancelled("stopped")
            time.sleep(0.01)
        return "here"

    def ask():
        yield built.get("files", "m", build)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(next, stoppable(ask(), stop.is_set))
        assert begun.wait(5)
        second = pool.submit(next, stoppable(ask(), lambda: False))
        time.sleep(0.2)
        stop.set()
        with pytest.raises(Cancelled):
            first.result(timeout=5)
        assert second.result(timeout=5) == "here"
    assert len(tries) == 2


def test_steps_that_can_be_stopped_return_and_close_as_without():
    closed = []

    def steps():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)
        return "report"

    found = []

    def follow():
        found.append((yield from stoppable(steps(), lambda: False)))

    assert list(follow()) == [1, 2]
    assert found == ["report"]
    left = stoppable(steps(), lambda: False)
    next(left)
    left.close()
    assert closed == [True, True]


def test_a_lock_goes_to_who_waits_and_not_back_to_who_asks_again_at_once():
    lock, order, stop = FairLock(), [], threading.Event()

    def busy() -> None:
        while not stop.is_set():
            with lock:
                order.append("busy")
                time.sleep(0.02)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        time.sleep(0.1)
        for _ in range(5):
            begun = time.monotonic()
            with lock:
                order.append("guest")
            assert time.monotonic() - begun < 0.5
    finally:
        stop.set()
        thread.join()
    assert order.count("guest") == 5


def test_a_turn_lasts_a_while_and_then_ends_and_a_load_comes_in_between(monkeypatch):
    monkeypatch.setattr(waiting, "TURN_SECONDS", 0.5)
    lock, order, stop, waits = FairLock(), [], threading.Event(), []

    def draw(name: str) -> None:
        while not stop.is_set():
            lock.turns.acquire()
            order.append(name)
            time.sleep(0.05)
            lock.turns.release()
            time.sleep(0.01)  # stores what it drew

    threads = [threading.Thread(target=draw, args=(name,)) for name in "ab"]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for _ in range(10):
        time.sleep(0.25)
        begun = time.monotonic()
        with lock:
            waits.append(time.monotonic() - begun)
    stop.set()
    for thread in threads:
        thread.join()
    changes = sum(one != other for one, other in pairwise(order))
    assert 2 <= changes <= 2 + (time.monotonic() - started) / 0.5  # batch by batch it would be some forty
    assert min(order.count("a"), order.count("b")) > 5
    assert max(waits) < 0.4


def test_a_lock_is_never_held_by_two():
    lock, inside, most = FairLock(), [], []

    def work() -> None:
        for _ in range(30):
            with lock:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert max(most) == 1
    assert len(most) == 180
    assert not lock.locked()
    with pytest.raises(RuntimeError, match="no thread holds"):
        FairLock().release()
