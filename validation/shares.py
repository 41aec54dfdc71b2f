"""False verdicts on a share at its P*: their rate, computed without pictures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bias_core.explore.report import share_claims
from bias_core.measures.intervals import exact_interval, wilson_interval
from bias_core.measures.stereotype import prevalence_estimate
from bias_core.report.headlines import NO_PICTURES
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.attributes import load_attribute_sets
from bias_core.study.types import StudyFigure, StudyTable
from bias_core.types import Attribute, Estimate
from validation.verdicts import NOMINAL, READS_BIAS, TEXTS, Verdict, label_of

SIZES = (8, 16, 32, 64)
"""Numbers of pictures of a share."""
NULLS = tuple(round(0.05 + 0.01 * k, 2) for k in range(91))
"""Values of P*."""
GAPS = (0.0, 0.2, 0.3)
"""Gaps from P* to the true share."""
DEFAULTS = (16, 60)
"""The app's default numbers of pictures of a concept: alone, and in each arm of a comparison."""
EXACT, WILSON = "exact test", "Wilson interval"
RULES: Mapping[str, str] = {WILSON: "stereotype_score", EXACT: "signed_difference"}
"""Rules for a verdict, the former one and the app's, each with its measure."""
_EXAMPLE = 16, 0.5  # pictures and P* of the rates that a verdict tells

Calls = Callable[[Sequence[int]], bool]
"""Takes the count of each attribute; returns True if any is called different."""


@dataclass(frozen=True, kw_only=True)
class FalseVerdicts:
    """Tables, figures and verdicts of a report."""

    verdicts: tuple[Verdict, ...]
    tables: tuple[StudyTable, ...]
    figures: tuple[StudyFigure, ...]


def false_verdicts(n_draws: int) -> FalseVerdicts:
    """Rates of false verdicts on a share (enumerated) and on any attribute of a headline (simulated), and power."""
    cells = pd.DataFrame(_rates(n, null) for n, null in product(SIZES, NULLS))
    by_size = cells.groupby("pictures")[[*RULES]]
    rates = by_size.mean().add_suffix(", mean").join(by_size.max().add_suffix(", most")).reset_index()
    power = pd.DataFrame(_rates(n, 0.5, gap) for n, gap in product(SIZES[1:], GAPS[1:]))
    headlines = pd.DataFrame(_headlines(n_draws))
    rows = {
        "false-verdicts": rates,
        "any-attribute": headlines,
        "power": power,
        "every-rate": cells.drop(columns="gap"),
    }
    return FalseVerdicts(
        verdicts=(*_on_shares(cells), *_on_headlines(headlines, n_draws)),
        tables=tuple(TEXTS.table(key, frame) for key, frame in rows.items()),
        figures=tuple(_figure(cells, rule) for rule in RULES),
    )


def _rates(n: int, null: float, gap: float = 0.0) -> dict[str, float]:
    """Share of runs in which either rule calls a share of ``n`` pictures different from a P* ``gap`` below it."""
    probabilities = stats.binom.pmf(np.arange(n + 1), n, null + gap)
    line = {"pictures": n, "P*": null, "gap": gap}
    for rule, calls in rules([_attribute(null)], n).items():
        line[rule] = float(sum(p for k, p in enumerate(probabilities) if calls([k])))
    return line


def rules(attributes: Sequence[Attribute], n: int) -> dict[str, Calls]:
    """Both rules for ``n`` pictures: a share's interval leaves out its P*, and the app's own verdicts."""
    scores = [[_score(one, k, n) for k in range(n + 1)] for one in attributes]
    beyond = [[_leaves_out(wilson_interval(k, n), one.reference) for k in range(n + 1)] for one in attributes]
    return {
        WILSON: lambda counts: any(of[k] for of, k in zip(beyond, counts, strict=True)),
        EXACT: lambda counts: any(
            claim.is_clear for claim in share_claims([of[k] for of, k in zip(scores, counts, strict=True)], NOMINAL)
        ),
    }


def _leaves_out(share: Estimate, null: float | None) -> bool:
    return null is not None and not share.low <= null <= share.high


