"""Compares the arms of a run: differences and ranks of each number, with tests, intervals, tables and figures.

An arm is one of the settings that a run compares. Findings carry a :class:`~bias_core.study.types.Sample`, so one
comparison serves every study. Arms on the same seeds are paired by their units; an arm that shares none (imported
pictures) is resampled on its own. Every difference is second minus first. :func:`compare_arms` makes the report's
comparison; the helpers before it (tables, marks and ranks over arms) serve the papers' own comparisons.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, compress
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from bias_core.errors import InvalidInput
from bias_core.measures.association import swap_test
from bias_core.measures.intervals import FEWEST_RESAMPLED, independent_difference, t_interval, with_p_through_ends
from bias_core.measures.paired_prevalence import (
    PairedTest,
    corrected_difference,
    corrected_share,
    prevalence_difference_test,
)
from bias_core.measures.permutation import permutation_test, sign_flip_test
from bias_core.measures.sequential import SEQUENCE, confidence_sequence, difference_sequence
from bias_core.report.claims import NO_CLAIM, SAME_TEST, WHY_NOT, decide_claims, decide_findings, family_note, p_words
from bias_core.study.attributes import find_attribute_name
from bias_core.study.study import Study
from bias_core.study.types import (
    ArmReport,
    Claim,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    figure,
    mark,
    or_nan,
    table,
)
from bias_core.types import Estimate, ReaderErrors
from bias_core.wording import format_list, format_number, format_percent

Floats = NDArray[np.float64]
Places = NDArray[np.int_]

N_RESAMPLES = 999
ROUNDING = 1e-12
N_SUBSAMPLES = 200  # of a number that depends on n, to compare arms at equal n
_FEWEST_RESAMPLES = N_RESAMPLES // 2
_LARGEST_BLOCK = 2_000_000  # numbers held at once by a resampling loop
_OTHER_RATES = "no test: the arms are compared with different rates"
_NOTHING_VARIES = "no picture differs, so there is no interval"
_UNCORRECTED = "without correction: the classifier's error rates differ between the arms, or one arm has none"


@dataclass(frozen=True, kw_only=True)
class Values:
    """Values of the units of a number that depends on their mean alone (:meth:`number_from_mean`)."""

    per_unit: Floats  # ``(n,)``
    errors: ReaderErrors | None = None  # error rates of the classifier, if the share is corrected for them
    reference: float | None = None  # P*, for a stereotype score max(0, share − P*)
    rate: float = 0.0  # P*, for a difference share − P*

    def number_from_mean(self, mean: Any) -> Any:
        """Return the number for a mean, or for each of many means."""
        mean = corrected_share(mean, self.errors) - self.rate
        return mean if self.reference is None else np.maximum(0.0, mean - self.reference)


def mean_sample(
    units: Sequence[str],
    values: ArrayLike,
    *,
    errors: ReaderErrors | None = None,
    reference: float | None = None,
    rate: float = 0.0,
    of: str = "seeds",
) -> Sample:
    """Return the sample of a mean or share (corrected for classifier errors, if given), or of a stereotype score.

    ``rate`` is subtracted from the mean. Units with the value nan are left out.

    >>> mean_sample(["0:0", "0:1", "0:2", "0:3"], [1, 0, 1, 1], reference=0.5).statistic(np.arange(4))
    0.25
    """
    numbers = np.asarray(values, dtype=float)
    defined = ~np.isnan(numbers)
    held = Values(per_unit=numbers[defined], errors=errors, reference=reference, rate=rate)

    def statistic(places: Places) -> Any:
        number = held.number_from_mean(held.per_unit[places].mean(axis=-1))
        return float(number) if np.ndim(number) == 0 else number

    return Sample(units=tuple(compress(units, defined)), statistic=statistic, vectorised=True, of=of, data=held)


def counted_sample(units: Sequence[str], of_counts: Callable[[Floats], Floats]) -> Sample:
    """Return the sample of a number that depends on how often each unit is counted.

    ``of_counts`` turns counts ``(k, n_units)`` into numbers ``(k,)``; nan if a number is undefined.

    >>> sample = counted_sample(["0:0", "0:1", "1:0"], lambda times: times @ np.array([1.0, 2.0, 4.0]))
    >>> sample.statistic(np.array([0, 0, 2])), sample.statistic(np.array([[0, 1], [2, 2]]))
    (6.0, array([3., 8.]))
    """
    n = len(units)

    def statistic(places: Places) -> Any:
        draws = np.atleast_2d(places)
        flat = (draws + n * np.arange(len(draws))[:, None]).ravel()
        times = np.bincount(flat, minlength=n * len(draws)).reshape(len(draws), n).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):  # nan for a part that was not drawn
            numbers = of_counts(times)
        return numbers if np.ndim(places) == 2 else float(numbers[0])

    return Sample(units=tuple(units), statistic=statistic, vectorised=True)


@dataclass(frozen=True, kw_only=True)
class SetsOfPictures:
    """Several sets of pictures, ``(n, d)`` each, targets first, and a number of their means."""

    sets: tuple[Floats, ...]
    number: Callable[[Sequence[Floats]], Floats]  # of means ``(k, d)`` of each set, ``(k,)``; nan if undefined

    def at(self, places: Places) -> list[Floats]:
        """Return the pictures at places in all sets, one after the other."""
        ends = np.cumsum([0, *map(len, self.sets)])
        parts = zip(self.sets, ends, ends[1:], strict=False)
        return [rows[places[(places >= start) & (places < end)] - start] for rows, start, end in parts]


def sets_sample(
    units: Sequence[Sequence[str]], sets: Sequence[Floats], number: Callable[[Sequence[Floats]], Floats]
) -> Sample:
    """Return the sample of a number of the means of several sets of pictures, such as a mean association.

    Arms are compared by :func:`bias_core.measures.association.swap_test`: pictures that both arms share are not
    counted as chance.

    Parameters
    ----------
    units : of each set, targets first.
    sets, number : as in :class:`SetsOfPictures`.
    """
    ends = np.cumsum([len(part) for part in units])[:-1]

    def number_from_counts(times: Floats) -> Floats:
        parts = zip(np.split(times, ends, axis=1), sets, strict=True)
        return number([counts @ rows / counts.sum(axis=1, keepdims=True) for counts, rows in parts])

    sample = counted_sample([unit for part in units for unit in part], number_from_counts)
    data = SetsOfPictures(sets=tuple(sets), number=number)
    return replace(sample, data=data, test=_swapped_pairs, apart=_split_apart)


def _swapped_pairs(
    first: Sample, second: Sample, at_first: Places, at_second: Places, confidence: float, seed: int
) -> PairedTest:
    return _compare_sets(first.data, second.data, (at_first, at_second), paired=True, confidence=confidence, rng=seed)


def _split_apart(
    first: Sample, second: Sample, at_first: Places, at_second: Places, confidence: float, seed: int
) -> PairedTest:
    return _compare_sets(first.data, second.data, (at_first, at_second), paired=False, confidence=confidence, rng=seed)


def _compare_sets(
    first: SetsOfPictures, second: SetsOfPictures, places: tuple[Places, Places], *, paired: bool, **options: Any
) -> PairedTest:
    arms = first.at(places[0]), second.at(places[1])
    if not all(len(rows) for sets in arms for rows in sets):
        return nothing(0, "the arms share no picture of one of the sets")
    estimate = swap_test(*arms, first.number, paired=paired, **options)  # the texts are those of both arms
    how_tested = "pictures of each seed swapped at random" if paired else "permutation of the pictures of both arms"
    return PairedTest(estimate=estimate, test="" if math.isnan(estimate.p_value) else how_tested)


def difference(
    first: Sample,
    second: Sample,
    *,
    depends_on_n: bool = False,
    fixed_n: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[PairedTest, float, float, bool]:
    """Return the difference of a number in two arms, the number in each, and True if they share units.

    Shared units: the sample's own test; McNemar's test for a share; random signs for other means; else a bootstrap
    over the shared units (value ± t·s with n − 1 degrees of freedom). No shared unit: each arm is resampled on its own,
    and numbers that depend on n are averages over subsamples of the smaller n. Without ``fixed_n`` the number of
    pictures depended on what they show: means of values within 1 of each other get an interval and a p-value that hold
    at any time, other numbers the value alone.

    Returns
    -------
    test : value, interval and p; nan, with a note, if fewer than two units can be compared or none varies.
    first, second : the number in each arm.
    paired : True if the arms share units.
    """
    rng, sides = np.random.default_rng(seed), (first, second)
    paired, places = not set(first.units).isdisjoint(second.units), places_together(sides)
    smallest_n = min(map(len, places))
    if smallest_n < (2 if fixed_n else 1):
        note = "the arms share one picture only: at least two are needed"
        note = note if paired else "an arm has fewer than two pictures that can be compared"
        note = note if fixed_n else "the arms share no picture that can be compared"
        return nothing(smallest_n, note), math.nan, math.nan, paired
    numbers = [compute_number(side, at, len(at), rng) for side, at in zip(sides, places, strict=True)]
    if not fixed_n:
        test = _compare_at_any_time(sides, places, numbers, paired, confidence)
        return _less_rates(test, first, second, confidence), numbers[0], numbers[1], paired
    own_tests = (first.test, second.test) if paired else (first.apart, second.apart)
    if own_tests[0] is not None and own_tests[0] is own_tests[1]:
        test = own_tests[0](first, second, places[0], places[1], confidence, seed)
    elif isinstance(first.data, Values) and isinstance(second.data, Values):
        held = [replace(side.data, per_unit=side.data.per_unit[at]) for side, at in zip(sides, places, strict=True)]
        note = ""
        if first.data.errors != second.data.errors:
            held = [replace(values, errors=None) for values in held]
            note = _UNCORRECTED
        test = (paired_values if paired else apart_values)(held[0], held[1], confidence, rng)
        test = replace(test, estimate=replace(test.estimate, note=note)) if note else test
        numbers = [float(values.number_from_mean(values.per_unit.mean())) for values in held]
    else:
        n = smallest_n if depends_on_n else 0
        numbers = [compute_number(side, at, n or len(at), rng) for side, at in zip(sides, places, strict=True)]
        test = _normal_test(numbers, _resampled(sides, places, n, rng), smallest_n, paired, confidence)
    return _less_rates(test, first, second, confidence), numbers[0], numbers[1], paired


def have_other_rates(first: Sample, second: Sample) -> bool:
    """Return True if two arms are compared with different P*, so that their numbers do not restate those of P."""
    rates = [(side.data.rate, side.data.reference) for side in (first, second) if isinstance(side.data, Values)]
    return len(set(rates)) > 1


def _less_rates(test: PairedTest, first: Sample, second: Sample, confidence: float) -> PairedTest:
    """Return the test of a difference of shares as that of P − P*, if the arms are compared with different P*.

    The known rates move the interval; its ends then give p, for McNemar's and Fisher's tests are of equal shares.
    """
    if not have_other_rates(first, second):
        return test
    if first.data.reference is not None:
        return PairedTest(estimate=replace(test.estimate, null_value=None, note=_OTHER_RATES), test="")
    moved, gap = first.data.rate - second.data.rate, test.estimate
    gap = replace(gap, value=gap.value + moved, low=gap.low + moved, high=gap.high + moved)
    return PairedTest(estimate=with_p_through_ends(gap, confidence), test="interval of the difference of P")


def _compare_at_any_time(
    sides: Sequence[Sample], places: Sequence[Places], numbers: Sequence[float], paired: bool, confidence: float
) -> PairedTest:
    """Return the difference of two means of values within 1 of each other; for other numbers the value alone."""
    n, held = min(map(len, places)), [side.data for side in sides]
    value, x_y = numbers[1] - numbers[0], list[Floats]()
    for data, at in zip(held, places, strict=True):
        if isinstance(data, Values) and data.reference is None:
            x_y.append(data.per_unit[at])
    lowest = min((float(values.min()) for values in x_y), default=0.0)
    x_y = [values - lowest for values in x_y]
    if len(x_y) < 2 or max(float(values.max()) for values in x_y) > 1 + ROUNDING:
        return nothing(n, _NO_FIXED_N, value)
    x, y = (np.clip(values, 0.0, 1.0) for values in x_y)
    if paired:
        gap = difference_sequence(x, y, confidence=confidence)
    else:  # both intervals hold together with this confidence
        sequences = [confidence_sequence(float(v.sum()), len(v), confidence=(1 + confidence) / 2) for v in (x, y)]
        method = f"{SEQUENCE} {format_percent(confidence)}, each arm separately"
        low, high = sequences[1].low - sequences[0].high, sequences[1].high - sequences[0].low
        gap = Estimate(
            value=sequences[1].value - sequences[0].value, low=low, high=high, n=n, null_value=0.0, method=method
        )
        gap = with_p_through_ends(gap, confidence)
    errors = held[0].errors
    if errors is not None and errors == held[1].errors:
        gap = corrected_difference(gap, errors, confidence=confidence)
    return PairedTest(estimate=gap, test="valid at any time")


def paired_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Compare values paired by seed: McNemar's test for a share, else random signs of the differences."""
    if first.reference is not None:
        return _subtract_scores(first, second)
    if _are_shares(first, second):
        share_test = prevalence_difference_test(first.per_unit - 0.5, second.per_unit - 0.5, confidence=confidence)
        return _correct_test(share_test, first, confidence)
    estimate = sign_flip_test(second.per_unit - first.per_unit, confidence=confidence, rng=rng)
    return PairedTest(estimate=estimate, test="images of each seed swapped at random")


