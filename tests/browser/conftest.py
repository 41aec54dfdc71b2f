"""A headless Chromium and a copy of axe-core, where this machine has or can get them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.served import Served, served

__all__ = ["served"]

ROOT = Path(__file__).parent.parent.parent
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE_MS = int(os.environ.get("BROWSER_PATIENCE_MS", "60000"))  # more on a machine that is busy


def _chromium() -> str | None:
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        except Error as error:
            pytest.skip(f"BROWSER TESTS SKIPPED: no Chromium could be started ({str(error).splitlines()[0]})")
        yield browser
        browser.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that failed tells what stood on its pages."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if call.when == "call" and report.failed and "visit" in getattr(item, "funcargs", {}):
        for context in item.funcargs["visit"].contexts:
            for page in context.pages:
                fields = page.evaluate("[...document.querySelectorAll('input')].map(i => `${i.id} ${i.value}`)")
                report.sections.append((page.url, f"{page.inner_text('body')[:6000]}\n{fields}"))


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Callable[..., Any]]:
    """Open the app as a new visitor; every visitor has a browser profile of its own."""
    contexts = []

    def open_page(*, width: int = 1280, scheme: str = "light", query: str = "") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(served.url + query)
        page.wait_for_selector("[role=tab]" if query else "#generate")
        page.wait_for_function("localStorage.getItem('t2i-bias-visitor')")  # the page's first events are over
        return page

    open_page.contexts = contexts  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe() -> Path:
    """axe-core from node_modules; fetched once where npm can, else the test is skipped."""
    if not AXE.is_file() and shutil.which("npm"):
        command = ["npm", "install", "--no-save", "--no-package-lock", "--prefix", str(ROOT), "axe-core@4"]
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    if not AXE.is_file():
        pytest.skip("ACCESSIBILITY NOT CHECKED: no axe-core; run npm install --no-save axe-core")
    return AXE
