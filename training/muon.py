"""Muon: momentum whose matrices are made orthogonal before each step.

``torch.optim.Muon`` does the same, but always in bfloat16, which a CPU without AVX-512 multiplies hundreds
of times more slowly than float32.

Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the size of a
step follows Liu et al. 2025, "Muon is scalable for LLM training".
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonal(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Bring the singular values of ``(k, rows, columns)`` near 1 with the quintic Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = torch.nn.functional.normalize(x.flatten(1)).view_as(x)  # zeros stay zeros
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, made orthogonal, for two-dimensional weights of hidden layers only.

    ``lr`` means what it means for AdamW: a step's root mean square is 0.2 ``lr``.
    """

    def __init__(
        self, params: Iterable[torch.Tensor], lr: float, *, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """One step; matrices of one shape are worked on together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for shape, params in shapes.items():
                moved = orthogonal(torch.stack([self._momentum(p, group["momentum"]) for p in params]))
                scale = group["lr"] * 0.2 * max(shape) ** 0.5
                for p, update in zip(params, moved, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=scale)

    def _momentum(self, p: torch.Tensor, share: float) -> torch.Tensor:
        slope = p.grad if p.grad is not None else torch.zeros_like(p)
        average: torch.Tensor = self.state[p].setdefault("average", torch.zeros_like(p))
        average.lerp_(slope, 1 - share)
        return slope.lerp(average, share)
