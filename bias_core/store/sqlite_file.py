"""One SQLite file of what was computed before, and what stores found broken and made anew."""

import hashlib
import logging
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

from bias_core.errors import StorageError

_LOG = logging.getLogger(__name__)
_MOST_KEPT = 1000
T = TypeVar("T")

_UNUSABLE = ("readonly", "unable to open", "no such table", "no such column", "has no column")


# Between machines nothing keeps a log's index in step, so that SQLite must not use WAL there; of FUSE nobody can say.
_NETWORK = re.compile(r"nfs\d?|cifs|smb\w*|9p|virtiofs|afs|ceph|lustre|glusterfs|beegfs|gpfs|fuse(\..*)?")
_NO_LOG = ("locking protocol", "disk I/O error", "unable to open")  # how a file system says that it cannot have one
_MOUNTS = Path("/proc/self/mountinfo")


def use_journal(connection: sqlite3.Connection, path: Path) -> str:
    """Let a database have a log (WAL, in which readers never wait), or SQLite's older journal where that is not safe.

    It is not on a network's file system, such as a bucket that is mounted in a Space, nor where it is refused.
    Returns "wal" or the name of the journal; raises what sqlite3 does, such as "database is locked".
    """
    if _NETWORK.fullmatch(file_system(path)):
        return _journal(connection, "DELETE")
    try:
        return _journal(connection, "WAL")
    except sqlite3.OperationalError as error:
        if not any(words in str(error) for words in _NO_LOG):
            raise
        return _journal(connection, "DELETE")


def _journal(connection: sqlite3.Connection, mode: str) -> str:
    return str(connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0])


def file_system(path: Path) -> str:
    """The kind of file system that holds ``path``, such as "ext4" or "nfs4"; "" where the system does not tell."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    mounts = {}
    for place, _, kind in (line.partition(" - ") for line in lines):
        # A space in a name is written \040; of two mounts in one place the later is on top.
        mounts[Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place.split()[4]))] = kind.split()[0]
    resolved = path.absolute().resolve()
    return next((mounts[folder] for folder in (resolved, *resolved.parents) if folder in mounts), "")


class Repairs:
    """Sentences in the order in which they came; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sentences: deque[str] = deque(maxlen=_MOST_KEPT)
        self._n = 0

    def note(self, sentence: str) -> None:
        """Take note of a repair; the sentence must name no visitor and nothing of theirs."""
        with self._lock:
            self._sentences.append(sentence)
            self._n += 1
        _LOG.warning("%s", sentence)

    @property
    def n(self) -> int:
        """How many there were so far: where a run that starts now begins to look."""
        return self._n

    def since(self, n: int) -> list[str]:
        """The repairs after the first ``n``, each sentence once."""
        with self._lock:
            return list(dict.fromkeys(islice(self._sentences, max(0, len(self._sentences) - (self._n - n)), None)))


