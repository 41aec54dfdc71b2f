"""Engines that draw the rows of a manifest, and their speed.

The engine of this process draws batch by batch; others are in ``ray_engine`` and ``hosted_images``.
"""

import json
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.models.model_sources import get_machine
from bias_core.models.weights import LazyModel
from bias_core.protocols import ShowsForming, TextToImage
from bias_core.store.files import write_atomically
from bias_core.store.images import ImageStore
from bias_core.types import BATCH_SIZE, GeneratedImage, ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, never, wait_while_paused, work_clock

POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1  # between two reports of steps, of which small models do hundreds in a second
_FORMING_SECONDS = 0.3  # seconds between two previews
_PER_LOOK = 24  # and this multiple of a preview's time, so that previews slow drawing by at most 4 %
_ENOUGH = 16  # pictures: a rate from fewer does not replace one from more


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    # done, total: distinct pictures; unknown to a Drawing
    done: int = 0
    total: int = 0
    images: tuple[StoredImage, ...] = ()  # pictures finished since the last event
    reused: bool = False  # true if `images` come from the store
    # step, n_steps: denoising steps of a batch at work; 0 and 0 between batches
    step: int = 0
    n_steps: int = 0
    begun: float = 0.0  # steps done of unfinished batches, as pictures: half a batch of 8 is 4
    forming: Mapping[str, Image.Image] = field(default_factory=dict)  # previews of an unfinished batch, by row id
    seconds_left: float = float("nan")  # nan before the first timing


class Engine(Protocol):
    """Draws a manifest; equal rows give equal ids and pictures under every engine."""

    def n_workers(self) -> int:
        """Number of batches drawn at a time."""

    def place(self) -> str:
        """The hardware of a worker, the key of its remembered speed."""

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
        """Stop the workers."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Measured cost of one picture for one worker."""

    seconds: float  # per picture, without loading the model
    n_bytes: float  # mean size of its PNG file
    n: int  # number of timed pictures


class Meter:
    """Measures the speed of drawing and the time left.

    Time counts from the first sign of drawing, so that starting workers and loading models are left
    out; before the second sign, it counts from the beginning.
    """

    def __init__(self) -> None:
        self.n_drawn = 0
        self._n_bytes = 0
        self._seconds = work_clock().seconds
        self._origin = self._seconds(), 0.0
        self._first: tuple[float, float] | None = None
        self._sign = self._last = 0.0, 0.0  # (time, pictures done): the newest, and that of the last picture

    def see(self, event: EngineProgress) -> None:
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
        """The cost of a picture; None after too short a run."""
        if self._first is None or not self.n_drawn:
            return None
        seconds, n_pictures = (last - first for last, first in zip(self._last, self._first, strict=True))
        if n_pictures <= 0:
            return None
        return Rate(seconds=n_workers * seconds / n_pictures, n_bytes=self._n_bytes / self.n_drawn, n=self.n_drawn)

    def estimate_seconds(self, n_missing: int) -> float:
        """Seconds until ``n_missing`` pictures are drawn; nan if unknown."""
        n_begun = self._sign[1]
        is_later = self._first is not None and n_begun > self._first[1]
        started, at_start = self._first if self._first is not None and is_later else self._origin
        if n_begun <= at_start:
            return float("nan")
        return (self._seconds() - started) / (n_begun - at_start) * max(0.0, n_missing - n_begun)


