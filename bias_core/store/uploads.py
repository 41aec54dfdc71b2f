"""Visitors' uploads: each content is stored once, counts while stored, and is deleted when unused.

A content has one file, and each use is a hard link: the upload itself, which lasts an hour, and the links of pages and
runs. A content without links is deleted. Everything lies in a folder of this process, which is deleted with it.
"""

import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from weakref import finalize, ref

from bias_core.errors import InvalidInput, UploadsFull
from bias_core.store.files import evict_oldest

_NAME = "t2i-bias-uploads-"
_LASTS_SECONDS = 3600.0  # lifetime of an unused upload
_SWEEP_SECONDS = 60.0
_OVERHEAD = 8192  # minimum bytes of a file with its folder
_OF_ONE_ADDRESS = 0.25  # of all bytes
_OF_ONE_VISITOR = 200_000_000  # limit of a visitor's pages; the oldest links go first
_DIGITS = 16  # characters of a content's digest in the path of a link
_GONE = "this file is no longer on the server: please upload it again"


def gradio_folder() -> Path:
    """The only folder that Gradio serves uploads from (`gradio.utils.get_upload_folder`)."""
    return Path(os.environ.get("GRADIO_TEMP_DIR") or Path(tempfile.gettempdir()) / "gradio").resolve()


@dataclass(frozen=True, kw_only=True)
class _Content:
    n_bytes: int
    address: str  # address that sent it first and is charged for it


@dataclass(kw_only=True)
class _Sent:
    digest: str
    address: str
    owner: str = ""  # first user
    page: Callable[[], "HeldUploads | None"] = lambda: None  # its holder
    since: float = field(default_factory=time.monotonic)


