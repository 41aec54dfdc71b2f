"""Shared parts of commands: one-line errors, services, progress bar, tables, options from settings."""

import os
import signal
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
import yaml
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bias_core.errors import BiasCoreError, Cancelled, InvalidInput, StorageError, get_error_message, quoted
from bias_core.study.design import find_design
from bias_core.study.types import Arm, Progress, WatchedShare, settings_from_dict
from bias_core.values import Setting, declared_settings, name_and_value
from bias_core.wording import limit_list

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.run.study_run import Run
    from bias_core.services import Services


T = TypeVar("T")
console = Console(emoji=False)  # “:x:” in a prompt is no emoji
_MOST_SO_FAR = 4  # shares shown during drawing


class EngineName(StrEnum):
    """The engines that draw."""

    local = "local"
    ray = "ray"


DRAW, MODEL, MEASURE, OUTPUT = "What to draw", "Which model", "How to measure", "Output"
_GROUPS = {
    DRAW: (
        "n_images", "seed", "template", "base", "attribute_a", "attribute_b", "n_attribute_images", "languages",
        "scale", "options", "images", "prompts_from", "copies", "drawn_with", "arms", "stop_within", "stop_when_clear",
    ),
    MODEL: (
        "model", "condition", "num_inference_steps", "guidance_scale", "negative_prompt", "size", "sampler", "rewrite",
        "rewriter", "protocol",
    ),
}  # fmt: skip
"""Settings by option group; all others are about measuring."""

OUT = "Folder or name.zip for report, tables and figures (`explore`: and pictures); or name.html, .csv, .md or .json."


def option(group: str, text: str, *names: str, **kwargs: Any) -> Any:
    """Declare an option in a group of a command's help."""
    return typer.Option(*names, help=text, rich_help_panel=group, show_default=False, **kwargs)


def with_known_ending(out: Path | None) -> Path | None:
    """Refuse a file of a kind that no report has, before anything is drawn."""
    if out is not None:
        from bias_core.report.export import check_place

        with user_errors():
            check_place(out)
    return out


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every command that runs something."""

    engine: Annotated[
        EngineName,
        option(
            MODEL, 'Engine that draws: local, this process; or ray, with pip install "ray\\[data]" (default: local).'
        ),
    ] = EngineName.local
    workers: Annotated[
        int, option(MODEL, "Models at work at once, with --engine ray (default: one per GPU, or per machine).")
    ] = 0
    token_env: Annotated[
        str,
        option(
            MODEL,
            "Variable with the token that pays for a hosted model (default: HF_TOKEN, or BIAS_IMAGES_KEY).",
            metavar="NAME",
        ),
    ] = ""
    out: Annotated[Path | None, option(OUTPUT, OUT, callback=with_known_ending)] = None
    keep: Annotated[bool, option(OUTPUT, "Never delete the pictures of this run to make room.", "--keep")] = False
    full: Annotated[bool, option(OUTPUT, "Print all numbers, tables and notes.", "--full")] = False
    as_json: Annotated[
        bool, option(OUTPUT, "Print JSON and nothing else: a summary, or everything with --full.", "--json")
    ] = False


AsJson = Annotated[bool, option(OUTPUT, "Print JSON and nothing else.", "--json")]


def show_warning(warning: str) -> None:
    """Print a warning that must be read before a report, if there is one."""
    if warning:
        console.print(warning, markup=False, style="bold red")


def choose_engine(services: "Services", run_options: RunOptions) -> None:
    """Let the services draw with the engine of these options."""
    if run_options.engine is EngineName.ray:
        from bias_core.study_services import draw_with_ray

        draw_with_ray(services, run_options.workers)
    elif run_options.workers:
        raise InvalidInput("the local engine has one worker; choose --engine ray for more")


@contextmanager
def user_errors() -> Iterator[None]:
    """Show our own errors as one red line and exit with 2; Ctrl-C exits with 130 if no run listens."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise exit_stopped(signal.SIGINT) from error
    except BiasCoreError as error:
        typer.secho(f"Error: {get_error_message(error)}", fg="red", err=True)
        raise typer.Exit(2) from error


