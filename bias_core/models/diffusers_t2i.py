"""Draw rows with a diffusers pipeline, batch by batch, trace its steps, and mark pictures that a checker blanked.

The first part has samplers by plain names (another scheduler for one call) and small previews of the pictures in
progress.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable, NotEnoughMemory
from bias_core.models import diffusers, one_import_at_a_time, pipeline_call as calls, torch, unclip
from bias_core.models.catalogue import WITHOUT_ADAPTER, split_revision
from bias_core.models.family_facts import (
    DECODERS,
    PipelineFacts,
    drawn_size,
    other_size,
    pipeline_facts,
    prompt_limits,
    read_drawn_size,
    read_facts,
    unused_settings,
    without_guidance,
)
from bias_core.models.model_sources import first_batch_size, get_machine, gpu_memory
from bias_core.models.pipeline_call import (
    SchedulerStep,
    Tracer,
    get_next_latents,
    repeat_first_steps,
    step_replaced,
    velocity_space,
)
from bias_core.models.weights import (
    Batches,
    LazyModel,
    computing_threads,
    cpu_threads,
    pick_device,
    put_on,
    use_in_parts,
)
from bias_core.protocols import StepCallback
from bias_core.types import (
    BATCH_SIZE,
    BLOCK_REASON,
    Attribute,
    GeneratedImage,
    ImageRow,
    ModelInfo,
    PromptLimit,
    Step,
    VelocitySpace,
)

SAMPLERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "ddim": ("DDIMScheduler", {}),
    "ddpm": ("DDPMScheduler", {}),
    "pndm": ("PNDMScheduler", {}),
    "lms": ("LMSDiscreteScheduler", {}),
    "heun": ("HeunDiscreteScheduler", {}),
    "euler": ("EulerDiscreteScheduler", {}),
    "euler-a": ("EulerAncestralDiscreteScheduler", {}),
    "dpm2": ("KDPM2DiscreteScheduler", {}),
    "dpm2-a": ("KDPM2AncestralDiscreteScheduler", {}),
    "dpm++": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++"}),
    "dpm++-karras": ("DPMSolverMultistepScheduler", {"algorithm_type": "dpmsolver++", "use_karras_sigmas": True}),
    "dpm++-sde": ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}),
    "deis": ("DEISMultistepScheduler", {}),
    "unipc": ("UniPCMultistepScheduler", {}),
}
"""By name of :data:`bias_core.types.Sampler` the class of diffusers, and its arguments next to the
configuration of the pipeline's own."""
_CHANGEABLE = {"sd1", "sd2", "sdxl", "pixart", "diffusers"}  # families whose samplers can be changed, or perhaps can
_OWN_STEPS = {"LCMScheduler", "SCMScheduler", "TCDScheduler"}  # the network was distilled for the steps of these


def check_sampler(info: ModelInfo, facts: PipelineFacts | None, sampler: str) -> None:
    """Raise InvalidInput if the model cannot use the sampler; without ``facts``, its family decides."""
    if sampler and (reason := _reason(info, facts, sampler)):
        raise InvalidInput(f"{info.id} cannot be drawn with the sampler {sampler}: {reason}; leave the sampler out")


def _reason(info: ModelInfo, facts: PipelineFacts | None, sampler: str) -> str:
    if facts is None:
        return "" if info.family in _CHANGEABLE else f"models of the family {info.family} have their own sampler"
    config = facts.scheduler
    name = str(config.get("_class_name", ""))
    if "FlowMatch" in name or config.get("prediction_type") == "flow_prediction" or config.get("use_flow_sigmas"):
        return f"it is a flow model, whose steps only its own scheduler ({name}) can take"
    if sum(name.endswith("scheduler") for name in facts.parts) > 1:
        return "it draws in several stages, each with its own scheduler"
    if name in _OWN_STEPS or str(config.get("variance_type", "")).startswith("learned"):
        return f"its network was trained for the steps of its own scheduler ({name})"
    if SAMPLERS[sampler][0] not in {name, *getattr(getattr(diffusers, name, None), "_compatibles", ())}:
        return f"its own scheduler ({name or 'unknown'}) cannot be replaced by it"
    return ""


@contextmanager
def use_sampler(pipeline: Any, info: ModelInfo, sampler: str) -> Iterator[None]:
    """Draw with this sampler until the block ends; "" is the pipeline's own."""
    if not sampler:
        yield
        return
    check_sampler(info, pipeline_facts(pipeline), sampler)
    own_scheduler, (name, options) = pipeline.scheduler, SAMPLERS[sampler]
    pipeline.scheduler = getattr(diffusers, name).from_config(own_scheduler.config, **options)
    try:
        yield
    finally:
        pipeline.scheduler = own_scheduler


