"""Compare two finished reports."""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.explore.exploration import OF_THE_MODEL
from bias_core.measures.intervals import percent
from bias_core.number_text import format_estimate, typeset
from bias_core.study.arm_comparison import arms_table, interval_figures
from bias_core.study.design import known_study
from bias_core.study.report_text import read_by, title_of
from bias_core.study.types import (
    ArmReport,
    Design,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    listed,
    table,
)
from bias_core.types import Estimate
from bias_core.values import option_values, settings_of

KIND = "comparison"
_OMITTED = ("options", "arms", "labels")
_OWN_ARM = "its arm"  # of a run in arms, where the column "arm" says which of the two it is of


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """The numbers that two reports share."""

    titles: tuple[str, str]
    pairs: tuple[tuple[Finding, Finding], ...]  # of each number that both have, the first's and the second's
    differ: tuple[str, ...]  # settings that are not the same, each in words
    notes: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each number as text: first, second, difference, and if its interval excludes 0."""
        return [_row(*pair) for pair in self.pairs]


def compare_reports(first: StudyReport, second: StudyReport, titles: tuple[str, str] | None = None) -> SideBySide:
    """The shared numbers and their differences.

    d = b - a, from d - √((b - l_b)² + (u_a - a)²) to d + √((u_b - b)² + (a - l_a)²)   [newcombe1998]

    The runs are treated as independent; with the same seeds the interval is wider than necessary.

    ``titles`` name the two if their drawn pictures do not distinguish them.

    Raises InvalidInput: they have no number in common.
    """
    pairs = common_numbers(first, second)
    if not pairs:
        raise InvalidInput(
            f"“{title_of(first)}” and “{title_of(second)}” have no number in common: compare two runs of one study, "
            "or explorations of the same attributes in the same sentences"
        )
    unlike = [f"“{name}”" for name in _named_alike(_sentences(first), _sentences(second))]
    notes = [f"Not compared, because the runs use different sentences for it: {listed(unlike)}."] if unlike else []
    notes += ["Runs are treated as independent; with the same seeds, intervals are wider than necessary."]
    if first.versions.get("encoder") != second.versions.get("encoder"):
        notes.append("Different encoders classified them: a difference may come from the encoders.")
    if first.design.name != second.design.name:
        notes.append("The two studies have different designs.")
    return SideBySide(
        titles=titles or (title_of(first), title_of(second)),
        pairs=tuple(pairs),
        differ=tuple(_differences(first.settings, second.settings)),
        notes=tuple(notes),
    )


def common_numbers(first: StudyReport, second: StudyReport) -> list[tuple[Finding, Finding]]:
    """The shared findings in the order of the first, without facts about the model itself.

    Attributes with the same name but different sentences share no number.
    """
    others = {(one.key, one.metric): one for one in second.results.findings if not one.key.endswith(OF_THE_MODEL)}
    sentences = _sentences(first), _sentences(second)
    unlike = _named_alike(*sentences)
    return [
        (one, others[one.key, one.metric])
        for one in first.results.findings
        if (one.key, one.metric) in others and _attribute_in(one.key, {*sentences[0], *sentences[1]}) not in unlike
    ]


def _sentences(report: StudyReport) -> dict[str, set[tuple[str, str]]]:
    """Sentences of each attribute by name."""
    study, found = known_study(report.design), dict[str, set[tuple[str, str]]]()
    for attributes in study.attributes(report.settings).values() if study else ():
        for attribute in attributes:
            found.setdefault(attribute.name, set()).add((attribute.positive, attribute.negative))
    return found


def _named_alike(first: Mapping[str, set[tuple[str, str]]], second: Mapping[str, set[tuple[str, str]]]) -> list[str]:
    """Names of shared attributes with different sentences."""
    return [name for name, sentences in first.items() if name in second and sentences.isdisjoint(second[name])]


def _attribute_in(key: str, names: Collection[str]) -> str:
    """The attribute in the key of a number; "" for none.

    >>> _attribute_in("all pictures-old man-p", {"man", "old man"}), _attribute_in("all pictures-woman-p", {"man"})
    ('old man', '')
    """
    named = (name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", key))
    return max(named, key=len, default="")


def comparison_report(first: StudyReport, second: StudyReport, titles: tuple[str, str] | None = None) -> StudyReport:
    """The two reports as arms of one report, shown and downloaded like any comparison.

    Raises InvalidInput: they have no number in common.
    """
    both = compare_reports(first, second, titles)
    one, other = both.titles if both.titles[0] != both.titles[1] else (both.titles[0], f"{both.titles[1]}, again")
    sides = ((one, first), (other, second))
    arms = tuple(_as_arm(name, report) for name, report in sides)
    lines = {pair[0].key: pair for pair in both.pairs}
    differences = [_difference(pair, (one, other)) for pair in both.pairs]
    frames = [_pictures(name, report) for name, report in sides]
    readers = " and ".join(dict.fromkeys(read_by(report.settings) for _, report in sides))
    drawn_by = " and ".join(dict.fromkeys(report.settings.model for _, report in sides))
    return StudyReport(
        run_id=f"{first.run_id}-and-{second.run_id}",
        design=_design(one, other, (first.design, second.design)),
        settings=StudySettings(model=drawn_by, condition="", encoder=readers, confidence=first.settings.confidence),
        results=Results(
            findings=tuple(finding for finding, _ in differences),
            tables=(
                arms_table(lines, arms, seed=0),
                table("differences", "Differences", [row for _, row in differences], "Each one is second minus first."),
                *([_settings_table(both.differ)] if both.differ else []),
            ),
            figures=tuple(_figures(lines, arms)),
            notes=both.notes,
        ),
        n_planned=first.n_planned + second.n_planned,
        n_images=first.n_images + second.n_images,
        n_blocked=first.n_blocked + second.n_blocked,
        warning=" ".join(dict.fromkeys(filter(None, (first.warning, second.warning)))),
        versions=_versions(first, second),
        read_by=tuple(dict.fromkeys((*first.read_by, *second.read_by))),
        pictures=pd.concat(frames, ignore_index=True) if frames else None,
        stored={**first.stored, **second.stored},
        arms=arms,
    )


def sides_of(report: StudyReport) -> list[StudyReport]:
    """The two reports of a comparison, separately; any other report itself."""
    if report.design.kind != KIND or report.pictures is None:
        return [report]
    frame = report.pictures
    return [
        replace(
            report,
            design=design,
            settings=arm.settings,
            results=arm.results,
            arms=(),
            pictures=frame[frame["arm"] == arm.name].drop(columns="arm").reset_index(drop=True),
        )
        for arm, design in zip(report.arms, report.design.data["designs"], strict=True)
    ]


def difference_of(a: Estimate, b: Estimate) -> Estimate:
    """``b`` minus ``a`` of two independent estimates; nan if one is nan.

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


