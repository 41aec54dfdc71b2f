"""Where models run, and which failures of loading mean that the weights are the trouble."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
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
        EOFError,
        SafetensorError,
        UnpicklingError,
        struct.error,
        ValueError,
        RuntimeError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise ModelUnavailable(f"{name} cannot be loaded{_why(source, error)}") from error


def _why(source: str, error: Exception) -> str:
    """Where from, what went wrong and what to do; shipped folders are named from ``assets`` on."""
    folder = Path(source)
    shipped = folder.is_absolute() and folder.parent.name == "calibration"
    place = "/".join(folder.parts[-3:]) if shipped else source
    if folder.is_absolute() and not folder.exists():
        remedy = "`make calibrate` trains it" if shipped else "check the path"
        return f": there is no {place}; {remedy}, or choose another model"
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0][:300].replace(source, place)
    remedy = "weights missing, corrupt, gated, or no network; check the files or choose another model"
    return f" from {place}: {first_line} ({remedy})"
