"""What the Explore tab consists of, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.studies.explore_types import ExploreSettings
from bias_core.ui.form import FIELDS, HEADERS, attribute_rows
from bias_core.ui.groups import CHOOSE_JS
from bias_core.ui.messages import READY
from bias_core.ui.model_menu import HINT, encoder_choices, force_box, model_choices

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.studies.catalogue import AttributeSet

FIRST_SET = "doctor"
EXAMPLES = (
    "doctor",
    "nurse",
    "ceo",
    "construction_worker",
    "iranian",
    "indian",
    "mexican",
    "people",
    "flowers",
    "insects",
)
DEFAULTS = ExploreSettings(concept="doctor")
REMEMBERED = ("model", "condition", "encoder", "n_images")
STORAGE_KEY = "t2i-bias-explorer"
# Keeps the value readable after a restart of the server; what is stored is not secret.
STORAGE_SECRET = "t2i-bias-explorer-settings-1"

WELCOME = """
<div class="welcome">
<ol>
<li><strong>Type a concept</strong>, or take an example.
The model draws it many times, each time from another seed.</li>
<li><strong>A reader</strong> (an image–text encoder) decides for each picture
which of two sentences fits better.</li>
<li><strong>You see</strong> how often each attribute appears,
with the interval that this many pictures allow, against the rate P* of the real world.</li>
</ol>
<p class="quiet">The built-in model draws a small flat world in which the true rates are known, so that the
instrument itself can be checked. It is about what pictures show, never about who anybody is.</p>
</div>
"""


ZIP_NOTE = """<p class="quiet">The zip holds the original PNGs (imagefolder), the scores and the similarities
of each picture as Parquet and CSV, and the report.</p>"""
TABLE_NOTE = (
    "A picture has an attribute when it is nearer to the positive sentence. **P\\*** is the rate that it is "
    "compared with: 0.56, 56 % or empty. Say where it comes from, or that it is a choice."
)


@dataclass(frozen=True)
class Ui:
    """The components by name; ``form`` holds those that make up the settings."""

    form: dict[str, Any]
    parts: dict[str, Any]
    chips: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.form[name] if name in self.form else self.parts[name]

    def inputs(self) -> list[Any]:
        """The form's components in the order of ``FIELDS``."""
        return [self.form[name] for name in FIELDS]


def build_layout(services: Services, sets: tuple[AttributeSet, ...], visitor: gr.State) -> Ui:
    """Lay out the tab, top to bottom: question, pictures, numbers, take-away."""
    form: dict[str, Any] = {}
    first = next(item for item in sets if item.key == FIRST_SET)
    parts: dict[str, Any] = {
        "visitor": visitor,
        "view": gr.State(None),
        "row": gr.State(None),
        "remembered": gr.BrowserState({}, storage_key=STORAGE_KEY, secret=STORAGE_SECRET),
    }
    with gr.Column(elem_classes="card ask"):
        chips = _build_question(form, parts, services, sets)
        _build_table(form, parts, first)
        _build_options(form, parts, services)
    parts["status"] = gr.HTML(READY, elem_id="status")
    parts["welcome"] = gr.HTML(WELCOME)
    parts["header"] = gr.HTML(visible=False, elem_id="header")
    _build_pictures(parts)
    _build_numbers(parts)
    return Ui(form=form, parts=parts, chips=chips)


