"""Draw the pictures of a study for several models, on this machine or on many."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.table import Table

from bias_core.cli.common import (
    EngineName,
    EngineOption,
    ForceOption,
    WorkersOption,
    choose_engine,
    console,
    open_services,
    run_with_bar,
    show_warning,
    user_errors,
)
from bias_core.cli.study import name_and_value, save_study_report, show_study_report
from bias_core.cli.tables import show_table
from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from bias_core.engine.rates import Cost
    from bias_core.services import Services
    from bias_core.studies.progress import Progress
    from bias_core.studies.study_plan import StudyPlan
    from bias_core.studies.study_types import StudyReport, StudySettings

T = TypeVar("T")

_LONG_SECONDS = 600


def run(
    study: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Any number of times: a model of `models`, org/name, or a folder."),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(help="Any number of times: planted condition of the calibration models."),
    ] = None,
    n: Annotated[
        int | None, typer.Option("-n", "--images-per-prompt", help="The study's own number if left out.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of that size, above 0 and up to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Picture i of a prompt has seed + i.")] = 0,
    steps: Annotated[
        int | None, typer.Option(help="Denoising steps; the model's default if left out.")
    ] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Guidance scale; the model's default if left out.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value, see `study show`.")] = None,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would cost; load and draw nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a long run.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Never evict these pictures.")] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Then measure each, as `study run` does.")
    ] = False,
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    force: ForceOption = False,
    out: Annotated[
        Path | None, typer.Option(help="With --measure: folder for a report per model and condition.")
    ] = None,
) -> None:
    """Draw the pictures of a study, for each model under each condition, and measure nothing yet.

    `study run` draws and measures one model under one condition. `run` is for what takes long: it says
    what that will cost, fills the picture store with one or several models' pictures, here or on many
    GPUs (--engine ray), and stops there; `study run` with the same settings, or --measure, then finds the
    pictures. What exists is not drawn again: after Ctrl-C or a crash, the same command goes on. (Studies
    that draw more from what they found, such as oasis-stop, draw that while measuring.)

    --engine ray joins the cluster of RAY_ADDRESS, whose machines all need this program, the weights and
    the same BIAS_DATA_DIR on a shared disk; without RAY_ADDRESS it uses all of this machine.
    """
    from bias_core.studies.study_types import StudySettings

    if out is not None and not measure:
        raise typer.BadParameter("reports need --measure", param_hint="--out")
    with user_errors(), open_services() as services:
        choose_engine(services, engine, workers)
        settings = StudySettings(
            encoder=encoder,
            scale=scale,
            seed=seed,
            num_inference_steps=steps,
            guidance_scale=guidance,
            options=dict(name_and_value(text) for text in option or []),
            force=force,
        )
        chosen = _settings(settings, model or [settings.model], condition or [settings.condition], services)
        plans = _plans(study, n, chosen, services, measure=measure, estimate=dry_run)
        if not dry_run:
            _find_rates(plans, services)
        long = _show_costs(plans, services)
        _show_refusals(plans, services, measure=measure)
        if dry_run:
            return
        if long and not yes:
            _ask()
        for plan in plans:
            _draw(plan, services, keep=keep)
        if measure:
            _measure(plans, services, out)


def _follow(start: Callable[..., Generator[Progress, None, T]], plan: StudyPlan, services: Services) -> T:
    return run_with_bar(lambda stop: start(plan, services, cancelled=stop))


def _settings(
    like: StudySettings, models: Sequence[str], conditions: Sequence[str], services: Services
) -> list[StudySettings]:
    """One per model and condition; models without conditions, beside some that have them, come once."""
    has = {name: bool(services.model_info(name).conditions) for name in models}
    return [
        replace(like, model=name, condition=condition)
        for name in has
        for condition in (dict.fromkeys(conditions) if has[name] or not any(has.values()) else [""])
    ]


def _plans(
    study: str,
    n: int | None,
    chosen: Sequence[StudySettings],
    services: Services,
    *,
    measure: bool,
    estimate: bool,
) -> list[StudyPlan]:
    from bias_core.studies.designs import find_design
    from bias_core.studies.run_study import plan_study

    design = find_design(study)
    if n is not None:
        if n < 1:
            raise InvalidInput(f"the number of pictures per prompt is at least 1, got {n}")
        design = replace(design, images_per_prompt=n)
    return [plan_study(design, settings, services, measure=measure, estimate=estimate) for settings in chosen]


def _find_rates(plans: Sequence[StudyPlan], services: Services) -> None:
    """Draw a first batch where nobody knows how long a picture takes."""
    from bias_core.studies.estimates import study_cost, warm_up

    for plan in plans:
        if math.isnan(study_cost(plan, services).seconds):
            _follow(warm_up, plan, services)


def _show_costs(plans: Sequence[StudyPlan], services: Services) -> bool:
    """The table of costs; whether the user should think about it."""
    from bias_core.engine.rates import free_bytes
    from bias_core.studies.arm_runs import plan_notes
    from bias_core.studies.estimates import study_cost

    costs = [study_cost(plan, services) for plan in plans]
    table = Table("model", "condition", "pictures", "exist", "to draw", "time", "disk")
    for plan, cost in zip(plans, costs, strict=True):
        table.add_row(plan.settings.model, plan.settings.condition or "–", *_cells(cost, plan))
    show_table(table)
    drawn = [plan for plan in plans if plan.rows.revision]
    for note in dict.fromkeys(note for plan in drawn for note in plan_notes(plan, services)):
        console.print(note, markup=False)
    for name in dict.fromkeys(plan.settings.model for plan in plans if not plan.rows.revision):
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
            f"The store keeps {_size(limit)} of pictures that are in no kept run: add --keep, or raise "
            "BIAS_CACHE_GB."
        )
    return seconds > _LONG_SECONDS or n_bytes > free


def _not_known(name: str, services: Services) -> str:
    """What cannot be said of a model that is neither here nor on a hub that answers."""
    listed = name in {info.id for info in services.models()}
    guessed = "" if listed else "; nor its own number of steps and size, for which usual ones are taken"
    return (
        f"{name} is not on this machine and the hub was not reached, so it is not known which commit would "
        f"be drawn, which of its pictures exist already and whether it suits the study{guessed}. "
        f"{services.model_fit(name).says}"
    )


def _show_refusals(plans: Sequence[StudyPlan], services: Services, *, measure: bool) -> None:
    """Say which plans are too large, and who cannot read their pictures; the latter ends what measures."""
    from bias_core.studies.rows import RowMaker
    from bias_core.studies.run_study import check_study_readers
    from bias_core.studies.study_size import check_size

    for plan in plans:
        try:
            if isinstance(plan.rows, RowMaker):
                check_size(plan.design, plan.settings, services.settings, plan.rows)
        except InvalidInput as error:
            show_warning(f"This will be refused: {error}")
        try:
            show_warning(check_study_readers(plan.program, plan.settings, plan.rows, plan.shots, services))
        except InvalidInput as error:
            if measure:
                raise
            show_warning(f"These pictures can be drawn, but not measured like this: {error}")


def _cells(cost: Cost, plan: StudyPlan) -> list[str]:
    known = bool(plan.rows.revision)  # without it, whether a picture exists cannot be looked up
    return [
        f"{cost.n_pictures:,}",
        f"{cost.n_stored:,}" if known else "not known",
        f"{cost.n_missing:,}" if known else f"up to {cost.n_missing:,}",
        _time(cost.seconds),
        _size(cost.n_bytes),
    ]


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


def _ask() -> None:
    if not sys.stdin.isatty():
        raise InvalidInput("this takes long, and there is nobody to ask; add --yes to start all the same")
    if not typer.confirm("Start?"):
        raise typer.Exit(1)


def _draw(plan: StudyPlan, services: Services, *, keep: bool) -> None:
    from bias_core.studies.run_study import draw_study

    (data,) = _follow(draw_study, plan, services)
    if keep:
        services.manifests.keep(plan.manifest.id)
    blocked = f", {data.n_blocked:,} blanked by the safety checker" if data.n_blocked else ""
    title = f"{plan.design.name}, {plan.settings.model} {plan.settings.condition}".rstrip()
    console.print(f"{title}: {data.n_planned:,} pictures{blocked}. Run {plan.manifest.id}", markup=False)


def _measure(plans: Sequence[StudyPlan], services: Services, out: Path | None) -> None:
    from bias_core.studies.run_study import run_study

    def measured(
        plan: StudyPlan, services: Services, *, cancelled: Callable[[], bool]
    ) -> Generator[Progress, None, StudyReport]:
        return run_study(plan.design, plan.settings, services, cancelled=cancelled)

    for plan in plans:
        report = _follow(measured, plan, services)
        show_study_report(report)
        name = f"{plan.settings.model}-{plan.settings.condition}".strip("-").replace("/", "--")
        save_study_report(report, None if out is None else out / name)
