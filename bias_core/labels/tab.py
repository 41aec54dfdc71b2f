"""The Label tab: a task for people is made from a run, opened to raters, watched, put to use, and deleted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import gradio as gr

from bias_core.errors import InvalidInput, NotAllowed, StorageError
from bias_core.explore.study import UNMEASURED
from bias_core.given_values import as_text, as_whole
from bias_core.labels import tab_parts, task_owner
from bias_core.labels.answers import stored_pictures
from bias_core.labels.collected import (
    TaskProgress,
    crowd_frame,
    export_labels,
    facts_of_raters,
    labelled_items,
    task_progress,
)
from bias_core.labels.judge import judge_labels
from bias_core.labels.report import automatic_answers, label_report, people_labels
from bias_core.labels.run_task import label_run
from bias_core.labels.sources import runs_with
from bias_core.labels.tab_answers import AnswersPage
from bias_core.labels.tab_demonstration import DemonstrationPart
from bias_core.labels.tab_make import CHANGES, READY, TEXTS, LabelMaking, changes_of, read_changes
from bias_core.labels.tab_parts import PARTS, STATUSES, Memory, Profile, corrected_for, note, owner_of, task_choices
from bias_core.labels.tab_scores import LabelScores
from bias_core.services import Services
from bias_core.store.export import csv_bytes
from bias_core.study.history import RunLine, open_run
from bias_core.study.types import StudyReport
from bias_core.ui import messages
from bias_core.ui.study.shown_report import build_shown_report, take
from bias_core.ui.study.study_tab import LATEST, PRIVATE, QUIET, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor

_SECRET = "t2i-bias-explorer-label-1"  # hides the keys from a passing look; it is no password
_MOST_COMPARED = 5  # runs whose automatic labels are compared
_HASH_JS = "() => new URLSearchParams(location.hash.slice(1)).get('owner') || ''"
_LINKED_JS = "() => {{ if (location.hash.includes('owner=')) ({})(); }}"
_SAVE_JS = "() => setTimeout(() => document.querySelector('#label-file')?.click(), 300)"
_SHOWN = (
    "report", "status", "demonstration", "asking", "owned", "header", "progress", "memory", "key", "mine", "rater",
    "title",
)  # fmt: skip


class LabelTab:
    """Labels that people give."""

    key: ClassVar = "label"
    place: ClassVar = 70
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
        self.demonstration = DemonstrationPart(services)
        self.scores = LabelScores(services)
        self.answers = AnswersPage(services)
        self.on_open = self._owner_handler(lambda _owner: "")
        self.on_status = {status: self._owner_handler(partial(self._set_status, status=status)) for status in STATUSES}
        self.on_change = self._owner_handler(self._change)
        self.on_exclude, self.on_include = (
            self._owner_handler(partial(self._exclude, excluded=excluded)) for excluded in (True, False)
        )

    def build_memory(self) -> None:
        """Keys of this browser's tasks, and of the one that is open: the server forgets; read outside of tabs only."""
        self.parts["report"] = build_shown_report("label", self.services)
        self.scores.parts["report"] = build_shown_report("label-use", self.services)
        self.parts["memory"] = gr.BrowserState({}, storage_key="t2i-bias-label", secret=_SECRET)
        self.parts["key"] = gr.BrowserState("", storage_key="t2i-bias-label-open", secret=_SECRET)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; called inside of its ``gr.Tab``."""
        parts, put = self.parts, partial(tab_parts.add, self.parts, PARTS)
        parts["visitor"] = visitor
        gr.HTML(render("question", question=self.question, caution=self.caution))
        self.demonstration.build()
        parts["demonstration"] = self.demonstration.box
        with gr.Accordion("Make a task", elem_classes="card ask fold", elem_id="label-ask") as parts["asking"]:
            self.making.build()
            put("make")
        with gr.Column(elem_classes="card ask"):
            gr.HTML(note("heading", "Open a task of yours"))
            with gr.Row():
                put("mine", "typed", "open_key")
            parts["mine"].info = "Of this browser"
            if tab_parts.offers_login():
                parts["mine"].info += " and of your sign-in"
                gr.HTML(note("login"))
                names = ("Sign in with Hugging Face", "Sign out ({})")
                gr.LoginButton(*names, variant="secondary", size="md", scale=0, min_width=260, elem_id="label-login")
        parts["status"] = gr.HTML(READY, elem_id="label-status")
        with gr.Column(visible=False, elem_id="label-owned", elem_classes="results") as parts["owned"]:
            self._build_owned()
        parts["file"] = gr.DownloadButton("Download", elem_id="label-file", elem_classes="hidden-file")
        self.scores.parts |= {"visitor": visitor, "file": parts["file"]}
        self._wire(demo)

    def _build_owned(self) -> None:
        parts, put = self.parts, partial(tab_parts.add, self.parts, PARTS)
        with gr.Column(elem_classes="card"):
            put("header")
            with gr.Row(elem_classes="tools"):
                put(*STATUSES, "refresh")
            put("progress")
            with gr.Row():
                with gr.Accordion("Change what raters read, and how many join", open=False, elem_classes="more"):
                    change = partial(tab_parts.add, parts.setdefault("changes", {}), CHANGES, prefix="label-change")
                    change(*TEXTS)
                    with gr.Row():
                        change(*(name for name in CHANGES if name not in TEXTS))
                    put("change")
                with gr.Accordion("Put the labels to use", open=False, elem_classes="more", elem_id="label-using"):
                    self.scores.build_scores()
            with gr.Row():
                for title, name, sentence, names in (
                    ("Exclude a rater", "label-excluding", "exclude", ("rater", "exclude", "include")),
                    ("Delete this task", "label-deleting", "delete", ("title", "delete")),
                ):
                    with gr.Accordion(title, open=False, elem_classes="more", elem_id=name):
                        gr.HTML(note(sentence))
                        with gr.Row(elem_classes="tools"):
                            put(*names)
        self.answers.build(parts["report"])
        with self.answers.parts["take_it"]:
            put("takes")

    def owned_outputs(self) -> list[Any]:
        """Everything that shows a task to its owner."""
        own = [self.parts[name] for name in (*_SHOWN, *STATUSES)]
        own += [part for part in self.answers.result_outputs() if part is not self.parts["report"]]
        return [*own, *self.parts["changes"].values(), *self.scores.offered()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, visitor = self.parts, self.parts["visitor"]
        owned, key, into_view = self.owned_outputs(), parts["key"], script("label_into_view")
        self.making.wire(visitor, parts["status"])
        self.demonstration.wire()
        mine = [visitor, parts["memory"]]
        opening = [*mine, parts["typed"]]
        for event in (
            parts["make"].click(self.on_make, [*mine, *self.making.inputs()], owned, **PRIVATE),
            gr.on([parts["open_key"].click, parts["typed"].submit], self.on_open, opening, owned, **QUIET),
            parts["mine"].input(self.on_open, [*mine, parts["mine"]], owned, **LATEST),
        ):
            event.then(None, js=into_view, **QUIET)
        for name, handler, more in (
            *((status, handler, ()) for status, handler in self.on_status.items()),
            ("refresh", self.on_open, ()),
            ("change", self.on_change, parts["changes"].values()),
            ("exclude", self.on_exclude, [parts["rater"]]),
            ("include", self.on_include, [parts["rater"]]),
        ):
            parts[name].click(handler, [*mine, key, *more], owned, **QUIET)
        parts["delete"].click(self.on_delete, [parts["memory"], key, parts["title"]], owned, **QUIET)
        self.scores.wire_scores(key)
        self.answers.wire_results()
        taking, written = [visitor, key, parts["report"]], [parts["file"], parts["status"]]
        taken = self.answers.pressed(self.on_take, taking, written, **QUIET)
        taken.success(None, js=_SAVE_JS, **QUIET)
        demo.load(self.on_memory, parts["memory"], parts["mine"], **QUIET)
        linked = demo.load(None, None, parts["typed"], js=_HASH_JS, **QUIET)
        linked = linked.then(self.on_return, [*opening, key], owned, **QUIET)
        linked.then(None, js=_LINKED_JS.format(into_view), **QUIET)

    def connect(self, tabs: Any, studies: Sequence[StudyTab]) -> None:
        """Let the reports in the tabs of studies make tasks, which are shown here."""
        self.parts["tabs"] = tabs
        for tab in studies:
            inputs = [self.parts["visitor"], self.parts["memory"], tab.parts["report"], tab.people.n, tab.people.by]
            outputs = [tabs, *self.owned_outputs(), tab.parts["status"], tab.people.refresh]
            label = self.label_handler(tab)
            made = tab.people.button.click(label, inputs, outputs, **PRIVATE)
            made.then(None, js=script("label_into_view"), **QUIET)
            tab.next.wire_people(tab.parts["header"], label, inputs[:3], outputs)

    def label_handler(self, tab: StudyTab) -> Any:
        """Makes a task of pictures of the report in a tab, opens it to raters, and shows it."""

        def handle(
            visitor: Visitor, memory: Memory, report: StudyReport | None, n: Any, by: Any, profile: Profile = None
        ) -> Updates:
            with messages.user_errors() as problem:
                if report is None:
                    raise InvalidInput("run something first; its pictures are what people label")
                stratify_by, _, setting = as_text(by).partition("setting=")
                how: dict[str, Any] = {"n": as_whole(n, "number of pictures"), "hub_user": tab_parts.user_of(profile)}
                how |= {"stratify_by": stratify_by, "setting": setting}
                made = label_run(report, self.services.manifests, self.services.labels, **how)
                text = "The task is made and open: send raters its link, or label with it. Keep the link for you alone."
                shown = self._owned(visitor, memory, made.key.text, profile, text)
                there = {self.parts["tabs"]: gr.update(selected=self.key), tab.parts["status"]: ""}
                return shown | there | {tab.people.refresh: gr.update(visible=True)}
            return {tab.parts["status"]: messages.error_html(problem.message)}

        return handle

    def on_make(self, visitor: Visitor, memory: Memory, profile: Profile, *values: Any) -> Updates:
        """Make the task that the form asks for, and show it."""
        with messages.user_errors() as problem:
            order = self.making.order(visitor, values)
            new = task_owner.create_task(self.services.labels, *order, hub_user=tab_parts.user_of(profile))
            text = "The task is made. Keep the link for you alone, then open it for raters."
            return self._owned(visitor, memory, new.key.text, profile, text)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_memory(self, memory: Memory, profile: Profile = None) -> Updates:
        """Tasks that this browser knows or that the user made."""
        with messages.user_errors():
            return {self.parts["mine"]: gr.update(choices=task_choices(self.services, memory, profile))}
        return {self.parts["mine"]: gr.skip()}

    def on_return(
        self, visitor: Visitor, memory: Memory, typed: str, key: str | None, profile: Profile = None
    ) -> Updates:
        """Open the task of an owner's link; without one, that which was open here before the reload."""
        if typed or self._opens(as_text(key), profile):
            return dict(self.on_open(visitor, memory, typed or key, profile))
        return {self.parts["key"]: "", self.parts["status"]: READY}  # it was deleted, or made elsewhere

    def on_delete(self, memory: Memory, key: str, title: str, profile: Profile = None) -> Updates:
        """Delete the task, and forget its key in this browser."""
        parts = self.parts
        with messages.user_errors() as problem:
            owner = owner_of(key, profile)
            task, _ = task_owner.owned_task(self.services.labels, owner)
            if as_text(title) != task.title.strip():
                raise InvalidInput(f"to delete this task type its title, “{task.title}”")
            n_answers = task_owner.delete_task(self.services.labels, owner)
            others = {k: name for k, name in tab_parts.remembered_tasks(memory).items() if k != owner.text}
            return {
                parts["status"]: messages.done_html(f"“{task.title}” and {n_answers:,} answers are deleted."),
                parts["key"]: "", parts["report"]: None, parts["memory"]: others, parts["title"]: "",
                parts["owned"]: gr.update(visible=False), parts["asking"]: gr.update(open=True),
                parts["mine"]: gr.update(choices=task_choices(self.services, others, profile), value=None),
            }  # fmt: skip
        return {parts["status"]: messages.error_html(problem.message)}

    def _owner_handler(self, act: Callable[..., str]) -> Any:
        """What ``act`` changes as the task's owner, and says; then all that the owner sees."""

        def handle(visitor: Visitor, memory: Memory, key: str | None, profile: Profile = None, *values: Any) -> Updates:
            with messages.user_errors() as problem:
                if not as_text(key):
                    raise InvalidInput("paste the owner's key, or choose a task")
                text = act(owner_of(as_text(key), profile), *values)
                return self._owned(visitor, memory, as_text(key), profile, text)
            return {self.parts["status"]: messages.error_html(problem.message)}

        return handle

    def on_take(
        self, visitor: Visitor, key: str, report: StudyReport | None, event: gr.EventData, profile: Profile = None
    ) -> Updates:
        """Write what was asked for, for the page to fetch; a report that the server has forgotten is made anew."""
        with messages.user_errors() as problem:
            owner = owner_of(key, profile)
            if report is None:
                *_, report = self._reported(visitor, owner)
            return {self.parts["file"]: str(self._written(visitor, owner, report, str(event.take)))}
        return {self.parts["status"]: messages.error_html(problem.message)}

    def _set_status(self, owner: task_owner.OwnerKey, *, status: Any) -> str:
        task_owner.set_status(self.services.labels, owner, status)
        return ""

    def _change(self, owner: task_owner.OwnerKey, *values: Any) -> str:
        """Keep other texts as a new version; answers keep the version that they were given in."""
        task, _ = task_owner.owned_task(self.services.labels, owner)
        version = task_owner.change_task(self.services.labels, owner, replace(task, **read_changes(values))).version
        return f"Version {version} is what raters read from now on."

    def _exclude(self, owner: task_owner.OwnerKey, rater: Any = None, *, excluded: bool) -> str:
        if not rater:
            raise InvalidInput("choose a rater; the table above says how each of them did")
        task_owner.exclude_rater(self.services.labels, owner, rater, excluded=excluded)
        return f"{rater} " + ("counts in nothing any more; their answers stay." if excluded else "counts again.")

    def _opens(self, key: str, profile: Profile) -> bool:
        try:
            return bool(key and task_owner.owned_task(self.services.labels, owner_of(key, profile)))
        except NotAllowed:
            return False
        except StorageError:  # said when it is opened
            return True

    def _owned(self, visitor: Visitor, memory: Memory, key: str, profile: Profile, text: str) -> Updates:
        """All that the owner sees, and ``text`` of what was done."""
        parts, owner = self.parts, owner_of(key, profile)
        progress, runs, report = self._reported(visitor, owner)
        tasks = tab_parts.remembered_tasks(memory, owner, progress.task)
        raters = [
            (f"{one.rater} · {one.n_answered:,} answers{' · excluded' * one.excluded}", one.rater)
            for one in progress.raters
        ]
        return {
            parts["key"]: owner.text, parts["report"]: report, parts["memory"]: tasks,
            parts["status"]: messages.done_html(text) if text else "",
            parts["owned"]: gr.update(visible=True),
            **dict.fromkeys((parts["demonstration"], parts["asking"]), gr.update(open=False)),
            parts["mine"]: gr.update(choices=task_choices(self.services, tasks, profile), value=owner.text),
            parts["rater"]: gr.update(choices=raters, value=None), parts["title"]: "",
            **self.scores.offer([run for run in runs if run.study != UNMEASURED.name]),
            **self._report_updates(progress, report, owner),
            **{parts["changes"][name]: value for name, value in changes_of(progress.task).items()},
        }  # fmt: skip

    def _reported(
        self, visitor: Visitor, owner: task_owner.OwnerKey
    ) -> tuple[TaskProgress, list[RunLine], StudyReport]:
        """How far the task is, the visitor's runs with its pictures, and what the answers say."""
        store = self.services.labels
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        runs = runs_with(self.services, visitor.key, {one.item.image_id for one in labelled})
        automatic: dict[str, Any] = {}  # readers' labels of these pictures, each reader once
        for run in runs[:_MOST_COMPARED]:
            with messages.user_errors():  # a report that is gone compares with nothing
                report = open_run(self.services, visitor.key, run.run_id).report
                automatic = automatic_answers(report, progress.task) | automatic
        report = label_report(progress, labelled, automatic | judge_labels(store, owner), facts_of_raters(store, owner))
        return progress, runs, replace(report, stored=stored_pictures(store, labelled))

    def _report_updates(self, progress: TaskProgress, report: StudyReport, owner: task_owner.OwnerKey) -> Updates:
        parts, label_copy, status = self.parts, self.services.label_copy(), progress.task.status
        copy_error = None if label_copy is None else label_copy.last_error
        return {
            parts["header"]: render("label_header", progress=progress, owner=owner),
            parts["progress"]: tab_parts.progress_html(progress, copy_error),
            **self.answers.show_task(report, corrected_for(self.services, progress.task)),
            parts["open"]: gr.update(visible=status != "open"),
            parts["paused"]: gr.update(visible=status == "open"),
            parts["closed"]: gr.update(visible=status in ("open", "paused")),
        }

    def _written(self, visitor: Visitor, owner: task_owner.OwnerKey, report: StudyReport, what: str) -> Path:
        if what == "labels:zip":
            return export_labels(self.services.labels, owner, visitor.folder / "labels.zip")
        if what == "labels:crowd":
            path = visitor.folder / "prolific.csv"
            path.write_bytes(csv_bytes(crowd_frame(self.services.labels, owner)))
            return path
        if what != "labels:csv":
            return take(report, what, visitor.folder)
        path = visitor.folder / "labels.csv"
        path.write_bytes(csv_bytes(people_labels(self.services.labels, owner)))
        return path
