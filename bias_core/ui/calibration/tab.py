"""The Calibration tab: shipped reports that compare planted with measured bias; nothing here runs."""

import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import gradio as gr
import pandas as pd

from bias_core.measures.cards import METRICS
from bias_core.report.headlines import (
    AS_PUBLISHED,
    COUNTED,
    GRADES,
    HEADLINE,
    VerdictLine,
    count_grades,
    headline,
    verdict_lines,
)
from bias_core.report.report_text import readable
from bias_core.report.saved import SavedReport
from bias_core.report.shipped import GRADE_WORDS, NOT_HERE, TITLES, find_measure_key, load_others, load_shipped
from bias_core.services import Services
from bias_core.study.types import StudyReport
from bias_core.ui.messages import EACH, user_errors
from bias_core.ui.study.panels import Updates
from bias_core.ui.study.parts import FEW_CHIPS, build_opening_signal, copy_updates, example_html
from bias_core.ui.study.result_page import ResultPage
from bias_core.ui.study.shown_report import build_shown_report
from bias_core.ui.templates import render, script

_GROUPS = (("Measures in headlines", HEADLINE), ("Measures as in the papers", AS_PUBLISHED))
_NOT_OF_A_RUN = ("shell", "python", "link")  # no visitor can run these studies
_MOST_NAMED = 3  # failing measures of headlines; more are counted


