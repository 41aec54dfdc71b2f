"""The gallery on the command line: finished audits, listed, shown and compared; one's own published."""

import os
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from bias_core.cli.common import console, open_services, show_table, user_errors
from bias_core.cli.reports import show_study_report
from bias_core.errors import InvalidInput
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.types import StudyReport

app = typer.Typer(help="Finished audits of a folder or a hub's dataset (BIAS_GALLERY).", no_args_is_help=True)


@app.command("list")
def list_gallery() -> None:
    """List the audits, the newest first, and those that come with the program."""
    from bias_core.library.gallery import list_audits

    with user_errors(), open_services() as services:
        audits, problems = list_audits(services)
        table = Table("audit", "title", "model", "pictures", "by", "published")
        for one in audits:
            date = datetime.fromtimestamp(one.published).astimezone().strftime("%Y-%m-%d")
            model = " ".join(filter(None, (one.model, one.condition)))
            table.add_row(one.name, one.title, model, str(one.n_images), one.publisher, date)
        show_table(table)
        for problem in problems:
            console.print(problem, markup=False, style="yellow")


@app.command()
def show(name: Annotated[str, typer.Argument(help="An audit of `gallery list`.")]) -> None:
    """Show the report of an audit."""
    from bias_core.library.gallery import open_audit

    with user_errors(), open_services() as services:
        show_study_report(open_audit(services, name).report, services)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="An audit of `gallery list`, or a run of `runs`.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
) -> None:
    """Put two side by side: numbers that both have, and their differences."""
    from bias_core.library.compare import compare_reports

    with user_errors(), open_services() as services:
        both = compare_reports(_report(services, first), _report(services, second))
        table = Table("number", "first", "second", "second less first", title=" and ".join(both.titles))
        for row in both.rows:
            table.add_row(row["number"], row["first"], row["second"], row["difference"])
        show_table(table)
        for line in (*both.notes, *(f"Not the same: {one}." for one in both.differ)):
            console.print(line, markup=False)


@app.command()
def publish(
    run: Annotated[str, typer.Argument(help="A finished run of `runs`.")],
    by: Annotated[str, typer.Option(help="Who publishes it; stands beside the audit.")],
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="NAME", help="Variable with your token of the hub, for a dataset.")
    ] = "HF_TOKEN",
) -> None:
    """Publish a run: its numbers, settings, versions and small copies of its pictures."""
    from bias_core.library.gallery import publish_run

    with user_errors(), open_services() as services:
        report = _report(services, run)
        audit = publish_run(services, run, report, publisher=by, token=os.environ.get(token_env, "").strip())
        console.print(f"Published: {audit.name}", markup=False)


def _report(services: StudyServices, name: str) -> StudyReport:
    """Of a run of this machine, or of the gallery."""
    from bias_core.library.gallery import open_audit
    from bias_core.studies.reports.saved import open_report

    manifest = services.manifests.find(name) if name.isascii() and name.isalnum() else None
    saved = open_report(name, services) if manifest is not None and manifest.session == "" else None
    if saved is not None:
        return saved.report
    if manifest is not None:
        raise InvalidInput(f"the run {name} has no report: it was not finished, or is of another visitor")
    return open_audit(services, name).report
