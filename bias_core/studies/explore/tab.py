"""The Explore tab: a concept and attributes in, pictures and scores out."""

from collections.abc import Sequence
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.studies.explore import view
from bias_core.studies.explore.arms import SEED_GIVES_ANOTHER, SEEDS
from bias_core.studies.explore.options import KIND, OLD_KIND
from bias_core.studies.explore.report import COMPARE, Exploration, is_exploration
from bias_core.studies.explore.results import CONCEPT, group_name
from bias_core.studies.explore.suggest import KIND as SUGGEST
from bias_core.studies.explore.tab_form import ExploreForm
from bias_core.studies.kit.types import StudyFigure, StudyReport
from bias_core.studies.reports.text import format_number
from bias_core.ui import messages
from bias_core.ui.embedded import data_uri
from bias_core.ui.study import view as study_html
from bias_core.ui.study.drawing import DrawingPart
from bias_core.ui.study.form import build_take
from bias_core.ui.study.study_tab import QUIET, Updates
from bias_core.ui.study.view import Look, Pictures
from bias_core.ui.templates import render, script

_APART = ("shares", "alike")  # figures that stand beside the pictures
_REVEAL = """() => {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const behavior = calm ? 'auto' : 'smooth';
  document.querySelector('#explore-picture article')?.scrollIntoView({behavior, block: 'nearest'});
}"""
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
    also: ClassVar = (OLD_KIND, COMPARE, SUGGEST)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        """The tab with its wiring; pictures come first, then the numbers."""
        parts = self.parts
        parts |= {"visitor": visitor, "report": gr.State(None), "row": gr.State(None)}
        with gr.Column(elem_classes="card ask"):
            self._build_ask()
        parts["status"] = gr.HTML(messages.READY, elem_id="status")
        self.examples.build_looked_at()
        self.drawing = DrawingPart(self.key)
        parts["welcome"] = gr.HTML(render("explore_welcome"))
        self._build_results()
        self._wire(demo)

    def _build_results(self) -> None:
        parts, extra, key = self.parts, self.extra, self.key
        brush, take = {"js_on_load": script("brush")}, {"js_on_load": study_html.TAKE_JS}
        parts["header"] = gr.HTML(elem_id="header", elem_classes="header", **take)
        with gr.Row(visible=False, elem_id="pictures") as parts["shown"]:
            with gr.Column(scale=6, min_width=340):
                extra["groups"] = gr.HTML(elem_id="groups", visible=False, elem_classes="card", **brush)
                self.pictures = Pictures(key)
            with gr.Column(scale=5, min_width=340, elem_classes="card") as parts["extra"]:
                extra["shares"] = gr.HTML(elem_id="shares", **take)
                extra["map"] = gr.HTML(elem_id="map", **brush)
        self.pairs = Pairs(key)
        with gr.Column(visible=False, elem_id="results", elem_classes="results") as parts["results"]:
            self.people.build_corrected()
            with gr.Column(elem_classes="card"):
                parts["findings"] = gr.HTML(elem_id=f"{key}-findings", **take)
            self.people.build_task()
            extra["sentences"] = gr.HTML(elem_id=f"{key}-sentences", elem_classes="card")
            parts["figures"] = gr.HTML(elem_id=f"{key}-figures", **take)
            with gr.Column(elem_classes="card"):
                parts["tables"] = gr.HTML(elem_id=f"{key}-tables", **take)
                parts["notes"] = gr.HTML()
            parts.update(build_take(key))

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
        exploration, chart = Exploration(report), self.extra["map"]
        if number := int(event.number):
            picture = view.picture_html(exploration, number)
            return {self.pictures.picture: picture, chart: view.map_html(exploration, opened=number)}
        group = int(event.group)
        which = f"group={CONCEPT}" if group == view.ALL else f"looks_like={group_name(group)}"
        return {
            **self.pictures.show_only(Look(report=report, which=which)),
            self.extra["groups"]: view.group_buttons(exploration, group),
            chart: view.map_html(exploration, group),
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

    def first_example(self) -> Updates:
        """The example, below what this page is."""
        return super().first_example() | {self.parts["welcome"]: gr.update(visible=True)}

    def example_gone(self) -> Updates:
        """The page with nothing but its form."""
        parts, hidden = self.parts, gr.update(visible=False)
        beside = (parts["welcome"], parts["shown"], self.pairs.box)
        return super().example_gone() | {parts["header"]: ""} | dict.fromkeys(beside, hidden)

    def header_html(self, report: StudyReport, lead: str) -> str:
        """What was found; what must be known stands right under it."""
        notes = list(report.results.notes)
        if report.unknown_words:
            words = ", ".join(f"“{word}”" for word in report.unknown_words)
            notes.insert(0, f"The calibration world does not know {words}; the pictures were drawn without it.")
        return super().header_html(report, lead) + render("explore_notes", notes=notes)

    def show_extra(self, report: StudyReport) -> Updates:
        """Groups, map, shares and sentences of an exploration; of arms their pairs."""
        extra = self.extra
        if not is_exploration(report) or report.arms:
            return dict.fromkeys(extra.values(), gr.update(value="", visible=False)) | self.pairs.show(report)
        exploration = Exploration(report)
        buttons, chart = view.group_buttons(exploration), view.map_html(exploration)
        shares = study_html.figures_html([figure for figure in report.results.figures if figure.key == "shares"])
        return {
            extra["groups"]: gr.update(value=buttons, visible=bool(buttons)),
            extra["map"]: gr.update(value=chart, visible=bool(chart)),
            extra["shares"]: gr.update(value=shares, visible=True),
            extra["sentences"]: gr.update(value=view.sentences_html(exploration), visible=True),
            self.pairs.box: gr.update(visible=False),
        }

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Those that do not stand beside the pictures."""
        beside = _APART if is_exploration(report) and not report.arms else ()
        return [figure for figure in report.results.figures if figure.key not in beside]

    def picture_html(self, report: StudyReport, row: "pd.Series[Any]") -> str:
        """One picture large, with what the reader saw in it."""
        if not is_exploration(report) or report.arms or row["group"] != CONCEPT:
            return ""
        return view.picture_html(Exploration(report), int(row["number"]))


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
        self.pair.input(self.on_pair, [report, self.pair], self.outputs(), **QUIET)
        self.seed.input(self.on_seed, [report, self.pair, self.seed], self.outputs(), **QUIET)
        self.strip.select(self.on_strip, [report, self.pair], self.outputs(), **QUIET)

    def on_pair(self, shown: StudyReport | None, pair: str | None) -> Updates:
        """Two other arms."""
        return {} if shown is None else self.show(shown, pair or "0")

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