@contextmanager
def open_services(token_env: str = "") -> "Iterator[Services]":
    """Open the services of this process; a variable names the token that pays for hosted models."""
    from bias_core.services import Services

    services = Services().for_visitor(_read_token(token_env) if token_env else "")
    try:
        yield services
    finally:
        services.close()


def _read_token(variable: str) -> str:
    token = os.environ.get(variable, "").strip()
    if not token:
        raise InvalidInput(f"the environment has no variable {quoted(variable)} with a token in it (--token-env)")
    return token


class Stop:
    """The stop flag of a run, which calls it as ``cancelled`` at every step.

    ``signal`` is the signal that set it; 0 for none.
    """

    def __init__(self) -> None:
        self.signal = 0

    def __call__(self) -> bool:
        """Return true once a signal came."""
        return self.signal != 0


def run_with_bar(start: Callable[..., Generator[Progress, None, T]], *inputs: Any) -> T:
    """Run with a progress bar and return the result; Ctrl-C and SIGTERM stop the run at its next step.

    ``start`` makes the run from the inputs; its ``cancelled`` is the stop flag.

    Raises typer.Exit: the run stopped without a result: with the code of :func:`exit_stopped`.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with stop_on_signal() as stop, Progress(*columns, console=Console(stderr=True, emoji=False)) as bar:
        task = bar.add_task("starting", total=None)
        run = start(*inputs, cancelled=stop)
        while True:
            try:
                step = next(run)
            except StopIteration as stop_iteration:
                result: T = stop_iteration.value
                return result
            except Cancelled:
                if not stop():
                    raise
                break
            left = f", {step.seconds_left:.0f} s left" if step.seconds_left > 0 else ""
            words = step.message + left + (_format_shares(step.shares) if step.shares else "")
            bar.update(task, completed=step.done, total=step.total, description=words)
    raise exit_stopped(stop.signal)


def _format_shares(shares: Sequence[WatchedShare]) -> str:
    """Write a line for each of the first shares, with intervals that hold at any time."""
    watched = [share for share in shares if share.estimate.n]
    lines = [
        f"{escape(share.name)}: {share.value_words} ({share.interval_words}) of {share.estimate.n:,}"
        for share in watched
    ]
    return "".join(f"\n  {line}" for line in limit_list(lines, _MOST_SO_FAR))


def exit_stopped(signum: int) -> typer.Exit:
    """Say that a run is unfinished; return the exit with the code that a shell expects, 130 after Ctrl-C.

    Without a signal it was the machine that could not go on; the report says why, and the code is 1.
    """
    typer.secho("Stopped: what is finished is kept, and the same command goes on from there.", fg="yellow", err=True)
    return typer.Exit(128 + signum if signum else 1)


@contextmanager
def stop_on_signal() -> Iterator[Stop]:
    """Stop at the first Ctrl-C or SIGTERM; the second does what it usually does."""
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


_SHORT = 24  # letters of a cell that stays on one line


def build_rich_table(rows: "pd.DataFrame", title: str = "") -> Table:
    """Make a table of texts; short cells stay on one line."""
    table = Table(*map(str, rows.columns), title=title or None)
    for row in rows.itertuples(index=False):
        table.add_row(*row)
    return table


def fits(table: Table) -> bool:
    """Fold long cells of a table; say whether it is as narrow as the terminal then."""
    for column in table.columns:  # rich narrows the widest column that may wrap
        column.overflow = "fold"
        longest = max(map(cell_len, [str(column.header), *map(str, column.cells)]))
        column.no_wrap, column.min_width = longest <= _SHORT, min(longest, _SHORT)
    return Measurement.get(console, console.options.update(max_width=10_000), table).minimum <= console.width


def show_table(table: Table) -> None:
    """Print a table of texts; if it is too wide, each row as a table of its own, with a line for each column."""
    if fits(table):
        console.print(table)
        return
    names = [str(column.header) for column in table.columns]
    console.print(str(table.title or ""), style="bold", markup=False)
    for row in zip(*(column.cells for column in table.columns), strict=True):
        record = Table(show_header=False)
        record.add_column(overflow="fold", max_width=console.width // 2)
        record.add_column(overflow="fold")
        for name, cell in zip(names, row, strict=True):
            record.add_row(name, cell)
        console.print(record)


def show_rows(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts."""
    table = Table(*headers)
    for row in rows:
        table.add_row(*map(Text, row))  # brackets in a prompt are no markup
    show_table(table)


