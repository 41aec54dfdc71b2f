"""The paired pictures of two arms: one seed under a slider, and a strip of all that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.studies.explore.arms import SEED_GIVES_ANOTHER, SEEDS
from bias_core.studies.kit.types import StudyReport  # noqa: TC001 (Gradio reads the annotations)
from bias_core.studies.reports.number_text import format_number
from bias_core.ui.pictures import data_uri
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    import pandas as pd


Updates = dict[Any, Any]
IN_STRIP = 40
_LARGE, _SMALL = 512, 64  # pixels
_SMOOTH = 256  # from this size on a picture is enlarged smoothly
_PLAIN = ("first", "second", "seed", "change", "first picture", "second picture")
_SIDES = ("first", "second")
_QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True, kw_only=True)
class PairParts:
    """Which arms, which seed, the slider, the strip."""

    box: Any
    pair: Any
    seed: Any
    slide: Any
    strip: Any

    def outputs(self) -> list[Any]:
        """Everything that an update may touch."""
        return [self.box, self.pair, self.seed, self.slide, self.strip]


def build_pairs(key: str) -> PairParts:
    """The components, hidden until there are pairs."""
    with gr.Column(elem_classes="card", elem_id=f"{key}-pairs", visible=False) as box:
        gr.HTML(render("heading", title="The same seed, drawn both ways", note=""))
        with gr.Row():
            pair = gr.Dropdown(label="Arms", elem_id=f"{key}-pair", min_width=200)
            seed = gr.Dropdown(label="Seed, the most changed first", elem_id=f"{key}-one-seed", min_width=260)
        slide = gr.HTML(js_on_load=script("pairs"), elem_id=f"{key}-slide")
        strip = gr.HTML(js_on_load=script("pairs"), elem_id=f"{key}-strip")
    return PairParts(box=box, pair=pair, seed=seed, slide=slide, strip=strip)


def wire_pairs(parts: PairParts, report: Any) -> None:
    """Choosing arms and seeds."""

    def on_pair(shown: StudyReport | None, pair: str | None) -> Updates:
        """Two other arms."""
        return {} if shown is None else show_pairs(parts, shown, pair or "0")

    def on_seed(shown: StudyReport | None, pair: str | None, seed: str | None) -> Updates:
        """Another seed."""
        return {parts.slide: ""} if shown is None else _show_seed(parts, shown, pair or "0", seed or "")

    def on_strip(shown: StudyReport | None, pair: str | None, event: gr.EventData) -> Updates:
        """A seed that was pressed in the strip."""
        return on_seed(shown, pair, str(event.seed))

    changed = parts.outputs()
    parts.pair.input(on_pair, [report, parts.pair], changed, **_QUIET)
    parts.seed.input(on_seed, [report, parts.pair, parts.seed], changed, **_QUIET)
    parts.strip.select(on_strip, [report, parts.pair], changed, **_QUIET)


def show_pairs(parts: PairParts, report: StudyReport, pair: str = "0") -> Updates:
    """The most changed seed of two arms; without pairs the part is hidden."""
    frame = _seeds(report)
    if frame is None or rows_of(report, pair).empty:
        return {parts.box: gr.update(visible=False)}
    pairs, seeds = pair_choices(report), seed_choices(report, pair)
    return {
        parts.box: gr.update(visible=True),
        parts.pair: gr.update(choices=pairs, value=pair, visible=len(pairs) > 1),
        parts.seed: gr.update(choices=seeds, value=seeds[0][1]),
        parts.slide: slide_html(report, pair, seeds[0][1]),
        parts.strip: strip_html(report, pair, seeds[0][1]),
    }


def _show_seed(parts: PairParts, report: StudyReport, pair: str, seed: str) -> Updates:
    return {parts.seed: seed, parts.slide: slide_html(report, pair, seed), parts.strip: strip_html(report, pair, seed)}


def pair_choices(report: StudyReport) -> list[tuple[str, str]]:
    """The pairs of arms, as choices of a menu."""
    frame = _seeds(report)
    pairs = [] if frame is None else frame[list(_SIDES)].drop_duplicates().itertuples(index=False)
    return [(f"{first} and {second}", str(i)) for i, (first, second) in enumerate(pairs)]


def seed_choices(report: StudyReport, pair: str) -> list[tuple[str, str]]:
    """The seeds of a pair, the most changed first."""
    return [
        (f"seed {row['seed']}, change {format_number(row['change'])}{_flips(row)}", str(row["seed"]))
        for _, row in rows_of(report, pair).iterrows()
    ]


def rows_of(report: StudyReport, pair: str) -> pd.DataFrame:
    """The seeds of a pair of arms whose pictures are still there, the most changed first."""
    frame = _seeds(report)
    if frame is None:
        raise KeyError(f"no table {SEEDS!r}")
    pairs = list(frame[list(_SIDES)].drop_duplicates().itertuples(index=False, name=None))
    first, second = pairs[int(pair)] if pair.isdigit() and int(pair) < len(pairs) else pairs[0]
    there = frame["first picture"].isin(list(report.stored)) & frame["second picture"].isin(list(report.stored))
    return frame[(frame["first"] == first) & (frame["second"] == second) & there]


def slide_html(report: StudyReport, pair: str, seed: str) -> str:
    """The two pictures of a seed over each other, and what the reader sees in each."""
    rows = rows_of(report, pair)
    chosen = rows[rows["seed"].astype(str) == str(seed)]
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
    seen = [(name, *str(row[name]).split(" → ")) for name in attributes_of(row)]
    return render(
        "pair_slide",
        seed=row["seed"],
        sides=sides,
        small=max(one.row.width for one in stored) < _SMOOTH,
        facts=facts | dict(zip(names, prompts, strict=True)),
        seen=seen,
    )


def strip_html(report: StudyReport, pair: str, seed: str) -> str:
    """A button for each of the most changed seeds with both pictures, one above the other."""
    rows = rows_of(report, pair)
    first, second = (str(rows.iloc[0][side]) for side in _SIDES)
    names = f"“{first}” and “{second}”"
    notes = [n for n in report.results.notes if n.startswith(SEED_GIVES_ANOTHER) and names in n]
    buttons = [_button(report, row, seed) for _, row in rows.head(IN_STRIP).iterrows()]
    more = len(rows) if len(rows) > IN_STRIP else 0
    return render("pair_strip", notes=notes, first=first, second=second, n=IN_STRIP, more=more, buttons=buttons)


def _button(report: StudyReport, row: pd.Series[Any], seed: str) -> dict[str, Any]:
    flips = _flips(row)
    return {
        "seed": row["seed"],
        "name": f"Seed {row['seed']}, change {format_number(row['change'])}{flips}",
        "marked": bool(flips),
        "pressed": str(row["seed"]) == str(seed),
        "pictures": [data_uri(report.stored[row[f"{side} picture"]].path, _SMALL) for side in _SIDES],
    }


def attributes_of(row: pd.Series[Any]) -> list[str]:
    """The columns that hold whether an attribute is seen."""
    return [str(name) for name in row.index if name not in _PLAIN]


def _flips(row: pd.Series[Any]) -> str:
    changed = [name for name in attributes_of(row) if row[name] in ("no → yes", "yes → no")]
    return "".join(f", {name} {row[name]}" for name in changed)


def _seeds(report: StudyReport) -> pd.DataFrame | None:
    return next((table.frame for table in report.results.tables if table.key == SEEDS), None)
