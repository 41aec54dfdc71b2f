"""Load a complete diffusers pipeline from safetensors only, placed to fit the device."""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import diffusers
import torch
import transformers
from diffusers import DiffusionPipeline, IFPipeline, IFSuperResolutionPipeline
from diffusers.pipelines.deepfloyd_if import IFPipelineOutput, IFSafetyChecker

from bias_core.errors import ModelUnavailable, NotEnoughMemory
from bias_core.models.catalogue import read_model_json, split_revision
from bias_core.models.family_facts import (
    DEEPFLOYD_SHARED,
    DEEPFLOYD_UPSCALER,
    HIDREAM_LLAMA,
    INDEX,
    KANDINSKY_PRIOR,
    accepted,
    check_parts,
    llama_folder,
    read_index,
)
from bias_core.models.model_sources import WORKING_BYTES_PER_PIXEL, download_pipeline, free_memory
from bias_core.models.weights import check_json, drop_longest_unused, load_whole, loading, pick_device
from bias_core.types import ModelInfo

Placement = Literal["resident", "tiled", "offload", "sequential"]
"""Placements: all weights on the device; the same with a tiled VAE; one component at a time; layer by
layer. Each needs less memory than the one before, and is slower."""

_TILE = 512  # pixels of a side, or less
TILED_BYTES = 800_000_000
"""Working memory of one picture whose VAE decodes tiles in half precision."""
_LAYER_BYTES = 1_500_000_000  # the largest layers of today's models, with their activations
_GB = 1e9
_ENLARGED = 4  # times, by the second stage

_log = logging.getLogger(__name__)

# Inputs of pipelines that edit pictures, or make videos or sound.
_NOT_FROM_TEXT = {
    *("image", "mask_image", "control_image", "num_frames", "video_length", "audio_length_in_s"),
    "source_prompt",
}
# Parts of class names that need a picture (even if it may be None), or draw something else.
_OTHER_WORK = (
    *("Img2Img", "Inpaint", "Edit", "Control", "Refiner", "Upscale", "Instruct", "Fill", "Super"),
    *("Video", "Adapter", "3D", "Pix2Pix", "GLIGEN", "Blip"),
)
_SLOWER: Mapping[Placement, str] = {
    "tiled": "pictures are decoded in tiles",
    "offload": "its components take turns on the GPU, which is slower",
    "sequential": "its layers take turns on the GPU, which is many times slower",
}


def load_pipeline(
    info: ModelInfo, source: str, *, device: str = "auto", offline: bool = False, compiled: bool = False
) -> Any:
    """Load the pipeline of ``source`` on the device, ready to call; NotEnoughMemory if it does not fit.

    The model's ``options`` may hold ``dtype`` and ``variant`` (of the files, taken on a GPU). The blocks of the
    denoiser are ``compiled`` on a GPU that holds the model as a whole.
    """
    diffusers.utils.logging.disable_progress_bar()
    place, folder = pick_device(device), Path(source)
    check_memory(info, folder)
    check_json(folder)
    pipeline = assemble_pipeline(
        info,
        source,
        revision=info.revision or None,
        variant=info.options.get("variant") if place != "cpu" else None,
        dtype=getattr(torch, dtype_name(info, place)),
        use_safetensors=True,
        local_files_only=offline or folder.is_dir(),
    )
    pipeline.set_progress_bar_config(disable=True)
    if put_on_device(pipeline, info, place) in ("resident", "tiled") and place == "cuda":
        speed_up(pipeline, compiled=compiled)
    return pipeline


def dtype_name(info: ModelInfo, device: str) -> str:
    """Precision: single on a CPU, half on a GPU unless ``options`` differ; bfloat16 for unlisted, newer families."""
    half = "float16" if info.family in {"sd1", "sd2", "sdxl", "kandinsky", "deepfloyd", "pixart"} else "bfloat16"
    return "float32" if device == "cpu" else str(info.options.get("dtype", half))


