"""CLIP and its kin from transformers: CLIP, SigLIP 1 and 2, and dual encoders with other towers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import hide_progress_bars, offline_source, pick_device
from bias_core.adapters.encoding import BatchedEncoder, as_rgb, in_threads, parts_for_threads
from bias_core.adapters.whole_weights import load_whole, variant_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PIL import Image


class TransformersEncoder(BatchedEncoder):
    """Image and text embeddings by ``AutoModel``; loads nothing before the first use.

    Parameters
    ----------
    name : identity for caches and reports; changes with the weights.
    source : hub id, or a folder in Hugging Face layout.
    revision : of the hub's files; "" for the newest.
    options : of :class:`bias_core.adapters.encoding.BatchedEncoder`.
    """

    def __init__(self, name: str, source: str, *, revision: str = "", **options: Any) -> None:
        super().__init__(name, source, **options)
        self._revision = revision

    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        import torch

        model, processor, _, device = self._parts()

        def prepare(some: Sequence[Image.Image]) -> Any:
            return processor(images=[as_rgb(image) for image in some], return_tensors="pt")

        prepared = in_threads(prepare, parts_for_threads(images))
        inputs = {key: torch.cat([part[key] for part in prepared]).to(device) for key in prepared[0]}
        return lambda: _tensor(model.get_image_features(**inputs))

    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        model, _, tokenizer, device = self._parts()
        inputs = tokenizer(_as_trained(model, texts), padding=_padding(model), truncation=True,
                           max_length=_text_length(model), return_tensors="pt")  # fmt: skip
        names = ("input_ids",) if _is_siglip(model) else ("input_ids", "attention_mask")
        wanted = {key: inputs[key].to(device) for key in names if key in inputs}
        return lambda: _tensor(model.get_text_features(**wanted))

    def _load(self) -> tuple[Any, Any, Any, str]:
        import torch
        from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

        hide_progress_bars()
        source = offline_source(self.name, self.source, offline=self._offline, revision=self._revision)
        local = Path(source).is_dir()
        options = {} if local or not self._revision else {"revision": self._revision}
        device = pick_device(self._wanted_device)
        model = load_whole(
            AutoModel,
            source,
            name=self.name,
            dtype=torch.float32,
            variant=variant_of(Path(source), "model", None),
            use_safetensors=True,
            local_files_only=local,
            **options,
        )
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=local, **options)
        processor = AutoImageProcessor.from_pretrained(source, local_files_only=local, **options)
        # Convolutional towers run up to twice as fast in this layout on a CPU; others do not mind.
        model = model.to(device, memory_format=torch.channels_last).eval()
        return model, processor, tokenizer, device


def _tensor(features: Any) -> Any:
    """The projected embedding: transformers 5 gives an output object, earlier versions the tensor."""
    return getattr(features, "pooler_output", features)


def _is_siglip(model: Any) -> bool:
    return "siglip" in model.config.model_type


def _as_trained(model: Any, texts: Sequence[str]) -> list[str]:
    """SigLIP learned from texts in small letters, which SigLIP 2's tokenizer leaves to its caller."""
    return [text.lower() for text in texts] if _is_siglip(model) else list(texts)


def _padding(model: Any) -> str:
    """SigLIP reads its padding, unmasked and always up to the limit; for others short texts are quicker."""
    return "max_length" if _is_siglip(model) else "longest"


def _text_length(model: Any) -> int:
    return int(model.config.text_config.max_position_embeddings)
