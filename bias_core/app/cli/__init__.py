"""The command line: the same studies, and the same numbers, as the app and the Python library."""

import typer

from bias_core.app.cli import explore, labels, reports, study, suggest

app = typer.Typer(help="Measure bias in text-to-image models.", no_args_is_help=True, pretty_exceptions_enable=False)
for command in (
    explore.explore,
    explore.compare,
    suggest.suggest,
    explore.models,
    explore.attributes,
    explore.runs,
    study.measures,
):
    app.command()(command)
study.app.command()(labels.label)
study.app.command()(labels.corrected)
study.app.command()(reports.report)
app.add_typer(study.app, name="study", help="Run the studies of the papers.")
