"""The content-addressed store: one original PNG per manifest row, which carries its own record."""

import hashlib
import io
import json
import math
import os
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from PIL import Image

from bias_core.errors import StorageError, quoted
from bias_core.store.files import (
    SIGNATURE,
    evict_oldest,
    source_of,
    total_bytes,
    with_chunks,
    with_source,
    write_atomically,
)
from bias_core.store.readings import Repairs
from bias_core.types import EXCHANGED, GeneratedImage, ImageRow, PictureRecord, StoredImage

RECORD_KEY = "bias_core"
# The fast end of zlib: a few percent larger than the default, several times quicker.
_COMPRESS_LEVEL = 1
_DRAWN = frozenset((b"IHDR", b"PLTE", b"IEND", b"tRNS", b"eXIf", b"acTL"))  # parts of a PNG that show in its picture
_MOST_PARTS = 100_000  # of a PNG
_LARGEST = 2**63 - 1  # number of a record
_SHOWN = 300  # characters of an error
_STALE_SECONDS = 24 * 3600
_REMOVED = ".removed"  # an empty file, written when pictures made room for others
_WRITERS = 4  # threads: a write waits for the disk, not for the processor


class DamagedRecord(StorageError):
    """A picture has a record of ours, which is forged or damaged, or written for another picture."""


def encode_png(generated: GeneratedImage) -> bytes:
    """The picture as PNG with text chunks: prompt, seed, model, ... for people, one JSON for programs."""
    buffer = io.BytesIO()
    generated.image.save(buffer, "PNG", compress_level=_COMPRESS_LEVEL)
    data, row = buffer.getvalue(), asdict(generated.row)
    record = {"row": row, "truth": generated.truth, "blocked": generated.blocked, "pixels": pixel_digest(data)}
    settings = ["num_inference_steps", "guidance_scale", "negative_prompt", "width", "height"]
    settings += [name for name in ("sampler", *EXCHANGED) if row[name]]
    if generated.drawn is not None:
        record["drawn"] = dict(generated.drawn)
    text = {key: str(row[key]) for key in ("prompt", "seed", "model", "revision", "condition")}
    text["settings"] = json.dumps({key: row[key] for key in settings})
    text[RECORD_KEY] = json.dumps(record, sort_keys=True)
    bodies = [b"iTXt" + key.encode() + b"\0\0\0\0\0" + value.encode() for key, value in text.items()]
    return with_source(with_chunks(data, bodies), source_of(generated))


def read_record(data: bytes) -> PictureRecord:
    """Check every chunk's checksum, and the pixels against their digest, and give the record.

    Raises StorageError: the file is truncated, altered, or was not written by :func:`encode_png`; DamagedRecord where
    its record is.
    """
    keyword = RECORD_KEY.encode() + b"\0"
    chunks = list(_chunks(data))
    text = next((body for kind, body in reversed(chunks) if kind == b"iTXt" and body.startswith(keyword)), b"")
    if not text or chunks[-1][0] != b"IEND":
        raise StorageError("not a whole picture of this store (truncated, or without its record)")
    # iTXt: keyword \0 compressed? method language \0 translated keyword \0 text; ours is uncompressed.
    try:
        record = json.loads(text.split(b"\0", 5)[-1])
        of_picture = _record_of(record)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedRecord(f"the picture's record cannot be read: {str(error)[:_SHOWN]}") from error
    # Pictures of earlier versions have no digest.
    if "pixels" in record and record["pixels"] != _digest(chunks):
        raise DamagedRecord("the pixels are not those that the record was written for")
    return of_picture


_KINDS: Mapping[str, type | tuple[type, ...]] = {"int": int, "float": (int, float)}  # others are texts
_FIELDS = [(field.name, field.default, _KINDS.get(str(field.type), str)) for field in fields(ImageRow)]


def _record_of(record: Mapping[str, Any]) -> PictureRecord:
    """The record, all values of which are of their types: somebody may have forged it."""
    row, truth, blocked, drawn = record["row"], record["truth"], record["blocked"], record.get("drawn")
    if not all(isinstance(one, dict) for one in (row, truth or {}, drawn or {})) or not isinstance(blocked, bool):
        raise TypeError("it has another form")
    for name, default, kind in _FIELDS:
        value = row.get(name, default)
        wrong = not isinstance(value, kind) or isinstance(value, bool)
        if wrong or (kind is not str and not abs(value) <= _LARGEST):  # NaN neither
            raise ValueError(f"its {name} is {quoted(value)}")
    return PictureRecord(row=ImageRow(**row), truth=truth, blocked=blocked, drawn=drawn)


def pixel_digest(data: bytes) -> str:
    """Equal for two pictures of this store where all their pixels are, whatever their records say.

    Raises StorageError: the file is truncated or altered.
    """
    return _digest(_chunks(data))


def _digest(chunks: Iterable[tuple[bytes, bytes]]) -> str:
    pixels = b"".join(body for kind, body in chunks if kind == b"IDAT")  # as the file packs them
    return hashlib.blake2b(pixels, digest_size=10).hexdigest()


def without_texts(data: bytes) -> bytes:
    """A PNG of the parts that decide its pixels; the others can be huge or broken. Other data as it is.

    Raises StorageError: it has more parts than any program writes.
    """
    if not data.startswith(SIGNATURE):
        return data
    parts, position, n_parts = [SIGNATURE], len(SIGNATURE), 0
    while position < len(data):
        n_parts = _one_more(n_parts)
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        kind = data[position + 4 : position + 8]
        if kind in _DRAWN or (kind == b"IDAT" and end > position + 12):
            parts.append(data[position:end])
        position = end
    return b"".join(parts)


