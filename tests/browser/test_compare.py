"""A person at the Compare tab; the models are the renderer and a reader of pixels (tests/ui/fakes.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def open_tab(page: Any) -> None:
    page.get_by_role("tab", name="Compare", exact=True).click()
    page.wait_for_selector("#compare-run")


def test_a_preset_runs_to_pairs_that_can_be_compared_by_keyboard(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    open_tab(page)
    page.click("#compare-preset-0")
    page.wait_for_selector("#compare-results .slide")
    assert "fair" in page.inner_text("#compare-header")
    assert page.locator("#compare-figures svg").count() == 4
    slider = page.locator("#compare-slide input[type=range]")
    slider.focus()
    slider.press("Home")
    cut = "getComputedStyle(document.querySelector('#compare-slide .slide')).getPropertyValue('--cut')"
    assert page.evaluate(cut) == "0%"
    other = page.locator("#compare-strip button").nth(2)
    seed = other.get_attribute("data-seed")
    other.press("Enter")
    page.wait_for_selector(f"#compare-slide article[aria-label='Seed {seed}']")
    page.wait_for_selector(f"#compare-strip button[data-seed='{seed}'][aria-pressed=true]")
    assert slider.input_value() == "0"  # where it stands is kept
    page.locator("#compare-tables summary").first.click()
    with page.expect_download() as download:
        page.locator("#compare-tables [data-take='table:differences:csv']").click()
    download.value.save_as(tmp_path / "differences.csv")
    assert "p adjusted" in (tmp_path / "differences.csv").read_text()
    assert not errors


def test_ones_own_prompts_are_compared_after_an_error_in_place(visit: Visit) -> None:
    page = visit()
    open_tab(page)
    page.get_by_role("radio", name="Prompt", exact=True).check()
    page.wait_for_selector("#compare-template_1 textarea, #compare-template_1 input", state="visible")
    page.fill("#compare-seeds input", "6")
    page.click("#compare-run")
    page.wait_for_selector("#compare-status [role=alert]")  # both prompts are still the same
    assert not page.is_visible("#compare-results")
    page.fill("#compare-template_1 textarea, #compare-template_1 input", "a photo of an old {}")
    page.click("#compare-run")
    page.wait_for_selector("#compare-results .slide")
    assert "a photo of an old doctor" in page.inner_text("#compare-slide")
    assert page.input_value("#compare-seeds input") == "6"
