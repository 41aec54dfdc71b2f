"""Attributes crossed with the arms: is what is seen, or how two attributes go together, another in one of them?"""

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
_CELLS = "P is the share of the arm's pictures; beside it that of all other arms together."
_TESTS = (
    "Each arm against all others together. Of one attribute the odds ratio: how many times larger its odds are in this "
    "arm. Of two: how many times larger the odds ratio of the two is in this arm. 1: the arm is as the others. p is "
    "exact (mid-p), and adjusted for looking at all arms and attributes (Holm). It takes pictures of a seed in two "
    "arms as independent: where they are alike it is larger than need be. Rarest cell: pictures to be expected in it."
)
_OF_TWO = "arms-two-"
_CLEAR, _UNCLEAR = "More than chance: ", "Not told from chance: "


@dataclass(frozen=True, kw_only=True)
class _Test:
    """One arm against the others, of one attribute or of two together."""

    arm: str
    other: str  # the other arm, or "" for several
    names: tuple[str, ...]  # of the attributes
    inside: np.ndarray  # (2^k,) pictures of the arm in every combination, in binary order
    outside: np.ndarray  # (2^k,) of the others
    link: Interaction
    adjusted: float = math.nan  # p after Holm

    @property
    def name(self) -> str:
        """The attributes that are crossed with the arm, for tables."""
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
    """Return the two attributes that go together otherwise in an arm; "" if none were crossed with the arms."""
    tests = [one for one in findings if one.key.startswith(_OF_TWO) and one.p_value is not None]
    clear = [one for one in tests if one.says.startswith(_CLEAR)]
    if clear:
        return f" {min(clear, key=lambda one: one.p_value or 0.0).says}"
    return " No two attributes go together otherwise in one of the arms, as far as can be told." if tests else ""


def _tests(arms: Mapping[str, Sequence[AttributeScore]], of: Sequence[int], confidence: float) -> Iterator[_Test]:
    """Yield the test of every arm; of two arms that of the second alone."""
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
    """Yield for every attribute, and every two, the arm that differs most clearly."""
    for name in dict.fromkeys(one.name for one in tests):
        lead = min((one for one in tests if one.name == name), key=_order)
        is_known = not math.isnan(lead.adjusted)
        yield Finding(
            key=f"{_OF_TWO if len(lead.names) == 2 else 'arms-'}{name}",
            title=f"{name} and the arm “{lead.arm}”: {_WHAT[len(lead.names)]}",
            metric="interaction",
            estimate=lead.link.estimate,
            p_value=lead.adjusted if is_known else None,
            says=_says(lead, confidence) if is_known else f"Nothing can be told: {lead.link.estimate.note}.",
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
    """The attributes of a combination, by its number in binary order."""
    present = (cell >> np.arange(len(names))[::-1]) & 1
    return ", ".join(name if here else f"not {name}" for name, here in zip(names, present, strict=True))


def _test_table(tests: Sequence[_Test]) -> StudyTable:
    rows = [
        {
            "attributes": one.name,
            "arm": one.arm,
            **{
                name: math.exp(min(end, 700.0))
                for name, end in columns("odds ratio", one.link.estimate, ends="").items()
            },
            "p": one.link.p_value,
            "p adjusted": one.adjusted,
            "rarest cell": one.link.least_expected,
            "note": one.link.estimate.note,
        }
        for one in tests
    ]
    return table(TESTS, "Is it another one in one of the arms?", rows, _TESTS)


def _cell_table(tests: Sequence[_Test], confidence: float) -> StudyTable:
    """Return each attribute and combination of two in every arm; of two arms a line has both."""
    rows = []
    for one in tests:
        for cell in range(len(one.inside)):
            n_inside, n_outside = (int(counts.sum()) for counts in (one.inside, one.outside))
            share = share_interval(int(one.inside[cell]), n_inside, confidence=confidence)
            rows.append(
                {
                    "attributes": one.name,
                    "combination": _words(one.names, cell),
                    "arm": one.arm,
                    "pictures": int(one.inside[cell]),
                    **columns("P", share, ends=""),
                    "P in the others": one.outside[cell] / n_outside,
                }
            )
    return table(CELLS, "Attributes crossed with the arms", rows, _CELLS)


def _mosaics(tests: Sequence[_Test]) -> Iterator[StudyFigure]:
    """The attributes in which arms differ most clearly, and the two that go together otherwise."""
    by_name = dict[str, list[_Test]]()
    for one in tests:
        by_name.setdefault(one.name, []).append(one)
    ordered = sorted(by_name.values(), key=lambda some: min(map(_order, some)))
    alone = [some for some in ordered if len(some[0].names) == 1][:_MOST_FIGURES]
    for number, some in enumerate(alone + [some for some in ordered if len(some[0].names) == 2][:1], start=1):
        yield _mosaic(number, some)


def _mosaic(number: int, some: Sequence[_Test]) -> StudyFigure:
    names, total = some[0].names, some[0].inside + some[0].outside
    arms = {one.arm: one.inside for one in some}
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
        f"A column for each arm, parted by the shares of its pictures. If “{names[0]}” had nothing to do with the arm, "
        "all would be parted at the dashed line. Hatched: fewer than 5 pictures to be expected."
    )
    return figure("mosaic", f"arms{number}", f"{' and '.join(names)} in every arm", rows, caption)


def _notes(tests: Sequence[_Test]) -> Iterator[str]:
    small = dict.fromkeys(f"“{one.name}”" for one in tests if 0 < one.link.least_expected < LEAST_EXPECTED)
    if small:
        names = listed(list(small))
        yield f"Small cells: fewer than 5 pictures of an arm are to be expected in a combination of {names}."
