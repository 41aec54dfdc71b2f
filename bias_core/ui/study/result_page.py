"""A study's report on the page: findings, figures and tables as HTML, and its pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.cards import METRICS, Card
from bias_core.report import report_text as text
from bias_core.report.commands import to_command, to_python
from bias_core.report.export import FORMS
from bias_core.report.headlines import GRADES, headline
from bias_core.report.published import find_measure
from bias_core.report.report_text import arms_overview, claim, further_tables
from bias_core.report.saved import is_example
from bias_core.report.shipped import GRADE_WORDS, grades
from bias_core.run.history import id_in_address, share_run
from bias_core.services import Services
from bias_core.study.design import CHECKLIST, DIFFERS, MET, get_page_layout
from bias_core.study.types import Design, StudyFigure, StudyReport, StudyTable
from bias_core.ui import messages
from bias_core.ui.links import build_link
from bias_core.ui.messages import EACH, QUIET
from bias_core.ui.study.comparison import comparison_html
from bias_core.ui.study.form import StudyForm, build_take
from bias_core.ui.study.panels import Panels, Updates
from bias_core.ui.study.parts import DrawingPart, NextPart, PeoplePart, classification_html, skeleton_html
from bias_core.ui.study.pictures import Pictures, PictureView, find_filter
from bias_core.ui.study.shown_report import FINDINGS, hide_upload_paths, take
from bias_core.ui.templates import render, script
from bias_core.ui.visitor import Visitor
from bias_core.wording import NO_INTERVAL

FEW, FEW_DIFFERENCES, FEW_IN_WORDS = 14, 6, 3  # findings shown at first
CHOOSE_JS = script("choose")


SHARE_NOTE = "Everyone with the link can see its pictures and numbers, without your name and note for it"


def header_html(report: StudyReport, headline: str, tools: str = "") -> str:
    """Headline, a line of facts, and a warning if there is one; next to them ``tools``."""
    lines = text.report_facts(report)
    return render("report_header", warning=report.warning, headline=headline, lines=lines, tools=tools)


def beside_paper_html(report: StudyReport) -> str:
    """The paper's numbers next to this run's, then its protocol item by item."""
    parts = [("", report), *((f"{arm.name}: ", arm) for arm in report.arms)]
    rows = [(name, row) for name, part in parts for row in text.finding_rows(part) if text.is_known(row["published"])]
    texts = [(name, text.finding_text(row)) for name, row in rows]
    frame = text.get_table(report, CHECKLIST).frame
    status, names = frame["status"].tolist(), frame["item"]
    if "arm" in frame:
        names = (frame["arm"] + ": " + names).str.removeprefix(": ")  # an item without an arm
    items = frame.assign(item=names)[["item", "this run", "the paper", "status"]]
    return render(
        "beside_paper",
        size=text.size_in_words(report.design, report.settings).capitalize(),
        numbers=[
            (f"{name}{finding['']}", f"{finding['value']} {finding['interval']}", finding["published"])
            for name, finding in texts
        ],
        items=items.to_numpy().tolist(),
        few=FEW,
        n_met=status.count(MET),
        n_printed=status.count(MET) + status.count(DIFFERS),
    )


def findings_html(report: StudyReport, null: str = "", marks: Mapping[str, str] | None = None) -> str:
    """Each number with its drawn interval, n, null value (titled ``null``, if given) and sentence."""
    rows = text.finding_rows(report)
    if not rows:
        return ""
    optional = {"tested": "p_adjusted", "published": "published", "drawn": "drawn", "several_readers": "readers_low"}
    return render(
        "findings",
        rows=rows,
        text_of=text.finding_text,
        marks=marks or {},
        scales=_scales(rows),
        null=null or text.null_words(report),
        p_head=text.p_head(rows),
        few=FEW_DIFFERENCES if report.arms else FEW,
        title="Differences between the arms" if report.arms else "",
        measures=[METRICS[key] for key in dict.fromkeys(f.metric for f in report.results.findings)],
        **{name: any(text.is_known(row[key]) for row in rows) for name, key in optional.items()},
    )


def words_html(report: StudyReport) -> str:
    """The first numbers of a report, each with its sentence."""
    rows = [text.finding_text(row) for row in text.finding_rows(report)[:FEW]]
    return render("in_words", rows=rows, few=FEW_IN_WORDS, no_interval=NO_INTERVAL) if rows else ""


def _scales(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """A common axis for the small drawings of each measure."""
    keys = ("value", "low", "high", "null_value", "published", "drawn")
    values: dict[str, list[float]] = {row["measure"]: [] for row in rows}
    for row in rows:
        values[row["measure"]] += [float(row[key]) for key in keys if text.is_known(row[key])]
    return {measure: (min(numbers), max(numbers)) if numbers else (0.0, 1.0) for measure, numbers in values.items()}


def trust_html(report: StudyReport, grades: Mapping[str, str]) -> str:
    """The grade of each measure of a report in the calibration world, and a link to the papers' numbers, if any."""
    if report.design.kind.startswith(text.VALIDITY) or report.warning:  # of a forced classifier nothing is known
        return ""
    measured = dict.fromkeys(f.metric for part in report.arms or (report,) for f in part.results.findings)
    tested: dict[str, list[Card]] = {}
    for key in sorted(filter(grades.get, measured), key=lambda key: GRADES.index(grades[key])):
        tested.setdefault(GRADE_WORDS[grades[key]].partition(",")[0], []).append(METRICS[key])
    published = find_measure(report)
    return render("trust", tested=tested, published=published) if tested or published else ""


