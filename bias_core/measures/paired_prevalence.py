"""Two image sets on the same seeds: differences of prevalence and of variety."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.alignment import jackknifed_shares, squared_deviations, variance_share
from bias_core.measures.arrays import (
    Array,
    Seed,
    all_equal,
    cosines,
    paired_vectors,
    probability,
    same_length,
    unit_sets,
)
from bias_core.measures.cards import Card, takes
from bias_core.measures.intervals import (
    FEWEST_DRAWN,
    check_confidence,
    difference_interval,
    mean_interval,
    percentile_estimate,
    t_interval,
)
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import typeset

N_RESAMPLES = 1999
_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Difference on the same seeds."""

    estimate: Estimate  # second minus first, null value 0, with its p-value; n counts seeds
    test: str  # its name; "" where there is none

    @property
    def p_value(self) -> float:
        """Two-sided, in (0, 1]; nan where there is no test."""
        return self.estimate.p_value


@dataclass(frozen=True, kw_only=True)
class PrevalenceTest(PairedTest):
    """:class:`PairedTest` of P."""

    # n_gained, n_lost: seeds on which only the second set, or only the first, shows the attribute
    n_gained: int
    n_lost: int


def prevalence_difference_test(
    margins_first: ArrayLike, margins_second: ArrayLike, *, confidence: float = 0.95
) -> PrevalenceTest:
    """Rise of P from the first set to the second, on the same seeds, with McNemar's exact p-value.

    P₂ - P₁ = 1/n Σ_i [1(m₂ᵢ > 0) - 1(m₁ᵢ > 0)]   (P: [dehdashtian2025oasis, Eq. 5])

    Parameters
    ----------
    margins_first, margins_second : arrays (n,), in [-2, 2]. cos(I, d+) - cos(I, d-) of each image; entry i of both is
        of the same seed.

    Returns
    -------
    PrevalenceTest : in [-1, 1]; 0: seen equally often, positive: more often in the second. A tie counts as absent.

    Raises
    ------
    InvalidInput : for empty or not finite margins, or different lengths.

    Notes
    -----
    The interval inverts the test (:func:`~bias_core.measures.intervals.difference_interval`), which with few changed
    seeds rejects less often than it may.

    Examples
    --------
    >>> found = prevalence_difference_test([-1.0] * 6, [1.0] * 6)
    >>> found.n_gained, found.p_value  # 2 / 2⁶
    (6, 0.03125)
    """
    check_confidence(confidence)
    first, second = _show_flags(margins_first, margins_second)
    n, gained, lost = len(first), int((second > first).sum()), int((second < first).sum())
    estimate = difference_interval(gained, lost, n, confidence=confidence)
    return PrevalenceTest(estimate=estimate, test="McNemar, exact", n_gained=gained, n_lost=lost)


def corrected_difference(difference: Estimate, errors: ReaderErrors, *, confidence: float = 0.95) -> Estimate:
    """True difference, when one classifier with known errors read both sets.

    (P₂ - P₁) / (Se + Sp - 1): the constant of [rogan1978, Eq. 1] cancels. With J = Se + Sp - 1 and its interval
    [l_J, u_J], the lower end is (d J - √(d² J² - l u_J (2 d - l) (2 J - u_J))) / (u_J (2 J - u_J)), and likewise the
    upper: the recovery of variances for a ratio of [donner2012]. Its interval excludes 0 just where that of the
    difference does, for errors alone cannot make two equal shares differ; so its p is the same.

    Parameters
    ----------
    difference : Estimate. From :func:`prevalence_difference_test`.
    errors : ReaderErrors. The same for both sets.
    confidence : float in (0, 1). As that of ``difference``.

    Returns
    -------
    Estimate : in [-1, 1], null value 0; larger than the difference itself, for errors hide a part of it.

    Raises InvalidInput: if Se + Sp <= 1: no better than chance.

    >>> from bias_core.types import Estimate, ReaderErrors
    >>> errors = ReaderErrors(sensitivity=0.9, specificity=0.85, n_positive=500, n_negative=500)
    >>> round(corrected_difference(Estimate(value=0.3, low=0.2, high=0.4, n=100), errors).value, 6)
    0.4
    """
    check_confidence(confidence)
    se, sp = errors.sensitivity, errors.specificity
    if (scale := se + sp - 1) <= 0:
        raise InvalidInput(f"sensitivity + specificity must exceed 1 for a correction; got {se} + {sp}.")
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    shares = (
        (se * errors.n_positive + 1) / (errors.n_positive + 2),
        (sp * errors.n_negative + 1) / (errors.n_negative + 2),
    )
    sizes = (errors.n_positive + 2, errors.n_negative + 2)
    variance = sum(share * (1 - share) / size for share, size in zip(shares, sizes, strict=True))
    reach = z * math.sqrt(variance)
    down = _ratio_end(difference.value, difference.low, scale, reach)
    up = -_ratio_end(-difference.value, -difference.high, scale, reach)
    raw = difference.value / scale
    value, low, high = (min(max(number, -1.0), 1.0) for number in (raw, down, up))
    return Estimate(
        value=value,
        low=low,
        high=high,
        n=difference.n,
        null_value=0.0,
        method=f"Rogan–Gladen, {difference.method}",
        note="" if abs(raw) <= 1 else f"the formula gives {typeset(raw, '.3f')}, outside [−1, 1]",
        p_value=difference.p_value,
    )


