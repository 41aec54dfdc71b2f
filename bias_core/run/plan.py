"""Plans a run: completes its settings once, then lays them out as rows to draw."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from functools import cache
from importlib import metadata
from itertools import chain, combinations
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from bias_core.errors import Cancelled, InvalidInput, TooLarge
from bias_core.models.catalogue import check_condition, hosted_name
from bias_core.models.engines import Cost, estimate_cost
from bias_core.run.image_rows import ImportedRows, RowMaker, Rows, treated, treatment
from bias_core.run.limits import check_budget, check_work, looks_at_stop, most_pictures
from bias_core.run.study_run import Run
from bias_core.settings import Settings
from bias_core.store.manifests import Manifest
from bias_core.study.answer_fit import check_arms_have_answers, fit_answers, join_questions
from bias_core.study.answers import read_answers
from bias_core.study.classifiers import check_readers, chosen_readers, resolve_readers
from bias_core.study.design import get_study, papers_readers, typed_options, with_protocol
from bias_core.study.picture_names import list_files
from bias_core.study.types import AUTO, Design, Progress, Shot, StudySettings, check_arms, get_options
from bias_core.study_services import StudyServices
from bias_core.types import ImageRow
from bias_core.values import Options, changed_settings, check_texts, given_settings, option_values
from bias_core.wording import format_percent

MOST_ESTIMATED = 100_000  # most pictures laid out to estimate a cost, whatever the limit of a run


def check_number(request: Run, limits: Settings) -> None:
    """Refuse too many pictures before anything waits, as :func:`check_size`; imports are counted when opened."""
    if request.arms or not request.settings.images:
        check_size(request, limits)


def check_size(request: Run, limits: Settings, rows: RowMaker | None = None) -> None:
    """Refuse a study that would draw more in all its arms than is allowed here, without making rows.

    Without ``rows`` the size and steps of a picture are unknown, and not checked. The InvalidInput names the largest
    scale that is allowed.
    """
    n_steps, pixels = (rows.num_inference_steps, rows.info.width * rows.info.height) if rows else (0, 0)
    n, max_pictures = count_requested_pictures(request), most_pictures(limits, n_steps, pixels)
    if n <= max_pictures:
        return
    design, settings = request.design, request.settings
    subject = f"{design.name} at {format_percent(settings.scale)} of its size"
    less = "less in its options, its prompts or their number of pictures"
    if settings.arms[1:]:
        subject, less = f"{design.name} with {len(settings.arms)} arms{subject.removeprefix(design.name)}", "fewer arms"
    elif not design.reference:
        subject, less = f"exploring “{request.study.get_run_title(settings)}”", "fewer pictures"
    scale = largest_scale(request, max_pictures)
    share = f"a scale of {scale:g} ({format_percent(scale)} of the full size)" if design.reference else less
    advice = f"ask for {share if scale else less}"
    with _allowing(scale):
        check_budget(n, limits, subject=subject, advice=advice, n_steps=n_steps, pixels=pixels)


@contextmanager
def _allowing(scale: float) -> Iterator[None]:
    """Add the allowed scale to a refusal of a run's size."""
    try:
        yield
    except TooLarge as error:
        error.scale = scale
        raise


def check_work_of_arms(request: Run, arms: Sequence[Run], limits: Settings) -> None:
    """Refuse arms with more pictures (imported ones included) or steps than one run may have here."""
    n, work = 0, 0.0
    for arm in arms:
        rows = arm.manifest.rows
        later = 0 if arm.settings.images else arm.study.run_size(arm.settings).n_later
        n += len(rows) + later
        if not arm.settings.images:  # imported pictures were drawn elsewhere
            sizes = [row.num_inference_steps * row.width * row.height for row in rows]
            work += (sum(sizes) + later * sizes[0]) / 1e6
    subject = f"{request.design.name} with {len(arms)} arms"
    advice = "ask for a smaller scale or fewer arms"
    check_budget(n, limits, subject=subject, advice=advice)
    max_pictures = n * limits.max_megapixel_steps / work if work else math.inf
    with _allowing(largest_scale(request, max_pictures) if n > max_pictures else 0.0):
        check_work(work, limits, subject=subject, of=f"{n:,} pictures of all arms", advice=advice)


