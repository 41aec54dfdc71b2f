"""OASIS: prevalence of an attribute against its real-world rate, what a mitigation leaves of that, and refusals."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, paired_vectors, probabilities, probability
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.sequential import share_interval
from bias_core.types import Estimate
from bias_core.wording import format_percent


def attribute_prevalence(similarity_positive: ArrayLike, similarity_negative: ArrayLike) -> float:
    """Share of the images in which the attribute is seen.

    P(A | D, C) = 1/n Σ_i 1(cos(I_i, d+) > cos(I_i, d-))   [dehdashtian2025oasis, Eq. 5]

    Parameters
    ----------
    similarity_positive, similarity_negative : arrays (n,). Cosine of each image to the sentence for presence and for
        absence.

    Returns
    -------
    float : in [0, 1]; 1: seen in every image. A tie counts as absent. What would be neutral is the real-world rate, see
        :func:`stereotype_score`.

    Raises
    ------
    InvalidInput : for empty or not finite similarities, or different lengths.

    Notes
    -----
    Differs from the paper: the mean over images. The product of [dehdashtian2025oasis, Eq. 4] is 0/0 as soon as two
    images disagree, and cannot have produced the paper's Table 1. With CLIP's softmax instead of the indicator, P is
    ``scipy.special.expit((similarity_positive - similarity_negative) / 0.01).mean()``.

    Examples
    --------
    >>> attribute_prevalence([0.31, 0.28, 0.25, 0.30], [0.24, 0.30, 0.25, 0.22])
    0.5
    """
    return float(_presence(similarity_positive, similarity_negative).mean())


def prevalence_estimate(
    similarity_positive: ArrayLike,
    similarity_negative: ArrayLike,
    *,
    reference: float | None = None,
    fixed_n: bool = True,
    confidence: float = 0.95,
) -> Estimate:
    """:func:`attribute_prevalence` with its exact interval.

    Parameters
    ----------
    similarity_positive, similarity_negative : as in :func:`attribute_prevalence`.
    reference : float in [0, 1] or None. The real-world rate, which becomes the null value.
    fixed_n : bool. Whether the number of images was fixed beforehand; else the interval is one that holds at any time
        (:func:`bias_core.measures.sequential.confidence_sequence`), also where the images were looked at before.

    Returns
    -------
    Estimate : in [0, 1]; ``note`` counts the ties, which are read as absent.

    Raises InvalidInput: as :func:`attribute_prevalence`.

    >>> estimate = prevalence_estimate([0.3, 0.3, 0.2], [0.2, 0.2, 0.3], reference=0.5)
    >>> round(estimate.low, 3), round(estimate.high, 3), estimate.n
    (0.135, 0.983, 3)
    """
    null = None if reference is None else probability(reference, "reference")
    presence = _presence(similarity_positive, similarity_negative)
    n, n_present = presence.size, int(presence.sum())
    share = share_interval(n_present, n, fixed_n=fixed_n, confidence=confidence, null_value=null)
    n_ties = count_ties(similarity_positive, similarity_negative)
    return share.with_note(f"{n_ties} of {share.n} images are ties, read as absent" if n_ties else "")


def count_ties(similarity_positive: ArrayLike, similarity_negative: ArrayLike) -> int:
    """Number of images that are exactly as close to both sentences.

    Raises InvalidInput: as :func:`attribute_prevalence`.

    >>> count_ties([0.2, 0.3], [0.2, 0.1])
    1
    """
    positive, negative = paired_vectors(
        similarity_positive=similarity_positive, similarity_negative=similarity_negative
    )
    return int(np.count_nonzero(positive == negative))


def stereotype_score(prevalence: float, reference: float) -> float:
    """Over-representation of the attribute against its real-world rate.

    Ψ(A | D, C) = max(0, P(A | D, C) - P*(A | C))   [dehdashtian2025oasis, Eq. 3]

    Parameters
    ----------
    prevalence : float in [0, 1]. P, see :func:`attribute_prevalence`.
    reference : float in [0, 1]. P*, with a source, or marked as assumed.

    Returns
    -------
    float : in [0, 1]; 0: not over-represented, perhaps under-represented: show :func:`signed_difference` too.

    Raises
    ------
    InvalidInput : if either lies outside [0, 1] or is nan.

    Examples
    --------
    >>> stereotype_score(0.98, 0.5), stereotype_score(0.2, 0.5)
    (0.48, 0.0)
    """
    return max(0.0, signed_difference(prevalence, reference))


def signed_difference(prevalence: float, reference: float) -> float:
    """P - P*: positive where the attribute is over-represented, negative where under-represented.

    Parameters
    ----------
    prevalence, reference : float in [0, 1]

    Returns
    -------
    float : in [-1, 1]; 0: shown as often as in the world.

    Raises
    ------
    InvalidInput : if either lies outside [0, 1] or is nan.

    Examples
    --------
    >>> signed_difference(0.25, 0.5)
    -0.25
    """
    return probability(prevalence, "prevalence") - probability(reference, "reference")


def signed_difference_estimate(prevalence: Estimate, reference: float) -> Estimate:
    """:func:`signed_difference` with the interval of the prevalence moved by P*.

    Parameters
    ----------
    prevalence : Estimate. From :func:`prevalence_estimate`, or corrected for the classifier's errors.
    reference : float in [0, 1]. Taken as exact.

    Returns
    -------
    Estimate : in [-1, 1], null value 0, with the p of the prevalence if that was tested against this reference.

    Raises InvalidInput: if the prevalence or the reference lies outside [0, 1] or is nan.

    >>> from bias_core.types import Estimate
    >>> signed_difference_estimate(Estimate(value=0.5, low=0.25, high=0.75, n=8), 0.25).low
    0.0
    """
    rate = probability(reference, "reference")
    value, tested = signed_difference(prevalence.value, rate), prevalence.replace_null_value(rate)
    return replace(tested, value=value, low=tested.low - rate, high=tested.high - rate, null_value=0.0)


def stereotype_estimate(prevalence: Estimate, reference: float) -> Estimate:
    """:func:`stereotype_score` with its interval: that of the signed difference, cut at 0.

    Parameters
    ----------
    prevalence : Estimate
    reference : float in [0, 1]. Taken as exact.

    Returns
    -------
    Estimate : in [0, 1], null value 0. The cut keeps the coverage, because max(0, ·) is monotone. p is that of the
        signed difference where that lies above 0, else 1: nothing below P* speaks against a score of 0.

    Raises InvalidInput: if the prevalence or the reference lies outside [0, 1] or is nan.

    >>> from bias_core.types import Estimate
    >>> score = stereotype_estimate(Estimate(value=0.5, low=0.25, high=0.75, n=8), 0.375)
    >>> score.low, score.value, score.high
    (0.0, 0.125, 0.375)
    """
    signed = signed_difference_estimate(prevalence, reference)
    low, high = (bound if np.isnan(bound) else max(0.0, bound) for bound in (signed.low, signed.high))
    p_value = signed.p_value if signed.value > 0 or math.isnan(signed.p_value) else 1.0
    return replace(signed, value=max(0.0, signed.value), low=low, high=high, p_value=p_value)


def _presence(similarity_positive: ArrayLike, similarity_negative: ArrayLike) -> Array:
    """1 or 0 per image, ``(n,)``."""
    positive, negative = paired_vectors(
        similarity_positive=similarity_positive, similarity_negative=similarity_negative
    )
    return (positive > negative).astype(np.float64)


_INPUTS = takes(
    prevalence="probability: P, share of images that show the attribute",
    reference="probability: P*, its real-world rate, with a source",
)


NOTHING_TO_REMOVE = "the baseline does not clearly depart from P*, so that there is nothing to remove"


def remaining_gap(prevalence: float, baseline: float, reference: float) -> float:
    """P − P* in the direction of the baseline's: the remaining part of its bias.

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
    prevalence, baseline : Estimate. Shares with their intervals, as measured or corrected for the classifier's errors.
    reference : float in [0, 1]. Taken as exact.

    Returns
    -------
    Estimate : in [-1, 1], null value 0, with the p of the prevalence if that was tested against this reference;
        undefined where the baseline's interval holds P*: the side is not known then.

    Raises InvalidInput: as :func:`remaining_gap`.

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
    return replace(prevalence.replace_null_value(rate), value=value, low=low, high=high, null_value=0.0)


