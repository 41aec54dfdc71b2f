"""A run's line on the page after a reload, and after many others were opened meanwhile."""

import asyncio
import gzip
import inspect
import json
import secrets
import threading
import time
import urllib.request
from contextlib import suppress
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from bias_core.app.api import Tools
from bias_core.app.build import ComingBack
from bias_core.app.gradio_faults import MendedBlocks
from bias_core.errors import Cancelled
from bias_core.explore.options import explore_settings
from bias_core.explore.tab import ExploreTab
from bias_core.papers.t2iat.tab import Association
from bias_core.report.saved import is_saved
from bias_core.run.run import complete, run_study
from bias_core.run.run_queue import Requester, RunQueue
from bias_core.study.design import find_design
from bias_core.study.types import Progress, StudySettings
from bias_core.types import ImageRow, StoredImage
from bias_core.ui.runs.tab import RunsTab
from bias_core.ui.study.shown_report import _UNSAVED, find_report, get_report_name
from bias_core.ui.templates import script
from bias_core.ui.visitor import Visitor, find_network_address
from tests import shared
from tests.attack.page import PREFIX, PageVisitor
from tests.ui.tabs import built, form_values

# Gradio holds a chosen value against the menu as it was built.
pytestmark = pytest.mark.filterwarnings("ignore:The value passed into gr.Dropdown:UserWarning")


def others_come(page, n):
    """So many other pages that Gradio lets go of the states of this one."""
    stop = page.button("stop")
    for _ in range(n):
        body = {"data": [None], "fn_index": stop, "session_hash": secrets.token_hex(6), "event_data": None}
        page.client.post(f"{PREFIX}/run/predict", json=body).raise_for_status()


def test_the_last_run_of_each_tab_is_there_after_a_reload_whoever_came_meanwhile(served):
    page, stranger = PageVisitor(served.url), PageVisitor(served.url)
    page.open()
    *_, done = page.press("generate", concept="surgeon", n_images=4, model="calibration-renderer")
    assert done["success"]
    page.choose("association")
    *_, done = page.press(
        "paper-run", paper_model="calibration-renderer", paper_percent=2, paper_seed=11,
        paper_option_tests="science_arts",
    )  # fmt: skip
    assert done["success"]
    others_come(page, 210)
    page.select("explore-taking", take="table:findings:csv")  # the open page still has its report
    assert ".csv" in str(page.shown["explore-file"])
    page.open()
    assert "a photo of a surgeon" in page.shown["header"]
    assert "Opened: a run of" in page.shown["status"]
    assert page.shown["concept"] == "surgeon"
    assert page.shown["model"] == "calibration-renderer"
    assert "Opened: a run of" in page.shown["paper-status"]  # of the paper whose tab was open
    assert "Science" in page.shown["paper-header"]
    assert page.shown["paper-percent"] == 2
    fields = json.loads(page.shown["paper-values"])
    assert (int(fields["seed"]), fields["option.tests"]) == (11, "science_arts")
    page.choose("paired")
    assert "example-note" in page.shown["paper-header"]  # no run of this paper
    stranger.open()
    assert "example-note" in stranger.shown["header"]  # nobody's run
    assert "surgeon" not in stranger.shown["header"]
    stranger.immediately("generate")  # the example stays until there is a result
    stranger.select("explore-taking", take="zip::zip")  # nor is another's report taken for it
    assert "explore-example-fair-and-published.zip" in stranger.shown["status"]
    for visitor in (page, stranger):
        visitor.client.close()


def test_a_tab_opens_with_its_example_which_leaves_the_form_alone_and_goes_for_a_run_of_ones_own(served):
    page = PageVisitor(served.url)
    page.open()
    assert "Example: a doctor, with and without planted bias." in page.shown["header"]
    page.select("calibration-looked-at")
    assert "example-note" in page.shown["calibration-header"]
    headers = set()
    for key in ("association", "paired", "objects", "internal", "origins"):
        page.choose(key)
        assert "example-note" in page.shown["paper-header"], key
        assert page.shown["paper-findings"], key
        assert page.shown.get("paper-percent", 10) == 10, key  # the paper's form, not the settings of its example
        headers.add(page.shown["paper-header"])
    assert len(headers) == 5
    page.shown.clear()
    page.choose("origins")
    assert "paper-header" not in page.shown
    for again, is_shown in (("", False), ("yes", True)):  # the page lost what it was told, and says so
        page.select("explore-looked-at", again=again)
        assert ("header" in page.shown) == is_shown
    page.choose("association")
    *_, done = page.press(
        "paper-run", paper_model="calibration-renderer", paper_percent=2, paper_option_tests="science_arts"
    )
    assert "example-note" not in str(done["output"])
    page.open()
    own = page.shown["paper-header"]
    page.shown.clear()
    page.choose("association")
    assert "paper-header" not in page.shown
    assert "example-note" not in own
    page.client.close()


