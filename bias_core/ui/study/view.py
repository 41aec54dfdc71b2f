"""A study's report on the page: what was found, its figures and tables as HTML, and its pictures to choose from."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.metrics.cards import METRICS
from bias_core.studies.kit.protocol import CHECKLIST
from bias_core.studies.kit.types import StudyFigure, StudyReport, StudySettings, StudyTable
from bias_core.studies.reports import text
from bias_core.studies.reports.saved import Example, SavedReport
from bias_core.studies.running.checklist import DIFFERS, MET
from bias_core.ui.study.downloads import FINDINGS
from bias_core.ui.templates import render, script

NULL = "no bias reads"
FEW, FEW_DIFFERENCES = 14, 6  # findings that are shown without being asked for
CHOOSE_JS = script("choose")


def header_html(report: StudyReport, headline: str) -> str:
    """What was found, in a sentence; what it was found on, in a line; what must be known, in notes."""
    return render("report_header", warning=report.warning, headline=headline, lines=text.report_facts(report))


def beside_paper_html(report: StudyReport) -> str:
    """The numbers that the paper prints beside those of this run, then its protocol item by item, in sight at once."""
    parts = [("", report), *((f"{arm.name}: ", arm) for arm in report.arms)]
    rows = [(name, row) for name, part in parts for row in text.finding_rows(part) if text.is_known(row["published"])]
    texts = [(name, text.finding_text(row)) for name, row in rows]
    frame = text.table_of(report, CHECKLIST).frame
    status, names = frame["status"].tolist(), frame["item"]
    if "arm" in frame:
        names = (frame["arm"] + ": " + names).str.removeprefix(": ")  # an item that is of no arm
    items = frame.assign(item=names)[["item", "this run", "the paper", "status"]]
    return render(
        "beside_paper",
        size=text.size_in_words(report.design, report.settings).capitalize(),
        numbers=[(f"{name}{one['']}", f"{one['value']} {one['interval']}", one["published"]) for name, one in texts],
        items=items.to_numpy().tolist(),
        few=FEW,
        n_met=status.count(MET),
        n_printed=status.count(MET) + status.count(DIFFERS),
    )


def findings_html(report: StudyReport, null: str = NULL, marks: Mapping[str, str] | None = None) -> str:
    """Every number of the study with its interval drawn, its n, null value (called ``null``) and sentence."""
    rows = text.finding_rows(report)
    if not rows:
        return ""
    optional = {"tested": "p_value", "published": "published", "drawn": "drawn", "several_readers": "readers_low"}
    return render(
        "findings",
        rows=rows,
        text_of=text.finding_text,
        marks=marks or {},
        scales=_scales(rows),
        null=null,
        few=FEW_DIFFERENCES if report.arms else FEW,
        title="Differences between the arms" if report.arms else "",
        measures=[METRICS[key] for key in dict.fromkeys(f.metric for f in report.results.findings)],
        **{name: any(text.is_known(row[key]) for row in rows) for name, key in optional.items()},
    )


def _scales(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The common axis of each measure's small drawings."""
    keys = ("value", "low", "high", "null_value", "published", "drawn")
    values: dict[str, list[float]] = {row["measure"]: [] for row in rows}
    for row in rows:
        values[row["measure"]] += [float(row[key]) for key in keys if text.is_known(row[key])]
    return {measure: (min(some), max(some)) if some else (0.0, 1.0) for measure, some in values.items()}


def figures_html(figures: Sequence[StudyFigure], marks: Mapping[str, str] | None = None) -> str:
    """Each figure as a card; names of ``marks`` show their pictures. What has no data is left out."""
    drawn = [figure for figure in figures if not figure.data.empty]
    return render("figures", figures=drawn, marks=marks) if drawn else ""


def tables_html(tables: Sequence[StudyTable]) -> str:
    """Each table, closed until it is asked for, in its first rows."""
    return render("tables", tables=tables)


def arms_html(report: StudyReport) -> str:
    """What was found in each arm by itself, closed until it is asked for."""
    parts = []
    for number, arm in enumerate(report.arms, start=1):
        findings = StudyTable(key=FINDINGS, title="Findings", frame=pd.DataFrame(text.finding_rows(arm)))
        parts.append((arm, [replace(t, key=f"{number}/{t.key}") for t in (findings, *arm.results.tables)]))
    return render("arms", arms=parts)


def frame_html(frame: pd.DataFrame, name: str) -> str:
    """A data frame as a plain table, of a long one both ends."""
    return render("frame", frame=frame, name=name)


def notes_html(report: StudyReport) -> str:
    """What was noticed on the way, and what none of it says."""
    return render("notes", notes=text.notes_of(report), limits=text.LIMITS)


def by_name(report: StudyReport) -> StudyReport:
    """The report as a visitor may see it: where the server keeps an upload is nobody's business."""
    arms = tuple(replace(arm, settings=_by_name(arm.settings)) for arm in report.arms)
    return replace(report, settings=_by_name(report.settings), arms=arms)


def _by_name(settings: StudySettings) -> StudySettings:
    arms = tuple(replace(arm, images=arm.images and Path(arm.images).name) for arm in settings.arms)
    return replace(settings, images=settings.images and Path(settings.images).name, arms=arms)


def example_html(saved: SavedReport, example: Example | None = None) -> str:
    """What an example is and shows, in place of a run of one's own; None for a report that is no example."""
    report = saved.report
    settings, versions = report.settings, report.versions
    model = " · ".join(filter(None, (settings.model, settings.condition, versions.get("model_revision", ""))))
    names = ("bias_core", "torch", "diffusers", "transformers")
    shown = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    return render("example_note", created=when(saved.created), model=model, versions=shown, example=example)


def when(seconds: float) -> str:
    """A time of day in UTC, as 2026-11-21 09:30."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
