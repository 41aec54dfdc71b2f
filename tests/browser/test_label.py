"""The rater's screen in a real browser, served without the rest of the app."""

import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from bias_core.labels.label_store import LabelStore
from bias_core.labels.results import given_answers
from bias_core.labels.task_owner import set_status
from bias_core.study.label_tasks import Answer
from bias_core.world.scene import draw_scene
from tests.browser.conftest import PATIENCE_MS
from tests.browser.doing import empty_upload, open_accordion, serious, switch, violations
from tests.browser.timing import slowdown
from tests.labels.raters import open_task
from tests.ui.fakes import _pair
from tests.ui.served import serving

pytestmark = pytest.mark.browser
KEYS = {"f": "feminine", "m": "masculine", "c": "cannot_identify", "n": "not_two_people"}


@dataclass(frozen=True)
class Door:
    """The rater's page and its door in a process, and the store that it writes to."""

    url: str
    store: LabelStore
    folder: Path

    def task(self, n=12):
        return open_task(self.store, self.folder / "originals", n)

    def said(self, task):
        return [tuple(given.choices.values()) for given in given_answers(self.store, task.key)]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door")
    with serving(folder, "tests.labels.serve") as served:
        data = served.data_dir
        store = LabelStore(f"sqlite:///{data}/labels.sqlite", pictures=data / "label_pictures")
        yield Door(url=served.url, store=store, folder=folder)
        store.close()


@pytest.fixture
def rater(browser, door):
    """Open the link on a device of its own."""
    contexts = []

    def on_a_device(task, *, width=1280, height=860, scheme="light", locale="en-US"):
        phone = width < 500
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=phone, is_mobile=phone,
            locale=locale,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: pytest.fail(f"the page: {error}"))
        page.goto(f"{door.url}/label?task={task.join_code}")
        page.wait_for_selector("#welcome:not([hidden])")
        return page

    yield on_a_device
    for context in contexts:
        context.close()


def join(page):
    """Agree, and take the code along."""
    page.check("#agreed")
    page.click("#join")
    page.wait_for_selector("#joined:not([hidden])")
    code = page.inner_text("#new-code")
    page.click("#begin")
    wait_for(page, 0)
    return str(code)


def wait_for(page, n_answered):
    page.wait_for_selector(f"#rate:not([hidden]):not([aria-busy]) #counts:text('{n_answered} answered')")


def test_a_rater_joins_answers_by_keyboard_goes_on_elsewhere_and_deletes(door, rater, axe):
    task = door.task(40)
    page = rater(task)
    assert "stereotypes" in page.inner_text("#content-note")
    page.click("#join")  # without consent
    assert "Tick the box" in page.inner_text("#alert")
    assert violations(page, axe) == []
    code = join(page)
    assert re.fullmatch(r"([0-9A-Z]{4}-){4}[0-9A-Z]{4}", code)
    said = []
    for n, keys in enumerate(["fm", "mf", "ff", "mm", "cf", "n", "fc", "mm", "fm", "mf"], start=1):
        shown = page.get_attribute("#picture", "src")
        page.keyboard.type(keys)
        wait_for(page, n)
        assert page.get_attribute("#picture", "src") != shown
        said.append(tuple(KEYS[key] for key in (keys if len(keys) == 2 else keys * 2)))
    assert door.said(task) == said
    page.keyboard.press("f")  # the left one only: nothing is sent
    assert "left: looks feminine" in page.inner_text("#steps")
    page.keyboard.press("u")
    assert page.inner_text("#steps").split() == ["left", "right"]
    page.keyboard.press("Backspace")
    wait_for(page, 9)
    assert page.get_attribute("#answers .before span", "data-label") == "your answer before"
    assert door.said(task) == said[:-1]
    page.keyboard.press("i")
    assert "a picture shows appearance only" in page.inner_text("#instructions")
    page.keyboard.press("f")  # under the instructions no key is an answer
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    page.wait_for_selector("#counts:text('30 left')")
    assert door.said(task) == said[:-1]
    assert violations(page, axe) == []

    elsewhere = rater(task, width=390, height=780, scheme="dark")
    elsewhere.click("#returning summary")
    elsewhere.fill("#code-again", code.lower().replace("-", " "))
    elsewhere.click("#resume")
    wait_for(elsewhere, 9)
    assert elsewhere.get_attribute("#picture", "src") == page.get_attribute("#picture", "src")
    assert violations(elsewhere, axe) == []
    elsewhere.click("#open-mine")
    assert elsewhere.inner_text("#my-code") == code.lower().replace("-", " ")
    elsewhere.click("#mine summary:text('Delete my answers')")
    elsewhere.click("#delete")
    elsewhere.wait_for_selector("#gone:not([hidden])")
    assert "9 answers are gone" in elsewhere.inner_text("#gone")
    assert door.said(task) == []
    page.keyboard.press("n")  # the first device: its code is gone, and it says so
    page.wait_for_selector("#welcome:not([hidden])")
    assert "no rater has this code" in page.inner_text("#alert")


