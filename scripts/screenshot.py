"""``PYTHONPATH=. python scripts/screenshot.py URL FILE``: the picture of the README, taken from a running app."""

from __future__ import annotations

import sys
from typing import Any

from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, _chromium


def take(url: str, path: str) -> None:
    """Run the default exploration and photograph the upper part of the page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1180})
        page.goto(url)
        page.wait_for_selector("#generate")
        choose_model(page, "renderer")
        page.click("#generate")
        page.wait_for_selector("#results table", timeout=120_000)
        page.mouse.move(0, 0)
        page.wait_for_timeout(800)
        page.screenshot(path=path)
        browser.close()


def choose_model(page: Any, part: str) -> None:
    """Pick the model whose name contains ``part``."""
    page.click("#model input")
    page.locator("[role=option]", has_text=part).click()
    page.wait_for_timeout(500)


if __name__ == "__main__":
    take(sys.argv[1], sys.argv[2])