def _design(one: str, other: str, designs: tuple[Design, Design]) -> Design:
    summary = "Two finished runs side by side: the numbers that both have, and their differences."
    title = f"{one} and {other}"
    data = {"designs": designs}
    return Design(name=KIND, title=title, kind=KIND, reference="", where="", summary=summary, data=data)


def _as_arm(name: str, report: StudyReport) -> ArmReport:
    return ArmReport(
        name=name,
        settings=report.settings,
        results=report.results,
        n_planned=report.n_planned,
        n_images=report.n_images,
        n_blocked=report.n_blocked,
        warning=report.warning,
    )


def _pictures(name: str, report: StudyReport) -> pd.DataFrame:
    frame = pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
    return frame.rename(columns={"arm": _OWN_ARM}).assign(arm=name)


def _difference(pair: tuple[Finding, Finding], names: tuple[str, str]) -> tuple[Finding, dict[str, Any]]:
    """A difference as a finding and as a table row."""
    a, b = (finding.estimate for finding in pair)
    texts, row = _row(*pair), {"finding": pair[0].title, "first": names[0], "second": names[1]}
    says = f"{texts['first']} in “{names[0]}” (n = {a.n:,}), {texts['second']} in “{names[1]}” (n = {b.n:,})."
    finding = Finding(
        key=pair[0].key, title=pair[0].title, metric=pair[0].metric, estimate=difference_of(a, b), says=says
    )
    ends = columns("difference", finding.estimate, ends="")
    numbers = {"value first": a.value, "value second": b.value, **ends, "n": finding.estimate.n}
    clear = "yes" if texts["clear"] else "no"
    return finding, {**row, "measure": pair[0].metric, **numbers, "p adjusted": math.nan, "clear": clear}


def _figures(lines: Mapping[str, tuple[Finding, Finding]], arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """One figure per kind of number, such as P, because kinds may differ in scale."""
    kinds: dict[str, dict[str, tuple[Finding, Finding]]] = {}
    for key, pair in lines.items():
        kinds.setdefault(pair[0].title.rpartition(": ")[2] if ": " in pair[0].title else "", {})[key] = pair
    for number, some in enumerate(kinds.values(), start=1):
        for plot in interval_figures(some, arms):
            if not plot.data.empty:
                yield replace(plot, key=f"{number}-{plot.key}")


def _versions(first: StudyReport, second: StudyReport) -> dict[str, str]:
    """Versions of both; different ones joined."""
    names = dict.fromkeys((*first.versions, *second.versions))
    both = {name: [report.versions[name] for report in (first, second) if name in report.versions] for name in names}
    return {name: " and ".join(dict.fromkeys(map(str, some))) for name, some in both.items()}


def _settings_table(differ: Sequence[str]) -> StudyTable:
    rows = [dict(zip(("setting", "first and second"), line.split(": ", 1), strict=True)) for line in differ]
    return table("settings", "Settings that differ", rows)


def _differences(first: StudySettings, second: StudySettings) -> list[str]:
    declared = settings_of(StudySettings)
    lines: list[str] = []
    for name, option in declared.items():
        a, b = getattr(first, name), getattr(second, name)
        if name not in _OMITTED and a != b:
            lines.append(
                f"{option.label}: {_shown(a, percent_of=option.percent)} and {_shown(b, percent_of=option.percent)}"
            )
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
    text = typeset(value) if isinstance(value, float) else text
    return text if len(text) <= 60 else f"{text[:60]}…"