def _one_more(n_parts: int) -> int:
    if n_parts >= _MOST_PARTS:
        raise StorageError(f"a PNG of more than {_MOST_PARTS:,} parts")
    return n_parts + 1


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(SIGNATURE):
        raise StorageError("not a PNG file")
    position, n_parts = len(SIGNATURE), 0
    while position < len(data):
        n_parts = _one_more(n_parts)
        end = position + 8 + int.from_bytes(data[position : position + 4], "big")
        if zlib.crc32(data[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise StorageError("a PNG chunk is truncated or altered")
        yield data[position + 4 : position + 8], data[position + 8 : end]
        position = end + 4


class ImageStore:
    """Pictures under ``folder``, at ``<first two digits of the id>/<id>.png``.

    A file exists only when it is whole (it is renamed into place), and says itself what it is, so the
    store needs no index and survives a kill at any moment. Any number of processes, on any machines that
    share the folder, may write at once: the same id has the same picture, and the last to be renamed stays.

    ``folder``: created on the first write; ``repairs``: is told of pictures that were not what they should be.
    """

    def __init__(self, folder: Path, repairs: Repairs | None = None) -> None:
        self.folder = folder
        self._repairs = repairs or Repairs()
        self._lock = threading.Lock()
        self._n_bytes: int | None = None

    def path(self, image_id: str) -> Path:
        """Where the picture of this id is, or would be."""
        return self.folder / image_id[:2] / f"{image_id}.png"

    def find(self, rows: Mapping[str, ImageRow]) -> dict[str, StoredImage]:
        """The stored pictures among ``rows`` (by id), marked as just used.

        A truncated or altered file, or one of another id, counts as absent and is removed, so that it is
        drawn again.
        """
        images = ((image_id, self._read(row, image_id)) for image_id, row in rows.items())
        return {image_id: image for image_id, image in images if image is not None}

    def get(self, row: ImageRow) -> StoredImage:
        """The stored picture of ``row``.

        Raises StorageError: it is not in the store (never drawn, evicted or deleted).
        """
        if (image := self._read(row, row.id)) is None:
            raise StorageError(f"picture {row.id} is not in the store; run again to draw it")
        return image

    def add(self, generated: Sequence[GeneratedImage]) -> list[StoredImage]:
        """Write pictures, each whole or not at all, in the order given.

        Raises StorageError: the disk is full. What was written before stays.
        """
        with ThreadPoolExecutor(_WRITERS) as pool:
            return list(pool.map(self._write, generated))

    def adopt(self, image: StoredImage) -> StoredImage:
        """Take note of a picture that another process wrote into this store.

        Raises StorageError: it is not there: the other process does not share this folder.
        """
        path = self.path(image.row.id)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise StorageError(
                f"a worker wrote picture {image.row.id}, but it is not in {self.folder}: all machines must "
                "share one data folder (BIAS_DATA_DIR)"
            ) from error
        self._count(size)
        return replace(image, path=path)

    def n_present(self, image_ids: Iterable[str]) -> int:
        """How many of these ids have a file, which is not read."""
        return len(self.sizes(image_ids))

    def sizes(self, image_ids: Iterable[str]) -> list[int]:
        """Bytes of each picture of these that is there."""
        sizes, folder = list[int](), str(self.folder)
        for image_id in image_ids:
            with suppress(OSError):
                sizes.append(os.stat(f"{folder}/{image_id[:2]}/{image_id}.png").st_size)  # noqa: PTH116 - twice as quick
        return sizes

    @property
    def last_removal(self) -> float:
        """When pictures were last removed, in seconds since 1970; 0 if none were."""
        try:
            return (self.folder / _REMOVED).stat().st_mtime
        except OSError:
            return 0.0 if self.folder.is_dir() else math.inf

    @property
    def n_bytes(self) -> int:
        """Bytes of all pictures: counted once, then kept up to date by this process's writes."""
        with self._lock:
            if self._n_bytes is None:
                self._n_bytes = total_bytes(self.folder.glob("??/*.png"))
            return self._n_bytes

    def evict(self, limit: int, *, protected: Collection[str]) -> list[str]:
        """Delete the least recently used pictures until at most ``limit`` bytes remain.

        Pictures whose id is in ``protected`` (kept runs, runs at work) are never deleted, even when
        the store then stays above the limit. Returns the ids that went.
        """
        if self.n_bytes <= limit:
            return []
        for path in self.folder.glob("??/.*.tmp"):  # which writers left half-written when they were killed
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                    path.unlink()
        removed = evict_oldest(self.folder.glob("??/*.png"), limit, protected=lambda path: path.stem in protected)
        with self._lock:
            self._n_bytes = None
        if removed:
            (self.folder / _REMOVED).touch()
        return [path.stem for path in removed]

    def _read(self, row: ImageRow, image_id: str) -> StoredImage | None:
        path = self.path(image_id)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot read picture {path}: {error.strerror}") from error
        try:
            if (record := read_record(data)).row.id != image_id:
                raise StorageError(f"the file holds picture {record.row.id}")
        except StorageError as error:
            path.unlink(missing_ok=True)
            self._repairs.note(f"Stored picture {image_id}: {error}; it is drawn anew")
            return None
        with suppress(OSError):  # a read-only store can be read all the same
            os.utime(path)
        return StoredImage(path=path, **vars(record) | {"row": row})

    def _write(self, generated: GeneratedImage) -> StoredImage:
        path, data = self.path(generated.row.id), encode_png(generated)
        write_atomically(path, data)
        self._count(len(data))
        return StoredImage(path=path, **{name: value for name, value in vars(generated).items() if name != "image"})

    def _count(self, n_bytes: int) -> None:
        with self._lock:
            if self._n_bytes is not None:
                self._n_bytes += n_bytes


def png_bytes(image: Image.Image) -> bytes:
    """The picture as a PNG file."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()