def test_papers_are_chosen_and_keep_their_results_whoever_came_meanwhile(served):
    page = PageVisitor(served.url)
    page.open()
    page.choose("association")
    own = {"paper_model": "calibration-renderer", "paper_percent": 2, "paper_option_tests": "science_arts"}
    *_, done = page.press("paper-run", **own)
    assert done["success"]
    others_come(page, 210)
    page.shown.clear()
    page.choose("paired")
    assert page.shown["paper-study"] == "pst-occupations"
    assert "example-note" in page.shown["paper-header"]
    page.choose("association")
    assert page.shown["paper-study"] == "t2iat-tests"
    assert "Science" in page.shown["paper-header"]
    assert "example-note" not in page.shown["paper-header"]
    page.client.close()


def test_a_preset_of_a_paper_and_an_example_are_a_press_away(served):
    page = PageVisitor(served.url)
    page.open()
    page.choose("association")
    page.select("paper-chips", chip="association-0")
    assert "Filled in. Press “Run and measure” to run it." in page.shown["paper-status"]  # nothing runs yet
    messages = page.press("paper-run")
    shown = [str(message["output"]) for message in messages if "output" in message]
    assert any("Done in" in output for output in shown)
    preset = Association.presets[0]
    assert page.held[page.number("paper-study")] == preset.study
    assert page.held[page.number("paper-values")] != ""
    page.choose("paired")
    page.select("paper-chips", "submit", example="science-and-arts")  # of any paper
    assert "Opened: an example" in page.shown["paper-status"]
    page.select("paper-chips", "submit", example="../../etc/passwd")
    assert "there is no example" in page.shown["paper-status"]
    page.client.close()


def test_a_tab_shows_no_example_to_whom_has_a_run_there_asks_for_one_or_is_not_known_yet(fakes, monkeypatch):
    tab, visitor = built(ExploreTab, fakes), Visitor()
    coming = ComingBack(fakes, built(RunsTab, fakes), [tab])
    at = SimpleNamespace(query_params={"tab": "explore", "concept": "nurse"})
    header = tab.parts["header"]
    assert header not in coming.on_look("explore", visitor, None)  # the page was opened just now
    visitor.key = "a" * 32
    assert "<strong>Example" in coming.on_look("explore", visitor, None)[header]
    assert header not in coming.on_look("explore", visitor, None, at)
    report = explored(fakes, session=visitor.key)
    assert header not in coming.on_look("explore", visitor, report)
    stopped = Visitor()  # who began a run here and stopped it before it had a report: its last word stays
    stopped.key = "f" * 32
    tab.on_click(stopped)
    assert header not in coming.on_look("explore", stopped, None)
    hurried = Visitor()
    hurried.key = "e" * 32
    monkeypatch.setattr(tab, "first_view", lambda visitor: visitor.start(fakes, "explore") or {header: "Example"})
    assert header not in coming.on_look("explore", hurried, None)  # a run began while the example was made
    assert header not in coming.on_look("explore", visitor, None)


def test_a_run_at_work_is_followed_after_a_reload_and_can_be_stopped(served):
    page = PageVisitor(served.url)
    page.open()
    messages = page.press("generate", concept="slow judge", n_images=200, explore_seed=5)
    while "process_generating" not in next(messages)["msg"]:
        pass
    messages.close()
    page.client.close()
    again = PageVisitor(served.url)
    again.key = page.key
    steps = []

    def on_step(output):
        steps.append(output)
        if len(steps) == 3:
            again.immediately("stop")

    again.on_step = on_step
    again.open()
    assert "continued while the page reloaded" in steps[0]
    assert "slow judge" in again.shown["header"]  # what was finished when Stop was pressed
    assert "Stopped" in str(again.shown)
    again.client.close()


