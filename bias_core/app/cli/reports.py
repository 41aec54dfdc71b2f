"""Reports on the command line: shown, written in the form that a file's name says, and handed on later."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from bias_core.app.cli.common import console, open_services, show_table, show_warning, user_errors
from bias_core.errors import InvalidInput, quoted
from bias_core.store.files import write_atomically
from bias_core.study.types import StudyReport

if TYPE_CHECKING:
    from bias_core.services import Services

OUT = "Folder, or name.zip, for report, tables and figures; or one file: name.html, .md or .json."


def _with_known_ending(out: Path | None) -> Path | None:
    """Refuse another ending before anything is drawn."""
    if out is not None:
        from bias_core.study.history import check_place

        with user_errors():
            check_place(out)
    return out


Out = Annotated[Path | None, typer.Option(help=OUT, callback=_with_known_ending)]
OutWithPictures = Annotated[Path | None, typer.Option(help=f"{OUT} With its pictures.", callback=_with_known_ending)]
FORMS_HELP = "html, md, card (a section for a model card), json, every_eval_ever (records of that program) or zip."


def save_study_report(report: StudyReport, out: Path | None, *, pictures: bool = False) -> None:
    """The report in the form that the name says, where one is given; a folder or zip with pictures if asked for."""
    if out is None:
        return
    from bias_core.study.history import write_report

    write_report(report, out, pictures=pictures)
    console.print(f"Written to {out}", markup=False)


def show_study_report(report: StudyReport, services: "Services | None" = None) -> None:
    """What stands out, then findings, tables and notes, and with services what to do next."""
    from bias_core.study.next_steps import next_steps
    from bias_core.study.report_text import LIMITS, claim, excerpt, finding_frame, headline, title_of

    show_warning(report.warning)
    console.print(headline(report), markup=False, style="bold")
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
    if sentence := claim(report):
        console.print(f"To be quoted: {sentence}", markup=False)
    line = f"{LIMITS} Run {report.run_id}, {report.n_images:,} pictures, {report.seconds:.1f} s."
    console.print(line, markup=False, style="dim")
    for step in next_steps(report, services) if services else ():
        console.print(f"Next: {step.title}. {step.says}", markup=False)
        console.print(f"  {step.command}", markup=False, soft_wrap=True)
        if (own := f"{report.design.name}.yaml") in step.command:
            packed = f"python -m bias_core study report {report.run_id} --to zip"
            says = f"  {own} is among the files of --out, and of `{packed}`."
            console.print(says, markup=False, soft_wrap=True, style="dim")


def report(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, as `runs` lists it.")],
    to: Annotated[str, typer.Option(help=FORMS_HELP)] = "html",
    out: Annotated[Path | None, typer.Option(help="Name of the file; left out: of the study and the run.")] = None,
) -> None:
    """Write the report of an earlier run as one file; nothing is drawn or measured again."""
    from bias_core.store.export import write_zip
    from bias_core.study.corrected import corrected
    from bias_core.study.export import to_export
    from bias_core.study.history import FORMS, to_form
    from bias_core.study.saved import open_report

    with user_errors(), open_services() as services:
        if (saved := open_report(run_id, services)) is None:
            raise InvalidInput(f"no report of a run {quoted(run_id)} is kept here; `runs` lists the runs")
        ending = FORMS[to].ending if to in FORMS else f".{to}"
        place = out or Path(f"{saved.report.design.name}-{run_id}{ending}")
        report = corrected(saved.report, services.run_answers(run_id), services)
        if to == "zip":
            write_zip(to_export(report, pictures=True), place)
        else:
            write_atomically(place, to_form(report, to))
        console.print(f"Written to {place}", markup=False)
