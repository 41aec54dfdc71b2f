"""The size that a pipeline draws where another is asked for, by the rule of its own code, before it draws."""

from __future__ import annotations

import inspect
import math
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bias_core.adapters.family_facts import facts_at, read_config, read_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from bias_core.adapters.family_facts import PipelineFacts
    from bias_core.types import ModelInfo

    Size = tuple[int, int]
    Rule = Callable[[Any, int, int], Size]

_DECODERS = ("vae", "movq")
_MOST_ROUNDS = 64


@dataclass(frozen=True)
class _Network:
    """A denoiser that has its configuration alone."""

    config: SimpleNamespace


def _rounded(multiple: int, sides: Size, way: Callable[[float], int]) -> Size:
    width, height = (way(side / multiple) * multiple for side in sides)
    return width, height


def _whole_patches(pipeline: Any, width: int, height: int) -> Size:
    """Latents are packed two by two, and what is left over is not drawn."""
    return _rounded(2 * pipeline.vae_scale_factor, (width, height), math.floor)


def _whole_latents(pipeline: Any, width: int, height: int) -> Size:
    return _rounded(pipeline.vae_scale_factor, (width, height), math.floor)


def _patches_of_the_network(pipeline: Any, width: int, height: int) -> Size:
    patch = int(pipeline.transformer.config.patch_size)
    return _rounded(patch * pipeline.vae_scale_factor, (width, height), math.floor)


def _begun_patches(pipeline: Any, width: int, height: int) -> Size:
    return _rounded(pipeline.patch_size * pipeline.vae_scale_factor, (width, height), math.ceil)


def _begun_latents(pipeline: Any, width: int, height: int) -> Size:
    decoder = getattr(pipeline, "decoder_pipe", pipeline)
    return _rounded(decoder.movq_scale_factor**2, (width, height), math.ceil)


def _nearest_shape(pipeline: Any, width: int, height: int) -> Size:
    shape = width / height
    found: Size = min(pipeline.resolutions, key=lambda size: abs(size[0] / size[1] - shape))
    return found


def _own_area(pipeline: Any, width: int, height: int) -> Size:
    """Every shape at the area that it was trained at."""
    factor = pipeline.vae_scale_factor
    scale = math.sqrt((pipeline.default_sample_size * factor) ** 2 / (width * height))
    return _rounded(2 * factor, (width * scale, height * scale), math.floor)  # type: ignore[arg-type]


# Families that draw another size without refusing the one that was asked for.
_RULES: dict[str, Rule] = {
    "ChromaPipeline": _whole_patches,
    "Flux2KleinKVPipeline": _whole_patches,
    "Flux2KleinPipeline": _whole_patches,
    "Flux2Pipeline": _whole_patches,
    "FluxPipeline": _whole_patches,
    "HiDreamImagePipeline": _own_area,
    "HunyuanImagePipeline": _whole_latents,
    "Kandinsky5T2IPipeline": _nearest_shape,
    "KandinskyV22CombinedPipeline": _begun_latents,
    "KandinskyV22Pipeline": _begun_latents,
    "Krea2Pipeline": _begun_patches,
    "LongCatImagePipeline": _whole_patches,
    "NucleusMoEImagePipeline": _patches_of_the_network,
    "OvisImagePipeline": _whole_patches,
    "QwenImage21Pipeline": _whole_patches,
    "QwenImagePipeline": _whole_patches,
}


def drawn_size(pipeline: Any, width: int, height: int) -> Size:
    """Width and height of the picture that is drawn where these are asked for; themselves where not known.

    It is a size that is drawn as it is where it is itself asked for.
    """
    rule, size = _RULES.get(type(pipeline).__name__), (width, height)
    for _ in range(_MOST_ROUNDS if rule else 0):
        if min(size) < 1 or (drawn := rule(pipeline, *size)) == size:  # type: ignore[misc]
            break
        size = drawn
    return size if min(size) >= 1 else (width, height)  # too small to be drawn: the pipeline says so


def drawn_size_at(info: ModelInfo, source: str, width: int, height: int) -> Size:
    """The same of a pipeline that is not loaded; what is asked for where its files are not here."""
    try:
        index = read_index(source, revision=info.revision or None, local_files_only=True)
    except (OSError, ValueError):
        return width, height
    if not isinstance(index, dict) or index.get("_class_name") not in _RULES:
        return width, height
    if (facts := facts_at(info, source)) is None:
        return width, height
    try:
        return drawn_size(_without_weights(facts, info, source), width, height)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return width, height  # its files are damaged: the loader says how


def _without_weights(facts: PipelineFacts, info: ModelInfo, source: str) -> Any:
    """The pipeline as its constructor makes it of configurations alone: it knows its factors and sizes."""
    import diffusers
    import torch

    kind = getattr(diffusers, str(facts.index["_class_name"]))
    known = inspect.signature(kind.__init__).parameters
    parts: dict[str, Any] = {}
    for name in list(known)[1:]:
        value, default = facts.index.get(name), known[name].default
        is_setting = name in facts.index and not isinstance(value, list)
        parts[name] = value if is_setting else None if default is inspect.Parameter.empty else default
    for name in {"transformer", "unet"} & set(parts):
        parts[name] = _Network(SimpleNamespace(**facts.denoiser))
    for name in [name for name in _DECODERS if name in parts and isinstance(facts.index.get(name), list)]:
        if not (config := read_config(info, source, f"{name}/config.json")):
            raise LookupError(f"{name} has no configuration")
        with torch.device("meta"):
            parts[name] = getattr(diffusers, str(facts.index[name][1])).from_config(config)
    pipeline = kind.__new__(kind)
    with suppress(AttributeError):  # from one that goes on to read its tokenizer: factors are set before
        pipeline.__init__(**parts)
    return pipeline


def other_size(model: str, asked: Size, drawn: Size) -> tuple[str, ...]:
    """A sentence where a model draws another size than was asked for."""
    if asked == drawn:
        return ()
    sizes = [f"{width}x{height}" for width, height in (drawn, asked)]
    return (f"{model} draws {sizes[0]} pixels where {sizes[1]} were asked for, and is recorded with them.",)
