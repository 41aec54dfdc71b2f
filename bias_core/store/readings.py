"""Caches of embeddings and answers about pictures, in SQLite files."""

import hashlib
import logging
import os
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, TypeVar

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput, StorageError
from bias_core.protocols import ImageTextEncoder
from bias_core.types import StoredImage

_LOG = logging.getLogger(__name__)
_MOST_KEPT = 1000
T = TypeVar("T")

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


class CheckedRows:
    """An SQLite file of values by key and reader, each with a checksum; a value that does not match counts as absent.

    The reader's name must change with its weights. ``repairs`` gets a note on mismatches.
    """

    _what: ClassVar[str]  # in messages
    _table: ClassVar[str]
    _columns: ClassVar[tuple[str, ...]]  # of the key, of the reader, and of the value
    _kind: ClassVar[str]  # of the value, in SQL
    _remedy: ClassVar[str]  # "kept answer(s)", and the remedy

    def __init__(self, path: Path, repairs: Repairs | None = None) -> None:
        self._repairs = repairs or Repairs()
        *keys, value = self._columns
        schema = (
            f"CREATE TABLE IF NOT EXISTS {self._table} ({' TEXT NOT NULL, '.join(keys)} TEXT NOT NULL, {value} "
            f"{self._kind} NOT NULL, checksum BLOB NOT NULL, PRIMARY KEY ({', '.join(keys)})) WITHOUT ROWID"
        )
        # Form 0 had no checksums.
        self._file = SqliteFile(path, title=self._what, schema=schema, form=1, repairs=self._repairs)

    def find(self, reader: str, keys: Sequence[tuple[str, ...]]) -> dict[Any, Any]:
        """Stored values by key."""
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
        """Store values, replacing old ones."""
        rows = [(*key, reader, value, self._checksum(key, reader, value)) for key, value in values.items()]
        command = f"INSERT OR REPLACE INTO {self._table} VALUES ({', '.join('?' * (len(self._columns) + 1))})"
        self._file.run(lambda connection: connection.executemany(command, rows))

    def forget(self, image_ids: Collection[str]) -> None:
        """Delete all readers' values for evicted pictures."""
        query = f"DELETE FROM {self._table} WHERE {self._columns[0]} = ?"
        self._file.run(lambda connection: connection.executemany(query, [(image_id,) for image_id in image_ids]))

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()

    def _checksum(self, key: tuple[str, ...], reader: str, value: Any) -> bytes:
        return hashlib.blake2b(self._checked(key, reader, value), digest_size=8).digest()

    def _checked(self, key: tuple[str, ...], reader: str, value: Any) -> bytes:
        """The bytes for the checksum."""
        raise NotImplementedError


Turn = AbstractContextManager[object]
R = TypeVar("R")
Question = tuple[str, str]  # id of a picture, and the question; "" asks for a caption

_BATCH = 64  # inputs per call of the encoder
_MOST_PIXELS = 32_000_000  # pixels of the pictures open at a time: 128 MB
_THREADS = min(4, os.cpu_count() or 1)


