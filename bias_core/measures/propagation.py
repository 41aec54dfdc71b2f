"""OASIS: the stereotype propagation index, and the denoising step at which an attribute is seen or decided."""

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from bias_core.errors import InvalidInput
from bias_core.measures.arrays import Array, Floats, finite_array, margins_by_step, probability, unit_rows
from bias_core.measures.cards import Card, Term, takes
from bias_core.measures.intervals import check_confidence, mean_interval
from bias_core.measures.paired_prevalence import prevalence_difference_test
from bias_core.measures.permutation import mean_change_test
from bias_core.measures.sequential import share_interval
from bias_core.types import Estimate, VelocitySpace

_ALIKE = 1e-6  # velocities this close, relative to their size, differ by float32 rounding only


def stereotype_propagation_index(
    velocity: ArrayLike, velocity_positive: ArrayLike, velocity_negative: ArrayLike
) -> float | Array:
    """Movement of the picture towards an attribute in a denoising step.

    SPI(A, t) = cos(v(x_t, prompt), v(x_t, d+) - v(x_t, d-))   [dehdashtian2025oasis, Eq. 11]

    Parameters
    ----------
    velocity : array (c, h, w) or (n, c, h, w). Velocity of the prompt at one x_t, or at n of them (steps, or seeds).
        Flat vectors (d,) and (n, d) will do; so three axes or one are a single velocity, four or two are n.
    velocity_positive, velocity_negative : arrays of the shape of ``velocity``, or with one more axis. Velocities of the
        sentences for presence d+ and absence d- at the same x_t. The extra axis, before the shape of one velocity,
        holds the attributes: (n_attributes, c, h, w) for (c, h, w), and (n, n_attributes, c, h, w) for (n, c, h, w).

    Returns
    -------
    float or array (n,), (n_attributes,) or (n, n_attributes) : in [-1, 1]; 0: the step does neither, positive: the
        attribute is being added, negative: removed.

    Raises
    ------
    InvalidInput : for empty, zero or not finite velocities, shapes that do not fit, and where d+ and d- have the same
        velocity: such sentences point nowhere.

    Notes
    -----
    All three velocities must be of one space and sign: SPI is the same when all three change their sign. The paper
    divides by δA in Eq. 11; its length is meant.

    Examples
    --------
    >>> stereotype_propagation_index([3.0, 4.0], [1.0, 0.0], [0.0, 1.0]).__round__(6)
    -0.141421
    """
    v, positive, negative = (
        finite_array(array, name)
        for array, name in (
            (velocity, "velocity"),
            (velocity_positive, "velocity_positive"),
            (velocity_negative, "velocity_negative"),
        )
    )
    if v.ndim > 4:
        raise InvalidInput(f"velocity must have shape (c, h, w) or (n, c, h, w), or be flat; got shape {v.shape}.")
    n_own = 1 if v.ndim <= 2 else 3  # axes of one velocity: (d,) and (n, d), or (c, h, w) and (n, c, h, w)
    leading, velocity_shape = v.shape[: v.ndim - n_own], v.shape[v.ndim - n_own :]
    attributes = positive.shape[len(leading) : positive.ndim - n_own]
    fits = positive.shape == (*leading, *attributes, *velocity_shape) and len(attributes) <= 1
    if not fits or negative.shape != positive.shape:
        raise InvalidInput(
            "velocity_positive and velocity_negative must both have the shape of velocity, or one more axis "
            f"for attributes; got {positive.shape} and {negative.shape} next to {v.shape}."
        )
    size = math.prod(velocity_shape)
    change = _attribute_changes(positive.reshape(-1, size), negative.reshape(-1, size))
    rows = unit_rows(v.reshape(-1, size), "velocity").reshape(*leading, *[1] * len(attributes), size)
    index = np.einsum("...d,...d->...", rows, change.reshape(*leading, *attributes, size))
    index = np.clip(index, -1.0, 1.0)  # rounding
    return index if np.ndim(index) else float(index)


