"""The denoising steps that add attributes, and the picture that each step predicts (OASIS, Fig. 6, 7, 9).

Each step's predicted picture is compared with that of a base prompt from the same noise; this predicts the gain of the
finished pictures. OASIS's SPI, which does not, is reported as well. The trace of a generation (SPI and embedding of
every step, and some predicted pictures) is stored.
"""

import hashlib
import io
import json
import math
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.measures.permutation import smallest_sign_p
from bias_core.measures.propagation import (
    PredictedGain,
    StepsSeen,
    first_seen_steps,
    predicted_gain,
    spi_band,
    stereotype_propagation_index,
    visible_steps,
)
from bias_core.papers.oasis.cells import (
    Cell,
    NationalityOptions,
    nationality_shots,
    own_attributes,
    read_cells,
    shown_words,
    wanted_nationalities,
)
from bias_core.papers.oasis.report import (
    BY_PAPER,
    PREDICTED_GAIN_NOTE,
    SPI_SIGN_NOTE,
    agreements,
    describe_untraced,
    describe_velocities,
    foretelling,
    foretelling_table,
    step_findings,
    steps_headline,
)
from bias_core.prompts import fill_template
from bias_core.protocols import ChecksSettings, StepCallback, Traceable
from bias_core.report.claims import claim_columns, decide_claims, family_note
from bias_core.run.study_run import Run, Steps
from bias_core.store.files import write_atomically
from bias_core.store.images import png_bytes
from bias_core.study.design import ReportTexts
from bias_core.study.study import Measuring, Study
from bias_core.study.types import (
    MAX_STEPS,
    Claim,
    Design,
    Finding,
    Results,
    Shot,
    StudyFigure,
    StudyReport,
    StudySettings,
    columns,
    finding,
    get_options,
)
from bias_core.study_services import StudyServices
from bias_core.types import Attribute, Estimate, ImageRow, Step, StoredImage
from bias_core.values import setting, settings_class
from bias_core.wording import format_list, typeset

TEXTS = ReportTexts(__file__)

_FEWEST_SEEDS = 2  # a single seed has no interval
_WHOLE = (
    "It is seen more often than with the base prompt.",
    "It is seen less often than with the base prompt.",
    "It is not clearly seen more or less often than with the base prompt.",
)
_FIRST_STEP = (
    "The first step adds it.",
    "The first step removes it.",
    "The first step does not clearly add or remove it.",
)
_FORM = 2  # version of stored traces; files of other versions are ignored


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One attribute over the steps of a nationality's pictures."""

    nationality: str
    name: str
    gain: PredictedGain  # beyond the base prompt
    spi: np.ndarray  # ``(n_seeds, n_steps)``, the paper's SPI
    spi_band: list[Estimate]  # mean of SPI over seeds at every step
    spi_whole: Estimate  # mean of SPI over all steps
    finished: Estimate  # share of finished pictures in which the classifier sees it
    visible: StepsSeen  # step from which it is seen as in the finished picture
    first_seen: StepsSeen  # step at which it is first seen in seeds whose base picture lacks it
    foretold: Mapping[str, list[Estimate]]  # agreement of each step with the finished picture
    calls: np.ndarray  # bools ``(n_seeds, n_steps + 1)``: True if the classifier sees it; last: in the finished picture

    @property
    def strongest(self) -> int:
        """The step, counted from 0, with the gain farthest from 0."""
        return int(np.argmax([abs(step.value) for step in self.gain.steps]))


