"""The Label tab: make a task for people from a run, open it to raters, watch it, use its labels, delete it."""

import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, TypeAlias

import gradio as gr
from gradio.utils import get_space
from markupsafe import Markup

from bias_core.errors import Cancelled, InvalidInput, NotAllowed, StorageError
from bias_core.explore.exploration import Exploration, is_exploration
from bias_core.explore.study import UNMEASURED
from bias_core.labels.judge import judge_labels, judge_task
from bias_core.labels.make_task import find_matching_runs, label_run, serves
from bias_core.labels.report import (
    ALPHA,
    MACHINES_NOTE,
    PEOPLE_SAY,
    automatic_answers,
    count_same_answers,
    find_answer_key,
    label_report,
    load_rated_pictures,
    rater_labels,
    yes_no_answers,
)
from bias_core.labels.results import (
    TaskProgress,
    crowd_frame,
    export_labels,
    facts_of_raters,
    labelled_items,
    task_answers,
    task_progress,
)
from bias_core.labels.tab_make import (
    CHANGES,
    READY,
    TEXTS,
    LabelMaking,
    add,
    button,
    change_form,
    name_in_menus,
    note,
    read_changes,
)
from bias_core.labels.task_owner import (
    OwnerKey,
    change_task,
    create_task,
    delete_task,
    exclude_rater,
    list_user_tasks,
    owned_task,
    set_status,
)
from bias_core.report.claims import p_words
from bias_core.report.corrected import Correction, build_correction, corrected
from bias_core.report.headlines import headline
from bias_core.report.report_text import CORRECTED, corrected_headline, get_title
from bias_core.report.saved import open_report
from bias_core.run.history import ListedRun, open_run
from bias_core.services import Services
from bias_core.store.export import csv_bytes
from bias_core.study.answers import MACHINE
from bias_core.study.label_tasks import Task
from bias_core.study.types import Progress, StudyReport
from bias_core.ui import messages
from bias_core.ui.model_menu import judge_choices
from bias_core.ui.places import Places
from bias_core.ui.study.parts import DrawingPart, corrected_html
from bias_core.ui.study.pictures import Pictures
from bias_core.ui.study.result_page import CHOOSE_JS, ResultPage, findings_html, header_html, notes_html, tables_html
from bias_core.ui.study.shown_report import build_shown_report, take
from bias_core.ui.study.study_tab import LATEST, PRIVATE, QUIET, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, run_queued, then_run
from bias_core.values import parse_whole_number, text_from_value
from bias_core.wording import format_count, format_estimate

Memory: TypeAlias = Mapping[str, str] | None  # what the browser remembers: titles of tasks by their keys
Profile: TypeAlias = gr.OAuthProfile | None
Parts = dict[str, Any]
_NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")


STATUSES = {"open": "Open for raters", "paused": "Pause", "closed": "Close"}
PARTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "mine": (gr.Dropdown, {"choices": [], "label": "Your tasks", "min_width": 240}),
    "typed": (gr.Textbox, {
        "label": "Or the owner's key", "info": "The part after “owner=” in your private link",
        "type": "password", "max_length": 200, "elem_id": "label-key", "min_width": 240,
    }),
    "open_key": button("Open it", 120, elem_id="label-open-key"),
    "header": (gr.HTML, {"js_on_load": script("copy_link")}),
    **{name: button(text, 180, variant="primary" if name == "open" else "secondary")
       for name, text in STATUSES.items()},
    "refresh": button("Refresh", 140),
    "takes": (gr.HTML, {"value": note("takes")}),
    "used": (gr.HTML, {"js_on_load": CHOOSE_JS, "elem_id": "label-used"}),
    "progress": (gr.HTML, {}),
    "change": button("Save as a new version", 200, size="sm"),
    "rater": (gr.Dropdown, {"choices": [], "label": "Rater", "min_width": 280}),
    "exclude": button("Exclude", 140),
    "include": button("Include again", 140),
    "title": (gr.Textbox, {
        "label": "Type the task’s title to confirm", "max_length": 300, "elem_id": "label-confirm", "min_width": 280,
    }),
    "delete": button("Delete the task for good", 220, variant="stop"),
    "source": (gr.Dropdown, {"choices": [], "label": "Run", "elem_id": "label-run", "min_width": 280}),
    "attribute": (gr.Dropdown, {
        "choices": [], "label": "Attribute", "info": "For an Explore run", "visible": False, "min_width": 160,
    }),
    "present": (gr.Dropdown, {"choices": [], "label": "Which answer means it?", "visible": False}),
    "run": button("Score with people's labels", 280, elem_id="label-use"),
    "judge": (gr.Dropdown, {
        "choices": [], "value": None, "label": "Judge", "allow_custom_value": True, "min_width": 280,
        "info": "A vision-language model; or type org/name",
    }),
    "judge_run": button("Let a judge answer this task", 300),
    "stop": button("Stop", 120, variant="stop", visible=False),
}  # fmt: skip
"""The tab's components, without the form of a new task."""


