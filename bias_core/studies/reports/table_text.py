"""Tables as text, for reports, the page and the command line: readable cells, of a long table both ends."""

import math
from typing import Any

import numpy as np
import pandas as pd

from bias_core.studies.reports.number_text import NOT_KNOWN, format_estimate, format_given, format_p

MOST_ROWS, END_ROWS = 40, 10
"""Tables longer than the first are shown by so many rows of either end; all stand in their CSV."""


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """A table as text: each value with its interval in one column, p-values as such, nothing missing unsaid.

    An interval is two columns "<name> low" and "<name> high" (or "low" and "high") behind their value.
    Columns in which nothing is known are left out.
    """
    names, texts, last = [str(name) for name in frame.columns], {}, -1
    for i, name in enumerate(names):
        if i <= last:  # an end of an interval, which stands in another column
            continue
        column, n = frame.iloc[:, i], _counts_of(name, frame)
        if _has_interval(frame, names, i):
            last = i + 2
            cells = [pd.to_numeric(frame.iloc[:, j]).to_numpy(float) for j in (i, i + 1, i + 2)]
            has_values = np.isfinite(cells[0]).any()
            text = [format_estimate(v, low, high, n=k) for v, low, high, k in zip(*cells, n, strict=True)]
        else:
            has_values = (column.notna() & (column.astype(str) != "")).any()
            text = [_cell(value, k, as_p=_is_p(name)) for value, k in zip(column, n, strict=True)]
        if has_values or not len(frame):
            texts[i] = text
    return pd.DataFrame(texts, index=frame.index).set_axis([names[i] for i in texts], axis=1)


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


def one_line(text: object) -> str:
    """Text that cannot break out of a Markdown table or heading."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def markdown_table(frame: pd.DataFrame) -> str:
    """A Markdown table; text cannot break out of its cell."""
    head = [str(column) for column in frame.columns]
    rows = [head, ["---"] * len(head), *frame.astype(object).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(map(one_line, row))} |" for row in rows)


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


def _counts_of(name: str, frame: pd.DataFrame) -> list[float | None]:
    """The n of each row: of the column "n <last word of the name>", else of "n"."""
    columns = [] if _is_count(name) else [c for c in (f"n {name.rpartition(' ')[2]}", "n") if c in frame]
    counts = frame[columns[0]] if columns else [None] * len(frame)
    is_number = (int, float, np.number)
    return [float(n) if isinstance(n, is_number) and math.isfinite(n) else None for n in counts]


def _cell(value: Any, n: float | None, *, as_p: bool) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or value is pd.NA or value is pd.NaT:
        return NOT_KNOWN
    if isinstance(value, (float, np.floating)):
        return format_p(float(value)) if as_p else format_given(float(value), n=n)
    return str(value)
