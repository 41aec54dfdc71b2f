"""Adapters (LoRA) put on a diffusers pipeline and taken off again without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bias_core.adapters.devices import loading
from bias_core.errors import ModelUnavailable


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
    local = Path(source).is_dir()
    with loading(f"{model}: the LoRA", str(path) if local else source):
        pipeline.load_lora_weights(
            source,
            weight_name=file or _only_file(Path(source)),
            adapter_name=name,
            revision=revision or None,
            use_safetensors=True,
            local_files_only=local or offline,
        )
        if not any(name in found for found in pipeline.get_list_adapters().values()):
            raise ModelUnavailable(
                f"{model}: nothing in the LoRA {path if local else source} fits this model; it was made for "
                "another one"
            )
        pipeline.set_adapters([name], adapter_weights=[weight])


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