def _ratio_end(value: float, low: float, scale: float, reach: float) -> float:
    """Return the lower end of value / scale, from the value's lower end and the reach of the scale's interval."""
    product, factor, lower = value * scale, scale**2 - reach**2, low * (2 * value - low)
    root = math.sqrt(max(product**2 - lower * factor, 0.0))
    if product > 0:
        return lower / (product + root)
    return (product - root) / factor if factor > 0 else -1.0  # the scale's interval holds 0: nothing is ruled out


def stereotype_difference_test(
    margins_first: ArrayLike,
    margins_second: ArrayLike,
    reference: float,
    *,
    errors: ReaderErrors | None = None,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    rng: Seed = 0,
) -> PairedTest:
    """Rise of the stereotype score from the first set to the second, on the same seeds.

    Ψ₂ - Ψ₁ with Ψ = max(0, P - P*)   (Ψ: [dehdashtian2025oasis, Eq. 3])

    Interval and p are of a bootstrap: each resample draws seeds, with the images of both sets
    (:func:`~bias_core.measures.intervals.percentile_estimate`).

    Parameters
    ----------
    margins_first, margins_second : arrays (n,)
    reference : float in [0, 1]. P*, the real-world rate.
    errors : ReaderErrors or None. Those of the classifier of both sets; each P is then corrected:
        (P + Sp - 1) / (Se + Sp - 1) within [0, 1].

    Returns
    -------
    PairedTest : in [-1, 1]; 0 also where neither set over-represents it, whatever their P. nan ends and p with a note
        for fewer than ten seeds, and where no resample differs, as when neither set comes near P*.

    Raises
    ------
    InvalidInput : as :func:`prevalence_difference_test`, and for a rate outside [0, 1].

    Examples
    --------
    >>> stereotype_difference_test([-1.0, -1.0, 1.0], [-1.0, -1.0, -1.0], 0.9).estimate.value
    0.0
    """
    rate = probability(reference, "reference")
    first, second = _show_flags(margins_first, margins_second)

    def difference(shares_first: Any, shares_second: Any) -> Any:
        first_share, second_share = (corrected_share(shares, errors) for shares in (shares_first, shares_second))
        return _stereotype(second_share, rate) - _stereotype(first_share, rate)

    value = float(difference(first.mean(), second.mean()))
    n, generator = len(first), np.random.default_rng(rng)
    weights = generator.multinomial(n, np.full(n, 1 / n), size=n_resamples) / n  # (n_resamples, n)
    resampled = difference(weights @ first, weights @ second)
    if not np.ptp(resampled):
        note = "neither set comes near P*" if (first != second).any() else "no seed changed"
        return PairedTest(estimate=Estimate.without_interval(value, n, note, null_value=0.0), test="")
    estimate = percentile_estimate(value, resampled, n=n, confidence=confidence, null_value=0.0)
    return PairedTest(estimate=estimate, test="seeds resampled")


