"""The papers' studies on the command line: listed, shown, planned, drawn and measured."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bias_core.app.cli.common import (
    DRAW,
    MANY,
    OUTPUT,
    AsJson,
    Given,
    RunOptions,
    choose_engine,
    console,
    open_services,
    option,
    read_given,
    run_with_bar,
    show_rows,
    show_table,
    show_warning,
    user_errors,
    with_options,
)
from bias_core.app.cli.reports import finish, show_answers
from bias_core.errors import HubNotReached, InvalidInput
from bias_core.installed import ASSETS
from bias_core.models.catalogue import hosted_name, request_words
from bias_core.study.design import find_design, format_summary, list_designs, option_settings
from bias_core.study.types import StudySettings
from bias_core.values import declared_settings

if TYPE_CHECKING:
    from bias_core.run.study_run import Run
    from bias_core.services import Services


def list_studies(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="As the table of docs/studies.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the studies that come with the program."""
    import pandas as pd

    from bias_core.measures.cards import work
    from bias_core.report.report_text import markdown_table
    from bias_core.run.programs import FULL, format_json, studies_answer

    with user_errors():
        if as_json:
            typer.echo(format_json(studies_answer(list_designs(), FULL)))
            return
        if markdown:
            told = [(d, ", ".join(filter(None, (work(d.reference), d.where)))) for d in list_designs()]
            rows = [(d.name, d.title, redraws) for d, redraws in told]
            typer.echo(markdown_table(pd.DataFrame(rows, columns=["study", "what it asks", "redraws"]), code=["study"]))
            return
        studies = [(design.name, design.title, work(design.reference), design.where) for design in list_designs()]
        show_rows(("study", "what it asks", "paper", "redraws"), studies)


