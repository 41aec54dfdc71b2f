"""The form of the Explore tab: what stands in it, where, and what it says as settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.studies.explore.options import ExploreOptions, explore_options, explore_settings
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import StudySettings
from bias_core.ui import messages
from bias_core.ui.attribute_table import EMPTY_ROW, attribute_rows, build_table, read_table, words_for
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import HINT, encoder_choices, force_box, model_choices, model_hint
from bias_core.ui.study.arms_form import apart

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.kit.attributes import AttributeSet

FIELDS = (
    "concept", "template", "attributes", "model", "condition", "encoder", "n_images", "num_inference_steps",
    "guidance_scale", "negative_prompt", "seed", "attribute_a", "attribute_b", "n_attribute_images",
    "n_clusters", "confidence", "force",
)  # fmt: skip
"""The form's values in the order in which handlers receive them; the arms come after them."""
FIRST_SET = "doctor"
EXAMPLES = (
    "doctor", "nurse", "ceo", "construction_worker", "iranian", "indian", "mexican", "people", "flowers",
    "insects",
)  # fmt: skip
DEFAULTS = explore_settings()
OPTIONS = ExploreOptions()
OF_MODEL = ("condition", "num_inference_steps", "guidance_scale", "model_note")
"""What another model changes in the form."""
Updates = dict[Any, Any]
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
_GENERAL_SET = "people"  # for concepts that no set was made for
TABLE_NOTE = (
    "A picture has an attribute when it is nearer to the positive sentence. **P\\*** is the rate that it is "
    "compared with: 0.56, 56 % or empty. Say where it comes from, or that it is a choice."
)


def read_form(values: Sequence[Any]) -> StudySettings:
    """The settings that the form asks for; after the values of ``FIELDS`` come the arms.

    Raises
    ------
    InvalidInput
        A number that is none, or an attribute row with a hole; the message quotes it.
    """
    *values, arms = values
    form = dict(zip(FIELDS, values, strict=True))
    declared = {**settings_of(StudySettings), **settings_of(ExploreOptions)}
    form["n_clusters"] = form["n_clusters"] or 0
    given = {name: declared[name].read(form[name]) for name in FIELDS if name != "attributes"}
    given["confidence"] /= 100
    given["num_inference_steps"] = given["num_inference_steps"] or None
    attributes = read_table(form["attributes"] or [])
    return explore_settings(**given, attributes=attributes, arms=tuple(arms or ()))


def form_values(settings: StudySettings) -> dict[str, Any]:
    """What the form shows for these settings; the condition's menu is the model's business."""
    shown, _ = apart(settings)
    options = explore_options(shown)
    values = {name: getattr(options if hasattr(options, name) else shown, name) for name in FIELDS}
    return values | {"attributes": attribute_rows(options.scored), "confidence": round(100 * shown.confidence)}


def build_form(services: Services, sets: Sequence[AttributeSet]) -> dict[str, Any]:
    """Every component by its name in ``FIELDS``, and those that fill them."""
    form: dict[str, Any] = {}
    first = next(item for item in sets if item.key == FIRST_SET)
    _build_question(form, services, sets)
    with gr.Accordion("Attributes and their sentences", open=False, elem_id="attributes"):
        form["attributes"] = build_table(first.attributes, "table")
        with gr.Row(elem_classes="tools"):
            form["add"] = gr.Button("Add a row", size="sm", scale=0, min_width=110)
            form["remove"] = gr.Button("Remove the chosen row", size="sm", scale=0, min_width=170)
            form["restore"] = gr.Button("Undo all: back to the set", size="sm", scale=0, min_width=190)
        gr.Markdown(TABLE_NOTE, elem_classes="quiet")
    with gr.Accordion("Prompt, sampling, reading", open=False, elem_id="options"):
        _build_options(form, services)
    return form


