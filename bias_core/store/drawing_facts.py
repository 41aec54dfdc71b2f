"""Facts about an imported picture's drawing, and readers for their values in other programs' metadata."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from bias_core.errors import InvalidInput
from bias_core.values import read_json
from bias_core.wording import shorten

T = TypeVar("T")

LARGEST_SEED = 2**63 - 1  # of a table
MOST_STEPS = 10_000
LARGEST_SIDE = 100_000
LONGEST_NAME = 300  # of a model or sampler
_MOST_FURTHER = 12  # further texts and pictures of one picture
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and half characters
_EXTRA_NETWORK = re.compile(r"<((?:lora|lyco|hypernet):[^<>]+)>")  # networks to load; no encoder reads them


@dataclass(frozen=True, kw_only=True)
class PictureMetadata:
    """Known settings of an imported picture; None or "" for unknown ones."""

    program: str = ""  # program that drew it
    prompt: str = ""
    unclear: str = ""  # reason for a missing prompt, despite metadata
    negative_prompt: str = ""
    seed: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    sampler: str = ""
    model: str = ""
    model_hash: str = field(default="", compare=False)  # first digits of a digest of its file
    # width, height: requested pixels; another program may have enlarged the picture afterwards
    width: int | None = None
    height: int | None = None
    revised_prompt: str = ""  # the prompt after the program's changes (styles, expansion)
    further: tuple[str, ...] = ()  # all other texts and pictures that shaped it, such as: Hires prompt “a man”
    digital_source_type: str = ""  # digital source type of its IPTC metadata
    is_figure: bool = False  # a figure of a report of ours
    is_sheet: bool = False  # several pictures in one
    is_blanked: bool = False  # a safety checker blurred or blanked it
    workflow: str = field(default="", compare=False)  # digest of the executed graph, which may save several stages

    loras: tuple[str, ...] = ()  # and other networks that change the model, each "name" or "name:weight"
    unread: tuple[str, ...] = ()  # metadata that is there and was not read, such as: a hidden text

    @property
    def way(self) -> str:
        """Return what tells ways of drawing apart: model, LoRAs, a start picture; "" if none is known."""
        start = ["a start picture"] if any("start picture" in text for text in self.further) else []
        return " + ".join(filter(None, [self.model, *self.loras, *start]))

    def fill_unknown_facts(self, source: "PictureMetadata") -> "PictureMetadata":
        values = ((f.name, getattr(self, f.name), getattr(source, f.name)) for f in fields(self))
        return replace(
            self, **{name: theirs if fact is False or fact in (None, "", ()) else fact for name, fact, theirs in values}
        )

    def record(self) -> dict[str, Any]:
        """Known facts that the store keeps next to the row: program, model, sampler and so on."""
        names = ("program", "model", "sampler", "seed", "width", "height", "revised_prompt", "digital_source_type")
        values = ((name, getattr(self, name)) for name in (*names, "further", "loras"))
        return {name: list(value) if isinstance(value, tuple) else value
                for name, value in values if value not in (None, "", ())}  # fmt: skip


_COLUMNS = {
    "prompt": ("prompt", "positiveprompt", "text", "caption", "includeinimage"),
    "negative": ("negativeprompt", "negative", "uc", "excludefromimage"),
    "seed": ("seed",),
    "steps": ("numinferencesteps", "steps", "step"),
    "guidance": ("guidancescale", "cfgscale", "cfg", "guidance", "scale"),
    "distilled": ("distilledcfgscale", "fluxguidancescale", "guidance"),
    "sampler": ("samplername", "sampler"),
    "schedule": ("scheduler", "scheduletype"),
    "model": (
        "usestablediffusionmodel", "stablediffusionmodel", "model", "basemodelname", "basemodel", "modelhash", "models",
    ),
    "hash": ("modelhash", "basemodelhash", "hashes", "model", "basemodel"),
    "revised": ("revisedprompt",),
    "width": ("width",),
    "height": ("height",),
    "size": ("size", "resolution"),
}  # fmt: skip
"""Names that programs give to a fact, without case, spaces and lines."""


def facts_of_table(table: Mapping[str, Any], program: str = "") -> PictureMetadata:
    """Read the facts from a table of names and values, under any of the usual names.

    >>> facts = facts_of_table({"Prompt": "a doctor", "cfgscale": "7", "Refiner prompt": "a man"}, "X")
    >>> facts.prompt, facts.guidance_scale, facts.further
    ('a doctor', 7.0, ('Refiner prompt “a man”',))
    """
    short = {_normalise_name(name): value[0] if isinstance(value, list) and len(value) == 1 else value
             for name, value in table.items()}  # fmt: skip

    def first(fact: str, read: Callable[[Any], T | None]) -> T | None:
        return next((value for name in _COLUMNS[fact] if (value := read(short.get(name))) not in (None, "")), None)

    text = first("prompt", clean_line) or ""
    prompt = without_networks(text)
    negative, cfg = first("negative", clean_line) or "", first("guidance", guidance)
    revised = first("revised", clean_line) or ""
    width, height = (first(side, lambda value: whole(value, LARGEST_SIDE)) for side in ("width", "height"))
    if not width or not height:
        width, height = first("size", lambda value: size_of_text(value) if value else None) or (None, None)
    return PictureMetadata(
        program=program,
        prompt=prompt,
        negative_prompt="" if cfg == 1 else negative,  # guidance 1 ignores it
        seed=first("seed", lambda value: whole(value, LARGEST_SEED)),
        num_inference_steps=first("steps", lambda value: whole(value, MOST_STEPS)),
        guidance_scale=choose_guidance(cfg, first("distilled", guidance)),
        sampler=with_schedule(first("sampler", short_name) or "", first("schedule", short_name) or ""),
        model=first("model", _read_name) or "",
        model_hash=first("hash", short_hash) or "",
        loras=find_loras(table, [text]),
        width=width,
        height=height,
        revised_prompt="" if revised == prompt else revised[:10_000],
        further=find_further_texts(table, but={prompt, text, negative, revised}),
        is_blanked=any(
            (number(value) or 0) >= 2 or str(value).lower() in ("true", "[true]")
            for name, value in short.items()
            if _BLANKED.search(name)
        ),
    )


def is_fact_name(name: str) -> bool:
    """Return true if :func:`facts_of_table` reads values of this name.

    >>> is_fact_name("CFG scale"), is_fact_name("rating")
    (True, False)
    """
    plain = _normalise_name(name)
    is_known = any(plain in names for names in (*_COLUMNS.values(), _WEIGHTS))
    return bool(is_known or _LORA.fullmatch(plain) or _BLANKED.search(plain))


_BLANKED = re.compile("imagensfw|nsfwcontentdetected|hasnsfwconcept")  # DiffusionDB has 2 for a blurred picture
_FURTHER = re.compile("prompt|caption", re.IGNORECASE)
_NEVER_DRAWN = re.compile("^(prompt$|wildcard|original|template|raw|unprocessed|full_prompt)|parser", re.IGNORECASE)
_PICTURE = re.compile(
    "initimage|initialimage|sourceimage|refimage|referenceimage|referenceinformation|inputimage|controlimage|styleimage"
    "|promptimage|imageprompt|maskimage|inpaintmask|maskblur|controlnet|controlmode|ipadapter|t2iadapter"
    "|promptstrength|^controls$"
)
_FROM_A_PICTURE = re.compile(r"img2img|image2image|inpaint|outpaint|infill", re.IGNORECASE)
_NOTHING = frozenset({"", "none", "false", "0", "[]", "{}", "null"})


def find_further_texts(table: Mapping[str, Any], *, but: Iterable[str] = ()) -> tuple[str, ...]:
    """All prompts and captions of a table ``but`` these, and all pictures that it names."""
    notes, known = [], {clean_line(text) for text in but}
    for name, value in _leaves(table):
        plain, text = _normalise_name(name), clean_line(value) if isinstance(value, str) else ""
        is_text = _FURTHER.search(name) and not _NEVER_DRAWN.search(name) and number(text) is None
        if is_text and text and text not in known:
            notes.append(f"{name} {quote_excerpt(text)}")
        elif (_PICTURE.search(plain) and str(value).strip().lower() not in _NOTHING) or (
            plain in ("generationmode", "requesttype", "mode", "type", "workflow") and _FROM_A_PICTURE.search(text[:40])
        ):
            notes.append(f"a start or reference picture ({short_name(name)})")
    return tuple(dict.fromkeys(notes))[:_MOST_FURTHER]


def _leaves(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Flatten a nested table to names and values; a list of texts is one text."""
    if isinstance(value, Mapping) and value and depth < 8:  # no program nests deeper
        if name and _PICTURE.search(_normalise_name(name)):
            yield name, "given"
        for key, inner in value.items():
            side = "negative " if "negative" in name and "negative" not in str(key).lower() else ""
            yield from _leaves(inner, side + str(key), depth + 1)
    elif isinstance(value, list) and value and not all(isinstance(text, str) for text in value) and depth < 8:
        for inner in value:
            yield from _leaves(inner, name, depth + 1)
    else:
        yield name, ", ".join(value) if isinstance(value, list) else value


