"""Memory and disk of the app over 50 generations of one visitor: `python bench/session.py`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Error, sync_playwright

from bench.bars import bar, end
from tests.browser.conftest import FLAGS, _chromium
from tests.ui.served import serving

WARM_UP, RUNS = 5, 50
NEW_SEED = "#explore-fields [data-dice]"
CACHE_GB = 0.0002  # 200 kB: a few dozen of these pictures, so that the store has to let some go


def rss_mb(pid, kind="VmRSS"):
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(kind)) / 1e3


def n_kb(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e3


def generate(page):
    """Run one exploration on new seeds."""
    before = page.inner_text("#status")
    if not page.is_visible(NEW_SEED):  # a result folds the options
        page.locator("#options > button").first.click()
    page.click(NEW_SEED)
    page.click("#generate")
    page.wait_for_selector("#stop", state="visible")
    page.wait_for_selector("#generate", state="visible", timeout=120_000)
    if page.locator("#status [role=alert]").count():
        sys.exit(f"{before} -> {page.inner_text('#status')}")


def measure(page, served):
    page.goto(served.url)
    page.wait_for_function("window.linkIsRead")  # until then a link's form could replace this one
    page.fill("#n-images input", "8")
    page.press("#n-images input", "Tab")
    for run in range(WARM_UP + RUNS + 1):
        if run == WARM_UP:
            started = rss_mb(served.pid)
        generate(page)
    grown = rss_mb(served.pid) - started
    images = n_kb(served.data_dir / "images")
    print(f"{RUNS} generations: {started:.0f} MB grew by {grown:.0f} MB {bar(grown, most=100)}")
    print(f"pictures: {images:.0f} kB {bar(images, most=CACHE_GB * 1e6)}")
    for name in ("runs", "reports"):
        print(f"{name}: {n_kb(served.data_dir / name):.0f} kB")


def main():
    with (
        TemporaryDirectory() as folder,
        serving(Path(folder), BIAS_CACHE_GB=str(CACHE_GB)) as served,
        sync_playwright() as playwright,
    ):
        try:
            browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        except Error as error:
            print(f"not measured, no Chromium: {str(error).splitlines()[0]}")
            return
        measure(browser.new_page(), served)
        browser.close()


if __name__ == "__main__":
    main()
    end()
