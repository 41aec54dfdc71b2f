"""One person of the calibration world, drawn feature by feature on a 256 x 256 sheet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from bias_core.world.shapes import RGB, Box, mix, paint, rgb

if TYPE_CHECKING:
    from bias_core.world.scene import Person

MONK: tuple[str, ...] = (
    "#f6ede4", "#f3e7db", "#f7d8c0", "#eabf95", "#cf9f70",
    "#a77248", "#835936", "#60412b", "#3f2e25", "#2c221e",
)  # fmt: skip
HAIR: dict[str, str] = {"black": "#22201f", "brown": "#6d4326", "blond": "#e6bf62", "red": "#b9501f"}
GREY_HAIR = "#c3c6ca"
BEARD = (
    78, 116, 92, 134, 104, 144, 152, 144, 164, 134, 178, 116, 178, 148, 158, 182, 128, 192, 98, 182, 78, 148,
)  # fmt: skip
MOUSTACHE = (128, 128, 108, 130, 92, 146, 112, 144, 128, 140, 144, 144, 164, 146, 148, 130)
INK: RGB = (35, 34, 40)
WHITE: RGB = (252, 252, 250)


class Pen:
    """Draws in a person's own 256 x 256 coordinates, scaled and moved on the sheet."""

    def __init__(self, sheet: Image.Image, *, centre: float, scale: float) -> None:
        self.sheet = sheet
        self.draw = ImageDraw.Draw(sheet)
        self.scale = scale
        self.left = centre - 128 * scale
        self.top = 256 - 256 * scale

    def at(self, numbers: Sequence[float]) -> list[float]:
        """Sheet coordinates of x, y, x, y, ..."""
        return [(self.top if i % 2 else self.left) + v * self.scale for i, v in enumerate(numbers)]

    def box(self, *numbers: float) -> Box:
        """Sheet coordinates of one box."""
        x0, y0, x1, y1 = self.at(numbers)
        return x0, y0, x1, y1

    def ellipse(self, *numbers: float, fill: RGB) -> None:
        """An ellipse in the box x0, y0, x1, y1."""
        self.draw.ellipse(self.at(numbers), fill=fill)

    def slab(self, *numbers: float, radius: float, fill: RGB) -> None:
        """A rounded rectangle."""
        self.draw.rounded_rectangle(self.at(numbers), radius=radius * self.scale, fill=fill)

    def polygon(self, *numbers: float, fill: RGB) -> None:
        """A polygon through x, y, x, y, ..."""
        self.draw.polygon(self.at(numbers), fill=fill)

    def line(self, *numbers: float, width: float, fill: RGB) -> None:
        """A line through x, y, x, y, ..."""
        self.draw.line(self.at(numbers), fill=fill, width=max(1, round(width * self.scale)), joint="curve")

    def arc(self, *numbers: float, start: float, end: float, width: float, fill: RGB) -> None:
        """An arc of the ellipse in a box, in degrees."""
        self.draw.arc(self.at(numbers), start, end, fill=fill, width=max(1, round(width * self.scale)))

    def chord(self, *numbers: float, start: float, end: float, fill: RGB) -> None:
        """A slice of the ellipse in a box, in degrees."""
        self.draw.chord(self.at(numbers), start, end, fill=fill)


def draw_person(sheet: Image.Image, person: Person, *, centre: float = 128, scale: float = 1.0) -> None:
    """Draw ``person`` with the middle of the body at x = ``centre``."""
    pen = Pen(sheet, centre=centre, scale=scale * (0.86 if person.age == "child" else 1.0))
    skin = rgb(MONK[person.skin - 1])
    hair = rgb(GREY_HAIR if person.age == "old" else HAIR[person.hair])
    _hair_behind(pen, person, hair)
    _body(pen, person, skin)
    _head(pen, person, skin)
    _hair_in_front(pen, person, hair)
    _eyes(pen, person, hair)
    _facial_hair(pen, person, hair)
    _mouth(pen, person, skin)
    if person.glasses:
        _glasses(pen)
    if person.headwear != "none":
        HEADWEAR_DRAWN[person.headwear](pen, person)
    if person.mark:  # between the brows, where no brim hides it
        pen.ellipse(118, 76, 138, 98, fill=rgb("#c8141e"))


def _hair_behind(pen: Pen, person: Person, hair: RGB) -> None:
    if person.gender == "feminine":
        pen.slab(64, 34, 192, 206, radius=60, fill=mix(hair, INK, 0.18))


