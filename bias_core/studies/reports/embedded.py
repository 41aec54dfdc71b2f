"""What stands inside of a page: a figure as SVG with real text and the page's colours, pictures as small copies.

Scores never see these copies and averages.
"""

import base64
import io
import re
import threading
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from bias_core.studies.kit.types import StudyFigure
from bias_core.studies.reports.figures import COLOURS, MUTED, WIDEST, draw

MOST_AVERAGED = 200
NARROW = 4.0  # inches: shown as wide as a phone, letters can still be read
_QUALITY = 70  # of a hundred
_SMALL, _JPEG_QUALITY = 128, 85  # pixels, of a hundred
_MISSING = Image.new("RGB", (8, 8), "#808080")
DRAWING = threading.Lock()  # rc_context is global to the process
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_GROUP, _TEXT = f"{{{_SVG}}}g", f"{{{_SVG}}}text"
_TICK = 7.0  # points from the axis to the name of a row
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _LINK)
N_COLOURS = 8  # of groups on the page, in turn
_INKS = {
    **{colour: f"var(--c{i})" for i, colour in enumerate(COLOURS[:-1])},
    COLOURS[-1]: "var(--ink)",
    MUTED: "var(--muted)",
    "#ffffff": "var(--surface)",
    "#b0b0b0": "var(--line)",  # matplotlib's grid
    "#cccccc": "var(--line)",
}


def figure_svg(
    figure: StudyFigure,
    numbers: str = "the data can be taken as CSV below",
    marks: Mapping[str, str] | None = None,
    width: float = WIDEST,
) -> str:
    """The drawing; its label for screen readers says where the same ``numbers`` stand.

    It is at most ``width`` inches wide, with letters of the same size: for a narrow page.
    A name of ``marks`` that stands beside a mark is a button there, with what it stands for as its data.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    with DRAWING, mpl.rc_context({"svg.fonttype": "none"}):
        drawn = draw(figure, widest=width)
        for patch in (drawn.patch, *(axes.patch for axes in drawn.axes)):
            patch.set_alpha(0)
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(buffer.getvalue())
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    narrow = " narrow" if drawn.get_figwidth() <= NARROW else ""
    root.attrib |= {"role": "img", "class": f"plot{narrow}", "aria-label": f"{figure.title}; {numbers}"}
    _join_lines(root)
    if marks and _name_marks(root, marks):
        root.attrib["role"] = "group"  # what is in an image cannot be pressed
    svg = ET.tostring(root, encoding="unicode")
    for colour, ink in _INKS.items():
        svg = svg.replace(colour, ink)
    return re.sub(r"font(-family)?: ([\d.]+px )?'[^;\"]*", _font, svg)


def _join_lines(root: ET.Element) -> None:
    """Have the lines of a row's name end where names of one line do."""
    for tick in (group for group in root.iter(_GROUP) if group.get("id", "").startswith("ytick_")):
        edge = next((float(mark.attrib["x"]) - _TICK for mark in tick.iter(f"{{{_SVG}}}use")), None)
        for group in tick.iter(_GROUP):
            lines = group.findall(_TEXT)
            if edge is None or len(lines) < 2:
                continue
            for line in lines:
                line.set("style", f"{line.get('style', '')}; text-anchor: end")
                line.set("transform", re.sub(r"\([-\d.]+", f"({edge:g}", line.get("transform", "")))


def _name_marks(root: ET.Element, marks: Mapping[str, str]) -> int:
    """Make buttons of the names of marks in a drawing; how many there are."""
    n_named, by_name = 0, {" ".join(name.split()): name for name in marks}
    for group in root.iter(_GROUP):
        lines = group.findall(_TEXT)
        name = by_name.get(_name_of(lines))
        if name is None:
            continue
        n_named += 1
        for line in lines:
            line.attrib |= {"data-pictures": marks[name], "class": "mark-name"}
        lines[0].attrib |= {"tabindex": "0", "role": "button", "aria-label": f"Show the pictures of {name}"}
    return n_named


def _name_of(lines: Sequence[ET.Element]) -> str:
    return " ".join((line.text or "").strip() for line in lines)


def _font(declaration: re.Match[str]) -> str:
    return f"font: {declaration[2].strip()} var(--font)" if declaration[2] else "font-family: var(--font)"


def data_uri(path: Path, size: int) -> str:
    """A copy of at most ``size`` pixels as a data URI; grey where the file has gone."""
    return _uri(_open(path, size))


def small_uri(image: Image.Image) -> str:
    """A picture that is shown for a moment, as a data URI of few bytes."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY, method=0)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def light_uri(path: Path, size: int) -> str:
    """A copy of at most ``size`` pixels for a file that is sent around: as PNG where that is small, else as JPEG."""
    image = _open(path, size)
    if max(image.size) <= _SMALL:
        return _uri(image)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def average_uri(paths: Sequence[Path], size: int = 96) -> str:
    """The pixel mean of (at most the first 200 of) the pictures as a data URI."""
    stack = [np.asarray(_open(path, size, exactly=True), dtype=np.float32) for path in paths[:MOST_AVERAGED]]
    mean = np.mean(stack, axis=0) if stack else np.asarray(_MISSING)
    return _uri(Image.fromarray(np.rint(mean).astype(np.uint8)))


def _open(path: Path, size: int, *, exactly: bool = False) -> Image.Image:
    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except OSError:
        image = _MISSING
    method = Image.Resampling.BOX if max(image.size) > size else Image.Resampling.NEAREST
    if exactly:
        return image.resize((size, size), method)
    return ImageOps.contain(image, (size, size), method) if max(image.size) > size else image


def _uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
