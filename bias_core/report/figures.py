"""Draws the figures of reports with Matplotlib, one function per kind, and writes them as SVG or PNG.

Names come first: names of rows leave half of the width to the marks; names of dots cover no other name or dot.
:func:`figure_svg` is for pages: it uses the colours of their style sheet, and names can be buttons.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import threading
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.measures.cards import spell_out_symbols
from bias_core.report.palette import COLOURS
from bias_core.store.picture_metadata import FIGURE_MARK
from bias_core.wording import format_estimate, format_given, typeset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bias_core.study.types import StudyFigure

    Floats = NDArray[np.float64]

_REACHES = (5.0, 9.0, 14.0, 20.0, 27.0, 35.0, 44.0, 54.0, 66.0, 80.0)  # points from the dot to its name
_ANGLES = np.radians([20, 0, -20, 160, 180, 200, 60, -60, 120, -120, 90, -90])
_DOT = 4.0  # half the width of a dot, in points
_FAR = 8.0  # from here on, a line joins the name to its dot
_CROSSED = 8.0  # points of reach that a name may go to keep off one more line
LETTERS = 9.0  # points, which are 12 pixels on a page that does not shrink a figure
WIDTH = 6.4  # inches of most figures, where there is room
ROW, _LINE = 0.32, 0.15  # inches of a named row, and least inches of each line of its name
MOST_ROWS = 400  # some programs do not show taller figures
_ROOM, _MOST_LINES = 7.5, 3  # letters of a row's name to an inch of the figure: about half of it; lines of a name
_MISLEADING = 60.0  # the same, to keep the line to its dot off another dot or name


def wrap_name(name: object, width: float) -> list[str]:
    """Return the name of a row, in two or three lines of equal length if it would take half of ``width`` inches.

    >>> wrap_name("Plain, most stereotyped occupations", 4.0), wrap_name("dark skin", 4.0)
    (['Plain, most stereotyped', 'occupations'], ['dark skin'])
    """
    text = str(name)
    if len(text) <= _ROOM * width:
        return [text]
    n = min(_MOST_LINES, math.ceil(len(text) / (_ROOM * width)))
    longest = max(map(len, text.split()), default=1)
    widths = range(max(longest, math.ceil(len(text) / n)), len(text) + 1)
    tries = (textwrap.wrap(text, letters, break_on_hyphens=False) for letters in widths)
    return next(lines for lines in tries if len(lines) <= n)


def rows_height(figure: Figure, names: Collection[object]) -> float:
    """Return the inches that named rows take, before the figure has its final width."""
    n_lines = max((len(wrap_name(name, min(WIDTH, figure.get_figwidth()))) for name in names), default=1)
    return max(ROW, _LINE * n_lines) * min(len(names), MOST_ROWS)


def name_rows(axes: Axes, names: Sequence[object]) -> None:
    """Write names next to the rows 0, 1, 2, ... of a figure, the first on top."""
    figure = axes.get_figure(root=True)
    width = np.inf if figure is None else figure.get_figwidth()
    axes.set_yticks(range(len(names)), ["\n".join(wrap_name(name, width)) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def name_points(axes: Axes, points: Floats, names: Sequence[str], *, dots: Floats, lines: Floats, colour: str) -> None:
    """Write each name near its point; call it last, when nothing else moves the axes.

    Places around each point are tried from near to far, crowded points first. A place that covers a dot, another name
    or the frame is used only if all do; one that crosses lines is used if the next free place is much farther.

    ``axes`` must have everything else drawn. In data units, ``points`` are (n_names, 2); ``dots``, which no name may
    cover, (n_dots, 2); ``lines``, which names should avoid, (n_lines, 4): x and y of both ends.
    """
    figure = axes.get_figure(root=True)
    if figure is None or not len(points):
        return
    figure.draw_without_rendering()  # the layout settles, and texts have a size
    pixels = figure.dpi / 72
    extents = []
    for name in names:
        text = axes.text(0, 0, name, fontsize=LETTERS)
        extent = text.get_window_extent()
        extents.append((extent.width + 2, extent.height + 1))  # with a little air
        text.remove()
    at, marks = axes.transData.transform(points), axes.transData.transform(dots)
    ends = axes.transData.transform(lines.reshape(-1, 2)).reshape(-1, 4)
    crossed = np.column_stack([np.minimum(ends[:, :2], ends[:, 2:]), np.maximum(ends[:, :2], ends[:, 2:])])
    taken = np.column_stack([marks - _DOT * pixels, marks + _DOT * pixels])
    frame = np.asarray(axes.bbox.extents)[np.newaxis]
    for i in _crowded_first(at):
        reaches, boxes = _measure_places(at[i], extents[i], pixels)
        beyond = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - _overlap(boxes, frame)
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        leaders = _dots_between(at[i], centres, _DOT * pixels)  # (n_places, n_steps, 4)
        other_boxes = taken[~(np.abs(taken - np.tile(at[i], 2)) <= 2 * _DOT * pixels).all(axis=1)]
        misled = [_touches(leader, other_boxes).any(axis=0).sum() for leader in leaders]
        cost = reaches + _CROSSED * _touches(boxes, crossed).sum(axis=1)
        cost += _MISLEADING * np.where(reaches > _FAR, misled, 0)
        best = int(np.lexsort((cost, _overlap(boxes, taken) + beyond))[0])
        taken = np.vstack([taken, boxes[best]])
        if reaches[best] > _FAR:
            crossed = np.vstack([crossed, leaders[best]])
        offset = (centres[best] - at[i]) / pixels
        line = {"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
        text = axes.annotate(
            names[i], points[i], xytext=offset, textcoords="offset points", ha="center", va="center",
            fontsize=LETTERS, color=colour, arrowprops=line if reaches[best] > _FAR else None,
            bbox={"facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.7, "pad": 0.4},
        )  # fmt: skip
        text.set_in_layout(False)


def _crowded_first(at: Floats) -> list[int]:
    """Return the numbers of the points, those with the most neighbours first."""
    apart = np.abs(at[:, np.newaxis] - at).max(axis=2)
    neighbours = (apart < np.median(apart) / 2).sum(axis=1) if len(at) > 1 else np.zeros(1)
    return [int(i) for i in np.lexsort((at[:, 1], at[:, 0], -neighbours))]


def _measure_places(at: Floats, extent: tuple[float, float], pixels: float) -> tuple[Floats, Floats]:
    """Return reach in points ``(n_places,)`` and box in pixels ``(n_places, 4)`` of every place for a name."""
    reach, angle = (grid.ravel() for grid in np.meshgrid(_REACHES, _ANGLES, indexing="ij"))
    half = np.array(extent) / 2
    centre = at + np.column_stack([np.cos(angle), np.sin(angle)]) * (reach[:, np.newaxis] * pixels + half)
    return reach, np.column_stack([centre - half, centre + half])


def _dots_between(start: Floats, ends: Floats, beyond: float) -> Floats:
    """Return the line from the rim of a dot to each end, as boxes of size 0: ``(n_ends, n_steps, 4)``."""
    shares = np.linspace(beyond / np.hypot(*(ends - start).T), 1, 16).T[..., np.newaxis]
    steps = start + shares * (ends - start)[:, np.newaxis]
    return np.concatenate([steps, steps], axis=2)


def _meeting(boxes: Floats, other_boxes: Floats) -> Floats:
    """Return width and height of each overlap ``(n_boxes, n_others, 2)``; negative if boxes are apart."""
    low = np.maximum(boxes[:, np.newaxis, :2], other_boxes[:, :2])
    return np.asarray(np.minimum(boxes[:, np.newaxis, 2:], other_boxes[:, 2:]) - low)


def _overlap(boxes: Floats, other_boxes: Floats) -> Floats:
    """Return the pixels of each box that others cover, ``(n_boxes,)``."""
    return np.asarray(_meeting(boxes, other_boxes).clip(0).prod(axis=2).sum(axis=1))


def _touches(boxes: Floats, other_boxes: Floats) -> NDArray[np.bool_]:
    """Return True for each box that meets another, which may be as thin as a line: ``(n_boxes, n_others)``."""
    return np.asarray((_meeting(boxes, other_boxes) >= 0).all(axis=2))


N_COLOURS = len(COLOURS)  # of groups, in turn, in figures and on the page
_FACTS_PER_INCH = 15  # letters of the small size
INK = "#000000"
MUTED = "#767676"
ASSUMED = "assumed rate, without a source"
_DOTS_APART = 0.15  # inches between the dots of a row with several
_MANY_POINTS = 100
_STEP = 0.015  # of the width of the cloud
_MOST_NAMED, _MANY_NAMES = 60, 20
_FEWEST_FOR_LOWESS = 8
_LOWESS_SHARE = 2 / 3  # of the points, in a neighbourhood
_MARKERS = "osD^vP*"
_SHARES = ("share of pictures", "share of the prompt's pictures", "share of equal answers")  # begin labels of axes
_NOTES = "notes_of_marks"  # attribute of a drawn figure: texts of each artist's marks, by its id
_ARROWS = {"xlow": "<", "xhigh": ">", "ylow": "v", "yhigh": "^"}  # where the frame cuts an interval
_MOST_BEYOND = 0.5  # how far intervals may reach beyond the outermost points, in widths of the cloud
_FEWEST_TO_CUT, _MOST_CELLS = 3, 80  # points, cells with a number
_MOST_ON_CURVE = 10  # points of a curve with a note
_LEAST_NAMED = 0.045  # height of a part of a mosaic that has room for its numbers
_TENS = 20  # numbers as large as this need no decimals
_LABEL_LETTERS, _FEW_TICKS = 12.0, 2.6  # letters to an inch of a label; inches of an axis with three ticks
_LEAST_ROOM = 0.8  # inches
_PALE = "#f1f4f6"  # the end of a heat map's scale, or its middle
_KEY_LETTERS = 6  # as wide as the mark before a name of the legend
_TITLE_LETTERS = 15  # to a line above a picture
_LEGEND_LETTERS, WIDEST = 10.0, 100.0  # to an inch of its line; inches, where nothing limits a figure


def draw(figure: StudyFigure, *, widest: float = WIDEST) -> Figure:
    """Return the drawn figure, at most ``widest`` inches wide; InvalidInput for no data or an unknown kind."""
    if figure.kind not in _DRAW:
        raise InvalidInput(f"no kind of figure {figure.kind!r}; there are {', '.join(_DRAW)}")
    if figure.data.empty:
        raise InvalidInput(f"the figure {figure.title!r} has no data")
    from matplotlib.figure import Figure  # takes half a second

    drawn = Figure(layout="constrained", figsize=(widest, 1.8))
    _DRAW[figure.kind](
        drawn, figure.data.map(_escape_dollars), {name: _escape_dollars(value) for name, value in figure.labels.items()}
    )
    return drawn


def _escape_dollars(value: Any) -> Any:
    """Escape dollar signs, which would begin mathematics."""
    return value.replace("$", r"\$") if isinstance(value, str) else value


def to_bytes(
    figure: StudyFigure, kind: str = "svg", *, drawn: Figure | None = None, facts: Sequence[str] = ()
) -> bytes:
    """Return the figure as an "svg" or "png" file with its title and caption; ``drawn`` saves drawing it again.

    With ``facts`` on its run, title and facts stand in the picture, for who sees it without its report.
    """
    buffer, drawn = io.BytesIO(), drawn or draw(figure)
    if facts:
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")  # the plot keeps its place, and the file grows by the texts
        box = drawn.get_tightbbox().transformed(drawn.dpi_scale_trans + drawn.transFigure.inverted())
        lines = textwrap.wrap(" · ".join(facts), int(box.width * drawn.get_figwidth() * _FACTS_PER_INCH))
        looks: dict[str, Any] = {"parse_math": False, "linespacing": 1.4}
        drawn.text(box.x0, box.y1, f"{figure.title}\n", va="bottom", size="large", color=INK, **looks)
        drawn.text(box.x0, box.y0, "\n".join(["", *lines]), va="top", size="small", color=MUTED, **looks)
    further: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {FIGURE_MARK: "yes"}}
    metadata = {"Title": figure.title, "Description": figure.caption, **further.get(kind, {})}
    drawn.savefig(buffer, format=kind, dpi=200, metadata=metadata, bbox_inches="tight" if facts else None)
    return buffer.getvalue()


def _draw_intervals(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    axes = _axes(figure, WIDTH, 0.9 + rows_height(figure, data["name"]))
    for i, (group, rows) in enumerate(_split_groups(data)):
        _error_bars(axes, rows, rows.index.to_numpy(), i, group)
    _mark_known(axes, data, labels, range(len(data)), {"published": 5, "reference": 5, "assumed": 5, "expected": 9})
    _finish(axes, labels, data["name"])


def _draw_pairs(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    names, groups = list(dict.fromkeys(data["name"])), _split_groups(data)
    dots = _DOTS_APART * (len(groups) + 1) * min(len(names), MOST_ROWS)
    axes = _axes(figure, WIDTH, 1.3 + max(dots, rows_height(figure, names)))
    places = {  # of each dot, a little apart so that no interval hides another
        (name, group): names.index(name) + 0.5 * ((i + 0.5) / len(groups) - 0.5)
        for i, (group, _) in enumerate(groups)
        for name in names
    }
    for i, (group, rows) in enumerate(groups):
        _error_bars(axes, rows, [places[name, group] for name in rows["name"]], i, group)
    _mark_known(axes, data.drop_duplicates("name"), labels, range(len(names)), {"reference": 6, "assumed": 6})
    if labels.get("whole"):
        axes.locator_params(axis="x", integer=True)
    _finish(axes, labels, names)


def _draw_bars(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    names, groups = list(dict.fromkeys(data["name"])), _split_groups(data)
    axes = _axes(figure, WIDTH, 0.9 + rows_height(figure, data["name"]))
    thick = 0.8 / len(groups)
    groups = _rest_of_stack(axes, groups, names) if labels.get("stacked") else groups
    for i, (group, rows) in enumerate(groups):
        places = [names.index(name) - 0.4 + thick * (i + 0.5) for name in rows["name"]]
        drawn = axes.barh(
            places, rows["value"], height=thick, xerr=_reach(rows) if {"low", "high"} <= set(rows) else None,
            color=rows["colour"] if "colour" in rows else COLOURS[i % len(COLOURS)],
            edgecolor=MUTED if "colour" in rows else None,
            error_kw={"lw": 1, "ecolor": MUTED}, label=group or None,
        )  # fmt: skip
        for bar, place in zip(drawn, rows.index, strict=True):
            _add_notes(axes, bar, rows.loc[[place]])
    _mark_known(axes, data, labels, range(len(data)), {"reference": 6, "expected": 12}, COLOURS[1])
    _finish(axes, {"x": labels.get("y", ""), "null": labels.get("null")}, names)


def _rest_of_stack(axes: Axes, groups: list[tuple[str, pd.DataFrame]], names: list[str]) -> list[Any]:
    """Draw one bar per name, divided into the shares of the groups; return [], as no group is left to draw."""
    text: dict[str, Any] = {"color": "#111111", "bbox": {"fc": "#fefefe", "ec": "none", "pad": 1.2}}
    left = np.zeros(len(names))
    for (group, rows), colour in zip(groups, COLOURS, strict=False):
        values = rows.set_index("name")["value"].reindex(names).fillna(0.0).to_numpy(float)
        bars = axes.barh(range(len(names)), values, 0.66, left, color=colour, edgecolor="#fefefe", label=group)
        shown = [f"{value:.0%}" if value > _LEAST_NAMED else "" for value in values]
        axes.bar_label(bars, shown, label_type="center", fontsize=LETTERS, **text)
        left = left + values
    return []


def _mark_known(
    axes: Axes, data: pd.DataFrame, labels: dict[str, Any], rows: range, sizes: dict[str, int], colour: str = MUTED
) -> None:
    """Mark the known values of the rows: the paper's, the reference, the assumed and the drawn ones."""
    texts = {
        "published": "in the paper",
        "reference": labels.get("reference"),
        "assumed": ASSUMED,
        "expected": "ground truth",
    }
    markers = {"assumed": "o", "expected": "|"}
    for column, size in sizes.items():
        if column in data and data[column].notna().any():
            look: dict[str, Any] = {"ms": size, "mfc": "none", "mew": 2 if column == "expected" else 1, "color": colour}
            text = str(texts[column] or "")
            axes.plot(data[column].astype(float), rows, markers.get(column, "D"), label=text, **look)