def predicted_sample(xt: ArrayLike, velocity: ArrayLike, sigma: float, *, space: VelocitySpace = "flow") -> Array:
    """The finished latent that a step's velocity points to, x̂_0.

    flow: x̂_0 = x_t - σ v   [dehdashtian2025oasis, 4.6]

    epsilon: x̂_0 = (x_t - σ ε) / √(1 - σ²)   [ho2020, Eq. 15]

    v_prediction: x̂_0 = √(1 - σ²) x_t - σ v   [salimans2022, Appendix D]

    Parameters
    ----------
    xt : array of any shape
    velocity : array of the shape of ``xt``
    sigma : float in [0, 1]. Standard deviation of the noise in x_t: x_t = (1 - σ) x_0 + σ ε for flow, √(1 - σ²) x_0 + σ
        ε otherwise.
    space : {"flow", "epsilon", "v_prediction"}

    Returns
    -------
    array of the shape of ``xt`` : Unbounded; ``xt`` itself where nothing is left to do (σ = 0).

    Raises
    ------
    InvalidInput : for empty or not finite arrays, different shapes, sigma outside [0, 1], an unknown space, and for
        epsilon at σ = 1, where x_t is noise alone.

    Notes
    -----
    The paper counts time upwards and writes x_t + v·(T - t) [dehdashtian2025oasis, 4.6]: there v points to the picture.
    Here v points to the noise, as models of flow matching predict it, and T - t is σ.

    Examples
    --------
    >>> predicted_sample([1.0, 2.0], [2.0, -2.0], 0.5)
    array([0., 3.])
    """
    x, v = finite_array(xt, "xt"), finite_array(velocity, "velocity")
    if x.shape != v.shape:
        raise InvalidInput(f"xt and velocity must have the same shape; got {x.shape} and {v.shape}.")
    noise = probability(sigma, "sigma")
    signal = math.sqrt(1 - noise**2)
    if space == "flow":
        return x - noise * v
    if space == "v_prediction":
        return signal * x - noise * v
    if space != "epsilon":
        raise InvalidInput(f"space must be one of {', '.join(get_args(VelocitySpace))}; got {space!r}.")
    if signal == 0:
        raise InvalidInput("xt at sigma 1 is noise alone: epsilon tells nothing about the picture there.")
    return (x - noise * v) / signal


def spi_band(curves: ArrayLike, *, confidence: float = 0.95) -> list[Estimate]:
    """Mean SPI over seeds at every step, with its interval.

    mean_i SPI_i(A, t) ± t_{n-1} s(t) / √n, the average of [dehdashtian2025oasis, Fig. 9]

    Parameters
    ----------
    curves : array (n_seeds, n_steps), in [-1, 1]. One curve per seed.
    confidence : float in (0, 1). Of each step on its own, not of all steps together.

    Returns
    -------
    list of n_steps Estimates : in [-1, 1], null value 0 with p, positive: the attribute is being added. With one seed,
        or equal ones, ends and p are nan and ``note`` says so.

    Raises InvalidInput: for an empty array, another number of dimensions, nan, or values outside [-1, 1].

    >>> [round(step.value, 6) for step in spi_band([[0.5, 0.1], [0.3, -0.1]])]
    [0.4, 0.0]
    """
    if (values := finite_array(curves, "curves")).ndim != 2:
        raise InvalidInput(f"curves must have shape (n_seeds, n_steps); got shape {values.shape}.")
    if np.abs(values).max() > 1 + 1e-6:
        raise InvalidInput(f"curves must lie in [-1, 1]; got {values.min():.3f} to {values.max():.3f}.")
    check_confidence(confidence)
    return [_within_one(mean_interval(column, confidence=confidence, null_value=0.0)) for column in values.T]


def _within_one(estimate: Estimate) -> Estimate:
    """Return an estimate whose interval ends at -1 and 1."""
    return replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))


