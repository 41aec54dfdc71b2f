"""OASIS's SPI: at which denoising steps attributes are added, and what each step heads for (Fig. 6, 7, 9)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import spi_band
from bias_core.protocols import ChecksSettings, Traceable
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import MAX_STEPS, Design, Finding, Results, Shot, StudyFigure, StudySettings
from bias_core.studies.origins.cells import (
    Cell,
    NationalityOptions,
    nationality_shots,
    own_attributes,
    read_cells,
    wanted_nationalities,
)
from bias_core.studies.origins.traces import Trace, trace_row
from bias_core.studies.reports.build import columns, figure, lean, table

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    import pandas as pd

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.services import StudyServices
    from bias_core.types import Attribute, Estimate


@dataclass(frozen=True, kw_only=True)
class Traced:
    """The traces of one nationality.

    Attributes
    ----------
    seeds, finished : of each trace, its seed and the file of its finished picture.
    cells : of each attribute, how often the finished pictures are read to have it.
    """

    nationality: str
    attributes: tuple[Attribute, ...]
    seeds: tuple[int, ...]
    finished: tuple[Path, ...]
    traces: tuple[Trace, ...]
    cells: tuple[Cell, ...]
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


@settings_class(frozen=True, kw_only=True)
class PropagationOptions(NationalityOptions):
    """Whose attributes are looked for, and in which steps."""

    nationalities: tuple[str, ...] = setting(("Iranian", "Indian"), "Nationalities", "Of the study's list")
    attributes: tuple[str, ...] = setting((), "Attributes", "Names; all of each nationality where empty")
    guided: bool = setting(False, "Guided velocities", "With classifier-free guidance, instead of conditional ones")
    n_samples: int = setting(2, "Shown seeds", "Whose curves and predicted pictures are shown", ge=1, le=100)
    n_predicted: int = setting(8, "Shown steps", "Whose predicted picture is shown", ge=1, le=MAX_STEPS)


def trace_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A picture per seed and nationality; refuses what cannot be traced."""
    for nationality in wanted_nationalities(design, settings):
        _attributes(design, settings, nationality)
    return nationality_shots(design, settings, least=_FEWEST_SEEDS)


_FEWEST_SEEDS = 2  # one has no interval


def model_suits(settings: StudySettings, services: StudyServices) -> None:
    """Refuse pictures that were not made step by step."""
    if settings.images:
        raise InvalidInput(
            "pictures that were brought along show nothing of the steps they were made in; SPI needs a "
            "diffusion model that draws them here, such as calibration-diffusion"
        )
    model = _traceable(services.text_to_image(settings.model), settings.model)
    if isinstance(model, ChecksSettings):
        model.check_traceable()


def _traceable(model: object, name: str) -> Traceable:
    if isinstance(model, Traceable):
        return model
    raise InvalidInput(
        f"{name} has no denoising steps to look into; choose a diffusion model, such as calibration-diffusion"
    )


def _attributes(design: Design, settings: StudySettings, nationality: str) -> list[Attribute]:
    found, wanted = own_attributes(design, nationality), settings.options.attributes
    chosen = [attribute for attribute in found if not wanted or attribute.name in wanted]
    if not chosen:
        known = ", ".join(attribute.name for attribute in found) or "none"
        raise InvalidInput(f"{nationality} has no attribute of {', '.join(wanted) or 'any name'}; it has {known}")
    return chosen


