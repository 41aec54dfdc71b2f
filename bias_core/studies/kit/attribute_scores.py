"""The numbers of attributes: from unit embeddings of pictures and of sentences to estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.alignment import alignment_estimates, spread_estimates, text_direction
from bias_core.metrics.stereotype import (
    count_ties,
    prevalence_estimate,
    signed_difference_estimate,
    stereotype_estimate,
)
from bias_core.stats.effects import corrected_by_errors, wilson_interval
from bias_core.studies.kit.program import StudyData
from bias_core.types import Attribute, Estimate, ReaderErrors

_SAME = 1e-6  # unit rows closer than this in every entry differ by float32 rounding only


@dataclass(frozen=True, kw_only=True)
class AttributeScore:
    """All that is known of one attribute: OASIS's numbers on the concept's pictures.

    ``similarity_positive`` and ``similarity_negative`` hold one cosine per picture, ``(n,)``. ``corrected`` is
    the Rogan-Gladen prevalence for the ``errors`` of the reader, None where these are not known. ``drawn`` is the
    share of the pictures that really show it, on record for the calibration renderer only. ``direction`` leads
    from absence to presence, None where the reader does not tell them apart, or after a report was saved.
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
    errors: ReaderErrors | None = None
    direction: np.ndarray | None = None

    @property
    def margins(self) -> np.ndarray:
        """How much nearer each picture is to the sentence of presence than to that of absence, ``(n,)``."""
        margins: np.ndarray = self.similarity_positive - self.similarity_negative
        return margins


def score_attributes(
    data: StudyData, frame: pd.DataFrame, rows: np.ndarray, attributes: Sequence[Attribute]
) -> tuple[AttributeScore, ...]:
    """OASIS's numbers of every attribute on the pictures of ``frame``, whose embeddings are ``rows (n, d)``."""
    if not attributes:
        return ()
    settings, services, k = data.settings, data.services, len(attributes)
    texts = data.texts([a.positive for a in attributes] + [a.negative for a in attributes])
    pairs = enumerate(zip(texts[:k], texts[k:], strict=True))
    directions = {i: text_direction(*pair) for i, pair in pairs if np.abs(pair[0] - pair[1]).max() > _SAME}
    variety = _variety(rows, directions, settings.confidence, settings.seed)
    errors = services.reader_errors(settings.encoder, settings.model, [(a.positive, a.negative) for a in attributes])
    truths = [truth for truth in data.truths(frame) if truth is not None]
    positive, negative = rows @ texts[:k].T, rows @ texts[k:].T  # (n, n_attributes)
    scores = []
    for i, attribute in enumerate(attributes):
        sides = positive[:, i], negative[:, i]
        if i in directions:
            numbers = _numbers(attribute, *sides, errors[i], settings.confidence) | variety[i]
        else:
            numbers = _nothing_known(len(rows))
        scores.append(
            AttributeScore(
                attribute=attribute,
                similarity_positive=sides[0],
                similarity_negative=sides[1],
                drawn=services.shown(attribute.positive, truths) if truths else None,
                errors=errors[i],
                direction=directions.get(i),
                **numbers,
            )
        )
    return tuple(scores)


def _variety(
    rows: np.ndarray, directions: Mapping[int, np.ndarray], confidence: float, seed: int
) -> dict[int, dict[str, Any]]:
    if not directions:
        return {}
    deltas = np.stack(list(directions.values()))
    wals = alignment_estimates(rows, deltas, confidence=confidence, rng=seed)
    spreads = spread_estimates(rows, deltas, confidence=confidence, rng=seed)
    return {i: {"wals": w, "spread": s} for i, w, s in zip(directions, wals, spreads, strict=True)}


def _nothing_known(n: int) -> dict[str, Any]:
    """Of an attribute that this encoder is blind to nothing is known, which is not "no bias"."""
    unknown = Estimate.undefined(n, "the encoder reads both sentences as the same")
    return dict.fromkeys(("prevalence", "stereotype", "signed_difference", "wals", "spread"), unknown) | {"n_ties": n}


def _numbers(
    attribute: Attribute, positive: np.ndarray, negative: np.ndarray, errors: ReaderErrors | None, confidence: float
) -> dict[str, Any]:
    share = prevalence_estimate(positive, negative, reference=attribute.reference, confidence=confidence)
    if attribute.reference is None:
        stereotype = signed = Estimate.undefined(share.n, "no real-world rate P* was given", null_value=0.0)
    else:
        stereotype = stereotype_estimate(share, attribute.reference)
        signed = signed_difference_estimate(share, attribute.reference)
    return {
        "prevalence": share,
        "stereotype": stereotype,
        "signed_difference": signed,
        "corrected": _corrected(share, errors, confidence),
        "n_ties": count_ties(positive, negative),
    }


def _corrected(prevalence: Estimate, errors: ReaderErrors | None, confidence: float) -> Estimate | None:
    """Rogan–Gladen; None for errors that are unknown, as large as chance, or refuted: P above Se or below 1 − Sp."""
    if errors is None or errors.sensitivity + errors.specificity <= 1:
        return None
    most, least = (
        wilson_interval(round(share * n), n, confidence=confidence).high
        for share, n in ((errors.sensitivity, errors.n_positive), (errors.specificity, errors.n_negative))
    )
    if prevalence.low > most or prevalence.high < 1 - least:
        return None
    return corrected_by_errors(round(prevalence.value * prevalence.n), prevalence.n, errors, confidence=confidence)
