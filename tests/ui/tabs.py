"""A study tab with its components, outside of a served app."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.ui.study.fields import read_plain
from bias_core.ui.study.form import OWN_INPUT, PLAIN
from bias_core.ui.study.paper import Paper
from bias_core.ui.study.papers_tab import PapersTab
from bias_core.ui.study.result_page import LATER
from bias_core.ui.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bias_core.services import Services
    from bias_core.study.types import StudyReport
    from bias_core.ui.study.study_tab import StudyTab


def built(kind: type[StudyTab | Paper], services: Services, *others: type[Paper]) -> Any:
    """The tab, laid out and wired; for a paper, the page of it and the ``others``.

    Inside of a loop, for Gradio would else make some that nobody closes.
    """

    async def lay_out() -> Any:
        tab = PapersTab(services, [kind, *others]) if issubclass(kind, Paper) else kind(services)
        with gr.Blocks(analytics_enabled=False) as demo:
            tab.build_memory()
            tab.build(demo, gr.State(Visitor()))
        return tab

    return asyncio.run(lay_out())


def paper_of(page: PapersTab) -> Any:
    """The only paper of a page."""
    (paper,) = page.papers.values()
    return paper


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
    named = {name: part.value for name, part in tab.inputs().items()}
    values = read_plain(named.pop(PLAIN)) | named | dict(form or {}) | {"use_own": bool(own)}
    key = tab.get_study_key(values["study"]) if isinstance(tab, PapersTab) else ""
    return values | {f"{OWN_INPUT}{key}.{name}": value for name, value in own.items()}


def sent(tab: StudyTab, values: Mapping[str, Any]) -> list[Any]:
    """These values of a form as the page sends them: one for each component, the plain fields in one text."""
    named = tab.inputs()
    plain = json.dumps({name: value for name, value in values.items() if name not in named})
    return [plain if name == PLAIN else values[name] for name in named]


def plain_of(tab: StudyTab, updates: Mapping[Any, Any]) -> dict[str, Any]:
    """Values of the plain fields after these updates, by name."""
    return dict(json.loads(updates[tab.plain.values]))
