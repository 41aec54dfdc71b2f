"""The pictures at both ends of a measure, side by side; each opens large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.studies.number_text import format_number
from bias_core.ui.pictures import data_uri
from bias_core.ui.study_pictures import picture_html

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.study_types import StudyReport

AT_EACH_END = 4
_SIZE = 112  # pixels of a thumbnail

OPEN_JS = """
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-image]');
  if (node) trigger('select', {image: node.dataset.image});
});
"""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Pictures that are compared with each other.

    Attributes
    ----------
    title : what they are of.
    frame : their rows of a report.
    """

    title: str
    frame: pd.DataFrame


def extremes_html(report: StudyReport, column: str, ends: Sequence[Ends], *, low: str, high: str) -> str:
    """The lowest and highest pictures of each group by a column of numbers.

    ``low`` and ``high`` say in words what the two ends are.
    """
    parts = []
    for end in ends:
        rows = end.frame.dropna(subset=[column]).sort_values(column, kind="stable")
        n = min(AT_EACH_END, len(rows) // 2)
        sides = ((low, rows.head(n)), (high, rows.tail(n).iloc[::-1]))
        inside = "".join(_end(report, text, some, column) for text, some in sides)
        if n:
            parts.append(f'<section><h4>{escape(end.title)}</h4><div class="ends">{inside}</div></section>')
    return f'<div class="extremes">{"".join(parts)}</div>' if parts else ""


def _end(report: StudyReport, text: str, rows: pd.DataFrame, column: str) -> str:
    thumbs = "".join(_thumb(report, row, column) for _, row in rows.iterrows())
    return f'<div><p class="quiet">{escape(text)}</p><div class="thumbs">{thumbs}</div></div>'


def _thumb(report: StudyReport, row: pd.Series[Any], column: str) -> str:
    value, prompt = format_number(float(row[column])), escape(f"{row['prompt']}, seed {row['seed']}")
    small = data_uri(report.stored[row["image_id"]].path, _SIZE)
    return (
        f'<button type="button" data-image="{escape(row["image_id"])}" title="{prompt}" '
        f'aria-label="{prompt}: {escape(column)} {value}; open"><img src="{small}" alt="">'
        f"<small>{value}</small></button>"
    )


def opened_html(report: StudyReport | None, image_id: str) -> str:
    """One of these pictures large; nothing for an id that is not of this report."""
    if report is None or report.pictures is None:
        return ""
    rows = report.pictures[report.pictures["image_id"] == image_id]
    return "" if rows.empty else picture_html(report, rows.iloc[0])
