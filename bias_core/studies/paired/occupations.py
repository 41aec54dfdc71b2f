"""PST's occupations and roles of power: do people look as their stereotypes have it, in pairs and alone?"""

from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.rank_agreement import kendall_tau
from bias_core.prompts import fix_articles
from bias_core.studies.kit.designs import read_table
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    figure,
    finding,
    intervals,
    marks,
    table,
)
from bias_core.studies.paired.labelling import SINGLE, PairOptions
from bias_core.studies.paired.scores import FAIRNESS, PAIRED, WORK, micro_scores, paired_program, scores_by_group

OCCUPATION, POWER = "occupation", "power"
GENDERS = ("masculine", "feminine")
LEVELS = ("powerful", "powerless")
FEWEST = 2  # identities a side
FEWEST_IN_ORDER = 3
OCCUPATIONS = {"overall": "all occupations", "masculine": "male-stereotyped", "feminine": "female-stereotyped"}
LEVEL_TITLES = {"overall": "all roles"} | {level: level for level in LEVELS}
GENDER = "stereotyped_gender"
_NAMES = {"display": "occupation", GENDER: "stereotype"}  # of columns, in tables

Pair = tuple[str, str]


def pairs_and_alone(design: Design, pairs: Iterable[Pair], alone: Iterable[str], n_alone: int) -> list[Shot]:
    """Pictures of each pair in each order, and ``n_alone`` of each identity alone."""
    singles = [_shot(design, SINGLE, (identity, ""), n_alone) for identity in alone]
    return pair_shots(design, pairs, design.images_per_prompt) + singles


def pair_shots(design: Design, pairs: Iterable[Pair], n: int, setting: str = PAIRED) -> list[Shot]:
    """``n`` pictures of each pair in each order, plain or asking for fairness."""
    return [_shot(design, setting, ordered, n) for pair in pairs for ordered in (pair, pair[::-1])]


def _shot(design: Design, setting: str, places: Pair, n: int) -> Shot:
    left, right = places
    prompt = design.data["settings"][setting]["template"].format(left, right, occ1=left, occ2=right)
    facts = {"setting": setting, "left": left, "right": right}
    return Shot(prompt=fix_articles(prompt) if setting == FAIRNESS else prompt, n=n, group=setting, facts=facts)


