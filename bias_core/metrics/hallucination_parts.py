"""What a picture adds to its prompt and what it leaves out, each less what the base does on the same prompt and seed.

TBYB's H_J has both in one number, which is near 1 where all is right: a caption names much that no prompt does.
"""

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.metrics.object_distribution import ImageObjects, word_sets
from bias_core.metrics.objects import groundable, to_person
from bias_core.stats.arrays import Array
from bias_core.stats.strata import stratified_mean
from bias_core.types import Estimate


def added_objects(
    prompt_objects: ImageObjects,
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    base_prompt_objects: ImageObjects | None = None,
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Objects that a picture shows beyond its prompt, less those of the base's picture.

    1/N Σ_i (|Y_i ∖ X_i| − |Y⁰_i ∖ X_i|), with Y, Y⁰ and X the groundable objects of picture, base and prompt
    (a part of H_J: [vice2023tbyb, Eq. 4])

    Parameters
    ----------
    prompt_objects, image_objects, base_objects : one collection of words per image; entry i of all is of one prompt
        and seed.
    base_prompt_objects : what the base's prompts name, where they are others.
    strata : the prompt of each image, or None. See :func:`bias_core.stats.strata.stratified_mean`.

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
    ours = _beyond(image_objects, prompt_objects, ("image_objects", "prompt_objects"))
    theirs = _beyond(base_objects, base_prompt_objects or prompt_objects, ("base_objects", "prompt_objects"))
    return _change(ours, theirs, strata, confidence)


def missing_objects(
    prompt_objects: ImageObjects,
    image_objects: ImageObjects,
    base_objects: ImageObjects,
    *,
    base_prompt_objects: ImageObjects | None = None,
    strata: Sequence[Hashable] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """Objects of the prompt that a picture does not show, less those that the base's picture does not.

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
    ours = _beyond(prompt_objects, image_objects, ("prompt_objects", "image_objects"))
    theirs = _beyond(base_prompt_objects or prompt_objects, base_objects, ("prompt_objects", "base_objects"))
    return _change(ours, theirs, strata, confidence)


def compared_objects(words: Iterable[str]) -> frozenset[str]:
    """The objects of one text as both parts compare them: what can be seen, with people by one name.

    Raises
    ------
    InvalidInput : for a text in place of words.

    Examples
    --------
    >>> sorted(compared_objects(["doctor", "lady", "science", "cup"]))
    ['cup', 'doctor', 'person']
    """
    return frozenset(groundable(to_person(words)))


def _beyond(objects: ImageObjects, others: ImageObjects, names: tuple[str, str]) -> Array:
    """How many objects of each entry the other's entry lacks, ``(n,)``."""
    first, second = (word_sets(side, name) for side, name in zip((objects, others), names, strict=True))
    if len(first) != len(second):
        raise InvalidInput(f"{names[0]} and {names[1]} need one entry per image; got {len(first)} and {len(second)}.")
    pairs = zip(first, second, strict=True)
    return np.array([len(compared_objects(a) - compared_objects(b)) for a, b in pairs], dtype=float)


def _change(ours: Array, theirs: Array, strata: Sequence[Hashable] | None, confidence: float) -> Estimate:
    if len(ours) != len(theirs):
        raise InvalidInput(f"Each picture needs one of the base; got {len(ours)} pictures and {len(theirs)} of it.")
    return stratified_mean(ours - theirs, strata, confidence=confidence, null_value=0.0)


_INPUTS = takes(
    prompt_objects="words: objects that each image's prompt names",
    image_objects="words: objects that each image's caption names",
    base_objects="words: the same of the picture of the base with this prompt and seed",
)
CARDS = (
    Card(
        function=added_objects,
        field="value",
        name="Added objects against the base",
        summary="How many more objects beyond its prompt a picture shows than the same scene under the base.",
        source="vice2023tbyb, Eq. 4, in parts",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more objects that nobody asked for",
        inputs=_INPUTS,
        limits="What the captioner does not name is not counted, and it does not say which objects.",
    ),
    Card(
        function=missing_objects,
        field="value",
        name="Missing objects against the base",
        summary="How many more objects of its prompt a picture lacks than the same scene under the base.",
        source="vice2023tbyb, Eq. 4, in parts",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="more objects left out",
        inputs=_INPUTS,
        limits="An object that the picture shows and its caption does not name counts as missing, as in the base.",
    ),
)
