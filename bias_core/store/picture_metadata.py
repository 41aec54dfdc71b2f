"""Read prompt, seed, sampler settings and model from the metadata that other programs write into pictures.

AUTOMATIC1111 and Forge, SwarmUI, Easy Diffusion, Draw Things and Midjourney are read here, ComfyUI in ``comfy_graph``,
and InvokeAI, Fooocus and NovelAI by ``sd_parsers``: from a PNG's texts and the EXIF of other formats. Its own
``ParserManager`` is not used, because it passes the EXIF of one open picture to the next.
"""

import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, BinaryIO, get_args

import numpy as np
from PIL import ExifTags, Image
from sd_parsers.data import PromptInfo, Sampler
from sd_parsers.exceptions import ParserError
from sd_parsers.parsers import FooocusParser, InvokeAIParser, NovelAIParser, Parser

from bias_core.errors import InvalidInput
from bias_core.models.catalogue import Service
from bias_core.store.comfy_graph import MOST_GRAPH, facts_of_graph
from bias_core.store.drawing_facts import (
    LARGEST_SEED,
    LARGEST_SIDE,
    MOST_STEPS,
    MOST_TEXT,
    PictureMetadata,
    check_length,
    different,
    facts_of_table,
    find_loras,
    further_of,
    guidance,
    one_line,
    several_prompts,
    short_name,
    size_of_text,
    whole,
    with_schedule,
    without_networks,
)
from bias_core.store.images import XMP_KEY, open_picture, read_late_texts, read_source, source_of
from bias_core.store.tables import parquet_rows
from bias_core.types import IMPORTED, PictureRecord
from bias_core.values import read_json

OWN_RECORD = "bias_core"  # the text of a PNG that this program writes
FIGURE_MARK = "bias_core_figure"  # the same for a figure of a report, which no model drew
_MOST_TEXT = 2_000_000  # characters of one picture's metadata
# Errors of parsers on malformed data.
UNREADABLE = (ParserError, LookupError, ValueError, TypeError, AttributeError, RecursionError)


def metadata_of_line(line: Mapping[str, Any]) -> PictureMetadata:
    """Facts of a table's line other than the prompt, under our names or usual ones."""
    facts = facts_of_table(line)
    model = short_name(line.get("drawn_with_model")) or facts.model
    facts = replace(
        facts,
        program=short_name(line.get("drawn_by")) or short_name(line.get("program")),
        model="" if model.startswith(IMPORTED) else model,
        prompt="",
        revised_prompt="",
        further=(),  # other columns may hold anything
        width=None,  # of the picture as it is
        height=None,
    )
    # The seed of our row is the model's only if we drew it ourselves from seeds.
    return facts if _draws_by_seed(short_name(line.get("model"))) else replace(facts, seed=None)


def metadata_of_record(record: PictureRecord) -> PictureMetadata:
    """Facts from our own record; for a picture imported before, the facts of its original program."""
    row, drawn = record.row, record.drawn
    before = drawn if drawn and "program" in drawn else {}
    metadata = PictureMetadata(
        program=short_name(before.get("program")) or ("" if row.model.startswith(IMPORTED) else "T2I Bias Explorer"),
        prompt=one_line(row.prompt),
        negative_prompt=one_line(row.negative_prompt),
        seed=whole(row.seed if _draws_by_seed(row.model) else before.get("seed"), LARGEST_SEED),
        num_inference_steps=whole(row.num_inference_steps, MOST_STEPS) or None,
        guidance_scale=guidance(row.guidance_scale) or None,
        sampler=short_name(before.get("sampler")),
        model=short_name(before.get("model")) or ("" if row.model.startswith(IMPORTED) else row.model),
    )
    further, loras = (
        tuple(filter(None, map(one_line, texts))) if isinstance(texts := before.get(name), list) else ()
        for name in ("further", "loras")
    )
    revised = one_line((drawn or {}).get("revised_prompt"))
    return replace(
        metadata, revised_prompt=revised, further=further, loras=loras, digital_source_type=source_of(record)
    )


_HIDDEN = (b"stealth_pnginfo", b"stealth_pngcomp", b"stealth_rgbinfo", b"stealth_rgbcomp")


