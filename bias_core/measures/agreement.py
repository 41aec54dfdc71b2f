"""Agreement between raters, their disagreements, ordered answers, and agreement of two orders."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed, finite_vector, same_length
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import percentile_estimate
from bias_core.measures.sequential import share_interval
from bias_core.people import Scale
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import format_percent

Codes = np.ndarray[Any, np.dtype[np.int64]]
Coefficient = Literal["fleiss_kappa", "cohen_kappa", "krippendorff_alpha"]
Level = Literal["nominal", "ordinal", "interval"]
Statistic = Callable[[Codes, Array], Array]
"""Statistic of patterns of answers ``(n_patterns, n_raters)`` and their counts ``(n_samples, n_patterns)``."""

_ALL_EQUAL = "all ratings are equal: agreement by chance is certain and the coefficient is 0/0"


def fleiss_kappa(ratings: ArrayLike | pd.DataFrame) -> float:
    """Agreement of any number of raters beyond chance, on answers without order.

    κ = (P - P_e) / (1 - P_e): P the share of pairs of answers to one item that are equal, P_e = Σ_k p_k² with
    p_k the share of answer k among all   [fleiss1971]

    Parameters
    ----------
    ratings : array (n_items, n_raters). Answers of any kind, none missing; raters need not be the same people from item
        to item.

    Returns
    -------
    float : at most 1 (agreement everywhere); 0: as by chance; negative: less than by chance, down to -1/(n_raters - 1).
        nan where all ratings are equal.

    Raises
    ------
    InvalidInput : for fewer than two items or raters, another shape, or missing ratings.

    Notes
    -----
    Of M ratings α = κ + (1 - κ) / M, with Krippendorff's α: random answers give -1/(M - 1) on average and not 0, and
    resampled items by about as much less again.

    Examples
    --------
    >>> round(fleiss_kappa([["f", "f", "f"], ["m", "m", "f"], ["m", "m", "m"]]), 4)
    0.55
    """
    return _score_all_items(*_statistic(ratings, "fleiss_kappa", "nominal"))


def cohen_kappa(a: "ArrayLike | pd.Series[Any]", b: "ArrayLike | pd.Series[Any]") -> float:
    """Agreement of two raters beyond chance, on answers without order.

    κ = (p_o - p_c) / (1 - p_c): p_o the share of equal answers, p_c = Σ_k a_k b_k with the shares of answer k
    of each rater   [cohen1960, Eq. 1]

    Parameters
    ----------
    a, b : arrays (n_items,). Answers of each rater, item by item, none missing.

    Returns
    -------
    float : in [-1, 1]: 1 agreement everywhere; 0: as by chance, which is also what a rater gets who always gives the
        same answer. nan where all ratings of both are equal.

    Raises
    ------
    InvalidInput : for fewer than two items, different lengths, another shape, or missing ratings.

    Examples
    --------
    >>> cohen_kappa(["f", "f", "m", "m"], ["f", "m", "m", "m"])
    0.5
    """
    return _score_all_items(*_statistic(_two_raters(a, b), "cohen_kappa", "nominal"))


def krippendorff_alpha(ratings: ArrayLike | pd.DataFrame, *, level: Level = "nominal") -> float:
    """Agreement of any number of raters beyond chance, with answers missing or not, of any level.

    α = 1 - D_o / D_e: the mean difference δ² of two answers to one item over that of any two answers
    [krippendorff2011]

    Parameters
    ----------
    ratings : array (n_items, n_raters). Answers; None or nan where a rater gave none. Items with a single answer tell
        nothing: left out.
    level : {"nominal", "ordinal", "interval"}. δ² is 1 for different answers, the squared number of answers between
        their ranks, or the squared difference. The latter two need numbers.

    Returns
    -------
    float : at most 1 (agreement everywhere); 0: as by chance; negative: less than by chance. nan where all ratings are
        equal.

    Raises
    ------
    InvalidInput : for fewer than two items with two answers, another shape, or answers that are not numbers where the
        level needs them.

    Examples
    --------
    >>> round(krippendorff_alpha([["f", "f", None], ["m", "m", "f"], ["m", "m", "m"]]), 4)
    0.5333
    """
    return _score_all_items(*_statistic(ratings, "krippendorff_alpha", level))


def agreement_estimate(
    ratings: ArrayLike | pd.DataFrame,
    *,
    coefficient: Coefficient = "krippendorff_alpha",
    level: Level = "nominal",
    groups: "ArrayLike | pd.Series[Any] | None" = None,
    confidence: float = 0.95,
    null_value: float | None = None,
    n_resamples: int = 1000,
    rng: Seed = 0,
) -> Estimate:
    """A coefficient of agreement with its bootstrap interval over items.

    Parameters
    ----------
    ratings : array (n_items, n_raters). Two raters for Cohen's κ.
    coefficient : {"fleiss_kappa", "cohen_kappa", "krippendorff_alpha"}
    level : see :func:`krippendorff_alpha`, unused by the others.
    groups : sequence (n_items,) or None. Items that are not independent, e.g. the picture that shows two people; then
        groups are resampled.
    null_value : 0, the value that chance gives, to test against it; None for no test.

    Returns
    -------
    Estimate : ``n`` counts items, or groups where given. nan with a note where all ratings are equal; resamples in
        which they are, are left out, and the note counts them. Where raters agree on every item, no resample differs
        from another, and the interval comes from the share of units in agreement.

    Raises InvalidInput: as the coefficient, and for groups of another length.

    >>> ratings = [["f", "f"], ["m", "m"], ["f", "m"], ["m", "m"], ["f", "f"]] * 2
    >>> estimate = agreement_estimate(ratings, coefficient="cohen_kappa")
    >>> round(estimate.value, 4), estimate.n, estimate.low < estimate.value <= estimate.high
    (0.6154, 10, True)
    """
    codes, statistic = _statistic(ratings, coefficient, level)
    several = _has_two_answers(codes)
    patterns, index = np.unique(codes[several], axis=0, return_inverse=True)
    unit, _ = pd.factorize(_get_unit_names(groups, len(codes))[several])
    n, n_patterns = int(unit.max()) + 1, len(patterns)
    value = float(statistic(patterns, np.bincount(index, minlength=n_patterns)[np.newaxis].astype(float))[0])
    if math.isnan(value):
        return Estimate.undefined(n, _ALL_EQUAL, null_value=null_value)
    # Few kinds of units exist: to resample units is to draw how many there are of each kind.
    kinds, frequency = _kinds(unit, index, n_patterns)
    draws = np.random.default_rng(rng).multinomial(n, frequency / n, size=n_resamples) @ kinds
    resampled = statistic(patterns, draws)
    defined = resampled[np.isfinite(resampled)]
    estimate = percentile_estimate(value, defined, n=n, confidence=confidence, null_value=null_value)
    if math.isnan(estimate.low) and level == "nominal" and math.isclose(value, 1):
        return _estimate_full_agreement(codes[several], n, confidence, null_value)
    if not (left_out := resampled.size - defined.size):
        return estimate
    return estimate.with_note(f"{left_out} of {resampled.size} resamples had all ratings equal and were left out")


def _kinds(unit: Codes, index: Codes, n_patterns: int) -> tuple[csr_array, Codes]:
    """Distinct units by their count of each pattern, ``(n_kinds, n_patterns)`` in ascending order, and their numbers.

    Sparse, because many raters seldom give two items the same pattern: time and memory grow with the items.
    """
    per_unit = csr_array((np.ones(len(unit)), (unit, index)), shape=(int(unit.max()) + 1, n_patterns))
    per_unit.sum_duplicates()
    ends = per_unit.indptr.tolist()
    entries = list(zip((-per_unit.indices).tolist(), per_unit.data.tolist(), strict=True))
    rows = [tuple(entries[start:end]) for start, end in pairwise(ends)]  # sort as rows with their zeros would
    places, frequency = dict(zip(rows, range(len(rows)), strict=True)), Counter(rows)
    kinds = sorted(places)
    return per_unit[[places[kind] for kind in kinds]], np.array([frequency[kind] for kind in kinds])


def _estimate_full_agreement(codes: Codes, n: int, confidence: float, null_value: float | None) -> Estimate:
    """Return a coefficient of 1 with the lower end that agreement on n of n units allows.

    κ = (p - p_c) / (1 - p_c), p the lower Clopper-Pearson end of n of n, p_c = Σ_k p_k² of the answers. The p-value of
    a κ is twice the chance that all n agree if each does with its p.
    """
    from statsmodels.stats.proportion import proportion_confint

    _, n_answers = np.unique(codes[codes >= 0], return_counts=True)
    by_chance = float(((n_answers / n_answers.sum()) ** 2).sum())
    agreed = float(proportion_confint(n, n, alpha=1 - confidence, method="beta")[0])
    p_value = math.nan
    if null_value is not None:
        p_value = min(1.0, 2 * max(0.0, by_chance + null_value * (1 - by_chance)) ** n)
    return Estimate(
        value=1.0,
        low=max(-1.0, (agreed - by_chance) / (1 - by_chance)),
        high=1.0,
        n=n,
        method=f"Clopper-Pearson {format_percent(confidence)} of the units in agreement",
        null_value=null_value,
        p_value=p_value,
        note=f"raters agree on all {n:,} items; the lower end is the value at {agreed:.1%} agreement",
    )


def reader_errors_from_labels(
    human: "ArrayLike | pd.Series[Any]",
    automatic: "ArrayLike | pd.Series[Any]",
    *,
    positive: object,
    negative: object | None = None,
) -> ReaderErrors:
    """Sensitivity and specificity of a classifier, with people's answers as the truth.

    Parameters
    ----------
    human, automatic : arrays (n_items,). Answers, item by item, none missing.
    positive : the answer with the wanted prevalence.
    negative : answer or None. People's answer that means absence. Items with a third answer ("cannot_identify") are
        left out then; when None, any answer but ``positive`` means absence.

    Returns
    -------
    ReaderErrors : for :func:`bias_core.measures.effects.corrected_prevalence`. Any answer of the reader but
        ``positive``
        is a call of absence.

    Raises InvalidInput: as :func:`cohen_kappa`, and where people saw no item as present or none as absent.

    >>> errors = reader_errors_from_labels(["f", "f", "m", "m"], ["f", "m", "m", "m"], positive="f")
    >>> errors.sensitivity, errors.specificity, errors.n_positive
    (0.5, 1.0, 2)
    """
    pairs = _two_raters(human, automatic)
    present, called = pairs[:, 0] == positive, pairs[:, 1] == positive
    absent = ~present if negative is None else pairs[:, 0] == negative
    if positive == negative or not (present.any() and absent.any()):
        absence_answer = "another answer" if negative is None else repr(negative)
        raise InvalidInput(
            f"People must have answered both {positive!r} and {absence_answer}; got "
            f"{int(present.sum())} and {int(absent.sum())} of {len(pairs)} items."
        )
    return ReaderErrors(
        sensitivity=float(called[present].mean()),
        specificity=float(1 - called[absent].mean()),
        n_positive=int(present.sum()),
        n_negative=int(absent.sum()),
    )


def _statistic(ratings: ArrayLike | pd.DataFrame, coefficient: Coefficient, level: Level) -> tuple[Codes, Statistic]:
    """Ratings by number, and the coefficient of each sample of them."""
    if coefficient == "krippendorff_alpha":
        codes, answers = _coded(ratings)
        positions = _positions(answers, level)
        return codes, _build_statistic(lambda counts, weights: _alpha(counts, weights, positions, level), len(answers))
    codes, answers = _coded(ratings, complete=True)
    if coefficient == "fleiss_kappa":
        return codes, _build_statistic(_fleiss, len(answers))
    if coefficient != "cohen_kappa":
        raise InvalidInput(f"No coefficient is called {coefficient!r}.")
    if codes.shape[1] != 2:
        raise InvalidInput(f"Cohen's kappa is for two raters; got {codes.shape[1]}.")
    return codes, _cohen


def _build_statistic(statistic: Callable[[Array, Array], float], n_answers: int) -> Statistic:
    """Statistic of each sample, from the counts of answers per pattern, ``(n_patterns, n_answers)``."""

    def score_samples(patterns: Codes, samples: Array) -> Array:
        counts = _count_answers(patterns, n_answers)
        return np.array([statistic(counts, weights) for weights in samples])

    return score_samples


def _score_all_items(codes: Codes, statistic: Statistic) -> float:
    codes = codes[_has_two_answers(codes)]
    return float(statistic(codes, np.ones((1, len(codes))))[0])


def _count_answers(codes: Codes, n_answers: int) -> Array:
    """Count of each answer in each row, ``(n_rows, n_answers)``."""
    return np.column_stack([(codes == answer).sum(axis=1) for answer in range(n_answers)]).astype(np.float64)


def _fleiss(counts: Array, weights: Array) -> float:
    from statsmodels.stats.inter_rater import fleiss_kappa as of_counts

    drawn = np.repeat(counts, weights.astype(int), axis=0)
    if np.count_nonzero(drawn.sum(axis=0)) == 1:
        return math.nan
    return float(of_counts(drawn))


def _cohen(codes: Codes, samples: Array) -> Array:
    """κ of whole numbers, (n Σ_k t_kk − Σ_k r_k c_k) / (n² − Σ_k r_k c_k), t how often the two gave each pair."""
    k = int(codes.max()) + 1
    cells = np.eye(k * k)[codes[:, 0] * k + codes[:, 1]]  # (n_patterns, k²)
    tables = (samples @ cells).reshape(-1, k, k)
    n = tables.sum(axis=(1, 2))
    by_chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
    agreed = n * np.trace(tables, axis1=1, axis2=2)
    above = np.where(by_chance == n * n, math.nan, n * n - by_chance)  # nan: both gave one answer, and the same
    return np.asarray((agreed - by_chance) / above)


def _alpha(counts: Array, weights: Array, positions: Array, level: Level) -> float:
    scaled = counts * (weights / (counts.sum(axis=1) - 1))[:, np.newaxis]
    coincidences = counts.T @ scaled - np.diag(scaled.sum(axis=0))  # (n_answers, n_answers)
    n_answers = coincidences.sum(axis=0)
    n = n_answers.sum()
    if np.count_nonzero(n_answers > 0) < 2:
        return math.nan
    delta = _square_differences(positions, n_answers, level)
    observed = (coincidences * delta).sum() / n
    expected = (np.outer(n_answers, n_answers) * delta).sum() / (n * (n - 1))
    return float(1 - observed / expected)


def _square_differences(positions: Array, n_answers: Array, level: Level) -> Array:
    """δ² of every two answers, ``(n_answers, n_answers)``."""
    if level == "nominal":
        return 1 - np.eye(len(positions))
    if level == "ordinal":  # the mean rank of each answer
        order = np.argsort(positions)
        sorted_counts = n_answers[order]
        positions = np.empty_like(positions)
        positions[order] = np.cumsum(sorted_counts) - sorted_counts / 2
    return np.asarray((positions[:, np.newaxis] - positions) ** 2)


def _positions(answers: list[Any], level: Level) -> Array:
    """The answers as numbers, or their order of appearance where only equality counts."""
    if level not in ("nominal", "ordinal", "interval"):
        raise InvalidInput(f'level must be "nominal", "ordinal" or "interval"; got {level!r}.')
    if level == "nominal":
        return np.arange(len(answers), dtype=float)
    try:
        numbers = np.array([float(answer) for answer in answers])
    except (TypeError, ValueError):
        raise InvalidInput(f"level {level!r} needs ratings that are numbers; got {answers}.") from None
    if not np.isfinite(numbers).all() or len(set(numbers)) < len(numbers):
        raise InvalidInput(f"level {level!r} needs finite, distinct numbers as answers; got {answers}.")
    return numbers


def _coded(ratings: ArrayLike | pd.DataFrame, *, complete: bool = False) -> tuple[Codes, list[Any]]:
    """Number of each answer, ``(n_items, n_raters)``, -1 where missing, and the answers in that order."""
    array = _objects(ratings)
    if array.ndim != 2 or min(array.shape) < 2:
        raise InvalidInput(
            f"ratings need at least two items and two raters, shape (n_items, n_raters); got shape {array.shape}."
        )
    n_missing = int(pd.isna(array).sum())
    if complete and n_missing:
        raise InvalidInput(
            f"No rating may be missing here; got {n_missing} of {array.size}. "
            "Krippendorff's alpha takes missing ratings."
        )
    flat, answers = pd.factorize(array.ravel())
    codes = flat.reshape(array.shape)
    if (n_rated := int(_has_two_answers(codes).sum())) < 2:
        raise InvalidInput(f"At least two items need two ratings each; got {n_rated} of {len(array)}.")
    return codes, list(answers)


def _has_two_answers(codes: Codes) -> NDArray[np.bool_]:
    """Mark items with two or more answers: a single one tells nothing about agreement."""
    return np.asarray((codes >= 0).sum(axis=1) >= 2)


def _two_raters(a: "ArrayLike | pd.Series[Any]", b: "ArrayLike | pd.Series[Any]") -> NDArray[np.object_]:
    """Answers of two raters side by side, ``(n_items, 2)``."""
    first, second = _objects(a), _objects(b)
    if first.shape != second.shape or first.ndim != 1:
        raise InvalidInput(
            f"One answer of each rater per item is needed, shape (n,); got {first.shape} and {second.shape}."
        )
    pairs = np.column_stack([first, second])
    if n_missing := int(pd.isna(pairs).sum()):
        raise InvalidInput(f"No answer may be missing here; got {n_missing} of {pairs.size}.")
    return pairs


def _objects(values: "ArrayLike | pd.DataFrame | pd.Series[Any]") -> NDArray[np.object_]:
    """Convert via objects: otherwise numpy turns a missing answer among words into the word "nan"."""
    is_text = isinstance(values, np.ndarray) and values.dtype.kind in "US"
    if is_text and (n_words := int(np.isin(values, ["nan", "None"]).sum())):
        raise InvalidInput(
            f"{n_words} answers are the word 'nan' or 'None', which numpy makes of a missing "
            "answer among words: give a data frame, a list, or an array of dtype object."
        )
    return np.asarray(values, dtype=object)


def _get_unit_names(groups: "ArrayLike | pd.Series[Any] | None", n_items: int) -> NDArray[np.object_]:
    """Name of the sampling unit of each item, ``(n_items,)``."""
    names = np.asarray(range(n_items) if groups is None else groups, dtype=object)
    if names.shape != (n_items,) or pd.isna(names).any():
        raise InvalidInput(
            f"groups must name one group for each of the {n_items} items; got shape {names.shape} with "
            f"{int(pd.isna(names).sum())} missing."
        )
    return names


_RATINGS = takes(ratings="ratings: answer of each rater for each person")


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Pair of answers that raters gave to the same picture."""

    answers: tuple[Any, Any]  # in the order in which they first appear
    share: Estimate  # of all disagreement, in [0, 1]; n counts pictures with two answers; nan where there is none
    by_chance: float  # the same share if answers went to pictures at random, in [0, 1]


