"""Pictures of the visitor instead of drawn ones: the choice, the upload, what arrived, and corrections of prompts."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import gradio as gr

from bias_core.errors import Cancelled, InvalidInput
from bias_core.report.documents import small_uri
from bias_core.services import Services
from bias_core.store.found_pictures import (
    AUTO,
    COPIES,
    COUNT_ONCE,
    NO_PROMPTS,
    ONE_FOR_ALL,
    PROMPT_SOURCES,
    PictureLook,
    read_prompts_from,
)
from bias_core.store.imports import ImportedImages, with_table
from bias_core.store.reader import ADDRESS, Check
from bias_core.study.types import Arm, StudySettings, map_progress
from bias_core.ui import messages
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor
from bias_core.wording import format_counts, format_list

Updates = dict[Any, Any]
DRAWN, OWN = "drawn", "own"
_PROMPTS, _EACH, _SIDE = 24, 3, 128  # prompts with pictures, pictures of each, and their pixels
_OPEN = 3  # lines of each list that are not folded away
_LINES = 200  # of each list, for all of them would keep the page of every visitor waiting
_SOURCES = [("whichever is there", AUTO), *((words, name) for name, words in PROMPT_SOURCES.items())]
_NONE_READ = ("none: all show the concept", NO_PROMPTS)
_ONE = ONE_FOR_ALL.rstrip(": ")
ALL_SHOW_IT = "All show the concept"
TABLE_ENDINGS = (".csv", ".tsv", ".jsonl")
_AT_ONCE = 40  # uploads that are read or wait for a reader
_SECONDS_BETWEEN = 0.5  # two counts of the pictures that were read
_TOGETHER, _COMPARED = "together", "as arms"


@dataclass(frozen=True, kw_only=True)
class PictureChoice:
    """The pictures of the visitor that a run measures, and how they are read."""

    images: str  # path of a folder or zip; "" while none can be measured
    have_arrived: bool = True
    prompts_from: str = AUTO
    copies: Literal["count once", "count all"] = COUNT_ONCE
    ways: tuple[str, ...] = ()  # of drawing, each of which is an arm
    has_prompts: bool = False
    n: int = 0  # pictures that count

    def apply(self, settings: StudySettings) -> StudySettings:
        """Return settings of a run on these pictures; arms of the form count before those of the ways of drawing."""
        arms = settings.arms or tuple(Arm(name=way, drawn_with=way) for way in self.ways)
        return replace(
            settings, images=self.images, prompts_from=self.prompts_from, copies=self.copies, arms=drawing_arms(arms)
        )


def drawing_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """The arms of a run on own pictures: one with a model draws with it."""
    is_drawn = [bool(arm.model and arm.images is None) for arm in arms]
    return tuple(replace(arm, images="") if drawn else arm for arm, drawn in zip(arms, is_drawn, strict=True))


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """An upload, and what was understood of it."""

    choice: PictureChoice
    look: PictureLook
    thumbnails: Mapping[str, str]  # data URIs of some pictures, by name

    @property
    def path(self) -> Path:
        """Path of the upload."""
        return Path(self.choice.images)

    @property
    def reasons(self) -> list[str]:
        """Reasons for which pictures are left out, the most frequent first, each with some of them."""
        names: dict[str, list[str]] = {}
        for name, reason in self.look.left_out.items():
            names.setdefault(reason, []).append(name)
        return [
            f"{format_list(names[reason])}: {reason}" for reason in sorted(names, key=lambda each: -len(names[each]))
        ]


def look_through(path: Path, choice: PictureChoice | None = None, check: Check = lambda _: None) -> Arrived:
    """Read every picture of a folder or zip; InvalidInput if it is damaged, unsafe or too large, or has no picture."""
    choice = choice or PictureChoice(images=str(path))
    source = ImportedImages(path, prompts_from=choice.prompts_from, copies=choice.copies)
    look = source.look(check)
    shown = [name for summary in look.prompts[:_PROMPTS] for name in summary.names[:_EACH]]
    has_prompts = any(summary.sources for summary in look.prompts)
    ways = tuple(look.ways) if choice.ways else ()
    return Arrived(
        choice=replace(choice, images=str(path), has_prompts=has_prompts, ways=ways, n=look.n),
        look=look,
        thumbnails={name: small_uri(source.decode(name, _SIDE)) for name in shown},
    )


def count_while_reading(address: str, read: Callable[[Check], Arrived]) -> Generator[int, None, Arrived]:
    """Yield the number of pictures that ``read`` has read until now; it ends with this generator."""
    n_read, has_left = 0, threading.Event()

    def check(n: int) -> None:
        nonlocal n_read
        n_read = max(n, n_read)
        if has_left.is_set():
            raise Cancelled("the visitor has left")

    def work() -> Arrived:
        ADDRESS.set(address)
        return read(check)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            while not wait([future], _SECONDS_BETWEEN).done:
                yield n_read
            return future.result()
        finally:
            has_left.set()


def arrived_html(arrived: Arrived) -> str:
    """The prompts with some pictures of each and where they come from, and every file that was not understood.

    Up to three reasons or lines of each list are open, longer lists are folded.
    """
    return render("arrived", arrived=arrived, look=arrived.look, n_prompts=_PROMPTS, n_each=_EACH, n_lines=_LINES,
                  n_open=_OPEN, format_counts=format_counts)  # fmt: skip


class OwnPictures:
    """The choice between a model and own pictures, and the upload that takes the model's place."""

    def __init__(self, key: str, services: Services, *, has_concept: bool = False) -> None:
        self.key, self.services = key, services
        self.has_concept = has_concept  # True if the form names one, which pictures without prompts are taken to show

    def build_choice(self) -> None:
        self.images = gr.State(None)  # PictureChoice of a run on own pictures; None if they are drawn
        self.arrived = gr.State(None)
        choices = [("Draw with a model", DRAWN), ("Use my pictures", OWN)]
        self.source = gr.Radio(
            choices,
            value=DRAWN,
            label="Source of pictures",
            elem_id=f"{self.key}-source",
            elem_classes="source",
            scale=0,
            min_width=290,
        )

    def build_upload(self) -> None:
        key, upload_mb = self.key, self.services.settings.upload_mb
        look: dict[str, Any] = {"elem_classes": "own-pictures", "elem_id": f"{key}-own-pictures"}
        with gr.Column(visible=False, **look) as self.box, gr.Row():
            with gr.Column(min_width=280):
                drop = render("own_pictures", key=key, upload_mb=upload_mb)
                gr.HTML(drop, js_on_load=script("own_pictures", key=key, upload_mb=upload_mb))
                self.file = gr.File(file_types=[".zip"], elem_id=f"{key}-upload", elem_classes="hidden-file")
                self.status = gr.HTML(elem_id=f"{key}-upload-status")
            with gr.Column(min_width=320, scale=2, visible=False) as self.there:
                self.found = gr.HTML(elem_id=f"{key}-found")
                with gr.Row(elem_classes="tools"):
                    self.concept = self._build_concept() if self.has_concept else None
                    self.label = gr.Button("Label these pictures", size="sm", scale=0, min_width=180,
                                           elem_id=f"{key}-label")  # fmt: skip
                    self.remove = gr.Button("Remove them", size="sm", scale=0, min_width=130,
                                            elem_id=f"{key}-remove")  # fmt: skip
                self.fits = gr.HTML(js_on_load=script("choose"), elem_id=f"{key}-fits", elem_classes="fits")
                with gr.Accordion("Put it right", open=False, elem_classes="more") as self.fold:
                    self._build_corrections()

    def _build_concept(self) -> gr.Button:
        return gr.Button(
            ALL_SHOW_IT, size="sm", scale=0, min_width=180, visible=False, elem_id=f"{self.key}-all-show-it"
        )

    def _build_corrections(self) -> None:
        key = self.key
        with gr.Row(elem_classes="tools"):
            self.prompts_from = gr.Dropdown(
                [*_SOURCES, ("one prompt for all", _ONE), *[_NONE_READ] * self.has_concept], value=AUTO,
                label="Prompts from", min_width=200, elem_id=f"{key}-prompts-from",
            )  # fmt: skip
            self.copies = gr.Radio(list(COPIES), value=COUNT_ONCE, label="Copies", min_width=200,
                                   elem_id=f"{key}-copies")  # fmt: skip
        self.prompt = gr.Textbox(
            label="Prompt of all pictures", max_lines=1, placeholder="for example: a photo of a doctor", visible=False,
            submit_btn=True, elem_id=f"{key}-own-prompt",
        )  # fmt: skip
        self.ways = gr.Radio([("together", _TOGETHER), ("each as an arm", _COMPARED)], value=_TOGETHER, visible=False,
                             label="Ways of drawing", elem_id=f"{key}-ways")  # fmt: skip
        self.table = gr.File(
            label="Or a table with file_name and prompt", file_types=list(TABLE_ENDINGS), height=130,
            elem_id=f"{key}-own-table",
        )  # fmt: skip

    def outputs(self) -> list[Any]:
        return [
            self.images, self.arrived, self.there, self.found, self.fold, self.label, self.file, self.table,
            self.status, self.prompts_from, self.copies, self.prompt, self.ways, *filter(None, [self.concept]),
        ]  # fmt: skip

    def wire(self, visitor: Any) -> list[Any]:
        """Wire the :attr:`events` after which other pictures may be there, and return them."""
        shown, quiet = self.outputs(), {"api_visibility": "private", "concurrency_limit": _AT_ONCE}
        corrected = [visitor, self.arrived, self.prompts_from, self.prompt, self.copies, self.ways]
        asked = [self.prompts_from.input, self.prompt.submit, self.copies.input, self.ways.input]
        pressed = [button.click for button in filter(None, [self.concept, self.remove])]
        arrived = self.file.upload(self.on_upload, [visitor, self.file], shown, **quiet)
        status = f"document.querySelector('#{self.key}-folder-status')"
        arrived.then(None, js=f"() => {{ if ({status}) {status}.textContent = ''; }}", **messages.QUIET)
        self.events = [
            arrived,
            gr.on(asked, self.on_correct, corrected, shown, trigger_mode="always_last", **quiet),
            self.table.upload(self.on_table, [visitor, self.arrived, self.table], shown, **quiet),
            gr.on(pressed, self.on_press, [visitor, self.arrived, self.copies, self.ways], shown, **quiet),
        ]
        return self.events

    def on_upload(self, visitor: Visitor, path: str | None) -> Iterator[Updates]:
        if not path:
            yield self.show(None) | {self.status: messages.error_html("No file arrived: choose it again.")}
            return
        yield from self._read(visitor, lambda check: look_through(Path(path), check=check), self.show(None))

    def on_correct(
        self, visitor: Visitor, arrived: Arrived | None, source: str, prompt: str, copies: Any, ways: str
    ) -> Iterator[Updates]:
        """Look again, with prompts from another source, or other copies."""
        if source == _ONE and not prompt.strip():
            yield {self.prompt: gr.update(visible=True)}  # to be typed first
            return

        def read(check: Check) -> Arrived:
            chosen = read_prompts_from(f"{ONE_FOR_ALL}{prompt}" if source == _ONE else source)
            chosen_ways = ("each",) if ways == _COMPARED else ()
            choice = replace(present(arrived).choice, prompts_from=chosen, copies=copies, ways=chosen_ways)
            return look_through(present(arrived).path, choice, check)

        for shown in self._read(visitor, read, {}):
            yield {part: value for part, value in shown.items() if part is not self.fold}  # which is being used

    def on_press(
        self, visitor: Visitor, arrived: Arrived | None, copies: Any, ways: str, event: gr.EventData
    ) -> Iterator[Updates]:
        """Remove the pictures, or look again without reading prompts: all of them show the form's concept."""
        if event.target is self.remove:
            yield self.show(None)
        else:
            yield from self.on_correct(visitor, arrived, NO_PROMPTS, "", copies, ways)

    def on_table(self, visitor: Visitor, arrived: Arrived | None, table: str | None) -> Iterator[Updates]:
        def read(check: Check) -> Arrived:
            path, uploads = present(arrived).path, self.services.uploads
            if not table:
                raise InvalidInput("no table arrived: choose it again")
            with TemporaryDirectory(dir=visitor.folder) as folder:
                target = Path(folder) / path.name
                with_table(path, target, Path(table), check)
                sent = uploads.keep(target, path.name, visitor.address)
            return look_through(uploads.hold(str(sent), visitor.key, visitor.uploads), check=check)

        yield from self._read(visitor, read, {self.table: None})

    def _read(self, visitor: Visitor, read: Callable[[Check], Arrived], failed: Updates) -> Iterator[Updates]:
        """Show how many pictures are read, and then what arrived, or ``failed`` and why."""
        with messages.user_errors() as problem:
            arrived = yield from map_progress(
                count_while_reading(visitor.address, read),
                lambda n: {self.status: messages.done_html(f"Reading your pictures: {n:,} until now …")},
            )
            yield self.show(arrived)
            return
        yield failed | {self.status: messages.error_html(problem.message)}

    def show(self, arrived: Arrived | None) -> Updates:
        """Show these pictures, or the empty upload."""
        choice = arrived.choice if arrived is not None else PictureChoice(images="", have_arrived=False)
        is_one = choice.prompts_from.startswith(ONE_FOR_ALL)
        is_usable = arrived is not None and bool(arrived.look.prompts)
        return {
            self.images: get_picture_choice(arrived),
            self.arrived: arrived,
            self.there: gr.update(visible=arrived is not None),
            self.found: "" if arrived is None else arrived_html(arrived),
            self.fold: gr.update(open=arrived is not None and bool(arrived.look.to_check)),
            **({self.concept: gr.update(visible=choice.has_prompts)} if self.concept else {}),
            self.label: gr.update(visible=is_usable),
            self.prompts_from: _ONE if is_one else choice.prompts_from,
            self.prompt: gr.update(visible=is_one, value=choice.prompts_from.removeprefix(ONE_FOR_ALL) * is_one),
            self.copies: choice.copies,
            self.ways: gr.update(
                visible=arrived is not None and len(arrived.look.ways) > 1,
                value=_COMPARED if choice.ways else _TOGETHER,
            ),
            self.file: None, self.table: None, self.status: "",
        }  # fmt: skip


def present(arrived: Arrived | None) -> Arrived:
    """The upload; InvalidInput if it is gone."""
    if arrived is None or not arrived.path.is_file():
        raise InvalidInput("the pictures are no longer here: upload them again")
    return arrived


def get_picture_choice(arrived: Arrived | None) -> PictureChoice:
    """The pictures that a run can measure, without a path if there are none."""
    if arrived is None or not arrived.look.prompts:
        return PictureChoice(images="", have_arrived=arrived is not None)
    return arrived.choice


def chosen_pictures(choice: PictureChoice | None) -> PictureChoice | None:
    """The pictures of a run; InvalidInput if they have yet to arrive, or none of them can be measured."""
    if choice is not None and not choice.images:
        raise InvalidInput(
            "none of the files that you dropped is a picture that can be measured; “Use my pictures” says why"
            if choice.have_arrived
            else "there are no pictures yet: drop them under “Use my pictures”, and wait until they are read"
        )
    return choice
