"""Adapters (LoRA) put whole on a diffusers pipeline, and taken off again without a trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import huggingface_hub
import safetensors

from bias_core.adapters import diffusers, peft, torch
from bias_core.adapters.weights import check_finite, loading, some_of
from bias_core.errors import ModelUnavailable
from bias_core.models.catalogue import read_json

# How peft and torch say that layers are missing or have other sizes.
_MISFITS = ("size mismatch", "Target modules", "loading state_dict")
_STANDARD = "pytorch_lora_weights.safetensors"
_PEFT, _PEFT_CONFIG = "adapter_model.safetensors", "adapter_config.json"
# By a part of the names of its weights: adapters of other kinds, which LyCORIS and others train.
_OTHER_KINDS = {
    "hada_": "a LoHa",
    "lokr_": "a LoKr",
    ".oft_": "an OFT",
    "boft_": "a BOFT",
    "lora_mid": "a LoCon with a Tucker decomposition",
    "emb_params": "a textual inversion",
    "string_to_param": "a textual inversion",
    "hypernet": "a hypernetwork",
    "model.diffusion_model.": "a whole checkpoint, which is named as a model of its own",
}
_LAYERS = (".weight", ".bias")
_EMBEDDINGS = {"clip_l", "clip_g"}  # of textual inversions for models with two text encoders
# Files that a LoRA of a hub may be, the usual names first.
_HUB_PATTERNS = ([_STANDARD, _PEFT, _PEFT_CONFIG], ["*.safetensors"])


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

    Raises ModelUnavailable: missing, corrupt, a pickle, made for another model as a whole or in part, or the
    family takes none. What was put into the pipeline by then stays there: do not use it any more.
    """
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelUnavailable(f"{model}: a {type(pipeline).__name__} takes no LoRA; choose another base")
    path = Path(source)
    if path.is_file():
        source, file = str(path.parent), path.name
    place = str(path) if path.exists() else source
    loader = getattr(pipeline, "first", pipeline)  # of two stages the one that decides what is drawn
    misfit = f"{model}: the LoRA {place} does not fit this model; it was made for another"
    with loading(f"{model}: the LoRA", place):
        folder = Path(source) if Path(source).is_dir() else hub_folder(source, revision, offline=offline)
        file = file or _only_file(folder)
        try:
            _check_kind(folder / file, f"{model}: {folder / file}")
            if file == _PEFT and (folder / _PEFT_CONFIG).is_file():
                keys = _load_peft(loader, folder, name)
            else:
                keys = _load(loader, folder, file, name)
        except (RuntimeError, ValueError) as error:
            if any(words in str(error) for words in _MISFITS):
                raise ModelUnavailable(misfit) from error
            raise
        _check_whole(loader, keys, name, f"{model}: the LoRA {place}", misfit)
        loader.set_adapters([name], adapter_weights=[weight])


def use_in_parts(pipeline: Any, *, denoiser: str, text_encoders: str) -> None:
    """Have the denoiser work with one of the adapters that are loaded, and the text encoders with another.

    A name that none of them has is none: these networks then answer as without any.
    """
    for part, network in _networks(getattr(pipeline, "first", pipeline)).items():
        name = text_encoders if part.startswith("text_encoder") else denoiser
        for layer in network.modules():
            if isinstance(layer, peft.tuners.lora.LoraLayer):
                layer.enable_adapters(name in layer.r)
                if name in layer.r:
                    layer.set_adapter(name)


def hub_folder(repo: str, revision: str, *, offline: bool = False) -> Path:
    """Where the LoRA of a hub lies, downloaded where that is allowed."""
    for patterns in _HUB_PATTERNS:
        how = {"revision": revision or None, "allow_patterns": patterns, "local_files_only": offline}
        folder = Path(huggingface_hub.snapshot_download(repo, **how))
        if any(folder.glob("*.safetensors")):
            break
    return folder


def _check_kind(path: Path, what: str) -> None:
    """Refuse an adapter that is no LoRA, by what it is, and a DoRA whose magnitudes diffusers would leave out."""
    with safetensors.safe_open(path, framework="pt") as file:
        keys = sorted(file.keys())
        n_axes = [len(file.get_slice(key).get_shape()) for key in keys]
    kind = next((kind for part, kind in _OTHER_KINDS.items() if any(part in key for key in keys)), "")
    if not kind and not any("lora" in key.lower() for key in keys):
        # diffusers names the only weight of a textual inversion by its new word.
        is_word = (len(keys) == 1 and max(n_axes) <= 2 and not keys[0].endswith(_LAYERS)) or _EMBEDDINGS >= set(
            keys
        ) > set()
        kind = "a textual inversion" if is_word else f"no LoRA (its weights are {some_of(keys) or 'none'})"
    if kind:
        raise ModelUnavailable(f"{what} is {kind}, and only LoRA is taken")
    if n := sum("dora_scale" in key for key in keys):
        raise ModelUnavailable(
            f"{what} fits only in part: it is a DoRA, and its {n} magnitudes (dora_scale) have no place here; take a "
            "plain LoRA, or a DoRA that peft saved (lora_magnitude_vector)"
        )


