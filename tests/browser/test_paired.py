"""The Paired tab in a real page: a preset, a label corrected in place, two identities of one's own."""

import csv
import re

import pytest

from tests.browser.doing import a_run, open_accordion, run_preset, switch, unfold

pytestmark = pytest.mark.browser


def score(page):
    found = re.search(r"stereotype test score ([+−][\d.]+)", page.inner_text("#paired-header"))
    assert found
    return float(found.group(1).replace("−", "-"))


def test_a_preset_gives_labels_that_can_be_corrected_undone_and_taken_along(desk, tmp_path):
    page = desk
    run_preset(page, "paired", "Eight occupations, in pairs and alone", "numbers", "by-attribute")
    assert "lean" in page.inner_text("#paired-header")
    assert "0 of 32" in page.inner_text("#paired-summary")
    menus = page.locator("#paired-labels figure select:first-of-type")
    before, first = score(page), menus.first.input_value()
    for place in (0, 2):  # of two pictures, one right after the other
        menu = menus.nth(place)
        menu.select_option("feminine" if menu.input_value() == "masculine" else "masculine")
    page.wait_for_selector("#paired-labels-place:has-text('2 labels corrected by hand')")
    with page.expect_download() as download:
        page.click("#paired-labels-take button")
    download.value.save_as(tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        raters = [row["rater"] for row in csv.DictReader(file)]
    assert raters.count("by hand") == 2
    for left in ("1 label", "0 labels"):
        page.click("#paired-labels-undo")
        page.wait_for_selector(f"#paired-labels-place:has-text('{left} corrected by hand')")
    assert score(page) == before
    page.wait_for_function(f"document.querySelector('#paired-labels select').value === '{first}'")


def test_two_identities_of_ones_own_are_run_in_both_orders(phone):
    page = phone
    switch(page, "paired")
    open_accordion(page, "paired-own")
    page.locator("#paired-first input, #paired-first textarea").fill("pilot")
    page.wait_for_selector("#paired-count:has-text('36 pictures')")  # 2 x 6 plain, 2 x 6 fair, 2 x 6 alone
    with a_run(page, "paired"):
        page.click("#paired-run")
    page.wait_for_selector("#paired-header h2")
    for fold in ("numbers", "details"):
        unfold(page, "paired", fold)
    page.wait_for_selector("#paired-tables summary")
    assert "pilot and assistant" in page.inner_text("#paired-header")
    assert "asked to be fair" in page.inner_text("#paired-results")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    open_accordion(page, "paired-own")  # which the run has folded
    page.locator("#paired-first input, #paired-first textarea").fill("assistant")
    with a_run(page, "paired"):
        page.click("#paired-run")
    page.wait_for_selector("#paired-status [role=alert]")
    assert "two different identities" in page.inner_text("#paired-status")
    assert page.is_visible("#paired-results table")
