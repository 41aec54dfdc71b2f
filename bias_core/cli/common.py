"""What all commands share: errors in one line, services, a progress bar that Ctrl-C stops."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from bias_core.errors import BiasCoreError, Cancelled, InvalidInput, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from bias_core.exchange.export import Export
    from bias_core.services import Services
    from bias_core.studies.kit.progress import Progress

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

ForceOption = Annotated[
    bool, typer.Option("--force", help="Score anyway with a calibration reader; the report says so first.")
]


def show_warning(warning: str) -> None:
    """What must be read before a report, where there is anything."""
    if warning:
        console.print(warning, markup=False, style="bold red")


def choose_engine(services: Services, engine: EngineName, workers: int) -> None:
    """Let the services draw with this engine."""
    if engine is EngineName.ray:
        from bias_core.services import draw_with_ray

        draw_with_ray(services, workers)
    elif workers:
        raise InvalidInput("the local engine has one worker; choose --engine ray for more")


@contextmanager
def user_errors() -> Iterator[None]:
    """Show our own errors as one red line and exit with 2; Ctrl-C, where no run listens, exits with 130."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise exit_stopped(signal.SIGINT) from error
    except BiasCoreError as error:
        typer.secho(f"Error: {message_of(error)}", fg="red", err=True)
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


class Stop:
    """Whether the run is to stop: asked as ``cancelled`` at its every step.

    ``signal`` is the one that asked for it; 0 for none.
    """

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        """Whether a signal came."""
        return self.signal != 0


def run_with_bar(start: Callable[..., Generator[Progress, None, T]], *inputs: Any) -> T:
    """Follow a run behind a progress bar to what it returns; Ctrl-C and SIGTERM stop it at its next step.

    ``start`` gives the run of the inputs; as ``cancelled`` it gets the question whether to stop.

    Raises typer.Exit: the run was stopped before it had anything to return: with the code of :func:`exit_stopped`.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with stop_on_signal() as stop, Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        run = start(*inputs, cancelled=stop)
        while True:
            try:
                step = next(run)
            except StopIteration as end:
                result: T = end.value
                return result
            except Cancelled:
                if not stop():
                    raise
                break
            left = f", {step.seconds_left:.0f} s left" if step.seconds_left > 0 else ""
            bar.update(task, completed=step.done, total=step.total, description=step.message + left)
    raise exit_stopped(stop.signal)


def exit_stopped(signum: int) -> typer.Exit:
    """Say that a run is unfinished; the exit with the code that a shell expects, 130 after Ctrl-C.

    Without a signal it was the machine that could not go on; the report says why, and the code is 1.
    """
    typer.secho("Stopped: what is finished is kept, and the same command goes on from there.", fg="yellow", err=True)
    return typer.Exit(128 + signum if signum else 1)


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """A stop that the first Ctrl-C or SIGTERM asks for; the second does what it usually does."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for signum, handler in before.items():
            signal.signal(signum, handler)

    def on_signal(signum: int, _frame: Any) -> None:
        stop.signal = signum
        restore()

    for signum in before:
        signal.signal(signum, on_signal)
    try:
        yield stop
    finally:
        restore()


def write_export(export: Export, out: Path) -> None:
    """Into a folder, or into one zip where the name ends so."""
    from bias_core.exchange.export import write_folder, write_zip

    (write_zip if out.suffix.lower() == ".zip" else write_folder)(export, out)
    console.print(f"Written to {out}", markup=False)
