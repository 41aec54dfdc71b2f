"""OASIS: are nationalities with fewer internet users shown more stereotypically (Figure 3)?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import stereotype_score
from bias_core.stats.effects import percentile_estimate
from bias_core.studies.arms.samples import counted_sample
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings
from bias_core.studies.origins.arms import compare_users
from bias_core.studies.origins.cells import (
    Cell,
    NationalityOptions,
    Published,
    own_attributes,
    read_concepts,
    wanted_nationalities,
)
from bias_core.studies.origins.nationalities import stereotype_shots
from bias_core.studies.reports.build import columns, figure, or_nan, point, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.types import Sample
    from bias_core.types import Estimate

N_RESAMPLES = 2000
SUMMARIES: Mapping[str, Callable[..., Any]] = {"mean": np.mean, "maximum": np.max}
"""Of the stereotype scores of a nationality's attributes."""


@dataclass(frozen=True, kw_only=True)
class Nationality:
    """The stereotype scores of one nationality.

    Attributes
    ----------
    users : internet users, in millions.
    cells : one per attribute with a real-world rate.
    summaries, samples : mean and maximum of Ψ over them, and what these were computed from.
    expected : the same of what was drawn; None where nobody knows.
    """

    name: str
    users: float
    cells: tuple[Cell, ...]
    summaries: Mapping[str, Estimate]
    samples: Mapping[str, Sample]
    expected: Mapping[str, float] | None


def user_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of each nationality; refuses those whose internet users are not known."""
    users = design.data["internet_users"]
    if unknown := [n for n in wanted_nationalities(design, settings) if n not in users]:
        raise InvalidInput(f"{design.name} does not know the internet users of {', '.join(unknown)}")
    return stereotype_shots(design, settings)


def measure_users(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Mean and largest Ψ of every nationality, and their correlation with the number of users."""
    names, users = wanted_nationalities(design, settings), design.data["internet_users"]
    cells = yield from read_concepts(data, "nationality", names, lambda name: own_attributes(design, name))
    found = [_nationality(name, float(users[name]), own, data) for name, own in cells.items()]
    published = Published(design)
    correlations = _correlations(found, published, settings.seed)
    model = settings.options.published_model
    return Results(
        findings=tuple(_finding(n, summary, published, model) for n in found for summary in SUMMARIES),
        tables=(
            table("figure3", "Stereotype scores and internet users", [_row(n, published) for n in found], _COLUMNS),
            table("correlations", "Correlations", correlations, _ORDERS),
        ),
        figures=(_figure(found),),
        notes=(*published.notes([n.name for n in found]), _CAVEAT),
    )


_COLUMNS = (
    "Users in millions (World Population Review, 2024). Mean and maximum of Ψ over the attributes of Table 1;"
    " published: recomputed from the P and P* that Table 1 prints."
)
_ORDERS = "p: share of all orders of the nationalities in which the coefficient is as large, doubled."
_CAVEAT = (
    "Three nationalities cannot show a trend: over all orders of three, the smallest possible p is 1/3. The "
    "attributes differ between nationalities too."
)


def _nationality(name: str, users: float, read: Sequence[Cell], data: StudyData) -> Nationality:
    cells = [cell for cell in read if not math.isnan(cell.stereotype.value)]
    if not cells:
        raise InvalidInput(f"no attribute of {name} has a stereotype score: {read[0].stereotype.note}")
    references = np.array([cell.score.attribute.reference for cell in cells], dtype=float)
    presence = _presence(data, cells)  # (n, n_attributes)
    n, settings = len(presence), data.settings
    counts = np.random.default_rng(settings.seed).multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES)
    resampled = _scores(counts @ presence / n, references)
    scores = _scores(presence.mean(axis=0), references)
    drawn = [cell.score.drawn for cell in cells]
    truths = [stereotype_score(p, r) for p, r in zip(drawn, references, strict=True) if p is not None]
    return Nationality(
        name=name,
        users=users,
        cells=tuple(cells),
        summaries={
            summary: percentile_estimate(
                float(of(scores)), of(resampled, axis=1), n=n, confidence=settings.confidence, null_value=0.0
            )
            for summary, of in SUMMARIES.items()
        },
        samples={k: _sample(cells[0].units, presence, references, of) for k, of in SUMMARIES.items()},
        expected={k: float(of(truths)) for k, of in SUMMARIES.items()} if len(truths) == len(cells) else None,
    )


def _sample(units: Sequence[str], presence: np.ndarray, references: np.ndarray, summary: Callable[..., Any]) -> Sample:
    """What a summary of Ψ was computed from."""

    def of_counts(times: np.ndarray) -> np.ndarray:
        shares = times @ presence / times.sum(axis=1, keepdims=True)
        return np.asarray(summary(_scores(shares, references), axis=1))

    return counted_sample(units, of_counts)


