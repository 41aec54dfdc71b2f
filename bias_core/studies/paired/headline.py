"""What stands out of the paired test: what pictures of two show, how sure that is, and what changes it."""

import math

from bias_core.annotation.tasks import SINGLE
from bias_core.metrics.paired_labels import NOT_TWO_PEOPLE
from bias_core.number_text import format_change
from bias_core.studies.kit.types import Finding, StudyReport
from bias_core.studies.paired.labelling import RATERS_SPLIT
from bias_core.studies.reports.text import table_of
from bias_core.types import Estimate

_FIRST = ("paired_overall", "plain_occupation", "plain_power", "paired")
FURTHER = "further-"
"""How the keys begin of findings on what else is seen of people."""
_THEN = ("difference_occupation", "difference_power", "difference", "gap_overall", "gap")


def headline(report: StudyReport) -> str:
    """What pictures of two show, which way that leans, how sure that is, and what changes it."""
    findings = {finding.key: finding for finding in report.results.findings}
    first = next((findings[key] for key in _FIRST if key in findings), None)
    if first is None or math.isnan(first.estimate.value):
        return f"Nobody could be scored: {_why_not(report)}."
    score, conform = first.estimate, (first.estimate.value + 100) / 2
    side = "leans with the stereotypes." if score.value > 0 else "leans against the stereotypes."
    lean = side if is_clear(score) else "is no clear lean either way: the interval includes 0."
    numbers = (
        f"stereotype test score {format_change(score.value, score.low, score.high, n=score.n)}, "
        f"{report.settings.confidence:.0%} interval, {score.n:,} pictures"
    )
    then = next((findings[key] for key in _THEN if key in findings), None)
    more = _change(then) + seen_headline(report)
    if ("neither side" in first.says) and not math.isnan(score.value):
        return (
            f"In pictures of two, where people may also look androgynous and then count for neither side: {numbers}. "
            f"That {lean}{more}"
        )
    return (
        f"In pictures of two, {conform:.0f} % of the people look as the stereotype of their role has it and "
        f"{100 - conform:.0f} % do not ({numbers}). That {lean}{more}"
    )


def _why_not(report: StudyReport) -> str:
    """Why nobody in pictures of two has a score."""
    people = table_of(report, "labels").frame
    people = people[people["setting"] != SINGLE].dropna(subset="answer")
    if people.empty:
        return "nobody says how the people in pictures of two look"
    failed = people["answer"] == NOT_TWO_PEOPLE
    split = people.get(RATERS_SPLIT, failed).astype(bool) & ~failed
    kinds = {
        "raters are split on {}": split,
        "{} cannot be identified": ~split & ~failed,
        "{} are in pictures that do not show the people who were asked for": failed,
    }
    parts = [text.format("all" if some.all() else f"{int(some.sum()):,}") for text, some in kinds.items() if some.any()]
    return f"of the {len(people):,} people in pictures of two, {', '.join(parts)}"


def seen_headline(report: StudyReport) -> str:
    """What else is seen that goes with the stereotype most clearly; "" where nobody looked."""
    tests = [one for one in report.results.findings if one.key.startswith(FURTHER)]
    level = 1 - report.settings.confidence
    clear = sorted((one.p_value, one.says) for one in tests if one.p_value is not None and one.p_value < level)
    if not tests:
        return ""
    return f" {clear[0][1]}" if clear else " Whether people look so does not clearly hang on what else is seen of them."


def _change(finding: Finding | None) -> str:
    """The other half of the sentence: against pictures of one, or with words that ask for fairness."""
    if finding is None or math.isnan(finding.estimate.value):
        return ""
    change, asks_fairness = finding.estimate, finding.key.startswith("difference")
    subject = "Asked to be fair, the model draws them" if asks_fairness else "Beside another person they look"
    interval = format_change(change.value, change.low, change.high, n=change.n)
    if not is_clear(change):
        return f" {subject} neither clearly more nor clearly less stereotyped ({interval})."
    more = f"{'more' if change.value > 0 else 'less'} stereotyped{'' if asks_fairness else ' than alone'}"
    return f" {subject} {more} ({interval})."


def is_clear(estimate: Estimate) -> bool:
    """Whether the interval leaves out 0, by more than the arithmetic errs."""
    return round(estimate.low, 9) > 0 or round(estimate.high, 9) < 0


def is_told(estimate: Estimate, p_value: float | None, confidence: float) -> bool:
    """Whether the interval leaves out 0 and the p-value, corrected for all that is asked, is below its level."""
    return p_value is not None and p_value < 1 - confidence and is_clear(estimate)
