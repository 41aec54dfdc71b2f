"""Actions of the browser tests. The page may be in use already: each of these says what it starts from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PAPERS = ("association", "paired", "objects", "internal", "origins")  # they share a form and a result
# From the click until the tab's panel is there and painted.
SWITCH_JS = """async (key) => {
  const started = performance.now();
  window.openTab(key);
  const chosen = () => window.openKey() === key;
  for (let i = 0; i < 300 && !chosen(); i++) await new Promise(requestAnimationFrame);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - started;
}"""
SETTLE_JS = """async () => {
  const frame = window.eachFrame ?? requestAnimationFrame;  // of the raters' page
  // A page behind another one may get no frames and no idle moments.
  const next = (done) => { frame(done); setTimeout(done, 1000); };
  for (let i = 0; i < 8; i++) await new Promise((done) => next(() => requestIdleCallback(done, {timeout: 1000})));
}"""
# A run is over once its status said that it waits for a turn ("…") and then no longer does, and its button is back.
FOLLOW_JS = """([status, run, stop]) => {
  const words = () => document.querySelector(status).textContent;
  const seen = (button) => Boolean(document.querySelector(button)?.offsetParent);
  window.runBegan = false;
  const observer = new MutationObserver(() => {
    if (!words().includes('…')) return;
    window.runBegan = true;
    observer.disconnect();
  });
  observer.observe(document.body, {childList: true, subtree: true, characterData: true});
  window.runIsOver = () => window.runBegan && !words().includes('…') && seen(run) && !seen(stop);
}"""


def prefix_of(key: str) -> str:
    """Return how the element ids of a tab's form and result begin."""
    return "paper" if key in PAPERS else key


def switch(page: Any, key: str) -> float:
    """Open a tab and its group; return how many milliseconds it took until its panel was there."""
    took = float(page.evaluate(SWITCH_JS, key))
    if key in PAPERS:
        wait_for_paper(page, key)
    return took


def wait_for_paper(page: Any, key: str) -> None:
    """Wait until the form that the papers share is that of this one."""
    page.wait_for_selector(f"#paper-chips [data-chip^='{key}-']")
    page.wait_for_function("!document.getElementById('paper-ask').inert")
    page.wait_for_timeout(400)  # the page looks at a form three times a second; what stands there first is no edit
    settle(page)


def settle(page: Any) -> None:
    """Wait until the page has nothing to do, and has painted, several times in a row."""
    page.evaluate(SETTLE_JS)


def open_accordion(page: Any, name: str) -> None:
    """Open what is folded away, and wait until Gradio has put its first values in.

    It does so in a frame after the fields can be seen; what a script types in between is lost.
    """
    if page.locator(f"#{name} > button.open").count():
        return
    page.locator(f"#{name} > button").first.click()
    page.wait_for_selector(f"#{name} .block:visible")
    settle(page)


def follow_run(page: Any, key: str) -> None:
    """Let the page note when a run of this tab that is begun from now on has ended: ``runIsOver()``."""
    own = (f"{prefix_of(key)}-{part}" for part in ("status", "run", "stop"))
    parts = ("status", "generate", "stop") if key == "explore" else own
    page.evaluate(FOLLOW_JS, [f"#{part}" for part in parts])


@contextmanager
def a_run(page: Any, key: str) -> Iterator[None]:
    """Inside, a run of this tab is begun; it has ended after. What an earlier run left on the page does not count."""
    follow_run(page, key)
    yield
    page.wait_for_function("window.runIsOver()")


def explore(page: Any, concept: str = "doctor") -> None:
    """Sixteen pictures of a concept, unless it is what the form has."""
    draw_with_model(page)
    for field, value in (("#concept textarea, #concept input", concept), ("#n-images input", "16")):
        if page.input_value(field) != value:
            page.fill(field, value)
    with a_run(page, "explore"):
        page.click("#generate")
    page.wait_for_selector("#header h2")
    unfold(page, "explore", "numbers")


def draw_with_model(page: Any) -> None:
    """Open Explore for pictures of a model, which an earlier test may have left for one's own."""
    switch(page, "explore")
    if not page.is_visible("#n-images input"):
        page.click("#explore-source label:has-text('Draw with a model')")
        page.wait_for_selector("#n-images input")


def unfold(page: Any, key: str, *names: str) -> None:
    """Open folds of a result page, each before what is in the one above has come, and wait for what is in them."""
    settle(page)  # a new report closes them
    folds = [f"#{prefix_of(key)}-fold-{name}" for name in names]
    for fold in folds:
        if not page.locator(f"{fold} > button.open").count():
            page.locator(f"{fold} > button").first.click()
    for fold in folds:
        page.wait_for_function("(fold) => document.querySelector(fold).innerText.length > 40", arg=fold)


def press_chip(page: Any, part: str, name: str) -> None:
    """Press a preset or an example of :class:`ChipsPart`, which may be folded away."""
    chip = page.locator(f"#{part}-chips button").filter(has_text=re.compile(f"^{re.escape(name)}$"))
    if not chip.is_visible():
        page.click(f"#{part}-chips summary")
    chip.click()


def run_preset(page: Any, key: str, name: str, *folds: str) -> None:
    """Fill in a preset of a tab, run it, and open these folds of its result."""
    switch(page, key)
    page.wait_for_selector(f"#{prefix_of(key)}-run")
    press_chip(page, prefix_of(key), name)
    page.wait_for_selector(f"#{prefix_of(key)}-status:has-text('Filled in')")
    with a_run(page, key):
        page.click(f"#{prefix_of(key)}-run")
    page.wait_for_selector(f"#{prefix_of(key)}-header h2")
    unfold(page, key, *folds)


def empty_upload(page: Any) -> None:
    """Explore, ready for pictures of one's own, as Runs opens it; those of an earlier test are taken out."""
    switch(page, "runs")
    page.click("#runs-import")
    page.wait_for_selector("#explore-own-pictures:visible")
    if page.is_visible("#explore-remove"):
        page.click("#explore-remove")
        page.wait_for_selector("#explore-found h3", state="detached")  # what was found in them goes a moment later
    page.wait_for_selector("#explore-upload input[type=file]", state="attached")


def violations(page: Any, axe: Path, part: str = "html") -> list[dict[str, Any]]:
    """Run axe on a part of the page; the policy of the raters' page would stop it as a script tag."""
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(axe.read_text(encoding="utf-8"))
    return list(page.evaluate("(part) => axe.run(part, {resultTypes: ['violations']}).then((r) => r.violations)", part))


def serious(page: Any, axe: Path, part: str = "html") -> dict[str, list[str]]:
    """Violations that keep people from using the page."""
    return {
        item["id"]: [node["html"][:160] for node in item["nodes"][:3]]
        for item in violations(page, axe, part)
        if item["impact"] in {"serious", "critical"}
    }