def _subtract_scores(first: Values, second: Values) -> PairedTest:
    """Return the difference of two stereotype scores alone: what may be claimed of it is what P's difference shows."""
    value = float(second.number_from_mean(second.per_unit.mean()) - first.number_from_mean(first.per_unit.mean()))
    return nothing(min(len(first.per_unit), len(second.per_unit)), "tested by the difference of P", value)


def share_test(
    first: Sample, second: Sample, first_places: Places, second_places: Places, confidence: float, _seed: int
) -> PairedTest:
    """Return McNemar's test of two shares, with the difference corrected if the classifier's error rates are known."""
    a, b = first.data, second.data
    test = prevalence_difference_test(
        (a.per_unit[first_places] > 0) - 0.5, (b.per_unit[second_places] > 0) - 0.5, confidence=confidence
    )
    if a.errors == b.errors:
        return _correct_test(test, a, confidence)
    return replace(test, estimate=replace(test.estimate, note=_UNCORRECTED))


def apart_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Compare the values of two arms that share no seed: Fisher's test for a share, else random splits."""
    if first.reference is not None:
        return _subtract_scores(first, second)
    x, y = first.per_unit, second.per_unit
    if _are_shares(first, second):
        return _correct_test(two_shares(x, y, confidence), first, confidence)
    n = min(len(x), len(y))
    try:
        test = permutation_test(y, x, n_permutations=N_RESAMPLES, confidence=confidence, rng=rng)
    except InvalidInput:  # all values are equal
        return nothing(n, _NOTHING_VARIES, float(y.mean() - x.mean()))
    return PairedTest(estimate=replace(test.estimate, n=n), test="permutation of the pictures of both arms")


