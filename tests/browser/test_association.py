"""Association, Internal and Objects in a real page: presets, and the pictures behind the numbers."""

import pytest

from tests.browser.doing import run_preset

pytestmark = pytest.mark.browser
PRESET = "Science and arts, male and female"


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


def test_a_preset_of_objects_compares_conditions_and_an_object_finds_its_pictures(desk):
    page = desk
    run_preset(page, "objects", "A planted object, three conditions", "by-attribute")
    assert "Against fair, on the same prompts" in page.inner_text("#objects-header")
    page.wait_for_selector("#objects-space svg.plot")
    assert page.locator("#objects-curve svg.plot").is_visible()
    assert "vocabulary" in page.inner_text("#objects-curve")
    page.locator("#objects-top [data-object=cup]").first.click()
    page.wait_for_selector("#objects-grid .chosen:has-text('objects: cup')")
    page.locator("#objects-grid .thumbnail-item").first.click()
    page.wait_for_selector("#objects-picture article")
    assert "cup" in page.inner_text("#objects-picture")
