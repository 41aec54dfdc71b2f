"""The one place that decides what a report claims: a family of tests goes in, adjusted p and verdicts come out.

An estimate brings the p-value of its null value, by the test that its interval inverts (:class:`bias_core.types
.Estimate`). A family is what a headline chooses among. Tables, sentences, figures and stop rules read the claims made
here and compare no interval or p-value themselves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bias_core.study.types import MOST_IN_HOLM, Claim, Finding, Results, Verdict
from bias_core.types import Estimate
from bias_core.wording import format_given, state_p

WHY_NOT, SAME_TEST = "why not clear", "same test as"
"""Columns of tables of claims: the reason, and the number that a number restates."""

NO_CLAIM = Claim(verdict="not tested", p_adjusted=math.nan, n_tests=0, level=math.nan)
"""The claim on a number that nothing is compared with."""


def decide_claims(
    estimates: Sequence[Estimate], *, confidence: float = 0.95, smallest_p: Sequence[float] | None = None
) -> tuple[Claim, ...]:
    """Return what may be claimed of each estimate of one family.

    A number is clear if its p-value, adjusted for all tests of the family, is at most 1 - confidence: by Holm, or by
    Benjamini and Hochberg for more than 20 tests. Estimates without a test stay out of the family.

    Parameters
    ----------
    estimates : with their intervals at this ``confidence``, null values and p-values.
    smallest_p : that the test of each can give of its units. A number that is not clear has "too few" if even this p
        would not be clear beside the others.

    >>> far, near = (Estimate(value=v, low=v - 2, high=v + 2, n=9, null_value=0.0, p_value=p)
    ...     for v, p in ((3.0, 0.01), (2.5, 0.04)))
    >>> [claim.verdict for claim in decide_claims([far, near])]
    ['above', 'above']
    >>> print(decide_claims([near, near])[0].reason)
    its interval excludes 0, but among 2 tests this happens by chance in more than 5 % of runs
    """
    import numpy as np  # the command line's help does without it

    from bias_core.measures.effects import benjamini_hochberg, holm

    p_values = np.array([estimate.p_value for estimate in estimates], dtype=float)
    tested = np.flatnonzero(~np.isnan(p_values))
    n_tests, level = len(tested), 1 - confidence
    adjust = holm if n_tests <= MOST_IN_HOLM else benjamini_hochberg
    adjusted, adjusted_smallest = p_values.copy(), np.full(len(p_values), math.nan)
    if n_tests:
        adjusted[tested] = adjust(p_values[tested])
    for i in tested.tolist():
        at_best = math.nan if smallest_p is None else smallest_p[i]
        if not math.isnan(at_best):
            adjusted_smallest[i] = adjust(np.where(tested == i, at_best, p_values[tested]))[tested == i].item()
    return tuple(
        _decide_claim(estimate, float(p_value), n_tests, level, float(least_p))
        for estimate, p_value, least_p in zip(estimates, adjusted, adjusted_smallest, strict=True)
    )


def _decide_claim(estimate: Estimate, p_adjusted: float, n_tests: int, level: float, least_p: float) -> Claim:
    verdict: Verdict
    null, reason, is_rejected = estimate.null_value, "", estimate.p_value <= level + _ROUNDING
    if math.isnan(p_adjusted):
        verdict, reason = ("not tested", "") if null is None else ("too few", estimate.note)
    elif p_adjusted <= level + _ROUNDING:
        verdict = "above" if estimate.value > (null or 0.0) else "below"
    elif least_p > level + _ROUNDING:
        verdict, reason = "too few", f"no p of n = {estimate.n} can be clear{f' among {n_tests} tests' * (n_tests > 1)}"
    elif estimate.note and not _has_ends(estimate):
        verdict, reason = "not clear" if estimate.value == null else "too few", estimate.note
    else:
        verdict = "not clear"
    if verdict == "not clear" and is_rejected:
        alone = f"its interval excludes {format_given(null)}" if _has_ends(estimate) else state_p(estimate.p_value)
        reason = f"{alone}, but among {n_tests} tests this happens by chance in more than {100 * level:.3g} % of runs"
    p_adjusted = math.nan if math.isnan(p_adjusted) else p_adjusted  # one object, so that equal reports are equal
    return Claim(verdict=verdict, p_adjusted=p_adjusted, n_tests=n_tests, level=level, reason=reason)


def _has_ends(estimate: Estimate) -> bool:
    return math.isfinite(estimate.low) or math.isfinite(estimate.high)


_ROUNDING = 1e-12  # a p that equals its level rejects


def claim_columns(estimate: Estimate, claim: Claim) -> dict[str, Any]:
    """Return p, adjusted p and the word of a claim as columns of a table."""
    return {"p": estimate.p_value, "p adjusted": claim.p_adjusted, "clear": claim.word}


def family_note(claims: Sequence[Claim], tests: str = "tests of this table") -> str:
    """Return how a table's words were decided, as a sentence of its note; "" if nothing was tested.

    >>> number = Estimate(value=1.0, low=0.0, high=2.0, n=9, null_value=0.0, p_value=0.05)
    >>> print(family_note(decide_claims([number, number])))
    Intervals are 95 % each, not adjusted. Clear: p at most 0.05 after Holm’s correction for 2 tests of this table.
    """
    first = next((claim for claim in claims if claim.n_tests), None)
    if first is None:
        return ""
    if first.n_tests == 1:
        return f"Clear: p at most {first.level:.3g}; an interval then excludes the value without bias."
    return (
        f"Intervals are {100 * (1 - first.level):.4g} % each, not adjusted. Clear: p at most {first.level:.3g} after "
        f"{first.correction} for {first.n_tests:,} {tests}."
    )


def decide_findings(
    findings: Sequence[Finding], family: Callable[[Finding], str | None], *, confidence: float
) -> tuple[Finding, ...]:
    """Return the findings with a claim each, decided within their families; their sentences say it.

    ``family`` names the family of a finding, None for numbers about which nothing is claimed. A finding that restates
    another (``claim_of``) has the claim of that one. Claims that a study made itself are kept.
    """
    claims: dict[str, Claim] = {finding.key: finding.claim for finding in findings if finding.claim is not None}
    names = {finding.key: family(finding) for finding in findings if finding.key not in claims and not finding.claim_of}
    for name in dict.fromkeys(names.values()):
        members = [finding for finding in findings if name is not None and names.get(finding.key) == name]
        decided = decide_claims([finding.estimate for finding in members], confidence=confidence)
        claims |= {finding.key: claim for finding, claim in zip(members, decided, strict=True)}
    return tuple(_with_claim(finding, claims.get(finding.key) or claims.get(finding.claim_of)) for finding in findings)


def _with_claim(finding: Finding, claim: Claim | None) -> Finding:
    if claim is None or not finding.readings:
        return replace(finding, claim=claim)
    reading = claim.choose(*finding.readings)
    reason = f" ({claim.reason})" if claim.reason and not claim.is_clear else ""
    reading = reading.removesuffix(".") + reason + "." if reading else ""
    return replace(finding, claim=claim, says=" ".join(filter(None, [reading, finding.says])), readings=())


def with_claims(results: Results, family: Callable[[Finding], str | None], *, confidence: float) -> Results:
    """Return results with decided findings (:func:`decide_findings`)."""
    return replace(results, findings=decide_findings(results.findings, family, confidence=confidence))


UNSUITED = "the classifier is not made for these pictures"
_WITHOUT_CLASSIFIER = ("refused_share",)  # measures that no classifier decides


def without_claims(results: Results) -> Results:
    """Return results of a classifier that is not made for its pictures: no number has a test, a claim or a sentence."""
    no_claim = replace(NO_CLAIM, reason=UNSUITED)
    findings = [
        finding
        if finding.metric in _WITHOUT_CLASSIFIER
        else replace(
            finding, claim=no_claim, says="", readings=(), estimate=replace(finding.estimate, p_value=math.nan)
        )
        for finding in results.findings
    ]
    blank: dict[str, Any] = {"p": math.nan, "p adjusted": math.nan, "clear": "", WHY_NOT: UNSUITED}
    tables = [
        replace(table, frame=table.frame.assign(**{name: blank[name] for name in blank if name in table.frame}))
        for table in results.tables
    ]
    return replace(results, findings=tuple(findings), tables=tuple(tables))


def fewest_units(claim: Claim) -> int:
    """Return how many units are enough for one clear exact test of signs in a family: 2 / 2ⁿ is the smallest p.

    >>> number = Estimate(value=1.0, low=0.1, high=2.0, n=9, null_value=0.0, p_value=0.02)
    >>> fewest_units(decide_claims([number])[0]), fewest_units(decide_claims([number] * 10)[0])
    (6, 9)
    """
    factor = claim.n_tests if 1 <= claim.n_tests <= MOST_IN_HOLM else 1  # more are as clear as their share is
    return math.ceil(math.log2(2 * factor / claim.level) - _ROUNDING)


def require_units(estimate: Estimate, n: int) -> Estimate:
    """Return an estimate, without interval and p if its sample has fewer than ten units.

    Few pictures that happen to be alike seem certain: of four that show women or men as often, all agree in one of
    eight samples.
    """
    from bias_core.measures.intervals import FEWEST_RESAMPLED

    if n >= FEWEST_RESAMPLED or math.isnan(estimate.low):
        return estimate
    note = f"an interval needs at least {FEWEST_RESAMPLED} pictures, and there are {n}"
    return replace(estimate, low=math.nan, high=math.nan, p_value=math.nan).with_note(note)


FIXED_N = "the interval assumes a number of pictures that was fixed in advance; this run stopped early"


def without_fixed_n(estimate: Estimate) -> Estimate:
    """Return an estimate from pictures whose number depended on what they show: without p, and with a note.

    An interval that holds at any time stays as it is.
    """
    from bias_core.measures.sequential import holds_at_any_time

    if holds_at_any_time(estimate) or FIXED_N in estimate.note:
        return estimate
    estimate = replace(estimate, p_value=math.nan)
    return estimate if math.isnan(estimate.low) else estimate.with_note(FIXED_N)


def count_clear(claims: Sequence[Claim]) -> int:
    return sum(claim.is_clear for claim in claims)


def p_words(claim: Claim) -> str:
    """Return the p-value of a claim in words, adjusted if it is one of several tests; "" without a test.

    >>> p_words(decide_claims([Estimate(value=1.0, low=0.1, high=2.0, n=9, null_value=0.0, p_value=0.02)])[0])
    'p = 0.020'
    """
    return state_p(claim.p_adjusted, adjusted=claim.n_tests > 1)


def largest(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding farthest from its null value: of the clear ones if there are any; None of none."""
    clear = [finding for finding in findings if finding.claim is not None and finding.claim.is_clear]
    return max(clear or findings, key=distance, default=None)


def distance(finding: Finding) -> float:
    """Return how far a finding is from its null value; -1 if it is undefined."""
    difference = abs(finding.estimate.value - (finding.estimate.null_value or 0.0))
    return -1.0 if math.isnan(difference) else difference
