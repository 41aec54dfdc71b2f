"""A paper on the page of the papers: its words, presets, fields of own words, and panels of its results."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from bias_core.measures.cards import work
from bias_core.study.design import find_design, format_summary, keep_only_options, read_design_names
from bias_core.study.types import Design, StudyReport, StudySettings
from bias_core.ui.study.panels import Panels, Updates
from bias_core.ui.study.parts import ExamplesPart
from bias_core.ui.study.pictures import picture_html
from bias_core.ui.study.presets import HasStudies
from bias_core.ui.study.study_tab import StudyTab
from bias_core.ui.templates import render

Words = tuple[str, str]  # title and key of a part of a report
PAPER_TESTS = "Paper tests"
_AFTER_STUDIES = 60  # place of a study that has none of its own
_AT_EACH_END = 4


class Paper(HasStudies, Panels):
    """A paper's place on the page. All papers share the page's form and result; ``page`` has their components."""

    title: ClassVar[str]
    paper: ClassVar[str] = ""  # the short name of its paper
    group: ClassVar[str] = PAPER_TESTS
    asks: ClassVar[str] = ""  # what it asks, in a few words after its title
    place: ClassVar[int]  # among the tabs, from left to right
    question: ClassVar[str]  # the question that it answers, in a sentence
    caution: ClassVar[str] = ""  # what not to conclude from it
    also: ClassVar[Sequence[str]] = ()  # further kinds of designs with reports shown here
    own_options: ClassVar[Collection[str]] = ()  # options that also apply to the visitor's own words
    closer: ClassVar[bool] = False  # True if parts of its reports can be looked at closer

    def __init__(self, page: StudyTab) -> None:
        super().__init__()
        self.page, self.services = page, page.services
        self.designs = {name: find_design(name) for name in self.studies}
        self.examples = ExamplesPart(self.key, page.services.settings.assets_dir / "examples")
        self.own: dict[str, Any] = {}  # fields of own words, by name

    @classmethod
    def name_paper(cls) -> str:
        """Return the short name of the paper with its authors; "" without one."""
        return f"{cls.paper}: {work(find_design(cls.studies[0]).reference)}" if cls.paper else ""

    def claims(self, design: Design) -> bool:
        """Return True if reports of this design are shown here."""
        return design.kind in {*self.also, *(paper_design.kind for paper_design in self.designs.values())}

    def shows(self, report: StudyReport) -> bool:
        return self.claims(report.design)

    def build_own(self) -> dict[str, Any]:
        """Build the fields of the visitor's own words, by name."""
        return {}

    def own_design(self, design: Design, own_values: Mapping[str, Any]) -> Design:
        """Return the design with the visitor's own words, the values of :meth:`build_own`."""
        return design

    def own_values(self, design: Design) -> Mapping[str, Any]:
        """Return the values of :meth:`build_own` that make this design; {} if they cannot be found again."""
        return {}

    def own_settings(self, settings: StudySettings) -> StudySettings:
        """Return the form's settings for that design: full size, and only its options."""
        return keep_only_options(settings, self.own_options)

    def shown_options(self, study: str) -> Mapping[str, Any]:
        """Return options of a study that the page sets otherwise than the study, to show more."""
        return {}

    def on_study(self, study: str, model: str) -> Updates:
        """Return further updates of the form when another study is chosen."""
        return {}

    def closer_looks(self, report: StudyReport) -> Sequence[Words]:
        """Return titles and keys of the parts to look at closer."""
        return []

    def closer_html(self, report: StudyReport, key: str) -> str:
        """Return one part explained in words; "" if there is nothing to explain."""
        return ""

    def behind_html(self, report: StudyReport, key: str) -> str:
        """Return pictures of this part; "" if there are none."""
        return ""


def plain_paper(folder: Path) -> type[Paper]:
    """Return a paper of the studies in a folder that brings none: a form and the report."""
    title = folder.name.replace("_", " ").capitalize()
    names = read_design_names(folder)
    facts = {"key": folder.name, "title": title, "place": _AFTER_STUDIES, "studies": names}
    return type(title, (Paper,), facts | {"question": format_summary(find_design(names[0]))})


def extremes_html(
    report: StudyReport, column: str, groups: Mapping[str, pd.DataFrame], *, low: str, high: str, note: str = ""
) -> str:
    """Return pictures with the lowest and highest values of a column in each group; "" if there are too few.

    ``low`` and ``high`` name the two ends; with a ``note`` the pictures are in a card.
    """
    shown = []
    for title, frame in groups.items():
        rows = frame.dropna(subset=[column]).sort_values(column, kind="stable")
        if n := min(_AT_EACH_END, len(rows) // 2):
            sides = ((low, rows.head(n)), (high, rows.tail(n).iloc[::-1]))
            shown.append((title, [(words, side.to_dict("records")) for words, side in sides]))
    if not shown:
        return ""
    return render("extremes", groups=shown, column=column, stored=report.stored, note=note)


def opened_html(report: StudyReport | None, image_id: str) -> str:
    """Return a large picture; "" for an id that is not in this report."""
    if report is None or report.pictures is None:
        return ""
    rows = report.pictures[report.pictures["image_id"] == image_id]
    return "" if rows.empty else picture_html(report, rows.iloc[0])
