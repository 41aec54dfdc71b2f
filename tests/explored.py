"""An exploration as most tests look at it: the report of the study, and what is read out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bias_core.explore.exploration import Exploration
from bias_core.explore.options import explore_settings
from bias_core.report.export import to_export
from bias_core.run.plan import plan_study
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design

__all__ = [
    "Explored", "explore", "explore_settings", "explored", "measured", "own_pictures", "pictures_of", "plan_explore",
]  # fmt: skip


class Explored(Exploration):
    """The results of a report, with the report's own id, notes and warning."""

    def __getattr__(self, name: str) -> Any:
        if name == "notes":
            return self.report.results.notes
        return getattr(self.report, name)


def explore(settings: Any, services: Any, **options: Any) -> Any:
    """The steps of the run; the last one is what it found, which knows what was there before."""
    before = {path.stem for path in services.images.folder.glob("??/*.png")}
    found = Explored((yield from run_study(find_design("explore"), settings, services, **options)))
    found.__dict__["reused"] = [image.number for image in found.images if image.id in before]
    yield found


def plan_explore(settings: Any, services: Any) -> Any:
    return plan_study(find_design("explore"), settings, services).manifest


def measured(settings: Any, services: Any, *attributes: str) -> Any:
    """The report of all pictures that these settings bring along."""
    return complete(run_study(find_design("explore"), own_pictures(settings, *attributes), services))


def own_pictures(settings: Any, *attributes: str) -> Any:
    """Settings that take all imported pictures as they are and look for these attributes in them."""
    words = {"concept": "", "attribute_a": "", "attribute_b": ""}
    return explore_settings(settings, attributes=attributes or ("man",), **words)


def pictures_of(report: Any) -> Any:
    """Export a run for an import: without its figures and pages, which take long to draw."""
    return replace(to_export(report, pictures=True), files={})


def explored(services: Any, session: str = "", **given: Any) -> Any:
    """The report of a small exploration by the renderer, without an association."""
    usual = {"concept": "doctor", "model": "calibration-renderer", "attribute_a": "", "attribute_b": ""}
    return complete(run_study(find_design("explore"), explore_settings(**usual | given), services, session=session))
