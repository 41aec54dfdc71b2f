"""Runs a study: its pictures, then its numbers; a run that was cut off goes on where it ended."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.given_values import check_texts
from bias_core.models.catalogue import check_condition
from bias_core.models.hosted import hosted_name
from bias_core.store.manifests import STALE_SECONDS, Manifest, Status
from bias_core.studies.arms.results import compare_arms
from bias_core.studies.kit.designs import program_of, typed_options
from bias_core.studies.kit.labels import check_answers_fit
from bias_core.studies.kit.limits import TimeLimit, check_budget, looks_at_stop
from bias_core.studies.kit.program import Program, StudyData, StudyPlan, nothing_ahead
from bias_core.studies.kit.protocol import papers_readers, with_protocol
from bias_core.studies.kit.readers import check_readers, chosen_readers, fetch_reader, reader_note, resolve_readers
from bias_core.studies.kit.rewriting import rewriting_note
from bias_core.studies.kit.rows import ImportedRows, RowMaker, Rows, treated, treatment, words_without_effect
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.setting_fields import given_settings, option_values
from bias_core.studies.kit.types import ArmReport, Design, Progress, Results, Shot, StudyReport, StudySettings, mapped
from bias_core.studies.kit.watching import stop_rule
from bias_core.studies.reports.saved import encode, keep_report
from bias_core.studies.running.arms import check_arms, check_arms_differ, each_arm, with_arms_of_options
from bias_core.studies.running.checklist import protocol_tables
from bias_core.studies.running.drawing import as_watched, draw_arms, too_early, what_is_there, what_was_read
from bias_core.studies.running.drawn import before_drawing, refusals, rewritten_prompts, while_drawing
from bias_core.studies.running.readers import beside
from bias_core.studies.running.run_ids import run_id
from bias_core.studies.running.settings_table import settings_table
from bias_core.studies.running.size import MOST_ESTIMATED, check_size, check_work_of_arms, n_asked
from bias_core.types import ImageRow

S = TypeVar("S")
T = TypeVar("T")

# A run at work protects its pictures from eviction as long as its manifest is fresh.
_SECONDS_BETWEEN_SAVES = STALE_SECONDS / 24
_SECONDS_BETWEEN_UPDATES = 0.5  # while files of weights are read


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

    Raises InvalidInput, UnknownModel: before anything is drawn, for settings that cannot be used; Cancelled:
    ``cancelled()`` turned true, or the time of a run is over (Interrupted); what was finished is kept, and the same
    call goes on from there; ModelUnavailable, StorageError: on the way, likewise.
    """
    started = time.monotonic()
    limit = TimeLimit(services.settings, cancelled)
    settings = with_protocol(design, settings)
    with limit.explained():
        for name in dict.fromkeys(arm.model for arm in each_arm(settings) if not arm.images):
            yield from read_files(name, services, limit)
        plan = plan_study(design, settings, services, session=session, cancelled=limit)
        report = yield from _on_record(_measure(plan, services, limit), plan, services)
    if report.stopped:
        services.manifests.save(replace(plan.manifest, status="cancelled"))
    services.tidy()
    report = replace(report, seconds=time.monotonic() - started)
    keep_report(report, services)
    return report


def read_files(model: str, services: StudyServices, cancelled: Callable[[], bool]) -> Iterator[Progress]:
    """Find out which weights a name stands for; says how far that is only where it takes its time."""
    last = time.monotonic()
    for done, total in services.reading_files(model):
        if time.monotonic() - last >= _SECONDS_BETWEEN_UPDATES:
            last = time.monotonic()
            if cancelled():
                raise Cancelled("stopped while the files of the model were read; nothing was drawn yet")
            yield Progress(message=f"reading the model's files: {done / 1e9:.1f} of {total / 1e9:.1f} GB")


