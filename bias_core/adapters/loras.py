"""Adapters (LoRA) put on a diffusers pipeline and taken off again without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bias_core.adapters.devices import loading
from bias_core.adapters.snapshots import snapshot
from bias_core.errors import ModelUnavailable

# How peft and torch say that layers are missing or have other sizes.
_MISFITS = ("size mismatch", "Target modules", "loading state_dict")


def put_on(
    pipeline: Any,
    model: str,
    source: str,
    *,
    name: str,
    file: str | None = None,
    revision: str = "",
    weight: float = 1.0,
    offline: bool = False,
) -> None:
    """Load one adapter into a pipeline that has none, and use it.

    Parameters
    ----------
    model : whose pipeline it is, for messages.
    source : hub id, folder, or a .safetensors file.
    name : of the adapter inside the pipeline.
    file : in the folder or repository; without one its only .safetensors file.
    weight : its strength; 1 is as it was trained.

    Raises
    ------
    ModelUnavailable
        Missing, corrupt, a pickle, made for another model, or the family takes none. What was put into the
        pipeline by then stays there: do not use it any more.
    """
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelUnavailable(f"{model}: a {type(pipeline).__name__} takes no LoRA; choose another base")
    path = Path(source)
    if path.is_file():
        source, file = str(path.parent), path.name
    local, said = Path(source).is_dir(), str(path) if path.exists() else source
    with loading(f"{model}: the LoRA", said):
        if offline and not local:  # diffusers cannot tell there which file it is
            source, local = str(snapshot(source, revision, name=model, offline=True)), True
        fits = _load(
            pipeline,
            source,
            weight_name=file or _only_file(Path(source)),
            adapter_name=name,
            revision=revision or None,
            local_files_only=local or offline,
        )
        if not fits:
            raise ModelUnavailable(
                f"{model}: the LoRA {said} does not fit this model; it was made for another"
            )
        pipeline.set_adapters([name], adapter_weights=[weight])


def _load(pipeline: Any, source: str, *, adapter_name: str, **how: Any) -> bool:
    """Whether it fits. Diffusers only warns where no layer of it does."""
    try:
        pipeline.load_lora_weights(source, adapter_name=adapter_name, use_safetensors=True, **how)
    except (RuntimeError, ValueError) as error:
        if any(words in str(error) for words in _MISFITS):
            return False
        raise
    return any(adapter_name in found for found in pipeline.get_list_adapters().values())


def _only_file(folder: Path) -> str | None:
    """Which file of a folder to take; None on the hub, where diffusers looks itself."""
    if not folder.is_dir():
        return None
    found = sorted(path.name for path in folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelUnavailable(
            f"{folder} has {len(found)} .safetensors files ({', '.join(found[:4])}); name one of them"
        )
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(kind)]
    why = f"only {pickles[0]}, a pickle, which can run code and is refused" if pickles else "none"
    raise ModelUnavailable(f"a LoRA is a .safetensors file, and {folder} has {why}")
