"""What a pipeline's own files and code say of it: how it is guided, its defaults, the size that it draws."""

from __future__ import annotations

import inspect
import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bias_core.errors import ModelUnavailable
from bias_core.models.catalogue import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bias_core.types import ImageRow, ModelInfo

    Size = tuple[int, int]
    Rule = Callable[[Any, int, int], Size]

INDEX = "model_index.json"
_DENOISERS = ("transformer", "unet", "prior", "decoder")
_SCALES = ("guidance_scale", "true_cfg_scale", "distilled_guidance_scale", "prior_guidance_scale")
# z + g (z - z0) where others compute z0 + g (z - z0): the weight of the text is 1 + g.
_COUNTS_FROM_0 = {"ZImagePipeline", "Krea2Pipeline"}
_ALWAYS_TWO_PASSES = {"Ideogram4Pipeline", "OmniGenPipeline"}  # below 1 they lean away from the text
_GUIDER = "guider"
# A picture of these does not depend, bit for bit, on what else is in its batch: their texts are padded to a
# fixed length, and every picture has a generator of its own.
_IN_BATCHES = {
    *("AuraFlowPipeline", "ChromaPipeline", "DeepFloydPipeline", "Flux2KleinPipeline", "Flux2Pipeline"),
    *("FluxPipeline", "KandinskyV22CombinedPipeline", "LatentConsistencyModelPipeline", "Lumina2Pipeline"),
    *("OvisImagePipeline", "PixArtAlphaPipeline", "PixArtSigmaPipeline", "SanaPipeline", "SanaSprintPipeline"),
    *("StableDiffusion3Pipeline", "StableDiffusionPipeline", "StableDiffusionXLPipeline"),
}
_STRUCTURED = {"BriaFiboPipeline", "BriaFibo2Pipeline", "Ideogram4Pipeline"}
_DECODERS = ("vae", "movq")
_MOST_ROUNDS = 64


@dataclass(frozen=True, kw_only=True)
class PipelineFacts:
    """A pipeline as its files describe it.

    Attributes
    ----------
    kind : its class in diffusers.
    index, denoiser, scheduler : ``model_index.json``, and the configurations of two components.
    guided : whether it has a guider, a component of its own that does the guiding.
    """

    kind: Any
    index: Mapping[str, Any] = field(default_factory=dict)
    denoiser: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    guided: bool = False

    @property
    def name(self) -> str:
        """Of the class."""
        return str(self.kind.__name__)

    @property
    def in_batches(self) -> bool:
        """Whether a picture looks the same whatever else is drawn with it."""
        return self.name in _IN_BATCHES


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """How a family is guided towards its prompt.

    Attributes
    ----------
    argument : of the call that takes the scale, "guider" for that component, "" where nothing takes it.
    least : at and below this scale nothing is guided; -inf where the network itself reads the scale.
    negative : whether the pipeline reads negative prompts at a larger scale.
    why : what the family is, in words, where the scale or the negative prompt does nothing.
    """

    argument: str
    least: float = 1.0
    negative: bool = True
    why: str = ""


def accepted(pipeline: Any) -> dict[str, Any]:
    """Parameters of the call of a pipeline, or of a class of them, with their defaults."""
    kind = pipeline if isinstance(pipeline, type) else type(pipeline)
    return {name: p.default for name, p in inspect.signature(kind.__call__).parameters.items()}


def denoiser_of(pipeline: Any) -> Any:
    """The network that a step runs."""
    return next(getattr(pipeline, name) for name in _DENOISERS if hasattr(pipeline, name))


def facts_of(pipeline: Any) -> PipelineFacts:
    """Facts of a loaded pipeline."""
    return PipelineFacts(
        kind=type(pipeline),
        index=dict(pipeline.config),
        denoiser=dict(denoiser_of(pipeline).config),
        scheduler=dict(pipeline.scheduler.config) | {"_class_name": type(pipeline.scheduler).__name__},
        guided=getattr(pipeline, _GUIDER, None) is not None,
    )


