"""A study's report as files with a dataset card, and as the command that gives the same numbers."""

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pandas as pd
import yaml

from bias_core.errors import UnknownModel
from bias_core.measures.cards import work
from bias_core.models.catalogue import load_catalogue
from bias_core.settings import ASSETS
from bias_core.store.export import DatasetFacts, Export, ExportedImage
from bias_core.store.images import source_of
from bias_core.study import report_text as text
from bias_core.study.arms import arm_text
from bias_core.study.design import design_files, find_design, study_classes, study_of, typed_options
from bias_core.study.documents import to_dict, to_html, to_markdown, to_model_card
from bias_core.study.drawn import drawn_with
from bias_core.study.evaluation_records import has_numbers, to_every_eval_ever
from bias_core.study.figures import draw, to_bytes
from bias_core.study.readers import READER_SETTINGS
from bias_core.study.report_text import headline
from bias_core.study.setting_fields import changed_settings, option_values, settings_of
from bias_core.study.types import AUTO, Design, Measured, StudyFigure, StudyReport, StudySettings
from bias_core.types import IMPORTED, ModelInfo

_IN_ROW = ["image_id", "prompt", "seed"]  # an ImageRow says these itself
_SPDX = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
FIGURE_FORMS = ("svg", "png")
_DRAWN = {"model", "condition"}  # of imported pictures they say nothing


def to_export(report: StudyReport, *, pictures: bool = False) -> Export:
    """What ``write_zip`` and ``write_folder`` need; with the original pictures where they are asked for."""
    parts: dict[str, Measured] = {"": report} | {f"{text.arm_folder(report, arm)}/": arm for arm in report.arms}
    files: dict[str, bytes | Callable[[], bytes]] = dict(_own_design(report.design))
    for folder, part in parts.items():
        for figure in part.results.figures:
            files |= _figure_files(f"{folder}figures/{figure.key}", figure)
    facts = facts_of(report, pictures=pictures)
    files["report.html"] = lambda: to_html(report, facts).encode()
    files["model-card.md"] = lambda: to_model_card(report, facts).encode()
    if has_numbers(report):
        # A name with "eval" in it would be taken for a data set's split of tests.
        files["records.zip"] = lambda: to_every_eval_ever(report, facts)
    tables = {f"{folder}findings": pd.DataFrame(text.finding_rows(part)) for folder, part in parts.items()}
    tables |= {
        f"{folder}tables/{table.key}": table.frame for folder, part in parts.items() for table in part.results.tables
    }
    return Export(
        images=_pictures(report) if pictures else [],
        tables=tables,
        report=to_dict(report),
        markdown=to_markdown(report),
        files=files,
        facts=facts,
    )


def _figure_files(name: str, figure: StudyFigure) -> dict[str, bytes | Callable[[], bytes]]:
    """A figure for the page and for print, with its caption beside it."""
    made: dict[str, bytes] = {}

    def form_of(form: str) -> bytes:
        if form not in made:
            drawn = draw(figure)
            for one in FIGURE_FORMS:
                made[one] = to_bytes(figure, one, drawn=drawn)
                drawn.set_layout_engine("none")  # in the next form everything stays where it is
        return made.pop(form)  # once written it is not kept

    files = {f"{name}.{form}": partial(form_of, form) for form in FIGURE_FORMS}
    return {**files, f"{name}.txt": f"{figure.title}. {figure.caption}\n".encode()}


def facts_of(report: StudyReport, *, pictures: bool = False) -> DatasetFacts:
    """What an export says of itself; ``pictures`` says whether they are in it."""
    design, settings, frame = report.design, report.settings, report.pictures
    held = frame.drop_duplicates("image_id") if pictures and frame is not None else None
    return DatasetFacts(
        key=f"{design.name}-{report.run_id}",
        title=text.title_of(report),
        summary=(
            f"{f'{report.warning} ' if report.warning else ''}{design.summary} "
            f"{report.n_images:,} of {report.n_planned:,} planned pictures were scored, {report.n_blocked:,} were "
            f"refused or blanked; {text.size_in_words(design, settings)}. {headline(report)}"
        ),
        reference=f"{work(design.reference)}, {design.where}" if design.reference else "",
        annotation=_annotation(settings),
        readers=[report.versions.get("encoder", settings.encoder), *filter(None, [report.versions.get("judge")])],
        notes=report.results.notes,
        n_pictures=0 if held is None else len(held),
        n_prompts=0 if held is None else held["prompt"].nunique(),
        limits=text.LIMITS,
        command=to_command(design, settings),
        versions=report.versions,
        **_origin(settings.model, settings.condition, report.versions.get("model_revision", "")),
    )


