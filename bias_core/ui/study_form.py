"""The form of a study tab: which study, on which model, how much of it; and what stands in it as settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.study_types import StudySettings
from bias_core.ui.model_menu import HINT, encoder_choices, force_box, model_choices
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.study_types import Design

FIELDS = (
    "study",
    "model",
    "condition",
    "encoder",
    "percent",
    "seed",
    "steps",
    "guidance",
    "confidence",
    "options",
    "images",
    "labels",
    "force",
)
"""The form's values in the order in which handlers receive them; a tab's own inputs come after them."""
REMEMBERED = ("model", "condition", "encoder")


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A full picture in one click.

    Attributes
    ----------
    name : on its button.
    study : a shipped design.
    says : what it shows, as the button's tooltip and in the list of examples.
    settings : of :class:`StudySettings` where they differ from the defaults.
    """

    name: str
    study: str
    says: str
    settings: Mapping[str, Any]


def read_settings(values: Sequence[Any]) -> StudySettings:
    """The settings that the form asks for.

    Raises
    ------
    InvalidInput
        A number that is none, or an option without a name; the message quotes it.
    """
    form = dict(zip(FIELDS, values, strict=False))
    return StudySettings(
        model=as_text(form["model"]),
        condition=as_text(form["condition"]),
        encoder=as_text(form["encoder"]),
        scale=as_number(form["percent"], "share of the full size") / 100,
        seed=as_whole(form["seed"], "seed"),
        num_inference_steps=as_whole(form["steps"], "denoising steps") if is_given(form["steps"]) else None,
        guidance_scale=as_number(form["guidance"], "guidance") if is_given(form["guidance"]) else None,
        confidence=as_number(form["confidence"], "confidence") / 100,
        images=as_text(form["images"]),
        labels=as_text(form["labels"]),
        options=read_options(form["options"] or []),
        force=bool(form["force"]),
    )