def facts_at(info: ModelInfo, source: str) -> PipelineFacts | None:
    """Facts from the files of a pipeline that is not loaded; None where they are not on this machine."""
    import diffusers

    index = read_config(info, source, INDEX)
    name = str(index.get("_class_name"))
    kind = getattr(diffusers, _COMBINED.get(name, name), None)
    denoiser = read_config(info, source, f"{next((p for p in _DENOISERS if p in index), 'unet')}/config.json")
    if not isinstance(kind, type) or not denoiser:
        return None
    return PipelineFacts(
        kind=kind,
        index=index,
        denoiser=denoiser,
        scheduler=read_config(info, source, "scheduler/scheduler_config.json"),
        guided=(index.get(_GUIDER) or [None])[0] is not None,
    )


_COMBINED = {"KandinskyV22Pipeline": "KandinskyV22CombinedPipeline"}


def read_index(source: str, *, revision: str | None, local_files_only: bool) -> Mapping[str, Any]:
    """``model_index.json`` of a folder or a hub id: the class of the pipeline and of its components."""
    return _read(source, INDEX, revision=revision, local_files_only=local_files_only)


def read_config(info: ModelInfo, source: str, file: str) -> Mapping[str, Any]:
    """A file of a pipeline that is on this machine; {} where it is not."""
    try:
        return _read(source, file, revision=info.revision or None, local_files_only=True)
    except (OSError, ValueError):
        return {}  # the loader says what is wrong with it


def _read(source: str, file: str, **how: Any) -> Mapping[str, Any]:
    from huggingface_hub import hf_hub_download

    return read_json(Path(source, file) if Path(source).is_dir() else Path(hf_hub_download(source, file, **how)))


def guidance_of(facts: PipelineFacts, call: Mapping[str, Any] | None = None) -> Guidance:
    """How this pipeline is guided; ``call`` are further arguments of its call."""
    parameters, name = accepted(facts.kind), facts.name
    negative = "negative_prompt" in parameters
    if facts.index.get("is_distilled") and name == "Flux2KleinPipeline":
        return _unguided("its weights are distilled to draw without guidance")
    if "distilled_guidance_scale" in parameters:
        return _hunyuan(facts)
    if "true_cfg_scale" in parameters:
        return _true_cfg(facts, parameters, call or {})
    if name == "Flux2Pipeline":
        return _embedded(facts.denoiser.get("guidance_embeds", True))
    if name in {"SanaSprintPipeline", "LatentConsistencyModelPipeline"}:
        return _embedded(facts.denoiser.get("guidance_embeds") or facts.denoiser.get("time_cond_proj_dim"))
    if facts.denoiser.get("time_cond_proj_dim") is not None:
        return _embedded(True)
    argument = next((scale for scale in _SCALES if scale in parameters), "")
    if not argument:
        return _unguided(f"{name} takes no guidance scale")
    least = 0.0 if name in _COUNTS_FROM_0 else -math.inf if name in _ALWAYS_TWO_PASSES else 1.0
    return Guidance(argument=argument, least=least, negative=negative, why=f"{name} takes none")


def _unguided(why: str) -> Guidance:
    return Guidance(argument="", least=math.inf, negative=False, why=why)


def _embedded(has: object) -> Guidance:
    if not has:
        return _unguided("its weights have no guidance embedding (guidance_embeds is false)")
    why = "guidance is an input of its network, which has no pass without the prompt"
    return Guidance(argument="guidance_scale", least=-math.inf, negative=False, why=why)


def _hunyuan(facts: PipelineFacts) -> Guidance:
    if facts.denoiser.get("guidance_embeds"):
        return replace(_embedded(True), argument="distilled_guidance_scale")
    if facts.guided:
        return Guidance(argument=_GUIDER)
    return _unguided("its folder has no guider, and its weights have no guidance embedding")


