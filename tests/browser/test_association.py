"""Association and Internal in a real page: presets, words of one's own, the pictures behind the numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.doing import open_accordion

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def open_tab(page: Any, key: str) -> None:
    page.get_by_role("tab", name=key.capitalize(), exact=True).click()
    page.wait_for_selector(f"#{key}-run")


def run_preset(page: Any, key: str, name: str) -> None:
    open_tab(page, key)
    page.get_by_role("button", name=name, exact=True).click()
    page.wait_for_selector(f"#{key}-results table")


def test_an_association_preset_runs_to_its_words_prompts_and_pictures(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    run_preset(page, "association", "Science and arts, male and female")
    assert "96 of 96 pictures" in page.inner_text("#association-header")
    words = page.inner_text("#association-words")
    assert "of 1,000 such runs" in words
    assert "S without one prompt" in words
    assert page.locator("#association-behind button").count() == 16
    page.locator("#association-behind button").last.click()
    page.wait_for_selector("#association-opened article")
    assert "a person studying" in page.inner_text("#association-opened")
    with page.expect_download() as download:
        page.locator("#association-words [data-take$=':csv']").click()
    download.value.save_as(tmp_path / "influence.csv")
    assert (tmp_path / "influence.csv").read_text().startswith("name,start,end")
    assert not errors


def test_own_words_are_run_once_they_are_typed_and_a_mistake_loses_nothing(visit: Visit) -> None:
    page = visit()
    open_tab(page, "association")
    open_accordion(page, "association-own")
    page.fill("#association-own-x textarea", "Sky: sun")
    page.wait_for_selector("#association-use-own input:checked")
    page.click("#association-run")
    page.wait_for_selector("#association-status [role=alert]")
    assert "concept X needs 2 to 100 words" in page.inner_text("#association-status")
    page.fill("#association-own-x textarea", "Sky: sun, moon, star")
    page.click("#association-run")
    page.wait_for_selector("#association-results table")
    assert "Sky" in page.inner_text("#association-header h2")
    assert "Sour" in page.inner_text("#association-header h2")


def test_stop_ends_a_study_soon_and_it_can_be_run_again(visit: Visit) -> None:
    page = visit(query="?tab=association")
    page.wait_for_selector("#association-own")
    open_accordion(page, "association-own")
    page.fill("#association-own-x textarea", "Slow: slow sun, slow moon, slow star")
    page.wait_for_selector("#association-use-own input:checked")
    page.click("#association-run")
    page.wait_for_selector("#association-status .bar")
    pressed = time.monotonic()
    page.click("#association-stop")
    page.wait_for_selector("#association-stop", state="hidden")
    assert time.monotonic() - pressed < 10
    assert page.is_visible("#association-run")
    page.get_by_role("button", name="Science and arts, male and female", exact=True).click()
    page.wait_for_selector("#association-results table")


def test_the_internal_preset_flows_from_text_to_picture_on_a_phone(visit: Visit) -> None:
    page = visit(width=390, scheme="dark", query="?tab=internal")
    page.wait_for_selector("#internal-run")
    page.get_by_role("button", name="Four occupations", exact=True).click()
    page.wait_for_selector("#internal-words .score")
    assert page.locator("#internal-words .score").count() == 4
    assert "CEO, from text to picture" in page.inner_text("#internal-words")
    page.locator("#internal-closer input").click()
    page.get_by_role("option", name="Nurse").click()
    page.wait_for_function("document.querySelector('#internal-words h3').innerText.startsWith('Nurse')")
    page.locator("#internal-behind button").first.press("Enter")
    page.wait_for_selector("#internal-opened article")
    assert "treating a patient" in page.inner_text("#internal-opened")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
