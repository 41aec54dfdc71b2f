"""The Runs tab's handlers, and what it says of a run and of an import."""

import asyncio
import io
import re
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.helpers import special_args

from bias_core.app.build import build_app
from bias_core.errors import InvalidInput
from bias_core.explore.options import explore_settings
from bias_core.report.saved import list_examples
from bias_core.run import history
from bias_core.run.history import list_runs
from bias_core.run.run import complete, run_study
from bias_core.study.design import find_design, list_designs
from bias_core.study.types import Arm, StudySettings
from bias_core.ui.model_menu import attribute_rows
from bias_core.ui.runs.compare import split_comparison
from bias_core.ui.runs.tab import RunsTab, runs_html
from bias_core.ui.study.comparison import seeds_in_two
from bias_core.ui.study.own_pictures import arrived_html, look_through
from bias_core.ui.visitor import Visitor, on_arrive
from bias_core.world.scene import draw_scene
from tests import shared
from tests.explored import explore
from tests.ui.fakes import _portrait
from tests.ui.tabs import form_values, plain_of

services = shared.fake_services

EVIL = "<img src=x onerror=alert(1)>"
SETTINGS = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})


def opens(tab, shown, key):
    """True if these updates open the tab ``key``."""
    opened = tab.places.open(key)
    return {part: shown.get(part) for part in opened} == opened


@pytest.fixture(scope="module")
def page(services):
    """The whole app, as on a Space with ZeroGPU, where Gradio's own queue has room for one event."""
    real, tabs = RunsTab.connect, []

    def connect(tab, *others):
        tabs.append(tab)
        real(tab, *others)

    async def laid_out():  # Gradio's queue wants a running loop
        return build_app(services)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPACES_ZERO_GPU", "true")
        patch.setattr(RunsTab, "connect", connect)
        demo = asyncio.run(laid_out())
    demo.runs_tab = tabs[0]
    return demo


@pytest.fixture(scope="module")
def tab(page):
    """The tab as it stands in the whole app."""
    return page.runs_tab


event = SimpleNamespace


def associated(services, visitor):
    """A run of eight association tests, of one of them."""
    return complete(run_study(find_design("t2iat-tests"), SETTINGS, services, session=visitor.key))


def of(tab, key):
    """A tab of the app by its key."""
    return next(other for other in tab.others if key in other.keys)


def zipped(path, prompts):
    rng = Random(2)
    with zipfile.ZipFile(path, "w") as archive:
        for prompt, n in prompts.items():
            for i in range(n):
                buffer = io.BytesIO()
                draw_scene(_portrait(rng), 32).save(buffer, "PNG")
                archive.writestr(f"{prompt}/{i}.png", buffer.getvalue())
    return path


def last(updates):
    *_, update = updates
    return update


def brought(tab, path):
    """The updates of Explore after an upload, with the studies that can measure it."""
    own = of(tab, "explore").own_pictures
    seen = last(own.on_upload(Visitor(), path and str(path)))
    return seen | {own.fits: tab.on_arrived(seen[own.arrived])}


def test_a_key_is_32_hex_digits_or_nobodys(visitor):
    own = visitor.key
    for key in ("", "a" * 31, "A" * 32, "a" * 31 + "/", "../" * 10 + "aa", None, 7):
        with pytest.raises(InvalidInput):
            visitor.key = key
    assert on_arrive(visitor, "no key") == own
    assert on_arrive(visitor, "c" * 32) == "c" * 32 == visitor.key


def test_keep_delete_and_undo(tab, services, visitor):
    parts, run = tab.parts, associated(services, visitor).run_id
    told = tab.on_act(visitor, None, event(act="keep", run=run))
    assert "Do not keep" in told[parts["list"]]
    told = tab.on_act(visitor, None, event(act="delete", run=run))
    assert list_runs(services, visitor.key) == []
    assert "Undo" in told[parts["list"]]
    told = tab.on_act(visitor, told[parts["deleted"]], event(act="undo", run=""))
    assert told[parts["deleted"]] is None
    assert list_runs(services, visitor.key)[0].is_kept
    stranger = Visitor()
    told = tab.on_act(stranger, None, event(act="delete", run=run))
    assert "no run" in told[parts["status"]]


