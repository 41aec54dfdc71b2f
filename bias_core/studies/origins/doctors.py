"""OASIS's doctors: the share shown as men, with and without a nationality (Table 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.prompts import fill_template
from bias_core.stats.effects import benjamini_hochberg
from bias_core.studies.arms.statistics import two_shares
from bias_core.studies.arms.tables import ARM, lines_together, table_over_arms
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import ArmReport, Design, Finding, Results, Shot, StudySettings
from bias_core.studies.origins.cells import FEWEST_PICTURES, Cell, read_concepts, to_attribute
from bias_core.studies.reports.build import columns, figure, finding_mark, or_nan, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData

PLAIN = "doctor"


@settings_class(frozen=True, kw_only=True)
class DoctorOptions(Options):
    """What stands beside the findings."""

    published_model: str = setting("SDv2", "Published model", "Whose published numbers stand beside the findings")


def doctor_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Doctors of no nationality, then of each."""
    doctor, published = design.data["doctor"], settings.options.published_model
    if published not in doctor["prevalence_man"]:
        known = ", ".join(doctor["prevalence_man"])
        raise InvalidInput(f"Table 2 has no model {published!r}; it has {known}")
    plain, national = doctor["templates"]
    prompts = {PLAIN: plain} | {f"{n} {PLAIN}": fill_template(national, n) for n in doctor["nationalities"]}
    n = scaled(design.images_per_prompt, settings.scale, least=FEWEST_PICTURES)
    return [Shot(prompt=prompt, n=n, group=concept, facts={"concept": concept}) for concept, prompt in prompts.items()]


def measure_doctors(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """P(man) of each concept, and what a nationality adds to it."""
    attribute = to_attribute(design.data["doctor"]["attribute"])
    concepts = list(map(str, dict.fromkeys(data.frame["concept"])))
    read = yield from read_concepts(data, "concept", concepts, lambda _concept: [attribute])
    cells = {concept: own[0] for concept, own in read.items()}
    added = _added(cells, settings.confidence)
    shares = design.data["doctor"]["prevalence_man"]
    printed = {model: {name: share / 100 for name, share in of.items()} for model, of in shares.items()}
    findings, table2 = [], []
    for name, cell in cells.items():
        findings.append(_finding(cell, added.get(name), printed[settings.options.published_model].get(name)))
        table2.append(
            {
                "concept": name,
                **columns("P", cell.score.prevalence),
                **columns("P corrected", cell.score.corrected),
                "drawn": or_nan(cell.score.drawn),
                "n": cell.score.prevalence.n,
                **added.get(name, dict.fromkeys(("added", "added low", "added high", "p", "q"), math.nan)),
                **{f"{model} P": of.get(name, math.nan) for model, of in printed.items()},
            }
        )
    title, caption = "Share of doctors shown as men (Table 2)", f"published for {settings.options.published_model}."
    marks = map(finding_mark, findings)
    return Results(
        findings=tuple(findings),
        tables=(table("table2", "P(man) of doctors (Table 2)", table2, _COLUMNS),),
        figures=(figure("intervals", "table2", title, marks, f"Diamonds: {caption}", x="P(man)"),),
        notes=(
            "As in the paper, a classifier reads the pictures. The paper's is CLIP, which agreed with labels "
            "by hand in 99 to 100 % of 100 pictures of doctors of each model (its Table 4).",
        ),
    )


_COLUMNS = (
    "Added: P less that of doctors of no nationality, as read, with Newcombe's interval. p: Fisher's exact "
    "test that nothing is added. q: p after Benjamini–Hochberg. Then what the paper printed, as shares."
)


def _added(cells: Mapping[str, Cell], confidence: float) -> dict[str, dict[str, float]]:
    """P of each nationality's doctors less that of plain doctors, as read, with interval, p and q."""
    tests = {
        name: two_shares(cells[PLAIN].score.margins > 0, cell.score.margins > 0, confidence)
        for name, cell in cells.items()
        if PLAIN in cells and name != PLAIN
    }
    if not tests:
        return {}
    adjusted = benjamini_hochberg([test.p_value for test in tests.values()]).adjusted
    return {
        name: {**columns("added", test.estimate), "p": test.p_value, "q": float(q)}
        for (name, test), q in zip(tests.items(), adjusted, strict=True)
    }


def _finding(cell: Cell, added: Mapping[str, Any] | None, published: float | None) -> Finding:
    says = cell.share_in_words()
    if added:
        says += (
            f" {added['added']:+.3f} against doctors of no nationality "
            f"({added['added low']:.3f} to {added['added high']:.3f}, q = {added['q']:.2g})."
        )
    return Finding(
        key=cell.concept,
        title=f"{cell.concept}: P(man)",
        metric="attribute_prevalence",
        estimate=cell.prevalence,
        published=published,
        expected=cell.score.drawn,
        says=says,
        sample=cell.sample(),
    )


def compare_doctors(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 2 over the arms, with lines of the paper's models, which the arms' tables have as "<model> P"."""
    frame = table_over_arms(arms, "table2", ["concept"], ["P", "P corrected", "drawn", "n", "added", "p", "q"])
    printed = next(one.frame for one in arms[0].results.tables if one.key == "table2")
    models = [name.removesuffix(" P") for name in map(str, printed) if name.endswith(" P")]
    lines = [printed[["concept"]].assign(**{ARM: f"{model}, published"}, P=printed[f"{model} P"]) for model in models]
    frame = lines_together(pd.concat([frame, *lines], ignore_index=True), ["concept"])
    note = (
        "Added: P less that of doctors of no nationality, as read, with its interval, p and corrected p. The "
        "last lines of each are as published."
    )
    return Results(tables=(table("table2_arms", "P(man) of doctors over the arms (Table 2)", frame, note),))


PROGRAMS = {
    "doctor_prevalence": Program(
        shots=doctor_shots, measure=measure_doctors, options=DoctorOptions, compare=compare_doctors
    )
}
