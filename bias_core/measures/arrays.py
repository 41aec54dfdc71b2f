"""Input checks: every array that a measure takes passes here first, and errors quote bad ones."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Seed = int | np.random.Generator
_PART = 4096  # rows of a large set that are looked at together


def unit_rows(x: ArrayLike, name: str = "embeddings", *, min_rows: int = 1) -> Floats:
    """Embeddings ``(n, d)`` with every row divided by its length.

    Parameters
    ----------
    x : array (n, d), n >= ``min_rows``, d >= 1. float32 and float64 keep their type, float16 becomes float32, whole
        numbers float64.
    name : str. What the array is called in messages.
    min_rows : int. Fewest rows that will do.

    Returns
    -------
    array (n, d) : a new array; every row has length 1.

    Raises InvalidInput: for an empty array, another number of dimensions, nan or infinity, a row of zeros, or too few
    rows.

    Notes
    -----
    Each row is divided by its largest entry before its length is taken, so that no square overflows.

    >>> unit_rows([[3.0, 4.0]])
    array([[0.6, 0.8]])
    """
    if (rows := _finite(x, name)).ndim != 2:
        raise InvalidInput(f"{name} must have shape (n, d); got shape {rows.shape}.")
    if len(rows) < min_rows:
        raise InvalidInput(f"{name} needs at least {min_rows} rows; got shape {rows.shape}.")
    largest = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    if (zero := np.flatnonzero(largest == 0)).size:
        raise InvalidInput(f"{name} must have no row of zeros; got {zero.size}, the first is row {zero[0]}.")
    unit: Floats = rows / largest
    unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]  # without another copy of a large set
    return unit


def unit_sets(min_rows: int = 1, /, **sets: ArrayLike) -> list[Floats]:
    """:func:`unit_rows` of several sets of embeddings of one dimension, in their order.

    Raises InvalidInput: as :func:`unit_rows` and :func:`same_dimension`.

    >>> [rows.shape for rows in unit_sets(targets=np.ones((3, 7)), attributes=np.ones((5, 7)))]
    [(3, 7), (5, 7)]
    """
    rows = {name: unit_rows(array, name, min_rows=min_rows) for name, array in sets.items()}
    same_dimension(**rows)
    return list(rows.values())


def unit_vector(x: ArrayLike, name: str = "direction") -> Floats:
    """A vector ``(d,)`` divided by its length.

    Raises InvalidInput: for an empty or zero vector, another number of dimensions, nan or infinity.

    >>> unit_vector([0.0, -2.0])
    array([ 0., -1.])
    """
    if (vector := _finite(x, name)).ndim != 1:
        raise InvalidInput(f"{name} must have shape (d,); got shape {vector.shape}.")
    if not vector.any():
        raise InvalidInput(f"{name} must not be zero; got {vector.size} zeros.")
    return np.asarray(unit_rows(vector[np.newaxis], name)[0])


def finite_vector(x: ArrayLike, name: str = "values", *, min_size: int = 1) -> Array:
    """Numbers ``(n,)`` as float64.

    Raises InvalidInput: for an empty array, another number of dimensions, nan or infinity, or fewer than ``min_size``
    numbers.

    >>> finite_vector([1, 2])
    array([1., 2.])
    """
    if (vector := finite_array(x, name)).ndim != 1:
        raise InvalidInput(f"{name} must have shape (n,); got shape {vector.shape}.")
    if vector.size < min_size:
        raise InvalidInput(f"{name} needs at least {min_size} numbers; got {vector.size}.")
    return vector


def finite_array(x: ArrayLike, name: str = "values") -> Array:
    """Numbers of any shape as float64, in an array of their own.

    Raises InvalidInput: for a single number, an empty array, nan or infinity.

    >>> finite_array([[1, 2]])
    array([[1., 2.]])
    """
    if not (array := _finite(x, name)).ndim:
        raise InvalidInput(f"{name} must be an array, shape (n,) at least; got {x!r}.")
    return np.array(array, dtype=np.float64)


def paired_vectors(**vectors: ArrayLike) -> list[Array]:
    """:func:`finite_vector` of several lists of numbers, entry by entry of the same things, in their order.

    Raises InvalidInput: as :func:`finite_vector` and :func:`same_length`.

    >>> paired_vectors(a=[1, 2], b=[3, 4])[1]
    array([3., 4.])
    """
    numbers = {name: finite_vector(vector, name) for name, vector in vectors.items()}
    same_length(**numbers)
    return list(numbers.values())


def cosines(x: ArrayLike) -> Array:
    """Cosines ``(n,)``, in [-1, 1] to the last digit.

    Raises InvalidInput: for empty or not finite numbers, or such as are no cosines; float32 rounding is let through.

    >>> cosines([0.5, 1.0000001])
    array([0.5, 1. ])
    """
    values = finite_vector(x, "similarities")
    if np.abs(values).max() > 1 + 1e-6:
        raise InvalidInput(f"similarities must lie in [-1, 1]; got {values.min():.3f} to {values.max():.3f}.")
    return np.clip(values, -1.0, 1.0)


def same_dimension(**arrays: Floats) -> int:
    """The last dimension that all arrays share.

    Raises InvalidInput: if they differ; the message names every array with its shape.

    >>> same_dimension(images=np.ones((3, 7)), direction=np.ones(7))
    7
    """
    if len(dimensions := {int(array.shape[-1]) for array in arrays.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidInput(f"All embeddings must have the same dimension; got {shapes}.")
    return dimensions.pop()


def same_length(**arrays: NDArray[Any]) -> int:
    """The number of rows that all arrays share.

    Raises InvalidInput: if they differ; the message names every array with its length.

    >>> same_length(a=np.ones(2), b=np.zeros(2))
    2
    """
    if len(lengths := {len(array) for array in arrays.values()}) != 1:
        shown = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise InvalidInput(f"Every input needs one entry per image; got lengths {shown}.")
    return lengths.pop()


def all_equal(rows: Floats) -> bool:
    """Return True if unit rows differ by no more than float32 rounding (1e-6 from their mean, root mean square).

    >>> all_equal(np.array([[1.0, 0.0], [1.0, 1e-9]])), all_equal(np.eye(2))
    (True, False)
    """
    mean, squares = rows.mean(axis=0, dtype=np.float64), 0.0
    for start in range(0, len(rows), _PART):
        squares += float(((rows[start : start + _PART] - mean) ** 2).sum())
    return math.sqrt(squares / len(rows)) <= 1e-6


def probability(value: float, name: str = "probability") -> float:
    """A number in [0, 1].

    Raises InvalidInput: for nan and for anything outside; percent must be divided by 100 first.

    >>> probability(0.25)
    0.25
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be a number from 0 to 1; got {value!r}.") from None
    if not 0 <= number <= 1:
        raise InvalidInput(f"{name} must be from 0 to 1; got {value!r}.")
    return number


