"""Is the instrument right? What is planted in the calibration world against what is measured there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.stereotype import signed_difference_estimate, stereotype_estimate
from bias_core.stats.effects import corrected_by_errors, wilson_interval
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings
from bias_core.studies.reports.build import columns, figure, table
from bias_core.studies.validity.summary import ladder, measured, verdict_figures, verdict_table, verdicts_of
from bias_core.types import Estimate

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.types import PlantedLine, ReaderErrors

GAP = 0.15  # planted rates closer than this are not expected to be told apart


@settings_class(frozen=True, kw_only=True)
class RateOptions(Options):
    """Which concepts are drawn under which conditions."""

    conditions: tuple[str, ...] = setting(
        ("fair", "published", "extreme"), "Conditions", "Two or more, as more is planted"
    )
    every: int = setting(1, "Every k-th concept", "10: only every tenth concept", ge=1, le=1000)


def rate_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Every prompt of a planted rate, in every condition; as many pictures a concept as the design says.

    The option ``every`` leaves concepts out: with 10, only every tenth is drawn.
    """
    n = scaled(design.images_per_prompt, settings.scale)
    return [
        Shot(prompt=prompt, n=max(1, math.ceil(n / len(prompts))), group=condition, condition=condition)
        for prompts in _concepts(design, settings)
        for condition in ladder(settings)
        for prompt in prompts
    ]


def _concepts(design: Design, settings: StudySettings) -> Sequence[Sequence[str]]:
    concepts: Sequence[Sequence[str]] = design.data["concepts"]
    every = int(settings.options.every)
    if not concepts or every < 1:
        raise InvalidInput(
            f"{design.name} needs the prompts of the calibration world's concepts, and at least every 1st; "
            f"got {len(concepts)} and every = {every}"
        )
    return concepts[::every]


