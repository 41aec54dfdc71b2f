"""The Label tab: a task for people is made from a run, opened to raters, watched, put to use, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.annotation.collected import labelled_items, task_progress
from bias_core.annotation.label_export import export_labels
from bias_core.annotation.task_owner import change_task, create_task, delete_task, exclude_rater, owned_task, set_status
from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.exchange.export import csv_bytes
from bias_core.labels import tab_make as label_make
from bias_core.labels import view as label_html
from bias_core.labels.report import COVERAGE, RATERS, label_report
from bias_core.labels.rescore import automatic_answers, people_labels
from bias_core.labels.sources import runs_with
from bias_core.labels.tab_login import (
    build_login,
    offers_login,
    owner_of,
    remembered_tasks,
    task_choices,
    user_of,
    with_task,
)
from bias_core.labels.tab_make import READY, TEXTS, LabelMaking
from bias_core.labels.tab_scores import LabelScores
from bias_core.labels.view import note
from bias_core.studies.explore.unmeasured import UNMEASURED
from bias_core.studies.kit.types import StudyReport  # noqa: TC001
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.study.downloads import take
from bias_core.ui.study.form import as_text
from bias_core.ui.study.study_tab import PRIVATE, QUIET, Updates
from bias_core.ui.study.view import TAKE_JS, figures_html, tables_html
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.annotation.collected import TaskProgress
    from bias_core.annotation.task_owner import OwnerKey
    from bias_core.services import Services
    from bias_core.studies.running.history import RunLine

_SECRET = "t2i-bias-explorer-label-1"  # hides the keys from a passing look; it is no password
_MOST_COMPARED = 5  # runs whose automatic labels are compared
_HASH_JS = "() => new URLSearchParams(location.hash.slice(1)).get('owner') || ''"
_LINKED_JS = "() => {{ if (location.hash.includes('owner=')) ({})(); }}"
_SAVE_JS = "() => setTimeout(() => document.querySelector('#label-file')?.click(), 300)"
_STATUSES = {"open": "Open for raters", "paused": "Pause", "closed": "Close"}
_PARTS_TO_TAKE = ("takes", "findings", "tables", "figures")
_SHOWN = ("report", "status", "owned", "header", "progress", "notes", "memory", "key", "mine", "rater")


class LabelTab:
    """Labels that people give."""

    key: ClassVar = "label"
    title: ClassVar = "Label"
    place: ClassVar = 70
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
        self.on_open = self._owner_handler(lambda _owner: "")
        self.on_status = {status: self._owner_handler(partial(self._set_status, status=status)) for status in _STATUSES}
        self.on_change = self._owner_handler(self._change)
        self.on_exclude, self.on_include = (
            self._owner_handler(partial(self._exclude, excluded=excluded)) for excluded in (True, False)
        )
        self.on_take, self.on_take_used = self._taker(again=True), self._taker(again=False)

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
        gr.HTML(render("question", question=self.question, caution=self.caution))
        with gr.Column(elem_classes="card ask"):
            gr.HTML(note("heading", "Make a task"))
            self.making.build()
            parts["make"] = _button("Make the task", "label-make", 200, variant="primary")
        with gr.Column(elem_classes="card ask"):
            self._build_open()
        parts["status"] = gr.HTML(READY, elem_id="label-status")
        with gr.Column(visible=False, elem_id="label-owned", elem_classes="results") as parts["owned"]:
            self._build_owned()
        parts["file"] = gr.DownloadButton("file", elem_id="label-file", elem_classes="hidden-file")
        self._wire(demo)

    def _build_open(self) -> None:
        parts = self.parts
        gr.HTML(note("heading", "Open a task of yours"))
        with gr.Row():
            parts["mine"] = gr.Dropdown(
                [], label="Your tasks", info="Of this browser" + " and of your sign-in" * offers_login(),
                elem_id="label-mine", min_width=240,
            )  # fmt: skip
            parts["typed"] = gr.Textbox(
                label="Or the owner's key", info="The part after “owner=” of the link for you alone",
                type="password", max_length=200, elem_id="label-key", min_width=240,
            )  # fmt: skip
            parts["open_key"] = _button("Open it", "label-open-key", 120)
        build_login()

    def _build_owned(self) -> None:
        parts = self.parts
        with gr.Column(elem_classes="card"):
            parts["header"] = gr.HTML(js_on_load=script("copy_link"), elem_id="label-header")
            with gr.Row(elem_classes="tools"):
                for name, text in (*_STATUSES.items(), ("refresh", "Refresh")):
                    variant = "primary" if name == "open" else "secondary"
                    parts[name] = _button(text, f"label-{name}", 140, variant=variant)
            parts["progress"] = gr.HTML(elem_id="label-progress")
            parts["takes"] = gr.HTML(note("takes"), js_on_load=TAKE_JS, elem_id="label-takes")
            with gr.Accordion("Change what raters read, and how many join", open=False, elem_classes="more"):
                parts["texts"] = label_make.build_texts() | label_make.build_limits()
                parts["change"] = gr.Button("Save as a new version", size="sm", scale=0, min_width=200)
            self._build_removals()
        with gr.Column(elem_classes="card"):
            for name in ("findings", "tables"):
                parts[name] = gr.HTML(elem_id=f"label-{name}", js_on_load=TAKE_JS)
            parts["notes"] = gr.HTML(elem_id="label-notes")
        parts["figures"] = gr.HTML(js_on_load=TAKE_JS, elem_id="label-figures")
        with gr.Column(elem_classes="card"):
            self.scores.build()

    def _build_removals(self) -> None:
        parts = self.parts
        with gr.Accordion("Exclude a rater", open=False, elem_classes="more", elem_id="label-excluding"):
            gr.HTML(note("exclude"))
            with gr.Row(elem_classes="tools"):
                parts["rater"] = gr.Dropdown([], label="Rater", elem_id="label-rater", min_width=280)
                parts["exclude"] = _button("Exclude", "label-exclude", 140)
                parts["include"] = _button("Take back in", "label-include", 140)
        with gr.Accordion("Delete this task", open=False, elem_classes="more", elem_id="label-deleting"):
            gr.HTML(note("delete"))
            with gr.Row(elem_classes="tools"):
                parts["title"] = gr.Textbox(
                    "", label="Type the task’s title to confirm", max_length=300, elem_id="label-confirm",
                    min_width=280,
                )  # fmt: skip
                parts["delete"] = _button("Delete the task for good", "label-delete", 220, variant="stop")

    # Wiring.

    def owned_outputs(self) -> list[Any]:
        """Everything that shows a task to its owner."""
        own = [self.parts[name] for name in (*_SHOWN, "title", *_STATUSES, *_PARTS_TO_TAKE[1:])]
        return [*own, *self.parts["texts"].values(), *self.scores.outputs()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, visitor = self.parts, self.parts["visitor"]
        owned, key, texts = self.owned_outputs(), parts["key"], parts["texts"].values()
        self.making.wire(visitor, parts["status"])
        mine = [visitor, parts["memory"]]
        opening = [*mine, parts["typed"]]
        events = (
            parts["make"].click(self.on_make, [*mine, *self.making.inputs()], owned, **PRIVATE),
            gr.on([parts["open_key"].click, parts["typed"].submit], self.on_open, opening, owned, **QUIET),
            parts["mine"].input(self.on_open, [*mine, parts["mine"]], owned, **QUIET),
        )
        into_view = script("label_into_view")
        for event in events:
            event.then(None, js=into_view, **QUIET)
        for name, handler, more in (
            *((status, handler, ()) for status, handler in self.on_status.items()),
            ("refresh", self.on_open, ()),
            ("change", self.on_change, texts),
            ("exclude", self.on_exclude, [parts["rater"]]),
            ("include", self.on_include, [parts["rater"]]),
        ):
            parts[name].click(handler, [*mine, key, *more], owned, **QUIET)
        parts["delete"].click(self.on_delete, [parts["memory"], key, parts["title"]], owned, **QUIET)
        self._wire_take()
        self.scores.wire(visitor, key)
        form = [self.making.form[name] for name in TEXTS]
        demo.load(self.on_memory, parts["memory"], [parts["mine"], *form], **QUIET)
        linked = demo.load(None, None, parts["typed"], js=_HASH_JS, **QUIET)
        linked = linked.then(self.on_return, [*opening, key], owned, **QUIET)
        linked.then(None, js=_LINKED_JS.format(into_view), **QUIET)

    def _wire_take(self) -> None:
        parts = self.parts
        own = [(parts[name], parts["report"], self.on_take) for name in _PARTS_TO_TAKE]
        used = (self.scores.parts["used"], self.scores.parts["report"], self.on_take_used)
        outputs = [parts["file"], parts["status"]]
        for component, report, on_take in (*own, used):
            inputs = [parts["visitor"], parts["key"], report]
            component.select(on_take, inputs, outputs, **QUIET).success(None, js=_SAVE_JS, **QUIET)

    # Handlers.

    def on_make(
        self, visitor: Visitor, memory: dict[str, str] | None, profile: gr.OAuthProfile | None, *values: Any
    ) -> Updates:
        """Make the task that the form asks for, and show it."""
        with user_errors() as problem:
            order = self.making.order(visitor, values)
            new = create_task(self.services.labels, order.task, order.pictures, hub_user=user_of(profile))
            text = "The task is made. Keep the link for you alone, then open it for raters."
            return self._owned(visitor, memory, new.key.text, profile, text)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_memory(self, memory: dict[str, str] | None, profile: gr.OAuthProfile | None = None) -> Updates:
        """Tasks that this browser knows or that the user made, and the usual texts in the form."""
        texts = {self.making.form[n]: text for n, text in label_make.usual_texts("pst_paired").items()}
        with user_errors():  # labels that cannot be read must not leave the page without its texts
            choices = task_choices(self.services, memory, profile)
            return texts | {self.parts["mine"]: gr.update(choices=choices)}
        return texts

    def on_return(
        self,
        visitor: Visitor,
        memory: dict[str, str] | None,
        typed: str,
        key: str | None,
        profile: gr.OAuthProfile | None = None,
    ) -> Updates:
        """Open the task of an owner's link; without one, that which was open here before the reload."""
        if typed or self._opens(as_text(key), profile):
            updates: Updates = self.on_open(visitor, memory, typed or key, profile)
            return updates
        return {self.parts["key"]: "", self.parts["status"]: READY}  # it was deleted, or made elsewhere

    def on_delete(
        self, memory: dict[str, str] | None, key: str, title: str, profile: gr.OAuthProfile | None = None
    ) -> Updates:
        """Delete the task, and forget its key in this browser."""
        parts = self.parts
        with user_errors() as problem:
            owner = owner_of(key, profile)
            task, _ = owned_task(self.services.labels, owner)
            if as_text(title) != task.title.strip():
                raise InvalidInput(f"to delete this task type its title, “{task.title}”")
            n_answers = delete_task(self.services.labels, owner)
            others = {k: name for k, name in remembered_tasks(memory).items() if k != owner.text}
            choices = task_choices(self.services, others, profile)
            text = f"“{task.title}” and {n_answers:,} answers are deleted."
            return {
                parts["status"]: messages.done_html(text), parts["key"]: "", parts["report"]: None,
                parts["memory"]: others, parts["owned"]: gr.update(visible=False), parts["title"]: "",
                parts["mine"]: gr.update(choices=choices, value=None),
            }  # fmt: skip
        return {parts["status"]: messages.error_html(problem.message)}

    def _owner_handler(self, act: Callable[..., str]) -> Any:
        """What ``act`` changes as the task's owner, and says; then all that the owner sees."""

        def handle(
            visitor: Visitor,
            memory: dict[str, str] | None,
            key: str | None,
            profile: gr.OAuthProfile | None = None,
            *values: Any,
        ) -> Updates:
            with user_errors() as problem:
                if not as_text(key):
                    raise InvalidInput("paste the owner's key, or choose a task")
                text = act(owner_of(as_text(key), profile), *values)
                return self._owned(visitor, memory, as_text(key), profile, text)
            return {self.parts["status"]: messages.error_html(problem.message)}

        return handle

    def _taker(self, *, again: bool) -> Any:
        """A handler that writes what was asked for, for the page to fetch.

        With ``again`` a report that the server has forgotten, and the page still shows, is made anew.
        """

        def on_take(
            visitor: Visitor,
            key: str,
            report: StudyReport | None,
            event: gr.EventData,
            profile: gr.OAuthProfile | None = None,
        ) -> Updates:
            with user_errors() as problem:
                owner = owner_of(key, profile)
                if report is None and again:
                    *_, report = self._reported(visitor, owner)
                if report is None:
                    raise InvalidInput(messages.NOTHING_DONE)
                return {self.parts["file"]: str(self._written(visitor, owner, report, str(event.take)))}
            return {self.parts["status"]: messages.error_html(problem.message)}

        return on_take

    # What an owner changes, and what is said of it.

    def _set_status(self, owner: OwnerKey, *, status: Any) -> str:
        set_status(self.services.labels, owner, status)
        return ""

    def _change(self, owner: OwnerKey, *values: Any) -> str:
        """Keep other texts as a new version; answers keep the version that they were given in."""
        task, _ = owned_task(self.services.labels, owner)
        changes: dict[str, Any] = dict(zip(TEXTS, map(as_text, values), strict=False))
        changes |= label_make.read_limits(values[len(TEXTS) :])
        version = change_task(self.services.labels, owner, replace(task, **changes)).version
        return f"Version {version} is what raters read from now on."

    def _exclude(self, owner: OwnerKey, rater: Any = None, *, excluded: bool) -> str:
        if not rater:
            raise InvalidInput("choose a rater; the table above says how each of them did")
        exclude_rater(self.services.labels, owner, rater, excluded=excluded)
        return f"{rater} " + ("counts in nothing any more; their answers stay." if excluded else "counts again.")

    # Steps of the handlers.

    def _opens(self, key: str, profile: gr.OAuthProfile | None) -> bool:
        try:
            return bool(key and owned_task(self.services.labels, owner_of(key, profile)))
        except NotAllowed:
            return False
        except StorageError:  # said when it is opened
            return True

    def _owned(
        self, visitor: Visitor, memory: dict[str, str] | None, key: str, profile: gr.OAuthProfile | None, text: str
    ) -> Updates:
        """All that the owner sees, and ``text`` of what was done."""
        parts, owner = self.parts, owner_of(key, profile)
        progress, runs, report = self._reported(visitor, owner)
        task, tasks = progress.task, with_task(memory, owner, progress.task)
        choices = task_choices(self.services, tasks, profile)
        raters = [
            (f"{one.rater} · {one.n_answered:,} answers{' · excluded' * one.excluded}", one.rater)
            for one in progress.raters
        ]
        return {
            parts["key"]: owner.text, parts["report"]: report, parts["memory"]: tasks,
            parts["status"]: messages.done_html(text) if text else "",
            parts["owned"]: gr.update(visible=True),
            parts["mine"]: gr.update(choices=choices, value=owner.text),
            parts["rater"]: gr.update(choices=raters, value=None), parts["title"]: "",
            **self.scores.offer([run for run in runs if run.study != UNMEASURED.name]),
            **self._report_updates(progress, report, owner),
            **{parts["texts"][name]: getattr(task, name) for name in TEXTS},
            **{parts["texts"][name]: n for name, n in label_make.limits_of(task).items()},
        }  # fmt: skip

    def _reported(self, visitor: Visitor, owner: OwnerKey) -> tuple[TaskProgress, list[RunLine], StudyReport]:
        """How far the task is, the visitor's runs with its pictures, and what the answers say."""
        store = self.services.labels
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        runs = runs_with(self.services, visitor.key, {one.item.image_id for one in labelled})
        automatic: dict[str, Any] = {}  # readers' labels of these pictures, each reader once
        for run in runs[:_MOST_COMPARED]:
            with user_errors():  # a report that is gone compares with nothing
                report = self.making.report(visitor, run.run_id)
                automatic = automatic_answers(report, progress.task) | automatic
        return progress, runs, label_report(progress, labelled, automatic)

    def _report_updates(self, progress: TaskProgress, report: StudyReport, owner: OwnerKey) -> Updates:
        parts, sync, status = self.parts, self.services.label_sync(), progress.task.status
        sync_error = None if sync is None else sync.last_error
        tables = [table for table in report.results.tables if table.key not in (RATERS, COVERAGE)]
        return {
            parts["header"]: label_html.header_html(progress, owner),
            parts["progress"]: label_html.progress_html(progress, report, sync_error),
            parts["findings"]: label_html.agreement_html(report),
            parts["tables"]: tables_html(tables),
            parts["notes"]: render("label_keep", notes=report.results.notes),
            parts["figures"]: figures_html(report.results.figures),
            parts["open"]: gr.update(visible=status != "open"),
            parts["paused"]: gr.update(visible=status == "open"),
            parts["closed"]: gr.update(visible=status in ("open", "paused")),
        }

    def _written(self, visitor: Visitor, owner: OwnerKey, report: StudyReport, what: str) -> Path:
        store = self.services.labels
        if what == "labels:zip":
            return export_labels(store, owner, visitor.folder / "labels.zip")
        if what == "labels:csv":
            path = visitor.folder / "labels.csv"
            path.write_bytes(csv_bytes(people_labels(store, owner)))
            return path
        return take(report, what, visitor.folder)


def _button(text: str, name: str, width: int, **options: Any) -> Any:
    return gr.Button(text, elem_id=name, scale=0, min_width=width, **options)
