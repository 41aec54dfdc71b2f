"""The gallery in the Runs tab: finished audits to look at and to compare, and one's own to publish."""

from collections.abc import Callable, Collection
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.library import gallery
from bias_core.library.compare import comparison_report
from bias_core.library.gallery import SHIPPED, Audit, list_audits, may_publish, open_audit, publish_run
from bias_core.services import Services
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.saved import SavedReport
from bias_core.studies.reports.text import title_of
from bias_core.studies.running import history
from bias_core.ui import messages
from bias_core.ui.study.view import when
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor

Updates = dict[Any, Any]
_OWN, _OF_GALLERY = "run", "audit"
_ABOUT = "Finished audits of others, and those that come with the program. They are read only."


class GalleryPart:
    """Two menus to compare, the list, and what publishes."""

    def __init__(self, services: Services, first_examples: Collection[str] = ()) -> None:
        self.services, self.first_examples = services, first_examples

    def build_compare(self) -> None:
        """The menus, below one's own runs."""
        with gr.Row(elem_classes="compare-two"):
            self.first = gr.Dropdown([], label="Compare", elem_id="gallery-first", min_width=240)
            self.second = gr.Dropdown([], label="with", elem_id="gallery-second", min_width=240)
            self.compare = gr.Button("Compare", size="sm", scale=0, min_width=140, elem_id="gallery-compare")

    def build(self) -> None:
        """The list, and what publishes."""
        with gr.Accordion("Gallery", open=False, elem_classes="more", elem_id="runs-gallery") as self.box:
            gr.Markdown(_ABOUT, elem_classes="quiet")
            self.list = gr.HTML(js_on_load=script("runs"), elem_id="gallery-list")
            gr.HTML(messages.heading_html("Publish one of yours", "Numbers, settings, small pictures."))
            with gr.Row():
                self.run = gr.Dropdown([], label="Run", elem_id="gallery-run", min_width=260)
                self.publisher = gr.Textbox(
                    label="Published by", info="Stands beside the audit for all to read", elem_id="gallery-publisher",
                    max_lines=1, min_width=220,
                )  # fmt: skip
            self.publish = gr.Button("Publish", size="sm", scale=0, min_width=140, elem_id="gallery-publish")
            self.status = gr.HTML(elem_id="gallery-status")
            self.taken_back = gr.State(None)

    def wire(self, visitor: Any, shown: Any, show: Callable[..., Updates], everywhere: list[Any]) -> None:
        """``shown`` is the ``gr.Tab``; ``show`` shows a report in the tab of its study, changing ``everywhere``."""
        quiet, menus = messages.QUIET, [self.list, self.first, self.second, self.run]
        asking = [visitor, self.first, self.second]

        def on_open(event: gr.EventData) -> Updates:
            with messages.user_errors() as problem:
                return show(*self.opened(str(event.run)))
            return {self.status: messages.error_html(problem.message)}

        shown.select(self.on_list, asking, menus, **quiet)
        self.box.expand(self.on_list, asking, menus, **quiet)
        self.list.expand(on_open, None, [*everywhere, self.status], **quiet)
        acted = [*menus, self.status, self.taken_back]
        self.list.select(self.on_act, [*asking, self.taken_back], acted, **quiet)
        publish = self.publish.click(
            self.on_publish, [visitor, self.run, self.publisher], [self.status, *menus], trigger_mode="once", **quiet
        )
        publish.failure(messages.crash_html, None, self.status, **quiet)

    def on_list(
        self,
        visitor: Visitor,
        first: str | None = None,
        second: str | None = None,
        taken_back: gallery.TakenBack | None = None,
    ) -> Updates:
        """The list and the menus as they are now; of menus without a choice, two that can be compared."""
        audits, problems = list_audits(self.services)
        lines = [line for line in history.list_runs(self.services, visitor.key) if line.saved]
        own = [(f"{line.title} · {line.model} · {when(line.updated)}", f"{_OWN}:{line.run_id}") for line in lines]
        others = [(f"{one.title} · {one.publisher}", f"{_OF_GALLERY}:{one.name}") for one in audits]
        studies = {f"{_OWN}:{line.run_id}": line.study for line in lines}
        studies |= {f"{_OF_GALLERY}:{one.name}": one.study for one in sorted(audits, key=self._is_shown_elsewhere)}
        if first not in studies or second not in studies:
            first, second = _two_alike(studies)
        choices = [*own, *others]
        return {
            self.list: render(
                "gallery", audits=audits, problems=problems, when=when, taken_back=taken_back, own=self._own(visitor)
            ),
            self.first: gr.update(choices=choices, value=first),
            self.second: gr.update(choices=choices, value=second),
            self.run: gr.update(choices=own),
        }

    def _is_shown_elsewhere(self, audit: Audit) -> bool:
        """Whether it is none of the examples that the Runs tab opens with."""
        return audit.name not in self.first_examples

    def opened(self, name: str) -> tuple[SavedReport, str]:
        """A report of the gallery, and what it says above it."""
        saved = open_audit(self.services, name)
        audit = next((one for one in list_audits(self.services)[0] if one.name == name), None)
        return saved, "" if audit is None else note_html(audit)

    def compared(self, visitor: Visitor, first: str | None, second: str | None) -> StudyReport:
        """Both side by side; InvalidInput where they cannot be compared."""
        (one, a), (other, b) = (self._report(visitor, choice) for choice in (first, second))
        return comparison_report(one, other, (a, b))

    def on_act(
        self,
        visitor: Visitor,
        first: str | None,
        second: str | None,
        taken_back: gallery.TakenBack | None,
        event: gr.EventData,
    ) -> Updates:
        """Take back an audit of one's own, or undo that."""
        with messages.user_errors() as problem:
            if str(event.act) == "take back":
                taken_back = gallery.take_back(self.services, str(event.run), self._run_ids(visitor))
            elif str(event.act) == "undo" and taken_back is not None:
                gallery.put_back(self.services, taken_back)
                taken_back = None
        text = messages.error_html(problem.message) if problem else ""
        listed = self.on_list(visitor, first, second, taken_back)
        return {**listed, self.status: text, self.taken_back: taken_back}

    def on_publish(self, visitor: Visitor, run: str | None, publisher: str) -> Updates:
        """Write one's run into the gallery."""
        with messages.user_errors() as problem:
            token = visitor.typed_token or visitor.signed_in_token
            if why_not := may_publish(self.services, has_token=bool(token)):
                raise InvalidInput(why_not)
            run_id = self._id(run, _OWN, "choose one of your runs to publish")
            report = history.open_run(self.services, visitor.key, run_id).report
            audit = publish_run(self.services, run_id, report, publisher=publisher or "", token=token)
            says = f"Published: “{audit.title}”, by {audit.publisher}."
            return {self.status: messages.done_html(says)} | self.on_list(visitor)
        return {self.status: messages.error_html(problem.message)}

    def _own(self, visitor: Visitor) -> set[str]:
        with messages.user_errors():  # a gallery that is no folder is said in the list
            if not may_publish(self.services, has_token=False):
                return gallery.own_audits(self.services, self._run_ids(visitor))
        return set()

    def _run_ids(self, visitor: Visitor) -> list[str]:
        return [line.run_id for line in history.list_runs(self.services, visitor.key)]

    def _report(self, visitor: Visitor, choice: str | None) -> tuple[StudyReport, str]:
        """A report and its title with where it is from."""
        kind, _, name = (choice or "").partition(":")
        if not name:
            raise InvalidInput("choose two to compare")
        if kind == _OWN:
            saved = history.open_run(self.services, visitor.key, name)
            return saved.report, f"{title_of(saved.report)} (yours, {when(saved.created)})"
        audit = next((one for one in list_audits(self.services)[0] if one.name == name), None)
        report = open_audit(self.services, name).report
        if audit is None or audit.publisher == SHIPPED:
            return report, title_of(report)
        return report, f"{audit.title} ({audit.publisher})"

    def _id(self, choice: str | None, kind: str, otherwise: str) -> str:
        own, _, name = (choice or "").partition(":")
        if own != kind or not name:
            raise InvalidInput(otherwise)
        return name


def _two_alike(studies: dict[str, str]) -> tuple[str | None, str | None]:
    """The first two of one study."""
    for first, study in studies.items():
        for second, other in studies.items():
            if first != second and study == other:
                return first, second
    return None, None


def note_html(audit: Audit) -> str:
    """Who published it, and when."""
    return render("gallery_note", audit=audit, when=when, shipped=SHIPPED)
