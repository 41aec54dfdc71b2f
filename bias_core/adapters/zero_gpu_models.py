"""The roles of models whose work is done on a GPU that a Space borrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bias_core.adapters.devices import loading
from bias_core.adapters.loras import hub_folder
from bias_core.adapters.zero_gpu import Borrower, Pace
from bias_core.errors import Interrupted
from bias_core.model_catalogue import is_hub_id, split_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from PIL import Image

    from bias_core.protocols import StepCallback
    from bias_core.types import Attribute, GeneratedImage, ImageRow, ModelInfo, PromptLimit, Step

_SECONDS_A_CALL = 60.0  # that a call of many pictures aims at
_MOST_ROWS = 32
_INPUTS_A_SECOND = 20.0  # a first guess for readers, until one was timed


def fetch_pipeline(info: ModelInfo) -> None:
    """Download what a pinned entry of the catalogue takes from a hub, and load nothing of it.

    Raises
    ------
    ModelUnavailable
        Missing, gated, without safetensors, or there is no network.
    """
    from diffusers import DiffusionPipeline

    parts = [(str(info.options["path"]), info.revision)]
    parts += [split_revision(str(info.options[key])) for key in ("prior", "upscaler") if key in info.options]
    for repo, revision in parts:
        if is_hub_id(repo):
            with loading(info.id, repo):
                DiffusionPipeline.download(
                    repo, revision=revision or None, variant=info.options.get("variant"), use_safetensors=True
                )
    repo, revision = split_revision(str(info.options.get("lora", "")))
    if is_hub_id(repo):
        with loading(info.id, repo):
            hub_folder(repo, revision)


class ZeroGpuTextToImage(Borrower):
    """A generator whose pictures are drawn over there, many in a call.

    Parameters
    ----------
    info : of the model; its size gives the first guess of the time that a picture takes.
    """

    def __init__(
        self, key: str, build: Callable[[], Any], local: Any, info: ModelInfo, fetch: Callable[[], None]
    ) -> None:
        # On the GPU that is lent, SD 1.5 (5 GB) takes about 0.05 s a step and picture, FLUX (34 GB) 0.3 s.
        pixels = info.width * info.height / 512**2
        guess = 0.02 + 0.01 * (info.download_gb or 10.0) * min(1.0, pixels)
        super().__init__(key, build, local, Pace(load=5 + info.download_gb / 2, unit=guess), fetch)
        fit = int(_SECONDS_A_CALL / (guess * max(1, info.default_steps)))
        inner = int(local.batch_size)
        # A whole number of the model's own batches, and the same for a whole run.
        self.batch_size = max(1, min(fit, _MOST_ROWS) // inner) * inner

    def generate(
        self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None
    ) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order; where time is short, in several calls of fewer rows.

        Raises
        ------
        Interrupted
            The visitor's time is used up; pictures yielded before are whole.
        """
        left, size = list(rows), len(rows)
        while left:
            batch, n_drawn = left[:size], 0
            units = sum(max(1, row.num_inference_steps) for row in batch)
            try:
                for image in self.call("generate", batch, units=units, on_step=on_step, steps=True):
                    n_drawn += 1
                    yield image
            except Interrupted:
                size = len(batch) // 2
                if n_drawn or size < int(self.local.batch_size):
                    raise  # fewer rows would not do either
            left = left[n_drawn:]

    def trace(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        *,
        guided: bool = False,
        predicted: bool = True,
        on_step: StepCallback | None = None,
    ) -> Iterator[Step]:
        """Yield every denoising step, as the model's own ``trace`` does."""
        passes = (1 + 2 * len(attributes)) * (2 if guided else 1) + (1 if predicted else 0)
        units = passes * max(1, row.num_inference_steps)
        yield from self.call(
            "trace",
            row,
            tuple(attributes),
            units=units,
            on_step=on_step,
            steps=True,
            guided=guided,
            predicted=predicted,
        )

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """What the model itself says of the settings of a row."""
        check = getattr(self.local, "check_settings", None)
        return check(row) if check else ()

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """What the model itself draws where this is asked for."""
        size_of = getattr(self.local, "drawn_size", None)
        return size_of(width, height) if size_of else (width, height)

    def check_traceable(self) -> None:
        """Refuse what the model itself refuses to trace."""
        if check := getattr(self.local, "check_traceable", None):
            check()

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """What each text encoder takes of each prompt; empty where that is not known."""
        limits_of = getattr(self.local, "prompt_limits", None)
        return limits_of(prompts) if limits_of else ()


class _ZeroGpuReader(Borrower):
    def __init__(self, key: str, build: Callable[[], Any], local: Any, download_gb: float) -> None:
        super().__init__(
            key, build, local, Pace(load=4 + download_gb, unit=1 / _INPUTS_A_SECOND), self._download
        )

    def _download(self) -> None:
        """Load on this machine's CPU: whatever is missing, or cannot be read, is said here."""
        self.local.load()
        self.local.unload()


class ZeroGpuEncoder(_ZeroGpuReader):
    """An encoder that runs over there."""

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        return self.one("encode_images", list(images), units=len(images))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Float32 array ``(n, d)``, rows of unit length."""
        return self.one("encode_texts", list(texts), units=len(texts))


class ZeroGpuCaptioner(_ZeroGpuReader):
    """A captioner that runs over there."""

    def caption(self, images: Sequence[Image.Image]) -> list[str]:
        """One caption per picture."""
        return self.one("caption", list(images), units=len(images))


class ZeroGpuAnswerer(_ZeroGpuReader):
    """An answerer of questions that runs over there."""

    def answer(self, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """One answer per (picture, question) pair."""
        return self.one("answer", list(images), list(questions), units=len(images))


class ZeroGpuLanguageModel(_ZeroGpuReader):
    """A language model that runs over there."""

    def propose(self, prefixes: Sequence[str], n: int) -> list[list[str]]:
        """For each prefix, at most ``n`` texts that continue it by one token, likeliest first."""
        return self.one("propose", list(prefixes), n, units=len(prefixes))

    def complete(self, prompt: str, max_new_tokens: int) -> str:
        """The likeliest answer to ``prompt``, without the prompt."""
        return self.one("complete", prompt, max_new_tokens, units=max_new_tokens)


READERS: Mapping[str, type[_ZeroGpuReader]] = {
    "encoder": ZeroGpuEncoder,
    "captioner": ZeroGpuCaptioner,
    "answerer": ZeroGpuAnswerer,
    "language_model": ZeroGpuLanguageModel,
}
"""By role. Finders of people, which look at one picture at a time, stay on the CPU."""
