"""Compare: the same concept and seeds drawn in two to four ways, and what differs, with its uncertainty."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from bias_core.errors import Cancelled, StorageError
from bias_core.given_values import check_settings
from bias_core.runs.manifests import Manifest
from bias_core.studies.compare_plan import arm_names, compare_id, plan_compare, with_conditions
from bias_core.studies.compare_report import compare_report
from bias_core.studies.compare_scores import compare_arms
from bias_core.studies.compare_types import DrawnArm, Pictures
from bias_core.studies.explore import explore
from bias_core.studies.explore_types import ExploreReport
from bias_core.studies.limits import TimeLimit
from bias_core.studies.progress import Progress
from bias_core.studies.saved_reports import keep_report

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from bias_core.runs.manifests import Status
    from bias_core.studies.compare_types import CompareSettings
    from bias_core.studies.context import StudyServices
    from bias_core.studies.explore_plan import ExplorePlan
    from bias_core.studies.explore_types import ExploredImage
    from bias_core.studies.study_types import StudyReport

KIND = "compare"


def compare(
    settings: CompareSettings,
    services: StudyServices,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress, None, StudyReport]:
    """Draw every arm (or find its pictures), then compare them seed by seed; returns the report.

    Equal settings and weights give equal numbers (but for ``seconds``).

    Raises
    ------
    InvalidInput, UnknownModel
        Before anything is drawn, for settings that cannot be used.
    Cancelled
        ``cancelled()`` turned true; finished pictures are kept, and the same call goes on from there.
    ModelUnavailable, StorageError
        On the way, likewise.
    """
    started = time.monotonic()
    inside = f"{session}/{KIND}"  # the arms' own runs are not on the visitor's list
    check_settings(settings)
    limit = TimeLimit(services.settings, cancelled)
    settings = with_conditions(settings, services)
    plans = plan_compare(settings, services, inside, cancelled=limit)
    manifest = _manifest(settings, plans, session)
    services.manifests.save(manifest)
    status: Status = "failed"
    try:
        with limit.explained():
            reports = yield from _draw(plans, services, limit, inside)
        yield _progress(plans, len(plans), "comparing seed by seed")
        arms = [
            _read(name, report, services)
            for name, report in zip(arm_names(settings.arms), reports, strict=True)
        ]
        report = compare_report(settings, arms, compare_arms(settings, arms, services))
        status = "finished"
    except (Cancelled, GeneratorExit):  # stopped, or the reader went away
        status = "cancelled"
        raise
    finally:
        with suppress(StorageError):  # must not hide the error that a full disk caused
            services.manifests.save(replace(manifest, status=status))
    seconds = time.monotonic() - started
    warning = " ".join(dict.fromkeys(filter(None, (plan.warning for plan in plans))))
    report = replace(report, run_id=manifest.id, warning=warning, versions=manifest.versions, seconds=seconds)
    keep_report(report, services)
    return report


def _draw(
    plans: Sequence[ExplorePlan], services: StudyServices, cancelled: Callable[[], bool], session: str
) -> Generator[Progress, None, list[ExploreReport]]:
    reports = []
    for i, plan in enumerate(plans):
        for step in explore(plan.settings, services, cancelled=cancelled, session=session):
            if isinstance(step, ExploreReport):
                reports.append(step)
            else:
                yield _progress(plans, i, f"arm {i + 1} of {len(plans)}: {step.message}", step)
        if cancelled():
            raise Cancelled("stopped; finished pictures are kept, and the same settings go on from there")
    return reports


def _progress(
    plans: Sequence[ExplorePlan], n_finished: int, message: str, step: Progress | None = None
) -> Progress:
    sizes = [len({row.id for row in plan.rows}) for plan in plans]
    return Progress(
        done=sum(sizes[:n_finished]) + (step.done if step else 0),
        total=sum(sizes),
        seconds_left=step.seconds_left if step else float("nan"),
        message=message,
    )


def _read(name: str, report: ExploreReport, services: StudyServices) -> DrawnArm:
    sides = {
        group: [image for image in report.attribute_images if image.row.group == group]
        for group in ("attribute_a", "attribute_b")
    }
    encoder = report.settings.encoder
    return DrawnArm(
        name=name,
        report=report,
        pictures=_pictures(report.images, encoder, services),
        side_a=_pictures(sides["attribute_a"], encoder, services) if sides["attribute_a"] else None,
        side_b=_pictures(sides["attribute_b"], encoder, services) if sides["attribute_b"] else None,
    )


def _pictures(images: Sequence[ExploredImage], encoder: str, services: StudyServices) -> Pictures:
    stored = tuple(services.images.get(image.row) for image in images if not image.blocked)
    reader = services.encoder(encoder)
    rows = services.embeddings.images(reader, stored, lock=services.reading(reader))
    return Pictures(seeds=np.array([s.row.seed for s in stored], dtype=int), stored=stored, embeddings=rows)


def _manifest(settings: CompareSettings, plans: Sequence[ExplorePlan], session: str) -> Manifest:
    return Manifest(
        id=compare_id(settings, session),
        study=KIND,
        session=session,
        title=f"{settings.concept}: {' against '.join(arm_names(settings.arms))}",
        settings=asdict(settings),
        rows=tuple(row for plan in plans for row in plan.rows),
        versions=plans[0].manifest.versions,
    )
