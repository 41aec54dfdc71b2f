"""What a text draws, beside the cluster of pictures that it was found for (OASIS, Table 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bias_core.errors import InvalidInput
from bias_core.metrics.similarity import similarity_estimate
from bias_core.studies.kit.data import StudyData
from bias_core.studies.kit.kind import encoder_of
from bias_core.studies.kit.limits import check_budget
from bias_core.studies.kit.readers import check_readers
from bias_core.studies.kit.rows import RowMaker
from bias_core.studies.kit.types import Shot
from bias_core.studies.origins.stop import closeness_of_own

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from bias_core.studies.kit.progress import Progress
    from bias_core.studies.kit.services import StudyServices
    from bias_core.studies.kit.types import StudyReport, StudySettings
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
    settings, text = report.settings, prompt.strip()
    inside, outside = ([report.stored[i] for i in part["image_id"]] for part in _members(report, cluster))
    if settings.images:
        raise InvalidInput("these pictures were brought along: there is no model here that could draw more")
    if not text:
        raise InvalidInput("the text is empty; choose one of those that were found, or write your own")
    if not 1 <= n <= MOST_DRAWN:
        raise InvalidInput(f"1 to {MOST_DRAWN} pictures can be drawn at once, got {n}")
    rows = RowMaker.build(settings, services)
    readers = encoder_of(settings)
    check_readers(readers, services, source=settings.model, world=rows.info.world, force=settings.force)
    check_budget(n, services.settings, what="drawing a text", advice="draw fewer pictures")
    data = StudyData(settings, services, rows, cancelled=cancelled)
    frame = yield from data.draw([Shot(prompt=text, n=n, group=cluster, first_seed=report.design.images_per_prompt)])
    if frame.empty:
        raise InvalidInput(f"the model's safety checker blocked all {n} pictures of {prompt!r}")
    drawn = yield from data.embed(frame)
    encoder = data.encoder()  # the report's run has paid for its pictures
    both = services.embeddings.images(encoder, [*inside, *outside], lock=services.reading(encoder))
    own, others = both[: len(inside)], both[len(inside) :]
    centre = own.mean(axis=0)
    text_row = data.texts([text])[0]
    services.tidy()
    return Regenerated(
        cluster=cluster,
        prompt=text,
        text_closeness=float(text_row @ centre),
        own=_compared(inside, closeness_of_own(own), settings),
        drawn=_compared(data.stored(frame), drawn @ centre, settings),
        others=_compared(outside, others @ centre, settings),
    )


def cluster_names(report: StudyReport) -> list[str]:
    """The clusters of a StOP report, in their order; none for other reports."""
    parts = (name.rpartition(" ") for name in _of_concepts(report)["cluster"].dropna().unique())
    return [f"{concept} {number}" for concept, number in sorted((concept, int(number)) for concept, _, number in parts)]


def _of_concepts(report: StudyReport) -> pd.DataFrame:
    """The pictures that were clustered, without those drawn from texts."""
    frame = report.pictures
    if frame is None or not {"cluster", "nationality"} <= set(frame):
        return pd.DataFrame(columns=["cluster", "nationality"])
    return frame[frame["group"] == frame["nationality"]]


def _members(report: StudyReport, cluster: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The pictures of a cluster, and the others of the same concept."""
    if cluster not in (known := cluster_names(report)):
        raise InvalidInput(f"no cluster {cluster!r}; there are {', '.join(known) or 'none'}")
    frame = _of_concepts(report)
    frame = frame[frame["nationality"] == frame.loc[frame["cluster"] == cluster, "nationality"].iloc[0]]
    return frame[frame["cluster"] == cluster], frame[frame["cluster"] != cluster]


def _compared(pictures: list[StoredImage], closeness: np.ndarray, settings: StudySettings) -> Compared:
    order = np.argsort(-closeness, kind="stable")
    finite = closeness[np.isfinite(closeness)]
    mean = similarity_estimate(finite, confidence=settings.confidence, rng=settings.seed) if len(finite) else None
    return Compared(pictures=tuple(pictures[i] for i in order), closeness=closeness[order], mean=mean)
