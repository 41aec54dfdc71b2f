"""The results of several arms side by side."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.effects import benjamini_hochberg
from bias_core.measures.intervals import percent
from bias_core.measures.paired_prevalence import PairedTest, corrected_difference
from bias_core.measures.sequential import SEQUENCE, confidence_sequence, difference_sequence
from bias_core.number_text import format_number, format_p
from bias_core.study.arm_statistics import (
    ROUNDING,
    Floats,
    Places,
    Values,
    difference,
    nothing,
    number_at,
    numbers_together,
    places_together,
    ranks_of,
)
from bias_core.study.limits import stop_rule
from bias_core.study.study import Study
from bias_core.study.types import (
    ArmReport,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    figure,
    listed,
    or_nan,
    table,
)
from bias_core.types import Estimate

_NO_FIXED_N = "no interval: the number of pictures followed from what they show"


def difference_at_any_time(
    first: Sample, second: Sample, *, confidence: float = 0.95
) -> tuple[PairedTest, float, float, bool]:
    """The difference of a number in two arms, with the number of each, and whether their units are shared.

    As :func:`bias_core.study.arm_statistics.difference` where the number of pictures was fixed beforehand.

    Returns
    -------
    test : value and interval, of shares and other means of values within 1 of each other; the value alone for other
        numbers. p is nan.
    """
    sides = (first, second)
    paired, places = not set(first.units).isdisjoint(second.units), places_together(sides)
    if (least := min(map(len, places))) < 1:
        return nothing(least, "the arms share no picture that can be compared"), math.nan, math.nan, paired
    numbers = [float(side.statistic(at)) for side, at in zip(sides, places, strict=True)]
    return _at_any_time(sides, places, numbers, paired, confidence), numbers[0], numbers[1], paired


def _at_any_time(
    sides: Sequence[Sample], places: Sequence[Places], numbers: Sequence[float], paired: bool, confidence: float
) -> PairedTest:
    """A difference of two means of values that lie within 1 of each other; of other numbers the value alone."""
    n, held = min(map(len, places)), [side.data for side in sides]
    value, x_y = numbers[1] - numbers[0], list[Floats]()
    for data, at in zip(held, places, strict=True):
        if isinstance(data, Values) and data.reference is None:
            x_y.append(data.each[at])
    lowest = min((float(each.min()) for each in x_y), default=0.0)
    x_y = [each - lowest for each in x_y]
    if len(x_y) < 2 or max(float(each.max()) for each in x_y) > 1 + ROUNDING:
        return nothing(n, _NO_FIXED_N, value)
    x, y = (np.clip(each, 0.0, 1.0) for each in x_y)
    if paired:
        gap = difference_sequence(x, y, confidence=confidence)
    else:  # both intervals hold together with this confidence
        each = [confidence_sequence(float(v.sum()), len(v), confidence=(1 + confidence) / 2) for v in (x, y)]
        method = f"{SEQUENCE} {percent(confidence)}, of both arms apart"
        low, high = each[1].low - each[0].high, each[1].high - each[0].low
        gap = Estimate(value=each[1].value - each[0].value, low=low, high=high, n=n, null_value=0.0, method=method)
    errors = held[0].errors
    if errors is not None and errors == held[1].errors:
        gap = corrected_difference(gap, errors, confidence=confidence)
    return PairedTest(estimate=gap, p_value=math.nan, test="")


Lines = Mapping[str, Sequence[Finding]]  # by its key, a finding of every arm
RATE = 0.05  # accepted share of false discoveries among the differences that are called clear
MOST_IN_PAIRS = 4  # arms of which every pair is compared; more are compared with the first
_OPENING = 24  # letters before its first quoted name by which a note is known as another's, said of other things
_NO_SEED = "no seed in common"
_WITHIN = "shares of attributes, and by themselves over all further numbers, which only explore"
_UNDER_A_RULE = (
    "How many pictures the arms have was not fixed beforehand: a stop rule watched them, or somebody stopped them. "
    "Differences are of the seeds that both arms have. Those of shares have intervals that hold at any time, one by "
    "one and uncorrected for their number, and no p-value; of differences of other numbers no interval is claimed."
)


def compare_arms(study: Study, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """What differs between the arms, for every study alike, and the paper's own comparison beside it."""
    by_key = [{finding.key: finding for finding in arm.results.findings} for arm in arms]
    keys = [key for key in by_key[0] if all(key in findings for findings in by_key)]
    lines = {key: [findings[key] for findings in by_key] for key in keys}
    sampled = {key: line for key, line in lines.items() if len(_samples(line)) == len(line)}
    asked = {key for key, line in lines.items() if study.share_of(line[0])}
    differences, findings = _differences(sampled, asked, arms, settings)
    ranked = _ranked(sampled.values(), arms, settings)
    own = study.compare(settings, arms)
    ranks_table = table(
        "ranks",
        "Ranks of the arms",
        ranked,
        "Rank 1 has the largest number, which need not be the most biased: see what each measure says. "
        "Low and high: ranks in resamples of the pictures. There are none where an arm has fewer than two pictures "
        "that can be compared.",
    )
    differences_table = table(
        "differences",
        "Differences between the arms",
        differences,
        "Difference: second less first, on the seeds that both have. Where two arms share no seed, each "
        "is resampled on its own, and what depends on the number of pictures is taken at the smaller "
        f"number. p adjusted: Benjamini–Hochberg over all {_WITHIN if asked else 'tests of this table'}; clear: at "
        f"most {RATE:g}.",
    )
    common = [arms_table(lines, arms, settings.seed), *([ranks_table] if len(ranked) else [])]
    watched = [] if stop_rule(settings) is None else [_UNDER_A_RULE]
    missing = dict.fromkeys(f.title for of_arm in by_key for f in of_arm.values() if f.key not in lines)
    return Results(
        findings=(*findings, *own.findings),
        tables=(*common, *own.tables, differences_table),
        figures=(*own.figures, *drawable([*interval_figures(lines, arms), _rank_figure(ranked)])),
        notes=(*own.notes, *watched, *_notes(arms, list(missing), lines, sampled, differences)),
    )


