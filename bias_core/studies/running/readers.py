"""Several readers of the same pictures: what each says, beside the interval of the pictures' sampling."""

import math
from collections.abc import Mapping
from dataclasses import replace

from bias_core.studies.kit.types import Finding, Results, table

NOTE = (
    "Every reader read the same pictures. The interval (low to high) is that of drawing other pictures, by the first "
    "reader; the spread is between the lowest and the highest reader, and no interval holds it."
)


def beside(first: str, results: Results, others: Mapping[str, Results]) -> Results:
    """The results of the ``first`` reader, each number with those of the other readers, and a table of them."""
    values = {
        name: {finding.key: finding.estimate.value for finding in other.findings} for name, other in others.items()
    }

    def read_by_all(finding: Finding) -> Finding:
        others_say = {name: value for name, by_key in values.items() if (value := by_key.get(finding.key)) is not None}
        return replace(finding, by_reader={first: finding.estimate.value, **others_say})

    findings = tuple(map(read_by_all, results.findings))
    readers = table("readers", "How far the numbers depend on the reader", map(_row, findings), NOTE)
    return replace(results, findings=findings, tables=(readers, *results.tables) if findings else results.tables)


def _row(finding: Finding) -> dict[str, float | str]:
    values, estimate = list(finding.by_reader.values()), finding.estimate
    spread = max(values) - min(values) if all(map(math.isfinite, values)) else math.nan
    return {
        "": finding.title,
        **finding.by_reader,
        "spread between readers": spread,
        "low": estimate.low,
        "high": estimate.high,
    }
