"""Draw many pictures quickly and let the shipped reader say what each shows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from transformers import AutoTokenizer, VisionTextDualEncoderModel

from bias_core.errors import InvalidInput
from bias_core.world.measured_models import held_out_scenes, sentence_errors
from bias_core.world.planted import SENTENCES
from training.captions import random_request
from training.clip import Reader, crop_person
from training.embedding import Embedding, as_two_towers, read_tokens
from training.loop import autocast_dtype, to_tensor
from training.wanted import AXES, PAIR, Group

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

    from bias_core.types import ReaderErrors

MEASURED, JUDGED = 0, 3_500_000_000
"""First seeds of the pictures that trainings measure, and of those of the final judgement.

torch takes the last 32 bits of a seed alone, so that from 2**36, where judgements began once, came the same noises as
from 0; those from 3_000_000_000 up to here told how words were to be aimed anew. A judgement has pictures of its own
as long as both stay below 2**32. Concepts that were mended after it ("janitor", "musician", "philosophy", and pairs)
were judged anew from 3_700_000_000, those whose words were set upright by hand from 3_800_000_000."""
STEPS = 8
"""Steps per picture. Rates at 6, 8, 12 and 20 steps differ by at most 0.03 (128 pictures, 12 attributes)."""


class Drawing:
    """A generator, in 16 bit where that is quicker, and a reader, with its errors on every axis."""

    def __init__(self, pipe: StableDiffusion3Pipeline, clip: Path) -> None:
        self.pipe = pipe
        self.dtype = autocast_dtype(pipe.device.type)
        self.take_weights()
        pipe.vae.requires_grad_(False)
        self.decoder = deepcopy(pipe.vae).to(self.dtype, memory_format=torch.channels_last)  # a third of the time
        model = VisionTextDualEncoderModel.from_pretrained(clip, torch_dtype=torch.float32).eval()
        self.reader = Reader(model.requires_grad_(False), AutoTokenizer.from_pretrained(clip), "cpu")
        self.sentences = [SENTENCES[axis] for axis in AXES]
        with torch.no_grad():
            texts = self.reader.texts([s for pair in self.sentences for s in pair]).view(len(AXES), 2, -1)
        self.contrast = texts[:, 0] - texts[:, 1]
        self.errors = self._errors(clip / "held_out.npz", texts)

    def take_weights(self, transformer: torch.nn.Module | None = None) -> None:
        """Draw from now on with this transformer; None: the pipeline's own."""
        self.transformer = deepcopy(transformer or self.pipe.transformer).to(self.dtype).eval().requires_grad_(False)

    def embed(self, prompts: Sequence[str]) -> Embedding:
        """The text tower's embedding of prompts."""
        tokens = self.pipe.tokenizer(list(prompts), padding="max_length", truncation=True, return_tensors="pt")
        return read_tokens(self.pipe.text_encoder, tokens["input_ids"])

    def _errors(self, path: Path, texts: torch.Tensor) -> list[ReaderErrors | None]:
        with np.load(path) as held_out:
            rows, seed = held_out["image_embeddings"], int(held_out["seed"])
        scenes = held_out_scenes(seed, len(rows))
        pairs = zip(self.sentences, texts.numpy(), strict=True)
        return [sentence_errors(rows, text, scenes, *pair) for pair, text in pairs]

    @torch.no_grad()
    def draw(self, text: Embedding, seed: int, *, steps: int = STEPS) -> torch.Tensor:
        """One picture per embedded prompt, ``(n, 3, h, h)`` in [-1, 1]."""
        parts = zip(*(part.split(64) for part in text), strict=True)
        return torch.cat([self.pictures(part, seed + i, steps) for i, part in enumerate(parts)])

    def pictures(self, text: Embedding, seed: int, steps: int) -> torch.Tensor:
        """As :meth:`draw`, all at once, and the words can learn from them."""
        config = self.pipe.vae.config
        z = self.latents(text, seed, steps) / config.scaling_factor + config.shift_factor
        z = z.to(self.dtype, memory_format=torch.channels_last)
        return self.decoder.decode(z).sample.float().contiguous().clamp(-1, 1)

    def latents(self, text: Embedding, seed: int, steps: int) -> torch.Tensor:
        """Pictures as the transformer sees them, ``(n, 4, 16, 16)``."""
        n = len(text[0])
        x = opposite_noise(n, seed)
        states, pooled = (t.to(self.dtype) for t in as_two_towers(text))
        self.pipe.scheduler.set_timesteps(steps)
        sigmas = self.pipe.scheduler.sigmas
        for sigma, after in itertools.pairwise(sigmas):
            v = self.transformer(
                hidden_states=x.to(self.dtype), timestep=(1000 * sigma).expand(n),
                encoder_hidden_states=states, pooled_projections=pooled, return_dict=False,
            )[0]  # fmt: skip
            x = x + (after - sigma) * v.float()
        return x

    @torch.no_grad()
    def shows(self, pictures: torch.Tensor) -> torch.Tensor:
        """True where the reader finds an axis in a picture, ``(n, 12)``."""
        parts = [self.reader.images(part) @ self.contrast.T > 0 for part in pictures.split(256)]
        return torch.cat(parts)

    def corrected(self, shares: np.ndarray) -> np.ndarray:
        """Shares ``(..., 12)`` without the reader's known errors, in [0, 1] [rogan1978, Eq. 1]."""
        known = [(e.sensitivity, e.specificity) if e else (1.0, 1.0) for e in self.errors]
        se, sp = np.array(known).T
        if (se + sp <= 1).any():
            raise InvalidInput("This reader tells no more than chance does; train it before rates are measured.")
        return np.clip((shares - (1 - sp)) / (se + sp - 1), 0.0, 1.0)


