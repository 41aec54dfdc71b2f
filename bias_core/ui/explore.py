"""The Explore tab: a concept and attributes in, pictures and scores out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.runs.export import write_zip
from bias_core.studies.catalogue import AttributeSet, load_attribute_sets
from bias_core.studies.explore_plan import check_number
from bias_core.studies.explore_types import ExploreReport
from bias_core.ui import messages
from bias_core.ui.explore_layout import DEFAULTS, REMEMBERED, Ui, build_layout
from bias_core.ui.explore_view import ExploreView, GrowingGrid, View
from bias_core.ui.form import attribute_rows, form_values, read_form, words_for
from bias_core.ui.links import EXPLORE, query_of, read_link
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import model_hint
from bias_core.ui.run_turns import RUN, in_line

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.services import Services
    from bias_core.ui.visitor import Visitor

Updates = dict[Any, Any]
_GENERAL_SET = "people"  # for concepts that no set was made for
_PRIVATE = {"api_visibility": "private"}
_QUIET = {"api_visibility": "private", "show_progress": "hidden"}
_REVEAL = """() => {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const behavior = calm ? 'auto' : 'smooth';
  document.querySelector('#picture article')?.scrollIntoView({behavior, block: 'nearest'});
}"""
_SAVE_ZIP = "() => setTimeout(() => document.querySelector('#zip-file')?.click(), 300)"


class Handlers:
    """What happens on each event; per-visitor data comes in and goes out as ``gr.State``."""

    def __init__(self, services: Services, sets: Sequence[AttributeSet], ui: Ui) -> None:
        self.services, self.ui = services, ui
        self.sets = {item.key: item for item in sets}
        self.show = ExploreView(ui)

    def on_generate(self, visitor: Visitor, last: View | None, *values: Any) -> Iterator[Updates]:
        """Run the exploration and show it grow."""
        from bias_core.studies.explore import explore

        with user_errors() as problem:
            settings = read_form(values)
            check_number(settings, self.services.settings)
            cancelled = visitor.stop.is_set
            start = partial(explore, settings, self.services, cancelled=cancelled, session=visitor.key)
            yield from self.following(visitor, in_line(self.services, visitor, start, EXPLORE), last=last)
        if problem:
            yield self.show.failed(problem.message, last)

    def following(
        self, visitor: Visitor, steps: Iterator[Any], note: str = "", *, last: View | None = None
    ) -> Iterator[Updates]:
        """A run on its way, with a note below, and then its report; where there is none, the last one."""
        grid, pace = GrowingGrid(), messages.Pace()
        yield self.show.started() | ({self.ui.status: note} if note else {})
        with user_errors() as problem:
            for step in steps:
                if isinstance(step, ExploreReport):
                    yield self.show.finished(step, visitor.folder)
                elif pace.is_due():
                    shown = self.show.running(step, grid)
                    yield shown | {self.ui.status: shown[self.ui.status] + note}
        if problem:
            yield self.show.failed(problem.message, last)

    def opened(self, report: ExploreReport, folder: Path) -> Updates:
        """A report that was made earlier, with its settings in the form."""
        filled = {self.ui.form[name]: value for name, value in form_values(report.settings).items()}
        model = self._model_updates(report.settings.model, report.settings.condition)
        return (
            self.show.finished(report, folder)
            | model
            | filled
            | {self.ui.condition: model[self.ui.condition]}
        )

    def outputs(self) -> list[Any]:
        """Everything that :meth:`opened` changes."""
        return [*(self.ui.parts[name] for name in ExploreView.OUTPUTS), *self.ui.inputs(), self.ui.model_note]

    def on_click(self, visitor: Visitor) -> Updates:
        """Take a turn in the queue; a run of the same visitor that is still at work ends."""
        visitor.start()
        return self.show.waiting()

    def on_stop(self, visitor: Visitor) -> str:
        """Ask the run to end at its next denoising step."""
        visitor.stop.set()
        return messages.STOPPING

    def on_crash(self, last: View | None) -> Updates:
        """Show that an unforeseen error happened; the log has it."""
        return self.show.failed("", last)

    def on_set(self, key: str) -> Updates:
        """Fill the table and the association's words from a built-in set."""
        chosen = self.sets[key]
        word_a, word_b = words_for(chosen)
        ui = self.ui
        return {
            ui.attributes: attribute_rows(chosen.attributes),
            ui.attribute_a: word_a,
            ui.attribute_b: word_b,
        }

    def on_restore(self, key: str) -> list[list[str]]:
        """The table as the chosen set has it."""
        return attribute_rows(self.sets[key].attributes)

    def on_add(self, rows: list[list[str]]) -> list[list[str]]:
        """An empty row more."""
        return [*rows, [""] * 5]

    def on_choose_row(self, event: gr.SelectData) -> int:
        """Remember which row was touched last."""
        return int(event.index[0])

    def on_remove(self, rows: list[list[str]], chosen: int | None) -> tuple[list[list[str]], None]:
        """The table without the row touched last, or without the last one."""
        out = chosen if chosen is not None and chosen < len(rows) else len(rows) - 1
        return [row for i, row in enumerate(rows) if i != out] or [[""] * 5], None

    def on_model(self, name: str) -> Updates:
        """Conditions and notes of another model."""
        with user_errors() as problem:
            return self._model_updates(name, None)
        return {self.ui.model_note: messages.error_html(problem.message)}

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:
        """Put back what this browser chose last time, or fill in what the address asks for."""
        kept = {k: v for k, v in (remembered or {}).items() if k in REMEMBERED}
        asked = read_link(query_of(request), {EXPLORE: ()}, self.services).values
        kept |= {k: v for k, v in asked.items() if k in (*REMEMBERED, "seed")}
        with user_errors():
            updates = self._model_updates(str(kept.get("model", self.ui.model.value)), kept.get("condition"))
            known = {self.ui.form[k]: v for k, v in kept.items() if k != "condition"}
            return known | updates | self._concept_updates(str(asked.get("concept", "")))
        return {self.ui.model_note: ""}

    def on_remember(self, *values: Any) -> dict[str, Any]:
        """What this browser should know next time."""
        return dict(zip(REMEMBERED, values, strict=True))

    def on_choose(self, view: View | None, event: gr.EventData) -> Updates:
        """A group button or a point of the map was chosen."""
        if view is None:
            return {}
        if event.number:
            return self.show.picture(view, int(event.number))
        return self.show.group(replace(view, group=int(event.group), page=0))

    def on_picture(self, view: View | None, event: gr.SelectData) -> Updates:
        """A picture of the grid was chosen."""
        if view is None:
            return {}
        return self.show.picture(view, view.on_page()[event.index].number)

    def on_page(self, view: View | None, page: int | None) -> Updates:
        """Another page of the grid."""
        return {} if view is None else self.show.group(replace(view, page=int(page or 0)))

    def on_zip(self, visitor: Visitor, view: View | None) -> Updates:
        """Write the zip of the visitor's run."""
        from bias_core.studies.explore_export import to_export

        with user_errors() as problem:
            if view is None:
                return {self.ui.status: messages.error_html(messages.NOTHING_DONE)}
            target = visitor.folder / f"explore-{view.report.run_id}.zip"
            return {self.ui.zip_file: str(write_zip(to_export(view.report), target))}
        return {self.ui.status: messages.error_html(problem.message)}

    def _concept_updates(self, concept: str) -> Updates:
        """The form for a concept that a link names, with the attributes that suit it."""
        if not concept:
            return {}
        ui, hints = self.ui, {item.concept_hint: item for item in self.sets.values() if item.concept_hint}
        chosen = hints.get(concept.lower(), self.sets[_GENERAL_SET])
        filled = {ui.concept: concept, ui.template: chosen.template or DEFAULTS.template}
        return filled | {ui.chosen_set: chosen.key} | self.on_set(chosen.key)

    def _model_updates(self, name: str, condition: str | None) -> Updates:
        info = self.services.model_info(name)
        chosen = condition if condition in info.conditions else next(iter(info.conditions), None)
        licence = f"Licence: {info.licence}." if info.licence else ""
        hint = "" if info.embedded else model_hint(self.services, name)
        note = " ".join(filter(None, (hint, info.note, licence)))
        return {
            self.ui.condition: gr.update(
                choices=list(info.conditions), value=chosen, visible=bool(info.conditions)
            ),
            self.ui.num_inference_steps: info.default_steps,
            self.ui.guidance_scale: info.default_guidance,
            self.ui.model_note: escape(note),
        }