def check_memory(info: ModelInfo, folder: Path) -> None:
    """Raise NotEnoughMemory for a model too large for main memory, which all weights pass, before reading it."""
    needed, free = sum(path.stat().st_size for path in folder.glob("**/*.safetensors")), free_memory()
    needed = needed or round(info.download_gb * _GB)
    if needed > free:
        raise NotEnoughMemory(
            f"{info.id} needs {needed / _GB:.1f} GB of memory to load, and this machine has "
            f"{free / _GB:.1f} GB free; choose a smaller model, or close other programs"
        )


def plan_placement(parts: Mapping[str, int], *, free: int, pixels: int, tiled: int = TILED_BYTES) -> Placement | None:
    """The placement of components of these sizes (bytes) on a device with ``free`` bytes; None if impossible.

    ``tiled``: bytes of :func:`tiled_bytes`.

    >>> sizes = {"transformer": 12_000_000_000, "text_encoder_3": 10_000_000_000, "vae": 200_000_000}
    >>> [plan_placement(sizes, free=gb * 10**9, pixels=1024 * 1024) for gb in (40, 24, 14, 6, 1)]
    ['resident', 'tiled', 'offload', 'sequential', None]
    """
    weights = sum(parts.values())
    needs: dict[Placement, int] = {
        "resident": weights + max(tiled, pixels * WORKING_BYTES_PER_PIXEL),
        "tiled": weights + tiled,
        "offload": max(parts.values(), default=0) + TILED_BYTES,
        "sequential": _LAYER_BYTES + TILED_BYTES,
    }
    return next((placement for placement, needed in needs.items() if needed <= free), None)


def tiled_bytes(pipeline: Any) -> int:
    """Working memory of decoding in tiles; pipelines like SDXL's convert their VAE to float32 for it."""
    decoder: Any = getattr(pipeline, "vae", None)
    if not (hasattr(pipeline, "upcast_vae") and decoder.dtype == torch.float16 and decoder.config.force_upcast):
        return TILED_BYTES
    return 2 * TILED_BYTES + component_sizes(pipeline)["vae"]


def component_sizes(pipeline: Any) -> dict[str, int]:
    modules = {name: part for name, part in pipeline.components.items() if hasattr(part, "parameters")}
    return {
        name: sum(tensor.nbytes for tensor in (*part.parameters(), *part.buffers())) for name, part in modules.items()
    }


def put_on_device(pipeline: Any, info: ModelInfo, device: str) -> Placement:
    """Place the pipeline so that it fits, after others are freed; NotEnoughMemory if not one layer at a time does."""
    if device != "cuda":
        pipeline.to(device)
        return "resident"
    sizes, tiled = component_sizes(pipeline), tiled_bytes(pipeline)
    while True:
        free = int(torch.cuda.mem_get_info()[0])
        placement = plan_placement(sizes, free=free, pixels=info.width * info.height, tiled=tiled)
        if placement == "resident" or not drop_longest_unused():
            break
    if placement is None:
        raise NotEnoughMemory(
            f"{info.id} has {sum(sizes.values()) / _GB:.1f} GB of weights, and the GPU {free / _GB:.1f} GB "
            "free, too little even for a layer at a time; choose a smaller model, or close other programs "
            "on the GPU (or set BIAS_DEVICE=cpu)"
        )
    if placement in ("resident", "tiled"):
        pipeline.to(device)
    elif placement == "offload":
        pipeline.enable_model_cpu_offload()
    else:
        pipeline.enable_sequential_cpu_offload()
    if placement != "resident":
        _decode_in_tiles(pipeline)
        _log.warning("%s does not fit the GPU as a whole (%.1f GB free): %s", info.id, free / _GB, _SLOWER[placement])
    return placement


