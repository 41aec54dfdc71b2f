"""Embeddings that were paid for once: unit rows by encoder and picture, or encoder and sentence."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.protocols import ImageTextEncoder
from bias_core.store.sqlite_file import Repairs, SqliteFile
from bias_core.types import StoredImage

Lock = AbstractContextManager[object]


T = TypeVar("T")
R = TypeVar("R")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT NOT NULL, encoder TEXT NOT NULL, vector BLOB NOT NULL, checksum BLOB NOT NULL,
    PRIMARY KEY (key, encoder)
) WITHOUT ROWID
"""
_FORM = 1  # 0 had no checksums
_KEYS_PER_QUERY = 500  # below SQLite's limit on the number of variables
_BATCH = 64  # inputs per call of the encoder
_MOST_PIXELS = 32_000_000  # of the pictures that are open at a time: 128 MB
_THREADS = min(8, os.cpu_count() or 1)


class EmbeddingCache:
    """One SQLite file (WAL, so that readers never wait) of float32 unit rows, each with a checksum.

    The encoder's ``name`` is part of the key and must therefore change with its weights. A row that does
    not fit its checksum is computed anew, and ``repairs`` says so.
    """

    def __init__(self, path: Path, repairs: Repairs | None = None) -> None:
        self._repairs = repairs or Repairs()
        self._file = SqliteFile(path, what="embedding cache", schema=_SCHEMA, form=_FORM, repairs=self._repairs)

    def images(
        self, encoder: ImageTextEncoder, images: Sequence[StoredImage], *, lock: Lock | None = None
    ) -> np.ndarray:
        """Rows ``(n, d)`` of the original PNGs, computing and keeping only those that are missing.

        ``lock`` is held while the encoder runs, one batch at a time; the next batch is opened meanwhile.
        """

        def encode(missing: Sequence[Image.Image]) -> np.ndarray:
            with lock or nullcontext():
                return encoder.encode_images(missing)

        keys = [image.path.stem for image in images]
        items = dict(zip(keys, images, strict=True))
        return self._rows(encoder.name, items, keys, encode, prepare=open_pictures, size=n_pixels)

    def texts(self, encoder: ImageTextEncoder, texts: Sequence[str], *, lock: Lock | None = None) -> np.ndarray:
        """Rows ``(n, d)`` of the sentences, computing and keeping only those that are missing."""

        def encode(missing: Sequence[str]) -> np.ndarray:
            with lock or nullcontext():
                return encoder.encode_texts(missing)

        keys = [text_key(text) for text in texts]
        items = dict(zip(keys, texts, strict=True))
        return self._rows(encoder.name, items, keys, encode, prepare=list, size=lambda _text: 0)

    def forget(self, keys: Collection[str]) -> None:
        """Drop the rows of evicted pictures, for every encoder."""
        query = "DELETE FROM embeddings WHERE key = ?"
        self._file.run(lambda connection: connection.executemany(query, [(key,) for key in keys]))

    def close(self) -> None:
        """Close the file; it opens again on the next use."""
        self._file.close()

    def _rows(
        self,
        encoder: str,
        items: Mapping[str, T],
        keys: Sequence[str],
        encode: Callable[[Sequence[R]], np.ndarray],
        *,
        prepare: Callable[[Sequence[T]], list[R]],
        size: Callable[[T], int],
    ) -> np.ndarray:
        rows = self._load(encoder, list(items))
        missing = [key for key in items if key not in rows]
        batches = batched(missing, [size(items[key]) for key in missing])
        prepared = _one_ahead(batches, lambda batch: prepare([items[key] for key in batch]))
        for batch, ready in zip(batches, prepared, strict=True):
            encoded = _encode_named(dict(zip(batch, ready, strict=True)), encode)
            new = dict(zip(batch, encoded, strict=True))
            self._save(encoder, new)
            rows.update(new)
        if not keys:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([rows[key] for key in keys])

    def _load(self, encoder: str, keys: Sequence[str]) -> dict[str, np.ndarray]:
        entries = []
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            batch = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, vector, checksum FROM embeddings WHERE encoder = ? AND key IN ({marks})"
            entries += self._file.run(partial(_all_of, query=query, values=[encoder, *batch]))
        rows = {
            key: np.frombuffer(vector, dtype=np.float32)
            for key, vector, checksum in entries
            if checksum == _checksum(key, encoder, vector)
        }
        if len(rows) < len(entries):
            n = len(entries) - len(rows)
            self._repairs.note(f"{n:,} kept embedding(s) did not fit their checksum; they are computed anew")
        return rows

    def _save(self, encoder: str, rows: Mapping[str, np.ndarray]) -> None:
        vectors = {key: row.tobytes() for key, row in rows.items()}
        values = [(key, encoder, data, _checksum(key, encoder, data)) for key, data in vectors.items()]
        query = "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)"
        self._file.run(lambda connection: connection.executemany(query, values))


