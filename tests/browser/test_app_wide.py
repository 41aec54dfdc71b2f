"""Rules for every tab: accessibility, order and height, the keyboard, and visitors that stay apart."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bias_core.app.build import TABS
from tests.browser.conftest import DEVICES, PATIENCE_MS
from tests.browser.doing import PAPERS, explore, open_accordion, prefix_of, run_preset, serious, settle, switch, unfold
from tests.browser.timing import slowdown

pytestmark = pytest.mark.browser

KEYS = [tab.key for tab in TABS]  # Explore first
PRESET = "Science and arts, male and female"
# The panel that is open; the tabs before it and the foot of the page are the same in all.
OPEN_JS = """() => document.querySelectorAll('[role=tabpanel]').forEach(
  (panel) => panel.toggleAttribute('data-open', Boolean(panel.offsetParent)))"""
TALLEST = {"desk": 2200, "phone": 4400}  # a phone has eight rows of two pictures, each half as wide as the page
FOLDS = ("The numbers", "By attribute", "Look closer", "Details", "Quote and reproduce")
RESULTS = (*PAPERS, "runs", "calibration")
TITLES_JS = """(results) => [...document.querySelectorAll(`${results} .fold > button`)]
  .filter((one) => one.offsetParent).map((one) => one.innerText.split('\\n')[0].trim())"""
# What lies wholly within the window, once the headline was brought to its top.
SEEN_JS = """async ([header, lead]) => {
  document.querySelector(header).scrollIntoView();
  for (let last = -1, end = Date.now() + 3000; last !== scrollY && Date.now() < end;) {  // the page may scroll itself
    last = scrollY;
    await new Promise((done) => setTimeout(done, 300));
  }
  const seen = (node) => {
    const box = node.getBoundingClientRect();
    return box.height && box.top >= -1 && box.bottom <= 901;
  };
  const pictures = [...document.querySelectorAll(`${lead} .thumbnail-item img, .film-strip img`)].filter(seen);
  const plots = [...document.querySelectorAll(`${lead} :is(svg.plot, .arms-chart), .film-plot svg`)].filter(seen);
  return [seen(document.querySelector(`${header} h2`)), pictures.length, plots.length];
}"""


class Walk:
    """Findings on a way through the tabs: heights of the page, and in ``wrong`` every fault."""

    def __init__(self, page, axe, device):
        self.page, self.axe, self.device = page, axe, device
        self.heights, self.wrong = {}, {}

    def result(self, key, header, results):
        page = self.page
        page.wait_for_selector(f"{header} h2")
        page.wait_for_selector(f"#{prefix_of(key)}-plot :is(svg, .arms-chart):visible, .film-plot svg:visible")
        settle(page)
        name = key if key not in self.heights else f"{key}, a run"
        self.heights[name] = page.evaluate("document.documentElement.scrollHeight")
        titles = page.evaluate(TITLES_JS, results)
        if titles != [title for title in FOLDS if title in titles] or FOLDS[0] not in titles:
            self.wrong[name] = titles
        headline, n_pictures, n_plots = page.evaluate(SEEN_JS, [header, f"#{prefix_of(key)}-lead"])
        if self.device == "desk" and not (headline and n_plots and (n_pictures >= 8 or key == "calibration")):
            self.wrong[f"{name}: seen at once"] = (headline, n_pictures, n_plots)

    def everything(self, key, part="[role=tabpanel][data-open]"):
        page = self.page
        settle(page)
        page.evaluate(OPEN_JS)
        if found := serious(page, self.axe, part):
            self.wrong[f"{key}: axe"] = found
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > page.viewport_size["width"]:
            self.wrong[f"{key}: too wide"] = width


@pytest.mark.parametrize("device", ["desk", pytest.param("phone", marks=pytest.mark.slow)])
def test_every_tab_is_accessible_fits_the_window_and_has_its_result_in_one_order_and_not_too_tall(visit, axe, device):
    page = visit(**DEVICES[device])
    if device == "desk":
        page.set_viewport_size({"width": 1280, "height": 900})
    walk = Walk(page, axe, device)
    walk.result("explore", "#header", "#results")
    for key in KEYS[1:]:
        opened = time.monotonic()
        switch(page, key)
        if key in RESULTS:
            page.wait_for_selector(f"#{prefix_of(key)}-header .example-note:visible")
            assert time.monotonic() - opened < 3 * slowdown()
            walk.result(key, f"#{prefix_of(key)}-header", f"#{prefix_of(key)}-results")
        if key == "association":
            unfold(page, key, "numbers", "by-attribute", "details")
        if key == "label":
            page.wait_for_selector("#label-origin input")
        walk.everything(key)
        opened = page.locator("#paper-results .fold > button.open:visible")  # the papers share them
        while opened.count():
            opened.first.click()
    switch(page, "runs")
    page.click("#compare-runs")
    page.wait_for_function("/Compared/.test(document.querySelector('#runs-status').innerText)")
    walk.result("runs", "#runs-header", "#runs-results")
    explore(page)
    page.locator("#explore-fold-numbers > button").click()
    walk.result("explore", "#header", "#results")
    unfold(page, "explore", "numbers")
    page.locator("#explore-grid .thumbnail-item").nth(1).click()
    page.wait_for_selector("#explore-picture article")
    walk.everything("a picture over the page", "html")
    page.keyboard.press("Escape")
    for name in ("options", "explore-command"):
        open_accordion(page, name)
    walk.everything("explore with results", "html")
    assert not walk.wrong, walk.heights
    assert max(walk.heights.values()) <= TALLEST[device], walk.heights


@pytest.mark.slow
def test_a_new_visitor_sees_nobody_elses_work_and_a_reload_keeps_what_was_chosen(desk, visit):
    run_preset(desk, "association", PRESET, "numbers")
    explore(desk, "nurse")
    page = visit()
    page.wait_for_selector("#header .example-note")
    assert "nurse" not in page.inner_text("#header")
    assert "perceives" in page.inner_text(".content-note")
    page.locator(".content-note").get_by_role("button").click()
    assert not page.is_visible(".content-note")
    page.locator("#model input").click()
    page.get_by_role("option", name="Calibration world, renderer").click()
    page.locator("#condition input").click()
    page.get_by_role("option", name="extreme: ").click()
    switch(page, "runs")
    page.wait_for_selector("#runs-list .quiet")
    assert "No runs yet" in page.inner_text("#runs-list")
    switch(page, "association")
    page.wait_for_selector("#paper-run")
    page.wait_for_selector("#paper-header .example-note")  # of whoever has no run there
    page.locator("#paper-condition input").click()
    page.get_by_role("option", name="extreme: ").click()
    page.wait_for_timeout(1000)

    page.reload()
    page.wait_for_function("document.querySelector('#paper-condition input')?.value.startsWith('extreme: ')")
    assert not page.is_visible(".content-note")
    switch(page, "explore")
    page.wait_for_function("document.querySelector('#condition input').value.startsWith('extreme: ')")
    assert page.input_value("#model input") == "Calibration world, renderer"
    explore(page, "doctor")
    assert "nurse" not in page.inner_text("#header")

    assert "nurse" in desk.inner_text("#header")
    desk.get_by_role("button", name="Picture 2", exact=True).first.click()
    desk.wait_for_selector("#explore-picture article[aria-label='Picture 2']")
    assert "nurse" in desk.inner_text("#explore-picture")
    switch(desk, "association")
    assert desk.input_value("#paper-condition input").startswith("published: ")
    assert desk.is_visible("#paper-results table")


WALKED = (*PAPERS, "label", "runs", "calibration")
# Numbers what can be pressed in the open tab, and brings the focus before it; how much that is.
BEGIN_JS = """() => {
  const panels = [...document.querySelectorAll('[role=tabpanel]')].filter((one) => one.offsetParent);
  const panel = panels.find((one) => one.querySelector('.ask')?.offsetParent) ?? panels.at(-1);  // papers share theirs
  const controls = 'a[href], button:not([role=tab]), input, select, textarea, summary, [tabindex="0"]';
  const all = [...panel.querySelectorAll(controls)];
  const shown = all.filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled
    && one.getBoundingClientRect().width > 1);
  document.querySelectorAll('[data-walk]').forEach((one) => delete one.dataset.walk);
  shown.forEach((one, i) => { one.dataset.walk = i; });
  document.querySelector(`#tabs [role=tab][data-tab-id=${window.openKey()}]`).focus();
  return shown.length;
}"""
# Its number, "" outside of the tab, "lost" where nothing has the focus, and what is wrong with how it stands there.
AT_JS = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  const style = getComputedStyle(at.role === 'combobox' ? at.closest('.wrap') : at);  // its whole field has the ring
  if (at === document.body) return ['lost', ''];
  const isSeen = box.width > 1 && box.bottom > 0 && box.top < innerHeight;
  const hasRing = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return [at.dataset.walk ?? '', isSeen && hasRing ? '' : `${at.tagName} ${at.ariaLabel || at.innerText} ${isSeen}`];
}"""
LEFT_OUT_JS = """(reached) => [...document.querySelectorAll('[data-walk]')]
  .filter((one) => one.checkVisibility() && !reached.includes(one.dataset.walk))
  .map((one) => `${one.tagName} ${one.id} ${one.ariaLabel || one.innerText}`)"""


