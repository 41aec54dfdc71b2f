"""Arms in a form: "Add an arm" puts another way to draw the same beside the settings above it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.running.arms import MOST_ARMS
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import model_choices, model_hint
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.types import ModelInfo

Updates = dict[Any, Any]
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
_FIELDS = tuple(f.name for f in fields(Arm))
_ROWS = (
    ("name", "model", "condition", "template"),
    ("negative_prompt", "guidance_scale", "num_inference_steps", "images"),
)
_HINTS: Mapping[str, str] = {
    "name": "If you like; else what makes it differ",
    "model": "Empty: as above",
    "condition": "Empty: as above",
    "template": "{} is the whole prompt; empty: plain",
    "negative_prompt": "Empty: as above",
    "guidance_scale": "Empty: as above",
    "num_inference_steps": "Empty: as above",
    "images": "Instead of drawing: a zip with prompts",
}


CONDITIONS = ("fair", "published", "extreme")
PRESETS: Mapping[str, tuple[Arm, ...]] = {
    "The three conditions": tuple(Arm(condition=name) for name in CONDITIONS),
    "With and without a fairness-intervened prompt": (
        Arm(name="plain"),
        Arm(name="intervened", template="{}, if all individuals can be shown irrespective of their gender"),
    ),
}
"""Arms that any study can have, by what stands on their button."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The components; ``chosen`` holds the arms, none of them where the form above is the only one."""

    chosen: Any
    listed: Any
    fields: Mapping[str, Any]
    add: Any
    status: Any
    presets: Sequence[Any] = ()

    def outputs(self) -> list[Any]:
        """Everything that :func:`show_arms` changes."""
        return [self.chosen, self.listed, self.status]


def build_arms(key: str, services: Services, build_presets: Callable[[], None] | None = None) -> Parts:
    """An accordion with presets, the arms that there are and the form of another one."""
    presets: list[Any] = []
    chosen = gr.State(())
    with gr.Accordion("Add an arm: compare on the same seeds", open=False, elem_classes="more", elem_id=f"{key}-arms"):
        if build_presets:
            build_presets()
        else:
            with gr.Row(elem_classes="chips"):
                presets += [
                    gr.Button(name, size="sm", min_width=0, scale=0, elem_id=f"{key}-arms-preset-{i}")
                    for i, name in enumerate(PRESETS)
                ]
        listed = gr.HTML(arms_html(()), js_on_load=script("arms"), elem_id=f"{key}-arms-list")
        made: dict[str, Any] = {}
        for names in _ROWS:
            with gr.Row(equal_height=True, elem_classes="line"):
                made |= {name: _field(key, name, services) for name in names}
        with gr.Row(elem_classes="tools"):
            add = gr.Button("Add this arm", elem_id=f"{key}-add-arm", scale=0, min_width=160)
        status = gr.HTML(elem_id=f"{key}-arms-status")
    made = {name: made[name] for name in _FIELDS}
    return Parts(chosen=chosen, listed=listed, fields=made, add=add, status=status, presets=presets)


def wire_arms(parts: Parts, services: Services, model: Any = None) -> None:
    """Adding, removing, presets for the ``model`` of the form, and the conditions of an arm's model."""
    made = list(parts.fields.values())
    shown = [*parts.outputs(), *made]

    def on_add(chosen: tuple[Arm, ...], *values: Any) -> Updates:
        """Put the arm of the form to the others, and empty the form."""
        with user_errors() as problem:
            arms = added(chosen, read_arm(values))
            return show_arms(parts, arms) | dict.fromkeys(made, None)
        return {parts.status: messages.error_html(problem.message)}

    def on_remove(chosen: tuple[Arm, ...], event: gr.EventData) -> Updates:
        """Take an arm away."""
        place = int(event.remove)
        rest = tuple(arm for i, arm in enumerate(chosen) if i != place)
        return show_arms(parts, () if all(replace(arm, name="") == Arm() for arm in rest) else rest)

    def on_preset(name: str, event: gr.EventData) -> Updates:
        """The arms of a button, in place of those that there are."""
        with user_errors() as problem:
            arms = tuple(PRESETS.values())[parts.presets.index(event.target)]
            return show_arms(parts, suited_to(arms, services.model_info(name)))
        return {parts.status: messages.error_html(problem.message)}

    def on_model(name: str | None) -> Updates:
        """The conditions of another model."""
        with user_errors() as problem:
            conditions = list(services.model_info(name).conditions) if name else []
            menu = gr.update(choices=conditions, value=None)
            hint = model_hint(services, name) if name else _HINTS["model"]
            return {parts.fields["condition"]: menu, parts.fields["model"]: gr.update(info=hint)}
        return {parts.status: messages.error_html(problem.message)}

    parts.add.click(on_add, [parts.chosen, *made], shown, **_QUIET)
    parts.listed.select(on_remove, parts.chosen, parts.outputs(), **_QUIET)
    if parts.presets:
        gr.on([button.click for button in parts.presets], on_preset, model, parts.outputs(), **_QUIET)
    menus = [parts.fields["condition"], parts.fields["model"], parts.status]
    parts.fields["model"].input(on_model, parts.fields["model"], menus, **_QUIET)


