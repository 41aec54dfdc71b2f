"""Ratings at the door: checked, and every answer as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Codes = np.ndarray[Any, np.dtype[np.int64]]


def coded(ratings: ArrayLike | pd.DataFrame, *, complete: bool = False) -> tuple[Codes, list[Any]]:
    """Number of each answer, ``(n_items, n_raters)``, and the answers in that order.

    A missing answer is -1; with ``complete`` none may be missing.

    Raises
    ------
    InvalidInput
        For fewer than two items with two answers, another shape, or missing answers where none may be.

    Examples
    --------
    >>> coded([["f", "m", None], ["f", "f", "m"]])
    (array([[ 0,  1, -1], [ 0,  0,  1]]), ['f', 'm'])
    """
    array = _objects(ratings)
    if array.ndim != 2 or min(array.shape) < 2:
        raise InvalidInput(
            "ratings need at least two items and two raters, shape (n_items, n_raters); "
            f"got shape {array.shape}."
        )
    n_missing = int(pd.isna(array).sum())
    if complete and n_missing:
        raise InvalidInput(
            f"No rating may be missing here; got {n_missing} of {array.size}. "
            "Krippendorff's alpha takes missing ratings."
        )
    flat, answers = pd.factorize(array.ravel())
    codes = flat.reshape(array.shape)
    n_rated = int(rated(codes).sum())
    if n_rated < 2:
        raise InvalidInput(f"At least two items need two ratings each; got {n_rated} of {len(array)}.")
    return codes, list(answers)


def rated(codes: Codes) -> NDArray[np.bool_]:
    """Which items have two or more answers: a single one tells nothing about agreement.

    Examples
    --------
    >>> rated(np.array([[0, 1, -1], [0, -1, -1]]))
    array([ True, False])
    """
    enough: NDArray[np.bool_] = (codes >= 0).sum(axis=1) >= 2
    return enough


def two_raters(a: ArrayLike | pd.Series[Any], b: ArrayLike | pd.Series[Any]) -> NDArray[np.object_]:
    """Answers of two raters side by side, ``(n_items, 2)``.

    Raises
    ------
    InvalidInput
        For different lengths, another shape, or missing answers.

    Examples
    --------
    >>> two_raters(["f", "m"], ["f", "f"]).tolist()
    [['f', 'f'], ['m', 'f']]
    """
    first, second = _objects(a), _objects(b)
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInput(
            f"One answer of each rater per item is needed, shape (n,); got {first.shape} and {second.shape}."
        )
    pairs = np.column_stack([first, second])
    n_missing = int(pd.isna(pairs).sum())
    if n_missing:
        raise InvalidInput(f"No answer may be missing here; got {n_missing} of {pairs.size}.")
    return pairs


def contingency(codes: Codes, weights: Codes) -> Codes:
    """How often two raters gave each pair of answers, ``(n_answers, n_answers)``.

    Examples
    --------
    >>> contingency(np.array([[0, 0], [0, 1]]), np.array([3, 1]))
    array([[3, 1], [0, 0]])
    """
    table = np.zeros((codes.max() + 1,) * 2, dtype=np.int64)
    np.add.at(table, (codes[:, 0], codes[:, 1]), weights)
    return table


def _objects(values: ArrayLike | pd.DataFrame | pd.Series[Any]) -> NDArray[np.object_]:
    """Through objects: otherwise numpy turns a missing answer among words into the word "nan"."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "US":
        spoilt = np.isin(values, ["nan", "None"])
        if spoilt.any():
            raise InvalidInput(
                f"{int(spoilt.sum())} answers are the word 'nan' or 'None', which numpy makes of a missing "
                "answer among words: give a data frame, a list, or an array of dtype object."
            )
    return np.asarray(values, dtype=object)


def units_of(groups: ArrayLike | pd.Series[Any] | None, n_items: int) -> NDArray[np.object_]:
    """Name of the sampling unit of each item, ``(n_items,)``."""
    names = np.asarray(range(n_items) if groups is None else groups, dtype=object)
    if names.shape != (n_items,) or pd.isna(names).any():
        raise InvalidInput(
            f"groups must name one group for each of the {n_items} items; got shape {names.shape} with "
            f"{int(pd.isna(names).sum())} missing."
        )
    return names


def pattern_counts(index: Codes, n_patterns: int, units: NDArray[np.object_]) -> Codes:
    """How often each unit (an item, or a group of items) has each pattern, ``(n_units, n_patterns)``."""
    number, names = pd.factorize(units)
    counts = np.zeros((len(names), n_patterns), dtype=np.int64)
    np.add.at(counts, (number, index), 1)
    return counts
