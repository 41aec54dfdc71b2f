"""A person comes back to earlier runs, and brings pictures along."""

import io
import re
import zipfile
from random import Random

import pytest

from bias_core.world.scene import draw_scene
from tests.browser.doing import a_run, draw_with_model, empty_upload, open_accordion, settle, switch, unfold
from tests.ui.fakes import _portrait

pytestmark = pytest.mark.browser


def act(page, name):
    page.locator("#runs-list").get_by_role("button", name=name).first.click()


def test_arms_come_back_after_a_reload_and_their_run_is_listed_and_opens_in_its_tab(visit):
    page = visit(query="?tab=objects&study=tbyb-general&condition=fair&percent=1")
    open_accordion(page, "paper-arms")
    for n, condition in enumerate(("published", "extreme"), start=2):
        page.fill("#paper-arm-condition input", condition)
        page.press("#paper-arm-condition input", "Enter")
        page.click("#paper-add-arm")
        page.wait_for_selector(f"#paper-arms-list li:nth-child({n})")
    page.wait_for_selector("#paper-count:has-text('in 3 arms')")
    page.click("#paper-run")
    page.wait_for_selector("#paper-header h2")
    unfold(page, "objects", "numbers")
    page.wait_for_selector("#paper-findings h3:has-text('Ranks of the arms')")
    assert "fair, published, extreme" in page.inner_text("#paper-header")
    headline = page.inner_text("#paper-header h2")
    page.reload()
    page.wait_for_selector("#paper-header h2")  # the tab that the address names
    page.wait_for_selector("#paper-count:has-text('in 3 arms')")
    switch(page, "runs")
    page.wait_for_selector("#runs-list .lab-book")
    act(page, "Open: Objects in general")
    page.wait_for_selector("#paper-status:has-text('Opened: a run of')")
    assert page.inner_text("#paper-header h2") == headline
    assert "Opened: a run of" in page.inner_text("#paper-status")
    open_accordion(page, "paper-arms")
    page.wait_for_selector("#paper-arms-list li:nth-child(3)")
    page.locator("#paper-arms-list [data-remove='2']").click()
    page.wait_for_selector("#paper-count:has-text('in 2 arms')")


def test_a_stopped_run_goes_on_and_a_deleted_one_comes_back(desk):
    page = desk
    draw_with_model(page)
    page.fill("#concept textarea, #concept input", "slow teacher")
    page.fill("#n-images input", "400")  # long enough for two presses of a button in time
    with a_run(page, "explore"):
        page.click("#generate")
        page.wait_for_selector("#results", state="hidden")  # of the run before
        page.wait_for_selector("#explore-drawing .finished")
        page.click("#stop")
    page.wait_for_selector("#header h2")
    switch(page, "runs")
    stopped = page.locator("#runs-list").get_by_role("button", name="Continue: a photo of a slow teacher")
    stopped.wait_for()
    assert "stopped" in page.inner_text("#runs-list")
    before = page.locator("#runs-list [data-act=delete]").count()
    act(page, "Delete: a photo of a slow teacher")
    page.wait_for_selector("#runs-list [data-act=undo]")
    assert page.locator("#runs-list [data-act=delete]").count() == before - 1
    assert not stopped.count()
    page.click("#runs-list [data-act=undo]")
    stopped.wait_for()
    assert page.locator("#runs-list [data-act=delete]").count() == before
    page.fill("#lab-filter", "SLOW stopped")
    assert page.locator(".lab-book > li:visible").count() == 1
    assert page.inner_text(".lab-filter [role=status]") == f"1 of {page.locator('.lab-book > li').count()} runs"
    page.fill("#lab-filter", "no such words")
    assert not page.locator(".lab-book > li:visible").count()
    page.fill("#lab-filter", "")
    stopped.click()
    page.wait_for_selector("#runs-status .bar")
    page.click("#runs-stop")
    page.wait_for_selector("#explore-next:has-text('pictures that were finished')")  # Explore shows what it has