def _build_question(
    form: dict[str, Any], parts: dict[str, Any], services: Services, sets: tuple[AttributeSet, ...]
) -> dict[str, Any]:
    with gr.Row(equal_height=True, elem_classes="line"):
        form["concept"] = gr.Textbox(
            DEFAULTS.concept, label="Concept", info="Who or what should be drawn?", elem_id="concept",
            placeholder="for example: doctor", scale=5, min_width=260, max_lines=1,
        )  # fmt: skip
        parts["chosen_set"] = gr.Dropdown(
            [(item.title, item.key) for item in sets], value=FIRST_SET, label="Attributes", elem_id="set",
            info="What is looked for in the pictures", scale=4, min_width=220,
        )  # fmt: skip
        form["n_images"] = gr.Number(
            DEFAULTS.n_images, label="Pictures", info="More: narrower intervals", precision=0, scale=2,
            min_width=140, elem_id="n-images",
        )  # fmt: skip
    by_key = {item.key: item for item in sets}
    with gr.Row(elem_classes="chips"):
        chips = {
            key: gr.Button(by_key[key].concept_hint, size="sm", min_width=0, scale=0) for key in EXAMPLES
        }
    with gr.Row(equal_height=True, elem_classes="line"):
        form["model"] = gr.Dropdown(
            model_choices(services), value=DEFAULTS.model, label="Model",
            info=HINT, allow_custom_value=True, elem_id="model",
            scale=5, min_width=260,
        )  # fmt: skip
        form["condition"] = gr.Dropdown(
            list(services.model_info(DEFAULTS.model).conditions), value=DEFAULTS.condition, label="Condition",
            info="What bias was planted in this world", elem_id="condition", scale=3, min_width=180,
        )  # fmt: skip
        with gr.Column(scale=3, min_width=220, elem_classes="act"):
            parts["generate"] = gr.Button(
                "Generate and measure", variant="primary", size="lg", elem_id="generate"
            )
            parts["stop"] = gr.Button("Stop", variant="stop", size="lg", elem_id="stop", visible=False)
    parts["model_note"] = gr.HTML(elem_id="model-note", elem_classes="quiet")
    return chips


def _build_table(form: dict[str, Any], parts: dict[str, Any], first: AttributeSet) -> None:
    with gr.Accordion("Attributes and their sentences", open=False, elem_id="attributes"):
        form["attributes"] = gr.Dataframe(
            attribute_rows(first.attributes), headers=HEADERS, datatype="str", type="array", interactive=True,
            wrap=True, label="Attributes", show_label=False, elem_id="table", buttons=[], max_height=420,
            column_widths=["130px", "300px", "300px", "90px", "340px"],
        )  # fmt: skip
        with gr.Row(elem_classes="tools"):
            parts["add"] = gr.Button("Add a row", size="sm", scale=0, min_width=110)
            parts["remove"] = gr.Button("Remove the chosen row", size="sm", scale=0, min_width=170)
            parts["restore"] = gr.Button("Undo all: back to the set", size="sm", scale=0, min_width=190)
        gr.Markdown(TABLE_NOTE, elem_classes="quiet")


def _build_options(form: dict[str, Any], parts: dict[str, Any], services: Services) -> None:
    with gr.Accordion("Prompt, sampling, reading", open=False, elem_id="options"):
        with gr.Row():
            _build_prompt(form)
        with gr.Row():
            _build_sampling(form, parts, services)
        with gr.Row():
            _build_reading(form, services)
        with gr.Row():
            _build_association(form)


def _build_prompt(form: dict[str, Any]) -> None:
    form["template"] = gr.Textbox(
        DEFAULTS.template,
        label="Prompt template",
        info="{} is the concept; a or an follows by itself",
        max_lines=2,
    )
    form["negative_prompt"] = gr.Textbox(
        "", label="Negative prompt", info="What to avoid; usually empty", max_lines=2
    )


def _build_sampling(form: dict[str, Any], parts: dict[str, Any], services: Services) -> None:
    info = services.model_info(DEFAULTS.model)
    form["seed"] = gr.Number(
        0,
        label="Seed",
        info="Of picture 1; each further one has the next",
        precision=0,
        elem_id="seed",
        min_width=130,
    )
    parts["dice"] = gr.Button("New seed", size="sm", elem_id="dice", scale=0, min_width=110)
    form["num_inference_steps"] = gr.Number(
        info.default_steps, label="Denoising steps", info="Set by the model", precision=0, elem_id="steps",
        min_width=130,
    )  # fmt: skip
    form["guidance_scale"] = gr.Number(
        info.default_guidance, label="Guidance", info="Above 1 sharpens the majority; rates hold at 1",
        min_width=200, elem_id="guidance",
    )  # fmt: skip


