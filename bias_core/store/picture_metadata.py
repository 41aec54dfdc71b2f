"""Read prompt, seed, sampler settings and model from the metadata that other programs write into pictures.

These are texts of a PNG, comments, XMP, and the EXIF of any format. ``comfy_graph`` follows ComfyUI's graphs.
"""

import hashlib
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, BinaryIO, get_args

import numpy as np
from PIL import ExifTags, Image

from bias_core.errors import InvalidInput
from bias_core.models.catalogue import Service
from bias_core.store.comfy_graph import facts_of_graph
from bias_core.store.drawing_facts import (
    LARGEST_SEED,
    MOST_STEPS,
    PictureMetadata,
    clean_line,
    different,
    facts_of_table,
    guidance,
    number,
    several_prompts,
    short_name,
    whole,
)
from bias_core.store.images import XMP_KEY, get_source_type, open_picture, read_late_texts, read_source
from bias_core.store.tables import decode_text
from bias_core.types import IMPORTED, PictureRecord
from bias_core.values import read_json

OWN_RECORD = "bias_core"  # the text of a PNG that this program writes
FIGURE_MARK = "bias_core_figure"  # the same for a figure of a report, which no model drew
# Errors on malformed data.
UNREADABLE = (LookupError, ValueError, TypeError, AttributeError, RuntimeError)


def metadata_of_line(line: Mapping[str, Any]) -> PictureMetadata:
    """Facts of a table's line other than the prompt, under our names or usual ones."""
    # Other columns may hold anything, and width and height are of the picture as it is.
    facts = replace(facts_of_table(line), prompt="", revised_prompt="", further=(), width=None, height=None)
    model = short_name(line.get("drawn_with_model")) or facts.model
    # The seed of our row is the model's only if we drew it ourselves from seeds.
    return replace(
        facts,
        program=short_name(line.get("drawn_by")) or short_name(line.get("program")),
        model="" if model.startswith(IMPORTED) else model,
        seed=facts.seed if _draws_by_seed(short_name(line.get("model"))) else None,
    )


