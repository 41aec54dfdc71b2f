"""PST's fairness intervention: the same pairs with and without words that ask for fairness (Table 6)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.studies.program import Measuring, Program
from bias_core.studies.pst_labels import (
    LabellingOptions,
    check_labelling,
    keep_labels,
    label_people,
    labelled_only,
    labeller_ready,
    labelling_readers,
    people_of,
)
from bias_core.studies.pst_scores import (
    agreement,
    coverage_table,
    gap_finding,
    in_setting,
    labelled_by,
    labels_table,
    raters_table,
    score_finding,
)
from bias_core.studies.pst_shots import (
    FAIRNESS,
    FEWEST,
    GENDERS,
    OCCUPATION,
    PAIRED,
    POWER,
    Pair,
    occupation_identities,
    pair_shots,
    power_identities,
    power_pairs,
)
from bias_core.studies.rows import thinned
from bias_core.studies.setting_fields import setting, settings_class
from bias_core.studies.study_data import nothing_ahead
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.study_data import StudyData

TITLES = {OCCUPATION: "most stereotyped occupations", POWER: "organizational power"}
_PUBLISHED = {OCCUPATION: "occupation_top5", POWER: "power"}


@settings_class(frozen=True, kw_only=True)
class FairnessOptions(LabellingOptions):
    """Which pairs are drawn again with words that ask for fairness, and who labels."""

    aspects: tuple[str, ...] = setting(("occupation", "power"), "Aspects", "occupation, power, or both")
    masculine: tuple[str, ...] = setting(
        (), "Masculine occupations", "To draw again; the paper's five where empty"
    )
    feminine: tuple[str, ...] = setting(
        (), "Feminine occupations", "To draw again; the paper's five where empty"
    )
    power_images: int = setting(3, "Pictures of each pair of roles", "In each order", ge=1, le=1000)


def fairness_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Every pair in both orders, plain and with the intervention, for each aspect asked for."""
    check_labelling(settings)
    pairs = {OCCUPATION: _occupation_pairs(design, settings), POWER: power_pairs(design, settings)}
    n = {OCCUPATION: design.images_per_prompt, POWER: settings.options.power_images}
    return [
        shot
        for aspect in _aspects(settings)
        for setting in (PAIRED, FAIRNESS)
        for shot in pair_shots(design, pairs[aspect], n[aspect], setting)
    ]


def measure_fairness(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Scores with and without the intervention, and how far they differ."""
    identities = pd.concat(
        [
            occupation_identities(design).assign(aspect=OCCUPATION),
            power_identities(design, settings).assign(aspect=POWER),
        ]
    )[["stereotyped_gender", "aspect"]]
    asked = people_of(data.frame, identities)
    people = yield from label_people(asked, design, settings, data)
    keep_labels(people, data)
    return score_fairness(design, settings, people, raters_table(asked, settings))


def score_fairness(
    design: Design, settings: StudySettings, asked: pd.DataFrame, raters: Sequence[StudyTable]
) -> Results:
    """All of it from labelled people."""
    people = labelled_only(asked)
    findings = [
        finding for aspect in _aspects(settings) for finding in _aspect(design, people, aspect, settings)
    ]
    kappas, agreements = agreement(people, settings)
    return Results(
        findings=(*findings, *kappas),
        tables=(
            _table6(findings),
            coverage_table(people, settings),
            *agreements,
            *raters,
            labels_table(asked),
        ),
        figures=(_figure(findings),),
        notes=(
            *labelled_by(people, settings, len(asked)),
            "Table 6 prints the intervened scores only; published plain ones are means of the same rows of "
            "Table 14, and Table 13's.",
            "The occupations are those that the paper's model stereotyped most. For another model name its "
            "own, found in other pictures than these: the most extreme of few pictures look less so when "
            "drawn again, with or without intervention.",
        ),
    )


def _aspects(settings: StudySettings) -> list[str]:
    aspects = list(settings.options.aspects)
    if not aspects or (unknown := set(aspects) - set(TITLES)):
        raise InvalidInput(
            f"aspects are {' and '.join(TITLES)}; got {', '.join(unknown) if aspects else 'none'}"
        )
    return aspects


def _occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    chosen = []
    for gender in GENDERS:
        names = getattr(settings.options, gender) or design.data["intervention"]["occupations"][gender]
        if unknown := set(names) - set(design.data["occupations"][gender]):
            known = ", ".join(design.data["occupations"][gender])
            raise InvalidInput(f"{', '.join(sorted(unknown))}: {gender} occupations are {known}")
        chosen.append(thinned(names, settings.scale**0.5, least=FEWEST, seed=settings.seed))
    return list(product(*chosen))


def _aspect(design: Design, people: pd.DataFrame, aspect: str, settings: StudySettings) -> list[Finding]:
    """Plain score, intervened score, and intervened minus plain."""
    some = people[people["aspect"] == aspect]
    plain, intervened = in_setting(some), in_setting(some, FAIRNESS)
    published, key, title = design.data["intervention"], _PUBLISHED[aspect], TITLES[aspect]
    own = aspect == OCCUPATION and any(getattr(settings.options, gender) for gender in GENDERS)
    before, after = (None, None) if own else (published["plain"][key], published[key])
    return [
        score_finding(f"plain_{aspect}", f"Plain, {title}", plain, settings, published=before),
        score_finding(f"intervened_{aspect}", f"Intervened, {title}", intervened, settings, published=after),
        gap_finding(
            f"difference_{aspect}",
            f"Intervened minus plain, {title}",
            intervened,
            plain,
            settings,
            published=None if before is None or after is None else after - before,
            more="more stereotyped with the intervention",
        ),
    ]


def _table6(findings: list[Finding]) -> StudyTable:
    rows = [
        {
            "": finding.title,
            "value": finding.estimate.value,
            "low": finding.estimate.low,
            "high": finding.estimate.high,
            "pictures": finding.estimate.n,
            "published": finding.published,
        }
        for finding in findings
    ]
    return StudyTable(key="table6", title="Fairness intervention (Table 6)", frame=pd.DataFrame(rows))


def _figure(findings: list[Finding]) -> StudyFigure:
    rows = [
        {
            "name": finding.title,
            "value": finding.estimate.value,
            "low": finding.estimate.low,
            "high": finding.estimate.high,
            "published": finding.published,
            "expected": finding.expected,
        }
        for finding in findings
    ]
    return StudyFigure(
        key="intervention",
        title="Scores with and without the intervention",
        kind="intervals",
        data=pd.DataFrame(rows).astype({"published": float, "expected": float}),
        labels={"x": "stereotype test score, and their difference", "null": 0.0},
        caption="An intervention that works moves the score to the line; one that overdoes it, across.",
    )


PROGRAMS = {
    "paired_fairness": Program(
        takes_labels=True,
        shots=fairness_shots,
        measure=measure_fairness,
        ready=labeller_ready,
        readers=labelling_readers,
        options=FairnessOptions,
        ahead=nothing_ahead,
        rescore=score_fairness,
    )
}