def count_requested_pictures(request: Run) -> int:
    """Return the largest number of pictures that all arms draw, those drawn while measuring included."""
    if request.arms:
        return sum(count_requested_pictures(arm) for arm in request.arms if not arm.settings.images)
    return sum(shot.n for shot in request.requested_shots) + request.study.run_size(request.settings).n_later


def largest_scale(request: Run, limit: float) -> float:
    """Return the largest scale that asks for at most ``limit`` pictures: the settings', or a whole percentage; or 0."""
    if count_requested_pictures(request) <= limit:
        return request.settings.scale
    low, high = 0, math.ceil(100 * request.settings.scale) - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = count_requested_pictures(request.with_settings(scale=middle / 100)) <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low / 100


def study_cost(run: Run) -> Cost:
    """Return pictures, seconds and bytes; the last two nan if this model was never run here at this size."""
    if run.arms:
        costs = [study_cost(arm) for arm in run.arms]
        return Cost(**{f.name: sum(getattr(cost, f.name) for cost in costs) for f in fields(Cost)})
    if run.settings.images:
        n = len(run.image_ids)
        return Cost(n_pictures=n, n_stored=n, seconds=0.0, n_bytes=0.0)
    rows, services, engine = run.manifest.rows, run.services, run.services.find_engine(run.settings.model)
    if services.images.n_present(run.image_ids) == len(run.image_ids):
        return estimate_cost(rows, services.images, None, n_workers=1)  # no worker need start
    rate = services.rates.find(rows[0], engine.place())
    return estimate_cost(rows, services.images, rate, n_workers=engine.n_workers())


def warm_up(run: Run, *, cancelled: Callable[[], bool] = lambda: False) -> Generator[Progress, None, None]:
    """Draw one batch of missing pictures per worker, so that :func:`study_cost` knows how long a picture takes.

    Time counts from the first denoising step. If that is not enough (a model of one step), two more batches per worker
    are drawn. Raises what drawing raises.
    """
    for arm in run.arms:
        if math.isnan(study_cost(arm).seconds):
            yield from warm_up(arm, cancelled=cancelled)
    if run.arms or hosted_name(run.settings.model):  # paid for by the picture
        return
    services, rows = run.services, list({row.id: row for row in run.manifest.rows}.values())
    missing = [row for row in rows if not services.images.n_present([row.id])]
    engine = services.find_engine(rows[0].model)
    size = services.text_to_image(rows[0].model).batch_size * engine.n_workers()
    for part in (missing[:size], missing[size : 3 * size]):
        for event in services.draw(part, cancelled=cancelled):
            message = f"trying {rows[0].model}, {event.done:,} of {event.total:,} pictures"
            yield Progress(done=event.done, total=event.total, seconds_left=event.seconds_left, message=message)
        if services.rates.find(rows[0], engine.place()) is not None:
            return


_FIRST = {
    "model", "condition", "encoder", "scale", "seed", "num_inference_steps", "guidance_scale", "confidence",
    "images", "labels", "options", "force",
}  # fmt: skip
_WORDS = {
    design_field.name for design_field in fields(Design) if not design_field.compare
}  # fields of a design that decide no number
_FIRST_OF_ARMS = {
    "name", "model", "condition", "template", "negative_prompt", "guidance_scale", "num_inference_steps", "images",
}  # fmt: skip
"""Settings that every run and arm has had; later ones are left out at their default, so that ids stay."""