def disagreements(
    ratings: ArrayLike | pd.DataFrame, *, groups: "ArrayLike | pd.Series[Any] | None" = None, confidence: float = 0.95
) -> tuple[Disagreement, ...]:
    """Share of all disagreement between each two answers, the most frequent pair first.

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
        where raters agree everywhere; () where all answers are the same one.

    Raises
    ------
    InvalidInput : for fewer than two items with two answers, or another shape.

    Notes
    -----
    A pair above its chance share is confused more often than the frequencies of both explain.

    Examples
    --------
    >>> pairs = disagreements([["f", "f"], ["f", "a"], ["a", "m"], ["a", "f"], ["m", "m"]])
    >>> [(one.answers, round(one.share.value, 3)) for one in pairs]
    [(('f', 'a'), 0.667), (('a', 'm'), 0.333), (('f', 'm'), 0.0)]
    """
    codes, answers = _coded(ratings)
    pairs = list(combinations(range(len(answers)), 2))
    if not pairs:
        return ()
    several = _has_two_answers(codes)
    counts, (unit, _) = (
        _count_answers(codes[several], len(answers)),
        pd.factorize(_get_unit_names(groups, len(codes))[several]),
    )
    scaled_counts = counts / (counts.sum(axis=1, keepdims=True) - 1)
    parts = np.stack([scaled_counts[:, k] * counts[:, i] for k, i in pairs], axis=1)  # (n_items, n_pairs)
    per_unit: Array = np.stack([np.bincount(unit, weights=column) for column in parts.T], axis=1).astype(float)
    total = float(per_unit.sum())
    frequent = counts.sum(axis=0)
    chances = np.array([frequent[k] * frequent[i] for k, i in pairs])
    of_pairs = [
        Disagreement(
            answers=(answers[k], answers[i]),
            share=_estimate_share(per_unit, place, confidence),
            by_chance=float(chances[place] / chances.sum()),
        )
        for place, (k, i) in enumerate(pairs)
    ]
    return tuple(sorted(of_pairs, key=lambda pair: -pair.share.value if total else 0.0))


