"""Tests of a mean, or of a number that depends on a mean alone, in two arms: paired, or each on its own.

Every difference is second minus first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.paired_prevalence import (
    PairedTest,
    corrected_difference,
    corrected_share,
    excess_interval,
    prevalence_difference_test,
    stereotype_difference_test,
    swap_p_value,
)
from bias_core.stats.intervals import mean_interval, percent
from bias_core.stats.permutation import permutation_test
from bias_core.studies.kit.types import Sample
from bias_core.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from bias_core.types import ReaderErrors

    Floats = NDArray[np.float64]
    Places = NDArray[np.int_]

N_RESAMPLES = 999
ROUNDING = 1e-12
NOTHING_VARIES = "no picture differs, so there is no interval"
_MOST_EXACT = 12  # units, all of whose 2^n swaps are looked at


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

    @property
    def is_share(self) -> bool:
        """Whether every value is 0 or 1."""
        return bool(np.isin(self.each, (0.0, 1.0)).all())

    def at(self, places: Places) -> Values:
        """The values of some units."""
        return replace(self, each=self.each[places])


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

    Examples
    --------
    >>> mean_sample(["0:0", "0:1", "0:2", "0:3"], [1, 0, 1, 1], reference=0.5).statistic(np.arange(4))
    0.25
    """
    numbers = np.asarray(values, dtype=float)
    defined = ~np.isnan(numbers)
    held = Values(each=numbers[defined], errors=errors, reference=reference)

    def statistic(places: Places) -> Any:
        number = held.of_mean(held.each[places].mean(axis=-1))
        return float(number) if np.ndim(number) == 0 else number

    return Sample(units=tuple(compress(units, defined)), statistic=statistic, vectorised=True, of=of, data=held)


def alike(first: Values, second: Values) -> tuple[tuple[Values, Values], str]:
    """Both as read, with a note, where the reader's errors are not known to be the same in both arms."""
    if first.errors == second.errors:
        return (first, second), ""
    note = "as read: the reader's errors are known for one arm only, or differ"
    return (replace(first, errors=None), replace(second, errors=None)), note


def paired_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Entry i of both is of one seed: McNemar's test for a share, else the pictures of a seed swapped."""
    if first.reference is not None:
        return stereotype_difference_test(
            first.each - 0.5, second.each - 0.5, first.reference, errors=first.errors, confidence=confidence, rng=rng
        )
    n = len(first.each)
    if first.is_share and second.is_share:
        test: PairedTest = prevalence_difference_test(first.each - 0.5, second.each - 0.5, confidence=confidence)
        return _corrected(test, first, confidence)
    gain = second.each - first.each
    estimate = replace(mean_interval(gain, confidence=confidence, null_value=0.0), n=n)
    if not np.abs(gain).max() > ROUNDING:
        return nothing(n, NOTHING_VARIES, estimate.value)
    signs = rng.choice((-1.0, 1.0), size=(N_RESAMPLES, n))
    p_value = _exact_sign_flip(gain) if n <= _MOST_EXACT else swap_p_value(estimate.value, signs @ gain / n)
    return PairedTest(estimate=estimate, p_value=p_value, test="images of each seed swapped at random")


def _exact_sign_flip(gain: Floats) -> float:
    """Share of all ways to swap the pairs that give a mean at least as far from 0, the observed one too."""
    signs = 1.0 - 2.0 * (np.arange(2 ** len(gain))[:, None] >> np.arange(len(gain)) & 1)
    means = np.abs(signs @ gain)
    return float((means >= abs(gain.sum()) - ROUNDING).mean())


def apart_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """The same of two arms that share no seed."""
    if first.reference is not None:
        return _shuffled_values(first, second, confidence, rng)
    x, y = first.each, second.each
    if first.is_share and second.is_share:
        return _corrected(_two_shares(x, y, confidence), first, confidence)
    estimate = replace(mean_interval(y, x, confidence=confidence, null_value=0.0), n=min(len(x), len(y)))
    try:
        p_value = permutation_test(y, x, n_permutations=N_RESAMPLES, rng=rng).p_value
    except InvalidInput:  # all values are equal
        return nothing(estimate.n, NOTHING_VARIES, estimate.value)
    return PairedTest(estimate=estimate, p_value=p_value, test="permutation of the pictures of both arms")


def _two_shares(x: Floats, y: Floats, confidence: float) -> PairedTest:
    from statsmodels.stats.proportion import confint_proportions_2indep

    (k1, n1), (k2, n2) = ((int(v.sum()), len(v)) for v in (x, y))
    low, high = confint_proportions_2indep(k2, n2, k1, n1, method="newcomb", alpha=1 - confidence)
    value = float(y.mean() - x.mean())
    estimate = Estimate(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        n=min(n1, n2),
        null_value=0.0,
        method=f"Newcombe {percent(confidence)}",
    )
    p_value = float(stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue)
    return PairedTest(estimate=estimate, p_value=min(1.0, p_value), test="Fisher, exact")


def _shuffled_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Of a function of the mean: each arm resampled, and p from shuffling the pictures of both."""
    sizes = [len(first.each), len(second.each)]
    value = float(second.of_mean(second.each.mean()) - first.of_mean(first.each.mean()))

    def means(values: Floats, n: int) -> Floats:
        return np.array([rng.choice(values, n).mean() for _ in range(N_RESAMPLES)])

    drawn = second.of_mean(means(second.each, sizes[1])) - first.of_mean(means(first.each, sizes[0]))
    pooled = np.concatenate([first.each, second.each])
    shuffled = rng.permuted(np.tile(pooled, (N_RESAMPLES, 1)), axis=1)
    mixed = second.of_mean(shuffled[:, sizes[0] :].mean(axis=1))
    mixed = mixed - first.of_mean(shuffled[:, : sizes[0]].mean(axis=1))
    if not (np.ptp(drawn) or np.ptp(mixed)):
        return nothing(min(sizes), "neither arm comes near P*", value)
    return PairedTest(
        estimate=excess_interval(value, drawn, n=min(sizes), confidence=confidence),
        p_value=swap_p_value(value, mixed),
        test="permutation of the pictures of both arms",
    )


def _corrected(test: PairedTest, values: Values, confidence: float) -> PairedTest:
    if values.errors is None:
        return test
    return replace(test, estimate=corrected_difference(test.estimate, values.errors, confidence=confidence))


def nothing(n: int, note: str, value: float = math.nan) -> PairedTest:
    """No test, and why; a difference that is known is kept."""
    empty = Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=0.0, note=note)
    return PairedTest(estimate=empty, p_value=math.nan, test="")
