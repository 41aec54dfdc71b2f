"""What repeated measurements show of a measure, and the validity studies as one report: a page and a folder each."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from bias_core.errors import InvalidInput, StorageError
from bias_core.exchange.export import csv_bytes
from bias_core.metrics.cards import METRICS
from bias_core.settings import ASSETS
from bias_core.stats.effects import wilson_interval
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import (
    Results,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    finding,
    mark,
)
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.saved import SavedReport, from_text, to_text
from bias_core.studies.reports.text import MOST_ROWS, markdown_table, readable, table_of, to_markdown
from bias_core.types import Estimate, PlantedLine

TEXTS = ReportTexts(__file__)
LADDER = ("fair", "published", "extreme")
"""Conditions of which all planted rates are known, in the order in which more is planted."""
TOLERANCE = 0.05  # a share this far from its nominal value fails; nearer, it is remarked on
STANDARD_ERRORS = 2.0  # that a step from condition to condition must exceed
SEEDS_APART = 1000  # between repetitions
FALLING = frozenset(
    {"distribution_bias", "normalised_entropy", "effective_number", "weighted_alignment_score", "spread_along"}
)
"""Measures of variety and evenness: these fall as more is planted, all others rise."""

RULE = (
    "Rule: a measure fails where its intervals hold the target clearly less often than nominal (the Wilson interval of "
    f"the share lies below it) by more than {100 * TOLERANCE:g} points, where more than {100 * TOLERANCE:g} points "
    "beyond the nominal 5 % of its intervals on the first condition exclude the value of no bias, again clearly, or "
    f"where its mean does not move to the expected side at every step by more than {STANDARD_ERRORS:g} standard errors "
    "of the paired differences. Clear but smaller deviations are remarked on in brackets."
)
FEWEST_REPETITIONS = 3  # range of the option, for every study that repeats its measurement
_KEYS = ["measure", "variant", "planted"]
_ROUNDING = 1e-9


@settings_class(frozen=True, kw_only=True)
class RepetitionOptions(Options):
    """How often the same is measured again."""

    conditions: tuple[str, ...] = setting(
        ("fair", "published", "extreme"), "Conditions", "Two or more, as more is planted"
    )
    repetitions: int = setting(30, "Repetitions", "How often everything is drawn and measured anew", ge=1, le=200)


def planted_shares(lines: Sequence[PlantedLine], prompt: str) -> dict[str, float]:
    """Share of masculine people by condition, planted for this prompt's concept; InvalidInput where there is none."""
    for line in lines:
        if line.attribute == "gender" and prompt.lower() in map(str.lower, line.prompts):
            masculine = line.value == "masculine"
            return {c: rate if masculine else 1 - rate for c, rate in line.rates.items()}
    raise InvalidInput(f"no perceived gender is planted for {prompt!r}")


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
    measure : key in the table of measures; ``variant`` tells two ways of forming it apart.
    target : what the interval should hold.
    planted : what is planted, in words.
    unit : what is measured again and again: a concept, a test.
    excluded : whether the value of no bias is excluded, where that is not read from the interval.
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
            finding(one.name, f"Intervals that hold their target, {one.name}", one.measure, one.coverage, f"{says}.")
            for one in verdicts
            for says in [f"{one.says[0].upper()}{one.says[1:]}"]
        ),
        tables=(
            verdict_table(verdicts),
            TEXTS.table("summary", _summary(_scored(measurements))),
            TEXTS.table("repetitions", measurements),
        ),
        figures=(*verdict_figures(verdicts, settings.confidence), _rise_figure(measurements)),
        notes=tuple(notes),
    )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was seen of one measure."""

    measure: str  # key
    label: str  # its name with the variant
    planted: str
    coverage: Estimate  # share of the intervals that hold the target, over all conditions
    false_alarms: Estimate | None  # share of those of the first condition that exclude "no bias"
    means: tuple[float, ...]  # by condition, as more is planted
    follows: bool  # whether it moves to the expected side at every step
    says: str  # the verdict in words, by :data:`RULE`

    @property
    def name(self) -> str:
        """The label with what was planted."""
        return ", ".join(filter(None, (self.label, self.planted)))


def verdicts_of(table: pd.DataFrame, nominal: float) -> Iterator[Verdict]:
    """The verdict on every measure of the table, in its order; ``nominal`` is the coverage to expect."""
    for (measure, variant, planted), rows in _scored(table).groupby(_KEYS, sort=False):
        usable = rows[rows["held"].notna()]
        if usable.empty:
            continue  # undefined on every set of pictures
        coverage = wilson_interval(int(usable["held"].sum()), len(usable), null_value=nominal)
        alarms = rows.loc[rows["condition"] == rows["condition"].iloc[0], "excluded"].dropna()
        false = wilson_interval(int(alarms.sum()), len(alarms), null_value=1 - nominal) if len(alarms) else None
        follows = _follows(_wide(rows) * (-1.0 if measure in FALLING else 1.0))
        yield Verdict(
            measure=str(measure),
            label=_label(measure, variant),
            planted=str(planted),
            coverage=coverage,
            false_alarms=false,
            means=tuple(rows.groupby("condition", sort=False)["value"].mean()),
            follows=follows,
            says=_words(coverage, false, follows=follows, nominal=nominal),
        )


def verdict_table(verdicts: Sequence[Verdict]) -> StudyTable:
    """A line per measure; the means are those of the first condition, of those between, and of the last."""
    lines = []
    for verdict in verdicts:
        first, *between, last = ("–" if math.isnan(mean) else f"{mean:.3g}" for mean in verdict.means)
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
            }
        )
    return TEXTS.table("verdicts", lines, rule=RULE)


def verdict_figures(verdicts: Sequence[Verdict], nominal: float) -> tuple[StudyFigure, StudyFigure]:
    """The intervals that hold their target, and those that read bias where none is planted, as shares."""
    coverage = [mark(verdict.name, verdict.coverage, n=verdict.coverage.n) for verdict in verdicts]
    alarms = [mark(v.name, v.false_alarms, n=v.false_alarms.n) for v in verdicts if v.false_alarms]
    return (
        TEXTS.figure("coverage", coverage, {"null": nominal}, percent=100 * nominal),
        TEXTS.figure("alarms", alarms, {"null": 1 - nominal}, percent=100 * (1 - nominal)),
    )


def in_every_condition(shots: Iterable[Shot], settings: StudySettings) -> list[Shot]:
    """The shots under each condition of the run, which is their group, as more is planted."""
    plain = list(shots)
    return [replace(shot, group=condition, condition=condition) for condition in ladder(settings) for shot in plain]


def repeated(shots: Sequence[Shot], settings: StudySettings) -> list[Shot]:
    """The shots again and again on new seeds, with the number of the repetition among their facts."""
    return [
        replace(shot, first_seed=shot.first_seed + SEEDS_APART * (k + 1), facts={**shot.facts, "repetition": k})
        for k in range(scaled(settings.options.repetitions, settings.scale, least=FEWEST_REPETITIONS))
        for shot in shots
    ]


def ladder(settings: StudySettings) -> list[str]:
    """The conditions of a run, as more is planted; InvalidInput for less than two, others, or imported pictures."""
    if settings.images:
        raise InvalidInput("nothing is planted in imported pictures; the validity studies draw their own")
    conditions = [str(condition) for condition in settings.options.conditions]
    if len(conditions) < 2 or conditions != [condition for condition in LADDER if condition in conditions]:
        raise InvalidInput(f"conditions are two or more of {', '.join(LADDER)} in this order; got {conditions}")
    return conditions


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """The table with ``held``: 1, 0, or nan where there is no interval."""
    inside = (table["low"] - _ROUNDING <= table["target"]) & (table["target"] <= table["high"] + _ROUNDING)
    return table.assign(held=inside.astype(float).where(table["low"].notna() & table["high"].notna()))


def _summary(scored: pd.DataFrame) -> pd.DataFrame:
    lines = scored.assign(
        measure=list(map(_label, scored["measure"], scored["variant"])), bias=scored["value"] - scored["target"]
    ).groupby(["measure", "planted", "condition"], sort=False)
    summary: pd.DataFrame = (
        lines[["value", "target", "bias", "held", "excluded"]].mean().assign(n=lines["held"].count()).reset_index()
    )
    return summary.rename(columns={"value": "mean", "excluded": "null excluded"})


def _follows(wide: pd.DataFrame) -> bool:
    """Whether every step to the next condition is up by more than a few standard errors."""
    for before, after in pairwise(wide):
        step = (wide[after] - wide[before]).dropna()
        if len(step) < 2 or not step.mean() > STANDARD_ERRORS * step.std(ddof=1) / math.sqrt(len(step)):
            return False
    return True


def _words(coverage: Estimate, false_alarms: Estimate | None, *, follows: bool, nominal: float) -> str:
    failures: list[str] = []
    remarks: list[str] = []
    if coverage.high < nominal:
        far = coverage.value < nominal - TOLERANCE
        (failures if far else remarks).append(f"intervals {'too' if far else 'a little'} narrow")
    elif coverage.low > nominal:
        remarks.append("intervals wider than need be")
    level = 1 - nominal
    if false_alarms is not None and false_alarms.low > level:
        far = false_alarms.value > level + TOLERANCE
        (failures if far else remarks).append(
            "reads bias where none is planted" if far else "a few false alarms too many"
        )
    if not follows:
        failures.append("does not follow what is planted")
    head = f"fails: {'; '.join(failures)}" if failures else "passes"
    return f"{head} ({'; '.join(remarks)})" if remarks else head


def _rise_figure(table: pd.DataFrame) -> StudyFigure:
    """Change from the first condition, in standard deviations of one measurement."""
    marks = []
    for (measure, variant, planted), rows in table.groupby(_KEYS, sort=False):
        wide = _wide(rows)
        spread = float(wide.groupby("unit").std(ddof=1).pow(2).mean().mean() ** 0.5)
        if not spread > 0:  # one repetition, or the same number each time
            continue
        name = ", ".join(filter(None, (_label(measure, variant), str(planted))))
        for condition, values in list(wide.items())[1:]:
            step = (values - wide.iloc[:, 0]).dropna() / spread
            reach = STANDARD_ERRORS * step.std(ddof=1) / math.sqrt(len(step))
            ends = {"value": step.mean(), "low": step.mean() - reach, "high": step.mean() + reach}
            marks.append({"name": f"{name}: {condition}", "group": condition, **ends})
    return TEXTS.figure("rise", marks)


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per unit and repetition, a column per condition in the order of the rows."""
    return rows.pivot_table("value", ["unit", "repetition"], "condition", sort=False).reindex(
        columns=list(dict.fromkeys(rows["condition"]))
    )


