"""A LoRA of the text tower that learns, from prompts and what they should become, to read some prompts anew.

The tower learns it by regression on its own answers to phrases (:mod:`.phrases`), in minutes and without a
picture; other prompts are in every batch, with the answers that they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

from training.captions import random_request
from training.embedding import read_tokens
from training.wanted import leaves_open

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

LORA = LoraConfig(
    r=32,
    lora_alpha=32,  # as r: diffusers' files hold no alpha
    init_lora_weights="gaussian",
    # the generator reads the states after the second layer, so that the third needs none
    target_modules=r".*(token_embedding|layers\.[01]\.(self_attn\.(q_proj|k_proj|v_proj|out_proj)|mlp\.(fc1|fc2)))",
)
LR, SHORT = 3e-3, 20
"""The learning rate, and its first, short steps."""
LOUDNESS = 0.06
"""An error of a word's loudness that weighs as much as one unit of loudness in any other direction.

Whether a word is there changes the states ten times as much as how loud it is: without this weight the tower
learns the one and not the other.
"""
LAST_PLACE = 5.0
"""Extra weight of an error in the last place: the right person of a pair hears what stands there, or does not."""
N_KNOWN, N_SAME = 132, 24
"""Readings and other prompts in a batch."""
N_SAYING_MORE, N_RANDOM = 2000, 2000
"""Prompts that keep their answers: of the same nouns, and of the whole world."""
SAYING_MORE = (
    "a photo of a male {}",
    "a photo of a female {}",
    "a photo of an old male {}",
    "a photo of a female {} with glasses",
    "Generate a picture of one male {} on the left and one female {} on the right.",
    "Generate a picture of one female {} on the left and one male {} on the right.",
)
"""Prompts that name a gender keep the answers that they have."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A prompt, what the tower should make of it, and how often it is in a batch beside others.

    ``rises`` ``(words, 20, d)`` tell how the states change with the loudness of each telling word.
    """

    prompt: str
    states: torch.Tensor
    rises: torch.Tensor
    often: float = 1.0


class Known(NamedTuple):
    """Token ids ``(n, 20)``, right answers, how often each is drawn, and what tells loudness ``(n, k, 20, seen)``."""

    ids: torch.Tensor
    states: torch.Tensor
    often: torch.Tensor
    telling: torch.Tensor

    def error(self, tower: torch.nn.Module, seen: torch.Tensor, n: int, unit: float) -> torch.Tensor:
        """Mean squared error of ``n`` random answers in its unit, and of how loud words are read in theirs."""
        chosen = torch.multinomial(self.often, n, replacement=True)
        wrong = (_states(tower, self.ids[chosen]) - self.states[chosen]) @ seen.T
        loudness = (wrong[:, None] * self.telling[chosen]).sum((2, 3))
        by_place = wrong.square().sum(2)
        by_place[:, -1] *= LAST_PLACE
        return (by_place.sum(1) / unit + loudness.square().sum(1) / LOUDNESS**2).mean()


def learn_readings(
    pipe: StableDiffusion3Pipeline,
    readings: Sequence[Reading],
    nouns: Iterable[str],
    *,
    condition: str,
    n_steps: int,
    lr: float = LR,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """The LoRA's tensors after ``n_steps`` of Adam; the tower keeps it, switched on. One that is there learns on.

    ``nouns`` are people; prompts about them that name a gender keep their answers, as does all that ``condition``
    does not plant.

    Errors of all 20 states together are measured in units of what one unit of loudness changes. Pooled answers
    follow from the states.
    """
    torch.manual_seed(seed)
    rng, tower = Random(seed), pipe.text_encoder
    seen = _seen(pipe)
    known, unit = _known(pipe, readings, seen)
    ids = _tokens(pipe, [prompt for prompt in _others(rng, [*nouns]) if not leaves_open(prompt, condition)])
    with without_adapter(tower):
        same = Known(ids, _answers(tower, ids), torch.ones(len(ids)), torch.zeros(len(ids), 0, 1, 1))
    if not hasattr(tower, "peft_config"):
        tower.add_adapter(LORA)
    trained = [p.requires_grad_() for name, p in tower.named_parameters() if "lora_" in name]
    optimiser = torch.optim.Adam(trained, lr=lr, betas=(0.9, 0.98))
    for step in range(n_steps):
        errors = [known.error(tower, seen, N_KNOWN, unit), same.error(tower, seen, N_SAME, unit)]
        optimiser.zero_grad()
        torch.stack(errors).sum().backward()
        torch.nn.utils.clip_grad_norm_(trained, 2.0)
        optimiser.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / SHORT) * max(0.01, 1 - step / n_steps)
        optimiser.step()
        if (step + 1) % 100 == 0:
            print(f"readings: step {step + 1}, errors {[round(e.item(), 4) for e in errors]}", flush=True)
    name = next(iter(tower.peft_config))
    return dict(get_peft_model_state_dict(tower, adapter_name=name, save_embedding_layers=False))


@contextmanager
def without_adapter(tower: torch.nn.Module) -> Iterator[None]:
    """A text tower as it is without what it learned, if it learned anything."""
    learned = hasattr(tower, "peft_config")
    if learned:
        tower.disable_adapters()
    try:
        yield
    finally:
        if learned:
            tower.enable_adapters()


def _tokens(pipe: StableDiffusion3Pipeline, prompts: Sequence[str]) -> torch.Tensor:
    told = pipe.tokenizer(list(prompts), padding="max_length", truncation=True, return_tensors="pt")
    ids: torch.Tensor = told["input_ids"]
    return ids


def _states(tower: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """States ``(n, 20, d)`` after the second layer, as the generator reads them."""
    return read_tokens(tower, ids)[0]


@torch.no_grad()
def _answers(tower: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return torch.cat([_states(tower, part) for part in ids.split(256)])


def _known(pipe: StableDiffusion3Pipeline, readings: Sequence[Reading], seen: torch.Tensor) -> tuple[Known, float]:
    """The readings, and how much one unit of loudness changes in what the generator sees."""
    most = max(len(reading.rises) for reading in readings)
    telling = torch.zeros(len(readings), most, 20, len(seen))
    units = []
    for row, reading in zip(telling, readings, strict=True):
        rises = reading.rises @ seen.T
        size = rises.square().sum((1, 2), keepdim=True)
        units.extend(size.flatten())
        row[: len(rises)] = rises / size
    known = Known(
        _tokens(pipe, [reading.prompt for reading in readings]),
        torch.stack([reading.states for reading in readings]),
        torch.tensor([reading.often for reading in readings]),
        telling,
    )
    return known, float(torch.stack(units).median())


def _seen(pipe: StableDiffusion3Pipeline) -> torch.Tensor:
    """The part of a state that the generator sees: a matrix ``(seen, d)``."""
    weight = pipe.transformer.context_embedder.weight.detach().float()
    d = weight.shape[1] // 2
    return torch.as_tensor(weight[:, :d] + weight[:, d:])  # both towers answer alike


def _others(rng: Random, nouns: Sequence[str]) -> list[str]:
    """Prompts of which most keep the answers that they have."""
    found = [rng.choice(SAYING_MORE).format(rng.choice(nouns), rng.choice(nouns)) for _ in range(N_SAYING_MORE)]
    return found + [random_request(rng)[0] for _ in range(N_RANDOM)]
