"""One number in two arms that were watched while their pictures came: shares have intervals, nothing has a p-value."""

import math
from collections.abc import Sequence

import numpy as np

from bias_core.metrics.paired_prevalence import PairedTest, corrected_difference
from bias_core.stats.intervals import percent
from bias_core.stats.sequential import SEQUENCE, confidence_sequence, difference_sequence
from bias_core.studies.arms.statistics import ROUNDING, Floats, Places, Values, nothing, places_together
from bias_core.studies.kit.types import Sample
from bias_core.types import Estimate

_NO_FIXED_N = "no interval: the number of pictures followed from what they show"


def difference_at_any_time(
    first: Sample, second: Sample, *, confidence: float = 0.95
) -> tuple[PairedTest, float, float, bool]:
    """The difference of a number in two arms, with the number of each, and whether their units are shared.

    As :func:`bias_core.studies.arms.statistics.difference` where the number of pictures was fixed beforehand.

    Returns
    -------
    test : value and interval, of shares and other means of values within 1 of each other; the value alone for other
        numbers. p is nan.
    """
    sides = (first, second)
    paired, places = not set(first.units).isdisjoint(second.units), places_together(sides)
    if (least := min(map(len, places))) < 1:
        return nothing(least, "the arms share no picture that can be compared"), math.nan, math.nan, paired
    numbers = [float(side.statistic(at)) for side, at in zip(sides, places, strict=True)]
    return _at_any_time(sides, places, numbers, paired, confidence), numbers[0], numbers[1], paired


def _at_any_time(
    sides: Sequence[Sample], places: Sequence[Places], numbers: Sequence[float], paired: bool, confidence: float
) -> PairedTest:
    """A difference of two means of values that lie within 1 of each other; of other numbers the value alone."""
    n, held = min(map(len, places)), [side.data for side in sides]
    value, x_y = numbers[1] - numbers[0], list[Floats]()
    for data, at in zip(held, places, strict=True):
        if isinstance(data, Values) and data.reference is None:
            x_y.append(data.each[at])
    lowest = min((float(each.min()) for each in x_y), default=0.0)
    x_y = [each - lowest for each in x_y]
    if len(x_y) < 2 or max(float(each.max()) for each in x_y) > 1 + ROUNDING:
        return nothing(n, _NO_FIXED_N, value)
    x, y = (np.clip(each, 0.0, 1.0) for each in x_y)
    if paired:
        gap = difference_sequence(x, y, confidence=confidence)
    else:  # both intervals hold together with this confidence
        each = [confidence_sequence(float(v.sum()), len(v), confidence=(1 + confidence) / 2) for v in (x, y)]
        method = f"{SEQUENCE} {percent(confidence)}, of both arms apart"
        low, high = each[1].low - each[0].high, each[1].high - each[0].low
        gap = Estimate(value=each[1].value - each[0].value, low=low, high=high, n=n, null_value=0.0, method=method)
    errors = held[0].errors
    if errors is not None and errors == held[1].errors:
        gap = corrected_difference(gap, errors, confidence=confidence)
    return PairedTest(estimate=gap, p_value=math.nan, test="")
