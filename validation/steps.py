"""Tests of the measures of denoising steps and of parts of a model, on the diffusion model with known attributes.

Does a step's prediction agree with the gain of the finished picture? Do the measures name the part that an adapter
changed, and the step by which a text has decided? For the second question a pool of seeds is drawn once in every way.
Repetitions draw seeds from the pool with replacement, so the whole pool gives their truth. Without an exchange,
pictures of other seeds replace the exchanged ones; with half of it, for half of the seeds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from bias_core.measures.exchange import decided_step, exchange_effect, part_effects
from bias_core.measures.intervals import exact_interval, percentile_estimate
from bias_core.measures.propagation import PredictedGain, predicted_gain
from bias_core.models.catalogue import check_condition
from bias_core.papers.oasis.study_spi import model_suits, trace_row
from bias_core.protocols import StepCallback
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Design, Finding, Shot, StudySettings, columns, finding, get_options, value_rows
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, Estimate
from bias_core.values import Options, setting, settings_class
from validation.repetitions import LADDER, POOL, SEEDS, in_each_repetition, ladder, pool_of, pools
from validation.verdicts import TEXTS, measured, named, results_of

LEAST_CORRELATION = 0.6  # with what the finished pictures gain
_FEWEST_SEEDS = 4
_RESAMPLES = 500
_MEASURES = {"predicted_gain": "gain", "stereotype_propagation_index": "SPI"}  # measure -> column
_BAR = (
    f"Shown to be at least {LEAST_CORRELATION}.",
    f"Shown to be less than {LEAST_CORRELATION}.",
    f"Inconclusive: so few seeds do not tell whether it is at least {LEAST_CORRELATION}.",
)


SHARES = {"nothing": 0.0, "half": 0.5, "all": 1.0}
"""Share of seeds with exchanged text or weights, by condition."""
_PART_CELLS = ("neither", "text", "drawing", "both")
_ROUNDING = 1e-9


@settings_class(frozen=True, kw_only=True)
class StepOptions(Options):
    """Options of the study of denoising steps."""

    conditions: tuple[str, ...] = setting(LADDER, "Conditions", "Two or more, in rising order")
    repetitions: int = setting(6, "Repetitions", "Measurements of the gain, each on other seeds", ge=1, le=500)
    seeds: int = setting(3, *SEEDS, ge=1, le=100)
    base_prompt: str = setting("a photo of a person", "Base prompt", "Baseline from the same noise")
    guided: bool = setting(False, "Guided velocities", "Classifier-free guidance instead of conditional velocities")


def _gains(base: np.ndarray, own: np.ndarray, settings: StudySettings) -> list[PredictedGain]:
    """Gain of every repetition, each on its own part of the seeds; margins ``(n_seeds, n_steps)``."""
    parts = np.array_split(np.arange(len(own)), get_options(settings, StepOptions).repetitions)
    return [predicted_gain(base[part], own[part], confidence=settings.confidence) for part in parts]


def _turned(estimate: Estimate) -> Estimate:
    """Gain of the opposite attribute, if that is planted."""
    return replace(estimate, value=-estimate.value, low=-estimate.high, high=-estimate.low)


def _line(here: Mapping[str, Any], whole: Estimate, conditions: Sequence[str], repetition: int) -> dict[str, Any]:
    """One interval; unplanted attributes count under the first condition, which plants nothing."""
    first, is_null = conditions[0], here["condition"] == conditions[0] or not here["planted"]
    return measured(
        "predicted_gain",
        whole,
        target=0.0 if is_null else math.nan,
        unit=f"{here['concept']}, {here['attribute']}",
        repetition=len(conditions) * repetition + (0 if here["planted"] else conditions.index(here["condition"])),
        condition=first if is_null else here["condition"],
        planted="attributes of people",
    )


def _traced(
    data: Run, part: pd.DataFrame, attributes: Sequence[Attribute], direction: np.ndarray, on_step: StepCallback
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Margins of the predicted pictures and of the base prompt's, and SPI: ``(n_seeds, n_steps, n_attributes)``."""
    model: Any = data.rows.model(data.services)
    own, base, spi = [], [], []
    for picture in data.stored(part):
        data.check()
        trace = trace_row(data, model, picture.row, attributes, on_step, predicted_steps=())
        row = replace(picture.row, prompt=get_options(data.settings, StepOptions).base_prompt)
        own.append(trace.rows @ direction)
        base.append(trace_row(data, model, row, (), on_step, predicted_steps=()).rows @ direction)
        spi.append(trace.spi)
    return np.stack(own), np.stack(base), np.stack(spi)