def _true_cfg(facts: PipelineFacts, parameters: Mapping[str, Any], call: Mapping[str, Any]) -> Guidance:
    """Qwen-Image is guided by this argument alone; FLUX by an embedding, unless this is asked for, too."""
    embeds = facts.denoiser.get("guidance_embeds")
    if parameters.get("guidance_scale") is None and not embeds:
        return Guidance(argument="true_cfg_scale")
    embedded = _embedded(embeds)
    if float(call.get("true_cfg_scale", 1.0)) > 1:
        return replace(embedded, negative=True)
    how = "set call: {true_cfg_scale: 4.0} in its options for one with a negative prompt"
    return replace(embedded, why=f"{embedded.why}; {how}")


def unused_settings(facts: PipelineFacts, row: ImageRow, call: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence on each setting of the row that this model's pictures do not depend on, or not as usual."""
    guidance, sentences = guidance_of(facts, call), []
    scale = row.guidance_scale
    if not guidance.argument and scale > 1:
        sentences.append(f"The guidance scale ({scale:g}) has no effect on {row.model}: {guidance.why}.")
    if guidance.least == 0 and scale > 0:
        sentences.append(f"{row.model} counts guidance from 0: {scale:g} is what others call {1 + scale:g}.")
    if row.negative_prompt and not guidance.negative:
        sentences.append(f"The negative prompt has no effect on {row.model}: {guidance.why}.")
    elif row.negative_prompt and scale <= guidance.least:
        sentences.append(
            f"The negative prompt has no effect on {row.model}: its pictures are drawn without guidance at a "
            f"scale of {scale:g}; set the guidance above {guidance.least:g}."
        )
    if facts.name in _STRUCTURED:
        sentences.append(
            f"{row.model} ({facts.name}) was trained on long structured captions (JSON); a plain sentence is "
            "drawn as it is, and may be drawn worse."
        )
    if facts.name == "Ideogram4Pipeline":
        sentences.append(
            f"{row.model} is guided by {scale:g} at every step; its makers' schedule ends with 3 steps of 3."
        )
    return tuple(sentences)


def check_parts(facts: PipelineFacts, parts: Mapping[str, Any], model: str) -> None:
    """Refuse a pipeline without a component that its family cannot draw without.

    Parameters
    ----------
    parts : components by name; None for those that are absent.

    Raises
    ------
    ModelUnavailable
        Which are missing.
    """
    optional = {"safety_checker", "feature_extractor", "image_encoder", "watermarker", "tokenizer_3"}
    optional |= {"text_encoder_3", _GUIDER, "ocr_guider", "pe", "pe_tokenizer", "prompt_enhancer_head"}
    optional |= set(getattr(facts.kind, "_optional_components", ())) - {"vae", "tokenizer", "text_encoder"}
    necessary = set(inspect.signature(facts.kind.__init__).parameters) - optional
    missing = [name for name, part in parts.items() if part is None and name in necessary]
    if missing:
        raise ModelUnavailable(
            f"{model} ({facts.name}) has no {' and no '.join(missing)}, without which it cannot draw a text; "
            "complete the folder (model_index.json says null there), or choose another model"
        )


def own_defaults(class_name: str, index: Mapping[str, Any]) -> dict[str, float]:
    """Steps, guidance and size that a class of diffusers draws with, from its signature; {} for unknown ones.

    Examples
    --------
    >>> own_defaults("ZImagePipeline", {})
    {'steps': 50, 'guidance': 5.0}
    >>> own_defaults("PRXPipeline", {"default_sample_size": 1024})
    {'steps': 28, 'guidance': 4.0, 'size': 1024}
    """
    import diffusers

    kind = getattr(diffusers, class_name, None)
    if not isinstance(kind, type) or "prompt" not in (parameters := accepted(kind)):
        return {}
    scales = (parameters.get(scale) for scale in _SCALES)
    schedule = parameters.get("guidance_schedule")
    scale = next((value for value in scales if isinstance(value, (int, float))), None)
    if isinstance(schedule, tuple):
        scale = schedule[0]
    if index.get("is_distilled"):
        scale = 0.0 if class_name in _COUNTS_FROM_0 else 1.0
    defaults = {
        "steps": parameters.get("num_inference_steps"),
        "guidance": scale,
        "size": index.get("default_sample_size") or parameters.get("height"),
    }
    return {name: value for name, value in defaults.items() if isinstance(value, (int, float))}


def _rounded(multiple: int, sides: tuple[float, float], way: Callable[[float], int]) -> Size:
    width, height = (way(side / multiple) * multiple for side in sides)
    return width, height


def _multiples(way: Callable[[float], int], side: Callable[[Any], int]) -> Rule:
    """Multiples of what ``side`` says of a pipeline, in pixels: those below (floor) or above (ceil)."""
    return lambda pipeline, width, height: _rounded(side(pipeline), (width, height), way)


def _nearest_shape(pipeline: Any, width: int, height: int) -> Size:
    shape = width / height
    return min(pipeline.resolutions, key=lambda size: abs(size[0] / size[1] - shape))


def _own_area(pipeline: Any, width: int, height: int) -> Size:
    """Every shape at the area that it was trained at."""
    factor = pipeline.vae_scale_factor
    scale = math.sqrt((pipeline.default_sample_size * factor) ** 2 / (width * height))
    return _rounded(2 * factor, (width * scale, height * scale), math.floor)


# Latents are packed two by two, and what is left over is not drawn.
_whole_patches = _multiples(math.floor, lambda pipeline: 2 * pipeline.vae_scale_factor)
_begun_latents = _multiples(math.ceil, lambda p: getattr(p, "decoder_pipe", p).movq_scale_factor ** 2)
# Families that draw another size without refusing the one that was asked for.
_RULES: dict[str, Rule] = {
    "ChromaPipeline": _whole_patches,
    "Flux2KleinKVPipeline": _whole_patches,
    "Flux2KleinPipeline": _whole_patches,
    "Flux2Pipeline": _whole_patches,
    "FluxPipeline": _whole_patches,
    "HiDreamImagePipeline": _own_area,
    "HunyuanImagePipeline": _multiples(math.floor, lambda pipeline: pipeline.vae_scale_factor),
    "Kandinsky5T2IPipeline": _nearest_shape,
    "KandinskyV22CombinedPipeline": _begun_latents,
    "KandinskyV22Pipeline": _begun_latents,
    "Krea2Pipeline": _multiples(math.ceil, lambda p: p.patch_size * p.vae_scale_factor),
    "LongCatImagePipeline": _whole_patches,
    "NucleusMoEImagePipeline": _multiples(
        math.floor, lambda p: int(p.transformer.config.patch_size) * p.vae_scale_factor
    ),
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
    if read_config(info, source, INDEX).get("_class_name") not in _RULES:
        return width, height
    if (facts := facts_at(info, source)) is None:
        return width, height
    try:
        return drawn_size(_without_weights(facts, info, source), width, height)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return width, height  # its files are damaged: the loader says how


class _Network:
    """A denoiser that has its configuration alone; of a class, as diffusers looks for its module."""

    def __init__(self, config: SimpleNamespace) -> None:
        self.config = config


def _without_weights(facts: PipelineFacts, info: ModelInfo, source: str) -> Any:
    """The pipeline as its constructor makes it of configurations alone: it knows its factors and sizes."""
    import diffusers
    import torch

    kind = getattr(diffusers, str(facts.index["_class_name"]))
    parameters = inspect.signature(kind.__init__).parameters
    parts: dict[str, Any] = {}
    for name in list(parameters)[1:]:
        value, default = facts.index.get(name), parameters[name].default
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


def other_size(model: str, size: Size, drawn: Size) -> tuple[str, ...]:
    """A sentence where a model draws another size than was asked for."""
    if size == drawn:
        return ()
    sizes = [f"{width}x{height}" for width, height in (drawn, size)]
    return (f"{model} draws {sizes[0]} pixels where {sizes[1]} were asked for, and is recorded with them.",)
