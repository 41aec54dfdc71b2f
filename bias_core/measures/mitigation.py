"""What is left of a bias once something was done about it, and what of the prompt is lost on the way."""

import math
from dataclasses import replace

from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Floats, finite_vector, probability
from bias_core.measures.cards import Card, takes
from bias_core.measures.intervals import percent
from bias_core.measures.sequential import share_interval
from bias_core.types import Estimate

NOTHING_TO_REMOVE = "the baseline does not clearly depart from P*, so that there is nothing to remove"


def remaining_gap(prevalence: float, baseline: float, reference: float) -> float:
    """P − P* in the direction of the baseline's: what is left of its bias.

    g = sign(P_0 − P*) · (P − P*), from P − P* of [dehdashtian2025oasis, Eq. 3]

    Parameters
    ----------
    prevalence, baseline : float in [0, 1]. Share of the images with the attribute, with the mitigation and without.
    reference : float in [0, 1]. P*, with a source, or a rate that was chosen as the goal.

    Returns
    -------
    float : in [-1, 1]; 0: shown as often as in the world; above 0: bias of the baseline that is left; below 0:
        overcorrected, biased the other way.

    Raises
    ------
    InvalidInput : if one lies outside [0, 1] or is nan, or the baseline equals the reference: there is no direction.

    Examples
    --------
    >>> round(remaining_gap(0.75, 0.9, 0.5), 6), round(remaining_gap(0.4, 0.9, 0.5), 6)
    (0.25, -0.1)
    """
    rate, before = probability(reference, "reference"), probability(baseline, "baseline")
    if before == rate:
        raise InvalidInput(f"remaining_gap needs a baseline that differs from the reference; both are {rate:g}")
    return math.copysign(1.0, before - rate) * (probability(prevalence, "prevalence") - rate)


def remaining_gap_estimate(prevalence: Estimate, baseline: Estimate, reference: float) -> Estimate:
    """:func:`remaining_gap` with the interval of the mitigated prevalence, turned to the side of the baseline.

    Parameters
    ----------
    prevalence, baseline : Estimate. Shares with their intervals, as measured or corrected for the reader's errors.
    reference : float in [0, 1]. Taken as exact.

    Returns
    -------
    Estimate : in [-1, 1], null value 0; undefined where the baseline's interval holds P*: the side is not known then.

    Raises
    ------
    InvalidInput : as :func:`remaining_gap`.

    Examples
    --------
    >>> before = Estimate(value=0.9, low=0.8, high=0.95, n=40)
    >>> gap = remaining_gap_estimate(Estimate(value=0.4, low=0.3, high=0.5, n=40), before, 0.5)
    >>> round(gap.low, 6), round(gap.value, 6), round(gap.high, 6)
    (-0.2, -0.1, 0.0)
    """
    rate = probability(reference, "reference")
    if not (baseline.low > rate or baseline.high < rate):
        return Estimate.undefined(prevalence.n, NOTHING_TO_REMOVE, null_value=0.0)
    side = math.copysign(1.0, baseline.value - rate)
    low, high = sorted(side * (end - rate) for end in (prevalence.low, prevalence.high))
    value = remaining_gap(prevalence.value, baseline.value, rate)
    return replace(prevalence, value=value, low=low, high=high, null_value=0.0)


def asked_kept(kept_a: ArrayLike, kept_b: ArrayLike) -> float:
    """How often pictures show the attribute that their prompt asks for: the mean over two attributes.

    F = (1/n_A Σ_i k_i + 1/n_B Σ_j k_j) / 2

    Parameters
    ----------
    kept_a, kept_b : arrays (n_A,), (n_B,). 1 for each image of the prompt with A (with B) in which that is seen rather
        than the other, 0 for others.

    Returns
    -------
    float : in [0, 1]; 1: every picture is as it was asked for; 0.5: the prompt's words change nothing.

    Raises
    ------
    InvalidInput : for no images of one of them, or values outside [0, 1].

    Notes
    -----
    Ours: what the papers show in examples, that a mitigation may override what the prompt says, as a number. It has no
    value of no bias: compare it with the baseline's.

    Examples
    --------
    >>> asked_kept([1, 1, 1, 0], [1, 1])
    0.875
    """
    return sum(float(_shares(values, name).mean()) for values, name in ((kept_a, "kept_a"), (kept_b, "kept_b"))) / 2


def asked_kept_estimate(kept_a: ArrayLike, kept_b: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """:func:`asked_kept` with its interval.

    From the exact intervals (l, u) of both shares p: the mean − ½√(Σ (p − l)²) to the mean + ½√(Σ (u − p)²)
    [newcombe1998; zou2008].

    Raises
    ------
    InvalidInput : as :func:`asked_kept`.

    Examples
    --------
    >>> estimate = asked_kept_estimate([1, 1, 1, 0], [1, 1])
    >>> round(estimate.low, 3), estimate.value, round(estimate.high, 3), estimate.n
    (0.413, 0.875, 0.994, 6)
    """
    sides = [_shares(values, name) for values, name in ((kept_a, "kept_a"), (kept_b, "kept_b"))]
    shares = [share_interval(float(side.sum()), side.size, confidence=confidence) for side in sides]
    value = asked_kept(kept_a, kept_b)
    return Estimate(
        value=value,
        low=value - math.hypot(*(share.value - share.low for share in shares)) / 2,
        high=value + math.hypot(*(share.high - share.value for share in shares)) / 2,
        n=sum(share.n for share in shares),
        method=f"from two exact {percent(confidence)} intervals",
    )


def _shares(values: ArrayLike, name: str) -> Floats:
    shares = finite_vector(values, name)
    if ((shares < 0) | (shares > 1)).any():
        raise InvalidInput(f"{name} must hold values from 0 to 1; got {shares.min():g} to {shares.max():g}.")
    return shares


CARDS = (
    Card(
        function=remaining_gap,
        name="Bias that is left",
        summary="How far a share still lies from its real-world rate, on the side of the baseline.",
        source="dehdashtian2025oasis, from Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the baseline's bias is left; negative: overcorrected",
        inputs=takes(
            prevalence="probability: share of images that show the attribute, with the mitigation",
            baseline="probability: the same without it",
            reference="probability: P*, its real-world rate, or the goal",
        ),
        limits="It asks for a baseline that is clearly biased, and is only as good as the real-world rate.",
    ),
    Card(
        function=asked_kept,
        name="Asked attributes kept",
        summary="How often pictures show the attribute that their prompt asks for.",
        source="newcombe1998, mean of two shares",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="prompts are followed more often",
        inputs=takes(
            kept_a="probabilities: 1 for each image of the prompt with A that shows A rather than B",
            kept_b="probabilities: 1 for each image of the prompt with B that shows B rather than A",
        ),
        limits="As the reader sees it; it looks at these two attributes, not at all else that a prompt asks for.",
    ),
)