def _draw_distributions(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    groups = _split_groups(data)
    axes = _axes(figure, WIDTH, 0.9 + 0.5 * len(groups))
    sides = list(dict.fromkeys(data["side"])) if "side" in data else []
    rng = np.random.default_rng(0)  # only spreads the points
    for i, (_, rows) in enumerate(groups):
        place = sides.index(rows["side"].iloc[0]) if sides else i
        colour, values = COLOURS[place % len(COLOURS)], rows["value"].to_numpy(float)
        size = 3 if len(values) > _MANY_POINTS else 6
        axes.plot(values, i + rng.uniform(-0.28, 0.28, len(values)), ".", ms=size, alpha=0.4, color=colour)
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        axes.plot([low, high], [i, i], lw=5, color=colour, solid_capstyle="butt")
        axes.plot([middle], [i], "o", ms=7, mfc="white", color=colour)
    _finish(axes, labels, [group for group, _ in groups])


def _draw_arrows(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    axes = _axes(figure, WIDTH, 0.9 + rows_height(figure, data["name"]))
    look = {"arrowstyle": "-|>", "color": COLOURS[0], "lw": 1.6, "shrinkA": 3, "shrinkB": 3}
    for place, (start, end) in enumerate(zip(data["start"], data["end"], strict=True)):
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops=look)
    looks: dict[str, dict[str, Any]] = {"start": {"mfc": "white", "color": MUTED}, "end": {"color": COLOURS[0]}}
    for end, dot in looks.items():
        (dots,) = axes.plot(data[end], range(len(data)), "o", ms=5, label=labels.get(end), **dot)
        _add_notes(axes, dots, data.assign(group=labels.get(end, end)), end, f"{end} ")
    _finish(axes, labels, data["name"])


def _draw_scatter(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    axes = _axes(figure, *((6.8, 5.8) if "name" in data and (data["name"] != "").sum() > _MANY_NAMES else (5.6, 4.6)))
    axes.margins(x=0.1)  # room for names
    if labels.get("apart"):  # shift each group a little to the right, so that no interval hides another
        place = pd.Series(pd.factorize(data["group"])[0], data.index)
        data = data.assign(x=data["x"] + _STEP * np.ptp(data["x"]) * (place - place.mean()))
    dots = ["name", *(["marker"] if "marker" in data else [])]  # rows of one name in each group are one dot
    markers = list(dict.fromkeys(data["marker"])) if "marker" in data else []  # meanings of the shapes of dots
    shapes = dict(zip(labels.get("markers") or markers, cycle(_MARKERS)))
    for i, (group, rows) in enumerate(_split_groups(data)):
        look = COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)]  # shapes work without colours too
        _cloud(axes, rows, look, group, labels, shapes)
    for marker in markers:
        axes.plot([], [], shapes[marker], ms=5, color=MUTED, label=marker)
    if labels.get("join"):
        for _, rows in data.groupby(dots, sort=False):
            axes.plot(rows["x"], rows["y"], "-", color=MUTED, lw=0.8, alpha=0.6, zorder=0)
    if labels.get("diagonal"):
        ends = [min(data["x"].min(), data["y"].min()), max(data["x"].max(), data["y"].max())]
        axes.plot(ends, ends, "--", color=MUTED, lw=1)
    _finish(axes, labels, no_bias="y")
    _keep_points_apart(axes, data)
    if "name" in data and len(data) <= _MOST_NAMED:
        _name_dots(axes, data.drop_duplicates(dots, keep="last") if labels.get("join") else data, data)