def _are_shares(*sides: Values) -> bool:
    return all(np.isin(side.per_unit, (0.0, 1.0)).all() for side in sides)


def two_shares(x: ArrayLike, y: ArrayLike, confidence: float) -> PairedTest:
    """Return the share of 1 in ``y`` minus that in ``x``, both of 0 and 1, with Fisher's exact test."""
    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    counts = int(first.sum()), len(first), int(second.sum()), len(second)
    return PairedTest(estimate=independent_difference(*counts, confidence=confidence), test="Fisher, exact")


def _correct_test(test: PairedTest, values: Values, confidence: float) -> PairedTest:
    if values.errors is None:
        return test
    return replace(test, estimate=corrected_difference(test.estimate, values.errors, confidence=confidence))


def nothing(n: int, note: str, value: float = math.nan) -> PairedTest:
    """Return a test without p and interval, and a note why; a known difference is kept."""
    return PairedTest(estimate=Estimate.without_interval(value, n, note, null_value=0.0), test="")


def _normal_test(numbers: Sequence[float], drawn: Floats, n: int, paired: bool, confidence: float) -> PairedTest:
    differences = drawn[:, 1] - drawn[:, 0]
    differences = differences[np.isfinite(differences)]
    value = numbers[1] - numbers[0]
    if math.isnan(value) or len(differences) < _FEWEST_RESAMPLES:
        return nothing(n, "the number is undefined in an arm, or in most resamples of it")
    if n < FEWEST_RESAMPLED:
        return nothing(n, f"fewer than {FEWEST_RESAMPLED} units: too few for a test", value)
    error = float(differences.std(ddof=1)) * math.sqrt(n / (n - 1))
    if error <= ROUNDING:
        return nothing(n, "every resample gives the same difference, so there is no interval", value)
    resampling = "shared seeds resampled" if paired else "each arm resampled on its own"
    estimate = t_interval(value, error, n - 1, n=n, confidence=confidence, method="bootstrap SE, t,", null_value=0.0)
    return PairedTest(
        estimate=replace(estimate, method=f"{estimate.method}, {resampling}"), test=f"bootstrap t, {resampling}"
    )