def test_a_run_opens_in_the_tab_of_its_study_with_its_form(tab, services, visitor):
    settings = explore_settings(concept="nurse", n_images=5, attribute_a="", attribute_b="")
    *_, explored = explore(settings, services, session=visitor.key)
    for report, key, form in (
        (associated(services, visitor), "association", {"percent": 2}),
        (explored, "explore", {"concept": "nurse", "n_images": 5}),
    ):
        shown, there = tab.on_open(visitor, event(run=report.run_id)), of(tab, key)
        assert opens(tab, shown, key)
        assert there.claims(report.design)
        assert {name: shown[there.form[name]] for name in form} == form
        assert "Opened: a run of" in shown[there.parts["status"]]
        assert set(shown) <= {*tab.places.outputs(), tab.parts["status"], *there.opened_outputs()}


def test_a_run_that_is_no_longer_there_is_said(tab, visitor):
    for run in ("0" * 16, "../../etc"):
        assert "That did not work" in tab.on_open(visitor, event(run=run))[tab.parts["status"]]
        *_, last = tab.on_again(visitor, run)
        assert "That did not work" in last[tab.parts["status"]]


def test_running_again_ends_where_the_study_is_shown(tab, services, visitor):
    report = associated(services, visitor)
    *_, last = tab.on_again(visitor, report.run_id)
    assert opens(tab, last, "association")
    assert any("Done in" in str(value) for value in last.values())


def test_pictures_of_ones_own_are_looked_through_and_measured(tab, visitor, tmp_path):
    path = zipped(tmp_path / "mine.zip", {"a photo of a nurse": 5, EVIL.replace("/", ""): 4})
    explorer = of(tab, "explore")
    own, parts = explorer.own_pictures, explorer.parts
    shown = tab.on_bring(None)
    assert opens(tab, shown, "explore")
    assert shown[own.source] == "own"
    seen = brought(tab, path)
    assert "9 pictures of 2 prompts" in seen[own.found]
    assert 'data-study="explore"' in seen[own.fits]
    rows = attribute_rows(explorer.sets["people"].attributes)
    own_values = {"images": seen[own.images], "encoder": "calibration-clip", "attributes": rows}
    values = form_values(explorer) | own_values
    *_, refused = explorer.on_run(visitor, values)
    assert "calibration-clip reads only pictures of the calibration world" in refused[parts["status"]]
    assert refused[explorer.no_classifier.box]["visible"]
    assert refused[explorer.no_classifier.label]["visible"]
    *_, done = explorer.on_run(visitor, values | {"force": True})
    assert '<p class="warning" role="alert">Forced:' in done[parts["header"]]
    assert "9 of 9 pictures scored" in done[parts["header"]]
    assert str(tmp_path) not in done[parts["shell"]] + done[parts["python"]]
    assert str(tmp_path) not in str(done[parts["report"]].settings)
    rows = [["tall", "a photo of a tall man", "a photo of a short man", "", ""]]
    *_, done = explorer.on_run(visitor, values | {"force": True, "attributes": rows})
    assert "tall, pooled over prompts: P" in done[parts["findings"]]


def test_a_study_that_fits_pictures_of_ones_own_opens_with_them(tab, visitor, tmp_path):
    arrived = brought(tab, zipped(tmp_path / "mine.zip", {"a person": 3}))[of(tab, "explore").own_pictures.arrived]
    page = of(tab, "objects")
    visitor.typed["objects"] = page.first_values("objects") | {"seed": "5"}
    shown = tab.on_fit(visitor, arrived, event(study="tbyb-dataset"))
    assert opens(tab, shown, "objects")
    assert shown[page.form["study"]]["value"] == visitor.typed["objects"]["study"] == "tbyb-dataset"
    assert (shown[page.own_pictures.source], shown[page.own_pictures.images].n) == ("own", 3)
    assert shown[page.form["percent"]] == 100
    assert plain_of(page, shown)["seed"] == "5"
    assert set(shown) <= {*tab.everywhere}