def test_a_run_that_the_page_does_not_show_is_named_and_no_press_elsewhere_stops_it(fakes):
    tab, runs, visitor = built(Association, fakes), built(RunsTab, fakes), Visitor()
    visitor.key, coming, go_on = "b" * 32, ComingBack(fakes, runs, [tab]), threading.Event()
    settings = StudySettings(scale=0.02, options={"tests": ["science_arts"], "n_permutations": 200})
    report = complete(run_study(find_design("t2iat-tests"), settings, fakes, session=visitor.key))
    fakes.manifests.save(replace(fakes.manifests.find(report.run_id), status="running"))
    assert "interrupted" in runs.on_list(visitor)

    def steps():
        while not go_on.wait(0.01) and not visitor.stop.is_set():
            yield Progress(message="drawing")

    run = fakes.run_queue.begin(steps, Requester(name=visitor.key), visitor.stop, "runs")
    notice, listed, *last = coming.on_arrived(visitor)
    assert notice["visible"]
    for html in (notice["value"], listed):
        assert 'data-act="watch"' in html
        assert 'data-act="stop"' in html
    assert 'data-act="again"' not in listed
    assert last == ["at work"]  # a paper's last run is shown once the paper is chosen
    refused = tab.on_click(visitor)
    assert "Your run in Runs is still running" in refused[tab.parts["at_work"]]
    assert list(tab.on_run(visitor, form_values(tab))) == []
    assert not visitor.stop.is_set()
    runs.on_stop(visitor)
    assert tab.parts["stop"] in tab.on_click(visitor)  # it ends, and the new one takes its turn
    go_on.set()
    list(run.follow())
    assert not coming.on_arrived(visitor)[0]["visible"]


def test_an_open_page_costs_the_server_little(served):
    demo = served.demo
    described = SessionState(demo).config_values
    assert len(described) > 500
    assert not any(described.values())  # Gradio would describe every component once more: 1.4 MB
    assert demo.default_config.get_config()["components"][5]["props"]  # the page itself is described
    assert copy(copy(demo.default_config)).fns.keys() == demo.fns.keys()


def test_an_open_page_keeps_no_component_that_was_updated_but_those_with_another_menu(fakes):
    async def answered():
        with MendedBlocks(fakes.uploads) as demo:
            button, menu = gr.Button(), gr.Dropdown(["built"])
            button.click(dict, None, [button, menu])
        (event,) = demo.fns.values()
        state, updates = SessionState(demo), {button: gr.update(visible=False), menu: gr.update(choices=["other"])}
        shown = await demo.postprocess_data(event, updates, state)
        return shown, [state[one._id] is one for one in (button, menu)], state[menu._id].choices

    shown, are_built, choices = asyncio.run(answered())
    assert shown[0]["visible"] is False
    assert are_built == [True, False]
    assert choices == [("other", "other")]


@pytest.mark.parametrize("visibility", ["private", "public"])
def test_a_page_is_told_each_word_of_a_run_once_and_whole(fakes, visibility):
    words = [[gr.update(visible=False), "Waiting"], [gr.update(visible=True), "Waiting"], [gr.skip(), "Done"]]
    is_page = visibility == "private"

    async def told():
        with MendedBlocks(fakes.uploads) as demo:
            gr.Button().click(lambda: None, None, [gr.Button(), gr.HTML()], api_visibility=visibility)
        (event,) = demo.fns.values()
        return [
            demo.handle_streaming_diffs(event, list(word), session_hash="a", run="b", final=final, simple_format=False)
            for word, final in [*((word, False) for word in words), ([None, None], True)]
        ]

    first, second, third, last = asyncio.run(told())
    assert first == words[0]
    # What the page was told before, and may show only later, stays what it is.
    assert second == [[["replace", [], words[1][0]] if is_page else ["replace", ["visible"], True]], []]
    assert third[0] == [["replace", [], gr.skip()] if is_page else ["delete", ["visible"], None]]
    assert third[1] == [["replace", [], "Done"]]
    assert last == ([gr.skip()] * 2 if is_page else words[2])


