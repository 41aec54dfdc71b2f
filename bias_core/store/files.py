"""Files on disk: written atomically, SQLite files that repair themselves, and file hashes."""

import errno
import hashlib
import logging
import os
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar
from uuid import uuid4

from bias_core.errors import ModelUnavailable, StorageError

T = TypeVar("T")
_REASONS = {
    errno.ENOSPC: "the disk is full; free some space (or lower BIAS_CACHE_GB)",
    errno.EDQUOT: "the disk quota is used up; free some space (or lower BIAS_CACHE_GB)",
    errno.EACCES: "permission denied (choose another folder with BIAS_DATA_DIR)",
    errno.EROFS: "the disk is read-only (choose another folder with BIAS_DATA_DIR)",
}


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path, named ``path`` if the block succeeds, else deleted; StorageError if the disk fails."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")  # writers may be on several machines
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except StorageError:
        raise
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"cannot write {path.name} in {path.parent}: {reason}") from error
    finally:
        with suppress(OSError):  # renamed, or never made
            temporary.unlink()


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data``, force it to the disk, then give it its name (:func:`replaced_file`)."""
    with replaced_file(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def evict_oldest(files: Iterable[Path], limit: int, *, protected: Callable[[Path], bool]) -> list[Path]:
    """Delete the oldest files (by change), but none ``protected``, down to ``limit`` bytes; return the deleted ones."""
    sizes = list(_sizes(files))
    total, removed = sum(size for _, size, _ in sizes), []
    for _, size, path in sorted(sizes):
        if total <= limit:
            break
        if not protected(path):
            path.unlink(missing_ok=True)
            removed.append(path)
            total -= size
    return removed


def total_bytes(files: Iterable[Path]) -> int:
    return sum(size for _, size, _ in _sizes(files))


def _sizes(files: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    """Yield time of change, bytes and path of the existing files."""
    for path in files:
        with suppress(FileNotFoundError):  # deleted by another process meanwhile
            stat = path.stat()
            yield stat.st_mtime, stat.st_size, path


_LOG = logging.getLogger(__name__)
_MOST_KEPT = 1000

_UNUSABLE = ("readonly", "unable to open", "no such table", "no such column", "has no column")


# SQLite must not use WAL between machines, where its index is not kept in step; FUSE may be such a file system.
_NETWORK = re.compile(r"nfs\d?|cifs|smb\w*|9p|virtiofs|afs|ceph|lustre|glusterfs|beegfs|gpfs|fuse(\..*)?")
_NO_LOG = ("locking protocol", "disk I/O error", "unable to open")  # errors of file systems without support for a log
_MOUNTS = Path("/proc/self/mountinfo")


def use_journal(connection: sqlite3.Connection, path: Path) -> str:
    """Give a database a log (WAL: reading never waits), or SQLite's older journal where WAL is not safe.

    WAL is not safe on a network file system, such as a bucket mounted in a Space.
    Returns "wal" or the name of the journal; raises sqlite3's errors, such as "database is locked".
    """
    mode = "DELETE" if _NETWORK.fullmatch(file_system(path)) else "WAL"
    try:
        return str(connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()[0])
    except sqlite3.OperationalError as error:
        if mode == "DELETE" or not any(words in str(error) for words in _NO_LOG):
            raise
        return str(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])


def file_system(path: Path) -> str:
    """The kind of file system of ``path``, such as "ext4" or "nfs4"; "" if unknown."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return ""
    mounts = {}
    for place, _, kind in (line.partition(" - ") for line in lines):
        # A space in a name is written \040; the later of two mounts in one place is on top.
        mounts[Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place.split()[4]))] = kind.split()[0]
    resolved = path.absolute().resolve()
    return next((mounts[folder] for folder in (resolved, *resolved.parents) if folder in mounts), "")


