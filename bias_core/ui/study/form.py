"""The form of a study's tab: components, updates, and the settings that they hold.

Arms are the settings that a run compares; "Add an arm" adds one to the settings above it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import isgeneratorfunction
from typing import Any, ClassVar, Literal

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.models.catalogue import hosted_name, request_words
from bias_core.run.image_rows import cut_notes, treated, treatment
from bias_core.run.plan import check_number, lay_out, settle
from bias_core.run.study_run import Run
from bias_core.services import Services
from bias_core.study.answer_files import LOOK
from bias_core.study.classifiers import FORCE_LABEL
from bias_core.study.design import find_design, option_settings
from bias_core.study.types import MOST_ARMS, Arm, Design, StudySettings
from bias_core.types import ModelInfo
from bias_core.ui import messages
from bias_core.ui.links import OPTION, Link
from bias_core.ui.model_menu import (
    CONDITION_HINT,
    FORCE_HINT,
    HINT,
    JUDGE_HINT,
    condition_choices,
    describe_model,
    encoder_choices,
    judge_choices,
    model_choices,
    model_hint,
)
from bias_core.ui.study.fields import Field, Groups, PlainFields, read_field, read_plain
from bias_core.ui.study.own_pictures import DRAWN, OWN, Arrived, OwnPictures, get_picture_choice
from bias_core.ui.study.presets import HasStudies
from bias_core.ui.study.shown_report import build_shown_report
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor
from bias_core.values import Setting, declared_settings, is_nothing, option_values

Updates = dict[Any, Any]
_FIELDS = declared_settings(Arm)
_AS_ABOVE = "Empty: as above"
_WIDE = ("model", "template")
_HINTS: Mapping[str, str] = {
    "name": "Optional; default: what differs",
    "template": "For example “{}, in watercolour”; {nurse=person} replaces a word",
    "rewrite": "off, own, fair, or an instruction; empty: as above",
}
CONDITIONS = ("fair", "published", "extreme")
PRESETS: Mapping[str, tuple[Arm, ...]] = {
    "The three conditions": tuple(Arm(condition=name) for name in CONDITIONS),
    "With and without a fairness request in the prompt": (
        Arm(name="plain"),
        Arm(name="intervened", template="{}, if all individuals can be shown irrespective of their gender"),
    ),
}
"""Arms for any study, by button text."""


class ArmsForm:
    """Presets, the list of arms (empty if there is only the form above) and a form to add one."""

    chosen: Any

    def __init__(self, key: str, services: Services) -> None:
        self.key, self.services = key, services
        self.presets: list[Any] = []

    def build_presets(self) -> None:
        with gr.Row(elem_classes="chips"):
            self.presets = [
                gr.Button(name, size="sm", min_width=0, scale=0, elem_id=f"{self.key}-arms-preset-{i}")
                for i, name in enumerate(PRESETS)
            ]

    def build(self) -> None:
        key = self.key
        self.chosen = gr.State(())
        self.listed = gr.HTML(arm_list_html(()), js_on_load=script("arms"), elem_id=f"{key}-arms-list")
        label = "Your own pictures (zip), instead of drawing"
        self.images = gr.File(label=label, file_types=[".zip"], height=110, elem_id=f"{key}-arm-images")
        of_arm = script("arm_fields", list=f"{key}-arms-list", conditions=self._conditions())
        self.fields = gr.HTML(self._fields_html(key), js_on_load=of_arm, elem_id=f"{key}-arm-fields")
        self.status = gr.HTML(elem_id=f"{key}-arms-status")

    def _conditions(self) -> dict[str, dict[str, str]]:
        """Conditions of each model with their descriptions; "" is the model above."""
        lines, models = self.services.catalogue.conditions, {info.id: info for info in self.services.models()}
        models[""] = self.services.model_info(StudySettings().model)
        return {key: {name: lines[name] for name in info.conditions} for key, info in models.items() if info.conditions}

    def _fields_html(self, key: str) -> str:
        """Plain HTML fields of an arm; Gradio's would add two hundred components to every page."""
        conditions = [(line, name) for name, line in self._conditions()[""].items()]
        menus = {"model": model_choices(self.services), "condition": conditions}
        fields = [
            Field(name=name, setting=setting, hint=_HINTS.get(name, _AS_ABOVE), menu=menus.get(name, ()),
                  is_wide=name in _WIDE)
            for name, setting in _FIELDS.items() if name not in OF_PICTURES
        ]  # fmt: skip
        return render("arm_fields", key=key, fields=fields)

    def outputs(self) -> list[Any]:
        return [self.chosen, self.listed, self.status]

    def show(self, arms: Sequence[Arm]) -> Updates:
        return {self.chosen: tuple(arms), self.listed: arm_list_html(arms), self.status: ""}

    def wire(self, model: Any) -> None:
        """Wire adding, removing and presets, which use the form's ``model``, and the conditions of an arm's model."""
        shown = self.outputs()
        self.fields.submit(self.on_add, [self.chosen, self.images], [*shown, self.images], **messages.QUIET)
        self.listed.select(self.on_remove, self.chosen, shown, **messages.QUIET)
        if self.presets:
            gr.on([button.click for button in self.presets], self.on_preset, model, shown, **messages.EACH)
        self.fields.select(self.on_model, None, self.status, **messages.EACH)

    def on_add(self, chosen: tuple[Arm, ...], images: str | None, event: gr.EventData) -> Updates:
        """Add the arm of the form; empty fields are as the settings above."""
        with messages.user_errors() as problem:
            written = event.arm if isinstance(event.arm, dict) else {}
            texts = {name: str(written.get(name) or "").strip() for name in _FIELDS} | {"images": images or ""}
            arm = Arm(**{name: _FIELDS[name].read(text) for name, text in texts.items() if text})
            return self.show(added(chosen, arm)) | {self.images: None}
        return {self.status: messages.error_html(problem.message)}

    def on_remove(self, chosen: tuple[Arm, ...], event: gr.EventData) -> Updates:
        remaining_arms = [arm for i, arm in enumerate(chosen) if i != int(event.remove)]
        return self.show(() if all(replace(arm, name="") == Arm() for arm in remaining_arms) else remaining_arms)

    def on_preset(self, name: str, event: gr.EventData) -> Updates:
        with messages.user_errors() as problem:
            arms = tuple(PRESETS.values())[self.presets.index(event.target)]
            return self.show(check_arm_conditions(arms, self.services.model_info(name)))
        return {self.status: messages.error_html(problem.message)}

    def on_model(self, event: gr.EventData) -> str:
        with messages.user_errors() as problem:
            hint = model_hint(self.services, str(event.name or ""))
            return "" if hint == HINT else messages.done_html(hint)
        return messages.error_html(problem.message)


