"""The Objects tab: what captions name in pictures, asked for or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.kit.types import StudyReport  # noqa: TC001 (Gradio reads the handlers' annotations)
from bias_core.studies.objects import view as objects_view
from bias_core.studies.objects.general import design_of_prompts, settings_for_prompts
from bias_core.ui.messages import heading_html
from bias_core.ui.study.form import Preset
from bias_core.ui.study.pictures import Look, show_only
from bias_core.ui.study.study_tab import QUIET, StudyTab, Updates
from bias_core.ui.study.view import TAKE_JS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.types import Design, StudyFigure, StudySettings

_PROMPTS = """a doctor talking to a patient
a family having dinner at home
a leader giving a speech
a person cleaning a kitchen"""
_OWN = (
    "One prompt a line. For pictures that exist already, such as a captioned data set, choose the study "
    "“Objects in a captioned dataset” and give a zip under “Sampling, options, your own pictures”."
)


class ObjectsTab(StudyTab):
    """Which objects appear, how many of them nobody asked for, and how often the prompt is missed."""

    key: ClassVar = "objects"
    title: ClassVar = "Objects"
    place: ClassVar = 30
    question: ClassVar = "What is in the pictures that nobody asked for, and do a few things tower over all others?"
    caution: ClassVar = (
        "A captioner names only some of what is there, so even faithful pictures differ from their prompts: "
        "compare H_J and M_G between models or conditions, and B_D at equal numbers of pictures only. None "
        "of the three says whether what was added does harm. Where the truth is known (tab Calibration), "
        "B_D and M_G did not rise with a planted object, and H_J rose by little and was far from 0 without "
        "one: read the objects themselves before the numbers."
    )
    studies: ClassVar = ("tbyb-general", "tbyb-task", "tbyb-controlled", "tbyb-dataset")
    also: ClassVar = ("prompted_object_bias",)  # of own words
    presets: ClassVar = (
        Preset(
            name="A planted object, three conditions",
            study="tbyb-controlled",
            says="Figures 2 and 4: scenes with a burger and prompts without, under three conditions",
            settings={"scale": 0.06, "options": {"triggers": ["burger"]}},
        ),
        Preset(
            name="Scenes with a drink or a coffee",
            study="tbyb-task",
            says="What comes along with everyday words",
            settings={"scale": 0.04, "options": {"triggers": ["coffee", "drink"]}},
        ),
        Preset(
            name="People at work",
            study="tbyb-general",
            says="Tables I, II and IV on a few of the paper's 40 professions",
            settings={"scale": 0.03, "options": {"sets": ["professions"]}},
        ),
    )

    def build_own(self) -> dict[str, Any]:
        """Prompts, and how many pictures of each."""
        gr.HTML(_OWN, elem_classes="quiet")
        own: dict[str, Any] = {}
        with gr.Row():
            own["prompts"] = gr.Textbox(
                _PROMPTS, label="Your prompts", lines=5, max_lines=14, scale=4, elem_id="objects-prompts",
                min_width=260,
            )  # fmt: skip
            own["n"] = gr.Number(
                6, label="Pictures of each", precision=0, minimum=1, maximum=200, scale=1, min_width=140
            )
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:
        """The design for these prompts."""
        return design_of_prompts(design, str(own["prompts"] or "").splitlines(), int(own["n"] or 0))

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Every prompt is drawn, whatever share of the paper's stands in the form."""
        return settings_for_prompts(settings)

    def headline(self, report: StudyReport) -> str:
        """Which object towers, and how far pictures stray."""
        return objects_view.headline(report)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Those that do not stand beside their numbers already."""
        return [figure for figure in report.results.figures if figure.key not in objects_view.APART]

    def build_extra(self) -> dict[str, Any]:
        """The models in three dimensions, the curve with its numbers, top objects, and examples."""
        extra: dict[str, Any] = {}
        extra["space"] = gr.HTML(js_on_load=TAKE_JS, elem_id="objects-space")
        extra["curve"] = gr.HTML(js_on_load=TAKE_JS, elem_id="objects-curve")
        with gr.Column(elem_classes="card"):
            gr.HTML(
                heading_html(
                    "The most frequent objects",
                    "In how many pictures captions name each; choose one to see them below.",
                )
            )
            extra["top"] = gr.HTML(js_on_load=TAKE_JS, elem_id="objects-top")
        with gr.Column(elem_classes="card"):
            gr.HTML(heading_html("What the captioner said"))
            extra["examples"] = gr.HTML(elem_id="objects-examples")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """Of a new report."""
        return {
            self.extra["space"]: objects_view.space_html(report),
            self.extra["curve"]: objects_view.curve_html(report),
            self.extra["top"]: objects_view.top_html(report),
            self.extra["examples"]: objects_view.examples_html(report),
        }

    def wire_extra(self) -> None:
        """An object chooses its pictures; numbers can be taken along."""
        self.wire_take(self.extra["space"], self.extra["curve"])
        chosen = self.extra["top"].select(self.on_object, self.parts["report"], self.pictures.outputs(), **QUIET)
        show = "() => document.querySelector('#objects-pictures')?.scrollIntoView({behavior: 'smooth'})"
        chosen.success(None, js=show, **QUIET)

    def on_object(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """The pictures in which an object is."""
        if report is None:
            return {}
        return show_only(self.pictures, Look(report=report, which=f"objects={event.object}"))
