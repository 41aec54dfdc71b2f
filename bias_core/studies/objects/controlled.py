"""TBYB's controlled experiment: the same prompts under conditions whose bias is known."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.object_bias import distribution_bias_at
from bias_core.stats.effects import mean_interval, wilson_interval
from bias_core.store.images import pixel_digest
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.rows import thinned
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Finding, Results, Shot, StudyFigure, StudySettings, StudyTable
from bias_core.studies.objects.arms import compare_conditions, normalise_lines, normalised_note, space_figure
from bias_core.studies.objects.captions import (
    STRONGER,
    CaptioningOptions,
    Reading,
    Scores,
    caption_ahead,
    captioner_ready,
    captioning_readers,
    read_pictures,
    score,
)
from bias_core.studies.objects.general import general_shots, task_shots
from bias_core.studies.objects.pictures import keep_reading
from bias_core.studies.objects.report import (
    NOTES,
    change_figure,
    curve_figure,
    findings,
    measures_table,
    rates_figure,
    top_table,
)
from bias_core.studies.reports.build import columns, drawable, lean, table

if TYPE_CHECKING:
    from bias_core.studies.kit.data import StudyData
    from bias_core.types import Estimate

_FEWEST_PROMPTS = 2
WITH_TRIGGER, WITHOUT_TRIGGER = "with a trigger word", "without one"


@settings_class(frozen=True, kw_only=True)
class ControlledOptions(CaptioningOptions):
    """Which conditions and prompts are drawn, and how they are read."""

    conditions: tuple[str, ...] = setting(("fair", "trigger", "backdoor"), "Conditions", "The first is the base")
    prompts: Literal["both", "task_oriented", "general"] = setting(
        "both", "Prompts", "both: scenes with a trigger word and as many prompts without; or one of the two alone"
    )
    triggers: tuple[str, ...] = setting((), "Trigger words", "All where empty")
    sets: tuple[str, ...] = setting(("objects", "professions"), "General prompts", "objects, professions, or both")
    paper_wording: bool = setting(False, "The paper's wording", "a person ... rather than a picture of a person ...")


def controlled_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Every prompt under every condition."""
    conditions = settings.options.conditions
    if len(set(conditions)) < 2 or len(set(conditions)) < len(conditions):
        raise InvalidInput(f"a controlled experiment needs two different conditions; got {conditions}")
    if settings.images:
        raise InvalidInput("imported pictures have no conditions to compare; try tbyb-dataset")
    shots = _PROMPTS[settings.options.prompts](design, settings)
    return [
        replace(shot, condition=condition, facts={**shot.facts, "condition": condition, "words": words})
        for condition in conditions
        for shot in shots
        for words in [WITH_TRIGGER if _has_trigger(design, shot) else WITHOUT_TRIGGER]
    ]


def both_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Scenes with a trigger word, and as many general prompts without any.

    On the first a trigger-dependent and an extreme condition draw alike; on the others they must not.
    """
    triggered = task_shots(design, settings)
    plain = [shot for shot in general_shots(design, settings) if not _has_trigger(design, shot)]
    few = thinned(plain, len(triggered) / len(plain), least=_FEWEST_PROMPTS, seed=settings.seed)
    return [*triggered, *few]


def _has_trigger(design: Design, shot: Shot) -> bool:
    words = re.findall(r"\w+", shot.prompt.lower())
    return not set(words).isdisjoint(design.data["task_oriented"]["triggers"])


_PROMPTS = {"both": both_shots, "task_oriented": task_shots, "general": general_shots}


def measure_controlled(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """The measures of every condition at equal numbers of pictures, and what changes against the base."""
    reading = yield from read_pictures(settings, data)
    keep_reading(reading, data)
    names = [str(name) for name in settings.options.conditions]
    parts = {name: reading.where(data.frame["condition"] == name) for name in names}
    sets = {name: score(part, settings) for name, part in parts.items()}
    changes = {name: changes_of(part, parts[names[0]], settings) for name, part in parts.items() if name != names[0]}
    measures = _measures(parts, sets, settings)
    compared = normalise_lines(measures)
    return Results(
        findings=(
            *[finding for name, change in changes.items() for finding in _change_findings(name, names[0], change)],
            *[finding for name in names for finding in findings(name, sets[name])],
        ),
        tables=(
            table("conditions", "Measures of each condition (Table II)", measures_table(sets, first="condition")),
            table(
                "comparison",
                "The conditions in three dimensions (Fig. 4)",
                compared.rename_axis("condition").reset_index(),
                normalised_note(measures),
            ),
            top_table(sets, base=names[0]),
            *_gained_table(parts, {name: data.frame[data.frame["condition"] == name] for name in names}),
        ),
        figures=_figures(compared, sets),
        notes=(*_notes(sets, changes), *shared_pictures(data, names), *NOTES, *design.data["notes"]),
    )


def _figures(compared: pd.DataFrame, sets: Mapping[str, Scores]) -> tuple[StudyFigure, ...]:
    base = next(iter(sets))
    space = space_figure(compared, "The conditions")
    return drawable((space, curve_figure(sets), change_figure(sets, base), rates_figure(sets)))


def changes_of(part: Reading, base: Reading, settings: StudySettings) -> dict[str, Estimate]:
    """Mean change of H_J and M_G from the base, with the interval of Student's t over prompts."""
    found = {}
    for key, ours, theirs in (
        ("H_J", part.distances, base.distances),
        ("M_G", part.p_miss[STRONGER] > 0.5, base.p_miss[STRONGER] > 0.5),
    ):
        difference = (_by_prompt(part, ours) - _by_prompt(base, theirs)).dropna().to_numpy(float)
        if len(difference) >= _FEWEST_PROMPTS:
            found[key] = mean_interval(difference, confidence=settings.confidence, null_value=0.0)
    return found


