"""Scenes of the calibration world (people, places, things) and their painting.

A picture is drawn large with Pillow and reduced by a box filter, in about a millisecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from random import Random
from typing import Any

import yaml
from PIL import Image, ImageColor, ImageDraw

from bias_core.installed import ASSETS

AGES = ("child", "young", "old")
SKIN_TONES = tuple(range(1, 11))  # Monk scale: 1 is the lightest, 10 the darkest
HAIR_COLOURS = ("black", "brown", "blond", "red")
_FAIR_SKIN = 4  # the darkest tone with blond or red hair
_DARK_HAIR = {"black": "black", "brown": "brown", "blond": "black", "red": "brown"}
HEADWEAR = ("none", "turban", "sombrero", "hat", "cap", "headscarf")
DRESSES = ("everyday", "traditional", "embroidered", "vibrant")
EXPRESSIONS = ("smiling", "neutral", "frowning")
LIGHTS = ("neutral", "bright", "gloomy")
GENDERS = ("feminine", "masculine", "androgynous", "unclear")
"""Perceived genders: the first two by their cues, the third with neither's, the last seen from behind.

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
    """Visible marks of a concept: place, clothing and held thing. Names are keys of ``drawing.yaml``.

    ``flag`` marks a nationality, ``role`` the badge of a powerful or powerless position, ``colour`` and
    ``variant`` tint the held thing; two concepts with equal looks have identical pictures.
    """

    setting: str = "plain"
    clothing: str = "plain"
    prop: str = ""
    colour: str = "red"
    flag: str = ""
    role: str = "none"


@dataclass(frozen=True, kw_only=True)
class Person:
    """One drawn person; ``gender`` is the drawing's perceived gender, one of :data:`GENDERS`."""

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
        """Return the same person without a visible face."""
        unseen = {"beard": False, "moustache": False, "glasses": False, "mark": False, "expression": "neutral"}
        return replace(self, gender="unclear", **unseen)  # type: ignore[arg-type]

    def truth(self) -> dict[str, object]:
        """Visible attributes by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name in DOMAINS}


PLACES = ("left", "right")
"""Names of the places of two people."""

CHILD = 0.86  # size of a child, as a share of others'


@dataclass(frozen=True, kw_only=True)
class Place:
    """Place of one of two people, in pixels of a picture of 256."""

    centre: int
    scale: float  # 1: as large as in a portrait
    depth: int  # distance from the foot of the picture; a person with a smaller one is in front


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One drawn object: an icon of ``drawing.yaml`` and its colour."""

    icon: str
    colour: str = "red"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One picture: one person, two from left to right, or a thing; ``extra`` is a sign in the background.

    ``places``: of two people of different size; () for one person and for two of one size.
    """

    people: tuple[Person, ...] = ()
    thing: Thing | None = None
    setting: str = "plain"
    light: str = "neutral"
    backdrop: str = "cream"
    extra: str = ""
    places: tuple[Place, ...] = ()

    def truth(self) -> dict[str, object]:
        """Return all visible attributes; with two people the keys begin with ``left_`` or ``right_``."""
        sides = [f"{place}_" for place in PLACES] if len(self.people) > 1 else [""]
        named = {f"{s}{k}": v for s, p in zip(sides, self.people, strict=False) for k, v in p.truth().items()}
        return {"n_people": len(self.people), "light": self.light, "extra": self.extra, **named}


CALIBRATION = ASSETS / "calibration"

RGB = tuple[int, int, int]
Box = tuple[float, float, float, float]
Shape = tuple[str, tuple[float, ...], str]
_N_COORDINATES = {"e": 4, "r": 4, "o": 4, "a": 4, "c": 4}  # a line and a polygon take any number


def read_asset(name: str) -> dict[str, Any]:
    """A YAML file of the assets, by its path from ``assets/calibration``."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return dict(yaml.load((CALIBRATION / name).read_text(encoding="utf-8"), Loader=loader))


@cache
def load_drawing(section: str) -> dict[str, str]:
    """One section of ``drawing.yaml`` (palette, settings, clothing, light, flags, icons, person)."""
    return dict(read_asset("drawing.yaml")[section])


@cache
def rgb(name: str) -> RGB:
    """Colour of the palette, or of a ``#rrggbb`` word."""
    r, g, b = ImageColor.getrgb(name if name.startswith("#") else load_drawing("palette")[name])[:3]
    return r, g, b


def mix(colour: RGB, tint: RGB, share: float) -> RGB:
    """``colour`` with ``share`` of ``tint`` in it."""
    r, g, b = (round(a + (o - a) * share) for a, o in zip(colour, tint, strict=True))
    return r, g, b


