"""The page that the papers share: what was typed, results and runs while another paper is looked at."""

import time

import pytest

from tests.browser.conftest import DEVICES
from tests.browser.doing import (
    PAPERS,
    follow_run,
    open_accordion,
    press_chip,
    run_preset,
    serious,
    settle,
    switch,
    wait_for_paper,
)
from tests.browser.timing import slowdown

pytestmark = [pytest.mark.browser, pytest.mark.slow]
FIRST = "#paired-masculine :is(input, textarea)"
CONCEPT_X = "#association-own-x textarea"
EXAMPLES = {
    "association": "science and arts",
    "paired": "eight occupations",
    "objects": "a planted object",
    "internal": "what drawing adds to four occupations",
    "origins": "when the beard enters",
}
QUICK = {
    "association": "Flowers and insects, pleasant or not",
    "paired": "Eight occupations, in pairs and alone",
    "objects": "Scenes with a drink or a coffee",
    "internal": "Eight of the 28 targets",
    "origins": "Three nationalities and the world",
}
LINK = "?tab=association&study=t2iat-tests&condition=extreme&seed=7&option.n_permutations=500"


def open_folds(page, *names):
    for name in names:
        open_accordion(page, f"paper-{name}")


def begin_slow_run(page, name, *, seconds):
    """Begin a run in Paired which draws for about so long, and return when its first pictures are finished.

    A ``name`` for each test: pictures that were drawn before are used again.
    """
    switch(page, "paired")
    page.locator("#paper-model input").click()
    page.get_by_role("option", name="Calibration world, diffusion").click()
    open_folds(page, "own", "more")
    page.fill(FIRST, name)
    page.fill("#paper-steps input", str(seconds))  # a step takes 0.1 s, and there are some ten batches
    page.wait_for_selector("#paper-use-own input:checked")
    follow_run(page, "paired")
    page.click("#paper-run")
    page.wait_for_selector("#paper-drawing .finished")


def wait_for_result(page, words):
    page.wait_for_function("(words) => document.querySelector('#paper-header').innerText.includes(words)", arg=words)
    settle(page)


def test_what_was_typed_and_the_results_of_two_papers_are_kept_while_one_switches_between_them(visit):
    page = visit(query="?tab=association")
    headlines = {}
    for key in ("association", "paired"):
        run_preset(page, key, QUICK[key])
        headlines[key] = page.inner_text("#paper-header h2")
    assert len(set(headlines.values())) == 2
    open_folds(page, "own", "more")
    page.fill("#paper-guidance input", "3")
    page.select_option("#paper-sampler select", index=1)
    sampler = page.input_value("#paper-sampler select")
    page.locator("#paper-condition input").click()
    page.get_by_role("option", name="extreme: ").click()
    page.fill(FIRST, "pilot")
    switch(page, "association")  # at once
    assert page.inner_text("#paper-header h2") == headlines["association"]
    assert page.input_value("#paper-guidance input") == ""
    assert page.input_value("#paper-condition input").startswith("published: ")
    assert not page.is_checked("#paper-use-own input")
    open_folds(page, "own")
    page.fill(CONCEPT_X, "Plants: rose, tulip")
    page.fill("#paper-seed input", "7")
    page.fill("#paper-option-n-permutations input", "321")
    for _ in range(2):
        switch(page, "paired")
        assert page.inner_text("#paper-header h2") == headlines["paired"]
        assert page.input_value("#paper-study input") == "Paired stereotype test, occupations"
        assert page.input_value("#paper-guidance input") == "3"
        assert page.input_value("#paper-seed input") == "0"
        assert page.input_value("#paper-sampler select") == sampler
        assert page.input_value("#paper-condition input").startswith("extreme: ")
        assert page.input_value(FIRST) == "pilot"
        assert page.is_checked("#paper-use-own input")
        assert not page.is_visible(CONCEPT_X)
        switch(page, "association")
        assert page.inner_text("#paper-header h2") == headlines["association"]
        assert page.input_value("#paper-seed input") == "7"
        assert page.input_value("#paper-option-n-permutations input") == "321"
        assert page.input_value(CONCEPT_X) == "Plants: rose, tulip"
        assert page.is_checked("#paper-use-own input")
        assert not page.is_visible(FIRST)


