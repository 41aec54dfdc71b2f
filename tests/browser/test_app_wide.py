"""What holds for every tab: speed, accessibility, the keyboard, and visitors that stay apart."""

import time

import pytest

from bias_core.app.build import TABS
from tests.browser.doing import a_run, explore, open_accordion, run_preset, serious, switch
from tests.browser.timing import slowdown

pytestmark = pytest.mark.browser

KEYS = ["explore", *(tab.key for tab in TABS)]
PRESET = "Science and arts, male and female"
SLOW = "slow doctor"  # its denoising steps take long (tests/ui/fakes.py)

# Which moments the line with the progress changed in; Gradio's own clock beside it does not count.
WATCH_JS = """(selector) => {
  const line = document.querySelector(selector);
  const said = () => line.querySelector('.status')?.outerHTML || '';
  let last = said();
  window.changes = [];
  new MutationObserver(() => {
    if (said() === last) return;
    last = said();
    window.changes.push(performance.now());
  }).observe(line, {childList: true, subtree: true, characterData: true, attributes: true});
}"""
# The panel that is open; the tabs before it and the foot of the page are the same in all.
OPEN_JS = """() => document.querySelectorAll('[role=tabpanel]').forEach(
  (panel) => panel.toggleAttribute('data-open', Boolean(panel.offsetParent)))"""
FOCUSED_JS = """() => {
  const node = document.activeElement;
  return node.dataset.take ? 'take' : node.closest('[id]')?.id || '';
}"""


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
        page.wait_for_timeout(300)
        look(key, "[role=tabpanel][data-open]")
    explore(page)
    page.locator("#explore-grid .thumbnail-item").nth(1).click()
    page.wait_for_selector("#explore-picture article")
    for name in ("attributes", "options", "explore-command"):
        open_accordion(page, name)
    look("explore with results", "html")
    assert not wrong


def test_everything_is_reached_by_keyboard(desk):
    show_association(desk)
    desk.locator("#tabs [role=tab][aria-selected=true]").first.focus()
    reached = set()
    for _ in range(150):
        desk.keyboard.press("Tab")
        reached.add(desk.evaluate(FOCUSED_JS))
        if "take" in reached and "association-run" in reached:
            break
    assert {"association-preset-0", "association-run", "take"} <= reached
    assert desk.get_attribute("#association-preset-0", "title")  # what the example shows


def test_a_run_updates_at_most_five_times_a_second_and_blocks_nothing(desk):
    switch(desk, "association")
    count = desk.locator("#association-count:has-text('pictures')")
    count.wait_for()
    before = count.inner_text()
    switch(desk, "explore")
    desk.evaluate(WATCH_JS, "#status")
    desk.fill("#concept textarea, #concept input", SLOW)
    desk.fill("#n-images input", "200")  # the run goes on for a minute
    with a_run(desk, "explore"):
        desk.click("#generate")
        desk.wait_for_selector("#status [role=progressbar]")
        desk.wait_for_timeout(3000)
        moments = desk.evaluate("window.changes")
        assert len(moments) > 5
        # Two words at the start; then at most five a second on average, for a busy page paints several at once.
        assert (len(moments) - 2) / ((moments[-1] - moments[0]) / 1000) <= 5
        switch(desk, "association")
        asked = time.monotonic()
        desk.fill("#association-percent input[type=number]", "30")
        desk.press("#association-percent input[type=number]", "Enter")
        desk.wait_for_function(
            """(before) => {
              const count = document.querySelector('#association-count').innerText;
              return count.includes('pictures') && count !== before;
            }""",
            arg=before,
        )
        assert time.monotonic() - asked < 10 * slowdown()  # and the run still goes on
        switch(desk, "explore")
        assert desk.is_visible("#stop")
        desk.click("#stop")


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


def test_every_tab_of_a_study_shows_an_example_soon_after_it_is_opened(visit):
    page = visit()
    page.wait_for_selector("#header .example-note")
    for key in ("association", "paired", "objects", "internal", "origins", "calibration"):
        opened = time.monotonic()
        switch(page, key)
        page.wait_for_selector(f"#{key}-header .example-note:visible")
        took = time.monotonic() - opened
        print(f"{key}: {took:.2f} s until its example is there")
        assert took < 3 * slowdown()
        assert page.is_visible(f"#{key}-results")
    page.wait_for_timeout(1700)  # it is not asked for again
    switch(page, "association")
    assert page.locator("#association-header .example-note").count() == 1
