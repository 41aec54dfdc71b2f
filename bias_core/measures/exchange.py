"""Effects of exchanging the text during denoising, and of an adapter in one part of a model.

The same seeds are drawn with and without. A margin is cos(I, d+) - cos(I, d-) of one finished image: the attribute is
seen where it is above 0 [dehdashtian2025oasis, Eq. 5]. Entry i of all sets belongs to the same seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed, margins_by_step, paired_vectors
from bias_core.measures.cards import Card, takes
from bias_core.measures.intervals import check_confidence, difference_interval, percentile_estimate
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.permutation import mean_change_test
from bias_core.types import Estimate

N_RESAMPLES = 999
NOTHING_TO_LOSE = "the exchange from the start has no clear effect, so none can be lost"
_FEWEST_RESAMPLES = 0.9  # share in which the step must be defined


@dataclass(frozen=True, kw_only=True)
class ExchangeEffect:
    """Changes in the finished pictures when the text is exchanged after each of some steps."""

    steps: tuple[int, ...]  # numbers of steps taken with the first text
    effects: tuple[Estimate, ...]  # of each, in [-1, 1], null value 0; n counts seeds
    whole: Estimate  # the first of them: of the least steps with the first text


@dataclass(frozen=True, kw_only=True)
class PartEffects:
    """Effect of an adapter as a whole, and its division between the parts of a model; each in [-1, 1]."""

    whole: Estimate  # in both parts, against in neither
    text: Estimate  # the text encoders' part: the mean of the next two
    text_alone: Estimate  # in the text encoders, against in neither
    text_added: Estimate  # in both, against in the denoiser alone
    drawing: Estimate  # the denoiser's part: the mean of the next two
    drawing_alone: Estimate  # in the denoiser, against in neither
    drawing_added: Estimate  # in both, against in the text encoders alone


@dataclass(frozen=True, kw_only=True)
class PriorEffects:
    """Effect of exchanging the text, and its division between the prior and the decoder of an unCLIP model."""

    whole: Estimate  # in the finished pictures, in [-1, 1]
    prior: Estimate  # in the embeddings that the prior draws, in [-1, 1]
    decoder: Estimate  # the whole minus the prior's, in [-2, 2]


def exchange_effect(
    margins_without: ArrayLike,
    margins_exchanged: ArrayLike,
    *,
    steps: Sequence[int] | None = None,
    confidence: float = 0.95,
) -> ExchangeEffect:
    """Rise in the share of finished pictures that show an attribute where the text is exchanged after s steps.

    e_s = (Σ_i 1(m_is > 0) - Σ_i 1(m_i > 0)) / n   (P: [dehdashtian2025oasis, Eq. 5])

    m_is is the margin of the picture of seed i with its first s steps taken with the first text and the others with
    the later one, m_i that of the picture that is drawn with the first text to the end.

    Parameters
    ----------
    margins_without : array (n_seeds,), in [-2, 2]. With the first text to the end.
    margins_exchanged : array (n_seeds, n_exchanges), or (n_seeds,) of one, in [-2, 2].
    steps : (n_exchanges,) rising whole numbers. Steps with the first text; 0, 1, 2, ... where left out.
    confidence : float in (0, 1). Of each on its own (pointwise), not of all together.

    Returns
    -------
    ExchangeEffect : in [-1, 1]; 0: the exchange changes nothing any more, positive: it brings the attribute, negative:
        it takes it away. A tie counts as absent. The interval is that of
        :func:`~bias_core.measures.paired_prevalence.prevalence_difference_test`.

    Raises
    ------
    InvalidInput : for empty or not finite margins, values outside [-2, 2], shapes that do not fit, and steps that do
        not rise from 0 or more.

    Notes
    -----
    Ours. OASIS's SPI says at which steps velocities point towards an attribute, of a picture that is left as it is;
    this intervenes, and so says what the text still decides after s steps.

    Examples
    --------
    >>> answer = exchange_effect([-0.1, -0.2, 0.1, -0.3], [[0.1, -0.1], [0.2, 0.1], [0.2, 0.3], [0.3, -0.2]])
    >>> [effect.value for effect in answer.effects]
    [0.75, 0.25]
    """
    without, exchanged, at_steps = _exchanges(margins_without, margins_exchanged, steps)
    effects = tuple(
        prevalence_difference_test(without, column, confidence=confidence).estimate for column in exchanged.T
    )
    return ExchangeEffect(steps=at_steps, effects=effects, whole=effects[0])


def decided_step(
    margins_without: ArrayLike,
    margins_exchanged: ArrayLike,
    *,
    steps: Sequence[int] | None = None,
    n_steps: int | None = None,
    confidence: float = 0.95,
    n_resamples: int = N_RESAMPLES,
    rng: Seed = 0,
) -> Estimate:
    """Number of steps after which an exchange of the text has only half of its effect.

    h = min{s: e_s / e_0 <= 1/2}, on straight lines between the steps that were tried

    e_s is that of :func:`exchange_effect`, and 0 after the last step.

    Parameters
    ----------
    margins_without, margins_exchanged, steps : as of :func:`exchange_effect`; the first of the steps is 0.
    n_steps : int. Of a whole generation, more than any of ``steps``; one more than the last where left out.
    n_resamples : int. Of the bootstrap over seeds.

    Returns
    -------
    Estimate : in [0, n_steps] with its percentile interval over seeds; no null value. nan with a note where the effect
        of an exchange from the start is not told from 0, or too few resamples have one.

    Raises
    ------
    InvalidInput : as :func:`exchange_effect`, and where the steps do not begin with 0 or end with ``n_steps`` or more.

    Notes
    -----
    Ours. Between two steps that were tried the effect is taken to fall along a line: the answer is no finer than the
    steps that were tried.

    Examples
    --------
    >>> exchanged = [[0.1, -0.1], [0.2, 0.1], [0.1, -0.1], [0.3, -0.1], [0.2, 0.1], [0.1, -0.1], [0.1, 0.1], [0.2, 0.1]]
    >>> step = decided_step([-0.1] * 8, exchanged)  # 8 of 8, then 4 of 8: half after 1 step
    >>> step.value, step.n
    (1.0, 8)
    """
    without, exchanged, at_steps = _exchanges(margins_without, margins_exchanged, steps)
    end = at_steps[-1] + 1 if n_steps is None else n_steps
    if at_steps[0] != 0 or end <= at_steps[-1]:
        raise InvalidInput(f"steps must begin with 0 and end before n_steps; got {at_steps} of {end}")
    n, whole = len(without), prevalence_difference_test(without, exchanged[:, 0], confidence=confidence).estimate
    if not whole.p_value <= 1 - confidence:
        return Estimate.undefined(n, NOTHING_TO_LOSE)
    differences = (exchanged > 0).astype(float) - (without > 0).astype(float)[:, None]
    places = np.array([*at_steps, end], dtype=float)
    weights = np.random.default_rng(rng).multinomial(n, np.full(n, 1 / n), size=n_resamples)
    resampled = _half_lost(weights @ differences, places)
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < _FEWEST_RESAMPLES * n_resamples:
        return Estimate.undefined(n, "too few resamples of the seeds have an effect to lose")
    value = float(_half_lost(differences.sum(axis=0, keepdims=True), places)[0])
    return percentile_estimate(value, defined, n=n, confidence=confidence)


def part_effects(
    margins_neither: ArrayLike,
    margins_text: ArrayLike,
    margins_drawing: ArrayLike,
    margins_both: ArrayLike,
    *,
    confidence: float = 0.95,
) -> PartEffects:
    """Division of an adapter's effect between the text encoders and the denoiser.

    φ_text = ((P_text - P_neither) + (P_both - P_drawing)) / 2, and φ_drawing likewise
    [shapley1953, Eq. 13, for two players]

    P is the share of the pictures that show the attribute, drawn on the same seeds with the adapter in neither part, in
    the text encoders alone, in the denoiser alone, and in both.

    Parameters
    ----------
    margins_neither, margins_text, margins_drawing, margins_both : arrays (n,), in [-2, 2]. Entry i of all is of the
        same seed.
    confidence : float in (0, 1). Of each effect on its own.

    Returns
    -------
    PartEffects : in [-1, 1], null value 0; positive: with it the attribute is shown more often. Alone and added differ
        where either part suffices, or both are needed. A tie counts as absent.

    Raises
    ------
    InvalidInput : for empty or not finite margins, or different lengths.

    Notes
    -----
    Of whole pictures the interval inverts McNemar's exact test (:func:`~bias_core.measures.intervals
    .difference_interval`), and has a width even where no seed changed. The mean of two changes has p of random signs
    of the seeds (:func:`~bias_core.measures.permutation.mean_change_test`). What lies in the text encoders is what the
    adapter changes there; what the base model itself does is in none of them.

    Examples
    --------
    >>> parts = part_effects([-1, -1, -1, 1], [1, 1, -1, 1], [-1, -1, -1, 1], [1, 1, 1, 1])
    >>> parts.whole.value, parts.text.value, parts.drawing.value
    (0.75, 0.625, 0.125)
    """
    neither, text, drawing, combined = (
        (margins > 0).astype(float)
        for margins in paired_vectors(
            margins_neither=margins_neither,
            margins_text=margins_text,
            margins_drawing=margins_drawing,
            margins_both=margins_both,
        )
    )
    differences = {
        "whole": combined - neither,
        "text": (text - neither + combined - drawing) / 2,
        "text_alone": text - neither,
        "text_added": combined - drawing,
        "drawing": (drawing - neither + combined - text) / 2,
        "drawing_alone": drawing - neither,
        "drawing_added": combined - text,
    }
    return PartEffects(**{name: mean_difference(values, confidence) for name, values in differences.items()})


def prior_effects(
    prior_without: ArrayLike,
    prior_exchanged: ArrayLike,
    pictures_without: ArrayLike,
    pictures_exchanged: ArrayLike,
    *,
    confidence: float = 0.95,
) -> PriorEffects:
    """Division of a text's effect between an unCLIP model's prior and its decoder.

    e = e_prior + e_decoder,  e_prior = P'(exchanged) - P'(without)

    e is the rise in the share of finished pictures that show an attribute when the text is exchanged
    (:func:`exchange_effect`), and P' the same share of the picture embeddings that the prior draws, from which the
    decoder draws these pictures. What the exchange changes in pictures and not in their embeddings is the decoder's.

    Parameters
    ----------
    prior_without, prior_exchanged : arrays (n_seeds,), in [-2, 2]. Margins of the prior's embeddings, by its own CLIP.
    pictures_without, pictures_exchanged : arrays (n_seeds,), in [-2, 2]. Margins of the finished pictures, by the same
        CLIP. Entry i of all is of the same seed.
    confidence : float in (0, 1). Of each effect on its own.

    Returns
    -------
    PriorEffects : whole and prior in [-1, 1], decoder in [-2, 2]; null value 0; positive: it brings the attribute. A
        tie counts as absent.

    Raises
    ------
    InvalidInput : for empty or not finite margins, or different lengths.

    Notes
    -----
    Ours, for the future work of [mandal2024internal, section 7.1]. The decoder gets no text, only the embedding, so the
    effect passes through the prior: the parts say where it becomes visible. An offset between the prior's embeddings
    and those of pictures, which shifts both texts alike, is not taken for an effect as long as it moves no seed over 0.
    The intervals are those of :func:`part_effects`; that of the decoder's part is twice as wide where a seed's
    embedding loses what its picture gains.

    Examples
    --------
    >>> effects = prior_effects([1, 1, -1, -1], [-1, -1, -1, -1], [1, 1, 1, -1], [-1, -1, -1, -1])
    >>> effects.whole.value, effects.prior.value, effects.decoder.value
    (-0.75, -0.5, -0.25)
    """
    prior, prior_after, pictures, pictures_after = (
        (margins > 0).astype(float)
        for margins in paired_vectors(
            prior_without=prior_without,
            prior_exchanged=prior_exchanged,
            pictures_without=pictures_without,
            pictures_exchanged=pictures_exchanged,
        )
    )
    of_prior, whole = prior_after - prior, pictures_after - pictures
    added = whole - of_prior
    widest = max(1.0, float(np.abs(added).max()))  # 2 where a seed's embedding loses what its picture gains
    return PriorEffects(
        whole=mean_difference(whole, confidence),
        prior=mean_difference(of_prior, confidence),
        decoder=mean_difference(added / widest, confidence).scaled(widest),
    )


def mean_difference(differences: Array, confidence: float = 0.95) -> Estimate:
    """The mean of paired differences in [-1, 1], with the interval of :func:`part_effects`.

    Raises InvalidInput: for a confidence outside (0, 1).

    >>> mean_difference(np.array([1.0, 1.0, 0.0, 1.0])).p_value  # 2 / 2³
    0.25
    """
    check_confidence(confidence)
    if not np.isin(differences, (-1.0, 0.0, 1.0)).all():
        return mean_change_test(differences, confidence=confidence)
    n_up, n_down = int((differences > 0).sum()), int((differences < 0).sum())
    return difference_interval(n_up, n_down, len(differences), confidence=confidence)


def _exchanges(
    without: ArrayLike, exchanged: ArrayLike, steps: Sequence[int] | None
) -> tuple[Array, Array, tuple[int, ...]]:
    plain, exchanged_margins = (
        margins_by_step(without, "margins_without"),
        margins_by_step(exchanged, "margins_exchanged"),
    )
    if plain.shape[1] != 1 or len(plain) != len(exchanged_margins):
        raise InvalidInput(
            "margins_without must have one entry per seed, those of margins_exchanged; got shapes "
            f"{np.shape(without)} and {np.shape(exchanged)}."
        )
    at_steps = tuple(range(exchanged_margins.shape[1])) if steps is None else tuple(int(step) for step in steps)
    if len(at_steps) != exchanged_margins.shape[1] or at_steps[0] < 0 or any(b <= a for a, b in pairwise(at_steps)):
        raise InvalidInput(
            f"steps must be {exchanged_margins.shape[1]} whole numbers that rise from 0 or more; got {at_steps}."
        )
    return plain[:, 0], exchanged_margins, at_steps


def _half_lost(effects: Array, places: Array) -> Array:
    """Step at which each row of effects ``(k, n_exchanges)`` has lost half of its first; nan if the first is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.column_stack([effects, np.zeros(len(effects))]) / effects[:, :1]
    after = np.argmax(left <= 0.5, axis=1)  # the first such place; its own is 1, so it is never the first
    rows = np.arange(len(left))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (left[rows, after - 1] - 0.5) / (left[rows, after - 1] - left[rows, after])
    places_of_half: Array = np.where(
        effects[:, 0] == 0, np.nan, places[after - 1] + share * (places[after] - places[after - 1])
    )
    return places_of_half


_WITHOUT = "similarities: margins of pictures drawn with the first text to the end"
_EXCHANGED = "similarities: margins of pictures on the same seeds with the text exchanged after some steps"
_PARTS = takes(
    margins_neither="similarities: margins of pictures drawn with the adapter in no part",
    margins_text="similarities: with it in the text encoders alone, seed by seed",
    margins_drawing="similarities: with it in the denoiser alone, seed by seed",
    margins_both="similarities: with it in both, seed by seed",
)
CARDS = (
    Card(
        function=exchange_effect,
        field="whole.value",
        name="Effect of exchanging the text",
        summary="Rise in the share of pictures that show an attribute when the text is exchanged after some steps.",
        tex=r"e_s = \frac{1}{n} \sum_i \left( \mathbf{1}[m_{is} > 0] - \mathbf{1}[m_i > 0] \right)",
        symbols="$m_{is}$ is the margin of the picture of seed $i$ with the text exchanged after $s$ steps, $m_i$ "
        "that with the first text to the end; a margin is the cosine to the sentence for presence minus "
        "that for absence.",
        source="dehdashtian2025oasis, Eq. 5",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="the exchange brings the attribute; negative: it takes it away",
        inputs=takes(margins_without=_WITHOUT, margins_exchanged=_EXCHANGED),
        limits="It compares these two texts only, and each step by itself.",
    ),
    Card(
        function=part_effects,
        field="text.value",
        name="Effect of an adapter's text encoders",
        summary="Part of an adapter's effect that its text encoders cause.",
        tex=r"\varphi_{\text{text}} = \frac{(P_{\text{text}} - P_{\text{neither}}) + (P_{\text{both}} - "
        r"P_{\text{drawing}})}{2}",
        symbols="$P$ is the share of the pictures that show the attribute, with the adapter in neither part, in the "
        "text encoders alone, in the denoiser alone (drawing), and in both.",
        source="shapley1953, Eq. 13",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="through the text encoders the adapter brings the attribute",
        inputs=_PARTS,
        limits="It splits the effect of the adapter only, not the bias of the model without it.",
    ),
    Card(
        function=part_effects,
        field="drawing.value",
        key="drawing_effect",
        name="Effect of an adapter's denoiser",
        summary="Part of an adapter's effect that its denoiser, the part that draws, causes.",
        tex=r"\varphi_{\text{drawing}} = \frac{(P_{\text{drawing}} - P_{\text{neither}}) + (P_{\text{both}} - "
        r"P_{\text{text}})}{2}",
        symbols="$P$ is the share of the pictures that show the attribute, with the adapter in neither part, in the "
        "text encoders alone, in the denoiser alone (drawing), and in both.",
        source="shapley1953, Eq. 13",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="through the denoiser the adapter brings the attribute",
        inputs=_PARTS,
        limits="It splits the effect of the adapter only, not the bias of the model without it.",
    ),
)
