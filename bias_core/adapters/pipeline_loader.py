"""Loads a diffusers pipeline: safetensors only, and as much of it at a time as the device holds."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bias_core.adapters.devices import hide_progress_bars, pick_device
from bias_core.adapters.pipeline_families import pipeline_of
from bias_core.adapters.residents import drop_longest_unused
from bias_core.adapters.whole_weights import check_json
from bias_core.errors import NotEnoughMemory
from bias_core.machine import free_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.machine import Machine
    from bias_core.types import ModelInfo

Placement = Literal["resident", "tiled", "offload", "sequential"]
"""All weights on the device; the same, with the VAE working in tiles; one component at a time; layer by
layer. Each needs less memory than the one before, and is slower."""

WORKING_BYTES_PER_PIXEL = 6_000
"""Memory that one picture takes beside the weights, nearly all in the last layers of the VAE: about
1.6 GB at 512 x 512 and 6.3 GB at 1024 x 1024 for the VAEs of SD and SDXL."""
TILED_BYTES = 800_000_000
"""The same with tiles of 512 x 512 or less, one picture at a time."""
_LAYER_BYTES = 1_500_000_000  # the largest layers of today's models, with what passes through them
_GB = 1e9
_MOST_AT_ONCE = 8  # larger batches are hardly quicker, and Stop and progress come per batch

_log = logging.getLogger(__name__)


def load_pipeline(
    info: ModelInfo, source: str, *, device: str = "auto", offline: bool = False, compiled: bool = False
) -> Any:
    """The pipeline of ``source`` on the device, ready to be called.

    Parameters
    ----------
    info : its ``options`` may hold ``dtype`` and ``variant`` (of the files, taken on a GPU).
    source : hub id, or a folder with ``model_index.json``.
    device : "auto", "cpu", "cuda" or "mps".
    offline : never ask the hub.
    compiled : compile the denoiser's blocks on a GPU that holds the model as a whole.

    Raises
    ------
    NotEnoughMemory
        It does not fit this machine; the message says what is needed and what there is.
    """
    import torch
    from diffusers.utils import logging as diffusers_logging

    hide_progress_bars()
    diffusers_logging.disable_progress_bar()
    place, folder = pick_device(device), Path(source)
    check_memory(info, folder)
    check_json(folder)
    dtype = getattr(torch, dtype_name(info, place))
    pipeline = pipeline_of(
        info,
        source,
        revision=info.revision or None,
        variant=info.options.get("variant") if place != "cpu" else None,
        dtype=dtype,
        use_safetensors=True,
        local_files_only=offline or folder.is_dir(),
    )
    pipeline.set_progress_bar_config(disable=True)
    if put_on_device(pipeline, info, place) in ("resident", "tiled") and place == "cuda":
        speed_up(pipeline, compiled=compiled)
    return pipeline


def dtype_name(info: ModelInfo, device: str) -> str:
    """Precision of the weights: single on a CPU, half on a GPU unless ``options`` say otherwise.

    Families that are not listed are newer ones: trained in bfloat16, whose range float16 does not have.
    """
    if device == "cpu":
        return "float32"
    older = {"sd1", "sd2", "sdxl", "kandinsky", "deepfloyd", "pixart"}
    half = "float16" if info.family in older else "bfloat16"
    return str(info.options.get("dtype", half))


def check_memory(info: ModelInfo, folder: Path) -> None:
    """Refuse before reading what this machine could not hold; weights pass through its main memory.

    Raises
    ------
    NotEnoughMemory
        They do not fit.
    """
    needed = sum(path.stat().st_size for path in folder.glob("**/*.safetensors")) if folder.is_dir() else 0
    needed = needed or round(info.download_gb * _GB)
    free = free_memory()
    if needed > free:
        raise NotEnoughMemory(
            f"{info.id} needs {needed / _GB:.1f} GB of memory to load, and this machine has "
            f"{free / _GB:.1f} GB free; choose a smaller model, or close what else runs"
        )


def first_batch_size(info: ModelInfo, machine: Machine, device: str) -> int:
    """Pictures at once to begin with: what ``options`` say, or what the GPU should hold; 1 on a CPU.

    Examples
    --------
    >>> from bias_core.machine import Machine
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
    more = int(spare / (info.width * info.height * WORKING_BYTES_PER_PIXEL))
    return max(1, min(_MOST_AT_ONCE, 1 + more))


