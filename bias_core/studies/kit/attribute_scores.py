"""Explore's numbers: from unit embeddings of the pictures and the sentences to estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.metrics.alignment import alignment_estimates, spread_estimates, text_direction
from bias_core.metrics.stereotype import (
    count_ties,
    prevalence_estimate,
    signed_difference_estimate,
    stereotype_estimate,
)
from bias_core.stats.effects import corrected_by_errors, wilson_interval
from bias_core.types import Attribute, Estimate, ReaderErrors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.services import StudyServices

_SAME = 1e-6  # unit rows closer than this in every entry differ by float32 rounding only


@dataclass(frozen=True, kw_only=True)
class AttributeScore:
    """All that is known of one attribute: OASIS's numbers on the concept's pictures.

    ``similarity_positive`` and ``similarity_negative`` hold one cosine per picture, ``(n,)``.
    ``corrected`` is the Rogan-Gladen prevalence, None where the reader's errors are not known.
    ``drawn`` is the share of the pictures that really show it, on record for the calibration renderer only.
    """

    attribute: Attribute
    prevalence: Estimate
    stereotype: Estimate
    signed_difference: Estimate
    wals: Estimate
    spread: Estimate
    corrected: Estimate | None = None
    drawn: float | None = None
    n_ties: int = 0
    similarity_positive: np.ndarray
    similarity_negative: np.ndarray

    @property
    def margins(self) -> np.ndarray:
        """How much nearer each picture is to the sentence of presence than to that of absence, ``(n,)``."""
        margins: np.ndarray = self.similarity_positive - self.similarity_negative
        return margins


@dataclass(frozen=True, kw_only=True)
class SentencePairs:
    """The attributes' sentences as a reader of pictures takes them, and what is known of each attribute.

    Attributes
    ----------
    positive, negative : unit rows ``(n_attributes, d)``.
    errors : of the reader, None where they are not known.
    drawn : share of the scored pictures that really show it, None where nobody knows.
    """

    positive: np.ndarray
    negative: np.ndarray
    errors: tuple[ReaderErrors | None, ...]
    drawn: tuple[float | None, ...]

    def directions(self) -> dict[int, np.ndarray]:
        """From absence to presence, by the attribute's position, for those that the reader tells apart."""
        pairs = enumerate(zip(self.positive, self.negative, strict=True))
        return {i: text_direction(p, n) for i, (p, n) in pairs if np.abs(p - n).max() > _SAME}


def read_sentences(
    services: StudyServices,
    attributes: Sequence[Attribute],
    *,
    encoder: str,
    model: str,
    truths: Sequence[Mapping[str, Any] | None],
) -> SentencePairs:
    """What ``encoder`` makes of the attributes, for pictures of ``model`` with these recorded truths."""
    texts = [a.positive for a in attributes] + [a.negative for a in attributes]
    reader = services.encoder(encoder)
    rows = services.embeddings.texts(reader, texts, lock=services.reading(reader))
    pairs = [(a.positive, a.negative) for a in attributes]
    known = [truth for truth in truths if truth is not None]
    return SentencePairs(
        positive=rows[: len(attributes)],
        negative=rows[len(attributes) :],
        errors=tuple(services.reader_errors(encoder, model, pairs)),
        drawn=tuple(services.shown(a.positive, known) if known else None for a in attributes),
    )


def score_attributes(
    attributes: Sequence[Attribute],
    images: np.ndarray,
    sentences: SentencePairs,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[AttributeScore, ...]:
    """OASIS's numbers of every attribute on the concept's pictures ``(n, d)``."""
    if not attributes:
        return ()
    wals, spreads = _along(images, sentences.directions(), confidence, seed)
    similarity_positive = images @ sentences.positive.T  # (n, n_attributes)
    similarity_negative = images @ sentences.negative.T
    scores = []
    for i, attribute in enumerate(attributes):
        columns = similarity_positive[:, i], similarity_negative[:, i]
        if i not in wals:
            scores.append(_untold(attribute, *columns))
            continue
        found = _score_attribute(attribute, *columns, errors=sentences.errors[i], confidence=confidence)
        scores.append(replace(found, wals=wals[i], spread=spreads[i]))
    return tuple(replace(score, drawn=share) for score, share in zip(scores, sentences.drawn, strict=True))


def _along(
    images: np.ndarray, directions: Mapping[int, np.ndarray], confidence: float, seed: int
) -> tuple[dict[int, Estimate], dict[int, Estimate]]:
    """WALS and spread by the attribute's position."""
    if not directions:
        return {}, {}
    deltas = np.stack(list(directions.values()))
    wals = alignment_estimates(images, deltas, confidence=confidence, rng=seed)
    spreads = spread_estimates(images, deltas, confidence=confidence, rng=seed)
    return dict(zip(directions, wals, strict=True)), dict(zip(directions, spreads, strict=True))


def _untold(attribute: Attribute, similarity_positive: np.ndarray, similarity_negative: np.ndarray) -> AttributeScore:
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
    """Rogan–Gladen, or None where the reader's errors are unknown, as large as chance, or refuted here."""
    if errors is None or errors.sensitivity + errors.specificity <= 1:
        return None
    if _refuted(prevalence, errors, confidence):
        return None
    return corrected_by_errors(round(prevalence.value * prevalence.n), prevalence.n, errors, confidence=confidence)


def _refuted(prevalence: Estimate, errors: ReaderErrors, confidence: float) -> bool:
    """Whether a reader with these errors could hardly see the attribute that often: 1 - Sp <= P <= Se."""
    most, least = (
        wilson_interval(round(share * n), n, confidence=confidence).high
        for share, n in ((errors.sensitivity, errors.n_positive), (errors.specificity, errors.n_negative))
    )
    return prevalence.low > most or prevalence.high < 1 - least
