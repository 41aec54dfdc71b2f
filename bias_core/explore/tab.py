"""The Explore tab: a concept and attributes in, pictures and scores out; the same seed drawn in two arms."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.explore import view
from bias_core.explore.arms import SEED_GIVES_ANOTHER, SEEDS
from bias_core.explore.options import KIND
from bias_core.explore.report import Exploration, is_exploration
from bias_core.explore.results import CONCEPT, group_name
from bias_core.explore.suggest import KIND as SUGGEST
from bias_core.explore.tab_form import ExploreForm
from bias_core.number_text import format_number
from bias_core.study.design import PACK
from bias_core.study.documents import data_uri
from bias_core.study.readers import ERRORS_KNOWN
from bias_core.study.types import StudyFigure, StudyReport
from bias_core.ui import messages
from bias_core.ui.study import result_page as study_html
from bias_core.ui.study.parts import DrawingPart
from bias_core.ui.study.pictures import Look, Pictures
from bias_core.ui.study.result_page import marks_of
from bias_core.ui.study.study_tab import EACH, LATEST, QUIET, Updates
from bias_core.ui.templates import render, script

_ALIKE = "looks_like"  # column of the groups
_MAP = "alike"  # the figure that the map below the pictures shows
IN_STRIP = 40
_LARGE, _SMALL = 512, 64  # pixels
_SMOOTH = 256  # from this size on a picture is enlarged smoothly
_SIDES = ("first", "second")
_PLAIN = (*_SIDES, "seed", "change", "first picture", "second picture")


class ExploreTab(ExploreForm):
    """A concept in one's own words."""

    place: ClassVar = 0
    key: ClassVar = "explore"
    title: ClassVar = "Explore"
    question: ClassVar = "What does a model draw for a concept, and how far is that from the world?"
    caution: ClassVar = "It is about what pictures show to a reader, never about who anybody is."
    studies: ClassVar = (KIND,)
    also: ClassVar = (PACK, SUGGEST)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; pictures come first, then the numbers."""
        parts = self.parts
        parts |= {"visitor": visitor, "row": gr.State(None)}
        with gr.Column(elem_classes="card ask"):
            self._build_ask()
        parts["status"] = gr.HTML(messages.READY, elem_id="status")
        self.examples.build_looked_at()
        self.drawing = DrawingPart(self.key)
        parts["welcome"] = gr.HTML(render("explore_welcome"))
        self._build_results()
        self._wire(demo)

    def element(self, name: str) -> str:
        """The id of a part of the page."""
        return name if name in ("header", "results", "status") else super().element(name)

    def build_pictures(self) -> Pictures:
        """Between the groups of look-alikes and their map."""
        brush, at_once = {"js_on_load": script("brush")}, self.at_once
        at_once["groups"] = gr.HTML(elem_id="groups", visible=False, **brush)
        pictures = Pictures(self.key)
        look: dict[str, Any] = {"elem_classes": "more", "elem_id": f"{self.key}-alike", "visible": False}
        with gr.Accordion("Map of look-alikes", open=False, **look) as at_once["alike"]:
            at_once["map"] = gr.HTML(elem_id="map", **brush)
        return pictures

    def build_numbers(self) -> dict[str, Any]:
        """What the numbers say in words."""
        return {"sentences": gr.HTML(elem_id=f"{self.key}-sentences")}

    def build_beside(self) -> dict[str, Any]:
        """The same seed in two arms."""
        self.pairs = Pairs(self.key)
        return {f"pairs {i}": part for i, part in enumerate(self.pairs.outputs())}

    def outputs(self) -> list[Any]:
        """Everything that a finished run changes."""
        return [*super().outputs(), self.parts["welcome"]]

    def wire_extra(self) -> None:
        """Groups and the map choose pictures."""
        at_once, report = self.at_once, self.parts["report"]
        chosen = [at_once["groups"], at_once["map"], self.parts["plot"], *self.pictures.outputs()]
        for source in (at_once["groups"], at_once["map"]):
            source.select(self.on_choose, report, chosen, **EACH)
        at_once["alike"].expand(self.on_map, [report, self.pictures.which], at_once["map"], **QUIET)
        self.pairs.wire(report)

    def on_map(self, report: StudyReport | None, which: str | None) -> Updates:
        """The map is opened: it is drawn with what the grid shows."""
        if report is None or not is_exploration(report) or report.arms:
            return {self.at_once["map"]: ""}
        return {self.at_once["map"]: view.map_html(Exploration(report), _group_of(which or ""))}

    def on_choose(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """A group button, a point of the map, or the pictures in a frame on it were chosen."""
        if report is None:
            return gr.skip()
        exploration, chart = Exploration(report), self.at_once["map"]
        images = {image.number: image.id for image in exploration.images}
        if number := int(event.number):
            picture = self.pictures.large(report, images.get(number, ""))
            return {self.pictures.picture: picture, chart: view.map_html(exploration, opened=number)}
        group, framed = int(event.group), [int(one) for one in str(event.numbers).split(",") if one.isdigit()]
        which = f"group={CONCEPT}" if group == view.ALL else f"{_ALIKE}={group_name(group)}"
        look = Look(report=report, which=which, whole=group != view.ALL)
        if framed:
            look = replace(look, only=tuple(images[one] for one in framed if one in images), whole=True)
        return {
            **self.pictures.show_only(look),
            self.at_once["groups"]: view.group_buttons(exploration, group),
            chart: view.map_html(exploration, group, only=framed or None),
            self.parts["plot"]: self._shares_of(report, look),
        }

    def _shares_of(self, report: StudyReport, look: Look) -> str:
        """The plot of the shares, of the chosen pictures alone where some were chosen."""
        plot = self.plot(report)
        if plot is not None and look.whole:
            plot = view.shares_of(Exploration(report), set(look.all_rows()["number"].astype(int)))
        return "" if plot is None else study_html.figures_html([plot], marks_of(report, plot))

    def finished(self, report: StudyReport) -> Updates:
        """All of a report."""
        return super().finished(report) | {self.parts["welcome"]: gr.update(visible=False)}

    def first_shown(self, report: StudyReport) -> str:
        """Those that are scored: the concept's, where others were drawn beside them."""
        frame, alone = report.pictures, is_exploration(report) and not report.arms
        return f"group={CONCEPT}" if alone and frame is not None and frame["group"].nunique() > 1 else ""

    def first_example(self) -> Updates:
        """The example, below what this page is."""
        return super().first_example() | {self.parts["welcome"]: gr.update(visible=True)}

    def cleared(self) -> Updates:
        """The page with nothing but its form."""
        return super().cleared() | {self.parts["welcome"]: gr.update(visible=False)}

    def header_html(self, report: StudyReport) -> str:
        """What was found; what must be known stands right under it."""
        notes = [note for note in report.results.notes if ERRORS_KNOWN not in note]  # nothing to beware of
        if report.unknown_words:
            words = ", ".join(f"“{word}”" for word in report.unknown_words)
            notes.insert(0, f"The calibration world does not know {words}; the pictures were drawn without it.")
        return super().header_html(report) + render("explore_notes", notes=notes)

    def show_at_once(self, report: StudyReport) -> Updates:
        """Groups, pairs and sentences of an exploration; the map is drawn when it is opened."""
        at_once, exploration = self.at_once, Exploration(report)
        alone = is_exploration(report) and not report.arms
        buttons = view.group_buttons(exploration) if alone else ""
        has_map = alone and exploration.clusters is not None and len(exploration.clusters.labels) > 0
        return self.pairs.show(report) | {
            at_once["groups"]: gr.update(value=buttons, visible=bool(buttons)),
            at_once["alike"]: gr.update(open=False, visible=has_map),
            at_once["map"]: "",
            at_once["sentences"]: view.sentences_html(exploration) if alone else "",
        }

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """All but that of the map, which stands below the pictures."""
        beside = _MAP if is_exploration(report) and not report.arms else ""
        return [figure for figure in report.results.figures if figure.key != beside]

    def picture_html(self, report: StudyReport, row: "pd.Series[Any]") -> str:
        """One picture large, with what the reader saw in it."""
        if not is_exploration(report) or report.arms or row["group"] != CONCEPT:
            return ""
        return view.picture_html(Exploration(report), int(row["number"]))


