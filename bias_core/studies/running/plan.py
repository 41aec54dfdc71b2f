"""What a study would draw, laid out before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bias_core.store.manifests import Manifest
    from bias_core.studies.kit.kind import Program
    from bias_core.studies.kit.rows import Rows
    from bias_core.studies.kit.types import Design, Shot, StudySettings


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study would draw, found out without drawing.

    Attributes
    ----------
    settings : with the design's options filled in.
    rows : where the pictures come from.
    shots : which.
    manifest : with one row per picture; not yet saved.
    warning : what the report must say first, "" for nothing.
    arms : the plans of several arms, whose manifests are parts of this one; ``rows`` and ``shots`` are then
        those of the first. Empty for a run of one arm.
    """

    design: Design
    settings: StudySettings
    program: Program
    rows: Rows
    shots: list[Shot]
    manifest: Manifest
    warning: str = ""
    arms: tuple[StudyPlan, ...] = ()
