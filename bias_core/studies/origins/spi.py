"""OASIS's SPI: at which denoising steps attributes are added, and what each step heads for (Fig. 6, 7, 9).

The trace of a generation, SPI of every step and some of the predicted pictures, is kept once it was made.
"""

import hashlib
import io
import json
import math
import re
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.propagation import spi_band, stereotype_propagation_index
from bias_core.protocols import ChecksSettings, Traceable
from bias_core.store.files import write_atomically
from bias_core.studies.kit.designs import ReportTexts
from bias_core.studies.kit.program import Measuring, Program, StudyData, png_bytes
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import (
    MAX_STEPS,
    Design,
    Finding,
    Progress,
    Results,
    Shot,
    StudyFigure,
    StudySettings,
    columns,
    finding,
    lean,
)
from bias_core.studies.origins.cells import (
    NationalityOptions,
    nationality_shots,
    own_attributes,
    read_cells,
    wanted_nationalities,
)
from bias_core.types import Attribute, Estimate, ImageRow, Step, StoredImage

TEXTS = ReportTexts(__file__)

_FEWEST_SEEDS = 2  # one has no interval
_FIRST_STEP = ("The first step adds it.", "The first step takes it away.", "The first step does neither clearly.")
_FORM = 1  # of what is kept; another number makes old files be left alone


@dataclass(frozen=True, kw_only=True)
class Curve:
    """SPI of one attribute in a nationality's pictures."""

    nationality: str
    name: str
    each: np.ndarray  # ``(n_seeds, n_steps)``
    band: list[Estimate]  # mean over seeds at every step
    whole: Estimate  # mean over all steps
    finished: Estimate  # how often the finished pictures are read to have the attribute

    @property
    def strongest(self) -> int:
        """The step, from 0, at which the mean is farthest from 0."""
        return int(np.argmax([abs(step.value) for step in self.band]))


@settings_class(frozen=True, kw_only=True)
class PropagationOptions(NationalityOptions):
    """Whose attributes are looked for, and in which steps."""

    attributes: tuple[str, ...] = setting((), "Attributes", "Names; all of each nationality where empty")
    guided: bool = setting(False, "Guided velocities", "With classifier-free guidance, instead of conditional ones")
    n_samples: int = setting(2, "Shown seeds", "Whose curves and predicted pictures are shown", ge=1, le=100)
    n_predicted: int = setting(8, "Shown steps", "Whose predicted picture is shown", ge=1, le=MAX_STEPS)


def trace_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """A picture per seed and nationality; refuses what cannot be traced."""
    for nationality in wanted_nationalities(design, settings):
        _attributes(design, settings, nationality)
    return nationality_shots(design, settings, least=_FEWEST_SEEDS)


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
    own, names = own_attributes(design, nationality), settings.options.attributes
    chosen = [attribute for attribute in own if not names or attribute.name in names]
    if not chosen:
        own_names = ", ".join(attribute.name for attribute in own) or "none"
        raise InvalidInput(f"{nationality} has no attribute of {', '.join(names) or 'any name'}; it has {own_names}")
    return chosen


