"""How a picture was drawn, as the program that drew it wrote into it: prompt, seed, sampler settings and model.

Read by ``sd_parsers`` (AUTOMATIC1111 and Forge, ComfyUI, InvokeAI, Fooocus, NovelAI) from a PNG's texts and the EXIF of
JPEG and WebP. Its own ``ParserManager`` is not used: it gives the EXIF of one open picture to the next.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, BinaryIO, TypeVar, get_args

from PIL import ExifTags, Image, UnidentifiedImageError
from sd_parsers.data import Prompt, PromptInfo, Sampler
from sd_parsers.exceptions import ParserError
from sd_parsers.parsers import AUTOMATIC1111Parser, ComfyUIParser, FooocusParser, InvokeAIParser, NovelAIParser, Parser

from bias_core.errors import InvalidInput
from bias_core.models.hosted import Service
from bias_core.store.source_marks import XMP_KEY, read_source, source_of
from bias_core.types import IMPORTED, PictureRecord

T = TypeVar("T")

FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
OWN_RECORD = "bias_core"  # the text of a PNG that this program writes
FIGURE_MARK = "bias_core_figure"  # the same of a figure of a report, which is no picture of a model
_MOST_TEXT = 2_000_000  # characters of one picture's metadata
_LARGEST_SEED = 2**63 - 1  # that a table of numbers holds
_MOST_STEPS = 10_000
_MOST_GUIDANCE = 1000.0
_LARGEST_SIDE = 100_000
_LONGEST_NAME = 300  # of a model or sampler
# What parsers raise on what no program writes.
_UNREADABLE = (ParserError, LookupError, ValueError, TypeError, AttributeError, RecursionError)
_EXTRA_NETWORK = re.compile(r"<((?:lora|lyco|hypernet):[^<>]+)>")  # what the prompt loads; no encoder reads it


@dataclass(frozen=True, kw_only=True)
class PictureMetadata:
    """What is known of how a picture was drawn; None or "" where nothing is."""

    program: str = ""  # that drew it
    prompt: str = ""
    unclear: str = ""  # why there is no prompt, though a program wrote something
    negative_prompt: str = ""
    seed: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    sampler: str = ""
    model: str = ""
    # width, height: pixels that were asked for; another program may have enlarged the picture afterwards
    width: int | None = None
    height: int | None = None
    revised_prompt: str = ""  # what the program made of the prompt (styles, expansion)
    digital_source_type: str = ""  # how the picture came to be, as its IPTC metadata say
    is_figure: bool = False  # a figure of a report of ours

    def over(self, other: "PictureMetadata") -> "PictureMetadata":
        """The same, with what only the ``other`` knows."""
        values = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return replace(self, **{name: theirs if own in (None, "") else own for name, own, theirs in values})

    def record(self) -> dict[str, Any]:
        """What the store keeps beside the row: program, model, sampler and so on, where they are known."""
        names = ("program", "model", "sampler", "seed", "width", "height", "revised_prompt", "digital_source_type")
        return {name: value for name in names if (value := getattr(self, name)) not in (None, "")}


def metadata_of_line(line: Mapping[str, Any]) -> PictureMetadata:
    """What a line of ``metadata.csv`` or ``metadata.jsonl`` says beside the prompt, by our names or usual ones."""
    model = _name(line.get("drawn_with_model")) or _name(line.get("model"))
    metadata = PictureMetadata(
        program=_name(line.get("drawn_by")) or _name(line.get("program")),
        negative_prompt=_one_line(line.get("negative_prompt")),
        seed=_whole(line.get("seed"), _LARGEST_SEED),
        num_inference_steps=_first(line, ("num_inference_steps", "steps"), lambda x: _whole(x, _MOST_STEPS)),
        guidance_scale=_first(line, ("guidance_scale", "cfg_scale", "guidance"), _guidance),
        sampler=_name(line.get("sampler")),
        model="" if model.startswith(IMPORTED) else model,
    )
    # The seed of a row of ours is one of the model's only where we drew it ourselves, on seeds.
    return metadata if _draws_by_seed(_name(line.get("model"))) else replace(metadata, seed=None)


def metadata_of_record(record: PictureRecord) -> PictureMetadata:
    """What our own record of a picture says; of one that was imported before what its program said then."""
    row, drawn = record.row, record.drawn
    before = drawn if drawn and "program" in drawn else {}
    metadata = PictureMetadata(
        program=_name(before.get("program")) or ("" if row.model.startswith(IMPORTED) else "T2I Bias Explorer"),
        prompt=_one_line(row.prompt),
        negative_prompt=row.negative_prompt,
        seed=_whole(row.seed if _draws_by_seed(row.model) else before.get("seed"), _LARGEST_SEED),
        num_inference_steps=row.num_inference_steps or None,
        guidance_scale=row.guidance_scale or None,
        sampler=_name(before.get("sampler")),
        model=_name(before.get("model")) or ("" if row.model.startswith(IMPORTED) else row.model),
    )
    revised = _one_line((drawn or {}).get("revised_prompt"))
    return replace(metadata, revised_prompt=revised, digital_source_type=source_of(record))


def read_metadata(file: BinaryIO) -> PictureMetadata:
    """What a picture says of how it was drawn; only its head is read where that suffices.

    Raises InvalidInput: it says something that cannot be read, or too much; the picture itself may be all right.
    """
    try:
        with Image.open(file, formats=FORMATS) as opened:
            texts = _texts(opened)
    except UnidentifiedImageError:  # which is told when the picture itself is read
        return PictureMetadata()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise InvalidInput(f"its metadata cannot be read: {error}") from error
    if sum(map(len, texts.values())) > _MOST_TEXT:
        raise InvalidInput(f"its metadata has more than {_MOST_TEXT:,} characters; it is not read")
    if FIGURE_MARK in texts:
        return PictureMetadata(is_figure=True)
    metadata = _of_own_text(texts[OWN_RECORD]) if OWN_RECORD in texts else _of_a_program(texts)
    return replace(metadata, digital_source_type=read_source(texts.get(XMP_KEY, "")))


def _of_a_program(texts: Mapping[str, str]) -> PictureMetadata:
    refused = ""
    for parser, keys, prepared in _PARSERS:
        if all(key in texts for key in keys):
            try:
                return _metadata(parser().parse(prepared(texts)))
            except _UNREADABLE:
                refused = keys[0]
    if refused and _looks_written_by_a_program(texts[refused]):
        raise InvalidInput(f"its metadata ({refused}) has a form that is not known here")
    return PictureMetadata()


def _texts(opened: Image.Image) -> dict[str, str]:
    """Texts of a PNG by their keys; of EXIF the comment as A1111's ``parameters``, and ComfyUI's two as its own."""
    texts = {str(key): str(value) for key, value in opened.info.items() if isinstance(value, str)}
    if isinstance(xmp := opened.info.get("xmp"), bytes):  # of JPEG and WebP
        texts[XMP_KEY] = xmp.decode("utf-8", "replace")
    if "exif" not in opened.info:
        return texts
    exif = opened.getexif()
    with suppress(KeyError, ValueError, TypeError, OSError, SyntaxError):  # of a damaged part; the rest may be whole
        comment = exif.get(ExifTags.Base.UserComment) or exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.UserComment)
        if text := _comment(comment):
            texts.setdefault("parameters", text)
    for value in exif.values():
        key, sign, text = value.partition(":") if isinstance(value, str) else ("", "", "")
        if sign and key.lower() in ("prompt", "workflow"):
            texts.setdefault(key.lower(), text.strip("\0 "))
    return texts


def _comment(value: object) -> str:
    """The text of an EXIF comment: eight bytes that name its code come before it; some programs leave them out."""
    if isinstance(value, str):
        return value.strip("\0 ")
    if not isinstance(value, bytes):
        return ""
    code, text = value[:8], value[8:]
    if code != b"UNICODE\0":
        return value.removeprefix(b"ASCII\0\0\0").decode("utf-8", "replace").strip("\0 ")
    # The order of the bytes is not said; what is written in English shows it by its zeros.
    order = "utf-16-be" if text[0::2].count(0) >= text[1::2].count(0) else "utf-16-le"
    return text.decode(order, "replace").strip("\0 ")


def _of_own_text(text: str) -> PictureMetadata:
    """The prompt of our own record; the rest is taken from the whole record, once its pixels are checked."""
    try:
        return PictureMetadata(prompt=_one_line(json.loads(text)["row"]["prompt"]))
    except _UNREADABLE as error:
        raise InvalidInput("its record cannot be read") from error


def _looks_written_by_a_program(text: str) -> bool:
    """No camera's or person's comment."""
    return text.lstrip().startswith("{") or "Steps:" in text


def _metadata(info: PromptInfo) -> PictureMetadata:
    """What a parser found, in our words; where passes differ, what they do not agree on is left out."""
    samplers, more = info.samplers, info.metadata
    if not samplers:
        return PictureMetadata(program=info.generator.value, unclear="no sampler was found in its workflow")
    prompts = _different(_plain_prompt(one) for sampler in samplers for one in sampler.prompts)
    negative = _different(_plain_prompt(one) for sampler in samplers for one in sampler.negative_prompts)
    drawing = [one for one in samplers if one.parameters.get("add_noise") != "disable"]  # what a refiner goes on with
    raw_prompts = [one.value for sampler in samplers for one in sampler.prompts if isinstance(one.value, str)]
    width, height = _size(more)
    return PictureMetadata(
        program=_program(info),
        prompt=prompts[0] if len(prompts) == 1 else "",
        unclear=_unclear(prompts),
        negative_prompt=negative[0] if len(negative) == 1 else "",
        seed=_agreed(_seed(one.parameters) for one in drawing),
        num_inference_steps=_agreed(_steps(one, more) for one in samplers),
        guidance_scale=_agreed(_guidance_of(one, more) for one in samplers),
        sampler=_agreed(_sampler(one) for one in samplers) or "",
        model=_with_networks(_agreed(_model(one) for one in samplers), raw_prompts),
        width=width,
        height=height,
        revised_prompt=_revised(more, prompts),
    )


def _unclear(prompts: list[str]) -> str:
    if len(prompts) > 1:
        shown = "; ".join(f"“{text[:80]}”" for text in prompts[:3])
        return f"{len(prompts)} prompts are in its workflow ({shown})"
    return "" if prompts else "no prompt was found in its metadata"


def _program(info: PromptInfo) -> str:
    """The generator; of those that write A1111's form, the one that names itself."""
    app = _name(info.metadata.get("App"))
    forge = "Forge" if re.match(r"f\d", str(info.metadata.get("Version", ""))) else ""
    return str(app or forge or info.generator.value)


