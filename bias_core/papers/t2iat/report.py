"""Headlines of association studies: tests of two concepts, occupations, their words, and people's choices."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from bias_core.report.claims import count_clear, distance, largest, p_words
from bias_core.report.report_text import get_table
from bias_core.study.types import Claim, StudyReport
from bias_core.wording import format_change, format_estimate, format_list, format_number, state_p

# Cohen's rule of thumb
_SIZES = ((0.2, "hardly any"), (0.5, "a small"), (0.8, "a medium"), (math.inf, "a large"))
EVEN_MIX_NOTE = (
    "The even mix is the neutral point: the value for pictures that are half like the male and half like the female "
    "ones. It is not 0 if the pictures of one gender are more alike than those of the other."
)
TWO_SCALES_NOTE = (
    "In CLIP, cosines between sentences and between pictures have different scales: compare directions and ranks, not "
    "sizes."
)
P_OVER_PROMPTS_NOTE = (
    "p differs from Eq. 3 in three ways. It permutes each prompt's contribution to S; Eq. 3 pools the edited pictures "
    "of each half again. It keeps the numbers of prompts of X and Y; Eq. 3 makes equal halves. It counts splits as "
    "extreme as S, so p is never 0; Eq. 3 counts only more extreme ones. Eq. 3 as printed can be shown beside p."
)
OTHER_P_NOTES = {
    "pictures": (
        "*p over pictures* comes from permuting single neutral pictures; edited pictures stay as they are. Pictures "
        "of one prompt are alike, so it is below 0.05 in more than 5 % of comparisons without a difference: nothing "
        "is claimed by it."
    ),
    "eq3": (
        "*p by Eq. 3* is the paper's p as printed: the share of random halves of all prompts, with their neutral and "
        "edited pictures, that give a larger |S|. It can be 0 of few halves, so nothing is claimed by it."
    ),
}
PUBLISHED_P_NOTE = "The paper's p-values differ in their unit, and in being one- or two-sided."
FEW_CONCEPTS_NOTE = "τ is over few concepts, so it has no interval below ten of them, and nothing is claimed of it."


def order_headline(report: StudyReport) -> str:
    """Say how alike associations and choices, by people or else by the classifier, rank the concepts."""
    order = next((finding.estimate for finding in report.results.findings if finding.key == "order"), None)
    if order is None:
        return "Too few concepts have both choices and associations to compare their order."
    judged, pictures = report.results.frame("judged"), report.results.frame("table2")["pictures"]
    by_people = bool((judged["people"] != "").any())
    whose = "people's choices" if by_people else "the classifier's choices"
    number = format_estimate(order.value, order.low, order.high, n=order.n)
    n = f"{pictures.min():,}" + f" to {pictures.max():,}" * (pictures.nunique() > 1)
    n += " pictures" if pictures.max() > 1 else " picture"
    few = f" ({order.n} concepts are too few)" if pd.isna(order.low) else ""
    return (
        f"Associations and {whose} rank {order.n} concepts with an agreement of τ = {number}{few}; "
        f"1 is the same order, 0 unrelated orders; n = {n} of each.{'' if by_people else ' No one was asked.'}"
    )


def find_test(report: StudyReport, key: str) -> dict[str, Any]:
    """Return a test of the design by its key; empty if there is none."""
    return next((test for test in report.design.data.get("tests", ()) if test["key"] == key), {})


def tests_table(report: StudyReport) -> pd.DataFrame:
    """Return Table 1 with the names of the attributes for sentences."""
    table = get_table(report, "table1").frame
    tests = [find_test(report, key) for key in table["test"]]
    return table.assign(A=[test["a"] for test in tests], B=[test["b"] for test in tests])


def tests_headline(report: StudyReport) -> str:
    """Say which concepts differ clearly, with the largest difference; else if there are too few prompts."""
    if report.results.frame("table1").empty:
        return ""
    table = tests_table(report).set_index("test")
    findings = [finding for finding in report.results.findings if finding.key in table.index]
    claims = [finding.claim for finding in findings if finding.claim is not None]
    lead = largest(findings)
    if lead is None or lead.claim is None:
        return ""
    row, n, n_clear = table.loc[lead.key].to_dict(), len(table), count_clear(claims)
    if not n_clear:
        n_few = sum(claim.verdict == "too few" for claim in claims)
        return _none_shown(row, lead.claim, n, n_few, stopped=report.stopped)
    nearer, farther = lead.claim.choose(("X", "Y"), ("Y", "X"), ("X", "Y"))
    closer = f"ictures of {row[nearer]} are closer to “{row['A']}” than pictures of {row[farther]}"
    size = describe_size(row["d"])
    size = f"; d = {format_number(row['d'])}, {size} difference" if size else ""
    says = f"{closer}: {_score_words(row, lead.claim)} (0: no difference{size})."
    if n == 1:
        return f"P{says}"
    verb, whose = ("shows", "its") if n_clear == 1 else ("show", "their")
    return f"{n_clear} of {n} tests {verb} a clear difference between {whose} two concepts. Largest: p{says}"


def describe_size(d: float) -> str:
    """Return how large a difference of Cohen's d is, in words; "" if d is undefined.

    >>> describe_size(-0.6), describe_size(math.nan)
    ('a medium', '')
    """
    return next((text for limit, text in _SIZES if abs(d) < limit), "")


def _none_shown(row: Mapping[Any, Any], claim: Claim, n: int, n_few: int, *, stopped: bool) -> str:
    """Say that no test is clear, from the line of the one with the largest S and its claim; or why none can be."""
    score = _score_words(row, claim)
    if claim.verdict == "not clear" and math.isfinite(row["d"]):
        score += f" (d = {format_number(row['d'])}: {describe_size(row['d'])} difference, if it is not chance)"
    score = f"Largest: {row['X']} / {row['Y']}, {score}." if n > 1 else f"Measured: {score}."
    if n_few == n:
        about = f"whether pictures of {row['X']} or of {row['Y']} are closer to “{row['A']}”"
        few = f"Too few prompts to tell {about}" if n == 1 else f"Too few prompts to tell in any of {n} tests"
        return f"{'Nothing is claimed' if stopped else few}: {claim.reason}. {score}"
    if n == 1:
        none = f"Pictures of {row['X']} and of {row['Y']} show no clear difference; there may still be one. "
    else:
        few = f"; {n_few} of them {'has' if n_few == 1 else 'have'} too few prompts" if n_few else ""
        none = f"None of {n} tests shows a clear difference between its two concepts; there may still be one{few}. "
    return f"{none}{score}{f' Not clear: {claim.reason}.' if claim.reason else ''}"


def _score_words(row: Mapping[Any, Any], claim: Claim) -> str:
    """Return S with its interval and prompts, and p if a test decided on it."""
    n = row["prompts X"], row["prompts Y"]
    score = f"S = {format_estimate(row['S'], row['low'], row['high'], n=sum(n))}, {n[0]} against {n[1]} prompts"
    p = "" if claim.verdict == "too few" else p_words(claim)
    return f"{score}, {p}" if p else score


_LENGTHS = "The strengths cannot be compared: similarities of pictures and of words have different scales."


def words_headline(report: StudyReport) -> str:
    """Say how many occupations' pictures have a clear association, and how many agree with their words."""
    table = report.results.frame("amplification")
    if not (claims := _rank_claims(report, table)):
        return ""
    clear = [name for name, claim in claims.items() if claim.is_clear]
    if not clear:
        return f"{_none_clear(report, table, claims)} {_LENGTHS}"
    n_same = int(table.loc[table["occupation"].isin(clear), "same side"].sum())
    return (
        f"{len(clear)} of {len(table)} occupations {'has' if len(clear) == 1 else 'have'} pictures with a clear "
        f"association: {n_same} on the side of their words, {len(clear) - n_same} on the other. "
        f"{_largest_words(table, claims)} {_LENGTHS}"
    )