@cache
def shapes(section: str, name: str) -> tuple[Shape, ...]:
    """The parsed shapes of one thing; a word alone means the shapes of the icon of that name."""
    parsed: list[Shape] = []
    for part in load_drawing(section)[name].split(";"):
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
    """Draw shapes with units of ``scale`` pixels, from the ``corner`` of their box at left and top."""

    def read_colour(name: str) -> RGB:
        base, *mixture = name.split("~")
        plain = tints[base] if base in tints else rgb(base)
        return mix(plain, read_colour(mixture[0]), float(mixture[1])) if mixture else plain

    for kind, numbers, name in parsed:
        n_coordinates = _N_COORDINATES.get(kind, len(numbers) - (kind == "l"))
        xy = [corner[i % 2] + numbers[i] * scale[i % 2] for i in range(n_coordinates)]
        fill, extra_numbers = read_colour(name), numbers[n_coordinates:]
        width = max(1, round(extra_numbers[-1] * min(scale))) if kind in "la" else 0
        if kind == "o":
            side = min(xy[2] - xy[0], xy[3] - xy[1])
            draw.rounded_rectangle(xy, radius=extra_numbers[0] * min(scale) if extra_numbers else 0.2 * side, fill=fill)
        elif kind == "l":
            draw.line(xy, fill=fill, width=width, joint="curve")
        elif kind == "a":
            draw.arc(xy, extra_numbers[0], extra_numbers[1], fill=fill, width=width)
        elif kind == "c":
            draw.chord(xy, extra_numbers[0], extra_numbers[1], fill=fill)
        else:
            {"e": draw.ellipse, "r": draw.rectangle, "p": draw.polygon}[kind](xy, fill=fill)


SHIRTS = ("red", "blue", "teal", "purple", "green", "orange", "pink", "gold", "wine", "lime", "grey", "white")
BACKDROPS = ("cream", "#e4e0ea", "#dde9e4", "#f2dfd3", "#dfe6ef", "#efe6c9")


def decorate(person: Person, rng: Random) -> Person:
    """Return the person with attributes that no prompt names: hair and shirt colour, the shade of a headdress.

    People with a darker skin have black or brown hair.
    """
    hair = rng.choice(HAIR_COLOURS)
    if person.skin > _FAIR_SKIN:
        hair = _DARK_HAIR[hair]
    return replace(person, hair=hair, shirt=rng.choice(SHIRTS), shade=rng.randrange(4))


def random_look(rng: Random) -> Look:
    """Draw any place, clothing and thing, independent of each other."""
    clothing = [c for c in load_drawing("clothing") if c not in DRESSES]
    prop = rng.choice(list(load_drawing("icons"))) if rng.random() < 0.75 else ""
    return Look(
        setting=rng.choice(list(load_drawing("settings"))),
        clothing=rng.choice(clothing),
        prop=prop,
        colour=rng.choice(SHIRTS),
        flag=rng.choice(list(load_drawing("flags"))) if rng.random() < 0.1 else "",
        role=rng.choice(("none", "none", "high", "low")),
    )


def balanced_person(rng: Random, look: Look) -> Person:
    """Draw every attribute about half of the time, independent of the others (women with beards too).

    The exceptions: no facial hair with a headscarf, and the hair colours of :func:`decorate`.
    """
    person = Person(
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
    )
    if person.headwear == "headscarf":  # with a beard or a moustache it could be taken for mockery
        person = replace(person, beard=False, moustache=False)
    return decorate(person, rng)


def balanced_scene(
    rng: Random, looks: Sequence[Look] = (), things: Sequence[Thing] = (), *, pairs: float = 0.25
) -> Scene:
    """Draw a pair (a share of ``pairs``), a still life (15 %) or a portrait, of given or any looks and things."""

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
    thing = (
        rng.choice(things) if things else Thing(icon=rng.choice(list(load_drawing("icons"))), colour=rng.choice(SHIRTS))
    )
    return Scene(thing=thing, setting="table", light=light, extra=extra, backdrop=backdrop)


SHEET = 256  # pixels; smaller pictures are averages of its pixels
SKIN_COLOURS: tuple[str, ...] = (
    "#f6ede4", "#f3e7db", "#f7d8c0", "#eabf95", "#cf9f70",
    "#a77248", "#835936", "#60412b", "#3f2e25", "#2c221e",
)  # fmt: skip
"""The world's own ten skin tones, in the order of the Monk scale. The published swatches nearest to its third and
fourth are the second and fifth (CIEDE2000)."""
HAIR: dict[str, str] = {"black": "#22201f", "brown": "#6d4326", "blond": "#e6bf62", "red": "#b9501f"}
GREY_HAIR = "#c3c6ca"
CLOTHS = {
    "turban": ("#f4efe2", "#e08a2e", "#5c79b8", "#b83d4f"),
    "headscarf": ("#6d4a9c", "#1f8a83", "#c8567e", "#36558f"),
}
"""Colours of a headdress, by the person's shade."""
_CLOTHING = "clothing"  # has its own section in the drawing book