def _label(measure: Any, variant: Any) -> str:
    return ", ".join(filter(None, (METRICS[measure].name, str(variant))))


STUDIES = ("validity-rates", "validity-measures", "validity-associations", "validity-pairs", "validity-objects")
"""All of them, in the order in which they are told."""

SHIPPED = ASSETS / "validity"
LEFT_OUT = ("repetitions",)  # tables too long for a report; `study run` writes them

NOT_HERE: Mapping[str, str] = {
    "association_effect_size": "S in other units; it has no interval of its own",
    "fleiss_kappa": "of raters, not of pictures",
    "cohen_kappa": "of raters, not of pictures",
    "krippendorff_alpha": "of raters, not of pictures",
    "model_distance": "relative to the models in a table, so it has no planted value",
    "mean_similarity": "in the encoder's own units, so it has no planted value",
    "stereotype_propagation_index": "of denoising steps, which the renderer has none of",
    "kendall_tau": "of two orders, not of pictures",
    "refused_share": "of requests; the renderer refuses nothing",
}
"""Why no validity study tests a measure."""


def report_files(reports: Sequence[StudyReport]) -> dict[str, bytes]:
    """Content of each file by its path in the report's folder."""
    files = {"README.md": _page(reports).encode()}
    for report in map(_without_repetitions, reports):
        folder = report.design.name
        files[f"{folder}/report.md"] = to_markdown(report).encode()
        for one in report.results.tables:
            if len(one.frame) > MOST_ROWS:
                files[f"{folder}/tables/{one.key}.csv"] = csv_bytes(one.frame.round(4))
        # Letters as text, a third of the size; and the same file for the same figure.
        from matplotlib import rc_context  # takes half a second

        with rc_context({"svg.fonttype": "none", "svg.hashsalt": folder}):
            files |= {f"{folder}/figures/{shown.key}.svg": to_bytes(shown) for shown in report.results.figures}
    return files


