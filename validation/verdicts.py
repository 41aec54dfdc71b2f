"""Verdicts on measures from repeated measurements: coverage, false alarms and rise."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd
from scipy import stats

from bias_core.measures.cards import METRICS
from bias_core.measures.intervals import exact_interval, exact_p_value
from bias_core.report.headlines import AS_PUBLISHED, HEADLINE
from bias_core.study.design import ReportTexts
from bias_core.study.types import Results, StudyFigure, StudySettings, StudyTable, drawable, finding, mark
from bias_core.types import Estimate
from bias_core.wording import typeset
from validation.repetitions import OWN_NULL


class _Texts(ReportTexts):
    def note(self, name: str, /, **values: Any) -> str:
        return str(self._texts["notes"][name].format(**values))


TEXTS = _Texts(__file__)
NOMINAL = 0.95
LEAST_COVERAGE, MOST_COVERAGE, MOST_ALARMS = 0.93, 0.97, 0.07
"""Shares of intervals that hold their target, and of false alarms, within which a measure passes."""
FEWEST = 200  # independent intervals that a verdict needs
DEVIATION = 0.05  # from the nominal coverage, which that many show with the power of :func:`power_of`
READS_BIAS = "finds bias where none is planted"
STANDARD_ERRORS = 2.0  # that a step from condition to condition must exceed
FALLING = frozenset(
    {"distribution_bias", "normalised_entropy", "effective_number", "weighted_alignment_score", "variance_share",
     "variance_share_difference", "variety_change"}
)  # fmt: skip
"""Measures of variety and evenness: they fall as more is planted; all others rise."""
NULL_OF_ITS_OWN = frozenset(
    {"association", "composite_association", "diffusion_bias", "signed_lean_difference", "bias_amplification",
     "relative_lean_difference", "log_amplification"}
)  # fmt: skip
"""Measures with a null value that the first condition does not plant; their false alarms have extra pictures."""

STANDS_FOR: Mapping[str, str] = {
    "stereotype_score": "signed_difference",
    "stereotype_difference": "prevalence_difference",
    "weighted_alignment_score": "variance_share",
    "association": "association_beyond_even_mix",
    "composite_association": "relative_lean",
    "diffusion_bias": "relative_lean_difference",
    "signed_lean_difference": "relative_lean_difference",
    "bias_amplification": "log_amplification",
    "distribution_bias": "variety_change",
    "normalised_entropy": "variety_change",
    "gini": "variety_change",
    "effective_number": "variety_change",
    "jaccard_hallucination": "added_objects",
    "generative_miss_rate": "missing_objects",
    "fleiss_kappa": "krippendorff_alpha",
    "log_amplification": "relative_lean_difference",  # ours, but not shown: words have no clear association here
}
"""Keys of the measures that headlines show in place of others, mostly of a paper."""
_WHAT = "what is planted"
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "verdicts": {
        "planted": _WHAT, "nothing planted": "mean, nothing planted", "some": "mean, some planted",
        "all": "mean, all planted", "follows": "mean follows",
    },
    "summary": {
        "planted": _WHAT, "bias": "mean error", "held": "intervals hold", "null excluded": "no bias excluded",
        "n": "repetitions",
    },
    "repetitions": {"planted": _WHAT, "excluded": "no bias excluded"},
    "rates": {
        "planted": "planted rate", "low": "corrected low", "high": "corrected high",
        "covered": "corrected holds true P", "covered uncorrected": "measured holds true P", "n": "pictures",
    },
    "texts": {"planted": "is planted"},
    "seeds": {"planted": "is planted"},
}  # fmt: skip
"""Titles of the columns of a validity report, by table and by the name in the code."""
_KEYS = ["measure", "variant", "planted"]
_ROUNDING = 1e-9


def named(key: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a validity report with readable column titles."""
    return frame.rename(columns=dict(COLUMNS.get(key, {})))


def kind_of(measure: str) -> str:
    """Return the kind of a measure: shown by headlines, or as its paper defines it."""
    return AS_PUBLISHED if measure in STANDS_FOR else HEADLINE