def offers_login() -> bool:
    """Return true on a Space that lets visitors sign in."""
    return get_space() is not None and all(os.environ.get(name) for name in _NEEDED)


def get_user_id(profile: Profile) -> str:
    """The account's number at the Hub; "" without a sign-in."""
    return str(profile.get("sub") or "") if isinstance(profile, gr.OAuthProfile) else ""


def parse_owner_key(key: str, profile: Profile) -> OwnerKey:
    """The owner key from the text and the sign-in, if any."""
    return replace(OwnerKey.parse(key), hub_user=get_user_id(profile))


def task_choices(services: Services, memory: Memory, profile: Profile) -> list[tuple[str, str]]:
    """Titles and keys of the tasks that the browser remembers, then of the user's other tasks."""
    remembered = [(str(title), str(key)) for key, title in remembered_tasks(memory).items()]
    if not (user := get_user_id(profile)):  # a mere visit does not open the store
        return remembered
    ids = {OwnerKey.parse(key).task_id for _, key in remembered}
    mine = [task for task in list_user_tasks(services.labels, user) if task.id not in ids]
    return [*remembered, *((title_in_list(services, task), OwnerKey(task_id=task.id).text) for task in mine)]


def remembered_tasks(memory: object) -> dict[str, str]:
    return dict(memory) if isinstance(memory, Mapping) else {}


def title_in_list(services: Services, task: Task) -> str:
    """The title in its owner's list, with the title of the run, which raters must not read."""
    run = services.manifests.head(task.run_id) if task.run_id else None
    return " · ".join([task.title, *([run.title] if run else []), task.created[:16].replace("T", " ")])


def task_progress_html(progress: TaskProgress, copy_error: str | None = None) -> str:
    """Progress of task and raters; ``copy_error`` is None without a copy on a hub, "" if the copy works."""
    seconds = [rater.median_seconds for rater in progress.counted_raters if rater.n_answered]
    return render(
        "label_progress", progress=progress, seconds=f"{median(seconds):.1f}" if seconds else "", copy_error=copy_error
    )


def correct_run(services: Services, task: Task) -> tuple[Correction | None, str]:
    """The run of the task as corrected by people's labels, and how the page shows it; "" for a task without a run."""
    if not task.run_id:
        return None, ""
    with messages.user_errors() as problem:
        if services.manifests.find(task.run_id) is None:
            return None, note("line", f"This task's run was deleted ({task.run_id}). Its answers stay.")
        if (saved := open_report(task.run_id, services)) is None:
            return None, note("line", "The report of this task's run was removed to free space: run it again in Runs.")
        if (answers := services.run_answers(task.run_id)) is None:
            return None, ""
        correction = build_correction(saved.report, answers)
        of = f"the run “{get_title(saved.report)}” ({task.run_id}): {serves(task)}"
        return correction, corrected_html(correction, of)
    return None, messages.error_html(problem.message)


def agreement_headline(report: StudyReport) -> str:
    """State on how many pictures the raters agree, and whether that is more than by chance."""
    finding = next((finding for finding in report.results.findings if finding.key == ALPHA), None)
    if finding is None or finding.claim is None:
        return "Not enough answers yet to say whether raters agree."
    alpha, claim = finding.estimate, finding.claim
    n_same, n, unit = count_same_answers(report)
    same = f"All raters gave the same answer for {n_same:,} of {n:,} {unit}"
    if math.isnan(alpha.value):
        return f"{same}; no other answer was given, so whether that is more than by chance is unknown."
    numbers = f"Krippendorff’s α = {format_estimate(alpha.value, alpha.low, alpha.high, n=alpha.n)}"
    if claim.verdict == "too few":
        return f"{same}, too few to say whether that is more than by chance ({numbers})."
    says = claim.choose("clearly more than by chance", "clearly less than by chance", "not clearly more than by chance")
    return f"{same}, {says} ({numbers}, {p_words(claim)})."


