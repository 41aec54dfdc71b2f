"""Every picture measure repeated on new pictures: coverage, false alarms, the rise from fair to extreme."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bias_core.metrics.alignment import alignment_estimates, spread_estimates, text_direction
from bias_core.metrics.association import mean_association
from bias_core.metrics.composite_scores import composite_association
from bias_core.metrics.stereotype import prevalence_estimate, signed_difference_estimate, stereotype_estimate
from bias_core.statistics import wilson_interval
from bias_core.studies.program import Measuring, Program
from bias_core.studies.rows import scaled
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
)
from bias_core.studies.validity import CONDITIONS

if TYPE_CHECKING:
    from bias_core.studies.study_data import StudyData
    from bias_core.types import Estimate

SEEDS_APART = 1000  # between repetitions
FEWEST_REPETITIONS = 3
SETS = ("neutral", "a", "b")


def measure_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per repetition and condition: pictures of each concept, plain and guided, and of the two attributes."""
    n, n_attribute = design.images_per_prompt, settings.options["attribute_images"]
    asked = [(c["name"], kind, c[kind]) for c in design.data["concepts"] for kind in SETS]
    asked += [("attribute", kind, prompt) for kind, prompt in design.data["attribute_pictures"].items()]
    return [
        Shot(
            prompt=prompt,
            n=n if kind == "neutral" else n_attribute,
            group=condition,
            condition=condition,
            first_seed=SEEDS_APART * (repetition + 1),
            facts={"concept": concept, "set": kind, "repetition": repetition},
        )
        for repetition in range(repetitions(settings))
        for condition in CONDITIONS
        for concept, kind, prompt in asked
    ]


def repetitions(settings: StudySettings) -> int:
    """How often the measurement is repeated at this scale."""
    return scaled(settings.options["repetitions"], settings.scale, least=FEWEST_REPETITIONS)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What one measurement is given: unit rows of pictures and texts, P* and a seed."""

    neutral: np.ndarray
    a: np.ndarray
    b: np.ndarray
    attribute_a: np.ndarray
    attribute_b: np.ndarray
    sentences: np.ndarray
    prompt: np.ndarray
    text_a: np.ndarray
    text_b: np.ndarray
    seed: int


FAIR_SHARE = 0.5  # of masculine people, in the fair world


def _prevalence(sample: Sample) -> Estimate:
    positive, negative = (sample.neutral @ sentence for sentence in sample.sentences)
    return prevalence_estimate(positive, negative)


def _direction(sample: Sample) -> np.ndarray:
    return np.asarray(text_direction(*sample.sentences))[None]


MEASURES: dict[str, Callable[[Sample], Estimate]] = {
    "attribute_prevalence": _prevalence,
    "stereotype_score": lambda s: stereotype_estimate(_prevalence(s), FAIR_SHARE),
    "signed_difference": lambda s: signed_difference_estimate(_prevalence(s), FAIR_SHARE),
    "weighted_alignment_score": lambda s: alignment_estimates(s.neutral, _direction(s), rng=s.seed)[0],
    "spread_along": lambda s: spread_estimates(s.neutral, _direction(s), rng=s.seed)[0],
    "association": lambda s: mean_association(s.neutral, s.a, s.b, rng=s.seed),
    "composite_association": lambda s: (
        composite_association(
            s.neutral, s.prompt, s.attribute_a, s.attribute_b, s.text_a, s.text_b, rng=s.seed
        ).mcas_interval
    ),
}
"""Measures by their key in the table of measures."""


def measure_repeatedly(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The measures of every repetition, against those of all its pictures together."""
    rows = yield from data.embed(data.frame)
    found = []
    for concept in design.data["concepts"]:
        for condition in CONDITIONS:
            data.check()
            here = data.frame[data.frame["group"] == condition]
            found += list(_repeated(design, data, here, rows, concept))
    table = pd.DataFrame(found)
    summary = _summary(table)
    return Results(
        findings=tuple(_findings(summary, repetitions(settings) * len(design.data["concepts"]))),
        tables=(
            StudyTable(key="summary", title="Coverage, false alarms, and the rise to extreme", frame=summary,
                       note=_NOTE),
            StudyTable(key="repetitions", title="Every repetition", frame=table),
        ),
        figures=(_rise_figure(table),),
    )  # fmt: skip


