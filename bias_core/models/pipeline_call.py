"""A call of a diffusers pipeline: what goes in, what comes out, and what happens at each of its steps.

The second part looks into a generation through its scheduler, whose ``step`` every family of pipelines calls. A trace
is three kinds of calls of one pipeline. The first draws the row as it is always drawn, and keeps each step: the latent,
what the scheduler was given for it, and where it went. The second draws the attributes' sentences along that very path:
``step`` answers with the kept latents, whatever was predicted. With guidance off a pipeline predicts from the text
alone, so these predictions are the conditional velocities, in the order, sign and packing of the scheduler. The third
gives a latent that a step is heading for to the end of the pipeline's own code, which makes a picture of it.

A generation whose text is exchanged on the way is two calls: of the first prompt as many steps as are taken with it,
then of the later one, in which the denoiser repeats for these steps what it answered before.
"""

import inspect
import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import count
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import BiasCoreError, InvalidInput, ModelUnavailable
from bias_core.models import diffusers, torch
from bias_core.models.family_facts import DECODERS, DENOISERS, PipelineFacts, accepted, facts_of, guidance_of
from bias_core.models.model_sources import free_memory
from bias_core.models.weights import TROUBLES
from bias_core.protocols import StepCallback
from bias_core.types import ImageRow, ModelInfo, VelocitySpace

# Some pipelines would draw at another size and cut, have a language model rewrite the prompt, or clean it
# where certain packages are installed: what is asked for is drawn, unless a model's options say otherwise.
REWRITING = frozenset({"use_pe", "enable_prompt_rewrite", "prompt_upsampling"})
"""Arguments that switch a pipeline's own rewriting of prompts."""
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
"""Advice for a model that draws no picture at all."""


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
    """The request of a pipeline to its scheduler; ``answer`` is the scheduler's own, and moves it one step on."""

    model_output: Any
    timestep: Any
    sample: Any
    answer: Callable[[], Any]


@contextmanager
def step_replaced(scheduler: Any, look: Callable[[SchedulerStep], Any]) -> Iterator[None]:
    """Have ``look`` answer each step of the scheduler, until the block ends."""
    step, own = scheduler.step, vars(scheduler).get("step")  # its own where it is replaced already
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
    """Collect the warnings of diffusers in this thread until the block ends, each once."""
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
    """The key of each row of the answer: its tokens, their mask, and the batch they came in.

    A mask that has no row per text counts as a whole.
    """
    rest = tuple(sorted((name, repr(value)) for name, value in kwargs.items() if not hasattr(value, "shape")))
    masks = [value for _, value in sorted(kwargs.items()) if hasattr(value, "shape")]
    keys = []
    for i, row in enumerate(ids):
        of_row = (mask[i : i + 1] if mask.shape[:1] == (len(ids),) else mask for mask in masks)
        keys.append((tuple(ids.shape), rest, str(row.tolist()), *(str(mask.tolist()) for mask in of_row)))
    return keys


Call = Callable[..., Any]  # one call of the pipeline, with these further arguments; gives its output

_SPACES: dict[str, VelocitySpace] = {
    "flow_prediction": "flow",
    "epsilon": "epsilon",
    "v_prediction": "v_prediction",
    "trigflow": "v_prediction",  # cos(t) x_t - sin(t) v: the noise is sin(t)
}
_SEVERAL_STAGES = "it draws in several stages, each with a sampler and velocities of its own"
_UNTRACEABLE = {
    "IFPipeline": _SEVERAL_STAGES,
    "DeepFloydPipeline": _SEVERAL_STAGES,
    "GlmImagePipeline": "its denoiser follows tokens that a language model draws from the text at random",
}


def velocity_space(facts: PipelineFacts, model: str) -> VelocitySpace:
    """The kind of velocities that the scheduler of a pipeline is given.

    InvalidInput: this family, or its scheduler, has no velocity that could be compared over prompts.
    """
    name = str(facts.scheduler.get("_class_name"))
    scheduler = getattr(diffusers, name, None)
    if reason := _refusal(facts):
        raise InvalidInput(f"{model}: this family ({facts.name}) has no velocity to trace: {reason}")
    parameters = inspect.signature(scheduler.__init__).parameters if scheduler is not None else {}
    prediction = "flow_prediction" if name.startswith("FlowMatch") else "unknown"
    if "prediction_type" in parameters:
        prediction = str(facts.scheduler.get("prediction_type", parameters["prediction_type"].default))
    # Schedulers of EDM scale what the network predicts; that of trigonometric flow only shares the name.
    rescaled = "sigma_data" in parameters and prediction != "trigflow"
    if prediction not in _SPACES or rescaled or getattr(scheduler, "order", 1) != 1:
        raise InvalidInput(
            f"{model}: its scheduler ({name}, {prediction}) has no velocity to trace: it takes several "
            "passes a step, or scales the prediction itself; use Euler, DDIM or DPM++ multistep"
        )
    return _SPACES[prediction]