class Repairs:
    """Notes on repairs, in order; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sentences: deque[str] = deque(maxlen=_MOST_KEPT)
        self._n = 0

    def note(self, sentence: str) -> None:
        """Note a repair; the sentence must not identify a visitor."""
        with self._lock:
            self._sentences.append(sentence)
            self._n += 1
        _LOG.warning("%s", sentence)

    @property
    def n(self) -> int:
        """Number of repairs so far, the start for :meth:`since`."""
        return self._n

    def since(self, n: int) -> list[str]:
        """Distinct repairs after the first ``n``."""
        with self._lock:
            return list(dict.fromkeys(islice(self._sentences, max(0, len(self._sentences) - (self._n - n)), None)))


class SqliteFile:
    """An SQLite file that opens on first use; threads of a process share it.

    Parameters
    ----------
    what : name in messages.
    schema : creates its table if missing.
    form : version of the schema; a file of another version is set aside.
    repairs : gets a note if a file is set aside.
    """

    def __init__(self, path: Path, *, title: str, schema: str, form: int, repairs: Repairs) -> None:
        self.path = path
        self._what, self._schema, self._form, self._repairs = title, schema, form, repairs
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` with a connection, in one transaction.

        A damaged file is set aside, and ``work`` runs again on an empty one.

        Raises StorageError: the disk is full or read-only, or the file cannot be opened.
        """
        with self._lock:
            try:
                try:
                    return self._tried(work)
                except sqlite3.DatabaseError as error:
                    # "malformed" and "not a database" come as the bare class; no other file would do on a full disk.
                    is_damaged = type(error) is sqlite3.DatabaseError or any(w in str(error) for w in _UNUSABLE)
                    if not is_damaged or not self.path.exists():
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

    def _set_aside(self, flaw: str) -> None:
        """Rename the file, so that it can still be inspected."""
        self._let_go()
        for ending in ("", "-wal", "-shm"):
            part = self.path.with_name(self.path.name + ending)
            with suppress(FileNotFoundError):  # SQLite removes log and index when it closes
                part.replace(self.path.with_name(f"{self.path.name}.old{ending}"))
        self._repairs.note(
            f"The {self._what} was {flaw}: it was set aside as {self.path.name}.old, and its contents are computed anew"
        )

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_SCHEMA = "CREATE TABLE IF NOT EXISTS hashes (path TEXT PRIMARY KEY, state TEXT NOT NULL, sha256 TEXT NOT NULL)"
_CHUNK = 1 << 23  # bytes read at a time
_LARGE = 1 << 20  # bytes; smaller files are read again by each process
_SETTLED_NS = 100_000_000  # a second change within this time may leave a file's times unchanged
_POLL_SECONDS = 0.1
_READ_BY_PEOPLE = {".md", ".png", ".jpg", ".jpeg", ".webp", ".gif"}  # no loader reads these


