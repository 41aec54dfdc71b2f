"""The internal bias of one target as a flow from text to picture, in words and with its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.studies.reports.text import table_of
from bias_core.ui.study.extremes import Ends, extremes_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport

_BEHIND = (
    "Below each how much nearer it is to this run’s pictures of men than to those of women; II is the mean. "
    "Clothing, age, light or style may be what makes it so: look before you conclude."
)


def targets_of(report: StudyReport) -> list[str]:
    """The targets that were drawn, for a menu."""
    return [str(target) for target in table_of(report, "table3").frame["target"]]


def headline(report: StudyReport) -> str:
    """One sentence on which targets lean which way."""
    table = table_of(report, "table3").frame
    men = table.loc[table["MCAS low"] > 0, "target"].tolist()
    women = table.loc[table["MCAS high"] < 0, "target"].tolist()
    named = [f"to {side}: {', '.join(names)}" for side, names in (("men", men), ("women", women)) if names]
    rest = len(table) - len(men) - len(women)
    if not named:
        return f"None of {len(table)} targets leans clearly to men or women; none is shown to be even."
    unclear = f"; to neither clearly: {rest}" if rest else ""
    return f"Of {len(table)} targets, as text and pictures together (MCAS), lean {'; '.join(named)}{unclear}."


def flow_html(report: StudyReport, target: str) -> str:
    """The four scores from text to picture, δ and α, in words and as a table."""
    scores, rows = table_of(report, "scores").frame, table_of(report, "table3").frame
    mine, row = scores[scores["target"] == target].drop(columns="target"), rows[rows["target"] == target]
    if row.empty:
        return ""
    frame = report.pictures
    return render(
        "flow",
        target=target,
        table=mine,
        scores={score["score"]: score for score in mine.to_dict("records")},
        reach=1.08 * float(scores[["value", "low", "high"]].abs().max().max()),
        row=row.iloc[0].to_dict(),
        prompts=[] if frame is None else frame.loc[frame["keyword"] == target, "prompt"].tolist(),
    )


def behind_html(report: StudyReport, target: str) -> str:
    """The target's pictures that are nearest to those of women and of men."""
    frame = report.pictures
    if frame is None or "lean" not in frame:
        return ""
    ends = [Ends(title=target, frame=frame[frame["keyword"] == target])]
    return extremes_html(report, "lean", ends, low="nearest to women", high="nearest to men", note=_BEHIND)
