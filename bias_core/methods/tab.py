"""The Methods tab: a card per measure, the models, and what this app keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import gradio as gr

from bias_core.methods.view import SEARCH_JS, about_html, methods_html, model_cards, models_html
from bias_core.metrics.cards import METRICS
from bias_core.ui.messages import question_html

if TYPE_CHECKING:
    from bias_core.services import Services

_QUESTION = "What does each number mean, where does it come from, and what can it not tell?"
_CAUTION = (
    "A card per measure: its formula, its range, what “no bias” reads, and its limits. Below them: the "
    "models, and what is stored."
)


class MethodsTab:
    """Everything to read; nothing here runs."""

    key: ClassVar = "methods"
    title: ClassVar = "Methods"
    place: ClassVar = 100

    def __init__(self, services: Services) -> None:
        self.services = services

    def build_memory(self) -> None:
        """Nothing is chosen here."""

    def build(self, demo: gr.Blocks, visitor: Any) -> None:  # noqa: ARG002
        """The tab; called inside of its ``gr.Tab``."""
        settings = self.services.settings
        gr.HTML(question_html(_QUESTION, _CAUTION))
        gr.HTML(methods_html(METRICS.values()), js_on_load=SEARCH_JS, elem_id="measures")
        with gr.Column(elem_classes="card"):
            gr.HTML(models_html(self.services), elem_id="models")
            for title, text in model_cards(settings.assets_dir):
                with gr.Accordion(f"Model card: {title}", open=False, elem_classes="more"):
                    gr.Markdown(text)
        with gr.Column(elem_classes="card"):
            gr.HTML(about_html(settings), elem_id="about")
