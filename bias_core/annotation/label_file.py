"""The file of a SQLite database that others may remove, replace, cut short or lock while it is open.

SQLite goes on writing to a file that has lost its name, and says that all is well: what it writes then is gone with
the process. A log that stayed behind it writes into any file that has the name, when that is opened or closed. So the
files are looked at before a commit is acknowledged, before they are opened and before they are closed.
"""

import ctypes
import logging
import os
import secrets
import shlex
import sqlite3
import stat
import struct
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection

from bias_core.errors import StorageError
from bias_core.store.sqlite_file import use_journal

_log = logging.getLogger(__name__)
_LOCK_SECONDS = 10  # for another program that keeps the file locked
_ENDS = ("", "-wal", "-shm")  # of the names of a database, its log, and the index of that
# What https://sqlite.org/fileformat.html and walformat.html say of where it stands:
# Of a database: the bytes of a page, the number of pages, a number of ours, which counts changes, and which one it is.
_HEAD = struct.Struct(">16x H 10x I 28x I 4x I")
_LOG_HEAD, _FRAME_HEAD = 32, struct.Struct(">I 4x 8s 8s")  # of a page in the log: its number, salt, checksum
_INDEX = struct.Struct("=14x H I 4x 8s 8s 8x")  # bytes of a page, pages in the log, checksum of the last one, salt

_looking = threading.Lock()
_looked_at: dict[tuple[int, int], tuple[int, int]] = {}  # by device and inode: the open file, and how many look at it


class LabelsGone(StorageError):
    """The file of the answers was removed or replaced: nothing is kept until it is back, or the program starts anew."""

    def __init__(self, trouble: str) -> None:
        super().__init__(
            f"the labels' database: {trouble}; put it back, or start the program again to go on with what is there now "
            "(the program deletes nothing)"
        )


class Head(NamedTuple):
    """The first bytes of a database, negative where they are those of none."""

    page_bytes: int = -1
    n_pages: int = -1
    n_changes: int = -1
    id: int = -1


class Index(NamedTuple):
    """The index of the log, which tells all processes where the last commit ends."""

    page_bytes: int
    n_logged: int  # pages in the log
    checksum: bytes  # of the last page in the log
    salt: bytes


def give_id(connection: Connection) -> None:
    """Give a database a number by which it is known again."""
    if not connection.exec_driver_sql("PRAGMA application_id").scalar():
        connection.exec_driver_sql(f"PRAGMA application_id = {1 + secrets.randbelow(2**31 - 1)}")


def count_change(connection: Connection) -> None:
    """Count a transaction in the first page of the database, so that an older copy is known from it."""
    n = connection.exec_driver_sql("PRAGMA user_version").scalar() or 0
    connection.exec_driver_sql(f"PRAGMA user_version = {(n + 1) % 2**31}")


