"""``python -m validation``: measure planted truth, and write the results for the app and the documentation."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bias_core.app.cli.common import console, open_services, run_with_bar, user_errors
from bias_core.errors import InvalidInput
from bias_core.report.headlines import headline
from bias_core.report.shipped import SHIPPED, load_others, load_shipped
from bias_core.run.image_rows import RowMaker
from bias_core.run.plan import check_size, settle
from bias_core.run.run import run_study
from bias_core.store.files import write_atomically
from bias_core.study.design import find_design
from bias_core.study.types import StudyReport, StudySettings
from validation import validity_studies
from validation.headlines import NAME, all_trials, headline_report, read_records, run_trial, seeds_of_runs
from validation.summary import ON_STEPS, STUDIES, report_files, shipped_files

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
RENDERER = "calibration-renderer"  # its report is directly in docs/validity


@app.callback()
def main() -> None:
    """Check the measures against planted truth; at a release, with --ship."""


@app.command()
def report(
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report (default: docs/validity; other models get a subfolder).")
    ] = None,
    scale: Annotated[float, typer.Option(help="Share of the full size, above 0 and up to 1.")] = 1.0,
    encoder: Annotated[str, typer.Option(help="Classifier of the pictures.")] = "auto",
    model: Annotated[str, typer.Option(help="Model that draws them.")] = RENDERER,
    seed: Annotated[int, typer.Option(help="Another seed draws other pictures.")] = 0,
    study: Annotated[
        list[str] | None, typer.Option(help="Rerun only this study, and take the others as shipped; may be repeated.")
    ] = None,
    ship: Annotated[bool, typer.Option(help="Also write the files of the app's Calibration tab.")] = False,
    repetitions: Annotated[bool, typer.Option(help="Also write the tables of every repetition.")] = False,
) -> None:
    """Measure planted truth: coverage, false alarms, and the rise from fair to extreme.

    Pictures are kept: the same command continues from there.
    """
    settings = StudySettings(model=model, encoder=encoder, scale=scale, seed=seed)
    own = Path() if model == RENDERER else Path(model)
    place, shipped = out or Path("docs/validity") / own, SHIPPED / own
    with user_errors(), open_services() as services, validity_studies():
        studies = STUDIES if model == RENDERER else (*STUDIES, *ON_STEPS)
        if unknown := set(study or ()) - set(studies):
            raise InvalidInput(f"no validity study is called {min(unknown)!r}; there are {', '.join(studies)}")
        names = [name for name in studies if name in (study or STUDIES)]
        for name in names:  # all of them before the first is drawn
            design = find_design(name)
            asked = settle(design, settings)
            check_size(asked, services.settings, RowMaker.build(asked.settings, services))
        reports = {saved.report.design.name: saved.report for saved in load_shipped(shipped)} if study else {}
        for name in names:
            made = run_with_bar(run_study, find_design(name), settings, services)
            reports[name] = replace(made, pictures=None, stored={})
            if ship:
                for path, content in shipped_files([reports[name]]).items():
                    write_atomically(shipped / path, content)
        in_order = [one for name in studies if isinstance(one := reports.get(name), StudyReport)]
        others = tuple(load_others(shipped)) if model == RENDERER else ()
        for path, content in report_files(in_order, others, repetitions=repetitions).items():
            write_atomically(place / path, content)
        console.print(f"Written to {place}", markup=False)


@app.command()
def headlines(
    study: Annotated[
        list[str] | None, typer.Option(help="Rerun only this study, and take the others as shipped; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Runs of each study, size and condition; earlier ones count.")] = 100,
    model: Annotated[str, typer.Option(help="Model that draws the pictures.")] = RENDERER,
    seed: Annotated[int, typer.Option(help="Another seed draws other pictures.")] = 0,
    work: Annotated[Path, typer.Option(help="Folder with a line for each run; delete it to start anew.")] = Path(
        "build/headlines"
    ),
    ship: Annotated[bool, typer.Option(help="Also write the file of the app's Calibration tab.")] = False,
) -> None:
    """Run whole studies many times, and count the headlines that claim something that was not planted."""
    folder = work / model
    with user_errors():
        for trial in all_trials(model):
            for condition in trial.conditions if trial.study in (study or [trial.study]) else ():
                file = folder / f"{trial.name}-{condition}.jsonl"
                run_trial(trial, condition, seeds_of_runs(seed, runs), file, model=model)
                console.print(f"{trial.name}, {condition}: {len(read_records(file))} runs", markup=False)
        place = SHIPPED / (Path() if model == RENDERER else Path(model))
        shipped = {saved.report.design.name: saved.report for saved in load_shipped(place)} if study else {}
        made = headline_report(folder, all_trials(model), model, shipped.get(NAME))
        if ship:
            for path, content in shipped_files([made]).items():
                write_atomically(place / path, content)
        console.print(headline(made), markup=False)


if __name__ == "__main__":
    app()
