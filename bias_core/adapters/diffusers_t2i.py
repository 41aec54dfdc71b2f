"""Any text-to-image pipeline of diffusers, with one CPU generator per picture."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from bias_core.adapters import pipeline_call as calls
from bias_core.adapters.family_facts import (
    PipelineFacts,
    drawn_size,
    drawn_size_at,
    facts_at,
    facts_of,
    other_size,
    prompt_limits,
    unused_settings,
)
from bias_core.adapters.loras import put_on
from bias_core.adapters.pipeline_loader import first_batch_size, load_pipeline
from bias_core.adapters.weights import Weights
from bias_core.errors import ModelUnavailable, NotEnoughMemory
from bias_core.models.catalogue import split_revision
from bias_core.models.machine import this_machine
from bias_core.protocols import StepCallback
from bias_core.types import Attribute, GeneratedImage, ImageRow, ModelInfo, PromptLimit, Step

_log = logging.getLogger(__name__)
_LORA_FILE = "pytorch_lora_weights.safetensors"
_FLAGS = ("nsfw_content_detected", "nsfw_detected", "watermark_detected")


class DiffusersTextToImage:
    """Draws rows with a pipeline from a hub id or a local folder; loads nothing before the first row.

    A condition is a LoRA in the folder ``loras``; ``base_condition`` is the pipeline without one.

    Parameters
    ----------
    info : its ``options`` may hold ``base_condition``, ``batch_size`` (halved when memory runs out),
        ``dtype``, ``call`` (further arguments of the pipeline's call), and ``lora`` with ``lora_weight``: a
        LoRA that is always on, from a folder, a .safetensors file, or a hub id with "@revision" where that
        is pinned.
    source : hub id ``org/name``, or a folder with ``model_index.json``.
    loras : folder with one sub-folder per condition, or None.
    device : "auto", "cpu", "cuda" or "mps".
    offline : never ask the hub.
    compiled : compile the denoiser on a GPU, which pays for hundreds of pictures.
    unchanged : called when files were read; raises where they are not those of ``info`` any more.

    Notes
    -----
    The kernels that a batch runs through depend on its shape, and with them the last bits of a sum. So a
    batch is always full (the last one is filled up with copies that are thrown away): a picture then has
    the same pixels whether it was asked for alone or among others. On other hardware, or with another
    ``batch_size``, single pixels can differ by one of 255 levels.
    """

    def __init__(
        self,
        info: ModelInfo,
        source: str,
        *,
        loras: Path | None = None,
        device: str = "auto",
        offline: bool = False,
        compiled: bool = False,
        unchanged: Callable[[], None] = lambda: None,
    ) -> None:
        self.info, self.source, self.loras = info, source, loras
        self.offline, self.compiled = offline, compiled
        self.batch_size = first_batch_size(info, this_machine(), device)
        self._wanted_device, self._unchanged = device, unchanged
        self._weights: Weights[Any] = Weights(info.id, source, self._load, unchanged)
        self._texts = calls.TextCache()
        self._condition = self._base = str(info.options.get("base_condition", ""))

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        """Yield one picture per row, in order, a batch at a time.

        A picture's row has the size that was drawn, where this model draws another than was asked for.

        Raises
        ------
        ModelUnavailable
            Weights missing or corrupt, out of memory, or the model answers NaN.
        Cancelled
            From ``on_step``, at that denoising step; pictures yielded before are whole.
        """
        for _, alike in groupby((_as_drawn(self._weights(), row) for row in rows), key=_call_settings):
            rows, start = list(alike), 0
            while start < len(rows):
                drawn = self._generate_or_shrink(rows[start : start + self._at_once()], on_step)
                start += len(drawn)
                yield from drawn

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
        guided : velocities with classifier-free guidance, where the sampler uses it, instead of the
            conditional ones.
        predicted : decode the picture that each step is heading for, a pass of the VAE a step. No safety
            checker looks at it.

        Raises
        ------
        InvalidInput
            This family, or its scheduler, has no velocity.
        ModelUnavailable
            Weights missing or corrupt, or out of memory.
        Cancelled
            From ``on_step``, at that step.
        """
        import torch

        from bias_core.adapters.diffusers_trace import Tracer, velocity_space

        pipeline = self._weights()
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
            raise self._too_large(rows) from error

    def prompt_limits(self, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
        """What each text encoder takes of each prompt, in order; no weights are loaded for this.

        Empty where the model is not on this machine.
        """
        return prompt_limits(self.info, self.source, self._weights.value, prompts)

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
        if (pipeline := self._weights.value) is not None:
            return drawn_size(pipeline, width, height)
        return drawn_size_at(self.info, self.source, width, height)

    def check_traceable(self) -> None:
        """Refuse, by InvalidInput, a model that is here and whose steps cannot be traced; loads no weights."""
        from bias_core.adapters.diffusers_trace import velocity_space

        if (facts := self._facts()) is not None:
            velocity_space(facts, self.info.id)

    def _facts(self) -> PipelineFacts | None:
        pipeline = self._weights.value
        return facts_of(pipeline) if pipeline else facts_at(self.info, self.source)

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._weights.value is not None

    def pipeline(self) -> Any:
        """The pipeline of diffusers itself, loaded now if it is not."""
        return self._weights()

    def use(self, pipeline: Any) -> None:
        """Draw with a pipeline of diffusers that is in memory already, in place of what ``source`` holds."""
        self._start_over()
        self._weights.keep(pipeline)

    def unload(self) -> None:
        """Forget the weights; the next row loads them again."""
        self._weights.drop()
        self._start_over()

    def _generate_or_shrink(self, rows: list[ImageRow], on_step: StepCallback | None) -> list[GeneratedImage]:
        """The pictures of a batch; none of them, and smaller batches from then on, where memory ran out."""
        import torch

        try:
            return self._generate_batch(rows, on_step)
        except torch.OutOfMemoryError as error:
            if self.batch_size == 1:
                raise self._too_large(rows) from error
        self.batch_size //= 2
        torch.cuda.empty_cache()  # after the except block, which holds on to the failed batch
        _log.warning("%s: memory ran out; %d pictures at a time from now on", self.info.id, self.batch_size)
        return []

    def _at_once(self) -> int:
        """Pictures in a batch; one where what is drawn beside a picture would change its pixels."""
        return self.batch_size if facts_of(self._weights()).in_batches else 1

    def _generate_batch(self, rows: list[ImageRow], on_step: StepCallback | None) -> list[GeneratedImage]:
        import torch

        pipeline = self._weights()
        self._use_condition(rows[0].condition)
        full = rows + [rows[-1]] * (self._at_once() - len(rows))
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

    def _too_large(self, rows: list[ImageRow]) -> ModelUnavailable:
        return NotEnoughMemory(
            f"{self.info.id} ran out of memory at {len(rows)} pictures of "
            f"{rows[0].width}x{rows[0].height} at a time; use a smaller model or a larger device"
        )

    def _load(self) -> Any:
        device, compiled = self._wanted_device, self.compiled
        pipeline = load_pipeline(self.info, self.source, device=device, offline=self.offline, compiled=compiled)
        if lora := str(self.info.options.get("lora", "")):
            source, revision = split_revision(lora)
            weight, model = float(self.info.options.get("lora_weight", 1.0)), self.info.id
            put_on(pipeline, model, source, name="lora", revision=revision, weight=weight, offline=self.offline)
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
        pipeline = self._weights()
        if self._condition != self._base:
            pipeline.unload_lora_weights()
        self._start_over()  # an adapter may change the text encoders too
        if condition == self._base:
            return
        folder = (self.loras or Path()) / condition
        if not (folder / _LORA_FILE).is_file():
            raise ModelUnavailable(f"{self.info.id}: the adapter for {condition!r} is missing ({folder / _LORA_FILE})")
        self._weights.drop()  # a half-loaded adapter must not stay in use
        model = f"{self.info.id}, condition {condition}"
        put_on(pipeline, model, str(folder), name=condition, file=_LORA_FILE)
        self._unchanged()
        self._weights.keep(pipeline)
        self._condition = condition


def _as_drawn(pipeline: Any, row: ImageRow) -> ImageRow:
    width, height = drawn_size(pipeline, row.width, row.height)
    return replace(row, width=width, height=height)


def _call_settings(row: ImageRow) -> tuple[str, bool, int, float, int, int]:
    """Rows that agree here can share a batch; prompts and seeds may differ."""
    guided = (bool(row.negative_prompt), row.num_inference_steps, row.guidance_scale)
    return row.condition, *guided, row.width, row.height
