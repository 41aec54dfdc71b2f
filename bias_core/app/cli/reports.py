"""Reports on the command line: print, save and correct them, and list the runs that have them."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.markup import escape
from rich.text import Text

from bias_core.app.cli.common import (
    AsJson,
    RunOptions,
    build_rich_table,
    console,
    fits,
    open_services,
    show_rows,
    show_table,
    show_warning,
    user_errors,
)
from bias_core.errors import InvalidInput, quoted
from bias_core.installed import COMMAND
from bias_core.store.tables import HUB
from bias_core.study.types import StudyReport
from bias_core.wording import format_percent

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.run.next_steps import NextStep
    from bias_core.services import Services
    from bias_core.study.label_tasks import Looks

FORMS_HELP = (
    "html, csv, md, card (a section for a model card), json, every_eval_ever (records of that program), publish "
    "(a zip of the folder of `publish`) or zip."
)
Run = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, as its report and `runs` show it.")]
_MOST_LINES = 15  # in the table of first numbers
_OPTIONAL = ("drawn", "published", "p", "p adjusted")  # columns dropped one by one until the table fits


def save_study_report(report: StudyReport, out: Path | None, *, pictures: bool = False, quiet: bool = False) -> None:
    """Write the report in the form that the name of ``out`` says; a folder or zip holds the pictures if asked for."""
    if out is None:
        return
    from bias_core.report.export import write_report

    write_report(report, out, pictures=pictures)
    if not quiet:
        console.print(f"Written to {out}", markup=False)


def show_answers(answers: "pd.DataFrame", *, quiet: bool = False) -> None:
    """Print what was understood of a file of answers."""
    for line in () if quiet else answers.attrs["look"].lines():
        console.print(line, markup=False)


def finish(
    report: StudyReport,
    run_options: RunOptions,
    services: "Services",
    *,
    pictures: bool = False,
    folder: str = "",
    is_shown: bool = False,
) -> None:
    """Print, keep and save the report of a run, as one of several in a ``folder`` of its own."""
    if not is_shown:
        show_study_report(report, services, full=run_options.full, as_json=run_options.as_json)
    if run_options.keep:
        services.manifests.keep(report.run_id)
    if run_options.out and folder:
        # also for model names with a slash or a file ending
        (run_options.out / folder).mkdir(parents=True, exist_ok=True)
    save_study_report(
        report, run_options.out and run_options.out / folder, pictures=pictures, quiet=run_options.as_json
    )


def show_study_report(
    report: StudyReport, services: "Services | None" = None, *, full: bool = False, as_json: bool = False
) -> None:
    """Print the headline, first numbers and next step, or the whole report; either as JSON if asked for."""
    from bias_core.report.headlines import headline
    from bias_core.run.programs import FULL, SUMMARY, format_json, report_answer

    if as_json:
        typer.echo(format_json(report_answer(report, services, FULL if full else SUMMARY)))
        return
    show_warning(report.warning)
    console.print(headline(report), markup=False, style="bold")
    (_show_all if full else _show_first)(report, services)


def _show_first(report: StudyReport, services: "Services | None") -> None:
    from bias_core.report.blocked_pictures import describe_count
    from bias_core.report.report_text import LIMITS, describe_unknown_words
    from bias_core.run.image_rows import SEE_PICTURES
    from bias_core.run.next_steps import next_steps

    n_more = _show_first_numbers(report) if report.results.findings else 0
    for note in describe_unknown_words(report):
        console.print(note, markup=False)
    for note in report.results.notes:
        if report.stopped or SEE_PICTURES in note:
            console.print(note, markup=False)
    console.print(f"{LIMITS.partition('. ')[0]}.", markup=False, style="dim")
    for step in next_steps(report, services)[:1] if services else ():
        _show_step(report, step)
    blocked = f" and {describe_count(report.n_blocked)}" if report.n_blocked else ""
    hidden_parts = f"{n_more:,} more numbers, tables and notes" if n_more else "Tables and notes"
    console.print(f"Run {report.run_id}: {report.n_images:,} pictures{blocked}, {report.seconds:.0f} s.", markup=False)
    page = f"`{COMMAND} study report {report.run_id}` writes the whole report as a page"
    console.print(f"{hidden_parts}: --full prints them; {page}.", markup=False, soft_wrap=True)


def _show_first_numbers(report: StudyReport) -> int:
    """Print a table of the first numbers that is at most 15 lines long; return how many numbers it leaves out."""
    from bias_core.report.report_text import BETWEEN_CLASSIFIERS, finding_frame, get_title, null_words

    frame = finding_frame(report)
    frame["value"] += " " + frame["interval"]
    frame = frame.drop(columns=["measure", "interval", BETWEEN_CLASSIFIERS, "reads"], errors="ignore")
    interval = f"value [{format_percent(report.settings.confidence)} interval]"
    frame = frame.rename(columns={"null": null_words(report), "value": interval})
    for column in (*_OPTIONAL, null_words(report), "clear"):
        if not fits(build_rich_table(frame)):
            frame = frame.drop(columns=column, errors="ignore")
    for n in range(min(len(frame), _MOST_LINES), 0, -1):
        table = build_rich_table(frame[:n], get_title(report))
        fits(table)
        if n == 1 or len(console.render_lines(table)) <= _MOST_LINES:
            console.print(table)
            return len(frame) - n
    return 0


def _show_all(report: StudyReport, services: "Services | None") -> None:
    from bias_core.report.report_text import LIMITS, claim, describe_unknown_words, excerpt, finding_frame, get_title
    from bias_core.run.next_steps import next_steps

    frames = [(get_title(report), finding_frame(report))]
    frames += [(table.title, table.frame) for table in report.results.tables]
    for title, frame in frames:
        text, shown = excerpt(frame)
        show_table(build_rich_table(text, title))
        if shown:
            console.print(f"{shown}; --out writes all.", markup=False, style="dim")
    for note in report.results.notes:
        console.print(note, markup=False)
    for note in describe_unknown_words(report):
        console.print(note, markup=False)
    if sentence := claim(report):
        console.print(f"To quote: {sentence}", markup=False)
    line = f"{LIMITS} Run {report.run_id}, {report.n_images:,} pictures, {report.seconds:.1f} s."
    console.print(line, markup=False, style="dim")
    for step in next_steps(report, services) if services else ():
        _show_step(report, step, f"{step.says} {step.caution}".strip())


def _show_step(report: StudyReport, step: "NextStep", says: str = "") -> None:
    console.print(f"Next: {step.title}. {says}".removesuffix(". "), markup=False)
    console.print(f"  {step.command}", markup=False, soft_wrap=True)
    if (settings_file := f"{report.design.name}.yaml") in step.command:
        packed = f"{COMMAND} study report {report.run_id} --to zip"
        note = f"  {settings_file} is among the files of --out, and of `{packed}`."
        console.print(note, markup=False, soft_wrap=True, style="dim")


def report(
    run_id: Run,
    to: Annotated[str, typer.Option(help=f"Form of the file: {FORMS_HELP}")] = "html",
    out: Annotated[Path | None, typer.Option(help="Name of the file (default: study and run).")] = None,
) -> None:
    """Write the report of an earlier run as one file; nothing is drawn or measured again."""
    from bias_core.report.export import FORMS, to_export, to_form
    from bias_core.store.export import write_zip
    from bias_core.store.files import write_atomically

    with user_errors(), open_services() as services:
        report = _open_corrected(run_id, services)
        ending = FORMS[to].ending if to in FORMS else f".{to}"
        place = out or Path(f"{report.design.name}-{run_id}{ending}")
        if to == "zip":
            write_zip(to_export(report, pictures=True), place)
        else:
            write_atomically(place, to_form(report, to))
        console.print(f"Written to {place}", markup=False)


def publish(
    run_id: Run, to: Annotated[Path, typer.Option(help="Folder in which the run gets a folder of its own.")] = Path()
) -> None:
    """Write the claims of an earlier run, and their card, into a folder that stands next to other people's runs.

    `claims.json` has each number with its interval, n and verdict, the settings, model, classifier and versions;
    `README.md` is a card for the Hub. Neither has pictures or paths of this machine; a note
    on the card may name files of your own pictures. `table` reads such folders.
    """
    from bias_core.report.export import publish as write_published

    with user_errors(), open_services() as services:
        folder = write_published(_open_corrected(run_id, services), to)
        console.print(f"Written to {folder}", markup=False, soft_wrap=True)


def table(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER...",
            help=f"Folders or zips of published runs, folders of such folders, or data sets as {HUB}owner/name.",
        ),
    ],
    study: Annotated[str, typer.Option(help="Show only the runs of this study.")] = "",
    csv: Annotated[Path | None, typer.Option(help="CSV file to write, with a row for each claim of each run.")] = None,
) -> None:
    """Show the claims of published runs side by side, next to the numbers that papers print for the same.

    Runs are never averaged: each has a column, and the settings in which they differ are listed.
    """
    from bias_core.report.published import claims_frame, claims_table, runs_frame
    from bias_core.report.report_text import excerpt
    from bias_core.store.export import csv_bytes
    from bias_core.store.files import write_atomically
    from bias_core.store.published_runs import read_published_runs

    with user_errors():
        read = read_published_runs(places)
        for name, reason in read.left_out:
            typer.secho(f"Left out: {name}: {reason}", fg="yellow", err=True)
        runs = [run for run in read.runs if study in ("", run.study)]
        if not runs:
            found = ", ".join(sorted({run.study for run in read.runs})) or "none"
            raise InvalidInput(
                f"no published run to show{f' of the study {study}; studies here: {found}' * bool(study)}"
            )
        claims = claims_frame(runs)
        show_table(build_rich_table(runs_frame(runs).map(Text), "Published runs"))
        text, shown = excerpt(claims_table(claims).rename(columns=escape))
        show_table(build_rich_table(text.map(Text), "Claims"))
        console.print(
            "Verdicts are those of each run's own report: clear, not clear, or too few pictures; none where nothing is "
            "claimed.", style="dim",
        )  # fmt: skip
        if shown:
            console.print(f"{shown}; --csv writes all.", markup=False, style="dim")
        if csv is not None:
            write_atomically(csv, csv_bytes(claims))
            console.print(f"Written to {csv}", markup=False, soft_wrap=True)


def _open_corrected(run_id: str, services: "Services") -> StudyReport:
    """Return the report of a run, corrected by people's labels where it has some."""
    from bias_core.report.corrected import corrected
    from bias_core.report.saved import open_report

    if (saved := open_report(run_id, services)) is None:
        raise InvalidInput(f"no report of a run {quoted(run_id)} is kept here; `runs` lists the runs")
    return corrected(saved.report, services.run_answers(run_id), services)


