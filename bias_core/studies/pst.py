"""PST's occupations: how far people look as the stereotype of their occupation has it, in pairs and alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from bias_core.metrics.rank_agreement import kendall_tau
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
    PAIRED,
    occupation_identities,
    occupation_pairs,
    pair_shots,
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

TITLES = {"overall": "all occupations", "masculine": "male-stereotyped", "feminine": "female-stereotyped"}


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """All pairs of a male- and a female-stereotyped occupation in both orders, and each occupation alone."""
    check_labelling(settings)
    pairs = occupation_pairs(design, settings)
    alone = dict.fromkeys(side for place in (0, 1) for side in (pair[place] for pair in pairs))
    return [
        *pair_shots(design, pairs, design.images_per_prompt),
        *single_shots(design, alone, settings.options.single_images),
    ]


def measure_occupations(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Overall and micro scores of both settings, their gaps, and F against the labour market."""
    asked = people_of(data.frame, occupation_identities(design))
    people = yield from label_people(asked, design, settings, data)
    keep_labels(people, data)
    return score_occupations(design, settings, people, raters_table(asked, settings))


def score_occupations(
    design: Design, settings: StudySettings, asked: pd.DataFrame, raters: Sequence[StudyTable]
) -> Results:
    """All of it from labelled people."""
    people = labelled_only(asked)
    micro = _micro(people, settings)
    overall = _overall(design, people, settings)
    kappas, agreements = agreement(people, settings)
    return Results(
        findings=(*overall, *_labour_order(micro, settings), *kappas),
        tables=(
            table_of_findings("table3", "Overall scores (Table 3)", overall, TITLES),
            _table14(micro),
            _table15(micro),
            coverage_table(people, settings),
            *agreements,
            *raters,
            runs_table(people, settings, design.data["overall"]["occupation"]),
            labels_table(asked),
        ),
        figures=(_figure3(micro), _figure4(micro), _figure5(micro)),
        notes=(
            *labelled_by(people, settings, len(asked)),
            "Published numbers are those of DALL-E 3, labelled by people; averages and τ are those of Table "
            "14's rows.",
        ),
    )


