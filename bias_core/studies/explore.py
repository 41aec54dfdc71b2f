"""Explore: from a concept to pictures, and from the pictures to numbers with their uncertainty."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from bias_core.errors import Cancelled, Interrupted, StorageError
from bias_core.given_values import check_settings
from bias_core.metrics.clustering import spectral_clusters
from bias_core.studies.explore_plan import ExplorePlan, plan_explore, wants_association
from bias_core.studies.explore_scores import read_sentences, score_association, score_attributes
from bias_core.studies.explore_types import (
    AssociationScore,
    AttributeScore,
    Clusters,
    ExploredImage,
    ExploreReport,
)
from bias_core.studies.files_read import read_files
from bias_core.studies.limits import TimeLimit
from bias_core.studies.progress import Progress
from bias_core.studies.prompt_notes import before_drawing, while_drawing
from bias_core.studies.saved_reports import keep_report

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import numpy as np

    from bias_core.engine.progress import EngineProgress
    from bias_core.runs.manifests import Status
    from bias_core.studies.context import StudyServices
    from bias_core.studies.explore_types import ExploreSettings
    from bias_core.types import ImageRow, StoredImage

_SECONDS_BETWEEN_UPDATES = 0.2
_FEWEST_FOR_CLUSTERS = 4
_MOST_FOR_CLUSTERS = 3000  # the similarity graph has n x n entries


def explore(
    settings: ExploreSettings,
    services: StudyServices,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    session: str = "",
) -> Generator[Progress | ExploreReport, None, None]:
    """Draw (or find) the pictures and score them; the last thing yielded is the report.

    Parameters
    ----------
    settings : what is asked; equal settings give equal numbers wherever they are asked.
    services : models and stores.
    cancelled : asked at every denoising step; once true, what is finished is scored and reported.
    session : the visitor that the run belongs to.

    Yields
    ------
    Progress
        At most about five a second, with all pictures finished so far.
    ExploreReport
        Last, once.

    Raises
    ------
    InvalidInput, UnknownModel
        Before anything is drawn, for settings that cannot be used.
    ModelUnavailable, StorageError
        On the way; what was finished is stored, and the same settings go on from there.
    """
    started = time.monotonic()
    check_settings(settings)
    limit = TimeLimit(services.settings, cancelled)
    yield from read_files(services, settings.model, settings.encoder, limit)
    plan = plan_explore(settings, services, session, cancelled=limit)
    gallery, stopped, n_repairs = _Gallery(plan), "", services.repairs.n
    with _on_record(plan, services) as record:
        try:
            with limit.explained():
                yield from _draw(plan, services, gallery, limit)
        except Cancelled as why:
            stopped = f"{why}. The" if isinstance(why, Interrupted) else "Stopped: the"
        yield gallery.progress("reading and scoring the pictures")
        report = _report(plan, services, gallery, stopped)
        record.status = "cancelled" if stopped else "finished"
    services.tidy()
    notes = (*services.repairs.since(n_repairs), *report.notes)
    report = replace(report, seconds=time.monotonic() - started, notes=notes)
    keep_report(report, services)
    yield report


class _Record:
    """Status that the manifest gets in the end; "failed" until something better is known."""

    def __init__(self) -> None:
        self.status: Status = "failed"


@contextmanager
def _on_record(plan: ExplorePlan, services: StudyServices) -> Iterator[_Record]:
    """Keep the manifest true: running now, and in the end what became of it."""
    record = _Record()
    services.manifests.save(plan.manifest)
    try:
        yield record
    except (Cancelled, GeneratorExit):  # stopped while reading, or the reader went away
        record.status = "cancelled"
        raise
    finally:
        # A full disk must not hide the error that it caused; a stale "running" is mended by the next run.
        with suppress(StorageError):
            services.manifests.save(replace(plan.manifest, status=record.status))


class _Gallery:
    """Finished pictures in the order of the manifest, numbered from 1 within their group."""

    def __init__(self, plan: ExplorePlan) -> None:
        self.plan = plan
        self._places: dict[str, list[tuple[int, ImageRow]]] = {}  # by id: two groups may share a picture
        self._finished: dict[tuple[str, int], tuple[ExploredImage, StoredImage]] = {}
        self._last: EngineProgress | None = None
        counts: Counter[str] = Counter()
        for row in plan.rows:
            counts[row.group] += 1
            self._places.setdefault(row.id, []).append((counts[row.group], row))

    def add(self, event: EngineProgress) -> None:
        """Take up what the engine finished."""
        self._last = event
        for stored in event.images:
            image_id = stored.path.stem
            for number, row in self._places[image_id]:
                explored = ExploredImage(
                    number=number,
                    id=image_id,
                    path=stored.path,
                    row=row,
                    blocked=stored.blocked,
                    reused=event.reused,
                )
                self._finished[row.group, number] = explored, stored

    def explored(self, *groups: str) -> tuple[ExploredImage, ...]:
        """The finished pictures of these groups."""
        return tuple(explored for explored, _ in self._of(groups))

    def scored_numbers(self) -> tuple[int, ...]:
        """Numbers of the concept's pictures that can be scored, in the order of :meth:`scorable`."""
        return tuple(image.number for image, _ in self._of(("concept",)) if not image.blocked)

    def scorable(self, group: str) -> list[StoredImage]:
        """The finished pictures of a group that no safety checker blanked."""
        return [stored for _, stored in self._of((group,)) if not stored.blocked]

    def stored(self) -> list[StoredImage]:
        """Every finished picture."""
        return [stored for _, stored in self._finished.values()]

    def _of(self, groups: Sequence[str]) -> Iterator[tuple[ExploredImage, StoredImage]]:
        for group in groups:
            for key in sorted(key for key in self._finished if key[0] == group):
                yield self._finished[key]

    def progress(self, message: str = "") -> Progress:
        """Where the run is, for the user."""
        last = self._last
        done, total = (last.done, last.total) if last else (0, len(self._places))
        if not message:
            message = f"{done:,} of {total:,} pictures"
            if last and last.n_steps:
                message += f", step {last.step} of {last.n_steps}"
        return Progress(
            done=done,
            total=total,
            seconds_left=last.seconds_left if last else float("nan"),
            message=message,
            images=self.explored("concept", "attribute_a", "attribute_b"),
        )


