"""The form of the Compare tab: what the arms share and in what they differ, read as settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.errors import InvalidInput
from bias_core.studies.catalogue import load_attribute_sets, suggest_set
from bias_core.studies.compare_types import MOST_ARMS, Arm, CompareSettings
from bias_core.ui.form import HEADERS, attribute_rows, read_attributes
from bias_core.ui.model_menu import HINT, encoder_choices, force_box, model_choices
from bias_core.ui.study_form import as_number, as_text, as_whole, is_given

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.catalogue import AttributeSet

Updates = dict[Any, Any]
ARM_FIELDS = ("model", "condition", "template", "negative", "guidance", "steps")
SHARED = ("concept", "n_images", "differs", "n_arms", *ARM_FIELDS)
REST = (
    "attributes",
    "attribute_a",
    "attribute_b",
    "n_attribute_images",
    "encoder",
    "seed",
    "confidence",
    "force",
)
FIELDS = (
    *SHARED,
    *(f"{name}_{k}" for k in range(MOST_ARMS) for name in ("name", *ARM_FIELDS)),
    *REST,
)
"""The form's values in the order in which handlers receive them."""
DIFFERS: Mapping[str, tuple[str, ...]] = {
    "Condition": ("condition",),
    "Model": ("model", "condition"),
    "Prompt": ("template",),
    "Guidance, steps, negative prompt": ("guidance", "steps", "negative"),
    "Anything": ARM_FIELDS,
}
"""In what arms may differ, and the fields that each arm then has of its own."""
EMPTY = tuple(f"{name}{end}" for name in ("guidance", "steps") for end in ("", "_0", "_1", "_2", "_3"))
"""Numbers that are empty at first; Gradio shows a 0 in their place until it is told once more."""
LETTERS = "ABCD"
INTERVENTION = "a photo of a {}, if all individuals can be a {} irrespective of their gender"
_DEFAULT = Arm()


def read_form(values: Sequence[Any]) -> CompareSettings:
    """The settings that the form asks for.

    Raises
    ------
    InvalidInput
        A number that is none, or an attribute row with a hole; the message quotes it.
    """
    form = dict(zip(FIELDS, values, strict=True))
    own = DIFFERS.get(str(form["differs"]), ARM_FIELDS)
    n_arms = as_whole(form["n_arms"], "number of arms")
    return CompareSettings(
        concept=as_text(form["concept"]),
        arms=tuple(_read_arm(form, k, own) for k in range(n_arms)),
        attributes=read_attributes(form["attributes"] or []),
        attribute_a=as_text(form["attribute_a"]),
        attribute_b=as_text(form["attribute_b"]),
        encoder=as_text(form["encoder"]),
        n_images=as_whole(form["n_images"], "number of seeds"),
        n_attribute_images=as_whole(form["n_attribute_images"], "number of pictures per word"),
        seed=as_whole(form["seed"], "seed"),
        confidence=as_number(form["confidence"], "confidence") / 100,
        force=bool(form["force"]),
    )


def _read_arm(form: Mapping[str, Any], k: int, own: Sequence[str]) -> Arm:
    value = {name: form[f"{name}_{k}" if name in own else name] for name in ARM_FIELDS}
    steps, guidance = value["steps"], value["guidance"]
    return Arm(
        name=as_text(form[f"name_{k}"]),
        model=as_text(value["model"]),
        condition=as_text(value["condition"]),
        template=as_text(value["template"]),
        negative_prompt=as_text(value["negative"]),
        guidance_scale=as_number(guidance, "guidance") if is_given(guidance) else None,
        num_inference_steps=as_whole(steps, "denoising steps") if is_given(steps) else None,
    )


