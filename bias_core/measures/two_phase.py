"""Two-phase sampling: a classifier labels all pictures, people a random part, and people's labels are the truth.

It needs no reader's errors from elsewhere: PPV and FOR are those of this very run.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Seed, finite_vector
from bias_core.measures.intervals import (
    check_confidence,
    effective_freedom,
    mean_interval,
    t_interval,
    tail_share,
    with_value_inside,
)
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import format_percent

N_DRAWS = 4000  # 100 of them lie beyond each end of a 95 % interval
FEWEST_LABELS = 2
_LARGEST_BLOCK = 2_000_000  # numbers held at once
Codes = NDArray[np.int_]
Shares = Callable[..., Any]
"""Function of shares ``(..., n_classes)`` of one or several samples; takes one array per sample."""


@dataclass(frozen=True, kw_only=True)
class TwoPhaseShares:
    """Share of each of people's classes among all pictures."""

    value: Array  # ``(n_classes,)``, adding up to 1
    draws: Array  # ``(n_draws, n_classes)`` of what is known of it
    draws_of_labels: Array  # the same if the classifier's shares were known exactly
    n: int  # pictures (or people in them) that the classifier labelled
    n_labelled: int  # of these, labelled by people
    n_blind: int  # pictures in classes of the classifier without any label by people
    n_raters: int  # people who labelled any


def two_phase_shares(
    reader_labels: ArrayLike,
    people_labels: ArrayLike,
    *,
    n_classes: int = 2,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    rater_weights: Array | None = None,
    rng: Seed = 0,
) -> TwoPhaseShares:
    """Shares of people's classes among all pictures, from a few labels and many classifications.

    π = Σ_k q_k θ_k; of two classes P = q·PPV + (1 − q)·FOR   [tenenbein1970, Eq. 2.3]

    q_k is the share of all pictures that the classifier puts into its class k, and θ_k are the shares that people put
    into each of theirs among the labelled ones of it. Both have their Dirichlet posteriors, of two classes Jeffreys'
    Beta(k + ½, n − k + ½); intervals hold the percentiles of π over draws of them.

    Parameters
    ----------
    reader_labels : array (n,). 1 or 0 for every picture; further numbers are further classes, such as 2
        for "cannot tell", each with a rate of its own.
    people_labels : array (n,) of 0 to ``n_classes`` − 1, nan without a label; or (n, n_raters), a column per rater.
    weights : array (n,) or None. How many pictures a labelled one stands for, where labels were not chosen at random
        within a class of the classifier. Unequal numbers of labels per class need none.
    groups : array (n,) or None. What was sampled, where one picture has several rows.
    rater_weights : array (n_draws, n_raters) or None. From :func:`draw_rater_weights`, where several samples were
        labelled by the same raters: their differences are then the same in all samples.
    rng : seed or Generator.

    Raises
    ------
    InvalidInput : for fewer than two labelled pictures, other lengths, or numbers that are no labels.

    Notes
    -----
    Before any is seen there is one picture in all, spread evenly over the classes [perks1947]: Jeffreys' half of two,
    which of many classes would be many pictures. Dirichlet draws are Gamma draws divided by their sum, and a Gamma
    draw of a count is a sum of that many Exp(1) weights. Rows of one group share their weight, so that two people of
    one picture are not counted as two pictures.

    Several raters: a picture's label is what most of them say, and each draw gives every rater a weight of their own
    (Exp(1), the Bayesian bootstrap of raters [rubin1981]): where raters disagree the label changes from draw to draw,
    for all pictures of a rater together. So the interval is about what most raters of such a pool would say. A single
    rater leaves nothing to resample.

    Examples
    --------
    >>> reader = np.repeat([1, 0], [300, 100])
    >>> people = np.full(400, np.nan)
    >>> people[:30] = np.repeat([1, 0], [24, 6])  # PPV 0.8
    >>> people[300:310] = np.repeat([1, 0], [1, 9])  # FOR 0.1
    >>> two_phase_shares(reader, people).value.round(3)  # present: 0.75 * 0.8 + 0.25 * 0.1
    array([0.375, 0.625])
    """
    generator = np.random.default_rng(rng)
    reader, votes, labelled, weight, group = _check_sample(reader_labels, people_labels, n_classes, weights, groups)
    n_readers = int(reader.max()) + 1
    if rater_weights is None:
        rater_weights = draw_rater_weights(votes.shape[1], generator)
    by_people = _Labelled(
        reader=reader[labelled],
        votes=votes[labelled],
        weight=weight[labelled],
        group=group[labelled],
        n_readers=n_readers,
        n_classes=n_classes,
    )
    reader_shares = _reader_draws(reader, n_readers, group, generator)
    rows, chances = by_people.row_draws(rater_weights, generator)
    hot = np.eye(n_readers)[by_people.reader] * by_people.weight[:, None]  # (m, n_readers)
    n_of = hot.sum(axis=0)[:, None]
    theta = np.where(n_of > 0, hot.T @ chances / np.where(n_of > 0, n_of, 1.0), 1 / n_classes)
    observed = np.bincount(reader, minlength=n_readers) / len(reader)
    return TwoPhaseShares(
        value=observed @ theta,
        draws=np.einsum("bk,bkc->bc", reader_shares, rows),
        draws_of_labels=np.einsum("k,bkc->bc", observed, rows),
        n=len(reader),
        n_labelled=len(labelled),
        n_blind=int((n_of[:, 0] == 0)[reader].sum()),
        n_raters=int((~np.isnan(votes)).any(axis=0).sum()),
    )


