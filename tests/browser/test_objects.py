"""The Objects tab in a real page: a preset, an object's pictures, prompts of one's own."""

import pytest

from tests.browser.doing import a_run, open_accordion, run_preset, switch, unfold

pytestmark = pytest.mark.browser


def test_a_preset_compares_conditions_and_an_object_finds_its_pictures(desk):
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


def test_prompts_of_ones_own_are_captioned(phone):
    page = phone
    switch(page, "objects")
    open_accordion(page, "objects-own")
    page.fill("#objects-prompts textarea", "a doctor with a hat\na nurse in a kitchen")
    page.wait_for_selector("#objects-count:has-text('12 pictures')")
    with a_run(page, "objects"):
        page.click("#objects-run")
    page.wait_for_selector("#objects-header h2")
    unfold(page, "objects", "by-attribute")
    assert "is what captions name most" in page.inner_text("#objects-header")
    page.wait_for_selector("#objects-examples:has-text('a nurse in a kitchen')")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
