"""Measured against planted rates of the calibration world."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.cards import with_works
from bias_core.measures.effects import corrected_by_errors
from bias_core.measures.intervals import exact_interval
from bias_core.measures.stereotype import signed_difference_estimate, stereotype_estimate
from bias_core.protocols import StepCallback
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    finding,
    get_options,
)
from bias_core.types import Estimate, PlantedLine
from bias_core.values import setting, settings_class
from bias_core.world.planted import planted_lines
from validation.repetitions import ENOUGH_FOR_TRUTH, RepetitionOptions, ladder, n_repetitions, repeated
from validation.shares import false_verdicts
from validation.verdicts import TEXTS, measured, named, verdict_figures, verdict_table, verdicts_of

Shares = tuple[Estimate, Estimate | None]
"""Shares by the classifier: as read, and corrected for its errors if they are known."""


GAP = 0.15  # no order is expected of planted rates closer than this


@settings_class(frozen=True, kw_only=True)
class RateOptions(RepetitionOptions):
    """Options of the study of planted rates."""

    repetitions: int = setting(3, "Parts", "Parts of every rate's pictures, one per seed", ge=1, le=1000)
    n_draws: int = setting(20_000, "Draws", "Random counts per headline, without pictures", ge=100, le=1_000_000)
    every: int = setting(1, "Every k-th concept", "10: only every tenth concept", ge=1, le=1000)


def _concepts(design: Design, settings: StudySettings) -> Sequence[Sequence[str]]:
    concepts: Sequence[Sequence[str]] = design.data["concepts"]
    every = int(get_options(settings, RateOptions).every)
    if not concepts or every < 1:
        raise InvalidInput(
            f"{design.name} needs the prompts of the calibration world's concepts, and at least every 1st; "
            f"got {len(concepts)} and every = {every}"
        )
    return concepts[::every]


def _as_drawn(line: PlantedLine, data: Run, places: Mapping[Any, Any], settings: StudySettings) -> PlantedLine:
    """Replace the planted rate by the model's own drawn rate, if the model has one."""
    rates = {}
    for condition in ladder(settings):
        first = np.concatenate([places[prompt, condition] for prompt in line.prompts])
        here = data.stored(data.frame.iloc[first])
        if here[0].truth is not None:
            return line
        own = data.services.true_rate([one.row for one in here], line.positive)
        if own is None or own.n < ENOUGH_FOR_TRUTH:
            how = "not measured" if own is None else f"measured on {own.n} pictures only"
            raise InvalidInput(
                f"what {settings.model} draws of {line.concept} under {condition} was {how} with these weights, steps "
                f"and guidance, and a truth needs {ENOUGH_FOR_TRUTH:,}; measure it by: python -m training judge-rates"
            )
        rates[condition] = own.value
    return replace(line, rates=rates)


def _reading(line: PlantedLine, condition: str, shares: Shares, truths: np.ndarray) -> dict[str, Any]:
    uncorrected, corrected = shares
    true = line.rates[condition]
    covered, covered_uncorrected = (
        bool(share and share.low - 1e-9 <= true <= share.high + 1e-9) for share in (corrected, uncorrected)
    )
    return {
        "concept": line.concept,
        "attribute": line.attribute,
        "value": str(line.value),
        "condition": condition,
        "planted": true,
        "true P": true,
        "drawn": math.nan if truths[0] is None else float(np.mean([t[line.attribute] == line.value for t in truths])),
        **columns("measured", uncorrected),
        **columns("corrected", corrected, ends=""),
        "covered": covered,
        "covered uncorrected": covered_uncorrected,
        "n": uncorrected.n,
        "source": with_works([line.source])[0],
    }


def _findings(rates: pd.DataFrame, order: pd.DataFrame, confidence: float) -> tuple[Finding, ...]:
    """Share of intervals that hold the planted rate, overall and per condition; share of rates in order."""
    correctable, title = rates[rates["corrected"].notna()], "Corrected intervals that hold the planted rate"
    nominal = f"Nominal {100 * confidence:g} %; without the correction"
    findings = [
        finding(f"coverage {name}", f"{title}, {name}", "attribute_prevalence", held, f"{nominal} {uncorrected:.1f} %.")
        for name, rows in (("all conditions", correctable), *correctable.groupby("condition", sort=False))
        if len(rows)
        for held in [exact_interval(int(rows["covered"].sum()), len(rows), null_value=confidence)]
        for uncorrected in [100 * rows["covered uncorrected"].mean()]
    ]
    says = "Share of the planted rates; rates that lie close together are ranked by chance."
    for key, words, rows in (
        ("clear", f"planted rates at least {GAP:g} apart", order[order["gap"] >= GAP]),
        ("all", "all planted rates", order),
    ):
        if len(rows):
            share = exact_interval(int(rows["in order"].sum()), len(rows), confidence=confidence)
            title = f"Ψ rises at every step, {words}"
            findings.append(finding(f"order {key}", title, "stereotype_score", share, says))
    return tuple(findings)


def _orders(table: pd.DataFrame) -> pd.DataFrame:
    """Per planted rate: Psi towards its side, and a flag that it rises from condition to condition.

    P* is the first condition's rate. If the last one lies below it, the absence of the attribute is
    over-represented, and its Psi is taken.
    """
    names = list(dict.fromkeys(table["condition"]))
    by = ["concept", "attribute", "value"]
    planted, measured_shares = (
        table.pivot_table(column, by, "condition", sort=False)[names] for column in ("planted", "measured")
    )
    fair = planted[names[0]]
    psi = measured_shares.sub(fair, axis=0).mul(np.where(planted[names[-1]] > fair, 1.0, -1.0), axis=0).clip(lower=0.0)
    orders = psi.add_prefix("Ψ ").rename_axis(columns=None)
    orders.insert(0, "gap", planted.diff(axis=1).abs().min(axis=1))
    return orders.assign(**{"in order": (psi.diff(axis=1).iloc[:, 1:] > 0).all(axis=1)}).reset_index()


