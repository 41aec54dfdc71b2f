"""Links, Methods, Calibration, and what explains itself."""

import httpx
import pytest

from bias_core.measures.cards import METRICS
from bias_core.report.shipped import load_shipped
from tests.browser.conftest import PATIENCE_MS
from tests.browser.doing import a_run, run_preset, settle, switch, unfold

pytestmark = pytest.mark.browser
LINK = "?tab=association&study=t2iat-occupations&model=calibration-renderer&condition=extreme&percent=20&seed=7"


def chosen(page):
    return [str(tab.inner_text()) for tab in page.locator("#tabs [role=tab][aria-selected=true]:visible").all()]


def test_a_link_fills_the_form_runs_nothing_and_leaves_with_its_tab(visit):
    page = visit(query=LINK)
    page.wait_for_selector("#paper-run")
    page.wait_for_function("document.querySelector('#paper-condition input').value.startsWith('extreme: ')")
    assert page.input_value("#paper-study input") == "Occupations and gender"
    assert page.input_value("#paper-percent input[type=number]") == "20"
    assert page.input_value("#paper-model input") == "Calibration world, renderer"
    assert not page.is_visible("#paper-results")
    assert page.url.endswith(LINK)
    assert chosen(page) == ["Paper tests", "Association: which concepts look alike"]
    page.get_by_role("tab", name="Trust", exact=True).click()
    page.get_by_role("tab", name="Methods", exact=True).click()
    page.wait_for_function("location.search === '?tab=methods'")
    page.reload()
    page.wait_for_selector("#measures .measure")
    assert chosen(page) == ["Trust", "Methods"]


def test_measures_are_searched_in_the_page_and_opened_by_a_link(visit):
    page = visit(query="?tab=methods&measure=gini")
    page.wait_for_function("document.activeElement?.id === 'measure-gini'")
    sent = []  # what the page asks for by itself at its start may come meanwhile, and holds none of these words
    page.on("request", lambda request: sent.append(f"{request.url} {request.post_data or ''}"))
    page.fill("#measures input", "gender perceived")
    page.wait_for_function("document.querySelector('#measures [role=status]').innerText.match(/^[0-9] measure/)")
    assert page.locator(".measure:visible").count() < 10
    page.fill("#measures input", "xyzzy")
    assert "No measure contains all these words" in page.inner_text("#measures [role=status]")
    page.fill("#measures input", "")
    page.select_option("#measures select", "wang2023t2iat")
    assert page.locator(".measure:visible").count() == sum(
        metric.reference == "wang2023t2iat" for metric in METRICS.values()
    )
    page.wait_for_timeout(500)
    assert not [one for one in sent if any(word in one for word in ("perceived", "xyzzy", "wang2023t2iat"))]
    page.locator(".measure:visible summary").first.click()
    page.locator(".measure:visible button", has_text="Association").first.click()
    page.wait_for_selector("#paper-run")


def unfold_verdicts(page):
    page.locator("#calibration-verdicts summary", has_text="The verdict on every measure").click()


@pytest.mark.skipif(not load_shipped(), reason="no shipped report")
def test_calibration_opens_with_a_shipped_report_and_gives_way_to_another(desk):
    switch(desk, "calibration")
    unfold_verdicts(desk)
    desk.wait_for_selector("#calibration-verdicts table:visible")
    headings = desk.locator("#calibration-verdicts h2").all_inner_texts()
    assert headings[0] == "How often is each headline wrong?"
    assert "measures used in headlines recover the planted bias" in headings[1]
    desk.wait_for_selector("#calibration-plot svg")
    unfold(desk, "calibration", "numbers")
    assert "comes with the app" in desk.inner_text("#calibration-header")
    assert "expected" in desk.inner_text("#calibration-findings")
    assert not desk.locator("#calibration-run").count()
    desk.click("#open-validity-pairs")
    desk.wait_for_function(
        "document.querySelector('#calibration-header').innerText.includes('Stereotype test repeated')"
    )
    assert "recover the bias" in desk.inner_text("#calibration-header h2")


