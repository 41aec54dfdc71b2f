"""Scales in a report: the share of every level, the mean and the ends; distances between arms, and to a goal."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bias_core.metrics.ordinal import OrderedTest, distance_to_goal, end_share, level_distance, mean_level, ordered_test
from bias_core.number_text import format_interval, format_number, format_p, format_share
from bias_core.stats.class_shares import ClassShares
from bias_core.stats.intervals import wilson_interval
from bias_core.studies.kit.scale_scores import READ_AS, ScaleScore
from bias_core.studies.kit.types import (
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyTable,
    columns,
    figure,
    finding,
    or_nan,
    table,
)
from bias_core.types import Estimate

MakeSample = Callable[[Sequence[str], np.ndarray], Sample]
KEY = "scale"
MEAN, DISTANCE, GOAL = "mean_level", "level_distance", "distance_to_goal"
DISTANCES = f"{KEY}s"  # key of the table of distances between arms
_LEVEL = 0.05
_SHARES = (
    "P is corrected for the reader's errors, which are in the next table; the intervals of all levels hold together. "
    "Drawn: the share that is on record."
)
_ERRORS = "Pictures whose truth is known, by what they show (rows) and what they are read as (columns)."


def scale_results(
    scores: Sequence[ScaleScore],
    notes: Sequence[str],
    units: Sequence[str],
    *,
    confidence: float,
    fixed_n: bool,
    sample: MakeSample,
) -> Results:
    """What is reported of these scales, on pictures with these units.

    ``sample`` makes, of units and a number of each, what arms are compared by.
    """
    if scores and not fixed_n:
        note = "Scales are reported only where it was fixed beforehand how many pictures are drawn."
        return Results(notes=(*notes, note))
    clear = [(one, shares) for one in scores if (shares := one.shares) is not None]
    unclear = [f"{one.request.scale.title}: it can be told of no picture." for one in scores if one.shares is None]
    return Results(
        findings=tuple(f for one, _ in clear for f in _findings(one, units, confidence, sample)),
        tables=tuple(one for pair in clear for one in _tables(*pair, confidence)),
        figures=tuple(_bars(one, shares, confidence) for one, shares in clear),
        notes=(*notes, *unclear),
    )


def _findings(score: ScaleScore, units: Sequence[str], confidence: float, sample: MakeSample) -> Iterator[Finding]:
    scale, k = score.request.scale, score.n_levels
    levels, goal = np.arange(1.0, k + 1), np.array(score.request.goal)
    drawn = score.drawn_shares
    how: dict[str, Any] = {"errors": score.errors, "has_unclear": True, "confidence": confidence}

    def of(
        end: str, title: str, metric: str, estimate: Estimate, says: str, scores: np.ndarray | None = None
    ) -> Finding:
        record = None if drawn is None or scores is None else float(drawn @ scores)
        by = None if scores is None else sample(units, score.values(scores.tolist()))
        key, name = f"{KEY}-{scale.name}-{end}", f"{scale.name}: {title}"
        return finding(key, name, metric, estimate, says, expected=record, sample=by)

    null = float(goal @ levels) if goal.size else None
    mean = mean_level(score.counts, null_value=null, **how)
    yield of("mean", "mean", MEAN, mean, f"From 1, the {scale.lowest}, to {k}, the {scale.highest}.", levels)
    for last, words in ((-scale.ends, scale.lowest_words), (scale.ends, scale.highest_words)):
        at_end = levels > k - last if last > 0 else levels <= -last
        null = float(goal @ at_end) if goal.size else None
        share = end_share(score.counts, last=last, null_value=null, **how)
        says = "Share of the pictures of which it can be told."
        yield of("lowest" if last < 0 else "highest", f"{words}: P", "end_share", share, says, at_end.astype(float))
    if goal.size:
        distance = distance_to_goal(score.counts, goal, **how)
        says = (
            f"{scale.steps.capitalize()} that pictures would have to move on average. The goal: {score.request.source}."
        )
        yield of("goal", "distance to the goal", GOAL, distance, says)
    n = int(score.counts.sum())
    unclear = wilson_interval(int(score.counts[-1]), n, confidence=confidence)
    says = "Share of the pictures with no face to be seen, or several people; all else leaves them out."
    yield of("unclear", "cannot tell", "attribute_prevalence", unclear, says)


def _tables(score: ScaleScore, shares: ClassShares, confidence: float) -> Iterator[StudyTable]:
    scale, goal, drawn = score.request.scale, score.request.goal, score.drawn_shares
    rows = [
        {
            scale.name: level,
            "pictures": int(score.counts[place]),
            **columns("P", share, ends=""),
            "drawn": math.nan if drawn is None else float(drawn[place]),
            **({"goal": goal[place]} if goal else {}),
        }
        for place, (level, share) in enumerate(zip(scale.levels, shares.intervals(confidence=confidence), strict=True))
    ]
    yield table(f"{KEY}-{scale.name}", scale.title, rows, _SHARES)
    errors = pd.DataFrame(score.errors.counts, columns=list(score.errors.classes))
    errors.insert(0, "shown", list(score.errors.classes))
    yield table(f"{KEY}-{scale.name}-errors", f"{scale.title}: how the reader errs", errors, _ERRORS)


def _bars(score: ScaleScore, shares: ClassShares, confidence: float) -> StudyFigure:
    scale, goal, drawn = score.request.scale, score.request.goal, score.drawn_shares
    rows = [
        {
            "name": level,
            **columns("value", share, ends=""),
            **({"colour": scale.colours[place]} if scale.colours else {}),
            **({"reference": goal[place]} if goal else {}),
            "expected": math.nan if drawn is None else float(drawn[place]),
        }
        for place, (level, share) in enumerate(zip(scale.levels, shares.intervals(confidence=confidence), strict=True))
    ]
    return figure(
        "bars",
        f"{KEY}-{scale.name}",
        scale.title,
        rows,
        f"Share of the pictures of each, {scale.levels[0]} the {scale.lowest}, corrected for the reader's errors; the "
        "lines hold all shares together.",
        y="share of the pictures",
        reference="goal" if goal else "",
    )


def compare_scales(
    arms: Sequence[tuple[str, Sequence[str], Sequence[ScaleScore]]], *, confidence: float, seed: int
) -> Results:
    """How far apart the pictures of two arms lie on every scale; arms with their names, units and scores."""
    if len(arms) < 2:
        return Results()
    findings, rows, figures = list[Finding](), list[dict[str, Any]](), list[StudyFigure]()
    for place, score in enumerate(arms[0][2]):
        of_scale = [(name, units, scores[place]) for name, units, scores in arms if place < len(scores)]
        for other in of_scale[1:]:
            one, row = _pair(of_scale[0], other, several=len(of_scale) > 2, confidence=confidence, seed=seed)
            findings.append(one)
            rows.append(row)
        figures += _arm_figures(score, of_scale)
    made = table(
        DISTANCES,
        "Distance between the arms on a scale",
        rows,
        "Distance: by how many steps of the scale the pictures of the second arm lie from those of the first, on "
        "average (Wasserstein). By chance: the distance of two sets of that size that differ by chance alone. p: "
        "permutation of the pictures of a seed, or of all pictures where arms share no seed.",
    )
    return Results(findings=tuple(findings), tables=(made,) if rows else (), figures=tuple(figures))


def _pair(
    first: tuple[str, Sequence[str], ScaleScore],
    second: tuple[str, Sequence[str], ScaleScore],
    *,
    several: bool,
    confidence: float,
    seed: int,
) -> tuple[Finding, dict[str, Any]]:
    """The distance of two arms, on the seeds that both have where they have any."""
    (one, units, a), (other, other_units, b) = first, second
    scale, k = a.request.scale, a.n_levels
    at = np.intersect1d(units, other_units, return_indices=True)[1:]
    paired = len(at[0]) > 1
    x, y = (score.places[rows] if paired else score.places for score, rows in zip((a, b), at, strict=True))
    estimate = _distance(a, x, y, paired=paired, confidence=confidence, seed=seed)
    x_clear, y_clear = (np.where(places < k, places, np.nan) for places in (x, y))
    test = ordered_test(x_clear, y_clear, k, paired=paired, rng=seed)
    key = f"{KEY}-{scale.name}-distance"
    distance = finding(
        f"{key}: {other} - {one}",
        f"{scale.name}: distance{f', {one} to {other}' if several else ''}",
        DISTANCE,
        estimate,
        _says(scale.steps, test, one, other),
        p_value=None if math.isnan(test.p_value) else test.p_value,
        expected=_drawn_distance(a, b),
    )
    row = {
        "scale": scale.title,
        "first": one,
        "second": other,
        **columns("distance", estimate, ends=""),
        "steps": scale.steps,
        "mean first": _mean_of(a, x),
        "mean second": _mean_of(b, y),
        "by chance": test.by_chance,
        "p": test.p_value,
        "n": test.n,
        "compared on": "same seeds" if paired else "no seed in common",
        "drawn": or_nan(distance.expected),
        "note": estimate.note,
    }
    return distance, row


def _distance(a: ScaleScore, x: np.ndarray, y: np.ndarray, *, paired: bool, confidence: float, seed: int) -> Estimate:
    m = a.n_levels + 1
    counts = [np.bincount(places, minlength=m) for places in (x, y)]
    if not all(of_arm[:-1].any() for of_arm in counts):
        return Estimate.undefined(min(len(x), len(y)), "it can be told of no picture of an arm", null_value=0.0)
    joint = None
    if paired:
        joint = np.zeros((m, m))
        np.add.at(joint, (x, y), 1)
    how: dict[str, Any] = {"errors": a.errors, "has_unclear": True, "confidence": confidence, "rng": seed}
    return level_distance(*counts, joint=joint, **how)


def _mean_of(score: ScaleScore, places: np.ndarray) -> float:
    """The mean level of some of the pictures, corrected; nan where it can be told of none."""
    values = replace(score, places=places).values(np.arange(1.0, score.n_levels + 1).tolist())
    return float(np.nanmean(values)) if not np.isnan(values).all() else math.nan


def _drawn_distance(a: ScaleScore, b: ScaleScore) -> float | None:
    one, other = a.drawn_shares, b.drawn_shares
    return None if one is None or other is None else float(np.abs(np.cumsum(one - other)[:-1]).sum())


def _says(steps: str, test: OrderedTest, one: str, other: str) -> str:
    if math.isnan(test.p_value):
        return f"No picture of “{one}” differs from those of “{other}”, which is no proof that none would."
    return f"In {steps}; by chance alone {format_number(test.by_chance)}; p {format_p(test.p_value)}."


def _arm_figures(score: ScaleScore, arms: Sequence[tuple[str, Sequence[str], ScaleScore]]) -> Iterator[StudyFigure]:
    """The share of the pictures up to each level, a line for each arm."""
    scale, rows = score.request.scale, list[dict[str, Any]]()
    for name, _, one in arms:
        if (shares := one.shares) is not None:
            up_to = np.cumsum(shares.value)
            corners = [(place + i, up_to[place - 1]) for place in range(1, len(up_to)) for i in (0, 1)]
            rows += [{"group": name, "x": x, "value": float(y)} for x, y in (*corners, (len(up_to), 1.0))]
    if rows:
        yield figure(
            "curves",
            f"{KEY}-{scale.name}",
            f"{scale.title}: share up to each {scale.step}",
            rows,
            f"The further left and the higher a line, the more pictures are of the {scale.lowest}; the area between "
            f"two lines is their distance in {scale.steps}. "
            + " · ".join(f"{i}: {level}" for i, level in enumerate(scale.levels, start=1) if level != str(i)),
            x=f"{scale.step}, 1 the {scale.lowest}",
            y="share of the pictures up to here",
            colours=list(scale.colours),
        )


def scales_headline(findings: Iterable[Finding]) -> str:
    """What stands out of scales in one arm: the mean, and how many stand at its upper end; "" where there are none."""
    by_key = {one.key: one for one in findings if one.key.startswith(f"{KEY}-")}
    sentences = []
    for key, mean in by_key.items():
        high = by_key.get(f"{key.removesuffix('-mean')}-highest")
        if mean.metric != MEAN or high is None:
            continue
        name, of, ends = mean.title.removesuffix(": mean"), high.estimate, (mean.estimate.low, mean.estimate.high)
        words = high.title.removeprefix(f"{name}: ").removesuffix(": P")
        value = f"{format_number(mean.estimate.value, *ends)} {format_interval(*ends)}"
        share = format_share(of.value, of.low, of.high, n=of.n)
        says = mean.says[:1].lower() + mean.says[1:].rstrip(".")
        sentences.append(f" The mean {name} is {value} ({says}); the {words}: {share} of {of.n} pictures.")
    return "".join(sentences)


def scales_arms_headline(distances: pd.DataFrame) -> str:
    """What stands out of scales between arms, from their table: the largest distance of each; "" without any."""
    sentences = []
    for scale, rows in distances.groupby("scale", sort=False) if len(distances) else ():
        row = rows.sort_values("distance", ascending=False).iloc[0]
        ends = row["low"], row["high"]
        value = f"{format_number(row['distance'], *ends)} {row['steps']} {format_interval(*ends)}"
        means = [format_number(row[f"mean {one}"], *ends) for one in ("first", "second")]
        both = f"{means[0]} in “{row['first']}” and {means[1]} in “{row['second']}”"
        if math.isnan(row["p"]):
            sentences.append(f" {scale}: no picture of “{row['first']}” and “{row['second']}” differs in it.")
        elif row["p"] < _LEVEL:
            sentences.append(f" {scale}: mean {both}, {value} apart.")
        else:
            by_chance = f"{format_number(row['by chance'], *ends)} by chance alone"
            sentences.append(f" {scale}: mean {both}, which are not shown to differ: {value} apart, {by_chance}.")
    return "".join(sentences)


def scale_columns(scores: Sequence[ScaleScore]) -> dict[str, list[str]]:
    """What every picture is read as, by the name of its column."""
    return {f"{one.name}{READ_AS}": one.words for one in scores}