def arm_list_html(chosen: Sequence[Arm]) -> str:
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
    """The arms with one more; InvalidInput if there are too many, or it is empty or a duplicate."""
    if len(chosen) >= MOST_ARMS:
        raise InvalidInput(f"a run compares at most {MOST_ARMS} arms, including the settings above")
    if replace(arm, name="") == Arm():
        raise InvalidInput("fill in what differs in this arm: its model, condition, prompt or sampling")
    if replace(arm, name="") in [replace(chosen_arm, name="") for chosen_arm in chosen]:
        raise InvalidInput("this arm is already listed: change its model, condition, prompt or sampling")
    return (*(chosen or (Arm(),)), arm)


def check_arm_conditions(arms: tuple[Arm, ...], info: ModelInfo) -> tuple[Arm, ...]:
    """The arms; InvalidInput if the model lacks one of their conditions."""
    absent = [arm.condition for arm in arms if arm.condition and arm.condition not in info.conditions]
    if absent:
        raise InvalidInput(f"{info.name} has no condition {absent[0]!r}: choose a model of the calibration world above")
    return arms


def split_first_arm(settings: StudySettings) -> tuple[StudySettings, tuple[Arm, ...]]:
    """Settings for a form, with the first arm's own values in it, and their arms.

    Other arms that relied on a changed setting now state it themselves.

    >>> fair = StudySettings(arms=(Arm(condition="fair"), Arm(guidance_scale=2.0)))
    >>> shown, arms = split_first_arm(fair)
    >>> shown.condition, arms[0].condition, arms[1].condition
    ('fair', None, 'published')
    """
    if not settings.arms:
        return settings, ()
    first, *other_arms = settings.arms
    shared = [name for name in _FIELDS if name not in ("name", "template")]
    own_values = {name: value for name in shared if (value := getattr(first, name)) is not None}
    before = {name: getattr(settings, name) for name in own_values}
    adjusted_arms = [replace(arm, **{k: v for k, v in before.items() if getattr(arm, k) is None}) for arm in other_arms]
    return replace(settings, arms=(), **own_values), (Arm(name=first.name, template=first.template), *adjusted_arms)


