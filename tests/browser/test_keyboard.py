"""Every tab but Explore's form by the Tab key alone: nothing is left out, nothing holds the focus or loses it."""

import pytest

from tests.browser.doing import settle, switch

pytestmark = pytest.mark.browser

TABS = ("association", "paired", "objects", "internal", "origins", "label", "runs", "calibration")
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
    for key in TABS:
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
