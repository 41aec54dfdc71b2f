"""Do raters agree? Kappas and alpha with intervals, and the errors of an automatic reader against people."""

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, Term, takes
from bias_core.stats.arrays import Array
from bias_core.stats.effects import Seed, percentile_estimate
from bias_core.stats.intervals import percent
from bias_core.types import Estimate, ReaderErrors

Codes = np.ndarray[Any, np.dtype[np.int64]]
Coefficient = Literal["fleiss_kappa", "cohen_kappa", "krippendorff_alpha"]
Level = Literal["nominal", "ordinal", "interval"]
Statistic = Callable[[Codes, Codes], Array]
"""Of patterns of answers, ``(n_patterns, n_raters)``, and how many items have each, ``(n_samples, n_patterns)``."""

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
    Of M ratings α = κ + (1 - κ) / M, with Krippendorff's α: answers by lot read -1/(M - 1) on average and not 0, and
    resampled items by about as much less again.

    Examples
    --------
    >>> round(fleiss_kappa([["f", "f", "f"], ["m", "m", "f"], ["m", "m", "m"]]), 4)
    0.55
    """
    return _of_all_items(*_statistic(ratings, "fleiss_kappa", "nominal"))


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
    return _of_all_items(*_statistic(_two_raters(a, b), "cohen_kappa", "nominal"))


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
    return _of_all_items(*_statistic(ratings, "krippendorff_alpha", level))


def agreement_estimate(
    ratings: ArrayLike | pd.DataFrame,
    *,
    coefficient: Coefficient = "krippendorff_alpha",
    level: Level = "nominal",
    groups: "ArrayLike | pd.Series[Any] | None" = None,
    confidence: float = 0.95,
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

    Returns
    -------
    Estimate : ``n`` counts items, or groups where given. nan with a note where all ratings are equal; resamples in
        which they are, are left out, and the note counts them. Where raters agree on every item, no resample differs
        from another, and the interval comes from the share of units in agreement.

    Raises
    ------
    InvalidInput : as the coefficient, and for groups of another length.

    Examples
    --------
    >>> ratings = [["f", "f"], ["m", "m"], ["f", "m"], ["m", "m"], ["f", "f"]]
    >>> estimate = agreement_estimate(ratings, coefficient="cohen_kappa")
    >>> round(estimate.value, 4), estimate.n, estimate.low < estimate.value <= estimate.high
    (0.6154, 5, True)
    """
    codes, statistic = _statistic(ratings, coefficient, level)
    several = _has_two_answers(codes)
    patterns, index = np.unique(codes[several], axis=0, return_inverse=True)
    unit, _ = pd.factorize(_units_of(groups, len(codes))[several])
    per_unit = pd.crosstab(unit, index).to_numpy()  # (n_units, n_patterns)
    value = float(statistic(patterns, per_unit.sum(axis=0, keepdims=True))[0])
    if math.isnan(value):
        return Estimate.undefined(len(per_unit), _ALL_EQUAL)
    # Few kinds of units exist: to resample units is to draw how many there are of each kind.
    kinds, frequency = np.unique(per_unit, axis=0, return_counts=True)
    n = len(per_unit)
    draws = np.random.default_rng(rng).multinomial(n, frequency / n, size=n_resamples) @ kinds
    resampled = statistic(patterns, draws)
    defined = resampled[np.isfinite(resampled)]
    estimate = percentile_estimate(value, defined, n=n, confidence=confidence)
    if math.isnan(estimate.low) and level == "nominal" and math.isclose(value, 1):
        return _of_full_agreement(codes[several], n, confidence)
    if not (left_out := resampled.size - defined.size):
        return estimate
    return estimate.with_note(f"{left_out} of {resampled.size} resamples had all ratings equal and were left out")