FORM: Mapping[str, Setting] = {
    setting.key: setting
    for setting in declared_settings(StudySettings).values()
    if setting.name
    not in ("options", "arms", "protocol", "prompts_from", "copies", "drawn_with")  # have their own places
}
"""Settings in the form by component name."""
FIELDS = ("study", *FORM)
"""Names of the form's components; besides them it has the options of the study, the arms, and the fields of the
visitor's own words, named :data:`OWN_INPUT` plus their paper and name."""
OWN_INPUT, ARMS_INPUT, USE_OWN, PLAIN = "own.", "arms", "use_own", "plain"
CLASSIFIER = ("encoder", "judge", "force")
FILES = ("images", "labels")
OF_PICTURES = ("images", "prompts_from", "drawn_with")
"""Settings of an arm of own pictures."""
MENUS = ("percent", "model", "condition", *CLASSIFIER, *FILES)  # of Gradio; the others are plain fields
_CHOICES = {"model": model_choices, "encoder": encoder_choices, "judge": judge_choices}
_SECRET = "t2i-bias-explorer-settings-1"  # what a browser stores is not secret
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "model": {"info": HINT, "allow_custom_value": True, "scale": 4, "min_width": 220},
    "condition": {"info": CONDITION_HINT, "scale": 3, "min_width": 150},
    "encoder": {"allow_custom_value": True, "min_width": 220},
    "judge": {"allow_custom_value": True, "min_width": 220, "info": JUDGE_HINT},
    "force": {"label": FORCE_LABEL, "info": FORCE_HINT, "min_width": 240},
    "percent": {
        "label": "% of the full size", "minimum": 1, "maximum": 100, "step": 1, "info": None, "scale": 3,
        "min_width": 200,
    },
    "run": {"variant": "primary", "scale": 0, "min_width": 200},
    "stop": {"variant": "stop", "visible": False, "scale": 0, "min_width": 200},
}  # fmt: skip
"""Component arguments that differ from the setting's declaration."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Parts of a layout in a row or column, under a heading ("group"), or in a fold that a run closes."""

    parts: "Layout"
    kind: Literal["row", "column", "group", "fold"]
    name: str = ""  # of its component
    title: str = ""  # of a group or fold
    draws: bool = False  # hidden while the pictures are the visitor's own
    look: Mapping[str, Any]  # arguments of its component


Layout = Sequence[Box | str]
"""Settings, and the other parts in :attr:`StudyForm.builders`, by name and in order."""
_BOXES = {"row": gr.Row, "column": gr.Column, "group": gr.Column, "fold": gr.Accordion}
_BOX_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "group": {"elem_classes": "option-group"}, "fold": {"open": False, "elem_classes": "more"},
}  # fmt: skip


def row(*parts: Box | str, **look: Any) -> Box:
    return Box(kind="row", parts=parts, look=look)


def line(*parts: Box | str, elem_classes: str = "line") -> Box:
    return row(*parts, equal_height=True, elem_classes=elem_classes)


def hidden_with_pictures(*parts: Box | str, **look: Any) -> Box:
    """Return a column of parts that are hidden with own pictures."""
    return Box(kind="column", parts=parts, draws=True, look=look)


def group(title: str, *parts: Box | str, draws: bool = False, **look: Any) -> Box:
    return Box(kind="group", title=title, parts=parts, draws=draws, look=look)


def fold(name: str, title: str, *parts: Box | str, **look: Any) -> Box:
    return Box(kind="fold", name=name, title=title, parts=parts, look=look)


_PLAIN_FIELDS: Mapping[str, Sequence[str]] = {
    "Prompt": ("negative", "rewrite", "rewriter"),
    "Sampling": ("seed", "steps", "guidance", "size", "sampler", "stop_within", "stop_when_clear"),
    "Classifier": ("further_encoders", "confidence"),
}
"""Plain fields of every study, by their heading."""
_DRAWING = ("Prompt", "Sampling")  # headings of those that pictures of one's own do not need


