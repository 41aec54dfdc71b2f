"""SPI over the steps of a generation, linked with the picture that each step is heading for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bias_core.studies.origins.spi import first_clear_step
from bias_core.studies.reports.number_text import format_estimate
from bias_core.types import Estimate
from bias_core.ui.study.svg import N_COLOURS
from bias_core.ui.templates import render, script

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import pandas as pd

    from bias_core.studies.kit.types import StudyFigure, StudyReport

AVERAGE = "figure9-"
_FINISHED = "finished"
_TICKS = 5
FILM_JS = script("choose") + script("film")


@dataclass(frozen=True, kw_only=True)
class Line:
    """The curve of one attribute.

    Attributes
    ----------
    band : mean over seeds and its interval, a step each.
    finished : share of the finished pictures that are read to have the attribute, with its interval.
    singles : by seed, SPI of each step.
    """

    name: str
    number: int
    band: tuple[Estimate, ...]
    singles: dict[str, np.ndarray]
    finished: Estimate

    @property
    def colour(self) -> int:
        """Which of the page's colours."""
        return self.number % N_COLOURS

    @property
    def classes(self) -> str:
        """Its colour, and what its button hides."""
        return f"c{self.colour} line-{self.number}"

    @property
    def has_intervals(self) -> bool:
        """Whether there is a band around the curve: not of one seed."""
        return all(math.isfinite(step.low) and math.isfinite(step.high) for step in self.band)

    @property
    def clear(self) -> int | None:
        """The first step, from 0, whose interval excludes 0."""
        return first_clear_step(self.band)


@dataclass(frozen=True, kw_only=True)
class Film:
    """One concept's curves and predicted pictures.

    Attributes
    ----------
    strips : by seed, (step from 1, file) of each predicted picture; the finished one has step n_steps + 1.
    """

    key: str
    concept: str
    velocities: str
    predicted: str
    confidence: float
    lines: tuple[Line, ...]
    strips: dict[str, list[tuple[int, Path]]]

    @property
    def n_seeds(self) -> int:
        """Behind every mean."""
        return self.lines[0].finished.n

    @property
    def n_steps(self) -> int:
        """Of the sampler."""
        return len(self.lines[0].band)

    @cached_property
    def reach(self) -> tuple[float, float]:
        """What the axis spans: bands, single seeds and 0."""
        values = [0.0]
        for line in self.lines:
            values += [v for step in line.band for v in (step.value, step.low, step.high) if math.isfinite(v)]
            values += [float(v) for single in line.singles.values() for v in single]
        low, high = min(values), max(values)
        margin = 0.06 * (high - low) or 0.1
        return low - margin, high + margin

    @property
    def ticks(self) -> list[float]:
        """Round numbers within the axis, 0 among them."""
        return round_numbers(*self.reach)

    def y(self, value: float) -> str:
        """Where a value lies, in hundredths of the height from above."""
        low, high = self.reach
        return f"{100 * (high - value) / (high - low):.2f}"

    def points(self, values: Iterable[float], *, back: bool = False) -> str:
        """A curve with a value in the middle of each step's column, from the first or the last one on."""
        places = [f"{i + 0.5:g},{self.y(value)}" for i, value in enumerate(values)]
        return " ".join(reversed(places) if back else places)

    def sentence(self, line: Line) -> str:
        """At which step an attribute is decided, and what became of it."""
        end, n_steps = line.finished, self.n_steps
        share = format_estimate(end.value, end.low, end.high, n=end.n)
        shown = f"In the end it is read in {share} of the pictures."
        if math.isnan(line.band[0].low):
            return f"one seed has no interval, so this cannot be told. {shown}"
        if line.clear is None:
            return f"at none of the {n_steps} steps, which is no proof that it is never added. {shown}"
        step = line.band[line.clear]
        way = "moves towards it" if step.value > 0 else "moves away from it"
        early = "from pure noise" if line.clear == 0 else f"{100 * line.clear / n_steps:.0f} % of the way"
        return (
            f"step {line.clear + 1} of {n_steps} ({early}) {way}, SPI {step.value:+.3f} "
            f"[{step.low:+.3f}, {step.high:+.3f}]. {shown}"
        )


def round_numbers(low: float, high: float) -> list[float]:
    """About five round numbers of an axis.

    Examples
    --------
    >>> round_numbers(-0.23, 0.41)
    [-0.2, 0.0, 0.2, 0.4]
    """
    rough = (high - low) / _TICKS
    unit = 10 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 5, 10) if unit * k >= rough)
    return [round(k * step, 10) + 0.0 for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def films_html(report: StudyReport) -> str:
    """All concepts of an SPI report with curves, filmstrips and what each step does; "" for other reports."""
    return render("film", films=films(report))


def films(report: StudyReport) -> list[Film]:
    """What an SPI report holds; empty for other reports."""
    figures = {figure.key: figure for figure in report.results.figures}
    return [_film(report, figure, figures) for key, figure in figures.items() if key.startswith(AVERAGE)]


def _film(report: StudyReport, figure: StudyFigure, figures: dict[str, StudyFigure]) -> Film:
    labels = figure.labels
    singles = {key.rpartition("-")[2]: figures[key].data for key in labels["singles"]}
    names = list(dict.fromkeys(figure.data["group"]))
    n_steps = int((figure.data["group"] == names[0]).sum())
    return Film(
        key=figure.key,
        concept=str(labels["concept"]),
        velocities=str(labels["velocities"]),
        predicted=str(labels["predicted"]),
        confidence=report.settings.confidence,
        lines=tuple(
            _line(name, i, figure.data, singles, _finished(report, str(labels["concept"]), name))
            for i, name in enumerate(names)
        ),
        strips=_strips(figures[str(labels["predicted"])].data, n_steps),
    )


def _finished(report: StudyReport, concept: str, name: str) -> Estimate:
    table = next(table.frame for table in report.results.tables if table.key == "spi")
    row = table[(table["nationality"] == concept) & (table["attribute"] == name)].iloc[0]
    value, low, high = (float(row[f"finished P{end}"]) for end in ("", " low", " high"))
    return Estimate(value=value, low=low, high=high, n=int(row["seeds"]))


def _line(name: str, number: int, data: pd.DataFrame, singles: dict[str, pd.DataFrame], finished: Estimate) -> Line:
    own = data[data["group"] == name]
    band = tuple(
        Estimate(value=float(row["value"]), low=float(row["low"]), high=float(row["high"]), n=finished.n)
        for _, row in own.iterrows()
    )
    values = {seed: of[of["group"] == name]["value"].to_numpy(float) for seed, of in singles.items()}
    return Line(name=name, number=number, band=band, singles=values, finished=finished)


def _strips(data: pd.DataFrame, n_steps: int) -> dict[str, list[tuple[int, Path]]]:
    strips: dict[str, list[tuple[int, Path]]] = {}
    for _, row in data.iterrows():
        step = n_steps + 1 if row["column"] == _FINISHED else int(row["column"]) + 1
        strips.setdefault(str(row["row"]), []).append((step, Path(row["path"])))
    return strips
