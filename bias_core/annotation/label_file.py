"""The file of a SQLite database that others may remove, replace or lock while it is open.

SQLite goes on writing to a file that has lost its name, and says that all is well: what it writes then is
gone with the process. So each commit is numbered in the file's head, and acknowledged only when the file that
has the name is still the one that is open, with its log, and may be written.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from bias_core.errors import StorageError
from bias_core.store.files import replaced_file

# Of a database's first bytes: its size in pages, the number of its commits, and whose it is.
_HEAD = struct.Struct(">28x I 28x I 4x I")
_MAX_ID = 2**31 - 1
_RESCUED = "rescued"
_PATIENCE_SECONDS = 10


class Head(NamedTuple):
    """What the first bytes of a database say; zeros of an empty file."""

    n_pages: int = 0
    n_commits: int = 0
    id: int = 0


class LabelFile:
    """A database that this process has opened, and the names of its file and its log.

    Attributes
    ----------
    n_commits : number of the newest commit that this process has seen or made.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._log = path, path.with_name(f"{path.name}-wal")
        self._refuse_orphans()
        # Keeps the file and its log open, and with them everything that was acknowledged.
        self._keeper = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            _use_log(self._keeper)
        except (sqlite3.Error, StorageError):
            self._keeper.close()
            raise
        self._names: dict[Path, tuple[int, int]] = {}
        self._file = -1
        self._rescued: tuple[str, int] = ("", 0)

    def follow(self, connection: Any) -> None:
        """Begin to watch, with a connection in a transaction that may write."""
        if not connection.exec_driver_sql("PRAGMA application_id").scalar():
            connection.exec_driver_sql(f"PRAGMA application_id = {1 + secrets.randbelow(_MAX_ID)}")
        self.number(connection)

    def watch_names(self) -> None:
        """That transaction is committed: from now on the names must stay with these files."""
        self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._file = os.open(self._path, os.O_RDONLY)
        self._names = {path: _identity(path.stat()) for path in (self._path, self._log)}
        self.n_commits, self._id = _commits_and_id(self._keeper)
        self._head = self._read_head()

    def number(self, connection: Any) -> int:
        """Give the transaction of ``connection`` the next number, and return it."""
        number = 1 + int(connection.exec_driver_sql("PRAGMA user_version").scalar())
        connection.exec_driver_sql(f"PRAGMA user_version = {number}")
        return number

    def committed(self, number: int) -> None:
        """The transaction of this number is in the open file; StorageError where that has not its name."""
        if trouble := self.trouble():
            raise StorageError(trouble)
        self.n_commits = number

    def trouble(self) -> str:
        """Why answers cannot be kept; "" while all is well."""
        for path, identity in self._names.items():
            try:
                stat = path.stat()
            except OSError as error:
                return f"{path.name} was removed or cannot be reached ({error.strerror})"
            if _identity(stat) != identity:
                return f"{path.name} was replaced by another file"
            if not (stat.st_mode & 0o222 and os.access(path, os.W_OK)):
                return f"{path.name} is read-only; allow writing to it and answers are taken again"
        head = self._read_head()
        if not self._holds(head):
            return f"{self._path.name} was overwritten with other or older content"
        self._head = head
        self._drop_rescued()
        return ""

    def has_lost_its_name(self) -> bool:
        """Whether another file, or none, has the name of the database or of its log."""
        return not all(_has_name(path, identity) for path, identity in self._names.items())

    def is_succeeded(self) -> bool:
        """Whether the file that has the name now holds every commit of this one, so that it can be opened.

        The log may still be ours beside a copy of the database; then the copy is judged without it.
        """
        if not self._path.is_file():
            return False
        if _has_name(self._path, self._names[self._path]):
            busy, *_ = self._keeper.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy  # all that only the lost log held is in the database
        with self._path.open("rb") as file:
            head = _head(file.read(_HEAD.size))
        if _has_name(self._log, self._names[self._log]):
            return self._holds(head)
        if not head.n_pages:
            return False
        with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=rw", uri=True)) as other:
            number, owner = _commits_and_id(other)
        return owner == self._id and number >= self.n_commits

    def rescue(self) -> str:
        """The name of a copy of everything that is still open, made beside the file that went."""
        name, n_commits = self._rescued
        if not name or n_commits < self.n_commits:
            moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
            name = f"{self._path.name}.{_RESCUED}-{moment}-{secrets.token_hex(2)}"
            target = self._path.with_name(name)
            with replaced_file(target) as temporary, closing(sqlite3.connect(temporary)) as copy:
                self._keeper.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
            self._rescued = name, self.n_commits
        return name

    def close(self) -> None:
        """Let go of the file."""
        self._drop_rescued()
        self._keeper.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _drop_rescued(self) -> None:
        """The database is back: no other copy of what people said is left lying about."""
        name, _ = self._rescued
        if name:
            self._rescued = "", 0
            self._path.with_name(name).unlink(missing_ok=True)

    def _holds(self, head: Head) -> bool:
        """Whether a file with this head has at least what the open one had outside of its log."""
        ours = head.id in (self._id, self._head.id)  # none before the log was first emptied into the file
        return head.n_pages > 0 and ours and head.n_commits >= self._head.n_commits

    def _read_head(self) -> Head:
        return _head(os.pread(self._file, _HEAD.size, 0))

    def _refuse_orphans(self) -> None:
        """A log without its database, or a rescued copy: to begin anew would be to lose them."""
        orphans = [path.name for path in self._path.parent.glob(f"{self._path.name}.{_RESCUED}-*")]
        with suppress(OSError):
            orphans += [self._log.name] if self._log.stat().st_size else []
        with suppress(OSError):
            if self._path.stat().st_size:
                return
        if orphans:
            raise StorageError(
                f"{self._path.name} is missing or empty, and {orphans[0]} is there: put the database back "
                f"(a rescued copy becomes it by its name), or move {orphans[0]} away to begin without it"
            )


def _use_log(connection: sqlite3.Connection) -> None:
    """WAL mode, which stays with the file; while another program sets it SQLite fails and does not wait."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        time.sleep(0.02)
    raise StorageError("another program does not let go of the labels' database")


def _commits_and_id(connection: sqlite3.Connection) -> tuple[int, int]:
    commits, owner = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("user_version", "application_id")
    )
    return commits, owner


def _identity(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _has_name(path: Path, identity: tuple[int, int]) -> bool:
    with suppress(OSError):
        return _identity(path.stat()) == identity
    return False


def _head(data: bytes) -> Head:
    whole = len(data) == _HEAD.size and data.startswith(b"SQLite format 3\0")
    return Head(*_HEAD.unpack(data)) if whole else Head()
