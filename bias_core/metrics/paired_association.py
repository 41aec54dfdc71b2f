"""T2IAT's association of two image sets on the same seeds; the difference is second minus first."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from bias_core.metrics.association import association
from bias_core.metrics.paired_prevalence import PairedTest
from bias_core.stats.arrays import Array, same_length, unit_sets
from bias_core.stats.intervals import check_confidence, percent
from bias_core.types import Estimate

_SETS = ("targets", "attributes_a", "attributes_b")


@dataclass(frozen=True, kw_only=True)
class Neutral:
    """One side of a difference of associations: unguided images, and those guided to A and to B.

    Shapes ``(n, d)``, ``(n_a, d)``, ``(n_b, d)``.
    """

    targets: Array
    attributes_a: Array
    attributes_b: Array


def association_difference_test(first: Neutral, second: Neutral, *, confidence: float = 0.95) -> PairedTest:
    """How much more the second set leans to attribute A than the first, on the same seeds.

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

    Raises
    ------
    InvalidInput : for malformed embeddings, or sizes that differ between first and second.

    Examples
    --------
    >>> east, north = [[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2
    >>> lean = [Neutral(targets=x, attributes_a=east, attributes_b=north) for x in (north, east)]
    >>> association_difference_test(*lean).estimate.value
    2.0
    """
    check_confidence(confidence)
    sides = [_checked(first), _checked(second)]
    for name in _SETS:
        same_length(first=getattr(sides[0], name), second=getattr(sides[1], name))
    before, after = (association(s.targets, s.attributes_a, s.attributes_b) for s in sides)
    centres = [side.targets.mean(axis=0) for side in sides]
    terms = [
        after - before,
        *(getattr(sides[1], name) @ centres[1] - getattr(sides[0], name) @ centres[0] for name in _SETS[1:]),
    ]
    value, n, fewest = float(terms[0].mean()), len(before), min(map(len, terms))
    if fewest < 2:
        nothing = Estimate.undefined(n, "a set with one image has no standard error", null_value=0.0)
        return PairedTest(estimate=replace(nothing, value=value), p_value=math.nan, test="")
    error = math.sqrt(sum(float(term.var(ddof=1)) / len(term) for term in terms))
    reach = float(stats.t.ppf((1 + confidence) / 2, fewest - 1)) * error
    method, low, high = f"Student's t {percent(confidence)}", value - reach, value + reach
    return PairedTest(
        estimate=Estimate(value=value, low=low, high=high, n=n, null_value=0.0, method=method),
        p_value=float(2 * stats.t.sf(abs(value) / error, fewest - 1)) if error > 0 else math.nan,
        test=f"Student's t, {fewest - 1} df",
    )


def _checked(side: Neutral) -> Neutral:
    rows = unit_sets(**{name: getattr(side, name) for name in _SETS})
    return Neutral(**{name: array.astype(np.float64) for name, array in zip(_SETS, rows, strict=True)})