def _plain_prompt(prompt: Prompt) -> str:
    value: object = prompt.value  # of a file that anybody may have written
    text, n_networks = _EXTRA_NETWORK.subn("", value if isinstance(value, str) else "")
    return _one_line(text).strip(" ,") if n_networks else _one_line(text)


def _with_networks(model: str | None, prompts: Iterable[str]) -> str:
    """The model with what the prompts load on top of it."""
    networks = _different(name for prompt in prompts for name in _EXTRA_NETWORK.findall(prompt))
    return " + ".join(filter(None, [model or "", *networks]))[:_LONGEST_NAME]


def _model(sampler: Sampler) -> str:
    return "" if sampler.model is None else _name(sampler.model.name) or _name(sampler.model.hash)


def _steps(sampler: Sampler, more: Mapping[str, Any]) -> int | None:
    return _whole(sampler.parameters.get("steps", more.get("steps")), _MOST_STEPS)


def _seed(parameters: Mapping[str, Any]) -> int | None:
    return _first(parameters, ("seed", "noise_seed"), lambda value: _whole(value, _LARGEST_SEED))


def _sampler(sampler: Sampler) -> str:
    """Its name and its schedule, where that is said apart."""
    name, schedule = _name(sampler.name), _name(sampler.parameters.get("scheduler"))
    repeats = not schedule or schedule.lower() in name.lower() or schedule.lower() == "automatic"
    return name if repeats else f"{name} {schedule}".strip()


