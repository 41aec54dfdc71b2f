"""Names in a figure: of rows, in lines that leave half of it to the marks; of dots, none over another name or a dot."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_REACHES = (5.0, 9.0, 14.0, 20.0, 27.0, 35.0, 44.0, 54.0, 66.0, 80.0)  # points from the dot to its name
_ANGLES = np.radians([20, 0, -20, 160, 180, 200, 60, -60, 120, -120, 90, -90])
_DOT = 4.0  # half the width of a dot, in points
_FAR = 8.0  # from here on, a line joins the name to its dot
_CROSSED = 8.0  # points of reach that a name may go to keep off one more line
WIDTH = 6.4  # inches of most figures, where there is room
ROW, _LINE = 0.32, 0.15  # inches that a named row takes, and at least for each line of its name
MOST_ROWS = 400  # taller figures are not drawn by every program
_ROOM, _MOST_LINES = 7.5, 3  # letters of a row's name to an inch of the figure: about half of it; lines of a name
_MISLEADING = 60.0  # the same, to keep the line to its dot off another dot or name


def in_lines(name: object, width: float) -> list[str]:
    """The name of a row; in two or three lines, as long as each other, where it would take half of ``width`` inches.

    >>> in_lines("Plain, most stereotyped occupations", 4.0), in_lines("dark skin", 4.0)
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
    """Inches that named rows of a figure that is not yet as wide as it will be take together."""
    n_lines = max((len(in_lines(name, min(WIDTH, figure.get_figwidth()))) for name in names), default=1)
    return max(ROW, _LINE * n_lines) * min(len(names), MOST_ROWS)


def name_rows(axes: Axes, names: Sequence[object]) -> None:
    """Write names beside the rows 0, 1, 2, ... of a figure, the first on top."""
    figure = axes.get_figure(root=True)
    width = np.inf if figure is None else figure.get_figwidth()
    axes.set_yticks(range(len(names)), ["\n".join(in_lines(name, width)) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)


def name_points(
    axes: Axes, points: Floats, names: Sequence[str], *, dots: Floats, lines: Floats, colour: str, size: float = 7.0
) -> None:
    """Write each name near its point; call it last, when nothing else moves the axes.

    Around each point, places are tried from near to far, those of crowded points first. A place that would
    cover a dot, another name or the frame is not taken unless all do; one that crosses lines is, where the
    next free one is much farther.

    ``axes`` have everything else drawn; in data units, ``points`` are (n_names, 2), ``dots``, which no name may
    cover, (n_dots, 2), and ``lines``, which names should rather not cover, (n_lines, 4): x and y of both ends.
    """
    figure = axes.get_figure(root=True)
    if figure is None or not len(points):
        return
    figure.draw_without_rendering()  # the layout settles, and texts have a size
    pixels = figure.dpi / 72
    extents = []
    for name in names:
        text = axes.text(0, 0, name, fontsize=size)
        extent = text.get_window_extent()
        extents.append((extent.width + 2, extent.height + 1))  # with a little air
        text.remove()
    at, marks = axes.transData.transform(points), axes.transData.transform(dots)
    ends = axes.transData.transform(lines.reshape(-1, 2)).reshape(-1, 4)
    crossed = np.column_stack([np.minimum(ends[:, :2], ends[:, 2:]), np.maximum(ends[:, :2], ends[:, 2:])])
    taken = np.column_stack([marks - _DOT * pixels, marks + _DOT * pixels])
    frame = np.asarray(axes.bbox.extents)[np.newaxis]
    for i in _crowded_first(at):
        reaches, boxes = _places(at[i], extents[i], pixels)
        beyond = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - _overlap(boxes, frame)
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        leaders = _dots_between(at[i], centres, _DOT * pixels)  # (n_places, n_steps, 4)
        others = taken[~(np.abs(taken - np.tile(at[i], 2)) <= 2 * _DOT * pixels).all(axis=1)]
        misled = [_touches(leader, others).any(axis=0).sum() for leader in leaders]
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
            fontsize=size, color=colour, arrowprops=line if reaches[best] > _FAR else None,
            bbox={"facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.7, "pad": 0.4},
        )  # fmt: skip
        text.set_in_layout(False)


def _crowded_first(at: Floats) -> list[int]:
    """Numbers of the points, those with the most others near them first."""
    apart = np.abs(at[:, np.newaxis] - at).max(axis=2)
    neighbours = (apart < np.median(apart) / 2).sum(axis=1) if len(at) > 1 else np.zeros(1)
    return [int(i) for i in np.lexsort((at[:, 1], at[:, 0], -neighbours))]


def _places(at: Floats, extent: tuple[float, float], pixels: float) -> tuple[Floats, Floats]:
    """Reach in points, ``(n_places,)``, and box in pixels, ``(n_places, 4)``, of every place for a name."""
    reach, angle = (grid.ravel() for grid in np.meshgrid(_REACHES, _ANGLES, indexing="ij"))
    half = np.array(extent) / 2
    centre = at + np.column_stack([np.cos(angle), np.sin(angle)]) * (reach[:, np.newaxis] * pixels + half)
    return reach, np.column_stack([centre - half, centre + half])


def _dots_between(start: Floats, ends: Floats, beyond: float) -> Floats:
    """The line to each end as boxes without a size, from the rim of a dot on: ``(n_ends, n_steps, 4)``."""
    shares = np.linspace(beyond / np.hypot(*(ends - start).T), 1, 16).T[..., np.newaxis]
    steps = start + shares * (ends - start)[:, np.newaxis]
    return np.concatenate([steps, steps], axis=2)


def _meeting(boxes: Floats, others: Floats) -> Floats:
    """Width and height of what each box shares with each other, ``(n_boxes, n_others, 2)``; negative where apart."""
    low = np.maximum(boxes[:, np.newaxis, :2], others[:, :2])
    return np.asarray(np.minimum(boxes[:, np.newaxis, 2:], others[:, 2:]) - low)


def _overlap(boxes: Floats, others: Floats) -> Floats:
    """Pixels of each box that others cover, ``(n_boxes,)``."""
    return np.asarray(_meeting(boxes, others).clip(0).prod(axis=2).sum(axis=1))


def _touches(boxes: Floats, others: Floats) -> NDArray[np.bool_]:
    """Which boxes meet which others, that may be as thin as a line: ``(n_boxes, n_others)``."""
    return np.asarray((_meeting(boxes, others) >= 0).all(axis=2))