def any_pictures(pipe: StableDiffusion3Pipeline, clip: Path, n: int, *, seed: int) -> torch.Tensor:
    """``n`` pictures of random prompts, half of them of pairs, and the people of these alone, ``(m, 3, h, h)``."""
    drawing, rng = Drawing(pipe, clip), Random(seed)
    requests = [random_request(rng, pairs=0.5) for _ in range(n)]
    pictures = drawing.draw(drawing.embed([prompt for prompt, _ in requests]), seed)
    pairs = torch.tensor([len(request.people) == 2 for _, request in requests])
    return torch.cat([pictures, *halves(pictures[pairs])])


def opposite_noise(n: int, seed: int) -> torch.Tensor:
    """Noise ``(n, 4, 16, 16)`` of which every second is the one before it with its sign turned.

    The noise decides the person more than the noun does, and opposite noise mostly draws the other gender
    (correlation -0.4). A rate of ``n`` pictures is as right as before, and as sure as that of 1.7 ``n``.
    """
    generator = torch.Generator().manual_seed(seed)
    half = torch.randn((n + 1) // 2, 4, 16, 16, generator=generator)
    return torch.stack([half, -half], dim=1).flatten(0, 1)[:n]


def halves(pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The left and the right person of each pair, on pictures of their own."""
    pixels = ((pictures.permute(0, 2, 3, 1) + 1) * 127.5).round().byte().numpy()
    images = [Image.fromarray(picture) for picture in pixels]
    left, right = (to_tensor([crop_person(image, side) for image in images]) for side in (0, 1))
    return left, right


def measured(
    drawing: Drawing,
    groups: Sequence[Group],
    chosen: Sequence[int],
    *,
    n: int,
    seed: int,
    rng: Random,
    steps: int = STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures that show each axis, and pictures, ``(groups, axes)``: ``n`` of each of the groups chosen.

    Pair groups stand beside each other in random pairs; one is left over where their seats are odd.
    """
    counts = np.zeros((2, len(groups), len(AXES)))
    seats = [i for i in chosen if groups[i].pair for _ in range(n)]
    rng.shuffle(seats)
    alone = [(i,) for i in chosen if not groups[i].pair for _ in range(n)]
    for jobs in (alone, list(zip(seats[::2], seats[1::2], strict=False))):
        for start in range(0, len(jobs), 512):
            part: list[tuple[int, ...]] = list(jobs[start : start + 512])
            nouns = [[rng.choice(groups[i].prompts) for i in job] for job in part]
            prompts = [PAIR.format(*told) if len(told) == 2 else told[0] for told in nouns]
            pictures = drawing.draw(drawing.embed(prompts), seed, steps=steps)
            seed += len(part)
            people = halves(pictures) if len(part[0]) == 2 else (pictures,)
            for side, person in enumerate(people):
                for job, axes in zip(part, drawing.shows(person).numpy(), strict=True):
                    counts[0, job[side]] += axes
                    counts[1, job[side]] += 1
    return counts[0], counts[1]