def test_pictures_without_prompts_are_shown_and_get_one_prompt_or_those_of_a_table(tab, services, visitor, tmp_path):
    own, path = of(tab, "explore").own_pictures, tmp_path / "plain.zip"
    zipped(path, {"a": 3})
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(tmp_path / "numbers.zip", "w") as numbers:
        for i, name in enumerate(source.namelist()):
            numbers.writestr(f"{i:04}.png", source.read(name))
    seen = brought(tab, tmp_path / "numbers.zip")
    arrived = seen[own.arrived]
    assert "3 pictures without a prompt" in seen[own.found]
    assert "without a prompt" in seen[own.found]
    assert seen[own.images] == arrived.choice  # whatever needs no prompt is measured
    assert seen[own.fold]["open"]

    assert last(own.on_correct(visitor, arrived, "one for all", " ", "count once", "together")) == {
        own.prompt: gr.update(visible=True)
    }
    told = last(own.on_correct(visitor, arrived, "one for all", "a  photo of a nurse", "count once", "together"))
    assert told[own.arrived].look.counts == {"a photo of a nurse": 3}
    assert told[own.arrived].choice.prompts_from == "one for all: a photo of a nurse"
    assert own.fold not in told  # what is being used stays open
    assert told[own.prompts_from] == "one for all"
    told = last(own.on_correct(visitor, told[own.arrived], "folder", "", "count all", "together"))
    assert told[own.arrived].look.counts == {"without a prompt": 3}
    told = last(own.on_press(visitor, told[own.arrived], "count all", "together", event(target=own.concept)))
    assert told[own.arrived].look.counts == {"without a prompt": 3}
    table = tmp_path / "table.csv"
    table.write_text("file_name,prompt\n0001.png,a photo of a cook\nnone.png,x\n")
    told = last(own.on_table(visitor, told[own.arrived], str(table)))
    assert told[own.arrived].look.counts == {"without a prompt": 2, "a photo of a cook": 1}
    table.write_text("file_name,prompt\nnone.png,x\n")
    assert "names no picture" in last(own.on_table(visitor, told[own.arrived], str(table)))[own.status]


def test_reasons_for_what_is_left_out_are_open_and_only_longer_lists_are_folded(tmp_path):
    path = zipped(tmp_path / "mine.zip", {"a photo of a nurse": 2})
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(5):
            archive.writestr(f"{i}.heic", b"x")
        archive.writestr("broken.png", b"no picture")
    arrived = look_through(path)
    heic, broken = arrived.reasons
    assert heic.startswith("0.heic, 1.heic, 2.heic and 2 more: .heic pictures are not supported")
    assert broken.startswith("broken.png: ")
    html = arrived_html(arrived)
    before, _, folded = html.partition("<details>")
    assert "6 left out" in before
    assert before.count("<li dir") == 2
    assert folded.count("<li dir") == 6
    few = replace(arrived, look=replace(arrived.look, left_out={"a.png": "one reason"}))
    assert "a.png: one reason" in arrived_html(few)
    assert "<details>" not in arrived_html(few)


