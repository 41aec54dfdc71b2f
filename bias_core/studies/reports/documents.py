"""A whole report as JSON values, and as Markdown for a person to read."""

from dataclasses import asdict
from functools import cache
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template

from bias_core.exchange.markdown import in_markdown
from bias_core.metrics.cards import work
from bias_core.studies.kit.designs import known_study
from bias_core.studies.kit.types import ArmReport, Measured, StudyReport
from bias_core.studies.reports.claims import claim, claims
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.text import (
    LIMITS,
    Row,
    arm_folder,
    arms_overview,
    drawn_by,
    excerpt,
    finding_frame,
    finding_rows,
    finding_text,
    further_tables,
    markdown_table,
    notes_of,
    plain,
    read_by,
    size_in_words,
    title_of,
)


def to_dict(report: StudyReport) -> Row:
    """Everything as JSON values; nan becomes None."""
    study = known_study(report.design)
    values = {
        "warning": report.warning,
        "run_id": report.run_id,
        "study": report.design.name,
        "title": title_of(report),
        "headline": headline(report),
        "reference": report.design.reference,
        **_measured(report),
        "claims": claims(report),
        "unknown_words": list(report.unknown_words),
        "limits": LIMITS,
        "stop_rule": report.stop_rule,
        "versions": dict(report.versions),
        "seconds": round(report.seconds, 3),
        **(study.facts(report).values if study else {}),
    }
    if report.arms:
        values["arms"] = [{"name": arm.name, **_measured(arm)} for arm in report.arms]
    return dict(plain(values))


def _measured(of: Measured) -> Row:
    results = of.results
    return {
        "warning": of.warning,
        "settings": asdict(of.settings),
        "findings": finding_rows(of),
        "tables": {t.key: _records(t.frame) for t in results.tables},
        "figures": {f.key: {"kind": f.kind, "data": _records(f.data)} for f in results.figures},
        "notes": list(results.notes),
        "n_planned": of.n_planned,
        "n_images": of.n_images,
        "n_blocked": of.n_blocked,
    }


def to_markdown(report: StudyReport, *, beside: bool = True) -> str:
    """The report as a person reads it: what was found, the figures, and the tables with their ends.

    ``beside`` says that figures and tables stand beside it as files, as in a zip or folder.
    """
    design, settings = report.design, report.settings
    size = f"; {size_in_words(design, settings)}" if design.reference else ""
    return _template().render(
        report=report,
        beside=beside,
        title=title_of(report),
        headline=headline(report),
        source=f" After {work(design.reference)}, {design.where}." if design.reference else "",
        how=f" of {drawn_by(report)}, read by {read_by(settings)}{size}",
        overview=arms_overview(report),
        findings=finding_frame(report),
        further=further_tables(report),
        folder_of=lambda arm: f"{arm_folder(report, arm)}/",
        notes=notes_of(report),
        claim=claim(report),
        limits=LIMITS,
    )


@cache
def _template() -> Template:
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.filters |= {"in_markdown": in_markdown, "excerpt": excerpt, "markdown": markdown_table}
    made.filters["findings"] = _findings_of_arm
    return made.from_string((Path(__file__).parent / "report.md.jinja").read_text(encoding="utf-8"))


def _findings_of_arm(arm: ArmReport) -> pd.DataFrame:
    return pd.DataFrame([finding_text(row) for row in finding_rows(arm)])


def _records(frame: pd.DataFrame) -> list[Row]:
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]
