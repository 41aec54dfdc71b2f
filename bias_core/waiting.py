"""Waiting that Stop can end: for a turn, for shared preparation, or for the next result of a thread."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait as wait_for
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from bias_core.errors import Cancelled, ModelUnavailable

T = TypeVar("T")
R = TypeVar("R")
StopSignal = Callable[[], bool]  # polled; true once no one waits for the work any more
TURN_SECONDS = 5.0
HUB_SECONDS = 30.0  # for a hub's facts about a model
WEIGHTS_SECONDS = 3600.0  # for its weights
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 2.0  # a stopped run may wait this long for its last numbers
_ABSENT_SECONDS = 1.0  # a thread that has not asked for this long loses its place
_BETWEEN_SECONDS = 0.3  # a thread with the turn may store its pictures this long
_MOST_AT_WORK = 32  # builds, of which each hanging one keeps a thread


class Lock(Protocol):
    """A lock with one holder at a time: ``threading.Lock`` or :class:`FairLock`."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Wait for the lock; False after ``timeout`` seconds."""

    def release(self) -> None:
        """Pass the lock to the next thread in line."""


def never() -> bool:
    return False


class WorkClock:
    """Working time of a run in seconds, without its pauses.

    >>> clock = WorkClock()
    >>> with clock.paused():
    ...     clock.is_paused, clock.seconds() == clock.seconds()
    (True, True)
    """

    def __init__(self) -> None:
        self._paused: tuple[float | None, float] = (
            None,
            0.0,
        )  # start of the current pause, and seconds of all earlier pauses

    @property
    def is_paused(self) -> bool:
        """True while the run lets others work."""
        return self._paused[0] is not None

    def seconds(self) -> float:
        """Current reading; the difference of two readings is working time."""
        since, lost = self._paused
        return (time.monotonic() if since is None else since) - lost

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock until the block ends."""
        since, lost = time.monotonic(), self._paused[1]
        self._paused = since, lost
        try:
            yield
        finally:
            self._paused = None, lost + time.monotonic() - since


_cancelled: ContextVar[StopSignal] = ContextVar("cancelled", default=never)
_clock: ContextVar[WorkClock] = ContextVar("clock", default=WorkClock())  # noqa: B039 - this one is never paused


def stop_signal() -> StopSignal:
    """The signal that ends this thread's work; a build of :class:`BuiltOnce` has that of its first thread."""
    return _cancelled.get()


def work_clock() -> WorkClock:
    """The clock of this thread's run."""
    return _clock.get()


def wait_while_paused(check: Callable[[], None]) -> None:
    """Wait until this thread's run is not paused; ``check`` raises to end the wait."""
    while work_clock().is_paused:
        check()
        time.sleep(_POLL_SECONDS)


def stoppable(
    steps: Generator[T, None, R] | Iterator[T], cancelled: StopSignal, clock: WorkClock | None = None
) -> Generator[T, None, R]:
    """Yield the same steps; their waits in this module poll ``cancelled`` and use ``clock``."""
    clock = clock or work_clock()
    try:
        while True:
            tokens = _cancelled.set(cancelled), _clock.set(clock)
            try:
                step = next(steps)
            except StopIteration as stop_iteration:
                return cast("R", stop_iteration.value)
            finally:
                _cancelled.reset(tokens[0])
                _clock.reset(tokens[1])
            yield step
    finally:
        if close := getattr(steps, "close", None):
            close()


def iterate_in_thread(work: Callable[[Callable[[T], None]], None]) -> Iterator[T]:
    """Yield the values that ``work`` passes to its argument; it runs in a thread and waits for the consumer.

    Errors of ``work`` are raised here. If the consumer leaves early, ``work`` gets :class:`Cancelled` from
    its pending call, and ends before the consumer goes on.

    >>> list(iterate_in_thread(lambda hand: [hand(i) for i in range(3)] and None))
    [0, 1, 2]
    """
    handed: SimpleQueue[Any] = SimpleQueue()
    requests: SimpleQueue[bool] = SimpleQueue()
    end = object()

    def hand(item: T) -> None:
        handed.put(item)
        if not requests.get():
            requests.put(False)  # for the next call, if there is one
            raise Cancelled("stopped; what was finished is kept")

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work, hand)
        future.add_done_callback(lambda _: handed.put(end))
        try:
            while (item := handed.get()) is not end:
                yield item
                requests.put(True)
        finally:
            requests.put(False)
        future.result()


def _check_wait(subject: str, begun: float, limit: float = float("inf")) -> None:
    """Raise Cancelled after a stop, and ModelUnavailable once a wait took too long."""
    waited = time.monotonic() - begun
    if waited > _GRACE_SECONDS and _cancelled.get()():
        raise Cancelled(f"stopped while waiting for {subject}; what was finished is kept")
    if waited > limit:
        raise ModelUnavailable(
            f"{subject} took longer than {limit:.0f} s and was given up; check the network and the disk, then try again"
        )