class Drawing(ABC):
    """Draws and stores pictures in a thread, and passes events to the caller.

    ``cancelled``: asked by the thread; once true, the work ends with :class:`Cancelled`.
    """

    batch_size = 0  # of the earlier part of the run, as its pictures record it; 0 if unknown

    def __init__(self, cancelled: StopSignal) -> None:
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[EngineProgress | None] = queue.SimpleQueue()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    @abstractmethod
    def draw(self) -> None:
        """Do the work; call :meth:`put` for finished pictures and :meth:`check` often."""

    def events(self) -> Iterator[EngineProgress]:
        """Start the work, yield its events, and raise its error."""

        def work() -> None:
            try:
                self.draw()
            finally:
                self._queue.put(None)

        # In the caller's context, where a borrowed GPU finds its visitor.
        result = self._pool.submit(copy_context().run, work)
        yield from iter(self._queue.get, None)
        result.result()

    def stop(self) -> None:
        """End the thread at its next step; also called when the consumer leaves."""
        self._abandoned.set()
        self._pool.shutdown()

    def put(self, images: Sequence[StoredImage] = (), **at_work: Any) -> None:
        """Pass on finished pictures or progress: fields of :class:`EngineProgress`."""
        self._queue.put(EngineProgress(images=tuple(images), **at_work))

    def check(self) -> None:
        """Raise Cancelled if the run was stopped."""
        if self._abandoned.is_set() or self._cancelled():
            raise stopped()


def stopped() -> Cancelled:
    return Cancelled("stopped; what was finished is kept")


def follow(
    rows: Sequence[ImageRow], store: ImageStore, start: Callable[[list[ImageRow]], Drawing]
) -> Iterator[EngineProgress]:
    """Yield stored pictures at once, then follow the drawing of the rest.

    ``start``: makes the Drawing of the distinct rows without pictures; not called if there are none.

    Raises InvalidInput: pictures of another size than their rows'; they are stored with their own.
    """
    distinct = {row.id: row for row in rows}
    stored = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in stored]
    yield EngineProgress(done=len(stored), total=len(distinct), images=tuple(stored.values()), reused=True)
    if not missing:
        return
    drawing, meter = start(missing), Meter()
    sizes = ((image.drawn or {}).get(BATCH_SIZE) for image in stored.values())
    drawing.batch_size = min((size for size in sizes if isinstance(size, int) and size > 0), default=0)
    try:
        for event in drawing.events():
            _check_sizes(event.images, missing)
            meter.see(event)
            done, left = len(stored) + meter.n_drawn, meter.estimate_seconds(len(missing))
            yield replace(event, done=done, total=len(distinct), seconds_left=left)
    finally:
        drawing.stop()


def _check_sizes(images: Sequence[StoredImage], rows: Sequence[ImageRow]) -> None:
    """Refuse pictures of another size than requested, which no row would find."""
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

    Drawing happens in a separate thread, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises Cancelled: ``cancelled()`` turned true: after at most one denoising step, with finished batches stored;
    ModelUnavailable, StorageError, InvalidInput: from the model or the store; stored pictures stay.
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
        gpu = get_machine().gpu if self._device in {"auto", "cuda"} else ""
        return gpu or (self._device if self._device == "mps" else f"{os.cpu_count()} processors")

    def close(self) -> None:
        """Nothing is held."""