def _decode_in_tiles(pipeline: Any) -> None:
    for name in ("vae", "movq"):
        decoder: Any = getattr(pipeline, name, None)
        for method in ("enable_slicing", "enable_tiling"):
            getattr(decoder, method, lambda: None)()
        if (side := getattr(decoder, "tile_sample_min_size", _TILE)) > _TILE:  # as large as the whole picture
            decoder.tile_latent_min_size = decoder.tile_latent_min_size * _TILE // side
            decoder.tile_sample_min_size = _TILE


def speed_up(pipeline: Any, *, compiled: bool) -> None:
    """Use the memory layout for tensor cores, and compile if requested."""
    for name in ("unet", "vae", "movq"):
        if isinstance(part := getattr(pipeline, name, None), torch.nn.Module):
            part.to(memory_format=torch.channels_last)
    denoiser: Any = getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)
    if compiled and getattr(denoiser, "_repeated_blocks", None):
        denoiser.compile_repeated_blocks()  # compiling one block serves all of its kind


def assemble_pipeline(info: ModelInfo, source: str, **options: Any) -> Any:
    """Load the pipeline of a hub id or folder by ``from_pretrained``, with parts from other repositories.

    The model's ``options`` may hold ``prior`` (Kandinsky), ``upscaler`` (DeepFloyd IF) and ``llama`` (HiDream), as hub
    ids, with "@revision" if pinned, or folders. Raises ModelUnavailable: it does not draw from text, or
    needs its own code.
    """
    index = read_index(source, revision=options["revision"], local_files_only=options["local_files_only"])
    name, kind = _pipeline_class(info, index)
    if name == "HiDreamImagePipeline" and (index.get("text_encoder_4") or [None])[0] is None:
        options |= _llama(info, options)  # its makers may not redistribute it
    absent = {part: None for part, value in index.items() if value == [None, None] and part not in options}
    check_parts(kind, absent, info.id)
    if name == "KandinskyV22Pipeline":
        return _with_prior(info, source, options)
    if name == "IFPipeline":
        return _with_upscaler(info, source, index, options)
    if "add_watermarker" in inspect.signature(kind.__init__).parameters:
        options["add_watermarker"] = False  # otherwise pixels would depend on an installed package
    return load_components(source, info.id, **options)


def _pipeline_class(info: ModelInfo, index: Mapping[str, Any]) -> tuple[str, Any]:
    name = index.get("_class_name")
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
            f"{info.id} is a {name}, a prior alone, which draws the embedding of a picture; choose the "
            "decoder that belongs to it, such as kandinsky-community/kandinsky-2-2-decoder"
        )
    inputs = accepted(kind)  # prompt and size must suffice; a picture may be optional
    unknown_inputs = {part for part in _NOT_FROM_TEXT & set(inputs) if part != "image" or inputs[part] is not None}
    unknown_inputs |= {part for part, default in inputs.items() if default is inspect.Parameter.empty}
    unknown_inputs -= {"self", "prompt", "args", "kwargs"}
    from_text = (
        {"prompt", "height"} <= set(inputs) and not unknown_inputs and not any(word in name for word in _OTHER_WORK)
    )
    if name != "KandinskyV22Pipeline" and not from_text:
        raise ModelUnavailable(
            f"{info.id} is a {name}, which does not draw pictures from a text alone; choose a text-to-image model"
        )
    return name, kind


def _load_other(info: ModelInfo, option: str, default: str, options: dict[str, Any]) -> Any:
    source = str(info.options.get(option, default))
    folder = Path(source).expanduser()
    if folder.is_dir():
        return load_components(str(folder), info.id, **options | {"revision": None, "local_files_only": True})
    repo, revision = split_revision(source)
    return load_components(repo, info.id, **options | {"revision": revision or None})


