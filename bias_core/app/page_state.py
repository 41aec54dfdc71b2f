"""What the server keeps of an open page: what the visitor changed of it, and of reports their run's id."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.blocks import BlocksConfig

from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.saved import is_saved, open_report
from bias_core.ui.messages import user_errors
from bias_core.ui.study.open import by_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gradio.blocks import Block
    from gradio.state_holder import SessionState

    from bias_core.services import Services


class PageConfig(BlocksConfig):
    """The page's components and events, of which each open page gets a small copy."""

    def __copy__(self) -> _OpenPageConfig:
        copied = _OpenPageConfig(self.root_block)
        copied.blocks, copied.fns = copy.copy(self.blocks), copy.copy(self.fns)
        copied.fn_id, copied.renderables = self.fn_id, copy.copy(self.renderables)
        return copied


class _OpenPageConfig(BlocksConfig):
    """Without a second description of every component: 1.4 MB that only Gradio's deep links would read."""

    __copy__ = PageConfig.__copy__

    @staticmethod
    def config_for_block(*_of: object, **_more: object) -> dict[str, Any]:
        """Nothing; the page itself was described by :class:`PageConfig`."""
        return _NOTHING


_NOTHING: dict[str, Any] = {}  # shared by all components of all pages


@dataclass(frozen=True, kw_only=True)
class _Saved:
    """In the place of a report that the report store has."""

    run_id: str


_page: ContextVar[str] = ContextVar("page", default="")  # which the event at work comes from


class PageStates:
    """Which reports open pages show: known when Gradio let go of the state of a page for 200 newer ones.

    Parameters
    ----------
    most : pages; the longest unused are forgotten first.
    """

    def __init__(self, services: Services, most: int = 20_000) -> None:
        self._services, self._most = services, most
        self._shown: OrderedDict[str, dict[int, Any]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def event_of(self, page: str | None) -> Iterator[None]:
        """Around an event: from now on it is known which page it comes from."""
        token = _page.set(page or "")
        try:
            yield
        finally:
            _page.reset(token)

    def keep_little(self, state: SessionState, outputs: Sequence[Block]) -> None:
        """After an event: ids in the place of saved reports, and components as they were built.

        Gradio makes a component anew with every update; only another menu has to be known when it is read.
        """
        for block in outputs:
            number = block._id  # noqa: SLF001
            if number not in state:
                continue
            if isinstance(block, gr.State):
                state[number] = little = without_reports(state[number], self._services)
                self._remember(number, little)
            elif getattr(state[number], "choices", None) == getattr(block, "choices", None):
                state.blocks_config.blocks[number] = block

    def given(self, inputs: Sequence[Block], values: Sequence[Any]) -> list[Any]:
        """The values of an event's inputs, with the reports of the page that it comes from."""
        shown = self._shown.get(_page.get(), {}) if _page.get() else {}
        whole = [
            shown.get(block._id) if value is None else value  # noqa: SLF001
            for block, value in zip(inputs, values, strict=False)
        ]
        return [with_reports(value, self._services) for value in [*whole, *values[len(whole) :]]]

    def _remember(self, number: int, little: Any) -> None:
        if not _page.get():
            return
        is_report = isinstance(little, _Saved) or bool(_held(little, (_Saved,)))
        with self._lock:
            shown = self._shown.setdefault(_page.get(), {})
            self._shown.move_to_end(_page.get())
            if is_report:
                shown[number] = little
            else:
                shown.pop(number, None)
            while len(self._shown) > self._most:
                self._shown.popitem(last=False)


def without_reports(value: Any, services: Services) -> Any:
    """What a page's state holds, with the ids of saved reports in their place.

    A report that nothing would open again (an example, one that was scored anew by hand) stays.
    """
    if isinstance(value, StudyReport):
        return _Saved(run_id=value.run_id) if is_saved(value, services) else value
    return _each_field(value, (StudyReport,), lambda one: without_reports(one, services))


def with_reports(value: Any, services: Services) -> Any:
    """What :func:`without_reports` was given; None where the report is no longer stored."""
    if isinstance(value, _Saved):
        return _opened(value, services)
    full = _each_field(value, (_Saved,), lambda saved: _opened(saved, services))
    is_whole = full is value or all(getattr(full, one.name) is not None for one in _held(value, (_Saved,)))
    return full if is_whole else None


def _opened(saved: _Saved, services: Services) -> StudyReport | None:
    with user_errors():  # nothing to show is said by whoever needs it
        found = open_report(saved.run_id, services)
        if found is not None:
            return by_name(found.report)
    return None


def _held(value: Any, kinds: tuple[type, ...]) -> list[Any]:
    if not is_dataclass(value) or isinstance(value, type):
        return []
    return [one for one in fields(value) if isinstance(getattr(value, one.name), kinds)]


def _each_field(value: Any, kinds: tuple[type, ...], change: Any) -> Any:
    held = _held(value, kinds)
    return replace(value, **{one.name: change(getattr(value, one.name)) for one in held}) if held else value