_PLAIN_HINTS = {"stop_within": "10: stop once every interval is at most 20 points wide (±10); empty: draw all pictures"}


def plain_groups(extra: Mapping[str, Sequence[Setting]] | None = None) -> Groups:
    """Return the plain fields of every study, with ``extra`` settings, by their heading."""
    extra = extra or {}
    named = {name for names in _PLAIN_FIELDS.values() for name in names}
    extra = {**extra, "Sampling": [*(setting for key, setting in FORM.items() if key not in {*MENUS, *named}),
                                 *extra.get("Sampling", ())]}  # fmt: skip
    groups = {
        title: [*(FORM[name] for name in _PLAIN_FIELDS.get(title, ())), *extra.get(title, ())]
        for title in dict.fromkeys((*_PLAIN_FIELDS, *extra))
    }
    return {
        title: [
            Field(name=setting.key, setting=setting, hint=_PLAIN_HINTS.get(setting.key, ""), draws=title in _DRAWING)
            for setting in settings
        ]
        for title, settings in groups.items()
    }


def read_settings(form: Mapping[str, Any], design: Design) -> StudySettings:
    """Return the settings of the form, with the design's options; InvalidInput quotes an invalid value."""
    given = {
        setting.name: value
        for key, setting in FORM.items()
        if (value := read_field(setting, form.get(key))) != setting.default
    }  # unchanged fields leave the study its own default
    options = {
        name: read_field(setting, form[OPTION + name])
        for name, setting in option_settings(design).items()
        if not is_nothing(form.get(OPTION + name))
    }
    return StudySettings(**given, options=options)


