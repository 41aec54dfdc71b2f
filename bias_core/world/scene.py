"""What a picture of the calibration world shows: people or a thing, a place and a light."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

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


PLACES: Mapping[int, tuple[str, ...]] = {
    1: ("",),
    2: ("left", "right"),
    3: ("left", "middle", "right"),
    4: ("left", "left of the middle", "right of the middle", "right"),
    5: ("left", "left of the middle", "middle", "right of the middle", "right"),
}
"""How the places of so many people are called, from left to right."""
HEAD_TO_FOOT = (44, 0, 212, 256)
"""A person's box on a sheet of their own, with room for hats and shoulders, as the reader learned to see people."""

CHILD = 0.86  # size of a child, as a share of others'
GRID = 1 / 64  # sizes of several people are multiples of it, so that they stay sharp in pictures of 128 pixels


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one of several people stands, in pixels of a picture of 256; ``act``: "acting", "served" or ""."""

    centre: int
    scale: float  # 1: as large as in a portrait
    depth: int  # how far up the picture the person stands: who stands lower is in front
    act: str = ""

    def box(self, age: str = "young") -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the person, inside the picture."""
        scale = self.scale * (CHILD if age == "child" else 1.0)
        left, top, right, bottom = HEAD_TO_FOOT
        corner = self.centre - 128 * scale, 256 - self.depth - 256 * scale
        x0, y0, x1 = corner[0] + left * scale, corner[1] + top * scale, corner[0] + right * scale
        return max(0, round(x0)), max(0, round(y0)), min(256, round(x1)), round(corner[1] + bottom * scale)


@dataclass(frozen=True, kw_only=True)
class Thing:
    """One drawn object: an icon of ``drawing.yaml`` and its colour."""

    icon: str
    colour: str = "red"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One picture: up to five people from left to right, or a thing; ``extra`` is a sign in the background.

    ``places`` say where people stand who do not all stand alike; () for one person, and for two of one size.
    """

    people: tuple[Person, ...] = ()
    thing: Thing | None = None
    setting: str = "plain"
    light: str = "neutral"
    backdrop: str = "cream"
    extra: str = ""
    places: tuple[Place, ...] = ()

    def truth(self) -> dict[str, object]:
        """All visible attributes; with several people the keys begin with their place, ``left_`` and so on.

        Of people who do not all stand alike, their boxes (in pixels of 256) and acts belong to it.
        """
        sides = [f"{place}_" if place else "" for place in PLACES[max(1, len(self.people))]]
        named = {f"{s}{k}": v for s, p in zip(sides, self.people, strict=False) for k, v in p.truth().items()}
        for side, place, person in zip(sides, self.places, self.people, strict=False):
            named |= {f"{side}box": list(place.box(person.age)), f"{side}act": place.act}
        return {"n_people": len(self.people), "light": self.light, "extra": self.extra, **named}
