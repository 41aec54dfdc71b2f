"""Adapters (LoRA) put whole on a diffusers pipeline, and taken off again without a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.weights import check_finite, loading, some_of
from bias_core.errors import ModelUnavailable
from bias_core.models.catalogue import read_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# How peft and torch say that layers are missing or have other sizes.
_MISFITS = ("size mismatch", "Target modules", "loading state_dict")
_STANDARD = "pytorch_lora_weights.safetensors"
_PEFT, _PEFT_CONFIG = "adapter_model.safetensors", "adapter_config.json"
HUB_PATTERNS = ([_STANDARD, _PEFT, _PEFT_CONFIG], ["*.safetensors"])
"""Files that a LoRA of a hub may be, the usual names first."""


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
    source : hub id, folder, or a .safetensors file; the folder may be one of peft's ``save_pretrained``.
    name : of the adapter inside the pipeline.
    file : in the folder or repository; without one its only .safetensors file.
    weight : its strength; 1 is as it was trained.

    Raises
    ------
    ModelUnavailable
        Missing, corrupt, a pickle, made for another model as a whole or in part, or the family takes none.
        What was put into the pipeline by then stays there: do not use it any more.
    """
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelUnavailable(f"{model}: a {type(pipeline).__name__} takes no LoRA; choose another base")
    path = Path(source)
    if path.is_file():
        source, file = str(path.parent), path.name
    place = str(path) if path.exists() else source
    with loading(f"{model}: the LoRA", place):
        folder = Path(source) if Path(source).is_dir() else hub_folder(source, revision, offline=offline)
        file = file or _only_file(folder)
        loader = getattr(pipeline, "first", pipeline)  # of two stages the one that decides what is drawn
        try:
            keys = _load(loader, folder, file, name)
        except (RuntimeError, ValueError) as error:
            if any(words in str(error) for words in _MISFITS):
                raise ModelUnavailable(_misfit(model, place)) from error
            raise
        _check_whole(loader, keys, name, f"{model}: the LoRA {place}", _misfit(model, place))
        pipeline.set_adapters([name], adapter_weights=[weight])


def hub_folder(repo: str, revision: str, *, offline: bool = False) -> Path:
    """Where the LoRA of a hub lies, downloaded where that is allowed."""
    from huggingface_hub import snapshot_download

    for patterns in HUB_PATTERNS:
        folder = Path(
            snapshot_download(repo, revision=revision or None, allow_patterns=patterns, local_files_only=offline)
        )
        if any(folder.glob("*.safetensors")):
            break
    return folder


def _load(loader: Any, folder: Path, file: str, name: str) -> dict[str, set[str]]:
    """Put it on; the keys that should be there now, by component, and under "" those of no component."""
    if file == _PEFT and (folder / _PEFT_CONFIG).is_file():
        return _load_peft(loader, folder, name)
    state = loader.lora_state_dict(str(folder), weight_name=file, use_safetensors=True, local_files_only=True)
    tensors = state[0] if isinstance(state, tuple) else state
    loader.load_lora_weights(
        str(folder), weight_name=file, adapter_name=name, use_safetensors=True, local_files_only=True
    )
    keys_of: dict[str, set[str]] = {"": set(tensors)}
    for part in _networks(loader):
        keys = {key for key in tensors if key.startswith(f"{part}.")}
        keys_of[""] -= keys
        of_part = {key.removeprefix(f"{part}."): tensors[key] for key in keys}
        keys_of[part] = set(_in_peft_words(of_part, getattr(loader, part), part))
    return keys_of