def metadata_of_record(record: PictureRecord) -> PictureMetadata:
    """Facts from our own record; for a picture imported before, the facts of its original program."""
    row, drawn = record.row, record.drawn
    before = drawn if drawn and "program" in drawn else {}
    own_model = "" if row.model.startswith(IMPORTED) else row.model
    further, loras = (
        tuple(filter(None, map(clean_line, texts))) if isinstance(texts := before.get(name), list) else ()
        for name in ("further", "loras")
    )
    return PictureMetadata(
        program=short_name(before.get("program")) or ("T2I Bias Explorer" if own_model else ""),
        prompt=clean_line(row.prompt),
        negative_prompt=clean_line(row.negative_prompt),
        seed=whole(row.seed if _draws_by_seed(row.model) else before.get("seed"), LARGEST_SEED),
        num_inference_steps=whole(row.num_inference_steps, MOST_STEPS) or None,
        guidance_scale=guidance(row.guidance_scale) or None,
        sampler=short_name(before.get("sampler")),
        model=short_name(before.get("model")) or own_model,
        revised_prompt=clean_line((drawn or {}).get("revised_prompt")),
        further=further,
        loras=loras,
        digital_source_type=get_source_type(record),
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

    Raises InvalidInput: its metadata is unreadable; the picture itself may be fine.
    """
    try:
        texts, size = _read_texts(file)
    except InvalidInput as error:
        raise InvalidInput(f"its metadata {error}".replace(" as a picture", "")) from error
    if FIGURE_MARK in texts:
        return PictureMetadata(is_figure=True)
    metadata = _read_own_record(texts[OWN_RECORD]) if OWN_RECORD in texts else _read_program(texts, name)
    software = short_name(texts.get("Software", "").partition(" - ")[0])
    return replace(
        metadata,
        program=metadata.program or software * bool(metadata.prompt or metadata.unclear),
        is_sheet=metadata.is_sheet or _is_tiled(metadata, size, texts),
        digital_source_type=read_source(texts.get(XMP_KEY, "")),
    )


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
    if text.lstrip().startswith("{"):
        return _read_json_settings(text)
    with suppress(*UNREADABLE):
        return _read_a1111(text)
    pairs = dict(re.findall(r"^(\w[\w ]{1,40}):[ \t]?(.*)$", text, re.MULTILINE))
    if "prompt" in {name.lower() for name in pairs} and len(pairs) > 1:
        return facts_of_table(pairs, "Easy Diffusion" if "Guidance Scale" in pairs else "")
    return PictureMetadata(prompt=clean_line(text))


def _read_program(texts: Mapping[str, str], name: str) -> PictureMetadata:
    refused = ""
    for keys, read in _PROGRAMS:
        if all(key in texts for key in keys):
            try:
                facts = read(texts, name)
                return _check_against_graph(facts, texts.get("prompt", ""), name) if keys == ("parameters",) else facts
            except InvalidInput:
                raise
            except UNREADABLE:
                refused = refused or keys[0]
    if refused and (texts[refused].lstrip().startswith("{") or "Steps:" in texts[refused]):  # else a person's words
        raise InvalidInput(f"its metadata ({refused}) has an unknown format")
    return _read_usual_names(texts)


def _check_against_graph(facts: PictureMetadata, graph: str, name: str) -> PictureMetadata:
    """Facts without their prompt where ComfyUI's graph in the same picture has another."""
    with suppress(*UNREADABLE):
        prompts = different([facts.prompt, _read_comfy({"prompt": graph}, name).prompt])
        if len({prompt.lower() for prompt in prompts}) > 1:
            return replace(facts, prompt="", unclear=several_prompts(prompts))
    return facts


_PROMPT_ALONE = "text of the key parameters"
_TELLING = re.compile("prompt|seed|sampler|steps|guidance|cfg|workflow|generation", re.IGNORECASE)
_KNOWN_TEXTS = frozenset({XMP_KEY, OWN_RECORD, FIGURE_MARK, "Software", _PROMPT_ALONE})


def _read_usual_names(texts: Mapping[str, str]) -> PictureMetadata:
    """Read an unknown program's texts under the usual names, which may share a prefix; name those that are not read."""
    telling = [key for key in texts if _TELLING.search(key) and key not in _KNOWN_TEXTS]
    prefixes = {key.rpartition(":")[0] for key in telling}
    if len(prefixes) == 1 and len(telling) > 1:
        prefix = prefixes.pop()
        table = {key.removeprefix(f"{prefix}:"): text for key, text in texts.items()
                 if key.rpartition(":")[0] == prefix and key not in _KNOWN_TEXTS}  # fmt: skip
        if (facts := facts_of_table(table, short_name(prefix))).prompt:
            return facts
    if texts.get(_PROMPT_ALONE):
        return PictureMetadata(prompt=clean_line(texts[_PROMPT_ALONE]))
    unread = f"texts of an unknown program ({', '.join(telling[:3])})" if telling else ""
    return PictureMetadata(unread=(short_name(unread),) if unread else ())


def _read_texts(file: BinaryIO) -> tuple[dict[str, str], tuple[int, int]]:
    """Texts and size of a picture, of a PNG also those after its pixels."""
    with open_picture(file) as opened:
        texts, size = _collect_texts(opened), opened.size
        if opened.format == "PNG" and not texts.keys() - {XMP_KEY}:
            texts |= _collect_texts(read_late_texts(file) or opened)
        if "parameters" in opened.info:  # and not in a comment, which may be a person's words
            texts[_PROMPT_ALONE] = texts["parameters"]
    return texts, size


def _collect_texts(opened: Image.Image) -> dict[str, str]:
    """Texts of a picture by key; comments as A1111's ``parameters``, and ComfyUI's two texts under its keys."""
    texts = {_OTHER_KEYS.get(str(key), str(key)): _mend_encoding(value) for key, value in opened.info.items()
             if isinstance(value, str)}  # fmt: skip
    if isinstance(xmp := opened.info.get("xmp"), bytes):  # of JPEG and WebP
        texts[XMP_KEY] = xmp.decode("utf-8", "replace")
    if isinstance(comment := opened.info.get("comment"), bytes) and "comment" not in texts:  # of JPEG and GIF
        texts.setdefault("parameters", _decode(comment.removeprefix(b"parameters\0")))
    if described := _XMP_COMMENT.search(texts.get(XMP_KEY, "")):
        texts.setdefault("parameters", html.unescape(described[1]).strip())
    if "exif" not in opened.info and opened.format != "TIFF":
        return texts
    exif = opened.getexif()
    if isinstance(software := exif.get(ExifTags.Base.Software), str):
        texts.setdefault("Software", _mend_encoding(software).strip("\0 "))
    with suppress(KeyError, ValueError, TypeError, OSError, SyntaxError):  # a damaged part; the rest may be intact
        comment = exif.get(ExifTags.Base.UserComment) or exif.get_ifd(ExifTags.IFD.Exif).get(ExifTags.Base.UserComment)
        comment = comment or exif.get(ExifTags.Base.XPComment)
        text = _decode(comment) if isinstance(comment, bytes) else comment
        if isinstance(text, str) and text.strip("\0 "):
            texts.setdefault("parameters", text.strip("\0 "))
    for tag, value in exif.items():
        key, sign, text = value.partition(":") if isinstance(value, str) else ("", "", "")
        if sign and key.lower() in ("prompt", "workflow"):
            texts.setdefault(key.lower(), text.strip("\0 "))
        elif tag == ExifTags.Base.ImageDescription and isinstance(value, str):
            texts.setdefault("Description", value.strip("\0 "))
    return texts


_XMP_COMMENT = re.compile(r"<exif:UserComment>\s*+(?:<rdf:Alt>\s*+)?(?:<rdf:li[^<>]{0,80}>)?([^<]{2,})<")
_OTHER_KEYS = dict.fromkeys(("Parameters", "UserComment", "exif:UserComment"), "parameters")


def _mend_encoding(text: str) -> str:
    r"""Read UTF-8 or Windows-1252 that was taken for Latin-1; other texts are unchanged.

    >>> _mend_encoding("Ã\x84rztin"), _mend_encoding("Ärztin"), _mend_encoding("a chef\x92s hat")
    ('Ärztin', 'Ärztin', 'a chef’s hat')
    """
    with suppress(UnicodeError):
        return _decode(text.encode("latin-1"))
    return text


_CODE = re.compile(rb"UNICODE\0|ASCII\0{3}|JIS\0{5}|\0{8}")  # the encoding of an EXIF comment; some leave it out


def _decode(data: bytes) -> str:
    """The text in bytes, whose encoding and byte order are often given wrongly or not at all."""
    data = data[code.end() :] if (code := _CODE.match(data)) else data
    if b"\0" in data.strip(b"\0"):  # UTF-16; English text shows its byte order by its zeros
        order = "utf-16-be" if data[0::2].count(0) >= data[1::2].count(0) else "utf-16-le"
        return data.decode(order, "replace").strip("\0\ufeff")
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeError):
            return data.decode(encoding).strip("\0")
    return data.decode("latin-1").strip("\0")  # Windows-1252 leaves five bytes undefined


