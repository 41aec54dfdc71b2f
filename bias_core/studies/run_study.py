"""Runs a study: its pictures, then its numbers; a run that was cut off goes on where it ended."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.given_values import check_texts
from bias_core.model_catalogue import check_condition
from bias_core.runs.manifests import STALE_SECONDS, Manifest
from bias_core.studies.designs import program_of, typed_options
from bias_core.studies.explore_plan import library_versions
from bias_core.studies.files_read import read_files
from bias_core.studies.imported_rows import ImportedRows
from bias_core.studies.limits import TimeLimit, looks_at_stop
from bias_core.studies.plain_values import encode
from bias_core.studies.progress import Progress
from bias_core.studies.prompt_notes import before_drawing, while_drawing
from bias_core.studies.readers import check_readers
from bias_core.studies.rows import RowMaker
from bias_core.studies.saved_reports import keep_report
from bias_core.studies.setting_fields import changed_settings, option_values
from bias_core.studies.study_data import StudyData
from bias_core.studies.study_size import MOST_ESTIMATED, check_import, check_size, n_asked
from bias_core.studies.study_types import StudyReport

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from bias_core.runs.manifests import Status
    from bias_core.studies.context import StudyServices
    from bias_core.studies.program import Program
    from bias_core.studies.rows import Rows
    from bias_core.studies.study_types import Design, Results, Shot, StudySettings
    from bias_core.types import ImageRow, StoredImage

T = TypeVar("T")

# A run at work protects its pictures from eviction as long as its manifest is fresh.
_SECONDS_BETWEEN_SAVES = STALE_SECONDS / 24


def run_study(
    design: Design,
    settings: StudySettings,
    services: StudyServices,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress, None, StudyReport]:
    """Draw what the design asks for and measure it; the generator returns the report.

    The same design, settings and weights give the same report (but for ``seconds``).

    Raises
    ------
    InvalidInput, UnknownModel
        Before anything is drawn, for settings that cannot be used.
    Cancelled
        ``cancelled()`` turned true, or the time of a run is over (Interrupted); what was finished is kept,
        and the same call goes on from there.
    ModelUnavailable, StorageError
        On the way, likewise.
    """
    started = time.monotonic()
    limit = TimeLimit(services.settings, cancelled)
    with limit.explained():
        if not settings.images:
            yield from read_files(services, settings.model, "", limit)
        plan = plan_study(design, settings, services, session=session, cancelled=limit)
        data = StudyData(plan.settings, services, plan.rows, cancelled=limit, ahead=plan.program.ahead)
        results = yield from _on_record(_drawn_and_measured(plan, data), plan, services)
    services.tidy()
    report = StudyReport(
        run_id=plan.manifest.id,
        design=design,
        settings=plan.settings,
        results=results,
        n_planned=data.n_planned,
        n_images=len(data.frame),
        n_blocked=data.n_blocked,
        warning=plan.warning,
        unknown_words=_unknown_words(plan.settings, services, plan.shots),
        versions=plan.manifest.versions,
        seconds=time.monotonic() - started,
        pictures=data.frame,
        stored=data.known,
    )
    keep_report(report, services)
    return report


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study would draw, found out without drawing.

    Attributes
    ----------
    settings : with the design's options filled in.
    rows : where the pictures come from.
    shots : which.
    manifest : with one row per picture; not yet saved.
    warning : what the report must say first, "" for nothing.
    """

    design: Design
    settings: StudySettings
    program: Program
    rows: Rows
    shots: list[Shot]
    manifest: Manifest
    warning: str = ""


