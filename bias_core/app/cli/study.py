"""The papers' studies on the command line: listed, shown, planned, drawn and measured."""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import pandas as pd
import typer
from rich.table import Table

from bias_core.app.cli.common import (
    EngineName,
    EngineOption,
    Given,
    SettingsFile,
    TokenOption,
    WorkersOption,
    choose_engine,
    console,
    open_services,
    read_given,
    run_with_bar,
    show_table,
    show_warning,
    user_errors,
    with_settings,
)
from bias_core.app.cli.reports import OUT, save_study_report, show_study_report
from bias_core.errors import HubNotReached, InvalidInput
from bias_core.models.catalogue import hosted_name, request_words
from bias_core.models.model_sources import free_bytes
from bias_core.study.design import find_design, list_designs, option_settings
from bias_core.study.rows import RowMaker
from bias_core.study.study import Settled, StudyPlan
from bias_core.study.types import StudySettings

if TYPE_CHECKING:
    from bias_core.services import Services

app = typer.Typer(no_args_is_help=True)


@app.command(name="list")
def list_studies(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="As the table of docs/studies.md.")] = False
) -> None:
    """List the studies that come with the program."""
    from bias_core.measures.cards import work
    from bias_core.study.report_text import markdown_table

    with user_errors():
        if markdown:
            told = [(d, ", ".join(filter(None, (work(d.reference), d.where)))) for d in list_designs()]
            rows = [(d.name, d.title, redraws) for d, redraws in told]
            typer.echo(markdown_table(pd.DataFrame(rows, columns=["study", "what it asks", "redraws"]), code=["study"]))
            return
        table = Table("study", "what it asks", "paper", "redraws")
        for design in list_designs():
            table.add_row(design.name, design.title, work(design.reference), design.where)
        show_table(table)