def _of_full_agreement(codes: Codes, n: int, confidence: float) -> Estimate:
    """A coefficient of 1, down to what a share of units in agreement that n of n allow would give.

    κ = (p - p_c) / (1 - p_c), p the lower Clopper-Pearson end of n of n, p_c = Σ_k p_k² of the answers.
    """
    from statsmodels.stats.proportion import proportion_confint

    _, n_answers = np.unique(codes[codes >= 0], return_counts=True)
    by_chance = float(((n_answers / n_answers.sum()) ** 2).sum())
    agreed = float(proportion_confint(n, n, alpha=1 - confidence, method="beta")[0])
    return Estimate(
        value=1.0,
        low=max(-1.0, (agreed - by_chance) / (1 - by_chance)),
        high=1.0,
        n=n,
        method=f"Clopper-Pearson {percent(confidence)} of the units in agreement",
        note=f"raters differ on none of {n:,}; the lower end is where agreement on {agreed:.1%} would lie",
    )


def reader_errors_from_labels(
    human: "ArrayLike | pd.Series[Any]",
    automatic: "ArrayLike | pd.Series[Any]",
    *,
    positive: object,
    negative: object | None = None,
) -> ReaderErrors:
    """Sensitivity and specificity of an automatic reader, people's answers taken as the truth.

    Parameters
    ----------
    human, automatic : arrays (n_items,). Answers, item by item, none missing.
    positive : the answer whose prevalence is wanted.
    negative : answer or None. People's answer that means absence. Items with a third answer ("cannot_identify") are
        left out then; when None, any answer but ``positive`` means absence.

    Returns
    -------
    ReaderErrors : for :func:`bias_core.stats.effects.corrected_prevalence`. Any answer of the reader but ``positive``
        is a call of absence.

    Raises
    ------
    InvalidInput : as :func:`cohen_kappa`, and where people saw no item as present or none as absent.

    Examples
    --------
    >>> errors = reader_errors_from_labels(["f", "f", "m", "m"], ["f", "m", "m", "m"], positive="f")
    >>> errors.sensitivity, errors.specificity, errors.n_positive
    (0.5, 1.0, 2)
    """
    pairs = _two_raters(human, automatic)
    present, called = pairs[:, 0] == positive, pairs[:, 1] == positive
    absent = ~present if negative is None else pairs[:, 0] == negative
    if positive == negative or not (present.any() and absent.any()):
        other = "another answer" if negative is None else repr(negative)
        raise InvalidInput(
            f"People must have answered both {positive!r} and {other}; got "
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
        return codes, _of_each(lambda patterns, weights: _alpha(patterns, weights, positions, level))
    codes, _ = _coded(ratings, complete=True)
    if coefficient == "fleiss_kappa":
        return codes, _of_each(_fleiss)
    if coefficient != "cohen_kappa":
        raise InvalidInput(f"No coefficient is called {coefficient!r}.")
    if codes.shape[1] != 2:
        raise InvalidInput(f"Cohen's kappa is for two raters; got {codes.shape[1]}.")
    return codes, _cohen


def _of_each(statistic: Callable[[Codes, Codes], float]) -> Statistic:
    return lambda patterns, samples: np.array([statistic(patterns, weights) for weights in samples])


def _of_all_items(codes: Codes, statistic: Statistic) -> float:
    codes = codes[_has_two_answers(codes)]
    return float(statistic(codes, np.ones((1, len(codes)), dtype=int))[0])


def _counts(codes: Codes, n_answers: int) -> Codes:
    """How often each pattern has each answer, ``(n_patterns, n_answers)``."""
    return np.asarray((codes[:, :, np.newaxis] == np.arange(n_answers)).sum(axis=1))


def _fleiss(codes: Codes, weights: Codes) -> float:
    from statsmodels.stats.inter_rater import fleiss_kappa as of_counts

    counts = np.repeat(_counts(codes, int(codes.max()) + 1), weights, axis=0)
    if np.count_nonzero(counts.sum(axis=0)) == 1:
        return math.nan
    return float(of_counts(counts))


def _cohen(codes: Codes, samples: Codes) -> Array:
    """κ of whole numbers, (n Σ_k t_kk − Σ_k r_k c_k) / (n² − Σ_k r_k c_k), t how often the two gave each pair."""
    k = int(codes.max()) + 1
    cells = np.eye(k * k)[codes[:, 0] * k + codes[:, 1]]  # (n_patterns, k²)
    tables = (samples @ cells).reshape(-1, k, k)
    n = tables.sum(axis=(1, 2))
    by_chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1)
    agreed = n * np.trace(tables, axis1=1, axis2=2)
    above = np.where(by_chance == n * n, math.nan, n * n - by_chance)  # nan: both gave one answer, and the same
    return np.asarray((agreed - by_chance) / above)


