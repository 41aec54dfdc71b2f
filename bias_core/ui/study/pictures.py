"""The pictures of a report: a numbered grid by arm or cell, and one picture large."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
from pandas.api.types import is_numeric_dtype

from bias_core.people import boxes_of_text
from bias_core.report.blocked_pictures import CELL_TITLE, get_block_reason
from bias_core.report.documents import data_uri
from bias_core.report.picture_facts import prompt_facts
from bias_core.services import Services
from bias_core.study.design import get_page_layout
from bias_core.study.types import StudyReport
from bias_core.ui.messages import EACH, LATEST, QUIET
from bias_core.ui.templates import render, script
from bias_core.wording import format_given, format_number

Opened = Callable[[StudyReport, "pd.Series[Any]"], str]
Explain = Callable[[StudyReport, str], str]

MOST_SHOWN = 60
FEW, FEW_OF_EACH, MOST_CELLS = 16, 4, 12
"""Limits for a new report: pictures of a single cell, pictures per cell, and cells."""
ALL, AND = "", "\n"
_MOST_VALUES = 300
_HIDDEN = ["image_id"]
BOXES = "boxes"  # column with the boxes of the people that the classifier found
_PERCEIVED = ": perceived"
_READINGS = (": positive", ": negative", ": nearer by", _PERCEIVED)  # columns shown in a table below
EDGES = {"yes": "edge-yes", "no": "edge-no", "cannot tell": "edge-unclear"}
EDGE_WORDS = {"edge-yes": "perceived as {}", "edge-no": "not {}", "edge-unclear": "cannot tell"}
"""Classes of a picture's edge by what the classifier answers, and their words in the legend."""
_THUMBNAIL = 160  # pixels of a small picture that the page carries
_SMALL = 256  # pixels: below, a picture is enlarged without smoothing
_LISTS = {"objects", "added", "left_out"}  # columns with lists of words, separated by commas


@dataclass(frozen=True, kw_only=True)
class Thumbnail:
    """One picture of the grid; ``image_id`` "" cannot be opened."""

    src: str
    caption: str
    label: str  # text for screen readers
    image_id: str = ""
    kind: str = ""  # classes of the style sheet
    is_small: bool = False  # enlarged without smoothing


@dataclass(frozen=True, kw_only=True)
class PictureCell:
    """Pictures of one arm, condition or concept; its name is "" if all are of one."""

    name: str
    pictures: Sequence[Thumbnail]
    n: int  # including those not shown
    rest_filter: str | None = None  # filter that shows the rest; None if there is none