def draw_rater_weights(n_raters: int, rng: Seed = 0) -> Array:
    """Weight of each rater in each draw, ``(n_draws, n_raters)``: Exp(1) [rubin1981]."""
    return np.random.default_rng(rng).exponential(size=(N_DRAWS, n_raters))


def two_phase_estimate(
    of: Shares, *samples: TwoPhaseShares, confidence: float = 0.95, null_value: float | None = None
) -> Estimate:
    """Function of the shares of one or several samples (such as a difference), with its interval.

    p is twice the share of the draws beyond the null value, on the side with fewer.

    >>> reader, people = np.tile([1, 0], 50), np.where(np.arange(100) < 40, np.tile([1, 0], 50), np.nan)
    >>> sample = two_phase_shares(reader, people)
    >>> round(two_phase_estimate(lambda a, b: b[..., 1] - a[..., 1], sample, sample).value, 3)
    0.0
    """
    check_confidence(confidence)
    n, n_labelled, n_blind = (
        sum(getattr(sample, name) for sample in samples) for name in ("n", "n_labelled", "n_blind")
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(of(*(sample.value for sample in samples)))
        draws = np.sort(of(*(sample.draws for sample in samples)))  # nan, if any, comes last
    if math.isnan(value) or math.isnan(draws[-1]):
        return Estimate.undefined(n, "people could classify none of the labelled ones", null_value=null_value)
    blind = f"; {n_blind} are in classes of the classifier without any label" if n_blind else ""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail]).tolist()
    estimate = Estimate(
        value=value,
        low=low,
        high=high,
        n=n,
        null_value=null_value,
        method=f"two-phase sampling, Jeffreys {format_percent(confidence)}",
        note=f"{n_labelled} of {n} are labelled by people{blind}",
        p_value=math.nan if null_value is None else min(1.0, 2 * tail_share(draws, null_value, tail)),
    )
    return with_value_inside(estimate, confidence)


