"""Encoders of pictures and texts, and a person detector."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import huggingface_hub
import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable
from bias_core.models import hub_errors, open_clip, torch, torchvision, transformers
from bias_core.models.catalogue import read_model_json
from bias_core.models.family_facts import reads
from bias_core.models.weights import (
    Batches,
    HubModel,
    check_finite,
    load_whole,
    loading,
    missing_weights_error,
    pick_device,
)
from bias_core.people import Box
from bias_core.types import PromptLimit

T = TypeVar("T")
R = TypeVar("R")

Precision = Literal["auto", "single", "half"]
"""Floating-point precision inside a model; "auto" is half on a GPU and single elsewhere."""

_THREADS = min(2, os.cpu_count() or 1)  # more threads wait for each other, and take half as much processor time again
_CHECKPOINTS = ("*.safetensors", "*.bin", "*.pth")  # that open_clip looks for in a folder


class BatchedEncoder(HubModel[tuple[Any, Any, Any, str]]):
    """Image and text embeddings in batches that fit the memory; loads nothing before first use.

    Weights stay in single precision. Half precision is float16 by autocast. It moves a cosine by about
    1e-4 (bfloat16: 5e-4); what it cannot hold, giving NaN or infinity, is encoded again in single precision.
    """

    def __init__(
        self, name: str, source: str, *, precision: Precision = "auto", batch_size: int = 64, **options: Any
    ) -> None:
        super().__init__(name, source, batch_size=batch_size, **options)
        self.precision = precision
        self._read_by: tuple[Any, int] | None = None
        self._text_batches = Batches(name, 512)  # texts are far smaller than pictures

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; ``(0, 0)`` for no picture."""
        return self._encode("image", images, self._batches, self._image_features)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; long texts are cut at the model's limit."""
        return self._encode("text", texts, self._text_batches, self._text_features)

    def _encode(
        self, kind: str, inputs: Sequence[T], batches: Batches, prepare: Callable[[Sequence[T]], Callable[[], Any]]
    ) -> np.ndarray:
        if not len(inputs):
            return np.empty((0, 0), dtype=np.float32)

        def encoded(chosen: Sequence[T], half: bool) -> np.ndarray:
            done = list(batches.run(chosen, lambda batch: self._features(prepare(batch), half)))
            return np.concatenate([values.cpu().numpy() for values in done])

        with self._running():
            half = self.precision == "half" or (self.precision == "auto" and self._parts()[3] == "cuda")
            features = encoded(inputs, half)
            lost = [i for i, row in enumerate(features) if half and not np.isfinite(row).all()]
            if lost:
                features[lost] = encoded([inputs[i] for i in lost], False)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        bad = ~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0))
        if bad.any():
            number = int(np.argmax(bad)) + 1
            raise InvalidInput(f"{self.name} gave a NaN or zero embedding for {kind} {number} of {len(features)}")
        return features / lengths

    def _features(self, features: Callable[[], Any], half: bool) -> Any:
        """Float32 features, left on the device: a GPU computes them while the next batch is prepared."""
        with torch.inference_mode(), torch.autocast(self._parts()[3], dtype=torch.float16, enabled=half):
            return features().float()

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """The part of each text that it reads; loads no weights, and is empty without a tokenizer."""
        try:
            with loading(self.name, self.source):
                self._read_by = self._read_by or self._tokens()
        except ModelUnavailable:  # reported on use
            return ()
        tokenizer, limit = self._read_by
        return tuple(reads(text, name="the encoder", tokenizer=tokenizer, limit=limit) for text in prompts)

    @abstractmethod
    def _tokens(self) -> tuple[Any, int]:
        """Its tokenizer, as one of transformers, and its token limit."""

    @abstractmethod
    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        """Prepare these pictures and return a function that embeds them."""

    @abstractmethod
    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        """Prepare these texts and return a function that embeds them."""


def convert_to_rgb(image: Image.Image) -> Image.Image:
    """The picture in RGB; unchanged if it is."""
    return image if image.mode == "RGB" else image.convert("RGB")


def _map_in_threads(work: Callable[[T], R], inputs: Sequence[T]) -> list[R]:
    """``[work(x) for x in inputs]`` in several threads: decoding and resizing release Python's lock."""
    if len(inputs) < 2 or _THREADS < 2:
        return [work(x) for x in inputs]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, inputs))