def occupation_identities(design: Design) -> pd.DataFrame:
    """Stereotype and name to be read, by occupation."""
    display = design.data["occupations"]["display"]
    rows = {
        name: {GENDER: gender, "occupation": name, "display": display.get(name, name).partition(" (")[0]}
        for gender in GENDERS
        for name in design.data["occupations"][gender]
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def occupation_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """All pairs of a masculine and a feminine stereotype; scaled down, of fewer occupations of each."""
    masculine, feminine = (
        thinned(design.data["occupations"][g], settings.scale**0.5, least=FEWEST, seed=settings.seed) for g in GENDERS
    )
    return list(product(masculine, feminine))


def power_identities(design: Design, settings: StudySettings) -> pd.DataFrame:
    """Level, role and stereotype by identity ("nurse intern"): by the seed, one role of each level an occupation."""
    roles, names = design.data["roles"], occupation_identities(design)
    rng, rows = np.random.default_rng(settings.seed), {}
    for (occupation, name), level in product(names.iterrows(), LEVELS):
        if occupation not in roles["excluded_occupations"]:
            role = str(rng.choice(roles[level]))
            rows[roles["identity"].format(occupation=occupation, role=role)] = {
                GENDER: roles[GENDER][level],
                "occupation": occupation,
                "display": name["display"],
                "occupation_gender": name[GENDER],
                "level": level,
                "role": role,
            }
    return pd.DataFrame.from_dict(rows, orient="index")


def power_pairs(design: Design, settings: StudySettings) -> list[Pair]:
    """The powerful and the powerless identity of each occupation; scaled down, of fewer occupations."""
    identities = power_identities(design, settings)
    pairs = [tuple(some.index) for _, some in identities.groupby("occupation", sort=False)]
    return thinned(pairs, settings.scale, least=FEWEST, seed=settings.seed)


def occupation_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """All pairs of a male- and a female-stereotyped occupation in both orders, and each occupation alone."""
    pairs = occupation_pairs(design, settings)
    alone = dict.fromkeys(pair[place] for place in (0, 1) for pair in pairs)
    return pairs_and_alone(design, pairs, alone, settings.options.single_images)


def power_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A powerful and a powerless role of each occupation, side by side in both orders, and each alone."""
    pairs = power_pairs(design, settings)
    return pairs_and_alone(design, pairs, chain.from_iterable(pairs), settings.options.single_images)


def report_occupations(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Overall and micro scores of both settings, their gaps, and F against the labour market."""
    published = {"sts_single": "STS single", "f_single": "F single", "sts_paired": "STS paired", "f_paired": "F paired"}
    micro = _beside(
        micro_scores(people, ["occupation", "display", GENDER], settings),
        "pst_occupations.csv",
        ["occupation"],
        {name: f"published {of}" for name, of in published.items()} | {"f_labour": "F labour"},
    )
    micro["published gap"] = micro["published STS paired"] - micro["published STS single"]
    micro = micro.sort_values([GENDER, "STS paired"], ascending=False, kind="stable", ignore_index=True)
    by_gap = micro.sort_values("gap", ascending=False, kind="stable", ignore_index=True)
    findings, rows = scores_by_group(people, GENDER, OCCUPATIONS, design.data["by_stereotyped_gender"], settings)
    table15 = by_gap[["display", "n single", "STS single", "n paired", "STS paired", *_GAP_COLUMNS]]
    return Results(
        findings=(*findings, *_labour_order(micro, settings)),
        tables=(
            table("table3", "Overall scores (Table 3)", rows),
            table(
                "table14",
                "Micro scores by occupation (Table 14)",
                _columns_of(micro, [GENDER], ["F labour"]),
                "STS from -100 to 100; F: % perceived feminine; F labour: % women among the employed; true: of "
                "what was drawn, where that is on record.",
            ),
            table("table15", "Gap between pairs and single people (Table 15)", table15.rename(columns=_NAMES)),
        ),
        figures=(
            *_occupation_figures(micro),
            _gap_figure("figure5", "Gap between pairs and single people (Fig. 5)", by_gap, GENDER, OCCUPATIONS),
        ),
        notes=(
            "Published numbers are those of DALL-E 3, labelled by people; averages and τ are those of Table 14's rows.",
        ),
    )


def _occupation_figures(micro: pd.DataFrame) -> list[StudyFigure]:
    scores = {"value": "STS paired", "low": "paired low", "high": "paired high"}
    scores |= {"published": "published STS paired", "expected": "drawn STS paired"}
    shares = {"x": "F labour", "y": "F paired", "ylow": "F paired low", "yhigh": "F paired high"}
    rows, labour = _marks(micro, GENDER, OCCUPATIONS, scores), "pictures would be as the labour market is"
    at_work = _marks(micro.dropna(subset=["F labour", "F paired"]), GENDER, OCCUPATIONS, shares)
    caption = "Right of the line: the people look as the stereotype has it more often than not."
    axes = {"x": "stereotype test score in pairs", "null": 0.0}
    return [
        figure("intervals", "figure3", "Micro scores in pairs (Fig. 3)", rows, caption, **axes),
        figure("scatter", "figure4", f"{WORK[0]} (Fig. 4)", at_work, f"On the dashed line {labour}.", **WORK[1]),
    ]


def _marks(micro: pd.DataFrame, column: str, groups: Mapping[str, str], names: Mapping[str, str]) -> pd.DataFrame:
    """A mark per row, coloured by the group that ``column`` says."""
    return marks(micro.assign(group=micro[column].map(groups)), {**names, "name": "display", "group": "group"})


def report_power(design: Design, settings: StudySettings, people: pd.DataFrame) -> Results:
    """Overall scores, those of each level of power, and those of every role."""
    keys = ["occupation", "level"]
    columns = {"sts_single": "published STS single", "sts_paired": "published STS paired", "gap": "published gap"}
    micro = micro_scores(people, ["occupation", "display", "level", "role", "occupation_gender"], settings)
    micro = _beside(micro, "pst_power.csv", keys, columns).sort_values(keys, kind="stable", ignore_index=True)
    average = {setting: value["average"] for setting, value in design.data["overall"]["power"].items()}
    published = {"overall": average, **design.data["by_power_level"]}
    findings, rows = scores_by_group(people, "level", LEVEL_TITLES, published, settings)
    table16 = _columns_of(micro, ["level", "role"], _GAP_COLUMNS, shares=False)
    points = marks(micro, {"group": "level", "value": "STS paired"}).dropna()
    axes, title = {"x": "stereotype test score of an occupation, in pairs", "null": 0.0}, "Micro scores in pairs"
    figure7 = figure("distributions", "figure7", f"{title}, by level of power (Fig. 7)", points, _BY_LEVEL, **axes)
    by_gap = micro.sort_values("gap", ascending=False, kind="stable")
    groups = {gender: f"{OCCUPATIONS[gender]} occupation" for gender in GENDERS}
    title = "Gap between pairs and single people, {} roles (Fig. 8)"
    figures8 = [
        _gap_figure(f"figure8_{level}", title.format(level), some, "occupation_gender", groups)
        for level, some in ((level, by_gap[by_gap["level"] == level]) for level in LEVELS)
    ]
    return Results(
        findings=tuple(findings),
        tables=(
            table("table4", "Scores by level of power (Table 4)", rows),
            table("table16", "Micro scores by role (Table 16)", table16, _FEW_PICTURES),
        ),
        figures=(figure7, *figures8),
        notes=(
            "The powerful are stereotyped as masculine, the powerless as feminine; roles are drawn at random "
            "by the seed, one of each level for an occupation.",
            "Published numbers are those of DALL-E 3, labelled by people; averages are those of Table 16's rows.",
        ),
    )


def _beside(scores: pd.DataFrame, file: str, keys: list[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """Scores with the printed numbers of the same rows."""
    printed = pd.DataFrame(read_table(file)).rename(columns={"power_level": "level"})
    printed = printed[keys].join(printed[[*columns]].apply(pd.to_numeric).rename(columns=columns))
    return scores.merge(printed, on=keys, how="left")


def _labour_order(micro: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Whether occupations with more women at work have more feminine-looking people in pairs (Fig. 4)."""
    comparable = micro.dropna(subset=["F paired", "F labour", "published F paired"])
    if len(comparable) < FEWEST_IN_ORDER:
        return []

    def tau(values: "pd.Series[Any]") -> float:
        return kendall_tau(values, comparable["F labour"], n_resamples=2).tau.value

    order = kendall_tau(comparable["F paired"], comparable["F labour"], **intervals(settings))
    drawn = comparable.get("drawn STS paired", pd.Series([np.nan]))  # on record of some models' pictures only
    drawn = comparable[GENDER].map({"masculine": -1, "feminine": 1}) * drawn
    title, says = (
        "F in pairs and F at work, order of occupations",
        f"{len(comparable)} occupations have a labour share.",
    )
    more = {"published": tau(comparable["published F paired"]), "expected": None if drawn.isna().any() else tau(drawn)}
    return [finding("labour_order", title, "kendall_tau", order.tau, says, p_value=order.p_value, **more)]


def _columns_of(micro: pd.DataFrame, first: list[str], last: list[str], *, shares: bool = True) -> pd.DataFrame:
    """Those of both settings between the first and the last, as far as they are known."""
    names = ["display", *first]
    for setting in (SINGLE, PAIRED):
        score, share = f"STS {setting}", f"F {setting}"
        names += [f"n {setting}", score, f"{setting} low", f"{setting} high", f"drawn {score}"]
        names += [f"published {score}", *([share, f"published {share}"] if shares else [])]
        names.append(f"coverage {setting}")
    return micro[[name for name in [*names, *last] if name in micro]].rename(columns=_NAMES)


_BY_LEVEL = (
    "Points are occupations, bars their quartiles, circles their medians. Right of the line: the powerful look "
    "masculine, the powerless feminine."
)
_FEW_PICTURES = "With three and six pictures a role: read the intervals, not the ranks."
_GAP_COLUMNS = ["gap", "gap low", "gap high", "published gap"]


def _gap_figure(key: str, title: str, micro: pd.DataFrame, column: str, groups: Mapping[str, str]) -> StudyFigure:
    rows = _marks(micro, column, groups, dict(zip(("value", "low", "high", "published"), _GAP_COLUMNS, strict=True)))
    caption = "Right of the line: more stereotyped beside another person than alone."
    return figure("intervals", key, title, rows, caption, x="STS in pairs minus STS alone", null=0.0)


PROGRAMS = {
    "paired_occupations": paired_program(
        shots=occupation_shots,
        identities=lambda design, _settings: occupation_identities(design),
        report=report_occupations,
        options=PairOptions,
        runs="occupation",
    ),
    "paired_power": paired_program(
        shots=power_shots, identities=power_identities, report=report_power, options=PairOptions, runs="power"
    ),
}
