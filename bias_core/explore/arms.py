"""Compare arms of an exploration: tests seed by seed, and the paired pictures of two arms."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bias_core.explore.exploration import FIDELITY, AssociationScore
from bias_core.explore.extension import ScoredPictures
from bias_core.explore.report import share_mark, yes_or_no
from bias_core.measures.alignment import resampled_variance_shares
from bias_core.measures.arrays import unit_rows
from bias_core.measures.association import Neutral, association_difference_test
from bias_core.measures.paired_prevalence import (
    PairedTest,
    picture_change_estimate,
    prevalence_difference_test,
    variety_difference_tests,
)
from bias_core.measures.sequential import difference_sequence
from bias_core.report.arm_comparison import MOST_IN_PAIRS, mean_sample, share_test
from bias_core.run.attribute_scores import AttributeScore
from bias_core.study.types import (
    ArmReport,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudySettings,
    drawable,
    figure,
    mark,
    point,
    table,
)
from bias_core.types import Estimate
from bias_core.wording import format_number

SEED_GIVES_ANOTHER = "The same seed gives"  # how the note begins that says that pairs are no before and after
SEEDS = "seeds"
_NEW_PICTURE = 0.9  # share of the distance between seeds above which a change counts as another picture
_MOST_DRAWN = 400  # pairs of different seeds in the figure of change


@dataclass(frozen=True, kw_only=True, eq=False)  # a key of `tests`
class Scored(ScoredPictures):
    """Scored pictures of one arm with their ids and seeds, and tests of variety."""

    ids: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: Mapping[str, tuple[AttributeScore, ...]] = field(default_factory=dict)  # the same of single concepts
    fidelity: Estimate | None = None  # share of pictures that show their prompt's word of the association
    tests: dict[Any, tuple[PairedTest, ...]] = field(default_factory=dict)
    shares: dict[bytes, np.ndarray] = field(default_factory=dict)  # of variance, by places, see `_variance_share`

    @property
    def directions(self) -> dict[str, np.ndarray]:
        """Directions from absence to presence, of the attributes that the encoder can distinguish."""
        return {score.attribute.name: score.direction for score in self.scores if score.direction is not None}

    def sample(self, end: str, of: AttributeScore | AssociationScore) -> Sample | None:
        """Return the sample of a number by its key; None for WALS, true P and undefined numbers."""
        if not isinstance(of, AttributeScore):
            if end == FIDELITY:
                units = [
                    f"{side}:{unit}" for side, side_units in zip("ab", of.units[1:], strict=True) for unit in side_units
                ]
                return mean_sample(units, np.concatenate(of.calls))
            return Sample(units=of.units[0], statistic=of.compute_mean, data=of, test=_association_test)
        if end == "unclear":
            return mean_sample(self.units, np.isnan(of.margins))
        if end in ("wals", "true") or (of.direction is None if end == "variance" else math.isnan(of.prevalence.value)):
            return None
        if end == "variance":
            statistic = partial(_variance_share, self, list(self.directions).index(of.attribute.name))
            data = (self, of.attribute.name)
            return Sample(units=self.units, statistic=statistic, vectorised=True, data=data, test=_variety_test)
        present, reference = of.calls, of.attribute.reference
        if end == "psi":
            return mean_sample(self.units, present, reference=reference)
        if end == "p":
            return mean_sample(self.units, present)
        if end == "corrected":
            return replace(mean_sample(self.units, of.margins > 0, errors=of.errors), test=share_test)
        return replace(mean_sample(self.units, present, rate=reference or 0.0), test=share_test)


def _variety_test(
    first: Sample, second: Sample, first_places: np.ndarray, second_places: np.ndarray, confidence: float, seed: int
) -> PairedTest:
    """Test one attribute's variety; the tests of all attributes are computed once per two arms."""
    (a, attribute), (b, _) = first.data, second.data
    key = (b, first_places.tobytes(), second_places.tobytes(), confidence, seed)
    if key not in a.tests:
        deltas = np.stack(list(a.directions.values()))
        a.tests[key] = variety_difference_tests(
            a.rows[first_places], b.rows[second_places], deltas, confidence=confidence
        )
    tests: tuple[PairedTest, ...] = a.tests[key]
    return tests[list(a.directions).index(attribute)]


def _variance_share(scored: Scored, attribute: int, places: np.ndarray) -> np.ndarray:
    """Return the share for pictures ``(m,)`` or ``(k, m)``; nan if they do not vary."""
    drawn = np.atleast_2d(places)
    key = blake2b(drawn.tobytes()).digest()
    if key not in scored.shares:  # computed for all attributes at once
        n, deltas = len(scored.rows), unit_rows(list(scored.directions.values()))
        weights = np.stack([np.bincount(row, minlength=n) for row in drawn])
        scored.shares[key] = resampled_variance_shares(scored.rows, deltas, weights)
    return scored.shares[key][:, attribute].reshape(places.shape[:-1])


