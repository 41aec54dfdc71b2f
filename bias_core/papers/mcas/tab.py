"""Internal on the page: how a target's association with men or women changes from its text to its pictures."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gradio as gr

from bias_core.papers.mcas.report import InternalBiasOptions, read_sides
from bias_core.papers.mcas.study import own_targets
from bias_core.report.report_text import get_table
from bias_core.study.types import Design, StudyReport
from bias_core.ui.study.paper import Paper, extremes_html
from bias_core.ui.templates import render
from bias_core.values import declared_settings

_BEHIND = (
    "The number below a picture says how much closer it is to this run’s pictures of {a} than to those of {b}; II is "
    "the mean. Clothing, age, light or style may be the reason: look at the pictures before you conclude."
)


class Internal(Paper):
    """The shift from words to pictures."""

    key: ClassVar = "internal"
    title: ClassVar = "Internal"
    paper: ClassVar = "MCAS"
    asks: ClassVar = "bias inside the model"
    place: ClassVar = 40
    question: ClassVar = "Between text and picture, where does a concept become associated with men or with women?"
    caution: ClassVar = (
        "Scores describe appearance, and include the encoder's own associations. An association is not an error by "
        "itself, and a score near 0 does not prove that there is none."
    )
    closer: ClassVar = True
    own_options: ClassVar = declared_settings(InternalBiasOptions).keys() - {"targets"}

    def build_own(self) -> dict[str, Any]:
        """Build the fields of targets and numbers of pictures."""
        fields: dict[str, Any] = {}
        fields["targets"] = gr.Textbox(
            "Judge | an image of a judge | male\nTeacher\nNurse | an image of a nurse | female",
            label="Targets, one per line",
            info="Keyword | prompt | expected gender (male or female); prompt and gender are optional",
            lines=4,
            elem_id=f"{self.key}-own-targets",
        )
        with gr.Row():
            fields["n"] = gr.Slider(2, 40, 10, step=1, label="Pictures per target", min_width=200)
            fields["n_attribute"] = gr.Slider(
                2, 20, 5, step=1, label="Pictures per prompt of men and women (8 prompts)", min_width=200
            )
        return fields

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        return own_targets(
            str(own_values["targets"] or ""),
            n=int(own_values["n"] or 0),
            n_attribute=int(own_values["n_attribute"] or 0),
        )

    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        return [(str(target), str(target)) for target in get_table(report, "table3").frame["target"]]

    def closer_html(self, report: StudyReport, key: str) -> str:
        """Return the four scores of a target from text to picture, δ and α, in words and as a table."""
        scores, rows = get_table(report, "scores").frame, get_table(report, "table3").frame
        mine, row = scores[scores["target"] == key].drop(columns="target"), rows[rows["target"] == key]
        if row.empty:
            return ""
        frame = report.pictures
        return render(
            "flow",
            target=key,
            sides=read_sides(report.settings).called,
            table=mine,
            scores={score["score"]: score for score in mine.to_dict("records")},
            reach=1.08 * float(scores[["value", "low", "high"]].abs().max().max()),
            row=row.iloc[0].to_dict(),
            says=next((f.says for f in report.results.findings if f.key == f"difference {key}"), ""),
            prompts=[] if frame is None else frame.loc[frame["keyword"] == key, "prompt"].tolist(),
        )

    def behind_html(self, report: StudyReport, key: str) -> str:
        """Return the target's pictures that are closest to those of either side."""
        frame = report.pictures
        if frame is None or "margin" not in frame:
            return ""
        ends, (a, b) = {key: frame[frame["keyword"] == key]}, read_sides(report.settings).called
        low, high = f"nearest to {b}", f"nearest to {a}"
        return extremes_html(report, "margin", ends, low=low, high=high, note=_BEHIND.format(a=a, b=b))
