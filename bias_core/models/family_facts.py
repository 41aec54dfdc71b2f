"""Facts about a pipeline from its files and code: guidance, defaults, sizes and text limits."""

import ast
import importlib.util
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub

from bias_core.errors import ModelUnavailable
from bias_core.models import diffusers, torch, transformers
from bias_core.models.catalogue import read_model_json, split_revision
from bias_core.models.weights import download_bar
from bias_core.types import ImageRow, ModelInfo, PromptLimit

Size = tuple[int, int]
Rule = Callable[[Any, int, int], Size]

INDEX = "model_index.json"
KANDINSKY_PRIOR = "kandinsky-community/kandinsky-2-2-prior"
DEEPFLOYD_UPSCALER = "DeepFloyd/IF-II-L-v1.0"
DEEPFLOYD_SHARED = ("tokenizer", "text_encoder", "safety_checker", "feature_extractor", "watermarker")
"""Parts that the upscaler shares with the first stage, not downloaded or loaded twice."""
HIDREAM_LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
_DENOISERS = ("transformer", "unet", "prior", "decoder")
DENOISERS = frozenset({*_DENOISERS, "transformer_2", "unconditional_transformer"})
"""Names of all components that run in the steps of a pipeline."""
_SCALES = ("guidance_scale", "true_cfg_scale", "distilled_guidance_scale", "prior_guidance_scale")
# z + g (z - z0), while others compute z0 + g (z - z0): the weight of the text is 1 + g.
_COUNTS_FROM_0 = {"ZImagePipeline", "Krea2Pipeline"}
_ALWAYS_TWO_PASSES = {"Ideogram4Pipeline", "OmniGenPipeline"}  # below 1 they move away from the text
_GUIDER = "guider"
# A picture of these does not depend, bit for bit, on the rest of its batch: their texts are padded to a
# fixed length, and every picture has its own generator.
_IN_BATCHES = {
    *("AuraFlowPipeline", "ChromaPipeline", "DeepFloydPipeline", "Flux2KleinPipeline", "Flux2Pipeline"),
    *("FluxPipeline", "KandinskyV22CombinedPipeline", "LatentConsistencyModelPipeline", "Lumina2Pipeline"),
    *("OvisImagePipeline", "PixArtAlphaPipeline", "PixArtSigmaPipeline", "SanaPipeline", "SanaSprintPipeline"),
    *("StableDiffusion3Pipeline", "StableDiffusionPipeline", "StableDiffusionXLPipeline"),
}
_STRUCTURED = {"BriaFiboPipeline", "BriaFibo2Pipeline", "Ideogram4Pipeline"}
DECODERS = ("vae", "movq")
_MOST_ROUNDS = 64
_DEEPFLOYD_LIMIT = 77  # from its pipeline: the number in training
_ENDLESS = 1_000_000  # a tokenizer without a limit reports a larger number
_FROM_LOWER_CASE = ("PixArt", "IF", "DeepFloyd", "Sana")  # the pipelines' changes of a prompt


@dataclass(frozen=True, kw_only=True)
class PipelineFacts:
    """Facts from a pipeline's files."""

    name: str  # of its class in diffusers
    # call, parts: parameters of its call with their defaults; names of the parameters of its constructor
    call: Mapping[str, Any]
    parts: Collection[str]
    # index, denoiser, scheduler: ``model_index.json``, and the configurations of two components
    index: Mapping[str, Any] = field(default_factory=dict)
    denoiser: Mapping[str, Any] = field(default_factory=dict)
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    guided: bool = False  # true if a separate component, a guider, does the guidance

    @property
    def can_batch(self) -> bool:
        """True if a picture does not depend on the rest of its batch."""
        return self.name in _IN_BATCHES


@dataclass(frozen=True, kw_only=True)
class Guidance:
    """A family's guidance towards the prompt; none by default."""

    argument: str = ""  # argument for the scale, "guider" for that component, "" for none
    threshold: float = math.inf  # no guidance up to this scale; -inf if the network itself takes it
    negative: bool = False  # true if the pipeline reads negative prompts above that scale
    reason: str = ""  # reason in words if the scale or the negative prompt has no effect


