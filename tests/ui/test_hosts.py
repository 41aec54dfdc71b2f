"""A page that makes its own name point here (DNS rebinding) gets nothing; nor do other sites' scripts."""

import asyncio
import json
from itertools import product

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse

from bias_core.app.doors import HostCheck, allowed_hosts
from bias_core.app.gradio_faults import StreamEnd
from bias_core.app.request_limits import RequestLimits
from bias_core.settings import Settings

PATHS = ("/", "/config", "/label/next", "/gradio_api/mcp/", "/gradio_api/queue/data")


def asked(settings, host, path="/", method="GET", origin=""):
    def answer(_):
        return PlainTextResponse("here")

    check = Middleware(HostCheck, hosts=allowed_hosts(settings, "127.0.0.1"), public=settings.public)
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])], middleware=[check])
    headers = {"host": host} | ({"origin": origin} if origin else {})
    return int(TestClient(app).request(method, path, headers=headers).status_code)


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    for name in ("SPACE_ID", "SPACE_HOST", "BIAS_PUBLIC"):
        monkeypatch.delenv(name, raising=False)


OURS = ("localhost", "localhost:7860", "LocalHost:1", "127.0.0.1:7860", "[::1]:7860", "192.168.1.5", "my.lab:80")
OTHERS = (
    "evil.example", "localhost.evil.example", "evil.example:7860", "", "my.lab.evil", "[", "127.0.0.1.x",
    "evil@127.0.0.1", "evil.example@localhost", "a:b@[::1]", "[::1]evil", "[::1]evil.example:80", "evil[::1]", "[::1",
    "::1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:80:80", "127.0.0.1/evil", "127.0.0.1?evil", "127.0.0.1#evil",
    "localhost:7860/evil", "localhost evil", "localhost\tevil", "localhost,evil", "localhost\\evil", "localhost;",
    "[localhost]", "[127.0.0.1]evil", "[::1%25evil]", "0x7f.1", "2130706433", "127.1", "localhost:999999",
)  # fmt: skip


def test_names_of_this_machine_and_of_the_settings_are_answered_and_others_refused_on_every_path():
    for host in OURS:
        assert asked(Settings(allowed_hosts="my.lab, other.lab"), host) == 200, host
    for host, path in product(OTHERS, PATHS):
        assert asked(Settings(allowed_hosts="my.lab"), host, path) == 421, (host, path)


def test_a_websocket_under_another_name_is_refused():
    check = Middleware(HostCheck, hosts=allowed_hosts(Settings(), ""), public=False)
    app = Starlette(routes=[WebSocketRoute("/", lambda _: None)], middleware=[check])
    with (
        TestClient(app) as client,
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/", headers={"host": "evil.example"}),
    ):
        pass
    assert refused.value.status_code == 421


def test_scripts_of_other_sites_use_no_tool_and_change_nothing_at_home():
    odd = ("http://evil@127.0.0.1", "http://[::1]evil", "http://localhost/evil", "http://localhost:80@evil.example")
    for origin in ("https://evil.example", "null", "http://10.1.1.1", "file://localhost", "//localhost.evil", *odd):
        assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", origin) == 403
        assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/mcp/", "GET", origin) == 403
        assert asked(Settings(public=True), "localhost", "/gradio_api/call/explore", "POST", origin) == 200
    assert asked(Settings(), "localhost", "/gradio_api/mcp/", "POST", "http://localhost:6274") == 200
    assert asked(Settings(), "localhost", "/gradio_api/queue/join", "POST", "http://127.0.0.1:7860") == 200


def test_a_space_answers_under_its_own_host(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "me/space")
    monkeypatch.setenv("SPACE_HOST", "me-space.hf.space")
    assert asked(Settings(), "me-space.hf.space") == 200
    assert asked(Settings(), "other-space.hf.space") == 421


def test_what_is_pressed_while_a_stream_of_answers_ends_waits_for_the_page_to_know_and_a_new_stream_does_not():
    async def gradio(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        if scope["path"].endswith("join"):
            await receive()
        elif not scope.get("is_new"):
            await send({"type": "http.response.body", "body": b'data: {"msg":"close_stream"}', "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def both():
        door, left, sent = RequestLimits(StreamEnd(gradio)), asyncio.Event(), []

        async def disconnect():
            await left.wait()
            return {"type": "http.disconnect"}

        async def press(page):
            async def body():
                return {"type": "http.request", "body": json.dumps({"session_hash": page}).encode()}

            await door(scope | {"path": "/gradio_api/queue/join", "method": "POST"}, body, answered)

        async def answered(message):
            sent.append(message["type"])

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/gradio_api/queue/data",
            "query_string": b"session_hash=mine",
        }
        scope["headers"] = []
        stream = asyncio.create_task(door(scope, disconnect, answered))
        await asyncio.sleep(0.01)
        await press("other")
        sent.clear()
        await asyncio.wait_for(door(scope | {"is_new": True}, disconnect, answered), 1)
        assert sent == ["http.response.start", "http.response.body"]
        mine = asyncio.create_task(press("mine"))
        await asyncio.sleep(0.05)
        assert not mine.done()
        left.set()
        await asyncio.wait_for(asyncio.gather(mine, stream), 2)
        await press("mine")

    asyncio.run(both())
