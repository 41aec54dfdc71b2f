"""T2IAT's occupations: how their pictures lean (Fig. 3), and how far beyond their words (Fig. 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.association import association, mean_association
from bias_core.metrics.association_null import association_beyond_even_mix, even_mix_association
from bias_core.prompts import fill_template
from bias_core.studies.arms.samples import lean_sample
from bias_core.studies.association.arms import compare_amplification, compare_occupations
from bias_core.studies.association.sets import SETS
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.types import Design, Finding, Results, Sample, Shot, StudySettings
from bias_core.studies.reports.build import POINTS, columns, figure, lean, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.types import Estimate

AXIS = "association with male rather than female"


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per occupation: neutral pictures, and those of its two gendered descriptions."""
    occupations = design.data["occupations"]
    forms = ("template", "template_a", "template_b")
    n = scaled(design.images_per_prompt, settings.scale)
    return [
        Shot(
            prompt=fill_template(occupations[form], occupation),
            n=n,
            group=kind,
            facts={"occupation": occupation, "set": kind},
        )
        for occupation in occupations["list"]
        for kind, form in zip(SETS, forms, strict=True)
    ]


def measure_occupations(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """How the pictures of each occupation lean, and the quartiles of their associations."""
    rows = yield from data.embed(data.frame)
    sets = _sets(design, data.frame, rows)
    means = _means(sets, settings)
    beyond = {n: association_beyond_even_mix(*s, confidence=settings.confidence) for n, s in sets.items()}
    singles = {name: association(*s) for name, s in sets.items()}
    _keep(data, singles)
    leaning = {n: side for side, group in design.data["occupations"]["leaning"].items() for n in group}
    lines = [
        {
            "occupation": name,
            **_spread(means[name], singles[name]),
            "even mix": means[name].null_value,
            **columns("beyond it", beyond[name], ends="beyond"),
            "in the paper": leaning.get(name, ""),
        }
        for name in sets
    ]
    points = [{"group": name, "value": value} for name in sets for value in singles[name]]
    return Results(
        findings=tuple(
            _finding(name, mean, _side(beyond[name]), _sample(data, name, sets[name])) for name, mean in means.items()
        ),
        tables=(table("occupations", "Associations of occupations", lines, _EVEN),),
        figures=(
            figure(
                "distributions",
                "figure3",
                "Association with male rather than female (Fig. 3)",
                points,
                POINTS,
                x=AXIS,
                null=0.0,
            ),
        ),
        notes=(_EVEN,),
    )


_EVEN = (
    "Neutral is the even mix: where neutral pictures would lie that are half like the male and half like the "
    "female ones. It is not 0 where pictures of the one are more alike than pictures of the other."
)


def measure_amplification(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Eq. 2 on the prompts' text embeddings against Eq. 2 on the pictures, an arrow for each occupation."""
    rows = yield from data.embed(data.frame)
    sets = _sets(design, data.frame, rows)
    means = _means(sets, settings)
    _keep(data, {name: association(*s) for name, s in sets.items()})
    texts = {name: _text_association(design, data, name) for name in sets}
    published = {row["occupation"]: row for row in design.data["occupations"]["amplification"]}
    amplified = _amplified(means, texts, published)
    return Results(
        findings=tuple(
            _finding(name, mean, says, _sample(data, name, sets[name]), published.get(name, {}).get("image"))
            for name, mean in means.items()
            for says in [f"Its prompt alone leans by {texts[name]:+.4f}."]
        ),
        tables=(table("amplification", "From text to picture", amplified),),
        figures=(
            figure(
                "arrows",
                "figure4",
                "Stereotype amplification (Fig. 4)",
                amplified[["occupation", "text", "image"]].set_axis(["name", "start", "end"], axis=1),
                "From the association of the prompt's words to that of the pictures drawn from it.",
                x=AXIS,
                null=0.0,
                start="prompt",
                end="pictures",
            ),
        ),
        notes=(
            "Cosines between sentences and between pictures are not on one scale in CLIP: compare sides and "
            "orders, not lengths.",
            _EVEN,
        ),
    )


def _amplified(
    means: dict[str, Estimate], texts: dict[str, float], published: dict[str, dict[str, Any]]
) -> pd.DataFrame:
    """A row per occupation: its lean in words and in pictures, and the published ones."""
    return pd.DataFrame(
        [
            {
                "occupation": name,
                "text": texts[name],
                **columns("image", mean, ends=""),
                "even mix": mean.null_value,
                "amplified": abs(mean.value) > abs(texts[name]),
                "same side": mean.value * texts[name] > 0,
                "published text": published.get(name, {}).get("text"),
                "published image": published.get(name, {}).get("image"),
            }
            for name, mean in means.items()
        ]
    )


def _sets(design: Design, frame: pd.DataFrame, rows: np.ndarray) -> dict[str, tuple[np.ndarray, ...]]:
    """Embeddings of the neutral, A and B pictures of each occupation."""
    return {
        name: tuple(rows[frame.index[(frame["occupation"] == name) & (frame["set"] == kind)]] for kind in SETS)
        for name in design.data["occupations"]["list"]
    }


def _keep(data: StudyData, singles: dict[str, np.ndarray]) -> None:
    """Put the association of each neutral picture beside it."""
    frame = data.frame
    for name, values in singles.items():
        data.keep(frame[(frame["occupation"] == name) & (frame["set"] == "neutral")], association=values)


def _means(sets: dict[str, tuple[np.ndarray, ...]], settings: StudySettings) -> dict[str, Estimate]:
    """Mean of Eq. 2 by occupation; what would be neutral is the even mix of its own gendered pictures."""
    return {
        name: replace(
            mean_association(neutral, a, b, confidence=settings.confidence), null_value=even_mix_association(a, b)
        )
        for name, (neutral, a, b) in sets.items()
    }


def _text_association(design: Design, data: StudyData, occupation: str) -> float:
    """Eq. 2 of the neutral prompt with its two gendered descriptions."""
    occupations = design.data["occupations"]
    forms = [fill_template(occupations[f], occupation) for f in ("template", "template_a", "template_b")]
    neutral, a, b = (row[None] for row in data.texts(forms))
    return float(association(neutral, a, b)[0])


def _spread(mean: Estimate, values: np.ndarray) -> dict[str, float]:
    quartiles = np.quantile(values, (0.25, 0.5, 0.75))
    names = ("first quartile", "median", "third quartile")
    return {**columns("mean", mean, ends=""), **dict(zip(names, map(float, quartiles), strict=True)), "n": mean.n}


def _sample(data: StudyData, occupation: str, sets: tuple[np.ndarray, ...]) -> Sample:
    """What a mean association was computed from: the neutral pictures and those of both attributes."""
    mine = data.frame[data.frame["occupation"] == occupation]
    neutral, a, b = (list(mine.loc[mine["set"] == kind, "unit"]) for kind in SETS)
    return lean_sample((neutral, a, b), sets[0] @ sets[1].T, sets[0] @ sets[2].T)


def _finding(name: str, mean: Estimate, says: str, sample: Sample, published: float | None = None) -> Finding:
    return Finding(
        key=name, title=name, metric="association", estimate=mean, published=published, says=says, sample=sample
    )


def _side(beyond: Estimate) -> str:
    """Which way the pictures lean from an even mix."""
    return lean(
        beyond,
        "Its pictures lean to male.",
        "Its pictures lean to female.",
        "Its pictures lean to neither side clearly.",
    )


PROGRAMS = {
    "occupation_associations": Program(
        shots=occupation_shots, measure=measure_occupations, compare=compare_occupations
    ),
    "amplification": Program(shots=occupation_shots, measure=measure_amplification, compare=compare_amplification),
}
