"""The papers' studies on the command line."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bias_core.cli.common import console, show_warning, user_errors, write_export
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
