"""The inside of a diffusers generation: velocities of the prompt and of attributes at every step.

The pipeline runs its own loop, with the prompt and the sentences of the attributes as one batch. Hooks on
the denoiser keep all of the batch on the trajectory of the prompt, and read what is predicted there.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image

from bias_core.adapters.family_facts import denoiser_of
from bias_core.adapters.pipeline_call import after_each_step
from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import predicted_sample
from bias_core.protocols import StepCallback
from bias_core.types import Step, VelocitySpace
from bias_core.waiting import one_at_a_time

_PACKED = {"FluxPipeline"}
_SHIFTED = {"StableDiffusion3Pipeline", "FluxPipeline"}  # the others ignore the VAE's shift
_BY_CHANNEL = {"StableDiffusionXLPipeline"}


@dataclass(kw_only=True)
class Tracer:
    """Runs one pipeline call and hands out its steps.

    Under guidance a pipeline's batch is n times the negative prompt, then the n texts. The negative prompt
    is the same n times: it runs once, and its prediction is handed back n times.
    """

    # pipeline, arguments: the call; its prompts are the prompt, all positive, then all negative sentences, and it
    # leaves the latents undecoded
    pipeline: Any
    arguments: dict[str, Any]
    space: VelocitySpace  # of :func:`bias_core.adapters.family_facts.velocity_space`
    to_image: Callable[[np.ndarray], Image.Image]  # makes pixels in [0, 1] a picture
    guided: bool  # give velocities with classifier-free guidance where the sampler uses it
    predicted: bool  # decode the predicted picture of every step
    _index: int = field(default=0, init=False)
    _passed: bool = field(default=False, init=False)
    _doubled: bool = field(default=False, init=False)

    def steps(self, on_step: StepCallback | None) -> Iterator[Step]:
        """Yield every step while the pipeline waits."""
        return one_at_a_time(partial(self._run, on_step))

    def _run(self, on_step: StepCallback | None, hand: Callable[[Step], None]) -> None:
        pipeline, denoiser = self.pipeline, denoiser_of(self.pipeline)

        def done() -> None:
            self._index, self._passed = self._index + 1, False
            if on_step is not None:
                on_step(self._index, len(pipeline.scheduler.timesteps))

        with (
            torch.inference_mode(),
            denoiser.register_forward_pre_hook(self._before, with_kwargs=True),
            denoiser.register_forward_hook(partial(self._after, hand), with_kwargs=True),
            after_each_step(pipeline, done) as callbacks,
        ):
            pipeline(**self.arguments, **callbacks)

    def _before(self, _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if self._passed:
            raise InvalidInput("more than one pass of the denoiser a step cannot be traced (true_cfg_scale?)")
        n, n_rows = len(self.arguments["prompt"]), len(_latent_input(args, kwargs))
        self._passed, self._doubled = True, n_rows == 2 * n
        if not self._doubled:
            return args, kwargs
        rows = [0, *range(n, n_rows)]
        return tuple(_pick(value, rows, n_rows) for value in args), _pick(kwargs, rows, n_rows)

    def _after(
        self, hand: Callable[[Step], None], _module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> tuple[Any]:
        (predictions,), start, n = output, int(self._doubled), len(self.arguments["prompt"])
        unconditional = predictions[:1] if self._doubled else None
        hand(self._step(_latent_input(args, kwargs)[:1], predictions[start:], unconditional))
        return (predictions[[0] * n * start + [start] * n],)

    def _step(self, xt: Any, output: Any, unconditional: Any) -> Step:
        """What one pass of the denoiser says: ``xt`` (1, ...), ``output`` (n, ...), and without text."""
        n_attributes = (len(output) - 1) // 2
        conditional = self._velocities(output, xt)
        guidance = conditional
        if unconditional is not None:
            away = self._velocities(unconditional, xt)
            guidance = away + float(self.arguments["guidance_scale"]) * (conditional - away)
        guided = self.guided and unconditional is not None
        velocities = guidance if guided else conditional
        latent, sigma = self._latents(xt)[0], self._noise()
        return Step(
            index=self._index,
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
        return self._latents(output if type(self.pipeline).__name__ in _PACKED else output[:, : xt.shape[1]])

    def _latents(self, tensor: Any) -> np.ndarray:
        """float32 ``(n, c, h, w)``; FLUX packs squares of 2 x 2 latent pixels into a token each."""
        if type(self.pipeline).__name__ in _PACKED:
            pixels = 2 * self.pipeline.vae_scale_factor  # of a token's side
            h, w = self.arguments["height"] // pixels, self.arguments["width"] // pixels
            squares = tensor.reshape(len(tensor), h, w, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
            tensor = squares.reshape(len(tensor), -1, 2 * h, 2 * w)
        return tensor.float().cpu().numpy()

    def _noise(self) -> float:
        """Standard deviation of the noise in what the denoiser sees at this step."""
        scheduler, index = self.pipeline.scheduler, self._index
        if self.space == "flow":
            return float(scheduler.sigmas[index])
        if hasattr(scheduler, "sigmas"):  # of noise in units of the signal
            ratio = float(scheduler.sigmas[index])
            return ratio / math.sqrt(1 + ratio**2)
        return math.sqrt(1 - float(scheduler.alphas_cumprod[int(scheduler.timesteps[index])]))

    def _picture(self, xt: np.ndarray, velocity: np.ndarray, sigma: float) -> Image.Image:
        vae = self.pipeline.vae
        latents = self._unscaled(torch.from_numpy(predicted_sample(xt, velocity, sigma, space=self.space)[np.newaxis]))
        overflows = vae.dtype == torch.float16 and vae.config.get("force_upcast")
        try:
            if overflows:
                vae.to(torch.float32)
            pixels = vae.decode(latents.to(vae.device, vae.dtype), return_dict=False)[0]
        finally:
            if overflows:
                vae.to(torch.float16)
        return self.to_image(self.pipeline.image_processor.postprocess(pixels, output_type="np")[0])

    def _unscaled(self, x0: Any) -> Any:
        """Latents as the VAE takes them: by channel, where it names means and deviations."""
        family, config = type(self.pipeline).__name__, self.pipeline.vae.config
        mean, deviation = config.get("latents_mean"), config.get("latents_std")
        if family in _BY_CHANNEL and mean is not None and deviation is not None:
            by_channel = (1, len(mean), 1, 1)
            spread = torch.tensor(deviation).view(by_channel) / config.scaling_factor
            return x0 * spread + torch.tensor(mean).view(by_channel)
        shift = (config.get("shift_factor") or 0.0) if family in _SHIFTED else 0.0
        return x0 / config.scaling_factor + shift


def _latent_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]


def _pick(value: Any, rows: list[int], n_rows: int) -> Any:
    if isinstance(value, dict):
        return {key: _pick(entry, rows, n_rows) for key, entry in value.items()}
    return value[rows] if getattr(value, "shape", ())[:1] == (n_rows,) else value
