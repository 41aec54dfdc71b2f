"""The pictures that raters see: pixels only, so that no file tells what its prompt or its model was.

A copy of each picture is kept under the SHA-256 of its bytes. It stays when the original is evicted from
the store of runs, and its name comes from its content: no path of anybody's choosing is ever opened.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from bias_core.errors import InvalidInput, StorageError
from bias_core.store.files import write_atomically

MAX_BYTES = 50_000_000
MAX_PIXELS = 40_000_000
FORMATS = ("PNG", "JPEG", "WEBP")
_NAME = re.compile(r"[0-9a-f]{64}")


def keep_picture(folder: Path, original: Path) -> str:
    """Keep the pixels of ``original`` in ``folder``; the SHA-256 of what is kept.

    Raises
    ------
    InvalidInput
        It is no PNG, JPEG or WebP, or too large.
    StorageError
        It cannot be read, or the disk is full.
    """
    data = _pixels_only(original)
    name = hashlib.sha256(data).hexdigest()
    target = picture_path(folder, name)
    if not target.is_file():
        write_atomically(target, data)
    return name


def picture_path(folder: Path, name: str) -> Path:
    """Where the picture of this SHA-256 is, or would be; StorageError for any other name."""
    if not _NAME.fullmatch(name):
        raise StorageError("pictures of tasks are named by their SHA-256 only")
    return folder / name[:2] / f"{name}.png"


def read_picture(folder: Path, name: str) -> bytes:
    """The file that a rater sees, as PNG; StorageError where it is gone."""
    path = picture_path(folder, name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"the picture {name[:12]} of this task is missing") from error


def remove_picture(folder: Path, name: str) -> None:
    """Remove a file that raters saw; StorageError where it cannot be."""
    path = picture_path(folder, name)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove the picture {name[:12]}: {error.strerror}") from error


def _pixels_only(original: Path) -> bytes:
    try:
        if original.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{original.name} has more than {MAX_BYTES / 1e6:.0f} MB")
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(original, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise InvalidInput(f"{original.name} has {image.width} x {image.height} pixels: too many")
                upright = ImageOps.exif_transpose(image).convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInput(f"{original.name} is no picture in {', '.join(FORMATS)}, or too large") from error
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise StorageError(f"cannot read the picture {original.name}: {error.strerror}") from error
    except (OSError, SyntaxError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{original.name} is a damaged picture: {error}") from error
    buffer = io.BytesIO()
    # A picture of the pixels alone: what came with the file (prompt, seed, camera, place) stays behind.
    Image.frombytes("RGB", upright.size, upright.tobytes()).save(buffer, "PNG", compress_level=6)
    return buffer.getvalue()