def largest_disagreement(ratings: ArrayLike | pd.DataFrame, *, confidence: float = 0.95) -> Estimate:
    """The share of the pair of answers that raters disagree about most, see :func:`disagreements`.

    Its source is the same [krippendorff2011].

    Parameters
    ----------
    ratings : as there.

    Returns
    -------
    Estimate : in (0, 1]: 1 where they disagree about one pair alone. nan, with a note, where they agree everywhere.

    Raises
    ------
    InvalidInput : as there.

    Examples
    --------
    >>> round(largest_disagreement([["f", "f"], ["f", "a"], ["a", "m"], ["a", "f"], ["m", "m"]]).value, 3)
    0.667
    """
    pairs = disagreements(ratings, confidence=confidence)
    return pairs[0].share if pairs else Estimate.undefined(len(np.asarray(ratings, dtype=object)), _NO_DISAGREEMENT)


_NO_DISAGREEMENT = "raters never disagree"


def _estimate_share(per_unit: Array, place: int, confidence: float) -> Estimate:
    of_units = per_unit.sum(axis=1)
    total = float(of_units.sum())
    if not total:
        return Estimate.undefined(len(of_units), _NO_DISAGREEMENT)
    n = total**2 / float(of_units @ of_units)
    share = float(per_unit[:, place].sum()) / total
    estimate = share_interval(share * n, n, confidence=confidence)
    return replace(estimate, value=share, n=len(of_units), note=f"{int((of_units > 0).sum())} had different answers")


