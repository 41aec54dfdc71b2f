"""T2IAT over models: each test with its effect size and p, and each occupation, arm by arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from bias_core.studies.arms.tables import ARM, table_over_arms
from bias_core.studies.kit.types import Results
from bias_core.studies.reports.build import figure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.kit.types import ArmReport, Design, StudySettings

_NUMBERS = ["S", "low", "high", "p", "q", "d", "X above Y", "published S", "published p", "published d"]
_OCCUPATIONS = ["mean", "low", "high", "even mix", "beyond it", "beyond low", "beyond high", "n"]
_AMPLIFICATION = ["text", "image", "low", "high", "even mix", "amplified", "same side"]


def compare_tests(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 1: effect size and p of every test in every arm."""
    frame = table_over_arms(arms, "table1", ["test", "X", "Y", "A", "B"], _NUMBERS)
    titles = [f"{x} / {y}, {a} / {b}" for x, y, a, b in frame[["X", "Y", "A", "B"]].to_numpy()]
    note = (
        "p and q: of this arm alone, whether X and Y lean apart, before and after Benjamini–Hochberg over "
        "its tests. Whether the arms differ: see the table of differences."
    )
    return Results(
        tables=(table("table1_arms", "Association tests over the arms (Table 1)", frame, note),),
        figures=(
            figure(
                "heatmap",
                "effect_sizes_arms",
                "Effect size of each test, over the arms",
                pd.DataFrame({"row": titles, "column": frame[ARM], "value": frame["d"]}).dropna(),
                "Above 0: the first concept leans to the first attribute more.",
                null=0.0,
                unit="d",
            ),
        ),
    )


def compare_occupations(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Fig. 3 in numbers: how the pictures of each occupation lean in every arm."""
    frame = table_over_arms(arms, "occupations", ["occupation"], _OCCUPATIONS)
    title = "Associations of occupations over the arms (Fig. 3)"
    return Results(tables=(table("occupations_arms", title, frame),))


def compare_amplification(_design: Design, _settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Fig. 4 in numbers: from one prompt to the pictures of every arm."""
    frame = table_over_arms(arms, "amplification", ["occupation"], _AMPLIFICATION)
    title = "From text to picture, over the arms (Fig. 4)"
    return Results(tables=(table("amplification_arms", title, frame),))
