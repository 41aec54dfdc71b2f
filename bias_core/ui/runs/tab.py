"""The Runs tab: the visitor's earlier runs, a comparison of several, and uploaded pictures."""

import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import gradio as gr
from markupsafe import Markup

from bias_core.errors import InvalidInput
from bias_core.explore.options import KIND
from bias_core.explore.study import UNMEASURED
from bias_core.report.report_text import get_title
from bias_core.report.saved import EXAMPLE, Example, SavedReport, list_examples, open_example
from bias_core.run import history
from bias_core.run.plan import settle
from bias_core.run.run import run_study
from bias_core.services import Services
from bias_core.store.found_pictures import key
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import MOST_ARMS, NOBODY, Design, Progress, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.places import Places
from bias_core.ui.runs.compare import KIND as COMPARISON, comparison_report, split_comparison
from bias_core.ui.runs.published import PublishedFold
from bias_core.ui.study.comparison import SameSeed
from bias_core.ui.study.own_pictures import OWN, Arrived, present
from bias_core.ui.study.parts import example_html, skeleton_html, when
from bias_core.ui.study.result_page import SHARE_NOTE
from bias_core.ui.study.shown_report import build_shown_report
from bias_core.ui.study.study_tab import QUIET, StudyTab
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, run_queued, then_run

Updates = dict[Any, Any]
_SEEN_JS = "() => { document.querySelector('#label-source')?.scrollIntoView({block: 'center'}); }"
_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class Fit:
    """The pictures of an import that fit a study."""

    design: Design  # of the study
    # n_found, n_asked: pictures that it would take, and asks for at full size; `n_asked` 0: it takes all
    n_found: int
    n_asked: int
    examples: tuple[str, ...] = ()  # some of the prompts that it asks for


def list_fits(counts: Mapping[str, int]) -> tuple[Fit, ...]:
    """Every study with the pictures that it could measure, those that can run first."""
    fits = [Fit(design=find_design(KIND), n_found=sum(counts.values()), n_asked=0)]
    fits += [_fit(design, counts) for design in list_designs() if design.kind != KIND]
    return tuple(sorted(fits, key=lambda fit: (fit.n_found == 0, fit.n_asked > 0)))


def _fit(design: Design, counts: Mapping[str, int]) -> Fit:
    request, by_key = settle(design, StudySettings()), {key(prompt): n for prompt, n in counts.items()}
    shots = request.requested_shots
    n_found = sum(min(shot.n, by_key.get(key(shot.prompt), 0)) for shot in shots)
    return Fit(
        design=design,
        n_found=n_found if shots else sum(counts.values()),
        n_asked=sum(shot.n for shot in shots),
        examples=tuple(dict.fromkeys(shot.prompt for shot in shots))[:_EXAMPLES],
    )