def mean_level(shares: ArrayLike) -> Array:
    """Mean of an ordered class, counted 1, 2, ..., k.

    μ = Σ_j j p_j / Σ_j p_j [monk2019]

    Parameters
    ----------
    shares : array (..., k), at least 0: pictures of each class in their order, or their shares.

    Returns
    -------
    array (...) : in [1, k]; nan where there is no picture of any class.

    Raises
    ------
    InvalidInput : for fewer than two classes, values that are negative or not finite, and one set without pictures.

    Notes
    -----
    It counts the steps of a scale as equally long, which no scale promises.

    Examples
    --------
    >>> float(mean_level([1, 2, 1]))
    2.0
    """
    p = _check_shares(shares)
    return _divide_by_total(p @ np.arange(1.0, p.shape[-1] + 1), p)


def end_share(shares: ArrayLike, *, last: int = 3) -> Array:
    """Share of the pictures in the ``last`` classes of the scale; of the first ones where that is negative.

    Σ_{j > k − last} p_j / Σ_j p_j [monk2019]

    Parameters
    ----------
    shares : as :func:`mean_level` takes them.

    Returns
    -------
    array (...) : in [0, 1]; nan where there is no picture of any class.

    Raises
    ------
    InvalidInput : as :func:`mean_level`, and for no or all classes.

    Examples
    --------
    >>> round(float(end_share([4, 3, 2, 1])), 3), round(float(end_share([4, 3, 2, 1], last=-1)), 3)
    (0.6, 0.4)
    """
    p = _check_shares(shares)
    k = p.shape[-1]
    if not 0 < abs(last) < k:
        raise InvalidInput(f"an end of {k} classes has 1 to {k - 1} of them; got {last}.")
    return _divide_by_total((p[..., -last:] if last > 0 else p[..., :-last]).sum(axis=-1), p)


