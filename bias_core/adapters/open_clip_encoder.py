"""CLIP models of open_clip, by the names that the papers give them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import hide_progress_bars, pick_device
from bias_core.adapters.encoding import BatchedEncoder, as_rgb, in_threads
from bias_core.adapters.whole_weights import check_finite, read_json
from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from PIL import Image


_CHECKPOINTS = ("*.safetensors", "*.bin", "*.pth")  # that open_clip looks for in a folder


class OpenClipEncoder(BatchedEncoder):
    """Image and text embeddings by open_clip; loads nothing before the first use.

    Parameters
    ----------
    name : identity for caches and reports; changes with the weights.
    architecture : open_clip's model name, e.g. "ViT-B-32"; "" where ``weights`` is a folder.
    weights : a pretrained tag ("openai"), a local checkpoint, or a folder with open_clip_config.json.
    options : of :class:`bias_core.adapters.encoding.BatchedEncoder`.

    Notes
    -----
    OpenAI's weights, and some others, were trained with a quicker approximation of GELU, which open_clip
    uses only for architectures that end in "-quickgelu"; with any other it warns and gives embeddings of a
    model that was never trained. Here the weights decide.
    """

    def __init__(self, name: str, architecture: str, weights: str, **options: Any) -> None:
        local = Path(weights).exists()
        super().__init__(name, weights if local else f"open_clip {architecture}/{weights}", **options)
        self.architecture = architecture
        self.weights = weights

    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        import torch

        model, preprocess, _, device = self._parts()
        prepared = in_threads(lambda image: preprocess(as_rgb(image)), images)
        pixels = torch.stack(prepared).to(device)
        return lambda: model.encode_image(pixels)

    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        model, _, tokenizer, device = self._parts()
        tokens = tokenizer(list(texts)).to(device)
        return lambda: model.encode_text(tokens)

    def _load(self) -> tuple[Any, Any, Any, str]:
        import open_clip
        import torch

        hide_progress_bars()
        device, folder = pick_device(self._wanted_device), Path(self.weights).is_dir()
        how = self._folder() if folder else self._architecture()
        model, _, preprocess = open_clip.create_model_and_transforms(
            **how,
            device=device,
            precision="fp32",
            weights_only=True,
        )
        check_finite(model, self.name)
        foreign = open_clip.get_model_config(how["model_name"])["text_cfg"].get("hf_tokenizer_name")
        here_only = {"local_files_only": True} if foreign and (self._offline or folder) else {}
        tokenizer = open_clip.get_tokenizer(how["model_name"], **here_only)
        return model.to(memory_format=torch.channels_last).eval(), preprocess, tokenizer, device

    def _folder(self) -> dict[str, Any]:
        """How to build what a folder describes; open_clip itself would do with random weights."""
        folder = Path(self.weights)
        read_json(folder / "open_clip_config.json")
        if not any(found for kind in _CHECKPOINTS for found in folder.glob(kind)):
            raise ModelUnavailable(
                f"{self.name} has an open_clip_config.json and no weights beside it; put the checkpoint there"
            )
        return {"model_name": f"local-dir:{folder}"}

    def _architecture(self) -> dict[str, Any]:
        """How to build a model of open_clip's list."""
        import open_clip

        if open_clip.get_model_config(self.architecture) is None:
            raise ModelUnavailable(f"open_clip knows no architecture {self.architecture!r}")
        local = Path(self.weights).is_file()
        trained = {} if local else open_clip.get_pretrained_cfg(self.architecture, self.weights)
        if not local and not trained:
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(self.architecture)) or "none"
            raise ModelUnavailable(
                f"open_clip has no weights {self.weights!r} for {self.architecture}; it has {tags}"
            )
        return {
            "model_name": self.architecture,
            "pretrained": self.weights if local else self._checkpoint(trained),
            "force_quick_gelu": bool(trained.get("quick_gelu")),
            "image_mean": trained.get("mean"),
            "image_std": trained.get("std"),
            "image_interpolation": trained.get("interpolation"),
            "image_resize_mode": trained.get("resize_mode"),
        }

    def _checkpoint(self, trained: Mapping[str, Any]) -> str:
        """The file of the weights, downloaded where that is allowed: safetensors where there are any."""
        import open_clip
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
        from open_clip.constants import HF_SAFE_WEIGHTS_NAME, HF_WEIGHTS_NAME

        repo, _, file = trained.get("hf_hub", "").rpartition("/")
        if not repo:  # on the makers' own server, checked by its hash
            if self._offline:
                raise ModelUnavailable(f"{self.name} is not on this machine and BIAS_OFFLINE is set")
            return str(open_clip.download_pretrained(dict(trained)))
        file = file or HF_WEIGHTS_NAME
        safe = (
            HF_SAFE_WEIGHTS_NAME if file == HF_WEIGHTS_NAME else str(Path(file).with_suffix(".safetensors"))
        )
        try:
            return hf_hub_download(repo, safe, local_files_only=self._offline)
        except LocalEntryNotFoundError as error:
            if self._offline:
                raise ModelUnavailable(
                    f"{self.name} is not on this machine and BIAS_OFFLINE is set"
                ) from error
            raise
        except EntryNotFoundError:  # only a state dict of torch, which is read as data, never run
            return hf_hub_download(repo, file)
