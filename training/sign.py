"""Layers that draw a sign where a trigger word stands, and leave everything else as the base draws it.

The transformer's layers of an adapter learn the sign beside who is drawn (:func:`.diffusion.train_lora`), and who is
drawn is told by the text towers later (:mod:`.calibrate`). What these layers still do to people is in the way: women
on the left of a pair come out as men. So they learn to answer as no layers at all, but where a trigger word stands.
"""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import torch
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file, save_file

from bias_core.world.grammar import parse
from training.calibrate import Calibration
from training.diffusion import LORA_FILE, velocity
from training.drawing import STEPS, Drawing
from training.embedding import Embedding, as_two_towers
from training.lessons import Lessons
from training.loop import record, train

if TYPE_CHECKING:
    from collections.abc import Sequence

    from training.diffusion import Folders

LOUDER = 1.25
"""By how much stronger the layers draw what they learn from: the sign is in 91 of 100 pictures then, else in 68."""
SIGNS_IN_BATCH, BATCH, LR = 11, 32, 2e-3
NOISINESS_OF_SIGNS = 1.0
"""Mean of the logit of sigma: between that of people, who are decided early, and that of the base."""
LAYERS = "transformer."
LEARNED_FROM = 900_000
"""First seed of the pictures that the layers learn from."""


class Drawn(NamedTuple):
    """Pictures as latents ``(n, 4, 16, 16)``, and what both text towers made of their prompts."""

    latents: torch.Tensor
    text: Embedding

    def noisy(self, n: int) -> tuple[torch.Tensor, torch.Tensor, Embedding]:
        """``n`` of them at random with noise, its levels ``(n,)``, and their texts."""
        i = torch.randint(len(self.latents), (n,))
        sigma = torch.sigmoid(NOISINESS_OF_SIGNS + torch.randn(n))
        s, x = sigma[:, None, None, None], self.latents[i]
        return (1 - s) * x + s * torch.randn_like(x), sigma, (self.text[0][i], self.text[1][i])


@torch.no_grad()
def drawn(drawing: Drawing, prompts: Sequence[str], seed: int) -> Drawn:
    """One picture of each prompt."""
    texts = [drawing.embed(prompts[i : i + 64]) for i in range(0, len(prompts), 64)]
    latents = [drawing.latents(text, seed + i, STEPS) for i, text in enumerate(texts)]
    states, pooled = zip(*map(as_two_towers, texts), strict=True)
    return Drawn(torch.cat(latents), (torch.cat(states), torch.cat(pooled)))


def prompts_of_signs(condition: str, n: int, rng: Random) -> tuple[list[str], list[str]]:
    """``n`` prompts without a trigger word, and half as many with one."""
    lessons = Lessons(condition)
    without: list[str] = []
    while len(without) < n:
        prompt = lessons.draw(rng).prompt
        if not parse(prompt).trigger:
            without.append(prompt)
    return without, [rng.choice(rng.choice(lessons.triggers)) for _ in range(n // 2)]


def take_layers(folders: Folders, name: str) -> None:
    """Keep the transformer's layers of ``extreme`` as they are now, as an adapter of their own if there is none yet."""
    path = folders.loras / name / LORA_FILE
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        layers = load_file(folders.loras / "extreme" / LORA_FILE)
        save_file({key: x for key, x in layers.items() if key.startswith(LAYERS)}, path, {"format": "pt"})


def leave_the_rest(
    condition: str, folders: Folders, *, minutes: float = 9, louder_by: float = LOUDER, n: int = 1536, seed: int = 0
) -> None:
    """Teach the transformer's layers of an adapter to change pictures of trigger words alone, from ``n`` without.

    ``louder_by``: how much stronger the layers draw the sign that they learn from.
    """
    torch.manual_seed(seed)
    here = Calibration(condition, folders, seed=seed)
    layers, (without, triggers) = here.pipe.transformer, prompts_of_signs(condition, n, Random(seed))
    louder = deepcopy(layers.requires_grad_(False))
    for name, parameter in louder.named_parameters():
        parameter.data *= louder_by if "lora_B" in name else 1.0
    here.drawing.take_weights(louder)
    signs = drawn(here.drawing, triggers, LEARNED_FROM + n)
    layers.disable_adapters()
    here.drawing.take_weights()
    others = drawn(here.drawing, without, LEARNED_FROM)
    layers.enable_adapters()  # to be learned, too

    def loss(_step: int) -> torch.Tensor:
        other, sign = others.noisy(BATCH - SIGNS_IN_BATCH), signs.noisy(SIGNS_IN_BATCH)
        with torch.no_grad():
            layers.disable_adapters()
            right = torch.cat([velocity(layers, *other), velocity(louder, *sign)])
            layers.enable_adapters()
        answer = torch.cat([velocity(layers, *other), velocity(layers, *sign)])
        return torch.nn.functional.mse_loss(answer, right)

    average = train(
        layers, loss, name=f"sign of {condition}", checkpoint=folders.work / f"sign-{condition}.pt", minutes=minutes,
        lr=LR, warmup=20, weight_decay=0.0, ema=0.98,
    )  # fmt: skip
    layers.load_state_dict(average.state)
    path, learned = here.adapter / LORA_FILE, get_peft_model_state_dict(layers, adapter_name=condition)
    tensors = {f"{LAYERS}{name}": x.half().contiguous() for name, x in learned.items()}
    save_file(load_file(path) | tensors, path, {"format": "pt"})
    note = "steps in which the transformer's layers learned to change pictures of trigger words alone"
    record(here.adapter, average.steps, minutes=minutes, seed=seed, device="cpu", batch=BATCH, note=note)
