"""OASIS's doctors: the share shown as men, with and without a nationality (Table 2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from scipy.stats import fisher_exact

from bias_core.errors import InvalidInput
from bias_core.prompts import fill_template
from bias_core.stats.effects import benjamini_hochberg
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudySettings
from bias_core.studies.origins.arms import compare_doctors
from bias_core.studies.origins.cells import FEWEST_PICTURES, Cell, read_concepts, sample_of, to_attribute
from bias_core.studies.origins.nationalities import says_of_share
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
    added = {name: _added(cells.get(PLAIN), cell, settings.confidence) for name, cell in cells.items()}
    tested = [name for name in added if "p" in added[name]]
    if tested:
        adjusted = benjamini_hochberg([added[name]["p"] for name in tested]).adjusted
        for name, q in zip(tested, adjusted, strict=True):
            added[name]["q"] = float(q)
    printed = design.data["doctor"]["prevalence_man"]
    findings = tuple(_finding(cell, added[name], printed, settings) for name, cell in cells.items())
    table2 = [_row(cell, added[name], printed) for name, cell in cells.items()]
    return Results(
        findings=findings,
        tables=(table("table2", "P(man) of doctors (Table 2)", table2, _COLUMNS),),
        figures=(
            figure(
                "intervals",
                "table2",
                "Share of doctors shown as men (Table 2)",
                map(finding_mark, findings),
                f"Diamonds: published for {settings.options.published_model}.",
                x="P(man)",
            ),
        ),
        notes=(
            "As in the paper, a classifier reads the pictures. The paper's is CLIP, which agreed with labels "
            "by hand in 99 to 100 % of 100 pictures of doctors of each model (its Table 4).",
        ),
    )


_COLUMNS = (
    "Added: P less that of doctors of no nationality, as read, with Newcombe's interval. p: Fisher's exact "
    "test that nothing is added. q: p after Benjamini–Hochberg. Then what the paper printed, as shares."
)


def _added(plain: Cell | None, cell: Cell, confidence: float) -> dict[str, float]:
    """P of a nationality's doctors less that of plain doctors, with interval and p; empty for those."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    if plain is None or cell is plain:
        return {}
    shares = [c.score.prevalence for c in (cell, plain)]
    (k1, n1), (k2, n2) = ((round(share.value * share.n), share.n) for share in shares)
    low, high = confint_proportions_2indep(k1, n1, k2, n2, method="newcomb", alpha=1 - confidence)
    p_value = fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue
    return {
        "added": shares[0].value - shares[1].value,
        "added low": float(low),
        "added high": float(high),
        "p": float(p_value),
    }


def _row(cell: Cell, added: dict[str, float], printed: dict[str, dict[str, float]]) -> dict[str, Any]:
    published = {model: _published(cell, model, printed) for model in printed}
    return {
        "concept": cell.concept,
        **columns("P", cell.score.prevalence),
        **columns("P corrected", cell.score.corrected),
        "drawn": or_nan(cell.score.drawn),
        "n": cell.score.prevalence.n,
        **{name: added.get(name, math.nan) for name in ("added", "added low", "added high", "p", "q")},
        **{f"{model} P": or_nan(share) for model, share in published.items()},
    }


def _published(cell: Cell, model: str, printed: dict[str, dict[str, float]]) -> float | None:
    percent = printed[model].get(cell.concept)
    return None if percent is None else percent / 100


def _finding(
    cell: Cell, added: dict[str, float], printed: dict[str, dict[str, float]], settings: StudySettings
) -> Finding:
    says = says_of_share(cell)
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
        published=_published(cell, settings.options.published_model, printed),
        expected=cell.score.drawn,
        says=says,
        sample=sample_of(cell),
    )


PROGRAMS = {
    "doctor_prevalence": Program(
        shots=doctor_shots, measure=measure_doctors, options=DoctorOptions, compare=compare_doctors
    )
}
