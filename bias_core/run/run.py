"""Runs a study from settings to a saved report: draws each arm, measures it, compares the arms.

A stop rule draws as many pictures of every arm; a run that is stopped measures the finished pictures.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pandas as pd

from bias_core.errors import Cancelled, Interrupted, InvalidInput, StorageError
from bias_core.models.catalogue import hosted_name
from bias_core.report.arm_comparison import compare_arms
from bias_core.report.claims import with_claims, without_fixed_n
from bias_core.report.corrected import corrected
from bias_core.report.saved import keep_report
from bias_core.report.stop_rules import ShareValues, stop_rule
from bias_core.run.blanked_pictures import refusals, rewritten_prompts, while_drawing
from bias_core.run.image_rows import treated, treatment
from bias_core.run.limits import TimeLimit
from bias_core.run.plan import lay_out, list_own_files, plan_notes, read_files, settle
from bias_core.run.reproduction import protocol_tables, settings_table
from bias_core.run.study_data import Steps, StudyData, read_ahead
from bias_core.store.manifests import STALE_SECONDS, Status
from bias_core.study.classifiers import fetch_reader, reader_note, with_other_readers
from bias_core.study.judge_answers import judge_tables
from bias_core.study.study import Settled, Study, StudyPlan
from bias_core.study.types import (
    ArmReport,
    Design,
    Progress,
    Results,
    StudyReport,
    StudySettings,
    join_results,
    map_progress,
)
from bias_core.study_services import StudyServices


def make_study_data(study: Study, settings: StudySettings, *args: Any, **kwargs: Any) -> StudyData:
    """Return the empty data of a run of a study; the further arguments are those of :class:`StudyData`."""

    def watch(data: StudyData, frame: pd.DataFrame) -> Steps[list[ShareValues]]:
        return study.watch(settings, data, frame)

    ahead = partial(read_ahead, study.readers(settings)) if study.reads_ahead else None
    return StudyData(settings, *args, ahead=ahead, watch=watch if study.watches_shares else None, **kwargs)


def draw_arms(plan: StudyPlan, arms: Sequence[StudyData]) -> Generator[Progress, None, None]:
    """Draw the arms one after the other, with one progress over all of them."""
    if not plan.arms:
        yield from arms[0].draw(plan.shots)
        return
    yield from _draw_in_sequence(plan, arms, dict.fromkeys(range(len(arms))))
    if stop_rule(plan.settings) is not None:
        yield from _draw_to_same_size(plan, arms)
    for arm, data in zip(plan.arms, arms, strict=True):
        data.add_finished(arm.shots)


def _draw_to_same_size(plan: StudyPlan, arms: Sequence[StudyData]) -> Generator[Progress, None, None]:
    """Draw the arms that ended early as far as the longest, so that they share their seeds."""
    sizes = [len({row.id for row in arm.manifest.rows}) for arm in plan.arms]
    largest_n = max(size if data.n_enough is None else data.n_enough for size, data in zip(sizes, arms, strict=True))
    behind = {i: largest_n for i, data in enumerate(arms) if data.n_enough is not None and data.n_enough < largest_n}
    yield from _draw_in_sequence(plan, arms, behind)
    for size, data in zip(sizes, arms, strict=True):
        data.n_enough = largest_n if largest_n < size else None


def _draw_in_sequence(
    plan: StudyPlan, arms: Sequence[StudyData], n_first: Mapping[int, int | None]
) -> Generator[Progress, None, None]:
    """Draw the arms at these places, each so many pictures; None: until its rule ends it, or all."""
    sizes = [len({row.id for row in arm.manifest.rows}) for arm in plan.arms]
    for i, n_pictures in n_first.items():
        before, n_after = sum(sizes[:i]), sum(sizes[i + 1 :])
        for step in arms[i].fetch(plan.arms[i].shots, n_pictures):
            missing = step.total - step.done
            yield replace(
                step,
                done=before + step.done,
                total=before + step.total + n_after,
                seconds_left=step.seconds_left * (1 + n_after / missing) if missing else math.nan,
                message=f"{plan.settings.arms[i].name}: {step.message}",
            )


def partial_run_after_drawing(
    plan: StudyPlan, data: Sequence[StudyData], error: Cancelled
) -> tuple[StudyPlan, list[StudyData]]:
    """Return the finished part of a stopped run, without arms that have no pictures; else raise Cancelled again.

    Arms are measured only if a stop rule could have ended them too: then no number needs a fixed number of pictures.
    """
    _check_partial_results_allowed(plan, data, error)
    for arm, pictures in zip(plan.each, data, strict=True):
        pictures.keep_finished_pictures(arm.shots, error)
    return _drop_empty_arms(plan, data, error)


def partial_run_after_reading(
    plan: StudyPlan, data: Sequence[StudyData], error: Cancelled
) -> tuple[StudyPlan, list[StudyData]]:
    """Return the part with classified pictures of a run that was stopped after drawing; else raise Cancelled again.

    Arms after the one being measured are left out.
    """
    _check_partial_results_allowed(plan, data, error)
    at = next(i for i, pictures in enumerate(data) if not pictures.is_measured)
    unread = [
        error.unread if i == at else pictures.images_by_id.keys() if i > at else () for i, pictures in enumerate(data)
    ]
    n = sum(len(pictures.drawn) for pictures in data)
    n_unread = sum(int(pictures.drawn["image_id"].isin(ids).sum()) for pictures, ids in zip(data, unread, strict=True))
    after = f"{n - n_unread:,} of {n:,} pictures were read" if n_unread else ""
    for pictures, ids in zip(data, unread, strict=True):
        pictures.use_read_so_far(ids, after)
    return _drop_empty_arms(plan, data, error)


def _check_partial_results_allowed(plan: StudyPlan, data: Sequence[StudyData], error: Cancelled) -> None:
    """Raise Cancelled again if the numbers of this study need all of its pictures."""
    laid_out = plan.study.arms(plan.settings)
    if plan.study.fewest_when_stopped is None or (plan.arms and (not plan.study.watches_shares or laid_out)):
        raise not_enough_pictures(plan, data, error) from error


def _drop_empty_arms(plan: StudyPlan, data: Sequence[StudyData], error: Cancelled) -> tuple[StudyPlan, list[StudyData]]:
    min_pictures = max(plan.study.fewest_when_stopped or 0, bool(data[0].stopped_after))
    if not plan.arms:
        if len(data[0].frame) < min_pictures:
            raise not_enough_pictures(plan, data, error) from error
        return plan, list(data)
    ready = [i for i, pictures in enumerate(data) if len(pictures.frame) >= max(min_pictures, 1)]
    names = [arm.name for arm in plan.settings.arms]
    if len(ready) < 2:
        only = " and ".join(names[i] for i in ready) or "none"
        raise type(error)(
            f"{error}. A comparison needs pictures in two arms, and only {only} has any: run it again to continue, or "
            "run one arm alone"
        ) from error
    if empty_arms := [name for i, name in enumerate(names) if i not in ready]:
        done = "picture that was read" if data[0].stopped_after else "finished picture"
        data[ready[0]].notes.append(f"Arms without a {done} are left out: {', '.join(empty_arms)}.")
    settings = replace(plan.settings, arms=tuple(plan.settings.arms[i] for i in ready), stop_when_clear=True)
    return replace(plan, arms=tuple(plan.arms[i] for i in ready), settings=settings), [data[i] for i in ready]


def not_enough_pictures(plan: StudyPlan, data: Sequence[StudyData], error: Cancelled) -> Cancelled:
    """Return the error for a run with too few finished pictures: how many there are, and how to continue."""
    if isinstance(error, Interrupted):  # the error already says why
        return error
    if data[0].stopped_after:
        error = data[0].not_enough_pictures()
    ids = {row.id for row in plan.manifest.rows}
    n = data[0].services.images.n_present(ids)
    if n == len(ids):
        return Cancelled(f"{error}. All {n:,} pictures are finished: run it again with the same settings to use them")
    return Cancelled(
        f"{error}. {n:,} of {len(ids):,} pictures are finished, too few for a report of this study: run it again with "
        "the same settings to continue, or with a smaller share"
    )


def drop_fixed_n(results: Results) -> Results:
    """Return results whose number of pictures depended on what they show; fixed-n intervals get a note."""
    findings = (replace(finding, estimate=without_fixed_n(finding.estimate)) for finding in results.findings)
    return replace(results, findings=tuple(findings))


S = TypeVar("S")
T = TypeVar("T")

# A run at work protects its pictures from eviction as long as its manifest is fresh.
_SECONDS_BETWEEN_SAVES = STALE_SECONDS / 24


def run_study(
    design: Design, settings: StudySettings, services: StudyServices, **kwargs: Any
) -> Generator[Progress, None, StudyReport]:
    """Complete the request (:func:`bias_core.run.plan.settle`), then :func:`run` it."""
    return run(settle(design, settings), services, **kwargs)


def run(
    request: Settled, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False, session: str = ""
) -> Generator[Progress, None, StudyReport]:
    """Draw and measure; the generator returns the report.

    The same settings and weights give the same report (but for ``seconds``).

    Raises InvalidInput and UnknownModel before anything is drawn, for settings that cannot be used. Raises Cancelled
    once ``cancelled()`` is true, or the time of a run is over (Interrupted), and ModelUnavailable or StorageError on
    the way: finished work is kept, and the same call continues from there.
    """
    started = time.monotonic()
    limit = TimeLimit(services.settings, cancelled)
    with limit.explained():
        for name in dict.fromkeys(arm.settings.model for arm in request.arms if not arm.settings.images):
            yield from read_files(name, services, limit)
        plan = lay_out(request, services, session=session, cancelled=limit)
        report = yield from _on_record(_measure(plan, services, limit), plan, services)
        if request.answers is not None:
            report = corrected(report, request.answers, services)
    if report.stopped:
        services.manifests.save(replace(plan.manifest, status="cancelled"))
    services.tidy()
    report = replace(report, seconds=time.monotonic() - started)
    keep_report(report, services)
    return report


def draw_study(
    plan: StudyPlan, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False
) -> Generator[Progress, None, list[StudyData]]:
    """Draw a plan's pictures, by arm, and measure nothing; :func:`run_study` reuses them and raises the same errors."""
    watched = stop_rule(plan.settings) is not None
    arms = [
        make_study_data(arm.study, arm.settings, services, arm.rows, cancelled=cancelled)
        if watched
        else StudyData(arm.settings, services, arm.rows, cancelled=cancelled)
        for arm in plan.each
    ]
    yield from _on_record(draw_arms(plan, arms), plan, services)
    return arms


