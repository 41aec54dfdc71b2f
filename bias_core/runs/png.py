"""PNG originals that carry their own record, and can tell whether they are whole."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bias_core.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bias_core.types import GeneratedImage

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RECORD_KEY = "bias_core"
# The fast end of zlib: a few percent larger than the default, several times quicker.
_COMPRESS_LEVEL = 1


@dataclass(frozen=True, kw_only=True)
class PngRecord:
    """What a picture says of itself: its manifest row, the truth where known, and whether it was blocked."""

    row: Mapping[str, Any]
    truth: Mapping[str, Any] | None
    blocked: bool


def encode_png(generated: GeneratedImage) -> bytes:
    """The picture as PNG with text chunks: prompt, seed, model, ... for people, one JSON for programs."""
    from PIL.PngImagePlugin import PngInfo

    row = asdict(generated.row)
    record = {"row": row, "truth": generated.truth, "blocked": generated.blocked}
    settings = ("num_inference_steps", "guidance_scale", "negative_prompt", "width", "height")
    text = {key: str(row[key]) for key in ("prompt", "seed", "model", "revision", "condition")}
    text["settings"] = json.dumps({key: row[key] for key in settings})
    text[RECORD_KEY] = json.dumps(record, sort_keys=True)
    info = PngInfo()
    for key, value in text.items():
        info.add_itxt(key, value)
    buffer = io.BytesIO()
    generated.image.save(buffer, "PNG", pnginfo=info, compress_level=_COMPRESS_LEVEL)
    return buffer.getvalue()


def read_record(data: bytes) -> PngRecord:
    """Check every chunk's checksum and give the record.

    Raises
    ------
    StorageError
        The file is truncated, altered, or was not written by :func:`encode_png`.
    """
    found: PngRecord | None = None
    kind = b""
    for kind, body in _chunks(data):
        if kind == b"iTXt" and body.startswith(RECORD_KEY.encode() + b"\0"):
            found = _parse(body)
    if kind != b"IEND" or found is None:
        raise StorageError("not a whole picture of this store (truncated, or without its record)")
    return found


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


def _parse(body: bytes) -> PngRecord:
    # iTXt: keyword \0 compressed? method language \0 translated keyword \0 text; ours is uncompressed.
    text = body.split(b"\0", 5)[-1]
    record = json.loads(text)
    return PngRecord(row=record["row"], truth=record["truth"], blocked=record["blocked"])
