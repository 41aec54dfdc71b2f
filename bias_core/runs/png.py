"""PNG originals that carry their own record, and can tell whether they are whole."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bias_core.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bias_core.types import GeneratedImage

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RECORD_KEY = "bias_core"
# The fast end of zlib: a few percent larger than the default, several times quicker.
_COMPRESS_LEVEL = 1
_BEFORE_TEXT = len(SIGNATURE) + 25  # the header chunk


@dataclass(frozen=True, kw_only=True)
class PngRecord:
    """What a picture says of itself: its manifest row, the truth where known, and whether it was blocked.

    ``drawn`` is what the model said of its drawing; older files have nothing of it.
    """

    row: Mapping[str, Any]
    truth: Mapping[str, Any] | None
    blocked: bool
    drawn: Mapping[str, Any] | None = None


def encode_png(generated: GeneratedImage) -> bytes:
    """The picture as PNG with text chunks: prompt, seed, model, ... for people, one JSON for programs."""
    buffer = io.BytesIO()
    generated.image.save(buffer, "PNG", compress_level=_COMPRESS_LEVEL)
    data, row = buffer.getvalue(), asdict(generated.row)
    record = {
        "row": row,
        "truth": generated.truth,
        "blocked": generated.blocked,
        "pixels": _pixels_digest(_chunks(data)),
    }
    settings = ("num_inference_steps", "guidance_scale", "negative_prompt", "width", "height")
    if generated.drawn is not None:
        record["drawn"] = dict(generated.drawn)
    text = {key: str(row[key]) for key in ("prompt", "seed", "model", "revision", "condition")}
    text["settings"] = json.dumps({key: row[key] for key in settings})
    text[RECORD_KEY] = json.dumps(record, sort_keys=True)
    texts = b"".join(_text_chunk(key, value) for key, value in text.items())
    return data[:_BEFORE_TEXT] + texts + data[_BEFORE_TEXT:]


def read_record(data: bytes) -> PngRecord:
    """Check every chunk's checksum, and the pixels against their digest, and give the record.

    Raises
    ------
    StorageError
        The file is truncated, altered, or was not written by :func:`encode_png`.
    """
    chunks = list(_chunks(data))
    keyword = RECORD_KEY.encode() + b"\0"
    texts = [body for kind, body in chunks if kind == b"iTXt" and body.startswith(keyword)]
    if not texts or chunks[-1][0] != b"IEND":
        raise StorageError("not a whole picture of this store (truncated, or without its record)")
    # iTXt: keyword \0 compressed? method language \0 translated keyword \0 text; ours is uncompressed.
    try:
        record = json.loads(texts[-1].split(b"\0", 5)[-1])
        found = PngRecord(
            row=record["row"], truth=record["truth"], blocked=record["blocked"], drawn=record.get("drawn")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"the picture's record cannot be read: {error}") from error
    # Pictures of earlier versions have no digest.
    if "pixels" in record and record["pixels"] != _pixels_digest(chunks):
        raise StorageError("the pixels are not those that the record was written for")
    return found


def _pixels_digest(chunks: Iterable[tuple[bytes, bytes]]) -> str:
    """Of the pixels as the file packs them."""
    digest = hashlib.blake2b(digest_size=10)
    for kind, body in chunks:
        if kind == b"IDAT":
            digest.update(body)
    return digest.hexdigest()


def _text_chunk(key: str, value: str) -> bytes:
    body = b"iTXt" + key.encode() + b"\0\0\0\0\0" + value.encode()
    return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def pixel_digest(data: bytes) -> str:
    """Equal for two pictures of this store where all their pixels are, whatever their records say.

    Raises
    ------
    StorageError
        The file is truncated or altered.
    """
    return _pixels_digest(_chunks(data))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(SIGNATURE):
        raise StorageError("not a PNG file")
    position = len(SIGNATURE)
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        end = position + 8 + length
        if zlib.crc32(data[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise StorageError("a PNG chunk is truncated or altered")
        yield data[position + 4 : position + 8], data[position + 8 : end]
        position = end + 4
