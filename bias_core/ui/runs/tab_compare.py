"""Two finished runs side by side, in the Runs tab: the menus that choose them."""

from collections.abc import Collection, Mapping
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.study import history
from bias_core.study.report_text import title_of
from bias_core.study.saved import Example, SavedReport, list_examples, open_example
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.runs.compare import comparison_report
from bias_core.ui.study.parts import example_html, when
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor

Updates = dict[Any, Any]


def shipped_examples(services: Services) -> Mapping[str, tuple[Example, SavedReport]]:
    """The examples that come with the program, by name: finished runs that everybody can open."""
    folder = services.settings.assets_dir / "examples"
    return {example.name: (example, open_example(example, folder)) for example in list_examples(folder=folder)}


def open_any(services: Services, visitor: Visitor, run_id: str) -> tuple[SavedReport, str]:
    """The report of a run of the visitor or of the gallery, or of an example, by name; and what it says above it."""
    if (example := shipped_examples(services).get(run_id)) is not None:
        return example[1], example_html(example[1], example[0])
    if run_id.startswith(history.GALLERY):
        return history.open_gallery_run(services, run_id), render("gallery_note")
    return history.open_run(services, visitor.key, run_id), ""


class ComparePart:
    """Two menus of finished runs, and the button that compares them."""

    def __init__(self, services: Services, first_examples: Collection[str] = ()) -> None:
        self.services, self.first_examples = services, first_examples

    def build(self) -> None:
        """The menus, below the list of runs."""
        with gr.Row(elem_classes="compare-two"):
            self.first = gr.Dropdown([], label="Compare", elem_id="compare-first", min_width=240)
            self.second = gr.Dropdown([], label="with", elem_id="compare-second", min_width=240)
            self.button = gr.Button("Compare", size="sm", scale=0, min_width=140, elem_id="compare-runs")

    def wire(self, visitor: Any, shown: Any) -> None:
        """``shown`` is the ``gr.Tab`` that the menus stand in."""
        menus = [self.first, self.second]
        shown.select(self.on_list, [visitor, *menus], menus, **messages.QUIET)

    def on_list(self, visitor: Visitor, first: str | None = None, second: str | None = None) -> Updates:
        """The menus as they are now; of menus without a choice, two runs that can be compared."""
        own = [line for line in history.list_runs(self.services, visitor.key) if line.saved]
        gallery, _ = history.list_gallery(self.services)
        examples = shipped_examples(self.services)
        choices = [(f"{line.title} · {line.model} · {when(line.updated)}", line.run_id) for line in own]
        choices += [(f"{line.title} · the gallery", line.run_id) for line in gallery]
        choices += [(f"{example.title} · comes with the program", name) for name, (example, _) in examples.items()]
        studies = {line.run_id: line.study for line in (*own, *gallery)}
        names = sorted(examples, key=lambda name: name not in self.first_examples)
        studies |= {name: examples[name][1].report.design.name for name in names}
        if first not in studies or second not in studies:
            first, second = _two_alike(studies)
        return {
            self.first: gr.update(choices=choices, value=first),
            self.second: gr.update(choices=choices, value=second),
        }

    def compared(self, visitor: Visitor, first: str | None, second: str | None) -> StudyReport:
        """Both side by side; InvalidInput where they cannot be compared."""
        (one, a), (other, b) = (self._report(visitor, choice) for choice in (first, second))
        return comparison_report(one, other, (a, b))

    def _report(self, visitor: Visitor, choice: str | None) -> tuple[StudyReport, str]:
        """A report and its title with where it is from."""
        if not choice:
            raise InvalidInput("choose two to compare")
        saved, _ = open_any(self.services, visitor, choice)
        title = title_of(saved.report)
        if choice.startswith(history.GALLERY):
            return saved.report, f"{title} (the gallery)"
        is_own = saved.report.run_id == choice  # an example has an id of its own
        return saved.report, f"{title} (yours, {when(saved.created)})" if is_own else title


def _two_alike(studies: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The first two of one study."""
    for first, study in studies.items():
        for second, other in studies.items():
            if first != second and study == other:
                return first, second
    return None, None
