"""What a visitor takes along from a study: a figure, a table, the report, or everything as one zip."""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.store.export import csv_bytes, write_zip
from bias_core.study.export import FORMS, to_export, to_form
from bias_core.study.figures import to_bytes
from bias_core.study.report_text import finding_frame, finding_rows, markdown_table, readable
from bias_core.study.types import StudyReport

FIGURE_FORMS = ("png", "svg", "csv")
TABLE_FORMS = ("csv", "md", "tex")
FINDINGS = "findings"


def take(report: StudyReport, what: str, folder: Path) -> Path:
    """Write what was asked for into ``folder`` and say where.

    ``what`` is ``figure:<key>:<form>``, ``table:<key>:<form>``, ``report::<form>`` with a form of
    :data:`FORMS`, or ``zip::zip``; what belongs to an arm alone has the key ``<number of the arm>/<key>``. It comes
    from the page, so anything else is an InvalidInput.
    """
    kind, _, rest = what.partition(":")
    key, _, form = rest.rpartition(":")
    name = f"{report.design.name}-{report.run_id}{'-' + key.replace('/', '-') if key else ''}.{form}"
    if kind == "zip":
        return write_zip(to_export(report, pictures=True), folder / f"{report.design.name}-{report.run_id}.zip")
    if "/" in key:
        number, _, key = key.partition("/")
        if number not in map(str, range(1, len(report.arms) + 1)):
            raise InvalidInput(f"this report has no arm {number!r}")
        report = replace(report, results=report.arms[int(number) - 1].results)
    figures = {one.key: one for one in report.results.figures}
    tables = [FINDINGS, *(one.key for one in report.results.tables)]
    if (kind == "figure" and key not in figures) or (kind == "table" and key not in tables):
        raise InvalidInput(f"this report has no {kind} {key!r}")
    if kind == "report" and form in FORMS:
        content, name = to_form(report, form), f"{report.design.name}-{report.run_id}{FORMS[form].ending}"
    elif kind == "figure" and form in FIGURE_FORMS:
        content = csv_bytes(figures[key].data) if form == "csv" else to_bytes(figures[key], form)
    elif kind == "table" and form in TABLE_FORMS:
        content = _table_bytes(report, key, form)
    else:
        raise InvalidInput(f"there is nothing to take by the name {what!r}")
    path = folder / name
    path.write_bytes(content)
    return path


def _table_bytes(report: StudyReport, key: str, form: str) -> bytes:
    if key == FINDINGS:
        frame = pd.DataFrame(finding_rows(report)) if form == "csv" else finding_frame(report)
    else:
        frame = report.results.frame(key)
    if form == "csv":
        return csv_bytes(frame)
    if form == "md":
        return f"{markdown_table(readable(frame))}\n".encode()
    text: str = readable(frame).to_latex(index=False, escape=True)
    return text.replace("−", "$-$").encode()
