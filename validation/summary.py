"""The validity studies as one report: a page, a folder per study, and the files that the app shows."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from bias_core.measures.cards import METRICS
from bias_core.report.documents import to_markdown
from bias_core.report.figures import to_bytes
from bias_core.report.headlines import AS_PUBLISHED, HEADLINE, format_seeds
from bias_core.report.report_text import MOST_ROWS, markdown_table
from bias_core.report.saved import to_text
from bias_core.report.shipped import NOT_HERE, SHIPPED, TITLES, load_shipped
from bias_core.store.export import csv_bytes
from bias_core.study.design import design_files
from bias_core.study.types import StudyReport
from validation import validity_studies
from validation.verdicts import STANDS_FOR, TEXTS, rule

ON_STEPS = ("validity-steps", "validity-causes")
"""Studies of denoising steps and of parts of a model, for the reports on diffusion models."""
with validity_studies():
    STUDIES = tuple(name for name in TITLES if name in design_files() and name not in ON_STEPS)
"""All other studies, in the order of the report."""
LEFT_OUT = ("repetitions", "seeds", "texts")  # tables too long for a report


def report_files(
    reports: Sequence[StudyReport], others: Sequence[str] = (), *, repetitions: bool = False
) -> dict[str, bytes]:
    """Content of each file by its path in the report's folder; ``others`` have their own subfolders.

    ``repetitions`` adds the tables :data:`LEFT_OUT`, as CSV files.
    """
    files = {"README.md": _page(reports, others).encode()}
    for whole in reports:
        folder, short = whole.design.name, _without_repetitions(whole)
        files[f"{folder}/report.md"] = to_markdown(short).encode()
        report = whole if repetitions else short
        for one in report.results.tables:
            if len(one.frame) > MOST_ROWS or one.key in LEFT_OUT:
                files[f"{folder}/tables/{one.key}.csv"] = csv_bytes(one.frame.round(4))
        # Letters as text, a third of the size; and the same file for the same figure.
        from matplotlib import rc_context  # takes half a second

        with rc_context({"svg.fonttype": "none", "svg.hashsalt": folder}):
            files |= {
                f"{folder}/figures/{shown.key}.svg": _smaller(to_bytes(shown)) for shown in report.results.figures
            }
    return files


def _smaller(svg: bytes) -> bytes:
    """Halve the bytes of a drawing: hundredths of a point, one font, each style once, no metadata.

    >>> print(_smaller(b'  <text style="font-family: A, B" x="355.438105"/>').decode())
    <text style="font-family: 'DejaVu Sans', sans-serif" x="355.44"/>
    """
    text = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), svg.decode())
    text = re.sub(r'font-family: [^;"]+', "font-family: 'DejaVu Sans', sans-serif", text)
    text = _styled_by_class(re.sub(r"(?s)<(metadata)\b.*?/\1>\n?", "", text))
    return re.sub(r"^ +", "", re.sub(r" *\n(?=[LzC\"])", " ", text), flags=re.MULTILINE).encode()


def _styled_by_class(svg: str) -> str:
    """Write each style of a drawing once, as a class in Matplotlib's style sheet."""
    often = [style for style, n in Counter(re.findall(r' style="([^"]*)"', svg)).items() if n > 1]
    names = {style: f"s{i}" for i, style in enumerate(often)}
    text = re.sub(r' style="([^"]*)"', lambda of: f' class="{names[of[1]]}"' if of[1] in names else of[0], svg)
    return text.replace("*{", "".join(f".{name}{{{style}}}" for style, name in names.items()) + "*{", 1)


def shipped_files(reports: Sequence[StudyReport]) -> dict[str, bytes]:
    """The same reports as data for the app, by their path in :data:`SHIPPED`."""
    return {
        f"{report.design.name}.json": to_text(
            replace(_without_repetitions(report), pictures=None, stored={}), SHIPPED
        ).encode()
        for report in reports
    }


def _without_repetitions(report: StudyReport) -> StudyReport:
    tables = tuple(table for table in report.results.tables if table.key not in LEFT_OUT)
    return replace(report, results=replace(report.results, tables=tables))


def _page(reports: Sequence[StudyReport], others: Sequence[str]) -> str:
    """Page with the verdicts of all studies, their rule, and links to details."""
    verdicts = pd.DataFrame(
        [
            line | {"drawn": format_seeds(report, line["what is planted"]) or "–"}
            for report in reports
            for line in report.results.frame("verdicts").to_dict("records")
        ]
    )
    names = {metric.name: key for key, metric in METRICS.items()}
    headlines, published = (
        verdicts[verdicts["kind"] == kind].drop(columns="kind") for kind in (HEADLINE, AS_PUBLISHED)
    )
    first = reports[0].settings
    lines = [
        "# Do the measures recover planted bias?",
        "",
        TEXTS.note("page", model=first.model, encoder=first.encoder),
        "",
        "## Measures in headlines",
        "",
        markdown_table(headlines),
        "",
        "## Measures as in the papers",
        "",
        TEXTS.note("as the papers have them"),
        "",
        markdown_table(published.assign(**{"read instead": [_instead(names, name) for name in published["measure"]]})),
        "",
        "## How to read this",
        "",
        rule(),
        "",
        TEXTS.note("columns"),
        "",
        "## Studies",
        "",
        *(_study_line(report) for report in reports),
        "",
        *[line for name in others for line in (TEXTS.note("other generator", name=name), "")],
        "## Not tested here",
        "",
        *_not_tested(reports),
    ]
    return "\n".join([*lines, ""])


def _not_tested(reports: Sequence[StudyReport]) -> Iterator[str]:
    """Yield a line on each measure that no study covers, or only for another generator's pictures."""
    model = reports[0].settings.model
    everywhere = [*reports, *(saved.report for saved in load_shipped())]
    on = {finding.metric: of.settings.model for of in reversed(everywhere) for finding in of.results.findings}
    for key, metric in METRICS.items():
        if on.get(key) != model:
            why = f"tested on {on[key]}" if key in on else NOT_HERE.get(key, "not tested yet")
            yield f"- {metric.name}: {why}."


def _instead(names: Mapping[str, str], label: str) -> str:
    """Measure that a headline shows in place of this one, by its name with or without its variant."""
    key = names.get(label) or next(key for name, key in names.items() if label.startswith(f"{name}, "))
    return METRICS[STANDS_FOR[key]].name if STANDS_FOR.get(key) else "–"


def _study_line(report: StudyReport) -> str:
    design = report.design
    facts = f"{report.n_images:,} pictures {format_seeds(report, '')}."
    more = f"[Tables, figures and targets]({design.name}/report.md)"
    return f"- **{design.title}.** {design.summary} {facts} {more}"
