"""The standard error of T2IAT's mean association when prompts, with all their images, are drawn anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bias_core.arrays import Floats, same_length
from bias_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from bias_core.statistics import Seed


def prompt_error(
    sets: Sequence[Floats], groups: Sequence[ArrayLike], *, n_resamples: int = 2000, rng: Seed = 0
) -> float:
    """Standard error of E_x Asc(x, X^A, X^B), half of [wang2023t2iat, Eq. 1], over prompts.

    A resample draws prompts with replacement, each with its neutral images and its edits with A and with B:
    they show the same stimulus and so vary together. Every prompt weighs the same.

    Parameters
    ----------
    sets : unit rows (n, d), (n_a, d), (n_b, d)
        Neutral images, those edited with A, those edited with B.
    groups : sequences (n,), (n_a,), (n_b,)
        The prompt of each image; all three must hold the same prompts.
    n_resamples : int >= 2
    rng : seed or Generator

    Returns
    -------
    float
        At least 0, in units of cosine.

    Raises
    ------
    InvalidInput
        For groups of other lengths, of different prompts, or of a single one.

    Examples
    --------
    >>> rows = np.eye(2)
    >>> prompt_error([rows, rows, rows[::-1]], [["a", "b"]] * 3) > 0
    True
    """
    means = _means_by_prompt(sets, groups)
    k = len(means[0])
    weights = np.random.default_rng(rng).multinomial(k, np.full(k, 1 / k), size=n_resamples) / k  # (B, k)
    x, a, b = (weights @ mean for mean in means)  # (B, d) each
    return float(np.einsum("bd,bd->b", x, a - b).std(ddof=1))


def _means_by_prompt(sets: Sequence[Floats], groups: Sequence[ArrayLike]) -> list[NDArray[np.float64]]:
    """Mean row of each prompt, ``(n_prompts, d)``, in one order for all sets."""
    means, names = [], []
    for rows, group in zip(sets, groups, strict=True):
        labels = np.asarray(group)
        same_length(images=rows, groups=labels)
        found, index = np.unique(labels, return_inverse=True)
        sums = np.zeros((len(found), rows.shape[1]))
        np.add.at(sums, index, rows)
        means.append(sums / np.bincount(index)[:, None])
        names.append(found.tolist())
    if any(other != names[0] for other in names[1:]):
        raise InvalidInput(
            f"Neutral and edited images must come from the same prompts; got {_few(names[0])}, "
            f"{_few(names[1])} and {_few(names[2])}."
        )
    if len(names[0]) < 2:
        raise InvalidInput(f"A standard error over prompts needs at least two; got {names[0]}.")
    return means


def _few(names: list[str]) -> str:
    return f"{len(names)} ({', '.join(map(str, names[:3]))} ...)"