def build(demo: gr.Blocks, services: Services, visitor: gr.State) -> Handlers:
    """The tab with its wiring; what it can show is asked of the handlers."""
    sets = load_attribute_sets(services.settings.assets_dir / "studies")
    ui = build_layout(services, sets, visitor)
    handlers = Handlers(services, sets, ui)
    _wire_run(ui, handlers)
    _wire_form(ui, handlers, sets)
    _wire_results(ui, handlers)
    remembered = [ui.form[name] for name in REMEMBERED]
    restored = [*remembered, ui.num_inference_steps, ui.guidance_scale, ui.model_note, ui.seed, ui.concept]
    restored += [ui.template, ui.chosen_set, ui.attributes, ui.attribute_a, ui.attribute_b]
    demo.load(handlers.on_load, ui.remembered, restored, **_QUIET)
    for component in remembered:
        component.input(handlers.on_remember, remembered, ui.remembered, queue=False, **_QUIET)
    return handlers


def _wire_run(ui: Ui, handlers: Handlers) -> None:
    shown = [ui.parts[name] for name in ExploreView.OUTPUTS]
    inputs = [ui.visitor, ui.view, *ui.inputs()]
    asked = gr.on(
        [ui.generate.click, ui.concept.submit], handlers.on_click, ui.visitor,
        [ui.status, ui.generate, ui.stop], queue=False, **_QUIET,
    )  # fmt: skip
    run = asked.then(
        handlers.on_generate, inputs, shown, show_progress="minimal", show_progress_on=ui.status,
        trigger_mode="multiple", **RUN, **_PRIVATE,
    )  # fmt: skip
    run.failure(handlers.on_crash, ui.view, shown, **_QUIET)
    ui.stop.click(handlers.on_stop, ui.visitor, ui.status, queue=False, **_QUIET)