def test_a_run_is_seen_from_another_paper_which_offers_its_result_once_it_has_ended(visit):
    page = visit(query="?tab=paired")
    begin_slow_run(page, "slow pilot", seconds=40)
    switch(page, "association")
    page.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES['association']}')")
    page.wait_for_function("document.querySelector('#paper-status').innerText.trim().startsWith('Paired: ')")
    assert page.is_visible("#paper-stop")
    assert not page.is_visible("#paper-run")
    assert not page.locator("#paper-drawing li").count()
    assert page.is_visible("#paper-results")
    page.wait_for_selector("#paper-status:has-text('Your run in Paired is done')")
    assert page.is_visible("#paper-run")
    assert not page.is_visible("#paper-stop")
    assert EXAMPLES["association"] in page.inner_text("#paper-header")
    page.click("#paper-status a")
    wait_for_paper(page, "paired")
    wait_for_result(page, "slow pilot and assistant")
    open_folds(page, "own", "more")
    assert page.input_value(FIRST) == "slow pilot"
    assert page.input_value("#paper-steps input") == "40"


def test_stop_pressed_from_another_paper_stops_the_run_and_keeps_what_was_finished(visit):
    page = visit(query="?tab=paired")
    begin_slow_run(page, "slow baker", seconds=60)
    switch(page, "objects")
    page.click("#paper-stop")
    pressed = time.monotonic()
    page.wait_for_selector("#paper-status:has-text('Your run in Paired is done')")
    assert time.monotonic() - pressed < 15 * slowdown()
    assert EXAMPLES["objects"] in page.inner_text("#paper-header")
    page.click("#paper-status a")
    wait_for_result(page, "slow baker and assistant")
    assert "stopped before all were drawn" in page.inner_text("#paper-header")
    switch(page, "runs")
    page.wait_for_selector("#runs-list .state:has-text('stopped')")


def test_a_reload_follows_a_run_on_its_own_paper_and_on_another(visit, served):
    page = visit(query="?tab=paired")
    begin_slow_run(page, "slow driver", seconds=40)
    page.reload()
    page.wait_for_selector("#paper-stop:visible")
    page.wait_for_selector("#paper-drawing .finished")
    assert page.is_visible("#paper-status .bar")
    page.goto(f"{served.url}?tab=objects")
    wait_for_paper(page, "objects")
    page.wait_for_function("document.querySelector('#paper-status').innerText.trim().startsWith('Paired: ')")
    assert page.is_visible("#paper-stop")
    page.wait_for_selector("#paper-status:has-text('Your run in Paired is done')")
    page.click("#paper-status a")
    wait_for_result(page, "slow driver and assistant")


def is_linked(page):
    """Check that the form is that of :data:`LINK`."""
    wait_for_paper(page, "association")
    page.wait_for_function("document.querySelector('#paper-condition input').value.startsWith('extreme: ')")
    open_folds(page, "more")
    assert page.input_value("#paper-option-n-permutations input") == "500"
    assert page.input_value("#paper-seed input") == "7"


def test_a_link_fills_the_form_of_its_paper_alone_also_after_going_back(visit):
    page = visit(query=LINK)
    is_linked(page)
    page.wait_for_timeout(2000)  # no example takes its place later
    assert not page.is_visible("#paper-results")
    switch(page, "paired")
    assert page.input_value("#paper-seed input") == "0"
    page.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES['paired']}')")
    page.wait_for_function("location.search.startsWith('?tab=paired&run=example-')")
    switch(page, "association")
    is_linked(page)
    switch(page, "origins")
    page.go_back()
    is_linked(page)
    page.go_back()
    wait_for_paper(page, "paired")
    page.go_forward()
    is_linked(page)


