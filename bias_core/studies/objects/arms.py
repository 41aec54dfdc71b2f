"""TBYB over models, conditions and data sets: Tables II and VI, and the space of its measures (Fig. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.object_bias import DIMENSIONS, compare_models, normalise_over_models
from bias_core.studies.arms.statistics import Numbers, ranks_of
from bias_core.studies.arms.tables import ARM, finding_of, marks_over_arms, numbers_of, rank_columns
from bias_core.studies.kit.types import Results
from bias_core.studies.objects.captions import BLANK, STRONGER
from bias_core.studies.objects.report import RUN
from bias_core.studies.reports.build import drawable, figure, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bias_core.studies.kit.types import ArmReport, Design, StudyFigure, StudySettings

    Entry = tuple[str, ArmReport, str]
    """A line of a table: its name, the arm, and which of the arm's sets of pictures."""

AXES = {"distribution_bias": "B_D", "hallucination": "H_J", "miss_rate": "M_G, stronger"}
_KEYS = {
    "distribution_bias": "distribution_bias",
    "hallucination": "hallucination",
    "miss_rate": f"miss {STRONGER}",
    "blank": f"miss {BLANK}",
}
_GENERAL = "all prompts"  # the set that the released general evaluations are of


def compare_objects(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table II: the measures of every model and condition, prompts by prompts."""
    entries = {name: [(arm.name, arm, name) for arm in arms] for name in _sets(arms)}
    return _results(entries, settings, arms, "Models and conditions (Table II)")


def compare_datasets(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table VI: data sets, the most biased first."""
    entries = {name: [(arm.name, arm, name) for arm in arms] for name in _sets(arms)}
    return _results(entries, settings, arms, "Data sets, the most biased first (Table VI)", by_rank=True)


def compare_conditions(_design: Design, settings: StudySettings, arms: Sequence[ArmReport]) -> Results:
    """Table II where each arm has several conditions of its own."""
    entries = [(f"{arm.name}, {name}", arm, name) for arm in arms for name in _sets(arms)]
    return _results({"all conditions": entries}, settings, arms, "Models and conditions (Table II)")


def _sets(arms: Sequence[ArmReport]) -> list[str]:
    """The sets of pictures that all arms have."""
    ending = f" {_KEYS['hallucination']}"
    keys = [f.key for f in arms[0].results.findings if f.key.endswith(ending)]
    return [key.removesuffix(ending) for key in keys if all(finding_of(arm, key) for arm in arms)]


def _results(
    entries: Mapping[str, Sequence[Entry]],
    settings: StudySettings,
    arms: Sequence[ArmReport],
    title: str,
    *,
    by_rank: bool = False,
) -> Results:
    frames, figures = [], []
    notes: dict[str, None] = {}
    for i, (name, lines) in enumerate(entries.items(), start=1):
        frame, measures = _compared(lines, settings)
        if by_rank and "rank" in frame:
            frame = frame.sort_values("rank", kind="stable")
        figures.append(space_figure(frame, f"{name.capitalize()}: the arms", key=f"figure4-{i}"))
        notes[normalised_note(measures)] = None
        published = _published(arms[0], name)
        frames.append(pd.concat([frame.rename_axis(ARM).reset_index(), published], ignore_index=True))
    marks = marks_over_arms(arms, "figure2")
    shown = set(marks["group"]) if len(marks) else set()
    figures += [_curves(marks, name, i) for i, name in enumerate(entries, start=1) if name in shown]
    note = f"B_D at equal numbers of pictures (compared n). {' '.join(notes)}"
    together = table("table2_arms", title, pd.concat(frames, ignore_index=True), note)
    return Results(tables=(together,), figures=drawable(figures))


def _compared(entries: Sequence[Entry], settings: StudySettings) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line per entry with distance and rank, and the bare measures behind them."""
    arms = [arm for _, arm, _ in entries]
    numbers = {name: numbers_of(arms, [f"{of} {key}" for _, _, of in entries], settings) for name, key in _KEYS.items()}
    columns = {name: np.full(len(arms), np.nan) if n is None else n.values for name, n in numbers.items()}
    measures = pd.DataFrame(columns, index=[name for name, _, _ in entries])
    frame = normalise_lines(measures).rename(columns={"blank": "M_G, blank"})
    usable = {name: numbers[name] for name in _usable(measures)}
    if usable:
        frame = frame.drop(columns="rank").join(_ranks(frame["distance"], usable, settings))
    first: dict[str, Any] = {
        "prompts": [of for _, _, of in entries],
        "model": [arm.settings.model for arm in arms],
        "condition": [arm.settings.condition for arm in arms],
        "n": [_n_pictures(arm, of) for _, arm, of in entries],
        "compared n": numbers["distribution_bias"].n if numbers["distribution_bias"] else np.nan,
    }
    lines = pd.concat([pd.DataFrame(first, index=frame.index), frame], axis=1)
    foremost = [name for name in ("rank", "rank low", "rank high", "distance") if name in lines]
    return lines[[*foremost, *lines.columns.difference(foremost, sort=False)]], measures


def _n_pictures(arm: ArmReport, of: str) -> int:
    missed = finding_of(arm, f"{of} {_KEYS['miss_rate']}")
    return missed.estimate.n if missed else 0


def _ranks(distance: pd.Series[float], usable: Mapping[str, Numbers | None], settings: StudySettings) -> pd.DataFrame:
    """Ranks by distance, with the ranks that resamples of the pictures give."""
    differing = {name: numbers for name, numbers in usable.items() if numbers is not None}
    k = min(len(numbers.drawn) for numbers in differing.values())
    squares = [normalise_over_models(n.drawn[:k].round(12), name) ** 2 for name, n in differing.items()]
    drawn = np.asarray(
        np.sqrt(np.nansum(squares, axis=0)), dtype=np.float64
    )  # as in the table, a measure in which all agree adds nothing
    n = next(iter(differing.values())).n
    ranks = ranks_of(
        Numbers(values=np.asarray(distance, dtype=np.float64), n=n, drawn=drawn), confidence=settings.confidence
    )
    return pd.DataFrame([rank_columns(rank) for rank in ranks], index=distance.index)


def normalise_lines(measures: pd.DataFrame) -> pd.DataFrame:
    """The measures by the paper's names, each normalised over the lines, with distance and rank (Fig. 4)."""
    usable = _usable(measures)
    table = compare_models(measures, dimensions=usable) if usable else measures
    return table.rename(columns={f"normalised_{n}": f"normalised {sign}" for n, sign in AXES.items()} | AXES)


def _usable(measures: pd.DataFrame) -> list[str]:
    """The measures that are defined, and differ."""
    return [d for d in DIMENSIONS if np.isfinite(measures[d]).all() and np.ptp(measures[d].to_numpy()) > 0]


def normalised_note(measures: pd.DataFrame) -> str:
    """How to read :func:`normalise_lines`."""
    note = (
        "Normalised: 0 the least biased of these lines, 1 the most; rank 1 is the most biased. "
        "Differences by chance are stretched as well: read the differences with their intervals first."
    )
    left_out = ", ".join(sign for name, sign in AXES.items() if name not in _usable(measures))
    return f"{note} All agree in {left_out}, or it is undefined: left out." if left_out else note


def space_figure(compared: pd.DataFrame, of: str, *, key: str = "figure4") -> StudyFigure:
    """Fig. 4: each line of :func:`normalise_lines` as a place in the space of the normalised measures."""
    columns = [f"normalised {sign}" for sign in AXES.values()]
    places = compared.reindex(columns=columns).fillna(0.0)  # a measure that all agree in has no extent
    places.columns = pd.Index(list("xyz"))
    lines = pd.Series(compared.index, index=compared.index)
    names = lines.groupby([places[axis] for axis in "xyz"], sort=False).agg(" = ".join)
    return figure(
        "space",
        key,
        f"{of} in the space of the three measures (Fig. 4)",
        names.rename("name").reset_index() if len(names) > 1 else pd.DataFrame(),
        "Far from the origin is more biased, among what is compared here; the numbers stand in the table.",
        **dict(zip("xyz", columns, strict=True)),
    )


def _curves(marks: pd.DataFrame, name: str, number: int) -> StudyFigure:
    mine = marks[marks["group"] == name]
    return figure(
        "curves",
        f"figure2-{number}",
        f"{name.capitalize()}: sorted objects of each arm (Fig. 2)",
        mine.assign(group=mine[ARM]).reset_index(drop=True),
        "B_D is the area under the curve, of all pictures of the arm; with more pictures it grows.",
        x="objects, most frequent first",
        y="min-max normalised count",
    )


def _published(arm: ArmReport, name: str) -> pd.DataFrame:
    """The released evaluations of these prompts, as lines of the same table."""
    for one in arm.results.tables:
        if one.key == "table2":
            frame = one.frame[one.frame["model"] != RUN]
            mine = frame[frame["prompts"] == ("general" if name == _GENERAL else name)]
            return mine.assign(**{ARM: mine["model"] + ", published"})
    return pd.DataFrame()
