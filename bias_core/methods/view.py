"""The table of measures as cards to read, search and link to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bias_core.metrics.cards import formula, load_references
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from bias_core.metrics.cards import Card, Reference

TITLES: Mapping[str, str] = {
    "explore": "Explore",
    "association": "Association",
    "paired": "Paired",
    "objects": "Objects",
    "internal": "Internal",
    "origins": "Origins",
    "label": "Label",
    "compare": "Compare",
}
PAPERS = ("wang2023t2iat", "wan2024pst", "vice2023tbyb", "mandal2024internal", "dehdashtian2025oasis")
"""Each has a section; what comes from elsewhere stands together in one."""
_TABS_BY_PAPER: Mapping[str, Sequence[str]] = {
    "wang2023t2iat": ("association", "explore"),
    "wan2024pst": ("paired",),
    "vice2023tbyb": ("objects",),
    "pielou1966": ("objects",),
    "gini1912": ("objects",),
    "hill1973": ("objects",),
    "mandal2024internal": ("internal",),
    "dehdashtian2025oasis": ("explore", "origins", "compare"),
}
_TABS_BY_MEASURE: Mapping[str, Sequence[str]] = {
    "stereotype_propagation_index": ("origins",),
    "mean_similarity": ("origins",),
    "model_distance": ("objects", "compare"),
    "kendall_tau": ("association",),
    "prevalence_difference": ("compare",),
    "stereotype_difference": ("compare",),
    "alignment_difference": ("compare",),
    "spread_difference": ("compare",),
}
_RATERS = ("label",)

SEARCH_JS = script("measures")


def methods_html(metrics: Iterable[Card]) -> str:
    """The search field, and every card under its source."""
    measures = list(metrics)
    groups: dict[str, list[Card]] = {}
    for metric in measures:
        groups.setdefault(metric.reference if metric.reference in PAPERS else "", []).append(metric)
    return render(
        "measures",
        n=len(measures),
        groups=sorted(groups.items(), key=_place),
        sources=dict.fromkeys(metric.reference for metric in measures),
        works=load_references(),
        titles=TITLES,
        tabs_of=_tabs_of,
        search_text=_search_text,
        formula=formula,
        math_parts=math_parts,
        null_place=_null_place,
        bound=_bound,
    )


def _place(group: tuple[str, Sequence[Card]]) -> int:
    return PAPERS.index(group[0]) if group[0] in PAPERS else len(PAPERS)


def _search_text(metric: Card, work: Reference) -> str:
    texts = (metric.key, metric.name, metric.summary, metric.limits, metric.higher_means, work.short)
    return " ".join((*texts, *(entry.means for entry in metric.inputs), *formula(metric))).lower()


def _tabs_of(metric: Card) -> Sequence[str]:
    return _TABS_BY_MEASURE.get(metric.key) or _TABS_BY_PAPER.get(metric.reference, _RATERS)


def _null_place(metric: Card) -> str | None:
    """Where "no bias" lies on a line from 4 to 96; None where no value means it."""
    (low, high), null = metric.bounds, metric.null_value
    if null is None:
        return None
    if math.isfinite(low) and math.isfinite(high):
        return f"{4 + 92 * (null - low) / (high - low):.1f}"
    return "50" if math.isinf(low) else "12"


def _bound(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:.3g}".replace("-", "−")


_SIGNS = {" - ": " − ", ">=": "≥", "X~": "X̃", "Y~": "Ỹ", " x ": " × "}
_RAISED_OR_LOWERED = re.compile(r"_(?:\{([^}]*)\}|(\w)(?![A-Za-z0-9]))|\^(\w)")


def math_parts(line: str) -> list[tuple[str, str]]:
    """A formula's line of text with real signs, cut into normal, "sub" and "sup" parts.

    Examples
    --------
    >>> math_parts("H_J = x_{i+1} - X^A")
    [('', 'H'), ('sub', 'J'), ('', ' = x'), ('sub', 'i+1'), ('', ' − X'), ('sup', 'A')]
    """
    for text, sign in _SIGNS.items():
        line = line.replace(text, sign)
    parts, end = [], 0
    for match in _RAISED_OR_LOWERED.finditer(line):
        parts += [("", line[end : match.start()]), ("sup" if match[3] else "sub", match[match.lastindex or 0])]
        end = match.end()
    parts.append(("", line[end:]))
    return [(kind, re.sub(r"(?<![\w)])-(?=\d)", "−", text)) for kind, text in parts if text]


def math_html(line: str) -> str:
    """A formula's line of text with real sub- and superscripts and signs."""
    return render("formula", parts=math_parts(line))
