"""Weights are taken whole or not at all: nothing is filled in with random numbers, nothing is left over."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SHOWN = 3  # keys named in a message
_INDEX = ".safetensors.index"
_TOKENIZER = "tokenizer.json"
_VOCABULARIES = (_TOKENIZER, "vocab.txt", "vocab.json", "*.model")
_JSON = (
    "model_index.json",
    "config.json",
    "generation_config.json",
    "scheduler_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
    "vocab.json",
)
_WHOLE_NUMBERS = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"}
# Buffers that every model computes for itself and that older versions of the libraries wrote down.
_COMPUTED = re.compile(r"(^|\.)(position_ids|inv_freq|masked_bias|num_batches_tracked)$")
# By what a configuration calls its kind: keys of the whole model of which it is a part.
_REST_OF = {
    "clip_text_model": re.compile(r"^(vision_model|visual_projection|text_projection|logit_scale)(\.|$)"),
    "clip_vision_model": re.compile(r"^(text_model|text_projection|visual_projection|logit_scale)(\.|$)"),
    "t5": re.compile(r"^(decoder|lm_head)\."),
    "umt5": re.compile(r"^(decoder|lm_head)\."),
}


def load_whole(kind: Any, source: str, *, name: str, **how: Any) -> Any:
    """``kind.from_pretrained(source, **how)``, every weight of which came from the files and is a number.

    Parameters
    ----------
    kind : a class of transformers or diffusers.
    name : of the model or component, for messages.

    Raises
    ------
    ModelUnavailable
        Weights are missing, left over, of other shapes, or not finite; the message names some of them.

    Notes
    -----
    What the class itself declares as dispensable (``_keys_to_ignore_on_load_missing``, tied weights) is not
    missing. Left over may be what it declares, buffers that it computes for itself now (``position_ids``, as
    Stable Diffusion's text encoder has it), and the rest of a larger model where only one tower of it is
    asked for: the picture tower of a CLIP, the decoder of a T5.
    """
    folder = Path(source) / str(how.get("subfolder") or "")
    check_json(folder)
    check_shards(folder, name)
    check_types(folder, name)
    model, found = kind.from_pretrained(source, output_loading_info=True, ignore_mismatched_sizes=True, **how)
    rest = _REST_OF.get(str(getattr(model.config, "model_type", "")))
    left_over = [
        key for key in found["unexpected_keys"] if not (_COMPUTED.search(key) or (rest and rest.search(key)))
    ]
    sizes = [f"{key} is {list(has)}, not {list(wants)}" for key, has, wants in found["mismatched_keys"]]
    missing = [key for key in found["missing_keys"] if not _COMPUTED.search(key)]
    wrong = (
        ("lacks {} of its weights", missing),
        ("has {} that this kind of model does not take", left_over),
        ("has {} of another shape", sizes),
    )
    said = [words.format(len(keys)) + f" ({some_of(keys)})" for words, keys in wrong if keys]
    if said:
        raise ModelUnavailable(
            f"{name} {' and '.join(said)}: its weights and its config.json are not of one model; "
            "download it again, or choose another model"
        )
    check_finite(model, name)
    return model


def check_finite(model: Any, name: str) -> None:
    """Refuse NaN and infinity in the weights: what comes of them can look like an answer.

    Raises
    ------
    ModelUnavailable
        Some weight is not a number.
    """
    import torch

    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if tensor.is_floating_point() and tensor.numel() and tensor.device.type != "meta":
                ends = torch.stack(torch.aminmax(tensor))
                if not bool(torch.isfinite(ends.float()).all()):
                    raise ModelUnavailable(
                        f"{name} has NaN or infinity in its weights ({key}); they are damaged, or of too low "
                        "precision: download it again, or choose another model"
                    )


def check_types(folder: Path, name: str) -> None:
    """Refuse weights of whole numbers, which loaders would round to; those of quantised models are such.

    Raises
    ------
    ModelUnavailable
        A weight or bias is of an integer type, and the configuration says nothing of quantisation.
    """
    from safetensors import safe_open

    files = [path for path in folder.glob("*.safetensors") if path.is_file()] if folder.is_dir() else []
    if not files or "quantization_config" in read_json(folder / "config.json"):
        return
    for path in files:
        with safe_open(path, framework="pt") as file:
            whole = [
                key
                for key in file.keys()  # noqa: SIM118  (no mapping)
                if key.endswith((".weight", ".bias")) and file.get_slice(key).get_dtype() in _WHOLE_NUMBERS
            ]
        if whole:
            raise ModelUnavailable(
                f"{name} has {len(whole)} weights of whole numbers in {path.name} ({some_of(whole)}), and "
                "its config.json has no quantization_config; download it again, or choose another model"
            )


def check_json(folder: Path) -> None:
    """Refuse a folder whose configuration or tokenizer cannot be read as such.

    Raises
    ------
    ValueError
        A file is not JSON, or the tokenizer has no vocabulary.
    """
    for file in _JSON:
        if (folder / file).is_file():
            read_json(folder / file)
    if (folder / _TOKENIZER).is_file():
        model = read_json(folder / _TOKENIZER).get("model")
        if not isinstance(model, dict) or not model.get("vocab"):
            raise ValueError(f"{folder.name}/{_TOKENIZER} has no vocabulary")


def check_tokenizer(folder: Path, name: str) -> None:
    """Refuse a folder without a tokenizer: some classes would make one up that knows no word.

    Raises
    ------
    ModelUnavailable
        None of the files that a tokenizer is read from is there.
    """
    if folder.is_dir() and not any(found for kind in _VOCABULARIES for found in folder.glob(kind)):
        raise ModelUnavailable(
            f"{name} has no tokenizer ({', '.join(_VOCABULARIES)}); put the one that it was trained with "
            "into the folder"
        )


def check_shards(folder: Path, name: str) -> None:
    """Refuse a folder whose index names files of weights that are not there.

    Raises
    ------
    ModelUnavailable
        A file of weights is missing, or the index cannot be read.
    """
    for index in sorted(folder.glob(f"*{_INDEX}*.json")) if folder.is_dir() else ():
        files = set(read_json(index).get("weight_map", {}).values())
        missing = sorted(file for file in files if not (folder / str(file)).is_file())
        if missing:
            raise ModelUnavailable(
                f"{name} lacks {len(missing)} of its {len(files)} files of weights ({some_of(missing)}) that "
                f"{index.name} names; download them again"
            )


def variant_of(folder: Path, stem: str, wanted: str | None) -> str | None:
    """Which variant of the weights to read: the wanted one, the plain one, or the only kind there is.

    Parameters
    ----------
    folder : of one model.
    stem : of its weights: "model" for transformers, "diffusion_pytorch_model" for diffusers.
    wanted : e.g. "fp16"; None for the plain weights.
    """
    if not folder.is_dir():
        return wanted
    there = {_variant(path.name, stem) for path in folder.glob(f"{stem}*.safetensors*")} - {"?"}
    if wanted in there or not there:
        return wanted if wanted in there else None
    return None if "" in there else sorted(there, key=lambda variant: (variant != "fp16", variant))[0]


def _variant(file: str, stem: str) -> str:
    """The variant in a file's name, "" for the plain weights; "?" where it is no file of weights.

    Examples
    --------
    >>> files = ("model.safetensors", "model.fp16.safetensors", "model.safetensors.index.fp16.json")
    >>> [_variant(file, "model") for file in (*files, "model-00001-of-00002.safetensors", "ema.safetensors")]
    ['', 'fp16', 'fp16', '', '?']
    """
    shard = r"(?:-\d{5}-of-\d{5})?"
    match = re.fullmatch(
        rf"{stem}{shard}(?:\.(\w+))?{shard}\.safetensors(?:\.index(?:\.(\w+))?\.json)?", file
    )
    return (match[1] or match[2] or "") if match else "?"


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object of a model's folder.

    Raises
    ------
    ValueError
        It is not there, cannot be read, or holds something else; whoever loads says of which model.
    """
    said = f"cannot read {path.parent.name}/{path.name}"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{said}: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise ValueError(f"{said}: it is not JSON") from error
    if not isinstance(found, dict):
        raise ValueError(f"{said}: it is not a JSON object")
    return found


def some_of(keys: Iterable[object]) -> str:
    """The first few, in order."""
    found = sorted(map(str, keys))
    return ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
