"""A section for the card of a model: what was measured of its pictures, for people and for the card's head."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined, Template

from bias_core.exchange.export import DatasetFacts
from bias_core.number_text import rounded
from bias_core.studies.kit.types import Measured, StudyReport
from bias_core.studies.reports.claims import claims
from bias_core.studies.reports.headline import headline
from bias_core.studies.reports.report_page import how_measured, works_of
from bias_core.studies.reports.text import (
    LIMITS,
    Row,
    excerpt,
    finding_frame,
    finding_rows,
    is_known,
    markdown_table,
    notes_of,
    one_line,
    plain,
    title_of,
)

_MOST_CLAIMS = 3


def to_model_card(report: StudyReport, export: DatasetFacts) -> str:
    """The section in Markdown, below a head with the results as hubs read them (``model-index``).

    ``export`` are the facts that the dataset card has, too.
    """
    findings, left_out = excerpt(finding_frame(report).rename(columns={"": "number"}))
    return _template().render(
        head=_model_index(report),
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


@cache
def _template() -> Template:
    made = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    made.filters |= {"one_line": one_line, "markdown": markdown_table}
    return made.from_string((Path(__file__).parent / "model_card.md.jinja").read_text(encoding="utf-8"))


def _rounded(row: Row, name: str) -> float:
    """The value or an end of its interval with the digits that the interval bears out."""
    return rounded(row[name], row["low"], row["high"], n=row["n"])


def _model_index(report: StudyReport) -> str:
    """The YAML head of a card with every number that is known."""
    from huggingface_hub import EvalResult, ModelCardData  # takes a while

    parts: list[tuple[str, Measured]] = [("", report), *((f", {arm.name}", arm) for arm in report.arms)]
    results = [
        EvalResult(
            task_type="text-to-image",
            dataset_type="t2i-bias-explorer",
            dataset_name=f"{title_of(report)}{arm}",
            metric_type=finding.metric,
            metric_name=row["finding"],
            metric_value=_rounded(row, "value"),
            metric_args=plain({"low": _rounded(row, "low"), "high": _rounded(row, "high"), "n": row["n"]}),
        )
        for arm, part in parts
        for finding, row in zip(part.results.findings, finding_rows(part), strict=True)
        if is_known(row["value"])
    ]
    models = dict.fromkeys(part.settings.model for part in report.arms or (report,))
    tags = ["text-to-image", "bias"]
    named = {"model_name": " and ".join(models), "eval_results": results} if results else {}
    return f"{ModelCardData(tags=tags, **named).to_yaml()}\n"
