"""The Internal tab: MCAS, δ and α, from the text of a target to its pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.internal import view as internal_view
from bias_core.studies.internal.study import own_targets
from bias_core.ui.study.closer import CloserLook
from bias_core.ui.study.form import Preset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.types import Design, StudyReport, StudySettings

_STUDY = "internal-bias"
_FEW = "CEO, Engineer, Nurse, Librarian"


def _preset(name: str, says: str, scale: float, targets: str = "", condition: str = "published") -> Preset:
    settings = {"scale": scale, "condition": condition, "options": {"targets": targets} if targets else {}}
    return Preset(name=name, study=_STUDY, says=says, settings=settings)


class InternalTab(CloserLook):
    """What drawing adds to the lean of the words."""

    key: ClassVar = "internal"
    title: ClassVar = "Internal"
    place: ClassVar = 40
    question: ClassVar = "On the way from text to picture, where does a concept come to lean to men or to women?"
    caution: ClassVar = (
        "Leans are those of appearance, read by an encoder with leanings of its own, which are part of every "
        "score. A lean is not an error by itself, and a score near 0 does not prove that there is none."
    )
    studies: ClassVar = (_STUDY,)
    presets: ClassVar = (
        _preset("Four occupations", "CEO, engineer, nurse, librarian: 60 pictures and 64 of men and women", 0.1, _FEW),
        _preset("The same where nothing is planted", "What no bias looks like", 0.1, _FEW, "fair"),
        _preset("Eight of the 28 targets", "Four of either side, few pictures", 0.05),
        _preset("Half of the 28 targets", "Enough for the smoothed curves of Figures 3 and 4", 0.2),
    )

    def build_own(self) -> dict[str, Any]:
        """Targets, and how many pictures."""
        own: dict[str, Any] = {}
        own["targets"] = gr.Textbox(
            "Judge | an image of a judge | male\nTeacher\nNurse | an image of a nurse | female",
            label="Targets, one a line",
            info="A keyword; after a bar its prompt; after another the gender people expect, male or female",
            lines=4,
            elem_id=f"{self.key}-own-targets",
        )
        with gr.Row():
            own["n"] = gr.Slider(2, 40, 10, step=1, label="Pictures of each target", min_width=200)
            own["n_attribute"] = gr.Slider(
                2, 20, 5, step=1, label="Pictures of each of 8 prompts of men and women", min_width=200
            )
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:  # noqa: ARG002
        """The study on these targets."""
        return own_targets(str(own["targets"] or ""), n=int(own["n"] or 0), n_attribute=int(own["n_attribute"] or 0))

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Every target is drawn, and as often as was said."""
        options = {name: value for name, value in settings.options.items() if name != "targets"}
        return replace(settings, scale=1.0, options=options)

    def headline(self, report: StudyReport) -> str:
        """One sentence on what was found."""
        return internal_view.headline(report)

    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        """The targets that were drawn."""
        return [(target, target) for target in internal_view.targets_of(report)]

    def closer_html(self, report: StudyReport, key: str) -> str:
        """One target from text to picture."""
        return internal_view.flow_html(report, key)

    def behind_html(self, report: StudyReport, key: str) -> str:
        """Its pictures that are nearest to those of women and of men."""
        return internal_view.behind_html(report, key)
