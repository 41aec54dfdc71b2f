"""Draws rows of a hosted model: several requests on their way at once, and each picture stored when it comes."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from bias_core.engine.local import Drawing, EngineProgress, follow, stopped
from bias_core.errors import BiasCoreError, Cancelled, Interrupted, ModelUnavailable, NotDrawn
from bias_core.protocols import TextToImage
from bias_core.store.images import ImageStore
from bias_core.types import ImageRow, StoredImage
from bias_core.waiting import Lock, StopSignal, handing_over, never, wait_while_paused, work_clock

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