def _body(pen: Pen, person: Person, skin: RGB) -> None:
    name = person.look.clothing if person.dress == "everyday" else person.dress
    colour = rgb(person.shirt if person.look.clothing in ("plain", "") else person.look.colour)
    pen.slab(108, 140, 148, 208, radius=16, fill=mix(skin, INK, 0.16))
    left, top, right, bottom = (round(v) for v in pen.box(44, 186, 212, 262))
    size = (right - left, bottom - top)
    cloth = Image.new("RGB", size)
    paint(ImageDraw.Draw(cloth), "clothing", name or "plain", (0, 0, *size), colour=colour, skin=skin)
    pen.sheet.paste(cloth, (left, top), _shoulders(size, person.gender))
    if person.look.role == "high":
        pen.polygon(*[v for p in _star(84, 228, 20) for v in p], fill=rgb("gold"))
    elif person.look.role == "low":
        pen.slab(68, 210, 102, 248, radius=4, fill=WHITE)
        pen.slab(73, 217, 97, 226, radius=1, fill=rgb("teal"))
        pen.slab(73, 232, 91, 240, radius=1, fill=rgb("grey"))


@cache
def _shoulders(size: tuple[int, int], gender: str) -> Image.Image:
    """Mask of the torso: sloping shoulders, broader for masculine people."""
    mask = Image.new("L", size)
    width, height = size
    half = [(0.30, 0.0), (0.14, 0.09), (0.0, 0.36), (0.0, 1.0)]
    if gender == "feminine":
        half = [(0.32, 0.0), (0.17, 0.14), (0.05, 0.5), (0.05, 1.0)]
    outline = half + [(1 - x, y) for x, y in reversed(half)]
    ImageDraw.Draw(mask).polygon([(x * width, y * height) for x, y in outline], fill=255)
    return mask


def _star(x: float, y: float, r: float) -> list[tuple[float, float]]:
    ring = [(0, -1), (0.24, -0.33), (0.95, -0.31), (0.38, 0.13), (0.59, 0.81), (0, 0.42)]
    return [(x + a * r, y + b * r) for a, b in ring] + [(x - a * r, y + b * r) for a, b in reversed(ring[1:-1])]


def _head(pen: Pen, person: Person, skin: RGB) -> None:
    pen.ellipse(74, 98, 94, 130, fill=mix(skin, INK, 0.08))
    pen.ellipse(162, 98, 182, 130, fill=mix(skin, INK, 0.08))
    if person.gender == "masculine":
        pen.slab(80, 44, 176, 172, radius=44, fill=skin)
    else:
        pen.ellipse(80, 42, 176, 172, fill=skin)
        pen.ellipse(75, 126, 87, 138, fill=rgb("gold"))
        pen.ellipse(169, 126, 181, 138, fill=rgb("gold"))
    blush = mix(skin, rgb("#e2574c"), 0.28)
    pen.ellipse(84, 124, 104, 140, fill=blush)
    pen.ellipse(152, 124, 172, 140, fill=blush)
    if person.age == "old":
        crease = mix(skin, INK, 0.42 if person.skin < 7 else 0.6)
        pen.line(98, 132, 92, 154, width=6, fill=crease)
        pen.line(158, 132, 164, 154, width=6, fill=crease)
        pen.line(108, 76, 148, 76, width=5, fill=crease)
    pen.line(128, 112, 122, 130, 132, 131, width=5, fill=mix(skin, INK, 0.3))


def _hair_in_front(pen: Pen, person: Person, hair: RGB) -> None:
    if person.gender == "feminine":
        pen.chord(68, 30, 188, 150, start=196, end=344, fill=hair)
        pen.polygon(72, 74, 96, 58, 88, 92, 80, 150, 66, 150, fill=hair)
        pen.polygon(184, 74, 160, 58, 168, 92, 176, 150, 190, 150, fill=hair)
        pen.arc(92, 38, 164, 100, start=215, end=275, width=5, fill=mix(hair, WHITE, 0.3))
        return
    pen.chord(74, 30, 182, 124, start=188, end=352, fill=hair)
    pen.slab(74, 62, 88, 106, radius=6, fill=hair)
    pen.slab(168, 62, 182, 106, radius=6, fill=hair)
    pen.arc(94, 36, 162, 90, start=215, end=275, width=5, fill=mix(hair, WHITE, 0.25))


def _eyes(pen: Pen, person: Person, hair: RGB) -> None:
    brow = mix(hair, INK, 0.35) if person.age != "old" else hair
    tilt = 9 if person.expression == "frowning" else -3
    for x, inward in ((106, 1), (150, -1)):
        pen.ellipse(x - 13, 94, x + 13, 118, fill=WHITE)
        pen.ellipse(x - 8, 98, x + 8, 117, fill=INK)
        pen.ellipse(x - 5, 100, x + 1, 106, fill=WHITE)
        width = 9 if person.gender == "masculine" else 4
        pen.line(x - 14 * inward, 88 - tilt / 2, x + 13 * inward, 88 + tilt / 2, width=width, fill=brow)
        if person.gender == "feminine":
            pen.arc(x - 15, 91, x + 15, 121, start=185, end=355, width=6, fill=INK)
            pen.line(x - 13 * inward, 100, x - 22 * inward, 92, width=5, fill=INK)


