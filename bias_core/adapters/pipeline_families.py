"""Loads what is particular to a family: parts that it does without, and pipelines made of two."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bias_core.adapters.family_facts import PipelineFacts, accepted, check_parts, read_index
from bias_core.adapters.pipeline_components import load_components
from bias_core.adapters.whole_weights import load_whole
from bias_core.errors import ModelUnavailable
from bias_core.model_catalogue import split_revision

if TYPE_CHECKING:
    from bias_core.types import ModelInfo

KANDINSKY_PRIOR = "kandinsky-community/kandinsky-2-2-prior"
DEEPFLOYD_UPSCALER = "DeepFloyd/IF-II-L-v1.0"

# Inputs of pipelines that edit a picture, or make a film or a sound.
_NOT_FROM_TEXT = {
    "image",
    "mask_image",
    "control_image",
    "num_frames",
    "video_length",
    "audio_length_in_s",
    "source_prompt",
}
_NO_INPUTS = {"self", "prompt", "args", "kwargs"}
# Parts of the names of classes that want a picture even where it may be None, or draw something else.
_OTHER_WORK = (
    *("Img2Img", "Inpaint", "Edit", "Control", "Refiner", "Upscale", "Instruct", "Fill", "Super"),
    *("Video", "Adapter", "3D", "Pix2Pix", "GLIGEN", "Blip"),
)


def pipeline_of(info: ModelInfo, source: str, **how: Any) -> Any:
    """The pipeline of a hub id or folder, with what belongs to it from elsewhere.

    Parameters
    ----------
    info : its ``options`` may hold ``prior`` (Kandinsky) and ``upscaler`` (DeepFloyd IF), as hub ids, with
        "@revision" where that is pinned, or folders.
    how : arguments of ``from_pretrained``.

    Raises
    ------
    ModelUnavailable
        It is not a pipeline that draws from text, or needs code of its own.
    """
    config = _config(source, how)
    name, kind = _pipeline_class(info, config)
    check_parts(PipelineFacts(kind=kind), _absent(config), info.id)
    if name == "KandinskyV22Pipeline":
        return _with_prior(info, source, how)
    if name == "IFPipeline":
        return _with_upscaler(info, source, how)
    if "add_watermarker" in inspect.signature(kind.__init__).parameters:
        how["add_watermarker"] = False  # else pixels would depend on whether a package is installed
    return _load(info, source, how)


def _config(source: str, how: dict[str, Any]) -> dict[str, Any]:
    return read_index(source, revision=how["revision"], local_files_only=how["local_files_only"])


def _load(info: ModelInfo, source: str, how: dict[str, Any]) -> Any:
    """Load it without the components that its index says were never there; diffusers must be told each."""
    return load_components(source, info.id, **_absent(_config(source, how)) | how)


def _absent(config: dict[str, Any]) -> dict[str, None]:
    """Components that the index names and says are not there."""
    return {part: None for part, value in config.items() if value == [None, None]}


def _pipeline_class(info: ModelInfo, config: dict[str, Any]) -> tuple[str, Any]:
    import diffusers

    name = config.get("_class_name")
    if not isinstance(name, str) or not hasattr(diffusers, name):
        raise ModelUnavailable(
            f"{info.id} is a {name}, which this version of diffusers does not have; code that comes with a "
            "model is never run: update diffusers, or choose another model"
        )
    kind = getattr(diffusers, name)
    if packages := getattr(kind, "_backends", None):  # a stand-in for a class that could not be imported
        raise ModelUnavailable(
            f"{info.id} is a {name}, which needs packages that are not all installed: {', '.join(packages)}"
        )
    if "Prior" in name:
        raise ModelUnavailable(
            f"{info.id} is a {name}, a prior alone: what it draws is the embedding of a picture; choose the "
            "decoder that belongs to it, such as kandinsky-community/kandinsky-2-2-decoder"
        )
    if name != "KandinskyV22Pipeline" and not _draws_from_text(name, kind):
        raise ModelUnavailable(
            f"{info.id} is a {name}, which does not draw pictures from a text alone; choose a "
            "text-to-image model"
        )
    return name, kind


def _draws_from_text(name: str, kind: Any) -> bool:
    """Whether a prompt and a size are all that a class needs; a picture may be optional."""
    inputs = accepted(kind)
    others = {part for part in _NOT_FROM_TEXT & set(inputs) if part != "image" or inputs[part] is not None}
    others |= {part for part, default in inputs.items() if default is inspect.Parameter.empty} - _NO_INPUTS
    return {"prompt", "height"} <= set(inputs) and not others and not any(w in name for w in _OTHER_WORK)


def _other_part(
    info: ModelInfo, option: str, default: str, how: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Where the second pipeline is, and how to load it."""
    source = str(info.options.get(option, default))
    if Path(source).expanduser().is_dir():
        return str(Path(source).expanduser()), how | {"revision": None, "local_files_only": True}
    repo, revision = split_revision(source)
    return repo, how | {"revision": revision or None}


def _with_prior(info: ModelInfo, source: str, how: dict[str, Any]) -> Any:
    """Kandinsky 2.2: the prior, which draws the embedding of a picture, and the decoder in one."""
    from diffusers import KandinskyV22CombinedPipeline

    decoder = _load(info, source, how)
    prior = _load(info, *_other_part(info, "prior", KANDINSKY_PRIOR, how))
    parts = {f"prior_{name}": part for name, part in prior.components.items()}
    return KandinskyV22CombinedPipeline(**decoder.components, **parts)


def _with_upscaler(info: ModelInfo, source: str, how: dict[str, Any]) -> Any:
    """DeepFloyd IF: stage I, and stage II without the text encoder and the checker, which they share."""
    from bias_core.adapters.deepfloyd import DeepFloydPipeline, SafetyChecker

    checker = None
    if _config(source, how).get("safety_checker", [None])[0]:
        named = f"{info.id}: safety_checker"
        checker = load_whole(SafetyChecker, source, name=named, subfolder="safety_checker", **how)
    first = _load(info, source, how | {"watermarker": None, "safety_checker": checker})
    other, how = _other_part(info, "upscaler", DEEPFLOYD_UPSCALER, how)
    shared = ("tokenizer", "text_encoder", "safety_checker", "feature_extractor", "watermarker")
    second = _load(info, other, how | dict.fromkeys(shared) | {"requires_safety_checker": False})
    return DeepFloydPipeline.of(first, second)
