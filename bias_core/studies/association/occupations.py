"""T2IAT's occupations: how their pictures lean (Fig. 3), and how far beyond their words (Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from bias_core.metrics.association import association, mean_association
from bias_core.metrics.association_null import association_beyond_even_mix, even_mix_association
from bias_core.prompts import fill_template
from bias_core.studies.arms.statistics import lean_sample, table_over_arms
from bias_core.studies.association.tests import SETS
from bias_core.studies.kit.program import Measuring, Program, Steps, StudyData
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.types import (
    POINTS,
    ArmReport,
    Design,
    Results,
    Sample,
    Shot,
    StudySettings,
    columns,
    figure,
    finding,
    lean,
    marks,
    table,
)
from bias_core.types import Estimate

AXIS = "association with male rather than female"
_FORMS = ("template", "template_a", "template_b")  # the prompts of an occupation, in the order of ``SETS``
_EVEN = (
    "Neutral is the even mix: where neutral pictures would lie that are half like the male and half like the "
    "female ones. It is not 0 where pictures of the one are more alike than pictures of the other."
)


@dataclass(frozen=True, kw_only=True)
class Leaning:
    """How the pictures of an occupation lean."""

    sets: tuple[np.ndarray, ...]  # embeddings of its neutral pictures and of those of both gendered descriptions
    singles: np.ndarray  # association of each neutral picture
    mean: Estimate  # of these; its null value is the even mix of the gendered pictures
    sample: Sample  # what the mean was computed from


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Per occupation: neutral pictures, and those of its two gendered descriptions."""
    occupations, n = design.data["occupations"], scaled(design.images_per_prompt, settings.scale)
    return [
        Shot(prompt=prompt, n=n, group=kind, facts={"occupation": name, "set": kind})
        for name in occupations["list"]
        for kind, form in zip(SETS, _FORMS, strict=True)
        for prompt in [fill_template(occupations[form], name)]
    ]


def _leanings(design: Design, settings: StudySettings, data: StudyData) -> Steps[dict[str, Leaning]]:
    """How each occupation leans; the association of every neutral picture is put beside it."""
    rows = yield from data.embed(data.frame)
    leanings = {}
    for name in design.data["occupations"]["list"]:
        mine = data.frame[data.frame["occupation"] == name]
        parts = [mine[mine["set"] == kind] for kind in SETS]
        neutral, a, b = (rows[part.index] for part in parts)
        of_neutral, of_a, of_b = (list(part["unit"]) for part in parts)
        mean = mean_association(neutral, a, b, confidence=settings.confidence)
        leanings[name] = Leaning(
            sets=(neutral, a, b),
            singles=association(neutral, a, b),
            mean=replace(mean, null_value=even_mix_association(a, b)),
            sample=lean_sample((of_neutral, of_a, of_b), neutral @ a.T, neutral @ b.T),
        )
        data.keep(parts[0], association=leanings[name].singles)
    return leanings


def measure_occupations(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """How the pictures of each occupation lean, and the quartiles of their associations."""
    leanings = yield from _leanings(design, settings, data)
    sides = {name: side for side, names in design.data["occupations"]["leaning"].items() for name in names}
    findings, lines = [], []
    for name, one in leanings.items():
        beyond = association_beyond_even_mix(*one.sets, confidence=settings.confidence)
        says = [f"Its pictures lean to {side}." for side in ("male", "female", "neither side clearly")]
        findings.append(finding(name, name, "association", one.mean, lean(beyond, *says), sample=one.sample))
        quartiles = map(float, np.quantile(one.singles, (0.25, 0.5, 0.75)))
        lines.append(
            {
                "occupation": name,
                **columns("mean", one.mean, ends=""),
                **dict(zip(("first quartile", "median", "third quartile"), quartiles, strict=True)),
                "n": one.mean.n,
                "even mix": one.mean.null_value,
                **columns("beyond it", beyond, ends="beyond"),
                "in the paper": sides.get(name, ""),
            }
        )
    points = [{"group": name, "value": value} for name, one in leanings.items() for value in one.singles]
    title = "Association with male rather than female (Fig. 3)"
    return Results(
        findings=tuple(findings),
        tables=(table("occupations", "Associations of occupations", lines, _EVEN),),
        figures=(figure("distributions", "figure3", title, points, POINTS, x=AXIS, null=0.0),),
        notes=(_EVEN,),
    )


def measure_amplification(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Eq. 2 on the prompts' text embeddings against Eq. 2 on the pictures, an arrow for each occupation."""
    leanings = yield from _leanings(design, settings, data)
    occupations = design.data["occupations"]
    published = {row["occupation"]: row for row in occupations["amplification"]}
    findings, lines = [], []
    for name, one in leanings.items():
        texts = data.texts([fill_template(occupations[form], name) for form in _FORMS])
        text = float(association(*(row[None] for row in texts))[0])
        printed, says = published.get(name, {}), f"Its prompt alone leans by {text:+.4f}."
        of = finding(name, name, "association", one.mean, says, published=printed.get("image"), sample=one.sample)
        findings.append(of)
        lines.append(
            {
                "occupation": name,
                "text": text,
                **columns("image", one.mean, ends=""),
                "even mix": one.mean.null_value,
                "amplified": abs(one.mean.value) > abs(text),
                "same side": one.mean.value * text > 0,
                "published text": printed.get("text"),
                "published image": printed.get("image"),
            }
        )
    rows = marks(pd.DataFrame(lines), {"name": "occupation", "start": "text", "end": "image"})
    caption = "From the association of the prompt's words to that of the pictures drawn from it."
    axes = {"x": AXIS, "null": 0.0, "start": "prompt", "end": "pictures"}
    arrows = figure("arrows", "figure4", "Stereotype amplification (Fig. 4)", rows, caption, **axes)
    note = (
        "Cosines between sentences and between pictures are not on one scale in CLIP: compare sides and "
        "orders, not lengths."
    )
    overview = table("amplification", "From text to picture", lines)
    return Results(findings=tuple(findings), tables=(overview,), figures=(arrows,), notes=(note, _EVEN))


def _compare(
    _design: Design,
    _settings: StudySettings,
    arms: Sequence[ArmReport],
    *,
    key: str,
    title: str,
    columns: Sequence[str],
) -> Results:
    """A figure in numbers: the table of every arm side by side."""
    return Results(tables=(table(f"{key}_arms", title, table_over_arms(arms, key, ["occupation"], columns)),))


PROGRAMS = {
    "occupation_associations": Program(
        shots=occupation_shots,
        measure=measure_occupations,
        compare=partial(
            _compare,
            key="occupations",
            title="Associations of occupations over the arms (Fig. 3)",
            columns=["mean", "low", "high", "even mix", "beyond it", "beyond low", "beyond high", "n"],
        ),
    ),
    "amplification": Program(
        shots=occupation_shots,
        measure=measure_amplification,
        compare=partial(
            _compare,
            key="amplification",
            title="From text to picture, over the arms (Fig. 4)",
            columns=["text", "image", "low", "high", "even mix", "amplified", "same side"],
        ),
    ),
}
