"""The Explore tab: a concept and attributes in, pictures and scores out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.explore import view
from bias_core.studies.explore.arms import arms_summary
from bias_core.studies.explore.old_runs import COMPARE
from bias_core.studies.explore.options import KIND, NO_WORDS, OLD_KIND, explore_settings
from bias_core.studies.explore.report import Exploration, is_exploration
from bias_core.studies.explore.results import CONCEPT, group_name
from bias_core.studies.explore.tab_form import ExploreForm
from bias_core.studies.explore.tab_pairs import Pairs
from bias_core.studies.kit.setting_fields import changed_settings
from bias_core.studies.kit.types import Arm, StudyReport, StudySettings
from bias_core.ui import messages
from bias_core.ui.study import view as study_html
from bias_core.ui.study.form import Preset, build_take
from bias_core.ui.study.pictures import Look, Pictures
from bias_core.ui.study.study_tab import QUIET, Updates
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.types import StudyFigure

_APART = ("shares", "alike")  # figures that stand beside the pictures
_REVEAL = """() => {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const behavior = calm ? 'auto' : 'smooth';
  document.querySelector('#explore-picture article')?.scrollIntoView({behavior, block: 'nearest'});
}"""
_INTERVENTION = "{}, if all individuals can be a CEO irrespective of their gender"


def _preset(name: str, says: str, concept: str, arms: Sequence[Arm], **options: Any) -> Preset:
    """A comparison in one click: the same concept on the same seeds, drawn in several arms."""
    settings = explore_settings(StudySettings(), concept=concept, arms=tuple(arms), **options)
    return Preset(name=name, study=KIND, says=says, settings=changed_settings(settings))


class ExploreTab(ExploreForm):
    """A concept in one's own words."""

    place: ClassVar = 0
    key: ClassVar = "explore"
    title: ClassVar = "Explore"
    question: ClassVar = "What does a model draw for a concept, and how far is that from the world?"
    caution: ClassVar = "It is about what pictures show to a reader, never about who anybody is."
    studies: ClassVar = (KIND,)
    also: ClassVar = (OLD_KIND, COMPARE)
    presets: ClassVar = (
        _preset(
            "Fair against published: doctor",
            "The same model with and without the bias that was planted",
            "doctor",
            [Arm(condition="fair"), Arm(condition="published")],
            n_images=60,
            n_attribute_images=12,
        ),
        _preset(
            "Plain against fairness-intervened prompt: CEO",
            "Words that ask for fairness, after Table 5 of the paired stereotype test",
            "CEO",
            [Arm(name="plain"), Arm(name="intervened", template=_INTERVENTION)],
            n_images=60,
            **NO_WORDS,
        ),
        _preset(
            "Renderer against diffusion: doctor",
            "Two models of the same world: one draws the planted rates, one learned them",
            "doctor",
            [Arm(name="renderer"), Arm(name="diffusion", model="calibration-diffusion")],
            **NO_WORDS,
        ),
        _preset(
            "Fair, published, extreme: nurse",
            "Three arms on the plane of stereotype and variety",
            "nurse",
            [Arm(condition=condition) for condition in ("fair", "published", "extreme")],
            n_images=30,
            **NO_WORDS,
        ),
    )

    # Layout.

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; pictures come first, then the numbers."""
        parts = self.parts
        parts |= {"visitor": visitor, "report": gr.State(None), "row": gr.State(None)}
        with gr.Column(elem_classes="card ask"):
            self._build_ask()
        parts["status"] = gr.HTML(messages.READY, elem_id="status")
        parts["welcome"] = gr.HTML(render("explore_welcome"))
        self._build_results()
        self._wire(demo)

    def _build_results(self) -> None:
        parts, extra, key = self.parts, self.extra, self.key
        brush, take = {"js_on_load": script("brush")}, {"js_on_load": study_html.TAKE_JS}
        parts["header"] = gr.HTML(elem_id="header", elem_classes="header")
        with gr.Row(visible=False, elem_id="pictures") as parts["shown"]:
            with gr.Column(scale=6, min_width=340):
                extra["groups"] = gr.HTML(elem_id="groups", visible=False, elem_classes="card", **brush)
                self.pictures = Pictures(key)
            with gr.Column(scale=5, min_width=340, elem_classes="card") as parts["extra"]:
                extra["shares"] = gr.HTML(elem_id="shares", **take)
                extra["map"] = gr.HTML(elem_id="map", **brush)
        self.pairs = Pairs(key)
        with gr.Column(visible=False, elem_id="results", elem_classes="results") as parts["results"]:
            with gr.Column(elem_classes="card"):
                parts["findings"] = gr.HTML(elem_id=f"{key}-findings", **take)
            extra["sentences"] = gr.HTML(elem_id=f"{key}-sentences", elem_classes="card")
            parts["figures"] = gr.HTML(elem_id=f"{key}-figures", **take)
            with gr.Column(elem_classes="card"):
                parts["tables"] = gr.HTML(elem_id=f"{key}-tables", **take)
                parts["notes"] = gr.HTML()
            parts.update(build_take(key))

    # Wiring.

    def outputs(self) -> list[Any]:
        """Everything that a finished run changes."""
        return [*super().outputs(), self.parts["shown"], self.parts["welcome"], *self.pairs.outputs()]

    def wire_extra(self) -> None:
        """Groups and the map choose pictures."""
        extra, report = self.extra, self.parts["report"]
        self.wire_take(extra["shares"])
        chosen = [extra["groups"], extra["map"], *self.pictures.outputs()]
        for source in (extra["groups"], extra["map"]):
            source.select(self.on_choose, report, chosen, **QUIET)
        self.pictures.gallery.select(None, js=_REVEAL, **QUIET)
        self.pairs.wire(report)

    def on_choose(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """A group button or a point of the map was chosen."""
        if report is None:
            return {}
        seen, chart = Exploration(report), self.extra["map"]
        if number := int(event.number):
            picture = view.picture_html(seen, number)
            return {self.pictures.picture: picture, chart: view.map_html(seen, opened=number)}
        group = int(event.group)
        which = f"group={CONCEPT}" if group == view.ALL else f"looks_like={group_name(group)}"
        return {
            **self.pictures.show_only(Look(report=report, which=which)),
            self.extra["groups"]: view.group_buttons(seen, group),
            chart: view.map_html(seen, group),
        }

    # What is shown.

    def growing(self) -> Callable[[Progress], Updates]:
        """The grid, whenever it has grown."""
        grid = view.GrowingGrid()
        return lambda step: self._grid(grid.grown(step))

    def _grid(self, pictures: list[tuple[str, str]] | None) -> Updates:
        if pictures is None:
            return {}
        parts, extra = self.parts, self.extra
        hidden = (parts["welcome"], parts["results"], extra["map"], extra["groups"])
        return {
            **dict.fromkeys(hidden, gr.update(visible=False)),
            parts["header"]: "",
            parts["shown"]: gr.update(visible=True),
            parts["extra"]: gr.update(visible=True),
            self.pictures.box: gr.update(visible=True),
            self.pictures.gallery: gr.update(value=pictures, selected_index=None),
            self.pictures.picture: "",
            extra["shares"]: messages.WAITING,
        }

    def finished(self, report: StudyReport) -> Updates:
        """All of a report."""
        parts, updates = self.parts, super().finished(report)
        report, alone = updates[parts["report"]], is_exploration(report) and not report.arms
        if alone and updates[self.pictures.look] is not None:
            # Those that are scored: the concept's, where others were drawn beside them.
            several = report.pictures is not None and report.pictures["group"].nunique() > 1
            look = Look(report=report, which=f"group={CONCEPT}" if several else "")
            menu = updates[self.pictures.which] | {"value": look.which}
            updates |= self.pictures.show_only(look) | {self.pictures.which: menu}
        return updates | {
            parts["welcome"]: gr.update(visible=False),
            parts["shown"]: gr.update(visible=True),
            parts["extra"]: gr.update(visible=alone),
            **(self.show_extra(report) if report.arms else {}),
        }

    def told(self, report: StudyReport) -> Updates:
        """The numbers, figures and tables of a report; what must be known stands right under its headline."""
        notes = list(report.results.notes)
        if report.unknown_words:
            words = ", ".join(f"“{word}”" for word in report.unknown_words)
            notes.insert(0, f"The calibration world does not know {words}; the pictures were drawn without it.")
        header = study_html.header_html(report, self.headline(report)) + render("explore_notes", notes=notes)
        return super().told(report) | {self.parts["header"]: header}

    def show_extra(self, report: StudyReport) -> Updates:
        """Groups, map, shares and sentences of an exploration; of arms their pairs."""
        extra = self.extra
        if not is_exploration(report) or report.arms:
            return dict.fromkeys(extra.values(), gr.update(value="", visible=False)) | self.pairs.show(report)
        seen = Exploration(report)
        buttons, chart = view.group_buttons(seen), view.map_html(seen)
        shares = study_html.figures_html([figure for figure in report.results.figures if figure.key == "shares"])
        return {
            extra["groups"]: gr.update(value=buttons, visible=bool(buttons)),
            extra["map"]: gr.update(value=chart, visible=bool(chart)),
            extra["shares"]: gr.update(value=shares, visible=True),
            extra["sentences"]: gr.update(value=view.sentences_html(seen), visible=True),
            self.pairs.box: gr.update(visible=False),
        }

    def headline(self, report: StudyReport) -> str:
        """One sentence on what stands out, another on the rest."""
        if not is_exploration(report):
            return super().headline(report)
        return arms_summary(report) if report.arms else view.headline(Exploration(report))

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Those that do not stand beside the pictures."""
        beside = _APART if is_exploration(report) and not report.arms else ()
        return [figure for figure in report.results.figures if figure.key not in beside]

    def picture_html(self, report: StudyReport, row: pd.Series[Any]) -> str:
        """One picture large, with what the reader saw in it."""
        if not is_exploration(report) or report.arms or row["group"] != CONCEPT:
            return ""
        return view.picture_html(Exploration(report), int(row["number"]))