def _overall(design: Design, people: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Paired, single and gap for all occupations, then for those of each stereotype (Table 3)."""
    found = []
    for key, title in TITLES.items():
        some = people if key == "overall" else people[people["stereotyped_gender"] == key]
        paired, single = in_setting(some), in_setting(some, SINGLE)
        published = design.data["by_stereotyped_gender"][key]
        gap = published["paired"] - published["single"]
        found += [
            score_finding(
                f"paired_{key}", f"In pairs, {title}", paired, settings, published=published["paired"]
            ),
            score_finding(
                f"single_{key}", f"Alone, {title}", single, settings, published=published["single"]
            ),
            gap_finding(f"gap_{key}", f"Gap, {title}", paired, single, settings, published=gap),
        ]
    return found


def _micro(people: pd.DataFrame, settings: StudySettings) -> pd.DataFrame:
    """Scores by occupation, the most stereotyped in pairs first, with Tables 14 and 15 beside them."""
    by = ["occupation", "display", "stereotyped_gender"]
    scores = micro_scores(in_setting(people), in_setting(people, SINGLE), by, settings)
    printed = pd.DataFrame(read_table("pst_occupations.csv")).set_index("occupation")
    columns = {
        "sts_single": "published STS single",
        "f_single": "published F single",
        "sts_paired": "published STS paired",
        "f_paired": "published F paired",
        "f_labour": "F labour",
    }
    numbers = printed[[*columns]].apply(pd.to_numeric).rename(columns=columns)
    table = scores.join(numbers, on="occupation")
    table["published gap"] = table["published STS paired"] - table["published STS single"]
    order = ["stereotyped_gender", "STS paired"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _labour_order(micro: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Whether occupations with more women at work have more feminine-looking people in pairs (Fig. 4)."""
    known = micro.dropna(subset=["F paired", "F labour", "published F paired"])
    if len(known) < FEWEST_IN_ORDER:
        return []
    found = kendall_tau(
        known["F paired"], known["F labour"], confidence=settings.confidence, rng=settings.seed
    )
    published = kendall_tau(known["published F paired"], known["F labour"], n_resamples=2).tau.value
    return [
        Finding(
            key="labour_order",
            title="F in pairs and F at work, order of occupations",
            metric="kendall_tau",
            estimate=found.tau,
            p_value=found.p_value,
            published=published,
            expected=_true_order(known),
            says=f"{len(known)} occupations have a labour share.",
        )
    ]


FEWEST_IN_ORDER = 3


def _true_order(known: pd.DataFrame) -> float | None:
    """τ of what was drawn, where that is on record."""
    if "drawn STS paired" not in known or known["drawn STS paired"].isna().any():
        return None
    sign = known["stereotyped_gender"].map({"masculine": -1, "feminine": 1})
    return kendall_tau(sign * known["drawn STS paired"], known["F labour"], n_resamples=2).tau.value


def _table14(micro: pd.DataFrame) -> StudyTable:
    columns = ["display", "stereotyped_gender"]
    for setting in (SINGLE, PAIRED):
        name = f"STS {setting}"
        columns += [f"n {setting}", name, f"{setting} low", f"{setting} high", f"drawn {name}"]
        columns += [f"published {name}", f"F {setting}", f"published F {setting}", f"coverage {setting}"]
    columns.append("F labour")
    return StudyTable(
        key="table14",
        title="Micro scores by occupation (Table 14)",
        frame=micro[[c for c in columns if c in micro]].rename(
            columns={"display": "occupation", "stereotyped_gender": "stereotype"}
        ),
        note="STS from -100 to 100; F: % perceived feminine; F labour: % women among the employed; true: of "
        "what was drawn, where that is on record.",
    )


def _table15(micro: pd.DataFrame) -> StudyTable:
    columns = [
        "n single",
        "STS single",
        "n paired",
        "STS paired",
        "gap",
        "gap low",
        "gap high",
        "published gap",
    ]
    frame = micro.sort_values("gap", ascending=False, kind="stable", ignore_index=True)
    return StudyTable(
        key="table15",
        title="Gap between pairs and single people (Table 15)",
        frame=frame[["display", *columns]].rename(columns={"display": "occupation"}),
    )


def _figure3(micro: pd.DataFrame) -> StudyFigure:
    return StudyFigure(
        key="figure3",
        title="Micro scores in pairs (Fig. 3)",
        kind="intervals",
        data=_marks(
            micro, "STS paired", "paired", published="published STS paired", expected="drawn STS paired"
        ),
        labels={"x": "stereotype test score in pairs", "null": 0.0},
        caption="Right of the line: the people look as the stereotype has it more often than not.",
    )


def _figure4(micro: pd.DataFrame) -> StudyFigure:
    data = pd.DataFrame(
        {
            "x": micro["F labour"],
            "y": micro["F paired"],
            "ylow": micro["F paired low"],
            "yhigh": micro["F paired high"],
            "name": micro["display"],
            "group": micro["stereotyped_gender"].map(TITLES),
        }
    ).dropna(subset=["x", "y"])
    return StudyFigure(
        key="figure4",
        title="Feminine-looking people in pairs, and women at work (Fig. 4)",
        kind="scatter",
        data=data,
        labels={"x": "% women among the employed", "y": "% perceived feminine in pairs", "diagonal": True},
        caption="On the dashed line pictures would be as the labour market is.",
    )


def _figure5(micro: pd.DataFrame) -> StudyFigure:
    data = _marks(
        micro.sort_values("gap", ascending=False, kind="stable"), "gap", "gap", published="published gap"
    )
    return StudyFigure(
        key="figure5",
        title="Gap between pairs and single people (Fig. 5)",
        kind="intervals",
        data=data,
        labels={"x": "STS in pairs minus STS alone", "null": 0.0},
        caption="Right of the line: more stereotyped beside another person than alone.",
    )


def _marks(micro: pd.DataFrame, value: str, ends: str, **columns: str) -> pd.DataFrame:
    """What a figure of intervals reads: a mark per occupation, coloured by its stereotype."""
    marks = {"value": value, "low": f"{ends} low", "high": f"{ends} high", **columns}
    present = {mark: micro[column] for mark, column in marks.items() if column in micro}
    groups = micro["stereotyped_gender"].map(TITLES)
    return pd.DataFrame({"name": micro["display"], "group": groups, **present}).reset_index(drop=True)


PROGRAMS = {
    "paired_occupations": Program(
        takes_labels=True,
        shots=occupation_shots,
        measure=measure_occupations,
        ready=labeller_ready,
        readers=labelling_readers,
        options=PairOptions,
        ahead=nothing_ahead,
        rescore=score_occupations,
    )
}
