"""Internal bias over models: the summary of Table 4 with ranks, and δ against α arm by arm (Fig. 2 to 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from bias_core.studies.arms.tables import ARM, lines_together, marks_over_arms, ranks_over_arms, table_over_arms
from bias_core.studies.internal.report import GROUPS, RUN, SUMMARIES
from bias_core.studies.kit.types import Results
from bias_core.studies.reports.build import drawable, figure, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.kit.types import ArmReport, Design, StudySettings

_COLUMNS = [f"mean {sign}" for sign in SUMMARIES.values()]


def compare_internal_bias(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table 4 with a line and ranks per arm, and the cloud of targets of every arm."""
    marks = marks_over_arms(arms, "figure2")
    cloud = figure(
        "scatter",
        "figure4_arms",
        "δ against α over the arms (Fig. 2 to 4)",
        marks[["x", "y"]].assign(group=marks[ARM], marker=marks["group"]) if len(marks) else marks,
        "A dot per target with an α. Lines are LOWESS over two thirds of an arm's targets, held within the "
        "points; none below eight targets or where most share one δ.",
        x="diffusion bias δ",
        y="bias amplification α",
        lowess=True,
    )
    summary = table(
        "table4_arms",
        "Diffusion bias, lean and amplification over the arms (Table 4)",
        _summary(settings, arms),
        "Means over targets with their intervals; the published ± is as printed. Rank 1 has the largest "
        "mean, on the targets that all arms have; low and high: ranks in resamples of the targets.",
    )
    return Results(tables=(summary,), figures=drawable([cloud]))


def _summary(settings: StudySettings, arms: Sequence[ArmReport]) -> pd.DataFrame:
    own = table_over_arms(arms, "table4", ["targets"], [*_COLUMNS, "no α", "n"], {"model": RUN})
    ranks = [
        {"targets": group, ARM: arm.name} | columns
        for group in GROUPS
        for arm, columns in zip(arms, _ranks(arms, group, settings), strict=True)
    ]
    frame = own.merge(pd.DataFrame(ranks), on=["targets", ARM], how="left")
    printed = next(one.frame for one in arms[0].results.tables if one.key == "table4")
    published = printed[printed["model"] != RUN].rename(columns={"model": ARM})
    published = published[published["targets"].isin(own["targets"])]
    return lines_together(pd.concat([frame, published[[c for c in frame if c in published]]]), ["targets"])


def _ranks(arms: Sequence[ArmReport], group: str, settings: StudySettings) -> list[dict[str, float]]:
    """Of every arm the ranks of all three means."""
    ranked: list[dict[str, float]] = [{} for _ in arms]
    for key, sign in SUMMARIES.items():
        for columns, ranks in zip(ranked, ranks_over_arms(arms, f"{key} {group}", settings), strict=True):
            columns |= {name.replace("rank", f"rank of {sign}"): value for name, value in ranks.items()}
    return ranked