def _correlations(table: pd.DataFrame, settings: StudySettings) -> list[Finding]:
    """Correlation of each measure with the finished gain, over planted attributes and seeds, by condition."""
    findings = []
    for condition, lines in table[table["planted"]].groupby("condition", sort=False):
        for key, column in _MEASURES.items():
            wide = {
                name: lines.pivot(index=["concept", "attribute"], columns="seed", values=name)
                for name in (column, "finished")
            }
            estimate = rank_correlation(wide[column].to_numpy(), wide["finished"].to_numpy(), settings)
            title = f"{column} against what finished pictures gained, {condition} against fair"
            findings.append(finding(f"{column} {condition}", title, key, estimate, readings=_BAR))
    return findings


def rank_correlation(measure: np.ndarray, gained: np.ndarray, settings: StudySettings) -> Estimate:
    """Spearman's correlation over ``(n_attributes, n_seeds)``, with a bootstrap interval over seeds."""
    if np.ptp(measure) == 0 or np.ptp(gained) == 0:
        nothing = "nothing changes, so there is no rank"
        return Estimate.undefined(measure.shape[1], nothing, null_value=LEAST_CORRELATION)
    rng, n = np.random.default_rng(settings.seed), measure.shape[1]
    draws = [rng.integers(0, n, n) for _ in range(_RESAMPLES)]
    values = [_spearman(measure[:, draw], gained[:, draw]) for draw in draws]
    resampled = [value for value in values if np.isfinite(value)]
    return percentile_estimate(
        _spearman(measure, gained), resampled, n=n, confidence=settings.confidence, null_value=LEAST_CORRELATION
    )


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(stats.spearmanr(one.ravel(), other.ravel()).statistic)


@settings_class(frozen=True, kw_only=True)
class CauseRepetitionOptions(Options):
    """Options of the study of causes."""

    pool: int = setting(80, "Pool", "Number of seeds for each way of drawing", ge=4, le=5000)
    repetitions: int = setting(202, "Repetitions", "Number of draws of seeds from the pool", ge=1, le=1000)
    seeds: int = setting(3, *SEEDS, ge=1, le=100)


