"""Common parts of all trainings: pictures as tensors, a cosine schedule, checkpoints that outlive a cut."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from training.muon import Muon

if TYPE_CHECKING:
    from PIL import Image

SAVED_EVERY = 120  # seconds


def to_tensor(images: list[Image.Image]) -> torch.Tensor:
    """Float tensor ``(n, 3, h, w)`` in [-1, 1]."""
    pixels = np.stack([np.asarray(image) for image in images])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


@cache
def autocast_dtype(device: str) -> torch.dtype:
    """Bfloat16 on CUDA; on a CPU only where a quick try shows that it is faster than float32."""
    if device == "cuda":
        return torch.bfloat16
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    return torch.bfloat16 if _seconds(a.bfloat16(), b.bfloat16()) < _seconds(a, b) else torch.float32


def in_16_bit(device: str) -> torch.autocast:
    """Compute in 16 bit, if that is quicker; for one step alone, because it keeps the weights that it met first."""
    dtype = autocast_dtype(device)
    return torch.autocast(device, dtype=dtype, enabled=dtype != torch.float32)


def _seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    a @ b
    start = time.perf_counter()
    for _ in range(3):
        a @ b
    return time.perf_counter() - start


def record(out: Path, steps: int, *, minutes: float, seed: int, device: str, **facts: object) -> None:
    """Add this training to ``training.json``, which the model card tells from."""
    path = out / "training.json"
    earlier = json.loads(path.read_text()) if path.exists() else []
    run = {"steps": steps, "minutes": minutes, "seed": seed, "device": device, **facts}
    hardware = torch.cuda.get_device_name() if device == "cuda" else f"{torch.get_num_threads()} CPU thread(s)"
    path.write_text(json.dumps([*earlier, {**run, "hardware": hardware}], indent=1) + "\n")


class Average:
    """Exponential moving average of a model's weights."""

    def __init__(self, model: torch.nn.Module, decay: float = 0.998) -> None:
        self.decay, self.steps = decay, 0
        self.state = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        """Move the average towards the model; faster in the first steps."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for key, value in model.state_dict().items():
            if value.dtype.is_floating_point:
                self.state[key].lerp_(value, 1 - decay)
            else:
                self.state[key].copy_(value)


@dataclass
class Run:
    """The state of a training, as its checkpoint keeps it; ``spent`` is in seconds."""

    model: torch.nn.Module
    optimisers: list[torch.optim.Optimizer]
    average: Average
    path: Path
    step: int = 0
    spent: float = 0.0

    def resume(self) -> None:
        """Go on where the checkpoint ends, if there is one."""
        if not self.path.exists():
            return
        saved = torch.load(self.path, weights_only=True)
        self.model.load_state_dict(saved["model"])
        for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.average.state, self.average.steps = saved["ema"], saved["step"]
        self.step, self.spent = saved["step"], saved["spent"]

    def save(self) -> None:
        """Write the checkpoint whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "ema": self.average.state,
            "step": self.step,
            "spent": self.spent,
        }
        torch.save(state, self.path.with_suffix(".tmp"))
        self.path.with_suffix(".tmp").replace(self.path)


def train(
    model: torch.nn.Module,
    loss_of: Callable[[int], torch.Tensor],
    *,
    name: str,
    checkpoint: Path,
    minutes: float,
    lr: float,
    warmup: int = 100,
    weight_decay: float = 0.01,
    ema: float = 0.998,
    muon: Callable[[str], bool] | None = None,
) -> Average:
    """Minimise ``loss_of(step)`` for ``minutes``, with AdamW and a cosine schedule over the time.

    Matrices whose name ``muon`` accepts are left to Muon.

    State is saved to ``checkpoint`` every two minutes and taken up again when the file exists; the minutes
    already spent count. Returns the averaged weights.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    optimisers = _optimisers(model, muon or (lambda _name: False), lr, weight_decay)
    run = Run(model, optimisers, Average(model, ema), checkpoint)
    run.resume()
    losses, saved_at = deque[float](maxlen=100), run.spent
    for seconds in _clock(minutes * 60, run.spent):
        run.spent = seconds
        rate = lr * min(1.0, (run.step + 1) / warmup) * _cosine(run.spent / (minutes * 60))
        losses.append(_step(run, trained, loss_of, rate))
        if run.step % 100 == 0:
            where = f"step {run.step}, {run.spent / 60:.1f} of {minutes:g} min"
            print(f"{name}: {where}, loss {np.mean(losses):.4f}", flush=True)
        if run.spent - saved_at > SAVED_EVERY:
            run.save()
            saved_at = run.spent
    run.spent = minutes * 60
    run.save()
    return run.average


def _optimisers(
    model: torch.nn.Module, muon: Callable[[str], bool], lr: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """AdamW for all that is trained but the matrices that are left to Muon."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if p.ndim == 2 and muon(name)]
    others = [p for name, p in named if not (p.ndim == 2 and muon(name))]
    chosen: list[torch.optim.Optimizer] = []
    if others:
        chosen.append(torch.optim.AdamW(others, lr=lr, weight_decay=weight_decay, betas=(0.9, 0.98)))
    if matrices:
        chosen.append(Muon(matrices, lr, weight_decay=weight_decay))
    return chosen


def _step(run: Run, trained: list[torch.nn.Parameter], loss_of: Callable[[int], torch.Tensor], rate: float) -> float:
    """One step downhill; the loss before it."""
    loss = loss_of(run.step)
    for optimiser in run.optimisers:
        optimiser.zero_grad(set_to_none=True)
        for group in optimiser.param_groups:
            group["lr"] = rate
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    for optimiser in run.optimisers:
        optimiser.step()
    run.average.update(run.model)
    run.step += 1
    return loss.item()


def _cosine(share: float) -> float:
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share))


def _clock(limit: float, spent: float) -> Iterator[float]:
    start = time.monotonic() - spent
    while (seconds := time.monotonic() - start) < limit:
        yield seconds