class HeldUploads:
    """Links to the uploads that a visitor's pages or runs use; they go with this object."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def folder(self, parent: Path) -> Path:
        """The folder of the links, created below ``parent`` on first use."""
        if self._folder is None:
            parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(dir=parent))
            finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder


class UploadStore:
    """All uploads of this process; ``limit``: total bytes, of which one address may use a quarter."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._counts, self._files = threading.Lock(), threading.Lock()  # the first is held only briefly
        self._root: Path | None = None
        self._lock_file: IO[bytes] | None = None
        self._contents: dict[str, _Content] = {}  # by digest
        self._sent: dict[str, _Sent] = {}  # by path
        self._n_bytes: Counter[str] = Counter()  # by address
        self._swept = -_SWEEP_SECONDS

    @property
    def n_bytes(self) -> int:
        with self._counts:
            return self._n_bytes.total()

    @property
    def is_sweep_due(self) -> bool:
        """True if a minute has passed since :meth:`sweep`."""
        return self._root is not None and time.monotonic() - self._swept >= _SWEEP_SECONDS

    def folder(self) -> Path:
        """The folder of this process, created on first use; that also deletes folders of killed processes."""
        with self._files:
            if self._root is None:
                parent = gradio_folder()
                parent.mkdir(parents=True, exist_ok=True)
                for left in parent.glob(f"{_NAME}*"):
                    if (lock := _locked(left / "lock")) is not None:
                        shutil.rmtree(left, ignore_errors=True)
                        lock.close()
                root = Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))
                (root / "lock").touch()
                self._lock_file = _locked(root / "lock")
                for name in ("contents", "sent", "arriving"):
                    (root / name).mkdir()
                self._root = root
            return self._root

    def has_room(self, address: str) -> bool:
        """True if an address may still upload."""
        with self._counts, suppress(UploadsFull):
            self._check(address, _OVERHEAD)
            return True
        return False

    def count(self, address: str, n_bytes: int) -> None:
        """Add to (or subtract from) the bytes of an address. Raises UploadsFull: there is no room."""
        with self._counts:
            if n_bytes > 0:
                self._check(address, n_bytes)
            self._n_bytes[address] += n_bytes
            if not self._n_bytes[address]:
                del self._n_bytes[address]

    def _check(self, address: str, n_bytes: int) -> None:
        most_of_one = self._limit * _OF_ONE_ADDRESS
        advice = "Try again in an hour, or upload fewer or smaller pictures."
        if self._n_bytes.total() + n_bytes > self._limit:
            raise UploadsFull(f"The uploads of all visitors fill the {self._limit / 1e9:g} GB of this server. {advice}")
        if address and self._n_bytes[address] + n_bytes > most_of_one:
            raise UploadsFull(f"The uploads from your network fill its share of {most_of_one / 1e9:g} GB. {advice}")

    def keep(self, arrived: Path, name: str, address: str) -> Path:
        """Store a file, equal contents once; return its path. UploadsFull: no room; OSError: the disk fails."""
        with arrived.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        root, n_bytes = self.folder(), arrived.stat().st_size + _OVERHEAD
        content = root / "contents" / digest
        with self._files:
            if digest not in self._contents:
                self.count(address, n_bytes)
                self._contents[digest] = _Content(n_bytes=n_bytes, address=address)
                arrived.replace(content)
            self.count(address, _OVERHEAD)
            place = Path(tempfile.mkdtemp(prefix=secrets.token_hex(16), dir=root / "sent")) / name
            self._sent[str(place)] = _Sent(digest=digest, address=address)
            os.link(content, place)
        return place

    @staticmethod
    def hides(path: str) -> bool:
        """True if a path leads to an upload by another name than its sender's."""
        _, found, below = os.path.normpath(path).partition(_NAME)
        return bool(found) and Path(below).parts[1:2] != ("sent",)

    def check(self, path: str) -> None:
        """Raise InvalidInput if a path is not an upload's."""
        if path not in self._sent:
            raise InvalidInput(_GONE)

    def hold(self, path: str, owner: str, held: HeldUploads) -> Path:
        """Link to an upload for as long as ``held`` exists; equal content and name give one path.

        The first user owns an upload. Above 200 MB the oldest links of ``held`` go.

        Raises InvalidInput: there is no such upload, or another's.
        """
        root, sent = self.folder(), self._sent.get(path)
        if sent is None or sent.owner not in ("", owner):  # do not reveal another visitor's upload
            raise InvalidInput(_GONE)
        sent.owner, sent.page = owner, ref(held)
        with self._files:
            folder = held.folder(root / "held")
            target = folder / sent.digest[:_DIGITS] / Path(path).name
            try:
                target.parent.mkdir(exist_ok=True)
                if not target.exists():
                    os.link(root / "contents" / sent.digest, target)
                os.utime(target)
            except FileNotFoundError as error:
                raise InvalidInput(_GONE) from error
            links = [file for file in folder.glob("*/*") if file.is_file()]
            evict_oldest(links, _OF_ONE_VISITOR, protected=lambda file: file == target)
        return target

    def sweep(self) -> None:
        """Delete uploads older than an hour, and unused contents."""
        if self._root is None:
            return
        self._swept = time.monotonic()
        with self._files:
            for path, sent in list(self._sent.items()):
                is_gone = self._swept - sent.since > _LASTS_SECONDS or not Path(path).exists()  # Gradio deletes some
                if is_gone and sent.page() is None:
                    shutil.rmtree(Path(path).parent, ignore_errors=True)
                    del self._sent[path]
                    self.count(sent.address, -_OVERHEAD)
            for digest, content in list(self._contents.items()):
                file = self._root / "contents" / digest
                with suppress(FileNotFoundError):
                    if file.stat().st_nlink > 1:  # a sent file still has these contents
                        continue
                    file.unlink()
                del self._contents[digest]
                self.count(content.address, -content.n_bytes)

    def close(self) -> None:
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
        if self._lock_file is not None:
            self._lock_file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """Open the file at ``path`` with this process's lock; None if it is missing or another process's."""
    if sys.platform == "win32":
        return None
    import fcntl

    with suppress(OSError):
        file = path.open("rb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
        else:
            return file
    return None
