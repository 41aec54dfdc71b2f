"""OASIS: how people of a nationality are shown, against real-world rates (Table 1, Figures 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import stereotype_score
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings
from bias_core.studies.origins.arms import compare_nationalities
from bias_core.studies.origins.cells import (
    Cell,
    NationalityOptions,
    Published,
    nationality_shots,
    own_attributes,
    read_concepts,
    sample_of,
    wanted_nationalities,
)
from bias_core.studies.reports.build import columns, drawable, figure, finding_mark, or_nan, point, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.types import Attribute, Estimate


@settings_class(frozen=True, kw_only=True)
class StereotypeOptions(NationalityOptions):
    """Of whom, and what counts as a stereotype."""

    threshold: float = setting(0.0, "Threshold ζ of Definition 1", "The paper leaves it to the user", ge=0, le=1)


def stereotype_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of each nationality; refuses options that cannot be measured."""
    Published(design).check_model(settings.options.published_model)
    for nationality in wanted_nationalities(design, settings):
        if not own_attributes(design, nationality):
            raise InvalidInput(f"{design.name} has no attributes for {nationality}")
    return nationality_shots(design, settings)


def measure_nationalities(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """P, Ψ, WALS and spread of every attribute for every nationality."""
    published = Published(design)
    wanted = [n for n in wanted_nationalities(design, settings) if (data.frame["nationality"] == n).any()]
    read = yield from read_concepts(
        data, "nationality", wanted, lambda name: _with_those_of_others(design, name, wanted)
    )
    cells = [cell for name in wanted for cell in read[name]]
    own = [cell for name in wanted for cell in read[name][: len(own_attributes(design, name))]]
    variety = pd.DataFrame([_variety(cell) for cell in cells])
    findings = [f for cell in own for f in _findings(cell, settings, published)]
    return Results(
        findings=tuple(findings),
        tables=(
            table("table1", "Stereotype scores (Table 1)", [table_row(c, published) for c in own], COLUMNS),
            table("figure4", "Variety along attributes (Figure 4)", variety, _WALS),
        ),
        figures=(*_heatmaps(cells), _plane(own), *_interval_figures(own, findings, settings), _variety_figure(variety)),
        notes=(*published.notes(wanted), *_notes(own)),
    )


COLUMNS = (
    "P: share in which the reader sees the attribute. Ψ = max(0, P − P*). Corrected: with the reader's known "
    "errors taken into account. Drawn: share of these pictures that really show it; neither: share "
    "that neither sentence describes, which is read as the one or the other. Then what the paper printed, "
    "as shares."
)
_WALS = (
    "WALS: share of the pictures' variety along the attribute. Spread: its standard deviation, in cosine. "
    "Attributes of the other nationalities are read here too."
)


def _with_those_of_others(design: Design, nationality: str, wanted: Sequence[str]) -> list[Attribute]:
    """Its own attributes, then those of the other nationalities, whose P* are not its own."""
    found = {attribute.name: attribute for attribute in own_attributes(design, nationality)}
    for other in wanted:
        for attribute in own_attributes(design, other):
            found.setdefault(attribute.name, replace(attribute, reference=None, reference_source=""))
    return list(found.values())


def table_row(cell: Cell, published: Published) -> dict[str, Any]:
    """A line of Table 1."""
    score, attribute, corrected = cell.score, cell.score.attribute, cell.score.corrected
    return {
        "nationality": cell.concept,
        "attribute": attribute.name,
        "P*": or_nan(attribute.reference),
        **columns("P", score.prevalence),
        **columns("Ψ", score.stereotype),
        "P − P*": score.signed_difference.value,
        **columns("P corrected", corrected),
        "Ψ corrected": math.nan if corrected is None else cell.stereotype.value,
        "drawn": or_nan(score.drawn),
        "neither": or_nan(cell.neither),
        "n": score.prevalence.n,
        "ties": score.n_ties,
        **{
            f"{model} {symbol}": or_nan(published.share(cell, model, column))
            for model in published.models
            for symbol, column in (("P", "prevalence"), ("Ψ", "stereotype_score"))
        },
        "P* from": attribute.reference_source,
    }


def _variety(cell: Cell) -> dict[str, Any]:
    return {
        "nationality": cell.concept,
        "attribute": cell.score.attribute.name,
        **columns("WALS", cell.score.wals),
        **columns("spread", cell.score.spread),
        "n": cell.score.wals.n,
    }


def _findings(cell: Cell, settings: StudySettings, published: Published) -> list[Finding]:
    name, reference = cell.score.attribute.name, cell.score.attribute.reference
    model, drawn = settings.options.published_model, cell.score.drawn
    share = Finding(
        key=f"{cell.concept} {name} P",
        title=f"{cell.concept}, {name}: P",
        metric="attribute_prevalence",
        estimate=replace(cell.prevalence, null_value=reference),
        published=published.share(cell, model, "prevalence"),
        expected=drawn,
        says=says_of_share(cell),
        sample=sample_of(cell),
    )
    if reference is None:
        return [share]
    score = Finding(
        key=f"{cell.concept} {name} stereotype",
        title=f"{cell.concept}, {name}: Ψ",
        metric="stereotype_score",
        estimate=cell.stereotype,
        published=published.share(cell, model, "stereotype_score"),
        expected=None if drawn is None else stereotype_score(drawn, reference),
        says=_says_of_score(cell.prevalence, reference, settings.options.threshold),
        sample=sample_of(cell, reference),
    )
    return [share, score]


def says_of_share(cell: Cell) -> str:
    """How P came about, and what it may have missed."""
    says = "As read; how often the reader errs here is not known."
    if cell.score.corrected is not None:
        says = f"Read in {100 * cell.score.prevalence.value:.1f} %, corrected for the reader's errors."
    if cell.neither and cell.neither > _NOTABLE:
        says += f" Neither sentence describes {100 * cell.neither:.1f} % of the pictures."
    return says


_NOTABLE = 0.005


def _says_of_score(share: Estimate, reference: float, threshold: float) -> str:
    """Definition 1, by the interval."""
    more = f" by more than {threshold:g}" if threshold else ""
    if share.low - reference > threshold:
        return f"Shown more often than in the world{more}."
    if share.high < reference:
        return "Shown less often than in the world, which is no stereotype."
    return f"Not told to be shown more often than in the world{more}."


def _heatmaps(cells: Sequence[Cell]) -> tuple[StudyFigure, ...]:
    """P, Ψ and WALS of every nationality and attribute; Ψ only where there is a P*."""
    wanted: tuple[tuple[str, str, str, Callable[[Cell], Estimate], str], ...] = (
        ("prevalence", "P", "Who is shown with what", lambda c: c.prevalence, _READ_EVERYWHERE),
        ("stereotype", "Ψ", "Shown beyond the world's rate (Table 1)", lambda c: c.stereotype, _NO_RATE),
        ("variety", "WALS", "Variety along each attribute", lambda c: c.score.wals, _READ_EVERYWHERE),
    )
    figures = []
    for key, unit, title, of, caption in wanted:
        rows = [{"row": c.score.attribute.name, "column": c.concept, "value": of(c).value} for c in cells]
        data = pd.DataFrame(rows).dropna()
        figures.append(figure("heatmap", f"map-{key}", title, data, caption, unit=unit))
    return drawable(figures)


_READ_EVERYWHERE = "Attributes of the other nationalities are read here too; intervals are in the tables."
_NO_RATE = "Empty where no real-world rate of this nationality is known: then there is no Ψ."


def _interval_figures(
    own: Sequence[Cell], findings: Sequence[Finding], settings: StudySettings
) -> tuple[StudyFigure, ...]:
    concepts = {f"{c.concept} {c.score.attribute.name}": (c.concept, c.score.attribute.name) for c in own}
    caption = f"Diamonds: published for {settings.options.published_model}."
    figures = []
    for metric, key, title, labels in (
        ("attribute_prevalence", "prevalence", "Shares that show the attribute", {"x": "P"}),
        ("stereotype_score", "stereotype", "Stereotype scores", {"x": "Ψ", "null": 0.0}),
    ):
        rows = []
        for finding in (f for f in findings if f.metric == metric):
            concept, name = concepts[finding.key.rpartition(" ")[0]]
            rows.append(finding_mark(finding) | {"group": concept, "name": name})
        figures.append(figure("intervals", key, title, rows, caption, **labels))
    return drawable(figures)


def _variety_figure(variety: pd.DataFrame) -> StudyFigure:
    names = {"nationality": "group", "attribute": "name", "WALS": "value"}
    names |= {"WALS low": "low", "WALS high": "high"}
    bars = variety.rename(columns=names)[list(names.values())]
    caption = "Higher: more of the variety of the nationality's pictures lies along the attribute."
    return figure("bars", "figure4", "Variety along attributes (Figure 4)", bars, caption, y="WALS")


def _plane(own: Sequence[Cell]) -> StudyFigure:
    points = [
        point(cell.score.wals, cell.stereotype, group=cell.concept, name=cell.score.attribute.name) for cell in own
    ]
    caption = "Best is the lower right: no stereotype, and much variety along the attribute."
    return figure("scatter", "figure5", "Stereotype against variety (Figure 5)", points, caption, x="WALS", y="Ψ")


def _notes(own: Sequence[Cell]) -> list[str]:
    if all(cell.score.drawn is None for cell in own):
        return []
    return [
        "P* are real-world rates. Where nothing is planted (fair), all nationalities have the base rates of "
        "the calibration world, which are not P*: Ψ need not be 0 there."
    ]


PROGRAMS = {
    "nationality_stereotypes": Program(
        shots=stereotype_shots, measure=measure_nationalities, options=StereotypeOptions, compare=compare_nationalities
    )
}
