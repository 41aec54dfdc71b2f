"""Causes of an attribute: the steps in which the prompt matters, and the part of a model in which an adapter works.

Both are interventions on the same seeds: the prompt is exchanged after some steps, or an adapter is put into the text
encoders or the denoiser alone. The finished pictures are compared.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.exchange import (
    NOTHING_TO_LOSE,
    ExchangeEffect,
    PartEffects,
    decided_step,
    exchange_effect,
    part_effects,
)
from bias_core.measures.permutation import smallest_sign_p
from bias_core.measures.sequential import share_interval
from bias_core.models.catalogue import WITHOUT_ADAPTER, has_adapter
from bias_core.papers.oasis.study_spi import model_suits
from bias_core.report.arm_comparison import mean_sample
from bias_core.report.claims import NO_CLAIM, claim_columns, decide_claims, family_note, fewest_units, p_words
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run
from bias_core.study.design import ReportTexts
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    AUTO,
    MAX_STEPS,
    Claim,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    drawable,
    finding,
    get_options,
    mark,
)
from bias_core.study_services import StudyServices
from bias_core.types import Estimate, StoredImage
from bias_core.values import Options, option_values, setting, settings_class
from bias_core.wording import format_change, format_estimate

TEXTS = ReportTexts(__file__)
_ASKS_OF_PARTS = (
    " Which part of the model carries an adapter's effect? It is put into the text encoders alone, then into the "
    "denoiser alone."
)
_EXCHANGE_NOTE = (
    "Before the exchange, the steps are identical to those of the first prompt; afterwards only the prompt differs. "
    "The change is therefore the effect of the prompt in the remaining steps. It holds for these two prompts; others "
    "may differ. Shares are as the classifier sees them."
)
_EXCHANGE_OF_PARTS_NOTE = (
    "The adapter goes into the text encoders alone, the denoiser alone, both and neither, on the same seeds. A part's "
    "effect is the mean of what it adds to the base and to the other part (Shapley value). The two effects add up to "
    "the whole and exclude what the model does without the adapter."
)
_SAME_WEIGHTS_NOTE = (
    "The run already uses the weights that the adapter was to be compared with, so no parts can be compared."
)
PARTS = {
    "neither": "without the adapter", "text": "adapter in the text encoders", "drawing": "adapter in the denoiser",
    "both": "adapter in both",
}  # fmt: skip
_FEWEST_SEEDS, _FEWEST_STEPS = 4, 2
_PLAIN, _TO_THE_END = "plain", "first text to the end"
_EFFECTS = (
    "Used from the start, “{later}” makes it more frequent.",
    "Used from the start, “{later}” makes it less frequent.",
    "Used from the start, “{later}” does not clearly make it more or less frequent.",
)
_PART_WORDS = (
    "There it adds the attribute.", "There it removes the attribute.",
    "There it does not clearly add or remove the attribute.",
)  # fmt: skip
_WHOLE_WORDS = (
    "It adds the attribute.", "It removes the attribute.", "It does not clearly add or remove the attribute.",
)  # fmt: skip
_FAMILY = "effects of this run"
_STEP_COLUMNS = ("steps", "steps low", "steps high")
_PART_NAMES = {"whole": "The adapter as a whole", "text": "In the text encoders", "drawing": "In the denoiser"}


@settings_class(frozen=True, kw_only=True)
class CauseOptions(Options):
    """The prompts and weights to exchange, and the attribute to measure."""

    text: str = setting("a photo of a doctor", "Text", "Prompt of the first steps")
    later_texts: tuple[str, ...] = setting(
        ("a photo of a female doctor", "a photo of a person"),
        "Later prompts",
        "Prompts that replace the first one after some steps",
    )
    attribute: str = setting("man", "Attribute", "Name of the attribute")
    present: str = setting(
        "a photo of a man", "Sentence of its presence", "Sentence that describes pictures with the attribute"
    )
    absent: str = setting(
        "a photo of a woman", "Sentence of its absence", "Sentence that describes pictures without the attribute"
    )
    n_exchanges: int = setting(
        8, "Exchanges", "Moments of the exchange, spread evenly from the first step on", ge=1, le=MAX_STEPS
    )
    without_adapter: str = setting(
        AUTO,
        "Weights to compare with",
        "Weights whose parts are exchanged with the run's: “without adapter”, or a condition; auto takes the "
        "model without its adapter if it has one; empty exchanges the text alone",
    )
    n_samples: int = setting(4, "Shown seeds", "Number of seeds to show", ge=1, le=100)


def _exchanged(text: str, later: str, share: float, n: int) -> Shot:
    facts = {"later": later, "part": ""}
    if share == 0:
        return Shot(prompt=later, n=n, group="exchanged", facts=facts)
    return Shot(prompt=text, later_prompt=later, first_steps=share, n=n, group="exchanged", facts=facts)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    later: str
    seeds: tuple[str, ...]  # units of the seeds that have all pictures
    without: np.ndarray  # ``(n_seeds,)`` margins of the first text to the end
    margins: np.ndarray  # ``(n_seeds, n_exchanges)``
    effect: ExchangeEffect
    decided: Estimate  # number of steps after which half of the effect is lost
    n_steps: int


def _describe_drawing(row: Any, part: str, later: str) -> str:
    """Return how a picture was drawn, as in the page's row names."""
    if not later:
        return _TO_THE_END if part == "both" else PARTS[part]
    steps = f"after {row.n_first_steps} of {row.num_inference_steps} steps" if row.n_first_steps else "from the start"
    return f"{steps} “{later}”"


