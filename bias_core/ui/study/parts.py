"""Parts of a study's tab: examples, next steps, people's labels, explanations, a run in progress."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
import numpy as np

from bias_core.errors import InvalidInput, quoted
from bias_core.measures.paired_stereotype import GENDERS
from bias_core.report.corrected import BUDGET, Correction, PeopleAnswers, build_correction, corrected
from bias_core.report.documents import small_uri
from bias_core.report.report_text import describe_report_reader, is_known
from bias_core.report.saved import Example, SavedReport, list_examples, open_example
from bias_core.run.limits import drawn_words
from bias_core.run.next_steps import N_RATERS, NextStep, next_steps
from bias_core.run.plan import settle
from bias_core.run.run import followed
from bias_core.services import Services
from bias_core.study.classifier_answers import (
    CODES,
    PEOPLE,
    Reading,
    asked_readings,
    attribute_names,
    count_questions,
    list_readings,
)
from bias_core.study.label_tasks import MAX_POSITIONS, N_LABELS, NO, SINGLE, YES
from bias_core.study.types import Progress, StudyReport
from bias_core.types import ImageRow, StoredImage
from bias_core.ui import messages
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, run_queued, then_run
from bias_core.wording import format_count, format_number

Updates = dict[Any, Any]
RATERS = (1, 2, 3, 5, 7)  # offered for each picture
ASKS_PEOPLE = "people"  # the step that runs nothing, and makes a labelling task


def example_html(saved: SavedReport, example: Example | None = None) -> str:
    """A note on a shipped report: its title, date and versions."""
    report = saved.report
    settings, versions = report.settings, report.versions
    model = " · ".join(filter(None, (settings.model, settings.condition, versions.get("model_revision", ""))))
    names = ("bias_core", "torch", "diffusers", "transformers")
    shown = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    return render("example_note", created=when(saved.created), model=model, versions=shown, example=example)


def when(seconds: float) -> str:
    """Date and time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def skeleton_html(*parts: str) -> str:
    """The outline of what is being loaded: each of the ``parts`` a "line", "row" or "half"."""
    return render("skeleton", parts=parts)


def copy_updates(updates: Updates) -> Updates:
    """A copy of cached updates, because Gradio may change them."""
    return {part: dict(value) if isinstance(value, dict) else value for part, value in updates.items()}


FEW_CHIPS = 5  # examples of a tab in sight; the others are folded away
Chip = tuple[str, str, str]  # key, text and tooltip


_LOOKS = 50, 1500, 4000, 9000, 20_000, 40_000  # milliseconds after a tab was first opened


def build_opening_signal(key: str, *, after: int = 0) -> gr.HTML:
    """Build the element that reports when a tab is first opened, and again while it stays empty.

    ``after``: no report earlier, in milliseconds, for a tab that the page fills by itself.
    """
    delays = [delay for delay in _LOOKS if delay > after]
    return gr.HTML("", js_on_load=script("looked_at", delays=delays), elem_id=f"{key}-looked-at")


