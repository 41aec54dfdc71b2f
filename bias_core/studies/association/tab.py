"""The Association tab: T2IAT's tests, occupations, amplification and human comparison, and own words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.association import view as association_view
from bias_core.studies.association.tests import own_association
from bias_core.ui.study.closer import CloserLook
from bias_core.ui.study.form import Preset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.types import Design, StudyFigure, StudyReport, StudySettings

_TESTS = "t2iat-tests"
_EDITS = [
    ("Add the word at the end: “a photo of a rose, peace”", "valence"),
    ("Put it in place of “person”: “a man studying art”", "gender"),
]


def _test(name: str, key: str, says: str, scale: float, condition: str = "published") -> Preset:
    settings = {"scale": scale, "condition": condition, "options": {"tests": [key] if key else []}}
    return Preset(name=name, study=_TESTS, says=says, settings=settings)


class AssociationTab(CloserLook):
    """Which of two concepts is drawn more like which of two attributes."""

    key: ClassVar = "association"
    title: ClassVar = "Association"
    place: ClassVar = 10
    question: ClassVar = "Does the model draw one concept more like one attribute than another concept?"
    caution: ClassVar = (
        "A difference says how the pictures of two concepts differ for this reader. It does not say which "
        "of the two is drawn wrongly, nor that the reader itself has no leanings."
    )
    studies: ClassVar = (_TESTS, "t2iat-occupations", "t2iat-amplification", "t2iat-human")
    presets: ClassVar = (
        _test("Science and arts, male and female", "science_arts", "One of the eight tests of T2IAT", 0.1),
        _test("Career and family, male and female", "career_family", "One of the eight tests of T2IAT", 0.1),
        _test("Flowers and insects, pleasant or not", "flowers_insects", "The test that harms nobody", 0.03),
        _test("The same where nothing is planted", "flowers_insects", "What no bias looks like", 0.03, "fair"),
        _test("All eight tests, few prompts", "", "Rough, corrected for eight tests at once", 0.01),
        Preset(
            name="Eight occupations",
            study="t2iat-occupations",
            says="Figure 3: how each occupation's pictures lean",
            settings={"scale": 0.06},
        ),
        Preset(
            name="From words to pictures",
            study="t2iat-amplification",
            says="Figure 4: do pictures lean more than the words they are drawn from?",
            settings={"scale": 0.06},
        ),
        Preset(
            name="Against people's choices",
            study="t2iat-human",
            says="Table 2: do associations order the concepts as people do?",
            settings={"scale": 0.01},
        ),
    )

    def build_own(self) -> dict[str, Any]:
        """Two concepts, two attributes, and how a prompt is edited."""
        own: dict[str, Any] = {}
        words = {
            "x": ("Concept X", "Sweet: cake, honey, candy, jam", "A name and a colon if you like, then words"),
            "y": ("Concept Y", "Sour: lemon, vinegar, pickle, lime", "Two words or more; a clear answer takes four"),
            "a": ("Attribute A", "pleasant: peace, love, happy", "Each prompt meets one word, in turn"),
            "b": ("Attribute B", "unpleasant: grief, poison, ugly", "Likewise"),
        }
        with gr.Row():
            for role, (label, value, info) in words.items():
                own[role] = gr.Textbox(
                    value, label=label, info=info, lines=2, min_width=220, elem_id=f"{self.key}-own-{role}"
                )
        with gr.Row():
            own["template"] = gr.Textbox(
                "a photo of a {}", label="Prompt", info="{} is where the words of X and Y go", min_width=220
            )
            own["kind"] = gr.Radio(_EDITS, value="valence", label="How an attribute word is said", min_width=300)
            own["n"] = gr.Slider(2, 20, 4, step=1, label="Pictures per prompt", min_width=180)
        return own

    def own_design(self, design: Design, own: Mapping[str, Any]) -> Design:  # noqa: ARG002
        """One test of these words, whichever study stands in the menu."""
        words = {role: str(own[role] or "") for role in ("x", "y", "a", "b")}
        return own_association(
            **words, kind=str(own["kind"]), template=str(own["template"] or ""), n=int(own["n"] or 0)
        )

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Every word is drawn, and as often as was said."""
        known = set(self.designs[_TESTS].options) - {"tests"}
        options = {name: value for name, value in settings.options.items() if name in known}
        return replace(settings, scale=1.0, options=options)

    def headline(self, report: StudyReport) -> str:
        """One sentence on what was found."""
        return association_view.headline(report)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """All but the influence of prompts, which stands beside its test."""
        return [f for f in report.results.figures if not f.key.startswith(association_view.INFLUENCE)]

    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        """Tests, or occupations."""
        return association_view.closer_looks(report)

    def closer_html(self, report: StudyReport, key: str) -> str:
        """One test in words."""
        return association_view.closer_html(report, key)

    def behind_html(self, report: StudyReport, key: str) -> str:
        """The pictures that lean most to either attribute."""
        return association_view.behind_html(report, key)