def _attribute(null: float) -> Attribute:
    return Attribute(name="a", positive="a", negative="b", reference=null, reference_source="planted")


def _score(attribute: Attribute, k: int, n: int) -> AttributeScore:
    """Score of an attribute that ``k`` of ``n`` pictures show."""
    shown, nothing = (np.arange(n) < k).astype(float), Estimate.undefined(n, "counts alone")
    other = np.full(n, 0.5)
    return AttributeScore(
        attribute=attribute,
        prevalence=prevalence_estimate(shown, other, reference=attribute.reference, confidence=NOMINAL),
        stereotype=nothing,
        signed_difference=nothing,
        variance_share=nothing,
        wals=nothing,
        similarity_positive=shown,
        similarity_negative=other,
    )


def _headlines(n_draws: int) -> Iterator[dict[str, Any]]:
    """Each built-in set with several sourced attributes, with counts drawn at their P*."""
    for (concept, attributes), n in product(_sourced().items(), DEFAULTS):
        line = {"concept": concept, "attributes": len(attributes), "pictures": n}
        yield line | rates_of_any(attributes, n, n_draws)


def _sourced() -> dict[str, list[Attribute]]:
    sets = {one.concept_hint: [a for a in one.attributes if a.has_source] for one in load_attribute_sets()}
    return {concept: attributes for concept, attributes in sets.items() if len(attributes) > 1}


def rates_of_any(attributes: Sequence[Attribute], n: int, n_draws: int, gap: float = 0.0) -> dict[str, float]:
    """Share of draws in which either rule calls any attribute different; true shares lie ``gap`` above their P*."""
    rng = np.random.default_rng(0)
    counts = rng.binomial(n, [(one.reference or 0.0) + gap for one in attributes], (n_draws, len(attributes)))
    distinct, times = np.unique(counts, axis=0, return_counts=True)
    return {
        rule: float(sum(times[i] for i, of in enumerate(distinct) if calls(of)) / n_draws)
        for rule, calls in rules(attributes, n).items()
    }


def _on_shares(cells: pd.DataFrame) -> Iterator[Verdict]:
    n, null = _EXAMPLE
    means = [_rates(n, null, gap) for gap in GAPS]
    for rule in RULES:
        low, high = float(cells[rule].min()), float(cells[rule].max())
        rate = Estimate(value=high, low=low, high=high, n=len(cells), null_value=1 - NOMINAL)
        yield _verdict(rule, "a verdict", f"{NO_PICTURES}: the worst share at its P*", rate, means)


def _on_headlines(headlines: pd.DataFrame, n_draws: int) -> Iterator[Verdict]:
    attributes = next(iter(_sourced().values()))
    means = [rates_of_any(attributes, DEFAULTS[0], n_draws, gap) for gap in GAPS]
    for rule in RULES:
        count = round(n_draws * float(headlines[rule].max()))
        rate = exact_interval(count, n_draws, null_value=1 - NOMINAL)
        yield _verdict(rule, "any verdict of a headline", f"{NO_PICTURES}: attributes at their P*", rate, means)


def _verdict(rule: str, what: str, planted: str, rate: Estimate, rates: Sequence[Mapping[str, float]]) -> Verdict:
    """Verdict: passes if even the largest rate of false verdicts is at most the level; ``rates`` rise with the gap."""
    measure, means = RULES[rule], tuple(one[rule] for one in rates)
    return Verdict(
        measure=measure,
        label=label_of(measure, f"{what} by the {rule}"),
        planted=planted,
        coverage=None,
        false_alarms=rate,
        means=means,
        follows=all(np.diff(means) > 0),
        says="passes" if rate.value <= 1 - NOMINAL else f"fails: {READS_BIAS}",
    )


def _figure(cells: pd.DataFrame, rule: str) -> StudyFigure:
    """Figure with a line for each number of pictures."""
    rows = cells.assign(group=[f"{n:g} pictures" for n in cells["pictures"]], x=cells["P*"], value=cells[rule])
    figure = TEXTS.figure("false-verdicts", rows[["group", "x", "value"]], {"null": 1 - NOMINAL}, rule=rule)
    return replace(figure, key=f"{figure.key}-{rule}".replace(" ", "-"))