@dataclass(frozen=True, kw_only=True)
class PictureView:
    """A choice of a report's pictures, and their order.

    ``picture_filter`` is ``column=value`` (in a column of lists, one word), or several of these joined by :data:`AND`.
    """

    report: StudyReport
    picture_filter: str = ALL
    order: str = ""
    whole: bool = False  # True: as many as fit; False: a few
    only: tuple[str, ...] = ()  # ids, of pictures that were marked by hand; () for all
    cell_column: str = ""  # that tells the pictures apart, where the study does not say
    embedded: bool = False  # True if the page holds the pictures, because their files are not served

    def rows(self) -> pd.DataFrame:
        """The chosen rows in order, limited to those shown."""
        return _balance_arms(self.all_rows(), [arm.name for arm in self.report.arms]).head(MOST_SHOWN)

    def all_rows(self) -> pd.DataFrame:
        frame = _frame(self.report)
        for condition in self.picture_filter.split(AND):
            column, _, value = condition.partition("=")
            if column in frame:
                frame = frame[[value in values for values in _split_values(frame, column)]]
        if self.only:
            frame = frame[frame["image_id"].isin(self.only)]
        by, _, way = self.order.rpartition(" ")
        if by in frame:
            frame = frame.sort_values(by, ascending=way == "up", na_position="last", kind="stable")
        return frame

    def cells(self) -> list[PictureCell]:
        """A few pictures of each cell, or the chosen ones."""
        blocked = [] if self.whole or self.only else self._blocked()
        return [*self._scored(), *blocked]

    def _scored(self) -> list[PictureCell]:
        frame, column = self.all_rows(), self._cell_column()
        if column is None or frame[column].nunique() < 2:
            return [self._cell("", frame, MOST_SHOWN if self.whole else FEW, self.picture_filter)]
        groups = _sort_numbered([(str(name), rows) for name, rows in frame.groupby(column, sort=False) if str(name)])
        limit = (
            MOST_SHOWN // len(groups) if self.whole else max(FEW_OF_EACH, FEW // len(groups) // 2 * 2)
        )  # rows of two are full
        if column == "arm" and "unit" in frame and not (self.picture_filter or self.order or self.only):
            groups = _with_gaps(groups)
        return [
            self._cell(name, rows, max(1, limit), f"{column}={name}")
            for name, rows in groups[: None if column == "arm" else MOST_CELLS]
        ]

    def cells_in_words(self) -> str:
        """Number of cells that are shown, in words; "" if all are."""
        frame, column = self.all_rows(), self._cell_column()
        n = 0 if column in (None, "arm") else frame[column].nunique()
        return f"The first {MOST_CELLS} of {n} groups; choose any other by its name in the plot." * (n > MOST_CELLS)

    def _blocked(self) -> list[PictureCell]:
        """Blocked pictures, with the reason."""
        blocked = [stored for stored in self.report.stored.values() if stored.blocked]
        pictures = [
            Thumbnail(
                src=file_url(stored.path),
                caption=f"seed {stored.row.seed}" if stored.row.model else "no picture",
                label=get_block_reason(stored),
                kind="blocked",
            )
            for stored in blocked[:FEW]
        ]
        return [PictureCell(name=CELL_TITLE, pictures=pictures, n=len(blocked))] if blocked else []

    def words(self) -> str:
        """Description of the chosen pictures; "" for all."""
        if self.only:
            return f"{len(self.only)} chosen on the map"
        return (
            ", ".join(condition.replace("=", ": ", 1) for condition in self.picture_filter.split(AND))
            if self.whole
            else ""
        )

    def perceived(self) -> str:
        """Attribute whose classification edges the pictures: a chosen one, or else the first; "" if there is none."""
        names = [str(c).removesuffix(_PERCEIVED) for c in _frame(self.report).columns if str(c).endswith(_PERCEIVED)]
        columns = (*self.picture_filter.split(AND), self.order)
        chosen = (name for name in names if any(column.startswith(f"{name}: ") for column in columns))
        return next(chosen, names[0] if names else "")

    def _cell(self, name: str, rows: pd.DataFrame, limit: int, rest_filter: str) -> PictureCell:
        pictures, is_rest = self._thumbnails(rows.head(limit)), len(rows) > limit and not self.whole
        n = int(rows["image_id"].notna().sum())
        return PictureCell(name=name, pictures=pictures, n=n, rest_filter=rest_filter if is_rest else None)

    def _cell_column(self) -> str | None:
        """The first column that groups the pictures: the arm, or the study's own columns."""
        frame, own_columns = _frame(self.report), [self.cell_column] if self.cell_column else []
        columns = ["arm"] if self.report.arms else own_columns or get_page_layout(self.report.design).cells
        return next((c for c in columns if c in frame and frame[c].nunique() > 1), None)

    def _thumbnails(self, rows: pd.DataFrame) -> list[Thumbnail]:
        by, arms, edge = self.order.rpartition(" ")[0], self.report.arms, f"{self.perceived()}{_PERCEIVED}"
        shown = []
        for i, row in enumerate(rows.to_dict("records"), start=1):
            if pd.isna(row["image_id"]):
                shown.append(Thumbnail(src="", caption="", label=f"Seed {row['seed']:.0f}: no scored picture"))
                continue
            number = f"{row['number']:.0f}" if not math.isnan(row.get("number", math.nan)) else f"{i}"
            stored = self.report.stored[row["image_id"]]
            label = f"{row['arm']} · Picture {number}" if arms and "arm" in row else f"Picture {number}"
            value = format_number(float(row[by])) if by in row else ""
            shown.append(
                Thumbnail(
                    src=data_uri(stored.path, _THUMBNAIL) if self.embedded else file_url(stored.path),
                    caption=f"{number} · {value}" if value else number,
                    label=f"{label} · {value}" if value else label,
                    image_id=str(row["image_id"]),
                    kind=EDGES.get(str(row.get(edge)), ""),
                    is_small=0 < max(stored.row.width, stored.row.height) < _SMALL,
                )
            )
        return shown


