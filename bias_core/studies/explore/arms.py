"""Explorations in several arms: what is tested seed by seed, and the paired pictures of two arms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.alignment import alignment_score, decompose, spread_along
from bias_core.metrics.association import association
from bias_core.metrics.paired_association import Neutral, association_difference_test
from bias_core.metrics.paired_prevalence import PairedTest, corrected_difference, prevalence_difference_test
from bias_core.metrics.paired_variety import picture_change_estimate, variety_difference_tests
from bias_core.studies.arms.results import summary
from bias_core.studies.arms.samples import mean_sample
from bias_core.studies.arms.statistics import common_places
from bias_core.studies.explore.results import KINDS
from bias_core.studies.kit.types import Finding, Results, Sample, StudyFigure, StudyTable
from bias_core.studies.reports.number_text import format_number

if TYPE_CHECKING:
    from bias_core.metrics.paired_variety import VarietyTests
    from bias_core.studies.explore.results import Leaning
    from bias_core.studies.kit.attribute_scores import AttributeScore
    from bias_core.studies.kit.types import ArmReport, Design, StudyReport, StudySettings
    from bias_core.types import ReaderErrors

SEED_GIVES_ANOTHER = "The same seed gives"
"""How the note begins that says that pairs are no before and after."""
SEEDS = "seeds"
_NEW_PICTURE = 0.9  # share of the distance between seeds from which a change is as good as another seed
_MOST_DRAWN = 400  # pairs of different seeds in the figure of change
_MOST_IN_PAIRS = 4  # arms of which every pair is shown


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The scored pictures of one arm, as the comparison needs them.

    Of each picture its unit, id, seed and embedding (``rows``); the scores of every attribute on them, the
    directions of those the reader tells apart, and the tests of variety that were made for all at once.
    """

    units: tuple[str, ...]
    ids: tuple[str, ...]
    seeds: tuple[int, ...]
    rows: np.ndarray
    scores: tuple[AttributeScore, ...]
    errors: tuple[ReaderErrors | None, ...]
    directions: dict[str, np.ndarray]
    tests: dict[Any, VarietyTests] = field(default_factory=dict)

    def sample(self, end: str, name: str) -> Sample | None:
        """What a number of an attribute was computed from; None where the reader tells nothing."""
        place = [score.attribute.name for score in self.scores].index(name)
        score, errors = self.scores[place], self.errors[place]
        if name not in self.directions or math.isnan(score.prevalence.value):
            return None
        seen, reference = score.margins > 0, score.attribute.reference
        if end in ("wals", "spread"):
            return self._variety_sample(end, name)
        if end == "p":
            return mean_sample(self.units, seen)
        if end == "psi":
            return mean_sample(self.units, seen, reference=reference)
        if end == "corrected":
            return replace(mean_sample(self.units, seen, errors=errors), test=_corrected_test)
        shifted = mean_sample(self.units, seen - (reference or 0.0))
        return replace(shifted, test=_shifted_test)

    def _variety_sample(self, end: str, name: str) -> Sample:
        direction = self.directions[name]
        whole = decompose(self.rows) if len(self.rows) > 1 else None

        def statistic(places: np.ndarray) -> float:
            rows = self.rows[places]
            if len(np.unique(places)) < 2 or whole is None:
                return math.nan
            if end == "spread":
                return spread_along(rows, direction)
            return alignment_score(decompose(rows), direction)

        test = _alignment_test if end == "wals" else _spread_test
        return Sample(units=self.units, statistic=statistic, data=(self, name), test=test)


def association_sample(leaning: Leaning) -> Sample:
    """What the lean of a concept was computed from."""

    def statistic(places: np.ndarray) -> float:
        return float(association(leaning.rows[0][places], *leaning.rows[1:]).mean())

    return Sample(units=leaning.units[0], statistic=statistic, data=leaning, test=_association_test)


