"""Compare pictures with those of a base, prompt by prompt and seed by seed: more and fewer objects.

The base has the same scenes under another condition, or without the trigger word.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.measures.intervals import difference_interval
from bias_core.measures.object_bias import added_objects, missing_objects
from bias_core.measures.object_comparison import (
    ObjectOdds,
    ObjectShift,
    VarietyChange,
    object_odds,
    object_shift,
    variety_change,
)
from bias_core.measures.object_distribution import chao_shen_entropy, object_counts
from bias_core.report.claims import NO_CLAIM, claim_columns, decide_claims, family_note, fewest_units, p_words
from bias_core.study.design import ReportTexts
from bias_core.study.types import (
    ArmReport,
    Claim,
    Finding,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
    columns,
    finding,
)
from bias_core.types import Estimate
from bias_core.wording import format_change, format_list, format_percent

TEXTS = ReportTexts(__file__)
MOST_LINES = 12  # objects of each set of pictures in the table
MOST_BARS = 6


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
        replace(shot, facts={**shot.facts, "scene": own_shot.prompt, "base": side, "first": shot.first_seed})
        for side, of_side in sides
        for shot, own_shot in zip(of_side, shots, strict=True)
    ]


def sides(reading: pd.DataFrame, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the pictures, and those of their base, each with scene and number."""
    if "base" not in frame:
        return reading, reading.iloc[:0]
    reading = reading.assign(scene=frame["scene"], number=frame["seed"] - frame["first"])
    return reading[frame["base"] == 0], reading[frame["base"] == 1]


@dataclass(frozen=True, kw_only=True)
class ObjectChange:
    """One object in pictures and in those of their base, over the pairs whose prompts do not differ in it."""

    odds: ObjectOdds
    n: int  # pairs
    n_changed: int  # pairs of which one picture shows it and the other does not
    difference: Estimate  # share of the pictures with it minus that of the base's
    claim: Claim = NO_CLAIM  # on its log-odds, among all objects of all sets of pictures

    @property
    def is_gain(self) -> bool:
        """True if more pictures show it than of the base."""
        return self.odds.log_odds.value > 0


@dataclass(frozen=True, kw_only=True)
class AgainstBase:
    """Pictures compared with their base; ``shift`` and ``variety`` are None if one side shows no object."""

    base: str  # name of the base
    n: int  # pairs of pictures
    objects: tuple[ObjectChange, ...]  # those that change, the surest change first; () if no picture shows an object
    shift: ObjectShift | None
    variety: VarietyChange | None
    added: Estimate  # objects a picture beyond its prompt, less those of the base
    missing: Estimate  # objects of the prompt that are not there, less those of the base
    # entropy, base_entropy: Chao–Shen, in nats; nan if undefined
    entropy: float
    base_entropy: float
    reason: str  # something is undefined, or ""


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
        [set(words) - prompt_words for words, prompt_words in zip(side["counted"], own_words, strict=True)]
        for side in (ours, theirs)
    )
    sets = ours["asked"].tolist(), ours["seen"].tolist(), theirs["seen"].tolist()
    options: dict[str, Any] = {
        "base_prompt_objects": theirs["asked"].tolist(), "strata": strata, "confidence": settings.confidence,
    }  # fmt: skip
    objects, shift, variety, reason = tuple[ObjectChange, ...](), None, None, ""
    try:
        objects = object_changes(shown, of_base, own_words, settings.confidence)
        shift = object_shift(shown, of_base, rng=settings.seed)
        variety = variety_change(shown, of_base, groups=seeds, confidence=settings.confidence)
    except InvalidInput as error:  # captions without objects
        reason = str(error)
    return AgainstBase(
        base=name,
        n=len(shared),
        objects=objects,
        shift=shift,
        variety=variety,
        added=added_objects(*sets, **options),
        missing=missing_objects(*sets, **options),
        entropy=_object_entropy(shown),
        base_entropy=_object_entropy(of_base),
        reason=reason,
    )


def object_changes(
    shown: Sequence[set[str]], of_base: Sequence[set[str]], own_words: Sequence[set[str]], confidence: float
) -> tuple[ObjectChange, ...]:
    """Return every object that one picture of a pair shows and the other does not; not where a prompt asks for it."""
    gained, lost, left_out = (
        Counter(word for words in sets for word in words)
        for sets in (
            (ours - theirs for ours, theirs in zip(shown, of_base, strict=True)),
            (theirs - ours for ours, theirs in zip(shown, of_base, strict=True)),
            own_words,
        )
    )
    changes = []
    for odds in object_odds(shown, of_base, confidence=confidence).objects:
        if not math.isnan(odds.log_odds.value):
            n, word = len(shown) - left_out[odds.word], odds.word
            difference = difference_interval(gained[word], lost[word], n, confidence=confidence)
            odds = replace(odds, log_odds=replace(odds.log_odds, n=n))
            changes.append(ObjectChange(odds=odds, n=n, n_changed=gained[word] + lost[word], difference=difference))
    return tuple(changes)


