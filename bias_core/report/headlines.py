"""The headline of a report in one or two sentences, and the verdicts of a validity study.

:func:`headline` returns the sentence of the study's class if it has one, else one made from the numbers.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from bias_core.measures.cards import METRICS
from bias_core.report.claims import SAME_TEST, WHY_NOT
from bias_core.report.report_text import VALIDITY, corrected_headline, finding_rows, is_known
from bias_core.study.answer_files import NOT_COUNTED
from bias_core.study.classifiers import TOO_LONG
from bias_core.study.design import known_study
from bias_core.study.judge_answers import often_in_doubt
from bias_core.values import option_values
from bias_core.wording import format_estimate, format_given, format_number, format_rate, format_share, state_p

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from bias_core.study.types import StudyReport

HEADLINE, AS_PUBLISHED = "headline", "as in the paper"
COUNTED, FALSE_CLAIMS = "headlines", 0.05
"""Key of the table of counted headlines, and the accepted share of those that claim something without planted bias."""
NOT_AS_EXPECTED = "other than 5 %"  # column of that table
NO_PICTURES = "without pictures"  # prefix of "what is planted" if nothing is drawn
CONTRAST = "as in the app"  # the way in which texts for clusters are searched
ONE, TWO, NATURAL, RANDOM = "one attribute", "two attributes", "natural", "at random"  # kinds of clusters

ADVICE: Mapping[str, str] = {
    "intervals too narrow": "Trust its value and its ranking; its interval is too narrow.",
    "finds bias where none is planted": "One value alone does not show bias: compare it with a fair condition.",
    "does not follow what is planted": "Do not compare models by it: more bias does not always change it.",
    "inconclusive": "Not settled by this many repetitions: run more.",
    "intervals wider than necessary": "Its interval is on the safe side.",
}
_UNRELATED = ("finds bias where none is planted", "does not follow what is planted")
_NOTHING = "Do not use it alone: here it showed neither whether bias was planted nor how much."
_SOUND = "Its value, interval and ranking can be trusted here."
GRADES = ("holds", "remark", "inconclusive", "fails")


def verdicts_headline(report: StudyReport) -> str:
    """Return how many measures hold and which fail; for a search for texts, how often it names the attribute."""
    lines = verdict_lines(report)
    if not lines:
        counted = report.results.frame(COUNTED)
        return _counted_headline(counted) if len(counted) else _texts_headline(report)
    headline_lines = [line for line in lines if line.kind == HEADLINE]
    other_lines = [line for line in lines if line.kind != HEADLINE]
    parts = (
        (headline_lines, "measures that headlines use" if other_lines else "measures"),
        (other_lines, "measures as in the papers"),
    )
    return " ".join(_recovered(part_lines, measures) for part_lines, measures in parts if part_lines)


def _recovered(lines: Sequence[VerdictLine], measures: str) -> str:
    n = count_grades(lines)
    fails = [line for line in lines if line.grade == "fails"]
    failures = "; ".join(f"{line.measure}: {line.verdict.removeprefix('fails: ')}" for line in fails)
    details = f" Inconclusive with this many repetitions: {n['inconclusive']}." if n["inconclusive"] else ""
    details += f" These fail: {failures}." if failures else ""
    return f"{n['holds'] + n['remark']} of {len(lines)} {measures} recover the bias that was planted.{details}"


def _counted_headline(counted: pd.DataFrame) -> str:
    """Say how often headlines claim something where nothing is planted, and which do so too often."""
    fair = counted[counted["fair: runs"] > 0]
    n, n_claims = int(fair["fair: runs"].sum()), round(float((fair["fair: claims"] * fair["fair: runs"]).sum()))
    n_false = int(fair["false claims"].sum())
    often = fair[(fair[NOT_AS_EXPECTED] == "yes") & (fair["false claims"] > FALSE_CLAIMS * fair["fair: runs"])]
    frequent_studies = ", ".join(f"{row['study']} ({row['size']})" for row in often.to_dict("records"))
    n_clear, n_wrong = int(counted["clear numbers"].sum()), int(counted["with the wrong sign"].sum())
    says = f"Where nothing is planted, {n_claims:,} of {n:,} headlines claim something ({format_rate(n_claims / n)})"
    if n_false < n_claims:
        says += f", of which {n_claims - n_false:,} are true of the model, which is fair only nearly"
    min_runs, max_runs = int(fair["fair: runs"].min()), int(fair["fair: runs"].max())
    of_each = f"{min_runs:,}{f' to {max_runs:,}' * (min_runs < max_runs)} runs of each study and size"
    signs = f" Where bias is planted, {n_wrong:,} of {n_clear:,} clear numbers have the wrong sign." * (n_clear > 0)
    end = (
        f"too often: {frequent_studies}"
        if frequent_studies
        else f"no study’s headline does so clearly more often than {format_rate(FALSE_CLAIMS)}"
    )
    return f"{says}; {end} ({of_each}).{signs}"


def _texts_headline(report: StudyReport) -> str:
    shares = {
        finding.key: format_share(
            finding.estimate.value, finding.estimate.low, finding.estimate.high, n=finding.estimate.n
        )
        for finding in report.results.findings
    }
    says = (
        (ONE, "names the attribute that a cluster shares in"),
        (TWO, "one of two in clusters of two attributes in"),
        (NATURAL, "one of those that tell a cluster apart as it is found in"),
        (RANDOM, "and is called specific to a half at random in"),
    )
    named = [f"{phrase} {shares[f'{CONTRAST} {kind}']}" for kind, phrase in says if f"{CONTRAST} {kind}" in shares]
    return f"The text that the headline shows {'; '.join(named)}." if named else "No cluster could be formed."


class VerdictLine(NamedTuple):
    """One measure of a validity report; its shares are ``value, low, high, n``, or None if there is none."""

    measure: str
    planted: str
    verdict: str  # in the words of the rule
    grade: str  # ``holds``, ``remark``, ``inconclusive`` or ``fails``
    kind: str  # :data:`HEADLINE` if headlines show it, :data:`AS_PUBLISHED` if it follows its paper
    advice: str  # use that can be made of the measure
    coverage: Mapping[str, Any] | None
    alarms: Mapping[str, Any] | None
    seeds: str  # seeds of its pictures, in words
    means: str  # mean of the measure with no, some and all bias planted, as text


def verdict_lines(report: StudyReport) -> list[VerdictLine]:
    """Return the verdicts of a validity study with their shares; [] for a search for texts, which has no intervals."""
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
                seeds=format_seeds(report, planted),
                means=" → ".join((str(row["mean, nothing planted"]), *middle, str(row["mean, all planted"]))),
            )
        )
    return lines


def _grade(verdict: str) -> str:
    first = verdict.partition(":")[0]
    return first if first in GRADES else "remark" if "(" in verdict else "holds"


def format_seeds(report: StudyReport, planted: str) -> str:
    """Return the seeds of the repetitions in words; "" if no picture was drawn."""
    if planted.startswith(NO_PICTURES):
        return ""
    first, n = report.settings.seed, int(option_values(report.settings.options).get("seeds", 1))
    return f"on seed {first}" if n == 1 else f"on seeds {first} to {first + n - 1}"


def count_grades(lines: Sequence[VerdictLine]) -> dict[str, int]:
    return {grade: sum(line.grade == grade for line in lines) for grade in GRADES}


def headline(report: StudyReport) -> str:
    """Return the headline in one or two sentences; if the run was stopped while measuring, also how far it got."""
    study = known_study(report.design)
    corrected = "" if study is None else study.corrected_headline(report)
    text = (
        corrected
        or corrected_headline(report)
        or _forced_headline(report)
        or _choose_headline(report) + often_in_doubt(report)
    )
    text += _remarks(report)
    return f"{text} Stopped after {report.stopped_after}." if report.stopped_after else text


ASKS_FOR_SEVERAL = "The prompt asks for several people, and the classifier answers for the whole picture."
"""Note on a prompt with several people, which a headline repeats."""


def _remarks(report: StudyReport) -> str:
    """Say that a model did not read all of a prompt, that it asks for several people, or that answers do not count."""
    notes = report.results.notes
    cut = [note for note in notes if TOO_LONG in note and "prompt" in note.partition(TOO_LONG)[0]]
    said = [re.sub(r" [(][^()]*[)]", "", note) for note in cut[:1]] + [ASKS_FOR_SEVERAL] * (ASKS_FOR_SEVERAL in notes)
    return "".join(f" {sentence}" for sentence in [*said, *_answers_left_out(notes)])


_LEFT_OUT = re.compile(rf"([\d,]+) of ([\d,]+ answers in .+?) {NOT_COUNTED} (.+?) [(].*[)][.]", re.DOTALL)


def _answers_left_out(notes: Sequence[str]) -> Iterator[str]:
    """Yield for each file of answers how many do not count, for several reasons with the number of each."""
    reasons = defaultdict[str, list[tuple[int, str]]](list)
    for match in filter(None, map(_LEFT_OUT.fullmatch, dict.fromkeys(notes))):
        reasons[match[2]].append((int(match[1].replace(",", "")), match[3]))
    for of_file, file_reasons in reasons.items():
        details = "; ".join(f"{reason} ({n:,})" for n, reason in file_reasons)
        suffix = f": {details}" if len(file_reasons) > 1 else ""
        yield f"{sum(n for n, _ in file_reasons):,} of {of_file} {NOT_COUNTED[:-1]}{suffix}."


def _forced_headline(report: StudyReport) -> str:
    """Return that a run has no finding if its classifier was not made for its pictures; "" for other runs."""
    says = "Forced: the classifier is not made for these pictures, so its numbers are no finding."
    return says if report.warning else ""


def _choose_headline(report: StudyReport) -> str:
    if report.design.kind.startswith(VALIDITY):
        return verdicts_headline(report)
    study = known_study(report.design)
    if report.arms:
        study_headline = "" if study is None else study.arms_headline(report)
        return study_headline or differences_headline(report.results.frame("differences"))
    return ("" if study is None else study.headline(report)) or numbers_headline(report)


def numbers_headline(report: StudyReport) -> str:
    """Return how many findings are clear, and the clearest of them."""
    rows = [
        (row, finding.claim)
        for row, finding in zip(finding_rows(report), report.results.findings, strict=True)
        if finding.claim is not None and finding.claim.n_tests and not finding.claim_of
    ]
    if not rows:
        return f"{report.n_images:,} pictures were measured; the figures and tables show the results."
    clear = [row for row, claim in rows if claim.is_clear]
    if not clear:
        subject = "The number is" if len(rows) == 1 else f"All {len(rows)} numbers are"
        return f"{subject} compatible with “no bias”, which does not rule bias out."
    lead = max(clear, key=clearance)
    if len(rows) == 1:
        return _spoken(lead)
    verb = "differs" if len(clear) == 1 else "differ"
    return f"{len(clear)} of {len(rows)} numbers {verb} clearly from “no bias”. The clearest: {_spoken(lead)}"


def _spoken(row: dict[str, Any]) -> str:
    number = format_estimate(row["value"], row["low"], row["high"], n=row["n"])
    null = format_given(row["null_value"])
    return f"{row['finding']} is {number}, n = {row['n']:,}, where {null} means no bias. {row['says']}".strip()


def clearance(row: Mapping[str, Any]) -> float:
    """Return the distance of the null value from the interval, in widths of the interval; -inf if one is unknown."""
    low, high, null = row["low"], row["high"], row["null_value"]
    if not all(map(is_known, (low, high, null))):
        return -math.inf
    outside = max(low - null, null - high)
    return outside / width if (width := high - low) else math.inf if outside else -math.inf


def differences_headline(frame: pd.DataFrame) -> str:
    """Return the result of a comparison from the tested rows of its table of differences.

    The largest of the clear differences is named, of the measure with the smallest adjusted p, for only those are on
    one scale. Numbers that restate a share count once.
    """
    tested = frame[frame["p adjusted"].notna() & (frame[SAME_TEST] == "")] if len(frame) else frame
    if tested.empty:
        return "No difference could be tested on these pictures; the tables show the numbers."
    clear = tested[tested["clear"] == "yes"]
    rows = tested if clear.empty else clear
    alike = rows[rows["measure"] == rows.sort_values("p adjusted", kind="stable")["measure"].iloc[0]]
    row = alike.iloc[int(alike["difference"].abs().to_numpy().argmax())]
    ends = row["low"], row["high"]
    measure = METRICS[row["measure"]].name
    symbol = measure.rpartition(" ")[2]
    subject = row["finding"] if symbol in row["finding"] else f"{row['finding']} ({measure[:1].lower()}{measure[1:]})"
    text = (
        f"{subject} is {format_number(row['value first'], *ends)} in “{row['first']}” and "
        f"{format_number(row['value second'], *ends)} in “{row['second']}”: a difference of "
        f"{format_estimate(row['difference'], *ends)}, n = {row['n']:,}"
    )
    text += f", {row['compared on']}" if row.get("compared on") else ""
    text = text[:1].upper() + text[1:]
    if clear.empty:
        reason = f"; {row[WHY_NOT]}" if row[WHY_NOT] else ""
        in_tests, largest = (f" in {len(tested)} tests", "Largest: ") if len(tested) > 1 else ("", "")
        return f"No clear difference between the arms{in_tests}. {largest}{text}{reason}."
    verb = "is" if len(clear) == 1 else "are"
    count = f" {len(clear)} of {len(tested)} differences {verb} clear." if len(tested) > 1 else ""
    return f"{text}, {state_p(row['p adjusted'], adjusted=len(tested) > 1)}.{count}"