class RunsTab(StudyTab):
    key: ClassVar = "runs"
    title: ClassVar = "Runs"
    group: ClassVar = "Runs"
    place: ClassVar = 80
    question: ClassVar = "What did I run before, and what do my own pictures show?"
    caution: ClassVar = (
        "Only this browser shows this list. When the server's storage is full, the oldest pictures are deleted, and "
        "later the reports, except of runs that you mark with “Keep”."
    )
    studies: ClassVar = ()
    also: ClassVar = (UNMEASURED.kind,)

    def build_beside(self) -> dict[str, Any]:
        self.same_seed = SameSeed(self.key)
        return {f"same seed {i}": part for i, part in enumerate(self.same_seed.outputs())}

    def show_at_once(self, report: StudyReport) -> Updates:
        """Show the same seed in two runs of a comparison."""
        return self.same_seed.show(report)

    def connect(self, places: Places, tabs: Mapping[str, Any]) -> None:
        """Wire events that open other tabs or change them; ``tabs`` are their builders by key."""
        self.places, shown = places, places.shown[self.key]
        self.label = tabs["label"]
        self.others = [tab for tab in tabs.values() if isinstance(tab, StudyTab) and tab is not self]
        parts, visitor = self.parts, self.parts["visitor"]
        everywhere = [*places.outputs(), parts["list"], *self.outputs()]
        for tab in self.others:
            everywhere += [*tab.opened_outputs(), *tab.own_pictures.outputs()]
        self.everywhere = everywhere = list(dict.fromkeys(everywhere))
        gr.on([shown.select, parts["list"].edit], self.on_list, [visitor, parts["deleted"]], parts["list"], **QUIET)
        parts["list"].expand(self.on_open, visitor, everywhere, **QUIET)
        compare = self.compare
        compare.wire(visitor, shown, self.changed)
        self.published.wire(visitor, parts["list"])
        compare.button.click(self.on_compare, [visitor, compare.first, compare.second], self.outputs(), **QUIET)
        buttons = [parts["status"], parts["at_work"], parts["stop"], self.drawing.html]
        label_outputs = [*places.outputs(), parts["list"], *buttons, *self.label.making.source_outputs()]
        quiet = {"queue": False, **QUIET}
        click = parts["list"].submit(self.on_wanted, visitor, [parts["wanted"], *buttons], **quiet)
        then_run(click.then, self.on_again, [visitor, parts["wanted"]], everywhere, self.on_crash)
        for tab in self.others:
            own_pictures = tab.own_pictures
            clicks = [button.click for button in (own_pictures.label, tab.no_classifier.label)]
            click = gr.on(clicks, self.on_label_click, visitor, [*self.places.outputs(), *buttons], **quiet)
            ended = then_run(click.then, self.on_label, [visitor, own_pictures.arrived], label_outputs, self.on_crash)
            ended.success(None, js=_SEEN_JS, **QUIET)
            for event in own_pictures.events:
                event.then(self.on_arrived, own_pictures.arrived, own_pictures.fits, **QUIET)
            own_pictures.fits.select(self.on_fit, [visitor, own_pictures.arrived], everywhere, **QUIET)
        explorer = tabs[KIND]
        shown = [*places.outputs(), *explorer.source_outputs()]
        parts["bring"].click(self.on_bring, explorer.own_pictures.arrived, shown, **QUIET)

    def build_memory(self) -> None:
        """Remember the shown report; there is no form."""
        self.parts["report"] = build_shown_report(self.key, self.services)

    def _build_ask(self) -> None:
        parts = self.parts
        parts["deleted"], parts["wanted"] = gr.State(None), gr.State("")
        gr.HTML(messages.heading_html("Your runs"))
        parts["list"] = gr.HTML(
            skeleton_html("row", "row", "row"), js_on_load=script("runs") + script("copy_link"), elem_id="runs-list"
        )
        self.compare = ComparePart(self.services, {example.name for example in self.examples.listed})
        self.compare.build()
        self.published = PublishedFold(self.services)
        self.published.build()
        with gr.Row(elem_classes="tools"):
            look: dict[str, Any] = {"size": "sm", "scale": 0, "min_width": 240}
            parts["bring"] = gr.Button("Measure your own pictures", elem_id="runs-import", **look)
            parts["stop"] = gr.Button("Stop", **self.get_look("stop"))  # stops runs of the list

    def _wire(self, demo: gr.Blocks) -> None:
        parts, visitor = self.parts, self.parts["visitor"]
        parts["status"].value = ""
        acted = [parts["list"], parts["status"], parts["deleted"]]
        self.changed = parts["list"].select(self.on_act, [visitor, parts["deleted"]], acted, **QUIET)
        self.wire_stop(parts["stop"], parts["status"])
        self.wire_at_work()
        self.wire_results()
        self.same_seed.wire(parts["report"], self.pictures.grid)

    def on_list(self, visitor: Visitor, deleted: history.Deleted | None = None) -> str:
        """The current list, with gallery runs; the last deletion can be undone."""
        with messages.user_errors() as problem:
            lines = history.list_runs(self.services, visitor.key)
            examples = {} if lines else shipped_examples(self.services)
            gallery, note = history.list_gallery(self.services)
            at_work = self.services.run_queue.find(visitor.key)
            running = next((line.run_id for line in lines if at_work and line.status == "running"), "")
            waiting = "" if at_work is None or running else at_work.place.title()
            return runs_html([*lines, *gallery], deleted, examples, note, running, waiting)
        return messages.error_html(problem.message)

    def on_act(self, visitor: Visitor, deleted: history.Deleted | None, event: gr.EventData) -> Updates:
        """Keep, release, share, describe, delete, restore or stop a run."""
        parts, act, run = self.parts, str(event.act), (self.services, visitor.key, str(event.run))
        with messages.user_errors() as problem:
            if act in ("name", "note"):  # the list shows what was typed
                texts: dict[str, Any] = {act: str(event.text)}
                history.describe_run(*run, **texts)
                return {parts["status"]: messages.done_html(f"Saved the {act}.")}
            if act == "delete":
                deleted = history.delete_run(*run)
            elif act == "undo" and deleted is not None:
                history.restore_run(self.services, visitor.key, deleted)
                deleted = None
            elif act == "stop":
                self.on_stop(visitor)
            elif act in ("keep", "free"):
                history.keep_run(*run, act == "keep")
            elif act in ("share", "unshare"):
                history.share_run(*run, act == "share")
        return {
            parts["list"]: self.on_list(visitor, deleted), parts["deleted"]: deleted,
            parts["status"]: messages.error_html(problem.message) if problem else "",
        }  # fmt: skip

    def on_open(self, visitor: Visitor, event: gr.EventData) -> Updates:
        """Show a run's report in the tab of its study, or the tab of a running one."""
        run_id, at_work = str(event.run), self.services.run_queue.find(visitor.key)
        if getattr(event, "act", "open") == "watch":
            return self.places.open(at_work.place if at_work else self.key)
        with messages.user_errors() as problem:
            saved, banner = open_any(self.services, visitor, run_id)
            return self._show(saved, banner=banner)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_compare(self, visitor: Visitor, first: str | None, other_runs: Sequence[str]) -> Updates:
        with messages.user_errors() as problem:
            report = self.compare.compared(visitor, first, other_runs)
            text = messages.done_html(f"Compared: {get_title(report)}.", self.element("header"))
            return self.finished(report) | {self.parts["status"]: text}
        return {self.parts["status"]: messages.error_html(problem.message, self.element("ask"))}

    def first_view(self, visitor: Visitor) -> Updates:
        """Show an example until there are runs, which open in the tabs of their studies."""
        if history.list_runs(self.services, visitor.key):
            return {self.parts["header"]: ""}
        return super().first_view(visitor) | {self.parts["status"]: ""}

    def classification_html(self, report: StudyReport, image_id: str) -> str:
        """In a comparison, the explanation from the picture's own run."""
        return next(
            filter(
                None, (super(RunsTab, self).classification_html(side, image_id) for side in split_comparison(report))
            ),
            "",
        )

    def show_numbers(self, report: StudyReport) -> Updates:
        """Show no command for a comparison of finished runs, because it is no run."""
        shown, copied = super().show_numbers(report), [self.parts[name] for name in ("shell", "python", "link")]
        if report.design.kind == COMPARISON:
            return shown | {part: gr.update(value="", visible=False) for part in copied}
        return shown | {part: gr.update(value=shown[part], visible=True) for part in copied[:-1]}

    def link(self, report: StudyReport) -> str:
        return self._home(report.design).link(report) if self._home(report.design) is not self else super().link(report)

    def on_wanted(self, visitor: Visitor, event: gr.EventData) -> Updates:
        return self.on_click(visitor) | {self.parts["wanted"]: str(event.run)}

    def on_again(self, visitor: Visitor, run_id: str) -> Iterator[Updates]:
        cancelled = visitor.stop.is_set
        yield from self._follow(visitor, lambda: history.go_on(self.services, visitor.key, run_id, cancelled=cancelled))

    def on_bring(self, arrived: Arrived | None) -> Updates:
        """Open Explore with the visitor's pictures."""
        explorer = self._home(find_design(KIND))
        return self.places.open(explorer.key) | explorer.show_source(OWN, arrived)

    def on_arrived(self, arrived: Arrived | None) -> str:
        """List the studies that can measure the pictures."""
        is_usable = arrived is not None and bool(arrived.look.prompts)
        return render("fits", fits=list_fits(arrived.look.counts)) if arrived is not None and is_usable else ""

    def on_fit(self, visitor: Visitor, arrived: Arrived | None, event: gr.EventData) -> Updates:
        """Open the form of a study with the pictures."""
        design = find_design(str(event.study))
        tab = self._home(design)
        key = tab.get_design_key(design)
        values = {**(visitor.typed.get(key) or tab.first_values(key)), "percent": 100}
        if values.get("study", design.name) != design.name:
            values |= tab.option_values(design.name)
        visitor.typed[key] = values = values | {"study": design.name}  # a paper that is opened shows them
        shown = tab.fill(values) | tab.own_pictures.show(arrived) | tab.show_source(OWN, arrived)
        return self.places.open(key) | shown

    def on_label_click(self, visitor: Visitor) -> Updates:
        return self.on_click(visitor) | self.places.open(self.key)

    def on_label(self, visitor: Visitor, imported: Arrived | None) -> Iterator[Updates]:
        """Save the import as an unmeasured run and make a labelling task of it."""
        cancelled = visitor.stop.is_set

        def start() -> Generator[Progress, None, StudyReport]:
            settings = present(imported).choice.apply(StudySettings(encoder=NOBODY))
            return run_study(UNMEASURED, settings, self.services, cancelled=cancelled, session=visitor.key)

        def show(report: StudyReport) -> Updates:
            updates = {**self.places.open(self.label.key), self.parts["status"]: ""}
            return updates | self.label.making.labelling(visitor, report.run_id)

        yield from self._follow(visitor, start, show)

    def get_error_buttons(self, problem: messages.Problem) -> dict[str, str]:
        """None: each run of the list has its own button."""
        return {}

    def _follow(self, visitor: Visitor, start: Any, show: Any = None) -> Iterator[Updates]:
        if self.note_at_work(visitor):  # the press has asked
            return
        with messages.user_errors() as problem:
            yield from self.following(visitor, run_queued(self.services, visitor, start, self.key), self.key, show=show)
        if problem:
            yield self.refused(problem)

    def ended(self, visitor: Visitor) -> Updates:
        return {self.parts["list"]: self.on_list(visitor)}

    def done(self, report: StudyReport) -> Updates:
        return self._show(SavedReport(report=report, created=time.time()), f"Done in {report.seconds:.1f} s.")

    def find_tab_key(self, design: Design) -> str:
        return self._home(design).get_design_key(design)

    def _home(self, design: Design) -> StudyTab:
        return next((tab for tab in self.others if tab.claims(design)), self)

    def _show(self, saved: SavedReport, says: str = "", banner: str = "") -> Updates:
        """Show a report below its ``banner``, in its own tab or here."""
        tab = self._home(saved.report.design)
        key = self.find_tab_key(saved.report.design)
        updates = {} if tab is self else {**self.places.open(key), self.parts["status"]: ""}
        return (
            updates | tab.show_saved(saved, banner) | ({tab.parts["status"]: messages.done_html(says)} if says else {})
        )

    def _buttons(self, *, running: bool) -> Updates:
        return {self.parts["stop"]: gr.update(visible=running)}