class EmbeddingCache(CheckedRows):
    """Float32 unit rows by encoder and input; a row that fails its checksum is computed anew."""

    _what, _table, _kind = "embedding cache", "embeddings", "BLOB"
    _columns = ("key", "encoder", "vector")
    _remedy = "{n} kept embedding(s) did not fit their checksum; they are computed anew"

    def images(
        self, encoder: ImageTextEncoder, images: Sequence[StoredImage], *, lock: Turn | None = None
    ) -> np.ndarray:
        """Rows ``(n, d)`` of the original PNGs; only missing ones are computed and stored.

        ``lock`` is held while the encoder runs, one batch at a time; the next batch is opened meanwhile.
        """
        items = [(image.path.stem, image) for image in images]
        return self._rows(encoder.name, items, encoder.encode_images, lock, prepare=open_pictures, size=n_pixels)

    def texts(self, encoder: ImageTextEncoder, texts: Sequence[str], *, lock: Turn | None = None) -> np.ndarray:
        """Rows ``(n, d)`` of the sentences; only missing ones are computed and stored."""
        # Keys that cannot equal a picture's id.
        items = [(f"text:{hashlib.sha256(text.encode()).hexdigest()[:20]}", text) for text in texts]
        return self._rows(encoder.name, items, encoder.encode_texts, lock, prepare=list, size=lambda _text: 0)

    def _rows(
        self,
        encoder: str,
        inputs: Sequence[tuple[str, T]],
        encode: Callable[[Sequence[R]], np.ndarray],
        lock: Turn | None,
        *,
        prepare: Callable[[Sequence[T]], list[R]],
        size: Callable[[T], int],
    ) -> np.ndarray:
        items = dict(inputs)
        stored = self.find(encoder, [(key,) for key in items])
        rows = {key: np.frombuffer(vector, dtype=np.float32) for (key,), vector in stored.items()}
        missing = [key for key in items if key not in rows]
        batches = batched(missing, [size(items[key]) for key in missing])
        prepared = _prepare_ahead(batches, lambda batch: prepare([items[key] for key in batch]))
        for batch, ready in zip(batches, prepared, strict=True):
            with lock or nullcontext():
                encoded = _encode_named(dict(zip(batch, ready, strict=True)), encode)
            self.keep(encoder, {(key,): row.tobytes() for key, row in zip(batch, encoded, strict=True)})
            rows.update(zip(batch, encoded, strict=True))
        return np.stack([rows[key] for key, _ in inputs]) if inputs else np.empty((0, 0), dtype=np.float32)

    def _checked(self, key: tuple[str, ...], reader: str, value: bytes) -> bytes:
        return f"{reader}\0{key[0]}\0".encode() + value


class AnswerCache(CheckedRows):
    """Captions and answers by :data:`Question` and reader; one that fails its checksum is asked for anew."""

    _what, _table, _kind = "answer cache", "answers", "TEXT"
    _columns = ("image_id", "question", "reader", "answer")
    _remedy = "{n} kept answer(s) did not fit their checksum; they are asked for anew"

    def _checked(self, key: tuple[str, ...], reader: str, value: object) -> bytes:
        return "\0".join((*key, reader, str(value))).encode()


def batched(items: Sequence[T], sizes: Sequence[int], *, max_items: int = _BATCH) -> list[list[T]]:
    """Split ``items`` into batches of at most ``max_items`` with limited total size (pixels).

    >>> batched(["a", "b", "c"], [1, 1, 50_000_000])
    [['a', 'b'], ['c']]
    """
    parts: list[list[T]] = []
    room = 0
    for item, size in zip(items, sizes, strict=True):
        if not parts or len(parts[-1]) == max_items or size > room:
            parts.append([])
            room = _MOST_PIXELS
        parts[-1].append(item)
        room -= size
    return parts


def n_pixels(image: StoredImage) -> int:
    width, height = image.size
    return width * height


def open_pictures(images: Sequence[StoredImage]) -> list[Image.Image]:
    """Read the originals as RGB, in several threads: reading a PNG releases Python's lock."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(open_original, images))


def open_original(image: StoredImage) -> Image.Image:
    with Image.open(image.path) as opened:
        return opened.convert("RGB")


def _prepare_ahead(batches: Sequence[T], prepare: Callable[[T], R]) -> Iterator[R]:
    """Yield ``prepare(batch)``, computed one batch ahead in a thread."""
    with ThreadPoolExecutor(1) as pool:
        ready: Future[R] | None = None
        for batch in batches:
            coming = pool.submit(prepare, batch)
            if ready is not None:
                yield ready.result()
            ready = coming
        if ready is not None:
            yield ready.result()


def _encode_named(items: Mapping[str, T], encode: Callable[[Sequence[T]], np.ndarray]) -> np.ndarray:
    """Encode; name the picture or sentence of an unusable embedding."""
    try:
        rows = np.asarray(encode(list(items.values())), dtype=np.float32)
    except InvalidInput as error:
        if len(items) == 1:
            raise InvalidInput(f"{next(iter(items))}: {error}") from error
        # One by one, to name the one at fault.
        return np.concatenate([_encode_named({key: item}, encode) for key, item in items.items()])
    if rows.ndim != 2 or len(rows) != len(items):
        raise InvalidInput(f"the encoder gave shape {rows.shape} for {len(items)} inputs, not ({len(items)}, d)")
    for key, length in zip(items, np.linalg.norm(rows, axis=1), strict=True):
        if not abs(length - 1) < 1e-3:  # also for nan
            raise InvalidInput(f"the embedding of {key} has length {length}, not 1 (NaN or zero?)")
    return rows
