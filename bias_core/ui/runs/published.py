"""The fold of the Runs tab with the papers' numbers for real models and those of the visitor's own runs."""

from typing import Any

import gradio as gr

from bias_core.measures.cards import with_works
from bias_core.report.published import (
    PublishedMeasure,
    ordered_lines,
    own_numbers,
    published_figure,
    published_measures,
)
from bias_core.run import history
from bias_core.services import Services
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.study.parts import when
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor
from bias_core.wording import format_estimate

_MOST_RUNS = 8  # newest runs of a study that are opened for it
_WANTED_JS = """(visitor, key) => {
  const wanted = window.wantedPublished;
  delete window.wantedPublished;
  return [visitor, wanted || key];
}"""


class PublishedPart:
    """A menu of measures; under it the papers' numbers and the visitor's."""

    menu: Any
    shown: Any
    fold: Any

    def __init__(self, services: Services) -> None:
        self.services = services

    def build(self) -> None:
        choices = [(measure.label, key) for key, measure in published_measures().items()]
        with gr.Accordion(
            "Published numbers and yours", open=False, elem_classes="more", elem_id="runs-published"
        ) as self.fold:
            self.menu = gr.Dropdown(choices, value=choices[0][1], label="Measure", elem_id="published-measure")
            self.shown = gr.HTML(elem_id="published-numbers")

    def wire(self, visitor: Any, runs: Any) -> None:
        """Update the numbers when the fold opens, another measure is chosen, or the list ``runs`` changes."""
        update_args = (self.on_choice, [visitor, self.menu], self.shown)
        opened = [self.menu, self.shown]
        self.fold.expand(self.on_open, update_args[1], opened, js=_WANTED_JS, **messages.QUIET)
        self.menu.input(*update_args, **messages.LATEST)
        runs.change(self.on_runs, [visitor, self.menu, self.shown], self.shown, **messages.QUIET)

    def on_open(self, visitor: Visitor, key: str | None) -> tuple[str | None, str]:
        """The measure in the menu and its numbers; a link from a result chooses the measure."""
        return key, self.on_choice(visitor, key)

    def on_choice(self, visitor: Visitor, key: str | None) -> str:
        measures = published_measures()
        measure = measures.get(key or "") or next(iter(measures.values()))
        with messages.user_errors() as problem:
            return published_html(measure, self._reports(visitor, measure))
        return messages.error_html(problem.message)

    def on_runs(self, visitor: Visitor, key: str | None, shown: str | None) -> Any:
        """The same numbers with the current runs, once the fold has been opened."""
        return self.on_choice(visitor, key) if shown else gr.skip()

    def _reports(self, visitor: Visitor, measure: PublishedMeasure) -> list[tuple[str, StudyReport]]:
        """The newest reports of the measure's studies and concepts, by the names of their runs."""
        concepts = {number.same[0] for number in measure.numbers if number.same[0]}
        lines = [line for line in history.list_runs(self.services, visitor.key) if line.saved]
        reports = []
        fits = [line for line in lines if line.study in measure.studies or any(word in line.title for word in concepts)]
        for line in fits[:_MOST_RUNS]:
            with messages.user_errors():  # the list says why a report cannot be read
                saved = history.open_run(self.services, visitor.key, line.run_id)
                reports.append((f"{line.name or line.model}, {when(line.updated)}", saved.report))
        return reports


def published_html(measure: PublishedMeasure, reports: list[tuple[str, StudyReport]]) -> str:
    """The papers' numbers of a measure and those of reports by name, as one table and one plot."""
    visitor_numbers = own_numbers(measure, reports)
    (source,) = with_works([measure.source])
    lines = ordered_lines(measure, visitor_numbers)
    rows = [
        (number.line, number.model, f"{number.value:g}", number.n or "not printed", number.remark, False)
        for number in measure.numbers
    ]
    for number in visitor_numbers:
        estimate = number.estimate
        value = format_estimate(estimate.value, estimate.low, estimate.high)
        rows.append((number.line, f"yours: {number.run}", value, f"{estimate.n:,}", number.protocol, True))
    rows.sort(key=lambda row: lines.index(row[0]))
    return render(
        "published", measure=measure, source=source, rows=rows, has_lines=len(lines) > 1,
        has_remarks=any(row[4] for row in rows),
        n_own=len(visitor_numbers), n_forced=sum(bool(report.warning) for _, report in reports),
        figure=published_figure(measure, visitor_numbers),
    )  # fmt: skip
