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
from bias_core.studies.arms.tables import ARM, table_over_arms
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.types import ArmReport, Design, Finding, Results, Shot, StudyFigure, StudySettings
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

N_RESAMPLES = 2000
SUMMARIES: Mapping[str, Callable[..., Any]] = {"mean": np.mean, "maximum": np.max}
"""Of the stereotype scores of a nationality's attributes."""
HERE = "these pictures"


@dataclass(frozen=True, kw_only=True)
class Nationality:
    """The stereotype scores of one nationality."""

    name: str
    users: float  # internet users, in millions
    cells: list[Cell]  # one per attribute with a real-world rate
    findings: dict[str, Finding]  # mean and maximum of Ψ over them


def user_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of each nationality; refuses those whose internet users are not known."""
    users = design.data["internet_users"]
    if unknown := [n for n in wanted_nationalities(design, settings) if n not in users]:
        raise InvalidInput(f"{design.name} does not know the internet users of {', '.join(unknown)}")
    return stereotype_shots(design, settings)


def measure_users(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Mean and largest Ψ of every nationality, and their correlation with the number of users."""
    names, users = wanted_nationalities(design, settings), design.data["internet_users"]
    read = yield from read_concepts(data, "nationality", names, lambda name: own_attributes(design, name))
    published = Published(design)
    found = [_nationality(name, float(users[name]), cells, data, published) for name, cells in read.items()]
    return Results(
        findings=tuple(finding for nationality in found for finding in nationality.findings.values()),
        tables=(
            table("figure3", "Stereotype scores and internet users", [_row(n, published) for n in found], _COLUMNS),
            table("correlations", "Correlations", _correlations(found, published, settings.seed), _ORDERS),
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


def _nationality(name: str, users: float, read: Sequence[Cell], data: StudyData, published: Published) -> Nationality:
    cells = [cell for cell in read if not math.isnan(cell.stereotype.value)]
    if not cells:
        raise InvalidInput(f"no attribute of {name} has a stereotype score: {read[0].stereotype.note}")
    references = np.array([cell.attribute.reference for cell in cells], dtype=float)
    presence = np.column_stack([_presence(cell) for cell in cells])  # (n, n_attributes)
    n, settings = len(presence), data.settings
    counts = np.random.default_rng(settings.seed).multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES)

    def summed(of: Callable[..., Any], times: np.ndarray) -> np.ndarray:
        shares = times @ presence / times.sum(axis=1, keepdims=True)
        return np.asarray(of(np.maximum(0.0, np.clip(shares, 0.0, 1.0) - references), axis=1))

    drawn = [(cell.score.drawn, reference) for cell, reference in zip(cells, references, strict=True)]
    truths = [stereotype_score(share, reference) for share, reference in drawn if share is not None]
    largest = max(cells, key=lambda cell: cell.stereotype.value).attribute.name
    findings = {}
    for summary, of in SUMMARIES.items():
        value = float(summed(of, np.ones((1, n)))[0])
        findings[summary] = Finding(
            key=f"{name} {summary}",
            title=f"{name}: {summary} Ψ",
            metric="stereotype_score",
            estimate=percentile_estimate(
                value, summed(of, counts), n=n, confidence=settings.confidence, null_value=0.0
            ),
            published=_published(published, name, settings.options.published_model, summary),
            expected=float(of(truths)) if len(truths) == len(cells) else None,
            says=f"{users:g} million internet users; the largest score is that of {largest}.",
            sample=counted_sample(cells[0].units, partial(summed, of)),
        )
    return Nationality(name=name, users=users, cells=cells, findings=findings)


def _presence(cell: Cell) -> np.ndarray:
    """Each reading, corrected so that the mean is the prevalence of the cell [rogan1978, Eq. 1]."""
    seen = (cell.score.margins > 0).astype(float)
    if cell.score.corrected is None or cell.errors is None:
        return seen
    return (seen + cell.errors.specificity - 1) / (cell.errors.sensitivity + cell.errors.specificity - 1)


def _published(published: Published, nationality: str, model: str, summary: str) -> float | None:
    """A summary of the scores that follow from the published shares; None where there are none."""
    scores = [stereotype_score(p, reference) for p, reference in published.shares(nationality, model)]
    return float(SUMMARIES[summary](scores)) if scores else None


def _row(nationality: Nationality, published: Published) -> dict[str, Any]:
    name, findings = nationality.name, nationality.findings
    return {
        "nationality": name,
        "users": nationality.users,
        **columns("mean Ψ", findings["mean"].estimate),
        **columns("maximum Ψ", findings["maximum"].estimate),
        "attributes": len(nationality.cells),
        "n": findings["mean"].estimate.n,
        **{
            f"{model} {summary}": or_nan(_published(published, name, model, summary))
            for model in published.models
            for summary in SUMMARIES
        },
    }


def _correlations(found: Sequence[Nationality], published: Published, seed: int) -> list[dict[str, Any]]:
    """Of the number of users with the mean and the largest score: measured here, and as published."""
    rows = []
    for of in (HERE, *published.models):
        for summary in SUMMARIES:
            values = [
                n.findings[summary].estimate.value if of == HERE else _published(published, n.name, of, summary)
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
            test = stats.permutation_test(
                (y,),
                lambda other, of=coefficient: float(of(x, other).statistic),
                permutation_type="pairings",
                vectorized=False,
                n_resamples=999,
                rng=seed,
            )
            value, p_value = float(test.statistic), float(test.pvalue)
        found |= {name: value, f"{name} p": p_value}
    return found


def _figure(found: Sequence[Nationality]) -> StudyFigure:
    rows = [
        {"group": "attributes", "name": "", "x": n.users, "y": cell.stereotype.value} for n in found for cell in n.cells
    ]
    for summary in SUMMARIES:
        for n in found:
            name = n.name if summary == "mean" else ""  # one name a nationality is enough
            rows.append(point(n.users, n.findings[summary].estimate, group=summary, name=name))
    title = "Stereotype scores against internet users (Figure 3)"
    caption = "Each nationality's attributes, with their mean and their largest."
    return figure("scatter", "figure3", title, rows, caption, x="internet users, in millions", y="Ψ")


def compare_users(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Figure 3, for the mean and for the largest stereotype score of each nationality."""
    by = ["nationality", "users"]
    scores = table_over_arms(arms, "figure3", by, ["mean Ψ", "maximum Ψ", "attributes", "n"])
    coefficients = ["Spearman", "Spearman p", "Pearson", "Pearson p", "n"]
    orders = table_over_arms(arms, "correlations", ["summary"], coefficients, {"Ψ of": HERE})
    figures = []
    for summary in SUMMARIES:
        names = {"nationality": "marker", ARM: "group", "users": "x", f"{summary} Ψ": "y"}
        names |= {f"{summary} Ψ low": "ylow", f"{summary} Ψ high": "yhigh"}
        shown = scores[[*names]].rename(columns=names).sort_values("x", kind="stable", ignore_index=True)
        figures.append(
            figure(
                "scatter",
                f"figure3_{summary}",
                f"Stereotype scores against internet users, {summary} of the attributes (Figure 3)",
                shown,
                "A colour per arm, a marker per nationality; arms stand a little apart, so that no interval hides "
                "another.",
                x="internet users, in millions",
                y=f"{summary} Ψ",
                lines=True,
                apart=True,
                markers=list(dict.fromkeys(scores["nationality"])),
            )
        )
    return Results(
        tables=(
            table("figure3_arms", "Stereotype scores and internet users", scores, "Users in millions."),
            table(
                "correlations_arms",
                "Correlations with the number of users",
                orders,
                "p: over all orders of the nationalities.",
            ),
        ),
        figures=tuple(figures),
    )


PROGRAMS = {
    "stereotypes_by_internet_users": Program(
        shots=user_shots, measure=measure_users, options=NationalityOptions, compare=compare_users
    )
}
