"""People side by side in every order: what hangs on who they are, and what on where they stand."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, Term, takes
from bias_core.stats.arrays import Array, finite_vector
from bias_core.stats.intervals import mean_interval
from bias_core.types import Estimate

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class OrderEffect:
    """A contrast over the orders of a picture."""

    estimate: Estimate  # mean over seeds, in the unit of the differences, null value 0; n counts seeds
    p_value: float  # two-sided, of random signs, in (0, 1]; nan where every seed gives 0


def order_effect(
    first: ArrayLike,
    second: ArrayLike,
    *,
    sign: int = -1,
    confidence: float = 0.95,
    n_resamples: int = 4999,
    rng: int = 0,
) -> OrderEffect:
    """What of a difference within pictures hangs on the people, or on their places.

    The same two people A and B are drawn in both orders from the same seed: d₁ is A's value minus B's where A stands
    left, d₂ where A stands right. Their half sum hangs on the people alone, their half difference on the place alone:

    e = 1/n Σ_i (d₁ᵢ + s d₂ᵢ) / 2,  s = 1: of A less B, wherever they stand; s = −1: of left less right, whoever stands
    there

    With an interval of Student's t over seeds, and p of random signs: where nothing hangs on it, the half sum (or
    difference) of every seed has either sign as often [fisher1935, § 21].

    Parameters
    ----------
    first, second : arrays (n,). Differences within a picture; entry i of both is of the same seed. Of who looks
        masculine (1) or not (0): −1, 0 or 1.
    sign : 1 or −1. Which of the two.
    n_resamples : int. Random signs; all 2ⁿ are counted where these are fewer.

    Returns
    -------
    OrderEffect : 0: nothing hangs on it; positive: more with A, or on the left. Ends and p are nan for one seed and
        where all seeds are equal.

    Raises
    ------
    InvalidInput : for empty or not finite values, different lengths, and another sign.

    Examples
    --------
    >>> first, second = [1, 1, 0, 1], [-1, 0, -1, -1]  # A looks masculine where A stands left, B where B does
    >>> order_effect(first, second).estimate.value, order_effect(first, second, sign=1).estimate.value
    (0.75, 0.0)
    """
    if sign not in (1, -1):
        raise InvalidInput(f"sign is 1 (of the people) or -1 (of their places); got {sign}.")
    one, other = finite_vector(first, "first"), finite_vector(second, "second")
    if one.shape != other.shape:
        raise InvalidInput(f"first and second must have the same length; got {len(one)} and {len(other)}.")
    return _effect((one + sign * other) / 2, confidence, n_resamples, rng)


def _effect(values: Array, confidence: float, n_resamples: int, rng: int) -> OrderEffect:
    estimate = mean_interval(values, confidence=confidence, null_value=0.0)
    if len(values) < 2 or np.ptp(values) <= _ROUNDING:
        return OrderEffect(estimate=estimate, p_value=float("nan"))
    test = stats.permutation_test(
        (values, np.zeros_like(values)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
        rng=np.random.default_rng(rng),
    )
    return OrderEffect(estimate=estimate, p_value=float(min(1.0, test.pvalue)))


CARDS = (
    Card(
        function=order_effect,
        field="estimate.value",
        name="Effect of role or place",
        terms=(Term(symbol="e", words="effect of the place"),),
        summary="What of the difference between two people of a picture hangs on where they stand, or on who they are.",
        source="fisher1935, § 21",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more on the left; negative: on the right",
        inputs=takes(
            first="similarities: A's value less B's, where A stands left",
            second="similarities: the same where A stands right",
        ),
        limits="It holds for these two people: others may stand otherwise.",
    ),
)
