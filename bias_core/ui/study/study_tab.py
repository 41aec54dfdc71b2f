"""What every study tab does: a preset or a form in, a run that can be stopped, a report out.

A tab is a subclass that says its question, presets and studies, and adds what only it shows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.kit.designs import designs_in, find_design, program_of
from bias_core.studies.kit.own_words import settings_with
from bias_core.studies.kit.types import StudyReport, StudySettings
from bias_core.studies.reports.text import further_tables
from bias_core.studies.running.arms import MOST_ARMS, each_arm
from bias_core.studies.running.export import to_command, to_python
from bias_core.studies.running.run import followed, run_study, with_options
from bias_core.studies.running.size import check_number
from bias_core.ui import messages
from bias_core.ui.links import address_of
from bias_core.ui.messages import user_errors
from bias_core.ui.page import ABSOLUTE_JS
from bias_core.ui.run_turns import RUN, in_line
from bias_core.ui.study import form as study_form
from bias_core.ui.study import view as study_html
from bias_core.ui.study.arms_form import ArmsForm
from bias_core.ui.study.downloads import take
from bias_core.ui.study.open import Opening, by_name
from bias_core.ui.study.pictures import build_pictures, show_pictures, wire_pictures
from bias_core.ui.study.words import headline
from bias_core.ui.visitor import Visitor  # noqa: TC001 (Gradio reads the handlers' annotations)

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.services import Services
    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import Design, StudyFigure, StudyTable
    from bias_core.ui.study.form import Preset

Updates = dict[Any, Any]
PRIVATE: dict[str, Any] = {"api_visibility": "private"}
_AFTER_STUDIES = 60  # place of a tab that a study does not have itself
EQUAL = "no difference reads"
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
SHOWN = (
    "report", "status", "run", "stop", "results", "extra", "header", "findings", "figures", "tables", "notes",
    "shell", "python", "link",
)  # fmt: skip


class StudyTab(Opening):
    """A tab that runs studies.

    Attributes
    ----------
    key : prefix of its element ids, and its name in links.
    title : on the tab.
    place : among the tabs, from left to right.
    question : one sentence: what this screen answers.
    caution : what not to conclude from it.
    studies : names of its designs, the first one chosen; those of its folder need not be named.
    presets : one click each.
    null_words : heading of the column of null values.
    remembered : components whose values the browser keeps.
    own_options : which of the form's options hold for words of one's own, too.
    """

    key: ClassVar[str]
    title: ClassVar[str]
    place: ClassVar[int]
    question: ClassVar[str]
    caution: ClassVar[str] = ""
    studies: ClassVar[Sequence[str]] = ()
    presets: ClassVar[Sequence[Preset]] = ()
    null_words: ClassVar[str] = study_html.NULL
    remembered: ClassVar[Sequence[str]] = study_form.REMEMBERED
    own_options: ClassVar[Collection[str]] = ()

    def __init__(self, services: Services) -> None:
        self.services = services
        self.designs = {name: find_design(name) for name in self.studies}
        self.form: dict[str, Any] = {}
        self.own: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}

    def __init_subclass__(cls) -> None:
        folder = Path(sys.modules[cls.__module__].__file__ or "").parent
        cls.studies = tuple(dict.fromkeys([*cls.studies, *designs_in(folder)]))

    # What a tab adds.

    def build_top(self) -> None:
        """What stands between the question and the form."""

    def build_own(self) -> dict[str, Any]:
        """Inputs for words of one's own, by name; called inside of an accordion. Without: no accordion.

        They are used once the box above them is ticked, which typing does and a preset undoes.
        """
        return {}

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:  # noqa: ARG002
        """The design with the visitor's own words in it; ``own`` has the values of ``build_own``."""
        return design

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """The form's settings as they suit that design: all of its pictures, and those of its options."""
        return settings_with(settings, self.own_options)

    def build_extra(self) -> dict[str, Any]:
        """Components between the numbers and the figures, by name; hidden until there is a report."""
        return {}

    def show_extra(self, report: StudyReport) -> Updates:  # noqa: ARG002
        """Updates of these components for a report."""
        return {}

    def wire_extra(self) -> None:
        """Events of these components."""

    def growing(self) -> Callable[[Progress], Updates]:
        """For one run: what each step shows beside its progress."""
        return lambda _step: {}

    def ended(self, visitor: Visitor) -> Updates:  # noqa: ARG002
        """What changes beside the report when a run ended."""
        return {}

    def done(self, report: StudyReport) -> Updates:
        """The report of a run that ended here."""
        return self.finished(report)

    def report_before(self, values: Sequence[Any]) -> StudyReport | None:  # noqa: ARG002
        """What is shown again where a run has no report; ``values`` are of :meth:`inputs`."""
        return None

    def picture_html(self, report: StudyReport, row: pd.Series[Any]) -> str:  # noqa: ARG002
        """One picture large in the tab's own way; "" for the usual way."""
        return ""

    def headline(self, report: StudyReport) -> str:
        """One sentence on what was found."""
        return headline(report)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """The figures that are shown as they are; leave out what the tab shows in its own way."""
        return report.results.figures

    def tables(self, report: StudyReport) -> Sequence[StudyTable]:
        """The tables that are listed."""
        return report.results.tables

    # Layout.

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; called inside of its ``gr.Tab``."""
        self.parts["visitor"] = visitor
        self.parts["report"] = gr.State(None)
        gr.HTML(messages.question_html(self.question, self.caution))
        self.build_top()
        with gr.Column(elem_classes="card ask"):
            self._build_ask()
        self.parts["status"] = gr.HTML(messages.READY, elem_id=f"{self.key}-status")
        self._build_results()
        self._wire(demo)

    def _build_ask(self) -> None:
        with gr.Row(elem_classes="chips"):
            chips = [
                gr.Button(preset.name, size="sm", min_width=0, scale=0, elem_id=f"{self.key}-preset-{i}")
                for i, preset in enumerate(self.presets)
            ]
            self.build_examples()
        self.parts["chips"] = chips
        self.form |= study_form.build_form(self.key, list(self.designs.values()), self.services)
        if type(self).build_own is not StudyTab.build_own:
            with gr.Accordion("Your own words", open=False, elem_classes="more", elem_id=f"{self.key}-own"):
                self.parts["use_own"] = gr.Checkbox(
                    False,
                    label="Run with these instead of the study above",
                    elem_id=f"{self.key}-use-own",
                    container=False,
                )
                self.own = self.build_own()
        study_form.build_more(self.key, self.form, list(self.designs.values()), self.services)
        self.arms = ArmsForm(self.key, self.services)
        with gr.Row(elem_classes="tools"):
            self.parts["run"] = gr.Button(
                "Run and measure", variant="primary", elem_id=f"{self.key}-run", scale=0, min_width=200
            )
            self.parts["stop"] = gr.Button(
                "Stop", variant="stop", elem_id=f"{self.key}-stop", scale=0, min_width=200, visible=False
            )
            self.parts["count"] = gr.HTML(elem_classes="quiet", elem_id=f"{self.key}-count")

    def _build_results(self) -> None:
        key, parts = self.key, self.parts
        with gr.Column(visible=False, elem_id=f"{key}-results", elem_classes="results") as parts["results"]:
            parts["header"] = gr.HTML(elem_id=f"{key}-header", elem_classes="header")
            with gr.Column(elem_classes="card"):
                parts["findings"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-findings")
            with gr.Column() as parts["extra"]:
                self.extra = self.build_extra()
            parts["figures"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-figures")
            self.pictures = build_pictures(key)
            with gr.Column(elem_classes="card"):
                parts["tables"] = gr.HTML(js_on_load=study_html.TAKE_JS, elem_id=f"{key}-tables")
                parts["notes"] = gr.HTML()
            parts.update(study_form.build_take(key))

    # Wiring.

    def inputs(self) -> list[Any]:
        """The form's components in their order, the arms, then the tab's own and whether to use them."""
        own = [*self.own.values(), self.parts["use_own"]] if self.own else []
        return [*(self.form[name] for name in self.fields()), self.arms.chosen, *own]

    def fields(self) -> list[str]:
        """The names of the form's components, in the order in which handlers receive their values."""
        return [*study_form.FIELDS, *study_form.option_names(self.form)]

    def outputs(self) -> list[Any]:
        """Everything that a finished run changes."""
        return [*(self.parts[n] for n in SHOWN), *self.pictures.outputs(), *self.extra.values()]

    def _wire(self, demo: gr.Blocks) -> None:
        parts = self.parts
        self._wire_run(parts["run"].click)
        if parts["chips"]:
            self._wire_run(self.on_any("click", parts["chips"], self.on_preset, None, self.filled()).then)
        parts["stop"].click(self.on_stop, parts["visitor"], parts["status"], queue=False, **QUIET)
        self.wire_form()
        self.wire_take(*(parts[name] for name in ("findings", "figures", "tables", "takes")))
        remembered = [self.form[name] for name in self.remembered]
        self.on_any("input", remembered, self.on_remember, remembered, parts["remembered"], queue=False)
        demo.load(self.on_load, parts["remembered"], self.linked(), **QUIET)
        parts["link"].change(None, parts["link"], parts["link"], js=ABSOLUTE_JS, **QUIET)
        wire_pictures(self.pictures, self.picture_html)
        self.arms.wire(self.form["model"])
        self.wire_examples()
        self._wire_own()
        self.wire_extra()

    def wire_form(self) -> None:
        """What changes the form itself."""
        parts, form = self.parts, self.form
        options = [form[name] for name in study_form.option_names(form)]
        changed = [*options, form["steps"], form["guidance"]]
        form["study"].input(self.on_study, form["study"], changed, **QUIET)
        form["model"].input(self.on_model, form["model"], self.suited(), **QUIET)
        counted = [*(form[name] for name in ("study", "percent")), *self.inputs()[len(study_form.FIELDS) :]]
        self.on_any("change", counted, self.on_count, self.inputs(), parts["count"])

    def linked(self) -> list[Any]:
        """Everything that :meth:`on_load` changes."""
        options = [self.form[name] for name in study_form.option_names(self.form)]
        fields = [self.form[name] for name in dict.fromkeys((*self.remembered, *study_form.LINKED))]
        return [*fields, *options, *self.arms.outputs(), self.parts["count"]]

    def on_any(self, event: str, components: Sequence[Any], fn: Any, inputs: Any, outputs: Any, **options: Any) -> Any:
        """One quiet listener for an event of several components; the page starts faster than with many."""
        triggers = [getattr(component, event) for component in components]
        return gr.on(triggers, fn, inputs, outputs, **QUIET, **options)

    def wire_take(self, *components: Any) -> None:
        """Let the take buttons inside of each ``gr.HTML`` with ``TAKE_JS`` work."""
        parts = self.parts
        written = self.on_any(
            "select", components, self.on_take, [parts["visitor"], parts["report"]], [parts["file"], parts["status"]]
        )
        save = f"() => setTimeout(() => document.querySelector('#{self.key}-file')?.click(), 300)"
        written.success(None, js=save, **QUIET)

    def _wire_own(self) -> None:
        """Typing one's own words chooses them; another study chooses that study."""
        for component in self.own.values():
            # Text that is pasted with the mouse is a change but no input to Gradio.
            changed = component.change if isinstance(component, gr.Textbox) else component.input
            changed(None, None, self.parts["use_own"], js="() => true", **QUIET)
        if self.own:
            self.form["study"].input(None, None, self.parts["use_own"], js="() => false", **QUIET)

    def _wire_run(self, trigger: Any) -> None:
        parts = self.parts
        asked = trigger(
            self.on_click, parts["visitor"], [parts["status"], parts["run"], parts["stop"]], queue=False, **QUIET
        )
        run = asked.then(
            self.on_run,
            [parts["visitor"], *self.inputs()],
            self.outputs(),
            show_progress="hidden",
            trigger_mode="multiple",
            **RUN,
            **PRIVATE,
        )
        run.failure(self.on_crash, None, [parts["status"], parts["run"], parts["stop"]], **QUIET)

    # Handlers.

    def on_preset(self, event: gr.EventData) -> Updates:
        """Fill the form with the preset whose button was pressed."""
        return self.preset_updates(self.parts["chips"].index(event.target))

    def preset_updates(self, place: int) -> Updates:
        """The form as a preset has it."""
        preset = self.presets[place]
        return self.form_of(self.designs[preset.study], StudySettings(**preset.settings))

    def on_click(self, visitor: Visitor) -> Updates:
        """Take a turn in the queue; a run of the same visitor that is still at work ends."""
        visitor.start()
        return self._buttons(running=True) | {self.parts["status"]: messages.QUEUED}

    def on_stop(self, visitor: Visitor) -> str:
        """Ask the run to end at its next step."""
        visitor.stop.set()
        return messages.STOPPING

    def on_run(self, visitor: Visitor, *values: Any) -> Iterator[Updates]:
        """Run the study and show where it is, then what it found."""
        with user_errors() as problem:
            self.check_number(values)
            steps = in_line(self.services, visitor, lambda: self.steps(visitor, values), self.key)
            yield from self.following(visitor, steps, last=self.report_before(values))
        if problem:
            yield self._buttons(running=False) | {self.parts["status"]: messages.error_html(problem.message)}

    def following(
        self,
        visitor: Visitor,
        steps: Generator[Progress, None, Any],
        note: str = "",
        *,
        last: StudyReport | None = None,
        show: Callable[[StudyReport], Updates] | None = None,
    ) -> Iterator[Updates]:
        """A run on its way, with a note below, and then its report; without one, the ``last`` comes back."""
        found: list[StudyReport] = []
        pace, growing, status = messages.Pace(), self.growing(), self.parts["status"]
        yield self._buttons(running=True) | {status: note or messages.LOADING}
        with user_errors() as problem:
            for step in followed(steps, found):
                if pace.is_due():
                    yield {status: messages.progress_html(step) + note} | growing(step)
        ended = self._buttons(running=False) | self.ended(visitor)
        if found:
            yield ended | (show or self.done)(found[0])
        else:
            before = {} if last is None else self.finished(last)
            yield before | ended | {status: messages.error_html(problem.message)}

    def on_crash(self) -> Updates:
        """Show that an unforeseen error happened; the log has it."""
        return self._buttons(running=False) | {self.parts["status"]: messages.crash_html()}

    def on_take(self, visitor: Visitor, report: StudyReport | None, event: gr.EventData) -> Updates:
        """Write what was asked for; the page then fetches it."""
        with user_errors() as problem:
            if report is not None:
                return {self.parts["file"]: str(take(report, str(event.take), visitor.folder))}
            problem.message = messages.NOTHING_DONE
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_study(self, name: str) -> Updates:
        """The options of another study."""
        return self.options_of(name) | {self.form["steps"]: None, self.form["guidance"]: None}

    def on_model(self, name: str) -> Updates:
        """The conditions of another model."""
        with user_errors() as problem:
            return self.suited_to(name)
        return {self.parts["status"]: messages.error_html(problem.message)}

    def on_count(self, *values: Any) -> str:
        """How many pictures these settings ask for; nothing is said of settings that cannot be used."""
        with user_errors():
            design, settings = self.asked(values)
            arms = each_arm(with_options(design, settings))
            drawn = [arm for arm in arms if not (arm.images and arms[1:])]
            shots = [shot for arm in drawn for shot in program_of(design).shots(design, arm)]
            n, prompts = sum(shot.n for shot in shots), len({shot.prompt for shot in shots})
            with user_errors() as too_many:
                self.check_number(values)
            count = f"{n:,} pictures of {prompts:,} prompt{'s' * (prompts > 1)}" if n else ""
            return messages.warning_html(too_many.message) or f"{count}{self._of_arms(arms)}"
        return ""

    def _of_arms(self, arms: Sequence[StudySettings]) -> str:
        """How many arms are drawn, and what one run may have; "" of a single one."""
        if len(arms) < 2:
            return ""
        brought = sum(bool(arm.images) for arm in arms)
        beside = f", {brought} of them of pictures brought along" if brought else ""
        limit = f"{self.services.settings.max_images:,} pictures in {MOST_ARMS} arms"
        return f" in {len(arms)} arms{beside}; a run has at most {limit}"

    # Steps of the handlers.

    def steps(self, visitor: Visitor, values: Sequence[Any]) -> Generator[Progress, None, StudyReport]:
        """The run that the form asks for; it ends when this visitor stops it."""
        design, settings = self.asked(values)
        return run_study(design, settings, self.services, cancelled=visitor.stop.is_set, session=visitor.key)

    def check_number(self, values: Sequence[Any]) -> None:
        """Refuse more pictures than one run may have, before it waits in line."""
        design, settings = self.asked(values)
        check_number(design, with_options(design, settings), self.services.settings)

    def asked(self, values: Sequence[Any]) -> tuple[Design, StudySettings]:
        """The design and the settings that stand in the form; InvalidInput where they cannot be used."""
        names = self.fields()
        form = dict(zip(names, values, strict=False))
        design = self.designs[str(form["study"])]
        arms, *own = values[len(names) :]
        settings = replace(study_form.read_settings(form, design), arms=tuple(arms or ()))
        *own, use_own = own or (False,)
        if not use_own:
            return design, settings
        return self.own_design(design, dict(zip(self.own, own, strict=True))), self.own_settings(settings)

    def finished(self, report: StudyReport) -> Updates:
        """All of a report."""
        parts, report = self.parts, by_name(report)
        text = f"Done in {report.seconds:.1f} s. {report.n_images:,} pictures scored."
        return {
            **self._buttons(running=False),
            parts["status"]: messages.done_html(text),
            parts["results"]: gr.update(visible=True),
            **self.told(report),
            **show_pictures(self.pictures, report),
            parts["extra"]: gr.update(visible=not report.arms),
            **({} if report.arms else self.show_extra(report)),
        }

    def told(self, report: StudyReport) -> Updates:
        """The numbers, figures and tables of a report, without its pictures."""
        parts, asked = self.parts, (report.design, report.settings)
        tab = StudyTab if report.arms else type(self)  # a comparison is shown alike in every tab
        return {
            parts["report"]: report,
            parts["header"]: study_html.header_html(report, tab.headline(self, report)),
            parts["findings"]: study_html.found_html(report, EQUAL if report.arms else self.null_words),
            parts["figures"]: study_html.figures_html(tab.figures(self, report)),
            parts["tables"]: study_html.tables_html(further_tables(report, tab.tables(self, report)))
            + study_html.arms_html(report),
            parts["notes"]: study_html.notes_html(report),
            parts["shell"]: to_command(*asked),
            parts["python"]: to_python(*asked),
            parts["link"]: self.link(report),
        }

    def link(self, report: StudyReport) -> str:
        """The address of this tab with these settings; one's own words do not travel in it."""
        return address_of(self.key, report)

    def _buttons(self, *, running: bool) -> Updates:
        return {self.parts["run"]: gr.update(visible=not running), self.parts["stop"]: gr.update(visible=running)}


def plain_tab(folder: Path) -> type[StudyTab]:
    """The tab of a study whose folder has none: a form, and the report as it is."""
    title = folder.name.replace("_", " ").capitalize()
    names = designs_in(folder)
    known = {"key": folder.name, "title": title, "place": _AFTER_STUDIES, "studies": names}
    return type(f"{title}Tab", (StudyTab,), known | {"question": find_design(names[0]).summary})
