"""A study's report as plain values, as text and as files."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.cards import METRICS
from bias_core.studies.kit.designs import programs_by_kind
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.kit.types import (
    ArmReport,
    Design,
    Finding,
    Measured,
    Results,
    StudyReport,
    StudySettings,
    StudyTable,
)
from bias_core.studies.reports.number_text import (
    NO_NULL,
    NOT_PUBLISHED,
    excerpt_lines,
    format_given,
    format_interval,
    format_number,
    format_p,
    one_line,
)

Row = dict[str, Any]

LIMITS = (
    "Attributes are perceived ones: what a picture shows to a classifier, never what anybody is. "
    "The classifier errs; without its measured error rates a share can be wrong by more than its interval. "
    "Intervals cover the chance of drawing these pictures, not other prompts, models or readers."
)
_LONGEST_FOLDER = 40


def title_of(report: StudyReport) -> str:
    """What a report is of: the design's title, or what its settings ask for in words of one's own."""
    program = programs_by_kind().get(report.design.kind)
    return report.design.title if program is None else program.title(report.design, report.settings)


def finding_rows(report: StudyReport) -> list[Row]:
    """One row per finding: what every front end shows first."""
    return [_finding_row(finding) for finding in report.results.findings]


def finding_table(results: Results) -> pd.DataFrame:
    """The findings as a table of numbers."""
    return pd.DataFrame([_finding_row(finding) for finding in results.findings])


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
        "drawn": finding.expected,
        "says": finding.says,
        "method": estimate.method,
        "note": estimate.note,
    }


def to_dict(report: StudyReport) -> Row:
    """Everything as JSON values; nan becomes None."""
    program = programs_by_kind().get(report.design.kind)
    values = {
        "warning": report.warning,
        "run_id": report.run_id,
        "study": report.design.name,
        "title": title_of(report),
        "reference": report.design.reference,
        **_measured(report),
        "unknown_words": list(report.unknown_words),
        "limits": LIMITS,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        **(program.values(report) if program else {}),
    }
    if report.arms:
        values["arms"] = [{"name": arm.name, **_measured(arm)} for arm in report.arms]
    return dict(plain(values))


def _measured(of: Measured) -> Row:
    results = of.results
    return {
        "warning": of.warning,
        "settings": asdict(of.settings),
        "findings": [_finding_row(finding) for finding in results.findings],
        "tables": {t.key: _records(t.frame) for t in results.tables},
        "figures": {f.key: {"kind": f.kind, "data": _records(f.data)} for f in results.figures},
        "notes": list(results.notes),
        "n_planned": of.n_planned,
        "n_images": of.n_images,
        "n_blocked": of.n_blocked,
    }


def plain(value: Any) -> Any:
    """``value`` with numpy's numbers as Python's and what is not finite as None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def size_in_words(design: Design, settings: StudySettings) -> str:
    """How much of the full design was drawn, and what was published where that is another number.

    >>> from bias_core.studies.kit.designs import find_design
    >>> from bias_core.studies.kit.types import StudySettings
    >>> size_in_words(find_design("tbyb-general"), StudySettings(scale=0.5))
    '50 % of the full size (published: 3,690 pictures of 369 prompts)'
    """
    share = f"{100 * settings.scale:g} % of the full size"
    return f"{share} (published: {design.published_size})" if design.published_size else share


def to_markdown(report: StudyReport, *, beside: bool = True) -> str:
    """The report as a person reads it: what was found, the figures, and the tables with their ends.

    ``beside`` says that figures and tables stand beside it as files, as in a zip or folder.
    """
    design, settings = report.design, report.settings
    folder = "" if beside else None
    source = f" After {design.reference}, {design.where}." if design.reference else ""
    size = f"; {size_in_words(design, settings)}" if design.reference else ""
    lines = [f"# {one_line(title_of(report))}", "", *_warning_lines(report), f"{design.summary}{source}", ""]
    lines += [f"{_counts(report, f' of {drawn_by(report)}, read by {settings.encoder}{size}')}", ""]
    for table in arms_overview(report):
        lines += [*_table_lines(table, folder)[1:], ""]
    lines += ["## Differences between the arms", ""] if report.arms else []
    lines += excerpt_lines(finding_frame(report), "findings.csv" if beside else "")
    lines += _figure_and_table_lines(report, folder, further_tables(report))
    for arm in report.arms:
        folder = f"{arm_folder(report, arm)}/" if beside else None
        rows = pd.DataFrame([finding_text(_finding_row(finding)) for finding in arm.results.findings])
        lines += ["", f"# Arm: {arm.name}", "", *_warning_lines(arm), _counts(arm), ""]
        lines += excerpt_lines(rows, "" if folder is None else f"{folder}findings.csv")
        lines += _figure_and_table_lines(arm, folder, arm.results.tables)
    notes = list(report.results.notes)
    if report.unknown_words:
        notes.append(f"This world does not know: {', '.join(report.unknown_words)}.")
    return "\n".join([*lines, "", *[f"- {note}" for note in notes], "", LIMITS, ""])


