"""Every result page: soon there, its order, its height while folded, and what is seen without scrolling."""

import time

import pytest

from tests.browser.doing import explore, settle, switch
from tests.browser.timing import slowdown

pytestmark = pytest.mark.browser

TALLEST = {"desk": 2200, "phone": 3500}
FOLDS = ("The numbers", "By attribute", "Details", "Take it with you")
TABS = ("association", "paired", "objects", "internal", "origins", "runs", "calibration")
TITLES_JS = """(results) => [...document.querySelectorAll(`${results} .fold > button`)]
  .filter((one) => one.offsetParent).map((one) => one.innerText.split('\\n')[0].trim())"""
# What lies wholly within the window, once the headline was brought to its top.
SEEN_JS = """async ([header, lead]) => {
  document.querySelector(header).scrollIntoView();
  await new Promise((done) => setTimeout(done, 300));
  const seen = (node) => {
    const box = node.getBoundingClientRect();
    return box.height && box.top >= -1 && box.bottom <= 901;
  };
  const pictures = [...document.querySelectorAll(`${lead} .thumbnail-item img, .film-strip img`)].filter(seen);
  const plots = [...document.querySelectorAll(`${lead} svg.plot, .film-plot svg`)].filter(seen);
  return [seen(document.querySelector(`${header} h2`)), pictures.length, plots.length];
}"""


@pytest.mark.parametrize("device", ["desk", "phone"])
def test_no_folded_result_page_is_tall_and_its_order_is_the_same_everywhere(visit, device):
    page = visit(**({"width": 390, "scheme": "dark"} if device == "phone" else {}))
    heights, wrong = {}, {}
    if device == "desk":
        page.set_viewport_size({"width": 1280, "height": 900})

    def look(key, header, results):
        page.wait_for_selector(f"{header} h2")
        page.wait_for_selector(f"#{key}-plot svg:visible, .film-plot svg:visible")
        settle(page)
        name = key if key not in heights else f"{key}, a run"
        heights[name] = page.evaluate("document.documentElement.scrollHeight")
        titles = page.evaluate(TITLES_JS, results)
        if titles != [title for title in FOLDS if title in titles] or FOLDS[0] not in titles:
            wrong[name] = titles
        headline, n_pictures, n_plots = page.evaluate(SEEN_JS, [header, f"#{key}-lead"])
        if device == "desk" and not (headline and n_plots and (n_pictures >= 8 or key == "calibration")):
            wrong[f"{name}: seen at once"] = (headline, n_pictures, n_plots)

    look("explore", "#header", "#results")
    for key in TABS:
        opened = time.monotonic()
        switch(page, key)
        page.wait_for_selector(f"#{key}-header .example-note:visible")
        assert time.monotonic() - opened < 3 * slowdown()
        look(key, f"#{key}-header", f"#{key}-results")
    switch(page, "runs")
    page.click("#compare-runs")
    page.wait_for_function("/Compared/.test(document.querySelector('#runs-status').innerText)")
    look("runs", "#runs-header", "#runs-results")
    explore(page)
    page.locator("#explore-fold-numbers > button").click()
    look("explore", "#header", "#results")
    assert not wrong, heights
    assert max(heights.values()) <= TALLEST[device], heights
