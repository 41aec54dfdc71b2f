"""Embeddings that were paid for once: unit rows by encoder and picture, or encoder and sentence."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.runs.sqlite_file import SqliteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from bias_core.protocols import ImageTextEncoder
    from bias_core.types import StoredImage

    Lock = AbstractContextManager[object]

T = TypeVar("T")
R = TypeVar("R")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embeddings (
    key TEXT NOT NULL, encoder TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (key, encoder)
) WITHOUT ROWID
"""
_KEYS_PER_QUERY = 500  # below SQLite's limit on the number of variables
_BATCH = 64  # inputs per call of the encoder
_THREADS = min(8, os.cpu_count() or 1)


class EmbeddingCache:
    """One SQLite file (WAL, so that readers never wait) of float32 unit rows.

    The encoder's ``name`` is part of the key and must therefore change with its weights.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, what="embedding cache", schema=_SCHEMA)

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
        return self._rows(encoder.name, items, keys, encode, prepare=open_pictures)

    def texts(
        self, encoder: ImageTextEncoder, texts: Sequence[str], *, lock: Lock | None = None
    ) -> np.ndarray:
        """Rows ``(n, d)`` of the sentences, computing and keeping only those that are missing."""

        def encode(missing: Sequence[str]) -> np.ndarray:
            with lock or nullcontext():
                return encoder.encode_texts(missing)

        keys = [text_key(text) for text in texts]
        return self._rows(encoder.name, dict(zip(keys, texts, strict=True)), keys, encode, prepare=list)

    def forget(self, keys: Collection[str]) -> None:
        """Drop the rows of evicted pictures, for every encoder."""
        with self._file.transaction() as connection:
            connection.executemany("DELETE FROM embeddings WHERE key = ?", [(key,) for key in keys])

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
    ) -> np.ndarray:
        rows = self._load(encoder, list(items))
        missing = [key for key in items if key not in rows]
        batches = [missing[start : start + _BATCH] for start in range(0, len(missing), _BATCH)]
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
        rows = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            batch = keys[start : start + _KEYS_PER_QUERY]
            marks = ",".join("?" * len(batch))
            query = f"SELECT key, vector FROM embeddings WHERE encoder = ? AND key IN ({marks})"
            with self._file.transaction() as connection:
                for key, vector in connection.execute(query, [encoder, *batch]):
                    rows[key] = np.frombuffer(vector, dtype=np.float32)
        return rows

    def _save(self, encoder: str, rows: Mapping[str, np.ndarray]) -> None:
        values = [(key, encoder, row.tobytes()) for key, row in rows.items()]
        with self._file.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)", values)


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
        raise InvalidInput(
            f"the encoder gave shape {rows.shape} for {len(items)} inputs, not ({len(items)}, d)"
        )
    for key, length in zip(items, np.linalg.norm(rows, axis=1), strict=True):
        if not abs(length - 1) < 1e-3:  # also for nan
            raise InvalidInput(f"the embedding of {key} has length {length}, not 1 (NaN or zero?)")
    return rows