def plan_study(
    design: Design,
    settings: StudySettings,
    services: StudyServices,
    *,
    session: str = "",
    measure: bool = True,
    estimate: bool = False,
    any_world: bool = False,
    cancelled: Callable[[], bool] = lambda: False,
) -> StudyPlan:
    """Lay a study out; InvalidInput, UnknownModel or ModelUnavailable where it cannot be run.

    Models that are needed to ``measure`` need not be here for drawing alone. Only to ``estimate`` what it
    would cost, the model that draws need not be here or on a hub either: the revision of its rows is "" then.
    Nor is it refused then for its size, or for who reads it; whoever estimates asks for that.
    Readers that nobody named are those that suit the pictures; with ``any_world``, those of any pictures.
    Raises Cancelled once ``cancelled()`` turned true.
    """
    settings = with_options(design, settings)
    program = program_of(design)
    if settings.arms[1:]:
        if not estimate:
            check_size(design, settings, services.settings)
        plan_arm = partial(plan_study, design, measure=measure, estimate=estimate, cancelled=cancelled)
        plans = tuple(plan_arm(arm, services) for arm in each_arm(settings))
        if any(chosen_readers(plan.settings) != chosen_readers(plans[0].settings) for plan in plans):
            plans = tuple(plan_arm(arm, services, any_world=True) for arm in each_arm(settings))  # who can read all
        settings = _with_readers_of(plans[0].settings, settings)
        if not estimate:
            check_work_of_arms(design, settings, plans, services.settings)
        return _plan_together(design, settings, plans, session)
    if settings.labels and not program.takes_labels:
        raise InvalidInput(
            f"{design.name} has no use for people's answers: what its pictures show is read by a program. Leave labels "
            "out; a task that corrects a finished run is made with: study label RUN"
        )
    check = looks_at_stop(cancelled)
    settings, rows, shots = _laid_out(design, settings, services, program, check, estimate=estimate)
    world = rows.world(shots, services)
    settings = resolve_readers(settings, services, "" if any_world else world, papers_readers(design))
    read = measure and not estimate
    warning = check_study_readers(program, settings, world, services) if read else ""
    is_here = bool(rows.revision or settings.images)
    if is_here:
        program.suits(settings, services)
    manifest = Manifest(
        id=run_id(design, settings, session),
        study=design.name,
        session=session,
        title=program.title(design, settings),
        settings=asdict(settings),
        design=encode(design, Path()),
        rows=tuple(_rows_of(shots, rows, check)),
        versions=library_versions() | {"model_revision": rows.revision},
    )
    if settings.labels and is_here:
        check_answers_fit(settings.labels, {row.id for row in manifest.rows})
    if read and is_here:
        program.ready(settings, services)
    return StudyPlan(
        design=design, settings=settings, program=program, rows=rows, shots=shots, manifest=manifest, warning=warning
    )


def check_study_readers(program: Program, settings: StudySettings, world: str, services: StudyServices) -> str:
    """What the report must say first of who reads pictures of this world; InvalidInput where they cannot."""
    if settings.further_encoders and settings.encoder not in {reader.name for reader in program.readers(settings)}:
        raise InvalidInput("the encoder reads nothing under these settings, so further encoders would change nothing")
    if settings.judge and not program.judged:
        raise InvalidInput(
            "this study looks for no attribute in single pictures, so a judge would change nothing; leave judge empty"
        )
    return check_readers(program.readers(settings), services, source=settings.model, world=world, force=settings.force)


def _with_readers_of(other: StudySettings, settings: StudySettings) -> StudySettings:
    """The settings, read by who reads the pictures of the others."""
    names = chosen_readers(other)
    encoder = names.pop("encoder")
    return replace(settings, encoder=encoder, options=replace(settings.options, **names))


def _rows_of(shots: list[Shot], rows: Rows, check: Callable[[], None]) -> Iterator[ImageRow]:
    for shot in shots:
        check()
        yield from rows.of(shot)