def _corrected_test(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, _seed: int
) -> PairedTest:
    """McNemar's difference, corrected; it has no test beside that of P."""
    a, b = first.data, second.data
    test = prevalence_difference_test(a.each[one] - 0.5, b.each[other] - 0.5, confidence=confidence)
    known = a.errors == b.errors and a.errors is not None
    estimate = corrected_difference(test.estimate, a.errors, confidence=confidence) if known else test.estimate
    if not known:
        estimate = replace(estimate, note="as read: the reader's errors are known for one arm only, or differ")
    return PairedTest(estimate=estimate, p_value=math.nan, test="as for P")


def _shifted_test(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, _seed: int
) -> PairedTest:
    """P − P* differs as P does."""
    seen = [(side.data.each[at] > 0) - 0.5 for side, at in ((first, one), (second, other))]
    test = prevalence_difference_test(*seen, confidence=confidence)
    return PairedTest(estimate=test.estimate, p_value=math.nan, test="as for P")


def _alignment_test(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, seed: int
) -> PairedTest:
    place, tests = _variety(first, second, one, other, confidence, seed)
    return tests.alignment[place]


def _spread_test(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, seed: int
) -> PairedTest:
    place, tests = _variety(first, second, one, other, confidence, seed)
    return tests.spread[place]


def _variety(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, seed: int
) -> tuple[int, VarietyTests]:
    """The tests of every attribute's variety, made once for two arms."""
    (a, name), (b, _) = first.data, second.data
    key = (id(b), one.tobytes(), other.tobytes(), confidence, seed)
    if key not in a.tests:
        deltas = np.stack(list(a.directions.values()))
        a.tests[key] = variety_difference_tests(a.rows[one], b.rows[other], deltas, confidence=confidence, rng=seed)
    return list(a.directions).index(name), a.tests[key]


