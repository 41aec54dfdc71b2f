"""Runs that go on while the page that asked for them is loaded anew: each in a thread of its own."""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from typing import Generic, TypeVar, cast

from bias_core.waiting import HandOver

S = TypeVar("S")
R = TypeVar("R")

_LOOK_SECONDS = 0.5


class RunAtWork(Generic[S, R]):
    """A run that can be followed, left, and followed again; who follows sees its newest step.

    Parameters
    ----------
    steps : of the run, called in its thread.
    stop : set to end it.
    place : where its visitor began it, "" where nobody looks for it again.
    patience : seconds for which it goes on while nobody follows it.
    """

    def __init__(
        self,
        steps: Callable[[], Generator[S, None, R]],
        stop: threading.Event,
        *,
        place: str = "",
        patience: float = float("inf"),
    ) -> None:
        self.place, self.stop = place, stop
        self._patience = patience
        self._changed = threading.Condition()
        self._n_steps, self._n_followers = 0, 0
        self._step: S | None = None
        self._result: Future[R] = Future()
        self._given_up: threading.Timer | None = None
        run = copy_context().run
        threading.Thread(target=run, args=(self._work, steps), daemon=True, name="bias-run").start()

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to come."""
        return self._result.done()

    def follow(self) -> Generator[S, None, R]:
        """Its newest step whenever there is one; returns what it returned, or raises what it raised."""
        n_seen = 0
        with self._followed():
            while True:
                with self._changed:
                    while self._n_steps == n_seen and not self.ended:
                        self._changed.wait(_LOOK_SECONDS)
                    if self._n_steps == n_seen:
                        break
                    n_seen, step = self._n_steps, cast("S", self._step)
                yield step
        return self._result.result()

    @contextmanager
    def _followed(self) -> Iterator[None]:
        with self._changed:
            self._n_followers += 1
            if self._given_up is not None:
                self._given_up.cancel()
        try:
            yield
        finally:
            with self._changed:
                self._n_followers -= 1
                if not self._n_followers and not self.ended:
                    self._wait_for_followers()

    def _wait_for_followers(self) -> None:
        if self._patience == float("inf"):
            return
        self._given_up = threading.Timer(self._patience, self._give_up)
        self._given_up.daemon = True
        self._given_up.start()

    def _give_up(self) -> None:
        with self._changed:
            if not self._n_followers:
                self.stop.set()

    def _work(self, steps: Callable[[], Generator[S, None, R]]) -> None:
        with HandOver(self._result, lambda: None):
            self._result.set_result(self._walk(steps()))
        with self._changed:
            if self._given_up is not None:
                self._given_up.cancel()
            self._changed.notify_all()

    def _walk(self, steps: Generator[S, None, R]) -> R:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return cast("R", end.value)
            with self._changed:
                self._step = step
                self._n_steps += 1
                self._changed.notify_all()
