"""TBYB's findings, tables and figures: of one run, and over models, conditions and data sets (Tables II and VI)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.object_bias import DIMENSIONS, compare_models, normalise_over_models
from bias_core.measures.object_distribution import FORMULAS, top_objects
from bias_core.measures.objects import GenderCounts
from bias_core.measures.sequential import share_interval
from bias_core.papers.tbyb.captions import BLANK, MEASURES, STRONGER, Scores
from bias_core.report.arm_comparison import (
    ARM,
    Numbers,
    collect_numbers,
    find_finding,
    marks_over_arms,
    numbers_together,
    rank_arms,
    rank_columns,
)
from bias_core.report.claims import NO_CLAIM, largest, p_words
from bias_core.study.design import ReportTexts
from bias_core.study.types import (
    ArmReport,
    Finding,
    Results,
    Sample,
    StudyFigure,
    StudyReport,
    StudySettings,
    StudyTable,
    columns,
    drawable,
    mark,
)
from bias_core.wording import format_change, format_list, format_share

Entry = tuple[str, ArmReport, str]  # a line of a comparison: its name, the arm, and which of the arm's sets of pictures
Sets = Mapping[str, Scores]  # the scores of each set of pictures by its name


TEXTS = ReportTexts(__file__)
TOP = 10
TOP_CURVE = 100  # objects of Fig. 2
MOST_CHANGED = 6
RUN = "this run"
ALL = "all prompts"  # name of the set of all pictures
BY_RELEASED_RULES = f"{RUN}, released rules"
_WITHOUT_ENDS = ("normalised_entropy", "gini", "effective_number")  # without intervals in the table of measures
_BY_RELEASED_RULES = {"B_D": "B_D, released rules", "H_J": "H_J, released rules"}  # columns
_TABLE2 = {"B_D": "Dist. Bias", "H_J": "Hallucination", "M_G, blank": "Gen. Miss Rate"}  # to the released columns
AGAINST_BASE_NOTE = (
    "Each picture is compared with the base's picture of the same prompt and seed. All objects of all sets of "
    "pictures are one family of tests; the numbers of all objects together (divergence, variety, added and missing "
    "objects) are another. p of the divergence comes from permutation within pairs. The paper's measures B_D, H_J and "
    "M_G stand below."
)
READING_NOTES = (
    (
        "B_D, the paper's distribution bias, is lower if a few objects dominate. It grows with pictures and "
        "vocabulary: compare it at equal numbers only. Normalised entropy, Gini and the effective number of objects "
        "are given as well."
    ),
    (
        "H_J, the paper's hallucination score: captions name only some objects, so H_J of a faithful picture is far "
        "from 0."
    ),
    (
        "M_G, the paper's miss rate, was near 0 against a blank for every model in the paper; the stronger negative "
        "is more informative."
    ),
)
NORMALISED_NOTE = (
    "Normalised: 0 is the least biased of these lines, 1 the most; rank 1 is the most biased. Normalising also "
    "enlarges chance differences: read the differences with their intervals first."
)


def set_findings(name: str, scores: Scores, published: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """Return the three measures and their companions; ``published`` is a row of the released evaluations."""
    return tuple(
        Finding(
            key=f"{name} {key}",
            title=f"{name}: {measure.title}",
            metric=measure.metric,
            estimate=estimate,
            published=float(published[measure.released]) if published and measure.released else None,
            says=""
            if math.isnan(value)
            else measure.says.format(value=value, percent=100 * value, n_objects=len(scores.counts)),
            depends_on_n=key in FORMULAS,
            sample=scores.samples[key],
        )
        for key, estimate in scores.estimates.items()
        for measure, value in [(MEASURES[key], estimate.value)]
    )


def measures_table(sets: Sets, *, first: str = "pictures") -> pd.DataFrame:
    """Return one row per set of pictures, with the ends of the intervals."""
    rows = []
    for name, scores in sets.items():
        row: dict[str, Any] = {first: name, "n": scores.n_images, "objects": len(scores.counts)}
        for key, measure in MEASURES.items():
            if measure.column in _BY_RELEASED_RULES.values() and key not in scores.estimates:
                continue
            named = columns(measure.column, scores.estimates.get(key))
            row |= {measure.column: named[measure.column]} if key in _WITHOUT_ENDS else named
        rows.append(row | {"note": scores.reason})
    return pd.DataFrame(rows)


def published_table(sets: Sets, rows: Sequence[Mapping[str, str]]) -> StudyTable:
    """Return the run next to the released evaluations (Table II)."""
    run_table = measures_table(sets, first="prompts").assign(model=RUN)
    names = ["model", "prompts", "n", *_TABLE2]
    lines: list[Any] = run_table[names].to_dict("records")
    if set(_BY_RELEASED_RULES.values()) & set(run_table):
        like = run_table.drop(columns=list(_BY_RELEASED_RULES)).rename(
            columns={to: of for of, to in _BY_RELEASED_RULES.items()}
        )
        lines += like.assign(model=BY_RELEASED_RULES).reindex(columns=names).to_dict("records")
    lines += [
        {
            "model": row["Model"],
            "prompts": row.get("Target", "general"),
            "n": int(row["No. Samples"]),
            **{column: float(row[released]) for column, released in _TABLE2.items()},
        }
        for row in rows
    ]
    return TEXTS.table("table2", lines)


def among_released(
    sets: Sets, rows: Sequence[Mapping[str, str]], settings: StudySettings
) -> tuple[list[StudyTable], list[StudyFigure]]:
    """Rank the run among the released models, by the released rules: Fig. 4 with ranks and their intervals."""
    frames: list[pd.DataFrame] = []
    figures: list[StudyFigure] = []
    note = ""
    for name, scores in sets.items():
        theirs = {row["Model"]: row for row in rows if row.get("Target", "general") == _released_name(name)}
        if not theirs or not scores.estimates.keys() >= set(_PLACED.values()):
            continue
        measures = pd.DataFrame(
            {
                dimension: [
                    scores.estimates[key].value,
                    *(float(row[MEASURES[key].released]) for row in theirs.values()),
                ]
                for dimension, key in _PLACED.items()
            },
            index=[BY_RELEASED_RULES, *theirs],
        )
        numbers = {of: _fixed_beside(measures[of], scores.samples[_PLACED[of]], settings) for of in _usable(measures)}
        frame = _with_ranks(measures, numbers, settings)
        title, key = f"{name.capitalize()}: this run among the released models", f"figure4_{len(figures) + 1}"
        figures.append(space_figure(frame, title, key=key if figures else "figure4"))
        frames.append(frame.rename_axis("model").reset_index().assign(prompts=_released_name(name)))
        note = normalised_note(measures)
    if not frames:
        return [], []
    note += f" {describe_ranks('; released values have none')}"
    of = "This run among the released models"
    return [TEXTS.table("comparison", pd.concat(frames, ignore_index=True), of=of, note=note)], figures


def ranked_sets(measures: pd.DataFrame, sets: Sets, settings: StudySettings) -> pd.DataFrame:
    """Return :func:`normalise_lines` for the sets of pictures of one run, with the interval of each rank."""
    samples = {of: [scores.samples[_KEYS[of]] for scores in sets.values()] for of in _usable(measures)}
    numbers = {
        of: numbers_together(measure_samples, depends_on_n=of == "distribution_bias", seed=settings.seed)
        for of, measure_samples in samples.items()
    }
    return _with_ranks(measures, numbers, settings)


def _with_ranks(measures: pd.DataFrame, numbers: Mapping[str, Numbers], settings: StudySettings) -> pd.DataFrame:
    """Return the normalised lines, with ranks from resamples of each measure."""
    frame = normalise_lines(measures)
    return frame.drop(columns="rank").join(_ranks(frame["distance"], numbers, settings)) if numbers else frame


def _fixed_beside(column: "pd.Series[float]", sample: Sample, settings: StudySettings) -> Numbers:
    """Return a measure of this run with its resamples, next to the released values without."""
    run_numbers = numbers_together([sample], depends_on_n=column.name == "distribution_bias", seed=settings.seed)
    values = np.asarray(column, dtype=np.float64)
    drawn: np.ndarray = np.tile(values, (len(run_numbers.drawn), 1))
    drawn[:, 0] = run_numbers.drawn[:, 0]
    return Numbers(values=values, n=run_numbers.n * len(values), drawn=drawn)


def _released_name(name: str) -> str:
    return "general" if name == ALL else name


def gender_table(
    sets: Sets, settings: StudySettings, drawn: float | None, rows: Sequence[Mapping[str, Any]]
) -> StudyTable:
    """Return Table IV, and the shares among captions with gender words; ``drawn`` is the true percentage of men."""
    lines: list[dict[str, Any]] = [
        {
            "model": f"{RUN}, {name}",
            **columns("male", scores.genders.masculine),
            **columns("female", scores.genders.feminine),
            "unspecified": scores.genders.unspecified.value,
            **_among_named(scores.genders, settings),
        }
        for name, scores in sets.items()
    ]
    if drawn is not None:
        lines.append({"model": f"{RUN}, people as drawn", "male": drawn, "female": 100 - drawn})
    lines += [
        {name: row[name] for name in ("model", "male", "female")} | {"unspecified": 100 - row["male"] - row["female"]}
        for row in rows
    ]
    return TEXTS.table("table4", lines)


def _among_named(genders: GenderCounts, settings: StudySettings) -> dict[str, Any]:
    """Return the share of men among the captions with gender words; one with words of both kinds counts half."""
    n = genders.n_images - genders.n_unspecified
    share = None
    if n:
        n_men, fixed_n = genders.n_masculine + genders.n_both / 2, not settings.may_stop_early
        share = share_interval(n_men, n, fixed_n=fixed_n, confidence=settings.confidence).scaled(100)
    return {"captions": genders.n_images, NAMED: n, **columns(MALE_OF_NAMED, share)}


NAMED, MALE_OF_NAMED = "with gender", "male of these"
WITH_IT, SHARE_WITH_IT = "pictures with it", "% with it"


def top_table(sets: Sets, settings: StudySettings, base: str = "") -> StudyTable:
    """Return the most frequent objects of each set; with a base set, of the others, and the change against it."""
    frames = [
        top_objects(scores.counts, sets[base].counts if base else None, TOP).assign(pictures=name)
        for name, scores in sets.items()
        if scores.counts and name != base
    ]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["pictures", "object", "n"])
    fixed_n = not settings.may_stop_early
    shares = [
        share_interval(n, sets[name].n_images, fixed_n=fixed_n, confidence=settings.confidence).scaled(100)
        for name, n in zip(frame["pictures"], frame["n"], strict=True)
    ]
    of_pictures = pd.DataFrame([columns(SHARE_WITH_IT, share) for share in shares], index=frame.index)
    frame = frame.join(of_pictures.assign(of=[sets[name].n_images for name in frame["pictures"]]))
    frame = frame[["pictures", *frame.columns.drop("pictures")]].rename(
        columns={"n": WITH_IT, "base_n": f"with it in {base}", "delta_n": "Δn"}
    )
    return TEXTS.table("top_objects", frame, change=f" Δn: against {base}." if base else "")


def build_figures(sets: Sets, table4: StudyTable) -> tuple[StudyFigure, ...]:
    """Return Fig. 2, the most frequent objects, H_J and M_G, and genders, without empty figures."""
    name, scores = next(iter(sets.items()))
    rows = top_objects(scores.counts, n=TOP) if scores.counts else pd.DataFrame(columns=["object", "n"])
    bars = rows[["object", "n"]].set_axis(["name", "value"], axis=1)
    top = TEXTS.figure("top_objects", bars, name=name.capitalize(), n=scores.n_images)
    genders = [
        {
            "name": row["model"].removeprefix(f"{RUN}, "),
            "group": gender,
            "value": row[gender],
            **{end: row.get(f"{gender} {end}", math.nan) for end in ("low", "high")},
        }
        for row in table4.frame[table4.frame["model"].str.startswith(RUN)].to_dict("records")
        for gender in ("male", "female")
    ]
    return drawable((curve_figure(sets), top, rates_figure(sets), TEXTS.figure("genders", genders)))


def curve_figure(sets: Sets) -> StudyFigure:
    """Return the number of pictures with each object; B_D is the area under the curve, scaled from 0 to 1."""
    rows = []
    for name, scores in sets.items():
        counts = np.sort(np.array(list(scores.counts.values()), dtype=float))[::-1]
        if counts.size and np.ptp(counts):
            rows += [{"group": name, "x": place, "value": n} for place, n in enumerate(counts[:TOP_CURVE], start=1)]
    return TEXTS.figure("figure2", rows)


def change_figure(sets: Sets, base: str) -> StudyFigure:
    """Return the objects with the largest change from the base, in every condition."""
    counts = pd.DataFrame({name: scores.counts for name, scores in sets.items() if scores.counts})
    counts = counts.fillna(0).astype(int).sort_index()
    rows: list[dict[str, Any]] = []
    if base in counts and counts.shape[1] > 1:
        moved = counts.drop(columns=base).sub(counts[base], axis=0).abs().max(axis=1)
        top_counts = counts.loc[moved.sort_values(ascending=False, kind="stable").index[:MOST_CHANGED]]
        rows = [
            {"name": word, "group": name, "value": n}
            for word, line in top_counts.iterrows()
            for name, n in line.items()
        ]
    n_images = sorted({scores.n_images for scores in sets.values()})
    return TEXTS.figure("changed_objects", rows, base=base, n=" or ".join(f"{n:,}" for n in n_images))


def rates_figure(sets: Sets) -> StudyFigure:
    """Return H_J and M_G of each set with intervals."""
    titles = {"hallucination": "H_J", f"miss {STRONGER}": "M_G, stronger negative", f"miss {BLANK}": "M_G, blank"}
    return TEXTS.figure(
        "rates", [mark(n, s.estimates[key], group=title) for n, s in sets.items() for key, title in titles.items()]
    )


AXES = {"distribution_bias": "B_D", "hallucination": "H_J", "miss_rate": "M_G, blank"}
_KEYS = {
    "distribution_bias": "distribution_bias",
    "hallucination": "hallucination",
    "miss_rate": f"miss {BLANK}",
    "stronger": f"miss {STRONGER}",
}
_PLACED = {
    "distribution_bias": "released_distribution_bias",
    "hallucination": "released_hallucination",
    "miss_rate": f"miss {BLANK}",
}
_TITLE = "Models and conditions (Table II)"


def compare_objects(
    settings: StudySettings,
    arms: Sequence[ArmReport],
    *,
    title: str = _TITLE,
    by_rank: bool = False,
    sets_together: bool = False,
) -> Results:
    """Return Table II: every model and condition by prompts, or all sets in one comparison (``sets_together``)."""
    ending = f" {_KEYS['hallucination']}"
    keys = [f.key for f in arms[0].results.findings if f.key.endswith(ending)]
    names = [key.removesuffix(ending) for key in keys if all(find_finding(arm, key) for arm in arms)]
    entries = {name: [(arm.name, arm, name) for arm in arms] for name in names}
    if sets_together:
        entries = {"all conditions": [(f"{arm.name}, {name}", arm, name) for arm in arms for name in names]}
    frames, figures, notes = [], [], dict[str, None]()
    for i, (name, lines) in enumerate(entries.items(), start=1):
        frame, measures = _compare_entries(lines, settings)
        if by_rank and "rank" in frame:
            frame = frame.sort_values("rank", kind="stable")
        figures.append(space_figure(frame, f"{name.capitalize()}: the arms", key=f"figure4-{i}"))
        notes[normalised_note(measures)] = None
        frames += [frame.rename_axis(ARM).reset_index(), *_list_released_lines(arms, name)]
    marks = marks_over_arms(arms, "figure2")
    for i, name in enumerate(entries, start=1):
        if len(mine := marks[marks["group"] == name] if len(marks) else marks):
            curves = mine.assign(group=mine[ARM]).reset_index(drop=True)
            figures.append(TEXTS.figure("figure2_arms", curves, number=i, name=name.capitalize()))
    return Results(
        tables=(TEXTS.table("table2_arms", pd.concat(frames, ignore_index=True), title=title, notes=" ".join(notes)),),
        figures=drawable(figures),
    )


compare_datasets = partial(compare_objects, title="Data sets, most biased first (Table VI)", by_rank=True)
compare_conditions = partial(compare_objects, sets_together=True)


def _compare_entries(entries: Sequence[Entry], settings: StudySettings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a line per entry with distance and rank, and the measures behind them."""
    arms = [arm for _, arm, _ in entries]
    numbers = {
        name: collect_numbers(arms, [f"{of} {key}" for _, _, of in entries], settings) for name, key in _KEYS.items()
    }
    measures = pd.DataFrame(
        {name: np.full(len(arms), np.nan) if n is None else n.values for name, n in numbers.items()},
        index=[name for name, _, _ in entries],
    )
    usable = {name: n for name, n in numbers.items() if n is not None and name in _usable(measures)}
    frame = _with_ranks(measures, usable, settings).rename(columns={"stronger": "M_G, stronger"})
    missed = [find_finding(arm, f"{of} {_KEYS['miss_rate']}") for _, arm, of in entries]
    first: dict[str, Any] = {
        "prompts": [of for _, _, of in entries],
        "model": [arm.settings.model for arm in arms],
        "condition": [arm.settings.condition for arm in arms],
        "n": [finding.estimate.n if finding else 0 for finding in missed],
        "compared n": numbers["distribution_bias"].n if numbers["distribution_bias"] else np.nan,
    }
    lines = pd.concat([pd.DataFrame(first, index=frame.index), frame], axis=1)
    foremost = [name for name in ("rank", "rank low", "rank high", "distance") if name in lines]
    return lines[[*foremost, *lines.columns.difference(foremost, sort=False)]], measures


