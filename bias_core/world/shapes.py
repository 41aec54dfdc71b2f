"""The little drawing language of ``assets/calibration/drawing.yaml``: one line of shapes per thing."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from PIL import ImageColor
from PIL.ImageDraw import ImageDraw

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
    draw: ImageDraw, section: str, name: str, box: Box, *, colour: RGB = (200, 60, 50), skin: RGB = (220, 180, 150)
) -> None:
    """Draw the thing ``name`` into ``box`` (left, top, right, bottom in pixels)."""
    tints = {"*": colour, "**": mix(colour, (20, 22, 30), 0.28), "+": mix(colour, (255, 255, 255), 0.4), "skin": skin}
    scale = ((box[2] - box[0]) / 100, (box[3] - box[1]) / 100)
    paint_shapes(draw, shapes(section, name), tints, corner=box[:2], scale=scale)


def paint_shapes(
    draw: ImageDraw,
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
