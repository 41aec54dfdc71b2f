"""Where T2IAT's mean association of one concept lies when its pictures are an even mix of A and B."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array, Floats, all_equal, same_dimension, unit_rows, unit_sets
from bias_core.stats.intervals import check_confidence, effective_freedom, percent
from bias_core.stats.mean_noise import pair_noise, product_noise
from bias_core.types import Estimate


def even_mix_association(attributes_a: ArrayLike, attributes_b: ArrayLike) -> float:
    """Mean association that new pictures would have, half of them like those of A and half like those of B.

    (C_A - C_B) / 2, with C_A the mean cosine of two different pictures of A, and C_B likewise: the mean of
    [wang2023t2iat, Eq. 2] over such a mix

    Parameters
    ----------
    attributes_a, attributes_b : arrays (n_a, d), (n_b, d). Embeddings of pictures of one concept, edited with words of
        A and of B; two or more of each.

    Returns
    -------
    float : in [-1, 1]; 0 where pictures of A are as alike as those of B, positive where they are more alike.

    Raises
    ------
    InvalidInput : for empty, zero, not finite or wrongly shaped embeddings, different dimensions, a single picture, and
        pictures of A and B that are all equal.

    Notes
    -----
    Not in the paper, which reads 0 as neutral. Where men are drawn with and without beards, pictures of women are more
    alike, and a concept drawn half and half reads as leaning to women.

    Examples
    --------
    >>> even_mix_association([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]])
    -0.5
    """
    a, b = _sets(attributes_a, attributes_b)
    return float(_others(a).mean() - _others(b).mean()) / 2


def association_beyond_even_mix(
    targets: ArrayLike, attributes_a: ArrayLike, attributes_b: ArrayLike, *, confidence: float = 0.95
) -> Estimate:
    """Mean association of one concept less that of an even mix of its pictures of A and of B.

    E_x Asc(x, X^A, X^B) - (C_A - C_B) / 2, from [wang2023t2iat, Eq. 2]; see :func:`even_mix_association`

    Parameters
    ----------
    targets, attributes_a, attributes_b : arrays (n, d), (n_a, d), (n_b, d). Neutral pictures, and those edited with
        words of A and of B; two or more of each.

    Returns
    -------
    Estimate : in [-3, 3], null value 0: an even mix; positive leans to A. The interval is Student's t, with all three
        sets drawn anew; its ``n`` counts targets. nan ends where nothing varies.

    Raises
    ------
    InvalidInput : as :func:`even_mix_association`, and for targets that are all equal.

    Notes
    -----
    A target x has the influence x·(ā - b̄); a picture a of A has a·(x̄ - ā'), ā' the mean of the other pictures of A; one
    of B likewise. The variance is the sum over sets of var(influence) / n, where chance that two factors share counts
    once. What targets vary by along ā - b̄ holds the chance in ā and b̄, so that of A and B, to 0 at least, loses
    :func:`product_noise` with the targets; and of the two places of a in C_A / 2 that chance counts a quarter
    (:func:`pair_noise`). t has the degrees of freedom of Welch [welch1947].

    Examples
    --------
    >>> a, b = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]
    >>> association_beyond_even_mix([*a, *b], a, b).value
    0.25
    """
    check_confidence(confidence)
    a, b = _sets(attributes_a, attributes_b)
    x = unit_rows(targets, "targets", min_rows=2)
    same_dimension(targets=x, attributes_a=a)
    if all_equal(x):
        raise InvalidInput(f"All {len(x)} targets are equal: one picture, many times?")
    centre = x.mean(axis=0, dtype=np.float64)
    along = np.asarray(x @ (a.mean(axis=0, dtype=np.float64) - b.mean(axis=0, dtype=np.float64)))
    beyond, pairs = 0.0, 0.0
    for side in (a, b):
        n, of_pairs = len(side), pair_noise(side)
        influence = float((side @ centre - _others(side)).var(ddof=1)) / n
        beyond += influence - product_noise(x, side) - of_pairs * (n - 2) / (2 * (n - 1))
        pairs += of_pairs / 4
    squares = float(along.var(ddof=1)) / len(x), pairs + max(0.0, beyond)
    value = float(along.mean()) - even_mix_association(a, b)
    reach = math.nan
    if sum(squares) > 0:
        freedom = effective_freedom(squares, (len(x) - 1, min(len(a), len(b)) - 1))
        reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(sum(squares))
    return Estimate(
        value=value,
        low=value - reach,
        high=value + reach,
        n=len(x),
        null_value=0.0,
        method=f"Student's t {percent(confidence)}",
        note="" if sum(squares) > 0 else "nothing varies, so there is no interval",
    )


def _sets(attributes_a: ArrayLike, attributes_b: ArrayLike) -> tuple[Floats, Floats]:
    a, b = unit_sets(2, attributes_a=attributes_a, attributes_b=attributes_b)
    if all_equal(np.vstack([a, b])):
        raise InvalidInput(f"All {len(a) + len(b)} attribute images are equal: they tell nothing apart.")
    return a, b


def _others(rows: Floats) -> Array:
    """Mean cosine of each row to the other rows, ``(n,)``."""
    n = len(rows)
    total = rows.sum(axis=0, dtype=np.float64)
    return np.asarray((rows @ total - 1) / (n - 1))  # a unit row has cosine 1 to itself


CARDS = (
    Card(
        function=association_beyond_even_mix,
        field="value",
        name="Association beyond an even mix",
        summary="How much more images lean to A than an even mix of the images of A and of B would.",
        source="wang2023t2iat, Eq. 2, less that of an even mix",
        bounds=(-3.0, 3.0),
        null_value=0.0,
        higher_means="leans to A",
        inputs=takes(
            targets="embeddings: neutral images of the concept",
            attributes_a="embeddings: its images edited with attribute A",
            attributes_b="embeddings: its images edited with attribute B",
        ),
        limits="An even mix is one of these attribute images: it is neutral only where they are edited well.",
    ),
)
