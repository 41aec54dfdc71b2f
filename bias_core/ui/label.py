"""The Label tab: a task for people is made from a run, opened to raters, watched, and put to use."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.annotation.collected import labelled_items, task_progress
from bias_core.annotation.label_export import export_labels
from bias_core.annotation.task_owner import change_task, create_task, owned_task, set_status
from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.runs.export import csv_bytes
from bias_core.studies.label_raters import RATERS
from bias_core.studies.label_report import COVERAGE, label_report
from bias_core.studies.label_sources import runs_with
from bias_core.studies.label_use import automatic_answers, people_labels
from bias_core.studies.study_types import StudyReport  # noqa: TC001
from bias_core.studies.unmeasured import UNMEASURED
from bias_core.ui import label_form, label_html, messages
from bias_core.ui.label_form import TEXTS
from bias_core.ui.label_login import build_login, offers_login, owner_of, task_choices, user_of, with_task
from bias_core.ui.label_make import READY, LabelMaking
from bias_core.ui.label_removals import LabelRemovals
from bias_core.ui.label_scores import LabelScores
from bias_core.ui.messages import user_errors
from bias_core.ui.study_form import as_text
from bias_core.ui.study_html import TAKE_JS, figures_html, findings_html, tables_html
from bias_core.ui.study_tab import PRIVATE, QUIET, Updates
from bias_core.ui.take import take
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.annotation.collected import TaskProgress
    from bias_core.annotation.task_owner import OwnerKey
    from bias_core.services import Services
    from bias_core.studies.history import RunLine

_SECRET = "t2i-bias-explorer-label-1"  # hides the keys from a passing look; it is no password
_MOST_COMPARED = 5  # runs whose automatic labels are compared
_NULL = "chance reads"
_HASH_JS = "() => new URLSearchParams(location.hash.slice(1)).get('owner') || ''"
_OPEN, _PAUSE, _CLOSE = "open", "paused", "closed"
_TAKEN = ("takes", "findings", "tables", "figures")
# The task stands below the form: what is said of it is brought into view.
_SEEN_JS = """() => { setTimeout(() => {
  const says = document.querySelector('#label-status'), task = document.querySelector('#label-owned');
  (says?.textContent.trim() ? says : task)?.scrollIntoView();
}, 150); }"""
_LINKED_JS = f"() => {{ if (location.hash.includes('owner=')) ({_SEEN_JS})(); }}"


class LabelTab:
    """Labels that people give."""

    key: ClassVar = "label"
    title: ClassVar = "Label"
    question: ClassVar = "What do people see in these pictures, and do they agree?"
    caution: ClassVar = (
        "Labels say how a picture looks to its raters, never who anybody is. Agreement says that raters see "
        "alike, not that they are right. Raters are known by a random name alone."
    )

    def __init__(self, services: Services) -> None:
        self.services = services
        self.parts: dict[str, Any] = {}
        self.making = LabelMaking(services)
        self.scores = LabelScores(services)
        self.removals = LabelRemovals(services, self._owned)

    def build_memory(self) -> None:
        """Keys of the tasks that this browser made or opened, and of the one that is open.

        Kept by the browser, for the server forgets who has not asked for long. Outside of the tabs, or it is
        not read.
        """
        for name, empty in (("memory", {}), ("key", "")):
            storage = "t2i-bias-label" + "-open" * (name == "key")
            self.parts[name] = gr.BrowserState(empty, storage_key=storage, secret=_SECRET)

    # Layout.

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; called inside of its ``gr.Tab``."""
        parts = self.parts
        parts["visitor"], parts["report"] = visitor, gr.State(None)
        gr.HTML(f'<p class="question">{escape(self.question)}</p><p class="quiet">{escape(self.caution)}</p>')
        with gr.Column(elem_classes="card ask"):
            gr.HTML("<h3>Make a task</h3>")
            self.making.build()
            parts["make"] = gr.Button(
                "Make the task", variant="primary", elem_id="label-make", scale=0, min_width=200
            )
        with gr.Column(elem_classes="card ask"):
            self._build_open()
        parts["status"] = gr.HTML(READY, elem_id="label-status")
        with gr.Column(visible=False, elem_id="label-owned", elem_classes="results") as parts["owned"]:
            self._build_owned()
        parts["file"] = gr.DownloadButton("file", elem_id="label-file", elem_classes="hidden-file")
        self._wire(demo)

    def _build_open(self) -> None:
        parts = self.parts
        gr.HTML("<h3>Open a task of yours</h3>")
        with gr.Row():
            parts["mine"] = gr.Dropdown(
                [], label="Your tasks", info="Of this browser" + " and of your sign-in" * offers_login(),
                elem_id="label-mine", min_width=240,
            )  # fmt: skip
            parts["typed"] = gr.Textbox(
                label="Or the owner's key", info="The part after “owner=” of the link for you alone",
                type="password", max_length=200, elem_id="label-key", min_width=240,
            )  # fmt: skip
            parts["open_key"] = gr.Button("Open it", elem_id="label-open-key", scale=0, min_width=120)
        build_login()

    def _build_owned(self) -> None:
        parts = self.parts
        with gr.Column(elem_classes="card"):
            parts["header"] = gr.HTML(js_on_load=label_html.COPY_JS, elem_id="label-header")
            with gr.Row(elem_classes="tools"):
                for name, text in (
                    (_OPEN, "Open for raters"), (_PAUSE, "Pause"), (_CLOSE, "Close"), ("refresh", "Refresh"),
                ):  # fmt: skip
                    variant = "primary" if name == _OPEN else "secondary"
                    parts[name] = gr.Button(
                        text, variant=variant, scale=0, min_width=140, elem_id=f"label-{name}"
                    )
            parts["progress"] = gr.HTML(elem_id="label-progress")
            parts["takes"] = gr.HTML(label_html.TAKES, js_on_load=TAKE_JS, elem_id="label-takes")
            with gr.Accordion("Change what raters read, and how many join", open=False, elem_classes="more"):
                parts["texts"] = label_form.build_texts() | label_form.build_limits()
                parts["change"] = gr.Button("Save as a new version", size="sm", scale=0, min_width=200)
            self.removals.build()
        with gr.Column(elem_classes="card"):
            for name in ("findings", "tables", "notes"):
                js = {} if name == "notes" else {"js_on_load": TAKE_JS}
                parts[name] = gr.HTML(elem_id=f"label-{name}", **js)
        parts["figures"] = gr.HTML(js_on_load=TAKE_JS, elem_id="label-figures")
        with gr.Column(elem_classes="card"):
            self.scores.build()

    # Wiring.

    def owned_outputs(self) -> list[Any]:
        """Everything that shows a task to its owner."""
        names = ("key", "report", "status", "owned", "header", "progress", "notes", _OPEN, _PAUSE, _CLOSE)
        own = [self.parts[name] for name in (*names, *_TAKEN[1:], "memory", "mine")]
        return [*own, *self.parts["texts"].values(), *self.scores.outputs(), *self.removals.outputs()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, visitor = self.parts, self.parts["visitor"]
        owned, key = self.owned_outputs(), parts["key"]
        self.making.wire(visitor, parts["status"])
        making = [visitor, parts["memory"], *self.making.inputs()]
        opening = [visitor, parts["memory"], parts["typed"]]
        shown = (
            parts["make"].click(self.on_make, making, owned, **PRIVATE),
            gr.on([parts["open_key"].click, parts["typed"].submit], self.on_open, opening, owned, **QUIET),
            parts["mine"].input(self.on_open, [visitor, parts["memory"], parts["mine"]], owned, **QUIET),
        )
        for event in shown:
            event.then(None, js=_SEEN_JS, **QUIET)
        for status in (_OPEN, _PAUSE, _CLOSE):
            parts[status].click(self._setter(status), [visitor, parts["memory"], key], owned, **QUIET)
        parts["refresh"].click(self.on_open, [visitor, parts["memory"], key], owned, **QUIET)
        changed = [visitor, parts["memory"], key, *parts["texts"].values()]
        parts["change"].click(self.on_change, changed, owned, **QUIET)
        self._wire_take()
        self.scores.wire(visitor, key)
        self.removals.wire(parts, owned)
        texts = [self.making.form[name] for name in TEXTS]
        demo.load(self.on_memory, parts["memory"], [parts["mine"], *texts], **QUIET)
        read = demo.load(None, None, parts["typed"], js=_HASH_JS, **QUIET)
        linked = read.then(self.on_return, [*opening, key], owned, **QUIET)
        linked.then(None, js=_LINKED_JS, **QUIET)

    def _wire_take(self) -> None:
        parts = self.parts
        save = "() => setTimeout(() => document.querySelector('#label-file')?.click(), 300)"
        own = [(parts[name], parts["report"], self.on_take) for name in _TAKEN]
        used = (self.scores.parts["used"], self.scores.parts["report"], self.on_take_used)
        for component, report, on_take in (*own, used):
            written = component.select(
                on_take,
                [parts["visitor"], parts["key"], report],
                [parts["file"], parts["status"]],
                **QUIET,
            )
            written.success(None, js=save, **QUIET)

    # Handlers.

    def on_make(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        profile: gr.OAuthProfile | None,
        *values: Any,
    ) -> Updates:
        """Make the task that the form asks for, and show it."""
        with user_errors() as problem:
            asked = self.making.asked(visitor, values)
            made = create_task(self.services.labels, asked.task, asked.pictures, hub_user=user_of(profile))
            says = "The task is made. Keep the link for you alone, then open it for raters."
            return self._owned(visitor, memory, made.key.text, profile, says)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_memory(self, memory: dict[str, str] | None, profile: gr.OAuthProfile | None = None) -> Updates:
        """Tasks that this browser knows or that the user made, and the usual texts in the form."""
        texts = {self.making.form[n]: text for n, text in label_form.usual_texts("pst_paired").items()}
        with user_errors():  # labels that cannot be read must not leave the page without its texts
            choices = task_choices(self.services, memory, profile)
            return texts | {self.parts["mine"]: gr.update(choices=choices)}
        return texts

    def on_link(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        key: str,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Open the task of an owner's link, where the address is one."""
        return self.on_open(visitor, memory, key, profile) if key else {self.parts["status"]: READY}

    def on_return(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        typed: str,
        key: str | None,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Open the task of an owner's link; without one, that which was open here before the reload."""
        try:
            return self.on_link(visitor, memory, typed or self._still_opens(key, profile), profile)
        except NotAllowed:  # it was deleted, or made elsewhere
            return {self.parts["key"]: "", self.parts["status"]: READY}

    def _still_opens(self, key: str | None, profile: gr.OAuthProfile | None) -> str:
        if as_text(key):
            with suppress(StorageError):  # said when it is opened
                owned_task(self.services.labels, owner_of(as_text(key), profile))
        return as_text(key)

    def on_open(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        key: str | None,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Show the task that a key or the user's sign-in opens, as it is now."""
        with user_errors() as problem:
            if not as_text(key):
                raise InvalidInput("paste the owner's key, or choose a task")
            return self._owned(visitor, memory, as_text(key), profile)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def _setter(self, status: Any) -> Any:
        def on_status(
            visitor: Visitor,
            memory: dict[str, str] | None,
            key: str,
            profile: gr.OAuthProfile | None = None,
        ) -> Updates:
            with user_errors() as problem:
                set_status(self.services.labels, owner_of(key, profile), status)
                return self._owned(visitor, memory, key, profile)
            return {self.parts["status"]: messages.error_html(problem.message)}

        return on_status

    def on_change(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        key: str,
        profile: gr.OAuthProfile | None,
        *values: Any,
    ) -> Updates:
        """Keep other texts as a new version; answers keep the version that they were given in."""
        with user_errors() as problem:
            owner, store = owner_of(key, profile), self.services.labels
            task, _ = owned_task(store, owner)
            texts, limits = values[: len(TEXTS)], values[len(TEXTS) :]
            changes: dict[str, Any] = dict(zip(TEXTS, map(as_text, texts), strict=True))
            made = change_task(store, owner, replace(task, **changes, **label_form.read_limits(limits)))
            says = f"Version {made.version} is what raters read from now on."
            return self._owned(visitor, memory, key, profile, says)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_take(
        self,
        visitor: Visitor,
        key: str,
        report: StudyReport | None,
        event: gr.EventData,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Write what was asked for; the page then fetches it."""
        with user_errors() as problem:
            owner = owner_of(key, profile)
            if report is None:  # the server has forgotten it, and the page still shows it
                *_, report = self._reported(visitor, owner)
            return {self.parts["file"]: str(self._written(visitor, owner, report, str(event.take)))}
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_take_used(
        self,
        visitor: Visitor,
        key: str,
        report: StudyReport | None,
        event: gr.EventData,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """The same of a run that was scored with people's labels."""
        if report is None:
            return {self.parts["status"]: messages.error_html(messages.NOTHING_DONE)}
        return self.on_take(visitor, key, report, event, profile)

    # Steps of the handlers.

    def _owned(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        key: str,
        profile: gr.OAuthProfile | None = None,
        says: str = "",
    ) -> Updates:
        """All that the owner sees."""
        parts, owner = self.parts, owner_of(key, profile)
        progress, runs, report = self._reported(visitor, owner)
        known = with_task(memory, owner, progress.task)
        status = messages.done_html(says) if says else ""
        return {
            parts["key"]: owner.text, parts["report"]: report, parts["status"]: status,
            parts["owned"]: gr.update(visible=True), parts["memory"]: known,
            parts["mine"]: gr.update(choices=task_choices(self.services, known, profile), value=owner.text),
            **self.scores.offer([run for run in runs if run.study != UNMEASURED.name]),
            **self.removals.offer(progress),
            **self._told(progress, report, owner),
            **{parts["texts"][name]: getattr(progress.task, name) for name in TEXTS},
            **{parts["texts"][name]: n for name, n in label_form.limits_of(progress.task).items()},
        }  # fmt: skip

    def _reported(self, visitor: Visitor, owner: OwnerKey) -> tuple[TaskProgress, list[RunLine], StudyReport]:
        """How far the task is, the visitor's runs with its pictures, and what the answers say."""
        store = self.services.labels
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        runs = runs_with(self.services, visitor.key, {one.item.image_id for one in labelled})
        automatic = self._automatic(visitor, progress, [run.run_id for run in runs])
        return progress, runs, label_report(progress, labelled, automatic)

    def _told(self, progress: TaskProgress, report: StudyReport, owner: OwnerKey) -> Updates:
        parts, sync = self.parts, self.services.label_sync()
        error = None if sync is None else sync.last_error
        status = progress.task.status
        return {
            parts["header"]: label_html.header_html(progress, owner),
            parts["progress"]: label_html.progress_html(progress, report, error),
            parts[
                "findings"
            ]: f"<h3>{escape(label_html.headline(report))}</h3>{findings_html(report, _NULL)}",
            parts["tables"]: tables_html(
                [t for t in report.results.tables if t.key not in (RATERS, COVERAGE)]
            ),
            parts["notes"]: label_html.notes_html(report),
            parts["figures"]: figures_html(report.results.figures),
            parts[_OPEN]: gr.update(visible=status != "open"),
            parts[_PAUSE]: gr.update(visible=status == "open"),
            parts[_CLOSE]: gr.update(visible=status in ("open", "paused")),
        }

    def _automatic(self, visitor: Visitor, progress: TaskProgress, run_ids: list[str]) -> dict[str, Any]:
        """Readers' labels of these pictures, each reader once."""
        found: dict[str, Any] = {}
        for run_id in run_ids[:_MOST_COMPARED]:
            with user_errors():  # a report that is gone compares with nothing
                found = automatic_answers(self.making.report(visitor, run_id), progress.task) | found
        return found

    def _written(self, visitor: Visitor, owner: OwnerKey, report: StudyReport | None, what: str) -> Path:
        store = self.services.labels
        if what == "labels:zip":
            return export_labels(store, owner, visitor.folder / "labels.zip")
        if what == "labels:csv":
            path = visitor.folder / "labels.csv"
            path.write_bytes(csv_bytes(people_labels(store, owner)))
            return path
        if report is None:
            raise InvalidInput(messages.NOTHING_DONE)
        return take(report, what, visitor.folder)
