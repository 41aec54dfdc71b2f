"""PST's roles of power: do the powerful look masculine and the powerless feminine, side by side and alone?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from bias_core.studies.program import Measuring, Program
from bias_core.studies.prompts_of_papers import read_table
from bias_core.studies.pst_labels import (
    SINGLE,
    PairOptions,
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
    micro_scores,
    raters_table,
    runs_table,
    score_finding,
    table_of_findings,
)
from bias_core.studies.pst_shots import (
    LEVELS,
    PAIRED,
    pair_shots,
    power_identities,
    power_pairs,
    single_shots,
)
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

TITLES = {"overall": "all roles", "powerful": "powerful", "powerless": "powerless"}


def power_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A powerful and a powerless role of each occupation, side by side in both orders, and each alone."""
    check_labelling(settings)
    pairs = power_pairs(design, settings)
    alone = [role for pair in pairs for role in pair]
    return [
        *pair_shots(design, pairs, design.images_per_prompt),
        *single_shots(design, alone, settings.options.single_images),
    ]


def measure_power(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Overall scores, those of each level of power, and those of every role."""
    asked = people_of(data.frame, power_identities(design, settings))
    people = yield from label_people(asked, design, settings, data)
    keep_labels(people, data)
    return score_power(design, settings, people, raters_table(asked, settings))


def score_power(
    design: Design, settings: StudySettings, asked: pd.DataFrame, raters: Sequence[StudyTable]
) -> Results:
    """All of it from labelled people."""
    people = labelled_only(asked)
    micro = _micro(people, settings)
    overall = _overall(design, people, settings)
    kappas, agreements = agreement(people, settings)
    return Results(
        findings=(*overall, *kappas),
        tables=(
            table_of_findings("table4", "Scores by level of power (Table 4)", overall, TITLES),
            _table16(micro),
            coverage_table(people, settings),
            *agreements,
            *raters,
            runs_table(people, settings, design.data["overall"]["power"]),
            labels_table(asked),
        ),
        figures=(_figure7(micro), *(_figure8(micro, level) for level in LEVELS)),
        notes=(
            *labelled_by(people, settings, len(asked)),
            "The powerful are stereotyped as masculine, the powerless as feminine; roles are drawn at random "
            "by the seed, one of each level for an occupation.",
            "Published numbers are those of DALL-E 3, labelled by people; averages are those of Table 16's "
            "rows.",
        ),
    )


def _overall(design: Design, people: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Paired, single and gap for all roles, then for those of each level (Table 4)."""
    overall = {setting: value["average"] for setting, value in design.data["overall"]["power"].items()}
    published = {"overall": overall, **design.data["by_power_level"]}
    found = []
    for key, title in TITLES.items():
        some = people if key == "overall" else people[people["level"] == key]
        paired, single, printed = in_setting(some), in_setting(some, SINGLE), published[key]
        gap = printed["paired"] - printed["single"]
        found += [
            score_finding(
                f"paired_{key}", f"In pairs, {title}", paired, settings, published=printed["paired"]
            ),
            score_finding(f"single_{key}", f"Alone, {title}", single, settings, published=printed["single"]),
            gap_finding(f"gap_{key}", f"Gap, {title}", paired, single, settings, published=gap),
        ]
    return found


def _micro(people: pd.DataFrame, settings: StudySettings) -> pd.DataFrame:
    """Scores by occupation and level, with Table 16 beside them."""
    by = ["occupation", "display", "level", "role", "occupation_gender"]
    scores = micro_scores(in_setting(people), in_setting(people, SINGLE), by, settings)
    columns = {
        "sts_single": "published STS single",
        "sts_paired": "published STS paired",
        "gap": "published gap",
    }
    printed = pd.DataFrame(read_table("pst_power.csv")).rename(columns={"power_level": "level"})
    numbers = printed[[*columns]].apply(pd.to_numeric).rename(columns=columns)
    table = scores.merge(
        printed[["occupation", "level"]].join(numbers), on=["occupation", "level"], how="left"
    )
    return table.sort_values(["occupation", "level"], kind="stable", ignore_index=True)


def _table16(micro: pd.DataFrame) -> StudyTable:
    columns = ["display", "level", "role"]
    for setting in (SINGLE, PAIRED):
        name = f"STS {setting}"
        columns += [f"n {setting}", name, f"{setting} low", f"{setting} high", f"drawn {name}"]
        columns += [f"published {name}", f"coverage {setting}"]
    columns += ["gap", "gap low", "gap high", "published gap"]
    return StudyTable(
        key="table16",
        title="Micro scores by role (Table 16)",
        frame=micro[[c for c in columns if c in micro]].rename(columns={"display": "occupation"}),
        note="With three and six pictures a role: read the intervals, not the ranks.",
    )


def _figure7(micro: pd.DataFrame) -> StudyFigure:
    data = pd.DataFrame({"group": micro["level"], "value": micro["STS paired"]}).dropna()
    return StudyFigure(
        key="figure7",
        title="Micro scores in pairs, by level of power (Fig. 7)",
        kind="distributions",
        data=data,
        labels={"x": "stereotype test score of an occupation, in pairs", "null": 0.0},
        caption="Points are occupations, bars their quartiles, circles their medians. Right of the line: the "
        "powerful look masculine, the powerless feminine.",
    )


def _figure8(micro: pd.DataFrame, level: str) -> StudyFigure:
    some = micro[micro["level"] == level].sort_values("gap", ascending=False, kind="stable")
    groups = {"masculine": "male-stereotyped occupation", "feminine": "female-stereotyped occupation"}
    data = pd.DataFrame(
        {
            "name": some["display"],
            "group": some["occupation_gender"].map(groups),
            "value": some["gap"],
            "low": some["gap low"],
            "high": some["gap high"],
            "published": some["published gap"],
        }
    )
    return StudyFigure(
        key=f"figure8_{level}",
        title=f"Gap between pairs and single people, {level} roles (Fig. 8)",
        kind="intervals",
        data=data.reset_index(drop=True),
        labels={"x": "STS in pairs minus STS alone", "null": 0.0},
        caption="Right of the line: more stereotyped beside another person than alone.",
    )


PROGRAMS = {
    "paired_power": Program(
        takes_labels=True,
        shots=power_shots,
        measure=measure_power,
        ready=labeller_ready,
        readers=labelling_readers,
        options=PairOptions,
        ahead=nothing_ahead,
        rescore=score_power,
    )
}
