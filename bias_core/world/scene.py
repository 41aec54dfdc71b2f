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
