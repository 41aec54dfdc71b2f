"""A person at a form while runs begin, end and fail."""

import pytest

from tests.browser.doing import a_run, explore, settle, switch

pytestmark = pytest.mark.browser
CONCEPT = "#concept input, #concept textarea"
N_DONE = "parseInt(document.querySelector('#status').textContent)"
EXPANDED = "[role=combobox][aria-expanded=true]"


def begin_slow_run(page, concept):
    page.fill(CONCEPT, concept)
    page.fill("#n-images input", "400")
    page.click("#generate")
    page.wait_for_selector("#explore-drawing .finished")


def test_a_press_during_a_run_asks_and_either_run_can_be_stopped(visit):
    page = visit(query="?tab=explore")
    page.wait_for_selector("#header h2")
    begin_slow_run(page, "slow judge")
    page.wait_for_function(f"{N_DONE} > 32")
    for answer in ("leave", "replace"):
        page.fill(CONCEPT, "slow lawyer")
        page.press(CONCEPT, "Enter")
        page.wait_for_selector("#explore-at-work:has-text('Your run is still running')")
        assert page.is_visible("#stop")
        n_done = page.evaluate(N_DONE)
        assert n_done > 32
        page.evaluate(f"setInterval(() => {{ window.hasSunk ||= {N_DONE} < {n_done}; }}, 50)")
        page.get_by_role(
            "tab", name="Runs", exact=True
        ).click()  # what is pressed meanwhile is not what was asked about
        page.get_by_role("tab", name="Explore", exact=True).click()
        page.click(f"#explore-at-work [data-{answer}]")
        page.wait_for_selector("#explore-at-work .at-work", state="detached")
    page.wait_for_function("window.hasSunk")  # the count of the other run
    page.wait_for_selector("#stop", state="visible")
    page.evaluate(
        """() => {
          window.seen = [];
          const look = () => window.seen.push(document.querySelector('#status').textContent);
          document.querySelector('#stop').addEventListener('click', () => setTimeout(() => {
            const isThere = () => document.querySelector('#stop')?.offsetParent;
            const timer = setInterval(() => isThere() ? look() : clearInterval(timer), 20);
          }, 50));
        }"""
    )
    page.click("#stop")
    page.wait_for_selector("#stop", state="hidden")
    seen = page.evaluate("window.seen")
    assert "Stopping" in seen[0], seen
    assert not [text for text in seen if text.strip()[:1].isdigit()], seen  # no count again; the end may be seen
    page.wait_for_selector("#header:has-text('a photo of a slow lawyer')")
    assert page.is_visible("#generate")


def test_a_form_in_use_is_not_filled_by_the_last_run_nor_is_a_new_run_without_stop(visit):
    page = visit(query="?tab=explore")
    page.wait_for_selector("#header h2")
    explore(page, "engineer")
    page.reload()
    page.wait_for_selector(CONCEPT)
    page.fill(CONCEPT, "pilot")
    page.wait_for_selector("#status:has-text('Opened: a run of')")
    settle(page)
    assert page.input_value(CONCEPT) == "pilot"
    assert "engineer" in page.inner_text("#header")
    page.reload()
    page.wait_for_selector(CONCEPT)
    begin_slow_run(page, "slow pilot")
    page.wait_for_timeout(4000)
    assert page.is_visible("#stop")
    assert page.input_value(CONCEPT) == "slow pilot"
    page.reload()  # during the run, whose form is there again
    page.wait_for_selector("#stop:visible")
    page.wait_for_function(f"document.querySelector('{CONCEPT}').value === 'slow pilot'")
    with a_run(page, "explore"):
        page.click("#stop")


def test_an_untouched_form_is_that_of_the_last_run(visit):
    page = visit(query="?tab=explore")
    page.wait_for_selector("#header h2")
    explore(page, "engineer")
    page.reload()
    page.wait_for_function(f"document.querySelector('{CONCEPT}')?.value === 'engineer'")


def test_an_outline_stands_in_place_of_another_paper_s_result_until_that_of_the_chosen_one_is_there(visit):
    page = visit(query="?tab=association")
    page.wait_for_selector("#paper-header .example-note")
    settle(page)
    seen = page.evaluate(
        """async () => {
          const isShown = (id) => Boolean(document.querySelector(id).offsetParent), seen = [];
          window.openTab('paired');
          while (!document.querySelector('#paper-chips [data-of=paired]')) {
            seen.push(['#paper-skeleton', '#paper-header'].map(isShown));
            await new Promise((done) => setTimeout(done, 10));
          }
          return seen;
        }"""
    )
    assert seen[-1] == [True, False]
    page.wait_for_selector("#paper-skeleton", state="hidden")
    assert page.is_visible("#paper-header h2")
    settle(page)
    assert not page.is_visible(".toast-body")  # no handler reads the form between two papers


def test_menus_close_by_tab_escape_and_a_click_elsewhere_and_a_focused_field_has_one_ring_that_is_whole(visit):
    page = visit(query="?tab=explore")
    page.wait_for_selector("#header h2")
    settle(page)
    for menu in ("#model input", "#condition input"):
        ways = {
            "Tab": lambda: page.keyboard.press("Tab"),
            "click": lambda: page.locator("#header h2").click(),
            "Escape": lambda: page.keyboard.press("Escape"),  # the field keeps the focus
        }
        for way in ways.values():
            page.click(menu)
            page.wait_for_selector(f"{menu.split()[0]} {EXPANDED}")
            way()
            page.wait_for_function(f"![...document.querySelectorAll('{EXPANDED}')].includes("
                                   f"document.querySelector('{menu}'))")  # fmt: skip
    for field in (CONCEPT, "#n-images input", "#condition input"):
        page.focus(CONCEPT)
        page.keyboard.press("Tab")
        page.focus(field)
        rings = page.locator(field).first.evaluate(
            """(field) => {
              const rings = [];
              for (let node = field; !node.matches('.block'); node = node.parentElement) {
                const {outlineStyle, outlineOffset, outlineWidth} = getComputedStyle(node);
                if (outlineStyle !== 'none') rings.push(parseFloat(outlineOffset) + parseFloat(outlineWidth));
              }
              return rings;
            }"""
        )
        assert rings == [0], field  # the box around it cuts what is outside


def test_a_failed_run_marks_its_field_and_the_result_before_until_the_field_is_changed(visit):
    page = visit(query="?tab=explore")
    page.wait_for_selector("#header h2")
    explore(page, "nurse")
    assert not page.is_visible("#header [data-failed]")
    page.fill("#n-images input", "0")
    page.click("#generate")
    page.wait_for_selector("#status .error:has-text('“Pictures” must be at least 1')")
    page.wait_for_selector("#header [data-failed]:visible")
    assert page.get_attribute("#n-images input", "aria-invalid") == "true"
    page.fill(CONCEPT, "doctor")
    assert page.is_visible("#status .error")  # another field is not its cause
    page.fill("#n-images input", "16")
    page.wait_for_selector("#status .error", state="detached")
    page.wait_for_selector("#header [data-failed]", state="hidden")
    assert page.get_attribute("#n-images input", "aria-invalid") is None
    page.fill("#model input", "no model!")
    page.press("#model input", "Enter")
    page.click("#generate")
    page.wait_for_selector("#status .error")
    assert page.get_attribute("#model input", "aria-invalid") == "true"
    switch(page, "runs")
