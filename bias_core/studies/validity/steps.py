"""Does what a step heads for tell what the finished picture gains? On a model whose planted attributes are known."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bias_core.metrics.predicted_gain import predicted_gain
from bias_core.studies.kit.program import Measuring, Program, StudyData
from bias_core.studies.kit.rows import scaled
from bias_core.studies.kit.setting_fields import Options, setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Progress, Shot, StudySettings, finding, finding_rows, lean
from bias_core.studies.origins.spi import model_suits, trace_row
from bias_core.studies.validity.headline import headline
from bias_core.studies.validity.repetitions import LADDER, ladder
from bias_core.studies.validity.verdicts import TEXTS, measured, named, results_of
from bias_core.types import Attribute, Estimate

LEAST_CORRELATION = 0.6  # with what the finished pictures gain
_FEWEST_SEEDS = 4
_RESAMPLES = 500
_MEASURES = {"predicted_gain": "gain", "stereotype_propagation_index": "SPI"}  # and their columns
_BAR = (
    f"Shown to be at least {LEAST_CORRELATION}.",
    f"Shown to be less than {LEAST_CORRELATION}.",
    f"Inconclusive: so few seeds do not tell whether it is at least {LEAST_CORRELATION}.",
)


@settings_class(frozen=True, kw_only=True)
class StepOptions(Options):
    """Under which conditions steps are traced, and beside which base prompt."""

    conditions: tuple[str, ...] = setting(LADDER, "Conditions", "Two or more, as more is planted")
    base_prompt: str = setting("a photo of a person", "Base prompt", "Drawn from the same noise, to compare with")
    guided: bool = setting(False, "Guided velocities", "With classifier-free guidance, instead of conditional ones")


def step_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of every concept under every condition, all on the same seeds."""
    n = scaled(design.images_per_prompt, settings.scale, least=_FEWEST_SEEDS)
    return [
        Shot(prompt=case["prompt"], n=n, group=condition, condition=condition, facts={"concept": case["concept"]})
        for condition in ladder(settings)
        for case in design.data["cases"]
    ]


def measure_steps(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Predicted gain under every condition, and its rank correlation with what pictures gain over the first."""
    rows = yield from data.embed(data.frame)
    attributes = [Attribute(**one) for one in design.data["attributes"]]
    k = len(attributes)
    texts = data.texts([one.positive for one in attributes] + [one.negative for one in attributes])
    direction = (texts[:k] - texts[k:]).T
    finished = {key: rows[part.index] @ direction > 0 for key, part in data.frame.groupby(["concept", "group"])}
    planted = {case["concept"]: set(case["planted"]) for case in design.data["cases"]}
    lines: list[dict[str, Any]] = []
    seeds: list[pd.DataFrame] = []
    first = ladder(settings)[0]
    for done, ((condition, concept), part) in enumerate(data.frame.groupby(["group", "concept"], sort=False)):
        yield Progress(done=done, total=len(finished), message=f"{concept}, {condition}: looking into the steps")
        own, base, spi = _traced(data, part, attributes, direction)
        gained = finished[concept, condition].astype(float) - finished[concept, first]
        for i, attribute in enumerate(attributes):
            gain = predicted_gain(base[:, :, i], own[:, :, i], confidence=settings.confidence)
            here = {"concept": concept, "attribute": attribute.name, "condition": condition}
            here["planted"] = attribute.name in planted[str(concept)]
            lines.append(_line(here, gain.whole, ladder(settings)))
            of_seeds = {"gain": gain.each.mean(axis=1), "SPI": spi[:, :, i].mean(axis=1), "finished": gained[:, i]}
            seeds.append(pd.DataFrame({**here, "seed": [one.row.seed for one in data.stored(part)], **of_seeds}))
    table = pd.concat(seeds, ignore_index=True)
    findings = _correlations(table[table["condition"] != first], settings)
    note = TEXTS.note("finished gain", least=LEAST_CORRELATION)
    results = results_of(pd.DataFrame(lines), settings, notes=(note,))
    tables = (
        TEXTS.table("correlations", finding_rows(findings, "seeds")),
        *results.tables,
        TEXTS.table("seeds", named("seeds", table)),
    )
    return replace(results, findings=(*findings, *results.findings), tables=tables)


def _line(here: Mapping[str, Any], whole: Estimate, conditions: Sequence[str]) -> dict[str, Any]:
    """One interval; attributes that are not planted stand with the first condition, in which nothing is."""
    first, is_null = conditions[0], here["condition"] == conditions[0] or not here["planted"]
    return measured(
        "predicted_gain",
        whole,
        target=0.0 if is_null else math.nan,
        unit=f"{here['concept']}, {here['attribute']}",
        repetition=0 if here["planted"] else conditions.index(here["condition"]),
        condition=first if is_null else here["condition"],
        planted="attributes of people",
    )


def _traced(
    data: StudyData, part: pd.DataFrame, attributes: Sequence[Attribute], direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margins of the predicted pictures and of the base prompt's, and SPI: ``(n_seeds, n_steps, n_attributes)``."""
    model: Any = data.rows.model(data.services)
    own, base, spi = [], [], []
    for picture in data.stored(part):
        data.check()
        trace = trace_row(data, model, picture.row, attributes, predicted_steps=())
        row = replace(picture.row, prompt=data.settings.options.base_prompt)
        own.append(trace.rows @ direction)
        base.append(trace_row(data, model, row, (), predicted_steps=()).rows @ direction)
        spi.append(trace.spi)
    return np.stack(own), np.stack(base), np.stack(spi)


def _correlations(table: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Of each measure with the finished gain, over planted attributes and seeds, by condition."""
    findings = []
    for condition, lines in table[table["planted"]].groupby("condition", sort=False):
        for key, column in _MEASURES.items():
            wide = {
                name: lines.pivot(index=["concept", "attribute"], columns="seed", values=name)
                for name in (column, "finished")
            }
            estimate = rank_correlation(wide[column].to_numpy(), wide["finished"].to_numpy(), settings)
            title = f"{column} against what finished pictures gained, {condition} against fair"
            says = lean(estimate, *_BAR, null=LEAST_CORRELATION)
            findings.append(finding(f"{column} {condition}", title, key, estimate, says))
    return findings


def rank_correlation(measure: np.ndarray, gained: np.ndarray, settings: StudySettings) -> Estimate:
    """Spearman's, over attributes and seeds ``(n_attributes, n_seeds)``, with a bootstrap interval over seeds."""
    if np.ptp(measure) == 0 or np.ptp(gained) == 0:
        return Estimate.undefined(measure.shape[1], "nothing changes, so there is no rank")
    rng, n = np.random.default_rng(settings.seed), measure.shape[1]
    draws = [rng.integers(0, n, n) for _ in range(_RESAMPLES)]
    values = [_spearman(measure[:, draw], gained[:, draw]) for draw in draws]
    tails = [100 * (1 - settings.confidence) / 2, 100 * (1 + settings.confidence) / 2]
    low, high = np.nanpercentile(values, tails).tolist()
    value = _spearman(measure, gained)
    return Estimate(value=value, low=min(low, value), high=max(high, value), n=n, method="bootstrap over seeds")


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(stats.spearmanr(one.ravel(), other.ravel()).statistic)


PROGRAMS: Mapping[str, Program] = {
    "validity_steps": Program(
        shots=step_shots, measure=measure_steps, suits=model_suits, options=StepOptions, headline=headline
    )
}
