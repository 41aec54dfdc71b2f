"""What a study found, in a sentence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bias_core.studies.report import format_number
from bias_core.studies.study_report import finding_rows

if TYPE_CHECKING:
    from bias_core.studies.study_types import StudyReport


def headline(report: StudyReport) -> str:
    """What stands out of a report: how many findings exclude their null value, and the clearest of them."""
    rows = [row for row in finding_rows(report) if _testable(row)]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show what was found."
    away = [row for row in rows if not row["low"] <= row["null_value"] <= row["high"]]
    if not away:
        return f"No clear departure from “no bias” in {len(rows)} numbers: none is shown, none is ruled out."
    lead = max(
        away, key=lambda row: min(abs(row["low"] - row["null_value"]), abs(row["high"] - row["null_value"]))
    )
    says = f" {lead['says']}" if lead["says"] else ""
    return (
        f"{len(away)} of {len(rows)} numbers depart clearly from “no bias”. Clearest: {lead['finding']}, "
        f"{format_number(lead['value'])} [{format_number(lead['low'])}, {format_number(lead['high'])}].{says}"
    )


def _testable(row: dict[str, Any]) -> bool:
    values = (row["low"], row["high"], row["null_value"])
    return all(value is not None and math.isfinite(value) for value in values)
