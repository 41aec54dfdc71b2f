"""The Internal tab: what drawing adds to the lean of the words, from the text of a target to its pictures."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gradio as gr

from bias_core.papers.mcas.report import InternalBiasOptions, sides_of
from bias_core.papers.mcas.study import own_targets
from bias_core.study.report_text import table_of
from bias_core.study.types import Design, StudyReport
from bias_core.ui.study.study_tab import CloserLook, extremes_html
from bias_core.ui.templates import render
from bias_core.values import settings_of

_BEHIND = (
    "Below each how much nearer it is to this run’s pictures of {a} than to those of {b}; II is the mean. "
    "Clothing, age, light or style may be what makes it so: look before you conclude."
)


class InternalTab(CloserLook):
    """The tab on what drawing adds to the lean of the words."""

    key: ClassVar = "internal"
    title: ClassVar = "Internal"
    place: ClassVar = 40
    question: ClassVar = "On the way from text to picture, where does a concept come to lean to men or to women?"
    caution: ClassVar = (
        "Leans are those of appearance, read by an encoder with leanings of its own, which are part of every "
        "score. A lean is not an error by itself, and a score near 0 does not prove that there is none."
    )
    own_options: ClassVar = settings_of(InternalBiasOptions).keys() - {"targets"}

    def build_own(self) -> dict[str, Any]:
        """Targets, and how many pictures."""
        own: dict[str, Any] = {}
        own["targets"] = gr.Textbox(
            "Judge | an image of a judge | male\nTeacher\nNurse | an image of a nurse | female",
            label="Targets, one a line",
            info="A keyword; after a bar its prompt; after another the gender people expect, male or female",
            lines=4,
            elem_id=f"{self.key}-own-targets",
        )
        with gr.Row():
            own["n"] = gr.Slider(2, 40, 10, step=1, label="Pictures of each target", min_width=200)
            own["n_attribute"] = gr.Slider(
                2, 20, 5, step=1, label="Pictures of each of 8 prompts of men and women", min_width=200
            )
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:
        """The study on these targets."""
        return own_targets(str(own["targets"] or ""), n=int(own["n"] or 0), n_attribute=int(own["n_attribute"] or 0))

    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        """The targets that were drawn."""
        return [(str(target), str(target)) for target in table_of(report, "table3").frame["target"]]

    def closer_html(self, report: StudyReport, key: str) -> str:
        """The four scores of a target from text to picture, δ and α, in words and as a table."""
        scores, rows = table_of(report, "scores").frame, table_of(report, "table3").frame
        mine, row = scores[scores["target"] == key].drop(columns="target"), rows[rows["target"] == key]
        if row.empty:
            return ""
        frame = report.pictures
        return render(
            "flow",
            target=key,
            sides=sides_of(report.settings).called,
            table=mine,
            scores={score["score"]: score for score in mine.to_dict("records")},
            reach=1.08 * float(scores[["value", "low", "high"]].abs().max().max()),
            row=row.iloc[0].to_dict(),
            prompts=[] if frame is None else frame.loc[frame["keyword"] == key, "prompt"].tolist(),
        )

    def behind_html(self, report: StudyReport, key: str) -> str:
        """The target's pictures that are nearest to those of either side."""
        frame = report.pictures
        if frame is None or "lean" not in frame:
            return ""
        ends, (a, b) = {key: frame[frame["keyword"] == key]}, sides_of(report.settings).called
        low, high = f"nearest to {b}", f"nearest to {a}"
        return extremes_html(report, "lean", ends, low=low, high=high, note=_BEHIND.format(a=a, b=b))