def compare_sets(
    sets: Mapping[str, pd.DataFrame], base: pd.DataFrame, settings: StudySettings, *, called: str
) -> dict[str, AgainstBase]:
    """Compare each set of pictures with the base of its scenes; sets without pictures or base are left out."""
    compared = {
        name: against_base(part, base, settings, name=called, on=("scene", "number"))
        for name, part in sets.items()
        if len(base) and not set(base["scene"]).isdisjoint(part["scene"])
    }
    return decide_objects(compared, settings.confidence)


def compare_objects_of_arms(arms: Sequence[ArmReport], settings: StudySettings) -> dict[str, AgainstBase]:
    """Compare the pictures of each arm with those of the first, unit by unit; arms that share none are left out.

    Empty without captions, which saved runs do not keep, and if the number of pictures was not fixed beforehand.
    """
    frames = [arm.results.scored for arm in arms]
    if settings.may_stop_early or not all(isinstance(frame, pd.DataFrame) for frame in frames):
        return {}
    first, *other_frames = [
        frame.assign(**frame["unit"].str.split(":", n=1, expand=True).set_axis([*_UNIT], axis=1)) for frame in frames
    ]
    compared = {
        arm.name: against_base(frame, first, settings, name=f"“{arms[0].name}”", on=_UNIT)
        for arm, frame in zip(arms[1:], other_frames, strict=True)
        if not set(first["unit"]).isdisjoint(frame["unit"])
    }
    return decide_objects(compared, settings.confidence)


_UNIT = ("place", "number")
"""Parts of a unit: the prompt's place in the list, and the number of the picture."""


def decide_objects(sets: Mapping[str, AgainstBase], confidence: float) -> dict[str, AgainstBase]:
    """Return the sets with claims on their objects: all objects of all sets are one family, of which one is named."""
    decided = iter(decide_changes([change for result in sets.values() for change in result.objects], confidence))
    return {
        name: replace(result, objects=tuple(next(decided) for _ in result.objects)) for name, result in sets.items()
    }


def decide_changes(changes: Sequence[ObjectChange], confidence: float) -> list[ObjectChange]:
    """Return changes of objects, which are one family, with their claims.

    Objects of which so few pairs change that no p of theirs could be clear are no tests: this does not depend on which
    picture of a pair shows them.
    """
    min_units = fewest_units(replace(NO_CLAIM, level=1 - confidence))
    estimates = [
        change.odds.log_odds
        if change.n_changed >= min_units
        else replace(
            change.odds.log_odds, p_value=math.nan, note=f"fewer than {min_units} pairs change: too few for a test"
        )
        for change in changes
    ]
    claims = decide_claims(estimates, confidence=confidence)
    return [replace(change, claim=claim) for change, claim in zip(changes, claims, strict=True)]


def _object_entropy(objects: Sequence[set[str]]) -> float:
    return chao_shen_entropy(list(object_counts(objects).values())) if any(objects) else math.nan


FAMILIES = dict.fromkeys(("object_shift", "variety_change", "added_objects", "missing_objects"), "all objects")
"""Families of the numbers that compare all objects of pictures with those of their base, by their measure."""


def change_findings(name: str, result: AgainstBase) -> tuple[Finding, ...]:
    """Return the findings against the base, first the object that changes most."""
    listed_findings = [_build_named_object(name, result)]
    if result.shift:
        divergence, chance = result.shift.divergence, result.shift.chance
        shift = Estimate(
            value=divergence, low=math.nan, high=math.nan, n=result.n, null_value=chance, p_value=result.shift.p_value,
            method="permutation within pairs",
        )  # fmt: skip
        differ, alike = (f"The objects {words}." for words in ("differ", "do not clearly differ"))
        says = f"Divergence {divergence:.3f}; chance alone gives {chance:.3f}."
        title = f"{name}: all objects against {result.base}"
        listed_findings.append(
            finding(f"{name} shift", title, "object_shift", shift, says, readings=(differ, differ, alike))
        )
    if result.variety:
        says = f"An effective number of {result.variety.number:.1f} objects against {result.variety.base_number:.1f}."
        title = f"{name}: variety of the objects against {result.base}, log ratio"
        readings = ("More varied.", "Less varied.", "Not clearly more or less varied.")
        listed_findings.append(
            finding(f"{name} variety", title, "variety_change", result.variety.log_ratio, says, readings=readings)
        )
    for key, metric, estimate, description in (
        ("added", "added_objects", result.added, "that the prompt does not name"),
        ("missing", "missing_objects", result.missing, "that the prompt names but the picture lacks"),
    ):
        title = f"{name}: {key} objects per picture, minus {result.base}"
        more_or_fewer = tuple(
            f"{words} objects {description}." for words in ("More", "Fewer", "Not clearly more or fewer")
        )
        listed_findings.append(finding(f"{name} {key}", title, metric, estimate, readings=more_or_fewer))
    return tuple(listed_findings)


def surest_gain(result: AgainstBase) -> ObjectChange | None:
    """Return the object with the surest gain, clear or not; None if none gains."""
    return next((change for change in result.objects if change.is_gain), None)


