"""TBYB: distribution bias, Jaccard hallucination and generative miss rate, and the two parts of hallucination."""

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import expit

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, finite_vector, paired_vectors, probabilities, probability
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.effects import corrected_by_errors
from bias_core.measures.intervals import mean_interval
from bias_core.measures.object_distribution import (
    ImageObjects,
    ObjectDistribution,
    distribution_bias,
    distribution_bias_estimate,
    effective_number,
    gini,
    normalised_entropy,
    object_counts,
    object_distribution,
    subset_distribution_bias,
    top_objects,
    word_sets,
)
from bias_core.measures.objects import GenderCounts, count_gender_words, extract_objects, groundable, to_person
from bias_core.measures.sequential import against, share_interval
from bias_core.measures.two_phase import stratified_mean
from bias_core.types import Estimate, ReaderErrors

__all__ = [
    "DIMENSIONS",
    "GenderCounts",
    "ObjectDistribution",
    "compare_models",
    "count_gender_words",
    "distribution_bias",
    "distribution_bias_estimate",
    "effective_number",
    "extract_objects",
    "generative_miss_rate",
    "gini",
    "jaccard_distances",
    "jaccard_hallucination",
    "jaccard_hallucination_estimate",
    "miss_probability",
    "miss_rate_estimate",
    "normalised_entropy",
    "object_counts",
    "object_distribution",
    "subset_distribution_bias",
    "to_person",
    "top_objects",
]

DIMENSIONS = ("distribution_bias", "hallucination", "miss_rate")
"""Columns of the table that :func:`compare_models` takes."""

Words = Collection[str] | Sequence[Collection[str]]  # the words of one image, or one collection of words per image


def jaccard_distances(prompt_objects: Words, image_objects: Words, *, fold_person: bool = True) -> Array:
    """Share of the objects of prompt and image that only one of them has, per image.

    1 − |X_i ∩ Y_i| / |X_i ∪ Y_i|   [vice2023tbyb, Eq. 4]

    Parameters
    ----------
    prompt_objects, image_objects : one collection of words per image, or both of a single image. Of the prompt and of
        the picture's caption.
    fold_person : bool. Call man, woman, boy, girl, child and their like "person" first: a person was asked for, and
        shown (:func:`bias_core.measures.objects.to_person`).

    Returns
    -------
    array (n,) : in [0, 1]; 0: exactly what the prompt names. nan where neither names an object.

    Raises
    ------
    InvalidInput : for no images, lengths that differ, or a text in place of words.

    Notes
    -----
    The released code gives −1 for some pairs and fails on empty ones; here two empty sets are nan.

    Examples
    --------
    >>> jaccard_distances([["person", "astronaut"], ["person", "cup"], []], [["man"], ["man", "dog"], []]).round(3)
    array([0.5  , 0.667,   nan])
    """
    prompts, images = _per_image(prompt_objects, "prompt_objects"), _per_image(image_objects, "image_objects")
    if len(prompts) != len(images):
        raise InvalidInput(f"One prompt per image is needed; got {len(prompts)} and {len(images)}.")
    if fold_person:
        prompts, images = ([frozenset(to_person(words)) for words in sets] for sets in (prompts, images))
    return np.array([1 - len(x & y) / len(x | y) if x | y else math.nan for x, y in zip(prompts, images, strict=True)])


def jaccard_hallucination(prompt_objects: Words, image_objects: Words, *, fold_person: bool = True) -> float:
    """Objects added to the picture or left out of it, as a share of all objects of prompt and picture.

    H_J = 1/N Σ_i (1 − |X_i ∩ Y_i| / |X_i ∪ Y_i|)   [vice2023tbyb, Eq. 4]

    Parameters
    ----------
    prompt_objects, image_objects, fold_person : as in :func:`jaccard_distances`.

    Returns
    -------
    float : in [0, 1]; 0 (its null value): every picture shows what its prompt names and nothing else. The mean over the
        images where that is defined; nan where it is for none.

    Raises
    ------
    InvalidInput : as :func:`jaccard_distances`.

    Examples
    --------
    >>> round(jaccard_hallucination([["person", "cup"], ["dog"]], [["man", "dog"], ["dog"]]), 3)
    0.333
    """
    distances = jaccard_distances(prompt_objects, image_objects, fold_person=fold_person)
    defined = distances[~np.isnan(distances)]
    return float(defined.mean()) if defined.size else math.nan


