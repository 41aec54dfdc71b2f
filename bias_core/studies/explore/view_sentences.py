"""The results in plain language: what a number says, and what it does not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from bias_core.stats.effects import images_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.explore.report import Exploration
    from bias_core.studies.explore.results import AssociationScore
    from bias_core.studies.kit.attribute_scores import AttributeScore
    from bias_core.types import Estimate

Verdict = Literal["above", "below", "within", "unknown"]
_HALF_WIDTH = 0.1
_SPACE = "\N{NO-BREAK SPACE}"


def percent(share: float) -> str:
    """A share as people read it.

    >>> percent(0.5625).split(), percent(float("nan"))
    (['56', '%'], 'undefined')
    """
    return "undefined" if math.isnan(share) else f"{100 * share:.0f}{_SPACE}%"


def span(estimate: Estimate) -> str:
    """Both ends of the interval in percent."""
    return f"{100 * estimate.low:.0f}–{100 * estimate.high:.0f}{_SPACE}%"


def verdict(score: AttributeScore) -> Verdict:
    """Where the interval of P lies against P*."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.low):
        return "unknown"
    if share.low > reference:
        return "above"
    return "below" if share.high < reference else "within"


def headline(seen: Exploration) -> str:
    """One sentence on what stands out, another on the rest."""
    n = len(seen.scored_numbers)
    if not n:
        return "There is no picture to score."
    if not seen.attributes:
        return f"{n} pictures of “{seen.prompt}”. No attribute was asked for."
    compared = _compared(seen)
    lead = max(compared, key=_departure)
    share, reference = f"{percent(lead.prevalence.value)} ({span(lead.prevalence)})", _reference(lead)
    found = f"“{lead.attribute.name}” is seen in {share} of {n} pictures"
    rate = f"the {reference} it is compared with" if lead.attribute.has_source else f"an assumed {reference}"
    some = len(compared) < len(seen.attributes)
    which = "attribute with a sourced rate departs" if some else "attribute departs"
    return {
        "above": f"{found}, more than {rate}. {_rest(compared, some=some)}",
        "below": f"{found}, less than {rate}. {_rest(compared, some=some)}",
        "within": f"No {which} clearly from its reference. Farthest: {found}, against {rate}.",
        "unknown": f"{found}. There is no real-world rate to compare it with.",
    }[verdict(lead)].strip()


def _compared(seen: Exploration) -> Sequence[AttributeScore]:
    """The measured attributes whose P* has a source; all where there are none."""
    sourced = [score for score in seen.attributes if score.attribute.has_source]
    return [score for score in sourced if not math.isnan(score.prevalence.value)] or seen.attributes


def says(score: AttributeScore) -> str:
    """What the numbers of one attribute say."""
    share, name = score.prevalence, score.attribute.name
    if math.isnan(share.value):
        return f"“{name}” could not be measured: {share.note or 'no picture was scored'}."
    count = round(share.value * share.n)
    seen = f"“{name}” is seen in {count} of {share.n} pictures: {percent(share.value)} ({span(share)})."
    compared = {
        "above": f"The whole interval lies above P* = {_reference(score)}: over-represented here.",
        "below": f"The whole interval lies below P* = {_reference(score)}: under-represented here.",
        "within": f"P* = {_reference(score)} is inside the interval: no difference is shown, none ruled out.",
        "unknown": "No real-world rate was given, so there is nothing to compare it with.",
    }[verdict(score)]
    return f"{seen} {compared}{_truth(score)}"


def does_not_say(score: AttributeScore) -> str:
    """The nearest misreading of the numbers of one attribute."""
    if math.isnan(score.prevalence.value):
        return "An undefined value is not a sign of no bias."
    if score.n_ties:
        return f"{score.n_ties} pictures were equally near to both sentences and count as absent."
    if score.corrected is None:
        return "How often the reader errs here is not known, so the share can be off by more."
    if score.attribute.reference is None:
        return "Without a rate to compare it with, a share alone is no sign of bias."
    if not score.attribute.has_source:
        return "P* is a choice made for this comparison, not a measured rate of the world."
    return "P* is a rate of one country and year; another place gives another verdict."


def association_says(score: AssociationScore) -> str:
    """Which way the pictures lean."""
    a, b, mean = score.attribute_a, score.attribute_b, score.mean
    if math.isnan(mean.value):
        return f"The association with “{a}” and “{b}” is undefined: {mean.note}."
    numbers = f"mean {mean.value:+.3f} [{mean.low:+.3f}, {mean.high:+.3f}], n = {mean.n}, neutral = 0"
    if mean.low > 0:
        return f"The pictures are more like those of “{a}” than those of “{b}” ({numbers})."
    if mean.high < 0:
        return f"The pictures are more like those of “{b}” than those of “{a}” ({numbers})."
    return f"The interval contains 0: no lean towards “{a}” or “{b}” is shown, none ruled out ({numbers})."


def how_many(seen: Exploration) -> str:
    """How many pictures a narrower interval needs."""
    if not seen.attributes or not seen.scored_numbers:
        return ""
    needed = images_needed(_HALF_WIDTH, confidence=seen.settings.confidence)
    n = len(seen.scored_numbers)
    if n >= needed:
        return f"{n} pictures pin every share down to ±10 points or better."
    return f"To know every share to ±10 points takes {needed} pictures; these are {n}."


def _departure(score: AttributeScore) -> float:
    """How far P* lies outside of the interval; ties go to the larger plain difference."""
    reference, share = score.attribute.reference, score.prevalence
    if reference is None or math.isnan(share.value):
        return -2.0
    outside = max(share.low - reference, reference - share.high, 0.0)
    return outside if outside else abs(share.value - reference) - 1


def _rest(compared: Sequence[AttributeScore], *, some: bool) -> str:
    verdicts = [verdict(score) for score in compared]
    n_away = verdicts.count("above") + verdicts.count("below")
    if len(verdicts) == 1:
        return ""
    verb = "departs" if n_away == 1 else "depart"
    with_source = " with a sourced rate" if some else ""
    return f"{n_away} of {len(verdicts)} attributes{with_source} {verb} clearly from the reference."


def _reference(score: AttributeScore) -> str:
    return percent(score.attribute.reference if score.attribute.reference is not None else math.nan)


def _truth(score: AttributeScore) -> str:
    if score.drawn is None:
        return ""
    return f" Drawn, by the record, it is in {percent(score.drawn)} of them."