def read_options(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Options from their table; an empty value leaves the design's own."""
    found = {}
    for row in rows:
        name, value = (as_text(cell) for cell in (*row, "", "")[:2])
        if value and not name:
            raise InvalidInput(f"an option needs its name, got only the value {value!r}")
        if value:
            found[name] = value
    return found


def option_rows(design: Design, chosen: Mapping[str, Any] | None = None) -> list[list[str]]:
    """The options of a design as rows of the table."""
    options = {**design.options, **(chosen or {})}
    return [[name, _shown(value)] for name, value in options.items()] or [["", ""]]


def form_values(design: Design, settings: StudySettings) -> dict[str, Any]:
    """What the form shows for these settings."""
    return {
        "study": design.name,
        "model": settings.model,
        "encoder": settings.encoder,
        "percent": 100 * settings.scale,
        "seed": settings.seed,
        "steps": settings.num_inference_steps,
        "guidance": settings.guidance_scale,
        "confidence": round(100 * settings.confidence),
        "options": option_rows(design, settings.options),
        "force": settings.force,
    }


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def build_form(key: str, designs: Sequence[Design], services: Services) -> dict[str, Any]:
    """The rows of the form that every study tab has."""
    form: dict[str, Any] = {}
    defaults = StudySettings()
    with gr.Row(equal_height=True, elem_classes="line"):
        form["study"] = gr.Dropdown(
            [(design.title, design.name) for design in designs],
            value=designs[0].name,
            label="Study",
            info="As the paper designed it",
            elem_id=f"{key}-study",
            scale=4,
            min_width=240,
        )
        form["model"] = gr.Dropdown(
            model_choices(services),
            value=defaults.model,
            label="Model",
            info=HINT,
            allow_custom_value=True,
            scale=4,
            elem_id=f"{key}-model",
            min_width=240,
        )
        form["condition"] = gr.Dropdown(
            list(services.model_info(defaults.model).conditions),
            value=defaults.condition,
            scale=2,
            label="Condition",
            info="Bias planted in this world",
            elem_id=f"{key}-condition",
            min_width=150,
        )
        form["percent"] = gr.Slider(
            1, 100, 10, step=1, label="Size, % of the full", elem_id=f"{key}-percent", scale=3,
            min_width=200,
        )  # fmt: skip
    return form


def build_more(key: str, form: dict[str, Any], design: Design, services: Services) -> None:
    """Sampling, reading, options and one's own files: what most visitors leave alone."""
    defaults = StudySettings()
    with gr.Accordion(
        "Sampling, options, your own pictures", open=False, elem_classes="more", elem_id=f"{key}-more"
    ):
        with gr.Row():
            form["seed"] = gr.Number(
                defaults.seed,
                label="Seed",
                info="Picture i of a prompt: seed + i",
                precision=0,
                min_width=130,
            )
            form["steps"] = gr.Number(
                None, label="Denoising steps", info="Empty: the model's own", precision=0, min_width=130
            )
            form["guidance"] = gr.Number(None, label="Guidance", info="Empty: the model's own", min_width=130)
            form["confidence"] = gr.Dropdown(
                [90, 95, 99], value=95, label="Confidence, %", info="Of every interval", min_width=130
            )
            form["encoder"] = gr.Dropdown(
                encoder_choices(services),
                value=defaults.encoder,
                min_width=220,
                label="Reader (encoder)",
                info="Who reads the pictures",
                allow_custom_value=True,
            )
            form["force"] = force_box(key)
        _build_options(key, form, design)


def _build_options(key: str, form: dict[str, Any], design: Design) -> None:
    """The study's options, and one's own files."""
    with gr.Row():
        form["options"] = gr.Dataframe(
            option_rows(design),
            headers=["option", "value"],
            datatype="str",
            type="array",
            interactive=True,
            wrap=True,
            label="Options of the study",
            buttons=[],
            elem_id=f"{key}-options",
            max_height=260,
        )
        with gr.Column(min_width=240):
            form["images"] = gr.File(
                label="Your own pictures instead (zip with their prompts)",
                file_types=[".zip"],
                height=110,
                elem_id=f"{key}-images",
            )
            form["labels"] = gr.File(
                label="People's answers instead of automatic labels (CSV)",
                file_types=[".csv"],
                height=110,
                elem_id=f"{key}-labels",
            )


def build_take(key: str) -> dict[str, Any]:
    """What is taken along as a whole, and the same numbers elsewhere."""
    parts: dict[str, Any] = {}
    title = "Take it with you: zip, command, Python, link"
    with gr.Accordion(title, open=False, elem_classes="more", elem_id=f"{key}-command"):
        parts["takes"] = gr.HTML(render("take_all"), js_on_load=script("choose"), elem_id=f"{key}-takes")
        copyable: dict[str, Any] = {"interactive": False, "buttons": ["copy"], "elem_classes": "code"}
        parts["shell"] = gr.Textbox(label="Command line", lines=2, max_lines=8, **copyable)
        parts["python"] = gr.Textbox(label="Python", lines=6, max_lines=20, **copyable)
        parts["link"] = gr.Textbox(label="Link to these settings", lines=1, max_lines=3, **copyable)
    parts["file"] = gr.DownloadButton("file", elem_id=f"{key}-file", elem_classes="hidden-file")
    return parts


def as_text(value: Any) -> str:
    """A form's value as text; nothing is ""."""
    return "" if value is None else str(value).strip()


def is_given(value: Any) -> bool:
    """Whether a number field holds anything."""
    return value is not None and value != "" and not (isinstance(value, float) and math.isnan(value))


def as_number(value: Any, what: str) -> float:
    """A finite number; InvalidInput quotes what is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:  # a whole number of 400 digits is no float
        raise InvalidInput(f"the {what} is a number, got {value!r:.80}") from error
    if not math.isfinite(number):
        raise InvalidInput(f"the {what} is a number, got {value!r}")
    return number


def as_whole(value: Any, what: str) -> int:
    """A whole number; InvalidInput quotes what is none."""
    number = as_number(value, what)
    if number != int(number):
        raise InvalidInput(f"the {what} is a whole number, got {value!r}")
    return int(number)