_NOT_OF_A_TASK = ("shell", "python", "link")  # a task's report comes from no run


class AnswersPage(ResultPage):
    """The result page of a labelling task, within the Label tab."""

    key: ClassVar = "answers"
    null_words: ClassVar = "by chance"
    pressed: Any = None  # the event of a pressed download button

    def build(self, report: Any) -> None:
        self.parts["report"] = report
        with gr.Column(elem_classes="result"):
            self._build_results()

    def build_pictures(self) -> Pictures:
        """Pictures grouped by the majority's answer; the files of a task are not served."""
        return Pictures(self.key, self.services, cell_column=PEOPLE_SAY, embedded=True)

    def build_numbers(self) -> dict[str, Any]:
        """The numbers of the run that the task serves, corrected by its labels."""
        return {"corrected": gr.HTML(elem_id="label-corrected")}

    def wire_take(self, pressed: Any) -> None:
        """Keep the event for the tab, which remakes a forgotten report with the owner's key."""
        self.pressed = pressed

    def header_html(self, report: StudyReport) -> str:
        """The number of the task's run that its labels correct, if any, how far raters agree, and the next steps."""
        text = " ".join(filter(None, (corrected_headline(report), agreement_headline(report))))
        return header_html(report, text, self.tools_html(report)) + self.next.html(report)

    def show_numbers(self, report: StudyReport) -> Updates:
        """Show the numbers without a command, because people made them."""
        shown = super().show_numbers(report) | {
            self.parts[name]: gr.update(value="", visible=False) for name in _NOT_OF_A_TASK
        }
        text = shown[self.parts["claim"]]
        return shown | {self.parts["claim"]: gr.update(value=text, visible=bool(text))}

    def show_task(self, report: StudyReport, corrected: str) -> Updates:
        """Updates for a task's report and the numbers it ``corrected``; the tab sets the state itself."""
        shown = self.show_report(report) | {self.at_once["corrected"]: corrected}
        return {part: value for part, value in shown.items() if part is not self.parts["report"]}


_CHOICES = ("source", "attribute", "present")


