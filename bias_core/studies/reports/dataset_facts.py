"""What the dataset card of an export says of a study."""

from contextlib import suppress

from bias_core.errors import UnknownModel
from bias_core.exchange.export import DatasetFacts
from bias_core.exchange.imports import IMPORTED
from bias_core.models.catalogue import load_catalogue
from bias_core.settings import ASSETS
from bias_core.studies.kit.types import StudyReport
from bias_core.studies.reports.text import LIMITS, size_in_words, title_of
from bias_core.types import ModelInfo

_SPDX = {"apache-2.0": "Apache-2.0", "mit": "MIT"}


def facts_of_study(report: StudyReport, command: str, *, pictures: bool) -> DatasetFacts:
    """Of a study's export; ``pictures`` says whether they are in it."""
    design, settings, frame = report.design, report.settings, report.pictures
    held = frame.drop_duplicates("image_id") if pictures and frame is not None else None
    return DatasetFacts(
        key=f"{design.name}-{report.run_id}",
        title=title_of(report),
        summary=(
            f"{_first(report.warning)}{design.summary} {report.n_images:,} of {report.n_planned:,} planned "
            f"pictures were scored, {report.n_blocked:,} were blanked by a safety checker; "
            f"{size_in_words(design, settings)}."
        ),
        reference=f"{design.reference}, {design.where}" if design.reference else "",
        annotation=_annotation(settings.encoder, settings.confidence, labels=settings.labels),
        readers=[report.versions.get("encoder", settings.encoder)],
        notes=report.results.notes,
        n_pictures=0 if held is None else len(held),
        n_prompts=0 if held is None else held["prompt"].nunique(),
        limits=LIMITS,
        command=command,
        versions=report.versions,
        **_origin(settings.model, settings.condition, report.versions.get("model_revision", "")),
    )


def _first(warning: str) -> str:
    return f"**{warning}** " if warning else ""


def _annotation(encoder: str, confidence: float, *, labels: str = "") -> str:
    people = " Where people's answers were given, these were taken instead." if labels else ""
    return (
        f"Read by a program, {encoder}, without people: a picture is taken to show an attribute where it "
        "lies nearer to the sentence of presence than to that of absence, or as the study's own description "
        f"says. Intervals are {confidence:.0%} intervals.{people}"
    )


def _origin(model: str, condition: str, revision: str) -> dict[str, str]:
    """Model and licence, as the fields of the facts."""
    if model.startswith(IMPORTED):
        return {"model": "", "licence_note": "The licence of the pictures is known to whoever brought them along."}
    info = _info(model)
    named = f"{info.name} ({model})" if info and info.name != model else model
    parts = [named, f"condition “{condition}”" if condition else "", f"revision {revision}" if revision else ""]
    return {"model": ", ".join(filter(None, parts)), **_licence(info)}


def _licence(info: ModelInfo | None) -> dict[str, str]:
    if info is not None and info.embedded:
        spdx = _SPDX.get(info.licence, "")
        return {"licence": spdx, "licence_note": f"Drawn by a model that comes with the program: {spdx}."}
    known = f"is under {info.licence}" if info and info.licence else "has its own licence"
    return {"licence_note": f"The model {known}; what it says of pictures drawn with it holds for these pictures."}


def _info(model: str) -> ModelInfo | None:
    with suppress(UnknownModel):
        return load_catalogue(ASSETS / "models.yaml").model(model)
    return None