def _association_test(
    first: Sample, second: Sample, one: np.ndarray, other: np.ndarray, confidence: float, _seed: int
) -> PairedTest:
    """On the seeds that both arms have, of the concept and of either word."""
    places = [(one, other)]
    for mine, theirs in zip(first.data.units[1:], second.data.units[1:], strict=True):
        _, at_mine, at_theirs = np.intersect1d(mine, theirs, return_indices=True)
        places.append((at_mine, at_theirs))
    names = ("targets", "attributes_a", "attributes_b")
    sides = [
        Neutral(**{name: side.data.rows[k][at[i]] for k, (name, at) in enumerate(zip(names, places, strict=True))})
        for i, side in enumerate((first, second))
    ]
    return association_difference_test(*sides, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """Two arms, seed by seed: the places of the seeds that both have."""

    first: str
    second: str
    a: Scored
    b: Scored
    at_first: np.ndarray
    at_second: np.ndarray

    @property
    def name(self) -> str:
        return f"{self.first} – {self.second}"

    @property
    def cosines(self) -> np.ndarray:
        rows = (self.a.rows[self.at_first], self.b.rows[self.at_second])
        cosines: np.ndarray = np.einsum("nd,nd->n", *(side.astype(np.float64) for side in rows))
        return cosines

    @property
    def change_elsewhere(self) -> float:
        """One minus the mean cosine of pictures of different seeds."""
        rows = (self.a.rows[self.at_first], self.b.rows[self.at_second])
        n = len(self.at_first)
        together = float(rows[0].sum(axis=0, dtype=np.float64) @ rows[1].sum(axis=0, dtype=np.float64))
        return 1 - (together - float(self.cosines.sum())) / (n * (n - 1))


def compare_explorations(design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:  # noqa: ARG001
    """The paired pictures of the arms, and the figures of a comparison."""
    pairs = list(_pairs(arms))
    if not pairs:
        return Results()
    return Results(
        findings=tuple(_change(pair, several=len(pairs) > 1) for pair in pairs),
        tables=(_seed_table(pairs),),
        figures=tuple(figure for figure in _figures(arms, pairs, settings.confidence) if not figure.data.empty),
        notes=tuple(_notes(pairs)),
    )


def _pairs(arms: Sequence[ArmReport]) -> Iterator[_Pair]:
    for i, j in combinations(range(len(arms)), 2):
        a, b = (arms[k].results.scored for k in (i, j))
        if (len(arms) > _MOST_IN_PAIRS and i) or not (isinstance(a, Scored) and isinstance(b, Scored)):
            continue
        paired, (one, other) = common_places(_of(a), _of(b))
        if paired and len(one) > 1:
            yield _Pair(first=arms[i].name, second=arms[j].name, a=a, b=b, at_first=one, at_second=other)


def _of(scored: Scored) -> Sample:
    return Sample(units=scored.units, statistic=lambda _places: math.nan)


def _change(pair: _Pair, *, several: bool) -> Finding:
    of = f", {pair.first} to {pair.second}" if several else ""
    return Finding(
        key=f"change: {pair.second} - {pair.first}",
        title=f"Change of the picture of a seed{of}",
        metric="picture_change",
        estimate=picture_change_estimate(pair.cosines),
        says=f"Pictures of different seeds of the two lie {format_number(pair.change_elsewhere)} apart.",
    )


def _seed_table(pairs: Sequence[_Pair]) -> StudyTable:
    return StudyTable(
        key=SEEDS,
        title="Seed by seed",
        frame=pd.concat([_seed_frame(pair) for pair in pairs], ignore_index=True),
        note="Change: one minus the cosine of the two pictures. Each attribute: whether the reader sees it, "
        "in the first and in the second.",
    )


def _seed_frame(pair: _Pair) -> pd.DataFrame:
    """One row per seed of a pair of arms, the most changed first."""
    columns: dict[str, Any] = {
        "first": pair.first,
        "second": pair.second,
        "seed": [pair.a.seeds[i] for i in pair.at_first],
        "change": 1 - pair.cosines,
    }
    words = np.array(["no", "yes"])
    for before, after in zip(pair.a.scores, pair.b.scores, strict=True):
        places = ((before, pair.at_first), (after, pair.at_second))
        seen = [words[(score.margins[at] > 0).astype(int)] for score, at in places]
        columns[before.attribute.name] = [f"{one} → {other}" for one, other in zip(*seen, strict=True)]
    columns |= {
        "first picture": [pair.a.ids[i] for i in pair.at_first],
        "second picture": [pair.b.ids[i] for i in pair.at_second],
    }
    return pd.DataFrame(columns).sort_values("change", ascending=False, kind="stable", ignore_index=True)


def _figures(arms: Sequence[ArmReport], pairs: Sequence[_Pair], confidence: float) -> Iterator[StudyFigure]:
    scores = [
        (arm.name, score)
        for arm in arms
        if isinstance(arm.results.scored, Scored)
        for score in arm.results.scored.scores
    ]
    yield StudyFigure(
        key="shares",
        title="How often is each attribute seen?",
        kind="pairs",
        data=pd.DataFrame([_share(name, score) for name, score in scores]),
        labels={"x": "share of the pictures, P", "reference": "rate in the world, P*"},
        caption="One dot per arm with its interval; the line between them is what changes. Diamonds: the "
        "real-world rate, or the rate that was chosen where nobody knows it.",
    )
    places = range(len(arms[0].results.scored.scores))
    gaps = [_gap(pair, i, confidence, several=len(pairs) > 1) for pair in pairs for i in places]
    yield StudyFigure(
        key="differences",
        title="Difference of P on the same seeds",
        kind="intervals",
        data=pd.DataFrame([gap for gap in gaps if gap]),
        labels={"x": "second less first", "null": 0.0},
        caption="An interval that holds the line at 0 leaves the direction open. It is paired: seeds on "
        "which both arms show the same add nothing.",
    )
    plane = pd.DataFrame([_point(name, score) for name, score in scores])
    yield StudyFigure(
        key="plane",
        title="Stereotype and variety (Fig. 5 of OASIS)",
        kind="scatter",
        data=plane.dropna(subset=["x", "y"]) if len(plane) else plane,
        labels={"x": "variety along the attribute, WALS", "y": "stereotype score Ψ", "join": True},
        caption="Towards the lower right: less over-represented and more varied. An arm can lower Ψ at the "
        "cost of variety, which one number alone would not show. WALS moves with the number of pictures.",
    )
    yield _change_figure(pairs)


def _change_figure(pairs: Sequence[_Pair]) -> StudyFigure:
    return StudyFigure(
        key="change",
        title="How far does the picture of a seed change?",
        kind="distributions",
        data=pd.concat([_changes(pair) for pair in pairs], ignore_index=True),
        labels={"x": "one minus the cosine of the two pictures"},
        caption="Where the two rows look alike, the same seed gives another picture: the pairs are then no "
        "before and after, but two draws.",
    )


def _share(arm: str, score: AttributeScore) -> dict[str, Any]:
    share, reference = score.prevalence, score.attribute.reference
    return {
        "name": score.attribute.name,
        "group": arm,
        "value": share.value,
        "low": share.low,
        "high": share.high,
        "reference": math.nan if reference is None else reference,
    }


def _gap(pair: _Pair, place: int, confidence: float, *, several: bool) -> dict[str, Any]:
    before, after = pair.a.scores[place], pair.b.scores[place]
    if math.isnan(before.prevalence.value) or math.isnan(after.prevalence.value):
        return {}
    margins = before.margins[pair.at_first], after.margins[pair.at_second]
    estimate = prevalence_difference_test(*margins, confidence=confidence).estimate
    name = before.attribute.name
    return {
        "name": f"{name}: {pair.second} − {pair.first}" if several else name,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
    }


def _point(arm: str, score: AttributeScore) -> dict[str, Any]:
    x, y = score.wals, score.stereotype
    ends = {"xlow": x.low, "xhigh": x.high, "ylow": y.low, "yhigh": y.high}
    return {"name": score.attribute.name, "group": arm, "x": x.value, "y": y.value, **ends}


def _changes(pair: _Pair) -> pd.DataFrame:
    """Changes on the same seed, and between random different seeds of the same two arms."""
    rng = np.random.default_rng(0)  # only chooses what is drawn
    i, j = (rng.integers(0, len(side.seeds), size=_MOST_DRAWN) for side in (pair.a, pair.b))
    apart = np.array(pair.a.units)[i] != np.array(pair.b.units)[j]
    cosines = np.einsum("nd,nd->n", pair.a.rows[i[apart]], pair.b.rows[j[apart]])
    groups = [f"{pair.name}, same seed"] * len(pair.at_first) + [f"{pair.name}, other seeds"] * len(cosines)
    return pd.DataFrame({"group": groups, "value": np.concatenate([1 - pair.cosines, 1 - cosines])})


def _notes(pairs: Sequence[_Pair]) -> Iterator[str]:
    for pair in pairs:
        if (1 - pair.cosines).mean() >= _NEW_PICTURE * pair.change_elsewhere:
            yield (
                f"{SEED_GIVES_ANOTHER} “{pair.first}” and “{pair.second}” pictures that are as far apart as "
                "those of different seeds. The comparison stays right, but a pair shows no before and after, "
                "and pairing makes nothing sharper."
            )


def arms_summary(report: StudyReport) -> str:
    """What a comparison of explorations found, in a sentence or two: the clearest share first."""
    frame = next(table.frame for table in report.results.tables if table.key == "differences")
    if frame.empty or not frame["p adjusted"].notna().any():
        return summary(report)
    shares = frame[frame["finding"].str.endswith(f": {KINDS['p'].label}")]
    clear = shares[shares["clear"] == "yes"]
    n_clear = int((frame["clear"] == "yes").sum())
    if not n_clear:
        reach = (shares["high"] - shares["low"]).max() / 2 if len(shares) else math.nan
        wide = f" With {frame['n'].max()} seeds a gap of up to about {100 * reach:.0f} points can hide."
        return summary(report) + (wide if reach > 0 else "")
    if clear.empty:
        return summary(report)
    row = clear.sort_values("difference", key=abs, ascending=False).iloc[0]
    name, gap = row["finding"].rpartition(": ")[0], [100 * row[end] for end in ("difference", "low", "high")]
    return (
        f"“{name}” is seen in {row['value first']:.0%} of the pictures of “{row['first']}” and in "
        f"{row['value second']:.0%} of “{row['second']}”, on the same {row['n']} seeds: "
        f"{gap[0]:+.0f} points [{gap[1]:+.0f}, {gap[2]:+.0f}]. {n_clear} of "
        f"{int(frame['p adjusted'].notna().sum())} differences are clear after correction for looking at all."
    )