def _plan_together(design: Design, settings: StudySettings, plans: tuple[StudyPlan, ...], session: str) -> StudyPlan:
    """One plan of several arms; InvalidInput where two of them draw the same."""
    names = [arm.name for arm in settings.arms]
    check_arms_differ(plans, names)
    manifests = [plan.manifest for plan in plans]
    revisions = dict.fromkeys(manifest.versions["model_revision"] for manifest in manifests)
    rows = {(row.id, row.group): row for manifest in manifests for row in manifest.rows}
    manifest = replace(
        manifests[0],
        id=run_id(design, settings, session),
        session=session,
        title=f"{manifests[0].title}: {' against '.join(names)}",
        settings=asdict(settings),
        rows=tuple(rows.values()),
        versions={**manifests[0].versions, "model_revision": " and ".join(filter(None, revisions))},
    )
    warning = " ".join(dict.fromkeys(plan.warning for plan in plans if plan.warning))
    return replace(plans[0], settings=settings, manifest=manifest, warning=warning, arms=plans)


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
    settings = settings if settings.images else program.settled(settings, services)
    shots = program.shots(design, settings)
    if settings.images:
        template = treatment(settings) if shots else ""  # without shots their prompts are the study's
        imported = ImportedRows.build(settings.images, check, template)
        check_budget(
            imported.n_found(shots or imported.shots(settings.scale, settings.seed)),
            services.settings,
            what=f"{design.name} on {imported.source.name}",
            advice="bring fewer pictures or take a smaller scale",
        )
        if not shots:
            imported.examine()
            shots = imported.shots(settings.scale, settings.seed)
        imported.refuse_none(shots)
        # Whatever is known of the model is not true of these pictures.
        return replace(settings, model=f"imported:{imported.source.name}", condition=""), imported, shots
    if not shots:
        raise InvalidInput(
            f"{design.name} has nothing to draw with the options {option_values(settings.options)}; a study "
            "of a dataset needs a folder or zip of pictures (images; in a terminal `study run` with --images)"
        )
    rows = RowMaker.build(settings, services, estimate=estimate)
    check_texts("a negative prompt", rows.negative_prompt)
    if not estimate or n_asked(design, settings) > MOST_ESTIMATED:
        check_size(design, settings, services.settings, rows)
    prompts = (prompt for shot in shots for prompt in (shot.prompt, shot.later_prompt) if prompt)
    for prompt in dict.fromkeys(prompts):  # which may hold words of one's own
        check_texts("a prompt", treated(prompt, rows.template))
    conditions = (condition for shot in shots for condition in (shot.condition, shot.text_condition) if condition)
    for condition in dict.fromkeys(conditions):
        check_condition(rows.info, condition)
    return replace(settings, condition=rows.condition), rows, shots


def with_options(design: Design, settings: StudySettings) -> StudySettings:
    """The settings with the paper's where asked, the design's and its options; InvalidInput for one that cannot be."""
    settings = with_protocol(design, settings)
    own = {name: value for name, value in design.settings.items() if name not in given_settings(settings)}
    if program_of(design).watch is None and stop_rule(settings) is not None:
        raise InvalidInput(
            f"{design.name} has no shares that a stop rule could watch; leave both ways to stop early out"
        )
    settings = replace(settings, **{**own, "options": typed_options(design, settings.options)})
    return check_arms(with_arms_of_options(settings, program_of(design).arms(settings)))


@cache
def library_versions() -> dict[str, str]:
    """Versions of what decides the numbers, for those that are installed."""
    from bias_core import __version__

    installed = {dist.name.lower().replace("-", "_"): dist.version for dist in metadata.distributions()}
    names = ("torch", "diffusers", "transformers", "open_clip_torch", "numpy", "scipy", "scikit_learn")
    return {"bias_core": __version__} | {name: installed[name] for name in names if name in installed}


def draw_study(
    plan: StudyPlan, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, list[StudyData]]:
    """Draw a plan's pictures, by arm, and measure nothing; :func:`run_study` then finds them, and raises alike."""
    watched = stop_rule(plan.settings) is not None
    arms = [
        arm.program.data(arm.design, arm.settings, services, arm.rows, cancelled=cancelled)
        if watched
        else StudyData(arm.settings, services, arm.rows, cancelled=cancelled, ahead=nothing_ahead)
        for arm in plan.each
    ]
    yield from _on_record(draw_arms(plan, arms), plan, services)
    return arms


def _measure(plan: StudyPlan, services: StudyServices, limit: TimeLimit) -> Generator[Progress, None, StudyReport]:
    """Draw all arms, measure each, compare them; of a run that is stopped what is finished, where that can be.

    Cancelled where it cannot: nothing of it is said that needs pictures which are not there.
    """
    data = [arm.program.data(arm.design, arm.settings, services, arm.rows, cancelled=limit) for arm in plan.each]
    data[0].may_end_early = not plan.arms  # arms are compared as wholes
    n_repairs = services.repairs.n
    if notes := dict.fromkeys(note for arm in plan.each for note in plan_notes(arm, services)):
        yield Progress(message=" ".join(notes))
    yield from _fetch_readers(plan, services)
    rest = what_is_there
    try:
        with limit.explained():
            yield from draw_arms(plan, data)
            rest = what_was_read
            return (yield from _measured(plan, data, services, n_repairs))
    except Cancelled as why:
        there, taken_up = rest(plan, data, why)
        try:
            report = yield from _measured(there, taken_up, services, n_repairs)
        except InvalidInput as too_few:
            raise too_early(plan, data, why) from too_few
        return replace(report, settings=plan.settings, n_planned=sum(one.n_planned for one in data))