def _keep_points_apart(axes: Axes, data: pd.DataFrame) -> None:
    """Cut intervals at the frame if they would squeeze the points together; an arrowhead marks the cut."""
    for axis, other_axis in ("xy", "yx"):
        ends, values = [f"{axis}low", f"{axis}high"], data[axis].to_numpy(float)
        span = float(np.nanmax(values) - np.nanmin(values)) * _MOST_BEYOND
        if not {*ends} <= set(data) or len(values) < _FEWEST_TO_CUT or not span:
            continue
        low, high = axes.get_xlim() if axis == "x" else axes.get_ylim()
        low, high = max(low, float(np.nanmin(values)) - span), min(high, float(np.nanmax(values)) + span)
        (axes.set_xlim if axis == "x" else axes.set_ylim)(low, high)
        for end, limit, is_cut in ((ends[0], low, data[ends[0]] < low), (ends[1], high, data[ends[1]] > high)):
            if is_cut.any():
                across = data.loc[is_cut, other_axis]
                places: dict[str, Any] = {axis: [limit] * len(across), other_axis: across}
                axes.plot(places["x"], places["y"], _ARROWS[end], ms=5, color=MUTED, clip_on=False, zorder=3)


def _cloud(
    axes: Axes, rows: pd.DataFrame, look: tuple[str, str], group: str, labels: dict[str, Any], shapes: dict[str, str]
) -> None:
    colour, shape = look
    ends = {f"{axis}err": axis for axis in "xy" if {f"{axis}low", f"{axis}high"} <= set(rows)}
    if reach := {name: _reach(rows, axis, axis) for name, axis in ends.items()}:
        axes.errorbar(rows["x"], rows["y"], **reach, fmt="none", ecolor=colour, alpha=0.4, lw=1)
    for marker, marker_rows in rows.groupby("marker", sort=False) if shapes else [("", rows)]:
        name = None if shapes else group or None
        (dots,) = axes.plot(
            marker_rows["x"], marker_rows["y"], shapes.get(str(marker), shape), ms=5, color=colour, label=name
        )
        if "name" in marker_rows:
            _add_notes(axes, dots, marker_rows, "y", "y")
    if shapes:
        axes.plot([], [], "-", lw=4, color=colour, label=group)  # the marker has its own entry
    if labels.get("lines"):
        axes.plot(rows["x"], rows["y"], "-", color=colour, lw=1, alpha=0.7)
    if labels.get("lowess") and len(rows) >= _FEWEST_FOR_LOWESS:
        axes.plot(*lowess(rows["x"], rows["y"]).T, color=colour, lw=1.5)


