"""The models and readers that are offered, and what this app is made of and keeps."""

from __future__ import annotations

import platform
import re
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bias_core.studies.running.run import library_versions
from bias_core.ui.templates import render

if TYPE_CHECKING:
    from bias_core.services import Services
    from bias_core.settings import Settings
    from bias_core.types import ModelInfo

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_HEADING = re.compile(r"^# (.+)$", re.M)


def models_html(services: Services) -> str:
    """Every generator and reader of the catalogue as a table."""
    models = [_model_row(info) for info in services.models()]
    readers = [
        (info.name, "built in" if info.embedded else "downloaded on first use", info.library, info.note)
        for info in services.encoders()
    ]
    return render("models", models=models, readers=readers)


def _model_row(info: ModelInfo) -> tuple[str, ...]:
    weights = "built in" if info.embedded else f"{info.download_gb:g} GB on first use"
    return (
        info.name,
        weights + (", gated" if info.gated else ""),
        info.licence,
        str(info.default_steps or "–"),
        "yes" if info.traceable else "no",
        info.note,
    )


def model_cards(assets: Path) -> list[tuple[str, str]]:
    """Title and Markdown text of the card of every built-in model."""
    cards = []
    for path in sorted((assets / "calibration").glob("*/README.md")):
        text = _FRONT_MATTER.sub("", path.read_text(encoding="utf-8")).strip()
        title = _HEADING.match(text)
        cards.append((title[1] if title else path.parent.name, text[title.end() :] if title else text))
    return cards


def about_html(settings: Settings) -> str:
    """Versions, licences, and what is stored of a visitor."""
    versions = {"python": platform.python_version(), "gradio": metadata.version("gradio")}
    versions |= library_versions()
    return render("about", settings=settings, versions=versions)
