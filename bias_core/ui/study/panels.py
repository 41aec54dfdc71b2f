"""Panels of a result page: what it builds for some studies only, and how each report changes it."""

from collections.abc import Sequence
from typing import Any

from bias_core.study.types import StudyFigure, StudyReport

Updates = dict[Any, Any]


class Panels:
    """The panels of a tab or paper, by their places on the page; each hook builds or changes those of one place."""

    def __init__(self) -> None:
        self.at_once: dict[str, Any] = {}  # components that each report changes, by name
        self.extra: dict[str, Any] = {}  # components that a report changes when *By attribute* is opened, by name
        self.box: Any = None  # has the latter

    def shows(self, report: StudyReport) -> bool:
        """Return True if reports like this are shown here."""
        return True

    def build_lead(self) -> dict[str, Any]:
        """Build components between the headline and the pictures, by name."""
        return {}

    def build_beside(self) -> dict[str, Any]:
        """Build components below the plot, by name."""
        return {}

    def build_numbers(self) -> dict[str, Any]:
        """Build components below *The numbers*, by name."""
        return {}

    def show_at_once(self, report: StudyReport) -> Updates:
        """Return updates of these components for any report; for one that is not shown here, they are empty."""
        return {}

    def build_extra(self) -> dict[str, Any]:
        """Build components at the top of *By attribute*, by name."""
        return {}

    def has_extra(self, report: StudyReport) -> bool:
        """Return True if they show something of a report of this tab or paper."""
        return not report.arms and type(self).build_extra is not Panels.build_extra

    def show_extra(self, report: StudyReport) -> Updates:
        """Return updates of these components when *By attribute* is opened."""
        return {}

    def wire_panels(self) -> None:
        """Wire the events of the components."""

    def figures(self, report: StudyReport) -> Sequence[StudyFigure]:
        """Return figures to show as they are, without those that a panel shows."""
        return report.results.figures

    def has_plot(self, figure: StudyFigure, report: StudyReport) -> bool:
        """Return False if a panel shows the figure that would be next to the pictures."""
        return True
