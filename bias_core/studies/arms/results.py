"""The comparison of a run's arms: differences, each arm's numbers, ranks, and figures of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.stats.effects import benjamini_hochberg
from bias_core.studies.arms.statistics import Rank, difference, number_at, places_together, ranks
from bias_core.studies.kit.types import Finding, Results, Sample, StudyFigure, StudyTable
from bias_core.studies.reports.number_text import format_estimate, format_number, format_p

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bias_core.metrics.paired_prevalence import PairedTest
    from bias_core.studies.kit.kind import Program
    from bias_core.studies.kit.types import ArmReport, Design, StudyReport, StudySettings

RATE = 0.05
"""Accepted share of false discoveries among the differences that are called clear."""
MOST_IN_PAIRS = 4
"""Arms of which every pair is compared; more are compared with the first."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A finding in two arms, the second less the first.

    Attributes
    ----------
    first, second : names of the arms.
    value_first, value_second : the number in each, on what is compared.
    compared_on : the units that both arms have, in words; "" where they share none.
    p_adjusted : Benjamini–Hochberg over all tests of the report; nan where there is no test.
    expected : the difference of what was really drawn, where that is on record.
    """

    finding: Finding
    first: str
    second: str
    value_first: float
    value_second: float
    test: PairedTest
    compared_on: str
    p_adjusted: float = math.nan
    expected: float | None = None


def compare_arms(design: Design, settings: StudySettings, program: Program, arms: Sequence[ArmReport]) -> Results:
    """What differs between the arms, for every study alike, and the paper's own comparison beside it."""
    by_key = [{finding.key: finding for finding in arm.results.findings} for arm in arms]
    keys = [key for key in by_key[0] if all(key in findings for findings in by_key)]
    lines = {key: [findings[key] for findings in by_key] for key in keys}
    sampled = {key: line for key, line in lines.items() if all(f.sample is not None for f in line)}
    compared = _adjusted([_compare(line, arms, settings) for line in sampled.values()])
    ranked = {key: _ranks(line, settings) for key, line in sampled.items()}
    own = program.compare(design, settings, arms) if program.compare else Results()
    return Results(
        findings=(*(_finding(one) for one in compared), *own.findings),
        tables=(
            _arms_table(lines, arms, settings.seed),
            *([_ranks_table(lines, ranked, arms)] if ranked else []),
            *own.tables,
            _differences_table(compared),
        ),
        figures=(*own.figures, *_interval_figures(lines, arms), *_rank_figure(lines, ranked, arms)),
        notes=(*own.notes, *_notes(arms, by_key, lines, sampled, compared)),
    )


def summary(report: StudyReport) -> str:
    """What a comparison found, in a sentence or two."""
    frame = next(table.frame for table in report.results.tables if table.key == "differences")
    tested = frame[frame["p adjusted"].notna()] if len(frame) else frame
    if tested.empty:
        return "Nothing could be tested on these pictures; the tables show what was measured."
    clear = tested[tested["p adjusted"] <= RATE]
    if clear.empty:
        return f"No clear difference between the arms: none of {len(tested)} tests stands out from chance."
    row = clear[clear["finding"] == clear["finding"].iloc[0]].sort_values("difference", key=abs).iloc[-1]
    ends = row["low"], row["high"]
    text = (
        f"{row['finding']} is {format_number(row['value first'], *ends)} in “{row['first']}” and "
        f"{format_number(row['value second'], *ends)} in “{row['second']}”: a difference of "
        f"{format_estimate(row['difference'], *ends)}. {len(clear)} of {len(tested)} differences are clear "
        "after correction for looking at all."
    )
    return text[:1].upper() + text[1:]


def _pairs(n_arms: int) -> list[tuple[int, int]]:
    if n_arms <= MOST_IN_PAIRS:
        return list(combinations(range(n_arms), 2))
    return [(0, i) for i in range(1, n_arms)]


def _samples(line: Sequence[Finding]) -> list[Sample]:
    return [finding.sample for finding in line if finding.sample is not None]


def _compare(line: Sequence[Finding], arms: Sequence[ArmReport], settings: StudySettings) -> list[Compared]:
    """One finding in every pair of arms."""
    samples, compared = _samples(line), []
    for i, j in _pairs(len(arms)):
        test, first, second, paired = difference(
            samples[i],
            samples[j],
            depends_on_n=line[i].depends_on_n,
            confidence=settings.confidence,
            seed=settings.seed,
        )
        compared.append(
            Compared(
                finding=line[i],
                first=arms[i].name,
                second=arms[j].name,
                value_first=first,
                value_second=second,
                test=test,
                compared_on=f"same {samples[i].of}" if paired else "",
                expected=_expected(line[i], line[j], test.estimate.n),
            )
        )
    return compared


