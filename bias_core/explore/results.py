"""What an exploration found as findings, tables and figures."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bias_core.measures.association import association
from bias_core.measures.clustering import ClusterResult
from bias_core.study.attribute_scores import AttributeScore
from bias_core.study.attributes import ALL, finding_key
from bias_core.study.limits import growth
from bias_core.study.types import (
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyTable,
    columns,
    drawable,
    figure,
    mark,
    or_nan,
    table,
)
from bias_core.types import Estimate

POOLED = "pooled over prompts"  # how a title calls it where the pictures have several
_FEWEST_TO_GROW, _MOST_GROWING = 4, 4  # pictures, and attributes in one figure
_MOST_BESIDE = 6  # prompts in one figure, beside all pictures
CONCEPT = "concept"  # the group of the pictures that are scored
SCORED_GROUPS = (CONCEPT, "imported")  # or of those that were brought along
ASSOCIATION, ATTRIBUTES, EIGENVALUES = "association", "attributes", "eigenvalues"
BEYOND = "association-beyond"  # the association less that of an even mix
FIDELITY = "asked-kept"  # how often the words of the association are shown where the prompt has them


class Kind(NamedTuple):
    """One number of an attribute: its field of a score, its metric, its label, and what it says."""

    field: str
    metric: str
    label: str
    says: str


KINDS: Mapping[str, Kind] = {
    "p": Kind("prevalence", "attribute_prevalence", "P",
              "Share of the pictures in which the reader perceives the attribute."),
    "corrected": Kind("corrected", "attribute_prevalence", "P corrected",
                      "That share once the reader's known errors are taken into account."),
    "true": Kind("true_rate", "attribute_prevalence", "true P",
                 "Share of what this model draws of this prompt, measured once on many other pictures."),
    "unclear": Kind("cannot_tell", "attribute_prevalence", "cannot tell",
                    "Share of the pictures of which the judge cannot tell; P leaves them out."),
    "difference": Kind("signed_difference", "signed_difference", "P − P*",
                       "Share minus P*: above 0 over-represented, below 0 under-represented."),
    "psi": Kind("stereotype", "stereotype_score", "Ψ",
                "As the paper has it: P − P* where that is above 0, else 0; so above 0 on average where none is."),
    "variance": Kind("variance_share", "variance_share", "share of variance",
                     "How much of all that differs between the pictures differs along the attribute (0 none, 1 all)."),
    "wals": Kind("wals", "weighted_alignment_score", "WALS",
                 "Centred, with |δ·u| in Eq. 7; compare at equal numbers of pictures."),
}  # fmt: skip
"""The numbers of an attribute by the end of their key, in the order in which they are reported."""


OF_THE_MODEL = "-true"
"""Ends the key of a number that is the model's own, whatever was drawn in a run."""
_OF_JUDGE = " Cannot tell: share of the pictures of which the judge said so; P leaves them out."


@dataclass(frozen=True, kw_only=True)
class AssociationScore:
    """T2IAT's Eq. 2 for the concept: mean cosine to the pictures of A minus that to the pictures of B."""

    attribute_a: str
    attribute_b: str
    mean: Estimate
    associations: np.ndarray  # of each scored picture, ``(n,)``
    beyond: Estimate | None = None  # the mean less that of an even mix; None where that is not known
    fidelity: Estimate | None = None  # how often either word is shown where the prompt has it
    calls: tuple[np.ndarray, ...] = ()  # the same of each picture of A, and of B; () after a report was saved
    # rows, units: embeddings and units of the concept's pictures, of those of A, of those of B; () after a report was
    # saved
    rows: tuple[np.ndarray, ...] = ()
    units: tuple[tuple[str, ...], ...] = ()

    def mean_of(self, places: np.ndarray) -> float:
        """The mean over some of the concept's pictures."""
        return float(association(self.rows[0][places], *self.rows[1:]).mean())


def exploration_results(
    cells: Mapping[str, Sequence[AttributeScore]],
    association: AssociationScore | None,
    alike: ClusterResult | None,
    *,
    sample: Callable[[str, Any], Sample | None] = lambda _end, _of: None,
    notes: Iterable[str] = (),
    scored: Any = None,
    confidence: float = 0.95,
) -> Results:
    """All that is reported of each prompt, then of all pictures; ``sample`` by the end of a key and the score."""
    findings = list(_attribute_findings(cells, sample))
    tables = list(_attribute_table(cells))
    shares = share_figure(cells[ALL]) if len(cells) == 1 else _shares_by_prompt(cells)
    figures = [shares, _growth_figure(cells, confidence), _prompt_figure(cells)]
    if association is not None:
        findings += _association_findings(association, sample)
        figures.append(_association_figure(association))
    if alike is not None:
        eigenvalues = {"number": range(1, len(alike.eigenvalues) + 1), "eigenvalue": alike.eigenvalues}
        tables.append(table(EIGENVALUES, "Eigenvalues of the similarity graph", pd.DataFrame(eigenvalues), alike.note))
        figures.append(_map_figure(alike))
    return Results(
        findings=tuple(findings), tables=tuple(tables), figures=drawable(figures), notes=tuple(notes), scored=scored
    )


