"""Pictures for the page only (small copies, averages); scores never see these."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

MOST_AVERAGED = 200
_MISSING = Image.new("RGB", (8, 8), "#808080")


def data_uri(path: Path, size: int) -> str:
    """A copy of at most ``size`` pixels as a data URI; grey where the file has gone."""
    return _uri(_open(path, size))


def average_uri(paths: Sequence[Path], size: int = 96) -> str:
    """The pixel mean of (at most the first 200 of) the pictures as a data URI."""
    stack = [np.asarray(_open(path, size, exactly=True), dtype=np.float32) for path in paths[:MOST_AVERAGED]]
    mean = np.mean(stack, axis=0) if stack else np.asarray(_MISSING)
    return _uri(Image.fromarray(np.rint(mean).astype(np.uint8)))


def _open(path: Path, size: int, *, exactly: bool = False) -> Image.Image:
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except OSError:
        image = _MISSING
    method = Image.Resampling.BOX if max(image.size) > size else Image.Resampling.NEAREST
    if exactly:
        return image.resize((size, size), method)
    return ImageOps.contain(image, (size, size), method) if max(image.size) > size else image


def _uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
