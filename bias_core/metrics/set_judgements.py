"""Which of two sets of pictures shows more of something, as raters judge it: how fine they see, and the sets' order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bias_core.errors import InvalidInput
from bias_core.metrics.cards import Card, takes
from bias_core.stats.arrays import Array
from bias_core.stats.intervals import check_confidence, percent
from bias_core.types import Estimate

LEFT, RIGHT, ALIKE = "left", "right", "alike"
_CHOSEN = {LEFT: 0.0, ALIKE: 0.5, RIGHT: 1.0}
_COLUMNS = ("rater", "left", "right", "difference", "choice")
_THREE_IN_FOUR = math.log(3)  # log odds of three in four judgements
_NO_END = "every judgement is as the difference says: the slope has no upper end; ask about smaller differences"
_FLAT = "the judgements do not vary with the difference, or all have the same difference"
_NO_ORDER = "some sets are always, or never, judged to have more than the others: their distance has no end"
_FEW = "one rater has no interval"


@dataclass(frozen=True, kw_only=True)
class SetJudgements:
    """What raters' judgements of pairs of sets say."""

    slope: Estimate  # log odds of choosing the right set per unit of share that it has more; unbounded, null value 0
    side: Estimate  # log odds of choosing the right set where both have the same share; unbounded, null value 0
    threshold: Estimate  # difference of shares that three of four judgements see, > 0; nan where none is shown
    strengths: dict[str, Estimate]  # by set, log odds against the mean of all sets; unbounded, null value 0


def set_judgements(judgements: pd.DataFrame, *, confidence: float = 0.95) -> SetJudgements:
    """How judgements of pairs of sets follow the difference of their shares, and in which order they put the sets.

    logit P(right) = a + b d and, without the shares, logit P(right) = s_right − s_left  [bradley1952]

    d is the share of the right set less that of the left, a is ``side``, b ``slope``, log 3 / b ``threshold`` and s
    ``strengths``, whose mean is 0. "Alike" counts half for each side.

    Parameters
    ----------
    judgements : a row for each, with columns ``rater``, ``left`` and ``right`` (names of the sets), ``difference`` in
        [-1, 1], nan where a share is not known, and ``choice``, one of left, right, alike.

    Returns
    -------
    SetJudgements : intervals are robust to a rater's judgements going together [liang1986], with Student's t of
        n_raters − 1 degrees. An estimate is nan, with a note, where it has no end or nothing varies.

    Raises
    ------
    InvalidInput : for no judgement, a column that lacks, another choice, a difference out of [-1, 1], or a set against
        itself.

    Notes
    -----
    Differences that a reader tells are blurred by its errors, which draws the slope to 0. Pictures' own chance is not
    in the intervals of the slope: d is of the very pictures that raters saw.

    Examples
    --------
    >>> rows = [("r", "a", "b", d, c) for d in (-0.5, 0.5) for c in ("left", "right", "right" if d > 0 else "left")]
    >>> frame = pd.DataFrame(rows, columns=["rater", "left", "right", "difference", "choice"])
    >>> round(set_judgements(frame).slope.value, 3)  # log odds go from -log 2 to log 2: 2 · 0.693
    1.386
    """
    check_confidence(confidence)
    frame = _checked(judgements)
    slope, side = _line(frame[frame["difference"].notna()], confidence)
    return SetJudgements(slope=slope, side=side, threshold=_threshold(slope), strengths=_strengths(frame, confidence))


def _checked(judgements: pd.DataFrame) -> pd.DataFrame:
    if not isinstance(judgements, pd.DataFrame) or not set(_COLUMNS) <= set(judgements):
        raise InvalidInput(f"judgements are a data frame with the columns {', '.join(_COLUMNS)}")
    if judgements.empty:
        raise InvalidInput("there is no judgement of any two sets yet")
    if strange := sorted(set(map(str, judgements["choice"])) - set(_CHOSEN)):
        raise InvalidInput(f"a choice is one of {', '.join(_CHOSEN)}; got {strange[0]!r}")
    differences = judgements["difference"].to_numpy(float)
    if (np.abs(differences[~np.isnan(differences)]) > 1 + 1e-9).any():
        raise InvalidInput(f"differences of shares are in [-1, 1]; got {np.nanmax(np.abs(differences)):g}")
    if (same := judgements["left"] == judgements["right"]).any():
        raise InvalidInput(f"the set {judgements.loc[same, 'left'].iloc[0]!r} is judged against itself")
    return judgements.assign(chosen=judgements["choice"].map(_CHOSEN), difference=differences)


