"""The pictures at both ends of a measure, side by side; each opens large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bias_core.ui.study.pictures import picture_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.types import StudyReport

AT_EACH_END = 4


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


def extremes_html(
    report: StudyReport, column: str, ends: Sequence[Ends], *, low: str, high: str, note: str = ""
) -> str:
    """The lowest and highest pictures of each group by a column of numbers; "" where there are too few.

    ``low`` and ``high`` say in words what the two ends are; with a ``note`` they stand in a card.
    """
    groups = []
    for end in ends:
        rows = end.frame.dropna(subset=[column]).sort_values(column, kind="stable")
        if n := min(AT_EACH_END, len(rows) // 2):
            sides = ((low, rows.head(n)), (high, rows.tail(n).iloc[::-1]))
            groups.append((end.title, [(words, some.to_dict("records")) for words, some in sides]))
    if not groups:
        return ""
    return render("extremes", groups=groups, column=column, stored=report.stored, note=note)


def opened_html(report: StudyReport | None, image_id: str) -> str:
    """One of these pictures large; nothing for an id that is not of this report."""
    if report is None or report.pictures is None:
        return ""
    rows = report.pictures[report.pictures["image_id"] == image_id]
    return "" if rows.empty else picture_html(report, rows.iloc[0])
