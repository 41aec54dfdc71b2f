"""Do two scores put the same things in the same order?"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array, finite_vector, same_length
from bias_core.stats.effects import Seed, percentile_estimate
from bias_core.types import Estimate

_LARGEST_BLOCK = 4_000_000  # pairs looked at in one go
_ROUNDING = 1e-12  # scores that differ by less are equal up to rounding


@dataclass(frozen=True, kw_only=True)
class RankAgreement:
    """The answer of :func:`kendall_tau`."""

    # in [-1, 1]; 1: the same order; 0: orders that have nothing to do with each other; -1: the reverse. nan with a note
    # where one of the scores is the same for all.
    tau: Estimate
    p_value: float  # in (0, 1], two-sided; nan where `tau` is


def kendall_tau(
    a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 2000, rng: Seed = 0
) -> RankAgreement:
    """How far two scores of the same items agree on their order.

    τ_b = Σ sgn(a_i - a_j) sgn(b_i - b_j) / √(n_a n_b) over pairs of items, n_a and n_b the numbers
    of pairs that differ in a and in b   [kendall1945]

    Parameters
    ----------
    a, b : arrays (n,). Both scores, item by item; n >= 2.
    n_resamples : int. Of the bootstrap over items and of the permutation test.

    Returns
    -------
    RankAgreement : τ in [-1, 1] with its interval over items, and the permutation p-value of orders without relation.

    Raises
    ------
    InvalidInput : for fewer than two items, different lengths, or scores that are not finite.

    Notes
    -----
    With ties, as where 8 of 20 pictures are as many as 8 of 20 others, τ_b is below 1 unless both have them. Resamples
    that hold one value only have no τ; they are left out, and the note counts them.

    Examples
    --------
    >>> answer = kendall_tau([1, 2, 3, 4, 5], [1, 3, 2, 4, 5])
    >>> answer.tau.value, answer.tau.n
    (0.8, 5)
    """
    first, second = finite_vector(a, "a", min_size=2), finite_vector(b, "b", min_size=2)
    n = same_length(a=first, b=second)
    value = float(_taus(first[np.newaxis], second[np.newaxis])[0])
    if math.isnan(value):
        tau = Estimate.undefined(n, "one of the scores is the same for all items")
        return RankAgreement(tau=tau, p_value=math.nan)
    generator = np.random.default_rng(rng)
    drawn = generator.integers(0, n, size=(n_resamples, n))
    resampled = _taus(first[drawn], second[drawn])
    defined = resampled[np.isfinite(resampled)]
    tau = percentile_estimate(value, defined, n=n, confidence=confidence)
    if left_out := n_resamples - defined.size:
        tau = tau.with_note(f"{left_out} of {n_resamples} resamples held one value only and were left out")
    orders = generator.permuted(np.tile(second, (n_resamples, 1)), axis=1)
    extreme = np.abs(_taus(np.broadcast_to(first, orders.shape), orders)) >= abs(value) - 1e-12
    return RankAgreement(tau=tau, p_value=(1 + int(extreme.sum())) / (1 + n_resamples))


def _taus(a: Array, b: Array) -> Array:
    """τ_b of each row, ``(n_rows,)``; nan where a row of either does not vary."""
    i, j = np.triu_indices(a.shape[1], k=1)
    rows = max(1, _LARGEST_BLOCK // len(i))
    taus: list[Array] = []
    for start in range(0, len(a), rows):
        steps = (x[start : start + rows, i] - x[start : start + rows, j] for x in (a, b))  # (n_rows, n_pairs)
        signs_a, signs_b = (np.sign(step) * (np.abs(step) > _ROUNDING) for step in steps)
        differing = np.abs(signs_a).sum(axis=1) * np.abs(signs_b).sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0/0 where nothing varies
            taus.append((signs_a * signs_b).sum(axis=1) / np.sqrt(differing))
    return np.concatenate(taus)


CARDS = (
    Card(
        function=kendall_tau,
        field="tau.value",
        name="Kendall's τ",
        summary="How far two scores, such as a machine's and people's, put things in the same order.",
        source="kendall1945, definition of τ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="the orders agree more; 0 is chance",
        inputs=takes(a="similarities: one score of each item", b="similarities: the other score"),
        limits="It compares orders, not sizes, and with few items its interval is wide.",
    ),
)
