"""Runs manifest rows on this machine: what is stored is reused, the rest is drawn batch by batch."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bias_core.errors import Cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bias_core.protocols import TextToImage
    from bias_core.runs.images import ImageStore
    from bias_core.types import ImageRow, StoredImage

_LOCK_POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class EngineProgress:
    """Where the rows are.

    Attributes
    ----------
    done, total : distinct pictures.
    images : those finished since the event before.
    reused : whether ``images`` come from the store.
    step, n_steps : denoising steps of the batch at work; 0 and 0 between batches.
    seconds_left : nan until the first pictures or steps have been timed.
    """

    done: int
    total: int
    images: tuple[StoredImage, ...] = ()
    reused: bool = False
    step: int = 0
    n_steps: int = 0
    seconds_left: float = float("nan")


def run_rows(
    rows: Sequence[ImageRow],
    model: TextToImage,
    store: ImageStore,
    *,
    lock: threading.Lock,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[EngineProgress]:
    """Yield progress until every row has its picture in ``store``.

    Drawing happens in a thread of its own, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises
    ------
    Cancelled
        ``cancelled()`` turned true: after at most one denoising step, with finished batches stored.
    ModelUnavailable, StorageError, InvalidInput
        From the model or the store; what was stored before stays.
    """
    distinct = {row.id: row for row in rows}
    found = store.find(distinct)
    missing = [row for image_id, row in distinct.items() if image_id not in found]
    yield EngineProgress(done=len(found), total=len(distinct), images=tuple(found.values()), reused=True)
    if not missing:
        return
    worker = _Worker(missing, model, store, lock, cancelled)
    clock = _Clock(n_missing=len(missing))
    try:
        for event in worker.events():
            clock.see(event)
            yield EngineProgress(
                done=len(found) + clock.n_drawn,
                total=len(distinct),
                images=event.images,
                step=event.step,
                n_steps=event.n_steps,
                seconds_left=clock.seconds_left(),
            )
    finally:
        worker.stop()


@dataclass(frozen=True, kw_only=True)
class _Event:
    images: tuple[StoredImage, ...] = ()
    step: int = 0
    n_steps: int = 0
    batch: int = 0


class _Worker:
    """Draws and stores in a thread, and hands events over."""

    def __init__(
        self,
        rows: Sequence[ImageRow],
        model: TextToImage,
        store: ImageStore,
        lock: threading.Lock,
        cancelled: Callable[[], bool],
    ) -> None:
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._cancelled = cancelled
        self._abandoned = threading.Event()
        self._queue: queue.SimpleQueue[_Event | None] = queue.SimpleQueue()
        self._last_step_event = 0.0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="bias-engine")

    def events(self) -> Iterator[_Event]:
        work = self._pool.submit(self._work)
        while (event := self._queue.get()) is not None:
            yield event
        work.result()  # raises here what ended the work there

    def stop(self) -> None:
        """End the thread at its next step; called when the reader goes away, too."""
        self._abandoned.set()
        self._pool.shutdown()

    def _work(self) -> None:
        try:
            for start in range(0, len(self._rows), self._model.batch_size):
                self._draw(self._rows[start : start + self._model.batch_size])
        finally:
            self._queue.put(None)

    def _draw(self, batch: Sequence[ImageRow]) -> None:
        self._take_turn()
        try:
            images = list(self._model.generate(batch, on_step=self._on_step(len(batch))))
        finally:
            self._lock.release()
        self._queue.put(_Event(images=tuple(self._store.add(images))))

    def _take_turn(self) -> None:
        self._check()
        while not self._lock.acquire(timeout=_LOCK_POLL_SECONDS):
            self._check()

    def _on_step(self, batch: int) -> Callable[[int, int], None]:
        def on_step(step: int, n_steps: int) -> None:
            self._check()
            now = time.monotonic()
            if now - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = now
                self._queue.put(_Event(step=step, n_steps=n_steps, batch=batch))

        return on_step

    def _check(self) -> None:
        if self._abandoned.is_set() or self._cancelled():
            raise Cancelled("stopped; what was finished is kept")


class _Clock:
    """Time left, from the pictures drawn and the part of a batch that is done."""

    def __init__(self, *, n_missing: int) -> None:
        self.n_drawn = 0
        self._n_missing = n_missing
        self._n_begun = 0.0
        self._started = time.monotonic()

    def see(self, event: _Event) -> None:
        self.n_drawn += len(event.images)
        part = event.batch * event.step / event.n_steps if event.n_steps else 0.0
        self._n_begun = self.n_drawn + part

    def seconds_left(self) -> float:
        if self._n_begun <= 0:
            return float("nan")
        elapsed = time.monotonic() - self._started
        return elapsed / self._n_begun * (self._n_missing - self._n_begun)