Given = Mapping[str, Any]  # values on the command line, by setting
MANY = ("model", "condition")  # settings that may be given several times


def with_options(
    declared: Mapping[str, Setting],
    *,
    run_options: type[RunOptions] = RunOptions,
    many: Collection[str] = (),
    flags: Mapping[str, Sequence[str]] = {},
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every one of these settings and every field of ``run_options``.

    It receives them as ``given: Given`` and ``run_options``. Settings in ``many`` may be given several times;
    ``flags`` are further names of an option.
    """

    def parameter(name: str, default: Any, annotation: Any) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own_parameters = [
            p for p in signature(command, eval_str=True).parameters.values() if p.name not in ("given", "run_options")
        ]
        in_groups = sorted(declared, key=lambda name: [DRAW, MODEL, MEASURE].index(_find_group(name)))
        made = [
            parameter(name, None, _option(declared[name], flags.get(name, ()), many=name in many)) for name in in_groups
        ]
        kinds = get_type_hints(run_options, include_extras=True)
        parameters = [
            *own_parameters[:1],
            *made,
            *own_parameters[1:],
            *(
                parameter(option_field.name, option_field.default, kinds[option_field.name])
                for option_field in fields(run_options)
            ),
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: value for name in declared if (value := values.pop(name)) not in (None, [])}
            command(
                given=given,
                run_options=run_options(
                    **{option_field.name: values.pop(option_field.name) for option_field in fields(run_options)}
                ),
                **values,
            )

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _find_group(name: str) -> str:
    return next((group for group, names in _GROUPS.items() if name in names), MEASURE)


def _option(setting: Setting, flags: Sequence[str], *, many: bool) -> Any:
    """Make the type and the help of a setting's option; None stands for an option that is not given."""
    names, words = (setting.flag, *flags), setting.help
    if setting.name == "options":
        names, words = ("--option",), f"{words} `study show` lists them."
    elif setting.name == "arms":
        keys = ", ".join(arm.key for arm in declared_settings(Arm).values())
        names, words = ("--arm",), f"{words} Repeat it for each arm. An arm may change {keys}."
    elif many:
        words += " Several times: each is run by itself; --arm compares."
    kind: Any = setting.kind if setting.kind in (int, float, bool) else str
    kind = list[str] if many or setting.name in ("options", "arms") else kind
    return Annotated[kind | None, option(_find_group(setting.name), escape(words), *names)]


def read_given(study: str, given: Given, file: Path | None, n: int | None = None) -> "tuple[Run, list[str], list[str]]":
    """Return the complete settings, and the models and conditions to run them with; ``n`` pictures per prompt.

    Raises InvalidInput: a setting that is none, or no study; StorageError: the file cannot be read.
    """
    values = _read_file(file) if file else {}
    named = str(values.pop("study", ""))
    options = values.pop("options", None) or {}
    if not isinstance(options, Mapping):
        raise InvalidInput(f"options must be names with their values; got {quoted(options)}")
    own_values = {name: value for name, value in given.items() if name not in (*MANY, "options", "arms")}
    options = {**options, **dict(name_and_value(text) for text in given.get("options", []))}
    like = settings_from_dict({**values, **own_values, "options": options})
    if texts := given.get("arms"):
        from bias_core.study.types import parse_arms

        like = replace(like, arms=parse_arms(texts))
    if not (study or named):
        raise InvalidInput("name a study of `study list`, or a file of settings that names one as `study`")
    design = find_design(study or named)
    from bias_core.run.plan import settle

    request = settle(design if n is None else replace(design, images_per_prompt=n), like, {*values, *given})
    models = given.get("model", [request.settings.model])
    conditions = given.get("condition", [request.settings.condition])
    return request, list(dict.fromkeys(models)), list(dict.fromkeys(conditions))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if not isinstance(values, dict):
        raise InvalidInput(f"{path} holds no settings with their names, such as `seed: 3`")
    return {str(name): value for name, value in values.items()}
