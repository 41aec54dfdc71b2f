"""What to do next, as buttons under a headline: each starts the run that it names, or asks people."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from bias_core.services import Services
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.running.next_steps import N_LABELS, NextStep, next_steps
from bias_core.studies.running.plan import settle
from bias_core.ui import messages
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor, then_run

Updates = dict[Any, Any]
PEOPLE = "people"  # the step that runs nothing, and makes a labelling task


class NextPart:
    """The next steps of a report: their buttons, which stand in its header, and the runs that these start."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.chosen: Any = None  # the step whose button was pressed with its report; None where no button is wired

    def html(self, report: StudyReport) -> str:
        """A button for each step; "" for none."""
        steps = next_steps(report, self.services) if self.chosen is not None else ()
        return render("next_steps", steps=steps) if steps else ""

    def wire(self, tab: Any) -> None:
        """Let the buttons in the header of a study tab, which is built, start their runs there."""
        parts, self.chosen = tab.parts, gr.State(None)

        def on_step(visitor: Visitor, report: StudyReport | None, event: gr.EventData) -> Updates:
            """Remember which, and take a turn in line; who asks people has a listener of its own."""
            steps = [] if report is None else next_steps(report, self.services)
            step = next((one for one in steps if one.key == str(event.step) and one.settings is not None), None)
            if step is not None:  # the box beside its button says which width
                widths = {str(i): one for i, one in enumerate(step.widths)}
                step = widths.get(str(getattr(event, "choice", "0")))
            if step is None:
                return {self.chosen: None}
            return {self.chosen: (step, report), **tab.on_click(visitor, report)}

        def on_run(visitor: Visitor, chosen: tuple[NextStep, StudyReport] | None) -> Iterator[Updates]:
            """The run of the step, with its settings in the form where they can stand there."""
            if chosen is None or chosen[0].design is None or chosen[0].settings is None:
                return
            design, settings = chosen[0].design, chosen[0].settings
            if design == tab.designs.get(design.name):
                yield tab.form_of(design, settings)
            yield from tab.run_asked(visitor, lambda: settle(design, settings), chosen[1])

        inputs = [parts["visitor"], parts["report"]]
        click = parts["header"].select(on_step, inputs, [*tab.outputs(), self.chosen], queue=False, **messages.QUIET)
        run = then_run(click.then, on_run, [parts["visitor"], self.chosen], tab.opened_outputs(), tab.on_crash)
        tab.bring_into_view(click, "status")
        tab.bring_into_view(run, "header")

    def wire_people(self, header: Any, label: Callable[..., Any], inputs: list[Any], outputs: list[Any]) -> None:
        """Let the button that asks people make their task by ``label``; inputs are visitor, memory and report."""

        def on_people(
            visitor: Visitor,
            memory: Any,
            report: StudyReport | None,
            event: gr.EventData,
            profile: gr.OAuthProfile | None = None,
        ) -> Any:
            """The task, where that is the step that was chosen."""
            if report is None or str(event.step) != PEOPLE:
                return {}
            return label(visitor, memory, report, min(N_LABELS, report.n_images), "", profile)

        header.select(on_people, inputs, outputs, api_visibility="private")
