"""What the paired stereotype test found, for somebody who has not read the paper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bias_core.studies.paired.scores import is_clear
from bias_core.studies.reports.number_text import format_interval, format_number
from bias_core.studies.reports.text import table_of
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bias_core.studies.kit.types import Finding, StudyReport

_FIRST = ("paired_overall", "plain_occupation", "plain_power", "paired")
"""Keys of the score that a study is about, whichever it has."""

_THEN = ("difference_occupation", "difference_power", "difference", "gap_overall", "gap")


def headline(report: StudyReport) -> str:
    """What pictures of two show, which way that leans, how sure that is, and what changes it."""
    found = {finding.key: finding for finding in report.results.findings}
    first = next((found[key] for key in _FIRST if key in found), None)
    if first is None or math.isnan(first.estimate.value):
        return "Nobody could be scored: no picture shows the two people who were asked for."
    score = first.estimate
    conform = (score.value + 100) / 2
    if is_clear(score):
        lean = f"That leans {'with' if score.value > 0 else 'against'} the stereotypes."
    else:
        lean = "That is no clear lean either way: the interval includes 0."
    numbers = (
        f"stereotype test score {_signed(score.value)}, {report.settings.confidence:.0%} interval "
        f"{_signed(score.low)} to {_signed(score.high)}, {score.n:,} pictures"
    )
    then = next((found[key] for key in _THEN if key in found), None)
    return (
        f"In pictures of two, {conform:.0f} % of the people look as the stereotype of their role has it and "
        f"{100 - conform:.0f} % do not ({numbers}). {lean}{_change(then)}"
    )


def _change(finding: Finding | None) -> str:
    """The other half of the sentence: against pictures of one, or with words that ask for fairness."""
    if finding is None or math.isnan(finding.estimate.value):
        return ""
    change = finding.estimate
    asked = finding.key.startswith("difference")
    subject = "Asked to be fair, the model draws them" if asked else "Beside another person they look"
    interval = f"{_signed(change.value)} [{_signed(change.low)}, {_signed(change.high)}]"
    if not is_clear(change):
        return f" {subject} neither clearly more nor clearly less stereotyped ({interval})."
    more = "more" if change.value > 0 else "less"
    return f" {subject} {more} stereotyped{'' if asked else ' than alone'} ({interval})."


def summary_html(report: StudyReport) -> str:
    """Who could be scored, and how far the labels can be trusted, as a row of numbers."""
    return render("tiles", tiles=[*_coverage(report), *_agreement(report)])


Tile = tuple[str, str, str, str]
_NAMES = {"paired": "in pairs", "single": "alone", "fairness": "asked to be fair"}


def _coverage(report: StudyReport) -> Iterator[Tile]:
    for _, row in table_of(report, "coverage").frame.iterrows():
        setting = _NAMES.get(row["setting"], row["setting"])
        yield (
            f"Pictures that failed, {setting}",
            f"{row['failed']:,} of {row['pictures']:,}",
            _percent(row["failed %"], row["failed % low"], row["failed % high"]),
            "Pictures without exactly the people asked for. They are counted here and never scored.",
        )
        yield (
            f"People who could be scored, {setting}",
            f"{row['people'] * row['coverage %'] / 100:,.0f} of {row['people']:,}",
            f"{row['cannot identify']:,} cannot be identified",
            "People seen as feminine or masculine; others are left out, not counted against a stereotype.",
        )


def _agreement(report: StudyReport) -> Iterator[Tile]:
    for finding in report.results.findings:
        if finding.metric == "cohen_kappa":
            kappa = finding.estimate
            yield (
                f"κ: {finding.title}",
                format_number(kappa.value, kappa.low, kappa.high, n=kappa.n),
                f"{format_interval(kappa.low, kappa.high)}; {finding.says}",
                "Cohen's κ: how far two sources of labels agree beyond chance. 1: fully, 0: as by chance. "
                f"{kappa.note}",
            )


def _percent(value: float, low: float, high: float) -> str:
    return f"{value:.1f} % [{low:.1f}, {high:.1f}]"


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no "-0.0"
