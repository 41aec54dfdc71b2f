"""Tables as text, for reports, the page and the command line: readable cells, of a long table both ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.studies.reports.number_text import NOT_KNOWN, format_estimate, format_given, format_p

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ROWS, END_ROWS = 40, 10
"""Tables longer than the first are shown by so many rows of either end; all stand in their CSV."""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as text: each value with its interval in one column, p-values as such, nothing missing unsaid.

    An interval is two columns "<name> low" and "<name> high" (or "low" and "high") behind their value.
    Columns in which nothing is known are left out.
    """
    counts = {str(name): frame.iloc[:, i] for i, name in enumerate(frame.columns) if _is_count(str(name))}
    columns = {i: text for i, text in _texts(frame, counts) if text is not None}
    names = [str(frame.columns[i]) for i in columns]
    return pd.DataFrame(dict(enumerate(columns.values())), index=frame.index).set_axis(names, axis=1)


def excerpt(frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """:func:`readable` with the first and last rows of a long table, and a sentence on what is left out."""
    text = readable(frame)
    if len(text) <= MOST_ROWS:
        return text, ""
    gap = pd.DataFrame([["…"] * text.shape[1]], columns=text.columns)
    ends = pd.concat([text.iloc[:END_ROWS], gap, text.iloc[-END_ROWS:]], ignore_index=True)
    return ends, f"The first {END_ROWS} and the last {END_ROWS} of {len(text):,} rows"


def excerpt_lines(frame: pd.DataFrame, file: str = "") -> list[str]:
    """A Markdown table, of a long one both ends; ``file`` beside it has all rows."""
    text, shown = excerpt(frame)
    where = f"[{file}]({file})" if file else "the CSV of this table, and in the zip"
    return [markdown_table(text), *(["", f"{shown}; all are in {where}."] if shown else [])]


def markdown_table(frame: pd.DataFrame) -> str:
    """A Markdown table; text cannot break out of its cell."""

    def cell(value: object) -> str:
        return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")

    head = [str(column) for column in frame.columns]
    rows = [head, ["---"] * len(head), *frame.astype(object).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(cell(value) for value in row)} |" for row in rows)


def _texts(frame: pd.DataFrame, counts: dict[str, pd.Series[Any]]) -> Iterator[tuple[int, list[str] | None]]:
    """Place and text of each column; None where it stands in another, or nothing in it is known."""
    names, i = list(map(str, frame.columns)), 0
    while i < len(names):
        column, n = frame.iloc[:, i], _counts_of(names[i], counts, len(frame))
        if _has_interval(frame, names, i):
            low, high = (pd.to_numeric(frame.iloc[:, j]).to_numpy(float) for j in (i + 1, i + 2))
            values = pd.to_numeric(column).to_numpy(float)
            cells = zip(values, low, high, n, strict=True)
            known = np.isfinite(values).any() or not len(values)
            yield i, [format_estimate(v, a, b, n=k) for v, a, b, k in cells] if known else None
            i += 3
            continue
        known = (column.notna() & (column.astype(str) != "")).any() or not len(column)
        as_p = _is_p(names[i])
        yield i, [_cell(v, k, as_p=as_p) for v, k in zip(column, n, strict=True)] if known else None
        i += 1


def _has_interval(frame: pd.DataFrame, names: list[str], i: int) -> bool:
    """Whether this is a column of numbers and the two behind it are the ends of its interval."""
    if i + 2 >= len(names) or _is_count(names[i]):
        return False
    if not names[i + 1].endswith("low") or not names[i + 2].endswith("high"):
        return False
    same = names[i + 1].removesuffix("low") == names[i + 2].removesuffix("high")
    numbers = frame.iloc[:, i].map(lambda value: value is None or isinstance(value, (float, np.floating)))
    return same and bool(numbers.all())


def _is_count(name: str) -> bool:
    return name == "n" or name.startswith("n ")


def _is_p(name: str) -> bool:
    return name in ("p", "q") or name.endswith((" p", " q")) or name.startswith(("p ", "q "))


def _counts_of(name: str, counts: dict[str, pd.Series[Any]], length: int) -> list[float | None]:
    """The n of each row: of the column "n <last word of the name>", else of "n"."""
    if _is_count(name):
        return [None] * length
    column = counts.get(f"n {name.rpartition(' ')[2]}", counts.get("n"))
    return [None] * length if column is None else [_number(value) for value in column]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float, np.number)) and math.isfinite(value) else None


def _cell(value: Any, n: float | None, *, as_p: bool) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or value is pd.NA or value is pd.NaT:
        return NOT_KNOWN
    if isinstance(value, (float, np.floating)):
        return format_p(float(value)) if as_p else format_given(float(value), n=n)
    return str(value)