MOST_WEIGHTS = 5_000_000  # parameters of a small decoder with its encoder: a tiny autoencoder has half as many
_MOST_SIDE = 4  # pixels per latent position
_ENOUGH = 64  # finished pictures to learn colours from


@dataclass(kw_only=True, eq=False)
class _AtWork:
    """State of a pipeline's call at its newest step."""

    rows: Sequence[ImageRow]
    tracer: Tracer
    newest: tuple[int, SchedulerStep, Any] | None = None  # the step's index, the step, and the network's input
    following: Any = None  # the scheduler's next latent


class FormingPictures:
    """Small previews of the pictures that a generator is drawing.

    ``mode``: "on", "off", or "auto": on for a small decoder without a safety checker.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._at_work: list[_AtWork] = []  # one for each of the calls at once
        self._learning = threading.Lock()
        self._map: np.ndarray | None = None  # from a latent position with its neighbours, and 1, to its pixels
        self._products: list[Any] = [0.0, 0.0]  # of positions with positions, and with their colours
        self._n_learnt = 0

    @contextmanager
    def watching(
        self, pipeline: Any, model: str, rows: Sequence[ImageRow]
    ) -> Iterator[Callable[[], np.ndarray | None]]:
        """Watch each step of a call until the block ends; pictures after ``rows`` are copies.

        Yields a function that returns the latents of the rows' finished pictures; None if there is nothing to learn.
        """
        tracer = self._tracer(pipeline, model)
        if tracer is None:
            yield _nothing
            return
        at_work = _AtWork(rows=rows, tracer=tracer)
        indices = count()

        def look(step: SchedulerStep) -> Any:
            xt = tracer.network_input(step)
            answer = step.answer()
            at_work.newest, at_work.following = (next(indices), step, xt), get_next_latents(answer)
            return answer

        def latents() -> np.ndarray | None:
            if self._n_learnt >= _ENOUGH or at_work.newest is None:
                return None
            finished: np.ndarray = at_work.following[: len(rows)].float().cpu().numpy()
            return finished

        self._at_work.append(at_work)
        try:
            with step_replaced(pipeline.scheduler, look):
                yield latents
        finally:
            self._at_work.remove(at_work)

    def pictures(self) -> Mapping[str, Image.Image]:
        """The predicted picture of each row at work, by row id; without those that are unknown."""
        return {key: image for at_work in list(self._at_work) for key, image in self._decode_newest(at_work)}

    def _decode_newest(self, at_work: _AtWork) -> Iterator[tuple[str, Image.Image]]:
        if at_work.newest is None:
            return
        tracer, n, (index, step, xt) = at_work.tracer, len(at_work.rows), at_work.newest
        sigma = tracer.noise(index, step.timestep)
        try:
            latents = tracer.heading(xt[:n], tracer.velocity(step.model_output[:n]), sigma)
        except InvalidInput:  # noise alone, or overflow: the finished picture will tell
            return
        pixels = self._decoded(tracer.pipeline, latents, at_work.rows[0])
        if pixels is not None:
            yield from zip((row.id for row in at_work.rows), map(_image, pixels), strict=True)

    def learn(self, latents: np.ndarray | None, images: Sequence[Image.Image]) -> None:
        """Fit the colours of latents to finished pictures, including these."""
        if latents is None or len(images) != len(latents):  # enough data, or blanked pictures
            return
        if (grid := _grid(latents, *images[0].size)) is None:
            return
        n, n_tall, n_wide, n_channels = grid.shape
        side = max(1, min(math.isqrt(n_channels), _MOST_SIDE, images[0].width // n_wide))
        size = n_wide * side, n_tall * side
        small = [image.convert("RGB").resize(size, Image.Resampling.BOX) for image in images]
        colours = np.stack([np.asarray(image, dtype=np.float64) / 255 for image in small])
        pixels = colours.reshape(n, n_tall, side, n_wide, side, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, side**2 * 3)
        places = _list_neighbourhoods(grid).astype(np.float64)
        with self._learning:
            new_products = places.T @ places, places.T @ pixels
            self._products = [a + b for a, b in zip(self._products, new_products, strict=True)]
            among, with_colours = self._products
            self._map = np.linalg.lstsq(among, with_colours, rcond=None)[0].astype(np.float32)
            self._n_learnt += n

    def forget(self) -> None:
        """Forget the fit, since other weights have other colours."""
        self._map, self._products, self._n_learnt = None, [0.0, 0.0], 0

    def _tracer(self, pipeline: Any, model: str) -> Tracer | None:
        checked = getattr(pipeline, "safety_checker", None) is not None  # which checks finished pictures only
        if self._mode == "off" or (self._mode == "auto" and (checked or not _is_small(_decoder(pipeline)))):
            return None
        try:
            return Tracer(pipeline, velocity_space(pipeline_facts(pipeline), model))
        except InvalidInput:  # this family or sampler has no known prediction per step
            return None

    def _decoded(self, pipeline: Any, latents: np.ndarray, row: ImageRow) -> np.ndarray | None:
        """Pixels ``(n, h, w, 3)`` in [0, 1]; None if there is no way to make them yet."""
        grid = None if self._map is None else _grid(latents, row.width, row.height)
        if grid is not None and self._map is not None:
            (n, n_tall, n_wide, _), side = grid.shape, math.isqrt(self._map.shape[1] // 3)
            pixels = (_list_neighbourhoods(grid) @ self._map).reshape(n, n_tall, n_wide, side, side, 3)
            return pixels.transpose(0, 1, 3, 2, 4, 5).reshape(n, n_tall * side, n_wide * side, 3)
        if (decoder := _small_decoder(pipeline, latents)) is None:
            return None
        shift = decoder.config.get("shift_factor") or 0.0
        scaled = torch.from_numpy(latents / decoder.config.scaling_factor + shift)
        decoded = decoder.decode(scaled.to(decoder.device, decoder.dtype)).sample
        finished: np.ndarray = (decoded.float().cpu().numpy().transpose(0, 2, 3, 1) + 1) / 2
        return finished


def _nothing() -> np.ndarray | None:
    """No latents to learn from."""
    return None


def _decoder(pipeline: Any) -> Any:
    return next((part for name in DECODERS if (part := getattr(pipeline, name, None)) is not None), None)


def _is_small(decoder: Any) -> bool:
    return decoder is not None and sum(weight.numel() for weight in decoder.parameters()) <= MOST_WEIGHTS


def _small_decoder(pipeline: Any, latents: Any) -> Any:
    """The pipeline's decoder, if it is small and takes such latents directly; else None."""
    decoder = _decoder(pipeline)
    config = {} if decoder is None else decoder.config
    if not config.get("scaling_factor") or config.get("latents_mean") or not _is_small(decoder):
        return None
    return decoder if latents.ndim == 4 and latents.shape[1] == config.get("latent_channels") else None


