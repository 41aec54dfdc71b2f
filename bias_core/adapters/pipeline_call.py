"""What goes into a call of a diffusers pipeline, and what comes out: the same for all families."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bias_core.adapters.family_facts import accepted, facts_of, guidance_of
from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bias_core.adapters.family_facts import Guidance
    from bias_core.protocols import StepCallback
    from bias_core.types import ImageRow, ModelInfo

# Some pipelines would draw at another size and cut, have a language model rewrite the prompt, or clean it
# where certain packages are installed: what is asked for is drawn, unless a model's options say otherwise.
_AS_ASKED = {
    "use_resolution_binning": False,
    "clean_caption": False,
    "use_pe": False,
    "enable_prompt_rewrite": False,
    "prompt_upsampling": False,
    "guidance_schedule": None,
}
_FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")
_SCM_STEPS = 2  # the only number of steps that has a step in the middle


def call_arguments(pipeline: Any, info: ModelInfo, rows: Sequence[ImageRow], **more: Any) -> dict[str, Any]:
    """Those arguments of the call, ``more`` and the ``call`` of the model's options included, that it knows.

    Each picture has a generator of its own, on the CPU: it looks the same on every device.
    """
    import torch

    first, known, call = rows[0], accepted(pipeline), info.options.get("call", {})
    seeds = [row.seed for row in rows]
    if first.negative_prompt and "prior_num_inference_steps" in known:
        seeds *= 2  # its prior draws embeddings of the negative prompts too
    guidance = guidance_of(facts_of(pipeline), call)
    arguments: dict[str, Any] = {
        "prompt": [row.prompt for row in rows],
        **_negative_prompts(rows, known, guidance),
        "generator": [torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        "num_inference_steps": first.num_inference_steps,
        guidance.argument or "guidance_scale": first.guidance_scale,
        "width": first.width,
        "height": first.height,
        "output_type": "np",
        **_AS_ASKED,
        **call,
        **more,
    }
    if arguments["num_inference_steps"] != _SCM_STEPS:
        arguments.setdefault("intermediate_timesteps", None)
    return {key: value for key, value in arguments.items() if key in known}


def _negative_prompts(
    rows: Sequence[ImageRow], known: Mapping[str, Any], guidance: Guidance
) -> dict[str, list[str]]:
    """No negative prompt is not always an empty one: SDXL takes zeros.

    What is called true guidance only runs with a negative prompt, and a space is its makers' empty one.
    """
    first = rows[0]
    if guidance.argument == "true_cfg_scale":
        guided = first.guidance_scale > guidance.least
        return {"negative_prompt": [row.negative_prompt or " " for row in rows]} if guided else {}
    if not first.negative_prompt and known.get("negative_prompt") is not inspect.Parameter.empty:
        return {}
    return {"negative_prompt": [row.negative_prompt for row in rows]}


@contextmanager
def guiders_set(pipeline: Any, rows: Sequence[ImageRow]) -> Iterator[None]:
    """Have components that do the guiding guide by the scale of the rows, until the block ends."""
    names = [name for name in ("guider", "ocr_guider") if getattr(pipeline, name, None) is not None]
    before = {name: getattr(pipeline, name) for name in names}
    try:
        for name, guider in before.items():
            setattr(pipeline, name, guider.new(guidance_scale=rows[0].guidance_scale))
        yield
    finally:
        for name, guider in before.items():
            setattr(pipeline, name, guider)


def pictures_of(output: Any) -> Any:
    """What a call drew, ``(n, h, w, channels)``; some classes call it by another name."""
    return output.images if hasattr(output, "images") else output.image


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
        with _scheduler_watched(pipeline.scheduler, done):
            yield {}


@contextmanager
def _scheduler_watched(scheduler: Any, done: Callable[[], None]) -> Iterator[None]:
    """Have ``done`` called after each step of the scheduler."""
    step = scheduler.step

    def watched(*args: Any, **kwargs: Any) -> Any:
        answer = step(*args, **kwargs)
        done()
        return answer

    scheduler.step = watched
    try:
        yield
    finally:
        del scheduler.step


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
    """A picture from ``(h, w, 3)`` in [0, 1]; transparent ones, ``(h, w, 4)``, lie on white.

    Raises
    ------
    ModelUnavailable
        NaN: half precision is too coarse for this model.
    """
    if not np.isfinite(pixels).all():
        raise ModelUnavailable(f"{model} drew NaN pixels (half precision?); set its dtype option to float32")
    picture = Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))
    if picture.mode != "RGBA":
        return picture
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


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
