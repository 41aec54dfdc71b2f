"""Compare pictures with those of a base, prompt by prompt and seed by seed: more and fewer objects.

The base has the same scenes under another condition, or without the trigger word.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import percent
from bias_core.measures.object_bias import added_objects, missing_objects
from bias_core.measures.object_comparison import (
    ObjectComparison,
    ObjectOdds,
    ObjectShift,
    VarietyChange,
    object_odds,
    object_shift,
    variety_change,
)
from bias_core.measures.object_distribution import chao_shen_entropy, object_counts
from bias_core.number_text import format_p
from bias_core.study.design import ReportTexts
from bias_core.study.types import Finding, Shot, StudyFigure, StudySettings, StudyTable, columns, finding, lean, listed
from bias_core.types import Estimate

TEXTS = ReportTexts(__file__)
MOST_LINES = 12  # objects of each set of pictures in the table
MOST_BARS = 6
RATE = 0.05  # of false discoveries among the objects that are named


def with_base_prompt(shots: list[Shot], settings: StudySettings, base_prompt: str) -> list[Shot]:
    """Return the shots, followed by as many of the base prompt, if any, on their own seeds."""
    prompt = " ".join(base_prompt.split())
    if not prompt or settings.images:
        return shots
    firsts = [sum(shot.n for shot in shots[:k]) for k in range(len(shots))]
    return base_scenes(shots, [replace(s, prompt=prompt, first_seed=k) for s, k in zip(shots, firsts, strict=True)])


def base_scenes(shots: Sequence[Shot], bases: Sequence[Shot]) -> list[Shot]:
    """Return each shot and its base, with facts that link them."""
    sides = enumerate((shots, bases))
    return [
        replace(shot, facts={**shot.facts, "scene": own.prompt, "base": side, "first": shot.first_seed})
        for side, of_side in sides
        for shot, own in zip(of_side, shots, strict=True)
    ]


def sides(reading: pd.DataFrame, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the pictures, and those of their base, each with scene and number."""
    if "base" not in frame:
        return reading, reading.iloc[:0]
    reading = reading.assign(scene=frame["scene"], number=frame["seed"] - frame["first"])
    return reading[frame["base"] == 0], reading[frame["base"] == 1]


@dataclass(frozen=True, kw_only=True)
class AgainstBase:
    """Pictures compared with their base; ``shift`` and ``variety`` are None if one side shows no object."""

    base: str  # name of the base
    n: int  # pairs of pictures
    odds: ObjectComparison | None
    shift: ObjectShift | None
    variety: VarietyChange | None
    added: Estimate  # objects a picture beyond its prompt, less those of the base
    missing: Estimate  # objects of the prompt that are not there, less those of the base
    # entropy, base_entropy: Chao–Shen, in nats; nan if undefined
    entropy: float
    base_entropy: float
    why: str  # something is undefined, or ""


def against_base(
    part: pd.DataFrame,
    base: pd.DataFrame,
    settings: StudySettings,
    *,
    name: str,
    on: Sequence[str] = ("prompt", "seed"),
) -> AgainstBase:
    """Compare pictures with those of the base that have the same values in the columns ``on``.

    InvalidInput if no picture has one.
    """
    ours, theirs = (frame.drop_duplicates([*on]).set_index([*on]) for frame in (part, base))
    shared = ours.index.intersection(theirs.index, sort=False)
    if not len(shared):
        raise InvalidInput(f"no picture has one of {name} with the same {' and '.join(on)}, so nothing is compared")
    ours, theirs = ours.loc[shared], theirs.loc[shared]
    strata, seeds = (list(map(str, shared.get_level_values(level))) for level in on)
    # A word in only one of the two prompts is no side effect.
    own_words = [set(x) ^ set(y) for x, y in zip(ours["asked"], theirs["asked"], strict=True)]
    shown, of_base = (
        [set(words) - own for words, own in zip(side["counted"], own_words, strict=True)] for side in (ours, theirs)
    )
    sets = ours["asked"].tolist(), ours["seen"].tolist(), theirs["seen"].tolist()
    how: dict[str, Any] = {
        "base_prompt_objects": theirs["asked"].tolist(), "strata": strata, "confidence": settings.confidence,
    }  # fmt: skip
    odds, shift, variety, why = None, None, None, ""
    try:
        odds = object_odds(shown, of_base, rate=RATE, confidence=settings.confidence)
        shift = object_shift(shown, of_base, rng=settings.seed)
        variety = variety_change(shown, of_base, groups=seeds, confidence=settings.confidence)
    except InvalidInput as error:  # captions without objects
        why = str(error)
    return AgainstBase(
        base=name,
        n=len(shared),
        odds=odds,
        shift=shift,
        variety=variety,
        added=added_objects(*sets, **how),
        missing=missing_objects(*sets, **how),
        entropy=_entropy(shown),
        base_entropy=_entropy(of_base),
        why=why,
    )


def of_sets(
    sets: Mapping[str, pd.DataFrame], base: pd.DataFrame, settings: StudySettings, *, called: str
) -> dict[str, AgainstBase]:
    """Compare each set of pictures with the base of its scenes; sets without pictures or base are left out."""
    return {
        name: against_base(part, base, settings, name=called, on=("scene", "number"))
        for name, part in sets.items()
        if len(base) and not set(base["scene"]).isdisjoint(part["scene"])
    }


def _entropy(objects: Sequence[set[str]]) -> float:
    return chao_shen_entropy(list(object_counts(objects).values())) if any(objects) else math.nan


