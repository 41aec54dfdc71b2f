"""OASIS's SPI: at which denoising steps attributes are added, and what each step heads for (Fig. 6, 7, 9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import spi_band
from bias_core.protocols import Traceable
from bias_core.studies.explore_types import Progress
from bias_core.studies.oasis import columns
from bias_core.studies.oasis_cells import nationality_shots, own_attributes, wanted_nationalities
from bias_core.studies.program import Measuring, Program
from bias_core.studies.study_types import (
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    StudyTable,
)
from bias_core.studies.traces import Trace, trace_row

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from bias_core.studies.study_data import StudyData
    from bias_core.types import Attribute, Estimate


@dataclass(frozen=True, kw_only=True)
class Traced:
    """The traces of one nationality.

    Attributes
    ----------
    seeds, finished : of each trace, its seed and the file of its finished picture.
    """

    nationality: str
    attributes: tuple[Attribute, ...]
    seeds: tuple[int, ...]
    finished: tuple[Path, ...]
    traces: tuple[Trace, ...]
    confidence: float

    @property
    def curves(self) -> np.ndarray:
        """SPI, ``(n_seeds, n_steps, n_attributes)``."""
        return np.stack([trace.spi for trace in self.traces])

    def band(self, attribute: int) -> list[Estimate]:
        """Mean over seeds at every step."""
        return spi_band(self.curves[:, :, attribute], confidence=self.confidence)

    def whole(self, attribute: int) -> Estimate:
        """Mean over all steps."""
        means = self.curves[:, :, attribute].mean(axis=1, keepdims=True)
        return spi_band(means, confidence=self.confidence)[0]


def trace_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A picture per seed and nationality; refuses what cannot be traced."""
    if settings.options["n_samples"] < 1 or settings.options["n_predicted"] < 1:
        raise InvalidInput("n_samples and n_predicted must be at least 1")
    for nationality in wanted_nationalities(design, settings):
        _attributes(design, settings, nationality)
    return nationality_shots(design, settings)


def _attributes(design: Design, settings: StudySettings, nationality: str) -> list[Attribute]:
    found, wanted = own_attributes(design, nationality), settings.options["attributes"]
    chosen = [attribute for attribute in found if not wanted or attribute.name in wanted]
    if not chosen:
        known = ", ".join(attribute.name for attribute in found) or "none"
        raise InvalidInput(
            f"{nationality} has no attribute of {', '.join(wanted) or 'any name'}; it has {known}"
        )
    return chosen


