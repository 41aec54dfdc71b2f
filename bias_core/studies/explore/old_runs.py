"""Runs that older versions kept, in today's form: explorations and comparisons had reports of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from bias_core.studies.explore.options import KIND, ExploreOptions, compare_settings, explore_settings
from bias_core.studies.explore.results import ALL, exploration_results, picture_columns
from bias_core.studies.kit.designs import find_design
from bias_core.studies.kit.setting_fields import settings_of
from bias_core.studies.kit.types import Arm, Results, StudyReport, StudySettings
from bias_core.types import StoredImage

COMPARE = "compare"


def old_report(old: Any) -> StudyReport:
    """A saved report of an exploration as the report that every study has."""
    images = [*old.images, *old.attribute_images]
    scored = [image for image in old.images if image.number in set(old.scored_numbers)]
    sides = [image for image in old.attribute_images if not image.blocked]
    results = Results(notes=tuple(old.notes))
    if scored:
        results = exploration_results({ALL: old.attributes}, old.association, old.clusters, notes=old.notes)
    return StudyReport(
        run_id=old.run_id,
        design=find_design(KIND),
        settings=_explore_settings(vars(old.settings)),
        results=results,
        n_planned=int(old.settings.n_images),
        n_images=len(scored) + len(sides),
        n_blocked=sum(image.blocked for image in images),
        warning=old.warning,
        unknown_words=tuple(old.unknown_words),
        versions=dict(old.versions),
        seconds=old.seconds,
        pictures=_frame(old, scored, sides),
        stored={i.id: StoredImage(row=i.row, path=i.path, blocked=i.blocked) for i in reversed(images)},
    )


def _frame(old: Any, scored: Sequence[Any], sides: Sequence[Any]) -> pd.DataFrame:
    """The pictures that are scored with what was found of them, then those of both words."""
    frame = pd.DataFrame(
        [
            {"image_id": image.id, "group": image.row.group, "prompt": image.row.prompt, "seed": image.row.seed}
            for image in (*scored, *sides)
        ],
        columns=["image_id", "group", "prompt", "seed"],
    )
    if scored:
        places = range(len(scored))
        frame.loc[places, "number"] = [image.number for image in scored]
        for name, values in picture_columns(old.attributes, old.association, old.clusters).items():
            frame.loc[places, name] = values
    return frame


def _explore_settings(values: Mapping[str, Any]) -> StudySettings:
    return explore_settings(**{"attributes": (), **values})


def _compare_settings(values: Mapping[str, Any]) -> StudySettings:
    declared = {*settings_of(StudySettings), *settings_of(ExploreOptions)} - {"arms", "concept"}
    arms = [Arm(**arm) for arm in values["arms"]]
    rest = {k: v for k, v in values.items() if k in declared}
    return compare_settings(str(values["concept"]), arms, **rest)


OLD_SETTINGS: Mapping[str, Callable[[Mapping[str, Any]], StudySettings]] = {
    KIND: _explore_settings,
    COMPARE: _compare_settings,
}
"""Reads the settings of a manifest without a design, by its study."""
