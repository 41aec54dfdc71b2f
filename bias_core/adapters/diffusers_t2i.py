"""Any text-to-image pipeline of diffusers, with one CPU generator per picture."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bias_core.adapters import pipeline_call as calls, torch
from bias_core.adapters.family_facts import (
    PipelineFacts,
    denoiser_of,
    drawn_size,
    drawn_size_at,
    facts_at,
    facts_of,
    other_size,
    prompt_limits,
    unused_settings,
    velocity_space,
)
from bias_core.adapters.loras import put_on
from bias_core.adapters.weights import Adapter, Batches
from bias_core.errors import InvalidInput, ModelUnavailable, NotEnoughMemory
from bias_core.metrics.propagation import predicted_sample
from bias_core.models.catalogue import split_revision
from bias_core.models.fit import first_batch_size
from bias_core.models.machine import this_machine
from bias_core.protocols import StepCallback
from bias_core.types import Attribute, GeneratedImage, ImageRow, ModelInfo, PromptLimit, Step, VelocitySpace
from bias_core.waiting import one_at_a_time

_LORA_FILE = "pytorch_lora_weights.safetensors"
_PACKED = {"FluxPipeline"}
_SHIFTED = {"StableDiffusion3Pipeline", "FluxPipeline"}  # the others ignore the VAE's shift
_BY_CHANNEL = {"StableDiffusionXLPipeline"}
_FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")


class _PictureBatches(Batches):
    filled_up = True

    def too_large(self, batch: Sequence[ImageRow]) -> NotEnoughMemory:
        size = f"{batch[0].width}x{batch[0].height}"
        return NotEnoughMemory(
            f"{self.name} ran out of memory at {len(batch)} pictures of {size} at a time; use a smaller model or a "
            "larger device"
        )


class DiffusersTextToImage(Adapter[Any]):
    """Draws rows with a pipeline from a hub id or a local folder; loads nothing before the first row.

    A condition is a LoRA in the folder ``loras``; ``base_condition`` is the pipeline without one.

    Parameters
    ----------
    info : its ``options`` may hold ``base_condition``, ``batch_size`` (halved when memory runs out), ``dtype``,
        ``call`` (further arguments of the pipeline's call), and ``lora`` with ``lora_weight``: a LoRA that is always
        on, from a folder, a .safetensors file, or a hub id with "@revision" where that is pinned.
    source : hub id ``org/name``, or a folder with ``model_index.json``.
    loras : folder with one sub-folder per condition, or None.
    compiled : compile the denoiser on a GPU, which pays for hundreds of pictures.
    how : of :class:`bias_core.adapters.weights.Adapter`.

    The kernels that a batch runs through depend on its shape, and with them the last bits of a sum. So a batch is
    always full (the last one is filled up with copies that are thrown away): a picture then has the same pixels whether
    it was asked for alone or among others. On other hardware, or with another ``batch_size``, single pixels can differ
    by one of 255 levels.
    """

    def __init__(self, info: ModelInfo, source: str, *, loras: Path | None = None, compiled: bool = False, **how: Any):
        batch_size = first_batch_size(info, this_machine(), how.get("device", "auto"))
        super().__init__(info.id, source, batch_size=batch_size, **how)
        self.info, self.loras, self.compiled = info, loras, compiled
        self._batches = _PictureBatches(info.id, batch_size)
        self._texts = calls.TextCache()
        self._condition = self._base = str(info.options.get("base_condition", ""))

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order, a batch at a time.

        A picture's row has the size that was drawn, where this model draws another than was asked for. Raises
        ModelUnavailable: weights missing or corrupt, out of memory, or the model answers NaN; Cancelled: from
        ``on_step``, at that denoising step; pictures yielded before are whole.
        """
        drawn = (_as_drawn(self._parts(), row) for row in rows)
        sampling = attrgetter("condition", "num_inference_steps", "guidance_scale", "width", "height")
        for _, alike in groupby(drawn, key=lambda row: (bool(row.negative_prompt), *sampling(row))):
            draw = partial(self._generate_batch, on_step)
            for images in self._batches.run(list(alike), draw, most=self._at_once()):
                yield from images

    def trace(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        *,
        guided: bool = False,
        predicted: bool = True,
        on_step: StepCallback | None = None,
    ) -> Iterator[Step]:
        """Yield every denoising step of ``row`` with the velocities towards each attribute.

        The trajectory is that of the plain generation of ``row``. All texts run in one batch, whose latents can
        differ from a generation's in their last bits; the pipeline waits while the reader is busy, and stops
        when the reader leaves.

        Parameters
        ----------
        row : its prompt is the neutral one.
        attributes : with none, only the prompt's own velocity and predicted pictures are shown.
        guided : velocities with classifier-free guidance, where the sampler uses it, instead of the conditional ones.
        predicted : decode the picture that each step is heading for, a pass of the VAE a step. No safety
            checker looks at it.

        Raises InvalidInput: this family, or its scheduler, has no velocity; ModelUnavailable: weights missing
        or corrupt, or out of memory; Cancelled: from ``on_step``, at that step.
        """
        pipeline = self._parts()
        row = _as_drawn(pipeline, row)
        self._use_condition(row.condition)
        space = velocity_space(facts_of(pipeline), self.info.id)
        texts = [row.prompt, *(a.positive for a in attributes), *(a.negative for a in attributes)]
        rows = [replace(row, prompt=text) for text in texts]
        tracer = Tracer(
            pipeline=pipeline,
            arguments=calls.call_arguments(pipeline, self.info, rows, output_type="latent"),
            space=space,
            to_image=lambda pixels: calls.to_image(pixels, self.info.id),
            guided=guided,
            predicted=predicted,
        )
        try:
            with calls.errors_in_a_sentence(pipeline, self.info.id, row):
                yield from tracer.steps(on_step)
        except torch.OutOfMemoryError as error:
            raise self._batches.too_large(rows) from error

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """What each text encoder takes of each prompt, in order; no weights are loaded for this.

        Empty where the model is not on this machine.
        """
        return prompt_limits(self.info, self.source, self._value, prompts)

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """A sentence on each setting of the row that has no effect, or not the usual one; loads no weights.

        Nothing is said where the model is not on this machine.
        """
        if (facts := self._facts()) is None:
            return ()
        size, own_size = (row.width, row.height), (self.info.width, self.info.height)
        notes = other_size(row.model, size, self.drawn_size(*size))
        if not notes and self.drawn_size(*own_size) == size:
            notes = other_size(row.model, own_size, size)
        return (*unused_settings(facts, row, self.info.options.get("call", {})), *notes)

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that is drawn where this is asked for; loads no weights."""
        if (pipeline := self._value) is not None:
            return drawn_size(pipeline, width, height)
        return drawn_size_at(self.info, self.source, width, height)

    def check_traceable(self) -> None:
        """Refuse, by InvalidInput, a model that is here and whose steps cannot be traced; loads no weights."""
        if (facts := self._facts()) is not None:
            velocity_space(facts, self.info.id)

    def _facts(self) -> PipelineFacts | None:
        pipeline = self._value
        return facts_of(pipeline) if pipeline else facts_at(self.info, self.source)

    def pipeline(self) -> Any:
        """The pipeline of diffusers itself, loaded now if it is not."""
        return self._parts()

    def use(self, pipeline: Any) -> None:
        """Draw with a pipeline of diffusers that is in memory already, in place of what ``source`` holds."""
        self._start_over()
        self._keep(pipeline)

    def unload(self) -> None:
        """Forget the weights; the next row loads them again."""
        super().unload()
        self._start_over()

    def _at_once(self) -> int:
        """Pictures in a batch; one where what is drawn beside a picture would change its pixels."""
        return self.batch_size if facts_of(self._parts()).in_batches else 1

    def _generate_batch(self, on_step: StepCallback | None, rows: Sequence[ImageRow]) -> list[GeneratedImage]:
        pipeline = self._parts()
        self._use_condition(rows[0].condition)
        full = [*rows, *[rows[-1]] * (self._at_once() - len(rows))]
        arguments = calls.call_arguments(pipeline, self.info, full)
        with ExitStack() as call:
            warnings = call.enter_context(calls.warnings_of_diffusers())
            call.enter_context(calls.errors_in_a_sentence(pipeline, self.info.id, rows[0]))
            if on_step is not None:
                count = calls.report_steps(pipeline, arguments, on_step)
                arguments |= call.enter_context(calls.after_each_step(pipeline, count))
            call.enter_context(self._texts.of(pipeline))
            call.enter_context(calls.guiders_set(pipeline, full))
            call.enter_context(torch.random.fork_rng(devices=[]))  # some families seed for all
            call.enter_context(torch.inference_mode())
            output = pipeline(**arguments)
        notes = calls.records(pipeline, arguments, output, warnings, rows)
        return [self._generated(row, output, i, drawn) for i, (row, drawn) in enumerate(zip(rows, notes, strict=False))]

    def _generated(self, row: ImageRow, output: Any, i: int, drawn: dict[str, Any]) -> GeneratedImage:
        pictures = output.images if hasattr(output, "images") else output.image  # (n, h, w, channels)
        image = calls.to_image(pictures[i], self.info.id)
        blocked = any(flags[i] for flags in (getattr(output, name, None) for name in _FLAGS) if flags)
        if not blocked and not image.getbbox():
            raise ModelUnavailable(
                f"{self.info.id} drew a picture that is black all over: numbers overflowed (set its dtype option to "
                "float32), or a checker of its own blanked it; it is not counted as a picture"
            )
        width, height = image.size
        row = replace(row, width=width, height=height)  # by a rule of the family's that is not known here
        return GeneratedImage(row=row, image=image, blocked=blocked, drawn=drawn | {"width": width, "height": height})

    def _load(self) -> Any:
        from bias_core.adapters.pipeline_loader import load_pipeline

        device, compiled = self._wanted_device, self.compiled
        pipeline = load_pipeline(self.info, self.source, device=device, offline=self._offline, compiled=compiled)
        if lora := str(self.info.options.get("lora", "")):
            source, revision = split_revision(lora)
            weight, model = float(self.info.options.get("lora_weight", 1.0)), self.info.id
            put_on(pipeline, model, source, name="lora", revision=revision, weight=weight, offline=self._offline)
        self._start_over()
        return pipeline

    def _start_over(self) -> None:
        """Fresh weights have no condition's adapter, and nothing is known of what they answer."""
        self._condition = self._base
        self._texts.clear()

    def _use_condition(self, condition: str) -> None:
        """Switch the LoRA; the one before is removed altogether, so that nothing of it stays."""
        condition = condition or self._base
        if condition == self._condition:
            return
        pipeline = self._parts()
        if self._condition != self._base:
            pipeline.unload_lora_weights()
        self._start_over()  # an adapter may change the text encoders too
        if condition == self._base:
            return
        folder = (self.loras or Path()) / condition
        if not (folder / _LORA_FILE).is_file():
            raise ModelUnavailable(f"{self.info.id}: the adapter for {condition!r} is missing ({folder / _LORA_FILE})")
        super().unload()  # a half-loaded adapter must not stay in use
        put_on(pipeline, f"{self.info.id}, condition {condition}", str(folder), name=condition, file=_LORA_FILE)
        self._unchanged()
        self._keep(pipeline)
        self._condition = condition


def _as_drawn(pipeline: Any, row: ImageRow) -> ImageRow:
    width, height = drawn_size(pipeline, row.width, row.height)
    return replace(row, width=width, height=height)


@dataclass(kw_only=True)
class Tracer:
    """Runs one pipeline call and hands out its steps: velocities of the prompt and of attributes.

    The pipeline runs its own loop, with the prompt and the sentences of the attributes as one batch. Hooks on the
    denoiser keep all of the batch on the trajectory of the prompt, and read what is predicted there.

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
            calls.after_each_step(pipeline, done) as callbacks,
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