def level_numbers(scale: Scale) -> tuple[tuple[str, str, Callable[[Array], Array], int], ...]:
    """Numbers of a scale: title, key of the measure, the measure, and its range.

    Each takes shares ``(..., k + 1)``; the last are the pictures that cannot be classified.

    Raises InvalidInput: as :func:`mean_level`, when a measure is called.

    >>> from bias_core.people import load_scales
    >>> (mean, _, _, length), *ends = level_numbers(load_scales()["age group"])
    >>> mean, length, [title for title, *_ in ends]
    ('mean', 2, ['youngest: P', 'oldest: P'])
    """

    def apply_to_levels(measure: Callable[..., Array], **options: Any) -> Callable[[Array], Array]:
        return lambda shares: measure(shares[..., :-1], **options)

    return (
        ("mean", "mean_level", apply_to_levels(mean_level), len(scale.levels) - 1),
        (f"{scale.lowest_words}: P", "end_share", apply_to_levels(end_share, last=-scale.ends), 1),
        (f"{scale.highest_words}: P", "end_share", apply_to_levels(end_share, last=scale.ends), 1),
    )


def _check_shares(shares: ArrayLike) -> Array:
    p = np.asarray(shares, dtype=np.float64)
    if not p.ndim or p.shape[-1] < 2 or not p.size:
        raise InvalidInput(f"shares are needed of at least 2 classes; got shape {p.shape}.")
    if not np.isfinite(p).all() or (p < 0).any() or (p.ndim == 1 and not p.any()):
        raise InvalidInput("shares of classes are finite, at least 0, and not all 0.")
    return p


