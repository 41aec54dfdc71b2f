"""The mark of generated pictures: IPTC's digital source type, in the XMP part of a PNG.

Programs that show pictures, and laws on generated content, read it: a picture of a trained model is
"trainedAlgorithmicMedia", one that a program drew without training is "algorithmicMedia".
"""

import re
import struct
import zlib
from collections.abc import Iterable
from functools import cache

from bias_core.settings import ASSETS
from bias_core.types import IMPORTED, PictureRecord

SIGNATURE = b"\x89PNG\r\n\x1a\n"
XMP_KEY = "XML:com.adobe.xmp"
"""The text of a PNG that holds XMP."""
TRAINED, PROGRAM = "trainedAlgorithmicMedia", "algorithmicMedia"
_TERMS = "http://cv.iptc.org/newscodes/digitalsourcetype/"
_TERM = re.compile(r"cv\.iptc\.org/newscodes/digitalsourcetype/([A-Za-z]{3,60})")
_BEFORE_TEXT = len(SIGNATURE) + 25  # the header chunk


def source_of(record: PictureRecord) -> str:
    """The term for how a picture came to be; "" for one that was brought along and does not say."""
    drawn = record.drawn or {}
    given = drawn.get("digital_source_type")
    if isinstance(given, str) and re.fullmatch("[A-Za-z]{3,60}", given):
        return given
    if record.row.model.startswith(IMPORTED):
        return TRAINED if drawn.get("program") else ""
    return TRAINED if record.truth is None else PROGRAM  # the renderer alone knows what it draws


def read_source(xmp: str) -> str:
    """The term in an XMP text, "" where there is none.

    >>> read_source(_packet(TRAINED)), read_source("")
    ('trainedAlgorithmicMedia', '')
    """
    match = _TERM.search(xmp)
    return match[1] if match else ""


def with_source(data: bytes, term: str) -> bytes:
    """A PNG with this digital source type; unchanged where it has XMP already, or the term is ""."""
    beginning = b"iTXt" + XMP_KEY.encode() + b"\0"
    if not term or beginning in data:
        return data
    return with_chunks(data, [beginning + b"\0\0\0\0" + _packet(term).encode()])


@cache
def _packet(term: str) -> str:
    text = ASSETS.joinpath("texts", "digital_source_type.xmp").read_text(encoding="utf-8")
    return text.strip().replace("{term}", f"{_TERMS}{term}")


def with_chunks(data: bytes, bodies: Iterable[bytes]) -> bytes:
    """A PNG with further chunks, each its kind and its content, behind the header."""
    chunks = b"".join(struct.pack(f">I{len(b)}sI", len(b) - 4, b, zlib.crc32(b)) for b in bodies)
    return data[:_BEFORE_TEXT] + chunks + data[_BEFORE_TEXT:]