def _measured(
    plan: StudyPlan, data: Sequence[StudyData], services: StudyServices, n_repairs: int
) -> Generator[Progress, None, StudyReport]:
    """The report of pictures that are drawn, read by each encoder of the settings."""
    arms, results = yield from _read_arms(plan, data)
    others: dict[str, tuple[list[ArmReport], Results]] = {}
    names = () if data[0].stopped_after else plan.settings.further_encoders
    data[0].may_end_early = True  # every arm was read by the first
    with data[0].ending_early(lambda: f"the readings of {1 + len(others)} of {1 + len(names)} encoders"):
        for name in names:
            yield Progress(message=f"reading with {name}")
            others[name] = yield from _read_arms(_read_with(plan, name), [one.read_by(name) for one in data])
    if others:
        first = plan.settings.encoder
        for i, arm in enumerate(arms):
            arms[i] = replace(
                arm, results=beside(first, arm.results, {n: o[i].results for n, (o, _) in others.items()})
            )
        together = {name: other for name, (_, other) in others.items()}
        results = beside(first, results, together) if plan.arms else arms[0].results
    ended = [data[0].stopped] if names and data[0].stopped_after else []
    results = replace(results, notes=(*ended, *services.repairs.since(n_repairs), *results.notes))
    return replace(_report(plan, data, results, tuple(arms) if plan.arms else ()), stopped_after=data[0].stopped_after)


def _read_with(plan: StudyPlan, encoder: str) -> StudyPlan:
    """The same plan, read by another encoder."""
    settings = replace(plan.settings, encoder=encoder, further_encoders=())
    return replace(plan, settings=settings, arms=tuple(_read_with(arm, encoder) for arm in plan.arms))


def _read_arms(
    plan: StudyPlan, data: Sequence[StudyData]
) -> Generator[Progress, None, tuple[list[ArmReport], Results]]:
    """What is found in each arm, and in their comparison; of one arm, the same twice."""
    services, arms = data[0].services, list[ArmReport]()
    for i, arm in enumerate(plan.each):
        name = plan.settings.arms[i].name if plan.arms else ""
        if arm.settings.images and data[i].frame.empty:
            raise InvalidInput(" ".join(["no picture can be scored.", *data[i].notes]))
        steps = arm.program.measure(arm.design, arm.settings, data[i])
        results = yield from mapped(steps, partial(_of_arm, name)) if name else steps
        data[i].is_measured = True
        results = results if data[i].fixed_n else as_watched(results)
        drawn = [*plan_notes(arm, services), *while_drawing(data[i].images_by_id.values())]
        tables = (*results.tables, *rewritten_prompts(data[i].drawn_pictures))
        results = replace(results, tables=tables, notes=(*data[i].notes, *drawn, *results.notes))
        n_planned, n_images, n_blocked = data[i].n_planned, len(data[i].frame), data[i].n_blocked
        arms.append(
            ArmReport(
                name=name, settings=arm.settings, results=results, warning=arm.warning,
                n_planned=n_planned, n_images=n_images, n_blocked=n_blocked,
            )
        )  # fmt: skip
    arms = _with_refusals(arms, data)
    results = arms[0].results
    if plan.arms:
        yield Progress(message="comparing the arms")
        results = compare_arms(plan.design, plan.settings, plan.program, arms)
        results = results if stop_rule(plan.settings) is None else as_watched(results)
    return arms, results


def _fetch_readers(plan: StudyPlan, services: StudyServices) -> Iterator[Progress]:
    """Have every reader on this machine before a picture is drawn that nobody could read."""
    sources = {reader: arm.settings.model for arm in plan.each for reader in arm.program.readers(arm.settings)}
    for reader, source in sources.items():
        facts = services.reader_facts(reader.role, reader.name)
        if facts.download_gb:
            yield Progress(message=f"fetching {facts.name} ({facts.download_gb:g} GB), which will read the pictures")
        fetch_reader(reader, services, source)


def _with_refusals(arms: Sequence[ArmReport], data: Sequence[StudyData]) -> list[ArmReport]:
    """How often each arm was refused, where one of them is of a hosted model or has a picture that was blanked."""
    if not any(one.n_blocked or _is_hosted(one.settings) for one in data):
        return list(arms)
    parts = [
        refusals(one.drawn_pictures, one.settings.confidence, fixed_n=one.fixed_n)
        if one.n_blocked or not one.settings.images
        else Results()
        for one in data
    ]
    return [replace(arm, results=_joined(arm.results, part)) for arm, part in zip(arms, parts, strict=True)]


def _joined(first: Results, more: Results) -> Results:
    findings, tables = (*first.findings, *more.findings), (*first.tables, *more.tables)
    return replace(first, findings=findings, tables=tables)


