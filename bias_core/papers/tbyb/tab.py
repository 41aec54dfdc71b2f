"""Objects on the page: objects that captions name in pictures, asked for or not."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import gradio as gr

from bias_core.papers.tbyb.study import design_of_prompts, settings_for_prompts, written_scenes
from bias_core.study.types import AUTO, Design, StudyFigure, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.messages import EACH, QUIET, heading_html
from bias_core.ui.study.panels import Updates
from bias_core.ui.study.paper import Paper
from bias_core.ui.study.pictures import PictureView
from bias_core.ui.study.result_page import CHOOSE_JS
from bias_core.ui.templates import render
from bias_core.ui.visitor import Visitor

_PROMPTS = """a doctor talking to a patient
a family having dinner at home
a leader giving a speech
a person cleaning a kitchen"""
_OWN = (
    "One prompt per line; a language model can write scenes with a word. To compare scenes with and without your own "
    "word, choose the study “Objects around a trigger word”, with its options “Trigger words” and “Your own scenes”. "
    "For existing pictures, such as a captioned data set, choose the study “Objects in a captioned dataset” and "
    "“Use my pictures”."
)


class Objects(Paper):
    """Objects in pictures, and on pictures that miss their prompt."""

    key: ClassVar = "objects"
    title: ClassVar = "Objects"
    paper: ClassVar = "TBYB"
    asks: ClassVar = "what surrounds people"
    place: ClassVar = 30
    question: ClassVar = "Which objects appear that no prompt asks for, and do a few objects dominate?"
    caution: ClassVar = (
        "A captioner names only some objects, and no scene shows all objects equally often. So compare with a base: "
        "the same prompts and seeds without the word or condition under study. The paper's B_D, H_J and M_G are below. "
        "With known ground truth (see Trust), B_D and M_G did not rise with a planted object, and H_J was far "
        "from 0 without one. No number shows if an added object does harm."
    )
    studies: ClassVar = ("tbyb-controlled", "tbyb-general", "tbyb-task", "tbyb-dataset")
    also: ClassVar = ("prompted_object_bias",)  # of own words

    def build_own(self) -> dict[str, Any]:
        """Build the fields of prompts and the number of pictures."""
        gr.HTML(_OWN, elem_classes="quiet")
        fields: dict[str, Any] = {}
        with gr.Row():
            fields["prompts"] = gr.Textbox(
                _PROMPTS, label="Your prompts", lines=5, max_lines=14, scale=4, elem_id="objects-prompts",
                min_width=260,
            )  # fmt: skip
            fields["n"] = gr.Number(
                6, label="Pictures per prompt", precision=0, minimum=1, maximum=200, scale=1, min_width=140
            )
        with gr.Row(equal_height=True):
            self.scene_word = gr.Textbox(
                "", label="Word for scenes", placeholder="pizza", max_lines=1, elem_id="objects-scene-word",
                scale=2, min_width=160,
            )  # fmt: skip
            self.write = gr.Button(
                "Write scenes with this word", elem_id="objects-write", size="sm", scale=1, min_width=160
            )
        return fields

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        return design_of_prompts(design, str(own_values["prompts"] or "").splitlines(), int(own_values["n"] or 0))

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Return settings that draw every prompt, independent of the form's share of the paper's pictures."""
        return settings_for_prompts(settings)

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Return the figures that are not shown with their numbers already."""
        return [figure for figure in report.results.figures if figure.key not in APART]

    def build_extra(self) -> dict[str, Any]:
        """Build objects against their base, top objects, examples, and the paper's curve and three dimensions."""
        extra = {"odds": gr.HTML(elem_id="objects-odds")}
        with gr.Column(elem_classes="card"):
            extra["top"] = gr.HTML(js_on_load=CHOOSE_JS, elem_id="objects-top")
        with gr.Column(elem_classes="card"):
            extra["examples"] = gr.HTML(elem_id="objects-examples")
        extra |= {name: gr.HTML(elem_id=f"objects-{name}") for name in ("curve", "space")}
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        plot = self.page.plot(report)
        is_plotted = plot is not None and plot.key == "log_odds"  # it is next to the pictures
        return {self.extra[name]: _HEADINGS.get(name, "") + shown(report) for name, shown in _SHOWN.items()} | {
            self.extra["odds"]: odds_html(report, with_figure=not is_plotted)
        }

    def wire_panels(self) -> None:
        """Wire the objects to their pictures, and the button that writes scenes."""
        parts, page = self.page.parts, self.page
        self.write.click(
            self.on_write, [self.scene_word, page.form["model"], self.own["prompts"], parts["visitor"]],
            [self.own["prompts"], parts["status"]], **QUIET,
        )  # fmt: skip
        self.extra["top"].select(self.on_object, parts["report"], page.pictures.outputs(), **EACH).success(
            None, js="() => document.querySelector('#paper-pictures')?.scrollIntoView({behavior: 'smooth'})", **QUIET
        )

    def on_write(self, word: str, model: str, prompts: str, visitor: Visitor) -> tuple[str, str]:
        """Replace the prompts with the language model's scenes, to edit before a run."""
        with messages.user_errors() as problem:
            scenes = written_scenes(word, AUTO, model, visitor.services(self.services))
            return "\n".join(scenes), messages.done_html(f"{len(scenes)} scenes were written; edit them, then run.")
        return prompts, messages.error_html(problem.message)

    def on_object(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        if report is None:
            return gr.skip()
        return self.page.pictures.show_only(
            PictureView(report=report, picture_filter=f"objects={event.object}", whole=True)
        )


APART = ("log_odds", "figure2", "figure4", "top_objects")  # figures that this tab shows next to their numbers

_MOST_GROUPS = 4
_EXAMPLES = 3
_MOST_ODDS = 4  # objects of each set of pictures
_ODDS = {
    "object": "object", "pictures with it": "with it", "with it in the base": "base", "n": "of n pairs",
    "log-odds": "log-odds", "low": "low", "high": "high", "p adjusted": "p adjusted", "clear": "clear",
}  # fmt: skip
_CURVE = {
    "n": "n, pictures", "objects": "vocabulary", "B_D": "B_D", "B_D low": "B_D low", "B_D high": "B_D high",
    "normalised entropy": "entropy", "Gini": "Gini", "effective number": "effective number",
}  # fmt: skip


def odds_html(report: StudyReport, *, with_figure: bool = True) -> str:
    """Return the objects with the clearest change from the base, with numbers; "" without a base."""
    figure, table = _find_figure(report, "log_odds"), report.results.frame("log_odds")
    if figure is None or table.empty:
        return ""
    note = next(t.note for t in report.results.tables if t.key == "log_odds")
    few = table.groupby(table.columns[0], sort=False).head(_MOST_ODDS)
    known = table.columns.intersection([*_ODDS], sort=False)  # older reports have no word
    few = few[[table.columns[0], *known]].rename(columns=_ODDS)
    shown = figure if with_figure else None
    return render("beside", figure=shown, title="Objects against the base", note=note, frame=few, key="log_odds")


def curve_html(report: StudyReport) -> str:
    """Return Fig. 2, next to the numbers that its area depends on."""
    figure = _find_figure(report, "figure2")
    key = "measures" if report.results.frame("conditions").empty else "conditions"
    table = report.results.frame(key)
    if figure is None or table.empty:
        return ""
    few = table[[table.columns[0], *(c for c in _CURVE if c in table)]].rename(columns=_CURVE)
    note = (
        "B_D is the area under the curve, scaled from 0 to 1; lower is more biased. It has no upper limit and grows "
        "with n and the vocabulary, so compare it at equal n only. These are bounded: normalised entropy (0 to 1, 1 is "
        "even), Gini (0 to 1, 0 is even), and the effective number (at most the vocabulary)."
    )
    return render("beside", figure=figure, title="B_D and related measures", note=note, frame=few, key=key)


def space_html(report: StudyReport) -> str:
    """Return Fig. 4 with its numbers; "" for a single model."""
    figure, table = _find_figure(report, "figure4"), report.results.frame("comparison")
    if figure is None or table.empty:
        return ""
    note = next(t.note for t in report.results.tables if t.key == "comparison")
    first = [c for c in ("condition", "model", "prompts", "rank", "distance") if c in table]
    ordered = table[[*first, *table.columns.difference(first, sort=False)]]
    return render("beside", figure=figure, title="Numbers of the figure", note=note, frame=ordered, key="comparison")


def top_html(report: StudyReport) -> str:
    """Return the most frequent objects of each set; choosing one shows its pictures."""
    top = report.results.frame("top_objects")
    if top.empty:
        return ""
    return render(
        "top_objects",
        groups=[(name, rows.to_dict("records")) for name, rows in top.groupby("pictures", sort=False)][:_MOST_GROUPS],
    )


def examples_html(report: StudyReport) -> str:
    """Return the prompts and captions that differ most and least."""
    frame = report.pictures
    if frame is None or "H_J" not in frame or frame["H_J"].notna().sum() < 2:
        return ""
    ranking = frame.dropna(subset="H_J").sort_values("H_J", kind="stable")
    n = min(_EXAMPLES, len(ranking) // 2)
    sides = {"Furthest from their prompts": ranking.tail(n).iloc[::-1], "Closest to their prompts": ranking.head(n)}
    return render(
        "captioned",
        sides={title: examples.to_dict("records") for title, examples in sides.items()},
        stored=report.stored,
    )


def _find_figure(report: StudyReport, key: str) -> StudyFigure | None:
    return next((figure for figure in report.results.figures if figure.key == key), None)


_SHOWN = {"odds": odds_html, "space": space_html, "curve": curve_html, "top": top_html, "examples": examples_html}
"""Components next to the figures, by name, with the functions that fill them."""
_HEADINGS = {
    "top": heading_html(
        "The most frequent objects", "Number of pictures whose caption names it. Choose one to see its pictures below."
    ),
    "examples": heading_html("Captions"),
}
