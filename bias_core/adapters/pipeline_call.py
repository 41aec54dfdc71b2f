"""What goes into a call of a diffusers pipeline, and what comes out: the same for all families."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bias_core.protocols import StepCallback
    from bias_core.types import ImageRow, ModelInfo

# Some pipelines would draw at another size and cut, or rewrite the prompt where certain packages are
# installed: what is asked for is drawn.
_AS_ASKED = {"use_resolution_binning": False, "clean_caption": False}
_DENOISERS = ("transformer", "unet", "prior")
_FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")


def call_arguments(pipeline: Any, info: ModelInfo, rows: Sequence[ImageRow], **more: Any) -> dict[str, Any]:
    """Those arguments of the call, ``more`` and the ``call`` of the model's options included, that it knows.

    Each picture has a generator of its own, on the CPU: it looks the same on every device.
    """
    import torch

    first, known = rows[0], accepted(pipeline)
    seeds = [row.seed for row in rows]
    if first.negative_prompt and "prior_num_inference_steps" in known:
        seeds *= 2  # its prior draws embeddings of the negative prompts too
    negative = {"negative_prompt": [row.negative_prompt for row in rows]}
    if not first.negative_prompt and known.get("negative_prompt") is not inspect.Parameter.empty:
        negative = {}  # no negative prompt is not always an empty one: SDXL takes zeros
    arguments: dict[str, Any] = {
        "prompt": [row.prompt for row in rows],
        **negative,
        "generator": [torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        "num_inference_steps": first.num_inference_steps,
        "guidance_scale": first.guidance_scale,
        "width": first.width,
        "height": first.height,
        "output_type": "np",
        **_AS_ASKED,
        **info.options.get("call", {}),
        **more,
    }
    return {key: value for key, value in arguments.items() if key in known}


def accepted(pipeline: Any) -> dict[str, Any]:
    """Parameters of the pipeline's call, with their defaults."""
    parameters = inspect.signature(type(pipeline).__call__).parameters
    return {name: parameter.default for name, parameter in parameters.items()}


def denoiser_of(pipeline: Any) -> Any:
    """The network that a step runs."""
    return next(getattr(pipeline, name) for name in _DENOISERS if hasattr(pipeline, name))


@contextmanager
def after_each_step(pipeline: Any, done: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Have ``done`` called after each step, or pass of a denoiser, of the call; yields arguments for it.

    What ``done`` raises ends the call.
    """
    known = accepted(pipeline)

    def on_step_end(*_: Any) -> dict[str, Any]:
        done()
        return {}

    if "callback_on_step_end" in known:
        names = ("callback_on_step_end", "prior_callback_on_step_end")
        yield {name: on_step_end for name in names if name in known}
    elif "callback" in known:
        yield {"callback": on_step_end}
    else:
        with denoiser_of(pipeline).register_forward_hook(lambda *_: done()):
            yield {}


def report_steps(pipeline: Any, arguments: dict[str, Any], on_step: StepCallback) -> Callable[[], None]:
    """Counts steps over all stages of a call and passes the count on."""
    known = accepted(pipeline)
    total = arguments["num_inference_steps"]
    for stage in ("prior_num_inference_steps", "upscaler_num_inference_steps"):
        total += arguments.get(stage, known.get(stage, 0))
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        on_step(min(done, total), total)  # some samplers take a step more than they are asked for

    return count


def blocked_flags(output: Any, n: int) -> list[bool]:
    """Which pictures a safety checker blanked."""
    flags = [getattr(output, name, None) for name in _FLAGS]
    return [any(found[i] for found in flags if found) for i in range(n)]


def to_image(pixels: np.ndarray, model: str) -> Image.Image:
    """A picture from ``(h, w, 3)`` in [0, 1].

    Raises
    ------
    ModelUnavailable
        NaN: half precision is too coarse for this model.
    """
    if not np.isfinite(pixels).all():
        raise ModelUnavailable(f"{model} drew NaN pixels (half precision?); set its dtype option to float32")
    return Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))


def check_not_black(image: Image.Image, model: str) -> None:
    """Refuse a picture without any light that no safety checker is known to have blanked.

    Raises
    ------
    ModelUnavailable
        Every pixel is black.
    """
    if not image.getbbox():
        raise ModelUnavailable(
            f"{model} drew a picture that is black all over: numbers overflowed (set its dtype option to "
            "float32), or a checker of its own blanked it; it is not counted as a picture"
        )
