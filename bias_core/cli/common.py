"""What all commands share: errors in one line, services, a progress bar that Ctrl-C stops."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from bias_core.errors import BiasCoreError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from bias_core.services import Services
    from bias_core.studies.explore_types import Progress

T = TypeVar("T")
console = Console()


class EngineName(str, Enum):
    """Who draws."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[
    EngineName, typer.Option(help='Who draws: this process, or Ray\'s workers (pip install "ray\\[data]").')
]
WorkersOption = Annotated[
    int, typer.Option(help="With --engine ray: models at work at once; 0: one per GPU, or per machine.")
]


def choose_engine(services: Services, engine: EngineName, workers: int) -> None:
    """Let the services draw with this engine."""
    if engine is EngineName.ray:
        from bias_core.workers import draw_with_ray

        draw_with_ray(services, workers)
    elif workers:
        raise InvalidInput("the local engine has one worker; choose --engine ray for more")


@contextmanager
def user_errors() -> Iterator[None]:
    """Show our own errors as one red line and exit with 2."""
    try:
        yield
    except BiasCoreError as error:
        typer.secho(f"Error: {error}", fg="red", err=True)
        raise typer.Exit(2) from error


@contextmanager
def open_services() -> Iterator[Services]:
    """The services of this process, closed in the end."""
    from bias_core.services import Services

    services = Services()
    try:
        yield services
    finally:
        services.close()


def run_with_bar(start: Callable[[Callable[[], bool]], Generator[Progress, None, T]]) -> T:
    """Follow a run behind a progress bar to what it returns; Ctrl-C stops it at its next step.

    ``start`` gets the question whether to stop, and gives the run.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with stop_on_interrupt() as stopped, Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        run = start(stopped.is_set)
        while True:
            try:
                step = next(run)
            except StopIteration as end:
                result: T = end.value
                return result
            left = f", {step.seconds_left:.0f} s left" if step.seconds_left > 0 else ""
            bar.update(task, completed=step.done, total=step.total, description=step.message + left)


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second interrupts as usual."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return

    def on_interrupt(*_: Any) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)
