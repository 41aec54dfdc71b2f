"""Explore's numbers: from unit embeddings of the pictures and the sentences to estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from bias_core.types import Attribute, Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.explore_types import ExploreSettings


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
    reader_errors: Mapping[str, Mapping[str, float]],
    planted: Sequence[float | None],
) -> tuple[AttributeScore, ...]:
    """OASIS's numbers of every attribute on the concept's pictures ``(n, d)``."""
    if not settings.attributes:
        return ()
    directions = np.stack(
        [text_direction(p, n) for p, n in zip(sentences.positive, sentences.negative, strict=True)]
    )
    wals = alignment_estimates(images, directions, confidence=settings.confidence, rng=settings.seed)
    spreads = spread_estimates(images, directions, confidence=settings.confidence, rng=settings.seed)
    similarity_positive = images @ sentences.positive.T  # (n, n_attributes)
    similarity_negative = images @ sentences.negative.T
    return tuple(
        _score_attribute(
            attribute,
            similarity_positive[:, i],
            similarity_negative[:, i],
            wals=wals[i],
            spread=spreads[i],
            errors=reader_errors.get(attribute.positive),
            planted=planted[i],
            confidence=settings.confidence,
        )
        for i, attribute in enumerate(settings.attributes)
    )


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


def _score_attribute(
    attribute: Attribute,
    similarity_positive: np.ndarray,
    similarity_negative: np.ndarray,
    *,
    wals: Estimate,
    spread: Estimate,
    errors: Mapping[str, float] | None,
    planted: float | None,
    confidence: float,
) -> AttributeScore:
    prevalence = prevalence_estimate(
        similarity_positive, similarity_negative, reference=attribute.reference, confidence=confidence
    )
    if attribute.reference is None:
        stereotype = signed = _no_reference(prevalence.n)
    else:
        stereotype = stereotype_estimate(prevalence, attribute.reference)
        signed = signed_difference_estimate(prevalence, attribute.reference)
    return AttributeScore(
        attribute=attribute,
        prevalence=prevalence,
        stereotype=stereotype,
        signed_difference=signed,
        wals=wals,
        spread=spread,
        corrected=_corrected(prevalence, errors, confidence),
        planted=planted,
        n_ties=count_ties(similarity_positive, similarity_negative),
        similarity_positive=similarity_positive,
        similarity_negative=similarity_negative,
    )


def _no_reference(n: int) -> Estimate:
    nan = math.nan
    return Estimate(value=nan, low=nan, high=nan, n=n, null_value=0.0, note="no real-world rate P* was given")


def _corrected(
    prevalence: Estimate, errors: Mapping[str, float] | None, confidence: float
) -> Estimate | None:
    """Rogan–Gladen, or None where the reader's errors are unknown or as large as chance."""
    if errors is None or errors["sensitivity"] + errors["specificity"] <= 1:
        return None
    n_positive, n_negative = errors.get("n_positive"), errors.get("n_negative")
    return corrected_prevalence(
        round(prevalence.value * prevalence.n),
        prevalence.n,
        sensitivity=errors["sensitivity"],
        specificity=errors["specificity"],
        n_sensitivity=None if n_positive is None else int(n_positive),
        n_specificity=None if n_negative is None else int(n_negative),
        confidence=confidence,
    )
