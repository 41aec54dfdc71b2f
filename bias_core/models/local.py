"""Draws rows on this machine, batch by batch, and what all engines share: where the rows are, and the time left.

Also how long a picture took on this machine before, what a run will cost, and the engine that asks hosted models for
several pictures at a time.
"""

import json
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from bias_core.errors import (
    BiasCoreError,
    Cancelled,
    Interrupted,
    InvalidInput,
    ModelUnavailable,
    NotDrawn,
    StorageError,
)
from bias_core.models.fit import this_machine
from bias_core.protocols import ShowsForming, TextToImage
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import GeneratedImage, ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, handing_over, never, wait_while_paused, work_clock

_LOCK_POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1
_FORMING_SECONDS = 0.3  # between two looks at what forms
_PER_LOOK = 24  # and that many times what a look takes: it slows drawing by a twenty-fifth at most
_ENOUGH = 16  # pictures: a rate of fewer does not replace one of more


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    """Where the rows are."""

    # done, total: distinct pictures; a drawing does not know them
    done: int = 0
    total: int = 0
    images: tuple[StoredImage, ...] = ()  # those finished since the event before
    reused: bool = False  # whether `images` come from the store
    # step, n_steps: denoising steps of a batch at work; 0 and 0 between batches
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0  # the steps done of batches at work, in pictures: half a batch of 8 is 4
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # small, of a batch at work, by the ids of rows
    seconds_left: float = float("nan")  # nan until the first pictures or steps have been timed


class Engine(Protocol):
    """Who executes a manifest: the same rows give the same ids and pictures under each."""

    def n_workers(self) -> int:
        """How many batches are drawn at a time."""

    def place(self) -> str:
        """What each worker draws on, so that its speed can be remembered."""

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock,
        cancelled: StopSignal = never,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row, all of one model, has its picture in ``store``."""

    def close(self) -> None:
        """Let go of workers."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What one picture costs one worker."""

    seconds: float  # per picture, loading of the model not counted
    n_bytes: float  # mean size of its PNG file
    n: int  # pictures behind these numbers


class Meter:
    """The speed of drawing, and the time left.

    Time counts from the first sign of drawing, so that the start of workers and the loading of models are left
    out; while there is no second one, from the beginning.
    """

    def __init__(self) -> None:
        self.n_drawn = 0
        self._n_bytes = 0
        self._seconds = work_clock().seconds
        self._origin = self._seconds(), 0.0
        self._first: tuple[float, float] | None = None
        self._sign = self._last = 0.0, 0.0  # when, and pictures done by then; the newest, and of the last picture

    def see(self, event: EngineProgress) -> None:
        """Take up an event of a run."""
        if event.reused or not (event.step or event.images):
            return
        self.n_drawn += len(event.images)
        self._sign = self._seconds(), self.n_drawn + event.begun
        self._first = self._first or self._sign
        if event.images:
            self._last = self._sign
            for image in event.images:
                with suppress(OSError):  # deleted meanwhile
                    self._n_bytes += image.path.stat().st_size

    def rate(self, n_workers: int) -> Rate | None:
        """What a picture costs; None where the run was too short to tell."""
        if self._first is None or not self.n_drawn:
            return None
        seconds, n_pictures = (last - first for last, first in zip(self._last, self._first, strict=True))
        if n_pictures <= 0:
            return None
        return Rate(seconds=n_workers * seconds / n_pictures, n_bytes=self._n_bytes / self.n_drawn, n=self.n_drawn)

    def seconds_left(self, n_missing: int) -> float:
        """Until all that were missing are drawn; nan before anything can be told."""
        n_begun = self._sign[1]
        is_later = self._first is not None and n_begun > self._first[1]
        started, at_start = self._first if self._first is not None and is_later else self._origin
        if n_begun <= at_start:
            return float("nan")
        return (self._seconds() - started) / (n_begun - at_start) * max(0.0, n_missing - n_begun)


