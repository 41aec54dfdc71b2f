"""Origins on the page: OASIS's clusters and texts (StOP), steps (SPI) as a film, nationalities, other concepts."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import gradio as gr
import numpy as np
import pandas as pd

from bias_core.papers.oasis.cells import own_concepts, without_names
from bias_core.papers.oasis.report import GAIN, PROMPTS, read_texts, step_sentences
from bias_core.papers.oasis.study_stop import TEXTS, PromptSearchOptions, Regenerated, cluster_names, regenerate
from bias_core.report.claims import p_words
from bias_core.report.figures import N_COLOURS
from bias_core.report.report_text import get_table
from bias_core.study.types import MAX_STEPS, Design, StudyFigure, StudyReport, StudySettings, get_options
from bias_core.types import Attribute, Estimate
from bias_core.ui import messages
from bias_core.ui.messages import EACH, user_errors
from bias_core.ui.model_menu import HEADERS, attribute_rows, read_attribute_table
from bias_core.ui.study.panels import Updates
from bias_core.ui.study.paper import Paper
from bias_core.ui.study.parts import SideRun
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor
from bias_core.wording import format_change, format_estimate

_TICKS = 5
_SHOWN = 12  # pictures of each side of a comparison
_SPI, _STOP, _NATIONS = "oasis-spi", "oasis-stop", "oasis-nationalities"
_TRACED, _USUAL = "calibration-diffusion", StudySettings().model
# The most steps of any sampler, so that each step shows its predicted picture.
_SHOWN_OPTIONS: Mapping[str, Mapping[str, Any]] = {_SPI: {"n_samples": 3, "n_predicted": MAX_STEPS}}
_NEEDS_STEPS = (
    "This study needs denoising steps, and {} has none: the diffusion model of the calibration world was chosen."
)
_OWN_WORDS = (
    "The study chosen above runs with these concepts. It measures at which step an attribute appears (SPI), which text "
    "fits a cluster of pictures best (StOP, needs no attributes), or the stereotype score Ψ by number of internet "
    "users (enter the numbers below, with steps and guidance). For shares of several concepts, use Explore."
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


class Origins(Paper):
    key: ClassVar = "origins"
    title: ClassVar = "Origins"
    paper: ClassVar = "OASIS"
    asks: ClassVar = "when a look appears"
    place: ClassVar = 50
    question: ClassVar = "Which look does the model give a concept, and at which step does it appear?"
    caution: ClassVar = (
        "Results describe pictures, as a classifier sees them, not the people of a nationality. A close text, or a "
        "step that adds an attribute, is a trace of the training data, not an explanation."
    )
    studies: ClassVar = (_SPI, _NATIONS, _STOP, "oasis-doctors", "oasis-internet-users")

    def shown_options(self, study: str) -> Mapping[str, Any]:
        """Return the options with which SPI shows a predicted picture at every step."""
        return _SHOWN_OPTIONS.get(study, {})

    def build_own(self) -> dict[str, Any]:
        """Build the fields of concepts, prompt and attributes."""
        fields: dict[str, Any] = {}
        with gr.Row():
            fields["concepts"] = gr.Textbox(
                "nurse", label="Concepts", info="One or more, separated by commas", scale=3, min_width=200,
                elem_id=f"{self.key}-own-concepts",
            )  # fmt: skip
            fields["template"] = gr.Textbox(
                "A photo of a {}", label="Prompt", info="{} stands for the concept", scale=3, min_width=200
            )
            fields["n"] = gr.Slider(
                1, 60, 4, step=1, label="Pictures of each", info="For SPI: number of seeds", scale=3, min_width=180
            )
        fields["attributes"] = gr.Dataframe(
            attribute_rows(_OWN), headers=HEADERS, datatype="str", type="array", interactive=True, wrap=True,
            label="Attributes: a sentence if present, one if absent, and the real-world rate if known",
            buttons=[], max_height=300, elem_id=f"{self.key}-own-attributes",
        )  # fmt: skip
        gr.HTML(_OWN_WORDS, elem_classes="quiet")
        return fields

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        """Return the chosen study with these concepts."""
        return own_concepts(
            design,
            concepts=str(own_values["concepts"] or "").split(","),
            template=str(own_values["template"] or ""),
            attributes=read_attribute_table(own_values["attributes"]),
            n=int(own_values["n"] or 0),
        )

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Return settings that draw every concept, as often as asked."""
        return without_names(settings)

    def build_lead(self) -> dict[str, Any]:
        """Build the film of the steps, with curves and predicted pictures."""
        return {"film": gr.HTML(js_on_load=script("film"), elem_id=f"{self.key}-film", visible=False)}

    def show_at_once(self, report: StudyReport) -> Updates:
        html = "" if report.arms or not self.claims(report.design) else films_html(report)
        return {self.at_once["film"]: gr.update(value=html, visible=bool(html))}

    def has_plot(self, figure: StudyFigure, report: StudyReport) -> bool:
        """Return False if the film shows the figure."""
        return bool(report.arms) or not figure.key.startswith(GAIN)

    def has_extra(self, report: StudyReport) -> bool:
        """Return True if the report has clusters with their texts."""
        return not report.arms and bool(cluster_names(report))

    def build_extra(self) -> dict[str, Any]:
        """Build the clusters, and a form that draws from a text."""
        key, extra = self.key, {}
        extra["clusters"] = gr.HTML(js_on_load=script("texts"), elem_id=f"{key}-clusters", visible=False)
        with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-draw") as extra["box"]:
            gr.HTML(messages.heading_html("Draw pictures of a text and compare them with its cluster"))
            with gr.Row(equal_height=True, elem_classes="line"):
                extra["cluster"] = gr.Dropdown(label="Cluster", scale=2, min_width=200, elem_id=f"{key}-cluster")
                extra["text"] = gr.Textbox(label="Text", max_lines=1, scale=4, min_width=220, elem_id=f"{key}-text")
                extra["n"] = gr.Number(6, label="Pictures", precision=0, scale=1, min_width=110)
            self.drawing = SideRun(self.services)
            self.drawing.build("Draw and compare", variant="primary", min_width=200, elem_id=f"{key}-go")
            self.drawing.build_status(f"{key}-said")
            extra["said"] = self.drawing.status
            extra["compared"] = gr.HTML(elem_id=f"{key}-compared")
        return extra

    def show_extra(self, report: StudyReport) -> Updates:
        """Show the parts that belong to this kind of study; the rest is hidden."""
        names, texts, extra = cluster_names(report), read_texts(report), self.extra
        first = (
            texts["name"].iloc[0] if not texts.empty else names[0] if names else None
        )  # the cluster of the text in the form
        clusters = clusters_html(report)
        return {
            extra["clusters"]: gr.update(value=clusters, visible=bool(clusters)),
            extra["box"]: gr.update(visible=bool(names)),
            extra["cluster"]: gr.update(choices=names, value=first),
            extra["text"]: "" if texts.empty else str(texts["prompt"].iloc[0]),
            extra["said"]: "",
            extra["compared"]: "",
        }

    def wire_panels(self) -> None:
        """Wire the choice of texts, and the drawing of pictures."""
        extra = self.extra
        extra["clusters"].submit(self.on_text, None, [extra["cluster"], extra["text"]], **EACH)
        inputs = [self.page.parts["report"], extra["cluster"], extra["text"], extra["n"]]
        self.drawing.wire(self.page, self.on_draw, inputs, [extra["compared"]])

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Return the figures that the tab does not show in its own way."""
        has_viewer = report.design.kind in ("propagation", "optimised_prompts")
        shown = (figure for figure in report.results.figures if figure.kind != "pictures" or not has_viewer)
        return [figure for figure in shown if not figure.key.startswith(GAIN)]

    def on_study(self, study: str, model: str) -> Updates:
        """Choose a model with denoising steps if the study needs one, and say so; else the usual model again."""
        with user_errors():
            info, usual = self.services.model_info(model), self.designs[study].settings.get("model", _USUAL)
            is_needed = usual == _TRACED and info.family == "renderer"
            if is_needed or (model == _TRACED and usual != _TRACED):
                note = messages.done_html(_NEEDS_STEPS.format(info.name)) if is_needed else ""
                return self.page.choose_model(usual) | {self.page.parts["status"]: note}
        return {}

    def on_text(self, event: gr.EventData) -> tuple[str, str]:
        """Fill in the text that was chosen on a cluster's card."""
        return str(event.cluster), str(event.text)

    def on_draw(
        self, visitor: Visitor, report: StudyReport | None, cluster: str, text: str, n: float | None
    ) -> Iterator[Updates]:
        """Draw from a text and compare; the earlier comparison stays until then."""
        if report is None:
            yield {self.drawing.status: messages.error_html(messages.NOTHING_DONE)}
            return
        request: dict[str, Any] = {"cluster": cluster or "", "prompt": text or "", "n": int(n or 0)}
        start = partial(regenerate, report, self.services, cancelled=visitor.stop.is_set, **request)
        shown = self.extra["compared"]
        yield from self.drawing.follow(visitor, start, lambda both: {shown: regenerated_html(both)})


