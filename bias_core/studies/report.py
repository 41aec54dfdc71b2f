"""Explore's report as plain values and as text: every number with its n, interval and null value."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.studies.number_text import NO_NULL, format_given, format_interval, format_number
from bias_core.studies.table_text import excerpt_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bias_core.studies.explore_types import AttributeScore, ExploreReport
    from bias_core.types import Estimate

Row = dict[str, Any]

MEANINGS = {
    "prevalence": "share of the pictures in which the reader perceives the attribute",
    "corrected": "that share once the reader's known errors are taken into account",
    "stereotype": "how far the share lies above the real-world rate P*; 0 if it does not",
    "signed_difference": "share minus P*: above 0 over-represented, below 0 under-represented",
    "wals": "how much of the pictures' variety runs along the attribute (0 none, 1 all)",
    "spread": "standard deviation of the pictures along the attribute, in units of cosine",
    "association": "above 0 the pictures are more like those guided to the first word, below 0 to the second",
}
"""One plain sentence for each score, shown wherever it is shown."""

LABELS = {
    "prevalence": "P",
    "corrected": "P corrected",
    "stereotype": "Ψ",
    "signed_difference": "P − P*",
    "wals": "WALS",
    "spread": "spread",
}

LIMITS = (
    "Attributes are perceived ones: what a picture shows to a classifier, never what anybody is. "
    "The classifier errs; without its measured error rates a share can be wrong by more than its interval. "
    "Intervals cover the chance of drawing these pictures, not other prompts, models or readers."
)


def estimates(score: AttributeScore) -> dict[str, Estimate]:
    """The estimates of one attribute by their name, those that exist."""
    found = {name: getattr(score, name) for name in LABELS}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def score_rows(report: ExploreReport) -> list[Row]:
    """One row per score: the table that every front end shows."""
    rows = [
        _score_row(score.attribute.name, LABELS[name], estimate, MEANINGS[name])
        for score in report.attributes
        for name, estimate in estimates(score).items()
    ]
    if report.association is not None:
        found = report.association
        name = f"{found.attribute_a} against {found.attribute_b}"
        rows.append(_score_row(name, "association", found.mean, MEANINGS["association"]))
    return rows


def image_rows(report: ExploreReport) -> list[Row]:
    """One row per picture, with its similarity to each sentence; blank where it was not scored."""
    position = {number: i for i, number in enumerate(report.scored_numbers)}
    rows = []
    for image in (*report.images, *report.attribute_images):
        row: Row = {"number": image.number, "id": image.id, **asdict(image.row), "blocked": image.blocked}
        if image.row.group == "concept" and (i := position.get(image.number)) is not None:
            row |= _picture_scores(report, i)
        rows.append(row)
    return rows


def image_table(report: ExploreReport) -> pd.DataFrame:
    """:func:`image_rows` as a data frame."""
    return pd.DataFrame(image_rows(report))


def to_dict(report: ExploreReport) -> Row:
    """Everything as JSON values; nan becomes None."""
    return {
        "warning": report.warning,
        "run_id": report.run_id,
        "prompt": report.prompt,
        "settings": asdict(report.settings),
        "attributes": [_attribute_dict(score) for score in report.attributes],
        "association": _association_dict(report),
        "clusters": _clusters_dict(report),
        "images": [_without_nan(row) for row in image_rows(report)],
        "unknown_words": list(report.unknown_words),
        "notes": list(report.notes),
        "limits": LIMITS,
        "versions": report.versions,
        "seconds": round(report.seconds, 3),
    }


def to_markdown(report: ExploreReport, *, beside: bool = True) -> str:
    """The report as a text that stands for itself; ``beside`` says that its files stand there, too."""
    return "\n".join(_lines(report, beside)) + "\n"


def readable_scores(report: ExploreReport) -> list[dict[str, str]]:
    """:func:`score_rows` as text, with the digits that each interval bears out."""
    return [
        {
            "attribute": row["attribute"],
            "score": row["score"],
            "value": format_number(row["value"], row["low"], row["high"], n=row["n"]),
            "interval": row["interval"],
            "n": f"{row['n']:,}",
            "null value": format_given(row["null_value"], absent=NO_NULL),
            "how": row["note"] or row["method"],
            "what it says": row["meaning"],
        }
        for row in score_rows(report)
    ]


def warning_lines(warning: str) -> tuple[str, ...]:
    """What must be read first, as the first lines of a Markdown text; none where there is nothing."""
    return (f"> **{_cell(warning)}**", "") if warning else ()


def _lines(report: ExploreReport, beside: bool) -> Iterator[str]:
    settings, n_scored = report.settings, len(report.scored_numbers)
    model = f"{settings.model}, {settings.condition}" if settings.condition else settings.model
    yield f"# {_cell(report.prompt)}"
    yield ""
    yield from warning_lines(report.warning)
    yield f"{n_scored} pictures by {model}, seed {settings.seed}, read by {settings.encoder}."
    yield f"Run `{report.run_id}`."
    yield ""
    yield from excerpt_lines(pd.DataFrame(readable_scores(report)), "scores.csv" if beside else "")
    for score in report.attributes:
        yield from _attribute_lines(score)
    if report.unknown_words:
        yield f"\nWords that this world does not know: {', '.join(report.unknown_words)}."
    if report.clusters is not None:
        sizes = [int((report.clusters.labels == i).sum()) for i in range(report.clusters.n_clusters)]
        yield f"\nClusters: {report.clusters.n_clusters}, of {', '.join(map(str, sizes))} pictures."
    for note in report.notes:
        yield f"\nNote: {note}"
    yield f"\nLimits: {LIMITS}"
    yield "\nVersions: " + ", ".join(f"{name} {version}" for name, version in report.versions.items()) + "."


def _attribute_lines(score: AttributeScore) -> Iterator[str]:
    attribute = score.attribute
    yield f"\n**{_cell(attribute.name)}**: “{attribute.positive}” against “{attribute.negative}”."
    if attribute.reference is not None:
        source = attribute.reference_source or "no source given"
        yield f"P* = {format_given(attribute.reference)} ({source})."
    if score.drawn is not None:
        yield f"Drawn: {score.drawn:.1%} of these pictures really show it, by the record of what was drawn."


def _score_row(attribute: str, label: str, estimate: Estimate, meaning: str) -> Row:
    interval = format_interval(estimate.low, estimate.high, value=estimate.value, n=estimate.n)
    row = {"attribute": attribute, "score": label, "interval": interval, "meaning": meaning}
    return row | asdict(estimate)


def _picture_scores(report: ExploreReport, i: int) -> Row:
    row: Row = {}
    for score in report.attributes:
        name = score.attribute.name
        positive, negative = float(score.similarity_positive[i]), float(score.similarity_negative[i])
        row |= {
            f"{name}: positive": positive,
            f"{name}: negative": negative,
            f"{name}: perceived": positive > negative,
        }
    if report.association is not None:
        row["association"] = float(report.association.associations[i])
    if report.clusters is not None:
        row["cluster"] = int(report.clusters.labels[i])
    return row


def _attribute_dict(score: AttributeScore) -> Row:
    numbers = {name: _without_nan(asdict(estimate)) for name, estimate in estimates(score).items()}
    return asdict(score.attribute) | numbers | {"drawn": score.drawn, "n_ties": score.n_ties}


def _association_dict(report: ExploreReport) -> Row | None:
    found = report.association
    if found is None:
        return None
    return {
        "attribute_a": found.attribute_a,
        "attribute_b": found.attribute_b,
        "mean": _without_nan(asdict(found.mean)),
    }


def _clusters_dict(report: ExploreReport) -> Row | None:
    found = report.clusters
    if found is None:
        return None
    return {
        "n_clusters": found.n_clusters,
        "numbers": list(found.numbers),
        "labels": found.labels.tolist(),
        "coordinates": found.coordinates.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "note": found.note,
    }


def _without_nan(values: Row) -> Row:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def _cell(text: str) -> str:
    """Text that cannot break out of a Markdown table or heading."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