class ChipsPart:
    """Buttons of presets and examples: the first ones in sight, the others under *More examples*."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.html: Any = None

    def build(self, chips: Sequence[Chip], examples: Sequence[Example], of: str = "") -> None:
        """Build the buttons: a pressed chip is an event "select", an example "submit"."""
        self.html = gr.HTML(self.render(chips, examples, of), js_on_load=script("chips"), elem_id=f"{self.key}-chips")

    def render(self, chips: Sequence[Chip], examples: Sequence[Example], of: str = "") -> str:
        """Return them as HTML; ``of`` is the key of the tab that they belong to, where several share the page."""
        return render("chips", chips=chips, examples=examples, of=of, few=FEW_CHIPS)


def get_chip(event: gr.EventData) -> str:
    """Return the key of the chip that was pressed; "" for an event of another component, which has no data."""
    with suppress(AttributeError, TypeError):  # Gradio's event of a button has nothing to look in
        return str(event.chip)
    return ""


class ExamplesPart:
    def __init__(self, key: str, folder: Path) -> None:
        self.key, self.folder = key, folder
        self.listed = list_examples(key, folder)
        self._first: Updates | None = None

    def first(self, show: Callable[[StudyReport], Updates], header: Any) -> Updates:
        """Updates by ``show`` for the first example, made once for all visitors."""
        if self._first is None:
            self._first = {header: gr.skip()}
            for example in self.listed[:1]:
                with messages.user_errors():  # pressing its button shows the reason
                    saved, banner = self.open(example.name)
                    shown = show(saved.report)
                    self._first = shown | {header: banner + shown[header]}
        return copy_updates(self._first)

    def open(self, name: str) -> tuple[SavedReport, str]:
        """The report of an example of any tab, and the note above it; InvalidInput if there is none of this name."""
        example = next((example for example in list_examples(folder=self.folder) if example.name == name), None)
        if example is None:
            raise InvalidInput(f"there is no example {quoted(name)}")
        saved = open_example(example, self.folder)
        return saved, example_html(saved, example)


def _is_run(report: StudyReport, services: Services) -> bool:
    """True for a stored run; False for an example."""
    return report.run_id.isalnum() and services.manifests.find(report.run_id) is not None


class NextPart:
    """The next steps of a report: buttons below its pictures, and the runs that they start."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.chosen: Any = None  # the chosen step; None if no button is wired

    def html(self, report: StudyReport, cells: Sequence[str] = (), width: str = "") -> str:
        """A button for each step; "" if there are none.

        ``cells`` alone get more pictures, () for all; ``width`` is chosen in the menu if it has it.
        """
        if self.chosen is None:
            return ""
        steps = next_steps(report, self.services, cells)
        n = self.services.n_to_label(report)
        questions = questions_in_words(asked_readings(list_readings(report))) if n else ""
        chosen = next((step.width for step in steps for step in step.widths if step.width == width), "")
        words = {"questions": questions, "raters": RATERS, "usual": N_RATERS, "chosen": chosen}
        return render("next_steps", steps=steps, n=n, **words) if steps or n else ""

    def wire(self, tab: Any) -> None:
        """Wire the buttons of a built study tab to start their runs."""
        parts, self.chosen = tab.parts, gr.State(None)

        def on_step(visitor: Visitor, report: StudyReport | None, event: gr.EventData) -> Updates:
            """Remember the step and enter the queue; asking people has its own listener."""
            cells = [*map(str, getattr(event, "cells", ()))]
            steps = [] if report is None else next_steps(report, self.services, cells)
            step = next((wider for wider in steps if wider.key == str(event.step) and wider.settings is not None), None)
            if step is not None:  # the box beside its button says which width
                widths = {wider.width: wider for wider in step.widths}
                step = widths.get(str(getattr(event, "choice", step.width)))
            at_work = tab.note_at_work(visitor)
            if step is None or report is None or at_work:
                return {self.chosen: None, **at_work}
            return {self.chosen: step, **tab.on_click(visitor)}

        def on_tick(report: StudyReport | None, event: gr.EventData) -> str:
            ticked = [*map(str, event.cells)]
            return gr.skip() if report is None else tab.next_html(report, ticked, str(event.width))

        def on_run(visitor: Visitor, chosen: NextStep | None, report: StudyReport | None) -> Iterator[Updates]:
            """Run the step, with its settings in the form if they fit."""
            if chosen is None or chosen.design is None or chosen.settings is None:
                return
            design, settings = chosen.design, chosen.settings
            if design == tab.designs.get(design.name):
                yield tab.show_settings(design, settings)
            yield from tab.run_asked(visitor, lambda: settle(design, settings), report)

        parts["plot"].select(on_tick, parts["report"], parts["next"], **messages.EACH)
        inputs = [parts["visitor"], parts["report"]]
        click = parts["next"].select(on_step, inputs, [*tab.outputs(), self.chosen], queue=False, **messages.QUIET)
        then_run(
            click.then, on_run, [parts["visitor"], self.chosen, parts["report"]], tab.opened_outputs(), tab.on_crash
        )

    def wire_people(self, buttons: Any, label: Callable[..., Any], inputs: list[Any], outputs: list[Any]) -> None:
        """Wire the button that makes a labelling task with ``label``; inputs are visitor, memory and report."""

        def on_people(
            visitor: Visitor,
            memory: Any,
            report: StudyReport | None,
            event: gr.EventData,
            profile: gr.OAuthProfile | None = None,
        ) -> Any:
            """Make the task, if that step was chosen."""
            if report is None or str(event.step) != ASKS_PEOPLE:
                return gr.skip()
            n_raters = getattr(event, "choice", N_RATERS)
            n = self.services.n_to_label(report) or N_LABELS
            return label(visitor, memory, report, n, n_raters, "", [], profile)

        buttons.select(on_people, inputs, outputs, api_visibility="private")


