"""Internal bias: does drawing add to what the texts of a concept already lean to?"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, Term, takes
from bias_core.metrics.composite_scores import (
    CompositeAssociation as CompositeAssociation,
    composite_association as composite_association,
    mean_over_encoders as mean_over_encoders,
    picture_estimate,
)
from bias_core.metrics.relative_lean import lean_score
from bias_core.number_text import typeset
from bias_core.stats.arrays import finite_vector
from bias_core.stats.effects import Seed, bootstrap_interval
from bias_core.stats.intervals import folded_interval
from bias_core.types import Estimate

MINIMUM_TEXT_TEXT = 0.002
"""|TT| below which α is not reported: every published α above 10 has a smaller one, about 0.001."""


@dataclass(frozen=True, kw_only=True)
class InternalBias:
    """The answer of :func:`internal_bias`."""

    # δ, in [0, 2]; 0: pictures lean as strongly as the texts. Its interval is that of |II| - |TT|, folded at 0: it
    # begins at 0 where pictures may lean as strongly.
    diffusion_bias: Estimate
    # II - TT, in [-4, 4]; 0: pictures lean as the texts do; positive: more to A. It sees a change of direction, which δ
    # does not.
    signed_difference: Estimate
    # α, at least 0; 1: neither more nor less than the texts; nan with the reason in `note` where the texts hardly lean
    # at all
    bias_amplification: Estimate
    text_text: float  # TT, in [-2, 2], which α divides by


@dataclass(frozen=True, kw_only=True)
class InternalBiasSummary:
    """The answer of :func:`summarise_internal_bias`.

    Attributes
    ----------
    diffusion_bias, bias_amplification : mean δ and mean α over targets, with their intervals.
    diffusion_bias_range, bias_amplification_range : smallest and largest; nan where there is none.
    n_undefined : targets without an α, which its mean leaves out.
    """

    diffusion_bias: Estimate
    diffusion_bias_range: tuple[float, float]
    bias_amplification: Estimate
    bias_amplification_range: tuple[float, float]
    n_undefined: int


def diffusion_bias(image_image: float, text_text: float) -> float:
    """Bias that drawing adds: how much more, or less, strongly pictures lean than texts.

    δ = | |II| - |TT| |   [mandal2024internal, Eq. 4]

    Parameters
    ----------
    image_image, text_text : float in [-2, 2]. II and TT, averaged over encoders.

    Returns
    -------
    float : in [0, 2]; 0: pictures lean as strongly as texts, be it the other way: show :func:`signed_lean_difference`
        beside it.

    Raises
    ------
    InvalidInput : if either is nan, no number, or outside [-2, 2].

    Examples
    --------
    >>> diffusion_bias(-0.75, 0.25), diffusion_bias(-0.25, 0.25)
    (0.5, 0.0)
    """
    return abs(abs(lean_score(image_image, "image_image")) - abs(lean_score(text_text, "text_text")))


def signed_lean_difference(image_image: float, text_text: float) -> float:
    """Signed difference: positive where pictures lean more to A than texts do.

    II - TT, where δ [mandal2024internal, Eq. 4] is 0 if pictures and texts lean opposite ways alike.

    Parameters
    ----------
    image_image, text_text : float in [-2, 2]

    Returns
    -------
    float : in [-4, 4]; 0: both lean alike.

    Raises
    ------
    InvalidInput : if either is nan, no number, or outside [-2, 2].

    Examples
    --------
    >>> signed_lean_difference(-0.25, 0.25)
    -0.5
    """
    return lean_score(image_image, "image_image") - lean_score(text_text, "text_text")


def bias_amplification(
    image_prompt: float, image_text: float, text_text: float, *, minimum_text_text: float = MINIMUM_TEXT_TEXT
) -> float:
    """How many times as strongly pictures lean as the texts they are drawn from.

    α = |(ITP + IT) / (2 TT)|   [mandal2024internal, Eq. 5]

    Parameters
    ----------
    image_prompt, image_text, text_text : float in [-2, 2]. ITP, IT and TT, averaged over encoders.
    minimum_text_text : float >= 0. Smallest |TT| that α is formed at; 0 for the paper's α, at any TT but 0.

    Returns
    -------
    float : at least 0; 1: neither more nor less. nan where |TT| < ``minimum_text_text`` or TT is 0: the texts hardly
        lean, and a ratio to next to nothing is large whatever the pictures show.

    Raises
    ------
    InvalidInput : if a score is nan, no number, or outside [-2, 2], or ``minimum_text_text`` is negative.

    Notes
    -----
    The paper forms α at any TT: where it found α > 10, |TT| was about 0.001 or smaller.

    Examples
    --------
    >>> bias_amplification(0.25, 0.5, -0.25), bias_amplification(0.25, 0.5, 0.001)
    (1.5, nan)
    >>> bias_amplification(0.01, 0.02, 0.001, minimum_text_text=0)
    15.0
    """
    if not 0 <= minimum_text_text < math.inf:
        raise InvalidInput(f"minimum_text_text must be at least 0; got {minimum_text_text}.")
    pictures = lean_score(image_prompt, "image_prompt") + lean_score(image_text, "image_text")
    texts = lean_score(text_text, "text_text")
    return abs(pictures / (2 * texts)) if texts and abs(texts) >= minimum_text_text else math.nan


def internal_bias(
    scores: CompositeAssociation, *, minimum_text_text: float = MINIMUM_TEXT_TEXT, confidence: float = 0.95
) -> InternalBias:
    """δ and α with their intervals, and what is needed to judge them.

    [mandal2024internal, Eq. 4 and 5], from one bootstrap of the pictures.

    Parameters
    ----------
    scores : CompositeAssociation. Of one encoder, or better their mean.
    minimum_text_text : float >= 0. See :func:`bias_amplification`.

    Returns
    -------
    InternalBias : α has a note where |TT| is below :data:`MINIMUM_TEXT_TEXT`, be it undefined or formed all the same.

    Raises
    ------
    InvalidInput : as :func:`bias_amplification`, and for a confidence outside (0, 1).

    Examples
    --------
    >>> east, north = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> bias = internal_bias(composite_association([[0.6, 0.8]], east, east, north, east, north))
    >>> round(bias.diffusion_bias.value, 6), round(bias.signed_difference.value, 6)
    (0.8, -1.2)
    """
    texts, (ii, itp, it) = scores.text_text, scores.resamples.T
    alpha = bias_amplification(scores.image_prompt, scores.image_text, texts, minimum_text_text=minimum_text_text)
    floor = max(minimum_text_text, MINIMUM_TEXT_TEXT)
    note = f"TT is {typeset(texts, '.4f')}, nearer to 0 than {floor:g}: the texts hardly lean"
    if math.isnan(alpha):
        amplification = Estimate.undefined(sum(scores.n_units), note, null_value=1.0)
    else:
        ratio = (scores.image_prompt + scores.image_text) / (2 * texts)
        of_ratio = picture_estimate(ratio, (itp + it) / (2 * texts), scores.n_units, confidence=confidence)
        low, high = folded_interval(of_ratio.low, of_ratio.high)
        amplification = replace(of_ratio, value=alpha, low=low, high=high, null_value=1.0)
        if abs(texts) < floor:
            amplification = amplification.with_note(f"{note}, so α is large whatever the pictures show")
    delta = diffusion_bias(scores.image_image, texts)
    lean = picture_estimate(scores.image_image, ii, scores.n_units, confidence=confidence)
    strength = [end - abs(texts) for end in folded_interval(lean.low, lean.high)]  # of |II| - |TT|
    low, high = folded_interval(*strength)
    signed = signed_lean_difference(scores.image_image, texts)
    return InternalBias(
        diffusion_bias=replace(lean, value=delta, low=low, high=high),
        signed_difference=picture_estimate(signed, ii - texts, scores.n_units, confidence=confidence),
        bias_amplification=amplification,
        text_text=texts,
    )


def summarise_internal_bias(
    diffusion_bias: ArrayLike, bias_amplification: ArrayLike, *, confidence: float = 0.95, rng: Seed = 0
) -> InternalBiasSummary:
    """Mean and range of δ and α over the targets of a group, a row of [mandal2024internal, Table 4].

    Parameters
    ----------
    diffusion_bias : array (n_targets,)
    bias_amplification : array (n_targets,). nan where α is undefined.
    confidence : float in (0, 1). Of the bootstrap over targets.

    Returns
    -------
    InternalBiasSummary : Null values 0 for δ and 1 for α; a mean α is nan, with a note, where no target has one.

    Raises
    ------
    InvalidInput : for empty or infinite arrays, different lengths, or a δ that is nan.

    Examples
    --------
    >>> summary = summarise_internal_bias([0.01, 0.03], [1.5, float("nan")])
    >>> summary.diffusion_bias.value, summary.bias_amplification.value, summary.n_undefined
    (0.02, 1.5, 1)
    """
    deltas = finite_vector(diffusion_bias, "diffusion_bias")
    alphas = np.asarray(bias_amplification, dtype=np.float64)
    if alphas.shape != deltas.shape:
        raise InvalidInput(f"One α per δ is needed; got shapes {alphas.shape} and {deltas.shape}.")
    if (defined := alphas[~np.isnan(alphas)]).size:
        amplification = bootstrap_interval(defined, statistic=np.mean, confidence=confidence, rng=rng, null_value=1.0)
    else:
        amplification = Estimate.undefined(0, "no target has a bias amplification", null_value=1.0)
    return InternalBiasSummary(
        diffusion_bias=bootstrap_interval(deltas, statistic=np.mean, confidence=confidence, rng=rng, null_value=0.0),
        diffusion_bias_range=(float(deltas.min()), float(deltas.max())),
        bias_amplification=amplification,
        bias_amplification_range=(float(defined.min()), float(defined.max())) if defined.size else (math.nan, math.nan),
        n_undefined=int(alphas.size - defined.size),
    )


_INPUTS = takes(
    image_image="score: II: lean of the pictures by pictures of A and B",
    text_text="score: TT: lean of the prompt by words of A and B",
)
CARDS = (
    Card(
        function=diffusion_bias,
        name="Diffusion bias δ",
        terms=(Term(symbol="δ", words="diffusion bias"),),
        summary="How much more, or less, strongly the pictures of a concept lean than its texts do.",
        source="mandal2024internal, Eq. 4",
        bounds=(0.0, 2.0),
        null_value=0.0,
        higher_means="drawing changes the strength of the leaning more",
        inputs=_INPUTS,
        limits="As the paper has it: it cannot see a change of direction, and cosines of pictures and of texts have "
        "different scales; read δ′.",
    ),
    Card(
        function=signed_lean_difference,
        name="Signed difference II − TT",
        summary="How much more the pictures of a concept lean to A than its texts do.",
        source="mandal2024internal, Eq. 4",
        bounds=(-4.0, 4.0),
        null_value=0.0,
        higher_means="drawing moves the concept towards A",
        inputs=_INPUTS,
        limits="Cosines among pictures and among texts have different scales: read δ′, and this within one encoder.",
    ),
    Card(
        function=bias_amplification,
        name="Bias amplification α",
        terms=(Term(symbol="α", words="bias amplification"),),
        summary="How many times as strongly the pictures of a concept lean as its texts do.",
        source="mandal2024internal, Eq. 5",
        bounds=(0.0, math.inf),
        null_value=1.0,
        higher_means="more amplified; below 1: weakened",
        inputs=takes(
            image_prompt="score: ITP: lean of the prompt by pictures of A and B",
            image_text="score: IT: lean of the pictures by words of A and B",
            text_text="score: TT: lean of the prompt by words of A and B",
        ),
        limits="As the paper has it: it explodes where the texts hardly lean, and is not given there; the direction is "
        "lost, and cosines of pictures and of texts have different scales; read α′.",
    ),
)