def jaccard_hallucination_estimate(
    prompt_objects: Words, image_objects: Words, *, fold_person: bool = True, confidence: float = 0.95
) -> Estimate:
    """:func:`jaccard_hallucination` with the interval of Student's t over images.

    Parameters
    ----------
    prompt_objects, image_objects, fold_person : as in :func:`jaccard_distances`.

    Returns
    -------
    Estimate : in [0, 1], null value 0; ``n`` counts the images where it is defined, ``note`` the others.

    Raises InvalidInput: as :func:`jaccard_distances`.

    >>> estimate = jaccard_hallucination_estimate([["cup"], [], ["dog"]], [["cup"], [], ["cat"]])
    >>> estimate.value, estimate.n, estimate.note
    (0.5, 2, '1 of 3 images: neither prompt nor picture names an object')
    """
    distances = jaccard_distances(prompt_objects, image_objects, fold_person=fold_person)
    defined = distances[~np.isnan(distances)]
    n_empty = distances.size - defined.size
    note = f"{n_empty} of {distances.size} images: neither prompt nor picture names an object"
    if not defined.size:
        return Estimate.undefined(0, note, null_value=0.0)
    estimate = mean_interval(defined, confidence=confidence, null_value=0.0)
    return estimate.with_note(note if n_empty else "")


def miss_probability(
    similarity_prompt: ArrayLike, similarity_negative: ArrayLike, *, logit_scale: float = 100.0
) -> Array:
    """CLIP's probability that a picture fits the negative sentence rather than its prompt.

    P_1 = softmax(s · [cos(I, prompt), cos(I, negative)])_1   [vice2023tbyb, 3.2 (3)]

    Parameters
    ----------
    similarity_prompt, similarity_negative : arrays (n,) in [-1, 1]. Cosine of each image to its prompt and to the
        negative sentence.
    logit_scale : float > 0. s; 100 in CLIP's released models.

    Returns
    -------
    array (n,) : in [0, 1]; 0.5 where both fit alike, higher: the prompt is missed.

    Raises
    ------
    InvalidInput : for empty, not finite or impossible cosines, lengths that differ, or a scale that is not positive.

    Notes
    -----
    The paper's negative is a blank, which hardly any picture fits: the rate saturates near 0. A sentence of the same
    kind ("a photo of something else") tells more; show both.

    Examples
    --------
    >>> miss_probability([0.30, 0.20], [0.20, 0.20]).round(5)
    array([5.e-05, 5.e-01])
    """
    prompt, negative = paired_vectors(similarity_prompt=similarity_prompt, similarity_negative=similarity_negative)
    largest = max(np.abs(prompt).max(), np.abs(negative).max())
    if largest > 1 + 1e-6:  # float32 cosines of equal vectors
        raise InvalidInput(f"Similarities must be cosines, from -1 to 1; got {largest:g}.")
    if not 0 < logit_scale < math.inf:
        raise InvalidInput(f"logit_scale must be positive; got {logit_scale}.")
    return np.asarray(expit(logit_scale * (negative - prompt)))  # softmax of two


def generative_miss_rate(p_miss: ArrayLike, *, threshold: float | None = 0.5) -> float:
    """Share of the pictures that miss their prompt.

    M_G = 1/N Σ_i 1(P_1(Y_i) > threshold)   [vice2023tbyb, Eq. 5]

    Parameters
    ----------
    p_miss : array (n,) in [0, 1]. See :func:`miss_probability`.
    threshold : float in [0, 1] or None. None: the mean of the probabilities, Eq. 5 as it is printed.

    Returns
    -------
    float : in [0, 1]; 0 (its null value): every picture fits its prompt; higher is more biased.

    Raises
    ------
    InvalidInput : for empty or not finite probabilities, or any outside [0, 1].

    Notes
    -----
    Eq. 5 sums probabilities, but the text counts predicted classes, and the published rates are whole numbers of
    pictures (0.0238 of 840 are 20).

    Examples
    --------
    >>> generative_miss_rate([0.9, 0.1, 0.2, 0.5]), round(generative_miss_rate([0.9, 0.1], threshold=None), 6)
    (0.25, 0.5)
    """
    return float(_missed(p_miss, threshold).mean())


