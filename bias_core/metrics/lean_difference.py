"""Internal bias: do the pictures of a concept lean more than its words, both between their own poles?"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, Term, takes
from bias_core.stats.arrays import Array, finite_vector, paired_vectors
from bias_core.stats.intervals import mean_interval
from bias_core.types import Estimate


def relative_lean_difference(pictures: float, texts: float) -> float:
    """How much more the pictures of a concept lean to A than its words, each between their own poles.

    δ' = r_I - r_T, after [mandal2024internal, Eq. 4], with r as in
    :func:`bias_core.metrics.relative_lean.relative_lean`

    Parameters
    ----------
    pictures, texts : float. r of the pictures and of the text of a concept.

    Returns
    -------
    float : 0 where pictures lean as the words do; positive: more to A. A whole way between the poles is 2.

    Raises
    ------
    InvalidInput : if either is nan or no number.

    Examples
    --------
    >>> relative_lean_difference(0.5, 0.25), relative_lean_difference(-0.25, 0.25)
    (0.25, -0.5)
    """
    r_pictures, r_texts = finite_vector([pictures], "pictures")[0], finite_vector([texts], "texts")[0]
    return float(r_pictures - r_texts)


def relative_lean_difference_estimate(pictures: Estimate, texts: float) -> Estimate:
    """:func:`relative_lean_difference` with the interval of the pictures; texts are not drawn by chance.

    Parameters
    ----------
    pictures : Estimate. r of the pictures, from :func:`bias_core.metrics.relative_lean.relative_lean_estimate`.
    texts : float. r of the text; nan where it has none.

    Returns
    -------
    Estimate : null value 0; nan, with a note, where either r is undefined.

    Raises
    ------
    InvalidInput : for a text that is no number.

    Examples
    --------
    >>> from bias_core.types import Estimate
    >>> difference = relative_lean_difference_estimate(Estimate(value=0.5, low=0.25, high=0.75, n=9), 0.25)
    >>> difference.value, difference.low, difference.high
    (0.25, 0.0, 0.5)
    """
    if math.isnan(pictures.value):
        return pictures
    if math.isnan(texts):
        note = "the encoder does not tell the text worded for A from that worded for B"
        return Estimate.undefined(pictures.n, note, null_value=0.0)
    value = relative_lean_difference(pictures.value, texts)
    return replace(pictures, value=value, low=pictures.low - texts, high=pictures.high - texts, null_value=0.0)


def mean_relative_lean_difference(pictures: ArrayLike, texts: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean of δ' over concepts, with the interval of Student's t over them.

    Parameters
    ----------
    pictures, texts : arrays (n,). r of each concept.

    Returns
    -------
    Estimate : null value 0; nan ends, with a note, for one concept.

    Raises
    ------
    InvalidInput : for empty or not finite arrays, or different lengths.

    Examples
    --------
    >>> mean_relative_lean_difference([0.5, 0.75], [0.25, 0.0]).value
    0.5
    """
    return mean_interval(_differences(pictures, texts), confidence=confidence, null_value=0.0)


def _differences(pictures: ArrayLike, texts: ArrayLike) -> Array:
    first, second = paired_vectors(pictures=pictures, texts=texts)
    if not first.size:
        raise InvalidInput("pictures and texts are empty: give r of at least one concept.")
    return np.asarray(first - second)


CARDS = (
    Card(
        function=relative_lean_difference,
        name="Difference of leans δ′",
        terms=(Term(symbol="δ′", words="difference of leans"),),
        summary="How much more the pictures of a concept lean to A than its words, both between their own poles.",
        source="mandal2024internal, after Eq. 4",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="drawing moves the concept towards A",
        inputs=takes(pictures="place: r of the pictures", texts="place: r of the text"),
        limits="The text's place is the encoder's reading of a few words: 0 says that pictures lean as these words do.",
    ),
)
