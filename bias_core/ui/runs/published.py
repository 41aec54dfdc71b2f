"""The fold of the Runs tab with the papers' numbers for real models, those of the visitor's runs and published ones."""

import time
from collections.abc import Sequence
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.measures.cards import with_works
from bias_core.report.published import (
    PublishedMeasure,
    matching_numbers,
    ordered_lines,
    published_figure,
    published_measures,
    runs_frame,
    to_runs,
)
from bias_core.report.saved import Newest
from bias_core.run import history
from bias_core.services import Services
from bias_core.settings import on_public_server
from bias_core.store.published_runs import CLAIMS, ReadRuns, read_published_runs
from bias_core.store.reader import ADDRESS
from bias_core.store.tables import HUB
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.study.parts import when
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor
from bias_core.wording import format_estimate

_MOST_RUNS = 8  # newest runs of a study that are opened for it
_WANTED_JS = """(visitor, key, ...given) => {
  const wanted = window.wantedPublished;
  delete window.wantedPublished;
  return [visitor, wanted || key, ...given];
}"""
_SECONDS_KEPT = 300  # after which a data set is looked up again
_READ_AT_ONCE = 40  # visitors
_DATA_SETS = Newest[ReadRuns](8)
"""Data sets that were read last, by name and time."""


NO_OTHERS = ReadRuns()


class PublishedFold:
    """A menu of measures; under it the papers' numbers, the visitor's, and those of published runs.

    Published runs are those in the folder ``published`` of the data folder, which everyone sees, those in the files of
    the visitor, and, except on a public server, those of the data set that the visitor names.
    """

    menu: Any
    files: Any
    data_set: Any
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
            with gr.Row():
                label = f"Other people’s runs: {CLAIMS} or the zip of “Publish”"
                look: dict[str, Any] = {"file_count": "multiple", "file_types": [".json", ".zip"], "height": 130}
                self.files = gr.File(label=label, elem_id="published-files", min_width=280, **look)
                self.data_set = gr.Textbox(
                    label="Or a data set of the Hub with published runs", placeholder=f"{HUB}owner/name", max_lines=1,
                    submit_btn=True, visible=not on_public_server(), elem_id="published-data-set", min_width=280,
                )  # fmt: skip
            self.shown = gr.HTML(elem_id="published-numbers")

    def wire(self, visitor: Any, runs: Any) -> None:
        """Update the numbers when the fold opens, a measure or other runs are chosen, or the list ``runs`` changes."""
        inputs, several = [visitor, self.menu, self.files, self.data_set], {"concurrency_limit": _READ_AT_ONCE}
        opened = [self.menu, self.shown]
        self.fold.expand(self.on_open, inputs, opened, js=_WANTED_JS, **messages.QUIET, **several)
        chosen = [self.menu.input, self.files.change, self.data_set.submit]
        gr.on(chosen, self.on_change, inputs, opened, **messages.LATEST, **several)
        runs.change(self.on_runs, [self.shown, *inputs], self.shown, **messages.QUIET, **several)

    def on_open(self, visitor: Visitor, key: str | None, *others: Any) -> tuple[str | None, str]:
        """The measure in the menu and its numbers; a link from a result chooses the measure."""
        return key, self.on_choice(visitor, key, *others)

    def on_change(
        self, visitor: Visitor, key: str | None, files: Sequence[str] | None, data_set: str | None
    ) -> tuple[str | None, str]:
        """The numbers of a chosen measure; runs of others that are new lead to the first measure that they have."""
        others = (*(files or ()), data_set or "")
        is_new, visitor.others = others != visitor.others, others  # an event that waits has forgotten what was pressed
        return self._show(visitor, key, files, data_set, leads=is_new)

    def on_choice(
        self, visitor: Visitor, key: str | None, files: Sequence[str] | None = None, data_set: str | None = None
    ) -> str:
        return self._show(visitor, key, files, data_set)[1]

    def _show(
        self,
        visitor: Visitor,
        key: str | None,
        files: Sequence[str] | None,
        data_set: str | None,
        *,
        leads: bool = False,
    ) -> tuple[str | None, str]:
        measures = published_measures()
        key = key if key and key in measures else next(iter(measures))
        ADDRESS.set(visitor.address)
        with messages.user_errors() as problem:
            others = self._read_others(files or (), (data_set or "").strip())
            if leads:
                runs = [("", run) for run in others.runs]
                with_numbers = (
                    name for name in dict.fromkeys((key, *measures)) if matching_numbers(measures[name], runs)
                )
                key = next(with_numbers, key)
            return key, published_html(measures[key], self._reports(visitor, measures[key]), others)
        return key, messages.error_html(problem.message)

    def on_runs(self, shown: str | None, visitor: Visitor, key: str | None, *others: Any) -> Any:
        """The same numbers with the current runs, once the fold has been opened."""
        return self.on_choice(visitor, key, *others) if shown else gr.skip()

    def _read_others(self, files: Sequence[str], data_set: str) -> ReadRuns:
        """Read the published runs of the data folder, of these uploads, and of a data set."""
        folder = self.services.settings.data_dir / "published"
        read = read_published_runs([*([str(folder)] if folder.is_dir() else []), *files])
        if not data_set or on_public_server():
            return read
        if not data_set.startswith(HUB):
            raise InvalidInput(f"write a data set as {HUB}owner/name")
        name = (data_set, int(time.time() / _SECONDS_KEPT))
        found = _DATA_SETS.get(name) or read_published_runs([data_set])
        if found.runs:
            _DATA_SETS.put(name, found)
        return ReadRuns(runs=(*read.runs, *found.runs), left_out=(*read.left_out, *found.left_out))

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


def published_html(
    measure: PublishedMeasure, reports: Sequence[tuple[str, StudyReport]], others: ReadRuns = NO_OTHERS
) -> str:
    """The papers' numbers of a measure, and those of reports by name and of published runs, as a table and a plot.

    Above them stands what was read of published runs, and in what the runs differ.
    """
    runs = [(f"others {i} ({run.owner})", run) for i, run in enumerate(others.runs, start=1)]
    runs += to_runs((f"yours: {name}", report) for name, report in reports)
    run_numbers = matching_numbers(measure, runs)
    (source,) = with_works([measure.source])
    lines = ordered_lines(measure, run_numbers)
    rows = [
        (number.line, number.model, f"{number.value:g}", number.n or "not printed", number.remark, False)
        for number in measure.numbers
    ]
    for number in run_numbers:
        estimate, is_own, part = number.claim.estimate, not number.run.source, number.part
        value = format_estimate(estimate.value, estimate.low, estimate.high)
        name = number.name if is_own else f"{number.name}, {part.model}"
        of_world = f"drawings of the {part.world} world" if part.world and not is_own else ""
        remark = "; ".join(filter(None, (number.protocol, of_world)))
        rows.append((number.line, name, value, f"{estimate.n:,}", remark, is_own))
    rows.sort(key=lambda row: lines.index(row[0]))
    facts = runs_frame([run for _, run in runs]).to_dict("records") if others.runs else []
    counts = [{"of them shown below": sum(number.run is run for number in run_numbers)} for _, run in runs]
    return render(
        "published", measure=measure, source=source, rows=rows, has_lines=len(lines) > 1,
        has_remarks=any(row[4] for row in rows),
        n_own=sum(not number.run.source for number in run_numbers),
        n_forced=sum(bool(report.warning) for _, report in reports),
        read=[(name, of_run | n) for (name, _), of_run, n in zip(runs, facts, counts, strict=False)],
        left_out=others.left_out, figure=published_figure(measure, run_numbers),
    )  # fmt: skip
