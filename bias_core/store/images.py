"""Picture files: PNGs with their record, their store, and decoding of imported files (in :mod:`.reader`)."""

import hashlib
import io
import json
import math
import os
import re
import struct
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from bias_core.errors import InvalidInput, StorageError, quoted
from bias_core.installed import ASSETS
from bias_core.store.files import Repairs, evict_oldest, total_bytes, write_atomically
from bias_core.types import EXCHANGED, IMPORTED, GeneratedImage, ImageRow, PictureRecord, StoredImage

RECORD_KEY = "bias_core"
# Fast zlib: a few percent larger than the default, several times quicker.
_COMPRESS_LEVEL = 1
_LARGEST = 2**63 - 1  # number of a record
_STALE_SECONDS = 24 * 3600  # age at which a temporary file is that of a killed process
_REMOVED = ".removed"  # an empty file, written when pictures were evicted
_WRITERS = 4  # threads: a write waits for the disk, not for the processor


class DamagedRecord(StorageError):
    """The record in a picture is forged, damaged, or of another picture."""


SIGNATURE = b"\x89PNG\r\n\x1a\n"
XMP_KEY = "XML:com.adobe.xmp"
"""Key of the PNG text that holds XMP."""
TRAINED, PROGRAM = "trainedAlgorithmicMedia", "algorithmicMedia"
_TERMS = "http://cv.iptc.org/newscodes/digitalsourcetype/"
_TERM = re.compile(r"cv\.iptc\.org/newscodes/digitalsourcetype/([A-Za-z]{3,60})")
_BEFORE_TEXT = len(SIGNATURE) + 25  # the header chunk


def get_source_type(record: PictureRecord) -> str:
    """The digital source type of a picture; "" for an imported one without it."""
    drawn = record.drawn or {}
    given = drawn.get("digital_source_type")
    if isinstance(given, str) and re.fullmatch("[A-Za-z]{3,60}", given):
        return given
    if record.row.model.startswith(IMPORTED):
        return TRAINED if drawn.get("program") else ""
    return TRAINED if record.truth is None else PROGRAM  # only the renderer has ground truth


def read_source(xmp: str) -> str:
    """Read the digital source type of an XMP text; "" without one.

    >>> read_source(_packet(TRAINED)), read_source("")
    ('trainedAlgorithmicMedia', '')
    """
    return match[1] if (match := _TERM.search(xmp)) else ""


def with_source(data: bytes, term: str) -> bytes:
    """Add a digital source type to a PNG; unchanged if it has XMP already, or the term is ""."""
    beginning = b"iTXt" + XMP_KEY.encode() + b"\0"
    if not term or beginning in data:
        return data
    return with_chunks(data, [beginning + b"\0\0\0\0" + _packet(term).encode()])


@cache
def _packet(term: str) -> str:
    text = ASSETS.joinpath("texts", "digital_source_type.xmp").read_text(encoding="utf-8")
    return text.strip().replace("{term}", f"{_TERMS}{term}")


def with_chunks(data: bytes, bodies: Iterable[bytes]) -> bytes:
    """Add chunks (kind, content) after the header of a PNG."""
    chunks = b"".join(struct.pack(f">I{len(b)}sI", len(b) - 4, b, zlib.crc32(b)) for b in bodies)
    return data[:_BEFORE_TEXT] + chunks + data[_BEFORE_TEXT:]


def encode_png(generated: GeneratedImage) -> bytes:
    """Encode the picture as PNG with text chunks: prompt, seed, model, ... for people, one JSON for programs."""
    data, row = png_bytes(generated.image, compress_level=_COMPRESS_LEVEL), asdict(generated.row)
    record = {"row": row, "truth": generated.truth, "blocked": generated.blocked, "pixels": pixel_digest(data)}
    record |= {} if generated.drawn is None else {"drawn": dict(generated.drawn)}
    settings = ["num_inference_steps", "guidance_scale", "negative_prompt", "width", "height"]
    settings += [name for name in ("sampler", *EXCHANGED) if row[name]]
    text = {key: str(row[key]) for key in ("prompt", "seed", "model", "revision", "condition")}
    text["settings"] = json.dumps({key: row[key] for key in settings})
    text[RECORD_KEY] = json.dumps(record, sort_keys=True)
    bodies = [b"iTXt" + key.encode() + b"\0\0\0\0\0" + value.encode() for key, value in text.items()]
    return with_source(with_chunks(data, bodies), get_source_type(generated))