class LabelScores(StudyTab):
    """Score a chosen run with people's labels, as a study's tab runs a study, or ask a judge."""

    key = "label"

    def build_scores(self) -> None:
        put = partial(add, self.parts, PARTS)
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
        self.parts |= {"status": gr.HTML(elem_id="label-use-status", js_on_load=script("status"))}
        self.build_at_work()
        self.drawing = DrawingPart(f"{self.key}-use")
        put("used")

    def offered(self) -> list[Any]:
        return [self.parts[name] for name in (*_CHOICES, "used", "status")]

    def offer(self, visitor: Visitor, runs: list[ListedRun], task: Task) -> Updates:
        """Offer the runs that hold the pictures of the open task, and choose its own."""
        source, _, _, used, status = self.offered()
        ids = [run.run_id for run in runs]
        chosen = task.run_id if task.run_id in ids else next(iter(ids), None)
        menu = gr.update(choices=[(name_in_menus(run), run.run_id) for run in runs], value=chosen)
        return {source: menu, **self._show_attribute_choice(visitor, task, chosen), used: "", status: ""}

    def wire_scores(self, key: Any) -> None:
        """The events; ``key`` is a state of the tab."""
        parts, visitor = self.parts, self.parts["visitor"]
        source, attribute, present, used, status = self.offered()
        source.input(self.on_run_chosen, [visitor, key, source], [attribute, present], **LATEST)
        attribute.input(self.on_attribute_chosen, [key, attribute], present, **LATEST)
        buttons = [status, parts["at_work"], parts["run"], parts["stop"]]
        inputs = [visitor, key, source, attribute, present]
        shown = [*buttons, used, parts["report"], self.drawing.html]
        click = parts["run"].click(self.on_click, visitor, buttons, queue=False, **QUIET)
        then_run(click.then, self.on_use, inputs, shown, self.on_crash)
        click = parts["judge_run"].click(self.on_click, visitor, buttons, queue=False, **QUIET)
        then_run(click.then, self.on_judge, [visitor, key, parts["judge"]], shown, self.on_crash)
        self.wire_stop(parts["stop"], status)
        self.wire_at_work()
        self.wire_take(used.select)

    def on_run_chosen(self, visitor: Visitor, key: str, run_id: str, profile: Profile = None) -> Updates:
        """Ask for the attribute if the run is an exploration."""
        with messages.user_errors():
            task, _ = owned_task(self.services.labels, parse_owner_key(key, profile))
            return self._show_attribute_choice(visitor, task, run_id)
        return {self.parts["attribute"]: gr.skip()}

    def on_attribute_chosen(self, key: str, name: str, profile: Profile = None) -> Updates:
        """Ask which answer means the attribute, with the one of its name chosen."""
        with messages.user_errors():
            task, _ = owned_task(self.services.labels, parse_owner_key(key, profile))
            return {self.parts["present"]: _ask_for_answer(task, text_from_value(name))}
        return {self.parts["present"]: gr.skip()}

    def _show_attribute_choice(self, visitor: Visitor, task: Task, run_id: str | None) -> Updates:
        attribute, present = self.parts["attribute"], self.parts["present"]
        with messages.user_errors():
            if is_exploration(report := self._report(visitor, run_id)):
                asked = {name for name, _ in task.attributes.values()}
                names = [score.attribute.name for score in Exploration(report).attributes]
                names = [name for name in names if name in asked] or names
                name = next((name for name in names if find_answer_key(task, name)), next(iter(names), ""))
                return {
                    attribute: gr.update(choices=names, value=name or None, visible=True),
                    present: _ask_for_answer(task, name),
                }
        return dict.fromkeys((attribute, present), gr.update(visible=False))

    def on_use(
        self, visitor: Visitor, key: str, run_id: str, attribute: str, present: str, profile: Profile = None
    ) -> Iterator[Updates]:
        with messages.user_errors() as problem:
            words = {"attribute": text_from_value(attribute), "present": text_from_value(present)}
            start = partial(self._scored, visitor, parse_owner_key(key, profile), run_id, words)
            yield from self.following(visitor, run_queued(self.services, visitor, start), self.key)
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def on_judge(self, visitor: Visitor, key: str, judge: str | None, profile: Profile = None) -> Iterator[Updates]:
        """Let a judge answer the task, and show how far people agree with it."""
        with messages.user_errors() as problem:
            start = partial(self._judged, visitor, parse_owner_key(key, profile), text_from_value(judge))
            yield from self.following(
                visitor, run_queued(self.services, visitor, start), self.key, show=self._judge_shown
            )
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def done(self, report: StudyReport) -> Updates:
        """Show the numbers with people's labels, without pictures."""
        corrections = [table for table in report.results.tables if table.key == CORRECTED]
        findings = tables_html(corrections) if corrections else findings_html(report)
        return self._show_scores(report, findings, title=get_title(report), headline=headline(report))

    def _judge_shown(self, report: StudyReport) -> Updates:
        return self._show_scores(report, findings_html(report, "by chance"), headline="People and the judge")

    def _show_scores(self, report: StudyReport, findings: str, **words: str) -> Updates:
        html = {"findings": Markup(findings), "notes": Markup(notes_html(report))}
        used, status = self.parts["used"], messages.done_html("Scored.", "label-used")
        return {
            used: render("label_findings", **words, **html),
            self.parts["report"]: report,
            self.parts["status"]: status,
        }

    def _report(self, visitor: Visitor, run_id: str | None) -> StudyReport:
        if not run_id:
            raise InvalidInput("choose a run that holds these pictures")
        return open_run(self.services, visitor.key, run_id).report

    def _judged(self, visitor: Visitor, owner: OwnerKey, judge: str) -> Generator[Progress, None, StudyReport]:
        store = self.services.labels
        yield from judge_task(self.services, store, owner, judge, check=partial(_check_visitor, visitor))
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        report = label_report(progress, labelled, judge_labels(store, owner))
        machines = report.results.frame("machines")
        says = [
            f"{row.rater} gave {row.answered:,} answers; people have a majority for {row.compared:,} of the questions."
            for row in machines.itertuples()
        ]
        findings = tuple(finding for finding in report.results.findings if MACHINE in finding.key)
        notes = (*says, MACHINES_NOTE, "Press “Refresh” above to see its answers next to people's.")
        return replace(report, results=replace(report.results, findings=findings, notes=notes))

    def _scored(
        self, visitor: Visitor, owner: OwnerKey, run_id: str | None, words: dict[str, str]
    ) -> Generator[Progress, None, StudyReport]:
        store, report = self.services.labels, self._report(visitor, run_id)
        task, _ = owned_task(store, owner)
        answers = task_answers(task, labelled_items(store, owner))
        if is_exploration(report):
            answers = yes_no_answers(report, task, answers, **words)
        yield Progress(message="correcting the numbers")
        return corrected(report, answers, self.services)


