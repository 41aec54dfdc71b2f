"""Limits on what one request may bring, and under which names, for any route."""

import asyncio
import json
import socket
import time
from urllib.parse import quote

import httpx
import psutil
import pytest
from starlette.testclient import TestClient

from bias_core.app import request_limits
from bias_core.app.request_limits import RequestLimits
from tests.attack.page import PREFIX, PageVisitor
from tests.ui.served import serving

ODD = ("", " ", "x" * 65, "x" * 20_000, "a/b", "a b", "ü", "a\n", "..", "a_3<gradio-sep>", "%", "\u0000", "١")
BODIES = ("queue/join", "run/predict", "api/predict", "call/explore", "call/v2/explore", "cancel")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server in a process of its own, whose memory is its own."""
    with serving(tmp_path_factory.mktemp("attacked"), GRADIO_ANALYTICS_ENABLED="False") as found:
        yield found


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as client:
        yield client
        assert client.get("/").status_code == 200


def refused(reply, *status):
    """Return true if a reply is a sentence with one of these states."""
    assert reply.status_code in status, (reply.status_code, reply.text[:200])
    said = reply.json()
    assert 20 < len(said["detail"]) < 200
    return said["detail"] == said["error"]


def test_every_route_refuses_a_session_name_that_is_none_and_the_queue_goes_on(client, server):
    visitor = PageVisitor(server.url)
    visitor.open()
    tool = next(d["id"] for d in visitor.config["dependencies"] if d["api_name"] == "list_models")
    for name in (*ODD, 5, [], {}, True):
        body = {"data": [], "fn_index": tool, "session_hash": name, "event_id": "a", "component_id": 1, "fn_name": "a"}
        for route in BODIES:
            assert refused(client.post(f"{PREFIX}/{route}", json=body), 400), (route, name)
        escaped = json.dumps(body).replace("session_hash", "session\\u005fhash")
        assert refused(client.post(f"{PREFIX}/queue/join", content=escaped), 400), name
    for name in ODD:
        for path in (f"{PREFIX}/queue/data", "/config"):
            reply = client.get(path, params=[("session_hash", name), ("session_hash", "good")])
            assert refused(reply, 400, 414), (path, name)
        if name not in ("", "a/b", "..", "x" * 20_000):  # which are other paths
            assert refused(client.get(f"{PREFIX}/heartbeat/{quote(name, safe='')}"), 400), name
    visitor.open()


def test_names_that_clients_send_are_taken_and_a_missing_one_is_made(client):
    for name in ("0abcdefghi1", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "x" * 64):
        asked = client.post(f"{PREFIX}/call/list_models", json={"data": ["summary"], "session_hash": name})
        assert asked.status_code == 200, asked.text
    for body in ({"data": ["summary"]}, {"data": ["summary"], "session_hash": None}):
        event = client.post(f"{PREFIX}/call/list_models", json=body).json()["event_id"]
        assert "event: complete" in client.get(f"{PREFIX}/call/list_models/{event}").text


def chunks(body):
    for start in range(0, len(body), 60_000):
        yield body[start : start + 60_000]


def test_too_large_and_too_deep_bodies_are_refused_before_they_are_parsed_and_leave_no_memory(client, server):
    process = psutil.Process(server.pid)
    client.post(f"{PREFIX}/queue/join", json={})
    before = process.memory_info().rss
    large = json.dumps({"data": ["x" * 8_000_000], "session_hash": "a"}).encode()
    many = json.dumps({"data": [[]] * 400_000}).encode()
    deep = b'{"data": ' + b"[" * 60 + b"]" * 60 + b"}"
    in_texts = json.dumps({"data": ["[,{" * 100_000, '\\"[' * 1000], "session_hash": "a", "fn_index": 10**6}).encode()
    for route in (*(f"{PREFIX}/{one}" for one in BODIES), "/label/join", f"{PREFIX}/reset", "/"):
        assert refused(client.post(route, content=large), 413), route
        assert refused(client.post(route, content=chunks(large)), 413), route
        assert refused(client.post(route, content=many), 413), route
        assert refused(client.post(route, content=deep), 413), route
    as_json = {"content-type": "application/json"}
    read = client.post(f"{PREFIX}/queue/join", content=in_texts, headers=as_json)
    assert "no such event" in read.json()["error"]
    mcp = client.post(f"{PREFIX}/mcp/", content=large)
    assert mcp.status_code == 413
    assert mcp.json()["error"]["message"]
    assert process.memory_info().rss - before < 100_000_000


def test_files_are_taken_by_the_upload_alone(client):
    form = {"component_id": "1", "session_hash": "a", "fn_name": "a"}
    reply = client.post(f"{PREFIX}/queue/join", data=form, files={"files": ("a.png", b"x" * 100)})
    assert refused(reply, 415)
    assert client.post(f"{PREFIX}/upload", files={"files": ("a.png", b"x" * 3_000_000)}).status_code == 200


def raw(server, *parts, wait=0.0):
    """Send bytes, as far as the server takes them, and return its answer."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        n, told = 0, b""
        try:
            for part in parts:
                connection.sendall(part)
                n += len(part)
                time.sleep(wait)
            while got := connection.recv(65536):
                told += got
                if b"\r\n\r\n" in told:
                    break
        except OSError:
            pass
        return n, told.split(b"\r\n", 1)[0].decode()


