"""Whatever a program or a rater sends, it gets a sentence, and the server lives; for how quickly see bench."""

import json
from functools import cache

import gradio as gr
import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from bias_core.app.api import Tools
from bias_core.app.gradio_faults import _is_of_inputs
from bias_core.labels.api import LabelDoor
from bias_core.study.design import list_designs
from tests.attack.bad_inputs import BAD_OPTIONS, call, fault, mcp_calls, odd_calls, parameters, sentence_fault, table
from tests.labels.raters import answer_to, every_row, joined, new_id, open_task, to_join
from tests.ui.fakes import FakeServices


@pytest.fixture
def client(served, monkeypatch):
    monkeypatch.setattr("bias_core.app.api.list_designs", cache(list_designs))  # else each call reads all
    with httpx.Client(base_url=served.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
def none_drawn(tmp_path, monkeypatch):
    """One picture a run: whatever could be drawn is refused for that."""
    monkeypatch.setattr("bias_core.app.api.list_designs", cache(list_designs))  # else each call reads all
    services = FakeServices(tmp_path / "data")
    services.settings = services.settings.model_copy(update={"max_images": 1})
    yield services
    services.close()


def files(folder):
    return {path for path in folder.rglob("*") if "data" not in path.relative_to(folder).parts}


def test_every_parameter_with_every_bad_value_is_refused_in_a_sentence(none_drawn, client):
    tools = Tools(none_drawn)
    declared = parameters(client)
    n = 0
    for endpoint, words, content in list(table(declared))[::5]:
        try:
            values = json.loads(content)["data"]
        except (ValueError, RecursionError):
            continue  # no JSON that could be read: refused before any tool, as shown below
        if endpoint.startswith("list_") and words == "detail: null":
            continue  # the default, for which a list needs no picture
        run = getattr(tools, endpoint)
        names = [parameter["parameter_name"] for parameter in declared[endpoint]]
        with pytest.raises(gr.Error) as refused:
            run(**dict(zip(names, values, strict=True)))
        assert not sentence_fault(refused.value.message), (endpoint, words, refused.value.message)
        n += 1
    assert n > 350


def test_every_option_of_every_kind_of_study_with_a_bad_value_is_refused_in_a_sentence(none_drawn):
    tools, n = Tools(none_drawn), 0
    kinds = {(design.kind, option): design for design in list_designs() for option in design.options}
    for (_, option), design in kinds.items():
        bad = BAD_OPTIONS[n % len(BAD_OPTIONS)]
        n += 1
        with pytest.raises(gr.Error) as refused:
            tools.run_study(design.name, options=[f"{option}={bad}"], scale=1.0)
        assert not sentence_fault(refused.value.message), (design.name, option, bad)
    assert n > len(BAD_OPTIONS)


def test_bad_calls_over_http_have_a_sentence_and_the_server_lives(client, served):
    before = files(served.data_dir.parent)
    declared = parameters(client)
    # Every endpoint and every bad value is there; all of their pairs are in bench/bad_inputs.py.
    rows = [*odd_calls(declared), *list(table(declared))[::97]]
    faults = [(e, words, said) for e, words, content in rows if (said := fault(call(client, e, content)))]
    assert not faults
    assert client.get("/").status_code == 200
    assert not {path for path in files(served.data_dir.parent) - before if path.suffix not in {".json", ""}}


def test_bad_calls_over_mcp_have_a_sentence_and_the_server_lives(client):
    faults = [(words, said) for words, said, _ in mcp_calls(client, parameters(client), every=67) if said]
    assert not faults
    assert client.get("/gradio_api/mcp/schema").status_code == 200


BAD = (
    None, True, -1, 2**63, 10**400, 1.5, "", "\x00", "x" * 300, "ü" * 200, "../../etc/passwd", "~nobody",
    [], {}, [[[[]]]], {"$ne": ""}, "' OR 1=1 --", "{0.__class__}",
)  # fmt: skip
RAW = (
    b'{"id": "\\ud800"}', b"\xed\xa0\x80", b"[" * 4000, b'{"a":' * 600, b"NaN", b"1" * 4000, b"{" * 5000, b"",
    b'{"id": "aaaaaaaa", "id": 5}', b"\x00",
)  # fmt: skip
IDS = ("%ED%A0%80", "%00", "x" * 300, "%C3%BC" * 200, "%F0%9F%92%A3", "~nobody", "%ff")


def test_every_bad_input_at_the_raters_door_has_a_sentence_and_changes_nothing(fakes, tmp_path):
    task = open_task(fakes.labels, tmp_path, 2)
    door = LabelDoor(fakes, clock=iter(range(10**6)).__next__)  # a second passes between two requests
    with TestClient(Starlette(routes=door.routes())) as client:
        me = joined(client, task)
        turn = client.get("/label/next", headers=me).json()
        good = {
            "join": to_join(client, task.join_code),
            "answer": answer_to(turn),
            "skip": {"id": new_id(), "item": turn["item"]},
            "undo": {"id": new_id()},
            "exclude": {"rater": "rater-0", "excluded": True},
        }
        before = every_row(fakes.labels)
        headers = me | {"X-Owner-Key": task.key.text, "Content-Type": "application/json"}

        def refused(method, path, **sent):
            reply = client.request(method, path, **sent)
            assert 400 <= reply.status_code < 500, (path, sent)
            said = reply.json()
            assert set(said) == {"error"}, (path, sent)
            assert 10 < len(said["error"]) < 300, (path, said)

        for route, body in good.items():
            bodies = [json.dumps(body | {field: bad}) for field in body for bad in BAD if bad != body[field]]
            for content in (*bodies, *RAW):
                refused("POST", f"/label/{route}", content=content, headers=headers)
        for name in IDS:
            for room in ("task", "picture"):
                refused("GET", f"/label/{room}/{name}")
            for header in ("X-Rater-Code", "X-Owner-Key"):
                for method, path in (("GET", "next"), ("GET", "mine"), ("DELETE", "mine"), ("DELETE", "task")):
                    refused(method, f"/label/{path}", headers={header: name})
        assert every_row(fakes.labels) == before
        assert client.get("/label/next", headers=me).json() == turn


WRONG = ({}, [], "x", 5, True, [[{}]], {"a": [1]}, -1e308, "../../etc/passwd", ["a", {}])
EVENT_DATA = (None, 5, "x", [], {}, {"index": "x", "value": {}}, {"value": [{}], "index": [9, 9], "again": 5}, ["run"])


def test_private_events_sent_anything_answer_with_a_sentence_and_a_line_in_the_log(client, capfd, caplog):
    config = client.get("/config").json()
    values = {component["id"]: component["props"].get("value") for component in config["components"]}
    private = [
        event for event in config["dependencies"] if event["backend_fn"] and event["api_visibility"] == "private"
    ]
    n = 0
    for i, event in enumerate(private[::17]):
        inputs = event["inputs"]
        sent = [([value] * len(inputs), None) for value in WRONG[i % 5 :: 5]]
        sent += [([values[one] for one in inputs], data) for data in EVENT_DATA[i % 4 :: 4]]
        for data, event_data in (*sent, ([{}], None), ([], None)):
            body = {"data": data, "fn_index": event["id"], "session_hash": f"wrong-{i % 7}", "event_data": event_data}
            reply = client.post("/gradio_api/run/predict", json=body)
            assert reply.status_code in (200, 500), reply.text
            if reply.status_code == 500:
                n += 1
                assert not sentence_fault(reply.json()["error"]), (event["id"], data, event_data)
    assert n > 25
    assert "Traceback" not in "".join(capfd.readouterr())
    lines = [record.getMessage() for record in caplog.records if "unreadable inputs" in record.getMessage()]
    assert len(lines) > 25
    assert all("\n" not in line and len(line) < 400 for line in lines)
    assert not any(record.exc_info for record in caplog.records)


def test_an_error_in_a_run_that_has_begun_keeps_its_traceback():
    for place, is_of_inputs in (("bias_core.run.run_queue", False), ("bias_core.ui.study.form", True)):
        with pytest.raises(TypeError) as raised:
            exec("1 + ''", {"__name__": place})
        assert _is_of_inputs(raised.value, is_private=True) == is_of_inputs
    assert not _is_of_inputs(RuntimeError("out of memory"), is_private=True)


def test_a_stream_of_an_unknown_session_says_so_and_ends_without_a_traceback(client, capfd, caplog):
    for path in ("queue/data?session_hash=unknown", "call/list_models/unknown"):
        reply = client.get(f"/gradio_api/{path}")
        assert reply.status_code == 200
        assert "404" in reply.text
    assert "Traceback" not in "".join(capfd.readouterr())
    assert not any(record.exc_info for record in caplog.records)


def no_such_things():
    """Method, path and body of what is not there, or has other inputs."""
    long = "x" * 5000
    for path in (f"static/{long}", f"assets/{long}", f"gradio_api/file={long}", "gradio_api/proxy=%00", "pwa_icon/9"):
        yield from (("GET", path, None), ("HEAD", path, None))
    for number in (10**6, -1, None):
        for route in ("queue/join", "run/nothing", "call/nothing", f"call/{long}"):
            body = {"data": [], "fn_index": number, "session_hash": "asks"}
            yield "POST", f"gradio_api/{route}", body
    for data in ({}, {"zzz": 1}, [], None, 5):
        for tool in ("explore", "nothing"):
            yield "POST", f"gradio_api/call/v2/{tool}", {"data": data}
            yield "POST", f"gradio_api/call/v2/{tool}", data
    body = {"session_hash": "a", "component_id": 10**9, "fn_name": "__class__", "data": 1}
    yield "POST", "gradio_api/component_server", body


def test_what_is_not_there_has_a_sentence_and_a_line_in_the_log(client, capfd, caplog):
    n = 0
    for method, path, body in no_such_things():
        reply = client.request(method, f"/{path}", json=body)
        assert reply.status_code < 500, (method, path, body)
        n += reply.status_code == 400
    assert n > 20
    assert "Traceback" not in "".join(capfd.readouterr())
    lines = [record.getMessage() for record in caplog.records if "was not answered" in record.getMessage()]
    assert len(lines) > 20
    assert all(len(line) < 400 for line in lines)
    assert not any(record.exc_info for record in caplog.records)