def runs(
    keep: Annotated[str, typer.Option(help="Never delete the pictures of the run with this id to make room.")] = "",
    release: Annotated[
        str, typer.Option(help="Allow deleting the pictures of the run with this id to make room.")
    ] = "",
    delete: Annotated[str, typer.Option(help="Delete the run with this id from the list.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the runs on record, newest first."""
    from bias_core.run.programs import format_json, runs_answer

    with user_errors(), open_services() as services:
        for run_id, is_kept in ((keep, True), (release, False)):
            if run_id:
                services.manifests.keep(run_id, is_kept)
        if delete:
            services.manifests.delete(delete)
        found = services.manifests.list(session="")
        if as_json:
            typer.echo(format_json(runs_answer(found)))
            return
        rows = [
            (
                run.id,
                run.study,
                run.title,
                run.model,
                str(len(run.image_ids)),
                run.status,
                "yes" if run.is_kept else "",
                datetime.fromtimestamp(run.updated).astimezone().strftime("%Y-%m-%d %H:%M"),
            )
            for run in found
        ]
        show_rows(("run", "study", "what", "model", "pictures", "status", "kept", "updated"), rows)


def label(
    run: Run,
    n: Annotated[int, typer.Option("-n", "--pictures", help="Number of pictures to label.")] = 64,
    stratify_by: Annotated[
        str, typer.Option(help="Attribute (or people): choose equally many pictures per classifier answer.")
    ] = "",
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            help="Ask about this attribute; may be repeated. Default: those with a sourced real-world rate, else all."
        ),
    ] = None,
    setting: Annotated[str, typer.Option(help="Setting of the paired test: paired, single or fairness.")] = "",
    raters: Annotated[int, typer.Option(help="Raters for each picture.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the random choice of pictures.")] = 0,
    looks: Annotated[
        str,
        typer.Option(
            help="Answers about people: two (feminine, masculine, cannot identify, as in the paper) or four (feminine, "
            "masculine, androgynous, unclear)."
        ),
    ] = "two",
    as_json: AsJson = False,
) -> None:
    """Make a labelling task from random pictures of a run; people's labels correct its numbers."""
    from bias_core.labels.make_task import label_run, task_values
    from bias_core.run.programs import format_json

    with user_errors(), open_services() as services:
        made = label_run(
            _find_report(services, run), services.manifests, services.labels, n=n, stratify_by=stratify_by,
            attributes=attribute or (), setting=setting, raters_per_item=raters, seed=seed, looks=cast("Looks", looks),
        )  # fmt: skip
        values = task_values(made)
        if as_json:
            typer.echo(format_json(values))
            return
        console.print(f"{values['sample']}, about {values['asks_about']}.", markup=False)
        for name, title in (
            ("raters_link", "For raters, at the address of your app"),
            ("owner_link", "For you alone"),
            ("owner_key", "Owner's key, shown once"),
        ):
            console.print(f"{title}: {values[name]}", markup=False, soft_wrap=True)
        console.print(f"As answers come in: study corrected {run}", markup=False)


def corrected(
    run: Run,
    labels: Annotated[
        str, typer.Option(help="File of answers (CSV, Label Studio's JSON, CVAT's XML) in place of those given here.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="File for the numbers, name.json or name.csv; with --labels, as --out of a run.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a run's numbers corrected by people's labels, and how many more labels they need."""
    from bias_core.report import corrected as corrections
    from bias_core.report.report_text import excerpt
    from bias_core.run.programs import FULL, correction_answer, format_json
    from bias_core.store.export import csv_bytes
    from bias_core.store.files import write_atomically
    from bias_core.study.answers import read_answers

    with user_errors(), open_services() as services:
        report = _find_report(services, run)
        if labels:
            report = replace(report, settings=replace(report.settings, labels=labels))
            given = read_answers(labels)
            show_answers(corrections.fit_to_report(report, given), quiet=as_json)
            report = corrections.corrected(report, given, services)
            show_study_report(report, full=True, as_json=as_json)
            save_study_report(report, out, quiet=as_json)
            return
        if (answers := services.run_answers(run)) is None:
            raise InvalidInput(f"the run {run} has no labelling task: make one with study label {run}")
        correction = corrections.build_correction(report, answers)
        if not correction.numbers:
            raise InvalidInput(" ".join(correction.notes))
        of_numbers, values = correction.table(), format_json(correction_answer(correction, FULL))
        if out is not None:
            write_atomically(out, values.encode() if out.suffix == ".json" else csv_bytes(of_numbers.frame))
        if as_json:
            typer.echo(values)
            return
        text, _ = excerpt(of_numbers.frame.drop(columns="note"))
        show_table(build_rich_table(text, of_numbers.title))
        for note in (correction.headline, *correction.notes):
            console.print(note, markup=False)
        if out is not None:
            console.print(f"Written to {out}", markup=False)


def _find_report(services: "Services", run: str) -> StudyReport:
    from bias_core.report.saved import open_report

    if services.manifests.find(run) is None:
        raise InvalidInput(f"no run {run!r} on record (was it deleted?); `runs` lists them")
    if (saved := open_report(run, services)) is None:
        raise InvalidInput(f"the run {run} has no report: it did not finish, or was deleted to make room; run it again")
    return saved.report
