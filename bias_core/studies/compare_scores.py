"""A comparison's numbers: each pair of arms on the seeds that both have."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.alignment import spread_along, text_direction
from bias_core.metrics.association import association
from bias_core.metrics.paired_association import Neutral, association_difference_test
from bias_core.metrics.paired_prevalence import (
    PairedTest,
    corrected_difference,
    prevalence_difference_test,
    stereotype_difference_test,
)
from bias_core.metrics.paired_variety import aligned_alike, variety_difference_tests
from bias_core.statistics import benjamini_hochberg
from bias_core.studies.compare_types import ComparedPair, Difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bias_core.studies.compare_types import CompareSettings, DrawnArm, Pictures
    from bias_core.studies.context import StudyServices
    from bias_core.types import Attribute, ReaderErrors, StoredImage

RATE = 0.05
"""Accepted share of false discoveries among the differences that are called clear."""
_SAME = 1e-6  # unit rows closer than this in every entry differ by float32 rounding only


def compare_arms(
    settings: CompareSettings, arms: Sequence[DrawnArm], services: StudyServices
) -> tuple[ComparedPair, ...]:
    """Every pair of arms, the later less the earlier; p-values adjusted over all of them.

    Raises
    ------
    InvalidInput
        Two arms share fewer than two seeds, as where a safety checker blanked the others.
    """
    pairs = [_pair(settings, *two, services) for two in combinations(arms, 2)]
    tested = [d for pair in pairs for d in pair.differences if not math.isnan(d.test.p_value)]
    if not tested:
        return tuple(pairs)
    adjusted = benjamini_hochberg([d.test.p_value for d in tested], rate=RATE).adjusted
    known = {id(d): float(p) for d, p in zip(tested, adjusted, strict=True)}
    return tuple(
        replace(
            pair,
            differences=tuple(replace(d, p_adjusted=known.get(id(d), math.nan)) for d in pair.differences),
        )
        for pair in pairs
    )


def _pair(
    settings: CompareSettings, first: DrawnArm, second: DrawnArm, services: StudyServices
) -> ComparedPair:
    at_first, at_second = _common(first.pictures, second.pictures)
    n = len(at_first)
    if n < 2:
        raise InvalidInput(
            f"“{first.name}” and “{second.name}” share {n} seed with a picture that can be scored; at least "
            "two are needed"
        )
    rows = first.pictures.embeddings[at_first], second.pictures.embeddings[at_second]
    margins = _margins(first, at_first), _margins(second, at_second)
    stored = [
        [arm.pictures.stored[i] for i in places] for arm, places in ((first, at_first), (second, at_second))
    ]
    cosines = np.einsum("nd,nd->n", *(x.astype(np.float64) for x in rows))
    together = float(rows[0].sum(axis=0, dtype=np.float64) @ rows[1].sum(axis=0, dtype=np.float64))
    pair = ComparedPair(
        first=first.name,
        second=second.name,
        seeds=first.pictures.seeds[at_first],
        n_dropped=len(first.report.images) - n,
        changes=1 - cosines,
        change_elsewhere=1 - (together - float(cosines.sum())) / (n * (n - 1)),
        margins_first=margins[0],
        margins_second=margins[1],
        image_ids=(tuple(s.row.id for s in stored[0]), tuple(s.row.id for s in stored[1])),
        differences=(),
    )
    found = [
        *_shares(settings, pair, (first, second), stored, services),
        *_variety(settings, pair, rows, services),
        *_association(settings, first, second),
    ]
    return replace(pair, differences=tuple(found))


def _common(first: Pictures, second: Pictures) -> tuple[np.ndarray, np.ndarray]:
    """Places of the seeds that both have."""
    _, at_first, at_second = np.intersect1d(first.seeds, second.seeds, return_indices=True)
    return at_first, at_second


def _margins(arm: DrawnArm, places: np.ndarray) -> np.ndarray:
    scores = arm.report.attributes
    rows = [(s.similarity_positive - s.similarity_negative)[places] for s in scores]
    return np.stack(rows) if rows else np.empty((0, len(places)))


def _shares(
    settings: CompareSettings,
    pair: ComparedPair,
    arms: tuple[DrawnArm, DrawnArm],
    stored: Sequence[Sequence[StoredImage]],
    services: StudyServices,
) -> Iterator[Difference]:
    """What is counted picture by picture: P, P corrected, Ψ."""
    errors = _errors(settings, arms, services)
    for i, attribute in enumerate(settings.attributes):
        if not _told(arms[0], i):
            continue
        first, second = pair.margins_first[i], pair.margins_second[i]
        test = prevalence_difference_test(first, second, confidence=settings.confidence)
        shares = [float((margins > 0).mean()) for margins in (first, second)]
        yield replace(
            _difference("prevalence", attribute.name, pair, shares, test),
            expected=_drawn(attribute, stored, services),
            says=f"{attribute.name} is seen in {shares[0]:.0%} of the pictures of “{pair.first}” and "
            f"{shares[1]:.0%} of “{pair.second}”: gained on {test.n_gained} seeds, lost on {test.n_lost}.",
        )
        if (known := errors[i]) is not None:
            estimate = corrected_difference(test.estimate, known, confidence=settings.confidence)
            scale = known.sensitivity + known.specificity - 1
            true = [(share + known.specificity - 1) / scale for share in shares]
            tested = PairedTest(estimate=estimate, p_value=math.nan, test="as for P")
            yield _difference("corrected", attribute.name, pair, true, tested)
        if (rate := attribute.reference) is not None:
            values = [max(0.0, share - rate) for share in shares]
            yield _difference(
                "stereotype",
                attribute.name,
                pair,
                values,
                stereotype_difference_test(
                    first, second, rate, confidence=settings.confidence, rng=settings.seed
                ),
            )


def _variety(
    settings: CompareSettings,
    pair: ComparedPair,
    rows: tuple[np.ndarray, np.ndarray],
    services: StudyServices,
) -> Iterator[Difference]:
    """WALS and spread along each attribute that the reader tells."""
    encoder = services.encoder(settings.encoder)
    directions = {}
    for attribute in settings.attributes:
        texts = services.embeddings.texts(
            encoder, [attribute.positive, attribute.negative], lock=services.reading(encoder)
        )
        if np.abs(texts[0] - texts[1]).max() > _SAME:
            directions[attribute.name] = text_direction(*texts)
    if not directions:
        return
    deltas = np.stack(list(directions.values()))
    tests = variety_difference_tests(*rows, deltas, confidence=settings.confidence, rng=settings.seed)
    for i, (name, delta) in enumerate(directions.items()):
        known = not math.isnan(tests.spread[i].estimate.value)
        values = aligned_alike(*rows, delta) if known else (math.nan, math.nan)
        yield _difference("alignment", name, pair, values, tests.alignment[i])
        values = (spread_along(rows[0], delta), spread_along(rows[1], delta)) if known else values
        yield _difference("spread", name, pair, values, tests.spread[i])


def _association(settings: CompareSettings, first: DrawnArm, second: DrawnArm) -> Iterator[Difference]:
    """Of the association's two words, where both arms drew them."""
    groups = [(arm.pictures, arm.side_a, arm.side_b) for arm in (first, second)]
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for one, other in zip(*groups, strict=True):
        if one is None or other is None:
            return
        at_one, at_other = _common(one, other)
        if not len(at_one):
            return
        parts.append((one.embeddings[at_one], other.embeddings[at_other]))
    names = ("targets", "attributes_a", "attributes_b")
    sides = [Neutral(**dict(zip(names, rows, strict=True))) for rows in zip(*parts, strict=True)]
    values = [float(association(s.targets, s.attributes_a, s.attributes_b).mean()) for s in sides]
    test = association_difference_test(*sides, confidence=settings.confidence)
    words = f"{settings.attribute_a} against {settings.attribute_b}"
    yield Difference(
        score="association",
        attribute=words,
        first=first.name,
        second=second.name,
        value_first=values[0],
        value_second=values[1],
        test=test,
        p_adjusted=math.nan,
    )