def measure_propagation(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """SPI of every attribute over the steps, and predicted pictures."""
    model = _traceable(data.rows.model(data.services), settings.model)
    rows = yield from data.embed(data.frame)
    curves: list[Curve] = []
    figures: list[StudyFigure] = []
    for nationality in wanted_nationalities(design, settings):
        frame = data.frame[data.frame["nationality"] == nationality]
        if frame.empty:
            continue
        attributes = _attributes(design, settings, nationality)
        cells = yield from read_cells(data, nationality, frame, rows[frame.index], attributes)
        traces = yield from _trace(data, model, nationality, data.stored(frame), attributes)
        kind = "with classifier-free guidance" if traces[0].guided else "conditional on each text alone"
        wording = TEXTS.note("velocities", kind=kind, space=traces[0].space)
        own = []
        for cell, each in zip(cells, np.moveaxis(np.stack([trace.spi for trace in traces]), 2, 0), strict=True):
            whole = spi_band(each.mean(axis=1, keepdims=True), confidence=settings.confidence)[0]
            band = spi_band(each, confidence=settings.confidence)
            name, finished = cell.score.attribute.name, cell.prevalence
            own.append(Curve(nationality=nationality, name=name, each=each, band=band, whole=whole, finished=finished))
            data.keep(frame, **{f"{name}: SPI, first step": each[:, 0], f"{name}: SPI, all steps": each.mean(axis=1)})
        figures += _figures(own, traces, data.stored(frame)[: settings.options.n_samples], wording)
        curves += own
    return Results(
        findings=tuple(map(_finding, curves)),
        tables=(TEXTS.table("spi", map(_row, curves)),),
        figures=tuple(figures),
        notes=(wording, TEXTS.note("sign")),
    )


def _trace(
    data: StudyData, model: Traceable, nationality: str, stored: Sequence[StoredImage], attributes: Sequence[Attribute]
) -> "Generator[Progress, None, list[Trace]]":
    """Trace every picture of a nationality; predicted pictures of the first ones."""
    options, traces = data.settings.options, []
    for i, picture in enumerate(stored):
        data.check()
        shown = _shown_steps(picture.row.num_inference_steps, options.n_predicted) if i < options.n_samples else ()
        traces.append(trace_row(data, model, picture.row, attributes, predicted_steps=shown))
        yield Progress(
            done=i + 1, total=len(stored), message=f"{nationality}: {i + 1:,} of {len(stored):,} pictures traced"
        )
    return traces


def _shown_steps(n_steps: int, n_shown: int) -> Sequence[int]:
    """Steps spread evenly from the first to the last but one.

    >>> _shown_steps(20, 4), _shown_steps(2, 8)
    ([0, 6, 13, 19], [0, 1])
    """
    return sorted({round(step) for step in np.linspace(0, n_steps - 1, n_shown)})


def _finding(curve: Curve) -> Finding:
    band, strongest, clear = curve.band, curve.strongest, first_clear_step(curve.band)
    when = "No step's interval excludes 0."
    if clear is not None:
        does = "adds it" if band[clear].value > 0 else "takes it away"
        when = f"The first interval that excludes 0 is that of step {clear + 1}, which {does}."
    far = f"It is farthest from 0 at step {strongest + 1} of {len(band)}: {band[strongest].value:+.3f}."
    key, title = f"{curve.nationality} {curve.name}", f"{curve.nationality}, {curve.name}: first step"
    return finding(key, title, "stereotype_propagation_index", band[0], f"{lean(band[0], *_FIRST_STEP)} {when} {far}")


def first_clear_step(band: Sequence[Estimate]) -> int | None:
    """The first step, from 0, whose interval excludes 0; None where there is none.

    >>> from bias_core.metrics.propagation import spi_band
    >>> first_clear_step(spi_band([[0.1, 0.5], [-0.1, 0.6], [0.0, 0.55]]))
    1
    """
    return next((i for i, step in enumerate(band) if step.low > 0 or step.high < 0), None)


def _row(curve: Curve) -> dict[str, Any]:
    band, strongest, clear = curve.band, curve.strongest, first_clear_step(curve.band)
    return {
        "nationality": curve.nationality,
        "attribute": curve.name,
        **columns("first step", band[0]),
        "first clear": math.nan if clear is None else clear + 1,
        "strongest": strongest + 1,
        **columns("SPI there", band[strongest]),
        "last": band[-1].value,
        **columns("all steps", curve.whole),
        **columns("finished P", curve.finished),
        "seeds": len(curve.each),
        "steps": len(band),
    }


def _figures(
    curves: Sequence[Curve], traces: "Sequence[Trace]", shown: Sequence[StoredImage], wording: str
) -> list[StudyFigure]:
    """Of a nationality the mean curves, those of single pictures, and the filmstrips of these."""
    nationality, n_seeds = curves[0].nationality, len(traces)
    names = {"nationality": nationality, "place": re.sub(r"\W+", "-", nationality.lower())}
    singles, strips = [], []
    for i, picture in enumerate(shown):
        seed = picture.row.seed
        lines = [
            {"group": curve.name, "x": step, "value": float(value)}
            for curve in curves
            for step, value in enumerate(curve.each[i], start=1)
        ]
        singles.append(TEXTS.figure("figure6", lines, seed=seed, **names))
        pictures = {f"{step:04d}": (path, f"step {step + 1}") for step, path in traces[i].predicted.items()}
        pictures["finished"] = (picture.path, f"finished, seed {seed}")
        strips += [{"row": seed, "column": k, "path": str(path), "text": text} for k, (path, text) in pictures.items()]
    means = [
        {"group": curve.name, "x": step, **columns("value", estimate, ends="")}
        for curve in curves
        for step, estimate in enumerate(curve.band, start=1)
    ]
    predicted = TEXTS.figure("figure7", strips, **names)
    keys = {"predicted": predicted.key, "singles": [single.key for single in singles]}
    labels = {"concept": nationality, "velocities": wording, **keys}
    return [TEXTS.figure("figure9", means, labels, n_seeds=n_seeds, **names), *singles, predicted]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One generation seen from inside."""

    spi: np.ndarray  # ``(n_steps, n_attributes)``, in [-1, 1]
    space: str  # of the velocities: "flow", "epsilon" or "v_prediction"
    guided: bool  # whether the velocities have classifier-free guidance in them
    predicted: dict[int, Path]  # by step, the file of the picture that the step is heading for


def trace_row(
    data: StudyData, model: Traceable, row: ImageRow, attributes: Sequence[Attribute], *, predicted_steps: Sequence[int]
) -> Trace:
    """The trace of a row, made under the model lock (each step asks whether the run goes on), or kept earlier."""
    services, guided = data.services, data.settings.options.guided
    key = hashlib.sha256(
        json.dumps([row.id, [(a.positive, a.negative) for a in attributes], guided, _FORM]).encode()
    ).hexdigest()[:20]
    folder = services.settings.data_dir / "traces" / key[:2]
    pictures = {step: folder / f"{key}-{step}.png" for step in predicted_steps}
    if (earlier := _read(folder / f"{key}.npz", pictures)) is not None:
        return earlier
    with services.model_lock:
        steps = model.trace(row, attributes, guided=guided, predicted=bool(pictures), on_step=lambda *_: data.check())
        try:
            step_values = [(_look(step, pictures), step.space, step.guided) for step in steps]
        finally:
            if isinstance(steps, Generator):  # whatever happened, the model is let go before the lock is
                steps.close()
    spi, spaces, guidances = zip(*step_values, strict=True)
    trace = Trace(spi=np.array(spi), space=spaces[0], guided=guidances[0], predicted=pictures)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in asdict(trace).items() if name != "predicted"})
    write_atomically(folder / f"{key}.npz", buffer.getvalue())
    return trace


def _look(step: Step, pictures: dict[int, Path]) -> np.ndarray:
    """SPI of a step, whose predicted picture is kept; velocities are far too large for that."""
    if step.index in pictures and step.predicted is not None:
        write_atomically(pictures[step.index], png_bytes(step.predicted))
    return np.asarray(stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative))


def _read(path: Path, pictures: dict[int, Path]) -> Trace | None:
    """A kept trace; None where it, or one of its pictures, is missing or broken."""
    if not path.is_file() or not all(picture.is_file() for picture in pictures.values()):
        return None
    try:
        with np.load(path) as file:
            return Trace(spi=file["spi"], space=str(file["space"]), guided=bool(file["guided"]), predicted=pictures)
    except (OSError, ValueError, KeyError, BadZipFile):
        return None


PROGRAMS = {
    "propagation": Program(
        shots=trace_shots,
        measure=measure_propagation,
        suits=model_suits,
        options=PropagationOptions,
        judged="attributes",
    )
}