class OpenClipEncoder(BatchedEncoder):
    """Image and text embeddings by open_clip; loads nothing before the first use.

    ``architecture``: open_clip's model name, e.g. "ViT-B-32"; "" if ``weights`` is a folder; ``weights``: a
    pretrained tag ("openai"), a local checkpoint, or a folder with open_clip_config.json.

    OpenAI's weights, and some others, were trained with a quicker approximation of GELU, which open_clip uses only for
    architectures that end in "-quickgelu"; with any other it warns and gives embeddings of a model that was never
    trained. Here the weights decide.
    """

    def __init__(self, name: str, architecture: str, weights: str, **options: Any) -> None:
        super().__init__(name, weights if Path(weights).exists() else f"open_clip {architecture}/{weights}", **options)
        self.architecture, self.weights = architecture, weights
        self._fetched: dict[str, Any] = {}

    def fetch(self) -> None:
        """Download missing files; nothing is loaded."""
        if not Path(self.weights).exists():
            with loading(self.name, self.source):
                model_options = self._architecture()
                self._tokenizer(model_options["model_name"], local_only=self._offline)
            self._fetched = model_options

    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        model, preprocess, _, device = self._parts()
        pixels = torch.stack(_map_in_threads(lambda image: preprocess(convert_to_rgb(image)), images)).to(device)
        return lambda: model.encode_image(pixels)

    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        model, _, tokenizer, device = self._parts()
        tokens = tokenizer(list(texts)).to(device)
        return lambda: model.encode_text(tokens)

    def _load(self) -> tuple[Any, Any, Any, str]:
        device, folder = pick_device(self._wanted_device), Path(self.weights).is_dir()
        model_options = self._folder() if folder else self._fetched or self._architecture()
        model, _, preprocess = open_clip.create_model_and_transforms(
            **model_options, device=device, precision="fp32", weights_only=True
        )
        check_finite(model, self.name)
        tokenizer = self._tokenizer(
            model_options["model_name"], local_only=self._offline or folder or bool(self._fetched)
        )
        return model.to(memory_format=torch.channels_last).eval(), preprocess, tokenizer, device

    def _tokens(self) -> tuple[Any, int]:
        folder = Path(self.weights).is_dir()
        name = self._folder()["model_name"] if folder else self.architecture
        tokenizer = self._tokenizer(name, local_only=True)
        hf_tokenizer = getattr(tokenizer, "tokenizer", None)
        return hf_tokenizer or _OfOpenClip(tokenizer), int(tokenizer.context_length)

    def _tokenizer(self, model: str, *, local_only: bool) -> Any:
        """The model's tokenizer; with ``local_only``, a hub's only if it is on this machine."""
        foreign = open_clip.get_model_config(model)["text_cfg"].get("hf_tokenizer_name")
        return open_clip.get_tokenizer(model, **({"local_files_only": True} if foreign and local_only else {}))

    def _folder(self) -> dict[str, Any]:
        """Arguments to build the model of a folder, for which open_clip itself would take random weights."""
        folder = Path(self.weights)
        read_model_json(folder / "open_clip_config.json")
        if not any(path for kind in _CHECKPOINTS for path in folder.glob(kind)):
            raise ModelUnavailable(
                f"{self.name} has an open_clip_config.json without weights; put the checkpoint next to it"
            )
        return {"model_name": f"local-dir:{folder}"}

    def _architecture(self) -> dict[str, Any]:
        if open_clip.get_model_config(self.architecture) is None:
            raise ModelUnavailable(f"open_clip knows no architecture {self.architecture!r}")
        local = Path(self.weights).is_file()
        trained = {} if local else open_clip.get_pretrained_cfg(self.architecture, self.weights)
        if not local and not trained:
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(self.architecture)) or "none"
            raise ModelUnavailable(f"open_clip has no weights {self.weights!r} for {self.architecture}; it has {tags}")
        settings = {f"image_{key}": trained.get(key) for key in ("mean", "std", "interpolation", "resize_mode")}
        return settings | {
            "model_name": self.architecture,
            "pretrained": self.weights if local else self._checkpoint(trained),
            "force_quick_gelu": bool(trained.get("quick_gelu")),
        }

    def _checkpoint(self, trained: Mapping[str, Any]) -> str:
        """The file of the weights, downloaded if allowed; safetensors if there are any."""
        repo, _, file = trained.get("hf_hub", "").rpartition("/")
        if not repo:  # on the makers' own server, checked by its hash
            if self._offline:
                raise missing_weights_error(self.name)
            return str(open_clip.download_pretrained(dict(trained)))
        usual, file = open_clip.constants.HF_WEIGHTS_NAME, file or open_clip.constants.HF_WEIGHTS_NAME
        safe = str(Path(file).with_suffix(".safetensors"))
        safe = open_clip.constants.HF_SAFE_WEIGHTS_NAME if file == usual else safe
        try:
            return huggingface_hub.hf_hub_download(repo, safe, local_files_only=self._offline)
        except hub_errors.LocalEntryNotFoundError as error:
            if self._offline:
                raise missing_weights_error(self.name) from error
            raise
        except hub_errors.EntryNotFoundError:  # only a state dict of torch, which is read as data, never run
            return huggingface_hub.hf_hub_download(repo, file)