def shipped_examples(services: Services) -> Mapping[str, tuple[Example, SavedReport]]:
    """The shipped examples by name: finished runs that anyone can open."""
    folder = services.settings.assets_dir / "examples"
    return {example.name: (example, open_example(example, folder)) for example in list_examples(folder=folder)}


def open_any(services: Services, visitor: Visitor, run_id: str) -> tuple[SavedReport, str]:
    """The report and banner of the visitor's run, or of one that everyone may see."""
    if run_id.startswith((history.GALLERY, history.SHARED)) or run_id in shipped_examples(services):
        return open_public(services, run_id)
    return history.open_run(services, visitor.key, run_id), ""


def open_public(services: Services, run_id: str) -> tuple[SavedReport, str]:
    """The report and banner of an example, a gallery run, or a run that its visitor shares; else InvalidInput."""
    if (example := shipped_examples(services).get(run_id.removeprefix(EXAMPLE))) is not None:
        return example[1], example_html(example[1], example[0])
    if run_id.startswith(history.GALLERY):
        return history.open_gallery_run(services, run_id), render("gallery_note")
    return history.open_shared_run(services, run_id), render("shared_note")


def open_linked(services: Services, visitor: Visitor, run_id: str) -> tuple[SavedReport, str]:
    """The report and banner of the result that an address names: the visitor's own run, or :func:`open_public`."""
    with suppress(InvalidInput):
        return history.open_run(services, visitor.key, run_id), ""
    return open_public(services, run_id)


