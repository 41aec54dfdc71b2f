"""What a study found, in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bias_core.studies.arms.results import summary
from bias_core.studies.reports.number_text import format_estimate, format_given
from bias_core.studies.reports.text import finding_rows

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport


def headline(report: StudyReport) -> str:
    """What stands out of a report: how many findings exclude their null value, and the clearest of them."""
    if report.arms:
        return summary(report)
    rows = [row for row in finding_rows(report) if _testable(row)]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show what was found."
    away = [row for row in rows if not row["low"] <= row["null_value"] <= row["high"]]
    if not away:
        which = "The number is" if len(rows) == 1 else f"All {len(rows)} numbers are"
        return f"{which} compatible with “no bias”: no departure is shown, none is ruled out."
    lead = max(away, key=_clearance)
    if len(rows) == 1:
        return _spoken(lead)
    verb = "departs" if len(away) == 1 else "depart"
    return f"{len(away)} of {len(rows)} numbers {verb} clearly from “no bias”. Clearest: {_spoken(lead)}"


def _spoken(row: dict[str, Any]) -> str:
    number = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    null = format_given(row["null_value"])
    return f"{row['finding']}, {number}, where {null} would be no bias. {row['says']}".strip()


def _clearance(row: dict[str, Any]) -> float:
    """How far the null value lies outside of the interval, in widths of it."""
    outside = max(row["low"] - row["null_value"], row["null_value"] - row["high"])
    width = row["high"] - row["low"]
    return math.inf if width == 0 else outside / width


def _testable(row: dict[str, Any]) -> bool:
    values = (row["low"], row["high"], row["null_value"])
    return all(value is not None and math.isfinite(value) for value in values)
