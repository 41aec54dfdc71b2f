"""A person at the real page; the models are the renderer and a reader of pixels (tests/ui/fakes.py)."""

import json
import re
import time
import zipfile
from random import Random

import pytest

from bias_core.wording import format_estimate
from bias_core.world.scene import draw_scene
from tests.browser.doing import a_run, explore, open_accordion, serious, switch, unfold
from tests.browser.timing import slowdown
from tests.ui.fakes import _portrait

pytestmark = pytest.mark.browser
CONCEPT = "#concept textarea, #concept input"
GRID = "#explore-grid .thumbnail-item"
# Busy for a second, so many ms after the button that stops a run is there.
BUSY_JS = """(wait) => new MutationObserver((_, observer) => {
  if (!document.querySelector('#stop')?.offsetParent) return;
  observer.disconnect();
  setTimeout(() => { const begun = performance.now(); while (performance.now() - begun < 1000); }, wait);
}).observe(document.body, {childList: true, subtree: true, attributes: true})"""


def test_an_example_gives_a_full_result(desk):
    switch(desk, "explore")
    desk.fill(CONCEPT, "")
    desk.get_by_role("button", name="nurse", exact=True).click()
    desk.wait_for_function(f"document.querySelector('{CONCEPT}').value === 'nurse'")
    explore(desk, "nurse")
    assert "a photo of a nurse" in desk.inner_text("#header")
    assert desk.locator(f"{GRID}:not(.blocked)").count() == 15
    assert desk.locator(f"{GRID}.blocked").count() == 1
    assert desk.locator("#explore-findings table.scores tbody tr").count() >= 14
    assert desk.locator("#explore-plot svg").is_visible()
    assert "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}15" in desk.inner_text("#explore-sentences")


def test_several_concepts_stand_in_rows_with_their_own_rates_and_more_pictures_of_one_are_added(desk, axe):
    explore(desk, "doctor, nurse, baker")
    said = "doctor 56 %, nurse 12 %, baker 36 %"
    desk.wait_for_function(
        f"document.querySelector('#explore-count').textContent.replaceAll('\\u00a0', ' ').includes('{said}')"
    )
    rows = desk.locator("#explore-plot [data-part='0'] tbody tr")
    assert rows.count() == 3
    assert "rate 12 %" in rows.filter(has_text="nurse").inner_text().replace("\xa0", " ")
    names = "#explore-plot [data-part='0'] tbody tr th button"
    for order, key in (("share", "share"), ("gap", "gap")):
        desk.select_option("#explore-plot [data-order]", order)
        values = rows.evaluate_all(f"rows => rows.map(row => Number(row.dataset.{key}))")
        assert values == sorted(values, reverse=True)
    desk.select_option("#explore-plot [data-order]", "given")
    assert desk.locator(names).all_inner_texts() == ["doctor", "nurse", "baker"]
    desk.click("#explore-plot [data-show=map]")
    assert desk.locator("#explore-plot .map tbody tr").count() == 3
    assert not rows.first.is_visible()
    assert serious(desk, axe) == {}
    desk.click("#explore-plot [data-show='0']")
    desk.click(f"{names} >> text=nurse")
    desk.wait_for_selector("#explore-grid .chosen:has-text('nurse')")
    desk.select_option("#explore-next .choice select", "±15 points")
    desk.check("#explore-plot [data-part='0'] [name=more][value=nurse]")
    desk.wait_for_selector("#explore-next .choice:has-text('of nurse until')")
    chosen = desk.locator("#explore-next option:checked").first.inner_text()
    (n_all,) = re.fullmatch(r"±15 points \(\d+ more, (\d+) in all\)", chosen).groups()
    with a_run(desk, "explore"):
        desk.click("#explore-next [data-step=pictures]")
    assert f" of {n_all} pictures scored" in desk.inner_text("#header")
    sizes = {
        name: rows.filter(has_text=name).inner_text().split(" of ")[1].split(",")[0] for name in ("doctor", "nurse")
    }
    assert int(sizes["nurse"]) > int(sizes["doctor"])


def test_a_labelling_task_of_a_result_opens_in_its_tab_and_leaves_form_and_result_as_they_were(desk):
    explore(desk, "nurse")
    headline = desk.inner_text("#header h2")
    desk.click("#explore-next [data-step=people]")
    desk.wait_for_selector("#label-task:visible, #label-owner:visible, [id^=label-]:visible h2")
    switch(desk, "explore")
    assert desk.input_value(CONCEPT) == "nurse"
    assert desk.inner_text("#header h2") == headline


def test_what_is_pasted_as_a_concept_has_its_attributes_before_the_field_is_left(desk):
    switch(desk, "explore")
    open_accordion(desk, "options")
    for concept, name in (("nurse", "Nurse"), ("doctor", "Doctor")):
        desk.locator(CONCEPT).evaluate(
            """(field, concept) => {
              field.focus();
              field.value = concept;
              for (const kind of ['input', 'paste']) field.dispatchEvent(new Event(kind, {bubbles: true}));
            }""",
            concept,
        )
        menus = "[...document.querySelectorAll('input[role=combobox]')]"
        desk.wait_for_function(f"(name) => {menus}.some((menu) => menu.value === name)", arg=name)


