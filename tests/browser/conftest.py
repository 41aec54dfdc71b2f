"""A headless Chromium and a copy of axe-core, where this machine has or can get them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ui.served import serving

ROOT = Path(__file__).parent.parent.parent
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    # A page that stands behind another one goes on.
    "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
]  # fmt: skip
PATIENCE_MS = int(os.environ.get("BROWSER_PATIENCE_MS", "180000"))  # the unit tests may run beside them
DEVICES = {"desk": {}, "phone": {"width": 390, "scheme": "dark"}}
FAILED = pytest.StashKey[bool]()
# What was pressed last on a page, for a test that failed.
PRESSED_JS = """window.pressed = [];
for (const kind of ['mousedown', 'click']) document.addEventListener(kind, ({target, timeStamp}) => {
  const words = (target.getAttribute?.('aria-label') || target.textContent).trim().slice(0, 40);
  const place = target.parentElement?.closest('[id]:not([id^=html-])')?.id;
  pressed.push(`${Math.round(timeStamp)} ms ${kind} ${target.localName} in #${place} ${words}`);
}, true);"""

# The page that Gradio shows while it loads leaves a loop that asks for every frame as long as the page is open.
FEW_FRAMES_JS = """window.eachFrame = window.requestAnimationFrame;
window.requestAnimationFrame = next => setTimeout(() => next(performance.now()), 50);"""


def _chromium():
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next(filter(None, found), None)


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """An app that serves this test session only, as it is started by its users: in a process of its own."""
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=_chromium(), args=FLAGS)
        except Error as error:
            pytest.skip(f"BROWSER TESTS SKIPPED: no Chromium could be started ({str(error).splitlines()[0]})")
        yield browser
        browser.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that failed tells what stood on its pages."""
    outcome = yield
    report = outcome.get_result()
    if call.when != "call" or not report.failed:
        return
    item.stash[FAILED] = True
    given = getattr(item, "funcargs", {})
    pages = [given[name] for name in DEVICES if name in given]
    pages += [page for context in getattr(given.get("visit"), "contexts", []) for page in context.pages]
    for page in pages:
        fields = page.evaluate("[...document.querySelectorAll('input, textarea')].map(i => `${i.id} ${i.value}`)")
        pressed = page.evaluate("[`now ${Math.round(performance.now())} ms`, ...window.pressed.slice(-8)].join('\\n')")
        report.sections.append((page.url, f"{pressed}\n{page.inner_text('body')[:6000]}\n{fields}"))


def open_page(browser, url, *, width=1280, scheme="light", query=""):
    """The app, opened by a new visitor: a browser profile of its own."""
    context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(PRESSED_JS + FEW_FRAMES_JS)
    page.goto(url + query)
    page.wait_for_selector("[role=tab]" if query else "#generate")
    page.wait_for_function("window.linkIsRead")  # which may open another tab
    page.wait_for_function("localStorage.getItem('t2i-bias-visitor')")  # the page's first events are over
    return page


@pytest.fixture
def visit(browser, served):
    """Open the app as a new visitor, which takes four seconds: ``desk`` and ``phone`` are open already."""
    contexts = []

    def as_new_visitor(**how):
        page = open_page(browser, served.url, **how)
        contexts.append(page.context)
        return page

    as_new_visitor.contexts = contexts
    yield as_new_visitor
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def lasting_pages(browser):
    """Pages that stay open, by device."""
    pages = {}
    yield pages
    for page in pages.values():
        page.context.close()


def _lend(device, request):
    pages = request.getfixturevalue("lasting_pages")
    if device not in pages:
        browser, served = request.getfixturevalue("browser"), request.getfixturevalue("served")
        pages[device] = open_page(browser, served.url, **DEVICES[device])
    page, errors = pages[device], []

    def note(error):
        errors.append(str(error))

    page.on("pageerror", note)
    yield page
    page.remove_listener("pageerror", note)
    if errors or request.node.stash.get(FAILED, False):  # the next test gets a new one
        pages.pop(device).context.close()
    assert not errors


@pytest.fixture
def desk(request):
    """A page of a wide and light screen that earlier tests may have used; no script of it may fail."""
    yield from _lend("desk", request)


@pytest.fixture
def phone(request):
    """The same, narrow and dark, of another visitor."""
    yield from _lend("phone", request)


@pytest.fixture(scope="session")
def axe():
    """axe-core from node_modules; fetched once where npm can, else the test is skipped."""
    if not AXE.is_file() and shutil.which("npm"):
        command = ["npm", "install", "--no-save", "--no-package-lock", "--prefix", str(ROOT), "axe-core@4"]
        subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    if not AXE.is_file():
        pytest.skip("ACCESSIBILITY NOT CHECKED: no axe-core; run npm install --no-save axe-core")
    return AXE
