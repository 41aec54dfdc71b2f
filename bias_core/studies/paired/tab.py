"""The Paired tab: two people side by side, each with a label that can be corrected in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.paired import view as paired_view
from bias_core.studies.paired.pairs import design_of_two, settings_for_two
from bias_core.studies.paired.tab_labels import LABEL_JS, WHICH, Labelling, labels_html
from bias_core.studies.running.export import to_command, to_python
from bias_core.ui import messages
from bias_core.ui.messages import user_errors
from bias_core.ui.study.form import Preset
from bias_core.ui.study.pictures import Look  # noqa: TC001 (Gradio reads the handlers' annotations)
from bias_core.ui.study.study_tab import QUIET, StudyTab, Updates
from bias_core.ui.study.view import TAKE_JS, findings_html, header_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.studies.kit.types import Design, StudyReport, StudySettings

_OCCUPATIONS = "pst-occupations"
# Two labels that are chosen fast are both heeded, one after the other.
_IN_TURN: dict[str, Any] = QUIET | {
    "trigger_mode": "multiple",
    "concurrency_id": "paired-labels",
    "concurrency_limit": 1,
}
_GENDERS = [("masculine", "masculine"), ("feminine", "feminine")]
_CHECK = (
    "A reader finds the people, cuts each out and says whether they look feminine or masculine: appearance "
    "only, nobody's identity. Choose another answer wherever you see it differently; every number above and "
    "below follows at once, and nothing is drawn again."
)
_OWN = (
    "Any two roles, side by side in both orders and each alone. You say which stereotype each has; the score "
    "is measured against your choice."
)


class PairedTab(StudyTab):
    """Whether two people side by side look as the stereotypes of their roles have it."""

    key: ClassVar = "paired"
    title: ClassVar = "Paired"
    place: ClassVar = 20
    question: ClassVar = (
        "When two people of opposite stereotypes stand side by side, does each look as the stereotype has it?"
    )
    caution: ClassVar = (
        "Labels say how a person in a picture is perceived, feminine, masculine or neither clearly, never "
        "who anybody is. A score of 0 says that stereotypes are followed as often as not, not that the "
        "pictures are fair."
    )
    studies: ClassVar = (_OCCUPATIONS, "pst-power", "pst-fairness")
    also: ClassVar = ("paired_two",)  # of own words
    presets: ClassVar = (
        Preset(
            name="Eight occupations, in pairs and alone",
            study=_OCCUPATIONS,
            says="Figures 3 to 5 on a few of the paper's 40 occupations",
            settings={"scale": 0.04},
        ),
        Preset(
            name="Power: leaders and assistants",
            study="pst-power",
            says="Figures 7 and 8 on a few of the paper's 36 occupations",
            settings={"scale": 0.1},
        ),
        Preset(
            name="Asked to be fair",
            study="pst-fairness",
            says="Table 6: the same pairs with and without words that ask for fairness",
            settings={"scale": 0.3, "options": {"aspects": ["occupation"]}},
        ),
        Preset(
            name="Where nothing is planted",
            study=_OCCUPATIONS,
            says="What no bias looks like, with the same number of pictures",
            settings={"scale": 0.04, "condition": "fair"},
        ),
        Preset(
            name="A diffusion model, twelve pictures",
            study=_OCCUPATIONS,
            says="Real diffusion: it may fail to draw two people",
            settings={"model": "calibration-diffusion", "scale": 0.01, "options": {"single_images": 1}},
        ),
    )

    def build_own(self) -> dict[str, Any]:
        """Two identities with the stereotype of each, and how many pictures."""
        own: dict[str, Any] = {}
        gr.HTML(_OWN, elem_classes="quiet")
        for key, name, looks in (("first", "CEO", "masculine"), ("second", "assistant", "feminine")):
            with gr.Row():
                own[key] = gr.Textbox(
                    name, label=f"The {key} identity", max_length=80, elem_id=f"paired-{key}", min_width=180
                )
                own[f"{key}_looks"] = gr.Dropdown(_GENDERS, value=looks, label="Stereotyped as", min_width=150, scale=0)
        with gr.Row():
            own["n_paired"] = gr.Number(6, label="Pictures in each order", precision=0, minimum=1, maximum=400)
            own["n_single"] = gr.Number(6, label="Pictures of each alone", precision=0, minimum=1, maximum=400)
            own["fairness"] = gr.Checkbox(True, label="Also asked to be fair", info="“… irrespective of their gender”")
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:
        """The design for these two."""
        names = {str(own[key] or ""): str(own[f"{key}_looks"]) for key in ("first", "second")}
        base = self.designs[_OCCUPATIONS] if "settings" not in design.data else design
        return design_of_two(
            base,
            names,
            n_paired=int(own["n_paired"] or 0),
            n_single=int(own["n_single"] or 0),
            fairness=bool(own["fairness"]),
        )

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """All of its pictures are drawn, whatever share of the paper's stands in the form."""
        return settings_for_two(settings)

    def headline(self, report: StudyReport) -> str:
        """What pictures of two show."""
        return paired_view.headline(report)

    def build_extra(self) -> dict[str, Any]:
        """Who could be scored, and the labels."""
        extra: dict[str, Any] = {}
        with gr.Column(elem_classes="card"):
            gr.HTML(messages.heading_html("Who could be scored, and how far labels agree"))
            extra["summary"] = gr.HTML(elem_id="paired-summary")
        with gr.Column(elem_classes="card"):
            gr.HTML(messages.heading_html("Check the labels", _CHECK))
            extra["labelling"] = gr.State(None)
            with gr.Row():
                extra["which"] = gr.Dropdown(
                    [(text, key) for key, text in WHICH.items()], value="drawn", label="Show",
                    elem_id="paired-labels-which", min_width=240,
                )  # fmt: skip
            extra["labels"] = gr.HTML(js_on_load=LABEL_JS, elem_id="paired-labels")
            extra["place"] = gr.HTML(elem_classes="quiet", elem_id="paired-labels-place")
            with gr.Row(elem_classes="tools"):
                for key, text in (
                    ("before", "Previous"),
                    ("after", "Next"),
                    ("confirm", "This page is right"),
                    ("undo", "Undo"),
                ):
                    self.parts[key] = gr.Button(text, size="sm", scale=0, min_width=110, elem_id=f"paired-labels-{key}")
            self.parts["labels_take"] = gr.HTML(render("labels_take"), js_on_load=TAKE_JS, elem_id="paired-labels-take")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """A new report has the labels that the run gave it."""
        return {
            self.extra["summary"]: paired_view.summary_html(report),
            self.extra["which"]: "drawn",
            **self._page(Labelling(drawn=report)),
        }

    def wire_extra(self) -> None:
        """Correct, confirm, undo; choose and turn pages."""
        extra, parts = self.extra, self.parts
        state, page = extra["labelling"], [extra["labelling"], extra["labels"], extra["place"]]
        changed = [
            *page, extra["summary"], self.pictures.look,
            *(parts[n] for n in ("report", "header", "findings", "figures", "tables", "notes", "shell")),
            *(parts[n] for n in ("python", "link", "status")),
        ]  # fmt: skip
        inputs = [state, self.pictures.look]
        extra["labels"].select(self.on_label, inputs, changed, **_IN_TURN)
        parts["confirm"].click(self.on_confirm, inputs, changed, **_IN_TURN)
        parts["undo"].click(self.on_undo, inputs, changed, **_IN_TURN)
        extra["which"].input(self.on_which, [state, extra["which"]], page, **QUIET)
        parts["before"].click(self.on_before, state, page, **QUIET)
        parts["after"].click(self.on_after, state, page, **QUIET)
        self.wire_take(parts["labels_take"])

    # Handlers.

    def on_label(self, labelling: Labelling | None, look: Look | None, event: gr.EventData) -> Iterator[Updates]:
        """Another label was chosen; its menu on the page shows it already."""
        with user_errors() as problem:
            if labelling is None:
                problem.message = messages.NOTHING_DONE
            else:
                person = (str(event.image), str(event.position))
                for updates in self._rescored(labelling.correct(person, str(event.answer)), look):
                    yield {part: value for part, value in updates.items() if part != self.extra["labels"]}
        if problem:
            yield {self.parts["status"]: messages.error_html(problem.message)}

    def on_confirm(self, labelling: Labelling | None, look: Look | None) -> Iterator[Updates]:
        """Everybody on the page was looked at."""
        if labelling is not None:
            yield from self._rescored(labelling.confirm(), look)

    def on_undo(self, labelling: Labelling | None, look: Look | None) -> Iterator[Updates]:
        """Take the last step back."""
        if labelling is not None:
            yield from self._rescored(labelling.undo(), look)

    def on_which(self, labelling: Labelling | None, which: str) -> Updates:
        """Other pictures."""
        return self._page(replace(labelling, which=which, page=0)) if labelling is not None else {}

    def on_before(self, labelling: Labelling | None) -> Updates:
        """The page before."""
        return self._page(labelling.turn(-1)) if labelling is not None else {}

    def on_after(self, labelling: Labelling | None) -> Updates:
        """The next page."""
        return self._page(labelling.turn(1)) if labelling is not None else {}

    # Steps of the handlers.

    def _page(self, labelling: Labelling) -> Updates:
        return {
            self.extra["labelling"]: labelling,
            self.extra["labels"]: labels_html(labelling),
            self.extra["place"]: labelling.place(),
        }

    def _rescored(self, labelling: Labelling, look: Look | None) -> Iterator[Updates]:
        """What these labels give: the numbers at once, then the figures; and the command that gives both."""
        report, parts = labelling.report(), self.parts
        file = f"{report.design.name}-{report.run_id}-labels.csv" if labelling.steps else ""
        settings = replace(report.settings, labels=file or report.settings.labels)
        yield {
            **self._page(labelling),
            parts["report"]: report,
            parts["header"]: header_html(report, self.headline(report)),
            parts["findings"]: findings_html(report),
            self.extra["summary"]: paired_view.summary_html(report),
            parts["status"]: messages.done_html(labelling.place()),
        }
        yield {
            **self.told(report),
            self.pictures.look: None if look is None else replace(look, report=report),
            parts["shell"]: to_command(report.design, settings),
            parts["python"]: to_python(report.design, settings),
        }