def plan_study(
    design: Design,
    settings: StudySettings,
    services: StudyServices,
    *,
    session: str = "",
    measure: bool = True,
    estimate: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> StudyPlan:
    """Lay a study out; InvalidInput, UnknownModel or ModelUnavailable where it cannot be run.

    Models that are needed to ``measure`` need not be here for drawing alone. Only to ``estimate`` what it
    would cost, the model that draws need not be here or on a hub either: the revision of its rows is "" then.
    Nor is it refused then for its size, or for who reads it; whoever estimates asks for that.
    Raises Cancelled once ``cancelled()`` turned true.
    """
    settings = with_options(design, settings)
    program = program_of(design)
    check = looks_at_stop(cancelled)
    settings, rows, shots = _laid_out(design, settings, services, program, check, estimate=estimate)
    read = measure and not estimate
    warning = check_study_readers(program, settings, rows, shots, services) if read else ""
    is_here = bool(rows.revision or settings.images)
    if is_here:
        program.suits(settings, services)
    plan = StudyPlan(
        design=design,
        settings=settings,
        program=program,
        rows=rows,
        shots=shots,
        manifest=_manifest(design, settings, rows, shots, session, check),
        warning=warning,
    )
    if measure and is_here:
        program.ready(settings, services)
    return plan


def check_study_readers(
    program: Program, settings: StudySettings, rows: Rows, shots: list[Shot], services: StudyServices
) -> str:
    """What the report must say first of who reads these pictures; InvalidInput where they cannot."""
    return check_readers(
        program.readers(settings),
        services,
        source=settings.model,
        world=rows.world(shots, services),
        force=settings.force,
    )


def draw_study(
    plan: StudyPlan, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, StudyData]:
    """Draw the pictures of a plan and measure nothing; returns them.

    :func:`run_study` with the same settings finds them, and measures. Raises what it raises.
    """
    data = StudyData(plan.settings, services, plan.rows, cancelled=cancelled, ahead=_read_nothing)
    yield from _on_record(data.draw(plan.shots), plan, services)
    return data


def _read_nothing(_data: StudyData, _images: Sequence[StoredImage]) -> None:
    """Nobody measures these pictures yet."""


def _drawn_and_measured(plan: StudyPlan, data: StudyData) -> Generator[Progress, None, Results]:
    repairs = data.services.repairs
    n_before = repairs.n
    notes = plan_notes(plan, data.services)
    if notes:
        yield Progress(done=0, total=0, seconds_left=float("nan"), message=" ".join(notes))
    yield from data.draw(plan.shots)
    results = yield from plan.program.measure(plan.design, plan.settings, data)
    told = while_drawing(data.known.values())
    said = (*repairs.since(n_before), *data.notes, *notes, *told)
    return replace(results, notes=(*said, *results.notes))


def _on_record(
    steps: Generator[Progress, None, T], plan: StudyPlan, services: StudyServices
) -> Generator[Progress, None, T]:
    """Follow ``steps`` to what they return; the manifest says all the while what became of them."""
    services.manifests.save(plan.manifest)
    saved = time.monotonic()
    status: Status = "failed"
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                status = "finished"
                result: T = end.value
                return result
            if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                services.manifests.save(plan.manifest)
                saved = time.monotonic()
            yield step
    except (Cancelled, GeneratorExit):  # stopped, or the reader went away
        status = "cancelled"
        raise
    finally:
        steps.close()
        with suppress(StorageError):  # must not hide the error that a full disk caused
            services.manifests.save(replace(plan.manifest, status=status))


def complete(steps: Generator[Progress, None, StudyReport]) -> StudyReport:
    """Run to the end without showing the way; returns the report."""
    found: list[StudyReport] = []
    for _ in followed(steps, found):
        pass
    return found[0]


def followed(steps: Generator[Progress, None, T], found: list[T]) -> Generator[Progress, None, None]:
    """The steps of a run; its report (or whatever it returns) is put into ``found`` at the end."""
    found.append((yield from steps))


def _laid_out(
    design: Design,
    settings: StudySettings,
    services: StudyServices,
    program: Program,
    check: Callable[[], None],
    *,
    estimate: bool,
) -> tuple[StudySettings, Rows, list[Shot]]:
    """Where the pictures come from, and which; imported ones take the place of the model's."""
    shots = program.shots(design, settings)
    if settings.images:
        imported = ImportedRows.build(settings.images, check)
        shots = shots or imported.shots(settings.scale, settings.seed)
        check_import(design, imported, shots, services)
        imported.refuse_none(shots)
        # Whatever is known of the model is not true of these pictures.
        return replace(settings, model=f"imported:{imported.source.name}", condition=""), imported, shots
    if not shots:
        raise InvalidInput(
            f"{design.name} has nothing to draw with the options {option_values(settings.options)}; a study "
            "of a dataset needs a folder or zip of pictures (images; in a terminal `study run` with --images)"
        )
    rows = RowMaker.build(settings, services, estimate=estimate)
    if not estimate or n_asked(design, settings) > MOST_ESTIMATED:
        check_size(design, settings, services.settings, rows)
    for prompt in dict.fromkeys(shot.prompt for shot in shots):  # which may hold words of one's own
        check_texts("a prompt", prompt)
    for condition in dict.fromkeys(shot.condition for shot in shots if shot.condition):
        check_condition(rows.info, condition)
    return replace(settings, condition=rows.condition), rows, shots


def with_options(design: Design, settings: StudySettings) -> StudySettings:
    """The settings with the design's options filled in, each of the type that the design gives it.

    Raises
    ------
    InvalidInput
        An option that the design does not have, a value that is not of its type or outside of its range.
    """
    return replace(settings, options=typed_options(design, settings.options))


_ADDED = ("arms", "negative_prompt")
"""Settings that older runs did not have: left out where they ask for nothing, so that ids stay."""


def _manifest(
    design: Design,
    settings: StudySettings,
    rows: Rows,
    shots: list[Shot],
    session: str,
    check: Callable[[], None],
) -> Manifest:
    # The design's data decides the numbers too, so it is part of what makes a run the same run.
    values = {k: v for k, v in asdict(settings).items() if k not in _ADDED or v}
    changed = changed_settings(settings.options)
    values["options"] = {k: v for k, v in values["options"].items() if k in design.options or k in changed}
    asked = json.dumps([session, asdict(design), values], sort_keys=True, default=str)
    return Manifest(
        id=hashlib.sha256(asked.encode()).hexdigest()[:16],
        study=design.name,
        session=session,
        title=design.title,
        settings=asdict(settings),
        design=encode(design, Path()),
        rows=tuple(_rows_of(shots, rows, check)),
        versions=library_versions() | {"model_revision": rows.revision},
    )


def _rows_of(shots: list[Shot], rows: Rows, check: Callable[[], None]) -> Iterator[ImageRow]:
    for shot in shots:
        check()
        yield from rows.of(shot)


def _unknown_words(settings: StudySettings, services: StudyServices, shots: list[Shot]) -> tuple[str, ...]:
    if settings.images:
        return ()
    words = {
        w for prompt in {s.prompt for s in shots} for w in services.unknown_words(settings.model, prompt)
    }
    return tuple(sorted(words))


def plan_notes(plan: StudyPlan, services: StudyServices) -> list[str]:
    """What is known before drawing: settings without effect, and prompts that are not read to their end."""
    return [] if plan.settings.images else before_drawing(services, plan.manifest.rows)