def _all_of(connection: Connection, query: str, values: Sequence[str]) -> list[Any]:
    return connection.execute(query, values).fetchall()


def _checksum(key: str, encoder: str, vector: bytes) -> bytes:
    return hashlib.blake2b(f"{encoder}\0{key}\0".encode() + vector, digest_size=8).digest()


def batched(items: Sequence[T], sizes: Sequence[int], *, most: int = _BATCH) -> list[list[T]]:
    """``items`` in parts of at most ``most``, whose sizes (pixels) together are not too much for the memory.

    >>> batched(["a", "b", "c"], [1, 1, 50_000_000])
    [['a', 'b'], ['c']]
    """
    parts: list[list[T]] = []
    room = 0
    for item, size in zip(items, sizes, strict=True):
        if not parts or len(parts[-1]) == most or size > room:
            parts.append([])
            room = _MOST_PIXELS
        parts[-1].append(item)
        room -= size
    return parts


def n_pixels(image: StoredImage) -> int:
    """Of a stored picture, from its row."""
    return image.row.width * image.row.height


def text_key(text: str) -> str:
    """Key of a sentence; cannot be taken for a picture's id."""
    return "text:" + hashlib.sha256(text.encode()).hexdigest()[:20]


def open_pictures(images: Sequence[StoredImage]) -> list[Image.Image]:
    """The originals as RGB, read whole; by several threads, as reading a PNG lets go of Python's lock."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(open_picture, images))


def open_picture(image: StoredImage) -> Image.Image:
    """The original as RGB, read whole."""
    with Image.open(image.path) as opened:
        return opened.convert("RGB")


def _one_ahead(batches: Sequence[T], prepare: Callable[[T], R]) -> Iterator[R]:
    """``prepare`` of each batch, made while the one before is used."""
    with ThreadPoolExecutor(1) as pool:
        coming: deque[Future[R]] = deque()
        for batch in batches:
            coming.append(pool.submit(prepare, batch))
            if len(coming) > 1:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def _encode_named(items: Mapping[str, T], encode: Callable[[Sequence[T]], np.ndarray]) -> np.ndarray:
    """Encode, and when an embedding is unusable, say which picture or sentence it was."""
    try:
        rows = np.asarray(encode(list(items.values())), dtype=np.float32)
    except InvalidInput as error:
        if len(items) == 1:
            raise InvalidInput(f"{next(iter(items))}: {error}") from error
        return np.concatenate([_encode_named({key: item}, encode) for key, item in items.items()])
    if rows.ndim != 2 or len(rows) != len(items):
        raise InvalidInput(f"the encoder gave shape {rows.shape} for {len(items)} inputs, not ({len(items)}, d)")
    for key, length in zip(items, np.linalg.norm(rows, axis=1), strict=True):
        if not abs(length - 1) < 1e-3:  # also for nan
            raise InvalidInput(f"the embedding of {key} has length {length}, not 1 (NaN or zero?)")
    return rows