def _annotation(settings: StudySettings) -> str:
    people = (
        " Where people's answers were given, these were taken instead." if text.replaced_by_people(settings) else ""
    )
    how = "it lies nearer to the sentence of presence than to that of absence"
    if settings.judge:
        how = f"the judge {settings.judge} says yes when it is asked; of what it cannot tell nothing is said"
    return (
        f"Read by a program, {settings.encoder}, without people: a picture is taken to show an attribute where {how}, "
        "or as the study's own description "
        f"says. Intervals are {settings.confidence:.0%} intervals.{people}"
    )


def _origin(model: str, condition: str, revision: str) -> dict[str, str]:
    """Model and licence, as the fields of the facts."""
    if model.startswith(IMPORTED):
        return {"model": "", "licence_note": "The licence of the pictures is known to whoever brought them along."}
    info: ModelInfo | None = None
    with suppress(UnknownModel):
        info = load_catalogue(ASSETS / "models.yaml").model(model)
    named = f"{info.name} ({model})" if info and info.name != model else model
    parts = [named, f"condition “{condition}”" if condition else "", f"revision {revision}" if revision else ""]
    return {"model": ", ".join(filter(None, parts)), **_licence(info)}


def _licence(info: ModelInfo | None) -> dict[str, str]:
    if info is not None and info.embedded:
        spdx = _SPDX.get(info.licence, "")
        return {"licence": spdx, "licence_note": f"Drawn by a model that comes with the program: {spdx}."}
    terms = f"is under {info.licence}" if info and info.licence else "has its own licence"
    return {"licence_note": f"The model {terms}; what it says of pictures drawn with it holds for these pictures."}


def _own_design(design: Design) -> dict[str, bytes]:
    """The YAML of a design that does not come with the program; its command line names this file."""
    if is_shipped(design) or design.kind not in study_classes():  # a comparison is no design
        return {}
    return {f"{design.name}.yaml": yaml.safe_dump(asdict(design), sort_keys=False, allow_unicode=True).encode()}


def is_shipped(design: Design) -> bool:
    """Whether the program comes with this design, word for word."""
    if design.name not in design_files():
        return False
    return find_design(design.name) == design


def to_command(design: Design, settings: StudySettings) -> str:
    """The command line that gives the same numbers; what is at its default is left out.

    "" for a kind of study that this version no longer runs.
    """
    if design.kind not in study_classes():
        return ""
    name = design.name if is_shipped(design) else f"{design.name}.yaml"
    given, parts = changed_from_usual(design, settings), ["python", "-m", "bias_core", "study", "run", name]
    if words := study_of(design).command(settings):
        parts = ["python", "-m", "bias_core", *words]
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


def changed_from_usual(design: Design, settings: StudySettings) -> dict[str, Any]:
    """The settings that are not as the program or the design has them."""
    settings = as_asked(design, settings)
    given = changed_settings(settings) | {"options": _changed_options(design, settings)}
    if settings.images:
        given = {name: value for name, value in given.items() if name not in _DRAWN}
    return {name: value for name, value in given.items() if value not in ("", {})}


def _changed_options(design: Design, settings: StudySettings) -> dict[str, Any]:
    """The options that are not as the design has them."""
    if design.kind not in study_classes():  # a comparison is no design
        return option_values(settings.options)
    usual = typed_options(design, {})
    options = option_values(typed_options(design, settings.options))
    return {name: value for name, value in options.items() if value != getattr(usual, name)}


def as_asked(design: Design, settings: StudySettings) -> StudySettings:
    """The settings with "auto" again for readers of the calibration world alone, and without arms that options lay out.

    Nobody has to name these.
    """
    if design.kind not in study_classes():  # a comparison is no design
        return settings
    if settings.arms and settings.arms == study_of(design).arms(settings):
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
    """The Python lines that give the same numbers; "" for a kind of study that this version no longer runs."""
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


def _pictures(report: StudyReport) -> list[ExportedImage]:
    if report.pictures is None or report.pictures.empty:
        return []
    pictures = report.pictures.drop_duplicates("image_id")
    return [
        ExportedImage(
            path=report.stored[i].path,
            row=report.stored[i].row,
            source=source_of(report.stored[i]),
            metadata=text.plain(
                {name.replace(" ", "_"): t for name, t in drawn_with(report.stored[i]).items()} | facts
            ),
        )
        for i, facts in zip(pictures["image_id"], pictures.drop(columns=_IN_ROW).to_dict("records"), strict=True)
    ]