def _samples(line: Sequence[Finding]) -> list[Sample]:
    return [finding.sample for finding in line if finding.sample is not None]


def _differences(
    lines: Lines, asked: Set[str], arms: Sequence[ArmReport], settings: StudySettings
) -> tuple[pd.DataFrame, list[Finding]]:
    """Every number in every pair of arms: the rows of the table, and a finding for each.

    The shares that were asked for are one family of tests, all others another: many further numbers hide no share.
    """
    places = list(combinations(range(len(arms)), 2))
    places = places if len(arms) <= MOST_IN_PAIRS else [(i, j) for i, j in places if i == 0]
    compared = [
        (line[i], *_compare((line[i], line[j]), (arms[i].name, arms[j].name), settings))
        for line in lines.values()
        for i, j in places
    ]
    for are_asked in (True, False):
        tested = [row for one, _, row in compared if (one.key in asked) == are_asked and not math.isnan(row["p"])]
        adjusted = benjamini_hochberg([row["p"] for row in tested]) if tested else ()
        for row, p_value in zip(tested, adjusted, strict=True):
            row |= {"p adjusted": float(p_value), "clear": "yes" if p_value <= RATE else "no"}
    return pd.DataFrame([row for *_, row in compared]), [_finding(*one) for one in compared]


def _compare(
    pair: tuple[Finding, Finding], names: tuple[str, str], settings: StudySettings
) -> tuple[PairedTest, dict[str, Any]]:
    """The test of a number in two arms, and its row of the table, before any correction."""
    (one, other), samples = pair, _samples(pair)
    if stop_rule(settings) is not None:
        test, value_first, value_second, paired = difference_at_any_time(*samples, confidence=settings.confidence)
    else:
        test, value_first, value_second, paired = difference(
            *samples, depends_on_n=one.depends_on_n, confidence=settings.confidence, seed=settings.seed
        )
    estimate, drawn = test.estimate, or_nan(other.expected) - or_nan(one.expected)
    of_these = one.estimate.n == other.estimate.n == estimate.n  # what was drawn is of the very pictures compared
    return test, {
        "finding": one.title,
        "first": names[0],
        "second": names[1],
        "value first": value_first,
        "value second": value_second,
        **columns("difference", estimate, ends=""),
        "n": estimate.n,
        "p": test.p_value,
        "p adjusted": math.nan,
        "clear": "",
        "drawn": drawn if of_these else math.nan,
        "compared on": f"same {samples[0].of}" if paired else _NO_SEED,
        "test": test.test,
        "interval": estimate.note or estimate.method,
    }