class Drawing(ABC):
    """Draws and stores in a thread of its own, and hands events over.

    ``cancelled``: asked by the thread; once true, the work ends with :class:`Cancelled`.
    """

    def __init__(self, cancelled: StopSignal) -> None:
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[EngineProgress | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    @abstractmethod
    def draw(self) -> None:
        """The work; calls :meth:`put` for what is finished and :meth:`check` often."""

    def events(self) -> Iterator[EngineProgress]:
        """Start the work and yield its events; what ended it is raised here."""

        def work() -> None:
            try:
                self.draw()
            finally:
                self._queue.put(None)

        # With what the caller's thread knows of its visitor, whom a borrowed GPU asks for.
        result = self._pool.submit(copy_context().run, work)
        yield from iter(self._queue.get, None)
        result.result()

    def stop(self) -> None:
        """End the thread at its next step; called when the reader goes away, too."""
        self._abandoned.set()
        self._pool.shutdown()

    def put(self, images: Sequence[StoredImage] = (), **at_work: Any) -> None:
        """Hand over what is finished, or where batches at work are: fields of :class:`EngineProgress`."""
        self._queue.put(EngineProgress(images=tuple(images), **at_work))

    def check(self) -> None:
        """Raise Cancelled where nobody waits for these pictures any more."""
        if self._abandoned.is_set() or self._cancelled():
            raise stopped()


def stopped() -> Cancelled:
    """What ends a drawing that nobody waits for."""
    return Cancelled("stopped; what was finished is kept")


def follow(
    rows: Sequence[ImageRow], store: ImageStore, start: Callable[[list[ImageRow]], Drawing]
) -> Iterator[EngineProgress]:
    """Give what is stored at once, and follow the drawing of the rest.

    ``start``: makes the drawing of the rows, each distinct, that have no picture yet; not called for none.

    Raises InvalidInput: pictures of another size than their rows'; they are stored with their own.
    """
    distinct = {row.id: row for row in rows}
    stored = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in stored]
    yield EngineProgress(done=len(stored), total=len(distinct), images=tuple(stored.values()), reused=True)
    if not missing:
        return
    drawing, meter = start(missing), Meter()
    try:
        for event in drawing.events():
            _check_sizes(event.images, missing)
            meter.see(event)
            done, left = len(stored) + meter.n_drawn, meter.seconds_left(len(missing))
            yield replace(event, done=done, total=len(distinct), seconds_left=left)
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


def run_rows(
    rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, *, lock: Lock, cancelled: StopSignal = never
) -> Iterator[EngineProgress]:
    """Yield progress until every row has its picture in ``store``.

    Drawing happens in a thread of its own, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises Cancelled: ``cancelled()`` turned true: after at most one denoising step, with finished batches stored;
    ModelUnavailable, StorageError, InvalidInput: from the model or the store; what was stored before stays.
    """
    return follow(rows, store, lambda missing: _LocalDrawing(missing, model, store, lock, cancelled))


class LocalEngine:
    """Draws in this process, one batch at a time, on a device of the settings: "auto", "cpu", "cuda" or "mps"."""

    run = staticmethod(run_rows)

    def __init__(self, device: str = "auto") -> None:
        self._device = device

    def n_workers(self) -> int:
        """One."""
        return 1

    def place(self) -> str:
        """Name of the GPU, or the number of processors."""
        gpu = this_machine().gpu if self._device in {"auto", "cuda"} else ""
        return gpu or (self._device if self._device == "mps" else f"{os.cpu_count()} processors")

    def close(self) -> None:
        """Nothing is held."""


