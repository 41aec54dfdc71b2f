"""A comparison on the page: the share of each attribute in every arm, and the same seed in two arms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
import pandas as pd

from bias_core.report.claims import WHY_NOT
from bias_core.report.documents import data_uri
from bias_core.report.figures import N_COLOURS
from bias_core.study.attributes import find_attribute_name
from bias_core.study.types import ArmReport, Finding, StudyFigure, StudyReport
from bias_core.ui.messages import EACH, LATEST, done_html
from bias_core.ui.study.pictures import find_filter
from bias_core.ui.templates import render, script
from bias_core.wording import format_number, format_points, format_rate, format_share

Updates = dict[Any, Any]
SHARES, _SHARE = "shares", "attribute_prevalence"  # keys of a figure and of a measure
_SEEDS = "seeds"  # the table of an exploration with the change of each seed
_PERCEIVED = ": perceived"
_LARGE, _SMOOTH = 512, 256  # pixels; below the second, a picture is enlarged without smoothing


def comparison_html(report: StudyReport, plot: StudyFigure | None) -> str:
    """Return a row per attribute: its share in each arm, and the difference to the first arm, the largest on top.

    "" if the arms have no share of an attribute in common. ``plot`` is the figure to download.
    """
    rows = sorted(_rows(report), key=lambda row: -row["largest"])
    if not rows:
        return ""
    arms = [{"name": arm.name, "tone": i % N_COLOURS} for i, arm in enumerate(report.arms)]
    rates = {lane["known"]["assumed"] for row in rows for lane in row["lanes"] if lane["known"]}
    return render("comparison_chart", rows=rows, arms=arms, rates=rates, plot=plot)


def _rows(report: StudyReport) -> Iterator[dict[str, Any]]:
    frame = report.results.frame("differences")
    gaps: dict[tuple[str, str, str], dict[Any, Any]] = {
        (row["finding"], row["first"], row["second"]): row for row in frame.to_dict("records")
    }
    baseline, by_arm = report.arms[0].name, [_index_shares(arm) for arm in report.arms]
    for title, first in by_arm[0].items():
        found = [shares.get(title) for shares in by_arm]
        if any(share is None or math.isnan(share.estimate.value) for share in found):
            continue
        name = find_attribute_name(first) or title.removesuffix(": P")
        lanes = []
        for i, (arm, share) in enumerate(zip(report.arms, found, strict=True)):
            if share is not None:
                gap = gaps.get((title, baseline, arm.name)) if i else None
                lanes.append(_lane(arm, share, name, i) | {"gap": gap and _mark_gap(gap, name)})
        sizes = [abs(lane["gap"]["value"]) for lane in lanes if lane["gap"]]
        is_clear = any(lane["gap"]["is_clear"] for lane in lanes if lane["gap"])
        yield {"name": name, "which": find_filter(report, name), "lanes": lanes, "is_clear": is_clear,
               "largest": max(sizes, default=0.0)}  # fmt: skip


def _index_shares(arm: ArmReport) -> dict[str, Finding]:
    """Return the shares of an arm's attributes by title; those of single prompts only if there are no others."""
    shares = [finding for finding in arm.results.findings if finding.metric == _SHARE]
    return {share.title: share for share in [share for share in shares if find_attribute_name(share)] or shares}


def _lane(arm: ArmReport, finding: Finding, name: str, place: int) -> dict[str, Any]:
    """Return the mark of a share with its interval, in percent of the axis, and its note."""
    share, rate = finding.estimate, _known_rate(arm, name)
    text = format_share(share.value, share.low, share.high, n=share.n)
    note = f"{name}, {arm.name}: {text}, n = {share.n:,}"
    lane = place_mark(share.value, share.low, share.high, note)
    known = None if rate is None else {"at": 100 * rate[0], "note": f"{name}, {rate[1]} for {arm.name}: "
                                       f"{format_rate(rate[0])}", "assumed": rate[1] != _SOURCED}  # fmt: skip
    return lane | {"tone": place % N_COLOURS, "known": known}