def _finding(of: Finding, test: PairedTest, row: Mapping[str, Any]) -> Finding:
    estimate, first, second = test.estimate, row["first"], row["second"]
    ends = estimate.low, estimate.high
    says = f"{format_number(row['value first'], *ends)} in “{first}”, "
    says += f"{format_number(row['value second'], *ends)} in “{second}”"
    says += "; the two share no seed." if row["compared on"] == _NO_SEED else "."
    if not math.isnan(row["p adjusted"]):
        says += f" Adjusted p {format_p(row['p adjusted'])} ({test.test})."
    if not math.isnan(estimate.value) and estimate.note:
        says, estimate = f"{says} {estimate.note.capitalize()}.", replace(estimate, note="")
    return Finding(
        key=f"{of.key}: {second} - {first}",
        title=f"{of.title}, {second} − {first}",
        metric=of.metric,
        estimate=estimate,
        p_value=None if math.isnan(test.p_value) else test.p_value,
        expected=None if math.isnan(row["drawn"]) else row["drawn"],
        says=says,
    )


def arms_table(lines: Lines, arms: Sequence[ArmReport], seed: int) -> StudyTable:
    """Every number of every arm."""
    rows = []
    for line in lines.values():
        row: dict[str, Any] = {"finding": line[0].title}
        equal = _at_equal_n(line, seed)
        for arm, finding in zip(arms, line, strict=True):
            row |= columns(arm.name, finding.estimate) | {f"{arm.name} n": finding.estimate.n}
            row |= {f"{arm.name} at equal n": equal.pop(0)} if equal else {}
        rows.append(row)
    return table(
        "by_arm",
        "Each arm",
        rows,
        "Every number on all pictures of its arm, with its own interval and n. At equal n: what moves "
        "with the number of pictures, averaged over random parts of the smallest arm's size.",
    )


def _at_equal_n(line: Sequence[Finding], seed: int) -> list[float]:
    """Numbers that depend on n, at the smallest n; nothing where they do not, or all are of one size."""
    samples, sizes = _samples(line), {finding.estimate.n for finding in line}
    if not line[0].depends_on_n or len(sizes) < 2 or len(samples) < len(line):
        return []
    n, rng = min(len(sample.units) for sample in samples), np.random.default_rng(seed)
    return [number_at(sample, np.arange(len(sample.units)), n, rng) for sample in samples]


def _ranked(lines: Iterable[Sequence[Finding]], arms: Sequence[ArmReport], settings: StudySettings) -> pd.DataFrame:
    return pd.DataFrame(
        {"finding": line[0].title, "arm": arm.name, **asdict(rank)}
        for line in lines
        for numbers in [numbers_together(_samples(line), depends_on_n=line[0].depends_on_n, seed=settings.seed)]
        for arm, rank in zip(arms, ranks_of(numbers, confidence=settings.confidence), strict=True)
    )


