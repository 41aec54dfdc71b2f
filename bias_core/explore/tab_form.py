"""The form of the Explore tab: the list of suggested attributes, then the fields and their settings."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import Any, ClassVar

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.explore.concepts import (
    attributes_by_concept,
    has_concepts,
    join_concepts,
    listed_attributes,
    load_concept_lists,
    read_concept_list,
    split_concepts,
)
from bias_core.explore.exploration import is_exploration
from bias_core.explore.extension import MOST, SeveralOptions, read_attributes, suggest_set
from bias_core.explore.options import (
    ADDED,
    KIND,
    ExploreOptions,
    added_arms,
    attribute_text,
    build_concept_settings,
    choose_design,
    compared_concept,
    explore_options,
    explore_settings,
    read_pack_prompts,
    remove_concept,
    several_options,
    split_compared_concept,
)
from bias_core.explore.study import prepare_pack
from bias_core.explore.suggest import Suggested, suggest_attributes, suggest_settings, suggested_by_words
from bias_core.run.next_steps import sizes_by_width
from bias_core.run.study_run import Run
from bias_core.services import Services
from bias_core.store.tables import ENDINGS
from bias_core.study.attributes import SEPARATOR, load_attribute_sets
from bias_core.study.design import pack_design
from bias_core.study.types import Design, Progress, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.links import Link, build_link, get_query, read_link
from bias_core.ui.model_menu import (
    EMPTY_ROW,
    attribute_rows,
    build_table,
    get_association_words,
    rates_note,
    read_attribute_table,
    without_rates_of_others,
)
from bias_core.ui.study.fields import Groups, read_field
from bias_core.ui.study.form import (
    ARMS_INPUT,
    CLASSIFIER,
    FILES,
    FORM,
    Box,
    fold,
    group,
    hidden_with_pictures,
    line,
    pass_values_by_name,
    plain_groups,
    row,
)
from bias_core.ui.study.own_pictures import ALL_SHOW_IT, OWN, PictureChoice, chosen_pictures
from bias_core.ui.study.parts import Chip, ChipsPart, SideRun, get_chip
from bias_core.ui.study.study_tab import EACH, QUIET, StudyTab, Updates
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor
from bias_core.values import Setting, declared_settings, option_values
from bias_core.wording import format_list, format_rate

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
        self.services, self.key, self.run = services, key, SideRun(services)

    def build(self) -> None:
        self.run.build("Suggest attributes", size="sm", elem_id="suggest")
        gr.Markdown(_HOW, elem_classes="quiet")
        self.run.build_status("suggest-status")
        self.choices = gr.CheckboxGroup(
            [], label="Suggested attributes", info="Most certain first; ticked ones are added to the table above",
            visible=False, elem_id="suggested", elem_classes="suggested",
        )  # fmt: skip
        self.take = gr.Button(
            "Add ticked attributes", size="sm", scale=0, min_width=300, visible=False,
            elem_id="suggest-take",
        )  # fmt: skip

    def wire(self, form: Any) -> None:
        self.table, named = form.form["attributes"], {**form.inputs(), "report": form.parts["report"]}
        self.run.wire(form, pass_values_by_name(named, self.on_suggest), [*named.values()], [self.choices, self.take])
        self.take.click(self.on_take, [self.table, self.choices], [self.table, self.run.status], **messages.QUIET)

    def on_suggest(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        yield from self.run.follow(visitor, partial(self._steps, visitor, values), self.show)

    def show(self, suggested: Sequence[Suggested]) -> Updates:
        choices = [
            (f"{suggestion.attribute.name} ({suggestion.where_from})", attribute_text(suggestion.attribute))
            for suggestion in suggested
        ]
        ticked = [attribute_text(suggestion.attribute) for suggestion in suggested[:_TICKED] if suggestion.is_told]
        return {
            self.choices: gr.update(choices=choices, value=ticked, visible=bool(choices)),
            self.take: gr.update(visible=bool(choices)),
            self.run.status: messages.done_html(f"{len(choices)} suggestions." if choices else _NOTHING),
        }

    def on_take(self, rows: Sequence[Sequence[Any]], texts: Sequence[str]) -> Updates:
        """Add the ticked attributes that the table does not have yet, by name."""
        with messages.user_errors() as problem:
            present = {str(row[0]).strip().lower() for row in rows}
            filled = [list(row) for row in rows if any(str(cell or "").strip() for cell in row)]
            new = [
                attribute for attribute in read_attributes(tuple(texts), "") if attribute.name.lower() not in present
            ]
            says = f"{len(new)} added to the table above; press {_GENERATE}." if new else "The table has them already."
            return {self.table: [*filled, *attribute_rows(new)], self.run.status: messages.done_html(says)}
        return {self.run.status: messages.error_html(problem.message)}

    def _steps(self, visitor: Visitor, values: Mapping[str, Any]) -> Steps:
        """Suggest from the pictures of the shown report if it is about this concept, else from words alone."""
        services, settings, shown = visitor.services(self.services), read_form(values), values["report"]
        if shown is not None and _is_same_exploration(shown, settings):
            run_options = {"cancelled": visitor.stop.is_set, "session": visitor.key}
            return (yield from suggest_attributes(suggest_settings(shown.settings), services, **run_options))
        yield Progress(message="asking the language model")
        return suggested_by_words(suggest_settings(settings, n_images=16), services)


def _is_same_exploration(report: StudyReport, settings: StudySettings) -> bool:
    """Return True if the report has pictures that were drawn of what the form asks for."""
    if not is_exploration(report) or report.arms or report.settings.images or settings.arms:
        return False
    report_options, of_form = explore_options(report.settings), explore_options(settings)
    of_model = (report.settings.model, report.settings.condition) == (settings.model, settings.condition)
    return (report_options.concept, report_options.template) == (of_form.concept, of_form.template) and of_model


TYPED = ("template", "attribute_a", "attribute_b")  # fields that a set of attributes fills in
FIRST_SET = "doctor"
EXAMPLES = (
    "doctor", "nurse", "ceo", "construction_worker", "iranian", "indian", "mexican", "people", "flowers",
    "insects",
)  # fmt: skip
_GPU_MODEL = "gpu-model"  # key of the chip that chooses the model for this machine's GPU
DEFAULTS, USUAL = explore_settings(), ExploreOptions()
_LISTS = {
    setting.key: setting
    for setting in declared_settings(SeveralOptions).values()
    if setting.name in ("rates", "counts")
}
OPTIONS = {
    setting.key: setting for setting in declared_settings(ExploreOptions).values() if setting.name != "attributes"
} | _LISTS
_PLAIN = plain_groups({
    "Prompt": [*ADDED.values()],
    "Sampling": [OPTIONS["n_attribute_images"], _LISTS["counts"]],
    "Classifier": [OPTIONS["n_clusters"], _LISTS["rates"]],
})  # fmt: skip
TABLE_NOTE = (
    "A picture has an attribute if it is more similar to the positive than to the negative sentence. **P\\*** is the "
    "real-world rate to compare with: 0.56, 56 % or empty. Give its source, or say that you chose it."
)
OTHER_LABEL = "Compare in pairs with"
_OF_CONCEPT = ("concept", "set", "attributes", "decided", "emptied")  # decide whether the attributes are of the concept


def read_form(values: Mapping[str, Any]) -> StudySettings:
    """Return the settings of the form's values; InvalidInput quotes a wrong number or attribute row."""
    attributes = read_attribute_table(values["attributes"] or [])
    declared = {key: setting for key, setting in {**FORM, **OPTIONS}.items() if key not in ("percent", *FILES)}
    given = {setting.name: read_field(setting, values.get(key)) for key, setting in declared.items()}
    concepts, other_concept = split_concepts(given.pop("concept")), str(values["other"] or "")
    given |= {name: [text for text in given[name] if not _is_of_others(text, concepts)] for name in _LISTS}
    if concepts[1:] and other_concept.strip():
        raise InvalidInput(f"write “{other_concept}” into the list of concepts, and leave “{OTHER_LABEL}” empty")
    arms = compared_concept(tuple(values[ARMS_INPUT] or ()), (*concepts, "")[0], other_concept)
    return build_concept_settings(concepts, [attribute_text(attribute) for attribute in attributes], **given, arms=arms)