def _facial_hair(pen: Pen, person: Person, hair: RGB) -> None:
    if person.beard:
        pen.polygon(*BEARD, fill=hair)
        pen.slab(106, 138, 150, 164, radius=12, fill=mix(rgb(MONK[person.skin - 1]), INK, 0.05))
    if person.moustache:
        pen.polygon(*MOUSTACHE, fill=mix(hair, INK, 0.12))


def _mouth(pen: Pen, person: Person, skin: RGB) -> None:
    lips = rgb("#c9203f") if person.gender == "feminine" else mix(skin, rgb("#5c2018"), 0.62)
    y = 5 if person.moustache else 0
    if person.expression == "smiling":
        pen.chord(104, 124 + y, 152, 168 + y, start=0, end=180, fill=lips)
        pen.chord(110, 132 + y, 146, 160 + y, start=0, end=180, fill=WHITE)
    elif person.expression == "frowning":
        pen.arc(108, 146 + y, 148, 176 + y, start=195, end=345, width=9, fill=lips)
    else:
        pen.slab(112, 148 + y, 144, 157 + y, radius=4, fill=lips)


def _glasses(pen: Pen) -> None:
    for x in (105, 151):
        pen.ellipse(x - 22, 84, x + 22, 128, fill=INK)
        pen.ellipse(x - 16, 90, x + 16, 122, fill=rgb("#d4ecf7"))
        pen.ellipse(x - 6, 100, x + 7, 114, fill=INK)
        pen.line(x - 11, 112, x - 3, 94, width=4, fill=WHITE)
    pen.line(122, 102, 134, 102, width=6, fill=INK)
    pen.line(84, 102, 76, 98, width=6, fill=INK)
    pen.line(172, 102, 180, 98, width=6, fill=INK)


def _turban(pen: Pen, person: Person) -> None:
    cloth = rgb(("#f4efe2", "#e08a2e", "#5c79b8", "#b83d4f")[person.shade % 4])
    fold = mix(cloth, INK, 0.22)
    pen.ellipse(64, 2, 192, 84, fill=cloth)
    pen.slab(70, 44, 186, 78, radius=16, fill=cloth)
    for x0, y0, x1, y1 in ((72, 60, 150, 14), (96, 74, 180, 26), (134, 78, 190, 48)):
        pen.line(x0, y0, x1, y1, width=6, fill=fold)
    pen.ellipse(118, 44, 138, 64, fill=rgb("gold"))


def _sombrero(pen: Pen, _person: Person) -> None:
    pen.ellipse(6, 44, 250, 88, fill=rgb("straw"))
    pen.ellipse(6, 40, 250, 76, fill=mix(rgb("straw"), WHITE, 0.25))
    pen.slab(88, -6, 168, 62, radius=34, fill=rgb("straw"))
    pen.slab(86, 46, 170, 62, radius=6, fill=rgb("red"))
    for x in range(22, 240, 26):
        pen.ellipse(x, 60 if 70 < x < 180 else 56, x + 9, 69 if 70 < x < 180 else 65, fill=rgb("green"))


def _hat(pen: Pen, _person: Person) -> None:
    felt = rgb("#5a4636")
    pen.slab(78, 8, 178, 66, radius=22, fill=felt)
    pen.ellipse(44, 48, 212, 76, fill=felt)
    pen.slab(79, 44, 177, 58, radius=2, fill=rgb("black"))


def _cap(pen: Pen, _person: Person) -> None:
    cloth = rgb("#2e62c9")
    pen.chord(70, 14, 186, 130, start=180, end=360, fill=cloth)
    pen.slab(120, 60, 222, 80, radius=10, fill=mix(cloth, INK, 0.3))
    pen.ellipse(112, 28, 144, 56, fill=WHITE)


def _headscarf(pen: Pen, person: Person) -> None:
    cloth = rgb(("#6d4a9c", "#1f8a83", "#c8567e", "#36558f")[person.shade % 4])
    pen.arc(54, 16, 202, 198, start=120, end=420, width=30, fill=cloth)
    pen.chord(58, 20, 198, 140, start=196, end=344, fill=cloth)
    pen.polygon(72, 168, 184, 168, 196, 220, 60, 220, fill=cloth)
    pen.arc(84, 44, 172, 178, start=20, end=160, width=8, fill=mix(cloth, INK, 0.25))


HEADWEAR_DRAWN = {"turban": _turban, "sombrero": _sombrero, "hat": _hat, "cap": _cap, "headscarf": _headscarf}
