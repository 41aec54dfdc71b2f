"""TBYB's objects of many pictures: how often each appears, how evenly, and how sure that is."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array
from bias_core.measures.diversity import FORMULAS, distribution_bias, positive_counts
from bias_core.measures.intervals import Seed, normal_estimate, percent
from bias_core.types import Estimate

ImageObjects = Sequence[Collection[str]]
"""The objects of each image, as :func:`bias_core.measures.objects.extract_objects` lists them."""

_LARGEST_BLOCK = 2_000_000  # numbers held at once by a resampling loop
_N_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class ObjectDistribution:
    """How evenly objects appear, see :func:`object_distribution`; intervals from a bootstrap over images."""

    distribution_bias: Estimate  # B_D >= 0.5; *lower* is more biased; grows with n_images and n_objects
    normalised_entropy: Estimate  # in [0, 1]; 1 is even
    gini: Estimate  # in [0, 1); 0 is even
    effective_number: Estimate  # in [1, n_objects]; equally frequent objects that would be as varied
    # n_images, n_objects: pictures, and different objects seen in them
    n_images: int
    n_objects: int


def object_counts(image_objects: ImageObjects, *, exclude_prompt: ImageObjects | None = None) -> dict[str, int]:
    """In how many images each object appears, W_O = {w_i, n_i} [vice2023tbyb, 3.2].

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
    words, presence = presence_of(image_objects, exclude_prompt)
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

    Raises
    ------
    InvalidInput : for no counts, or n below 1.

    Examples
    --------
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
    words, presence = presence_of(image_objects, exclude_prompt)
    n_images = presence.shape[0]
    counts = presence.sum(axis=0)
    distribution_bias(counts)  # refuses counts that are all equal
    generator = np.random.default_rng(rng)

    def with_replacement(n_draws: int) -> NDArray[np.int64]:
        return generator.multinomial(n_images, np.full(n_images, 1 / n_images), size=n_draws)

    blocks = _counts_of_draws(presence, with_replacement, _N_RESAMPLES)
    drawn = pd.concat(pd.DataFrame({name: f(block) for name, f in FORMULAS.items()}) for block in blocks)

    def estimate(measure: str, bounds: tuple[float, float], null_value: float | None) -> Estimate:
        value, error = float(FORMULAS[measure](counts[np.newaxis])[0]), float(drawn[measure].std(skipna=False))
        return _normal(value, error, bounds, n_images, confidence, null_value)

    return ObjectDistribution(
        distribution_bias=estimate("distribution_bias", (0.5, math.inf), None),
        normalised_entropy=estimate("normalised_entropy", (0.0, 1.0), 1.0),
        gini=estimate("gini", (0.0, 1.0), 0.0),
        effective_number=estimate("effective_number", (1.0, math.inf), None),
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

    Raises
    ------
    InvalidInput : as :func:`object_distribution`.

    Examples
    --------
    >>> distribution_bias_estimate([["man", "cup"], ["man"], ["man", "dog"], ["dog"]]).value
    1.0
    """
    distribution = object_distribution(image_objects, exclude_prompt=exclude_prompt, confidence=confidence, rng=rng)
    return distribution.distribution_bias


def distribution_bias_at(
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

    Raises
    ------
    InvalidInput : as :func:`distribution_bias_estimate`, and for ``n_images`` or ``n_draws`` out of range.

    Examples
    --------
    >>> images = [["man", "cup"], ["man"], ["man", "dog"], ["dog", "man"], ["cup"]] * 20
    >>> distribution_bias_at(images, 50).n
    50
    """
    _, presence = presence_of(image_objects, exclude_prompt)
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
    return _normal(float(areas.mean()), error, (0.5, math.inf), n_images, confidence, None)


def _normal(
    value: float, error: float, bounds: tuple[float, float], n: int, confidence: float, null_value: float | None
) -> Estimate:
    """Value ± z·SE, kept within the bounds of the measure; nan ends with a note where SE is nan."""
    estimate = normal_estimate(value, error, n=n, confidence=confidence, null_value=null_value)
    low, high = (float(np.clip(end, *bounds)) for end in (estimate.low, estimate.high))  # nan stays nan
    note = "a draw of images has equal counts: too few images" if math.isnan(error) else ""
    method = f"normal, SE from resampled images, {percent(confidence)}"
    return replace(estimate, low=low, high=high, method=method, note=note)


def presence_of(image_objects: ImageObjects, exclude_prompt: ImageObjects | None) -> tuple[list[str], csr_array]:
    """Objects in alphabetical order, and which image shows which, 0 or 1, ``(n_images, n_objects)``.

    Raises
    ------
    InvalidInput : as :func:`object_counts`.

    Examples
    --------
    >>> presence_of([["dog", "cup"], ["dog"]], None)[1].toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    shown = word_sets(image_objects, "image_objects")
    if exclude_prompt is not None:
        named = word_sets(exclude_prompt, "exclude_prompt")
        if len(named) != len(shown):
            raise InvalidInput(f"exclude_prompt needs one entry per image; got {len(named)} for {len(shown)}.")
        shown = [objects - of_prompt for objects, of_prompt in zip(shown, named, strict=True)]
    words = sorted(frozenset().union(*shown))  # sorted: the order of sets changes from run to run
    if not words:
        raise InvalidInput(f"None of the {len(shown)} images shows an object.")
    column = {word: i for i, word in enumerate(words)}
    columns = [column[word] for objects in shown for word in objects]
    starts = np.cumsum([0, *map(len, shown)])
    return words, csr_array((np.ones(len(columns)), columns, starts), shape=(len(shown), len(words)))


def word_sets(objects: ImageObjects, name: str) -> list[frozenset[str]]:
    """One set of words per image.

    Raises
    ------
    InvalidInput : for a text, for no images, or for an image whose objects are no collection of words.

    Examples
    --------
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