def _attribute_changes(positive: Array, negative: Array) -> Floats:
    """Unit rows of v(d+) - v(d-), (m, size)."""
    largest = np.maximum(_row_sizes(positive, "velocity_positive"), _row_sizes(negative, "velocity_negative"))
    change = positive - negative
    if (same := np.flatnonzero(np.abs(change).max(axis=1) <= _ALIKE * largest)).size:
        raise InvalidInput(
            f"The sentences for presence and absence give equal velocities in {same.size} of {len(change)} "
            f"pairs, the first is pair {same[0]}: they point nowhere. Word them differently."
        )
    return unit_rows(change, "velocity_positive - velocity_negative")


def _row_sizes(rows: Array, name: str) -> Array:
    """Largest absolute entry of each row, none of which may be zero: no model predicts exactly nothing."""
    sizes: Array = np.abs(rows).max(axis=1)
    if not sizes.all():
        raise InvalidInput(f"{name} must not be zero; velocity {int(np.argmin(sizes))} of {len(rows)} is.")
    return sizes


@dataclass(frozen=True, kw_only=True)
class StepsSeen:
    """Step of each seed, and the share of seeds that have reached theirs by the typical step."""

    seed_steps: Array  # (n_seeds,), steps from 1; nan for a seed that has none
    typical: float  # by this step half of the seeds that have one have theirs; nan where none has
    by_typical: Estimate  # share of all seeds that have theirs by the typical step, in [0, 1]; n counts seeds
    n_seen: int  # seeds that have one


def visible_steps(margins: ArrayLike, *, confidence: float = 0.95) -> StepsSeen:
    """Step from which all predicted pictures show an attribute of the finished picture.

    v_i = min{t: m_is > 0 for all s >= t}

    m_it is cos(x̂_t, d+) - cos(x̂_t, d-) of the finished picture x̂_t that step t of seed i predicts
    [dehdashtian2025oasis, 4.6]; that of the last step is the finished picture. From v_i on the classifier says the
    same of each predicted picture as of the finished one. A seed has no v_i if its finished picture does not show it.

    Parameters
    ----------
    margins : array (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2].
    confidence : float in (0, 1).

    Returns
    -------
    StepsSeen : the typical step is the lower median of the v_i; ``by_typical`` is in [0, 1] with its exact interval,
        and is 0 where no finished picture shows the attribute.

    Raises
    ------
    InvalidInput : for empty or not finite margins, and values outside [-2, 2].

    Notes
    -----
    Not in the paper. A tie counts as absent. A classifier may be wrong about one picture, and repeating it does not
    make it right.

    Examples
    --------
    >>> steps = visible_steps([[-0.1, 0.2, 0.3], [0.1, -0.1, 0.1], [0.1, 0.2, -0.1]])
    >>> steps.seed_steps.tolist(), steps.typical
    ([2.0, 3.0, nan], 2.0)
    """
    is_seen = margins_by_step(margins, "margins") > 0
    stays = np.logical_and.accumulate(is_seen[:, ::-1], axis=1)[:, ::-1]
    return _summarise_steps(_find_first_steps(stays), confidence)


def first_seen_steps(margins_base: ArrayLike, margins: ArrayLike, *, confidence: float = 0.95) -> StepsSeen:
    """First step at which a prompt's predicted picture shows an attribute and a base prompt's does not.

    f_i = min{t: m_it > 0 >= b_it}

    m_it is as in :func:`visible_steps`, b_it that of the base prompt, drawn on its own from the same noise. A seed has
    no f_i where the attribute is never seen, or the base prompt shows it whenever the concept's does.

    Parameters
    ----------
    margins_base, margins : arrays (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2]. Entry i of both starts
        from the same noise.
    confidence : float in (0, 1).

    Returns
    -------
    StepsSeen : as of :func:`visible_steps`.

    Raises
    ------
    InvalidInput : for empty or not finite margins, values outside [-2, 2], and different shapes.

    Notes
    -----
    Not in the paper. What is first seen may be lost again: see :func:`visible_steps` for what stays. Predicted pictures
    of early steps are blurred, and a classifier may see absent things in a blur.

    Examples
    --------
    >>> steps = first_seen_steps([[-0.1, -0.2], [0.1, 0.3]], [[-0.1, 0.2], [0.1, 0.3]])
    >>> steps.seed_steps.tolist(), steps.n_seen
    ([2.0, nan], 1)
    """
    base, prompt_margins = margins_by_step(margins_base, "margins_base"), margins_by_step(margins, "margins")
    if base.shape != prompt_margins.shape:
        raise InvalidInput(
            f"margins_base and margins must have the same shape; got {base.shape} and {prompt_margins.shape}."
        )
    return _summarise_steps(_find_first_steps((prompt_margins > 0) & (base <= 0)), confidence)


