"""No event ends the queue of events, and no stranger's calls drop a visitor's results, on a small page of Gradio."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import gradio as gr
import httpx
import pytest
from gradio.server_messages import ProcessStartsMessage

from bias_core.app import gradio_faults
from bias_core.app.gradio_faults import steady_queue
from tests.attack.page import PREFIX
from tests.ui.served import _free_port

STRANGER, VISITOR = "203.0.113.7", "198.51.100.9"


def quick(text: str) -> str:
    return text


def long_answer(n: int) -> str:
    return "x" * int(n)


def steps(n: int) -> Iterator[str]:
    for i in range(int(n)):
        yield f"{i} " + "x" * 100_000
        time.sleep(0.02)


GO_ON = threading.Event()


def slow() -> str:
    GO_ON.wait(20)
    return "done"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A page with four tools and the queue of the app."""

    async def launched():  # in a loop, for Gradio would else make some that nobody closes
        with gr.Blocks(analytics_enabled=False) as page:
            for tool in (quick, long_answer, steps, slow):
                gr.api(tool, api_name=tool.__name__)
        steady_queue(page, default_concurrency_limit=4)
        options = {"server_name": "127.0.0.1", "server_port": _free_port(), "_frontend": False, "ssr_mode": False}
        page.launch(quiet=True, prevent_thread_lock=True, **options)
        return page

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("cache")))
        page = asyncio.run(launched())
        yield page
        page.close(verbose=False)


@pytest.fixture
def client(demo):
    with httpx.Client(base_url=demo.local_url, timeout=20, verify=False) as client:
        yield client
        assert result(client, call(client, "quick", ["still here"])) == ["still here"]


def call(client, tool, values, address=VISITOR, **more):
    """Call a tool from an address; its event."""
    headers = {"x-forwarded-for": address}
    asked = client.post(f"{PREFIX}/call/{tool}", json={"data": values, **more}, headers=headers)
    return asked.json()["event_id"] if asked.status_code == 200 else asked


def result(client, event):
    text = client.get(f"{PREFIX}/call/any/{event}").text
    last = text.rstrip().rsplit("event: ", 1)[-1]
    return json.loads(last.split("data: ", 1)[1]) if last.startswith("complete") else None


def number_of(demo, tool):
    return next(number for number, event in demo.fns.items() if event.api_name == tool)


def wait_until(is_so):
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never came")


def test_events_of_a_session_without_a_name_end_nothing(demo, client):
    body = {"data": ["a"], "fn_index": number_of(demo, "quick"), "session_hash": ""}
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: client.post(f"{PREFIX}/queue/join", json=body), range(32)))
    assert {one.status_code for one in asked} == {200}


def test_events_whose_session_is_gone_end_nothing(demo, client):
    for _ in range(3):
        events = [call(client, "slow", []) for _ in range(8)]
        for event in events[::2]:
            for session, ids in list(demo._queue.pending_event_ids_session.items()):
                if event in ids:
                    del demo._queue.pending_messages_per_session[session]
        GO_ON.set()
        assert [result(client, event) for event in events[1::2]] == [["done"]] * 4
        GO_ON.clear()


def test_an_error_in_the_loop_ends_neither_it_nor_what_is_at_work(demo, client, monkeypatch, caplog):
    event = call(client, "slow", [])
    wait_until(lambda: demo._queue.get_active_worker_count() == 1)
    get_events, n = demo._queue.get_events, 0

    def broken():
        nonlocal n
        n += 1
        if n < 4:
            raise RuntimeError("planted")
        return get_events()

    monkeypatch.setattr(demo._queue, "get_events", broken)
    with caplog.at_level(logging.ERROR):
        assert result(client, call(client, "quick", ["a"])) == ["a"]
    assert n >= 4
    assert "planted" in caplog.text
    assert not demo._queue.stopped
    GO_ON.set()
    assert result(client, event) == ["done"]
    GO_ON.clear()


def test_unread_results_of_a_stranger_have_a_limit_and_drop_no_visitors(demo, client, monkeypatch):
    monkeypatch.setattr(gradio_faults, "_MOST_UNREAD", 2_000_000)
    mine = call(client, "long_answer", [10_000])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: call(client, "quick", ["unread"], STRANGER), range(300)))
        list(pool.map(lambda _: call(client, "long_answer", [300_000], STRANGER), range(10)))
    boxes = demo._queue.pending_messages_per_session
    wait_until(lambda: not demo._queue.event_ids_to_events)
    assert boxes.n_bytes_of.total() <= 2_000_000
    assert len(demo._queue.pending_event_ids_session) <= len(boxes)
    assert len(boxes) < 250
    assert result(client, mine) == ["x" * 10_000]


def test_unread_results_of_one_session_have_a_limit_and_its_event_ends(demo, client, monkeypatch):
    monkeypatch.setattr(gradio_faults, "_MOST_OF_SESSION", 1_000_000)
    event, name = call(client, "steps", [1000], session_hash="greedy"), "greedy"
    wait_until(lambda: event not in demo._queue.event_ids_to_events)
    assert name not in demo._queue.pending_messages_per_session
    assert name not in demo._queue.pending_event_ids_session
    assert result(client, call(client, "steps", [3], session_hash="greedy")) is not None


def test_a_session_that_is_read_has_no_limit(demo, client, monkeypatch):
    monkeypatch.setattr(gradio_faults, "_MOST_OF_SESSION", 2_000_000)
    assert result(client, call(client, "steps", [40]))[0].startswith("39 ")


def test_what_is_read_of_a_box_that_is_gone_is_not_counted_twice():
    boxes = gradio_faults._Boxes({})
    for session in ("gone", "here"):
        boxes[session] = gradio_faults._Box(STRANGER, boxes.n_bytes_of)
        boxes[session].put_nowait(ProcessStartsMessage(eta=None))
    before, box = boxes["here"].n_bytes, boxes["gone"]
    del boxes["gone"]
    assert box.get_nowait()
    assert boxes.n_bytes_of == {STRANGER: before}


def test_waiting_events_have_a_limit_and_one_address_takes_half(demo, client, monkeypatch):
    monkeypatch.setattr(gradio_faults, "_MOST_EVENTS", 20)
    asked = [call(client, "slow", [], STRANGER) for _ in range(15)]
    refused = [one for one in asked if not isinstance(one, str)]
    assert len(refused) == 5
    assert all(one.status_code == 503 and "Try again" in one.json()["detail"] for one in refused)
    mine = call(client, "slow", [])
    GO_ON.set()
    assert result(client, mine) == ["done"]
    wait_until(lambda: not demo._queue.event_ids_to_events)
    GO_ON.clear()


def test_unread_estimates_do_not_pile_up(demo, client):
    events = [call(client, "slow", [], session_hash="waits") for _ in range(200)]
    assert demo._queue.pending_messages_per_session["waits"].qsize() < 60
    GO_ON.set()
    wait_until(lambda: not demo._queue.event_ids_to_events)
    GO_ON.clear()
    assert demo._queue.pending_messages_per_session["waits"].qsize() < 60 + 2 * len(events)


def test_nothing_is_kept_of_a_session_that_was_read(demo, client):
    for i in range(30):
        assert result(client, call(client, "quick", ["a"], session_hash=f"once-{i}")) == ["a"]
    boxes = demo._queue.pending_messages_per_session
    assert all(boxes[name].n_bytes < 10_000 for name in boxes if name.startswith("once"))
    assert len(demo._queue.event_analytics) <= 1
    wait_until(lambda: not demo._queue.event_ids_to_events)