def form_values(settings: CompareSettings) -> dict[str, Any]:
    """What the form shows for these settings."""
    differing = {name for name in ARM_FIELDS if len({_shown(arm)[name] for arm in settings.arms}) > 1}
    differs = next(title for title, names in DIFFERS.items() if differing <= set(names))
    values: dict[str, Any] = {
        "concept": settings.concept,
        "n_images": settings.n_images,
        "differs": differs,
        "n_arms": len(settings.arms),
        **_shown(settings.arms[0]),
        "attributes": attribute_rows(settings.attributes) or [[""] * len(HEADERS)],
        "attribute_a": settings.attribute_a,
        "attribute_b": settings.attribute_b,
        "n_attribute_images": settings.n_attribute_images,
        "encoder": settings.encoder,
        "seed": settings.seed,
        "confidence": round(100 * settings.confidence),
        "force": settings.force,
    }
    for k in range(MOST_ARMS):
        arm = settings.arms[k] if k < len(settings.arms) else settings.arms[-1]
        name = arm.name if k < len(settings.arms) else ""
        values |= {f"name_{k}": name} | {f"{key}_{k}": value for key, value in _shown(arm).items()}
    return values


def _shown(arm: Arm) -> dict[str, Any]:
    return {
        "model": arm.model,
        "condition": arm.condition,
        "template": arm.template,
        "negative": arm.negative_prompt,
        "guidance": arm.guidance_scale,
        "steps": arm.num_inference_steps,
    }


def shown_fields(differs: str, n_arms: Any) -> dict[str, bool]:
    """Which fields and rows are visible."""
    own = DIFFERS.get(differs, ARM_FIELDS)
    n = int(n_arms or 2)
    shown = {name: name not in own for name in ARM_FIELDS}
    shown |= {f"{name}_{k}": name in own for k in range(MOST_ARMS) for name in ARM_FIELDS}
    return shown | {f"row_{k}": k < n for k in range(MOST_ARMS)}


def build_form(key: str, first: CompareSettings, services: Services) -> dict[str, Any]:
    """Every component by its name in ``FIELDS``, the rows of the arms, and the menu of attribute sets."""
    form: dict[str, Any] = {}
    values = form_values(first)
    shown = shown_fields(values["differs"], values["n_arms"])
    _build_what(key, form, first)
    form["differs"] = gr.Radio(
        list(DIFFERS), value=values["differs"], label="In what do the arms differ?", elem_id=f"{key}-differs"
    )
    with gr.Row(equal_height=True, elem_classes="line"):
        _build_arm_fields(form, "", values, shown, services)
    for k in range(MOST_ARMS):
        with gr.Row(visible=shown[f"row_{k}"], elem_classes="line arm", elem_id=f"{key}-arm-{k}") as row:
            form[f"name_{k}"] = gr.Textbox(
                values[f"name_{k}"], label=f"Arm {LETTERS[k]}", info="Its name, if you like",
                scale=2, min_width=150, max_lines=1, elem_id=f"{key}-name-{k}",
            )  # fmt: skip
            _build_arm_fields(form, f"_{k}", values, shown, services)
            _build_sampling(form, f"_{k}", values, shown)
        form[f"row_{k}"] = row
    with gr.Accordion(
        "Attributes and their sentences, association, sampling, reader",
        open=False,
        elem_classes="more",
        elem_id=f"{key}-more",
    ):
        _build_more(key, form, values, services)
        with gr.Row():
            _build_sampling(form, "", values, shown)
    return form


def _build_what(key: str, form: dict[str, Any], first: CompareSettings) -> None:
    """What is drawn and looked for, how often, and in how many ways."""
    sets = load_attribute_sets()
    with gr.Row(equal_height=True, elem_classes="line"):
        form["concept"] = gr.Textbox(
            first.concept, label="Concept", info="Who or what every arm draws", elem_id=f"{key}-concept",
            placeholder="for example: doctor", scale=4, min_width=220, max_lines=1,
        )  # fmt: skip
        form["set"] = gr.Dropdown(
            [(item.title, item.key) for item in sets], value=suggest_set(first.concept, sets).key,
            label="Attributes", info="What is looked for in the pictures", elem_id=f"{key}-set", scale=3,
            min_width=200,
        )  # fmt: skip
        form["n_images"] = gr.Number(
            first.n_images, label="Seeds", info="Pictures of each arm", precision=0, scale=2, min_width=130,
            elem_id=f"{key}-seeds",
        )  # fmt: skip
        form["n_arms"] = gr.Dropdown(
            list(range(2, MOST_ARMS + 1)), value=len(first.arms), label="Arms", info="Ways to draw it",
            elem_id=f"{key}-arms", scale=2, min_width=120,
        )  # fmt: skip