class ComparePart:
    """The menus of a baseline and of the runs that are compared with it, and the button that compares them."""

    def __init__(self, services: Services, first_examples: Collection[str] = ()) -> None:
        self.services, self.first_examples = services, first_examples

    def build(self) -> None:
        with gr.Row(elem_classes="compare-two"):
            self.first = gr.Dropdown([], label="Baseline", elem_id="compare-first", min_width=240)
            self.second = gr.Dropdown(
                [], multiselect=True, max_choices=MOST_ARMS - 1, label="Compare with it", elem_id="compare-second",
                min_width=240,
            )  # fmt: skip
            self.button = gr.Button("Compare", size="sm", scale=0, min_width=140, elem_id="compare-runs")

    def wire(self, visitor: Any, shown: Any, changed: Any) -> None:
        """Update the menus when their ``gr.Tab``, ``shown``, opens, and after the event ``changed`` of the list."""
        menus = [self.first, self.second]
        for event in (shown.select, changed.then):
            event(self.on_list, [visitor, *menus], menus, **messages.QUIET)

    def on_list(self, visitor: Visitor, first: str | None = None, other_runs: Sequence[str] = ()) -> Updates:
        """The current menus; without a choice, two comparable runs."""
        own_runs = [line for line in history.list_runs(self.services, visitor.key) if line.saved]
        gallery, _ = history.list_gallery(self.services)
        examples = shipped_examples(self.services)
        choices = [
            (f"{line.name or line.title} · {line.model} · {when(line.updated)}", line.run_id) for line in own_runs
        ]
        choices += [(f"{line.title} · gallery", line.run_id) for line in gallery]
        choices += [(f"{example.title} · example", name) for name, (example, _) in examples.items()]
        studies = {line.run_id: line.study for line in (*own_runs, *gallery)}
        names = sorted(examples, key=lambda name: name not in self.first_examples)
        of_arms = {name: " in arms" * bool(examples[name][1].report.arms) for name in names}
        studies |= {name: examples[name][1].report.design.name + of_arms[name] for name in names}
        other_runs = [run_id for run_id in other_runs or () if run_id in studies]
        if first not in studies or not other_runs:
            first, second = _two_alike(studies)
            other_runs = [second] if second else []
        return {
            self.first: gr.update(choices=choices, value=first),
            self.second: gr.update(choices=choices, value=other_runs),
        }

    def compared(self, visitor: Visitor, first: str | None, other_runs: Sequence[str]) -> StudyReport:
        """The comparison of the others with the first; InvalidInput if they cannot be compared."""
        found = [self._report(visitor, choice) for choice in (first, *(other_runs or [""]))]
        return comparison_report([report for report, _ in found], [title for _, title in found])

    def _report(self, visitor: Visitor, choice: str | None) -> tuple[StudyReport, str]:
        if not choice:
            raise InvalidInput("choose a baseline and at least one run to compare with it")
        saved, _ = open_any(self.services, visitor, choice)
        title = get_title(saved.report)
        if choice.startswith(history.GALLERY):
            return saved.report, f"{title} (gallery)"
        is_own = saved.report.run_id == choice  # an example has an id of its own
        return saved.report, f"{title} (yours, {when(saved.created)})" if is_own else title


