"""Internal bias between a concept's own poles: position, difference and ratio to the text's."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import (
    Array,
    Floats,
    check_attributes_differ,
    check_pictures_differ,
    finite_vector,
    paired_vectors,
    same_length,
    unit_sets,
)
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import (
    FEWEST_DRAWN,
    check_confidence,
    effective_freedom,
    fieller_interval,
    mean_interval,
    product_noise,
    with_p_through_ends,
)
from bias_core.types import Estimate
from bias_core.wording import format_percent, typeset

MINIMUM_POLES = 0.002
"""The encoder does not separate texts of A and of B with scores nearer than this."""
_NOT_APART = (
    "the encoder does not distinguish this concept's pictures worded for A from those for B, so there is no scale"
)
_SETS = ("targets", "poles_a", "poles_b", "attributes_a", "attributes_b")


def relative_lean(score: float, pole_a: float, pole_b: float) -> float:
    """Position of an association between those of the same concept worded for A and worded for B.

    r = 2 (s - m) / (s_A - s_B), with m = (s_A + s_B) / 2, s as in [mandal2024internal, Eq. 2]

    Parameters
    ----------
    score, pole_a, pole_b : float in [-2, 2]. Mean association with A rather than B of the concept, and of the same
        concept worded for A and for B.

    Returns
    -------
    float : 1 at the pole of A, -1 at that of B, 0 half way; beyond 1: stronger than the pole. Of
        pictures half like A and half like B it is 0 whatever the encoder's scale.

    Raises
    ------
    InvalidInput : if a score is nan, no number or outside [-2, 2], or both poles have the same score.

    Examples
    --------
    >>> relative_lean(0.25, 0.5, -0.5), relative_lean(0.25, 0.5, 0.0)
    (0.5, 0.0)
    """
    s, a, b = (lean_score(*named_score) for named_score in ((score, "score"), (pole_a, "pole_a"), (pole_b, "pole_b")))
    if a == b:
        raise InvalidInput(f"pole_a and pole_b must differ, or there is no scale between them; both are {a:g}.")
    return (2 * s - a - b) / (a - b)


def relative_lean_over_encoders(
    readings: Sequence[Sequence[ArrayLike]],
    *,
    groups: Sequence[ArrayLike | None] | None = None,
    null_value: float = 0.0,
    confidence: float = 0.95,
) -> Estimate:
    """:func:`relative_lean` of the pictures of a concept, with its interval over pictures.

    Scores are averaged over encoders, which are taken as given, as in [mandal2024internal, 5.2].

    Parameters
    ----------
    readings : one for each encoder: five sets of the same pictures in the same order, arrays (n, d). Pictures of the
        concept; of the same concept worded for A, and for B; and other pictures of A, and of B, which associations are
        measured by.
    groups : one sequence for each of the five sets, or None. The prompt of each picture of a set, where prompts and not
        pictures are the sampling units.
    null_value : float. What r is tested against: 0, half way between the poles, or the r of the text.

    Returns
    -------
    Estimate : positive is nearer to A. nan, with a note, if the encoder does not separate pictures of A and of B; nan
        ends if a set has fewer than eight units.

    Raises
    ------
    InvalidInput : for no encoder, sets of another number of pictures, empty, zero, not finite or wrongly shaped
        embeddings, different dimensions, groups of another length, several targets that are all equal, and attributes
        of A and of B that are all equal.

    Notes
    -----
    r is a ratio N / D, and its interval that of Fieller [fieller1954] with all five sets drawn anew: all ρ with
    |N - ρ D| <= t SE(N - ρ D), where N - ρ D = c·l, c = 2 x̄ - (1 + ρ) ā - (1 - ρ) b̄ of targets and poles, and l the
    difference of the attributes' means. Var(c·l) = E(l'Σ_c l) + c'Σ_l c. The first term is estimated as it stands; of
    the second the estimate is too large by tr(Σ_c Σ_l), chance that the first holds already: that is taken off, to 0
    at least. Where targets are a mixture of their poles c is nothing but chance, and all of it would count twice.
    Targets that are all of one kind by chance seem not to vary: one more at each pole counts in their variance, as in
    [bonett2012, for means].
    t has the degrees of freedom of Welch [welch1947].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = ([1, 1.0, 0] + 0.1 * rng.normal(size=(9, 3)) for _ in "ab")
    >>> b[:, 1] *= -1
    >>> r = relative_lean_over_encoders([[np.vstack([a, b]), a, b, a[::-1] + 0.01, b[::-1] + 0.01]])
    >>> bool(r.low < 0 < r.high), abs(r.value) < 0.1
    (True, True)
    """
    check_confidence(confidence)
    if not readings:
        raise InvalidInput("readings is empty: give the five sets of at least one encoder.")
    units = _build_units(readings, groups)
    numerator, denominator = _contrast(units)
    n = sum(map(len, units))
    if not denominator > 0:
        return Estimate.undefined(n, _NOT_APART, null_value=null_value)
    value = numerator / denominator
    min_units = min(map(len, units))
    too_few = f"an interval needs at least {FEWEST_DRAWN} units of each set, and there are {min_units}"
    if min_units < 2:
        return Estimate.without_interval(value, n, too_few, null_value=null_value)
    low, high, p_value = _interval((numerator, denominator), units, null_value, confidence)
    if math.isnan(low):
        return Estimate.undefined(n, _NOT_APART, null_value=null_value)
    if min_units < FEWEST_DRAWN:
        return Estimate.without_interval(value, n, too_few, null_value=null_value)
    method = f"Fieller {format_percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=null_value, method=method, p_value=p_value)


def text_relative_lean(readings: Sequence[Sequence[ArrayLike]]) -> float:
    """:func:`relative_lean` of texts, of scores averaged over encoders; texts are not drawn by chance.

    Parameters
    ----------
    readings : one for each encoder: the text of the concept, the same worded for A and for B, words of A and of B,
        arrays (n, d) each.

    Returns
    -------
    float : as :func:`relative_lean`; nan where the encoders do not separate the texts of A and of B.

    Raises InvalidInput: as :func:`relative_lean_over_encoders`.

    >>> text_relative_lean([[[[0.6, 0.8]], [[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]]]).__round__(6)
    -0.2
    """
    if not readings:
        raise InvalidInput("readings is empty: give the five sets of at least one encoder.")
    parts = [_contrast(_check_sets(sets)) for sets in readings]
    numerator, denominator = np.mean(parts, axis=0).tolist()
    return numerator / denominator if denominator >= MINIMUM_POLES else math.nan


def lean_score(value: float, name: str) -> float:
    """Return the value as a float; InvalidInput unless it is one mean association, from -2 to 2.

    Raises InvalidInput: if it is nan, no number, or outside [-2, 2].

    >>> lean_score(0.5, "score")
    0.5
    """
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiu" or not abs(float(number)) <= 2:
        raise InvalidInput(f"{name} must be one number from -2 to 2; got {value!r}.")
    return float(number)


def _check_sets(sets: Sequence[ArrayLike]) -> list[Floats]:
    if len(sets) != len(_SETS):
        raise InvalidInput(f"A reading has five sets, {', '.join(_SETS)}; got {len(sets)}.")
    rows: list[Floats] = [array.astype(np.float64) for array in unit_sets(**dict(zip(_SETS, sets, strict=True)))]
    check_pictures_differ(rows[0], "targets")
    check_attributes_differ(rows[3], rows[4])
    return rows


def _build_units(readings: Sequence[Sequence[ArrayLike]], groups: Sequence[ArrayLike | None] | None) -> list[Array]:
    """Sampling units of the five sets ``(n_units, d)``, the encoders side by side, scaled so that products average."""
    encoders = [_check_sets(sets) for sets in readings]
    sizes = [tuple(map(len, sets)) for sets in encoders]
    if len(set(sizes)) > 1:
        raise InvalidInput(f"Every encoder must read the same pictures; got sets of {', '.join(map(str, sizes))}.")
    together = [np.hstack(sets) / math.sqrt(len(encoders)) for sets in zip(*encoders, strict=True)]
    labels = [None] * len(_SETS) if groups is None else groups
    return [_group_rows(rows, of, name) for rows, of, name in zip(together, labels, _SETS, strict=True)]


def _group_rows(rows: Array, groups: ArrayLike | None, name: str) -> Array:
    """A row for each sampling unit, so that their mean is that of the pictures."""
    if groups is None:
        return rows
    labels = np.asarray(groups)
    same_length(**{name: rows, f"groups of {name}": labels})
    names, index = np.unique(labels, return_inverse=True)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, index, rows)
    return np.asarray(sums * len(names) / len(rows))


def _contrast(units: Sequence[Floats]) -> tuple[float, float]:
    """N = 2 s - s_A - s_B and D = s_A - s_B."""
    target, pole_a, pole_b, a, b = (rows.mean(axis=0) for rows in units)
    lean = a - b
    return float((2 * target - pole_a - pole_b) @ lean), float((pole_a - pole_b) @ lean)


def _covariances(units: Sequence[Array]) -> list[Array]:
    """Covariances of (N, D), ``(2, 2)``: by targets, by each of the poles, and by both attributes."""
    targets, pole_a, pole_b, *attributes = units
    lean = attributes[0].mean(axis=0) - attributes[1].mean(axis=0)
    upper = 2 * targets.mean(axis=0) - pole_a.mean(axis=0) - pole_b.mean(axis=0)
    sides = np.array([[2.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]])  # what targets and poles are in N and D
    with_poles = np.vstack([targets, pole_a.mean(axis=0), pole_b.mean(axis=0)])
    drawn = with_poles, pole_a, pole_b  # each of the variance of its own number of pictures
    parts = [
        np.cov(np.outer(rows @ lean, side), rowvar=False) / n
        for rows, side, n in zip(drawn, sides, map(len, units[:3]), strict=True)
    ]
    across = np.column_stack([upper, pole_a.mean(axis=0) - pole_b.mean(axis=0)])
    twice = sum(
        product_noise(rows, attribute_rows) * np.outer(side, side)
        for rows, side in zip(units[:3], sides, strict=True)
        for attribute_rows in attributes
    )
    values, vectors = np.linalg.eigh(
        sum(_mean_covariance(attribute_rows @ across) for attribute_rows in attributes) - twice
    )
    return [*parts, np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)]


def _mean_covariance(rows: Array) -> Array:
    return np.asarray(np.cov(rows, rowvar=False) / len(rows))


def _interval(
    contrast: tuple[float, float], units: Sequence[Array], null_value: float, confidence: float
) -> tuple[float, float, float]:
    """Fieller's interval of N / D, from their covariance, and p of N = ρ D, ρ the null value, by the same t."""
    numerator, denominator = contrast
    parts, at = _covariances(units), np.array([1.0, -numerator / denominator])  # of N - r D
    squares = [max(0.0, float(at @ part @ at)) for part in parts]
    if not sum(squares) > 0:
        return math.nan, math.nan, math.nan
    sizes = [len(rows) for rows in units]
    freedom = effective_freedom(squares, np.array([*sizes[:3], min(sizes[3:])]) - 1)
    reach = float(scipy.stats.t.ppf((1 + confidence) / 2, freedom))
    covariance, at = np.sum(parts, axis=0), np.array([1.0, -null_value])
    p_value = _p_of_t(float(at @ np.array(contrast)), float(at @ covariance @ at), freedom)
    return *fieller_interval(numerator, denominator, covariance, reach), p_value


def _p_of_t(distance: float, variance: float, freedom: float) -> float:
    """Two-sided p of a mean that has this variance; 0 or 1 without any."""
    if not variance > 0:
        return float(distance == 0)
    return float(2 * scipy.stats.t.sf(abs(distance) / math.sqrt(variance), freedom))


MINIMUM_TEXTS = 0.05
"""|r_T| below which α' is not formed: a twentieth of the way from the middle to a pole."""
_OTHER_SIDE = "the pictures' association is 0, or opposite to that of the words; see δ′"


def log_amplification(pictures: float, texts: float, *, minimum_texts: float = MINIMUM_TEXTS) -> float:
    """Logarithm of the ratio of the association of a concept's pictures to that of its words.

    α' = ln(r_I / r_T), after [mandal2024internal, Eq. 5], with r as in :func:`relative_lean`

    Parameters
    ----------
    pictures, texts : float. r of the pictures and of the text of a concept.
    minimum_texts : float > 0. Smallest |r_T| that α' is formed at.

    Returns
    -------
    float : 0: as strongly; positive: more, 0.69 is twice; negative: less. nan where |r_T| < ``minimum_texts``, the
        words have no clear association, and where the pictures' has the other sign.

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


def log_amplification_estimate(
    pictures: Estimate, texts: float, *, minimum_texts: float = MINIMUM_TEXTS, confidence: float = 0.95
) -> Estimate:
    """:func:`log_amplification` with Fieller's interval, that of the pictures' r.

    Parameters
    ----------
    pictures : Estimate. r of the pictures, from :func:`relative_lean_over_encoders`.
    texts : float. r of the text; nan where it has none.
    confidence : float in (0, 1). As that of ``pictures``.

    Returns
    -------
    Estimate : null value 0, with the p of δ' (:func:`relative_lean_difference_estimate`). ``low`` is minus infinity
        where the interval of the ratio reaches 0: that the pictures have no association is not ruled out. nan, with
        the reason, where there is no α'.

    Raises InvalidInput: if ``minimum_texts`` is not positive.

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
        way = f"{typeset(texts, '.3f')} of the way to a pole, less than {minimum_texts:g}"
        weak = f"the words have no clear association: {way}"
        return Estimate.undefined(pictures.n, weak if abs(texts) < minimum_texts else _OTHER_SIDE, null_value=0.0)
    low, high = sorted((pictures.low / texts, pictures.high / texts))
    p_value = relative_lean_difference_estimate(pictures, texts, confidence=confidence).p_value
    return replace(pictures, value=value, low=_log(low), high=_log(high), null_value=0.0, p_value=p_value)


def mean_log_amplification(
    pictures: ArrayLike, texts: ArrayLike, *, minimum_texts: float = MINIMUM_TEXTS, confidence: float = 0.95
) -> Estimate:
    """α' of several concepts together: of their mean association, each counted towards the side of its words.

    α' = ln(Σ sign(r_T) r_I / Σ |r_T|)

    Parameters
    ----------
    pictures, texts : arrays (n,). r of each concept.
    minimum_texts : float > 0. Smallest mean |r_T| that α' is formed at.

    Returns
    -------
    Estimate : null value 0, with Fieller's interval over concepts [fieller1954]. A concept with weakly associated
        words counts little, and one with pictures on the other side counts against: none is left out. nan, with a
        note, if the pictures are on the other side on the whole, or the words have no association.

    Raises InvalidInput: for empty or not finite arrays, different lengths, or a ``minimum_texts`` that is not positive.

    >>> round(mean_log_amplification([0.5, -0.5, 0.1], [0.25, -0.25, 0.05]).value, 6)
    0.693147
    """
    check_confidence(confidence)
    first, second = paired_vectors(pictures=pictures, texts=texts)
    n, along, strength = first.size, np.sign(second) * first, np.abs(second)
    upper, lower = float(along.mean()), float(strength.mean())
    if lower < _positive(minimum_texts):
        way = f"on average {lower:.3f} of the way to a pole, less than {minimum_texts:g}"
        note = f"the words have no clear association: {way}"
        return Estimate.undefined(n, note, null_value=0.0)
    if upper <= 0:
        return Estimate.undefined(n, _OTHER_SIDE, null_value=0.0)
    value = math.log(upper / lower)
    if n < 2:
        return Estimate.without_interval(value, n, "one concept has no interval", null_value=0.0)
    reach, covariance = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)), np.cov(along, strength) / n
    low, high = map(_log, fieller_interval(upper, lower, covariance, reach))
    if math.isnan(high):
        note = "the words' associations are too uneven for an interval"
        return Estimate.without_interval(value, n, note, null_value=0.0)
    p_value = _p_of_t(upper - lower, float((along - strength).var(ddof=1)) / n, n - 1)
    method = f"Fieller {format_percent(confidence)}"
    return Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method, p_value=p_value)


