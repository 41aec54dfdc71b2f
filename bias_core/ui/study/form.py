"""The form of a study tab: which study, on which model, how much of it; and what stands in it as settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.kit.designs import option_settings
from bias_core.studies.kit.setting_fields import Setting, is_nothing, option_values, settings_of
from bias_core.studies.kit.types import StudySettings
from bias_core.ui.model_menu import HINT, encoder_choices, force_box, model_choices
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.kit.types import Design

FORM: Mapping[str, Setting] = {
    one.key: one for one in settings_of(StudySettings).values() if one.name not in ("options", "arms")
}
"""The settings that stand in the form, by the names of their components."""
FIELDS = ("study", *FORM)
"""The form's components in the order in which handlers receive them; the options of the tab's studies come
after them, and then the tab's own inputs."""
LINKED = tuple(key for key in FIELDS if key == "study" or FORM[key].may_be_linked)
"""Those that an address may fill."""
OPTION = "option."
"""The component of an option is called so, and then by its name."""
_ABOVE = ("model", "condition", "percent")
_READING = ("encoder", "force")
_FILES = ("images", "labels")
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


def option_names(form: Mapping[str, Any]) -> list[str]:
    """The names of the components of options, in their order."""
    return [name for name in form if name.startswith(OPTION)]


def read_settings(form: Mapping[str, Any], design: Design) -> StudySettings:
    """The settings that the form asks for; of the options, those that the design has and that are not empty.

    Raises
    ------
    InvalidInput
        A value that is none; the message quotes it.
    """
    given = {one.name: one.read_shown(form[key]) for key, one in FORM.items()}
    options = {
        name: one.read_shown(form[OPTION + name])
        for name, one in option_settings(design).items()
        if not is_nothing(form.get(OPTION + name))
    }
    return StudySettings(**given, options=options)


def form_values(design: Design, settings: StudySettings) -> dict[str, Any]:
    """What the form shows for these settings; files do not come back into it."""
    shown = {key: one.shown(getattr(settings, one.name)) for key, one in FORM.items() if not one.local}
    return {"study": design.name} | shown | option_updates(design, settings.options)


def option_updates(design: Design, chosen: Any = None) -> dict[str, Any]:
    """The options of a design in their components, with the values ``chosen`` before its own."""
    given = option_values(chosen or {})
    return {
        OPTION + name: gr.update(
            value=one.shown(one.read(given.get(name, one.default))), visible=True, label=one.label, info=one.info
        )
        for name, one in option_settings(design).items()
    }


def build_form(key: str, designs: Sequence[Design], services: Services) -> dict[str, Any]:
    """The row of the form that every study tab has in sight."""
    form: dict[str, Any] = {}
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
        for name in _ABOVE:
            form[name] = _component(key, name, FORM[name], services)
    return form


def build_more(key: str, form: dict[str, Any], designs: Sequence[Design], services: Services) -> None:
    """Sampling, reading, options and one's own files: what most visitors leave alone."""
    title = "Sampling, options, your own pictures"
    with gr.Accordion(title, open=False, elem_classes="more", elem_id=f"{key}-more"):
        apart = (*_ABOVE, *_READING, *_FILES)
        for names in ([name for name in FORM if name not in apart], _READING):
            with gr.Row():
                for name in names:
                    form[name] = _component(key, name, FORM[name], services)
        with gr.Row(elem_id=f"{key}-options"):
            for design in designs:
                for name, one in option_settings(design).items():
                    if OPTION + name not in form:
                        form[OPTION + name] = _component(key, OPTION + name, one, services)
                        form[OPTION + name].visible = design is designs[0]
        with gr.Row():
            for name in _FILES:
                form[name] = _component(key, name, FORM[name], services)


def _component(key: str, name: str, one: Setting, services: Services) -> Any:
    """The component that holds a setting: for some their own, for all others after the kind of value."""
    if name in _OWN:
        return _OWN[name](key, one, services)
    more: dict[str, Any] = {
        "value": one.shown(one.default),
        "label": f"{one.label}, %" if one.percent else one.label,
        "info": one.info,
        "elem_id": f"{key}-{name.replace(OPTION, 'option-')}",
        "min_width": 160,
    }
    if one.choices:
        return gr.Dropdown(list(one.choices), **more)
    if one.kind is bool:
        return gr.Checkbox(**more)
    if one.kind in (int, float) and not one.may_be_left_out:
        return gr.Number(precision=0 if one.kind is int and not one.percent else None, **more)
    # A gr.Number that holds nothing says 0 in the browser, so what may be left out is written as text.
    return gr.Textbox(max_lines=3, placeholder="left out" if one.may_be_left_out else None, **more)


def _model(key: str, one: Setting, services: Services) -> Any:
    return gr.Dropdown(
        model_choices(services),
        value=one.default,
        label=one.label,
        info=HINT,
        allow_custom_value=True,
        scale=4,
        elem_id=f"{key}-model",
        min_width=240,
    )


def _condition(key: str, one: Setting, services: Services) -> Any:
    return gr.Dropdown(
        list(services.model_info(StudySettings().model).conditions),
        value=one.default,
        scale=2,
        label=one.label,
        info="Bias planted in this world",
        elem_id=f"{key}-condition",
        min_width=150,
    )


def _encoder(key: str, one: Setting, services: Services) -> Any:
    return gr.Dropdown(
        encoder_choices(services),
        value=one.default,
        min_width=220,
        label=one.label,
        info=one.info,
        allow_custom_value=True,
        elem_id=f"{key}-encoder",
    )


def _percent(key: str, one: Setting, _services: Services) -> Any:
    return gr.Slider(
        1, 100, _PERCENT, step=1, label=f"{one.label}, %", elem_id=f"{key}-percent", scale=3, min_width=200
    )


def _file(key: str, one: Setting, ending: str) -> Any:
    label = f"{one.label} ({ending[1:]})"
    return gr.File(label=label, file_types=[ending], height=110, elem_id=f"{key}-{one.key}", min_width=240)


_PERCENT = 10  # of the full size: what a first click draws
_OWN: Mapping[str, Callable[[str, Setting, Services], Any]] = {
    "model": _model,
    "condition": _condition,
    "encoder": _encoder,
    "percent": _percent,
    "force": lambda key, _one, _services: force_box(key),
    "images": lambda key, one, _services: _file(key, one, ".zip"),
    "labels": lambda key, one, _services: _file(key, one, ".csv"),
}


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