def _measure(plan: StudyPlan, services: StudyServices, limit: TimeLimit) -> Generator[Progress, None, StudyReport]:
    """Draw all arms, measure each, compare them; for a stopped run, the finished part.

    Raises Cancelled if the finished part is too small to measure.
    """
    data = [make_study_data(arm.study, arm.settings, services, arm.rows, cancelled=limit) for arm in plan.each]
    data[0].may_end_early = not plan.arms  # arms are compared as wholes
    n_repairs = services.repairs.n
    if notes := dict.fromkeys(note for arm in plan.each for note in plan_notes(arm, services)):
        yield Progress(message=" ".join(notes))
    yield from _fetch_readers(plan, services)
    get_partial_run = partial_run_after_drawing
    try:
        with limit.explained():
            yield from draw_arms(plan, data)
            get_partial_run = partial_run_after_reading
            return (yield from _measured(plan, data, services, n_repairs))
    except Cancelled as error:
        partial_plan, partial_data = get_partial_run(plan, data, error)
        try:
            report = yield from _measured(partial_plan, partial_data, services, n_repairs)
        except InvalidInput as input_error:
            raise not_enough_pictures(plan, data, error) from input_error
        return replace(report, settings=plan.settings, n_planned=sum(pictures.n_planned for pictures in data))