def _ranks(distance: "pd.Series[float]", differing: Mapping[str, Numbers], settings: StudySettings) -> pd.DataFrame:
    """Return ranks by distance, with intervals from resampled pictures."""
    k = min(len(numbers.drawn) for numbers in differing.values())
    squares = [normalise_over_models(n.drawn[:k].round(12), name) ** 2 for name, n in differing.items()]
    # As in the table, a measure without differences adds nothing.
    drawn = np.asarray(np.sqrt(np.nansum(squares, axis=0)), dtype=np.float64)
    numbers = Numbers(values=np.asarray(distance, dtype=np.float64), n=next(iter(differing.values())).n, drawn=drawn)
    return pd.DataFrame(
        [rank_columns(rank) for rank in rank_arms(numbers, confidence=settings.confidence)], index=distance.index
    )


def normalise_lines(measures: pd.DataFrame) -> pd.DataFrame:
    """Return the measures by the paper's names, each normalised over the lines, with distance and rank (Fig. 4)."""
    usable = _usable(measures)
    table = compare_models(measures, dimensions=usable) if usable else measures
    return table.rename(columns={f"normalised_{n}": f"normalised {sign}" for n, sign in AXES.items()} | AXES)


def _usable(measures: pd.DataFrame) -> list[str]:
    return [d for d in DIMENSIONS if np.isfinite(measures[d]).all() and np.ptp(measures[d].to_numpy()) > 0]


