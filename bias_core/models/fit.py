"""The memory of this machine, and which models fit it."""

import ctypes
import math
import os
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import huggingface_hub
import psutil

from bias_core.types import ModelInfo

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of containers, version 2 and 1
_USED = ("memory.current", "memory/memory.usage_in_bytes")
_PATIENCE_SECONDS = 5
_M_ARENA_MAX = -8  # of malloc.h
ZERO_GPU_BYTES = 70 * 10**9  # of the slice that a Space on ZeroGPU is lent


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Sizes in bytes."""

    memory: int  # that programs on this machine, or in this container, may use
    gpu_memory: int = 0  # of the largest GPU; 0 without one
    gpu: str = ""  # its name, "" without one


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """Asked of the system once; torch is not imported for it."""
    total = int(psutil.virtual_memory().total)
    memory = min(total, _cgroup(_LIMITS) or total)
    if os.environ.get("SPACES_ZERO_GPU"):
        return Machine(memory=memory, gpu_memory=ZERO_GPU_BYTES, gpu="ZeroGPU")
    gpu_memory, name = max(_gpus(), default=(0, ""))
    return Machine(memory=memory, gpu_memory=gpu_memory, gpu=name)


def free_memory() -> int:
    """Bytes that a program can still take before the system, or the container's limit, refuses."""
    available = int(psutil.virtual_memory().available)
    limit, used = _cgroup(_LIMITS), _cgroup(_USED)
    return min(available, limit - used) if limit and used else available


def free_bytes(folder: Path) -> int:
    """Room on the disk of ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def share_freed_memory() -> None:
    """Have all threads of this process share two pools of memory, where the C library has one for each.

    A server has a hundred threads, and each would keep what it once needed: more than a megabyte a visitor.
    """
    with suppress(OSError, AttributeError):  # another C library than glibc has no such setting
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _cgroup(names: tuple[str, ...]) -> int:
    """A number of this container's bounds; 0 where there are none ("max")."""
    for name in names:
        with suppress(OSError, ValueError):
            return int((_CGROUP / name).read_text(encoding="ascii"))
    return 0


def _gpus() -> list[tuple[int, str]]:
    """(bytes, name) of each NVIDIA GPU, from the driver's own tool."""
    command = ["nvidia-smi", "--query-gpu=memory.total,name", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.partition(",") for line in output.splitlines() if line.strip()]
    return [(int(mib) << 20, name.strip()) for mib, _, name in lines if mib.strip().isdigit()]


_GB = 1e9
ON_CPU = 2.2  # single precision takes twice the half-precision weights, and some to work with
_HUB_SECONDS = 5.0
WORKING_BYTES_PER_PIXEL = 6_000
"""Memory that one picture takes beside the weights, nearly all in the last layers of the VAE: about
1.6 GB at 512 x 512 and 6.3 GB at 1024 x 1024 for the VAEs of SD and SDXL."""
_MOST_AT_ONCE = 8  # larger batches are hardly quicker, and Stop and progress come per batch
_GATED = (
    " Its makers ask for consent: accept their terms on its page, and give your own token (HF_TOKEN, or "
    "`hf auth login`)."
)


@dataclass(frozen=True, kw_only=True)
class ModelFit:
    """How a model suits this machine."""

    here: bool  # its weights are on this machine
    works: bool  # it can be used; False where it is certain that it cannot
    short: str  # a few words for a menu, "" for models that come with the program
    says: str  # the same in a sentence or two, with what to do


def model_fit(
    info: ModelInfo, machine: Machine, *, here: bool, offline: bool, free_disk: int, on_cpu: bool = False
) -> ModelFit:
    """Judge one model, whose weights are ``here`` or would take some of the ``free_disk`` bytes.

    Nothing may be downloaded where ``offline``, and the GPU is not to be used where ``on_cpu``.
    """
    size = info.download_gb
    if info.embedded:
        return ModelFit(here=True, works=True, short="", says="Comes with the program.")
    if not here and offline:
        says = "Its weights are not on this machine, which may download none (BIAS_OFFLINE forbids it)."
        return ModelFit(here=False, works=False, short="not on this machine", says=says)
    if not here and size * _GB > free_disk:
        says = (
            f"Its weights take {size:g} GB, and the disk has {free_disk / _GB:.0f} GB free; make room "
            "(or set HF_HOME to a larger disk)."
        )
        return ModelFit(here=False, works=False, short=f"no room for {size:g} GB", says=says)
    weights, sentence = "size unknown", "What it downloads on first use is not known here."
    if here:
        weights, sentence = "on this machine", "Its weights are on this machine."
    elif size:
        weights, sentence = f"downloads {size:g} GB", f"Downloads {size:g} GB on first use."
    if info.gated and not here:
        weights, sentence = f"{weights}, gated", sentence + _GATED
    works, room, advice = _memory(info, machine, on_cpu=on_cpu)
    short, says = ", ".join(filter(None, (weights, room))), " ".join(filter(None, (sentence, advice)))
    return ModelFit(here=here, works=works, short=short, says=says)


