"""Opens pictures of strangers: what stands before the pixels is read only so far.

Two faults of Pillow (12.3) are worked around here: a directory of EXIF or TIFF whose entries all name the same bytes is
copied once per entry, and the parts before the pixels are joined one by one, which takes the square of their number.
"""

import sys
from typing import IO, Any, BinaryIO, cast

from PIL import Image, TiffImagePlugin

from bias_core.errors import InvalidInput

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "AVIF")
_MOST_BEFORE_PIXELS = {b"\x89PNG": 4_000_000, b"\xff\xd8": 4_000_000, b"GIF8": 1_000_000}  # bytes, by how files begin
_MOST_IN_DIRECTORY = 4_000_000  # bytes
_MOST_READS = 50_000  # a part takes two or more


class _Limited:
    """A file that refuses to be read for more than so many bytes, or too often."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self.most, self.n_reads = most, _MOST_READS  # further bytes and readings

    def read(self, n: int = -1) -> bytes:
        data = self._file.read(n)
        self.most, self.n_reads = self.most - len(data), self.n_reads - 1
        if self.most < 0 or self.n_reads < 0:
            raise InvalidInput("what stands before its pixels is too long to be read")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def open_picture(file: BinaryIO) -> Image.Image:
    """A picture whose pixels are not read yet; what Pillow raises, and InvalidInput where too much is before them."""
    head = file.read(4)
    file.seek(0)
    length = next((n for begin, n in _MOST_BEFORE_PIXELS.items() if head.startswith(begin)), 0)
    if not length:
        return Image.open(file, formats=FORMATS)
    limited = _Limited(file, length)
    opened = Image.open(cast("BinaryIO", limited), formats=FORMATS)
    limited.most = limited.n_reads = sys.maxsize
    return opened


_load = TiffImagePlugin.ImageFileDirectory_v2.load


def _load_limited(directory: TiffImagePlugin.ImageFileDirectory_v2, file: IO[bytes]) -> None:
    _load(directory, cast("IO[bytes]", _Limited(file, _MOST_IN_DIRECTORY)))


TiffImagePlugin.ImageFileDirectory_v2.load = _load_limited  # type: ignore[method-assign, assignment]