def _load_peft(loader: Any, folder: Path, name: str) -> dict[str, set[str]]:
    """Put on what peft's ``save_pretrained`` wrote of one component; it does not say of which."""
    from peft import LoraConfig
    from safetensors.torch import load_file

    kind = read_json(folder / _PEFT_CONFIG).get("peft_type")
    if kind != "LORA":
        raise ModelUnavailable(f"{folder} is an adapter of the kind {kind}, and only LoRA is taken")
    tensors = {key.removeprefix("base_model.model."): value for key, value in load_file(folder / _PEFT).items()}
    parts = _networks(loader)
    fitting = {part: _in_peft_words(tensors, getattr(loader, part), part) for part in parts}
    n_fitting = {part: _n_with_layer(keys, getattr(loader, part)) for part, keys in fitting.items()}
    best = max(parts, key=n_fitting.__getitem__)
    same = [part for part in parts if n_fitting[part] == n_fitting[best]]
    if n_fitting[best] == 0:
        return {"": set(tensors)}
    if len(same) > 1:
        raise ModelUnavailable(
            f"{folder} fits {' and '.join(same)} alike and does not say which it is for; save it with "
            "save_lora_weights of the diffusers pipeline"
        )
    config = LoraConfig.from_pretrained(str(folder)).to_dict()
    metadata = {f"{best}.{key}": value for key, value in config.items()}
    state = {f"{best}.{key}": value for key, value in fitting[best].items()}
    how = {"adapter_name": name, "metadata": metadata, "_pipeline": loader}
    part = getattr(loader, best)
    if best.startswith("text_encoder"):
        loader.load_lora_into_text_encoder(state, None, part, prefix=best, **how)
    else:
        part.load_lora_adapter(state, prefix=best, **how)
    return {best: set(fitting[best])}


def _networks(loader: Any) -> list[str]:
    import torch

    kinds = ("unet", "transformer", "text_encoder")
    networks = [name for name, part in loader.components.items() if isinstance(part, torch.nn.Module)]
    return [name for name in networks if name.startswith(kinds)]


def _in_peft_words(tensors: Mapping[str, Any], part: Any, name: str) -> dict[str, Any]:
    """The tensors of one component under the names that peft gives them there."""
    from diffusers.utils.state_dict_utils import (
        convert_state_dict_to_diffusers,
        convert_state_dict_to_peft,
        convert_unet_state_dict_to_peft,
    )

    words, of_text = dict(tensors), name.startswith("text_encoder")
    if words and not any("lora_A" in key for key in words):
        if of_text:
            words = convert_state_dict_to_peft(convert_state_dict_to_diffusers(words))
        else:
            words = convert_unet_state_dict_to_peft(words)
    if of_text and not hasattr(part, "text_model"):  # older transformers had one level more
        words = {key.removeprefix("text_model."): value for key, value in words.items()}
    return words


def _n_with_layer(keys: Iterable[str], part: Any) -> int:
    layers = {name for name, _ in part.named_modules()}
    return sum(key.rsplit(".lora_", 1)[0] in layers for key in keys)


def _check_whole(loader: Any, keys_of: Mapping[str, set[str]], name: str, what: str, misfit: str) -> None:
    """Refuse a LoRA that is not in the pipeline as a whole: diffusers only warns of what it left out.

    Raises
    ------
    ModelUnavailable
        No layer of it fits, or some do not, or a layer lacks one of its halves, or has NaN.
    """
    from peft import get_peft_model_state_dict

    there: set[str] = set()
    for part, names in loader.get_list_adapters().items():
        if name in names:
            module = getattr(loader, part)
            check_finite(module, what)
            keys = get_peft_model_state_dict(module, adapter_name=name)
            there |= {f"{part}.{key.removesuffix('.weight')}" for key in keys}
    if not there:
        raise ModelUnavailable(misfit)
    expected = {
        f"{part}.{key.removesuffix('.weight')}".lstrip(".")
        for part, keys in keys_of.items()
        for key in keys
        if not key.endswith(".alpha")
    }
    wrong = (
        ("{} of its {} weights have no place in this model", expected - there),
        ("{} weights are missing beside its {}", there - expected),
    )
    for words, keys in wrong:
        if keys:
            raise ModelUnavailable(
                f"{what} fits only in part: {words.format(len(keys), len(expected))} ({some_of(keys)}); it "
                "was made for another model, or is damaged"
            )


def _misfit(model: str, place: str) -> str:
    return f"{model}: the LoRA {place} does not fit this model; it was made for another"


def _only_file(folder: Path) -> str:
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    for usual in (_STANDARD, _PEFT):
        if usual in files:
            return usual
    if len(files) == 1:
        return files[0]
    if files:
        raise ModelUnavailable(
            f"{folder} has {len(files)} .safetensors files ({', '.join(files[:4])}); name one of them"
        )
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(kind)]
    why = f"only {pickles[0]}, a pickle, which can run code and is refused" if pickles else "none"
    raise ModelUnavailable(f"a LoRA is a .safetensors file, and {folder} has {why}")
