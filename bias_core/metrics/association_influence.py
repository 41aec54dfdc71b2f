"""Which prompt T2IAT's differential association hangs on: S without each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.stats.arrays import Array, Floats, same_length, unit_sets


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """The answer of :func:`leave_one_out`; its arrays have an entry per prompt, those of X first."""

    score: float  # S of all prompts, in [-4, 4]
    # prompts, sides: which prompt was left out, and whether it is one of X or of Y
    prompts: tuple[str, ...]
    sides: tuple[str, ...]  # "x" or "y"
    scores: Array  # S without it
    influences: Array  # `score - scores`: what the prompt adds to S; 0 is nothing


def leave_one_out(
    targets_x: ArrayLike,
    targets_y: ArrayLike,
    x_attributes_a: ArrayLike,
    x_attributes_b: ArrayLike,
    y_attributes_a: ArrayLike,
    y_attributes_b: ArrayLike,
    *,
    groups_x: ArrayLike,
    groups_y: ArrayLike,
    attribute_groups: Sequence[ArrayLike],
) -> LeaveOneOut:
    """Differential association without each prompt in turn.

    S_(-g), S of [wang2023t2iat, Eq. 1] without prompt g: without its neutral images and its edits with A and
    with B

    Parameters
    ----------
    targets_x, targets_y : arrays (n_x, d), (n_y, d). Embeddings of the neutral images of each concept.
    x_attributes_a, x_attributes_b, y_attributes_a, y_attributes_b : arrays (n, d). Images of each concept edited with
        words of A and of B.
    groups_x, groups_y : sequences (n_x,), (n_y,). The prompt of each neutral image.
    attribute_groups : four sequences. The prompt that each edited image was edited from, in the order of the four
        arrays.

    Returns
    -------
    LeaveOneOut : Scores in [-4, 4]; influences in [-8, 8], 0 is none. Where S keeps its sign without each prompt, no
        single one decides it. How sure S is, its interval says, not this.

    Raises
    ------
    InvalidInput : for a concept with a single prompt, groups of another length or of other prompts than the neutral
        images', and as :func:`bias_core.metrics.association.association`.

    Notes
    -----
    Not in the paper. Every prompt weighs the same, as in the test; the means of its images do too.

    Examples
    --------
    >>> rows, east, north = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2
    >>> prompts = ["p", "q"]
    >>> found = leave_one_out(rows, rows, east, north, east, north, groups_x=prompts, groups_y=prompts,
    ...                       attribute_groups=[prompts] * 4)
    >>> found.score, found.scores.tolist()
    (0.0, [-1.0, 1.0, 1.0, -1.0])
    """
    if len(attribute_groups) != 4:
        raise InvalidInput(f"attribute_groups needs four sequences; got {len(attribute_groups)}.")
    xa, xb, ya, yb = attribute_groups
    sets_x = (targets_x, x_attributes_a, x_attributes_b), (groups_x, xa, xb)
    sets_y = (targets_y, y_attributes_a, y_attributes_b), (groups_y, ya, yb)
    (prompts_x, mean_x, without_x), (prompts_y, mean_y, without_y) = _side(*sets_x), _side(*sets_y)
    score = mean_x - mean_y
    scores = np.concatenate([without_x - mean_y, mean_x - without_y])
    return LeaveOneOut(
        score=score,
        prompts=(*prompts_x, *prompts_y),
        sides=("x",) * len(prompts_x) + ("y",) * len(prompts_y),
        scores=scores,
        influences=score - scores,
    )


def _side(images: Sequence[ArrayLike], groups: Sequence[ArrayLike]) -> tuple[list[str], float, Array]:
    """Prompts of a concept, its mean association, and that without each of them, ``(n_prompts,)``."""
    names = ("targets", "attributes_a", "attributes_b")
    rows = unit_sets(**dict(zip(names, images, strict=True)))
    labels = [np.asarray(group) for group in groups]
    for name, array, label in zip(names, rows, labels, strict=True):
        same_length(**{name: array, f"prompts of {name}": label})
    if len(prompts := np.unique(labels[0])) < 2:
        raise InvalidInput(f"Leaving a prompt out needs two or more of each concept; got {prompts.tolist()}.")
    if any(not np.array_equal(np.unique(label), prompts) for label in labels[1:]):
        raise InvalidInput("Neutral and edited images must come from the same prompts.")
    places = [np.searchsorted(prompts, label) for label in labels]
    without = [
        _mean([array[place != left] for array, place in zip(rows, places, strict=True)],
              places[0][places[0] != left])
        for left in range(len(prompts))
    ]  # fmt: skip
    return prompts.tolist(), _mean(rows, places[0]), np.array(without)


def _mean(rows: Sequence[Floats], places: NDArray[np.intp]) -> float:
    """Mean over prompts of Eq. 2; ``places`` says which prompt each neutral image is of."""
    x, a, b = rows
    values = np.asarray(x @ (a.mean(axis=0, dtype=np.float64) - b.mean(axis=0, dtype=np.float64)))
    _, index = np.unique(places, return_inverse=True)
    return float((np.bincount(index, weights=values) / np.bincount(index)).mean())
