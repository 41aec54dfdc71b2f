"""Two finished reports side by side: one's own, or of the gallery."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bias_core.errors import InvalidInput
from bias_core.stats.intervals import percent
from bias_core.studies.kit.setting_fields import option_values, settings_of
from bias_core.studies.kit.types import Finding, StudyReport, StudySettings
from bias_core.studies.reports.text import format_estimate, title_of
from bias_core.types import Estimate

_OMITTED = ("options", "arms", "labels")


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """What two reports have in common, number by number."""

    titles: tuple[str, str]
    rows: tuple[Mapping[str, Any], ...]  # number, first, second, difference, whether its interval excludes 0
    differ: tuple[str, ...]  # settings that are not the same, each in words
    notes: tuple[str, ...]


def compare_reports(first: StudyReport, second: StudyReport, titles: tuple[str, str] | None = None) -> SideBySide:
    """Numbers that both have, and their differences.

    d = b - a, from d - √((b - l_b)² + (u_a - a)²) to d + √((u_b - b)² + (a - l_a)²)   [newcombe1998]

    The two runs are taken as independent; where they drew on the same seeds the interval is wider than it need be.

    ``titles`` say which they are, where what was drawn does not tell them apart.

    Raises InvalidInput: they have no number in common.
    """
    others = {(one.key, one.metric): one for one in second.results.findings}
    pairs = [(one, others[one.key, one.metric]) for one in first.results.findings if (one.key, one.metric) in others]
    if not pairs:
        raise InvalidInput(
            f"“{title_of(first)}” and “{title_of(second)}” have no number in common: compare two audits of one study, "
            "or explorations of the same attributes"
        )
    notes = ["Runs count as independent of each other; of the same seeds an interval is wider than it need be."]
    if first.versions.get("encoder") != second.versions.get("encoder"):
        notes.append("They were read by different encoders: a difference may be the readers’.")
    if first.design.name != second.design.name:
        notes.append("They are studies of different designs.")
    return SideBySide(
        titles=titles or (title_of(first), title_of(second)),
        rows=tuple(_row(*pair) for pair in pairs),
        differ=tuple(_differences(first.settings, second.settings)),
        notes=tuple(notes),
    )


def difference_of(a: Estimate, b: Estimate) -> Estimate:
    """B less a, of two independent estimates; nan where one is.

    >>> shares = Estimate(value=0.5, low=0.4, high=0.6, n=90), Estimate(value=0.8, low=0.7, high=0.9, n=90)
    >>> difference = difference_of(*shares)
    >>> round(difference.value, 3), round(difference.low, 3), round(difference.high, 3)
    (0.3, 0.159, 0.441)
    """
    if not all(map(math.isfinite, (a.value, b.value))):
        return Estimate.undefined(min(a.n, b.n), a.note or b.note, null_value=0.0)
    value = b.value - a.value
    low = value - math.hypot(b.value - b.low, a.high - a.value)
    high = value + math.hypot(b.high - b.value, a.value - a.low)
    return Estimate(value=value, low=low, high=high, n=min(a.n, b.n), null_value=0.0, method="square and add")


def _row(first: Finding, second: Finding) -> dict[str, Any]:
    a, b = first.estimate, second.estimate
    difference = difference_of(a, b)
    return {
        "number": first.title,
        "first": format_estimate(a.value, a.low, a.high, n=a.n),
        "second": format_estimate(b.value, b.low, b.high, n=b.n),
        "difference": format_estimate(difference.value, difference.low, difference.high),
        "clear": difference.low > 0 or difference.high < 0,
    }


def _differences(first: StudySettings, second: StudySettings) -> list[str]:
    declared = settings_of(StudySettings)
    lines: list[str] = []
    for name, one in declared.items():
        a, b = getattr(first, name), getattr(second, name)
        if name not in _OMITTED and a != b:
            lines.append(f"{one.label}: {_shown(a, percent_of=one.percent)} and {_shown(b, percent_of=one.percent)}")
    options = option_values(first.options), option_values(second.options)
    for name in options[0].keys() & options[1].keys():
        a, b = options[0][name], options[1][name]
        if a != b:
            lines.append(f"{name.replace('_', ' ')}: {_shown(a)} and {_shown(b)}")
    return sorted(lines)


def _shown(value: Any, *, percent_of: bool = False) -> str:
    if value in (None, "", ()):
        return "none"
    if percent_of and isinstance(value, float):
        return percent(value)
    text = ", ".join(str(item).partition("|")[0] for item in value) if isinstance(value, (tuple, list)) else str(value)
    text = f"{value:g}" if isinstance(value, float) else text
    return text if len(text) <= 60 else f"{text[:60]}…"
