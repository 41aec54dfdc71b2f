"""CLIP models of open_clip, by the names that the papers give them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import loading, pick_device
from bias_core.adapters.rows import to_unit_rows
from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from PIL import Image


class OpenClipEncoder:
    """Image and text embeddings by open_clip; loads nothing before the first use.

    Parameters
    ----------
    name : identity for caches and reports; changes with the weights.
    architecture : open_clip's model name, e.g. "ViT-B-32".
    weights : a pretrained tag ("openai") or a local checkpoint.
    """

    def __init__(
        self, name: str, architecture: str, weights: str, *, device: str = "auto", offline: bool = False
    ) -> None:
        self.name = name
        self.architecture = architecture
        self.weights = weights
        self._wanted_device = device
        self._offline = offline
        self._loaded: tuple[Any, Any, Any, str] | None = None

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        import torch

        model, preprocess, _, device = self._parts()
        pixels = torch.stack([preprocess(image.convert("RGB")) for image in images])
        with torch.inference_mode():
            features = model.encode_image(pixels.to(device))
        return to_unit_rows(features.float().cpu().numpy(), "image", self.name)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; long texts are cut at the model's limit."""
        import torch

        model, _, tokenizer, device = self._parts()
        with torch.inference_mode():
            features = model.encode_text(tokenizer(list(texts)).to(device))
        return to_unit_rows(features.float().cpu().numpy(), "text", self.name)

    def _parts(self) -> tuple[Any, Any, Any, str]:
        if self._loaded is None:
            with loading(self.name, f"open_clip {self.architecture}/{self.weights}"):
                self._loaded = self._load()
        return self._loaded

    def _load(self) -> tuple[Any, Any, Any, str]:
        import open_clip

        if self.architecture not in open_clip.list_models():
            raise ModelUnavailable(f"open_clip knows no architecture {self.architecture!r}")
        if self._offline and not Path(self.weights).is_file():
            raise ModelUnavailable(f"{self.name} is not on this machine and BIAS_OFFLINE is set")
        device = pick_device(self._wanted_device)
        model, _, preprocess = open_clip.create_model_and_transforms(
            self.architecture, pretrained=self.weights, device=device, precision="fp32"
        )
        return model.eval(), preprocess, open_clip.get_tokenizer(self.architecture), device