def _expected(first: Finding, second: Finding, n: int) -> float | None:
    """Of what was drawn, where the two findings are of the very pictures that are compared."""
    if first.expected is None or second.expected is None:
        return None
    return second.expected - first.expected if first.estimate.n == second.estimate.n == n else None


def _adjusted(parts: Sequence[Sequence[Compared]]) -> list[Compared]:
    compared = [one for part in parts for one in part]
    p_values = [one.test.p_value for one in compared if not math.isnan(one.test.p_value)]
    if not p_values:
        return compared
    adjusted = iter(benjamini_hochberg(p_values, rate=RATE).adjusted)
    return [one if math.isnan(one.test.p_value) else replace(one, p_adjusted=float(next(adjusted))) for one in compared]


def _ranks(line: Sequence[Finding], settings: StudySettings) -> tuple[Rank, ...]:
    return ranks(_samples(line), depends_on_n=line[0].depends_on_n, confidence=settings.confidence, seed=settings.seed)


def _finding(one: Compared) -> Finding:
    estimate = one.test.estimate
    ends = estimate.low, estimate.high
    says = f"{format_number(one.value_first, *ends)} in “{one.first}”, "
    says += f"{format_number(one.value_second, *ends)} in “{one.second}”"
    says += "." if one.compared_on else "; the two share no seed."
    if not math.isnan(one.p_adjusted):
        says += f" Adjusted p {format_p(one.p_adjusted)} ({one.test.test})."
    if not math.isnan(estimate.value) and estimate.note:
        says, estimate = f"{says} {estimate.note.capitalize()}.", replace(estimate, note="")
    return Finding(
        key=f"{one.finding.key}: {one.second} - {one.first}",
        title=f"{one.finding.title}, {one.second} − {one.first}",
        metric=one.finding.metric,
        estimate=estimate,
        p_value=None if math.isnan(one.test.p_value) else one.test.p_value,
        expected=one.expected,
        says=says,
    )


def _differences_table(compared: Sequence[Compared]) -> StudyTable:
    rows = [
        {
            "finding": one.finding.title,
            "first": one.first,
            "second": one.second,
            "value first": one.value_first,
            "value second": one.value_second,
            "difference": one.test.estimate.value,
            "low": one.test.estimate.low,
            "high": one.test.estimate.high,
            "n": one.test.estimate.n,
            "p": one.test.p_value,
            "p adjusted": one.p_adjusted,
            "clear": "" if math.isnan(one.p_adjusted) else "yes" if one.p_adjusted <= RATE else "no",
            "drawn": math.nan if one.expected is None else one.expected,
            "compared on": one.compared_on or "no seed in common",
            "test": one.test.test,
            "interval": one.test.estimate.note or one.test.estimate.method,
        }
        for one in compared
    ]
    return StudyTable(
        key="differences",
        title="Differences between the arms",
        frame=pd.DataFrame(rows),
        note="Difference: second less first, on the seeds that both have. Where two arms share no seed, each "
        "is resampled on its own, and what depends on the number of pictures is taken at the smaller "
        f"number. p adjusted: Benjamini–Hochberg over all tests of this table; clear: at most {RATE:g}.",
    )


def _arms_table(lines: Mapping[str, Sequence[Finding]], arms: Sequence[ArmReport], seed: int) -> StudyTable:
    rows = []
    for line in lines.values():
        row: dict[str, Any] = {"finding": line[0].title}
        equal = _at_equal_n(line, seed)
        for arm, finding in zip(arms, line, strict=True):
            estimate = finding.estimate
            row |= {
                arm.name: estimate.value,
                f"{arm.name} low": estimate.low,
                f"{arm.name} high": estimate.high,
                f"{arm.name} n": estimate.n,
            }
            row |= {f"{arm.name} at equal n": equal.pop(0)} if equal else {}
        rows.append(row)
    return StudyTable(
        key="by_arm",
        title="Each arm",
        frame=pd.DataFrame(rows),
        note="Every number on all pictures of its arm, with its own interval and n. At equal n: what moves "
        "with the number of pictures, averaged over random parts of the smallest arm's size.",
    )


def _at_equal_n(line: Sequence[Finding], seed: int) -> list[float]:
    """Numbers that depend on n, at the smallest n; nothing where they do not, or all are of one size."""
    samples, sizes = _samples(line), {finding.estimate.n for finding in line}
    if not line[0].depends_on_n or len(sizes) < 2 or len(samples) < len(line):
        return []
    n, rng = min(len(sample.units) for sample in samples), np.random.default_rng(seed)
    return [number_at(sample, np.arange(len(sample.units)), n, rng) for sample in samples]


