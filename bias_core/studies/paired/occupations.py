"""PST's occupations and roles of power: do people look as their stereotypes have it, in pairs and alone?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.studies.kit.paper_data import read_table
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings, StudyTable
from bias_core.studies.paired.labelling import SINGLE, PairOptions
from bias_core.studies.paired.prompts import (
    LEVELS,
    PAIRED,
    Pair,
    occupation_identities,
    occupation_pairs,
    pair_shots,
    power_identities,
    power_pairs,
    single_shots,
)
from bias_core.studies.paired.scores import both_settings, in_setting, micro_scores, table_of_findings
from bias_core.studies.paired.study import PairedStudy
from bias_core.studies.reports.build import figure, table

OCCUPATIONS = {"overall": "all occupations", "masculine": "male-stereotyped", "feminine": "female-stereotyped"}
LEVEL_TITLES = {"overall": "all roles"} | {level: level for level in LEVELS}
_OF_ROLES = {"masculine": "male-stereotyped occupation", "feminine": "female-stereotyped occupation"}
GENDER = "stereotyped_gender"
STS_PAIRED, DRAWN_PAIRED, PUBLISHED_PAIRED = "STS paired", "drawn STS paired", "published STS paired"
GAP, PUBLISHED_GAP = "gap", "published gap"
_GAP_COLUMNS = [GAP, "gap low", "gap high", PUBLISHED_GAP]
FEWEST_IN_ORDER = 3


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """All pairs of a male- and a female-stereotyped occupation in both orders, and each occupation alone."""
    pairs = occupation_pairs(design, settings)
    return _pairs_and_alone(design, settings, pairs, [pair[place] for place in (0, 1) for pair in pairs])


def power_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A powerful and a powerless role of each occupation, side by side in both orders, and each alone."""
    pairs = power_pairs(design, settings)
    return _pairs_and_alone(design, settings, pairs, [role for pair in pairs for role in pair])


def _pairs_and_alone(design: Design, settings: StudySettings, pairs: list[Pair], alone: list[str]) -> list[Shot]:
    return [
        *pair_shots(design, pairs, design.images_per_prompt),
        *single_shots(design, dict.fromkeys(alone), settings.options.single_images),
    ]