def corrected_share(share: Any, errors: ReaderErrors | None) -> Any:
    """Shares corrected for the classifier's errors: (P + Sp - 1) / (Se + Sp - 1) [rogan1978, Eq. 1] in [0, 1].

    Raises InvalidInput: if Se + Sp <= 1: no better than chance.

    >>> known = ReaderErrors(sensitivity=0.9, specificity=0.9, n_positive=50, n_negative=50)
    >>> round(float(corrected_share(0.5, known)), 6), corrected_share(0.5, None)
    (0.5, 0.5)
    """
    if errors is None:
        return share
    if (scale := errors.sensitivity + errors.specificity - 1) <= 0:
        raise InvalidInput(f"sensitivity + specificity must exceed 1 for a correction; got {errors}.")
    return np.clip((share + errors.specificity - 1) / scale, 0.0, 1.0)


def _stereotype(prevalence: Array | np.floating, reference: float) -> Array | np.floating:
    return np.asarray(np.maximum(0.0, prevalence - reference))


def _show_flags(margins_first: ArrayLike, margins_second: ArrayLike) -> tuple[Array, Array]:
    """1 or 0 per image of both sets, ``(n,)``."""
    first, second = paired_vectors(margins_first=margins_first, margins_second=margins_second)
    return (first > 0).astype(np.float64), (second > 0).astype(np.float64)


def variance_share_difference(first: ArrayLike, second: ArrayLike, direction: ArrayLike) -> float:
    """Rise of the share of variance along an attribute from the first set to the second.

    V₂ - V₁, with V as in :func:`bias_core.measures.alignment.variance_share`, after [dehdashtian2025oasis, Eq. 7]

    Parameters
    ----------
    first, second : arrays (n, d), n >= 2. Embeddings of the two sets.
    direction : array (d,)

    Returns
    -------
    float : in [-1, 1]; 0: equally much, positive: more in the second.

    Raises
    ------
    InvalidInput : as :func:`bias_core.measures.alignment.variance_share`.

    Examples
    --------
    >>> flat, tall = [[1.0, 0.0, 0.1], [1.0, 0.0, -0.1]], [[1.0, 0.1, 0.0], [1.0, -0.1, 0.0]]
    >>> round(variance_share_difference(flat, tall, [0.0, 1.0, 0.0]), 6)
    1.0
    """
    return variance_share(second, direction).value - variance_share(first, direction).value


def variety_difference_tests(
    first: ArrayLike, second: ArrayLike, directions: ArrayLike, *, confidence: float = 0.95
) -> tuple[PairedTest, ...]:
    """:func:`variance_share_difference` with intervals and p-values over seeds.

    D ± t·SE, with n - 1 degrees of freedom and the standard error of a jackknife that leaves out the images of a seed
    from both sets; p is that of the same t.

    Parameters
    ----------
    first, second : arrays (n, d). Row i of both is of the same seed.
    directions : array (n_attributes, d)

    Returns
    -------
    tuple of PairedTest : one per direction; nan with a note where a set has fewer than two different images. No
        interval, with a note, for fewer than eight seeds.

    Raises
    ------
    InvalidInput : for malformed embeddings, different sizes or dimensions.

    Examples
    --------
    >>> one = [[1.0, 0.0]]
    >>> variety_difference_tests(one, one, [[0.0, 1.0]])[0].estimate.note
    'one seed has no variety'
    """
    check_confidence(confidence)
    *rows, deltas = (a.astype(np.float64) for a in unit_sets(first=first, second=second, directions=directions))
    n = same_length(first=rows[0], second=rows[1])
    undefined = "all images of a set have the same embedding" if any(map(all_equal, rows)) else ""
    if undefined := "one seed has no variety" if n < 2 else undefined:
        return (PairedTest(estimate=Estimate.undefined(n, undefined, null_value=0.0), test=""),) * len(deltas)
    deviations = [squared_deviations(side, deltas) for side in rows]
    tests = []
    for i in range(len(deltas)):
        (first_part, whole_first), (second_part, whole_second) = ((along[:, i], whole) for along, whole in deviations)
        value = float(second_part.sum() / whole_second.sum() - first_part.sum() / whole_first.sum())
        without_each = jackknifed_shares(second_part, whole_second) - jackknifed_shares(first_part, whole_first)
        tests.append(PairedTest(estimate=_jackknifed(value, without_each, confidence), test="jackknife over seeds"))
    return tuple(tests)


