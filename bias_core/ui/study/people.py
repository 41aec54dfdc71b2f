"""People correct a run: in its report a button that makes their task, and what their labels make of the numbers."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from bias_core.annotation.tasks import SINGLE
from bias_core.services import Services
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.text import is_known
from bias_core.studies.running.corrected import BUDGET, Correction, corrected, correction_of
from bias_core.studies.running.run_readings import PEOPLE, readings_of
from bias_core.ui import messages
from bias_core.ui.templates import render

N_LABELS = 64
AT_RANDOM, ALONE = "", f"setting={SINGLE}"  # of pairs, where there are pairs; and of people alone
_FEW = 9  # numbers that are shown without being asked for
Updates = dict[Any, Any]


class PeoplePart:
    """The part of a report that is about people's labels of its pictures; hidden where they could correct nothing."""

    def __init__(self, services: Services, key: str) -> None:
        self.services, self.key = services, key
        self.n = self.by = self.button = self.refresh = self.box = self.corrected = None  # type: Any

    def build_corrected(self) -> None:
        """The corrected numbers."""
        self.corrected = gr.HTML(visible=False, elem_classes="card", elem_id=f"{self.key}-corrected")

    def build_task(self) -> None:
        """What makes a task of the report's pictures."""
        key = self.key
        with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-people") as self.box:
            gr.HTML(render("people_ask"))
            with gr.Row():
                count: dict[str, Any] = {"label": "How many pictures", "minimum": 2, "precision": 0, "min_width": 140}
                count["info"] = "With 64 a share is known to about 8 points"
                self.n = gr.Number(N_LABELS, elem_id=f"{key}-people-n", **count)
                which: dict[str, Any] = {"value": AT_RANDOM, "label": "Which", "min_width": 240}
                which["info"] = "By what the reader says: as many of each of its answers as can be"
                self.by = gr.Dropdown([("at random", AT_RANDOM)], elem_id=f"{key}-people-by", **which)
            with gr.Row(elem_classes="tools"):
                look: dict[str, Any] = {"scale": 0, "min_width": 260}
                self.button = gr.Button(button_text(N_LABELS, AT_RANDOM), elem_id=f"{key}-people-label", **look)
                self.refresh = gr.Button("Look for new answers", visible=False, elem_id=f"{key}-people-refresh", **look)

    def outputs(self) -> list[Any]:
        """Everything that :meth:`show` changes."""
        return [self.corrected, self.box, self.by, self.refresh, self.n, self.button]

    def wire(self, report: Any, said: list[Any], say: Callable[[StudyReport], Updates]) -> None:
        """The events; ``say`` gives the updates of the components ``said``, which hang on corrected numbers."""

        def on_new_answers(shown: StudyReport | None) -> Updates:
            """The corrected numbers as they are now."""
            if shown is None:
                return {self.button: gr.skip()}
            corrected, updates = self.show(shown)
            return updates | say(corrected)

        self.refresh.click(on_new_answers, report, [*said, *self.outputs()], **messages.QUIET)
        chosen = [self.n, self.by]
        gr.on([part.input for part in chosen], button_text, chosen, self.button, **messages.LATEST)

    def correction(self, report: StudyReport) -> Correction | None:
        """What people say of the run of this report; None where no task serves it."""
        answers = self.services.run_answers(report.run_id)
        return None if answers is None else correction_of(report, answers)

    def extended(self, report: StudyReport) -> StudyReport:
        """The report with the corrected numbers, to be downloaded."""
        return corrected(report, self.services.run_answers(report.run_id), self.services)

    def show(self, report: StudyReport) -> tuple[StudyReport, Updates]:
        """The report with the numbers that people's labels correct; and the updates of this part."""
        is_run = report.run_id.isalnum() and self.services.manifests.find(report.run_id) is not None  # and no example
        readings, correction, html = readings_of(report) if is_run else [], None, ""
        if readings:
            with messages.user_errors() as problem:
                correction = self.correction(report)
            html = messages.error_html(problem.message) if problem else ""
            html = html if correction is None else corrected_html(correction)
        n = min(N_LABELS, len({image_id for one in readings for image_id in one.image_ids}))
        names = dict.fromkeys(PEOPLE if one.attribute is None else one.attribute.name for one in readings)
        choices = [("at random", AT_RANDOM), *((f"by what the reader says of {name}", name) for name in names)]
        if {one.group for one in readings if one.attribute is None} > {SINGLE}:
            choices.append(("at random, of people alone", ALONE))
        updates = {
            self.corrected: gr.update(value=html, visible=bool(html)),
            self.box: gr.update(visible=bool(readings)),
            self.by: gr.update(choices=choices, value=AT_RANDOM),
            self.refresh: gr.update(visible=correction is not None),
            self.n: n or N_LABELS,
            self.button: button_text(n or N_LABELS, AT_RANDOM),
        }
        return (report if correction is None else correction.added_to(report)), updates


def corrected_html(correction: Correction, of: str = "") -> str:
    """The numbers of a run beside what people's labels make of them; ``of`` says which run, where that is not plain."""
    scales: dict[str, list[float]] = {}
    for one in correction.numbers:
        ends = [one.corrected.low, one.corrected.high, one.as_read.value, one.corrected.null_value]
        scales.setdefault(one.metric, []).extend(float(end) for end in ends if end is not None and is_known(end))
    return render(
        "corrected",
        correction=correction,
        of=of,
        scales={metric: (min(ends), max(ends)) for metric, ends in scales.items()},
        budget=BUDGET,
        few=_FEW,
    )


def button_text(n: float | None, by: str | None) -> str:
    """What the button will do."""
    which = {AT_RANDOM: "these at random", ALONE: "those of people alone"}
    return f"Label {int(n or 0):,} of {which.get(by or AT_RANDOM, f'these by {by}')}"