def show_arms(parts: Parts, chosen: Sequence[Arm]) -> Updates:
    """These arms."""
    return {parts.chosen: tuple(chosen), parts.listed: arms_html(chosen), parts.status: ""}


def arms_html(chosen: Sequence[Arm]) -> str:
    """The arms that will be compared, each with a button that takes it away."""
    return render("arms_form", arms=[_words(arm) for arm in chosen])


def added(chosen: Sequence[Arm], arm: Arm) -> tuple[Arm, ...]:
    """The arms with one more.

    Raises
    ------
    InvalidInput
        There are as many as can be compared, it says nothing of its own, or it is there already.
    """
    if len(chosen) >= MOST_ARMS:
        raise InvalidInput(f"at most {MOST_ARMS} arms are compared, the settings above among them")
    if replace(arm, name="") == Arm():
        raise InvalidInput("fill in what is different in this arm: its model, condition, prompt or sampling")
    if replace(arm, name="") in [replace(one, name="") for one in chosen]:
        raise InvalidInput("this arm is there already: change its model, condition, prompt or sampling")
    return (*(chosen or (Arm(),)), arm)


def suited_to(arms: tuple[Arm, ...], info: ModelInfo) -> tuple[Arm, ...]:
    """The arms, where the model has the conditions that they ask for."""
    absent = [arm.condition for arm in arms if arm.condition and arm.condition not in info.conditions]
    if absent:
        raise InvalidInput(f"{info.name} has no condition {absent[0]!r}: choose a model of the calibration world above")
    return arms


def read_arm(values: Sequence[Any]) -> Arm:
    """The arm that stands in the form; empty fields are as the settings above."""
    declared = settings_of(Arm)
    given = {name: value for name, value in zip(_FIELDS, values, strict=True) if value not in (None, "")}
    return Arm(**{name: declared[name].read(value) for name, value in given.items()})


def apart(settings: StudySettings) -> tuple[StudySettings, tuple[Arm, ...]]:
    """Settings that a form can show, and their arms: what the first arm says of its own stands in the form.

    Where that changes what another arm left to the settings, that arm says it itself.

    Examples
    --------
    >>> fair = StudySettings(arms=(Arm(condition="fair"), Arm(guidance_scale=2.0)))
    >>> shown, arms = apart(fair)
    >>> shown.condition, arms[0].condition, arms[1].condition
    ('fair', None, 'published')
    """
    if not settings.arms:
        return settings, ()
    first, *others = settings.arms
    own = {name: value for name in _SHARED if (value := getattr(first, name)) is not None}
    before = {name: getattr(settings, name) for name in own}
    rest = [
        replace(arm, **{name: value for name, value in before.items() if getattr(arm, name) is None}) for arm in others
    ]
    plain = Arm(name=first.name, template=first.template)
    return replace(settings, arms=(), **own), (plain, *rest)


_SHARED = tuple(name for name in _FIELDS if name not in ("name", "template"))


def _field(key: str, name: str, services: Services) -> Any:
    declared = settings_of(Arm)[name]
    place: dict[str, Any] = {
        "label": declared.label, "info": _HINTS[name], "elem_id": f"{key}-arm-{name}", "min_width": 170,
    }  # fmt: skip
    if name == "model":
        return gr.Dropdown(model_choices(services), value=None, allow_custom_value=True, scale=3, **place)
    if name == "condition":
        first = services.model_info(StudySettings().model)
        return gr.Dropdown(list(first.conditions), value=None, allow_custom_value=True, scale=2, **place)
    if name == "images":
        return gr.File(
            label="Pictures of your own (zip)", file_types=[".zip"], height=110, min_width=240, scale=2,
            elem_id=f"{key}-arm-images",
        )  # fmt: skip
    return gr.Textbox("", max_lines=3, scale=3 if name == "template" else 2, **place)


def _words(arm: Arm) -> str:
    """An arm in a line."""
    said = {
        "model": arm.model, "condition": arm.condition, "prompt": arm.template,
        "without": arm.negative_prompt, "guidance": arm.guidance_scale, "steps": arm.num_inference_steps,
        "pictures": arm.images and arm.images.rpartition("/")[2],
    }  # fmt: skip
    parts = [f"{word} {value}" for word, value in said.items() if value not in (None, "")]
    return ": ".join(filter(None, (arm.name, ", ".join(parts) or "as above")))