def test_a_form_with_own_pictures_runs_them_and_not_the_model(tab, visitor, tmp_path):
    explorer = of(tab, "explore")
    own, path = explorer.own_pictures, zipped(tmp_path / "mine.zip", {"a photo of a nurse": 5})
    values = form_values(explorer) | {"attributes": [], "images": explorer.on_source("own", None)[own.images]}
    with pytest.raises(InvalidInput, match="no pictures yet: drop them"):
        explorer.design_and_settings(values)
    values["images"] = last(own.on_upload(visitor, str(path)))[own.images]
    design, settings = explorer.design_and_settings(values)
    assert (design.kind, settings.images, settings.options["concept"]) == ("explore", str(path), "")
    assert "“CEO” is not used, because your pictures have prompts" in explorer.describe_form_size(
        values | {"concept": "CEO"}
    )
    values["images"] = replace(values["images"], has_prompts=False)
    assert "All 5 pictures are taken to show “CEO”" in explorer.describe_form_size(values | {"concept": "CEO"})
    assert explorer.design_and_settings(values | {"concept": "CEO"})[1].options["concept"] == "CEO"
    values["images"] = replace(values["images"], has_prompts=True)
    values["arms"] = (Arm(), Arm(model="calibration-renderer"))
    _, settings = explorer.design_and_settings(values)
    assert [arm.images for arm in settings.arms] == [None, ""]  # the second is drawn
    assert explorer.on_source("drawn", None)[own.images] is None


def test_an_import_is_labelled_without_being_measured(tab, services, visitor, tmp_path):
    path = zipped(tmp_path / "mine.zip", {"one nurse on the left and one CEO on the right": 3, "a street": 2})
    imported = brought(tab, path)[of(tab, "explore").own_pictures.arrived]
    *_, last = tab.on_label(visitor, imported)
    form = tab.label.making.form
    assert opens(tab, last, "label")
    assert last[form["kind"]] == "pst_paired"
    assert "5 pictures of this run" in last[form["found"]]
    assert {caption.partition(" · ")[2] for _, caption in last[form["preview"]]["value"]} == {"", "nurse · CEO"}
    (line,) = list_runs(services, visitor.key)
    assert tab.first_view(visitor) == {tab.parts["header"]: ""}  # what is in the list opens in its own tab
    assert last[form["source"]]["value"] == line.run_id
    assert last[form["source"]]["choices"][0][1] == line.run_id
    there = [
        *tab.places.outputs(), tab.parts["list"], tab.drawing.html,
        *(tab.parts[n] for n in ("status", "at_work", "stop")),
    ]  # fmt: skip
    assert set(last) <= {*there, *tab.label.making.source_outputs()}
    shown = tab.on_open(visitor, event(run=line.run_id))
    assert "nothing was measured" in shown[tab.parts["header"]]
    assert "5 of 5 pictures<" in shown[tab.parts["header"]]
    imported.path.unlink()
    *_, last = tab.on_label(visitor, imported)
    assert "upload them again" in last[tab.parts["status"]]


def test_an_upload_that_is_no_zip_is_said_in_place(tab, tmp_path):
    bad = tmp_path / "bad.zip"
    bad.write_bytes(b"no zip")
    for path in (str(bad), None):
        seen = brought(tab, path)
        assert "That did not work" in seen[of(tab, "explore").own_pictures.status]
        assert seen[of(tab, "explore").own_pictures.fits] == ""


def test_what_others_wrote_is_only_text_and_no_run_yet_says_what_will_be_here(services, tmp_path, visitor):
    settings = explore_settings(concept=EVIL, n_images=2, attribute_a="", attribute_b="")
    list(explore(settings, services, session=visitor.key))
    history.describe_run(services, visitor.key, list_runs(services, visitor.key)[0].run_id, name=EVIL, note=EVIL)
    html = runs_html(list_runs(services, visitor.key))
    assert html.count("&lt;img src=x") == html.count("img src=x") > 5  # of the concept, the name and the note
    html += arrived_html(look_through(zipped(tmp_path / "x.zip", {EVIL.replace("/", ""): 1})))
    assert "<img src=x" not in html
    assert "No runs yet" in runs_html([])


def test_every_report_of_a_shipped_study_has_a_tab(tab):
    homeless = [d.name for d in list_designs() if not any(t.claims(d) for t in (*tab.others, tab))]
    assert homeless == []
    own = {"paired": "paired_two", "objects": "prompted_object_bias", "explore": "prompt_pack"}
    designs = {key: SimpleNamespace(kind=kind, name="own") for key, kind in own.items()}
    homes = [next(t for t in tab.others if t.claims(one)).get_design_key(one) for one in designs.values()]
    assert homes == [*designs]
    assert all(isinstance(part, gr.Tabs) for part in tab.places.outputs())


