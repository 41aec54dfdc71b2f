"""Runs that older versions kept, in today's form: explorations and comparisons had reports of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bias_core.metrics.clustering import ClusterResult
from bias_core.studies.explore.options import KIND, ExploreOptions, compare_settings, explore_settings
from bias_core.studies.explore.results import (
    ALL,
    CONCEPT,
    Leaning,
    association_figure,
    association_finding,
    attribute_findings,
    attribute_table,
    eigenvalue_table,
    map_figure,
    picture_columns,
    share_figure,
)
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, Results, StudyReport, StudySettings
from bias_core.types import StoredImage

if TYPE_CHECKING:
    from bias_core.studies.kit.attribute_scores import AttributeScore

COMPARE = "compare"


def old_report(old: Any) -> StudyReport:
    """A saved report of an exploration as the report that every study has."""
    settings = _explore_settings(vars(old.settings))
    images = [*old.images, *old.attribute_images]
    stored = {
        image.id: StoredImage(row=image.row, path=image.path, blocked=image.blocked) for image in reversed(images)
    }
    scored = [image for image in old.images if image.number in set(old.scored_numbers)]
    sides = [image for image in old.attribute_images if not image.blocked]
    return StudyReport(
        run_id=old.run_id,
        design=find_design(KIND),
        settings=settings,
        results=_results(old),
        n_planned=int(old.settings.n_images),
        n_images=len(scored) + len(sides),
        n_blocked=sum(image.blocked for image in images),
        warning=old.warning,
        unknown_words=tuple(old.unknown_words),
        versions=dict(old.versions),
        seconds=old.seconds,
        pictures=_frame(old, scored, sides),
        stored=stored,
    )


def _explore_settings(values: Mapping[str, Any]) -> StudySettings:
    return explore_settings(**{"attributes": (), **values})


def _compare_settings(values: Mapping[str, Any]) -> StudySettings:
    known = {f.name for f in fields(StudySettings)} | set(settings_of(ExploreOptions))
    arms = [Arm(**arm) for arm in values["arms"]]
    rest = {k: v for k, v in values.items() if k in known and k not in ("arms", "concept")}
    return compare_settings(str(values["concept"]), arms, **rest)


def _results(old: Any) -> Results:
    if not old.scored_numbers:
        return Results(notes=tuple(old.notes))
    scores = tuple(old.attributes)
    cells: dict[str, tuple[AttributeScore, ...]] = {ALL: scores}
    leaning, alike = _leaning(old), _alike(old)
    tables, figures = list(attribute_table(cells)), list(share_figure(scores))
    findings = list(attribute_findings(ALL, scores, ""))
    if leaning is not None:
        findings.append(association_finding(leaning))
        figures.append(association_figure(leaning))
    if alike is not None:
        tables.append(eigenvalue_table(alike))
        figures.append(map_figure(alike))
    return Results(findings=tuple(findings), tables=tuple(tables), figures=tuple(figures), notes=tuple(old.notes))


def _leaning(old: Any) -> Leaning | None:
    if old.association is None:
        return None
    words = (old.association.attribute_a, old.association.attribute_b)
    return Leaning(words=words, mean=old.association.mean, each=old.association.associations)


def _alike(old: Any) -> ClusterResult | None:
    if old.clusters is None:
        return None
    names = [f.name for f in fields(ClusterResult)]
    return ClusterResult(**{name: getattr(old.clusters, name) for name in names})


def _frame(old: Any, scored: Sequence[Any], sides: Sequence[Any]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "image_id": [image.id for image in (*scored, *sides)],
            "group": [CONCEPT] * len(scored) + [image.row.group for image in sides],
            "prompt": [image.row.prompt for image in (*scored, *sides)],
            "seed": [image.row.seed for image in (*scored, *sides)],
        }
    )
    if not scored:
        return frame
    places = np.arange(len(scored))
    frame.loc[places, "number"] = [image.number for image in scored]
    for name, values in picture_columns(old.attributes, _leaning(old), _alike(old)).items():
        frame.loc[places, name] = values
    return frame


OLD_SETTINGS: Mapping[str, Callable[[Mapping[str, Any]], StudySettings]] = {
    KIND: _explore_settings,
    COMPARE: _compare_settings,
}
"""Reads the settings of a manifest without a design, by its study."""
