"""TBYB's findings, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.object_bias import top_objects
from bias_core.studies.kit.types import Finding, StudyFigure, StudyTable
from bias_core.studies.objects.captions import BLANK, STRONGER, Scores
from bias_core.studies.reports.build import columns, figure, mark, table

if TYPE_CHECKING:
    from bias_core.metrics.object_bias import GenderCounts

TOP = 10
MOST_CHANGED = 6
RUN = "this run"
NOTES = (
    "B_D is lower where a few objects tower over the others. It grows with pictures and vocabulary: compare "
    "it at equal numbers only. Normalised entropy, Gini and the effective number of objects stand beside it.",
    "A caption names only some of what is there: H_J of a faithful picture is far from 0.",
    "M_G against a blank was near 0 for every published model; the stronger negative tells more.",
)
_COMPANIONS = {
    "distribution_bias": "B_D",
    "normalised_entropy": "normalised entropy",
    "gini": "Gini",
    "effective_number": "effective number",
}
_AGAINST = {BLANK: "a blank", STRONGER: "the stronger negative"}
_COLUMNS = {"Dist. Bias": "B_D", "Hallucination": "H_J", "Gen. Miss Rate": "M_G, blank"}


def findings(name: str, scores: Scores, published: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    """The three measures and their companions; ``published`` is a row of the released evaluations."""
    printed = {c: float(published[c]) for c in _COLUMNS} if published else {}
    found = [
        Finding(
            key=f"{name} {key}",
            title=f"{name}: {title}",
            metric=key,
            estimate=estimate,
            published=printed.get("Dist. Bias") if key == "distribution_bias" else None,
            says=_in_words(key, estimate.value, scores.distribution.n_objects),
            depends_on_n=True,
            sample=scores.samples.get(key),
        )
        for key, title in _COMPANIONS.items()
        if scores.distribution is not None
        for estimate in [getattr(scores.distribution, key)]
    ]
    found.append(
        Finding(
            key=f"{name} hallucination",
            title=f"{name}: H_J",
            metric="jaccard_hallucination",
            estimate=scores.hallucination,
            published=printed.get("Hallucination"),
            says=_in_words("hallucination", scores.hallucination.value),
            sample=scores.samples.get("jaccard_hallucination"),
        )
    )
    found += [
        Finding(
            key=f"{name} miss {negative}",
            title=f"{name}: M_G against {_AGAINST[negative]}",
            metric="generative_miss_rate",
            estimate=estimate,
            published=printed.get("Gen. Miss Rate") if negative == BLANK else None,
            says=_in_words(negative, estimate.value),
            sample=scores.samples.get(negative),
        )
        for negative, estimate in scores.miss.items()
    ]
    return tuple(found)


def _in_words(key: str, value: float, n_objects: int = 0) -> str:
    if math.isnan(value):
        return ""
    return {
        "distribution_bias": f"{n_objects:,} different objects.",
        "normalised_entropy": "1 would be all objects equally often.",
        "gini": "0 would be all objects equally often.",
        "effective_number": f"As varied as {value:.0f} objects that are equally frequent.",
        "hallucination": f"On average {100 * value:.0f} % of the objects of prompt and caption are in one of "
        "them only.",
        BLANK: f"{100 * value:.0f} % of the pictures fit an empty text better than their prompt.",
        STRONGER: f"{100 * value:.0f} % of the pictures fit another text better than their prompt.",
    }[key]


def measures_table(sets: Mapping[str, Scores], *, first: str = "pictures") -> pd.DataFrame:
    """One row per set of pictures."""
    return pd.DataFrame([{first: name, **measures(scores)} for name, scores in sets.items()])


def measures(scores: Scores) -> dict[str, Any]:
    """The measures of one set, with the ends of their intervals."""
    distribution = scores.distribution
    row: dict[str, Any] = {"n": scores.n_images, "objects": len(scores.counts)}
    for key, title in _COMPANIONS.items():
        estimate = getattr(distribution, key) if distribution else None
        named = columns(title, estimate)
        row |= named if key == "distribution_bias" else {title: named[title]}
    row |= columns("H_J", scores.hallucination)
    for negative in (BLANK, STRONGER):
        row |= columns(f"M_G, {negative}", scores.miss[negative])
    return row | {"note": scores.why}


def published_table(sets: Mapping[str, Scores], rows: Sequence[Mapping[str, str]]) -> StudyTable:
    """The run beside the released evaluations (Table II)."""
    own = [
        {
            "model": RUN,
            "prompts": name,
            "n": scores.n_images,
            "B_D": scores.distribution.distribution_bias.value if scores.distribution else math.nan,
            "H_J": scores.hallucination.value,
            "M_G, blank": scores.miss[BLANK].value,
        }
        for name, scores in sets.items()
    ]
    others = [
        {
            "model": row["Model"],
            "prompts": row.get("Target", "general"),
            "n": int(row["No. Samples"]),
            **{title: float(row[column]) for column, title in _COLUMNS.items()},
        }
        for row in rows
    ]
    note = (
        "The published numbers come from photographs, other captions and another CLIP. B_D at another n, or "
        "of another vocabulary, cannot be compared."
    )
    return table("table2", "Beside the released evaluations (Table II)", own + others, note)


def gender_table(
    sets: Mapping[str, GenderCounts], drawn: float | None, rows: Sequence[Mapping[str, Any]]
) -> StudyTable:
    """Table IV."""
    own = [
        {
            "model": f"{RUN}, {name}",
            **columns("male", counts.masculine),
            **columns("female", counts.feminine),
            "unspecified": counts.unspecified.value,
        }
        for name, counts in sets.items()
    ]
    if drawn is not None:
        own.append({"model": f"{RUN}, people as drawn", "male": drawn, "female": 100 - drawn})
    printed = [
        {"model": row["model"], "male": row["male"], "female": row["female"],
         "unspecified": 100 - row["male"] - row["female"]}
        for row in rows
    ]  # fmt: skip
    note = "What a captioner calls the people; a caption with both counts half for each."
    return table("table4", "Gender in the captions, in % (Table IV)", own + printed, note)


def gender_figure(table4: StudyTable) -> StudyFigure:
    """What captions call the people in this run, and whom was drawn where that is on record."""
    own = table4.frame[table4.frame["model"].str.startswith(RUN)]
    rows = [
        {
            "name": row["model"].removeprefix(f"{RUN}, "),
            "group": gender,
            "value": row[gender],
            "low": row.get(f"{gender} low", math.nan),
            "high": row.get(f"{gender} high", math.nan),
        }
        for _, row in own.iterrows()
        for gender in ("male", "female")
    ]
    caption = "What a captioner calls the people, by their appearance; the rest is unspecified."
    return figure("bars", "genders", "Gender in the captions (Table IV)", rows, caption, y="% of the pictures")


def top_table(sets: Mapping[str, Scores], base: str = "", key: str = "top_objects") -> StudyTable:
    """The most frequent objects of each set; with a base set, of the others, and the change against it."""
    frames = []
    for name, scores in sets.items():
        if scores.counts and name != base:
            counts = top_objects(scores.counts, sets[base].counts if base else None, TOP)
            frames.append(counts.assign(pictures=name))
    columns = {"n": "pictures with it", "base_n": f"with it in {base}", "delta_n": "Δn"}
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["pictures", "object"])
    frame = frame[["pictures", *[c for c in frame if c != "pictures"]]].rename(columns=columns)
    note = "share: of all objects that were counted." + (f" Δn: against {base}." if base else "")
    return table(key, f"The {TOP} most frequent objects (Tables I and III)", frame, note)


def curve_figure(sets: Mapping[str, Scores], title: str = "Sorted objects (Fig. 2)") -> StudyFigure:
    """B_D is the area under these curves."""
    rows = [
        {"group": name, "x": place, "value": value}
        for name, scores in sets.items()
        for place, value in enumerate(_normalised(scores.counts), start=1)
    ]
    axes = {"x": "objects, most frequent first", "y": "min-max normalised count"}
    caption = "B_D is the area under the curve: a steep one has few objects that tower over the rest."
    return figure("curves", "figure2", title, rows, caption, **axes)


def _normalised(counts: Mapping[str, int]) -> np.ndarray:
    values = np.sort(np.array(list(counts.values()), dtype=float))[::-1]
    return (values - values.min()) / np.ptp(values) if values.size and np.ptp(values) else np.array([])


def top_figure(name: str, scores: Scores) -> StudyFigure:
    """The most frequent objects as bars."""
    rows = top_objects(scores.counts, n=TOP) if scores.counts else pd.DataFrame(columns=["object", "n"])
    bars = pd.DataFrame({"name": rows["object"], "value": rows["n"]})
    axis, caption = f"pictures with it, of {scores.n_images:,}", f"{name}; objects named in the captions."
    return figure("bars", "top_objects", f"The {TOP} most frequent objects", bars, caption, y=axis)


def change_figure(sets: Mapping[str, Scores], base: str) -> StudyFigure:
    """The objects that gained or lost most against the base, in every condition."""
    counts = {name: scores.counts for name, scores in sets.items() if scores.counts}
    before = counts.get(base, {})
    others = {name: found for name, found in counts.items() if name != base and before}
    moved = {
        word: max(abs(found.get(word, 0) - before.get(word, 0)) for found in others.values())
        for word in sorted({word for found in (before, *others.values()) for word in found})
        if others
    }
    most = sorted(moved, key=lambda word: -moved[word])[:MOST_CHANGED]
    rows = [
        {"name": word, "group": name, "value": found.get(word, 0)}
        for word in most
        for name, found in {base: before, **others}.items()
    ]
    n = {scores.n_images for scores in sets.values()}
    axis = f"pictures with it, of {' or '.join(f'{count:,}' for count in sorted(n))}"
    caption = f"Δn is the difference of a bar from that of {base}; the table has it as a number."
    return figure("bars", "changed_objects", "The objects that change most (Table III)", rows, caption, y=axis)


def rates_figure(sets: Mapping[str, Scores], key: str = "rates") -> StudyFigure:
    """H_J and M_G of each set with their intervals."""
    rows = [
        mark(name, estimate, group=title)
        for name, scores in sets.items()
        for title, estimate in (
            ("H_J", scores.hallucination),
            ("M_G, stronger negative", scores.miss[STRONGER]),
            ("M_G, blank", scores.miss[BLANK]),
        )
    ]
    caption = "0: every picture shows what its prompt names, and no other sentence fits it better."
    return figure("bars", key, "Hallucination and miss rate", rows, caption, y="H_J, M_G", null=0.0)
