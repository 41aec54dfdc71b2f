"""What holds for every tab: accessibility, the keyboard, and visitors that stay apart."""

import pytest

from bias_core.app.build import TABS
from tests.browser.doing import explore, open_accordion, run_preset, serious, settle, switch

pytestmark = pytest.mark.browser

KEYS = ["explore", *(tab.key for tab in TABS)]
PRESET = "Science and arts, male and female"
# The panel that is open; the tabs before it and the foot of the page are the same in all.
OPEN_JS = """() => document.querySelectorAll('[role=tabpanel]').forEach(
  (panel) => panel.toggleAttribute('data-open', Boolean(panel.offsetParent)))"""


def show_association(page):
    """One tab that has results."""
    switch(page, "association")
    if not page.is_visible("#association-results table"):
        run_preset(page, "association", PRESET, "numbers", "by-attribute", "details")


@pytest.mark.parametrize("device", ["desk", "phone"])
def test_axe_finds_nothing_serious_in_any_tab_and_none_is_too_wide(request, axe, device):
    page = request.getfixturevalue(device)
    width, wrong = page.viewport_size["width"], {}

    def look(key, part):
        page.evaluate(OPEN_JS)
        if found := serious(page, axe, part):
            wrong[key] = found
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wrong[f"{key} is too wide"] = page.evaluate("document.documentElement.scrollWidth")

    show_association(page)
    for key in ["association", *(key for key in KEYS if key != "association")]:  # one tab has results
        switch(page, key)
        settle(page)
        look(key, "[role=tabpanel][data-open]")
    explore(page)
    page.locator("#explore-grid .thumbnail-item").nth(1).click()
    page.wait_for_selector("#explore-picture article")
    for name in ("attributes", "options", "explore-command"):
        open_accordion(page, name)
    look("explore with results", "html")
    assert not wrong


def test_a_new_visitor_sees_nobody_elses_work_and_a_reload_keeps_what_was_chosen(desk, visit):
    show_association(desk)
    explore(desk, "nurse")
    page = visit()
    assert page.is_visible(".welcome")
    page.wait_for_selector("#header .example-note")
    assert "nurse" not in page.inner_text("#header")
    assert "perceives" in page.inner_text(".content-note")
    page.locator(".content-note").get_by_role("button").click()
    assert not page.is_visible(".content-note")
    page.locator("#model input").click()
    page.get_by_role("option", name="Calibration world, renderer").click()
    page.locator("#condition input").click()
    page.get_by_role("option", name="extreme").click()
    switch(page, "runs")
    page.wait_for_selector("#runs-list .quiet")
    assert "Nothing yet" in page.inner_text("#runs-list")
    switch(page, "association")
    page.wait_for_selector("#association-run")
    page.wait_for_selector("#association-header .example-note")  # of whoever has no run there
    page.locator("#association-condition input").click()
    page.get_by_role("option", name="extreme").click()
    page.wait_for_timeout(1000)

    page.reload()
    page.wait_for_function("document.querySelector('#association-condition input')?.value === 'extreme'")
    assert not page.is_visible(".content-note")
    switch(page, "explore")
    page.wait_for_function("document.querySelector('#condition input').value === 'extreme'")
    assert page.input_value("#model input") == "Calibration world, renderer"
    explore(page, "doctor")
    assert "nurse" not in page.inner_text("#header")

    assert "nurse" in desk.inner_text("#header")
    desk.get_by_role("button", name="Picture 2", exact=True).first.click()
    desk.wait_for_selector("#explore-picture article[aria-label='Picture 2']")
    assert "nurse" in desk.inner_text("#explore-picture")
    switch(desk, "association")
    assert desk.input_value("#association-condition input") == "published"
    assert desk.is_visible("#association-results table")


WALKED = ("association", "paired", "objects", "internal", "origins", "label", "runs", "calibration")
# Numbers what can be pressed in the open tab, and brings the focus before it; how much that is.
BEGIN_JS = """() => {
  const panel = [...document.querySelectorAll('[role=tabpanel]')].find((one) => one.offsetParent);
  const all = [...panel.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
  const shown = all.filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.disabled
    && one.getBoundingClientRect().width > 1);
  document.querySelectorAll('[data-walk]').forEach((one) => delete one.dataset.walk);
  shown.forEach((one, i) => { one.dataset.walk = i; });
  document.querySelector('#tabs [role=tab][aria-selected=true]').focus();
  return shown.length;
}"""
# Its number, "" outside of the tab, "lost" where nothing has the focus, and what is wrong with how it stands there.
AT_JS = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
  if (at === document.body) return ['lost', ''];
  const isSeen = box.width > 1 && box.bottom > 0 && box.top < innerHeight;
  const hasRing = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return [at.dataset.walk ?? '', isSeen && hasRing ? '' : `${at.tagName} ${at.ariaLabel || at.innerText} ${isSeen}`];
}"""
LEFT_OUT_JS = """(reached) => [...document.querySelectorAll('[data-walk]')]
  .filter((one) => one.checkVisibility() && !reached.includes(one.dataset.walk))
  .map((one) => `${one.tagName} ${one.id} ${one.ariaLabel || one.innerText}`)"""


def test_every_control_of_every_tab_is_reached_by_the_tab_key_and_shows_it(visit):
    page = visit()
    wrong = {}
    for key in WALKED:
        switch(page, key)
        page.wait_for_selector("#label-demo [data-answer]" if key == "label" else f"#{key}-header h2")
        settle(page)
        n, reached = page.evaluate(BEGIN_JS), []
        for _ in range(n + 15):  # there are the other tabs before it
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
