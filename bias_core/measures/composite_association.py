"""Internal bias: MCAS, and what drawing adds to the association that the texts of a concept already have."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import (
    Array,
    Floats,
    check_attributes_differ,
    check_pictures_differ,
    finite_vector,
    same_length,
    unit_sets,
)
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import folded_interval, mean_interval, percentile_estimate, with_p_through_ends
from bias_core.measures.relative_association import lean_score
from bias_core.types import Estimate
from bias_core.wording import typeset


@dataclass(frozen=True, kw_only=True)
class CompositeAssociation:
    """Scores: 0 is no association, positive is closer to A. Intervals cover chance in drawing the pictures."""

    # image_image, image_prompt, image_text, text_text: II, ITP, IT and TT, in [-2, 2]
    image_image: float
    image_prompt: float
    image_text: float
    text_text: float
    mcas: float  # their sum, in [-8, 8]
    # image_image_interval, image_prompt_interval, image_text_interval, mcas_interval: the same numbers with bootstrap
    # intervals; nan ends with a note where a set of pictures has one unit. TT has none: its texts are not drawn by
    # chance.
    image_image_interval: Estimate
    image_prompt_interval: Estimate
    image_text_interval: Estimate
    mcas_interval: Estimate
    # II, ITP and IT of each bootstrap resample, `(n_resamples, 3)`: what scores of several encoders on the same
    # pictures are averaged by
    resamples: Array
    # sampling units among image targets, attributes A and attributes B: pictures, or prompts where groups were given
    n_units: tuple[int, int, int]
    n_encoders: int  # encoders averaged over
    seed: int  # of the resampling


def composite_association(
    image_targets: ArrayLike,
    text_targets: ArrayLike,
    image_attributes_a: ArrayLike,
    image_attributes_b: ArrayLike,
    text_attributes_a: ArrayLike,
    text_attributes_b: ArrayLike,
    *,
    groups_targets: ArrayLike | None = None,
    groups_a: ArrayLike | None = None,
    groups_b: ArrayLike | None = None,
    n_resamples: int = 2000,
    confidence: float = 0.95,
    rng: int = 0,
) -> CompositeAssociation:
    """Association of a concept, as pictures and as text, with attribute A rather than B, by pictures and texts.

    s(w, A, B) = mean_a cos(w, a) - mean_b cos(w, b)   [mandal2024internal, Eq. 1]

    AS = mean_w s(w, A, B)   [mandal2024internal, Eq. 2]

    MCAS = II + ITP + IT + TT   [mandal2024internal, Eq. 3]

    II: image targets, image attributes. ITP: text targets, image attributes. IT: image targets, text
    attributes. TT: text targets, text attributes.

    Parameters
    ----------
    image_targets : array (n, d). Embeddings of the pictures of the concept.
    text_targets : array (m, d). Of the prompts they were drawn from, or of bare keywords.
    image_attributes_a, image_attributes_b : arrays (n_a, d), (n_b, d). Of pictures of each attribute. The paper's A is
        male.
    text_attributes_a, text_attributes_b : arrays (m_a, d), (m_b, d). Of attribute words, each its own text.
    groups_targets, groups_a, groups_b : sequences (n,), (n_a,), (n_b,), or None. The prompt of each picture. Pictures
        of one prompt are not independent: with groups whole prompts are resampled, so the interval is for other prompts
        of the kind, not only for other pictures.
    n_resamples : int >= 2
    rng : int. Seed. A number and no Generator: the same pictures must be resampled for every encoder.

    Returns
    -------
    CompositeAssociation : Scores in [-2, 2], their sum in [-8, 8]; 0 is none, positive is closer to A. Swapping A and
        B changes all signs.

    Raises
    ------
    InvalidInput : for empty, zero, not finite or wrongly shaped embeddings, different dimensions, groups of another
        length, several image targets that are all equal, and attributes A and B that are all equal.

    Notes
    -----
    The paper calls IT also ITA. It states no uncertainty: the interval is ours, by bootstrap over image targets and
    image attributes; the texts are fixed.

    Examples
    --------
    >>> east, north = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> scores = composite_association([[0.6, 0.8]], east, east, north, east, north)
    >>> round(scores.image_image, 6), scores.image_prompt, round(scores.mcas, 6)
    (-0.2, 1.0, 1.6)
    """
    sets = unit_sets(
        image_targets=image_targets,
        text_targets=text_targets,
        image_attributes_a=image_attributes_a,
        image_attributes_b=image_attributes_b,
        text_attributes_a=text_attributes_a,
        text_attributes_b=text_attributes_b,
    )
    x, w, a, b, text_a, text_b = (rows.astype(np.float64) for rows in sets)
    check_pictures_differ(x, "image_targets")
    check_attributes_differ(a, b, "image attributes")
    check_attributes_differ(text_a, text_b, "text attributes")
    target, text_lean = w.mean(axis=0), text_a.mean(axis=0) - text_b.mean(axis=0)  # (d,)
    units = (
        _unit_membership(x, groups_targets, "groups_targets"),
        _unit_membership(a, groups_a, "groups_a"),
        _unit_membership(b, groups_b, "groups_b"),
    )
    if not isinstance(rng, int) or rng < 0:
        raise InvalidInput(f"rng must be a whole number, so that encoders share a resampling; got {rng!r}.")
    if n_resamples < 2:
        raise InvalidInput(f"n_resamples must be at least 2; got {n_resamples}.")
    generator = np.random.default_rng(rng)
    weights = [_resampled_weights(unit, n_resamples, generator) for unit in units]
    equal_weights = [np.full((1, len(images)), 1 / len(images)) for images in (x, a, b)]
    return _summarise_scores(
        _picture_scores((x, a, b), equal_weights, target, text_lean)[0],
        float(target @ text_lean),
        _picture_scores((x, a, b), weights, target, text_lean),
        n_units=(len(units[0]), len(units[1]), len(units[2])),
        seed=rng,
        confidence=confidence,
    )


def mean_over_encoders(scores: Sequence[CompositeAssociation], *, confidence: float = 0.95) -> CompositeAssociation:
    """The mean of every score over encoders that read the same pictures and texts.

    Scores are averaged, not embeddings, as their dimensions differ; δ and α are formed from the averages
    [mandal2024internal, 5.2].

    Parameters
    ----------
    scores : CompositeAssociations, at least one. Of the same pictures in the same order, with the same groups, ``rng``
        and ``n_resamples``.

    Returns
    -------
    CompositeAssociation : as of one encoder. Its intervals are of chance in the pictures, which every encoder saw
        alike; these encoders are taken as given.

    Raises InvalidInput: for an empty list, and for scores that were not resampled alike.

    >>> east, north = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> ones = [composite_association(x, x, east, north, east, north) for x in (east, [[0.6, 0.8]])]
    >>> round(mean_over_encoders(ones).image_image, 6)
    0.4
    """
    if not scores:
        raise InvalidInput("scores is empty: give the scores of at least one encoder.")
    resamplings = {(score.seed, score.n_units, len(score.resamples)) for score in scores}
    if len(resamplings) > 1:
        raise InvalidInput(
            "Scores can be averaged over encoders that saw the same pictures, resampled alike; got (seed, "
            f"units, resamples) of {', '.join(map(str, sorted(resamplings)))}."
        )
    weights = [score.n_encoders for score in scores]

    def mean(values: list[Array]) -> Array:
        return np.asarray(np.average(values, axis=0, weights=weights), dtype=np.float64)

    return _summarise_scores(
        mean([np.array([score.image_image, score.image_prompt, score.image_text]) for score in scores]),
        float(np.average([score.text_text for score in scores], weights=weights)),
        mean([score.resamples for score in scores]),
        n_units=scores[0].n_units,
        n_encoders=sum(weights),
        seed=scores[0].seed,
        confidence=confidence,
    )


def picture_estimate(
    value: float, resampled: ArrayLike, n_units: Sequence[int], *, confidence: float = 0.95
) -> Estimate:
    """Return a function of the scores with the percentile interval of its resamples.

    Parameters
    ----------
    value : float
    resampled : array (n_resamples,)
    n_units : sampling units of each set of pictures that it was resampled over.

    Returns
    -------
    Estimate : as far out as the smallest set needs. ``low`` and ``high`` are nan, with a note, where a set has fewer
        than ten units (:func:`bias_core.measures.intervals.percentile_estimate`).

    Raises InvalidInput: for empty or not finite resamples, or a confidence outside (0, 1).

    >>> picture_estimate(0.5, [0.25, 0.5, 0.75], [500, 500], confidence=0.5).low.__round__(2)
    0.37
    """
    estimate = percentile_estimate(value, resampled, n=min(n_units), confidence=confidence, null_value=0.0)
    return replace(estimate, n=sum(n_units))


def _unit_membership(images: Floats, groups: ArrayLike | None, name: str) -> Array:
    """Membership of images, the columns, in sampling units, the rows: ones and zeros, ``(n_units, n)``."""
    labels = np.arange(len(images)) if groups is None else np.asarray(groups)
    if labels.ndim != 1:
        raise InvalidInput(f"{name} must name one prompt per image, shape (n,); got shape {labels.shape}.")
    same_length(images=images, **{name: labels})
    return np.asarray((np.unique(labels)[:, np.newaxis] == labels).astype(np.float64))


def _resampled_weights(units: Array, n_resamples: int, rng: np.random.Generator) -> Array:
    """Weight of each image in each resample of the units, rows adding up to 1, ``(n_resamples, n)``."""
    n_units = len(units)
    weights = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=n_resamples) @ units
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _picture_scores(
    images: tuple[Floats, Floats, Floats], weights: Sequence[Array], target: Floats, text_lean: Floats
) -> Array:
    """II, ITP and IT for each row of weights of the image targets and attributes, ``(n_rows, 3)``."""
    (x, a, b), (weights_x, weights_a, weights_b) = images, weights
    to_a = ((weights_x @ (x @ a.T)) * weights_a).sum(axis=1)
    to_b = ((weights_x @ (x @ b.T)) * weights_b).sum(axis=1)
    prompt = weights_a @ (a @ target) - weights_b @ (b @ target)
    return np.column_stack([to_a - to_b, prompt, weights_x @ (x @ text_lean)])


def _summarise_scores(
    scores: Array,
    text_text: float,
    resamples: Array,
    *,
    n_units: tuple[int, int, int],
    seed: int,
    confidence: float,
    n_encoders: int = 1,
) -> CompositeAssociation:
    ii, itp, it = map(float, scores)
    drawn_ii, drawn_itp, drawn_it = resamples.T
    mcas = ii + itp + it + text_text
    return CompositeAssociation(
        image_image=ii,
        image_prompt=itp,
        image_text=it,
        text_text=text_text,
        mcas=mcas,
        image_image_interval=picture_estimate(ii, drawn_ii, n_units, confidence=confidence),
        image_prompt_interval=picture_estimate(itp, drawn_itp, n_units[1:], confidence=confidence),
        image_text_interval=picture_estimate(it, drawn_it, n_units[:1], confidence=confidence),
        mcas_interval=picture_estimate(mcas, resamples.sum(axis=1) + text_text, n_units, confidence=confidence),
        resamples=resamples,
        n_units=n_units,
        n_encoders=n_encoders,
        seed=seed,
    )


MINIMUM_TEXT_TEXT = 0.002
"""|TT| below which α is not reported: every published α above 10 has a smaller one, about 0.001."""


@dataclass(frozen=True, kw_only=True)
class InternalBias:
    """Result of :func:`internal_bias`."""

    # δ, in [0, 2]; 0: pictures associate as strongly as the texts. Its interval is that of |II| - |TT|, folded at 0: it
    # begins at 0 where both may be equally strong.
    diffusion_bias: Estimate
    # II - TT, in [-4, 4]; 0: equal associations; positive: pictures are closer to A. Unlike δ it sees a change of
    # direction.
    signed_difference: Estimate
    # α, at least 0; 1: neither more nor less than the texts; nan if these have no clear association, see `note`
    # at all
    bias_amplification: Estimate
    text_text: float  # TT, in [-2, 2], which α divides by


@dataclass(frozen=True, kw_only=True)
class InternalBiasSummary:
    """Result of :func:`summarise_internal_bias`."""

    # diffusion_bias, bias_amplification: means over targets with their intervals; the ranges: smallest and largest, nan
    # where there is none
    diffusion_bias: Estimate
    diffusion_bias_range: tuple[float, float]
    bias_amplification: Estimate
    bias_amplification_range: tuple[float, float]
    n_undefined: int  # targets without an α, which its mean leaves out


def diffusion_bias(image_image: float, text_text: float) -> float:
    """Change in the strength of an association from the texts to the pictures.

    δ = | |II| - |TT| |   [mandal2024internal, Eq. 4]

    Parameters
    ----------
    image_image, text_text : float in [-2, 2]. II and TT, averaged over encoders.

    Returns
    -------
    float : in [0, 2]; 0: equally strong, even in opposite directions: show :func:`signed_lean_difference` too.

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
    """Signed difference: positive if pictures are closer to A than texts are.

    II - TT, where δ [mandal2024internal, Eq. 4] is 0 if pictures and texts have equal and opposite associations.

    Parameters
    ----------
    image_image, text_text : float in [-2, 2]

    Returns
    -------
    float : in [-4, 4]; 0: equal associations.

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
    """Ratio of the association of pictures to that of the texts they are drawn from.

    α = |(ITP + IT) / (2 TT)|   [mandal2024internal, Eq. 5]

    Parameters
    ----------
    image_prompt, image_text, text_text : float in [-2, 2]. ITP, IT and TT, averaged over encoders.
    minimum_text_text : float >= 0. Smallest |TT| that α is formed at; 0 for the paper's α, at any TT but 0.

    Returns
    -------
    float : at least 0; 1: neither more nor less. nan where |TT| < ``minimum_text_text`` or TT is 0: the texts
        then have no clear association, and a ratio to almost 0 is large for any pictures.

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
    """δ and α with their intervals, and the values needed to judge them.

    [mandal2024internal, Eq. 4 and 5], from one bootstrap of the pictures.

    Parameters
    ----------
    scores : CompositeAssociation. Of one encoder, or better their mean.
    minimum_text_text : float >= 0. See :func:`bias_amplification`.

    Returns
    -------
    InternalBias : α has a note where |TT| is below :data:`MINIMUM_TEXT_TEXT`, be it undefined or formed all the same.

    Raises InvalidInput: as :func:`bias_amplification`, and for a confidence outside (0, 1).

    >>> east, north = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> bias = internal_bias(composite_association([[0.6, 0.8]], east, east, north, east, north))
    >>> round(bias.diffusion_bias.value, 6), round(bias.signed_difference.value, 6)
    (0.8, -1.2)
    """
    texts, (ii, itp, it) = scores.text_text, scores.resamples.T
    alpha = bias_amplification(scores.image_prompt, scores.image_text, texts, minimum_text_text=minimum_text_text)
    floor = max(minimum_text_text, MINIMUM_TEXT_TEXT)
    note = f"TT is {typeset(texts, '.4f')}, nearer to 0 than {floor:g}: the texts have no clear association"
    if math.isnan(alpha):
        amplification = Estimate.undefined(sum(scores.n_units), note, null_value=1.0)
    else:
        ratio = (scores.image_prompt + scores.image_text) / (2 * texts)
        of_ratio = picture_estimate(ratio, (itp + it) / (2 * texts), scores.n_units, confidence=confidence)
        low, high = folded_interval(of_ratio.low, of_ratio.high)
        amplification = replace(of_ratio, value=alpha, low=low, high=high, null_value=1.0)
        amplification = with_p_through_ends(amplification, confidence)
        if abs(texts) < floor:
            amplification = amplification.with_note(f"{note}, so α is large whatever the pictures show")
    delta = diffusion_bias(scores.image_image, texts)
    lean = picture_estimate(scores.image_image, ii, scores.n_units, confidence=confidence)
    low, high = (end - abs(texts) for end in folded_interval(lean.low, lean.high))
    strength = replace(lean, value=abs(scores.image_image) - abs(texts), low=low, high=high)  # |II| - |TT|
    low, high = folded_interval(low, high)
    signed = signed_lean_difference(scores.image_image, texts)
    return InternalBias(
        diffusion_bias=replace(with_p_through_ends(strength, confidence), value=delta, low=low, high=high),
        signed_difference=picture_estimate(signed, ii - texts, scores.n_units, confidence=confidence),
        bias_amplification=amplification,
        text_text=texts,
    )


