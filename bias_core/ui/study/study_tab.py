"""A study tab: a preset or form, a run that can be stopped, and a report.

Each tab is a subclass with its question, presets and studies, and its own additions. Every result page has the
same order: headline, pictures next to one plot, then the folds (:mod:`bias_core.ui.study.result_page`).
"""

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import gradio as gr

from bias_core.protocols import OnLentGpu
from bias_core.report.commands import DRAWING_SETTINGS, drop_automatic_choices
from bias_core.report.saved import SavedReport, is_example
from bias_core.run.next_steps import papers_settings, replicate
from bias_core.run.plan import settle
from bias_core.run.run import followed, run
from bias_core.run.study_run import Run
from bias_core.services import Services
from bias_core.study.types import Design, Progress, StudyReport, StudySettings, each_arm
from bias_core.ui import messages
from bias_core.ui.model_menu import NoClassifierPart
from bias_core.ui.study import result_page as study_html
from bias_core.ui.study.fields import read_field, read_plain
from bias_core.ui.study.form import FORM, pass_values_by_name, split_first_arm
from bias_core.ui.study.parts import ChipsPart, DrawingPart, ExamplesPart, build_opening_signal, get_chip, when
from bias_core.ui.study.result_page import ResultPage
from bias_core.ui.study.shown_report import settings_by_name
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, check_no_other_run, run_queued, then_run

Updates = dict[Any, Any]
PRIVATE: dict[str, Any] = {"api_visibility": "private"}
QUIET, LATEST, EACH = messages.QUIET, messages.LATEST, messages.EACH
_ABSOLUTE_JS = "(link) => link && link.startsWith('?') ? new URL(link, location.href).href : link"
_WITHOUT_ERROR_JS = "(html) => (html || '').includes('status error') ? '' : html"
_STOPPING_JS = f"() => {json.dumps(messages.STOPPING)}"
REPLICATES = {"replicate": "Replicate the paper", "replicate_theirs": "Replicate with its model"}
"""Buttons that run the paper's design with the form's model or the paper's."""
REPLICATE_TIPS = {
    "replicate": "Runs the paper's settings with the model chosen above, and compares with the printed numbers.",
    "replicate_theirs": "Runs the paper's settings with its own model, which may be a large download, and compares "
    "with the printed numbers.",
}
"""Tooltips of these buttons."""
LARGEST = "largest"
"""The button that runs the largest allowed size of a run refused as too large."""
_RUNS = ("run", "stop", LARGEST, *REPLICATES)  # buttons with handlers that report their own progress