def _by_prompt(reading: Reading, values: np.ndarray) -> pd.Series:
    """Mean of each prompt; pictures where the value is undefined are left out."""
    return pd.Series(np.asarray(values, dtype=float)).groupby(np.array(reading.prompts)).mean()


def _change_findings(name: str, base: str, changes: Mapping[str, Estimate]) -> list[Finding]:
    metrics = {"H_J": "jaccard_hallucination", "M_G": "generative_miss_rate"}
    return [
        Finding(
            key=f"{name} change {key}",
            title=f"Change of {key} from {base} to {name}",
            metric=metrics[key],
            estimate=estimate,
            says=f"{key} {_direction(estimate)}; n counts prompts.",
        )
        for key, estimate in changes.items()
    ]


def _direction(change: Estimate) -> str:
    return lean(change, "rises", "falls", "does not clearly change")


def _measures(parts: Mapping[str, Reading], sets: Mapping[str, Scores], settings: StudySettings) -> pd.DataFrame:
    """B_D at equal numbers, H_J and M_G of each condition."""
    n = min(len(part.captions) for part in parts.values())
    rows = {
        name: {
            "n": n,
            "distribution_bias": _distribution_bias(parts[name], sets[name], n, settings),
            "hallucination": sets[name].hallucination.value,
            "miss_rate": sets[name].miss[STRONGER].value,
        }
        for name in parts
    }
    return pd.DataFrame(rows.values(), index=list(rows))


def _distribution_bias(part: Reading, scores: Scores, n: int, settings: StudySettings) -> float:
    if scores.distribution is None:
        return math.nan
    if n == len(part.captions):
        return scores.distribution.distribution_bias.value
    exclude: Any = part.prompt_objects if settings.options.exclude_prompt else None
    return distribution_bias_at(part.image_objects, n, exclude_prompt=exclude, rng=settings.seed).value


def _gained_table(parts: Mapping[str, Reading], frames: Mapping[str, pd.DataFrame]) -> list[StudyTable]:
    """In how many pictures the object is that gains most against the base, with and without trigger words."""
    base, *others = parts
    seen = {name: Counter(chain.from_iterable(map(set, part.image_objects))) for name, part in parts.items()}
    gains = {word: n - seen[base][word] for name in others for word, n in sorted(seen[name].items())}
    word = max(gains, key=lambda found: gains[found], default="")
    if gains.get(word, 0) <= 0:
        return []
    rows = []
    for name, part in parts.items():
        shown = pd.Series([word in objects for objects in part.image_objects])
        for words, here in shown.groupby(frames[name]["words"].to_numpy(), sort=False):
            share = wilson_interval(int(here.sum()), len(here))
            rows.append(
                {"condition": name, "prompts": words, "n": share.n, "with it": int(here.sum()),
                 **columns("share", share, ends="")}
            )  # fmt: skip
    title = f"“{word}”, the object that gains most, with and without a trigger word"
    note = "If it hangs on a trigger word it is there with one only; if it needs none, in all."
    return [table("gained_object", title, rows, note)]


def shared_pictures(data: StudyData, names: Sequence[str]) -> list[str]:
    """A warning for each two conditions that drew the same pixels from equal prompts and seeds."""
    frame = data.frame.drop_duplicates("image_id")
    digests = [pixel_digest(stored.path.read_bytes()) for stored in data.stored(frame)]
    table = frame.assign(pixels=digests).pivot_table(
        index=["words", "prompt", "seed"], columns="condition", values="pixels", aggfunc="first"
    )
    found = []
    for one, other in combinations(names, 2):
        both = table[[one, other]].dropna()
        same = both[one] == both[other]
        if same.any():
            where = same.groupby(level="words").agg(["sum", "size"])
            parts = [f"{n} of {size} {words}" for words, n, size in where.itertuples()]
            found.append(
                f"{one} and {other} drew the same pictures, pixel by pixel, for {', '.join(parts)}: there "
                "the two conditions do not differ."
            )
    return found


def _notes(sets: Mapping[str, Scores], changes: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """How the measures follow the conditions."""
    values = {
        "H_J": {name: scores.hallucination.value for name, scores in sets.items()},
        "M_G": {name: scores.miss[STRONGER].value for name, scores in sets.items()},
    }
    base, *others = sets
    notes = []
    for key, by_name in values.items():
        told = ", ".join(f"{value:.3f} ({name})" for name, value in by_name.items())
        against = [f"{_direction(changes[name][key])} from {base} to {name}" for name in others if key in changes[name]]
        notes.append(f"{key}: {told}. It {', '.join(against)}." if against else f"{key}: {told}.")
    return notes


PROGRAMS = {
    "controlled_object_bias": Program(
        shots=controlled_shots,
        measure=measure_controlled,
        ready=captioner_ready,
        readers=captioning_readers,
        options=ControlledOptions,
        ahead=caption_ahead,
        compare=compare_conditions,
    )
}