class _LocalDrawing(Drawing):
    """Draws batch by batch under the lock."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, lock: Lock, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._last_step_event, self._looks = 0.0, _Looks(model)

    def draw(self) -> None:
        for start in range(0, len(self._rows), self._model.batch_size):
            batch = self._rows[start : start + self._model.batch_size]
            images: list[GeneratedImage] = []
            wait_while_paused(self.check)
            self.check()
            while not self._lock.acquire(timeout=_LOCK_POLL_SECONDS):
                self.check()
            try:
                for image in self._model.generate(batch, on_step=self._on_step(len(batch))):
                    images.append(image)  # noqa: PERF402 - what came before an error is kept
            finally:
                self._lock.release()
                if images:
                    self.put(self._store.add(images))

    def _on_step(self, n_pictures: int) -> Callable[[int, int], None]:
        def on_step(step: int, n_steps: int) -> None:
            self.check()
            forming = self._looks.forming() if step < n_steps else {}
            if forming or time.monotonic() - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = time.monotonic()
                self.put(step=step, n_steps=n_steps, begun=n_pictures * step / n_steps, forming=forming)

        return on_step


class _Looks:
    """Looks now and then at what a model's batch at work is heading for, so seldom that drawing is hardly slowed."""

    def __init__(self, model: TextToImage) -> None:
        self._model = model if isinstance(model, ShowsForming) else None
        self._due, self._n = 0.0, 0

    def forming(self) -> Mapping[str, Image.Image]:
        """Small pictures by the ids of their rows, if it is time for a look; at the first step it is."""
        began = time.monotonic()
        if self._model is None or began < self._due:
            return {}
        images, ended = self._model.forming(), time.monotonic()
        # What the first one takes is no measure: it may import what it needs.
        pause = _PER_LOOK * (ended - began) if self._n else 0.0
        self._due, self._n = ended + max(_FORMING_SECONDS, pause), self._n + 1
        return images


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate; nan where nothing is known of this model on this machine."""

    # n_pictures, n_stored: distinct ones of the run, and those that exist already
    n_pictures: int
    n_stored: int
    seconds: float  # to draw the others, by all workers together, loading of the model not counted
    n_bytes: float  # that the others will take on the disk

    @property
    def n_missing(self) -> int:
        """Pictures that are to be drawn."""
        return self.n_pictures - self.n_stored


def estimate_cost(rows: Sequence[ImageRow], store: ImageStore, rate: Rate | None, *, n_workers: int) -> Cost:
    """The cost of ``rows`` at the rate of one worker."""
    ids = {row.id for row in rows}
    n_stored = store.n_present(ids)
    n_missing = len(ids) - n_stored
    unknown = float("nan") if n_missing else 0.0
    return Cost(
        n_pictures=len(ids),
        n_stored=n_stored,
        seconds=unknown if rate is None else n_missing * rate.seconds / n_workers,
        n_bytes=unknown if rate is None else n_missing * rate.n_bytes,
    )


class RateStore:
    """One small JSON file: rates by model, size, sampler settings and place.

    Two processes that write at once may lose one of the two rates; the next run brings it again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, row: ImageRow, place: str) -> Rate | None:
        """The rate of rows like this one, or None; an unreadable file counts as empty."""
        entry = self._read().get(_key(row, place))
        try:
            return None if entry is None else Rate(**entry)
        except TypeError:
            return None

    def keep(self, row: ImageRow, place: str, rate: Rate) -> None:
        """Remember a rate, unless it comes from a handful of pictures and a better one is known."""
        earlier = self.find(row, place)
        if earlier is not None and rate.n < min(earlier.n, _ENOUGH):
            return
        rates = self._read() | {_key(row, place): asdict(rate)}
        write_atomically(self._path, json.dumps(rates, indent=1, sort_keys=True).encode())

    def watch(
        self, events: Iterator[EngineProgress], row: ImageRow, engine: Engine
    ) -> Generator[EngineProgress, None, None]:
        """Pass the events of a run on, and remember its rate in the end."""
        meter = Meter()
        try:
            with closing(events):  # type: ignore[type-var]  # engines yield from generators
                for event in events:
                    meter.see(event)
                    yield event
        finally:
            if meter.n_drawn and (rate := meter.rate(engine.n_workers())) is not None:
                with suppress(StorageError):  # must not hide what ended the run
                    self.keep(row, engine.place(), rate)

    def _read(self) -> dict[str, Any]:
        content: object = None
        with suppress(OSError, ValueError):
            content = json.loads(self._path.read_bytes())
        return content if isinstance(content, dict) else {}


def _key(row: ImageRow, place: str) -> str:
    guided = "guided" if row.guidance_scale > 1 else "unguided"  # guidance doubles the passes
    how = ", ".join(filter(None, (f"{row.num_inference_steps} steps", guided, row.sampler)))
    return f"{row.model} | {row.width}x{row.height} | {how} | {place}"


_POLL_SECONDS = 0.1
_GRACE_SECONDS = 0.5  # after Stop, for answers that are about to come
_MOST_AT_FIRST = 8  # pictures that fail before any has come, until no more are asked for
_MOST_IN_A_ROW = 40  # the same later on: a prompt that a service cannot draw is no service that is down