def test_each_result_is_an_entry_to_which_back_and_forward_lead_with_its_form(visit):
    page = visit()
    concept, headline = "#concept :is(input, textarea)", {}

    def shows(run):
        page.wait_for_function(f"location.search === '?tab=explore&run={run}'")
        is_shown = "(words) => document.querySelector('#header h2')?.innerText === words"
        page.wait_for_function(is_shown, arg=headline[run])

    def note_run():
        page.wait_for_selector("#header [data-result]")
        run = page.get_attribute("#header [data-result]", "data-result")
        headline[run] = page.inner_text("#header h2")
        shows(run)
        return run

    runs = [note_run()]
    for name in ("doctor", "nurse"):
        page.fill(concept, name)
        page.fill("#n-images input", "4")
        with a_run(page, "explore"):
            page.click("#generate")
        runs.append(note_run())
    example, doctor, nurse = runs
    assert len(set(runs)) == 3
    switch(page, "runs")
    page.locator("#runs-list [data-act=open]").nth(1).click()
    shows(doctor)
    page.go_back()
    page.wait_for_function("window.openKey() === 'runs'")
    page.go_back()
    shows(nurse)
    assert page.input_value(concept) == "nurse"
    page.go_back()
    shows(doctor)
    assert page.input_value(concept) == "doctor"
    page.fill(concept, "pilot")  # a form that was changed since stays
    page.wait_for_selector("#explore-other-settings .old-result:visible")
    page.go_back()
    shows(example)
    page.wait_for_selector("#explore-other-settings .old-result:visible")
    page.go_forward()
    shows(doctor)
    assert page.input_value(concept) == "pilot"


def test_the_published_numbers_of_a_run_stay_at_the_top_and_its_line_in_runs_has_its_end(visit):
    page = visit()
    page.fill("#n-images input", "4")
    with a_run(page, "explore"):
        page.click("#generate")
    page.click("#explore-next .published-link")
    page.wait_for_selector("#published-numbers table:visible")
    settle(page)
    page.wait_for_function("Math.abs(document.querySelector('#runs-published').getBoundingClientRect().top) < 2")
    switch(page, "explore")
    page.fill("#concept :is(input, textarea)", "slow farmer")
    page.fill("#n-images input", "40")
    page.click("#generate")
    page.wait_for_selector("#explore-drawing .finished")
    switch(page, "runs")
    page.wait_for_selector("#runs-list .state:has-text('running')")
    page.wait_for_selector("#runs-list .state:has-text('running')", state="detached")


def test_a_result_of_a_paper_leads_to_the_published_numbers_and_to_the_verdict_on_one_measure(desk):
    switch(desk, "association")
    desk.wait_for_selector("#paper-header h2")
    desk.click("#paper-next .published-link")
    desk.wait_for_selector("#published-numbers table:visible")
    switch(desk, "association")
    desk.click("#paper-next .trust summary")
    desk.click("#paper-next .trust a")
    desk.wait_for_selector("#calibration-verdicts .one-measure:visible")
    assert desk.locator("#calibration-verdicts tr[data-measure]:visible").count() < 5


def test_symbols_explain_themselves_to_pointer_and_keyboard_and_give_way_to_words(visit):
    page = visit(query="?tab=calibration")
    unfold_verdicts(page)
    page.wait_for_selector("#calibration-verdicts .term[tabindex]", state="attached")
    assert "P*" not in page.inner_text("#calibration-verdicts")
    term = page.locator("#calibration-verdicts .term[tabindex][data-symbol='P*']").first
    note = page.locator("#term-note")
    assert not note.is_visible()
    for ask in (term.hover, term.focus, term.click):
        ask()
        assert note.inner_text().startswith("P*: reference rate")
        page.keyboard.press("Escape")
        assert not note.is_visible()
    assert term.get_attribute("aria-describedby") == "term-note"
    assert "reference rate" in term.inner_text().lower()
    page.click("#words-switch")
    assert term.inner_text() == "P*"
    page.reload()
    page.wait_for_selector("#calibration-verdicts .term[tabindex]", state="attached")
    assert page.get_attribute("#words-switch", "aria-checked") == "true"
    unfold_verdicts(page)
    assert "P*" in page.inner_text("#calibration-verdicts")
    assert not page.locator(
        "#calibration-verdicts button .term[tabindex], #calibration-verdicts a .term[tabindex]"
    ).count()


