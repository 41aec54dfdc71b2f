"""What people's labels are used for, as a part of the Label tab: a run is scored once more with them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.annotation.collected import labelled_items
from bias_core.annotation.task_owner import owned_task
from bias_core.errors import InvalidInput
from bias_core.labels.rescore import people_labels, psi_with_labels, score_with_labels
from bias_core.labels.tab_login import owner_of
from bias_core.labels.view import note, used_html
from bias_core.studies.explore.report import Exploration, is_exploration
from bias_core.studies.running.history import open_run
from bias_core.studies.running.run import followed
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.run_turns import RUN, in_line
from bias_core.ui.study.form import as_text
from bias_core.ui.study.study_tab import PRIVATE, QUIET, Updates
from bias_core.ui.study.view import TAKE_JS
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from bias_core.annotation.task_owner import OwnerKey
    from bias_core.services import Services
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.running.history import RunLine

_CHOICES = ("run", "attribute", "present")


class LabelScores:
    """Choose a run, and see its numbers with people's labels."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.parts: dict[str, Any] = {}

    def build(self) -> None:
        """The components."""
        parts = self.parts
        gr.HTML(note("use"))
        with gr.Row():
            parts["run"] = gr.Dropdown([], label="Run", elem_id="label-run", min_width=280)
            parts["attribute"] = gr.Dropdown(
                [], label="Attribute", info="Of an exploration", visible=False, min_width=160
            )
            parts["present"] = gr.Dropdown([], label="The answer that says it is there", visible=False)
        with gr.Row(elem_classes="tools"):
            parts["use"] = gr.Button("Score with people's labels", scale=0, min_width=280, elem_id="label-use")
            parts["stop"] = gr.Button("Stop", variant="stop", visible=False, scale=0, min_width=120)
        parts["use_status"] = gr.HTML(elem_id="label-use-status")
        parts["used"] = gr.HTML(js_on_load=TAKE_JS, elem_id="label-used")
        parts["report"] = gr.State(None)

    def outputs(self) -> list[Any]:
        """What :meth:`offer` changes."""
        return [self.parts[name] for name in (*_CHOICES, "used", "use_status")]

    def offer(self, runs: Sequence[RunLine]) -> Updates:
        """Runs that hold the pictures of the task that is shown now."""
        parts = self.parts
        choices = [(f"{run.title} · {run.asked}", run.run_id) for run in runs]
        updates = {parts[name]: gr.update(visible=False) for name in _CHOICES[1:]}
        updates |= {parts["run"]: gr.update(choices=choices, value=None)}
        return updates | {parts["used"]: "", parts["use_status"]: ""}

    def wire(self, visitor: Any, key: Any) -> None:
        """The events; ``visitor`` and ``key`` are states of the tab."""
        parts = self.parts
        detail = [parts["attribute"], parts["present"]]
        parts["run"].input(self.on_run_chosen, [visitor, key, parts["run"]], detail, **QUIET)
        buttons = [parts["use_status"], parts["use"], parts["stop"]]
        inputs = [visitor, key, *(parts[name] for name in _CHOICES)]
        outputs = [*buttons, parts["used"], parts["report"]]
        click = parts["use"].click(self.on_click, visitor, buttons, queue=False, **QUIET)
        how = {"show_progress": "hidden", "trigger_mode": "multiple", **RUN, **PRIVATE}
        click.then(self.on_use, inputs, outputs, **how).failure(self.on_crash, None, buttons, **QUIET)
        parts["stop"].click(self.on_stop, visitor, parts["use_status"], queue=False, **QUIET)

    # Handlers.

    def on_run_chosen(self, visitor: Visitor, key: str, run_id: str, profile: gr.OAuthProfile | None = None) -> Updates:
        """Ask for the attribute where the run is an exploration."""
        attribute, present = self.parts["attribute"], self.parts["present"]
        with user_errors():
            report = self._report(visitor, run_id)
            if is_exploration(report):
                names = [score.attribute.name for score in Exploration(report).attributes]
                task, _ = owned_task(self.services.labels, owner_of(key, profile))
                answers = [(answer.label, answer.key) for answer in task.answers]
                return {
                    attribute: gr.update(choices=names, value=names[0] if names else None, visible=True),
                    present: gr.update(choices=answers, value=answers[0][1], visible=True),
                }
        return {attribute: gr.update(visible=False), present: gr.update(visible=False)}

    def on_click(self, visitor: Visitor) -> Updates:
        """Take a turn in the queue."""
        visitor.start()
        return self._buttons(messages.QUEUED, running=True)

    def on_stop(self, visitor: Visitor) -> str:
        """Ask the run to end at its next step."""
        visitor.stop.set()
        return messages.STOPPING

    def on_crash(self) -> Updates:
        """Show that an unforeseen error happened; the log has it."""
        return self._buttons(messages.crash_html())

    def on_use(
        self,
        visitor: Visitor,
        key: str,
        run_id: str | None,
        attribute: str | None,
        present: str | None,
        profile: gr.OAuthProfile | None = None,
    ) -> Iterator[Updates]:
        """Score a run with people's labels."""
        parts, pace = self.parts, messages.Pace()
        reports: list[Any] = []
        with user_errors() as problem:
            owner = owner_of(key, profile)
            start = partial(self._scored, visitor, owner, run_id, attribute, present)
            for step in followed(in_line(self.services, visitor, start), reports):
                if pace.is_due():
                    yield {parts["use_status"]: messages.progress_html(step)}
        if not reports:
            yield self._buttons(messages.error_html(problem.message))
            return
        yield self._buttons("") | {parts["used"]: used_html(reports[0]), parts["report"]: reports[0]}

    # Steps of the handlers.

    def _report(self, visitor: Visitor, run_id: str | None) -> StudyReport:
        if not run_id:
            raise InvalidInput("choose a run that holds these pictures")
        return open_run(self.services, visitor.key, run_id).report

    def _scored(
        self, visitor: Visitor, owner: OwnerKey, run_id: str | None, attribute: str | None, present: str | None
    ) -> Generator[Progress, None, StudyReport]:
        store = self.services.labels
        report = self._report(visitor, run_id)
        if is_exploration(report):
            task, _ = owned_task(store, owner)
            words = {"attribute": as_text(attribute), "present": as_text(present)}
            return psi_with_labels(report, task, labelled_items(store, owner), **words)
        path = visitor.folder / f"labels-{owner.task_id}.csv"
        who: dict[str, Any] = {"cancelled": visitor.stop.is_set, "session": visitor.key}
        labels = people_labels(store, owner)
        return (yield from score_with_labels(report, labels, self.services, path=path, **who))

    def _buttons(self, status: str, *, running: bool = False) -> Updates:
        parts = self.parts
        buttons = {parts["use"]: gr.update(visible=not running), parts["stop"]: gr.update(visible=running)}
        return {parts["use_status"]: status, **buttons}