def form_options(settings: StudySettings) -> ExploreOptions:
    """Return the options of one concept, or of several as the form shows them: all in its field, with their rates."""
    if (several := several_options(settings)) is None:
        return explore_options(settings)
    taken = {name: getattr(several, name) for name in ("template", "n_images", "n_clusters")}
    texts = tuple(map(attribute_text, listed_attributes(several)))
    return ExploreOptions(concept=join_concepts(several.concepts), attributes=texts, **taken)


def describe_shown_concept(choice: PictureChoice | None, concepts: Sequence[str]) -> str:
    """Return whether own pictures are taken to show the concept of the form; "" for several concepts, or none."""
    if choice is None or not choice.images or len(concepts) != 1 or not concepts[0].strip():
        return ""
    concept = escape(concepts[0].strip())
    if not choice.has_prompts:
        return f"All {choice.n:,} pictures are taken to show “{concept}”" if choice.n > 1 else ""
    return (
        f"The concept “{concept}” is not used, because your pictures have prompts; if all of them show it, choose "
        f"“{ALL_SHOW_IT}”"
    )


def rates_in_words(several: SeveralOptions) -> str:
    """Return the real-world rates of several concepts; which concepts have none.

    >>> print(rates_in_words(SeveralOptions(concepts=("nurse", "pilot"))).replace(chr(160), " "))
    real-world rates of “man”: nurse 12 %; none for pilot
    """
    found: dict[str, dict[str, str]] = {}
    for concept, attributes in attributes_by_concept(several).items():
        for attribute in attributes:
            if attribute.has_source:
                found.setdefault(attribute.name, {})[concept] = format_rate(attribute.reference)
    parts = []
    for name, rates in found.items():
        missing = [concept for concept in several.concepts if concept not in rates]
        known = format_list([f"{concept} {rate}" for concept, rate in rates.items()])
        parts.append(f"real-world rates of “{name}”: {known}" + f"; none for {format_list(missing)}" * bool(missing))
    return escape("; ".join(parts) or "no real-world rate with a source is known for these concepts")