AT_RANDOM, ALONE = "", f"setting={SINGLE}"  # of pairs, where there are pairs; and of people alone
_FEW = 9  # numbers shown at first
_NONE_LEFT = "No picture is left to label"


class PeoplePart:
    """The part on people's labels; hidden if they cannot correct the report."""

    def __init__(self, services: Services, key: str) -> None:
        self.services, self.key = services, key
        self.n = self.raters = self.by = self.attributes = self.button = self.refresh = None  # type: Any
        self.box = self.corrected = None  # type: Any

    def build_corrected(self) -> None:
        self.corrected = gr.HTML(visible=False, elem_classes="card", elem_id=f"{self.key}-corrected")

    def build_task(self) -> None:
        """Build the form that makes a task of the report's pictures."""
        key = self.key
        with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-people") as self.box:
            gr.HTML(render("people_ask"))
            with gr.Row():
                count: dict[str, Any] = {"label": "How many pictures", "minimum": 2, "precision": 0, "min_width": 140}
                count["info"] = "64 labels give a share to about ±8 points"
                self.n = gr.Number(N_LABELS, elem_id=f"{key}-people-n", **count)
                rater_count: dict[str, Any] = {
                    "label": "Raters for each picture",
                    "info": "Three allow a majority",
                    "minimum": 1,
                }
                self.raters = gr.Number(
                    N_RATERS, elem_id=f"{key}-people-raters", precision=0, min_width=140, **rater_count
                )
                selection: dict[str, Any] = {"value": AT_RANDOM, "label": "Which", "min_width": 240}
                selection["info"] = "By an answer of the classifier: equally many of each, if possible"
                self.by = gr.Dropdown([("at random", AT_RANDOM)], elem_id=f"{key}-people-by", **selection)
            many: dict[str, Any] = {"multiselect": True, "max_choices": MAX_POSITIONS, "visible": False}
            many |= {"label": "Attributes to ask about", "info": "Each is one question about every picture"}
            self.attributes = gr.Dropdown([], elem_id=f"{key}-people-attributes", **many)
            with gr.Row(elem_classes="tools"):
                look: dict[str, Any] = {"scale": 0, "min_width": 260}
                self.button = gr.Button(button_text(N_LABELS, AT_RANDOM), elem_id=f"{key}-people-label", **look)
                self.refresh = gr.Button(
                    "Check for new answers", visible=False, elem_id=f"{key}-people-refresh", **look
                )

    def outputs(self) -> list[Any]:
        return [self.corrected, self.box, self.by, self.attributes, self.refresh, self.n, self.button]

    def wire(self, report: Any, headers: list[Any], update: Callable[[StudyReport], Updates]) -> None:
        """Wire the events; ``update`` gives updates of the components ``headers``, which show corrected numbers."""

        def on_new_answers(shown: StudyReport | None) -> Updates:
            if shown is None:
                return {self.button: gr.skip()}
            corrected, updates = self.show(shown)
            return updates | update(corrected)

        def on_choice(n: float | None, by: str | None, names: list[str] | None, shown: StudyReport | None) -> str:
            """Name the task that the button makes, which has no more pictures than are left."""
            if shown is None:
                return button_text(n, by)
            setting = str(by or "").partition("setting=")[2]
            asked: dict[str, Any] = {"attributes": names or (), "setting": setting}
            n_left = self.services.n_to_label(shown, int(n or 0), **asked)
            return button_text(n_left, by, asked_readings(list_readings(shown), **asked))

        self.refresh.click(on_new_answers, report, [*headers, *self.outputs()], **messages.QUIET)
        chosen = [self.n, self.by, self.attributes]
        gr.on([part.input for part in chosen], on_choice, [*chosen, report], self.button, **messages.LATEST)

    def correction(self, report: StudyReport) -> Correction | None:
        """Corrections by people's labels of this run; None without a task."""
        answers = self.services.run_answers(report.run_id)
        return None if answers is None else build_correction(report, answers)

    def extended(self, report: StudyReport) -> StudyReport:
        """The report with corrected numbers, for downloads."""
        return corrected(report, self.services.run_answers(report.run_id), self.services)

    def show(self, report: StudyReport) -> tuple[StudyReport, Updates]:
        """The report with corrected numbers, and the updates of this part."""
        readings, correction, html = list_readings(report) if _is_run(report, self.services) else [], None, ""
        if readings:
            with messages.user_errors() as problem:
                correction = self.correction(report)
            html = messages.error_html(problem.message) if problem else ""
            html = html if correction is None else corrected_html(correction)
        n = self.services.n_to_label(report)
        names = dict.fromkeys(PEOPLE if reading.attribute is None else reading.attribute.name for reading in readings)
        choices = [("at random", AT_RANDOM), *((f"by the classifier’s answer on {name}", name) for name in names)]
        if {reading.group for reading in readings if reading.attribute is None} > {SINGLE}:
            choices.append(("at random, one person only", ALONE))
        asked = asked_readings(readings)
        updates = {
            self.corrected: gr.update(value=html, visible=bool(html)),
            self.box: gr.update(visible=bool(readings)),
            self.by: gr.update(choices=choices, value=AT_RANDOM),
            self.attributes: gr.update(
                choices=(attributes := attribute_names(readings)),
                value=attribute_names(asked),
                visible=len(attributes) > 1,
            ),
            self.refresh: gr.update(visible=correction is not None),
            self.n: n or N_LABELS,
            self.button: gr.update(value=button_text(n, AT_RANDOM, asked) if n else _NONE_LEFT, interactive=n > 0),
        }
        return (report if correction is None else correction.add_to_report(report)), updates


