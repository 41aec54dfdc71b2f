"""The form of the Explore tab: the list of suggested attributes, then the fields and their settings."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any, ClassVar
from urllib.parse import urlencode

import gradio as gr

from bias_core.explore.exploration import is_exploration
from bias_core.explore.extension import MOST, read_attributes, suggest_set
from bias_core.explore.options import (
    ADDED,
    KIND,
    ExploreOptions,
    added_arms,
    attribute_text,
    compared_concept,
    explore_options,
    explore_settings,
    of_any_prompt,
    prompts_of,
    split_compared_concept,
)
from bias_core.explore.study import pack_of
from bias_core.explore.suggest import Suggested, suggest_attributes, suggest_settings, suggested_by_words
from bias_core.prompts import fill_template
from bias_core.services import Services
from bias_core.store.tables import ENDINGS
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.design import pack_design
from bias_core.study.image_rows import cut_notes
from bias_core.study.next_steps import sizes_by_width
from bias_core.study.run import followed
from bias_core.study.types import Arm, Design, Progress, StudyReport, StudySettings, arm_text
from bias_core.ui import messages
from bias_core.ui.links import ARMS, OPTION, query_of, read_link
from bias_core.ui.model_menu import (
    EMPTY_ROW,
    attribute_rows,
    build_table,
    model_hint,
    rates_note,
    read_table,
    without_rates_of_others,
    words_for,
)
from bias_core.ui.study.fields import read_field
from bias_core.ui.study.form import ARMS_INPUT, CLASSIFIER, PLAIN, ArmsForm, by_name, plain_groups, split_first_arm
from bias_core.ui.study.own_pictures import DRAWN, OWN, chosen_pictures
from bias_core.ui.study.parts import ChipsPart, get_chip
from bias_core.ui.study.study_tab import EACH, LATEST, QUIET, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor, run_queued, then_run
from bias_core.values import changed_settings, option_values, settings_of

Steps = Generator[Progress, None, list[Suggested]]
_TICKED = 5  # suggestions ticked at first
_HOW = (
    "Before a run, a language model suggests attributes for the concept. After a run, captions of its pictures are "
    "also compared with captions of a plain concept on the same seeds. Suggestions are measured only when you run."
)
_GENERATE, _MEASURE = "Generate and measure", "Measure my pictures"  # texts of the button that runs
_RUN_TEXT_JS = f"(source) => source === {OWN!r} ? {_MEASURE!r} : {_GENERATE!r}"
_NOTHING = "No suggestions: nothing stands out in the pictures or to the language model. Add your own rows."


class SuggestPart:
    """The button and the list below the table of attributes."""

    def __init__(self, services: Services, key: str) -> None:
        self.services, self.key = services, key

    def build(self) -> None:
        """Build the components."""
        with gr.Row(elem_classes="tools"):
            self.button = gr.Button("Suggest attributes", size="sm", scale=0, min_width=180, elem_id="suggest")
            self.stop = gr.Button("Stop", size="sm", variant="stop", scale=0, min_width=90, visible=False)
        gr.Markdown(_HOW, elem_classes="quiet")
        self.status = gr.HTML(elem_id="suggest-status")
        self.choices = gr.CheckboxGroup(
            [], label="Suggested attributes", info="Most certain first; ticked ones are added to the table above",
            visible=False, elem_id="suggested", elem_classes="suggested",
        )  # fmt: skip
        self.take = gr.Button(
            "Add ticked attributes", size="sm", scale=0, min_width=300, visible=False,
            elem_id="suggest-take",
        )  # fmt: skip

    def wire(self, form: Any) -> None:
        """Wire the buttons; ``form`` is the tab's."""
        visitor, self.table = form.parts["visitor"], form.form["attributes"]
        changed = [self.status, self.choices, self.take, self.button, self.stop]
        begin = self.button.click(self.on_click, visitor, changed, queue=False, **messages.QUIET)
        named = form.inputs()
        then_run(begin.then, by_name(named, self.on_suggest), [visitor, *named.values()], changed, self.on_crash)
        self.stop.click(form.on_stop, visitor, None, queue=False, **messages.QUIET)
        self.take.click(self.on_take, [self.table, self.choices], [self.table, self.status], **messages.QUIET)

    def on_click(self, visitor: Visitor) -> Updates:
        """Start a new run of this visitor and end the older one."""
        with messages.user_errors() as problem:
            visitor.start(self.services)
            return self._running(True) | {self.status: messages.QUEUED}
        return self._running(False) | {self.status: messages.error_html(problem.message)}

    def on_suggest(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        """Show the progress, then the suggestions."""
        lists: list[list[Suggested]] = []
        with messages.user_errors() as problem:
            steps = self._steps(visitor, read_form(values), values["report"])
            for step in followed(run_queued(self.services, visitor, lambda: steps), lists):
                yield {self.status: messages.progress_html(step)}
        if problem:
            yield self._running(False) | {self.status: messages.error_html(problem.message)}
        else:
            yield self._running(False) | self.show(lists[0])

    def on_crash(self) -> Updates:
        """Show that an unforeseen error happened."""
        return self._running(False) | {self.status: messages.crash_html()}

    def show(self, suggested: Sequence[Suggested]) -> Updates:
        """Return the list with its first items ticked."""
        choices = [(f"{one.attribute.name} ({one.where_from})", attribute_text(one.attribute)) for one in suggested]
        ticked = [attribute_text(one.attribute) for one in suggested[:_TICKED] if one.is_told]
        return {
            self.choices: gr.update(choices=choices, value=ticked, visible=bool(choices)),
            self.take: gr.update(visible=bool(choices)),
            self.status: messages.done_html(f"{len(choices)} suggestions." if choices else _NOTHING),
        }

    def on_take(self, rows: Sequence[Sequence[Any]], texts: Sequence[str]) -> Updates:
        """Add the ticked attributes that the table does not have yet, by name."""
        with messages.user_errors() as problem:
            present = {str(row[0]).strip().lower() for row in rows}
            filled = [list(row) for row in rows if any(str(cell or "").strip() for cell in row)]
            new = [one for one in read_attributes(tuple(texts), "") if one.name.lower() not in present]
            says = f"{len(new)} added to the table above; press {_GENERATE}." if new else "The table has them already."
            return {self.table: [*filled, *attribute_rows(new)], self.status: messages.done_html(says)}
        return {self.status: messages.error_html(problem.message)}

    def _steps(self, visitor: Visitor, settings: StudySettings, shown: StudyReport | None) -> Steps:
        """Suggest from the pictures of the shown report if it is about this concept, else from words alone."""
        services = visitor.services(self.services)
        if shown is not None and _is_of(shown, settings):
            how = {"cancelled": visitor.stop.is_set, "session": visitor.key}
            return (yield from suggest_attributes(suggest_settings(shown.settings), services, **how))
        yield Progress(message="asking the language model")
        return suggested_by_words(suggest_settings(settings, n_images=16), services)

    def _running(self, running: bool) -> Updates:
        return {self.button: gr.update(visible=not running), self.stop: gr.update(visible=running)}


def _is_of(report: StudyReport, settings: StudySettings) -> bool:
    """Return True if the report has pictures that were drawn of what the form asks for."""
    if not is_exploration(report) or report.arms or report.settings.images or settings.arms:
        return False
    own, of_form = explore_options(report.settings), explore_options(settings)
    of_model = (report.settings.model, report.settings.condition) == (settings.model, settings.condition)
    return (own.concept, own.template) == (of_form.concept, of_form.template) and of_model


TYPED = ("template", "attribute_a", "attribute_b")  # fields that a set of attributes fills in
FIELDS = (
    "concept", "attributes", *TYPED, "model", "condition", "encoder", "judge", "force", "n_images", "negative",
    "rewrite", "rewriter", "seed", "steps", "guidance", "size", "sampler", "stop_within", "stop_when_clear",
    "further_encoders", "confidence", "n_clusters", "n_attribute_images", *ADDED,
)  # fmt: skip
"""Names of the form's settings."""
FIRST_SET = "doctor"
EXAMPLES = (
    "doctor", "nurse", "ceo", "construction_worker", "iranian", "indian", "mexican", "people", "flowers",
    "insects",
)  # fmt: skip
DEFAULTS = explore_settings()
OPTIONS = ExploreOptions()
_DECLARED = {one.key: one for one in (*settings_of(StudySettings).values(), *settings_of(ExploreOptions).values())}
_PLAIN = plain_groups({
    "Prompt": [*ADDED.values()],
    "Sampling": [_DECLARED["n_attribute_images"]],
    "Classifier": [_DECLARED["n_clusters"]],
})  # fmt: skip
TABLE_NOTE = (
    "A picture has an attribute if it is more similar to the positive than to the negative sentence. **P\\*** is the "
    "real-world rate to compare with: 0.56, 56 % or empty. Give its source, or say that you chose it."
)


def read_form(values: Mapping[str, Any]) -> StudySettings:
    """Return the settings of the form's values; InvalidInput quotes a wrong number or attribute row."""
    attributes = read_table(values["attributes"] or [])
    declared = {name: _DECLARED[name] for name in FIELDS if name != "attributes"}
    given = {one.name: read_field(one, values.get(name)) for name, one in declared.items()}
    arms = compared_concept(tuple(values[ARMS_INPUT] or ()), given["concept"], str(values["other"] or ""))
    return explore_settings(**given, attributes=attributes, arms=arms)


class ExploreForm(StudyTab):
    """The fields of the form: concept, attributes, and settings of drawing and classifying."""

    remembered: ClassVar = ("model", "condition", "encoder", "n_images")

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.sets = {item.key: item for item in load_attribute_sets(services.settings.assets_dir / "studies")}
        self.suggest = SuggestPart(services, self.key)
        self.examples_part = ChipsPart("concepts")

    def _build_ask(self) -> None:
        self._build_question()
        with self.form_fold("More options", "options", "more") as self.reading_fold:
            with self._group("Attributes"):
                self._build_attributes()
            with gr.Row():
                for name in TYPED:
                    self._add(name, gr.Textbox, min_width=150, max_lines=2)
            with gr.Row():
                self.form |= {name: self.build_menu(name) for name in CLASSIFIER}
            self.plain.build(_PLAIN, {})
            with self._group("Your own prompts") as prompts:
                self.drawing_parts.append(prompts)
                self.form["pack"] = gr.File(
                    label="File of prompts (CSV or JSONL), instead of the concept", file_types=list(ENDINGS),
                    height=130, elem_id="prompts-file",
                )  # fmt: skip
                self.form["pack_note"] = gr.HTML(render("prompt_pack", design=None), elem_id="prompts-note")
            with self._group("Compare settings"):
                box = gr.Column(elem_id=f"{self.key}-arms")
                presets = [(key, preset.name, preset.says) for key, preset in self.chip_presets.items()]
                self.arms = ArmsForm(self.key, self.services, box, partial(self.chips.build, presets, ()))

    @contextmanager
    def _group(self, title: str) -> Iterator[Any]:
        """Build a part of *More options* under its heading."""
        with gr.Column(elem_classes="option-group") as group:
            gr.HTML(messages.heading_html(title))
            yield group

    def _build_question(self) -> None:
        parts = self.parts
        with gr.Row(equal_height=True, elem_classes="line first-line"):
            self._add("concept", gr.Textbox, placeholder="for example: doctor", scale=5, min_width=240, max_lines=1)
            self.form["other"] = gr.Textbox(
                "", label="Compare with another concept", placeholder="optional, for example: nurse", elem_id="other",
                scale=4, min_width=220, max_lines=1,
            )  # fmt: skip
            with gr.Column(scale=0, min_width=240, elem_classes="act"):
                parts["run"] = gr.Button(_GENERATE, variant="primary", size="lg", elem_id="generate")
                parts["stop"] = gr.Button("Stop", variant="stop", size="lg", elem_id="stop", visible=False)
                self._build_largest()
                self._build_gpu_time()
        with gr.Row(equal_height=True, elem_classes="line second-line"):
            self.own_pictures.build_choice()
            with gr.Column(scale=8, min_width=240) as drawn, gr.Row(equal_height=True):
                self.form["model"] = self.build_menu("model", DEFAULTS.model, scale=5, min_width=220)
                self.form["condition"] = self.build_menu("condition", DEFAULTS.model, scale=4)
                self._add("n_images", gr.Number, precision=0, scale=1, min_width=110)
                reach = script("precision", field=self.element("n_images"))
                gr.HTML(render("precision", sizes=sizes_by_width()), js_on_load=reach, elem_id="precision")
        self.own_pictures.build_upload()
        self.drawing_parts.append(drawn)
        self.build_status("status")
        self.form["model_note"] = gr.HTML(elem_id="model-note", elem_classes="quiet")
        self.form["rates_note"] = gr.HTML(elem_id="rates-note", elem_classes="notes")
        parts["decided"] = gr.State(OPTIONS.concept)  # the concept that the set was chosen for
        parts["emptied"] = gr.State([])  # rows that lost another concept's P*, as they were
        self.examples_part.build([(key, self.sets[key].concept_hint, "") for key in EXAMPLES], self.examples.listed)

    def _build_attributes(self) -> None:
        menu = [(item.title, item.key) for item in self.sets.values()]
        self.form["set"] = gr.Dropdown(
            menu, value=FIRST_SET, label="Set of attributes", elem_id="set", info="Things to measure in the pictures",
        )  # fmt: skip
        self.form["attributes"] = build_table(self.sets[FIRST_SET].attributes, "table")
        with gr.Row(elem_classes="tools"):
            titles = {"add": "Add a row", "remove": "Remove the selected row", "restore": "Restore the set"}
            for name, width in {"add": 110, "remove": 170, "restore": 190}.items():
                self.parts[name] = gr.Button(titles[name], size="sm", scale=0, min_width=width)
        gr.Markdown(TABLE_NOTE, elem_classes="quiet")
        self.suggest.build()

    def _add(self, name: str, kind: Any, **own: Any) -> None:
        """Build the component of a setting, with the setting's default, label and sentence."""
        one = _DECLARED[name]
        look = {"value": getattr(OPTIONS, name), "label": one.label, "info": one.sentence}
        self.form[name] = kind(elem_id=self.element(name), **look | own)

    def inputs(self) -> dict[str, Any]:
        """Return the form's components by name, with the arms, own pictures and the shown report."""
        others = {ARMS_INPUT: self.arms.chosen, "images": self.own_pictures.images, "report": self.parts["report"]}
        form = {name: self.form[name] for name in (*FIELDS, "other", "pack") if name in self.form}
        return form | {PLAIN: self.plain.values} | others

    def form_outputs(self) -> list[Any]:
        """Return all components that :meth:`form_of` changes."""
        return [*super().form_outputs(), *self.plain.outputs(), self.parts["decided"], self.parts["emptied"]]

    def without_notes(self) -> Updates:
        """Return the form's components without the note on its model."""
        return {self.form["model_note"]: ""}

    def wire_memory(self, demo: gr.Blocks) -> None:
        """Remember the last choices in the browser, and restore them when the page is opened."""
        chosen, kept = [self.form[name] for name in self.remembered], self.parts["remembered"]
        self.on_any("input", chosen, self.on_remember, chosen, kept, **{**LATEST, "queue": False})
        demo.load(self.on_load, kept, self.form_outputs(), **QUIET)

    def on_remember(self, *values: Any) -> dict[str, Any]:
        """Return the values that this browser remembers."""
        return dict(zip(self.remembered, values, strict=True))

    def wire_form(self) -> None:
        """Wire the form."""
        form, parts = self.form, self.parts
        filled = [
            *(form[name] for name in ("attributes", "attribute_a", "attribute_b", "rates_note")),
            parts["emptied"],
        ]
        form["set"].input(self.on_chosen_set, [form["set"], form["concept"]], [parts["decided"], *filled], **LATEST)
        changed = [form["set"], parts["decided"], *filled]
        typed = [form["concept"].input, form["concept"].blur]  # Gradio loses the first input event of a new page
        gr.on(typed, self.on_typed_concept, self.press_inputs(), changed, **LATEST, queue=False)
        changed += [form[name] for name in ("concept", "template")]
        self.examples_part.html.select(self.on_concept_button, None, changed, **EACH)
        depends = [form["condition"], form["model_note"]]
        form["model"].input(self.on_model, [form["model"], form["condition"]], depends, **LATEST)
        told = [form["concept"].blur, form["template"].blur]
        gr.on(told, self.on_prompt, [form["concept"], form["template"], form["model"]], form["model_note"], **LATEST)
        form["pack"].change(self.on_pack, form["pack"], form["pack_note"], **QUIET)
        self.own_pictures.source.change(None, self.own_pictures.source, parts["run"], js=_RUN_TEXT_JS, **QUIET)
        parts["add"].click(lambda rows: [*rows, EMPTY_ROW], form["attributes"], form["attributes"], **QUIET)
        form["attributes"].select(self.on_choose_row, None, parts["row"], **EACH)
        table = [form["attributes"], parts["row"]]
        parts["remove"].click(self.on_remove, table, table, **QUIET)
        self.suggest.wire(self)
        parts["restore"].click(self.on_restore, form["set"], filled, **QUIET)
        self.wire_pictures()

    def on_pack(self, path: str | None) -> str:
        """Return the content of a file of prompts, or the rows that cannot be used."""
        with messages.user_errors() as problem:
            design = pack_design(path) if path else None
            return render("prompt_pack", design=design, prompts=prompts_of(design) if design else ())
        return messages.error_html(problem.message)

    def on_set(self, key: str | None) -> Updates:
        """Fill the table and the association's words from a built-in set, the first where none is chosen."""
        form, chosen = self.form, self.sets[key or FIRST_SET]
        words = zip((form["attribute_a"], form["attribute_b"]), words_for(chosen), strict=True)
        return self.on_restore(key) | dict(words)

    def on_restore(self, key: str | None) -> Updates:
        """Return the rows of a built-in set, with the rates of its concept."""
        form, rows = self.form, attribute_rows(self.sets[key or FIRST_SET].attributes)
        return {form["attributes"]: rows, form["rates_note"]: "", self.parts["emptied"]: []}

    def _suits(self, concept: str) -> str:
        return suggest_set(concept, tuple(self.sets.values())).key

    def on_chosen_set(self, key: str | None, concept: str) -> Updates:
        """Keep the set that was chosen for this concept, even if another suits better."""
        return {self.parts["decided"]: concept} | self.on_set(key)

    def press_inputs(self) -> list[Any]:
        """Return the components that decide whether the attributes are of the concept."""
        parts = self.parts
        return [*(self.form[name] for name in ("concept", "set", "attributes")), parts["decided"], parts["emptied"]]

    def on_typed_concept(
        self, concept: str, key: str | None, rows: list[list[str]], decided: str, emptied: list[list[str]]
    ) -> Updates:
        """Fill in the set of this concept in place of an unedited set of another concept.

        Real-world rates of one occupation do not hold for another: in an edited table only they are emptied. Nothing
        changes if the user ``decided`` on the set for this concept.
        """
        form, suits, own = self.form, self._suits(concept), {self.parts["decided"]: concept}
        if concept == decided:
            return own
        if key is not None and rows != attribute_rows(self.sets[key].attributes):
            kept, emptied = without_rates_of_others([*rows], concept, emptied)
            note = {form["rates_note"]: rates_note(emptied, concept), self.parts["emptied"]: emptied}
            return own | {form["set"]: suits, form["attributes"]: kept} | note
        return own if suits == key else own | {form["set"]: suits} | self.on_set(suits)

    def on_press(self, visitor: Visitor, event: gr.EventData, *values: Any) -> Updates:
        """Start a run, after the rates of a concept that was just typed are filled in."""
        typed = {} if get_chip(event) else self.on_typed_concept(*values)
        return typed | super().on_press(visitor, event)

    def run_triggers(self) -> list[Any]:
        """Return the run button, and Enter in the fields of the concepts."""
        return [*super().run_triggers(), self.form["concept"].submit, self.form["other"].submit]

    def on_concept_button(self, event: gr.EventData) -> Updates:
        """Return the form for the concept of a pressed button."""
        key = get_chip(event)
        return self.on_concept(self.sets[key].concept_hint, key) if key in self.sets else gr.skip()

    def on_concept(self, concept: str, key: str) -> Updates:
        """Return the form for a concept, with the set of attributes that suits it."""
        form, template = self.form, self.sets[key].template or OPTIONS.template
        filled = {form["concept"]: concept, form["template"]: template, form["set"]: key}
        return filled | {self.parts["decided"]: concept} | self.on_set(key)

    def on_choose_row(self, event: gr.SelectData) -> int:
        """Remember which row was touched last."""
        return int(event.index[0])

    def on_remove(self, rows: list[list[str]], chosen: int | None) -> tuple[list[list[str]], None]:
        """Remove the row touched last, or the last row."""
        out = chosen if chosen is not None and chosen < len(rows) else len(rows) - 1
        return [row for i, row in enumerate(rows) if i != out] or [EMPTY_ROW], None

    def on_model(self, name: str, condition: str | None) -> Updates:
        """Show the conditions and notes of another model."""
        with messages.user_errors() as problem:
            return self._model_updates(name, None) | {self.form["condition"]: self.conditions_after(name, condition)}
        return {self.form["model_note"]: messages.error_html(problem.message)}

    def on_prompt(self, concept: str, template: str, model: str) -> Any:
        """Show the note on the model, and what it does not read of the prompt."""
        with messages.user_errors():
            note, prompt = self._model_updates(model, None)[self.form["model_note"]], fill_template(template, concept)
            cut = cut_notes(self.services.text_to_image(model), f"{model} form", [prompt], self.services)
            return note + "".join(render("status", kind="warning", text=text) for text in cut)
        return gr.skip()

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:
        """Restore this browser's last choices, or fill in the address's settings."""
        form, values = self.form, {k: v for k, v in (remembered or {}).items() if k in self.remembered}
        link = read_link(query_of(request), {self.key: self.studies}, self.services).values
        values |= {k: v for k, v in link.items() if k in (*self.remembered, "seed")}
        with messages.user_errors():
            model = self._model_updates(str(values.get("model", DEFAULTS.model)), values.pop("condition", None))
            updates, plain = {form[k]: v for k, v in values.items() if k in form} | model, {**link}
            if concept := str(link.get("concept", "")):
                updates |= self.on_concept(concept, self._suits(concept))
            options = link.get("options", {})
            updates |= {form["n_images"]: options["n_images"]} if options.get("n_images") else {}
            plain |= {name: ADDED[name].shown(options[name]) for name in ADDED if options.get(name)}
            updates |= self.plain.show(_PLAIN, plain)
            if arms := link.get("arms", ()):  # the form above shows the first arm's model and condition
                shown, others = split_first_arm(explore_settings(arms=tuple(arms)))
                updates |= self._model_updates(shown.model, shown.condition)
                updates |= {form["model"]: shown.model} | self._show_arms(others, concept or OPTIONS.concept)
            return updates
        return {form["model_note"]: ""}

    def design_and_settings(self, values: Mapping[str, Any]) -> tuple[Design, StudySettings]:
        """Return the design and settings of the form; InvalidInput if they cannot be used."""
        settings, pack = read_form(values), values["pack"]
        if choice := chosen_pictures(values["images"]):
            settings = choice.apply(settings)
            if choice.has_prompts and (choice.ways or not settings.arms):
                return self.designs[KIND], of_any_prompt(settings)
            n_images = min(MOST, max(2, choice.n))  # all of them show the concept
            return self.designs[KIND], replace(
                settings, options={**option_values(settings.options), "n_images": n_images}
            )
        return pack_of(str(pack), settings) if pack else (self.designs[KIND], settings)

    def report_before(self, values: Mapping[str, Any]) -> StudyReport | None:
        """Return the shown report."""
        report: StudyReport | None = values["report"]
        return report

    def form_of(self, design: Design, settings: StudySettings) -> Updates:
        """Return the form for these settings; the condition's menu depends on the model."""
        form, (shown, arms) = (
            self.form,
            split_first_arm(replace(settings, arms=()) if added_arms(settings) else settings),
        )
        options = explore_options(shown)
        held = {**vars(shown), **vars(options)}
        values = {name: _DECLARED[name].shown(held[_DECLARED[name].name]) for name in FIELDS if name != "attributes"}
        filled = {
            form[name]: values[name] for name in FIELDS if name in form and name in values and name != "condition"
        }
        filled |= self.plain.show(_PLAIN, values) | {form["attributes"]: attribute_rows(options.scored)}
        filled[form["set"]] = next((key for key, one in self.sets.items() if one.attributes == options.scored), None)
        filled[self.parts["decided"]] = options.concept
        shown_parts = self.show_source(DRAWN) | self._show_arms(arms, options.concept)
        return self._model_updates(shown.model, shown.condition) | filled | shown_parts

    def _show_arms(self, arms: Sequence[Arm], concept: str) -> Updates:
        """Return the other concept in its field and the other arms in their list."""
        other, rest = split_compared_concept(arms, concept)
        return {self.form["other"]: other} | self.arms.show(rest)

    def link(self, report: StudyReport) -> str:
        """Return the address of this tab with these settings, without attributes; "" for the user's own pictures."""
        settings = report.settings
        if settings.images or report.design.kind != KIND:
            return ""
        options = explore_options(settings)
        added = {name: value for name, value in changed_settings(options).items() if name in ADDED}
        values = {
            "tab": self.key,
            "concept": options.concept,
            "model": settings.model,
            "condition": settings.condition,
            "seed": settings.seed,
            OPTION + "n_images": options.n_images,
            **{OPTION + name: ADDED[name].write(value) for name, value in added.items()},
            "arms": "" if added_arms(settings) else ARMS.join(map(arm_text, settings.arms)),
        }
        return "?" + urlencode({name: value for name, value in values.items() if value != ""})

    def on_largest(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        """Draw the largest number of pictures that is allowed."""
        with messages.user_errors() as problem:
            self.checked(values)
        n = max(1, int(values["n_images"] * (problem.scale or 1)))
        yield {self.form["n_images"]: n}
        yield from self.on_run(visitor, {**values, "n_images": n})

    def form_shown(self, report: StudyReport) -> dict[str, str]:
        """Return the concept, model and condition of this report, as the form shows them."""
        settings = split_first_arm(report.settings)[0]
        if settings.images or report.design.kind != KIND:
            return {}
        shown = {"concept": explore_options(settings).concept, **self.model_shown(settings, "")}
        return {name: value for name, value in shown.items() if value}

    def _model_updates(self, name: str, condition: str | None) -> Updates:
        form, info = self.form, self.services.model_info(name)
        licence = f"Licence: {info.licence}." if info.licence else ""
        hint = "" if info.embedded else model_hint(self.services, name)
        note = "" if name == DEFAULTS.model else " ".join(filter(None, (hint, info.note, licence)))
        return {form["condition"]: self._conditions(name, condition or ""), form["model_note"]: escape(note)}
