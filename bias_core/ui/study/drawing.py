"""What is seen of a run while it draws: its pictures, numbered, as they form and are finished, and its shares so far.

While it is there it stands in place of the result that was shown before.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import gradio as gr

from bias_core.studies.kit.types import Progress
from bias_core.studies.kit.watching import drawn_words
from bias_core.studies.reports.embedded import small_uri
from bias_core.types import ImageRow, StoredImage
from bias_core.ui.templates import render, script

MOST_SHOWN = 48  # pictures at a time: of a larger run those around what is being drawn
_MOST_PROMPTS = 6  # that are named above their pictures
_PAUSE = 0.3  # seconds
_PAUSE_PER_PICTURE = 0.01


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A picture in the grid: ``state`` is "finished", "blanked", "forming" or "waiting"."""

    number: int
    prompt: str
    state: str
    picture: str = ""


class DrawingPart:
    """The part of a tab that shows a run at work; empty while there is none."""

    def __init__(self, key: str) -> None:
        self.html = gr.HTML(js_on_load=script("drawing"), elem_id=f"{key}-drawing")

    def of_run(self) -> "DrawingUpdates":
        """For one run."""
        return DrawingUpdates(self.html)


class DrawingUpdates:
    """Says when there is something new to be seen, which is sent as a whole."""

    def __init__(self, html: Any) -> None:
        self._html, self._due = html, 0.0
        self._last: Progress | None = None
        self._shown: tuple[Any, ...] = ()

    def note(self, progress: Progress) -> None:
        """Take note of every step, also of one that is not shown."""
        self._last = progress if progress.drawing else self._last

    def at(self, progress: Progress) -> Mapping[Any, str]:
        """What changes; nothing where the run draws nothing, or nothing changed."""
        now = time.monotonic()
        state = len(progress.images), tuple(progress.forming.values()), progress.shares
        is_last = progress.done == progress.total
        if not progress.drawing or self._is_shown(state) or (now < self._due and not is_last):
            return {}
        self._shown = state
        self._due = now + max(_PAUSE, _PAUSE_PER_PICTURE * min(MOST_SHOWN, len(progress.drawing)))
        return {self._html: drawing_html(progress)}

    def left(self) -> Mapping[Any, str]:
        """What stays of a run that ended without a result: what was finished, where something was."""
        is_some = self._last is not None and self._last.images
        return {self._html: drawing_html(replace(self._last, forming={})) if self._last and is_some else ""}

    def _is_shown(self, state: tuple[Any, ...]) -> bool:
        """By identity: two pictures that form can look alike."""
        if not self._shown or state[0] != self._shown[0] or state[2] != self._shown[2]:
            return False
        return list(map(id, state[1])) == list(map(id, self._shown[1]))


def drawing_html(progress: Progress) -> str:
    """The pictures around those at work, by their prompts where these are few, and the shares so far."""
    finished = {stored.path.stem: stored for stored in progress.images}
    first = _first_shown(progress.drawing, progress.forming or finished)
    places = [
        _place(number, row, finished.get(row.id), progress.forming)
        for number, row in enumerate(progress.drawing[first : first + MOST_SHOWN], start=first + 1)
    ]
    by_prompt: list[tuple[str, list[_Place]]] = []
    for place in places:
        if not by_prompt or by_prompt[-1][0] != place.prompt:
            by_prompt.append((place.prompt, []))
        by_prompt[-1][1].append(place)
    if len(by_prompt) > _MOST_PROMPTS:
        by_prompt = [("", places)]
    n_forming = sum(place.state == "forming" for place in places)
    return render(
        "drawing",
        groups=by_prompt,
        counts=drawn_words(len(finished), len(progress.drawing), progress.parts, finished),
        n_forming=n_forming,
        shown=(first + 1, first + len(places)) if len(places) < len(progress.drawing) else None,
        progress=progress,
    )


def _first_shown(rows: Sequence[ImageRow], at_work: Mapping[str, Any]) -> int:
    """Where the shown pictures begin: with the page that holds the last of those at work, or finished."""
    last = max((place for place, row in enumerate(rows) if row.id in at_work), default=0)
    return last // MOST_SHOWN * MOST_SHOWN


def _place(number: int, row: ImageRow, stored: StoredImage | None, forming: Mapping[str, Any]) -> _Place:
    if stored is not None:
        picture = f"gradio_api/file={quote(stored.path.as_posix())}"
        return _Place(
            number=number, prompt=row.prompt, state="blanked" if stored.blocked else "finished", picture=picture
        )
    if row.id in forming:
        return _Place(number=number, prompt=row.prompt, state="forming", picture=small_uri(forming[row.id]))
    return _Place(number=number, prompt=row.prompt, state="waiting")