def corrected_html(correction: Correction, of: str = "") -> str:
    """A run's numbers next to the corrected ones; ``of`` names the run if that is unclear."""
    scales: dict[str, list[float]] = {}
    for number in correction.numbers:
        ends = [number.corrected.low, number.corrected.high, number.as_read.value, number.corrected.null_value]
        scales.setdefault(number.metric, []).extend(float(end) for end in ends if end is not None and is_known(end))
    return render(
        "corrected",
        correction=correction,
        of=of,
        scales={metric: (min(ends), max(ends)) for metric, ends in scales.items()},
        budget=BUDGET,
        few=_FEW,
    )


def questions_in_words(readings: Sequence[Reading]) -> str:
    """The number of questions about each picture, in words."""
    n = count_questions(readings)
    return format_count(n, "question")


def button_text(n: float | None, by: str | None, readings: Sequence[Reading] = ()) -> str:
    """Text of the button, with the number of questions about each picture if it is known."""
    phrases = {AT_RANDOM: "random pictures", ALONE: "pictures of one person"}
    suffix = f", {questions_in_words(readings)} each" if readings else ""
    return f"Label {int(n or 0):,} {phrases.get(by or AT_RANDOM, f'pictures, by {by}')}{suffix}"


_COLUMNS = {
    "yes": "for it", "no": "against it", "margin": "margin", "read": "classified as", "people": "people’s labels",
    "record": "ground truth",
}  # fmt: skip
_WORDS = {CODES[YES]: "yes", CODES[NO]: "no"}
_UNCLEAR = "unclear"
_SCORES = (": positive", ": negative", ": nearer by")  # how the names of their columns end


def classification_html(report: StudyReport, image_id: str, services: Services) -> str:
    """The classification of each attribute and person in a picture; "" if there is none."""
    stored = report.stored.get(image_id)
    readings = [] if stored is None else [reading for reading in list_readings(report) if image_id in reading.image_ids]
    if stored is None or not readings:
        return ""
    given, rows = services.run_answers(report.run_id), list[dict[str, str]]()
    answers = None if given is None else PeopleAnswers(given)
    for reading in readings:
        picture_reading = reading.only(np.array([picture == image_id for picture in reading.image_ids]))
        votes = None if answers is None else answers.votes(picture_reading)
        for i in range(len(picture_reading.codes)):
            of = _describe_attribute if picture_reading.attribute is not None else _describe_person
            rows.append(
                of(report, picture_reading, i, stored, services.share_shown)
                | {"people": _votes(votes, i, picture_reading)}
            )
    shown = {key: name for key, name in _COLUMNS.items() if any(row[key] for row in rows)}
    return render(
        "why", rows=rows, columns=shown, reader=describe_report_reader(report), judged=bool(report.settings.judge)
    )