@settings_class(frozen=True, kw_only=True)
class PropagationOptions(NationalityOptions):
    """The attributes to measure, and the steps to show."""

    attributes: tuple[str, ...] = setting((), "Attributes", "Names of attributes (default: all of each nationality)")
    guided: bool = setting(
        False, "Guided velocities", "Measure velocities with classifier-free guidance instead of conditional ones"
    )
    base_prompt: str = setting(
        "", "Base prompt", "Prompt drawn from the same noise for comparison (default: the template with a person)"
    )
    n_samples: int = setting(
        2, "Shown seeds", "Number of seeds to show with curves and predicted pictures", ge=1, le=100
    )
    n_predicted: int = setting(
        8, "Shown steps", "Number of predicted pictures to show, spread evenly over the steps", ge=1, le=MAX_STEPS
    )
    first_steps: int = setting(
        0,
        "First steps",
        "Show the predicted pictures of this many first steps instead (Figure 10); 0 spreads them",
        ge=0,
        le=MAX_STEPS,
    )


def base_prompts(design: Design, settings: StudySettings) -> dict[str, str]:
    """Return the base prompt of each prompt of a run: that of the options, or its template with a person.

    >>> from bias_core.study.design import find_design
    >>> set(base_prompts(find_design("oasis-spi"), StudySettings(options=PropagationOptions())).values())
    {'A photo of a person'}
    """
    options = get_options(settings, PropagationOptions)
    given = " ".join(options.base_prompt.split())
    bases = {}
    for nationality in wanted_nationalities(design, settings):
        adjective = design.data["nationalities"][nationality]["adjective"]
        for template in design.data["templates"][options.templates]:
            of_a_person = re.sub(r"\bperson person\b", "person", fill_template(template, "person"))
            bases[fill_template(template, adjective)] = given or of_a_person
    return bases


