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
from bias_core.ui.model_menu import HINT, model_choices, model_hint
from bias_core.ui.templates import render, script

Updates = dict[Any, Any]
_FIELDS = settings_of(Arm)
_AS_ABOVE = "Empty: as above"
_WIDE = ("model", "template")
_HINTS: Mapping[str, str] = {
    "name": "If you like; else what makes it differ",
    "template": "{} is the whole prompt; {nurse=person} another word",
    "rewrite": "off, own, fair, or an instruction; empty: as above",
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
        with gr.Accordion(title, open=False, elem_classes="more", elem_id=f"{key}-arms") as self.box:
            (build_presets or (lambda: self._build_presets(key)))()
            self.listed = gr.HTML(arms_html(()), js_on_load=script("arms"), elem_id=f"{key}-arms-list")
            label = "Pictures of your own (zip), instead of drawing"
            self.images = gr.File(label=label, file_types=[".zip"], height=110, elem_id=f"{key}-arm-images")
            of_arm = script("arm_fields", list=f"{key}-arms-list", conditions=self._conditions())
            self.fields = gr.HTML(self._fields_html(key), js_on_load=of_arm, elem_id=f"{key}-arm-fields")
            self.status = gr.HTML(elem_id=f"{key}-arms-status")

    def _build_presets(self, key: str) -> None:
        with gr.Row(elem_classes="chips"):
            self.presets = [
                gr.Button(name, size="sm", min_width=0, scale=0, elem_id=f"{key}-arms-preset-{i}")
                for i, name in enumerate(PRESETS)
            ]

    def _conditions(self) -> dict[str, dict[str, str]]:
        """The conditions of each model that has any, each with its line; "" is the model above."""
        lines, models = self.services.catalogue.conditions, {info.id: info for info in self.services.models()}
        models[""] = self.services.model_info(StudySettings().model)
        return {key: {name: lines[name] for name in info.conditions} for key, info in models.items() if info.conditions}

    def _fields_html(self, key: str) -> str:
        """What an arm can have of its own; plain fields, for Gradio's would be two hundred parts of every page."""
        conditions = [(line, name) for name, line in self._conditions()[""].items()]
        menus = {"model": model_choices(self.services), "condition": conditions}
        fields = [
            {
                "name": name, "label": one.label, "hint": _HINTS.get(name, _AS_ABOVE), "menu": menus.get(name),
                "choices": () if name in menus else list(filter(None, one.choices)), "wide": name in _WIDE,
            }
            for name, one in _FIELDS.items() if name != "images"
        ]  # fmt: skip
        return render("arm_fields", key=key, fields=fields)

    def outputs(self) -> list[Any]:
        """Everything that :meth:`show` changes."""
        return [self.chosen, self.listed, self.status]

    def show(self, arms: Sequence[Arm]) -> Updates:
        """These arms."""
        return {self.chosen: tuple(arms), self.listed: arms_html(arms), self.status: ""}

    def wire(self, model: Any) -> None:
        """Adding, removing, presets for the ``model`` of the form, and the conditions of an arm's model."""
        shown = self.outputs()
        self.fields.submit(self.on_add, [self.chosen, self.images], [*shown, self.images], **messages.QUIET)
        self.listed.select(self.on_remove, self.chosen, shown, **messages.QUIET)
        if self.presets:
            gr.on([button.click for button in self.presets], self.on_preset, model, shown, **messages.EACH)
        self.fields.select(self.on_model, None, self.status, **messages.EACH)

    def on_add(self, chosen: tuple[Arm, ...], images: str | None, event: gr.EventData) -> Updates:
        """Put the arm of the form to the others; empty fields are as the settings above."""
        with messages.user_errors() as problem:
            written = event.arm if isinstance(event.arm, dict) else {}
            texts = {name: str(written.get(name) or "").strip() for name in _FIELDS} | {"images": images or ""}
            arm = Arm(**{name: _FIELDS[name].read(text) for name, text in texts.items() if text})
            return self.show(added(chosen, arm)) | {self.images: None}
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

    def on_model(self, event: gr.EventData) -> str:
        """What choosing another model means here."""
        with messages.user_errors() as problem:
            hint = model_hint(self.services, str(event.name or ""))
            return "" if hint == HINT else messages.done_html(hint)
        return messages.error_html(problem.message)


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
