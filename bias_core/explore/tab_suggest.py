"""Suggest attributes on the page: a button, what was suggested with where it comes from, and what is taken over."""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from bias_core.explore.concept import read_attributes
from bias_core.explore.options import attribute_text, explore_options
from bias_core.explore.report import is_exploration
from bias_core.explore.suggest import Suggested, suggest_attributes, suggest_settings, suggested_by_words
from bias_core.services import Services
from bias_core.study.run import followed
from bias_core.study.types import Progress, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.model_menu import attribute_rows
from bias_core.ui.visitor import Visitor, in_line, then_run

Updates = dict[Any, Any]
Steps = Generator[Progress, None, list[Suggested]]
_TICKED = 5  # of the first suggestions
_HOW = (
    "Before a run: from the concept’s words, by a language model. After a run: also from its pictures, whose captions "
    "are held against a plain base drawn from the same seeds. Nothing is measured until you run."
)
_NOTHING = "Nothing stands out, and the language model names nothing: add rows of your own."


class SuggestPart:
    """The button and the list below the table of attributes."""

    def __init__(self, services: Services, key: str) -> None:
        self.services, self.key = services, key

    def build(self) -> None:
        """The components."""
        with gr.Row(elem_classes="tools"):
            self.button = gr.Button("Suggest attributes", size="sm", scale=0, min_width=180, elem_id="suggest")
            self.stop = gr.Button("Stop", size="sm", variant="stop", scale=0, min_width=90, visible=False)
        gr.Markdown(_HOW, elem_classes="quiet")
        self.status = gr.HTML(elem_id="suggest-status")
        self.choices = gr.CheckboxGroup(
            [], label="Suggested attributes", info="The surest first; take over what you want, then edit it above",
            visible=False, elem_id="suggested", elem_classes="suggested",
        )  # fmt: skip
        self.take = gr.Button(
            "Add the ticked ones to the attributes", size="sm", scale=0, min_width=300, visible=False,
            elem_id="suggest-take",
        )  # fmt: skip

    def wire(self, form: Any, read_form: Callable[[Sequence[Any]], StudySettings]) -> None:
        """What happens when the buttons are pressed; ``form`` is the tab's."""
        visitor, self.table = form.parts["visitor"], form.form["attributes"]
        changed = [self.status, self.choices, self.take, self.button, self.stop]
        begin = self.button.click(self.on_click, visitor, changed, queue=False, **messages.QUIET)
        run = partial(self.on_suggest, read_form)
        then_run(begin.then, run, [visitor, *form.inputs()], changed, self.on_crash)
        self.stop.click(form.on_stop, visitor, None, queue=False, **messages.QUIET)
        self.take.click(self.on_take, [self.table, self.choices], [self.table, self.status], **messages.QUIET)

    def on_click(self, visitor: Visitor) -> Updates:
        """A new run of this visitor; an older one ends."""
        with messages.user_errors() as problem:
            visitor.start(self.services)
            return self._running(True) | {self.status: messages.QUEUED}
        return self._running(False) | {self.status: messages.error_html(problem.message)}

    def on_suggest(
        self, read_form: Callable[[Sequence[Any]], StudySettings], visitor: Visitor, *values: Any
    ) -> Iterator[Updates]:
        """Say where it is, then show what is suggested."""
        lists: list[list[Suggested]] = []
        with messages.user_errors() as problem:
            steps = self._steps(visitor, read_form(values[:-1]), values[-1])
            for step in followed(in_line(self.services, visitor, lambda: steps), lists):
                yield {self.status: messages.progress_html(step)}
        if problem:
            yield self._running(False) | {self.status: messages.error_html(problem.message)}
        else:
            yield self._running(False) | self.show(lists[0])

    def on_crash(self) -> Updates:
        """Show that an unforeseen error happened."""
        return self._running(False) | {self.status: messages.crash_html()}

    def show(self, suggested: Sequence[Suggested]) -> Updates:
        """The list, its first ones ticked."""
        choices = [(f"{one.attribute.name} ({one.where_from})", attribute_text(one.attribute)) for one in suggested]
        ticked = [attribute_text(one.attribute) for one in suggested[:_TICKED] if one.is_told]
        return {
            self.choices: gr.update(choices=choices, value=ticked, visible=bool(choices)),
            self.take: gr.update(visible=bool(choices)),
            self.status: messages.done_html(f"{len(choices)} suggestions." if choices else _NOTHING),
        }

    def on_take(self, rows: Sequence[Sequence[Any]], texts: Sequence[str]) -> Updates:
        """The table with the ticked attributes that it does not have yet, by name."""
        with messages.user_errors() as problem:
            present = {str(row[0]).strip().lower() for row in rows}
            filled = [list(row) for row in rows if any(str(cell or "").strip() for cell in row)]
            new = [one for one in read_attributes(tuple(texts), "") if one.name.lower() not in present]
            says = f"{len(new)} added to the table above; press Generate and measure." if new else "They are there."
            return {self.table: [*filled, *attribute_rows(new)], self.status: messages.done_html(says)}
        return {self.status: messages.error_html(problem.message)}

    def _steps(self, visitor: Visitor, settings: StudySettings, shown: StudyReport | None) -> Steps:
        """From the pictures of the report that is shown, where it is of this concept; else from words alone."""
        services = visitor.services(self.services)
        if shown is not None and _is_of(shown, settings):
            how = {"cancelled": visitor.stop.is_set, "session": visitor.key}
            return (yield from suggest_attributes(suggest_settings(shown.settings), services, **how))
        yield Progress(message="asking the language model")
        return suggested_by_words(suggest_settings(settings, n_images=16), services)

    def _running(self, running: bool) -> Updates:
        return {self.button: gr.update(visible=not running), self.stop: gr.update(visible=running)}


def _is_of(report: StudyReport, settings: StudySettings) -> bool:
    """Whether the report has pictures that were drawn of what the form asks for."""
    if not is_exploration(report) or report.arms or report.settings.images or settings.arms:
        return False
    own, of_form = explore_options(report.settings), explore_options(settings)
    of_model = (report.settings.model, report.settings.condition) == (settings.model, settings.condition)
    return (own.concept, own.template) == (of_form.concept, of_form.template) and of_model
