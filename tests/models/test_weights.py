"""Weights come on first use and leave when others need the room; readers load when no generator draws."""

import gc
import io
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bias_core.errors import ModelUnavailable, NotEnoughMemory
from bias_core.models import weights
from bias_core.models.pipeline_call import warnings_of_diffusers
from bias_core.models.weights import HubModel, LazyModel, ReadersTurn, drop_longest_unused
from bias_core.waiting import BuiltOnce
from tests.models.tiny_parts import torch


@pytest.fixture(autouse=True)
def _alone():
    gc.collect()
    while drop_longest_unused():
        pass


class Model(LazyModel[str]):
    """Loads by a function of the test's."""

    def __init__(self, name: str, load: Callable[[], str]):
        super().__init__(name, "somewhere")
        self._loader = load

    def _load(self):
        return self._loader()


class Machine:
    """Room for ``room`` models, and which were loaded."""

    def __init__(self, room: int, error: type[Exception] = NotEnoughMemory):
        self.room, self.error = room, error
        self.held: list[Model] = []
        self.loaded: list[str] = []

    def weights(self, name: str) -> Model:
        def load():
            if sum(one.loaded for one in self.held) >= self.room:
                raise self.error("too large")
            self.loaded.append(name)
            return name.upper()

        made = Model(name, load)
        self.held.append(made)
        return made


def test_they_load_once_and_again_after_they_were_dropped():
    machine = Machine(2)
    a = machine.weights("a")
    assert (a._parts(), a._parts()) == ("A", "A")
    a.unload()
    assert a._parts() == "A"
    assert machine.loaded == ["a", "a"]


@pytest.mark.parametrize("error", ["NotEnoughMemory", "OutOfMemoryError"])
def test_the_longest_unused_leave_until_there_is_room(error):
    machine = Machine(2, NotEnoughMemory if error == "NotEnoughMemory" else getattr(torch, error))
    a, b, c = (machine.weights(name) for name in "abc")
    a.load(), b.load(), a.load(), c.load()
    assert [one._value for one in (a, b, c)] == ["A", None, "C"]
    b.load()
    assert [one._value for one in (a, b, c)] == [None, "B", "C"]


def test_what_never_fits_is_said_and_has_emptied_the_memory_only():
    machine = Machine(1)
    a = machine.weights("a")
    a.load()
    machine.room = 0
    with pytest.raises(NotEnoughMemory, match="too large"):
        machine.weights("b").load()
    assert a._value is None
    machine.room = 1
    assert a._parts() == "A"


def test_other_failures_cost_nobody_their_weights():
    a = Machine(1).weights("a")
    a.load()

    def corrupt():
        raise OSError("no such file")

    with pytest.raises(ModelUnavailable, match="broken cannot be loaded"):
        Model("broken", corrupt).load()
    assert a._value == "A"


def test_adapters_that_are_gone_are_forgotten():
    made = Machine(1).weights("a")
    made.load()
    assert len(weights._last_used) == 1
    del made
    gc.collect()
    assert not drop_longest_unused()


def test_weights_at_work_are_waited_for_before_they_leave():
    machine = Machine(1)
    reader, other = machine.weights("reader"), machine.weights("other")
    at_work, finish = threading.Event(), threading.Event()

    def read():
        with reader._running() as value:
            at_work.set()
            assert finish.wait(5)
            assert reader._value == value  # nobody took it away meanwhile
            return value

    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(read)
        assert at_work.wait(5)
        loading = pool.submit(other._parts)
        with pytest.raises(TimeoutError):
            loading.result(timeout=0.2)
        finish.set()
        assert (reading.result(timeout=5), loading.result(timeout=5)) == ("READER", "OTHER")
    assert reader._value is None


def test_warnings_about_pictures_are_recorded_while_other_models_load_and_after(monkeypatch):
    logger, printed = logging.getLogger("diffusers.a_pipeline"), io.StringIO()
    monkeypatch.setattr(logging.getLogger("diffusers"), "handlers", [logging.StreamHandler(printed)])
    second_began, first_ended = threading.Event(), threading.Event()

    def load_second():
        with weights.loading("second", "somewhere"):
            logger.warning("about these weights")
            second_began.set()
            assert first_ended.wait(5)

    with ThreadPoolExecutor(1) as pool:
        with weights.loading("first", "somewhere"):
            second = pool.submit(load_second)
            assert second_began.wait(5)
        with warnings_of_diffusers() as meanwhile:
            logger.warning("cut")
        first_ended.set()
        second.result(timeout=5)
    with warnings_of_diffusers() as afterwards:
        logger.warning("cut again")
    assert (meanwhile, afterwards) == (["cut"], ["cut again"])
    assert printed.getvalue().splitlines() == ["cut", "cut again"]


class Reader(HubModel[str]):
    """Notes whether a generator could draw while it loaded."""

    def __init__(self, models: threading.Lock, error: Exception | None = None) -> None:
        super().__init__("org/reader", "somewhere")
        self.models, self.error = models, error
        self.alone: list[bool] = []

    def fetch(self) -> None:
        pass

    def _load(self) -> str:
        self.alone.append(self.models.locked())
        if self.error is not None:
            raise self.error
        return "weights"


def locks() -> dict[str, threading.Lock]:
    return {"reader_lock": threading.Lock(), "model_lock": threading.Lock()}


def test_a_reader_loads_once_under_the_generators_lock_and_reads_without_it():
    held = locks()
    reader = Reader(held["model_lock"])
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
    reader.load()
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
        pytest.raises(ModelUnavailable, match="no weights"),
        ReadersTurn((Reader(held["model_lock"], OSError("no weights")),), **held, downloads=BuiltOnce()),
    ):
        pass
    assert not any(lock.locked() for lock in held.values())


class Downloaded(Reader):
    """One of a hub, which answers when it likes."""

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


def test_a_download_bar_is_made_before_anything_has_imported_the_hubs_tools():
    code = "from bias_core.models.weights import download_bar; download_bar()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
