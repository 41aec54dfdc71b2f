"""What belongs to one visitor: an unguessable key, a flag that stops the run, and a folder for downloads."""

from __future__ import annotations

import re
import secrets
import threading
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from bias_core.errors import InvalidInput

_KEY_BYTES = 16


class Visitor:
    """Lives in a ``gr.State``: a copy is a new visitor, so no two sessions ever share one.

    Attributes
    ----------
    key : 128 random bits in hex; run ids are derived from it. The visitor's browser keeps it, so that a
        reload of the page finds the same runs; nothing but 32 hex digits is taken for one.
    address : where the visitor's requests come from, "" where that says nothing.
    stop : of the newest run; set when the visitor presses Stop or has left.
    """

    def __init__(self) -> None:
        self._key = secrets.token_hex(_KEY_BYTES)
        self.address = ""
        self.stop = threading.Event()

    def __deepcopy__(self, memo: object) -> Visitor:
        return Visitor()

    @property
    def key(self) -> str:
        """Whose runs these are."""
        return self._key

    @key.setter
    def key(self, key: object) -> None:
        if not isinstance(key, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * _KEY_BYTES}}}", key):
            raise InvalidInput("a visitor's key has 32 hex digits")
        self._key = key

    def start(self) -> None:
        """Make way for a new run: an older one is told to stop and keeps its own flag."""
        self.stop.set()
        self.stop = threading.Event()

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="t2i-bias-")

    @property
    def folder(self) -> Path:
        """Where this visitor's downloads are written; goes with the visitor."""
        return Path(self._folder.name)

    def leave(self) -> None:
        """Stop what runs and delete the folder."""
        self.stop.set()
        if "_folder" in self.__dict__:
            self._folder.cleanup()
