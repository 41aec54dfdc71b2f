"""OASIS over models: Tables 1 and 2; Figures 3 to 5 with a colour per arm and a marker per nationality."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.studies.arms.tables import (
    ARM,
    arms_as_columns,
    finding_of,
    lines_together,
    marks_over_arms,
    table_over_arms,
)
from bias_core.studies.kit.types import Results
from bias_core.studies.reports.build import figure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.kit.types import ArmReport, Design, StudyFigure, StudySettings


def compare_nationalities(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 1, and Figures 4 and 5."""
    by = ["nationality", "attribute"]
    variety = arms_as_columns(table_over_arms(arms, "figure4", by, ["WALS"]), by, "WALS")
    bars, plane = marks_over_arms(arms, "figure4"), marks_over_arms(arms, "figure5")
    note = (
        "Ψ = max(0, P − P*), of P corrected for the reader's errors where these are known. The last columns "
        "are as published. Intervals and n: see the table of each arm."
    )
    return Results(
        tables=(
            table("table1_arms", "Stereotype scores over the arms (Table 1)", _table1(arms), note),
            table("figure4_arms", "Variety along each attribute, WALS, over the arms (Figure 4)", variety),
        ),
        figures=(
            *(_variety_figure(bars, name, i) for i, name in enumerate(dict.fromkeys(bars["group"]), start=1)),
            _plane_figure(plane),
            *(_plane_figure(plane, name, i) for i, name in enumerate(dict.fromkeys(plane["group"]), start=1)),
        ),
    )


def _plane_figure(plane: pd.DataFrame, nationality: str = "", number: int = 0) -> StudyFigure:
    """Figure 5 of all nationalities, or of one with the names of its attributes."""
    mine = plane[plane["group"] == nationality] if nationality else plane
    data = mine[["x", "y"]].assign(group=mine[ARM], marker=mine["group"])
    names = "A line joins one attribute in all arms. " if nationality else ""
    return figure(
        "scatter",
        f"figure5-{number}" if nationality else "figure5_arms",
        f"{nationality or 'All nationalities'}: stereotype against variety (Figure 5)",
        (data.assign(name=mine["name"]) if nationality else data).dropna(ignore_index=True),
        f"A colour per arm, a marker per nationality, a dot per attribute. {names}Best is the lower right: "
        "no stereotype, and much variety along the attribute.",
        x="WALS",
        y="Ψ",
        join=bool(nationality),
        markers=list(dict.fromkeys(plane["group"])),
    )


def _table1(arms: Sequence[ArmReport]) -> pd.DataFrame:
    """P and Ψ of every arm beside those of the paper's models."""
    printed = next(one.frame for one in arms[0].results.tables if one.key == "table1")
    frame = printed[["nationality", "attribute", "P*"]].copy()
    keys = list(frame["nationality"] + " " + frame["attribute"])
    for arm in arms:
        for sign, ending in (("P", "P"), ("Ψ", "stereotype")):
            findings = [finding_of(arm, f"{key} {ending}") for key in keys]
            frame[f"{arm.name} {sign}"] = [math.nan if f is None else f.estimate.value for f in findings]
    models = [name.removesuffix(" Ψ") for name in map(str, printed) if name.endswith(" Ψ")]
    return frame.join(printed[[f"{model} {sign}" for model in models for sign in ("P", "Ψ")]])


def _variety_figure(bars: pd.DataFrame, nationality: str, number: int) -> StudyFigure:
    mine = bars[bars["group"] == nationality]
    return figure(
        "bars",
        f"figure4-{number}",
        f"{nationality}: variety along attributes (Figure 4)",
        mine.assign(group=mine[ARM]).reset_index(drop=True),
        "Longer: more of the variety of the arm's pictures lies along the attribute.",
        y="WALS",
    )


def compare_users(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Figure 3, for the mean and for the largest stereotype score of each nationality."""
    by = ["nationality", "users"]
    scores = table_over_arms(arms, "figure3", by, ["mean Ψ", "maximum Ψ", "attributes", "n"])
    columns = ["Spearman", "Spearman p", "Pearson", "Pearson p", "n"]
    orders = table_over_arms(arms, "correlations", ["summary"], columns, {"Ψ of": "these pictures"})
    note = "p: over all orders of the nationalities."
    return Results(
        tables=(
            table("figure3_arms", "Stereotype scores and internet users", scores, "Users in millions."),
            table("correlations_arms", "Correlations with the number of users", orders, note),
        ),
        figures=tuple(_users_figure(scores, summary) for summary in ("mean", "maximum")),
    )


def _users_figure(scores: pd.DataFrame, summary: str) -> StudyFigure:
    columns = {"nationality": "marker", ARM: "group", "users": "x", f"{summary} Ψ": "y"}
    columns |= {f"{summary} Ψ low": "ylow", f"{summary} Ψ high": "yhigh"}
    return figure(
        "scatter",
        f"figure3_{summary}",
        f"Stereotype scores against internet users, {summary} of the attributes (Figure 3)",
        scores[[*columns]].rename(columns=columns).sort_values("x", kind="stable", ignore_index=True),
        "A colour per arm, a marker per nationality; arms stand a little apart, so that no interval hides another.",
        x="internet users, in millions",
        y=f"{summary} Ψ",
        lines=True,
        apart=True,
        markers=list(dict.fromkeys(scores["nationality"])),
    )


def compare_doctors(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 2."""
    columns = ["P", "P corrected", "drawn", "n", "added", "p", "q"]
    frame = _with_published(table_over_arms(arms, "table2", ["concept"], columns), arms)
    note = (
        "Added: P less that of doctors of no nationality, as read, with its interval, p and corrected p. The "
        "last lines of each are as published."
    )
    return Results(tables=(table("table2_arms", "P(man) of doctors over the arms (Table 2)", frame, note),))


def _with_published(frame: pd.DataFrame, arms: Sequence[ArmReport]) -> pd.DataFrame:
    """The table with the lines of the paper's models, which the arms' tables have as columns "<model> P"."""
    printed = next(one.frame for one in arms[0].results.tables if one.key == "table2")
    models = [name.removesuffix(" P") for name in map(str, printed) if name.endswith(" P")]
    lines = [printed[["concept"]].assign(**{ARM: f"{model}, published"}, P=printed[f"{model} P"]) for model in models]
    return lines_together(pd.concat([frame, *lines], ignore_index=True), ["concept"])