def summarise_internal_bias(
    diffusion_bias: ArrayLike, bias_amplification: ArrayLike, *, confidence: float = 0.95
) -> InternalBiasSummary:
    """Mean and range of δ and α over the targets of a group, a row of [mandal2024internal, Table 4].

    Parameters
    ----------
    diffusion_bias : array (n_targets,)
    bias_amplification : array (n_targets,). nan where α is undefined.
    confidence : float in (0, 1). Of Student's t over targets.

    Returns
    -------
    InternalBiasSummary : Null values 0 for δ and 1 for α; a mean α is nan, with a note, where no target has one.

    Raises InvalidInput: for empty or infinite arrays, different lengths, or a δ that is nan.

    >>> summary = summarise_internal_bias([0.01, 0.03], [1.5, float("nan")])
    >>> summary.diffusion_bias.value, summary.bias_amplification.value, summary.n_undefined
    (0.02, 1.5, 1)
    """
    deltas = finite_vector(diffusion_bias, "diffusion_bias")
    alphas = np.asarray(bias_amplification, dtype=np.float64)
    if alphas.shape != deltas.shape:
        raise InvalidInput(f"One α per δ is needed; got shapes {alphas.shape} and {deltas.shape}.")
    if (defined := alphas[~np.isnan(alphas)]).size:
        amplification = mean_interval(defined, confidence=confidence, null_value=1.0)
    else:
        amplification = Estimate.undefined(0, "no target has a bias amplification", null_value=1.0)
    return InternalBiasSummary(
        diffusion_bias=mean_interval(deltas, confidence=confidence, null_value=0.0),
        diffusion_bias_range=(float(deltas.min()), float(deltas.max())),
        bias_amplification=amplification,
        bias_amplification_range=(float(defined.min()), float(defined.max())) if defined.size else (math.nan, math.nan),
        n_undefined=int(alphas.size - defined.size),
    )