def probabilities(x: ArrayLike, name: str = "probabilities") -> Array:
    """Numbers ``(n,)`` in [0, 1].

    Raises InvalidInput: for an empty array, another number of dimensions, nan, or any number outside.

    >>> probabilities([0, 0.5])
    array([0. , 0.5])
    """
    values = finite_vector(x, name)
    if values.min() < 0 or values.max() > 1:
        raise InvalidInput(f"{name} must be from 0 to 1; got {values.min():g} to {values.max():g}.")
    return values


def check_pictures_differ(rows: Floats, name: str) -> None:
    """Raise InvalidInput where several unit rows are all equal: nothing would differ, and read as no bias."""
    if len(rows) > 1 and all_equal(rows):
        raise InvalidInput(f"All {len(rows)} {name} are equal: one picture, many times?")


def check_attributes_differ(attributes_a: Floats, attributes_b: Floats, name: str = "attributes") -> None:
    """Raise InvalidInput where the unit rows of two attributes are all equal."""
    if all_equal(np.vstack([attributes_a, attributes_b])):
        n = len(attributes_a) + len(attributes_b)
        raise InvalidInput(f"All {n} {name} of A and B are equal: A and B must differ.")


def _finite(x: ArrayLike, name: str) -> Floats:
    """An array of float32 or float64 without nan and infinity, not empty."""
    try:
        array = np.asarray(x)
    except ValueError as error:  # rows of different lengths
        raise InvalidInput(f"{name} must be one rectangular array; {error}.") from None
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold real numbers; got type {array.dtype}.")
    if array.size == 0:
        raise InvalidInput(f"{name} is empty; got shape {array.shape}.")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    elif array.dtype.itemsize < 4:  # half precision: differences of cosines come out 7 % off
        array = array.astype(np.float32)
    if bad := int(array.size - np.isfinite(array).sum()):
        raise InvalidInput(f"{name} must be finite; got {bad} nan or infinite of {array.size} numbers.")
    return array


def margins_by_step(x: ArrayLike, name: str) -> Array:
    """Margins of steps ``(n_seeds, n_steps)``, in [-2, 2]; a vector is one step. InvalidInput for other numbers."""
    if (values := finite_array(x, name)).ndim not in (1, 2):
        raise InvalidInput(f"{name} must have shape (n_seeds, n_steps) or (n_seeds,); got shape {values.shape}.")
    values = values.reshape(len(values), -1)
    if np.abs(values).max() > 2 + 1e-6:
        raise InvalidInput(f"{name} must lie in [-2, 2]; got {values.min():.3f} to {values.max():.3f}.")
    return values