def _build_question(form: dict[str, Any], services: Services, sets: Sequence[AttributeSet]) -> None:
    with gr.Row(equal_height=True, elem_classes="line"):
        form["concept"] = _text("concept", placeholder="for example: doctor", scale=5, min_width=260, lines=1)
        form["set"] = gr.Dropdown(
            [(item.title, item.key) for item in sets], value=FIRST_SET, label="Attributes", elem_id="set",
            info="What is looked for in the pictures", scale=4, min_width=220,
        )  # fmt: skip
        form["n_images"] = _number("n_images", scale=2, min_width=140)
    by_key = {item.key: item for item in sets}
    with gr.Row(elem_classes="chips"):
        form["chips"] = {key: gr.Button(by_key[key].concept_hint, size="sm", min_width=0, scale=0) for key in EXAMPLES}
    with gr.Row(equal_height=True, elem_classes="line"):
        form["model"] = gr.Dropdown(
            model_choices(services), value=DEFAULTS.model, label="Model", info=HINT, allow_custom_value=True,
            elem_id="model", scale=5, min_width=260,
        )  # fmt: skip
        form["condition"] = gr.Dropdown(
            list(services.model_info(DEFAULTS.model).conditions), value=DEFAULTS.condition, label="Condition",
            info="What bias was planted in this world", elem_id="condition", scale=3, min_width=180,
        )  # fmt: skip
        with gr.Column(scale=3, min_width=220, elem_classes="act"):
            form["run"] = gr.Button("Generate and measure", variant="primary", size="lg", elem_id="generate")
            form["stop"] = gr.Button("Stop", variant="stop", size="lg", elem_id="stop", visible=False)
    form["model_note"] = gr.HTML(elem_id="model-note", elem_classes="quiet")


def _build_options(form: dict[str, Any], services: Services) -> None:
    info = services.model_info(DEFAULTS.model)
    with gr.Row():
        form["template"] = _text("template", lines=2)
        form["negative_prompt"] = gr.Textbox(
            "", label="Negative prompt", info="What to avoid; usually empty", max_lines=2
        )
    with gr.Row():
        form["seed"] = gr.Number(
            0, label="Seed", info="Of picture 1; each further one has the next", precision=0, elem_id="seed",
            min_width=130,
        )  # fmt: skip
        form["dice"] = gr.Button("New seed", size="sm", elem_id="dice", scale=0, min_width=110)
        form["num_inference_steps"] = gr.Number(
            info.default_steps, label="Denoising steps", info="Set by the model", precision=0,
            elem_id="steps", min_width=130,
        )  # fmt: skip
        form["guidance_scale"] = gr.Number(
            info.default_guidance, label="Guidance", min_width=200, elem_id="guidance",
            info="Above 1 sharpens the majority; rates hold at 1",
        )  # fmt: skip
    with gr.Row():
        form["encoder"] = gr.Dropdown(
            encoder_choices(services), value=DEFAULTS.encoder, label="Reader (encoder)", scale=2,
            info="Decides what a picture shows", allow_custom_value=True, min_width=240, elem_id="encoder",
        )  # fmt: skip
        form["confidence"] = gr.Dropdown(
            [90, 95, 99], value=95, label="Confidence, %", info="Of every interval", min_width=130
        )
        form["n_clusters"] = _number("n_clusters", elem_id="clusters", min_width=150)
        form["force"] = force_box("explore")
    with gr.Row():
        for name in ("attribute_a", "attribute_b"):
            form[name] = _text(name, min_width=150, lines=1)
        form["n_attribute_images"] = _number("n_attribute_images", min_width=150)


def _text(name: str, *, lines: int, **place: Any) -> Any:
    return gr.Textbox(getattr(OPTIONS, name), max_lines=lines, **_said(name), **place)


def _number(name: str, **place: Any) -> Any:
    return gr.Number(getattr(OPTIONS, name), precision=0, **(_said(name) | place))


def _said(name: str) -> dict[str, Any]:
    declared = settings_of(ExploreOptions)[name]
    return {"label": declared.label, "info": declared.sentence, "elem_id": name.replace("_", "-")}