def test_words_of_this_program_are_explained_where_they_first_stand_and_a_switch_that_changes_nothing_is_hidden(visit):
    page = visit()
    page.wait_for_selector("#header h2")
    word = page.locator(".term[data-word=planted]:visible")
    word.first.focus()
    assert page.inner_text("#term-note").startswith("planted\nBuilt into the pictures")
    assert word.count() == 1
    assert page.is_visible("#words-switch")
    switch(page, "label")
    page.wait_for_selector("#words-switch", state="hidden")


def test_the_first_stop_of_the_tab_key_leads_to_the_result(visit):
    page = visit()
    page.wait_for_selector("#header h2")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to the result"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "header"


def test_an_example_whose_answer_the_page_lost_is_asked_for_again(browser, served):
    config = httpx.get(f"{served.url}/config").json()
    (header,) = (part["id"] for part in config["components"] if part["props"].get("elem_id") == "header")
    shows = [
        event["id"]
        for event in config["dependencies"]
        if header in event["outputs"] and event["targets"][0][1] == "change"
    ]
    context, lost = browser.new_context(), []

    def lose(route):
        if lost or route.request.post_data_json["fn_index"] not in shows:
            route.continue_()
            return
        lost.append(route)
        route.fulfill(json={"event_id": "0" * 32})  # of an event that never ends

    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.route("**/queue/join*", lose)
    page.goto(served.url)
    page.wait_for_selector("#header h2")
    assert lost
    context.close()


def test_a_run_comes_into_view_and_a_page_that_opens_with_it_stays_at_its_top(visit, served):
    page = visit(query="?tab=association")
    run_preset(page, "association", "Science and arts, male and female")
    place = "document.querySelector('#paper-header').getBoundingClientRect().top"
    page.wait_for_function(f"{place} >= -1 && {place} <= 0.12 * innerHeight && scrollY > 0")
    page.goto(f"{served.url}?tab=association")
    page.wait_for_function("document.querySelector('#paper-status')?.innerText.startsWith('Opened: a run')")
    settle(page)
    assert page.evaluate("scrollY") == 0


def test_the_address_is_that_of_the_shown_result_and_share_at_the_headline_opens_it_to_others(visit, served):
    page = visit()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.wait_for_selector("#header .example-note")
    page.wait_for_function("location.search.includes('run=example-')")
    page.fill("#n-images input", "4")
    with a_run(page, "explore"):
        page.click("#generate")
    page.wait_for_function("/run=[0-9a-f]{8}/.test(location.search)")
    own, headline = page.url, page.inner_text("#header h2")
    stranger = page.context.browser.new_context().new_page()
    stranger.goto(own)
    stranger.wait_for_selector("#status:has-text('leads to no result')")
    page.click("#header [data-share]")
    page.wait_for_selector("#status:has-text('Shared.')")
    link = page.evaluate("navigator.clipboard.readText()")
    for address in (link, own):
        stranger.goto(address)
        stranger.wait_for_selector(".skeleton:visible")
        assert not stranger.locator(".ask:visible").count()  # no other form stands there until the result does
        stranger.wait_for_selector("#header .notes:has-text('shared this result')")
        assert stranger.inner_text("#header h2") == headline
        assert stranger.locator("#generate:visible").count()
        stranger.wait_for_function("document.querySelector('#header').getBoundingClientRect().top < 40")
    switch(page, "association")
    page.wait_for_function("location.search === '?tab=association&run=example-science-and-arts'")
    page.go_back()
    page.wait_for_function(f"location.href === '{own}'")
    page.reload()
    page.wait_for_selector("#status:has-text('Opened: a run')")
    with page.expect_download():
        page.click("#header .result-tools summary")
        page.click("#header [data-take='report::html']")
    stranger.context.close()
