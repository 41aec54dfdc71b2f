"""What StOP found, for reading: findings, tables and figures of clusters and their texts (Table 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.metrics.similarity import similarity_estimate
from bias_core.studies.kit.types import Design, Finding, StudyFigure, StudySettings, StudyTable
from bias_core.studies.origins.cells import wanted_nationalities
from bias_core.studies.reports.build import columns, figure, or_nan, table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from bias_core.search.stop import OptimisedPrompt
    from bias_core.studies.kit.data import StudyData
    from bias_core.types import Estimate

_SHOWN = 3  # pictures of a cluster in the figure
_LONGEST = 26  # letters above a picture


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of the pictures of a nationality.

    Attributes
    ----------
    number : from 1, by size.
    frame : its pictures, the ones closest to its mean first.
    rows, others : unit embeddings of its pictures and of the nationality's other pictures.
    average : its average picture.
    prompts : the texts found, the closest first.
    """

    nationality: str
    number: int
    frame: pd.DataFrame
    rows: np.ndarray
    others: np.ndarray
    average: Path
    prompts: tuple[OptimisedPrompt, ...]

    @property
    def name(self) -> str:
        """For titles."""
        return cluster_name(self.nationality, self.number)

    def closeness(self, rows: np.ndarray, confidence: float, seed: int) -> Estimate:
        """Mean cosine of other pictures to the pictures of the cluster."""
        return similarity_estimate(rows @ self.rows.mean(axis=0), confidence=confidence, rng=seed)

    def own_closeness(self) -> float:
        """Mean cosine of its pictures to each other; nan for a single one."""
        return float(closeness_of_own(self.rows).mean()) if len(self.rows) > 1 else float("nan")


def cluster_name(concept: str, number: int) -> str:
    """How a cluster is called on pages and in tables; numbers start at 1 with the largest."""
    return f"{concept}, cluster {number}"


