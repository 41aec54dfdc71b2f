"""OASIS's StOP: clusters of pictures, the texts closest to them, and what those texts draw (Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bias_core.metrics.clustering import spectral_clusters
from bias_core.metrics.stereotype import attribute_prevalence
from bias_core.search.stop import OptimisedPrompt, cluster_average_image, optimise_prompts
from bias_core.store.embeddings import open_picture
from bias_core.studies.kit.derived_images import keep_picture
from bias_core.studies.kit.kind import Measuring, Program
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.setting_fields import setting, settings_class
from bias_core.studies.kit.types import Design, Results, Shot, StudySettings
from bias_core.studies.origins.cells import NationalityOptions, nationality_shots, own_attributes, wanted_nationalities
from bias_core.studies.origins.stop_report import (
    Cluster,
    Drawn,
    closeness_of_own,
    cluster_figures,
    cluster_findings,
    cluster_name,
    cluster_tables,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.services import StudyServices

_FEWEST_PER_NATIONALITY = 2


@settings_class(frozen=True, kw_only=True)
class PromptSearchOptions(NationalityOptions):
    """Of whom, and how prompts are searched that explain a cluster."""

    nationalities: tuple[str, ...] = setting(("Iranian", "Mexican", "American"), "Nationalities", "Of the study's list")
    language_model: str = setting("calibration-language", "Language model", "Who proposes the next words")
    prefix: str = setting("This is a photo of", "Beginning of every text", "What the search adds words to")
    n_clusters: int = setting(
        4,
        "Clusters",
        "Of each nationality; 0: by the largest eigengap. The paper does not tell its number",
        ge=0,
        le=20,
    )
    max_clusters: int = setting(2, "Searched clusters", "The largest ones; the paper picks one by eye", ge=1, le=20)
    n_tokens: int = setting(2, "Words", "That the search adds, in tokens", ge=1, le=20)
    beam_width: int = setting(10, "Beam width", "Texts that are kept at each step; the paper gives none", ge=1, le=100)
    n_candidates: int = setting(
        256, "Candidates", "Next words that are tried for each text; the paper gives none", ge=1, le=10_000
    )
    contrast: bool = setting(
        False, "Against the others", "Search for what tells the cluster from the nationality's other pictures"
    )
    top_k: int = setting(3, "Shown texts", "The closest ones, as Table 3 shows", ge=1, le=100)
    n_generated: int = setting(
        4, "Pictures of the closest text", "Drawn from it, to see whether it says what the cluster shows", ge=0, le=100
    )


def stop_shots(design: Design, settings: StudySettings) -> list[Shot]:
    """Pictures of each nationality."""
    return nationality_shots(design, settings)


def measure_prompts(design: Design, settings: StudySettings, data: StudyData) -> Measuring:
    """Clusters, their texts, and how close the pictures of those texts come."""
    rows = yield from data.embed(data.frame)
    clusters: list[Cluster] = []
    notes = []
    for nationality in wanted_nationalities(design, settings):
        frame = data.frame[data.frame["nationality"] == nationality]
        if len(frame) >= _FEWEST_PER_NATIONALITY:
            note = yield from _search(data, nationality, frame, rows[frame.index], clusters)
            notes.append(f"{nationality}: {note}")
    drawn = yield from _draw(design, settings, data, clusters)
    attributes = _attributes(design, settings, data, clusters)
    return Results(
        findings=tuple(f for c in clusters for f in cluster_findings(c, drawn.get(c.name), settings)),
        tables=tuple(cluster_tables(design, settings, clusters, drawn, attributes)),
        figures=tuple(cluster_figures(data, settings, clusters, drawn, attributes)),
        notes=(*_vocabulary(data), *notes, _OPTIMISTIC),
    )


_OPTIMISTIC = (
    "A text is chosen as the best of many on the cluster's own pictures: its cosine is optimistic, and so is "
    "its specificity. The pictures drawn from it are new."
)


def _vocabulary(data: StudyData) -> list[str]:
    """What is to be said of a language model that knows one world, on pictures of another."""
    name, model = data.settings.options.language_model, data.settings.model
    world = data.services.reader_world("language_model", name)
    if not world or data.services.pictures_world(model) == world:
        return []
    return [
        f"The texts are by {name}, which knows the sentences of the {world} world only: what these pictures "
        "show beyond it cannot be found."
    ]


def _search(
    data: StudyData, nationality: str, frame: pd.DataFrame, rows: np.ndarray, clusters: list[Cluster]
) -> Generator[Progress, None, str]:
    """Add the largest clusters of a nationality; returns what is to be said of the clustering."""
    settings, options = data.settings, data.settings.options
    wanted = min(options.n_clusters, len(rows)) or None
    found = spectral_clusters(rows, n_clusters=wanted, seed=settings.seed)
    data.keep(frame, cluster=[cluster_name(nationality, k + 1) for k in found.labels])
    data.keep(frame, **{TYPICAL: _typical(rows, found.labels)})
    searched = min(found.n_clusters, options.max_clusters)
    for k in range(searched):
        data.check()
        yield Progress(
            done=k,
            total=searched,
            seconds_left=float("nan"),
            message=f"{nationality}: texts for cluster {k + 1} of {searched}",
        )
        inside = found.labels == k
        centre = rows[inside].mean(axis=0)
        order = np.argsort(-(rows[inside] @ centre), kind="stable")
        own = frame[inside].iloc[order]
        clusters.append(
            Cluster(
                nationality=nationality,
                number=k + 1,
                frame=own,
                rows=rows[inside][order],
                others=rows[~inside],
                average=keep_picture(data.services, cluster_average_image(map(open_picture, data.stored(own)))),
                prompts=_prompts(data, rows[inside][order], rows[~inside]),
            )
        )
    chosen = "asked for" if wanted else "by the largest eigengap"
    eigenvalues = ", ".join(f"{value:.2f}" for value in found.eigenvalues)
    return f"{found.n_clusters} clusters, {chosen}; smallest eigenvalues {eigenvalues}. {found.note}".rstrip()


TYPICAL = "similarity to its cluster"
"""Name of the column: mean cosine to the cluster's pictures, of one of them to the others."""