def run_id(design: Design, settings: StudySettings, session: str) -> str:
    """Return the id of a run: a hash of design, settings and session that does not change when settings are added."""
    # The design's data decides the numbers, so it is part of the id; its words for readers are not.
    chosen = _FIRST | set(changed_settings(settings))
    values = {k: v for k, v in asdict(settings).items() if k in chosen}
    for arm in values.get("arms", ()):
        for later in arm.keys() - _FIRST_OF_ARMS:
            if arm[later] is None:
                del arm[later]
    changed = changed_settings(settings.options)
    values["options"] = {k: v for k, v in values["options"].items() if k in design.options or k in changed}
    laid_out = {k: v for k, v in asdict(design).items() if (k != "settings" or v) and k not in _WORDS}
    # A design leaves its classifiers open, but they decide the numbers.
    readers = {k: v for k, v in chosen_readers(settings).items() if laid_out["options"].get(k) == AUTO}
    laid_out["options"] = {**laid_out["options"], **readers}
    text = json.dumps([session, laid_out, values], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


S = TypeVar("S")
T = TypeVar("T")

_SECONDS_BETWEEN_UPDATES = 0.5  # while files of weights are read


def read_files(model: str, services: StudyServices, cancelled: Callable[[], bool]) -> Iterator[Progress]:
    """Find the weights of a model name, with progress if that takes long."""
    last = time.monotonic()
    for done, total in services.reading_files(model):
        if time.monotonic() - last >= _SECONDS_BETWEEN_UPDATES:
            last = time.monotonic()
            if cancelled():
                raise Cancelled("stopped while the model's files were read; nothing was drawn yet")
            yield Progress(message=f"reading the model's files: {done / 1e9:.1f} of {total / 1e9:.1f} GB")


def settle(design: Design, given: StudySettings, names: Collection[str] | None = None) -> Run:
    """Return a complete request for a run; the page, the API and the command line all call this once.

    ``names`` are the settings that were given, if ``given`` does not know them. Raises InvalidInput for settings that
    cannot be used together, and for options that the study does not have.
    """
    study, settings = get_study(design), with_protocol(design, given, names)
    design_settings = {name: value for name, value in design.settings.items() if name not in given_settings(settings)}
    if not study.watches_shares and settings.may_stop_early:
        raise InvalidInput(
            f"{design.name} has no shares that a stop rule could watch; leave out both ways to stop early"
        )
    settings = replace(settings, **{**design_settings, "options": typed_options(design, settings.options)})
    if settings.labels and not study.takes_labels:
        advice = "correct a finished run with: study corrected RUN --labels FILE, or ask people with: study label RUN"
        if not study.has_readings(settings):
            advice = "it asks no classifier about single pictures, so that people have nothing to correct"
        raise InvalidInput(f"{design.name} takes no file of people's answers. Leave labels out; {advice}")
    answers = read_answers(settings.labels) if settings.labels else None
    study.check_given(settings)
    settings = check_arms(settings, study.arms(settings))
    return Run(study, settings, answers=answers)


def plan_study(design: Design, settings: StudySettings, services: StudyServices, **kwargs: Any) -> Run:
    """Complete the request (:func:`settle`), then :func:`lay_out` it."""
    return lay_out(settle(design, settings), services, **kwargs)


def lay_out(
    request: Run,
    services: StudyServices,
    *,
    session: str = "",
    measure: bool = True,
    estimate: bool = False,
    any_world: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> Run:
    """Return the run with all that it will draw; InvalidInput, UnknownModel or ModelUnavailable if it cannot be run.

    Without ``measure``, the classifiers need not be installed. With ``estimate``, the model that draws may be missing
    too: the revision of its rows is then "", and size and classifiers are not checked, which the caller must do.
    "auto" chooses classifiers that suit the pictures; with ``any_world``, those for any pictures.
    Raises Cancelled once ``cancelled()`` is true.
    """
    if request.arms:
        return _lay_out_arms(request, services, session, measure=measure, estimate=estimate, cancelled=cancelled)
    study, design = request.study, request.design
    check = looks_at_stop(cancelled)
    settings, rows, shots = _choose_rows(request, services, check, estimate=estimate)
    world = rows.world(shots, services)
    settings = resolve_readers(settings, services, "" if any_world else world, papers_readers(design))
    run = Run(study, settings, services, rows)
    run.shots, run.world, run.name = shots, world, request.name
    read = measure and not estimate
    run.warning = check_study_readers(run) if read else ""
    run.manifest = Manifest(
        id=run_id(design, settings, session),
        study=design.name,
        session=session,
        title=study.get_run_title(settings),
        settings=asdict(settings),
        design=asdict(design),
        rows=tuple(_make_all_rows(run, check)),
        versions=library_versions() | {"model_revision": rows.revision},
    )
    if rows.revision or settings.images:
        n_missing = len(run.image_ids) - services.images.n_present(run.image_ids)
        study.check(settings, services, draws_to_measure=read and n_missing > 0)
    return _add_answers(run, request.answers)


def _lay_out_arms(
    request: Run, services: StudyServices, session: str, *, measure: bool, estimate: bool, cancelled: Callable[[], bool]
) -> Run:
    if not estimate:
        check_size(request, services.settings)

    def lay_out_each(*, any_world: bool) -> tuple[Run, ...]:
        kwargs: dict[str, Any] = {
            "measure": measure,
            "estimate": estimate,
            "any_world": any_world,
            "cancelled": cancelled,
        }
        return tuple(lay_out(arm, services, **kwargs) for arm in request.arms)

    arms = lay_out_each(any_world=False)
    if any(chosen_readers(arm.settings) != chosen_readers(arms[0].settings) for arm in arms):
        arms = lay_out_each(any_world=True)  # the same classifiers for all arms
    run = Run(request.study, _copy_readers(arms[0].settings, request.settings), services, arms[0].rows)
    run.arms, run.shots, run.world = arms, arms[0].shots, arms[0].world
    if not estimate:
        check_work_of_arms(run, arms, services.settings)
    check_arms_differ(arms)
    manifests = [arm.manifest for arm in arms]
    revisions = dict.fromkeys(manifest.versions["model_revision"] for manifest in manifests)
    rows = {(row.id, row.group): row for manifest in manifests for row in manifest.rows}
    run.manifest = replace(
        manifests[0],
        id=run_id(run.design, run.settings, session),
        session=session,
        title=f"{manifests[0].title}: {' against '.join(arm.name for arm in arms)}",
        settings=asdict(run.settings),
        rows=tuple(rows.values()),
        versions={**manifests[0].versions, "model_revision": " and ".join(filter(None, revisions))},
    )
    run.warning = " ".join(dict.fromkeys(arm.warning for arm in arms if arm.warning))
    return _add_answers(run, request.answers)


def _add_answers(run: Run, answers: pd.DataFrame | None) -> Run:
    """Add the answers that count for the run's pictures; none if a model's revision is unknown."""
    if answers is None or not all(arm.manifest.versions["model_revision"] or arm.settings.images for arm in run.each):
        return run
    pictures = [[row.id for row in arm.manifest.rows] for arm in run.each]
    questions = [arm.study.questions(arm.settings, _make_planned_frame(arm)) for arm in run.each]
    run.answers = fit_answers(answers, join_questions(chain.from_iterable(pictures), questions), list_own_files(run))
    if run.arms:
        check_arms_have_answers(run.answers, {arm.name: ids for arm, ids in zip(run.arms, pictures, strict=True)})
    return run


def list_own_files(run: Run) -> pd.DataFrame | None:
    """Return the files of own pictures, by which people's answers find them; None if all are drawn."""
    sources: dict[Path, dict[str, set[str]]] = {}
    for arm in run.each:
        if isinstance(arm.rows, ImportedRows):
            source = arm.rows.source
            files = sources.setdefault(source.path, {name: set() for name in source.names})
            for row in arm.manifest.rows:
                files[source.get_picture(row.id).name].add(row.id)
    return list_files(sources) if sources else None


def _make_planned_frame(arm: Run) -> pd.DataFrame:
    """Return one row per planned picture of one arm, with its facts."""
    return pd.DataFrame(
        {"image_id": row.id, "group": row.group, "prompt": shot.prompt, "seed": row.seed, **shot.facts}
        for shot in arm.shots
        for row in arm.make_rows(shot)
    )


def check_study_readers(run: Run) -> str:
    """Return the report's warning on the classifiers of an arm's pictures; InvalidInput if they cannot read them."""
    study, settings = run.study, run.settings
    if settings.further_encoders and settings.encoder not in {reader.name for reader in run.readers}:
        raise InvalidInput("these settings do not use the encoder, so further encoders would change nothing")
    if settings.judge and not study.judged:
        raise InvalidInput(
            "this study asks for no attribute of single pictures, so a judge would change nothing; leave judge empty"
        )
    return check_readers(run.reader_facts, run.services, source=settings.model, world=run.world, force=settings.force)


def _copy_readers(source: StudySettings, settings: StudySettings) -> StudySettings:
    names = chosen_readers(source)
    encoder = names.pop("encoder")
    return replace(settings, encoder=encoder, options=replace(get_options(settings, Options), **names))


def _make_all_rows(run: Run, check: Callable[[], None]) -> Iterator[ImageRow]:
    for shot in run.shots:
        check()
        yield from run.make_rows(shot)


def _choose_rows(
    request: Run, services: StudyServices, check: Callable[[], None], *, estimate: bool
) -> tuple[StudySettings, Rows, list[Shot]]:
    """Return the settings, the source of the pictures and the shots; imported pictures replace the model's."""
    study, settings, design = request.study, request.settings, request.design
    if not settings.images and (completed := study.settled(settings, services)) != settings:
        request, settings = Run(study, completed), completed
    shots = request.requested_shots
    if settings.images:
        template = treatment(settings) if shots else ""  # without shots their prompts are the study's
        imported = ImportedRows.build(settings, check, template, study.get_concept_prompt(settings))
        check_budget(
            imported.n_found(shots or imported.shots(settings.scale, settings.seed)),
            services.settings,
            subject=f"{design.name} on {imported.source.name}",
            advice="bring fewer pictures or take a smaller scale",
        )
        if not shots:
            imported.examine()
            shots = imported.shots(settings.scale, settings.seed)
        imported.refuse_none(shots)
        # Facts about the model are not true of these pictures.
        return replace(settings, model=f"imported:{imported.source.name}", condition=""), imported, shots
    if not shots:
        raise InvalidInput(
            f"{design.name} has nothing to draw with the options {option_values(settings.options)}; a study "
            "of a dataset needs a folder or zip of pictures (images; in a terminal `study run` with --images)"
        )
    rows = RowMaker.build(settings, services, estimate=estimate)
    check_texts("a negative prompt", rows.negative_prompt)
    if not estimate or count_requested_pictures(request) > MOST_ESTIMATED:
        check_size(request, services.settings, rows)
    prompts = (prompt for shot in shots for prompt in (shot.prompt, shot.later_prompt) if prompt)
    for prompt in dict.fromkeys(prompts):  # may contain words of the visitor
        check_texts("a prompt", treated(prompt, rows.template))
    conditions = (condition for shot in shots for condition in (shot.condition, shot.text_condition) if condition)
    for condition in dict.fromkeys(conditions):
        check_condition(rows.info, condition)
    return replace(settings, condition=rows.condition), rows, shots


@cache
def library_versions() -> dict[str, str]:
    """Return the installed versions of the libraries that decide the numbers."""
    from bias_core import __version__

    versions = {"bias_core": __version__}
    for name in ("torch", "diffusers", "transformers", "open_clip_torch", "numpy", "scipy"):
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def check_arms_differ(arms: Sequence[Run]) -> None:
    """Refuse two arms that draw the same pictures."""
    for first, second in combinations(arms, 2):
        if first.image_ids == second.image_ids:
            arm_settings = first.settings
            takes_none = not arm_settings.images and first.manifest.rows[0].num_inference_steps == 0
            model_name = arm_settings.model if hosted_name(arm_settings.model) else "The renderer"
            hint = f" {model_name} takes no guidance, steps, sampler or negative prompt." if takes_none else ""
            raise InvalidInput(
                f"“{first.name}” and “{second.name}” draw the same pictures, so they cannot differ. Change the model, "
                f"condition, template, guidance or images.{hint}"
            )
