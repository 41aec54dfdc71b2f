"""How the page and programs ask for a run: in the one line of all runs."""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar, cast

from gradio.context import LocalContext

from bias_core.engine.run_line import Asker, Place
from bias_core.studies.kit.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import gradio as gr

    from bias_core.engine.run_line import RunAtWork
    from bias_core.services import Services
    from bias_core.ui.visitor import Visitor

S = TypeVar("S")
R = TypeVar("R")

RUN: dict[str, Any] = {"concurrency_limit": None}  # the line of runs says who waits, not Gradio's queue
_PLACES_OF_PROGRAMS = 8  # of one address


def in_line(
    services: Services, visitor: Visitor, start: Callable[[], Generator[S, None, R]], place: str = ""
) -> Generator[S | Progress, None, R]:
    """A visitor's run when it is its turn; until then, how many are before it.

    With the ``place`` on the page where it was asked for, it goes on when the page is loaded anew.
    """
    asker = Asker(name=visitor.key, address=visitor.address)
    return told(services.run_line.begin(start, asker, visitor.stop, place))


def told(run: RunAtWork[S | Place, R]) -> Generator[S | Progress, None, R]:
    """The newest steps of a run, its place in line in words."""
    steps = run.follow()
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return cast("R", end.value)
        yield _told(step) if isinstance(step, Place) else step


def of_program(services: Services, start: Callable[[], Generator[S, None, R]]) -> tuple[S | None, R]:
    """The last step and the result of a run that a program asked for, when it is its turn."""
    address = address_of(LocalContext.request.get(None))
    asker = Asker(name=f"programs {address}", address=address, places=_PLACES_OF_PROGRAMS)
    steps, last = services.run_line.run(start, asker), None
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return last, end.value
        last = last if isinstance(step, Place) else step


def address_of(request: gr.Request | None) -> str:
    """Where a request came from, for a fair share; "" where all come from this machine.

    A Space is reached through a proxy: the last public address of its header is one that the proxies saw,
    and none that a visitor made up.
    """
    if request is None:
        return ""
    client = getattr(getattr(request, "client", None), "host", "") or ""
    forwarded = request.headers.get("x-forwarded-for", "") if os.environ.get("SPACE_ID") else ""
    for text in (*reversed(forwarded.split(",")), client):
        try:
            address = ip_address(text.strip())
        except ValueError:
            continue
        if address.is_global:
            return str(address)
    return "" if client in ("127.0.0.1", "::1") else client


def _told(place: Place) -> Progress:
    n, one = place.n_before, place.n_before == 1
    before = "1 run is" if one else f"{n} runs are"
    return Progress(
        done=0, total=0, seconds_left=float("nan"), message=f"Waiting for your turn: {before} before yours …"
    )
