"""The part of the Label tab that puts labels to use: a run is scored with them, or a judge answers the task too."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import gradio as gr
from markupsafe import Markup

from bias_core.errors import Cancelled, InvalidInput
from bias_core.explore.report import Exploration, is_exploration
from bias_core.given_values import as_text
from bias_core.labels import tab_parts, task_owner
from bias_core.labels.collected import MACHINE, labelled_items, task_answers, task_progress
from bias_core.labels.judge import judge_labels, judge_task
from bias_core.labels.report import MACHINES_NOTE, answers_about, label_report
from bias_core.labels.tab_parts import PARTS, Profile, note, owner_of
from bias_core.study.corrected import corrected
from bias_core.study.history import RunLine, open_run
from bias_core.study.report_text import CORRECTED, headline
from bias_core.study.types import Progress, StudyReport
from bias_core.ui import messages
from bias_core.ui.model_menu import judge_choices
from bias_core.ui.study.parts import DrawingPart
from bias_core.ui.study.result_page import findings_html, notes_html, tables_html
from bias_core.ui.study.study_tab import LATEST, QUIET, StudyTab, Updates
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor, in_line, then_run

_CHOICES = ("source", "attribute", "present")


class LabelScores(StudyTab):
    """What people's labels are used for: a run is chosen, and scored with them as a study's tab runs a study."""

    key = "label"

    def build_scores(self) -> None:
        """The components."""
        put = partial(tab_parts.add, self.parts, PARTS)
        gr.HTML(note("use"))
        with gr.Row():
            put(*_CHOICES)
        with gr.Row(elem_classes="tools"):
            put("run", "stop")
        gr.HTML(note("judge"))
        put("judge")
        with gr.Row(elem_classes="tools"):
            put("judge_run")
        self.parts["judge"].choices = judge_choices(self.services)[1:]
        self.parts |= {"status": gr.HTML(elem_id="label-use-status")}
        self.drawing = DrawingPart(f"{self.key}-use")
        put("used")

    def offered(self) -> list[Any]:
        """What :meth:`offer` changes."""
        return [self.parts[name] for name in (*_CHOICES, "used", "status")]

    def offer(self, runs: list[RunLine]) -> Updates:
        """Runs that hold the pictures of the task that is shown now."""
        source, attribute, present, used, status = self.offered()
        choices = [(f"{run.title} · {run.choices}", run.run_id) for run in runs]
        hidden = dict.fromkeys((attribute, present), gr.update(visible=False))
        return {source: gr.update(choices=choices, value=None), **hidden, used: "", status: ""}

    def wire_scores(self, key: Any) -> None:
        """The events; ``key`` is a state of the tab."""
        parts, visitor = self.parts, self.parts["visitor"]
        source, attribute, present, used, status = self.offered()
        source.input(self.on_run_chosen, [visitor, key, source], [attribute, present], **LATEST)
        buttons, inputs = [status, parts["run"], parts["stop"]], [visitor, key, source, attribute, present]
        shown = [*buttons, used, parts["report"], self.drawing.html]
        click = parts["run"].click(self.on_click, visitor, buttons, queue=False, **QUIET)
        then_run(click.then, self.on_use, inputs, shown, self.on_crash)
        click = parts["judge_run"].click(self.on_click, visitor, buttons, queue=False, **QUIET)
        then_run(click.then, self.on_judge, [visitor, key, parts["judge"]], shown, self.on_crash)
        self.wire_stop(parts["stop"], status)
        self.wire_take(used.select)

    def on_run_chosen(self, visitor: Visitor, key: str, run_id: str, profile: Profile = None) -> Updates:
        """Ask for the attribute where the run is an exploration."""
        attribute, present = self.parts["attribute"], self.parts["present"]
        with messages.user_errors():
            if is_exploration(report := self._report(visitor, run_id)):
                names = [score.attribute.name for score in Exploration(report).attributes]
                task, _ = task_owner.owned_task(self.services.labels, owner_of(key, profile))
                answers = [(answer.label, answer.key) for answer in task.answers]
                return {
                    attribute: gr.update(choices=names, value=names[0] if names else None, visible=True),
                    present: gr.update(choices=answers, value=answers[0][1], visible=True),
                }
        return dict.fromkeys((attribute, present), gr.update(visible=False))

    def on_use(
        self, visitor: Visitor, key: str, run_id: str, attribute: str, present: str, profile: Profile = None
    ) -> Iterator[Updates]:
        """Score a run with people's labels."""
        with messages.user_errors() as problem:
            words = {"attribute": as_text(attribute), "present": as_text(present)}
            start = partial(self._scored, visitor, owner_of(key, profile), run_id, words)
            yield from self.following(visitor, in_line(self.services, visitor, start))
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def on_judge(self, visitor: Visitor, key: str, judge: str | None, profile: Profile = None) -> Iterator[Updates]:
        """Let a judge answer the task, and show how far people agree with it."""
        with messages.user_errors() as problem:
            start = partial(self._judged, visitor, owner_of(key, profile), as_text(judge))
            yield from self.following(visitor, in_line(self.services, visitor, start), show=self._judge_shown)
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def _judge_shown(self, report: StudyReport) -> Updates:
        html = {"findings": Markup(findings_html(report, "chance reads")), "notes": Markup(notes_html(report))}
        shown = {self.parts["used"]: render("label_findings", headline="People and the judge", **html)}
        return {**shown, self.parts["report"]: report, self.parts["status"]: ""}

    def done(self, report: StudyReport) -> Updates:
        """The numbers with people's labels, without pictures."""
        corrected = [table for table in report.results.tables if table.key == CORRECTED]
        findings = tables_html(corrected) if corrected else findings_html(report)
        html = {"findings": Markup(findings), "notes": Markup(notes_html(report))}
        shown = {
            self.parts["used"]: render("label_findings", title=report.design.title, headline=headline(report), **html)
        }
        return {**shown, self.parts["report"]: report, self.parts["status"]: ""}

    def _report(self, visitor: Visitor, run_id: str | None) -> StudyReport:
        if not run_id:
            raise InvalidInput("choose a run that holds these pictures")
        return open_run(self.services, visitor.key, run_id).report

    def _judged(
        self, visitor: Visitor, owner: task_owner.OwnerKey, judge: str
    ) -> Generator[Progress, None, StudyReport]:
        store = self.services.labels
        yield from judge_task(self.services, store, owner, judge, check=partial(_check, visitor))
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        report = label_report(progress, labelled, judge_labels(store, owner))
        machines = report.results.frame("machines")
        says = [
            f"{row.rater} gave {row.answered:,} answers; people have a majority for {row.compared:,} of the questions."
            for row in machines.itertuples()
        ]
        findings = tuple(one for one in report.results.findings if MACHINE in one.key)
        notes = (*says, MACHINES_NOTE, "“Refresh” above shows all of it beside the people.")
        return replace(report, results=replace(report.results, findings=findings, notes=notes))

    def _scored(
        self, visitor: Visitor, owner: task_owner.OwnerKey, run_id: str | None, words: dict[str, str]
    ) -> Generator[Progress, None, StudyReport]:
        store, report = self.services.labels, self._report(visitor, run_id)
        task, _ = task_owner.owned_task(store, owner)
        answers = task_answers(task, labelled_items(store, owner))
        if is_exploration(report):
            answers = answers_about(report, task, answers, **words)
        yield Progress(message="correcting the numbers")
        return corrected(report, answers, self.services)


def _check(visitor: Visitor) -> None:
    if visitor.stop.is_set():
        raise Cancelled("stopped; what the judge said so far is kept, and is not asked again")