def power_of(n: int, *, nominal: float = NOMINAL, deviation: float = DEVIATION) -> float:
    """Power of ``n`` independent intervals to detect a coverage ``deviation`` below nominal.

    It is the probability that the exact test of the coverage rejects the nominal one: a binomial probability. By
    symmetry it is also the power to detect as many excess false alarms.

    >>> round(power_of(200), 2), round(power_of(4), 2)
    (0.79, 0.05)
    """
    fewer = range(math.ceil(n * nominal) - 1, -1, -1)
    most_that_hold = next((k for k in fewer if exact_p_value(k, n, nominal) <= 1 - NOMINAL), -1)
    return float(stats.binom.cdf(most_that_hold, n, nominal - deviation))


def rule() -> str:
    """Text of the rule behind every verdict."""
    return TEXTS.note(
        "rule",
        n=FEWEST,
        nominal=100 * NOMINAL,
        deviation=100 * DEVIATION,
        power=100 * power_of(FEWEST),
        least=100 * LEAST_COVERAGE,
        most=100 * MOST_COVERAGE,
        alarms=100 * MOST_ALARMS,
        steps=STANDARD_ERRORS,
    )


def measured(
    measure: str,
    estimate: Estimate,
    *,
    target: float,
    condition: str,
    repetition: int = 0,
    unit: str = "",
    variant: str = "",
    planted: str = "",
    excluded: bool | None = None,
) -> dict[str, Any]:
    """One measurement as a row of the table that :func:`results_of` reads.

    Parameters
    ----------
    measure : key in the table of measures; ``variant`` names one of several ways to form it.
    target : true value, which the interval should hold; nan if unknown.
    condition : one of the ladder, or :data:`OWN_NULL`.
    planted : planted bias, in words.
    unit : repeated concept or test.
    excluded : True if the null value is excluded, if the interval does not show it.
    """
    null, low, high = estimate.null_value, estimate.low, estimate.high
    if excluded is None and null is not None and not math.isnan(low):
        excluded = not low - _ROUNDING <= null <= high + _ROUNDING
    return {
        "measure": measure,
        "variant": variant,
        "planted": planted,
        "unit": unit,
        "condition": condition,
        "repetition": repetition,
        "value": estimate.value,
        "low": low,
        "high": high,
        "target": target,
        "excluded": math.nan if excluded is None else float(excluded),
    }


def results_of(measurements: pd.DataFrame, settings: StudySettings, *, notes: Sequence[str] = ()) -> Results:
    """Findings, tables and figures of repeated measurements: rows of :func:`measured`, as more is planted."""
    verdicts = list(verdicts_of(measurements, settings.confidence))
    return Results(
        findings=tuple(
            finding(one.name, f"{what}, {one.name}", one.measure, share, f"{one.says[0].upper()}{one.says[1:]}.")
            for one in verdicts
            for what, share in [_share_of(one)]
        ),
        tables=(
            verdict_table(verdicts),
            TEXTS.table("summary", named("summary", _summary(_scored(measurements)))),
            TEXTS.table("repetitions", named("repetitions", measurements)),
        ),
        figures=(*verdict_figures(verdicts, settings.confidence), _rise_figure(measurements)),
        notes=tuple(notes),
    )


