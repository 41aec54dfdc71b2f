"""TBYB's objects of many pictures: their counts, evenness and intervals."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import entr

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed, finite_vector
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import normal_estimate
from bias_core.types import Estimate
from bias_core.wording import format_percent


def chao_shen_entropy(counts: ArrayLike) -> float:
    """Entropy of the objects' shares, corrected for objects that few pictures miss.

    H = −Σ_i C p_i ln(C p_i) / (1 − (1 − C p_i)^n), C = 1 − f₁ / n, f₁ the objects counted once [chao2003]

    Parameters
    ----------
    counts : array (k,), >= 0. How often each object appears; n is their sum. Zeros are left out.

    Returns
    -------
    float : in nats, from 0 (one object alone), without an upper end. There is no null value: compare with a base. nan
        where every object was counted once: nothing then tells how many there are.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts.

    Notes
    -----
    The plug-in entropy of n counts is too small by about (k − 1) / 2n, and by more where objects were missed; its
    ratio to ln k moves with the number of pictures alone.

    Examples
    --------
    >>> round(chao_shen_entropy([8, 1, 1]), 4), chao_shen_entropy([7]), chao_shen_entropy([1, 1])
    (1.0001, 0.0, nan)
    """
    values = positive_counts(counts)
    n = values.sum()
    coverage = 1 - (values == 1).sum() / n
    if not coverage:
        return math.nan
    shares = coverage * values / n
    if values.size == 1:
        return 0.0
    terms = -shares * np.log(shares) / -np.expm1(n * np.log1p(-shares))
    return float(terms.sum())


def distribution_bias(counts: ArrayLike) -> float:
    """Area under the sorted, min-max normalised counts of objects.

    B_D = Σ_i (ñ_i + ñ_{i+1}) / 2,  ñ_i = (n_i − min n) / (max n − min n)   [vice2023tbyb, Eq. 2, Eq. 3]

    Parameters
    ----------
    counts : array (k,), >= 0, in any order. How often each object appears; a count of 0 is no object of the pictures
        and is left out.

    Returns
    -------
    float : at least 0.5, without an upper end. *Lower* is more biased: a few objects tower over the others. There is no
        null value. It grows with the number of images and of objects: compare at equal numbers of images
        (:func:`bias_core.measures.object_distribution.subset_distribution_bias`).

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or when all are equal: min-max is then undefined.

    Notes
    -----
    Eq. 3 sums to M, but there is no ñ_{M+1}: k objects have k − 1 trapezia. As the two ends are 0 and 1, the sum is Σ
    ñ_i − 1/2.

    Examples
    --------
    >>> round(distribution_bias([10, 5, 1]), 5)
    0.94444
    """
    values = positive_counts(counts)
    smallest, largest = values.min(), values.max()
    if smallest == largest:
        raise InvalidInput(f"Distribution bias needs counts that differ; all {values.size} objects have {smallest:g}.")
    return float((values.sum() - values.size * smallest) / (largest - smallest) - 0.5)


def normalised_entropy(counts: ArrayLike) -> float:
    """Entropy of the objects' shares, as a part of the largest that k objects can have.

    −Σ p_i ln p_i / ln k, Pielou's evenness [pielou1966]

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [0, 1]; 1 (its null value) is an even distribution, lower is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or fewer than two objects.

    Examples
    --------
    >>> round(normalised_entropy([5, 5, 5]), 9), round(normalised_entropy([8, 1, 1]), 3)
    (1.0, 0.582)
    """
    return float(_evenness(positive_counts(counts, at_least=2)[np.newaxis])[0])


def gini(counts: ArrayLike) -> float:
    """Gini coefficient of the counts: half the mean absolute difference, in units of the mean.

    G = Σ_i Σ_j |n_i − n_j| / (2 k² n̄)   [gini1912]

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [0, 1 − 1/k]; 0 (its null value) is an even distribution, higher is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts, or fewer than two objects.

    Examples
    --------
    >>> gini([5, 5, 5]), gini([1, 3])
    (0.0, 0.25)
    """
    return float(_gini(positive_counts(counts, at_least=2)[np.newaxis])[0])


def effective_number(counts: ArrayLike) -> float:
    """Number of equally frequent objects with the same entropy, exp(−Σ p_i ln p_i) [hill1973].

    Parameters
    ----------
    counts : array (k,), >= 0; zeros are left out

    Returns
    -------
    float : in [1, k]; k is an even distribution, lower is more biased.

    Raises
    ------
    InvalidInput : for empty, negative or not finite counts.

    Examples
    --------
    >>> round(effective_number([5, 5, 5]), 6), effective_number([7])
    (3.0, 1.0)
    """
    return float(_effective(positive_counts(counts)[np.newaxis])[0])


def positive_counts(counts: ArrayLike, *, at_least: int = 1) -> Array:
    """Counts above 0 as float64, at least ``at_least`` of them.

    Raises InvalidInput: for empty, negative or not finite counts, or fewer than ``at_least`` above 0.

    >>> positive_counts([3, 0, 1])
    array([3., 1.])
    """
    values = finite_vector(counts, "counts")
    if (smallest := values.min()) < 0:
        raise InvalidInput(f"counts must not be negative; got {smallest:g}.")
    if smallest == 0:
        values = values[values > 0]
    if values.size < at_least:
        raise InvalidInput(f"counts needs at least {at_least} objects that appear; got {values.size}.")
    return values


def _area(counts: Array) -> Array:
    largest, n_objects = counts.max(axis=1), np.count_nonzero(counts, axis=1)
    smallest = np.where(counts > 0, counts, largest[:, np.newaxis]).min(axis=1)
    return _ratio(counts.sum(axis=1) - n_objects * smallest, largest - smallest) - 0.5


def _entropy(counts: Array) -> Array:
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
    return np.asarray(entr(shares).sum(axis=1))


def _effective(counts: Array) -> Array:
    return np.exp(_entropy(counts))


def _evenness(counts: Array) -> Array:
    # Rounding puts an even distribution at 1 + 2e-16.
    return np.minimum(1.0, _ratio(_entropy(counts), np.log(np.maximum(1, np.count_nonzero(counts, axis=1)))))


def _gini(counts: Array) -> Array:
    n_objects = np.count_nonzero(counts, axis=1)[:, np.newaxis]
    n_columns = counts.shape[1]
    rank = np.arange(1, n_columns + 1) - (n_columns - n_objects)  # zeros come first and weigh nothing
    weighted = ((2 * rank - n_objects - 1) * np.sort(counts, axis=1)).sum(axis=1)
    return _ratio(weighted, n_objects[:, 0] * counts.sum(axis=1))


def _ratio(above: Array, below: Array) -> Array:
    return np.asarray(np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0))


FORMULAS: Mapping[str, Callable[[Array], Array]] = {
    "distribution_bias": _area,
    "normalised_entropy": _evenness,
    "gini": _gini,
    "effective_number": _effective,
}
"""The same measures for many counts at once, ``(b, k)`` -> ``(b,)``: zeros are left out, undefined is nan."""

_INPUTS = takes(counts="counts: number of images in which each object appears")


ImageObjects = Sequence[Collection[str]]
"""The objects of each image, as :func:`bias_core.measures.objects.extract_objects` lists them."""

_LARGEST_BLOCK = 2_000_000  # numbers held at once by a resampling loop
_N_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class ObjectDistribution:
    """Evenness of objects, see :func:`object_distribution`; intervals from a bootstrap over images.

    Without null values: counts of few images are less even than what they are drawn from, so that nothing is tested.
    """

    distribution_bias: Estimate  # B_D >= 0.5; *lower* is more biased; grows with n_images and n_objects
    normalised_entropy: Estimate  # in [0, 1]; 1 is even
    gini: Estimate  # in [0, 1); 0 is even
    effective_number: Estimate  # in [1, n_objects]; equally frequent objects that would be as varied
    # n_images, n_objects: pictures, and different objects seen in them
    n_images: int
    n_objects: int


def object_counts(image_objects: ImageObjects, *, exclude_prompt: ImageObjects | None = None) -> dict[str, int]:
    """Number of images in which each object appears, W_O = {w_i, n_i} [vice2023tbyb, 3.2].

    Parameters
    ----------
    image_objects : one collection of words per image
    exclude_prompt : one collection of words per image, or None. Objects of each image's prompt, which are then not
        counted in that image.

    Returns
    -------
    dict of str to int : Most frequent first, equals in alphabetical order.

    Raises
    ------
    InvalidInput : for no images, a text in place of words, lengths that differ, or if no image shows an object.

    Notes
    -----
    The paper's text counts the words of the prompt, its released code does not: ``exclude_prompt`` chooses.

    Examples
    --------
    >>> object_counts([["man", "dog"], ["dog", "dog"]], exclude_prompt=[["man"], ["man"]])
    {'dog': 2}
    """
    words, presence = build_presence_matrix(image_objects, exclude_prompt)
    counts = np.asarray(presence.sum(axis=0), dtype=int)
    return {words[i]: int(counts[i]) for i in np.argsort(-counts, kind="stable")}


def top_objects(counts: Mapping[str, int], base_counts: Mapping[str, int] | None = None, n: int = 10) -> pd.DataFrame:
    """The most frequent objects, and how their counts changed against a base [vice2023tbyb, Table III].

    Parameters
    ----------
    counts, base_counts : mapping from object to count. From :func:`object_counts`, at equal numbers of images, or the
        change means nothing.
    n : int >= 1

    Returns
    -------
    DataFrame : Columns ``object, n, share`` (of all counts), and with a base ``base_n, delta_n``; most frequent first,
        equals in alphabetical order.

    Raises InvalidInput: for no counts, or n below 1.

    >>> top_objects({"man": 6, "cup": 4}, {"man": 5}, n=1).to_dict("records")
    [{'object': 'man', 'n': 6, 'share': 0.6, 'base_n': 5, 'delta_n': 1}]
    """
    if n < 1:
        raise InvalidInput(f"n must be at least 1; got {n}.")
    total = positive_counts(list(counts.values())).sum()
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:n]
    table = pd.DataFrame(rows, columns=["object", "n"])
    table["share"] = table["n"] / total
    if base_counts is not None:
        table["base_n"] = [base_counts.get(word, 0) for word in table["object"]]
        table["delta_n"] = table["n"] - table["base_n"]
    return table


def object_distribution(
    image_objects: ImageObjects, *, exclude_prompt: ImageObjects | None = None, confidence: float = 0.95, rng: Seed = 0
) -> ObjectDistribution:
    """B_D and its bounded companions with their intervals.

    [vice2023tbyb, Eq. 3], [pielou1966], [gini1912], [hill1973]

    Parameters
    ----------
    image_objects, exclude_prompt : as in :func:`object_counts`.

    Returns
    -------
    ObjectDistribution

    Raises
    ------
    InvalidInput : as :func:`object_counts` and :func:`distribution_bias`.

    Notes
    -----
    The interval is value ± z·SE, with SE from the bootstrap. Percentile and BCa intervals are no use here: an object
    seen once is missing from 37 % of the resamples, so their evenness is off to one side. In simulations with 12 to 300
    objects in 80 to 200 images the percentile interval covered the mean of such runs 30 to 98 % of the time, BCa 22 to
    98 %, this one 88 to 100 %.

    Examples
    --------
    >>> found = object_distribution([["man", "cup"], ["man"], ["man", "dog"], ["dog"]])
    >>> found.n_objects, found.distribution_bias.value, found.distribution_bias.n
    (3, 1.0, 4)
    """
    words, presence = build_presence_matrix(image_objects, exclude_prompt)
    n_images = presence.shape[0]
    counts = presence.sum(axis=0)
    distribution_bias(counts)  # refuses counts that are all equal
    generator = np.random.default_rng(rng)

    def with_replacement(n_draws: int) -> NDArray[np.int64]:
        return generator.multinomial(n_images, np.full(n_images, 1 / n_images), size=n_draws)

    blocks = _counts_of_draws(presence, with_replacement, _N_RESAMPLES)
    drawn = pd.concat(pd.DataFrame({name: f(block) for name, f in FORMULAS.items()}) for block in blocks)

    def estimate(measure: str, bounds: tuple[float, float]) -> Estimate:
        value, error = float(FORMULAS[measure](counts[np.newaxis])[0]), float(drawn[measure].std(skipna=False))
        return _normal(value, error, bounds, n_images, confidence)

    return ObjectDistribution(
        distribution_bias=estimate("distribution_bias", (0.5, math.inf)),
        normalised_entropy=estimate("normalised_entropy", (0.0, 1.0)),
        gini=estimate("gini", (0.0, 1.0)),
        effective_number=estimate("effective_number", (1.0, math.inf)),
        n_images=n_images,
        n_objects=len(words),
    )


def distribution_bias_estimate(
    image_objects: ImageObjects, *, exclude_prompt: ImageObjects | None = None, confidence: float = 0.95, rng: Seed = 0
) -> Estimate:
    """:func:`distribution_bias` of the objects of images, with its interval from a bootstrap over images.

    Parameters
    ----------
    image_objects, exclude_prompt, confidence, rng : as in :func:`object_distribution`, which gives the bounded
        companions too.

    Returns
    -------
    Estimate : at least 0.5, *lower* is more biased, no null value.

    Raises InvalidInput: as :func:`object_distribution`.

    >>> distribution_bias_estimate([["man", "cup"], ["man"], ["man", "dog"], ["dog"]]).value
    1.0
    """
    distribution = object_distribution(image_objects, exclude_prompt=exclude_prompt, confidence=confidence, rng=rng)
    return distribution.distribution_bias


def subset_distribution_bias(
    image_objects: ImageObjects,
    n_images: int,
    *,
    exclude_prompt: ImageObjects | None = None,
    n_draws: int = 500,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> Estimate:
    """B_D of a run of fewer images, so that models with unequal numbers of images can be compared.

    Mean of B_D over random subsets of ``n_images`` images; SE of one run of that size, the spread of the
    subsets / √(1 − n_images / n), the delete-d jackknife [shao1989].

    Parameters
    ----------
    image_objects, exclude_prompt : as in :func:`object_counts`.
    n_images : int from 2 to the number of images given. With all of them this is :func:`distribution_bias_estimate`.
    n_draws : int >= 2

    Returns
    -------
    Estimate : ``n`` is ``n_images``. nan, with a note, where B_D of a subset is undefined (all counts equal).

    Raises InvalidInput: as :func:`distribution_bias_estimate`, and for ``n_images`` or ``n_draws`` out of range.

    >>> images = [["man", "cup"], ["man"], ["man", "dog"], ["dog", "man"], ["cup"]] * 20
    >>> subset_distribution_bias(images, 50).n
    50
    """
    _, presence = build_presence_matrix(image_objects, exclude_prompt)
    n_given = presence.shape[0]
    if not 2 <= n_images <= n_given or n_draws < 2:
        raise InvalidInput(
            f"n_images must be from 2 to {n_given} and n_draws at least 2; got {n_images} and {n_draws}."
        )
    if n_images == n_given:
        return distribution_bias_estimate(image_objects, exclude_prompt=exclude_prompt, confidence=confidence, rng=rng)
    generator = np.random.default_rng(rng)
    chosen = (np.arange(n_given) < n_images).astype(np.int64)

    def subsets(n_draws: int) -> NDArray[np.int64]:
        return generator.permuted(np.tile(chosen, (n_draws, 1)), axis=1)

    blocks = _counts_of_draws(presence, subsets, n_draws)
    areas = np.concatenate([FORMULAS["distribution_bias"](block) for block in blocks])
    error = float(areas.std(ddof=1)) / math.sqrt(1 - n_images / n_given)
    return _normal(float(areas.mean()), error, (0.5, math.inf), n_images, confidence)


def _normal(value: float, error: float, bounds: tuple[float, float], n: int, confidence: float) -> Estimate:
    """Value ± z·SE, kept within the bounds of the measure; nan ends with a note where SE is nan."""
    estimate = normal_estimate(value, error, n=n, confidence=confidence)
    low, high = (float(np.clip(end, *bounds)) for end in (estimate.low, estimate.high))  # nan stays nan
    note = "a draw of images has equal counts: too few images" if math.isnan(error) else estimate.note
    method = f"normal, SE from resampled images, {format_percent(confidence)}"
    return replace(estimate, low=low, high=high, method=method, note=note)


def build_presence_matrix(
    image_objects: ImageObjects, exclude_prompt: ImageObjects | None
) -> tuple[list[str], csr_array]:
    """Objects in alphabetical order, and which image shows which, 0 or 1, ``(n_images, n_objects)``.

    Raises InvalidInput: as :func:`object_counts`.

    >>> build_presence_matrix([["dog", "cup"], ["dog"]], None)[1].toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    object_sets = word_sets(image_objects, "image_objects")
    if exclude_prompt is not None:
        named = word_sets(exclude_prompt, "exclude_prompt")
        if len(named) != len(object_sets):
            raise InvalidInput(f"exclude_prompt needs one entry per image; got {len(named)} for {len(object_sets)}.")
        object_sets = [objects - of_prompt for objects, of_prompt in zip(object_sets, named, strict=True)]
    words = sorted(frozenset().union(*object_sets))  # sorted: the order of sets changes from run to run
    if not words:
        raise InvalidInput(f"None of the {len(object_sets)} images shows an object.")
    column = {word: i for i, word in enumerate(words)}
    columns = [column[word] for objects in object_sets for word in objects]
    starts = np.cumsum([0, *map(len, object_sets)])
    return words, csr_array((np.ones(len(columns)), columns, starts), shape=(len(object_sets), len(words)))


