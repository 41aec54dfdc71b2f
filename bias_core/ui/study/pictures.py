"""The pictures of a study: choose which, order them by what was found of each, open one large."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gradio as gr
import pandas as pd
from pandas.api.types import is_numeric_dtype

from bias_core.studies.reports.number_text import format_number
from bias_core.ui.messages import heading_html
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bias_core.studies.kit.types import StudyReport

    Opened = Callable[[StudyReport, pd.Series[Any]], str]

MOST_SHOWN = 60
_MOST_VALUES = 300
_HIDDEN = ["image_id"]
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
ALL = ""
_LISTS = {"objects", "added", "left_out"}  # columns whose cells list words, separated by commas


@dataclass(frozen=True, kw_only=True)
class Look:
    """Which pictures of a report are looked at: a column's value (``column=value``), and an order.

    In columns that list words, the value is one of the words.
    """

    report: StudyReport
    which: str = ALL
    order: str = ""

    def rows(self) -> pd.DataFrame:
        """The chosen rows in their order, at most those that are shown."""
        frame = _frame(self.report)
        column, _, value = self.which.partition("=")
        if column in frame:
            frame = frame[[value in values for values in _values(frame, column)]]
        by, _, way = self.order.rpartition(" ")
        if by in frame:
            frame = frame.sort_values(by, ascending=way == "up", na_position="last", kind="stable")
        return _some_of_each_arm(frame, [arm.name for arm in self.report.arms]).head(MOST_SHOWN)


def which_choices(report: StudyReport) -> list[tuple[str, str]]:
    """Every value of every column of words, with its count, as choices of a menu."""
    frame = _frame(report)
    choices = [(f"All pictures ({len(frame):,})", ALL)]
    for column in frame.columns.difference(_HIDDEN, sort=False):
        if is_numeric_dtype(frame[column]):
            continue
        counts = Counter(value for values in _values(frame, column) for value in values)
        if 1 < len(counts) <= _MOST_VALUES:
            choices += [(f"{column}: {value} ({n:,})", f"{column}={value}") for value, n in counts.items()]
    return choices


def _values(frame: pd.DataFrame, column: str) -> Iterator[Sequence[str]]:
    """What each picture has in a column of words: one value, or several."""
    for cell in frame[column].astype(str):
        yield [word for word in cell.split(", ") if word] if column in _LISTS else [cell]


def order_choices(report: StudyReport) -> list[tuple[str, str]]:
    """Orders by every column of numbers, both ways."""
    frame = _frame(report)
    numbers = [c for c in frame.columns if is_numeric_dtype(frame[c]) and frame[c].nunique() > 1]
    ways = (("highest first", "down"), ("lowest first", "up"))
    return [("As drawn", ""), *((f"{c}, {text}", f"{c} {way}") for c in numbers for text, way in ways)]


@dataclass(frozen=True, kw_only=True)
class PictureParts:
    """The components."""

    box: Any
    which: Any
    order: Any
    gallery: Any
    picture: Any
    look: Any

    def outputs(self) -> list[Any]:
        """Everything that an update may touch."""
        return [self.box, self.which, self.order, self.gallery, self.picture, self.look]


def build_pictures(key: str) -> PictureParts:
    """The part of a tab that shows pictures; invisible until there are some."""
    look = gr.State(None)
    with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-pictures") as box:
        gr.HTML(heading_html("The pictures"))
        with gr.Row():
            which = gr.Dropdown(label="Show", filterable=True, elem_id=f"{key}-which", min_width=220)
            order = gr.Dropdown(label="Order by", elem_id=f"{key}-order", min_width=180)
        gallery = gr.Gallery(
            format="png", columns=10, height="auto", object_fit="contain", label="Pictures", show_label=False,
            allow_preview=False, buttons=[], elem_id=f"{key}-grid", elem_classes="grid", interactive=False,
        )  # fmt: skip
        picture = gr.HTML(elem_id=f"{key}-picture")
    return PictureParts(box=box, which=which, order=order, gallery=gallery, picture=picture, look=look)


def wire_pictures(parts: PictureParts, opened: Opened | None = None) -> None:
    """Choosing and opening; ``opened`` shows a picture large in the tab's own way, where it returns any."""
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    shown = [parts.gallery, parts.picture, parts.look]
    menus = [parts.which.input, parts.order.input]
    gr.on(menus, _on_choose, [parts.look, parts.which, parts.order], shown, **quiet)
    parts.gallery.select(_opener(opened), parts.look, parts.picture, **quiet)