def more_labels_needed(
    of: Shares, *samples: TwoPhaseShares, half_width: float = 0.05, confidence: float = 0.95
) -> float:
    """Number of further labels, chosen as the present ones, so that the interval reaches ``half_width`` a side.

    The variance of the draws is v_q + v_m: that of the classifier's shares, which falls only with more pictures, and
    that of people's rates, which falls as 1/m with m labels. m' solves (v_q + v_m·m/m') / (v_q + v_m) = (t/h)², where h
    is half the interval's width now, and t is ``half_width``. Differences between raters count as part of v_m, though
    only more raters, not more labels, reduce them.

    Returns
    -------
    float : a whole number, 0 where the interval is as narrow; inf where labels alone can't do it, because even all
        pictures labelled are too few; nan where the number is undefined.

    Raises InvalidInput: unless ``half_width`` is above 0.
    """
    if not half_width > 0:
        raise InvalidInput(f"half_width must be above 0; got {half_width}.")
    estimate = two_phase_estimate(of, *samples, confidence=confidence)
    if math.isnan(estimate.value):
        return math.nan
    if (reach := (estimate.high - estimate.low) / 2) <= half_width:
        return 0.0
    whole = float(np.var(of(*(sample.draws for sample in samples))))
    of_labels = min(whole, float(np.var(of(*(sample.draws_of_labels for sample in samples)))))
    left = whole * (half_width / reach) ** 2 - (whole - of_labels)
    n, m = sum(sample.n for sample in samples), sum(sample.n_labelled for sample in samples)
    if left <= 0 or m * of_labels / left > n:
        return math.inf
    return float(math.ceil(m * of_labels / left) - m)


def _check_sample(
    reader_labels: ArrayLike, people_labels: ArrayLike, n_classes: int, weights: Any, groups: Any
) -> tuple[Codes, Array, Codes, Array, Codes]:
    """Codes of the classifier's classes, votes ``(n, n_raters)``, labelled places, weights, and codes of groups."""
    reader = finite_vector(reader_labels, "reader_labels")
    votes = np.asarray(people_labels, dtype=float)
    votes = votes[:, None] if votes.ndim == 1 else votes
    if votes.ndim != 2 or len(votes) != len(reader) or not votes.shape[1]:
        raise InvalidInput(f"people_labels need shape (n,) or (n, n_raters) with n = {len(reader)}; got {votes.shape}.")
    votes_of = votes[~np.isnan(votes)]
    if strange := sorted(set(votes_of.tolist()) - set(map(float, range(n_classes)))):
        raise InvalidInput(f"people_labels are 0 to {n_classes - 1}, or nan for no label; got {strange[0]:g}.")
    labelled = np.flatnonzero(~np.isnan(votes).all(axis=1))
    if len(labelled) < FEWEST_LABELS:
        raise InvalidInput(f"at least {FEWEST_LABELS} pictures need a label by people; got {len(labelled)}.")
    weight = np.ones(len(reader)) if weights is None else finite_vector(weights, "weights")
    if len(weight) != len(reader) or not (weight[labelled] > 0).all():
        raise InvalidInput(f"weights are above 0, one for each of {len(reader)}; got {weight.size}, {weight.min():g}.")
    group = np.arange(len(reader)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].ravel()
    if len(group) != len(reader):
        raise InvalidInput(f"groups need one entry for each of {len(reader)}; got {len(group)}.")
    return np.unique(reader, return_inverse=True)[1].ravel(), votes, labelled, weight, group


def _sums(table: Array, rng: np.random.Generator) -> Array:
    """Σ_g w_g of the rows of ``table (n_groups, n)`` with weights Exp(1), ``(n_draws, n)``; equal rows at once."""
    patterns, n_of = np.unique(table, axis=0, return_counts=True)
    return np.asarray(rng.gamma(n_of, size=(N_DRAWS, len(n_of))) @ patterns)


def _table(group: Codes, cell: Codes, weight: Any, n_cells: int) -> Array:
    """Counts of each group in each cell, ``(n_groups, n_cells)``."""
    table = np.zeros((int(group.max(initial=-1)) + 1, n_cells))
    np.add.at(table, (group, cell), weight)
    return table