def _measured(
    plan: StudyPlan, data: Sequence[StudyData], services: StudyServices, n_repairs: int
) -> Generator[Progress, None, StudyReport]:
    """Return the report of the drawn pictures, read by each encoder of the settings."""
    arms, results = yield from _read_arms(plan, data)
    other_readings: dict[str, tuple[list[ArmReport], Results]] = {}
    names = () if data[0].stopped_after else plan.settings.further_encoders
    data[0].may_end_early = True  # the first encoder has read every arm
    with data[0].allow_partial_results(
        lambda: f"the readings of {1 + len(other_readings)} of {1 + len(names)} encoders"
    ):
        for name in names:
            yield Progress(message=f"classifying with {name}")
            other_readings[name] = yield from _read_arms(
                _replace_encoder(plan, name), [pictures.copy_for_encoder(name) for pictures in data]
            )
    if other_readings:
        first = plan.settings.encoder
        for i, arm in enumerate(arms):
            arms[i] = replace(
                arm,
                results=with_other_readers(
                    first, arm.results, {n: o[i].results for n, (o, _) in other_readings.items()}
                ),
            )
        together = {name: encoder_results for name, (_, encoder_results) in other_readings.items()}
        results = with_other_readers(first, results, together) if plan.arms else arms[0].results
    ended = [data[0].stopped] if names and data[0].stopped_after else []
    results = replace(results, notes=(*ended, *services.repairs.since(n_repairs), *results.notes))
    return replace(_report(plan, data, results, tuple(arms) if plan.arms else ()), stopped_after=data[0].stopped_after)


def _replace_encoder(plan: StudyPlan, encoder: str) -> StudyPlan:
    settings = replace(plan.settings, encoder=encoder, further_encoders=())
    return replace(plan, settings=settings, arms=tuple(_replace_encoder(arm, encoder) for arm in plan.arms))


