"""OASIS: how close images are to a text, or to other images: what StOP searches by."""

import numpy as np
from numpy.typing import ArrayLike

from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import cosines
from bias_core.stats.effects import Seed
from bias_core.stats.intervals import bootstrap_interval
from bias_core.types import Estimate


def mean_similarity(similarities: ArrayLike) -> float:
    """Mean cosine of images to a text, or to the images of a set.

    1/n Σ_i cos(T(s), I_i)   [dehdashtian2025oasis, Eq. 8]

    Parameters
    ----------
    similarities : array (n,), in [-1, 1]. Cosine of each image to the text, or its mean cosine to the images of the
        set.

    Returns
    -------
    float : in [-1, 1]; higher: closer. No null value: compare with another text or set, by the same encoder.

    Raises
    ------
    InvalidInput : for empty or not finite similarities, or such as are no cosines.

    Examples
    --------
    >>> mean_similarity([0.25, 0.5])
    0.375
    """
    return float(cosines(similarities).mean())


def similarity_estimate(similarities: ArrayLike, *, confidence: float = 0.95, rng: Seed = 0) -> Estimate:
    """:func:`mean_similarity` with its bootstrap interval over the images; the text or set is taken as given.

    Parameters
    ----------
    similarities : array (n,), in [-1, 1]

    Returns
    -------
    Estimate : in [-1, 1], no null value. One image has no interval, and ``note`` says so.

    Raises
    ------
    InvalidInput : as :func:`mean_similarity`.

    Examples
    --------
    >>> similarity_estimate([0.25, 0.5]).value
    0.375
    """
    return bootstrap_interval(cosines(similarities), statistic=np.mean, confidence=confidence, rng=rng)


CARDS = (
    Card(
        function=mean_similarity,
        name="Mean cosine",
        summary="How close the images are to a text, or to the images of a set.",
        source="dehdashtian2025oasis, Eq. 8",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="closer",
        inputs=takes(similarities="similarities: cosine of each image to the text, or its mean cosine to the set"),
        limits="Its scale is the encoder's own: compare texts and sets within one encoder only.",
    ),
)
