"""The look of the app: flat surfaces, IBM Plex, and one blue that always means "measured"."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from bias_core.ui.templates import STATIC

CSS: Path = STATIC / "app.css"
FAVICON: Path = STATIC / "favicon.svg"


def build_theme() -> gr.themes.Base:
    """Light and dark in one theme; fonts come with Gradio, so nothing is fetched from elsewhere.

    Weight 700, for the files of weight 600 that Gradio ships lack most letters.
    """
    look = json.loads((STATIC / "theme.json").read_text(encoding="utf-8"))
    hues = {name: gr.themes.Color(**shades, name=name) for name, shades in look["hues"].items()}
    theme = gr.themes.Base(
        primary_hue=hues["measured"],
        secondary_hue=hues["measured"],
        neutral_hue=hues["slate"],
        radius_size=gr.themes.sizes.radius_sm,
        font=(gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"),
        font_mono=(gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace"),
    )
    return theme.set(**look["colours"])