def accepted(pipeline: Any) -> dict[str, Any]:
    """Parameters of a pipeline's (or class's) call, with defaults."""
    return _defaults((pipeline if isinstance(pipeline, type) else type(pipeline)).__call__)


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


@cache
def read_parameters(class_name: str, method: str) -> Mapping[str, Any] | None:
    """Parameters of a method of a pipeline's class in diffusers, with defaults; None if there is no such class.

    They are read from the source, because an import takes seconds, and none of a stored picture needs it. A default
    that is not a plain value is known only after the import.
    """
    with suppress(ValueError):
        if (parameters := _parameters_in_source(class_name, method)) is not None:
            return parameters
    kind = getattr(diffusers, class_name, None)
    return _defaults(getattr(kind, method)) if isinstance(kind, type) else None


def _parameters_in_source(class_name: str, method: str) -> dict[str, Any] | None:
    """The same from the source, also of a parent class; None if it is not there, ValueError for other defaults."""
    if (definition := _class_in_source(class_name)) is None:
        return None
    for part in definition.body:
        if isinstance(part, ast.FunctionDef) and part.name == method:
            given, named = [*part.args.posonlyargs, *part.args.args], part.args.kwonlyargs
            defaults = [*[None] * (len(given) - len(part.args.defaults)), *part.args.defaults, *part.args.kw_defaults]
            further = [parameter for parameter in (part.args.vararg, part.args.kwarg) if parameter is not None]
            values = [inspect.Parameter.empty if default is None else ast.literal_eval(default) for default in defaults]
            values += [inspect.Parameter.empty] * len(further)
            return {parameter.arg: value for parameter, value in zip([*given, *named, *further], values, strict=True)}
    parents = (_parameters_in_source(base.id, method) for base in definition.bases if isinstance(base, ast.Name))
    return next((parameters for parameters in parents if parameters is not None), None)


@cache
def _class_in_source(name: str) -> ast.ClassDef | None:
    """The only definition of a class among diffusers' pipelines; None if there is none, or several."""
    spec, found = importlib.util.find_spec("diffusers"), list[ast.ClassDef]()
    beginning = f"\nclass {name}(".encode()
    for folder in (spec and spec.submodule_search_locations) or ():
        with suppress(OSError, SyntaxError):  # no sources are installed, or those for a later Python
            sources = (path.read_bytes() for path in Path(folder, "pipelines").rglob("pipeline*.py"))
            modules = [ast.parse(source) for source in sources if beginning in source]
            found += [part for module in modules for part in module.body if isinstance(part, ast.ClassDef)]
    found = [definition for definition in found if definition.name == name]
    return found[0] if len(found) == 1 else None


def get_denoiser(pipeline: Any) -> Any:
    return next(getattr(pipeline, name) for name in _DENOISERS if hasattr(pipeline, name))


def pipeline_facts(pipeline: Any) -> PipelineFacts:
    """Facts of a loaded pipeline."""
    kind = type(pipeline)
    return PipelineFacts(
        name=kind.__name__,
        call=accepted(pipeline),
        parts=inspect.signature(kind.__init__).parameters,
        index=dict(pipeline.config),
        denoiser=dict(get_denoiser(pipeline).config),
        scheduler=dict(pipeline.scheduler.config) | {"_class_name": type(pipeline.scheduler).__name__},
        guided=getattr(pipeline, _GUIDER, None) is not None,
    )


def read_facts(info: ModelInfo, source: str) -> PipelineFacts | None:
    """Facts from the files of an unloaded pipeline; None if they are not on this machine."""
    index = read_config(info, source, INDEX)
    name = str(index.get("_class_name")).replace("KandinskyV22Pipeline", "KandinskyV22CombinedPipeline")
    denoiser = read_config(info, source, f"{next((p for p in _DENOISERS if p in index), 'unet')}/config.json")
    call, parts = (read_parameters(name, method) if denoiser else None for method in ("__call__", "__init__"))
    if call is None or parts is None:
        return None
    return PipelineFacts(
        name=name,
        call=call,
        parts=parts,
        index=index,
        denoiser=denoiser,
        scheduler=read_config(info, source, "scheduler/scheduler_config.json"),
        guided=(index.get(_GUIDER) or [None])[0] is not None,
    )