def _describe_attribute(
    report: StudyReport, reading: Reading, i: int, stored: StoredImage, shown: Callable[..., float | None]
) -> dict[str, str]:
    attribute, frame = reading.attribute, report.pictures
    if attribute is None or frame is None:
        return {}
    row = frame[frame["image_id"] == reading.image_ids[i]].iloc[0]
    yes, no, margin = (
        format_number(float(row[column])) if column in row and not math.isnan(row[column]) else ""
        for column in (f"{attribute.name}{end}" for end in _SCORES)
    )
    share = None if stored.truth is None else shown(attribute.positive, [stored.truth])
    return {
        "name": attribute.name,
        "texts": f"“{attribute.positive}” against “{attribute.negative}”",
        "yes": yes,
        "no": no,
        "margin": margin,
        "read": _WORDS.get(int(reading.codes[i]), _UNCLEAR),
        "record": "" if share is None or math.isnan(share) else _WORDS[int(share > 0.5)],
    }


def _describe_person(
    report: StudyReport, reading: Reading, i: int, _stored: StoredImage, _shown: Callable[..., float | None]
) -> dict[str, str]:
    arm = next((arm.results for arm in report.arms if arm.name == reading.arm), report.results)
    labels = arm.frame("labels")
    row: dict[str, Any] = {}
    for label in labels.to_dict("records"):
        if (label["image_id"], label["position"]) == (reading.image_ids[i], reading.positions[i]):
            row = {str(key): value for key, value in label.items()}
    margin = row.get("margin")
    return {
        "name": f"{row.get('identity', 'person')}, {reading.positions[i]}",
        "texts": f"“{GENDERS[0]}” or “{GENDERS[1]}”",
        "yes": "",
        "no": "",
        "margin": format_number(float(margin)) if isinstance(margin, float) and not math.isnan(margin) else "",
        "read": str(row.get("automatic", "")).replace("_", " "),
        "record": str(row["truth"]) if isinstance(row.get("truth"), str) else "",
    }


def _votes(votes: np.ndarray | None, i: int, reading: Reading) -> str:
    """Number of raters with this answer, in words; "" without answers."""
    codes = np.array([]) if votes is None else votes[i][~np.isnan(votes[i])]
    if not codes.size:
        return ""
    n_yes = int((codes == CODES[YES]).sum())
    if reading.attribute is None:
        return f"{n_yes} of {codes.size}: {reading.stereotypes[i]}"
    return f"{n_yes} of {codes.size}: yes"


class SideRun:
    """A run that is not of the form: its button, its Stop, and its status line."""

    button: Any
    stop: Any
    status: Any

    def __init__(self, services: Services) -> None:
        self.services = services

    def build(self, text: str, **look: Any) -> None:
        with gr.Row(elem_classes="tools"):
            self.button = gr.Button(text, **{"scale": 0, "min_width": 180, **look})
            self.stop = gr.Button(
                "Stop", size=look.get("size", "lg"), variant="stop", scale=0, min_width=90, visible=False
            )

    def build_status(self, elem_id: str) -> None:
        self.status = gr.HTML(elem_id=elem_id)

    def wire(self, tab: Any, run: Callable[..., Iterator[Updates]], inputs: list[Any], outputs: list[Any]) -> None:
        """Let the button start ``run``, whose first input is the visitor, and Stop end it."""
        visitor, own_parts = tab.parts["visitor"], [self.status, self.button, self.stop]
        click = self.button.click(self.on_click, visitor, own_parts, queue=False, **messages.QUIET)
        then_run(click.then, run, [visitor, *inputs], [*own_parts, *outputs], self.on_crash)
        tab.wire_stop(self.stop, self.status)

    def on_click(self, visitor: Visitor) -> Updates:
        """Start a new run of this visitor and end the older one."""
        with messages.user_errors() as problem:
            visitor.start(self.services)
            return self._running(True, messages.QUEUED)
        return self._running(False, messages.error_html(problem.message))

    def follow(
        self, visitor: Visitor, start: Callable[[], Generator[Progress, None, Any]], show: Callable[[Any], Updates]
    ) -> Iterator[Updates]:
        """Show the progress of a run, then its result by ``show``, or why there is none."""
        pace, results = messages.Pace(), list[Any]()
        with messages.user_errors() as problem:
            for step in followed(run_queued(self.services, visitor, start), results):
                if pace.is_due():
                    yield {self.status: messages.progress_html(step)}
        ended = self._running(False, messages.error_html(problem.message) if problem else "")
        yield ended if problem else ended | show(results[0])

    def on_crash(self) -> Updates:
        """Show that an unforeseen error happened; the log has it."""
        return self._running(False, messages.crash_html())

    def _running(self, running: bool, message: str) -> Updates:
        go, stop = (gr.update(visible=visible) for visible in (not running, running))
        return {self.status: message, self.button: go, self.stop: stop}


