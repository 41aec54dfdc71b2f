"""What this machine has: memory for models, without loading anything that would use it."""

import ctypes
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

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
