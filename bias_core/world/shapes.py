"""The little drawing language of ``assets/calibration/drawing.yaml``: one line of shapes per thing."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from PIL import ImageColor

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "calibration"

RGB = tuple[int, int, int]
Box = tuple[float, float, float, float]
Shape = tuple[str, tuple[float, ...], str]


@cache
def drawing(section: str) -> dict[str, str]:
    """One section of ``drawing.yaml`` (palette, settings, clothing, light, flags, icons)."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    book = yaml.load((ASSETS / "drawing.yaml").read_text(encoding="utf-8"), Loader=loader)
    return dict(book[section])


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
        words = part.split()
        if len(words) == 1:
            parsed.extend(shapes("icons", words[0]))
            continue
        colour = words[-1][:7] if words[-1].startswith("#") else words[-1]
        parsed.append((words[0], tuple(float(w) for w in words[1:-1]), colour))
    return tuple(parsed)


def paint(
    draw: ImageDraw, section: str, name: str, box: Box, *, colour: RGB = (200, 60, 50), skin: RGB = (220, 180, 150)
) -> None:
    """Draw the thing ``name`` into ``box`` (left, top, right, bottom in pixels)."""
    tints = {"*": colour, "**": mix(colour, (20, 22, 30), 0.28), "+": mix(colour, (255, 255, 255), 0.4), "skin": skin}
    scale = ((box[2] - box[0]) / 100, (box[3] - box[1]) / 100)
    for kind, numbers, name_of_colour in shapes(section, name):
        fill = tints[name_of_colour] if name_of_colour in tints else rgb(name_of_colour)
        _paint_shape(draw, kind, numbers, fill, box, scale)


def _paint_shape(
    draw: ImageDraw, kind: str, numbers: tuple[float, ...], fill: RGB, box: Box, scale: tuple[float, float]
) -> None:
    n_coordinates = {"e": 4, "r": 4, "o": 4, "a": 4, "c": 4, "l": len(numbers) - 1, "p": len(numbers)}[kind]
    xy = [box[i % 2] + numbers[i] * scale[i % 2] for i in range(n_coordinates)]
    if kind == "e":
        draw.ellipse(xy, fill=fill)
    elif kind == "r":
        draw.rectangle(xy, fill=fill)
    elif kind == "o":
        draw.rounded_rectangle(xy, radius=0.2 * min(xy[2] - xy[0], xy[3] - xy[1]), fill=fill)
    elif kind == "p":
        draw.polygon(xy, fill=fill)
    elif kind == "l":
        draw.line(xy, fill=fill, width=max(1, round(numbers[-1] * min(scale))), joint="curve")
    elif kind == "a":
        draw.arc(xy, numbers[4], numbers[5], fill=fill, width=max(1, round(numbers[6] * min(scale))))
    else:
        draw.chord(xy, numbers[4], numbers[5], fill=fill)
