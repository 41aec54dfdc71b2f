"""Attributes crossed: how often two or three occur together, compared with independent attributes."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bias_core.beyond.intersections.stereotypes import (
    ScoredCells,
    cell_in_words,
    decide_links,
    few_people,
    known_errors,
    link_sentence,
    score_results,
    score_stereotype_cells,
    stereotypes_named,
    to_odds_ratio,
)
from bias_core.measures.intersections import LEAST_EXPECTED, CrossedShares, Interaction, crossed_shares, interaction
from bias_core.measures.stereotype import signed_difference_estimate, stereotype_estimate
from bias_core.report.claims import NO_CLAIM, WHY_NOT, claim_columns, family_note
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.types import (
    ArmReport,
    Claim,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyTable,
    columns,
    figure,
    join_results,
    table,
)
from bias_core.types import Attribute, Estimate
from bias_core.wording import format_list, format_rate

MakeSample = Callable[[Sequence[str], np.ndarray], Sample]
CELLS, INTERACTIONS = "crossed", "interactions"
_MOST_FIGURES = 3
_HOW = (
    "P is shrunk towards the value for independent attributes, more so if it is uncertain; its interval is that of the "
    "counted share. P* of a combination is the product of the sourced rates of its attributes, as if they were "
    "independent in the real world."
)
_TESTS = (
    "For two attributes, the odds ratio is the odds of the second with the first, divided by those without it. For "
    "three, it is that odds ratio with the third, divided by that without it. 1: independent. p is exact (mid-p). "
    "Pictures are compared within prompts. Rarest cell: expected number of its pictures."
)


@dataclass(frozen=True, kw_only=True)
class _Crossed:
    """Numbers of two or three attributes together."""

    attributes: tuple[Attribute, ...]
    shares: CrossedShares
    link: Interaction
    sample: Sample  # data of P of all together
    n: int  # pictures
    scored: ScoredCells | None = None  # stereotype scores by the other attributes; None if none is about gender
    claim: Claim = NO_CLAIM  # on the link

    @property
    def name(self) -> str:
        return " × ".join(attribute.name for attribute in self.attributes)

    @property
    def is_small(self) -> bool:
        """True if too few pictures are expected in a cell."""
        return 0 < self.link.least_expected < LEAST_EXPECTED

    def cell_name(self, cell: np.ndarray) -> str:
        return cell_in_words(self.attributes, cell)

    def reference(self, cell: np.ndarray) -> float:
        """Return P* of a cell as the product of sourced rates; nan if one has no source."""
        if not all(attribute.has_source and attribute.reference is not None for attribute in self.attributes):
            return math.nan
        rates = [attribute.reference or 0.0 for attribute in self.attributes]
        return math.prod(rate if present else 1 - rate for rate, present in zip(rates, cell, strict=True))

    def share(self, place: int) -> Estimate:
        """Return P of a cell, shrunk."""
        return replace(self.shares.shares[place], value=float(self.shares.shrunk[place]))

    def second_with_first(self) -> tuple[float, float]:
        """Return the share of the second attribute with and without the first."""
        cells = np.array([share.value for share in self.shares.shares]).reshape(2, 2)
        with_, without = (float(row[1] / row.sum()) if row.sum() else math.nan for row in cells[::-1])
        return with_, without


def cross_attributes(
    scores: Sequence[AttributeScore],
    prompts: Sequence[str],
    units: Sequence[str],
    *,
    crossing: str,
    confidence: float,
    fixed_n: bool,
    sample: MakeSample,
) -> Results:
    """Return the results for combinations of these attributes, on pictures with these prompts and units.

    ``sample`` turns units and their values into a sample for comparing arms.
    """
    if not fixed_n:
        note = "Attributes are crossed only if the number of pictures was fixed beforehand."
        return Results(notes=(note,))
    readable = [score for score in scores if not math.isnan(score.prevalence.value)]
    sizes = (2, 3) if crossing == "triples" else (2,)
    combined = [
        new_crossing
        for size in sizes
        for combination in combinations(readable, size)
        if (new_crossing := _cross(combination, prompts, partial(sample, units), confidence)) is not None
    ]
    claims = decide_links([crossing.link for crossing in combined], confidence)
    crossings = [replace(crossing, claim=claim) for crossing, claim in zip(combined, claims, strict=True)]
    if not crossings:
        return Results(notes=("No attributes could be combined: the classifier can distinguish fewer than two.",))
    results = Results(
        findings=tuple(finding for crossing in crossings for finding in _findings(crossing)),
        tables=(_interaction_table(crossings), _cell_table(crossings)),
        figures=tuple(_mosaics(crossings)),
        notes=tuple(_notes(crossings)),
    )
    scored = [crossing.scored for crossing in crossings if crossing.scored]
    notes = (stereotypes_named(prompts), *few_people(scored)) if scored else ()
    return join_results(results, replace(score_results(scored, confidence), notes=notes))


def find_mosaics(arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """Yield for every arm its most clearly linked pair."""
    for number, arm in enumerate(arms, start=1):
        for mosaic in [chart for chart in arm.results.figures if chart.kind == "mosaic"][:1]:
            yield replace(mosaic, key=f"{mosaic.key}-{number}", title=f"{mosaic.title}, {arm.name}")


def crossed_headline(findings: Iterable[Finding]) -> str:
    """Return the clearest link of crossed attributes; "" if nothing was crossed."""
    tests = [finding for finding in findings if finding.metric == "interaction" and finding.p_value is not None]
    if not tests:
        return ""
    clear = [test for test in tests if test.is_clear]
    lead = min(clear or tests, key=lambda test: (test.p_value, -abs(test.estimate.value)))
    if len(tests) == 1:
        return f" {lead.says}"
    if not clear:
        closest = lead.says.removeprefix(f"{_UNCLEAR}: ")
        return f" None of {len(tests)} combinations of attributes shows a clear link. Closest: {closest}"
    return f" {lead.says} Clear links: {len(clear)} of {len(tests)} combinations of attributes."


_CLEAR, _UNCLEAR = "Clearly linked", "No clear link"


def _cross(
    scores: Sequence[AttributeScore], prompts: Sequence[str], sample: Callable[[np.ndarray], Sample], confidence: float
) -> _Crossed | None:
    """Return the crossing over pictures with known values of all attributes; None if there is none."""
    calls = np.column_stack([score.calls for score in scores])
    clear = np.flatnonzero(~np.isnan(calls).any(axis=1))
    if not len(clear):
        return None
    options: dict[str, Any] = {
        "strata": [prompts[int(i)] for i in clear],
        "errors": [known_errors(score) for score in scores],
        "confidence": confidence,
    }
    return _Crossed(
        attributes=tuple(score.attribute for score in scores),
        shares=crossed_shares(calls[clear], **options),
        link=interaction(calls[clear], **options),
        sample=sample(calls.prod(axis=1)),
        n=len(clear),
        scored=score_stereotype_cells(scores, prompts, sample, confidence),
    )


def _findings(crossing: _Crossed) -> Iterator[Finding]:
    names, key = " and ".join(a.name for a in crossing.attributes), f"crossed-{crossing.name}"
    yield Finding(
        key=f"{key}-together",
        title=f"{names} together: P",
        metric="crossed_share",
        estimate=crossing.share(-1),
        says=f"If the attributes were independent, it would be {format_rate(crossing.shares.expected[-1])}.",
        sample=crossing.sample,
    )
    yield Finding(
        key=f"{key}-interaction",
        title=f"{names}: log odds ratio"
        if len(crossing.attributes) == 2
        else f"{names}: log of the ratio of odds ratios",
        metric="interaction",
        estimate=crossing.link.estimate,
        claim=crossing.claim,
        says=link_sentence(_CLEAR, _UNCLEAR, _link_words(crossing), crossing.link, crossing.claim),
    )
    reference = crossing.reference(crossing.shares.cells[-1])
    if math.isnan(reference):
        return
    of_world = "the product of the real-world rates, as if they were independent"
    for end, metric, label, estimate in (
        ("difference", "signed_difference", "P − P*", signed_difference_estimate(crossing.share(-1), reference)),
        ("psi", "stereotype_score", "Ψ", stereotype_estimate(crossing.share(-1), reference)),
    ):
        yield Finding(
            key=f"{key}-{end}",
            title=f"{names} together: {label}",
            metric=metric,
            estimate=estimate,
            says=f"P* is {format_rate(reference)}: {of_world}.",
        )


def _link_words(crossing: _Crossed) -> str:
    """Return the link in shares, or of three attributes as a ratio."""
    names = [f"“{attribute.name}”" for attribute in crossing.attributes]
    if len(names) == 2:
        with_, without = (format_rate(share, "no picture") for share in crossing.second_with_first())
        return f"with {names[0]}, {names[1]} is seen in {with_}, without in {without}"
    return f"the odds ratio of {names[0]} and {names[1]} is {{}} times as large with {names[2]} as without"


def _cell_table(crossings: Sequence[_Crossed]) -> StudyTable:
    rows = []
    for crossing in crossings:
        for place, cell in enumerate(crossing.shares.cells):
            reference, share = crossing.reference(cell), crossing.share(place)
            rows.append(
                {
                    "attributes": crossing.name,
                    "combination": crossing.cell_name(cell),
                    "pictures": int(crossing.shares.counts[place]),
                    **columns("P", share, ends=""),
                    "P as counted": crossing.shares.shares[place].value,
                    "each by itself": float(crossing.shares.expected[place]),
                    **columns("excess", crossing.shares.excess[place]),
                    "P*": reference,
                    "P − P*": math.nan if math.isnan(reference) else share.value - reference,
                }
            )
    return table(CELLS, "Attributes seen together", rows, _HOW)


def _interaction_table(crossings: Sequence[_Crossed]) -> StudyTable:
    rows = [
        {
            "attributes": crossing.name,
            **columns("odds ratio", to_odds_ratio(crossing.link), ends=""),
            **claim_columns(crossing.link.estimate, crossing.claim),
            WHY_NOT: crossing.claim.reason,
            "rarest cell": crossing.link.least_expected,
            "pictures for 5 in it": crossing.shares.n_needed,
            "note": crossing.link.estimate.note,
        }
        for crossing in crossings
    ]
    note = f"{_TESTS} {family_note([crossing.claim for crossing in crossings])}"
    return table(INTERACTIONS, "Are attributes linked?", rows, note)


def _mosaics(crossings: Sequence[_Crossed]) -> Iterator[StudyFigure]:
    """Yield figures of the most clearly linked pairs."""
    pairs = [crossing for crossing in crossings if len(crossing.attributes) == 2]
    by_p = sorted(pairs, key=lambda pair: np.nan_to_num(pair.link.estimate.p_value, nan=2.0))
    for number, crossing in enumerate(by_p[:_MOST_FIGURES], start=1):
        first, second = (attribute.name for attribute in crossing.attributes)
        rows = [
            {
                "column": first if cell[0] else f"not {first}",
                "row": second if cell[1] else f"not {second}",
                "value": crossing.shares.shares[place].value,
                "n": int(crossing.shares.counts[place]),
                "small": bool(crossing.shares.expected[place] * crossing.n < LEAST_EXPECTED),
                "null": float(crossing.shares.expected[[1, 3]].sum()),
            }
            for place, cell in enumerate(crossing.shares.cells)
        ]
        yield figure(
            "mosaic",
            f"mosaic{number}",
            f"{first} and {second} together",
            pd.DataFrame(rows[::-1]),
            f"Column widths are the shares with and without “{first}”; each column is split by the share of “{second}” "
            "in it. If the two were independent, both columns would split at the dashed line. Hatched: fewer than 5 "
            "pictures expected.",
        )


def _notes(crossings: Sequence[_Crossed]) -> Iterator[str]:
    small = [crossing for crossing in crossings if crossing.is_small]
    if small:
        words = [f"“{crossing.name}” ({crossing.shares.n_needed:,} pictures would be enough)" for crossing in small]
        yield f"Small cells: fewer than 5 pictures are expected in a combination of {format_list(words)}."