def normalised_note(measures: pd.DataFrame) -> str:
    """Return a note that explains :func:`normalise_lines`."""
    left_out = ", ".join(sign for name, sign in AXES.items() if name not in _usable(measures))
    if not left_out:
        return NORMALISED_NOTE
    return f"{NORMALISED_NOTE} Left out, because it is undefined or all lines agree: {left_out}."


def space_figure(compared: pd.DataFrame, of: str, *, key: str = "figure4") -> StudyFigure:
    """Return Fig. 4: each line of :func:`normalise_lines` as a point in the space of the normalised measures."""
    axes = {axis: f"normalised {sign}" for axis, sign in zip("xyz", AXES.values(), strict=True)}
    places = compared.reindex(columns=list(axes.values())).fillna(0.0)  # a measure without differences has no extent
    places = places.set_axis(list(axes), axis=1).assign(name=compared.index)
    names = places.groupby(list(axes), sort=False)["name"].agg(" = ".join).reset_index()
    return TEXTS.figure("figure4", names if len(names) > 1 else pd.DataFrame(), of=of, key=key)


def _list_released_lines(arms: Sequence[ArmReport], name: str) -> Iterator[pd.DataFrame]:
    """Yield lines for the arms by the released rules, and for the released evaluations of these prompts."""
    for arm in arms:
        frame = arm.results.frame("table2")
        if not frame.empty:
            mine = frame[(frame["prompts"] == name) & (frame["model"] == BY_RELEASED_RULES)]
            yield mine.assign(**{ARM: f"{arm.name}, released rules", "model": arm.settings.model})
    frame = arms[0].results.frame("table2")
    if not frame.empty:
        theirs = frame[(frame["prompts"] == _released_name(name)) & ~frame["model"].str.startswith(RUN)]
        yield theirs.assign(**{ARM: theirs["model"] + ", in the paper"})