def _ask_for_answer(task: Task, attribute: str) -> Any:
    """Update the menu of answers that may mean an attribute; none is chosen if none has its name."""
    choices = [(answer.label, answer.key) for answer in task.answers]
    label = f"Which answer means “{attribute}”?"
    return gr.update(choices=choices, value=find_answer_key(task, attribute), label=label, visible=True)


def _check_visitor(visitor: Visitor) -> None:
    if visitor.stop.is_set():
        raise Cancelled("stopped; the judge's answers so far are kept")


_SECRET = "t2i-bias-explorer-label-1"  # hides the keys from a passing glance; it is no password
_MOST_COMPARED = 5  # runs whose automatic labels are compared
_HASH_JS = "() => new URLSearchParams(location.hash.slice(1)).get('owner') || ''"
_LINKED_JS = "() => {{ if (location.hash.includes('owner=')) ({})(); }}"
_SAVE_JS = "() => setTimeout(() => document.querySelector('#label-file')?.click(), 300)"
_SHOWN = (
    "report", "status", "asking", "owned", "header", "progress", "memory", "key", "mine", "rater",
    "title",
)  # fmt: skip


class LabelTab:
    key: ClassVar = "label"
    place: ClassVar = 70
    title: ClassVar = "Label"
    group: ClassVar = "People"
    question: ClassVar = "What do people see in these pictures, and do they agree?"
    caution: ClassVar = (
        "Labels say how a picture looks to its raters, never who anyone is. Agreement means that raters see "
        "the same, not that they are right. Raters have random names only."
    )

    def __init__(self, services: Services) -> None:
        self.services = services
        self.parts: dict[str, Any] = {}
        self.making = LabelMaking(services)
        self.scores = LabelScores(services)
        self.answers = AnswersPage(services)
        self.on_open = self._owner_handler(lambda _owner: "")
        self.on_status = {status: self._owner_handler(partial(self._set_status, status=status)) for status in STATUSES}
        self.on_change = self._owner_handler(self._change)
        self.on_exclude, self.on_include = (
            self._owner_handler(partial(self._exclude, excluded=excluded)) for excluded in (True, False)
        )

    def build_memory(self) -> None:
        """Keys of this browser's tasks and of the open one, which the server forgets; read outside of tabs only."""
        self.parts["report"] = build_shown_report("label", self.services)
        self.scores.parts["report"] = build_shown_report("label-use", self.services)
        self.parts["memory"] = gr.BrowserState({}, storage_key="t2i-bias-label", secret=_SECRET)
        self.parts["key"] = gr.BrowserState("", storage_key="t2i-bias-label-open", secret=_SECRET)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; called inside of its ``gr.Tab``."""
        parts, put = self.parts, partial(add, self.parts, PARTS)
        parts["visitor"] = visitor
        gr.HTML(render("question", question=self.question, caution=self.caution))
        with gr.Accordion("Make a task", elem_classes="card ask fold", elem_id="label-ask") as parts["asking"]:
            self.making.build()
        with gr.Column(elem_classes="card ask"):
            gr.HTML(note("heading", "Open a task of yours"))
            with gr.Row():
                put("mine", "typed", "open_key")
            parts["mine"].info = "Made in this browser"
            if offers_login():
                parts["mine"].info += " or with your sign-in"
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
        parts, put = self.parts, partial(add, self.parts, PARTS)
        with gr.Column(elem_classes="card"):
            put("header")
            with gr.Row(elem_classes="tools"):
                put(*STATUSES, "refresh")
            put("progress")
            with gr.Accordion("Score a run with these labels", open=False, elem_classes="more", elem_id="label-using"):
                self.scores.build_scores()
            with gr.Row(elem_classes="folds"):
                with gr.Accordion("Change what raters read, and how many join", open=False, elem_classes="more"):
                    change = partial(add, parts.setdefault("changes", {}), CHANGES, prefix="label-change")
                    change(*TEXTS)
                    with gr.Row():
                        change(*(name for name in CHANGES if name not in TEXTS))
                    put("change")
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
        outputs = [self.parts[name] for name in (*_SHOWN, *STATUSES)]
        outputs += [part for part in self.answers.result_outputs() if part is not self.parts["report"]]
        return [*outputs, *self.parts["changes"].values(), *self.scores.offered()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts, visitor = self.parts, self.parts["visitor"]
        owned, key, into_view = self.owned_outputs(), parts["key"], script("label_into_view")
        self.making.wire(visitor, parts["status"])
        mine = [visitor, parts["memory"]]
        opening = [*mine, parts["typed"]]
        for event in (
            self.making.parts["make"].click(self.on_make, [*mine, *self.making.inputs()], owned, **PRIVATE),
            gr.on([parts["open_key"].click, parts["typed"].submit], self.on_open, opening, owned, **QUIET),
            parts["mine"].input(self.on_open, [*mine, parts["mine"]], owned, **LATEST),
        ):
            event.then(None, js=into_view, **QUIET)
        for name, handler, extra_inputs in (
            *((status, handler, ()) for status, handler in self.on_status.items()),
            ("refresh", self.on_open, ()),
            ("change", self.on_change, parts["changes"].values()),
            ("exclude", self.on_exclude, [parts["rater"]]),
            ("include", self.on_include, [parts["rater"]]),
        ):
            parts[name].click(handler, [*mine, key, *extra_inputs], owned, **QUIET)
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

    def connect(self, places: Places, studies: Sequence[StudyTab]) -> None:
        """Let reports in the studies' tabs make tasks, which open here."""
        self.places, making = places, self.making
        chosen = [self.parts["visitor"], making.form["source"]]
        places.shown[self.key].select(making.on_shown, chosen, making.source_outputs(), **QUIET)
        for tab in studies:
            inputs = [self.parts["visitor"], self.parts["memory"], tab.parts["report"]]
            inputs += [tab.people.n, tab.people.raters, tab.people.by, tab.people.attributes]
            outputs = [*places.outputs(), *self.owned_outputs(), tab.parts["status"], tab.people.refresh]
            label = self.label_handler(tab)
            made = tab.people.button.click(label, inputs, outputs, **PRIVATE)
            made.then(None, js=script("label_into_view"), **QUIET)
            tab.next.wire_people(tab.parts["next"], label, inputs[:3], outputs)

    def label_handler(self, tab: StudyTab) -> Any:
        """Return a handler that makes a task from a tab's report, opens it to raters, and shows it."""

        def handle(
            visitor: Visitor,
            memory: Memory,
            report: StudyReport | None,
            n: Any,
            n_raters: Any,
            by: Any,
            attributes: Any = (),
            profile: Profile = None,
        ) -> Updates:
            with messages.user_errors() as problem:
                if report is None:
                    raise InvalidInput("run a study first; people label its pictures")
                stratify_by, _, setting = text_from_value(by).partition("setting=")
                options: dict[str, Any] = {
                    "n": parse_whole_number(n, "number of pictures"),
                    "hub_user": get_user_id(profile),
                }
                options |= {"raters_per_item": parse_whole_number(n_raters, "number of raters")}
                options |= {
                    "stratify_by": stratify_by,
                    "setting": setting,
                    "attributes": [*map(text_from_value, attributes or ())],
                }
                made = label_run(report, self.services.manifests, self.services.labels, **options)
                n_questions = len(made.task.positions)
                text = f"The task is open, with {format_count(n_questions, 'question')} about each picture. "
                text += "Send raters its link, or label with it yourself. Keep your private link."
                shown = self._owned(visitor, memory, made.key.text, profile, text)
                updates = {**self.places.open(self.key), tab.parts["status"]: ""}
                return shown | updates | {tab.people.refresh: gr.update(visible=True)}
            return {tab.parts["status"]: messages.error_html(problem.message)}

        return handle

    def on_make(self, visitor: Visitor, memory: Memory, profile: Profile, *values: Any) -> Updates:
        with messages.user_errors() as problem:
            order = self.making.order(visitor, values)
            new = create_task(self.services.labels, *order, hub_user=get_user_id(profile))
            text = "The task is made. Keep your private link, then open the task for raters."
            return self._owned(visitor, memory, new.key.text, profile, text)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_memory(self, memory: Memory, profile: Profile = None) -> Updates:
        with messages.user_errors():
            return {self.parts["mine"]: gr.update(choices=task_choices(self.services, memory, profile))}
        return {self.parts["mine"]: gr.skip()}

    def on_return(
        self, visitor: Visitor, memory: Memory, typed: str, key: str | None, profile: Profile = None
    ) -> Updates:
        """Open the task of an owner's link, or the task that was open before the reload."""
        if typed or self._opens(text_from_value(key), profile):
            return dict(self.on_open(visitor, memory, typed or key, profile))
        return {self.parts["key"]: "", self.parts["status"]: READY}  # deleted, or made elsewhere

    def on_delete(self, memory: Memory, key: str, title: str, profile: Profile = None) -> Updates:
        parts = self.parts
        with messages.user_errors() as problem:
            owner = parse_owner_key(key, profile)
            task, _ = owned_task(self.services.labels, owner)
            if text_from_value(title) != task.title.strip():
                raise InvalidInput(f"to delete this task type its title, “{task.title}”")
            n_answers = delete_task(self.services.labels, owner)
            other_tasks = {k: name for k, name in remembered_tasks(memory).items() if k != owner.text}
            return {
                parts["status"]: messages.done_html(f"“{task.title}” and {n_answers:,} answers are deleted."),
                parts["key"]: "", parts["report"]: None, parts["memory"]: other_tasks, parts["title"]: "",
                parts["owned"]: gr.update(visible=False), parts["asking"]: gr.update(open=True),
                parts["mine"]: gr.update(choices=task_choices(self.services, other_tasks, profile), value=None),
            }  # fmt: skip
        return {parts["status"]: messages.error_html(problem.message)}

    def _owner_handler(self, act: Callable[..., str]) -> Any:
        """Return a handler that does ``act`` as the task's owner, then shows its sentence and the task."""

        def handle(visitor: Visitor, memory: Memory, key: str | None, profile: Profile = None, *values: Any) -> Updates:
            with messages.user_errors() as problem:
                if not text_from_value(key):
                    raise InvalidInput("paste the owner's key, or choose a task")
                text = act(parse_owner_key(text_from_value(key), profile), *values)
                return self._owned(visitor, memory, text_from_value(key), profile, text)
            return {self.parts["status"]: messages.error_html(problem.message)}

        return handle

    def on_take(
        self, visitor: Visitor, key: str, report: StudyReport | None, event: gr.EventData, profile: Profile = None
    ) -> Updates:
        """Write a download for the page to fetch; make a forgotten report again first."""
        with messages.user_errors() as problem:
            owner = parse_owner_key(key, profile)
            if report is None:
                *_, report, _ = self._reported(visitor, owner)
            return {self.parts["file"]: str(self._written(visitor, owner, report, str(event.take)))}
        return {self.parts["status"]: messages.error_html(problem.message)}

    def _set_status(self, owner: OwnerKey, *, status: Any) -> str:
        set_status(self.services.labels, owner, status)
        return ""

    def _change(self, owner: OwnerKey, *values: Any) -> str:
        """Save changed texts as a new version; earlier answers keep their version."""
        task, _ = owned_task(self.services.labels, owner)
        version = change_task(self.services.labels, owner, replace(task, **read_changes(values))).version
        return f"Raters read version {version} from now on."

    def _exclude(self, owner: OwnerKey, rater: Any = None, *, excluded: bool) -> str:
        if not rater:
            raise InvalidInput("choose a rater; the table above has their results")
        exclude_rater(self.services.labels, owner, rater, excluded=excluded)
        return f"{rater} " + ("no longer counts; their answers stay." if excluded else "counts again.")

    def _opens(self, key: str, profile: Profile) -> bool:
        try:
            return bool(key and owned_task(self.services.labels, parse_owner_key(key, profile)))
        except NotAllowed:
            return False
        except StorageError:  # shown when the task opens
            return True

    def _owned(self, visitor: Visitor, memory: Memory, key: str, profile: Profile, text: str) -> Updates:
        """Updates of all that the owner sees, with a ``text`` about what was done."""
        parts, owner = self.parts, parse_owner_key(key, profile)
        progress, runs, report, of_run = self._reported(visitor, owner)
        opened = {owner.text: title_in_list(self.services, progress.task)} if owner.secret else {}
        tasks = remembered_tasks(memory) | opened
        raters = [
            (f"{rater.rater} · {rater.n_answered:,} answers{' · excluded' * rater.excluded}", rater.rater)
            for rater in progress.raters
        ]
        return {
            parts["key"]: owner.text, parts["report"]: report, parts["memory"]: tasks,
            parts["status"]: messages.done_html(text) if text else "",
            parts["owned"]: gr.update(visible=True),
            parts["asking"]: gr.update(open=False),
            parts["mine"]: gr.update(choices=task_choices(self.services, tasks, profile), value=owner.text),
            parts["rater"]: gr.update(choices=raters, value=None), parts["title"]: "",
            **self.scores.offer(visitor, [run for run in runs if run.study != UNMEASURED.name], progress.task),
            **self._report_updates(progress, report, of_run, owner),
            **{parts["changes"][name]: value for name, value in change_form(progress.task).items()},
        }  # fmt: skip

    def _reported(self, visitor: Visitor, owner: OwnerKey) -> tuple[TaskProgress, list[ListedRun], StudyReport, str]:
        """Progress of the task, the visitor's runs with its pictures, the report of its answers, its run's numbers.

        The report has the numbers of the task's run as corrected by the answers; the last is these for the page.
        """
        store = self.services.labels
        progress, labelled = task_progress(store, owner), labelled_items(store, owner)
        runs = find_matching_runs(self.services, visitor.key, {entry.item.image_id for entry in labelled})
        automatic: dict[str, Any] = {}  # classifiers' labels of these pictures, each classifier once
        for run in runs[:_MOST_COMPARED]:
            with messages.user_errors():  # a deleted report has nothing to compare
                report = open_run(self.services, visitor.key, run.run_id).report
                automatic = automatic_answers(report, progress.task) | automatic
        report = label_report(progress, labelled, automatic | judge_labels(store, owner), facts_of_raters(store, owner))
        correction, of_run = correct_run(self.services, progress.task)
        report = report if correction is None else correction.add_to_report(report)
        return progress, runs, replace(report, stored=load_rated_pictures(store, labelled)), of_run

    def _report_updates(self, progress: TaskProgress, report: StudyReport, of_run: str, owner: OwnerKey) -> Updates:
        parts, label_copy, status = self.parts, self.services.label_copy(), progress.task.status
        copy_error = None if label_copy is None else label_copy.last_error
        return {
            parts["header"]: render("label_header", progress=progress, owner=owner),
            parts["progress"]: task_progress_html(progress, copy_error),
            **self.answers.show_task(report, of_run),
            parts["open"]: gr.update(visible=status != "open"),
            parts["paused"]: gr.update(visible=status == "open"),
            parts["closed"]: gr.update(visible=status in ("open", "paused")),
        }

    def _written(self, visitor: Visitor, owner: OwnerKey, report: StudyReport, download: str) -> Path:
        tables = {"labels:csv": ("labels.csv", rater_labels), "labels:crowd": ("prolific.csv", crowd_frame)}
        if download == "labels:zip":
            return export_labels(self.services.labels, owner, visitor.folder / "labels.zip")
        if download not in tables:
            return take(report, download, visitor.folder)
        name, frame_of = tables[download]
        path = visitor.folder / name
        path.write_bytes(csv_bytes(frame_of(self.services.labels, owner)))
        return path
