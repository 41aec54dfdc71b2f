"""Samples of numbers that are no means: functions of how often each unit is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.studies.kit.types import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def counted_sample(units: Sequence[str], of_counts: Callable[[Floats], Floats]) -> Sample:
    """The sample of a number that depends on how often each unit is counted.

    Parameters
    ----------
    of_counts : from counts ``(k, n_units)`` to numbers ``(k,)``; nan where it is undefined.

    Examples
    --------
    >>> sample = counted_sample(["0:0", "0:1", "1:0"], lambda times: times @ np.array([1.0, 2.0, 4.0]))
    >>> sample.statistic(np.array([0, 0, 2])), sample.statistic(np.array([[0, 1], [2, 2]]))
    (6.0, array([3., 8.]))
    """
    n = len(units)

    def statistic(places: NDArray[np.int_]) -> Any:
        draws = np.atleast_2d(places)
        flat = (draws + n * np.arange(len(draws))[:, None]).ravel()
        times = np.bincount(flat, minlength=n * len(draws)).reshape(len(draws), n).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):  # a part that was not drawn: nan
            numbers = of_counts(times)
        return numbers if np.ndim(places) == 2 else float(numbers[0])

    return Sample(units=tuple(units), statistic=statistic, vectorised=True)


def lean_sample(
    units: tuple[Sequence[str], Sequence[str], Sequence[str]],
    to_a: Floats,
    to_b: Floats,
    *,
    of_targets: Floats | None = None,
    of_a: Floats | None = None,
    of_b: Floats | None = None,
    constant: float = 0.0,
) -> Sample:
    """The sample of a mean association of targets with A rather than B, and of sums of such means.

    Parameters
    ----------
    units : of the targets, of A and of B.
    to_a, to_b : ``(n, n_a)`` and ``(n, n_b)`` cosines.
    of_targets, of_a, of_b : a further term of each, whose means are added (that of B taken away).
    """
    sizes = [len(part) for part in units]
    ends = np.cumsum(sizes)
    terms = [np.zeros(n) if term is None else term for n, term in zip(sizes, (of_targets, of_a, of_b), strict=True)]

    def of_counts(times: Floats) -> Floats:
        parts = np.split(times, ends[:2], axis=1)
        x, a, b = (part / part.sum(axis=1, keepdims=True) for part in parts)
        lean = ((x @ to_a) * a).sum(axis=1) - ((x @ to_b) * b).sum(axis=1)
        lean = lean + x @ terms[0] + a @ terms[1] - b @ terms[2] + constant
        return np.asarray(lean)

    return counted_sample([unit for part in units for unit in part], of_counts)
