"""Runs a study from settings to a saved report: draws each arm, measures it, compares the arms.

A stop rule draws as many pictures of every arm; a run that is stopped measures the finished pictures.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pandas as pd

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.report.arm_comparison import compare_arms
from bias_core.report.blocked_pictures import may_refuse, measure_blocked
from bias_core.report.claims import with_claims, without_claims, without_fixed_n
from bias_core.report.corrected import corrected
from bias_core.report.picture_facts import list_drawing_notes, rewritten_prompts
from bias_core.report.saved import keep_report
from bias_core.report.stop_rules import stop_rule
from bias_core.run.image_rows import treated, treatment
from bias_core.run.limits import TimeLimit
from bias_core.run.plan import lay_out, list_own_files, read_files, settle
from bias_core.run.reproduction import protocol_tables, settings_table
from bias_core.run.study_run import Run
from bias_core.store.manifests import STALE_SECONDS, Status
from bias_core.study.classifiers import fetch_reader, reader_note, with_other_readers
from bias_core.study.judge_answers import judge_tables
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
    request: Run, services: StudyServices, *, cancelled: Callable[[], bool] = lambda: False, session: str = ""
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
        for name in dict.fromkeys(arm.settings.model for arm in request.each if not arm.settings.images):
            yield from read_files(name, services, limit)
        laid_out = lay_out(request, services, session=session, cancelled=limit)
        laid_out.set_stop_signal(limit)
        report = yield from _on_record(_draw_and_measure(laid_out, limit), laid_out)
        if request.answers is not None:
            report = corrected(report, request.answers, services)
    if report.stopped:
        services.manifests.save(replace(laid_out.manifest, status="cancelled"))
    services.tidy()
    report = replace(report, seconds=time.monotonic() - started)
    keep_report(report, services)
    return report


def draw_study(run: Run, *, cancelled: Callable[[], bool] = lambda: False) -> Generator[Progress, None, None]:
    """Draw the pictures of a run that is laid out, and measure nothing; :func:`run_study` reuses them."""
    run.set_stop_signal(cancelled)
    for arm in run.each:
        arm.reads_while_drawing = run.settings.may_stop_early
    yield from _on_record(run.draw_all(), run)


def _draw_and_measure(run: Run, limit: TimeLimit) -> Generator[Progress, None, StudyReport]:
    """Draw all arms, measure each, compare them; for a stopped run, the finished part.

    Raises Cancelled if the finished part is too small to measure.
    """
    run.may_end_early = not run.arms  # arms are compared as wholes
    n_repairs = run.services.repairs.n
    if notes := dict.fromkeys(note for arm in run.each for note in arm.notes_before_drawing):
        yield Progress(message=" ".join(notes))
    yield from _fetch_readers(run)
    try:
        with limit.explained():
            yield from run.draw_all()
            return (yield from _measure(run, n_repairs))
    except Cancelled as error:
        part = run.keep_finished_part(error)
        try:
            report = yield from _measure(part, n_repairs)
        except InvalidInput as input_error:
            raise run.get_unfinished_error(error) from input_error
        return replace(report, settings=run.settings, n_planned=sum(arm.n_planned for arm in run.each))


def _measure(run: Run, n_repairs: int) -> Generator[Progress, None, StudyReport]:
    """Return the report of the drawn pictures, read by each encoder of the settings."""
    arms, results = yield from _read_arms(run)
    other_readings: dict[str, tuple[list[ArmReport], Results]] = {}
    names = () if run.stopped_after else run.settings.further_encoders
    run.may_end_early = True  # the first encoder has read every arm
    with run.allow_partial_results(lambda: f"the readings of {1 + len(other_readings)} of {1 + len(names)} encoders"):
        for name in names:
            yield Progress(message=f"classifying with {name}")
            other_readings[name] = yield from _read_arms(run.copy_for_encoder(name))
    if other_readings:
        first = run.settings.encoder
        for i, arm in enumerate(arms):
            arms[i] = replace(
                arm,
                results=with_other_readers(
                    first, arm.results, {n: o[i].results for n, (o, _) in other_readings.items()}
                ),
            )
        together = {name: encoder_results for name, (_, encoder_results) in other_readings.items()}
        results = with_other_readers(first, results, together) if run.arms else arms[0].results
    ended = [run.stopped] if names and run.stopped_after else []
    results = replace(results, notes=(*ended, *run.services.repairs.since(n_repairs), *results.notes))
    return replace(_make_report(run, results, tuple(arms) if run.arms else ()), stopped_after=run.stopped_after)


def _read_arms(run: Run) -> Generator[Progress, None, tuple[list[ArmReport], Results]]:
    """Return the results of each arm and of their comparison; with one arm, its results twice."""
    arms = list[ArmReport]()
    for arm in run.each:
        if arm.settings.images and arm.frame.empty:
            raise InvalidInput(" ".join(["no picture can be scored.", *arm.notes]))
        steps = arm.study.measure(arm.settings, arm)
        results = yield from map_progress(steps, partial(_add_arm_name, arm.name)) if arm.name else steps
        arm.state = "measuring"
        results = results if arm.fixed_n else drop_fixed_n(results)
        if arm.warning:
            results = without_claims(results)
        else:
            results = with_claims(results, arm.study.family, confidence=arm.settings.confidence)
        drawn = [*arm.notes_before_drawing, *list_drawing_notes(arm.images_by_id.values())]
        tables = (*results.tables, *rewritten_prompts(arm.drawn_pictures), *judge_tables(arm.judge_answers))
        results = replace(results, tables=tables, notes=(*arm.notes, *drawn, *results.notes))
        arms.append(
            ArmReport(
                name=arm.name, settings=arm.settings, results=results, warning=arm.warning,
                n_planned=arm.n_planned, n_images=len(arm.frame), n_blocked=arm.n_blocked,
            )
        )  # fmt: skip
    arms = _with_blocked_shares(arms, run.each)
    results = arms[0].results
    if run.arms:
        run.state = "measuring"
        yield Progress(message="comparing the arms")
        results = compare_arms(run.study, run.settings, arms)
        results = results if not run.settings.may_stop_early else drop_fixed_n(results)
        results = without_claims(results) if run.warning else results
    return arms, results


def _fetch_readers(run: Run) -> Iterator[Progress]:
    """Download every classifier before pictures are drawn, so that none is drawn in vain."""
    sources = {reader: (arm.settings.model, facts) for arm in run.each for reader, facts in arm.reader_facts.items()}
    for reader, (source, facts) in sources.items():
        if facts.download_gb:
            yield Progress(message=f"downloading {facts.name} ({facts.download_gb:g} GB), which will read the pictures")
        fetch_reader(reader, run.services, source)


def _with_blocked_shares(reports: Sequence[ArmReport], arms: Sequence[Run]) -> list[ArmReport]:
    """Add the share of blocked pictures to each arm, if an arm has a hosted model or a blocked picture."""
    if not any(arm.n_blocked or may_refuse(arm.settings) for arm in arms):
        return list(reports)
    parts = [
        measure_blocked(arm.drawn_pictures, arm.settings.confidence, fixed_n=arm.fixed_n)
        if arm.n_blocked or not arm.settings.images
        else Results()
        for arm in arms
    ]
    return [replace(arm, results=join_results(arm.results, part)) for arm, part in zip(reports, parts, strict=True)]


def _add_arm_name(name: str, step: Progress) -> Progress:
    return replace(step, message=f"{name}: {step.message}")


def _make_report(run: Run, results: Results, arms: tuple[ArmReport, ...]) -> StudyReport:
    services, words, rule = run.services, set(), stop_rule(run.settings)
    for arm in run.each:
        prompts = {treated(shot.prompt, treatment(arm.settings)) for shot in arm.shots if not arm.settings.images}
        words |= {word for prompt in prompts for word in services.unknown_words(arm.settings.model, prompt)}
    encoder = next((reader.name for reader in run.readers if reader.role == "encoder"), "")
    versions = {"encoder": services.encoder(encoder).name} if encoder else {}
    if run.settings.judge:
        versions["judge"] = services.judge(run.settings.judge).name
    read_by = tuple(services.reader_facts(reader.role, reader.name) for reader in dict.fromkeys(run.readers))
    models = {arm.settings.model for arm in run.each}
    is_known = run.study.judged == "attributes" and all(map(services.pictures_world, models))
    of_world = {
        facts: is_known if facts.role == "judge" else facts.role == "encoder" and bool(facts.world) and not run.warning
        for facts in read_by
    }
    notes = [reader_note(facts, errors_known=errors_known) for facts, errors_known in of_world.items()]
    frames = [arm.frame for arm in run.each]
    if arms:
        frames = [frame.assign(arm=arm.name) for frame, arm in zip(frames, arms, strict=True)]
    return StudyReport(
        run_id=run.manifest.id,
        design=run.design,
        settings=run.settings,
        results=replace(
            results,
            notes=(*results.notes, *notes),
            tables=(*results.tables, *protocol_tables(run), settings_table(run.design, run.settings)),
        ),
        n_planned=sum(arm.n_planned for arm in run.each),
        n_images=sum(map(len, frames)),
        n_blocked=run.n_blocked,
        warning=run.warning,
        unknown_words=tuple(sorted(words)),
        versions={**run.manifest.versions, **versions},
        pictures=pd.concat(frames, ignore_index=True) if arms else frames[0],
        stored={key: image for arm in run.each for key, image in arm.images_by_id.items()},
        files=list_own_files(run),
        arms=arms,
        stopped=any(part.stopped for part in (run, *run.arms)),
        stop_rule=rule.words if rule and any(arm.n_enough is not None for arm in run.each) else "",
        read_by=read_by,
        created=time.time(),
    )


def _on_record(steps: Generator[Progress, None, T], run: Run) -> Generator[Progress, None, T]:
    """Follow ``steps`` to their result, and keep the status of the manifest up to date."""
    services, manifest = run.services, run.manifest
    services.manifests.save(manifest)
    saved = time.monotonic()
    status: Status = "failed"

    def keep_fresh(step: Progress) -> Progress:
        nonlocal saved
        if time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
            services.manifests.save(manifest)
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
            sizes = services.images.sizes(run.image_ids)
            complete = time.time() if len(sizes) == len(run.image_ids) else 0.0
            services.manifests.save(replace(manifest, status=status, n_bytes=sum(sizes), complete=complete))


def complete(steps: Generator[Any, None, T]) -> T:
    """Run to the end without progress; return the report."""
    results: list[T] = []
    for _ in followed(steps, results):
        pass
    return results[0]


def followed(steps: Generator[S, None, T], results: list[T]) -> Generator[S, None, None]:
    """Yield the steps of a run, and append its report (or other result) to ``results`` at the end."""
    results.append((yield from steps))