def _build_arm_fields(
    form: dict[str, Any],
    end: str,
    values: Mapping[str, Any],
    shown: Mapping[str, bool],
    services: Services,
) -> None:
    """Model, condition and prompt of an arm, or of all where ``end`` is empty."""
    options = _options(end, values, shown)
    conditions = list(services.model_info(values[f"model{end}"]).conditions)
    form[f"model{end}"] = gr.Dropdown(
        model_choices(services), label="Model", info=HINT, allow_custom_value=True,
        **options("model", 3, 220),
    )  # fmt: skip
    form[f"condition{end}"] = gr.Dropdown(
        conditions, label="Condition", info="Bias planted in this world", allow_custom_value=True,
        **options("condition", 2, 150),
    )  # fmt: skip
    form[f"template{end}"] = gr.Textbox(
        label="Prompt", info="{} is the concept; more {} repeat it", max_lines=3, lines=1,
        **options("template", 5, 260),
    )  # fmt: skip


def _build_sampling(
    form: dict[str, Any], end: str, values: Mapping[str, Any], shown: Mapping[str, bool]
) -> None:
    """Negative prompt, guidance and steps of an arm, or of all where ``end`` is empty."""
    options = _options(end, values, shown)
    form[f"negative{end}"] = gr.Textbox(
        label="Negative prompt", info="What to avoid; usually empty", max_lines=2,
        **options("negative", 3, 180),
    )  # fmt: skip
    form[f"guidance{end}"] = gr.Number(
        label="Guidance", info="Empty: the model's own", **options("guidance", 2, 130)
    )
    form[f"steps{end}"] = gr.Number(
        label="Steps", info="Empty: the model's own", precision=0, **options("steps", 2, 130)
    )


def _options(end: str, values: Mapping[str, Any], shown: Mapping[str, bool]) -> Callable[..., dict[str, Any]]:
    def options(name: str, scale: int, width: int) -> dict[str, Any]:
        name += end
        place = {"visible": shown[name], "scale": scale, "min_width": width, "elem_id": f"compare-{name}"}
        return {"value": values[name], **place}

    return options


def _build_more(key: str, form: dict[str, Any], values: Mapping[str, Any], services: Services) -> None:
    form["attributes"] = gr.Dataframe(
        values["attributes"], headers=HEADERS, datatype="str", type="array", interactive=True, wrap=True,
        label="Attributes", show_label=False, elem_id=f"{key}-attributes", buttons=[], max_height=420,
        column_widths=["130px", "300px", "300px", "90px", "340px"],
    )  # fmt: skip
    with gr.Row():
        form["attribute_a"] = gr.Textbox(
            values["attribute_a"], label="Association: word A", info="Both empty: no association",
            max_lines=1, min_width=150,
        )  # fmt: skip
        form["attribute_b"] = gr.Textbox(
            values["attribute_b"], label="Association: word B", info="Said in the prompt: female doctor",
            max_lines=1, min_width=150,
        )  # fmt: skip
        form["n_attribute_images"] = gr.Number(
            values["n_attribute_images"], label="Pictures per word", info="Drawn in addition, per arm",
            precision=0, min_width=150,
        )  # fmt: skip
    with gr.Row():
        form["encoder"] = gr.Dropdown(
            encoder_choices(services), value=values["encoder"],
            label="Reader (encoder)", info="The same for every arm", allow_custom_value=True,
            min_width=220, elem_id=f"{key}-encoder",
        )  # fmt: skip
        form["force"] = force_box(key)
        form["seed"] = gr.Number(
            values["seed"], label="Seed", info="Of the first picture of every arm", precision=0,
            min_width=130, elem_id=f"{key}-seed",
        )  # fmt: skip
        form["confidence"] = gr.Dropdown(
            [90, 95, 99], value=values["confidence"], label="Confidence, %", info="Of every interval",
            min_width=130,
        )  # fmt: skip


def chosen_set(key: str) -> AttributeSet:
    """A built-in set; InvalidInput where there is none of this name."""
    for item in load_attribute_sets():
        if item.key == key:
            return item
    raise InvalidInput(f"there is no set of attributes {key!r}")
