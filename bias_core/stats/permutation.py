"""Permutation test of a difference of means: exact where the splits can be counted, else sampled."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array, finite_vector

Seed = int | np.random.Generator
Alternative = Literal["two-sided", "greater", "less"]

TIE = 1e-12  # permuted scores this close below the observed one count as equal to it
_LARGEST_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, kw_only=True)
class PermutationTest:
    """Difference of two means against all, or a sample of, the ways to split the pooled values."""

    statistic: float  # mean(x) - mean(y), in the unit of the values
    p_value: float  # in (0, 1], never 0; large where the labels x and y do not matter
    n_permutations: int  # splits looked at; all of them if `exact`
    exact: bool  # whether every split was looked at
    # no values of these sizes can give a smaller p. It is that of the observed split alone, or of it and its mirror in
    # a two-sided test of equal sizes.
    smallest_p_value: float
    alternative: Alternative  # which differences count as at least as extreme


def permutation_test(
    x: ArrayLike, y: ArrayLike, *, n_permutations: int = 1000, alternative: Alternative = "two-sided", rng: Seed = 0
) -> PermutationTest:
    """Is mean(x) - mean(y) larger than a random split of the pooled values would give?

    p = #{|S*| >= |S|} / n_splits over all splits that keep the sizes, if there are at most
    ``n_permutations``; else p = (1 + #{|S*| >= |S|}) / (1 + B) over B random ones.

    Parameters
    ----------
    x, y : arrays (n_x,), (n_y,)
    n_permutations : int >= 1
    alternative : {"two-sided", "greater", "less"}. "greater" asks for mean(x) > mean(y).
    rng : seed or Generator. Unused when the test is exact.

    Raises InvalidInput: for empty or not finite samples, when all values are equal, or for an unknown alternative.

    >>> permutation_test([5, 6, 7, 8], [1, 2, 3, 4]).p_value * 70
    2.0
    >>> permutation_test([4, 5, 6], [1, 2, 3]).smallest_p_value  # 2 of C(6, 3) = 20 splits
    0.1
    """
    first, second = finite_vector(x, "x"), finite_vector(y, "y")
    if n_permutations < 1:
        raise InvalidInput(f"n_permutations must be at least 1; got {n_permutations}.")
    if alternative not in ("two-sided", "greater", "less"):
        raise InvalidInput(f'alternative must be "two-sided", "greater" or "less"; got {alternative!r}.')
    pooled = np.concatenate([first, second])
    if np.ptp(pooled) <= TIE:
        raise InvalidInput(f"All {pooled.size} values equal {pooled[0]}: there is nothing to test.")
    observed = float(first.mean() - second.mean())
    n_splits = math.comb(pooled.size, first.size)
    exact = n_splits <= n_permutations
    if exact:  # the observed split is among them
        chosen = np.array(list(itertools.combinations(range(pooled.size), first.size)))  # (n_splits, n_x)
        blocks = iter([_differences(pooled[chosen], pooled)])
    else:
        blocks = _random_splits(pooled, first.size, n_permutations, np.random.default_rng(rng))
    side = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
    n_extreme = sum(int(np.count_nonzero(side(block) >= side(observed) - TIE)) for block in blocks)
    p_value = n_extreme / n_splits if exact else (1 + n_extreme) / (1 + n_permutations)
    return PermutationTest(
        statistic=observed,
        p_value=p_value,
        n_permutations=n_splits if exact else n_permutations,
        exact=exact,
        smallest_p_value=smallest_p_value(first.size, second.size, n_permutations, alternative),
        alternative=alternative,
    )


def smallest_p_value(n_x: int, n_y: int, n_permutations: int = 1000, alternative: Alternative = "two-sided") -> float:
    """The smallest p that :func:`permutation_test` can give samples of these sizes, whatever their values.

    That of the observed split alone, or of it and its mirror in a two-sided test of equal sizes.

    Raises InvalidInput: for an empty sample.

    >>> smallest_p_value(3, 3), round(smallest_p_value(4, 4), 3), round(smallest_p_value(25, 25), 3)
    (0.1, 0.029, 0.001)
    """
    if min(n_x, n_y) < 1:
        raise InvalidInput(f"A test needs at least one value a side; got {n_x} and {n_y}.")
    n_splits = math.comb(n_x + n_y, n_x)
    if n_splits > n_permutations:
        return 1 / (1 + n_permutations)
    return (2 if alternative == "two-sided" and n_x == n_y else 1) / n_splits


def _random_splits(pooled: Array, n_x: int, n_permutations: int, rng: np.random.Generator) -> Iterator[Array]:
    """Differences of means of random splits that keep the sizes, in blocks."""
    block = max(1, _LARGEST_BLOCK // pooled.size)
    for start in range(0, n_permutations, block):
        copies = np.tile(pooled, (min(block, n_permutations - start), 1))
        yield _differences(rng.permuted(copies, axis=1, out=copies)[:, :n_x], pooled)


def _differences(x: Array, pooled: Array) -> Array:
    """mean(x) - mean(rest) for each row of x, from the fixed sum of all."""
    n_x, n_y = x.shape[1], pooled.size - x.shape[1]
    sums = x.sum(axis=1)
    return np.asarray(sums / n_x - (pooled.sum() - sums) / n_y)
