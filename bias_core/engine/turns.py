"""Who may run when: one generator and one reader at a time, side by side; whoever loads, alone."""

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, runtime_checkable

from bias_core.waiting import WEIGHTS_SECONDS, BuiltOnce, FairLock


@runtime_checkable
class Loadable(Protocol):
    """A model that reads its weights when it is told to, or with its first input."""

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""

    def load(self) -> None:
        """Read them now."""


@runtime_checkable
class Fetchable(Loadable, Protocol):
    """One whose weights may have to be downloaded."""

    name: str

    def fetch(self) -> None:
        """Do so, and load nothing."""


class ReadersTurn:
    """Held by whoever asks readers (encoders, captioners, language models); can be entered again and again.

    A reader works while a generator draws the next pictures. It loads while none does: then what a
    generator holds can leave the memory to make room. It is downloaded before, while nobody waits for it.

    Parameters
    ----------
    readers : that will be asked; those that load by themselves (or hold no weights) may be among them.
    reader_lock : one for all readers.
    model_lock : that generators hold.
    downloads : in which each reader's files are got once, whoever asks.
    """

    def __init__(
        self, readers: tuple[object, ...], reader_lock: FairLock, model_lock: FairLock, *, downloads: BuiltOnce
    ) -> None:
        self._readers = [reader for reader in readers if isinstance(reader, Loadable)]
        self._reader_lock, self._model_lock, self._downloads = reader_lock, model_lock, downloads

    def fetch(self) -> None:
        """Download what the readers lack, and load nothing."""
        for reader in self._readers:
            if isinstance(reader, Fetchable) and not reader.loaded:
                # By its id: another one of this name has to know its files, too.
                self._downloads.get(
                    "files of a reader", reader.name, reader.fetch, version=f"{id(reader)}", limit=WEIGHTS_SECONDS
                )

    def __enter__(self) -> None:
        self.fetch()
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
