"""Calls of a diffusers pipeline: arguments, results, and each of the steps.

The second part looks into a generation through its scheduler, whose ``step`` every family of pipelines calls. A trace
is three kinds of calls of one pipeline. The first draws the row as usual, and keeps each step: the latent,
the scheduler's input, and its next latent. The second draws the attributes' sentences along the same path:
``step`` answers with the kept latents, ignoring the prediction. With guidance off a pipeline predicts from the text
alone, so these predictions are the conditional velocities, in the order, sign and packing of the scheduler. The third
passes a step's predicted latent to the end of the pipeline's own code, which makes a picture of it.

A generation that changes its text is two calls: first the first prompt's steps,
then the later prompt, with the denoiser's answers of those steps repeated.
"""

import inspect
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import count
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable
from bias_core.models import diffusers, torch
from bias_core.models.family_facts import DECODERS, DENOISERS, PipelineFacts, accepted, find_guidance, pipeline_facts
from bias_core.models.model_sources import free_memory
from bias_core.models.weights import TROUBLES
from bias_core.protocols import StepCallback
from bias_core.types import ImageRow, ModelInfo, VelocitySpace

# Some pipelines would draw at another size and cut, have a language model rewrite the prompt, or clean it
# if certain packages are installed: this is off, unless a model's options turn it on.
REWRITING = frozenset({"use_pe", "enable_prompt_rewrite", "prompt_upsampling"})
"""Arguments that switch a pipeline's own rewriting of prompts."""
_AS_ASKED = {"use_resolution_binning": False, "clean_caption": False, "guidance_schedule": None}
_SCM_STEPS = 2  # the smallest number of steps with a middle one
_STAGES = ("prior_num_inference_steps", "upscaler_num_inference_steps")
_LONGEST = 300  # letters of an error in a message
_MAX_BYTES = 512_000_000  # of cached encodings of texts


def call_arguments(pipeline: Any, info: ModelInfo, rows: Sequence[ImageRow], **extra_arguments: Any) -> dict[str, Any]:
    """Arguments that the call accepts, with ``extra_arguments`` and the ``call`` of the model's options.

    Each picture has its own generator on the CPU, so that it looks the same on every device. No negative prompt
    is not always an empty one: SDXL takes zeros. "True guidance" needs one, and a space
    is its makers' choice for an empty one.
    """
    first, parameters, call = rows[0], accepted(pipeline), info.options.get("call", {})
    if first.rewrite and not REWRITING & set(parameters):
        raise no_rewriting(info.id, type(pipeline).__name__)
    guidance = find_guidance(pipeline_facts(pipeline), call)
    true_guidance = guidance.argument == "true_cfg_scale"
    required = parameters.get("negative_prompt") is inspect.Parameter.empty
    negative = first.guidance_scale > guidance.threshold if true_guidance else bool(first.negative_prompt or required)
    seeds = [row.seed for row in rows]
    if first.negative_prompt and _STAGES[0] in parameters:
        seeds *= 2  # its prior also embeds the negative prompts
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
    arguments |= {**call, **extra_arguments}
    if arguments["num_inference_steps"] != _SCM_STEPS:
        arguments.setdefault("intermediate_timesteps", None)
    return {key: value for key, value in arguments.items() if key in parameters}


NO_PICTURES = (
    "its weights are damaged, or too coarse in half precision; download it again, choose another model, or draw in "
    "single precision on the CPU (BIAS_DEVICE=cpu)"
)
"""Advice for a model that draws no pictures."""


def no_rewriting(model: str, family: str) -> InvalidInput:
    """The error for a model that cannot rewrite prompts."""
    return InvalidInput(
        f"{model} ({family}) cannot rewrite prompts itself (rewrite=own); for rewrite=fair, or an instruction of "
        "yours, a language model does it"
    )