def closeness_of_own(rows: np.ndarray) -> np.ndarray:
    """Mean cosine of each of two or more unit rows ``(n, d)`` to the others, ``(n,)``.

    Examples
    --------
    >>> closeness_of_own(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    array([0.5, 0.5, 0. ])
    """
    exact = rows.astype(np.float64)
    own: np.ndarray = (exact @ exact.sum(axis=0) - (exact**2).sum(axis=1)) / (len(exact) - 1)
    return own


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The pictures drawn from the closest text of a cluster."""

    frame: pd.DataFrame
    rows: np.ndarray


def cluster_findings(cluster: Cluster, drawn: Drawn | None, settings: StudySettings) -> list[Finding]:
    """How close the best text comes, and the pictures drawn from it."""
    best = cluster.prompts[0]
    says = f'"{best.text}", against {best.baseline:.3f} for "{settings.options.prefix}" alone'
    if best.others is not None:
        says += f"; {best.others:.3f} to the other pictures"
    found = [
        Finding(
            key=f"{cluster.nationality} {cluster.number} text",
            title=f"{cluster.name}: closest text",
            metric="mean_similarity",
            estimate=replace(best.score, note=""),  # that it is optimistic is said of all of them at once
            says=f"{says}.",
        )
    ]
    if drawn is not None:
        says = f"Its own pictures come to {cluster.own_closeness():.3f} of each other"
        if len(cluster.others):
            says += f", the nationality's others to {_value(cluster, cluster.others):.3f} of them"
        found.append(
            Finding(
                key=f"{cluster.nationality} {cluster.number} pictures",
                title=f"{cluster.name}: pictures of that text",
                metric="mean_similarity",
                estimate=cluster.closeness(drawn.rows, settings.confidence, settings.seed),
                says=f"{says}.",
            )
        )
    return found


def _value(cluster: Cluster, rows: np.ndarray) -> float:
    return float((rows @ cluster.rows.mean(axis=0)).mean())


def cluster_tables(
    design: Design,
    settings: StudySettings,
    clusters: Sequence[Cluster],
    drawn: Mapping[str, Drawn],
    attributes: pd.DataFrame,
) -> list[StudyTable]:
    """Texts, clusters, their attributes, and what the paper prints."""
    prompts = [
        {"nationality": cluster.nationality, "cluster": cluster.number, "rank": rank, **_prompt_row(prompt)}
        for cluster in clusters
        for rank, prompt in enumerate(cluster.prompts, start=1)
    ]
    sizes = [_cluster_row(cluster, drawn.get(cluster.name), settings) for cluster in clusters]
    tables = [
        table("table3", "Optimised prompts (Table 3)", prompts, _PROMPTS),
        table("clusters", "Clusters", sizes, _CLUSTERS),
    ]
    if len(attributes):
        wide = attributes.pivot_table("value", "row", "column", sort=False).reset_index()
        wide = wide.rename(columns={"row": "cluster"}).rename_axis(columns=None)
        tables.append(table("attributes", "Attributes of the clusters", wide, "P, as read."))
    printed = [
        {"nationality": n, "rank": rank, "prompt": text}
        for n in wanted_nationalities(design, settings)
        for rank, text in enumerate(design.data.get("optimised_prompts", {}).get(n, ()), start=1)
    ]
    if printed:
        note = "Of FLUX.1; the paper prints letters of other scripts by their codes."
        tables.append(table("published", "As published", printed, note))
    return tables


_PROMPTS = (
    "Cosine: mean cosine of the text to the cluster's pictures. Gain: beyond the prefix alone. Specificity: "
    "gain less that in the nationality's other pictures. Ranked by cosine, or by specificity with contrast."
)
_CLUSTERS = (
    "Mean cosines to the cluster's pictures: of each other, of the pictures drawn from the closest text, and "
    "of the nationality's other pictures."
)


def _prompt_row(prompt: OptimisedPrompt) -> dict[str, Any]:
    return {
        "prompt": prompt.text,
        **columns("cosine", prompt.score),
        "prefix alone": prompt.baseline,
        **columns("gain", prompt.gain),
        "others": or_nan(prompt.others),
        **columns("specificity", prompt.specificity),
        "n": prompt.score.n,
    }


def _cluster_row(cluster: Cluster, drawn: Drawn | None, settings: StudySettings) -> dict[str, Any]:
    close = None if drawn is None else cluster.closeness(drawn.rows, settings.confidence, settings.seed)
    return {
        "nationality": cluster.nationality,
        "cluster": cluster.number,
        "pictures": len(cluster.rows),
        "share": len(cluster.rows) / (len(cluster.rows) + len(cluster.others)),
        "each other": cluster.own_closeness(),
        **columns("drawn from its text", close),
        "others": _value(cluster, cluster.others) if len(cluster.others) else math.nan,
        "drawn": 0 if drawn is None else len(drawn.rows),
    }


def cluster_figures(
    data: StudyData,
    settings: StudySettings,
    clusters: Sequence[Cluster],
    drawn: Mapping[str, Drawn],
    attributes: pd.DataFrame,
) -> list[StudyFigure]:
    """Table 3 as pictures, and what the clusters share."""
    rows = [
        {"row": c.name, "column": column, "path": str(path), "text": text}
        for c in clusters
        for column, path, text in _pictures(data, c, drawn.get(c.name), settings.options.prefix)
    ]
    caption = "Of each cluster the average, the most typical pictures, and those drawn from its text."
    title = "Clusters and what their closest texts draw (Table 3)"
    figures = [figure("pictures", "table3", title, rows, caption)]
    if len(attributes):
        title, caption = "Attributes of the clusters", "What the pictures of a cluster have in common."
        figures.append(figure("heatmap", "attributes", title, attributes, caption, unit="P, as read"))
    return figures


def _pictures(data: StudyData, cluster: Cluster, drawn: Drawn | None, prefix: str) -> list[tuple[str, Path, str]]:
    """Column, file and title: the average, typical pictures, and drawn ones."""
    shown = [("average", cluster.average, f"{cluster.name}, n = {len(cluster.rows)}")]
    typical = data.stored(cluster.frame.head(_SHOWN))
    shown += [(f"typical {i}", stored.path, "") for i, stored in enumerate(typical)]
    if drawn is not None:
        text = _plain(cluster.prompts[0].text.removeprefix(prefix).strip())
        for i, stored in enumerate(data.stored(drawn.frame)):
            shown.append((f"drawn {i}", stored.path, "" if i else f"... {text}"))
    return shown


def _plain(text: str) -> str:
    """Letters that every font has, the others by their codes, as in the paper; short enough for a title."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("$", r"\$")
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 3].rstrip("\\") + "..."
