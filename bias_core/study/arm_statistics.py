"""One number in several arms: differences on the units that arms share, ranks with their uncertainty, and tables.

Findings carry a :class:`~bias_core.study.types.Sample`, so this is written once for every study. Two
arms on the same seeds are paired by their units; one that shares none (pictures brought along) is resampled
on its own. Every difference is second minus first. At the end stands what a paper's own comparison is made of:
the arms' tables, figures and findings side by side.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import mean_interval, percent, permutation_test
from bias_core.measures.paired_prevalence import (
    PairedTest,
    corrected_difference,
    corrected_share,
    excess_interval,
    prevalence_difference_test,
    stereotype_difference_test,
    swap_p_value,
)
from bias_core.study.types import ArmReport, Finding, Sample, StudySettings
from bias_core.types import Estimate, ReaderErrors

Floats = NDArray[np.float64]
Places = NDArray[np.int_]

N_RESAMPLES = 999
ROUNDING = 1e-12
N_SUBSAMPLES = 200
_FEWEST_RESAMPLES = N_RESAMPLES // 2
_LARGEST_BLOCK = 2_000_000  # numbers held at once by a resampling loop
_MOST_EXACT = 12  # units, all of whose 2^n swaps are looked at
_NOTHING_VARIES = "no picture differs, so there is no interval"


@dataclass(frozen=True, kw_only=True)
class Values:
    """The value of every unit of a number that depends on their mean alone: :meth:`of_mean` of it."""

    each: Floats  # ``(n,)``
    errors: ReaderErrors | None = None  # of the reader of a share, where it is corrected for them
    reference: float | None = None  # P* of a stereotype score, max(0, share − P*)

    def of_mean(self, mean: Any) -> Any:
        """The number that belongs to a mean, or to each of many."""
        mean = corrected_share(mean, self.errors)
        return mean if self.reference is None else np.maximum(0.0, mean - self.reference)


def mean_sample(
    units: Sequence[str],
    values: ArrayLike,
    *,
    errors: ReaderErrors | None = None,
    reference: float | None = None,
    of: str = "seeds",
) -> Sample:
    """The sample of a mean or share, of one corrected for a reader's errors, or of a stereotype score.

    Units whose value is nan are left out.

    >>> mean_sample(["0:0", "0:1", "0:2", "0:3"], [1, 0, 1, 1], reference=0.5).statistic(np.arange(4))
    0.25
    """
    numbers = np.asarray(values, dtype=float)
    defined = ~np.isnan(numbers)
    held = Values(each=numbers[defined], errors=errors, reference=reference)

    def statistic(places: Places) -> Any:
        number = held.of_mean(held.each[places].mean(axis=-1))
        return float(number) if np.ndim(number) == 0 else number

    return Sample(units=tuple(compress(units, defined)), statistic=statistic, vectorised=True, of=of, data=held)


def counted_sample(units: Sequence[str], of_counts: Callable[[Floats], Floats]) -> Sample:
    """The sample of a number that depends on how often each unit is counted.

    ``of_counts`` makes numbers ``(k,)`` of counts ``(k, n_units)``; nan where a number is undefined.

    >>> sample = counted_sample(["0:0", "0:1", "1:0"], lambda times: times @ np.array([1.0, 2.0, 4.0]))
    >>> sample.statistic(np.array([0, 0, 2])), sample.statistic(np.array([[0, 1], [2, 2]]))
    (6.0, array([3., 8.]))
    """
    n = len(units)

    def statistic(places: Places) -> Any:
        draws = np.atleast_2d(places)
        flat = (draws + n * np.arange(len(draws))[:, None]).ravel()
        times = np.bincount(flat, minlength=n * len(draws)).reshape(len(draws), n).astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):  # a part that was not drawn: nan
            numbers = of_counts(times)
        return numbers if np.ndim(places) == 2 else float(numbers[0])

    return Sample(units=tuple(units), statistic=statistic, vectorised=True)


def lean_sample(
    units: tuple[Sequence[str], Sequence[str], Sequence[str]],
    to_a: Floats,
    to_b: Floats,
    *,
    of_targets: Floats | None = None,
    of_a: Floats | None = None,
    of_b: Floats | None = None,
    constant: float = 0.0,
) -> Sample:
    """The sample of a mean association of targets with A rather than B, and of sums of such means.

    Parameters
    ----------
    units : of the targets, of A and of B.
    to_a, to_b : ``(n, n_a)`` and ``(n, n_b)`` cosines.
    of_targets, of_a, of_b : a further term of each, whose means are added (that of B taken away).
    """
    sizes = [len(part) for part in units]
    terms = [np.zeros(n) if term is None else term for n, term in zip(sizes, (of_targets, of_a, of_b), strict=True)]

    def of_counts(times: Floats) -> Floats:
        x, a, b = (part / part.sum(axis=1, keepdims=True) for part in np.split(times, np.cumsum(sizes)[:2], axis=1))
        lean = ((x @ to_a) * a).sum(axis=1) - ((x @ to_b) * b).sum(axis=1)
        return np.asarray(lean + x @ terms[0] + a @ terms[1] - b @ terms[2] + constant)

    return counted_sample([unit for part in units for unit in part], of_counts)


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
    rng, sides = np.random.default_rng(seed), (first, second)
    paired, places = not set(first.units).isdisjoint(second.units), places_together(sides)
    least = min(map(len, places))
    if least < 2:
        note = "the arms share one picture only: at least two are needed"
        note = note if paired else "an arm has fewer than two pictures that can be compared"
        return nothing(least, note), math.nan, math.nan, paired
    if paired and first.test is not None and first.test is second.test:
        numbers = [float(side.statistic(at)) for side, at in zip(sides, places, strict=True)]
        test = first.test(first, second, places[0], places[1], confidence, seed)
    elif isinstance(first.data, Values) and isinstance(second.data, Values):
        held = [replace(side.data, each=side.data.each[at]) for side, at in zip(sides, places, strict=True)]
        note = ""
        if first.data.errors != second.data.errors:
            held = [replace(values, errors=None) for values in held]
            note = "as read: the reader's errors are known for one arm only, or differ"
        test = (paired_values if paired else apart_values)(held[0], held[1], confidence, rng)
        test = replace(test, estimate=replace(test.estimate, note=note)) if note else test
        numbers = [float(values.of_mean(values.each.mean())) for values in held]
    else:
        n = least if depends_on_n else 0
        numbers = [number_at(side, at, n or len(at), rng) for side, at in zip(sides, places, strict=True)]
        test = _normal_test(numbers, _resampled(sides, places, n, rng), least, paired, confidence)
    return test, numbers[0], numbers[1], paired


def paired_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Entry i of both is of one seed: McNemar's test for a share, else the pictures of a seed swapped."""
    if first.reference is not None:
        return stereotype_difference_test(
            first.each - 0.5, second.each - 0.5, first.reference, errors=first.errors, confidence=confidence, rng=rng
        )
    if _are_shares(first, second):
        share_test = prevalence_difference_test(first.each - 0.5, second.each - 0.5, confidence=confidence)
        return _corrected(share_test, first, confidence)
    n, gain = len(first.each), second.each - first.each
    estimate = replace(mean_interval(gain, confidence=confidence, null_value=0.0), n=n)
    if not np.abs(gain).max() > ROUNDING:
        return nothing(n, _NOTHING_VARIES, estimate.value)
    signs = rng.choice((-1.0, 1.0), size=(N_RESAMPLES, n))
    p_value = _exact_sign_flip(gain) if n <= _MOST_EXACT else swap_p_value(estimate.value, signs @ gain / n)
    return PairedTest(estimate=estimate, p_value=p_value, test="images of each seed swapped at random")