def test_a_page_that_is_busy_while_a_run_ends_shows_all_of_its_end(desk):
    explore(desk)
    for wait in (30, 50):  # the run's words then come while the page does nothing: without care it lost some
        with a_run(desk, "explore"):
            desk.evaluate(BUSY_JS, wait)
            desk.click("#generate")
        assert "Done in" in desk.inner_text("#status")


def test_a_picture_opens_with_its_prompt_seed_and_similarities_and_the_downloads_hold_what_is_shown(desk, tmp_path):
    explore(desk)
    desk.get_by_role("button", name="Picture 3", exact=True).first.click()
    desk.wait_for_selector("#explore-picture article")
    text = desk.inner_text("#explore-picture")
    assert "Picture 3" in text
    assert "a photo of a doctor" in text
    assert desk.locator("#explore-picture svg").is_visible()
    with desk.expect_popup() as original:
        desk.locator("#explore-picture article a").click()
    original.value.wait_for_function("document.images[0]?.naturalWidth === 128")
    original.value.close()
    desk.press("#explore-picture .close", "Escape")
    desk.wait_for_selector("#explore-picture article", state="hidden")
    desk.keyboard.press("Enter")  # its thumbnail has the focus
    desk.wait_for_function("document.activeElement.matches('#explore-picture article')")
    desk.keyboard.press("Escape")  # it covers the page
    with desk.expect_download() as download:
        desk.click("#header .result-tools summary")
        desk.click("#header [data-take='zip::zip']")
    download.value.save_as(tmp_path / "all.zip")
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        names = archive.namelist()
        report = json.loads(archive.read("report.json"))
    assert "train/metadata.jsonl" in names
    assert sum(name.startswith("train/") and name.endswith(".png") for name in names) == 31  # one is blocked
    assert report["prompt"] == "a photo of a doctor"
    share = report["attributes"][0]["prevalence"]
    shown = format_estimate(share["value"], share["low"], share["high"], n=share["n"]).partition(" ")[0]
    assert shown in desk.inner_text("#explore-findings table.scores")
    open_accordion(desk, "explore-command")
    assert "python -m bias_core explore doctor" in " ".join(
        box.input_value() for box in desk.locator("#explore-command textarea").all()
    )


def test_a_group_and_the_map_choose_pictures(desk):
    switch(desk, "explore")
    open_accordion(desk, "options")
    desk.fill("#explore-n-clusters input", "3")
    desk.press("#explore-n-clusters input", "Tab")
    explore(desk)
    desk.locator("#groups .group").nth(1).click()
    desk.wait_for_selector("#groups .group:nth-child(2)[aria-pressed=true]")
    open_accordion(desk, "explore-alike")
    desk.wait_for_selector("#map .point")
    chosen = desk.locator(GRID).count()
    assert 1 <= chosen < 16
    assert desk.locator("#map .point.dim").count() == 15 - chosen
    point = desk.locator("#map .point:not(.dim)").last
    number = point.get_attribute("data-number")
    point.press("Enter")
    desk.wait_for_selector(f"#explore-picture article[aria-label='Picture {number}']")
    desk.wait_for_function("(number) => document.activeElement.dataset.number === number", arg=number)
    for _ in range(3):  # a frame around it
        desk.keyboard.press("Shift+ArrowRight")
    framed = desk.locator("#map .point:not(.dim)").count()
    desk.keyboard.press("Enter")
    desk.wait_for_selector(f"#explore-grid .chosen:has-text('{framed} chosen on the map')")


def test_what_is_typed_is_never_run(desk):
    evil = "<img src=x onerror=window.hacked=1>${window.hacked=2}{{7*7}} 医生 🩺"
    explore(desk, evil)
    assert desk.evaluate("window.hacked") is None
    assert "${window.hacked=2}{{7*7}} 医生 🩺" in desk.inner_text("#header")
    assert "does not know" in desk.inner_text("#header")


# What is seen of a run as it draws; it is stopped once pictures form beside finished ones and their shares.
WATCH_JS = """() => {
  [window.drawing, window.stopped] = [[], false];
  const shown = (id) => Boolean(document.querySelector(id)?.offsetParent);
  const count = (selector) => document.querySelectorAll(`#explore-drawing ${selector}`).length;
  new MutationObserver((_, observer) => {
    if (!count('li')) return;
    const [places, forming, finished, shares] = ['li', '.forming img', '.finished img', '.so-far tbody tr'].map(count);
    const first = document.querySelector('#explore-drawing .forming img')?.alt ?? '';
    window.drawing.push({places, forming, finished, shares, first, before: shown('#header') || shown('#results')});
    if (!(forming && finished && shares)) return;
    observer.disconnect();
    window.stopped = true;
    document.querySelector('#stop').click();
  }).observe(document.querySelector('#explore-drawing'), {childList: true, subtree: true});
}"""