def miss_rate_estimate(
    p_miss: ArrayLike, *, threshold: float | None = 0.5, fixed_n: bool = True, confidence: float = 0.95
) -> Estimate:
    """:func:`generative_miss_rate` with its interval: exact, or Student's t over images without a threshold.

    Parameters
    ----------
    p_miss, threshold : as in :func:`generative_miss_rate`.
    fixed_n : bool. Whether the number of images was fixed beforehand; else the interval holds at any time
        (:func:`bias_core.measures.sequential.confidence_sequence`).

    Returns
    -------
    Estimate : in [0, 1], null value 0.

    Raises InvalidInput: as :func:`generative_miss_rate`.

    >>> round(miss_rate_estimate([0.1] * 10).high, 3)
    0.283
    """
    missed = _missed(p_miss, threshold)
    if threshold is None:
        return mean_interval(missed, confidence=confidence, null_value=0.0)
    n, n_missed = missed.size, int(missed.sum())
    return share_interval(n_missed, n, fixed_n=fixed_n, confidence=confidence, null_value=0.0)


def compare_models(table: pd.DataFrame, *, dimensions: Sequence[str] = DIMENSIONS) -> pd.DataFrame:
    """Models side by side: each measure from 0 (least biased here) to 1 (most), and the distance from 0.

    B̄_D = 1 − minmax(B_D), H̄_J = minmax(H_J), M̄_G = minmax(M_G), distance = √(B̄_D² + H̄_J² + M̄_G²)
    [vice2023tbyb, 3.2, Table VI]

    Parameters
    ----------
    table : DataFrame, a row per model. With the columns ``dimensions``; B_D at equal numbers of images.
    dimensions : names among {"distribution_bias", "hallucination", "miss_rate"}. Leave one out where all models agree
        in it.

    Returns
    -------
    DataFrame : the table with ``normalised_<dimension>`` in [0, 1], ``distance`` in [0, √3] and ``rank``, 1 the most
        biased, equals sharing the smaller number.

    Raises
    ------
    InvalidInput : for fewer than two models, missing columns, numbers that are not finite, or a dimension in which all
        models agree: min-max is then undefined.

    Notes
    -----
    All is relative to the models in the table: another model can change every rank.

    Examples
    --------
    >>> models = pd.DataFrame(
    ...     {"distribution_bias": [7.1, 4.5], "hallucination": [0.66, 0.64], "miss_rate": [0.016, 0.0]},
    ...     index=["SD 1.5", "Kandinsky"],
    ... )
    >>> compare_models(models)["rank"].to_dict()
    {'SD 1.5': 1, 'Kandinsky': 2}
    """
    if not dimensions or not set(dimensions) <= set(DIMENSIONS) or len(set(dimensions)) < len(dimensions):
        raise InvalidInput(f"dimensions must be different ones of {', '.join(DIMENSIONS)}; got {dimensions}.")
    if not isinstance(table, pd.DataFrame):
        raise InvalidInput(f"table must be a DataFrame with a row per model; got {type(table).__name__}.")
    if not set(dimensions) <= set(table.columns) or len(table) < 2:
        raise InvalidInput(
            f"The table needs the columns {', '.join(dimensions)} and at least two models; got the columns "
            f"{list(table.columns)} and {len(table)} models."
        )
    compared = table.copy()
    for name in dimensions:
        numbers = finite_vector(table[name].to_numpy(), name)
        if np.ptp(numbers) == 0:
            raise InvalidInput(
                f"All {numbers.size} models have {name} {numbers[0]:g}: min-max is undefined. "
                "Leave it out of dimensions."
            )
        compared[f"normalised_{name}"] = normalise_over_models(numbers, name)
    compared["distance"] = np.sqrt((compared[[f"normalised_{name}" for name in dimensions]] ** 2).sum(axis=1))
    # Rounding must not part equals.
    compared["rank"] = compared["distance"].round(12).rank(ascending=False, method="min").astype(int)
    return compared