def share_test_without_p(
    first: Sample, second: Sample, one: Places, other: Places, confidence: float, _seed: int
) -> PairedTest:
    """McNemar's difference, corrected where errors are known; it has no test beside that of P."""
    a, b = first.data, second.data
    test = prevalence_difference_test((a.each[one] > 0) - 0.5, (b.each[other] > 0) - 0.5, confidence=confidence)
    estimate = test.estimate
    if a.errors != b.errors:
        estimate = replace(estimate, note="as read: the reader's errors are known for one arm only, or differ")
    elif a.errors is not None:
        estimate = corrected_difference(estimate, a.errors, confidence=confidence)
    return PairedTest(estimate=estimate, p_value=math.nan, test="as for P")


def _exact_sign_flip(gain: Floats) -> float:
    """Share of all ways to swap the pairs that give a mean at least as far from 0, the observed one too."""
    signs = 1.0 - 2.0 * (np.arange(2 ** len(gain))[:, None] >> np.arange(len(gain)) & 1)
    return float((np.abs(signs @ gain) >= abs(gain.sum()) - ROUNDING).mean())


def apart_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """The same of two arms that share no seed."""
    if first.reference is not None:
        return _shuffled_values(first, second, confidence, rng)
    x, y = first.each, second.each
    if _are_shares(first, second):
        return _corrected(two_shares(x, y, confidence), first, confidence)
    estimate = replace(mean_interval(y, x, confidence=confidence, null_value=0.0), n=min(len(x), len(y)))
    try:
        p_value = permutation_test(y, x, n_permutations=N_RESAMPLES, rng=rng).p_value
    except InvalidInput:  # all values are equal
        return nothing(estimate.n, _NOTHING_VARIES, estimate.value)
    return PairedTest(estimate=estimate, p_value=p_value, test="permutation of the pictures of both arms")


