"""The page as a whole: its look, what stands above the tabs, and what it remembers and does by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping

import gradio as gr

from bias_core.ui.links import LINK_NAMES, OPTION
from bias_core.ui.templates import STATIC, render, script

CSS, FAVICON = STATIC / "app.css", STATIC / "favicon.svg"
HEADER = render("header")


def header_js(titles: Mapping[str, str], tips: Mapping[str, str]) -> str:
    """What the page does by itself; ``titles`` of the tabs by their keys, ``tips`` of buttons by their id."""
    return script("page", titles=titles, tips=tips, linkNames=LINK_NAMES, optionPrefix=OPTION)


def address_js(key: str) -> str:
    """The address names the tab that was chosen."""
    return f"() => window.nameTab?.('{key}')"


LINK_IS_READ_JS = "() => { window.linkIsRead = true; }"
ABSOLUTE_JS = "(link) => link && link.startsWith('?') ? new URL(link, location.href).href : link"


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