def read_index(source: str, file: str = INDEX, *, revision: str | None, local_files_only: bool) -> Mapping[str, Any]:
    """A JSON file of a folder or hub id, by default the one with the pipeline's classes."""
    if Path(source).is_dir():
        return read_model_json(Path(source, file))
    options = {"revision": revision, "local_files_only": local_files_only}
    return read_model_json(Path(huggingface_hub.hf_hub_download(source, file, **options)))


def llama_folder(source: str, *, offline: bool) -> Path:
    """HiDream's fourth text encoder and its tokenizer: a folder, or fetched by a hub id with "@revision"."""
    if (folder := Path(source).expanduser()).is_dir():
        return folder
    repo, revision = split_revision(source)
    options = {"revision": revision or None, "local_files_only": offline, "tqdm_class": download_bar()}
    return Path(huggingface_hub.snapshot_download(repo, allow_patterns=["*.json", "*.safetensors"], **options))


def read_config(info: ModelInfo, source: str, file: str) -> Mapping[str, Any]:
    """A JSON file of a pipeline on this machine; {} if missing."""
    with suppress(OSError, ValueError):  # the loader reports the error
        return read_index(source, file, revision=info.revision or None, local_files_only=True)
    return {}


def find_guidance(facts: PipelineFacts, call: Mapping[str, Any] | None = None) -> Guidance:
    """The guidance of this pipeline; ``call`` are further arguments of its call."""
    parameters, name, weights = facts.call, facts.name, facts.denoiser
    embeds = weights.get("guidance_embeds")
    embedded = Guidance(reason="its weights have no guidance embedding (guidance_embeds is false)")
    if embeds or weights.get("time_cond_proj_dim") or (name == "Flux2Pipeline" and embeds is None):
        reason = "guidance is an input of its network, which has no pass without the prompt"
        embedded = Guidance(argument="guidance_scale", threshold=-math.inf, reason=reason)
    if facts.index.get("is_distilled") and name == "Flux2KleinPipeline":
        return Guidance(reason="its weights are distilled to draw without guidance")
    if "distilled_guidance_scale" in parameters:
        if embeds:
            return replace(embedded, argument="distilled_guidance_scale")
        reason = "its folder has no guider, and its weights have no guidance embedding"
        return Guidance(argument=_GUIDER, threshold=1.0, negative=True) if facts.guided else Guidance(reason=reason)
    if "true_cfg_scale" in parameters:
        if parameters.get("guidance_scale") is None and not embedded.argument:
            return Guidance(argument="true_cfg_scale", threshold=1.0, negative=True)
        if float((call or {}).get("true_cfg_scale", 1.0)) > 1:
            return replace(embedded, negative=True)
        advice = "set call: {true_cfg_scale: 4.0} in its options for one with a negative prompt"
        return replace(embedded, reason=f"{embedded.reason}; {advice}")
    distilled = {"Flux2Pipeline", "SanaSprintPipeline", "LatentConsistencyModelPipeline"}
    if name in distilled or weights.get("time_cond_proj_dim") is not None:
        return embedded
    argument = next((scale for scale in _SCALES if scale in parameters), "")
    if not argument:
        return Guidance(reason=f"{name} takes no guidance scale")
    threshold = 0.0 if name in _COUNTS_FROM_0 else -math.inf if name in _ALWAYS_TWO_PASSES else 1.0
    return Guidance(
        argument=argument, threshold=threshold, negative="negative_prompt" in parameters, reason=f"{name} takes none"
    )


def without_guidance(
    facts: PipelineFacts, row: ImageRow, call: Mapping[str, Any]
) -> tuple[ImageRow, dict[str, float]] | None:
    """The row and call arguments without guidance; None if there is none already."""
    guidance, extra_arguments = find_guidance(facts, call), dict[str, float]()
    argument, off, two_passes = guidance.argument, guidance.threshold, facts.name in _ALWAYS_TWO_PASSES
    scale = float(call.get(argument, row.guidance_scale))
    if guidance.negative and not math.isfinite(off):  # true guidance in addition to the network's
        extra_arguments = {"true_cfg_scale": 1.0} if row.negative_prompt else {}
    elif argument and (scale != 1 if two_passes else scale > off > -math.inf):
        off = 1.0 if two_passes else off
        row, extra_arguments = replace(row, guidance_scale=off), {argument: off}
    if call.get("pag_scale", facts.call.get("pag_scale", 0.0)):  # perturbed attention has its own pass
        extra_arguments["pag_scale"] = 0.0
    return (row, extra_arguments) if extra_arguments else None


