"""Skin tones by the package skin-tone-classifier (GPL-3.0), which whoever wants it installs; nothing of it is here."""

import importlib
import os
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from PIL import Image

from bias_core.adapters.readers.encoders import as_rgb
from bias_core.adapters.readers.generators import check_questions
from bias_core.errors import InvalidInput, quoted
from bias_core.scales import CANNOT_TELL, load_scales

PACKAGE = "skin-tone-classifier"
INSTALL = f'pip install {PACKAGE} "opencv-python<5"'  # OpenCV 5 has no cascades of faces
_NO_FACE = "NA"
_NO_VERSION_CHECK = "STONE_UPGRADE_FLAG"  # else its import asks pypi.org for a newer version


class SkinToneClassifier:
    """The tone of the Monk scale that is nearest to the skin of the largest face in a picture.

    OpenCV's cascade finds the face; two dominant colours of what the package takes for skin are compared with the
    published swatches by CIEDE2000 in CIELAB. It tells nothing of a picture without a frontal face of at least a third
    of its width, nor of a face of which less than 15 % has a hue of 0 to 40°, 19 % saturation and 31 % brightness: the
    published tones 1 to 3, 9 and 10 lie outside. No file and no picture leaves the machine.

    Raises InvalidInput, with the command that installs it, where it is not.
    """

    def __init__(self) -> None:
        try:
            self.name: str = f"{PACKAGE}@{version(PACKAGE)}"
        except PackageNotFoundError as error:
            raise _not_installed("it is not installed") from error
        self.scale: str = "skin tone"
        self._at_work = Lock()

    def fetch(self) -> None:
        """Download nothing; InvalidInput where it is installed and cannot be used."""
        self.load()

    def load(self) -> None:
        """Import it."""
        _ = self._parts

    @property
    def loaded(self) -> bool:
        """Whether it is imported."""
        return "_parts" in vars(self)

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """The tone of each picture, "1" to "10", or "cannot tell".

        Raises InvalidInput: not one question per picture, or another than ``scale``; or it cannot be used here.
        """
        check_questions(images, questions)
        if other := [question for question in questions if question != self.scale]:
            raise InvalidInput(f"{PACKAGE} reads {self.scale} alone, got {quoted(other[0])}")
        with self._at_work, TemporaryDirectory() as folder:
            return [self._read(image, Path(folder) / "picture.png") for image in images]

    def _read(self, image: Image.Image, path: Path) -> str:
        stone, cv2 = self._parts
        scale = load_scales()[self.scale]
        as_rgb(image).save(path, compress_level=1)
        cv2.setRNGSeed(0)  # of its clusters of colours: the same picture gives the same tone
        palette: dict[str, Any] = {"tone_palette": list(scale.colours), "tone_labels": list(scale.levels)}
        try:
            faces = stone.process(path, image_type="color", **palette)["faces"]
        except cv2.error:  # fewer colours than clusters, as in a black picture
            faces = []
        return next((face["tone_label"] for face in faces if face["face_id"] != _NO_FACE), CANNOT_TELL)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        """The package and OpenCV."""
        os.environ.setdefault(_NO_VERSION_CHECK, "1")
        try:
            stone, cv2 = importlib.import_module("stone"), importlib.import_module("cv2")
        except ImportError as error:
            raise _not_installed(str(error)) from error
        if not hasattr(cv2, "CascadeClassifier"):
            raise _not_installed(f"OpenCV {cv2.__version__} finds no faces by cascades")
        return stone, cv2


def _not_installed(reason: str) -> InvalidInput:
    return InvalidInput(f"{PACKAGE} (GPL-3.0, no part of this program) cannot be used here: {reason}; {INSTALL}")