def _ranks_table(
    lines: Mapping[str, Sequence[Finding]], ranked: Mapping[str, Sequence[Rank]], arms: Sequence[ArmReport]
) -> StudyTable:
    rows = [
        {
            "finding": lines[key][0].title,
            "arm": arm.name,
            "value": rank.value,
            "rank": rank.rank,
            "low": rank.low,
            "high": rank.high,
            "n": rank.n,
        }
        for key, line in ranked.items()
        for arm, rank in zip(arms, line, strict=True)
    ]
    return StudyTable(
        key="ranks",
        title="Ranks of the arms",
        frame=pd.DataFrame(rows),
        note="Rank 1 has the largest number, which need not be the most biased: see what each measure says. "
        "Low and high: ranks in resamples of the pictures.",
    )


def _interval_figures(lines: Mapping[str, Sequence[Finding]], arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """One figure per measure, in the order of the findings."""
    for metric in dict.fromkeys(line[0].metric for line in lines.values()):
        some = [line for line in lines.values() if line[0].metric == metric]
        rows = [
            {
                "name": finding.title,
                "group": arm.name,
                "value": finding.estimate.value,
                "low": finding.estimate.low,
                "high": finding.estimate.high,
            }
            for line in some
            for arm, finding in zip(arms, line, strict=True)
            if not math.isnan(finding.estimate.value)
        ]
        if rows:
            title = some[0][0].title if len(some) == 1 else f"{_common_words(some)} by arm"
            nulls = {finding.estimate.null_value for line in some for finding in line}
            yield StudyFigure(
                key=f"arms-{metric.replace('_', '-')}",
                title=title,
                kind="pairs",
                data=pd.DataFrame(rows),
                labels={"x": title} | ({"null": nulls.pop()} if len(nulls) == 1 else {}),
                caption="Each arm by itself, with its own interval; the table of differences says what is clear.",
            )


def _common_words(lines: Sequence[Sequence[Finding]]) -> str:
    """What the titles of several findings of one measure have in common, such as "P"."""
    ends = {line[0].title.rpartition(": ")[2] for line in lines}
    return ends.pop() if len(ends) == 1 else lines[0][0].metric.replace("_", " ")


def _rank_figure(
    lines: Mapping[str, Sequence[Finding]], ranked: Mapping[str, Sequence[Rank]], arms: Sequence[ArmReport]
) -> Iterator[StudyFigure]:
    rows = [
        {"name": lines[key][0].title, "group": arm.name, "value": rank.rank, "low": rank.low, "high": rank.high}
        for key, line in ranked.items()
        for arm, rank in zip(arms, line, strict=True)
        if not math.isnan(rank.rank)
    ]
    if rows:
        yield StudyFigure(
            key="arms-ranks",
            title="Ranks of the arms",
            kind="pairs",
            data=pd.DataFrame(rows),
            labels={"x": "rank; 1 is the largest number", "whole": True},
            caption="Bars: the ranks that resamples of the pictures give. Where they overlap, the order is "
            "not settled.",
        )


def _notes(
    arms: Sequence[ArmReport],
    by_key: Sequence[Mapping[str, Finding]],
    lines: Mapping[str, Sequence[Finding]],
    sampled: Mapping[str, Sequence[Finding]],
    compared: Sequence[Compared],
) -> Iterator[str]:
    titles = dict.fromkeys(f.title for findings in by_key for f in findings.values() if f.key not in lines)
    if titles:
        yield f"Not found in every arm, and left out of the comparison: {_listed(list(titles))}."
    untested = [line[0].title for key, line in lines.items() if key not in sampled]
    if untested:
        yield f"Shown for each arm, but without a test of the difference: {_listed(untested)}."
    apart = dict.fromkeys(f"“{one.first}” and “{one.second}”" for one in compared if not one.compared_on)
    if apart:
        yield f"{_listed(list(apart))} share no seed: each arm is resampled on its own there."
    yield from _dropped(sampled, arms)
    yield (
        "Every test is of these settings on these seeds. Other wordings, models or readers may differ the other way."
    )
    notes: dict[str, list[str]] = {}
    for arm in arms:
        for note in arm.results.notes:
            notes.setdefault(note, []).append(arm.name)
    for note, names in notes.items():
        yield note if len(names) == len(arms) else f"{', '.join(names)}: {note}"


def _dropped(sampled: Mapping[str, Sequence[Finding]], arms: Sequence[ArmReport]) -> Iterator[str]:
    """How many pictures of arms on shared seeds have no partner."""
    for line in list(sampled.values())[:1]:
        samples = _samples(line)
        for arm, sample, at in zip(arms, samples, places_together(samples), strict=True):
            if len(at) < len(sample.units):
                n = len(sample.units) - len(at)
                yield f"{n:,} pictures of “{arm.name}” have no partner on the same seed in the other arms."


_MOST_LISTED = 3


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _MOST_LISTED:,} more" if len(items) > _MOST_LISTED else ""
    return ", ".join(items[:_MOST_LISTED]) + more
