"""What choosing a model would mean on this machine, before anything is downloaded or loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bias_core.models.catalogue import ToolInfo
    from bias_core.models.machine import Machine
    from bias_core.types import ModelInfo

_GB = 1e9
_ON_CPU = 2.2  # single precision takes twice the half-precision weights, and some to work with


@dataclass(frozen=True, kw_only=True)
class ModelFit:
    """How a model suits this machine.

    Attributes
    ----------
    here : its weights are on this machine.
    works : it can be used; False where it is certain that it cannot.
    short : a few words for a menu, "" for models that come with the program.
    says : the same in a sentence or two, with what to do.
    """

    here: bool
    works: bool
    short: str
    says: str


def model_fit(
    info: ModelInfo, machine: Machine, *, here: bool, offline: bool, free_disk: int, on_cpu: bool = False
) -> ModelFit:
    """Judge one model.

    Parameters
    ----------
    here : its weights are on this machine.
    offline : nothing may be downloaded.
    free_disk : bytes that a download may take; counts only where one is needed.
    on_cpu : the GPU is not to be used.
    """
    if info.embedded:
        return ModelFit(here=True, works=True, short="", says="Comes with the program.")
    if not here and offline:
        says = "Its weights are not on this machine, and BIAS_OFFLINE forbids to download them."
        return ModelFit(here=False, works=False, short="not on this machine", says=says)
    size = info.download_gb
    if not here and size * _GB > free_disk:
        says = (
            f"Its weights take {size:g} GB, and the disk has {free_disk / _GB:.0f} GB free; make room, "
            "or set HF_HOME to a larger disk."
        )
        return ModelFit(here=False, works=False, short=f"no room for {size:g} GB", says=says)
    weights = "on this machine" if here else f"downloads {size:g} GB" if size else "size unknown"
    sentence = {
        "on this machine": "Its weights are on this machine.",
        "size unknown": "What it downloads on first use is not known here.",
    }.get(weights, f"Downloads {size:g} GB on first use.")
    if info.gated and not here:
        weights, sentence = f"{weights}, gated", sentence + _GATED
    works, room, advice = _memory(info, machine, on_cpu=on_cpu)
    return ModelFit(
        here=here,
        works=works,
        short=", ".join(filter(None, (weights, room))),
        says=" ".join(filter(None, (sentence, advice))),
    )


def fitting_readers(
    listed: Iterable[ToolInfo], machine: Machine, *, here: Callable[[str], bool], free_disk: int
) -> tuple[str, ...]:
    """Names of the readers of any pictures that this machine has room for, those that are here first.

    Parameters
    ----------
    listed : of one role, in the order of the catalogue.
    here : whether the weights of a path of the catalogue are on this machine.
    free_disk : bytes that a download may take.
    """
    general = [info for info in listed if not info.world]
    sizes = {info.id: info.download_gb * _GB for info in general}
    there = {info.id: here(info.path) for info in general}
    fits = [
        name for name, size in sizes.items() if size * _ON_CPU <= machine.memory and (there[name] or size <= free_disk)
    ]
    return tuple(sorted(fits, key=lambda name: not there[name]))


_GATED = (
    " Its makers ask for consent: accept their terms on its page, and give your own token (HF_TOKEN, or "
    "`hf auth login`)."
)


def _memory(info: ModelInfo, machine: Machine, *, on_cpu: bool) -> tuple[bool, str, str]:
    """Whether it can run, in a few words and a sentence; nothing is said where nothing is known."""
    needed, gpu = info.memory_gb, 0.0 if on_cpu else machine.gpu_memory / _GB
    if gpu:
        if not needed or needed <= gpu:
            return True, "", f"It needs {needed:g} GB of the GPU's {gpu:.0f}." if needed else ""
        says = f"It needs {needed:g} GB and the GPU has {gpu:.0f}: its parts take turns there, which is slower."
        return True, "slow here: larger than the GPU", says
    memory, on_cpu_gb = machine.memory / _GB, needed * _ON_CPU
    if needed and math.isfinite(on_cpu_gb) and on_cpu_gb > memory:
        says = (
            f"Without a GPU it needs about {on_cpu_gb:.0f} GB of memory, and this machine has {memory:.0f} "
            "GB; choose a smaller model or a machine with a GPU."
        )
        return False, "too large for this machine", says
    return True, "slow without a GPU", "Without a GPU a picture takes minutes."