def _read_arms(
    plan: StudyPlan, data: Sequence[StudyData]
) -> Generator[Progress, None, tuple[list[ArmReport], Results]]:
    """Return the results of each arm and of their comparison; with one arm, its results twice."""
    services, arms = data[0].services, list[ArmReport]()
    for i, arm in enumerate(plan.each):
        name = plan.settings.arms[i].name if plan.arms else ""
        if arm.settings.images and data[i].frame.empty:
            raise InvalidInput(" ".join(["no picture can be scored.", *data[i].notes]))
        steps = arm.study.measure(arm.settings, data[i])
        results = yield from map_progress(steps, partial(_add_arm_name, name)) if name else steps
        data[i].is_measured = True
        results = results if data[i].fixed_n else drop_fixed_n(results)
        results = with_claims(results, arm.study.family, confidence=arm.settings.confidence)
        drawn = [*plan_notes(arm, services), *while_drawing(data[i].images_by_id.values())]
        tables = (*results.tables, *rewritten_prompts(data[i].drawn_pictures), *judge_tables(data[i].judge_answers))
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
        results = compare_arms(plan.study, plan.settings, arms)
        results = results if stop_rule(plan.settings) is None else drop_fixed_n(results)
    return arms, results


def _fetch_readers(plan: StudyPlan, services: StudyServices) -> Iterator[Progress]:
    """Download every classifier before pictures are drawn, so that none is drawn in vain."""
    sources = {reader: arm.settings.model for arm in plan.each for reader in arm.study.readers(arm.settings)}
    for reader, source in sources.items():
        facts = services.reader_facts(reader.role, reader.name)
        if facts.download_gb:
            yield Progress(message=f"downloading {facts.name} ({facts.download_gb:g} GB), which will read the pictures")
        fetch_reader(reader, services, source)


def _with_refusals(arms: Sequence[ArmReport], data: Sequence[StudyData]) -> list[ArmReport]:
    """Add the share of refusals to each arm, if an arm has a hosted model or a blanked picture."""
    if not any(pictures.n_blocked or _is_hosted(pictures.settings) for pictures in data):
        return list(arms)
    parts = [
        refusals(pictures.drawn_pictures, pictures.settings.confidence, fixed_n=pictures.fixed_n)
        if pictures.n_blocked or not pictures.settings.images
        else Results()
        for pictures in data
    ]
    return [replace(arm, results=join_results(arm.results, part)) for arm, part in zip(arms, parts, strict=True)]


def _is_hosted(settings: StudySettings) -> bool:
    return not settings.images and hosted_name(settings.model) is not None


def _add_arm_name(name: str, step: Progress) -> Progress:
    return replace(step, message=f"{name}: {step.message}")


def _report(plan: StudyPlan, drawn: Sequence[StudyData], results: Results, arms: tuple[ArmReport, ...]) -> StudyReport:
    services, words, rule = drawn[0].services, set(), stop_rule(plan.settings)
    for arm in plan.each:
        prompts = {treated(shot.prompt, treatment(arm.settings)) for shot in arm.shots if not arm.settings.images}
        words |= {word for prompt in prompts for word in services.unknown_words(arm.settings.model, prompt)}
    readers = plan.study.readers(plan.settings)
    encoder = next((reader.name for reader in readers if reader.role == "encoder"), "")
    versions = {"encoder": services.encoder(encoder).name} if encoder else {}
    if plan.settings.judge:
        versions["judge"] = services.judge(plan.settings.judge).name
    read_by = tuple(services.reader_facts(reader.role, reader.name) for reader in dict.fromkeys(readers))
    is_known = plan.study.judged == "attributes" and all(map(services.pictures_world, _get_models(plan)))
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
        files=list_own_files(plan),
        arms=arms,
        stopped=any(data.stopped for data in drawn),
        stop_rule=rule.words if rule and any(data.n_enough is not None for data in drawn) else "",
        read_by=read_by,
        created=time.time(),
    )


def _get_models(plan: StudyPlan) -> set[str]:
    return {arm.settings.model for arm in plan.each}


def _on_record(
    steps: Generator[Progress, None, T], plan: StudyPlan, services: StudyServices
) -> Generator[Progress, None, T]:
    """Follow ``steps`` to their result, and keep the status of the manifest up to date."""
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
        result = yield from map_progress(steps, keep_fresh)
        status = "finished"
        return result
    except (Cancelled, GeneratorExit):  # stopped, or the caller went away
        status = "cancelled"
        raise
    finally:
        with suppress(StorageError):  # must not hide the error that a full disk caused
            ids = {row.id for row in plan.manifest.rows}
            sizes = services.images.sizes(ids)
            complete = time.time() if len(sizes) == len(ids) else 0.0
            services.manifests.save(replace(plan.manifest, status=status, n_bytes=sum(sizes), complete=complete))


def complete(steps: Generator[Any, None, T]) -> T:
    """Run to the end without progress; return the report."""
    results: list[T] = []
    for _ in followed(steps, results):
        pass
    return results[0]


def followed(steps: Generator[S, None, T], results: list[T]) -> Generator[S, None, None]:
    """Yield the steps of a run, and append its report (or other result) to ``results`` at the end."""
    results.append((yield from steps))