_INPUTS = takes(
    image_image="score: II: association of the pictures with pictures of A and B",
    text_text="score: TT: association of the prompt with words of A and B",
)


CARDS = (
    Card(
        function=composite_association,
        field="mcas",
        name="Composite association MCAS",
        terms=(Term(symbol="MCAS", words="composite association"),),
        summary="Association of a concept with A rather than B, in pictures and in text, added up.",
        tex=r"\text{MCAS} = \text{II} + \text{ITP} + \text{IT} + \text{TT}",
        symbols=r"Each term is the mean over its targets $w$ of the mean $\cos(w, a)$ over attributes $a$ of A minus "
        "that over those of B. II: pictures as targets and as attributes. ITP: texts as targets, pictures as "
        "attributes. IT: pictures as targets, texts as attributes. TT: texts as both.",
        source="mandal2024internal, Eq. 3",
        bounds=(-8.0, 8.0),
        null_value=0.0,
        higher_means="closer to A",
        inputs=takes(
            image_targets="embeddings: pictures of the concept",
            text_targets="embeddings: the prompts they were drawn from",
            image_attributes_a="embeddings: pictures of attribute A",
            image_attributes_b="embeddings: pictures of attribute B",
            text_attributes_a="embeddings: words of attribute A",
            text_attributes_b="embeddings: words of attribute B",
        ),
        limits="Opposite associations of pictures and texts cancel; the encoder has associations of its own.",
    ),
    Card(
        function=diffusion_bias,
        name="Diffusion bias δ",
        terms=(Term(symbol="δ", words="diffusion bias"),),
        summary="Difference in strength between the association of a concept's pictures and that of its texts.",
        tex=r"\delta = \left\lvert \lvert \text{II} \rvert - \lvert \text{TT} \rvert \right\rvert",
        source="mandal2024internal, Eq. 4",
        bounds=(0.0, 2.0),
        null_value=0.0,
        higher_means="drawing changes the strength of the association more",
        inputs=_INPUTS,
        limits="As in the paper, it cannot see a change of direction, and cosines of pictures and of texts have "
        "different scales: read δ′.",
    ),
    Card(
        function=signed_lean_difference,
        name="Signed difference II − TT",
        summary="Association of a concept's pictures with A minus that of its texts.",
        tex=r"\text{II} - \text{TT}",
        source="mandal2024internal, Eq. 4",
        bounds=(-4.0, 4.0),
        null_value=0.0,
        higher_means="drawing moves the concept towards A",
        inputs=_INPUTS,
        limits="Cosines among pictures and among texts have different scales: prefer δ′, and compare within one "
        "encoder.",
    ),
    Card(
        function=bias_amplification,
        name="Bias amplification α",
        terms=(Term(symbol="α", words="bias amplification"),),
        summary="Strength of the association of a concept's pictures, as a multiple of that of its texts.",
        tex=r"\alpha = \left\lvert \frac{\text{ITP} + \text{IT}}{2 \text{TT}} \right\rvert",
        source="mandal2024internal, Eq. 5",
        bounds=(0.0, math.inf),
        null_value=1.0,
        higher_means="more amplified; below 1: weakened",
        inputs=takes(
            image_prompt="score: ITP: association of the prompt with pictures of A and B",
            image_text="score: IT: association of the pictures with words of A and B",
            text_text="score: TT: association of the prompt with words of A and B",
        ),
        limits="As in the paper, it explodes where the texts' association is near 0, and is not given there. It has no "
        "direction, and cosines of pictures and of texts have different scales: read α′.",
    ),
)