def _divide_by_total(part: Array, p: Array) -> Array:
    total = p.sum(axis=-1)
    return np.asarray(np.divide(part, total, out=np.full(np.shape(part), math.nan), where=total > 0))


_SHARES = "levels: pictures of each class, in the order of the scale"


_LARGEST_BLOCK = 4_000_000  # pairs looked at in one go
_ROUNDING = 1e-12  # scores that differ by less are equal up to rounding


@dataclass(frozen=True, kw_only=True)
class RankAgreement:
    """Result of :func:`kendall_tau`."""

    # in [-1, 1]; 1: the same order; 0: orders that have nothing to do with each other; -1: the reverse. nan with a note
    # where one of the scores is the same for all.
    tau: Estimate

    @property
    def p_value(self) -> float:
        """Two-sided, in (0, 1]; nan where `tau` is."""
        return self.tau.p_value


def kendall_tau(
    a: ArrayLike, b: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 2000, rng: Seed = 0
) -> RankAgreement:
    """Agreement of two scores of the same items on their order.

    τ_b = Σ sgn(a_i - a_j) sgn(b_i - b_j) / √(n_a n_b) over pairs of items, n_a and n_b the numbers
    of pairs that differ in a and in b   [kendall1945]

    Parameters
    ----------
    a, b : arrays (n,). Both scores, item by item; n >= 2.
    n_resamples : int. Of the bootstrap over items and of the permutation test.

    Returns
    -------
    RankAgreement : τ in [-1, 1], null value 0, with the permutation p-value of orders without relation, and from ten
        items on an interval of a bootstrap over items.

    Raises
    ------
    InvalidInput : for fewer than two items, different lengths, or scores that are not finite.

    Notes
    -----
    With ties, as where 8 of 20 pictures are as many as 8 of 20 others, τ_b is below 1 unless both have them. Resamples
    that hold one value only have no τ; they are left out, and the note counts them. The interval excludes 0 only where
    both the permutations and the bootstrap reject it, and p is the larger of their p-values.

    Examples
    --------
    >>> answer = kendall_tau([1, 2, 3, 4, 5], [1, 3, 2, 4, 5])
    >>> answer.tau.value, answer.tau.n
    (0.8, 5)
    """
    first, second = finite_vector(a, "a", min_size=2), finite_vector(b, "b", min_size=2)
    n = same_length(a=first, b=second)
    value = float(_taus(first[np.newaxis], second[np.newaxis])[0])
    if math.isnan(value):
        return RankAgreement(tau=Estimate.undefined(n, "one of the scores is the same for all items", null_value=0.0))
    generator = np.random.default_rng(rng)
    drawn = generator.integers(0, n, size=(n_resamples, n))
    resampled = _taus(first[drawn], second[drawn])
    defined = resampled[np.isfinite(resampled)]
    tau = percentile_estimate(value, defined, n=n, confidence=confidence, null_value=0.0)
    if left_out := n_resamples - defined.size:
        tau = tau.with_note(f"{left_out} of {n_resamples} resamples held one value only and were left out")
    orders = generator.permuted(np.tile(second, (n_resamples, 1)), axis=1)
    extreme = np.abs(_taus(np.broadcast_to(first, orders.shape), orders)) >= abs(value) - 1e-12
    p_value = (1 + int(extreme.sum())) / (1 + n_resamples)
    if math.isnan(tau.low):
        return RankAgreement(tau=replace(tau, p_value=p_value))
    if p_value > 1 - confidence:
        tau = replace(tau, low=min(tau.low, 0.0), high=max(tau.high, 0.0))
    return RankAgreement(tau=replace(tau, p_value=max(p_value, tau.p_value)))


