"""One number in several arms: differences on the units that arms share, and ranks, with their uncertainty.

Findings carry a :class:`~bias_core.studies.kit.types.Sample`, so this is written once for every study. Two
arms on the same seeds are paired by their units; one that shares none (pictures brought along) is resampled
on its own. Every difference is second minus first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from bias_core.metrics.paired_prevalence import PairedTest
from bias_core.stats.intervals import percent
from bias_core.studies.arms.values import N_RESAMPLES, ROUNDING, Values, alike, apart_values, nothing, paired_values
from bias_core.types import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bias_core.studies.kit.types import Sample

    Floats = NDArray[np.float64]
    Places = NDArray[np.int_]

N_SUBSAMPLES = 200
_LARGEST_BLOCK = 2_000_000  # numbers held at once by a resampling loop
_FEWEST_RESAMPLES = N_RESAMPLES // 2
ONE_UNIT = "the arms share one picture only: at least two are needed"


def difference(
    first: Sample, second: Sample, *, depends_on_n: bool = False, confidence: float = 0.95, seed: int = 0
) -> tuple[PairedTest, float, float, bool]:
    """The difference of a number in two arms, with the number of each, and whether their units are shared.

    On shared units by the sample's own test, by McNemar's for a share, by swapping the pictures of a seed for
    another mean, else by a bootstrap over the shared units: value ± t·s, t of n − 1 degrees of freedom.
    Where no unit is shared both arms are resampled on their own; what depends on n is then the average over
    subsamples of the smaller n.

    Returns
    -------
    test : value, interval and p; nan, with a note, where fewer than two units can be compared or none varies.
    first, second : the numbers whose difference it is.
    paired : whether the arms share units.
    """
    rng = np.random.default_rng(seed)
    paired, places = common_places(first, second)
    sizes = [len(at) for at in places]
    if min(sizes) < 2:
        note = ONE_UNIT if paired else "an arm has fewer than two pictures that can be compared"
        return nothing(min(sizes), note), math.nan, math.nan, paired
    if paired and first.test is not None and first.test is second.test:
        test = first.test(first, second, places[0], places[1], confidence, seed)
        one, other = (number(s, at) for s, at in zip((first, second), places, strict=True))
        return test, one, other, paired
    if isinstance(first.data, Values) and isinstance(second.data, Values):
        sides, note = alike(first.data.at(places[0]), second.data.at(places[1]))
        compare = paired_values if paired else apart_values
        test = compare(*sides, confidence, rng)
        if note:
            test = replace(test, estimate=replace(test.estimate, note=note))
        one, other = (float(side.of_mean(side.each.mean())) for side in sides)
        return test, one, other, paired
    n = min(sizes) if depends_on_n else 0
    numbers = [number_at(s, at, n or len(at), rng) for s, at in zip((first, second), places, strict=True)]
    drawn = _resampled((first, second), places, n, rng)
    return _normal_test(numbers, drawn, min(sizes), paired, confidence), numbers[0], numbers[1], paired


def common_places(first: Sample, second: Sample) -> tuple[bool, tuple[Places, Places]]:
    """Whether two arms share units, and the places of those; where they share none, all places of both."""
    places = places_together([first, second])
    return not set(first.units).isdisjoint(second.units), (places[0], places[1])


def number(sample: Sample, places: Places) -> float:
    """The number of some units."""
    return float(sample.statistic(places))


def number_at(sample: Sample, places: Places, n: int, rng: np.random.Generator) -> float:
    """The number at ``n`` of these units: its average over subsamples without replacement."""
    if n >= len(places):
        return number(sample, places)
    subsets = rng.permuted(np.tile(places, (N_SUBSAMPLES, 1)), axis=1)[:, :n]
    values = _numbers(sample, subsets)
    return float(values.mean())


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Where an arm stands among the others: 1 is the largest number.

    Attributes
    ----------
    value : the number that is ranked, at equal numbers of pictures where it depends on them.
    rank, low, high : from 1 to the number of arms; equals share their mean rank. nan where it is undefined.
    n : units behind the number.
    """

    value: float
    rank: float
    low: float
    high: float
    n: int


def ranks(
    samples: Sequence[Sample], *, depends_on_n: bool = False, confidence: float = 0.95, seed: int = 0
) -> tuple[Rank, ...]:
    """Ranks of the arms by one number, with intervals from resampling their units; shared units together."""
    return ranks_of(numbers_together(samples, depends_on_n=depends_on_n, seed=seed), confidence=confidence)


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """One number of every arm, ready to be ranked.

    Attributes
    ----------
    values : ``(n_arms,)``, at equal numbers of pictures where they depend on them.
    n : units behind each.
    drawn : the same of resamples, ``(k, n_arms)``; shared units are resampled together. None of them where a
        value is undefined or an arm has fewer than two units.
    """

    values: Floats
    n: tuple[int, ...]
    drawn: Floats