def _attribute_findings(
    cells: Mapping[str, Sequence[AttributeScore]], sample: Callable[[str, Any], Sample | None]
) -> Iterator[Finding]:
    """Every number of every attribute, kind by kind; of the pictures of one prompt P, P − P* and Ψ alone."""
    for cell, scores in cells.items():
        for end, kind in KINDS.items():
            for score in scores:
                name, estimate = score.attribute.name, getattr(score, kind.field)
                without_rate = score.attribute.reference is None and end in ("difference", "psi")
                if estimate is None or without_rate or (cell != ALL and end not in ("p", "difference", "psi")):
                    continue
                yield Finding(
                    key=finding_key(cell, name, end),
                    title=f"{name}{f', {POOLED if cell == ALL else cell}' if len(cells) > 1 else ''}: {kind.label}",
                    metric=kind.metric,
                    estimate=estimate,
                    expected=score.drawn if end in ("p", "corrected") else None,
                    says=kind.says,
                    sample=sample(end, score) if cell == ALL else None,
                )


def _association_findings(
    association: AssociationScore, sample: Callable[[str, Any], Sample | None]
) -> Iterator[Finding]:
    """Which way the pictures lean, as the paper has it and beyond an even mix; and whether prompts are followed."""
    words = association.attribute_a, association.attribute_b
    yield Finding(
        key=ASSOCIATION,
        title=f"{' against '.join(words)}: association",
        metric="association",
        estimate=association.mean,
        says="As the paper has it: above 0 the pictures are more like those guided to the first word, below 0 "
        "to the second; an even mix need not read 0.",
        sample=sample(ASSOCIATION, association),
    )
    if association.beyond is not None:
        yield Finding(
            key=BEYOND,
            title=f"{' against '.join(words)}: association beyond an even mix",
            metric="association_beyond_even_mix",
            estimate=association.beyond,
            says="Above 0 the pictures lean more to the first word than half of either guided pictures would.",
        )
    if association.fidelity is not None:
        yield Finding(
            key=FIDELITY,
            title=f"{' and '.join(words)}: shown where asked for",
            metric="asked_kept",
            estimate=association.fidelity,
            says="Share of the pictures whose prompt has either word that show it, not the other, as read.",
            sample=sample(FIDELITY, association),
        )


def _attribute_table(cells: Mapping[str, Sequence[AttributeScore]]) -> Iterator[StudyTable]:
    records = [
        {
            "pictures of": cell,
            "attribute": score.attribute.name,
            "n": score.prevalence.n,
            **columns("P", score.prevalence, ends=""),
            "P*": or_nan(score.attribute.reference),
            **columns("P − P*", score.signed_difference),
            "Ψ": score.stereotype.value,
            "share of variance": score.variance_share.value,
            "WALS": score.wals.value,
            "drawn": or_nan(score.drawn),
            "ties": score.n_ties,
            "positive": score.attribute.positive,
            "negative": score.attribute.negative,
            "source of P*": score.attribute.reference_source,
            **({"cannot tell": score.cannot_tell.value, "asked": score.question} if score.cannot_tell else {}),
        }
        for cell, scores in cells.items()
        for score in scores
    ]
    if records:
        yield table(
            ATTRIBUTES,
            "Attributes and their sentences" if len(cells) == 1 else "Attributes per prompt",
            records,
            "P − P* needs a real-world rate; Ψ and WALS are as the paper has them. Drawn: the share that really "
            "shows it, where that is on record. Ties: pictures that are equally near to both sentences."
            + (f" “{ALL.capitalize()}” are {POOLED}." if len(cells) > 1 else "")
            + (_OF_JUDGE if "asked" in records[0] else ""),
        )


def share_figure(scores: Sequence[AttributeScore]) -> StudyFigure:
    """Of all pictures; an attribute that the reader cannot tell has no share."""
    return figure(
        "intervals",
        "shares",
        "How often is it seen?",
        [share_mark(score, expected=or_nan(score.drawn)) for score in scores if math.isfinite(score.prevalence.value)],
        "A dot is the share of the pictures; its line is the interval.",
        x="share of the pictures, P",
        reference="P*, rate in the world",
    )


def _shares_by_prompt(cells: Mapping[str, Sequence[AttributeScore]]) -> StudyFigure:
    """Of the prompts with most pictures, then of all pictures."""
    names = [cell for cell in cells if cell != ALL]
    some = f"Shown are the {_MOST_BESIDE} prompts with most pictures, of {len(names)}. " * (len(names) > _MOST_BESIDE)
    return figure(
        "pairs",
        "shares",
        "How often is it seen, by prompt?",
        [
            share_mark(score, group=POOLED if cell == ALL else cell)
            for cell in (*names[:_MOST_BESIDE], ALL)
            for score in cells[cell]
            if math.isfinite(score.prevalence.value)
        ],
        f"{some}A dot is the share of a prompt's pictures, the last one of all pictures, {POOLED}; its line is the "
        "interval.",
        x="share of the pictures, P",
        reference="P*, rate in the world",
    )


