"""From which denoising step on can an attribute be seen, and at which is it first seen where a base prompt lacks it?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array, margins_by_step
from bias_core.stats.sequential import share_interval
from bias_core.types import Estimate


@dataclass(frozen=True, kw_only=True)
class StepsSeen:
    """A step of each seed, and how many seeds have come to theirs by the typical one."""

    each: Array  # (n_seeds,), steps from 1; nan for a seed that has none
    typical: float  # by this step half of the seeds that have one have theirs; nan where none has
    by_typical: Estimate  # share of all seeds that have theirs by the typical step, in [0, 1]; n counts seeds
    n_seen: int  # seeds that have one


def visible_steps(margins: ArrayLike, *, confidence: float = 0.95) -> StepsSeen:
    """From which step on the predicted pictures show an attribute that the finished picture shows.

    v_i = min{t: m_is > 0 for all s >= t}

    m_it is cos(x̂_t, d+) - cos(x̂_t, d-) of the finished picture x̂_t that step t of seed i predicts
    [dehdashtian2025oasis, 4.6]; that of the last step is the finished picture. From v_i on the reader says of each
    predicted picture what it says of the finished one. A seed whose finished picture does not show it has no v_i.

    Parameters
    ----------
    margins : array (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2].
    confidence : float in (0, 1).

    Returns
    -------
    StepsSeen : the typical step is the lower median of the v_i; ``by_typical`` is in [0, 1] with its exact interval,
        and is 0 where no finished picture shows the attribute.

    Raises
    ------
    InvalidInput : for empty or not finite margins, and values outside [-2, 2].

    Notes
    -----
    Not in the paper. A tie counts as absent. What a reader says of one picture may be wrong; that it goes on saying it
    does not make it right.

    Examples
    --------
    >>> steps = visible_steps([[-0.1, 0.2, 0.3], [0.1, -0.1, 0.1], [0.1, 0.2, -0.1]])
    >>> steps.each.tolist(), steps.typical
    ([2.0, 3.0, nan], 2.0)
    """
    is_seen = margins_by_step(margins, "margins") > 0
    stays = np.logical_and.accumulate(is_seen[:, ::-1], axis=1)[:, ::-1]
    return _summary(_first_of(stays), confidence)


def first_seen_steps(margins_base: ArrayLike, margins: ArrayLike, *, confidence: float = 0.95) -> StepsSeen:
    """At which step an attribute is first seen in what a prompt heads for, and not in what a base prompt heads for.

    f_i = min{t: m_it > 0 >= b_it}

    m_it is as in :func:`visible_steps`, b_it that of the base prompt, drawn on its own from the same noise. A seed has
    no f_i where the attribute is never seen, or the base prompt shows it whenever the concept's does.

    Parameters
    ----------
    margins_base, margins : arrays (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2]. Entry i of both starts
        from the same noise.
    confidence : float in (0, 1).

    Returns
    -------
    StepsSeen : as of :func:`visible_steps`.

    Raises
    ------
    InvalidInput : for empty or not finite margins, values outside [-2, 2], and different shapes.

    Notes
    -----
    Not in the paper. What is first seen may be lost again: see :func:`visible_steps` for what stays. Predicted pictures
    of early steps are blurred, and a reader may see in a blur what is not there.

    Examples
    --------
    >>> steps = first_seen_steps([[-0.1, -0.2], [0.1, 0.3]], [[-0.1, 0.2], [0.1, 0.3]])
    >>> steps.each.tolist(), steps.n_seen
    ([2.0, nan], 1)
    """
    base, own = margins_by_step(margins_base, "margins_base"), margins_by_step(margins, "margins")
    if base.shape != own.shape:
        raise InvalidInput(f"margins_base and margins must have the same shape; got {base.shape} and {own.shape}.")
    return _summary(_first_of((own > 0) & (base <= 0)), confidence)


def _first_of(is_seen: np.ndarray) -> Array:
    """The first true step of each seed, from 1; nan where there is none."""
    return np.where(is_seen.any(axis=1), is_seen.argmax(axis=1) + 1.0, np.nan)


def _summary(each: Array, confidence: float) -> StepsSeen:
    steps = np.sort(each[~np.isnan(each)])
    typical = float(steps[(len(steps) - 1) // 2]) if len(steps) else float("nan")
    by_typical = share_interval(int((each <= typical).sum()), len(each), confidence=confidence)
    return StepsSeen(each=each, typical=typical, by_typical=by_typical, n_seen=len(steps))


_LIMITS = "It is what a reader sees in blurred predictions of few seeds; not which step causes it."
CARDS = (
    Card(
        function=visible_steps,
        field="by_typical.value",
        name="Seeds whose predicted pictures show it to the end",
        summary="From which step on predicted pictures show an attribute that the finished picture shows.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="by the typical step more of the seeds show it, and go on showing it",
        inputs=takes(margins="similarities: margins of the predicted pictures, the finished one last"),
        limits=_LIMITS,
    ),
    Card(
        function=first_seen_steps,
        field="by_typical.value",
        name="Seeds in which it is seen and the base lacks it",
        summary="At which step an attribute is first seen where the base prompt's predicted picture lacks it.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="by the typical step more of the seeds have shown it where the base did not",
        inputs=takes(
            margins_base="similarities: margins of the base prompt's predicted pictures",
            margins="similarities: margins of the concept's predicted pictures",
        ),
        limits=_LIMITS,
    ),
)
