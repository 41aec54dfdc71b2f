"""What a number of an arm was computed from, so that it can be computed again from a part or a resample of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.metrics.paired_prevalence import corrected_share
from bias_core.studies.kit.types import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bias_core.types import ReaderErrors

    Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Values:
    """The value of every unit of a number that depends on their mean alone: :meth:`of_mean` of it.

    Attributes
    ----------
    each : ``(n,)``.
    errors : of the reader of a share, where it is corrected for them.
    reference : P* of a stereotype score, max(0, share − P*).
    """

    each: Floats
    errors: ReaderErrors | None = None
    reference: float | None = None

    def of_mean(self, mean: Any) -> Any:
        """The number that belongs to a mean, or to each of many."""
        mean = corrected_share(mean, self.errors)
        return mean if self.reference is None else np.maximum(0.0, mean - self.reference)


def mean_sample(
    units: Sequence[str],
    values: ArrayLike,
    *,
    errors: ReaderErrors | None = None,
    reference: float | None = None,
    of: str = "seeds",
) -> Sample:
    """The sample of a mean or share, of one corrected for a reader's errors, or of a stereotype score.

    Units whose value is nan are left out.

    >>> mean_sample(["0:0", "0:1", "0:2", "0:3"], [1, 0, 1, 1], reference=0.5).statistic(np.arange(4))
    0.25
    """
    numbers = np.asarray(values, dtype=float)
    defined = ~np.isnan(numbers)
    held = Values(each=numbers[defined], errors=errors, reference=reference)

    def statistic(places: NDArray[np.int_]) -> Any:
        number = held.of_mean(held.each[places].mean(axis=-1))
        return float(number) if np.ndim(number) == 0 else number

    return Sample(units=tuple(compress(units, defined)), statistic=statistic, vectorised=True, of=of, data=held)


def counted_sample(units: Sequence[str], of_counts: Callable[[Floats], Floats]) -> Sample:
    """The sample of a number that depends on how often each unit is counted.

    ``of_counts`` makes numbers ``(k,)`` of counts ``(k, n_units)``; nan where a number is undefined.

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
    terms = [np.zeros(n) if term is None else term for n, term in zip(sizes, (of_targets, of_a, of_b), strict=True)]

    def of_counts(times: Floats) -> Floats:
        parts = np.split(times, np.cumsum(sizes)[:2], axis=1)
        x, a, b = (part / part.sum(axis=1, keepdims=True) for part in parts)
        lean = ((x @ to_a) * a).sum(axis=1) - ((x @ to_b) * b).sum(axis=1)
        return np.asarray(lean + x @ terms[0] + a @ terms[1] - b @ terms[2] + constant)

    return counted_sample([unit for part in units for unit in part], of_counts)
