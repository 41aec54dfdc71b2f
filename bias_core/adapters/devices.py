"""Where models run, and which failures of loading mean that the weights are the trouble."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bias_core.errors import BiasCoreError, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


def pick_device(wanted: str) -> str:
    """The device to use: for "auto", CUDA where there is one, else the CPU.

    Raises
    ------
    ModelUnavailable
        CUDA or MPS was asked for by name and this machine has none.
    """
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present[wanted]:
        raise ModelUnavailable(f"BIAS_DEVICE is {wanted}, which this machine does not have; use auto or cpu")
    return wanted


def hide_progress_bars() -> None:
    """The bars that libraries draw while loading would run through our own."""
    from transformers.utils import logging

    logging.disable_progress_bar()


@contextmanager
def loading(name: str, source: str) -> Iterator[None]:
    """Word every failure of reading weights as :class:`ModelUnavailable`, with what to do."""
    from safetensors import SafetensorError

    try:
        yield
    except BiasCoreError:
        raise
    except ImportError as error:
        raise ModelUnavailable(f"{name} needs a library that is not installed: {error}") from error
    except (
        OSError,
        SafetensorError,
        ValueError,
        RuntimeError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise ModelUnavailable(
            f"{name} cannot be loaded from {source}: {first_line} "
            "(weights missing, corrupt, gated, or no network; check the files or choose another model)"
        ) from error
