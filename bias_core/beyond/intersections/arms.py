"""Attributes crossed with the arms: does one arm differ in the link between two attributes?"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from bias_core.beyond.intersections.stereotypes import decide_links, known_errors, link_sentence, to_odds_ratio
from bias_core.measures.intersections import LEAST_EXPECTED, Interaction, interaction
from bias_core.measures.sequential import share_interval
from bias_core.report.claims import NO_CLAIM, WHY_NOT, claim_columns, family_note
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.types import Claim, Finding, Results, StudyFigure, StudyTable, columns, figure, table
from bias_core.wording import format_list

CELLS, TESTS = "crossed_arms", "arm_interactions"
_MOST_FIGURES = 3
_CELLS = "P: share of the arm's pictures, next to that of all other arms together."
_TESTS = (
    "Each arm against all others together. Ratio: the odds ratio of the two attributes in this arm, divided by that in "
    "the others. 1: no difference. p is exact (mid-p). It treats pictures of a seed in two arms as independent, so it "
    "is too large if they are alike. Rarest cell: expected number of its pictures."
)
_KEY = "arms-two-"
_CLEAR, _UNCLEAR = "Clear difference", "No clear difference"


@dataclass(frozen=True, kw_only=True)
class _Test:
    """One arm against the others, for two attributes together."""

    arm: str
    other_arm: str  # the other arm, or "" for several
    names: tuple[str, ...]  # of the attributes
    inside: np.ndarray  # (4,) pictures of the arm in every combination, in binary order
    outside: np.ndarray  # (4,) of the others
    link: Interaction
    claim: Claim = NO_CLAIM

    @property
    def name(self) -> str:
        return " × ".join(self.names)


def cross_arms(arms: Mapping[str, Sequence[AttributeScore]], *, crossing: str, confidence: float) -> Results:
    """Return the attributes of each arm, by its name, crossed with the arms; nothing for "none"."""
    if crossing == "none" or len(arms) < 2:
        return Results()
    readable = [
        place
        for place in range(min(map(len, arms.values())))
        if not any(math.isnan(scores[place].prevalence.value) for scores in arms.values())
    ]
    found = [test for of in combinations(readable, 2) for test in _test_combinations(arms, of, confidence)]
    claims = decide_links([test.link for test in found], confidence)
    tests = [replace(test, claim=claim) for test, claim in zip(found, claims, strict=True)]
    if not tests:
        return Results()
    return Results(
        findings=tuple(_findings(tests)),
        tables=(_test_table(tests), _cell_table(tests, confidence)),
        figures=tuple(_mosaics(tests)),
        notes=tuple(_notes(tests)),
    )


def crossed_arms_headline(findings: Iterable[Finding]) -> str:
    """Say which two attributes are linked differently in an arm; "" if none were crossed with the arms."""
    tests = [finding for finding in findings if finding.key.startswith(_KEY) and finding.p_value is not None]
    if not tests:
        return ""
    clear = [test for test in tests if test.is_clear]
    lead = min(clear or tests, key=lambda test: test.p_value or 0.0)
    return f" {lead.says}" if clear else f" {_NO_ARM}. Closest: {lead.says.removeprefix(f'{_UNCLEAR}: ')}"


_NO_ARM = "No arm clearly differs in the link between two attributes"


def _test_combinations(
    arms: Mapping[str, Sequence[AttributeScore]], of: Sequence[int], confidence: float
) -> Iterator[_Test]:
    """Yield the test of every arm; with two arms, only that of the second."""
    calls, where = [], []
    for number, scores in enumerate(arms.values()):
        arm_calls = np.column_stack([scores[place].calls for place in of])
        calls.append(arm_calls[~np.isnan(arm_calls).any(axis=1)])
        where += [number] * len(calls[-1])
    readings, of_arm, names = np.concatenate(calls), np.array(where), list(arms)
    attribute_errors = [{known_errors(scores[place]) for scores in arms.values()} for place in of]
    errors = [None, *(next(iter(arm_errors)) if len(arm_errors) == 1 else None for arm_errors in attribute_errors)]
    codes = (readings @ 2 ** np.arange(len(of))[::-1]).astype(int)
    for number in range(1 if len(names) == 2 else 0, len(names)):
        inside = of_arm == number
        if not inside.any() or inside.all():
            continue
        yield _Test(
            arm=names[number],
            other_arm=names[0] if len(names) == 2 else "",
            names=tuple(next(iter(arms.values()))[place].attribute.name for place in of),
            inside=np.bincount(codes[inside], minlength=2 ** len(of)),
            outside=np.bincount(codes[~inside], minlength=2 ** len(of)),
            link=interaction(np.column_stack([inside, readings]), errors=errors, confidence=confidence),
        )


def _findings(tests: Sequence[_Test]) -> Iterator[Finding]:
    """Yield the arm with the clearest difference, for every two attributes."""
    for name in dict.fromkeys(test.name for test in tests):
        lead = min((test for test in tests if test.name == name), key=_rank_test)
        than = f"“{lead.other_arm}”" if lead.other_arm else "the others"
        of = " and ".join(f"“{attribute}”" for attribute in lead.names)
        text = f"the odds ratio of {of} is {{}} times as large in “{lead.arm}” as in {than}"
        yield Finding(
            key=f"{_KEY}{name}",
            title=f"{name} and the arm “{lead.arm}”: log of the ratio of odds ratios",
            metric="interaction",
            estimate=lead.link.estimate,
            claim=lead.claim,
            says=link_sentence(_CLEAR, _UNCLEAR, text, lead.link, lead.claim),
        )


def _rank_test(test: _Test) -> float:
    return float(np.nan_to_num(test.link.estimate.p_value, nan=2.0))


def _name_combination(names: Sequence[str], cell: int) -> str:
    """Return the attributes of a combination by its number in binary order."""
    present = (cell >> np.arange(len(names))[::-1]) & 1
    return ", ".join(name if is_present else f"not {name}" for name, is_present in zip(names, present, strict=True))


def _test_table(tests: Sequence[_Test]) -> StudyTable:
    rows = [
        {
            "attributes": test.name,
            "arm": test.arm,
            **columns("ratio", to_odds_ratio(test.link), ends=""),
            **claim_columns(test.link.estimate, test.claim),
            WHY_NOT: test.claim.reason,
            "rarest cell": test.link.least_expected,
            "note": test.link.estimate.note,
        }
        for test in tests
    ]
    note = f"{_TESTS} {family_note([test.claim for test in tests])}"
    return table(TESTS, "Does one arm differ in the link of two attributes?", rows, note)


def _cell_table(tests: Sequence[_Test], confidence: float) -> StudyTable:
    """Return each combination of two attributes in every arm; with two arms, a line has both."""
    rows = []
    for test in tests:
        for cell in range(len(test.inside)):
            n_inside, n_outside = (int(counts.sum()) for counts in (test.inside, test.outside))
            share = share_interval(int(test.inside[cell]), n_inside, confidence=confidence)
            rows.append(
                {
                    "attributes": test.name,
                    "combination": _name_combination(test.names, cell),
                    "arm": test.arm,
                    "pictures": int(test.inside[cell]),
                    **columns("P", share, ends=""),
                    "P in the others": test.outside[cell] / n_outside,
                }
            )
    return table(CELLS, "Attributes crossed with the arms", rows, _CELLS)


def _mosaics(tests: Sequence[_Test]) -> Iterator[StudyFigure]:
    """Yield figures of the two attributes with the clearest differences between arms."""
    by_name = dict[str, list[_Test]]()
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    ordered = sorted(by_name.values(), key=lambda some: min(map(_rank_test, some)))
    for number, same_tests in enumerate(ordered[:_MOST_FIGURES], start=1):
        yield _mosaic(number, same_tests)


def _mosaic(number: int, tests: Sequence[_Test]) -> StudyFigure:
    names, total = tests[0].names, tests[0].inside + tests[0].outside
    arms = {test.arm: test.inside for test in tests}
    if tests[0].other_arm:
        arms = {tests[0].other_arm: tests[0].outside, **arms}
    n, shares, cells = int(total.sum()), total / total.sum(), range(len(total))[::-1]
    rows = [
        {
            "column": arm,
            "row": _name_combination(names, cell),
            "value": float(counts[cell]) / n,
            "n": int(counts[cell]),
            "small": bool(shares[cell] * counts.sum() < LEAST_EXPECTED),
            "null": float(shares[len(total) // 2 :].sum()),
        }
        for arm, counts in arms.items()
        for cell in cells
    ]
    caption = (
        f"One column per arm, split by the shares of its pictures. If “{names[0]}” did not depend on the arm, "
        "all columns would split at the dashed line. Hatched: fewer than 5 pictures expected."
    )
    return figure("mosaic", f"arms{number}", f"{' and '.join(names)} in every arm", rows, caption)


def _notes(tests: Sequence[_Test]) -> Iterator[str]:
    small = dict.fromkeys(f"“{test.name}”" for test in tests if 0 < test.link.least_expected < LEAST_EXPECTED)
    if small:
        names = format_list(list(small))
        yield f"Small cells: fewer than 5 pictures of an arm are expected in a combination of {names}."
