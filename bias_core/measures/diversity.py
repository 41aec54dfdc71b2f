"""How evenly counts are spread."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, finite_vector
from bias_core.measures.cards import Card, Term, takes


def chao_shen_entropy(counts: ArrayLike) -> float:
    """Entropy of the objects' shares, corrected for objects that few pictures miss.

    H = −Σ_i C p_i ln(C p_i) / (1 − (1 − C p_i)^n), C = 1 − f₁ / n, f₁ the objects counted once [chao2003]

    Parameters
    ----------
    counts : array (k,), >= 0. How often each object appears; n is their sum. Zeros are left out.

    Returns
    -------
    float : in nats, from 0 (one object alone), without an upper end. There is no null value: compare with a base. nan
        where every object was counted once: nothing then tells how many there are.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts.

    Notes
    -----
    The plug-in entropy of n counts is too small by about (k − 1) / 2n, and by more where objects were missed; its
    ratio to ln k moves with the number of pictures alone.

    Examples
    --------
    >>> round(chao_shen_entropy([8, 1, 1]), 4), chao_shen_entropy([7]), chao_shen_entropy([1, 1])
    (1.0001, 0.0, nan)
    """
    values = positive_counts(counts)
    n = values.sum()
    coverage = 1 - (values == 1).sum() / n
    if not coverage:
        return math.nan
    shares = coverage * values / n
    if values.size == 1:
        return 0.0
    terms = -shares * np.log(shares) / -np.expm1(n * np.log1p(-shares))
    return float(terms.sum())


def distribution_bias(counts: ArrayLike) -> float:
    """Area under the sorted, min-max normalised counts of objects.

    B_D = Σ_i (ñ_i + ñ_{i+1}) / 2,  ñ_i = (n_i − min n) / (max n − min n)   [vice2023tbyb, Eq. 2, Eq. 3]

    Parameters
    ----------
    counts : array (k,), >= 0, in any order. How often each object appears; a count of 0 is no object of the pictures
        and is left out.

    Returns
    -------
    float : at least 0.5, without an upper end. *Lower* is more biased: a few objects tower over the others. There is no
        null value. It grows with the number of images and of objects: compare at equal numbers of images
        (:func:`bias_core.measures.object_distribution.distribution_bias_at`).

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or when all are equal: min-max is then undefined.

    Notes
    -----
    Eq. 3 sums to M, but there is no ñ_{M+1}: k objects have k − 1 trapezia. As the two ends are 0 and 1, the sum is Σ
    ñ_i − 1/2.

    Examples
    --------
    >>> round(distribution_bias([10, 5, 1]), 5)
    0.94444
    """
    values = positive_counts(counts)
    smallest, largest = values.min(), values.max()
    if smallest == largest:
        raise InvalidInput(f"Distribution bias needs counts that differ; all {values.size} objects have {smallest:g}.")
    return float((values.sum() - values.size * smallest) / (largest - smallest) - 0.5)


def normalised_entropy(counts: ArrayLike) -> float:
    """Entropy of the objects' shares, as a part of the largest that k objects can have.

    −Σ p_i ln p_i / ln k, Pielou's evenness [pielou1966]

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [0, 1]; 1 (its null value) is an even distribution, lower is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or fewer than two objects.

    Examples
    --------
    >>> round(normalised_entropy([5, 5, 5]), 9), round(normalised_entropy([8, 1, 1]), 3)
    (1.0, 0.582)
    """
    return float(_evenness(positive_counts(counts, at_least=2)[np.newaxis])[0])


def gini(counts: ArrayLike) -> float:
    """Gini coefficient of the counts: half the mean absolute difference, in units of the mean.

    G = Σ_i Σ_j |n_i − n_j| / (2 k² n̄)   [gini1912]

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [0, 1 − 1/k]; 0 (its null value) is an even distribution, higher is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or fewer than two objects.

    Examples
    --------
    >>> gini([5, 5, 5]), gini([1, 3])
    (0.0, 0.25)
    """
    return float(_gini(positive_counts(counts, at_least=2)[np.newaxis])[0])


def effective_number(counts: ArrayLike) -> float:
    """How many equally frequent objects would have the same entropy, exp(−Σ p_i ln p_i) [hill1973].

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [1, k]; k is an even distribution, lower is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts.

    Examples
    --------
    >>> round(effective_number([5, 5, 5]), 6), effective_number([7])
    (3.0, 1.0)
    """
    return float(_effective(positive_counts(counts)[np.newaxis])[0])


def positive_counts(counts: ArrayLike, *, at_least: int = 1) -> Array:
    """Counts above 0 as float64, at least so many of them.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or fewer than ``at_least`` above 0.

    Examples
    --------
    >>> positive_counts([3, 0, 1])
    array([3., 1.])
    """
    values = finite_vector(counts, "counts")
    if (smallest := values.min()) < 0:
        raise InvalidInput(f"counts must not be negative; got {smallest:g}.")
    if smallest == 0:
        values = values[values > 0]
    if values.size < at_least:
        raise InvalidInput(f"counts needs at least {at_least} objects that appear; got {values.size}.")
    return values


def _area(counts: Array) -> Array:
    largest, n_objects = counts.max(axis=1), np.count_nonzero(counts, axis=1)
    smallest = np.where(counts > 0, counts, largest[:, np.newaxis]).min(axis=1)
    return _ratio(counts.sum(axis=1) - n_objects * smallest, largest - smallest) - 0.5


def _entropy(counts: Array) -> Array:
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
    return np.asarray(entr(shares).sum(axis=1))


def _effective(counts: Array) -> Array:
    return np.exp(_entropy(counts))


def _evenness(counts: Array) -> Array:
    # Rounding puts an even distribution at 1 + 2e-16.
    return np.minimum(1.0, _ratio(_entropy(counts), np.log(np.maximum(1, np.count_nonzero(counts, axis=1)))))


def _gini(counts: Array) -> Array:
    n_objects = np.count_nonzero(counts, axis=1)[:, np.newaxis]
    n_columns = counts.shape[1]
    rank = np.arange(1, n_columns + 1) - (n_columns - n_objects)  # zeros come first and weigh nothing
    weighted = ((2 * rank - n_objects - 1) * np.sort(counts, axis=1)).sum(axis=1)
    return _ratio(weighted, n_objects[:, 0] * counts.sum(axis=1))


def _ratio(above: Array, below: Array) -> Array:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))


FORMULAS: Mapping[str, Callable[[Array], Array]] = {
    "distribution_bias": _area,
    "normalised_entropy": _evenness,
    "gini": _gini,
    "effective_number": _effective,
}
"""The same measures for many counts at once, ``(b, k)`` -> ``(b,)``: zeros are left out, undefined is nan."""

_INPUTS = takes(counts="counts: in how many images each object appears")


CARDS = (
    Card(
        function=chao_shen_entropy,
        name="Entropy of the objects (Chao–Shen)",
        summary="How varied the objects are, with those that few pictures miss allowed for.",
        source="chao2003, H",
        bounds=(0.0, math.inf),
        null_value=None,
        higher_means="more varied objects",
        inputs=takes(counts="counts: in how many images each object appears"),
        limits="What an unbiased scene would show is not known: compare it with a base on the same prompts.",
    ),
    Card(
        function=distribution_bias,
        name="Distribution bias B_D",
        terms=(Term(symbol="B_D", words="distribution bias"),),
        summary="How evenly objects appear in the images: the area under their sorted, normalised counts.",
        source="vice2023tbyb, Eq. 3",
        bounds=(0.5, math.inf),
        null_value=None,
        higher_means="more even, less biased; lower is more biased",
        inputs=_INPUTS,
        limits="It grows with the numbers of images and objects: compare at equal numbers; and on the "
        "calibration world it rose, then fell, while one object was planted in more and more images.",
    ),
    Card(
        function=normalised_entropy,
        name="Normalised entropy",
        summary="How even the distribution of objects is, against a perfectly even one of as many objects.",
        source="pielou1966, J′",
        bounds=(0.0, 1.0),
        null_value=1.0,
        higher_means="more even, less biased",
        inputs=_INPUTS,
        limits="Rare objects are missed in few images, and images with nothing planted are uneven too: "
        "compare with a base, at equal numbers of images.",
    ),
    Card(
        function=gini,
        name="Gini coefficient",
        summary="How unequal the counts of objects are.",
        source="gini1912, G",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="fewer objects hold more of the counts",
        inputs=_INPUTS,
        limits="With k objects it stays below 1 - 1/k, and images with nothing planted are uneven too: "
        "compare with a base, at equal numbers of images.",
    ),
    Card(
        function=effective_number,
        name="Effective number of objects",
        summary="How many equally frequent objects would be as varied as these.",
        source="hill1973, N₁",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="more varied, less biased",
        inputs=_INPUTS,
        limits="It cannot exceed the number of objects seen, which grows with the number of images.",
    ),
)
