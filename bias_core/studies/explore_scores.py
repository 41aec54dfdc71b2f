"""Explore's numbers: from unit embeddings of the pictures and the sentences to estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bias_core.metrics.alignment import alignment_estimates, spread_estimates, text_direction
from bias_core.metrics.association import association, mean_association
from bias_core.metrics.stereotype import (
    count_ties,
    prevalence_estimate,
    signed_difference_estimate,
    stereotype_estimate,
)
from bias_core.statistics import corrected_prevalence
from bias_core.studies.explore_types import AssociationScore, AttributeScore
from bias_core.types import Attribute, Estimate, ReaderErrors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bias_core.studies.explore_types import ExploreSettings


_SAME = 1e-6  # unit rows closer than this in every entry differ by float32 rounding only


@dataclass(frozen=True, kw_only=True)
class SentencePairs:
    """The attributes' sentences as unit rows, ``(n_attributes, d)`` each."""

    positive: np.ndarray
    negative: np.ndarray


def score_attributes(
    settings: ExploreSettings,
    images: np.ndarray,
    sentences: SentencePairs,
    *,
    reader_errors: Sequence[ReaderErrors | None],
    planted: Sequence[float | None],
) -> tuple[AttributeScore, ...]:
    """OASIS's numbers of every attribute on the concept's pictures ``(n, d)``."""
    if not settings.attributes:
        return ()
    told = [
        i
        for i, (p, n) in enumerate(zip(sentences.positive, sentences.negative, strict=True))
        if np.abs(p - n).max() > _SAME
    ]
    wals, spreads = _along(settings, images, sentences, told)
    similarity_positive = images @ sentences.positive.T  # (n, n_attributes)
    similarity_negative = images @ sentences.negative.T
    scores = []
    for i, attribute in enumerate(settings.attributes):
        columns = similarity_positive[:, i], similarity_negative[:, i]
        if i not in wals:
            scores.append(_untold(attribute, *columns))
            continue
        found = _score_attribute(attribute, *columns, errors=reader_errors[i], confidence=settings.confidence)
        scores.append(replace(found, wals=wals[i], spread=spreads[i]))
    return tuple(replace(score, planted=share) for score, share in zip(scores, planted, strict=True))


def score_association(
    settings: ExploreSettings, images: np.ndarray, images_a: np.ndarray, images_b: np.ndarray
) -> AssociationScore:
    """T2IAT's Eq. 2 per picture and its mean."""
    mean = mean_association(images, images_a, images_b, confidence=settings.confidence, rng=settings.seed)
    return AssociationScore(
        attribute_a=settings.attribute_a,
        attribute_b=settings.attribute_b,
        mean=mean,
        associations=association(images, images_a, images_b),
    )


def _along(
    settings: ExploreSettings, images: np.ndarray, sentences: SentencePairs, told: Sequence[int]
) -> tuple[dict[int, Estimate], dict[int, Estimate]]:
    """WALS and spread by the attribute's position, for those that the encoder tells apart."""
    if not told:
        return {}, {}
    directions = np.stack([text_direction(sentences.positive[i], sentences.negative[i]) for i in told])
    wals = alignment_estimates(images, directions, confidence=settings.confidence, rng=settings.seed)
    spreads = spread_estimates(images, directions, confidence=settings.confidence, rng=settings.seed)
    return dict(zip(told, wals, strict=True)), dict(zip(told, spreads, strict=True))


def _untold(
    attribute: Attribute, similarity_positive: np.ndarray, similarity_negative: np.ndarray
) -> AttributeScore:
    """An attribute that this encoder is blind to: nothing is known, which is not "no bias"."""
    unknown = _undefined(len(similarity_positive), "the encoder reads both sentences as the same")
    return AttributeScore(
        attribute=attribute,
        prevalence=unknown,
        stereotype=unknown,
        signed_difference=unknown,
        wals=unknown,
        spread=unknown,
        n_ties=len(similarity_positive),
        similarity_positive=similarity_positive,
        similarity_negative=similarity_negative,
    )


def _score_attribute(
    attribute: Attribute,
    similarity_positive: np.ndarray,
    similarity_negative: np.ndarray,
    *,
    errors: ReaderErrors | None,
    confidence: float,
) -> AttributeScore:
    """What is counted picture by picture; WALS and spread are filled in by the caller."""
    prevalence = prevalence_estimate(
        similarity_positive, similarity_negative, reference=attribute.reference, confidence=confidence
    )
    if attribute.reference is None:
        stereotype = signed = _undefined(prevalence.n, "no real-world rate P* was given", null_value=0.0)
    else:
        stereotype = stereotype_estimate(prevalence, attribute.reference)
        signed = signed_difference_estimate(prevalence, attribute.reference)
    return AttributeScore(
        attribute=attribute,
        prevalence=prevalence,
        stereotype=stereotype,
        signed_difference=signed,
        wals=_undefined(prevalence.n, ""),
        spread=_undefined(prevalence.n, ""),
        corrected=_corrected(prevalence, errors, confidence),
        n_ties=count_ties(similarity_positive, similarity_negative),
        similarity_positive=similarity_positive,
        similarity_negative=similarity_negative,
    )


def _undefined(n: int, note: str, *, null_value: float | None = None) -> Estimate:
    return Estimate(value=math.nan, low=math.nan, high=math.nan, n=n, null_value=null_value, note=note)


def _corrected(prevalence: Estimate, errors: ReaderErrors | None, confidence: float) -> Estimate | None:
    """Rogan–Gladen, or None where the reader's errors are unknown or as large as chance."""
    if errors is None or errors.sensitivity + errors.specificity <= 1:
        return None
    return corrected_prevalence(
        round(prevalence.value * prevalence.n),
        prevalence.n,
        sensitivity=errors.sensitivity,
        specificity=errors.specificity,
        n_sensitivity=errors.n_positive,
        n_specificity=errors.n_negative,
        confidence=confidence,
    )
