"""The look of the app: flat surfaces, IBM Plex, and one blue that always means "measured"."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from bias_core.settings import ASSETS

CSS: Path = ASSETS / "app.css"
FAVICON: Path = ASSETS / "favicon.svg"

_BLUE = gr.themes.Color(
    c50="#eef6fd", c100="#d9ebfa", c200="#b3d6f4", c300="#85bdee", c400="#55a3e3", c500="#1d7ac4",
    c600="#0a5fa8", c700="#094e8a", c800="#0b3f6d", c900="#0c2f50", c950="#0a1f35", name="measured",
)  # fmt: skip
_SLATE = gr.themes.Color(
    c50="#f7f8f9", c100="#eef1f3", c200="#dde2e7", c300="#c3cbd3", c400="#93a0ac", c500="#66737f",
    c600="#4d5a66", c700="#37434e", c800="#1c262f", c900="#151d25", c950="#0e141a", name="slate",
)  # fmt: skip
_COLOURS = {
    "body_background_fill": "*neutral_50",
    "body_background_fill_dark": "*neutral_950",
    "body_text_color": "#14202b",
    "body_text_color_dark": "#e8edf2",
    "body_text_color_subdued": "*neutral_600",
    "body_text_color_subdued_dark": "#a5b3bf",
    "background_fill_primary": "#ffffff",
    "background_fill_primary_dark": "*neutral_900",
    "background_fill_secondary": "*neutral_100",
    "background_fill_secondary_dark": "*neutral_800",
    "block_background_fill": "#ffffff",
    "block_background_fill_dark": "*neutral_900",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_label_text_color": "*neutral_700",
    "block_label_text_color_dark": "*neutral_200",
    "block_title_text_color": "*neutral_700",
    "block_title_text_color_dark": "*neutral_200",
    "block_title_text_weight": "600",
    "block_info_text_color": "*neutral_600",
    "block_info_text_color_dark": "#a5b3bf",
    "border_color_primary": "*neutral_200",
    "border_color_primary_dark": "#2a3540",
    "input_background_fill": "#ffffff",
    "input_background_fill_dark": "*neutral_950",
    "input_border_color": "#8793a0",
    "input_border_color_dark": "#566575",
    "input_border_width": "1px",
    "input_border_color_focus": "*primary_600",
    "input_border_color_focus_dark": "*primary_300",
    "input_placeholder_color": "*neutral_500",
    "input_placeholder_color_dark": "#93a0ac",
    "button_primary_background_fill": "*primary_600",
    "button_primary_background_fill_hover": "*primary_700",
    "button_primary_background_fill_dark": "*primary_300",
    "button_primary_background_fill_hover_dark": "*primary_200",
    "button_primary_text_color": "#ffffff",
    "button_primary_text_color_dark": "*neutral_950",
    "button_secondary_background_fill": "#ffffff",
    "button_secondary_background_fill_hover": "*neutral_100",
    "button_secondary_background_fill_dark": "*neutral_800",
    "button_secondary_background_fill_hover_dark": "#2a3540",
    "button_secondary_border_color": "#8793a0",
    "button_secondary_border_color_dark": "#566575",
    "button_secondary_text_color": "#14202b",
    "button_secondary_text_color_dark": "#e8edf2",
    "button_cancel_background_fill": "#b3261e",
    "button_cancel_background_fill_hover": "#8f1d17",
    "button_cancel_background_fill_dark": "#f2b8b5",
    "button_cancel_background_fill_hover_dark": "#f6cfcd",
    "button_cancel_text_color": "#ffffff",
    "button_cancel_text_color_dark": "#3a0b08",
    "button_border_width": "1px",
    "button_transition": "background-color 0.12s",
    "link_text_color": "*primary_600",
    "link_text_color_dark": "*primary_300",
}


def build_theme() -> gr.themes.Base:
    """Light and dark in one theme; fonts come with Gradio, so nothing is fetched from elsewhere.

    Weight 700, for the files of weight 600 that Gradio ships lack most letters.
    """
    theme = gr.themes.Base(
        primary_hue=_BLUE,
        secondary_hue=_BLUE,
        neutral_hue=_SLATE,
        radius_size=gr.themes.sizes.radius_sm,
        font=(gr.themes.LocalFont("IBM Plex Sans", weights=(400, 700)), "system-ui", "sans-serif"),
        font_mono=(gr.themes.LocalFont("IBM Plex Mono", weights=(400, 700)), "ui-monospace", "monospace"),
    )
    return theme.set(**_COLOURS)
