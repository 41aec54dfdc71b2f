"""Association and Internal in a real page: presets, words of one's own, the pictures behind the numbers."""

import time

import pytest

from tests.browser.doing import a_run, open_accordion, run_preset, switch
from tests.browser.timing import slowdown

pytestmark = pytest.mark.browser
PRESET = "Science and arts, male and female"


def fill_in_own_words(page, words):
    page.fill("#association-own-x textarea", "")
    page.fill("#association-own-x textarea", words)
    page.wait_for_selector("#association-use-own input:checked")


def test_an_association_preset_runs_to_its_words_prompts_and_pictures(desk, tmp_path):
    run_preset(desk, "association", PRESET, "by-attribute")
    assert "96 of 96 pictures" in desk.inner_text("#association-header")
    words = desk.inner_text("#association-words")
    assert "of 1,000 such runs" in words
    assert "S without one prompt" in words
    assert desk.locator("#association-behind button").count() == 16
    desk.locator("#association-behind button").last.click()
    desk.wait_for_selector("#association-opened article:has-text('a person studying')")
    with desk.expect_download() as download:
        desk.locator("#association-words summary", has_text="files").click()
        desk.locator("#association-words [data-take$=':csv']").click()
    download.value.save_as(tmp_path / "influence.csv")
    assert (tmp_path / "influence.csv").read_text().startswith("name,start,end")


def test_own_words_are_run_once_they_are_typed_and_a_mistake_loses_nothing(desk):
    switch(desk, "association")
    open_accordion(desk, "association-own")
    fill_in_own_words(desk, "Sky: sun")
    with a_run(desk, "association"):
        desk.click("#association-run")
    desk.wait_for_selector("#association-status [role=alert]")
    assert "concept X needs 2 to 100 words" in desk.inner_text("#association-status")
    desk.fill("#association-own-x textarea", "Sky: sun, moon, star")
    with a_run(desk, "association"):
        desk.click("#association-run")
    desk.wait_for_selector("#association-header h2:has-text('Sky')")
    assert "Sky" in desk.inner_text("#association-header h2")
    assert "Sour" in desk.inner_text("#association-header h2")


def test_stop_ends_a_study_soon_and_it_can_be_run_again(desk):
    switch(desk, "association")
    open_accordion(desk, "association-own")
    fill_in_own_words(desk, f"Slow: {', '.join(f'slow star {n}' for n in range(40))}")
    desk.get_by_label("number input for Pictures per prompt").fill("20")  # at work for a minute
    desk.get_by_label("number input for Pictures per prompt").blur()
    with a_run(desk, "association"):
        desk.click("#association-run")
        desk.wait_for_selector("#association-status .bar")
        pressed = time.monotonic()
        desk.click("#association-stop")
        desk.wait_for_selector("#association-stop", state="hidden")
        assert time.monotonic() - pressed < 10 * slowdown()
        assert desk.is_visible("#association-run")
    assert "Stopping" not in desk.inner_text("#association-status")
    open_accordion(desk, "association-own")  # which the run has folded
    desk.get_by_label("number input for Pictures per prompt").fill("4")
    run_preset(desk, "association", PRESET)
    assert "96 of 96 pictures" in desk.inner_text("#association-header")


def test_the_internal_preset_flows_from_text_to_picture_on_a_phone(phone):
    run_preset(phone, "internal", "Four occupations", "by-attribute")
    phone.wait_for_selector("#internal-words .score")
    assert phone.locator("#internal-words .score").count() == 4
    assert "CEO, from text to picture" in phone.inner_text("#internal-words")
    phone.locator("#internal-closer input").click()
    phone.get_by_role("option", name="Nurse").click()
    phone.wait_for_function("document.querySelector('#internal-words h3').innerText.startsWith('Nurse')")
    phone.locator("#internal-behind button").first.press("Enter")
    phone.wait_for_function(
        "document.querySelector('#internal-opened article')?.innerText.includes('treating a patient')"
    )
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
