"""A study tab with its components, outside of a served app."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import gradio as gr

from bias_core.ui.study.result_page import LATER
from bias_core.ui.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.services import Services
    from bias_core.study.types import StudyReport
    from bias_core.ui.study.study_tab import StudyTab

    T = TypeVar("T", bound=StudyTab)


def built(kind: type[T], services: Services) -> T:
    """The tab, laid out and wired; inside of a loop, for Gradio would else make some that nobody closes."""

    async def lay_out() -> T:
        tab = kind(services)
        with gr.Blocks(analytics_enabled=False) as demo:
            tab.build_memory()
            tab.build(demo, gr.State(Visitor()))
        return tab

    return asyncio.run(lay_out())


def opened_folds(tab: StudyTab, shown: Mapping[Any, Any]) -> dict[Any, Any]:
    """The page of a finished run, with the content of its folds once they are opened."""
    report = shown[tab.parts["report"]]
    later = {part: value for name in LATER for part, value in tab.on_unfold(name, report, ()).items()}
    return {**shown, **later}


def changed(report: StudyReport, key: str, **values: Any) -> StudyReport:
    """The report with other values in a table."""
    tables = [replace(t, frame=t.frame.assign(**values)) if t.key == key else t for t in report.results.tables]
    return replace(report, results=replace(report.results, tables=tuple(tables)))


def form_values(tab: StudyTab, form: Mapping[str, Any] | None = None, **own: Any) -> dict[str, Any]:
    """The form as it is at first, but for ``form``; with words of one's own, these are the ones to run."""
    return (
        tab.values() | dict(form or {}) | {f"own.{name}": value for name, value in own.items()} | {"use_own": bool(own)}
    )
