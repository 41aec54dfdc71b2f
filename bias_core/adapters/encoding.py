"""What encoders of every library share: one loading, bounded batches, half precision where it is quicker."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from bias_core.adapters.residents import Weights
from bias_core.adapters.rows import to_unit_rows
from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from PIL import Image

T = TypeVar("T")
R = TypeVar("R")

Precision = Literal["auto", "single", "half"]
"""Of the sums inside of a model; "auto" is half on a GPU and single elsewhere."""

_THREADS = min(8, os.cpu_count() or 1)


class BatchedEncoder(ABC):
    """Image and text embeddings in batches that memory holds; loads nothing before the first use.

    Parameters
    ----------
    name : identity for caches and reports; changes with the weights.
    source : where the weights come from, for messages.
    batch_size, text_batch_size : inputs at once, at most; halved when memory runs out.
    precision : weights are kept in single precision always.

    Notes
    -----
    Half precision is float16 by autocast. It moves a cosine by about 1e-4 (bfloat16: 5e-4); a batch that
    it cannot hold, giving NaN or infinity, is encoded again in single precision.
    """

    def __init__(
        self,
        name: str,
        source: str,
        *,
        device: str = "auto",
        offline: bool = False,
        unchanged: Callable[[], None] = lambda: None,
        precision: Precision = "auto",
        batch_size: int = 64,
        text_batch_size: int = 512,
    ) -> None:
        self.name = name
        self.source = source
        self.precision = precision
        self._wanted_device = device
        self._offline = offline
        self._image_batches, self._text_batches = Batches(name, batch_size), Batches(name, text_batch_size)
        self._parts: Weights[tuple[Any, Any, Any, str]] = Weights(name, source, self._load, unchanged)

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._parts.value is not None

    def load(self) -> None:
        """Read the weights now; ModelUnavailable where that fails."""
        self._parts()

    def unload(self) -> None:
        """Forget the weights; the next input loads them again."""
        self._parts.drop()

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; ``(0, 0)`` for no picture."""
        return self._encode("image", images, self._image_batches, self._image_features)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length; long texts are cut at the model's limit."""
        return self._encode("text", texts, self._text_batches, self._text_features)

    def _encode(
        self,
        kind: str,
        inputs: Sequence[T],
        batches: Batches,
        prepare: Callable[[Sequence[T]], Callable[[], Any]],
    ) -> np.ndarray:
        if not len(inputs):
            return np.empty((0, 0), dtype=np.float32)
        with self._parts.running():
            rows = list(batches.run(inputs, lambda batch: self._rows(prepare(batch))))
        return to_unit_rows(np.concatenate(rows), kind, self.name)

    def _rows(self, features: Callable[[], Any]) -> np.ndarray:
        """What ``features`` computes, as float32, in the precision that suits the device."""
        import torch

        device = self._parts()[3]
        half = self.precision == "half" or (self.precision == "auto" and device == "cuda")
        with torch.inference_mode():
            with torch.autocast(device, dtype=torch.float16, enabled=half):
                found = features().float()
            if half and not bool(torch.isfinite(found).all()):
                found = features().float()
            rows: np.ndarray = found.cpu().numpy()
            return rows

    @abstractmethod
    def _load(self) -> tuple[Any, Any, Any, str]:
        """Model, what prepares pictures, what prepares texts, and the device."""

    @abstractmethod
    def _image_features(self, images: Sequence[Image.Image]) -> Callable[[], Any]:
        """What embeds these pictures, prepared already."""

    @abstractmethod
    def _text_features(self, texts: Sequence[str]) -> Callable[[], Any]:
        """What embeds these texts, prepared already."""


class Batches:
    """Inputs in batches of at most ``size``, which halves for good when the device's memory runs out."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def run(self, inputs: Sequence[T], work: Callable[[Sequence[T]], R]) -> Iterator[R]:
        """What ``work`` makes of each batch, in order.

        Raises
        ------
        ModelUnavailable
            Memory does not even hold one input.
        """
        import torch

        start = 0
        while start < len(inputs):
            batch = inputs[start : start + self.size]
            try:
                done = work(batch)
            except torch.OutOfMemoryError as error:
                if len(batch) == 1:
                    raise ModelUnavailable(
                        f"{self.name} ran out of memory at a single input; use a smaller model, close what "
                        "else uses the GPU, or set BIAS_DEVICE=cpu"
                    ) from error
                self.size = len(batch) // 2
            else:
                start += len(batch)
                yield done
                continue
            torch.cuda.empty_cache()  # after the except block, which holds on to the failed batch


def as_rgb(image: Image.Image) -> Image.Image:
    """The picture in the mode that models read; itself where it has that mode."""
    return image if image.mode == "RGB" else image.convert("RGB")


def in_threads(work: Callable[[T], R], inputs: Sequence[T]) -> list[R]:
    """``[work(x) for x in inputs]`` by several threads: decoding and resizing let go of Python's lock."""
    if len(inputs) < 2 or _THREADS < 2:
        return [work(one) for one in inputs]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, inputs))


def parts_for_threads(inputs: Sequence[T]) -> list[Sequence[T]]:
    """The inputs cut into as many runs as there are threads; for work that is given lists."""
    size = -(-len(inputs) // _THREADS)
    return [inputs[start : start + size] for start in range(0, len(inputs), max(1, size))]