def compute_number(sample: Sample, places: Places, n: int, rng: np.random.Generator) -> float:
    """Return the number at ``n`` of these units, averaged over subsamples without replacement; nan without units."""
    if not n or not len(places):
        return math.nan
    if n >= len(places):
        return float(sample.statistic(places))
    return float(_calculate(sample, rng.permuted(np.tile(places, (N_SUBSAMPLES, 1)), axis=1)[:, :n]).mean())


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The rank of an arm among the others: 1 is the largest number."""

    value: float  # the ranked number, at equal numbers of pictures if it depends on them
    rank: float  # from 1 to the number of arms; ties share their mean rank; nan if undefined
    low: float
    high: float
    n: int  # units behind the number


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """One number of every arm, ready to be ranked."""

    values: Floats  # ``(n_arms,)``, at equal numbers of pictures if they depend on them
    n: tuple[int, ...]  # units behind each
    # values of resamples, ``(k, n_arms)``; shared units are resampled together. No rows if a value is
    # undefined or an arm has fewer than two units.
    drawn: Floats


def numbers_together(samples: Sequence[Sample], *, depends_on_n: bool = False, seed: int = 0) -> Numbers:
    """Return the number of every arm on comparable units, and on their resamples."""
    rng = np.random.default_rng(seed)
    places = places_together(samples)
    sizes = [len(at) for at in places]
    n = min(sizes) if depends_on_n else 0
    values = np.array([compute_number(s, at, n or len(at), rng) for s, at in zip(samples, places, strict=True)])
    drawn = np.empty((0, len(values)))
    if np.isfinite(values).all() and min(sizes) >= 2:
        drawn = _resampled(samples, places, n, rng)
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
    if depends_on_n and len(drawn):
        # A resample repeats pictures, which shifts numbers that depend on variety; only the spread counts.
        drawn = values + drawn - drawn.mean(axis=0)
    return Numbers(values=values, n=tuple(n or size for size in sizes), drawn=drawn)


def rank_arms(numbers: Numbers, *, confidence: float = 0.95) -> tuple[Rank, ...]:
    """Return the ranks of the arms, 1 for the largest number; nan if a number is undefined."""
    values = numbers.values
    observed = low = high = np.full(len(values), math.nan)
    if np.isfinite(values).all() and min(numbers.n) >= 2:
        observed = scipy.stats.rankdata(-values.round(12))
    if len(numbers.drawn) >= _FEWEST_RESAMPLES and min(numbers.n) >= FEWEST_RESAMPLED:
        resampled = scipy.stats.rankdata(-numbers.drawn.round(12), axis=1)
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        low, high = np.quantile(resampled, ends, axis=0, method="closest_observation")
    lines = zip(values, observed, np.minimum(low, observed), np.maximum(high, observed), numbers.n, strict=True)
    return tuple(
        Rank(value=float(value), rank=float(rank), low=float(lowest), high=float(highest), n=n)
        for value, rank, lowest, highest, n in lines
    )


def places_together(samples: Sequence[Sample]) -> list[Places]:
    """Return, for every arm, the places of the units that it shares with all arms that have any of them."""
    places: list[Places] = []
    for sample in samples:
        kin = [arm_sample for arm_sample in samples if not set(sample.units).isdisjoint(arm_sample.units)]
        shared = set(sample.units).intersection(*(arm_sample.units for arm_sample in kin))
        place = {unit: i for i, unit in enumerate(sample.units)}
        in_order = kin[0].units if kin else ()  # the same for all of them
        places.append(np.array([place[unit] for unit in in_order if unit in shared], dtype=int))
    return places


def _resampled(samples: Sequence[Sample], places: Sequence[Places], n: int, rng: np.random.Generator) -> Floats:
    """Return the number of every arm in each resample, ``(N_RESAMPLES, n_arms)``; equal units are drawn together."""
    drawn: dict[tuple[str, ...], Places] = {}
    columns = []
    for sample, at in zip(samples, places, strict=True):
        units = tuple(sample.units[i] for i in at)
        if units not in drawn:
            drawn[units] = rng.integers(0, len(at), size=(N_RESAMPLES, n or len(at)))
        columns.append(_calculate(sample, at[drawn[units]]))
    return np.stack(columns, axis=1)


def _calculate(sample: Sample, places: Places) -> Floats:
    """Return the number of each row of ``places (k, m)``; nan if undefined."""
    if not sample.vectorised:
        return np.array([float(sample.statistic(row)) for row in places])
    block = max(1, _LARGEST_BLOCK // places.shape[1])
    parts = [sample.statistic(places[i : i + block]) for i in range(0, len(places), block)]
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


ARM = "arm"


def find_finding(arm: ArmReport, key: str) -> Finding | None:
    """Return the finding of an arm with this key, or None."""
    return next((finding for finding in arm.results.findings if finding.key == key), None)


def collect_numbers(arms: Sequence[ArmReport], keys: Sequence[str], settings: StudySettings) -> Numbers | None:
    """Return a number of every arm, ready to be ranked; ``keys`` has the key of each arm's finding.

    None if an arm has no such finding, or none that can be compared.
    """
    findings = [find_finding(arm, key) for arm, key in zip(arms, keys, strict=True)]
    samples = [finding.sample for finding in findings if finding is not None and finding.sample is not None]
    if len(samples) < len(arms) or findings[0] is None:
        return None
    return numbers_together(samples, depends_on_n=findings[0].depends_on_n, seed=settings.seed)


def ranks_over_arms(arms: Sequence[ArmReport], key: str, settings: StudySettings) -> list[dict[str, float]]:
    """Return the rank of every arm by a finding, as columns of a table; no columns if it has no sample."""
    numbers = collect_numbers(arms, [key] * len(arms), settings)
    ranks = rank_arms(numbers, confidence=settings.confidence) if numbers else ()
    return [rank_columns(rank) for rank in ranks] or [{} for _ in arms]


def rank_columns(rank: Rank) -> dict[str, float]:
    """Return a rank and its interval, as columns of a table."""
    return {"rank": rank.rank, "rank low": rank.low, "rank high": rank.high}


def table_over_arms(
    arms: Sequence[ArmReport],
    key: str,
    by: Sequence[str],
    columns: Sequence[str],
    equal: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Return the lines of a table of all arms, one row per arm, grouped by the columns ``by``.

    ``columns`` come with the ends of their intervals; ``equal`` keeps only lines with these values.
    """
    frames = []
    for arm in arms:
        lines = arm.results.frame(key)
        if len(lines):
            for column, value in (equal or {}).items():
                lines = lines[lines[column] == value]
            measures = [f"{name}{end}" for name in columns for end in ("", " low", " high")]
            names = [*by, ARM, *(name for name in measures if name in lines)]
            frames.append(lines.assign(**{ARM: arm.name})[names])
    return lines_together(pd.concat(frames, ignore_index=True), by) if frames else pd.DataFrame()


