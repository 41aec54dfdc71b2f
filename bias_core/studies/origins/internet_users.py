"""OASIS: are nationalities with fewer internet users shown more stereotypically (Figure 3)?"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import stereotype_score
from bias_core.stats.effects import percentile_estimate
from bias_core.studies.arms.statistics import ARM, counted_sample, table_over_arms
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    figure,
    finding,
    marks,
    or_nan,
    table,
)
from bias_core.studies.origins.cells import (
    Cell,
    NationalityOptions,
    Published,
    own_attributes,
    read_concepts,
    wanted_nationalities,
)
from bias_core.studies.origins.nationalities import stereotype_shots

N_RESAMPLES = 2000
SUMMARIES: Mapping[str, Callable[..., Any]] = {"mean": np.mean, "maximum": np.max}
"""Of the stereotype scores of a nationality's attributes."""
HERE = "these pictures"


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
    findings: list[Finding] = []
    points: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for name, of_name in read.items():
        cells = [cell for cell in of_name if not math.isnan(cell.stereotype.value)]
        if not cells:
            raise InvalidInput(f"no attribute of {name} has a stereotype score: {of_name[0].stereotype.note}")
        own = _findings(name, float(users[name]), cells, data, published)
        findings += own.values()
        scores = {summary: columns(f"{summary} Ψ", finding.estimate) for summary, finding in own.items()}
        first = {"nationality": name, "users": float(users[name]), **scores["mean"], **scores["maximum"]}
        printed = {
            f"{model} {summary}": or_nan(_published(published, name, model, summary))
            for model, summary in product(published.models, SUMMARIES)
        }
        rows.append(first | {"attributes": len(cells), "n": own["mean"].estimate.n} | printed)
        values = (cell.stereotype.value for cell in cells)
        points += [{"group": "attributes", "name": "", "x": float(users[name]), "y": value} for value in values]
    frame = pd.DataFrame(rows)
    correlations = _correlations(frame, published.models, settings.seed)
    return Results(
        findings=tuple(findings),
        tables=(
            table("figure3", "Stereotype scores and internet users", frame, _COLUMNS),
            table("correlations", "Correlations", correlations, _ORDERS),
        ),
        figures=(_figure(frame, points),),
        notes=(*published.notes(list(read)), _CAVEAT),
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


def _findings(
    name: str, users: float, cells: Sequence[Cell], data: StudyData, published: Published
) -> dict[str, Finding]:
    """Mean and maximum of Ψ over the attributes of a nationality."""
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
    says = f"{users:g} million internet users; the largest score is that of {largest}."
    findings = {}
    for summary, of in SUMMARIES.items():
        value, resampled = float(summed(of, np.ones((1, n)))[0]), summed(of, counts)
        score = percentile_estimate(value, resampled, n=n, confidence=settings.confidence, null_value=0.0)
        more: dict[str, Any] = {"expected": float(of(truths)) if len(truths) == len(cells) else None}
        more["published"] = _published(published, name, settings.options.published_model, summary)
        more["sample"] = counted_sample(cells[0].units, partial(summed, of))
        title = f"{name}: {summary} Ψ"
        findings[summary] = finding(f"{name} {summary}", title, "stereotype_score", score, says, **more)
    return findings


def _presence(cell: Cell) -> np.ndarray:
    """Each reading, corrected so that the mean is the prevalence of the cell [rogan1978, Eq. 1]."""
    calls = (cell.score.margins > 0).astype(float)
    errors = cell.score.errors
    if cell.score.corrected is None or errors is None:
        return calls
    return (calls + errors.specificity - 1) / (errors.sensitivity + errors.specificity - 1)


def _published(published: Published, nationality: str, model: str, summary: str) -> float | None:
    """A summary of the scores that follow from the published shares; None where there are none."""
    rows = published.of(nationality, model)
    scores = [stereotype_score(*(float(row[of]) / 100 for of in ("prevalence", "reference"))) for row in rows]
    return float(SUMMARIES[summary](scores)) if scores else None


def _correlations(frame: pd.DataFrame, models: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Of the number of users with the mean and the largest score: measured here, and as published."""
    rows = []
    for of, summary in product((HERE, *models), SUMMARIES):
        points = frame[["users", f"{summary} Ψ" if of == HERE else f"{of} {summary}"]].dropna()
        rows.append({"Ψ of": of, "summary": summary, "n": len(points), **_correlate(points, seed)})
    return rows


def _correlate(points: ArrayLike, seed: int) -> dict[str, float]:
    x, y = np.array(points, dtype=float).reshape(-1, 2).T
    coefficients: dict[str, float] = {}
    for name, coefficient in (("Spearman", stats.spearmanr), ("Pearson", stats.pearsonr)):
        value, p_value = math.nan, math.nan
        if len(x) > 2 and np.ptp(x) > 0 and np.ptp(y) > 0:
            how = {"permutation_type": "pairings", "vectorized": False, "n_resamples": 999, "rng": seed}
            test = stats.permutation_test((y,), lambda other, of=coefficient: float(of(x, other).statistic), **how)
            value, p_value = float(test.statistic), float(test.pvalue)
        coefficients |= {name: value, f"{name} p": p_value}
    return coefficients


def _scores(frame: pd.DataFrame, summary: str, **names: str) -> pd.DataFrame:
    ends = {f"y{end}": f"{summary} Ψ {end}" for end in ("low", "high")}
    return marks(frame, {**names, "x": "users", "y": f"{summary} Ψ", **ends})


def _figure(frame: pd.DataFrame, points: Sequence[Mapping[str, Any]]) -> StudyFigure:
    """Figure 3; one name a nationality is enough."""
    parts = [_scores(frame, summary, name="nationality").assign(group=summary) for summary in SUMMARIES]
    parts[1]["name"] = ""
    rows = pd.concat([pd.DataFrame(points), *parts], ignore_index=True)
    title = "Stereotype scores against internet users (Figure 3)"
    caption = "Each nationality's attributes, with their mean and their largest."
    return figure("scatter", "figure3", title, rows, caption, x="internet users, in millions", y="Ψ")


def compare_users(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Figure 3, for the mean and for the largest stereotype score of each nationality."""
    scores = table_over_arms(arms, "figure3", ["nationality", "users"], ["mean Ψ", "maximum Ψ", "attributes", "n"])
    coefficients = ["Spearman", "Spearman p", "Pearson", "Pearson p", "n"]
    orders = table_over_arms(arms, "correlations", ["summary"], coefficients, {"Ψ of": HERE})
    note = "p: over all orders of the nationalities."
    markers = list(dict.fromkeys(scores["nationality"]))
    figures = []
    for summary in SUMMARIES:
        title = f"Stereotype scores against internet users, {summary} of the attributes (Figure 3)"
        shown = _scores(scores.sort_values("users", kind="stable"), summary, marker="nationality", group=ARM)
        axes = {"x": "internet users, in millions", "y": f"{summary} Ψ", "lines": True, "apart": True}
        labels = {**axes, "markers": markers}
        figures.append(figure("scatter", f"figure3_{summary}", title, shown, _OVER_ARMS, **labels))
    return Results(
        tables=(
            table("figure3_arms", "Stereotype scores and internet users", scores, "Users in millions."),
            table("correlations_arms", "Correlations with the number of users", orders, note),
        ),
        figures=tuple(figures),
    )


_OVER_ARMS = "A colour per arm, a marker per nationality; arms stand a little apart, so that no interval hides another."


PROGRAMS = {
    "stereotypes_by_internet_users": Program(
        shots=user_shots, measure=measure_users, options=NationalityOptions, compare=compare_users
    )
}