def test_a_page_that_opens_knows_its_counts_and_asks_for_none(served):
    config = served.demo.get_config_file()
    components = {one["id"]: one for one in config["components"]}
    counts = [one for one in components.values() if (one["props"].get("elem_id") or "").endswith("-count")]
    assert len([one for one in counts if "pictures of" in str(one["props"].get("value"))]) == 2  # Explore, papers
    events = config["dependencies"]
    loads = [one for one in events if any(name == "load" for _, name in one["targets"])]
    back = {number for one in loads for number in one["outputs"] if components[number]["type"] == "state"}
    assert back  # arms, which a link may name: to Gradio's page each that comes back has changed
    assert not [one for one in events if any(number in back and name == "change" for number, name in one["targets"])]


def test_a_server_at_rest_looks_for_events_a_few_dozen_times_a_second(served, monkeypatch):
    looks, sleep = [0], asyncio.sleep

    async def counted(seconds, *result):
        looks[0] += 1
        return await sleep(seconds, *result)

    monkeypatch.setattr(asyncio, "sleep", counted)
    time.sleep(1)
    assert 5 < looks[0] < 100  # Gradio's own pace is a thousand


def explored(services, session="me"):
    settings = explore_settings(
        concept="nurse", model="calibration-renderer", n_images=3, n_attribute_images=1, attributes=("man",)
    )
    return complete(run_study(find_design("explore"), settings, services, session=session))


def test_a_page_keeps_the_name_of_a_report_and_the_server_nothing(fakes):
    report = explored(fakes)
    name, n = get_report_name(report, fakes), len(_UNSAVED._entries)
    assert name.partition(":")[0] == report.run_id
    assert find_report(name, fakes).run_id == report.run_id
    (fakes.settings.data_dir / "reports" / f"{report.run_id}.json").unlink()
    assert find_report(name, fakes) is None
    assert len(_UNSAVED._entries) == n


def test_a_page_shows_no_report_by_a_name_that_it_was_not_given(fakes):
    report = explored(fakes)
    name = get_report_name(report, fakes)
    for other in (report.run_id, f"{report.run_id}:", name[:-1], "x" + name, None, 5, "", ":", "ü:ü", [name]):
        assert find_report(other, fakes) is None, other


def test_a_report_that_nothing_would_open_again_is_kept_once(fakes):
    report = explored(fakes)
    results = replace(report.results, notes=("labels were corrected by hand",))
    other = replace(report, results=results)  # of the same run
    assert is_saved(report, fakes)
    assert not is_saved(other, fakes)
    name = get_report_name(other, fakes)
    assert name != get_report_name(report, fakes)
    assert name == get_report_name(replace(other), fakes)
    assert find_report(name, fakes).results is results


