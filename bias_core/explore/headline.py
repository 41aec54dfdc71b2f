"""What stands out of an exploration, and of one in several arms."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bias_core.explore.concept import NO_WORDS
from bias_core.explore.extension import explore_extensions
from bias_core.explore.report import Exploration, is_exploration
from bias_core.explore.results import CONCEPT, KINDS, POOLED
from bias_core.measures.effects import adjusted_share_p_values
from bias_core.number_text import format_p, format_rate, format_share, typeset
from bias_core.study.arm_comparison import RATE
from bias_core.study.attribute_scores import AttributeScore
from bias_core.study.headlines import differences_headline, numbers_headline
from bias_core.study.types import StudyReport, lean, listed
from bias_core.types import Estimate

if TYPE_CHECKING:
    import pandas as pd

BACK = "not clear among all"
"""The interval leaves P* out, but not clearly enough for one of several attributes."""
OF_CONCEPT, FOR_ASSOCIATION = "of the concept", "for the association"
"""The parts by which a run with an association counts its pictures."""
_CLEAR = {"above": "more than", "below": "less than"}
_MOST_LISTED = 3  # prompts in a headline
_BACK = (
    " Its own interval leaves that out, but with {n} attributes one such happens by chance in more than {level:.0%} "
    "of runs."
)
_NO_SOURCE = "No real-world rate with a source is known, so that nothing here is called too often or too rare."


def headline(report: StudyReport) -> str:
    """What stands out of one arm: of the attributes whose P* has a source the one that lies farthest from it."""
    if not is_exploration(report):
        return numbers_headline(report)
    exploration = Exploration(report)
    n = len(exploration.scored_numbers)
    if not n:
        return "There is no picture to score."
    further = _further(report)
    if not exploration.attributes:
        return f"{n} pictures of “{exploration.prompt}”.{further or ' No attribute was asked for.'}"
    text = shares_headline(exploration.attributes, report.settings.confidence)
    if by_prompt := prompts_headline(exploration.shares_by_prompt):
        text = f"{by_prompt} {POOLED.capitalize()}: {text}"
    return text + further


def prompts_headline(shares: Mapping[str, Mapping[str, Estimate]]) -> str:
    """The attribute whose shares differ most between prompts, in each or in both ends; "" where there are none.

    >>> half, all_ = (Estimate(value=p, low=p - 0.1, high=p, n=10) for p in (0.5, 1.0))
    >>> print(prompts_headline({"hat": {"a nurse": half, "a cook": all_}}).replace(chr(160), " "))
    “hat” is seen in 100 % [90, 100] of 10 pictures of “a cook”, in 50 % [40, 50] of 10 of “a nurse”.
    """
    measured = {name: {c: one for c, one in of.items() if not math.isnan(one.value)} for name, of in shares.items()}
    by_name = {name: sorted(of.items(), key=lambda one: -one[1].value) for name, of in measured.items() if of}
    if not by_name:
        return ""
    name, cells = max(by_name.items(), key=lambda one: one[1][0][1].value - one[1][-1][1].value)
    of = f"The highest and the lowest share of {len(cells)} prompts: " if len(cells) > _MOST_LISTED else ""
    (first, share), *others = [cells[0], cells[-1]] if of else cells
    rest = [f"in {_share_words(one)} of “{cell}”" for cell, one in others]
    return f"{of}“{name}” is seen in {', '.join([f'{_share_words(share)} pictures of “{first}”', *rest])}."


def shares_headline(attributes: Sequence[AttributeScore], confidence: float) -> str:
    """Of attributes: what departs from a P* with a source; without any the shares, against nothing."""
    measured = [score for score in attributes if not math.isnan(score.prevalence.low)]
    if not measured:
        return f"No attribute could be measured: {attributes[0].prevalence.note or 'no picture was scored'}."
    compared = [score for score in measured if score.attribute.has_source]
    if not compared:
        first, *others = measured
        shares = [f"“{one.attribute.name}” in {_share_words(one.prevalence)} pictures" for one in others]
        shares = [f"{_share_words(first.prevalence)} pictures", *shares]
        return f"“{first.attribute.name}” is seen in {listed(shares)}. {_NO_SOURCE}"
    found = list(zip(compared, verdicts(compared, confidence), strict=True))
    clear = [one for one in found if one[1] in _CLEAR]
    lead, verdict = max(clear or found, key=lambda one: _departure(one[0]))
    some = len(compared) < len(attributes)
    kind = "attribute with a sourced rate" if some else "attribute"
    reference = format_rate(lead.attribute.reference)
    share = f"“{lead.attribute.name}” is seen in {_share_words(lead.prevalence)} pictures"
    if not clear:
        is_far = len(compared) > 1 and format_rate(lead.prevalence.value) != reference
        back = _BACK.format(n=len(compared), level=1 - confidence) if verdict == BACK else ""
        farthest = "Farthest: " if is_far else ""
        return f"No {kind} departs clearly from the rate in the world. {farthest}{share}, against {reference}.{back}"
    verb = "departs" if len(clear) == 1 else "depart"
    rest = f" {len(clear)} of {len(compared)} {kind}s {verb} clearly from it." if len(compared) > 1 else ""
    return f"{share}, {_CLEAR[verdict]} the rate in the world, {reference}.{rest}"


def _share_words(share: Estimate) -> str:
    return f"{format_share(share.value, share.low, share.high, n=share.n)} of {share.n}"


def arms_headline(report: StudyReport) -> str:
    """What a comparison of explorations found, in some sentences, the clearest share first."""
    in_place = next(filter(None, (one.arms_headline(report) for one in explore_extensions())), "")
    return in_place or _differences_of_arms(report) + _further(report)


def _further(report: StudyReport) -> str:
    return "".join(one.further_headline(report) for one in explore_extensions())


def _differences_of_arms(report: StudyReport) -> str:
    """The largest gap of a share, clear or not; of further numbers how many stand out."""
    frame = report.results.frame("differences")
    is_share = frame["finding"].str.endswith(f": {KINDS['p'].label}") if len(frame) else frame
    shares = frame[is_share & frame["p adjusted"].notna()] if len(frame) else frame
    if shares.empty:
        return differences_headline(report, frame)
    clear = shares[shares["clear"] == "yes"]
    row = (shares if clear.empty else clear).sort_values("difference", key=abs, ascending=False).iloc[0]
    gap = [typeset(100 * row[end], "+.0f") for end in ("difference", "low", "high")]
    says = (
        f"“{row['finding'].rpartition(': ')[0]}” is seen in {format_rate(row['value first'])} of the pictures of "
        f"“{row['first']}” and in {format_rate(row['value second'])} of “{row['second']}”, {_seeds(row)}: "
        f"{gap[0]} points [{gap[1]}, {gap[2]}], adjusted p {_is(row['p adjusted'])}."
    )
    if clear.empty:
        reach = max(shares[["low", "high"]].abs().max())
        one = "The largest gap: " if len(shares) > 1 else ""
        says = f"No clear difference. {one}{says}{_taken_back(row, len(shares))}"
        return f"{says} A gap of up to {100 * reach:.0f} points can hide."
    others = f" {len(clear)} of {len(shares)} gaps of shares are clear." if len(shares) > 1 else ""
    return f"{says}{others}"


def _seeds(row: "pd.Series[Any]") -> str:
    same, _, units = str(row["compared on"]).partition("same ")
    return f"on the same {row['n']} {units}" if units else f"with {same}, n = {row['n']}"


def _is(p_value: float) -> str:
    text = format_p(p_value)
    return text if text.startswith("<") else f"= {text}"


def _taken_back(row: "pd.Series[Any]", n: int) -> str:
    """Why no gap is clear though an interval leaves out 0."""
    if n == 1 or row["low"] <= 0 <= row["high"]:
        return ""
    return f" Its interval leaves out 0, but of {n} gaps one does so by chance in more than {RATE:.0%} of comparisons."


def made_of(report: StudyReport) -> str:
    """How many pictures show the concept, and how many are there for the association alone; "" without any of these."""
    frame = report.pictures
    if frame is None or "group" not in frame or not set(NO_WORDS) & set(frame["group"]):
        return ""
    shows = frame["group"] == CONCEPT
    if not report.arms:
        return f"{int(shows.sum()):,} {OF_CONCEPT}, {int((~shows).sum()):,} {FOR_ASSOCIATION}"
    of_arms = {(int(some.sum()), int((~some).sum())) for _, some in shows.groupby(frame["arm"])}
    if len(of_arms) > 1:
        return ""
    ((n, n_sides),) = of_arms
    return f"in each arm {n:,} {OF_CONCEPT}, {n_sides:,} {FOR_ASSOCIATION}"


def verdicts(scores: Sequence[AttributeScore], confidence: float) -> list[str]:
    """Where each P lies against its P*: "above", "below", "within" its interval, "assumed", "unknown", or BACK.

    By the exact test of a share, after Holm over the attributes whose P* has a source. A rate that was assumed or
    chosen has no verdict.
    """
    nulls = [score.attribute.reference if score.attribute.has_source else None for score in scores]
    shares = [score.prevalence.of_null(null) for score, null in zip(scores, nulls, strict=True)]
    adjusted = adjusted_share_p_values(shares, confidence)
    return [_verdict(score, p_value, 1 - confidence) for score, p_value in zip(scores, adjusted, strict=True)]


def _verdict(score: AttributeScore, adjusted: float, level: float) -> str:
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.low):
        return "unknown"
    if not score.attribute.has_source:
        return "assumed"
    beyond = lean(share, "above", "below", "within", null=reference)
    return beyond if adjusted <= level or beyond == "within" else BACK


def _departure(score: AttributeScore) -> float:
    """How far P* lies outside of the interval; ties go to the larger plain difference."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.value):
        return -2.0
    outside = max(share.low - reference, reference - share.high, 0.0)
    return outside if outside else abs(share.value - reference) - 1
