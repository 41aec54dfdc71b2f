"""A study tab that looks closer at one part of a report at a time, with the pictures behind it."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr
import pandas as pd

from bias_core.studies.kit.types import StudyReport
from bias_core.ui.study.pictures import picture_html
from bias_core.ui.study.study_tab import EACH, LATEST, StudyTab, Updates
from bias_core.ui.study.view import CHOOSE_JS
from bias_core.ui.study.why import why_html
from bias_core.ui.templates import render

AT_EACH_END = 4


class CloserLook(StudyTab):
    """A study tab that says of each part of a report what it is and which pictures are behind it."""

    @abstractmethod
    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        """What can be looked at closer: titles and keys."""

    @abstractmethod
    def closer_html(self, report: StudyReport, key: str) -> str:
        """One of them in words; "" where nothing is to be said."""

    @abstractmethod
    def behind_html(self, report: StudyReport, key: str) -> str:
        """The pictures behind it; "" where there are none."""

    def build_extra(self) -> dict[str, Any]:
        """The menu, the words, the pictures, and one of them large."""
        extra: dict[str, Any] = {}
        with gr.Row(elem_classes="closer"):
            extra["closer"] = gr.Dropdown(label="Look closer at", elem_id=f"{self.key}-closer", visible=False)
        extra["words"] = gr.HTML(elem_id=f"{self.key}-words", visible=False)
        extra["behind"] = gr.HTML(js_on_load=CHOOSE_JS, elem_id=f"{self.key}-behind", visible=False)
        extra["opened"] = gr.HTML(elem_id=f"{self.key}-opened")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """Of a new report, the first one."""
        choices = self.closer_looks(report)
        first = choices[0][1] if choices else ""
        menu = gr.update(choices=choices, value=first, visible=len(choices) > 1)
        return {self.extra["closer"]: menu, **self._shown(report, first)}

    def wire_extra(self) -> None:
        """The menu, and the pictures that open."""
        report, extra = self.parts["report"], self.extra
        shown = [extra[name] for name in ("words", "behind", "opened")]
        extra["closer"].input(self.on_closer, [report, extra["closer"]], shown, **LATEST)
        extra["behind"].select(self.on_open, report, extra["opened"], **EACH)

    def on_closer(self, report: StudyReport | None, key: str) -> Updates:
        """Another one."""
        return {} if report is None else self._shown(report, key)

    def on_open(self, report: StudyReport | None, event: gr.EventData) -> str:
        """One of the pictures behind the numbers, large."""
        html = opened_html(report, str(event.image))
        return html + (why_html(report, str(event.image), self.services) if html and report else "")

    def _shown(self, report: StudyReport, key: str) -> Updates:
        parts = {"words": self.closer_html(report, key), "behind": self.behind_html(report, key)}
        shown = {self.extra[name]: gr.update(value=html, visible=bool(html)) for name, html in parts.items()}
        return {**shown, self.extra["opened"]: ""}


def extremes_html(
    report: StudyReport, column: str, groups: Mapping[str, pd.DataFrame], *, low: str, high: str, note: str = ""
) -> str:
    """The lowest and highest pictures of each group by a column of numbers; "" where there are too few.

    ``low`` and ``high`` say in words what the two ends are; with a ``note`` they stand in a card.
    """
    shown = []
    for title, frame in groups.items():
        rows = frame.dropna(subset=[column]).sort_values(column, kind="stable")
        if n := min(AT_EACH_END, len(rows) // 2):
            sides = ((low, rows.head(n)), (high, rows.tail(n).iloc[::-1]))
            shown.append((title, [(words, some.to_dict("records")) for words, some in sides]))
    if not shown:
        return ""
    return render("extremes", groups=shown, column=column, stored=report.stored, note=note)


def opened_html(report: StudyReport | None, image_id: str) -> str:
    """One of these pictures large; nothing for an id that is not of this report."""
    if report is None or report.pictures is None:
        return ""
    rows = report.pictures[report.pictures["image_id"] == image_id]
    return "" if rows.empty else picture_html(report, rows.iloc[0])
