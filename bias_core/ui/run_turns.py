"""How the page and programs ask for a run: in the one line of all runs."""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from gradio.context import LocalContext

from bias_core.engine.run_line import Asker, Place, RunAtWork
from bias_core.services import Services
from bias_core.studies.kit.types import Progress, mapped
from bias_core.studies.running.run import complete
from bias_core.ui.visitor import Visitor, address_of

S = TypeVar("S")
R = TypeVar("R")

RUN: dict[str, Any] = {"concurrency_limit": None}  # the line of runs says who waits, not Gradio's queue
_PLACES_OF_PROGRAMS = 8  # of one address


def in_line(
    services: Services, visitor: Visitor, start: Callable[[], Generator[S, None, R]], place: str = ""
) -> Generator[S | Progress, None, R]:
    """A visitor's run, or how many are before it; with its ``place`` on the page it survives a reload."""
    asker = Asker(name=visitor.key, address=visitor.address)
    return steps_in_words(services.run_line.begin(start, asker, visitor.stop, place))


def steps_in_words(run: RunAtWork[S | Place, R]) -> Generator[S | Progress, None, R]:
    """The newest steps of a run, its place in line in words."""

    def in_words(step: S | Place) -> S | Progress:
        if not isinstance(step, Place):
            return step
        before = "1 run is" if step.n_before == 1 else f"{step.n_before} runs are"
        return Progress(message=f"Waiting for your turn: {before} before yours …")

    return mapped(run.follow(), in_words)


def of_program(services: Services, start: Callable[[], Generator[Any, None, R]]) -> R:
    """The result of a run that a program asked for, when it is its turn."""
    address = address_of(LocalContext.request.get(None))
    asker = Asker(name=f"programs {address}", address=address, places=_PLACES_OF_PROGRAMS)
    return complete(services.run_line.run(start, asker))
