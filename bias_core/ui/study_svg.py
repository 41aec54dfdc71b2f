"""A study's figure as inline SVG with real text and the page's colours, so that it follows light and dark."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from bias_core.studies.figures import COLOURS, MUTED, draw
from bias_core.ui.plots import DRAWING

if TYPE_CHECKING:
    from bias_core.studies.study_types import StudyFigure

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
    import matplotlib as mpl

    buffer = io.StringIO()
    with DRAWING, mpl.rc_context({"svg.fonttype": "none"}):
        drawn = draw(figure)
        drawn.patch.set_alpha(0)
        for axes in drawn.axes:
            axes.patch.set_alpha(0)
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, ink in _INKS.items():
        svg = svg.replace(colour, ink)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"font(-family)?: ([\d.]+px )?'[^;\"]*", _font, svg)
    label = escape(f"{figure.title}; the data can be taken as CSV below")
    return svg.replace("<svg ", f'<svg role="img" class="plot" aria-label="{label}" ', 1)


def _font(found: re.Match[str]) -> str:
    size = found.group(2)
    return f"font: {size.strip()} var(--font)" if size else "font-family: var(--font)"