def _typical(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean cosine of every picture to the others of its cluster; nan for one that is alone."""
    means = np.full(len(rows), np.nan)
    for label in np.unique(labels):
        inside = labels == label
        if inside.sum() > 1:
            means[inside] = closeness_of_own(rows[inside])
    return means


def _prompts(data: StudyData, rows: np.ndarray, others: np.ndarray) -> tuple[OptimisedPrompt, ...]:
    options = data.settings.options
    encoder, model = data.encoder(), data.services.language_model(options.language_model)
    return tuple(
        optimise_prompts(
            rows,
            encoder,
            model,
            prefix=options.prefix,
            n_tokens=options.n_tokens,
            beam_width=options.beam_width,
            n_candidates=options.n_candidates,
            top_k=options.top_k,
            other_embeddings=others if len(others) else None,
            contrast=options.contrast and len(others) > 0,
            on_step=lambda *_: data.check(),
            lock=data.services.reading(encoder, model),
            rng=data.settings.seed,
        )
    )


def _draw(
    design: Design, settings: StudySettings, data: StudyData, clusters: Sequence[Cluster]
) -> Generator[Progress, None, dict[str, Drawn]]:
    """Pictures of each cluster's closest text, with seeds that the cluster's pictures do not have."""
    n = settings.options.n_generated
    if settings.images or not n:
        return {}
    shots = [
        Shot(
            prompt=cluster.prompts[0].text,
            n=n,
            group=cluster.name,
            facts={"nationality": cluster.nationality, "cluster": cluster.name},
            first_seed=design.images_per_prompt,
        )
        for cluster in clusters
    ]
    frame = yield from data.draw(shots)
    rows = yield from data.embed(frame)
    groups = frame["group"].to_numpy(dtype=str)
    drawn = {name: Drawn(frame=frame[groups == name], rows=rows[groups == name]) for name in dict.fromkeys(groups)}
    for cluster in clusters:
        if cluster.name in drawn:
            in_report = data.frame[data.frame["group"] == cluster.name]
            similar = drawn[cluster.name].rows @ cluster.rows.mean(axis=0)
            data.keep(in_report, **{TYPICAL: similar})
    return drawn


def _attributes(design: Design, settings: StudySettings, data: StudyData, clusters: Sequence[Cluster]) -> pd.DataFrame:
    """P of every attribute of the design's nationalities in every cluster: what its pictures share."""
    attributes = {a.name: a for n in wanted_nationalities(design, settings) for a in own_attributes(design, n)}
    if not attributes:
        return pd.DataFrame()
    positive, negative = (
        data.texts(getattr(a, side) for a in attributes.values()) for side in ("positive", "negative")
    )
    return pd.DataFrame(
        [
            {"row": cluster.name, "column": name, "value": attribute_prevalence(cluster.rows @ p, cluster.rows @ n)}
            for cluster in clusters
            for name, p, n in zip(attributes, positive, negative, strict=True)
        ]
    )


def regenerated(design: Design, settings: StudySettings) -> int:
    """Pictures that are drawn from the closest texts, at most."""
    clusters = len(wanted_nationalities(design, settings)) * settings.options.max_clusters
    return 0 if settings.images else int(clusters * settings.options.n_generated)


def language_model_ready(settings: StudySettings, services: StudyServices) -> None:
    """Load the language model, or say what it lacks."""
    model = services.language_model(settings.options.language_model)
    with services.reading(model):
        model.propose([settings.options.prefix], 1)


PROGRAMS = {
    "optimised_prompts": Program(
        shots=stop_shots,
        measure=measure_prompts,
        ready=language_model_ready,
        options=PromptSearchOptions,
        n_later=regenerated,
    )
}