def _name_dots(axes: Axes, named: pd.DataFrame, data: pd.DataFrame) -> None:
    """Name the dots, clear of every dot and, if there is room, of intervals and curves."""
    columns = ("xlow", "y", "xhigh", "y"), ("x", "ylow", "x", "yhigh")
    named = named[np.isfinite(named[["x", "y"]].to_numpy(float)).all(axis=1)]
    lines = [data[[*ends]].dropna().to_numpy(float) for ends in columns if {*ends} <= set(data)]
    for line in axes.lines:
        corners = np.asarray(line.get_xydata(), float)
        if line.get_linestyle() != "None" and len(corners):  # a line without points is only for the legend
            steps = np.linspace(0, len(corners) - 1, 20 * len(corners))  # of many short pieces
            curve = np.column_stack([np.interp(steps, np.arange(len(corners)), column) for column in corners.T])
            lines.append(np.hstack([curve[:-1], curve[1:]]))
    name_points(
        axes,
        named[["x", "y"]].to_numpy(float),
        named["name"].astype(str).tolist(),
        dots=data[["x", "y"]].dropna().to_numpy(float),
        lines=np.vstack([np.empty((0, 4)), *lines]),
        colour=MUTED,
    )


def lowess(x: pd.Series, y: pd.Series) -> np.ndarray:
    """Return the smoothed curve ``(n, 2)`` through a cloud of points, by statsmodels' LOWESS without robust rounds.

    If many points share an x, a robust round gives most of a neighbourhood no weight, and the line of the rest runs far
    beyond the data. The line of a steep cloud is cut at its lowest and highest point. There is no line if one x has a
    whole neighbourhood of points.
    """
    from statsmodels.nonparametric.smoothers_lowess import lowess as smooth

    if x.value_counts().max() >= int(_LOWESS_SHARE * len(x)):
        return np.empty((0, 2))
    values = y.to_numpy(float)
    with np.errstate(invalid="ignore"):  # 0/0 within ties
        curve: np.ndarray = smooth(values, x.to_numpy(float), frac=_LOWESS_SHARE, it=0, return_sorted=True)
    finite: np.ndarray = curve[np.isfinite(curve).all(axis=1)]
    finite[:, 1] = finite[:, 1].clip(np.nanmin(values), np.nanmax(values))
    return finite