@dataclass(frozen=True, kw_only=True)
class Line:
    name: str
    number: int
    colour: int  # index of one of the page's
    classes: str  # its colour, and what its button hides
    band: tuple[Estimate, ...]  # predicted gain over seeds and its interval, a step each
    clear: int | None  # the first step, from 0, whose own interval excludes 0; None unless the whole gain is clear
    finished: Estimate  # share of finished pictures in which the classifier sees it
    says: tuple[str, ...]  # sentences on the steps at which it is seen, on its gain and on SPI


@dataclass(frozen=True, kw_only=True)
class Film:
    """One concept's curves and predicted pictures."""

    key: str
    labels: Mapping[str, Any]  # of the figure of its curves: concept, base prompt, and the key of its filmstrips
    confidence: float
    lines: tuple[Line, ...]
    strips: Mapping[str, list[tuple[int, Path]]]  # by seed, (step from 1, file), the finished one last
    reads: Mapping[str, list[str]]  # numbers of the attributes that the classifier sees in them
    n_seeds: int  # behind every mean
    n_steps: int
    low: float  # ends of the axis: bands and 0
    high: float
    ticks: list[float]  # round numbers within the axis, 0 among them

    def y(self, value: float) -> str:
        """Return the place of a value, in hundredths of the height from above."""
        return f"{100 * (self.high - value) / (self.high - self.low):.2f}"

    def points(self, values: Iterable[float], *, back: bool = False) -> str:
        """Return a curve with a value in the middle of each step's column, from the first or the last one on."""
        places = [f"{i + 0.5:g},{self.y(value)}" for i, value in enumerate(values)]
        return " ".join(reversed(places) if back else places)

    def tops(self, line: Line) -> str:
        """Return the heights of a line's curve at each step, and at the finished picture."""
        return " ".join(self.y(step.value) for step in (*line.band, line.band[-1]))

    def sentence(self, line: Line) -> str:
        """Say the share in the finished pictures."""
        end = line.finished
        return f"In the finished pictures its share is {format_estimate(end.value, end.low, end.high, n=end.n)}."