class FairLock:
    """A first-come, first-served lock; waiting for it in a ``with`` block ends on Stop.

    Threads that take it by :attr:`turns` keep it for a while, so that the model that one of them loaded
    is used before the next one loads: a turn is the first hold and ``TURN_SECONDS`` more.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: dict[int, tuple[float, bool]] = {}  # by thread, in order: last seen, and for a turn
        self._held = False
        self._released = 0.0
        self._turn: tuple[int, float] = 0, 0.0  # the thread whose turn it is, and the end of the turn

    @property
    def turns(self) -> Lock:
        """The same lock for threads that take it repeatedly."""
        return _Turns(partial(self.acquire, turn=True), self.release)

    def acquire(self, blocking: bool = True, timeout: float = -1, *, turn: bool = False) -> bool:
        """Take the lock in order of arrival; a time-out keeps the place in line."""
        me, until = threading.get_ident(), time.monotonic() + timeout if timeout >= 0 else float("inf")
        with self._changed:
            while not self._may_take(me, turn=turn):
                left = until - time.monotonic()
                if not blocking or left <= 0:
                    return False
                self._changed.wait(min(left, _POLL_SECONDS))
            del self._line[me]
            self._held = True
            if turn and (self._turn[0] != me or time.monotonic() >= self._turn[1]):
                self._turn = me, float("inf")  # the first release sets its end
            return True

    def release(self) -> None:
        """Pass the lock to the next thread in line."""
        with self._changed:
            if not self._held:
                raise RuntimeError("release of a lock that no thread holds")
            self._held, self._released = False, time.monotonic()
            owner, ends = self._turn
            if owner == threading.get_ident() and ends == float("inf"):
                self._turn = owner, self._released + TURN_SECONDS
            self._changed.notify_all()

    def locked(self) -> bool:
        """True if a thread holds the lock."""
        return self._held

    def __enter__(self) -> None:
        begun = time.monotonic()
        while not self.acquire(timeout=_POLL_SECONDS):
            _check_wait("a turn at the model", begun)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _may_take(self, me: int, *, turn: bool) -> bool:
        now, (owner, ends) = time.monotonic(), self._turn
        self._line[me] = now, turn
        self._line = {t: (at, kind) for t, (at, kind) in self._line.items() if now - at < _ABSENT_SECONDS}
        if owner in self._line and now >= ends:
            self._line[owner] = self._line.pop(owner)  # its turn is over: to the end of the line
        is_on = now < ends and (owner in self._line or now < self._released + _BETWEEN_SECONDS)
        served = [ticket for ticket, (_, kind) in self._line.items() if not (kind and is_on and ticket != owner)]
        return not self._held and served[:1] == [me]


@dataclass(frozen=True)
class _Turns:
    """A :class:`FairLock` for threads that take turns."""

    acquire: Callable[..., bool]
    release: Callable[[], None]


class BuiltOnce:
    """Objects built once per key and shared; a thread waits only for the key that it needs.

    Each is built in its own thread, so that a wait can be stopped and has a limit even if the build hangs; a
    later request joins a build that still hangs. After an error the next request builds again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held for a moment, never while anything is prepared
        self._built: dict[tuple[str, str], tuple[str | None, Any]] = {}
        self._at_work: dict[tuple[str, str, str], Future[Any]] = {}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._built

    def __setitem__(self, key: tuple[str, str], built: object) -> None:
        """Use this object in every version, instead of building one."""
        self._built[key] = None, built

    def get(self, kind: str, name: str, build: Callable[[], T], *, version: str = "", limit: float = 60.0) -> T:
        """The object for ``kind`` and ``name`` in this version, built now if there is none.

        Raises Cancelled after Stop, and ModelUnavailable if it took longer than
        ``limit`` seconds, or too much is being prepared already.
        """
        steps = self.steps(kind, name, build, version=version, limit=limit)
        while True:
            try:
                next(steps)
            except StopIteration as stop_iteration:
                return cast("T", stop_iteration.value)

    def steps(
        self, kind: str, name: str, build: Callable[[], T], *, version: str = "", limit: float = 60.0
    ) -> Generator[None, None, T]:
        """Yield often while waiting for the object of :meth:`get`, and return it."""
        begun = time.monotonic()
        while True:
            with self._lock:
                held = self._built.get((kind, name))
                if held is not None and held[0] in (None, version):
                    return cast("T", held[1])
                future = self._at_work.get((kind, name, version)) or self._start(kind, name, version, build)
            while not wait_for([future], timeout=_POLL_SECONDS).done:
                _check_wait(f"what {name or kind} needs", begun, limit)
                yield
            if not isinstance(future.exception(), Cancelled) or stop_signal()():
                return cast("T", future.result())
            # the thread that started it was stopped, this one was not

    def _start(self, kind: str, name: str, version: str, build: Callable[[], object]) -> Future[Any]:
        if len(self._at_work) >= _MOST_AT_WORK:
            raise ModelUnavailable("too many models are being prepared at once; try again in a minute")
        future: Future[Any] = Future()
        self._at_work[kind, name, version] = future

        def work() -> None:
            with handing_over(future, partial(self._end, kind, name, version)):
                made = build()
                self._built[kind, name] = version, made
                future.set_result(made)

        threading.Thread(target=copy_context().run, args=(work,), daemon=True, name="bias-prepare").start()
        return future

    def _end(self, kind: str, name: str, version: str) -> None:
        with self._lock:
            del self._at_work[kind, name, version]


def handing_over(future: Future[Any], end: Callable[[], None] = lambda: None) -> ExitStack:
    """Pass errors of the block to the threads that wait for the future, after a call of ``end``."""

    def pass_on(_kind: object, error: BaseException | None, _trace: object) -> bool:
        if error is not None:
            future.set_exception(error)
        return True

    stack = ExitStack()
    stack.push(pass_on)
    stack.callback(end)
    return stack
