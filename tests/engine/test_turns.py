"""Readers work beside a generator, one at a time, and load when none draws."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bias_core.engine.turns import Loadable, ReadersTurn


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
    turn = ReadersTurn((reader, object()), **held)  # what has nothing to load is asked nothing
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
    with held["model_lock"], ReadersTurn((reader,), **held):
        pass  # else this would hang


def test_a_reader_that_must_load_waits_for_the_drawing():
    held = locks()
    reader = Reader(held["model_lock"])

    def read() -> None:
        with ReadersTurn((reader,), **held):
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
        ReadersTurn((Reader(held["model_lock"], OSError("no weights")),), **held),
    ):
        pass
    assert not any(lock.locked() for lock in held.values())
