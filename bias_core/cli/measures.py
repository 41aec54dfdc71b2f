"""``measures``: what each number means."""

from typing import Annotated

import typer
from rich.table import Table

from bias_core.cli.tables import show_table


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
