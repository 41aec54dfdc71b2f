"""Caches of embeddings and answers about pictures, in SQLite files."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.protocols import ImageTextEncoder
from bias_core.store.files import Repairs, SqliteFile
from bias_core.types import StoredImage

T = TypeVar("T")


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