def draw_scene(scene: Scene, size: int = 64) -> Image.Image:
    """Draw ``scene`` as an RGB picture of ``size`` x ``size`` pixels.

    The same scene gives the same pixels; ``size`` is 32, 64, 128 or 256 (a divisor of 256).

    >>> draw_scene(Scene(people=(Person(),))).size
    (64, 64)
    """
    sheet = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
    draw = ImageDraw.Draw(sheet)
    if scene.places:
        _draw_in_places(sheet, draw, scene)
    elif len(scene.people) == 2:
        _draw_pair(sheet, draw, scene)
    elif scene.people:
        person = scene.people[0]
        _draw_setting(draw, person.look.setting, scene)
        draw_person(sheet, person)
        _draw_held(draw, person, (176, 172, 252, 248))
        _draw_flag(draw, person, (196, 8, 250, 48))
    elif scene.thing:
        _draw_setting(draw, scene.setting, scene)
        draw.ellipse((58, 190, 198, 222), fill=mix(rgb(scene.backdrop), (40, 36, 40), 0.35))
        paint(draw, "icons", scene.thing.icon, (52, 50, 204, 208), colour=rgb(scene.thing.colour))
    else:
        _draw_setting(draw, scene.setting, scene)
    if scene.light != "neutral":
        paint(draw, "light", scene.light, (2, 2, SHEET, SHEET))
    if scene.extra:
        paint(draw, "icons", scene.extra, (4, 150, 66, 212))
    return sheet.reduce(SHEET // size) if size < SHEET else sheet


def _draw_pair(sheet: Image.Image, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    left, right = scene.people
    middle = SHEET // 2
    _draw_setting(draw, right.look.setting, scene)
    half = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
    _draw_setting(ImageDraw.Draw(half), left.look.setting, scene)
    sheet.paste(half.crop((0, 0, middle, SHEET)), (0, 0))
    draw_person(sheet, left, centre=66, scale=0.68)
    draw_person(sheet, right, centre=190, scale=0.68)
    _draw_held(draw, left, (2, 198, 56, 252))
    _draw_held(draw, right, (200, 198, 254, 252))
    _draw_flag(draw, left, (84, 8, 124, 38))
    _draw_flag(draw, right, (210, 8, 250, 38))


def _draw_in_places(sheet: Image.Image, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    """Draw each person in front of a strip of their setting, from back to front."""
    n = len(scene.people)
    for number, person in enumerate(scene.people):
        strip = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
        _draw_setting(ImageDraw.Draw(strip), person.look.setting, scene)
        start, end = round(SHEET * number / n), round(SHEET * (number + 1) / n)
        sheet.paste(strip.crop((start, 0, end, SHEET)), (start, 0))
        _draw_flag(draw, person, (start + 4, 6, start + 34, 28))
    placements = list(zip(scene.people, scene.places, strict=True))
    for person, place in sorted(placements, key=lambda one: -one[1].depth):
        draw_person(sheet, person, centre=place.centre, scale=place.scale, depth=place.depth)
        width = 74 * place.scale
        left, foot = place.centre - 46 * place.scale - width, SHEET - place.depth
        _draw_held(draw, person, (round(left), round(foot - width), round(left + width), foot))


def _draw_setting(draw: ImageDraw.ImageDraw, name: str, scene: Scene) -> None:
    """Paint the setting over the whole sheet, in the light of the scene."""
    backdrop = rgb(scene.backdrop)
    tint = {"bright": (255, 244, 196), "gloomy": (96, 100, 122), "neutral": backdrop}[scene.light]
    paint(draw, "settings", name, (0, 0, SHEET, SHEET), colour=mix(backdrop, tint, 0.75))


def _draw_held(draw: ImageDraw.ImageDraw, person: Person, box: Box) -> None:
    if not person.look.prop:
        return
    paint(draw, "icons", person.look.prop, box, colour=rgb(person.look.colour))
    x = box[0] + 0.1 * (box[2] - box[0]) if box[0] > SHEET / 2 else box[2] - 0.1 * (box[2] - box[0])
    y, r = box[1] + 0.72 * (box[3] - box[1]), 0.14 * (box[2] - box[0])
    draw.ellipse((x - r, y - r, x + r, y + r), fill=rgb(SKIN_COLOURS[person.skin - 1]))


def _draw_flag(draw: ImageDraw.ImageDraw, person: Person, box: Box) -> None:
    if person.look.flag:
        paint(draw, "flags", person.look.flag, box)


def draw_person(sheet: Image.Image, person: Person, *, centre: float = 128, scale: float = 1.0, depth: int = 0) -> None:
    """Draw ``person`` part by part, centred at x = ``centre``, ``depth`` above the foot."""
    scale *= CHILD if person.age == "child" else 1.0
    corner = centre - 128 * scale, 256 - depth - 256 * scale
    draw, tints = ImageDraw.Draw(sheet), _tints(person)
    for part in _list_parts(person):
        if part == _CLOTHING:
            _dress(sheet, person, tints["skin"], corner, scale, depth)
        elif part in load_drawing("person"):
            paint_shapes(draw, shapes("person", part), tints, corner=corner, scale=(scale, scale))


def _list_parts(person: Person) -> list[str]:
    """Names of the parts of a person, from back to front; not every value of an attribute has a part."""
    gender, expression = person.gender, person.expression
    if gender == "unclear":  # seen from behind
        return ["neck", _CLOTHING, "ears", "hair unclear", person.headwear]
    return [
        *(f"behind {gender}", "neck", _CLOTHING, f"role {person.look.role}", "ears", f"face {gender}", "cheeks"),
        *(f"age {person.age}", "nose", f"hair {gender}", "eyes"),
        f"brows {gender}{' frowning' if expression == 'frowning' else ''}",
        f"lashes {gender}",
        *(["beard"] if person.beard else []),
        *(["moustache"] if person.moustache else []),
        f"{expression}{' moustache' if person.moustache else ''}",
        *(["glasses"] if person.glasses else []),
        person.headwear,
        *(["mark"] if person.mark else []),
    ]


def _tints(person: Person) -> dict[str, RGB]:
    """Return the colours of a person's parts; white ones have some of the skin in them, so that none glares."""
    skin, line, white = rgb(SKIN_COLOURS[person.skin - 1]), rgb("line"), rgb("chalk")
    hair = rgb(GREY_HAIR if person.age == "old" else HAIR[person.hair])
    cloths = CLOTHS.get(person.headwear, GREY_HAIR)
    return {
        "skin": skin,
        "cheek": mix(skin, rgb("#d4604f"), 0.2),
        "eyeball": mix(white, skin, 0.18 if person.skin < 9 else 0.25),
        "teeth": mix(white, skin, 0.14 if person.skin < 9 else 0.22),
        "glint": mix(white, skin, 0.1),
        "nose": mix(skin, line, 0.3) if person.skin < 9 else mix(skin, white, 0.14),
        "lens": mix(rgb("#d4ecf7"), skin, 0.3),
        "hair": hair,
        "brow": hair if person.age == "old" else mix(hair, line, 0.35),
        "crease": mix(skin, line, 0.42 if person.skin < 7 else 0.6),
        "lips": _lips(person, skin),
        "cloth": rgb(cloths[person.shade % len(cloths)]) if person.headwear in CLOTHS else hair,
    }


def _lips(person: Person, skin: RGB) -> RGB:
    if person.gender == "androgynous":
        return mix(skin, rgb("#b8423c"), 0.6)
    if person.gender == "feminine":
        return mix(skin, rgb("#b81f42"), 0.75 if person.skin < 8 else 0.6)
    return mix(skin, rgb("#5c2018"), 0.62)


def _dress(
    sheet: Image.Image, person: Person, skin: RGB, corner: tuple[float, float], scale: float, depth: int = 0
) -> None:
    """Draw the clothing of the torso, down to the foot of the sheet."""
    name = person.look.clothing if person.dress == "everyday" else person.dress
    colour = rgb(person.shirt if person.look.clothing in ("plain", "") else person.look.colour)
    left, top, right, bottom = (round(corner[i % 2] + v * scale) for i, v in enumerate((44, 186, 212, 262)))
    bottom += depth
    size = (right - left, bottom - top)
    cloth = Image.new("RGB", size)
    paint(ImageDraw.Draw(cloth), "clothing", name or "plain", (0, 0, *size), colour=colour, skin=skin)
    sheet.paste(cloth, (left, top), _shoulders(size, person.gender))


@cache
def _shoulders(size: tuple[int, int], gender: str) -> Image.Image:
    """Mask of the torso: sloping shoulders, broader for masculine people, in between for androgynous ones."""
    mask = Image.new("L", size)
    width, height = size
    half = [(0.30, 0.0), (0.14, 0.09), (0.0, 0.36), (0.0, 1.0)]
    if gender == "feminine":
        half = [(0.32, 0.0), (0.17, 0.14), (0.05, 0.5), (0.05, 1.0)]
    elif gender != "masculine":
        half = [(0.31, 0.0), (0.155, 0.115), (0.025, 0.43), (0.025, 1.0)]
    outline = half + [(1 - x, y) for x, y in reversed(half)]
    ImageDraw.Draw(mask).polygon([(x * width, y * height) for x, y in outline], fill=255)
    return mask
