"""What the owner of a labelling task sees of it, as HTML."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from markupsafe import Markup

from bias_core.labels.report import COVERAGE, KIND, RATERS
from bias_core.studies.reports.number_text import format_estimate, format_number
from bias_core.ui.study.view import findings_html, frame_html, notes_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from bias_core.annotation.collected import TaskProgress
    from bias_core.annotation.task_owner import OwnerKey
    from bias_core.annotation.tasks import Status
    from bias_core.studies.kit.types import StudyReport

STATUS: dict[Status, str] = {
    "draft": "a draft: not open to raters yet",
    "open": "open",
    "paused": "paused: no new picture is given",
    "closed": "closed: no answer is taken",
}


def note(name: str, text: str = "") -> str:
    """A sentence of the tab by its name in ``label_notes``; ``text`` is that of a "line" or "heading"."""
    return render("label_notes", note=name, text=text)


def header_html(progress: TaskProgress, owner: OwnerKey) -> str:
    """The task, how it stands, and its two links; to an owner by sign-in its key is not known."""
    return render("label_header", progress=progress, owner=owner, status=STATUS[progress.task.status])


def progress_html(progress: TaskProgress, report: StudyReport, sync_error: str | None = None) -> str:
    """How far the task and each of its raters are.

    ``sync_error`` is of the copying to a hub: None where there is no copying, "" while all is well.
    """
    seconds = [one.median_seconds for one in progress.counted_raters if one.n_answered]
    tables = [
        (table.title, Markup(frame_html(table.frame, table.title)), table.note)
        for table in report.results.tables
        if table.key in (RATERS, COVERAGE)
    ]
    seconds_text = format_number(median(seconds)) if seconds else ""
    values = {"progress": progress, "tables": tables, "seconds": seconds_text, "sync_error": sync_error}
    return render("label_progress", **values)


def agreement_html(report: StudyReport) -> str:
    """What the answers say of agreement, in a sentence and in numbers."""
    findings = Markup(findings_html(report, "chance reads"))
    return render("label_findings", title="", headline=headline(report), findings=findings, notes="")


def used_html(report: StudyReport) -> str:
    """What people's labels give, without its pictures; a study's whole report is in the tab Runs."""
    findings, notes = Markup(findings_html(report)), Markup(notes_html(report))
    is_run = report.design.kind != KIND
    values = {"findings": findings, "notes": notes, "is_run": is_run, "headline": ""}
    return render("label_findings", title=report.design.title, **values)


def headline(report: StudyReport) -> str:
    """What the answers say of agreement, in a sentence."""
    estimates = {finding.key: finding.estimate for finding in report.results.findings}
    if "alpha" not in estimates:
        return "Not enough answers yet to say whether raters agree."
    alpha = estimates["alpha"]
    if math.isnan(alpha.value):
        return "All raters always gave the same answer, so agreement by chance is certain."
    agree = "Raters agree more than by chance" if alpha.low > 0 else "Agreement beyond chance is not shown"
    return (
        f"{agree}: Krippendorff’s α = "
        f"{format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)} (0 is chance, 1 is always)."
    )
