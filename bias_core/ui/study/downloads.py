"""What a visitor takes along from a study: a figure, a table, the report, or everything as one zip."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.exchange.export import csv_bytes, write_zip
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.table_text import markdown_table, readable
from bias_core.studies.reports.text import finding_frame, finding_rows, to_dict, to_markdown
from bias_core.studies.running.export import to_export

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.studies.kit.types import StudyFigure, StudyReport

FIGURE_FORMS = ("png", "svg", "pdf", "csv")
TABLE_FORMS = ("csv", "md", "tex")
FINDINGS = "findings"


def take(report: StudyReport, what: str, folder: Path) -> Path:
    """Write what was asked for into ``folder`` and say where.

    ``what`` is ``figure:<key>:<form>``, ``table:<key>:<form>``, ``report::json``, ``report::md`` or
    ``zip::zip``; what belongs to an arm alone has the key ``<number of the arm>/<key>``. It comes from the
    page, so anything else is an InvalidInput.
    """
    kind, _, rest = what.partition(":")
    key, _, form = rest.rpartition(":")
    name = f"{report.design.name}-{report.run_id}{'-' + key.replace('/', '-') if key else ''}.{form}"
    if "/" in key:
        number, _, key = key.partition("/")
        if number not in map(str, range(1, len(report.arms) + 1)):
            raise InvalidInput(f"this report has no arm {number!r}")
        report = replace(report, results=report.arms[int(number) - 1].results)
    if kind == "zip":
        return write_zip(to_export(report, pictures=True), folder / f"{report.design.name}-{report.run_id}.zip")
    if kind == "report" and form in ("json", "md"):
        text = (
            to_markdown(report, beside=False)
            if form == "md"
            else json.dumps(to_dict(report), indent=2, ensure_ascii=False)
        )
        return _write(folder / name, text.encode())
    if kind == "figure" and form in FIGURE_FORMS:
        return _write(folder / name, _figure_bytes(_figure(report, key), form))
    if kind == "table" and form in TABLE_FORMS:
        return _write(folder / name, _table_bytes(_table(report, key, form), form))
    raise InvalidInput(f"there is nothing to take by the name {what!r}")


def _figure(report: StudyReport, key: str) -> StudyFigure:
    for figure in report.results.figures:
        if figure.key == key:
            return figure
    raise InvalidInput(f"this report has no figure {key!r}")


def _table(report: StudyReport, key: str, form: str) -> pd.DataFrame:
    if key == FINDINGS:
        return pd.DataFrame(finding_rows(report)) if form == "csv" else finding_frame(report)
    for table in report.results.tables:
        if table.key == key:
            return table.frame
    raise InvalidInput(f"this report has no table {key!r}")


def _figure_bytes(figure: StudyFigure, form: str) -> bytes:
    return csv_bytes(figure.data) if form == "csv" else to_bytes(figure, form)


def _table_bytes(frame: pd.DataFrame, form: str) -> bytes:
    if form == "csv":
        return csv_bytes(frame)
    if form == "md":
        return (markdown_table(readable(frame)) + "\n").encode()
    text: str = readable(frame).to_latex(index=False, escape=True)
    return text.encode()


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