class FormEvents:
    """What happens in the form, whatever is shown below it."""

    services: Services
    form: dict[str, Any]
    parts: dict[str, Any]
    sets: dict[str, AttributeSet]
    _conditions: Callable[[str, str], Any]

    def _wire_form(self) -> None:
        form = self.form
        filled = [form["attributes"], form["attribute_a"], form["attribute_b"]]
        form["set"].input(self.on_set, form["set"], filled, **_QUIET)
        for key, chip in form["chips"].items():
            example = self.sets[key]
            values = (example.concept_hint, example.template or OPTIONS.template, key,
                      attribute_rows(example.attributes), *words_for(example))  # fmt: skip
            chip.click(_constant(values), None, [form["concept"], form["template"], form["set"], *filled], **_QUIET)
        depends = [form[name] for name in ("condition", "num_inference_steps", "guidance_scale", "model_note")]
        form["model"].input(self.on_model, form["model"], depends, **_QUIET)
        form["dice"].click(lambda: secrets.randbelow(2**31), None, form["seed"], **_QUIET)
        form["add"].click(self.on_add, form["attributes"], form["attributes"], **_QUIET)
        form["attributes"].select(self.on_choose_row, None, self.parts["row"], **_QUIET)
        table = [form["attributes"], self.parts["row"]]
        form["remove"].click(self.on_remove, table, table, **_QUIET)
        form["restore"].click(self.on_restore, form["set"], form["attributes"], **_QUIET)

    def on_set(self, key: str) -> Updates:
        """Fill the table and the association's words from a built-in set."""
        form, chosen = self.form, self.sets[key]
        word_a, word_b = words_for(chosen)
        return {
            form["attributes"]: attribute_rows(chosen.attributes),
            form["attribute_a"]: word_a,
            form["attribute_b"]: word_b,
        }

    def on_restore(self, key: str) -> list[list[str]]:
        """The table as the chosen set has it."""
        return attribute_rows(self.sets[key].attributes)

    def on_add(self, rows: list[list[str]]) -> list[list[str]]:
        """An empty row more."""
        return [*rows, EMPTY_ROW]

    def on_choose_row(self, event: gr.SelectData) -> int:
        """Remember which row was touched last."""
        return int(event.index[0])

    def on_remove(self, rows: list[list[str]], chosen: int | None) -> tuple[list[list[str]], None]:
        """The table without the row touched last, or without the last one."""
        out = chosen if chosen is not None and chosen < len(rows) else len(rows) - 1
        return [row for i, row in enumerate(rows) if i != out] or [EMPTY_ROW], None

    def on_model(self, name: str) -> Updates:
        """Conditions and notes of another model."""
        with user_errors() as problem:
            return self._model_updates(name, None)
        return {self.form["model_note"]: messages.error_html(problem.message)}

    def _concept_updates(self, concept: str) -> Updates:
        """The form for a concept that a link names, with the attributes that suit it."""
        if not concept:
            return {}
        form, hints = self.form, {s.concept_hint: s for s in self.sets.values() if s.concept_hint}
        chosen = hints.get(concept.lower(), self.sets[_GENERAL_SET])
        filled = {form["concept"]: concept, form["template"]: chosen.template or OPTIONS.template}
        return filled | {form["set"]: chosen.key} | self.on_set(chosen.key)

    def _model_updates(self, name: str, condition: str | None) -> Updates:
        form, info = self.form, self.services.model_info(name)
        licence = f"Licence: {info.licence}." if info.licence else ""
        hint = "" if info.embedded else model_hint(self.services, name)
        return {
            form["condition"]: self._conditions(name, condition or ""),
            form["num_inference_steps"]: info.default_steps,
            form["guidance_scale"]: info.default_guidance,
            form["model_note"]: escape(" ".join(filter(None, (hint, info.note, licence)))),
        }


def _constant(values: tuple[Any, ...]) -> Any:
    return lambda: values