def _group_of(which: str) -> int:
    """The group of look-alikes that is shown, from 0."""
    column, _, name = which.partition("=")
    return int(name.rpartition(" ")[2]) - 1 if column == _ALIKE else view.ALL


class Pairs:
    """Which arms, which seed, the slider, the strip; hidden until there are pairs."""

    def __init__(self, key: str) -> None:
        with gr.Column(elem_classes="card", elem_id=f"{key}-pairs", visible=False) as self.box:
            gr.HTML(render("heading", title="The same seed, drawn both ways", note=""))
            with gr.Row():
                self.pair = gr.Dropdown(label="Arms", elem_id=f"{key}-pair", min_width=200)
                self.seed = gr.Dropdown(label="Seed, the most changed first", elem_id=f"{key}-one-seed", min_width=260)
            self.slide = gr.HTML(js_on_load=script("pairs"), elem_id=f"{key}-slide")
            self.strip = gr.HTML(js_on_load=script("pairs"), elem_id=f"{key}-strip")

    def outputs(self) -> list[Any]:
        """Everything that an update may touch."""
        return [self.box, self.pair, self.seed, self.slide, self.strip]

    def wire(self, report: Any) -> None:
        """Choosing arms and seeds."""
        self.pair.input(self.on_pair, [report, self.pair], self.outputs(), **LATEST)
        self.seed.input(self.on_seed, [report, self.pair, self.seed], self.outputs(), **LATEST)
        self.strip.select(self.on_strip, [report, self.pair], self.outputs(), **EACH)

    def on_pair(self, shown: StudyReport | None, pair: str | None) -> Updates:
        """Two other arms."""
        return gr.skip() if shown is None else self.show(shown, pair or "0")

    def on_seed(self, shown: StudyReport | None, pair: str | None, seed: str | None) -> Updates:
        """Another seed."""
        if shown is None:
            return {self.slide: ""}
        return {self.seed: seed or ""} | self._pictures(shown, rows_of(shown, pair or "0"), seed or "")

    def on_strip(self, shown: StudyReport | None, pair: str | None, event: gr.EventData) -> Updates:
        """A seed that was pressed in the strip."""
        return self.on_seed(shown, pair, str(event.seed))

    def show(self, report: StudyReport, pair: str = "0") -> Updates:
        """The most changed seed of two arms; without pairs the part is hidden."""
        rows = rows_of(report, pair)
        if rows.empty:
            return {self.box: gr.update(visible=False)}
        of_report = _pairs(report.results.frame(SEEDS))
        pairs = [(f"{first} and {second}", str(i)) for i, (first, second) in enumerate(of_report)]
        seeds = [(_seed_name(row), str(row["seed"])) for _, row in rows.iterrows()]
        return {
            self.box: gr.update(visible=True),
            self.pair: gr.update(choices=pairs, value=pair, visible=len(pairs) > 1),
            self.seed: gr.update(choices=seeds, value=seeds[0][1]),
            **self._pictures(report, rows, seeds[0][1]),
        }

    def _pictures(self, report: StudyReport, rows: pd.DataFrame, seed: str) -> Updates:
        return {self.slide: slide_html(report, rows, seed), self.strip: strip_html(report, rows, seed)}


