"""Attributes crossed with the arms: does one arm differ in an attribute, or in the link between two attributes?"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from bias_core.beyond.intersections.stereotypes import adjusted_p_values, known_errors, ratio_of
from bias_core.measures.intersections import LEAST_EXPECTED, Interaction, interaction
from bias_core.measures.sequential import share_interval
from bias_core.study.attribute_scores import AttributeScore
from bias_core.study.types import Finding, Results, StudyFigure, StudyTable, columns, figure, listed, table

CELLS, TESTS = "crossed_arms", "arm_interactions"
_MOST_FIGURES = 3
_CELLS = "P: share of the arm's pictures, next to that of all other arms together."
_TESTS = (
    "Each arm against all others together. For one attribute, the odds ratio is its odds in this arm divided by those "
    "in the others. For two, it is their odds ratio in this arm divided by that in the others. 1: no difference. p is "
    "exact (mid-p), adjusted for all arms and attributes (Holm). It treats pictures of a seed in two arms as "
    "independent, so it is too large if they are alike. Rarest cell: expected number of its pictures."
)
_OF_TWO = "arms-two-"
_CLEAR, _UNCLEAR = "Clear difference: ", "No clear difference: "


@dataclass(frozen=True, kw_only=True)
class _Test:
    """One arm against the others, for one attribute or two together."""

    arm: str
    other: str  # the other arm, or "" for several
    names: tuple[str, ...]  # of the attributes
    inside: np.ndarray  # (2^k,) pictures of the arm in every combination, in binary order
    outside: np.ndarray  # (2^k,) of the others
    link: Interaction
    adjusted: float = math.nan  # p after Holm

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
    of_each = (of for size in (1, 2) for of in combinations(readable, size))
    found = [test for of in of_each for test in _tests(arms, of, confidence)]
    adjusted = adjusted_p_values([test.link for test in found])
    tests = [replace(test, adjusted=p_value) for test, p_value in zip(found, adjusted, strict=True)]
    if not tests:
        return Results()
    return Results(
        findings=tuple(_findings(tests, confidence)),
        tables=(_test_table(tests), _cell_table(tests, confidence)),
        figures=tuple(_mosaics(tests)),
        notes=tuple(_notes(tests)),
    )


def crossed_arms_headline(findings: Iterable[Finding]) -> str:
    """Say which two attributes are linked differently in an arm; "" if none were crossed with the arms."""
    tests = [finding for finding in findings if finding.key.startswith(_OF_TWO) and finding.p_value is not None]
    clear = [test for test in tests if test.says.startswith(_CLEAR)]
    if clear:
        return f" {min(clear, key=lambda one: one.p_value or 0.0).says}"
    return " No arm clearly differs in the link between two attributes." if tests else ""


def _tests(arms: Mapping[str, Sequence[AttributeScore]], of: Sequence[int], confidence: float) -> Iterator[_Test]:
    """Yield the test of every arm; with two arms, only that of the second."""
    calls, where = [], []
    for number, scores in enumerate(arms.values()):
        here = np.column_stack([scores[place].calls for place in of])
        calls.append(here[~np.isnan(here).any(axis=1)])
        where += [number] * len(calls[-1])
    readings, of_arm, names = np.concatenate(calls), np.array(where), list(arms)
    own = [{known_errors(scores[place]) for scores in arms.values()} for place in of]
    errors = [None, *(next(iter(one)) if len(one) == 1 else None for one in own)]
    codes = (readings @ 2 ** np.arange(len(of))[::-1]).astype(int)
    for number in range(1 if len(names) == 2 else 0, len(names)):
        inside = of_arm == number
        if not inside.any() or inside.all():
            continue
        yield _Test(
            arm=names[number],
            other=names[0] if len(names) == 2 else "",
            names=tuple(next(iter(arms.values()))[place].attribute.name for place in of),
            inside=np.bincount(codes[inside], minlength=2 ** len(of)),
            outside=np.bincount(codes[~inside], minlength=2 ** len(of)),
            link=interaction(np.column_stack([inside, readings]), errors=errors, confidence=confidence),
        )


def _findings(tests: Sequence[_Test], confidence: float) -> Iterator[Finding]:
    """Yield the arm with the clearest difference, for every attribute and every two."""
    for name in dict.fromkeys(test.name for test in tests):
        lead = min((test for test in tests if test.name == name), key=_order)
        is_known = not math.isnan(lead.adjusted)
        yield Finding(
            key=f"{_OF_TWO if len(lead.names) == 2 else 'arms-'}{name}",
            title=f"{name} and the arm “{lead.arm}”: {_WHAT[len(lead.names)]}",
            metric="interaction",
            estimate=lead.link.estimate,
            says=_says(lead, confidence) if is_known else f"Undefined: {lead.link.estimate.note}.",
        )


_WHAT = {1: "log odds ratio", 2: "log of the ratio of odds ratios"}


def _order(one: _Test) -> float:
    return 2.0 if math.isnan(one.link.p_value) else one.link.p_value


def _says(one: _Test, confidence: float) -> str:
    begins, ratio = (_CLEAR if one.adjusted < 1 - confidence else _UNCLEAR), ratio_of(one.link.estimate)
    than = f"“{one.other}”" if one.other else "the others"
    if len(one.names) == 1:
        here, others = (f"{counts[1] / counts.sum():.0%}".replace("%", " %") for counts in (one.inside, one.outside))
        return f"{begins}“{one.name}” is seen in {here} of “{one.arm}”, in {others} of {than} (odds ratio {ratio})."
    of = " and ".join(f"“{name}”" for name in one.names)
    return f"{begins}the odds ratio of {of} is {ratio} times as large in “{one.arm}” as in {than}."


def _words(names: Sequence[str], cell: int) -> str:
    """Return the attributes of a combination by its number in binary order."""
    present = (cell >> np.arange(len(names))[::-1]) & 1
    return ", ".join(name if here else f"not {name}" for name, here in zip(names, present, strict=True))


def _test_table(tests: Sequence[_Test]) -> StudyTable:
    rows = [
        {
            "attributes": test.name,
            "arm": test.arm,
            **{
                name: math.exp(min(end, 700.0))
                for name, end in columns("odds ratio", test.link.estimate, ends="").items()
            },
            "p": test.link.p_value,
            "p adjusted": test.adjusted,
            "rarest cell": test.link.least_expected,
            "note": test.link.estimate.note,
        }
        for test in tests
    ]
    return table(TESTS, "Does one arm differ?", rows, _TESTS)


def _cell_table(tests: Sequence[_Test], confidence: float) -> StudyTable:
    """Return each attribute and combination of two in every arm; with two arms, a line has both."""
    rows = []
    for test in tests:
        for cell in range(len(test.inside)):
            n_inside, n_outside = (int(counts.sum()) for counts in (test.inside, test.outside))
            share = share_interval(int(test.inside[cell]), n_inside, confidence=confidence)
            rows.append(
                {
                    "attributes": test.name,
                    "combination": _words(test.names, cell),
                    "arm": test.arm,
                    "pictures": int(test.inside[cell]),
                    **columns("P", share, ends=""),
                    "P in the others": test.outside[cell] / n_outside,
                }
            )
    return table(CELLS, "Attributes crossed with the arms", rows, _CELLS)


def _mosaics(tests: Sequence[_Test]) -> Iterator[StudyFigure]:
    """Yield figures of the attributes with the clearest differences between arms, and of one pair of attributes."""
    by_name = dict[str, list[_Test]]()
    for test in tests:
        by_name.setdefault(test.name, []).append(test)
    ordered = sorted(by_name.values(), key=lambda some: min(map(_order, some)))
    alone = [some for some in ordered if len(some[0].names) == 1][:_MOST_FIGURES]
    for number, some in enumerate(alone + [some for some in ordered if len(some[0].names) == 2][:1], start=1):
        yield _mosaic(number, some)


def _mosaic(number: int, some: Sequence[_Test]) -> StudyFigure:
    names, total = some[0].names, some[0].inside + some[0].outside
    arms = {test.arm: test.inside for test in some}
    if some[0].other:
        arms = {some[0].other: some[0].outside, **arms}
    n, shares, cells = int(total.sum()), total / total.sum(), range(len(total))[::-1]
    rows = [
        {
            "column": arm,
            "row": _words(names, cell),
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
        names = listed(list(small))
        yield f"Small cells: fewer than 5 pictures of an arm are expected in a combination of {names}."