def _jackknifed(value: float, without_each: Array, confidence: float) -> Estimate:
    """A difference with its jackknife interval; without one where no seed moves it, or of fewer than eight."""
    n = len(without_each)
    if n < FEWEST_DRAWN:
        note = f"an interval needs at least {FEWEST_DRAWN} seeds, and there are {n}"
        return Estimate.without_interval(value, n, note, null_value=0.0)
    error = math.sqrt((n - 1) / n * float(((without_each - without_each.mean()) ** 2).sum()))
    if not error > _ROUNDING:  # nan too: without one seed a set does not vary
        return Estimate.without_interval(value, n, "too few different images for an interval", null_value=0.0)
    estimate = t_interval(value, error, n - 1, n=n, confidence=confidence, method="jackknife t", null_value=0.0)
    return replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))


def picture_change_estimate(similarities: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    """Mean distance of the two images of a seed, with the interval of Student's t over seeds.

    1/n Σ_i (1 - cos(I₁ᵢ, I₂ᵢ)), embeddings as in [dehdashtian2025oasis]

    Parameters
    ----------
    similarities : array (n,), in [-1, 1]. Cosine of the two images of each seed.

    Returns
    -------
    Estimate : in [0, 2]; 0: the encoder sees no change. No null value: compare with images of different seeds.

    Raises
    ------
    InvalidInput : for empty or not finite similarities, or such as are no cosines.

    Examples
    --------
    >>> picture_change_estimate([1.0, 0.5]).value
    0.25
    """
    return mean_interval(1 - cosines(similarities), confidence=confidence)


_MARGINS = {
    "margins_first": "similarities: cosine to the sentence for presence minus that for absence, of each image of the "
    "first set",
    "margins_second": "similarities: the same of the second set, seed by seed",
}
_INPUTS = takes(
    first="embeddings: images of the first set",
    second="embeddings: images of the second set",
    direction="direction: direction of the attribute",
)


CARDS = (
    Card(
        function=prevalence_difference_test,
        key="prevalence_difference",
        field="estimate.value",
        name="Difference of prevalence P",
        summary="Share of images that show the attribute in the second set minus that in the first, on the same seeds.",
        tex=r"P_2 - P_1 = \frac{1}{n} \sum_i \left( \mathbf{1}[m_{2i} > 0] - \mathbf{1}[m_{1i} > 0] \right)",
        symbols="$m_{1i}$ and $m_{2i}$ are the margins of the two images of seed $i$; a margin is the cosine to the "
        "sentence for presence minus that for absence.",
        source="mcnemar1947, difference of P on pairs",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="seen more often in the second set",
        inputs=takes(**_MARGINS),
        limits="It says that the two sets differ, not which one is right.",
    ),
    Card(
        function=stereotype_difference_test,
        key="stereotype_difference",
        field="estimate.value",
        name="Difference of stereotype score Ψ",
        summary="Stereotype score Ψ of the second set minus that of the first, on the same seeds.",
        tex=r"\Psi_2 - \Psi_1, \quad \Psi = \max(0, P - P^\ast)",
        source="dehdashtian2025oasis, difference of Eq. 3",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more over-represented in the second set",
        inputs=takes(**_MARGINS, reference="probability: P*, the real-world rate, with a source"),
        limits="It ignores shares below P*: it is 0 if neither set over-represents the attribute.",
    ),
    Card(
        function=variance_share_difference,
        name="Difference of the share of variance",
        summary="Share of variance along the attribute in the second set minus that in the first.",
        tex="V_2 - V_1",
        symbols="$V$ is the share of variance along the attribute.",
        source="dehdashtian2025oasis, after Eq. 7",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="more of the second set's variety lies along the attribute",
        inputs=_INPUTS,
        limits="It also changes when the sets vary more or less in other ways.",
    ),
    Card(
        function=picture_change_estimate,
        key="picture_change",
        field="value",
        name="Change of the picture of a seed",
        summary="Distance of the two images of a seed for the encoder: one minus their cosine.",
        tex=r"\frac{1}{n} \sum_i \left( 1 - \cos(I_{1i}, I_{2i}) \right)",
        symbols="$I_{1i}$ and $I_{2i}$ are the two images of seed $i$.",
        source="dehdashtian2025oasis, 1 - cosine",
        bounds=(0.0, 2.0),
        null_value=None,
        higher_means="the pictures changed more",
        inputs=takes(similarities="similarities: cosine of the two images of a seed"),
        limits="Its scale is the encoder's own: compare with the distance of images of different seeds.",
    ),
)