def find_filter(report: StudyReport, name: str) -> str:
    """Filter (see :class:`PictureView`) for the pictures of a mark or number with this name; "" if there is none.

    For an attribute, pictures that show it; else those of the arm, group, target or object of this name, or of all
    that the name lists.
    """
    parts = [_condition(report, part) for part in (name, *name.split(", "))]
    if parts[0]:
        return parts[0]
    return AND.join(parts[1:]) if len(parts) > 2 and all(parts[1:]) else ""


def _condition(report: StudyReport, name: str) -> str:
    frame = _frame(report)
    if f"{name}: perceived" in frame:
        return f"{name}: perceived=yes"
    for column in (name for name in frame.columns if name not in _HIDDEN):
        if not is_numeric_dtype(frame[column]) and any(name in values for values in _split_values(frame, column)):
            return f"{column}={name}"
    return ""


def file_url(path: Path) -> str:
    return f"gradio_api/file={path.as_posix()}"


def filter_choices(report: StudyReport) -> list[tuple[str, str]]:
    """Menu choices: each value of each text column with its count, without redundant columns."""
    frame = _frame(report)
    choices = [(f"All pictures ({len(frame):,})", ALL)]
    words = [c for c in frame.columns.difference([*_HIDDEN, "unit"], sort=False) if not is_numeric_dtype(frame[c])]
    for i, column in enumerate(words):
        if _is_redundant(frame, column, words[i + 1 :]):
            continue
        counts = Counter(value for values in _split_values(frame, column) for value in values)
        if 1 < len(counts) <= _MOST_VALUES:
            said = column.replace("_", " ")
            choices += [(f"{said}: {value} ({n:,})", f"{column}={value}") for value, n in counts.items()]
    return choices


def _is_redundant(frame: pd.DataFrame, column: str, later: Sequence[str]) -> bool:
    """True if a later column groups the pictures alike, or several contain this one's words ("test x neutral").

    Later columns are the study's own, with its names.
    """
    words, *later_words = (_read_cells(frame, name) for name in (column, *later))
    if any(
        len(set(words)) == len(set(column_words)) == len(set(zip(words, column_words, strict=True)))
        for column_words in later_words
    ):
        return True
    rows = zip(words, *later_words, strict=True)
    return column == "group" and all(" " in group and set(group.split()) <= set(says) for group, *says in rows)


def _split_values(frame: pd.DataFrame, column: str) -> Iterator[Sequence[str]]:
    for cell in _read_cells(frame, column):
        yield [word for word in (cell.split(", ") if column in _LISTS else [cell]) if word]


def _read_cells(frame: pd.DataFrame, column: str) -> list[str]:
    """Cells of a column as text; missing ones are ""."""
    cells = frame[column]
    return [str(cell) if is_known else "" for cell, is_known in zip(cells, cells.notna(), strict=True)]


def order_choices(report: StudyReport) -> list[tuple[str, str]]:
    """Menu choices: orders by each numeric column, both ways."""
    frame = _frame(report)
    numbers = [c for c in frame.columns if is_numeric_dtype(frame[c]) and frame[c].nunique() > 1]
    ways = (("highest first", "down"), ("lowest first", "up"))
    orders = [(f"{c.replace('_', ' ')}, {text}", f"{c} {way}") for c in numbers for text, way in ways]
    return [("As drawn", ""), *orders]


def grid_html(
    cells: Sequence[PictureCell], words: str = "", perceived: str = "", *, left_out: str = "", is_drawn: bool = False
) -> str:
    """Numbered thumbnails by cell; ``words`` above them describe a choice, and their edges show ``perceived``.

    ``left_out`` says which cells are not shown. With ``is_drawn``, a sentence says why these are simple drawings.
    """
    kinds = {picture.kind for cell in cells for picture in cell.pictures}
    edges = {kind: EDGE_WORDS[kind].format(perceived) for kind in EDGE_WORDS if perceived and kind in kinds}
    return render("grid", cells=cells, words=words, edges=edges, left_out=left_out, is_drawn=is_drawn)