def round_numbers(low: float, high: float) -> list[float]:
    """Return about five round numbers for an axis.

    >>> round_numbers(-0.23, 0.41)
    [-0.2, 0.0, 0.2, 0.4]
    """
    rough = (high - low) / _TICKS
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
    return [round(k * step, 10) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def films_html(report: StudyReport) -> str:
    """Return all concepts of an SPI report with curves, filmstrips and sentences; "" for other reports."""
    return render("film", films=films(report))


def films(report: StudyReport) -> list[Film]:
    """Return the films of an SPI report; empty for other reports."""
    figures = {figure.key: figure for figure in report.results.figures}
    return [_film(report, figure, figures) for key, figure in figures.items() if key.startswith(GAIN)]


def _film(report: StudyReport, figure: StudyFigure, figures: Mapping[str, StudyFigure]) -> Film:
    labels, data = figure.labels, figure.data
    table = get_table(report, "spi").frame
    finished = {row["attribute"]: row for row in table[table["nationality"] == labels["concept"]].to_dict("records")}
    lines = tuple(
        _build_curve(str(name), i, points, finished[name], step_sentences(report, f"{labels['concept']} {name}"))
        for i, (name, points) in enumerate(data.groupby("group", sort=False))
    )
    spans = [0.0, *data[["value", "low", "high"]].to_numpy(float).ravel()]
    low, high = float(np.nanmin(spans)), float(np.nanmax(spans))
    margin = 0.06 * (high - low) or 0.1
    n_steps, strips, reads = len(lines[0].band), dict[str, list[tuple[int, Path]]](), dict[str, list[str]]()
    for row in figures[labels["predicted"]].data.to_dict("records"):
        step = n_steps if row["column"] == "finished" else int(row["column"])
        strips.setdefault(str(row["row"]), []).append((step + 1, Path(row["path"])))
        reads.setdefault(str(row["row"]), []).append(str(row["reads"]))
    return Film(
        key=figure.key,
        labels=labels,
        confidence=report.settings.confidence,
        lines=lines,
        strips=strips,
        reads=reads,
        n_seeds=lines[0].finished.n,
        n_steps=n_steps,
        low=low - margin,
        high=high + margin,
        ticks=round_numbers(low - margin, high + margin),
    )


def _build_curve(name: str, number: int, points: pd.DataFrame, end: Mapping[str, Any], says: Sequence[str]) -> Line:
    colour = number % N_COLOURS
    share, low, high = (float(end[f"finished P{suffix}"]) for suffix in ("", " low", " high"))
    finally_read = Estimate(value=share, low=low, high=high, n=int(end["seeds"]))
    band = tuple(
        Estimate(value=s["value"], low=s["low"], high=s["high"], n=finally_read.n)
        for s in points[["value", "low", "high"]].astype(float).to_dict("records")
    )
    return Line(
        name=name,
        number=number,
        colour=colour,
        classes=f"c{colour} line-{number}",
        band=band,
        clear=None if np.isnan(end["first clear"]) else int(end["first clear"]) - 1,
        finished=finally_read,
        says=tuple(says),
    )


def clusters_html(report: StudyReport) -> str:
    """Return every searched cluster: its average, typical pictures, and its texts with their scores."""
    texts = read_texts(report)
    if texts.empty:
        return ""
    pictures = next(figure.data for figure in report.results.figures if figure.key == PROMPTS)
    paths = {
        name: cluster_pictures.set_index("column")["path"]
        for name, cluster_pictures in pictures.groupby("row", sort=False)
    }
    clusters = [
        (name, cluster_texts.to_dict("records"), paths[name]["average"], list(paths[name].filter(like="typical")))
        for name, cluster_texts in texts.groupby("name", sort=False)
    ]
    adjective = "most specific" if get_options(report.settings, PromptSearchOptions).contrast else "closest"
    return render("clusters", key=PROMPTS, clusters=clusters, how=adjective)


def regenerated_html(comparison: Regenerated) -> str:
    """Return cluster and drawn pictures side by side, with their similarities and a verdict."""
    groups = {
        "the cluster's own, to each other": comparison.own_side,
        "drawn from the text": comparison.drawn,
        "the concept's other pictures": comparison.other_side,
    }
    rows = [{"group": name, "value": float(value)} for name, side in groups.items() for value in side.closeness]
    figure = TEXTS.figure("closeness", pd.DataFrame(rows).dropna(ignore_index=True))
    return render(
        "comparison",
        both=comparison,
        verdict=_verdict(comparison),
        groups=list(groups.items()),
        figure=figure,
        most=_SHOWN,
    )


def _verdict(comparison: Regenerated) -> str:
    """Say if the drawn pictures are clearly closer to the cluster than the concept's other pictures."""
    own_test, other_test = comparison.beyond_own, comparison.beyond_others
    is_below_own = own_test is not None and own_test[1].verdict == "below"
    if other_test is None:
        if is_below_own:
            return (
                "This text does not reproduce the whole cluster: the cluster's own pictures are closer to each other."
            )
        return "There are no other pictures of the concept, so it is not known if this text is special to the cluster."
    if other_test[1].verdict == "too few":
        return "These pictures are too few to compare the text with the cluster; draw more."
    change, p = format_change(other_test[0].value, other_test[0].low, other_test[0].high), p_words(other_test[1])
    by = f"{change}, {p}, n = {len(comparison.drawn.closeness)}"
    nearer = f"closer than the concept's other pictures ({by})"
    if other_test[1].verdict == "above" and is_below_own:
        return f"This text partly reproduces the cluster: {nearer}, but clearly less close than the cluster's own."
    return other_test[1].choose(
        f"This text reproduces the cluster: {nearer}, and not clearly less close than the cluster's own.",
        f"This text does not reproduce the cluster: the concept's other pictures are closer to it ({by}).",
        f"This text is not clearly closer to the cluster than the concept's other pictures ({by}).",
    )
