"""The Label tab: a task for people is made from a run, opened to raters, watched, and put to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.annotation.collected import labelled_items, task_progress
from bias_core.annotation.label_export import export_labels
from bias_core.annotation.task_owner import OwnerKey, change_task, create_task, owned_task, set_status
from bias_core.errors import InvalidInput
from bias_core.runs.export import csv_bytes
from bias_core.studies.history import list_runs, open_run
from bias_core.studies.label_report import COVERAGE, RATERS, label_report
from bias_core.studies.label_sources import candidates, runs_with
from bias_core.studies.label_use import automatic_answers, people_labels
from bias_core.studies.study_types import StudyReport  # noqa: TC001
from bias_core.ui import label_form, label_html, messages
from bias_core.ui.label_form import FIELDS, TEXTS
from bias_core.ui.label_scores import LabelScores
from bias_core.ui.messages import user_errors
from bias_core.ui.study_form import as_text
from bias_core.ui.study_html import TAKE_JS, figures_html, findings_html, tables_html
from bias_core.ui.study_open import when
from bias_core.ui.study_tab import PRIVATE, QUIET, Updates
from bias_core.ui.take import take
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.annotation.collected import TaskProgress
    from bias_core.services import Services
    from bias_core.studies.saved_reports import Report

_SECRET = "t2i-bias-explorer-label-1"  # hides the keys from a passing look; it is no password
_MOST_COMPARED = 5  # runs whose automatic labels are compared
_NULL = "chance reads"
_READY = '<p class="status quiet">Make a task from one of your runs, or open one with its owner’s key.</p>'
_HASH_JS = "() => new URLSearchParams(location.hash.slice(1)).get('owner') || ''"
_OPEN, _PAUSE, _CLOSE = "open", "paused", "closed"


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
        self.form: dict[str, Any] = {}
        self.scores = LabelScores(services)

    def build_memory(self) -> None:
        """Keys of the tasks that this browser made or opened; outside of the tabs, or it is not read."""
        self.parts["memory"] = gr.BrowserState({}, storage_key="t2i-bias-label", secret=_SECRET)

    # Layout.

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; called inside of its ``gr.Tab``."""
        parts = self.parts
        parts["visitor"], parts["key"], parts["report"] = visitor, gr.State(""), gr.State(None)
        gr.HTML(f'<p class="question">{escape(self.question)}</p><p class="quiet">{escape(self.caution)}</p>')
        with gr.Column(elem_classes="card ask"):
            gr.HTML("<h3>Make a task</h3>")
            self.form = label_form.build_form()
            parts["make"] = gr.Button(
                "Make the task", variant="primary", elem_id="label-make", scale=0, min_width=200
            )
        with gr.Column(elem_classes="card ask"):
            self._build_open()
        parts["status"] = gr.HTML(_READY, elem_id="label-status")
        with gr.Column(visible=False, elem_id="label-owned", elem_classes="results") as parts["owned"]:
            self._build_owned()
        parts["file"] = gr.DownloadButton("file", elem_id="label-file", elem_classes="hidden-file")
        self._wire(demo)

    def _build_open(self) -> None:
        parts = self.parts
        gr.HTML("<h3>Open a task of yours</h3>")
        with gr.Row():
            parts["mine"] = gr.Dropdown(
                [], label="Tasks of this browser", elem_id="label-mine", min_width=240
            )
            parts["typed"] = gr.Textbox(
                label="Or the owner's key", info="The part after “owner=” of the link for you alone",
                type="password", max_length=200, elem_id="label-key", min_width=240,
            )  # fmt: skip
            parts["open_key"] = gr.Button("Open it", elem_id="label-open-key", scale=0, min_width=120)

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
            with gr.Accordion("Change what raters read", open=False, elem_classes="more"):
                parts["texts"] = label_form.build_texts()
                parts["change"] = gr.Button("Save as a new version", size="sm", scale=0, min_width=200)
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
        names = ("key", "report", "status", "owned", "header", "progress", "findings", "tables", "notes")
        more = ("figures", _OPEN, _PAUSE, _CLOSE, "memory", "mine")
        own = [self.parts[name] for name in (*names, *more)]
        return [*own, *self.parts["texts"].values(), *self.scores.outputs()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, form, visitor = self.parts, self.form, self.parts["visitor"]
        owned, key = self.owned_outputs(), parts["key"]
        form["source"].focus(self.on_sources, visitor, form["source"], **QUIET)
        filled = [form[name] for name in ("kind", "found", "preview", *label_form.WORDS, *TEXTS)]
        form["source"].input(self.on_source, [visitor, form["source"]], [*filled, parts["status"]], **QUIET)
        asked = [visitor, form["source"], form["kind"], form["a"], form["b"]]
        form["kind"].input(self.on_kind, asked, filled, **QUIET)
        for word in ("a", "b"):
            form[word].blur(self.on_words, asked, [form["found"], form["preview"]], **QUIET)
        values = [form[name] for name in FIELDS]
        parts["make"].click(self.on_make, [visitor, parts["memory"], *values], owned, **PRIVATE)
        opening = [visitor, parts["memory"], parts["typed"]]
        gr.on([parts["open_key"].click, parts["typed"].submit], self.on_open, opening, owned, **QUIET)
        parts["mine"].input(self.on_open, [visitor, parts["memory"], parts["mine"]], owned, **QUIET)
        for status in (_OPEN, _PAUSE, _CLOSE):
            parts[status].click(self._setter(status), [visitor, parts["memory"], key], owned, **QUIET)
        parts["refresh"].click(self.on_open, [visitor, parts["memory"], key], owned, **QUIET)
        changed = [visitor, parts["memory"], key, *parts["texts"].values()]
        parts["change"].click(self.on_change, changed, owned, **QUIET)
        self._wire_take()
        self.scores.wire(visitor, key)
        demo.load(self.on_memory, parts["memory"], [parts["mine"], *(form[name] for name in TEXTS)], **QUIET)
        read = demo.load(None, None, parts["typed"], js=_HASH_JS, **QUIET)
        read.then(self.on_link, opening, owned, **QUIET)

    def _wire_take(self) -> None:
        parts = self.parts
        save = "() => setTimeout(() => document.querySelector('#label-file')?.click(), 300)"
        shown = [(parts[name], parts["report"]) for name in ("takes", "findings", "tables", "figures")]
        for component, report in [*shown, (self.scores.parts["used"], self.scores.parts["report"])]:
            written = component.select(
                self.on_take,
                [parts["visitor"], parts["key"], report],
                [parts["file"], parts["status"]],
                **QUIET,
            )
            written.success(None, js=save, **QUIET)

    # Handlers: making a task.

    def on_sources(self, visitor: Visitor) -> Any:
        """The visitor's runs, newest first."""
        lines = [line for line in list_runs(self.services, visitor.key) if line.saved]
        return gr.update(
            choices=[(f"{line.title} · {line.asked} · {when(line.created)}", line.run_id) for line in lines]
        )

    def on_source(self, visitor: Visitor, run_id: str | None) -> Updates:
        """What such a run is usually asked, and its pictures."""
        with user_errors() as problem:
            kind, words = label_form.words_of(self._report(visitor, run_id))
            told = self.on_kind(visitor, run_id, kind, words.get("a", ""), words.get("b", ""))
            filled = {self.form[name]: gr.update(value=word, visible=True) for name, word in words.items()}
            return told | filled | {self.form["kind"]: kind, self.parts["status"]: _READY}
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_kind(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The texts and words of another kind of task, and the pictures that suit it."""
        form = self.form
        told: Updates = {form[name]: text for name, text in label_form.usual_texts(kind).items()}
        told |= {form[name]: update for name, update in label_form.shown_words(kind).items()}
        return told | self.on_words(visitor, run_id, kind, a, b)

    def on_words(self, visitor: Visitor, run_id: str | None, kind: Any, a: str, b: str) -> Updates:
        """The pictures that suit this kind and these words, with their numbers."""
        form = self.form
        with user_errors() as problem:
            found = candidates(self._report(visitor, run_id), kind, words=(as_text(a), as_text(b)))
            says = f"<p>{len(found):,} pictures of this run can be asked about.</p>"
            return {form["found"]: says, form["preview"]: label_form.preview(found)}
        return {form["found"]: f"<p>{escape(problem.message)}</p>", form["preview"]: []}

    def on_make(self, visitor: Visitor, memory: dict[str, str] | None, *values: Any) -> Updates:
        """Make the task that the form asks for, and show it."""
        form = dict(zip(FIELDS, values, strict=True))
        with user_errors() as problem:
            asked = label_form.read_form(self._report(visitor, form["source"]), form)
            made = create_task(self.services.labels, asked.task, asked.pictures)
            says = "The task is made. Keep the link for you alone, then open it for raters."
            return self._owned(visitor, memory, made.key.text, says)
        return {self.parts["status"]: messages.error_html(problem.message)}

    # Handlers: a task of one's own.

    def on_memory(self, memory: dict[str, str] | None) -> Updates:
        """Tasks that this browser knows, and the usual texts in the form."""
        texts = label_form.usual_texts("pst_paired")
        return {self.parts["mine"]: _choices(memory)} | {self.form[n]: text for n, text in texts.items()}

    def on_link(self, visitor: Visitor, memory: dict[str, str] | None, key: str) -> Updates:
        """Open the task of an owner's link, where the address is one."""
        return self.on_open(visitor, memory, key) if key else {self.parts["status"]: _READY}

    def on_open(self, visitor: Visitor, memory: dict[str, str] | None, key: str | None) -> Updates:
        """Show the task that a key opens, as it is now."""
        with user_errors() as problem:
            if not as_text(key):
                raise InvalidInput("paste the owner's key, or choose a task")
            return self._owned(visitor, memory, as_text(key))
        return {self.parts["status"]: messages.error_html(problem.message)}

    def _setter(self, status: Any) -> Any:
        def on_status(visitor: Visitor, memory: dict[str, str] | None, key: str) -> Updates:
            with user_errors() as problem:
                set_status(self.services.labels, OwnerKey.parse(key), status)
                return self._owned(visitor, memory, key)
            return {self.parts["status"]: messages.error_html(problem.message)}

        return on_status

    def on_change(self, visitor: Visitor, memory: dict[str, str] | None, key: str, *texts: str) -> Updates:
        """Keep other texts as a new version; answers keep the version that they were given in."""
        with user_errors() as problem:
            owner, store = OwnerKey.parse(key), self.services.labels
            task, _ = owned_task(store, owner)
            changes: dict[str, Any] = dict(zip(TEXTS, texts, strict=True))
            made = change_task(store, owner, replace(task, **changes))
            return self._owned(
                visitor, memory, key, f"Version {made.version} is what raters read from now on."
            )
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_take(self, visitor: Visitor, key: str, report: StudyReport | None, event: gr.EventData) -> Updates:
        """Write what was asked for; the page then fetches it."""
        with user_errors() as problem:
            return {self.parts["file"]: str(self._written(visitor, key, report, str(event.take)))}
        return {self.parts["status"]: messages.error_html(problem.message)}

    # Steps of the handlers.

    def _owned(self, visitor: Visitor, memory: dict[str, str] | None, key: str, says: str = "") -> Updates:
        """All that the owner sees."""
        parts, owner, store = self.parts, OwnerKey.parse(key), self.services.labels
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        runs = runs_with(self.services, visitor.key, {one.item.image_id for one in labelled})
        report = label_report(
            progress, labelled, self._automatic(visitor, progress, [r.run_id for r in runs])
        )
        known = {**(memory or {}), key: f"{progress.task.title} · {progress.task.created[:16]}"}
        status = messages.done_html(says) if says else ""
        return {
            parts["key"]: key, parts["report"]: report, parts["status"]: status,
            parts["owned"]: gr.update(visible=True), parts["memory"]: known,
            parts["mine"]: gr.update(choices=[(t, k) for k, t in known.items()], value=key),
            **self.scores.offer(runs),
            **self._told(progress, report, key),
            **{parts["texts"][name]: getattr(progress.task, name) for name in TEXTS},
        }  # fmt: skip

    def _told(self, progress: TaskProgress, report: StudyReport, key: str) -> Updates:
        parts, sync = self.parts, self.services.label_sync()
        error = None if sync is None else sync.last_error
        status = progress.task.status
        return {
            parts["header"]: label_html.header_html(progress, key),
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
                found = automatic_answers(self._report(visitor, run_id), progress.task) | found
        return found

    def _report(self, visitor: Visitor, run_id: str | None) -> Report:
        if not run_id:
            raise InvalidInput("choose one of your runs; its pictures are what raters will see")
        return open_run(self.services, visitor.key, run_id).report

    def _written(self, visitor: Visitor, key: str, report: StudyReport | None, what: str) -> Path:
        owner, store = OwnerKey.parse(key), self.services.labels
        if what == "labels:zip":
            return export_labels(store, owner, visitor.folder / "labels.zip")
        if what == "labels:csv":
            path = visitor.folder / "labels.csv"
            path.write_bytes(csv_bytes(people_labels(store, owner)))
            return path
        if report is None:
            raise InvalidInput(messages.NOTHING_DONE)
        return take(report, what, visitor.folder)


def _choices(memory: Mapping[str, str] | None) -> Any:
    return gr.update(choices=[(str(title), str(key)) for key, title in (memory or {}).items()])
