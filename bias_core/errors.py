"""Errors that a person can act on."""

from reprlib import Repr

_MOST_DIGITS = 40
_LONGEST = 3000  # characters of a message; the list of all models has a place in it


class BiasCoreError(Exception):
    """Base of every error that this package raises on purpose; its text is meant for the user."""


class InvalidInput(BiasCoreError, ValueError):
    """The data or a setting cannot be used. The message quotes what came and says what would do."""


class TooLarge(InvalidInput):
    """A run asks for more than is allowed here; the message says how to ask for less.

    ``scale`` is the largest share of the full size that is allowed, 0 where none is, or that is not known.
    """

    scale: float = 0.0


class NotAllowed(BiasCoreError):
    """A link or code opens nothing, or not what was asked for, or not now; the message tells no secret."""


class UnknownModel(BiasCoreError, LookupError):
    """No model or condition of this name is in the catalogue."""


class ModelUnavailable(BiasCoreError, RuntimeError):
    """The model is known, but its weights are missing, corrupt, gated or too large; the message says what to do."""


class NotEnoughMemory(ModelUnavailable):
    """The model is too large for what is free now; the message says what it needs and what there is."""


class NotDrawn(ModelUnavailable):
    """One picture of a hosted model did not come after all tries; others may."""


class HubNotReached(ModelUnavailable):
    """The model's files are not on this machine, and what may have them, or draws for it, cannot be asked."""


class RunQueueFull(BiasCoreError):
    """Too many runs are waiting already; the message says when to try again."""


class UploadsFull(BiasCoreError):
    """There is no room for what is being uploaded; the message says when to try again."""


class StorageError(BiasCoreError, OSError):
    """Files could not be written or read; what was already stored is intact."""


class Cancelled(BiasCoreError):
    """The user asked to stop. Everything finished before that moment is stored.

    ``unread`` are the ids of pictures that were to be read, and were not, where it was while they were read.
    """

    unread: frozenset[str] = frozenset()


class Interrupted(Cancelled):
    """The machine cannot go on for now. What was finished is stored; the same settings go on from there."""


def message_of(error: BiasCoreError) -> str:
    """What an error says, for whoever asked; of a message without end the middle is left out."""
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


class _Quoting(Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 100
        self.maxlevel = 2

    def repr_int(self, x: int, level: int) -> str:
        """Python writes no number of many thousand digits."""
        return f"{x}" if abs(x) < 10**_MOST_DIGITS else f"a number of more than {_MOST_DIGITS} digits"


_quoting = _Quoting()


def quoted(value: object) -> str:
    """What came, for an error's message: as Python writes it, with the middle of what is long left out.

    >>> quoted("nurse"), quoted([1] * 999)
    ("'nurse'", '[1, 1, 1, 1, 1, 1, ...]')
    """
    return _quoting.repr(value)