class _LocalDrawing(Drawing):
    """Draws batch by batch under the lock; a batch is stored while the next is drawn."""

    def __init__(
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, lock: Lock, cancelled: StopSignal
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._last_step_event, self._looks = 0.0, _Looks(model)
        self._n_unsaved = 0  # pictures that are drawn, and on their way to the disk

    def draw(self) -> None:
        left = list(self._rows)
        with ThreadPoolExecutor(1, thread_name_prefix="bias-engine-save") as pool:
            saving: Future[None] | None = None
            while left:
                images: list[GeneratedImage] = []
                wait_while_paused(self.check)
                self.check()
                while not self._lock.acquire(timeout=POLL_SECONDS):
                    self.check()
                try:
                    with self._batch_size_of_run():
                        batch = left[: self._model.batch_size]
                        for image in self._model.generate(batch, on_step=self._on_step(len(batch))):
                            images.append(image)  # noqa: PERF402 - keeps the items before an error
                finally:
                    self._lock.release()
                    if saving is not None:
                        saving.result()  # at most one batch waits in memory, and a full disk ends the run
                    self._n_unsaved = len(images)
                    saving = pool.submit(self._save, images) if images else None
                left = left[len(batch) :]
            if saving is not None:
                saving.result()

    def _save(self, images: Sequence[GeneratedImage]) -> None:
        stored = self._store.add(images)
        self._n_unsaved = 0
        self.put(stored)

    @contextmanager
    def _batch_size_of_run(self) -> Iterator[None]:
        """Keep the size of the run's first batch, whatever other runs do; only memory that runs out lowers it."""
        if not isinstance(self._model, LazyModel):
            yield
            return
        self._model.load()  # its weights may decide the size
        with self._model.use_batch_size(self.batch_size or self._model.batch_size):
            try:
                yield
            finally:
                self.batch_size = self._model.batch_size

    def _on_step(self, n_pictures: int) -> Callable[[int, int], None]:
        def on_step(step: int, n_steps: int) -> None:
            self.check()
            forming = self._looks.forming() if step < n_steps else {}
            if forming or time.monotonic() - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = time.monotonic()
                begun = self._n_unsaved + n_pictures * step / n_steps
                self.put(step=step, n_steps=n_steps, begun=begun, forming=forming)

        return on_step


class _Looks:
    """Takes previews of a model's current batch, seldom enough not to slow drawing."""

    def __init__(self, model: TextToImage) -> None:
        self._model = model if isinstance(model, ShowsForming) else None
        self._due, self._n = 0.0, 0

    def forming(self) -> Mapping[str, Image.Image]:
        """Previews by row id if it is time for some, as it is at the first step."""
        began = time.monotonic()
        if self._model is None or began < self._due:
            return {}
        images, ended = self._model.forming(), time.monotonic()
        # The first preview's time does not count: it may include imports.
        pause = _PER_LOOK * (ended - began) if self._n else 0.0
        self._due, self._n = ended + max(_FORMING_SECONDS, pause), self._n + 1
        return images


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Estimated cost; nan for a model that was not timed on this machine."""

    # n_pictures, n_stored: distinct pictures of the run, and those stored already
    n_pictures: int
    n_stored: int
    seconds: float  # to draw the others with all workers, without loading the model
    n_bytes: float  # disk space of the others

    @property
    def n_missing(self) -> int:
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

    Two processes that write at once may lose one rate; the next run restores it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, row: ImageRow, place: str) -> Rate | None:
        """The rate for rows like this one, or None; an unreadable file counts as empty."""
        entry = self._read().get(_key(row, place))
        try:
            return None if entry is None else Rate(**entry)
        except TypeError:  # fields of another version
            return None

    def keep(self, row: ImageRow, place: str, rate: Rate) -> None:
        """Store a rate, unless it comes from few pictures and a better one is stored."""
        earlier = self.find(row, place)
        if earlier is not None and rate.n < min(earlier.n, _ENOUGH):
            return
        rates = self._read() | {_key(row, place): asdict(rate)}
        write_atomically(self._path, json.dumps(rates, indent=1, sort_keys=True).encode())

    def watch(
        self, events: Iterator[EngineProgress], row: ImageRow, engine: Engine
    ) -> Generator[EngineProgress, None, None]:
        """Pass on the events of a run, and store its rate at the end."""
        meter = Meter()
        try:
            with closing(events):  # type: ignore[type-var]  # engines yield from generators
                for event in events:
                    meter.see(event)
                    yield event
        finally:
            if meter.n_drawn and (rate := meter.rate(engine.n_workers())) is not None:
                with suppress(StorageError):  # must not hide the run's own error
                    self.keep(row, engine.place(), rate)

    def _read(self) -> dict[str, Any]:
        content: object = None
        with suppress(OSError, ValueError):
            content = json.loads(self._path.read_bytes())
        return content if isinstance(content, dict) else {}


def _key(row: ImageRow, place: str) -> str:
    guided = "guided" if row.guidance_scale > 1 else "unguided"  # guidance doubles the passes
    settings = ", ".join(filter(None, (f"{row.num_inference_steps} steps", guided, row.sampler)))
    return f"{row.model} | {row.width}x{row.height} | {settings} | {place}"
