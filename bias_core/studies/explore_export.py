"""Explore's report as files, and as the command and the Python lines that give the same numbers."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import TYPE_CHECKING

import pandas as pd

from bias_core.runs.export import Export, ExportedImage
from bias_core.studies.dataset_facts import facts_of_exploration
from bias_core.studies.explore_types import ExploreReport, ExploreSettings
from bias_core.studies.report import image_rows, image_table, score_rows, to_dict, to_markdown

if TYPE_CHECKING:
    from bias_core.types import Attribute

_OPTIONS = {
    "template": "--template",
    "model": "--model",
    "condition": "--condition",
    "encoder": "--encoder",
    "n_images": "-n",
    "attribute_a": "--attribute-a",
    "attribute_b": "--attribute-b",
    "n_attribute_images": "--n-attribute-images",
    "num_inference_steps": "--steps",
    "guidance_scale": "--guidance",
    "negative_prompt": "--negative-prompt",
    "seed": "--seed",
    "n_clusters": "--clusters",
    "confidence": "--confidence",
}


def to_export(report: ExploreReport) -> Export:
    """What :func:`bias_core.runs.export.write_zip` and ``write_folder`` need."""
    images = (*report.images, *report.attribute_images)
    extra = ("number", "blocked")
    return Export(
        images=[
            ExportedImage(path=image.path, row=image.row, metadata={key: row[key] for key in extra})
            for image, row in zip(images, image_rows(report), strict=True)
        ],
        tables={"scores": pd.DataFrame(score_rows(report)), "pictures": image_table(report)},
        report=to_dict(report),
        markdown=to_markdown(report),
        facts=facts_of_exploration(report, to_command(report.settings)),
    )


def to_command(settings: ExploreSettings) -> str:
    """The command line that gives the same numbers; what is at its default is left out."""
    parts = ["python", "-m", "bias_core", "explore", settings.concept]
    for attribute in settings.attributes:
        parts += ["--attribute", attribute_text(attribute)]
    if not settings.attributes:
        parts.append("--no-attributes")
    defaults = {f.name: f.default for f in fields(ExploreSettings)}
    for name, option in _OPTIONS.items():
        value = getattr(settings, name)
        if value != defaults[name] and (name, value) != ("condition", ""):  # of models without conditions
            parts += [option, str(value)]
    parts += ["--force"] * settings.force
    if settings.concept.startswith("-"):
        parts = [*parts[:4], *parts[5:], "--", settings.concept]
    return shlex.join(parts)


def to_python(settings: ExploreSettings) -> str:
    """The Python lines that give the same numbers."""
    defaults = {f.name: f.default for f in fields(ExploreSettings)}
    changed = {
        name: getattr(settings, name) for name in defaults if getattr(settings, name) != defaults[name]
    }
    arguments = "".join(f"    {name}={value!r},\n" for name, value in changed.items())
    return (
        "from bias_core.services import Services\n"
        "from bias_core.studies.explore import explore\n"
        "from bias_core.studies.explore_types import ExploreSettings\n"
        "from bias_core.types import Attribute\n\n"
        f"settings = ExploreSettings(\n{arguments})\n"
        "*_, report = explore(settings, Services())\n"
    )


def attribute_text(attribute: Attribute) -> str:
    """An attribute as ``--attribute`` takes it."""
    parts = [attribute.name, attribute.positive, attribute.negative]
    if attribute.reference is not None:
        parts += [repr(attribute.reference), attribute.reference_source]
    return "|".join(parts).rstrip("|")
