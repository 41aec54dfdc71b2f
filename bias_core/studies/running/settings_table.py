"""All settings of a run, those that are not at their default first."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bias_core.stats.intervals import percent
from bias_core.studies.kit.designs import typed_options
from bias_core.studies.kit.setting_fields import Setting, settings_of
from bias_core.studies.kit.types import Arm, Design, StudySettings, StudyTable, table
from bias_core.studies.running.arms import arm_text

SETTINGS = "settings"  # key of the table


def settings_table(design: Design, settings: StudySettings) -> StudyTable:
    """Label, value and default of every setting, of every option of the study, and of every arm.

    >>> from bias_core.studies.kit.designs import find_design
    >>> design = find_design("oasis-spi")
    >>> frame = settings_table(design, StudySettings(seed=7, options=typed_options(design, {"guided": True}))).frame
    >>> frame[["setting", "value", "default"]].head(3).to_numpy().tolist()
    [['Model', 'calibration-renderer', 'calibration-diffusion'], ['Seed', '7', '0'], ['Guided velocities', 'yes', 'no']]
    """
    rows = list(_rows(design, settings))
    rows.sort(key=lambda row: row["value"] == row["default"])
    n = sum(row["value"] != row["default"] for row in rows)
    note = (
        f"The first {n} are not as the study has them by default." if n else "All are as the study has them by default."
    )
    return table(SETTINGS, "Settings of this run", rows, note)


def _rows(design: Design, settings: StudySettings) -> Iterator[dict[str, str]]:
    usual = {name: one.default for name, one in settings_of(StudySettings).items()} | dict(design.settings)
    for name, one in settings_of(StudySettings).items():
        has_none = name == "condition" and not settings.condition  # of a model without conditions
        if name not in ("options", "arms", "protocol") and not has_none:
            yield _row(one, getattr(settings, name), usual[name])
    options = typed_options(design, {})
    for name, one in settings_of(type(options)).items():
        yield _row(one, getattr(settings.options, name), getattr(options, name))
    for arm in settings.arms:
        drawn = Arm(**{**vars(arm), "images": arm.images and Path(arm.images).name})
        yield {"setting": f"Arm “{arm.name}”", "value": arm_text(drawn).partition("|")[2] or "as above", "default": ""}


def _row(one: Setting, value: Any, usual: Any) -> dict[str, str]:
    return {"setting": one.label, "value": _words(one, value), "default": _words(one, usual)}


def _words(one: Setting, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value in ("", ()):
        return "left out"
    if isinstance(value, (tuple, list)):
        return ", ".join(str(part).partition("|")[0] for part in value)  # of an attribute its name
    if one.local:
        return Path(str(value)).name
    return percent(value) if one.percent else one.write(value)
