"""A call of a diffusers pipeline: what goes in, what comes out, and what it says of it."""

import inspect
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import count
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable
from bias_core.models import torch
from bias_core.models.family_facts import accepted, facts_of, guidance_of
from bias_core.models.fit import free_memory
from bias_core.models.weights import TROUBLES
from bias_core.protocols import StepCallback
from bias_core.types import ImageRow, ModelInfo

# Some pipelines would draw at another size and cut, have a language model rewrite the prompt, or clean it
# where certain packages are installed: what is asked for is drawn, unless a model's options say otherwise.
REWRITING = frozenset({"use_pe", "enable_prompt_rewrite", "prompt_upsampling"})
"""What switches a pipeline's own rewriting of prompts."""
_AS_ASKED = {"use_resolution_binning": False, "clean_caption": False, "guidance_schedule": None}
_SCM_STEPS = 2  # the only number of steps that has a step in the middle
_STAGES = ("prior_num_inference_steps", "upscaler_num_inference_steps")
_LONGEST = 300  # letters of an error that are passed on
_MAX_BYTES = 512_000_000


def call_arguments(pipeline: Any, info: ModelInfo, rows: Sequence[ImageRow], **more: Any) -> dict[str, Any]:
    """Those arguments of the call, ``more`` and the ``call`` of the model's options included, that it knows.

    Each picture has a generator of its own, on the CPU: it looks the same on every device. No negative prompt
    is not always an empty one: SDXL takes zeros. What is called true guidance only runs with one, and a space
    is its makers' empty one.
    """
    first, parameters, call = rows[0], accepted(pipeline), info.options.get("call", {})
    if first.rewrite and not REWRITING & set(parameters):
        raise no_rewriting(info.id, type(pipeline).__name__)
    guidance = guidance_of(facts_of(pipeline), call)
    true_guidance = guidance.argument == "true_cfg_scale"
    required = parameters.get("negative_prompt") is inspect.Parameter.empty
    negative = first.guidance_scale > guidance.least if true_guidance else bool(first.negative_prompt or required)
    seeds = [row.seed for row in rows]
    if first.negative_prompt and _STAGES[0] in parameters:
        seeds *= 2  # its prior draws embeddings of the negative prompts too
    arguments: dict[str, Any] = {
        "prompt": [row.prompt for row in rows],
        "generator": [torch.Generator("cpu").manual_seed(seed) for seed in seeds],
        "num_inference_steps": first.num_inference_steps,
        guidance.argument or "guidance_scale": first.guidance_scale,
        "width": first.width,
        "height": first.height,
        "output_type": "np",
        **_AS_ASKED,
        **dict.fromkeys(REWRITING, bool(first.rewrite)),
    }
    if negative:
        empty = " " if true_guidance else ""
        arguments["negative_prompt"] = [row.negative_prompt or empty for row in rows]
    arguments |= {**call, **more}
    if arguments["num_inference_steps"] != _SCM_STEPS:
        arguments.setdefault("intermediate_timesteps", None)
    return {key: value for key, value in arguments.items() if key in parameters}


NO_PICTURES = (
    "its weights are damaged, or too coarse in half precision; download it again, choose another model, or draw in "
    "single precision on the CPU (BIAS_DEVICE=cpu)"
)
"""What to do where a model draws no picture at all."""


def no_rewriting(model: str, family: str) -> InvalidInput:
    """The refusal of a model that is to rewrite prompts and cannot."""
    return InvalidInput(
        f"{model} ({family}) has no rewriting of prompts of its own (rewrite=own); rewrite=fair, or an instruction of "
        "yours, is carried out by a language model"
    )


@contextmanager
def guiders_set(pipeline: Any, rows: Sequence[ImageRow]) -> Iterator[None]:
    """Have components that do the guiding guide by the scale of the rows, until the block ends."""
    with ExitStack() as afterwards:
        for name in ("guider", "ocr_guider"):
            if (guider := getattr(pipeline, name, None)) is not None:
                afterwards.callback(setattr, pipeline, name, guider)
                setattr(pipeline, name, guider.new(guidance_scale=rows[0].guidance_scale))
        yield


