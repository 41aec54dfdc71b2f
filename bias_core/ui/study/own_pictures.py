"""Pictures of the visitor instead of drawn ones: the choice, the upload, what arrived, and corrections of prompts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.store.images import decode_picture
from bias_core.store.imports import ImportedImages, NoPrompts, open_files, with_prompts
from bias_core.store.tables import ENDINGS
from bias_core.study.documents import small_uri
from bias_core.ui import messages
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor

Updates = dict[Any, Any]
DRAWN, OWN = "drawn", "own"
NOT_YET = "not yet"
"""Value of the form's pictures while *Use my pictures* is chosen and none have arrived."""
_SHOWN, _SIDE = 24, 128  # pictures, and their pixels
_UNUSED = "file could not be used", "files could not be used"
_OTHERS = "file is neither a picture nor a text about one", "files are neither pictures nor texts about them"


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """Contents of an upload."""

    # path, name: of the zip
    path: Path
    name: str
    n_files: int  # pictures without a prompt, if none has one
    counts: Mapping[str, int]  # usable pictures per prompt; {} if none has a prompt
    sources: Mapping[str, int]  # pictures per source of their prompt
    first: tuple[tuple[str, str, str], ...]  # names, prompts and data URIs of some
    # problems of files, worded for one and for several, with the files and reasons
    remarks: tuple[tuple[str, str, list[str]], ...]


def look_through(path: Path) -> Arrived:
    """Read every picture of a folder or zip; InvalidInput if it is damaged, unsafe or too large."""
    try:
        source = ImportedImages(path)
    except NoPrompts as error:
        return _without_prompts(path, error)
    try:
        source.examine()
    except InvalidInput:
        if source.counts:  # something else than that no picture can be used
            raise
    remarks = source.remarks()
    if source.others:
        remarks.append((*_OTHERS, source.others))
    return Arrived(
        path=path, name=source.name, n_files=0, counts=source.counts, sources=source.sources,
        first=tuple((name, prompt, _small(image)) for name, prompt, image in source.first(_SHOWN)),
        remarks=tuple(remarks),
    )  # fmt: skip


def _without_prompts(path: Path, error: NoPrompts) -> Arrived:
    """Contents of an upload without prompts."""
    files, first, damaged = open_files(path), list[tuple[str, str, str]](), list[str]()
    for name in error.pictures:
        if len(first) < _SHOWN:
            try:
                first.append((name, "", _small(decode_picture(files.read(name)))))
            except InvalidInput as reason:
                damaged.append(f"{name}: {reason}")
    lines = [line for line in (*error.rejected, *damaged) if not line.endswith(": no prompt")]
    return Arrived(
        path=path, name=path.stem, n_files=len(error.pictures) - len(damaged), counts={}, sources={},
        first=tuple(first), remarks=((*_UNUSED, lines),) if lines else (),
    )  # fmt: skip


def _small(image: Any) -> str:
    copy = image.copy()
    copy.thumbnail((_SIDE, _SIDE))
    return small_uri(copy)


def arrived_html(arrived: Arrived) -> str:
    """The first pictures with their prompts, and every file that was not understood with the reason."""
    return render("arrived", arrived=arrived, prompts=sorted(arrived.counts.items(), key=lambda item: -item[1]))


