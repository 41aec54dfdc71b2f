"""Looking into a generation through its scheduler, whose ``step`` every family of pipelines calls.

A trace is three kinds of calls of one pipeline. The first draws the row as it is always drawn, and keeps each step:
the latent, what the scheduler was given for it, and where it went. The second draws the attributes' sentences along
that very path: ``step`` answers with the kept latents, whatever was predicted. With guidance off a pipeline predicts
from the text alone, so these predictions are the conditional velocities, in the order, sign and packing of the
scheduler. The third gives a latent that a step is heading for to the end of the pipeline's own code, which
makes a picture of it.

A generation whose text is exchanged on the way is two calls: of the first prompt as many steps as are taken with it,
then of the later one, in which the denoiser repeats for these steps what it answered before.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.models import diffusers, torch
from bias_core.models.family_facts import DECODERS, DENOISERS, PipelineFacts, accepted
from bias_core.models.pipeline_call import SchedulerStep, forward_replaced, pictures_of, step_replaced
from bias_core.types import VelocitySpace

Call = Callable[..., Any]  # one call of the pipeline, with these further arguments; gives its output

_SPACES: dict[str, VelocitySpace] = {
    "flow_prediction": "flow",
    "epsilon": "epsilon",
    "v_prediction": "v_prediction",
    "trigflow": "v_prediction",  # cos(t) x_t - sin(t) v: the noise is sin(t)
}
_STAGES = "it draws in several stages, each with a sampler and velocities of its own"
_REFUSALS = {
    "IFPipeline": _STAGES,
    "DeepFloydPipeline": _STAGES,
    "GlmImagePipeline": "its denoiser follows tokens that a language model draws from the text at random",
}


def velocity_space(facts: PipelineFacts, model: str) -> VelocitySpace:
    """What the scheduler of a pipeline is given: its velocities.

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
    return _REFUSALS.get(facts.name, _STAGES if len(samplers) > 1 else "")


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
        """From the picture to the noise, also where time runs the other way; on the CPU."""
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
