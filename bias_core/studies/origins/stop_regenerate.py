"""What a text draws, beside the cluster of pictures that it was found for (OASIS, Table 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bias_core.errors import InvalidInput
from bias_core.metrics.similarity import similarity_estimate
from bias_core.studies.kit.data import StudyData
from bias_core.studies.kit.kind import encoder_of
from bias_core.studies.kit.limits import check_budget
from bias_core.studies.kit.readers import check_readers
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import Shot
from bias_core.studies.origins.stop_report import closeness_of_own

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pandas as pd

    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import StudyReport
    from bias_core.types import Estimate, StoredImage

MOST_DRAWN = 64


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Some pictures and how close each is to those of a cluster: mean cosine, in [-1, 1].

    Attributes
    ----------
    pictures : the closest first.
    closeness : ``(n,)``; of a picture of the cluster, to the cluster's others.
    mean : over the pictures; its interval is for other pictures of their kind. None where there are none.
    """

    pictures: tuple[StoredImage, ...]
    closeness: np.ndarray
    mean: Estimate | None


@dataclass(frozen=True, kw_only=True)
class Regenerated:
    """A text and what it draws, beside a cluster and the concept's other pictures.

    Attributes
    ----------
    text_closeness : mean cosine of the text itself to the cluster's pictures, in [-1, 1].
    """

    cluster: str
    prompt: str
    text_closeness: float
    own: Compared
    drawn: Compared
    others: Compared


def regenerate(
    report: StudyReport,
    services: StudyServices,
    *,
    cluster: str,
    prompt: str,
    n: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Generator[Progress, None, Regenerated]:
    """Draw ``n`` pictures of a text with new seeds and compare them with a cluster of a StOP report.

    Raises
    ------
    InvalidInput
        No such cluster, an empty text, an impossible ``n``, or a report of pictures that were brought along.
    Cancelled, ModelUnavailable, StorageError
        On the way; what was drawn is kept.
    """
    inside, outside = _members(report, cluster)
    _check(report, prompt, n)
    rows = RowMaker.build(report.settings, services)
    check_readers(
        encoder_of(report.settings),
        services,
        source=report.settings.model,
        world=rows.info.world,
        force=report.settings.force,
    )
    check_budget(n, services.settings, what="drawing a text", advice="draw fewer pictures")
    data = StudyData(report.settings, services, rows, cancelled=cancelled)
    seed, confidence = report.settings.seed, report.settings.confidence
    shot = Shot(prompt=prompt.strip(), n=n, group=cluster, first_seed=report.design.images_per_prompt)
    frame = yield from data.draw([shot])
    if frame.empty:
        raise InvalidInput(f"the model's safety checker blocked all {n} pictures of {prompt!r}")
    drawn = yield from data.embed(frame)
    own, others = (_embedded(report, services, chosen) for chosen in (inside, outside))
    centre = own.mean(axis=0)
    text = data.texts([shot.prompt])[0]
    services.tidy()
    parts = (
        (_stored(report, inside), closeness_of_own(own) if len(own) > 1 else np.full(1, np.nan)),
        (data.stored(frame), drawn @ centre),
        (_stored(report, outside), others @ centre),
    )
    compared = [_compared(pictures, closeness, confidence, seed) for pictures, closeness in parts]
    return Regenerated(
        cluster=cluster,
        prompt=shot.prompt,
        text_closeness=float(text @ centre),
        own=compared[0],
        drawn=compared[1],
        others=compared[2],
    )


def cluster_names(report: StudyReport) -> list[str]:
    """The clusters of a StOP report, in their order; none for other reports."""
    frame = report.pictures
    if frame is None or not {"cluster", "nationality"} <= set(frame):
        return []
    drawn_for = frame["cluster"][frame["group"] == frame["nationality"]]
    return sorted(drawn_for.unique(), key=_order)


def _order(name: str) -> tuple[str, int]:
    concept, _, number = name.rpartition(" ")
    return concept, int(number)


def _members(report: StudyReport, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pictures of a cluster, and the others of the same concept."""
    if cluster not in (known := cluster_names(report)):
        raise InvalidInput(f"no cluster {cluster!r}; there are {', '.join(known) or 'none'}")
    frame = report.pictures
    if frame is None:  # cluster_names has found one in it
        raise InvalidInput("this report has no pictures")
    frame = frame[frame["group"] == frame["nationality"]]
    concept = frame.loc[frame["cluster"] == cluster, "nationality"].iloc[0]
    frame = frame[frame["nationality"] == concept]
    return frame[frame["cluster"] == cluster], frame[frame["cluster"] != cluster]


def _check(report: StudyReport, prompt: str, n: int) -> None:
    if report.settings.images:
        raise InvalidInput("these pictures were brought along: there is no model here that could draw more")
    if not prompt.strip():
        raise InvalidInput("the text is empty; choose one of those that were found, or write your own")
    if not 1 <= n <= MOST_DRAWN:
        raise InvalidInput(f"1 to {MOST_DRAWN} pictures can be drawn at once, got {n}")


def _stored(report: StudyReport, frame: pd.DataFrame) -> list[StoredImage]:
    return [report.stored[image_id] for image_id in frame["image_id"]]


def _embedded(report: StudyReport, services: StudyServices, frame: pd.DataFrame) -> np.ndarray:
    """Unit rows ``(len(frame), d)``, which the report's run has paid for."""
    encoder = services.encoder(report.settings.encoder)
    stored = _stored(report, frame)
    if not stored:
        return np.empty((0, 0))
    return services.embeddings.images(encoder, stored, lock=services.reading(encoder))


def _compared(pictures: list[StoredImage], closeness: np.ndarray, confidence: float, seed: int) -> Compared:
    order = np.argsort(-closeness, kind="stable")
    known = closeness[np.isfinite(closeness)]
    return Compared(
        pictures=tuple(pictures[i] for i in order),
        closeness=closeness[order],
        mean=similarity_estimate(known, confidence=confidence, rng=seed) if len(known) else None,
    )