def _share_of(verdict: "Verdict") -> tuple[str, Estimate]:
    """Summary of a measure in one number: its coverage, or the false alarms of a test without interval."""
    if verdict.coverage is not None:
        return "Intervals that hold their target", verdict.coverage
    nothing = Estimate.undefined(0, "neither an interval nor a null value")
    return "False alarms", verdict.false_alarms or nothing


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Verdict on one measure, and the numbers behind it."""

    measure: str  # key
    label: str  # its name with the variant
    planted: str
    coverage: Estimate | None  # share of the intervals that hold the target, over all conditions; None without any
    false_alarms: Estimate | None  # share of those under the measure's null that exclude "no bias"
    means: tuple[float, ...]  # by condition, as more is planted
    follows: bool  # True if it moves to the expected side at every step
    says: str  # the verdict in words, by :func:`rule`

    @property
    def name(self) -> str:
        """Label, with the planted bias."""
        return ", ".join(filter(None, (self.label, self.planted)))


def verdicts_of(table: pd.DataFrame, nominal: float) -> Iterator[Verdict]:
    """Verdict on every measure of the table, in its order; ``nominal`` is the expected coverage."""
    for (measure, variant, planted), rows in _scored(table).groupby(_KEYS, sort=False):
        defined, steps = rows[rows["held"].notna()], rows[rows["condition"] != OWN_NULL]
        usable = varied if len(varied := defined[_varies(defined)]) else defined
        if steps.empty or (usable.empty and rows["excluded"].isna().all()):
            continue  # undefined on every set of pictures
        coverage = exact_interval(int(usable["held"].sum()), len(usable), null_value=nominal) if len(usable) else None
        null = OWN_NULL if measure in NULL_OF_ITS_OWN else steps["condition"].iloc[0]
        alarms = rows.loc[rows["condition"] == null, "excluded"].dropna()
        false = exact_interval(int(alarms.sum()), len(alarms), null_value=1 - nominal) if len(alarms) else None
        directions = _steps(_wide(steps).dropna(axis=1, how="all") * (-1.0 if measure in FALLING else 1.0))
        has_null = METRICS[str(measure)].null_value is not None or bool(rows["excluded"].notna().any())
        yield Verdict(
            measure=str(measure),
            label=label_of(measure, variant),
            planted=str(planted),
            coverage=coverage,
            false_alarms=false,
            means=tuple(steps.groupby("condition", sort=False)["value"].mean()),
            follows=all(step > 0 for step in directions),
            says=_words(coverage, false, directions, nominal=nominal, has_null=has_null),
        )


def verdict_table(verdicts: Sequence[Verdict]) -> StudyTable:
    """A line per measure; the means are those of the first condition, of those between, and of the last."""
    lines = []
    for verdict in verdicts:
        first, *between, last = ("–" if math.isnan(mean) else typeset(mean, ".3g") for mean in verdict.means)
        held, alarms = (
            "–" if share is None else f"{100 * share.value:.1f} % of {share.n:,}"
            for share in (verdict.coverage, verdict.false_alarms)
        )
        lines.append(
            {
                "measure": verdict.label,
                "planted": verdict.planted,
                "intervals hold": held,
                "false alarms": alarms,
                "nothing planted": first,
                "some": ", ".join(between) or "–",
                "all": last,
                "follows": "yes" if verdict.follows else "no",
                "verdict": verdict.says,
                "kind": kind_of(verdict.measure),
            }
        )
    return TEXTS.table("verdicts", named("verdicts", pd.DataFrame(lines)), rule=rule())


def verdict_figures(verdicts: Sequence[Verdict], nominal: float) -> tuple[StudyFigure, ...]:
    """Figures of coverage and of false alarms, as shares."""
    coverage = [mark(v.name, v.coverage, n=v.coverage.n) for v in verdicts if v.coverage]
    alarms = [mark(v.name, v.false_alarms, n=v.false_alarms.n) for v in verdicts if v.false_alarms]
    return drawable(
        [
            TEXTS.figure("coverage", coverage, {"null": nominal}, percent=100 * nominal),
            TEXTS.figure("alarms", alarms, {"null": 1 - nominal}, percent=100 * (1 - nominal)),
        ]
    )


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Add ``held`` to the table: 1, 0, or nan without an interval or a known target."""
    inside = (table["low"] - _ROUNDING <= table["target"]) & (table["target"] <= table["high"] + _ROUNDING)
    return table.assign(held=inside.astype(float).where(table[["low", "high", "target"]].notna().all(axis=1)))


