"""A study's figure as inline SVG with real text and the page's colours, so that it follows light and dark."""

from __future__ import annotations

import io
import re
import threading
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from bias_core.studies.reports.figures import COLOURS, MUTED, draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bias_core.studies.kit.types import StudyFigure

DRAWING = threading.Lock()  # rc_context is global to the process
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
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


def figure_svg(figure: StudyFigure) -> str:
    """The drawing; its label for screen readers says that a table holds the same numbers."""
    with DRAWING:
        drawn = draw(figure)
        drawn.patch.set_alpha(0)
        for axes in drawn.axes:
            axes.patch.set_alpha(0)
        svg = _text_of(drawn, f"{figure.title}; the data can be taken as CSV below")
    for colour, ink in _INKS.items():
        svg = svg.replace(colour, ink)
    return re.sub(r"font(-family)?: ([\d.]+px )?'[^;\"]*", _font, svg)


def _text_of(drawn: Figure, label: str) -> str:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(buffer.getvalue())
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    root.attrib |= {"role": "img", "class": "plot", "aria-label": label}
    return ET.tostring(root, encoding="unicode")


def _font(found: re.Match[str]) -> str:
    size = found.group(2)
    return f"font: {size.strip()} var(--font)" if size else "font-family: var(--font)"