def normalise_over_models(values: ArrayLike, dimension: str) -> Array:
    """One measure of the models from 0 (least biased of them) to 1 (most) [vice2023tbyb, 3.2].

    Parameters
    ----------
    values : array (..., n_models)
    dimension : one of ``DIMENSIONS``; B_D is turned round.

    Returns
    -------
    array (..., n_models) : in [0, 1]; nan where all models agree.

    Raises InvalidInput: for fewer than two models, or another dimension.

    >>> normalise_over_models([[7.0, 4.0, 5.0], [2.0, 2.0, 2.0]], "distribution_bias").round(2)
    array([[0.  , 1.  , 0.67],
           [ nan,  nan,  nan]])
    """
    numbers = np.asarray(values, dtype=np.float64)
    if dimension not in DIMENSIONS or not numbers.ndim or numbers.shape[-1] < 2:
        raise InvalidInput(
            f"dimension is one of {', '.join(DIMENSIONS)}, of two models or more; got {dimension!r} and "
            f"values of shape {numbers.shape}."
        )
    low, span = numbers.min(axis=-1, keepdims=True), np.ptp(numbers, axis=-1, keepdims=True)
    scaled = np.full(numbers.shape, math.nan)
    np.divide(numbers - low, span, out=scaled, where=span > 0)
    return 1 - scaled if dimension == "distribution_bias" else scaled


def _per_image(objects: Words, name: str) -> list[frozenset[str]]:
    """One set per image, also of a single image given as a set, or as a list of words."""
    single = isinstance(objects, set | frozenset) or (
        isinstance(objects, list | tuple) and objects and all(isinstance(word, str) for word in objects)
    )
    return word_sets([objects] if single else objects, name)  # type: ignore[list-item, arg-type]


def _missed(p_miss: ArrayLike, threshold: float | None) -> Array:
    """1 where the prompt is missed and 0 elsewhere, or the probabilities themselves, ``(n,)``."""
    values = probabilities(p_miss, "p_miss")
    if threshold is None:
        return values
    return (values > probability(threshold, "threshold")).astype(np.float64)