def read_record(data: bytes) -> PictureRecord:
    """Return the record if checksums and pixels fit; StorageError for a bad file, DamagedRecord for a bad record."""
    keyword = RECORD_KEY.encode() + b"\0"
    chunks = list(_chunks(data))
    text = next((body for kind, body in reversed(chunks) if kind == b"iTXt" and body.startswith(keyword)), b"")
    if not text or chunks[-1][0] != b"IEND":
        raise StorageError("not a whole picture of this store (truncated, or without its record)")
    # iTXt: keyword \0 compressed? method language \0 translated keyword \0 text; ours is uncompressed.
    try:
        record = json.loads(text.split(b"\0", 5)[-1])
        of_picture, pixels = _parse_record(record), record["pixels"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedRecord(f"the picture's record cannot be read: {str(error)[:300]}") from error
    if pixels != _digest(chunks):
        raise DamagedRecord("the record was written for other pixels")
    return of_picture


_KINDS: Mapping[str, type | tuple[type, ...]] = {"int": int, "float": (int, float)}  # others are texts
_FIELDS = [(field.name, field.default, _KINDS.get(str(field.type), str)) for field in fields(ImageRow)]


def _parse_record(record: Mapping[str, Any]) -> PictureRecord:
    """Check the type of every value of the record, which may be forged."""
    row, truth, blocked, drawn = record["row"], record["truth"], record["blocked"], record.get("drawn")
    if not all(isinstance(entry, dict) for entry in (row, truth or {}, drawn or {})) or not isinstance(blocked, bool):
        raise TypeError("it has another form")
    for name, default, kind in _FIELDS:
        value = row.get(name, default)
        wrong = not isinstance(value, kind) or isinstance(value, bool)
        if wrong or (kind is not str and not abs(value) <= _LARGEST):  # NaN neither
            raise ValueError(f"its {name} is {quoted(value)}")
    return PictureRecord(row=ImageRow(**row), truth=truth, blocked=blocked, drawn=drawn)


def pixel_digest(data: bytes) -> str:
    """Digest of a picture's pixels, independent of its record; StorageError for a truncated or altered file."""
    return _digest(_chunks(data))


def _digest(chunks: Iterable[tuple[bytes, bytes]]) -> str:
    pixels = b"".join(body for kind, body in chunks if kind == b"IDAT")  # as the file packs them
    return hashlib.blake2b(pixels, digest_size=10).hexdigest()


_TEXT_PARTS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"eXIf"})


def read_late_texts(file: BinaryIO) -> Image.Image | None:
    """Return a PNG without pixels that has the texts which follow the pixels of another; None if there are none."""
    file.seek(len(SIGNATURE))
    kept, is_late = [SIGNATURE], False
    while len(head := file.read(8)) == 8:
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        is_late |= kind == b"IDAT"
        if kind == b"IHDR" or (is_late and kind in _TEXT_PARTS):
            kept.append(head + file.read(length + 4))
        else:
            file.seek(length + 4, os.SEEK_CUR)
    return Image.open(io.BytesIO(b"".join([*kept, struct.pack(">I", 0), b"IDAT"]))) if len(kept) > 2 else None


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of each chunk of a PNG; StorageError if a checksum does not match."""
    if not data.startswith(SIGNATURE):
        raise StorageError("not a PNG file")
    start = len(SIGNATURE)
    while start < len(data):
        end = start + 12 + int.from_bytes(data[start : start + 4], "big")
        if zlib.crc32(data[start + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise StorageError("a PNG chunk is truncated or altered")
        yield data[start + 4 : start + 8], data[start + 8 : end - 4]
        start = end


class ImageStore:
    """Pictures under ``folder``, at ``<first two digits of the id>/<id>.png``.

    A file exists only when complete (it is renamed into place), and holds its own record, so the
    store needs no index and survives a kill at any moment. Any number of processes, on any machines that
    share the folder, may write at once: the same id has the same picture, and the last to be renamed stays.

    ``folder``: created on the first write; ``repairs``: gets notes on damaged or wrong pictures.
    """

    def __init__(self, folder: Path, repairs: Repairs | None = None) -> None:
        self.folder = folder
        self._repairs = repairs or Repairs()
        self._lock = threading.Lock()
        self._n_bytes: int | None = None

    def path(self, image_id: str) -> Path:
        """The path for this id; the file may not exist."""
        return Path(f"{self.folder}/{image_id[:2]}/{image_id}.png")  # twice as quick as by its parts

    def find(self, rows: Mapping[str, ImageRow]) -> dict[str, StoredImage]:
        """Return the stored pictures among ``rows`` by id, marked as used; remove damaged ones, to be drawn again."""
        images = ((image_id, self._read(row, image_id)) for image_id, row in rows.items())
        return {image_id: image for image_id, image in images if image is not None}

    def get(self, row: ImageRow) -> StoredImage:
        """The stored picture of ``row``; StorageError if it was never drawn, or is evicted or deleted."""
        if (image := self._read(row, row.id)) is None:
            raise StorageError(f"picture {row.id} is not in the store; run again to draw it")
        return image

    def add(self, generated: Sequence[GeneratedImage]) -> list[StoredImage]:
        """Write pictures in order, each completely or not at all; StorageError if the disk is full."""
        with ThreadPoolExecutor(_WRITERS) as pool:
            return list(pool.map(self._write, generated))

    def adopt(self, image: StoredImage) -> StoredImage:
        """Register a picture from another process; StorageError if it is missing: that process has another folder."""
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
        """Count the ids that have a file, without reading it."""
        return len(self.sizes(image_ids))

    def sizes(self, image_ids: Iterable[str]) -> list[int]:
        """Bytes of each of these pictures that exists."""
        sizes, folder = list[int](), str(self.folder)
        for image_id in image_ids:
            with suppress(OSError):
                sizes.append(os.stat(f"{folder}/{image_id[:2]}/{image_id}.png").st_size)  # noqa: PTH116 - twice as quick
        return sizes

    @property
    def last_removal(self) -> float:
        """Time of the last removal, in seconds since 1970; 0 without any."""
        try:
            return (self.folder / _REMOVED).stat().st_mtime
        except OSError:  # nothing was removed, or all with the folder
            return 0.0 if self.folder.is_dir() else math.inf

    @property
    def n_bytes(self) -> int:
        """Bytes of all pictures: counted once, then updated by this process's writes."""
        with self._lock:
            if self._n_bytes is None:
                self._n_bytes = total_bytes(self.folder.glob("??/*.png"))
            return self._n_bytes

    def evict(self, limit: int, *, protected: Collection[str]) -> list[str]:
        """Delete the least recently used pictures, none ``protected``, down to ``limit`` bytes; return their ids."""
        if self.n_bytes <= limit:
            return []
        for path in self.folder.glob("??/.*.tmp"):  # left half-written by killed writers
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
            record = read_record(data)
            if (record.row != row or row.id != image_id) and record.row.id != image_id:  # a hash takes longer
                raise StorageError(f"the file holds picture {record.row.id}")
        except StorageError as error:
            path.unlink(missing_ok=True)
            self._repairs.note(f"Stored picture {image_id}: {error}; it is drawn anew")
            return None
        with suppress(OSError):  # reading a read-only store still works
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


