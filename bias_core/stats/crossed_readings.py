"""What a reader that errs makes of pictures with several attributes, and how that is undone."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array
from bias_core.types import ReaderErrors

Errors = Sequence[ReaderErrors | None] | None


def usable_errors(errors: Errors, k: int) -> list[ReaderErrors | None]:
    """The errors that correct anything."""
    if errors is None:
        return [None] * k
    if len(errors) != k:
        raise InvalidInput(f"errors are needed for each of the {k} attributes; got {len(errors)}.")
    return [one if one and one.sensitivity + one.specificity > 1 else None for one in errors]


def reading_matrix(errors: ReaderErrors | None) -> Array:
    """The chance of each reading (rows: absent, present) of what is there (columns)."""
    if errors is None:
        return np.eye(2)
    se, sp = errors.sensitivity, errors.specificity
    return np.array([[sp, 1 - se], [1 - sp, se]])


def inverse_matrix(errors: ReaderErrors | None) -> Array:
    """What undoes :func:`reading_matrix`."""
    return np.asarray(np.linalg.inv(reading_matrix(errors)), dtype=np.float64)


def all_of(parts: Sequence[Array]) -> Array:
    """The matrix of all attributes from those of each, the first one's the slowest."""
    whole: Array = np.ones((1, 1))
    for part in parts:
        whole = np.asarray(np.kron(whole, part), dtype=np.float64)
    return whole


def error_noise(used: Sequence[ReaderErrors | None], weights: Array, raw: Array) -> Array:
    """Variance of P for what is not known of the reader's errors: ∂P = −W (∂E) P.

    ``weights (m, 2^k)`` make m numbers of the shares of the readings; ``raw (2^k,)`` are the corrected shares.
    """
    steps = _error_steps(tuple(used))
    return np.asarray(sum(((weights @ step @ raw) ** 2 * v for step, v in steps), np.zeros(len(weights))))


@lru_cache(maxsize=16)
def _error_steps(used: tuple[ReaderErrors | None, ...]) -> tuple[tuple[Array, float], ...]:
    """What each rate of errors changes in the matrix of readings, and the variance of that rate."""
    steps = []
    for j, one in enumerate(used):
        if one is None:
            continue
        for rate, n, column in ((one.specificity, one.n_negative, 0), (one.sensitivity, one.n_positive, 1)):
            step = np.zeros((2, 2))
            step[:, column] = (1, -1) if column == 0 else (-1, 1)
            parts = [step if i == j else reading_matrix(other) for i, other in enumerate(used)]
            steps.append((all_of(parts), rate * (1 - rate) / n))
    return tuple(steps)
