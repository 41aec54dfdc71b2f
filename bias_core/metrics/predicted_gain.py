"""At which denoising step is an attribute decided? What steps head for, read beside a base prompt on the same noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.paired_prevalence import prevalence_difference_test
from bias_core.stats.arrays import Array, margins_by_step
from bias_core.types import Estimate


@dataclass(frozen=True, kw_only=True)
class PredictedGain:
    """How much more often predicted pictures show an attribute than those of a base prompt."""

    steps: tuple[Estimate, ...]  # of each step, in [-1, 1], null value 0; n counts seeds
    whole: Estimate  # the mean of all steps, in [-1, 1], null value 0
    each: Array  # (n_seeds, n_steps), -1, 0 or 1: what is seen with the prompt less what is seen with the base


def predicted_gain(margins_base: ArrayLike, margins: ArrayLike, *, confidence: float = 0.95) -> PredictedGain:
    """How much more often the picture that a step heads for shows an attribute than that of a base prompt.

    g_t = (Σ_i 1(m_it > 0) - Σ_i 1(b_it > 0)) / n

    m_it is cos(x̂_t, d+) - cos(x̂_t, d-) of the finished picture x̂_t that step t of seed i predicts
    [dehdashtian2025oasis, 4.6], b_it that of the base prompt, drawn on its own from the same noise.

    Parameters
    ----------
    margins_base, margins : arrays (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2]. Entry i of both starts
        from the same noise.
    confidence : float in (0, 1). Of each step on its own, not of all steps together.

    Returns
    -------
    PredictedGain : in [-1, 1]; 0: seen as often as with the base, positive: the concept has brought the attribute.
        The last step's is that of the finished pictures. A tie counts as absent.

    Raises
    ------
    InvalidInput : for empty or not finite margins, values outside [-2, 2], and different shapes.

    Notes
    -----
    Not in the paper, whose SPI compares velocities of one latent: see the card. The interval of a step is that of
    :func:`~bias_core.metrics.paired_prevalence.prevalence_difference_test`; that of the mean has the mean ends of the
    steps' intervals, which is never too narrow: a mean spreads no more than its parts do on average.

    Examples
    --------
    >>> gain = predicted_gain([[-0.1, -0.2], [-0.1, 0.3]], [[-0.1, 0.2], [0.1, 0.3]])
    >>> [step.value for step in gain.steps], gain.whole.value
    ([0.5, 0.5], 0.5)
    """
    base, own = margins_by_step(margins_base, "margins_base"), margins_by_step(margins, "margins")
    if base.shape != own.shape:
        raise InvalidInput(f"margins_base and margins must have the same shape; got {base.shape} and {own.shape}.")
    steps = tuple(
        prevalence_difference_test(there, here, confidence=confidence).estimate
        for there, here in zip(base.T, own.T, strict=True)
    )
    value, low, high = np.mean([[step.value, step.low, step.high] for step in steps], axis=0).tolist()
    method = f"mean of {len(steps)} steps' intervals ({steps[0].method})"
    return PredictedGain(
        steps=steps,
        whole=Estimate(value=value, low=low, high=high, n=len(own), null_value=0.0, method=method),
        each=(own > 0).astype(float) - (base > 0),
    )


CARDS = (
    Card(
        function=predicted_gain,
        field="whole.value",
        name="Predicted gain over a base prompt",
        summary="How much more often predicted pictures show an attribute than those of a base prompt.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="the concept brings the attribute; negative: it takes it away",
        inputs=takes(
            margins_base="similarities: margins of the base prompt's predicted pictures",
            margins="similarities: margins of the concept's predicted pictures",
        ),
        limits="It is what a reader sees in blurred predictions, against one base prompt; not which step causes it.",
    ),
)
