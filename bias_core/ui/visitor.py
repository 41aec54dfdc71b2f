"""What belongs to one visitor: an unguessable key, a flag that stops the run, and a folder for downloads."""

from __future__ import annotations

import re
import secrets
import threading
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from weakref import WeakValueDictionary

from gradio.context import LocalContext

from bias_core.errors import InvalidInput

_KEY_BYTES = 16
_MOST_PAGES = 100_000


class _Pages:
    """Whose page each open one is: Gradio lets go of the states of pages that were not used for long."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, page: str, key: str) -> None:
        """From now on, this page is the visitor's with this key."""
        if page:
            with self._lock:
                self._keys[page] = key
                self._keys.move_to_end(page)
                while len(self._keys) > _MOST_PAGES:
                    self._keys.popitem(last=False)

    def key_of(self, page: str) -> str:
        """The key of the visitor whose page this is; "" for a new one."""
        return self._keys.get(page, "")


_PAGES = _Pages()
_STOPS: WeakValueDictionary[str, threading.Event] = WeakValueDictionary()
"""By key, of the visitor's newest run, as long as anybody holds it: a page that was loaded anew stops it."""


def open_page() -> str:
    """Which page the event at work comes from; "" outside of events."""
    return str(getattr(LocalContext.request.get(None), "session_hash", None) or "")


class Visitor:
    """Lives in a ``gr.State``: a copy is a new visitor, so no two sessions ever share one.

    Attributes
    ----------
    key : 128 random bits in hex; run ids are derived from it. The visitor's browser keeps it, so that a
        reload of the page finds the same runs; nothing but 32 hex digits is taken for one.
    address : where the visitor's requests come from, "" where that says nothing.
    """

    def __init__(self) -> None:
        self._key = ""
        self.address = ""
        self._stop = threading.Event()

    def __deepcopy__(self, memo: object) -> Visitor:
        return Visitor()

    @property
    def key(self) -> str:
        """Whose runs these are; that of the open page, even where its state had to make room for others."""
        if not self._key:
            self.key = _PAGES.key_of(open_page()) or secrets.token_hex(_KEY_BYTES)
        return self._key

    @key.setter
    def key(self, key: object) -> None:
        if not isinstance(key, str) or not re.fullmatch(rf"[0-9a-f]{{{2 * _KEY_BYTES}}}", key):
            raise InvalidInput("a visitor's key has 32 hex digits")
        self._key = key
        _PAGES.keep(open_page(), key)

    @property
    def stop(self) -> threading.Event:
        """Of the newest run, on whichever page of this visitor it began; set when Stop is pressed."""
        self._stop = _STOPS.setdefault(self.key, self._stop)
        return self._stop

    def start(self) -> None:
        """Make way for a new run: an older one is told to stop and keeps its own flag."""
        self.stop.set()
        self._stop = _STOPS[self.key] = threading.Event()

    @cached_property
    def _folder(self) -> TemporaryDirectory[str]:
        return TemporaryDirectory(prefix="t2i-bias-")

    @property
    def folder(self) -> Path:
        """Where this visitor's downloads are written; goes with the visitor."""
        return Path(self._folder.name)

    def leave(self) -> None:
        """Delete the folder; a run that nobody looks at any more ends by itself."""
        if "_folder" in self.__dict__:
            self._folder.cleanup()