_NO_BASE = "Without a baseline this does not show bias."


def headline(report: StudyReport) -> str:
    """Say the most frequent object, and the genders that captions name; or the changes against a base.

    Hallucination and miss rate stay out: they fail on pictures with known objects (the Calibration tab).
    """
    against, top = report.results.frame("against_base"), report.results.frame("top_objects")
    if len(against):
        return _changes_in_words(report, against)
    if top.empty:
        return f"{report.n_images:,} pictures were captioned, and no caption names an object."
    first = top.iloc[0]
    says = f"“{first['object']}” is the most frequent object in captions, in {first[WITH_IT]:,}"
    if SHARE_WITH_IT in first:  # not in older reports
        share = format_share(*(first[f"{SHARE_WITH_IT}{end}"] / 100 for end in ("", " low", " high")))
        says += f" of {first['of']:,} pictures ({share})"
    return f"{says}.{_genders_in_words(report, str(first['pictures']))} {_NO_BASE}"


def arms_headline(report: StudyReport) -> str:
    """Say the changes of objects against the first arm; the paper's measures stay out, as in :func:`headline`."""
    if len(against := report.results.frame("against_base")):
        return _changes_in_words(report, against)
    return (
        "No object was compared between the arms: they share no seed, or their captions were not kept. The tables "
        "show the paper’s measures, of which nothing is claimed."
    )