class LabelFile:
    """A database that is open, and its names.

    A file that others changed is left as it is, at the end of the program, too: SQLite would write its log into what
    has the name now, and delete the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refuse_mixture()
        _keep_private(self._names())
        _refuse_damage(path)
        # Open as long as the database is: without any connection SQLite would remove the log and make another.
        self._keeper = sqlite3.connect(path, timeout=2, check_same_thread=False, isolation_level=None)
        try:
            self._ends = _ENDS if _use_journal(self._keeper, path) == "wal" else _ENDS[:1]
        except (sqlite3.Error, StorageError):
            self._keeper.close()
            raise
        # A program that ends closes all it has, but for what is referred to from outside of Python.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._keeper))
        self._files: dict[str, int] = {}  # by the ends of their names
        self._trouble, self._is_watched = "", False

    def watch(self) -> None:
        """The first transaction is committed: from now on the names must stay with these files."""
        self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        for end in self._ends:
            self._files[end] = _open_once(self._names()[end])
        self._head, self._sizes = self._read_head(), dict.fromkeys(self._ends, 0)
        of_log = int(self._keeper.execute("PRAGMA application_id").fetchone()[0])
        self._ids = {self._head.id, of_log}  # two, until the log is first emptied into the file
        self._is_watched = True

    def check(self) -> None:
        """StorageError says why nothing can be kept: the file is gone, replaced, cut short or read-only."""
        self._check_content()
        try:
            self._check_names()
        except LabelsGone as gone:
            self._leave_whole(f"{gone}")
            raise
        self._trouble = ""

    def close(self) -> None:
        """Let go of the file, with its log emptied into it; what others changed is left as it is."""
        if self._is_watched:
            try:
                self.check()
                self.empty_log()
            except (OSError, sqlite3.Error) as error:  # StorageError is one
                _log.warning("labels: the files are left as they are (%s)", error)
                return  # open: to close them is to let go of SQLite's locks, and another process may empty the log
        self._keeper.close()
        for file in self._files.values():
            _close_once(file)
        self._files, self._is_watched = {}, False

    def empty_log(self) -> None:
        """Have all that is in the log in the file alone, as far as no other process still reads it there."""
        self._keeper.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _names(self) -> dict[str, Path]:
        """The files that a new start would find; of a link, the log is beside the file that the link names."""
        real = os.path.realpath(self._path)
        return {end: Path(f"{real}{end}") for end in _ENDS}

    def _check_names(self) -> None:
        names = self._names()
        for end, file in self._files.items():
            name = f"{self._path.name}{end}"
            try:
                found = names[end].stat()
            except OSError as error:
                raise LabelsGone(f"{name} was removed or cannot be reached ({error.strerror})") from error
            if not os.path.samestat(found, os.fstat(file)):
                raise LabelsGone(f"{name} was replaced by another file")
            if not (found.st_mode & 0o222 and os.access(names[end], os.W_OK)):
                raise StorageError(
                    f"the labels' database: {name} is read-only; allow writing to it and answers are taken again"
                )

    def _check_content(self) -> None:
        head, index, name = self._read_head(), self._read_index(), self._path.name
        if head.id not in self._ids or head.n_changes < self._head.n_changes:
            raise LabelsGone(f"{name} was overwritten with other or older content")
        sizes = {end: os.fstat(file).st_size for end, file in self._files.items()}
        if sizes[""] < min(self._sizes[""], head.n_pages * _whole(head.page_bytes)):  # VACUUM makes both smaller
            raise LabelsGone(f"{name} was cut short")
        if index and not self._log_reaches(index):
            raise LabelsGone(f"{name}-wal was cut short or overwritten")
        self._head, self._sizes = head, sizes

    def _read_head(self) -> Head:
        return _head_of(os.pread(self._files[""], _HEAD.size, 0))

    def _read_index(self) -> Index | None:
        """The index of the log; None where there is no log, or nothing in it."""
        if "-shm" not in self._files:
            return None
        for _ in range(100):
            first, second = (os.pread(self._files["-shm"], _INDEX.size, at) for at in (0, _INDEX.size))
            if len(second) < _INDEX.size:
                raise LabelsGone(f"{self._path.name}-shm was cut short")
            if first == second:  # else it is being written
                index = Index(*_INDEX.unpack(first))
                return index if index.n_logged else None
        return None

    def _log_reaches(self, index: Index) -> bool:
        """True where the last page that was committed is in the log, or the log was begun anew meanwhile."""
        at = _LOG_HEAD + (index.n_logged - 1) * (_FRAME_HEAD.size + _whole(index.page_bytes))
        frame = os.pread(self._files["-wal"], _FRAME_HEAD.size, at)
        if len(frame) == _FRAME_HEAD.size:
            _, salt, checksum = _FRAME_HEAD.unpack(frame)
            if (salt, struct.unpack(">2I", checksum)) == (index.salt, struct.unpack("=2I", index.checksum)):
                return True
        return self._read_index() != index

    def _leave_whole(self, trouble: str) -> None:
        """Empty the log into the file, whatever its name is now; tell the owner, who may still bring it back."""
        if trouble == self._trouble:
            return
        with suppress(sqlite3.Error):
            _, n_logged, n_emptied = self._keeper.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self._trouble = trouble if n_logged == n_emptied else ""
        _log.error("%s", trouble)
        if sys.platform == "linux" and not os.fstat(self._files[""]).st_nlink:
            copy = f"cp /proc/{os.getpid()}/fd/{self._files['']} {shlex.quote(f'{self._path}.removed')}"
            _log.error("labels: the removed file is lost once this program ends; before that, copy it: %s", copy)

    def _refuse_mixture(self) -> None:
        """Raise StorageError for a log that is not of this database: SQLite would write it into that.

        And for one whose database is gone: to begin anew would be to lose it.
        """
        names, name = self._names(), self._path.name
        log, file = names["-wal"], names[""]
        if not _size(log):
            return
        first = _first_head(log)  # before the other, which only gets newer
        if not _size(file):
            raise StorageError(
                f"{name} is missing or empty, and {name}-wal is there: put the database back, or move {name}-wal away "
                "to begin without it"
            )
        head = _head_without_log(file)
        if first and head and not (head.id in (0, first.id) and head.n_changes >= first.n_changes - 1):
            raise StorageError(
                f"{name}-wal has answers of another {name}, or of a newer one: put that in its place, or move "
                f"{name}-wal away to go on without them"
            )


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _head_without_log(path: Path) -> Head | None:
    """The head of a database in its file alone; None for a damaged one.

    SQLite reads it: closing the file here would drop SQLite's locks on it.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as connection:
            return Head(
                n_changes=connection.execute("PRAGMA user_version").fetchone()[0],
                id=connection.execute("PRAGMA application_id").fetchone()[0],
            )
    except sqlite3.Error:
        return None


