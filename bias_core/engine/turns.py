"""Who may run when: one generator and one reader at a time, side by side; whoever loads, alone."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from types import TracebackType

    from bias_core.waiting import Lock


@runtime_checkable
class Loadable(Protocol):
    """A model that reads its weights when it is told to, or with its first input."""

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        ...

    def load(self) -> None:
        """Read them now."""
        ...


class ReadersTurn:
    """Held by whoever asks readers (encoders, captioners, language models); can be entered again and again.

    A reader works while a generator draws the next pictures. It loads while none does: then what a
    generator holds can leave the memory to make room.

    Parameters
    ----------
    readers : that will be asked; those that load by themselves (or hold no weights) may be among them.
    reader_lock : one for all readers.
    model_lock : that generators hold.
    """

    def __init__(self, readers: tuple[object, ...], *, reader_lock: Lock, model_lock: Lock) -> None:
        self._readers = [reader for reader in readers if isinstance(reader, Loadable)]
        self._reader_lock, self._model_lock = reader_lock, model_lock

    def __enter__(self) -> None:
        with ExitStack() as held:
            held.enter_context(self._reader_lock)
            for reader in self._readers:
                if not reader.loaded:
                    with self._model_lock:
                        reader.load()
            held.pop_all()  # all are ready: the lock stays until the turn ends

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reader_lock.release()
