"""What people's answers say of a task, laid out as the result of a study: headline, pictures, one plot, folds."""

from typing import Any, ClassVar

import gradio as gr

from bias_core.labels import tab_parts
from bias_core.labels.answers import PEOPLE_SAY
from bias_core.study.types import StudyReport
from bias_core.ui.study.pictures import Pictures
from bias_core.ui.study.result_page import ResultPage, Updates, header_html

_NOT_OF_A_TASK = ("shell", "python", "link")  # no run makes a task's report


class AnswersPage(ResultPage):
    """The result page of a labelling task, within the Label tab."""

    key: ClassVar = "answers"
    null_words: ClassVar = "chance reads"
    pressed: Any = None  # the event of a press of what can be taken along

    def build(self, report: Any) -> None:
        """The page; ``report`` is the state that holds it."""
        self.parts["report"] = report
        with gr.Column(elem_classes="result"):
            self._build_results()

    def build_pictures(self) -> Pictures:
        """Grouped by what most raters say; the files of a task are served to nobody."""
        return Pictures(self.key, cell_column=PEOPLE_SAY, embedded=True)

    def build_numbers(self) -> dict[str, Any]:
        """What the labels make of the run that they serve."""
        return {"corrected": gr.HTML(elem_id="label-corrected")}

    def wire_take(self, pressed: Any) -> None:
        """The tab wires it: a report that the server has forgotten is made anew by the owner's key."""
        self.pressed = pressed

    def header_html(self, report: StudyReport) -> str:
        """How far raters agree."""
        return header_html(report, tab_parts.headline(report)) + self.next.html(report)

    def show_numbers(self, report: StudyReport) -> Updates:
        """Without a command: people made these numbers."""
        shown = super().show_numbers(report) | {
            self.parts[name]: gr.update(value="", visible=False) for name in _NOT_OF_A_TASK
        }
        text = shown[self.parts["claim"]]
        return shown | {self.parts["claim"]: gr.update(value=text, visible=bool(text))}

    def show_task(self, report: StudyReport, corrected: str) -> Updates:
        """All of a task's report, and of what it ``corrected``; the tab sets the state itself."""
        shown = self.show_report(report) | {self.at_once["corrected"]: corrected}
        return {part: value for part, value in shown.items() if part is not self.parts["report"]}