def _read_own_record(text: str) -> PictureMetadata:
    """The prompt of our own record; the rest follows from the full record, after a check of the pixels."""
    try:
        return PictureMetadata(prompt=clean_line(read_json(text)["row"]["prompt"]))
    except UNREADABLE as error:
        raise InvalidInput("its record cannot be read") from error


def _read_a1111(text: str) -> PictureMetadata:
    """Read A1111's format, also of Forge, SD.Next and many sites: prompt, negative prompt, a line of settings."""
    lines = re.sub("\r\n?", "\n", text).split("\n")
    places = (place for place in reversed(range(len(lines))) if "Steps:" in lines[place])
    tables = ((place, _parse_a1111("\n".join(lines[place : place + 3]))) for place in places)
    place = next((place for place, names in tables if len(_A1111 & set(names)) >= _FEWEST_SETTINGS), len(lines))
    before, *after = "\n".join(lines[place:]).partition("Steps:")
    if before.strip() and not before.rstrip().endswith(","):  # all in one line
        lines[place:] = [*re.split("(?=Negative prompt:)", before), "".join(after)]
        place = len(lines) - 1
    table = _parse_a1111("\n".join(lines[place:]))
    prompt, *negative = re.split(r"(?:^|\n)[ \t]{0,9}[Nn]egative prompt:", "\n".join(lines[:place]))
    is_bare = negative and "Steps:" not in text and not prompt.lower().startswith("prompt:")
    if len(negative) > 1 or not (table or is_bare):
        raise ValueError
    written = {"prompt": prompt, "negative prompt": "".join(negative)}
    if table.get("Version", "").startswith("Fooocus") and "Raw prompt" in table:
        written = {"prompt": table["Raw prompt"], "revised prompt": prompt,
                   "negative prompt": table.get("Raw negative prompt", "")}  # fmt: skip
    resources = {} if "<lora:" in prompt or "Lora hashes" in table else _read_resources(table.get("Civitai resources"))
    hashes = table.get("Hashes", "")
    loras = [name[5:] for name in hashes if isinstance(hashes, dict) and name.lower().startswith("lora:")]
    facts = facts_of_table({"loras": loras, **resources, **table, **written})
    if "Denoising strength" in table and not any(name.startswith("Hires") for name in table):
        facts = replace(facts, further=("a start picture (img2img)", *facts.further))
    is_sheet = bool(re.search("plot|grid|matrix", str(table.get("Script", ""))[:200], re.IGNORECASE))
    unclear = several_prompts(different([facts.prompt]))
    return replace(facts, program=_program(table), is_sheet=is_sheet, unclear=unclear)


_A1111 = frozenset({"Sampler", "CFG scale", "Seed", "Steps", "ENSD", "Schedule type"})
_FEWEST_SETTINGS = 3  # of a line of A1111's


def _parse_a1111(text: str) -> dict[str, Any]:
    r"""Names and values of A1111's settings; a value with a comma is quoted, or is JSON.

    >>> _parse_a1111('Steps: 20, ADetailer prompt: "a \\"male\\" face, detailed", Seed: 1')
    {'Steps': '20', 'ADetailer prompt': 'a "male" face, detailed', 'Seed': '1'}
    """
    table: dict[str, Any] = {}
    start = 0
    while start < len(text):
        name = _UNTIL_SIGN.match(text, start)[0]  # type: ignore[index]
        start += len(name) + 1
        if text[start - 1 : start] != ":":
            continue
        start += text[start : start + 1] == " "
        end = (_QUOTED.match(text, start) or _UNTIL_COMMA.match(text, start)).end()  # type: ignore[union-attr]
        value: Any = text[start:end].strip()
        with suppress(ValueError, RecursionError):
            if value.startswith(('"', "[{", "{")):
                value, end = _JSON.raw_decode(text, start)
        table.setdefault(name.strip(), value)
        start = end
    return table


_UNTIL_SIGN, _UNTIL_COMMA, _QUOTED = (re.compile(sign) for sign in ("[^:,\n]*", "[^,\n]*", r'"(?:[^"\\]|\\.)*"'))
_JSON = json.JSONDecoder(strict=False)


def _read_resources(resources: object) -> dict[str, Any]:
    """The model and LoRAs in a list of what was loaded, of Civitai or TensorArt."""
    table: dict[str, Any] = {}
    for resource in resources if isinstance(resources, list) and isinstance(resources[0], dict) else ():
        kind = str(resource.get("type") or resource.get("air")).lower()
        names = (resource.get(name) for name in ("modelFileName", "modelName", "modelVersionName", "versionName"))
        name = " ".join(filter(None, names)) or f"Civitai {resource.get('modelVersionId')}"
        if re.search("checkpoint|base_model", kind):
            table["model"] = name
        elif re.search("lora|locon|lycoris", kind):
            table.setdefault("loras", []).append({"name": name.replace("/", "-"), "weight": resource.get("weight", 1)})
    return table


def _program(table: Mapping[str, Any]) -> str:
    """The program that wrote A1111's format, if it names itself; A1111's and Forge's versions are numbers."""
    version = str(table.get("Version", "")).strip()
    by_version = ((r"f\d", "Forge"), (r"v?\d", "AUTOMATIC1111"), (r"ComfyUI", "ComfyUI"), (r"[A-Za-z]", version))
    named = next((name for pattern, name in by_version if re.match(pattern, version)), "")
    return short_name(table.get("App")) or short_name(named)


def _read_settings(text: str, name: str = "") -> PictureMetadata:
    return _read_json_settings(text, name) if text.lstrip().startswith("{") else _read_a1111(text)


