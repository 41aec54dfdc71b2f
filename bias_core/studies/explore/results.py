"""What an exploration found as findings, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.kit.types import Finding, StudyFigure, StudyTable

if TYPE_CHECKING:
    from bias_core.metrics.clustering import ClusterResult
    from bias_core.studies.kit.attribute_scores import AttributeScore
    from bias_core.studies.kit.types import Sample
    from bias_core.types import Estimate

ALL = "all pictures"
"""The cell of a table that holds every scored picture."""
CONCEPT = "concept"
"""The group of the pictures that are scored."""
ASSOCIATION = "association"
ATTRIBUTES = "attributes"
EIGENVALUES = "eigenvalues"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One number of an attribute: its field of a score, its metric, its label, and what it says."""

    field: str
    metric: str
    label: str
    says: str


KINDS: Mapping[str, Kind] = {
    "p": Kind(
        field="prevalence",
        metric="attribute_prevalence",
        label="P",
        says="share of the pictures in which the reader perceives the attribute",
    ),
    "corrected": Kind(
        field="corrected",
        metric="attribute_prevalence",
        label="P corrected",
        says="that share once the reader's known errors are taken into account",
    ),
    "psi": Kind(
        field="stereotype",
        metric="stereotype_score",
        label="Ψ",
        says="how far the share lies above the real-world rate P*; 0 if it does not",
    ),
    "difference": Kind(
        field="signed_difference",
        metric="signed_difference",
        label="P − P*",
        says="share minus P*: above 0 over-represented, below 0 under-represented",
    ),
    "wals": Kind(
        field="wals",
        metric="weighted_alignment_score",
        label="WALS",
        says="how much of the pictures' variety runs along the attribute (0 none, 1 all)",
    ),
    "spread": Kind(
        field="spread",
        metric="spread_along",
        label="spread",
        says="standard deviation of the pictures along the attribute, in units of cosine",
    ),
}
"""The numbers of an attribute by the end of their key, in the order in which they are reported."""
_LEANS = "Above 0 the pictures are more like those guided to the first word, below 0 to the second."


@dataclass(frozen=True, kw_only=True)
class Leaning:
    """T2IAT's Eq. 2 for the concept: mean cosine to the pictures of A minus that to the pictures of B.

    Attributes
    ----------
    words : of both sides.
    mean, each : over the pictures, and of each.
    rows, units : embeddings and units of the concept's pictures, of those of A, of those of B.
    """

    words: tuple[str, str]
    mean: Estimate
    each: np.ndarray
    rows: tuple[np.ndarray, ...] = ()
    units: tuple[tuple[str, ...], ...] = ()

    @property
    def title(self) -> str:
        """The two words."""
        return " against ".join(self.words)


def finding_key(cell: str, attribute: str, kind: str) -> str:
    """The key of an attribute's number on the pictures of a cell."""
    return f"{cell}-{attribute}-{kind}"


def attribute_findings(
    cell: str, scores: Sequence[AttributeScore], of: str, sample: Callable[[str, str], Sample | None] | None = None
) -> Iterator[Finding]:
    """Every number of every attribute, kind by kind.

    Parameters
    ----------
    of : is said behind the attribute's name.
    sample : what such a number of an attribute was computed from.
    """
    for end, kind in KINDS.items():
        for score in scores:
            estimate = getattr(score, kind.field)
            without_rate = score.attribute.reference is None and end in ("difference", "psi")
            if estimate is None or without_rate or (cell != ALL and end not in ("p", "psi")):
                continue
            yield Finding(
                key=finding_key(cell, score.attribute.name, end),
                title=f"{score.attribute.name}{of}: {kind.label}",
                metric=kind.metric,
                estimate=estimate,
                expected=score.drawn if end in ("p", "corrected") else None,
                says=f"{kind.says[:1].upper()}{kind.says[1:]}.",
                depends_on_n=end == "wals",
                sample=sample(end, score.attribute.name) if sample else None,
            )


def association_finding(leaning: Leaning) -> Finding:
    """Which way the pictures lean."""
    return Finding(
        key=ASSOCIATION, title=f"{leaning.title}: association", metric="association", estimate=leaning.mean, says=_LEANS
    )


def picture_columns(
    scores: Sequence[AttributeScore], leaning: Leaning | None, alike: ClusterResult | None
) -> dict[str, Any]:
    """What was found of each scored picture, by the name of its column."""
    columns: dict[str, Any] = {}
    for score in scores:
        name, words = score.attribute.name, np.array(["no", "yes"])
        columns |= {
            f"{name}: positive": score.similarity_positive,
            f"{name}: negative": score.similarity_negative,
            f"{name}: nearer by": score.margins,
            f"{name}: perceived": words[(score.margins > 0).astype(int)],
        }
    if leaning is not None:
        columns[ASSOCIATION] = leaning.each
    if alike is not None:
        columns["looks_like"] = [f"group {label + 1}" for label in alike.labels]
        columns |= {"map_x": alike.coordinates[:, 0], "map_y": alike.coordinates[:, 1]}
    return columns