def _positive(minimum_texts: float) -> float:
    if not 0 < minimum_texts < math.inf:
        raise InvalidInput(f"minimum_texts must be positive; got {minimum_texts}.")
    return minimum_texts


def _log(ratio: float) -> float:
    """Logarithm; minus infinity unless positive, nan for nan."""
    return ratio if math.isnan(ratio) else math.log(ratio) if ratio > 0 else -math.inf


def relative_lean_difference(pictures: float, texts: float) -> float:
    """Association of a concept's pictures with A less that of its words, each between their own poles.

    δ' = r_I - r_T, after [mandal2024internal, Eq. 4], with r as in :func:`relative_lean`

    Parameters
    ----------
    pictures, texts : float. r of the pictures and of the text of a concept.

    Returns
    -------
    float : 0 if both associations are equal; positive: pictures are nearer to A. The distance of the poles is 2.

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


def relative_lean_difference_estimate(pictures: Estimate, texts: float, *, confidence: float = 0.95) -> Estimate:
    """:func:`relative_lean_difference` with the interval of the pictures; texts are not drawn by chance.

    Parameters
    ----------
    pictures : Estimate. r of the pictures, from :func:`relative_lean_over_encoders`.
    texts : float. r of the text; nan where it has none.
    confidence : float in (0, 1). As that of ``pictures``.

    Returns
    -------
    Estimate : null value 0, with the p of ``pictures`` if its null value is that of the text, else p through the ends;
        nan, with a note, where either r is undefined.

    Raises InvalidInput: for a text that is no number.

    >>> from bias_core.types import Estimate
    >>> difference = relative_lean_difference_estimate(Estimate(value=0.5, low=0.25, high=0.75, n=9), 0.25)
    >>> difference.value, difference.low, difference.high
    (0.25, 0.0, 0.5)
    """
    if math.isnan(pictures.value):
        return replace(pictures, null_value=0.0)
    if math.isnan(texts):
        note = "the encoder does not tell the text worded for A from that worded for B"
        return Estimate.undefined(pictures.n, note, null_value=0.0)
    value = relative_lean_difference(pictures.value, texts)
    moved = replace(pictures, value=value, low=pictures.low - texts, high=pictures.high - texts, null_value=0.0)
    return moved if pictures.null_value == texts else with_p_through_ends(moved, confidence)


def mean_relative_lean_difference(pictures: ArrayLike, texts: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean of δ' over concepts, with the interval of Student's t over them.

    Parameters
    ----------
    pictures, texts : arrays (n,). r of each concept.

    Returns
    -------
    Estimate : null value 0; nan ends, with a note, for one concept.

    Raises InvalidInput: for empty or not finite arrays, or different lengths.

    >>> mean_relative_lean_difference([0.5, 0.75], [0.25, 0.0]).value
    0.5
    """
    return mean_interval(_subtract_pairs(pictures, texts), confidence=confidence, null_value=0.0)


