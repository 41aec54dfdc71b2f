"""Learn the directions: what a plain prompt lacks so that the generator answers as to one that names more."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from bias_core.calibration.captions import noun_phrases, with_article
from bias_core.calibration.grammar import parse
from bias_core.calibration.lexicon import book
from bias_core.calibration.planted import sample_scene
from bias_core.calibration.render import render
from bias_core.calibration.training.diffusion import as_two_towers, encode_tokens, read_tokens, velocity
from bias_core.calibration.training.loop import to_tensor, train
from bias_core.calibration.training.steering import (
    AXES,
    KINDS,
    PAIR,
    Directions,
    Site,
    Words,
    naming,
    photo,
    sites,
)

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

    from bias_core.calibration.scene import Scene

NOISINESS = 1.5
"""Mean of the logit of sigma: what is drawn is decided early, when little but noise is there."""
PAIRS, LIGHTS = 0.25, 0.12
"""Shares of the examples that are pairs, and that are about the light."""


class Example(NamedTuple):
    """A plain prompt, the same naming an axis (``sign`` 1) or its absence (-1), and a scene of the latter."""

    plain: str
    named: str
    site: Site
    axis: int
    sign: int
    scene: Scene


@cache
def people() -> tuple[str, ...]:
    """How all people of the lexicon are called."""
    nations = [f"{nation.capitalize()} person" for nation in book()["nationalities"]]
    return (*noun_phrases().values(), *nations * 4)


def example(rng: Random) -> Example:
    """A random noun and axis; pairs are told genders only."""
    axis = len(AXES) - 1 if rng.random() < LIGHTS else rng.randrange(len(AXES) - 1)
    noun = (
        rng.choice(list(book()["things"]))
        if axis == len(AXES) - 1 and rng.random() < 0.6
        else rng.choice(people())
    )
    if pair := rng.random() < PAIRS:
        axis, noun = 0, rng.choice(people())
    sign = rng.choice((1, -1))
    told = naming(noun, AXES[axis], sign == 1, rng)
    if not told:
        sign, told = 1, naming(noun, AXES[axis], True, rng)
    side = rng.randrange(2) if pair else 0
    if pair:
        other = rng.choice(people())
        forms = [PAIR.format(*((n, other) if side == 0 else (other, n))) for n in (noun, told)]
    else:
        forms = [photo(noun), f"a photo of {with_article(told)}"]
    plain, named = forms
    return Example(
        plain, named, sites(parse(plain))[side], axis, sign, sample_scene(parse(named), "fair", rng)
    )


def learn_directions(
    pipe: StableDiffusion3Pipeline, checkpoint: Path, *, minutes: float, batch: int = 48, seed: int = 0
) -> Directions:
    """Fit a direction per axis to what the generator itself answers to prompts that name it."""
    rng, words = Random(seed), Words(pipe.tokenizer)
    directions = Directions(pipe.text_encoder.config.hidden_size)
    vae = pipe.vae.config

    def loss_of(_step: int) -> torch.Tensor:
        drawn = [example(rng) for _ in range(batch)]
        plain, named = words.ids([e.plain for e in drawn]), words.ids([e.named for e in drawn])
        where = torch.stack([words.slots(ids, e.site) for ids, e in zip(plain, drawn, strict=True)])
        kind = torch.tensor([KINDS.index(e.site.kind) for e in drawn])
        offsets = F.one_hot(torch.tensor([e.axis for e in drawn]), len(AXES)) * torch.tensor(
            [[e.sign] for e in drawn]
        )
        with torch.no_grad():
            z = pipe.vae.encode(to_tensor([render(e.scene) for e in drawn])).latent_dist.sample()
            x0 = (z - vae.shift_factor) * vae.scaling_factor
            sigma = torch.sigmoid(NOISINESS + torch.randn(batch))
            s = sigma[:, None, None, None]
            noisy = (1 - s) * x0 + s * torch.randn_like(x0)
            right = velocity(pipe.transformer, noisy, sigma, encode_tokens(pipe.text_encoder, named))
            states, pooled = read_tokens(pipe.text_encoder, plain)
        more, more_pooled = directions(where, kind, offsets.float())
        text = as_two_towers((states + more, pooled + more_pooled))
        return F.mse_loss(velocity(pipe.transformer, noisy, sigma, text), right)

    average = train(
        directions, loss_of, name="directions", checkpoint=checkpoint, minutes=minutes, lr=0.3, warmup=5,
        weight_decay=0.0, ema=0.98,
    )  # fmt: skip
    directions.load_state_dict(average.state)
    return directions.requires_grad_(False)