def _two_alike(studies: Mapping[str, str]) -> tuple[str | None, str | None]:
    for first, study in studies.items():
        for second, second_study in studies.items():
            if first != second and study == second_study:
                return first, second
    return None, None


def runs_html(
    lines: Sequence[history.ListedRun],
    deleted: history.Deleted | None = None,
    examples: Mapping[str, tuple[Example, SavedReport]] | None = None,
    note: str = "",
    running: str = "",
    waiting: str = "",
) -> str:
    """The list of runs with their actions, and the examples; the last deletion can be undone.

    ``note`` names gallery runs that cannot be read; ``running`` is the id of the running one; ``waiting`` is the title
    of the tab whose run waits for its turn.
    """
    shown = [Markup(_line_html(line, is_running=line.run_id == running)) for line in lines]
    return render(
        "runs", lines=shown, deleted=deleted, examples=examples or {}, note=note, waiting=waiting,
        has_own=bool(waiting) or not all(line.in_gallery for line in lines),
    )  # fmt: skip


_STATES = {"cancelled": "stopped", "running": "interrupted"}
_ACTS = {
    "open": ("Open", "Show its report"),
    "watch": ("Watch", "Open the tab that shows its progress"),
    "stop": ("Stop", "Finished pictures are measured and kept"),
    "again": ("Run again", "Same settings; finished pictures are reused"),
    "keep": ("Keep", "Never delete its pictures and report to make room"),
    "free": ("Do not keep", "Allow deleting its pictures and report to make room"),
    "share": ("Share a link", SHARE_NOTE),
    "delete": ("Delete", "Delete it; you can undo this until the next deletion"),
}


