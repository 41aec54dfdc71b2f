"""Draws and measures the arms of a study's plan, and puts what was found into one report."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.errors import Cancelled
from bias_core.studies.arms.results import compare_arms
from bias_core.studies.kit.data import StudyData
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.rows import treated, treatment
from bias_core.studies.kit.types import ArmReport, StudyReport
from bias_core.studies.running.prompt_limits import before_drawing, while_drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from bias_core.studies.kit.limits import TimeLimit
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import Results
    from bias_core.studies.running.plan import StudyPlan


def draw_arms(plan: StudyPlan, arms: Sequence[StudyData]) -> Generator[Progress, None, None]:
    """The pictures of every arm, one after the other, with one progress over all of them."""
    if not plan.arms:
        yield from arms[0].draw(plan.shots)
        return
    sizes = [len({row.id for row in arm.manifest.rows}) for arm in plan.arms]
    for i, (arm, data) in enumerate(zip(plan.arms, arms, strict=True)):
        before, rest = sum(sizes[:i]), sum(sizes[i + 1 :])
        for step in data.draw(arm.shots):
            missing = step.total - step.done
            yield replace(
                step,
                done=before + step.done,
                total=before + step.total + rest,
                seconds_left=step.seconds_left * (1 + rest / missing) if missing else math.nan,
                message=f"{plan.settings.arms[i].name}: {before + step.done:,} of {sum(sizes):,} pictures",
            )


def measure_one(plan: StudyPlan, services: StudyServices, limit: TimeLimit) -> Generator[Progress, None, StudyReport]:
    """Draw and measure a run of one arm; of a run that is stopped what is finished, where its kind can."""
    data = StudyData(plan.settings, services, plan.rows, cancelled=limit, ahead=plan.program.ahead)
    n_repairs = services.repairs.n
    yield from _say_notes([plan], services)
    try:
        with limit.explained():
            yield from draw_arms(plan, [data])
    except Cancelled as why:
        if not plan.program.measures_when_stopped:
            raise
        data.measure_what_is_there(plan.shots, why)
    results = yield from _measured(plan, data)
    report = _report(plan, [data], _with_notes(results, services.repairs.since(n_repairs)))
    return replace(report, stopped=bool(data.stopped))


def measure_arms(
    plan: StudyPlan, services: StudyServices, cancelled: Callable[[], bool]
) -> Generator[Progress, None, StudyReport]:
    """Draw all arms, then measure each, then compare them."""
    arms = [
        StudyData(arm.settings, services, arm.rows, cancelled=cancelled, ahead=arm.program.ahead) for arm in plan.arms
    ]
    n_repairs = services.repairs.n
    yield from _say_notes(plan.arms, services)
    yield from draw_arms(plan, arms)
    found = []
    for asked, arm, data in zip(plan.settings.arms, plan.arms, arms, strict=True):
        measuring = _measured(arm, data)
        while True:
            try:
                step = next(measuring)
            except StopIteration as end:
                results: Results = end.value
                break
            yield replace(step, message=f"{asked.name}: {step.message}")
        found.append(
            ArmReport(
                name=asked.name,
                settings=arm.settings,
                results=results,
                n_planned=data.n_planned,
                n_images=len(data.frame),
                n_blocked=data.n_blocked,
                warning=arm.warning,
            )
        )
    yield Progress(done=0, total=0, seconds_left=math.nan, message="comparing the arms")
    results = compare_arms(plan.design, plan.settings, plan.program, found)
    report = _report(plan, arms, _with_notes(results, services.repairs.since(n_repairs)))
    return replace(report, arms=tuple(found))


def _say_notes(plans: Sequence[StudyPlan], services: StudyServices) -> Iterator[Progress]:
    notes = dict.fromkeys(note for plan in plans for note in plan_notes(plan, services))
    if notes:
        yield Progress(done=0, total=0, seconds_left=math.nan, message=" ".join(notes))


def _measured(plan: StudyPlan, data: StudyData) -> Generator[Progress, None, Results]:
    """The results of one arm, whose pictures are drawn."""
    results = yield from plan.program.measure(plan.design, plan.settings, data)
    return _with_notes(results, [*data.notes, *plan_notes(plan, data.services), *while_drawing(data.known.values())])


def _with_notes(results: Results, notes: Sequence[str]) -> Results:
    return replace(results, notes=(*notes, *results.notes))


def _report(plan: StudyPlan, arms: Sequence[StudyData], results: Results) -> StudyReport:
    plans = plan.arms or (plan,)
    frames = [data.frame for data in arms]
    if plan.arms:
        named = zip(frames, plan.settings.arms, strict=True)
        frames = [frame.assign(arm=arm.name) for frame, arm in named]
    words = [_unknown_words(one, data.services) for one, data in zip(plans, arms, strict=True)]
    return StudyReport(
        run_id=plan.manifest.id,
        design=plan.design,
        settings=plan.settings,
        results=results,
        n_planned=sum(data.n_planned for data in arms),
        n_images=sum(map(len, frames)),
        n_blocked=sum(data.n_blocked for data in arms),
        warning=plan.warning,
        unknown_words=tuple(sorted(set().union(*words))),
        versions={**plan.manifest.versions, **_reader_version(plan, arms[0].services)},
        pictures=pd.concat(frames, ignore_index=True) if plan.arms else frames[0],
        stored={key: image for data in arms for key, image in data.known.items()},
    )


def _reader_version(plan: StudyPlan, services: StudyServices) -> dict[str, str]:
    """The encoder with its weights, where one read the pictures."""
    readers = plan.program.readers(plan.settings)
    name = next((reader.name for reader in readers if reader.role == "encoder"), "")
    return {"encoder": services.encoder(name).name} if name else {}


def _unknown_words(plan: StudyPlan, services: StudyServices) -> set[str]:
    if plan.settings.images:
        return set()
    prompts = {treated(shot.prompt, treatment(plan.settings)) for shot in plan.shots}
    return {word for prompt in prompts for word in services.unknown_words(plan.settings.model, prompt)}


def plan_notes(plan: StudyPlan, services: StudyServices) -> list[str]:
    """What is known before one arm is drawn: settings without effect, prompts not read to their end."""
    return [] if plan.settings.images else before_drawing(services, plan.manifest.rows)