_STYLES: tuple[Any, ...] = ("-", (0, (4, 4)), (0, (1, 3)), (0, (6, 2, 1, 2)))
"""Styles of curves: the gaps of a later curve show the earlier one below."""


def _draw_curves(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    if labels.get("apart") and data["group"].nunique() > 1:
        _curves_apart(figure, data, labels)
        return
    axes = _axes(figure, WIDTH, min(3.8, 0.7 * figure.get_figwidth()))
    drawn: dict[bytes, str] = {}  # the first group of each curve
    for i, (group, rows) in enumerate(_split_groups(data)):
        first = drawn.setdefault(rows[["x", "value"]].to_numpy(float).round(9).tobytes(), group)
        name = group if first == group else f"{group} (the same curve as {first})"
        _curve(axes, rows, i, name, str(labels.get("x", "")))
    for place, colour in enumerate(labels.get("colours") or (), start=1):
        axes.plot([place], [-0.08], "s", ms=11, color=colour, mec=MUTED)
    _finish(axes, labels, no_bias="y")


def _curves_apart(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    """Draw a panel for each group on common axes, because overlapping bands look alike."""
    groups = _split_groups(data)
    n_rows = -(-len(groups) // 2)
    figure.set_size_inches(min(WIDTH, figure.get_figwidth()), 0.6 + 1.9 * n_rows)
    panels = figure.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False)
    for i, ((group, rows), axes) in enumerate(zip(groups, panels.flat, strict=False)):
        _curve(axes, rows, i, "", str(labels.get("x", "")))
        axes.set_title(group, fontsize=LETTERS, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=LETTERS)
        _show_whole_share(axes, "y", labels)
        if labels.get("null") is not None:
            axes.axhline(labels["null"], color=MUTED, lw=1, zorder=0)
    for axes in panels.flat[len(groups) :]:
        axes.set_axis_off()
    figure.supxlabel(spell_out_symbols(str(labels.get("x", ""))), fontsize=LETTERS)
    figure.supylabel(spell_out_symbols(str(labels.get("y", ""))), fontsize=LETTERS)


def _curve(axes: Axes, rows: pd.DataFrame, i: int, name: str, x_name: str) -> None:
    colour = COLOURS[i % len(COLOURS)]
    if (rows["x"] % 1 == 0).all():
        axes.locator_params(axis="x", integer=True)
    axes.plot(rows["x"], rows["value"], ls=_STYLES[i % len(_STYLES)], lw=1.8, color=colour, label=name or None)
    rows = rows[np.isfinite(rows["value"])].iloc[:: -(-len(rows) // _MOST_ON_CURVE)]
    (points,) = axes.plot(rows["x"], rows["value"], "o", ms=8, color=colour, alpha=0)  # carry the notes
    _add_notes(axes, points, rows.assign(name=[f"{spell_out_symbols(x_name)} {format_given(x)}" for x in rows["x"]]))
    if {"low", "high"} <= set(rows):
        low, high = rows["low"].to_numpy(float), rows["high"].to_numpy(float)
        axes.fill_between(rows["x"], low, high, color=colour, alpha=0.18, lw=0)


def _draw_space(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    figure.set_size_inches(5.6, 5.2)
    axes: Any = figure.add_subplot(projection="3d")
    floor = min(0.0, float(data["z"].min()))
    for i, row in enumerate(data.to_dict("records")):
        colour, marker = COLOURS[i % len(COLOURS)], _MARKERS[i // len(COLOURS) % len(_MARKERS)]
        at = [row["x"]] * 2, [row["y"]] * 2, [row["z"], floor]
        axes.plot(*at, "-", color=colour, lw=1, alpha=0.6)  # shows its place on the floor
        axes.plot(*(ends[:1] for ends in at), marker, ms=7, color=colour, label=str(row["name"]))
    for axis in "xyz":
        label = spell_out_symbols(str(labels.get(axis, "")))
        getattr(axes, f"set_{axis}label")(label, fontsize=LETTERS, labelpad=9)  # clear of the numbers
        getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(4))
        getattr(axes, f"{axis}axis").set_pane_color((1, 1, 1, 0))
    axes.tick_params(labelsize=LETTERS, pad=1)
    axes.set_box_aspect(None, zoom=0.8)  # room for the labels
    _legend_above(axes)


def _draw_heatmap(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    rows, columns = (list(dict.fromkeys(data[name])) for name in ("row", "column"))
    grid = data.pivot_table("value", "row", "column", sort=False).reindex(index=rows, columns=columns).to_numpy(float)
    longest = max((len(str(name)) for name in rows), default=0)
    height = 1.0 + ROW * max(3, len(rows))
    axes = _axes(figure, 1.8 + 0.6 * len(columns) + 0.06 * max(0, longest - 14), height)
    null = labels.get("null")
    reach = np.nanmax(np.abs(grid - (null or 0.0)))
    shares = {"vmin": 0.0, "vmax": 1.0} if str(labels.get("unit", "")).startswith(_SHARES) else {}
    scale = shares if null is None else {"vmin": null - reach, "vmax": null + reach}
    inks = [_PALE, COLOURS[0]] if null is None else [COLOURS[0], _PALE, COLOURS[1]]
    shown = axes.imshow(grid, aspect="auto", cmap=LinearSegmentedColormap.from_list("inks", inks), **scale)
    cells = data[np.isfinite(data["value"])].assign(name=data["row"], group=data["column"])
    at = cells["column"].map(columns.index), cells["row"].map(rows.index)
    (squares,) = axes.plot(*at, "s", ms=60 * ROW, alpha=0)  # carry the notes
    _add_notes(axes, squares, cells)
    unit = textwrap.fill(spell_out_symbols(str(labels.get("unit", ""))), int(_LABEL_LETTERS * (height - 1.0)))
    figure.colorbar(shown, ax=axes, label=unit)
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    for (i, j), value in np.ndenumerate(grid if grid.size <= _MOST_CELLS else np.empty((0, 0))):
        if np.isfinite(value):
            red, green, blue, _ = shown.cmap(shown.norm(value))
            # Dark or light text, as it contrasts better; both keep their colour in dark mode.
            colour = "#111111" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#fefefe"
            number = typeset(value, f".{0 if reach >= _TENS else 2}f")
            axes.text(j, i, number, ha="center", va="center", fontsize=LETTERS, color=colour)


def _draw_mosaic(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:  # noqa: ARG001
    """Draw columns as wide as their share, divided into the shares of the rows; the first row is at the bottom."""
    axes, left = _axes(figure, 5.2, 4.4), 0.0
    rows = list(dict.fromkeys(data["row"]))
    ticks = []
    for column, cells in data.groupby("column", sort=False):
        width, bottom = float(cells["value"].sum()), 0.0
        for cell in cells.to_dict("records"):
            height, place = (cell["value"] / width if width else 0.0), rows.index(cell["row"])
            axes.bar(
                left, height, width, bottom, align="edge", color=COLOURS[place % len(COLOURS)],
                alpha=0.75 if cell["small"] else 0.9,
                edgecolor="#fefefe", lw=2, hatch="//" if cell["small"] else None,
            )  # fmt: skip
            if height > _LEAST_NAMED < width / 2:
                between = "\n" if height > 3 * _LEAST_NAMED else ", "
                axes.text(
                    left + width / 2, bottom + height / 2, f"{height:.0%}{between}n = {cell['n']:,}", ha="center",
                    va="center", fontsize=LETTERS, color="#111111", bbox={"fc": "#fefefe", "ec": "none", "pad": 1.5},
                )  # fmt: skip
            bottom += height
        ticks.append((left + width / 2, f"{column}\n{width:.0%}"))
        left += width
    for i, row in enumerate(rows):
        axes.bar(0, 0, color=COLOURS[i % len(COLOURS)], label=row)
    axes.axhline(float(data["null"].iloc[0]), ls="--", lw=1.2, color=INK, label="if they were independent")
    axes.set_xticks(*zip(*ticks, strict=True))
    axes.set_xlim(0, left)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    _legend_above(axes)


def _draw_pictures(figure: Figure, data: pd.DataFrame, labels: dict[str, Any]) -> None:  # noqa: ARG001
    rows, columns = (list(dict.fromkeys(data[name])) for name in ("row", "column"))
    figure.set_size_inches(1.2 * len(columns) + 0.8, 1.35 * len(rows) + 0.3)
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for row in data.to_dict("records"):
        axes = grid[rows.index(row["row"])][columns.index(row["column"])]
        with Image.open(row["path"]) as image:
            axes.imshow(np.asarray(image.convert("RGB")))
        axes.set_title(textwrap.fill(str(row.get("text", "") or ""), _TITLE_LETTERS), fontsize=LETTERS)


def _axes(figure: Figure, width: float, height: float) -> Axes:
    figure.set_size_inches(min(width, figure.get_figwidth()), max(height, 1.8))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=LETTERS)
    return axes


def _reach(rows: pd.DataFrame, value: str = "value", ends: str = "") -> Any:
    """Return the reach of each interval to both sides, ``(2, n)``; 0 without an interval or for an infinite end."""
    bounds = rows[[f"{ends}low", f"{ends}high"]].to_numpy(float).T
    return np.nan_to_num(np.abs(bounds - rows[value].to_numpy(float)), posinf=0.0)


def _error_bars(axes: Axes, rows: pd.DataFrame, places: Any, i: int, group: str) -> None:
    drawn = axes.errorbar(
        rows["value"], places, xerr=_reach(rows), fmt=_MARKERS[i % len(_MARKERS)], ms=5, capsize=2,
        color=COLOURS[i % len(COLOURS)], label=group or None,
    )  # fmt: skip
    drawn[0].set_clip_on(False)  # a dot at the end of a short axis stays whole
    _add_notes(axes, drawn[0], rows)


def _add_notes(axes: Axes, artist: Any, rows: pd.DataFrame, value: str = "value", ends: str = "") -> None:
    """Keep the value, interval and n of each mark of an artist, for pages."""
    rows = rows[np.isfinite(rows[value].to_numpy(float))]
    figure = axes.get_figure(root=True)
    kept: dict[str, list[str]] = figure.__dict__.setdefault(_NOTES, {})
    artist.set_gid(f"marks-{len(kept)}")
    kept[f"marks-{len(kept)}"] = [_note(row, value, ends) for row in rows.to_dict("records")]


def _note(row: Mapping[Any, Any], value: str, ends: str) -> str:
    """Return the name, value, interval and n of a mark in words.

    >>> _note({"name": "man", "group": "fair", "value": 0.5, "low": 0.25, "high": 0.75, "n": 16}, "value", "")
    'man, fair: 0.50 [0.25, 0.75], n = 16'
    """
    name = ", ".join(str(row[column]) for column in ("name", "group", "marker") if row.get(column))
    low, high, n = (row.get(column, math.nan) for column in (f"{ends}low", f"{ends}high", "n"))
    number = format_estimate(row[value], low, high)
    return f"{name}: {number}" + ("" if pd.isna(n) else f", n = {n:,.0f}")


def _split_groups(data: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each group, in order of appearance; one group "" if there is no such column."""
    data = data.reset_index(drop=True)
    if "group" not in data:
        return [("", data)]
    return [(str(group), rows) for group, rows in data.groupby("group", sort=False)]


def _finish(axes: Axes, labels: dict[str, Any], names: Any = None, *, no_bias: str = "x") -> None:
    """Add the line of "no bias", the names of rows with the first on top, axis labels and legend."""
    if labels.get("null") is not None:
        (axes.axvline if no_bias == "x" else axes.axhline)(labels["null"], color=MUTED, lw=1, zorder=0)
    if names is not None:
        name_rows(axes, names)
    for axis in labels.keys() & {"x", "y"}:
        label = spell_out_symbols(str(labels[axis]))
        room = _estimate_mark_width(axes) if axis == "x" else _get_height(axes) - 0.9
        label = textwrap.fill(label, int(_LABEL_LETTERS * room), break_long_words=False)
        if axis == "x":
            _set_height(axes, _get_height(axes) + _LINE * label.count("\n"))
        getattr(axes, f"set_{axis}label")(label, fontsize=LETTERS)
        _show_whole_share(axes, axis, labels)
    _legend_above(axes)


def _show_whole_share(axes: Axes, axis: str, labels: Mapping[str, Any]) -> None:
    """Let an axis with shares of pictures go from 0 to 100 %, whatever the data."""
    (low, high), shares = getattr(axes.dataLim, f"interval{axis}"), str(labels.get(axis, ""))
    if shares.startswith(_SHARES) and low >= 0 and high <= 1:
        getattr(axes, f"set_{axis}lim")(-0.04, 1.04)  # a dot at an end stays whole
        getattr(axes, f"set_{axis}ticks")(
            np.linspace(0, 1, 5 if axis == "y" or _estimate_mark_width(axes) > _FEW_TICKS else 3)
        )
        getattr(axes, f"{axis}axis").set_major_formatter("{x:.0%}")
    elif axis == "x" and labels.get("from_zero") and low >= 0:
        axes.set_xlim(left=-0.04 * high)


def _get_height(axes: Axes) -> float:
    height: float = axes.get_figure(root=True).get_figheight()  # type: ignore[union-attr]
    return height


def _set_height(axes: Axes, height: float) -> None:
    axes.get_figure(root=True).set_figheight(height)  # type: ignore[union-attr]


def _estimate_mark_width(axes: Axes) -> float:
    """Return about how many inches the names of rows leave to the marks."""
    lines = [line for tick in axes.get_yticklabels() for line in tick.get_text().splitlines()]
    width: float = axes.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    return max(_LEAST_ROOM, width - max(map(len, lines), default=4) / _LABEL_LETTERS - 0.35)


def _legend_above(axes: Axes) -> None:
    """Put the legend, if there is anything to explain, above the axes, where it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    if not handles:
        return
    from matplotlib.transforms import blended_transform_factory

    figure = axes.get_figure(root=True)
    room = int(_LEGEND_LETTERS * figure.get_figwidth())  # type: ignore[union-attr]
    names = [textwrap.fill(spell_out_symbols(str(name)), room - _KEY_LETTERS, break_on_hyphens=False) for name in names]
    longest = max(len(line) for name in names for line in name.splitlines())
    columns = max(1, min(5, room // (_KEY_LETTERS + longest)))
    axes.legend(
        handles, names, fontsize=LETTERS, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns,
        borderaxespad=0.2, handletextpad=0.5,
        bbox_transform=blended_transform_factory(figure.transFigure, axes.transAxes),  # type: ignore[union-attr]
    )  # fmt: skip


_DRAW: dict[str, Callable[[Figure, pd.DataFrame, dict[str, Any]], None]] = {
    "intervals": _draw_intervals,
    "pairs": _draw_pairs,
    "bars": _draw_bars,
    "distributions": _draw_distributions,
    "arrows": _draw_arrows,
    "scatter": _draw_scatter,
    "curves": _draw_curves,
    "space": _draw_space,
    "heatmap": _draw_heatmap,
    "mosaic": _draw_mosaic,
    "pictures": _draw_pictures,
}


NARROW = 3.05  # inches: letters stay legible at the width of a phone
_MAIN_PLOT = 5.0  # inches, for figures with numbers in cells or names at dots
_IN_ROWS = ("intervals", "pairs", "bars", "distributions", "arrows", "curves")
_FEW: Mapping[str, int] = {"scatter": 24, "mosaic": 3}  # points or columns that fit a narrow figure
_LONG_NAME = 30  # letters: longer names of dots or in the legend do not fit a narrow figure
_MOST_DRAWN = 64  # drawings kept for the next page or report
DRAWING = threading.Lock()  # rc_context is global to the process
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_GROUP, _TEXT = f"{{{_SVG}}}g", f"{{{_SVG}}}text"
_TICK = 7.0  # points from the axis to the name of a row
ET.register_namespace("", _SVG)
ET.register_namespace("xlink", _LINK)
_INKS = {
    **{colour: f"var(--c{i})" for i, colour in enumerate(COLOURS)},
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    "#ffffff": "var(--surface)",
    "#b0b0b0": "var(--line)",  # matplotlib's grid
    "#cccccc": "var(--line)",
}
_COLOUR, _FONT = re.compile("|".join(_INKS)), re.compile(r"font(-family)?: ([\d.]+px )?'[^;]*")


def figure_svg(
    figure: StudyFigure,
    numbers: str = "download the data as CSV below",
    marks: Mapping[str, str] | None = None,
    width: float = WIDEST,
) -> str:
    """Return the figure as SVG; its label for screen readers says where the same ``numbers`` are.

    It is at most ``width`` inches wide with letters of the same size, for narrow pages. The names of marks in ``marks``
    become buttons with the given data.
    """
    drawn = _drawn_for_page(figure, width)
    root = ET.fromstring(drawn.svg)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    narrow = " narrow" if drawn.width <= NARROW else ""
    root.attrib |= {"role": "img", "class": f"plot{narrow}", "aria-label": f"{figure.title}; {numbers}"}
    _join_lines(root)
    has_notes = _note_marks(root, drawn.notes, marks or {})
    if (marks and _name_marks(root, marks)) or has_notes:
        root.attrib["role"] = "group"  # an image has no buttons
    for element in root.iter():
        if style := element.get("style"):
            element.set("style", _FONT.sub(_font, _COLOUR.sub(lambda colour: _INKS[colour[0]], style)))
    return ET.tostring(root, encoding="unicode")


@dataclass(frozen=True, kw_only=True)
class _Drawn:
    svg: bytes  # as matplotlib writes it
    width: float  # in inches
    notes: Mapping[str, Sequence[str]]  # texts of each artist's marks, by its id


@lru_cache(_MOST_DRAWN)
def _drawn_for_page(figure: StudyFigure, width: float) -> _Drawn:
    """Draw the figure at most ``width`` inches wide; a page and its report share the drawing, which takes longest."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with DRAWING, mpl.rc_context({"svg.fonttype": "none"}):
        drawn = draw(figure, widest=width)
        for patch in (drawn.patch, *(axes.patch for axes in drawn.axes)):
            patch.set_alpha(0)
        drawn.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _Drawn(svg=buffer.getvalue(), width=drawn.get_figwidth(), notes=getattr(drawn, _NOTES, {}))


def page_width(figure: StudyFigure, marks: Mapping[str, str] | None = None) -> float:
    """Return the maximum width of a figure in inches; rows, curves, and few points or columns fit a phone."""
    columns = ("group",) if figure.kind in _IN_ROWS else ("name", "group")  # names of rows have lines enough
    names = [str(name) for column in columns if column in figure.data for name in figure.data[column]]
    are_short = max(map(len, names), default=0) <= _LONG_NAME
    if figure.kind in _IN_ROWS and (marks is not None or are_short):
        return NARROW
    n = figure.data["column"].nunique() if figure.kind == "mosaic" else len(figure.data)
    if are_short and n <= _FEW.get(figure.kind, 0):
        return NARROW
    return WIDEST if marks is None else _MAIN_PLOT


def _join_lines(root: ET.Element) -> None:
    """Align the ends of a row's name of several lines with names of one line."""
    for tick in (group for group in root.iter(_GROUP) if group.get("id", "").startswith("ytick_")):
        edge = next((float(mark.attrib["x"]) - _TICK for mark in tick.iter(f"{{{_SVG}}}use")), None)
        for group in tick.iter(_GROUP):
            lines = group.findall(_TEXT)
            if edge is None or len(lines) < 2:
                continue
            for line in lines:
                line.set("style", f"{line.get('style', '')}; text-anchor: end")
                line.set("transform", re.sub(r"\([-\d.]+", f"({edge:g}", line.get("transform", "")))


def _note_marks(root: ET.Element, notes: Mapping[str, Sequence[str]], marks: Mapping[str, str]) -> bool:
    """Give each mark its note, which pointer and keyboard show; return True if there are any.

    Of very many marks only the pointer shows the notes. A mark with a name in ``marks`` is a button, as its name is.
    """
    names = sorted(marks, key=len, reverse=True)
    n_marks, is_few = 0, sum(map(len, notes.values())) <= _MOST_NAMED
    for group in root.iter(_GROUP):
        texts = notes.get(group.attrib.get("id", ""), ())
        places = list(group.iter(f"{{{_SVG}}}use")) or [group]
        if not texts or len(places) != len(texts):
            continue
        n_marks += len(texts)
        for place, text in zip(places, texts, strict=True):
            place.attrib |= {"data-note": text, "role": "img", "aria-label": text, "class": "mark"}
            if name := next((name for name in names if text.startswith((f"{name}:", f"{name},"))), ""):
                place.attrib |= {"data-pictures": marks[name], "role": "button"}
            if is_few:
                place.attrib["tabindex"] = "0"
    return n_marks > 0


def _name_marks(root: ET.Element, marks: Mapping[str, str]) -> int:
    """Turn the names of marks in a drawing into buttons; return their number."""
    n_named, by_name = 0, {" ".join(name.split()): name for name in marks}
    for group in root.iter(_GROUP):
        lines = group.findall(_TEXT)
        name = by_name.get(_join_text(lines))
        if name is None:
            continue
        n_named += 1
        for line in lines:
            line.attrib |= {"data-pictures": marks[name], "class": "mark-name"}
        lines[0].attrib |= {"tabindex": "0", "role": "button", "aria-label": f"Show the pictures of {name}"}
    return n_named


def _join_text(lines: Sequence[ET.Element]) -> str:
    return " ".join((line.text or "").strip() for line in lines)


def _font(declaration: re.Match[str]) -> str:
    return f"font: {declaration[2].strip()} var(--font)" if declaration[2] else "font-family: var(--font)"
