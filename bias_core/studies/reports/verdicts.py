"""The report of a study that checks the measures against planted truth: its verdicts, a line each, and its headline.

Such studies are run at a release (``validation/``); the app shows their reports.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bias_core.number_text import format_share
from bias_core.studies.kit.setting_fields import option_values
from bias_core.studies.kit.types import StudyReport

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


def headline(report: StudyReport) -> str:
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
    """How many lines have each grade."""
    return {grade: sum(line.grade == grade for line in lines) for grade in GRADES}
