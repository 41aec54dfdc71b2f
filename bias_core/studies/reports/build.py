"""What reports are made of: estimates as columns and marks, tables, figures; studies say which of them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from bias_core.studies.kit.types import FigureKind, Finding, StudyFigure, StudySettings, StudyTable
from bias_core.types import Estimate

Rows = pd.DataFrame | Iterable[Mapping[str, Any]]
POINTS = "Points are pictures, bars their quartiles, circles their medians."  # caption of figures of distributions


def or_nan(value: float | None) -> float:
    """A number for a table: what is not known is nan."""
    return math.nan if value is None else value


def columns(name: str, estimate: Estimate | None, *, ends: str | None = None) -> dict[str, float]:
    """Value and interval as columns of a table, nan where there is none; ``ends`` names the interval's.

    >>> p = Estimate(value=0.5, low=0.4, high=0.6, n=9)
    >>> columns("P", p), list(columns("S", p, ends=""))
    ({'P': 0.5, 'P low': 0.4, 'P high': 0.6}, ['S', 'low', 'high'])
    """
    low, high = (f"{name if ends is None else ends} {end}".strip() for end in ("low", "high"))
    if estimate is None:
        return dict.fromkeys((name, low, high), math.nan)
    return {name: estimate.value, low: estimate.low, high: estimate.high}


def mark(name: str, estimate: Estimate, **more: Any) -> dict[str, Any]:
    """An estimate as a mark of a figure of intervals or bars."""
    return {"name": name, **columns("value", estimate, ends=""), **more}


def finding_mark(finding: Finding) -> dict[str, Any]:
    """A finding as a mark of a figure of intervals, with what was published and drawn."""
    return mark(finding.title, finding.estimate, published=finding.published, expected=finding.expected)


def point(x: Estimate | float, y: Estimate | float, **more: Any) -> dict[str, Any]:
    """A point of a scatter, with the intervals of what is an estimate."""
    row = dict(more)
    for axis, value in (("x", x), ("y", y)):
        if isinstance(value, Estimate):
            row |= {axis: value.value, f"{axis}low": value.low, f"{axis}high": value.high}
        else:
            row[axis] = value
    return row


def marks(rows: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """What a figure reads, by its own names, from the columns of a table; those that it has.

    >>> marks(pd.DataFrame({"target": ["judge"], "MCAS": [0.5]}), {"name": "target", "value": "MCAS", "low": "L"})
        name  value
    0  judge    0.5
    """
    return pd.DataFrame({name: rows[column] for name, column in names.items() if column in rows}).reset_index(drop=True)


def intervals(settings: StudySettings) -> dict[str, Any]:
    """The confidence and the seed of a run's intervals, as measures take them."""
    return {"confidence": settings.confidence, "rng": settings.seed}


def finding(key: str, title: str, metric: str, estimate: Estimate, says: str = "", **more: Any) -> Finding:
    """A number that the study is about, in one plain sentence; ``more`` by the fields of ``Finding``."""
    return Finding(key=key, title=title, metric=metric, estimate=estimate, says=says, **more)


def table(key: str, title: str, rows: Rows, note: str = "") -> StudyTable:
    """A table of the report; ``note`` says how to read it."""
    return StudyTable(key=key, title=title, frame=_frame(rows), note=note)


def figure(kind: FigureKind, key: str, title: str, rows: Rows, caption: str = "", **labels: Any) -> StudyFigure:
    """A figure of the report; ``labels`` as its kind reads them (:mod:`bias_core.studies.reports.figures`)."""
    return StudyFigure(key=key, title=title, kind=kind, data=_frame(rows), labels=labels, caption=caption)


def finding_rows(findings: Sequence[Finding], n: str) -> list[dict[str, Any]]:
    """Findings as lines of a table, whose sampling units the column ``n`` counts."""
    return [
        {"": f.title, **columns("value", f.estimate, ends=""), n: f.estimate.n, "published": f.published}
        for f in findings
    ]


def drawable(figures: Iterable[StudyFigure]) -> tuple[StudyFigure, ...]:
    """Those with something to show."""
    return tuple(figure for figure in figures if not figure.data.empty)


def lean(estimate: Estimate, above: str, below: str, neither: str, *, null: float = 0.0) -> str:
    """One of three sentences: the interval lies above the value of no bias, below it, or holds it."""
    if estimate.low > null:
        return above
    return below if estimate.high < null else neither


def _frame(rows: Rows) -> pd.DataFrame:
    return rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