def test_a_run_opened_from_the_list_or_by_its_link_has_its_own_paper_and_form(visit):
    page = visit(query="?tab=paired")
    run_preset(page, "paired", "Asked to be fair")
    headline = page.inner_text("#paper-header h2")
    switch(page, "objects")
    page.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES['objects']}')")
    switch(page, "runs")
    page.locator("#runs-list [data-act=open][aria-label^='Open: ']").first.click()  # their own, no example
    page.wait_for_function("window.openKey() === 'paired'")
    wait_for_paper(page, "paired")
    page.wait_for_selector("#paper-status:has-text('Opened: a run of')")
    assert page.inner_text("#paper-header h2") == headline
    assert page.input_value("#paper-study input") == "Paired stereotype test with a request to be fair"
    assert page.input_value("#paper-percent input[type=number]") == "30"
    open_folds(page, "more")
    assert page.input_value("#paper-option-aspects input") == "occupation"
    switch(page, "runs")
    page.click("[data-act=share]")
    address = page.locator(".lab-link a").evaluate("link => link.search")
    other = visit(query=address)
    wait_for_paper(other, "paired")
    other.wait_for_selector("#paper-header .notes:has-text('shared this result')")
    assert other.inner_text("#paper-header h2") == headline
    assert other.input_value("#paper-study input") == "Paired stereotype test with a request to be fair"


def test_two_visitors_at_two_papers_at_once_do_not_mix(visit):
    one, two = visit(query="?tab=paired"), visit(query="?tab=association")
    begin_slow_run(one, "slow singer", seconds=10)
    run_preset(two, "association", QUICK["association"])
    assert "Paired" not in two.inner_text("#paper-status")
    headline = two.inner_text("#paper-header h2")
    assert "Flowers" in two.inner_text("#paper-header")
    one.wait_for_function("window.runIsOver()")
    wait_for_result(one, "slow singer and assistant")
    assert "Flowers" not in one.inner_text("#paper-header")
    assert two.inner_text("#paper-header h2") == headline
    switch(one, "association")
    one.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES['association']}')")
    switch(two, "paired")
    two.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES['paired']}')")
    open_folds(two, "own")
    assert two.input_value(FIRST) == "CEO"


def test_each_paper_shows_its_example_at_once_and_runs_a_preset_without_an_error_of_the_page(visit):
    page, errors = visit(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    wrong = {}
    for key in PAPERS:
        switch(page, key)
        page.wait_for_selector(f"#paper-header .example-note:has-text('{EXAMPLES[key]}')")
        page.wait_for_timeout(1000)
        if page.is_visible("#paper-other-settings .old-result"):
            wrong[f"{key}: an untouched form"] = page.inner_text("#paper-other-settings .old-result")
        example = page.inner_text("#paper-header h2")
        follow_run(page, key)
        press_chip(page, "paper", QUICK[key])
        page.wait_for_selector("#paper-status:has-text('Filled in')")
        page.click("#paper-run")
        page.wait_for_function("window.runIsOver()")
        settle(page)
        if "Done in" not in page.inner_text("#paper-status"):
            wrong[key] = page.inner_text("#paper-status")
        if page.inner_text("#paper-header h2") == example or page.locator("#paper-header .example-note").count():
            wrong[f"{key}: its result"] = page.inner_text("#paper-header")
        if page.is_visible("#paper-other-settings .old-result"):
            wrong[f"{key}: an old result"] = page.inner_text("#paper-other-settings .old-result")
    assert not wrong
    assert not errors


@pytest.mark.parametrize("device", ["desk", "phone"])
def test_with_all_options_open_the_forms_are_accessible_and_fit_the_window(visit, axe, device):
    page, wrong = visit(**DEVICES[device]), {}

    def look(key, part):
        settle(page)
        if found := serious(page, axe, part):
            wrong[f"{key}: axe"] = found
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > page.viewport_size["width"]:
            wrong[f"{key}: too wide"] = width

    open_accordion(page, "options")
    look("explore", "#explore-ask")
    for key in PAPERS:
        switch(page, key)
        open_folds(page, "own", "more", "arms")
        look(key, "#paper-ask")
    assert not wrong
