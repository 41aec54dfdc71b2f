"""StOP's clusters with the texts that were found for them, and what a text draws beside its cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.kit.types import StudyFigure
from bias_core.studies.origins.stop_report import cluster_name
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.origins.stop_regenerate import Regenerated

_SHOWN = 12  # pictures of each side of a comparison
TEXTS = "table3"

CHOOSE_TEXT_JS = script("choose") + script("texts")


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
    groups = texts.groupby("name", sort=False)
    pictures = next(figure.data for figure in report.results.figures if figure.key == TEXTS)
    return render("clusters", key=TEXTS, clusters=[_cluster(str(n), own, pictures) for n, own in groups])


def _cluster(name: str, texts: pd.DataFrame, pictures: pd.DataFrame) -> tuple[Any, ...]:
    """Name, texts, and files of the average and of typical pictures."""
    own = pictures[pictures["row"] == name]
    average = own.loc[own["column"] == "average", "path"].iloc[0]
    typical = own.loc[own["column"].str.startswith("typical"), "path"].tolist()
    return name, texts.to_dict("records"), average, typical


def comparison_html(both: Regenerated) -> str:
    """Cluster and drawn pictures side by side, each with its similarity, and what that says."""
    groups = [
        ("the cluster's own, to each other", both.own),
        ("drawn from the text", both.drawn),
        ("the concept's other pictures", both.others),
    ]
    rows = [
        {"group": name, "value": float(value)}
        for name, compared in groups
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
    values = {"verdict": _verdict(both), "groups": groups, "figure": figure, "most": _SHOWN}
    return render("comparison", both=both, **values)


def _verdict(both: Regenerated) -> str:
    """Whether the drawn pictures are nearer to the cluster than the concept's other pictures are."""
    drawn, others, own = both.drawn.mean, both.others.mean, both.own.mean
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