def _reader_draws(reader: Codes, n_readers: int, group: Codes, rng: np.random.Generator) -> Array:
    """Shares of the classifier's classes ``(n_draws, n_readers)``."""
    drawn = _sums(_table(group, reader, 1.0, n_readers), rng) + rng.gamma(1 / n_readers, size=(N_DRAWS, n_readers))
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class _Labelled:
    """The rows that people labelled."""

    reader: Codes  # ``(m,)``
    votes: Array  # ``(m, n_raters)``
    weight: Array  # ``(m,)``
    group: Codes  # ``(m,)``
    # n_readers, n_classes: classes of the classifier, and of people
    n_readers: int
    n_classes: int

    def row_draws(self, rater_weights: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Rates of people's classes within the classifier's, ``(n_draws, n_readers, n_classes)``, and label chances.

        Chances ``(m, n_classes)``: the share of the draws in which most raters, by their weights, say so.
        """
        votes_of = np.stack([self.votes == c for c in range(self.n_classes)]).astype(float)  # (n_classes, m, n_raters)
        chances = votes_of.any(axis=2).T.astype(float)
        disputed = np.isin(self.group, self.group[chances.sum(axis=1) > 1])  # with all of their group
        clear, n_cells = ~disputed, self.n_readers * self.n_classes
        cell = self.reader * self.n_classes + chances.argmax(axis=1)
        sums = np.zeros((len(rater_weights), n_cells))
        if clear.any():
            sums += _sums(_table(self.group[clear], cell[clear], self.weight[clear], n_cells), rng)
        theta = sums.reshape(-1, self.n_readers, self.n_classes)
        if disputed.any():
            disputed_theta, chances[disputed] = self._disputed_draws(
                np.flatnonzero(disputed), votes_of, rater_weights, rng
            )
            theta = theta + disputed_theta
        in_class = np.eye(self.n_readers)[self.reader]
        n_of = in_class.sum(axis=0)
        scale = np.where(n_of > 0, in_class.T @ self.weight / np.where(n_of > 0, n_of, 1), 1.0)[:, None]
        theta = theta + rng.gamma(1 / self.n_classes, size=theta.shape) * scale
        return theta / theta.sum(axis=-1, keepdims=True), chances

    def _disputed_draws(
        self, rows: Codes, votes_of: Array, rater_weights: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Weighted counts of these rows with labels that vary by draw, and each label's chances."""
        _, group = np.unique(self.group[rows], return_inverse=True)
        in_class, sums = np.eye(self.n_readers)[self.reader[rows]], []
        chances = np.zeros((len(rows), self.n_classes))
        n_blocks = 1 + len(rater_weights) * len(rows) // _LARGEST_BLOCK
        for weights in np.array_split(rater_weights, n_blocks):
            labels = np.argmax([weights @ of_class[rows].T for of_class in votes_of], axis=0)  # (block, rows)
            drawn = rng.exponential(size=(len(weights), int(group.max()) + 1))[:, group] * self.weight[rows]
            is_class = [labels == c for c in range(self.n_classes)]
            sums.append(np.stack([(drawn * mask) @ in_class for mask in is_class], axis=-1))
            chances += np.stack([mask.sum(axis=0) for mask in is_class], axis=-1)
        return np.concatenate(sums), chances / len(rater_weights)


def stratified_mean(
    values: ArrayLike,
    strata: Sequence[Hashable] | None = None,
    *,
    confidence: float = 0.95,
    null_value: float | None = None,
) -> Estimate:
    """A mean with value ± t·SE, SE² = Σ_p V_p, V_p = (n_p / n)² s_p² / n_p; t of :func:`effective_freedom`.

    Parameters
    ----------
    values : array (n,). An entry is one picture, or pair of pictures.
    strata : the prompt of each, or None for one prompt. What sets prompts apart is not chance and widens nothing.

    Returns
    -------
    Estimate : where a prompt has one picture alone, prompts are the units (Student's t over their means), as if they
        too had been drawn. Ends are nan, with a note, where nothing varies.

    Raises InvalidInput: for empty or not finite values, or strata that are not one per value.

    >>> estimate = stratified_mean([0.0, 2.0, 10.0, 12.0], ["a", "a", "b", "b"])
    >>> estimate.value, round(estimate.high - 6, 3)  # SE² = 2 · (1/2)² · 2 / 2 = 1/2, t(2) = 4.303
    (6.0, 3.042)
    """
    check_confidence(confidence)
    numbers = finite_vector(values, "values")
    if strata is None:
        return mean_interval(numbers, confidence=confidence, null_value=null_value)
    if len(strata) != len(numbers):
        raise InvalidInput(f"A prompt is needed for each value; got {len(strata)} for {len(numbers)}.")
    codes = np.unique(np.asarray(strata, dtype=str), return_inverse=True)[1]
    sizes = np.bincount(codes)
    means = np.bincount(codes, weights=numbers) / sizes
    if sizes.min() < 2:
        return mean_interval(means, confidence=confidence, null_value=null_value)
    within = np.bincount(codes, weights=(numbers - means[codes]) ** 2) / (sizes - 1)
    parts = (sizes / len(numbers)) ** 2 * within / sizes
    value, n = float(numbers.mean()), len(numbers)
    if not parts.sum():
        note = "the pictures of each prompt are all alike in this, so there is no interval"
        return Estimate.without_interval(value, n, note, null_value=null_value)
    freedom = effective_freedom(parts, sizes - 1)
    error, method = math.sqrt(parts.sum()), "Student's t, seeds within prompts,"
    return t_interval(value, error, freedom, n=n, confidence=confidence, method=method, null_value=null_value)


Errors = Sequence[ReaderErrors | None] | None


def usable_errors(errors: Errors, k: int) -> list[ReaderErrors | None]:
    """Errors of k attributes, None where Se + Sp <= 1 permits no correction; InvalidInput for another number."""
    if errors is None:
        return [None] * k
    if len(errors) != k:
        raise InvalidInput(f"errors are needed for each of the {k} attributes; got {len(errors)}.")
    return [
        reader_error if reader_error and reader_error.sensitivity + reader_error.specificity > 1 else None
        for reader_error in errors
    ]


def reading_matrix(errors: ReaderErrors | None) -> Array:
    """Probability of each reading (rows: absent, present) given the truth (columns)."""
    if errors is None:
        return np.eye(2)
    se, sp = errors.sensitivity, errors.specificity
    return np.array([[sp, 1 - se], [1 - sp, se]])


def inverse_matrix(errors: ReaderErrors | None) -> Array:
    """Inverse of :func:`reading_matrix`."""
    return np.asarray(np.linalg.inv(reading_matrix(errors)), dtype=np.float64)


def kronecker_product(parts: Sequence[Array]) -> Array:
    """Matrix of all attributes from the matrix of each; the first varies slowest."""
    whole: Array = np.ones((1, 1))
    for part in parts:
        whole = np.asarray(np.kron(whole, part), dtype=np.float64)
    return whole


def error_noise(used: Sequence[ReaderErrors | None], weights: Array, raw: Array) -> Array:
    """Variance of P from the uncertainty of the classifier's errors: ∂P = −W (∂E) P.

    ``weights (m, 2^k)`` make m numbers of the shares of the readings; ``raw (2^k,)`` are the corrected shares.
    """
    steps = _error_steps(tuple(used))
    return np.asarray(sum(((weights @ step @ raw) ** 2 * v for step, v in steps), np.zeros(len(weights))))


@lru_cache(maxsize=16)
def _error_steps(used: tuple[ReaderErrors | None, ...]) -> tuple[tuple[Array, float], ...]:
    """Changes of the matrix of readings with each error rate, and the variance of that rate."""
    steps = []
    for j, reader_error in enumerate(used):
        if reader_error is None:
            continue
        for rate, n, column in (
            (reader_error.specificity, reader_error.n_negative, 0),
            (reader_error.sensitivity, reader_error.n_positive, 1),
        ):
            step = np.zeros((2, 2))
            step[:, column] = (1, -1) if column == 0 else (-1, 1)
            parts = [step if i == j else reading_matrix(second_error) for i, second_error in enumerate(used)]
            steps.append((kronecker_product(parts), rate * (1 - rate) / n))
    return tuple(steps)
