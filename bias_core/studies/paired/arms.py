"""PST over models: its table of scores in pairs, alone and their gap, and the micro scores arm by arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from bias_core.studies.arms.tables import ARM, lines_together, marks_over_arms, table_over_arms
from bias_core.studies.kit.types import Results
from bias_core.studies.reports.build import drawable, figure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.kit.types import ArmReport, Design, StudyFigure, StudySettings

PUBLISHED = "DALL-E 3, published"
_SCORES = {"paired": "published paired", "single": "published single", "gap": "published gap"}
_TABLES = {  # of the arms: by what its lines are told apart, and where each column's published number stands
    "table3": (["group"], _SCORES),
    "table4": (["group"], _SCORES),
    "table6": ([""], {"value": "published"}),
    "micro": (["setting", "identity", "stereotype"], {"STS": ""}),
}
_MAPS = {"figure3": "Micro scores in pairs (Fig. 3)", "figure5": "Gap between pairs and single people"}
_MAPS |= {"figure8_powerful": "Gap, powerful roles", "figure8_powerless": "Gap, powerless roles"}


def compare_pairs(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """The scores of every arm side by side, and what each figure of the arms shows, arm by arm."""
    frames = {key: _scores(arms, key) for key in _TABLES}
    title = "Stereotype test scores over the arms"
    note = "STS from -100 to 100; above 0: as the stereotypes have it."
    return Results(
        tables=tuple(table(f"{key}_arms", title, frame, note) for key, frame in frames.items() if len(frame)),
        figures=drawable([*(_map(arms, key, title) for key, title in _MAPS.items()), _labour(arms)]),
    )


def _scores(arms: Sequence[ArmReport], key: str) -> pd.DataFrame:
    by, columns = _TABLES[key]
    frame = table_over_arms(arms, key, by, [*columns, "low", "high", "pictures"])
    printed = table_over_arms(arms[:1], key, by, [name for name in columns.values() if name])
    names = {published: name for name, published in columns.items() if published in printed}
    published = printed.rename(columns=names).assign(**{ARM: PUBLISHED}).dropna(subset=list(names.values()))
    return lines_together(pd.concat([frame, published]), by) if names and len(published) else frame


def _map(arms: Sequence[ArmReport], key: str, title: str) -> StudyFigure:
    """Who is shown as the stereotype has it, by identity and arm."""
    marks = marks_over_arms(arms, key).rename(columns={"name": "row", ARM: "column"})
    return figure(
        "heatmap",
        f"{key}_arms",
        f"{title}, over the arms",
        marks[["row", "column", "value"]].dropna() if len(marks) else marks,
        "Above 0: as the stereotype has it. Intervals stand in the tables of each arm.",
        null=0.0,
        unit="STS",
    )


def _labour(arms: Sequence[ArmReport]) -> StudyFigure:
    marks = marks_over_arms(arms, "figure4")
    return figure(
        "scatter",
        "figure4_arms",
        "Feminine-looking people in pairs, and women at work, over the arms (Fig. 4)",
        marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks,
        "A dot per occupation and arm. On the dashed line pictures would be as the labour market is.",
        x="% women among the employed",
        y="% perceived feminine in pairs",
        diagonal=True,
    )
