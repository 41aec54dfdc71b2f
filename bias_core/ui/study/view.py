"""A study's report as HTML: what was found, its figures and its tables, each with what can be taken along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bias_core.metrics.cards import METRICS, load_references
from bias_core.studies.kit.types import StudyTable
from bias_core.studies.reports.text import (
    LIMITS,
    arms_overview,
    drawn_by,
    finding_rows,
    finding_table,
    finding_text,
    is_known,
    size_in_words,
    title_of,
)
from bias_core.ui.study.downloads import FINDINGS
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from bias_core.studies.kit.types import StudyFigure, StudyReport

NULL = "no bias reads"
FEW, FEW_DIFFERENCES = 14, 6  # findings that are shown without being asked for
TAKE_JS = script("choose")


def header_html(report: StudyReport, headline: str) -> str:
    """What was found, in a sentence; what it was found on, in a line; what must be known, in notes."""
    settings, design = report.settings, report.design
    scored = " scored" if report.results.findings or report.results.figures else ""
    lines = [
        title_of(report),
        f"{report.n_images:,} of {report.n_planned:,} pictures{scored}",
        *([f"{report.n_blocked:,} blocked by the model's safety checker"] if report.n_blocked else []),
        drawn_by(report),
        f"read by {settings.encoder}",
        *([size_in_words(design, settings)] if report.design.reference else []),
        f"{settings.confidence:.0%} intervals",
        *([f"after {_work(design.reference)}, {design.where}"] if design.reference else []),
    ]
    return render("report_header", warning=report.warning, headline=headline, lines=lines)


def _work(key: str) -> str:
    """Names and year of a reference; its key where the bibliography does not have it."""
    works = load_references()
    return works[key].short if key in works else key


def found_html(report: StudyReport, null: str = NULL) -> str:
    """What is shown first: of several arms their numbers and ranks, then the findings."""
    return render("by_arm", tables=arms_overview(report)) + findings_html(report, null)


def findings_html(report: StudyReport, null: str = NULL) -> str:
    """Every number of the study with its interval drawn, its n, null value (called ``null``) and sentence."""
    rows = finding_rows(report)
    if not rows:
        return ""
    optional = {"tested": "p_value", "published": "published", "drawn": "drawn"}
    return render(
        "findings",
        rows=rows,
        text_of=finding_text,
        scales=_scales(rows),
        null=null,
        few=FEW_DIFFERENCES if report.arms else FEW,
        title="Differences between the arms" if report.arms else "The numbers",
        measures=[METRICS[key] for key in dict.fromkeys(f.metric for f in report.results.findings)],
        **{name: any(is_known(row[key]) for row in rows) for name, key in optional.items()},
    )


def _scales(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The common axis of each measure's small drawings."""
    keys = ("value", "low", "high", "null_value", "published", "drawn")
    values: dict[str, list[float]] = {row["measure"]: [] for row in rows}
    for row in rows:
        values[row["measure"]] += [float(row[key]) for key in keys if is_known(row[key])]
    return {measure: (min(some), max(some)) if some else (0.0, 1.0) for measure, some in values.items()}


def figures_html(figures: Sequence[StudyFigure]) -> str:
    """Each figure as a card; pictures in rows are left to the tab that shows them."""
    drawn = [figure for figure in figures if not figure.data.empty]
    return render("figures", figures=drawn) if drawn else ""


def tables_html(tables: Sequence[StudyTable]) -> str:
    """Each table, closed until it is asked for, in its first rows."""
    return render("tables", tables=tables)


def arms_html(report: StudyReport) -> str:
    """What was found in each arm by itself, closed until it is asked for."""
    parts = []
    for number, arm in enumerate(report.arms, start=1):
        findings = StudyTable(key=FINDINGS, title="Findings", frame=finding_table(arm.results))
        tables = [replace(t, key=f"{number}/{t.key}") for t in (findings, *arm.results.tables)]
        parts.append((arm, tables))
    return render("arms", arms=parts)


def frame_html(frame: pd.DataFrame, name: str) -> str:
    """A data frame as a plain table, of a long one both ends."""
    return render("frame", frame=frame, name=name)


def notes_html(report: StudyReport) -> str:
    """What was noticed on the way, and what none of it says."""
    notes = list(report.results.notes)
    if report.unknown_words:
        notes.append(f"This world does not know: {', '.join(report.unknown_words)}. It was drawn without it.")
    return render("notes", notes=notes, limits=LIMITS)