class Pictures:
    """The part of a tab with the pictures and a large one; hidden without pictures."""

    def __init__(self, key: str, services: Services, *, cell_column: str = "", embedded: bool = False) -> None:
        self._drawing = {info.id for info in services.models() if info.world}  # models that draw simple drawings
        self._how: dict[str, Any] = {"cell_column": cell_column, "embedded": embedded}
        self.only = gr.State(())  # ids of pictures that were marked by hand
        with gr.Column(visible=False, elem_classes="card pictures", elem_id=f"{key}-pictures") as self.box:
            self.grid = gr.HTML(js_on_load=script("grid"), elem_id=f"{key}-grid", elem_classes="grid")
            self.picture = gr.HTML(js_on_load=script("picture"), elem_id=f"{key}-picture")
            with gr.Accordion("Choose and order", open=False, elem_classes="choose", elem_id=f"{key}-choose"), gr.Row():
                self.which = gr.Dropdown(label="Show", filterable=True, elem_id=f"{key}-which", min_width=180)
                self.order = gr.Dropdown(label="Order by", elem_id=f"{key}-order", min_width=150)

    def outputs(self) -> list[Any]:
        """Everything that an update may touch."""
        return [self.box, self.which, self.order, self.grid, self.picture, self.only]

    def wire(self, report: Any, opened: Opened, explain: Explain) -> None:
        """Wire choosing and opening; ``opened`` gives the tab's own large picture, "" for the default.

        ``report`` is the report's component; ``explain`` explains a large picture's classification.
        """
        self._opened, self._explain = opened, explain
        chosen = [self.which, self.order, self.grid, self.picture, self.only]
        inputs = [report, self.only, self.which, self.order]
        gr.on([self.which.input, self.order.input], self.on_choose, inputs, chosen, **LATEST)
        self.grid.select(self.on_open, report, self.picture, **EACH).success(None, js=script("reveal"), **QUIET)
        self.grid.submit(self.on_cell, [report, self.only, self.order], chosen, **EACH)

    def on_open(self, report: StudyReport | None, event: gr.EventData) -> str:
        return "" if report is None else self.large(report, str(event.image))

    def large(self, report: StudyReport, image_id: str) -> str:
        """A large picture with its classification; "" for an id that is not in this report."""
        frame = _frame(report)
        rows = frame[frame["image_id"] == image_id]
        if rows.empty:
            return ""
        opened = self._opened(report, rows.iloc[0]) or picture_html(report, rows.iloc[0])
        path = report.stored[image_id].path
        url = data_uri(path, 768) if self._how["embedded"] else file_url(path)
        return render("picture_tools", url=url, file=path.name) + opened + self._explain(report, image_id)

    def on_choose(
        self, report: StudyReport | None, only: tuple[str, ...] | None, picture_filter: str | None, order: str | None
    ) -> dict[Any, Any]:
        if report is None:
            return {self.picture: ""}
        look = PictureView(
            report=report,
            picture_filter=picture_filter or ALL,
            order=order or "",
            whole=bool(picture_filter or order),
            only=only or (),
        )
        return self._show_look(replace(look, **self._how))

    def on_cell(
        self, report: StudyReport | None, only: tuple[str, ...] | None, order: str | None, event: gr.EventData
    ) -> dict[Any, Any]:
        if report is None:
            return {self.picture: ""}
        look = PictureView(
            report=report, picture_filter=str(event.which), order=order or "", whole=True, only=only or ()
        )
        return self.show_only(look)

    def show(self, report: StudyReport | None, picture_filter: str = ALL) -> dict[Any, Any]:
        """Show the pictures of a new report, filtered by ``picture_filter``; hide the part if there are none."""
        if report is None or _frame(report).empty:
            return {self.box: gr.update(visible=False), self.only: ()}
        return {
            self.box: gr.update(visible=True),
            self.which: gr.update(choices=filter_choices(report), value=picture_filter),
            self.order: gr.update(choices=order_choices(report), value=""),
            **self._show_look(PictureView(report=report, picture_filter=picture_filter, **self._how)),
        }

    def show_only(self, look: PictureView) -> dict[Any, Any]:
        """Show a choice made elsewhere, such as in a figure."""
        look = replace(look, **self._how)
        choices = filter_choices(look.report)
        if look.picture_filter not in [value for _, value in choices]:
            choices.append((look.words(), look.picture_filter))
        return {
            self.which: gr.update(choices=choices, value=look.picture_filter),
            self.order: look.order,
            **self._show_look(look),
        }

    def _show_look(self, look: PictureView) -> dict[Any, Any]:
        is_drawn = any(stored.row.model in self._drawing for stored in look.report.stored.values())
        return {
            self.grid: grid_html(
                look.cells(), look.words(), look.perceived(), left_out=look.cells_in_words(), is_drawn=is_drawn
            ),
            self.picture: "",
            self.only: look.only,
        }