@contextmanager
def after_each_step(pipeline: Any, done: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Have ``done`` called after each step, or pass of a denoiser, of the call; yields arguments for it.

    What ``done`` raises ends the call.
    """
    parameters, scheduler = accepted(pipeline), pipeline.scheduler
    newer = ("callback_on_step_end", "prior_callback_on_step_end")
    names = [name for name in (newer if newer[0] in parameters else ("callback",)) if name in parameters]
    if names:

        def on_step_end(*_: Any) -> dict[str, Any]:
            done()
            return {}

        yield dict.fromkeys(names, on_step_end)
        return

    def watched(step: SchedulerStep) -> Any:
        answer = step.answer()
        done()
        return answer

    with step_replaced(scheduler, watched):
        yield {}


@dataclass(frozen=True, kw_only=True)
class SchedulerStep:
    """What a pipeline asks of its scheduler: ``answer`` is the scheduler's own, and moves it one step on."""

    model_output: Any
    timestep: Any
    sample: Any
    answer: Callable[[], Any]


@contextmanager
def step_replaced(scheduler: Any, look: Callable[[SchedulerStep], Any]) -> Iterator[None]:
    """Have ``look`` answer each step of the scheduler, until the block ends."""
    step, own = scheduler.step, vars(scheduler).get("step")  # its own where somebody looks already
    signature = inspect.signature(step)

    @wraps(step)  # pipelines ask which arguments it takes
    def replaced(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        named = {name: given[name] for name in ("model_output", "timestep", "sample")}
        return look(SchedulerStep(**named, answer=lambda: step(*args, **kwargs)))

    scheduler.step = replaced
    try:
        yield
    finally:
        if own is None:
            del scheduler.step
        else:
            scheduler.step = own


@contextmanager
def forward_replaced(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Have a network answer with this, until the block ends."""
    own = vars(module).get("forward")  # set where components take turns on the device
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def pictures_of(output: Any) -> Any:
    """Pixels ``(n, h, w, channels)`` in [0, 1], by the name that the family has for them."""
    return output.images if hasattr(output, "images") else output.image


def report_steps(
    pipeline: Any, arguments: dict[str, Any], on_step: StepCallback | None, *, n_before: int = 0
) -> Callable[[], None]:
    """Counts steps over all stages of a call, and ``n_before`` of another before it, and passes the count on."""
    if on_step is None:
        return lambda: None
    parameters, steps = accepted(pipeline), count(1)
    total = n_before + arguments["num_inference_steps"]
    total += sum(arguments.get(s, parameters.get(s, 0)) for s in _STAGES)
    return lambda: on_step(min(next(steps), total), total)  # some samplers take a step more than they are asked for


@contextmanager
def in_float32(pipeline: Any) -> Iterator[bool]:
    """Compute in float32 until the block ends; False where the weights are so already, or memory has no room for it."""
    networks = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    tensors = {id(tensor): tensor for part in networks for tensor in (*part.parameters(), *part.buffers())}
    half = [(tensor, tensor.dtype) for tensor in tensors.values() if tensor.dtype in (torch.float16, torch.bfloat16)]
    fits = 2 * sum(tensor.nbytes for tensor, _ in half if tensor.device.type == "cpu") < free_memory()
    whole = all(tensor.device.type != "meta" for tensor, _ in half)  # else layers take turns on the device
    try:
        if half and fits and whole:
            for tensor, _ in half:
                tensor.data = tensor.data.float()
        yield bool(half and fits and whole)
    finally:
        for tensor, dtype in half:
            tensor.data = tensor.data.to(dtype)


def to_image(pixels: np.ndarray, model: str) -> Image.Image:
    """A picture from ``(h, w, 3)`` in [0, 1]; transparent ones, ``(h, w, 4)``, lie on white.

    ModelUnavailable is raised for NaN.
    """
    if not np.isfinite(pixels).all():
        raise ModelUnavailable(f"{model} drew NaN pixels; {NO_PICTURES}")
    picture = Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))
    if picture.mode != "RGBA":
        return picture
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


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
    plain = (str, int, float, bool, type(None))
    names = ("guidance_scale", "do_classifier_free_guidance")
    reported = {name: getattr(pipeline, name, None) for name in names}
    reported = {name: value for name, value in reported.items() if isinstance(value, (bool, int, float))}
    common: dict[str, Any] = {
        "asked": {name: value for name, value in arguments.items() if isinstance(value, plain)},
        "reported": reported,
    }
    guidance, scale, notes = guidance_of(facts_of(pipeline), arguments), rows[0].guidance_scale, list(warnings)
    if guidance.argument == "guidance_scale":
        if reported.get("guidance_scale", scale) != scale:
            notes.append(f"guidance {scale:g} was asked for, the pipeline says {reported['guidance_scale']:g}")
        runs = reported.get("do_classifier_free_guidance")
        if runs is not None and math.isfinite(guidance.least) and runs != (scale > guidance.least):
            notes.append(f"at guidance {scale:g} the pipeline says that it was {'' if runs else 'not '}guided")
    if notes:
        common["warnings"] = notes
    revised = getattr(output, "revised_prompts", None) or [None] * len(rows)
    return [common | ({"revised_prompt": text} if text else {}) for text in revised[: len(rows)]]


@contextmanager
def errors_in_a_sentence(pipeline: Any, model: str, row: ImageRow) -> Iterator[None]:
    """Word whatever a pipeline's own code raises as one sentence; running out of memory is left as it is.

    InvalidInput where it refused an argument, ModelUnavailable where it broke.
    """
    try:
        yield
    except (BiasCoreError, torch.OutOfMemoryError):
        raise
    except TROUBLES as error:
        text, refused = " ".join(str(error).split())[:_LONGEST], isinstance(error, ValueError)
        raise (InvalidInput if refused else ModelUnavailable)(
            f"{model} ({type(pipeline).__name__}) cannot draw {row.width}x{row.height} pixels in "
            f"{row.num_inference_steps} steps at guidance {row.guidance_scale:g}: "
            + (text if refused and text else f"{type(error).__name__} {text}".strip())
        ) from error


class TextCache:
    """Answers of a pipeline's text encoders, by text; the longest unused go first.

    It stands in for the forward pass of the encoder during a call, and so below everything a pipeline does
    with its answers. An answer is kept with the shape of the batch it came from: what comes out is, bit for
    bit, what the encoder would have said. They take at most ``max_bytes`` of main memory.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._rows: OrderedDict[Any, tuple[Any, dict[str, Any], int]] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """That they take now."""
        return sum(size for _, _, size in self._rows.values())

    def clear(self) -> None:
        """Forget everything, since the encoders have changed."""
        self._rows.clear()

    @contextmanager
    def of(self, pipeline: Any) -> Iterator[None]:
        """Use it in calls of this pipeline until the end of the block."""
        with ExitStack() as afterwards:
            for name, module in pipeline.components.items():
                if "text_encoder" in name and hasattr(module, "forward"):
                    afterwards.enter_context(forward_replaced(module, self._remembering(name, module.forward)))
            yield

    def _remembering(self, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)  # `generate` asks for its arguments
        def remembered(input_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
            # A key can be made of these, and not of the state that a text grows from, word by word.
            plain = (bool, int, float, str, type(None), list, tuple, torch.Tensor)
            if input_ids is None or args or not all(isinstance(value, plain) for value in kwargs.values()):
                return forward(input_ids, *args, **kwargs)
            return self._answer(name, forward, input_ids, kwargs)

        return remembered

    def _answer(self, name: str, forward: Callable[..., Any], ids: Any, kwargs: dict[str, Any]) -> Any:
        from torch.utils._pytree import tree_leaves, tree_map

        keys = [(name, *key) for key in _keys(ids, kwargs)]
        if all(key in self._rows for key in keys):
            for key in keys:
                self._rows.move_to_end(key)
            kinds, rows, _ = zip(*(self._rows[key] for key in keys), strict=True)
            return kinds[0](**tree_map(lambda *parts: torch.stack(parts).to(ids.device), *rows))
        output = forward(ids, **kwargs)
        if not hasattr(output, "items"):  # an answer of a form that we do not know
            return output
        fields = {  # memories of past tokens are no tensors, and go
            name: value
            for name, value in output.items()
            if isinstance(value, (tuple, torch.Tensor)) and all(hasattr(leaf, "shape") for leaf in tree_leaves(value))
        }
        for i, key in enumerate(keys):
            row = tree_map(lambda tensor, i=i: tensor[i].detach().cpu().clone(), fields)
            self._rows.setdefault(key, (type(output), row, sum(int(leaf.nbytes) for leaf in tree_leaves(row))))
        while self.n_bytes > self.max_bytes and len(self._rows) > 1:
            self._rows.popitem(last=False)
        return output


def _keys(ids: Any, kwargs: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What decides each row of the answer: its tokens, their mask, and the batch they came in.

    A mask that has no row per text counts as a whole.
    """
    rest = tuple(sorted((name, repr(value)) for name, value in kwargs.items() if not hasattr(value, "shape")))
    masks = [value for _, value in sorted(kwargs.items()) if hasattr(value, "shape")]
    keys = []
    for i, row in enumerate(ids):
        of_row = (mask[i : i + 1] if mask.shape[:1] == (len(ids),) else mask for mask in masks)
        keys.append((tuple(ids.shape), rest, str(row.tolist()), *(str(mask.tolist()) for mask in of_row)))
    return keys