def _build_named_object(name: str, result: AgainstBase) -> Finding:
    """Return the object with the surest gain, clear or not."""
    key, title = f"{name} named object", f"{name}: the object with the clearest gain over {result.base}, log-odds"
    lead_change, clear = surest_gain(result), [change for change in result.objects if change.claim.is_clear]
    lost = _points_in_words("less", [change for change in clear if not change.is_gain])
    if lead_change is None:
        note = result.reason or "no object is more frequent than in the base"
        no_estimate = Estimate.undefined(result.n, note, null_value=0.0)
        return finding(key, title, "object_odds", no_estimate, f"{note}.{lost}", claim=NO_CLAIM)
    if lead_change.claim.is_clear:
        other_gains = [change for change in clear if change.is_gain and change is not lead_change]
        says = f"{_counts_in_words(lead_change)}.{_points_in_words('more', other_gains)}"
    else:
        says = f"no object is clearly more frequent: {_counts_in_words(lead_change, ', the nearest,')}."
    return finding(key, title, "object_odds", lead_change.odds.log_odds, f"{says}{lost}", claim=lead_change.claim)


def _points_in_words(direction: str, changes: Sequence[ObjectChange]) -> str:
    """Return a sentence on further objects that change clearly, with their points; "" without objects."""
    named = [f"“{change.odds.word}” ({_change_in_points(change)})" for change in changes]
    return f" Clearly {direction} frequent: {format_list(named)}." if named else ""


def _change_in_points(change: ObjectChange) -> str:
    difference = change.difference.scaled(100.0)
    return format_change(difference.value, difference.low, difference.high, n=change.n) + " points"


def _counts_in_words(change: ObjectChange, suffix: str = "") -> str:
    claim, odds, numbers = change.claim, change.odds, _change_in_points(change)
    if claim.is_clear:
        numbers += f", {p_words(claim)}"
    elif claim.reason:
        numbers += f"; {claim.reason}"
    says = (
        f"“{odds.word}”{suffix} is in {odds.n_images:,} of {change.n:,} pictures and in {odds.n_base:,} of the base’s"
    )
    return f"{says} ({numbers})"


def tables(sets: Mapping[str, AgainstBase], *, first: str) -> tuple[StudyTable, ...]:
    """Return each object's log-odds, and the comparison of all objects together; empty without a base."""
    if not sets:
        return ()
    note = family_note([change.claim for result in sets.values() for change in result.objects], "objects")
    rows = [row for name, result in sets.items() for row in _odds_rows(first, name, result)]
    return (
        TEXTS.table("log_odds", rows, family=note),
        TEXTS.table("against_base", [{first: name, **_row(result)} for name, result in sets.items()]),
    )


def _odds_rows(first: str, name: str, result: AgainstBase) -> list[dict[str, Any]]:
    return [
        {
            first: name,
            "object": change.odds.word,
            "pictures with it": change.odds.n_images,
            "with it in the base": change.odds.n_base,
            "n": change.n,
            **columns("difference", change.difference),
            **columns("log-odds", change.odds.log_odds, ends=""),
            **claim_columns(change.odds.log_odds, change.claim),
        }
        for place, change in enumerate(result.objects)
        if place < MOST_LINES or change is surest_gain(result)
    ]


def _row(result: AgainstBase) -> dict[str, Any]:
    shift, variety = result.shift, result.variety
    numbers = (variety.number, variety.base_number, variety.coverage) if variety else (math.nan,) * 3
    return {
        "base": result.base,
        "pairs": result.n,
        **columns("added", result.added),
        **columns("missing", result.missing),
        "divergence": shift.divergence if shift else math.nan,
        "by chance": shift.chance if shift else math.nan,
        "p": shift.p_value if shift else math.nan,
        **dict(zip(("Hill number", "Hill number of the base", "at coverage"), numbers, strict=True)),
        **columns("log ratio", variety.log_ratio if variety else None),
        "entropy": result.entropy,
        "entropy of the base": result.base_entropy,
        "note": result.reason,
    }


def figures(sets: Mapping[str, AgainstBase], settings: StudySettings) -> tuple[StudyFigure, ...]:
    """Return the log-odds of the objects with the clearest change, with intervals; empty without a base."""
    if not sets:
        return ()
    lines = [(name, change.odds) for name, result in sets.items() for change in result.objects]
    words = list(
        dict.fromkeys(odds.word for _, odds in sorted(lines, key=lambda line: (line[1].p_value, line[1].word)))
    )
    rows = [
        {"name": odds.word, "group": name, "value": odds.log_odds.value, **_finite_ends(odds.log_odds)}
        for word in words[:MOST_BARS]
        for name, odds in lines
        if odds.word == word
    ]
    base = next(iter(sets.values())).base
    return (TEXTS.figure("log_odds", rows, base=base, confidence=format_percent(settings.confidence)),)


def _finite_ends(estimate: Estimate) -> dict[str, float]:
    """Return the ends of an interval; an infinite one is not drawn."""
    ends = {"low": estimate.low, "high": estimate.high}
    return {name: end if np.isfinite(end) else estimate.value for name, end in ends.items()}