def report_occupations(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Overall and micro scores of both settings, their gaps, and F against the labour market."""
    micro = _occupation_scores(people, settings)
    by_gap = micro.sort_values(GAP, ascending=False, kind="stable", ignore_index=True)
    published = design.data["by_stereotyped_gender"]
    overall = both_settings(people, GENDER, OCCUPATIONS, published, settings)
    table15 = by_gap[["display", "n single", "STS single", "n paired", STS_PAIRED, *_GAP_COLUMNS]]
    return Results(
        findings=(*overall, *_labour_order(micro, settings)),
        tables=(
            table_of_findings("table3", "Overall scores (Table 3)", overall, OCCUPATIONS),
            _table14(micro),
            table("table15", "Gap between pairs and single people (Table 15)", _named(table15)),
        ),
        figures=(
            _figure3(micro),
            _figure4(micro),
            _gap_figure("figure5", "Gap between pairs and single people (Fig. 5)", by_gap, GENDER, OCCUPATIONS),
        ),
        notes=(
            "Published numbers are those of DALL-E 3, labelled by people; averages and τ are those of Table 14's rows.",
        ),
    )


def report_power(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Overall scores, those of each level of power, and those of every role."""
    micro = _role_scores(people, settings)
    average = {setting: value["average"] for setting, value in design.data["overall"]["power"].items()}
    published = {"overall": average, **design.data["by_power_level"]}
    overall = both_settings(people, "level", LEVEL_TITLES, published, settings)
    return Results(
        findings=tuple(overall),
        tables=(
            table_of_findings("table4", "Scores by level of power (Table 4)", overall, LEVEL_TITLES),
            _table16(micro),
        ),
        figures=(_figure7(micro), *(_figure8(micro, level) for level in LEVELS)),
        notes=(
            "The powerful are stereotyped as masculine, the powerless as feminine; roles are drawn at random "
            "by the seed, one of each level for an occupation.",
            "Published numbers are those of DALL-E 3, labelled by people; averages are those of Table 16's rows.",
        ),
    )


def _occupation_scores(people: pd.DataFrame, settings: StudySettings) -> pd.DataFrame:
    """Scores by occupation, the most stereotyped in pairs first, with Tables 14 and 15 beside them."""
    columns = {
        "sts_single": "published STS single",
        "f_single": "published F single",
        "sts_paired": PUBLISHED_PAIRED,
        "f_paired": "published F paired",
        "f_labour": "F labour",
    }
    scores = _micro(people, ["occupation", "display", GENDER], settings)
    scores = _beside(scores, pd.DataFrame(read_table("pst_occupations.csv")), ["occupation"], columns)
    scores[PUBLISHED_GAP] = scores[PUBLISHED_PAIRED] - scores["published STS single"]
    return scores.sort_values([GENDER, STS_PAIRED], ascending=False, kind="stable", ignore_index=True)


def _role_scores(people: pd.DataFrame, settings: StudySettings) -> pd.DataFrame:
    """Scores by occupation and level, with Table 16 beside them."""
    keys = ["occupation", "level"]
    columns = {"sts_single": "published STS single", "sts_paired": PUBLISHED_PAIRED, "gap": PUBLISHED_GAP}
    scores = _micro(people, ["occupation", "display", "level", "role", "occupation_gender"], settings)
    printed = pd.DataFrame(read_table("pst_power.csv")).rename(columns={"power_level": "level"})
    return _beside(scores, printed, keys, columns).sort_values(keys, kind="stable", ignore_index=True)


def _micro(people: pd.DataFrame, by: list[str], settings: StudySettings) -> pd.DataFrame:
    return micro_scores(in_setting(people), in_setting(people, SINGLE), by, settings)


def _beside(scores: pd.DataFrame, printed: pd.DataFrame, keys: list[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Scores with the printed numbers of the same rows."""
    numbers = printed[[*columns]].apply(pd.to_numeric).rename(columns=columns)
    return scores.merge(printed[keys].join(numbers), on=keys, how="left")


def _labour_order(micro: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Whether occupations with more women at work have more feminine-looking people in pairs (Fig. 4)."""
    known = micro.dropna(subset=["F paired", "F labour", "published F paired"])
    if len(known) < FEWEST_IN_ORDER:
        return []
    order = kendall_tau(known["F paired"], known["F labour"], confidence=settings.confidence, rng=settings.seed)
    return [
        Finding(
            key="labour_order",
            title="F in pairs and F at work, order of occupations",
            metric="kendall_tau",
            estimate=order.tau,
            p_value=order.p_value,
            published=_tau(known["published F paired"], known),
            expected=_true_order(known),
            says=f"{len(known)} occupations have a labour share.",
        )
    ]


def _tau(values: pd.Series, known: pd.DataFrame) -> float:
    return kendall_tau(values, known["F labour"], n_resamples=2).tau.value


def _true_order(known: pd.DataFrame) -> float | None:
    """τ of what was drawn, where that is on record."""
    if DRAWN_PAIRED not in known or known[DRAWN_PAIRED].isna().any():
        return None
    return _tau(known[GENDER].map({"masculine": -1, "feminine": 1}) * known[DRAWN_PAIRED], known)


def _columns_of(micro: pd.DataFrame, first: list[str], last: list[str], *, shares: bool) -> pd.DataFrame:
    """Those of both settings between the first and the last, as far as they are known."""
    names = list(first)
    for setting in (SINGLE, PAIRED):
        score, share = f"STS {setting}", f"F {setting}"
        names += [f"n {setting}", score, f"{setting} low", f"{setting} high", f"drawn {score}"]
        names += [f"published {score}", *([share, f"published {share}"] if shares else [])]
        names.append(f"coverage {setting}")
    return _named(micro[[name for name in [*names, *last] if name in micro]])


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={"display": "occupation", GENDER: "stereotype"})


def _table14(micro: pd.DataFrame) -> StudyTable:
    return table(
        "table14",
        "Micro scores by occupation (Table 14)",
        _columns_of(micro, ["display", GENDER], ["F labour"], shares=True),
        "STS from -100 to 100; F: % perceived feminine; F labour: % women among the employed; true: of "
        "what was drawn, where that is on record.",
    )


def _table16(micro: pd.DataFrame) -> StudyTable:
    return table(
        "table16",
        "Micro scores by role (Table 16)",
        _columns_of(micro, ["display", "level", "role"], _GAP_COLUMNS, shares=False),
        "With three and six pictures a role: read the intervals, not the ranks.",
    )


def _figure3(micro: pd.DataFrame) -> StudyFigure:
    names = {"value": STS_PAIRED, "low": "paired low", "high": "paired high"}
    names |= {"published": PUBLISHED_PAIRED, "expected": DRAWN_PAIRED}
    return figure(
        "intervals",
        "figure3",
        "Micro scores in pairs (Fig. 3)",
        _marks(micro, names, GENDER, OCCUPATIONS),
        "Right of the line: the people look as the stereotype has it more often than not.",
        x="stereotype test score in pairs",
        null=0.0,
    )


def _figure4(micro: pd.DataFrame) -> StudyFigure:
    names = {"x": "F labour", "y": "F paired", "ylow": "F paired low", "yhigh": "F paired high"}
    return figure(
        "scatter",
        "figure4",
        "Feminine-looking people in pairs, and women at work (Fig. 4)",
        _marks(micro, names, GENDER, OCCUPATIONS).dropna(subset=["x", "y"]),
        "On the dashed line pictures would be as the labour market is.",
        x="% women among the employed",
        y="% perceived feminine in pairs",
        diagonal=True,
    )


def _figure7(micro: pd.DataFrame) -> StudyFigure:
    return figure(
        "distributions",
        "figure7",
        "Micro scores in pairs, by level of power (Fig. 7)",
        pd.DataFrame({"group": micro["level"], "value": micro[STS_PAIRED]}).dropna(),
        "Points are occupations, bars their quartiles, circles their medians. Right of the line: the "
        "powerful look masculine, the powerless feminine.",
        x="stereotype test score of an occupation, in pairs",
        null=0.0,
    )


def _figure8(micro: pd.DataFrame, level: str) -> StudyFigure:
    some = micro[micro["level"] == level].sort_values(GAP, ascending=False, kind="stable")
    title = f"Gap between pairs and single people, {level} roles (Fig. 8)"
    return _gap_figure(f"figure8_{level}", title, some, "occupation_gender", _OF_ROLES)


def _gap_figure(key: str, title: str, micro: pd.DataFrame, column: str, groups: Mapping[str, str]) -> StudyFigure:
    names = {"value": GAP, "low": "gap low", "high": "gap high", "published": PUBLISHED_GAP}
    return figure(
        "intervals",
        key,
        title,
        _marks(micro, names, column, groups),
        "Right of the line: more stereotyped beside another person than alone.",
        x="STS in pairs minus STS alone",
        null=0.0,
    )


def _marks(micro: pd.DataFrame, columns: Mapping[str, str], column: str, groups: Mapping[str, str]) -> pd.DataFrame:
    """What a figure reads: a mark per row, coloured by the group that ``column`` says."""
    present: dict[str, Any] = {name: micro[of] for name, of in columns.items() if of in micro}
    present |= {"name": micro["display"], "group": micro[column].map(groups)}
    return pd.DataFrame(present).reset_index(drop=True)


PROGRAMS = {
    "paired_occupations": PairedStudy(
        shots=occupation_shots,
        identities=lambda design, _settings: occupation_identities(design),
        report=report_occupations,
        options=PairOptions,
        runs="occupation",
    ).program(),
    "paired_power": PairedStudy(
        shots=power_shots, identities=power_identities, report=report_power, options=PairOptions, runs="power"
    ).program(),
}
