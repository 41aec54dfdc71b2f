"""The Origins tab: OASIS's clusters and texts (StOP), steps (SPI), nationalities, doctors, own words."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import gradio as gr

from bias_core.studies.kit.types import MAX_STEPS, Design, StudyFigure, StudyReport, StudySettings
from bias_core.studies.origins import view
from bias_core.studies.origins.cells import own_concepts, without_names
from bias_core.studies.origins.stop import Regenerated, cluster_names, regenerate
from bias_core.studies.running.run import followed
from bias_core.types import Attribute
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.model_menu import HEADERS, attribute_rows, read_table
from bias_core.ui.study.study_tab import PRIVATE, QUIET, StudyTab, Updates
from bias_core.ui.visitor import RUN, Visitor, in_line

_SPI, _STOP, _NATIONS = "oasis-spi", "oasis-stop", "oasis-nationalities"
_TRACED = "calibration-diffusion"
# No sampler takes more steps: each has its predicted picture.
_SHOWN_OPTIONS: Mapping[str, Mapping[str, Any]] = {_SPI: {"n_samples": 3, "n_predicted": MAX_STEPS}}
_NEEDS_STEPS = (
    "SPI looks into denoising steps, and {} has none: the diffusion model of the calibration world is chosen."
)
_OWN_WORDS = (
    "They go with the study that is chosen above: steps (SPI), clusters and texts (StOP, no attributes "
    "needed) or shares (P, Ψ, WALS). Steps and guidance stand in the part below."
)
_OWN = (
    Attribute(
        name="man",
        positive="The person is a man.",
        negative="The person is a woman.",
        reference=0.5,
        reference_source="assumed 50 %, a choice",
    ),
    Attribute(name="glasses", positive="The person is wearing glasses.", negative="The person has no glasses."),
)


class OriginsTab(StudyTab):
    """Where in the model a stereotype comes from."""

    key: ClassVar = "origins"
    title: ClassVar = "Origins"
    place: ClassVar = 50
    question: ClassVar = "Which look does the model itself take for a concept, and at which step does it enter?"
    caution: ClassVar = (
        "Assesses how people of a nationality are drawn, as perceived by a reader; it says nothing of who they are. A "
        "text that is close, or a step that adds, is a trace of what the model was trained on, not its reason."
    )
    studies: ClassVar = (_NATIONS, _STOP, _SPI, "oasis-doctors", "oasis-internet-users")

    def build_own(self) -> dict[str, Any]:
        """Concepts, the prompt around them, and attributes with their sentences."""
        own: dict[str, Any] = {}
        with gr.Row():
            own["concepts"] = gr.Textbox(
                "nurse", label="Concepts", info="One or more, with commas", scale=3, min_width=200,
                elem_id=f"{self.key}-own-concepts",
            )  # fmt: skip
            own["template"] = gr.Textbox(
                "A photo of a {}", label="Prompt", info="{} is where the concept goes", scale=3, min_width=200
            )
            own["n"] = gr.Slider(
                1, 60, 4, step=1, label="Pictures of each", info="Seeds, for SPI", scale=3, min_width=180
            )
        own["attributes"] = gr.Dataframe(
            attribute_rows(_OWN), headers=HEADERS, datatype="str", type="array", interactive=True, wrap=True,
            label="Attributes: a sentence for presence, one for absence; P* where a real-world rate is known",
            buttons=[], max_height=300, elem_id=f"{self.key}-own-attributes",
        )  # fmt: skip
        gr.HTML(_OWN_WORDS, elem_classes="quiet")
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:
        """The chosen study with these concepts."""
        return own_concepts(
            design,
            concepts=str(own["concepts"] or "").split(","),
            template=str(own["template"] or ""),
            attributes=read_table(own["attributes"]),
            n=int(own["n"] or 0),
        )

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Every concept is drawn, and as often as was said."""
        return without_names(settings)

    def build_extra(self) -> dict[str, Any]:
        """The film of the steps; clusters, and a form that draws from a text."""
        key, extra = self.key, {}
        extra["film"] = gr.HTML(js_on_load=view.FILM_JS, elem_id=f"{key}-film", visible=False)
        extra["clusters"] = gr.HTML(js_on_load=view.CHOOSE_TEXT_JS, elem_id=f"{key}-clusters", visible=False)
        with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-draw") as extra["box"]:
            gr.HTML(messages.heading_html("Draw from a text, and compare with its cluster"))
            with gr.Row(equal_height=True, elem_classes="line"):
                extra["cluster"] = gr.Dropdown(label="Cluster", scale=2, min_width=200, elem_id=f"{key}-cluster")
                extra["text"] = gr.Textbox(label="Text", max_lines=1, scale=4, min_width=220, elem_id=f"{key}-text")
                extra["n"] = gr.Number(6, label="Pictures", precision=0, scale=1, min_width=110)
            with gr.Row(elem_classes="tools"):
                extra["go"] = gr.Button(
                    "Draw and compare", variant="primary", scale=0, min_width=200, elem_id=f"{key}-go"
                )
                extra["halt"] = gr.Button(
                    "Stop", variant="stop", visible=False, scale=0, min_width=200, elem_id=f"{key}-halt"
                )
            extra["said"] = gr.HTML(elem_id=f"{key}-said")
            extra["compared"] = gr.HTML(elem_id=f"{key}-compared")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """What belongs to this kind of study; the rest is hidden."""
        names, texts, extra = cluster_names(report), view.texts_of(report), self.extra
        parts = {"film": view.films_html(report), "clusters": view.clusters_html(report)}
        return {
            **{extra[name]: gr.update(value=html, visible=bool(html)) for name, html in parts.items()},
            extra["box"]: gr.update(visible=bool(names)),
            extra["cluster"]: gr.update(choices=names, value=names[0] if names else None),
            extra["text"]: "" if texts.empty else str(texts["prompt"].iloc[0]),
            extra["said"]: "",
            extra["compared"]: "",
        }

    def wire_extra(self) -> None:
        """Models that suit the study, texts that are chosen, and pictures that are drawn from them."""
        form, parts, extra = self.form, self.parts, self.extra
        shown, suited = [extra["said"], extra["go"], extra["halt"]], [form["model"], form["condition"], parts["status"]]
        form["study"].input(self.on_suit, [form["study"], form["model"]], suited, **QUIET)
        self.wire_take(extra["film"], extra["clusters"])
        extra["clusters"].submit(self.on_text, None, [extra["cluster"], extra["text"]], queue=False, **QUIET)
        click = extra["go"].click(self.on_go, parts["visitor"], shown, queue=False, **QUIET)
        drawn = click.then(
            self.on_draw,
            [parts["visitor"], parts["report"], extra["cluster"], extra["text"], extra["n"]],
            [*shown, extra["compared"]],
            show_progress="hidden",
            trigger_mode="multiple",
            **RUN,
            **PRIVATE,
        )
        drawn.failure(self.on_draw_crash, None, shown, **QUIET)
        extra["halt"].click(self.on_stop, parts["visitor"], extra["said"], queue=False, **QUIET)

    def headline(self, report: StudyReport) -> str:
        """One sentence on what was found."""
        return view.origins_headline(report)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """All but what the tab shows in its own way: pictures in rows, and curves beside them."""
        shown = (figure for figure in report.results.figures if figure.kind != "pictures")
        return [figure for figure in shown if not figure.key.startswith(view.AVERAGE)]

    def on_study(self, name: str) -> Updates:
        """The options of another study; of SPI, with a predicted picture at every step."""
        return super().on_study(name) | self.options_of(name, _SHOWN_OPTIONS.get(name))

    def on_suit(self, study: str, model: str) -> Updates:
        """Choose a model with denoising steps where the study needs one, and say so."""
        with user_errors():
            info = self.services.model_info(model)
            if study == _SPI and info.family == "renderer":
                note = messages.done_html(_NEEDS_STEPS.format(info.name))
                form, condition = self.form, self._conditions(_TRACED, "published")
                return {form["model"]: _TRACED, form["condition"]: condition, self.parts["status"]: note}
        return {}

    def on_text(self, event: gr.EventData) -> tuple[str, str]:
        """A text was chosen on a cluster's card."""
        return str(event.cluster), str(event.text)

    def on_go(self, visitor: Visitor) -> Updates:
        """Take a turn in the queue."""
        visitor.start()
        return self._drawing(messages.QUEUED, running=True)

    def on_draw(
        self, visitor: Visitor, report: StudyReport | None, cluster: str, text: str, n: float | None
    ) -> Iterator[Updates]:
        """Draw from a text and compare; what was compared before stays until then."""
        arguments: dict[str, Any] = {
            "cluster": cluster or "",
            "prompt": text or "",
            "n": int(n or 0),
            "cancelled": visitor.stop.is_set,
        }
        pace, results = messages.Pace(), list["Regenerated"]()
        with user_errors() as problem:
            problem.message = messages.NOTHING_DONE
            if report is not None:
                start = partial(regenerate, report, self.services, **arguments)
                for step in followed(in_line(self.services, visitor, start), results):
                    if pace.is_due():
                        yield {self.extra["said"]: messages.progress_html(step)}
        if results:
            yield self._drawing("") | {self.extra["compared"]: view.comparison_html(results[0])}
        else:
            yield self._drawing(messages.error_html(problem.message))

    def on_draw_crash(self) -> Updates:
        """Show that an unforeseen error happened; the log has it."""
        return self._drawing(messages.crash_html())

    def _drawing(self, message: str, *, running: bool = False) -> Updates:
        go, halt = (gr.update(visible=visible) for visible in (not running, running))
        return {self.extra["said"]: message, self.extra["go"]: go, self.extra["halt"]: halt}
