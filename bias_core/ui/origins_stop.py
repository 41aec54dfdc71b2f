"""StOP's clusters with the texts that were found for them, and what a text draws beside its cluster."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.number_text import format_estimate, format_interval, format_number
from bias_core.studies.oasis_stop_report import cluster_name
from bias_core.studies.study_types import StudyFigure
from bias_core.ui.pictures import data_uri
from bias_core.ui.study_html import TAKE_JS, takes_html
from bias_core.ui.study_svg import figure_svg
from bias_core.ui.take import FIGURE_FORMS

if TYPE_CHECKING:
    from bias_core.studies.stop_regenerate import Compared, Regenerated
    from bias_core.studies.study_types import StudyReport
    from bias_core.types import Estimate

_PIXELS = 128
_SHOWN = 12  # pictures of each side of a comparison
TEXTS = "table3"

CHOOSE_TEXT_JS = (
    TAKE_JS
    + """
element.addEventListener('click', (event) => {
  const node = event.target.closest('[data-text]');
  if (!node) return;
  element.querySelectorAll('[data-text]').forEach((one) => one.setAttribute('aria-pressed', one === node));
  trigger('submit', {cluster: node.dataset.cluster, text: node.dataset.text});
});
"""
)
_HOW = (
    "Cosine: how close the text is to the cluster's pictures for this reader, on average. Others: the same "
    "for the concept's other pictures. Specificity: what the words found add in the cluster beyond what they "
    "add in the others; at 0 they fit both alike. Choose a text to draw from it below."
)


def texts_of(report: StudyReport) -> pd.DataFrame:
    """The texts of a StOP report, a row each; empty for other reports."""
    tables = {table.key: table.frame for table in report.results.tables}
    if not {TEXTS, "clusters"} <= set(tables):
        return pd.DataFrame()
    texts = tables[TEXTS].merge(tables["clusters"][["nationality", "cluster", "pictures", "share"]])
    names = [cluster_name(n, k) for n, k in zip(texts["nationality"], texts["cluster"], strict=True)]
    return texts.assign(name=names)


def clusters_html(report: StudyReport) -> str:
    """Every searched cluster: its average, typical pictures, and its texts with their scores."""
    texts = texts_of(report)
    if texts.empty:
        return ""
    pictures = next(figure.data for figure in report.results.figures if figure.key == TEXTS)
    cards = "".join(
        _card(str(name), own, pictures[pictures["row"] == name])
        for name, own in texts.groupby("name", sort=False)
    )
    return (
        f'<section class="card"><h3>Clusters and the texts closest to them</h3><p class="quiet">{_HOW}</p>'
        f'<div class="clusters">{cards}</div>{takes_html("figure", TEXTS, FIGURE_FORMS)}</section>'
    )


def _card(name: str, texts: pd.DataFrame, pictures: pd.DataFrame) -> str:
    first = texts.iloc[0]
    average = pictures[pictures["column"] == "average"]["path"].iloc[0]
    typical = pictures[pictures["column"].str.startswith("typical")]["path"]
    images = "".join(
        f'<img class="pixels" src="{data_uri(path, _PIXELS)}" alt="A typical picture of {escape(name)}">'
        for path in typical
    )
    buttons = "".join(_text(name, row) for _, row in texts.iterrows())
    return (
        f'<article class="cluster"><h4>{escape(name)}<small>{first["pictures"]} pictures, '
        f"{100 * first['share']:.0f} % of the concept's</small></h4>"
        f'<div class="cluster-pictures"><figure><img class="pixels" src="{data_uri(average, _PIXELS)}" '
        f'alt="Average of {escape(name)}"><figcaption>average</figcaption></figure>{images}</div>'
        f'<div class="cluster-texts">{buttons}</div></article>'
    )


def _text(name: str, row: pd.Series[Any]) -> str:
    known = [("cosine", _with_interval(row, "cosine"))]
    if not np.isnan(row["others"]):
        known += [
            ("others", format_number(row["others"])),
            ("specificity", _with_interval(row, "specificity")),
        ]
    facts = "".join(f"<span>{label} {value}</span>" for label, value in known)
    return (
        f'<button type="button" data-cluster="{escape(name)}" data-text="{escape(row["prompt"])}" '
        f'aria-pressed="false"><b>“{escape(row["prompt"])}”</b><small>{facts}</small></button>'
    )


def _with_interval(row: pd.Series[Any], key: str) -> str:
    return format_estimate(row[key], row[f"{key} low"], row[f"{key} high"])


def comparison_html(found: Regenerated) -> str:
    """Cluster and drawn pictures side by side, each with its similarity, and what that says."""
    sides = _side(f"{found.cluster}: {len(found.own.pictures)} pictures", found.own) + _side(
        f"Drawn from “{found.prompt}”: {len(found.drawn.pictures)} new pictures", found.drawn
    )
    return (
        f'<h3>{escape(_verdict(found))}</h3><p class="quiet">Below each picture: its similarity to the '
        f'cluster, the mean cosine to its pictures.</p><div class="sides">{sides}</div>'
        f"{_plot(found)}{_numbers(found)}"
        '<p class="quiet">Similarity is what this reader sees, not what people see. Pictures that come close '
        "to a cluster show that the text is enough to bring it about; pictures that do not, that the words "
        "found carry less than the concept's name did. Neither says what the model means by the concept.</p>"
    )


def _verdict(found: Regenerated) -> str:
    """Whether the drawn pictures are nearer to the cluster than the concept's other pictures are."""
    drawn, others, own = found.drawn.mean, found.others.mean, found.own.mean
    if drawn is None or np.isnan(drawn.low):
        return "One picture cannot tell how close this text comes to the cluster; draw more."
    if own is not None and drawn.high >= own.value:
        return "This text brings the cluster back: its pictures are as close as the cluster's own are."
    if others is None:
        return "This text does not bring the whole cluster back: its own pictures are closer to each other."
    if drawn.low > others.value:
        return "This text comes part of the way: closer than the concept's others, not as close as its own."
    if drawn.high < others.value:
        return "This text does not bring the cluster back: the concept's other pictures are closer to it."
    return "This text is not told to come closer than the concept's other pictures do."