def _association_test(
    first: Sample, second: Sample, first_places: np.ndarray, second_places: np.ndarray, confidence: float, _seed: int
) -> PairedTest:
    """Test the association on the seeds that both arms share, for the concept and for either word."""
    places = [(first_places, second_places)]
    for mine, theirs in zip(first.data.units[1:], second.data.units[1:], strict=True):
        places.append(np.intersect1d(mine, theirs, return_indices=True)[1:])
    sides = []
    for i, side in enumerate((first, second)):
        x, a, b = (rows[at[i]] for rows, at in zip(side.data.rows, places, strict=True))
        sides.append(Neutral(targets=x, attributes_a=a, attributes_b=b))
    return association_difference_test(*sides, confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class PairedArms:
    """Two arms with the indices of their shared seeds."""

    first: str
    second: str
    a: Scored
    b: Scored
    at_first: np.ndarray
    at_second: np.ndarray

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings of these seeds in both arms."""
        return self.a.rows[self.at_first].astype(np.float64), self.b.rows[self.at_second].astype(np.float64)

    @cached_property
    def cosines(self) -> np.ndarray:
        """The cosine of both pictures of each seed."""
        cosines: np.ndarray = np.einsum("nd,nd->n", *self.rows)
        return cosines

    @property
    def change_elsewhere(self) -> float:
        """One minus the mean cosine of pictures of different seeds."""
        rows, n = self.rows, len(self.at_first)
        return 1 - (float(rows[0].sum(axis=0) @ rows[1].sum(axis=0)) - float(self.cosines.sum())) / (n * (n - 1))

    @property
    def is_two_draws(self) -> bool:
        """True if the pictures of a seed are as far apart as those of different seeds."""
        return bool((1 - self.cosines).mean() >= _NEW_PICTURE * self.change_elsewhere)


def compare_explorations(settings: StudySettings, arms: Sequence[ArmReport], *, are_before_and_after: bool) -> Results:
    """Return the paired pictures of the arms and the figures of their comparison; empty if no two arms share two seeds.

    ``are_before_and_after``: True if a seed should give versions of the same picture in every arm.
    """
    pairs = list(paired_arms(arms))
    if not pairs:
        return Results()
    seeds = table(
        SEEDS,
        "Seed by seed",
        pd.concat([_seed_frame(pair) for pair in pairs], ignore_index=True),
        "Change: one minus the cosine of the two pictures. Attributes: does the classifier see it in the first "
        "and in the second picture?",
    )
    return Results(
        findings=tuple(_build_change(pair, several=len(pairs) > 1) for pair in pairs),
        tables=(seeds,),
        figures=drawable(_figures(arms, pairs, settings)),
        notes=tuple(_note_unlike_pairs([pair for pair in pairs if pair.is_two_draws])) if are_before_and_after else (),
    )


def scored_arms(arms: Sequence[ArmReport]) -> dict[str, Scored]:
    """Return the scored pictures of each arm that has any, by its name."""
    return {arm.name: arm.results.scored for arm in arms if isinstance(arm.results.scored, Scored)}


def _note_unlike_pairs(pairs: Sequence[PairedArms]) -> Iterator[str]:
    """Yield one note on the arms that draw other pictures on the same seed."""
    if pairs:
        yield (
            "The same seed gives pictures that are as far apart as those of different seeds in "
            f"{'; '.join(f'“{pair.first}” and “{pair.second}”' for pair in pairs)}. The comparison stays valid, but a "
            "pair does not show before and after, and pairing does not make intervals narrower."
        )


def paired_arms(arms: Sequence[ArmReport]) -> Iterator[PairedArms]:
    """Yield all pairs of arms that share at least two seeds; with many arms, only pairs with the first one."""
    for i, j in combinations(range(len(arms)), 2):
        a, b = (arms[k].results.scored for k in (i, j))
        if (len(arms) > MOST_IN_PAIRS and i) or not (isinstance(a, Scored) and isinstance(b, Scored)):
            continue
        place = {unit: k for k, unit in enumerate(b.units)}
        shared = [(k, place[unit]) for k, unit in enumerate(a.units) if unit in place]
        if len(shared) > 1:
            first_places, second_places = np.transpose(shared)
            yield PairedArms(
                first=arms[i].name, second=arms[j].name, a=a, b=b, at_first=first_places, at_second=second_places
            )


def _build_change(pair: PairedArms, *, several: bool) -> Finding:
    of = f", {pair.first} to {pair.second}" if several else ""
    return Finding(
        key=f"change: {pair.second} - {pair.first}",
        title=f"Change of pictures with the same seed{of}",
        metric="picture_change",
        estimate=picture_change_estimate(pair.cosines),
        says=f"Pictures of different seeds in the two arms differ by {format_number(pair.change_elsewhere)}.",
    )


def _seed_frame(pair: PairedArms) -> pd.DataFrame:
    first_places, second_places = pair.at_first, pair.at_second
    columns: dict[str, Any] = {
        "first": pair.first,
        "second": pair.second,
        "seed": np.array(pair.a.seeds)[first_places],
        "change": np.round(1 - pair.cosines, 6) + 0.0,  # rounded, or equal pictures would differ by float32 errors
    }
    for before, after in zip(pair.a.scores, pair.b.scores, strict=True):
        words = zip(yes_or_no(before)[first_places], yes_or_no(after)[second_places], strict=True)
        columns[before.attribute.name] = [" → ".join(answers) for answers in words]
    columns |= {
        "first picture": np.array(pair.a.ids)[first_places],
        "second picture": np.array(pair.b.ids)[second_places],
    }
    return pd.DataFrame(columns).sort_values("change", ascending=False, kind="stable", ignore_index=True)


def _figures(arms: Sequence[ArmReport], pairs: Sequence[PairedArms], settings: StudySettings) -> Iterator[StudyFigure]:
    fixed_n = not settings.may_stop_early
    scores = [(name, score) for name, scored in scored_arms(arms).items() for score in scored.scores]
    yield figure(
        "pairs",
        "shares",
        "How often is each attribute seen?",
        [share_mark(score, group=name) for name, score in scores],
        "One dot per arm (one of the compared settings) with its interval; the line shows the change. Diamonds: "
        "real-world rate; circles: assumed rate, without a source.",
        x="share of pictures, P",
        reference="real-world rate",
    )
    yield figure(
        "intervals",
        "differences",
        "Difference in share P on the same seeds",
        [gap for pair in pairs for gap in _gaps(pair, settings.confidence, fixed_n=fixed_n, several=len(pairs) > 1)],
        "If an interval includes 0, the direction is not clear. Differences are paired by seed: seeds with the same "
        "answer in both arms add nothing.",
        x="second arm minus first arm",
        null=0.0,
    )
    yield from _variety_figures(scores, pairs)


def _variety_figures(
    scores: Sequence[tuple[str, AttributeScore]], pairs: Sequence[PairedArms]
) -> Iterator[StudyFigure]:
    yield figure(
        "scatter",
        "plane",
        "Over-representation and variety (after Fig. 5 of OASIS)",
        [
            point(score.variance_share, score.signed_difference, name=score.attribute.name, group=name)
            for name, score in scores
            if not math.isnan(score.variance_share.value + score.signed_difference.value)
        ],
        "Further right: more varied. 0: shown at the rate that it is compared with. An arm can reduce P − P* at the "
        "cost of variety.",
        x="share of the variance along the attribute",
        y="gap P − P*",
        join=True,
    )
    yield figure(
        "distributions",
        "change",
        "How much do pictures with the same seed change?",
        pd.concat([_changes(pair) for pair in pairs], ignore_index=True),
        "If the two rows look alike, the same seed gives unrelated pictures: the pairs do not show before and after.",
        x="one minus the cosine of the two pictures",
    )


def _gaps(pair: PairedArms, confidence: float, *, fixed_n: bool, several: bool) -> Iterator[dict[str, Any]]:
    for before, after in zip(pair.a.scores, pair.b.scores, strict=True):
        if math.isnan(before.prevalence.value + after.prevalence.value):
            continue
        margins = np.stack([before.margins[pair.at_first], after.margins[pair.at_second]])
        margins = margins[:, ~np.isnan(margins).any(axis=0)]
        if not margins.size:
            continue
        name = f"{before.attribute.name}: {pair.second} − {pair.first}" if several else before.attribute.name
        shown = (margins > 0).astype(float)
        yield mark(
            name,
            prevalence_difference_test(*margins, confidence=confidence).estimate
            if fixed_n
            else difference_sequence(*shown, confidence=confidence),
        )


def _changes(pair: PairedArms) -> pd.DataFrame:
    """Return changes between pictures of the same seed, and of random different seeds, in two arms."""
    rng = np.random.default_rng(0)  # chooses only the points of the figure
    i, j = (rng.integers(0, len(side.seeds), size=_MOST_DRAWN) for side in (pair.a, pair.b))
    apart = np.array(pair.a.units)[i] != np.array(pair.b.units)[j]
    cosines = np.einsum("nd,nd->n", pair.a.rows[i[apart]], pair.b.rows[j[apart]])
    name = f"{pair.first} – {pair.second}"
    groups = [f"{name}, same seed"] * len(pair.at_first) + [f"{name}, other seeds"] * len(cosines)
    return pd.DataFrame({"group": groups, "value": np.concatenate([1 - pair.cosines, 1 - cosines])})
