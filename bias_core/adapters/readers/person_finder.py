"""Where the people in a picture are: in the calibration world by its reader, in photographs by a detector."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bias_core.adapters import torch, torchvision
from bias_core.adapters.weights import Reader, loading, not_here, pick_device
from bias_core.crops import Box, person_halves, whole_picture
from bias_core.errors import ModelUnavailable
from bias_core.protocols import ImageTextEncoder

_PERSON = 1  # label of people in COCO


class CalibrationPersonFinder:
    """Tells pictures of the calibration world apart by sentences: one person, two people, or any of its things.

    A portrait's box is the whole picture; those of a pair are the halves that the reader, ``encoder``, learned to read.
    """

    def __init__(self, encoder: ImageTextEncoder) -> None:
        self.encoder = encoder

    @cached_property
    def _sentences(self) -> np.ndarray:
        from bias_core.world.lexicon import book

        things = [f"a photo of a {thing}" for thing in book()["things"]]
        return self.encoder.encode_texts(["a photo of a person", "a photo of two people", *things])

    def find(self, image: Image.Image) -> list[Box]:
        """No box, one, or those of two people from left to right."""
        closest = int((self._sentences @ self.encoder.encode_images([image])[0]).argmax())
        if closest == 0:
            return whole_picture(image)
        return person_halves(image) if closest == 1 else []


class TorchvisionPersonFinder(Reader[tuple[Any, str]]):
    """People by one of torchvision's detectors trained on COCO; loads nothing before the first picture.

    Parameters
    ----------
    architecture : torchvision's name of the detector, e.g. "fasterrcnn_resnet50_fpn_v2".
    weights : file with a state dict, or "" for torchvision's own weights, downloaded once.
    threshold : least score of a box that counts, in [0, 1].
    smallest : least height of a person as a share of the picture's, in [0, 1]; leaves the crowd behind out.
    """

    def __init__(
        self,
        name: str,
        architecture: str = "fasterrcnn_resnet50_fpn_v2",
        weights: str = "",
        *,
        threshold: float = 0.7,
        smallest: float = 0.2,
        **options: Any,
    ) -> None:
        super().__init__(name, weights or f"torchvision's {architecture}", **options)
        self.architecture, self.weights = architecture, weights
        self.threshold, self.smallest = threshold, smallest

    def fetch(self) -> None:
        """Download the weights where they are not on this machine."""
        if self.weights:
            return
        url, saved, _ = self._published()
        if not saved.is_file():
            if self._offline:
                raise not_here(self.name)
            saved.parent.mkdir(parents=True, exist_ok=True)
            with loading(self.name, url):
                torch.hub.download_url_to_file(url, str(saved), saved.stem.rpartition("-")[2], progress=False)

    def find(self, image: Image.Image) -> list[Box]:
        """Boxes from left to right by their middle, inside the picture; ModelUnavailable without weights."""
        with self._running() as (model, device), torch.inference_mode():
            pixels = torchvision.transforms.functional.pil_to_tensor(image.convert("RGB")).float().to(device) / 255
            (detections,) = model([pixels])
        certain = (detections["labels"] == _PERSON) & (detections["scores"] >= self.threshold)
        width, height = image.size
        boxes = [  # whole pixels inside the picture that hold the corners
            (max(0, int(left)), max(0, int(top)), min(width, -int(-right // 1)), min(height, -int(-bottom // 1)))
            for left, top, right, bottom in detections["boxes"][certain].tolist()
        ]
        tall = [box for box in boxes if box[2] > box[0] and box[3] - box[1] >= self.smallest * height]
        return sorted(tall, key=lambda box: (box[0] + box[2], box))

    def _load(self) -> tuple[Any, str]:
        _, saved, weights = self._published()
        device = pick_device(self._wanted_device)
        if self.weights:
            model = torchvision.models.get_model(self.architecture, weights=None, weights_backbone=None)
            model.load_state_dict(torch.load(self.weights, map_location="cpu", weights_only=True))
        elif self._offline and not saved.is_file():
            raise not_here(self.name)
        else:
            model = torchvision.models.get_model(self.architecture, weights=weights)
        return model.to(device).eval(), device

    def _published(self) -> tuple[str, Path, Any]:
        """Where torchvision's own weights come from, where they are kept here, and what it calls them."""
        if self.architecture not in torchvision.models.list_models(module=torchvision.models.detection):
            raise ModelUnavailable(f"torchvision knows no detector {self.architecture!r}")
        weights = torchvision.models.get_model_weights(self.architecture).DEFAULT
        return weights.url, Path(torch.hub.get_dir()) / "checkpoints" / Path(weights.url).name, weights
