"""The headline of a report, in a sentence or two, and the verdicts of a validity study.

:func:`headline` takes the sentence of the study's class if it makes one, else makes its own from the numbers.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from bias_core.number_text import format_estimate, format_given, format_number, format_share
from bias_core.study.design import known_study
from bias_core.study.limits import stop_rule
from bias_core.study.report_text import corrected_headline, finding_rows, is_known
from bias_core.study.types import StudyReport
from bias_core.values import option_values

KINDS = "validity_"  # the kinds of these studies begin with it
HEADLINE, AS_PUBLISHED = "headline", "as the paper has it"
NO_PICTURES = "without pictures"  # how the words for what is planted begin where nothing is drawn
CONTRAST = "against the others"  # how the app searches for texts of clusters

ADVICE: Mapping[str, str] = {
    "intervals too narrow": "Trust its value and its order; its interval is surer than it should be.",
    "reads bias where none is planted": "Do not read one value as bias: compare it with a fair condition.",
    "does not follow what is planted": "Do not compare models by it: more bias does not always move it.",
    "inconclusive": "Not shown either way by this many repetitions: run more of them.",
    "intervals wider than need be": "Its interval is on the safe side.",
}
_UNRELATED = ("reads bias where none is planted", "does not follow what is planted")
_NOTHING = "Nothing alone: here it tells neither whether bias was planted nor how much."
_SOUND = "Its value, its interval and its order can be trusted here."
GRADES = ("holds", "remark", "inconclusive", "fails")


def verdicts_headline(report: StudyReport) -> str:
    """Count of the measures that hold, with those that do not; of a search for texts, how often it names them."""
    lines = verdict_lines(report)
    if not lines:
        return _texts_headline(report)
    n = counts_of(lines)
    fails = [line for line in lines if line.grade == "fails"]
    failures = "; ".join(f"{line.measure}: {line.verdict.removeprefix('fails: ')}" for line in fails)
    more = f" Inconclusive with this many repetitions: {n['inconclusive']}." if n["inconclusive"] else ""
    more += f" These fail: {failures}." if failures else ""
    return f"{n['holds'] + n['remark']} of {len(lines)} ways of measuring are shown to tell what was planted.{more}"


def _texts_headline(report: StudyReport) -> str:
    """Share in which the app's search names what is planted, and in which such words come by themselves."""
    shares = {
        one.key: format_share(one.estimate.value, one.estimate.low, one.estimate.high, n=one.estimate.n)
        for one in report.results.findings
    }
    planted, none = (shares.get(f"{CONTRAST} {is_planted}") for is_planted in (True, False))
    if planted is None:
        return "No planted attribute is in enough pictures, and lacking in enough, for clusters that share it."
    return (
        f"Of clusters that share a planted attribute, one of the three best texts names it in {planted}; of clusters "
        f"without one such a word comes up in {none}."
    )


class VerdictLine(NamedTuple):
    """One measure of a report; of a share ``value, low, high, n``, None where there is none."""

    measure: str
    planted: str
    verdict: str  # in the words of the rule
    grade: str  # ``holds``, ``remark``, ``inconclusive`` or ``fails``
    kind: str  # whether headlines show it, or it is as its paper has it
    advice: str  # what the measure can be trusted for
    coverage: Mapping[str, Any] | None
    alarms: Mapping[str, Any] | None
    seeds: str  # of its pictures, in words
    means: str  # the measure where nothing, some and all is planted, as text


def verdict_lines(report: StudyReport) -> list[VerdictLine]:
    """The verdicts of a validity study with their shares; none of a search for texts, which has no intervals."""
    shares: dict[str, dict[str, Any]] = {
        figure.key: {str(row["name"]): row for row in figure.data.to_dict("records")}
        for figure in report.results.figures
        if {"name", "value", "low", "high", "n"} <= set(figure.data)
    }
    lines = []
    for row in report.results.frame("verdicts").to_dict("records"):
        measure, planted, verdict = (str(row[column]) for column in ("measure", "what is planted", "verdict"))
        name = f"{measure}, {planted}" if planted else measure
        middle = [] if row["mean, some planted"] == "–" else str(row["mean, some planted"]).split(", ")
        trust = " ".join(says for words, says in ADVICE.items() if words in verdict) or _SOUND
        lines.append(
            VerdictLine(
                measure=measure,
                planted=planted,
                verdict=verdict,
                grade=_grade(verdict),
                kind=str(row["kind"]),
                advice=_NOTHING if all(words in verdict for words in _UNRELATED) else trust,
                coverage=shares.get("coverage", {}).get(name),
                alarms=shares.get("alarms", {}).get(name),
                seeds=seeds_of(report, planted),
                means=" → ".join((str(row["mean, nothing planted"]), *middle, str(row["mean, all planted"]))),
            )
        )
    return lines