def _grid(latents: np.ndarray, width: int, height: int) -> np.ndarray | None:
    """Latents by position in the picture, ``(n, rows, columns, channels)``; None if their order is unknown."""
    if latents.ndim == 5 and latents.shape[2] == 1:  # a video of one frame
        latents = latents[:, :, 0]
    if latents.ndim == 4:
        return latents.transpose(0, 2, 3, 1)
    if latents.ndim == 3:  # packed row by row
        n_places = latents.shape[1]
        n_tall = max(1, round((n_places * height / width) ** 0.5))
        if n_places % n_tall == 0:
            return latents.reshape(len(latents), n_tall, n_places // n_tall, latents.shape[2])
    return None


def _list_neighbourhoods(grid: np.ndarray) -> np.ndarray:
    """Each position with its eight neighbours, and 1: ``(n_places, 9 channels + 1)``."""
    n_tall, n_wide = grid.shape[1:3]
    padded = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[:, i : i + n_tall, j : j + n_wide] for i in range(3) for j in range(3)]
    flat = np.concatenate([*around, np.ones_like(grid[..., :1])], axis=3)
    return flat.reshape(-1, flat.shape[3])


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))


_OWN_LORA = "lora"
_LORA_FILE = "pytorch_lora_weights.safetensors"
_SAMPLED_ALIKE = attrgetter(
    "condition", "text_condition", "num_inference_steps", "n_first_steps", "guidance_scale", "width", "height",
    "sampler",
)  # fmt: skip
_ONCE_MORE = "half precision gave no picture, so it was drawn again in float32"
_MOST_CALLS = 4  # at once: a fifth of a small model's call is Python, which one thread runs at a time
_OTHER_SEEDS = 3  # to try a model that has drawn nothing yet
_FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")


class _PictureBatches(Batches):
    filled_up = True

    def too_large(self, batch: Sequence[ImageRow]) -> NotEnoughMemory:
        size = f"{batch[0].width}x{batch[0].height}"
        return NotEnoughMemory(
            f"{self.name} ran out of memory at {len(batch)} pictures of {size} at a time; use a smaller model or a "
            "larger device"
        )