class _OfOpenClip:
    """An open_clip tokenizer with the parts of transformers' interface that :func:`reads` needs."""

    is_fast = False

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str, *, max_length: int | None = None, **_how: Any) -> Any:
        """The tokens, including start and end marks."""
        ids = self._tokenizer.encode(text)
        ids = ids if max_length is None else ids[: max_length - 2]
        return SimpleNamespace(input_ids=[self._tokenizer.sot_token_id, *ids, self._tokenizer.eot_token_id])

    def decode(self, ids: Sequence[int], **_how: Any) -> str:
        """The text of tokens, without start and end marks."""
        return str(self._tokenizer.decode(ids[1:-1])).strip()


class TransformersEncoder(BatchedEncoder):
    """Image and text embeddings by ``AutoModel``, see :class:`BatchedEncoder`."""

    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        model, processor, _, device = self._parts()
        # One call in one thread: its steps are too short for threads, which would wait for each other.
        inputs = processor(images=[*map(convert_to_rgb, images)], return_tensors="pt").to(device)
        return lambda: _tensor(model.get_image_features(**inputs))

    def _tokens(self) -> tuple[Any, int]:
        source, local = self._files()
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **local)
        config = transformers.AutoConfig.from_pretrained(source, **local)
        return tokenizer, int(config.text_config.max_position_embeddings)

    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        """Prepare texts; SigLIP learned from lower case, and reads its padding, unmasked, up to the limit."""
        model, _, tokenizer, device = self._parts()
        siglip, names = "siglip" in model.config.model_type, ["input_ids", "attention_mask"]
        texts, padding = list(texts), "longest"
        if siglip:  # its second version leaves the case to its caller
            texts, padding, names = [text.lower() for text in texts], "max_length", ["input_ids"]
        max_length = model.config.text_config.max_position_embeddings
        inputs = tokenizer(texts, padding=padding, truncation=True, max_length=max_length, return_tensors="pt")
        tensors = {key: inputs[key].to(device) for key in names if key in inputs}
        return lambda: _tensor(model.get_text_features(**tensors))

    def _load(self) -> tuple[Any, Any, Any, str]:
        source, local = self._files()
        device = pick_device(self._wanted_device)
        model = load_whole(transformers.AutoModel, source, name=self.name, dtype=torch.float32, **local)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **local)
        processor = transformers.AutoImageProcessor.from_pretrained(source, **local)
        # Convolutional towers run up to twice as fast in this layout on a CPU; others do not mind.
        model = model.to(device, memory_format=torch.channels_last).eval()
        return model, processor, tokenizer, device


def _tensor(features: Any) -> Any:
    """The projected embedding: transformers 5 returns an output object, earlier versions the tensor."""
    return getattr(features, "pooler_output", features)


_PERSON = 1  # label of people in COCO


class TorchvisionPersonFinder(HubModel[tuple[Any, str]]):
    """Finds people with a torchvision detector trained on COCO; loads nothing before the first picture.

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
        if self.weights:
            return
        url, saved, _ = self._published()
        if not saved.is_file():
            if self._offline:
                raise missing_weights_error(self.name)
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
            raise missing_weights_error(self.name)
        else:
            model = torchvision.models.get_model(self.architecture, weights=weights)
        return model.to(device).eval(), device

    def _published(self) -> tuple[str, Path, Any]:
        """The address of torchvision's own weights, their file on this machine, and their name."""
        if self.architecture not in torchvision.models.list_models(module=torchvision.models.detection):
            raise ModelUnavailable(f"torchvision knows no detector {self.architecture!r}")
        weights = torchvision.models.get_model_weights(self.architecture).DEFAULT
        return weights.url, Path(torch.hub.get_dir()) / "checkpoints" / Path(weights.url).name, weights
