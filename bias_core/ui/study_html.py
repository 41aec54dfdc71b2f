"""A study's report as HTML: what was found, its figures and its tables, each with what can be taken along."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from bias_core.metrics.cards import METRICS, load_references
from bias_core.studies.report import LIMITS
from bias_core.studies.setting_fields import option_values
from bias_core.studies.study_report import finding_rows, finding_text, is_known, size_in_words
from bias_core.studies.table_text import excerpt
from bias_core.ui.messages import warning_html
from bias_core.ui.study_svg import figure_svg
from bias_core.ui.take import FIGURE_FORMS, FINDINGS, TABLE_FORMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from bias_core.studies.study_types import StudyFigure, StudyReport, StudyTable

NULL = "no bias reads"
FEW = 14  # findings that are shown without being asked for
_STRIP = 132.0  # width of the small interval drawings
_NAMES = {"csv": "CSV", "md": "Markdown", "tex": "LaTeX", "png": "PNG", "svg": "SVG", "pdf": "PDF"}

TAKE_JS = """
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-take]');
  if (node) trigger('select', {take: node.dataset.take});
});
"""


def header_html(report: StudyReport, headline: str) -> str:
    """What was found, in a sentence; what it was found on, in a line; what must be known, in notes."""
    settings, design = report.settings, report.design
    condition = ", ".join(option_values(settings.options).get("conditions", ())) or settings.condition
    scored = " scored" if report.results.findings or report.results.figures else ""
    facts = [
        report.design.title,
        f"{report.n_images:,} of {report.n_planned:,} pictures{scored}",
        *([f"{report.n_blocked:,} blocked by the model's safety checker"] if report.n_blocked else []),
        " · ".join(filter(None, (settings.model, condition))),
        f"read by {settings.encoder}",
        *([size_in_words(design, settings)] if report.design.reference else []),
        f"{settings.confidence:.0%} intervals",
        *([f"after {_work(design.reference)}, {design.where}"] if design.reference else []),
    ]
    return (
        f"{warning_html(report.warning)}<h2>{escape(headline)}</h2>"
        f'<p class="facts">{"".join(f"<span>{escape(fact)}</span>" for fact in facts)}</p>'
    )


def _work(key: str) -> str:
    """Names and year of a reference; its key where the bibliography does not have it."""
    works = load_references()
    return works[key].short if key in works else key


def findings_html(report: StudyReport, null: str = NULL) -> str:
    """Every number of the study with its interval drawn, its n, null value (called ``null``) and sentence."""
    rows = finding_rows(report)
    if not rows:
        return ""
    scales = _scales(rows)
    published, drawn = (any(is_known(row[key]) for row in rows) for key in ("published", "drawn"))
    tested = any(is_known(row["p_value"]) for row in rows)
    head = ["interval", "value", "n", *["p"] * tested, null]
    head += ["published"] * published + ["drawn"] * drawn + ["in words"]
    optional = {"tested": tested, "published": published, "drawn": drawn}
    body = [_finding_row(row, scales[row["measure"]], null, **optional) for row in rows]
    table = _table_html(["", *head], body[:FEW], "Findings")
    more = _table_html(["", *head], body[FEW:], "Further findings")
    rest = f"<details><summary>{len(rows) - FEW} more</summary>{more}</details>" if len(rows) > FEW else ""
    measures = dict.fromkeys(finding.metric for finding in report.results.findings)
    return (
        f"<h3>The numbers</h3>{_legend(null, published, drawn)}{table}{rest}"
        f"{takes_html('table', FINDINGS, TABLE_FORMS)}"
        f'<details class="how"><summary>What do these measures mean?</summary>'
        f"<dl>{''.join(_meaning(key) for key in measures)}</dl></details>"
    )


def _meaning(key: str) -> str:
    metric = METRICS[key]
    null = "no value means “no bias”" if metric.null_value is None else f"no bias reads {metric.null_value:g}"
    card = f'href="?tab=methods&amp;measure={escape(key)}" data-go="methods" data-measure="{escape(key)}"'
    return (
        f"<dt><a {card}>{escape(metric.name)}</a></dt><dd>{escape(metric.summary)} "
        f"{escape(metric.higher_means)} ({null}). <em>{escape(metric.limits)}</em></dd>"
    )


def _legend(null: str, published: bool, drawn: bool) -> str:
    parts = [
        '<span class="k measured">measured, with its interval</span>',
        f'<span class="k null">what {null}</span>',
    ]
    parts += ['<span class="k reference">published in the paper</span>'] * published
    parts += ['<span class="k planted">what was really drawn, on record</span>'] * drawn
    return f'<p class="legend">{"".join(parts)}</p>'


def _finding_row(
    row: dict[str, Any],
    scale: tuple[float, float],
    null: str,
    *,
    tested: bool,
    published: bool,
    drawn: bool,
) -> str:
    text = {name: escape(value) for name, value in finding_text(row).items()}
    cells = [
        ("interval", _strip(row, scale)),
        ("value", f"{text['value']}<small>{text['interval']}</small>"),
        ("n", text["n"]),
        *[("p", text["p"])] * tested,
        (null, text["null"]),
        *[("published", text["published"])] * published,
        *[("drawn", text["drawn"])] * drawn,
        ("in words", text["reads"]),
    ]
    inside = "".join(f'<td data-label="{name}"><span>{value}</span></td>' for name, value in cells)
    measure = escape(row["measure"])
    method = escape(row["method"])
    title = f'{escape(row["finding"])}<small title="{method}">{measure}</small>'
    return f'<tr><th scope="row">{title}</th>{inside}</tr>'


def _scales(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The common axis of each measure's small drawings."""
    keys = ("value", "low", "high", "null_value", "published", "drawn")
    seen: dict[str, list[float]] = {}
    for row in rows:
        seen.setdefault(row["measure"], []).extend(float(row[key]) for key in keys if is_known(row[key]))
    return {
        measure: (min(values), max(values)) if values else (0.0, 1.0)
        for measure, values in {**{row["measure"]: [] for row in rows}, **seen}.items()
    }