_NOTE = (
    "held: share of intervals that hold the value of all repetitions' pictures together. null excluded: "
    "share of intervals that exclude the value of no bias, which on fair are false alarms. bias: mean of the "
    "repetitions minus the value of all pictures. mean: over repetitions and concepts, towards the side "
    "that extreme lies on."
)


def _repeated(
    design: Design, data: StudyData, frame: pd.DataFrame, rows: np.ndarray, concept: dict[str, str]
) -> Iterator[dict[str, object]]:
    """Each measure on each repetition's pictures of a concept, beside its value on all of them."""
    texts = design.data["text_attributes"]
    fixed = {
        "sentences": data.texts(design.data["sentences"]),
        "prompt": data.texts([concept["neutral"]]),
        "text_a": data.texts(texts["a"]),
        "text_b": data.texts(texts["b"]),
    }

    def sample(part: pd.DataFrame, seed: int) -> Sample:
        own, attribute = part[part["concept"] == concept["name"]], part[part["concept"] == "attribute"]
        chosen = {kind: rows[own.index[own["set"] == kind]] for kind in SETS}
        chosen |= {f"attribute_{k}": rows[attribute.index[attribute["set"] == k]] for k in ("a", "b")}
        return Sample(**chosen, **fixed, seed=seed)

    together = {key: measure(sample(frame, 0)).value for key, measure in MEASURES.items()}
    for repetition, part in frame.groupby("repetition"):
        here = sample(part, int(str(repetition)))
        for key, measure in MEASURES.items():
            estimate = measure(here)
            yield {
                "measure": key,
                "concept": concept["name"],
                "condition": part["group"].iloc[0],
                "repetition": repetition,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "together": together[key],
                "null": estimate.null_value,
            }


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    """One line per measure and condition."""
    held = (table["low"] - 1e-9 <= table["together"]) & (table["together"] <= table["high"] + 1e-9)
    null = table["null"].astype(float)
    away = ((null < table["low"]) | (null > table["high"])).where(null.notna())
    full = table.assign(held=held, away=away.astype(float), bias=table["value"] - table["together"])
    lines = full.groupby(["measure", "condition"], sort=False).agg(
        held=("held", "mean"), away=("away", "mean"), bias=("bias", "mean"), n=("held", "size")
    )
    lines["mean"] = _leaning(table).groupby(["measure", "condition"])["leaning"].mean()
    return lines.rename(columns={"away": "null excluded"}).reset_index()


def _leaning(table: pd.DataFrame) -> pd.DataFrame:
    """Values with their sign turned for concepts whose pictures lean to B in ``extreme``."""
    extreme = table[table["condition"] == "extreme"].groupby(["measure", "concept"])["together"].first()
    fair = table[table["condition"] == "fair"].groupby(["measure", "concept"])["together"].first()
    side = (2.0 * (extreme >= fair) - 1.0).rename("side")
    turned = table.join(side, on=["measure", "concept"])
    return turned.assign(leaning=turned["value"] * turned["side"])


def _findings(summary: pd.DataFrame, n: int) -> Iterator[Finding]:
    for _, row in summary.iterrows():
        estimate = wilson_interval(round(row["held"] * n), n, null_value=0.95)
        yield Finding(
            key=f"{row['measure']} {row['condition']}",
            title=f"Intervals that hold the value of many pictures, {row['condition']}",
            metric=row["measure"],
            estimate=estimate,
            says=""
            if np.isnan(row["null excluded"])
            else f"{100 * row['null excluded']:.0f} % exclude the null value.",
        )


def _rise_figure(table: pd.DataFrame) -> StudyFigure:
    leaning = _leaning(table)
    scale = leaning.groupby("measure")["leaning"].transform("std")
    data = pd.DataFrame(
        {"group": leaning["measure"] + ", " + leaning["condition"], "value": leaning["leaning"] / scale}
    ).assign(side=leaning["condition"])
    return StudyFigure(
        key="rise",
        title="From fair over published to extreme",
        kind="distributions",
        data=data,
        labels={"x": "value towards the planted side, in standard deviations of the measure"},
        caption="Each point is one measurement; a measure that sees what is planted moves to the right.",
    )


PROGRAMS = {"validity_measures": Program(shots=measure_shots, measure=measure_repeatedly)}