class DiffusersTextToImage(LazyModel[Any]):
    """Draws rows with a pipeline of a hub id or local folder; loads nothing before the first row.

    A condition is a LoRA in the folder ``loras``; ``base_condition`` is the pipeline without one. The text encoders may
    use another condition than the denoiser.

    Parameters
    ----------
    info : its ``options`` may hold ``base_condition``, ``batch_size`` (halved when memory runs out), ``cpu_threads``
        (a small model is no faster with more than one; several batches are drawn at once instead), ``dtype``,
        ``call`` (further arguments of the pipeline's call), and ``lora`` with ``lora_weight``: a LoRA that is always
        on, from a folder, a .safetensors file, or a hub id with "@revision" if pinned.
    source : hub id ``org/name``, or a folder with ``model_index.json``.
    loras : folder with one sub-folder per condition, or None.
    compiled : compile the denoiser on a GPU, worthwhile for hundreds of pictures.
    forming : show pictures while they form: "on", "off", or "auto" (with a small decoder).
    how : of :class:`bias_core.models.weights.LazyModel`.

    The kernels that a call runs through depend on its shape, and with them the last bits of a sum. So a call is
    always full (the last one is filled up with copies that are thrown away): a picture then has the same pixels whether
    it was asked for alone or among others. On other hardware, or with another ``batch_size``, single pixels can differ
    by one of 255 levels.
    """

    def __init__(
        self,
        info: ModelInfo,
        source: str,
        *,
        loras: Path | None = None,
        compiled: bool = False,
        forming: str = "auto",
        **kwargs: Any,
    ):
        batch_size = first_batch_size(info, get_machine(), kwargs.get("device", "auto"))
        self._is_sized = False  # true once the weights have decided the size of a batch
        self._most_per_call = 0  # pictures, if several calls of the pipeline draw a batch; else 0
        super().__init__(info.id, source, batch_size=batch_size, **kwargs)
        self.info, self.loras, self.compiled = info, loras, compiled
        self._batches = _PictureBatches(info.id, batch_size)
        self._texts, self._forming = calls.TextCache(), FormingPictures(forming)
        self._base = str(info.options.get("base_condition", ""))
        self._conditions = self._base, self._base  # of the denoiser's weights, and of the text encoders'
        self._draws = False  # true if a picture came out since the weights were loaded

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order, a batch at a time.

        A picture's row has the drawn size if the model draws another size than requested. A picture that is NaN
        or black all over is drawn again in float32; if that does not help it is ``blocked`` and
        says so. Raises ModelUnavailable: weights missing or corrupt, out of memory, or no picture comes out at all;
        Cancelled: from ``on_step``, at that denoising step; pictures yielded before are whole.
        """
        drawn = (_set_drawn_size(self._parts(), row) for row in rows)
        for _, alike in groupby(drawn, key=_drawn_together):
            draw = partial(self._generate_batch, on_step)
            for images in self._batches.run(list(alike), draw, max_size=None if self._can_batch() else 1):
                yield from images

    def forming(self) -> Mapping[str, Image.Image]:
        """Small previews of the pictures in progress; call it from ``on_step``."""
        with torch.inference_mode():
            return self._forming.pictures()

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

        The trajectory is that of the plain generation of ``row``, drawn first and alone, whose latents can differ in
        their last bits from one that is drawn with others. The sentences follow it, in batches as large as
        those of pictures. Velocities are kept in memory until all are there.

        Parameters
        ----------
        row : its prompt is the neutral one.
        attributes : with none, only the prompt's own velocity and predicted pictures are shown.
        guided : velocities with classifier-free guidance, if the sampler uses it, instead of the conditional ones.
        predicted : decode each step's predicted picture, with one pass of the VAE per step. No safety
            checker sees it.
        on_step : called after each step of each of these calls, and after each decoded picture.

        Raises InvalidInput: this family, or its scheduler, has no velocity; ModelUnavailable: weights missing
        or corrupt, or out of memory; Cancelled: from ``on_step``, at that step.
        """
        pipeline = self._parts()
        row = _set_drawn_size(pipeline, row)
        self._use_conditions(row)
        try:
            with use_sampler(pipeline, self.info, row.sampler):
                space = velocity_space(pipeline_facts(pipeline), self.info.id)
                yield from self._steps(row, attributes, space, guided=guided, predicted=predicted, on_step=on_step)
        except torch.OutOfMemoryError as error:
            raise self._batches.too_large([row]) from error

    def _steps(
        self,
        row: ImageRow,
        attributes: Sequence[Attribute],
        space: VelocitySpace,
        *,
        guided: bool,
        predicted: bool,
        on_step: StepCallback | None,
    ) -> Iterator[Step]:
        pipeline = self._parts()
        unguided = without_guidance(pipeline_facts(pipeline), row, self.info.options.get("call", {}))
        texts = [*(a.positive for a in attributes), *(a.negative for a in attributes)]
        alike, extra_arguments = row, dict[str, float]()
        if conditional := unguided is not None and not guided:
            alike, extra_arguments = unguided
            texts = [row.prompt, *texts]  # else the path has the velocity of the prompt
        n_calls = 1 + math.ceil(len(texts) / self._per_call())
        done = _step_counter(on_step, (n_calls + predicted) * row.num_inference_steps)
        tracer = Tracer(pipeline, space, after_step=done)
        path = tracer.path(partial(self._call, pipeline, [row]))
        rows = [replace(alike, prompt=text) for text in texts]
        parts = list(
            self._batches.run(
                rows,
                lambda batch: tracer.velocities(partial(self._call, pipeline, batch, **extra_arguments), path),
                max_size=self._per_call(),
            )
        )
        still_guided = conditional and getattr(pipeline, "do_classifier_free_guidance", False)
        for i, moment in enumerate(path):
            prompt_velocities = [] if conditional else [moment.velocity]
            velocities = _latents_to_array(torch.cat([*prompt_velocities, *(part[i] for part in parts)]))
            velocity, positive, negative = np.split(velocities, [1, 1 + len(attributes)])
            pixels = tracer.picture(partial(self._call, pipeline, [row]), moment) if predicted else None
            if predicted:
                done()
            yield Step(
                index=i,
                sigma=moment.sigma,
                xt=_latents_to_array(moment.xt)[0],
                velocity=velocity[0],
                velocity_positive=positive,
                velocity_negative=negative,
                predicted=None if pixels is None else calls.to_image(pixels, self.info.id),
                space=space,
                guided=bool((unguided is not None and guided) or still_guided),
            )

    def prior_embeddings(self, rows: Sequence[ImageRow]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` that the prior draws for these rows, from which the decoder draws their pictures.

        Raises InvalidInput: the model has no prior. ModelUnavailable: weights missing or corrupt, or out of memory.
        """
        pipeline = self._with_prior()

        def draw(batch: Sequence[ImageRow]) -> np.ndarray:
            self._use_conditions(batch[0])
            full = [*batch, *[batch[-1]] * (self._per_call() - len(batch))]  # as in a call that draws pictures
            arguments = calls.call_arguments(pipeline, self.info, full)
            with self._prior_only(pipeline, batch[0]):
                return unclip.prior_embeddings(pipeline, arguments)[: len(batch)]

        return np.concatenate(list(self._batches.run(list(rows), draw, max_size=self._per_call())))

    def prior_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` of texts by the CLIP of the prior."""
        pipeline = self._with_prior()
        with self._prior_only(pipeline):
            return unclip.text_embeddings(pipeline, texts)

    def prior_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Unit embeddings ``(n, d)`` of pictures by the CLIP of the prior."""
        pipeline, n = self._with_prior(), self._per_call()
        with self._prior_only(pipeline):
            parts = [images[first : first + n] for first in range(0, len(images), n)]
            return np.concatenate([unclip.image_embeddings(pipeline, part) for part in parts])

    def check_prior(self) -> None:
        """Raise InvalidInput for a local model without a prior; loads no weights."""
        if (facts := self._facts()) is not None:
            unclip.check_has_prior(self.info.id, facts.name)

    def _with_prior(self) -> Any:
        pipeline = self._parts()
        unclip.check_has_prior(self.info.id, type(pipeline).__name__)
        return pipeline

    @contextmanager
    def _prior_only(self, pipeline: Any, row: ImageRow | None = None) -> Iterator[None]:
        """Run the prior alone until the block ends."""
        with ExitStack() as call:
            if row is not None:
                call.enter_context(calls.errors_in_a_sentence(pipeline, self.info.id, row))
            call.enter_context(torch.random.fork_rng(devices=[]))
            call.enter_context(torch.inference_mode())
            yield

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """The part of each prompt that each text encoder reads; loads no weights; empty without local files."""
        return prompt_limits(self.info, self.source, self._value, prompts)

    def check_settings(self, row: ImageRow) -> tuple[str, ...]:
        """A sentence on each setting without an effect, or an unusual one, from local files; empty without."""
        if (facts := self._facts()) is None:
            return ()
        size, own_size = (row.width, row.height), (self.info.width, self.info.height)
        notes = other_size(row.model, size, self.drawn_size(*size))
        if not notes and self.drawn_size(*own_size) == size:
            notes = other_size(row.model, own_size, size)
        return (*unused_settings(facts, row, self.info.options.get("call", {})), *notes)

    def drawn_size(self, width: int, height: int) -> tuple[int, int]:
        """The size that the model draws for a requested size; loads no weights."""
        if (pipeline := self._value) is not None:
            return drawn_size(pipeline, width, height)
        return read_drawn_size(self.info, self.source, width, height)

    def check_sampler(self, sampler: str) -> None:
        """Raise InvalidInput for a sampler that this model cannot use; loads no weights."""
        check_sampler(self.info, self._facts(), sampler)

    def check_traceable(self) -> None:
        """Raise InvalidInput for a local model whose steps cannot be traced; loads no weights."""
        if (facts := self._facts()) is not None:
            velocity_space(facts, self.info.id)

    def check_rewriting(self) -> None:
        """Raise InvalidInput for a local model that rewrites no prompts itself; loads no weights."""
        if (facts := self._facts()) is not None and not calls.REWRITING & set(facts.call):
            raise calls.no_rewriting(self.info.id, facts.name)

    def _facts(self) -> PipelineFacts | None:
        pipeline = self._value
        return pipeline_facts(pipeline) if pipeline else read_facts(self.info, self.source)

    def pipeline(self) -> Any:
        """The diffusers pipeline, loaded now if necessary."""
        return self._parts()

    def use(self, pipeline: Any) -> None:
        """Draw with a diffusers pipeline in memory instead of the one in ``source``."""
        self._start_over()
        self._size_batches(pipeline)
        self._keep(pipeline)

    def unload(self) -> None:
        """Free the weights; the next row loads them again."""
        super().unload()
        self._start_over()

    def _can_batch(self) -> bool:
        return pipeline_facts(self._parts()).can_batch

    def _per_call(self) -> int:
        """Pictures in a call of the pipeline; one if other pictures of a call would change its pixels."""
        return min(self.batch_size, self._most_per_call or self.batch_size) if self._can_batch() else 1

    def _generate_batch(self, on_step: StepCallback | None, rows: Sequence[ImageRow]) -> list[GeneratedImage]:
        images = self._draw(on_step, rows)
        if failed := [i for i, image in enumerate(images) if _fault(image)]:
            for i, image in zip(failed, self._redraw_in_float32(on_step, [rows[i] for i in failed]), strict=False):
                images[i] = image
        self._draws = self._draws or not all(map(_fault, images))
        if not self._draws:
            self._check_other_seeds(on_step, images[0])
        return images

    def _redraw_in_float32(self, on_step: StepCallback | None, rows: Sequence[ImageRow]) -> list[GeneratedImage]:
        """Draw the pictures again in float32; none if the weights are in it already, or it does not fit."""
        images = list[GeneratedImage]()
        self._texts.clear()  # embeddings have the precision of the weights that made them
        with suppress(torch.OutOfMemoryError), calls.use_float32(self._parts()) as is_other:
            images = self._draw(on_step, rows) if is_other else []
        self._texts.clear()
        for i, image in enumerate(images):
            drawn = dict(image.drawn or {})
            images[i] = replace(image, drawn=drawn | {"warnings": [*drawn.get("warnings", ()), _ONCE_MORE]})
        return images

    def _check_other_seeds(self, on_step: StepCallback | None, failed: GeneratedImage) -> None:
        """Refuse a model that has drawn no picture yet, also not from a few other seeds."""
        for offset in range(1, 1 + _OTHER_SEEDS):
            (image,) = self._draw(on_step, [replace(failed.row, seed=failed.row.seed + offset)])
            if not _fault(image):
                self._draws = True
                return
        raise ModelUnavailable(f"{self.info.id} {_fault(failed)}, from other seeds, too: {calls.NO_PICTURES}")

    def _draw(self, on_step: StepCallback | None, rows: Sequence[ImageRow]) -> list[GeneratedImage]:
        """Draw a batch of one condition, in several calls at once if it is larger than a call."""
        self._use_conditions(rows[0])
        pipeline, n = self._parts(), self._per_call()
        parts = [rows[first : first + n] for first in range(0, len(rows), n)]
        if len(parts) == 1:
            return self._drawn_in_a_call(pipeline, on_step, rows)
        on_step = on_step and _merge_step_reports(on_step, len(parts))
        with torch.random.fork_rng(devices=[]), ThreadPoolExecutor(len(parts), "bias-draw") as pool:
            calls_at_once = [
                pool.submit(copy_context().run, self._drawn_in_a_call, _sharing_weights(pipeline), on_step, part)
                for part in parts
            ]
        return [image for call in calls_at_once for image in call.result()]

    def _drawn_in_a_call(
        self, pipeline: Any, on_step: StepCallback | None, rows: Sequence[ImageRow]
    ) -> list[GeneratedImage]:
        full, n_first_steps = [*rows, *[rows[-1]] * (self._per_call() - len(rows))], self._n_first_steps(rows[0])
        arguments = calls.call_arguments(pipeline, self.info, full)
        with calls.warnings_of_diffusers() as warnings, ExitStack() as call:
            call.enter_context(use_sampler(pipeline, self.info, rows[0].sampler))
            done = calls.report_steps(pipeline, arguments, on_step, n_before=n_first_steps)
            if n_first_steps:
                first_call = partial(self._call, pipeline, full)
                call.enter_context(repeat_first_steps(pipeline, first_call, n_first_steps, done))
                full = [replace(row, prompt=row.later_prompt) for row in full]
            callbacks, latents = dict[str, Any](), _nothing
            if on_step is not None:
                latents = call.enter_context(self._forming.watching(pipeline, self.info.id, rows))
                callbacks = call.enter_context(calls.after_each_step(pipeline, done))
            output = self._call(pipeline, full, **callbacks)
        notes = calls.records(pipeline, arguments, output, warnings, rows)
        size = {BATCH_SIZE: len(full)} if gpu_memory(get_machine(), self._wanted_device) else {}
        drawn = enumerate(zip(rows, notes, strict=False))
        images = [self._generated(row, output, i, record | size) for i, (row, record) in drawn]
        self._forming.learn(latents(), [image.image for image in images if not image.blocked])
        return images

    def _n_first_steps(self, row: ImageRow) -> int:
        """The number of steps before its text changes; 0 if it does not."""
        if not row.later_prompt:
            return 0
        velocity_space(pipeline_facts(self._parts()), self.info.id)  # with one, a step is one step of the scheduler
        if not 0 < row.n_first_steps < row.num_inference_steps:
            raise InvalidInput(
                f"a text is exchanged after 1 to {row.num_inference_steps - 1} of {row.num_inference_steps} steps; got "
                f"{row.n_first_steps}"
            )
        return row.n_first_steps

    def _call(self, pipeline: Any, rows: Sequence[ImageRow], **extra_arguments: Any) -> Any:
        with ExitStack() as call:
            call.enter_context(calls.errors_in_a_sentence(pipeline, self.info.id, rows[0]))
            call.enter_context(self._texts.use_cache(pipeline))
            call.enter_context(calls.guiders_set(pipeline, rows))
            call.enter_context(torch.random.fork_rng(devices=[]))  # some families seed for all
            call.enter_context(torch.inference_mode())
            call.enter_context(computing_threads(int(self.info.options.get("cpu_threads", 0))))
            return pipeline(**calls.call_arguments(pipeline, self.info, rows, **extra_arguments))

    def _generated(self, row: ImageRow, output: Any, i: int, drawn: dict[str, Any]) -> GeneratedImage:
        pixels = calls.output_pixels(output)[i]
        blocked = any(flags[i] for flags in (getattr(output, name, None) for name in _FLAGS) if flags)
        finite = np.isfinite(pixels).all()
        image = calls.to_image(pixels if finite else np.zeros_like(pixels), self.info.id)
        if not blocked and not image.getbbox():
            blocked = True
            drawn = drawn | {BLOCK_REASON: f"drew {'a picture that is black all over' if finite else 'NaN pixels'}"}
        width, height = image.size
        row = replace(row, width=width, height=height)  # by an unknown rule of the family
        return GeneratedImage(row=row, image=image, blocked=blocked, drawn=drawn | {"width": width, "height": height})

    def _load(self) -> Any:
        with one_import_at_a_time:
            from bias_core.models.pipeline_loader import load_pipeline

        device, compiled = self._wanted_device, self.compiled
        pipeline = load_pipeline(self.info, self.source, device=device, offline=self._offline, compiled=compiled)
        self._size_batches(pipeline)
        if lora := str(self.info.options.get("lora", "")):
            source, revision = split_revision(lora)
            weight, model = float(self.info.options.get("lora_weight", 1.0)), self.info.id
            put_on(pipeline, model, source, name=_OWN_LORA, revision=revision, weight=weight, offline=self._offline)
        self._start_over()
        return pipeline

    def _size_batches(self, pipeline: Any) -> None:
        """Let the weights decide how many pictures are drawn at a time, once: a size that was halved stays."""
        if not self._is_sized:
            with one_import_at_a_time:
                from bias_core.models.pipeline_loader import component_sizes

            weights = sum(component_sizes(pipeline).values())
            size = first_batch_size(self.info, get_machine(), self._wanted_device, weights)
            if (n_calls := self._calls_at_once(pipeline)) > 1:
                self._most_per_call = size
            self._batches.size = size * n_calls
            self._is_sized = True

    def _calls_at_once(self, pipeline: Any) -> int:
        """As many as the processor has threads for, if the model needs few; else one, as for several stages."""
        n_threads = int(self.info.options.get("cpu_threads", 0))
        is_one_stage = not any(isinstance(part, diffusers.DiffusionPipeline) for part in vars(pipeline).values())
        can_share = is_one_stage and pipeline_facts(pipeline).can_batch and pick_device(self._wanted_device) == "cpu"
        return max(1, min(_MOST_CALLS, cpu_threads() // n_threads)) if n_threads and can_share else 1

    def _start_over(self) -> None:
        """Reset the state for fresh weights, which have no adapter and no cached answers."""
        self._conditions = self._base, self._base
        self._draws = False
        self._texts.clear()
        self._forming.forget()

    def _use_conditions(self, row: ImageRow) -> None:
        """Switch the LoRAs; earlier ones are removed completely."""
        drawing = row.condition or self._base
        conditions = drawing, row.text_condition or drawing
        if conditions == self._conditions:
            return
        pipeline = self._parts()
        if self.info.options.get("lora"):
            self._start_over()
            drawn, texts = ("" if condition == WITHOUT_ADAPTER else _OWN_LORA for condition in conditions)
            use_in_parts(pipeline, denoiser=drawn, text_encoders=texts)
            self._conditions = conditions
            return
        if self._conditions != (self._base, self._base):
            pipeline.unload_lora_weights()
        self._start_over()  # an adapter may change the text encoders too
        if names := [name for name in dict.fromkeys(conditions) if name != self._base]:
            self._put_on(pipeline, names)
            if len(set(conditions)) > 1:
                use_in_parts(pipeline, denoiser=conditions[0], text_encoders=conditions[1])
            self._conditions = conditions

    def _put_on(self, pipeline: Any, conditions: Sequence[str]) -> None:
        for condition in conditions:
            folder = (self.loras or Path()) / condition
            if not (folder / _LORA_FILE).is_file():
                raise ModelUnavailable(
                    f"{self.info.id}: the adapter for {condition!r} is missing ({folder / _LORA_FILE})"
                )
        super().unload()  # a half-loaded adapter must not stay in use
        for condition in conditions:
            folder = (self.loras or Path()) / condition
            put_on(pipeline, f"{self.info.id}, condition {condition}", str(folder), name=condition, file=_LORA_FILE)
        self._unchanged()
        self._keep(pipeline)


def _fault(image: GeneratedImage) -> str:
    """The reason that this is not a picture; "" for pictures, also blanked ones."""
    return str((image.drawn or {}).get(BLOCK_REASON, ""))


def _drawn_together(row: ImageRow) -> tuple[Any, ...]:
    """Settings that all rows of a batch share."""
    return bool(row.negative_prompt), bool(row.later_prompt), *_SAMPLED_ALIKE(row)


def _sharing_weights(pipeline: Any) -> Any:
    """A copy that can draw at the same time: its networks are the same, with a forward pass to replace of its own."""
    twin = copy(pipeline)
    for name, part in pipeline.components.items():
        if is_network := isinstance(part, torch.nn.Module):
            network = copy(part)
            network.forward = part.forward  # of the original, which knows which hooks its layers have
        setattr(twin, name, network if is_network else deepcopy(part))
    return twin


def _merge_step_reports(on_step: StepCallback, n_calls: int) -> StepCallback:
    """Report the steps of several calls at once as those of one, and one at a time."""
    n_done, reporting = count(1), threading.Lock()

    def on_step_of_one(_step: int, n_steps: int) -> None:
        with reporting:
            on_step(math.ceil(next(n_done) / n_calls), n_steps)

    return on_step_of_one


def _set_drawn_size(pipeline: Any, row: ImageRow) -> ImageRow:
    width, height = drawn_size(pipeline, row.width, row.height)
    return replace(row, width=width, height=height)


def _latents_to_array(tensor: Any) -> np.ndarray:
    """Latents ``(n, c, h, w)`` unchanged, others as rows ``(n, d)``."""
    arrays: np.ndarray = tensor.float().cpu().numpy()
    return arrays if arrays.ndim == 4 else arrays.reshape(len(arrays), math.prod(arrays.shape[1:]))


def _step_counter(on_step: StepCallback | None, total: int) -> Callable[[], None]:
    steps = count(1)
    return lambda: on_step(min(next(steps), total), total) if on_step is not None else None
