"""A study's report on the page: what was found, its figures and tables as HTML, and its pictures to choose from."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
from pandas.api.types import is_numeric_dtype

from bias_core.metrics.cards import METRICS, load_references
from bias_core.studies.kit.types import StudyFigure, StudyReport, StudySettings, StudyTable
from bias_core.studies.reports import text
from bias_core.studies.reports.saved import Example, SavedReport
from bias_core.studies.reports.text import format_number
from bias_core.studies.running.drawn import prompt_facts
from bias_core.ui.messages import QUIET, heading_html
from bias_core.ui.study.downloads import FINDINGS
from bias_core.ui.templates import render, script

NULL = "no bias reads"
FEW, FEW_DIFFERENCES = 14, 6  # findings that are shown without being asked for
TAKE_JS = script("choose")


def header_html(report: StudyReport, headline: str) -> str:
    """What was found, in a sentence; what it was found on, in a line; what must be known, in notes."""
    settings, design = report.settings, report.design
    scored = " scored" if report.results.findings or report.results.figures else ""
    lines = [
        text.title_of(report),
        f"{report.n_images:,} of {report.n_planned:,} pictures{scored}",
        *([f"{report.n_blocked:,} refused or blanked"] if report.n_blocked else []),
        text.drawn_by(report),
        f"read by {text.read_by(settings)}",
        *([text.size_in_words(design, settings)] if report.design.reference else []),
        f"{settings.confidence:.0%} intervals{text.at_any_time(report)}",
        *(["ended by its stop rule"] if report.stop_rule else []),
        *([f"after {_work(design.reference)}, {design.where}"] if design.reference else []),
    ]
    return render("report_header", warning=report.warning, headline=headline, lines=lines)


def _work(key: str) -> str:
    works = load_references()
    return works[key].short if key in works else key


def findings_html(report: StudyReport, null: str = NULL) -> str:
    """Every number of the study with its interval drawn, its n, null value (called ``null``) and sentence."""
    rows = text.finding_rows(report)
    if not rows:
        return ""
    optional = {"tested": "p_value", "published": "published", "drawn": "drawn", "several_readers": "readers_low"}
    return render(
        "findings",
        rows=rows,
        text_of=text.finding_text,
        scales=_scales(rows),
        null=null,
        few=FEW_DIFFERENCES if report.arms else FEW,
        title="Differences between the arms" if report.arms else "The numbers",
        measures=[METRICS[key] for key in dict.fromkeys(f.metric for f in report.results.findings)],
        **{name: any(text.is_known(row[key]) for row in rows) for name, key in optional.items()},
    )


def _scales(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The common axis of each measure's small drawings."""
    keys = ("value", "low", "high", "null_value", "published", "drawn")
    values: dict[str, list[float]] = {row["measure"]: [] for row in rows}
    for row in rows:
        values[row["measure"]] += [float(row[key]) for key in keys if text.is_known(row[key])]
    return {measure: (min(some), max(some)) if some else (0.0, 1.0) for measure, some in values.items()}


def figures_html(figures: Sequence[StudyFigure]) -> str:
    """Each figure as a card; pictures in rows are left to the tab that shows them."""
    drawn = [figure for figure in figures if not figure.data.empty]
    return render("figures", figures=drawn) if drawn else ""


def tables_html(tables: Sequence[StudyTable]) -> str:
    """Each table, closed until it is asked for, in its first rows."""
    return render("tables", tables=tables)


def arms_html(report: StudyReport) -> str:
    """What was found in each arm by itself, closed until it is asked for."""
    parts = []
    for number, arm in enumerate(report.arms, start=1):
        findings = StudyTable(key=FINDINGS, title="Findings", frame=pd.DataFrame(text.finding_rows(arm)))
        parts.append((arm, [replace(t, key=f"{number}/{t.key}") for t in (findings, *arm.results.tables)]))
    return render("arms", arms=parts)


def frame_html(frame: pd.DataFrame, name: str) -> str:
    """A data frame as a plain table, of a long one both ends."""
    return render("frame", frame=frame, name=name)


def notes_html(report: StudyReport) -> str:
    """What was noticed on the way, and what none of it says."""
    notes = list(report.results.notes)
    if report.unknown_words:
        notes.append(f"This world does not know: {', '.join(report.unknown_words)}. It was drawn without it.")
    return render("notes", notes=notes, limits=text.LIMITS)


def by_name(report: StudyReport) -> StudyReport:
    """The report as a visitor may see it: where the server keeps an upload is nobody's business."""
    arms = tuple(replace(arm, settings=_by_name(arm.settings)) for arm in report.arms)
    return replace(report, settings=_by_name(report.settings), arms=arms)


def _by_name(settings: StudySettings) -> StudySettings:
    arms = tuple(replace(arm, images=arm.images and Path(arm.images).name) for arm in settings.arms)
    return replace(settings, images=settings.images and Path(settings.images).name, arms=arms)


def example_html(saved: SavedReport, example: Example | None = None) -> str:
    """What an example is and shows, in place of a run of one's own; None for a report without a story."""
    report = saved.report
    settings, versions = report.settings, report.versions
    model = " · ".join(filter(None, (settings.model, settings.condition, versions.get("model_revision", ""))))
    names = ("bias_core", "torch", "diffusers", "transformers")
    shown = ", ".join(f"{name} {versions[name]}" for name in names if name in versions)
    return render("example_note", created=when(saved.created), model=model, versions=shown, example=example)


def when(seconds: float) -> str:
    """A time of day in UTC, as 2026-11-21 09:30."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


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
    facts = {
        "Prompt": stored.row.prompt,
        **({"Prompt of the study": row["prompt"]} if row["prompt"] != stored.row.prompt else {}),
        **prompt_facts(stored),
        "Seed": str(stored.row.seed),
        "Model": stored.row.model,
    }
    for name, value in row.items():
        if name not in ("prompt", "seed") and pd.notna(value) and value != "":
            facts[str(name)] = format_number(value) if isinstance(value, float) else str(value)
    return render("picture", stored=stored, facts=facts, small=_SMALL)


def _frame(report: StudyReport) -> pd.DataFrame:
    return pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