class StudyTab(ResultPage):
    title: ClassVar[str]
    group: ClassVar[str]  # the group of tabs that shows it
    place: ClassVar[int]  # among the tabs, from left to right
    question: ClassVar[str]  # the question that this tab answers, in a sentence
    caution: ClassVar[str] = ""  # what not to conclude from it
    also: ClassVar[Sequence[str]] = ()  # further kinds of designs with reports shown here
    looked_at_after: ClassVar[int] = 0  # see :func:`build_opening_signal`

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.no_classifier = NoClassifierPart(self.key, services)
        self.examples = ExamplesPart(self.key, services.settings.assets_dir / "examples")
        self.chips = self.examples_part = ChipsPart(self.key)  # presets; and where the examples are
        self.chip_presets = {f"{self.key}-{place}": preset for place, preset in enumerate(self.presets)}

    def get_current_key(self, visitor: Visitor) -> str:
        """The one of :attr:`keys` that the visitor looks at."""
        return self.key

    def ended(self, visitor: Visitor) -> Updates:
        return {}

    def done(self, report: StudyReport) -> Updates:
        return self.finished(report)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        self.parts["visitor"] = visitor
        self.build_question()
        self.parts["looked_at"] = build_opening_signal(self.key, after=self.looked_at_after)
        with gr.Column(elem_classes="card ask", elem_id=self.element("ask")):
            self._build_ask()
        if "status" not in self.parts:  # it has no place in the form
            self._build_status()
        self.drawing = DrawingPart(self.key)
        self._build_results()
        self._wire(demo)

    def build_question(self) -> None:
        gr.HTML(render("question", question=self.question, caution=self.caution))

    def _build_ask(self) -> None:
        self.build_layout(self.layout)

    @property
    def builders(self) -> dict[str, Callable[[], Any]]:
        """Functions that build the parts of the layout that are no settings."""
        return super().builders | {
            "status": self._build_status, "run": self._build_run, "replicates": self._build_replicates,
            "gpu_time": self._build_gpu_time,
        }  # fmt: skip

    def _build_status(self) -> None:
        """Build the status line, with buttons for when no classifier fits."""
        self.parts["status"] = gr.HTML(elem_id=self.element("status"), js_on_load=script("status"))
        self.build_at_work()
        if self.form:
            self.no_classifier.build()

    def _build_run(self) -> None:
        texts = {"run": "Run and measure", "stop": "Stop"}
        self.parts |= {name: gr.Button(**self.get_look(name, value=text)) for name, text in texts.items()}
        self.parts[LARGEST] = gr.Button(
            "Run the largest size allowed", elem_id=f"{self.key}-{LARGEST}", visible=False, scale=0, min_width=250
        )

    def _build_replicates(self) -> None:
        for name, title in REPLICATES.items():
            self.parts[name] = gr.Button(
                title,
                elem_id=f"{self.key}-{name.replace('_', '-')}",
                scale=0,
                min_width=250,  # its words in one line
            )
            self.drawing_parts.append(self.parts[name])

    def _build_gpu_time(self) -> None:
        """Build the note on pictures left today, for servers with daily GPU time per visitor."""
        if self.services.borrows_gpu:
            self.parts["gpu_time"] = gr.HTML(elem_classes="quiet", elem_id=f"{self.key}-gpu-time")

    def wire_gpu_time(self, arrived: Any) -> None:
        """Update it when the visitor is known, when the model changes, and after a run."""
        if "gpu_time" not in self.parts:
            return
        inputs = [self.parts["visitor"], self.form["model"], self.plain.values]
        update_args = self.on_gpu_time, inputs, self.parts["gpu_time"]
        arrived.then(*update_args, **QUIET)
        for changed in (self.form["model"].change, self.parts["report"].change):
            changed(*update_args, **QUIET)

    def on_gpu_time(self, visitor: Visitor, model: str, plain: str = "") -> str:
        """The number of pictures left today, in words; "" if unknown or the model needs no GPU."""
        with messages.user_errors():
            steps = read_field(FORM["steps"], read_plain(plain).get("steps"))
            n = self.count_remaining_pictures(visitor, str(model), steps)
            return "" if n is None else messages.pictures_today(n)
        return ""

    def count_remaining_pictures(self, visitor: Visitor, model: str, steps: int | None) -> int | None:
        """Pictures of this model in the visitor's GPU time today; None if unknown or it needs no GPU."""
        if (seconds := visitor.get_remaining_gpu_seconds(self.services)) is None:
            return None
        generator = self.services.text_to_image(model)
        n_steps = steps or self.services.model_info(model).default_steps
        return generator.estimate_pictures(seconds, n_steps) if isinstance(generator, OnLentGpu) else None

    def outputs(self) -> list[Any]:
        """Everything that a run changes, including the form's folds."""
        largest = [self.parts[LARGEST]] if LARGEST in self.parts else []
        below = self.no_classifier.outputs()
        return [*super().outputs(), *self.form_folds, *self.without_notes(), *largest, *below]

    def opened_outputs(self) -> list[Any]:
        """Everything that :meth:`show_saved` changes."""
        return list(dict.fromkeys([*self.outputs(), *self.form_outputs()]))

    def _wire(self, demo: gr.Blocks) -> None:
        parts = self.parts
        self._wire_run()
        self.wire_stop(parts["stop"], parts["status"])
        self.wire_at_work()
        self.wire_form()
        self.wire_results()
        parts["link"].change(None, parts["link"], parts["link"], js=_ABSOLUTE_JS, **QUIET)
        self.arms.wire(self.form["model"])
        self.wire_other_settings()
        self.next.wire(self)
        self.no_classifier.wire(
            self.form["encoder"], self.form["force"], [self.parts["options"]], self.parts["run"].elem_id
        )
        self.chips.html.select(self.on_preset, None, self.opened_outputs(), **EACH)
        self.examples_part.html.submit(self.on_example, None, self.opened_outputs(), **QUIET)
        for panel in self.panels:
            panel.wire_panels()

    def wire_other_settings(self) -> None:
        """Say that the result is of other settings whenever form or result has changed."""
        named = {**self.inputs(), "report": self.parts["report"]}
        handler = pass_values_by_name(named, self.on_other_settings)
        self.parts["count"].expand(handler, [*named.values()], self.parts["other_settings"], **LATEST)

    def on_other_settings(self, values: Mapping[str, Any]) -> str:
        """Return a note if the form asks for another run than that of the shown result; "" otherwise.

        An untouched form need not ask for the example.
        """
        report = values["report"]
        if isinstance(report, str):  # its name: a run that goes on has just replaced the component by Gradio's copy
            return gr.skip()
        if report is None or self.get_study_key(values.get("study", "")) not in (
            "",
            self.get_design_key(report.design),
        ):
            return ""
        runs: list[Any] = [_asked_run(report.design, report.settings)]
        if example := is_example(report):
            runs.append(self._read_run({**self.values(), **self.first_values(self.get_design_key(report.design))}))
        return "" if self._read_run(values) in runs else render("other_settings", example=example)

    def _read_run(self, values: Mapping[str, Any]) -> tuple[Design, tuple[StudySettings, ...]] | None:
        """Return what a form asks for; None if it cannot be run."""
        with messages.user_errors():
            request = self.read_request(values)
            return _asked_run(request.design, request.settings)
        return None

    def wire_stop(self, button: Any, status: Any) -> None:
        """Wire Stop; the page shows it at once, because a server's answer could come after the run's last update."""
        pressed = button.click(None, None, status, js=_STOPPING_JS, **QUIET)
        pressed.then(self.on_stop, self.parts["visitor"], None, queue=False, **QUIET)

    def build_at_work(self) -> None:
        self.parts["at_work"] = gr.HTML(elem_id=f"{self.key}-at-work", js_on_load=script("at_work"))

    def wire_at_work(self) -> None:
        """Wire the question about the run at work: it is stopped, and what was pressed is pressed again."""
        asked = self.parts["at_work"]
        stopped = asked.select(self.on_stop, self.parts["visitor"], None, queue=False, **QUIET)
        stopped.then(None, None, asked, js="() => { setTimeout(() => window.pressAgain?.()); return ''; }", **QUIET)

    def run_triggers(self) -> list[Any]:
        """The events that run the form: its button is pressed."""
        return [self.parts["run"].click]

    def _wire_run(self) -> None:
        parts, names = self.parts, ("study", "model", "condition")
        chosen = {name: self.form[name] for name in names if name in self.form}
        named = {**self.inputs(), "report": parts["report"]}
        self._wire_runs(self.run_triggers(), self.on_run, named, self.outputs())
        if LARGEST in parts:
            self._wire_runs([parts[LARGEST].click], self.on_largest, named, self.opened_outputs())
        for name in (name for name in REPLICATES if name in parts):
            on_replicate = partial(self.on_replicate, name)
            self._wire_runs([parts[name].click], on_replicate, chosen, self.opened_outputs())
        self._wire_other_buttons()

    def _wire_other_buttons(self) -> None:
        """Clear an error when a button without a run is pressed; runs report their own progress."""
        own_parts = {name: part for name, part in self.parts.items() if name not in _RUNS}
        panels = [part for panel in self.panels for part in panel.extra.values()]
        buttons = [*own_parts.values(), *panels, self.people.button, self.people.refresh]
        pressed = [part.click for part in buttons if isinstance(part, gr.Button)]
        gr.on(pressed, None, self.parts["status"], self.parts["status"], js=_WITHOUT_ERROR_JS, **QUIET)

    def _wire_runs(
        self, triggers: list[Any], run: Callable[..., Any], inputs: Mapping[str, Any], outputs: list[Any]
    ) -> None:
        """Wire these events to enter the queue, then run with the values of ``inputs`` by name."""
        parts = self.parts
        pressed = (self.on_press, [parts["visitor"], *self.press_inputs().values()], self.opened_outputs())
        click = gr.on(triggers, *pressed, queue=False, **QUIET)
        then_run(
            click.then, pass_values_by_name(inputs, run), [parts["visitor"], *inputs.values()], outputs, self.on_crash
        )

    def press_inputs(self) -> dict[str, Any]:
        """Form components that :meth:`before_run` reads, by name."""
        return {}

    def before_run(self, values: Mapping[str, Any]) -> Updates:
        """Updates of the form when the button that runs it is pressed."""
        return {}

    def on_preset(self, event: gr.EventData) -> Updates:
        """Fill the form with the settings of a pressed preset."""
        preset, status = self.chip_presets.get(get_chip(event)), self.parts["status"]
        if preset is None:
            return {status: gr.skip()}
        filled = self.show_settings(self.designs[preset.study], StudySettings(**preset.settings))
        return filled | {status: messages.done_html(f"Filled in. Press “{self.parts['run'].value}” to run it.")}

    def on_press(self, visitor: Visitor, *values: Any) -> Updates:
        filled = self.before_run(dict(zip(self.press_inputs(), values, strict=True)))
        notes = {part: note for part, note in self.without_notes().items() if part is not self.parts.get("count")}
        return self.note_at_work(visitor) or notes | filled | self.on_click(visitor)

    def on_replicate(self, button: str, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        """Fill the form with the paper's design, run the largest allowed size, and compare it with the paper."""
        if self.note_at_work(visitor):  # the press has asked
            return
        with messages.user_errors() as problem:
            design, scale = self.designs[values["study"]], self.first_percent / 100
            own_model = {"model": values["model"], "condition": values["condition"] or ""}
            chosen = own_model if button == "replicate" else {}
            settings = papers_settings(design, self.services, scale=scale, **chosen)
            yield self.show_settings(design, settings)
            max_pictures = self.count_remaining_pictures(visitor, settings.model, settings.num_inference_steps)
            run = partial(replicate, budget=math.inf if max_pictures is None else max_pictures)
            yield from self.run_asked(visitor, lambda: settle(design, settings), None, run=run, show=self.replicated)
        if problem:
            yield self.refused(problem)

    def replicated(self, report: StudyReport) -> Updates:
        """Show a replication next to its paper, and its settings in the form."""
        return self.scaled_down(report) | {self.parts["beside_paper"]: study_html.beside_paper_html(report)}

    def scaled_down(self, report: StudyReport) -> Updates:
        """Show a run at the scale found for it, and its settings in the form; own words stay unchanged."""
        design = self.designs.get(report.design.name)
        form = {} if design is None else self.show_settings(design, drop_automatic_choices(design, report.settings))
        return form | self.done(report)

    def on_largest(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        """Run the largest allowed share of the requested size."""
        with messages.user_errors() as problem:
            request = self.read_request(values)
            left = self.count_remaining_pictures(visitor, request.settings.model, request.settings.num_inference_steps)
            run = partial(replicate, budget=math.inf if left is None else left, minutes=math.inf)
            yield from self.run_asked(visitor, lambda: request, values.get("report"), run=run, show=self.scaled_down)
        if problem:
            yield self.refused(problem)

    def _buttons(self, *, running: bool) -> Updates:
        largest = {self.parts[LARGEST]: gr.update(visible=False)} if LARGEST in self.parts else {}
        return super()._buttons(running=running) | largest | self.no_classifier.show(False)

    def note_at_work(self, visitor: Visitor) -> Updates:
        """The question about the visitor's run at work, which another one would stop; {} if none is."""
        with messages.user_errors() as problem:
            check_no_other_run(self.services, visitor, self.get_current_key(visitor))
            return {}
        return {self.parts["at_work"]: render("run_at_work", text=problem.message, at=time.monotonic_ns())}

    def on_click(self, visitor: Visitor) -> Updates:
        """Enter the queue, unless a run of the visitor is at work."""
        if note := self.note_at_work(visitor):
            return note
        with messages.user_errors() as problem:
            visitor.start(self.services, self.get_current_key(visitor))
        if problem:
            return {self.parts["status"]: messages.error_html(problem.message, self.element("ask"))}
        waiting = messages.done_html(messages.WAITING, self.element("ask"))
        return self._buttons(running=True) | {self.parts["status"]: waiting, self.parts["at_work"]: ""}

    def on_stop(self, visitor: Visitor) -> None:
        visitor.stop.set()

    def on_run(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        yield from self.run_asked(visitor, partial(self.checked, values), values.get("report"))

    def run_asked(
        self,
        visitor: Visitor,
        get_request: Callable[[], Run],
        last: StudyReport | None,
        *,
        run: Callable[..., Generator[Progress, None, StudyReport]] = run,
        show: Callable[[StudyReport], Updates] | None = None,
    ) -> Iterator[Updates]:
        """Run the requested settings if valid; without a result, the ``last`` one of the visitor stays."""
        with messages.user_errors() as problem:
            request, start = get_request(), partial(run, cancelled=visitor.stop.is_set, session=visitor.key)
            place = self.get_design_key(request.study.design)
            if self.note_at_work(visitor):  # the press has asked
                return
            steps = run_queued(self.services, visitor, partial(start, request, visitor.services(self.services)), place)
            yield from self.following(visitor, steps, place, last=last, show=show)
        if problem:
            yield self.refused(problem)

    def refused(self, problem: messages.Problem) -> Updates:
        """Show in the status line why nothing ran; offer the largest allowed size as a button."""
        facts: dict[str, Any] = {
            "buttons": self.get_error_buttons(problem),
            "field": self.find_field_id(problem),
            "of_run": True,
        }
        shown = messages.error_html(problem.message, self.element("ask"), **facts)
        error = {self.parts["status"]: shown}
        if problem.scale and LARGEST in self.parts:
            error[self.parts[LARGEST]] = gr.update(visible=True)
        if problem.no_classifier:
            error |= self.no_classifier.show(True, are_own=problem.no_classifier.are_own)
        return self._buttons(running=False) | self.without_notes() | error

    def find_field_id(self, problem: messages.Problem) -> str:
        """The element id of the field that an error is about; "" if it is about none, or quotes its name."""
        names = {"model": problem.is_of_model, "encoder": problem.no_classifier, "n_images": problem.scale,
                 "percent": problem.scale}  # fmt: skip
        return next((self.form[name].elem_id for name, applies in names.items() if applies and name in self.form), "")

    def get_error_buttons(self, problem: messages.Problem) -> dict[str, str]:
        """Texts of the buttons of an error, with the element ids of the components that they press or focus."""
        buttons = {messages.TRY_AGAIN: self.parts["run"].elem_id} if problem.may_pass else {}
        if problem.is_of_model and "model" in self.form:
            buttons["Choose another model"] = self.form["model"].elem_id
        return buttons

    def following(
        self,
        visitor: Visitor,
        steps: Generator[Progress, None, Any],
        place: str,
        note: str = "",
        *,
        last: StudyReport | None = None,
        show: Callable[[StudyReport], Updates] | None = None,
    ) -> Iterator[Updates]:
        """Follow a run of a ``place``, with a note below; then show its report, or leave the visitor's ``last`` one.

        The form folds once the run has started; after a refusal it stays open for corrections.
        """
        visitor.follows, stop = True, visitor.stop
        reports: list[StudyReport] = []
        folded: Updates = {fold: gr.update(open=False) for fold in self.form_folds}
        pace, drawing, status = messages.Pace(), self.drawing.build_updates(), self.parts["status"]
        yield self._buttons(running=True) | {status: note or messages.LOADING}
        with messages.user_errors() as problem:
            for step in followed(steps, reports):
                drawing.note(step)
                if visitor.stop is stop and pace.is_due():  # a newer run shows its own progress
                    is_seen = self.get_current_key(visitor) == place  # else its pictures would hide another result
                    words = "Stopping" if stop.is_set() else "" if is_seen else place.title()
                    progress = messages.progress_html(step, words, run=f"{id(stop):x}")
                    yield folded | {status: progress + note, **(drawing.at(step) if is_seen else {drawing.html: ""})}
                    folded = {}
        if visitor.stop is not stop:  # a newer run shows its progress and its Stop; this one is in the list of runs
            yield {self.drawing.html: gr.skip(), **self.ended(visitor)}
            return
        visitor.follows = False
        ended = self._buttons(running=False) | {self.drawing.html: "", self.parts["at_work"]: ""} | self.ended(visitor)
        if reports:
            yield folded | ended | self.show_ended_run(visitor, reports[0], (show or self.done)(reports[0]))
        else:
            is_seen = self.get_current_key(visitor) == place and (last is None or is_example(last))
            left = drawing.finished_pictures() if is_seen else {}
            yield {**ended, **left, **self.refused(problem)}

    def show_ended_run(self, visitor: Visitor, report: StudyReport, shown: Updates) -> Updates:
        """The updates ``shown`` for the report of a run that has ended."""
        return shown

    def on_crash(self) -> Updates:
        """Show that an unexpected error happened; the log has it."""
        return self._buttons(running=False) | {
            self.parts["status"]: messages.crash_html(self.get_error_buttons(messages.Problem(may_pass=True))),
            self.drawing.html: "",
        }

    def on_example(self, event: gr.EventData) -> Updates:
        """Show an example's report without a run."""
        with messages.user_errors() as problem:
            return self.show_saved(*self.examples.open(str(event.example)), view=self.element("header"))
        return {self.parts["status"]: messages.error_html(problem.message, self.element("ask"))}

    def first_example(self) -> Updates:
        """Show the first example before any run.

        Form, buttons and status stay: a run may have begun since the page asked for the example.
        """
        return self.examples.first(self.show_report, self.parts["header"])

    def first_view(self, visitor: Visitor) -> Updates:
        return self.first_example()

    def claims(self, design: Design) -> bool:
        return design.kind in {*self.also, *(tab_design.kind for tab_design in self.designs.values())}

    def fill_from(self, design: Design, settings: StudySettings) -> Updates:
        """The form with the settings of a run; {} if it cannot have them."""
        if design.name not in self.designs or split_first_arm(settings)[0].images:
            return {}
        design = self.designs[design.name]
        return self.show_settings(design, drop_automatic_choices(design, settings))

    def show_saved(self, saved: SavedReport, banner: str = "", view: str = "", *, with_form: bool = True) -> Updates:
        """Show a saved report, and its settings in the form if they fit; scroll to ``view``."""
        report, parts = saved.report, self.parts
        shown = self.finished(report)
        shown[parts["header"]] = banner + shown[parts["header"]]
        kind = "an example" if is_example(report) else "a run"
        shown[parts["status"]] = messages.done_html(f"Opened: {kind} of {when(saved.created)}.", view)
        return shown | (self.fill_from(report.design, report.settings) if with_form else {})


def _asked_run(design: Design, settings: StudySettings) -> tuple[Design, tuple[StudySettings, ...]]:
    """Return what decides whether two requests are for the same run: their designs, and the settings of each arm."""
    automatic = drop_automatic_choices(design, replace(settings, force=False))  # a forced classifier may be automatic
    arms = each_arm(settings_by_name(replace(automatic, force=settings.force)))
    not_drawn: dict[str, Any] = dict.fromkeys(DRAWING_SETTINGS, "")
    return design, tuple(replace(arm, **not_drawn) if arm.images else arm for arm in arms)
