"""What the pictures at work are heading for, small and at low cost; what is drawn does not change by it.

Where a step is heading is what a trace says of it (:mod:`bias_core.adapters.tracing`). To decode that would take half
as long as the step, or longer: its colours are a linear map of the latent, of each place with those around it, which is
fitted to the first finished pictures. Until there are some, a small decoder, such as that of the calibration world,
decodes a few steps.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from bias_core.adapters import torch
from bias_core.adapters.family_facts import DECODERS, facts_of
from bias_core.adapters.pipeline_call import SchedulerStep, step_replaced
from bias_core.adapters.tracing import Tracer, following_of, velocity_space
from bias_core.errors import InvalidInput
from bias_core.types import ImageRow

MOST_WEIGHTS = 5_000_000  # of a small decoder with its encoder: a tiny autoencoder has half as many
_MOST_SIDE = 4  # pixels of a place of the latent
_ENOUGH = 64  # finished pictures to learn colours from


@dataclass(kw_only=True)
class _AtWork:
    """A call of a pipeline at its newest step."""

    rows: Sequence[ImageRow]
    tracer: Tracer
    step: SchedulerStep | None = None
    xt: Any = None  # as the network saw it
    following: Any = None  # the latent that the scheduler went to
    n_steps: int = 0


class FormingPictures:
    """Of one generator, a call at a time.

    ``mode``: "on", "off", or "auto": where the decoder is small, and no safety checker could blank what is finished.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._at_work: _AtWork | None = None
        self._map: np.ndarray | None = None  # from a place of the latent with those around it, and 1, to its pixels
        self._latents: np.ndarray | None = None  # of the last step of the newest call
        self._products: list[Any] = [0.0, 0.0]  # of places with places, and with their colours
        self._n_learnt = 0

    @contextmanager
    def watching(self, pipeline: Any, model: str, rows: Sequence[ImageRow]) -> Iterator[None]:
        """Look at each step of a call, whose further pictures are copies, until the block ends."""
        tracer = self._tracer(pipeline, model)
        if tracer is None:
            yield
            return
        at_work = _AtWork(rows=rows, tracer=tracer)

        def look(step: SchedulerStep) -> Any:
            at_work.xt, at_work.step = tracer.network_input(step), step
            answer = step.answer()
            at_work.n_steps += 1
            at_work.following = following_of(answer)
            return answer

        self._at_work, self._latents = at_work, None
        try:
            with step_replaced(pipeline.scheduler, look):
                yield
            if self._n_learnt < _ENOUGH and at_work.step is not None:
                self._latents = at_work.following[: len(rows)].float().cpu().numpy()
        finally:
            self._at_work = None

    def pictures(self) -> Mapping[str, Image.Image]:
        """What each picture of the call at work is heading for, by the id of its row; none where that is not known."""
        at_work = self._at_work
        if at_work is None or at_work.step is None:
            return {}
        tracer, n = at_work.tracer, len(at_work.rows)
        sigma = tracer.noise(at_work.n_steps - 1, at_work.step.timestep)
        xt, output = at_work.xt[:n].cpu(), at_work.step.model_output[:n]
        try:
            latents = tracer.heading(xt, tracer.velocity(output), sigma)
        except InvalidInput:  # noise alone, or numbers that overflowed: the finished picture will say so
            return {}
        pixels = self._decoded(tracer.pipeline, latents, at_work.rows[0])
        return {} if pixels is None else dict(zip((row.id for row in at_work.rows), map(_image, pixels), strict=True))

    def learn(self, images: Sequence[Image.Image]) -> None:
        """Fit the colours of latents to finished pictures, those of the newest call among them."""
        latents, self._latents = self._latents, None
        if latents is None or len(images) != len(latents):  # enough is known, or some were blanked
            return
        if (grid := _grid(latents, *images[0].size)) is None:
            return
        n, n_tall, n_wide, n_channels = grid.shape
        side = max(1, min(math.isqrt(n_channels), _MOST_SIDE, images[0].width // n_wide))
        size = n_wide * side, n_tall * side
        small = [image.convert("RGB").resize(size, Image.Resampling.BOX) for image in images]
        colours = np.stack([np.asarray(image, dtype=np.float64) / 255 for image in small])
        pixels = colours.reshape(n, n_tall, side, n_wide, side, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, side**2 * 3)
        places = _places(grid).astype(np.float64)
        self._products = [a + b for a, b in zip(self._products, (places.T @ places, places.T @ pixels), strict=True)]
        among, with_colours = self._products
        self._map = np.linalg.lstsq(among, with_colours, rcond=None)[0].astype(np.float32)
        self._n_learnt += n

    def forget(self) -> None:
        """Other weights, other colours."""
        self._map, self._latents, self._products, self._n_learnt = None, None, [0.0, 0.0], 0

    def _tracer(self, pipeline: Any, model: str) -> Tracer | None:
        checked = getattr(pipeline, "safety_checker", None) is not None  # which looks at finished pictures alone
        if self._mode == "off" or (self._mode == "auto" and (checked or not _is_small(_decoder(pipeline)))):
            return None
        try:
            return Tracer(pipeline, velocity_space(facts_of(pipeline), model))
        except InvalidInput:  # nobody knows where a step of this family, or of its sampler, is heading
            return None

    def _decoded(self, pipeline: Any, latents: np.ndarray, row: ImageRow) -> np.ndarray | None:
        """Pixels ``(n, h, w, 3)`` in [0, 1]; None where no way to make them is known yet."""
        grid = None if self._map is None else _grid(latents, row.width, row.height)
        if grid is not None and self._map is not None:
            (n, n_tall, n_wide, _), side = grid.shape, math.isqrt(self._map.shape[1] // 3)
            pixels = (_places(grid) @ self._map).reshape(n, n_tall, n_wide, side, side, 3)
            return pixels.transpose(0, 1, 3, 2, 4, 5).reshape(n, n_tall * side, n_wide * side, 3)
        if (decoder := _small_decoder(pipeline, latents)) is None:
            return None
        shift = decoder.config.get("shift_factor") or 0.0
        scaled = torch.from_numpy(latents / decoder.config.scaling_factor + shift)
        decoded = decoder.decode(scaled.to(decoder.device, decoder.dtype)).sample
        finished: np.ndarray = (decoded.float().cpu().numpy().transpose(0, 2, 3, 1) + 1) / 2
        return finished


def _decoder(pipeline: Any) -> Any:
    return next((part for name in DECODERS if (part := getattr(pipeline, name, None)) is not None), None)


def _is_small(decoder: Any) -> bool:
    return decoder is not None and sum(weight.numel() for weight in decoder.parameters()) <= MOST_WEIGHTS


def _small_decoder(pipeline: Any, latents: Any) -> Any:
    """The pipeline's decoder, where it is small and takes such latents as they are; None for others."""
    decoder = _decoder(pipeline)
    config = {} if decoder is None else decoder.config
    if not config.get("scaling_factor") or config.get("latents_mean") or not _is_small(decoder):
        return None
    return decoder if latents.ndim == 4 and latents.shape[1] == config.get("latent_channels") else None


def _grid(latents: np.ndarray, width: int, height: int) -> np.ndarray | None:
    """Latents by their place in the picture, ``(n, rows, columns, channels)``; None where their order is not known."""
    if latents.ndim == 5 and latents.shape[2] == 1:  # a film of one picture
        latents = latents[:, :, 0]
    if latents.ndim == 4:
        return latents.transpose(0, 2, 3, 1)
    if latents.ndim == 3:  # packed row by row
        n_places = latents.shape[1]
        n_tall = max(1, round((n_places * height / width) ** 0.5))
        if n_places % n_tall == 0:
            return latents.reshape(len(latents), n_tall, n_places // n_tall, latents.shape[2])
    return None


def _places(grid: np.ndarray) -> np.ndarray:
    """Each place with the eight around it, and 1: ``(n_places, 9 channels + 1)``."""
    n_tall, n_wide = grid.shape[1:3]
    padded = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[:, i : i + n_tall, j : j + n_wide] for i in range(3) for j in range(3)]
    flat = np.concatenate([*around, np.ones_like(grid[..., :1])], axis=3)
    return flat.reshape(-1, flat.shape[3])


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray((np.clip(pixels, 0.0, 1.0) * 255).round().astype(np.uint8))
