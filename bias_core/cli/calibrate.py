"""``calibrate-report``: is the instrument right?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bias_core.cli.common import console, open_services, run_with_bar, user_errors

if TYPE_CHECKING:
    from bias_core.studies.study_types import StudyReport

STUDIES = ("validity-rates", "validity-measures", "validity-associations")


def calibrate_report(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("docs/validity"),
    scale: Annotated[float, typer.Option(help="Share of the full size, above 0 and up to 1.")] = 1.0,
    encoder: Annotated[str, typer.Option(help="Who reads the pictures.")] = "calibration-clip",
    model: Annotated[str, typer.Option(help="Who draws them.")] = "calibration-renderer",
    seed: Annotated[int, typer.Option(help="Another seed draws other pictures.")] = 0,
) -> None:
    """Measure what is planted: coverage, false alarms, and the rise from fair to extreme."""
    from bias_core.runs.export import write_folder
    from bias_core.runs.files import write_atomically
    from bias_core.studies.designs import find_design
    from bias_core.studies.run_study import run_study
    from bias_core.studies.study_export import to_export
    from bias_core.studies.study_types import StudySettings

    settings = StudySettings(model=model, encoder=encoder, scale=scale, seed=seed)
    with user_errors(), open_services() as services:
        reports = []
        for name in STUDIES:
            run = partial(run_study, find_design(name), settings, services)
            reports.append(run_with_bar(lambda stop, run=run: run(cancelled=stop)))  # type: ignore[misc]
            write_folder(to_export(reports[-1]), out / name)
        write_atomically(out / "README.md", _summary(reports).encode())
        console.print(f"Written to {out}", markup=False)


def _summary(reports: list[StudyReport]) -> str:
    """The findings of all parts in one page."""
    from bias_core.studies.study_report import finding_frame, markdown_table, rounded, table_of

    lines = ["# Is the instrument right?", "", "Written by `python -m bias_core calibrate-report`.", ""]
    for report in reports:
        lines += [f"## {report.design.title}", "", report.design.summary, ""]
        lines += [
            f"{report.n_images:,} pictures. [All tables and figures]({report.design.name}/report.md)",
            "",
        ]
        lines += [markdown_table(finding_frame(report)), ""]
        if any(table.key == "summary" for table in report.results.tables):
            table = table_of(report, "summary")
            lines += [markdown_table(rounded(table.frame)), "", table.note, ""]
        lines += [f"- {note}" for note in report.results.notes] + [""]
    return "\n".join(lines)