def measure_propagation(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """SPI of every attribute over the steps, and predicted pictures."""
    model = data.rows.model(data.services)
    if not isinstance(model, Traceable):
        raise InvalidInput(
            f"{settings.model} has no denoising steps to look into; choose a diffusion model, such as "
            "calibration-diffusion"
        )
    traced = []
    for nationality in wanted_nationalities(design, settings):
        frame = data.frame[data.frame["nationality"] == nationality]
        if len(frame):
            attributes = _attributes(design, settings, nationality)
            traced.append((yield from _trace(data, model, nationality, frame, attributes)))
    bands = {(t.nationality, i): t.band(i) for t in traced for i in range(len(t.attributes))}
    return Results(
        findings=tuple(_finding(t, i, bands) for t in traced for i in range(len(t.attributes))),
        tables=(
            StudyTable(
                key="spi",
                title="When attributes are added",
                frame=pd.DataFrame([_row(t, i, bands) for t in traced for i in range(len(t.attributes))]),
                note=_COLUMNS,
            ),
        ),
        figures=tuple(f for t in traced for f in _figures(t, bands, settings)),
        notes=(_wording(traced[0].traces[0]), _SIGN),
    )


_COLUMNS = (
    "SPI at the first step and over all steps, means over seeds. Strongest: step, counted from 1, at which "
    "the mean is farthest from 0. Last: SPI at the last step."
)
_SIGN = (
    "SPI is a cosine: above 0 a step adds the attribute, below 0 it takes it away. It says nothing of how "
    "much, and the intervals of the steps are each on its own."
)


def _wording(trace: Trace) -> str:
    kind = "with classifier-free guidance" if trace.guided else "conditional on each text alone"
    return f"Velocities are {kind}, in {trace.space} space. No safety checker looks at predicted pictures."


def _trace(
    data: StudyData, model: Traceable, nationality: str, frame: pd.DataFrame, attributes: Sequence[Attribute]
) -> Generator[Progress, None, Traced]:
    """Trace every picture of a nationality; predicted pictures of the first ones."""
    stored, options = data.stored(frame), data.settings.options
    traces = []
    for i, picture in enumerate(stored):
        data.check()
        shown = _shown_steps(picture.row.num_inference_steps, options["n_predicted"])
        traces.append(
            trace_row(
                data.services,
                model,
                picture.row,
                attributes,
                guided=options["guided"],
                predicted_steps=shown if i < options["n_samples"] else (),
                check=data.check,
            )
        )
        yield Progress(
            done=i + 1,
            total=len(stored),
            seconds_left=float("nan"),
            message=f"{nationality}: {i + 1:,} of {len(stored):,} pictures traced",
        )
    return Traced(
        nationality=nationality,
        attributes=tuple(attributes),
        seeds=tuple(picture.row.seed for picture in stored),
        finished=tuple(picture.path for picture in stored),
        traces=tuple(traces),
        confidence=data.settings.confidence,
    )


def _shown_steps(n_steps: int, n_shown: int) -> list[int]:
    """Steps spread evenly from the first to the last but one.

    Examples
    --------
    >>> _shown_steps(20, 4), _shown_steps(2, 8)
    ([0, 6, 13, 19], [0, 1])
    """
    return sorted({round(step) for step in np.linspace(0, n_steps - 1, n_shown)})


Bands = dict[tuple[str, int], list["Estimate"]]


def _finding(traced: Traced, attribute: int, bands: Bands) -> Finding:
    band, name = bands[traced.nationality, attribute], traced.attributes[attribute].name
    strongest = _strongest(band)
    return Finding(
        key=f"{traced.nationality} {name}",
        title=f"{traced.nationality}, {name}: first step",
        metric="stereotype_propagation_index",
        estimate=band[0],
        says=f"{_says(band[0])} It is farthest from 0 at step {strongest + 1} of {len(band)}: "
        f"{band[strongest].value:+.3f}.",
    )


def _says(first: Estimate) -> str:
    if first.low > 0:
        return "The first step adds it."
    return "The first step takes it away." if first.high < 0 else "The first step does neither clearly."


def _strongest(band: Sequence[Estimate]) -> int:
    return int(np.argmax([abs(step.value) for step in band]))


def _row(traced: Traced, attribute: int, bands: Bands) -> dict[str, Any]:
    band = bands[traced.nationality, attribute]
    strongest = _strongest(band)
    return {
        "nationality": traced.nationality,
        "attribute": traced.attributes[attribute].name,
        **columns("first step", band[0]),
        "strongest": strongest + 1,
        **columns("SPI there", band[strongest]),
        "last": band[-1].value,
        **columns("all steps", traced.whole(attribute)),
        "seeds": len(traced.seeds),
        "steps": len(band),
    }


def _figures(traced: Traced, bands: Bands, settings: StudySettings) -> list[StudyFigure]:
    key, n_samples = traced.nationality.lower(), settings.options["n_samples"]
    singles = [
        _figure(
            f"figure6-{key}-{seed}",
            f"SPI of one {traced.nationality} picture, seed {seed} (Figure 6)",
            [
                {"group": attribute.name, "x": step + 1, "value": float(value)}
                for i, attribute in enumerate(traced.attributes)
                for step, value in enumerate(trace.spi[:, i])
            ],
            "Above 0 a step adds the attribute to the picture, below 0 it takes it away.",
        )
        for seed, trace in list(zip(traced.seeds, traced.traces, strict=True))[:n_samples]
    ]
    average = _figure(
        f"figure9-{key}",
        f"SPI of {len(traced.seeds)} {traced.nationality} pictures (Figure 9)",
        [
            {"group": attribute.name, "x": step + 1, "value": e.value, "low": e.low, "high": e.high}
            for i, attribute in enumerate(traced.attributes)
            for step, e in enumerate(bands[traced.nationality, i])
        ],
        "Mean over seeds; the band is its interval at each step.",
    )
    return [average, *singles, _filmstrip(traced, n_samples)]


def _figure(key: str, title: str, rows: list[dict[str, Any]], caption: str) -> StudyFigure:
    labels = {"x": "denoising step", "y": "SPI", "null": 0.0}
    return StudyFigure(
        key=key, title=title, kind="curves", data=pd.DataFrame(rows), labels=labels, caption=caption
    )


def _filmstrip(traced: Traced, n_samples: int) -> StudyFigure:
    rows = []
    for seed, trace, finished in list(zip(traced.seeds, traced.traces, traced.finished, strict=True))[
        :n_samples
    ]:
        for step, path in trace.predicted.items():
            rows.append({"row": seed, "column": f"{step:04d}", "path": str(path), "text": f"step {step + 1}"})
        rows.append(
            {"row": seed, "column": "finished", "path": str(finished), "text": f"finished, seed {seed}"}
        )
    return StudyFigure(
        key=f"figure7-{traced.nationality.lower()}",
        title=f"What each step is heading for, {traced.nationality} (Figure 7)",
        kind="pictures",
        data=pd.DataFrame(rows),
        caption="The finished picture as each step predicts it, and the finished picture itself.",
    )


PROGRAMS = {"propagation": Program(shots=trace_shots, measure=measure_propagation)}
