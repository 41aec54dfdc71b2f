"""The papers' studies on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    write_export,
)
from bias_core.cli.tables import show_table
from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from bias_core.studies.study_types import StudyReport


app = typer.Typer(no_args_is_help=True)


@app.command(name="list")
def list_studies() -> None:
    """List the studies that come with the program."""
    from bias_core.studies.designs import list_designs

    with user_errors():
        table = Table("study", "what it asks", "paper", "redraws")
        for design in list_designs():
            table.add_row(design.name, design.title, design.reference, design.where)
        show_table(table)


@app.command(name="show")
def show_study(name: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")]) -> None:
    """Show what a study draws and which options it has."""
    from bias_core.studies.designs import find_design, option_settings, program_of
    from bias_core.studies.run_study import with_options
    from bias_core.studies.study_types import StudySettings

    with user_errors():
        design = find_design(name)
        shots = program_of(design).shots(design, with_options(design, StudySettings()))
        console.print(f"[bold]{design.title}[/bold] ({design.reference}, {design.where})")
        console.print(design.summary, markup=False)
        console.print(
            f"{sum(shot.n for shot in shots):,} pictures of {len(shots):,} prompts at full size, e.g."
        )
        for shot in shots[:: max(1, len(shots) // 5)][:5]:
            console.print(f"  {shot.prompt}  x {shot.n}", markup=False)
        for name, one in option_settings(design).items():
            console.print(f"--option {name}={one.write(one.default)}  ({one.says})", markup=False)


@app.command(name="run")
def run_one_study(
    name: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")],
    model: Annotated[
        str, typer.Option(help="A model of `models`, org/name, or a folder.")
    ] = "calibration-renderer",
    condition: Annotated[
        str, typer.Option(help="Planted condition of the calibration models.")
    ] = "published",
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    scale: Annotated[float, typer.Option(help="Share of the full size, above 0 and up to 1.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Picture i of a prompt has seed + i.")] = 0,
    steps: Annotated[
        int | None, typer.Option(help="Denoising steps; the model's default if left out.")
    ] = None,
    guidance: Annotated[
        float | None, typer.Option(help="Guidance scale; the model's default if left out.")
    ] = None,
    negative_prompt: Annotated[str, typer.Option(help="What pictures are guided away from.")] = "",
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
    images: Annotated[str, typer.Option(help="Folder or zip of your own pictures, instead of drawing.")] = "",
    labels: Annotated[str, typer.Option(help="CSV of people's answers, instead of automatic labels.")] = "",
    force: ForceOption = False,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            help="Two to eight times: what one arm has of its own, as key=value|key=value with name, model, "
            "condition, template, negative, guidance, steps, images; as in --arm condition=fair."
        ),
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="name=value, see `study show`.")] = None,
    engine: EngineOption = EngineName.local,
    workers: WorkersOption = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder, or name.zip, for report, tables and figures.")
    ] = None,
) -> None:
    """Run a study: draw and measure. Ctrl-C stops; the same command goes on from there.

    For long runs, and for several models, `run` says beforehand what drawing will cost.
    """
    from bias_core.studies.arms import parse_arms
    from bias_core.studies.designs import find_design
    from bias_core.studies.run_study import run_study
    from bias_core.studies.study_types import StudySettings

    with user_errors(), open_services() as services:
        choose_engine(services, engine, workers)
        settings = StudySettings(
            model=model,
            condition=condition,
            encoder=encoder,
            scale=scale,
            seed=seed,
            num_inference_steps=steps,
            guidance_scale=guidance,
            negative_prompt=negative_prompt,
            confidence=confidence,
            images=images,
            labels=labels,
            options=dict(name_and_value(text) for text in option or []),
            force=force,
            arms=parse_arms(arm or []),
        )
        design = find_design(name)
        report = run_with_bar(lambda stop: run_study(design, settings, services, cancelled=stop))
        show_study_report(report)
        save_study_report(report, out)


def name_and_value(text: str) -> tuple[str, str]:
    """An option as it is written on the command line."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise InvalidInput(f"write an option as name=value, got {text!r}")
    return name.strip(), value.strip()


def save_study_report(report: StudyReport, out: Path | None) -> None:
    """Report, tables and figures as files, where a folder is given."""
    if out is None:
        return
    from bias_core.studies.study_export import to_export

    write_export(to_export(report), out)


def show_study_report(report: StudyReport) -> None:
    """Findings, tables and notes."""
    from bias_core.studies.report import LIMITS
    from bias_core.studies.study_report import finding_frame
    from bias_core.studies.table_text import excerpt

    show_warning(report.warning)
    frames = [(report.design.title, finding_frame(report))]
    frames += [(table.title, table.frame) for table in report.results.tables]
    for title, frame in frames:
        text, shown = excerpt(frame)
        table = Table(*text.columns, title=title)
        for row in text.itertuples(index=False):
            table.add_row(*row)
        show_table(table)
        if shown:
            console.print(f"{shown}; --out writes all.", markup=False, style="dim")
    for note in report.results.notes:
        console.print(note, markup=False)
    if report.unknown_words:
        console.print(f"This world does not know: {', '.join(report.unknown_words)}", markup=False)
    line = f"{LIMITS} Run {report.run_id}, {report.n_images:,} pictures, {report.seconds:.1f} s."
    console.print(line, markup=False, style="dim")