def _presence(data: StudyData, cells: Sequence[Cell]) -> np.ndarray:
    """Each reading, corrected so that the mean is the prevalence of the cell [rogan1978, Eq. 1]."""
    pairs = [(cell.score.attribute.positive, cell.score.attribute.negative) for cell in cells]
    errors = data.services.reader_errors(data.settings.encoder, data.settings.model, pairs)
    readings = []
    for cell, known in zip(cells, errors, strict=True):
        seen = (cell.score.similarity_positive > cell.score.similarity_negative).astype(float)
        if cell.score.corrected is not None and known is not None:
            seen = (seen + known.specificity - 1) / (known.sensitivity + known.specificity - 1)
        readings.append(seen)
    return np.column_stack(readings)


def _scores(prevalence: np.ndarray, references: np.ndarray) -> np.ndarray:
    scores: np.ndarray = np.maximum(0.0, np.clip(prevalence, 0.0, 1.0) - references)
    return scores


def _published(published: Published, nationality: str, model: str, summary: str) -> float | None:
    """A summary of the scores that follow from the published shares; None where there are none."""
    scores = [stereotype_score(p, reference) for p, reference in published.shares(nationality, model).values()]
    return float(SUMMARIES[summary](scores)) if scores else None


def _row(nationality: Nationality, published: Published) -> dict[str, Any]:
    name = nationality.name
    return {
        "nationality": name,
        "users": nationality.users,
        **columns("mean Ψ", nationality.summaries["mean"]),
        **columns("maximum Ψ", nationality.summaries["maximum"]),
        "attributes": len(nationality.cells),
        "n": nationality.summaries["mean"].n,
        **{
            f"{model} {summary}": or_nan(_published(published, name, model, summary))
            for model in published.models
            for summary in SUMMARIES
        },
    }


def _finding(nationality: Nationality, summary: str, published: Published, model: str) -> Finding:
    largest = max(nationality.cells, key=lambda cell: cell.stereotype.value).score.attribute.name
    return Finding(
        key=f"{nationality.name} {summary}",
        title=f"{nationality.name}: {summary} Ψ",
        metric="stereotype_score",
        estimate=nationality.summaries[summary],
        published=_published(published, nationality.name, model, summary),
        expected=None if nationality.expected is None else nationality.expected[summary],
        says=f"{nationality.users:g} million internet users; the largest score is that of {largest}.",
        sample=nationality.samples[summary],
    )


def _correlations(found: Sequence[Nationality], published: Published, seed: int) -> list[dict[str, Any]]:
    """Of the number of users with the mean and the largest score: measured here, and as published."""
    rows = []
    for of in ("these pictures", *published.models):
        for summary in SUMMARIES:
            values = [
                n.summaries[summary].value if of == "these pictures" else _published(published, n.name, of, summary)
                for n in found
            ]
            points = [(n.users, value) for n, value in zip(found, values, strict=True) if value is not None]
            rows.append({"Ψ of": of, "summary": summary, "n": len(points), **_correlate(points, seed)})
    return rows


def _correlate(points: Sequence[tuple[float, float]], seed: int) -> dict[str, float]:
    """Spearman's and Pearson's coefficients, with p over the orders of the points."""
    x, y = np.array(points, dtype=float).reshape(-1, 2).T
    found: dict[str, float] = {}
    for name, coefficient in (("Spearman", stats.spearmanr), ("Pearson", stats.pearsonr)):
        value, p_value = math.nan, math.nan
        if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
            statistic = partial(_coefficient, coefficient, x)
            test = stats.permutation_test(
                (y,), statistic, permutation_type="pairings", vectorized=False, n_resamples=999, rng=seed
            )
            value, p_value = float(test.statistic), float(test.pvalue)
        found |= {name: value, f"{name} p": p_value}
    return found


def _coefficient(coefficient: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> float:
    return float(coefficient(x, y).statistic)


def _figure(found: Sequence[Nationality]) -> StudyFigure:
    rows = [
        {"group": "attributes", "name": "", "x": n.users, "y": cell.stereotype.value} for n in found for cell in n.cells
    ]
    for summary in SUMMARIES:
        for n in found:
            name = n.name if summary == "mean" else ""  # one name a nationality is enough
            rows.append(point(n.users, n.summaries[summary], group=summary, name=name))
    title = "Stereotype scores against internet users (Figure 3)"
    caption = "Each nationality's attributes, with their mean and their largest."
    return figure("scatter", "figure3", title, rows, caption, x="internet users, in millions", y="Ψ")


PROGRAMS = {
    "stereotypes_by_internet_users": Program(
        shots=user_shots, measure=measure_users, options=NationalityOptions, compare=compare_users
    )
}