def find_hidden_text(image: Image.Image) -> str:
    """Say that a picture hides a text in the lowest bits of its transparency or colours; "" if it does not.

    ``image`` has its original pixels; such texts are written column by column.
    """
    n_bits = 8 * len(_HIDDEN[0])
    if image.mode not in ("RGB", "RGBA") or image.width * image.height < n_bits:
        return ""
    columns = image.crop((0, 0, -(-n_bits // image.height), image.height))
    pixels = np.asarray(columns).transpose(1, 0, 2).reshape(-1, len(image.mode)) & 1
    starts = [np.packbits(bits[:n_bits]).tobytes() for bits in (pixels[:, -1], pixels[:, :3].ravel())]
    return "settings hidden in its pixels (stealth PNG)" if any(start in _HIDDEN for start in starts) else ""


def read_metadata(file: BinaryIO, name: str = "") -> PictureMetadata:
    """Read a picture's metadata, from its header alone if that suffices.

    The file's ``name`` tells which picture it is of a workflow that saves several.

    Raises InvalidInput: its metadata is unreadable or too long; the picture itself may be fine.
    """
    texts, size = _read_texts(file)
    if sum(map(len, texts.values())) > _MOST_TEXT:
        raise InvalidInput(f"its metadata has more than {_MOST_TEXT:,} characters and was not read")
    if FIGURE_MARK in texts:
        return PictureMetadata(is_figure=True)
    metadata = _of_own_text(texts[OWN_RECORD]) if OWN_RECORD in texts else _of_a_program(texts, name)
    software = short_name(texts.get("Software", "").partition(" - ")[0])
    metadata = replace(metadata, program=metadata.program or software * bool(metadata.prompt or metadata.unclear))
    metadata = replace(metadata, is_sheet=metadata.is_sheet or _is_tiled(metadata, size, texts))
    return replace(metadata, digital_source_type=read_source(texts.get(XMP_KEY, "")))


def _is_tiled(metadata: PictureMetadata, size: tuple[int, int], texts: Mapping[str, str]) -> bool:
    """Return true for a picture several times its requested size in one direction, such as a contact sheet."""
    if not metadata.width or not metadata.height or "scale" in texts.get("parameters", "").replace("CFG scale", ""):
        return False
    columns, rows = size[0] / metadata.width, size[1] / metadata.height
    return columns.is_integer() and rows.is_integer() and columns != rows


def facts_of_text(text: str) -> PictureMetadata:
    r"""Read the text file next to a picture: a program's settings, else the prompt alone.

    >>> facts_of_text("Prompt: a doctor\nSeed: 3\nGuidance Scale: 7.5").seed, facts_of_text("a nurse").prompt
    (3, 'a nurse')
    """
    check_length(text)
    if text.lstrip().startswith("{"):
        return _of_json(text)
    with suppress(*UNREADABLE):
        return _of_a1111(text)
    pairs = dict(re.findall(r"^(\w[\w ]{1,40}):[ \t]?(.*)$", text, re.MULTILINE))
    if "prompt" in {name.lower() for name in pairs} and len(pairs) > 1:
        return facts_of_table(pairs, "Easy Diffusion" if "Guidance Scale" in pairs else "")
    return PictureMetadata(prompt=one_line(text))


def _of_a_program(texts: Mapping[str, str], name: str) -> PictureMetadata:
    refused = ""
    for keys, read in _PROGRAMS:
        if all(key in texts for key in keys):
            try:
                for key in keys:
                    check_length(texts[key], f"its metadata ({key})", MOST_GRAPH if key == "prompt" else MOST_TEXT)
                return read({key: texts[key] for key in keys} if read is not _of_easy_diffusion else texts, name)
            except UNREADABLE as error:
                if isinstance(error, InvalidInput):
                    raise
                refused = refused or keys[0]
    if refused and _looks_written_by_a_program(texts[refused]):
        raise InvalidInput(f"its metadata ({refused}) has an unknown format")
    return _of_usual_names(texts)


_TELLING = re.compile("prompt|seed|sampler|steps|guidance|cfg|workflow|generation", re.IGNORECASE)
_KNOWN_TEXTS = frozenset({XMP_KEY, OWN_RECORD, FIGURE_MARK, "Software"})


def _of_usual_names(texts: Mapping[str, str]) -> PictureMetadata:
    """Read an unknown program's texts under the usual names, which may share a prefix; name those that are not read."""
    telling = [key for key in texts if _TELLING.search(key) and key not in _KNOWN_TEXTS]
    prefixes = {key.rpartition(":")[0] for key in telling}
    if len(prefixes) == 1 and len(telling) > 1:
        prefix = prefixes.pop()
        table = {key.removeprefix(f"{prefix}:"): check_length(text) for key, text in texts.items()
                 if key.rpartition(":")[0] == prefix and key not in _KNOWN_TEXTS}  # fmt: skip
        if (facts := facts_of_table(table, short_name(prefix))).prompt:
            return facts
    unread = f"texts of an unknown program ({', '.join(telling[:3])})" if telling else ""
    return PictureMetadata(unread=(short_name(unread),) if unread else ())


def _read_texts(file: BinaryIO) -> tuple[dict[str, str], tuple[int, int]]:
    """Texts and size of a picture, of a PNG also those after its pixels."""
    with open_picture(file) as opened:
        texts, size = _texts(opened), opened.size
        if opened.format == "PNG" and not texts.keys() - {XMP_KEY}:
            texts |= _texts(read_late_texts(file) or opened)
    return texts, size


def _texts(opened: Image.Image) -> dict[str, str]:
    """Texts of a picture by key; comments as A1111's ``parameters``, and ComfyUI's two texts under its keys."""
    texts = {str(key): _mend_encoding(value) for key, value in opened.info.items() if isinstance(value, str)}
    if isinstance(xmp := opened.info.get("xmp"), bytes):  # of JPEG and WebP
        texts[XMP_KEY] = xmp.decode("utf-8", "replace")
    if isinstance(comment := opened.info.get("comment"), bytes) and "comment" not in texts:  # of JPEG and GIF
        texts.setdefault(
            "parameters", _mend_encoding(comment.decode("latin-1")).removeprefix("parameters").strip("\0 ")
        )
    if described := _XMP_COMMENT.search(texts.get(XMP_KEY, "")[:MOST_TEXT]):
        texts.setdefault("parameters", html.unescape(described[1]).strip())
    if "exif" not in opened.info:
        return texts
    exif = opened.getexif()
    if isinstance(software := exif.get(ExifTags.Base.Software), str):
        texts.setdefault("Software", _mend_encoding(software).strip("\0 "))
    with suppress(KeyError, ValueError, TypeError, OSError, SyntaxError):  # a damaged part; the rest may be intact
        comment = exif.get(ExifTags.Base.UserComment) or exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.UserComment)
        if text := _comment(comment):
            texts.setdefault("parameters", text)
    for tag, value in exif.items():
        key, sign, text = value.partition(":") if isinstance(value, str) else ("", "", "")
        if sign and key.lower() in ("prompt", "workflow"):
            texts.setdefault(key.lower(), text.strip("\0 "))
        elif tag == ExifTags.Base.ImageDescription and isinstance(value, str):
            texts.setdefault("Description", value.strip("\0 "))
    return texts


_XMP_COMMENT = re.compile(r"<exif:UserComment>(?:\s*<rdf:Alt>)?\s*(?:<rdf:li[^<>]{0,80}>)?([^<]{2,})<")


def _mend_encoding(text: str) -> str:
    r"""Read UTF-8 that was taken for Latin-1; other texts are unchanged.

    >>> _mend_encoding("Ã\x84rztin"), _mend_encoding("Ärztin")
    ('Ärztin', 'Ärztin')
    """
    with suppress(UnicodeError):
        return text.encode("latin-1").decode()
    return text


def _comment(value: object) -> str:
    """The text of an EXIF comment, after eight bytes with its encoding, which some programs leave out."""
    if isinstance(value, str):
        return value.strip("\0 ")
    if not isinstance(value, bytes):
        return ""
    code, text = value[:8], value[8:]
    if code != b"UNICODE\0":
        return value.removeprefix(b"ASCII\0\0\0").decode("utf-8", "replace").strip("\0 ")
    # The byte order is not given; English text shows it by its zeros.
    order = "utf-16-be" if text[0::2].count(0) >= text[1::2].count(0) else "utf-16-le"
    return text.decode(order, "replace").strip("\0 ")


def _of_own_text(text: str) -> PictureMetadata:
    """The prompt of our own record; the rest follows from the full record, after a check of the pixels."""
    try:
        return PictureMetadata(prompt=one_line(read_json(text)["row"]["prompt"]))
    except UNREADABLE as error:
        raise InvalidInput("its record cannot be read") from error


def _looks_written_by_a_program(text: str) -> bool:
    """Return true unless a camera or person wrote the comment."""
    return text.lstrip().startswith("{") or "Steps:" in text


def _of_a1111(text: str) -> PictureMetadata:
    """Read A1111's format, also of Forge, SD.Next and many sites: prompt, negative prompt, a line of settings."""
    lines = check_length(text).split("\n")
    tables = ((place, _settings(line)) for place, line in reversed([*enumerate(lines)]) if "Steps:" in line)
    place, table = next(
        ((place, names) for place, names in tables if len(_A1111 & set(names)) >= _FEWEST_SETTINGS), (0, {})
    )
    prompt, *negative = re.split(r"(?:^|\n)[ \t]{0,9}Negative prompt:", "\n".join(lines[:place]))
    if len(negative) > 1 or "Sampler" not in table:
        raise ValueError
    facts = facts_of_table({**table, "prompt": prompt, "negative prompt": "".join(negative)})
    distilled, model = guidance(table.get("Distilled CFG Scale")), short_name(table.get("Model"))
    width, height = size_of_text(table.get("Size"))
    if "Denoising strength" in table and not any(name.startswith("Hires") for name in table):
        facts = replace(facts, further=("a start picture (img2img)", *facts.further))
    return replace(
        facts,
        program=_program(table),
        guidance_scale=distilled
        if (facts.guidance_scale or 0) <= 1 and distilled is not None
        else facts.guidance_scale,
        model=model or facts.model,
        width=width,
        height=height,
        is_sheet=bool(re.search("plot|grid|matrix", table.get("Script", "")[:200], re.IGNORECASE)),
    )


_A1111 = frozenset({"Sampler", "CFG scale", "Seed", "Steps", "ENSD", "Schedule type"})
_FEWEST_SETTINGS = 3  # of a line of A1111's


def _settings(line: str) -> dict[str, str]:
    r"""Names and values of A1111's line; a value with a comma is quoted.

    >>> _settings('Steps: 20, ADetailer prompt: "a \\"male\\" face, detailed", Seed: 1')
    {'Steps': '20', 'ADetailer prompt': 'a "male" face, detailed', 'Seed': '1'}
    """
    table: dict[str, str] = {}
    start = 0
    while start < len(line):
        comma = line.find(",", start)
        end = len(line) if comma < 0 else comma
        if (colon := line.find(":", start, end)) >= 0:
            name, value = line[start:colon].strip(), line[colon + 1 : end].strip()
            if text := _QUOTED.match(line, colon + 1):
                end = text.end()
                with suppress(ValueError):
                    value = str(json.loads(text[0], strict=False))
            table.setdefault(name, value)
        start = end + 1
    return table


_QUOTED = re.compile(r'[ ]?"(?:[^"\\]|\\.)*"')


def _program(table: Mapping[str, str]) -> str:
    """The program that wrote A1111's format, if it names itself; A1111's and Forge's versions are numbers."""
    version = table.get("Version", "").strip()
    by_version = ((r"f\d", "Forge"), (r"v?\d", "AUTOMATIC1111"), (r"ComfyUI", "ComfyUI"), (r"[A-Za-z]", version))
    named = next((name for pattern, name in by_version if re.match(pattern, version)), "")
    return short_name(table.get("App")) or short_name(named)


def _of_json(text: str) -> PictureMetadata:
    """Settings as JSON: SwarmUI, Draw Things, Easy Diffusion, or others with the usual names."""
    table = read_json(text)
    if isinstance(swarm := table.get("sui_image_params"), dict):
        return _of_swarm(swarm)
    if isinstance(table.get("c"), str) and "uc" in table:  # Draw Things
        facts = facts_of_table({**table, "prompt": table["c"]}, "Draw Things")
        width, height = size_of_text(table.get("size"))
        return replace(facts, width=width, height=height)
    program = "Easy Diffusion" if "use_stable_diffusion_model" in table else short_name(table.get("software"))
    facts = facts_of_table(table, program)
    if not facts.prompt:
        raise ValueError
    return facts


def _of_swarm(table: Mapping[str, Any]) -> PictureMetadata:
    """SwarmUI's parameters: after the first part of its prompt come parts for segments, regions and the refiner."""
    prompt, *parts = re.split(r"<((?:segment|region|object|refiner|base|video|extend)\b[^<>]{0,200})>",
                              check_length(one_line(table.get("prompt"))))  # fmt: skip
    facts = facts_of_table({**table, "prompt": prompt}, "SwarmUI")
    texts = zip(parts[::2], parts[1::2], strict=True)
    further = [f"prompt of <{name[:80]}> “{text.strip()[:200]}”" for name, text in texts if text.strip()]
    return replace(facts, further=(*further, *facts.further))


# A phone writes — for two hyphens.
_SWITCH = re.compile(r"(?:^| )(?:--(?=[A-Za-z])|—(?=(?:ar|v|no|seed|style|stylize|niji|chaos|[qsc]) ))")


def facts_of_midjourney(text: str) -> PictureMetadata:
    """Read Midjourney's description: prompt, switches, job number.

    >>> facts = facts_of_midjourney("https://s.mj.run/x a doctor --ar 1:1 --no hats --seed 7 --v 6.0 Job ID: 0a-1b")
    >>> facts.prompt, facts.negative_prompt, facts.seed, facts.model, facts.further
    ('a doctor', 'hats', 7, 'Midjourney 6', ('a start or reference picture (image prompt)',))
    """
    words = one_line(check_length(text).partition("Job ID:")[0])
    prompt, *switches = _SWITCH.split(words)
    parameters = {name.lower(): value.strip() for name, _, value in (switch.partition(" ") for switch in switches)}
    pictures = {word for word in prompt.split() if re.match("<?https?://", word)}
    version = parameters.get("v") or parameters.get("version") or ""
    niji = " Niji" if "niji" in parameters else ""
    version = (parameters.get("niji") or version).removesuffix(".0")
    names = ["image prompt"] * bool(pictures) + [name for name in ("sref", "cref", "oref") if name in parameters]
    return PictureMetadata(
        program="Midjourney",
        prompt=" ".join(word for word in prompt.split() if word not in pictures),
        negative_prompt=parameters.get("no", ""),
        seed=whole(parameters.get("seed"), LARGEST_SEED),
        model=short_name(f"Midjourney{niji} {version}"),
        further=tuple(f"a start or reference picture ({name})" for name in names),
    )


def _of_description(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    if "Job ID:" not in texts["Description"]:
        raise ValueError
    return facts_of_midjourney(texts["Description"])


def _of_parameters(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    text = texts["parameters"]
    return _of_json(text) if text.lstrip().startswith("{") else _of_a1111(text)


def _of_comfy(texts: Mapping[str, str], name: str) -> PictureMetadata:
    digest = hashlib.sha256(texts["prompt"].encode("utf-8", "replace")).hexdigest()
    return replace(facts_of_graph(texts["prompt"], name), workflow=digest)


def _of_easy_diffusion(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    return facts_of_table(
        {name: check_length(text) for name, text in texts.items() if name != XMP_KEY}, "Easy Diffusion"
    )


def _parsed(parser: type[Parser], prepared: Callable[[Mapping[str, str]], dict[str, Any]]) -> "_Read":
    def read(texts: Mapping[str, str], _name: str) -> PictureMetadata:
        return _metadata(parser().parse(prepared(texts)))

    return read


def _metadata(info: PromptInfo) -> PictureMetadata:
    """A parser's result as our facts."""
    (sampler,), more, raw = info.samplers, info.metadata, info.raw_parameters
    written = [prompt.value for prompt in sampler.prompts if isinstance(prompt.value, str)]
    prompts = different(map(without_networks, written))
    negative = different(one_line(prompt.value) for prompt in sampler.negative_prompts)
    width, height = _size(more)
    cfg = guidance(sampler.parameters.get("cfg_scale"))
    distilled = guidance(more.get("guidance"))
    tables = [read_json(text) for text in raw.values() if isinstance(text, str) and text.lstrip().startswith("{")]
    return PictureMetadata(
        program=info.generator.value,
        prompt=prompts[0] if len(prompts) == 1 else "",
        unclear=several_prompts(prompts),
        negative_prompt=negative[0] if len(negative) == 1 and cfg != 1 else "",
        seed=whole(sampler.parameters.get("seed"), LARGEST_SEED),
        num_inference_steps=whole(sampler.parameters.get("steps", more.get("steps")), MOST_STEPS),
        guidance_scale=distilled if cfg is None or (cfg <= 1 and distilled is not None) else cfg,
        sampler=with_schedule(short_name(sampler.name), short_name(sampler.parameters.get("scheduler"))),
        model=_model(sampler),
        loras=tuple(different([*find_loras({}, written), *(name for table in tables for name in find_loras(table))])),
        width=width,
        height=height,
        revised_prompt=_revised(more, prompts),
        further=tuple(
            different(text for table in tables for text in further_of(table, but=[*prompts, *negative, *written]))
        ),
    )


def _model(sampler: Sampler) -> str:
    return "" if sampler.model is None else short_name(sampler.model.name) or short_name(sampler.model.hash)


def _size(more: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Read a size from one text, or from width and height."""
    if text := more.get("Size") or more.get("resolution"):
        return size_of_text(text)
    width, height = (whole(more.get(name), LARGEST_SIDE) for name in ("width", "height"))
    return (width, height) if width and height else (None, None)


def _revised(more: Mapping[str, Any], prompts: list[str]) -> str:
    """Fooocus's prompt after styles and expansion, if different."""
    full = more.get("full_prompt")
    text = one_line(", ".join(map(str, full)) if isinstance(full, list) else full)
    return "" if [text] == prompts else text[:10_000]


def _of_invoke(texts: Mapping[str, str]) -> dict[str, Any]:
    """Read InvokeAI's metadata, in which newer versions have other keys for scheduler and model."""
    if "invokeai_metadata" not in texts:
        return {name: " ".join(text.split()) if name == "Dream" else text for name, text in texts.items()}
    metadata = read_json(texts["invokeai_metadata"])
    metadata.setdefault("scheduler", "")
    if isinstance(model := metadata.get("model"), dict):
        model.setdefault("model_name", model.get("name") or model.get("key"))
    return {"invokeai_metadata": json.dumps(metadata)}


def _of_novel(texts: Mapping[str, str]) -> dict[str, Any]:
    """Read NovelAI's metadata, in which the description is the prompt."""
    return {**texts, "Source": short_name(texts["Source"])}


_Read = Callable[[Mapping[str, str], str], PictureMetadata]
_PROGRAMS: tuple[tuple[tuple[str, ...], _Read], ...] = (
    (("parameters",), _parsed(FooocusParser, dict)),
    (("parameters",), _of_parameters),
    (("prompt", "use_stable_diffusion_model"), _of_easy_diffusion),
    (("prompt", "num_inference_steps"), _of_easy_diffusion),
    (("prompt",), _of_comfy),
    (("invokeai_metadata",), _parsed(InvokeAIParser, _of_invoke)),
    (("sd-metadata",), _parsed(InvokeAIParser, _of_invoke)),
    (("Dream",), _parsed(InvokeAIParser, _of_invoke)),
    (("Comment", "Description", "Source"), _parsed(NovelAIParser, _of_novel)),
    (("Description",), _of_description),
)
"""Programs' texts and their parsers; the first match counts."""


def _draws_by_seed(model: str) -> bool:
    """Return true if a seed next to this model's name is one that it drew from."""
    return not model.startswith((IMPORTED, *(f"{service}:" for service in get_args(Service))))


PARQUET = "metadata.parquet"
_TEXT_ENDINGS = (".txt", ".caption", ".json")
_NAMES = ("file_name", "image_name", "filename")
_PART = {"p": "prompt", "se": "seed", "c": "cfg", "st": "step", "sa": "sampler"}  # DiffusionDB's names
_SAMPLERS = dict(enumerate(
    ("ddim", "plms", "k_euler", "k_euler_ancestral", "k_heun", "k_dpm_2", "k_dpm_2_ancestral", "k_lms"), start=1
))  # fmt: skip


def sidecars_of(pictures: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    """The text file next to each picture that has one, by picture name."""
    there = set(files)
    names = {picture: (PurePosixPath(picture).with_suffix("").as_posix(), picture) for picture in pictures}
    found = {
        picture: [base + ending for ending in _TEXT_ENDINGS for base in bases if base + ending in there]
        for picture, bases in names.items()
    }
    return {picture: texts[0] for picture, texts in found.items() if texts}


def facts_of_sidecar(data: bytes) -> PictureMetadata:
    """Read the text file of a picture. Raises InvalidInput: it is too long, not a text, or in an unknown format."""
    try:
        facts = facts_of_text(check_length(data.decode("utf-8-sig")))
    except InvalidInput:
        raise
    except UNREADABLE as error:
        raise InvalidInput("has an unknown format") from error
    return facts if any(map(str.isalpha, facts.prompt)) else PictureMetadata()


def facts_of_part(data: bytes) -> dict[str, PictureMetadata]:
    """Facts by file name, from the JSON of a part of DiffusionDB or a list of objects; {} for other files."""
    try:
        table = read_json(data)
        if isinstance(table, list):
            rows = ((next((row[name] for name in _NAMES if row.get(name)), ""), row) for row in table)
            return {str(name): facts for name, row in rows if name and (facts := _facts(row)).prompt}
        lines = {str(name): {_PART[key]: line[key] for key in _PART if key in line} for name, line in table.items()}
    except (*UNREADABLE, InvalidInput):
        return {}
    return {name: facts for name, line in lines.items() if (facts := _facts(line)).prompt}


def facts_of_parquet(data: bytes) -> Iterator[tuple[str, PictureMetadata]]:
    """File names and facts from a table with a column of prompts (imagefolder's, DiffusionDB's).

    Raises InvalidInput: it cannot be read, is too large, or lacks a column; this may come after some of them.
    """
    for row in parquet_rows(data):
        column = next((name for name in _NAMES if name in row), "")
        if not column or not {"prompt", "text", "caption"} & set(row):
            raise InvalidInput(
                "needs the columns file_name and one of prompt, text, caption; pictures inside a table are not read: "
                "save them as files"
            )
        if row[column] and (facts := _facts(row)).prompt:
            yield str(row[column]), facts


def _facts(line: Mapping[str, Any]) -> PictureMetadata:
    text = next((one for name in ("prompt", "text", "caption") if (one := one_line(line.get(name)))), "")
    sampler = line.get("sampler")
    line = {**line, "sampler": _SAMPLERS.get(sampler, "") if isinstance(sampler, int) else sampler}
    return metadata_of_line(line).merged_with(PictureMetadata(prompt=text))


FEWEST_WORDS = 3  # of a file name that counts as a prompt
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MIDJOURNEY = re.compile(rf"[^_\s]+_([^\s]+)_{_UUID}(?:_\d+)?", re.IGNORECASE)  # user, prompt and switches, job
_DATE = r"\d{4}-\d\d-\d\d(?:[ T_-]+(?:at )?\d\d[.:_-]?\d\d(?:[.:_-]?\d\d)?)?"
_OF_PROGRAMS = (
    ("DALL·E", re.compile(rf"DALL.?E[ _]+{_DATE}[ _]*-[ _]*(.*)")),
    ("Adobe Firefly", re.compile(r"Firefly[ _](.*?)[ _]\d+")),
    ("Leonardo", re.compile(rf"(?:Default|Leonardo)_(.*?)_\d+(?:_{_UUID})?(?:_\d+)?")),
)
_BEFORE = re.compile(rf"^(?:{_DATE}|\d{{8}}(?=\D)|\d{{3,}}(?=[-_]))[\s_-]*")
_AFTER = re.compile(rf"(?:\(\d+\)|#?\d+|{_DATE}|{_UUID}|(?<=[\s_-])(?=[a-z]*\d)[0-9a-f]{{8,}})$", re.IGNORECASE)
_BETWEEN = " \t_-"
_LONGEST_NAME, _LONGEST_END, _MOST_ENDS = 255, 80, 8  # characters; of numbers, dates and ids in a row
_NO_PROMPT = re.compile(
    r"(?:ChatGPT Image|Gemini[ _]Generated[ _]Image|Copilot[ _]\d|Screen ?shot|WhatsApp Image|OIG\d?[.-]).*"
    r"|(?:IMG|DSC|PXL|ComfyUI|SwarmUI|image|picture|photo|download|untitled|unnamed|output|sample|file)[\W\d_]*",
    re.IGNORECASE,
)
_FOLDERS = re.compile(
    r"(?:txt2img|img2img|extras)[-_ ](?:images|grids)|(?:generated|output|sample|result)?[-_ ]?(?:images?|pictures?"
    r"|pics|photos?|samples?|results?|outputs?|files?|imgs?)|generated|train|test|val(?:idation)?|raw|local|main|downloads?"
    r"|data(?:set)?|default|all|new|tmp|temp|final|png|jpe?g|webp|untitled folder|new folder.*",
    re.IGNORECASE,
)
_SHEET = re.compile(r"(?:xyz_|txt2img_|img2img_)?grid(?:-\d{4,}(?:-.*)?)?")  # AUTOMATIC1111's, GenEval's
_EARLIER = re.compile(r"(.+?)-(?:before-[a-z-]+|ad-before|ad-preview[-\d]*|init-image|mask|mask-composite)")


def facts_of_name(name: str) -> PictureMetadata:
    """Return what programs write into a file's name besides its words: the program, Midjourney's switches."""
    stem = _stem(name)
    if found := _MIDJOURNEY.fullmatch(stem):
        return facts_of_midjourney(found[1].replace("_", " "))
    for program, pattern in _OF_PROGRAMS:
        if found := pattern.fullmatch(stem):
            return PictureMetadata(program=program, prompt=_words(found[1]))
    return PictureMetadata()


def names_as_prompts(name: str, wrapper: str) -> tuple[str, str]:
    """Return the words of a picture's folder and of its name; "" where these are numbers, or names of programs.

    >>> names = ("a photo of a doctor/3.png", "x/00012-123-a_nurse-7.png", "DALL·E 2023-10-12 10.41.55 - A cook.png")
    >>> [names_as_prompts(name, "x") for name in (*names, "00000-1234.png", "2026-11-22/a cook-3.png")]
    [('a photo of a doctor', ''), ('', 'a nurse'), ('', 'A cook'), ('', ''), ('', 'a cook')]
    """
    if not (stem := _stem(name)):
        return "", ""
    parent = PurePosixPath(name).parent
    is_outer = parent.as_posix() in {".", wrapper} or len(parent.name) > _LONGEST_NAME
    is_words = not is_outer and _words(parent.name) and not _FOLDERS.fullmatch(parent.name)
    folder = one_line(parent.name.replace("_", " ")) if is_words and not is_model_name(parent.name) else ""
    return folder, facts_of_name(name).prompt or _words(stem)


def reads_like_a_prompt(text: str) -> bool:
    """Return true for at least three words, or as much in a script that writes none between spaces.

    >>> [reads_like_a_prompt(text) for text in ("a photo of a doctor", "doctor", "एक लड़का बाहर", "医生的照片")]
    [True, False, True, True]
    """
    n_unspaced = sum(bool(_UNSPACED.match(character)) for character in text)
    return len(text.split()) >= FEWEST_WORDS or n_unspaced >= _FEWEST_UNSPACED


_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_UNSPACED = 4
_MODEL_NAME = re.compile(
    r"(?:(?:stable[-_ ]?diffusion|sdxl|sd|flux|kandinsky|pixart|dall[-_ ·]?e|dalle|midjourney|mj|imagen|if|kolors|qwen"
    r"|hunyuan(?:dit)?|playground|wuerstchen|lcm|sana|cogview|auraflow|lumina|z[-_]?image|gpt[-_ ]?image|firefly"
    r"|ideogram|janus|omnigen)(?:[-_ .]?(?:v?\d[\w.]*|xl|turbo|base|dev|schnell|pro|mini|medium|large|lightning|sigma"
    r"|alpha))*)",
    re.IGNORECASE,
)


def is_model_name(text: str) -> bool:
    """Return true if a folder's name is that of a model that draws.

    >>> [is_model_name(text) for text in ("sd15", "sdxl-turbo", "FLUX.1-dev", "stable-diffusion-v1-5", "a photo")]
    [True, True, True, True, False]
    """
    return bool(_MODEL_NAME.fullmatch(text.strip()))


def model_folder(name: str) -> str:
    """Return the nearest folder of a picture that is named after a model; "" if none is."""
    return next((part for part in reversed(PurePosixPath(name).parts[:-1]) if is_model_name(part)), "")


def file_name_words(name: str) -> str:
    """A file name as a prompt, without ending, dates, numbers and ids; "" if no words remain."""
    return _words(_stem(name))


def _stem(name: str) -> str:
    """A name without folders and ending; "" if it is longer than systems allow."""
    stem = PurePosixPath(name).stem
    return stem if len(stem) <= _LONGEST_NAME else ""


def _words(text: str) -> str:
    if _NO_PROMPT.fullmatch(text):
        return ""
    for _ in range(_MOST_ENDS):
        before, text = text, _BEFORE.sub("", text)
        shown = text.rstrip()
        if found := _AFTER.search(shown, max(0, len(shown) - _LONGEST_END)):
            text = shown[: found.start()].rstrip(_BETWEEN)
        if text == before:
            break
    return one_line(text.replace("_", " ")) if any(character.isalpha() for character in text) else ""


def wrapper_of(names: Sequence[str]) -> str:
    """The one outer folder of a zip if its name is no prompt; "" if none."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    if len(tops) != 1 or any(len(PurePosixPath(name).parts) == 1 for name in names):
        return ""
    directly = [name for name in names if len(PurePosixPath(name).parts) == 2]
    return tops.pop() if all(len(file_name_words(name).split()) >= FEWEST_WORDS for name in directly) else ""


def is_sheet_name(name: str) -> bool:
    """Return true if a file's name says that it is a sheet of several pictures."""
    return bool(_SHEET.fullmatch(_stem(name)))


def finished_stem(name: str) -> str:
    """The name, without ending, of the finished picture of a draft; "" for other files.

    >>> finished_stem("a/00000-70-before-highres-fix.png")
    'a/00000-70'
    """
    found = _EARLIER.fullmatch(_stem(name))
    return PurePosixPath(name).with_name(found[1]).as_posix() if found else ""