def attribute_table(cells: Mapping[str, Sequence[AttributeScore]]) -> Iterator[StudyTable]:
    """A row for each attribute on the pictures of each cell, with its sentences."""
    records = [_record(cell, score) for cell, scores in cells.items() for score in scores]
    if records:
        yield StudyTable(
            key=ATTRIBUTES,
            title="Attributes and their sentences" if len(cells) == 1 else "Attributes per prompt",
            frame=pd.DataFrame(records),
            note="Ψ needs a real-world rate P*. Drawn: the share that really shows it, where that is on "
            "record. Ties: pictures that are equally near to both sentences.",
        )


def _record(cell: str, score: AttributeScore) -> dict[str, Any]:
    share, words = score.prevalence, asdict(score.attribute)
    return {
        "pictures of": cell,
        "attribute": words["name"],
        "n": share.n,
        "P": share.value,
        "low": share.low,
        "high": share.high,
        "P*": np.nan if words["reference"] is None else words["reference"],
        "Ψ": score.stereotype.value,
        "WALS": score.wals.value,
        "spread": score.spread.value,
        "drawn": np.nan if score.drawn is None else score.drawn,
        "ties": score.n_ties,
        "positive": words["positive"],
        "negative": words["negative"],
        "source of P*": words["reference_source"],
    }


def eigenvalue_table(alike: ClusterResult) -> StudyTable:
    """What the number of groups was chosen by."""
    return StudyTable(
        key=EIGENVALUES,
        title="Eigenvalues of the similarity graph",
        frame=pd.DataFrame({"number": range(1, len(alike.eigenvalues) + 1), "eigenvalue": alike.eigenvalues}),
        note=alike.note,
    )


def share_figure(scores: Sequence[AttributeScore]) -> Iterator[StudyFigure]:
    """Of all pictures; an attribute that the reader cannot tell has no share."""
    rows = [
        {
            "name": score.attribute.name,
            "value": score.prevalence.value,
            "low": score.prevalence.low,
            "high": score.prevalence.high,
            "reference": np.nan if score.attribute.reference is None else score.attribute.reference,
            "expected": np.nan if score.drawn is None else score.drawn,
        }
        for score in scores
        if np.isfinite(score.prevalence.value)
    ]
    if rows:
        yield StudyFigure(
            key="shares",
            title="How often is it seen?",
            kind="intervals",
            data=pd.DataFrame(rows),
            labels={"x": "share of the pictures, P", "reference": "P*, real-world or chosen rate"},
            caption="A dot is the share of the pictures; its line is the interval.",
        )


def prompt_figure(cells: Mapping[str, Sequence[AttributeScore]]) -> Iterator[StudyFigure]:
    """Prompts against attributes, where there are several prompts."""
    rows = [
        {"row": cell, "column": score.attribute.name, "value": score.prevalence.value}
        for cell, scores in cells.items()
        for score in scores
        if cell != ALL and np.isfinite(score.prevalence.value)
    ]
    if rows:
        yield StudyFigure(
            key="prompts",
            title="Which attribute belongs to which prompt",
            kind="heatmap",
            data=pd.DataFrame(rows),
            labels={"unit": "share of the prompt's pictures"},
            caption="Each cell is the share of a prompt's pictures in which the attribute is perceived.",
        )


def association_figure(leaning: Leaning) -> StudyFigure:
    """A dot for each picture."""
    return StudyFigure(
        key=ASSOCIATION,
        title=f"Which way does it lean: {' or '.join(leaning.words)}?",
        kind="distributions",
        data=pd.DataFrame({"group": "pictures", "value": leaning.each}),
        labels={"x": f"← {leaning.words[1]}      {leaning.words[0]} →", "null": 0.0},
        caption="A dot is a picture: how much nearer it is to the pictures of the one word than to those of "
        "the other. A lean is relative to these two sets and this encoder, which has leanings of its own.",
    )


def map_figure(alike: ClusterResult) -> StudyFigure:
    """Groups of look-alikes."""
    names = [f"group {label + 1}" for label in alike.labels]
    points = pd.DataFrame({"x": alike.coordinates[:, 0], "y": alike.coordinates[:, 1], "group": names})
    return StudyFigure(
        key="alike",
        title="What looks alike",
        kind="scatter",
        data=points.sort_values("group", kind="stable").reset_index(drop=True),
        labels={"x": "first principal component", "y": "second"},
        caption="Each dot is a picture; pictures that the reader takes for alike lie close. "
        "The groups can be chosen in the list of pictures, as “looks_like”.",
    )