def cause_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pools of pictures for each seed of the run and every way of drawing, all on the same seeds."""
    n, data = (
        scaled(get_options(settings, CauseRepetitionOptions).pool, settings.scale, minimum=_FEWEST_SEEDS),
        design.data,
    )
    weights = {tuple(pair): None for adapter in data["adapters"].values() for pair in adapter.values()}
    shots = [
        Shot(
            prompt=data["text"],
            n=n,
            group="weights",
            condition=denoiser,
            text_condition="" if texts == denoiser else texts,
            facts={"way": _weights(denoiser, texts)},
        )
        for denoiser, texts in weights
    ]
    for share in data["first_steps"]:
        how: dict[str, Any] = {"prompt": data["text"], "later_prompt": data["later"], "first_steps": share}
        if not share:
            how = {"prompt": data["later"]}
        shots.append(Shot(n=n, group="exchanged", facts={"way": _after(share)}, **how))
    return pools(settings, shots)


def _weights(denoiser: str, texts: str) -> str:
    return f"denoiser {denoiser}, text encoders {texts}"


def _after(share: float) -> str:
    return f"exchanged after {share:g} of the steps"


def pool_suits(settings: StudySettings, services: StudyServices) -> None:
    """Refuse models without steps, or without the adapters with known parts."""
    model_suits(settings, services)
    for condition in ("fair", "published", "extreme", "denoiser"):
        check_condition(services.model_info(settings.model), condition)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Margins of every way of drawing, ``(n_seeds,)`` each, and the random choice of seeds."""

    margins: Mapping[str, np.ndarray]

    def pick(self, ways: Sequence[str], share: float, n: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Margins of the first way on ``n`` seeds; of the others on the same seeds, or of the first on other seeds."""
        size = len(self.margins[ways[0]])
        seeds, is_exchanged = rng.integers(0, size, n), rng.random(n) < share
        first = self.margins[ways[0]]
        others = [np.where(is_exchanged, self.margins[way][seeds], first[rng.integers(0, size, n)]) for way in ways[1:]]
        return [first[seeds], *others]


def _exchange_lines(
    design: Design,
    settings: StudySettings,
    pool: Pool,
    share: float,
    rng: np.random.Generator,
    where: Mapping[str, Any],
    held: list[bool],
) -> Iterator[dict[str, Any]]:
    """Effect from the start and in the middle; for the whole, a flag that its step's interval holds."""
    data, confidence = design.data, settings.confidence
    plain = _weights(settings.condition, settings.condition)
    ways = [plain, *(_after(one) for one in data["first_steps"])]
    truth = {way: float((pool.margins[plain] > 0).mean() - (pool.margins[way] > 0).mean()) for way in ways}
    without, *exchanged = pool.pick(ways, share, design.images_per_prompt, rng)
    # of the attribute that the later text brings, so that more of it is more
    effects = exchange_effect(-without, -np.column_stack(exchanged), confidence=confidence).effects
    for first, variant in ((0, "from the start"), (data["middle"], "in the middle")):
        effect, target = effects[data["first_steps"].index(first)], share * truth[_after(first)]
        yield measured(
            "exchange_effect", effect, target=target, variant=variant, planted="an exchange of the text", **where
        )
    if share == 1:
        steps = [round(first * (settings.num_inference_steps or 0)) for first in data["first_steps"]]
        how: Any = {"steps": steps, "n_steps": settings.num_inference_steps, "confidence": confidence}
        step = decided_step(without, np.column_stack(exchanged), rng=rng, **how)
        whole = decided_step(pool.margins[plain], np.column_stack([pool.margins[w] for w in ways[1:]]), **how)
        held.append(step.low - _ROUNDING <= whole.value <= step.high + _ROUNDING)


def _part_lines(
    design: Design,
    settings: StudySettings,
    pool: Pool,
    share: float,
    rng: np.random.Generator,
    where: Mapping[str, Any],
    cells: Mapping[str, Sequence[str]],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Effect of each part of the adapter, and the claimed parts."""
    ways = [_weights(*cells[name]) for name in _PART_CELLS]
    parts = part_effects(*pool.pick(ways, share, design.images_per_prompt, rng), confidence=settings.confidence)
    neither, text, drawing, both = (float((pool.margins[way] > 0).mean()) for way in ways)
    truths = {"text": (text - neither + both - drawing) / 2, "drawing": (drawing - neither + both - text) / 2}
    own = {name: value for name, value in where.items() if name != "adapter"}
    adapter, lines = str(where["adapter"]), []
    for part, measure in (("text", "part_effects"), ("drawing", "drawing_effect")):
        if cells[part] != cells["neither"] and truths[part]:
            estimate: Estimate = getattr(parts, part)
            planted = f"an adapter of {adapter}"
            lines.append(measured(measure, estimate, target=share * truths[part], planted=planted, **own))
    claim = {f"{part} claimed": not _holds_0(getattr(parts, part)) for part in ("text", "drawing")}
    claim |= {f"{part} planted": bool(share * abs(truths[part]) > _ROUNDING) for part in ("text", "drawing")}
    return lines, {**where, **claim}


def _holds_0(estimate: Estimate) -> bool:
    return bool(estimate.low - _ROUNDING <= 0 <= estimate.high + _ROUNDING)


def _parts_named(claims: pd.DataFrame) -> pd.DataFrame:
    """Share of repetitions that claim each part, by adapter and condition."""
    lines = []
    for (adapter, condition), rows in claims.groupby(["adapter", "condition"], sort=False):
        shares = {part: exact_interval(int(rows[f"{part} claimed"].sum()), len(rows)) for part in ("text", "drawing")}
        lines.append(
            {
                "adapter of": adapter,
                "exchanged": condition,
                **columns("text encoders named", shares["text"]),
                **columns("denoiser named", shares["drawing"]),
                "repetitions": len(rows),
            }
        )
    return pd.DataFrame(lines)


def _cause_findings(claims: pd.DataFrame, held: Sequence[bool]) -> Iterator[Finding]:
    """Shares of repetitions that name the right parts, claim nothing falsely, and hold the step."""
    whole = claims[claims["condition"] == "all"]
    is_right = (whole["text claimed"] == whole["text planted"]) & (whole["drawing claimed"] == whole["drawing planted"])
    nothing = claims.loc[claims["condition"] == "nothing", ["text claimed", "drawing claimed"]].to_numpy()
    for key, title, metric, values, says in (
        ("right part", "Repetitions in which exactly the parts that carry it are named", "part_effects", is_right,
         "Should be 95 % or more."),
        ("false part", "Parts named where nothing is exchanged", "part_effects", nothing, "Should be 5 % or less."),
        ("step held", "Intervals that hold the step by which half is decided", "exchange_effect", held,
         "Should be 95 %."),
    ):  # fmt: skip
        flags = np.asarray(values, dtype=bool).ravel()
        yield finding(key, title, metric, exact_interval(int(flags.sum()), len(flags)), says)


class ValiditySteps(Study):
    """The study of the kind ``validity_steps``."""

    kind = "validity_steps"
    options = StepOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Pictures of every concept under every condition, all on the same seeds, which the repetitions divide."""
        options = get_options(settings, StepOptions)
        n_each = math.ceil(options.repetitions / options.seeds)
        n = n_each * scaled(self.design.images_per_prompt, settings.scale, minimum=_FEWEST_SEEDS)
        shots = [
            Shot(prompt=case["prompt"], n=n, group=condition, condition=condition, facts={"concept": case["concept"]})
            for condition in ladder(settings)
            for case in self.design.data["cases"]
        ]
        return pools(settings, shots)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Predicted gain under every condition, and its rank correlation with the pictures' gain over the first."""
        rows = yield from data.embed(data.frame)
        attributes = [Attribute(**one) for one in self.design.data["attributes"]]
        k = len(attributes)
        texts = data.texts([one.positive for one in attributes] + [one.negative for one in attributes])
        direction = (texts[:k] - texts[k:]).T
        finished = {key: rows[part.index] @ direction > 0 for key, part in data.frame.groupby(["concept", "group"])}
        cases = {case["concept"]: case for case in self.design.data["cases"]}
        lines: list[dict[str, Any]] = []
        seeds: list[pd.DataFrame] = []
        first, *between, _last = ladder(settings)  # `between` most is planted already: the last has hardly more of it

        def trace_all(
            concept: str, on_step: StepCallback
        ) -> list[tuple[Any, pd.DataFrame, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
            """Trace the steps of a concept's pictures under every condition."""
            own = data.frame[data.frame["concept"] == concept].groupby("group", sort=False)
            return [(condition, part, _traced(data, part, attributes, direction, on_step)) for condition, part in own]

        concepts = list(dict.fromkeys(data.frame["concept"]))
        traced = yield from data.map_until_stopped("concepts with traced steps", concepts, trace_all)
        cells = ((name, *cell) for name, of_concept in zip(concepts, traced, strict=False) for cell in of_concept)
        for concept, condition, part, (own, base, spi) in cells:
            gained = finished[concept, condition].astype(float) - finished[concept, first]
            for i, attribute in enumerate(attributes):
                here = {"concept": concept, "attribute": attribute.name, "condition": condition}
                case, gains = cases[str(concept)], _gains(base[:, :, i], own[:, :, i], settings)
                here["planted"] = attribute.name in case["planted"]
                wholes = [
                    _turned(gain.whole) if attribute.name in case.get("rarer", ()) else gain.whole for gain in gains
                ]
                if not here["planted"] or condition not in between:
                    lines += [_line(here, whole, ladder(settings), k) for k, whole in enumerate(wholes)]
                each = np.concatenate([gain.seed_gains.mean(axis=1) for gain in gains])
                of_seeds = {"gain": each, "SPI": spi[:, :, i].mean(axis=1), "finished": gained[:, i]}
                seeds.append(pd.DataFrame({**here, "seed": [one.row.seed for one in data.stored(part)], **of_seeds}))
        table = pd.concat(seeds, ignore_index=True)
        findings = _correlations(table[table["condition"] != first], settings)
        results = results_of(
            pd.DataFrame(lines), settings, notes=[TEXTS.note("finished gain", least=LEAST_CORRELATION)]
        )
        tables = (
            TEXTS.table("correlations", value_rows(findings, "seeds")),
            *results.tables,
            TEXTS.table("seeds", named("seeds", table)),
        )
        return replace(results, findings=(*findings, *results.findings), tables=tables)

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise InvalidInput if the model does not suit."""
        model_suits(settings, services)


class ValidityCauses(Study):
    """The study of the kind ``validity_causes``."""

    kind = "validity_causes"
    options = CauseRepetitionOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return the pictures to draw."""
        return cause_shots(self.design, settings)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Effects, parts and steps of every repetition, and the share that names the right part."""
        rows = yield from data.embed(data.frame)
        present, absent = data.texts([self.design.data["present"], self.design.data["absent"]])
        frame = data.frame.assign(margin=rows @ (present - absent))
        table = frame.pivot_table("margin", [POOL, "seed"], "way", sort=False).dropna()
        each = table.groupby(level=0, sort=False)
        pools_of = [Pool(margins={str(way): own[way].to_numpy() for way in own}) for _, own in each]
        claims: list[dict[str, Any]] = []
        held: list[bool] = []

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            pool = pools_of[pool_of(settings, repetition)]
            for condition, share in SHARES.items():
                where: dict[str, Any] = {"condition": condition, "repetition": repetition}
                rng = np.random.default_rng(Random(f"{settings.seed} {condition} {repetition}").getrandbits(64))
                yield from _exchange_lines(self.design, settings, pool, share, rng, where, held)
                for name, cells in self.design.data["adapters"].items():
                    lines_of_parts, claim = _part_lines(
                        self.design, settings, pool, share, rng, where | {"adapter": name}, cells
                    )
                    claims.append(claim)
                    yield from lines_of_parts

        lines = yield from in_each_repetition(data, work)
        results = results_of(pd.DataFrame(lines), settings, notes=(TEXTS.note("pool of seeds", n=len(table)),))
        return replace(
            results,
            findings=(*_cause_findings(pd.DataFrame(claims), held), *results.findings),
            tables=(*results.tables, TEXTS.table("parts named", _parts_named(pd.DataFrame(claims)))),
        )

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise InvalidInput if the model does not suit."""
        pool_suits(settings, services)