def figures_html(figures: Sequence[StudyFigure], marks: Mapping[str, str] | None = None) -> str:
    """Each figure with data as a card; names in ``marks`` show their pictures."""
    drawn = [figure for figure in figures if not figure.data.empty]
    return render("figures", figures=drawn, marks=marks) if drawn else ""


def tables_html(tables: Sequence[StudyTable]) -> str:
    """The first rows of each table, closed at first."""
    return render("tables", tables=tables)


def arms_html(report: StudyReport) -> str:
    """The findings of each arm, closed at first."""
    parts = []
    for number, arm in enumerate(report.arms, start=1):
        findings = StudyTable(key=FINDINGS, title="Findings", frame=pd.DataFrame(text.finding_rows(arm)))
        parts.append((arm, [replace(t, key=f"{number}/{t.key}") for t in (findings, *arm.results.tables)]))
    return render("arms", arms=parts)


def notes_html(report: StudyReport) -> str:
    """Facts of the run, notes on it, and general limits."""
    return render("notes", facts_of_run=text.report_facts(report), notes=text.list_notes(report), limits=text.LIMITS)


SHOWN = (
    "report", "shown", "gallery", "results", "other_settings", "header", "next", "beside", "plot", "findings",
    "by_attribute", "attributes", "details", "figures", "tables", "notes", "filled", "claim", "shell",
    "python", "link", "beside_paper",
)  # fmt: skip
FOLDS = {"numbers": "The numbers", "by_attribute": "By attribute", "details": "Details"}
"""Folds below the plot of every result page, in this order; *Quote and reproduce* is last."""
LATER = ("by_attribute", "details")  # their content is made when they are opened