def _grade(verdict: str) -> str:
    first = verdict.partition(":")[0]
    return first if first in GRADES else "remark" if "(" in verdict else "holds"


def seeds_of(report: StudyReport, planted: str) -> str:
    """The seeds that the repetitions were spread over, in words; "" where none was drawn as a picture."""
    if planted.startswith(NO_PICTURES):
        return ""
    first, n = report.settings.seed, int(option_values(report.settings.options).get("seeds", 1))
    return f"on seed {first}" if n == 1 else f"on seeds {first} to {first + n - 1}"


def counts_of(lines: Sequence[VerdictLine]) -> dict[str, int]:
    """The number of lines of each grade."""
    return {grade: sum(line.grade == grade for line in lines) for grade in GRADES}


AGAINST_P_STAR = {"attribute_prevalence", "signed_difference", "stereotype_score"}
"""Measures that are compared with a P*: only a study that knows where it comes from makes a headline of them."""

_HANG_ON_P_STAR = AGAINST_P_STAR - {"attribute_prevalence"}  # a difference of shares is compared with 0


def headline(report: StudyReport) -> str:
    """The headline, a sentence or two; if the run was stopped while it was measured, also how far it came."""
    text = corrected_headline(report) or _of_all(report)
    return f"{text} Stopped after {report.stopped_after}." if report.stopped_after else text


def _of_all(report: StudyReport) -> str:
    if report.design.kind.startswith(KINDS):
        return verdicts_headline(report)
    study = known_study(report.design)
    if report.arms:
        own = "" if study is None else study.arms_headline(report)
        return own or differences_headline(report, report.results.frame("differences"))
    return ("" if study is None else study.headline(report)) or numbers_headline(report)


def numbers_headline(report: StudyReport) -> str:
    """The number of findings that exclude their null value, and the clearest of them."""
    rows = [
        row
        for row, finding in zip(finding_rows(report), report.results.findings, strict=True)
        if finding.metric not in AGAINST_P_STAR and all(map(is_known, (row["low"], row["high"], row["null_value"])))
    ]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show what was found."
    away = [row for row in rows if not row["low"] <= row["null_value"] <= row["high"]]
    if not away:
        which = "The number is" if len(rows) == 1 else f"All {len(rows)} numbers are"
        return f"{which} compatible with “no bias”: no departure is shown, none is ruled out."
    lead = max(away, key=_clearance)
    if len(rows) == 1:
        return _spoken(lead)
    verb = "departs" if len(away) == 1 else "depart"
    return f"{len(away)} of {len(rows)} numbers {verb} clearly from “no bias”. Clearest: {_spoken(lead)}"


def _spoken(row: dict[str, Any]) -> str:
    number = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    null = format_given(row["null_value"])
    return f"{row['finding']}, {number}, where {null} would be no bias. {row['says']}".strip()


def _clearance(row: dict[str, Any]) -> float:
    """The distance of the null value from the interval, in widths of the interval."""
    outside = max(row["low"] - row["null_value"], row["null_value"] - row["high"])
    return outside / width if (width := row["high"] - row["low"]) else math.inf


def differences_headline(report: StudyReport, frame: pd.DataFrame) -> str:
    """The result of a comparison, by the rows of its table of differences that were tested."""
    tested = frame[frame["p adjusted"].notna()] if len(frame) else frame
    if stop_rule(report.settings) is not None and len(frame):
        return _summary_of_intervals(frame[frame["low"].notna()], _AT_ANY_TIME)
    if tested.empty and len(frame) and frame["low"].notna().any():
        return _summary_of_intervals(frame[frame["low"].notna()], "No p-value is claimed.")
    if tested.empty:
        return "Nothing could be tested on these pictures; the tables show what was measured."
    clear = tested[tested["clear"] == "yes"]
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


_AT_ANY_TIME = "No p-value is claimed where a stop rule looks at the pictures; these intervals hold at any time."


def _summary_of_intervals(frame: pd.DataFrame, how: str) -> str:
    """The result by the intervals alone, where no p-value is claimed; ``how`` says why."""
    clear = frame[(frame["low"] > 0) | (frame["high"] < 0)]
    if clear.empty:
        return f"No interval of the {len(frame)} differences leaves out 0. {how}"
    count = f"{len(clear)} of {len(frame)} intervals of differences leave out 0. {how}"
    if "measure" in clear and (clear := clear[~clear["measure"].isin(_HANG_ON_P_STAR)]).empty:
        return count
    alike = clear[clear["measure"] == clear["measure"].iloc[0]] if "measure" in clear else clear  # on one scale
    row = alike.iloc[int(alike["difference"].abs().to_numpy().argmax())]
    estimate = format_estimate(row["difference"], row["low"], row["high"])
    text = f"{row['finding']}, “{row['second']}” less “{row['first']}”: {estimate}, n = {row['n']} of each. "
    return f"{text[:1].upper()}{text[1:]}{count}"
