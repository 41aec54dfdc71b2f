"""Errors with a message that tells the user what to do."""

from reprlib import Repr

_MOST_DIGITS = 40
_LONGEST = 3000  # characters of a message; the list of all models fits


class BiasCoreError(Exception):
    """Base of every error that this package raises on purpose, with a message for the user."""


class InvalidInput(BiasCoreError, ValueError):
    """Data or a setting cannot be used; the message quotes the value and says what is valid."""


class TooLarge(InvalidInput):
    """A run too large for this server; ``scale`` is the largest allowed share of it, 0 if none is or it is unknown."""

    scale: float = 0.0


class NotAllowed(BiasCoreError):
    """A link or code does not give access, or not now; the message reveals no secret."""


class UnknownModel(BiasCoreError, LookupError):
    """No model or condition of this name is in the catalogue."""


class ModelUnavailable(BiasCoreError, RuntimeError):
    """The weights of a known model are missing, corrupt, gated or too large; the message says what to do."""


class NoClassifier(BiasCoreError):
    """The chosen classifier cannot read these pictures; the message names others."""

    are_own: bool = False  # True if the pictures are the user's own


class UnsuitedClassifier(NoClassifier, InvalidInput):
    """The chosen classifier is made for other pictures."""


class ClassifierUnavailable(NoClassifier, ModelUnavailable):
    """The chosen classifier cannot be loaded."""


class NotEnoughMemory(ModelUnavailable):
    """The model needs more memory than is free now; the message gives both sizes."""


class NotDrawn(ModelUnavailable):
    """A hosted model failed to deliver one picture after all tries; others may succeed."""


class HubNotReached(ModelUnavailable):
    """The model's files are not on this machine, and the hub or service is out of reach."""


class RunQueueFull(BiasCoreError):
    """Too many runs are waiting already; the message says when to try again."""


class UploadsFull(BiasCoreError):
    """There is no room for the upload; the message says when to try again."""


class StorageError(BiasCoreError, OSError):
    """Files could not be written or read; stored data is intact."""


class Cancelled(BiasCoreError):
    """The user stopped; what was finished is stored. ``unread``: ids of pictures that were still to be classified."""

    unread: frozenset[str] = frozenset()


class Interrupted(Cancelled):
    """The machine cannot go on for now. Finished pictures are stored; the same settings resume the run."""


def get_error_message(error: BiasCoreError) -> str:
    """The message of an error for the user, without the middle if it is very long."""
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
    """Quote a value for an error message as Python writes it, without the middle of long ones.

    >>> quoted("nurse"), quoted([1] * 999)
    ("'nurse'", '[1, 1, 1, 1, 1, 1, ...]')
    """
    return _quoting.repr(value)
