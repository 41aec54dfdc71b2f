"""The table of measures as text: a card for each, for the documentation and the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bias_core.registry.card import Metric


def to_markdown(metrics: Iterable[Metric]) -> str:
    """One page with the card of every measure, grouped by its source."""
    by_source: dict[str, list[Metric]] = {}
    for metric in metrics:
        by_source.setdefault(metric.reference, []).append(metric)
    lines = [
        "# The measures",
        "",
        "Written by `python -m bias_core measures --markdown`; sources in `refs.bib`.",
    ]
    for source, group in by_source.items():
        lines += ["", f"## {source}"]
        for metric in group:
            lines += ["", *card(metric)]
    return "\n".join([*lines, ""])


def card(metric: Metric) -> list[str]:
    """The lines of one card."""
    low, high = (_bound(value) for value in metric.bounds)
    null = "none" if metric.null_value is None else f"{metric.null_value:g}"
    inputs = "; ".join(f"`{entry.name}`, {entry.means}" for entry in metric.inputs)
    function = f"{metric.function.__module__}.{metric.function.__name__}"
    return [
        f"### {metric.name}",
        "",
        metric.summary,
        "",
        f"- Range: {low} to {high}; no bias reads: {null}; higher: {metric.higher_means}.",
        f"- Source: {metric.reference}, {metric.equation}."
        if metric.equation
        else f"- Source: {metric.reference}.",
        f"- Reads: {inputs}.",
        f"- Limits: {metric.limits}",
        f"- Function: `{function}`" + (f", its `{metric.field}`." if metric.field else "."),
    ]


def _bound(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:g}"
