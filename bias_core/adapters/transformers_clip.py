"""CLIP and its kin from transformers: CLIP, SigLIP, and dual encoders with other towers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import hide_progress_bars, loading, pick_device
from bias_core.adapters.rows import to_unit_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from PIL import Image


class TransformersEncoder:
    """Image and text embeddings by ``AutoModel``; loads nothing before the first use.

    Parameters
    ----------
    name : identity for caches and reports; changes with the weights.
    source : hub id, or a folder in Hugging Face layout.
    """

    def __init__(
        self, name: str, source: str, *, revision: str = "", device: str = "auto", offline: bool = False
    ) -> None:
        self.name = name
        self.source = source
        self._revision = revision
        self._wanted_device = device
        self._offline = offline
        self._loaded: tuple[Any, Any, Any, str] | None = None

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        import torch

        model, _, processor, device = self._parts()
        inputs = processor(images=[image.convert("RGB") for image in images], return_tensors="pt")
        # Convolutional towers run up to twice as fast in this layout on a CPU; others do not mind.
        pixels = inputs["pixel_values"].to(device, memory_format=torch.channels_last)
        with torch.inference_mode():
            features = model.get_image_features(pixel_values=pixels)
        return to_unit_rows(_tensor(features).float().cpu().numpy(), "image", self.name)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; long texts are cut at the model's limit."""
        import torch

        model, tokenizer, _, device = self._parts()
        inputs = tokenizer(list(texts), padding=_padding(model), truncation=True,
                           max_length=_text_length(model), return_tensors="pt")  # fmt: skip
        wanted = {key: inputs[key].to(device) for key in ("input_ids", "attention_mask") if key in inputs}
        with torch.inference_mode():
            features = model.get_text_features(**wanted)
        return to_unit_rows(_tensor(features).float().cpu().numpy(), "text", self.name)

    def _parts(self) -> tuple[Any, Any, Any, str]:
        if self._loaded is None:
            with loading(self.name, self.source):
                self._loaded = self._load()
        return self._loaded

    def _load(self) -> tuple[Any, Any, Any, str]:
        import torch
        from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

        hide_progress_bars()
        options: dict[str, Any] = {"local_files_only": self._offline or Path(self.source).is_dir()}
        if self._revision and not Path(self.source).is_dir():
            options["revision"] = self._revision
        device = pick_device(self._wanted_device)
        model = AutoModel.from_pretrained(self.source, dtype=torch.float32, use_safetensors=True, **options)
        tokenizer = AutoTokenizer.from_pretrained(self.source, **options)
        processor = AutoImageProcessor.from_pretrained(self.source, **options)
        model = model.to(device, memory_format=torch.channels_last).eval()
        return model, tokenizer, processor, device


def _tensor(features: Any) -> Any:
    """The projected embedding: transformers 5 gives an output object, earlier versions the tensor."""
    return getattr(features, "pooler_output", features)


def _padding(model: Any) -> str:
    """SigLIP reads its padding, always up to the limit; the others mask it, and short texts are quicker."""
    return "max_length" if "siglip" in model.config.model_type else "longest"


def _text_length(model: Any) -> int:
    return int(model.config.text_config.max_position_embeddings)
