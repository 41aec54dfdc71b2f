"""What raters disagree about: which two answers they give to the same picture."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array
from bias_core.stats.effects import share_interval
from bias_core.types import Estimate


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One pair of answers that raters give to the same picture."""

    answers: tuple[Any, Any]  # in the order in which they first appear
    share: Estimate  # of all disagreement, in [0, 1]; n counts pictures with two answers; nan where there is none
    by_chance: float  # the same share if answers went to pictures at random, in [0, 1]


def disagreements(
    ratings: ArrayLike | pd.DataFrame, *, groups: "ArrayLike | pd.Series[Any] | None" = None, confidence: float = 0.95
) -> tuple[Disagreement, ...]:
    """How much of what raters disagree about is between each two of their answers, the most frequent pair first.

    d_kl = o_kl / Σ_{i<j} o_ij, with o_kl = Σ_u n_uk n_ul / (m_u - 1) the coincidences of two answers to one picture
    [krippendorff2011], m_u its answers and n_uk those that say k; by chance n_k n_l / Σ_{i<j} n_i n_j.

    Parameters
    ----------
    ratings : array (n_items, n_raters). Answers; None or nan where a rater gave none. Items with a single answer tell
        nothing: left out.
    groups : sequence (n_items,) or None. Items that are not independent, such as the picture that shows two people.

    Returns
    -------
    tuple of Disagreement : of every two answers; shares add up to 1, each with Wilson's interval for as many pictures
        as raters disagree about, (Σ_u w_u)² / Σ_u w_u² of the disagreement w_u in each [kish1965]. nan, with a note,
        where nobody disagrees; () where all answers are the same one.

    Raises
    ------
    InvalidInput : for fewer than two items with two answers, or another shape.

    Notes
    -----
    A pair above its share by chance is mistaken for each other more often than how frequent both are gives.

    Examples
    --------
    >>> pairs = disagreements([["f", "f"], ["f", "a"], ["a", "m"], ["a", "f"], ["m", "m"]])
    >>> [(one.answers, round(one.share.value, 3)) for one in pairs]
    [(('f', 'a'), 0.667), (('a', 'm'), 0.333), (('f', 'm'), 0.0)]
    """
    counts, answers, unit = _counts(ratings, groups)
    pairs = list(combinations(range(len(answers)), 2))
    if not pairs:
        return ()
    each = counts / (counts.sum(axis=1, keepdims=True) - 1)
    parts = np.stack([each[:, k] * counts[:, i] for k, i in pairs], axis=1)  # (n_items, n_pairs)
    per_unit: Array = np.stack([np.bincount(unit, weights=column) for column in parts.T], axis=1).astype(float)
    total = float(per_unit.sum())
    frequent = counts.sum(axis=0)
    chances = np.array([frequent[k] * frequent[i] for k, i in pairs])
    of_pairs = [
        Disagreement(
            answers=(answers[k], answers[i]),
            share=_share(per_unit, place, confidence),
            by_chance=float(chances[place] / chances.sum()),
        )
        for place, (k, i) in enumerate(pairs)
    ]
    return tuple(sorted(of_pairs, key=lambda one: -one.share.value if total else 0.0))


def largest_disagreement(ratings: ArrayLike | pd.DataFrame, *, confidence: float = 0.95) -> Estimate:
    """The share of the pair of answers that raters disagree about most, see :func:`disagreements`.

    Its source is the same [krippendorff2011].

    Parameters
    ----------
    ratings : as there.

    Returns
    -------
    Estimate : in (0, 1]: 1 where they disagree about one pair alone. nan, with a note, where nobody disagrees.

    Raises
    ------
    InvalidInput : as there.

    Examples
    --------
    >>> round(largest_disagreement([["f", "f"], ["f", "a"], ["a", "m"], ["a", "f"], ["m", "m"]]).value, 3)
    0.667
    """
    pairs = disagreements(ratings, confidence=confidence)
    return pairs[0].share if pairs else Estimate.undefined(len(np.asarray(ratings, dtype=object)), _NOBODY)


_NOBODY = "raters differ on nothing"


def _share(per_unit: Array, place: int, confidence: float) -> Estimate:
    of_units = per_unit.sum(axis=1)
    total = float(of_units.sum())
    if not total:
        return Estimate.undefined(len(of_units), _NOBODY)
    n = total**2 / float(of_units @ of_units)
    share = float(per_unit[:, place].sum()) / total
    estimate = share_interval(share * n, n, confidence=confidence)
    return replace(estimate, value=share, n=len(of_units), note=f"{int((of_units > 0).sum())} are disagreed about")


def _counts(ratings: ArrayLike | pd.DataFrame, groups: Any) -> tuple[Array, list[Any], "np.ndarray[Any, Any]"]:
    """How often each item with two answers has each, ``(n, n_answers)``, the answers, and the unit of each item."""
    array = np.asarray(ratings, dtype=object)
    if array.ndim != 2 or min(array.shape) < 2:
        raise InvalidInput(
            f"ratings need at least two items and two raters, shape (n_items, n_raters); got shape {array.shape}."
        )
    flat, answers = pd.factorize(array.ravel())
    codes = flat.reshape(array.shape)
    units = np.arange(len(codes)) if groups is None else np.asarray(groups)
    if units.shape != (len(codes),):
        raise InvalidInput(f"groups need one entry for each of the {len(codes)} items; got shape {units.shape}.")
    several = (codes >= 0).sum(axis=1) >= 2
    if several.sum() < 2:
        raise InvalidInput(f"At least two items need two ratings each; got {int(several.sum())} of {len(codes)}.")
    counts = (codes[several][:, :, np.newaxis] == np.arange(len(answers))).sum(axis=1).astype(float)
    return counts, list(answers), pd.factorize(units[several])[0]


CARDS = (
    Card(
        function=largest_disagreement,
        field="value",
        name="What raters disagree about most",
        summary="How much of all disagreement is between the two answers that are most often given to one picture.",
        source="krippendorff2011, coincidences of two values",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="raters disagree about one pair of answers alone",
        inputs=takes(ratings="ratings: answers, a row per picture and a column per rater"),
        limits="Frequent answers meet more often: compare each pair with its share by chance. Where pairs are about "
        "equally frequent, the largest share reads too large.",
    ),
)
