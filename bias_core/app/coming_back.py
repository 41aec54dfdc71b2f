"""A page that is loaded anew shows in each tab what its visitor ran there last, or what is still at work."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from bias_core.library.tab import RunsTab
from bias_core.services import Services
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, StudySettings
from bias_core.studies.running.history import design_of, list_runs, open_run
from bias_core.ui import messages
from bias_core.ui.links import Link, query_of, read_link
from bias_core.ui.run_turns import RUN, steps_in_words
from bias_core.ui.study.study_tab import PRIVATE, QUIET, StudyTab, Updates
from bias_core.ui.visitor import Visitor

_AT_WORK = "at work"
_MOST_LOOKED_AT = 50  # runs, the newest first
_SETTINGS = {name: one for name, one in settings_of(StudySettings).items() if one.may_be_linked}


class ComingBack:
    """What happens once it is known whose page this is; ``others`` are the tabs of studies."""

    def __init__(self, services: Services, runs: RunsTab, others: list[StudyTab]) -> None:
        self._services, self._runs = services, runs
        self._tabs: dict[str, StudyTab] = {tab.key: tab for tab in (*others, runs)}

    def wire(self, arrived: Any, visitor: Any) -> None:
        """The list of runs, and of each tab the last one."""
        last = {key: gr.State("") for key in self._tabs}
        arrived.then(self.on_arrived, visitor, [self._runs.parts["list"], *last.values()], **QUIET)
        how: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "multiple", **RUN, **PRIVATE}
        for key, run in last.items():
            tab = self._tabs[key]
            outputs = self._runs.everywhere if tab is self._runs else tab.opened_outputs()
            # Only of a tab that has a run: a state that stays as it was is no change.
            run.change(partial(self.on_last, key), [visitor, run], outputs, **how)

    def on_arrived(self, visitor: Visitor, request: gr.Request | None = None) -> list[Any]:
        """The list as it is now; for each tab the id of its last run, or that one is at work."""
        with messages.user_errors():
            last = self._last_runs(visitor)
            at_work = self._services.run_line.find(visitor.key)
            if at_work is not None and at_work.place:
                last[at_work.place] = _AT_WORK
            tabs = {key: tab.studies for key, tab in self._tabs.items()}
            link = read_link(query_of(request), tabs, self._services)
            if not self._is_asked(last.get(link.tab, ""), link):
                last.pop(link.tab, None)
            return [self._runs.on_list(visitor), *(last.get(key, "") for key in self._tabs)]
        return [self._runs.on_list(visitor), *[""] * len(self._tabs)]

    def on_last(self, key: str, visitor: Visitor, run_id: str) -> Iterator[Updates]:
        """Show a tab's last run with its settings, or follow the one that is at work."""
        tab = self._tabs[key]
        at_work = self._services.run_line.find(visitor.key)
        if run_id == _AT_WORK and at_work is not None:
            yield from tab.following(visitor, steps_in_words(at_work), messages.GOES_ON)
            return
        with messages.user_errors():  # one that cannot be opened is in the list of runs, which says why
            if run_id == _AT_WORK:  # it has ended since
                run_id = self._last_runs(visitor).get(key, "")
            if run_id:
                yield tab.opened(open_run(self._services, visitor.key, run_id))

    def _is_asked(self, run_id: str, link: Link) -> bool:
        """Whether a run has what the address asks for; a form that it fills in otherwise is left as it is."""
        if not link.values or run_id == _AT_WORK:
            return True
        run = self._services.manifests.find(run_id) if run_id else None
        if run is None:
            return False
        has = {one.key: one.shown(run.settings.get(name)) for name, one in _SETTINGS.items()}
        options, values = run.settings.get("options", {}), dict(link.values)
        has |= {"study": run.study, "concept": options.get("concept")}
        has["arms"] = tuple(Arm(**arm) for arm in run.settings.get("arms", ()))
        for name, value in values.pop("options", {}).items():  # a manifest has lists
            if options.get(name) != (list(value) if isinstance(value, tuple) else value):
                return False
        return all(has.get(name) == value for name, value in values.items())

    def _last_runs(self, visitor: Visitor) -> dict[str, str]:
        """By tab the id of the newest run that has a report."""
        lines = [line for line in list_runs(self._services, visitor.key) if line.saved]
        last: dict[str, str] = {}
        for line in lines[:_MOST_LOOKED_AT]:
            with messages.user_errors():
                design = design_of(self._services, visitor.key, line.run_id)
                tabs = (key for key, tab in self._tabs.items() if tab.claims(design))
                last.setdefault(next(tabs, self._runs.key), line.run_id)
        return last