def _taus(a: Array, b: Array) -> Array:
    """τ_b of each row, ``(n_rows,)``; nan where a row of either does not vary."""
    i, j = np.triu_indices(a.shape[1], k=1)
    rows = max(1, _LARGEST_BLOCK // len(i))
    taus: list[Array] = []
    for start in range(0, len(a), rows):
        steps = (x[start : start + rows, i] - x[start : start + rows, j] for x in (a, b))  # (n_rows, n_pairs)
        signs_a, signs_b = (np.sign(step) * (np.abs(step) > _ROUNDING) for step in steps)
        differing = np.abs(signs_a).sum(axis=1) * np.abs(signs_b).sum(axis=1)
        with np.errstate(invalid="ignore"):  # 0/0 where nothing varies
            taus.append((signs_a * signs_b).sum(axis=1) / np.sqrt(differing))
    return np.concatenate(taus)


CARDS = (
    Card(
        function=fleiss_kappa,
        name="Fleiss' κ",
        summary="Agreement of any number of raters beyond chance.",
        tex=r"\kappa = \frac{P - P_e}{1 - P_e}, \quad P_e = \sum_k p_k^2",
        symbols="$P$ is the share of the pairs of answers to one item that are equal, $p_k$ the share of answer $k$ "
        "among all.",
        source="fleiss1971, definition of κ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree. It is a little low: for "
        "random answers its interval excludes 0 in 8 % of cases. Prefer Krippendorff's α.",
    ),
    Card(
        function=cohen_kappa,
        name="Cohen's κ",
        terms=(Term(symbol="κ", words="agreement beyond chance"),),
        summary="Agreement of two raters, or of people and a classifier, beyond chance.",
        tex=r"\kappa = \frac{p_o - p_c}{1 - p_c}, \quad p_c = \sum_k a_k b_k",
        symbols="$p_o$ is the share of equal answers; $a_k$ and $b_k$ are the shares of answer $k$ of each rater.",
        source="cohen1960, Eq. 1",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="they agree more; 0 is chance",
        inputs=takes(a="answers: answers of one rater", b="answers: answers of the other"),
        limits="It does not say who is wrong: look at the confusion table too.",
    ),
    Card(
        function=krippendorff_alpha,
        name="Krippendorff's α",
        terms=(
            Term(symbol="Krippendorff's α", words="agreement of many raters"),
            Term(symbol="Krippendorff’s α", words="agreement of many raters"),
        ),
        summary="Agreement of raters beyond chance, even if some answers are missing.",
        tex=r"\alpha = 1 - \frac{D_o}{D_e}",
        symbols=r"$D_o$ is the mean difference $\delta^2$ of two answers to one item, $D_e$ that of any two answers; "
        r"$\delta^2$ is 1 for different answers, or on a scale the squared difference of their ranks or "
        "values.",
        source="krippendorff2011, definition of α",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree.",
    ),
    Card(
        function=largest_disagreement,
        field="value",
        name="What raters disagree about most",
        summary="Share of all disagreement that falls on the most frequent pair of differing answers.",
        tex=r"\max_{k \ne l} \frac{o_{kl}}{\sum_{i \lt j} o_{ij}}, \quad o_{kl} = \sum_u \frac{n_{uk} n_{ul}}{m_u - 1}",
        symbols="$n_{uk}$ of the $m_u$ answers to picture $u$ are answer $k$.",
        source="krippendorff2011, coincidences of two values",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="raters disagree mostly about one pair of answers",
        inputs=takes(ratings="ratings: answers, a row per picture and a column per rater"),
        limits="Frequent answers meet more often by chance: compare each pair with its chance share. If pairs are "
        "about equally frequent, the largest share is too large.",
    ),
    Card(
        function=mean_level,
        name="Mean on a scale",
        summary="Mean class of the pictures on an ordered scale, such as the ten tones of the Monk scale.",
        tex=r"\mu = \frac{\sum_j j p_j}{\sum_j p_j}",
        symbols="$p_j$ is the number of pictures of class $j$.",
        source="monk2019",
        bounds=(1.0, math.inf),
        null_value=None,
        higher_means="further up the scale: darker, older",
        inputs=takes(shares=_SHARES),
        limits="It treats all steps of the scale as equally long, and different distributions can have the same mean.",
    ),
    Card(
        function=end_share,
        name="Share of an end of a scale",
        summary="Share of the pictures in the last classes of an ordered scale, such as its three darkest tones.",
        tex=r"\frac{\sum_{j > k - l} p_j}{\sum_j p_j}",
        symbols="$p_j$ is the number of pictures of class $j$ of $k$; the end has $l$ classes.",
        source="monk2019",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more pictures at that end of the scale",
        inputs=takes(shares=_SHARES),
        limits="The boundary of an end is a choice.",
    ),
    Card(
        function=kendall_tau,
        field="tau.value",
        name="Kendall's τ",
        summary="Agreement of two scores, such as a machine's and people's, on the order of things.",
        tex=r"\tau_b = \frac{\sum \operatorname{sgn}(a_i - a_j) \operatorname{sgn}(b_i - b_j)}{\sqrt{n_a n_b}}",
        symbols="The sum is over pairs of items; $n_a$ and $n_b$ are the numbers of pairs that differ in $a$ and in "
        "$b$.",
        source="kendall1945, definition of τ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="the orders agree more; 0 is chance",
        inputs=takes(a="similarities: one score of each item", b="similarities: the other score"),
        limits="It compares orders, not sizes, and with few items its interval is wide.",
    ),
)
