"""Origins in a real page: the film of steps follows mouse and keys, a text is drawn beside its cluster."""

import pytest

from tests.browser.doing import run_preset, serious

pytestmark = pytest.mark.browser


def at(page, share):
    """Move over the curves, as far from their left end as ``share`` says."""
    plot = page.locator(".film-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + 40)


def test_a_step_shows_its_predicted_pictures_and_what_it_does(desk, axe, tmp_path):
    page = desk
    run_preset(page, "origins", "When does the beard enter?")
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
    assert not serious(page, axe, "#origins-results")


def test_a_text_is_chosen_drawn_and_compared_with_its_cluster(phone):
    page = phone
    run_preset(page, "origins", "Clusters and their texts", "by-attribute")
    page.locator("#origins-clusters [data-text]").nth(1).click()
    page.wait_for_function("document.querySelector('#origins-text input, #origins-text textarea').value")
    page.fill("#origins-text textarea, #origins-text input", "a photo of a man")
    page.click("#origins-go")
    page.wait_for_selector("#origins-compared table")
    text = page.inner_text("#origins-compared")
    assert "Drawn from “a photo of a man”: 6 new pictures" in text
    assert "not what people see" in text
    assert page.is_visible("#origins-go")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