def measure_propagation(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """SPI of every attribute over the steps, and predicted pictures."""
    model = _traceable(data.rows.model(data.services), settings.model)
    rows = yield from data.embed(data.frame)
    traced = []
    for nationality in wanted_nationalities(design, settings):
        frame = data.frame[data.frame["nationality"] == nationality]
        if len(frame):
            attributes = _attributes(design, settings, nationality)
            cells = read_cells(data, nationality, frame, rows[frame.index], attributes)
            traced.append((yield from _trace(data, model, nationality, frame, cells)))
            _keep_first_steps(data, frame, traced[-1])
    each = [(t, i) for t in traced for i in range(len(t.attributes))]
    bands = {(t.nationality, i): t.band(i) for t, i in each}
    return Results(
        findings=tuple(_finding(t, i, bands) for t, i in each),
        tables=(table("spi", "When attributes are added", [_row(t, i, bands) for t, i in each], _COLUMNS),),
        figures=tuple(f for t in traced for f in _figures(t, bands, settings)),
        notes=(_wording(traced[0].traces[0]), _SIGN),
    )


_COLUMNS = (
    "SPI at the first step and over all steps, means over seeds. Steps are counted from 1. First clear: the "
    "first step whose interval excludes 0. Strongest: the step at which the mean is farthest from 0. Last: "
    "SPI at the last step. Finished P: share of the finished pictures that the reader sees the attribute in, "
    "corrected for its known errors."
)
_SIGN = (
    "SPI is a cosine: above 0 a step adds the attribute, below 0 it takes it away. It says nothing of how "
    "much, and the intervals of the steps are each on its own: of 100 steps that do nothing, 5 of those at "
    "95 % exclude 0."
)


def _keep_first_steps(data: StudyData, frame: pd.DataFrame, traced: Traced) -> None:
    """Let every picture say what its first step did, and all steps on average."""
    for i, attribute in enumerate(traced.attributes):
        curves = traced.curves[:, :, i]
        data.keep(frame, **{f"{attribute.name}: SPI, first step": curves[:, 0].tolist()})
        data.keep(frame, **{f"{attribute.name}: SPI, all steps": curves.mean(axis=1).tolist()})


def _wording(trace: Trace) -> str:
    kind = "with classifier-free guidance" if trace.guided else "conditional on each text alone"
    return f"Velocities are {kind}, in {trace.space} space. No safety checker looks at predicted pictures."


def _trace(
    data: StudyData, model: Traceable, nationality: str, frame: pd.DataFrame, cells: Sequence[Cell]
) -> Generator[Progress, None, Traced]:
    """Trace every picture of a nationality; predicted pictures of the first ones."""
    stored, options = data.stored(frame), data.settings.options
    attributes = [cell.score.attribute for cell in cells]
    traces = []
    for i, picture in enumerate(stored):
        data.check()
        shown = _shown_steps(picture.row.num_inference_steps, options.n_predicted)
        traces.append(
            trace_row(
                data.services,
                model,
                picture.row,
                attributes,
                guided=options.guided,
                predicted_steps=shown if i < options.n_samples else (),
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
        cells=tuple(cells),
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
    strongest, clear = _strongest(band), first_clear_step(band)
    when = (
        "No step's interval excludes 0."
        if clear is None
        else f"The first interval that excludes 0 is that "
        f"of step {clear + 1}, which {'adds it' if band[clear].value > 0 else 'takes it away'}."
    )
    return Finding(
        key=f"{traced.nationality} {name}",
        title=f"{traced.nationality}, {name}: first step",
        metric="stereotype_propagation_index",
        estimate=band[0],
        says=f"{lean(band[0], *_FIRST_STEP)} {when} It is farthest from 0 at step {strongest + 1} of "
        f"{len(band)}: {band[strongest].value:+.3f}.",
    )


_FIRST_STEP = ("The first step adds it.", "The first step takes it away.", "The first step does neither clearly.")


def _strongest(band: Sequence[Estimate]) -> int:
    return int(np.argmax([abs(step.value) for step in band]))


def first_clear_step(band: Sequence[Estimate]) -> int | None:
    """The first step, from 0, whose interval excludes 0; None where there is none.

    Examples
    --------
    >>> from bias_core.metrics.propagation import spi_band
    >>> first_clear_step(spi_band([[0.1, 0.5], [-0.1, 0.6], [0.0, 0.55]]))
    1
    """
    return next((i for i, step in enumerate(band) if step.low > 0 or step.high < 0), None)


def _row(traced: Traced, attribute: int, bands: Bands) -> dict[str, Any]:
    band = bands[traced.nationality, attribute]
    strongest, clear = _strongest(band), first_clear_step(band)
    return {
        "nationality": traced.nationality,
        "attribute": traced.attributes[attribute].name,
        **columns("first step", band[0]),
        "first clear": math.nan if clear is None else clear + 1,
        "strongest": strongest + 1,
        **columns("SPI there", band[strongest]),
        "last": band[-1].value,
        **columns("all steps", traced.whole(attribute)),
        **columns("finished P", traced.cells[attribute].prevalence),
        "seeds": len(traced.seeds),
        "steps": len(band),
    }


def _figures(traced: Traced, bands: Bands, settings: StudySettings) -> list[StudyFigure]:
    key, n_samples = _key(traced.nationality), settings.options.n_samples
    singles = [
        _curves(
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
    average = _curves(
        f"figure9-{key}",
        f"SPI of {len(traced.seeds)} {traced.nationality} pictures (Figure 9)",
        [
            {"group": attribute.name, "x": step + 1, **columns("value", e, ends="")}
            for i, attribute in enumerate(traced.attributes)
            for step, e in enumerate(bands[traced.nationality, i])
        ],
        "Mean over seeds; the band is its interval at each step.",
        concept=traced.nationality,
        velocities=_wording(traced.traces[0]),
        predicted=f"figure7-{key}",
        singles=[single.key for single in singles],
    )
    return [average, *singles, _filmstrip(traced, n_samples)]


def _key(name: str) -> str:
    """For names of files.

    Examples
    --------
    >>> _key("Iranian"), _key("a nurse / carer")
    ('iranian', 'a-nurse-carer')
    """
    return re.sub(r"\W+", "-", name.lower())


def _curves(key: str, title: str, rows: list[dict[str, Any]], caption: str, **more: str | list[str]) -> StudyFigure:
    """Curves; ``more`` says what goes with them on a page."""
    return figure("curves", key, title, rows, caption, x="denoising step", y="SPI", null=0.0, **more)


def _filmstrip(traced: Traced, n_samples: int) -> StudyFigure:
    rows = []
    shown = islice(zip(traced.seeds, traced.traces, traced.finished, strict=True), n_samples)
    for seed, trace, finished in shown:
        for step, path in trace.predicted.items():
            rows.append({"row": seed, "column": f"{step:04d}", "path": str(path), "text": f"step {step + 1}"})
        text = f"finished, seed {seed}"
        rows.append({"row": seed, "column": "finished", "path": str(finished), "text": text})
    key, title = _key(traced.nationality), f"What each step is heading for, {traced.nationality} (Figure 7)"
    caption = "The finished picture as each step predicts it, and the finished picture itself."
    return figure("pictures", f"figure7-{key}", title, rows, caption)


PROGRAMS = {
    "propagation": Program(
        shots=trace_shots, measure=measure_propagation, suits=model_suits, options=PropagationOptions
    )
}