class RequestsEngine:
    """Asks for ``at_once`` pictures at a time; no lock is held, for nothing runs on this machine."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once

    def n_workers(self) -> int:
        """Requests at a time."""
        return self._at_once

    def place(self) -> str:
        """Elsewhere."""
        return "a hosted model"

    def run(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        *,
        lock: Lock | None = None,
        cancelled: StopSignal = never,
    ) -> Iterator[EngineProgress]:
        """Yield progress until every row has its picture in ``store``.

        Raises Cancelled: within a second of ``cancelled()``, and no further request is sent; what was asked for by
        then is stored when it comes, if the program still runs. Interrupted: some pictures did not come after all
        tries, all others are stored. ModelUnavailable: none would come.
        """
        return follow(rows, store, lambda missing: _RequestDrawing(missing, model, store, self._at_once, cancelled))

    def close(self) -> None:
        """Nothing is held."""


class _RequestDrawing(Drawing):
    """A thread for each request on its way."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, at_once: int, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._at_once = rows, model, store, at_once
        self._over = threading.Event()
        self._failures: list[BiasCoreError] = []
        self._in_a_row = self._n_drawn = 0
        self._fatal: BiasCoreError | None = None

    def draw(self) -> None:
        rows, pending, clock = iter(self._rows), set[Future[list[StoredImage]]](), work_clock()
        try:
            while True:
                self.check()
                if not pending:
                    wait_while_paused(self.check)
                most = 1 if clock.is_paused else self._at_once  # a run that was paused just now asks for one more
                while len(pending) < most and self._fatal is None and (row := next(rows, None)) is not None:
                    pending.add(self._start(row))
                if not pending:
                    break
                pending -= self._take(pending, _POLL_SECONDS)
                if self._fatal is not None:
                    self._over.set()  # what is on its way is waited for, and not asked for again
        except Cancelled:
            self._over.set()
            self._take(pending, _GRACE_SECONDS, everything=True)
            raise
        if self._fatal is not None:
            raise self._fatal
        if self._failures:
            self._say_failures()

    def _start(self, row: ImageRow) -> "Future[list[StoredImage]]":
        future: Future[list[StoredImage]] = Future()
        # A daemon: an answer that never comes holds up neither Stop nor the end of the program.
        threading.Thread(target=self._ask, args=(row, future), daemon=True, name="bias-request").start()
        return future

    def _ask(self, row: ImageRow, future: "Future[list[StoredImage]]") -> None:
        with handing_over(future):
            future.set_result(self._store.add(list(self._model.generate([row], on_step=self._on_step))))

    def _on_step(self, _step: int, _n_steps: int) -> None:
        if self._over.is_set():
            raise stopped()

    def _take(
        self, pending: "set[Future[list[StoredImage]]]", seconds: float, *, everything: bool = False
    ) -> "set[Future[list[StoredImage]]]":
        """Hand over what came within that time; which requests have ended."""
        ended = wait(pending, timeout=seconds, return_when="ALL_COMPLETED" if everything else FIRST_COMPLETED).done
        for future in ended:
            error = future.exception()
            if error is None:
                self._n_drawn, self._in_a_row = self._n_drawn + 1, 0
                self.put(future.result())
            elif isinstance(error, NotDrawn):
                self._failures.append(error)
                self._in_a_row += 1
                self._fatal = self._fatal or self._service_down(error)
            elif not isinstance(error, Cancelled):
                self._fatal = self._fatal or error  # type: ignore[assignment]
        return ended

    def _service_down(self, error: NotDrawn) -> BiasCoreError | None:
        """What ends a run of failures, None while it may go on."""
        if self._in_a_row < (_MOST_IN_A_ROW if self._n_drawn else _MOST_AT_FIRST):
            return None
        kind = Interrupted if self._n_drawn else ModelUnavailable
        return kind(
            f"{error}. {self._in_a_row} pictures failed one after the other, so no more were asked for; what came is "
            "kept, and the same settings go on from there"
        )

    def _say_failures(self) -> None:
        """Raise what became of the pictures that did not come."""
        n, first = len(self._failures), self._failures[0]
        if not self._n_drawn:
            raise ModelUnavailable(f"{first}; no picture came")
        raise Interrupted(
            f"{n:,} of {len(self._rows):,} pictures did not come after all tries ({first}). The others are kept, and "
            "the same settings ask for these alone"
        )