def model_suits(settings: StudySettings, services: StudyServices) -> None:
    """Refuse models and pictures without denoising steps."""
    if settings.images:
        raise InvalidInput(
            "imported pictures have no denoising steps; this study needs a "
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


def _list_attributes(design: Design, settings: StudySettings, nationality: str) -> list[Attribute]:
    candidates, names = own_attributes(design, nationality), get_options(settings, PropagationOptions).attributes
    chosen = [attribute for attribute in candidates if not names or attribute.name in names]
    if not chosen:
        own_names = ", ".join(attribute.name for attribute in candidates) or "none"
        raise InvalidInput(f"{nationality} has no attribute of {', '.join(names) or 'any name'}; it has {own_names}")
    return chosen


def _curves(
    data: Run, cells: Sequence[Cell], attributes: Sequence[Attribute], pairs: "Sequence[tuple[Trace, Trace]]"
) -> list[Curve]:
    """Return predicted gain and SPI of each attribute, from the traces of a nationality's pictures and their bases."""
    k, confidence = len(attributes), data.settings.confidence
    texts = data.sentences([a.positive for a in attributes] + [a.negative for a in attributes])
    lean = (texts[:k] - texts[k:]).T
    own_margins, base = (
        np.stack([pair[side].rows @ lean for pair in pairs]) for side in (0, 1)
    )  # seeds, steps, attributes
    spi = np.stack([trace.spi for trace, _ in pairs])
    return [
        Curve(
            nationality=cell.concept,
            name=cell.attribute.name,
            gain=predicted_gain(base[:, :, i], own_margins[:, :, i], confidence=confidence),
            spi=spi[:, :, i],
            spi_band=spi_band(spi[:, :, i], confidence=confidence),
            spi_whole=spi_band(spi[:, :, i].mean(axis=1, keepdims=True), confidence=confidence)[0],
            finished=cell.prevalence,
            visible=visible_steps(own_margins[:, :, i], confidence=confidence),
            first_seen=first_seen_steps(base[:, :, i], own_margins[:, :, i], confidence=confidence),
            foretold=agreements(
                spi[:, :, i], own_margins[:, :, i], cell.score.margins, confidence=confidence, seed=data.settings.seed
            ),
            calls=np.column_stack([own_margins[:, :, i], cell.score.margins]) > 0,
        )
        for i, cell in enumerate(cells)
    ]


def _trace_all(
    design: Design, settings: StudySettings, data: Run, model: Traceable, bases: Mapping[str, str]
) -> "Steps[dict[str, list[tuple[Trace, Trace]]]]":
    """Return the traces of pictures by nationality, each with that of its base prompt from the same noise.

    A stopped run returns the traces so far; nationalities with too few have no numbers.
    """
    options, items = get_options(settings, PropagationOptions), list[tuple[str, int, StoredImage]]()
    for nationality in wanted_nationalities(design, settings):
        stored = data.stored(data.frame[data.frame["nationality"] == nationality])
        items += [(nationality, place, picture) for place, picture in enumerate(stored)]

    def work(item: tuple[str, int, StoredImage], on_step: StepCallback) -> "tuple[Trace, Trace]":
        nationality, place, picture = item
        n_own, n_base = 0, 2 * picture.row.num_inference_steps  # the base is drawn, and each of its steps decoded

        def on_own_step(step: int, n_steps: int) -> None:
            nonlocal n_own
            n_own = n_steps
            on_step(step, n_own + n_base)

        def on_base_step(step: int, n_steps: int) -> None:
            on_step(n_own + step, n_own + n_steps)

        attributes = _list_attributes(design, settings, nationality)
        shown = _shown_steps(picture.row.num_inference_steps, options) if place < options.n_samples else ()
        own_trace = trace_row(data, model, picture.row, attributes, on_own_step, predicted_steps=shown)
        base = replace(picture.row, prompt=bases[picture.row.prompt])
        return own_trace, trace_row(data, model, base, (), on_base_step, predicted_steps=())

    pairs = yield from data.map_until_stopped("pictures traced", items, work)
    traced: dict[str, list[tuple[Trace, Trace]]] = {name: [] for name, *_ in items}
    for (nationality, *_), pair in zip(items, pairs, strict=False):  # a stopped run has fewer
        traced[nationality].append(pair)
    left_out = [name for name, of in traced.items() if data.stopped_after and len(of) < _FEWEST_SEEDS]
    if left_out == list(traced):
        raise data.not_enough_pictures()
    data.notes += [describe_untraced(format_list(left_out))] if left_out else []
    return {name: of for name, of in traced.items() if name not in left_out}


def _shown_steps(n_steps: int, options: PropagationOptions) -> Sequence[int]:
    """Return the first steps if asked for, else steps spread evenly from the first to the last.

    >>> _shown_steps(20, PropagationOptions(n_predicted=4)), _shown_steps(20, PropagationOptions(first_steps=3))
    ([0, 6, 13, 19], [0, 1, 2])
    """
    if options.first_steps:
        return list(range(min(options.first_steps, n_steps)))
    return sorted({round(step) for step in np.linspace(0, n_steps - 1, options.n_predicted)})


def _findings(curve: Curve, claim: Claim) -> tuple[Finding, ...]:
    """Return the gain over the base prompt, the steps at which it is seen, and the paper's SPI."""
    steps, strongest, clear = curve.gain.steps, curve.strongest, first_clear_step(curve.gain, claim)
    says = [] if clear is None else [f"The first step whose own interval excludes 0 is step {clear + 1}."]
    if largest := steps[strongest].value:
        says.append(f"It is farthest from 0 at step {strongest + 1} of {len(steps)}: {typeset(largest, '+.3f')}.")
    key, title = f"{curve.nationality} {curve.name}", f"{curve.nationality}, {curve.name}"
    return (
        finding(
            key, f"{title}: predicted gain over all steps", "predicted_gain", curve.gain.whole, " ".join(says),
            claim=claim, readings=_WHOLE,
        ),
        *step_findings(key, title, curve.visible, curve.first_seen, len(steps)),
        finding(
            f"{key} SPI", f"{title}: SPI of the first step", "stereotype_propagation_index", curve.spi_band[0],
            BY_PAPER, readings=_FIRST_STEP,
        ),
    )  # fmt: skip


def first_clear_step(gain: PredictedGain, claim: Claim) -> int | None:
    """Return the first step, counted from 0, whose own interval excludes 0; None unless the whole gain is clear."""
    is_beyond = claim.choose([step.low > 0 for step in gain.steps], [step.high < 0 for step in gain.steps], [])
    return is_beyond.index(True) if any(is_beyond) else None


def _row(curve: Curve, claim: Claim) -> dict[str, Any]:
    steps, strongest, clear = curve.gain.steps, curve.strongest, first_clear_step(curve.gain, claim)
    return {
        "nationality": curve.nationality,
        "attribute": curve.name,
        **columns("all steps", curve.gain.whole),
        **claim_columns(curve.gain.whole, claim),
        **columns("first step", steps[0]),
        "first clear": math.nan if clear is None else clear + 1,
        "strongest": strongest + 1,
        **columns("gain there", steps[strongest]),
        "last": steps[-1].value,
        "can be seen from": curve.visible.typical,
        "first seen": curve.first_seen.typical,
        **columns("finished P", curve.finished),
        **columns("SPI, first step", curve.spi_band[0]),
        **columns("SPI, all steps", curve.spi_whole),
        "seeds": len(curve.spi),
        "steps": len(steps),
    }


def _steps_rows(curve: Curve) -> Iterator[dict[str, Any]]:
    """Yield SPI and predicted gain at every step, over all pictures."""
    for step, (spi, gain) in enumerate(zip(curve.spi_band, curve.gain.steps, strict=True), start=1):
        first = {"nationality": curve.nationality, "attribute": curve.name, "step": step}
        yield first | columns("SPI", spi) | columns("predicted gain", gain) | {"seeds": len(curve.spi)}


def _pictures_rows(curve: Curve, seeds: Iterable[int]) -> Iterator[dict[str, Any]]:
    for seed, of_picture in zip(seeds, curve.spi, strict=True):
        for step, value in enumerate(of_picture, start=1):
            first = {"nationality": curve.nationality, "attribute": curve.name, "seed": int(seed), "step": step}
            yield first | {"SPI": float(value)}


def _figures(
    curves: Sequence[Curve], traces: "Sequence[Trace]", shown: Sequence[StoredImage], base: str
) -> list[StudyFigure]:
    """Return a nationality's mean curves, SPI of all and of single pictures, and the filmstrips of these."""
    nationality, n_seeds = curves[0].nationality, len(traces)
    names = {"nationality": nationality, "place": _get_place(nationality), "base": base}
    singles, strips = [], []
    for i, picture in enumerate(shown):
        seed = picture.row.seed
        lines = [
            {"group": curve.name, "x": step, "value": float(value)}
            for curve in curves
            for step, value in enumerate(curve.spi[i], start=1)
        ]
        singles.append(TEXTS.figure("figure6", lines, seed=seed, **names))
        pictures = {f"{step:04d}": (path, f"step {step + 1}") for step, path in traces[i].predicted.items()}
        pictures["finished"] = (picture.path, f"finished, seed {seed}")
        for column, (path, text) in pictures.items():
            step = -1 if column == "finished" else int(column)
            reads = " ".join(str(number) for number, curve in enumerate(curves) if curve.calls[i, step])
            strips.append({"row": seed, "column": column, "path": str(path), "text": text, "reads": reads})
    predicted = TEXTS.figure("figure7", strips, **names)
    labels = {"concept": nationality, "base": base, "predicted": predicted.key}
    gain = TEXTS.figure("gain", _means(curves, [c.gain.steps for c in curves]), labels, n_seeds=n_seeds, **names)
    spi = TEXTS.figure("figure9", _means(curves, [c.spi_band for c in curves]), n_seeds=n_seeds, **names)
    return [gain, spi, *singles, predicted]


def _get_place(nationality: str) -> str:
    return re.sub(r"\W+", "-", nationality.lower())


def _means(curves: Sequence[Curve], bands: Sequence[Sequence[Estimate]]) -> list[dict[str, Any]]:
    """Return a row per attribute and step."""
    return [
        {"group": curve.name, "x": step, **columns("value", estimate, ends="")}
        for curve, band in zip(curves, bands, strict=True)
        for step, estimate in enumerate(band, start=1)
    ]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One generation seen from inside."""

    spi: np.ndarray  # ``(n_steps, n_attributes)``, in [-1, 1]
    rows: np.ndarray  # ``(n_steps, d)``: unit embeddings of the predicted pictures
    space: str  # of the velocities: "flow", "epsilon" or "v_prediction"
    guided: bool  # True if the velocities include classifier-free guidance
    predicted: dict[int, Path]  # file of the predicted picture, by step


def trace_row(
    data: Run,
    model: Traceable,
    row: ImageRow,
    attributes: Sequence[Attribute],
    on_step: StepCallback,
    *,
    predicted_steps: Sequence[int],
) -> Trace:
    """Return the stored trace of a row, or make it under the model lock; ``on_step`` may end it at each step."""
    services, guided, reader = data.services, get_options(data.settings, PropagationOptions).guided, data.encoder()
    key = hashlib.sha256(
        json.dumps([row.id, [(a.positive, a.negative) for a in attributes], guided, reader.name, _FORM]).encode()
    ).hexdigest()[:20]
    folder = services.settings.data_dir / "traces" / key[:2]
    pictures = {step: folder / f"{key}-{step}.png" for step in predicted_steps}
    if (earlier := _read_trace(folder / f"{key}.npz", pictures)) is not None:
        return earlier
    as_drawn = guided or not attributes  # without attributes, velocities other than those of the drawing go unused
    with services.model_lock:
        steps = model.trace(row, attributes, guided=as_drawn, predicted=True, on_step=on_step)
        try:
            step_values = [(_measure_step(step, pictures), step.predicted, step.space, step.guided) for step in steps]
        finally:
            if isinstance(steps, Generator):  # also after an error, the model is closed before the lock is released
                steps.close()
    spi, images, spaces, guidances = zip(*step_values, strict=True)
    with services.reading(reader):
        rows = reader.encode_images([image for image in images if image is not None])
    trace = Trace(spi=np.array(spi), rows=rows, space=spaces[0], guided=guidances[0], predicted=pictures)
    buffer = io.BytesIO()
    np.savez(buffer, **{name: value for name, value in asdict(trace).items() if name != "predicted"})
    write_atomically(folder / f"{key}.npz", buffer.getvalue())
    return trace


def _measure_step(step: Step, pictures: dict[int, Path]) -> np.ndarray:
    """Return SPI of a step and store its predicted picture; velocities are too large to store."""
    if step.index in pictures and step.predicted is not None:
        write_atomically(pictures[step.index], png_bytes(step.predicted))
    if not len(step.velocity_positive):
        return np.empty(0)
    return np.asarray(stereotype_propagation_index(step.velocity, step.velocity_positive, step.velocity_negative))


def _read_trace(path: Path, pictures: dict[int, Path]) -> Trace | None:
    """Return a stored trace; None if it, or one of its pictures, is missing or broken."""
    if not path.is_file() or not all(picture.is_file() for picture in pictures.values()):
        return None
    try:
        with np.load(path) as file:
            arrays = {name: file[name] for name in ("spi", "rows")}
            return Trace(**arrays, space=str(file["space"]), guided=bool(file["guided"]), predicted=pictures)
    except (OSError, ValueError, KeyError, BadZipFile):
        return None


class Propagation(Study):
    """OASIS: the stereotype propagation index at every denoising step."""

    kind = "propagation"
    options = PropagationOptions
    judged = "attributes"

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        return shown_words(self.design, settings)

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return a picture per seed and nationality; refuse models that cannot be traced."""
        for nationality in wanted_nationalities(self.design, settings):
            _list_attributes(self.design, settings, nationality)
        shots = nationality_shots(self.design, settings, minimum=_FEWEST_SEEDS)
        bases = base_prompts(self.design, settings)
        if same := [shot.prompt for shot in shots if shot.prompt.lower() == bases[shot.prompt].lower()]:
            raise InvalidInput(
                f"{same[0]!r} is the base prompt too, so there is nothing to compare; choose another concept or "
                "base prompt"
            )
        return shots

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure SPI of every attribute over the steps, and predict pictures."""
        model = _traceable(data.rows.model(data.services), settings.model)
        rows = yield from data.embed(data.frame)
        bases, n_samples = base_prompts(self.design, settings), get_options(settings, PropagationOptions).n_samples
        curves: list[Curve] = []
        steps: list[dict[str, Any]] = []
        pictures: list[dict[str, Any]] = []
        figures: list[StudyFigure] = []
        later: list[Finding] = []
        foretold: list[dict[str, Any]] = []
        traced = yield from _trace_all(self.design, settings, data, model, bases)
        for nationality, pairs in traced.items():
            frame = data.frame[data.frame["nationality"] == nationality].iloc[: len(pairs)]
            attributes = _list_attributes(self.design, settings, nationality)
            cells = yield from read_cells(data, nationality, frame, rows[frame.index], attributes)
            new_curves = _curves(data, cells, attributes, pairs)
            for curve in new_curves:
                spi = {
                    f"{curve.name}: SPI, first step": curve.spi[:, 0],
                    f"{curve.name}: SPI, all steps": curve.spi.mean(axis=1),
                }
                steps_of = {f"{curve.name}: can be seen from step": curve.visible.seed_steps}
                steps_of |= {f"{curve.name}: first seen at step": curve.first_seen.seed_steps}
                data.keep(
                    frame,
                    **{f"{curve.name}: predicted gain, all steps": curve.gain.seed_gains.mean(axis=1)},
                    **steps_of,
                    **spi,
                )
            traces = [trace for trace, _ in pairs]
            kind = "with classifier-free guidance" if traces[0].guided else "conditional on each text alone"
            wording = describe_velocities(kind, traces[0].space)
            base = format_list([f"“{prompt}”" for prompt in dict.fromkeys(bases[prompt] for prompt in frame["prompt"])])
            figures += _figures(new_curves, traces, data.stored(frame)[:n_samples], base)
            says, figure, lines = foretelling(
                nationality, _get_place(nationality), {curve.name: curve.foretold for curve in new_curves}
            )
            figures, later, foretold = [*figures, *figure], [*later, *says], [*foretold, *lines]
            curves += new_curves
            steps += [row for curve in new_curves for row in _steps_rows(curve)]
            pictures += [row for curve in new_curves for row in _pictures_rows(curve, frame["seed"])]
        gains = [curve.gain.whole for curve in curves]
        smallest = [smallest_sign_p(gain.n) for gain in gains]
        claims = decide_claims(gains, confidence=settings.confidence, smallest_p=smallest)
        return Results(
            findings=(*(finding for pair in zip(curves, claims, strict=True) for finding in _findings(*pair)), *later),
            tables=(
                TEXTS.table("spi", map(_row, curves, claims), family=family_note(claims, "attributes")),
                TEXTS.table("steps", steps),
                TEXTS.table("pictures", pictures),
                *foretelling_table(foretold),
            ),
            figures=tuple(figures),
            notes=(PREDICTED_GAIN_NOTE, wording, SPI_SIGN_NOTE),
        )

    def family(self, finding: Finding) -> str | None:
        """Return a family for each measure, of all attributes of all nationalities."""
        return finding.metric

    def check(self, settings: StudySettings, services: StudyServices, *, draws_to_measure: bool) -> None:
        """Raise InvalidInput if the model cannot be traced."""
        model_suits(settings, services)

    def headline(self, report: StudyReport) -> str:
        """Say at which steps attributes appear."""
        return steps_headline(report)