def measure_rates(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """P, corrected P and Psi of every planted rate in every condition."""
    frame = data.frame
    rows = yield from data.embed(frame)
    drawn = set(map(tuple, _concepts(design, settings)))
    lines = [line for line in data.services.planted_lines() if tuple(line.prompts) in drawn]
    pairs = list(dict.fromkeys((line.positive, line.negative) for line in lines))
    errors = data.services.reader_errors(settings.encoder, settings.model, pairs)
    texts = data.texts([sentence for pair in pairs for sentence in pair])
    leans = dict(zip(pairs, texts[0::2] - texts[1::2], strict=True))
    truths = np.array(data.truths(frame), dtype=object)
    places = frame.groupby(["prompt", "group"], sort=False).indices
    known = dict(zip(pairs, errors, strict=True))
    found = []
    for line in lines:
        data.check()
        pair = line.positive, line.negative
        for condition in ladder(settings):
            here = np.concatenate([places[prompt, condition] for prompt in line.prompts])
            said = rows[here] @ leans[pair] > 0
            found.append(_reading(line, condition, said, truths[here], known[pair], settings.confidence))
    rates = pd.DataFrame(found)
    order = _orders(rates)
    verdicts = list(verdicts_of(pd.DataFrame(list(_measurements(rates, settings))), settings.confidence))
    return Results(
        findings=(*_coverages(rates, settings.confidence), *_order_findings(order, settings.confidence)),
        tables=(
            verdict_table(verdicts),
            table("rates", "Planted against measured", rates, _NOTE),
            table("order", "Ψ as more is planted", order),
        ),
        figures=(_planted_figure(rates), *verdict_figures(verdicts, settings.confidence)),
        notes=(
            f"{int(rates['corrected'].isna().sum()):,} of {len(rates):,} shares could not be corrected: "
            "the reader's errors on their sentences are not known or too large.",
        ),
    )


_NOTE = (
    "planted: the rate that is drawn from; drawn: its share in these pictures; measured: the share that the "
    "reader calls positive; corrected: after Rogan and Gladen, with the interval that should cover what is "
    "planted in 95 % of the lines."
)


def _reading(
    line: PlantedLine,
    condition: str,
    said: np.ndarray,
    truths: np.ndarray,
    errors: ReaderErrors | None,
    confidence: float,
) -> dict[str, object]:
    """One line of the table: a planted rate in one condition."""
    planted, n = line.rates[condition], len(said)
    drawn = float(np.mean([truth[line.attribute] == line.value for truth in truths]))
    seen = wilson_interval(int(said.sum()), n, confidence=confidence)
    corrected = _corrected(said, errors, confidence)
    return {
        "concept": line.concept,
        "attribute": line.attribute,
        "value": str(line.value),
        "condition": condition,
        "planted": planted,
        "drawn": drawn,
        **columns("measured", seen),
        **columns("corrected", corrected, ends=""),
        "covered": bool(corrected and corrected.low - 1e-9 <= planted <= corrected.high + 1e-9),
        "covered uncorrected": seen.low - 1e-9 <= planted <= seen.high + 1e-9,
        "n": n,
        "source": line.source,
    }


def _corrected(said: np.ndarray, errors: ReaderErrors | None, confidence: float) -> Estimate | None:
    if errors is None or errors.sensitivity + errors.specificity <= 1:
        return None
    return corrected_by_errors(int(said.sum()), len(said), errors, confidence=confidence)


def _coverages(table: pd.DataFrame, confidence: float) -> list[Finding]:
    """Share of intervals that hold the planted rate, per condition and in all."""
    known = table[table["corrected"].notna()]
    names = dict.fromkeys(known["condition"])
    groups = [("all conditions", known), *((name, known[known["condition"] == name]) for name in names)]
    return [
        Finding(
            key=f"coverage {name}",
            title=f"Corrected intervals that hold the planted rate, {name}",
            metric="attribute_prevalence",
            estimate=wilson_interval(int(rows["covered"].sum()), len(rows), null_value=confidence),
            says=f"Nominal {100 * confidence:g} %; without the correction "
            f"{100 * rows['covered uncorrected'].mean():.1f} %.",
        )
        for name, rows in groups
        if len(rows)
    ]


def _orders(table: pd.DataFrame) -> pd.DataFrame:
    """Per planted rate: Psi towards its side, and whether it rises from condition to condition.

    P* is the first condition's rate. Where the last one lies below it, the absence of the attribute is what
    is over-represented, and its Psi is taken.
    """
    names = list(dict.fromkeys(table["condition"]))
    lines = []
    for (concept, attribute, value), rows in table.groupby(["concept", "attribute", "value"], sort=False):
        by = rows.set_index("condition")
        planted = by["planted"]
        side = _side(planted[names])
        psi = {c: max(0.0, side * (by.loc[c, "measured"] - planted[names[0]])) for c in names}
        lines.append(
            {
                "concept": concept,
                "attribute": attribute,
                "value": value,
                "gap": float(planted[names].diff().abs().min()),
                **{f"Ψ {condition}": psi[condition] for condition in names},
                "in order": all(psi[a] < psi[b] for a, b in pairwise(names)),
            }
        )
    return pd.DataFrame(lines)


def _side(planted: pd.Series) -> float:
    """1 where more is planted from condition to condition, -1 where less is."""
    return 1.0 if planted.iloc[-1] > planted.iloc[0] else -1.0


def _measurements(table: pd.DataFrame, settings: StudySettings) -> Iterator[dict[str, Any]]:
    """P, P − P* and Ψ of every planted rate, of the attribute or of its absence, whichever is planted."""
    first = ladder(settings)[0]
    for (concept, attribute, value), rows in table.groupby(["concept", "attribute", "value"], sort=False):
        present = _side(rows["planted"]) > 0
        fair = float(rows.loc[rows["condition"] == first, "planted"].iloc[0])
        for _, row in rows.iterrows():
            seen = _towards(row, ("measured", "measured low", "measured high"), present=present)
            mended = _towards(row, ("corrected", "low", "high"), present=present)
            share, even = (x if present else 1 - x for x in (float(row["planted"]), fair))
            for measure, estimate, target, variant in (
                ("attribute_prevalence", seen, share, "as read"),
                ("attribute_prevalence", mended, share, "corrected"),
                ("signed_difference", signed_difference_estimate(seen, even), share - even, "as read"),
                ("stereotype_score", stereotype_estimate(seen, even), max(0.0, share - even), "as read"),
            ):
                yield measured(
                    measure,
                    estimate,
                    target=target,
                    variant=variant,
                    unit=f"{concept}, {attribute}, {value}",
                    condition=str(row["condition"]),
                    planted="every rate",
                )


def _towards(row: pd.Series, columns: tuple[str, str, str], *, present: bool) -> Estimate:
    """The share of the attribute, or of its absence."""
    value, low, high = (float(row[column]) for column in columns)
    if not present:
        value, low, high = 1 - value, 1 - high, 1 - low
    return Estimate(value=value, low=low, high=high, n=int(row["n"]))


def _order_findings(order: pd.DataFrame, confidence: float) -> list[Finding]:
    clear = order[order["gap"] >= GAP]
    return [
        Finding(
            key=f"order {key}",
            title=f"Ψ rises at every step, {words}",
            metric="stereotype_score",
            estimate=wilson_interval(int(rows["in order"].sum()), len(rows), confidence=confidence),
            says="Share of the planted rates; rates that lie close together are ranked by chance.",
        )
        for key, words, rows in (
            ("clear", f"planted rates at least {GAP:g} apart", clear),
            ("all", "all planted rates", order),
        )
        if len(rows)
    ]


def _planted_figure(table: pd.DataFrame) -> StudyFigure:
    known = table[table["corrected"].notna()]
    names = known["concept"] + ", " + known["attribute"] + ", " + known["value"]
    points = known[["planted", "corrected", "condition"]].set_axis(["x", "y", "group"], axis=1)
    return figure(
        "scatter",
        "planted",
        "Planted against measured",
        points.assign(name=names),
        "Each point is an attribute of a concept; on the dashed line the instrument is right.",
        x="planted rate",
        y="measured, corrected",
        diagonal=True,
    )


PROGRAMS = {"validity_rates": Program(shots=rate_shots, measure=measure_rates, options=RateOptions)}