def _llama(info: ModelInfo, options: Mapping[str, Any]) -> dict[str, Any]:
    """Load HiDream's fourth text encoder and its tokenizer."""
    source, name = str(info.options.get("llama", HIDREAM_LLAMA)), f"{info.id}: text_encoder_4"
    with loading(name, source):
        folder = llama_folder(source, offline=options["local_files_only"])
        model = load_whole(
            transformers.LlamaForCausalLM,
            str(folder),
            name=name,
            local_files_only=True,
            attn_implementation="eager",  # the pipeline requests attentions
            **({"dtype": options["dtype"]} if options.get("dtype") is not None else {}),
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return {"text_encoder_4": model, "tokenizer_4": tokenizer}


def _with_prior(info: ModelInfo, source: str, options: dict[str, Any]) -> Any:
    """Kandinsky 2.2: the prior, which draws the embedding of a picture, and the decoder in one."""
    decoder = load_components(source, info.id, **options)
    prior = _load_other(info, "prior", KANDINSKY_PRIOR, options)
    parts = {f"prior_{name}": part for name, part in prior.components.items()}
    return diffusers.KandinskyV22CombinedPipeline(**decoder.components, **parts)


def _with_upscaler(info: ModelInfo, source: str, index: Mapping[str, Any], options: dict[str, Any]) -> Any:
    """DeepFloyd IF: stage I, and stage II without the text encoder and the checker, which they share."""
    checker = None
    if index.get("safety_checker", [None])[0]:
        name = f"{info.id}: safety_checker"
        checker = load_whole(SafetyChecker, source, name=name, subfolder="safety_checker", **options)
    first = load_components(source, info.id, **options | {"watermarker": None, "safety_checker": checker})
    without = dict.fromkeys(DEEPFLOYD_SHARED) | {"requires_safety_checker": False}
    return DeepFloydPipeline.combine(first, _load_other(info, "upscaler", DEEPFLOYD_UPSCALER, options | without))


def load_components(source: str, name: str, **kwargs: Any) -> Any:
    """Load the pipeline of a hub id or a folder, like ``DiffusionPipeline.from_pretrained``.

    Each network is loaded here, with its weights checked; components in ``kwargs`` are used as they
    are, None for without. Raises ModelUnavailable: a component is missing, of an unknown class, or its
    weights are incomplete.
    """
    options = {key: value for key, value in kwargs.items() if key != "dtype"}
    folder = Path(source) if Path(source).is_dir() else download_pipeline(source, **options)
    index = read_model_json(folder / INDEX)
    # Diffusers needs a None for each component that never existed.
    kwargs = {part: None for part, value in index.items() if value == [None, None]} | kwargs
    variant, dtype = kwargs.pop("variant", None), kwargs.get("dtype")
    for part, entry in index.items():
        # Others are settings, also lists of two numbers or null.
        names_class = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str)
        if part.startswith("_") or part in kwargs or not names_class:
            continue
        kind = _component_class(folder, part, str(entry[0]), entry[1], name)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
            kwargs[part] = load_whole(
                kind,
                str(folder / part),
                name=f"{name}: {part}",
                stem="model" if issubclass(kind, transformers.PreTrainedModel) else "diffusion_pytorch_model",
                variant=variant,
                local_files_only=True,
                **({"dtype": dtype} if dtype is not None else {}),
            )
    return diffusers.DiffusionPipeline.from_pretrained(folder, **kwargs | {"revision": None, "local_files_only": True})


def _component_class(folder: Path, part: str, library: str, class_name: str, name: str) -> Any:
    """The class of a component with files: from diffusers, transformers, or a pipeline."""
    if not (folder / part).is_dir():
        raise ModelUnavailable(f"{name} has no folder {part}, which its {INDEX} names; download the model again")
    places = {"diffusers": diffusers, "transformers": transformers}
    kind = getattr(places.get(library) or getattr(diffusers.pipelines, library, None), class_name, None)
    if kind is None:
        raise ModelUnavailable(
            f"{name}: {part} is a {class_name} of {library}, which this version does not have; update "
            "diffusers and transformers, or choose another model"
        )
    check_json(folder / part)
    return kind