def _find_first_steps(is_seen: np.ndarray) -> Array:
    """The first true step of each seed, from 1; nan where there is none."""
    return np.where(is_seen.any(axis=1), is_seen.argmax(axis=1) + 1.0, np.nan)


def _summarise_steps(seed_steps: Array, confidence: float) -> StepsSeen:
    steps = np.sort(seed_steps[~np.isnan(seed_steps)])
    typical = float(steps[(len(steps) - 1) // 2]) if len(steps) else float("nan")
    by_typical = share_interval(int((seed_steps <= typical).sum()), len(seed_steps), confidence=confidence)
    return StepsSeen(seed_steps=seed_steps, typical=typical, by_typical=by_typical, n_seen=len(steps))


_LIMITS = "It says what a classifier sees in blurred predictions of few seeds, not which step causes it."


@dataclass(frozen=True, kw_only=True)
class PredictedGain:
    """Shares of predicted pictures that show an attribute, less those of a base prompt."""

    steps: tuple[Estimate, ...]  # of each step, in [-1, 1], null value 0; n counts seeds
    whole: Estimate  # the mean of all steps, in [-1, 1], null value 0: the one test of an attribute
    seed_gains: Array  # (n_seeds, n_steps), -1, 0 or 1: what is seen with the prompt less what is seen with the base


def predicted_gain(margins_base: ArrayLike, margins: ArrayLike, *, confidence: float = 0.95) -> PredictedGain:
    """Share of a step's predicted pictures that show an attribute, less that of a base prompt.

    g_t = (Σ_i 1(m_it > 0) - Σ_i 1(b_it > 0)) / n

    m_it is cos(x̂_t, d+) - cos(x̂_t, d-) of the finished picture x̂_t that step t of seed i predicts
    [dehdashtian2025oasis, 4.6], b_it that of the base prompt, drawn on its own from the same noise.

    Parameters
    ----------
    margins_base, margins : arrays (n_seeds, n_steps), or (n_seeds,) of one step, in [-2, 2]. Entry i of both starts
        from the same noise.
    confidence : float in (0, 1). Of each step on its own, not of all steps together.

    Returns
    -------
    PredictedGain : in [-1, 1]; 0: seen as often as with the base, positive: the concept has brought the attribute.
        The last step's is that of the finished pictures. A tie counts as absent.

    Raises
    ------
    InvalidInput : for empty or not finite margins, values outside [-2, 2], and different shapes.

    Notes
    -----
    Not in the paper: its SPI compares velocities of one latent, see the card. The interval of a step is that of
    :func:`~bias_core.measures.paired_prevalence.prevalence_difference_test`, and that of the mean of all steps
    :func:`~bias_core.measures.permutation.mean_change_test` over seeds, whose steps stay together.

    Examples
    --------
    >>> gain = predicted_gain([[-0.1, -0.2], [-0.1, 0.3]], [[-0.1, 0.2], [0.1, 0.3]])
    >>> [step.value for step in gain.steps], gain.whole.value
    ([0.5, 0.5], 0.5)
    """
    base, prompt_margins = margins_by_step(margins_base, "margins_base"), margins_by_step(margins, "margins")
    if base.shape != prompt_margins.shape:
        raise InvalidInput(
            f"margins_base and margins must have the same shape; got {base.shape} and {prompt_margins.shape}."
        )
    steps = tuple(
        prevalence_difference_test(base_step, prompt_step, confidence=confidence).estimate
        for base_step, prompt_step in zip(base.T, prompt_margins.T, strict=True)
    )
    seed_gains = (prompt_margins > 0).astype(float) - (base > 0)
    whole = mean_change_test(seed_gains.mean(axis=1), confidence=confidence)
    return PredictedGain(steps=steps, whole=whole, seed_gains=seed_gains)


CARDS = (
    Card(
        function=stereotype_propagation_index,
        name="Stereotype propagation index SPI",
        terms=(Term(symbol="SPI", words="stereotype propagation index"),),
        summary="Movement of the picture towards an attribute in one denoising step.",
        tex=r"\text{SPI}(t) = \cos\left( v(x_t, \text{prompt}), v(x_t, d^+) - v(x_t, d^-) \right)",
        symbols="$v$ is the velocity that the model predicts for the noisy picture $x_t$ of step $t$; $d^+$ and "
        "$d^-$ are the sentences for presence and for absence.",
        source="dehdashtian2025oasis, Eq. 11",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="the attribute is being added; negative: removed",
        inputs=takes(
            velocity="velocity: velocity of the prompt at x_t",
            velocity_positive="velocity: velocity of the sentence for presence",
            velocity_negative="velocity: velocity of the sentence for absence",
        ),
        limits="It is a direction, not an amount, and is relative to the wording of both sentences.",
    ),
    Card(
        function=visible_steps,
        field="by_typical.value",
        name="Seeds whose predicted pictures show it to the end",
        summary="First step from which all predicted pictures show an attribute of the finished picture.",
        tex=r"v_i = \min \lbrace t : m_{is} > 0 \text{ for all } s \ge t \rbrace",
        symbols="$m_{is}$ is the margin of the picture that step $s$ of seed $i$ predicts; a margin is the cosine "
        "to the sentence for presence minus that for absence. The number is the share of the seeds with "
        "$v_i$ up to the typical step, the lower median of the $v_i$.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more seeds show it, and keep showing it, by the typical step",
        inputs=takes(margins="similarities: margins of the predicted pictures, the finished one last"),
        limits=_LIMITS,
    ),
    Card(
        function=first_seen_steps,
        field="by_typical.value",
        name="Seeds in which it is seen and the base lacks it",
        summary="First step at which the predicted picture shows an attribute that the base prompt's lacks.",
        tex=r"f_i = \min \lbrace t : m_{it} > 0 \ge b_{it} \rbrace",
        symbols="$m_{it}$ is the margin of the picture that step $t$ of seed $i$ predicts, $b_{it}$ that of the "
        "base prompt from the same noise; a margin is the cosine to the sentence for presence minus that "
        "for absence. The number is the share of the seeds with $f_i$ up to the typical step, the lower "
        "median of the $f_i$.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(0.0, 1.0),
        null_value=None,
        higher_means="more seeds have shown it by the typical step where the base did not",
        inputs=takes(
            margins_base="similarities: margins of the base prompt's predicted pictures",
            margins="similarities: margins of the concept's predicted pictures",
        ),
        limits=_LIMITS,
    ),
    Card(
        function=predicted_gain,
        field="whole.value",
        name="Predicted gain over a base prompt",
        summary="Share of the predicted pictures that show an attribute, minus the same share for a base prompt.",
        tex=r"g_t = \frac{1}{n} \sum_i \left( \mathbf{1}[m_{it} > 0] - \mathbf{1}[b_{it} > 0] \right)",
        symbols="$m_{it}$ is the margin of the picture that step $t$ of seed $i$ predicts, $b_{it}$ that of the "
        "base prompt from the same noise; a margin is the cosine to the sentence for presence minus that "
        "for absence.",
        source="dehdashtian2025oasis, 4.6",
        bounds=(-1.0, 1.0),
        null_value=0.0,
        higher_means="the concept brings the attribute; negative: it takes it away",
        inputs=takes(
            margins_base="similarities: margins of the base prompt's predicted pictures",
            margins="similarities: margins of the concept's predicted pictures",
        ),
        limits="It says what a classifier sees in blurred predictions, against one base prompt, not which step causes "
        "it.",
    ),
)