def _measurements(
    line: PlantedLine, condition: str, shares: Shares, settings: StudySettings
) -> Iterator[dict[str, Any]]:
    """P, P − P* and Ψ of a planted rate, for the attribute or its absence, as planted."""
    first, *_, last = ladder(settings)
    present = line.rates[last] > line.rates[first]
    uncorrected, corrected = (_towards(share, shares[0].n, present=present) for share in shares)
    share, even = (rate if present else 1 - rate for rate in (line.rates[condition], line.rates[first]))
    unit = f"{line.concept}, {line.attribute}, {line.value}"
    where: dict[str, Any] = {"unit": unit, "condition": condition, "planted": "every rate"}
    for measure, estimate, target, variant in (
        ("attribute_prevalence", uncorrected, share, "as read"),
        ("attribute_prevalence", corrected, share, "corrected"),
        ("signed_difference", signed_difference_estimate(uncorrected, even), share - even, "as read"),
        *(
            ("signed_difference", signed_difference_estimate(one, even), share - even, "corrected")
            for one in (corrected,)
            if not math.isnan(one.value)
        ),
        ("stereotype_score", stereotype_estimate(uncorrected, even), max(0.0, share - even), "as read"),
    ):
        yield measured(measure, estimate, target=target, variant=variant, **where)


def _towards(share: Estimate | None, n: int, *, present: bool) -> Estimate:
    if share is None:
        return Estimate(value=math.nan, low=math.nan, high=math.nan, n=n)
    value, low, high = share.value, share.low, share.high
    if not present:
        value, low, high = 1 - value, 1 - high, 1 - low
    return Estimate(value=value, low=low, high=high, n=n)


def _planted_figure(table: pd.DataFrame) -> StudyFigure:
    correctable = table[table["corrected"].notna()]
    names = correctable["concept"] + ", " + correctable["attribute"] + ", " + correctable["value"]
    return TEXTS.figure(
        "planted",
        correctable[["true P", "corrected", "condition"]].set_axis(["x", "y", "group"], axis=1).assign(name=names),
    )


class ValidityRates(Study):
    """The study of the kind ``validity_rates``."""

    kind = "validity_rates"
    options = RateOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Every prompt of a planted rate, in every condition; with the design's number of pictures per concept.

        The option ``every`` skips concepts: 10 draws only every tenth. The scale reduces the number of pictures.
        """
        whole = replace(settings, scale=1.0)
        n, n_parts = scaled(self.design.images_per_prompt, settings.scale), n_repetitions(whole)

        def of_cell(_group: str, _chance: Random) -> Iterator[Shot]:
            for prompts in _concepts(self.design, settings):
                for prompt in prompts:
                    yield Shot(prompt=prompt, n=math.ceil(n / len(prompts) / n_parts), group="")

        return repeated(whole, of_cell)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """P, corrected P and Psi of every planted rate in every condition."""
        frame = data.frame
        rows = yield from data.embed(frame)
        drawn = set(map(tuple, _concepts(self.design, settings)))
        lines = [line for line in planted_lines() if tuple(line.prompts) in drawn]
        pairs = list(dict.fromkeys((line.positive, line.negative) for line in lines))
        errors = dict(zip(pairs, data.services.reader_errors(settings.encoder, settings.model, pairs), strict=True))
        texts = data.texts([sentence for pair in pairs for sentence in pair])
        leans = dict(zip(pairs, texts[0::2] - texts[1::2], strict=True))
        truths = np.array(data.truths(frame), dtype=object)
        places = frame.groupby(["prompt", "group"], sort=False).indices

        def work(planted: PlantedLine, _: StepCallback) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
            cells, line = [], _as_drawn(planted, data, places, settings)
            error = errors[pair := (line.positive, line.negative)]
            for condition in ladder(settings):
                here = np.concatenate([places[prompt, condition] for prompt in line.prompts])
                count, n = int((rows[here] @ leans[pair] > 0).sum()), len(here)
                shares = (
                    exact_interval(count, n, confidence=settings.confidence),
                    corrected_by_errors(count, n, error, confidence=settings.confidence)
                    if error and error.sensitivity + error.specificity > 1
                    else None,
                )
                reading = _reading(line, condition, shares, truths[here]) | {"planted": planted.rates[condition]}
                cells.append((reading, list(_measurements(line, condition, shares, settings))))
            return cells

        parts = yield from data.map_until_stopped("planted rates", lines, work)
        readings, measurements = zip(*(one for part in parts for one in part), strict=True)
        rates = pd.DataFrame(readings)
        order = _orders(rates)
        counted = false_verdicts(get_options(settings, RateOptions).n_draws)
        verdicts = list(verdicts_of(pd.DataFrame([one for some in measurements for one in some]), settings.confidence))
        verdicts += counted.verdicts
        return Results(
            findings=_findings(rates, order, settings.confidence),
            tables=(
                verdict_table(verdicts),
                *counted.tables,
                TEXTS.table("rates", named("rates", rates)),
                TEXTS.table("order", order),
            ),
            figures=(_planted_figure(rates), *counted.figures, *verdict_figures(verdicts, settings.confidence)),
            notes=(TEXTS.note("uncorrected", n_uncorrected=int(rates["corrected"].isna().sum()), n=len(rates)),),
        )