def _strip(row: dict[str, Any], scale: tuple[float, float]) -> str:
    """A small drawing of one estimate; its numbers stand beside it."""
    if not is_known(row["value"]):
        return "undefined"
    low, high = scale
    span = high - low or 1.0

    def x(value: float) -> float:
        return 7 + (_STRIP - 14) * (float(value) - low) / span

    parts = []
    if is_known(row["null_value"]):
        at = x(row["null_value"])
        parts.append(f'<path class="null" d="M{at:.1f} 1V21"/>')
    if is_known(row["low"]) and is_known(row["high"]):
        parts.append(f'<path class="measured" d="M{x(row["low"]):.1f} 11H{x(row["high"]):.1f}"/>')
    parts.append(f'<circle class="measured" cx="{x(row["value"]):.1f}" cy="11" r="4.5"/>')
    if is_known(row["published"]):
        at = x(row["published"])
        parts.append(f'<path class="reference" d="M{at:.1f} 6l5 5l-5 5l-5-5z"/>')
    if is_known(row["drawn"]):
        at = x(row["drawn"])
        parts.append(f'<path class="planted" d="M{at - 5:.1f} 1h10l-5 8z"/>')
    return f'<svg class="strip" viewBox="0 0 {_STRIP:.0f} 22" aria-hidden="true">{"".join(parts)}</svg>'


def figures_html(figures: Sequence[StudyFigure]) -> str:
    """Each figure as a card; pictures in rows are left to the tab that shows them."""
    cards = figure_cards(figures)
    return f'<div class="figures">{cards}</div>' if cards else ""


def figure_cards(figures: Sequence[StudyFigure]) -> str:
    """The cards alone, each with its data as a table for who cannot see it, for a grid of the tab's own."""
    return "".join(
        f'<figure class="card" data-key="{escape(figure.key)}"><h3>{escape(figure.title)}</h3>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(figure.title)}">'
        f"{figure_svg(figure)}</div><figcaption>{escape(figure.caption)}</figcaption>"
        f"<details><summary>As a table ({len(figure.data):,} rows)</summary>"
        f"{frame_html(figure.data, figure.title)}</details>"
        f"{takes_html('figure', figure.key, FIGURE_FORMS)}</figure>"
        for figure in figures
        if not figure.data.empty
    )


def tables_html(tables: Sequence[StudyTable]) -> str:
    """Each table, closed until it is asked for, in its first rows."""
    return "".join(
        f"<details><summary>{escape(table.title)} ({len(table.frame):,} rows)</summary>"
        f'<p class="quiet">{escape(table.note)}</p>{frame_html(table.frame, table.title)}'
        f"{takes_html('table', table.key, TABLE_FORMS)}</details>"
        for table in tables
    )


def frame_html(frame: pd.DataFrame, name: str) -> str:
    """A data frame as a plain table, of a long one both ends."""
    text, shown = excerpt(frame)
    rows = ["".join(_cell(value, i) for i, value in enumerate(row)) for row in text.itertuples(index=False)]
    more = f'<p class="quiet">{shown}; all are in the CSV.</p>' if shown else ""
    return _table_html([*text.columns], [f"<tr>{row}</tr>" for row in rows], name, plain=True) + more


def _cell(text: str, place: int) -> str:
    return f'<th scope="row">{escape(text)}</th>' if place == 0 else f"<td>{escape(text)}</td>"


def _table_html(head: Sequence[str], rows: Sequence[str], name: str, *, plain: bool = False) -> str:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    kind = "scores plain" if plain else "scores"
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="{kind}"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def takes_html(kind: str, key: str, forms: Sequence[str], title: str = "Take it:") -> str:
    """Buttons that fetch a figure or table in each of these forms."""
    buttons = "".join(
        f'<button type="button" data-take="{kind}:{escape(key)}:{form}">{_NAMES[form]}</button>'
        for form in forms
    )
    return f'<p class="takes"><span>{title}</span>{buttons}</p>'


def notes_html(report: StudyReport) -> str:
    """What was noticed on the way, and what none of it says."""
    notes = list(report.results.notes)
    if report.unknown_words:
        notes.append(f"This world does not know: {', '.join(report.unknown_words)}. It was drawn without it.")
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<h3>What to keep in mind</h3><ul class="keep">{items}<li class="quiet">{escape(LIMITS)}</li></ul>'
    )
