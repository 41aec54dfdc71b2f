"""The models and readers that are offered, and what this app is made of and keeps."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bias_core.studies.explore_plan import library_versions

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
    return (
        "<h3>Models that draw</h3>"
        + _table(("model", "weights", "licence", "steps", "can show each step", "note"), models, "Models")
        + '<p class="quiet">Any other model in diffusers layout works too: type its org/name, or a local '
        "folder, where a model is asked for.</p><h3>Readers that look at pictures</h3>"
        + _table(("reader", "weights", "library", "note"), readers, "Readers")
    )


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
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in versions.items())
    hub = "never" if settings.offline else "only for models that you choose"
    kept = "".join(f"<li>{text}</li>" for text in _kept(settings))
    return (
        f'<h3>What is stored</h3><ul class="keep">{kept}<li>A model hub is asked {hub}. No statistics of use '
        "are collected.</li></ul>"
        "<h3>Licences</h3><p>The program, its calibration world and the weights trained on it: Apache-2.0. "
        "Models that are downloaded have licences of their own, in the table above. Words, rates and numbers "
        "of the papers are cited where they are used.</p>"
        f'<h3>Versions</h3><dl class="versions">{listed}</dl>'
    )


def _kept(settings: Settings) -> tuple[str, ...]:
    return (
        f"On the server: the pictures that were drawn, up to {settings.cache_gb:g} GB, then the least "
        "recently used ones go; what readers made of them; and the prompts, settings and report of each run, "
        "under a random key that only your browser knows, until you delete it under Runs. Labels that people "
        "give stay. Nobody is asked for a name.",
        "Files you upload or take along: until you leave, at most about two hours.",
        "In this browser: that key, the model, condition and reader you chose last, and that you closed the "
        "note on top.",
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> str:
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(c)}</td>" for c in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f'<table class="scores plain told"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