def png_bytes(image: Image.Image, **options: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", **options)
    return buffer.getvalue()


_UNPACKED_BMP = (0, 3)  # as they are, or by masks; Pillow unpacks others in Python
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
LONGEST_SIDE = 1024
"""Maximum longer side of an imported picture in pixels; larger ones shrink, as no classifier sees more."""


@contextmanager
def open_picture(file: BinaryIO) -> Iterator[Image.Image]:
    """Open a picture, as yet without its pixels. Raises InvalidInput for any of its faults, also while it is used."""
    try:
        with Image.open(file, formats=FORMATS) as opened:
            if opened.format == "BMP" and opened.info.get("compression", 0) not in _UNPACKED_BMP:
                raise InvalidInput("is a packed BMP; save it as PNG")
            yield opened
    except UnidentifiedImageError as error:
        raise InvalidInput(f"not a picture in one of the formats {', '.join(FORMATS)}") from error
    except Image.DecompressionBombError as error:
        raise InvalidInput(f"has too many pixels: {error}") from error
    except InvalidInput:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, RuntimeError, struct.error, LookupError, TypeError) as error:
        raise InvalidInput(f"cannot be read as a picture: {error}") from error


def decode_picture(opened: Image.Image) -> Image.Image:
    """Decode an opened picture to RGB, upright, with its longer side at most ``LONGEST_SIDE``.

    Transparent parts become white, animations give their first frame, and 16 bits are scaled to 8.
    """
    opened.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG need not be unpacked in full size
    image = _with_eight_bits(opened)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def is_animation(opened: Image.Image, data: bytes) -> bool:
    """Return true for a picture of several frames; Pillow would unpack a GIF's to know it."""
    return _has_two_frames(data) if opened.format == "GIF" else bool(getattr(opened, "is_animated", False))


def _has_two_frames(gif: bytes) -> bool:
    """Walk over the blocks of a GIF."""
    at, n_frames = 13 + _table_bytes(gif[10:11]), 0
    while n_frames < 2 and gif[at : at + 1] in (b"!", b","):
        n_frames += gif[at] == ord(",")
        at += 11 + _table_bytes(gif[at + 9 : at + 10]) if gif[at] == ord(",") else 2
        while at < len(gif) and gif[at]:
            at += gif[at] + 1
        at += 1
    return n_frames > 1


def _table_bytes(flags: bytes) -> int:
    """Bytes of a GIF's table of colours, by the flags before it."""
    return 3 << ((flags[0] & 7) + 1) if flags and flags[0] & 128 else 0


def _with_eight_bits(opened: Image.Image) -> Image.Image:
    """Convert the first frame to grey or RGB, with or without transparency."""
    if opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format == "PNG"):
        image = Image.fromarray(((np.asarray(opened).astype(np.int32) + 128) // 257).astype(np.uint8))
        image.info = opened.info  # orientation
        return image
    if opened.mode[0] in "FI":
        raise InvalidInput(f"its pixels are of the mode {opened.mode}, in which black and white are undefined")
    if opened.mode in ("PA", "La", "RGBa", "LA") or "transparency" in opened.info:
        return opened.convert("RGBA")
    return opened if opened.mode in ("RGB", "RGBA", "L") else opened.convert("RGB")
