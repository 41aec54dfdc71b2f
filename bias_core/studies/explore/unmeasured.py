"""Pictures of one's own as a run of which nothing was measured: kept with their prompts, to be labelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bias_core.studies.kit.data import nothing_ahead
from bias_core.studies.kit.kind import Program
from bias_core.studies.kit.progress import Progress
from bias_core.studies.kit.types import Design, Results, StudyTable
from bias_core.studies.running.identities import keep_people

if TYPE_CHECKING:
    import pandas as pd

    from bias_core.studies.kit.data import StudyData
    from bias_core.studies.kit.kind import Measuring
    from bias_core.studies.kit.types import Shot, StudySettings

UNMEASURED = Design(
    name="unmeasured",
    title="Pictures of your own, not measured",
    kind="unmeasured",
    reference="",
    where="",
    summary="Imported pictures with their prompts and the people that these name, kept to be labelled.",
)
NOBODY = "nobody"
"""In place of a reader in the settings."""
_NOTE = "Nothing was measured: these pictures are kept so that people can label them."


def no_shots(design: Design, settings: StudySettings) -> list[Shot]:  # noqa: ARG001
    """None: all imported pictures are taken as they are."""
    return []


def take_stock(design: Design, settings: StudySettings, data: StudyData) -> Measuring:  # noqa: ARG001
    """How many pictures each prompt has; whom a picture was to show is kept with it."""
    keep_people(data)
    frame = data.frame
    yield Progress(done=len(frame), total=len(frame), seconds_left=0.0, message=f"{len(frame):,} pictures")
    by = [name for name in ("prompt", "setting", "left", "right") if name in frame]
    counts: pd.DataFrame = frame.groupby(by, sort=False).size().rename("pictures").reset_index()
    table = StudyTable(key="prompts", title="Prompts", frame=counts, note="As many pictures as were stored.")
    return Results(tables=(table,), notes=(_NOTE,))


PROGRAMS = {
    "unmeasured": Program(
        shots=no_shots, measure=take_stock, readers=lambda _settings: (), ahead=nothing_ahead, shows_anything=True
    )
}
