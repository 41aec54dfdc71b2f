"""``calibrate-report``: is the instrument right?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bias_core.cli.common import console, open_services, run_with_bar, user_errors

if TYPE_CHECKING:
    from bias_core.studies.kit.types import StudyReport


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
    from bias_core.studies.validity.report import SHIPPED, STUDIES, report_files, shipped_files

    settings = StudySettings(model=model, encoder=encoder, scale=scale, seed=seed)
    with user_errors(), open_services() as services:
        reports: list[StudyReport] = []
        for name in STUDIES:  # all of them before the first is drawn
            design = find_design(name)
            asked = with_options(design, settings)
            check_size(design, asked, services.settings, RowMaker.build(asked, services))
        for name in STUDIES:
            run = partial(run_study, find_design(name), settings, services)
            report = run_with_bar(lambda stop, run=run: run(cancelled=stop))  # type: ignore[misc]
            reports.append(replace(report, pictures=None, stored={}))
        files = {out / path: content for path, content in report_files(reports).items()}
        files |= {SHIPPED / path: text for path, text in shipped_files(reports).items()} if ship else {}
        for path, content in files.items():
            write_atomically(path, content)
        console.print(f"Written to {out}", markup=False)