class SqliteFile:
    """Opens on the first use; several threads of a process share it.

    Parameters
    ----------
    what : names it in messages.
    schema : makes its table if need be.
    form : number of the schema; a file of another form is set aside.
    repairs : is told what was set aside.
    """

    def __init__(self, path: Path, *, what: str, schema: str, form: int, repairs: Repairs) -> None:
        self.path = path
        self._what, self._schema, self._form, self._repairs = what, schema, form, repairs
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """``work`` with a connection of one's own; it counts whole or not at all.

        Where the file turns out to be damaged it is set aside, and ``work`` runs again on an empty one.

        Raises StorageError: the disk is full or read-only, or the file cannot be opened.
        """
        with self._lock:
            try:
                try:
                    return self._tried(work)
                except sqlite3.DatabaseError as error:
                    # "malformed" and "not a database" come as the bare class; no other file would do on a full disk.
                    if type(error) is not sqlite3.DatabaseError and not any(w in str(error) for w in _UNUSABLE):
                        raise
                    self._set_aside(f"damaged ({error})")
                    return self._tried(work)
            except (sqlite3.DatabaseError, OSError) as error:
                raise StorageError(f"{self._what} {self.path}: {error}") from error

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        with self._lock:
            self._let_go()

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._open()
        with self._connection:
            return work(self._connection)

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():
            self._set_aside("a folder")
        connect = partial(sqlite3.connect, self.path, timeout=30, check_same_thread=False)
        connection = connect()
        form = connection.execute("PRAGMA user_version").fetchone()[0]
        if form != self._form and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            connection.close()
            self._set_aside(f"of an older version of this program (form {form}, now {self._form})")
            connection = connect()
        use_journal(connection, self.path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(self._schema)
        connection.execute(f"PRAGMA user_version = {self._form}")
        return connection

    def _set_aside(self, why: str) -> None:
        """Give the file another name; whoever wonders can still look into it."""
        self._let_go()
        for ending in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + ending)
            with suppress(FileNotFoundError):
                part.replace(self.path.with_name(f"{self.path.name}.old{ending}"))
        self._repairs.note(
            f"The {self._what} was {why}: it was set aside as {self.path.name}.old, and what it held is computed anew"
        )

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class CheckedRows:
    """One SQLite file of values by key and reader, each with a checksum; one that does not fit counts as absent.

    The reader's name must change with its weights. ``repairs`` is told of what did not fit.
    """

    _what: ClassVar[str]  # in messages
    _table: ClassVar[str]
    _columns: ClassVar[tuple[str, ...]]  # of the key, of the reader, and of the value
    _kind: ClassVar[str]  # of the value, in SQL
    _remedy: ClassVar[str]  # "kept answer(s)", and what is done now

    def __init__(self, path: Path, repairs: Repairs | None = None) -> None:
        self._repairs = repairs or Repairs()
        *keys, value = self._columns
        schema = (
            f"CREATE TABLE IF NOT EXISTS {self._table} ({' TEXT NOT NULL, '.join(keys)} TEXT NOT NULL, {value} "
            f"{self._kind} NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY ({', '.join(keys)})) WITHOUT ROWID"
        )
        # Form 0 had no checksums.
        self._file = SqliteFile(path, what=self._what, schema=schema, form=1, repairs=self._repairs)

    def find(self, reader: str, keys: Sequence[tuple[str, ...]]) -> dict[Any, Any]:
        """The values that are kept, by their keys."""
        *names, value = self._columns
        query = f"SELECT {value}, checksum FROM {self._table} WHERE {' = ? AND '.join(names)} = ?"
        rows = self._file.run(
            lambda connection: [
                (key, row) for key in keys if (row := connection.execute(query, (*key, reader)).fetchone())
            ]
        )
        fitting = {key: value for key, (value, checksum) in rows if checksum == self._checksum(key, reader, value)}
        if n := len(rows) - len(fitting):
            self._repairs.note(self._remedy.format(n=f"{n:,}"))
        return fitting

    def keep(self, reader: str, values: Mapping[Any, Any]) -> None:
        """Write values down; a new one takes the place of an old one."""
        rows = [(*key, reader, value, self._checksum(key, reader, value)) for key, value in values.items()]
        command = f"INSERT OR REPLACE INTO {self._table} VALUES ({', '.join('?' * (len(self._columns) + 1))})"
        self._file.run(lambda connection: connection.executemany(command, rows))

    def forget(self, image_ids: Collection[str]) -> None:
        """Drop what is kept of evicted pictures, of every reader."""
        query = f"DELETE FROM {self._table} WHERE {self._columns[0]} = ?"
        self._file.run(lambda connection: connection.executemany(query, [(one,) for one in image_ids]))

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()

    def _checksum(self, key: tuple[str, ...], reader: str, value: Any) -> bytes:
        return hashlib.blake2b(self._checked(key, reader, value), digest_size=8).digest()

    def _checked(self, key: tuple[str, ...], reader: str, value: Any) -> bytes:
        """What the checksum is of."""
        raise NotImplementedError
