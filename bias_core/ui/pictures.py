"""Pictures for the page only (small copies, averages); scores never see these."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

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
    if exactly or max(image.size) > size:
        scale = size / max(image.size)
        width, height = (max(1, round(side * scale)) for side in image.size)
        image = image.resize(
            (size, size) if exactly else (width, height),
            Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST,
        )
    return image


def _uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