def _read_json_settings(text: str, name: str = "") -> PictureMetadata:
    """Settings as JSON: SwarmUI, Draw Things, Easy Diffusion, NovelAI, a graph, or others with the usual names."""
    table = read_json(text)
    if "Comment" in table and "Source" in table:
        return _read_novel(table, name)
    if any(isinstance(node, dict) and "class_type" in node for node in table.values()):
        return _read_comfy({"prompt": text}, name)
    if isinstance(swarm := table.get("sui_image_params"), dict):
        hashes = [model.get("hash") for model in table.get("sui_models") or () if model.get("param") == "model"]
        return _read_swarm({"model hash": hashes[:1], **swarm})
    if isinstance(table.get("c"), str) and "uc" in table:  # Draw Things
        extra_settings = {"refiner": (table.get("v2") or {}).get("refinerModel"), "prompt": table["c"]}
        facts = facts_of_table({**table, **extra_settings}, "Draw Things")
        strength = number(table.get("strength")) or 1
        start = [f"a start picture (strength {strength})"] * (0 < strength < 1)
        return replace(facts, further=(*start, *facts.further))
    program = "Easy Diffusion" if "use_stable_diffusion_model" in table else short_name(table.get("software"))
    if str(table.get("version")).startswith("Fooocus"):
        program, full = "Fooocus", table.get("full_prompt", "")
        table["revised prompt"] = ", ".join(map(str, full)) if isinstance(full, list) else full
    facts = facts_of_table({**table, **_read_resources(table.get("models"))}, program)
    if not facts.prompt:
        raise ValueError
    return facts


def _read_swarm(table: Mapping[str, Any]) -> PictureMetadata:
    """SwarmUI's parameters: after the first part of its prompt come parts for segments, regions and the refiner."""
    prompt, *parts = re.split(r"<((?:segment|region|object|refiner|base|video|extend)\b[^<>]{0,200})>",
                              clean_line(table.get("prompt")))  # fmt: skip
    facts = facts_of_table({**table, "prompt": prompt}, "SwarmUI")
    texts = zip(parts[::2], parts[1::2], strict=True)
    further = [f"prompt of <{name[:80]}> “{text.strip()[:200]}”" for name, text in texts if text.strip()]
    return replace(facts, further=(*further, *facts.further))


# A phone writes — for two hyphens.
_SWITCH = re.compile(r"(?:^| )(?:--(?=[A-Za-z])|—(?=(?:ar|v|no|seed|style|stylize|niji|chaos|[qsc]) ))")
_MIDJOURNEYS_SWITCH = re.compile(r" (?:--|—)(?:v|ar|niji) ?\d")


def facts_of_midjourney(text: str) -> PictureMetadata:
    """Read Midjourney's description: prompt, switches, job number.

    >>> facts = facts_of_midjourney("https://s.mj.run/x a doctor --ar 1:1 --no hats --seed 7 --v 6.0 Job ID: 0a-1b")
    >>> facts.prompt, facts.negative_prompt, facts.seed, facts.model, facts.further
    ('a doctor', 'hats', 7, 'Midjourney 6', ('a start or reference picture (image prompt)',))
    """
    words = clean_line(text.partition("Job ID:")[0])
    prompt, *switches = _SWITCH.split(words)
    parameters = {name.lower(): value.strip() for name, _, value in (switch.partition(" ") for switch in switches)}
    pictures = {word for word in prompt.split() if re.match("<?https?://", word)}
    versions = (parameters.get(name) for name in ("niji", "v", "version"))
    version = next(filter(None, versions), "").removesuffix(".0")
    names = ["image prompt"] * bool(pictures) + [name for name in ("sref", "cref", "oref") if name in parameters]
    return PictureMetadata(
        program="Midjourney",
        prompt=" ".join(word for word in prompt.split() if word not in pictures),
        negative_prompt=parameters.get("no", ""),
        seed=whole(parameters.get("seed"), LARGEST_SEED),
        model=short_name(f"Midjourney{' Niji' * ('niji' in parameters)} {version}"),
        further=tuple(f"a start or reference picture ({name})" for name in names),
        loras=tuple(f"profile {parameters[name]}".strip() for name in ("p", "profile") if name in parameters),
    )


