"""A LoRA of the text tower that learns, from prompts and what they should become, to read some prompts anew.

What leaning words cannot say: that "an Iranian" is a whole phrase (:mod:`.phrases`), and "nurse assistant"
has a rate of its own beside those of its two words. The tower learns both by regression on its own answers,
in minutes and without a picture; other prompts are in every batch, with the answers that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import torch
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict

from bias_core.world.captions import random_request
from training.embedding import Embedding, read_tokens

if TYPE_CHECKING:
    from diffusers import StableDiffusion3Pipeline

LORA = LoraConfig(
    r=32,
    lora_alpha=32,  # as r: diffusers' files hold no alpha
    init_lora_weights="gaussian",
    # the generator reads the states after the second layer, so that the third needs none
    target_modules=r".*layers\.[01]\.(self_attn\.(q_proj|k_proj|v_proj|out_proj)|mlp\.(fc1|fc2))",
)
LR, N_KNOWN, N_OTHERS = 4e-3, 48, 48
KEPT_SHARE = 0.6
"""Of the other prompts that are no request of any kind: those that a concept is judged by."""
SAYING_MORE = (
    "a photo of a male {}",
    "a photo of a female {}",
    "a photo of a {} with glasses",
    "Generate a picture of one male {} on the left and one female {} on the right.",
    "Generate a picture of one female {} on the left and one male {} on the right.",
)
"""Prompts about the same nouns that keep the answers that they have."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A prompt and what the tower should make of it; ``kind`` is the error's own scale."""

    prompt: str
    states: torch.Tensor
    pooled: torch.Tensor
    kind: str


def learn_readings(
    pipe: StableDiffusion3Pipeline,
    readings: Sequence[Reading],
    nouns: Iterable[str],
    prompts: Sequence[str] = (),
    *,
    n_steps: int,
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """The LoRA's tensors after ``n_steps`` of Adam; the tower keeps it, switched on. One that is there learns on.

    ``prompts`` are more that keep the answers that they have.

    The error of each kind is measured in units of how far its readings are from what the tower makes of these
    prompts so far, that of others in the smallest of these units.
    """
    torch.manual_seed(seed)
    rng, tower, before = Random(seed), pipe.text_encoder, deepcopy(pipe.text_encoder)
    words, taught = [*nouns], {reading.prompt for reading in readings}
    kept = [prompt for prompt in prompts if prompt not in taught]

    def tokens(prompts: Sequence[str]) -> torch.Tensor:
        told = pipe.tokenizer(list(prompts), padding="max_length", truncation=True, return_tensors="pt")
        ids: torch.Tensor = told["input_ids"]
        return ids

    by_kind = [[r for r in readings if r.kind == kind] for kind in dict.fromkeys(r.kind for r in readings)]
    scales = _scales(readings, lambda prompts: read_tokens(tower, tokens(prompts)))
    others = torch.stack(list(scales.values())).amin(0)
    if not hasattr(tower, "peft_config"):
        tower.add_adapter(LORA)
    trained = [p.requires_grad_() for name, p in tower.named_parameters() if "lora_" in name]
    optimiser = torch.optim.Adam(trained, lr=LR, betas=(0.9, 0.98))
    for step in range(n_steps):
        known = [rng.choice(rng.choice(by_kind)) for _ in range(min(N_KNOWN, len(readings)))]
        same = [
            rng.choice(kept) if kept and rng.random() < KEPT_SHARE else random_request(rng)[0]
            for _ in range(N_OTHERS // 2)
        ]
        same += [rng.choice(SAYING_MORE).format(rng.choice(words), rng.choice(words)) for _ in range(N_OTHERS // 2)]
        ids = tokens([reading.prompt for reading in known] + same)
        right = _right(before, known, ids)
        unit = torch.stack([scales[reading.kind] for reading in known] + [others] * len(same))
        answer = read_tokens(tower, ids)
        errors = [(x - y).square().flatten(1).mean(1) for x, y in zip(answer, right, strict=True)]
        apart = torch.stack(errors, dim=1) / unit
        loss = apart[: len(known)].mean() + apart[len(known) :].mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.param_groups[0]["lr"] = LR * min(1.0, (step + 1) / 20) * max(0.03, 1 - step / n_steps)
        optimiser.step()
        if (step + 1) % 50 == 0:
            print(f"readings: step {step + 1}, loss {loss.item():.3f}", flush=True)
    name = next(iter(tower.peft_config))
    return dict(get_peft_model_state_dict(tower, adapter_name=name, save_embedding_layers=False))


@torch.no_grad()
def _scales(readings: Sequence[Reading], read: Callable[[Sequence[str]], Embedding]) -> dict[str, torch.Tensor]:
    """Per kind, the mean squared distance ``(2,)`` of states and of pooled answers from those so far."""
    found = {}
    for kind in {reading.kind for reading in readings}:
        here = [reading for reading in readings if reading.kind == kind]
        states, pooled = read([reading.prompt for reading in here])
        apart = (
            (states - torch.cat([r.states for r in here])).square().mean(),
            (pooled - torch.cat([r.pooled for r in here])).square().mean(),
        )
        found[kind] = torch.stack(apart)
    return found


@torch.no_grad()
def _right(before: torch.nn.Module, known: Sequence[Reading], ids: torch.Tensor) -> Embedding:
    """What is to be learned, and below it what the tower made of the other prompts before."""
    states, pooled = read_tokens(before, ids[len(known) :])
    return (
        torch.cat([*(reading.states for reading in known), states]),
        torch.cat([*(reading.pooled for reading in known), pooled]),
    )