def _is_of_others(text: str, concepts: Sequence[str]) -> bool:
    """Return True if a rate or number that is written for one concept is for none of these."""
    concept, separator, _ = text.partition(SEPARATOR)
    return bool(separator) and concept.strip().lower() not in {name.lower() for name in concepts}


def _split_or_one(text: str) -> tuple[str, ...]:
    """Return the concepts of a text that may be half typed."""
    try:
        return split_concepts(text)
    except InvalidInput:
        return (text,)


class ExploreForm(StudyTab):
    """The form's layout, and its own parts: the concept, the table of attributes, suggestions, a file of prompts."""

    remembered: ClassVar = ("model", "condition", "encoder", "n_images")
    has_concept: ClassVar = True
    layout: ClassVar = (
        line("concept", "other", Box(
            kind="column", parts=("run", "gpu_time"), look={"scale": 0, "min_width": 240, "elem_classes": "act"},
        ), elem_classes="line first-line"),
        line("source", hidden_with_pictures(
            row("model", "condition", "n_images", "precision", equal_height=True), scale=8, min_width=240,
        ), elem_classes="line second-line"),
        "upload", "status", "count", "model_note", "rates_note", "concepts",
        fold(
            "options", "More options",
            group("Attributes", "set", "attributes", "suggestions"),
            row(*TYPED), row(*CLASSIFIER), "plain",
            group("Your own prompts", "pack", draws=True),
            group("Compare settings", "chips", "arms", elem_id="explore-arms"),
        ),
    )  # fmt: skip
    looks: ClassVar = {
        "concept": {
            "placeholder": "for example: doctor; or several: doctor, nurse, CEO", "scale": 5, "min_width": 240,
            "max_lines": 4, "info": "Each in a list is tested against its own rate",
        },
        "other": {
            "label": OTHER_LABEL, "placeholder": "optional, for example: nurse", "scale": 4,
            "min_width": 220, "max_lines": 1,
            "info": "Tests their difference on the same seeds",
        },
        "set": {"label": "Set of attributes", "info": "Things to measure in the pictures"},
        "n_images": {"scale": 1, "min_width": 110},
        "run": {"value": _GENERATE, "elem_id": "generate", "size": "lg", "scale": None, "min_width": None},
        "stop": {"size": "lg", "scale": None, "min_width": None},
        **{name: {"min_width": 150, "max_lines": 2} for name in TYPED},
    }  # fmt: skip

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.sets = {item.key: item for item in load_attribute_sets(services.settings.assets_dir / "studies")}
        self.suggest = SuggestPart(services, self.key)
        self.examples_part = ChipsPart("concepts")

    def build_question(self) -> None:
        """Build nothing: the form says what it asks."""

    @property
    def builders(self) -> dict[str, Callable[[], Any]]:
        """Functions that build the parts of the layout that are no settings, and the table of attributes."""
        single = [(key, self.sets[key].concept_hint, "") for key in EXAMPLES]
        lists = [
            (key, concept_list.title, "Several concepts at once") for key, concept_list in load_concept_lists().items()
        ]
        concepts = [*self._offer_model(), *single[:2], *lists, *single[2:]]
        presets = [(key, preset.name, preset.says) for key, preset in self.chip_presets.items()]
        sets = {"choices": [(item.title, item.key) for item in self.sets.values()], "value": FIRST_SET}
        return super().builders | {
            "other": lambda: self.form.update(other=gr.Textbox("", **self.get_look("other"))),
            "concepts": lambda: self.examples_part.build(concepts, self.examples.listed),
            "set": lambda: self.form.update(set=gr.Dropdown(**self.get_look("set", **sets))),
            "suggestions": self.suggest.build,
            "chips": lambda: self.chips.build(presets, ()),
            "precision": self._build_precision, "rates_note": self._build_rates_note,
            "attributes": self._build_attributes, "pack": self._build_pack,
        }  # fmt: skip

    def _offer_model(self) -> list[Chip]:
        """Return the chip of the model for this machine's GPU; [] if there is none."""
        if (info := self.services.gpu_model()) is None:
            return []
        fit = self.services.model_fit(info.id)
        return [(_GPU_MODEL, f"On this GPU: {info.name} ({fit.short})", fit.says)]

    def _build_precision(self) -> None:
        reach = script("precision", field=self.element("n_images"))
        gr.HTML(render("precision", sizes=sizes_by_width()), js_on_load=reach, elem_id="precision")

    def _build_rates_note(self) -> None:
        self.form["rates_note"] = gr.HTML(elem_id="rates-note", elem_classes="notes")
        self.form["decided"] = gr.State(USUAL.concept)  # the concept that the set was chosen for
        self.form["emptied"] = gr.State([])  # rows that lost another concept's P*, as they were

    def _build_attributes(self) -> None:
        self.form["attributes"] = build_table(self.sets[FIRST_SET].attributes, "table")
        self.parts["row"] = gr.State(None)  # that was touched last
        with gr.Row(elem_classes="tools"):
            titles = {"add": "Add a row", "remove": "Remove the selected row", "restore": "Restore the set"}
            for name, width in {"add": 110, "remove": 170, "restore": 190}.items():
                self.parts[name] = gr.Button(titles[name], size="sm", scale=0, min_width=width)
        gr.Markdown(TABLE_NOTE, elem_classes="quiet")

    def _build_pack(self) -> None:
        look: dict[str, Any] = {"file_types": list(ENDINGS), "height": 130, "elem_id": "prompts-file"}
        label = "File of prompts, or of concepts with their real-world rates (CSV or JSONL)"
        self.form["pack"] = gr.File(label=label, **look)
        self.parts["pack_note"] = gr.HTML(render("prompt_pack", design=None), elem_id="prompts-note")

    def get_options(self, study: str) -> Mapping[str, Setting]:
        """Return the options of an exploration, without its attributes."""
        return OPTIONS

    def get_field_groups(self, study: str) -> Groups:
        return _PLAIN

    def first_values(self, key: str) -> dict[str, Any]:
        return self.get_form_values(KIND, DEFAULTS)

    def get_form_values(self, study: str, settings: StudySettings) -> dict[str, Any]:
        options = form_options(settings)
        chosen = next(
            (key for key, attribute_set in self.sets.items() if attribute_set.attributes == options.scored), None
        )
        own_values = {
            "attributes": attribute_rows(options.scored),
            "set": chosen,
            "decided": options.concept,
            "emptied": [],
        }
        arms: dict[str, Any] = {ARMS_INPUT: () if added_arms(settings) else settings.arms}
        own_values |= {"rates_note": "", "pack": None}
        several = several_options(settings)
        lists = (
            {key: setting.format_value(getattr(several, setting.name)) for key, setting in _LISTS.items()}
            if several
            else {}
        )
        return super().get_form_values(study, replace(settings, options=options)) | lists | own_values | arms

    def filled_values(self, key: str, last: Mapping[str, Any], link: Link) -> dict[str, Any]:
        """Return the values of the form with the ``last`` ones, and with those of the address."""
        values = super().filled_values(key, last, link)
        if link.tab == key and (concept := link.values.get("concept")):
            values |= self._values_of_concept(concept)
        return values

    def show_values(self, values: Mapping[str, Any]) -> Updates:
        """Return the form with these values; an arm that only draws another concept is in that concept's field."""
        other_concept, arms = split_compared_concept(values[ARMS_INPUT] or (), values["concept"])
        shown = super().show_values({**values, "other": other_concept, ARMS_INPUT: arms})
        return shown | {self.parts["pack_note"]: render("prompt_pack", design=None)}

    def form_outputs(self) -> list[Any]:
        """Return everything that the updates of the form change, with the note on its file."""
        return [*super().form_outputs(), self.parts["pack_note"]]

    def wire_form(self) -> None:
        super().wire_form()
        form, parts = self.form, self.parts
        filled = [form[name] for name in ("attributes", "attribute_a", "attribute_b", "rates_note", "emptied")]
        changed = [form["set"], form["decided"], *filled]
        self.listen([form["set"].input], self.on_chosen_set, ["set", "concept"], changed[1:])
        typed = [form["concept"].input, form["concept"].blur]  # Gradio loses the first input event of a new page
        self.listen(typed, self.on_typed_concept, _OF_CONCEPT, changed, queue=False)
        changed += [form[name] for name in ("concept", "template")]
        changed_by_chip = [*self.form_outputs(), parts["remembered"]]
        self.examples_part.html.select(self.on_example_chip, parts["remembered"], changed_by_chip, **EACH)
        read = [parts["pack_note"], form["pack"], form["concept"], *self.plain.outputs(), *changed]
        named = pass_values_by_name(self.inputs(), self.on_pack)
        form["pack"].upload(named, [*self.inputs().values()], list(dict.fromkeys(read)), **QUIET)
        form["pack"].clear(lambda: render("prompt_pack", design=None), None, parts["pack_note"], **QUIET)
        self.own_pictures.source.change(None, self.own_pictures.source, parts["run"], js=_RUN_TEXT_JS, **QUIET)
        parts["add"].click(lambda rows: [*rows, EMPTY_ROW], form["attributes"], form["attributes"], **QUIET)
        form["attributes"].select(self.on_choose_row, None, parts["row"], **EACH)
        table = [form["attributes"], parts["row"]]
        parts["remove"].click(self.on_remove, table, table, **QUIET)
        self.suggest.wire(self)
        parts["restore"].click(self.on_restore, form["set"], filled, **QUIET)

    def on_pack(self, values: Mapping[str, Any]) -> Updates:
        """Show the content of a file of prompts, or fill in a list of concepts; else say which rows are wrong."""
        path, note = str(values["pack"]), self.parts["pack_note"]
        with messages.user_errors() as problem:
            if not has_concepts(path):
                design = pack_design(path)
                return {note: render("prompt_pack", design=design, prompts=read_pack_prompts(design))}
            found = read_concept_list(path)
            lists = {key: setting.format_value(getattr(found, setting.name)) for key, setting in _LISTS.items()}
            filled = self._values_of_concept(join_concepts(found.concepts)) | {"pack": None}
            says = f"{len(found.concepts)} concepts, {len(found.rates)} real-world rates. {found.note}"
            return {
                **self._fill(filled), **self.plain.show(_PLAIN, {**values, **lists}), note: messages.done_html(says),
            }  # fmt: skip
        return {note: messages.error_html(problem.message)}

    def _fill(self, values: Mapping[str, Any]) -> Updates:
        return {self.form[name]: value for name, value in values.items()}

    def _values_of_set(self, key: str | None) -> dict[str, Any]:
        """Return the rows of a built-in set, the first where none is chosen, and the association's words."""
        chosen = self.sets[key or FIRST_SET]
        words = dict(zip(TYPED[1:], get_association_words(chosen), strict=True))
        return {"attributes": attribute_rows(chosen.attributes), "rates_note": "", "emptied": [], **words}

    def _values_of_concept(self, concept: str) -> dict[str, Any]:
        """Return the values of the form for a concept or several, with the attributes that suit them."""
        key = self._suits(concept)
        own_values = {"concept": concept, "template": self.sets[key].template or USUAL.template, "set": key}
        return (
            own_values
            | {"decided": concept}
            | self._values_of_set(key)
            | {"attributes": self._get_set_rows(concept, key)}
        )

    def _suits(self, concept: str) -> str:
        """Return the key of the set that suits a concept, or the first of several."""
        return suggest_set((*_split_or_one(concept), "")[0], tuple(self.sets.values())).key

    def _get_set_rows(self, concept: str, key: str | None) -> list[list[str]]:
        """Return the rows of a set; for several concepts those of all their sets, without rates."""
        names = _split_or_one(concept)
        several = listed_attributes(SeveralOptions(concepts=names)) if len(names) > 1 else ()
        return attribute_rows(several or self.sets[key or FIRST_SET].attributes)

    def on_restore(self, key: str | None) -> Updates:
        """Return the rows of a built-in set, with the rates of its concept."""
        return self._fill({name: value for name, value in self._values_of_set(key).items() if name not in TYPED})

    def on_chosen_set(self, values: Mapping[str, Any]) -> Updates:
        """Keep the set that was chosen for this concept, even if another suits better."""
        return self._fill({"decided": values["concept"]} | self._values_of_set(values["set"]))

    def press_inputs(self) -> dict[str, Any]:
        """Return the components that decide whether the attributes are of the concept."""
        return {name: self.form[name] for name in _OF_CONCEPT}

    def before_run(self, values: Mapping[str, Any]) -> Updates:
        """Fill in the rates of a concept that was just typed."""
        return self.on_typed_concept(values)

    def on_typed_concept(self, values: Mapping[str, Any]) -> Updates:
        """Fill in the set of this concept in place of an unedited set of another concept.

        Real-world rates of one occupation do not hold for another: in an edited table only they are emptied. Nothing
        changes if the user ``decided`` on the set for this concept.
        """
        concept, key, rows = values["concept"], values["set"], values["attributes"]
        suits, new_values = self._suits(concept), {"decided": concept}
        is_of_set = rows in (self._get_set_rows(values["decided"], key), self._get_set_rows("", key))
        if concept != values["decided"] and key is not None and not is_of_set:
            kept, emptied = without_rates_of_others([*rows], concept, values["emptied"])
            new_values |= {
                "set": suits,
                "attributes": kept,
                "rates_note": rates_note(emptied, concept),
                "emptied": emptied,
            }
        elif concept != values["decided"] and rows != (fitting := self._get_set_rows(concept, suits)):
            new_values |= {"set": suits} | self._values_of_set(suits) | {"attributes": fitting}
        return self._fill(new_values)

    def run_triggers(self) -> list[Any]:
        """Return the run button, and Enter in the fields of the concepts."""
        return [*super().run_triggers(), self.form["concept"].submit, self.form["other"].submit]

    def on_example_chip(self, remembered: Mapping[str, Any] | None, event: gr.EventData) -> Updates:
        """Choose the model of a pressed chip, for this browser's next visits too; or fill in its concept."""
        chip, last = get_chip(event), self.last_choices(self.key, remembered)
        if chip == _GPU_MODEL and (info := self.services.gpu_model()) is not None:
            kept = {**(remembered or {}), self.key: {**last, "model": info.id, "condition": ""}}
            return {self.form["model"]: info.id, **self._show_model(info.id, ""), self.parts["remembered"]: kept}
        lists = {key: join_concepts(found.concepts) for key, found in load_concept_lists().items()}
        concepts = {key: found.concept_hint for key, found in self.sets.items()} | lists
        if (concept := concepts.get(chip)) is None:
            return gr.skip()
        first = self.filled_values(self.key, last, Link())
        return self.fill(first | self._values_of_concept(concept))

    def _wire(self, demo: gr.Blocks) -> None:
        super()._wire(demo)
        demo.load(self.on_load, self.parts["remembered"], self.form_outputs(), **QUIET)

    def on_load(self, remembered: dict[str, Any] | None, request: gr.Request | None = None) -> Updates:
        """Restore this browser's last choices, or fill in the address's settings; the rest of the form stays."""
        link = read_link(get_query(request), {self.key: self.studies}, self.services)
        usual, last = self.fill(self._first_values), self.last_choices(self.key, remembered)
        values = self.filled_values(self.key, last, link)
        shown = {part: value for part, value in self.fill(values).items() if value != usual[part]}
        return shown or {self.parts["count"]: gr.skip()}

    def on_choose_row(self, event: gr.SelectData) -> int:
        """Remember which row was touched last."""
        return int(event.index[0])

    def on_remove(self, rows: list[list[str]], chosen: int | None) -> tuple[list[list[str]], None]:
        """Remove the row touched last, or the last row."""
        out = chosen if chosen is not None and chosen < len(rows) else len(rows) - 1
        return [row for i, row in enumerate(rows) if i != out] or [EMPTY_ROW], None

    def design_and_settings(self, values: Mapping[str, Any]) -> tuple[Design, StudySettings]:
        """Return the design and settings of the form; InvalidInput if they cannot be used."""
        settings, pack = read_form(values), values["pack"]
        several = several_options(settings) is not None
        if choice := chosen_pictures(values["images"]):
            settings = choice.apply(settings)
            if several:
                return choose_design(settings), settings
            if choice.has_prompts and (choice.ways or not settings.arms):
                return self.designs[KIND], remove_concept(settings)
            n_images = min(MOST, max(2, choice.n))  # all of them show the concept
            return self.designs[KIND], replace(
                settings, options={**option_values(settings.options), "n_images": n_images}
            )
        return prepare_pack(str(pack), settings) if pack else (choose_design(settings), settings)

    def describe_size(self, request: Run) -> str:
        """Return the number of pictures; of several concepts, the real-world rates that they are compared with."""
        several = several_options(request.settings)
        return "; ".join(filter(None, [super().describe_size(request), rates_in_words(several) if several else ""]))

    def describe_form_size(self, values: Mapping[str, Any]) -> str:
        """Return the number of pictures, what is given for concepts not in the list, and what own pictures show."""
        concepts = _split_or_one(str(values["concept"]))
        texts = [text for key, setting in _LISTS.items() for text in read_field(setting, values.get(key))]
        unused = [escape(text) for text in texts if _is_of_others(text, concepts)]
        note = f"not used, as it is for another concept: {format_list(unused)}" if unused else ""
        shown = describe_shown_concept(values["images"], concepts)
        return "; ".join(filter(None, [super().describe_form_size(values), shown, note]))

    def link(self, report: StudyReport) -> str:
        """Return the address of this tab with these settings, without attributes; "" for the user's own pictures."""
        if report.design.kind not in self.studies:
            return ""
        if report.design.kind != KIND:
            settings = replace(report.settings, options=form_options(report.settings))
            report = replace(report, design=self.designs[KIND], settings=settings)
        return build_link(self.key, report, () if added_arms(report.settings) else report.settings.arms)

    def on_largest(self, visitor: Visitor, values: Mapping[str, Any]) -> Iterator[Updates]:
        """Draw the largest number of pictures that is allowed."""
        with messages.user_errors() as problem:
            self.checked(values)
        n = max(1, int(values["n_images"] * (problem.scale or 1)))
        yield {self.form["n_images"]: n}
        yield from self.on_run(visitor, {**values, "n_images": n})
