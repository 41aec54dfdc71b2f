"""How many threads a model computes with on the processor: the last bits of a sum depend on it."""

from __future__ import annotations


def cpu_threads() -> int:
    """Of this process."""
    import torch

    return int(torch.get_num_threads())


def use_cpu_threads(n: int) -> None:
    """From now on, in this process."""
    import torch

    torch.set_num_threads(n)