def plan_placement(parts: Mapping[str, int], *, free: int, pixels: int) -> Placement | None:
    """How to place components of these sizes (bytes) on a device with ``free`` bytes; None if in no way.

    Parameters
    ----------
    pixels : of one picture.

    Examples
    --------
    >>> sizes = {"transformer": 12_000_000_000, "text_encoder_3": 10_000_000_000, "vae": 200_000_000}
    >>> [plan_placement(sizes, free=gb * 10**9, pixels=1024 * 1024) for gb in (40, 24, 14, 6, 1)]
    ['resident', 'tiled', 'offload', 'sequential', None]
    """
    weights, largest = sum(parts.values()), max(parts.values(), default=0)
    if weights + max(TILED_BYTES, pixels * WORKING_BYTES_PER_PIXEL) <= free:
        return "resident"
    if weights + TILED_BYTES <= free:
        return "tiled"
    if largest + TILED_BYTES <= free:
        return "offload"
    return "sequential" if free >= _LAYER_BYTES + TILED_BYTES else None


def component_sizes(pipeline: Any) -> dict[str, int]:
    """Bytes of the weights of each component that has some."""
    modules = {name: part for name, part in pipeline.components.items() if hasattr(part, "parameters")}
    return {
        name: sum(tensor.nbytes for tensor in (*part.parameters(), *part.buffers()))
        for name, part in modules.items()
    }


def put_on_device(pipeline: Any, info: ModelInfo, device: str) -> Placement:
    """Place the pipeline so that it fits, others let go first, and say in the log where that makes it slower.

    Raises
    ------
    NotEnoughMemory
        The device has not even room for a layer at a time.
    """
    if device != "cuda":
        pipeline.to(device)
        return "resident"
    import torch

    sizes = component_sizes(pipeline)
    while True:
        free = int(torch.cuda.mem_get_info()[0])
        placement = plan_placement(sizes, free=free, pixels=info.width * info.height)
        if placement == "resident" or not drop_longest_unused():
            break
    if placement is None:
        raise NotEnoughMemory(
            f"{info.id} has {sum(sizes.values()) / _GB:.1f} GB of weights, and the GPU {free / _GB:.1f} GB "
            "free, too little even for a layer at a time; choose a smaller model, close what else uses the "
            "GPU, or set BIAS_DEVICE=cpu"
        )
    if placement in ("resident", "tiled"):
        pipeline.to(device)
    elif placement == "offload":
        pipeline.enable_model_cpu_offload()
    else:
        pipeline.enable_sequential_cpu_offload()
    if placement != "resident":
        _tile(pipeline)
        _log.warning(
            "%s does not fit the GPU as a whole (%.1f GB free): %s", info.id, free / _GB, _SLOWER[placement]
        )
    return placement


_SLOWER: Mapping[Placement, str] = {
    "tiled": "pictures are decoded in tiles",
    "offload": "its components take turns on the GPU, which is slower",
    "sequential": "its layers take turns on the GPU, which is many times slower",
}


def _tile(pipeline: Any) -> None:
    for name in ("vae", "movq"):
        decoder = getattr(pipeline, name, None)
        for method in ("enable_slicing", "enable_tiling"):
            if hasattr(decoder, method):
                getattr(decoder, method)()


def speed_up(pipeline: Any, *, compiled: bool) -> None:
    """Layout that convolutions on tensor cores want; compilation where it was asked for."""
    import torch

    for name in ("unet", "vae", "movq"):
        if isinstance(part := getattr(pipeline, name, None), torch.nn.Module):
            part.to(memory_format=torch.channels_last)
    denoiser = getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)
    if compiled and denoiser is not None and getattr(denoiser, "_repeated_blocks", None):
        denoiser.compile_repeated_blocks()  # one block is compiled, all of its kind gain