def test_the_real_page_is_compressed_for_who_can_read_that(served):
    request = urllib.request.Request(served.url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        compressed = answer.read()
    with urllib.request.urlopen(served.url) as answer:  # which asks for the text as it is
        assert answer.headers["content-encoding"] is None
        text = answer.read()
    assert gzip.decompress(compressed) == text
    assert len(compressed) < len(text) / 6
    # Where Gradio writes its page otherwise one day, it starts as slowly as without this.
    assert text.count(script("constant").encode()) == 1


services = shared.fake_services


@pytest.fixture(scope="module")
def tab(services):
    return built(Association, services)


def occupied(line, name):
    """A run that is at work, or waits, until it is closed."""

    def steps():
        yield

    run = line.run(steps, Requester(name=name))
    next(run)
    return run


def test_a_visitor_sees_the_place_in_line_and_a_full_line_gives_the_buttons_back(services, tab, monkeypatch):
    monkeypatch.setattr(services, "run_queue", RunQueue(at_once=1, waiting=2))
    others = [occupied(services.run_queue, name) for name in "ab"]
    values = form_values(tab)
    visitor = Visitor()
    run = tab.on_run(visitor, values)
    next(run)
    assert "2 runs are before yours" in next(run)[tab.parts["status"]]
    refused = list(tab.on_run(Visitor(), values))[-1]
    assert "try again in a few minutes" in refused[tab.parts["status"]]
    assert refused[tab.parts["run"]]["visible"]
    assert not refused[tab.parts["stop"]]["visible"]
    run.close()
    visitor.stop.set()  # it would go on without its page, beside later tests
    for other in others:
        other.close()


def test_what_is_too_much_is_refused_before_it_waits_in_line_and_the_count_says_the_limit(services, tab, monkeypatch):
    monkeypatch.setattr(services, "run_queue", RunQueue(at_once=1, waiting=1))
    others = [occupied(services.run_queue, name) for name in "ab"]  # who asks now is refused a place
    monkeypatch.setattr(services, "settings", services.settings.model_copy(update={"max_images": 20}))
    tools = Tools(services)
    arms = ["condition=fair", "condition=published"]
    calls = (
        lambda: tools.explore(concept="nurse", n_images=21),
        lambda: tools.run_study(study="t2iat-tests", scale=1.0),
        lambda: tools.compare(concept="nurse", arms=arms, n_images=11),
    )
    for call in calls:
        with pytest.raises(gr.Error, match="at most 20 here"):
            call()
    values = form_values(tab)
    *_, refused = tab.on_run(Visitor(), values)
    assert "at most 20 here" in refused[tab.parts["status"]]
    assert refused[tab.parts["run"]]["visible"]
    notes = refused[tab.parts["count"]], refused[tab.parts["model_note"]]
    assert notes == ("", "")  # the same is not said twice
    said = tab.describe_form_size(values)
    assert "at most 20 here" in said
    assert "ask for" in said  # and how to stay under it
    for other in others:
        other.close()


def test_an_address_is_what_the_last_public_proxy_saw(monkeypatch):
    for space, client, forwarded, address in (
        ("", "127.0.0.1", "8.8.8.8", ""),
        ("", "203.0.113.9", "8.8.8.8", "203.0.113.9"),
        ("me/space", "10.0.0.3", "1.1.1.1, 8.8.8.8, 10.1.2.3", "8.8.8.8"),
        ("me/space", "10.0.0.3", "made up, 8.8.4.4", "8.8.4.4"),
        ("me/space", "10.0.0.3", "", "10.0.0.3"),
    ):
        monkeypatch.setenv("SPACE_ID", space)
        headers = {"x-forwarded-for": forwarded} if forwarded else {}
        assert find_network_address(SimpleNamespace(client=SimpleNamespace(host=client), headers=headers)) == address
        assert find_network_address(None) == ""


def test_a_run_that_is_stopped_leaves_its_finished_pictures_and_shares_and_the_next_report_takes_their_place(
    tab, tmp_path
):
    rows = tuple(ImageRow(prompt="p", seed=seed, model="m") for seed in range(5))
    images = tuple(StoredImage(row=row, truth=None, path=tmp_path / f"{row.id}.png") for row in rows[:2])

    def stopped():
        yield Progress(message="", drawing=rows, total=5)
        yield Progress(message="", drawing=rows, total=5, done=2, images=images)
        raise Cancelled("stopped; what was finished is kept")

    last = list(tab.following(Visitor(), stopped(), "association"))[-1]
    assert "2 of 5 pictures finished" in last[tab.drawing.html]
    assert "what was finished is kept" in last[tab.parts["status"]]
    assert last[tab.parts["run"]]["visible"]
    assert tab.on_example(SimpleNamespace(example="science-and-arts"))[tab.drawing.html] == ""


def test_after_an_error_of_the_program_every_run_says_so_and_gives_its_buttons_back(served):
    demo, said = served.demo, {}
    events = demo.fns.values()
    own = [one for one in events if one.api_visibility == "private" and inspect.isgeneratorfunction(one.fn)]
    runs = {one._id for one in own if one.concurrency_limit is None}

    async def crash(event):
        with suppress(ValueError):  # of an output that it does not have
            answer = await demo.process_api(event, [], state=SessionState(demo))
            said[event.trigger_after] = answer["data"]

    async def crash_all():
        for event in events:
            if event.trigger_only_on_failure:
                await crash(event)

    asyncio.run(crash_all())
    assert said.keys() == runs
    for shown in said.values():
        assert any("the program has an error" in str(one) for one in shown)
        assert any(one.get("visible") is False for one in shown if isinstance(one, dict))  # Stop
