"""A section for the card of a model: what was measured of its pictures."""

from functools import cache
from pathlib import Path

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template

from bias_core.exchange.export import DatasetFacts
from bias_core.exchange.markdown import fenced, in_markdown
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.claims import claims
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.report_page import how_measured, works_of
from bias_core.studies.reports.text import LIMITS, finding_frame, markdown_table, notes_of

_MOST_CLAIMS, _MOST_NUMBERS = 3, 8


def to_model_card(report: StudyReport, export: DatasetFacts) -> str:
    """The section in Markdown; ``export`` are the facts that the dataset card has, too."""
    findings, left_out = _leading(report)
    return _template().render(
        headline=headline(report),
        warning=report.warning,
        claims=claims(report)[:_MOST_CLAIMS],
        findings=findings,
        left_out=left_out,
        limits=LIMITS,
        notes=notes_of(report),
        summary=report.design.summary,
        how=how_measured(report, export),
        command=export.command,
        works=works_of(report),
    )


def _leading(report: StudyReport) -> tuple[pd.DataFrame, str]:
    """The numbers of the measure that the study is about first, and a sentence on what is left out."""
    frame = finding_frame(report).rename(columns={"": "number"})
    metrics = [finding.metric for finding in report.results.findings]
    leading = frame[[metric == metrics[0] for metric in metrics]].head(_MOST_NUMBERS) if metrics else frame
    left_out = f"{len(leading):,} of {len(frame):,} numbers" if len(leading) < len(frame) else ""
    return leading, left_out


@cache
def _template() -> Template:
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.filters |= {"in_markdown": in_markdown, "fenced": fenced, "markdown": markdown_table}
    return made.from_string((Path(__file__).parent / "model_card.md.jinja").read_text(encoding="utf-8"))