def _normalise_name(name: object) -> str:
    return re.sub(r"[\s_-]", "", str(name).lower())


def quote_excerpt(text: str) -> str:
    """A text in quotation marks, shortened at its end."""
    return f"“{shorten(text, 200)}”"


def without_networks(text: str) -> str:
    """A prompt on one line, without the networks that it loads."""
    plain, n_networks = _EXTRA_NETWORK.subn("", text)
    return clean_line(plain).strip(" ," if n_networks else None)


def find_loras(table: Mapping[str, Any], prompts: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the LoRAs and similar networks that prompts load, or that a table names under any usual name.

    >>> find_loras({"loras": ["fair"], "loraweights": ["0.8"]}, ["a doctor <lora:old:0.5>"])
    ('old:0.5', 'fair:0.8')
    >>> find_loras({"lora_1": {"on": False, "lora": "a"}, "lora_2": {"on": True, "lora": "b.pt", "strength": 1}})
    ('b:1',)
    """
    found = [tuple(name.split(":", 2)[1:]) for text in prompts for name in _EXTRA_NETWORK.findall(text)]
    short = {re.sub(r"^lora(\d\d?)(\D+)$", r"lora\2\1", _normalise_name(name)): value for name, value in table.items()}
    n_loras = 99 if (n := whole(short.get("loracount", short.get("numloras")), 99)) is None else n  # others are hidden
    weights = _WEIGHTS[::-1] if "advanced" in (short.get("mode"), short.get("inputmode")) else _WEIGHTS
    for name, value in short.items() if str(short.get("toggle")).lower() not in _OFF else ():
        match = _LORA.fullmatch(name) if "weights" not in name or ":" in str(value) else None
        if match and int(match[1] or 0) <= n_loras and str(short.get(f"switch{match[1]}")).lower() not in _OFF:
            weight = next((short[key + match[1]] for key in weights if key + match[1] in short), "")
            found += _parse_loras(value, "" if name.startswith("refiner") else weight)
    loras: dict[str, str] = {}
    for name, *weight in found:
        name = re.sub(r"\.(?:safetensors|ckpt|pt|bin)$", "", clean_line(name).rpartition("/")[2].rpartition("\\")[2])
        if name and name.lower() != "none" and number(strength := "".join(weight[:1]).strip() or "1") != 0:
            plain = f"{weight_number:g}" if (weight_number := number(strength)) is not None else strength
            strength = f":{plain[:40]}" if weight and weight[0] else ""
            loras[name[:LONGEST_NAME]] = loras.get(name[:LONGEST_NAME]) or strength
    return tuple(name + strength for name, strength in loras.items())[:_MOST_FURTHER]


_LORA = re.compile(
    r"(?:(?:use)?(?:lora|lyco|lycoris|hypernet(?:work)?)s?(?:name|model|hashes|weights|networks|combined|modelname)?|refiner(?:model)?"
    r"|hirescheckpoint|l(?=\d))(\d{0,2})"
)
_WEIGHTS = (
    "loraweights", "loraweight", "loraalpha", "lorastrength", "loramodelstrength", "strengthmodel", "modelweight",
    "lorawt", "modelstr", "hypernetstrength", "hypernetworkstrength", "strength", "w",
)  # fmt: skip
_WEIGHT = re.compile(r"-?\d{0,3}\.?\d{1,6}")  # else a hash
_OFF = frozenset({"off", "false"})


def _parse_loras(value: Any, weight: Any) -> list[tuple[str, ...]]:
    """The names and weights in a value: a name, "name: weight" or "name: hash", a table, or a list of such."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        with suppress(InvalidInput, ValueError, RecursionError):
            value = read_json(value)
    if isinstance(value, Mapping):
        if "__value__" in value:
            return _parse_loras(value["__value__"], weight)
        given = next((value[key] for key in ("strength", "weight", "strength_model", "multiplier") if key in value), "")
        is_off = any(str(value.get(key)).lower() in _OFF for key in ("on", "enabled", "is_enabled", "active"))
        return [] if is_off else [(_read_name(value), str(given))]
    if isinstance(value, list):
        texts = [part for part in value if isinstance(part, str)]
        strengths = [part for part in value if not isinstance(part, str) and number(part) is not None]
        if texts and len(strengths) == 1 and len(value) in (2, 3):  # [enabled,] name, weight[, hash]
            return [] if value[0] is False else [(texts[0], str(strengths[0]))]
        weights = weight if isinstance(weight, list) else [weight] * len(value)
        return [
            pair for part, part_weight in zip(value, weights, strict=False) for pair in _parse_loras(part, part_weight)
        ]
    if not isinstance(value, str):
        return []
    pairs = [part.rpartition(":") if ":" in part else (part, "", str(weight)) for part in value.split(",")]
    weights = [last if _WEIGHT.fullmatch(last.strip()) else "" for _, _, last in pairs]
    return [(name.partition(": ")[0].strip(), last) for (name, *_), last in zip(pairs, weights, strict=True)]


def _read_name(value: object) -> str:
    """The name of a model or network, which some programs write as a table."""
    if not isinstance(value, Mapping):
        return short_name(value)
    names = ("lora", "lora_name", "model", "model_name", "name", "file", "modelName", "modelFileName", "key")
    return next((name for key in names if (name := _read_name(value.get(key)))), "")


def short_hash(value: object) -> str:
    """Return the first digits of a model's hash, also from a table that has it; "" for other values.

    >>> short_hash("0x6CE0161689B3"), short_hash({"name": "x", "hash": "blake3:0a1b2c3d4e5f"}), short_hash("sd15")
    ('6ce0161689', '0a1b2c3d4e', '')
    """
    if isinstance(value, Mapping):
        return next((digits for key in ("hash", "model_hash", "model") if (digits := short_hash(value.get(key)))), "")
    match = _HASH.fullmatch(value.strip()) if isinstance(value, str) else None
    return match[1].lower() if match else ""


_HASH = re.compile(r"(?:\w{1,20}:|0x)?([0-9a-f]{8,10})[0-9a-f]{0,118}", re.IGNORECASE)


def with_schedule(name: str, schedule: str) -> str:
    """A sampler's name with its schedule, if that is separate."""
    repeats = not schedule or schedule.lower() in name.lower() or schedule.lower() == "automatic"
    return name if repeats else f"{name} {schedule}".strip()


def several_prompts(prompts: list[str]) -> str:
    """The reason that several prompts, or none, do not give the picture's prompt; "" for one."""
    if len(prompts) > 1:
        shown = "; ".join(f"“{text[:80]}”" for text in prompts[:3])
        return f"{len(prompts)} prompts are in its workflow ({shown})"
    return "" if prompts else "no prompt was found in its metadata"


def different(texts: Iterable[str]) -> list[str]:
    """Distinct texts without empty ones."""
    return list(dict.fromkeys(filter(None, texts)))


def agreed(values: Iterable[T | None]) -> T | None:
    """The common value; None if values differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def clean_line(value: object) -> str:
    """A text with single spaces and without invalid characters; "" for other values."""
    return " ".join(_UNWRITABLE.sub(" ", value).split()) if isinstance(value, str) else ""


def short_name(value: object) -> str:
    """A name of usual length; "" for a word that stands for none."""
    return "" if (name := clean_line(value)[:LONGEST_NAME]).lower() in ("none", "null", "undefined") else name


def number(value: object) -> float | None:
    """A finite number, also from text; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        return result if math.isfinite(result := float(value)) else None
    return None


def whole(value: object, limit: int) -> int | None:
    """A whole number from 0 to ``limit``, with every digit of a seed; else None."""
    if (as_float := number(value)) is None or not as_float.is_integer():
        return None
    result = int(as_float)
    with suppress(ValueError):  # "20.0"
        result = int(value)  # type: ignore[call-overload]
    return result if 0 <= result <= limit else None


def guidance(value: object) -> float | None:
    scale = number(value)
    return scale if scale is not None and 0 <= scale <= 1000 else None


def choose_guidance(cfg: float | None, distilled: float | None) -> float | None:
    """The guidance scale; of models distilled with guidance (FLUX), whose cfg is 1, their own."""
    return distilled if cfg is None or (cfg <= 1 and distilled is not None) else cfg


def size_of_text(text: object) -> tuple[int | None, int | None]:
    """Read width and height from "512x768" or "(1152, 896)"."""
    sides = re.fullmatch(r"\D{0,9}(\d{1,6})\D{1,9}(\d{1,6})\D{0,9}", str(text)[:40])
    width, height = (whole(side, LARGEST_SIDE) for side in sides.groups()) if sides else (None, None)
    return (width, height) if width and height else (None, None)