class SafetyChecker(IFSafetyChecker):
    """The safety checker in transformers 5's form, which cannot load diffusers' own class."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.post_init()


class DeepFloydPipeline(DiffusionPipeline):
    """DeepFloyd IF as one pipeline: 64 x 64 pixels from the text, enlarged four times by a second model.

    The text is encoded once for both, and the checker sees the enlarged picture.

    The third stage (1024 x 1024) is left out: a Stable Diffusion upscaler that may change the contents of
    the picture. Measured pictures get no watermark.
    """

    model_cpu_offload_seq = "text_encoder->unet->upscaler->safety_checker"
    _optional_components = ["safety_checker", "feature_extractor"]  # noqa: RUF012  (read by the base class)

    def __init__(
        self,
        tokenizer: Any,
        text_encoder: Any,
        unet: Any,
        scheduler: Any,
        upscaler: Any,
        upscaler_scheduler: Any,
        image_noising_scheduler: Any,
        safety_checker: Any,
        feature_extractor: Any,
    ) -> None:
        super().__init__()
        self.register_modules(
            tokenizer=tokenizer,
            text_encoder=text_encoder,
            unet=unet,
            scheduler=scheduler,
            upscaler=upscaler,
            upscaler_scheduler=upscaler_scheduler,
            image_noising_scheduler=image_noising_scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
        )
        unchecked = {"safety_checker": None, "feature_extractor": None, "watermarker": None}
        self.first = IFPipeline(tokenizer, text_encoder, unet, scheduler, **unchecked, requires_safety_checker=False)
        self.second = IFSuperResolutionPipeline(
            None,
            None,
            upscaler,
            upscaler_scheduler,
            image_noising_scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
            watermarker=None,
            requires_safety_checker=safety_checker is not None,
        )
        for method in ("load_lora_weights", "unload_lora_weights", "set_adapters", "get_list_adapters"):
            setattr(self, method, getattr(self.first, method))  # stage I decides the contents

    @classmethod
    def combine(cls, first: IFPipeline, second: IFSuperResolutionPipeline) -> "DeepFloydPipeline":
        """Combine both stages, with the text encoder and the checker of the first."""
        parts = {name: part for name, part in first.components.items() if name != "watermarker"}
        return cls(
            **parts,
            upscaler=second.unet,
            upscaler_scheduler=second.scheduler,
            image_noising_scheduler=second.image_noising_scheduler,
        )

    def __call__(
        self,
        prompt: Sequence[str],
        negative_prompt: Sequence[str],
        *,
        num_inference_steps: int = 100,
        guidance_scale: float = 7.0,
        upscaler_num_inference_steps: int = 50,
        upscaler_guidance_scale: float = 4.0,
        height: int = 256,
        width: int = 256,
        generator: list[torch.Generator] | None = None,
        callback: Callable[[int, Any, Any], None] | None = None,
        output_type: str = "np",
    ) -> IFPipelineOutput:
        """Run both stages; ``callback`` is called after each step of either."""
        positive, negative = self.first.encode_prompt(
            list(prompt), negative_prompt=list(negative_prompt), clean_caption=False
        )
        shared = {"prompt_embeds": positive, "negative_prompt_embeds": negative}
        shared |= {"generator": generator, "callback": callback}
        small = self.first(
            **shared,
            num_inference_steps=num_inference_steps,
            guidance_scale=guidance_scale,
            height=height // _ENLARGED,
            width=width // _ENLARGED,
            output_type="pt",
        ).images
        return self.second(
            **shared,
            image=small,
            num_inference_steps=upscaler_num_inference_steps,
            guidance_scale=upscaler_guidance_scale,
            height=height,
            width=width,
            output_type=output_type,
        )

    def set_progress_bar_config(self, **kwargs: Any) -> None:
        """Configure the progress bars of both stages."""
        for stage in (self.first, self.second):
            stage.set_progress_bar_config(**kwargs)
