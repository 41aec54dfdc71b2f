"""Pictures that a study makes out of others, kept as files so that figures can show them."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

from bias_core.store.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

    from bias_core.studies.kit.services import StudyServices


def png_bytes(image: Image.Image) -> bytes:
    """The picture as a PNG file."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def keep_picture(services: StudyServices, image: Image.Image) -> Path:
    """Write a picture under the data folder, once; its name is the hash of its content."""
    data = png_bytes(image)
    path = services.settings.data_dir / "derived" / f"{hashlib.sha256(data).hexdigest()[:20]}.png"
    if not path.is_file():
        write_atomically(path, data)
    return path