def _alpha(codes: Codes, weights: Codes, positions: Array, level: Level) -> float:
    counts = _counts(codes, len(positions))
    scaled = counts * (weights / (counts.sum(axis=1) - 1))[:, np.newaxis]
    coincidences = counts.T @ scaled - np.diag(scaled.sum(axis=0))  # (n_answers, n_answers)
    n_answers = coincidences.sum(axis=0)
    n = n_answers.sum()
    if np.count_nonzero(n_answers > 0) < 2:
        return math.nan
    delta = _differences(positions, n_answers, level)
    observed = (coincidences * delta).sum() / n
    expected = (np.outer(n_answers, n_answers) * delta).sum() / (n * (n - 1))
    return float(1 - observed / expected)


def _differences(positions: Array, n_answers: Array, level: Level) -> Array:
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
    """Which items have two or more answers: a single one tells nothing about agreement."""
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
    """Through objects: otherwise numpy turns a missing answer among words into the word "nan"."""
    is_text = isinstance(values, np.ndarray) and values.dtype.kind in "US"
    if is_text and (n_words := int(np.isin(values, ["nan", "None"]).sum())):
        raise InvalidInput(
            f"{n_words} answers are the word 'nan' or 'None', which numpy makes of a missing "
            "answer among words: give a data frame, a list, or an array of dtype object."
        )
    return np.asarray(values, dtype=object)


def _units_of(groups: "ArrayLike | pd.Series[Any] | None", n_items: int) -> NDArray[np.object_]:
    """Name of the sampling unit of each item, ``(n_items,)``."""
    names = np.asarray(range(n_items) if groups is None else groups, dtype=object)
    if names.shape != (n_items,) or pd.isna(names).any():
        raise InvalidInput(
            f"groups must name one group for each of the {n_items} items; got shape {names.shape} with "
            f"{int(pd.isna(names).sum())} missing."
        )
    return names


_RATINGS = takes(ratings="ratings: answer of each rater for each person")
CARDS = (
    Card(
        function=fleiss_kappa,
        name="Fleiss' κ",
        summary="How far any number of raters agree beyond chance.",
        source="fleiss1971, definition of κ",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree. It reads a little low, so "
        "that of answers by lot its interval excludes 0 in 8 % of the cases: read Krippendorff's α.",
    ),
    Card(
        function=cohen_kappa,
        name="Cohen's κ",
        terms=(Term(symbol="κ", words="agreement beyond chance"),),
        summary="How far two raters, or people and an automatic reader, agree beyond chance.",
        source="cohen1960, Eq. 1",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="they agree more; 0 is chance",
        inputs=takes(a="answers: answers of one rater", b="answers: answers of the other"),
        limits="It does not tell who errs: look at the confusion table too.",
    ),
    Card(
        function=krippendorff_alpha,
        name="Krippendorff's α",
        terms=(
            Term(symbol="Krippendorff's α", words="agreement of many raters"),
            Term(symbol="Krippendorff’s α", words="agreement of many raters"),
        ),
        summary="How far raters agree beyond chance, where not all have rated everything.",
        source="krippendorff2011, definition of α",
        bounds=(-1.0, 1.0),
        null_value=None,
        higher_means="raters agree more; 0 is chance",
        inputs=_RATINGS,
        limits="It falls when nearly all answers are the same, however well raters agree.",
    ),
)