def test_an_example_opens_in_the_tab_of_its_study_and_says_that_it_is_one(tab, visitor):
    shown, association = tab.on_open(visitor, event(run="science-and-arts")), of(tab, "association")
    assert opens(tab, shown, "association")
    assert "comes with the app" in shown[association.parts["header"]]
    assert shown[association.parts["report"]].design.name == "t2iat-tests"


def test_two_finished_runs_are_compared_and_a_hole_in_the_choice_is_said(tab, visitor):
    name = "science-and-arts"
    shown = tab.on_compare(visitor, name, [name])
    title = "Association tests"
    assert [arm.name for arm in shown[tab.parts["report"]].arms] == [title, f"{title}, again"]
    assert "Differences between the arms" in shown[tab.parts["findings"]]
    assert "choose a baseline and at least one run" in tab.on_compare(visitor, name, [])[tab.parts["status"]]


def test_runs_opens_with_an_example_lists_the_shipped_ones_and_offers_two_to_compare(tab):
    newcomer, parts = Visitor(), tab.parts
    shown = tab.first_view(newcomer)
    assert "Asked for “a nurse”" in shown[parts["header"]]
    assert shown[parts["beside"]]["visible"]  # the plot
    assert shown[tab.pictures.grid].count("<img") >= 8
    html = tab.on_list(newcomer)
    assert html.count("Example: ") == len(list_examples()) > 5
    part = tab.compare
    menus = part.on_list(newcomer)
    two = menus[part.first]["value"], menus[part.second]["value"]
    assert two == ("nurses", ["doctors"])
    kept = part.on_list(newcomer, "doctors", ["planted-object"])  # a choice is left alone
    assert (kept[part.first]["value"], kept[part.second]["value"]) == ("doctors", ["planted-object"])
    newcomer.leave()


def test_a_comparison_is_a_report_in_two_arms_with_pictures_a_plot_folds_and_why(tab):
    newcomer, parts = Visitor(), tab.parts
    shown = tab.on_compare(newcomer, "nurses", ["doctors"])
    report = shown[parts["report"]]
    assert "Man: P is 0.29 in “nurse” and 0.96 in “doctor”: a difference of 0.67" in shown[parts["header"]]
    assert shown[tab.pictures.grid].count('<section class="cell"') == 2
    assert not shown[parts["shell"]]["visible"]
    pressed = tab.on_mark(report, event(pictures="man: perceived=yes"))
    assert "man: perceived: yes" in pressed[tab.pictures.grid]
    assert 'data-pictures="man: perceived=yes"' in shown[parts["plot"]] + shown[parts["findings"]]
    assert "Settings that differ" in tab.show_later("details", report)[parts["tables"]]
    for side in split_comparison(report):
        (image_id, *_) = side.pictures["image_id"] if side.pictures is not None else ()
        assert "<td>no</td>" in tab.classification_html(report, image_id)
    taken = tab.on_take(newcomer, report, event(take="report::html"))
    assert Path(taken[parts["file"]]).stat().st_size > 10_000
    newcomer.leave()


def test_a_comparison_has_a_row_per_attribute_with_a_dot_per_run_and_the_difference_to_the_baseline(tab):
    newcomer, parts = Visitor(), tab.parts
    shown = tab.on_compare(newcomer, "nurses", ["doctors"])
    html = shown[parts["plot"]]
    rows = re.findall(r'<th scope="row">.*?>(man|old|glasses|dark skin)</button></th>', html)
    assert (rows[0], sorted(rows[1:3]), rows[3]) == ("man", ["dark skin", "old"], "glasses")  # 67, 15, 15 and 12 points
    noted = html.replace("\N{NO-BREAK SPACE}", " ")
    assert 'data-note="man, doctor: 96 % [86, 99], n = 48"' in noted
    assert 'data-note="man, doctor minus nurse: +67 points [+49, +79], n = 48; clear"' in noted
    assert html.count(" <em>clear</em>") == html.count('; clear" data-note') == 1
    assert html.count('tabindex="0"') >= 3 * len(rows)  # two shares and a difference each
    same_seed = tab.same_seed
    report = shown[parts["report"]]
    assert shown[same_seed.box]["visible"]
    assert not shown[same_seed.other]["visible"]  # there is no other run to choose
    (_, second) = seeds_in_two(report)[0].pictures
    pressed = same_seed.on_picture(report, "1", event(image=second))
    assert pressed[same_seed.seed]["value"] == seeds_in_two(report)[0].pictures[0]
    assert "no longer stored" in same_seed.on_seed(report, "1", "no such picture")
    newcomer.leave()


