"""Arms in a form: "Add an arm" puts another way to draw the same beside the settings above it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.services import Services
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.running.arms import MOST_ARMS
from bias_core.types import ModelInfo
from bias_core.ui import messages
from bias_core.ui.model_menu import model_choices, model_hint
from bias_core.ui.templates import render, script

Updates = dict[Any, Any]
_FIELDS = settings_of(Arm)
_AS_ABOVE = "Empty: as above"
_PER_LINE = 4  # fields
_HINTS: Mapping[str, str] = {
    "name": "If you like; else what makes it differ",
    "template": "{} is the whole prompt; {nurse=person} another word",
    "rewrite": "off, own, fair, or an instruction; empty: as above",
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


class ArmsForm:
    """An accordion with presets, the arms (none where the form above is the only one) and the form of another."""

    def __init__(self, key: str, services: Services, build_presets: Callable[[], None] | None = None) -> None:
        self.services = services
        self.chosen = gr.State(())
        self.presets: list[Any] = []
        title = "Add an arm: compare on the same seeds"
        with gr.Accordion(title, open=False, elem_classes="more", elem_id=f"{key}-arms"):
            (build_presets or (lambda: self._build_presets(key)))()
            self.listed = gr.HTML(arms_html(()), js_on_load=script("arms"), elem_id=f"{key}-arms-list")
            self.fields: dict[str, Any] = {}
            for first in range(0, len(_FIELDS), _PER_LINE):
                names = list(_FIELDS)[first : first + _PER_LINE]
                with gr.Row(equal_height=True, elem_classes="line"):
                    self.fields |= {name: self._field(key, name) for name in names}
            with gr.Row(elem_classes="tools"):
                self.add = gr.Button("Add this arm", elem_id=f"{key}-add-arm", scale=0, min_width=160)
            self.status = gr.HTML(elem_id=f"{key}-arms-status")

    def _build_presets(self, key: str) -> None:
        with gr.Row(elem_classes="chips"):
            self.presets = [
                gr.Button(name, size="sm", min_width=0, scale=0, elem_id=f"{key}-arms-preset-{i}")
                for i, name in enumerate(PRESETS)
            ]

    def _field(self, key: str, name: str) -> Any:
        place: dict[str, Any] = {
            "label": _FIELDS[name].label, "info": _HINTS.get(name, _AS_ABOVE), "elem_id": f"{key}-arm-{name}",
            "min_width": 170, "scale": 3 if name in ("model", "template") else 2,
        }  # fmt: skip
        if name in ("model", "condition"):
            conditions = list(self.services.model_info(StudySettings().model).conditions)
            choices = model_choices(self.services) if name == "model" else conditions
            return gr.Dropdown(choices, value=None, allow_custom_value=True, **place)
        if name == "images":
            label = "Pictures of your own (zip)"
            return gr.File(
                label=label, file_types=[".zip"], height=110, min_width=240, scale=2, elem_id=f"{key}-arm-images"
            )
        if _FIELDS[name].choices:
            return gr.Dropdown([choice for choice in _FIELDS[name].choices if choice], value=None, **place)
        return gr.Textbox("", max_lines=3, **place)

    def outputs(self) -> list[Any]:
        """Everything that :meth:`show` changes."""
        return [self.chosen, self.listed, self.status]

    def show(self, arms: Sequence[Arm]) -> Updates:
        """These arms."""
        return {self.chosen: tuple(arms), self.listed: arms_html(arms), self.status: ""}

    def wire(self, model: Any) -> None:
        """Adding, removing, presets for the ``model`` of the form, and the conditions of an arm's model."""
        fields, shown = list(self.fields.values()), self.outputs()
        self.add.click(self.on_add, [self.chosen, *fields], [*shown, *fields], **messages.QUIET)
        self.listed.select(self.on_remove, self.chosen, shown, **messages.QUIET)
        if self.presets:
            gr.on([button.click for button in self.presets], self.on_preset, model, shown, **messages.QUIET)
        menus = [self.fields["condition"], self.fields["model"], self.status]
        self.fields["model"].input(self.on_model, self.fields["model"], menus, **messages.QUIET)

    def on_add(self, chosen: tuple[Arm, ...], *values: Any) -> Updates:
        """Put the arm of the form to the others, and empty the form; empty fields are as the settings above."""
        with messages.user_errors() as problem:
            given = {name: value for name, value in zip(_FIELDS, values, strict=True) if value not in (None, "")}
            arm = Arm(**{name: _FIELDS[name].read(value) for name, value in given.items()})
            return self.show(added(chosen, arm)) | dict.fromkeys(self.fields.values(), None)
        return {self.status: messages.error_html(problem.message)}

    def on_remove(self, chosen: tuple[Arm, ...], event: gr.EventData) -> Updates:
        """Take an arm away."""
        rest = [arm for i, arm in enumerate(chosen) if i != int(event.remove)]
        return self.show(() if all(replace(arm, name="") == Arm() for arm in rest) else rest)

    def on_preset(self, name: str, event: gr.EventData) -> Updates:
        """The arms of a button, in place of those that there are."""
        with messages.user_errors() as problem:
            arms = tuple(PRESETS.values())[self.presets.index(event.target)]
            return self.show(suited_to(arms, self.services.model_info(name)))
        return {self.status: messages.error_html(problem.message)}

    def on_model(self, name: str | None) -> Updates:
        """The conditions of another model."""
        with messages.user_errors() as problem:
            conditions = list(self.services.model_info(name).conditions) if name else []
            hint = model_hint(self.services, name) if name else _AS_ABOVE
            return {
                self.fields["condition"]: gr.update(choices=conditions, value=None),
                self.fields["model"]: gr.update(info=hint),
            }
        return {self.status: messages.error_html(problem.message)}


def arms_html(chosen: Sequence[Arm]) -> str:
    """The arms that will be compared, each in a line with a button that takes it away."""
    lines = []
    for arm in chosen:
        values = {
            "model": arm.model, "condition": arm.condition, "prompt": arm.template,
            "without": arm.negative_prompt, "guidance": arm.guidance_scale, "steps": arm.num_inference_steps,
            "size": arm.size, "sampler": arm.sampler,
            "pictures": arm.images and arm.images.rpartition("/")[2],
        }  # fmt: skip
        words = ", ".join(f"{word} {value}" for word, value in values.items() if value not in (None, ""))
        lines.append(": ".join(filter(None, (arm.name, words or "as above"))))
    return render("arms_form", arms=lines)


def added(chosen: Sequence[Arm], arm: Arm) -> tuple[Arm, ...]:
    """The arms with one more; InvalidInput where there are as many as can be, or it says nothing new."""
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


def apart(settings: StudySettings) -> tuple[StudySettings, tuple[Arm, ...]]:
    """Settings that a form can show, and their arms: what the first arm says of its own stands in the form.

    Where that changes what another arm left to the settings, that arm says it itself.

    >>> fair = StudySettings(arms=(Arm(condition="fair"), Arm(guidance_scale=2.0)))
    >>> shown, arms = apart(fair)
    >>> shown.condition, arms[0].condition, arms[1].condition
    ('fair', None, 'published')
    """
    if not settings.arms:
        return settings, ()
    first, *others = settings.arms
    shared = [name for name in _FIELDS if name not in ("name", "template")]
    own = {name: value for name in shared if (value := getattr(first, name)) is not None}
    before = {name: getattr(settings, name) for name in own}
    rest = [replace(arm, **{k: v for k, v in before.items() if getattr(arm, k) is None}) for arm in others]
    return replace(settings, arms=(), **own), (Arm(name=first.name, template=first.template), *rest)