def shipped_files(reports: Sequence[StudyReport]) -> dict[str, bytes]:
    """The same reports as data, by their path in :data:`SHIPPED`: what the app shows without a run."""
    return {
        f"{report.design.name}.json": to_text(
            replace(_without_repetitions(report), pictures=None, stored={}), SHIPPED
        ).encode()
        for report in reports
    }


def load_shipped(folder: Path = SHIPPED) -> tuple[SavedReport, ...]:
    """The shipped reports that are there, in their order; StorageError where a file cannot be read."""
    paths = [path for name in STUDIES if (path := folder / f"{name}.json").is_file()]
    try:
        texts = [path.read_text(encoding="utf-8") for path in paths]
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read the shipped reports: {error}") from error
    return tuple(from_text(text, folder) for text in texts)


def _without_repetitions(report: StudyReport) -> StudyReport:
    tables = tuple(table for table in report.results.tables if table.key not in LEFT_OUT)
    return replace(report, results=replace(report.results, tables=tables))


def _page(reports: Sequence[StudyReport]) -> str:
    """The verdicts of all studies, the rule that they follow, and what each study draws."""
    verdicts = pd.concat([table_of(report, "verdicts").frame for report in reports], ignore_index=True)
    tested = {finding.metric for report in reports for finding in report.results.findings}
    lines = [
        "# Is the instrument right?",
        "",
        "Written by `BIAS_MAX_IMAGES=50000 python -m bias_core calibrate-report`; no line is by hand. "
        f"It holds for the pictures of {reports[0].settings.model}, read by {reports[0].settings.encoder}, "
        "at the numbers of pictures of each study below.",
        "",
        "## What each measure showed",
        "",
        markdown_table(verdicts),
        "",
        RULE,
        "",
        "nothing planted, some, all: mean of the measure in the first condition, between, and in the last.",
        "",
        "Not tested here:",
        "",
        *(
            f"- {metric.name}: {NOT_HERE.get(metric.key, 'not tested yet')}."
            for key, metric in METRICS.items()
            if key not in tested
        ),
    ]
    for report in reports:
        lines += ["", f"## {report.design.title}", "", report.design.summary, ""]
        lines += [f"{report.n_images:,} pictures. [Tables and figures]({report.design.name}/report.md)", ""]
        if summary := [table for table in report.results.tables if table.key == "summary"]:
            lines += [markdown_table(readable(summary[0].frame)), "", summary[0].note, ""]
        else:
            rows = [
                {"": f.title, **columns("share", f.estimate, ends=""), "n": f.estimate.n, "reads": f.says}
                for f in report.results.findings
            ]
            lines += [markdown_table(readable(pd.DataFrame(rows))), ""]
        lines += [f"- {note}" for note in report.results.notes]
    return "\n".join([*lines, ""])
