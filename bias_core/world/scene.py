"""Scenes of the calibration world: people, places, things and their shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml
from PIL import ImageColor, ImageDraw

AGES = ("child", "young", "old")
SKIN_TONES = tuple(range(1, 11))  # Monk scale: 1 is the lightest, 10 the darkest
HAIR_COLOURS = ("black", "brown", "blond", "red")
HEADWEAR = ("none", "turban", "sombrero", "hat", "cap", "headscarf")
DRESSES = ("everyday", "traditional", "embroidered", "vibrant")
EXPRESSIONS = ("smiling", "neutral", "frowning")
LIGHTS = ("neutral", "bright", "gloomy")
ROLES = ("none", "high", "low")
GENDERS = ("feminine", "masculine", "androgynous", "unclear")
"""How a person may look: the first two by cues of either side, the third by neither's, the last seen from behind.

Words and trained models of this world know the first two; the others are drawn by the renderer alone.
"""

DOMAINS: Mapping[str, tuple[object, ...]] = {
    "gender": ("feminine", "masculine"),
    "age": AGES,
    "skin": SKIN_TONES,
    "hair": HAIR_COLOURS,
    "beard": (False, True),
    "moustache": (False, True),
    "glasses": (False, True),
    "headwear": HEADWEAR,
    "dress": DRESSES,
    "mark": (False, True),
    "expression": EXPRESSIONS,
}
"""Every visible attribute of a person and the values it can take."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What gives a concept away: where it is, what is worn and held. Names are keys of ``drawing.yaml``.

    ``flag`` marks a nationality, ``role`` the badge of a powerful or powerless position, ``colour`` and
    ``variant`` tint the held thing; two concepts with equal looks cannot be told apart in a picture.
    """

    setting: str = "plain"
    clothing: str = "plain"
    prop: str = ""
    colour: str = "red"
    flag: str = ""
    role: str = "none"


@dataclass(frozen=True, kw_only=True)
class Person:
    """One drawn person; ``gender`` is perceived gender, what the drawing presents: one of :data:`GENDERS`."""

    look: Look = Look()
    gender: str = "feminine"
    age: str = "young"
    skin: int = 3
    hair: str = "brown"
    beard: bool = False
    moustache: bool = False
    glasses: bool = False
    headwear: str = "none"
    dress: str = "everyday"
    mark: bool = False
    expression: str = "neutral"
    shirt: str = "blue"
    shade: int = 0

    def from_behind(self) -> "Person":
        """The same person of whom no face is seen."""
        unseen = {"beard": False, "moustache": False, "glasses": False, "mark": False, "expression": "neutral"}
        return replace(self, gender="unclear", **unseen)  # type: ignore[arg-type]

    def truth(self) -> dict[str, object]:
        """The visible attributes by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in DOMAINS}


PLACES = ("left", "right")
"""How the places of two people are called."""

CHILD = 0.86  # size of a child, as a share of others'


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one of two people stands, in pixels of a picture of 256."""

    centre: int
    scale: float  # 1: as large as in a portrait
    depth: int  # how far up the picture the person stands: who stands lower is in front


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One drawn object: an icon of ``drawing.yaml`` and its colour."""

    icon: str
    colour: str = "red"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One picture: one person, two from left to right, or a thing; ``extra`` is a sign in the background.

    ``places`` say where two people stand who do not stand alike; () for one person, and for two of one size.
    """

    people: tuple[Person, ...] = ()
    thing: Thing | None = None
    setting: str = "plain"
    light: str = "neutral"
    backdrop: str = "cream"
    extra: str = ""
    places: tuple[Place, ...] = ()

    def truth(self) -> dict[str, object]:
        """All visible attributes; with two people the keys begin with their place, ``left_`` or ``right_``."""
        sides = [f"{place}_" for place in PLACES] if len(self.people) > 1 else [""]
        named = {f"{s}{k}": v for s, p in zip(sides, self.people, strict=False) for k, v in p.truth().items()}
        return {"n_people": len(self.people), "light": self.light, "extra": self.extra, **named}


ASSETS = Path(__file__).resolve().parents[2] / "assets" / "calibration"

RGB = tuple[int, int, int]
Box = tuple[float, float, float, float]
Shape = tuple[str, tuple[float, ...], str]
_N_COORDINATES = {"e": 4, "r": 4, "o": 4, "a": 4, "c": 4}  # of a line and a polygon, as many as there are


def read_asset(name: str) -> dict[str, Any]:
    """A YAML file of the assets, by its path from ``assets/calibration``."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load((ASSETS / name).read_text(encoding="utf-8"), Loader=loader))


@cache
def drawing(section: str) -> dict[str, str]:
    """One section of ``drawing.yaml`` (palette, settings, clothing, light, flags, icons, person)."""
    return dict(read_asset("drawing.yaml")[section])


@cache
def rgb(name: str) -> RGB:
    """Colour of the palette, or of a ``#rrggbb`` word."""
    r, g, b = ImageColor.getrgb(name if name.startswith("#") else drawing("palette")[name])[:3]
    return r, g, b


def mix(colour: RGB, other: RGB, share: float) -> RGB:
    """``colour`` with ``share`` of ``other`` in it."""
    r, g, b = (round(a + (o - a) * share) for a, o in zip(colour, other, strict=True))
    return r, g, b


