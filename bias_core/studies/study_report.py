"""A study's report as plain values, as text and as files."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.registry import METRICS
from bias_core.studies.report import LIMITS, format_number

if TYPE_CHECKING:
    from bias_core.studies.study_types import Finding, StudyReport, StudyTable

Row = dict[str, Any]


def finding_rows(report: StudyReport) -> list[Row]:
    """One row per finding: what every front end shows first."""
    return [_finding_row(finding) for finding in report.results.findings]


def _finding_row(finding: Finding) -> Row:
    estimate, metric = finding.estimate, METRICS[finding.metric]
    return {
        "finding": finding.title,
        "measure": metric.name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "p_value": finding.p_value,
        "null_value": metric.null_value if estimate.null_value is None else estimate.null_value,
        "published": finding.published,
        "planted": finding.expected,
        "says": finding.says,
        "method": estimate.method,
        "note": estimate.note,
    }


def to_dict(report: StudyReport) -> Row:
    """Everything as JSON values; nan becomes None."""
    values: Row = plain(
        {
            "run_id": report.run_id,
            "study": report.design.name,
            "title": report.design.title,
            "reference": report.design.reference,
            "settings": asdict(report.settings),
            "findings": finding_rows(report),
            "tables": {t.key: _records(t.frame) for t in report.results.tables},
            "figures": {f.key: {"kind": f.kind, "data": _records(f.data)} for f in report.results.figures},
            "notes": list(report.results.notes),
            "n_planned": report.n_planned,
            "n_images": report.n_images,
            "n_blocked": report.n_blocked,
            "unknown_words": list(report.unknown_words),
            "limits": LIMITS,
            "versions": dict(report.versions),
            "seconds": round(report.seconds, 3),
        }
    )
    return values


def plain(value: Any) -> Any:
    """``value`` with numpy's numbers as Python's and what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_markdown(report: StudyReport) -> str:
    """The report as a person reads it."""
    design, settings = report.design, report.settings
    condition = " and ".join(settings.options.get("conditions", ())) or settings.condition
    model = f"{settings.model}, {condition}" if condition else settings.model
    source = f" After {design.reference}, {design.where}." if design.reference else ""
    size = f"; {100 * settings.scale:g} % of the published size" if design.reference else ""
    lines = [
        f"# {design.title}",
        "",
        f"{design.summary}{source}",
        "",
        f"{report.n_images:,} of {report.n_planned:,} pictures of {model}, read by {settings.encoder}{size}. "
        f"{report.n_blocked:,} were blocked.",
        "",
        markdown_table(finding_frame(report)),
    ]
    for table in report.results.tables:
        lines += ["", f"## {table.title}", "", table.note, "", markdown_table(rounded(table.frame))]
    for figure in report.results.figures:
        lines += [
            "",
            f"## {figure.title}",
            "",
            f"![{figure.title}](figures/{figure.key}.svg)",
            "",
            figure.caption,
        ]
    notes = list(report.results.notes)
    if report.unknown_words:
        notes.append(f"This world does not know: {', '.join(report.unknown_words)}.")
    lines += ["", *[f"- {note}" for note in notes], "", LIMITS, ""]
    return "\n".join(lines)


def finding_frame(report: StudyReport) -> pd.DataFrame:
    """The findings as text, for reading."""
    rows = []
    for row in finding_rows(report):
        low, high = format_number(row["low"]), format_number(row["high"])
        rows.append(
            {
                "": row["finding"],
                "measure": row["measure"],
                "value": format_number(row["value"]),
                "interval": f"{low} to {high}",
                "n": row["n"],
                "p": format_p(row["p_value"]),
                "null": format_number(row["null_value"]),
                "published": format_number(row["published"]),
                "planted": format_number(row["planted"]),
                "reads": row["note"] or row["says"],
            }
        )
    return pd.DataFrame(rows)


def format_p(p_value: float | None) -> str:
    """A p-value with three decimals, "< 0.001" below that, a dash where there is none."""
    return "< 0.001" if p_value is not None and p_value < 0.001 else format_number(p_value)


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Numbers as text of four digits; what is missing as a dash."""
    return frame.map(lambda v: format_number(float(v)) if isinstance(v, (float, np.floating)) else v)


def markdown_table(frame: pd.DataFrame) -> str:
    """A Markdown table; text cannot break out of its cell."""

    def cell(value: object) -> str:
        return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")

    head = [str(column) for column in frame.columns]
    rows = [head, ["---"] * len(head), *frame.astype(object).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cell(value) for value in row)} |" for row in rows)


def table_of(report: StudyReport, key: str) -> StudyTable:
    """The table of this key; KeyError lists the keys where there is none."""
    tables = {table.key: table for table in report.results.tables}
    if key not in tables:
        raise KeyError(f"no table {key!r}; there are {', '.join(tables)}")
    return tables[key]


def _records(frame: pd.DataFrame) -> list[Row]:
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]
