"""The inside of a diffusers generation: velocities of the prompt and of attributes at every step.

The pipeline runs its own loop, with the prompt and the sentences of the attributes as one batch. Hooks on
the denoiser keep all of the batch on the trajectory of the prompt, and read what is predicted there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.adapters.family_facts import denoiser_of
from bias_core.adapters.pipeline_call import after_each_step
from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import predicted_sample
from bias_core.types import Step
from bias_core.waiting import one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PIL import Image

    from bias_core.adapters.family_facts import PipelineFacts
    from bias_core.protocols import StepCallback
    from bias_core.types import VelocitySpace

_PACKED = {"FluxPipeline"}
_SHIFTED = {"StableDiffusion3Pipeline", "FluxPipeline"}  # the others ignore the VAE's shift
_BY_CHANNEL = {"StableDiffusionXLPipeline"}
_TRACEABLE = _SHIFTED | {
    "PixArtAlphaPipeline",
    "PixArtSigmaPipeline",
    "SanaPipeline",
    "StableDiffusionPipeline",
    "StableDiffusionXLPipeline",
}


def velocity_space(facts: PipelineFacts, model: str) -> VelocitySpace:
    """What the denoiser of a pipeline predicts.

    Raises
    ------
    InvalidInput
        This family, or its scheduler, has no velocity that could be compared over prompts.
    """
    import diffusers

    family, config = facts.name, facts.scheduler
    scheduler = str(config.get("_class_name"))
    if family not in _TRACEABLE:
        raise InvalidInput(
            f"{model}: this family ({family}) has no velocity to trace; {', '.join(sorted(_TRACEABLE))} have"
        )
    prediction = config.get("prediction_type", "epsilon")
    spaces: dict[str, VelocitySpace] = {"flow_prediction": "flow", "epsilon": "epsilon", "v_prediction": "v_prediction"}
    order = getattr(getattr(diffusers, scheduler, None), "order", 1)
    if order != 1 or "sigma_data" in config or prediction not in spaces:
        raise InvalidInput(
            f"{model}: its scheduler ({scheduler}, {prediction}) has no velocity to trace: it takes several "
            "passes a step, or scales the prediction itself; use Euler, DDIM or DPM++ multistep"
        )
    return "flow" if scheduler.startswith("FlowMatch") else spaces[prediction]


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """Runs one pipeline call and hands out its steps.

    Attributes
    ----------
    pipeline, arguments : the call; its prompts are the prompt, all positive, then all negative sentences,
        and it leaves the latents undecoded.
    space : of :func:`velocity_space`.
    to_image : makes pixels in [0, 1] a picture.
    guided : give velocities with classifier-free guidance where the sampler uses it.
    predicted : decode the predicted picture of every step.
    """

    pipeline: Any
    arguments: dict[str, Any]
    space: VelocitySpace
    to_image: Callable[[np.ndarray], Image.Image]
    guided: bool
    predicted: bool

    def steps(self, on_step: StepCallback | None) -> Iterator[Step]:
        """Yield every step while the pipeline waits."""
        return one_at_a_time(lambda hand: self._run(hand, on_step))

    def _run(self, hand: Callable[[Step], None], on_step: StepCallback | None) -> None:
        import torch

        pipeline, watch = self.pipeline, _Watch(self, hand)

        def done() -> None:
            watch.step_done()
            if on_step is not None:
                on_step(watch.index, len(pipeline.scheduler.timesteps))

        denoiser = denoiser_of(pipeline)
        with (
            torch.inference_mode(),
            denoiser.register_forward_pre_hook(watch.before, with_kwargs=True),
            denoiser.register_forward_hook(watch.after, with_kwargs=True),
            after_each_step(pipeline, done) as callbacks,
        ):
            pipeline(**self.arguments, **callbacks)

    def step(self, index: int, xt: Any, output: Any, unconditional: Any) -> Step:
        """What one pass of the denoiser says: ``xt`` (1, ...), ``output`` (n, ...), and without text."""
        n_attributes = (len(output) - 1) // 2
        conditional = self._velocities(output, xt)
        guidance = conditional
        if unconditional is not None:
            away = self._velocities(unconditional, xt)
            guidance = away + float(self.arguments["guidance_scale"]) * (conditional - away)
        guided = self.guided and unconditional is not None
        velocities = guidance if guided else conditional
        latent, sigma = self._latents(xt)[0], self._noise(index)
        return Step(
            index=index,
            sigma=sigma,
            xt=latent,
            velocity=velocities[0],
            velocity_positive=velocities[1 : 1 + n_attributes],
            velocity_negative=velocities[1 + n_attributes :],
            predicted=self._picture(latent, guidance[0], sigma) if self.predicted else None,
            space=self.space,
            guided=guided,
        )

    def _velocities(self, output: Any, xt: Any) -> np.ndarray:
        """What was predicted at ``xt``; some networks say the variance too, in as many channels again."""
        packed = type(self.pipeline).__name__ in _PACKED
        return self._latents(output if packed else output[:, : xt.shape[1]])

    def _latents(self, tensor: Any) -> np.ndarray:
        """float32 ``(n, c, h, w)``; FLUX packs squares of 2 x 2 latent pixels into a token each."""
        if type(self.pipeline).__name__ in _PACKED:
            pixels = 2 * self.pipeline.vae_scale_factor  # of a token's side
            h, w = self.arguments["height"] // pixels, self.arguments["width"] // pixels
            squares = tensor.reshape(len(tensor), h, w, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
            tensor = squares.reshape(len(tensor), -1, 2 * h, 2 * w)
        return tensor.float().cpu().numpy()

    def _noise(self, index: int) -> float:
        """Standard deviation of the noise in what the denoiser sees at a step."""
        scheduler = self.pipeline.scheduler
        if self.space == "flow":
            return float(scheduler.sigmas[index])
        if hasattr(scheduler, "sigmas"):  # of noise in units of the signal
            ratio = float(scheduler.sigmas[index])
            return ratio / math.sqrt(1 + ratio**2)
        return math.sqrt(1 - float(scheduler.alphas_cumprod[int(scheduler.timesteps[index])]))

    def _picture(self, xt: np.ndarray, velocity: np.ndarray, sigma: float) -> Image.Image:
        import torch

        pipeline, vae = self.pipeline, self.pipeline.vae
        x0 = predicted_sample(xt, velocity, sigma, space=self.space)[np.newaxis]
        latents = self._unscaled(torch.from_numpy(x0))
        overflows = vae.dtype == torch.float16 and vae.config.get("force_upcast")
        try:
            if overflows:
                vae.to(torch.float32)
            pixels = vae.decode(latents.to(vae.device, vae.dtype), return_dict=False)[0]
        finally:
            if overflows:
                vae.to(torch.float16)
        return self.to_image(pipeline.image_processor.postprocess(pixels, output_type="np")[0])

    def _unscaled(self, x0: Any) -> Any:
        """Latents as the VAE takes them: by channel, where it names means and deviations."""
        family, config = type(self.pipeline).__name__, self.pipeline.vae.config
        mean, deviation = config.get("latents_mean"), config.get("latents_std")
        if family in _BY_CHANNEL and mean is not None and deviation is not None:
            import torch

            by_channel = (1, len(mean), 1, 1)
            spread = torch.tensor(deviation).view(by_channel) / config.scaling_factor
            return x0 * spread + torch.tensor(mean).view(by_channel)
        shift = (config.get("shift_factor") or 0.0) if family in _SHIFTED else 0.0
        return x0 / config.scaling_factor + shift


class _Watch:
    """The hooks on the denoiser, and which step they are in.

    Under guidance a pipeline's batch is n times the negative prompt, then the n texts. The negative prompt
    is the same n times: it runs once, and its prediction is handed back n times.
    """

    def __init__(self, tracer: Tracer, hand: Callable[[Step], None]) -> None:
        self.tracer = tracer
        self.hand = hand
        self.n = len(tracer.arguments["prompt"])
        self.index = 0
        self._passed = False

    def before(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if self._passed:
            raise InvalidInput("more than one pass of the denoiser a step cannot be traced (true_cfg_scale?)")
        self._passed = True
        n_rows = len(_latent_input(args, kwargs))
        self.doubled = n_rows == 2 * self.n
        if not self.doubled:
            return args, kwargs
        rows = [0, *range(self.n, n_rows)]
        return tuple(_pick(value, rows, n_rows) for value in args), _pick(kwargs, rows, n_rows)

    def after(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> tuple[Any]:
        (predictions,) = output
        start = int(self.doubled)
        unconditional = predictions[:1] if self.doubled else None
        xt = _latent_input(args, kwargs)[:1]
        self.hand(self.tracer.step(self.index, xt, predictions[start:], unconditional))
        return (predictions[[0] * self.n * start + [start] * self.n],)

    def step_done(self) -> None:
        self.index += 1
        self._passed = False


def _latent_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]


def _pick(value: Any, rows: list[int], n_rows: int) -> Any:
    if isinstance(value, dict):
        return {key: _pick(entry, rows, n_rows) for key, entry in value.items()}
    return value[rows] if getattr(value, "shape", ())[:1] == (n_rows,) else value