def _is_hosted(settings: StudySettings) -> bool:
    return not settings.images and hosted_name(settings.model) is not None


def _of_arm(name: str, step: Progress) -> Progress:
    return replace(step, message=f"{name}: {step.message}")


def _report(plan: StudyPlan, drawn: Sequence[StudyData], results: Results, arms: tuple[ArmReport, ...]) -> StudyReport:
    services, words, rule = drawn[0].services, set(), stop_rule(plan.settings)
    for one in plan.each:
        prompts = {treated(shot.prompt, treatment(one.settings)) for shot in one.shots if not one.settings.images}
        words |= {word for prompt in prompts for word in services.unknown_words(one.settings.model, prompt)}
    readers = plan.program.readers(plan.settings)
    encoder = next((reader.name for reader in readers if reader.role == "encoder"), "")
    versions = {"encoder": services.encoder(encoder).name} if encoder else {}
    if plan.settings.judge:
        versions["judge"] = services.judge(plan.settings.judge).name
    read_by = tuple(services.reader_facts(reader.role, reader.name) for reader in dict.fromkeys(readers))
    is_known = plan.program.judged == "attributes" and all(map(services.pictures_world, _models_of(plan)))
    of_world = {
        facts: is_known if facts.role == "judge" else facts.role == "encoder" and bool(facts.world) and not plan.warning
        for facts in read_by
    }
    notes = [reader_note(facts, errors_known=errors_known) for facts, errors_known in of_world.items()]
    frames = [data.frame for data in drawn]
    if arms:
        frames = [frame.assign(arm=arm.name) for frame, arm in zip(frames, arms, strict=True)]
    return StudyReport(
        run_id=plan.manifest.id,
        design=plan.design,
        settings=plan.settings,
        results=replace(
            results,
            notes=(*results.notes, *notes),
            tables=(*results.tables, *protocol_tables(plan, drawn), settings_table(plan.design, plan.settings)),
        ),
        n_planned=sum(data.n_planned for data in drawn),
        n_images=sum(map(len, frames)),
        n_blocked=sum(data.n_blocked for data in drawn),
        warning=plan.warning,
        unknown_words=tuple(sorted(words)),
        versions={**plan.manifest.versions, **versions},
        pictures=pd.concat(frames, ignore_index=True) if arms else frames[0],
        stored={key: image for data in drawn for key, image in data.images_by_id.items()},
        arms=arms,
        stopped=any(data.stopped for data in drawn),
        stop_rule=rule.words if rule and any(data.n_enough is not None for data in drawn) else "",
        read_by=read_by,
        created=time.time(),
    )


def _models_of(plan: StudyPlan) -> set[str]:
    return {one.settings.model for one in plan.each}


def plan_notes(plan: StudyPlan, services: StudyServices) -> list[str]:
    """What is known before one arm is drawn: settings and words without effect, prompts not read to their end."""
    if plan.settings.images:
        return []
    ignored = plan.rows.ignored if isinstance(plan.rows, RowMaker) else ()
    rows = plan.manifest.rows
    return [
        *rewriting_note(plan.settings), *ignored, *words_without_effect(rows), *before_drawing(services, rows)
    ]  # fmt: skip


def _on_record(
    steps: Generator[Progress, None, T], plan: StudyPlan, services: StudyServices
) -> Generator[Progress, None, T]:
    """Follow ``steps`` to what they return; the manifest says all the while what became of them."""
    services.manifests.save(plan.manifest)
    saved = time.monotonic()
    status: Status = "failed"

    def keep_fresh(step: Progress) -> Progress:
        nonlocal saved
        if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
            services.manifests.save(plan.manifest)
            saved = time.monotonic()
        return step

    try:
        result = yield from mapped(steps, keep_fresh)
        status = "finished"
        return result
    except (Cancelled, GeneratorExit):  # stopped, or the reader went away
        status = "cancelled"
        raise
    finally:
        with suppress(StorageError):  # must not hide the error that a full disk caused
            services.manifests.save(replace(plan.manifest, status=status))


def complete(steps: Generator[Any, None, T]) -> T:
    """Run to the end without showing the way; returns the report."""
    results: list[T] = []
    for _ in followed(steps, results):
        pass
    return results[0]


def followed(steps: Generator[S, None, T], results: list[T]) -> Generator[S, None, None]:
    """The steps of a run; its report (or whatever it returns) is put into ``results`` at the end."""
    results.append((yield from steps))