MOST_SHOWN = 48  # pictures at a time: in a larger run those around the ones in progress
_MOST_PROMPTS = 6  # named above their pictures
_PAUSE = 0.3  # seconds
_PAUSE_PER_PICTURE = 0.01


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A picture in the grid: ``state`` is "finished", "blocked", "forming" or "waiting"."""

    number: int
    prompt: str
    state: str
    picture: str = ""


class DrawingPart:
    """The part of a tab that shows a run in progress; empty without one."""

    def __init__(self, key: str) -> None:
        self.html = gr.HTML(js_on_load=script("drawing"), elem_id=f"{key}-drawing")

    def build_updates(self) -> "DrawingUpdates":
        """For one run."""
        return DrawingUpdates(self.html)


class DrawingUpdates:
    """Decides when the view of a run has changed; it is sent as a whole."""

    def __init__(self, html: Any) -> None:
        self.html, self._due = html, 0.0
        self._last: Progress | None = None
        self._shown: tuple[Any, ...] = ()

    def note(self, progress: Progress) -> None:
        """Record every step, including those not shown."""
        self._last = progress if progress.drawing else self._last

    def at(self, progress: Progress) -> Mapping[Any, str]:
        """Updates; {} if the run draws no pictures or nothing changed."""
        now = time.monotonic()
        state = len(progress.images), tuple(progress.forming.values()), progress.shares
        is_last = progress.done == progress.total
        if not progress.drawing or self._is_shown(state) or (now < self._due and not is_last):
            return {}
        self._shown = state
        self._due = now + max(_PAUSE, _PAUSE_PER_PICTURE * min(MOST_SHOWN, len(progress.drawing)))
        return {self.html: drawing_html(progress)}

    def finished_pictures(self) -> Mapping[Any, str]:
        """Finished pictures of a run that ended without a result."""
        is_some = self._last is not None and self._last.images
        return {self.html: drawing_html(replace(self._last, forming={})) if self._last and is_some else ""}

    def _is_shown(self, state: tuple[Any, ...]) -> bool:
        if not self._shown or state[0] != self._shown[0] or state[2] != self._shown[2]:
            return False
        # By identity: comparing the pixels of forming pictures takes long.
        return list(map(id, state[1])) == list(map(id, self._shown[1]))


def drawing_html(progress: Progress) -> str:
    """Pictures around those in progress, grouped by prompt if there are few, and the shares so far."""
    finished = {stored.path.stem: stored for stored in progress.images}
    first = _first_shown(progress.drawing, progress.forming or finished)
    places = [
        _place(number, row, finished.get(row.id), progress.forming)
        for number, row in enumerate(progress.drawing[first : first + MOST_SHOWN], start=first + 1)
    ]
    by_prompt: list[tuple[str, list[_Place]]] = []
    for place in places:
        if not by_prompt or by_prompt[-1][0] != place.prompt:
            by_prompt.append((place.prompt, []))
        by_prompt[-1][1].append(place)
    if len(by_prompt) > _MOST_PROMPTS:
        by_prompt = [("", places)]
    n_forming = sum(place.state == "forming" for place in places)
    return render(
        "drawing",
        groups=by_prompt,
        counts=drawn_words(len(finished), len(progress.drawing), progress.parts, finished),
        n_forming=n_forming,
        shown=(first + 1, first + len(places)) if len(places) < len(progress.drawing) else None,
        progress=progress,
    )


def _first_shown(rows: Sequence[ImageRow], at_work: Mapping[str, Any]) -> int:
    """Index of the first shown picture: the start of the page with the last one in progress or finished."""
    last = max((place for place, row in enumerate(rows) if row.id in at_work), default=0)
    return last // MOST_SHOWN * MOST_SHOWN


def _place(number: int, row: ImageRow, stored: StoredImage | None, forming: Mapping[str, Any]) -> _Place:
    if stored is not None:
        picture = f"gradio_api/file={quote(stored.path.as_posix())}"
        return _Place(
            number=number, prompt=row.prompt, state="blocked" if stored.blocked else "finished", picture=picture
        )
    if row.id in forming:
        return _Place(number=number, prompt=row.prompt, state="forming", picture=small_uri(forming[row.id]))
    return _Place(number=number, prompt=row.prompt, state="waiting")