def rows_of(report: StudyReport, pair: str) -> pd.DataFrame:
    """The seeds of a pair of arms whose pictures are still there, the most changed first; empty without pairs."""
    frame = report.results.frame(SEEDS)
    pairs = _pairs(frame)
    if not pairs:
        return frame
    first, second = pairs[int(pair)] if pair.isdigit() and int(pair) < len(pairs) else pairs[0]
    there = frame[["first picture", "second picture"]].isin(list(report.stored)).all(axis=1)
    return frame[(frame["first"] == first) & (frame["second"] == second) & there]


def slide_html(report: StudyReport, rows: pd.DataFrame, seed: str) -> str:
    """The two pictures of a seed over each other, and what the reader sees in each."""
    chosen = rows[rows["seed"].astype(str) == seed]
    if chosen.empty:
        return render("status", kind="quiet", text="The pictures of this seed are no longer stored.")
    row = chosen.iloc[0]
    stored = [report.stored[row[f"{side} picture"]] for side in _SIDES]
    sides = [
        {"place": side, "arm": row[side], "prompt": one.row.prompt, "picture": data_uri(one.path, _LARGE)}
        for side, one in zip(_SIDES, stored, strict=True)
    ]
    prompts = dict.fromkeys(one.row.prompt for one in stored)
    names = ["Prompt of both"] if len(prompts) == 1 else [f"Prompt of {row[side]}" for side in _SIDES]
    facts = {"Seed": str(row["seed"]), "Change": f"{format_number(row['change'])}, one minus the cosine"}
    return render(
        "pair_slide",
        seed=row["seed"],
        sides=sides,
        small=max(one.row.width for one in stored) < _SMOOTH,
        facts=facts | dict(zip(names, prompts, strict=True)),
        readings=[(name, *str(row[name]).split(" → ")) for name in _attributes(row)],
    )


def strip_html(report: StudyReport, rows: pd.DataFrame, seed: str) -> str:
    """A button for each of the most changed seeds with both pictures, one above the other."""
    if rows.empty:
        return ""
    first, second = (str(rows.iloc[0][side]) for side in _SIDES)
    names = f"“{first}” and “{second}”"
    notes = [n for n in report.results.notes if n.startswith(SEED_GIVES_ANOTHER) and names in n]
    buttons = [
        {
            "seed": row["seed"],
            "name": f"S{_seed_name(row)[1:]}",
            "marked": bool(_flips(row)),
            "pressed": str(row["seed"]) == seed,
            "pictures": [data_uri(report.stored[row[f"{side} picture"]].path, _SMALL) for side in _SIDES],
        }
        for _, row in rows.head(IN_STRIP).iterrows()
    ]
    more = len(rows) if len(rows) > IN_STRIP else 0
    return render("pair_strip", notes=notes, first=first, second=second, n=IN_STRIP, more=more, buttons=buttons)


def _seed_name(row: "pd.Series[Any]") -> str:
    return f"seed {row['seed']}, change {format_number(row['change'])}{_flips(row)}"


def _flips(row: "pd.Series[Any]") -> str:
    changed = [name for name in _attributes(row) if row[name] in ("no → yes", "yes → no")]
    return "".join(f", {name} {row[name]}" for name in changed)


def _attributes(row: "pd.Series[Any]") -> list[str]:
    return [str(name) for name in row.index if name not in _PLAIN]


def _pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return list(frame.reindex(columns=_SIDES).drop_duplicates().itertuples(index=False, name=None))