def _wire_form(ui: Ui, handlers: Handlers, sets: Sequence[AttributeSet]) -> None:
    filled = [ui.attributes, ui.attribute_a, ui.attribute_b]
    ui.chosen_set.input(handlers.on_set, ui.chosen_set, filled, **_QUIET)
    by_key = {item.key: item for item in sets}
    for key, chip in ui.chips.items():
        example = by_key[key]
        values = (example.concept_hint, example.template or "a photo of a {}", key,
                  attribute_rows(example.attributes), *words_for(example))  # fmt: skip
        chip.click(_constant(values), None, [ui.concept, ui.template, ui.chosen_set, *filled], **_QUIET)
    depends = [ui.condition, ui.num_inference_steps, ui.guidance_scale, ui.model_note]
    ui.model.input(handlers.on_model, ui.model, depends, **_QUIET)
    ui.dice.click(lambda: secrets.randbelow(2**31), None, ui.seed, **_QUIET)
    ui.add.click(handlers.on_add, ui.attributes, ui.attributes, **_QUIET)
    ui.attributes.select(handlers.on_choose_row, None, ui.row, **_QUIET)
    ui.remove.click(handlers.on_remove, [ui.attributes, ui.row], [ui.attributes, ui.row], **_QUIET)
    ui.restore.click(handlers.on_restore, ui.chosen_set, ui.attributes, **_QUIET)


def _wire_results(ui: Ui, handlers: Handlers) -> None:
    linked = [ui.view, ui.gallery, ui.groups, ui.map, ui.picture, ui.page]
    for source in (ui.groups, ui.map):
        source.select(handlers.on_choose, ui.view, linked, **_QUIET)
    chosen = ui.gallery.select(handlers.on_picture, ui.view, linked, **_QUIET)
    chosen.then(None, js=_REVEAL, **_QUIET)
    ui.page.input(handlers.on_page, [ui.view, ui.page], linked, **_QUIET)
    written = ui.zip.click(handlers.on_zip, [ui.visitor, ui.view], [ui.zip_file, ui.status], **_PRIVATE)
    written.success(None, js=_SAVE_ZIP, **_QUIET)


def _constant(values: tuple[Any, ...]) -> Any:
    return lambda: values
