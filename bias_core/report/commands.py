"""The command and the Python that give the same numbers again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from bias_core.installed import COMMAND
from bias_core.study.classifiers import READER_SETTINGS
from bias_core.study.design import design_files, find_design, get_study, study_classes, typed_options
from bias_core.study.types import AUTO, Design, StudySettings, arm_text
from bias_core.values import changed_settings, declared_settings, option_values

DRAWING_SETTINGS = {"model", "condition"}  # settings that mean nothing for imported pictures


def is_shipped(design: Design) -> bool:
    """Return True if the program ships exactly this design."""
    if design.name not in design_files():
        return False
    return find_design(design.name) == design


def to_command(design: Design, settings: StudySettings) -> str:
    """Return the command line that gives the same numbers, without defaults.

    "" for a kind of study that this version no longer runs.
    """
    if design.kind not in study_classes():
        return ""
    name = design.name if is_shipped(design) else f"{design.name}.yaml"
    given, parts = changed_from_usual(design, settings), [*COMMAND.split(), "study", "run", name]
    if words := get_study(design).get_command(settings):
        parts = [*COMMAND.split(), *words]
        given = {key: value for key, value in given.items() if key not in ("options", "model")}
    for name, value in given.items():
        declared = declared_settings(StudySettings)[name]
        if name == "options":
            parts += [word for key, item in value.items() for word in ("--option", f"{key}={declared.write(item)}")]
        elif name == "arms":
            parts += [word for arm in value for word in ("--arm", arm_text(arm))]
        else:
            parts += [declared.flag] if value is True else [declared.flag, declared.write(value)]
    return shlex.join(parts)


def changed_from_usual(design: Design, settings: StudySettings) -> dict[str, Any]:
    """Return the settings that differ from the defaults of the program and the design."""
    settings = drop_automatic_choices(design, settings)
    given = changed_settings(settings) | {"options": _changed_options(design, settings)}
    if settings.images:
        given = {name: value for name, value in given.items() if name not in DRAWING_SETTINGS}
    return {name: value for name, value in given.items() if value not in ("", {})}


def _changed_options(design: Design, settings: StudySettings) -> dict[str, Any]:
    if design.kind not in study_classes():  # a comparison is no design
        return option_values(settings.options)
    usual = typed_options(design, {})
    options = option_values(typed_options(design, settings.options))
    return {name: value for name, value in options.items() if value != getattr(usual, name)}


def drop_automatic_choices(design: Design, settings: StudySettings) -> StudySettings:
    """Return the settings without what the program chose itself.

    "auto" replaces the classifiers of the calibration world; arms that follow from the options are left out.
    """
    if design.kind not in study_classes():  # a comparison is no design
        return settings
    if settings.arms and settings.arms == get_study(design).arms(settings):
        settings = replace(settings, arms=())
    if settings.force:
        return settings
    usual, options = typed_options(design, {}), typed_options(design, settings.options)

    def automatic(values: Any, usual: Any) -> dict[str, Any]:
        names = (name for name in READER_SETTINGS if getattr(usual, name, "") == AUTO)
        return {name: AUTO for name in names if getattr(values, name).startswith("calibration-")}

    return replace(
        settings, options=replace(options, **automatic(options, usual)), **automatic(settings, StudySettings())
    )


def to_python(design: Design, settings: StudySettings) -> str:
    """Return Python lines that give the same numbers; "" for a kind of study that this version no longer runs."""
    if design.kind not in study_classes():
        return ""
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed_from_usual(design, settings).items())
    name = design.name if is_shipped(design) else f"{design.name}.yaml"
    names = [*["Arm"] * bool(settings.arms), "Services", "StudySettings", "complete", "find_design", "run_study"]
    return "\n".join(
        (
            f"from bias_core import {', '.join(names)}",
            "",
            f"settings = StudySettings({arguments})",
            f"report = complete(run_study(find_design({name!r}), settings, Services()))",
            "for finding in report.results.findings:",
            "    print(finding.title, finding.estimate)",
        )
    )