def _read_description(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    text = texts["Description"]
    if "Job ID:" in text or _MIDJOURNEYS_SWITCH.search(text):
        return facts_of_midjourney(text)
    if text.startswith("Include in Image:"):  # Mochi Diffusion
        table = dict(re.findall(rf"({_MOCHI}): (.*?)(?:; (?={_MOCHI}:)|$)", clean_line(text)))
        return facts_of_table(table, short_name(table.get("Generator")))
    return _read_a1111(text)


_MOCHI = r"(?:(?:In|Ex)clude \w+ Image|Model|Steps|Guidance Scale|Seed|Size|Scheduler|ML Compute Unit|Generator)"


def _read_comfy(texts: Mapping[str, str], name: str) -> PictureMetadata:
    digest = hashlib.sha256(texts["prompt"].encode("utf-8", "replace")).hexdigest()
    return replace(facts_of_graph(texts["prompt"], name), workflow=digest)


def _read_easy_diffusion(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    return facts_of_table({key: text for key, text in texts.items() if key != XMP_KEY}, "Easy Diffusion")


def _read_invoke(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    """Read InvokeAI's metadata; before version 3, negative prompts are in brackets."""
    if "invokeai_metadata" in texts:
        return facts_of_table(read_json(texts["invokeai_metadata"]), "InvokeAI")
    if "Dream" in texts:
        quoted, arguments = re.match(r'"(.*)"(?= -|$)(.*)', clean_line(texts["Dream"])).groups()  # type: ignore[union-attr]
        quoted = quoted.replace('\\"', '"')
        table = {_DREAM.get(name, name): value for name, value in re.findall(r" -(\w+) (\S+)", arguments)}
    else:
        metadata = read_json(texts["sd-metadata"])
        table = {"model": metadata.get("model_weights"), **metadata["image"]}
        quoted = table["prompt"]
    prompts = [quoted] if isinstance(quoted, str) else [part["prompt"] for part in quoted]
    positive = different(clean_line(re.sub(r"\[[^\[\]]*\]", " ", text)) for text in prompts)
    negative = " ".join(part for text in prompts for part in re.findall(r"\[([^\[\]]*)\]", text))
    written = {"prompt": positive[0] if len(positive) == 1 else "", "negative prompt": negative}
    return replace(facts_of_table({**table, **written}, "InvokeAI"), unclear=several_prompts(positive))


_DREAM = {"A": "sampler", "C": "cfg", "H": "height", "W": "width", "s": "steps", "S": "seed", "I": "init_image"}


def _read_novel(texts: Mapping[str, str], _name: str) -> PictureMetadata:
    """Read NovelAI's metadata, in which the description is the prompt."""
    table, source = read_json(texts["Comment"]), short_name(texts["Source"])
    model, digest = re.fullmatch(r"(.+?)(?: ([A-Z0-9]+))?", source).groups()  # type: ignore[union-attr]
    basic_facts = {"prompt": texts["Description"], "model": model, "model hash": digest}
    return facts_of_table({**table, **basic_facts}, "NovelAI")


_Read = Callable[[Mapping[str, str], str], PictureMetadata]
_PROGRAMS: tuple[tuple[tuple[str, ...], _Read], ...] = (
    (("generation_data",), lambda texts, name: _read_json_settings(texts["generation_data"], name)),  # of TensorArt
    (("parameters",), lambda texts, name: _read_settings(texts["parameters"], name)),
    *((("prompt", key), _read_easy_diffusion) for key in ("use_stable_diffusion_model", "num_inference_steps")),
    (("prompt",), _read_comfy),
    *(((key,), _read_invoke) for key in ("invokeai_metadata", "sd-metadata", "Dream")),
    (("Comment", "Description", "Source"), _read_novel),
    (("Description",), _read_description),
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


def find_sidecars(pictures: Sequence[str], files: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text file next to each picture that has one, and the pictures of further such texts."""
    file_names, sidecars, seconds = set(files), dict[str, str](), dict[str, str]()
    for picture in pictures:
        bases = PurePosixPath(picture).with_suffix("").as_posix(), picture
        texts = [base + ending for ending in _TEXT_ENDINGS for base in bases if base + ending in file_names]
        if texts:
            sidecars[picture], *further = texts
            seconds |= dict.fromkeys(further, picture)
    return sidecars, {text: picture for text, picture in seconds.items() if text not in sidecars.values()}


def facts_of_sidecar(data: bytes) -> PictureMetadata:
    """Read the text file of a picture. Raises InvalidInput: it is no text, or in an unknown format."""
    try:
        facts = facts_of_text(decode_text("it", data))
    except InvalidInput:
        raise
    except UNREADABLE as error:
        raise InvalidInput("has an unknown format") from error
    return facts if any(map(str.isalpha, facts.prompt)) else PictureMetadata()


def facts_of_part(data: bytes) -> dict[str, PictureMetadata]:
    """Facts by file name, from the JSON of a part of DiffusionDB or a list of objects; {} for other files."""
    with suppress(*UNREADABLE):
        table = read_json(data)
        if isinstance(table, list):
            rows = [(next((row[name] for name in _NAMES if row.get(name)), ""), row) for row in table]
        else:
            rows = [(name, {_PART[key]: line[key] for key in _PART if key in line}) for name, line in table.items()]
        return {str(name): facts for name, row in rows if name and (facts := _read_facts(row)).prompt}
    return {}


def facts_of_parquet(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, PictureMetadata]]:
    """File names and facts from the rows of a table with a column of prompts (imagefolder's, DiffusionDB's).

    Raises InvalidInput: it cannot be read, is too large, or lacks a column; this may come after some of them.
    """
    for row in rows:
        column = next((name for name in _NAMES if name in row), "")
        if not column or not {"prompt", "text", "caption"} & set(row):
            raise InvalidInput(
                "needs the columns file_name and one of prompt, text, caption; pictures inside a table are not read: "
                "save them as files"
            )
        if row[column] and (facts := _read_facts(row)).prompt:
            yield str(row[column]), facts


def _read_facts(line: Mapping[str, Any]) -> PictureMetadata:
    text = next((candidate for name in ("prompt", "text", "caption") if (candidate := clean_line(line.get(name)))), "")
    sampler = line.get("sampler")
    line = {**line, "sampler": _SAMPLERS.get(sampler, "") if isinstance(sampler, int) else sampler}
    return metadata_of_line(line).fill_unknown_facts(PictureMetadata(prompt=text))


FEWEST_WORDS = 3  # of a file name that counts as a prompt
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_MIDJOURNEY = re.compile(rf"[^_\s]+_([^\s]+)_{_UUID}(?:_\d+)?", re.IGNORECASE)  # user, prompt and switches, job
_DATE = r"\d{4}-\d\d-\d\d(?:[ T_-]+(?:at )?\d\d[.:_-]?\d\d(?:[.:_-]?\d\d)?)?"
_OF_PROGRAMS = (
    ("DALL·E", re.compile(rf"DALL.?E[ _]+{_DATE}[ _]*-[ _]*(.*)")),
    ("Adobe Firefly", re.compile(r"Firefly[ _](.*?)[ _]\d+")),
    ("Leonardo", re.compile(rf"(?:Default|Leonardo)_(.*?)_\d+(?:_{_UUID})?(?:_\d+)?")),
)
_BEFORE = re.compile(
    rf"^(?:{_DATE}|\d{{8}}(?=\D)|0\d{{2,}}(?=[-_])(?:-\d+(?=-))?|\d{{5,}}(?=[-_])|\d{{3,}}(?=_[^_]* ))[\s_-]*"
)
_AFTER = re.compile(
    rf"(?:\(\d+\)|\[\d+\]|#\d+|(?<=[_-])\d+|{_DATE}|{_UUID}|(?<=[\s_-])(?=[a-z]*\d)[0-9a-f]{{8,}})$", re.IGNORECASE
)
_NUMBER_AFTER_WORDS = re.compile(r"(?<=[\s_-])(\d{1,9})$")
_BETWEEN = " \t_-"
_NO_PROMPT = re.compile(
    r"(?:ChatGPT Image|Gemini[ _]Generated[ _]Image|Copilot[ _]\d|Screen ?shot|WhatsApp Image|OIG\d?[.-]).*"
    r"|(?:copy of )?"
    r"(?:IMG|DSC|PXL|ComfyUI|SwarmUI|image|picture|photo|download|untitled|unnamed|output|sample|file)[\W\d_]*",
    re.IGNORECASE,
)
_FOLDERS = re.compile(
    r"(?:txt2img|img2img|extras)[-_ ](?:images|grids)|(?:generated|output|sample|result)?[-_ ]?(?:images?|pictures?"
    r"|pics|photos?|samples?|results?|outputs?|files?|imgs?)|generated|train|test|val(?:idation)?|raw|local|main|downloads?"
    r"|data(?:set)?|default|all|new|tmp|temp|final|png|jpe?g|webp|untitled folder|new folder.*",
    re.IGNORECASE,
)
_SHEET = re.compile(r"(?:xyz_|txt2img_|img2img_)?grid(?:-\d{4,}(?:-.*)?)?")  # AUTOMATIC1111's, GenEval's
_EARLIER = re.compile(r"(.{1,250}?)-(?:before-[a-z-]{1,50}|ad-before|ad-preview[-\d]*|init-image|mask|mask-composite)")


def find_numbered(names: Iterable[str]) -> frozenset[str]:
    """Return the words after which the names have numbers that run, such as 0, 1, 2, and thus count pictures.

    >>> find_numbered(["a cook 1.png", "a cook 2.png", "a cook aged 25.png", "a cook aged 65.png"])
    frozenset({'a cook'})
    """
    numbers: dict[str, set[int]] = {}
    for words in (texts := [facts_of_name(name).prompt for name in names]):
        if found := _NUMBER_AFTER_WORDS.search(words):
            numbers.setdefault(words[: found.start()].rstrip(_BETWEEN), set()).add(int(found[1]))
    for words in numbers.keys() & {*texts}:  # the first one has no number
        numbers[words].add(1)
    begun = {
        words: word_numbers for words, word_numbers in numbers.items() if min(word_numbers) <= 1 < len(word_numbers)
    }
    return frozenset(
        words
        for words, word_numbers in begun.items()
        if min(word_numbers) + 1 in word_numbers or max(word_numbers) < 2 * len(word_numbers)
    )


@lru_cache(maxsize=20_000)
def facts_of_name(name: str, numbered: frozenset[str] = frozenset()) -> PictureMetadata:
    """Return the facts in a file's name: words, the program, Midjourney's switches, settings at its end.

    A number after words counts pictures if these are ``numbered``: see :func:`find_numbered`.

    >>> facts = facts_of_name("a photo of a doctor_s42_cfg7 sd15_003.png")
    >>> facts.prompt, facts.seed, facts.guidance_scale, facts.model
    ('a photo of a doctor', 42, 7.0, 'sd15')
    """
    stem = PurePosixPath(name).stem
    if found := _MIDJOURNEY.fullmatch(stem):
        return facts_of_midjourney(found[1].replace("_", " "))
    for program, pattern in _OF_PROGRAMS:
        if found := pattern.fullmatch(stem):
            return PictureMetadata(program=program, prompt=_read_words(found[1])[0])
    words, marks = _read_words(stem, numbered)
    return facts_of_table({"prompt": words} | marks)


def names_as_prompts(name: str, wrapper: str, numbered: frozenset[str] = frozenset()) -> tuple[str, str]:
    """Return the words of a picture's folder and of its name; "" where these are numbers, or names of programs.

    Folders of a model, a seed or another setting lie between the folder of a prompt and its pictures.

    >>> names = ("a photo of a doctor/3.png", "x/00012-123-a_nurse-7.png", "DALL·E 2023-10-12 10.41.55 - A cook.png")
    >>> [names_as_prompts(name, "x") for name in (*names, "00000-1234.png", "2026-11-22/a cook-3.png")]
    [('a photo of a doctor', ''), ('', 'a nurse'), ('', 'A cook'), ('', ''), ('', 'a cook')]
    >>> names_as_prompts("a photo of a doctor/sd15/seed0/3.png", "")
    ('a photo of a doctor', '')
    """
    folders, parent = list[str](), PurePosixPath(name).parent
    while parent.as_posix() not in {".", wrapper} and not _FOLDERS.fullmatch(parent.name):
        folders += [] if is_setting(parent.name) else [clean_line(parent.name.replace("_", " "))]
        parent = parent.parent
    folder = next(filter(reads_like_a_prompt, folders), (folders or [""])[0])
    return folder, facts_of_name(name, numbered).prompt


def is_setting(folder: str) -> bool:
    """Return true if a folder is named after a number, a model or another setting, and not after what it shows.

    >>> [is_setting(name) for name in ("seed0", "sd15", "without LoRA", "guidance 3", "cond=fair", "nurse")]
    [True, True, True, True, True, False]
    """
    return is_model_name(folder) or bool(_CONDITION.fullmatch(folder)) or not _read_words(folder)[0]


_CONDITION = re.compile(
    r"(?:(?i:with|without|no)[\s_-]+)?(?:LoRA|lora|LORA|LoRa)s?(?:[\s_:=-].*)?|\w+=[^\s/]*|(?i:baseline|(?:de|un)?biased"
    r"|fair|original|control|treatment|vanilla|fine-?tuned|before|after)"
)


def find_folders(name: str, prompt: str, wrapper: str) -> tuple[str, ...]:
    """Return the folders of a picture that say more of it than its prompt, its number, its seed or its model."""
    path = PurePosixPath(name).parent
    parts = (path.relative_to(wrapper) if wrapper and path.is_relative_to(wrapper) else path).parts
    other_parts = [part for part in parts if clean_line(part.replace("_", " ")) != prompt and not is_model_name(part)]
    return tuple(part for part in other_parts if (read := _read_words(part))[0] or read[1].keys() - {"seed"})


def reads_like_a_prompt(text: str) -> bool:
    """Return true for at least three words, or as much in a script that writes none between spaces.

    >>> [reads_like_a_prompt(text) for text in ("a photo of a doctor", "doctor", "एक लड़का बाहर", "医生的照片")]
    [True, False, True, True]
    """
    return len(text.split()) >= FEWEST_WORDS or len(_UNSPACED.findall(text)) >= _FEWEST_UNSPACED


def find_doubt(text: str, stem: str = "") -> str:
    """Return a reason to doubt that a name has a whole prompt and nothing else; "" for none.

    ``stem`` is the whole name of a file, without its ending.

    >>> find_doubt("2 doctors in"), find_doubt("a photo of a phone s23"), find_doubt("a photo of a doctor")
    ('which seems to be cut off', 'in which “s23” may be a setting or a model', '')
    >>> find_doubt("a doctor aged 65", "a doctor aged 65"), find_doubt("a doctor aged 65", "a doctor aged 65_3")
    ('in which “65” may count pictures', '')
    """
    first, *_, last = words = (text or ".").split() * 2
    for word in (last, first, " ".join(words[-2:])):
        is_model = word is last and is_model_name(word) and word.lower() not in _ALSO_WORDS
        if is_model or _MARK.fullmatch(word) or (word is last and _SHORT_MARK.fullmatch(word)):
            return f"in which “{word[:80]}” may be a setting or a model"
    if (last_words := _cut_inside(stem)[1]) and text.endswith(clean_line(last_words.replace("_", " "))):
        return f"in which “{last_words[:80]}” may be a setting or a model"
    if last[-1].isdecimal() and stem.endswith(last):
        return f"in which “{last[:80]}” may count pictures"
    return "which seems to be cut off" if _CUT_OFF.fullmatch(last) else ""


_ALSO_WORDS = frozenset(("playground", "firefly", "if", "imagen"))  # names of models
_CUT_OFF = re.compile("an?|the|of|in|on|at|with|and|or|for|to|by|from|as|who|that|is|are", re.IGNORECASE)
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_FEWEST_UNSPACED = 4
_MODEL_NAME = re.compile(
    r"(?:(?:stable[-_ ]?diffusion|sdxl|sd|flux|kandinsky|pixart|dall[-_ ·]?e|dalle|midjourney|mj|imagen|if|kolors|qwen"
    r"|hunyuan(?:dit)?|playground|wuerstchen|lcm|sana|cogview|auraflow|lumina|z[-_]?image|gpt[-_ ]?image|firefly"
    r"|ideogram|janus|omnigen)(?:[-_ .]?(?:v?\d[\w.]*+|xl|turbo|base|dev|schnell|pro|mini|medium|large|lightning|sigma"
    r"|alpha))*+)",
    re.IGNORECASE,
)


def is_model_name(text: str) -> bool:
    """Return true if a folder's name is that of a model that draws.

    >>> [is_model_name(text) for text in ("sd15", "sdxl-turbo", "FLUX.1-dev", "stable-diffusion-v1-5", "a photo")]
    [True, True, True, True, False]
    """
    return bool(_MODEL_NAME.fullmatch(text.strip()))


def model_key(model: str) -> str:
    """Normalise the name of a model: equal for names that differ only in case, or in folder and ending of its file.

    >>> model_key("models/SD15.safetensors"), model_key("org/sd15")
    ('sd15', 'org/sd15')
    """
    found = _MODEL_FILE.fullmatch(model)
    return (found[1] if found else model).casefold()


_MODEL_FILE = re.compile(r"(?:.*[/\\])?([^/\\]+)\.(?:safetensors|ckpt|pt|bin|gguf)", re.IGNORECASE)


def model_folder(name: str) -> str:
    """Return the nearest folder of a picture that is named after a model; "" if none is."""
    return next((part for part in reversed(PurePosixPath(name).parts[:-1]) if is_model_name(part)), "")


@lru_cache(maxsize=20_000)
def _read_words(text: str, numbered: frozenset[str] = frozenset()) -> tuple[str, dict[str, str]]:
    """Return a name's words without dates, numbers and ids, and the settings in it; "" if no words remain."""
    marks, before, is_counted = dict[str, str](), "", False
    while text != before and not _NO_PROMPT.fullmatch(text):
        before, text = text, _BEFORE.sub("", text).rstrip(_BETWEEN)
        text, settings = _cut_settings(text)
        marks = settings | marks
        if not settings and (shorter_text := _cut_number(text, frozenset() if is_counted else numbered)) != text:
            text, is_counted = shorter_text, True
    text, _, seed = _cut_inside(text)
    is_prompt = any(map(str.isalpha, text)) and not _NO_PROMPT.fullmatch(text)
    return clean_line(text.replace("_", " ")) if is_prompt else "", marks | seed


def _cut_number(text: str, numbered: frozenset[str]) -> str:
    """Return a name without the number, date or id at its end, unless this may be a part of its words."""
    if _SHORT_MARK.search(text):
        return text
    if found := _AFTER.search(text):
        before, number = text[: found.start()], found[0]
        is_word = " " not in text and before[-1:] in ("_", "-") and before[-1:] in before[:-1]  # as in aged_65
        if not is_word or number[0] == "0" or len(number) > _MOST_DIGITS:
            return before.rstrip(_BETWEEN)
    found = _NUMBER_AFTER_WORDS.search(text)
    before = text[: found.start()].rstrip(_BETWEEN) if found else ""
    return before if found and clean_line(before.replace("_", " ")) in numbered else text


_MOST_DIGITS = 4  # of a number that may be a part of words, such as a year


def _cut_inside(text: str) -> tuple[str, str, dict[str, str]]:
    """Return a name without a seed or number before its last words, these words, and the seed."""
    found = _SEED_INSIDE.search(text)
    if not found or not any(map(str.isalpha, last_words := text[found.end() :])):
        return text, "", {}
    return f"{text[: found.start()]} {last_words}", last_words, {"seed": found[1]} if found[1] else {}


_SEED_INSIDE = re.compile(
    r"(?<=\S)[\s_,-]seed[_=-]?(\d{1,19})[\s_,-]+(?=\S)|(?<=[^\s_])_\d{1,6}_(?=[^\s_]+$)", re.IGNORECASE
)


def _cut_settings(text: str) -> tuple[str, dict[str, str]]:
    """Return a name without the settings at its end; a short one such as “s42” counts only next to a clear one."""
    starts = [match.start() for match in re.finditer(r"[^\s_,;-]+", text)]
    stem, marks, is_clear, n_spaced = text, dict[str, str](), False, 0
    while starts:
        pieces = ((n, stem[starts[-n] :]) for n in range(min(_MOST_PIECES, len(starts)), 0, -1))
        n, found = next(((n, found) for n, piece in pieces if (found := _read_mark(piece))), (0, {}))
        if not n:
            break
        is_spaced = " " in stem[starts[-n] :] and stem[: starts[-n]].endswith(" ")  # as in: a man climbs 20 steps
        n_spaced += is_spaced
        is_clear = is_clear or n_spaced > 1 or not (is_spaced or found.keys() <= _UNCLEAR)
        marks = {("seed" if name == "short" else name): value for name, value in found.items()} | marks
        stem, starts = stem[: starts[-n]].rstrip(_BETWEEN + ",;"), starts[:-n]
    return (stem, marks) if is_clear else (text, {})


_MOST_PIECES = 4  # of one setting, such as stable-diffusion-v1-5
_MARK = re.compile(
    r"seed[\s_=-]*(?P<seed>\d{1,19})|steps?[\s_=-]*(?P<steps>\d{1,4})|(?P<steps_>\d{1,4})[\s_-]?steps?"
    r"|(?:cfg|guidance)[\s_=-]*(?P<cfg>\d{1,2}(?:\.\d{1,2})?)|(?P<size>\d{3,4}x\d{3,4})(?:px)?|s(?P<short>\d{1,19})"
    r"|(?P<sampler>euler(?:[\s_-]a(?:ncestral)?)?|ddim|ddpm|plms|heun|unipc|k?lms|dpm[\w+-]*)",
    re.IGNORECASE,
)
_UNCLEAR = frozenset(("short", "sampler"))
_SHORT_MARK = re.compile(r"(?<![^\W_])[a-z]{1,2}=?\d+(?:\.\d+)?$", re.IGNORECASE)
_CLEAR_MODEL = re.compile(r"(?:\D+v?\d-\d|(?!.*-\d+$)(?=.*\d|sd|stable|dall|midjourney).+)", re.IGNORECASE)


def _read_mark(piece: str) -> dict[str, str]:
    """Return the setting that the end of a name gives; {} if it is none."""
    if found := _MARK.fullmatch(piece):
        return {name.strip("_"): value for name, value in found.groupdict().items() if value}
    is_model = not re.search(r"[\s_]", piece) and is_model_name(piece) and _CLEAR_MODEL.fullmatch(piece)
    return {"model": piece} if is_model else {}


def find_wrapper_folder(names: Sequence[str]) -> str:
    """The one outer folder of a zip if its name is no prompt; "" if none."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    if len(tops) != 1 or any(len(PurePosixPath(name).parts) == 1 for name in names):
        return ""
    top = tops.pop()
    inner = {name: PurePosixPath(name).parts[1:-1] for name in names}
    directly = [name for name in names if all(map(is_setting, inner[name]))] if reads_like_a_prompt(top) else []
    directly = directly or [name for name in names if not inner[name]]
    return top if all(len(facts_of_name(name).prompt.split()) >= FEWEST_WORDS for name in directly) else ""


def is_sheet_name(name: str) -> bool:
    """Return true if a file's name says that it is a sheet of several pictures."""
    return bool(_SHEET.fullmatch(PurePosixPath(name).stem))


def finished_stem(name: str) -> str:
    """The name, without ending, of the finished picture of a draft; "" for other files.

    >>> finished_stem("a/00000-70-before-highres-fix.png")
    'a/00000-70'
    """
    found = _EARLIER.fullmatch(PurePosixPath(name).stem)
    return PurePosixPath(name).with_name(found[1]).as_posix() if found else ""