def _memory(info: ModelInfo, machine: Machine, *, on_cpu: bool) -> tuple[bool, str, str]:
    """Whether it can run, in a few words and a sentence; nothing is said where nothing is known."""
    needed, gpu = info.memory_gb, 0.0 if on_cpu else machine.gpu_memory / _GB
    if gpu and needed <= gpu:
        return True, "", f"It needs {needed:g} GB of the GPU's {gpu:.0f}." if needed else ""
    if gpu:
        says = f"It needs {needed:g} GB and the GPU has {gpu:.0f}: its parts take turns there, which is slower."
        return True, "slow here: larger than the GPU", says
    memory, on_cpu_gb = machine.memory / _GB, needed * ON_CPU
    if math.isfinite(on_cpu_gb) and on_cpu_gb > memory:
        says = (
            f"Without a GPU it needs about {on_cpu_gb:.0f} GB of memory, and this machine has {memory:.0f} "
            "GB; choose a smaller model or a machine with a GPU."
        )
        return False, "too large for this machine", says
    return True, "slow without a GPU", "Without a GPU a picture takes minutes."


def first_batch_size(info: ModelInfo, machine: Machine, device: str) -> int:
    """Pictures at once to begin with: what ``options`` say, or what the GPU should hold; 1 on a CPU.

    >>> from bias_core.models.fit import Machine
    >>> from bias_core.types import ModelInfo
    >>> sdxl = ModelInfo(id="xl", name="", family="sdxl", width=1024, height=1024, memory_gb=13.2)
    >>> [first_batch_size(sdxl, Machine(memory=0, gpu_memory=gb << 30), "auto") for gb in (0, 16, 24, 80)]
    [1, 1, 2, 8]
    """
    if "batch_size" in info.options:
        return int(info.options["batch_size"])
    if device not in ("auto", "cuda") or not machine.gpu_memory or not info.memory_gb:
        return 1
    spare = machine.gpu_memory - info.memory_gb * _GB
    return max(1, min(_MOST_AT_ONCE, 1 + int(spare / (info.width * info.height * WORKING_BYTES_PER_PIXEL))))


def is_cached(repo: str, revision: str = "", file: str = "model_index.json") -> bool:
    """Whether ``file`` of the repository is on this machine; its weights come right after it."""
    return isinstance(huggingface_hub.try_to_load_from_cache(repo, file, revision=revision or None), str)


def cached_commit(repo: str) -> str:
    """The commit of a reader's files on this machine; "" where they are not here, or not a hub's."""
    file = huggingface_hub.try_to_load_from_cache(repo, "config.json") if repo else None
    return Path(file).parent.name if isinstance(file, str) else ""


def free_disk() -> int:
    """Bytes that are free where downloads go."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return free_bytes(Path(HF_HUB_CACHE).absolute())


def download_gb(repo: str, revision: str = "") -> float:
    """Gigabytes of weights that a repository would download; 0 where the hub does not say.

    Raises nothing: without a network, or without the right to read, the size is simply not known.
    """
    from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled

    try:
        info = huggingface_hub.HfApi().model_info(
            repo, revision=revision or None, files_metadata=True, timeout=_HUB_SECONDS
        )
    except (HTTPError, HFValidationError, OfflineModeIsEnabled, OSError, ValueError):
        return 0.0
    return weights_gb((file.rfilename, file.size or 0) for file in info.siblings or ())


def weights_gb(files: Iterable[tuple[str, int]]) -> float:
    """Gigabytes of those (path, bytes) that are loaded: plain weights of components, else a model's own.

    >>> weights_gb([("model.safetensors", 9), ("unet/diffusion_pytorch_model.safetensors", 2 * 10**9),
    ...             ("unet/diffusion_pytorch_model.fp16.safetensors", 10**9), ("unet/config.json", 5)])
    2.0
    """
    of_components, on_top = 0, 0
    for path, size in files:
        folder, _, name = path.rpartition("/")
        if "/" not in folder and len(name.split(".")) == 2 and name.endswith(".safetensors"):
            of_components += size if folder else 0
            on_top += 0 if folder else size
    return (of_components or on_top) / 1e9
