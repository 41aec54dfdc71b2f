"""What the engines share: where the rows are, the time left, and work in a thread that can be stopped."""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol

from bias_core.errors import Cancelled, InvalidInput
from bias_core.protocols import TextToImage
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow, StoredImage
from bias_core.waiting import Lock


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    """Where the rows are."""

    # done, total: distinct pictures
    done: int
    total: int
    images: tuple[StoredImage, ...] = ()  # those finished since the event before
    reused: bool = False  # whether `images` come from the store
    # step, n_steps: denoising steps of a batch at work; 0 and 0 between batches
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0  # the steps done of batches at work, in pictures: half a batch of 8 is 4
    seconds_left: float = float("nan")  # nan until the first pictures or steps have been timed


class Engine(Protocol):
    """Who executes a manifest: the same rows give the same ids and pictures under each."""

    def n_workers(self) -> int:
        """How many batches are drawn at a time."""
        ...

    def place(self) -> str:
        """What each worker draws on, so that its speed can be remembered."""
        ...

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row, all of one model, has its picture in ``store``."""
        ...

    def close(self) -> None:
        """Let go of workers."""
        ...


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a drawing thread hands over; the names are those of :class:`EngineProgress`."""

    images: tuple[StoredImage, ...] = ()
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0


class Drawing(ABC):
    """Draws and stores in a thread of its own, and hands events over.

    Parameters
    ----------
    cancelled : asked by the thread; once true, the work ends with :class:`Cancelled`.
    """

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    @abstractmethod
    def draw(self) -> None:
        """The work; calls :meth:`put` for what is finished and :meth:`check` or :meth:`unwanted` often."""

    def events(self) -> Iterator[Event]:
        """Start the work and yield its events; what ended it is raised here."""
        # With what the caller's thread knows of its visitor, whom a borrowed GPU asks for.
        work = self._pool.submit(copy_context().run, self._work)
        while (event := self._queue.get()) is not None:
            yield event
        work.result()

    def stop(self) -> None:
        """End the thread at its next step; called when the reader goes away, too."""
        self._abandoned.set()
        self._pool.shutdown()

    def put(self, event: Event) -> None:
        """Hand an event over."""
        self._queue.put(event)

    def unwanted(self) -> bool:
        """Whether nobody waits for these pictures any more."""
        return self._abandoned.is_set() or self._cancelled()

    def check(self) -> None:
        """Raise Cancelled where the pictures are unwanted."""
        if self.unwanted():
            raise Cancelled("stopped; what was finished is kept")

    def _work(self) -> None:
        try:
            self.draw()
        finally:
            self._queue.put(None)


def follow(
    rows: Sequence[ImageRow], store: ImageStore, start: Callable[[list[ImageRow]], Drawing]
) -> Iterator[EngineProgress]:
    """Give what is stored at once, and follow the drawing of the rest.

    Parameters
    ----------
    start : makes the drawing of the rows, each distinct, that have no picture yet; not called for none.

    Raises
    ------
    InvalidInput : Pictures of another size than their rows'; they are stored with their own.
    """
    distinct = {row.id: row for row in rows}
    stored = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in stored]
    yield EngineProgress(done=len(stored), total=len(distinct), images=tuple(stored.values()), reused=True)
    if not missing:
        return
    drawing, clock = start(missing), _Clock(n_missing=len(missing))
    try:
        for event in drawing.events():
            _check_sizes(event.images, missing)
            clock.see(event)
            yield EngineProgress(
                done=len(stored) + clock.n_drawn,
                total=len(distinct),
                images=event.images,
                step=event.step,
                n_steps=event.n_steps,
                begun=event.begun,
                seconds_left=clock.seconds_left(),
            )
    finally:
        drawing.stop()


def _check_sizes(images: Sequence[StoredImage], rows: Sequence[ImageRow]) -> None:
    """Nothing would find a picture whose row is none of those that were asked for."""
    sizes = {(row.width, row.height) for row in rows}
    for row in (image.row for image in images):
        if (row.width, row.height) not in sizes:
            expected = " or ".join(f"{width}x{height}" for width, height in sorted(sizes))
            raise InvalidInput(
                f"{row.model} drew {row.width}x{row.height} pixels where {expected} were asked for; it is "
                "kept with its own size. Start again, now that its files are on this machine; if that "
                "does not help, ask for that size (width and height of its entry in assets/models.yaml)"
            )


class _Clock:
    """Time left, from the pictures drawn and the part of the batches at work that is done.

    The time before the first sign of drawing, in which workers start and models load, is not counted as
    soon as there is a second one.
    """

    def __init__(self, *, n_missing: int) -> None:
        self.n_drawn = 0
        self._n_missing = n_missing
        self._n_begun = 0.0
        self._origin = time.monotonic(), 0.0
        self._first: tuple[float, float] | None = None

    def see(self, event: Event) -> None:
        self.n_drawn += len(event.images)
        self._n_begun = self.n_drawn + event.begun
        self._first = self._first or (time.monotonic(), self._n_begun)

    def seconds_left(self) -> float:
        started, at_start = self._origin
        if self._first is not None and self._n_begun > self._first[1]:
            started, at_start = self._first
        if self._n_begun <= at_start:
            return float("nan")
        elapsed = time.monotonic() - started
        return elapsed / (self._n_begun - at_start) * max(0.0, self._n_missing - self._n_begun)
