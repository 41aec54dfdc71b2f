"""The Objects tab in a real page: a preset, an object's pictures, prompts of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.doing import open_accordion

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def test_a_preset_compares_conditions_and_an_object_finds_its_pictures(visit: Visit) -> None:
    page = visit(query="?tab=objects")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.click("#objects-preset-0")
    page.wait_for_selector("#objects-results table")
    assert "Against fair, on the same prompts" in page.inner_text("#objects-header")
    assert page.locator("#objects-space svg.plot").is_visible()
    assert page.locator("#objects-curve svg.plot").is_visible()
    assert "vocabulary" in page.inner_text("#objects-curve")
    everything = page.locator("#objects-grid .thumbnail-item").count()
    page.locator("#objects-top [data-object=cup]").first.click()
    page.wait_for_function("document.querySelector('#objects-which input').value.startsWith('objects: cup')")
    page.wait_for_function(f"document.querySelectorAll('#objects-grid .thumbnail-item').length < {everything}")
    page.locator("#objects-grid .thumbnail-item").first.click()
    page.wait_for_selector("#objects-picture article")
    assert "cup" in page.inner_text("#objects-picture")
    assert not errors


def test_prompts_of_ones_own_are_captioned(visit: Visit) -> None:
    page = visit(width=390, scheme="dark", query="?tab=objects")  # in a narrow page its tab is in a menu
    open_accordion(page, "objects-own")
    page.fill("#objects-prompts textarea", "a doctor with a hat\na nurse in a kitchen")
    page.wait_for_selector("#objects-count:has-text('12 pictures')")
    page.click("#objects-run")
    page.wait_for_selector("#objects-results table")
    assert "is what captions name most" in page.inner_text("#objects-header")
    assert "a nurse in a kitchen" in page.inner_text("#objects-examples")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_three_conditions_are_compared_by_adding_arms(visit: Visit) -> None:
    page = visit(query="?tab=objects&study=tbyb-general&condition=fair&percent=1")
    open_accordion(page, "objects-arms")
    for n, condition in enumerate(("published", "extreme"), start=2):
        page.fill("#objects-arm-condition input", condition)
        page.press("#objects-arm-condition input", "Enter")
        page.click("#objects-add-arm")
        page.wait_for_selector(f"#objects-arms-list li:nth-child({n})")
    page.wait_for_selector("#objects-count:has-text('in 3 arms')")
    page.click("#objects-run")
    page.wait_for_selector("#objects-findings h3:has-text('Ranks of the arms')")
    assert "fair, published, extreme" in page.inner_text("#objects-header")
    page.reload()
    page.wait_for_selector("#objects-findings h3:has-text('Ranks of the arms')")
    page.wait_for_selector("#objects-count:has-text('in 3 arms')")
    open_accordion(page, "objects-arms")
    page.wait_for_selector("#objects-arms-list li:nth-child(3)")
    page.locator("#objects-arms-list [data-remove='2']").click()
    page.wait_for_selector("#objects-count:has-text('in 2 arms')")