def interval_figures(lines: Lines, arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """A figure for each measure: its numbers in every arm."""
    for metric in dict.fromkeys(line[0].metric for line in lines.values()):
        some = [line for line in lines.values() if line[0].metric == metric]
        ends = {line[0].title.rpartition(": ")[2] for line in some}  # what the titles have in common, such as "P"
        title = f"{ends.pop() if len(ends) == 1 else metric.replace('_', ' ')} by arm"
        title = some[0][0].title if len(some) == 1 else title
        nulls = {finding.estimate.null_value for line in some for finding in line}
        marks = (
            {"name": finding.title, "group": arm.name, **columns("value", finding.estimate, ends="")}
            for line in some
            for arm, finding in zip(arms, line, strict=True)
            if not math.isnan(finding.estimate.value)
        )
        caption = "Each arm by itself, with its own interval; the table of differences says what is clear."
        axes = {"x": title} | ({"null": nulls.pop()} if len(nulls) == 1 else {})
        yield figure("pairs", f"arms-{metric.replace('_', '-')}", title, marks, caption, **axes)


def _rank_figure(ranked: pd.DataFrame) -> StudyFigure:
    column_names = ["finding", "arm", "rank", "low", "high"]
    marks = ranked[column_names].dropna(subset="rank", ignore_index=True) if len(ranked) else ranked
    marks = marks.rename(columns={"finding": "name", "arm": "group", "rank": "value"})
    caption = "Bars: the ranks that resamples of the pictures give. Where they overlap, the order is not settled."
    axes = {"x": "rank; 1 is the largest number", "whole": True}
    return figure("pairs", "arms-ranks", "Ranks of the arms", marks, caption, **axes)


def _notes(
    arms: Sequence[ArmReport], missing: Sequence[str], lines: Lines, sampled: Lines, differences: pd.DataFrame
) -> Iterator[str]:
    if missing:
        yield f"Not found in every arm, and left out of the comparison: {listed(missing)}."
    if untested := [line[0].title for key, line in lines.items() if key not in sampled]:
        yield f"Shown for each arm, but without a test of the difference: {listed(untested)}."
    apart = differences[differences["compared on"] == _NO_SEED] if len(differences) else differences
    if len(apart):
        pairs = dict.fromkeys(f"“{row.first}” and “{row.second}”" for row in apart.itertuples())
        yield f"{listed(list(pairs))} share no seed: each arm is resampled on its own there."
    for line in list(sampled.values())[:1]:
        samples = _samples(line)
        for arm, sample, at in zip(arms, samples, places_together(samples), strict=True):
            if n := len(sample.units) - len(at):
                yield f"{n:,} pictures of “{arm.name}” have no partner on the same seed in the other arms."
    yield (
        "Every test is of these settings on these seeds. Other wordings, models or readers may differ the other way."
    )
    yield from together_in_words({arm.name: arm.results.notes for arm in arms})


def together_in_words(notes_by_arm: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The notes of all arms, each thing once: what is said of some arms names them.

    >>> list(together_in_words({"a": ["Same.", "Few."], "b": ["Same."]}))
    ['Same.', 'a: Few.']
    >>> few = "Small cells: fewer than 5 pictures are to be expected in “{}”."
    >>> list(together_in_words({"a": [few.format("woman × old")], "b": [few.format("old × glasses")]}))
    ['Small cells: fewer than 5 pictures are to be expected in “woman × old” (a); “old × glasses” (b).']
    """
    names_by_note: dict[str, list[str]] = {}
    for name, notes in notes_by_arm.items():
        for note in notes:
            names_by_note.setdefault(note, []).append(name)
    in_part = {note: names for note, names in names_by_note.items() if len(names) < len(notes_by_arm)}
    begun = set[str]()
    for note, names in names_by_note.items():
        opening = note.partition("“")[0]
        alike = [one for one in in_part if note in in_part and len(opening) >= _OPENING and one.startswith(opening)]
        if len(alike) < 2:
            yield f"{', '.join(names)}: {note}" if note in in_part else note
        elif opening not in begun:
            begun.add(opening)
            rests = (f"{one.removeprefix(opening).rstrip('.')} ({', '.join(in_part[one])})" for one in alike)
            yield f"{opening}{'; '.join(rests)}."