def show_pictures(parts: PictureParts, report: StudyReport | None) -> dict[Any, Any]:
    """The pictures of a new report; none hides the part."""
    if report is None or _frame(report).empty:
        return {parts.box: gr.update(visible=False), parts.look: None}
    look = Look(report=report)
    return {
        parts.box: gr.update(visible=True),
        parts.which: gr.update(choices=which_choices(report), value=ALL),
        parts.order: gr.update(choices=order_choices(report), value=""),
        parts.gallery: _gallery(look),
        parts.picture: "",
        parts.look: look,
    }


def show_only(parts: PictureParts, look: Look) -> dict[Any, Any]:
    """A choice that was made elsewhere, such as on a figure."""
    return {
        parts.which: look.which,
        parts.order: look.order,
        parts.gallery: _gallery(look),
        parts.picture: "",
        parts.look: look,
    }


def _on_choose(look: Look | None, which: str | None, order: str | None) -> tuple[Any, str, Look | None]:
    if look is None:
        return gr.skip(), "", None
    look = replace(look, which=which or ALL, order=order or "")
    return _gallery(look), "", look


def _opener(opened: Opened | None) -> Callable[[Look | None, gr.SelectData], str]:
    def on_open(look: Look | None, event: gr.SelectData) -> str:
        """One picture large."""
        if look is None or int(event.index) >= len(rows := look.rows()):
            return ""
        row = rows.iloc[int(event.index)]
        return (opened(look.report, row) if opened else "") or picture_html(look.report, row)

    return on_open


def _some_of_each_arm(frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """One arm after the other, equally many of each; the frame itself where it has no arms."""
    if "arm" not in frame or not arms:
        return frame
    parts = [part for arm in arms if len(part := frame[frame["arm"] == arm])]
    return pd.concat([part.head(MOST_SHOWN // len(parts)) for part in parts]) if parts else frame


def _gallery(look: Look) -> Any:
    rows = look.rows()
    by = look.order.rpartition(" ")[0]
    captions = [
        _caption(row, i) + (f" · {format_number(float(row[by]))}" if by in rows else "")
        for i, (_, row) in enumerate(rows.iterrows())
    ]
    if look.report.arms and "arm" in rows:
        captions = [f"{arm} · {caption}" for arm, caption in zip(rows["arm"], captions, strict=True)]
    paths = [str(look.report.stored[image_id].path) for image_id in rows["image_id"]]
    return gr.update(value=list(zip(paths, captions, strict=True)), selected_index=None)


def _caption(row: pd.Series[Any], place: int) -> str:
    numbered = "number" in row and not math.isnan(row["number"])
    return f"Picture {row['number']:.0f}" if numbered else f"{place + 1}"


def picture_html(report: StudyReport, row: pd.Series[Any]) -> str:
    """One picture large, with everything that is known of it."""
    stored = report.stored[row["image_id"]]
    facts = {"Prompt": stored.row.prompt, "Seed": str(stored.row.seed), "Model": stored.row.model}
    facts |= {str(k): _text(v) for k, v in row.items() if k not in ("prompt", "seed") and _text(v)}
    return render("picture", stored=stored, facts=facts, small=_SMALL)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else format_number(value)
    return "" if value is None else str(value)


def _frame(report: StudyReport) -> pd.DataFrame:
    return pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