def test_a_run_has_a_name_and_a_note_and_its_link_shows_the_result_elsewhere_until_that_ends(visit):
    page = visit(query="?tab=explore")
    with a_run(page, "explore"):
        page.click("#generate")
    page.wait_for_selector("#header h2")
    headline = page.inner_text("#header h2")
    switch(page, "runs")
    page.wait_for_selector(".lab-book .lab-name")
    settle(page)
    (n,) = re.findall(r"(\d+) pictures,", page.inner_text(".lab-book .facts"))
    assert page.locator(".lab-pictures img").count() == min(4, int(n))
    page.fill(".lab-name", "<b>mine</b>")
    page.press(".lab-name", "Enter")
    page.wait_for_selector("#runs-status:has-text('Saved the name')")
    page.fill(".lab-note", "with a note")
    page.press(".lab-note", "Tab")
    page.wait_for_selector("#runs-status:has-text('Saved the note')")
    page.click("[data-act=share]")
    link = page.locator(".lab-link a")
    link.wait_for()
    assert page.input_value(".lab-name") == "<b>mine</b>"
    assert page.input_value(".lab-note") == "with a note"
    address = link.evaluate("link => link.href")
    other = page.context.browser.new_context().new_page()
    other.goto(address)
    other.wait_for_selector("#header .notes:has-text('shared this result')")
    assert other.inner_text("#header h2") == headline
    page.fill("#lab-filter", "no such run")
    page.wait_for_selector(".lab-book > li", state="hidden")
    page.locator("[data-act=unshare]").dispatch_event("click")  # the list is made anew, and stays filtered
    page.wait_for_selector("[data-act=share]", state="attached")
    settle(page)
    assert page.locator(".lab-book > li[hidden]").count() == page.locator(".lab-book > li").count() == 1
    assert page.inner_text(".lab-filter [role=status]") == "0 of 1 runs"
    other.goto(address)
    other.wait_for_selector("#link-notice:has-text('leads to no result')")
    other.context.close()


def test_published_numbers_stand_in_runs_without_a_run(visit):
    page = visit(query="?tab=runs")
    open_accordion(page, "runs-published")
    page.wait_for_selector("#published-numbers svg")
    assert page.locator("#published-numbers tbody tr").count() == 8
    assert "None of your runs has these numbers" in page.inner_text("#published-numbers")


def test_a_folder_of_ones_own_is_packed_measured_and_taken_along(desk, tmp_path):
    rng = Random(1)
    for prompt, n in (("a photo of a mechanic", 6), ("a photo of a nurse", 5)):
        for i in range(n):
            path = tmp_path / "mine" / prompt / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            draw_scene(_portrait(rng), 32).save(path)
    (tmp_path / "mine" / "a photo of a nurse" / "4.png").rename(tmp_path / "mine" / "0001.png")
    (tmp_path / "mine" / "0001.txt").write_text("a photo of a nurse")
    (tmp_path / "mine" / "c.heic").write_bytes(b"x")
    page = desk
    empty_upload(page)
    page.set_input_files("#explore-folder", tmp_path / "mine")
    page.wait_for_selector("#explore-found h3")
    assert "11 pictures of 2 prompts in “mine”" in page.inner_text("#explore-found")
    assert page.locator("#explore-found .understood img").count() == 6  # three of each prompt
    assert page.locator("#explore-found details").count() == 0  # one reason is open
    assert "save it as PNG, JPEG or WebP" in page.inner_text("#explore-found")
    page.wait_for_selector("#explore-fits:has-text('studies can measure them')")
    open_accordion(page, "options")
    page.locator("#encoder input").click()
    page.get_by_role("option", name="Calibration CLIP").click()
    page.click("#generate")  # nothing says that these pictures are of the reader's world
    page.wait_for_selector("#status .error")
    assert "reads only pictures of the calibration world" in page.inner_text("#status")
    page.click("#explore-score-anyway")
    page.wait_for_selector("#header:has-text('Forced: ')")
    page.wait_for_selector("#results:visible")
    assert "11 of 11 pictures" in page.inner_text("#header")
    with page.expect_download() as download:
        page.click("#header .result-tools summary")
        page.click("#header [data-take='zip::zip']")
    download.value.save_as(tmp_path / "all.zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "all.zip").read_bytes())) as archive:
        assert {"README.md", "croissant.json"} < set(archive.namelist())
    page.locator("#explore-fits summary").first.click()
    page.click("#explore-fits [data-study=tbyb-dataset]")  # the pictures go with it
    page.wait_for_selector("#paper-found h3:has-text('11 pictures')")
    page.wait_for_function("document.querySelector('#paper-study input').value.includes('captioned')")
    assert page.is_checked("#paper-source input[value=own]")