def test_more_than_two_runs_are_compared_with_the_first(tab):
    newcomer, parts = Visitor(), tab.parts
    shown = tab.on_compare(newcomer, "nurses", ["doctors", "nurses"])
    report = shown[parts["report"]]
    assert len(report.arms) == len(split_comparison(report)) == 3
    assert {row["first"] for row in report.results.frame("differences").to_dict("records")} == {report.arms[0].name}
    assert shown[tab.pictures.grid].count('<section class="cell"') == 3
    assert [value for _, value in shown[tab.same_seed.other]["choices"]] == ["1", "2"]
    other = tab.same_seed.on_other(report, "2")
    assert "again" in other[tab.same_seed.slide]
    newcomer.leave()


def test_what_is_folded_and_pressed_in_runs_is_wired_as_in_a_study(tab, page):
    wired = {target for one in page.fns.values() for target in one.targets}
    pairs = (("by_attribute", "expand"), ("details", "expand"), ("plot", "submit"), ("findings", "submit"))
    assert [name for name, kind in pairs if (tab.parts[name]._id, kind) not in wired] == []


def test_no_event_of_the_page_waits_for_runs(page):
    runs = [event for event in page.fns.values() if event.concurrency_limit is None and event.queue]
    assert len(runs) > 10
    assert page._queue.max_size >= 2000
    others = {event.concurrency_id for event in page.fns.values() if event not in runs}
    assert not others & {event.concurrency_id for event in runs}
    # The stream that Gradio's queue answers over closes when nobody waits, and who presses just then is not answered.
    pressed = [
        event for event in page.fns.values() if event.trigger_mode == "multiple" and event.fn and event not in runs
    ]
    assert len(pressed) > 10
    assert {event.concurrency_id for event in pressed if event.queue} == {"paired-labels"}

    # What is typed or chosen while an answer is on its way counts; an event that waits has forgotten what was pressed.
    named = [(event, target) for event in page.fns.values() for target in event.targets]
    asked = [event for event, (_, name) in named if name == "input" and event.js is not True and event.fn]
    assert len(asked) > 10
    assert not [event.fn for event in asked if event.trigger_mode == "once"]
    waiting = [event.fn for event in page.fns.values() if event.trigger_mode == "always_last" and event.fn]
    assert not [fn for fn in waiting if special_args(fn)[2] is not None]
    # Gradio repeats an event whose listener waits for all of its listeners: two that wait would be asked for ever.
    waiting = Counter(
        target for event in page.fns.values() if event.trigger_mode == "always_last" for target in event.targets
    )
    assert [target for target, n in waiting.items() if n > 1 and target[0] is not None] == []


def test_what_is_typed_while_a_count_is_on_its_way_is_counted_too(page):
    counts = {key for key, part in page.blocks.items() if str(part.elem_id).endswith("-count")}
    edits = [event for event in page.fns.values() if any((key, "edit") in event.targets for key in counts)]
    assert edits
    assert {event.trigger_mode for event in edits} == {"always_last"}


def test_the_address_in_runs_does_not_name_a_result_of_another_tab(tab):
    header = tab.first_view(Visitor())[tab.parts["header"]]
    assert "data-share" in header
    assert "data-result" not in header