def numbers_together(samples: Sequence[Sample], *, depends_on_n: bool = False, seed: int = 0) -> Numbers:
    """The number of every arm on what can be compared, and of its resamples."""
    rng = np.random.default_rng(seed)
    places = places_together(samples)
    sizes = [len(at) for at in places]
    n = min(sizes) if depends_on_n else 0
    values = np.array([number_at(s, at, n or len(at), rng) for s, at in zip(samples, places, strict=True)])
    drawn = np.empty((0, len(values)))
    if np.isfinite(values).all() and min(sizes) >= 2:
        drawn = _resampled(samples, places, n, rng)
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
    if depends_on_n and len(drawn):
        # A resample repeats pictures, which moves what depends on their variety; the spread is what counts.
        drawn = values + drawn - drawn.mean(axis=0)
    return Numbers(values=values, n=tuple(n or size for size in sizes), drawn=drawn)


def ranks_of(numbers: Numbers, *, confidence: float = 0.95) -> tuple[Rank, ...]:
    """Ranks of the arms, 1 for the largest number; nan where a number is undefined."""
    values, drawn = numbers.values, numbers.drawn
    observed = low = high = np.full(len(values), math.nan)
    if np.isfinite(values).all() and min(numbers.n) >= 2:
        observed = stats.rankdata(-values.round(12))
    if len(drawn) >= _FEWEST_RESAMPLES:
        resampled = stats.rankdata(-drawn.round(12), axis=1)
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        low, high = np.quantile(resampled, ends, axis=0, method="closest_observation")
    return tuple(
        Rank(
            value=float(values[i]),
            rank=float(observed[i]),
            low=float(np.minimum(low[i], observed[i])),
            high=float(np.maximum(high[i], observed[i])),
            n=numbers.n[i],
        )
        for i in range(len(values))
    )


def places_together(samples: Sequence[Sample]) -> list[Places]:
    """Of every arm the places that are compared: the units that all arms have with which it shares any."""
    found: list[Places] = []
    for sample in samples:
        kin = [other for other in samples if not set(sample.units).isdisjoint(other.units)]
        shared = set(sample.units).intersection(*(other.units for other in kin))
        place = {unit: i for i, unit in enumerate(sample.units)}
        in_order = kin[0].units if kin else ()  # the same for all of them
        found.append(np.array([place[unit] for unit in in_order if unit in shared], dtype=int))
    return found


def _resampled(samples: Sequence[Sample], places: Sequence[Places], n: int, rng: np.random.Generator) -> Floats:
    """The number of every arm in each resample, ``(N_RESAMPLES, n_arms)``; arms with equal units together."""
    drawn: dict[tuple[str, ...], Places] = {}
    columns = []
    for sample, at in zip(samples, places, strict=True):
        units = tuple(sample.units[i] for i in at)
        if units not in drawn:
            drawn[units] = rng.integers(0, len(at), size=(N_RESAMPLES, n or len(at)))
        columns.append(_numbers(sample, at[drawn[units]]))
    return np.stack(columns, axis=1)


def _numbers(sample: Sample, places: Places) -> Floats:
    """The number of each row of ``places (k, m)``; nan where it is undefined."""
    if not sample.vectorised:
        return np.array([number(sample, row) for row in places])
    block = max(1, _LARGEST_BLOCK // places.shape[1])
    parts = [sample.statistic(places[i : i + block]) for i in range(0, len(places), block)]
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


def _normal_test(numbers: Sequence[float], drawn: Floats, n: int, paired: bool, confidence: float) -> PairedTest:
    differences = drawn[:, 1] - drawn[:, 0]
    differences = differences[np.isfinite(differences)]
    value = numbers[1] - numbers[0]
    if math.isnan(value) or len(differences) < _FEWEST_RESAMPLES:
        return nothing(n, "the number is undefined in an arm, or in most resamples of it")
    error = float(differences.std(ddof=1)) * math.sqrt(n / (n - 1))
    if error <= ROUNDING:
        return nothing(n, "every resample gives the same difference, so there is no interval", value)
    reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    how = "shared seeds resampled" if paired else "each arm resampled on its own"
    estimate = Estimate(
        value=value,
        low=value - reach,
        high=value + reach,
        n=n,
        null_value=0.0,
        method=f"bootstrap SE, t, {percent(confidence)}, {how}",
    )
    p_value = float(2 * stats.t.sf(abs(value) / error, n - 1))
    return PairedTest(estimate=estimate, p_value=p_value, test=f"bootstrap t, {how}")
