"""Take every picture of the page for the README and ``docs/``: ``PYTHONPATH=. python scripts/take_pictures.py``.

The script starts the app with an empty data folder, or visits the one at the address that you give, and writes
``docs/screenshot.png`` and ``docs/pictures/*.webp``. Further arguments name the only pictures to take.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from PIL import Image
from playwright.sync_api import sync_playwright

from bias_core.world.scene import draw_scene
from tests.browser.conftest import FLAGS, PATIENCE_MS, _chromium
from tests.browser.doing import a_run, empty_upload, run_preset, settle, switch
from tests.ui.fakes import _portrait
from tests.ui.served import ROOT, _free_port, _wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WIDTH = 1280
LIMIT_BYTES = 150_000
_QUALITIES = (85, 75, 60, 45)  # of WebP; the first that fits


def explore(page: Any) -> None:
    """Wait for the example that the page opens with: a concept without and with planted bias."""
    page.wait_for_selector("#header h2")


def compare(page: Any) -> None:
    """Compare two concepts on the same seeds."""
    page.fill("#other input, #other textarea", "nurse")
    page.locator("#other input, #other textarea").blur()
    run(page, "doctor")
    to_top(page, "#header")


def study(page: Any) -> None:
    """Run a preset of a study."""
    run_preset(page, "association", "Science and arts, male and female")
    to_top(page, "#paper-header")


def own_pictures(page: Any) -> None:
    """Bring pictures, which the page lists before they are measured."""
    empty_upload(page)
    rng = Random(0)
    with TemporaryDirectory() as folder:
        for prompt in ("a photo of a nurse", "a photo of a mechanic"):
            for number in range(6):
                path = Path(folder) / "my pictures" / prompt / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                draw_scene(_portrait(rng), 128).save(path)
        (Path(folder) / "my pictures" / "notes.heic").write_bytes(b"")
        page.set_input_files("#explore-folder", Path(folder) / "my pictures")
        page.wait_for_selector("#explore-found h3")
        settle(page)
    to_top(page, "#explore-source")


def label(page: Any) -> None:
    """Prepare a labelling task of a run, with its pictures as raters will see them."""
    run(page, "doctor")
    switch(page, "label")
    choose(page, "input[aria-label='Run']:visible", "doctor")
    page.wait_for_selector(".seen-page img")  # the run has set a question
    choose(page, "input[aria-label='Which question']:visible", "one person")
    page.wait_for_selector(".seen-page:has-text('feminine')")


def runs(page: Any) -> None:
    """List two runs."""
    run(page, "nurse")
    run(page, "CEO")
    switch(page, "runs")
    page.wait_for_selector(".lab-book .lab-name")


def run(page: Any, concept: str) -> None:
    """Explore a concept with the renderer."""
    page.fill("#concept textarea, #concept input", concept)
    choose(page, "#model input", "renderer")
    with a_run(page, "explore"):
        page.click("#generate")
    page.wait_for_selector("#header h2")


def models(page: Any) -> None:
    """Open the menu of models."""
    page.click("#model input")
    page.wait_for_selector("[role=option]")


def calibration(page: Any) -> None:
    """Show the verdicts on the measures."""
    switch(page, "calibration")
    page.wait_for_selector("#calibration-verdicts:visible")


PICTURES: dict[str, tuple[Callable[[Any], None], int]] = {
    "screenshot.png": (explore, 1180),
    "pictures/compare.webp": (compare, 900),
    "pictures/study.webp": (study, 900),
    "pictures/own_pictures.webp": (own_pictures, 700),
    "pictures/label.webp": (label, 960),
    "pictures/runs.webp": (runs, 800),
    "pictures/models.webp": (models, 800),
    "pictures/calibration.webp": (calibration, 820),
}
"""The file below ``docs/``, what brings the page there, and the height of the picture."""


def choose(page: Any, menu: str, part: str) -> None:
    """Pick the entry of a menu whose name contains ``part``."""
    page.click(menu)
    page.locator("[role=option]", has_text=part).first.click()
    settle(page)


def to_top(page: Any, place: str) -> None:
    """Scroll until a part of the page is at the upper edge."""
    settle(page)
    page.evaluate("place => document.querySelector(place).scrollIntoView()", place)


def take(url: str, names: list[str]) -> None:
    """Write the pictures of the page at ``url``, each as a new visitor sees it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        for name in names:
            bring, height = PICTURES[name]
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
            page.set_default_timeout(PATIENCE_MS)
            page.goto(url)
            page.wait_for_selector("#generate")
            page.wait_for_function("localStorage.getItem('t2i-bias-visitor')")  # the page's first events are over
            settle(page)
            bring(page)
            page.mouse.move(0, 0)
            settle(page)
            page.wait_for_timeout(1000)  # pictures fade in
            picture = in_few_bytes(page.screenshot(), Path(name).suffix)
            (ROOT / "docs" / name).write_bytes(picture)
            print(f"docs/{name}: {len(picture):,} bytes", flush=True)
            page.close()
        browser.close()


def in_few_bytes(screenshot: bytes, suffix: str) -> bytes:
    """Return a screenshot as a PNG of 256 colours, or as a WebP of the best quality within the limit."""
    picture = Image.open(io.BytesIO(screenshot)).convert("RGB")
    tries = [{"format": "PNG", "optimize": True}] if suffix == ".png" else [
        {"format": "WEBP", "quality": quality, "method": 6} for quality in _QUALITIES
    ]  # fmt: skip
    for options in tries:
        small = io.BytesIO()
        (picture.quantize(256) if suffix == ".png" else picture).save(small, **options)
        if small.tell() <= LIMIT_BYTES:
            return small.getvalue()
    raise SystemExit(f"a picture has {small.tell():,} bytes, more than {LIMIT_BYTES:,}: make it lower")


@contextmanager
def running_app() -> Iterator[str]:
    """The address of an app of its own, with an empty data folder."""
    port = _free_port()
    with TemporaryDirectory() as folder:
        own = {"BIAS_DATA_DIR": folder, "GRADIO_SERVER_PORT": str(port), "BIAS_OFFLINE": "true"}
        app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=os.environ | own)
        try:
            _wait_for(f"http://127.0.0.1:{port}", app)
            yield f"http://127.0.0.1:{port}"
        finally:
            app.terminate()
            app.wait(timeout=20)


def main(arguments: list[str]) -> None:
    """Take the pictures that are named, or all, from the app at the given address, or from one of its own."""
    address = next((one for one in arguments if "://" in one), "")
    named = {one for one in arguments if one != address}
    names = [name for name in PICTURES if not named or Path(name).stem in named]
    if address:
        take(address, names)
    else:
        with running_app() as url:
            take(url, names)


if __name__ == "__main__":
    main(sys.argv[1:])
