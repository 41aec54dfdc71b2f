"""The page's tabs: a tab for each group, with tabs of its own where a group has several members."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import gradio as gr

from bias_core.ui.messages import QUIET

_NAME_JS = "() => window.nameTab?.()"


def group_tabs(tabs: Iterable[Any]) -> dict[str, list[Any]]:
    """Tabs by the name of their group, both in order."""
    groups: dict[str, list[Any]] = {}
    for tab in tabs:
        groups.setdefault(tab.group, []).append(tab)
    return groups


class Places:
    """The ``gr.Tab`` of each tab, by its key in ``shown``, and the updates that open one."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] = {}
        self._all: Any = None  # the groups
        self._chosen: list[Any] = []  # the event of each tab
        self._groups: dict[str, tuple[Any, str]] = {}  # by key of a tab: the tabs of its group, and the group's name

    def build(self, tabs: Iterable[Any], build: Callable[[Any], None], below: Mapping[str, Callable[[], None]]) -> None:
        """Build all tabs; ``build`` fills one, and ``below``, by group, builds what the tabs of a group share."""
        with gr.Tabs(elem_id="tabs", overflow_behavior="wrap") as self._all:
            for group, members in group_tabs(tabs).items():
                if members[1:] or group in below:
                    self._build_group(group, members, build, below.get(group))
                else:
                    self._build_tab(members[0], group, build)
        gr.on(self._chosen, None, js=_NAME_JS, **QUIET)

    def _build_group(
        self, group: str, members: list[Any], build: Callable[[Any], None], below: Callable[[], None] | None
    ) -> None:
        with gr.Tab(group, id=group) as whole:
            with gr.Tabs(overflow_behavior="wrap", elem_classes="inner-tabs") as inner:
                for tab in members:
                    self._build_tab(tab, f"{tab.title}: {tab.asks}" if tab.asks else tab.title, build)
                    self._groups[tab.key] = inner, group
            if below is not None:
                below()
        self._chosen.append(whole.select)

    def _build_tab(self, tab: Any, name: str, build: Callable[[Any], None]) -> None:
        with gr.Tab(name, id=tab.key) as self.shown[tab.key]:
            build(tab)
        self._chosen.append(self.shown[tab.key].select)

    def outputs(self) -> list[Any]:
        """The components that :meth:`open` changes."""
        return [self._all, *dict.fromkeys(inner for inner, _ in self._groups.values())]

    def open(self, key: str) -> dict[Any, Any]:
        """Updates that open the tab ``key`` in its group."""
        inner, group = self._groups.get(key, (None, key))
        opened = {self._all: gr.update(selected=group)}
        return opened if inner is None else {**opened, inner: gr.update(selected=key)}