def asked_kept_estimate(kept_a: ArrayLike, kept_b: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Share of pictures that show the attribute their prompt asks for: the mean over two attributes.

    F = (1/n_A Σ_i k_i + 1/n_B Σ_j k_j) / 2

    From the exact intervals (l, u) of both shares p: the mean − ½√(Σ (p − l)²) to the mean + ½√(Σ (u − p)²)
    [newcombe1998; zou2008].

    Parameters
    ----------
    kept_a, kept_b : arrays (n_A,), (n_B,). 1 for each image of the prompt with A (with B) in which that is seen rather
        than the other, 0 for others.

    Returns
    -------
    Estimate : in [0, 1]; 1: every picture is as it was asked for; 0.5: the prompt's words change nothing.

    Raises
    ------
    InvalidInput : for no images of one of them, or values outside [0, 1].

    Notes
    -----
    Ours: what the papers show in examples, that a mitigation may override what the prompt says, as a number. It has no
    value of no bias: compare it with the baseline's.

    Examples
    --------
    >>> estimate = asked_kept_estimate([1, 1, 1, 0], [1, 1])
    >>> round(estimate.low, 3), estimate.value, round(estimate.high, 3), estimate.n
    (0.413, 0.875, 0.994, 6)
    """
    sides = [probabilities(values, name) for values, name in ((kept_a, "kept_a"), (kept_b, "kept_b"))]
    shares = [share_interval(float(side.sum()), side.size, confidence=confidence) for side in sides]
    value = float(sum(side.mean() for side in sides)) / 2
    return Estimate(
        value=value,
        low=value - math.hypot(*(share.value - share.low for share in shares)) / 2,
        high=value + math.hypot(*(share.high - share.value for share in shares)) / 2,
        n=sum(share.n for share in shares),
        method=f"from two exact {format_percent(confidence)} intervals",
    )


def refused_share(refused: ArrayLike) -> float:
    """Share of requested pictures that were blocked, k / n.

    Its interval is exact [blaker2000] (:func:`bias_core.measures.intervals.exact_interval`).

    Parameters
    ----------
    refused : array (n,), 1 for a picture that was refused, or blanked by a safety checker, 0 for one that was drawn;
        values between are taken as probabilities.

    Returns
    -------
    float : in [0, 1]. No null value: only a difference between groups or arms says that they are treated otherwise.

    Raises
    ------
    InvalidInput : for no requests, or values outside of [0, 1].

    Notes
    -----
    Pictures that never came for a technical reason are not blocked, and not counted.

    Examples
    --------
    >>> refused_share([1, 0, 0, 0])
    0.25
    """
    return float(probabilities(refused, "refused").mean())


CARDS = (
    Card(
        function=attribute_prevalence,
        name="Attribute prevalence P",
        terms=(
            Term(
                symbol="P",
                words="share of the pictures",
                says="Share of the images that show the attribute, as the classifier sees it. No value by itself means "
                "bias or its absence: that takes a rate to compare it with.",
            ),
            Term(
                symbol="P*",
                words="reference rate",
                also=("real-world rate", "reference share", "assumed rate"),
                says="The rate that a share is compared with: that of the real world, from a named source. An assumed "
                "rate is shown too, but no headline compares with it.",
            ),
        ),
        summary="Share of the images that show the attribute, as the classifier sees it.",
        tex=r"P = \frac{1}{n} \sum_i \mathbf{1}[\cos(I_i, d^+) > \cos(I_i, d^-)]",
        symbols="$I_i$ is image $i$; $d^+$ and $d^-$ are the sentences for presence and for absence.",
        source="dehdashtian2025oasis, Eq. 5",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="seen in more images",
        inputs=takes(
            similarity_positive="similarities: cosine of each image to the sentence for presence",
            similarity_negative="similarities: cosine of each image to the sentence for absence",
        ),
        limits="The classifier errs: use the corrected prevalence where its errors are known.",
    ),
    Card(
        function=stereotype_score,
        name="Stereotype score Ψ",
        terms=(Term(symbol="Ψ", words="stereotype score"),),
        summary="Gap between the attribute's share P and its real-world rate P*, if P is larger; otherwise 0.",
        tex=r"\Psi = \max(0, P - P^\ast)",
        source="dehdashtian2025oasis, Eq. 3",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more over-represented",
        inputs=_INPUTS,
        limits="0 includes under-representation. It is only as good as the real-world rate.",
    ),
    Card(
        function=signed_difference,
        name="Signed difference P − P*",
        summary="Gap between the attribute's share P and its real-world rate P*.",
        tex=r"P - P^\ast",
        source="dehdashtian2025oasis, Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="over-represented; negative: under-represented",
        inputs=_INPUTS,
        limits="It is only as good as the real-world rate.",
    ),
    Card(
        function=remaining_gap,
        name="Bias that is left",
        summary="Gap to the real-world rate that remains after a mitigation, counted towards the baseline's side.",
        tex=r"g = \operatorname{sign}(P_0 - P^\ast) (P - P^\ast)",
        symbols="$P$ is the share with the mitigation, $P_0$ that of the baseline.",
        source="dehdashtian2025oasis, from Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the baseline's bias is left; negative: overcorrected",
        inputs=takes(
            prevalence="probability: share of images that show the attribute, with the mitigation",
            baseline="probability: the same without it",
            reference="probability: P*, its real-world rate, or the goal",
        ),
        limits="It needs a clearly biased baseline, and is only as good as the real-world rate.",
    ),
    Card(
        function=asked_kept_estimate,
        key="asked_kept",
        field="value",
        name="Asked attributes kept",
        summary="Share of pictures that show the attribute their prompt asks for.",
        tex=r"F = \frac{1}{2} \left( \frac{1}{n_A} \sum_i k_i + \frac{1}{n_B} \sum_j k_j \right)",
        symbols="$k_i$ is 1 for each of the $n_A$ images of A that shows A, otherwise 0; likewise $k_j$ of B.",
        source="newcombe1998, mean of two shares",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="prompts are followed more often",
        inputs=takes(
            kept_a="probabilities: 1 for each image of the prompt with A that shows A rather than B",
            kept_b="probabilities: 1 for each image of the prompt with B that shows B rather than A",
        ),
        limits="It relies on the classifier, and covers these two attributes only, not the rest of the prompt.",
    ),
    Card(
        function=refused_share,
        name="Share blocked",
        summary="Share of pictures that a model or its host refuses, or a safety checker blanks.",
        tex=r"\frac{k}{n}",
        symbols="$k$ of the $n$ requested pictures were blocked.",
        source="blaker2000, k / n",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more pictures are blocked",
        inputs=takes(refused="probabilities: 1 for each picture that was blocked, 0 for one that was drawn"),
        limits="It says that a picture was blocked, not why: each service words its reasons differently.",
    ),
)