class OwnPictures:
    """The choice between a model and own pictures, and the upload that takes the model's place."""

    def __init__(self, key: str, services: Services) -> None:
        self.key, self.services = key, services
        self.images = gr.State(None)  # path of the zip that a run measures; NOT_YET without one; None if drawn
        self.arrived = gr.State(None)
        self.is_built = False

    def build_choice(self) -> None:
        """Build the choice."""
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

    def build_upload(self, *, visible: bool = False) -> None:
        """Build the upload, what arrived, and corrections."""
        key, upload_mb, self.is_built = self.key, self.services.settings.upload_mb, True
        look: dict[str, Any] = {"elem_classes": "own-pictures", "elem_id": f"{key}-own-pictures"}
        with gr.Column(visible=visible, **look) as self.box, gr.Row():
            with gr.Column(min_width=280):
                drop = render("own_pictures", key=key, upload_mb=upload_mb)
                gr.HTML(drop, js_on_load=script("own_pictures", key=key, upload_mb=upload_mb))
                self.file = gr.File(file_types=[".zip"], elem_id=f"{key}-upload", elem_classes="hidden-file")
                self.status = gr.HTML(elem_id=f"{key}-upload-status")
            with gr.Column(min_width=320, scale=2, visible=False) as self.there:
                self.found = gr.HTML(elem_id=f"{key}-found")
                with gr.Row(elem_classes="tools"):
                    self.label = gr.Button("Label these pictures", size="sm", scale=0, min_width=180,
                                           elem_id=f"{key}-label")  # fmt: skip
                    self.remove = gr.Button("Remove them", size="sm", scale=0, min_width=130,
                                            elem_id=f"{key}-remove")  # fmt: skip
                with gr.Accordion("Correct the prompts", open=False, elem_classes="more") as self.fold:
                    self._build_corrections()

    def _build_corrections(self) -> None:
        key = self.key
        self.prompt = gr.Textbox(
            label="One prompt for all pictures", max_lines=1, placeholder="for example: a photo of a doctor",
            elem_id=f"{key}-own-prompt",
        )  # fmt: skip
        with gr.Row(elem_classes="tools"):
            self.set = gr.Button("Use this prompt", size="sm", scale=0, min_width=150, elem_id=f"{key}-own-prompt-set")
        kinds = ", ".join(ending[1:].upper() for ending in ENDINGS)
        self.table = gr.File(
            label=f"Or a table with file_name and prompt ({kinds})", file_types=list(ENDINGS), height=100,
            elem_id=f"{key}-own-table",
        )  # fmt: skip

    def outputs(self) -> list[Any]:
        """Everything that :meth:`show` changes."""
        return [
            self.images,
            self.arrived,
            self.there,
            self.found,
            self.fold,
            self.label,
            self.file,
            self.table,
            self.status,
        ]

    def wire(self, visitor: Any) -> list[Any]:
        """Wire the events, and return them."""
        shown, quiet = self.outputs(), {"api_visibility": "private"}
        corrected = [visitor, self.arrived, self.prompt, self.table]
        asked = [self.set.click, self.prompt.submit, self.table.upload]
        arrived = self.file.upload(self.on_upload, self.file, shown, **quiet)
        status = f"document.querySelector('#{self.key}-folder-status')"
        arrived.then(None, js=f"() => {{ if ({status}) {status}.textContent = ''; }}", **messages.QUIET)
        return [
            arrived,
            gr.on(asked, self.on_correct, corrected, shown, **quiet),
            self.remove.click(lambda: self.show(None), None, shown, **messages.QUIET),
        ]

    def on_upload(self, path: str | None) -> Updates:
        """Show what arrived."""
        with messages.user_errors() as problem:
            if not path:
                raise InvalidInput("no file arrived: choose it again")
            return self.show(look_through(Path(path)))
        return self.show(None) | {self.status: messages.error_html(problem.message)}

    def on_correct(self, visitor: Visitor, arrived: Arrived | None, prompt: str, table: str | None) -> Updates:
        """Replace prompts by one for all, or by those of a table."""
        with messages.user_errors() as problem:
            path, uploads = present(arrived).path, self.services.uploads
            with TemporaryDirectory(dir=visitor.folder) as folder:
                target = Path(folder) / path.name
                with_prompts(path, target, **{"table": Path(table)} if table else {"prompt": prompt})
                sent = uploads.keep(target, path.name, visitor.address)
            return self.show(look_through(uploads.hold(str(sent), visitor.key, visitor.uploads)))
        return {self.status: messages.error_html(problem.message), self.table: None}

    def show(self, arrived: Arrived | None) -> Updates:
        """Show these pictures, or the empty upload."""
        is_usable = arrived is not None and bool(arrived.counts)
        can_correct = arrived is not None and bool(arrived.first)
        return {
            self.images: images_of(arrived),
            self.arrived: arrived,
            self.there: gr.update(visible=arrived is not None),
            self.found: "" if arrived is None else arrived_html(arrived),
            self.fold: gr.update(open=arrived is not None and not is_usable, visible=can_correct),
            self.label: gr.update(visible=is_usable),
            self.file: None, self.table: None, self.status: "",
        }  # fmt: skip


def present(arrived: Arrived | None) -> Arrived:
    """The upload; InvalidInput if it is gone."""
    if arrived is None or not arrived.path.is_file():
        raise InvalidInput("the pictures are no longer here: upload them again")
    return arrived


def images_of(arrived: Arrived | None) -> str:
    """Path of the pictures that a run can measure, or NOT_YET."""
    return str(arrived.path) if arrived is not None and arrived.counts else NOT_YET


def chosen_pictures(path: str | None) -> str | None:
    """Path of the pictures; InvalidInput if they have yet to arrive."""
    if path == NOT_YET:
        raise InvalidInput("choose your pictures first: drop them under “Use my pictures”, and give them prompts")
    return path