def _with_gaps(groups: list[tuple[str, pd.DataFrame]]) -> list[tuple[str, pd.DataFrame]]:
    """The rows of each arm in one order of units, with an empty row where only others have a picture.

    Arms that share fewer than half of the units stay as they are.
    """
    fullest_first = sorted((rows[["unit", "seed"]] for _, rows in groups), key=len, reverse=True)
    units = pd.concat(fullest_first).drop_duplicates("unit")
    aligned = []
    for name, rows in groups:
        if rows["unit"].duplicated().any() or 2 * len(rows) < len(units):
            return groups
        placed = units.merge(rows.drop(columns="seed"), on="unit", how="left")
        aligned.append((name, placed.loc[: placed["image_id"].last_valid_index()]))
    return aligned


def _sort_numbered(groups: list[tuple[str, pd.DataFrame]]) -> list[tuple[str, pd.DataFrame]]:
    """Groups in their order; if all end with a number, like clusters, sorted by it within a kind."""
    ends = [name.rpartition(" ") for name, _ in groups]
    if not all(number.isdecimal() for *_, number in ends):
        return groups
    kinds = list(dict.fromkeys(kind for kind, *_ in ends))
    order = sorted(range(len(groups)), key=lambda i: (kinds.index(ends[i][0]), int(ends[i][2])))
    return [groups[i] for i in order]


def _balance_arms(frame: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Arms in sequence, equally many rows of each; the frame itself without arms."""
    if "arm" not in frame or not arms:
        return frame
    parts = [part for arm in arms if len(part := frame[frame["arm"] == arm])]
    return pd.concat([part.head(MOST_SHOWN // len(parts)) for part in parts]) if parts else frame


def picture_html(report: StudyReport, row: "pd.Series[Any]") -> str:
    stored = report.stored[row["image_id"]]
    facts = {
        **({"Prompt": stored.row.prompt} if stored.row.prompt else {}),
        **({"Prompt of the study": row["prompt"]} if row["prompt"] != stored.row.prompt else {}),
        **prompt_facts(stored),
        **({"Seed": str(stored.row.seed), "Model": stored.row.model} if stored.row.model else {}),
    }
    for name, value in row.items():
        if (
            name not in ("prompt", "seed", BOXES, "unit", "map_x", "map_y", *_HIDDEN)
            and pd.notna(value)
            and value != ""
            and not str(name).endswith(_READINGS)
        ):
            facts[str(name).replace("_", " ")] = format_given(value) if isinstance(value, float) else str(value)
    boxes = numbered_boxes(row.get(BOXES), stored.size)
    return render("picture", stored=stored, facts=facts, boxes=boxes, small=_SMALL)


def numbered_boxes(text: object, size: tuple[int, int]) -> list[dict[str, float]]:
    """Boxes of the people in a picture of this size, in percent; [] for one person or no text.

    >>> numbered_boxes("0 19 32 64; 32 19 64 64", (64, 64))[1]
    {'left': 50.0, 'top': 29.69, 'width': 50.0, 'height': 70.31}
    """
    boxes = boxes_of_text(text) if isinstance(text, str) else []
    width, height = size
    return [
        {
            "left": round(100 * left / width, 2),
            "top": round(100 * top / height, 2),
            "width": round(100 * (right - left) / width, 2),
            "height": round(100 * (bottom - top) / height, 2),
        }
        for left, top, right, bottom in boxes
        if len(boxes) > 1
    ]


def _frame(report: StudyReport) -> pd.DataFrame:
    return pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