_SOURCED, _ASSUMED = "real-world rate", "assumed rate"


def _known_rate(arm: ArmReport, name: str) -> tuple[float, str] | None:
    """Return P* of an attribute in an arm and its kind; None without one."""
    frame = next((figure.data for figure in arm.results.figures if figure.key == SHARES), pd.DataFrame())
    rows = frame[frame["name"] == name] if "name" in frame else frame
    for column, kind in (("reference", _SOURCED), ("assumed", _ASSUMED)):
        if column in rows and len(known := rows[column].dropna()):
            return float(known.iloc[0]), kind
    return None


def _mark_gap(row: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """Return the mark of a difference on an axis from -100 to 100 points, its text and its note."""
    change = [row[end] for end in ("difference", "low", "high")]
    note = f"{name}, {row['second']} minus {row['first']}: {format_points(*change)}, n = {row['n']:,}"
    value, low, high = ((1 + number) / 2 for number in change)
    is_clear = row["clear"] == "yes"
    why_not = f"not clear: {row[WHY_NOT]}" if row.get(WHY_NOT) else ""
    note += "; clear" if is_clear else f"; {why_not or 'not clear'}"
    return place_mark(value, low, high, note) | {
        "text": format_points(*change, unit=""),
        "is_clear": is_clear,
        "why_not": why_not,
        "value": row["difference"],
    }


def place_mark(value: float, low: float, high: float, note: str) -> dict[str, Any]:
    """Return where a mark and its interval stand on an axis from 0 to 1, in percent."""
    has_ends = not math.isnan(low + high)
    return {"at": f"{100 * value:.2f}", "note": note, "known": None, "low": f"{100 * low:.2f}" if has_ends else "",
            "width": f"{100 * (high - low):.2f}" if has_ends else ""}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SeedInTwo:
    seed: int
    pictures: tuple[str, str]  # ids
    change: float  # one minus the cosine; nan if it was not measured
    answers: Mapping[str, tuple[str, str]]  # what the classifier sees, by attribute

    @property
    def name(self) -> str:
        """The seed with its change and the attributes that only one of its pictures shows."""
        change = "" if math.isnan(self.change) else f", change {format_number(self.change)}"
        flips = [f", {name} {a} → {b}" for name, (a, b) in self.answers.items() if {a, b} == {"yes", "no"}]
        return f"seed {self.seed}{change}{''.join(flips)}"


def seeds_in_two(report: StudyReport, other_arm: int = 1) -> list[SeedInTwo]:
    """Return the stored seeds that the first arm and another share, the largest change first; [] if there are none."""
    frame = report.pictures
    if frame is None or not 0 < other_arm < len(report.arms) or not {"arm", "unit"} <= set(frame):
        return []
    names = [name for name in frame if str(name).endswith(_PERCEIVED)]
    frame = frame[frame["image_id"].isin(list(report.stored))]
    frame = frame[frame[names].notna().any(axis=1)] if names else frame
    sides = [frame[frame["arm"] == report.arms[i].name] for i in (0, other_arm)]
    shared_seeds = sides[0].merge(sides[1], on=["unit", "seed"], suffixes=(" a", " b"))
    table = report.results.frame(_SEEDS)
    ids = ["first picture", "second picture"]
    changes = {tuple(row[:2]): row[2] for row in table[[*ids, "change"]].to_numpy()} if len(table) else {}
    found = []
    for row in shared_seeds.to_dict("records"):
        pictures = row["image_id a"], row["image_id b"]
        answers = {str(name).removesuffix(_PERCEIVED): (str(row[f"{name} a"]), str(row[f"{name} b"])) for name in names}
        change = float(changes.get(pictures, math.nan))
        found.append(SeedInTwo(seed=int(row["seed"]), pictures=pictures, change=change, answers=answers))
    return sorted(found, key=lambda one: -one.change if changes else 0)


class SameSeed:
    """The pictures of one seed in two arms under a slider; hidden until two arms share a seed."""

    def __init__(self, key: str) -> None:
        with gr.Column(elem_classes="card same-seed", elem_id=f"{key}-pairs", visible=False) as self.box:
            self.slide = gr.HTML(js_on_load=script("pairs"), elem_id=f"{key}-slide")
            with gr.Row():
                self.other = gr.Dropdown(label="Compare with", elem_id=f"{key}-pair", min_width=150)
                self.seed = gr.Dropdown(label="Same seed in both arms", elem_id=f"{key}-one-seed", min_width=200)

    def outputs(self) -> list[Any]:
        """Return all components that an update may change."""
        return [self.box, self.other, self.seed, self.slide]

    def wire(self, report: Any, grid: Any) -> None:
        """Wire the menus, and the ``grid`` of pictures, in which a click chooses the seed."""
        self.other.input(self.on_other, [report, self.other], self.outputs(), **LATEST)
        self.seed.input(self.on_seed, [report, self.other, self.seed], self.slide, **LATEST)
        grid.select(self.on_picture, [report, self.other], self.outputs(), **EACH)

    def on_other(self, shown: StudyReport | None, other_arm: str | None) -> Updates:
        return gr.skip() if shown is None else self.show(shown, int(other_arm or 1))

    def on_seed(self, shown: StudyReport | None, other_arm: str | None, seed: str | None) -> str:
        if shown is None:
            return ""
        arm = int(other_arm or 1)
        return slide_html(
            shown, arm, next((pair for pair in seeds_in_two(shown, arm) if pair.pictures[0] == seed), None)
        )

    def on_picture(self, shown: StudyReport | None, other_arm: str | None, event: gr.EventData) -> Updates:
        """Show the seed of a picture of the grid, next to the arm of that picture."""
        if shown is None or not shown.arms or shown.pictures is None:
            return gr.skip()
        image_id, frame = str(event.image), shown.pictures
        names = [arm.name for arm in shown.arms]
        arm = next((names.index(name) for name in frame["arm"][frame["image_id"] == image_id]), 0) or int(
            other_arm or 1
        )
        found = next((pair for pair in seeds_in_two(shown, arm) if image_id in pair.pictures), None)
        return gr.skip() if found is None else self.show(shown, arm, found)

    def show(self, report: StudyReport, other_arm: int = 1, chosen: SeedInTwo | None = None) -> Updates:
        """Show a seed, at first the one with the largest change; hide the part if two arms share none."""
        seeds = seeds_in_two(report, other_arm)
        if not seeds:
            return {self.box: gr.update(visible=False)}
        chosen = chosen or seeds[0]
        arms = [(arm.name, str(i)) for i, arm in enumerate(report.arms)][1:]
        return {
            self.box: gr.update(visible=True),
            self.other: gr.update(choices=arms, value=str(other_arm), visible=len(arms) > 1),
            self.seed: gr.update(choices=[(pair.name, pair.pictures[0]) for pair in seeds], value=chosen.pictures[0]),
            self.slide: slide_html(report, other_arm, chosen),
        }


def slide_html(report: StudyReport, other_arm: int, pair: SeedInTwo | None) -> str:
    """Return the two pictures of a seed on top of each other, with the classifier's answers."""
    if pair is None:
        return done_html("The pictures of this seed are no longer stored.")
    stored = [report.stored[image_id] for image_id in pair.pictures]
    names: Sequence[str] = [report.arms[i].name for i in (0, other_arm)]
    sides = [
        {"place": place, "arm": name, "prompt": image.row.prompt, "picture": data_uri(image.path, _LARGE)}
        for place, name, image in zip(("first", "second"), names, stored, strict=True)
    ]
    small = max(image.row.width for image in stored) < _SMOOTH
    changed = {name: answers for name, answers in pair.answers.items() if answers[0] != answers[1]}
    return render(
        "pair_slide", seed=pair.seed, sides=sides, small=small, changed=changed, n_same=len(pair.answers) - len(changed)
    )
