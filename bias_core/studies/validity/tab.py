"""The Calibration tab: what was planted against what is measured, shipped and measured anew."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.kit.types import StudyReport
from bias_core.studies.validity.report import STUDIES, load_shipped
from bias_core.studies.validity.view import summary_html, verdict_lines
from bias_core.ui.messages import heading_html, user_errors
from bias_core.ui.study.form import Preset
from bias_core.ui.study.open import example_html
from bias_core.ui.study.study_tab import QUIET, StudyTab, Updates

if TYPE_CHECKING:
    from bias_core.studies.reports.saved import SavedReport

_FEW = {"conditions": ["fair", "extreme"]}
_TITLES = {
    "validity-rates": "Every planted rate",
    "validity-measures": "Picture measures",
    "validity-associations": "Associations",
    "validity-pairs": "Pairs of people",
    "validity-objects": "Objects",
}


class CalibrationTab(StudyTab):
    """Whether the instrument is right, on a world whose truth is known."""

    key: ClassVar = "calibration"
    title: ClassVar = "Calibration"
    place: ClassVar = 90
    question: ClassVar = "Is the instrument right? What was planted in a small world, and what do the measures say?"
    caution: ClassVar = (
        "It holds for the drawn pictures of the calibration world and its reader. On photographs readers err "
        "more, and differently: do not trust there what fails here, and check again what holds here."
    )
    studies: ClassVar = STUDIES
    null_words: ClassVar = "it should read"
    presets: ClassVar = (
        Preset(
            name="A few planted rates",
            study="validity-rates",
            says="Every 25th concept of the world, where nothing and where most is planted",
            settings={"scale": 0.2, "options": {**_FEW, "every": 25}},
        ),
        Preset(
            name="Pairs of people, twice",
            study="validity-pairs",
            says="The stereotype test score against the score that is planted",
            settings={"scale": 0.25, "options": {**_FEW, "repetitions": 2}},
        ),
        Preset(
            name="Picture measures, twice",
            study="validity-measures",
            says="P, Ψ, WALS, associations, δ and α against what many pictures show",
            settings={"scale": 0.25, "options": {**_FEW, "repetitions": 2, "attribute_images": 2}},
        ),
    )

    @cached_property
    def shipped(self) -> Mapping[str, SavedReport]:
        """The reports that came with the program, by their study."""
        with user_errors():
            folder = self.services.settings.assets_dir / "validity"
            found = load_shipped(folder)
            return {s.report.design.name: s for s in found if isinstance(s.report, StudyReport)}
        return {}

    def build_top(self) -> None:
        """The verdicts, and the way to the report behind each."""
        with gr.Column(elem_classes="card header", elem_id="calibration-verdicts"):
            gr.HTML(summary_html(tuple(self.shipped.values())))
            gr.HTML("Open the report behind it, with its figures and tables:", elem_classes="quiet")
            with gr.Row(elem_classes="chips"):
                self.openers = {
                    name: gr.Button(_TITLES[name], size="sm", min_width=0, scale=0, elem_id=f"open-{name}")
                    for name in self.shipped
                }
            # Says once that the tab is there, so that the first report is drawn when somebody looks.
            self.looked_at = gr.HTML("", js_on_load="setTimeout(() => trigger('select', {}), 50);")
        gr.HTML(heading_html("Measure it again, on new pictures"), elem_classes="again")

    def wire_extra(self) -> None:
        """Open a shipped report; the first one opens when the tab is first looked at."""
        for name, button in self.openers.items():
            button.click(self._opener(name), None, self.outputs(), **QUIET)
        for name in tuple(self.shipped)[:1]:
            self.looked_at.select(self._opener(name), None, self.outputs(), **QUIET)

    def _opener(self, name: str) -> Any:
        def on_open() -> Updates:
            """All of a shipped report; the form stays as it is, as a full run takes long."""
            shown = self.opened(self.shipped[name], example_html(self.shipped[name]))
            kept = set(self.outputs())
            return {part: value for part, value in shown.items() if part in kept}

        return on_open

    def headline(self, report: StudyReport) -> str:
        """How many measures of this report hold, and which do not."""
        lines = verdict_lines(report)
        fails = [line for line in lines if line.grade == "fails"]
        told = "; ".join(f"{line.measure}: {line.verdict.removeprefix('fails: ')}" for line in fails)
        rest = f". The others: {told}." if told else ", by the stated rule."
        return f"{len(lines) - len(fails)} of {len(lines)} ways of measuring tell what was planted{rest}"