def _varies(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Mark rows with conditions that can be missed: not if every repetition gives exactly the target."""
    away = (rows["value"] - rows["target"]).abs().groupby(rows["condition"]).transform("max")
    repeated = rows.groupby("condition")["value"].transform("size") > 1
    return (away > _ROUNDING) | ~repeated


def _summary(scored: pd.DataFrame) -> pd.DataFrame:
    lines = scored.assign(
        measure=list(map(label_of, scored["measure"], scored["variant"])), bias=scored["value"] - scored["target"]
    ).groupby(["measure", "planted", "condition"], sort=False)
    summary: pd.DataFrame = (
        lines[["value", "target", "bias", "held", "excluded"]].mean().assign(n=lines["value"].count()).reset_index()
    )
    return summary.rename(columns={"value": "mean", "excluded": "null excluded"})


def _steps(wide: pd.DataFrame) -> list[int]:
    """Direction of every step to the next condition: 1 clearly up, -1 clearly down, else 0."""
    directions = []
    for before, after in pairwise(wide):
        step = (wide[after] - wide[before]).dropna()
        reach = STANDARD_ERRORS * step.std(ddof=1) / math.sqrt(len(step)) if len(step) > 1 else math.inf
        directions.append(int(step.mean() > reach) - int(step.mean() < -reach))
    return directions


def _words(
    coverage: Estimate | None,
    false_alarms: Estimate | None,
    directions: Sequence[int],
    *,
    nominal: float,
    has_null: bool,
) -> str:
    """Words of the verdict: clearly wrong fails, shown to be right passes, all else is inconclusive."""
    failures: list[str] = []
    doubts: list[str] = []
    n = min((share.n for share in (coverage, false_alarms) if share), default=0)
    if coverage is not None and coverage.value < LEAST_COVERAGE:
        (failures if coverage.high < nominal else doubts).append("intervals too narrow")
    if false_alarms is not None and false_alarms.value > MOST_ALARMS:
        (failures if false_alarms.low > 1 - nominal else doubts).append(READS_BIAS)
    if any(step < 1 for step in directions):
        (failures if n >= FEWEST or min(directions) < 0 else doubts).append("does not follow what is planted")
    if has_null and false_alarms is None:
        doubts.append("its null is not planted")
    if failures:
        return f"fails: {'; '.join(failures)}"
    if n < FEWEST:
        doubts = [f"{n:,} of the {FEWEST} intervals that a verdict needs"]
    if doubts:
        return f"inconclusive: {'; '.join(doubts)}"
    wide = coverage is not None and coverage.value > MOST_COVERAGE and coverage.low > nominal
    return "passes (intervals wider than necessary)" if wide else "passes"


def _rise_figure(table: pd.DataFrame) -> StudyFigure:
    """Figure of the change from the first condition, in standard deviations of one measurement."""
    marks = []
    for (measure, variant, planted), rows in table[table["condition"] != OWN_NULL].groupby(_KEYS, sort=False):
        wide = _wide(rows)
        spread = float(wide.groupby("unit").std(ddof=1).pow(2).mean().mean() ** 0.5)
        if not spread > 0:  # one repetition, or the same number each time
            continue
        name = ", ".join(filter(None, (label_of(measure, variant), str(planted))))
        for condition, values in list(wide.items())[1:]:
            step = (values - wide.iloc[:, 0]).dropna() / spread
            if len(step) < 2:  # undefined in one of the two conditions
                continue
            reach = STANDARD_ERRORS * step.std(ddof=1) / math.sqrt(len(step))
            ends = {"value": step.mean(), "low": step.mean() - reach, "high": step.mean() + reach}
            marks.append({"name": name, "group": condition, **ends})
    return TEXTS.figure("rise", marks)


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per unit and repetition, a column per condition in the order of the rows."""
    return rows.pivot_table("value", ["unit", "repetition"], "condition", sort=False).reindex(
        columns=list(dict.fromkeys(rows["condition"]))
    )


def label_of(measure: Any, variant: Any) -> str:
    """Name of a measure with its variant."""
    return ", ".join(filter(None, (METRICS[measure].name, str(variant))))