class CalibrationTab(ResultPage):
    """Verdicts on the measures in a world with known truth, and the reports."""

    key: ClassVar = "calibration"
    title: ClassVar = "Calibration"
    group: ClassVar = "Trust"
    asks: ClassVar = ""
    place: ClassVar = 90
    question: ClassVar = (
        "Can you trust the measures? They are tested in a small world whose bias is planted: built in, and so known."
    )
    caution: ClassVar = (
        "The tests use simple drawings and a classifier made for them. On photographs classifiers make more errors, "
        "and other ones. So do not trust a measure that fails here, and check one that holds here again on photographs."
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self.openers: dict[str, Any] = {}
        self._opened: dict[str, Updates] = {}  # updates for each shipped report, by study

    @cached_property
    def shipped(self) -> Mapping[str, SavedReport]:
        """The shipped reports by study."""
        with user_errors():
            reports = load_shipped(self.services.settings.assets_dir / "validity")
            return {s.report.design.name: s for s in reports if isinstance(s.report, StudyReport)}
        return {}

    def build_memory(self) -> None:
        self.parts["report"] = build_shown_report(self.key, self.services)

    def build(self, demo: gr.Blocks, visitor: Any) -> None:
        self.parts["visitor"] = visitor
        gr.HTML(render("question", question=self.question, caution=self.caution))
        looked_at = build_opening_signal(self.key)
        with gr.Column(elem_classes="card header", elem_id="calibration-verdicts"):
            verdicts = self.parts["verdicts"] = gr.HTML(visible=False, js_on_load=script("verdicts"))
            gr.HTML("Open a report, with its figures and tables:", elem_classes="quiet")
            names = list(self.shipped)
            self._build_openers(names[:FEW_CHIPS])
            if names[FEW_CHIPS:]:
                with gr.Accordion("More reports", open=False, elem_classes="more", elem_id="calibration-more-reports"):
                    self._build_openers(names[FEW_CHIPS:])
        self.parts["status"] = gr.HTML("", elem_id=f"{self.key}-status")
        self._build_results()
        self.wire_results()
        outputs = [*self.result_outputs(), self.parts["status"]]
        looked_at.select(self.on_look, self.parts["report"], [*outputs, verdicts], **EACH)
        self.on_any("click", list(self.openers.values()), self.on_opener, None, outputs)

    def _build_openers(self, names: Sequence[str]) -> None:
        with gr.Row(elem_classes="chips"):
            for name in names:
                self.openers[name] = gr.Button(TITLES[name], size="sm", min_width=0, scale=0, elem_id=f"open-{name}")

    @cached_property
    def _verdicts(self) -> str:
        other_reports = load_others(self.services.settings.assets_dir / "validity")
        return verdicts_html(tuple(self.shipped.values()), other_reports)

    def on_look(self, shown: StudyReport | None) -> Updates:
        """Show the verdicts, and the first shipped report unless one is open; the page starts without them."""
        verdicts = {self.parts["verdicts"]: gr.update(value=self._verdicts, visible=True)}
        return verdicts | (self.first_example() if shown is None else {})

    def first_example(self) -> Updates:
        return next((self.on_open(name) for name in self.shipped), {self.parts["status"]: gr.skip()})

    def on_opener(self, event: gr.EventData) -> Updates:
        return self.on_open(next(name for name, button in self.openers.items() if button is event.target))

    def on_open(self, name: str) -> Updates:
        """Show a shipped report, made once for all visitors."""
        if name not in self._opened:
            saved, header = self.shipped[name], self.parts["header"]
            shown = self.show_report(saved.report)
            self._opened[name] = shown | {header: example_html(saved) + shown[header]}
        return copy_updates(self._opened[name])

    def show_numbers(self, report: StudyReport) -> Updates:
        """No command or link: the app does not run these studies."""
        hidden = {self.parts[name]: gr.update(value="", visible=False) for name in _NOT_OF_A_RUN}
        return super().show_numbers(report) | hidden


def verdicts_html(
    saved: Sequence[SavedReport], other_reports: Mapping[str, Sequence[SavedReport]] | None = None
) -> str:
    """The verdict on every measure; without reports, how to get them.

    ``other_reports`` are the reports on other generators, by generator name.
    """
    reports, lines = _graded(saved)
    notes = [table.note for report in reports for table in report.results.tables if table.key == "verdicts"]
    groups = [(name, [line for line in lines if line.kind == kind]) for name, kind in _GROUPS] if lines else []
    return render(
        "verdicts",
        groups=groups,
        others=[
            (name, sum(report.n_images for report in of), of_lines)
            for name, reports_of in (other_reports or {}).items()
            for of, of_lines in [_graded(reports_of)]
        ],
        counted=[
            (report.settings.model, headline(report), _format_grade_counts(table.frame), table.note)
            for reports_of in (saved, *(other_reports or {}).values())
            for report in _graded(reports_of)[0]
            for table in report.results.tables
            if table.key == COUNTED
        ],
        sentence=_summarise_verdicts([line for line in lines if line.kind == HEADLINE]),
        papers=_papers_sentence([line for line in lines if line.kind == AS_PUBLISHED]),
        find_measure_key=find_measure_key,
        METRICS=METRICS,
        words=GRADE_WORDS,
        about=_count_facts(reports, max(item.created for item in saved)) if lines else (),
        rule=next(iter(notes), ""),
        not_tested=[(METRICS[key].name, reason) for key, reason in NOT_HERE.items()],
    )


def _format_grade_counts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the counts of headlines as text, without p and the numbers of runs: the note and the report have them."""
    left_out = {"p", "p adjusted", *(name for name in map(str, frame) if name.endswith(": runs"))}
    text = readable(frame)
    return text[[name for name in text if name not in left_out]].replace("nan", "–")


def _graded(saved: Sequence[SavedReport]) -> tuple[list[StudyReport], list[VerdictLine]]:
    """The reports, and their verdicts from failing to holding."""
    reports = [item.report for item in saved if isinstance(item.report, StudyReport)]
    lines = [line for report in reports for line in verdict_lines(report)]
    return reports, sorted(lines, key=lambda line: -GRADES.index(line.grade))


def _summarise_verdicts(lines: Sequence[VerdictLine]) -> str:
    n = count_grades(lines)
    parts = [f"{n['holds'] + n['remark']} of {len(lines)} measures used in headlines recover the planted bias"]
    parts += [f"; inconclusive: {n['inconclusive']}"] * bool(n["inconclusive"])
    failing = [line.measure for line in lines if line.grade == "fails"]
    named = ", ".join(failing) if len(failing) <= _MOST_NAMED else str(len(failing))
    parts += [f"; failing, at least in part: {named}"] * bool(failing)
    return "".join((*parts, "."))


def _papers_sentence(lines: Sequence[VerdictLine]) -> str:
    n = count_grades(lines)
    held = n["holds"] + n["remark"]
    says = f"Measures as the papers define them: {held} of {len(lines)} recover it"
    unclear = f"; inconclusive: {n['inconclusive']}" * bool(n["inconclusive"])
    fails = f"; failing, at least in part: {n['fails']}" * bool(n["fails"])
    none = "No headline uses a measure that fails here, except to compare settings with each other."
    return f"{says}{unclear}{fails}. {none}" if lines else ""


def _count_facts(reports: Sequence[StudyReport], created: float) -> list[str]:
    first, n = reports[0], sum(report.n_images for report in reports)
    return [
        f"tested on {time.strftime('%d %B %Y', time.gmtime(created))}",
        f"{n:,} pictures of {first.settings.model}, classified by {first.settings.encoder}",
        ", ".join(
            f"{name} {first.versions[name]}"
            for name in sorted({"bias_core", "torch", "transformers"} & set(first.versions))
        ),
    ]