def _open_once(path: Path) -> int:
    """A file to read from, open once in this process: closing it a second time would drop SQLite's locks on it."""
    with _looking:
        found = path.stat()
        file, n = _looked_at.get((found.st_dev, found.st_ino)) or (os.open(path, os.O_RDONLY), 0)
        _looked_at[found.st_dev, found.st_ino] = file, n + 1
        return file


def _close_once(file: int) -> None:
    with _looking:
        found = os.fstat(file)
        _, n = _looked_at.pop((found.st_dev, found.st_ino))
        if n > 1:
            _looked_at[found.st_dev, found.st_ino] = file, n - 1
        else:
            os.close(file)


def _whole(page_bytes: int) -> int:
    return 1 << 16 if page_bytes == 1 else page_bytes  # two bytes have no room for 65,536


def _head_of(data: bytes) -> Head:
    is_whole = len(data) >= _HEAD.size and data.startswith(b"SQLite format 3\0")
    return Head(*_HEAD.unpack_from(data)) if is_whole else Head()


def _first_head(log: Path) -> Head | None:
    """The head of the database after the first transaction in its log; None where the log does not have it."""
    with suppress(OSError, struct.error), log.open("rb") as file:
        _, _, page_bytes, _, salt, _ = struct.unpack(">4I 8s 8s", file.read(_LOG_HEAD))
        while len(head := file.read(_FRAME_HEAD.size)) == _FRAME_HEAD.size:
            number, its_salt, _ = _FRAME_HEAD.unpack(head)
            if its_salt != salt:  # left from before the log was begun anew
                return None
            if number == 1:
                return _head_of(file.read(_HEAD.size))
            file.seek(page_bytes, os.SEEK_CUR)
    return None


def _keep_private(names: dict[str, Path]) -> None:
    """Make the database where there is none; let only its owner read our own files."""
    with suppress(FileExistsError):
        os.close(os.open(names[""], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for path in names.values():
        with suppress(OSError):
            found = path.stat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


def _refuse_damage(path: Path) -> None:
    """Raise StorageError for a database that is not whole; nothing is changed to find that out."""
    found = "ok"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError:  # it cannot be read now, which opening it will say
        return
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise StorageError(
            f"the labels' database: {path.name} is damaged ({found[:200]}); put a whole copy in its place, move "
            f"{path.name}-wal away, and answers are taken again"
        )


def _use_journal(connection: sqlite3.Connection, path: Path) -> str:
    """The mode, which stays with the file; while another program sets it SQLite fails and does not wait."""
    until = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < until:
        try:
            return use_journal(connection, path)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        time.sleep(0.02)
    raise StorageError("another program does not let go of the labels' database")
