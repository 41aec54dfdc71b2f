"""What was paid for once: embeddings of pictures and sentences, and what readers said of pictures in words."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.protocols import ImageTextEncoder
from bias_core.store.sqlite_file import CheckedRows
from bias_core.types import StoredImage

Lock = AbstractContextManager[object]
T = TypeVar("T")
R = TypeVar("R")
Question = tuple[str, str]  # id of a picture, and the question; "" asks for a caption

_BATCH = 64  # inputs per call of the encoder
_MOST_PIXELS = 32_000_000  # of the pictures that are open at a time: 128 MB
_THREADS = min(8, os.cpu_count() or 1)


class EmbeddingCache(CheckedRows):
    """Float32 unit rows by encoder and input; one that does not fit its checksum is computed anew."""

    _what, _table, _kind = "embedding cache", "embeddings", "BLOB"
    _columns = ("key", "encoder", "vector")
    _remedy = "{n} kept embedding(s) did not fit their checksum; they are computed anew"

    def images(
        self, encoder: ImageTextEncoder, images: Sequence[StoredImage], *, lock: Lock | None = None
    ) -> np.ndarray:
        """Rows ``(n, d)`` of the original PNGs, computing and keeping only those that are missing.

        ``lock`` is held while the encoder runs, one batch at a time; the next batch is opened meanwhile.
        """
        items = [(image.path.stem, image) for image in images]
        return self._rows(encoder.name, items, encoder.encode_images, lock, prepare=open_pictures, size=n_pixels)

    def texts(self, encoder: ImageTextEncoder, texts: Sequence[str], *, lock: Lock | None = None) -> np.ndarray:
        """Rows ``(n, d)`` of the sentences, computing and keeping only those that are missing."""
        # By keys that cannot be taken for a picture's id.
        items = [(f"text:{hashlib.sha256(text.encode()).hexdigest()[:20]}", text) for text in texts]
        return self._rows(encoder.name, items, encoder.encode_texts, lock, prepare=list, size=lambda _text: 0)

    def _rows(
        self,
        encoder: str,
        inputs: Sequence[tuple[str, T]],
        encode: Callable[[Sequence[R]], np.ndarray],
        lock: Lock | None,
        *,
        prepare: Callable[[Sequence[T]], list[R]],
        size: Callable[[T], int],
    ) -> np.ndarray:
        items = dict(inputs)
        stored = self.find(encoder, [(key,) for key in items])
        rows = {key: np.frombuffer(vector, dtype=np.float32) for (key,), vector in stored.items()}
        missing = [key for key in items if key not in rows]
        batches = batched(missing, [size(items[key]) for key in missing])
        prepared = _one_ahead(batches, lambda batch: prepare([items[key] for key in batch]))
        for batch, ready in zip(batches, prepared, strict=True):
            with lock or nullcontext():
                encoded = _encode_named(dict(zip(batch, ready, strict=True)), encode)
            self.keep(encoder, {(key,): row.tobytes() for key, row in zip(batch, encoded, strict=True)})
            rows.update(zip(batch, encoded, strict=True))
        return np.stack([rows[key] for key, _ in inputs]) if inputs else np.empty((0, 0), dtype=np.float32)

    def _checked(self, key: tuple[str, ...], reader: str, value: bytes) -> bytes:
        return f"{reader}\0{key[0]}\0".encode() + value


class AnswerCache(CheckedRows):
    """Captions and answers by :data:`Question` and reader; one that does not fit its checksum is asked for anew."""

    _what, _table, _kind = "answer cache", "answers", "TEXT"
    _columns = ("image_id", "question", "reader", "answer")
    _remedy = "{n} kept answer(s) did not fit their checksum; they are asked for anew"

    def _checked(self, key: tuple[str, ...], reader: str, value: object) -> bytes:
        return "\0".join((*key, reader, str(value))).encode()


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
    """Of a stored picture, from its record."""
    width, height = image.size
    return width * height


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
        ready: Future[R] | None = None
        for batch in batches:
            coming = pool.submit(prepare, batch)
            if ready is not None:
                yield ready.result()
            ready = coming
        if ready is not None:
            yield ready.result()


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
