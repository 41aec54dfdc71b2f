"""How the Explore tab looks at each moment, as updates of its components."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.studies.explore_export import to_command, to_python
from bias_core.studies.report import to_dict, to_markdown
from bias_core.ui import groups, messages, results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.explore_types import ExploredImage, ExploreReport
    from bias_core.studies.progress import Progress
    from bias_core.ui.explore_layout import Ui

Updates = dict[Any, Any]
SIZE_OF_PAGE = 120
_SHORTEST_PAUSE = 0.2  # seconds
_PAUSE_PER_PICTURE = 0.01


@dataclass(frozen=True, kw_only=True)
class View:
    """What one visitor looks at: a report, and which part of its pictures."""

    report: ExploreReport
    group: int = groups.ALL
    page: int = 0
    opened: int = 0

    def chosen(self) -> list[ExploredImage]:
        """The pictures of the chosen group."""
        return groups.members(self.report, self.group)

    def on_page(self) -> list[ExploredImage]:
        """The pictures that the grid shows, in its order."""
        return self.chosen()[self.page * SIZE_OF_PAGE :][:SIZE_OF_PAGE]


class GrowingGrid:
    """Says when the grid is worth sending: every time costs as much as all its pictures."""

    def __init__(self) -> None:
        self._n_shown = -1
        self._next = 0.0

    def grown(self, progress: Progress) -> list[ExploredImage] | None:
        """The first page of the concept's pictures, or None while it has not grown or was just sent."""
        drawn = [image for image in progress.images if image.row.group == "concept"][:SIZE_OF_PAGE]
        now = time.monotonic()
        if len(drawn) == self._n_shown or now < self._next:
            return None
        self._n_shown = len(drawn)
        self._next = now + max(_SHORTEST_PAUSE, len(drawn) * _PAUSE_PER_PICTURE)
        return drawn


class ExploreView:
    """Turns steps, reports and choices into updates."""

    OUTPUTS: ClassVar[tuple[str, ...]] = (
        "view", "status", "generate", "stop", "welcome", "header", "pictures", "gallery", "page", "groups",
        "picture", "shares", "map_title", "map", "results", "table", "sentences", "association", "json",
        "markdown", "shell", "python",
    )  # fmt: skip

    def __init__(self, ui: Ui) -> None:
        self.ui = ui

    def started(self) -> Updates:
        """Between the turn in the queue and the first sign of life."""
        return self._buttons(running=True) | {self.ui.status: messages.LOADING}

    def waiting(self) -> Updates:
        """Between the click and the turn in the queue."""
        return self._buttons(running=True) | {self.ui.status: messages.QUEUED}

    def running(self, progress: Progress, grid: GrowingGrid) -> Updates:
        """The run so far: its progress, and the grid when it has grown."""
        status = {self.ui.status: messages.progress_html(progress)}
        drawn = grid.grown(progress)
        return status if drawn is None else status | self._grid(drawn)

    def finished(self, report: ExploreReport, folder: Path) -> Updates:
        """All of a report; its small files are written for download."""
        view = View(report=report)
        text = f"Done in {report.seconds:.1f} s. {len(report.scored_numbers)} pictures scored."
        files = {
            self.ui.json: _write(
                folder, f"report-{report.run_id}.json", json.dumps(to_dict(report), indent=2)
            ),
            self.ui.markdown: _write(folder, f"report-{report.run_id}.md", to_markdown(report, beside=False)),
        }
        code = {self.ui.shell: to_command(report.settings), self.ui.python: to_python(report.settings)}
        return self._whole(view) | files | code | {self.ui.status: messages.done_html(text)}

    def failed(self, message: str, last: View | None) -> Updates:
        """An error in place; what was there before comes back."""
        ui = self.ui
        status = messages.error_html(message) if message else messages.crash_html()
        if last is not None:
            return self._whole(last) | {ui.status: status}
        return self._buttons(running=False) | {ui.status: status}

    def group(self, view: View) -> Updates:
        """Another group or page in the grid."""
        ui = self.ui
        return {
            ui.view: view,
            ui.gallery: _gallery(view.on_page()),
            ui.groups: _shown(groups.group_buttons(view.report, view.group)),
            ui.map: _shown(groups.map_html(view.report, view.group, view.opened)),
            ui.page: _pages(view),
        }

    def picture(self, view: View, number: int) -> Updates:
        """One picture large."""
        ui, view = self.ui, replace(view, opened=number)
        image = next(image for image in view.report.images if image.number == number)
        url = f"gradio_api/file={image.path.as_posix()}"
        return {
            ui.view: view,
            ui.picture: _shown(results.picture_html(view.report, image, url)),
            ui.map: groups.map_html(view.report, view.group, number),
        }

    def _grid(self, drawn: Sequence[ExploredImage]) -> Updates:
        ui = self.ui
        return {
            ui.gallery: _gallery(drawn),
            ui.pictures: gr.update(visible=True),
            **dict.fromkeys(self._stale(), gr.update(visible=False)),
            ui.shares: messages.WAITING,
        }

    def _whole(self, view: View) -> Updates:
        ui, report = self.ui, view.report
        return {
            **self.group(view),
            **self._buttons(running=False),
            ui.welcome: gr.update(visible=False),
            ui.header: gr.update(value=results.header_html(report), visible=True),
            ui.pictures: gr.update(visible=True),
            ui.picture: _shown(""),
            ui.shares: results.shares_html(report),
            ui.map_title: gr.update(visible=True),
            ui.results: gr.update(visible=True),
            ui.table: results.table_html(report),
            ui.sentences: results.sentences_html(report),
            ui.association: results.association_html(report),
        }

    def _stale(self) -> list[Any]:
        """What belongs to the run before, or waits for the end of this one."""
        ui = self.ui
        return [ui.welcome, ui.header, ui.results, ui.map_title, ui.map, ui.page, ui.groups, ui.picture]

    def _buttons(self, *, running: bool) -> Updates:
        return {self.ui.generate: gr.update(visible=not running), self.ui.stop: gr.update(visible=running)}


def _shown(html: str) -> Any:
    return gr.update(value=html, visible=bool(html))


def _gallery(images: Sequence[ExploredImage]) -> Any:
    captions = [f"Picture {image.number}" + (" (blocked)" if image.blocked else "") for image in images]
    value = [(str(image.path), caption) for image, caption in zip(images, captions, strict=True)]
    return gr.update(value=value, selected_index=None)


def _pages(view: View) -> Any:
    n = len(view.chosen())
    starts = range(0, n, SIZE_OF_PAGE)
    choices = [(f"{start + 1}–{min(start + SIZE_OF_PAGE, n)} of {n}", i) for i, start in enumerate(starts)]
    return gr.update(choices=choices, value=view.page, visible=n > SIZE_OF_PAGE)


def _write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)