def _growth_figure(cells: Mapping[str, Sequence[AttributeScore]], confidence: float) -> StudyFigure:
    """How the shares of one prompt built up; of several prompts, which come one after the other, nothing builds up."""
    scores = [score for score in cells[ALL] if score.clear_calls.size >= _FEWEST_TO_GROW and len(cells) == 1]
    names = [score.attribute.name for score in scores]
    rows = [
        {"group": score.attribute.name, "x": n, **columns("value", share, ends="")}
        for score in scores[:_MOST_GROWING]
        for n, share in growth(score.clear_calls, confidence)
    ]
    some = f"The first {_MOST_GROWING} of {len(scores)} attributes. " if len(scores) > _MOST_GROWING else ""
    return figure(
        "curves",
        "growth",
        "How the share settled" if len(names) == 1 else "How the shares settled",
        rows,
        f"{some}The bands may be looked at at any time: in {confidence:.0%} of runs they hold the true share from the "
        "first picture to the last. So they are wider than an interval for one fixed number of pictures.",
        x="pictures, in the order in which they are stored",
        y="share of the pictures so far, P",
        apart=True,
    )


def share_mark(score: AttributeScore, **more: Any) -> dict[str, Any]:
    """P of an attribute beside P*, as a mark of a figure; an assumed P* is marked otherwise than one with a source."""
    rate, kind = or_nan(score.attribute.reference), "reference" if score.attribute.has_source else "assumed"
    rates = {"reference": math.nan, "assumed": math.nan} | {kind: rate}
    return mark(score.attribute.name, score.prevalence, **rates, **more)


def _prompt_figure(cells: Mapping[str, Sequence[AttributeScore]]) -> StudyFigure:
    return figure(
        "heatmap",
        "prompts",
        "Which attribute belongs to which prompt",
        [
            {"row": cell, "column": score.attribute.name, "value": score.prevalence.value}
            for cell, scores in cells.items()
            for score in scores
            if cell != ALL and math.isfinite(score.prevalence.value)
        ],
        "Each cell is the share of a prompt's pictures in which the attribute is perceived.",
        unit="share of the prompt's pictures",
    )


def _association_figure(association: AssociationScore) -> StudyFigure:
    first, second = association.attribute_a, association.attribute_b
    return figure(
        "distributions",
        ASSOCIATION,
        f"Which way does it lean: {first} or {second}?",
        pd.DataFrame({"group": "pictures", "value": association.associations}),
        "A dot is a picture: how much nearer it is to the pictures of the one word than to those of "
        "the other. A lean is relative to these two sets and this encoder, which has leanings of its own.",
        x=f"← {second}   |   {first} →",
        null=0.0,
    )


def group_name(group: int) -> str:
    """A group of look-alikes, counted from 0, as the pictures are told apart by it."""
    return f"group {group + 1}"


def _map_figure(alike: ClusterResult) -> StudyFigure:
    names = [group_name(label) for label in alike.labels]
    points = pd.DataFrame({"x": alike.coordinates[:, 0], "y": alike.coordinates[:, 1], "group": names})
    return figure(
        "scatter",
        "alike",
        "What looks alike",
        points.sort_values("group", kind="stable").reset_index(drop=True),
        "Each dot is a picture; pictures that the reader takes for alike lie close. "
        "The groups can be chosen in the list of pictures, as “looks like”.",
        x="first principal component",
        y="second",
    )


def picture_columns(
    scores: Sequence[AttributeScore], association: AssociationScore | None, alike: ClusterResult | None
) -> dict[str, Any]:
    """What was found of each scored picture, by the name of its column."""
    columns: dict[str, Any] = {}
    for score in scores:
        name = score.attribute.name
        columns |= {
            f"{name}: positive": score.similarity_positive,
            f"{name}: negative": score.similarity_negative,
            f"{name}: nearer by": score.margins,
            f"{name}: perceived": yes_or_no(score),
        }
    if association is not None:
        columns[ASSOCIATION] = association.associations
    if alike is not None:
        columns["looks_like"] = [group_name(label) for label in alike.labels]
        columns |= {"map_x": alike.coordinates[:, 0], "map_y": alike.coordinates[:, 1]}
    return columns


def yes_or_no(score: AttributeScore) -> np.ndarray:
    """Whether each picture shows the attribute, as words ``(n,)``."""
    words: np.ndarray = np.where(np.isnan(score.margins), "cannot tell", np.where(score.margins > 0, "yes", "no"))
    return words
