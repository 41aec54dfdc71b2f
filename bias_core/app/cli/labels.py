"""People correct a run, on the command line: a sample of it becomes a labelling task, and its numbers are corrected."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from bias_core.app.cli.common import console, open_services, show_table, user_errors
from bias_core.app.cli.reports import save_study_report, show_study_report
from bias_core.errors import InvalidInput
from bias_core.store.files import write_atomically

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.study.label_tasks import Looks
    from bias_core.study.types import StudyReport

Run = Annotated[str, typer.Argument(help="Id of a run, which stands at the end of its report and in `runs`.")]


def label(
    run: Run,
    n: Annotated[int, typer.Option("-n", "--pictures", help="How many pictures people are asked about.")] = 64,
    stratify_by: Annotated[
        str, typer.Option(help="Attribute (or people) of which equally many of each answer of the reader are taken.")
    ] = "",
    attribute: Annotated[list[str] | None, typer.Option(help="Only about this attribute; may be repeated.")] = None,
    setting: Annotated[str, typer.Option(help="Of the paired test: paired, single or fairness.")] = "",
    raters: Annotated[int, typer.Option(help="Raters for each picture.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the draw of pictures.")] = 0,
    looks: Annotated[
        str,
        typer.Option(
            help="Answers about people: two (feminine, masculine, cannot identify, as the paper) or four (feminine, "
            "masculine, androgynous, unclear)."
        ),
    ] = "two",
) -> None:
    """Ask people about pictures of a run, drawn at random; their labels correct its numbers."""
    from bias_core.labels.make_task import label_run, task_values

    with user_errors(), open_services() as services:
        made = label_run(
            _report(services, run), services.manifests, services.labels, n=n, stratify_by=stratify_by,
            attributes=attribute or (), setting=setting, raters_per_item=raters, seed=seed, looks=cast("Looks", looks),
        )  # fmt: skip
        values = task_values(made)
        console.print(f"{values['sample']}, about {values['asks_about']}.", markup=False)
        for name, title in (
            ("raters_link", "For raters, at the address of your app"),
            ("owner_link", "For you alone"),
            ("owner_key", "Owner's key, told once"),
        ):
            console.print(f"{title}: {values[name]}", markup=False, soft_wrap=True)
        console.print(f"As answers come in: study corrected {run}", markup=False)


def corrected(
    run: Run,
    labels: Annotated[
        str, typer.Option(help="File of answers (CSV, or JSON of Label Studio) in place of those collected here.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="File for the numbers, name.json or name.csv; as --out of run with --labels.")
    ] = None,
) -> None:
    """Show the numbers of a run as people's labels correct them, and how many more labels they need."""
    from bias_core.store.export import csv_bytes
    from bias_core.study import corrected as corrections
    from bias_core.study.answers import read_answers
    from bias_core.study.report_text import excerpt, plain

    with user_errors(), open_services() as services:
        report = _report(services, run)
        if labels:
            report = replace(report, settings=replace(report.settings, labels=labels))
            report = corrections.corrected(report, read_answers(labels), services)
            show_study_report(report)
            save_study_report(report, out)
            return
        if (answers := services.run_answers(run)) is None:
            raise InvalidInput(f"no labelling task serves the run {run}: make one with study label {run}")
        correction = corrections.correction_of(report, answers)
        if not correction.numbers:
            raise InvalidInput(" ".join(correction.notes))
        of_numbers = correction.table()
        text, _ = excerpt(of_numbers.frame.drop(columns="note"))
        shown = Table(*text.columns, title=of_numbers.title)
        for row in text.itertuples(index=False):
            shown.add_row(*row)
        show_table(shown)
        for note in (correction.headline, *correction.notes):
            console.print(note, markup=False)
        if out is not None:
            as_json = json.dumps(plain(correction.values()), indent=2, ensure_ascii=False).encode()
            write_atomically(out, as_json if out.suffix == ".json" else csv_bytes(of_numbers.frame))
            console.print(f"Written to {out}", markup=False)


def _report(services: "Services", run: str) -> "StudyReport":
    from bias_core.study.saved import open_report

    if services.manifests.find(run) is None:
        raise InvalidInput(f"no run {run!r} on record (was it deleted?); `runs` lists them")
    if (saved := open_report(run, services)) is None:
        raise InvalidInput(f"the run {run} has no report: it was not finished, or made room; run it again")
    return saved.report