def findings(name: str, one: AgainstBase) -> tuple[Finding, ...]:
    """Return the findings against the base, first the object that changes most."""
    listed_findings = [_named(name, one)]
    if one.shift:
        says = "The objects differ" if one.shift.p_value < RATE else "The objects do not clearly differ"
        says += f": {one.shift.divergence:.3f}; chance alone gives {one.shift.chance:.3f}."
        shift = Estimate(
            value=one.shift.divergence, low=math.nan, high=math.nan, n=one.n, method="permutation within pairs"
        )
        title = f"{name}: all objects against {one.base}"
        listed_findings.append(finding(f"{name} shift", title, "object_shift", shift, says, p_value=one.shift.p_value))
    if one.variety:
        says = lean(one.variety.log_ratio, "More varied", "Less varied", "Not clearly more or less varied")
        says += f": an effective number of {one.variety.number:.1f} objects against {one.variety.base_number:.1f}."
        title = f"{name}: variety of the objects against {one.base}, log ratio"
        listed_findings.append(finding(f"{name} variety", title, "variety_change", one.variety.log_ratio, says))
    for key, metric, estimate, what in (
        ("added", "added_objects", one.added, "that the prompt does not name"),
        ("missing", "missing_objects", one.missing, "that the prompt names but the picture lacks"),
    ):
        says = lean(estimate, "More objects", "Fewer objects", "Not clearly more or fewer objects") + f" {what}."
        title = f"{name}: {key} objects per picture, minus {one.base}"
        listed_findings.append(finding(f"{name} {key}", title, metric, estimate, says))
    return tuple(listed_findings)


def strongest(one: AgainstBase) -> ObjectOdds | None:
    """Return the object with the clearest gain; None if there is none."""
    return next(iter(one.odds.gained), None) if one.odds else None


def _named(name: str, one: AgainstBase) -> Finding:
    key, title = f"{name} named object", f"{name}: the object with the clearest gain over {one.base}, log-odds"
    most = strongest(one)
    if most is None or one.odds is None:
        note = one.why or "no object is clearly more frequent than in the base"
        return finding(key, title, "object_odds", Estimate.undefined(one.n, note, null_value=0.0), f"{note}.")
    others = [f"“{other.word}”" for other in one.odds.gained if other is not most]
    says = (
        f"“{most.word}” is in {most.n_images:,} of {one.n:,} pictures and in {most.n_base:,} of the base's"
        f" (p {format_p(most.p_adjusted)}, adjusted for all objects)"
    )
    says += f"; {listed(others)} too." if others else "; no other object gains clearly."
    return finding(key, title, "object_odds", most.log_odds, says, p_value=most.p_adjusted)


def tables(sets: Mapping[str, AgainstBase], *, first: str) -> tuple[StudyTable, ...]:
    """Return each object's log-odds, and the comparison of all objects together; empty without a base."""
    if not sets:
        return ()
    return (
        TEXTS.table("log_odds", [row for name, one in sets.items() for row in _odds_rows(first, name, one)]),
        TEXTS.table("against_base", [{first: name, **_row(one)} for name, one in sets.items()]),
    )


def _odds_rows(first: str, name: str, one: AgainstBase) -> list[dict[str, Any]]:
    objects = [line for line in one.odds.objects if not math.isnan(line.log_odds.value)] if one.odds else []
    return [
        {
            first: name,
            "object": line.word,
            "pictures with it": line.n_images,
            "with it in the base": line.n_base,
            "n": one.n,
            **columns("log-odds", line.log_odds, ends=""),
            "p": line.p_value,
            "p adjusted": line.p_adjusted,
            "differs": "yes" if line.differs else "no",
        }
        for line in objects[:MOST_LINES]
    ]


def _row(one: AgainstBase) -> dict[str, Any]:
    shift, variety = one.shift, one.variety
    numbers = (variety.number, variety.base_number, variety.coverage) if variety else (math.nan,) * 3
    return {
        "base": one.base,
        "pairs": one.n,
        **columns("added", one.added),
        **columns("missing", one.missing),
        "divergence": shift.divergence if shift else math.nan,
        "by chance": shift.chance if shift else math.nan,
        "p": shift.p_value if shift else math.nan,
        **dict(zip(("Hill number", "Hill number of the base", "at coverage"), numbers, strict=True)),
        **columns("log ratio", variety.log_ratio if variety else None),
        "entropy": one.entropy,
        "entropy of the base": one.base_entropy,
        "note": one.why,
    }


def figures(sets: Mapping[str, AgainstBase], settings: StudySettings) -> tuple[StudyFigure, ...]:
    """Return the log-odds of the objects with the clearest change, with intervals; empty without a base."""
    if not sets:
        return ()
    lines = {name: comparison.odds.objects for name, comparison in sets.items() if comparison.odds}
    surest = sorted(
        (line for objects in lines.values() for line in objects if not math.isnan(line.log_odds.value)),
        key=lambda line: (line.p_value, line.word),
    )
    words = list(dict.fromkeys(line.word for line in surest))[:MOST_BARS]
    rows = [
        {"name": line.word, "group": name, "value": line.log_odds.value, **_finite_ends(line.log_odds)}
        for word in words
        for name, objects in lines.items()
        for line in objects
        if line.word == word and not math.isnan(line.log_odds.value)
    ]
    base = next(iter(sets.values())).base
    return (TEXTS.figure("log_odds", rows, base=base, confidence=percent(settings.confidence)),)


def _finite_ends(estimate: Estimate) -> dict[str, float]:
    """Return the ends of an interval; an infinite one is not drawn."""
    ends = {"low": estimate.low, "high": estimate.high}
    return {name: end if np.isfinite(end) else estimate.value for name, end in ends.items()}