class FileHashes:
    """SHA-256 of files, cached in this process and, for large files, on disk.

    A hash is cached by the file's real path and is valid while its size, times and inode stay. Only the
    file in use is locked while it is read, so that two threads read it once.

    ``path``: of an SQLite file. If it cannot be written, each process hashes for itself; ``repairs``: gets a note if
    that file was damaged and replaced.
    """

    def __init__(self, path: Path, repairs: Repairs | None = None) -> None:
        repairs = repairs or Repairs()
        self._file = SqliteFile(path, title="list of file hashes", schema=_SCHEMA, form=1, repairs=repairs)
        self._hashes: dict[str, tuple[str, str]] = {}  # by real path: state and hash
        self._locks: dict[str, threading.Lock] = {}

    def fingerprint(self, source: Path) -> str:
        """Twelve hex digits that change with any byte of a file, or of a folder's files.

        Hidden files do not count, nor do READMEs and pictures, which no loader reads; the name of the
        folder does not count either.

        Raises ModelUnavailable: the file is missing or unreadable.
        """
        digest = hashlib.sha256()
        for name, path in sorted(_list_files(source).items()):
            digest.update(f"{name}:{_last(self._read(path))}\n".encode())
        return digest.hexdigest()[:12]

    def reading(self, *sources: Path) -> Iterator[tuple[int, int]]:
        """Hash unknown sources; yield (bytes read, bytes in all). If stopped, completely read files stay cached."""
        files = [path for source in sources for path in _list_files(source).values()]
        unknown = [path for path in files if not self._find(path, _state(path))]
        total, done = sum(_state(path).size for path in unknown), 0
        for path in unknown:
            for n_bytes in self._read(path):
                done += n_bytes
                yield done, total

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()

    def _read(self, path: Path) -> Generator[int, None, str]:
        """Hash a file; yield the bytes of each chunk, and 0 while another thread reads the file."""
        if sha256 := self._find(path, _state(path)):
            return sha256
        lock = self._locks.setdefault(os.path.realpath(path), threading.Lock())
        while not lock.acquire(timeout=_POLL_SECONDS):
            yield 0
        try:
            state = _state(path)
            if state.size >= _LARGE and not state.is_settled():  # written just now
                time.sleep(_SETTLED_NS / 1e9)
                state = _state(path)
            if sha256 := self._find(path, state):
                return sha256
            digest = hashlib.sha256()
            with _describe_refusal(path), path.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
                    yield len(chunk)
            if state == _state(path) and state.is_settled():
                self._keep(path, state, digest.hexdigest())
            return digest.hexdigest()
        finally:
            lock.release()

    def _find(self, path: Path, state: "_State") -> str:
        """The cached hash for this state of the file; "" if it must be read."""
        real, written = os.path.realpath(path), str(state)
        if real not in self._hashes and state.size >= _LARGE and self._file.path.exists():
            query = "SELECT state, sha256 FROM hashes WHERE path = ?"
            with suppress(StorageError):  # without a cache the file is read again
                for was, sha256 in self._file.run(lambda connection: connection.execute(query, (real,)).fetchall()):
                    self._hashes[real] = str(was), str(sha256)
        was, sha256 = self._hashes.get(real, ("", ""))
        return sha256 if was == written else ""

    def _keep(self, path: Path, state: "_State", sha256: str) -> None:
        real, written = os.path.realpath(path), str(state)
        self._hashes[real] = written, sha256
        if state.size >= _LARGE:
            row, command = (real, written, sha256), "INSERT OR REPLACE INTO hashes VALUES (?, ?, ?)"
            with suppress(StorageError):  # it is hashed again after a restart
                self._file.run(lambda connection: connection.execute(command, row))


class _State(NamedTuple):
    """State of a file in the file system, which differs after a change."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int

    def is_settled(self) -> bool:
        """True if a change from now on would show in the times."""
        return time.time_ns() - max(self.modified_ns, self.changed_ns) > _SETTLED_NS

    def __str__(self) -> str:
        return ":".join(map(str, self))


def _state(path: Path) -> _State:
    with _describe_refusal(path):
        stat = path.stat()
    return _State(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _list_files(source: Path) -> dict[str, Path]:
    if not source.is_dir():
        return {source.suffix: source}
    return {path.relative_to(source).as_posix(): path for path in _walk(source, set()) if path.is_file()}


def _walk(folder: Path, above: set[str]) -> Iterator[Path]:
    """All files below but hidden ones and those for people alone; follows links to folders, without loops."""
    visited = above | {os.path.realpath(folder)}
    with _describe_refusal(folder):
        entries = sorted(folder.iterdir())
    for path in entries:
        if path.name.startswith(".") or path.suffix.lower() in _READ_BY_PEOPLE:
            continue
        if not path.is_dir():
            yield path
        elif os.path.realpath(path) not in visited:
            yield from _walk(path, visited)


def _last(steps: Generator[int, None, str]) -> str:
    try:
        while True:
            next(steps)
    except StopIteration as stop_iteration:
        return str(stop_iteration.value)


@contextmanager
def _describe_refusal(path: Path) -> Iterator[None]:
    """Describe the operating system's refusal to read."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ModelUnavailable(f"cannot read {path}: {reason}; check the path and your right to read it") from error