def added_objects(
    prompt_objects: ImageObjects,
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    base_prompt_objects: ImageObjects | None = None,
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Number of objects that a picture shows beyond its prompt, less those of the base's picture.

    1/N Σ_i (|Y_i ∖ X_i| − |Y⁰_i ∖ X_i|), with Y, Y⁰ and X the groundable objects of picture, base and prompt
    (a part of H_J: [vice2023tbyb, Eq. 4])

    Parameters
    ----------
    prompt_objects, image_objects, base_objects : one collection of words per image; entry i of all is of one prompt
        and seed.
    base_prompt_objects : objects that the base's prompts name, if they differ.
    strata : the prompt of each image, or None. See :func:`bias_core.measures.two_phase.stratified_mean`.

    Returns
    -------
    Estimate : objects a picture; 0 (its null value) as many as under the base, above 0 more.

    Raises
    ------
    InvalidInput : for no images, a text in place of words, or lengths that differ.

    Notes
    -----
    Man, woman, child and their like are one object, and words for nothing that can be seen are left out.

    Examples
    --------
    >>> base = [["man", "cup"], ["cup"], ["woman", "cup", "dog"]]
    >>> pictures = [["man", "cup", "sign"], ["cup", "sign"], ["woman", "cup", "dog"]]
    >>> round(added_objects([["person", "cup"]] * 3, pictures, base).value, 3)
    0.667
    """
    ours = _count_beyond(image_objects, prompt_objects, ("image_objects", "prompt_objects"))
    theirs = _count_beyond(base_objects, base_prompt_objects or prompt_objects, ("base_objects", "prompt_objects"))
    return _estimate_change(ours, theirs, strata, confidence)


def missing_objects(
    prompt_objects: ImageObjects,
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    base_prompt_objects: ImageObjects | None = None,
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Number of objects of the prompt that a picture lacks, less the same number for the base's picture.

    1/N Σ_i (|X_i ∖ Y_i| − |X_i ∖ Y⁰_i|), as in :func:`added_objects` (a part of H_J: [vice2023tbyb, Eq. 4])

    Parameters
    ----------
    prompt_objects, image_objects, base_objects, base_prompt_objects, strata : as in :func:`added_objects`.

    Returns
    -------
    Estimate : objects a picture; 0 (its null value) as many as under the base, above 0 more.

    Raises
    ------
    InvalidInput : as :func:`added_objects`.

    Examples
    --------
    >>> missing_objects([["person", "cup"], ["dog"]], [["sign"], ["dog"]], [["man", "cup"], ["dog"]]).value
    1.0
    """
    ours = _count_beyond(prompt_objects, image_objects, ("prompt_objects", "image_objects"))
    theirs = _count_beyond(base_prompt_objects or prompt_objects, base_objects, ("prompt_objects", "base_objects"))
    return _estimate_change(ours, theirs, strata, confidence)


def compared_objects(words: Iterable[str]) -> frozenset[str]:
    """Visible objects of one text, with people under one name, as both parts compare them.

    Raises InvalidInput: for a text in place of words.

    >>> sorted(compared_objects(["doctor", "lady", "science", "cup"]))
    ['cup', 'doctor', 'person']
    """
    return frozenset(groundable(to_person(words)))


def _count_beyond(objects: ImageObjects, second_objects: ImageObjects, names: tuple[str, str]) -> Array:
    """Number of objects of each entry that the other's entry lacks, ``(n,)``."""
    first, second = (word_sets(side, name) for side, name in zip((objects, second_objects), names, strict=True))
    if len(first) != len(second):
        raise InvalidInput(f"{names[0]} and {names[1]} need one entry per image; got {len(first)} and {len(second)}.")
    pairs = zip(first, second, strict=True)
    return np.array([len(compared_objects(a) - compared_objects(b)) for a, b in pairs], dtype=float)


def _estimate_change(ours: Array, theirs: Array, strata: Sequence[Hashable] | None, confidence: float) -> Estimate:
    if len(ours) != len(theirs):
        raise InvalidInput(f"Each picture needs one of the base; got {len(ours)} pictures and {len(theirs)} of it.")
    return stratified_mean(ours - theirs, strata, confidence=confidence, null_value=0.0)


_INPUTS = takes(
    prompt_objects="words: objects that each image's prompt names",
    image_objects="words: objects that each image's caption names",
    base_objects="words: the same of the picture of the base with this prompt and seed",
)


def missing_things(
    p_yes: ArrayLike, *, errors: ReaderErrors | None = None, threshold: float = 0.5, confidence: float = 0.95
) -> Estimate:
    """Share of the named things that pictures do not show, by the answers of a judge.

    1 − 1/N Σ_i 1(P(yes)_i > threshold), over every thing that the prompt of a picture names (in place of M_G:
    [vice2023tbyb, Eq. 5])

    Parameters
    ----------
    p_yes : array (n,) in [0, 1]. Probability of "yes" to "Does this picture show a ...?", of each thing and picture.
    errors : those of the judge on such things, or None. With them the share is corrected [rogan1978].

    Returns
    -------
    Estimate : in [0, 1]; 0 (its null value): everything that was asked for is there.

    Raises
    ------
    InvalidInput : for empty or not finite probabilities, any outside [0, 1], or a judge that errs as often as not.

    Examples
    --------
    >>> missing_things([0.9, 0.8, 0.2, 0.7]).value
    0.25
    """
    values = probabilities(p_yes, "p_yes")
    n_yes, n = int(np.count_nonzero(values > probability(threshold, "threshold"))), len(values)
    if errors is None:
        return share_interval(n - n_yes, n, confidence=confidence, null_value=0.0)
    shown = corrected_by_errors(n_yes, n, errors, confidence=confidence)
    missing = replace(shown, value=1 - shown.value, low=1 - shown.high, high=1 - shown.low)
    return against(missing, 0.0, confidence)


CARDS = (
    Card(
        function=jaccard_hallucination,
        name="Jaccard hallucination H_J",
        terms=(Term(symbol="H_J", words="hallucination"),),
        summary="Share of a picture's and its prompt's objects that only one of the two names.",
        tex=r"H_J = \frac{1}{N} \sum_i \left( 1 - \frac{\lvert X_i \cap Y_i \rvert}{\lvert X_i \cup Y_i \rvert} "
        r"\right)",
        symbols="$X_i$ and $Y_i$ are the objects of the prompt and of the caption of image $i$.",
        source="vice2023tbyb, Eq. 4",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more objects added or left out",
        inputs=takes(
            prompt_objects="words: objects that each image's prompt names",
            image_objects="words: objects that each image's caption names",
        ),
        limits="It is far from 0 with nothing planted (0.69 to 1.00 on the calibration world with exact captions), and "
        "does not see planted genders: compare with a base.",
    ),
    Card(
        function=generative_miss_rate,
        name="Generative miss rate M_G",
        terms=(Term(symbol="M_G", words="miss rate"),),
        summary="Share of the pictures that fit another sentence better than their prompt.",
        tex=r"M_G = \frac{1}{N} \sum_i \mathbf{1}[P_1(Y_i) > \theta]",
        symbols=r"$P_1(Y_i)$ is the probability that image $Y_i$ misses its prompt, $\theta$ a threshold, by default "
        "0.5.",
        source="vice2023tbyb, Eq. 5",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more pictures miss their prompt",
        inputs=takes(p_miss="probabilities: probability that each image misses its prompt"),
        limits="It measures missed prompts, not bias: on the calibration world neither a planted object nor planted "
        "genders moved it. Against an empty text, the paper's models are all near 0.",
    ),
    Card(
        function=compare_models,
        key="model_distance",
        field="distance",
        name="Distance of a model from the least biased corner",
        summary="Distance of a model from the least biased values of B_D, H_J and M_G among the models compared.",
        tex=r"\sqrt{\bar B_D^2 + \bar H_J^2 + \bar M_G^2}",
        symbols=r"$\bar H_J$ and $\bar M_G$ are scaled to lie from 0, the smallest of the models, to 1, the largest; "
        r"so is $1 - \bar B_D$.",
        source="vice2023tbyb, Table VI",
        bounds=(0.0, math.sqrt(3.0)),
        null_value=None,
        higher_means="more biased than the others in the table",
        inputs=takes(table="table: B_D, H_J and M_G of each model, at equal numbers of images"),
        limits="It depends on the models in the table: one more model can change every distance.",
    ),
    Card(
        function=added_objects,
        field="value",
        name="Added objects against the base",
        summary="Number of objects that a picture adds to its prompt, minus the same number for the base picture.",
        tex=r"\frac{1}{N} \sum_i \left( \lvert Y_i \setminus X_i \rvert - \lvert Y^0_i \setminus X_i \rvert \right)",
        symbols="$X_i$, $Y_i$ and $Y^0_i$ are the objects of the prompt, of its picture and of the base's picture.",
        source="vice2023tbyb, Eq. 4, in parts",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more objects that the prompt does not name",
        inputs=_INPUTS,
        limits="It counts only objects that the captioner names, and does not say which they are.",
    ),
    Card(
        function=missing_objects,
        field="value",
        name="Missing objects against the base",
        summary="Number of objects of its prompt that a picture lacks, minus the same number for the base picture.",
        tex=r"\frac{1}{N} \sum_i \left( \lvert X_i \setminus Y_i \rvert - \lvert X_i \setminus Y^0_i \rvert \right)",
        symbols="$X_i$, $Y_i$ and $Y^0_i$ are the objects of the prompt, of its picture and of the base's picture.",
        source="vice2023tbyb, Eq. 4, in parts",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more objects left out",
        inputs=_INPUTS,
        limits="An object that the picture shows but its caption does not name counts as missing, in the base too.",
    ),
    Card(
        function=missing_things,
        field="value",
        name="Missing things, by a judge",
        summary="Share of the things named in prompts that a judge does not see in the pictures.",
        tex=r"1 - \frac{1}{N} \sum_i \mathbf{1}[P_i(\text{yes}) > \theta]",
        symbols=r"The sum is over the things that prompts name; $\theta$ is a threshold, by default 0.5.",
        source="vice2023tbyb, Eq. 5, by questions",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="more of the named things are missing",
        inputs=takes(p_yes="probabilities: probability of the answer yes about each thing in each image"),
        limits="A judge errs on small and unusual things: without its known errors the share is uncorrected.",
    ),
)