def occupations_headline(report: StudyReport) -> str:
    """Say which occupations are associated with male and which with female."""
    table = report.results.frame("occupations")
    if not (claims := _rank_claims(report, table)):
        return ""
    sides: dict[str, list[str]] = {"male": [], "female": [], "": []}
    for name, claim in claims.items():
        sides[claim.choose("male", "female", "")].append(name)
    n_rest = len(sides.pop(""))
    if n_rest == len(claims):
        return _none_clear(report, table, claims)
    parts = [f"{format_list(names)} with {side}" for side, names in sides.items() if names]
    ending = f"; the other {n_rest} of {len(table)} do not differ clearly from an even mix of both" if n_rest else ""
    return f"Pictures clearly associate {', and '.join(parts)}{ending}. {_largest_words(table, claims)}"


def _rank_claims(report: StudyReport, table: pd.DataFrame) -> dict[str, Claim]:
    """Return what is claimed of each occupation of a table: clear ones first, then by their distance from the mix."""
    names = set() if table.empty else set(table["occupation"])
    findings = [finding for finding in report.results.findings if finding.key in names]
    findings.sort(key=lambda finding: (finding.is_clear, distance(finding)), reverse=True)
    return {finding.key: finding.claim for finding in findings if finding.claim is not None}


def _none_clear(report: StudyReport, table: pd.DataFrame, claims: Mapping[str, Claim]) -> str:
    """Say that no occupation differs clearly from an even mix, or that there are too few pictures to tell."""
    largest_words, first = _largest_words(table, claims), next(iter(claims.values()))
    if all(claim.verdict == "too few" for claim in claims.values()):
        few = (
            "Nothing is claimed"
            if report.stopped
            else "Too few pictures to tell which occupations are closer to male or to female"
        )
        reasons = [claims[name].reason for name in table["occupation"] if claims[name].reason]
        return f"{few}: {reasons[0] if reasons else 'there is no interval'}. {largest_words}"
    says = f"None of {len(table)} occupations differs clearly from an even mix of male and female; one may still do so."
    reason = first.reason if first.verdict == "not clear" else ""
    return f"{says} {largest_words}{f' Not clear: {reason}.' if reason else ''}"


def _largest_words(table: pd.DataFrame, claims: Mapping[str, Claim]) -> str:
    """Return the first occupation of the claims with its distance from an even mix, interval, n and p."""
    name = next(iter(claims))
    row = table.set_index("occupation").loc[name].to_dict()
    low, high = row["beyond low"], row["beyond high"]
    change = format_number(row["beyond it"], n=row["n"]) if pd.isna(low) else format_change(row["beyond it"], low, high)
    p = state_p(claims[name].p_adjusted, adjusted=True)
    return f"Largest: {name}, {change} beyond an even mix, n = {row['n']:,} pictures{f', {p}' if p else ''}."


def describe_judges(judges: str) -> str:
    return f"The pictures are judged by {judges}."
