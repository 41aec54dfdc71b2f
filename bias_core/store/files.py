"""Atomic writing of files, and file hashes."""

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from bias_core.errors import ModelUnavailable, StorageError
from bias_core.store.readings import Repairs, SqliteFile

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