def _line(frame: pd.DataFrame, confidence: float) -> tuple[Estimate, Estimate]:
    """Slope and side."""
    d, chosen = frame["difference"].to_numpy(float), frame["chosen"].to_numpy(float)
    to_right, to_left = d[chosen > 0], d[chosen < 1]
    note = ""
    if not len(to_right) or not len(to_left) or np.ptp(d) == 0:
        note = _FLAT
    elif to_right.min() >= to_left.max() or to_left.min() >= to_right.max():
        note = _NO_END
    if note:
        nothing = Estimate.undefined(len(frame), note, null_value=0.0)
        return nothing, nothing
    values, covariance = _fitted(np.column_stack([np.ones(len(d)), d]), chosen, frame["rater"])
    side, slope = _estimates(values, covariance, frame, confidence)
    return slope, side


def _threshold(slope: Estimate) -> Estimate:
    """The difference that three of four judgements see, with the ends of the slope turned over."""
    if not (slope.value > 0 and slope.low > 0):
        note = slope.note or "no difference is shown to be seen: a slope of 0 is within the interval"
        return Estimate.undefined(slope.n, note)
    value, low, high = (_THREE_IN_FOUR / end for end in (slope.value, slope.high, slope.low))
    return replace(slope, value=value, low=low, high=high, null_value=None)


def _strengths(frame: pd.DataFrame, confidence: float) -> dict[str, Estimate]:
    """Every set against the mean of all."""
    names = sorted({*frame["left"], *frame["right"]})
    place = {name: i for i, name in enumerate(names)}
    left, right = (frame[side].map(place).to_numpy(int) for side in (LEFT, RIGHT))
    chosen, k = frame["chosen"].to_numpy(float), len(names)
    wins = [(np.where(chosen > 0, right, left), np.where(chosen > 0, left, right)), (left, right)]
    winners = np.concatenate([wins[0][0], left[chosen == _CHOSEN[ALIKE]]])
    losers = np.concatenate([wins[0][1], right[chosen == _CHOSEN[ALIKE]]])
    beats = coo_array((np.ones(len(winners)), (winners, losers)), shape=(k, k))
    if connected_components(beats, directed=True, connection="strong", return_labels=False) > 1:
        return {name: Estimate.undefined(len(frame), _NO_ORDER, null_value=0.0) for name in names}
    design = np.eye(k)[right] - np.eye(k)[left]
    centred = np.eye(k)[:, 1:] - 1 / k  # of the strengths against the first set
    values, covariance = _fitted(design[:, 1:], chosen, frame["rater"])
    each = _estimates(centred @ values, centred @ covariance @ centred.T, frame, confidence)
    return dict(zip(names, each, strict=True))


def _fitted(design: Array, chosen: Array, raters: "pd.Series[Any]") -> tuple[Array, Array]:
    """Coefficients of the logistic model and their covariance over raters."""
    from statsmodels.genmod.families import Binomial  # takes a second
    from statsmodels.genmod.generalized_linear_model import GLM

    model = GLM(chosen, design, family=Binomial())
    groups, names = pd.factorize(raters)
    if len(names) < 2:
        return np.asarray(model.fit().params), np.full((design.shape[1],) * 2, math.nan)
    robust = model.fit(cov_type="cluster", cov_kwds={"groups": groups})
    return np.asarray(robust.params), np.asarray(robust.cov_params())


def _estimates(values: Array, covariance: Array, frame: pd.DataFrame, confidence: float) -> Sequence[Estimate]:
    n_raters = frame["rater"].nunique()
    if n_raters < 2:
        nothing = Estimate.undefined(len(frame), _FEW, null_value=0.0)
        return [replace(nothing, value=float(value)) for value in values]
    reach = float(stats.t.ppf((1 + confidence) / 2, n_raters - 1)) * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    method = f"robust over raters {percent(confidence)}"
    return [
        Estimate(value=value, low=value - far, high=value + far, n=len(frame), null_value=0.0, method=method)
        for value, far in zip(values.tolist(), reach.tolist(), strict=True)
    ]


_INPUTS = takes(judgements="judgements: which of two sets has more, by rater, with the difference of their shares")
CARDS = (
    Card(
        function=set_judgements,
        key="judgement_slope",
        name="Slope of judgements",
        summary="How surely raters see which of two sets of pictures has more of something.",
        source="bradley1952",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="raters see smaller differences; 0: they do not see them at all",
        inputs=_INPUTS,
        limits="The differences are as a reader or the record tells them; a reader's errors draw the slope to 0.",
        field="slope.value",
    ),
    Card(
        function=set_judgements,
        key="judgement_side",
        name="Side that raters prefer",
        summary="Whether raters choose the right set more often where both have equally much.",
        source="bradley1952",
        bounds=(-math.inf, math.inf),
        null_value=0.0,
        higher_means="the right set is chosen more often whatever it shows; negative: the left one",
        inputs=_INPUTS,
        limits="It is of the raters and the screen, not of the pictures; sides are drawn by lot.",
        field="side.value",
    ),
)
