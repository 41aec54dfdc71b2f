"""Readers work beside a generator, one at a time, and load when none draws."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bias_core.models.weights import Fetchable, Loadable, ReadersTurn
from bias_core.waiting import BuiltOnce


class Reader:
    def __init__(self, models: threading.Lock, error: Exception | None = None) -> None:
        self.models, self.error = models, error
        self.loaded = False
        self.alone: list[bool] = []

    def load(self) -> None:
        self.alone.append(self.models.locked())
        if self.error is not None:
            raise self.error
        self.loaded = True


def locks() -> dict[str, threading.Lock]:
    return {"reader_lock": threading.Lock(), "model_lock": threading.Lock()}


def test_a_reader_loads_once_under_the_generators_lock_and_reads_without_it():
    held = locks()
    reader = Reader(held["model_lock"])
    assert isinstance(reader, Loadable)
    turn = ReadersTurn((reader, object()), **held, downloads=BuiltOnce())  # what has nothing to load is asked nothing
    for _ in range(2):
        with turn:
            assert held["reader_lock"].locked()
            assert not held["model_lock"].locked()
    assert reader.alone == [True]
    assert not held["reader_lock"].locked()


def test_a_reader_that_is_ready_does_not_wait_for_the_drawing():
    held = locks()
    reader = Reader(held["model_lock"])
    reader.loaded = True
    with held["model_lock"], ReadersTurn((reader,), **held, downloads=BuiltOnce()):
        pass  # else this would hang


def test_a_reader_that_must_load_waits_for_the_drawing():
    held = locks()
    reader = Reader(held["model_lock"])

    def read() -> None:
        with ReadersTurn((reader,), **held, downloads=BuiltOnce()):
            pass

    with ThreadPoolExecutor(1) as pool:
        with held["model_lock"]:
            reading = pool.submit(read)
            with pytest.raises(TimeoutError):
                reading.result(timeout=0.2)
            assert not reader.loaded
        reading.result(timeout=5)
    assert reader.loaded


def test_a_reader_that_cannot_load_leaves_no_lock_behind():
    held = locks()
    with (
        pytest.raises(OSError, match="no weights"),
        ReadersTurn((Reader(held["model_lock"], OSError("no weights")),), **held, downloads=BuiltOnce()),
    ):
        pass
    assert not any(lock.locked() for lock in held.values())


class Downloaded(Reader):
    """One of a hub, which answers when it likes."""

    name = "org/reader"

    def __init__(self, models: threading.Lock) -> None:
        super().__init__(models)
        self.asked, self.answers = threading.Event(), threading.Event()

    def fetch(self) -> None:
        self.asked.set()
        assert self.answers.wait(20)
        assert not self.models.locked()


def test_who_reads_and_draws_goes_on_while_the_files_of_a_reader_are_downloaded():
    held, downloads = locks(), BuiltOnce()
    slow, quick = Downloaded(held["model_lock"]), Reader(held["model_lock"])
    assert isinstance(slow, Fetchable)
    assert not isinstance(quick, Fetchable)

    def read() -> bool:
        with ReadersTurn((slow,), **held, downloads=downloads):
            return slow.loaded

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert slow.asked.wait(5)
        with ReadersTurn((quick,), **held, downloads=downloads):  # loads and reads meanwhile
            assert quick.loaded
        assert held["model_lock"].acquire(timeout=1)
        held["model_lock"].release()
        slow.answers.set()
        assert reading.result(timeout=5)