def test_a_head_without_an_end_is_refused_whatever_in_it_is_long(server, client):
    begun = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
    chunked = b"POST /label/join HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    endless = (
        (begun, b"a: ", *[b"x" * 50_000] * 400),
        (begun, *[b"x" * 50_000] * 400),
        (b"GET /", *[b"x" * 50_000] * 400),
        (begun, *[b"a: b\r\n" * 9000] * 400),
        (chunked, b"1\r\nx\r\n0\r\n", b"a: ", *[b"x" * 50_000] * 400),
        (chunked, b"1;", *[b"x" * 50_000] * 400),
    )
    before = psutil.Process(server.pid).memory_info().rss
    for parts in endless:
        n, told = raw(server, *parts)
        assert n < 10_000_000 or "431" in told, (parts[:3], n, told)
        assert not told or "431" in told or "400" in told, (parts[:3], told)
    assert "431" in raw(server, begun, b"a: " + b"x" * 40_000 + b"\r\n\r\n")[1]
    assert "431" in raw(server, begun, b"a: b\r\n" * 101 + b"\r\n")[1]
    assert "414" in raw(server, b"GET /?" + b"x" * 17_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")[1]
    assert "200" in raw(server, begun, b"a: b\r\n" * 90 + b"b: " + b"x" * 20_000 + b"\r\n\r\n")[1]
    assert psutil.Process(server.pid).memory_info().rss - before < 100_000_000


def test_a_head_that_takes_too_long_is_ended(monkeypatch):
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    class Transport:
        is_aborted = False

        def abort(self):
            self.is_aborted = True

        def get_extra_info(self, _name):
            return None

    async def slow():
        monkeypatch.setattr(request_limits, "_MOST_SECONDS_OF_HEAD", 0.01)
        config = Config(app=Behind(), ws="none", interface="asgi3")
        config.load()
        told = {}
        whole = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
        for name, data in (("slow", b"GET / HTTP/1.1\r\na:"), ("silent", b""), ("whole", whole)):
            protocol, told[name] = request_limits.TimedHeads(config, ServerState(), {}), Transport()
            protocol.connection_made(told[name])
            protocol.run = lambda *_: None
            if data:
                protocol.data_received(data)
        await asyncio.sleep(0.05)
        return [transport.is_aborted for transport in told.values()]

    assert asyncio.run(slow()) == [True, True, False]


def test_unread_pages_take_no_memory(server, client):
    host, port = server.url.removeprefix("http://").split(":")
    asked = b"GET /%b HTTP/1.1\r\nhost: localhost\r\n\r\n"
    before, connections = psutil.Process(server.pid).memory_info().rss, []
    for i in range(80):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        connection.sendall(asked % (b"config" if i % 2 else b""))
        connections.append(connection)
    assert client.get("/config").status_code == 200
    time.sleep(0.5)
    assert psutil.Process(server.pid).memory_info().rss - before < 60_000_000  # 160 MB were asked for
    for connection in connections:
        connection.close()


# In this process: the door alone, before an app that takes what comes.


class Behind:
    """An app that reads its body, waits where it is told to, and answers what it read."""

    def __init__(self):
        self.bodies, self.go_on = [], asyncio.Event()

    async def __call__(self, scope, receive, send):
        body, more = b"", scope["method"] == "POST"
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        if scope["path"] == "/wait":
            await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


def scope_of(path="/", address="1.2.3.4", **headers):
    heads = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    common = {"type": "http", "method": "POST", "query_string": b"", "scheme": "http", "root_path": ""}
    return common | {"path": path, "client": (address, 1), "headers": heads}


async def ask(door, scope, messages):
    """The status that comes of a request whose body arrives in these messages."""
    sent, messages = [], list(messages)

    async def receive():
        if messages:
            return messages.pop(0)
        return await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await door(scope, receive, send)
    return sent[0]["status"], len(messages)


def part(body, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_counted_as_it_arrives_whatever_its_headers_say():
    async def all_of_it():
        door = RequestLimits(Behind())
        endless = [part(b" " * 100_000)] * 100
        for headers in ({}, {"content_length": "5"}, {"content_length": "-5"}, {"content_length": "x"}):
            status, left = await ask(door, scope_of(**headers), endless)
            assert (status, left) == (413, 79)
        for length in ("3000000", "9" * 5000):
            assert await ask(door, scope_of(content_length=length), endless) == (413, 100)  # unread
        assert (await ask(door, scope_of(), [part(b" " * 1_900_000, more=False)]))[0] == 200

    asyncio.run(all_of_it())


def test_many_bodies_at_once_have_a_limit_of_one_address_and_leave_room_for_others():
    async def many():
        behind = Behind()
        door, body = RequestLimits(behind), [part(b" " * 1_900_000, more=False)]
        waiting = [asyncio.create_task(ask(door, scope_of("/wait"), body)) for _ in range(20)]
        await asyncio.sleep(0.05)
        full = [task.result()[0] for task in waiting if task.done()]
        assert full == [503] * 12
        assert len(behind.bodies) == 8
        assert (await ask(door, scope_of(address="5.6.7.8"), body))[0] == 200
        behind.go_on.set()
        await asyncio.gather(*waiting)
        assert (await ask(door, scope_of(), body))[0] == 200

    asyncio.run(many())


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch):
    monkeypatch.setattr("bias_core.app.request_limits._MOST_SECONDS", 0.01)
    assert asyncio.run(ask(RequestLimits(Behind()), scope_of(), [part(b"{")]))[0] == 408


def test_text_in_other_encodings_hides_nothing():
    client = TestClient(RequestLimits(Behind()))
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        hidden = json.dumps({"session_hash": "", "data": ["∢"]}, ensure_ascii=False).encode(encoding)
        assert refused(client.post("/gradio_api/queue/join", content=hidden), 400), encoding
    twice = '{"session_hash": "good", "session_hash": ""}'
    assert refused(client.post("/gradio_api/queue/join", content=twice.encode("utf-8-sig")), 400)
