"""What an SPI report holds for a film: curves over denoising steps, and the picture each step heads for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bias_core.studies.oasis_spi import first_clear_step
from bias_core.types import Estimate
from bias_core.ui.groups import N_COLOURS

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from bias_core.studies.study_types import StudyFigure, StudyReport

AVERAGE = "figure9-"
_FINISHED = "finished"


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
    def classes(self) -> str:
        """Its colour, and what its button hides."""
        return f"c{self.number % N_COLOURS} line-{self.number}"

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


def _line(
    name: str, number: int, data: pd.DataFrame, singles: dict[str, pd.DataFrame], finished: Estimate
) -> Line:
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
