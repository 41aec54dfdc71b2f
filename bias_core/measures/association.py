"""T2IAT: association of images with two attributes, its null value, influential prompts, and shared seeds."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import (
    Array,
    Floats,
    Seed,
    check_attributes_differ,
    check_pictures_differ,
    same_dimension,
    same_length,
    unit_rows,
    unit_sets,
)
from bias_core.measures.cards import Card, takes
from bias_core.measures.effects import EffectSizeSD, effect_size
from bias_core.measures.intervals import (
    FEWEST_DRAWN,
    check_confidence,
    effective_freedom,
    mean_interval,
    pair_noise,
    product_noise,
    t_interval,
)
from bias_core.measures.paired_prevalence import PairedTest
from bias_core.measures.permutation import TIE, Alternative, PermutationTest, inverted_test, permutation_test
from bias_core.types import Estimate
from bias_core.wording import format_list


@dataclass(frozen=True, kw_only=True)
class AssociationTest(PermutationTest):
    """Result of :func:`association_test`: the permutation test and its units."""

    score: float  # S, differential association, in [-4, 4]; 0 is no difference; positive: X is closer to A than Y
    effect_size: float  # d of single images; 0 is no difference; nan where the associations do not vary
    effect_size_sd: EffectSizeSD  # standard deviation in the denominator of d, "pooled" or "union"
    # associations_x, associations_y: Eq. 2 per image, `(n_x,)` and `(n_y,)`.
    associations_x: Array
    associations_y: Array
    # units_x, units_y: permuted values with compared means: of images, or of the prompts in alphabetical order
    # where groups were given
    units_x: Array
    units_y: Array
    # n_units_x, n_units_y: sampling units of the test: images, or prompts where groups were given
    n_units_x: int
    n_units_y: int

    @property
    def confidence_interval(self) -> Estimate:
        """The score with its p-value and the interval that inverts the test."""
        return self.estimate


def association(targets: ArrayLike, attributes_a: ArrayLike, attributes_b: ArrayLike) -> Array:
    """Closeness of each target to attribute A less that to attribute B.

    Asc(x, X^A, X^B) = E_a cos(x, a) - E_b cos(x, b)   [wang2023t2iat, Eq. 2]

    Parameters
    ----------
    targets : array (n, d). Embeddings of neutral images.
    attributes_a, attributes_b : arrays (n_a, d), (n_b, d). Embeddings of images of the same concept, edited with words
        of A and of B.

    Returns
    -------
    array (n,) : in [-2, 2]; 0 is no association, positive is closer to A.

    Raises
    ------
    InvalidInput : for empty, zero, not finite or wrongly shaped embeddings, or different dimensions.

    Notes
    -----
    Cosine is similarity, as in the paper's text. The released notebook uses distance: its sign is flipped. The mean
    cosine to a set is one dot product with the mean of its unit rows.

    Examples
    --------
    >>> association([[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0]], [[0.0, 1.0]]).round(6)
    array([ 1. , -0.2])
    """
    return _associations(*_unit_sets(targets, attributes_a, attributes_b))


def mean_association(
    targets: ArrayLike,
    attributes_a: ArrayLike,
    attributes_b: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    attribute_groups: Sequence[ArrayLike] | None = None,
    attributes: Literal["drawn", "fixed"] = "drawn",
    confidence: float = 0.95,
) -> Estimate:
    """Mean of Eq. 2 over the images of one concept, with its interval.

    E_x Asc(x, X^A, X^B), one half of [wang2023t2iat, Eq. 1]

    Parameters
    ----------
    targets, attributes_a, attributes_b : arrays (n, d), (n_a, d), (n_b, d)
    groups : sequence (n,) or None. The prompt of each image; then the prompt is the sampling unit.
    attribute_groups : two sequences, or None. The prompt (of ``groups``) that each image of ``attributes_a,
        attributes_b`` was edited from: then the interval is that of Student's t over prompts, each with all its images.
    attributes : {"drawn", "fixed"}. "drawn": the interval counts the chance in the attribute images too; "fixed": it is
        Student's t over the targets alone, and holds for these attribute images only.

    Returns
    -------
    Estimate : in [-2, 2], null value 0, positive is closer to A. nan ends with a note for a single unit, and where
        attributes are drawn for fewer than eight units or images of a set.

    Raises InvalidInput: as :func:`association`, and for groups of another length.

    >>> mean_association([[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0]], [[0.0, 1.0]]).value.__round__(6)
    0.4
    """
    if attributes not in ("drawn", "fixed"):
        raise InvalidInput(f'attributes must be "drawn" or "fixed"; got {attributes!r}.')
    sets = _unit_sets(targets, attributes_a, attributes_b)
    if attribute_groups is not None:
        return mean_interval(_whole_prompts(sets, groups, attribute_groups), confidence=confidence, null_value=0.0)
    units = _average_units(_associations(*sets), groups, "groups")
    if attributes == "fixed":
        return mean_interval(units, confidence=confidence, null_value=0.0)
    squares, freedoms = _mean_squares(units, sets)
    if min(freedoms) < FEWEST_DRAWN - 1:
        return Estimate.without_interval(
            float(units.mean()), units.size, _TOO_FEW.format(min(freedoms) + 1), null_value=0.0
        )
    error = math.sqrt(sum(squares))
    freedom = effective_freedom(squares, freedoms) if error else 1.0
    return t_interval(float(units.mean()), error, freedom, n=units.size, confidence=confidence, null_value=0.0)


def association_test(
    targets_x: ArrayLike,
    targets_y: ArrayLike,
    x_attributes_a: ArrayLike,
    x_attributes_b: ArrayLike,
    y_attributes_a: ArrayLike,
    y_attributes_b: ArrayLike,
    *,
    groups_x: ArrayLike | None = None,
    groups_y: ArrayLike | None = None,
    attribute_groups: Sequence[ArrayLike] | None = None,
    n_permutations: int = 1000,
    alternative: Alternative = "two-sided",
    effect_size_sd: EffectSizeSD = "pooled",
    confidence: float = 0.95,
    rng: Seed = 0,
) -> AssociationTest:
    """Differential association of two concepts with two attributes, its p-value and effect size.

    S = E_x Asc(x, X^A, X^B) - E_y Asc(y, Y^A, Y^B)   [wang2023t2iat, Eq. 1]
    p = Pr(|S(X~, Y~)| >= |S(X, Y)|) over splits X~, Y~ of X and Y together   [wang2023t2iat, Eq. 3]
    d = (E_x Asc - E_y Asc) / s   [wang2023t2iat, Eq. 4]

    Parameters
    ----------
    targets_x, targets_y : arrays (n_x, d), (n_y, d). Embeddings of the neutral images of each concept.
    x_attributes_a, x_attributes_b, y_attributes_a, y_attributes_b : arrays (n, d). Images of each concept edited with
        words of A and of B; each target meets those of its own concept.
    groups_x, groups_y : sequences (n_x,), (n_y,), or None. The prompt of each image. Images of one prompt are not
        independent, so with groups the unit that is permuted and resampled is the prompt (its mean association). Give
        both or neither.
    attribute_groups : four sequences, or None. The prompt (of ``groups_x`` and ``groups_y``) that each image of
        ``x_attributes_a, x_attributes_b, y_attributes_a, y_attributes_b`` was edited from: then a prompt is permuted
        with all its images.
    n_permutations : int >= 1. The test is exact when there are at most this many splits.
    alternative : {"two-sided", "greater", "less"}. "greater": X is closer to A than Y is.
    effect_size_sd : {"pooled", "union"}. See :func:`bias_core.measures.effects.effect_size`.

    Returns
    -------
    AssociationTest : ``score`` in [-4, 4], 0 is no difference. Swapping X and Y, or A and B, changes the signs of
        ``score`` and ``effect_size`` and leaves a two-sided p unchanged.

    Raises
    ------
    InvalidInput : as :func:`association`; for fewer than two units a side; and when all associations are equal.

    Notes
    -----
    Differs from the paper: extreme means >=, so that p is never 0, and group sizes are kept, equal or not
    (:func:`repooled_permutation_test` is Eq. 3 as printed). The test asks whether X and Y are alike in all: where one
    has half as many units that vary twice as much, p is below 0.05 in 12 % of comparisons of equal means.

    Without ``attribute_groups`` the associations are permuted, and p and the interval hold for these attribute images
    alone: the chance in *their* draw moves all associations of a concept together, and p is below 0.05 in more than 5 %
    of fair comparisons. With them the number of a prompt g of X is E_g Asc(x, X^A, X^B) plus what its edited images
    add, x̄·(a_g - ā) - x̄·(b_g - b̄), weighted by their numbers; the mean of these is the same S, or with groups of
    unequal size the difference of the means over prompts.
    ``effect_size`` is that of single images, as in the paper: averaging each prompt first would inflate it.

    Examples
    --------
    >>> east, north = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> x, y = [[1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4]], [[0.1, 1], [0.2, 1], [0.3, 1], [0.4, 1]]
    >>> test = association_test(x, y, east, north, east, north)
    >>> test.exact, test.n_permutations, test.p_value * 70
    (True, 70, 2.0)
    """
    sets_x = _unit_sets(targets_x, x_attributes_a, x_attributes_b)
    sets_y = _unit_sets(targets_y, y_attributes_a, y_attributes_b)
    associations_x, associations_y = _associations(*sets_x), _associations(*sets_y)
    if attribute_groups is None:
        units_x = _average_units(associations_x, groups_x, "groups_x")
        units_y = _average_units(associations_y, groups_y, "groups_y")
    else:
        if len(attribute_groups) != 4:
            raise InvalidInput(f"attribute_groups needs four sequences; got {len(attribute_groups)}.")
        units_x = _whole_prompts(sets_x, groups_x, attribute_groups[:2])
        units_y = _whole_prompts(sets_y, groups_y, attribute_groups[2:])
    _check_units(units_x, units_y, groups_x, groups_y)
    splits: dict[str, Any] = {"n_permutations": n_permutations, "alternative": alternative, "rng": rng}
    test = permutation_test(units_x, units_y, confidence=confidence, **splits)
    return AssociationTest(
        **vars(test),
        score=test.statistic,
        effect_size=effect_size(associations_x, associations_y, sd=effect_size_sd),
        effect_size_sd=effect_size_sd,
        associations_x=associations_x,
        associations_y=associations_y,
        units_x=units_x,
        units_y=units_y,
        n_units_x=units_x.size,
        n_units_y=units_y.size,
    )


def repooled_permutation_test(
    targets_x: ArrayLike,
    targets_y: ArrayLike,
    x_attributes_a: ArrayLike,
    x_attributes_b: ArrayLike,
    y_attributes_a: ArrayLike,
    y_attributes_b: ArrayLike,
    *,
    groups_x: ArrayLike,
    groups_y: ArrayLike,
    attribute_groups: Sequence[ArrayLike],
    n_permutations: int = 1000,
    rng: Seed = 0,
) -> PermutationTest:
    """Eq. 3 as printed: S of random halves of all prompts, each with its own neutral and edited images.

    p = Pr(|S(X~, Y~, A, B)| > |S(X, Y, A, B)|), X~ and Y~ random halves of X and Y together   [wang2023t2iat, Eq. 3]

    Parameters
    ----------
    targets_x, targets_y, x_attributes_a, x_attributes_b, y_attributes_a, y_attributes_b, groups_x, groups_y,
    attribute_groups : as :func:`association_test` takes them.
    n_permutations : int >= 1. All halves are taken where there are at most this many.

    Returns
    -------
    PermutationTest : ``statistic`` is S over images, in [-4, 4]; ``p_value`` in [0, 1). It is 0 where no half has a
        larger |S|, for equal ones do not count.

    Raises
    ------
    InvalidInput : as :func:`association_test`; and where neutral and edited images come from different prompts.

    Notes
    -----
    The images of a half meet the edited images of that half, so that S of a split is not the difference of numbers
    that stay with their prompts; :func:`association_test` permutes such numbers.

    Examples
    --------
    >>> x, y = [[1, 0.1], [1, 0.3]], [[0.1, 1], [0.3, 1]]
    >>> east, north = [[1, 0], [1, 0.2]], [[0, 1], [0.2, 1]]
    >>> of = {"groups_x": "ab", "groups_y": "cd", "attribute_groups": ["ab", "ab", "cd", "cd"]}
    >>> of = {name: [*map(list, value)] if name == "attribute_groups" else list(value) for name, value in of.items()}
    >>> repooled_permutation_test(x, y, east, north, east, north, **of).p_value
    0.0
    """
    if n_permutations < 1:
        raise InvalidInput(f"n_permutations must be at least 1; got {n_permutations}.")
    if len(attribute_groups) != 4:
        raise InvalidInput(f"attribute_groups needs four sequences; got {len(attribute_groups)}.")
    x, xa, xb = _sum_by_prompt((targets_x, x_attributes_a, x_attributes_b), (groups_x, *attribute_groups[:2]))
    y, ya, yb = _sum_by_prompt((targets_y, y_attributes_a, y_attributes_b), (groups_y, *attribute_groups[2:]))
    n_x, n = len(x), len(x) + len(y)
    if min(n_x, n - n_x) < 2:
        raise InvalidInput(f"A test needs at least two prompts a side; got {n_x} and {n - n_x}.")
    # sums of the unit rows of each prompt; the last column counts the rows
    neutral, a, b = (np.concatenate(pair) for pair in ((x, y), (xa, ya), (xb, yb)))
    along_a, along_b = (neutral[:, :-1] @ edited[:, :-1].T for edited in (a, b))  # (n, n)

    def average_association(chosen: Array) -> Array:
        """E Asc over the images of some prompts, a row of ``chosen`` each, ``(n_splits,)``."""
        similarities = [
            np.einsum("ij,ij->i", chosen @ along, chosen) / (chosen @ neutral[:, -1]) / (chosen @ edited[:, -1])
            for along, edited in ((along_a, a), (along_b, b))
        ]
        return np.asarray(similarities[0] - similarities[1])

    def score(chosen: Array) -> Array:
        return average_association(chosen) - average_association(1 - chosen)

    observed = float(score((np.arange(n) < n_x)[None].astype(float))[0])
    halves, exact = _choose_halves(n, n_permutations, rng)
    return PermutationTest(
        statistic=observed,
        p_value=float((np.abs(score(halves)) > abs(observed) + TIE).mean()),
        n_permutations=len(halves),
        exact=exact,
        smallest_p_value=0.0,
        alternative="two-sided",
        estimate=Estimate.without_interval(observed, n, "Eq. 3 as printed has no interval", null_value=0.0),
    )


def _choose_halves(n: int, n_permutations: int, rng: Seed) -> tuple[Array, bool]:
    """Return all halves of ``n`` units, or random ones where there are more, ``(n_halves, n)``; and if it is all."""
    n_halves = math.comb(n, n // 2)
    if n_halves > n_permutations:
        halves = np.tile((np.arange(n) < n // 2).astype(float), (n_permutations, 1))
        return np.random.default_rng(rng).permuted(halves, axis=1), False
    halves = np.zeros((n_halves, n))
    np.put_along_axis(halves, np.array(list(itertools.combinations(range(n), n // 2))), 1.0, axis=1)
    return halves, True


def _sum_by_prompt(sets: Sequence[ArrayLike], groups: Sequence[ArrayLike]) -> list[Array]:
    """Sums of the unit rows of each prompt, of neutral and of edited images; a last column counts the rows."""
    names = ("targets", "attributes_a", "attributes_b")
    sums, all_prompts = list[Array](), list[NDArray[Any]]()
    for images, labels in zip(unit_sets(**dict(zip(names, sets, strict=True))), groups, strict=True):
        same_length(images=images, groups=np.asarray(labels))
        prompts, places = np.unique(np.asarray(labels), return_inverse=True)
        is_of = (places == np.arange(len(prompts))[:, None]).astype(float)  # (n_prompts, n)
        sums.append(np.column_stack([is_of @ images, is_of.sum(axis=1)]))
        all_prompts.append(prompts)
    for prompts in all_prompts[1:]:
        _check_same_prompts(all_prompts[0], prompts)
    return sums


def _check_same_prompts(prompts: NDArray[Any], of_edited: NDArray[Any]) -> None:
    if not np.array_equal(of_edited, prompts):
        raise InvalidInput(
            f"Neutral and edited images must come from the same prompts; got {_few(prompts)} and {_few(of_edited)}."
        )


def _unit_sets(targets: ArrayLike, attributes_a: ArrayLike, attributes_b: ArrayLike) -> tuple[Floats, Floats, Floats]:
    x, a, b = unit_sets(targets=targets, attributes_a=attributes_a, attributes_b=attributes_b)
    return x, a, b


def _associations(x: Floats, a: Floats, b: Floats) -> Array:
    """Eq. 2 of unit rows: one dot product with the difference of the two mean rows."""
    lean = a.mean(axis=0, dtype=np.float64) - b.mean(axis=0, dtype=np.float64)  # (d,)
    return np.asarray(x @ lean, dtype=np.float64)


def _check_units(units_x: Floats, units_y: Floats, groups_x: ArrayLike | None, groups_y: ArrayLike | None) -> None:
    """Raise InvalidInput unless both sides have the same kind of unit, at least two each."""
    if (groups_x is None) != (groups_y is None):
        raise InvalidInput("groups_x and groups_y: give both or neither; got only one of them.")
    if min(units_x.size, units_y.size) < 2:
        raise InvalidInput(
            f"A test needs at least two images (or prompts, with groups) a side; got {units_x.size} and "
            f"{units_y.size}. With one prompt a side, test single images: leave groups_x and groups_y out."
        )


def _average_units(values: Array, groups: ArrayLike | None, name: str) -> Array:
    """One value per sampling unit: the values themselves, or their mean per group, ``(n_groups,)``."""
    if groups is None:
        return values
    if (labels := np.asarray(groups)).ndim != 1:
        raise InvalidInput(f"{name} must name one prompt per image, shape (n,); got shape {labels.shape}.")
    same_length(**{"images": values, name: labels})
    _, index = np.unique(labels, return_inverse=True)
    return np.asarray(np.bincount(index, weights=values) / np.bincount(index))


_TOO_FEW = f"an interval needs at least {FEWEST_DRAWN} of each set, and there are {{}}"


def _mean_squares(units: Array, sets: tuple[Floats, Floats, Floats]) -> tuple[list[float], list[int]]:
    """Variances of a concept's mean association by targets and by attribute images, and their degrees of freedom.

    The mean is linear in the mean row of each set, so the variances of independent sets add up.
    """
    targets, *attributes = sets
    centre = targets.mean(axis=0)  # (d,)
    samples = [units, *(np.asarray(images @ centre, dtype=np.float64) for images in attributes)]
    freedoms = [sample.size - 1 for sample in samples]
    return [float(np.var(x)) / nu if nu else math.nan for x, nu in zip(samples, freedoms, strict=True)], freedoms


def _whole_prompts(
    sets: tuple[Floats, Floats, Floats], groups: ArrayLike | None, attribute_groups: Sequence[ArrayLike]
) -> Array:
    """Contribution of each prompt, with its edited images, to a concept's mean association, ``(n_prompts,)``.

    Their mean is the mean over prompts of Eq. 2. Edited images count by how far they lie from the mean of
    their set, along the mean of the neutral ones.
    """
    if groups is None or len(attribute_groups) != 2:
        raise InvalidInput(
            "attribute_groups names the prompt of every edited image, set by set; it needs the prompts of "
            "the neutral images too (groups, or groups_x and groups_y)."
        )
    targets, *attributes = sets
    units = _average_units(_associations(*sets), groups, "groups")
    prompts, index = np.unique(np.asarray(groups), return_inverse=True)
    centre = (targets / np.bincount(index)[index, None]).sum(axis=0, dtype=np.float64) / len(prompts)  # (d,)
    for sign, images, group in zip((1, -1), attributes, attribute_groups, strict=True):
        labels = np.asarray(group)
        same_length(**{"edited images": images, "attribute_groups": labels})
        own_prompts, places = np.unique(labels, return_inverse=True)
        _check_same_prompts(prompts, own_prompts)
        along = np.asarray(images @ centre, dtype=np.float64)
        units += sign * np.bincount(places, weights=along - along.mean()) * len(prompts) / len(images)
    return units


def _few(prompts: NDArray[Any]) -> str:
    return f"{len(prompts)} ({format_list([*map(str, prompts)])})"


_OF_ONE_CONCEPT = takes(
    targets="embeddings: neutral images of the concept",
    attributes_a="embeddings: its images edited with attribute A",
    attributes_b="embeddings: its images edited with attribute B",
)
_INPUTS = takes(
    targets_x="embeddings: neutral images of concept X",
    targets_y="embeddings: neutral images of concept Y",
    x_attributes_a="embeddings: images of X edited with attribute A",
    x_attributes_b="embeddings: images of X edited with attribute B",
    y_attributes_a="embeddings: images of Y edited with attribute A",
    y_attributes_b="embeddings: images of Y edited with attribute B",
)


@dataclass(frozen=True, kw_only=True)
class LeaveOneOut:
    """Result of :func:`leave_one_out`; its arrays have an entry per prompt, those of X first."""

    score: float  # S of all prompts, in [-4, 4]
    # prompts, sides: which prompt was left out, and whether it is one of X or of Y
    prompts: tuple[str, ...]
    sides: tuple[str, ...]  # "x" or "y"
    scores: Array  # S without it
    influences: Array  # `score - scores`: what the prompt adds to S; 0 is nothing


def leave_one_out(
    targets_x: ArrayLike,
    targets_y: ArrayLike,
    x_attributes_a: ArrayLike,
    x_attributes_b: ArrayLike,
    y_attributes_a: ArrayLike,
    y_attributes_b: ArrayLike,
    *,
    groups_x: ArrayLike,
    groups_y: ArrayLike,
    attribute_groups: Sequence[ArrayLike],
) -> LeaveOneOut:
    """Differential association without each prompt in turn.

    S_(-g), S of [wang2023t2iat, Eq. 1] without prompt g: without its neutral images and its edits with A and
    with B

    Parameters
    ----------
    targets_x, targets_y, x_attributes_a, x_attributes_b, y_attributes_a, y_attributes_b, groups_x, groups_y,
    attribute_groups : as :func:`association_test` takes them.

    Returns
    -------
    LeaveOneOut : Scores in [-4, 4]; influences in [-8, 8], 0 is none. Where S keeps its sign without each prompt, no
        single one decides it. How sure S is, its interval says, not this.

    Raises
    ------
    InvalidInput : for a concept with a single prompt, groups of another length or of other prompts than the neutral
        images', and as :func:`bias_core.measures.association.association`.

    Notes
    -----
    Not in the paper. Every prompt weighs the same, as in the test; the means of its images do too.

    Examples
    --------
    >>> rows, east, north = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2
    >>> prompts = ["p", "q"]
    >>> found = leave_one_out(rows, rows, east, north, east, north, groups_x=prompts, groups_y=prompts,
    ...                       attribute_groups=[prompts] * 4)
    >>> found.score, found.scores.tolist()
    (0.0, [-1.0, 1.0, 1.0, -1.0])
    """
    if len(attribute_groups) != 4:
        raise InvalidInput(f"attribute_groups needs four sequences; got {len(attribute_groups)}.")
    sets_x = _sum_by_prompt((targets_x, x_attributes_a, x_attributes_b), (groups_x, *attribute_groups[:2]))
    sets_y = _sum_by_prompt((targets_y, y_attributes_a, y_attributes_b), (groups_y, *attribute_groups[2:]))
    (mean_x, without_x), (mean_y, without_y) = _without_each_prompt(sets_x), _without_each_prompt(sets_y)
    prompts_x, prompts_y = (np.unique(np.asarray(groups)).tolist() for groups in (groups_x, groups_y))
    score = mean_x - mean_y
    scores = np.concatenate([without_x - mean_y, mean_x - without_y])
    return LeaveOneOut(
        score=score,
        prompts=(*prompts_x, *prompts_y),
        sides=("x",) * len(prompts_x) + ("y",) * len(prompts_y),
        scores=scores,
        influences=score - scores,
    )


def _without_each_prompt(sets: Sequence[Array]) -> tuple[float, Array]:
    """Mean over prompts of Eq. 2, and that without each of them, ``(n_prompts,)``, from :func:`_sum_by_prompt`."""
    neutral, a, b = sets
    if (n := len(neutral)) < 2:
        raise InvalidInput(f"Leaving a prompt out needs two or more of each concept; got {n}.")
    means = neutral[:, :-1] / neutral[:, -1:]

    def mean(kept: NDArray[np.bool_]) -> float:
        of_a, of_b = a[kept].sum(axis=0), b[kept].sum(axis=0)
        return float((means[kept] @ (of_a[:-1] / of_a[-1] - of_b[:-1] / of_b[-1])).mean())

    return mean(np.ones(n, dtype=bool)), np.array([mean(np.arange(n) != left) for left in range(n)])


def even_mix_association(attributes_a: ArrayLike, attributes_b: ArrayLike) -> float:
    """Mean association that new pictures would have, half of them like those of A and half like those of B.

    (C_A - C_B) / 2, with C_A the mean cosine of two different pictures of A, and C_B likewise: the mean of
    [wang2023t2iat, Eq. 2] over such a mix

    Parameters
    ----------
    attributes_a, attributes_b : arrays (n_a, d), (n_b, d). Embeddings of pictures of one concept, edited with words of
        A and of B; two or more of each.

    Returns
    -------
    float : in [-1, 1]; 0 where pictures of A are as alike as those of B, positive where they are more alike.

    Raises
    ------
    InvalidInput : for empty, zero, not finite or wrongly shaped embeddings, different dimensions, a single picture, and
        pictures of A and B that are all equal.

    Notes
    -----
    Not in the paper, which reads 0 as neutral. Where men are drawn with and without beards, pictures of women are more
    alike, and a concept drawn half and half seems closer to women.

    Examples
    --------
    >>> even_mix_association([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]])
    -0.5
    """
    a, b = _sets(attributes_a, attributes_b)
    return float(_others(a).mean() - _others(b).mean()) / 2


def association_beyond_even_mix(
    targets: ArrayLike, attributes_a: ArrayLike, attributes_b: ArrayLike, *, confidence: float = 0.95
) -> Estimate:
    """Mean association of one concept less that of an even mix of its pictures of A and of B.

    E_x Asc(x, X^A, X^B) - (C_A - C_B) / 2, from [wang2023t2iat, Eq. 2]; see :func:`even_mix_association`

    Parameters
    ----------
    targets, attributes_a, attributes_b : arrays (n, d), (n_a, d), (n_b, d). Neutral pictures, and those edited with
        words of A and of B; two or more of each.

    Returns
    -------
    Estimate : in [-3, 3], null value 0: an even mix; positive: closer to A. The interval is Student's t, with all three
        sets drawn anew; its ``n`` counts targets. nan ends where nothing varies, and for fewer than eight of a set.

    Raises
    ------
    InvalidInput : as :func:`even_mix_association`, and for targets that are all equal.

    Notes
    -----
    A target x has the influence x·(ā - b̄); a picture a of A has a·(x̄ - ā'), ā' the mean of the other pictures of A; one
    of B likewise. The variance is the sum over sets of var(influence) / n, where chance that two factors share counts
    once. What targets vary by along ā - b̄ holds the chance in ā and b̄, so that of A and B, to 0 at least, loses
    :func:`product_noise` with the targets; and of the two places of a in C_A / 2 that chance counts a quarter
    (:func:`pair_noise`). t has the degrees of freedom of Welch [welch1947].

    Examples
    --------
    >>> a, b = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]
    >>> association_beyond_even_mix([*a, *b], a, b).value
    0.25
    """
    check_confidence(confidence)
    a, b = _sets(attributes_a, attributes_b)
    x = unit_rows(targets, "targets", min_rows=2)
    same_dimension(targets=x, attributes_a=a)
    check_pictures_differ(x, "targets")
    centre = x.mean(axis=0, dtype=np.float64)
    along = np.asarray(x @ (a.mean(axis=0, dtype=np.float64) - b.mean(axis=0, dtype=np.float64)))
    beyond, pairs = 0.0, 0.0
    for side in (a, b):
        n, of_pairs = len(side), pair_noise(side)
        influence = float((side @ centre - _others(side)).var(ddof=1)) / n
        beyond += influence - product_noise(x, side) - of_pairs * (n - 2) / (2 * (n - 1))
        pairs += of_pairs / 4
    squares = float(along.var(ddof=1)) / len(x), pairs + max(0.0, beyond)
    value = float(along.mean()) - even_mix_association(a, b)
    if not sum(squares) > 0:
        return Estimate.without_interval(value, len(x), "nothing varies, so there is no interval", null_value=0.0)
    if (min_size := min(len(x), len(a), len(b))) < FEWEST_DRAWN:
        return Estimate.without_interval(value, len(x), _TOO_FEW.format(min_size), null_value=0.0)
    freedom = effective_freedom(squares, (len(x) - 1, min(len(a), len(b)) - 1))
    return t_interval(value, math.sqrt(sum(squares)), freedom, n=len(x), confidence=confidence, null_value=0.0)


def _sets(attributes_a: ArrayLike, attributes_b: ArrayLike) -> tuple[Floats, Floats]:
    a, b = unit_sets(2, attributes_a=attributes_a, attributes_b=attributes_b)
    check_attributes_differ(a, b, "images")
    return a, b


def _others(rows: Floats) -> Array:
    """Mean cosine of each row to the other rows, ``(n,)``."""
    n = len(rows)
    total = rows.sum(axis=0, dtype=np.float64)
    return np.asarray((rows @ total - 1) / (n - 1))  # a unit row has cosine 1 to itself


_SETS = ("targets", "attributes_a", "attributes_b")


@dataclass(frozen=True, kw_only=True)
class Neutral:
    """One side: unguided images ``(n, d)``, and those guided to A, ``(n_a, d)``, and to B, ``(n_b, d)``."""

    targets: Array
    attributes_a: Array
    attributes_b: Array


def association_difference_test(first: Neutral, second: Neutral, *, confidence: float = 0.95) -> PairedTest:
    """Association of the second set with attribute A less that of the first, on the same seeds.

    S = E_i [Asc(x₂ᵢ) - Asc(x₁ᵢ)], each set against guided images of its own   [wang2023t2iat, Eq. 1 and 2].
    S is linear in the mean of each set, so its variance is the sum of the variances of the three means of
    paired terms: of the targets along a - b, and of the guided images of each side along the targets' mean.

    Parameters
    ----------
    first, second : Neutral. Row i of each array of both is of the same seed.

    Returns
    -------
    PairedTest : in [-4, 4], null value 0. Interval and p from Student's t with the degrees of freedom of the smallest
        set; nan where a set has one image.

    Raises InvalidInput: for malformed embeddings, or sizes that differ between first and second.

    >>> east, north = [[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2
    >>> lean = [Neutral(targets=x, attributes_a=east, attributes_b=north) for x in (north, east)]
    >>> association_difference_test(*lean).estimate.value
    2.0
    """
    check_confidence(confidence)
    sides = [_check_neutral(first), _check_neutral(second)]
    for name in _SETS:
        same_length(first=getattr(sides[0], name), second=getattr(sides[1], name))
    before, after = (association(s.targets, s.attributes_a, s.attributes_b) for s in sides)
    centres = [side.targets.mean(axis=0) for side in sides]
    terms = [
        after - before,
        *(getattr(sides[1], name) @ centres[1] - getattr(sides[0], name) @ centres[0] for name in _SETS[1:]),
    ]
    value, n, min_size = float(terms[0].mean()), len(before), min(map(len, terms))
    if min_size < 2:
        no_interval = Estimate.without_interval(value, n, "a set with one image has no standard error", null_value=0.0)
        return PairedTest(estimate=no_interval, test="")
    error = math.sqrt(sum(float(term.var(ddof=1)) / len(term) for term in terms))
    return PairedTest(
        estimate=t_interval(value, error, min_size - 1, n=n, confidence=confidence, null_value=0.0),
        test=f"Student's t, {min_size - 1} df",
    )


def swap_test(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    number: Callable[[Sequence[Array]], Array],
    *,
    paired: bool = True,
    n_resamples: int = 4999,
    confidence: float = 0.95,
    rng: Seed = 0,
) -> Estimate:
    """A number of several sets of pictures, in the second arm less that in the first, with p of swapped pictures.

    Where both arms draw alike, the two pictures of a seed may change places. p is the share of all swaps (random ones
    and the observed order, if more than 12 seeds differ) with a difference as large [fisher1935, § 21]. Pictures that
    both arms share change nothing by a swap, so they are no units of the test.

    Parameters
    ----------
    first, second : the sets of each arm, arrays (n, d), targets first. Paired: row i of both is of the same seed;
        else the pictures of both arms are split at random, set by set.
    number : of the means of the sets, arrays (k, d) each, ``(k,)``; nan where it is undefined.
    n_resamples : int >= 1

    Returns
    -------
    Estimate : null value 0; the interval has the shifts, by as much for each swap, that the test does not reject.
        ``n`` counts targets, in the smaller of two unpaired arms. No interval, with a note, for too few seeds.

    Raises InvalidInput: for sets of another number or dimension in either arm, empty ones, values that are not finite,
        and paired sets of different lengths.

    Raises InvalidInput: for sets of other numbers or dimensions than in the first arm, empty ones, values that are not
        finite, and seeds that are not paired.

    >>> x, y = np.array([[0.0]] * 6), np.arange(1.0, 7.0)[:, None]
    >>> estimate = swap_test([x], [y], lambda means: means[0][:, 0])
    >>> estimate.value, estimate.p_value  # 2 / 2⁶
    (3.5, 0.03125)
    """
    check_confidence(confidence)
    arms = [[np.asarray(rows, dtype=np.float64) for rows in sets] for sets in (first, second)]
    _check_sets(arms, paired=paired)
    n = min(len(sets[0]) for sets in arms)
    pooled, generator = [np.concatenate(pair) for pair in zip(*arms, strict=True)], np.random.default_rng(rng)
    moved, kept = (_swaps if paired else _splits)(arms, n_resamples, generator)
    parts = []
    for start in range(0, len(moved[0]), _BLOCK):
        to_second = [part[start : start + _BLOCK] for part in moved]
        means = [
            [weights @ rows / weights.sum(axis=1, keepdims=True) for weights, rows in zip(side, pooled, strict=True)]
            for side in ([1 - part for part in to_second], to_second)
        ]
        parts.append(number(means[1]) - number(means[0]))
    permuted = np.concatenate(parts)
    value = float(permuted[0])  # the first is the observed order
    if not math.isfinite(value):
        return Estimate.undefined(n, "the number is undefined in an arm", null_value=0.0)
    if not np.nanmax(np.abs(permuted - value)) > TIE:
        return Estimate.without_interval(0.0, n, "no picture differs, so there is no interval", null_value=0.0)
    permuted = np.where(np.isfinite(permuted), permuted, math.inf)  # an undefined one counts as large
    return inverted_test(value, permuted, kept, n=n, confidence=confidence, method="pictures of each seed swapped")


def _check_sets(arms: Sequence[Sequence[Array]], *, paired: bool) -> None:
    shapes = [[rows.shape for rows in sets] for sets in arms]
    alike = [[shape[not paired :] for shape in of_arm] for of_arm in shapes]
    is_malformed = any(len(shape) != 2 or not shape[0] for of_arm in shapes for shape in of_arm)
    if not arms[0] or is_malformed or alike[0] != alike[1]:
        raise InvalidInput(f"both arms need the same sets of pictures, (n, d) each; got the shapes {shapes}.")
    if not all(np.isfinite(rows).all() for sets in arms for rows in sets):
        raise InvalidInput("the pictures of the arms must have finite values.")


_BLOCK = 500  # swaps at a time
_MOST_SWAPPED = 12  # seeds up to which all swaps are counted


def _swaps(arms: Sequence[Sequence[Array]], n_resamples: int, rng: np.random.Generator) -> tuple[list[Array], Array]:
    """Return the pictures of both arms in the second arm after each swap, ``(n_swaps, 2 n)`` for each set.

    The first is the observed order. Also, from 1 to -1, how much of a shift of the second arm each swap keeps.
    """
    differ = [(np.abs(x - y) > TIE).any(axis=1) for x, y in zip(*arms, strict=True)]
    n = int(sum(map(np.sum, differ)))
    if n <= _MOST_SWAPPED:
        swapped = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    else:
        swapped = np.vstack([np.zeros(n), rng.integers(0, 2, size=(n_resamples, n))])
    moved, start = list[Array](), 0
    for changes in differ:
        is_swapped = np.zeros((len(swapped), len(changes)))
        is_swapped[:, changes] = swapped[:, start : start + int(changes.sum())]
        start += int(changes.sum())
        moved.append(np.hstack([is_swapped, 1 - is_swapped]))
    return moved, 1 - 2 * swapped.mean(axis=1) if n else np.ones(1)


def _splits(arms: Sequence[Sequence[Array]], n_resamples: int, rng: np.random.Generator) -> tuple[list[Array], Array]:
    """As :func:`_swaps`, of arms without a common seed: random splits of the pictures of each set."""
    moved, kept = list[Array](), list[Array]()
    for x, y in zip(*arms, strict=True):
        observed = np.repeat([0.0, 1.0], [len(x), len(y)])
        moved.append(np.vstack([observed, rng.permuted(np.tile(observed, (n_resamples, 1)), axis=1)]))
        of_second = moved[-1][:, len(x) :].sum(axis=1)
        kept.append(of_second / len(y) - (len(y) - of_second) / len(x))
    return moved, np.mean(kept, axis=0)


def _check_neutral(side: Neutral) -> Neutral:
    rows = unit_sets(**{name: getattr(side, name) for name in _SETS})
    return Neutral(**{name: array.astype(np.float64) for name, array in zip(_SETS, rows, strict=True)})


CARDS = (
    Card(
        function=association,
        name="Association",
        summary="Closeness of an image to the images of attribute A minus its closeness to those of attribute B.",
        tex=r"\text{Asc}(x, X^A, X^B) = \frac{1}{\lvert X^A \rvert} \sum_{a \in X^A} \cos(x, a) - \frac{1}{\lvert "
        r"X^B \rvert} \sum_{b \in X^B} \cos(x, b)",
        source="wang2023t2iat, Eq. 2",
        bounds=(-2.0, 2.0),
        null_value=0.0,
        higher_means="closer to A",
        inputs=_OF_ONE_CONCEPT,
        limits="It depends on these attribute images and this encoder. An even mix need not give 0 if images of A and "
        "of B vary unequally: prefer the association beyond an even mix.",
    ),
    Card(
        function=association_test,
        key="differential_association",
        field="score",
        name="Differential association S",
        summary="Association of the images of X with attribute A minus that of the images of Y.",
        tex=r"S = \frac{1}{\lvert X \rvert} \sum_{x \in X} \text{Asc}(x, X^A, X^B) - \frac{1}{\lvert Y \rvert} "
        r"\sum_{y \in Y} \text{Asc}(y, Y^A, Y^B)",
        symbols=r"Asc is the association. Its p is the share of the splits of $X$ and $Y$ together into $\tilde X$ "
        r"and $\tilde Y$ of the same sizes with $\lvert S(\tilde X, \tilde Y) \rvert \ge \lvert S(X, Y) "
        r"\rvert$.",
        source="wang2023t2iat, Eq. 1",
        bounds=(-4.0, 4.0),
        null_value=0.0,
        higher_means="X is closer to A than Y is",
        inputs=_INPUTS,
        limits="0 says that X and Y have the same association, not that neither has one. With few prompts p cannot be "
        "small: three against three give 0.10 at best. Without the prompts of the edited images p holds for these "
        "attribute images only.",
    ),
    Card(
        function=association_test,
        key="association_effect_size",
        field="effect_size",
        name="Effect size d",
        summary="Differential association in standard deviations of single images.",
        tex=r"d = \frac{\bar a_X - \bar a_Y}{s}",
        symbols=r"$\bar a_X$ and $\bar a_Y$ are the mean associations of the images of $X$ and of $Y$, $s$ is their "
        "pooled standard deviation.",
        source="wang2023t2iat, Eq. 4",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="X is closer to A than Y is",
        inputs=_INPUTS,
        limits="It grows as images of one prompt look more alike; compare at the same prompts and settings.",
    ),
    Card(
        function=association_beyond_even_mix,
        field="value",
        name="Association beyond an even mix",
        summary="Association of the images with A minus that of an even mix of the images of A and of B.",
        tex=r"\frac{1}{\lvert X \rvert} \sum_{x \in X} \text{Asc}(x, X^A, X^B) - \frac{C_A - C_B}{2}",
        symbols="Asc is the association; $C_A$ is the mean cosine of two different images of A, and $C_B$ that of B.",
        source="wang2023t2iat, Eq. 2, less that of an even mix",
        bounds=(-3.0, 3.0),
        null_value=0.0,
        higher_means="closer to A",
        inputs=_OF_ONE_CONCEPT,
        limits="The even mix consists of these attribute images: it is neutral only if they are edited well.",
    ),
)