def _genders_in_words(report: StudyReport, of_set: str) -> str:
    """Return the share of men among the captions of a set of pictures with gender words; "" if none has one."""
    people = report.results.frame("table4")
    rows = people[people["model"] == f"{RUN}, {of_set}"] if len(people) else people
    if rows.empty or NAMED not in rows or not rows[NAMED].iloc[0]:
        return ""
    row = rows.iloc[0]
    men = format_share(*(row[f"{MALE_OF_NAMED}{end}"] / 100 for end in ("", " low", " high")))
    return f" {row[NAMED]:,.0f} of {row['captions']:,.0f} captions name a gender: {men} of them men, the others women."


def _changes_in_words(report: StudyReport, against: pd.DataFrame) -> str:
    """Return the clearest gain of an object over the base, the other sets with one, and clear changes in the number."""
    by_set = against.columns[0]
    findings = {finding.key: finding for finding in report.results.findings}
    word, ending = _WORDS.get(by_set, ("for", ""))
    where = {
        name: "" if name == ALL else f"{word} “{name}”" if by_set == ARM else f"{word} {name}"
        for name in map(str, against[by_set])
    }
    gains = {name: findings[f"{name} named object"] for name in where}
    added = {name: findings[f"{name} added"] for name in where}
    lead, most_added = (
        next(name for name, finding in of.items() if finding is largest([*of.values()])) for of in (gains, added)
    )
    first = ", ".join(filter(None, [where[lead], gains[lead].says.partition(". ")[0].rstrip(".")]))
    other_sets = [where[name] for name, gain in gains.items() if gain.is_clear and name != lead]
    says = [f"Against {against['base'].iloc[0]}{ending}: {first}."]
    if other_sets:
        says.append(f"An object gains clearly {format_list(other_sets, last=' and ')} too.")
    if added[most_added].is_clear:
        change = " ".join(filter(None, [where[most_added], _added_in_words(added[most_added])]))
        says.append(f"Objects per picture that no prompt names: {change}.")
    return " ".join(says)


_WORDS = {"condition": ("under", ", on the same prompts and seeds"), ARM: ("in", ", on the same seeds")}
"""Words before a set of pictures, and about its base, by the table's first column."""


def _added_in_words(change: Finding) -> str:
    estimate = change.estimate
    numbers = format_change(estimate.value, estimate.low, estimate.high, n=estimate.n)
    return f"{numbers} (n = {estimate.n:,} pairs, {p_words(change.claim or NO_CLAIM)})"


def describe_ranks(fixed: str) -> str:
    return f"M_G is the paper's, against a blank. Intervals of ranks come from resampled pictures{fixed}."


def describe_same_pictures(first: str, second: str, parts: str) -> str:
    return f"{first} and {second} drew identical pictures for {parts}: there the two conditions do not differ."
