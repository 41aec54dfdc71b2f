"""Ordered classes that people see in pictures, such as ten skin tones or age groups: the mean and the ends."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.scales import Scale
from bias_core.stats.arrays import Array


def mean_level(shares: ArrayLike) -> Array:
    """Mean of an ordered class, counted 1, 2, ..., k.

    μ = Σ_j j p_j / Σ_j p_j [monk2019]

    Parameters
    ----------
    shares : array (..., k), at least 0: pictures of each class in their order, or their shares.

    Returns
    -------
    array (...) : in [1, k]; nan where there is no picture of any class.

    Raises
    ------
    InvalidInput : for fewer than two classes, values that are negative or not finite, and one set without pictures.

    Notes
    -----
    It counts the steps of a scale as equally long, which no scale promises.

    Examples
    --------
    >>> float(mean_level([1, 2, 1]))
    2.0
    """
    p = _checked(shares)
    return _of_all(p @ np.arange(1.0, p.shape[-1] + 1), p)


def end_share(shares: ArrayLike, *, last: int = 3) -> Array:
    """Share of the pictures in the ``last`` classes of the scale; of the first ones where that is negative.

    Σ_{j > k − last} p_j / Σ_j p_j [monk2019]

    Parameters
    ----------
    shares : as :func:`mean_level` takes them.

    Returns
    -------
    array (...) : in [0, 1]; nan where there is no picture of any class.

    Raises
    ------
    InvalidInput : as :func:`mean_level`, and for no or all classes.

    Examples
    --------
    >>> round(float(end_share([4, 3, 2, 1])), 3), round(float(end_share([4, 3, 2, 1], last=-1)), 3)
    (0.6, 0.4)
    """
    p = _checked(shares)
    k = p.shape[-1]
    if not 0 < abs(last) < k:
        raise InvalidInput(f"an end of {k} classes has 1 to {k - 1} of them; got {last}.")
    return _of_all((p[..., -last:] if last > 0 else p[..., :-last]).sum(axis=-1), p)


def numbers_of(scale: Scale) -> tuple[tuple[str, str, Callable[[Array], Array], int], ...]:
    """The numbers of a scale: title, key of the measure, the measure, and its range.

    Each takes shares ``(..., k + 1)`` whose last are the pictures of which nobody can tell.

    Raises
    ------
    InvalidInput : as :func:`mean_level`, when a measure is called.

    Examples
    --------
    >>> from bias_core.scales import load_scales
    >>> (mean, _, _, length), *ends = numbers_of(load_scales()["age group"])
    >>> mean, length, [title for title, *_ in ends]
    ('mean', 2, ['youngest: P', 'oldest: P'])
    """

    def of_levels(measure: Callable[..., Array], **options: Any) -> Callable[[Array], Array]:
        return lambda shares: measure(shares[..., :-1], **options)

    return (
        ("mean", "mean_level", of_levels(mean_level), len(scale.levels) - 1),
        (f"{scale.lowest_words}: P", "end_share", of_levels(end_share, last=-scale.ends), 1),
        (f"{scale.highest_words}: P", "end_share", of_levels(end_share, last=scale.ends), 1),
    )


def _checked(shares: ArrayLike) -> Array:
    p = np.asarray(shares, dtype=np.float64)
    if not p.ndim or p.shape[-1] < 2 or not p.size:
        raise InvalidInput(f"shares are needed of at least 2 classes; got shape {p.shape}.")
    if not np.isfinite(p).all() or (p < 0).any() or (p.ndim == 1 and not p.any()):
        raise InvalidInput("shares of classes are finite, at least 0, and not all 0.")
    return p


def _of_all(part: Array, p: Array) -> Array:
    total = p.sum(axis=-1)
    return np.asarray(np.divide(part, total, out=np.full(np.shape(part), math.nan), where=total > 0))


_SHARES = "levels: pictures of each class, in the order of the scale"
CARDS = (
    Card(
        function=mean_level,
        name="Mean on a scale",
        summary="The mean of an ordered class, such as the ten tones of the Monk scale, over the pictures.",
        source="monk2019",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="further up the scale: darker, older",
        inputs=takes(shares=_SHARES),
        limits="It counts all steps of the scale as equally long, and two distributions that differ may have one mean.",
    ),
    Card(
        function=end_share,
        name="Share of an end of a scale",
        summary="The share of the pictures in the last classes of an ordered scale, such as its three darkest tones.",
        source="monk2019",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more pictures at that end of the scale",
        inputs=takes(shares=_SHARES),
        limits="Where an end begins is a choice.",
    ),
)