def show_study(
    name: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")], *, as_json: AsJson = False
) -> None:
    """Show what a study draws and which options it has."""
    from bias_core.measures.cards import work
    from bias_core.run.plan import settle
    from bias_core.run.programs import FULL, format_json, studies_answer

    with user_errors():
        design = find_design(name)
        if as_json:
            typer.echo(format_json(studies_answer([design], FULL)))
            return
        request = settle(design, StudySettings())
        shots = request.requested_shots
        console.print(f"[bold]{design.title}[/bold] ({work(design.reference)}, {design.where})")
        console.print(format_summary(design, request.settings), markup=False)
        console.print(f"{sum(shot.n for shot in shots):,} pictures of {len(shots):,} prompts at full size, e.g.")
        for shot in shots[:: max(1, len(shots) // 5)][:5]:
            console.print(f"  {shot.prompt}  x {shot.n}", markup=False)
        for name, option in option_settings(design).items():
            console.print(f"--option {name}={option.write(option.default)}  {option.help}", markup=False)


def measures(
    *,
    markdown: Annotated[bool, typer.Option("--markdown", help="Every card in full, as Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the measures with their range, their null value and what higher means."""
    from bias_core.measures.cards import METRICS, cards_markdown, work
    from bias_core.run.programs import FULL, format_json, measures_answer

    if as_json:
        typer.echo(format_json(measures_answer(FULL)))
        return
    if markdown:
        typer.echo(cards_markdown(METRICS.values()), nl=False)
        return
    table = Table("measure", "what it tells", "range", "null", "higher", "source")
    for metric in METRICS.values():
        low, high = metric.bounds
        null = "–" if metric.null_value is None else f"{metric.null_value:g}"
        source = work(metric.reference)
        table.add_row(metric.name, metric.summary, f"{low:g} to {high:g}", null, metric.higher_means, source)
    show_table(table)


_LONG_SECONDS = 600
Study = Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")]


@dataclass(frozen=True, kw_only=True)
class StudyOptions(RunOptions):
    """The options of a study's run."""

    settings: Annotated[
        Path | None, option(DRAW, "YAML file of settings by their names; options on the command line win.")
    ] = None
    n: Annotated[
        int | None, option(DRAW, "Pictures per prompt (default: the study's).", "-n", "--images-per-prompt")
    ] = None
    plan: Annotated[bool, option(DRAW, "Print what drawing will cost, and ask before a long run.", "--plan")] = False
    dry_run: Annotated[bool, option(DRAW, "Print what it would cost, only.", "--dry-run", "--estimate")] = False
    draw_only: Annotated[bool, option(DRAW, "Only fill the picture store.", "--draw-only")] = False
    yes: Annotated[bool, option(DRAW, "Do not ask before a long run.", "--yes", "-y")] = False
    price: Annotated[
        float | None, option(DRAW, "Price in USD of a picture of a hosted model, for the estimate.", min=0)
    ] = None


@with_options(declared_settings(StudySettings), run_options=StudyOptions, many=MANY)
def run_studies(study: Study = "", *, given: Given, run_options: StudyOptions) -> None:
    """Draw the pictures of a study and measure them.

    Ctrl-C stops; the same command goes on from there, and draws nothing twice. --draw-only fills the picture store,
    here or on many GPUs (--engine ray); the same settings then find the pictures, except those that a study such as
    oasis-stop draws while it measures.

    --engine ray joins the cluster of RAY_ADDRESS, whose machines all need this program, the weights and the same
    BIAS_DATA_DIR on a shared disk; without RAY_ADDRESS it uses all of this machine.
    """
    if run_options.out is not None and run_options.draw_only:
        raise typer.BadParameter("reports need measuring: leave --draw-only out", param_hint="--out")
    from bias_core.run.plan import lay_out

    with user_errors(), open_services(run_options.token_env) as services:
        choose_engine(services, run_options)
        if run_options.n is not None and run_options.n < 1:
            raise InvalidInput(f"the number of pictures per prompt is at least 1, got {run_options.n}")
        chosen = _split_request(*read_given(study, given, run_options.settings, run_options.n), services)
        for request in chosen:
            if request.answers is not None and not run_options.as_json:
                answers = lay_out(request, services, measure=False, estimate=True).answers
                show_answers(request.answers if answers is None else answers)
        if run_options.plan or run_options.draw_only or run_options.dry_run or len(chosen) > 1:
            plans = [
                lay_out(request, services, measure=not run_options.draw_only, estimate=run_options.dry_run)
                for request in chosen
            ]
            _agree(plans, services, run_options)
            if run_options.dry_run:
                return
            for plan in plans:
                _draw_plan(plan, services, run_options)
        if not run_options.draw_only:
            _measure(chosen, services, run_options)


def _agree(plans: "Sequence[Run]", services: "Services", run_options: StudyOptions) -> None:
    from bias_core.run.plan import study_cost, warm_up

    for plan in [] if run_options.dry_run else plans:
        if math.isnan(study_cost(plan).seconds):  # a first batch shows how long a picture takes
            run_with_bar(warm_up, plan)
    long = _show_costs(plans, services)
    long |= _show_requests(plans, services, run_options.price)
    _show_refusals(plans, services, measure=not run_options.draw_only)
    if long and not (run_options.dry_run or run_options.yes):
        if not sys.stdin.isatty():
            raise InvalidInput("this takes long and needs confirmation; without a terminal, add --yes")
        if not typer.confirm("Start?"):
            raise typer.Exit(1)


def _split_request(
    request: "Run", models: Sequence[str], conditions: Sequence[str], services: "Services"
) -> "list[Run]":
    """Return one per model and condition; a model without conditions comes once."""
    has = {name: bool(services.model_info(name).conditions) for name in models}
    return [
        request.with_settings(model=name, condition=condition)
        for name in has
        for condition in (dict.fromkeys(conditions) if has[name] or not any(has.values()) else [""])
    ]


def _show_costs(plans: "Sequence[Run]", services: "Services") -> bool:
    """Print the table of costs; return true if the user should agree first."""
    from bias_core.models.model_sources import free_bytes
    from bias_core.run.plan import study_cost
    from bias_core.run.reproduction import replication_estimate
    from bias_core.study.classifiers import reading_words

    costs = [study_cost(plan) for plan in plans]
    table = Table("model", "condition", "pictures", "exist", "to draw", "time", "disk")
    for plan, cost in zip(plans, costs, strict=True):
        exist = f"{cost.n_stored:,}" if _is_known(plan) else "not known"
        missing = f"{cost.n_missing:,}" if _is_known(plan) else f"up to {cost.n_missing:,}"
        cells = f"{cost.n_pictures:,}", exist, missing, _time(cost.seconds), _size_words(cost.n_bytes)
        table.add_row(_get_setting_name(plan, "model"), _get_setting_name(plan, "condition") or "–", *cells)
    show_table(table)
    for plan in plans if plans[0].design.protocol else ():
        console.print(replication_estimate(plan), markup=False)
    arms = [arm for plan in plans for arm in plan.each]
    for note in dict.fromkeys(note for arm in filter(_is_known, arms) for note in arm.notes_before_drawing):
        console.print(note, markup=False)
    readers = dict.fromkeys(reader for plan in plans for arm in plan.each for reader in arm.readers)
    if facts := [services.reader_facts(reader.role, reader.name) for reader in readers]:
        console.print(f"Classified by {' and '.join(map(reading_words, facts))}.", markup=False)
    for name in dict.fromkeys(arm.settings.model for arm in arms if not _is_known(arm)):
        console.print(_not_known(name, services), markup=False)
    seconds, n_bytes = sum(cost.seconds for cost in costs), sum(cost.n_bytes for cost in costs)
    if any(cost.n_missing for cost in costs) and not math.isnan(seconds):
        place = f"{services.engine.n_workers()} x {services.engine.place()}"
        console.print(f"{_time(seconds)}, {_size_words(n_bytes)} in all, on {place}", markup=False)
    if math.isnan(seconds):
        console.print("The time is known after a first batch here.")
    free, limit = free_bytes(services.settings.data_dir), services.settings.cache_gb * 1e9
    if n_bytes > free:
        console.print(f"The disk has room for {_size_words(free)} only: set BIAS_DATA_DIR to another.")
    if n_bytes > limit:
        console.print(
            f"The store keeps {_size_words(limit)} of pictures that are in no kept run: "
            "add --keep, or raise BIAS_CACHE_GB."
        )
    return seconds > _LONG_SECONDS or n_bytes > free


def _is_known(plan: "Run") -> bool:
    """Return true if existing pictures can be looked up: they are the user's own, or the model's revision is known."""
    return all(arm.settings.images or arm.rows.revision for arm in plan.each)


def _show_requests(plans: "Sequence[Run]", services: "Services", price: float | None) -> bool:
    """Print how many requests to hosted models cost money; return true if there are any."""
    from bias_core.run.plan import study_cost

    n_requests: Counter[str] = Counter()
    for arm in (arm for plan in plans for arm in plan.each):
        if not arm.settings.images and hosted_name(arm.settings.model):
            n_requests[arm.settings.model] += study_cost(arm).n_missing
    for name, n in n_requests.items():
        console.print(f"{request_words(n, services.model_info(name), price)}.", markup=False)
    if n_requests:
        console.print(f"A run has at most {services.settings.max_images:,} pictures here (BIAS_MAX_IMAGES).")
    return n_requests.total() > 0


def _not_known(name: str, services: "Services") -> str:
    if hosted_name(name):
        return f"It is unknown which pictures of {name} already exist: {_describe_refusal(services, name)}"
    listed = name in {info.id for info in services.models()}
    guessed = "" if listed else "; its steps and size are also unknown, so usual ones are assumed"
    return (
        f"{name} is not on this machine and the hub was not reached, so it is not known which commit would "
        f"be drawn, which of its pictures exist already and whether it suits the study{guessed}. "
        f"{services.model_fit(name).says}"
    )


def _describe_refusal(services: "Services", name: str) -> str:
    """Say why a hosted model cannot be asked now."""
    try:
        return f"it is drawn by {services.revision(name)}."
    except HubNotReached as error:
        return f"{error}."


def _show_refusals(plans: "Sequence[Run]", services: "Services", *, measure: bool) -> None:
    """Print which plans are too large, and which classifiers cannot read the pictures; that ends a measuring run."""
    from bias_core.run.image_rows import RowMaker
    from bias_core.run.plan import check_size, check_study_readers

    for plan in plans:
        try:
            if isinstance(plan.rows, RowMaker):
                check_size(plan, services.settings, plan.rows)
        except InvalidInput as error:
            show_warning(f"This will be refused: {error}")
        try:
            show_warning(check_study_readers(plan))
        except InvalidInput as error:
            if measure:
                raise
            show_warning(f"These pictures can be drawn, but not measured like this: {error}")


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "not known"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _size_words(n_bytes: float) -> str:
    if math.isnan(n_bytes):
        return "not known"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _draw_plan(plan: "Run", services: "Services", run_options: StudyOptions) -> None:
    from bias_core.report.blocked_pictures import describe_count
    from bias_core.run.run import draw_study

    run_with_bar(draw_study, plan)
    if run_options.keep:
        services.manifests.keep(plan.manifest.id)
    blocked = f", {describe_count(plan.n_blocked)}" if plan.n_blocked else ""
    n = sum(arm.n_planned for arm in plan.each)
    title = f"{plan.design.name}, {_get_setting_name(plan, 'model')} {_get_setting_name(plan, 'condition')}".rstrip()
    console.print(f"{title}: {n:,} pictures{blocked}. Run {plan.manifest.id}", markup=False)


def _get_setting_name(plan: "Run", setting: str) -> str:
    return " and ".join(dict.fromkeys(getattr(arm.settings, setting) for arm in plan.each))


def _measure(chosen: "Sequence[Run]", services: "Services", run_options: StudyOptions) -> None:
    from bias_core.run.run import run

    for request in chosen:
        settings, report = request.settings, run_with_bar(run, request, services)
        name = f"{settings.model}-{settings.condition}".strip("-").replace("/", "--")
        finish(report, run_options, services, folder=name if len(chosen) > 1 else "")


def new_study(
    name: Annotated[str, typer.Argument(help="Name of the study: small letters, digits and _, such as hats.")],
    *,
    folder: Annotated[Path, option(OUTPUT, "Folder for the new package (default: here).", "--folder")] = Path(),
) -> None:
    """Write a small study as a package of your own: its design, study and report, and tests that pass.

    Change it, then `pip install -e` it: it is then on the page, on the command line and in the API, as the papers' are.
    """
    from bias_core.study.design import check_new_name

    with user_errors():
        check_new_name(name)
        package = folder / f"{name.replace('_', '-')}-study"
        if package.exists():
            raise InvalidInput(f"{package} exists already: choose another name or folder")
        class_name = "".join(word.capitalize() for word in name.split("_"))
        names = {"study_name": name, "study-name": package.name, "StudyName": class_name, "Study title": class_name}
        template = ASSETS / "templates" / "study"
        for path in sorted(path for path in template.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            text, place = path.read_text(encoding="utf-8"), str(path.relative_to(template))
            for placeholder, own in names.items():
                text, place = text.replace(placeholder, own), place.replace(placeholder, own)
            (package / place).parent.mkdir(parents=True, exist_ok=True)
            (package / place).write_text(text, encoding="utf-8")
    typer.echo(f"{package}: try it by `cd {package} && python -m pytest`, install it by `pip install -e {package}`")