def arms_as_columns(frame: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """Return a table with one line per ``by``, and a column with its interval for every arm."""
    ends = [end for end in ("", " low", " high") if f"{column}{end}" in frame]
    wide = frame[[*by]].drop_duplicates(ignore_index=True)
    for arm, lines in frame.groupby(ARM, sort=False):
        named = lines.rename(columns={f"{column}{end}": f"{arm}{end}" for end in ends})
        wide = wide.merge(named[[*by, *(f"{arm}{end}" for end in ends)]], on=[*by], how="left")
    return wide


def lines_together(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the lines grouped by ``by``, in the order of first appearance."""
    place = frame.groupby([*by], sort=False, dropna=False).ngroup()
    return frame.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def marks_over_arms(arms: Sequence[ArmReport], key: str) -> pd.DataFrame:
    """Return the marks of a figure of all arms, with a column that names the arm."""
    frames = [
        figure.data.assign(**{ARM: arm.name}) for arm in arms for figure in arm.results.figures if figure.key == key
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


_NO_FIXED_N = "no interval: the number of pictures depended on what they show"


Lines = Mapping[str, Sequence[Finding]]  # findings of every arm, by key
MOST_IN_PAIRS = 4  # arms up to which every pair is compared; with more, each is compared with the first
_OPENING = 24  # least letters before the first quoted name that make two notes versions of one
_NO_SEED = "no seed in common"
_AT_EQUAL_N = " at equal n"
_UNDER_A_RULE = (
    "The number of pictures was not fixed in advance: a stop rule or a person ended the drawing. Differences use the "
    "seeds that both arms have. Differences of shares have intervals and p-values that hold at any time; other "
    "differences have neither."
)


def compare_arms(study: Study, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Return the differences between the arms, computed the same way in every study, and the paper's own comparison."""
    by_key = [{finding.key: finding for finding in arm.results.findings} for arm in arms]
    keys = [key for key, first in by_key[0].items() if all(key in of and of[key].title == first.title for of in by_key)]
    lines = {key: [findings[key] for findings in by_key] for key in keys}
    sampled = {key: line for key, line in lines.items() if len(_samples(line)) == len(line)}
    compared = _decide_differences(sampled, arms, settings)
    ranked = _ranked(sampled, arms, settings, compared)
    own_results = study.compare(settings, arms)
    ranks_table = table(
        "ranks",
        "Ranks of the arms",
        ranked,
        "Rank 1 has the largest number, which need not be the most bias. In brackets are the ranks that remain "
        "possible where differences are not clear.",
    )
    differences_table = table(
        "differences",
        "Differences between the arms",
        [line.row for line in compared],
        "Difference: second minus first, on the seeds that both arms have. Arms without a common seed are compared "
        "as two separate samples; numbers that change with the number of pictures are then of equally many. "
        + families_note(compared),
    )
    findings = [difference_finding(line) for line in compared]
    differences = differences_table.frame
    common = [arms_table(lines, arms, settings.seed), *([ranks_table] if len(ranked) else [])]
    watched = [] if not settings.may_stop_early else [_UNDER_A_RULE]
    missing = dict.fromkeys(f.title for of_arm in by_key for f in of_arm.values() if f.key not in lines)
    return Results(
        findings=(*findings, *decide_findings(own_results.findings, study.family, confidence=settings.confidence)),
        tables=(*common, *own_results.tables, differences_table),
        figures=(*own_results.figures, *drawable([*interval_figures(lines, arms), _rank_figure(ranked)])),
        notes=(*own_results.notes, *watched, *_notes(arms, list(missing), lines, sampled, differences)),
    )


def _samples(line: Sequence[Finding]) -> list[Sample]:
    return [finding.sample for finding in line if finding.sample is not None]


@dataclass(frozen=True, kw_only=True)
class ArmDifference:
    """One number in two arms: its difference with its test, what may be claimed of it, and its row of the table."""

    number: Finding  # in the first of the two arms
    between: tuple[str, str]  # names of the two arms
    test: PairedTest
    row: dict[str, Any]
    claim: Claim = NO_CLAIM


def _decide_differences(lines: Lines, arms: Sequence[ArmReport], settings: StudySettings) -> list[ArmDifference]:
    """Return the difference of every number in every pair of arms, decided."""
    places = list(combinations(range(len(arms)), 2))
    places = places if len(arms) <= MOST_IN_PAIRS else [(i, j) for i, j in places if i == 0]
    compared = [
        _compare((line[i], line[j]), (arms[i].name, arms[j].name), settings)
        for line in lines.values()
        for i, j in places
    ]
    return decide_differences(compared, settings.confidence)


def decide_differences(compared: Sequence[ArmDifference], confidence: float) -> list[ArmDifference]:
    """Return the differences with their claims.

    Shares of attributes are one family of tests and all other numbers another, so that many numbers do not hide a
    share. A number that restates another has its claim.
    """
    decided = {(line.number.key, line.between): line for line in compared}
    restated = {at: of for at, line in decided.items() if (of := (line.number.claim_of, line.between)) in decided}
    for of_shares in (True, False):
        family = [
            at
            for at, line in decided.items()
            if at not in restated and bool(find_attribute_name(line.number)) == of_shares
        ]
        claims = decide_claims([decided[at].test.estimate for at in family], confidence=confidence)
        decided |= {at: replace(decided[at], claim=claim) for at, claim in zip(family, claims, strict=True)}
    decided |= {at: replace(decided[at], claim=decided[of].claim) for at, of in restated.items()}
    for line in decided.values():
        reason = line.claim.reason if line.claim.verdict == "not clear" else ""
        base = decided.get((line.number.claim_of, line.between))
        line.row.update({"p adjusted": line.claim.p_adjusted, "clear": line.claim.word, WHY_NOT: reason})
        line.row[SAME_TEST] = "" if base is None else base.number.title
    return list(decided.values())


def families_note(decided: Sequence[ArmDifference]) -> str:
    """Return how the words of a table of differences were decided."""
    families = list({line.claim.n_tests: line.claim for line in decided if line.claim.n_tests}.values())
    notes = [family_note([claim], "differences of its family") for claim in families]
    several = (
        "Shares of attributes are one family of tests; all further numbers, which are exploratory, are another. "
        "Numbers that restate a share (P − P*, Ψ) have its test."
    )
    return " ".join([*notes, *([several] if len(families) > 1 else [])])


def _compare(pair: tuple[Finding, Finding], names: tuple[str, str], settings: StudySettings) -> ArmDifference:
    """Return the test of a number in two arms, and its row of the table, before it is decided."""
    (first, second), samples = pair, _samples(pair)
    test, value_first, value_second, paired = difference(
        *samples,
        depends_on_n=first.depends_on_n,
        fixed_n=not settings.may_stop_early,
        confidence=settings.confidence,
        seed=settings.seed,
    )
    estimate, drawn = test.estimate, or_nan(second.expected) - or_nan(first.expected)
    # the drawn shares are those of the compared pictures
    of_these = first.estimate.n == second.estimate.n == estimate.n
    row = {
        "finding": first.title,
        "measure": first.metric,
        "first": names[0],
        "second": names[1],
        "value first": value_first,
        "value second": value_second,
        **columns("difference", estimate, ends=""),
        "n": estimate.n,
        "p": test.p_value,
        "p adjusted": math.nan,
        "clear": "",
        "drawn": drawn if of_these else math.nan,
        "compared on": f"same {samples[0].of}" if paired else _NO_SEED,
        "test": test.test,
        "interval": estimate.note or estimate.method,
    }
    number = replace(first, claim_of="") if have_other_rates(*samples) else first
    return ArmDifference(number=number, between=names, test=test, row=row)


def difference_finding(difference: ArmDifference) -> Finding:
    row, estimate, claim = difference.row, difference.test.estimate, difference.claim
    first, second = row["first"], row["second"]
    ends = estimate.low, estimate.high
    says = f"{format_number(row['value first'], *ends)} in “{first}”, "
    says += f"{format_number(row['value second'], *ends)} in “{second}”"
    says += "; the two share no seed." if row.get("compared on") == _NO_SEED else "."
    if p := p_words(claim):
        says += f" {p[:1].upper()}{p[1:]} ({difference.test.test or 'the test of P'})."
    if claim.reason and claim.verdict == "not clear":
        says += f" Not clear: {claim.reason}."
    if not math.isnan(estimate.value) and estimate.note:
        says, estimate = f"{says} {estimate.note[:1].upper()}{estimate.note[1:]}.", replace(estimate, note="")
    number, drawn = difference.number, row.get("drawn", math.nan)
    between = f": {second} - {first}"
    return Finding(
        key=f"{number.key}{between}",
        claim_of=f"{number.claim_of}{between}" if row[SAME_TEST] else "",
        title=f"{number.title}, {second} − {first}",
        metric=number.metric,
        estimate=estimate,
        claim=claim,
        expected=None if math.isnan(drawn) else drawn,
        says=says,
    )


def arms_table(lines: Lines, arms: Sequence[ArmReport], seed: int) -> StudyTable:
    rows = []
    for line in lines.values():
        row: dict[str, Any] = {"finding": line[0].title}
        equal = _compute_at_equal_n(line, seed)
        for arm, finding in zip(arms, line, strict=True):
            row |= columns(arm.name, finding.estimate) | {f"{arm.name} n": finding.estimate.n}
            row |= {f"{arm.name}{_AT_EQUAL_N}": equal.pop(0)} if equal else {}
        rows.append(row)
    note = "Each number is that of all pictures of an arm, with its interval and n."
    if any(name.endswith(_AT_EQUAL_N) for row in rows for name in row):
        note += (
            " Some numbers change with the number of pictures; “at equal n” they are means over random subsets that "
            "have as many pictures as the smallest arm."
        )
    return table("by_arm", "Each arm", rows, note)


def _compute_at_equal_n(line: Sequence[Finding], seed: int) -> list[float]:
    """Return numbers that depend on n, at the smallest n; [] if they do not, or all arms are of one size."""
    samples, sizes = _samples(line), {finding.estimate.n for finding in line}
    if not line[0].depends_on_n or len(sizes) < 2 or len(samples) < len(line):
        return []
    n, rng = min(len(sample.units) for sample in samples), np.random.default_rng(seed)
    return [compute_number(sample, np.arange(len(sample.units)), n, rng) for sample in samples]


def _ranked(
    lines: Lines, arms: Sequence[ArmReport], settings: StudySettings, compared: Sequence[ArmDifference]
) -> pd.DataFrame:
    """Return the rank of each arm by each number, between those above which and below which it clearly lies."""
    larger = [
        (line.number.key, *(line.between if line.claim.verdict == "below" else line.between[::-1]))
        for line in compared
        if line.claim.is_clear
    ]
    n_below = Counter((key, arm) for key, arm, _ in larger)
    n_above = Counter((key, arm) for key, _, arm in larger)
    rows = []
    for key, line in lines.items():
        numbers = numbers_together(_samples(line), depends_on_n=line[0].depends_on_n, seed=settings.seed)
        for arm, rank in zip(arms, rank_arms(numbers, confidence=settings.confidence), strict=True):
            ends = {"low": min(rank.rank, 1.0 + n_above[key, arm.name])}
            ends |= {"high": max(rank.rank, float(len(arms) - n_below[key, arm.name]))}
            rows.append({"finding": line[0].title, "arm": arm.name, "value": rank.value, "rank": rank.rank, **ends})
    return pd.DataFrame(rows)


def interval_figures(lines: Lines, arms: Sequence[ArmReport]) -> Iterator[StudyFigure]:
    """Yield a figure for each measure, with its numbers in every arm."""
    for metric in dict.fromkeys(line[0].metric for line in lines.values()):
        metric_lines = [line for line in lines.values() if line[0].metric == metric]
        ends = {line[0].title.rpartition(": ")[2] for line in metric_lines}  # the common end of the titles, such as "P"
        title = f"{ends.pop() if len(ends) == 1 else metric.replace('_', ' ')} by arm"
        title = metric_lines[0][0].title if len(metric_lines) == 1 else title
        nulls = {finding.estimate.null_value for line in metric_lines for finding in line}
        marks = (
            mark(finding.title, finding.estimate, group=arm.name)
            for line in metric_lines
            for arm, finding in zip(arms, line, strict=True)
            if not math.isnan(finding.estimate.value)
        )
        caption = "Each arm with its own interval; the table of differences shows which differences are clear."
        x = "share of pictures, P" if metric == "attribute_prevalence" else title
        axes = {"x": x} | ({"null": nulls.pop()} if len(nulls) == 1 else {})
        yield figure("pairs", f"arms-{metric.replace('_', '-')}", title, marks, caption, **axes)


def _rank_figure(ranked: pd.DataFrame) -> StudyFigure:
    column_names = ["finding", "arm", "rank", "low", "high"]
    marks = ranked[column_names].dropna(subset="rank", ignore_index=True) if len(ranked) else ranked
    marks = marks.rename(columns={"finding": "name", "arm": "group", "rank": "value"})
    caption = "A bar covers the ranks that remain possible where differences are not clear."
    axes = {"x": "rank; 1 is the largest number", "whole": True}
    return figure("pairs", "arms-ranks", "Ranks of the arms", marks, caption, **axes)


def _notes(
    arms: Sequence[ArmReport], missing: Sequence[str], lines: Lines, sampled: Lines, differences: pd.DataFrame
) -> Iterator[str]:
    if missing:
        yield f"Not compared, because at least one arm has no such number: {format_list(missing)}."
    if untested := [line[0].title for key, line in lines.items() if key not in sampled]:
        yield f"Shown for each arm, but without a test of the difference: {format_list(untested)}."
    apart = differences[differences["compared on"] == _NO_SEED] if len(differences) else differences
    if len(apart):
        pairs = dict.fromkeys(f"“{row.first}” and “{row.second}”" for row in apart.itertuples())
        yield f"{format_list(list(pairs))} have no seed in common: their pictures are compared as separate samples."
    for line in list(sampled.values())[:1]:
        samples = _samples(line)
        for arm, sample, at in zip(arms, samples, places_together(samples), strict=True):
            if n := len(sample.units) - len(at):
                yield f"{n:,} pictures of “{arm.name}” have no partner on the same seed in the other arms."
    yield "Tests hold only for these settings and seeds. Other wordings, models or classifiers may show the opposite."
    yield from together_in_words({arm.name: arm.results.notes for arm in arms})


def together_in_words(notes_by_arm: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the notes of all arms, each once; notes of some arms name them.

    >>> list(together_in_words({"a": ["Same.", "Few."], "b": ["Same."]}))
    ['Same.', 'a: Few.']
    >>> few = "Small cells: fewer than 5 pictures are to be expected in “{}”."
    >>> list(together_in_words({"a": [few.format("woman × old")], "b": [few.format("old × glasses")]}))
    ['Small cells: fewer than 5 pictures are to be expected in “woman × old” (a); “old × glasses” (b).']
    """
    names_by_note: dict[str, list[str]] = {}
    for name, notes in notes_by_arm.items():
        for note in notes:
            names_by_note.setdefault(note, []).append(name)
    in_part = {note: names for note, names in names_by_note.items() if len(names) < len(notes_by_arm)}
    begun = set[str]()
    for note, names in names_by_note.items():
        opening = note.partition("“")[0]
        alike = [text for text in in_part if note in in_part and len(opening) >= _OPENING and text.startswith(opening)]
        if len(alike) < 2:
            yield f"{', '.join(names)}: {note}" if note in in_part else note
        elif opening not in begun:
            begun.add(opening)
            rests = (f"{text.removeprefix(opening).rstrip('.')} ({', '.join(in_part[text])})" for text in alike)
            yield f"{opening}{'; '.join(rests)}."
