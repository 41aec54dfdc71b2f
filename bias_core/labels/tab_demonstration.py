"""The part of the Label tab that shows what labelling is: eight pictures to answer, and how agreement changes."""

from functools import cached_property
from typing import Any

import gradio as gr

from bias_core.labels.demonstration import YOU, Comparison, Demonstration
from bias_core.services import Services
from bias_core.ui import messages
from bias_core.ui.messages import QUIET
from bias_core.ui.templates import render, script


class DemonstrationPart:
    """Folded away once a task of one's own is open; what is answered is compared, shown, and not kept."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.box: Any = None
        self.ask: Any = None
        self.result: Any = None

    @cached_property
    def demonstration(self) -> Demonstration:
        """The shipped one, read when it is first shown or answered."""
        return Demonstration.read(self.services.settings.assets_dir)

    def build(self) -> None:
        """Pictures and answers, which the page shows one after the other by itself; the result below."""
        with gr.Accordion(
            "Example: answer eight pictures", open=True, elem_classes="more", elem_id="label-demo"
        ) as self.box:
            html = ""
            with messages.user_errors() as problem:
                html = render("label_demonstration", demonstration=self.demonstration)
            self.ask = gr.HTML(
                html or messages.error_html(problem.message), js_on_load=script("label_demonstration"),
                elem_id="label-demo-ask",
            )  # fmt: skip
            self.result = gr.HTML(elem_id="label-demo-result")

    def wire(self) -> None:
        """The one event: all pictures are answered."""
        self.ask.select(self.on_answers, None, self.result, **QUIET)

    def on_answers(self, event: gr.EventData) -> str:
        """What the answers change; none of them is kept."""
        with messages.user_errors() as problem:
            return comparison_html(self.demonstration.compared([one for one in str(event.answers).split(",") if one]))
        return messages.error_html(problem.message)


def comparison_html(comparison: Comparison) -> str:
    """A sentence, a small plot, and each picture with what was said of it."""
    return render("label_demonstration_result", comparison=comparison, raters=list(comparison.ratings), you=YOU)