def _refusal(facts: PipelineFacts) -> str:
    if "prompt" not in accepted(facts.kind):
        return "it does not draw from a text"
    samplers = [name for name in inspect.signature(facts.kind.__init__).parameters if name.endswith("scheduler")]
    return _UNTRACEABLE.get(facts.name, _SEVERAL_STAGES if len(samplers) > 1 else "")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One step of a generation; tensors are on the CPU, a batch of one, shaped as the scheduler has them."""

    sigma: float  # standard deviation of the noise in ``xt``, in [0, 1]
    xt: Any  # the latent as the network saw it, scaled as :class:`bias_core.types.Step` says
    velocity: Any
    following: Any  # the latent that the scheduler went to


@dataclass
class Tracer:
    """Follows one generation of a pipeline."""

    pipeline: Any
    space: VelocitySpace  # of :func:`velocity_space`
    after_step: Callable[[], None] = lambda: None  # called after each step of each call, but for those that decode
    _answers: dict[str, list[Any]] = field(default_factory=dict, init=False)

    def path(self, call: Call) -> list[Moment]:
        """Every step of a call that draws one picture."""
        moments: list[Moment] = []

        def look(step: SchedulerStep) -> Any:
            xt, sigma = self.network_input(step), self.noise(len(moments), step.timestep)
            answer = step.answer()
            velocity, following = self.velocity(step.model_output), _copied(following_of(answer))
            moments.append(Moment(sigma=sigma, xt=_copied(xt), velocity=velocity, following=following))
            self.after_step()
            return answer

        with step_replaced(self.pipeline.scheduler, look):
            call(output_type="latent")
        return moments

    def velocities(self, call: Call, path: list[Moment]) -> list[Any]:
        """For each step of a path its velocities towards the texts of a call, ``(n_texts, ...)``."""
        velocities: list[Any] = []

        def look(step: SchedulerStep) -> Any:
            following = path[len(velocities)].following
            velocities.append(self.velocity(step.model_output))
            self.after_step()
            return _with_sample(step.answer(), following)

        with step_replaced(self.pipeline.scheduler, look):
            call(output_type="latent")
        return velocities

    def picture(self, call: Call, moment: Moment) -> np.ndarray:
        """Pixels ``(h, w, channels)`` in [0, 1] of what a step is heading for.

        Only the decoder works anew each time: the denoiser, whose predictions are not used, repeats what it answered
        to the first of these calls.
        """
        x0 = torch.from_numpy(self.heading(moment.xt, moment.velocity, moment.sigma)).float()
        with ExitStack() as afterwards:
            afterwards.enter_context(step_replaced(self.pipeline.scheduler, lambda s: _with_sample(s.answer(), x0)))
            afterwards.enter_context(_repeated_answers(self.pipeline, self._answers))
            if (checker := getattr(self.pipeline, "safety_checker", None)) is not None:
                afterwards.callback(setattr, self.pipeline, "safety_checker", checker)
                self.pipeline.safety_checker = None
            pixels: np.ndarray = pictures_of(call(num_inference_steps=1, output_type="np"))[0]
        return pixels

    def heading(self, xt: Any, velocity: Any, sigma: float) -> np.ndarray:
        """The finished latent that a step is heading for, of tensors on the CPU."""
        # First needed here: SciPy, which a measure brings, is half of the time in which a server or worker starts.
        from bias_core.measures.propagation import predicted_sample

        return predicted_sample(xt.float().numpy(), velocity.float().numpy(), sigma, space=self.space)

    def network_input(self, step: SchedulerStep) -> Any:
        """The latent as the network saw it; asked for before the scheduler moves on."""
        scheduler = self.pipeline.scheduler
        if hasattr(scheduler, "scale_model_input"):
            return scheduler.scale_model_input(step.sample, step.timestep)
        return step.sample

    def velocity(self, output: Any) -> Any:
        """The direction from the picture to the noise, also where time runs the other way; on the CPU."""
        return _copied(-output if self.pipeline.scheduler.config.get("invert_sigmas") else output)

    def noise(self, i: int, timestep: Any) -> float:
        """Standard deviation of the noise in what the network sees at step ``i``."""
        scheduler, time = self.pipeline.scheduler, float(torch.as_tensor(timestep).flatten()[0])
        if self.space == "flow":
            sigma = float(scheduler.sigmas[i])
            return 1 - sigma if scheduler.config.get("invert_sigmas") else sigma
        if scheduler.config.get("prediction_type") == "trigflow":
            return math.sin(time)
        if hasattr(scheduler, "sigmas"):  # of noise in units of the signal
            ratio = float(scheduler.sigmas[i])
            return ratio / math.sqrt(1 + ratio**2)
        return math.sqrt(1 - float(scheduler.alphas_cumprod[int(time)]))


def following_of(answer: Any) -> Any:
    """The latent that a scheduler went to, by its answer."""
    return answer[0] if isinstance(answer, tuple) else answer.prev_sample


def _copied(tensor: Any) -> Any:
    """On the CPU, out of reach of what a pipeline does to its latents in place."""
    return tensor.to("cpu", copy=True)


def _with_sample(answer: Any, sample: Any) -> Any:
    """A scheduler's answer with another latent in it, in the place of each that it has."""

    def replaced(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.shape[1:] != sample.shape[1:]:
            return value
        return sample.to(value.device, value.dtype).expand_as(value)

    if isinstance(answer, tuple):
        return tuple(map(replaced, answer))
    return type(answer)(**{name: replaced(value) for name, value in answer.items()})


class _EnoughSteps(Exception):
    pass


@contextmanager
def first_steps_of(pipeline: Any, call: Call, n_steps: int, after_step: Callable[[], None]) -> Iterator[None]:
    """Have the denoiser answer the first steps of the next call as it answers those of ``call``, until the block ends.

    Latents, noise and the scheduler's memory of earlier steps are then those of ``call``, bit for bit, whatever the
    text of the next call is; from there on the denoiser reads that one. No picture of ``call`` is made.
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
    """Have ``by`` answer for networks: of their name, the steps done, their own answer, and what they were given."""
    done = _StepsDone()

    def counted(step: SchedulerStep) -> Any:
        answer = step.answer()
        done.n += 1
        done.after(done.n)
        return answer

    with ExitStack() as afterwards:
        afterwards.enter_context(step_replaced(pipeline.scheduler, counted))
        for name, network in networks.items():
            afterwards.enter_context(forward_replaced(network, partial(by, name, done, network.forward)))
        yield done


def _recorded(
    answers: Mapping[str, list[Any]], name: str, _done: _StepsDone, own: Call, *args: Any, **given: Any
) -> Any:
    output = own(*args, **given)
    answers[name].append(_cloned(output))  # pipelines change in place what they are given
    return output


def _from_record(
    answers: Mapping[str, list[Any]], n_steps: int, name: str, done: _StepsDone, own: Call, *args: Any, **given: Any
) -> Any:
    if not 0 < done.n < n_steps:
        output = own(*args, **given)  # in the first step too, where some networks take up what the text is
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


@contextmanager
def _repeated_answers(pipeline: Any, answers: dict[str, list[Any]]) -> Iterator[None]:
    """Have networks repeat these answers; where there are none yet, they answer themselves, and that is remembered.

    All but the decoder, and text encoders, whose answers the adapter remembers by their text.
    """

    def wrapped(earlier: list[Any], forward: Callable[..., Any]) -> Callable[..., Any]:
        first, turns = not earlier, count()

        def answer(*args: Any, **kwargs: Any) -> Any:
            if first:
                earlier.append(forward(*args, **kwargs))
            return earlier[next(turns)]

        return answer

    with ExitStack() as afterwards:
        for name, module in pipeline.components.items():
            if isinstance(module, torch.nn.Module) and name not in DECODERS and "text_encoder" not in name:
                earlier = answers.setdefault(name, [])
                afterwards.enter_context(forward_replaced(module, wrapped(earlier, module.forward)))
        yield