def _difference(
    score: str, attribute: str, pair: ComparedPair, values: Sequence[float], test: PairedTest
) -> Difference:
    return Difference(
        score=score,  # type: ignore[arg-type]
        attribute=attribute,
        first=pair.first,
        second=pair.second,
        value_first=values[0],
        value_second=values[1],
        test=test,
        p_adjusted=math.nan,
    )


def _told(arm: DrawnArm, place: int) -> bool:
    """Whether the reader tells the two sentences apart at all."""
    return not math.isnan(arm.report.attributes[place].prevalence.value)


def _errors(
    settings: CompareSettings, arms: Sequence[DrawnArm], services: StudyServices
) -> tuple[ReaderErrors | None, ...]:
    """The reader's errors where they are known, the same for both arms, and not refuted by their pictures."""
    pairs = [(a.positive, a.negative) for a in settings.attributes]
    models = [arm.report.settings.model for arm in arms]
    by_model = {
        model: services.reader_errors(settings.encoder, model, pairs) for model in dict.fromkeys(models)
    }
    known = [by_model[model] for model in models]
    return tuple(
        one if one == other and all(arm.report.attributes[i].corrected is not None for arm in arms) else None
        for i, (one, other) in enumerate(zip(*known, strict=True))
    )


def _drawn(
    attribute: Attribute, stored: Sequence[Sequence[StoredImage]], services: StudyServices
) -> float | None:
    """The difference of what was really drawn on these seeds; None where it is not on record."""
    shares = []
    for side in stored:
        truths = [image.truth for image in side if image.truth is not None]
        share = services.shown(attribute.positive, truths) if len(truths) == len(side) else None
        if share is None:
            return None
        shares.append(share)
    return shares[1] - shares[0]
