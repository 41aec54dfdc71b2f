"""A visitor who comes back: the browser keeps the key, the page knows the visitor again by it."""

from __future__ import annotations

from typing import Any

import gradio as gr

from bias_core.ui.messages import user_errors
from bias_core.ui.run_turns import address_of
from bias_core.ui.visitor import Visitor

_STORAGE_KEY = "t2i-bias-visitor"
_SECRET = "t2i-bias-explorer-visitor-1"  # hides the key from a passing look; it is no password


def build_visitor(demo: gr.Blocks) -> tuple[Any, Any]:
    """The visitor's state, and the event that comes once it is known whose it is.

    Called outside of the tabs: what the browser stores is read only for what stands on the page.
    """
    visitor = gr.State(Visitor(), delete_callback=Visitor.leave)
    stored = gr.BrowserState("", storage_key=_STORAGE_KEY, secret=_SECRET)
    quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    return visitor, demo.load(on_arrive, [visitor, stored], stored, **quiet)


def on_arrive(visitor: Visitor, key: str | None, request: gr.Request | None = None) -> str:
    """Know the visitor again by the key that the browser kept, or give it one to keep."""
    visitor.address = address_of(request)
    with user_errors():  # what is no key is not taken for one
        if key:
            visitor.key = key
    return visitor.key