def _build_reading(form: dict[str, Any], services: Services) -> None:
    form["encoder"] = gr.Dropdown(
        encoder_choices(services), value=DEFAULTS.encoder,
        label="Reader (encoder)", info="Decides what a picture shows", allow_custom_value=True, scale=2,
        min_width=240, elem_id="encoder",
    )  # fmt: skip
    form["confidence"] = gr.Dropdown(
        [90, 95, 99], value=95, label="Confidence, %", info="Of every interval", min_width=130
    )
    form["n_clusters"] = gr.Number(
        0,
        label="Groups",
        info="Of look-alikes; 0: found by itself",
        precision=0,
        min_width=150,
        elem_id="clusters",
    )
    form["force"] = force_box("explore")


def _build_association(form: dict[str, Any]) -> None:
    form["attribute_a"] = gr.Textbox(
        DEFAULTS.attribute_a, label="Association: word A", info="Both empty: no association", max_lines=1,
        min_width=150,
    )  # fmt: skip
    form["attribute_b"] = gr.Textbox(
        DEFAULTS.attribute_b, label="Association: word B", info="Said in the prompt: female doctor",
        max_lines=1, min_width=150,
    )  # fmt: skip
    form["n_attribute_images"] = gr.Number(
        DEFAULTS.n_attribute_images, label="Pictures per word", info="Drawn in addition", precision=0,
        min_width=150,
    )  # fmt: skip


def _build_pictures(parts: dict[str, Any]) -> None:
    with gr.Row(visible=False, elem_id="pictures") as parts["pictures"]:
        with gr.Column(scale=6, min_width=340, elem_classes="card"):
            parts["groups"] = gr.HTML(js_on_load=CHOOSE_JS, elem_id="groups", visible=False)
            parts["page"] = gr.Dropdown(label="Show pictures", visible=False, elem_id="page")
            parts["gallery"] = gr.Gallery(
                format="png", columns=6, height="auto", object_fit="contain", label="Pictures",
                show_label=False, allow_preview=False, buttons=[], elem_id="grid", elem_classes="grid",
                interactive=False,
            )  # fmt: skip
            parts["picture"] = gr.HTML(elem_id="picture", visible=False)
        with gr.Column(scale=5, min_width=340, elem_classes="card"):
            parts["shares"] = gr.HTML(elem_id="shares")
            parts["map_title"] = gr.HTML("<h3>What looks alike?</h3>", visible=False)
            parts["map"] = gr.HTML(js_on_load=CHOOSE_JS, elem_id="map")


def _build_numbers(parts: dict[str, Any]) -> None:
    with gr.Column(visible=False, elem_id="results") as parts["results"]:
        with gr.Column(elem_classes="card"):
            parts["table"] = gr.HTML()
        with gr.Row():
            with gr.Column(scale=6, min_width=340, elem_classes="card"):
                parts["sentences"] = gr.HTML()
            with gr.Column(scale=5, min_width=340, elem_classes="card"):
                parts["association"] = gr.HTML()
                gr.HTML("<h3>Take it with you</h3>")
                with gr.Row(elem_classes="tools"):
                    parts["zip"] = gr.Button("Everything as one zip", size="sm", elem_id="zip", min_width=180)
                    parts["json"] = gr.DownloadButton(
                        "Report, JSON", size="sm", elem_id="json", min_width=130
                    )
                    parts["markdown"] = gr.DownloadButton(
                        "Report, Markdown", size="sm", elem_id="markdown", min_width=150
                    )
                parts["zip_file"] = gr.DownloadButton("zip", elem_id="zip-file")
                gr.HTML(ZIP_NOTE)
        with gr.Accordion("Copy as command: the same numbers elsewhere", open=False, elem_id="command"):
            copyable = {"interactive": False, "buttons": ["copy"], "elem_classes": "code"}
            parts["shell"] = gr.Textbox(label="Command line", lines=3, max_lines=12, **copyable)
            parts["python"] = gr.Textbox(label="Python", lines=6, max_lines=24, **copyable)
