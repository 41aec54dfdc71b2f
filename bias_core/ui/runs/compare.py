"""Compare finished reports, each with the first."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.explore.exploration import OF_THE_MODEL
from bias_core.measures.intervals import with_p_through_ends
from bias_core.measures.paired_prevalence import PairedTest
from bias_core.report.arm_comparison import (
    ArmDifference,
    arms_table,
    decide_differences,
    difference_finding,
    families_note,
    interval_figures,
)
from bias_core.report.report_text import describe_report_reader, get_title
from bias_core.study.design import known_study
from bias_core.study.types import (
    MOST_ARMS,
    ArmReport,
    Design,
    Finding,
    Results,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    table,
)
from bias_core.types import Estimate
from bias_core.values import declared_settings, option_values
from bias_core.wording import format_list, format_percent, shorten, typeset

KIND = "comparison"
_OMITTED = ("options", "arms", "labels")
_OWN_ARM = "its arm"  # of a run in arms, where the column "arm" says which of the two it is of


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """The numbers that two reports share."""

    pairs: tuple[tuple[Finding, Finding], ...]  # of each number that both have, the first's and the second's
    differ: tuple[str, ...]  # settings that are not the same, each in words
    notes: tuple[str, ...]


def compare_reports(first: StudyReport, second: StudyReport) -> SideBySide:
    """The shared numbers and their differences.

    d = b - a, from d - √((b - l_b)² + (u_a - a)²) to d + √((u_b - b)² + (a - l_a)²)   [newcombe1998]

    The runs are treated as independent; with the same seeds the interval is wider than necessary.

    Raises InvalidInput: they have no number in common.
    """
    pairs = common_numbers(first, second)
    if not pairs:
        raise InvalidInput(
            f"“{get_title(first)}” and “{get_title(second)}” have no number in common: compare two runs of one study, "
            "or explorations of the same attributes in the same sentences"
        )
    unlike = [f"“{name}”" for name in _named_alike(_sentences(first), _sentences(second))]
    notes = [f"Not compared, because the runs use different sentences for it: {format_list(unlike)}."] if unlike else []
    notes += ["Runs are treated as independent; with the same seeds, intervals are wider than necessary."]
    if first.versions.get("encoder") != second.versions.get("encoder"):
        notes.append("Different encoders classified them: a difference may come from the encoders.")
    if first.design.name != second.design.name:
        notes.append("The two studies have different designs.")
    return SideBySide(
        pairs=tuple(pairs), differ=tuple(_list_different_settings(first.settings, second.settings)), notes=tuple(notes)
    )


def common_numbers(first: StudyReport, second: StudyReport) -> list[tuple[Finding, Finding]]:
    """The shared findings in the order of the first, without facts about the model itself.

    Attributes with the same name but different sentences share no number.
    """
    second_findings = {
        (finding.key, finding.metric): finding
        for finding in second.results.findings
        if not finding.key.endswith(OF_THE_MODEL)
    }
    sentences = _sentences(first), _sentences(second)
    unlike = _named_alike(*sentences)
    return [
        (finding, second_findings[finding.key, finding.metric])
        for finding in first.results.findings
        if (finding.key, finding.metric) in second_findings
        and _find_attribute_name(finding.key, {*sentences[0], *sentences[1]}) not in unlike
    ]


def _sentences(report: StudyReport) -> dict[str, set[tuple[str, str]]]:
    study, found = known_study(report.design), dict[str, set[tuple[str, str]]]()
    for attributes in study.attributes(report.settings).values() if study else ():
        for attribute in attributes:
            found.setdefault(attribute.name, set()).add((attribute.positive, attribute.negative))
    return found


def _named_alike(first: Mapping[str, set[tuple[str, str]]], second: Mapping[str, set[tuple[str, str]]]) -> list[str]:
    """Names of shared attributes with different sentences."""
    return [name for name, sentences in first.items() if name in second and sentences.isdisjoint(second[name])]


def _find_attribute_name(key: str, names: Collection[str]) -> str:
    """The attribute in the key of a number; "" for none.

    >>> _find_attribute_name("all pictures-old man-p", {"man", "old man"})
    'old man'
    >>> _find_attribute_name("all pictures-woman-p", {"man"})
    ''
    """
    named = (name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", key))
    return max(named, key=len, default="")


def comparison_report(reports: Sequence[StudyReport], titles: Sequence[str]) -> StudyReport:
    """The reports as arms of one report, compared with the first; shown and downloaded like any comparison.

    ``titles`` name the runs if their settings do not distinguish them.

    Raises InvalidInput: fewer than two or too many, or one has no number in common with the first.
    """
    if not 2 <= len(reports) <= MOST_ARMS:
        raise InvalidInput(f"compare two to {MOST_ARMS} runs, got {len(reports)}")
    first, *other_reports = reports
    names = run_names(reports, titles)
    comparisons = [compare_reports(first, report) for report in other_reports]
    keys = [pair[0].key for pair in comparisons[0].pairs]
    of_other = [{pair[0].key: pair for pair in comparison.pairs} for comparison in comparisons]
    lines = {key: [of_other[0][key][0], *(pairs[key][1] for pairs in of_other)] for key in keys
             if all(key in pairs for pairs in of_other)}  # fmt: skip
    if not lines:
        raise InvalidInput("the runs have no number that all of them share: compare runs of one study")
    arms = tuple(_build_arm(name, report) for name, report in zip(names, reports, strict=True))
    confidence = first.settings.confidence
    differences = decide_differences(
        [
            _subtract_findings((line[0], line[i]), (names[0], names[i]), confidence)
            for line in lines.values()
            for i in range(1, len(line))
        ],
        confidence,
    )
    frames = [_frame_of_arm(name, report) for name, report in zip(names, reports, strict=True)]
    differ = _list_different_settings(*(report.settings for report in reports))
    return StudyReport(
        run_id="-and-".join(report.run_id for report in reports),
        design=_design(names, [report.design for report in reports]),
        settings=StudySettings(
            model=_join_words(report.settings.model for report in reports),
            condition="",
            encoder=_join_words(describe_report_reader(report) for report in reports),
            confidence=confidence,
        ),
        results=Results(
            findings=tuple(map(difference_finding, differences)),
            tables=(
                arms_table(lines, arms, seed=0),
                table(
                    "differences",
                    "Differences",
                    [line.row for line in differences],
                    f"Each one is second minus first. {families_note(differences)}",
                ),
                *([_settings_table(differ)] if differ else []),
            ),
            figures=tuple(_figures(lines, arms)),
            notes=tuple(dict.fromkeys(note for comparison in comparisons for note in comparison.notes)),
        ),
        n_planned=sum(report.n_planned for report in reports),
        n_images=sum(report.n_images for report in reports),
        n_blocked=sum(report.n_blocked for report in reports),
        warning=" ".join(dict.fromkeys(report.warning for report in reports if report.warning)),
        versions=_versions(reports),
        read_by=tuple(dict.fromkeys(facts for report in reports for facts in report.read_by)),
        pictures=pd.concat(frames, ignore_index=True),
        stored={image_id: stored for report in reports for image_id, stored in report.stored.items()},
        arms=arms,
    )


def run_names(reports: Sequence[StudyReport], titles: Sequence[str]) -> list[str]:
    """Short names of runs: the concept, condition or model in which they differ; else their ``titles``."""
    words = [
        (
            str(option_values(report.settings.options).get("concept", "")),
            report.settings.condition,
            report.settings.model,
        )
        for report in reports
    ]
    differs = [i for i in range(3) if len({values[i] for values in words}) > 1]
    names = [", ".join(filter(None, (values[i] for i in differs))) for values in words]
    if len({report.design.name for report in reports}) > 1 or not all(names) or len(set(names)) < len(names):
        names = list(titles)
    before = [names[:i].count(name) for i, name in enumerate(names)]
    ends = [", again" + (f" ({n})" if n > 1 else "") if n else "" for n in before]
    return [name + end for name, end in zip(names, ends, strict=True)]


def _join_words(words: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(words))


def split_comparison(report: StudyReport) -> list[StudyReport]:
    """The reports of a comparison, separately; any other report itself."""
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


def estimate_difference(a: Estimate, b: Estimate, confidence: float = 0.95) -> Estimate:
    """``b`` minus ``a`` of two independent estimates; nan if one is nan.

    >>> shares = Estimate(value=0.5, low=0.4, high=0.6, n=90), Estimate(value=0.8, low=0.7, high=0.9, n=90)
    >>> difference = estimate_difference(*shares)
    >>> round(difference.value, 3), round(difference.low, 3), round(difference.high, 3)
    (0.3, 0.159, 0.441)
    """
    if not all(map(math.isfinite, (a.value, b.value))):
        return Estimate.undefined(min(a.n, b.n), a.note or b.note, null_value=0.0)
    value = b.value - a.value
    low = value - math.hypot(b.value - b.low, a.high - a.value)
    high = value + math.hypot(b.high - b.value, a.value - a.low)
    gap = Estimate(value=value, low=low, high=high, n=min(a.n, b.n), null_value=0.0, method="square and add")
    return with_p_through_ends(gap, confidence)


def _design(names: Sequence[str], designs: Sequence[Design]) -> Design:
    summary = "Finished runs side by side: the numbers that all have, and their differences to the first."
    title, data = format_list(list(names), " and "), {"designs": tuple(designs)}
    return Design(name=KIND, title=title, kind=KIND, reference="", where="", summary=summary, data=data)


def _build_arm(name: str, report: StudyReport) -> ArmReport:
    return ArmReport(
        name=name,
        settings=report.settings,
        results=report.results,
        n_planned=report.n_planned,
        n_images=report.n_images,
        n_blocked=report.n_blocked,
        warning=report.warning,
    )


def _frame_of_arm(name: str, report: StudyReport) -> pd.DataFrame:
    frame = pd.DataFrame({"image_id": []}) if report.pictures is None else report.pictures
    return frame.rename(columns={"arm": _OWN_ARM}).assign(arm=name)


def _subtract_findings(pair: tuple[Finding, Finding], names: tuple[str, str], confidence: float) -> ArmDifference:
    """A difference, before it is decided, with its table row."""
    first, second = (finding.estimate for finding in pair)
    estimate = estimate_difference(first, second, confidence)
    row = {
        "finding": pair[0].title,
        "measure": pair[0].metric,
        "first": names[0],
        "second": names[1],
        "value first": first.value,
        "value second": second.value,
        **columns("difference", estimate, ends=""),
        "n": estimate.n,
        "p": estimate.p_value,
    }
    test = PairedTest(estimate=estimate, test="both intervals")
    return ArmDifference(number=pair[0], between=names, test=test, row=row)


def _figures(lines: Mapping[str, Sequence[Finding]], arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """One figure per kind of number, such as P, because kinds may differ in scale."""
    kinds: dict[str, dict[str, Sequence[Finding]]] = {}
    for key, line in lines.items():
        kinds.setdefault(line[0].title.rpartition(": ")[2] if ": " in line[0].title else "", {})[key] = line
    for number, kind_lines in enumerate(kinds.values(), start=1):
        for plot in interval_figures(kind_lines, arms):
            if not plot.data.empty:
                yield replace(plot, key=f"{number}-{plot.key}")


def _versions(reports: Sequence[StudyReport]) -> dict[str, str]:
    """Versions of all; different ones joined."""
    names = dict.fromkeys(name for report in reports for name in report.versions)
    return {
        name: _join_words(str(report.versions[name]) for report in reports if name in report.versions) for name in names
    }


def _settings_table(differ: Sequence[str]) -> StudyTable:
    rows = [dict(zip(("setting", "in each run"), line.split(": ", 1), strict=True)) for line in differ]
    return table("settings", "Settings that differ", rows)


def _list_different_settings(*settings: StudySettings) -> list[str]:
    declared, options = (
        declared_settings(StudySettings),
        [option_values(run_settings.options) for run_settings in settings],
    )
    lines: list[str] = []
    for name, option in declared.items():
        values = [getattr(run_settings, name) for run_settings in settings]
        if name not in _OMITTED and any(value != values[0] for value in values):
            lines.append(f"{option.label}: {' and '.join(_format_value(v, percent_of=option.percent) for v in values)}")
    for name in set(options[0]).intersection(*options):
        values = [run_options[name] for run_options in options]
        if any(value != values[0] for value in values):
            lines.append(f"{name.replace('_', ' ')}: {' and '.join(map(_format_value, values))}")
    return sorted(lines)


def _format_value(value: Any, *, percent_of: bool = False) -> str:
    if value in (None, "", ()):
        return "none"
    if percent_of and isinstance(value, float):
        return format_percent(value)
    text = ", ".join(str(item).partition("|")[0] for item in value) if isinstance(value, (tuple, list)) else str(value)
    text = typeset(value) if isinstance(value, float) else text
    return shorten(text, 60)