def test_pictures_form_in_place_of_the_result_before_and_stop_leaves_a_result(desk):
    explore(desk)
    assert desk.is_visible("#results")
    desk.fill(CONCEPT, "slow doctor")
    desk.evaluate(WATCH_JS)
    with a_run(desk, "explore"):
        desk.click("#generate")
        desk.wait_for_function("window.stopped")
        stopped = time.monotonic()
    assert time.monotonic() - stopped < 10 * slowdown()
    seen = desk.evaluate("window.drawing")
    assert {one["places"] for one in seen} == {32}
    # A whole batch; which one is caught first hangs on how busy the machine is.
    assert any(one["forming"] == 4 and re.fullmatch(r"Picture \d+ is being drawn", one["first"]) for one in seen)
    assert not any(one["before"] for one in seen)
    assert seen[-1]["finished"] >= 4
    assert not desk.locator("#explore-drawing li").count()
    assert 4 <= desk.locator(GRID).count() < 16
    assert desk.is_visible("#generate")
    assert desk.is_visible("#results")
    assert "slow doctor" in desk.inner_text("#header")
    assert "that were finished" in desk.inner_text("#explore-next")


def test_a_finished_picture_is_marked_as_being_drawn_until_it_is_loaded(visit):
    page, held, is_held = visit(), [], [True]
    page.wait_for_selector("#header h2")
    page.route("**/gradio_api/file=**", lambda route: held.append(route) if is_held else route.continue_())
    page.fill(CONCEPT, "slow doctor")
    page.click("#generate")
    page.wait_for_selector("#explore-drawing .finished.loading")
    assert not page.locator("#explore-drawing .finished:not(.loading)").count()
    is_held.clear()
    for route in held:
        route.continue_()
    page.wait_for_selector("#explore-drawing .finished:not(.loading) img")


def test_a_result_of_others_is_hidden_where_own_pictures_are_chosen_until_they_are_measured(desk, tmp_path):
    page, rng = desk, Random(4)
    switch(page, "explore")
    page.wait_for_selector("#header h2")
    for i in range(4):
        draw_scene(_portrait(rng), 32).save(tmp_path / f"IMG_{i}.png")
    page.click("#explore-source label:has-text('Use my pictures')")
    page.wait_for_selector("#header :text('because it does not show your pictures')")
    assert not page.is_visible("#header h2")
    assert not page.is_visible("#results")
    page.set_input_files("#explore-files", [*tmp_path.glob("*.png")])
    page.wait_for_selector("#explore-found h3:has-text('4 pictures')")
    page.locator("#explore-prompts-from input").click()
    page.get_by_role("option", name="one prompt for all").click()
    page.fill("#explore-own-prompt :is(input, textarea)", "a photo of a nurse")
    page.press("#explore-own-prompt :is(input, textarea)", "Enter")
    page.wait_for_selector("#explore-found b:text-is('a photo of a nurse')")
    assert page.is_visible("#explore-copies")  # the corrections stay open
    page.click("#generate")
    page.wait_for_selector("#header h2:visible")
    assert "4 of 4 pictures" in page.inner_text("#header")
    page.click("#explore-remove")
    page.wait_for_selector("#header :text('because it does not show your pictures')")
    page.click("#explore-source label:has-text('Draw with a model')")
    page.wait_for_selector("#header h2:visible")


def test_a_picture_fills_the_window_leads_to_the_next_and_is_saved_and_dots_open_pictures_as_names_do(visit, axe):
    page = visit()
    page.wait_for_selector("#header .example-note")
    page.locator("#explore-grid .thumbnail-item").first.click()
    large = page.wait_for_selector("#explore-picture .large")
    assert large.bounding_box()["width"] > 500  # of 64 pixels
    seed = page.inner_text("#explore-picture dl")
    page.click("#explore-picture [data-by='1']")
    page.wait_for_function("(dl) => document.querySelector('#explore-picture dl').innerText !== dl", arg=seed)
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("(dl) => document.querySelector('#explore-picture dl').innerText === dl", arg=seed)
    assert not serious(page, axe, "#explore-picture")
    with page.expect_download() as download:
        page.click("#explore-picture .picture-tools a")
    assert download.value.suggested_filename.endswith(".png")
    page.keyboard.press("Escape")
    page.locator(".arms-chart .dot").first.press("Enter")
    page.wait_for_selector("#explore-grid .chosen:has-text('man')")
    unfold(page, "explore", "numbers")
    table = page.locator("#explore-findings table").first
    for begins in ("dark skin", "old"):  # a second press turns it around
        table.locator(".sort").first.click()
        assert table.locator("tbody th").first.inner_text().startswith(begins)
    assert not serious(page, axe, "#explore-findings")
