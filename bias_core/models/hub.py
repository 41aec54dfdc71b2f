"""What a model hub, or its cache on this machine, says of a model; no weights are read or downloaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATIENCE_SECONDS = 5.0
_INDEX = "model_index.json"


def is_cached(repo: str, revision: str = "", file: str = _INDEX) -> bool:
    """Whether ``file`` of the repository is on this machine; its weights come right after it."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(repo, file, revision=revision or None), str)


def free_disk() -> int:
    """Bytes that are free where downloads go."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE).absolute()
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def download_gb(repo: str, revision: str = "") -> float:
    """Gigabytes of weights that a repository would download; 0 where the hub does not say.

    Raises nothing: without a network, or without the right to read, the size is simply not known.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled

    try:
        info = HfApi().model_info(repo, revision=revision or None, files_metadata=True, timeout=_PATIENCE_SECONDS)
    except (HTTPError, HFValidationError, OfflineModeIsEnabled, OSError, ValueError):
        return 0.0
    return weights_gb((file.rfilename, file.size or 0) for file in info.siblings or ())


def weights_gb(files: Iterable[tuple[str, int]]) -> float:
    """Gigabytes of those (path, bytes) that are loaded: plain weights of components, else a model's own.

    Examples
    --------
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
