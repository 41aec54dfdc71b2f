"""The validity studies as one report: a page with the verdicts, and a small folder for each study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.errors import StorageError
from bias_core.exchange.export import csv_bytes
from bias_core.metrics.cards import METRICS
from bias_core.settings import ASSETS
from bias_core.studies.reports.build import columns
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.saved import from_text, to_text
from bias_core.studies.reports.table_text import MOST_ROWS, markdown_table, readable
from bias_core.studies.reports.text import table_of, to_markdown
from bias_core.studies.validity.summary import RULE

if TYPE_CHECKING:
    from pathlib import Path

    from bias_core.studies.kit.types import StudyReport
    from bias_core.studies.reports.saved import SavedReport

STUDIES = ("validity-rates", "validity-measures", "validity-associations", "validity-pairs", "validity-objects")
"""All of them, in the order in which they are told."""

SHIPPED = ASSETS / "validity"
LEFT_OUT = ("repetitions",)
"""Tables too long for a report; ``study run`` writes them."""

NOT_HERE: Mapping[str, str] = {
    "association_effect_size": "S in other units; it has no interval of its own",
    "fleiss_kappa": "of raters, not of pictures",
    "cohen_kappa": "of raters, not of pictures",
    "krippendorff_alpha": "of raters, not of pictures",
    "model_distance": "relative to the models in a table, so it has no planted value",
    "mean_similarity": "in the encoder's own units, so it has no planted value",
    "stereotype_propagation_index": "of denoising steps, which the renderer has none of",
    "kendall_tau": "of two orders, not of pictures",
}
"""Why no validity study tests a measure."""


def report_files(reports: Sequence[StudyReport]) -> dict[str, bytes]:
    """Content of each file by its path in the report's folder."""
    files = {"README.md": _page(reports).encode()}
    for report in map(_without_repetitions, reports):
        folder = report.design.name
        files[f"{folder}/report.md"] = to_markdown(report).encode()
        for table in report.results.tables:
            if len(table.frame) > MOST_ROWS:
                files[f"{folder}/tables/{table.key}.csv"] = csv_bytes(table.frame.round(4))
        # Letters as text, a third of the size; and the same file for the same figure.
        from matplotlib import rc_context  # takes half a second

        with rc_context({"svg.fonttype": "none", "svg.hashsalt": folder}):
            for figure in report.results.figures:
                files[f"{folder}/figures/{figure.key}.svg"] = to_bytes(figure)
    return files


def shipped_files(reports: Sequence[StudyReport]) -> dict[str, bytes]:
    """The same reports as data, by their path in :data:`SHIPPED`: what the app shows without a run."""
    return {
        f"{report.design.name}.json": to_text(
            replace(_without_repetitions(report), pictures=None, stored={}), SHIPPED
        ).encode()
        for report in reports
    }


def load_shipped(folder: Path = SHIPPED) -> tuple[SavedReport, ...]:
    """The shipped reports, in their order; those that are not there are left out.

    Raises
    ------
    StorageError
        A file cannot be read.
    """
    paths = [path for name in STUDIES if (path := folder / f"{name}.json").is_file()]
    try:
        texts = [path.read_text(encoding="utf-8") for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read the shipped reports: {error}") from error
    return tuple(from_text(text, folder) for text in texts)


def _without_repetitions(report: StudyReport) -> StudyReport:
    tables = tuple(table for table in report.results.tables if table.key not in LEFT_OUT)
    return replace(report, results=replace(report.results, tables=tables))


def _page(reports: Sequence[StudyReport]) -> str:
    """The verdicts of all studies, the rule that they follow, and what each study draws."""
    verdicts = pd.concat([table_of(report, "verdicts").frame for report in reports], ignore_index=True)
    tested = {finding.metric for report in reports for finding in report.results.findings}
    untested = [metric for key, metric in METRICS.items() if key not in tested]
    lines = [
        "# Is the instrument right?",
        "",
        "Written by `BIAS_MAX_IMAGES=50000 python -m bias_core calibrate-report`; no line is by hand. "
        f"It holds for the pictures of {reports[0].settings.model}, read by {reports[0].settings.encoder}, "
        "at the numbers of pictures of each study below.",
        "",
        "## What each measure showed",
        "",
        markdown_table(verdicts),
        "",
        RULE,
        "",
        "nothing planted, some, all: mean of the measure in the first condition, between, and in the last.",
        "",
        "Not tested here:",
        "",
        *(f"- {metric.name}: {NOT_HERE.get(metric.key, 'not tested yet')}." for metric in untested),
    ]
    for report in reports:
        lines += ["", f"## {report.design.title}", "", report.design.summary, ""]
        lines += [f"{report.n_images:,} pictures. [Tables and figures]({report.design.name}/report.md)", ""]
        if summary := [table for table in report.results.tables if table.key == "summary"]:
            lines += [markdown_table(readable(summary[0].frame)), "", summary[0].note, ""]
        else:
            rows = [
                {"": f.title, **columns("share", f.estimate, ends=""), "n": f.estimate.n, "reads": f.says}
                for f in report.results.findings
            ]
            lines += [markdown_table(readable(pd.DataFrame(rows))), ""]
        lines += [f"- {note}" for note in report.results.notes]
    return "\n".join([*lines, ""])