def _are_shares(*sides: Values) -> bool:
    return all(np.isin(side.each, (0.0, 1.0)).all() for side in sides)


def two_shares(x: ArrayLike, y: ArrayLike, confidence: float) -> PairedTest:
    """Share of 1 in ``y`` less that in ``x``, two samples of 0 and 1: Newcombe's interval, Fisher's exact test."""
    from statsmodels.stats.proportion import confint_proportions_2indep

    first, second = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    (k1, n1), (k2, n2) = ((int(v.sum()), len(v)) for v in (first, second))
    low, high = confint_proportions_2indep(k2, n2, k1, n1, method="newcomb", alpha=1 - confidence)
    value, method = float(second.mean() - first.mean()), f"Newcombe {percent(confidence)}"
    low, high = min(float(low), value), max(float(high), value)
    estimate = Estimate(value=value, low=low, high=high, n=min(n1, n2), null_value=0.0, method=method)
    p_value = float(stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue)
    return PairedTest(estimate=estimate, p_value=min(1.0, p_value), test="Fisher, exact")


def _shuffled_values(first: Values, second: Values, confidence: float, rng: np.random.Generator) -> PairedTest:
    """Of a function of the mean: each arm resampled, and p from shuffling the pictures of both."""
    n = len(first.each)
    value = float(second.of_mean(second.each.mean()) - first.of_mean(first.each.mean()))

    def drawn_of(side: Values) -> Floats:
        means = [rng.choice(side.each, len(side.each)).mean() for _ in range(N_RESAMPLES)]
        return np.asarray(side.of_mean(np.array(means)))

    drawn = drawn_of(second) - drawn_of(first)
    shuffled = rng.permuted(np.tile(np.concatenate([first.each, second.each]), (N_RESAMPLES, 1)), axis=1)
    mixed = second.of_mean(shuffled[:, n:].mean(axis=1)) - first.of_mean(shuffled[:, :n].mean(axis=1))
    least = min(n, len(second.each))
    if not (np.ptp(drawn) or np.ptp(mixed)):
        return nothing(least, "neither arm comes near P*", value)
    return PairedTest(
        estimate=excess_interval(value, drawn, n=least, confidence=confidence),
        p_value=swap_p_value(value, mixed),
        test="permutation of the pictures of both arms",
    )


def _corrected(test: PairedTest, values: Values, confidence: float) -> PairedTest:
    if values.errors is None:
        return test
    return replace(test, estimate=corrected_difference(test.estimate, values.errors, confidence=confidence))


def nothing(n: int, note: str, value: float = math.nan) -> PairedTest:
    """No test, and why; a difference that is known is kept."""
    empty = Estimate(value=value, low=math.nan, high=math.nan, n=n, null_value=0.0, note=note)
    return PairedTest(estimate=empty, p_value=math.nan, test="")


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
    ends: dict[str, Any] = {"low": value - reach, "high": value + reach, "null_value": 0.0}
    estimate = Estimate(value=value, n=n, method=f"bootstrap SE, t, {percent(confidence)}, {how}", **ends)
    p_value = float(2 * stats.t.sf(abs(value) / error, n - 1))
    return PairedTest(estimate=estimate, p_value=p_value, test=f"bootstrap t, {how}")


