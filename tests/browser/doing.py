"""What the browser tests do to the page."""

from __future__ import annotations

from typing import Any


def open_accordion(page: Any, name: str) -> None:
    """Open what is folded away, and wait until Gradio has put its first values in.

    It does so in a frame after the fields can be seen; what a script types in between is lost.
    """
    page.locator(f"#{name} > button").first.click()
    page.wait_for_timeout(600)