@pytest.mark.slow
def test_every_control_of_every_tab_is_reached_by_the_tab_key_and_shows_it(visit):
    page = visit()
    wrong = {}
    for key in WALKED:
        switch(page, key)
        page.wait_for_selector("#label-origin input" if key == "label" else f"#{prefix_of(key)}-header h2")
        page.wait_for_function("[...document.images].every((one) => one.complete || one.loading === 'lazy')")
        settle(page)
        n, reached = page.evaluate(BEGIN_JS), []
        for _ in range(n + 15):  # there are the other tabs before it
            page.keyboard.press("Tab")
            where, problem = page.evaluate(AT_JS)
            if problem:  # what came above it just then, on a busy machine, may have moved it out of sight
                settle(page)
                page.keyboard.press("Shift+Tab")
                page.keyboard.press("Tab")
                where, problem = page.evaluate(AT_JS)
            reached.append(where)
            if where == "lost" or problem:
                wrong[f"{key} {len(reached)}"] = where, problem
            if reached.count("") > 12 or (where == "" and len(set(reached)) > n):
                break
        assert n > 10
        if left_out := page.evaluate(LEFT_OUT_JS, reached):
            wrong[key] = left_out
    assert not wrong


class Around(BaseHTTPRequestHandler):
    """A page of another site around the app."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(f'<iframe src="{self.server.inside}/" width="1100" height="900"></iframe>'.encode())

    def log_message(self, *_args):
        pass


def test_in_another_sites_frame_that_is_denied_storage_the_page_works(browser, served):
    page, errors = browser.new_context().new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    with ThreadingHTTPServer(("127.0.0.1", 0), Around) as around:
        around.inside = served.url
        threading.Thread(target=around.serve_forever, daemon=True).start()
        page.goto(f"http://localhost:{around.server_port}/")
        frame = page.frame_locator("iframe")
        frame.locator("#concept textarea, #concept input").first.fill("nurse", timeout=PATIENCE_MS)
        frame.locator("#generate").click()
        frame.locator("#header h2").wait_for(timeout=PATIENCE_MS)
        around.shutdown()
    denied = "Object.hasOwn(Object.getOwnPropertyDescriptor(window, 'localStorage'), 'value')"
    assert page.frames[1].evaluate(denied)
    assert errors == []
    page.context.close()


def test_the_page_looks_for_no_component_that_it_does_not_have(desk):
    counts = desk.evaluate("""() => {
        const {components, dependencies, page} = window.gradio_config;
        const unseen = components.filter(one => one.type === 'api').map(one => one.id);
        const shown = [...page[''].components, ...page[''].layout.children.map(child => child.id)];
        const targets = dependencies.flatMap(event => [...event.targets]);
        return [unseen.length, targets.length, shown.filter(id => unseen.includes(id)).length,
                targets.filter(([id]) => id === null).length];
    }""")
    assert min(counts[:2]) > 100
    assert counts[2:] == [0, 0]