def number_at(sample: Sample, places: Places, n: int, rng: np.random.Generator) -> float:
    """The number at ``n`` of these units: its average over subsamples without replacement; nan of no unit."""
    if not n or not len(places):
        return math.nan
    if n >= len(places):
        return float(sample.statistic(places))
    return float(_numbers(sample, rng.permuted(np.tile(places, (N_SUBSAMPLES, 1)), axis=1)[:, :n]).mean())


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Where an arm stands among the others: 1 is the largest number."""

    value: float  # the number that is ranked, at equal numbers of pictures where it depends on them
    rank: float  # from 1 to the number of arms; equals share their mean rank. nan where it is undefined.
    low: float
    high: float
    n: int  # units behind the number


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """One number of every arm, ready to be ranked."""

    values: Floats  # ``(n_arms,)``, at equal numbers of pictures where they depend on them
    n: tuple[int, ...]  # units behind each
    # the same of resamples, ``(k, n_arms)``; shared units are resampled together. None of them where a value is
    # undefined or an arm has fewer than two units.
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
    values = numbers.values
    observed = low = high = np.full(len(values), math.nan)
    if np.isfinite(values).all() and min(numbers.n) >= 2:
        observed = stats.rankdata(-values.round(12))
    if len(numbers.drawn) >= _FEWEST_RESAMPLES:
        resampled = stats.rankdata(-numbers.drawn.round(12), axis=1)
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        low, high = np.quantile(resampled, ends, axis=0, method="closest_observation")
    lines = zip(values, observed, np.minimum(low, observed), np.maximum(high, observed), numbers.n, strict=True)
    return tuple(
        Rank(value=float(value), rank=float(rank), low=float(least), high=float(most), n=n)
        for value, rank, least, most, n in lines
    )


def places_together(samples: Sequence[Sample]) -> list[Places]:
    """Of every arm the places that are compared: the units that all arms have with which it shares any."""
    places: list[Places] = []
    for sample in samples:
        kin = [other for other in samples if not set(sample.units).isdisjoint(other.units)]
        shared = set(sample.units).intersection(*(other.units for other in kin))
        place = {unit: i for i, unit in enumerate(sample.units)}
        in_order = kin[0].units if kin else ()  # the same for all of them
        places.append(np.array([place[unit] for unit in in_order if unit in shared], dtype=int))
    return places


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
        return np.array([float(sample.statistic(row)) for row in places])
    block = max(1, _LARGEST_BLOCK // places.shape[1])
    parts = [sample.statistic(places[i : i + block]) for i in range(0, len(places), block)]
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


ARM = "arm"


def finding_of(arm: ArmReport, key: str) -> Finding | None:
    """A finding of an arm, None where it has none of this key."""
    return next((finding for finding in arm.results.findings if finding.key == key), None)


def numbers_of(arms: Sequence[ArmReport], keys: Sequence[str], settings: StudySettings) -> Numbers | None:
    """A number of every arm as the common comparison has it; ``keys`` has the key of each arm's finding.

    None where an arm has no such finding, or none that can be compared.
    """
    findings = [finding_of(arm, key) for arm, key in zip(arms, keys, strict=True)]
    samples = [finding.sample for finding in findings if finding is not None and finding.sample is not None]
    if len(samples) < len(arms) or findings[0] is None:
        return None
    return numbers_together(samples, depends_on_n=findings[0].depends_on_n, seed=settings.seed)


def ranks_over_arms(arms: Sequence[ArmReport], key: str, settings: StudySettings) -> list[dict[str, float]]:
    """Rank of every arm by a finding, as columns of a table; nothing where it has no sample."""
    numbers = numbers_of(arms, [key] * len(arms), settings)
    ranks = ranks_of(numbers, confidence=settings.confidence) if numbers else ()
    return [rank_columns(rank) for rank in ranks] or [{} for _ in arms]


def rank_columns(rank: Rank, name: str = "rank") -> dict[str, float]:
    """A rank and its interval, as columns of a table."""
    return {name: rank.rank, f"{name} low": rank.low, f"{name} high": rank.high}


def table_over_arms(
    arms: Sequence[ArmReport],
    key: str,
    by: Sequence[str],
    columns: Sequence[str],
    equal: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Lines of a table that the arms have, those of one ``by`` together, each arm's in a row of its own.

    ``columns`` come with the ends of their intervals; ``equal`` keeps the lines that have these values.
    """
    frames = []
    for arm in arms:
        for table in arm.results.tables:
            if table.key == key and len(lines := table.frame):
                for column, value in (equal or {}).items():
                    lines = lines[lines[column] == value]
                measures = [f"{name}{end}" for name in columns for end in ("", " low", " high")]
                names = [*by, ARM, *(name for name in measures if name in lines)]
                frames.append(lines.assign(**{ARM: arm.name})[names])
    return lines_together(pd.concat(frames, ignore_index=True), by) if frames else pd.DataFrame()


def arms_as_columns(frame: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """A table with one line for each ``by``, and of every arm the column with its interval."""
    ends = [end for end in ("", " low", " high") if f"{column}{end}" in frame]
    wide = frame[[*by]].drop_duplicates(ignore_index=True)
    for arm, lines in frame.groupby(ARM, sort=False):
        named = lines.rename(columns={f"{column}{end}": f"{arm}{end}" for end in ends})
        wide = wide.merge(named[[*by, *(f"{arm}{end}" for end in ends)]], on=[*by], how="left")
    return wide


def lines_together(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Lines of one ``by`` beside each other, in the order in which each was met first."""
    place = frame.groupby([*by], sort=False, dropna=False).ngroup()
    return frame.iloc[place.argsort(kind="stable")].reset_index(drop=True)


def marks_over_arms(arms: Sequence[ArmReport], key: str) -> pd.DataFrame:
    """The marks of a figure that the arms have, with a column that names the arm."""
    frames = [
        figure.data.assign(**{ARM: arm.name}) for arm in arms for figure in arm.results.figures if figure.key == key
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