def unused_settings(facts: PipelineFacts, row: ImageRow, call: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence on each setting of the row without an effect, or with an unusual one."""
    guidance, model, scale = find_guidance(facts, call), row.model, row.guidance_scale
    threshold, reason = guidance.threshold, guidance.reason
    sentences = {
        f"The guidance scale ({scale:g}) has no effect on {model}: {reason}.": not guidance.argument and scale > 1,
        f"{model} counts guidance from 0: {scale:g} here is {1 + scale:g} in other models.": threshold == 0
        and scale > 0,
        f"The negative prompt has no effect on {model}: {reason}.": row.negative_prompt and not guidance.negative,
        f"The negative prompt has no effect on {model}: its pictures are drawn without guidance at a "
        f"scale of {scale:g}; set the guidance above {threshold:g}.": (
            row.negative_prompt and guidance.negative and scale <= threshold
        ),
        f"{model} ({facts.name}) was trained on long structured captions (JSON); a plain sentence "
        "may give worse pictures.": facts.name in _STRUCTURED,
        f"{model} is guided by {scale:g} at every step; its makers' schedule ends with 3 steps of 3.": (
            facts.name == "Ideogram4Pipeline"
        ),
    }
    return tuple(sentence for sentence, holds in sentences.items() if holds)


def check_parts(kind: Any, parts: Mapping[str, Any], model: str) -> None:
    """Raise ModelUnavailable if a part that the family needs is None."""
    optional = {"safety_checker", "feature_extractor", "image_encoder", "watermarker", "tokenizer_3"}
    optional |= {"text_encoder_3", _GUIDER, "ocr_guider", "pe", "pe_tokenizer", "prompt_enhancer_head"}
    optional |= set(getattr(kind, "_optional_components", ())) - {"vae", "tokenizer", "text_encoder"}
    necessary = set(inspect.signature(kind.__init__).parameters) - optional
    missing = [name for name, part in parts.items() if part is None and name in necessary]
    if missing:
        raise ModelUnavailable(
            f"{model} ({kind.__name__}) has no {' and no '.join(missing)}, without which it cannot draw a text; "
            "complete the folder (model_index.json says null there), or choose another model"
        )


def own_defaults(class_name: str, index: Mapping[str, Any]) -> dict[str, float]:
    """Default steps, guidance and size of a diffusers class, from its signature; {} for unknown ones.

    >>> own_defaults("ZImagePipeline", {})
    {'steps': 50, 'guidance': 5.0}
    >>> own_defaults("PRXPipeline", {"default_sample_size": 1024})
    {'steps': 28, 'guidance': 4.0, 'size': 1024}
    """
    parameters = read_parameters(class_name, "__call__") or {}
    if "prompt" not in parameters:
        return {}
    scales, schedule = (parameters.get(scale) for scale in _SCALES), parameters.get("guidance_schedule")
    scale = next((value for value in scales if isinstance(value, (int, float))), None)
    if isinstance(schedule, tuple):
        scale = schedule[0]
    if index.get("is_distilled"):
        scale = 0.0 if class_name in _COUNTS_FROM_0 else 1.0
    size = index.get("default_sample_size") or parameters.get("height")
    defaults = {"steps": parameters.get("num_inference_steps"), "guidance": scale, "size": size}
    return {name: value for name, value in defaults.items() if isinstance(value, (int, float))}


def _multiples(way: Callable[[float], int], side: Callable[[Any], int]) -> Rule:
    """Round sizes to multiples of a pipeline's ``side`` in pixels: down (floor) or up (ceil)."""

    def rule(pipeline: Any, width: float, height: float) -> Size:
        multiple = side(pipeline)
        return way(width / multiple) * multiple, way(height / multiple) * multiple

    return rule


def _own_area(pipeline: Any, width: int, height: int) -> Size:
    """Scale every shape to the trained area."""
    scale = math.sqrt((pipeline.default_sample_size * pipeline.vae_scale_factor) ** 2 / (width * height))
    return _whole_patches(pipeline, width * scale, height * scale)  # type: ignore[arg-type]


# Latents are packed two by two, and a remainder is not drawn.
_whole_patches = _multiples(math.floor, lambda pipeline: 2 * pipeline.vae_scale_factor)
_begun_latents = _multiples(math.ceil, lambda p: getattr(p, "decoder_pipe", p).movq_scale_factor ** 2)
# Families that silently draw another size than requested.
_RULES: dict[str, Rule] = {
    "ChromaPipeline": _whole_patches,
    "Flux2KleinKVPipeline": _whole_patches,
    "Flux2KleinPipeline": _whole_patches,
    "Flux2Pipeline": _whole_patches,
    "FluxPipeline": _whole_patches,
    "HiDreamImagePipeline": _own_area,
    "HunyuanImagePipeline": _multiples(math.floor, lambda pipeline: pipeline.vae_scale_factor),
    "Kandinsky5T2IPipeline": lambda p, w, h: min(p.resolutions, key=lambda size: abs(size[0] / size[1] - w / h)),
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
    """Width and height that the model draws for a requested size, the same if unknown; a drawn size gives itself."""
    rule, size = _RULES.get(type(pipeline).__name__), (width, height)
    for _ in range(_MOST_ROUNDS if rule else 0):
        if min(size) < 1 or (drawn := rule(pipeline, *size)) == size:  # type: ignore[misc]
            break
        size = drawn
    return size if min(size) >= 1 else (width, height)  # too small: the pipeline reports it


def read_drawn_size(info: ModelInfo, source: str, width: int, height: int) -> Size:
    """The same for an unloaded pipeline; the requested size if its files are missing."""
    if read_config(info, source, INDEX).get("_class_name") in _RULES and (facts := read_facts(info, source)):
        # The loader reports damaged files.
        with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            return drawn_size(_without_weights(facts, info, source), width, height)
    return width, height


def _without_weights(facts: PipelineFacts, info: ModelInfo, source: str) -> Any:
    """Build the pipeline from configurations without weights: it knows its factors and sizes."""
    kind = getattr(diffusers, str(facts.index["_class_name"]))
    parameters = inspect.signature(kind.__init__).parameters
    # Of a class, as diffusers looks for the module of a network.
    network = type("Network", (), {"config": SimpleNamespace(**facts.denoiser)})
    parts: dict[str, Any] = {}
    for name in list(parameters)[1:]:
        value, default = facts.index.get(name), parameters[name].default
        if name in ("transformer", "unet"):
            parts[name] = network()
        elif name in facts.index and not isinstance(value, list):
            parts[name] = value
        elif name in DECODERS and isinstance(value, list):
            if not (config := read_config(info, source, f"{name}/config.json")):
                raise LookupError(f"{name} has no configuration")
            with torch.device("meta"):
                parts[name] = getattr(diffusers, str(value[1])).from_config(config)
        else:
            parts[name] = None if default is inspect.Parameter.empty else default
    pipeline = kind.__new__(kind)
    with suppress(AttributeError):  # from a constructor that reads its tokenizer afterwards: the factors are set
        pipeline.__init__(**parts)
    return pipeline


def other_size(model: str, size: Size, drawn: Size) -> tuple[str, ...]:
    """A warning if a model draws another size than requested; else empty."""
    if size == drawn:
        return ()
    drawn_text, requested_text = (f"{width}x{height}" for width, height in (drawn, size))
    return (f"{model} draws {drawn_text} pixels instead of {requested_text}; the run records the drawn size.",)


def reads(prompt: str, *, name: str, tokenizer: Any, limit: int, before: str = "", lower: bool = False) -> PromptLimit:
    """The part of one prompt that the text encoder ``name`` ("CLIP", "T5", ...) reads.

    Parameters
    ----------
    limit : number of tokens that it reads, with start and end marks.
    before : text that the pipeline puts before every prompt.
    lower : the pipeline takes prompts in lower case, without spaces around them.
    """
    text = before + (prompt.lower().strip() if lower else prompt)
    n_before = len(tokenizer.encode(before)) - 2 if before else 0
    n_tokens, cut = len(tokenizer(text, verbose=False).input_ids) - n_before, ""
    options = {"truncation": True, "max_length": limit + n_before}
    if n_tokens > limit and tokenizer.is_fast:
        offsets = tokenizer(text, return_offsets_mapping=True, **options).offset_mapping
        cut = text[max(end for _, end in offsets) :].strip()
    elif n_tokens > limit:
        cut = text[len(tokenizer.decode(tokenizer(text, **options).input_ids, skip_special_tokens=True)) :].strip()
    return PromptLimit(prompt=prompt, reader=name, n_tokens=n_tokens, limit=limit, cut=cut)


def prompt_limits(info: ModelInfo, source: str, pipeline: Any, prompts: Sequence[str]) -> tuple[PromptLimit, ...]:
    """The part of each prompt, in order, that each text encoder reads; loads no weights.

    For an unloaded pipeline (None) its files are read; without them the result is empty.
    """
    if pipeline:
        parts = pipeline.components
        encoders = {name: type(part).__name__ for name, part in parts.items() if "text_encoder" in name}
        tokenizers = {name: parts.get(_find_tokenizer(name, parts)) for name in encoders}
    readers = list(
        _readers(info, type(pipeline).__name__, encoders, tokenizers) if pipeline else _load_readers(info, source)
    )
    return tuple(read(prompt) for prompt in prompts for read in readers)


def _load_readers(info: ModelInfo, source: str) -> Iterator[Callable[[str], PromptLimit]]:
    revision = info.revision
    if info.family == "kandinsky" and not (Path(source) / "prior_tokenizer").is_dir():
        source, revision = split_revision(str(info.options.get("prior", KANDINSKY_PRIOR)))
    try:
        index = read_index(source, revision=revision or None, local_files_only=True)
        classes = {name: value[1] for name, value in index.items() if isinstance(value, list) and len(value) > 1}
        encoders = {name: kind for name, kind in classes.items() if "text_encoder" in name and isinstance(kind, str)}
        tokenizers = {}
        for name in encoders:
            place: dict[str, Any] = {"subfolder": _find_tokenizer(name, index), "revision": revision or None}
            folder = source
            if Path(source).is_dir():
                folder, place = str(Path(source, place["subfolder"])), {}
            tokenizers[name] = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, **place)
    except (OSError, ValueError):  # not downloaded
        return iter(())
    return _readers(info, str(index.get("_class_name")), encoders, tokenizers)


def _find_tokenizer(encoder: str, parts: Mapping[str, Any]) -> str:
    name = encoder.replace("text_encoder", "tokenizer")
    return name if name in parts else "processor"


def _readers(
    info: ModelInfo, class_name: str, encoders: Mapping[str, str], tokenizers: Mapping[str, Any]
) -> Iterator[Callable[[str], PromptLimit]]:
    inputs = read_parameters(class_name, "__call__") or {}
    before = inputs.get("complex_human_instruction")
    for name, encoder in encoders.items():
        tokenizer = getattr(tokenizers[name], "tokenizer", tokenizers[name])  # of a processor
        if tokenizer is None:
            continue
        limit = int(tokenizer.model_max_length)
        if not encoder.startswith("CLIP"):
            if "max_sequence_length" in inputs:
                limit = int(info.options.get("call", {}).get("max_sequence_length", inputs["max_sequence_length"]))
            elif info.family == "deepfloyd":
                limit = _DEEPFLOYD_LIMIT
        if limit < _ENDLESS:
            # Common name: CLIP of CLIPTextModelWithProjection, T5 of T5EncoderModel.
            short = re.match(r"(U?M?T5|CLIP|[A-Z][a-z]+\d*)", encoder)
            yield partial(
                reads,
                name=short[0] if short else encoder,
                tokenizer=tokenizer,
                limit=limit - 2 if before else limit,
                before="\n".join(before or ()),
                lower=class_name.startswith(_FROM_LOWER_CASE),
            )
