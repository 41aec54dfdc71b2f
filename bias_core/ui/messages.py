"""Messages on the page: progress, errors and notes."""

import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bias_core.errors import (
    BiasCoreError,
    HubNotReached,
    Interrupted,
    ModelUnavailable,
    NoClassifier,
    NotDrawn,
    NotEnoughMemory,
    RunQueueFull,
    StorageError,
    TooLarge,
    UnknownModel,
    get_error_message,
)
from bias_core.settings import on_public_server
from bias_core.study.types import Progress
from bias_core.ui.templates import render, without_variables
from bias_core.wording import format_count

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Options of an event that is no API endpoint and shows no progress."""
LATEST: dict[str, Any] = {**QUIET, "trigger_mode": "always_last"}
"""For events that read fields: a choice made during an answer is not lost; the last one counts.

An event of a component has at most one such listener: Gradio would repeat all of them while any is busy.
"""
EACH: dict[str, Any] = {**QUIET, "trigger_mode": "multiple", "queue": False}
"""For events that carry what was pressed: each is answered, because Gradio drops the data of a waiting event."""
_PAUSE = 0.25  # seconds
_PATH = re.compile(r"(?<![\w.:/])~?(?:/[^\s/'\"`:;,]+)+/([^\s/'\"`:;,]+)")
TRY_AGAIN = "Try again"
_MAY_PASS = (HubNotReached, NotDrawn, NotEnoughMemory, RunQueueFull, Interrupted, StorageError)
_TERMINAL = re.compile(r" ?\((?=[^()]*(?:--[a-z]|python -m ))[^()]*\)")  # brackets about the command line
NOTHING_DONE = "No results here: nothing was measured yet, or its report is no longer stored. Run this first."


def done_html(text: str, view: str = "") -> str:
    """A status line; ``view`` is the element id of a part of the page to scroll to."""
    return _status("quiet", text, view)


def error_html(
    message: str, view: str = "", *, buttons: Mapping[str, str] | None = None, field: str = "", of_run: bool = False
) -> str:
    """An error in the place of the progress; screen readers announce it at once. ``view`` as in :func:`done_html`.

    Each of the ``buttons``, by text, presses or focuses the component with this element id; ``field`` is the element
    id of the field that it is about, and ``of_run`` says that a run ended with it.
    """
    return _status("error", message, view, buttons=buttons or {}, field=field, of_run=of_run)


def _status(kind: str, text: str, view: str, **facts: Any) -> str:
    at = time.monotonic_ns()  # the page does not see a message that equals the last one
    return render(
        "status", kind=kind, text=text, view=view, at=at, **{"buttons": {}, "field": "", "of_run": False} | facts
    )


STOPPING = done_html("Stopping: pictures in progress are finished first …")
LOADING = done_html("Loading the model; the first time takes a few seconds …")
WAITING = "Waiting for your turn: one run at a time …"
QUEUED = done_html(WAITING)
GOES_ON = done_html("Your run continued while the page reloaded. Its result will appear here and in Runs.")


class Pace:
    """Limits progress updates to four a second, because each one costs the page time."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        """True if enough time has passed; that starts the next pause."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _PAUSE
        return True


@dataclass
class Problem:
    """The error of a ``with user_errors()`` block; empty if there was none."""

    message: str = ""
    scale: float = 0.0  # largest share of a too large run that can run here; 0 if none or unknown
    no_classifier: NoClassifier | None = None  # the error that the chosen classifier cannot read the pictures
    may_pass: bool = False  # True if the same may succeed later
    is_of_model: bool = False  # True if another model may do

    def __bool__(self) -> bool:
        return bool(self.message)


def pictures_today(n: int) -> str:
    """The visitor's remaining GPU time in pictures, an estimate of two digits.

    >>> pictures_today(0), pictures_today(1), pictures_today(64), pictures_today(1234)
    ('No GPU time is left today for one more picture', 'About 1 more picture today', 'About 64 more pictures today',
     'About 1,200 more pictures today')
    """
    if not n:
        return "No GPU time is left today for one more picture"
    return f"About {format_count(int(float(f'{n:.2g}')), 'more picture')} today"


@contextmanager
def user_errors() -> Iterator[Problem]:
    """Catch our own errors and keep their text, to show in place; inside handlers, for some are generators.

    The page leaves out what is in brackets about options of the command line.
    """
    problem = Problem()
    try:
        yield problem
    except BiasCoreError as error:
        problem.message = _TERMINAL.sub("", format_error(error))
        problem.scale = error.scale if isinstance(error, TooLarge) else 0.0
        problem.no_classifier = error if isinstance(error, NoClassifier) else None
        problem.may_pass = isinstance(error, _MAY_PASS)
        problem.is_of_model = isinstance(error, ModelUnavailable | UnknownModel) and not problem.no_classifier


def format_error(error: BiasCoreError) -> str:
    """An error's sentence without environment variables; on a public server paths are cut down to their last part."""
    text = str(without_variables(get_error_message(error)))
    return _PATH.sub(r"\1", text) if on_public_server() else text


def crash_html(buttons: Mapping[str, str] | None = None) -> str:
    """The message for an unexpected error, with ``buttons`` as in :func:`error_html`."""
    return error_html(
        "the program has an error, which is in the server's log. Finished pictures are stored: "
        "run it again to continue from there.",
        buttons=buttons,
    )


def progress_html(progress: Progress, of: str = "", run: str = "") -> str:
    """A bar with the count and the time left; ``of`` names the tab of a run that is not in sight.

    ``run`` tells the runs of a visitor apart.
    """
    text, seconds = ": ".join(filter(None, (of, progress.message))), progress.seconds_left
    if seconds >= 1:  # nan is not
        left = f"{math.ceil(seconds)} s" if seconds < 90 else f"{math.ceil(seconds / 60)} min"
        text += f" · about {left} left"
    return render("status", kind="progress", progress=progress, text=text, run=run)


def heading_html(title: str, note: str = "") -> str:
    return render("heading", title=title, note=note)