def _draw(
    plan: ExplorePlan, services: StudyServices, gallery: _Gallery, cancelled: Callable[[], bool]
) -> Iterator[Progress]:
    """Draw what is missing; embed each finished batch while the next is drawn."""
    last_update = 0.0
    for event in services.draw(plan.rows, cancelled=cancelled):
        gallery.add(event)
        if time.monotonic() - last_update >= _SECONDS_BETWEEN_UPDATES:
            last_update = time.monotonic()
            yield gallery.progress()
        if not event.reused:
            _embed(plan, services, [image for image in event.images if not image.blocked])


def _embed(plan: ExplorePlan, services: StudyServices, images: Sequence[StoredImage]) -> np.ndarray:
    encoder = services.encoder(plan.settings.encoder)
    return services.embeddings.images(encoder, images, lock=services.reading(encoder))


def _report(plan: ExplorePlan, services: StudyServices, gallery: _Gallery, stopped: str) -> ExploreReport:
    scorable = gallery.scorable("concept")
    attributes: tuple[AttributeScore, ...] = ()
    association, clusters = None, None
    if scorable:
        embeddings = _embed(plan, services, scorable)
        attributes = _score(plan, services, scorable, embeddings)
        association = _associate(plan, services, gallery, embeddings)
        clusters = _cluster(plan, gallery, embeddings)
    return ExploreReport(
        run_id=plan.manifest.id,
        settings=plan.settings,
        prompt=plan.prompt,
        images=gallery.explored("concept"),
        attribute_images=gallery.explored("attribute_a", "attribute_b"),
        scored_numbers=gallery.scored_numbers(),
        attributes=attributes,
        association=association,
        clusters=clusters,
        warning=plan.warning,
        unknown_words=services.unknown_words(plan.settings.model, plan.prompt),
        notes=(
            *_notes(plan, gallery, association, stopped),
            *before_drawing(services, plan.rows),
            *while_drawing(gallery.stored()),
        ),
        versions=dict(plan.manifest.versions) | {"encoder": services.encoder(plan.settings.encoder).name},
    )


def _score(
    plan: ExplorePlan, services: StudyServices, images: Sequence[StoredImage], embeddings: np.ndarray
) -> tuple[AttributeScore, ...]:
    settings = plan.settings
    sentences = read_sentences(
        services,
        settings.attributes,
        encoder=settings.encoder,
        model=settings.model,
        truths=[image.truth for image in images],
    )
    return score_attributes(
        settings.attributes, embeddings, sentences, confidence=settings.confidence, seed=settings.seed
    )


def _associate(
    plan: ExplorePlan, services: StudyServices, gallery: _Gallery, embeddings: np.ndarray
) -> AssociationScore | None:
    sides = [gallery.scorable("attribute_a"), gallery.scorable("attribute_b")]
    if not all(sides):
        return None
    rows_a, rows_b = (_embed(plan, services, side) for side in sides)
    return score_association(plan.settings, embeddings, rows_a, rows_b)


def _cluster(plan: ExplorePlan, gallery: _Gallery, embeddings: np.ndarray) -> Clusters | None:
    n = len(embeddings)
    if not _FEWEST_FOR_CLUSTERS <= n <= _MOST_FOR_CLUSTERS:
        return None
    wanted = plan.settings.n_clusters
    found = spectral_clusters(
        embeddings, n_clusters=None if wanted is None else min(wanted, n), seed=plan.settings.seed
    )
    return Clusters(**vars(found), numbers=gallery.scored_numbers())


def _notes(
    plan: ExplorePlan, gallery: _Gallery, association: AssociationScore | None, stopped: str
) -> Iterator[str]:
    drawn = gallery.explored("concept")
    n_blocked = sum(image.blocked for image in drawn)
    if stopped:
        n_asked = plan.settings.n_images
        yield f"{stopped} scores are of the {len(drawn)} of {n_asked} pictures that were finished."
    if n_blocked:
        yield f"The model's safety checker blanked {n_blocked} of {len(drawn)} pictures; they are not scored."
    if len(drawn) == n_blocked:
        yield "There is no picture to score."
    if len(drawn) > _MOST_FOR_CLUSTERS:
        yield f"No clusters: they are made for at most {_MOST_FOR_CLUSTERS:,} pictures."
    if wants_association(plan.settings) and association is None:
        yield "No association: the pictures guided to the two attributes were not finished."
    if plan.model.family == "renderer" and plan.settings.negative_prompt:
        yield "The renderer has no negative prompt; it was ignored."
    if plan.model.embedded and (plan.settings.guidance_scale or 0) > 1:
        yield "Guidance above 1 sharpens the majority beyond the planted rates."