def word_sets(objects: ImageObjects, name: str) -> list[frozenset[str]]:
    """One set of words per image.

    Raises InvalidInput: for a text, for no images, or for an image without a collection of words as its objects.

    >>> word_sets([["dog", "dog"], []], "image_objects")
    [frozenset({'dog'}), frozenset()]
    """
    if isinstance(objects, str | Mapping) or not isinstance(objects, Collection) or not len(objects):
        raise InvalidInput(f"{name} must be one collection of words per image; got {objects!r:.80}.")
    for words in objects:
        if (
            isinstance(words, str)
            or not isinstance(words, Collection)
            or not all(isinstance(word, str) for word in words)
        ):
            raise InvalidInput(f"{name} must hold collections of words; got {words!r:.80}.")
    return [frozenset(words) for words in objects]


def _counts_of_draws(presence: csr_array, draw: Callable[[int], NDArray[np.int64]], n_draws: int) -> Iterator[Array]:
    """Counts ``(b, n_objects)`` of each draw, in blocks; a draw says how often it takes each image."""
    transposed = presence.T.tocsr()
    block = max(1, _LARGEST_BLOCK // max(presence.shape))
    for start in range(0, n_draws, block):
        yield (transposed @ draw(min(block, n_draws - start)).T).T


CARDS = (
    Card(
        function=chao_shen_entropy,
        name="Entropy of the objects (Chao–Shen)",
        summary="Chao–Shen entropy of the objects: their variety, corrected for objects not seen yet.",
        tex=r"H = -\sum_i \frac{C p_i \ln(C p_i)}{1 - (1 - C p_i)^n}, \quad C = 1 - \frac{f_1}{n}",
        symbols="$p_i$ is the share of object $i$ in the sum $n$ of the counts, $f_1$ the number of objects counted "
        "once.",
        source="chao2003, H",
        bounds=(0.0, math.inf),
        null_value=None,
        higher_means="more varied objects",
        inputs=takes(counts="counts: number of images in which each object appears"),
        limits="The value of an unbiased scene is unknown: compare with a base on the same prompts.",
    ),
    Card(
        function=distribution_bias,
        name="Distribution bias B_D",
        terms=(Term(symbol="B_D", words="distribution bias"),),
        summary="Evenness of the objects in the images: the area under their sorted, normalised counts.",
        tex=r"B_D = \sum_i \frac{\tilde n_i + \tilde n_{i+1}}{2}, \quad \tilde n_i = \frac{n_i - \min n}{\max n - "
        r"\min n}",
        symbols="$n_i$ are the counts, sorted.",
        source="vice2023tbyb, Eq. 3",
        bounds=(0.5, math.inf),
        null_value=None,
        higher_means="more even, less biased",
        inputs=_INPUTS,
        limits="It grows with the numbers of images and objects: compare at equal numbers. On the calibration world it "
        "rose, then fell, as one object was planted in more and more images.",
    ),
    Card(
        function=normalised_entropy,
        name="Normalised entropy",
        summary="Evenness of the distribution of objects, relative to a perfectly even one with as many objects.",
        tex=r"J' = \frac{-\sum_i p_i \ln p_i}{\ln k}",
        symbols="$p_i$ is the share of object $i$ of $k$ in the sum of the counts.",
        source="pielou1966, J′",
        bounds=(0.0, 1.0),
        null_value=1.0,
        higher_means="more even, less biased",
        inputs=_INPUTS,
        limits="Few images miss rare objects, and images with nothing planted are uneven too: compare with a base, at "
        "equal numbers of images.",
    ),
    Card(
        function=gini,
        name="Gini coefficient",
        summary="Inequality of the counts of objects.",
        tex=r"G = \frac{\sum_i \sum_j \lvert n_i - n_j \rvert}{2 k^2 \bar n}",
        symbols=r"$n_i$ is the count of object $i$ of $k$, $\bar n$ the mean count.",
        source="gini1912, G",
        bounds=(0.0, 1.0),
        null_value=0.0,
        higher_means="fewer objects hold more of the counts",
        inputs=_INPUTS,
        limits="With k objects it stays below 1 - 1/k, and images with nothing planted are uneven too: compare with a "
        "base, at equal numbers of images.",
    ),
    Card(
        function=effective_number,
        name="Effective number of objects",
        summary="Number of equally frequent objects that would be as varied as these.",
        tex=r"N_1 = \exp\left( -\sum_i p_i \ln p_i \right)",
        symbols="$p_i$ is the share of object $i$ in the sum of the counts.",
        source="hill1973, N₁",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="more varied, less biased",
        inputs=_INPUTS,
        limits="It cannot exceed the number of objects seen, which grows with the number of images.",
    ),
)
