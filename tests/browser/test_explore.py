"""A person at the real page; the models are the renderer and a reader of pixels (tests/ui/fakes.py)."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bias_core.studies.reports.text import format_estimate
from tests.browser.doing import open_accordion

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def run(page: Any, concept: str = "") -> None:
    if concept:
        page.fill("#concept textarea, #concept input", concept)
    page.click("#generate")
    page.wait_for_selector("#results table")


def test_the_page_paints_before_anything_is_asked(visit: Visit) -> None:
    page = visit()
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 3000
    assert page.inner_text("h1") == "T2I Bias Explorer"
    assert page.is_visible(".welcome")
    assert not page.is_visible("#results")


def test_an_example_gives_a_full_result(visit: Visit) -> None:
    page = visit()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.get_by_role("button", name="nurse", exact=True).click()
    page.wait_for_function("document.querySelector('#concept textarea, #concept input').value === 'nurse'")
    run(page)
    assert "a photo of a nurse" in page.inner_text("#header")
    assert page.locator("#explore-grid .thumbnail-item").count() == 15  # one is blocked
    assert page.locator("#explore-findings table.scores tbody tr").count() >= 14
    assert page.locator("#shares svg").is_visible()
    assert "n = 15" in page.inner_text("#explore-sentences")
    assert not errors


def test_a_picture_opens_with_its_prompt_seed_and_similarities(visit: Visit) -> None:
    page = visit()
    run(page)
    page.get_by_role("button", name="Picture 3", exact=True).first.click()
    page.wait_for_selector("#explore-picture article")
    text = page.inner_text("#explore-picture")
    assert "Picture 3" in text
    assert "a photo of a doctor" in text
    assert page.locator("#explore-picture svg").is_visible()
    with page.expect_popup() as original:
        page.locator("#explore-picture a").click()
    original.value.wait_for_function("document.images[0]?.naturalWidth === 64")


def test_a_group_and_the_map_choose_pictures(visit: Visit) -> None:
    page = visit()
    open_accordion(page, "options")
    page.fill("#clusters input", "3")
    page.press("#clusters input", "Tab")
    run(page)
    page.locator("#groups .group").nth(1).click()
    page.wait_for_selector("#groups .group:nth-child(2)[aria-pressed=true]")
    chosen = page.locator("#explore-grid .thumbnail-item").count()
    assert 1 <= chosen < 16
    assert page.locator("#map .point.dim").count() == 15 - chosen
    point = page.locator("#map .point:not(.dim)").last
    number = point.get_attribute("data-number")
    point.press("Enter")
    page.wait_for_selector(f"#explore-picture article[aria-label='Picture {number}']")


def test_stop_ends_the_run_and_scores_what_is_there(visit: Visit) -> None:
    page = visit()
    page.fill("#concept textarea, #concept input", "slow doctor")
    page.click("#generate")
    page.wait_for_selector("#explore-grid .thumbnail-item")
    pressed = time.monotonic()
    page.click("#stop")
    page.wait_for_selector("#results table")
    assert time.monotonic() - pressed < 10
    assert "pictures that were finished" in page.inner_text("#header")
    assert 4 <= page.locator("#explore-grid .thumbnail-item").count() < 16
    assert page.is_visible("#generate")
    assert not page.is_visible("#stop")


def test_an_error_stays_in_place_and_loses_nothing(visit: Visit) -> None:
    page = visit()
    run(page)
    page.fill("#concept textarea, #concept input", "")
    page.click("#generate")
    page.wait_for_selector("#status [role=alert]")
    assert "concept is empty" in page.inner_text("#status")
    assert page.is_visible("#generate")
    assert page.is_visible("#results table")
    assert page.locator("#explore-grid .thumbnail-item").count() == 15  # one is blocked


def test_what_is_typed_is_never_run(visit: Visit) -> None:
    page = visit()
    evil = "<img src=x onerror=window.hacked=1>${window.hacked=2}{{7*7}} 医生 🩺"
    run(page, evil)
    assert page.evaluate("window.hacked") is None
    assert "${window.hacked=2}{{7*7}} 医生 🩺" in page.inner_text("#header")
    assert "does not know" in page.inner_text("#header")


def test_two_visitors_never_see_each_others_work(visit: Visit) -> None:
    first, second = visit(), visit()
    run(first, "nurse")
    assert second.is_visible(".welcome")
    assert second.locator("#explore-grid .thumbnail-item").count() == 0
    run(second, "doctor")
    assert "nurse" not in second.inner_text("#header")
    assert "nurse" in first.inner_text("#header")
    first.get_by_role("button", name="Picture 2", exact=True).first.click()
    first.wait_for_selector("#explore-picture article")
    assert "nurse" in first.inner_text("#explore-picture")


def test_model_and_condition_survive_a_reload(visit: Visit) -> None:
    page = visit()
    page.locator("#model input").click()
    page.get_by_role("option", name="Calibration world, renderer").click()
    page.locator("#condition input").click()
    page.get_by_role("option", name="extreme").click()
    page.wait_for_timeout(1000)
    page.reload()
    page.wait_for_selector("#generate")
    page.wait_for_function("document.querySelector('#condition input').value === 'extreme'")
    assert page.input_value("#model input") == "Calibration world, renderer"


def test_the_downloads_hold_what_is_shown(visit: Visit, tmp_path: Path) -> None:
    page = visit()
    run(page)
    with page.expect_download() as download:
        open_accordion(page, "explore-command")
        page.click("#explore-takes [data-take='zip::zip']")
    download.value.save_as(tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        names = archive.namelist()
        report = json.loads(archive.read("report.json"))
    assert "train/metadata.jsonl" in names
    assert sum(name.endswith(".png") for name in names) == 31  # one is blocked
    assert report["prompt"] == "a photo of a doctor"
    share = report["attributes"][0]["prevalence"]
    shown = format_estimate(share["value"], share["low"], share["high"], n=share["n"]).partition(" ")[0]
    assert shown in page.inner_text("#explore-findings table.scores")
    open_accordion(page, "explore-command")
    assert "python -m bias_core explore doctor" in page.locator("#explore-command textarea").first.input_value()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious_and_nothing_overflows(visit: Visit, axe: Path, width: int, scheme: str) -> None:
    page = visit(width=width, scheme=scheme)
    run(page)
    page.locator("#explore-grid .thumbnail-item").nth(1).click()
    page.wait_for_selector("#explore-picture article")
    for name in ("attributes", "options", "explore-command"):
        open_accordion(page, name)
    page.wait_for_timeout(500)
    page.add_script_tag(path=str(axe))
    found = page.evaluate("axe.run().then(result => result.violations)")
    serious = {
        item["id"]: [node["html"][:120] for node in item["nodes"][:3]]
        for item in found
        if item["impact"] in {"serious", "critical"}
    }
    assert not serious
    assert page.evaluate("document.documentElement.scrollWidth") <= width