class ResultPage(StudyForm, Panels):
    drawing: DrawingPart
    folds: ClassVar = FOLDS
    null_words: ClassVar[str] = ""  # heading of the column of null values; "" for that of the report

    def __init__(self, services: Services) -> None:
        StudyForm.__init__(self, services)
        Panels.__init__(self)
        self.panels: Sequence[Panels] = (self,)
        self.people = PeoplePart(services, self.key)
        self.next = NextPart(services)

    def header_html(self, report: StudyReport) -> str:
        """Headline and facts, with marks that the page shows after a failed run and for a visitor's own pictures."""
        example, is_own = is_example(report), bool(report.settings.images)
        mark = render("old_result", example=example, run=report.run_id, is_own=is_own)
        return mark + header_html(report, headline(report), self.tools_html(report))

    def tools_html(self, report: StudyReport) -> str:
        """The buttons at the headline: the result's link, if it can have one, and its downloads."""
        run = id_in_address(self.services, report)
        tab = (
            self.get_design_key(report.design) if self.claims(report.design) else ""
        )  # else the address leads to another
        figure = next(iter(self.figures(report)), None)
        return render("result_tools", key=self.key, run=run, tab=tab, note=SHARE_NOTE, forms=FORMS, figure=figure)

    def claims(self, design: Design) -> bool:
        """True if addresses open reports of this design here."""
        return False

    def get_design_key(self, design: Design) -> str:
        """The one of :attr:`keys` that shows reports of this design."""
        return self.key

    def next_html(self, report: StudyReport, cells: Sequence[str] = (), width: str = "") -> str:
        """Next steps, and the calibration of the report's measures, below the pictures.

        ``cells`` and ``width`` are those of :meth:`NextPart.html`.
        """
        return self.next.html(report, cells, width) + trust_html(
            report, grades(self.services.settings.assets_dir / "validity")
        )

    def sentences(self, report: StudyReport) -> Updates:
        """Headline and sentence to quote, from corrected numbers."""
        return {self.parts["header"]: self.header_html(report), self.parts["claim"]: claim(report)}

    def first_shown(self, report: StudyReport) -> str:
        """Filter for the pictures of a new report, as ``column=value``; "" for all."""
        return ""

    def picture_html(self, report: StudyReport, row: "pd.Series[Any]") -> str:
        """A large picture in the tab's own layout; "" for the default."""
        return ""

    def classification_html(self, report: StudyReport, image_id: str) -> str:
        """Explanation of a picture's classification; "" if it has none."""
        return classification_html(report, image_id, self.services)

    def on_mark(self, report: StudyReport | None, event: gr.EventData) -> Updates:
        """Show the pictures of a mark in the plot, or of a number."""
        if report is None:
            return {self.pictures.picture: ""}
        return self.pictures.show_only(PictureView(report=report, picture_filter=str(event.pictures), whole=True))

    def plot(self, report: StudyReport) -> StudyFigure | None:
        """The figure next to the pictures; None if a panel shows it."""
        figure = get_page_layout(report.design).plot(report)
        shown = figure is not None and all(panel.has_plot(figure, report) for panel in self.find_panels(report))
        return figure if shown else None

    def find_panels(self, report: StudyReport) -> list[Panels]:
        return [panel for panel in self.panels if panel.shows(report)]

    def chart_html(self, report: StudyReport, plot: StudyFigure | None) -> str:
        """The chart of several arms; "" for one arm."""
        return comparison_html(report, plot) if report.arms else ""

    def plot_html(self, report: StudyReport, plot: StudyFigure | None) -> str:
        """The figure next to the pictures, with the first numbers in words below it."""
        if plot is None:
            return ""
        has_pictures = report.pictures is not None and len(report.pictures) > 0
        return figures_html([plot], find_mark_filters(report, plot)) + (words_html(report) if has_pictures else "")

    def _build_results(self) -> None:
        key, parts, choose = self.key, self.parts, {"js_on_load": script("marks", key=self.key)}
        parts["filled"] = gr.State(())  # folds with content
        parts["taking"] = gr.HTML(js_on_load=script("take"), elem_id=f"{key}-taking")
        header: dict[str, Any] = {"elem_id": self.element("header"), "elem_classes": "header"}
        header["js_on_load"] = script("old_result", key=key) + script("copy_link")
        parts["other_settings"] = gr.HTML(elem_id=f"{key}-other-settings")
        parts["header"] = gr.HTML(skeleton_html("line", "line", "half", "half"), **header)
        parts["beside_paper"] = gr.HTML(elem_id=f"{key}-beside-paper")
        with gr.Column(visible=False) as parts["shown"]:
            for panel in self.panels:
                panel.at_once |= panel.build_lead()
            with gr.Row(elem_id=f"{key}-lead", elem_classes="lead"):
                with gr.Column(scale=1, min_width=320) as parts["gallery"]:
                    self.pictures = self.build_pictures()
                with gr.Column(scale=1, min_width=320, visible=False) as parts["beside"]:
                    parts["plot"] = gr.HTML(elem_id=f"{key}-plot", elem_classes="plot-of-page", **choose)
                    for panel in self.panels:
                        panel.at_once |= panel.build_beside()
            parts["next"] = gr.HTML(elem_id=self.element("next"), js_on_load=CHOOSE_JS)
        with gr.Column(visible=False, elem_id=self.element("results"), elem_classes="results") as parts["results"]:
            with self.fold("numbers"):
                self.people.build_corrected()
                parts["findings"] = gr.HTML(elem_id=f"{key}-findings", **choose)
                for panel in self.panels:
                    panel.at_once |= panel.build_numbers()
                self.people.build_task()
            with self.fold("by_attribute"):
                for panel in self.panels:
                    with gr.Column(visible=False) as panel.box:
                        panel.extra = panel.build_extra()
                parts["attributes"] = gr.HTML(elem_id=f"{key}-attributes")
            with self.fold("details"):
                parts["figures"] = gr.HTML(elem_id=f"{key}-figures")
                parts["tables"] = gr.HTML(elem_id=f"{key}-tables")
                parts["notes"] = gr.HTML()
            parts.update(build_take(key))

    def build_pictures(self) -> Pictures:
        return Pictures(self.key, self.services)

    def fold(self, name: str) -> gr.Accordion:
        element = f"{self.key}-fold-{name.replace('_', '-')}"
        self.parts[name] = gr.Accordion(self.folds[name], open=False, elem_classes="more fold", elem_id=element)
        return self.parts[name]

    def outputs(self) -> list[Any]:
        """Everything that a finished run changes."""
        return [
            *self.result_outputs(),
            *(self.parts[n] for n in ("status", "at_work", "run", "stop") if n in self.parts),
            self.drawing.html,
        ]

    def result_outputs(self) -> list[Any]:
        outputs = [*self.pictures.outputs(), *self.people.outputs()]
        for panel in self.panels:
            outputs += [panel.box, *panel.at_once.values(), *panel.extra.values()]
        return [*(self.parts[n] for n in SHOWN), *outputs]

    def wire_results(self) -> None:
        parts, report = self.parts, self.parts["report"]
        self.wire_take(parts["taking"].select)
        if "visitor" in parts:  # the labels of a task have no link
            parts["header"].submit(self.on_share, [parts["visitor"], report], parts["status"], **EACH)
        marked = [parts["plot"], parts["findings"]]
        self.on_any("submit", marked, self.on_mark, report, self.pictures.outputs())
        later = [part for name in LATER for part in self.later_outputs(name)]
        folds = [parts[name] for name in LATER]
        self.on_any("expand", folds, self.on_fold, [report, parts["filled"]], [*later, parts["filled"]])
        self.pictures.wire(report, self.picture_html, self.classification_html)
        self.people.wire(report, [parts["header"], parts["claim"]], self.sentences)

    def wire_take(self, pressed: Any) -> None:
        """Wire the download buttons; the event ``pressed`` names the pressed one."""
        parts = self.parts
        written = pressed(self.on_take, [parts["visitor"], parts["report"]], [parts["file"], parts["status"]], **QUIET)
        save = f"() => setTimeout(() => document.querySelector('#{self.key}-file')?.click(), 300)"
        written.success(None, js=save, **QUIET)

    def on_share(self, visitor: Visitor, report: StudyReport | None) -> str:
        """Let everyone with the link see the result, and say so; the page has copied the link."""
        with messages.user_errors() as problem:
            if report is None:
                raise InvalidInput(messages.NOTHING_DONE)
            if report.run_id != id_in_address(self.services, report) or not report.run_id.isalnum():
                return messages.done_html("Everyone can open this link.")  # an example, or another's run
            share_run(self.services, visitor.key, report.run_id, True)
            return messages.done_html(f"Shared. {SHARE_NOTE}. “Stop sharing” is in Runs.")
        return messages.error_html(problem.message)

    def on_take(self, visitor: Visitor, report: StudyReport | None, event: gr.EventData) -> Updates:
        """Write the requested file; the page then fetches it."""
        with messages.user_errors() as problem:
            if report is not None:
                file = take(self.people.extended(report), str(event.take), visitor.folder)
                return {self.parts["file"]: str(file), self.parts["status"]: messages.done_html(f"Saved {file.name}.")}
            problem.message = messages.NOTHING_DONE
        return {self.parts["status"]: messages.error_html(problem.message)}

    def finished(self, report: StudyReport) -> Updates:
        ended = "Stopped after" if report.stopped else "Done in"
        text = f"{ended} {report.seconds:.1f} s. {report.n_images:,} pictures scored."
        text += f" The stop rule ended it: {report.stop_rule}." if report.stop_rule else ""
        text += f" Stopped after {report.stopped_after}." if report.stopped_after else ""
        return {
            self.drawing.html: "",
            self.parts["status"]: messages.done_html(text, self.element("header")),
            **self.show_report(report),
        }

    def show_report(self, report: StudyReport) -> Updates:
        """Show headline, pictures and plot, with all folds closed."""
        parts, report = self.parts, hide_upload_paths(report)
        return {
            **dict.fromkeys((parts["shown"], parts["results"]), gr.update(visible=True)),
            **self.show_numbers(report),
            **self.pictures.show(report, self.first_shown(report)),
            parts["gallery"]: gr.update(visible=report.pictures is not None and len(report.pictures) > 0),
            **self.show_panels(report),
            **self._closed(report),
            **dict.fromkeys((parts["beside_paper"], parts["other_settings"]), ""),
        }

    def show_panels(self, report: StudyReport) -> Updates:
        return {part: shown for panel in self.panels for part, shown in panel.show_at_once(report).items()}

    def show_numbers(self, report: StudyReport) -> Updates:
        """Show headline, plot and numbers, without pictures and folds."""
        parts, run = self.parts, (report.design, report.settings)
        corrected, people = self.people.show(report)
        plot = self.plot(report)
        return {
            **people,
            parts["report"]: report,
            **self.sentences(corrected),
            parts["next"]: self.next_html(report),
            parts["beside"]: gr.update(visible=plot is not None),
            parts["plot"]: self.chart_html(report, plot) or self.plot_html(report, plot),
            parts["findings"]: render("by_arm", tables=arms_overview(report))
            + findings_html(report, self.null_words, find_number_filters(report)),
            parts["shell"]: to_command(*run),
            parts["python"]: to_python(*run),
            parts["link"]: gr.update(value=(link := self.link(report)), visible=bool(link)),
        }

    def _closed(self, report: StudyReport) -> Updates:
        """Reset the folds for a new report: empty until opened; hidden if without content."""
        parts, panels = self.parts, self.find_panels(report)
        has_attributes = bool(self.figures_by_attribute(report)) or any(panel.has_extra(report) for panel in panels)
        return {
            **dict.fromkeys((parts[name] for name in ("attributes", "figures")), skeleton_html("half", "half")),
            **dict.fromkeys((parts[name] for name in ("tables", "notes")), ""),
            **{panel.box: gr.update(visible=False) for panel in self.panels},
            parts["by_attribute"]: gr.update(open=False, visible=has_attributes),
            parts["details"]: gr.update(open=False),
            parts["filled"]: (),
        }

    def figures_by_attribute(self, report: StudyReport) -> list[StudyFigure]:
        page = get_page_layout(report.design)
        return [figure for figure in self._folded_figures(report) if page.is_by_attribute(figure)]

    def _folded_figures(self, report: StudyReport) -> list[StudyFigure]:
        """Figures except the one next to the pictures."""
        plot, figures = self.plot(report), list(report.results.figures)
        for panel in () if report.arms else self.find_panels(report):
            kept = {figure.key for figure in panel.figures(report)}
            figures = [figure for figure in figures if figure.key in kept]
        return [figure for figure in figures if plot is None or figure.key != plot.key]

    def on_fold(self, report: StudyReport | None, filled: Sequence[str] | None, event: gr.EventData) -> Updates:
        return self.on_unfold(next(name for name in LATER if self.parts[name] is event.target), report, filled)

    def on_unfold(self, name: str, report: StudyReport | None, filled: Sequence[str] | None) -> Updates:
        """Fill a fold when it is first opened."""
        if report is None or name in (filled or ()):
            return {self.parts["filled"]: tuple(filled or ())}
        return self.show_later(name, report) | {self.parts["filled"]: (*(filled or ()), name)}

    def show_later(self, name: str, report: StudyReport) -> Updates:
        parts = self.parts
        if name == "by_attribute":
            shown = {parts["attributes"]: figures_html(self.figures_by_attribute(report))}
            for panel in self.find_panels(report):
                has_extra = panel.has_extra(report)
                shown |= {panel.box: gr.update(visible=has_extra)} | (panel.show_extra(report) if has_extra else {})
            return shown
        page = get_page_layout(report.design)
        details = [figure for figure in self._folded_figures(report) if not page.is_by_attribute(figure)]
        return {
            parts["figures"]: figures_html(details),
            parts["tables"]: tables_html(further_tables(report)) + arms_html(report),
            parts["notes"]: notes_html(report),
        }

    def later_outputs(self, name: str) -> list[Any]:
        if name == "by_attribute":
            panels = [part for panel in self.panels for part in (panel.box, *panel.extra.values())]
            return [self.parts["attributes"], *panels]
        return [self.parts[part] for part in ("figures", "tables", "notes")]

    def _buttons(self, *, running: bool) -> Updates:
        return {self.parts["run"]: gr.update(visible=not running), self.parts["stop"]: gr.update(visible=running)}

    def link(self, report: StudyReport) -> str:
        """The address of this tab with these settings, without the visitor's own words."""
        return build_link(self.key, report)


def find_mark_filters(report: StudyReport, figure: StudyFigure) -> dict[str, str]:
    """Filters for the pictures of a figure's marks, by name."""
    columns = [column for column in ("name", "group") if column in figure.data]
    names = dict.fromkeys(str(name) for column in columns for name in figure.data[column].unique())
    return {
        name: picture_filter
        for name in names
        if (picture_filter := find_filter(report, name) or find_filter(report, _cut_details(name)))
    }


def find_number_filters(report: StudyReport) -> dict[str, str]:
    """Filters for the pictures of a report's numbers, by title: "man: P", "Farmer (expected male): δ"."""
    titles = [finding.title for finding in report.results.findings]
    return {title: picture_filter for title in titles if (picture_filter := find_filter(report, _cut_details(title)))}


def _cut_details(title: str) -> str:
    return title.partition(":")[0].partition(" (")[0].strip()
