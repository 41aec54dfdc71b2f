"""The examples of a tab: finished reports that come with the program, the first of which the tab opens with."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from bias_core.study.saved import Example, SavedReport, list_examples, open_example
from bias_core.study.types import StudyReport
from bias_core.ui.messages import QUIET, READY, user_errors
from bias_core.ui.study.result_page import example_html
from bias_core.ui.templates import script

Updates = dict[Any, Any]


def copy_of(updates: Updates) -> Updates:
    """Updates that were made before, for Gradio to change as it likes."""
    return {part: dict(value) if isinstance(value, dict) else value for part, value in updates.items()}


class ExamplesPart:
    """A button for each example; none where none are shipped."""

    def __init__(self, key: str, folder: Path) -> None:
        self.key, self.folder = key, folder
        self.listed = list_examples(key, folder)
        self.buttons: dict[Example, Any] = {}
        self.looked_at: Any = None
        self._first: Updates | None = None

    def build_looked_at(self) -> None:
        """What says once that somebody looks at the tab: the parts of a tab are made when it is first shown."""
        self.looked_at = gr.HTML("", js_on_load=script("looked_at", key=self.key), elem_id=f"{self.key}-looked-at")

    def build(self) -> None:
        """The buttons, unless they stand elsewhere already."""
        for i, example in enumerate(self.listed if not self.buttons else ()):
            self.buttons[example] = gr.Button(
                f"Open an example: {example.title}", variant="secondary", elem_classes="example", size="sm",
                min_width=0, scale=0, elem_id=f"{self.key}-example-{i}",
            )  # fmt: skip

    def wire(self, show: Callable[[Example], Updates], outputs: list[Any], then: Callable[[Any], None]) -> None:
        """Let each button show its example; ``then`` wires what follows that."""
        for example, button in self.buttons.items():
            then(button.click(partial(show, example), None, outputs, **QUIET))

    def first(self, show: Callable[[StudyReport], Updates], header: Any, status: Any) -> Updates:
        """What ``show`` shows of the first one, made once for all visitors."""
        if self._first is None:
            self._first = {status: gr.skip()}
            for example in self.listed[:1]:
                with user_errors():  # one that cannot be opened says why when it is asked for
                    saved, banner = self.opened(example)
                    shown = show(saved.report)
                    self._first = shown | {header: banner + shown[header], status: READY}
        return copy_of(self._first)

    def opened(self, example: Example) -> tuple[SavedReport, str]:
        """Its report, and what it says above it; nothing is run."""
        saved = open_example(example, self.folder)
        return saved, example_html(saved, example)
