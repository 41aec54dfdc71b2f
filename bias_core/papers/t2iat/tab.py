"""Association on the page: T2IAT's tests, occupations, amplification and human comparison, and own words."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.papers.t2iat.report import describe_size, find_test, tests_table
from bias_core.papers.t2iat.study_tests import OTHER_P, TestOptions, own_association
from bias_core.report.report_text import get_table
from bias_core.study.types import Design, StudyFigure, StudyReport, get_options
from bias_core.ui.study.paper import Paper, extremes_html
from bias_core.ui.templates import render
from bias_core.values import declared_settings
from bias_core.wording import format_p

_EDITS = [
    ("Add the word at the end: “a photo of a rose, peace”", "valence"),
    ("Put it in place of “person”: “a man studying art”", "gender"),
]
_INFLUENCE = "influence_"  # start of the keys of figures that are shown next to their test
_BEHIND = (
    "Drawn without any attribute word; the number below is the association. Pictures at one end may share light, "
    "setting or style: look at them before you conclude."
)


class Association(Paper):
    """Associations of two concepts with two attributes."""

    key: ClassVar = "association"
    title: ClassVar = "Association"
    paper: ClassVar = "T2IAT"
    asks: ClassVar = "which concepts look alike"
    place: ClassVar = 10
    question: ClassVar = "Are pictures of one concept closer to an attribute than pictures of another concept?"
    caution: ClassVar = (
        "A difference describes the pictures of two concepts, as this encoder sees them. It does not say which concept "
        "is drawn wrongly, and the encoder has associations of its own."
    )
    studies: ClassVar = ("t2iat-tests", "t2iat-occupations", "t2iat-amplification", "t2iat-human")
    closer: ClassVar = True
    own_options: ClassVar = declared_settings(TestOptions).keys() - {"tests"}

    def build_own(self) -> dict[str, Any]:
        """Build the fields of two concepts, two attributes, and the way of editing prompts."""
        fields: dict[str, Any] = {}
        words = {
            "x": ("Concept X", "Sweet: cake, honey, candy, jam", "Words, optionally after a name and a colon"),
            "y": ("Concept Y", "Sour: lemon, vinegar, pickle, lime", "At least two words; a clear answer needs four"),
            "a": ("Attribute A", "pleasant: peace, love, happy", "Each prompt gets one word, in turn"),
            "b": ("Attribute B", "unpleasant: grief, poison, ugly", "Same as A"),
        }
        with gr.Row():
            for role, (label, value, info) in words.items():
                fields[role] = gr.Textbox(
                    value, label=label, info=info, lines=2, min_width=220, elem_id=f"{self.key}-own-{role}"
                )
        with gr.Row():
            fields["template"] = gr.Textbox(
                "a photo of a {}", label="Prompt", info="{} stands for a word of X or Y", min_width=220
            )
            fields["kind"] = gr.Radio(_EDITS, value="valence", label="Place of the attribute word", min_width=300)
            fields["n"] = gr.Slider(2, 20, 4, step=1, label="Pictures per prompt", min_width=180)
        return fields

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        """Return one test of these words, independent of the chosen study."""
        return own_association(
            **{name: str(own_values[name] or "") for name in ("x", "y", "a", "b", "kind", "template")},
            n=int(own_values["n"] or 0),
        )

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Return all figures except the influence of prompts, which is shown next to its test."""
        return [f for f in report.results.figures if not f.key.startswith(_INFLUENCE)]

    def closer_looks(self, report: StudyReport) -> Sequence[tuple[str, str]]:
        """Return tests, occupations, or tests with judged pictures."""
        if _is_test(report):
            return [(finding.title, finding.key) for finding in report.results.findings]
        frame, titles = report.pictures, report.design.data["titles"]
        if frame is None:
            return []
        names = {test["key"]: f"{titles[test['x']]} / {titles[test['y']]}" for test in report.design.data["tests"]}
        return [
            (names.get(value, value), value)
            for value in dict.fromkeys(frame["occupation" if "occupation" in frame else "test"])
        ]

    def closer_html(self, report: StudyReport, key: str) -> str:
        """Return one test in words with its most influential prompts; "" without a test."""
        if not _is_test(report):
            return ""
        table, influence = tests_table(report), get_table(report, "influence").frame
        row = table[table["test"] == key].iloc[0].to_dict()
        influence = influence[influence["test"] == key]
        without = influence["S without it"]
        other_p = OTHER_P.get(get_options(report.settings, TestOptions).p_value, "")
        return render(
            "association_words",
            row=row,
            finding=next(finding for finding in report.results.findings if finding.key == key),
            other_p=f"{other_p[:1].upper()}{other_p[1:]}, by which nothing is claimed: {_format_p_value(row[other_p])}."
            if other_p in row
            else "",
            n_tests=len(table),
            means={title: float(frame["association"].mean()) for title, frame in _ends(report, key).items()},
            size=describe_size(row["d"]),
            turning=influence.loc[influence["S changes its sign"], "left out"].tolist(),
            reach=(without.min(), without.max()),
            strongest=influence.iloc[0]["left out"],
            figures=[f for f in report.results.figures if f.key == f"{_INFLUENCE}{key}" and not f.data.empty],
        )

    def behind_html(self, report: StudyReport, key: str) -> str:
        """Return the neutral pictures that are closest to either attribute."""
        test = find_test(report, key) or {"a": "male", "b": "female"}
        high, low = (f"nearest to “{test[side]}”" for side in ("a", "b"))
        return extremes_html(report, "association", _ends(report, key), low=low, high=high, note=_BEHIND)


def _format_p_value(p_value: float | str) -> str:
    return p_value if isinstance(p_value, str) else format_p(p_value)


def _is_test(report: StudyReport) -> bool:
    """Return True if the report compares two concepts."""
    return any(table.key == "table1" for table in report.results.tables)


def _ends(report: StudyReport, key: str) -> dict[str, pd.DataFrame]:
    """Return the neutral pictures of a test's concepts, or of an occupation."""
    frame = report.pictures
    if frame is None or "association" not in frame:
        return {}
    frame = frame[frame["association"].notna()]
    if "occupation" in frame:
        return {key: frame[frame["occupation"] == key]}
    test, titles = find_test(report, key), report.design.data["titles"]
    test_pictures = frame[frame["test"] == key]
    return {titles[test[side]]: test_pictures[test_pictures["side"] == side] for side in "xy" if test}