def _subtract_pairs(pictures: ArrayLike, texts: ArrayLike) -> Array:
    first, second = paired_vectors(pictures=pictures, texts=texts)
    return np.asarray(first - second)


CARDS = (
    Card(
        function=relative_lean,
        name="Association between the own poles, r",
        summary="Position of a concept between the same concept worded for A and worded for B.",
        tex=r"r = \frac{2 (s - m)}{s_A - s_B}, \quad m = \frac{s_A + s_B}{2}",
        symbols="$s$ is the association of the concept; $s_A$ and $s_B$ are those of the same concept worded for A "
        "and for B.",
        source="mandal2024internal, after Eq. 2",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="nearer to what is worded for A",
        inputs=takes(
            score="score: association of the concept",
            pole_a="score: association of the same concept worded for A",
            pole_b="score: association of the same concept worded for B",
        ),
        limits="0 is half way between the poles. That is even only if the pictures of the poles show what their "
        "prompts say.",
    ),
    Card(
        function=log_amplification,
        name="Log amplification α′",
        terms=(Term(symbol="α′", words="log amplification"),),
        summary="Strength of the pictures' association relative to the words', each between its own poles, as a "
        "logarithm.",
        tex=r"\alpha' = \ln \frac{r_I}{r_T}",
        symbols="$r_I$ and $r_T$ are the associations of the pictures and of the words between their own poles.",
        source="mandal2024internal, after Eq. 5",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="amplified; 0.69 is twice as strongly; negative: weakened",
        inputs=takes(pictures="place: r of the pictures", texts="place: r of the text"),
        limits="It is undefined where the words' association is near 0 or the pictures' has the other sign: read δ′ "
        "there.",
    ),
    Card(
        function=relative_lean_difference,
        name="Difference of associations δ′",
        terms=(Term(symbol="δ′", words="difference of associations"),),
        summary="Association of a concept's pictures with A minus that of its words, each between its own poles.",
        tex=r"\delta' = r_I - r_T",
        symbols="$r_I$ and $r_T$ are the associations of the pictures and of the words between their own poles.",
        source="mandal2024internal, after Eq. 4",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="drawing moves the concept towards A",
        inputs=takes(pictures="place: r of the pictures", texts="place: r of the text"),
        limits="The encoder sees only a few words of text: 0 says that the pictures associate as these words do.",
    ),
)
