"""A study's report as files, and as the command that gives the same numbers."""

import shlex
from dataclasses import asdict
from typing import Any

import yaml

from bias_core.exchange.export import Export, ExportedImage
from bias_core.studies.kit.designs import design_files, find_design, programs_by_kind, typed_options
from bias_core.studies.kit.setting_fields import changed_settings, option_values, settings_of
from bias_core.studies.kit.types import Design, Results, StudyReport, StudySettings
from bias_core.studies.reports.dataset_facts import facts_of_study
from bias_core.studies.reports.figures import to_bytes
from bias_core.studies.reports.text import arm_folder, finding_table, plain, to_dict, to_markdown
from bias_core.studies.running.arms import arm_text

_DRAWN = {"model", "condition"}  # of imported pictures they say nothing


def to_export(report: StudyReport, *, pictures: bool = False) -> Export:
    """What ``write_zip`` and ``write_folder`` need; with the original pictures where they are asked for."""
    parts: dict[str, Results] = {"": report.results}
    parts |= {f"{arm_folder(report, arm)}/": arm.results for arm in report.arms}
    figures = {
        f"{folder}figures/{figure.key}.svg": to_bytes(figure)
        for folder, results in parts.items()
        for figure in results.figures
    }
    tables = {f"{folder}findings": finding_table(results) for folder, results in parts.items()}
    tables |= {
        f"{folder}tables/{table.key}": table.frame for folder, results in parts.items() for table in results.tables
    }
    return Export(
        images=_pictures(report) if pictures else [],
        tables=tables,
        report=to_dict(report),
        markdown=to_markdown(report),
        files=figures | _own_design(report.design),
        facts=facts_of_study(report, to_command(report.design, report.settings), pictures=pictures),
    )


def _own_design(design: Design) -> dict[str, bytes]:
    """The YAML of a design that does not come with the program; its command line names this file."""
    if is_shipped(design) or design.kind not in programs_by_kind():  # a comparison is no design
        return {}
    return {f"{design.name}.yaml": yaml.safe_dump(asdict(design), sort_keys=False, allow_unicode=True).encode()}


def is_shipped(design: Design) -> bool:
    """Whether the program comes with this design, word for word."""
    return design.name in design_files() and find_design(design.name) == design


def to_command(design: Design, settings: StudySettings) -> str:
    """The command line that gives the same numbers; what is at its default is left out."""
    name = design.name if is_shipped(design) else f"{design.name}.yaml"
    given, parts = _given(design, settings), ["python", "-m", "bias_core", "study", "run", name]
    program = programs_by_kind().get(design.kind)
    if program and program.command:
        parts = ["python", "-m", "bias_core", *program.command(settings)]
        given = {key: value for key, value in given.items() if key not in ("options", "model")}
    for name, value in given.items():
        declared = settings_of(StudySettings)[name]
        if name == "options":
            parts += [word for key, item in value.items() for word in ("--option", f"{key}={declared.write(item)}")]
        elif name == "arms":
            parts += [word for arm in value for word in ("--arm", arm_text(arm))]
        else:
            parts += [declared.flag] if value is True else [declared.flag, declared.write(value)]
    return shlex.join(parts)


def _given(design: Design, settings: StudySettings) -> dict[str, Any]:
    """The settings that are not as the program or the design has them."""
    given = changed_settings(settings) | {"options": _changed_options(design, settings)}
    if settings.images:
        given = {name: value for name, value in given.items() if name not in _DRAWN}
    return {name: value for name, value in given.items() if value not in ("", {})}


def _changed_options(design: Design, settings: StudySettings) -> dict[str, Any]:
    """The options that are not as the design has them."""
    if design.kind not in programs_by_kind():  # a comparison is no design
        return option_values(settings.options)
    usual = typed_options(design, {})
    options = option_values(typed_options(design, settings.options))
    return {name: value for name, value in options.items() if value != getattr(usual, name)}


def to_python(design: Design, settings: StudySettings) -> str:
    """The Python lines that give the same numbers."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in _given(design, settings).items())
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


def _pictures(report: StudyReport) -> list[ExportedImage]:
    if report.pictures is None or report.pictures.empty:
        return []
    seen = report.pictures.drop_duplicates("image_id")
    return [
        ExportedImage(path=report.stored[i].path, row=report.stored[i].row, metadata=plain(facts))
        for i, facts in zip(seen["image_id"], seen.drop(columns=_IN_ROW).to_dict("records"), strict=True)
    ]


_IN_ROW = ["image_id", "prompt", "seed"]  # an ImageRow says these itself
