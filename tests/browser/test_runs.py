"""A person comes back to earlier runs, and brings pictures along."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bias_core.world.render import render
from tests.browser.doing import open_accordion
from tests.ui.fakes import _portrait

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def act(page: Any, name: str) -> None:
    page.locator("#runs-list").get_by_role("button", name=name).first.click()


def test_a_run_is_listed_after_a_reload_and_opens_in_its_tab(visit: Visit) -> None:
    page, stranger = visit(), visit()
    tab(page, "Association")
    page.click("#association-preset-0")
    page.wait_for_selector("#association-results table")
    headline = page.inner_text("#association-header h2")
    page.reload()
    page.wait_for_selector("#association-run")  # the tab that the address names
    tab(page, "Runs")
    page.wait_for_selector("#runs-list table")
    act(page, "Open: Eight association tests")
    page.wait_for_selector("#association-results table")
    assert page.inner_text("#association-header h2") == headline
    assert "Opened: a run of" in page.inner_text("#association-status")
    tab(stranger, "Runs")
    stranger.wait_for_selector("#runs-list .quiet")
    assert "Nothing yet" in stranger.inner_text("#runs-list")


def test_a_stopped_run_goes_on_and_a_deleted_one_comes_back(visit: Visit) -> None:
    page = visit()
    page.fill("#concept textarea, #concept input", "slow nurse")
    page.fill("#n-images input", "40")  # long enough for a press of the button in time
    page.click("#generate")
    page.wait_for_selector("#explore-grid .thumbnail-item")
    page.click("#stop")
    page.wait_for_selector("#results table")
    tab(page, "Runs")
    page.wait_for_selector("#runs-list table")
    assert "stopped" in page.inner_text("#runs-list")
    act(page, "Delete: a photo of a slow nurse")
    page.wait_for_selector("#runs-list [data-act=undo]")
    assert page.locator("#runs-list table").count() == 0
    page.click("#runs-list [data-act=undo]")
    page.wait_for_selector("#runs-list table")
    act(page, "Go on: a photo of a slow nurse")
    page.wait_for_selector("#runs-status .bar")
    page.click("#runs-stop")
    page.wait_for_selector("#results table")  # Explore shows what a stopped exploration has
    assert "pictures that were finished" in page.inner_text("#header")


def test_a_folder_of_ones_own_is_packed_measured_and_taken_along(visit: Visit, tmp_path: Path) -> None:
    rng = Random(1)
    for prompt, n in (("a photo of a mechanic", 6), ("a photo of a nurse", 5)):
        for i in range(n):
            path = tmp_path / "mine" / prompt / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            render(_portrait(rng), 32).save(path)
    page = visit()
    tab(page, "Runs")
    page.wait_for_selector("#runs-folder", state="attached")
    page.wait_for_selector("#runs-upload input[type=file]", state="attached")
    page.set_input_files("#runs-folder", tmp_path / "mine")
    page.wait_for_selector("#runs-found h3")
    assert "11 pictures of 2 prompts in “mine”" in page.inner_text("#runs-found")
    page.click("#runs-run")  # nothing says that these pictures are of the reader's world
    page.wait_for_selector("#runs-status .error")
    assert "reads the pictures of the calibration world only" in page.inner_text("#runs-status")
    page.get_by_label("Score anyway with the calibration reader").last.check()
    page.click("#runs-run")
    page.wait_for_selector("#results table")  # in Explore, as every exploration
    assert "Forced: " in page.inner_text("#header")
    assert "11 of 11 pictures" in page.inner_text("#header")
    open_accordion(page, "explore-command")
    with page.expect_download() as download:
        page.click("#explore-takes [data-take='zip::zip']")
    download.value.save_as(tmp_path / "all.zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "all.zip").read_bytes())) as archive:
        assert {"README.md", "croissant.json"} < set(archive.namelist())


def test_an_example_opens_at_once_and_says_what_it_is(visit: Visit) -> None:
    page = visit()
    tab(page, "Association")
    button = page.locator("#association-example-0")
    if not button.count():
        pytest.skip("no example of this tab is shipped")
    button.click()
    page.wait_for_selector("#association-results table")
    note = page.inner_text("#association-header .example-note")
    assert "no run of yours" in note
    assert "calibration-renderer" in note
    assert page.locator("#association-grid .thumbnail-item").count() > 0
