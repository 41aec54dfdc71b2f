"""Weights that load on first use, and leave again, the longest unused first, when others need the room.

Memory belongs to the process, so there is one list of who holds weights. Whoever loads, or draws, holds
``Services.model_lock``; readers work beside that, and are waited for before their weights are let go.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from bias_core.adapters.devices import loading
from bias_core.errors import NotEnoughMemory

T = TypeVar("T")

_last_used: WeakKeyDictionary[Weights[Any], int] = WeakKeyDictionary()
_clock = count()


class Weights(Generic[T]):
    """What an adapter loads on first use.

    Parameters
    ----------
    name : of the model, for messages.
    source : where its files are, for messages.
    load : reads them.
    unchanged : called when they were read; raises where the files are no longer those that ``name`` means.
    """

    def __init__(
        self, name: str, source: str, load: Callable[[], T], unchanged: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self.source = source
        self._load, self._unchanged = load, unchanged
        self.value: T | None = None
        self._running = threading.RLock()

    def __call__(self) -> T:
        """The weights, loaded now if they are not.

        Raises
        ------
        ModelUnavailable
            Missing or corrupt, or they do not fit even when nothing else is loaded.
        """
        value = self.value
        if value is None:
            with loading(self.name, self.source):
                value = self._load_with_room()
            self._unchanged()
        self.keep(value)
        return value

    @contextmanager
    def running(self) -> Iterator[T]:
        """The weights, which stay until the block ends; for readers, which hold no ``model_lock``."""
        with self._running:
            yield self()

    def keep(self, value: T) -> None:
        """Have these from now on, as if they had been loaded."""
        self.value = value
        _last_used[self] = next(_clock)

    def drop(self) -> None:
        """Let go of them, once nobody runs them; the next use loads them again."""
        with self._running:
            self.value = None
        _last_used.pop(self, None)

    def _load_with_room(self) -> T:
        import torch

        try:
            return self._load()
        except (NotEnoughMemory, torch.OutOfMemoryError):
            if not drop_longest_unused():
                raise
        return self._load_with_room()  # ends when nothing else is loaded


def drop_longest_unused() -> bool:
    """Let go of the weights that were unused longest; False where none are loaded."""
    if not _last_used:
        return False
    min(_last_used, key=_last_used.__getitem__).drop()
    gc.collect()
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return True
