"""The paired pictures of two arms: one seed under a slider, and a strip of all that changed."""

from __future__ import annotations

from typing import Any

import gradio as gr
import pandas as pd

from bias_core.studies.explore.arms import SEED_GIVES_ANOTHER, SEEDS
from bias_core.studies.kit.types import StudyReport  # noqa: TC001 (Gradio reads the annotations)
from bias_core.studies.reports.number_text import format_number
from bias_core.ui.pictures import data_uri
from bias_core.ui.templates import render, script

Updates = dict[Any, Any]
IN_STRIP = 40
_LARGE, _SMALL = 512, 64  # pixels
_SMOOTH = 256  # from this size on a picture is enlarged smoothly
_SIDES = ("first", "second")
_PLAIN = (*_SIDES, "seed", "change", "first picture", "second picture")
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


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
        self.pair.input(self.on_pair, [report, self.pair], self.outputs(), **_QUIET)
        self.seed.input(self.on_seed, [report, self.pair, self.seed], self.outputs(), **_QUIET)
        self.strip.select(self.on_strip, [report, self.pair], self.outputs(), **_QUIET)

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
        pairs = [(f"{first} and {second}", str(i)) for i, (first, second) in enumerate(_pairs(_seeds(report)))]
        seeds = [(_name(row), str(row["seed"])) for _, row in rows.iterrows()]
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
    frame = _seeds(report)
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
        seen=[(name, *str(row[name]).split(" → ")) for name in _attributes(row)],
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
            "name": f"S{_name(row)[1:]}",
            "marked": bool(_flips(row)),
            "pressed": str(row["seed"]) == seed,
            "pictures": [data_uri(report.stored[row[f"{side} picture"]].path, _SMALL) for side in _SIDES],
        }
        for _, row in rows.head(IN_STRIP).iterrows()
    ]
    more = len(rows) if len(rows) > IN_STRIP else 0
    return render("pair_strip", notes=notes, first=first, second=second, n=IN_STRIP, more=more, buttons=buttons)


def _name(row: pd.Series[Any]) -> str:
    return f"seed {row['seed']}, change {format_number(row['change'])}{_flips(row)}"


def _flips(row: pd.Series[Any]) -> str:
    changed = [name for name in _attributes(row) if row[name] in ("no → yes", "yes → no")]
    return "".join(f", {name} {row[name]}" for name in changed)


def _attributes(row: pd.Series[Any]) -> list[str]:
    """The columns that hold whether an attribute is seen."""
    return [str(name) for name in row.index if name not in _PLAIN]


def _seeds(report: StudyReport) -> pd.DataFrame:
    tables = [table.frame for table in report.results.tables if table.key == SEEDS]
    return tables[0] if tables else pd.DataFrame(columns=list(_PLAIN))


def _pairs(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return list(frame[list(_SIDES)].drop_duplicates().itertuples(index=False, name=None))
