"""A report between server and page: its signed name, and its downloads."""

import hmac
import secrets
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd

from bias_core.errors import BiasCoreError, InvalidInput
from bias_core.report.export import FORMS, to_export, to_form
from bias_core.report.figures import to_bytes
from bias_core.report.report_text import finding_frame, finding_rows, markdown_table, readable, report_facts
from bias_core.report.saved import Newest, is_saved, open_report
from bias_core.services import Services
from bias_core.store.export import csv_bytes, write_zip
from bias_core.study.types import StudyReport, StudySettings

_SECRET = secrets.token_bytes(32)
_UNSAVED = Newest[StudyReport](200)
"""Shown reports that are not stored, by name: comparisons, labels by hand, examples."""
FIGURE_FORMS = ("png", "svg", "csv")
TABLE_FORMS = ("csv", "md", "tex")
FINDINGS = "findings"


def build_shown_report(key: str, services: Services) -> Any:
    """Return the hidden component with the shown report; handlers receive and return the report.

    The page holds only its name and the server nothing, so an open page keeps its report.
    """
    part = gr.HTML("", visible="hidden", elem_id=f"{key}-report")
    part.postprocess, part.preprocess = (
        partial(get_report_name, services=services),
        partial(find_report, services=services),
    )
    return part


def get_report_name(report: StudyReport | None, services: Services) -> str:
    """Return a report's name for a page; it is signed, so that a page cannot name other reports."""
    if report is None:
        return ""
    name = report.run_id
    if not is_saved(report, services):
        name += f"/{report.results.token}"
        _UNSAVED.put(name, report)
    return _sign_name(name)


def find_report(name: object, services: Services) -> StudyReport | None:
    """Return the report of a name by :func:`get_report_name`; None if it is no longer stored or the name is forged."""
    run_id = str(name).rpartition(":")[0]
    if not hmac.compare_digest(_sign_name(run_id).encode(), str(name).encode()):
        return None
    if not run_id.isalnum():
        return _UNSAVED.get(run_id)
    with suppress(BiasCoreError):  # the list of runs says why
        saved = open_report(run_id, services)
        return None if saved is None else hide_upload_paths(saved.report)
    return None


def _sign_name(name: str) -> str:
    return f"{name}:{hmac.new(_SECRET, name.encode(), 'sha256').hexdigest()}"


def hide_upload_paths(report: StudyReport) -> StudyReport:
    """The report for visitors, without the server's paths of uploads."""
    arms = tuple(replace(arm, settings=settings_by_name(arm.settings)) for arm in report.arms)
    return replace(report, settings=settings_by_name(report.settings), arms=arms)


def settings_by_name(settings: StudySettings) -> StudySettings:
    """The settings with the names of uploads in place of their paths."""
    arms = tuple(replace(arm, images=arm.images and Path(arm.images).name) for arm in settings.arms)
    return replace(settings, images=settings.images and Path(settings.images).name, arms=arms)


def take(report: StudyReport, download: str, folder: Path) -> Path:
    """Write the requested download into ``folder`` and return its path.

    ``download`` is ``figure:<key>:<form>``, ``table:<key>:<form>``, ``report::<form>`` with a form of
    :data:`FORMS`, or ``zip::zip``; the key of an arm's own figure or table is ``<number of the arm>/<key>``. It comes
    from the page, so anything else raises InvalidInput.
    """
    kind, _, key_and_form = download.partition(":")
    key, _, form = key_and_form.rpartition(":")
    name = f"{report.design.name}-{report.run_id}{'-' + key.replace('/', '-') if key else ''}.{form}"
    if kind == "zip":
        return write_zip(to_export(report, pictures=True), folder / f"{report.design.name}-{report.run_id}.zip")
    if "/" in key:
        number, _, key = key.partition("/")
        if number not in map(str, range(1, len(report.arms) + 1)):
            raise InvalidInput(f"this report has no arm {number!r}")
        report = replace(report, results=report.arms[int(number) - 1].results)
    figures = {figure.key: figure for figure in report.results.figures}
    tables = [FINDINGS, *(table.key for table in report.results.tables)]
    if (kind == "figure" and key not in figures) or (kind == "table" and key not in tables):
        raise InvalidInput(f"this report has no {kind} {key!r}")
    if kind == "report" and form in FORMS:
        content, name = to_form(report, form), f"{report.design.name}-{report.run_id}{FORMS[form].ending}"
    elif kind == "figure" and form in FIGURE_FORMS:
        content = (
            csv_bytes(figures[key].data)
            if form == "csv"
            else to_bytes(figures[key], form, facts=[*filter(None, [report.warning]), *report_facts(report)])
        )
    elif kind == "table" and form in TABLE_FORMS:
        content = _write_table(report, key, form)
    else:
        raise InvalidInput(f"there is no download named {download!r}")
    path = folder / name
    path.write_bytes(content)
    return path


def _write_table(report: StudyReport, key: str, form: str) -> bytes:
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
