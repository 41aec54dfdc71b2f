"""The page in German, as a visitor with a German browser gets it, and the menu that changes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.doing import serious

pytestmark = pytest.mark.browser


def test_a_german_browser_gets_a_german_page(visit: Callable[..., Any], axe: Path) -> None:
    page = visit(locale="de-AT", query="?tab=association")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.wait_for_selector("html[lang=de]")
    assert page.get_by_role("tab", name="Erkunden").count()
    assert page.get_by_role("button", name="Zeichnen und messen").first.is_visible()
    page.get_by_role("button", name="Eigene Wörter").click()
    page.get_by_label("Konzept X").wait_for()
    assert page.get_by_text("Zeichnet das Modell ein Konzept einem Attribut ähnlicher").is_visible()
    study = page.get_by_role("combobox", name="Studie").first
    assert study.input_value() == "Acht Assoziationstests"
    assert "1\u202f248 Bilder" in page.inner_text("#association-count")  # 1,248 is less than 2 to a German reader
    number = (
        "one => { const p = document.body.appendChild(document.createElement('p')); p.textContent = one; return p }"
    )
    cell = page.evaluate_handle(number, "0.580 [−1,234.5, 0.6]")
    page.wait_for_timeout(100)
    page.evaluate("one => document.querySelector('main, body').prepend(one)", cell)  # what is moved is no other number
    page.wait_for_timeout(100)
    assert cell.text_content() == "0,580 [−1\u202f234,5; 0,6]"
    typed = page.evaluate_handle(number, "-5.5 degrees")
    page.wait_for_timeout(100)
    assert typed.text_content() == "-5.5 degrees"
    study.click()
    page.get_by_role("option", name="Berufe und Geschlecht").click()
    page.wait_for_timeout(300)
    assert study.evaluate(
        "one => Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').get.call(one)"
    ) == ("Berufe und Geschlecht")
    assert not serious(page, axe)
    assert not errors


def test_the_menu_changes_the_language_and_is_remembered(visit: Callable[..., Any]) -> None:
    page = visit(query="?lang=de&tab=runs")
    page.wait_for_selector("html[lang=de]")
    menu = page.get_by_role("combobox", name="Sprache")
    assert menu.input_value() == "de"
    with page.expect_navigation():
        menu.select_option("en")
    page.wait_for_selector("html[lang=en]")
    assert "lang=" not in page.url
    page.get_by_role("tab", name="Runs").wait_for()
    page.reload()
    assert page.get_by_role("combobox", name="Language").input_value() == "en"
    assert page.locator("html").get_attribute("lang") == "en"
