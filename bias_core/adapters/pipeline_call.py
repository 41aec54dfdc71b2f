"""A call of a diffusers pipeline: what goes in, what comes out, and what it says of it."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bias_core.adapters.family_facts import accepted, facts_of, guidance_of
from bias_core.adapters.weights import TROUBLES
from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable

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
_SCALARS = (str, int, float, bool, type(None))
_LONGEST = 300  # letters of an error that are passed on
_MAX_BYTES = 512_000_000


def call_arguments(pipeline: Any, info: ModelInfo, rows: Sequence[ImageRow], **more: Any) -> dict[str, Any]:
    """Those arguments of the call, ``more`` and the ``call`` of the model's options included, that it knows.

    Each picture has a generator of its own, on the CPU: it looks the same on every device.
    """
    import torch

    first, parameters, call = rows[0], accepted(pipeline), info.options.get("call", {})
    seeds = [row.seed for row in rows]
    if first.negative_prompt and "prior_num_inference_steps" in parameters:
        seeds *= 2  # its prior draws embeddings of the negative prompts too
    guidance = guidance_of(facts_of(pipeline), call)
    arguments: dict[str, Any] = {
        "prompt": [row.prompt for row in rows],
        **_negative_prompts(rows, parameters, guidance),
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
    return {key: value for key, value in arguments.items() if key in parameters}


def _negative_prompts(
    rows: Sequence[ImageRow], parameters: Mapping[str, Any], guidance: Guidance
) -> dict[str, list[str]]:
    """No negative prompt is not always an empty one: SDXL takes zeros.

    What is called true guidance only runs with a negative prompt, and a space is its makers' empty one.
    """
    first = rows[0]
    if guidance.argument == "true_cfg_scale":
        guided = first.guidance_scale > guidance.least
        return {"negative_prompt": [row.negative_prompt or " " for row in rows]} if guided else {}
    if not first.negative_prompt and parameters.get("negative_prompt") is not inspect.Parameter.empty:
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
    parameters = accepted(pipeline)

    def on_step_end(*_: Any) -> dict[str, Any]:
        done()
        return {}

    if "callback_on_step_end" in parameters:
        names = ("callback_on_step_end", "prior_callback_on_step_end")
        yield {name: on_step_end for name in names if name in parameters}
    elif "callback" in parameters:
        yield {"callback": on_step_end}
    else:
        with _scheduler_watched(pipeline.scheduler, done):
            yield {}


@contextmanager
def _scheduler_watched(scheduler: Any, done: Callable[[], None]) -> Iterator[None]:
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
    parameters = accepted(pipeline)
    total = arguments["num_inference_steps"]
    for stage in ("prior_num_inference_steps", "upscaler_num_inference_steps"):
        total += arguments.get(stage, parameters.get(stage, 0))
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        on_step(min(done, total), total)  # some samplers take a step more than they are asked for

    return count


def blocked_flags(output: Any, n: int) -> list[bool]:
    """Which pictures a safety checker blanked."""
    flags = [getattr(output, name, None) for name in _FLAGS]
    return [any(flag[i] for flag in flags if flag) for i in range(n)]


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


@contextmanager
def warnings_of_diffusers() -> Iterator[list[str]]:
    """What diffusers warns of in this thread until the block ends, each once."""
    logger, texts, thread = logging.getLogger("diffusers"), list[str](), threading.get_ident()

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.thread == thread and (text := record.getMessage().strip()) not in texts:
                texts.append(text)

    handler = Collector(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)


def records(
    pipeline: Any, arguments: Mapping[str, Any], output: Any, warnings: Sequence[str], rows: Sequence[ImageRow]
) -> list[dict[str, Any]]:
    """For each picture of a call: what was asked of the pipeline, and what it says it did.

    Returns
    -------
    ``asked`` are the plain arguments of the call, ``reported`` the guidance that the pipeline says it ran
    with, ``revised_prompt`` the text that was drawn in place of the prompt, ``warnings`` those of diffusers
    and a sentence where both disagree; what is not known is left out.
    """
    settings = {name: value for name, value in arguments.items() if isinstance(value, _SCALARS)}
    names = ("guidance_scale", "do_classifier_free_guidance")
    reported = {name: getattr(pipeline, name) for name in names if hasattr(pipeline, name)}
    reported = {name: value for name, value in reported.items() if isinstance(value, (bool, int, float))}
    common: dict[str, Any] = {"asked": settings, "reported": reported}
    if notes := [*warnings, *_disagreement(pipeline, arguments, reported, rows[0])]:
        common["warnings"] = notes
    revised = getattr(output, "revised_prompts", None) or [None] * len(rows)
    return [common | ({"revised_prompt": text} if text else {}) for text in revised[: len(rows)]]


def _disagreement(pipeline: Any, arguments: Mapping[str, Any], reported: Mapping[str, Any], row: ImageRow) -> list[str]:
    guidance = guidance_of(facts_of(pipeline), arguments)
    if guidance.argument != "guidance_scale":
        return []
    scale, notes = row.guidance_scale, []
    if reported.get("guidance_scale", scale) != scale:
        notes.append(f"guidance {scale:g} was asked for, the pipeline says {reported['guidance_scale']:g}")
    runs = reported.get("do_classifier_free_guidance")
    if runs is not None and math.isfinite(guidance.least) and runs != (scale > guidance.least):
        notes.append(f"at guidance {scale:g} the pipeline says that it was {'' if runs else 'not '}guided")
    return notes


@contextmanager
def errors_in_a_sentence(pipeline: Any, model: str, row: ImageRow) -> Iterator[None]:
    """Word whatever a pipeline's own code raises as one sentence; running out of memory is left as it is.

    Raises
    ------
    InvalidInput
        It refused an argument.
    ModelUnavailable
        It broke.
    """
    import torch

    try:
        yield
    except (BiasCoreError, torch.OutOfMemoryError):
        raise
    except TROUBLES as error:
        kind = InvalidInput if isinstance(error, ValueError) else ModelUnavailable
        raise kind(
            f"{model} ({type(pipeline).__name__}) cannot draw {row.width}x{row.height} pixels in "
            f"{row.num_inference_steps} steps at guidance {row.guidance_scale:g}: {_first_line(error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:_LONGEST]
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__} {text}".strip()


class TextCache:
    """Answers of a pipeline's text encoders, by text; the longest unused go first.

    It stands in for the forward pass of the encoder during a call, and so below everything a pipeline does
    with its answers. An answer is kept with the shape of the batch it came from: what comes out is, bit for
    bit, what the encoder would have said.

    Parameters
    ----------
    max_bytes : of main memory that the answers may take.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._rows: OrderedDict[Any, Any] = OrderedDict()

    def clear(self) -> None:
        """Forget everything, since the encoders have changed."""
        self._rows.clear()
        self.n_bytes = 0

    @contextmanager
    def of(self, pipeline: Any) -> Iterator[None]:
        """Use it in calls of this pipeline until the end of the block."""
        with ExitStack() as stack:
            for name, module in pipeline.components.items():
                if "text_encoder" in name and hasattr(module, "forward"):
                    stack.enter_context(self._standing_in(name, module))
            yield

    @contextmanager
    def _standing_in(self, name: str, module: Any) -> Iterator[None]:
        own = vars(module).get("forward")  # set where components take turns on the device
        forward = module.forward

        @wraps(forward)  # `generate` asks for its arguments
        def remembered(input_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
            if input_ids is None or args or not all(map(_is_plain, kwargs.values())):
                return forward(input_ids, *args, **kwargs)
            return self._answer(name, forward, input_ids, kwargs)

        module.forward = remembered
        try:
            yield
        finally:
            if own is None:
                del module.forward
            else:
                module.forward = own

    def _answer(self, name: str, forward: Callable[..., Any], ids: Any, kwargs: dict[str, Any]) -> Any:
        keys = [(name, *key) for key in _keys(ids, kwargs)]
        if not all(key in self._rows for key in keys):
            output = forward(ids, **kwargs)
            kind, fields = _tensors_of(output)
            if kind is None:  # an answer of a form that we do not know
                return output
            for i, key in enumerate(keys):
                self._keep(key, (kind, _each(lambda tensor, i=i: tensor[i].detach().cpu().clone(), fields)))
            return output
        import torch

        for key in keys:
            self._rows.move_to_end(key)
        kinds, rows = zip(*(self._rows[key] for key in keys), strict=True)
        return kinds[0](**_each(lambda *parts: torch.stack(parts).to(ids.device), *rows))

    def _keep(self, key: Any, row: tuple[Any, dict[str, Any]]) -> None:
        if key in self._rows:
            return
        self._rows[key] = row
        self.n_bytes += sum(int(tensor.nbytes) for tensor in _leaves(row[1]))
        while self.n_bytes > self.max_bytes and len(self._rows) > 1:
            _, (_, dropped) = self._rows.popitem(last=False)
            self.n_bytes -= sum(int(tensor.nbytes) for tensor in _leaves(dropped))


def _keys(ids: Any, kwargs: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What decides each row of the answer: its tokens, their mask, and the batch they came in."""
    rest = tuple(sorted((name, repr(value)) for name, value in kwargs.items() if not hasattr(value, "shape")))
    masks = [value for _, value in sorted(kwargs.items()) if hasattr(value, "shape")]
    return [
        (tuple(ids.shape), rest, str(row.tolist()), *(str(_of_row(mask, i, len(ids))) for mask in masks))
        for i, row in enumerate(ids)
    ]


def _of_row(value: Any, i: int, n: int) -> Any:
    """What a tensor says of one text; all of it where it has no row per text."""
    return (value[i : i + 1] if value.shape[:1] == (n,) else value).tolist()


def _is_plain(value: Any) -> bool:
    """Whether a key can be made of it: not so of the state that a text grows from, word by word."""
    plain = isinstance(value, (bool, int, float, str, type(None), list, tuple))
    return plain or (hasattr(value, "shape") and hasattr(value, "tolist"))


def _tensors_of(output: Any) -> tuple[Any, dict[str, Any]]:
    """The class of an answer, and those of its fields that are tensors; memories of past tokens go."""
    if not hasattr(output, "items"):
        return None, {}
    plain = {name: value for name, value in output.items() if not isinstance(value, dict)}
    return type(output), {n: v for n, v in plain.items() if all(hasattr(x, "shape") for x in _leaves(v))}


def _leaves(value: Any) -> Iterator[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else None
    if parts is None:
        yield value
    for part in parts or ():
        yield from _leaves(part)


def _each(work: Callable[..., Any], *values: Any) -> Any:
    """``work`` of the tensors that stand at the same place of all values, in the form of the first."""
    first = values[0]
    if isinstance(first, dict):
        return {name: _each(work, *(value[name] for value in values)) for name in first}
    if isinstance(first, tuple):
        return tuple(_each(work, *parts) for parts in zip(*values, strict=True))
    return work(*values)