def pass_values_by_name(components: Mapping[str, Any], handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler whose last arguments, the values of these components, ``handler`` gets as one mapping.

    The plain fields are in it with their own names; none can stand for a component.
    """

    def split(given: Sequence[Any]) -> list[Any]:
        n_before = len(given) - len(components)
        named = dict(zip(components, given[n_before:], strict=True))
        return [*given[:n_before], read_plain(named.pop(PLAIN, "")) | named]

    def steps(*given: Any) -> Iterator[Any]:
        yield from handler(*split(given))

    return steps if isgeneratorfunction(handler) else lambda *given: handler(*split(given))


def build_take(key: str) -> dict[str, Any]:
    """A sentence to quote, and ways to reproduce the numbers."""
    parts: dict[str, Any] = {}
    look: dict[str, Any] = {"open": False, "elem_classes": "more fold", "elem_id": f"{key}-command"}
    with gr.Accordion("Quote and reproduce", **look) as parts["take_it"]:
        copyable: dict[str, Any] = {"interactive": False, "buttons": ["copy"], "elem_classes": "code"}
        parts["claim"] = gr.Textbox(
            label="Sentence to quote", lines=2, max_lines=8, **copyable | {"elem_classes": "quote"}
        )
        parts["shell"] = gr.Textbox(label="Command line", lines=2, max_lines=8, **copyable)
        parts["python"] = gr.Textbox(label="Python", lines=6, max_lines=20, **copyable)
        parts["link"] = gr.Textbox(label="Link to these settings", lines=1, max_lines=3, **copyable)
    parts["file"] = gr.DownloadButton("Download", elem_id=f"{key}-file", elem_classes="hidden-file")
    return parts


class StudyForm(HasStudies):
    """The form of a tab: its components by the names of their values, their updates, and the requested run."""

    first_percent: ClassVar[int] = 10  # percent of the full size for a first click
    has_concept: ClassVar[bool] = False  # True if it names one that all pictures of a run may show
    layout: ClassVar[Layout] = ()
    looks: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # component arguments of this layout alone
    remembered: ClassVar[Sequence[str]] = ("model", "condition", "encoder")  # by the browser

    def __init__(self, services: Services) -> None:
        self.services = services
        self.designs = {name: find_design(name) for name in self.studies}
        self.form: dict[str, Any] = {}
        self.plain = PlainFields(self.key)
        self.arms = ArmsForm(self.key, services)
        self.parts: dict[str, Any] = {}
        self.form_folds: list[Any] = []  # closed when a run starts; their values stay
        self.own_pictures = OwnPictures(self.key, services, has_concept=self.has_concept)
        self.drawing_parts: list[Any] = []  # hidden with own pictures

    def build_memory(self) -> None:
        """Remember the shown report and the browser's last choices; outside of tabs, or Gradio does not read them."""
        self.parts["report"] = build_shown_report(self.key, self.services)
        self.parts["remembered"] = gr.BrowserState({}, storage_key=f"t2i-bias-{self.key}", secret=_SECRET)

    def element(self, name: str) -> str:
        return f"{self.key}-{name}"

    # What the form has, of each place: a tab, or one of the papers that share a page.

    @property
    def keys(self) -> Sequence[str]:
        """The names of its places in addresses and in the queue of runs."""
        return (self.key,)

    def get_study_key(self, name: str) -> str:
        """Return the place of a study; "" if none has it."""
        return self.key

    def get_options(self, study: str) -> Mapping[str, Setting]:
        return {}

    def get_field_groups(self, study: str) -> Groups:
        return plain_groups()

    def first_values(self, key: str) -> dict[str, Any]:
        """Return the values of a place's form before any edit."""
        return self.get_form_values(self.studies[0], StudySettings()) | {"percent": self.first_percent}

    def get_form_values(self, study: str, settings: StudySettings) -> dict[str, Any]:
        """Return the values of the form for these settings of a study; files are not restored."""
        values = {
            key: setting.format_value(getattr(settings, setting.name))
            for key, setting in FORM.items()
            if key not in FILES
        }
        arms: dict[str, Any] = {ARMS_INPUT: settings.arms, **dict.fromkeys(FILES)}
        return {**values, "study": study, **arms} | self.option_values(study, settings.options)

    def option_values(self, study: str, chosen: Any = None) -> dict[str, Any]:
        """Return the options of a study as its form shows them; values in ``chosen`` override its defaults."""
        given = option_values(chosen or {})
        return {
            name: setting.format_value(setting.read(given.get(setting.name, setting.default)))
            for name, setting in self.get_options(study).items()
        }

    def last_choices(self, key: str, remembered: Any) -> dict[str, Any]:
        """Return the browser's last choices in a place's form; {} if it has none that can be read."""
        last = (remembered or {}).get(key)
        values = last.items() if isinstance(last, dict) else ()
        return {
            name: value for name, value in values if name in self.remembered and isinstance(value, str | int | float)
        }

    def filled_values(self, key: str, last: Mapping[str, Any], link: Link) -> dict[str, Any]:
        """Return the values of a place's form with the ``last`` ones, and with those of the address."""
        values = self.first_values(key) | dict(last)
        if link.tab == key and link.values:
            values |= {name: value for name, value in link.values.items() if name in FIELDS}
            if "study" in link.values or "options" in link.values:
                values |= self.option_values(values["study"], link.values.get("options"))
            way = {name: link.values[name] for name in ("model", "condition") if name in link.values}
            above, arms = split_first_arm(StudySettings(**way, arms=link.values.get("arms", ())))
            shown = {"model": above.model, "condition": above.condition} if arms else {}
            values |= {"condition": way.get("condition", "published"), ARMS_INPUT: arms, **shown}
        return values

    # Its layout.

    @cached_property
    def _first_values(self) -> dict[str, Any]:
        return self.first_values(self.keys[0])

    def build_layout(self, layout: Layout) -> None:
        for part in layout:
            if isinstance(part, Box):
                self._build_box(part)
            elif part in self.builders:
                self.builders[part]()
            else:
                self.form[part] = self.build_field(part)

    def _build_box(self, box: Box) -> None:
        look = {"elem_id": self.element(box.name)} if box.name else {}
        look |= {"label": box.title} if box.kind == "fold" else {}
        with _BOXES[box.kind](**{**look, **_BOX_LOOKS.get(box.kind, {}), **box.look}) as built:
            if box.kind == "group":
                gr.HTML(messages.heading_html(box.title))
            self.build_layout(box.parts)
        self.parts |= {box.name: built} if box.name else {}
        self.form_folds += [built] if box.kind == "fold" else []
        self.drawing_parts += [built] if box.draws else []

    def get_look(self, name: str, **usual: Any) -> dict[str, Any]:
        """Return the arguments of a part's component."""
        return {"elem_id": self.element(name), **usual, **_LOOKS.get(name, {}), **self.looks.get(name, {})}

    def build_field(self, name: str) -> Any:
        """Build the component of a setting with its first value."""
        setting, values = {**FORM, **self.get_options(self.studies[0])}[name], self._first_values
        look = self.get_look(name, value=values[name], label=setting.label, info=setting.info)
        if name == "percent":
            return gr.Slider(**look)
        if name == "condition":
            return gr.Dropdown(condition_choices(self.services, values["model"]), **look)
        if (menu := _CHOICES.get(name)) is not None:
            return gr.Dropdown(menu(self.services), **look)
        numbers: dict[str, Any] = {"precision": 0} if setting.kind is int else {}
        return {bool: gr.Checkbox, int: gr.Number}.get(setting.kind, gr.Textbox)(**look, **numbers)

    @property
    def builders(self) -> dict[str, Callable[[], Any]]:
        """Functions that build the parts of a layout that are no settings."""
        note, count = ({"elem_classes": "quiet", "elem_id": self.element(name)} for name in ("model-note", "count"))
        return {
            "source": self.own_pictures.build_choice,
            "upload": self.own_pictures.build_upload,
            "model_note": lambda: self.parts.update(model_note=gr.HTML(**note)),
            "count": lambda: self.parts.update(count=gr.HTML(js_on_load=script("edits"), **count)),
            "plain": lambda: self.plain.build(self.get_field_groups(self._first_values["study"]), self._first_values),
            "arm_presets": self.arms.build_presets,
            "arms": self.arms.build,
        }

    # Its values.

    def inputs(self) -> dict[str, Any]:
        """Return the form's components by name, with the arms."""
        if not self.form:
            return {}
        return {**self.form, "images": self.own_pictures.images, PLAIN: self.plain.values, ARMS_INPUT: self.arms.chosen}

    def values(self) -> dict[str, Any]:
        values = {name: part.value for name, part in self.inputs().items()}
        return read_plain(values.pop(PLAIN)) | values

    def design_and_settings(self, values: Mapping[str, Any]) -> tuple[Design, StudySettings]:
        """Return the design and settings in the form; InvalidInput if they are invalid."""
        raise InvalidInput("this page has no form")

    def show_settings(self, design: Design, settings: StudySettings) -> Updates:
        above, arms = split_first_arm(settings)
        values = self.get_form_values(design.name, above) | {ARMS_INPUT: arms}
        count = self.describe_size(settle(design, settings))  # no listener sees arms in a closed fold
        return self.show_source(DRAWN) | self.show_values(values) | {self.parts["count"]: count}

    def fill(self, values: Mapping[str, Any]) -> Updates:
        return self.show_values(values) | {self.parts["count"]: self.describe_form_size({**self.values(), **values})}

    def show_values(self, values: Mapping[str, Any]) -> Updates:
        """Return the form with these values, which may be wrong."""
        shown = {part: values[name] for name, part in self.form.items() if name in values}
        shown |= self.plain.show(self.get_field_groups(values["study"]), values) | self.arms.show(
            values[ARMS_INPUT] or ()
        )
        with messages.user_errors():  # a model that is none, of which the run tells
            shown |= self._show_model(str(values["model"]), str(values["condition"] or ""))
        return shown

    def _show_model(self, name: str, condition: str) -> Updates:
        is_embedded = self.services.model_info(name).embedded  # whoever chooses it reads its note
        note = "" if is_embedded else describe_model(self.services, name)
        return {self.form["condition"]: self._conditions(name, condition), self.parts["model_note"]: note}

    def wire_form(self) -> None:
        """Wire the events that change the form, in every layout."""
        parts, named = self.parts, self.inputs()
        self.listen([self.form["model"].input], self.on_model, ["model", "condition"],
                    [self.form["condition"], parts["model_note"], parts["status"]])  # fmt: skip
        parts["count"].value = self.describe_form_size({**self.values(), **self._first_values})
        self.count = (
            pass_values_by_name(self.inputs(), self.on_count),
            [parts["visitor"], *self.inputs().values()],
            parts["count"],
        )
        parts["count"].edit(*self.count, **messages.LATEST)
        chosen, kept = [self.form[name] for name in self.remembered], [parts["remembered"]]
        study = {"study": self.form["study"]} if "study" in self.form else {}
        named = study | dict(zip(self.remembered, chosen, strict=True))
        remember = pass_values_by_name(named, self.on_remember), [*kept, *named.values()], kept
        self.on_any("input", chosen, *remember)
        self.wire_pictures()

    def listen(
        self, triggers: Sequence[Any], handler: Callable[..., Any], names: Iterable[str], outputs: Any, **options: Any
    ) -> Any:
        """Let a handler answer these events with the values of some of the form's components."""
        named = {name: part for name, part in self.inputs().items() if name in names}
        return gr.on(
            [*triggers], pass_values_by_name(named, handler), [*named.values()], outputs, **messages.LATEST | options
        )

    def on_model(self, values: Mapping[str, Any]) -> Updates:
        name = str(values["model"])
        with messages.user_errors() as problem:
            menu = {self.form["condition"]: self.conditions_after(name, values["condition"])}
            return menu | {self.parts["model_note"]: describe_model(self.services, name), self.parts["status"]: ""}
        return {self.parts["model_note"]: messages.error_html(problem.message)}

    def on_count(self, visitor: Visitor, values: Mapping[str, Any]) -> str:
        """Keep what was typed, and return the number of pictures in words; "" for invalid settings."""
        if key := self.get_study_key(values.get("study", "")):
            visitor.typed[key] = dict(values)
        return self.describe_form_size(values)

    def on_remember(self, remembered: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the browser remembers, with these choices for the place of the study."""
        kept = {key: last for key, last in (remembered or {}).items() if key in self.keys}
        return kept | {self.get_study_key(values.get("study", "")): {name: values[name] for name in self.remembered}}

    def on_labels(self, values: Mapping[str, Any]) -> str:
        """Show what is understood of a file of answers, and which of them match a picture of the run."""
        if not values.get("labels"):
            return ""
        with messages.user_errors() as problem:
            request = self.read_request(values)
            if request.answers is None:
                return ""
            answers = lay_out(request, self.services, measure=False, estimate=True).answers  # draws nothing
            look = (request.answers if answers is None else answers).attrs[LOOK]
            return render("answers_look", lines=[*look.lines()])
        return messages.error_html(problem.message)

    def form_outputs(self) -> list[Any]:
        if not self.form:
            return []
        notes = [self.parts[name] for name in ("model_note", "count")]
        shown = [*self.form.values(), *self.plain.outputs(), *self.arms.outputs(), *self.source_outputs()]
        return list(dict.fromkeys([*shown, *notes]))

    def source_outputs(self) -> list[Any]:
        return [self.own_pictures.source, self.own_pictures.box, self.own_pictures.images, *self.drawing_parts]

    def show_source(self, source: str, arrived: Arrived | None = None) -> Updates:
        """Show the model and its settings, or the upload in their place."""
        is_own, pictures = source == OWN, self.own_pictures
        return {
            pictures.source: source,
            pictures.box: gr.update(visible=is_own),
            pictures.images: get_picture_choice(arrived) if is_own else None,
            **{part: gr.update(visible=not is_own) for part in self.drawing_parts},
        }

    def on_source(self, source: str, arrived: Arrived | None) -> Updates:
        """Change the source of pictures; own ones are all measured."""
        size = {self.form["percent"]: 100 if source == OWN else self.first_percent} if "percent" in self.form else {}
        return self.show_source(source, arrived) | size

    def wire_pictures(self) -> None:
        pictures, size = self.own_pictures, [self.form["percent"]] if "percent" in self.form else []
        shown = [*self.source_outputs(), *size]
        changed = pictures.source.input(self.on_source, [pictures.source, pictures.arrived], shown, **messages.LATEST)
        arrived = pictures.wire(self.parts["visitor"])
        if "labels_look" in self.parts:
            given = [self.form["labels"].upload, self.form["labels"].clear, self.parts["count"].submit]
            named = self.inputs()
            look = pass_values_by_name(named, self.on_labels), [*named.values()], self.parts["labels_look"]
            gr.on(given, *look, **messages.LATEST)
            for event in arrived:
                event.then(*look, **messages.QUIET)
        for event in (changed, *arrived):
            event.then(*self.count, **messages.QUIET)

    def without_notes(self) -> Updates:
        """Clear the notes on model and size, because a refused run says the same."""
        return {self.parts[name]: "" for name in ("model_note", "count") if name in self.parts}

    def on_any(self, event: str, components: Sequence[Any], fn: Any, inputs: Any, outputs: Any, **options: Any) -> Any:
        """One quiet listener for an event of several components; many listeners would slow the page's start.

        Presses during an earlier answer count too.
        """
        triggers = [getattr(component, event) for component in components]
        return gr.on(triggers, fn, inputs, outputs, **messages.EACH | options)

    def describe_form_size(self, values: Mapping[str, Any]) -> str:
        """The number of pictures for these settings, in words; "" for invalid settings."""
        with messages.user_errors():
            request = self.read_request(values)
            return "" if request.settings.images and not request.arms else self.describe_size(request)
        return ""

    def describe_size(self, request: Run) -> str:
        """The number of pictures that a run draws, in words."""
        with messages.user_errors():
            study, arms = request.study, request.arms
            drawn = [arm for arm in request.each if not (arm.settings.images and arms)]
            shots = [shot for arm in drawn for shot in study.shots(study.settled(arm.settings, self.services))]
            n, prompts = sum(shot.n for shot in shots), len({shot.prompt for shot in shots})
            with messages.user_errors() as too_many:
                check_number(request, self.services.settings)
            count = f"{n:,} pictures of {prompts:,} prompt{'s' * (prompts > 1)}" if n else ""
            if arms:
                brought = len(arms) - len(drawn)
                beside = f", {brought} of them with uploaded pictures" if brought else ""
                limit = f"{self.services.settings.max_images:,} pictures in {MOST_ARMS} arms"
                count += f" in {len(arms)} arms{beside}; a run has at most {limit}"
            count += "".join(f"; {words}" for words in self._requests(drawn))
            count += "".join(f"; {note}" for note in self._cut_prompts(drawn, [shot.prompt for shot in shots]))
            return render("status", kind="warning", text=too_many.message) if too_many else count
        return ""

    def _cut_prompts(self, arms: Sequence[Run], prompts: Sequence[str]) -> list[str]:
        """Return notes on what the models of the arms do not read of the prompts."""
        notes = dict[str, None]()
        for settings in (arm.settings for arm in arms):
            if not settings.images and not hosted_name(settings.model):
                version, template = f"{settings.model} form", treatment(settings)
                model = self.services.text_to_image(settings.model)
                texts = [treated(prompt, template) for prompt in prompts]
                notes |= dict.fromkeys(cut_notes(model, version, texts, self.services))
        return list(notes)

    def _requests(self, arms: Sequence[Run]) -> list[str]:
        """The largest number of requests per hosted model; stored pictures are not requested again."""
        n_requests: Counter[str] = Counter()
        for arm in arms:
            if not arm.settings.images and hosted_name(arm.settings.model):
                n_requests[arm.settings.model] += sum(shot.n for shot in arm.requested_shots)
        return [f"up to {request_words(n, self.services.model_info(name))}" for name, n in n_requests.items()]

    def read_request(self, values: Mapping[str, Any]) -> Run:
        """Return the complete settings of the form; InvalidInput if they are invalid."""
        return settle(*self.design_and_settings(values))

    def checked(self, values: Mapping[str, Any]) -> Run:
        """:meth:`read_request`; too many pictures are refused before the run enters the queue."""
        request = self.read_request(values)
        check_number(request, self.services.settings)
        return request

    def choose_model(self, name: str) -> Updates:
        """Return the form with a model, in its usual condition."""
        return {self.form["model"]: name, **self._show_model(name, "published")}

    def conditions_after(self, model: str, condition: str | None) -> Any:
        """Update the condition menu for another model; the current choice stays if that model has it."""
        menu = self._conditions(model, condition or "")
        return {key: value for key, value in menu.items() if key != "value" or value != condition}

    def _conditions(self, model: str, condition: str) -> Any:
        info = self.services.model_info(model)
        chosen = condition if condition in info.conditions else next(iter(info.conditions), None)
        return gr.update(choices=condition_choices(self.services, model), value=chosen, visible=bool(info.conditions))