def test_no_two_actions_share_a_key_whatever_the_answers_take(door, rater):
    own = [Answer(key=word, label=word, shortcut=key) for word, key in (("so", "S"), ("it", "i"), ("un", "u"))]
    for letter, said, changes in (("u", "unclear", {"looks": "four"}), ("S", "so", {"answers": tuple(own)})):
        task = open_task(door.store, door.folder / "originals", **changes)
        page = rater(task)
        join(page)
        keys = page.evaluate("[...document.querySelectorAll('[aria-keyshortcuts]')].map((one) => one.ariaKeyShortcuts)")
        assert len(each := " ".join(keys).lower().split()) == len(set(each)) >= 4
        assert page.inner_text("#undo kbd") == "⌫"
        page.keyboard.type(letter)
        assert f"left: {said}" in page.inner_text("#steps")
        page.keyboard.press("Backspace")
        assert page.inner_text("#steps").split() == ["left", "right"]
        page.keyboard.type(2 * letter)
        wait_for(page, 1)
        assert door.said(task) == [(said, said)]


def test_a_german_rater_reads_german_and_gives_the_same_answers(door, rater, axe):
    task = door.task(2)
    page = rater(task, width=390, height=780, scheme="dark", locale="de-AT")
    page.wait_for_selector("#join:text('Beginnen')")
    assert "Die Teilnahme ist freiwillig" in page.inner_text("#consent")
    assert "Manche zeigen Stereotype" in page.inner_text("#content-note")
    page.click("#join")
    page.wait_for_selector("#alert:has-text('Setzen Sie das Häkchen')")
    page.check("#agreed")
    page.click("#join")
    page.wait_for_selector("#joined:has-text('Ein Bild zeigt nur das Aussehen')")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("#begin")
    page.wait_for_selector("#counts:text('0 beantwortet, noch 2')")
    assert "feminine oder maskuline Züge?" in page.inner_text("#question")
    assert page.locator("#answers button span").first.inner_text() == "wirkt feminin"
    assert violations(page, axe) == []
    page.keyboard.press("f")
    page.wait_for_selector("#steps:has-text('links: wirkt feminin')")
    page.keyboard.press("m")
    page.wait_for_selector("#counts:text('1 beantwortet')")
    page.keyboard.press("n")
    page.wait_for_selector("#done:has-text('Sie haben 2 Bilder beantwortet. Für Sie gibt es kein weiteres Bild.')")
    assert door.said(task) == [("feminine", "masculine"), ("not_two_people", "not_two_people")]


def test_an_answer_that_could_not_be_sent_is_kept_over_a_reload_and_counts_once(door, rater):
    task = door.task(4)
    page = rater(task)
    join(page)
    page.context.set_offline(True)
    page.keyboard.type("fm")
    page.wait_for_selector("#alert:has-text('kept on this device')")
    shown = page.get_attribute("#picture", "src")
    assert door.said(task) == []
    page.context.set_offline(False)  # the page notices by itself
    wait_for(page, 1)
    assert page.get_attribute("#picture", "src") != shown
    assert page.is_hidden("#alert")
    # The answer arrives, and its acknowledgement does not.
    page.route("**/label/answer", lambda route: (route.fetch(), route.abort())[1])
    page.keyboard.type("mf")
    page.wait_for_selector("#alert:has-text('kept on this device')")
    page.unroute_all(behavior="ignoreErrors")
    page.reload()
    wait_for(page, 2)
    assert door.said(task) == [("feminine", "masculine"), ("masculine", "feminine")]
    set_status(door.store, task.key, "closed")
    page.keyboard.type("ff")
    page.wait_for_selector("#done:not([hidden])")
    assert "closed" in page.inner_text("#alert")
    assert "You have answered 2 pictures" in page.inner_text("#done")


def test_on_a_phone_the_picture_and_all_answers_are_seen_at_once_and_forty_are_quick(door, rater):
    task = door.task(41)
    page = rater(task, width=390, height=700, scheme="dark")
    join(page)
    size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert size == [390, 700]
    for button in page.locator("#answers button, #acts button").all():
        box = button.bounding_box()
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= 700
    assert page.locator("#picture").bounding_box()["width"] >= 200
    page.wait_for_timeout(300)  # a tap at once would be the second of a tap on the picture before
    page.locator("#answers button").first.tap()
    page.wait_for_selector("#steps [aria-current]:text('right')")
    page.locator("#answers button").last.tap()
    for n in range(1, 40):
        wait_for(page, n)
        page.keyboard.type("mc")
    page.wait_for_selector("#rest:not([hidden])")
    assert "answered 40 pictures" in page.inner_text("#rest")
    # From the answer to the next picture on the screen, the store's disk included; the rest is the rater's.
    took = page.evaluate("performance.getEntriesByName('answer').map(entry => entry.duration)")
    assert len(took) == 40
    print(f"40 pairs: {sum(took) / 1000:.2f} s of the app's own time, {sorted(took)[20]:.0f} ms the median")
    assert sum(took) < 20_000 * slowdown()  # two minutes leave 2.5 s a pair for looking
    page.click("#rested")
    wait_for(page, 40)
    page.keyboard.press("s")
    page.wait_for_selector("#done:not([hidden])")
    assert "Thank you" in page.inner_text("#done")
    assert len(door.said(task)) == 40