@app.command(name="show")
def show_study(name: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")]) -> None:
    """Show what a study draws and which options it has."""
    from bias_core.measures.cards import work
    from bias_core.study.plan import settle

    with user_errors():
        design = find_design(name)
        asked = settle(design, StudySettings())
        shots = asked.study.shots(asked.settings)
        console.print(f"[bold]{design.title}[/bold] ({work(design.reference)}, {design.where})")
        console.print(design.summary, markup=False)
        console.print(f"{sum(shot.n for shot in shots):,} pictures of {len(shots):,} prompts at full size, e.g.")
        for shot in shots[:: max(1, len(shots) // 5)][:5]:
            console.print(f"  {shot.prompt}  x {shot.n}", markup=False)
        for name, one in option_settings(design).items():
            console.print(f"--option {name}={one.write(one.default)}  ({one.says})", markup=False)


def measures(
    markdown: Annotated[bool, typer.Option("--markdown", help="Every card in full, as Markdown.")] = False,
) -> None:
    """List the measures with their range, their null value and what higher means."""
    from bias_core.measures.cards import METRICS, to_markdown, work

    if markdown:
        typer.echo(to_markdown(METRICS.values()), nl=False)
        return
    table = Table("measure", "what it tells", "range", "null", "higher", "source")
    for metric in METRICS.values():
        low, high = metric.bounds
        null = "–" if metric.null_value is None else f"{metric.null_value:g}"
        source = work(metric.reference)
        table.add_row(metric.name, metric.summary, f"{low:g} to {high:g}", null, metric.higher_means, source)
    show_table(table)


T = TypeVar("T")

_LONG_SECONDS = 600
Study = Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")]
Images = Annotated[int | None, typer.Option("-n", "--images-per-prompt", help="The study's own number if left out.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "--estimate", help="Only say what it would cost.")]
Price = Annotated[
    float | None, typer.Option(min=0, help="USD that a picture of a hosted model costs, for the estimate.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a long run.")]
Keep = Annotated[bool, typer.Option("--keep", help="Never evict these pictures.")]
Out = Annotated[Path | None, typer.Option(help=OUT)]


@dataclass(frozen=True, kw_only=True)
class How:
    """What is done with the runs that are asked for."""

    n: int | None  # pictures per prompt; None: as the study has it
    plan: bool  # say what it will cost, and ask before a long run
    only_plan: bool  # and do no more
    measure: bool  # not only draw
    yes: bool  # do not ask
    keep: bool  # never evict the pictures
    out: Path | None  # folder (or zip) for the report; of several runs a folder for each model and condition
    token_env: str = ""  # variable with the token that pays for hosted models
    price: float | None = None  # USD of one of their pictures, for the estimate


@app.command(name="run")
@with_settings
def run_studies(
    study: Study = "",
    *,
    given: Given,
    settings: SettingsFile = None,
    n: Images = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="First say what drawing will cost, and ask before a long run.")
    ] = False,
    dry_run: DryRun = False,
    draw_only: Annotated[bool, typer.Option("--draw-only", help="Only fill the picture store.")] = False,
    yes: Yes = False,
    keep: Keep = False,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    out: Out = None,
    token_env: TokenOption = "",
    price: Price = None,
) -> None:
    """Run a study: draw and measure. Ctrl-C stops; the same command goes on from there.

    What exists is not drawn again. For what takes long, --plan says what drawing will cost, and
    --draw-only fills the picture store, here or on many GPUs (--engine ray): the same settings then find the
    pictures. (Studies that draw more from what they found, such as oasis-stop, draw that while measuring.)

    --engine ray joins the cluster of RAY_ADDRESS, whose machines all need this program, the weights and
    the same BIAS_DATA_DIR on a shared disk; without RAY_ADDRESS it uses all of this machine.
    """
    how = How(
        n=n, plan=plan or draw_only, only_plan=dry_run, measure=not draw_only, yes=yes, keep=keep, out=out,
        token_env=token_env, price=price,
    )  # fmt: skip
    _run(study, given, settings, how, (engine, workers))


def _run(study: str, given: Given, file: Path | None, how: How, engine: tuple[EngineName, int]) -> None:
    if how.out is not None and not how.measure:
        raise typer.BadParameter("reports need measuring: leave --draw-only out", param_hint="--out")
    from bias_core.study.plan import lay_out

    with user_errors(), open_services(how.token_env) as services:
        choose_engine(services, *engine)
        if how.n is not None and how.n < 1:
            raise InvalidInput(f"the number of pictures per prompt is at least 1, got {how.n}")
        chosen = _one_each(*read_given(study, given, file, how.n), services)
        if how.plan or how.only_plan or len(chosen) > 1:
            plans = [lay_out(one, services, measure=how.measure, estimate=how.only_plan) for one in chosen]
            _agree(plans, services, how)
            if how.only_plan:
                return
            for plan in plans:
                _draw(plan, services, keep=how.keep)
        if how.measure:
            _measure(chosen, services, how)


def _agree(plans: Sequence[StudyPlan], services: "Services", how: How) -> None:
    from bias_core.study.plan import study_cost, warm_up

    for plan in [] if how.only_plan else plans:
        if math.isnan(study_cost(plan, services).seconds):  # a first batch tells how long a picture takes
            run_with_bar(warm_up, plan, services)
    long = _show_costs(plans, services)
    long |= _show_requests(plans, services, how.price)
    _show_refusals(plans, services, measure=how.measure)
    if long and not (how.only_plan or how.yes):
        if not sys.stdin.isatty():
            raise InvalidInput("this takes long, and there is nobody to ask; add --yes to start all the same")
        if not typer.confirm("Start?"):
            raise typer.Exit(1)


def _one_each(asked: Settled, models: Sequence[str], conditions: Sequence[str], services: "Services") -> list[Settled]:
    """One per model and condition; models without conditions, beside some that have them, come once."""
    has = {name: bool(services.model_info(name).conditions) for name in models}
    return [
        asked.with_settings(model=name, condition=condition)
        for name in has
        for condition in (dict.fromkeys(conditions) if has[name] or not any(has.values()) else [""])
    ]


def _show_costs(plans: Sequence[StudyPlan], services: "Services") -> bool:
    """The table of costs; whether the user should think about it."""
    from bias_core.study.checklist import outlook
    from bias_core.study.plan import plan_notes, study_cost
    from bias_core.study.readers import reading_words

    costs = [study_cost(plan, services) for plan in plans]
    table = Table("model", "condition", "pictures", "exist", "to draw", "time", "disk")
    for plan, cost in zip(plans, costs, strict=True):
        exist = f"{cost.n_stored:,}" if _is_known(plan) else "not known"
        missing = f"{cost.n_missing:,}" if _is_known(plan) else f"up to {cost.n_missing:,}"
        cells = f"{cost.n_pictures:,}", exist, missing, _time(cost.seconds), _size(cost.n_bytes)
        table.add_row(_named(plan, "model"), _named(plan, "condition") or "–", *cells)
    show_table(table)
    for plan in plans if plans[0].design.protocol else ():
        console.print(outlook(plan, services), markup=False)
    arms = [arm for plan in plans for arm in plan.each]
    for note in dict.fromkeys(note for arm in filter(_is_known, arms) for note in plan_notes(arm, services)):
        console.print(note, markup=False)
    readers = dict.fromkeys(reader for plan in plans for arm in plan.each for reader in arm.study.readers(arm.settings))
    if facts := [services.reader_facts(reader.role, reader.name) for reader in readers]:
        console.print(f"To be read by {' and '.join(map(reading_words, facts))}.", markup=False)
    for name in dict.fromkeys(arm.settings.model for arm in arms if not _is_known(arm)):
        console.print(_not_known(name, services), markup=False)
    seconds, n_bytes = sum(cost.seconds for cost in costs), sum(cost.n_bytes for cost in costs)
    if any(cost.n_missing for cost in costs) and not math.isnan(seconds):
        place = f"{services.engine.n_workers()} x {services.engine.place()}"
        console.print(f"{_time(seconds)}, {_size(n_bytes)} in all, on {place}", markup=False)
    if math.isnan(seconds):
        console.print("How long is not known before a first batch was drawn here.")
    free, limit = free_bytes(services.settings.data_dir), services.settings.cache_gb * 1e9
    if n_bytes > free:
        console.print(f"The disk has room for {_size(free)} only: set BIAS_DATA_DIR to another.")
    if n_bytes > limit:
        console.print(
            f"The store keeps {_size(limit)} of pictures that are in no kept run: add --keep, or raise BIAS_CACHE_GB."
        )
    return seconds > _LONG_SECONDS or n_bytes > free


def _is_known(plan: StudyPlan) -> bool:
    """Whether it can be looked up which pictures exist: they were brought along, or their model's revision is known."""
    return all(arm.settings.images or arm.rows.revision for arm in plan.each)


def _show_requests(plans: Sequence[StudyPlan], services: "Services", price: float | None) -> bool:
    """Say how many requests to hosted models are to be paid for; whether there are any."""
    from bias_core.study.plan import study_cost

    n_requests: Counter[str] = Counter()
    for arm in (arm for plan in plans for arm in plan.each):
        if not arm.settings.images and hosted_name(arm.settings.model):
            n_requests[arm.settings.model] += study_cost(arm, services).n_missing
    for name, n in n_requests.items():
        console.print(f"{request_words(n, services.model_info(name), price)}.", markup=False)
    if n_requests:
        console.print(f"A run has at most {services.settings.max_images:,} pictures here (BIAS_MAX_IMAGES).")
    return n_requests.total() > 0


def _not_known(name: str, services: "Services") -> str:
    if hosted_name(name):
        return f"Which pictures of {name} exist already is not known: {_why_not(services, name)}"
    listed = name in {info.id for info in services.models()}
    guessed = "" if listed else "; nor its own number of steps and size, for which usual ones are taken"
    return (
        f"{name} is not on this machine and the hub was not reached, so it is not known which commit would "
        f"be drawn, which of its pictures exist already and whether it suits the study{guessed}. "
        f"{services.model_fit(name).says}"
    )


def _why_not(services: "Services", name: str) -> str:
    """Why a hosted model cannot be asked now."""
    try:
        return f"it is drawn by {services.revision(name)}."
    except HubNotReached as error:
        return f"{error}."


def _show_refusals(plans: Sequence[StudyPlan], services: "Services", *, measure: bool) -> None:
    """Say which plans are too large, and who cannot read their pictures; the latter ends what measures."""
    from bias_core.study.plan import check_size, check_study_readers

    for plan in plans:
        try:
            if isinstance(plan.rows, RowMaker):
                check_size(plan.asked, services.settings, plan.rows)
        except InvalidInput as error:
            show_warning(f"This will be refused: {error}")
        try:
            show_warning(
                check_study_readers(plan.study, plan.settings, plan.rows.world(plan.shots, services), services)
            )
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


def _size(n_bytes: float) -> str:
    if math.isnan(n_bytes):
        return "not known"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _draw(plan: StudyPlan, services: "Services", *, keep: bool) -> None:
    from bias_core.study.run import draw_study

    arms = run_with_bar(draw_study, plan, services)
    if keep:
        services.manifests.keep(plan.manifest.id)
    n_blocked = sum(data.n_blocked for data in arms)
    blocked = f", {n_blocked:,} blanked by the safety checker" if n_blocked else ""
    n = sum(data.n_planned for data in arms)
    title = f"{plan.design.name}, {_named(plan, 'model')} {_named(plan, 'condition')}".rstrip()
    console.print(f"{title}: {n:,} pictures{blocked}. Run {plan.manifest.id}", markup=False)


def _named(plan: StudyPlan, setting: str) -> str:
    return " and ".join(dict.fromkeys(getattr(arm.settings, setting) for arm in plan.arms or (plan,)))


def _measure(chosen: Sequence[Settled], services: "Services", how: How) -> None:
    from bias_core.study.run import run

    for asked in chosen:
        settings, report = asked.settings, run_with_bar(run, asked, services)
        if how.keep:
            services.manifests.keep(report.run_id)
        show_study_report(report, services)
        name = f"{settings.model}-{settings.condition}".strip("-").replace("/", "--")
        save_study_report(report, how.out / name if how.out and len(chosen) > 1 else how.out)