@contextmanager
def guiders_set(pipeline: Any, rows: Sequence[ImageRow]) -> Iterator[None]:
    """Set the rows' scale in guider components until the block ends."""
    with ExitStack() as afterwards:
        for name in ("guider", "ocr_guider"):
            if (guider := getattr(pipeline, name, None)) is not None:
                afterwards.callback(setattr, pipeline, name, guider)
                setattr(pipeline, name, guider.new(guidance_scale=rows[0].guidance_scale))
        yield


@contextmanager
def after_each_step(pipeline: Any, done: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Call ``done`` after each step, or pass of a denoiser; its errors end the call. Yields arguments for the call."""
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
    """A pipeline's request to its scheduler; ``answer`` calls the scheduler, which moves one step on."""

    model_output: Any
    timestep: Any
    sample: Any
    answer: Callable[[], Any]


@contextmanager
def step_replaced(scheduler: Any, look: Callable[[SchedulerStep], Any]) -> Iterator[None]:
    """Let ``look`` answer each step of the scheduler until the block ends."""
    step, own_step = scheduler.step, vars(scheduler).get("step")  # the instance's, if it is replaced already
    signature = inspect.signature(step)

    @wraps(step)  # pipelines inspect its arguments
    def replaced(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        named = {name: given[name] for name in ("model_output", "timestep", "sample")}
        return look(SchedulerStep(**named, answer=lambda: step(*args, **kwargs)))

    scheduler.step = replaced
    try:
        yield
    finally:
        if own_step is None:
            del scheduler.step
        else:
            scheduler.step = own_step


@contextmanager
def forward_replaced(module: Any, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace a network's forward pass until the block ends."""
    own_forward = vars(module).get("forward")  # set if components take turns on the device
    module.forward = forward
    try:
        yield
    finally:
        if own_forward is None:
            del module.forward
        else:
            module.forward = own_forward


def output_pixels(output: Any) -> Any:
    """Pixels ``(n, h, w, channels)`` in [0, 1], under the family's name for them."""
    return output.images if hasattr(output, "images") else output.image


def report_steps(
    pipeline: Any, arguments: dict[str, Any], on_step: StepCallback | None, *, n_before: int = 0
) -> Callable[[], None]:
    """Count steps over all stages of a call, after ``n_before`` of an earlier call, and report the count."""
    if on_step is None:
        return lambda: None
    parameters, steps = accepted(pipeline), count(1)
    total = n_before + arguments["num_inference_steps"]
    total += sum(arguments.get(s, parameters.get(s, 0)) for s in _STAGES)
    return lambda: on_step(min(next(steps), total), total)  # some samplers take one step more than requested


@contextmanager
def use_float32(pipeline: Any) -> Iterator[bool]:
    """Compute in float32 until the block ends; False if the weights are in it already, or do not fit."""
    networks = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    tensors = {id(tensor): tensor for part in networks for tensor in (*part.parameters(), *part.buffers())}
    half = [(tensor, tensor.dtype) for tensor in tensors.values() if tensor.dtype in (torch.float16, torch.bfloat16)]
    fits = 2 * sum(tensor.nbytes for tensor, _ in half if tensor.device.type == "cpu") < free_memory()
    whole = all(tensor.device.type != "meta" for tensor, _ in half)  # otherwise layers take turns on the device
    try:
        if half and fits and whole:
            for tensor, _ in half:
                tensor.data = tensor.data.float()
        yield bool(half and fits and whole)
    finally:
        for tensor, dtype in half:
            tensor.data = tensor.data.to(dtype)


def to_image(pixels: np.ndarray, model: str) -> Image.Image:
    """Make a picture from ``(h, w, 3)`` in [0, 1], or ``(h, w, 4)`` on white; ModelUnavailable for NaN."""
    if not np.isfinite(pixels).all():
        raise ModelUnavailable(f"{model} drew NaN pixels; {NO_PICTURES}")
    picture = Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))
    if picture.mode != "RGBA":
        return picture
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


@contextmanager
def warnings_of_diffusers() -> Iterator[list[str]]:
    """Collect this thread's distinct warnings of diffusers until the block ends."""
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
    """For each picture of a call, the pipeline's arguments and its own report.

    Returns
    -------
    ``asked`` are the plain arguments of the call, ``reported`` the guidance that the pipeline says it ran
    with, ``revised_prompt`` the text drawn instead of the prompt, ``warnings`` those of diffusers
    and a sentence if both disagree; unknown facts are left out.
    """
    plain = (str, int, float, bool, type(None))
    names = ("guidance_scale", "do_classifier_free_guidance")
    reported = {name: getattr(pipeline, name, None) for name in names}
    reported = {name: value for name, value in reported.items() if isinstance(value, (bool, int, float))}
    common: dict[str, Any] = {
        "asked": {name: value for name, value in arguments.items() if isinstance(value, plain)},
        "reported": reported,
    }
    guidance, scale, notes = find_guidance(pipeline_facts(pipeline), arguments), rows[0].guidance_scale, list(warnings)
    if guidance.argument == "guidance_scale":
        if reported.get("guidance_scale", scale) != scale:
            notes.append(f"guidance {scale:g} was requested, and the pipeline reports {reported['guidance_scale']:g}")
        runs = reported.get("do_classifier_free_guidance")
        if runs is not None and math.isfinite(guidance.threshold) and runs != (scale > guidance.threshold):
            notes.append(f"at guidance {scale:g} the pipeline says that it was {'' if runs else 'not '}guided")
    if notes:
        common["warnings"] = notes
    revised = getattr(output, "revised_prompts", None) or [None] * len(rows)
    return [common | ({"revised_prompt": text} if text else {}) for text in revised[: len(rows)]]


_FEWEST_OF_PNDM = 4  # steps


@contextmanager
def errors_in_a_sentence(pipeline: Any, model: str, row: ImageRow) -> Iterator[None]:
    """Turn errors of a pipeline's code into one sentence; out-of-memory errors pass unchanged.

    InvalidInput if it refused an argument, ModelUnavailable if it failed.
    """
    try:
        yield
    except (BiasCoreError, torch.OutOfMemoryError):
        raise
    except TROUBLES as error:
        text, refused = " ".join(str(error).split())[:_LONGEST], isinstance(error, ValueError)
        scheduler = type(getattr(pipeline, "scheduler", None)).__name__
        if scheduler == "PNDMScheduler" and row.num_inference_steps < _FEWEST_OF_PNDM:  # its first steps use four
            text, refused = f"the sampler pndm needs at least {_FEWEST_OF_PNDM} steps", True
        raise (InvalidInput if refused else ModelUnavailable)(
            f"{model} ({type(pipeline).__name__}) cannot draw {row.width}x{row.height} pixels in "
            f"{row.num_inference_steps} steps at guidance {row.guidance_scale:g}: "
            + (text if refused and text else f"{type(error).__name__} {text}".strip())
        ) from error


class TextCache:
    """Cache of a pipeline's text encoders' outputs by text; evicts the longest unused.

    It replaces the encoder's forward pass during a call, below everything that a pipeline does
    with the output. An output is cached with its batch shape, so that it equals, bit for
    bit, the encoder's. The cache takes at most ``max_bytes`` of main memory.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._in_use = threading.Lock()  # calls at once encode one after the other
        self._rows: OrderedDict[Any, tuple[Any, dict[str, Any], int]] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        return sum(size for _, _, size in self._rows.values())

    def clear(self) -> None:
        """Empty the cache, since the encoders have changed."""
        self._rows.clear()

    @contextmanager
    def use_cache(self, pipeline: Any) -> Iterator[None]:
        """Use the cache in calls of this pipeline until the block ends."""
        with ExitStack() as afterwards:
            for name, module in pipeline.components.items():
                if "text_encoder" in name and hasattr(module, "forward"):
                    afterwards.enter_context(forward_replaced(module, self._remembering(name, module.forward)))
            yield

    def _remembering(self, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(forward)  # `generate` inspects its arguments
        def remembered(input_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
            # Only these give a key; the state of a text that grows word by word does not.
            plain = (bool, int, float, str, type(None), list, tuple, torch.Tensor)
            if input_ids is None or args or not all(isinstance(value, plain) for value in kwargs.values()):
                return forward(input_ids, *args, **kwargs)
            with self._in_use:
                return self._answer(name, forward, input_ids, kwargs)

        return remembered

    def _answer(self, name: str, forward: Callable[..., Any], ids: Any, kwargs: dict[str, Any]) -> Any:
        from torch.utils._pytree import tree_leaves, tree_map

        keys = [(name, *key) for key in _list_row_keys(ids, kwargs)]
        if all(key in self._rows for key in keys):
            for key in keys:
                self._rows.move_to_end(key)
            kinds, rows, _ = zip(*(self._rows[key] for key in keys), strict=True)
            return kinds[0](**_stack_tensors(rows, ids.device))
        output = forward(ids, **kwargs)
        if not hasattr(output, "items"):  # an output in an unknown format
            return output
        fields = {  # caches of past tokens are no tensors, and are dropped
            name: value
            for name, value in output.items()
            if isinstance(value, (tuple, torch.Tensor)) and all(hasattr(leaf, "shape") for leaf in tree_leaves(value))
        }
        copied = tree_map(lambda tensor: tensor.detach().cpu(), fields)
        for i, key in enumerate(keys):
            row = tree_map(lambda tensor, i=i: tensor[i].clone(), copied)
            self._rows.setdefault(key, (type(output), row, sum(int(leaf.nbytes) for leaf in tree_leaves(row))))
        while self.n_bytes > self.max_bytes and len(self._rows) > 1:
            self._rows.popitem(last=False)
        return output


def _stack_tensors(rows: Sequence[Any], device: Any) -> Any:
    """Stack trees of tensors on the device, with one copy for each type: the GPU stands still during each copy."""
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, trees = zip(*map(tree_flatten, rows), strict=True)
    parts, stacked = list(zip(*leaves, strict=True)), dict[int, Any]()
    for dtype in {tensor.dtype for tensor in leaves[0]}:
        chosen = [i for i, tensor in enumerate(leaves[0]) if tensor.dtype == dtype]
        flat = torch.cat([tensor.flatten() for i in chosen for tensor in parts[i]]).to(device)
        pieces = flat.split([len(rows) * leaves[0][i].numel() for i in chosen])
        stacked |= {i: piece.view(len(rows), *leaves[0][i].shape) for i, piece in zip(chosen, pieces, strict=True)}
    return tree_unflatten([stacked[i] for i in range(len(parts))], trees[0])


def _list_row_keys(ids: Any, kwargs: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The key of each row of the output: its tokens, their mask, and the batch shape.

    A mask without a row per text counts as a whole.
    """
    plain_arguments = tuple(
        sorted((name, repr(value)) for name, value in kwargs.items() if not hasattr(value, "shape"))
    )
    masks = [value.tolist() for _, value in sorted(kwargs.items()) if hasattr(value, "shape")]
    keys = []
    for i, row in enumerate(ids.tolist()):
        of_row = (mask[i] if isinstance(mask, list) and len(mask) == len(ids) else mask for mask in masks)
        keys.append((tuple(ids.shape), plain_arguments, str(row), *map(str, of_row)))
    return keys


Call = Callable[..., Any]  # one call of the pipeline, with these further arguments; gives its output
_Answer = tuple[list[Any], Any]  # a network's output, after the shapes of its input

_SPACES: dict[str, VelocitySpace] = {
    "flow_prediction": "flow",
    "epsilon": "epsilon",
    "v_prediction": "v_prediction",
    "trigflow": "v_prediction",  # cos(t) x_t - sin(t) v: the noise is sin(t)
}
_SEVERAL_STAGES = "it draws in several stages, each with its own sampler and velocities"
_UNTRACEABLE = {
    "IFPipeline": _SEVERAL_STAGES,
    "DeepFloydPipeline": _SEVERAL_STAGES,
    "GlmImagePipeline": "its denoiser follows random tokens that a language model makes from the text",
}


def velocity_space(facts: PipelineFacts, model: str) -> VelocitySpace:
    """The velocities that a pipeline gives its scheduler; InvalidInput if they are not comparable across prompts."""
    name = str(facts.scheduler.get("_class_name"))
    scheduler = getattr(diffusers, name, None)
    if reason := _find_refusal(facts):
        raise InvalidInput(f"{model}: this family ({facts.name}) has no velocity to trace: {reason}")
    parameters = inspect.signature(scheduler.__init__).parameters if scheduler is not None else {}
    prediction = "flow_prediction" if name.startswith("FlowMatch") else "unknown"
    if "prediction_type" in parameters:
        prediction = str(facts.scheduler.get("prediction_type", parameters["prediction_type"].default))
    # EDM's schedulers scale the prediction; that of trigonometric flow only shares the name.
    rescaled = "sigma_data" in parameters and prediction != "trigflow"
    if prediction not in _SPACES or rescaled or getattr(scheduler, "order", 1) != 1:
        raise InvalidInput(
            f"{model}: its scheduler ({name}, {prediction}) has no velocity to trace: it takes several "
            "passes a step, or scales the prediction itself; use Euler, DDIM or DPM++ multistep"
        )
    return _SPACES[prediction]


def _find_refusal(facts: PipelineFacts) -> str:
    if "prompt" not in facts.call:
        return "it does not draw from a text"
    samplers = [name for name in facts.parts if name.endswith("scheduler")]
    return _UNTRACEABLE.get(facts.name, _SEVERAL_STAGES if len(samplers) > 1 else "")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One step of a generation; tensors are a batch of one, in the scheduler's shape, on the pipeline's device."""

    sigma: float  # standard deviation of the noise in ``xt``, in [0, 1]
    xt: Any  # the network's input latent, scaled as in :class:`bias_core.types.Step`
    velocity: Any
    following: Any  # the scheduler's next latent
    answer: Any  # of the scheduler, with that latent
    changes: Mapping[str, Any]  # attributes that the scheduler changed in this step


@dataclass
class Tracer:
    """Follows one generation of a pipeline.

    Nothing is copied to the CPU, or computed by the scheduler again, between two passes of the denoiser: the GPU would
    wait for it at every step.
    """

    pipeline: Any
    space: VelocitySpace  # of :func:`velocity_space`
    after_step: Callable[[], None] = lambda: None  # called after each step of each call, except decoding calls
    _answers: dict[str, list[_Answer]] = field(default_factory=dict, init=False)  # of the path's first step

    def path(self, call: Call) -> list[Moment]:
        """Draw one picture and return every step."""
        moments: list[Moment] = []
        timesteps: list[Any] = []
        scheduler = self.pipeline.scheduler

        def look(step: SchedulerStep) -> Any:
            xt, velocity = self.network_input(step).clone(), self.velocity(step.model_output)
            before = dict(vars(scheduler))
            answer = step.answer()
            changes = {key: value for key, value in vars(scheduler).items() if value is not before.get(key)}
            following = get_next_latents(answer).clone()
            values = {"following": following, "answer": _with_sample(answer, following), "changes": changes}
            moments.append(Moment(sigma=math.nan, xt=xt, velocity=velocity, **values))
            timesteps.append(step.timestep)
            self.after_step()
            return answer

        with step_replaced(scheduler, look), _answers_noted(self.pipeline, self._answers, lambda: not moments):
            call(output_type="latent")
        return [replace(moment, sigma=self.noise(i, timesteps[i])) for i, moment in enumerate(moments)]

    def velocities(self, call: Call, path: list[Moment]) -> list[Any]:
        """Yield for each step of a path the velocities towards the texts of a call, ``(n_texts, ...)``."""
        velocities: list[Any] = []

        def look(step: SchedulerStep) -> Any:
            moment = path[len(velocities)]
            velocities.append(self.velocity(step.model_output))
            self.after_step()
            vars(self.pipeline.scheduler).update(moment.changes)
            return _with_sample(moment.answer, moment.following.expand_as(step.sample))

        with step_replaced(self.pipeline.scheduler, look):
            call(output_type="latent")
        return velocities

    def picture(self, call: Call, moment: Moment) -> np.ndarray:
        """Pixels ``(h, w, channels)`` in [0, 1] of a step's predicted picture.

        Only the decoder works anew: the denoiser, whose predictions are not used, repeats its answers of the path.
        """
        x0 = torch.from_numpy(self.heading(moment.xt, moment.velocity, moment.sigma)).float()
        with ExitStack() as afterwards:
            afterwards.enter_context(step_replaced(self.pipeline.scheduler, lambda s: _with_sample(s.answer(), x0)))
            afterwards.enter_context(_answers_repeated(self.pipeline, self._answers))
            if (checker := getattr(self.pipeline, "safety_checker", None)) is not None:
                afterwards.callback(setattr, self.pipeline, "safety_checker", checker)
                self.pipeline.safety_checker = None
            pixels: np.ndarray = output_pixels(call(num_inference_steps=1, output_type="np"))[0]
        return pixels

    def heading(self, xt: Any, velocity: Any, sigma: float) -> np.ndarray:
        """The finished latent that a step predicts."""
        # Imported here, because SciPy (of a measure) takes half of the start time of a server or worker.
        from bias_core.measures.propagation import predicted_sample

        return predicted_sample(xt.float().cpu().numpy(), velocity.float().cpu().numpy(), sigma, space=self.space)

    def network_input(self, step: SchedulerStep) -> Any:
        """The network's input latent; call it before the scheduler moves on."""
        scheduler = self.pipeline.scheduler
        if hasattr(scheduler, "scale_model_input"):
            return scheduler.scale_model_input(step.sample, step.timestep)
        return step.sample

    def velocity(self, output: Any) -> Any:
        """The direction from picture to noise, also for reversed time; safe from in-place changes by the pipeline."""
        return -output if self.pipeline.scheduler.config.get("invert_sigmas") else output.clone()

    def noise(self, i: int, timestep: Any) -> float:
        """Standard deviation of the noise in the network's input at step ``i``."""
        scheduler = self.pipeline.scheduler
        if self.space == "flow":
            sigma = float(scheduler.sigmas[i])
            return 1 - sigma if scheduler.config.get("invert_sigmas") else sigma
        if hasattr(scheduler, "sigmas") and scheduler.config.get("prediction_type") != "trigflow":
            ratio = float(scheduler.sigmas[i])  # of noise in units of the signal
            return ratio / math.sqrt(1 + ratio**2)
        time = float(torch.as_tensor(timestep).flatten()[0])
        if scheduler.config.get("prediction_type") == "trigflow":
            return math.sin(time)
        return math.sqrt(1 - float(scheduler.alphas_cumprod[int(time)]))


def get_next_latents(answer: Any) -> Any:
    return answer[0] if isinstance(answer, tuple) else answer.prev_sample


def _with_sample(answer: Any, sample: Any) -> Any:
    """Replace every latent in a scheduler's answer; ``sample`` gives the size of the batch, or is one for all."""

    def replaced(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape[1:] != sample.shape[1:]:
            return value
        sized = sample.expand_as(value) if len(sample) == 1 else sample
        return sized.to(value.device, value.dtype)

    if isinstance(answer, tuple):
        return tuple(map(replaced, answer))
    return type(answer)(**{name: replaced(value) for name, value in answer.items()})


class _EnoughSteps(Exception):
    pass


@contextmanager
def repeat_first_steps(pipeline: Any, call: Call, n_steps: int, after_step: Callable[[], None]) -> Iterator[None]:
    """Repeat the denoiser's first answers of ``call`` in the next call, until the block ends.

    Latents, noise and the scheduler's memory then equal those of ``call``, bit for bit, for any
    text of the next call; after that the denoiser reads the new text. ``call`` makes no picture.
    """
    networks = {name: part for name, part in pipeline.components.items() if name in DENOISERS and part is not None}
    answers: dict[str, list[Any]] = {name: [] for name in networks}
    with _answering(pipeline, networks, partial(_recorded, answers)) as steps, suppress(_EnoughSteps):
        steps.after = partial(_end_after, n_steps, after_step)
        call(output_type="latent")
    with _answering(pipeline, networks, partial(_from_record, answers, n_steps)):
        yield


@dataclass
class _StepsDone:
    n: int = 0
    after: Callable[[int], None] = lambda _n: None  # called after each


@contextmanager
def _answering(pipeline: Any, networks: Mapping[str, Any], by: Callable[..., Any]) -> Iterator[_StepsDone]:
    """Let ``by`` answer for networks, from their name, the steps done, their own answer, and their input."""
    done = _StepsDone()

    def count_step(step: SchedulerStep) -> Any:
        answer = step.answer()
        done.n += 1
        done.after(done.n)
        return answer

    with ExitStack() as afterwards:
        afterwards.enter_context(step_replaced(pipeline.scheduler, count_step))
        for name, network in networks.items():
            afterwards.enter_context(forward_replaced(network, partial(by, name, done, network.forward)))
        yield done


def _recorded(
    answers: Mapping[str, list[Any]], name: str, _done: _StepsDone, forward: Call, *args: Any, **given: Any
) -> Any:
    output = forward(*args, **given)
    answers[name].append(_cloned(output))  # pipelines change their inputs in place
    return output


def _from_record(
    answers: Mapping[str, list[Any]], n_steps: int, name: str, done: _StepsDone, forward: Call, *args: Any, **given: Any
) -> Any:
    if not 0 < done.n < n_steps:
        output = forward(*args, **given)  # also in the first step, when some networks store the text
        if done.n:
            return output
    return answers[name].pop(0)


def _end_after(n_steps: int, after_step: Callable[[], None], n: int) -> None:
    after_step()
    if n == n_steps:
        raise _EnoughSteps


def _cloned(output: Any) -> Any:
    from torch.utils._pytree import tree_map

    return tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, output)


def _answer_replaced(pipeline: Any, by: Callable[..., Any]) -> ExitStack:
    """Let ``by`` answer for networks, from their name, their own answer, and their input, until the block ends.

    All except the decoder and text encoders, whose outputs the adapter caches by text.
    """
    afterwards = ExitStack()
    for name, module in pipeline.components.items():
        if isinstance(module, torch.nn.Module) and name not in DECODERS and "text_encoder" not in name:
            afterwards.enter_context(forward_replaced(module, partial(by, name, module.forward)))
    return afterwards


def _answers_noted(pipeline: Any, answers: dict[str, list[_Answer]], wanted: Callable[[], bool]) -> ExitStack:
    """Note the answers of networks, with the shapes of their inputs, while they are ``wanted``."""

    def noted(name: str, forward: Call, *args: Any, **given: Any) -> Any:
        output = forward(*args, **given)
        if wanted():
            answers.setdefault(name, []).append((_shapes(args, given), output))
        return output

    return _answer_replaced(pipeline, noted)


def _answers_repeated(pipeline: Any, answers: Mapping[str, list[_Answer]]) -> ExitStack:
    """Let networks repeat these answers, in order, to inputs of the same shapes."""
    left = {name: iter(earlier) for name, earlier in answers.items()}

    def repeated(name: str, forward: Call, *args: Any, **given: Any) -> Any:
        shapes, output = next(left.get(name, iter(())), (None, None))
        return output if shapes == _shapes(args, given) else forward(*args, **given)

    return _answer_replaced(pipeline, repeated)


def _shapes(*given: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    return [leaf.shape for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