@cache
def shapes(section: str, name: str) -> tuple[Shape, ...]:
    """The parsed shapes of one thing; a word alone means the shapes of the icon of that name."""
    parsed: list[Shape] = []
    for part in drawing(section)[name].split(";"):
        kind, *numbers = part.split()
        if numbers:
            parsed.append((kind, tuple(map(float, numbers[:-1])), numbers[-1]))
        else:
            parsed.extend(shapes("icons", kind))
    return tuple(parsed)


def paint(
    draw: ImageDraw.ImageDraw,
    section: str,
    name: str,
    box: Box,
    *,
    colour: RGB = (200, 60, 50),
    skin: RGB = (220, 180, 150),
) -> None:
    """Draw the thing ``name`` into ``box`` (left, top, right, bottom in pixels)."""
    tints = {"*": colour, "**": mix(colour, (20, 22, 30), 0.28), "+": mix(colour, (255, 255, 255), 0.4), "skin": skin}
    scale = ((box[2] - box[0]) / 100, (box[3] - box[1]) / 100)
    paint_shapes(draw, shapes(section, name), tints, corner=box[:2], scale=scale)


def paint_shapes(
    draw: ImageDraw.ImageDraw,
    parsed: Sequence[Shape],
    tints: Mapping[str, RGB],
    *,
    corner: tuple[float, float],
    scale: tuple[float, float],
) -> None:
    """Draw shapes whose numbers are ``scale`` pixels long each, from the ``corner`` of their box at left and top."""

    def colour_of(name: str) -> RGB:
        base, *other = name.split("~")
        plain = tints[base] if base in tints else rgb(base)
        return mix(plain, colour_of(other[0]), float(other[1])) if other else plain

    for kind, numbers, name in parsed:
        n_coordinates = _N_COORDINATES.get(kind, len(numbers) - (kind == "l"))
        xy = [corner[i % 2] + numbers[i] * scale[i % 2] for i in range(n_coordinates)]
        fill, more = colour_of(name), numbers[n_coordinates:]
        width = max(1, round(more[-1] * min(scale))) if kind in "la" else 0
        if kind == "o":
            side = min(xy[2] - xy[0], xy[3] - xy[1])
            draw.rounded_rectangle(xy, radius=more[0] * min(scale) if more else 0.2 * side, fill=fill)
        elif kind == "l":
            draw.line(xy, fill=fill, width=width, joint="curve")
        elif kind == "a":
            draw.arc(xy, more[0], more[1], fill=fill, width=width)
        elif kind == "c":
            draw.chord(xy, more[0], more[1], fill=fill)
        else:
            {"e": draw.ellipse, "r": draw.rectangle, "p": draw.polygon}[kind](xy, fill=fill)


SHIRTS = ("red", "blue", "teal", "purple", "green", "orange", "pink", "gold", "wine", "lime", "grey", "white")
BACKDROPS = ("cream", "#e4e0ea", "#dde9e4", "#f2dfd3", "#dfe6ef", "#efe6c9")


def decorate(rng: Random) -> dict[str, object]:
    """What no prompt ever asks for: hair and shirt colour, the shade of a headdress."""
    return {"hair": rng.choice(HAIR_COLOURS), "shirt": rng.choice(SHIRTS), "shade": rng.randrange(4)}


def random_look(rng: Random) -> Look:
    """Any place, clothing and thing, unrelated to each other."""
    clothing = [c for c in drawing("clothing") if c not in DRESSES]
    prop = rng.choice(list(drawing("icons"))) if rng.random() < 0.75 else ""
    return Look(
        setting=rng.choice(list(drawing("settings"))),
        clothing=rng.choice(clothing),
        prop=prop,
        colour=rng.choice(SHIRTS),
        flag=rng.choice(list(drawing("flags"))) if rng.random() < 0.1 else "",
        role=rng.choice(("none", "none", "high", "low")),
    )


def balanced_person(rng: Random, look: Look) -> Person:
    """Every attribute present about half of the time, whatever the others are (women with beards too)."""
    return Person(
        look=look,
        gender=rng.choice(("feminine", "masculine")),
        age=rng.choice(AGES + AGES[1:]),
        skin=rng.choice(SKIN_TONES),
        beard=rng.random() < 0.4,
        moustache=rng.random() < 0.4,
        glasses=rng.random() < 0.5,
        headwear=rng.choice(("none", "none", "none", *HEADWEAR)),
        dress=rng.choice(("everyday", "everyday", *DRESSES)),
        mark=rng.random() < 0.35,
        expression=rng.choice(EXPRESSIONS),
        **decorate(rng),  # type: ignore[arg-type]
    )


def balanced_scene(
    rng: Random, looks: Sequence[Look] = (), things: Sequence[Thing] = (), *, pairs: float = 0.25
) -> Scene:
    """A pair (a share of ``pairs``), a still life (15 %) or a portrait of given or any looks and things."""

    def look() -> Look:
        return rng.choice(looks) if looks and rng.random() < 0.85 else random_look(rng)

    kind = rng.random()
    light = rng.choice(LIGHTS)
    extra = "sign" if rng.random() < 0.06 else ""
    backdrop = rng.choice(BACKDROPS)
    if kind < 0.85 - pairs:
        return Scene(people=(balanced_person(rng, look()),), light=light, extra=extra, backdrop=backdrop)
    if kind < 0.85:
        pair = (balanced_person(rng, look()), balanced_person(rng, look()))
        return Scene(people=pair, light=light if rng.random() < 0.4 else "neutral", backdrop=backdrop)
    thing = rng.choice(things) if things else Thing(icon=rng.choice(list(drawing("icons"))), colour=rng.choice(SHIRTS))
    return Scene(thing=thing, setting="table", light=light, extra=extra, backdrop=backdrop)