def pairs_of_a_closed_model(path, n):
    """A zip with pictures of two people and a table of whom they were to show."""
    lines = ["file_name,prompt,left,right"]
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(n):
            buffer = io.BytesIO()
            draw_scene(_pair(Random(i)), 64).save(buffer, "PNG")
            archive.writestr(f"{i}.png", buffer.getvalue())
            lines.append(f"{i}.png,two at work,nurse,CEO")
        archive.writestr("metadata.csv", "\n".join(lines))
    return path


def test_an_owner_brings_pictures_makes_a_task_of_them_and_sees_what_raters_say(desk, visit, served, axe, tmp_path):
    page = desk
    empty_upload(page)
    page.set_input_files("#explore-upload input[type=file]", pairs_of_a_closed_model(tmp_path / "mine.zip", 5))
    page.click("#explore-label")
    page.wait_for_selector("#label-found:has-text('5 pictures of this run')")
    assert page.locator(".seen-page img").count() == 2
    open_accordion(page, "label-more")
    page.locator("#label-preview .thumbnail-item").nth(2).click()
    page.wait_for_selector("#label-picked:has-text('Picture 3 (nurse, CEO)')")
    for i in range(2):
        page.locator(f"#label-right-{i} label").first.click()
    page.click("#label-mark")
    page.wait_for_selector("#label-picked:has-text('1 marked in all')")
    for name, value in (("Number of pictures", "2"), ("Attention checks, % of pictures", "99")):
        page.locator(f"input[aria-label='{name}']:visible").fill(value)
        page.locator(f"input[aria-label='{name}']:visible").blur()
    page.click("#label-make")
    page.wait_for_selector("#label-header:has-text('2 pictures, 3 raters each')")
    page.click("#label-open")
    page.wait_for_selector("#label-paused")
    link = page.evaluate("document.querySelector('#label-link-raters').href")
    for keys in ("fm", "ff"):
        rater = page.context.browser.new_context()
        theirs = rater.new_page()
        theirs.set_default_timeout(PATIENCE_MS)
        theirs.goto(link)
        theirs.wait_for_selector("#welcome:not([hidden])")
        join(theirs)
        for n in (1, 2, 3):  # the check among them
            theirs.keyboard.type(keys)
            if n < 3:
                wait_for(theirs, n)
        theirs.wait_for_selector("#done:not([hidden])")
        rater.close()
    page.click("#label-refresh")
    page.wait_for_selector("#label-progress:has-text('4 of 6 answers')")
    page.wait_for_selector("#answers-header:has-text('agreement of many raters')")  # not Krippendorff’s α
    assert "2 raters" in page.inner_text("#label-progress")
    assert "1 of 2 attention checks failed" in page.inner_text("#label-progress")
    assert serious(page, axe) == {}
    owner = page.evaluate("document.querySelector('#label-link-owner').href")
    elsewhere = visit(query=owner.removeprefix(served.url))  # the link alone opens the task
    elsewhere.wait_for_selector("#label-progress:has-text('4 of 6 answers')")


def test_a_visitor_answers_the_demonstration_by_keyboard_and_sees_agreement_change(visit, served, axe):
    page = visit()
    switch(page, "label")
    page.get_by_label("A demonstration").check()
    page.wait_for_selector("#label-demo [data-answer]")
    before = sorted(served.data_dir.glob("labels*"))
    page.locator("#label-demo [data-answer]").first.click()
    page.keyboard.press("Backspace")
    assert page.inner_text("#label-demo [role=status]") == "picture 1 of 8"
    page.keyboard.type("12121212")
    page.wait_for_selector("#label-demo-result h3:has-text('With your answers all 3 raters give the same answer for')")
    assert page.locator("#label-demo-result svg").count() == 1
    assert page.locator("#label-demo-result tbody tr").count() == 8
    assert serious(page, axe, "#label-demo") == {}
    page.keyboard.press("Enter")  # "Answer again" has the focus
    assert page.inner_text("#label-demo [role=status]") == "picture 1 of 8"
    assert sorted(served.data_dir.glob("labels*")) == before
    page.get_by_label("A run", exact=True).check()
    page.wait_for_selector("#label-make")