def _guidance_of(sampler: Sampler, more: Mapping[str, Any]) -> float | None:
    """Of models that were distilled with guidance (FLUX), whose cfg is 1, the guidance that they are told."""
    cfg = _guidance(sampler.parameters.get("cfg_scale"))
    nodes = [prompt.metadata.get("FluxGuidance") for prompt in sampler.prompts]
    values = [_guidance(node.get("guidance")) for node in nodes if isinstance(node, Mapping)]
    values += [_guidance(more.get(name)) for name in ("Distilled CFG Scale", "guidance")]
    distilled = next((value for value in values if value is not None), None)
    return distilled if cfg is None or (cfg <= 1 and distilled is not None) else cfg


def _size(more: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """As "512x768", "(1152, 896)", width and height, or those of ComfyUI's one empty latent."""
    nodes = [node for name, some in more.items() if re.match(r"Empty.*Latent", name) for node in some]
    source = nodes[0] if len(nodes) == 1 else more
    if sides := re.fullmatch(r"\D*(\d{1,6})\D+(\d{1,6})\D*", str(more.get("Size") or more.get("resolution") or "")):
        source = {"width": sides[1], "height": sides[2]}
    width, height = (_whole(source.get(name), _LARGEST_SIDE) for name in ("width", "height"))
    return (width, height) if width and height else (None, None)


def _revised(more: Mapping[str, Any], prompts: list[str]) -> str:
    """Fooocus's prompt after its styles and expansion, where it is another one."""
    full = more.get("full_prompt")
    text = _one_line(", ".join(map(str, full)) if isinstance(full, list) else full)
    return "" if [text] == prompts else text[:10_000]


def _of_comfy(texts: Mapping[str, str]) -> dict[str, Any]:
    """The graph that was executed, in the form that the parser follows; the page's own ``workflow`` is not needed.

    A program that asks ComfyUI for pictures has none, and what is in a subgraph has other numbers there.
    """
    graph = json.loads(texts["prompt"])
    nodes = {str(key): dict(node) for key, node in graph.items() if isinstance(node["inputs"], dict)}
    inputs = {key: dict(node["inputs"]) for key, node in nodes.items()}
    links = [
        (0, str(value[0]), 0, key, 0, "CLIP" if name == "clip" else name.upper())
        for key, given in inputs.items()
        for name, value in given.items()
        if _is_link(value, nodes)
    ]
    for key, node in nodes.items():
        own = {name: _constant(name, value, inputs) for name, value in inputs[key].items()}
        if str(node.get("class_type", "")).startswith("SamplerCustom"):
            own = _custom_sampler(own, inputs)
        drawing = {"sampler_name", "steps", "cfg"} <= set(own)
        # The parser takes a link called "model" for a model's name.
        node["inputs"] = {name: value for name, value in own.items() if drawing or not _is_link(value, nodes)}
        _name_as_the_parser_does(node["inputs"])
    return {"prompt": nodes, "workflow": {"links": links}}


def _is_link(value: object, nodes: Mapping[str, Any]) -> bool:
    return isinstance(value, list) and len(value) == 2 and str(value[0]) in nodes


_CONSTANTS = frozenset({"text", "seed", "noise_seed", "steps", "cfg", "sampler_name", "scheduler", "width", "height"})


def _constant(name: str, value: Any, inputs: Mapping[str, Mapping[str, Any]]) -> Any:
    """The value of an input that is linked to a node with nothing but one value (a text, a number)."""
    if name not in _CONSTANTS or not _is_link(value, inputs):
        return value
    values = list(inputs[str(value[0])].values())
    return values[0] if len(values) == 1 and isinstance(values[0], str | int | float) else value


def _custom_sampler(own: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What a sampler of parts (noise, guider, sampler, schedule) draws with, as a usual one has it."""
    parts = [inputs[str(own[n][0])] for n in ("noise", "guider", "sampler", "sigmas") if _is_link(own.get(n), inputs)]
    merged = {name: _constant(name, value, inputs) for part in parts for name, value in part.items()}
    if "conditioning" in merged:
        merged["positive"] = merged.pop("conditioning")
    return {"cfg": None, "steps": None, "sampler_name": ""} | dict(own) | merged


def _name_as_the_parser_does(inputs: dict[str, Any]) -> None:
    """A model's file is its ``ckpt_name``; what is said to several text encoders alike is one ``text``."""
    if isinstance(file := inputs.get("unet_name"), str):
        inputs["ckpt_name"] = file
    texts = {inputs[name] for name in ("text_g", "text_l", "clip_l", "t5xxl") if isinstance(inputs.get(name), str)}
    if len(texts := {text for text in texts if text.strip()}) == 1:
        inputs["text"] = texts.pop()


def _of_invoke(texts: Mapping[str, str]) -> dict[str, Any]:
    """Newer versions name no scheduler for every model, and the model otherwise."""
    if "invokeai_metadata" not in texts:
        return dict(texts)
    metadata = json.loads(texts["invokeai_metadata"])
    metadata.setdefault("scheduler", "")
    if isinstance(model := metadata.get("model"), dict):
        model.setdefault("model_name", model.get("name") or model.get("key"))
    return {"invokeai_metadata": json.dumps(metadata)}


_PARSERS: tuple[tuple[type[Parser], tuple[str, ...], Callable[[Mapping[str, str]], dict[str, Any]]], ...] = (
    (FooocusParser, ("parameters",), dict),
    (AUTOMATIC1111Parser, ("parameters",), dict),
    (ComfyUIParser, ("prompt",), _of_comfy),
    (InvokeAIParser, ("invokeai_metadata",), _of_invoke),
    (InvokeAIParser, ("sd-metadata",), _of_invoke),
    (InvokeAIParser, ("Dream",), _of_invoke),
    (NovelAIParser, ("Comment", "Description", "Source"), dict),
)
"""Who reads which texts, the first that can; how they are made ready for it."""


def _draws_by_seed(model: str) -> bool:
    """Whether a seed that stands beside this model's name is one that it drew from."""
    return not model.startswith((IMPORTED, *(f"{service}:" for service in get_args(Service))))


def _different(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def _agreed(values: Iterator[T | None]) -> T | None:
    """The one value that all have; None where they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _first(values: Mapping[str, Any], names: Iterable[str], read: Callable[[Any], T | None]) -> T | None:
    return next((value for name in names if (value := read(values.get(name))) is not None), None)


def _one_line(value: object) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _name(value: object) -> str:
    return _one_line(value)[:_LONGEST_NAME]


def _number(value: object) -> float | None:
    """A finite number, also where it is written as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        return number if math.isfinite(number := float(value)) else None
    return None


def _whole(value: object, most: int) -> int | None:
    """A whole number from 0 to ``most``; no digit of a seed is lost."""
    number = _number(value)
    if number is None or not number.is_integer():
        return None
    whole = int(number)
    if isinstance(value, int | str):
        with suppress(ValueError):  # "20.0"
            whole = int(value)
    return whole if 0 <= whole <= most else None


def _guidance(value: object) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= _MOST_GUIDANCE else None
