"""The pictures of a study: choose which, order them by what was found of each, open one large."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
import pandas as pd
from pandas.api.types import is_numeric_dtype

from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.number_text import format_number
from bias_core.ui.messages import QUIET, heading_html
from bias_core.ui.templates import render

Opened = Callable[[StudyReport, "pd.Series[Any]"], str]

MOST_SHOWN = 60
_MOST_VALUES = 300
_HIDDEN = ["image_id"]
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
ALL = ""
_LISTS = {"objects", "added", "left_out"}  # columns whose cells list words, separated by commas


@dataclass(frozen=True, kw_only=True)
class Look:
    """Which pictures of a report, by ``column=value`` (of a column that lists words, one of them), in which order."""

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


class Pictures:
    """The part of a tab that shows pictures, and one of them large; invisible until there are some."""

    def __init__(self, key: str) -> None:
        self.look = gr.State(None)
        with gr.Column(visible=False, elem_classes="card", elem_id=f"{key}-pictures") as self.box:
            gr.HTML(heading_html("The pictures"))
            with gr.Row():
                self.which = gr.Dropdown(label="Show", filterable=True, elem_id=f"{key}-which", min_width=220)
                self.order = gr.Dropdown(label="Order by", elem_id=f"{key}-order", min_width=180)
            self.gallery = gr.Gallery(
                format="png", columns=10, height="auto", object_fit="contain", label="Pictures", show_label=False,
                allow_preview=False, buttons=[], elem_id=f"{key}-grid", elem_classes="grid", interactive=False,
            )  # fmt: skip
            self.picture = gr.HTML(elem_id=f"{key}-picture")

    def outputs(self) -> list[Any]:
        """Everything that an update may touch."""
        return [self.box, self.which, self.order, self.gallery, self.picture, self.look]

    def wire(self, opened: Opened = lambda _report, _row: "") -> None:
        """Choosing and opening; ``opened`` shows a picture large in the tab's own way, where it returns any."""
        shown = [self.gallery, self.picture, self.look]
        gr.on([self.which.input, self.order.input], self.on_choose, [self.look, self.which, self.order], shown, **QUIET)

        def on_open(look: Look | None, event: gr.SelectData) -> str:
            """One picture large."""
            if look is None or int(event.index) >= len(rows := look.rows()):
                return ""
            row = rows.iloc[int(event.index)]
            return opened(look.report, row) or picture_html(look.report, row)

        self.gallery.select(on_open, self.look, self.picture, **QUIET)

    def on_choose(self, look: Look | None, which: str | None, order: str | None) -> dict[Any, Any]:
        """Other pictures, or another order."""
        if look is None:
            return {self.picture: ""}
        return self._shown(replace(look, which=which or ALL, order=order or ""))

    def show(self, report: StudyReport | None) -> dict[Any, Any]:
        """The pictures of a new report; none hides the part."""
        if report is None or _frame(report).empty:
            return {self.box: gr.update(visible=False), self.look: None}
        return {
            self.box: gr.update(visible=True),
            self.which: gr.update(choices=which_choices(report), value=ALL),
            self.order: gr.update(choices=order_choices(report), value=""),
            **self._shown(Look(report=report)),
        }

    def show_only(self, look: Look) -> dict[Any, Any]:
        """A choice that was made elsewhere, such as on a figure."""
        return {self.which: look.which, self.order: look.order, **self._shown(look)}

    def _shown(self, look: Look) -> dict[Any, Any]:
        rows, by = look.rows(), look.order.rpartition(" ")[0]
        images = []
        for i, row in enumerate(rows.to_dict("records"), start=1):
            caption = f"Picture {row['number']:.0f}" if not math.isnan(row.get("number", math.nan)) else f"{i}"
            caption += f" · {format_number(float(row[by]))}" if by in row else ""
            caption = f"{row['arm']} · {caption}" if look.report.arms and "arm" in row else caption
            images.append((str(look.report.stored[row["image_id"]].path), caption))
        return {self.gallery: gr.update(value=images, selected_index=None), self.picture: "", self.look: look}


def _some_of_each_arm(frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """One arm after the other, equally many of each; the frame itself where it has no arms."""
    if "arm" not in frame or not arms:
        return frame
    parts = [part for arm in arms if len(part := frame[frame["arm"] == arm])]
    return pd.concat([part.head(MOST_SHOWN // len(parts)) for part in parts]) if parts else frame


def picture_html(report: StudyReport, row: "pd.Series[Any]") -> str:
    """One picture large, with everything that is known of it."""
    stored = report.stored[row["image_id"]]
    facts = {"Prompt": stored.row.prompt, "Seed": str(stored.row.seed), "Model": stored.row.model}
    for name, value in row.items():
        if name not in ("prompt", "seed") and pd.notna(value) and value != "":
            facts[str(name)] = format_number(value) if isinstance(value, float) else str(value)
    return render("picture", stored=stored, facts=facts, small=_SMALL)


def _frame(report: StudyReport) -> pd.DataFrame:
    return pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