def _warning_lines(of: Measured) -> tuple[str, ...]:
    return (f"> **{one_line(of.warning)}**", "") if of.warning else ()


def _counts(of: Measured, how: str = "") -> str:
    return f"{of.n_images:,} of {of.n_planned:,} pictures{how}. {of.n_blocked:,} were blocked."


def _figure_and_table_lines(of: Measured, folder: str | None, tables: Sequence[StudyTable]) -> list[str]:
    """Figures and tables as Markdown; their files are below ``folder``, None: not beside the text."""
    lines: list[str] = []
    for figure in of.results.figures:
        drawing = f"![{figure.title}]({folder}figures/{figure.key}.svg)"
        drawing = drawing if folder is not None else "Its drawing is in the zip."
        lines += ["", f"## {figure.title}", "", drawing, "", figure.caption]
    return lines + [line for table in tables for line in _table_lines(table, folder)]


def _table_lines(table: StudyTable, folder: str | None) -> list[str]:
    file = "" if folder is None else f"{folder}tables/{table.key}.csv"
    note = [table.note, ""] if table.note else []
    return ["", f"## {table.title}", "", *note, *excerpt_lines(table.frame, file)]


def drawn_by(report: StudyReport) -> str:
    """What drew the pictures, in words: model and condition, or the names of the arms."""
    settings = report.settings
    if report.arms:
        return f"{len(report.arms)} arms ({', '.join(arm.name for arm in report.arms)})"
    condition = " and ".join(option_values(settings.options).get("conditions", ())) or settings.condition
    return f"{settings.model}, {condition}" if condition else settings.model


def arm_folder(report: StudyReport, arm: ArmReport) -> str:
    """Where the files of an arm lie in an export."""
    words = re.sub(r"[^\w-]+", "-", arm.name.lower()).strip("-")[:_LONGEST_FOLDER]
    return f"arms/{report.arms.index(arm) + 1}-{words or 'arm'}"


def arms_overview(report: StudyReport) -> list[StudyTable]:
    """What a comparison shows first: each number in each arm, and the arms' ranks, a line for each number."""
    tables = {table.key: table for table in report.results.tables} if report.arms else {}
    overview = [tables[key] for key in ("by_arm", "ranks") if key in tables]
    if "ranks" in tables:
        rows: dict[str, Row] = {}
        for row in tables["ranks"].frame.to_dict("records"):
            ends = f"{row['low']:g} to {row['high']:g}"
            text = f"{row['rank']:g} ({ends})" if is_known(row["rank"]) else "undefined"
            rows.setdefault(row["finding"], {"finding": row["finding"]})[row["arm"]] = text
        overview[-1:] = [replace(tables["ranks"], frame=pd.DataFrame(list(rows.values())))] if rows else []
    return overview


def further_tables(report: StudyReport) -> list[StudyTable]:
    """The tables that :func:`arms_overview` does not show."""
    shown = [table.key for table in arms_overview(report)]
    return [table for table in report.results.tables if table.key not in shown]


def finding_frame(report: StudyReport) -> pd.DataFrame:
    """The findings as text, for reading; what none of them has is left out."""
    rows = finding_rows(report)
    optional = {"p": "p_value", "published": "published", "drawn": "drawn"}
    absent = [name for name, key in optional.items() if not any(map(is_known, (row[key] for row in rows)))]
    return pd.DataFrame([finding_text(row) for row in rows]).drop(columns=absent if rows else [])


def is_known(value: float | None) -> bool:
    """Whether there is such a number."""
    return value is not None and math.isfinite(value)


def finding_text(row: Row) -> dict[str, str]:
    """A row of :func:`finding_rows` as text, with the digits that its interval or its n bears out."""
    ends, n = (row["low"], row["high"]), row["n"]
    return {
        "": row["finding"],
        "measure": row["measure"],
        "value": format_number(row["value"], *ends, n=n),
        "interval": format_interval(*ends, value=row["value"], n=n),
        "n": f"{n:,}",
        "p": format_p(row["p_value"]),
        "null": format_given(row["null_value"], absent=NO_NULL),
        "published": format_given(row["published"], *ends, n=n, absent=NOT_PUBLISHED),
        "drawn": format_given(row["drawn"], *ends, n=n),
        "reads": row["note"] or row["says"],
    }


def table_of(report: StudyReport, key: str) -> StudyTable:
    """The table of this key; KeyError lists the keys where there is none."""
    tables = {table.key: table for table in report.results.tables}
    if key not in tables:
        raise KeyError(f"no table {key!r}; there are {', '.join(tables)}")
    return tables[key]


def _records(frame: pd.DataFrame) -> list[Row]:
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]
