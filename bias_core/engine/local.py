"""Runs manifest rows on this machine: what is stored is reused, the rest is drawn batch by batch."""

import os
import time
from collections.abc import Callable, Iterator, Sequence

from bias_core.engine.progress import Drawing, EngineProgress, follow
from bias_core.models.machine import this_machine
from bias_core.protocols import TextToImage
from bias_core.store.images import ImageStore
from bias_core.types import GeneratedImage, ImageRow
from bias_core.waiting import Lock

_LOCK_POLL_SECONDS = 0.1
_STEP_EVENT_SECONDS = 0.1


def run_rows(
    rows: Sequence[ImageRow],
    model: TextToImage,
    store: ImageStore,
    *,
    lock: Lock,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[EngineProgress]:
    """Yield progress until every row has its picture in ``store``.

    Drawing happens in a thread of its own, so that the caller can embed one batch while the next is
    drawn. ``lock`` is held for a batch at a time: visitors take turns.

    Raises
    ------
    Cancelled : ``cancelled()`` turned true: after at most one denoising step, with finished batches stored.
    ModelUnavailable, StorageError, InvalidInput : from the model or the store; what was stored before stays.
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
        self, rows: Sequence[ImageRow], model: TextToImage, store: ImageStore, lock: Lock, cancelled: Callable[[], bool]
    ) -> None:
        super().__init__(cancelled)
        self._rows, self._model, self._store, self._lock = rows, model, store, lock
        self._last_step_event = 0.0

    def draw(self) -> None:
        for start in range(0, len(self._rows), self._model.batch_size):
            batch = self._rows[start : start + self._model.batch_size]
            images: list[GeneratedImage] = []
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
            now = time.monotonic()
            if now - self._last_step_event >= _STEP_EVENT_SECONDS:
                self._last_step_event = now
                self.put(step=step, n_steps=n_steps, begun=n_pictures * step / n_steps)

        return on_step
