"""Where the lean of a concept lies between its own poles: pictures and texts on one scale.

Cosines of pictures and of texts have different scales, so the leans II and TT of [mandal2024internal] cannot be
compared as they are. The same concept worded for A and for B says how far each scale reaches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array, Floats, all_equal, same_length, unit_sets
from bias_core.stats.intervals import check_confidence, fieller_interval, percent
from bias_core.types import Estimate

MINIMUM_POLES = 0.002
"""Texts of A and of B whose scores lie nearer than this are not told apart by the encoder."""
_NOT_APART = "pictures of this concept worded for A and for B are not told apart, so there is no scale"
_SETS = ("targets", "poles_a", "poles_b", "attributes_a", "attributes_b")


def relative_lean(score: float, pole_a: float, pole_b: float) -> float:
    """Where a lean lies between those of the same concept worded for A and worded for B.

    r = 2 (s - m) / (s_A - s_B), with m = (s_A + s_B) / 2, s as in [mandal2024internal, Eq. 2]

    Parameters
    ----------
    score, pole_a, pole_b : float in [-2, 2]. Mean association with A rather than B of the concept, and of the same
        concept worded for A and for B.

    Returns
    -------
    float : 1 at the pole of A, -1 at that of B, 0 half way; beyond 1 it leans more than what is worded so. Of
        pictures half like A and half like B it is 0 whatever the encoder's scale.

    Raises
    ------
    InvalidInput : if a score is nan, no number or outside [-2, 2], or both poles have the same score.

    Examples
    --------
    >>> relative_lean(0.25, 0.5, -0.5), relative_lean(0.25, 0.5, 0.0)
    (0.5, 0.0)
    """
    s, a, b = (lean_score(*one) for one in ((score, "score"), (pole_a, "pole_a"), (pole_b, "pole_b")))
    if a == b:
        raise InvalidInput(f"pole_a and pole_b must differ, or there is no scale between them; both are {a:g}.")
    return (2 * s - a - b) / (a - b)


def relative_lean_estimate(
    targets: ArrayLike,
    poles_a: ArrayLike,
    poles_b: ArrayLike,
    attributes_a: ArrayLike,
    attributes_b: ArrayLike,
    *,
    groups: Sequence[ArrayLike | None] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """:func:`relative_lean` of the pictures of a concept, with its interval over pictures.

    Parameters
    ----------
    targets, poles_a, poles_b : arrays (n, d), (n_a, d), (n_b, d). Pictures of the concept; of the same concept worded
        for A and for B.
    attributes_a, attributes_b : arrays (m_a, d), (m_b, d). Other pictures of A and of B, which leans are measured by.
    groups : one sequence for each of the five sets, or None. The prompt of each picture of a set, where prompts and not
        pictures are the sampling units.

    Returns
    -------
    Estimate : null value 0, half way between the poles; positive leans to A. nan, with a note, where pictures of A and
        of B are not told apart; nan ends where a set has one unit.

    Raises
    ------
    InvalidInput : for empty, zero, not finite or wrongly shaped embeddings, different dimensions, groups of another
        length, several targets that are all equal, and attributes of A and of B that are all equal.

    Notes
    -----
    r is a ratio of means, N / D, and its interval that of Fieller [fieller1954] with all five sets drawn anew: all ρ
    with |N - ρ D| <= t SE(N - ρ D), where N - ρ D = 2 s - (1 + ρ) s_A - (1 - ρ) s_B, linear in every set. t has
    the degrees of freedom of Welch and Satterthwaite [welch1947].

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = ([1, 1.0, 0] + 0.1 * rng.normal(size=(9, 3)) for _ in "ab")
    >>> b[:, 1] *= -1
    >>> r = relative_lean_estimate(np.vstack([a, b]), a, b, a[::-1] + 0.01, b[::-1] + 0.01)
    >>> bool(r.low < 0 < r.high), abs(r.value) < 0.1
    (True, True)
    """
    sets = (targets, poles_a, poles_b, attributes_a, attributes_b)
    return relative_lean_over_encoders([sets], groups=groups, confidence=confidence)


def relative_lean_over_encoders(
    readings: Sequence[Sequence[ArrayLike]],
    *,
    groups: Sequence[ArrayLike | None] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """:func:`relative_lean_estimate` of scores that are averaged over encoders, as in [mandal2024internal, 5.2].

    Parameters
    ----------
    readings : one for each encoder: the five sets of the same pictures in the same order.

    Returns
    -------
    Estimate : as of one encoder; these encoders are taken as given.

    Raises
    ------
    InvalidInput : as :func:`relative_lean_estimate`, for no encoder, and for sets of another number of pictures.

    Examples
    --------
    >>> sets = [[[0.6, 0.8]], [[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]]
    >>> round(relative_lean_over_encoders([sets, sets]).value, 6)
    -0.2
    """
    check_confidence(confidence)
    if not readings:
        raise InvalidInput("readings is empty: give the five sets of at least one encoder.")
    parts = [_contrast(_checked(sets)) for sets in readings]
    _same_pictures(parts)
    units = [
        _of_groups(np.mean([part.units[i] for part in parts], axis=0), None if groups is None else groups[i], name)
        for i, name in enumerate(_SETS)
    ]
    numerator, denominator = (float(np.mean([getattr(p, of) for p in parts])) for of in ("numerator", "denominator"))
    n = sum(len(unit) for unit in units)
    if not denominator > 0:
        return Estimate.undefined(n, _NOT_APART, null_value=0.0)
    value, null = numerator / denominator, 0.0
    if min(len(unit) for unit in units) < 2:
        note = "a set of one sampling unit has no interval"
        return Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=null, note=note)
    low, high = _interval(numerator, denominator, units, confidence)
    if math.isnan(low):
        return Estimate.undefined(n, _NOT_APART, null_value=null)
    return Estimate(value=value, low=low, high=high, n=n, null_value=null, method=f"Fieller {percent(confidence)}")


def text_relative_lean(readings: Sequence[Sequence[ArrayLike]], *, minimum_poles: float = MINIMUM_POLES) -> float:
    """:func:`relative_lean` of texts, of scores averaged over encoders; texts are not drawn by chance.

    Parameters
    ----------
    readings : one for each encoder: the text of the concept, the same worded for A and for B, words of A and of B,
        arrays (n, d) each.
    minimum_poles : float > 0. Smallest s_A - s_B that makes a scale.

    Returns
    -------
    float : as :func:`relative_lean`; nan where the encoders do not tell the texts of A and of B apart.

    Raises
    ------
    InvalidInput : as :func:`relative_lean_over_encoders`.

    Examples
    --------
    >>> text_relative_lean([[[[0.6, 0.8]], [[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]]]]).__round__(6)
    -0.2
    """
    if not readings:
        raise InvalidInput("readings is empty: give the five sets of at least one encoder.")
    parts = [_contrast(_checked(sets)) for sets in readings]
    numerator, denominator = (float(np.mean([getattr(p, of) for p in parts])) for of in ("numerator", "denominator"))
    return numerator / denominator if denominator >= minimum_poles else math.nan


def lean_score(value: float, name: str) -> float:
    """The value as a float; InvalidInput unless it is one mean association, from -2 to 2.

    Raises
    ------
    InvalidInput : if it is nan, no number, or outside [-2, 2].

    Examples
    --------
    >>> lean_score(0.5, "score")
    0.5
    """
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "fiu" or not abs(float(number)) <= 2:
        raise InvalidInput(f"{name} must be one number from -2 to 2; got {value!r}.")
    return float(number)


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """N = 2 s - s_A - s_B and D = s_A - s_B, and what each picture of each set adds to them, ``(n, 2)``."""

    numerator: float
    denominator: float
    units: tuple[Array, ...]


def _checked(sets: Sequence[ArrayLike]) -> list[Floats]:
    if len(sets) != len(_SETS):
        raise InvalidInput(f"A reading has five sets, {', '.join(_SETS)}; got {len(sets)}.")
    rows: list[Floats] = [one.astype(np.float64) for one in unit_sets(**dict(zip(_SETS, sets, strict=True)))]
    if len(rows[0]) > 1 and all_equal(rows[0]):
        raise InvalidInput(f"All {len(rows[0])} targets are equal: one picture, many times?")
    if all_equal(np.vstack(rows[3:])):
        n = len(rows[3]) + len(rows[4])
        raise InvalidInput(f"All {n} attributes of A and B are equal: they tell nothing apart.")
    return rows


def _contrast(rows: Sequence[Floats]) -> _Contrast:
    x, pole_a, pole_b, a, b = rows
    mean_x, mean_a, mean_b = (one.mean(axis=0) for one in rows[:3])
    lean = a.mean(axis=0) - b.mean(axis=0)  # (d,)
    upper, lower = 2 * mean_x - mean_a - mean_b, mean_a - mean_b  # N and D are their products with the lean
    along_x, along_a, along_b = x @ lean, pole_a @ lean, pole_b @ lean
    units = (
        np.column_stack([2 * along_x, np.zeros(len(x))]),
        np.column_stack([-along_a, along_a]),
        np.column_stack([-along_b, -along_b]),
        np.column_stack([a @ upper, a @ lower]),
        np.column_stack([-b @ upper, -b @ lower]),
    )
    return _Contrast(numerator=float(upper @ lean), denominator=float(lower @ lean), units=units)


def _same_pictures(parts: Sequence[_Contrast]) -> None:
    sizes = [tuple(len(unit) for unit in part.units) for part in parts]
    if len(set(sizes)) > 1:
        raise InvalidInput(f"Every encoder must read the same pictures; got sets of {', '.join(map(str, sizes))}.")


def _of_groups(values: Array, groups: ArrayLike | None, name: str) -> Array:
    """What each sampling unit adds, ``(n_units, 2)``, so that its mean is that of the pictures."""
    if groups is None:
        return values
    labels = np.asarray(groups)
    same_length(**{name: values, f"groups of {name}": labels})
    _, index = np.unique(labels, return_inverse=True)
    sums = np.stack([np.bincount(index, weights=column) for column in values.T], axis=1)
    return np.asarray(sums * len(sums) / len(values))


def _interval(numerator: float, denominator: float, units: Sequence[Array], confidence: float) -> tuple[float, float]:
    """Fieller's, from the covariance that each set adds to (N, D)."""
    parts = [(np.cov(unit, rowvar=False) / len(unit), len(unit) - 1) for unit in units]
    covariance = sum(part for part, _ in parts)
    at = np.array([1.0, -numerator / denominator])  # of N - r D
    squares = [(float(at @ part @ at), df) for part, df in parts]
    total = sum(square for square, _ in squares)
    if not total > 0:
        return math.nan, math.nan
    df = total**2 / sum(square**2 / df for square, df in squares)
    reach = float(stats.t.ppf((1 + confidence) / 2, df))
    return fieller_interval(numerator, denominator, np.asarray(covariance), reach)


CARDS = (
    Card(
        function=relative_lean,
        name="Lean between the own poles, r",
        summary="Where a concept lies between the same concept worded for A and for B.",
        source="mandal2024internal, after Eq. 2",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="nearer to what is worded for A",
        inputs=takes(
            score="score: lean of the concept",
            pole_a="score: lean of the same concept worded for A",
            pole_b="score: lean of the same concept worded for B",
        ),
        limits="0 is half way between the poles, which is even only if the pictures of the poles show what they are "
        "worded for.",
    ),
)