def _load(loader: Any, folder: Path, file: str, name: str) -> set[str]:
    """Put it on; the keys that should be there now."""
    how = {"weight_name": file, "use_safetensors": True, "local_files_only": True}
    state = loader.lora_state_dict(str(folder), **how)
    tensors = state[0] if isinstance(state, tuple) else state
    loader.load_lora_weights(str(folder), adapter_name=name, **how)
    keys, left = set[str](), set(tensors)
    for part, network in _networks(loader).items():
        of_part = {key for key in tensors if key.startswith(f"{part}.")}
        left -= of_part
        named = {key.removeprefix(f"{part}."): tensors[key] for key in of_part}
        keys |= {f"{part}.{key}" for key in _in_peft_words(named, network, part)}
    return keys | left


def _load_peft(loader: Any, folder: Path, name: str) -> set[str]:
    """Put on what peft's ``save_pretrained`` wrote of one component; it does not say of which."""
    from safetensors.torch import load_file

    kind = read_json(folder / _PEFT_CONFIG).get("peft_type")
    if kind != "LORA":
        raise ModelUnavailable(f"{folder} is an adapter of the kind {kind}, and only LoRA is taken")
    tensors = {key.removeprefix("base_model.model."): value for key, value in load_file(folder / _PEFT).items()}
    networks = _networks(loader)
    fitting = {part: _in_peft_words(tensors, network, part) for part, network in networks.items()}
    n_fitting: dict[str, int] = {}
    for part, network in networks.items():
        layers = {layer for layer, _ in network.named_modules()}
        n_fitting[part] = sum(key.rsplit(".lora_", 1)[0] in layers for key in fitting[part])
    most = max(n_fitting.values())
    best, *others = [part for part, n in n_fitting.items() if n == most]
    if most == 0:
        return set(tensors)
    if others:
        raise ModelUnavailable(
            f"{folder} fits {' and '.join((best, *others))} alike and does not say which it is for; save it with "
            "save_lora_weights of the diffusers pipeline"
        )
    config = peft.LoraConfig.from_pretrained(str(folder)).to_dict()
    metadata = {f"{best}.{key}": value for key, value in config.items()}
    state = {f"{best}.{key}": value for key, value in fitting[best].items()}
    how = {"prefix": best, "adapter_name": name, "metadata": metadata, "_pipeline": loader}
    if best.startswith("text_encoder"):
        loader.load_lora_into_text_encoder(state, None, networks[best], **how)
    else:
        networks[best].load_lora_adapter(state, **how)
    return set(state)


def _networks(loader: Any) -> dict[str, Any]:
    kinds = ("unet", "transformer", "text_encoder")
    parts = loader.components.items()
    return {name: part for name, part in parts if isinstance(part, torch.nn.Module) and name.startswith(kinds)}


def _in_peft_words(tensors: Mapping[str, Any], part: Any, name: str) -> dict[str, Any]:
    """The tensors of one component under the names that peft gives them there."""
    words, of_text, convert = dict(tensors), name.startswith("text_encoder"), diffusers.utils.state_dict_utils
    if words and not any("lora_A" in key for key in words):
        if of_text:
            words = convert.convert_state_dict_to_peft(convert.convert_state_dict_to_diffusers(words))
        else:
            words = convert.convert_unet_state_dict_to_peft(words)
    if of_text and not hasattr(part, "text_model"):  # older transformers had one level more
        words = {key.removeprefix("text_model."): value for key, value in words.items()}
    return words


def _check_whole(loader: Any, keys: set[str], name: str, what: str, misfit: str) -> None:
    """Refuse a LoRA that is not in the pipeline as a whole: diffusers only warns of what it left out.

    ModelUnavailable: no layer of it fits, or some do not, or a layer lacks one of its halves, or has NaN.
    """
    there: set[str] = set()
    for part, names in loader.get_list_adapters().items():
        if name in names:
            module = getattr(loader, part)
            check_finite(module, what)
            of_part = peft.get_peft_model_state_dict(module, adapter_name=name)
            there |= {f"{part}.{key.removesuffix('.weight')}" for key in of_part}
    if not there:
        raise ModelUnavailable(misfit)
    expected = {key.removesuffix(".weight") for key in keys if not key.endswith(".alpha")}
    wrong = {
        "{} of its {} weights have no place in this model": expected - there,
        "{} weights are missing beside its {}": there - expected,
    }
    for words, some in wrong.items():
        if some:
            raise ModelUnavailable(
                f"{what} fits only in part: {words.format(len(some), len(expected))} ({some_of(some)}); it "
                "was made for another model, or is damaged"
            )


def _only_file(folder: Path) -> str:
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    for usual in (_STANDARD, _PEFT, *(files if len(files) == 1 else ())):
        if usual in files:
            return usual
    if files:
        raise ModelUnavailable(
            f"{folder} has {len(files)} .safetensors files ({', '.join(files[:4])}); name one of them"
        )
    pickles = [path.name for kind in ("*.bin", "*.pt", "*.ckpt") for path in folder.glob(kind)]
    why = f"only {pickles[0]}, a pickle, which can run code and is refused" if pickles else "none"
    raise ModelUnavailable(f"a LoRA is a .safetensors file, and {folder} has {why}")
