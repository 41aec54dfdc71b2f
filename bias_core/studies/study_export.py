"""A study's report as files, and as the command that gives the same numbers."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.runs.export import Export, ExportedImage
from bias_core.studies.figures import to_bytes
from bias_core.studies.study_report import finding_rows, to_dict, to_markdown
from bias_core.studies.study_types import StudySettings

if TYPE_CHECKING:
    from bias_core.studies.study_data import StudyData
    from bias_core.studies.study_types import Design, StudyReport

_OPTIONS = {
    "model": "--model",
    "condition": "--condition",
    "encoder": "--encoder",
    "scale": "--scale",
    "seed": "--seed",
    "num_inference_steps": "--steps",
    "guidance_scale": "--guidance",
    "confidence": "--confidence",
    "images": "--images",
    "labels": "--labels",
}


def to_export(report: StudyReport, data: StudyData | None = None) -> Export:
    """What ``write_zip`` and ``write_folder`` need; with the pictures where ``data`` is given."""
    figures = {f"figures/{figure.key}.svg": to_bytes(figure) for figure in report.results.figures}
    tables = {f"tables/{table.key}": table.frame for table in report.results.tables}
    return Export(
        images=_pictures(data) if data else [],
        tables={"findings": pd.DataFrame(finding_rows(report))} | tables,
        report=to_dict(report),
        markdown=to_markdown(report),
        files=figures,
    )


def to_command(design: Design, settings: StudySettings) -> str:
    """The command line that gives the same numbers; what is at its default is left out."""
    parts = ["python", "-m", "bias_core", "study", "run", design.name]
    defaults = {f.name: f.default for f in fields(StudySettings)}
    drawn = {"model", "condition"}  # of imported pictures they say nothing
    for name, option in _OPTIONS.items():
        value = getattr(settings, name)
        if value != defaults[name] and not (settings.images and name in drawn):
            parts += [option, str(value)]
    for name, value in settings.options.items():
        if value != design.options.get(name):
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            parts += ["--option", f"{name}={text}"]
    return shlex.join(parts)


def _pictures(data: StudyData) -> list[ExportedImage]:
    seen = data.frame.drop_duplicates("image_id")
    return [
        ExportedImage(path=stored.path, row=stored.row, metadata={"group": group})
        for stored, group in zip(data.stored(seen), seen["group"], strict=True)
    ]
