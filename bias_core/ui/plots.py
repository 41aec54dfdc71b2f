"""Figures drawn by matplotlib as SVG whose colours are the page's own, so that they follow light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.ui.study_svg import DRAWING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bias_core.studies.explore_types import AssociationScore, AttributeScore

# Stand-ins that matplotlib writes and that become CSS variables of static/app.css.
_INKS: Mapping[str, str] = {
    "#010101": "ink",
    "#020202": "muted",
    "#030303": "line",
    "#040404": "measured",
    "#050505": "reference",
    "#060606": "planted",
    "#070707": "surface",
}
_BY_NAME = {name: colour for colour, name in _INKS.items()}
_LONGEST_NAME = 22


def interval_plot(scores: Sequence[AttributeScore]) -> str:
    """One line per attribute: the measured share with its interval, P*, and what was drawn where known."""
    figure, axes = _figure(4.8, 0.72 + 0.5 * len(scores))
    for y, score in enumerate(scores):
        axes.axhline(y, color=_BY_NAME["line"], linewidth=0.8, zorder=0)
        _draw_share(axes, y, score)
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.set_yticks(range(len(scores)), [_short(score.attribute.name) for score in scores])
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    return _svg(figure, "Share of pictures per attribute with its interval; the table holds the same numbers")


def similarity_plot(names: Sequence[str], positive: Sequence[float], negative: Sequence[float]) -> str:
    """One picture: how much nearer it is to each positive sentence than to the negative one."""
    differences = [p - n for p, n in zip(positive, negative, strict=True)]
    figure, axes = _figure(4.4, 0.72 + 0.36 * len(names))
    colours = [_BY_NAME["measured"] if d > 0 else _BY_NAME["muted"] for d in differences]
    axes.barh(range(len(names)), differences, height=0.5, color=colours)
    axes.axvline(0, color=_BY_NAME["ink"], linewidth=1)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    reach = 1.15 * max(1e-6, *(abs(d) for d in differences))
    axes.set_xlim(-reach, reach)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel("cosine to positive − to negative sentence", fontsize=10)
    return _svg(figure, "Similarity of this picture to each attribute; the table holds the same numbers")


def association_plot(score: AssociationScore) -> str:
    """A dot per picture, and below them the mean with its interval; 0 is neutral."""
    figure, axes = _figure(4.8, 1.5)
    values = score.associations
    axes.scatter(values, [0] * len(values), s=46, color=_BY_NAME["measured"], alpha=0.35, linewidths=0)
    axes.errorbar(
        [score.mean.value], [1],
        xerr=[[score.mean.value - score.mean.low], [score.mean.high - score.mean.value]],
        fmt="o", color=_BY_NAME["measured"], markersize=8, elinewidth=2.4, capsize=5, capthick=2,
    )  # fmt: skip
    axes.axvline(0, color=_BY_NAME["reference"], linewidth=1.6, linestyle=(0, (4, 3)))
    axes.set_ylim(1.6, -0.6)
    axes.set_yticks([0, 1], ["pictures", "mean"])
    reach = 1.15 * max(1e-6, *(abs(v) for v in (*values, score.mean.low, score.mean.high)))
    axes.set_xlim(-reach, reach)
    axes.locator_params(axis="x", nbins=5)
    words = (f"← {_short(score.attribute_b)}", f"{_short(score.attribute_a)} →")
    axes.set_xlabel(("\N{NO-BREAK SPACE}" * 6).join(words), fontsize=11)
    return _svg(figure, "Association of each picture, and the mean with its interval")


def _draw_share(axes: Axes, y: int, score: AttributeScore) -> None:
    share, reference = score.prevalence, score.attribute.reference
    ink = _BY_NAME["measured"]
    axes.plot([share.low, share.high], [y, y], color=ink, linewidth=2.6, solid_capstyle="butt")
    for end in (share.low, share.high):
        axes.plot([end, end], [y - 0.14, y + 0.14], color=ink, linewidth=2)
    axes.plot([share.value], [y], "o", color=ink, markersize=9, clip_on=False)
    edge: dict[str, Any] = {"markeredgecolor": _BY_NAME["surface"], "markeredgewidth": 1.2, "clip_on": False}
    if reference is not None:
        axes.plot([reference], [y], "D", color=_BY_NAME["reference"], markersize=8, **edge)
    if score.drawn is not None:
        axes.plot([score.drawn], [y - 0.22], "v", color=_BY_NAME["planted"], markersize=8, **edge)


def _figure(width: float, height: float) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    figure.patch.set_alpha(0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_BY_NAME["muted"])
    axes.tick_params(axis="y", length=0, labelsize=11.5, labelcolor=_BY_NAME["ink"], pad=8)
    axes.tick_params(axis="x", length=3, labelsize=10, color=_BY_NAME["muted"], labelcolor=_BY_NAME["muted"])
    axes.xaxis.label.set_color(_BY_NAME["muted"])
    return figure, axes


def _svg(figure: Figure, label: str) -> str:
    """The figure as inline SVG with real text and the page's colours."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with DRAWING, mpl.rc_context({"svg.fonttype": "none", "axes.unicode_minus": True}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, name in _INKS.items():
        svg = svg.replace(colour, f"var(--{name})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: inherit", svg)
    return svg.replace("<svg ", f'<svg role="img" class="plot" aria-label="{escape(label)}" ', 1)


def _short(text: str) -> str:
    # A dollar sign would start mathematics.
    text = text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
    return text.replace("$", r"\$")