def _side(title: str, compared: Compared) -> str:
    thumbs = "".join(
        f'<figure><img class="pixels" src="{data_uri(stored.path, _PIXELS)}" '
        f'alt="{escape(stored.row.prompt)}, seed {stored.row.seed}">'
        '<figcaption title="mean cosine to the cluster">'
        f"{format_number(float(value))}</figcaption></figure>"
        for stored, value in list(zip(compared.pictures, compared.closeness, strict=True))[:_SHOWN]
    )
    cut = len(compared.pictures) - _SHOWN
    more = f'<p class="quiet">The closest {_SHOWN}; {cut} more are counted.</p>' if cut > 0 else ""
    return f'<div><h4>{escape(title)}</h4><div class="side">{thumbs}</div>{more}</div>'


def _groups(found: Regenerated) -> list[tuple[str, Compared]]:
    return [
        ("the cluster's own, to each other", found.own),
        ("drawn from the text", found.drawn),
        ("the concept's other pictures", found.others),
    ]


def _plot(found: Regenerated) -> str:
    rows = [
        {"group": name, "value": float(value)}
        for name, compared in _groups(found)
        for value in compared.closeness
        if np.isfinite(value)
    ]
    figure = StudyFigure(
        key="closeness",
        title="Similarity of each picture to the cluster",
        kind="distributions",
        data=pd.DataFrame(rows),
        labels={"x": "mean cosine to the cluster's pictures"},
    )
    return f'<div class="closeness">{figure_svg(figure)}</div>'


def _numbers(found: Regenerated) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{_cells(compared.mean)}</tr>'
        for name, compared in _groups(found)
    )
    text = f"{format_number(found.text_closeness)}</td><td></td><td>1 text</td>"
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Similarity to the cluster">'
        '<table class="scores plain"><thead><tr><th scope="col">similarity to the cluster</th>'
        '<th scope="col">mean cosine</th><th scope="col">interval</th><th scope="col">n</th></tr></thead>'
        f'<tbody>{rows}<tr><th scope="row">the text itself (texts and pictures differ in level)</th>'
        f"<td>{text}</tr>"
        "</tbody></table></div>"
    )


def _cells(estimate: Estimate | None) -> str:
    if estimate is None:
        return "<td>none</td><td></td><td>0</td>"
    value = format_number(estimate.value, estimate.low, estimate.high, n=estimate.n)
    interval = format_interval(estimate.low, estimate.high, value=estimate.value, n=estimate.n)
    return f"<td>{value}</td><td>{interval}</td><td>{estimate.n}</td>"
