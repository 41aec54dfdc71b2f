"""Study tabs in a real page: presets, pictures behind numbers, corrected labels, the film of steps."""

import csv
import re

import pytest

from tests.browser.doing import a_run, open_accordion, run_preset, serious, switch, unfold

pytestmark = pytest.mark.browser
PRESET = "Science and arts, male and female"


def test_an_association_preset_runs_to_its_words_prompts_and_pictures(desk, tmp_path):
    run_preset(desk, "association", PRESET, "by-attribute")
    assert "135 of 135 pictures" in desk.inner_text("#paper-header")
    words = desk.inner_text("#paper-words")
    assert "of 1,000 such runs" in words
    assert "S without one prompt" in words
    assert desk.locator("#paper-behind button").count() == 16
    desk.locator("#paper-behind button").last.click()
    desk.wait_for_selector("#paper-opened article:has-text('a person studying')")
    with desk.expect_download() as download:
        desk.locator("#paper-words summary", has_text="files").click()
        desk.locator("#paper-words [data-take$=':csv']").click()
    download.value.save_as(tmp_path / "influence.csv")
    assert (tmp_path / "influence.csv").read_text().startswith("name,start,end")


def test_the_internal_preset_flows_from_text_to_picture_on_a_phone(phone):
    run_preset(phone, "internal", "Four occupations", "by-attribute")
    phone.wait_for_selector("#paper-words .score")
    assert phone.locator("#paper-words .score").count() == 4
    assert "CEO, from text to picture" in phone.inner_text("#paper-words")
    phone.locator("#paper-closer input").click()
    phone.get_by_role("option", name="Nurse").click()
    phone.wait_for_function("document.querySelector('#paper-words h3').innerText.startsWith('Nurse')")
    phone.locator("#paper-behind button").first.press("Enter")
    phone.wait_for_function("document.querySelector('#paper-opened article')?.innerText.includes('treating a patient')")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_preset_of_objects_compares_conditions_and_an_object_finds_its_pictures(desk):
    page = desk
    run_preset(page, "objects", "A planted object, three conditions", "by-attribute")
    assert "Against fair, on the same prompts" in page.inner_text("#paper-header")
    page.wait_for_selector("#objects-space svg.plot")
    assert page.locator("#objects-curve svg.plot").is_visible()
    assert "vocabulary" in page.inner_text("#objects-curve")
    page.locator("#objects-top [data-object=cup]").first.click()
    page.wait_for_selector("#paper-grid .chosen:has-text('objects: cup')")
    page.locator("#paper-grid .thumbnail-item").first.click()
    page.wait_for_selector("#paper-picture article")
    assert "cup" in page.inner_text("#paper-picture")


def at(page, share):
    """Move over the curves, as far from their left end as ``share`` says."""
    plot = page.locator(".film-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + 40)


def test_a_step_shows_its_predicted_pictures_and_what_it_does(desk, axe, tmp_path):
    page = desk
    run_preset(page, "origins", "When does the beard appear?")
    film, output = page.locator(".film"), page.locator(".film output")
    assert page.locator(".film-strip").count() == 3
    assert page.locator(".film-strip img").count() == 3 * 13
    first = page.locator(".film-seeds .large").first.get_attribute("src")
    at(page, 6.5 / 13)
    assert output.inner_text() == "step 7 of 12"
    assert "Step 7 of 12" in film.inner_text()
    shown = page.locator(".film-seeds .large").first.get_attribute("src")
    assert shown != first
    assert shown == page.locator(".film-strip img.here").first.get_attribute("src")
    page.locator(".film input[type=range]").focus()
    page.keyboard.press("ArrowLeft")
    assert output.inner_text() == "step 6 of 12"
    for dot in page.locator(".film-dot").all():
        assert float(dot.evaluate("(d) => d.style.top")[:-1]) == float(dot.get_attribute("data-tops").split()[5])
    for seed in page.locator(".film [data-seed]").all():  # what is struck through is what the reader does not see
        reads = page.get_attribute(f"[data-strip='{seed.get_attribute('data-seed')}'] img.here", "data-reads").split()
        names = seed.locator("[data-sees]").all()
        assert [name.get_attribute("data-sees") in reads for name in names] == [
            "unseen" not in name.get_attribute("class") for name in names
        ]
    page.keyboard.press("End")
    assert output.inner_text() == "finished"
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("document.querySelector('.film output').textContent === 'step 2 of 12'")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="turban", exact=True).click()
    assert page.locator(".film-plot .line-1.off").count() >= 1
    page.locator(".film summary").click()
    with page.expect_download() as download:
        page.locator(".film [data-take^='figure:gain'][data-take$=':csv']").click()
    download.value.save_as(tmp_path / "spi.csv")
    assert (tmp_path / "spi.csv").read_text().startswith("group,x,value")
    assert not serious(page, axe, "#paper-results")


def test_a_text_is_chosen_drawn_and_compared_with_its_cluster(phone):
    page = phone
    run_preset(page, "origins", "Clusters and their texts", "by-attribute")
    card = page.locator("#origins-clusters [data-text]").nth(1)
    card.click()
    chosen = "text => document.querySelector('#origins-text input, #origins-text textarea').value === text"
    page.wait_for_function(chosen, arg=card.get_attribute("data-text"))
    page.fill("#origins-text textarea, #origins-text input", "a photo of a man")
    page.click("#origins-go")
    page.wait_for_selector("#origins-compared table")
    text = page.inner_text("#origins-compared")
    assert "Drawn from “a photo of a man”: 6 new pictures" in text
    assert "not people's" in text
    assert page.is_visible("#origins-go")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def score(page):
    found = re.search(r"score ([+−][\d.]+)", page.inner_text("#paper-header"))
    assert found
    return float(found.group(1).replace("−", "-"))


def test_a_preset_gives_labels_that_can_be_corrected_undone_and_taken_along(desk, tmp_path):
    page = desk
    run_preset(page, "paired", "Eight occupations, in pairs and alone", "numbers", "by-attribute")
    assert "match the stereotype" in page.inner_text("#paper-header")
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
    open_accordion(page, "paper-own")
    page.locator("#paired-masculine input, #paired-masculine textarea").fill("pilot")
    page.wait_for_selector("#paper-count:has-text('36 pictures')")  # 2 x 6 plain, 2 x 6 fair, 2 x 6 alone
    with a_run(page, "paired"):
        page.click("#paper-run")
    page.wait_for_selector("#paper-header h2")
    for fold in ("numbers", "details"):
        unfold(page, "paired", fold)
    page.wait_for_selector("#paper-tables summary")
    assert "pilot and assistant" in page.inner_text("#paper-header")
    assert "asked to be fair" in page.inner_text("#paper-results")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.reload()
    page.wait_for_selector("#paper-status:has-text('Opened: a run')")
    page.wait_for_selector("#paper-use-own input:checked")  # the fold is open
    first = page.locator("#paired-masculine input, #paired-masculine textarea")
    assert first.input_value() == "pilot"
    first.fill("assistant")
    with a_run(page, "paired"):
        page.click("#paper-run")
    page.wait_for_selector("#paper-status [role=alert]")
    assert "two different identities" in page.inner_text("#paper-status")
    assert page.is_visible("#paper-results")
