"""What the user is told in place: progress, errors, and what this page is."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from bias_core.errors import BiasCoreError, message_of
from bias_core.settings import on_public_server

if TYPE_CHECKING:
    from bias_core.studies.progress import Progress

READY = '<p class="status quiet">Ready. The defaults give a full result in one click.</p>'
STOPPING = '<p class="status quiet" role="status">Stopping after this denoising step …</p>'
LOADING = '<p class="status quiet" role="status">Loading the model; the first time takes a few seconds …</p>'
QUEUED = '<p class="status quiet" role="status">Waiting for a turn: one run at a time …</p>'
WAITING = '<p class="quiet waiting">The numbers follow when the pictures are there.</p>'
_PAUSE = 0.25  # seconds
_PATH = re.compile(r"(?<![\w.:/])~?(?:/[^\s/'\"`:;,]+)+/([^\s/'\"`:;,]+)")
NOTHING_DONE = "Nothing has been measured yet: press “Generate and measure” first."


def warning_html(warning: str) -> str:
    """What must be read before a report; "" for nothing."""
    return f'<p class="warning" role="alert">{escape(warning)}</p>' if warning else ""


class Pace:
    """When the next sign of life of a run is due: four a second, as each costs the page its time too."""

    def __init__(self) -> None:
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether enough time went by; the answer "yes" starts the next pause."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _PAUSE
        return True


@dataclass
class Problem:
    """What went wrong inside a ``with user_errors()`` block; empty while all is well."""

    message: str = ""

    def __bool__(self) -> bool:
        return bool(self.message)


@contextmanager
def user_errors() -> Iterator[Problem]:
    """Catch our own errors and keep their text, for the handler to show in place.

    Used inside handlers, as a decorator would miss those that are generators.
    """
    problem = Problem()
    try:
        yield problem
    except BiasCoreError as error:
        problem.message = said(error)


def said(error: BiasCoreError) -> str:
    """An error's sentence; on a public server the paths in it are cut down to their last part."""
    text = message_of(error)
    return _PATH.sub(r"\1", text) if on_public_server() else text


def error_html(message: str) -> str:
    """An error where the progress was; announced at once."""
    return f'<div class="status error" role="alert"><b>That did not work.</b> {escape(message)}</div>'


def crash_html() -> str:
    """For an error that nobody foresaw."""
    return error_html(
        "The program met an error of its own; it is in the server's log. Finished pictures are stored: "
        "press Generate again to go on from there."
    )


def progress_html(progress: Progress) -> str:
    """A bar with the count and the time left."""
    share = 100 * progress.done / progress.total if progress.total else 0.0
    text = escape(progress.message) + _time_left(progress.seconds_left)
    return (
        '<div class="status"><div class="bar" role="progressbar" aria-label="Pictures drawn" '
        f'aria-valuemin="0" aria-valuemax="{progress.total}" aria-valuenow="{progress.done}">'
        f'<span style="width:{share:.1f}%"></span></div><p>{text}</p></div>'
    )


def done_html(text: str) -> str:
    """The line that stays after a run."""
    return f'<p class="status quiet" role="status">{escape(text)}</p>'


def _time_left(seconds: float) -> str:
    if math.isnan(seconds) or seconds < 1:
        return ""
    if seconds < 90:
        return f" · about {math.ceil(seconds)} s left"
    return f" · about {math.ceil(seconds / 60)} min left"
