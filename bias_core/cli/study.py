"""The papers' studies, their measures, and the check of the instrument, on the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bias_core.cli.common import console, open_services, run_with_bar, show_warning, user_errors, write_export
from bias_core.cli.tables import show_table
from bias_core.studies.kit.types import StudyReport

app = typer.Typer(no_args_is_help=True)


@app.command(name="list")
def list_studies(
    *, markdown: Annotated[bool, typer.Option("--markdown", help="As the table of docs/studies.md.")] = False
) -> None:
    """List the studies that come with the program."""
    import pandas as pd

    from bias_core.studies.kit.designs import list_designs
    from bias_core.studies.reports.table_text import markdown_table

    with user_errors():
        if markdown:
            rows = [(f"`{d.name}`", d.title, ", ".join(filter(None, (d.reference, d.where)))) for d in list_designs()]
            typer.echo(markdown_table(pd.DataFrame(rows, columns=["study", "what it asks", "redraws"])))
            return
        table = Table("study", "what it asks", "paper", "redraws")
        for design in list_designs():
            table.add_row(design.name, design.title, design.reference, design.where)
        show_table(table)


@app.command(name="show")
def show_study(name: Annotated[str, typer.Argument(help="A study of `study list`, or a YAML file.")]) -> None:
    """Show what a study draws and which options it has."""
    from bias_core.studies.kit.designs import find_design, option_settings, program_of
    from bias_core.studies.kit.types import StudySettings
    from bias_core.studies.running.run import with_options

    with user_errors():
        design = find_design(name)
        shots = program_of(design).shots(design, with_options(design, StudySettings()))
        console.print(f"[bold]{design.title}[/bold] ({design.reference}, {design.where})")
        console.print(design.summary, markup=False)
        console.print(f"{sum(shot.n for shot in shots):,} pictures of {len(shots):,} prompts at full size, e.g.")
        for shot in shots[:: max(1, len(shots) // 5)][:5]:
            console.print(f"  {shot.prompt}  x {shot.n}", markup=False)
        for name, one in option_settings(design).items():
            console.print(f"--option {name}={one.write(one.default)}  ({one.says})", markup=False)


def save_study_report(report: StudyReport, out: Path | None, *, pictures: bool = False) -> None:
    """Report, tables, figures and, if they are asked for, pictures as files, where a folder is given."""
    if out is None:
        return
    from bias_core.studies.running.export import to_export

    write_export(to_export(report, pictures=pictures), out)


def show_study_report(report: StudyReport) -> None:
    """Findings, tables and notes."""
    from bias_core.studies.reports.table_text import excerpt
    from bias_core.studies.reports.text import LIMITS, finding_frame, title_of

    show_warning(report.warning)
    frames = [(title_of(report), finding_frame(report))]
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


def measures(
    markdown: Annotated[bool, typer.Option("--markdown", help="Every card in full, as Markdown.")] = False,
) -> None:
    """List the measures with their range, their null value and what higher means."""
    from bias_core.metrics.cards import METRICS, to_markdown

    if markdown:
        typer.echo(to_markdown(METRICS.values()), nl=False)
        return
    table = Table("measure", "what it tells", "range", "null", "higher", "source")
    for metric in METRICS.values():
        low, high = metric.bounds
        null = "–" if metric.null_value is None else f"{metric.null_value:g}"
        table.add_row(metric.name, metric.summary, f"{low:g} to {high:g}", null, metric.higher_means, metric.reference)
    show_table(table)


def calibrate_report(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("docs/validity"),
    scale: Annotated[float, typer.Option(help="Share of the full size, above 0 and up to 1.")] = 1.0,
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    model: Annotated[str, typer.Option(help="Who draws them.")] = "calibration-renderer",
    seed: Annotated[int, typer.Option(help="Another seed draws other pictures.")] = 0,
    ship: Annotated[bool, typer.Option(help="Also write what the app's Calibration tab opens with.")] = False,
) -> None:
    """Measure what is planted: coverage, false alarms, and the rise from fair to extreme."""
    from bias_core.store.files import write_atomically
    from bias_core.studies.kit.designs import find_design
    from bias_core.studies.kit.rows import RowMaker
    from bias_core.studies.kit.types import StudySettings
    from bias_core.studies.running.run import run_study, with_options
    from bias_core.studies.running.size import check_size
    from bias_core.studies.validity.summary import SHIPPED, STUDIES, report_files, shipped_files

    settings = StudySettings(model=model, encoder=encoder, scale=scale, seed=seed)
    with user_errors(), open_services() as services:
        reports: list[StudyReport] = []
        for name in STUDIES:  # all of them before the first is drawn
            design = find_design(name)
            design_settings = with_options(design, settings)
            check_size(design, design_settings, services.settings, RowMaker.build(design_settings, services))
        for name in STUDIES:
            report = run_with_bar(run_study, find_design(name), settings, services)
            reports.append(replace(report, pictures=None, stored={}))
        files = {out / path: content for path, content in report_files(reports).items()}
        files |= {SHIPPED / path: text for path, text in shipped_files(reports).items()} if ship else {}
        for path, content in files.items():
            write_atomically(path, content)
        console.print(f"Written to {out}", markup=False)