@dataclass(frozen=True, kw_only=True)
class PictureMargins:
    """Margins of all pictures, by seed and the way of drawing."""

    frame: pd.DataFrame
    column: str  # of the margins
    data: Run

    @cached_property
    def margins(self) -> pd.DataFrame:
        """A row per seed and a column per way of drawing; nan for missing pictures."""
        return self.frame.pivot_table(self.column, "seed", "drawn", sort=False)

    @cached_property
    def against(self) -> str:
        """The condition of the weights that the adapter is compared with; "" for none."""
        rows = (picture.row for (_, way), picture in self.stored.items() if way == PARTS["neither"])
        return next((row.condition for row in rows), "")

    @cached_property
    def stored(self) -> Mapping[tuple[int, str], StoredImage]:
        """The pictures, by seed and the way of drawing."""
        keys = zip(self.frame["seed"].astype(int), self.frame["drawn"], strict=True)
        return dict(zip(keys, self.data.stored(self.frame), strict=True))

    def select_margins(self, ways: Sequence[str]) -> pd.DataFrame:
        """Margins of the seeds that have a picture of each of these ways."""
        complete = self.margins.reindex(columns=list(ways)).dropna()
        if len(complete) < 2:
            raise InvalidInput(
                f"only {len(complete)} seeds have a picture of every compared kind ({', '.join(ways[:3])}, ...), and 2 "
                "are needed; use more seeds, or check why pictures are blocked"
            )
        return complete

    def units(self, seeds: Sequence[int]) -> tuple[str, ...]:
        """Return the units of pictures with the first prompt to the end."""
        plain = self.frame[self.frame["drawn"] == _TO_THE_END].set_index("seed")["unit"]
        return tuple(str(plain[seed]) for seed in seeds)

    def row(self, seed: int, ways: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield one seed's pictures for a figure, with their labels."""
        for i, (way, text) in enumerate(ways.items()):
            if (picture := self.stored.get((seed, way))) is not None:
                yield {"row": seed, "column": f"{i:03d}", "path": str(picture.path), "text": text}


def _exchange(later: str, pictures: PictureMargins, settings: StudySettings) -> Exchange:
    later_pictures = pictures.frame[pictures.frame["later"] == later]
    steps = later_pictures.groupby("drawn", sort=False)["steps with the first text"].first().sort_values()
    margins = pictures.select_margins([_TO_THE_END, *steps.index])
    without, exchanged = margins[_TO_THE_END].to_numpy(), margins[list(steps.index)].to_numpy()
    taken = [int(step) for step in steps]
    n_steps = next(iter(pictures.stored.values())).row.num_inference_steps
    confidence = settings.confidence
    options: Any = {"steps": taken, "confidence": confidence}
    return Exchange(
        later=later,
        seeds=pictures.units(list(margins.index)),
        without=without,
        margins=exchanged,
        effect=exchange_effect(without, exchanged, **options),
        decided=decided_step(without, exchanged, n_steps=n_steps, rng=settings.seed, **options),
        n_steps=n_steps,
    )


def _measure_parts(pictures: PictureMargins, settings: StudySettings) -> PartEffects | None:
    if pictures.against in ("", settings.condition):
        return None
    margins = pictures.select_margins([PARTS["neither"], PARTS["text"], PARTS["drawing"], _TO_THE_END])
    return part_effects(*margins.to_numpy().T, confidence=settings.confidence)


def _finding(exchange: Exchange, claim: Claim) -> Finding:
    sample = mean_sample(exchange.seeds, (exchange.margins[:, 0] > 0).astype(float) - (exchange.without > 0))
    later = exchange.later
    return finding(
        f"{later}: from the start", f"Then “{later}”: effect from the start", "exchange_effect",
        exchange.effect.whole, claim=claim, readings=tuple(text.format(later=later) for text in _EFFECTS),
        sample=sample,
    )  # fmt: skip


def _part_findings(parts: PartEffects | None, claims: Mapping[str, Claim]) -> Iterator[Finding]:
    if parts is None:
        return
    for name, title in _PART_NAMES.items():
        metric = "drawing_effect" if name == "drawing" else "part_effects"
        readings = _WHOLE_WORDS if name == "whole" else _PART_WORDS
        yield finding(f"adapter: {name}", title, metric, getattr(parts, name), claim=claims[name], readings=readings)


def _decide(
    exchanges: Sequence[Exchange], parts: PartEffects | None, confidence: float
) -> tuple[tuple[Claim, ...], dict[str, Claim]]:
    """Return the claims on the exchanges from the start and on the adapter's parts: one family."""
    of_parts = [] if parts is None else [getattr(parts, name) for name in _PART_NAMES]
    effects = [*(exchange.effect.whole for exchange in exchanges), *of_parts]
    smallest = [smallest_sign_p(effect.n) for effect in effects]
    claims = decide_claims(effects, confidence=confidence, smallest_p=smallest)
    return claims[: len(exchanges)], dict(zip(_PART_NAMES, claims[len(exchanges) :], strict=False))


def _decided_row(exchange: Exchange, claim: Claim) -> dict[str, Any]:
    """Return the step by which half of a clear effect is decided."""
    effect, step = exchange.effect.whole, exchange.decided
    if not claim.is_clear:
        step = Estimate.undefined(effect.n, NOTHING_TO_LOSE)
    return {
        "then": exchange.later,
        **columns("effect", effect),
        **claim_columns(effect, claim),
        **columns("steps", step),
        "of": exchange.n_steps,
        "seeds": step.n,
        "note": step.note,
    }


def _rows(exchange: Exchange) -> Iterator[dict[str, Any]]:
    n = len(exchange.without)
    shares = [*(exchange.margins > 0).sum(axis=0), (exchange.without > 0).sum()]
    no_effect = Estimate(value=0.0, low=0.0, high=0.0, n=n)
    for steps, count, effect in zip(
        [*exchange.effect.steps, exchange.n_steps], shares, [*exchange.effect.effects, no_effect], strict=True
    ):
        yield {
            "then": exchange.later,
            "steps with the first text": steps,
            "of": exchange.n_steps,
            **columns("P", share_interval(int(count), n)),
            **columns("effect", effect),
            "seeds": n,
        }


def _part_tables(parts: PartEffects | None, claims: Mapping[str, Claim], pictures: PictureMargins) -> Iterator[Any]:
    if parts is None:
        return
    yield TEXTS.table(
        "parts",
        [
            {
                "part": title,
                **columns("effect", getattr(parts, name)),
                **claim_columns(getattr(parts, name), claims[name]),
                **columns("alone", getattr(parts, f"{name}_alone", None)),
                **columns("added", getattr(parts, f"{name}_added", None)),
                "seeds": parts.whole.n,
            }
            for name, title in _PART_NAMES.items()
        ],
        family=family_note([*claims.values()], _FAMILY),
    )
    shares = pictures.select_margins([PARTS["neither"], PARTS["text"], PARTS["drawing"], _TO_THE_END]) > 0
    yield TEXTS.table(
        "part shares",
        [
            {"drawn": name, **columns("P", share_interval(int(calls.sum()), len(calls))), "seeds": len(calls)}
            for name, (_, calls) in zip(PARTS.values(), shares.items(), strict=True)
        ],
    )


def _figures(
    exchanges: Sequence[Exchange], parts: PartEffects | None, pictures: PictureMargins, settings: StudySettings
) -> Iterator[StudyFigure]:
    options = get_options(settings, CauseOptions)
    names = {"attribute": options.attribute, "text": options.text, "condition": settings.condition}
    names |= {"against": pictures.against}
    lines = [
        {"group": f"then “{row['then']}”", "x": row["steps with the first text"], "value": row["effect"]}
        | {"low": row["effect low"], "high": row["effect high"]}
        for exchange in exchanges
        for row in _rows(exchange)
    ]
    yield TEXTS.figure("exchange", lines, n=min((len(exchange.without) for exchange in exchanges), default=0), **names)
    seeds = sorted({seed for seed, _ in pictures.stored})[: options.n_samples]
    for place, exchange in enumerate(exchanges):
        later_pictures = pictures.frame[pictures.frame["later"] == exchange.later].sort_values(
            "steps with the first text"
        )
        taken = later_pictures.drop_duplicates("drawn").set_index("drawn")["steps with the first text"]
        ways = {
            str(way): f"after {step:.0f} of {exchange.n_steps}" if step else "from the start"
            for way, step in taken.items()
        }
        cells = [cell for seed in seeds for cell in pictures.row(seed, ways | {_TO_THE_END: "never"})]
        yield TEXTS.figure("exchanged", cells, place=place, later=exchange.later)
    if parts is not None:
        marks = [mark(title, getattr(parts, name)) for name, title in _PART_NAMES.items()]
        yield TEXTS.figure("parts", marks, **names)
        ways = {_TO_THE_END if part == "both" else name: name for part, name in PARTS.items()}
        cells = [cell for seed in seeds for cell in pictures.row(seed, ways)]
        yield TEXTS.figure("part pictures", cells, **names)


def _format_effect(estimate: Estimate) -> str:
    return format_change(estimate.value, estimate.low, estimate.high)


class Causes(Study):
    """Exchange the prompt midway, or the adapter in one part, to find where an attribute is decided."""

    kind = "causes"
    options = CauseOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return the sentences on the parts of the model that are exchanged."""
        against = get_options(settings, CauseOptions).without_adapter
        return {"parts": _ASKS_OF_PARTS if against else ""}

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return per seed: the first prompt to the end, every exchange, and the adapter in each part."""
        options = get_options(settings, CauseOptions)
        n = scaled(self.design.images_per_prompt, settings.scale, minimum=_FEWEST_SEEDS)
        texts = [" ".join(text.split()) for text in (options.text, *options.later_texts)]
        if len(texts) == 1 or not all((*texts, options.attribute, options.present, options.absent)):
            raise InvalidInput(
                "an exchange needs a first prompt, later prompts, and an attribute with its two sentences"
            )
        if len(set(texts)) < len(texts):
            raise InvalidInput(f"each prompt must differ from the others; got {', '.join(texts)}")
        n_exchanges = min(options.n_exchanges, settings.num_inference_steps or MAX_STEPS)
        shots = [Shot(prompt=texts[0], n=n, group=_PLAIN, facts={"later": "", "part": "both"})]
        for later in texts[1:]:
            shots += [_exchanged(texts[0], later, i / n_exchanges, n) for i in range(n_exchanges)]
        against = options.without_adapter.strip()
        if against := WITHOUT_ADAPTER if against == AUTO else against:
            weights = {"neither": (against, ""), "text": (against, settings.condition), "drawing": ("", against)}
            shots += [
                Shot(
                    prompt=texts[0],
                    n=n,
                    group="parts",
                    condition=condition,
                    text_condition=text_condition,
                    facts={"later": "", "part": part},
                )
                for part, (condition, text_condition) in weights.items()
            ]
        return shots

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure the effect of every exchange, the step by which it is decided, and the adapter's parts."""
        options = get_options(settings, CauseOptions)
        rows = yield from data.embed(data.frame)
        present, absent = data.sentences([options.present, options.absent])
        frame = data.frame
        drawings = [picture.row for picture in data.stored(frame)]
        data.keep(
            frame,
            **{
                "steps with the first text": [row.n_first_steps for row in drawings],
                "drawn": list(map(_describe_drawing, drawings, frame["part"], frame["later"])),
                f"{options.attribute}: nearer by": rows @ (present - absent),
            },
        )
        pictures = PictureMargins(frame=data.frame, column=f"{options.attribute}: nearer by", data=data)
        exchanges = [_exchange(later, pictures, settings) for later in dict.fromkeys(frame["later"]) if later]
        parts = _measure_parts(pictures, settings)
        notes = [_EXCHANGE_NOTE]
        if options.without_adapter:
            notes.append(_SAME_WEIGHTS_NOTE if parts is None else _EXCHANGE_OF_PARTS_NOTE)
        elif not has_adapter(data.services.model_info(settings.model)):
            only_prompt = "so only its prompt was exchanged; there is no result on the parts of the model"
            notes.append(f"{settings.model} has no adapter, {only_prompt}.")
        claims, of_parts = _decide(exchanges, parts, settings.confidence)
        return Results(
            findings=(*map(_finding, exchanges, claims), *_part_findings(parts, of_parts)),
            tables=(
                TEXTS.table("exchanges", [row for exchange in exchanges for row in _rows(exchange)]),
                TEXTS.table("decided", map(_decided_row, exchanges, claims), family=family_note(claims, _FAMILY)),
                *_part_tables(parts, of_parts, pictures),
            ),
            figures=drawable(_figures(exchanges, parts, pictures, settings)),
            notes=tuple(notes),
        )

    def settled(self, settings: StudySettings, services: StudyServices) -> StudySettings:
        """Return the weights to compare with by default; none if the model has no adapter."""
        options = get_options(settings, CauseOptions)
        if options.without_adapter.strip() != AUTO:
            return settings
        against = WITHOUT_ADAPTER if has_adapter(services.model_info(settings.model)) else ""
        return replace(settings, options=replace(options, without_adapter=against))

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Refuse pictures without denoising steps, or with only one step."""
        model_suits(settings, services)
        if (settings.num_inference_steps or services.model_info(settings.model).default_steps) < _FEWEST_STEPS:
            raise InvalidInput("exchanging a prompt midway needs two steps or more; ask for more steps")

    def headline(self, report: StudyReport) -> str:
        """Say the effect of the first exchange, the step by which it is decided, and where the adapter works."""
        by_key = {finding.key: finding for finding in report.results.findings}
        row, attribute = report.results.frame("decided").iloc[0], option_values(report.settings.options)["attribute"]
        effect = by_key[f"{row['then']}: from the start"]
        says = f"With “{row['then']}” from the start, the share of {attribute} {_change_words(effect)}"
        if effect.is_clear and not math.isnan(row["steps"]):
            step = format_estimate(*(row[name] for name in _STEP_COLUMNS))
            says += f"; half of the change is decided after {step} steps of {row['of']} (interpolated)"
        parts = [by_key[f"adapter: {name}"] for name in _PART_NAMES if f"adapter: {name}" in by_key]
        if not parts:
            return f"{says}."
        whole, *single_parts = parts
        text, drawing = (f"{_format_effect(part.estimate)}{_clear_words(part)}" for part in single_parts)
        return (
            f"{says}. With the adapter it {_change_words(whole)}; through the text encoders {text}, "
            f"through the denoiser {drawing}."
        )


def _change_words(effect: Finding) -> str:
    """Return an effect as a predicate, with interval, n, and p or the reason why it is not clear."""
    estimate, claim = effect.estimate, effect.claim or NO_CLAIM
    n, p, reason = f"n = {estimate.n:,}", p_words(claim), claim.reason
    if claim.verdict == "too few":
        n, p, reason = f"{n}: too few seeds, at least {fewest_units(claim)} are needed", "", ""
    says = "changes by" if claim.is_clear else "does not clearly change,"
    return f"{says} {_format_effect(estimate)} ({'; '.join(filter(None, [', '.join(filter(None, [n, p])), reason]))})"


def _clear_words(part: Finding) -> str:
    if part.claim is None:
        return ""
    is_too_few = part.claim.verdict == "too few"
    word = "clear" if part.is_clear else "too few" if is_too_few else "not clear"
    return f" ({word}: {part.claim.reason})" if part.claim.reason and not is_too_few else f" ({word})"
