"""What was found of objects in pictures, for somebody who has not read the paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.kit.types import Finding, StudyFigure, StudyReport
    from bias_core.types import Estimate

APART = ("figure2", "figure4", "top_objects")
"""Figures that this tab shows beside their numbers."""

_MOST_GROUPS = 4
_BASE = "with it in "  # how the column of the base begins
_EXAMPLES = 3
_CURVE = {
    "n": "n, pictures",
    "objects": "vocabulary",
    **{name: name for name in ("B_D", "B_D low", "B_D high")},
    "normalised entropy": "entropy",
    "Gini": "Gini",
    "effective number": "effective number",
}


def headline(report: StudyReport) -> str:
    """Which object towers, how far pictures stray from their prompts, and how sure that is."""
    changes = [f for f in report.results.findings if " change " in f.key]
    return _changed(report, changes) if changes else _seen(report)


def _seen(report: StudyReport) -> str:
    top = _frame(report, "top_objects")
    whole = _first(report, "hallucination")
    if top.empty or whole is None:
        return f"{report.n_images:,} pictures were captioned, and no object was named in them."
    first, missed = top.iloc[0], _first(report, "miss stronger")
    says = (
        f"“{first['object']}” is what captions name most, in {first['pictures with it']:,} of "
        f"{whole.n:,} pictures. Of the objects that a prompt and its picture's caption name, "
        f"{_percent(whole)} are named by one of them only (H_J)"
    )
    if missed is not None:
        says += f"; {_percent(missed)} of the pictures fit another prompt better than their own (M_G)"
    return f"{says}. {_genders(report)}".strip()


def _genders(report: StudyReport) -> str:
    table = _frame(report, "table4")
    if table.empty or not table["male"].iloc[0] + table["female"].iloc[0]:
        return ""
    row = table.iloc[0]
    parts = [f"{row[g]:.0f} % {g} [{row[f'{g} low']:.0f}, {row[f'{g} high']:.0f}]" for g in ("male", "female")]
    return f"Captions call the people {' and '.join(parts)}."


def _changed(report: StudyReport, changes: Sequence[Finding]) -> str:
    """Of a controlled experiment: what each condition adds."""
    top = _frame(report, "top_objects")
    given = [str(c).removeprefix(_BASE) for c in top if str(c).startswith(_BASE)]
    base = given[0] if given else "the base"
    said: dict[str, list[str]] = {}  # conditions by what is said of them
    for name, rows in top.groupby("pictures", sort=False):
        most = rows.sort_values("Δn", ascending=False, kind="stable").iloc[0]
        change = next((f.estimate for f in changes if f.key == f"{name} change H_J"), None)
        gained = f"in {most['Δn']:,} more pictures of {_n_images(report, str(name))}"
        first = f"“{most['object']}” is {gained}" if most["Δn"] > 0 else "no object is gained"
        said.setdefault(f"{first}{_moves(change)}", []).append(str(name))
    parts = [f"under {' and '.join(names)} {what}" for what, names in said.items()]
    return f"Against {base}, on the same prompts: {'; '.join(parts)}."


def _n_images(report: StudyReport, name: str) -> str:
    table = _frame(report, "conditions")
    counts = [] if table.empty else table.loc[table["condition"] == name, "n"].tolist()
    return f"{counts[0]:,}" if counts else "all"


def _moves(change: Estimate | None) -> str:
    if change is None or math.isnan(change.value):
        return ""
    numbers = f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]".replace("-", "−")
    if change.low <= 0 <= change.high:
        return f" (how far pictures stray from their prompts does not clearly change, H_J {numbers})"
    return f" (pictures stray {'further' if change.low > 0 else 'less'} from their prompts, H_J {numbers})"


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def curve_html(report: StudyReport) -> str:
    """Fig. 2, and beside it what its area depends on."""
    figure = _figure(report, "figure2")
    key = "conditions" if not _frame(report, "conditions").empty else "measures"
    table = _frame(report, key)
    if figure is None or table.empty:
        return ""
    few = table[[table.columns[0], *(c for c in _CURVE if c in table)]].rename(columns=_CURVE)
    note = (
        "B_D is the area under the curve; lower is more biased. It has no upper end and grows with n and "
        "with the vocabulary, so compare it at equal n only. Its companions are bounded: normalised "
        "entropy (0 to 1, 1 is even), Gini (0 to 1, 0 is even), and the effective number of objects, at most "
        "the vocabulary."
    )
    return _beside(figure, "B_D with what it depends on", note, few, key)


def space_html(report: StudyReport) -> str:
    """Fig. 4 with its numbers; nothing where there is one model."""
    figure, table = _figure(report, "figure4"), _frame(report, "comparison")
    if figure is None or table.empty:
        return ""
    note = next(t.note for t in report.results.tables if t.key == "comparison")
    first = [c for c in ("condition", "rank", "distance") if c in table]
    ordered = table[[*first, *table.columns.difference(first, sort=False)]]
    return _beside(figure, "The same in numbers", note, ordered, "comparison")


def _beside(figure: StudyFigure, title: str, note: str, frame: pd.DataFrame, key: str) -> str:
    return render("beside", figure=figure, title=title, note=note, frame=frame, key=key)


def top_html(report: StudyReport) -> str:
    """The most frequent objects of each set of pictures; each chooses the pictures that have it."""
    top = _frame(report, "top_objects")
    if top.empty:
        return ""
    groups = [(name, rows.to_dict("records")) for name, rows in top.groupby("pictures", sort=False)]
    return render("top_objects", groups=groups[:_MOST_GROUPS])


def examples_html(report: StudyReport) -> str:
    """What was asked for and what the captioner said, where they differ most and where least."""
    frame = report.pictures
    if frame is None or "H_J" not in frame or frame["H_J"].notna().sum() < 2:
        return ""
    known = frame.dropna(subset="H_J").sort_values("H_J", kind="stable")
    n = min(_EXAMPLES, len(known) // 2)
    sides = {"Furthest from their prompts": known.tail(n).iloc[::-1], "Closest to their prompts": known.head(n)}
    rows = {title: some.to_dict("records") for title, some in sides.items()}
    return render("captioned", sides=rows, stored=report.stored)


def _first(report: StudyReport, ending: str) -> Estimate | None:
    """The estimate of all pictures (the first of its kind)."""
    return next((f.estimate for f in report.results.findings if f.key.endswith(f" {ending}")), None)


def _frame(report: StudyReport, key: str) -> pd.DataFrame:
    return next((table.frame for table in report.results.tables if table.key == key), pd.DataFrame())


def _figure(report: StudyReport, key: str) -> StudyFigure | None:
    return next((figure for figure in report.results.figures if figure.key == key), None)