@lru_cache(maxsize=4_000)
def _line_html(line: history.ListedRun, *, is_running: bool) -> str:
    """A run in the list; made once, because a list of hundreds would take long."""
    state = "running" if is_running else _STATES.get(line.status, line.status)
    state += ", from the gallery" if line.in_gallery else ", kept" if line.is_kept else ""
    stored = "still stored" if line.status == "finished" else "drawn"
    there = f", {line.n_stored:,} {stored}" if line.n_stored != line.n_pictures else ""
    size = f"{line.n_bytes / 1e6:,.1f} MB" if line.n_bytes >= 1e5 else f"{line.n_bytes / 1e3:,.0f} kB"
    facts = (
        line.title if line.name else "", line.study, ", ".join(filter(None, (line.model, line.condition))),
        line.choices, f"{line.n_pictures:,} pictures{there}, {size}", line.labelled_by, when(line.updated),
    )  # fmt: skip
    # Share goes when it is pressed: no other button must move under the pointer.
    own_acts = ["again", "free" if line.is_kept else "keep", "delete", *["share"] * (line.saved and not line.is_shared)]
    acts = [*["open"] * line.saved, *(["watch", "stop"] if is_running else [] if line.in_gallery else own_acts)]
    return render(
        "run_line", line=line, name=line.name or line.title, state=state, is_running=is_running,
        facts=filter(None, facts), pictures=[f"gradio_api/file={path}" for path in line.pictures],
        acts=[(act, "Continue" if act == "again" and line.may_go_on else _ACTS[act][0], _ACTS[act][1]) for act in acts],
        most_name=history.MOST_NAME, most_note=history.MOST_NOTE,
    )  # fmt: skip
