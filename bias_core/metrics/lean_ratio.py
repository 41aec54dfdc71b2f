"""Internal bias: how many times as strongly do pictures lean as words, both between their own poles?"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, Term, takes
from bias_core.number_text import typeset
from bias_core.stats.arrays import finite_vector, paired_vectors
from bias_core.stats.intervals import check_confidence, fieller_interval, percent
from bias_core.types import Estimate

MINIMUM_TEXTS = 0.05
"""|r_T| below which α' is not formed: a twentieth of the way from the middle to a pole."""
_OTHER_SIDE = "pictures lean to the other side than the words, or to neither: see δ′"


def log_amplification(pictures: float, texts: float, *, minimum_texts: float = MINIMUM_TEXTS) -> float:
    """How many times as strongly the pictures of a concept lean as its words, as a logarithm.

    α' = ln(r_I / r_T), after [mandal2024internal, Eq. 5], with r as in
    :func:`bias_core.metrics.relative_lean.relative_lean`

    Parameters
    ----------
    pictures, texts : float. r of the pictures and of the text of a concept.
    minimum_texts : float > 0. Smallest |r_T| that α' is formed at.

    Returns
    -------
    float : 0: as strongly; positive: more, 0.69 is twice; negative: less. nan where |r_T| < ``minimum_texts``, the
        words hardly lean, and where pictures lean to the other side.

    Raises
    ------
    InvalidInput : if either is nan or no number, or ``minimum_texts`` is not positive.

    Notes
    -----
    Twice and half as strongly lie as far from 0, which the ratio of the paper does not have.

    Examples
    --------
    >>> round(log_amplification(0.5, 0.25), 6), round(log_amplification(-0.25, -0.5), 6)
    (0.693147, -0.693147)
    >>> log_amplification(-0.5, 0.25), log_amplification(0.5, 0.01)
    (nan, nan)
    """
    r_pictures, r_texts = (float(finite_vector([v], n)[0]) for v, n in ((pictures, "pictures"), (texts, "texts")))
    if abs(r_texts) < _positive(minimum_texts) or r_pictures * r_texts <= 0:
        return math.nan
    return math.log(r_pictures / r_texts)


def log_amplification_estimate(pictures: Estimate, texts: float, *, minimum_texts: float = MINIMUM_TEXTS) -> Estimate:
    """:func:`log_amplification` with Fieller's interval, that of the pictures' r.

    Parameters
    ----------
    pictures : Estimate. r of the pictures, from :func:`bias_core.metrics.relative_lean.relative_lean_estimate`.
    texts : float. r of the text; nan where it has none.

    Returns
    -------
    Estimate : null value 0. ``low`` is minus infinity where the interval of the ratio reaches 0: that the pictures do
        not lean at all is not ruled out. nan, with the reason, where there is no α'.

    Raises
    ------
    InvalidInput : if ``minimum_texts`` is not positive.

    Examples
    --------
    >>> from bias_core.types import Estimate
    >>> alpha = log_amplification_estimate(Estimate(value=0.5, low=-0.25, high=1.0, n=9), 0.5)
    >>> alpha.value, alpha.low, round(alpha.high, 6)
    (0.0, -inf, 0.693147)
    """
    if math.isnan(pictures.value) or math.isnan(texts):
        note = pictures.note or "the encoder does not tell the text worded for A from that worded for B"
        return Estimate.undefined(pictures.n, note, null_value=0.0)
    value = log_amplification(pictures.value, texts, minimum_texts=minimum_texts)
    if math.isnan(value):
        weak = f"the words hardly lean: {typeset(texts, '.3f')} of the way to a pole, less than {minimum_texts:g}"
        return Estimate.undefined(pictures.n, weak if abs(texts) < minimum_texts else _OTHER_SIDE, null_value=0.0)
    low, high = sorted((pictures.low / texts, pictures.high / texts))
    if math.isnan(pictures.low):
        low = high = math.nan
    return Estimate(
        value=value, low=_log(low), high=_log(high), n=pictures.n, null_value=0.0, method=pictures.method,
        note=pictures.note,
    )  # fmt: skip


def mean_log_amplification(
    pictures: ArrayLike, texts: ArrayLike, *, minimum_texts: float = MINIMUM_TEXTS, confidence: float = 0.95
) -> Estimate:
    """α' of several concepts together: of the mean of their leans, each counted towards the side of its words.

    α' = ln(Σ sign(r_T) r_I / Σ |r_T|)

    Parameters
    ----------
    pictures, texts : arrays (n,). r of each concept.
    minimum_texts : float > 0. Smallest mean |r_T| that α' is formed at.

    Returns
    -------
    Estimate : null value 0, with Fieller's interval over concepts [fieller1954]. A concept whose words hardly lean
        counts little, and one whose pictures lean to the other side counts against: none is left out. nan, with a
        note, where the pictures lean to the other side on the whole, or words do not lean.

    Raises
    ------
    InvalidInput : for empty or not finite arrays, different lengths, or a ``minimum_texts`` that is not positive.

    Examples
    --------
    >>> round(mean_log_amplification([0.5, -0.5, 0.1], [0.25, -0.25, 0.05]).value, 6)
    0.693147
    """
    check_confidence(confidence)
    first, second = paired_vectors(pictures=pictures, texts=texts)
    n, along, strength = first.size, np.sign(second) * first, np.abs(second)
    upper, lower = float(along.mean()), float(strength.mean())
    if lower < _positive(minimum_texts):
        note = f"the words hardly lean: on average {lower:.3f} of the way to a pole, less than {minimum_texts:g}"
        return Estimate.undefined(n, note, null_value=0.0)
    if upper <= 0:
        return Estimate.undefined(n, _OTHER_SIDE, null_value=0.0)
    value, low, high, note = math.log(upper / lower), math.nan, math.nan, "one concept has no interval"
    if n > 1:
        reach = float(stats.t.ppf((1 + confidence) / 2, n - 1))
        low, high = map(_log, fieller_interval(upper, lower, np.cov(along, strength) / n, reach))
        note = "the words' leans are too uneven for an interval" if math.isnan(high) else ""
    method = "" if note else f"Fieller {percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method, note=note)


def _positive(minimum_texts: float) -> float:
    if not 0 < minimum_texts < math.inf:
        raise InvalidInput(f"minimum_texts must be positive; got {minimum_texts}.")
    return minimum_texts


def _log(ratio: float) -> float:
    """Its logarithm, minus infinity for what is not positive, nan for nan."""
    return ratio if math.isnan(ratio) else math.log(ratio) if ratio > 0 else -math.inf


CARDS = (
    Card(
        function=log_amplification,
        name="Log amplification α′",
        terms=(Term(symbol="α′", words="log amplification"),),
        summary="How many times as strongly pictures lean as words, both between their own poles, as a logarithm.",
        source="mandal2024internal, after Eq. 5",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="amplified; 0.69 is twice as strongly; negative: weakened",
        inputs=takes(pictures="place: r of the pictures", texts="place: r of the text"),
        limits="There is none where the words hardly lean or the pictures lean to the other side: read δ′ there.",
    ),
)
